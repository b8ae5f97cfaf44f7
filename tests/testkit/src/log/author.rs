//! The author: transactions with their numbers, clocks and times.

use base::{Gtid, Tag, Uuid};
use binlog::writer::BinlogWriter;
use binlog::{ChecksumAlgorithm, FormatDescription, GtidEvent, QueryEvent, QueryStatus, event_type, flags, row_flags};

use super::table::{Change, Table, Type};

/// Commit time before the first transaction, µs since 1970.
pub const START_US: u64 = 1_763_000_000_000_000;
/// Microseconds between two commits.
pub const APART_US: u64 = 1_000;

const VERSION: &str = "9.7.4";

/// Writes transactions that are numbered from 1. They have the clock of a source that lets nothing run concurrently,
/// unless a parent is named.
pub struct Author {
    /// Takes events that no method here writes.
    pub writer: BinlogWriter,
    /// Number of the last transaction.
    pub last: u64,
    /// Session of the statements that follow.
    pub session: u32,
    /// Flags of the rows events that follow.
    pub flags: u16,
    /// True if the transactions of row changes that follow are compressed.
    pub compressed: bool,
    uuid: Uuid,
    checksum: ChecksumAlgorithm,
    /// Number of the last transaction in the file before this one.
    before: u64,
    tables: Vec<(&'static str, Table)>,
}

impl Author {
    /// Begins a file with checksums.
    pub fn new(uuid: Uuid) -> Author {
        let mut author = Author::at(uuid, ChecksumAlgorithm::Crc32, 0);
        author.writer = author.new_file();
        author
    }

    /// Begins at a position inside a file.
    pub fn at(uuid: Uuid, checksum: ChecksumAlgorithm, position: u64) -> Author {
        Author {
            writer: BinlogWriter::new(1, checksum, position),
            last: 0,
            session: 1,
            flags: row_flags::STMT_END,
            compressed: false,
            uuid,
            checksum,
            before: 0,
            tables: Vec::new(),
        }
    }

    fn new_file(&self) -> BinlogWriter {
        let format = FormatDescription::new(VERSION, self.checksum);
        BinlogWriter::start_file(1, (START_US / 1_000_000) as u32, &format)
    }

    /// Ends the file and begins another one, whose clock starts again. Returns the ended one with its magic number.
    pub fn end_file(&mut self) -> Vec<u8> {
        self.before = self.last;
        let next = self.new_file();
        std::mem::replace(&mut self.writer, next).take()
    }

    /// Ends the log; returns the events of its last file, without a magic number.
    pub fn events(mut self) -> Vec<u8> {
        self.end_file().split_off(binlog::reader::MAGIC.len())
    }

    /// The GTID of a transaction.
    pub fn gtid_of(&self, number: u64) -> Gtid {
        Gtid { uuid: self.uuid, tag: Tag::EMPTY, gno: number }
    }

    /// Opens the next transaction.
    pub fn gtid(&mut self) -> GtidEvent {
        self.gtid_after(self.last)
    }

    /// Opens the next transaction, which may run beside all that follow `parent`.
    pub fn gtid_after(&mut self, parent: u64) -> GtidEvent {
        self.last += 1;
        let in_file = |number: u64| number.saturating_sub(self.before) as i64;
        let mut event = GtidEvent::new(Some(self.gtid_of(self.last)), in_file(parent), in_file(self.last));
        event.immediate_commit_timestamp_us = START_US + self.last * APART_US;
        event.original_commit_timestamp_us = event.immediate_commit_timestamp_us;
        event
    }

    /// Writes a transaction that is one statement; returns its number.
    pub fn sql(&mut self, sql: &str) -> u64 {
        self.sql_after(self.last, sql)
    }

    /// As [`Author::sql`], beside all that follow `parent`.
    pub fn sql_after(&mut self, parent: u64, sql: &str) -> u64 {
        let compressed = std::mem::take(&mut self.compressed);
        let number = self.transaction_after(parent, |events| events.sql(sql));
        self.compressed = compressed;
        number
    }

    /// Makes a table known, for row changes.
    pub fn know(&mut self, name: &'static str, types: &[Type]) {
        let table = Table::new(100 + self.tables.len() as u64, name, types);
        self.tables.push((name, table));
    }

    /// Creates a table; returns the transaction's number.
    pub fn table(&mut self, name: &'static str, types: &[Type], columns: &str) -> u64 {
        self.know(name, types);
        self.sql(&format!("CREATE TABLE {name} ({columns})"))
    }

    /// Writes row changes; returns the transaction's number.
    pub fn rows(&mut self, changes: &[Change]) -> u64 {
        self.rows_after(self.last, changes)
    }

    /// As [`Author::rows`], beside all that follow `parent`.
    pub fn rows_after(&mut self, parent: u64, changes: &[Change]) -> u64 {
        self.transaction_after(parent, |events| {
            events.sql("BEGIN");
            changes.iter().for_each(|change| events.change(change));
            events.writer.xid(1);
        })
    }

    /// Writes a transaction of any events; returns its number.
    pub fn transaction(&mut self, write: impl FnOnce(&mut Events)) -> u64 {
        self.transaction_after(self.last, write)
    }

    /// As [`Author::transaction`], beside all that follow `parent`.
    pub fn transaction_after(&mut self, parent: u64, write: impl FnOnce(&mut Events)) -> u64 {
        let gtid = self.gtid_after(parent);
        let (tables, session, flags) = (&self.tables, self.session, self.flags);
        let events = |writer: &mut BinlogWriter| write(&mut Events { writer, tables, session, flags });
        if self.compressed {
            self.writer.compressed_transaction(&gtid, events).unwrap();
        } else {
            self.writer.transaction(&gtid, events);
        }
        self.last
    }
}

/// Events of one transaction after its GTID.
pub struct Events<'a> {
    /// Takes events that no method here writes.
    pub writer: &'a mut BinlogWriter,
    tables: &'a [(&'static str, Table)],
    session: u32,
    flags: u16,
}

impl Events<'_> {
    /// Writes a statement in database `d`.
    pub fn sql(&mut self, sql: &str) {
        let status = QueryStatus {
            flags2: Some(0),
            sql_mode: Some(0),
            catalog: Some(b"std"),
            charset_client: Some(255),
            collation_connection: Some(255),
            collation_server: Some(255),
            ..QueryStatus::default()
        };
        let (thread_id, db, sql) = (self.session, &b"d"[..], sql.as_bytes());
        self.writer.query(&QueryEvent { thread_id, exec_time: 0, error_code: 0, db, status, sql });
    }

    /// Writes row changes with their table map.
    pub fn change(&mut self, change: &Change) {
        let (_, table) = self.tables.iter().find(|(name, _)| *name == change.table).expect("a table that was created");
        change.write(self.writer, table, self.flags);
    }
}

/// What a dump sends first: the artificial Rotate event that names the file, and the file's format description.
pub fn dump_head(file: &str, checksum: ChecksumAlgorithm) -> (Vec<u8>, Vec<u8>) {
    let mut rotate = BinlogWriter::new(1, checksum, 0);
    rotate.event(event_type::ROTATE, flags::ARTIFICIAL, |out| {
        out.extend(4u64.to_le_bytes());
        out.extend(file.as_bytes());
    });
    let mut head = BinlogWriter::new(1, checksum, 4);
    let created = (START_US / 1_000_000) as u32;
    head.format_description(
        &FormatDescription { created, ..FormatDescription::new(VERSION, checksum) },
        flags::BINLOG_IN_USE,
    );
    (rotate.take(), head.take())
}
