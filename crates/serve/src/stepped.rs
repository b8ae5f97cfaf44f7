//! A dump of a log that grows, stepped: for a server whose loop must not wait.
//!
//! In: the log, what the replica has, the time. Out: events, in packets of about [`STEP_BYTES`]. Never here: a wait, a
//! socket; a transaction that the replica has, or a part of one.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::GtidSet;
use base::limits::EVENT_LEN_MAX;
use binlog::{ChecksumAlgorithm, EventHeader, FormatDescription, GtidEvent, event_body, event_type};
use wire::command::{DUMP_HEARTBEAT_V2, DUMP_NON_BLOCK};

use crate::dump::Start;
use crate::events::DumpEvents;
use crate::files::opens;
use crate::served::{Gone, GrowingLog, Readable};

/// Bytes read, and put out, in one step.
pub const STEP_BYTES: usize = 128 << 10;
/// First event of a file, behind its magic number.
const FIRST: u64 = 4;

/// What a replica asks for, and how it wants it.
#[derive(Clone, Debug)]
pub struct DumpOptions {
    pub start: Start,
    /// Flags of the command.
    pub flags: u16,
    /// Its server_uuid, as text; empty if it did not say.
    pub server_uuid: String,
    /// Its `@source_heartbeat_period`; zero: it wants none.
    pub heartbeat_period: Duration,
    /// True if it expects a checksum in events that are in no file (`@source_binlog_checksum`).
    pub knows_checksums: bool,
    /// True if it acknowledges what it has.
    pub acknowledges: bool,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It put something out or read past it: the next step may follow once that is sent.
    Sent,
    /// All of the log was sent. Look again when the log has changed after this version, or at [`LogDump::wakes_at`].
    Waits(u64),
    /// All of the log was sent, and the replica asked for no more.
    Ended,
    /// The log began anew, without the file that was read: the replica must ask again.
    Anew,
}

/// Takes an event that is put out, and whether the replica is to acknowledge it.
pub type PutEvent<'p> = &'p mut dyn FnMut(&[u8], bool);

/// Why a dump ends: the text of error 1236.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DumpEnds(pub String);

pub struct LogDump {
    log: Arc<GrowingLog>,
    options: DumpOptions,
    number: u64,
    at: DumpEvents,
    /// The file that is read, by its number in the log.
    file: u64,
    open: Option<(u64, File)>,
    /// The next byte to read.
    offset: u64,
    /// True once the current file's name was sent.
    placed: bool,
    checksum: ChecksumAlgorithm,
    /// Transactions of the current part that the replica has, and whether the last one was one of them.
    left_out: bool,
    after_left_out: bool,
    last_put: Instant,
    buffer: Vec<u8>,
    transactions: u64,
}

impl std::fmt::Debug for LogDump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogDump({}:{})", self.at.file, self.at.position)
    }
}

impl Drop for LogDump {
    fn drop(&mut self) {
        self.log.dump_ended(&self.options.server_uuid, self.number);
    }
}

impl LogDump {
    /// Begins a dump.
    ///
    /// # Errors
    /// The log does not have what is asked for.
    pub fn begin(log: &Arc<GrowingLog>, options: DumpOptions, now: Instant) -> Result<LogDump, DumpEnds> {
        let (file, offset) = match &options.start {
            Start::After(executed) => {
                let first = log.first_file(executed).map_err(|missing| purged(executed, &missing))?;
                (first.unwrap_or_else(|| log.first_number()), FIRST)
            }
            Start::Place { file, position } => {
                let Some(number) = log.file_named(file) else {
                    return Err(DumpEnds("Could not find first log file name in binary log index file".to_owned()));
                };
                (number, u64::from(*position).max(FIRST))
            }
        };
        let number = log.dump_begins(&options.server_uuid);
        log.dump_reads(number, file, offset);
        if options.acknowledges {
            let executed = match &options.start {
                Start::After(executed) => executed.clone(),
                Start::Place { .. } => GtidSet::new(),
            };
            log.acks_begin(number, executed);
        }
        let checksum = if options.knows_checksums { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::None };
        Ok(LogDump {
            at: DumpEvents {
                server_id: log.server_id(),
                heartbeat_v2: options.flags & DUMP_HEARTBEAT_V2 != 0,
                checksum,
                file: String::new(),
                position: 0,
            },
            log: Arc::clone(log),
            options,
            number,
            file,
            open: None,
            offset,
            placed: false,
            checksum: ChecksumAlgorithm::Crc32,
            left_out: false,
            after_left_out: false,
            last_put: now,
            buffer: Vec::new(),
            transactions: 0,
        })
    }

