//! The 19 bytes at the start of every event, and the four that may end it.

use crate::BinlogError;
use crate::event_type::{self, FORMAT_DESCRIPTION};

/// Length of the checksum at the end of an event.
pub const CHECKSUM_LEN: usize = 4;

/// Bits of an event header's flags (log_event.h).
pub mod flags {
    /// The file was not closed properly. Set only in the format description; the only flag that is rewritten in place.
    pub const BINLOG_IN_USE: u16 = 0x1;
    /// The statement depends on its session (temporary tables).
    pub const THREAD_SPECIFIC: u16 = 0x4;
    /// No USE before the statement.
    pub const SUPPRESS_USE: u16 = 0x8;
    /// Created by the sender; not in any binlog file.
    pub const ARTIFICIAL: u16 = 0x20;
    /// Written by the replica into its relay log.
    pub const RELAY_LOG: u16 = 0x40;
    /// May be skipped by readers that do not know its type.
    pub const IGNORABLE: u16 = 0x80;
    /// Not subject to database filters.
    pub const NO_FILTER: u16 = 0x100;
    /// Must not be applied in parallel with any other transaction.
    pub const MTS_ISOLATE: u16 = 0x200;
}

/// How events end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChecksumAlgorithm {
    /// Without a checksum.
    None,
    /// With zlib's CRC32 of the rest.
    #[default]
    Crc32,
}

impl ChecksumAlgorithm {
    /// Length in bytes of the checksum.
    #[inline]
    pub fn len(self) -> usize {
        match self {
            ChecksumAlgorithm::None => 0,
            ChecksumAlgorithm::Crc32 => CHECKSUM_LEN,
        }
    }

    /// True if events carry no checksum.
    #[inline]
    pub fn is_empty(self) -> bool {
        self == ChecksumAlgorithm::None
    }

    /// Code of the algorithm in a format description event.
    pub fn code(self) -> u8 {
        match self {
            ChecksumAlgorithm::None => 0,
            ChecksumAlgorithm::Crc32 => 1,
        }
    }
}

/// Header that every event has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventHeader {
    /// Seconds since 1970 at which the statement began; 0 in artificial events.
    pub timestamp: u32,
    /// One of [`crate::event_type`].
    pub event_type: u8,
    /// Server that first wrote the event.
    pub server_id: u32,
    /// Length of the whole event, header and checksum included.
    pub event_len: u32,
    /// Position after the event in its binlog, modulo 4 GiB; 0 in artificial events.
    pub log_pos: u32,
    /// Bits of [`flags`].
    pub flags: u16,
}

impl EventHeader {
    /// Length of an event header.
    pub const LEN: usize = 19;

    /// Reads the header at the start of `bytes`, which may be longer. Fails if there are fewer than 19 bytes or the
    /// stated length is shorter than a header.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<EventHeader, BinlogError> {
        let Some((h, _)) = bytes.split_first_chunk::<{ EventHeader::LEN }>() else {
            return Err(BinlogError::Short { event: "event", field: "header" });
        };
        let header = EventHeader {
            timestamp: u32::from_le_bytes([h[0], h[1], h[2], h[3]]),
            event_type: h[4],
            server_id: u32::from_le_bytes([h[5], h[6], h[7], h[8]]),
            event_len: u32::from_le_bytes([h[9], h[10], h[11], h[12]]),
            log_pos: u32::from_le_bytes([h[13], h[14], h[15], h[16]]),
            flags: u16::from_le_bytes([h[17], h[18]]),
        };
        if (header.event_len as usize) < EventHeader::LEN {
            return Err(BinlogError::Value {
                event: event_type::name(header.event_type),
                field: "event length",
                value: u64::from(header.event_len),
            });
        }
        Ok(header)
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; EventHeader::LEN] {
        let mut bytes = [0; EventHeader::LEN];
        let fields: [&[u8]; 6] = [
            &self.timestamp.to_le_bytes(),
            &[self.event_type],
            &self.server_id.to_le_bytes(),
            &self.event_len.to_le_bytes(),
            &self.log_pos.to_le_bytes(),
            &self.flags.to_le_bytes(),
        ];
        for (to, from) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }

    /// MySQL's name of the event's type.
    pub fn name(&self) -> &'static str {
        event_type::name(self.event_type)
    }

    /// True for events created by the sender (the Rotate at the start of a dump, heartbeats).
    #[inline]
    pub fn is_artificial(&self) -> bool {
        self.flags & flags::ARTIFICIAL != 0
    }

    /// True if readers that do not know the type may skip the event.
    #[inline]
    pub fn is_ignorable(&self) -> bool {
        self.flags & flags::IGNORABLE != 0
    }
}

