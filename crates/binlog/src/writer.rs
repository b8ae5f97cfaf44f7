//! Writes events as a MySQL server would: for relay logs, tests and generated logs.
//!
//! In: events as values. Out: their bytes, with lengths, positions and checksums. Never here: I/O, a clock.

use base::GtidSet;

use crate::header::checksum_of;
use crate::reader::MAGIC;
use crate::{
    BinlogError, ChecksumAlgorithm, Compression, EventHeader, FormatDescription, GtidEvent, Incident, QueryEvent,
    QueryStatus, Rotate, RowsEvent, RowsQuery, TableMapEvent, TransactionPayload, XaPrepare, event_type, flags,
};

/// Collects consecutive events in memory and gives each its length, position and checksum. The caller may take the
/// bytes at any time; positions continue.
#[derive(Clone, Debug)]
pub struct BinlogWriter {
    out: Vec<u8>,
    /// Position in the log of `out`'s first byte.
    base: u64,
    server_id: u32,
    timestamp: u32,
    checksum: ChecksumAlgorithm,
}

impl BinlogWriter {
    /// A writer whose first event gets this position.
    pub fn new(server_id: u32, checksum: ChecksumAlgorithm, position: u64) -> BinlogWriter {
        BinlogWriter { out: Vec::new(), base: position, server_id, timestamp: 0, checksum }
    }

    /// A writer for a new file; writes magic and format description.
    pub fn start_file(server_id: u32, timestamp: u32, format: &FormatDescription) -> BinlogWriter {
        let mut writer = BinlogWriter::new(server_id, format.checksum, 0);
        writer.timestamp = timestamp;
        writer.out.extend(MAGIC);
        writer.format_description(format, 0);
        writer
    }

    /// Sets the timestamp of the events that follow, in seconds since 1970.
    pub fn set_timestamp(&mut self, timestamp: u32) {
        self.timestamp = timestamp;
    }

    /// Sets the server id of the events that follow.
    pub fn set_server_id(&mut self, server_id: u32) {
        self.server_id = server_id;
    }

    /// Position in the log after everything written.
    pub fn position(&self) -> u64 {
        self.base + self.out.len() as u64
    }

    /// Bytes written since the last [`BinlogWriter::take`].
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Takes the bytes written so far; positions continue after them.
    pub fn take(&mut self) -> Vec<u8> {
        self.base = self.position();
        std::mem::take(&mut self.out)
    }

    /// Appends an event of any type; `body` appends its body.
    pub fn event(&mut self, event_type: u8, event_flags: u16, body: impl FnOnce(&mut Vec<u8>)) {
        self.event_with(event_type, event_flags, self.checksum, body);
    }

    fn event_with(
        &mut self,
        event_type: u8,
        event_flags: u16,
        checksum: ChecksumAlgorithm,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = self.out.len();
        self.out.extend([0; EventHeader::LEN]);
        body(&mut self.out);
        let event_len = self.out.len() - start + checksum.len();
        let header = EventHeader {
            timestamp: self.timestamp,
            event_type,
            server_id: self.server_id,
            event_len: u32::try_from(event_len).unwrap_or(u32::MAX),
            log_pos: low_bits(self.position() + checksum.len() as u64),
            flags: event_flags,
        };
        if let Some(room) = self.out.get_mut(start..start + EventHeader::LEN) {
            room.copy_from_slice(&header.encode());
        }
        if checksum == ChecksumAlgorithm::Crc32 {
            let crc = checksum_of(self.out.get(start..).unwrap_or_default());
            self.out.extend(crc.to_le_bytes());
        }
    }

    /// Appends a format description. The events after it carry the checksum it announces.
    pub fn format_description(&mut self, format: &FormatDescription, event_flags: u16) {
        let own = if format.carries_own_checksum() { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::None };
        self.event_with(event_type::FORMAT_DESCRIPTION, event_flags, own, |out| format.encode_into(out));
        self.checksum = format.checksum;
    }

    /// Appends the GTIDs of all earlier files.
    pub fn previous_gtids(&mut self, set: &GtidSet) {
        self.event(event_type::PREVIOUS_GTIDS, flags::IGNORABLE, |out| out.extend(set.encode()));
    }

    /// Appends a Rotate event: the log continues in another file.
    pub fn rotate(&mut self, file: &[u8], position: u64) {
        self.event(event_type::ROTATE, 0, |out| Rotate { position, file }.encode_into(out));
    }

    /// Opens a transaction; the event type follows from the GTID.
    pub fn gtid(&mut self, gtid: &GtidEvent) {
        self.event(gtid.event_type(), 0, |out| gtid.encode_into(out));
    }

    /// Appends a statement.
    pub fn query(&mut self, query: &QueryEvent<'_>) {
        self.event(event_type::QUERY, 0, |out| query.encode_into(out));
    }

    /// Appends BEGIN, COMMIT or another statement that needs no session.
    pub fn statement(&mut self, db: &[u8], sql: &[u8]) {
        let status = QueryStatus {
            flags2: Some(0),
            sql_mode: Some(0),
            catalog: Some(b"std"),
            charset_client: Some(255),
            collation_connection: Some(255),
            collation_server: Some(255),
            ..QueryStatus::default()
        };
        self.query(&QueryEvent { thread_id: 1, exec_time: 0, error_code: 0, db, status, sql });
    }

