//! Gives a transaction another place in a logical clock, without a change to anything else.
//!
//! In: a whole Gtid event, and its transaction's new clock and length. Out: the event to write in its place. Never
//! here: a field lost that this crate does not know.

use crate::{BinlogError, CHECKSUM_LEN, ChecksumAlgorithm, EventHeader, GtidEvent, event_body, event_type};

/// Bytes of a Gtid or Anonymous_gtid event's body before the clock: flags, UUID, transaction number, the clock's kind.
const CLOCK_AT: usize = 1 + 16 + 8 + 1;

/// Builds a Gtid event with another `last_committed` and `sequence_number`, for a log with CRC32 checksums. `rest` is
/// the length in bytes of the transaction's later events as written there. Its own checksum and position are left to
/// [`relocate`](crate::writer::relocate).
///
/// # Errors
/// It cannot be parsed, or its length changes and it holds fields of a later version, which would be lost.
pub fn restamped(
    event: &[u8],
    checksum: ChecksumAlgorithm,
    last_committed: i64,
    sequence_number: i64,
    rest: u64,
) -> Result<Vec<u8>, BinlogError> {
    let header = EventHeader::parse(event)?;
    let body = event_body(event, checksum)?;
    let mut gtid = GtidEvent::parse(header.event_type, body)?;
    if header.event_type != event_type::GTID_TAGGED && checksum == ChecksumAlgorithm::Crc32 {
        // No length changes.
        let mut out = event.to_vec();
        let at = EventHeader::LEN + CLOCK_AT;
        for (at, value) in [(at, last_committed), (at + 8, sequence_number)] {
            if let Some(field) = out.get_mut(at..at + 8) {
                field.copy_from_slice(&value.to_le_bytes());
            }
        }
        return Ok(out);
    }
    let mut encoded = Vec::with_capacity(body.len());
    gtid.encode_into(&mut encoded);
    if gtid.event_type() != header.event_type || encoded != body {
        return Err(BinlogError::UnsupportedEvent {
            event: header.name(),
            code: header.event_type,
            reason: "it holds fields of a later version, which would be lost with its new length",
        });
    }
    (gtid.last_committed, gtid.sequence_number) = (last_committed, sequence_number);
    // The length includes this event, whose own length depends on it: it settles after a round or two.
    for _ in 0..8 {
        encoded.clear();
        gtid.encode_into(&mut encoded);
        let length = (EventHeader::LEN + encoded.len() + CHECKSUM_LEN) as u64 + rest;
        match &mut gtid.transaction_length {
            Some(stated) if *stated != length => *stated = length,
            _ => break,
        }
    }
    let event_len = u32::try_from(EventHeader::LEN + encoded.len() + CHECKSUM_LEN).unwrap_or(u32::MAX);
    let mut out = EventHeader { event_len, ..header }.encode().to_vec();
    out.append(&mut encoded);
    out.extend([0; CHECKSUM_LEN]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify_checksum;
    use crate::writer::{BinlogWriter, relocate};
    use base::{Gtid, Tag, Uuid};
    use proptest::prelude::*;

    fn gtid(tag: &str, gno: u64) -> Option<Gtid> {
        let tag = if tag.is_empty() { Tag::EMPTY } else { Tag::new(tag.as_bytes()).unwrap() };
        Some(Gtid { uuid: Uuid([7; 16]), tag, gno })
    }

    /// The transaction, its Gtid event's length, and the length of what follows with checksums.
    fn written(gtid: &GtidEvent, checksum: ChecksumAlgorithm, rows: usize) -> (Vec<u8>, usize, u64) {
        let mut writer = BinlogWriter::new(5, checksum, 4);
        writer.transaction(gtid, |events| {
            events.statement(b"d", b"BEGIN");
            events.event(event_type::WRITE_ROWS, 0, |out| out.resize(out.len() + rows, 3));
            events.xid(1);
        });
        let bytes = writer.take();
        let len = EventHeader::parse(&bytes).unwrap().event_len as usize;
        let grown = if checksum == ChecksumAlgorithm::None { 3 * CHECKSUM_LEN } else { 0 };
        let rest = (bytes.len() - len + grown) as u64;
        (bytes, len, rest)
    }

    proptest! {
        #[test]
        fn only_the_clock_and_the_length_change(
            tag in "(|[a-z_]{1,32})",
            (gno, immediate, original) in (1u64..1 << 60, 0u64..1 << 50, 0u64..1 << 50),
            (before, after) in ((0i64..1 << 40, 0i64..1 << 40), (0i64..1 << 40, 0i64..1 << 40)),
            rows in prop::sample::select(vec![0usize, 20, 90, 200, 300, 16_000, 70_000]),
            checksums: bool,
        ) {
            let checksum = if checksums { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::None };
            let mut event = GtidEvent::new(gtid(&tag, gno), before.0, before.1);
            event.immediate_commit_timestamp_us = immediate;
            event.original_commit_timestamp_us = original;
            (event.immediate_server_version, event.original_server_version) = (Some(90_704), Some(80_040));
            let (bytes, len, rest) = written(&event, checksum, rows);
            let mut out = restamped(&bytes[..len], checksum, after.0, after.1, rest).unwrap();
            relocate(&mut out, 1234, ChecksumAlgorithm::Crc32);
            prop_assert!(verify_checksum(&out));
            let header = EventHeader::parse(&out).unwrap();
            prop_assert_eq!((header.event_len as usize, header.log_pos, header.server_id), (out.len(), 1234, 5));
            let read = GtidEvent::parse(header.event_type, event_body(&out, ChecksumAlgorithm::Crc32).unwrap()).unwrap();
            let length = Some(out.len() as u64 + rest);
            let (last_committed, sequence_number) = after;
            prop_assert_eq!(read, GtidEvent { last_committed, sequence_number, transaction_length: length, ..event });
        }
    }

    #[test]
    fn fields_of_a_later_version_are_kept_or_refused() {
        let (mut plain, len, rest) = written(&GtidEvent::new(gtid("", 3), 1, 2), ChecksumAlgorithm::Crc32, 9);
        plain.truncate(len);
        let body_end = plain.len() - CHECKSUM_LEN;
        plain.splice(body_end..body_end, [9; 8]);
        let header = EventHeader::parse(&plain).unwrap();
        let event_len = u32::try_from(plain.len()).unwrap();
        plain[..EventHeader::LEN].copy_from_slice(&EventHeader { event_len, ..header }.encode());
        let out = restamped(&plain, ChecksumAlgorithm::Crc32, 8, 9, rest).unwrap();
        assert_eq!(out[body_end..body_end + 8], [9; 8]);
        // With more bytes after all that is known, and a length that changes.
        let (mut longer, len, rest) = written(&GtidEvent::new(gtid("", 3), 1, 2), ChecksumAlgorithm::None, 9);
        longer.truncate(len);
        longer.extend([9; 30]);
        let header = EventHeader::parse(&longer).unwrap();
        let event_len = u32::try_from(longer.len()).unwrap();
        longer[..EventHeader::LEN].copy_from_slice(&EventHeader { event_len, ..header }.encode());
        assert!(restamped(&longer, ChecksumAlgorithm::None, 8, 9, rest).is_err());
    }
}
