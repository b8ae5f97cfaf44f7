//! Transactions to write, and readers to check the log.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use base::{Gtid, GtidSet, LogPosition, Tag, Uuid};
use binlog::{ChecksumAlgorithm, EventHeader, event_type};
use relay_log::boundary::BoundaryTracker;
use relay_log::{
    AppendMeta, Recovery, RelayError, RelayLog, RelayOptions, RelayPosition, RelayReader, RelayWriter, SyncPolicy,
    TailItem,
};
use tempfile::TempDir;
use testkit::log::{Author, dump_head};

pub(crate) const CRC: ChecksumAlgorithm = ChecksumAlgorithm::Crc32;
pub(crate) const NONE: ChecksumAlgorithm = ChecksumAlgorithm::None;
pub(crate) const LONG: Duration = Duration::from_secs(20);
pub(crate) const ZERO: Duration = Duration::ZERO;

/// A folder in memory if possible, because these tests sync a lot.
pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new().prefix("relay-test-").tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn options(dir: &Path) -> RelayOptions {
    RelayOptions { sync: SyncPolicy::Never, server_id: 77, ..RelayOptions::new(dir) }
}

const UUID: Uuid = Uuid([7; 16]);

pub(crate) fn gtid(gno: u64) -> Gtid {
    Gtid { uuid: UUID, tag: Tag::EMPTY, gno }
}

pub(crate) fn gtids(last: u64) -> GtidSet {
    let mut set = GtidSet::new();
    set.add_range(UUID, Tag::EMPTY, 1, last);
    set
}

/// A source: its log is one long stream of events.
pub(crate) struct Source {
    pub checksum: ChecksumAlgorithm,
    pub author: Author,
}

const SOURCE_FILE: &str = "binlog.000042";

impl Source {
    pub(crate) fn new(checksum: ChecksumAlgorithm) -> Source {
        Source { checksum, author: Author::at(UUID, checksum, 200) }
    }

    /// The events that it sends first.
    pub(crate) fn headers(&self) -> (Vec<u8>, Vec<u8>) {
        dump_head(SOURCE_FILE, self.checksum)
    }

    pub(crate) fn position(&self) -> LogPosition {
        LogPosition { file: SOURCE_FILE.into(), offset: self.author.writer.position() }
    }

    /// The next transaction, with one rows event of this size.
    pub(crate) fn transaction(&mut self, rows: usize) -> Vec<u8> {
        let seed = self.author.last + 1;
        self.author.transaction(|events| {
            events.sql("BEGIN");
            events.writer.event(event_type::WRITE_ROWS, 0, |out| {
                out.extend((0..rows).map(|i| (i as u64).wrapping_mul(seed + 17).to_le_bytes()[1]));
            });
            events.writer.xid(seed);
        });
        self.author.writer.take()
    }

    /// The next transaction as a statement, which `mysqlbinlog` can print in full.
    pub(crate) fn plain_transaction(&mut self) -> Vec<u8> {
        self.author.transaction(|events| {
            events.sql("BEGIN");
            events.sql("INSERT INTO t VALUES (1)");
            events.writer.xid(1);
        });
        self.author.writer.take()
    }

    /// Writes the next transaction.
    pub(crate) fn feed(&mut self, writer: &mut RelayWriter, rows: usize) -> relay_log::RelayPosition {
        let data = self.transaction(rows);
        let meta =
            AppendMeta { ends_transaction: true, gtids: &[gtid(self.author.last)], source_position: self.position() };
        writer.append(data, meta).unwrap()
    }
}

pub(crate) fn part(source: &Source) -> AppendMeta<'static> {
    AppendMeta { ends_transaction: false, gtids: &[], source_position: source.position() }
}

/// Opens the log and passes the source's headers.
pub(crate) fn connected(options: RelayOptions, source: &Source) -> (RelayWriter, Recovery) {
    let (mut writer, recovery) = RelayLog::open(options).unwrap();
    let (rotate, fde) = source.headers();
    writer.note_source_headers(&rotate, &fde).unwrap();
    (writer, recovery)
}

pub(crate) fn file_path(dir: &Path, number: u64) -> std::path::PathBuf {
    dir.join(format!("relay-bin.{number:06}"))
}

/// The bytes of all relay files after the magic, by number.
pub(crate) fn on_disk(dir: &Path) -> BTreeMap<u64, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if let Some(number) = entry.file_name().to_str().unwrap().strip_prefix("relay-bin.")
            && let Ok(number) = number.parse()
        {
            files.insert(number, std::fs::read(entry.path()).unwrap().get(4..).unwrap_or_default().to_vec());
        }
    }
    files
}

/// What a reader has returned.
#[derive(Default)]
pub(crate) struct Seen {
    pub files: BTreeMap<u64, Vec<u8>>,
    pub hot: usize,
    pub cold: usize,
    pub ended: Vec<(u64, u64)>,
}

