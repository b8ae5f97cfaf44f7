//! The Format_description event, which gives the layout of the events after it.

use crate::cursor::Cursor;
use crate::header::{CHECKSUM_LEN, ChecksumAlgorithm, EventHeader};
use crate::{BinlogError, event_body, event_type, verify_checksum};

const EVENT: &str = "Format_desc";
const SERVER_VERSION_LEN: usize = 50;
/// Length of an event header as this event states it.
const HEADER_LEN: u8 = 19;
const _: () = assert!(HEADER_LEN as usize == EventHeader::LEN);

/// Bytes between header and body that MySQL 8.3 to 9.7 gives each event type, ordered by type code from 1.
const POST_HEADER_LENS: [u8; 42] = [
    0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 99, 0, 4, 26, 8, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 10, 10, 10, 42, 42, 0,
    18, 52, 0, 10, 40, 0, 0,
];

/// A format description event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatDescription {
    /// Version of the server that wrote the log, for example "9.7.4".
    pub server_version: String,
    /// Seconds since 1970 of the server's start, if this is the first log after it; otherwise 0.
    pub created: u32,
    /// Length of an event header: always 19.
    pub header_len: u8,
    /// Length of the fixed part of each event type, ordered by type code from 1.
    pub post_header_lens: Vec<u8>,
    /// Checksum that the events after it carry. The format description itself always has one (since 5.6.1).
    pub checksum: ChecksumAlgorithm,
}

impl FormatDescription {
    /// The event as a MySQL server of this version writes it.
    pub fn new(server_version: &str, checksum: ChecksumAlgorithm) -> FormatDescription {
        FormatDescription {
            server_version: server_version.to_owned(),
            created: 0,
            header_len: HEADER_LEN,
            post_header_lens: POST_HEADER_LENS.to_vec(),
            checksum,
        }
    }

    /// Reads a whole format description event, header and checksum included, and verifies the checksum. Rejects
    /// MariaDB's logs, binlog versions other than 4, and layouts that no supported server wrote.
    pub fn parse(event: &[u8]) -> Result<FormatDescription, BinlogError> {
        let header = EventHeader::parse(event)?;
        if header.event_type != event_type::FORMAT_DESCRIPTION {
            return Err(BinlogError::NoFormatDescription { found: header.name() });
        }
        let mut body = Cursor::new(EVENT, event_body(event, ChecksumAlgorithm::None)?);
        let version = body.u16("binlog version")?;
        let server_version = body.bytes(SERVER_VERSION_LEN, "server version")?;
        let server_version = server_version.split(|&byte| byte == 0).next().unwrap_or_default();
        let server_version = String::from_utf8_lossy(server_version).into_owned();
        if version != 4 {
            // No server that writes checksums wrote a different checksum, so a bit has flipped.
            if carries_checksum(&server_version) && !verify_checksum(event) {
                return Err(BinlogError::Checksum { event: EVENT });
            }
            return Err(BinlogError::FormatVersion { version, server_version });
        }
        let created = body.u32("created")?;
        let header_len = body.u8("header length")?;
        if usize::from(header_len) != EventHeader::LEN {
            return Err(body.value("header length", u64::from(header_len)));
        }
        let mut rest = body.take_rest();
        let mut checksum = ChecksumAlgorithm::None;
        if carries_checksum(&server_version) {
            let Some((lens, tail)) = rest.split_last_chunk::<{ CHECKSUM_LEN + 1 }>() else {
                return Err(body.short("checksum"));
            };
            if !verify_checksum(event) {
                return Err(BinlogError::Checksum { event: EVENT });
            }
            rest = lens;
            checksum = match tail[0] {
                0 | 255 => ChecksumAlgorithm::None,
                1 => ChecksumAlgorithm::Crc32,
                code => return Err(BinlogError::ChecksumAlgorithm { code }),
            };
        }
        if server_version.to_ascii_lowercase().contains("mariadb") {
            return Err(BinlogError::MariaDb { evidence: format!("server version {server_version:?}") });
        }
        let description =
            FormatDescription { server_version, created, header_len, post_header_lens: rest.to_vec(), checksum };
        description.check_layout()?;
        Ok(description)
    }

    /// True if the event itself ends with a CRC32, whatever the algorithm of the others: always since 5.6.1.
    pub fn carries_own_checksum(&self) -> bool {
        carries_checksum(&self.server_version)
    }

    /// Length of the fixed part of an event type, if the event lists it.
    pub fn post_header_len(&self, event_type: u8) -> Option<u8> {
        let index = usize::from(event_type).checked_sub(1)?;
        self.post_header_lens.get(index).copied()
    }

    /// This crate's parsers know one layout per event. A log that announces another must not be guessed at.
    fn check_layout(&self) -> Result<(), BinlogError> {
        let known = [
            (event_type::QUERY, 13),
            (event_type::ROTATE, 8),
            (event_type::TABLE_MAP, 8),
            (event_type::WRITE_ROWS, 10),
            (event_type::UPDATE_ROWS, 10),
            (event_type::DELETE_ROWS, 10),
            (event_type::PARTIAL_UPDATE_ROWS, 10),
        ];
        for (code, expected) in known {
            if self.post_header_len(code).is_some_and(|len| len != expected) {
                return Err(BinlogError::UnsupportedEvent {
                    event: event_type::name(code),
                    code,
                    reason: "the log announces a layout for it that only development versions of MySQL 5.1 wrote",
                });
            }
        }
        Ok(())
    }

    /// Appends the body: with the checksum algorithm, without the checksum.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend(4u16.to_le_bytes());
        let mut version = [0; SERVER_VERSION_LEN];
        // One zero byte always remains, whatever version the caller names.
        for (to, from) in version.iter_mut().take(SERVER_VERSION_LEN - 1).zip(self.server_version.bytes()) {
            *to = from;
        }
        out.extend(version);
        out.extend(self.created.to_le_bytes());
        out.push(self.header_len);
        out.extend(&self.post_header_lens);
        out.push(self.checksum.code());
    }
}

/// Checksums were introduced in 5.6.1 (binlog_event.h, `checksum_version_product`). A text that is not a version counts
/// as newer.
fn carries_checksum(server_version: &str) -> bool {
    let mut numbers = server_version.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok);
    match next() {
        Some(major) => (major, next().unwrap_or(0), next().unwrap_or(0)) >= (5, 6, 1),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_5_6_1_carry_no_checksum() {
        for (version, expected) in [
            ("5.0.86-debug-log", false),
            ("5.1.37-ndb-6.2.19-debug-log", false),
            ("5.6.0", false),
            ("5.6.1", true),
            ("5.7.22-debug", true),
            ("8.0.2-dmr", true),
            ("26.10", true),
            ("9.7.4-1", true),
        ] {
            assert_eq!(carries_checksum(version), expected, "{version}");
        }
    }
}
