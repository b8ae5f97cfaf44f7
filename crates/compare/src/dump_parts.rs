//! A dump in parts: a file per table, of a large table one per range of its keys, written by several threads.
//!
//! In: a pinned snapshot. Out: a stream of records that [`PartStream`] turns into files again: the tables' definitions,
//! then rows, at last the list of all files ([`MANIFEST`]). Never here: a path; two snapshots; more of the output in
//! memory than `PIECES_A_THREAD` pieces a thread.
//!
//! ```text
//! record   kind u8 (1 begins a part, 2 is more of it, 3 ends it) · part u32 LE · length u32 LE · bytes
//!          a part begins with its file's name; at most one part a thread is open
//! ```

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use catalog::TableDef;
use observe::{now_us, utc_text};
use serde::{Deserialize, Serialize};
use store::{Snapshot, Store};

use crate::dump::{
    Chosen, Compression, DumpFormat, DumpOptions, DumpReport, Dumper, Holds, chosen, compressed, without_rows,
};
use crate::error::CompareError;
use crate::rows_in_order::{Part, parts_of};

/// Name of the list of files. It is the last part: a dump without it is not whole.
pub const MANIFEST: &str = "dump.json";

/// Bytes on disk of the rows in one file: large enough for zstd, small enough for as many loaders as there are cores.
const PART_BYTES: u64 = 64 << 20;
/// Bytes of a record.
const PIECE_BYTES: usize = 128 << 10;
/// Pieces that wait for the writer, a thread.
const PIECES_A_THREAD: usize = 4;
/// Bytes of a record before its content.
const HEAD: usize = 9;
/// Longest name of a file without its ending, in bytes: file systems allow 255.
const STEM_BYTES_MAX: usize = 200;

const BEGIN: u8 = 1;
const MORE: u8 = 2;
const END: u8 = 3;

/// What a dump in parts consists of; its list of files as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DumpContents {
    /// Version of this list's format.
    pub slipstream_dump: u32,
    /// Version of the program.
    pub program: String,
    /// GTIDs of all rows.
    pub gtid_executed: String,
    /// When the dump began; UTC.
    pub begun_at: String,
    /// When its last row was written; UTC.
    pub ended_at: String,
    /// Format of the rows.
    pub format: DumpFormat,
    /// Compression of each file.
    pub compression: Option<Compression>,
    /// Number of tables, those without rows of their own included.
    pub tables: u64,
    pub rows: u64,
    /// Tables whose statements cannot be written, each with the reason.
    // Absent if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// All files but this one, by name.
    pub files: Vec<DumpedFile>,
}

/// One file of a dump.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DumpedFile {
    /// Name of the file.
    pub name: String,
    /// Database of its rows; empty for definitions.
    pub db: String,
    /// Table of its rows; empty for definitions.
    pub table: String,
    pub rows: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A part to be written.
struct Job<'a> {
    name: String,
    rows_of: Option<(&'a Arc<TableDef>, Part)>,
}

/// What a thread hands to the writer.
enum Message {
    Record(u8, u32, Vec<u8>),
    Written(DumpedFile),
    Failed(CompareError),
}