/// True if the event's last four bytes are the CRC32 of the rest. Call it only for events that have one: all while the
/// algorithm is CRC32, and every format description. The in-use flag of a format description is not part of the sum.
#[inline]
pub fn verify_checksum(event: &[u8]) -> bool {
    let Some((bytes, stored)) = event.split_last_chunk::<CHECKSUM_LEN>() else {
        return false;
    };
    checksum_of(bytes) == u32::from_le_bytes(*stored)
}

/// CRC32 of an event given without its checksum.
#[inline]
pub(crate) fn checksum_of(bytes: &[u8]) -> u32 {
    match bytes.split_first_chunk::<{ EventHeader::LEN }>() {
        Some((header, body)) if header[4] == FORMAT_DESCRIPTION && header[17] & 1 != 0 => {
            let mut header = *header;
            header[17] &= !1;
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&header);
            hasher.update(body);
            hasher.finalize()
        }
        _ => crc32fast::hash(bytes),
    }
}

/// Returns the event without its header and checksum. `event` is exactly one event; the checksum is not verified.
#[inline]
pub fn event_body(event: &[u8], checksum: ChecksumAlgorithm) -> Result<&[u8], BinlogError> {
    let header = EventHeader::parse(event)?;
    if header.event_len as usize != event.len() {
        return Err(BinlogError::EventLength { event: header.name(), stated: header.event_len, actual: event.len() });
    }
    event
        .get(EventHeader::LEN..event.len().saturating_sub(checksum.len()))
        .ok_or(BinlogError::Short { event: header.name(), field: "checksum" })
}

/// Rejects events that must not be skipped: MariaDB's, rows of MySQL 5.1, unknown types not flagged as ignorable.
pub fn check_event_type(header: &EventHeader) -> Result<(), BinlogError> {
    match header.event_type {
        event_type::QUERY..=event_type::INTVAR
        | event_type::APPEND_BLOCK
        | event_type::DELETE_FILE
        | event_type::RAND..=event_type::TABLE_MAP
        | event_type::INCIDENT..=event_type::GTID_TAGGED => Ok(()),
        code if event_type::is_old_rows(code) => Err(BinlogError::UnsupportedEvent {
            event: header.name(),
            code,
            reason: "row format of MySQL 5.1 to 5.5; only version 2 (MySQL 5.6 and later) is read",
        }),
        code @ (event_type::START_V3 | 6 | 7 | 8 | 10 | 12) => Err(BinlogError::UnsupportedEvent {
            event: header.name(),
            code,
            reason: "no server since MySQL 5.0 writes it",
        }),
        code @ event_type::MARIADB_FIRST..=event_type::MARIADB_LAST => {
            Err(BinlogError::MariaDb { evidence: format!("event type {code}") })
        }
        _ if header.is_ignorable() => Ok(()),
        code => Err(BinlogError::UnknownEvent { code }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_length_below_the_header_is_refused() {
        let header = EventHeader { event_len: 18, ..EventHeader::default() };
        assert!(EventHeader::parse(&header.encode()).is_err());
        assert!(EventHeader::parse(&[0; 18]).is_err());
    }

    #[test]
    fn the_in_use_flag_is_outside_the_checksum() {
        let mut header = EventHeader { event_type: FORMAT_DESCRIPTION, event_len: 23, ..EventHeader::default() };
        let crc = crc32fast::hash(&header.encode());
        header.flags = flags::BINLOG_IN_USE;
        let mut event = header.encode().to_vec();
        event.extend(crc.to_le_bytes());
        assert!(verify_checksum(&event));
        event[17] |= 2;
        assert!(!verify_checksum(&event));
        assert!(!verify_checksum(&event[..3]));
    }

    #[test]
    fn unknown_types_pass_only_when_ignorable() {
        let mut header = EventHeader { event_type: 99, event_len: 19, ..EventHeader::default() };
        assert!(matches!(check_event_type(&header), Err(BinlogError::UnknownEvent { code: 99 })));
        header.flags = flags::IGNORABLE;
        assert!(check_event_type(&header).is_ok());
        for (code, word) in [(23, "Write_rows_v1"), (162, "MariaDB"), (1, "Start_v3")] {
            header.event_type = code;
            let message = check_event_type(&header).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }

    proptest! {
        #[test]
        fn header_round_trip(timestamp: u32, event_type: u8, server_id: u32, event_len in 19u32.., log_pos: u32, flags: u16) {
            let header = EventHeader { timestamp, event_type, server_id, event_len, log_pos, flags };
            prop_assert_eq!(EventHeader::parse(&header.encode()).unwrap(), header);
        }
    }
}