    /// Takes an acknowledgement: the replica has everything up to an offset of a file.
    pub fn acknowledged(&self, file: &str, offset: u64) {
        self.log.acknowledge(self.number, file, offset, (self.file, self.offset));
    }

    /// Its number among the log's dumps, which grows with each one.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When a heartbeat is due.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Instant> {
        let period = self.options.heartbeat_period;
        if period.is_zero() { None } else { self.last_put.checked_add(period) }
    }

    /// Place of the last event sent or left out, and the number of transactions sent.
    #[must_use]
    pub fn place(&self) -> (&str, u64, u64) {
        (&self.at.file, self.at.position, self.transactions)
    }

    /// Puts out what comes next; `put` gets each event.
    ///
    /// # Errors
    /// The dump cannot go on.
    pub fn step(&mut self, now: Instant, put: PutEvent<'_>) -> Result<Step, DumpEnds> {
        if self.log.is_replaced(&self.options.server_uuid, self.number) {
            let text = "A replica with the same server_uuid/server_id as this replica has connected to the source";
            return Err(DumpEnds(text.to_owned()));
        }
        let version = self.log.version();
        let readable = match self.log.readable(self.file) {
            Ok(readable) => readable,
            Err(Gone { anew: true }) => return Ok(Step::Anew),
            Err(Gone { anew: false }) => {
                let text =
                    "Cannot replicate because the source purged required binary logs: the file that was read is gone";
                return Err(DumpEnds(text.to_owned()));
            }
        };
        let readable = readable.filter(|readable| readable.bytes > 0);
        let Some(readable) = readable else { return Ok(self.at_end(version, now, put)) };
        if self.open.as_ref().is_some_and(|(made, _)| *made != readable.made) {
            self.open = Some((readable.made, open(&readable)?));
        }
        if !self.placed {
            self.begin_file(&readable, now, put)?;
            return Ok(Step::Sent);
        }
        if self.offset >= readable.bytes {
            if readable.complete {
                (self.file, self.offset, self.open, self.placed) = (self.file + 1, FIRST, None, false);
                self.log.dump_reads(self.number, self.file, self.offset);
                return Ok(Step::Sent);
            }
            return Ok(self.at_end(version, now, put));
        }
        self.read(&readable, now, put)?;
        self.log.dump_reads(self.number, self.file, self.offset);
        if self.wakes_at().is_some_and(|at| at <= now) {
            self.heartbeat(now, put);
        }
        Ok(Step::Sent)
    }

    /// Nothing more is there.
    fn at_end(&mut self, version: u64, now: Instant, put: PutEvent<'_>) -> Step {
        let due = self.wakes_at().is_some_and(|at| at <= now);
        if !self.at.file.is_empty() && (std::mem::take(&mut self.after_left_out) || due) {
            self.heartbeat(now, put);
        } else if due {
            // No file has begun, and a heartbeat has no place yet.
            self.last_put = now;
        }
        if self.options.flags & DUMP_NON_BLOCK != 0 { Step::Ended } else { Step::Waits(version) }
    }

    fn heartbeat(&mut self, now: Instant, put: PutEvent<'_>) {
        put(&self.at.heartbeat(), false);
        self.last_put = now;
    }

    /// Names the file, and sends its format description if the dump begins inside it.
    fn begin_file(&mut self, readable: &Readable, now: Instant, put: PutEvent<'_>) -> Result<(), DumpEnds> {
        self.open = Some((readable.made, open(readable)?));
        if self.offset > readable.bytes {
            let text = "Client requested source to start replication from position > file size";
            return Err(DumpEnds(text.to_owned()));
        }
        put(&self.at.place(&readable.name, self.offset), false);
        self.placed = true;
        self.last_put = now;
        if self.offset > FIRST {
            let end = readable.bytes;
            let event = self.event_at(FIRST, end)?.to_vec();
            put(&DumpEvents::format(&event, true, ChecksumAlgorithm::Crc32), false);
            self.at.checksum = ChecksumAlgorithm::Crc32;
        }
        Ok(())
    }

    /// Reads the whole event at an offset.
    fn event_at(&mut self, offset: u64, end: u64) -> Result<&[u8], DumpEnds> {
        self.fill(offset, end, EventHeader::LEN)?;
        let len = self.event_len(0, offset, end)?;
        self.fill(offset, end, len)?;
        Ok(self.buffer.get(..len).unwrap_or_default())
    }

    /// Reads at least `len` bytes into the buffer.
    fn fill(&mut self, offset: u64, end: u64, len: usize) -> Result<(), DumpEnds> {
        let there = usize::try_from(end - offset).unwrap_or(usize::MAX);
        self.buffer.resize(len.max(STEP_BYTES).min(there), 0);
        let read = match &self.open {
            Some((_, file)) => file.read_exact_at(&mut self.buffer, offset),
            None => Ok(()),
        };
        read.map_err(|error| DumpEnds(format!("read error of log file {} at {offset}: {error}", self.at.file)))
    }

    /// Length of the event in the buffer, which must be what a writer of this log puts there.
    fn event_len(&self, at: usize, offset: u64, end: u64) -> Result<usize, DumpEnds> {
        let bogus =
            || DumpEnds(format!("bogus data in log event: {}:{offset} is not the place of an event", self.at.file));
        let header = EventHeader::parse(self.buffer.get(at..).unwrap_or_default()).map_err(|_| bogus())?;
        let len = header.event_len as usize;
        let ends_at = offset + u64::from(header.event_len);
        let is_sane = (EventHeader::LEN..=EVENT_LEN_MAX).contains(&len) && ends_at <= end;
        if is_sane && u64::from(header.log_pos) == ends_at { Ok(len) } else { Err(bogus()) }
    }

    /// Reads and puts out the next events.
    fn read(&mut self, readable: &Readable, now: Instant, put: PutEvent<'_>) -> Result<(), DumpEnds> {
        let end = readable.bytes;
        let first = self.event_at(self.offset, end)?.len();
        let buffer = std::mem::take(&mut self.buffer);
        let asks_at = if self.options.acknowledges { self.last_transaction(&buffer, end) } else { None };
        let (mut at, mut len) = (0, first);
        while let Some(event) = buffer.get(at..at + len) {
            at += len;
            self.event(event, asks_at == Some(at), now, put)?;
            self.offset += len as u64;
            // The next one, if all of it was read.
            let Some(rest) = buffer.get(at..).filter(|rest| rest.len() >= EventHeader::LEN) else { break };
            let Ok(header) = EventHeader::parse(rest) else { break };
            len = header.event_len as usize;
            if len < EventHeader::LEN || len > rest.len() || u64::from(header.log_pos) != self.offset + len as u64 {
                break;
            }
        }
        self.buffer = buffer;
        self.buffer.clear();
        self.buffer.shrink_to(STEP_BYTES);
        Ok(())
    }

    /// End of the last transaction that is whole in what was read: its last event is followed by what begins another
    /// one or ends the file, or by nothing yet. One acknowledgement for it covers those before it.
    fn last_transaction(&self, buffer: &[u8], end: u64) -> Option<usize> {
        let (mut at, mut found, mut in_transaction) = (0, None, false);
        while let Some(header) = buffer.get(at..).and_then(|rest| EventHeader::parse(rest).ok()) {
            let begins = opens(header.event_type);
            if begins || matches!(header.event_type, event_type::ROTATE | event_type::STOP) {
                found = if in_transaction { Some(at) } else { found };
                in_transaction = false;
            }
            let is_head = matches!(header.event_type, event_type::FORMAT_DESCRIPTION | event_type::PREVIOUS_GTIDS);
            in_transaction |= begins || !is_head && !matches!(header.event_type, event_type::ROTATE | event_type::STOP);
            let len = header.event_len as usize;
            if len < EventHeader::LEN || buffer.len() - at < len {
                return found;
            }
            at += len;
        }
        if in_transaction && self.offset + at as u64 == end { Some(at) } else { found }
    }

    fn event(&mut self, event: &[u8], ack_wanted: bool, now: Instant, put: PutEvent<'_>) -> Result<(), DumpEnds> {
        let damaged = |error: binlog::BinlogError| DumpEnds(format!("damaged log event: {error}"));
        let header = EventHeader::parse(event).map_err(damaged)?;
        let end = u64::from(header.log_pos);
        if opens(header.event_type)
            && let Start::After(executed) = &self.options.start
        {
            let body = event_body(event, self.checksum).map_err(damaged)?;
            let gtid = GtidEvent::parse(header.event_type, body).map_err(damaged)?.gtid;
            self.left_out = gtid.is_some_and(|gtid| executed.contains(&gtid));
        }
        let ends_file = matches!(header.event_type, event_type::ROTATE | event_type::STOP);
        if self.left_out && !ends_file {
            (self.at.position, self.after_left_out) = (end, true);
            return Ok(());
        }
        // Of the end of what was left out: the replica adds this event's length to it.
        if std::mem::take(&mut self.after_left_out) {
            self.heartbeat(now, put);
        }
        self.at.position = end;
        match header.event_type {
            event_type::FORMAT_DESCRIPTION => {
                self.checksum = FormatDescription::parse(event).map_err(damaged)?.checksum;
                self.at.checksum = self.checksum;
                put(&DumpEvents::format(event, false, self.checksum), false);
            }
            _ => put(event, ack_wanted),
        }
        self.transactions += u64::from(opens(header.event_type));
        self.last_put = now;
        Ok(())
    }
}