/// Writes tables and rows of a snapshot as a stream of parts.
///
/// # Errors
/// As [`crate::dump`].
pub fn dump_parts(
    snapshot: &Snapshot,
    store: &Arc<Store>,
    options: &DumpOptions,
    threads: usize,
    out: &mut dyn Write,
) -> Result<DumpReport, CompareError> {
    let begun_at = utc_text(now_us());
    let Chosen { tables, left_out } = chosen(snapshot.catalog(), options)?;
    let jobs = jobs_of(snapshot, &tables, options)?;
    let threads = threads.clamp(1, jobs.len().max(1));
    let next = AtomicUsize::new(0);
    let (sender, receiver) = sync_channel(PIECES_A_THREAD * threads);
    let mut files = std::thread::scope(|scope| {
        for _ in 0..threads {
            let (tables, left_out, jobs) = (&tables, &left_out, &jobs);
            let worker = Worker { snapshot, store, options, tables, left_out, jobs, sender: sender.clone() };
            let next = &next;
            scope.spawn(move || worker.run(next));
        }
        drop(sender);
        // Drops the receiver at an error, which ends the threads.
        write_records(receiver, out)
    })?;
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let contents = DumpContents {
        slipstream_dump: 1,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        gtid_executed: snapshot.executed().to_string().replace('\n', ""),
        begun_at,
        ended_at: utc_text(now_us()),
        format: options.format,
        compression: options.compression,
        tables: tables.len() as u64,
        rows: files.iter().map(|file| file.rows).sum(),
        left_out,
        files,
    };
    let mut text = serde_json::to_vec_pretty(&contents).map_err(io::Error::other)?;
    text.push(b'\n');
    let part = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
    write_record(out, BEGIN, part, MANIFEST.as_bytes())?;
    for piece in text.chunks(PIECE_BYTES) {
        write_record(out, MORE, part, piece)?;
    }
    write_record(out, END, part, &[])?;
    out.flush()?;
    let bytes = contents.files.iter().map(|file| file.bytes).sum::<u64>() + text.len() as u64;
    Ok(DumpReport { tables: contents.tables, rows: contents.rows, bytes, left_out: contents.left_out })
}

fn jobs_of<'a>(
    snapshot: &Snapshot,
    tables: &[&'a Arc<TableDef>],
    options: &DumpOptions,
) -> Result<Vec<Job<'a>>, CompareError> {
    // A fail point, for tests: large tables take their time.
    let part_bytes = base::fail_points::value("dump_part_bytes").and_then(|bytes| bytes.parse().ok());
    let mut ending = if options.format == DumpFormat::Sql { ".sql".to_owned() } else { ".tsv".to_owned() };
    if let Some(Compression::Zstd) = options.compression {
        ending.push_str(".zst");
    }
    let mut jobs = Vec::new();
    if options.creates() {
        jobs.push(Job { name: format!("schema{ending}"), rows_of: None });
    }
    for table in tables.iter().copied().filter(|table| without_rows(table).is_none()) {
        let stem = stem_of(table);
        let parts = parts_of(snapshot, table, part_bytes.unwrap_or(PART_BYTES))?;
        let is_split = parts.len() > 1;
        for (number, part) in parts.into_iter().enumerate() {
            let number = if is_split { format!(".{number:05}") } else { String::new() };
            jobs.push(Job { name: format!("{stem}{number}{ending}"), rows_of: Some((table, part)) });
        }
    }
    Ok(jobs)
}

/// `db.table` as a file's name: letters, digits, `_`, `-` and `$` as they are, other bytes as `%XX`.
fn stem_of(table: &TableDef) -> String {
    let encoded = |name: &str| {
        name.chars().fold(String::new(), |mut text, c| {
            if c.is_alphanumeric() || "_-$".contains(c) {
                text.push(c);
            } else {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(text, "%{byte:02X}");
                }
            }
            text
        })
    };
    let mut stem = format!("{}.{}", encoded(&table.db), encoded(&table.name));
    if stem.len() > STEM_BYTES_MAX {
        stem.truncate(stem.floor_char_boundary(STEM_BYTES_MAX));
        let _ = write!(stem, "~{}", table.id.0);
    }
    stem
}

/// A thread that writes parts, each whole.
struct Worker<'a> {
    snapshot: &'a Snapshot,
    store: &'a Arc<Store>,
    options: &'a DumpOptions,
    tables: &'a [&'a Arc<TableDef>],
    left_out: &'a [String],
    jobs: &'a [Job<'a>],
    sender: SyncSender<Message>,
}