    /// Appends the commit of a transaction.
    pub fn xid(&mut self, xid: u64) {
        self.event(event_type::XID, 0, |out| out.extend(xid.to_le_bytes()));
    }

    /// Appends the end of an XA transaction's events.
    pub fn xa_prepare(&mut self, prepare: &XaPrepare) {
        self.event(event_type::XA_PREPARE, 0, |out| prepare.encode_into(out));
    }

    /// Appends the table of the rows that follow.
    pub fn table_map(&mut self, map: &TableMapEvent<'_>) {
        self.event(event_type::TABLE_MAP, 0, |out| map.encode_into(out));
    }

    /// Appends a rows event.
    pub fn rows(&mut self, rows: &RowsEvent<'_>) {
        self.event(rows.kind.event_type(), 0, |out| rows.encode_into(out));
    }

    /// Appends the text of the statement whose rows follow.
    pub fn rows_query(&mut self, sql: &[u8]) {
        self.event(event_type::ROWS_QUERY, flags::IGNORABLE, |out| RowsQuery { sql }.encode_into(out));
    }

    /// Appends an incident: something could not be logged.
    pub fn incident(&mut self, kind: u16, message: &[u8]) {
        self.event(event_type::INCIDENT, 0, |out| Incident { kind, message }.encode_into(out));
    }

    /// Appends a Stop event.
    pub fn stop(&mut self) {
        self.event(event_type::STOP, 0, |_| {});
    }

    /// Appends a payload that is already compressed.
    pub fn payload(&mut self, payload: &TransactionPayload<'_>) {
        self.event(event_type::TRANSACTION_PAYLOAD, 0, |out| payload.encode_into(out));
    }

    /// Appends a whole transaction: the Gtid event with its `transaction_length`, then the events that `events` writes.
    pub fn transaction(&mut self, gtid: &GtidEvent, events: impl FnOnce(&mut BinlogWriter)) {
        let mut inner = self.inner(self.checksum);
        events(&mut inner);
        self.open_transaction(gtid, inner.out.len() as u64);
        self.append_relocated(inner.out);
    }

    /// Opens a transaction whose events follow one at a time because they should not be held in memory together.
    /// Appends the Gtid event with the `transaction_length` that follows from `rest` bytes of later events.
    pub fn open_transaction(&mut self, gtid: &GtidEvent, rest: u64) {
        let gtid = self.with_length(gtid, rest);
        self.gtid(&gtid);
    }

    /// Appends a whole transaction: the Gtid event, then a compressed payload of the events that `events` writes.
    pub fn compressed_transaction(
        &mut self,
        gtid: &GtidEvent,
        events: impl FnOnce(&mut BinlogWriter),
    ) -> Result<(), BinlogError> {
        let mut inner = self.inner(ChecksumAlgorithm::None);
        events(&mut inner);
        let packed = zstd::bulk::compress(&inner.out, 3)
            .map_err(|error| BinlogError::Decompress { detail: error.to_string() })?;
        let payload = TransactionPayload {
            compression: Compression::Zstd,
            uncompressed_size: Some(inner.out.len() as u64),
            payload: &packed,
        };
        self.transaction(gtid, |writer| writer.payload(&payload));
        Ok(())
    }

    fn inner(&self, checksum: ChecksumAlgorithm) -> BinlogWriter {
        BinlogWriter { out: Vec::new(), base: 0, checksum, ..*self }
    }

    /// The length includes the Gtid event, whose own length depends on it: at most two more bytes a round.
    fn with_length(&self, gtid: &GtidEvent, rest: u64) -> GtidEvent {
        let mut gtid = *gtid;
        gtid.transaction_length = Some(rest);
        let mut body = Vec::new();
        for _ in 0..8 {
            body.clear();
            gtid.encode_into(&mut body);
            let length = (EventHeader::LEN + body.len() + self.checksum.len()) as u64 + rest;
            if gtid.transaction_length == Some(length) {
                break;
            }
            gtid.transaction_length = Some(length);
        }
        gtid
    }

    /// Appends events that were written for other positions.
    fn append_relocated(&mut self, mut events: Vec<u8>) {
        let mut position = self.position();
        let mut rest = events.as_mut_slice();
        while let Ok(header) = EventHeader::parse(rest) {
            let len = (header.event_len as usize).min(rest.len());
            let (event, after) = std::mem::take(&mut rest).split_at_mut(len);
            position += len as u64;
            relocate(event, position, self.checksum);
            rest = after;
        }
        self.out.append(&mut events);
    }
}

/// A position as the header's 32-bit field holds it: it wraps in files above 4 GiB, as a server's does.
fn low_bits(position: u64) -> u32 {
    (position & 0xffff_ffff) as u32
}

/// Gives a whole event another end position, and the checksum to match.
pub fn relocate(event: &mut [u8], log_pos: u64, checksum: ChecksumAlgorithm) {
    let Some(field) = event.get_mut(13..17) else {
        return;
    };
    field.copy_from_slice(&low_bits(log_pos).to_le_bytes());
    if checksum == ChecksumAlgorithm::Crc32
        && let Some((bytes, crc)) = event.split_last_chunk_mut::<4>()
    {
        *crc = checksum_of(bytes).to_le_bytes();
    }
}
