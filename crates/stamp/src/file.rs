//! One file of the served log, as bytes.
//!
//! In: a format description, transactions with their stamps. Out: the file's bytes. Never here: I/O, the choice where
//! a file ends.

use base::GtidSet;
use binlog::writer::{BinlogWriter, relocate};
use binlog::{BinlogError, CHECKSUM_LEN, ChecksumAlgorithm, EventHeader, FormatDescription, event_type, restamped};
use decode::trackers::Stamp;

/// Offset of the length in an event's header.
const LEN_AT: usize = 9;

pub(crate) struct ServedFile {
    /// Length of everything written, in bytes.
    position: u64,
    server_id: u32,
    timestamp: u32,
    out: Vec<u8>,
}

impl ServedFile {
    /// Begins a file: magic, format description and the GTIDs of all earlier files.
    pub(crate) fn begin(format: &FormatDescription, server_id: u32, timestamp: u32, previous: &GtidSet) -> ServedFile {
        // `created` would tell replicas that the server was started, and a file made again must have the same bytes.
        let format = FormatDescription { created: 0, checksum: ChecksumAlgorithm::Crc32, ..format.clone() };
        let mut writer = BinlogWriter::start_file(server_id, timestamp, &format);
        writer.previous_gtids(previous);
        let position = writer.position();
        ServedFile { position, server_id, timestamp, out: writer.take() }
    }

    /// Length so far, in bytes.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Takes the bytes written since the last call.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Appends a transaction whose events have this checksum, with another stamp.
    pub(crate) fn transaction(
        &mut self,
        events: &[u8],
        checksum: ChecksumAlgorithm,
        stamp: Stamp,
    ) -> Result<(), BinlogError> {
        let grows = CHECKSUM_LEN - checksum.len();
        let (opening, mut rest) = first_event(events)?;
        let mut count = 0;
        let mut after = rest;
        while !after.is_empty() {
            after = first_event(after)?.1;
            count += 1;
        }
        let rest_bytes = (rest.len() + count * grows) as u64;
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let (parent, own) = (number(stamp.last_committed), number(stamp.sequence_number));
        let mut gtid = restamped(opening, checksum, parent, own, rest_bytes)?;
        self.position += gtid.len() as u64;
        relocate(&mut gtid, self.position, ChecksumAlgorithm::Crc32);
        self.out.reserve(gtid.len() + rest.len() + count * grows);
        self.out.append(&mut gtid);
        while !rest.is_empty() {
            let (event, after) = first_event(rest)?;
            rest = after;
            let at = self.out.len();
            self.out.extend_from_slice(event);
            let len = event.len() + grows;
            self.out.resize(at + len, 0);
            self.position += len as u64;
            let Some(copy) = self.out.get_mut(at..) else { continue };
            if grows > 0
                && let Some(field) = copy.get_mut(LEN_AT..LEN_AT + 4)
            {
                field.copy_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
            }
            relocate(copy, self.position, ChecksumAlgorithm::Crc32);
        }
        Ok(())
    }

    /// Ends the file: the log goes on in this one.
    pub(crate) fn rotate(&mut self, next: &str) {
        let mut writer = BinlogWriter::new(self.server_id, ChecksumAlgorithm::Crc32, self.position);
        writer.set_timestamp(self.timestamp);
        writer.rotate(next.as_bytes(), 4);
        self.position = writer.position();
        self.out.extend(writer.take());
    }
}

/// Splits off the first event.
pub(crate) fn first_event(bytes: &[u8]) -> Result<(&[u8], &[u8]), BinlogError> {
    let header = EventHeader::parse(bytes)?;
    let len = header.event_len as usize;
    bytes.split_at_checked(len).ok_or(BinlogError::Truncated { need: len as u64, have: bytes.len() as u64 })
}

/// True for the event that opens a transaction.
pub(crate) fn opens(event_type: u8) -> bool {
    matches!(event_type, event_type::GTID | event_type::ANONYMOUS_GTID | event_type::GTID_TAGGED)
}