impl Worker<'_> {
    fn run(&self, next: &AtomicUsize) {
        // Replay goes first.
        base::priority::to_background();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(index) else { return };
            let part = u32::try_from(index).unwrap_or(u32::MAX);
            let message = match self.write(job, part) {
                Ok(file) => Message::Written(file),
                Err(error) => Message::Failed(error),
            };
            let is_failed = matches!(message, Message::Failed(_));
            if self.sender.send(message).is_err() || is_failed {
                return;
            }
        }
    }

    fn write(&self, job: &Job<'_>, part: u32) -> Result<DumpedFile, CompareError> {
        let mut out = PartWriter { part, sender: &self.sender, piece: Vec::new(), bytes: 0 };
        out.send(BEGIN, job.name.clone().into_bytes())?;
        let rows = compressed(self.options.compression, &mut out, |out| self.write_plain(job, out))?;
        out.flush()?;
        out.send(END, Vec::new())?;
        let (db, table) = match &job.rows_of {
            Some((table, _)) => (table.db.clone(), table.name.clone()),
            None => (String::new(), String::new()),
        };
        Ok(DumpedFile { name: job.name.clone(), db, table, rows, bytes: out.bytes })
    }

    fn write_plain(&self, job: &Job<'_>, out: &mut dyn Write) -> Result<u64, CompareError> {
        let mut dumper = Dumper::new(out);
        let Some((table, part)) = &job.rows_of else {
            dumper.sql_head(self.snapshot, Holds::Tables);
            dumper.left_out(self.left_out);
            dumper.creates(self.snapshot.catalog(), self.tables, self.options)?;
            for what in self.tables.iter().filter_map(|table| without_rows(table)) {
                dumper.comment(&what);
            }
            dumper.report.tables = self.tables.len() as u64;
            return dumper.complete(self.options.format).map(|report| report.rows);
        };
        if self.options.format == DumpFormat::Sql {
            dumper.sql_head(self.snapshot, Holds::Rows);
        }
        dumper.table(self.snapshot, self.store, table, part, self.options)?;
        dumper.report.tables = 1;
        dumper.complete(self.options.format).map(|report| report.rows)
    }
}

/// Hands what is written to the one who writes the stream.
struct PartWriter<'a> {
    part: u32,
    sender: &'a SyncSender<Message>,
    piece: Vec<u8>,
    bytes: u64,
}

impl PartWriter<'_> {
    fn send(&mut self, kind: u8, bytes: Vec<u8>) -> io::Result<()> {
        // Nobody receives after an error, which is told by who had it.
        self.sender.send(Message::Record(kind, self.part, bytes)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for PartWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        self.bytes += bytes.len() as u64;
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        if piece.is_empty() { Ok(()) } else { self.send(MORE, piece) }
    }
}

/// Writes records as they come, until all threads have ended.
fn write_records(receiver: Receiver<Message>, out: &mut dyn Write) -> Result<Vec<DumpedFile>, CompareError> {
    let mut files = Vec::new();
    for message in receiver {
        match message {
            Message::Record(kind, part, bytes) => write_record(out, kind, part, &bytes)?,
            Message::Written(file) => files.push(file),
            Message::Failed(error) => return Err(error),
        }
    }
    Ok(files)
}

fn write_record(out: &mut dyn Write, kind: u8, part: u32, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    out.write_all(&[&[kind][..], &part.to_le_bytes(), &length.to_le_bytes()].concat())?;
    out.write_all(bytes)
}

/// A step of a dump's parts.
#[derive(Debug, PartialEq, Eq)]
pub enum PartEvent<'a> {
    Begin {
        /// Number of the part.
        part: u32,
        /// Name of its file.
        name: &'a str,
    },
    /// More of its file's content.
    More {
        /// Number of the part.
        part: u32,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Its file is complete.
    End {
        /// Number of the part.
        part: u32,
    },
}

/// Takes a stream of parts apart, in whatever pieces it comes.
#[derive(Debug, Default)]
pub struct PartStream {
    /// The head of a record, and the name in one that begins a part.
    head: Vec<u8>,
    /// Bytes that are left of the content of this part's record.
    content: Option<(u32, usize)>,
}

