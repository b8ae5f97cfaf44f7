//! Writes events as a MySQL server would: for relay logs, tests and generated logs.

use base::GtidSet;

use crate::header::checksum_of;
use crate::reader::MAGIC;
use crate::{
    BinlogError, ChecksumAlgorithm, Compression, EventHeader, FormatDescription, GtidEvent, Incident, QueryEvent,
    QueryStatus, Rotate, RowsEvent, RowsQuery, TableMapEvent, TransactionPayload, XaPrepare, event_type, flags,
};

/// Collects events one behind the other in memory, giving each its length, position and checksum. The caller takes
/// the bytes when it likes; positions go on.
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
    /// A writer whose first event will stand at `position`.
    pub fn new(server_id: u32, checksum: ChecksumAlgorithm, position: u64) -> BinlogWriter {
        BinlogWriter { out: Vec::new(), base: position, server_id, timestamp: 0, checksum }
    }

    /// A writer at the start of a new file: magic and format description are written.
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

    /// Position in the log after all that was written.
    pub fn position(&self) -> u64 {
        self.base + self.out.len() as u64
    }

    /// What was written since the last [`BinlogWriter::take`].
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Hands over what was written and goes on behind it.
    pub fn take(&mut self) -> Vec<u8> {
        self.base = self.position();
        std::mem::take(&mut self.out)
    }

    /// An event of any type; `body` appends its body.
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

    /// A format description; the events that follow carry the checksum it announces.
    pub fn format_description(&mut self, format: &FormatDescription, event_flags: u16) {
        let own = if format.carries_own_checksum() { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::None };
        self.event_with(event_type::FORMAT_DESCRIPTION, event_flags, own, |out| format.encode_into(out));
        self.checksum = format.checksum;
    }

    /// GTIDs of all earlier files.
    pub fn previous_gtids(&mut self, set: &GtidSet) {
        self.event(event_type::PREVIOUS_GTIDS, flags::IGNORABLE, |out| out.extend(set.encode()));
    }

    /// The log goes on in another file.
    pub fn rotate(&mut self, file: &[u8], position: u64) {
        self.event(event_type::ROTATE, 0, |out| Rotate { position, file }.encode_into(out));
    }

    /// Opens a transaction; the event type follows from the GTID.
    pub fn gtid(&mut self, gtid: &GtidEvent) {
        self.event(gtid.event_type(), 0, |out| gtid.encode_into(out));
    }

    /// A statement.
    pub fn query(&mut self, query: &QueryEvent<'_>) {
        self.event(event_type::QUERY, 0, |out| query.encode_into(out));
    }

    /// BEGIN, COMMIT and their like: statements that need no session.
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

    /// Commit of a transaction.
    pub fn xid(&mut self, xid: u64) {
        self.event(event_type::XID, 0, |out| out.extend(xid.to_le_bytes()));
    }

    /// End of an XA transaction's events.
    pub fn xa_prepare(&mut self, prepare: &XaPrepare) {
        self.event(event_type::XA_PREPARE, 0, |out| prepare.encode_into(out));
    }

    /// Names the table of the rows that follow.
    pub fn table_map(&mut self, map: &TableMapEvent<'_>) {
        self.event(event_type::TABLE_MAP, 0, |out| map.encode_into(out));
    }

    /// Rows.
    pub fn rows(&mut self, rows: &RowsEvent<'_>) {
        self.event(rows.kind.event_type(), 0, |out| rows.encode_into(out));
    }

    /// Text of the statement whose rows follow.
    pub fn rows_query(&mut self, sql: &[u8]) {
        self.event(event_type::ROWS_QUERY, flags::IGNORABLE, |out| RowsQuery { sql }.encode_into(out));
    }

    /// Something could not be logged.
    pub fn incident(&mut self, kind: u16, message: &[u8]) {
        self.event(event_type::INCIDENT, 0, |out| Incident { kind, message }.encode_into(out));
    }

    /// The server stopped.
    pub fn stop(&mut self) {
        self.event(event_type::STOP, 0, |_| {});
    }

    /// A payload that is packed already.
    pub fn payload(&mut self, payload: &TransactionPayload<'_>) {
        self.event(event_type::TRANSACTION_PAYLOAD, 0, |out| payload.encode_into(out));
    }

    /// A whole transaction: the Gtid event with its `transaction_length` filled in, then the events `events` writes.
    pub fn transaction(&mut self, gtid: &GtidEvent, events: impl FnOnce(&mut BinlogWriter)) {
        let mut inner = self.inner(self.checksum);
        events(&mut inner);
        self.open_transaction(gtid, inner.out.len() as u64);
        self.append_relocated(inner.out);
    }

    /// Opens a transaction whose events follow one by one, for those that are not to be held in memory as a whole: the
    /// Gtid event, with the `transaction_length` that `rest` bytes of events behind it make.
    pub fn open_transaction(&mut self, gtid: &GtidEvent, rest: u64) {
        let gtid = self.with_length(gtid, rest);
        self.gtid(&gtid);
    }

    /// A whole transaction as the Gtid event and one compressed payload with the events `events` writes.
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

    /// The length counts the Gtid event, whose own length depends on it: at most two more bytes a round.
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

    /// Appends events that were written for another place.
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

/// A position as the header's field of 32 bits holds it: in files beyond 4 GiB it wraps, as a server's does.
fn low_bits(position: u64) -> u32 {
    (position & 0xffff_ffff) as u32
}

/// Gives one whole event another end position, and the checksum that goes with it.
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