fn open(readable: &Readable) -> Result<File, DumpEnds> {
    let failed = |error| DumpEnds(format!("could not open log file {}: {error}", readable.name));
    File::open(&readable.path).map_err(failed)
}

fn purged(executed: &GtidSet, missing: &GtidSet) -> DumpEnds {
    DumpEnds(format!(
        "Cannot replicate because the source purged required binary logs. Replicate the missing transactions from \
         elsewhere, or provision a new replica from backup. The GTID set sent by the replica is '{executed}', and the \
         missing transactions are '{missing}'"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served::GrowingFile;
    use base::{Tag, Uuid};
    use std::sync::atomic::{AtomicBool, Ordering};
    use testkit::log::{Author, INT, insert, int};

    const UUID: Uuid = Uuid([3; 16]);

    fn gtids(last: u64) -> GtidSet {
        let mut set = GtidSet::new();
        if last > 0 {
            set.add_range(UUID, Tag::EMPTY, 1, last);
        }
        set
    }

    /// A log of two files in a folder, and the offset of each transaction's end in them.
    struct Written {
        folder: tempfile::TempDir,
        log: Arc<GrowingLog>,
        /// (file, end, transactions up to there)
        ends: Vec<(usize, u64, u64)>,
    }

    fn written() -> Written {
        let folder = tempfile::tempdir().unwrap();
        let mut author = Author::new(UUID);
        let (mut ends, mut bytes, mut files) = (Vec::new(), Vec::new(), Vec::new());
        author.sql("CREATE DATABASE d");
        author.table("t", &[INT; 2], "id INT PRIMARY KEY, v INT");
        for id in 0..6 {
            author.rows(&[insert("t", &[int(id), int(0)])]);
            bytes.extend(author.writer.take());
            ends.push((files.len(), bytes.len() as u64, author.last));
            if id == 2 {
                bytes.extend(author.end_file());
                files.push(std::mem::take(&mut bytes));
            }
        }
        files.push(bytes);
        for (number, bytes) in files.iter().enumerate() {
            std::fs::write(folder.path().join(format!("binlog.{:06}", number + 1)), bytes).unwrap();
        }
        let log = GrowingLog::new(folder.path(), 9, Vec::new(), 1, GtidSet::new(), GtidSet::new());
        Written { folder, log, ends }
    }

    fn options(start: Start) -> DumpOptions {
        DumpOptions {
            start,
            flags: 0,
            server_uuid: String::new(),
            heartbeat_period: Duration::ZERO,
            knows_checksums: true,
            acknowledges: false,
        }
    }

    /// Steps until the dump waits; returns the events put out, by type and end position.
    fn read(dump: &mut LogDump, now: Instant) -> Vec<(u8, u32)> {
        let mut events = Vec::new();
        loop {
            let step = dump.step(now, &mut |event, _| {
                let header = EventHeader::parse(event).unwrap();
                assert_eq!(header.event_len as usize, event.len());
                events.push((header.event_type, header.log_pos));
            });
            if step.unwrap() != Step::Sent {
                return events;
            }
        }
    }

    fn gtid_events(events: &[(u8, u32)]) -> usize {
        events.iter().filter(|(kind, _)| opens(*kind)).count()
    }

    #[test]
    fn whole_transactions_come_as_the_log_grows_and_none_twice() {
        let Written { log, ends, folder: _folder } = written();
        let now = Instant::now();
        let mut dump = LogDump::begin(&log, options(Start::After(gtids(3))), now).unwrap();
        assert!(read(&mut dump, now).is_empty(), "no file has begun");
        let mut seen = 0;
        for (number, (file, end, last)) in ends.iter().enumerate() {
            if number == 0 || *file != ends[number - 1].0 {
                let previous = gtids(if *file == 0 { 0 } else { ends[number - 1].2 });
                log.begins(format!("binlog.{:06}", file + 1), previous);
            }
            log.grows(*end, &gtids(*last));
            seen += gtid_events(&read(&mut dump, now)) as u64;
            assert_eq!(seen, last.saturating_sub(3), "after transaction {last}");
        }
        assert_eq!(dump.place().0, "binlog.000002");
        assert_eq!(dump.place().1, ends.last().unwrap().1);
    }

    #[test]
    fn a_file_that_is_made_again_goes_on_where_it_was() {
        let Written { log, ends, folder: _folder } = written();
        let now = Instant::now();
        log.begins("binlog.000001".into(), GtidSet::new());
        log.grows(ends[1].1, &gtids(ends[1].2));
        let mut dump = LogDump::begin(&log, options(Start::After(GtidSet::new())), now).unwrap();
        let before = gtid_events(&read(&mut dump, now)) as u64;
        assert_eq!(before, ends[1].2);
        log.begins("binlog.000001".into(), GtidSet::new());
        log.grows(ends[0].1, &gtids(ends[0].2));
        assert!(read(&mut dump, now).is_empty(), "it is ahead");
        log.grows(ends[2].1, &gtids(ends[2].2));
        assert_eq!(gtid_events(&read(&mut dump, now)) as u64, ends[2].2 - before);
    }

    #[test]
    fn what_is_not_there_is_refused_with_1236s_texts() {
        let Written { log, ends, folder: _folder } = written();
        let now = Instant::now();
        log.begins("binlog.000001".into(), GtidSet::new());
        log.grows(ends[2].1, &gtids(ends[2].2));
        log.begins("binlog.000002".into(), gtids(ends[2].2));
        log.grows(ends[5].1, &gtids(ends[5].2));
        let place = |file: &str, position| options(Start::Place { file: file.to_owned(), position });
        let refused = |options| match LogDump::begin(&log, options, now) {
            Err(ends) => ends.0,
            Ok(mut dump) => loop {
                match dump.step(now, &mut |_, _| ()) {
                    Ok(Step::Sent) => {}
                    Ok(other) => panic!("{other:?}"),
                    Err(ends) => break ends.0,
                }
            },
        };
        assert!(refused(place("binlog.000009", 4)).contains("Could not find first log file name"));
        assert!(refused(place("binlog.000001", 1 << 30)).contains("position > file size"));
        for inside in [5, 50, u32::try_from(ends[0].1).unwrap() - 1] {
            assert!(refused(place("binlog.000001", inside)).contains("bogus data in log event"), "{inside}");
        }
        let mut whole = LogDump::begin(&log, place("", 4), now).unwrap();
        assert_eq!(gtid_events(&read(&mut whole, now)) as u64, ends[5].2);
        let from = u32::try_from(ends[3].1).unwrap();
        let mut part = LogDump::begin(&log, place("binlog.000002", from), now).unwrap();
        assert_eq!(gtid_events(&read(&mut part, now)) as u64, ends[5].2 - ends[3].2);
        drop(whole);
        assert!(!log.oldest_is_read(), "the other one is in the second file");
        let first = LogDump::begin(&log, place("", 4), now).unwrap();
        assert!(log.oldest_is_read());
        drop((first, part));
        log.purges_oldest();
        let text = refused(options(Start::After(gtids(1))));
        assert!(
            text.contains("purged required binary logs")
                && text.contains(&gtids(ends[2].2).subtract(&gtids(1)).to_string()),
            "{text}"
        );
        assert_eq!(log.purged(), gtids(ends[2].2));
        // A log that begins anew is not purged: whoever has what it begins after goes on.
        let mut caught_up = LogDump::begin(&log, options(Start::After(log.executed())), now).unwrap();
        read(&mut caught_up, now);
        log.begins_anew(gtids(7));
        assert_eq!((log.executed(), log.purged(), log.files().len()), (gtids(7), gtids(7), 0));
        assert_eq!(caught_up.step(now, &mut |_, _| panic!("nothing is there")), Ok(Step::Anew));
        assert!(refused(options(Start::After(gtids(6)))).contains("purged required binary logs"));
        let mut waits = LogDump::begin(&log, options(Start::After(gtids(7))), now).unwrap();
        assert!(matches!(waits.step(now, &mut |_, _| ()), Ok(Step::Waits(_))));
        log.begins_anew(gtids(9));
        assert_eq!(waits.step(now, &mut |_, _| ()), Ok(Step::Anew));
    }

    #[test]
    fn the_last_transaction_of_a_step_is_to_be_acknowledged() {
        let Written { log, ends, folder: _folder } = written();
        let now = Instant::now();
        log.begins("binlog.000001".into(), GtidSet::new());
        let asks = |dump: &mut LogDump| {
            let mut asked = Vec::new();
            let mut put = |event: &[u8], asks: bool| {
                if asks {
                    asked.push(u64::from(EventHeader::parse(event).unwrap().log_pos));
                }
            };
            while dump.step(now, &mut put).unwrap() == Step::Sent {}
            asked
        };
        let of = |acknowledges| DumpOptions { acknowledges, ..options(Start::After(GtidSet::new())) };
        let mut dump = LogDump::begin(&log, of(true), now).unwrap();
        for (_, end, last) in &ends[..2] {
            log.grows(*end, &gtids(*last));
            assert_eq!(asks(&mut dump), [*end]);
        }
        // The file is complete: what ends it is not asked for, but the transaction before it.
        let whole = std::fs::metadata(_folder.path().join("binlog.000001")).unwrap().len();
        log.grows(whole, &gtids(ends[2].2));
        assert_eq!(asks(&mut dump), [ends[2].1]);
        log.begins("binlog.000002".into(), gtids(ends[2].2));
        log.grows(ends[5].1, &gtids(ends[5].2));
        assert_eq!(asks(&mut dump), [ends[5].1]);
        assert_eq!(asks(&mut LogDump::begin(&log, of(true), now).unwrap()), [ends[2].1, ends[5].1]);
        assert!(asks(&mut LogDump::begin(&log, of(false), now).unwrap()).is_empty());
        assert_eq!(log.acknowledging(), 1);
        drop(dump);
        assert_eq!(log.acknowledging(), 0);
    }

    #[test]
    fn an_older_dump_of_the_same_server_ends() {
        let Written { log, ends, folder: _folder } = written();
        let now = Instant::now();
        log.begins("binlog.000001".into(), GtidSet::new());
        log.grows(ends[2].1, &gtids(ends[2].2));
        let of = |uuid: &str| DumpOptions { server_uuid: uuid.to_owned(), ..options(Start::After(GtidSet::new())) };
        let mut old = LogDump::begin(&log, of("a"), now).unwrap();
        let mut other = LogDump::begin(&log, of("b"), now).unwrap();
        let woken = Arc::new(AtomicBool::new(false));
        let wakes = Arc::clone(&woken);
        let version = log.version();
        log.when_changed(version, Box::new(move || wakes.store(true, Ordering::SeqCst))).unwrap();
        let mut new = LogDump::begin(&log, of("a"), now).unwrap();
        assert!(woken.load(Ordering::SeqCst), "one that waits must look");
        assert!(old.step(now, &mut |_, _| ()).unwrap_err().0.contains("same server_uuid"));
        assert!(!read(&mut new, now).is_empty() && !read(&mut other, now).is_empty());
    }

    #[test]
    fn heartbeats_are_sent_when_they_are_due() {
        let Written { log, ends, folder: _folder } = written();
        let mut now = Instant::now();
        log.begins("binlog.000001".into(), GtidSet::new());
        log.grows(ends[0].1, &gtids(ends[0].2));
        let period = Duration::from_secs(30);
        let wanted = DumpOptions { heartbeat_period: period, ..options(Start::After(GtidSet::new())) };
        let mut dump = LogDump::begin(&log, wanted, now).unwrap();
        read(&mut dump, now);
        assert_eq!(dump.wakes_at(), Some(now + period));
        assert!(read(&mut dump, now + period / 2).is_empty());
        now += period;
        assert_eq!(read(&mut dump, now), [(event_type::HEARTBEAT, u32::try_from(ends[0].1).unwrap())]);
        assert_eq!(dump.wakes_at(), Some(now + period));
        // One tells where what was left out ends: a replica counts from there, and refuses a heartbeat that is behind.
        log.grows(ends[2].1, &gtids(ends[2].2));
        let mut some = LogDump::begin(&log, options(Start::After(gtids(ends[1].2))), now).unwrap();
        let events = read(&mut some, now);
        let at = events.iter().position(|(kind, _)| *kind == event_type::HEARTBEAT).unwrap();
        assert_eq!(events[at].1, u32::try_from(ends[1].1).unwrap());
        assert!(opens(events[at + 1].0) && gtid_events(&events) == 1, "{events:?}");
        // To a replica that has all, one tells how far the log was read.
        let mut ahead = LogDump::begin(&log, options(Start::After(gtids(9))), now).unwrap();
        let kinds: Vec<u8> = read(&mut ahead, now).into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds.last(), Some(&event_type::HEARTBEAT), "{kinds:?}");
    }

    #[test]
    fn a_log_with_complete_files_serves_them() {
        let Written { log: _, ends, folder } = written();
        let now = Instant::now();
        let file = |number: u64, previous| GrowingFile {
            name: format!("binlog.{number:06}"),
            previous: Arc::new(previous),
            bytes: std::fs::metadata(folder.path().join(format!("binlog.{number:06}"))).unwrap().len(),
            made: 0,
        };
        let files = vec![file(1, GtidSet::new()), file(2, gtids(ends[2].2))];
        let log = GrowingLog::new(folder.path(), 9, files, 1, GtidSet::new(), gtids(ends[5].2));
        let mut dump = LogDump::begin(&log, options(Start::After(gtids(ends[3].2))), now).unwrap();
        let events = read(&mut dump, now);
        assert_eq!(gtid_events(&events) as u64, ends[5].2 - ends[3].2);
        // Who asked for no checksums gets none until the first format description: mysqlbinlog would cut names off.
        let bare = DumpOptions { knows_checksums: false, ..options(Start::After(GtidSet::new())) };
        let mut dump = LogDump::begin(&log, bare, now).unwrap();
        let mut rotates = Vec::new();
        while dump
            .step(now, &mut |event, _| {
                if event.get(4) == Some(&event_type::ROTATE) {
                    rotates.push(event.len() - EventHeader::LEN - 8 - "binlog.000001".len());
                }
            })
            .unwrap()
            == Step::Sent
        {}
        assert_eq!(rotates, [0, 4]);
        let non_block = DumpOptions { flags: DUMP_NON_BLOCK, ..options(Start::After(GtidSet::new())) };
        let mut dump = LogDump::begin(&log, non_block, now).unwrap();
        loop {
            match dump.step(now, &mut |_, _| ()).unwrap() {
                Step::Sent => {}
                step => break assert_eq!(step, Step::Ended),
            }
        }
    }
}