impl PartStream {
    /// Passes what the next bytes say to `each`.
    ///
    /// # Errors
    /// `InvalidData` for bytes that are no records, or what `each` returns.
    pub fn feed(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(PartEvent<'_>) -> io::Result<()>) -> io::Result<()> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "not a dump in parts");
        while !bytes.is_empty() {
            if let Some((part, left)) = self.content {
                let (piece, rest) = bytes.split_at(left.min(bytes.len()));
                each(PartEvent::More { part, bytes: piece })?;
                self.content = (piece.len() < left).then(|| (part, left - piece.len()));
                bytes = rest;
                continue;
            }
            let wanted = if self.head.len() < HEAD { HEAD } else { HEAD + length_in(&self.head) };
            let (piece, rest) = bytes.split_at(wanted.saturating_sub(self.head.len()).min(bytes.len()));
            self.head.extend_from_slice(piece);
            bytes = rest;
            if self.head.len() < HEAD {
                return Ok(());
            }
            let (length, part) = (length_in(&self.head), part_in(&self.head));
            match self.head.first() {
                Some(&BEGIN) if length <= STEM_BYTES_MAX + 55 => {
                    let Some(name) = self.head.get(HEAD..HEAD + length) else { continue };
                    let name = std::str::from_utf8(name).map_err(|_| damaged())?;
                    each(PartEvent::Begin { part, name })?;
                }
                Some(&MORE) => self.content = (length > 0).then_some((part, length)),
                Some(&END) if length == 0 => each(PartEvent::End { part })?,
                _ => return Err(damaged()),
            }
            self.head.clear();
        }
        Ok(())
    }
}

fn part_in(head: &[u8]) -> u32 {
    head.get(1..5).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn length_in(head: &[u8]) -> usize {
    let length = head.get(5..HEAD).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    usize::try_from(length).unwrap_or(usize::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The files of a whole stream by name, which is fed in pieces of `size` bytes.
    pub(crate) fn files_of(stream: &[u8], size: usize) -> BTreeMap<String, Vec<u8>> {
        let (mut files, mut open, mut parts) = (BTreeMap::new(), BTreeMap::new(), PartStream::default());
        let mut each = |event: PartEvent<'_>| {
            match event {
                PartEvent::Begin { part, name } => drop(open.insert(part, (name.to_owned(), Vec::new()))),
                PartEvent::More { part, bytes } => open.get_mut(&part).unwrap().1.extend_from_slice(bytes),
                PartEvent::End { part } => files.extend(open.remove(&part)),
            }
            Ok(())
        };
        for piece in stream.chunks(size) {
            parts.feed(piece, &mut each).unwrap();
        }
        assert!(open.is_empty());
        files
    }

    /// Parts that are mixed up, fed in pieces of every small size, are the same files.
    #[test]
    fn any_pieces_of_a_stream_give_the_same_files() {
        let mut stream = Vec::new();
        for (kind, part, bytes) in [
            (BEGIN, 0, &b"a.t.sql"[..]),
            (BEGIN, 1, b"a.u.sql"),
            (MORE, 1, b"one"),
            (MORE, 0, b""),
            (MORE, 0, b"two"),
            (MORE, 1, b"three"),
            (END, 0, b""),
            (MORE, 1, b"!"),
            (END, 1, b""),
        ] {
            write_record(&mut stream, kind, part, bytes).unwrap();
        }
        for size in 1..=stream.len() {
            let files = files_of(&stream, size);
            let wanted = [("a.t.sql", &b"two"[..]), ("a.u.sql", b"onethree!")];
            assert!(
                files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).eq(wanted),
                "{size}: {files:?}"
            );
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in
            [&[0u8; 9][..], &[4; 9], &[BEGIN, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f], &[3, 0, 0, 0, 0, 1, 0, 0, 0]]
        {
            let error = PartStream::default().feed(bytes, &mut |_| Ok(())).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bytes:?}");
        }
    }
}