impl Seen {
    /// Takes one item; returns false for Idle and Closed.
    pub(crate) fn take(&mut self, item: TailItem) -> bool {
        match item {
            TailItem::Chunk(chunk) => {
                let bytes = self.files.entry(chunk.file_number).or_default();
                assert_eq!(chunk.offset, bytes.len() as u64 + 4, "chunks follow each other");
                assert_eq!(&*chunk.file, format!("relay-bin.{:06}", chunk.file_number));
                assert!(!chunk.data.is_empty());
                bytes.extend(chunk.data.iter());
                if chunk.hot { self.hot += 1 } else { self.cold += 1 }
            }
            TailItem::EndOfFile { file_number, len } => {
                assert_eq!(self.files[&file_number].len() as u64 + 4, len);
                self.ended.push((file_number, len));
            }
            TailItem::Idle | TailItem::Closed => return false,
        }
        true
    }

    /// Reads until no more items arrive.
    pub(crate) fn drain(&mut self, tail: &mut RelayReader) {
        while self.take(tail.next(ZERO).unwrap()) {}
    }
}

/// Reads a stopped folder.
pub(crate) fn read_only(dir: &Path) -> Result<(Seen, Recovery), RelayError> {
    let (files, recovery) = relay_log::RelayFiles::open_read_only(dir)?;
    let mut tail = files.reader();
    let mut seen = Seen::default();
    loop {
        let item = tail.next(ZERO)?;
        if matches!(item, TailItem::Closed) {
            return Ok((seen, recovery));
        }
        assert!(!matches!(item, TailItem::Idle));
        seen.take(item);
    }
}

pub(crate) fn copy_folder(from: &Path) -> TempDir {
    let to = folder();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}

/// Every event of every file, read with the binlog crate's reader, which verifies checksums.
pub(crate) fn parse_all(dir: &Path) -> Vec<(u64, binlog::EventHeader)> {
    let mut events = Vec::new();
    for number in on_disk(dir).into_keys() {
        let mut file = binlog::reader::BinlogFile::open(file_path(dir, number)).unwrap();
        while let Some(event) = file.next_event().unwrap() {
            events.push((number, event.header));
        }
    }
    events
}

pub(crate) fn named(position: RelayPosition) -> LogPosition {
    LogPosition { file: relay_log::file_name(position.file_number).into(), offset: position.offset }
}

/// End of every transaction, by number; 0 is the start.
pub(crate) type Ends = Vec<LogPosition>;

/// A log of several files with 20 transactions, closed cleanly.
pub(crate) fn twenty(checksum: ChecksumAlgorithm) -> (TempDir, Ends) {
    let dir = folder();
    let mut source = Source::new(checksum);
    let (mut writer, _) = connected(RelayOptions { max_file_bytes: 2500, ..options(dir.path()) }, &source);
    let mut ends = vec![LogPosition { file: "relay-bin.000001".into(), offset: 4 }];
    for i in 0..20 {
        ends.push(named(source.feed(&mut writer, 200 + i * 10)));
        if i % 7 == 6 {
            // A reconnect: the source's headers appear in the middle of a file.
            let (rotate, fde) = source.headers();
            writer.note_source_headers(&rotate, &fde).unwrap();
        }
    }
    writer.close().unwrap();
    assert!(on_disk(dir.path()).len() >= 4);
    (dir, ends)
}

/// Reads to the end; checks that the chunks are contiguous and form a log from its first byte. Returns the
/// transactions.
pub(crate) fn transactions(tail: &mut RelayReader) -> Vec<Option<Gtid>> {
    let mut tracker = BoundaryTracker::new(NONE);
    let (mut found, mut data) = (Vec::new(), Vec::new());
    let mut at: Option<(u64, u64)> = None;
    loop {
        match tail.next(ZERO).unwrap() {
            TailItem::Chunk(chunk) => {
                assert!(at.is_none_or(|at| at == (chunk.file_number, chunk.offset)), "{at:?} {}", chunk.offset);
                at = Some((chunk.file_number, chunk.offset + chunk.data.len() as u64));
                data.extend_from_slice(&chunk.data);
            }
            TailItem::EndOfFile { file_number, len } => {
                assert_eq!(at, Some((file_number, len)));
                at = None;
            }
            TailItem::Idle | TailItem::Closed => break,
        }
        while let Ok(header) = EventHeader::parse(&data) {
            let len = header.event_len as usize;
            if len > data.len() {
                break;
            }
            let event: Vec<u8> = data.drain(..len).collect();
            // The format must be known before the first event that depends on it.
            assert!(tracker.checksum() == NONE || binlog::verify_checksum(&event));
            if tracker.step(&event).unwrap().transaction_ends {
                found.push(tracker.gtid());
            }
        }
    }
    assert!(data.is_empty() && !tracker.in_transaction());
    found
}

pub(crate) fn expected(first: u64, last: u64) -> Vec<Option<Gtid>> {
    (first..=last).map(|gno| Some(gtid(gno))).collect()
}

/// As `gtids`, but 0 gives the empty set.
pub(crate) fn executed(last: u64) -> GtidSet {
    if last == 0 { GtidSet::new() } else { gtids(last) }
}
