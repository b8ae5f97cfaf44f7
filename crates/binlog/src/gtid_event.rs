//! The event that opens a transaction, in its three forms: Gtid, Anonymous_Gtid, Gtid_tagged.

use base::{Gtid, GtidError, Tag, Uuid};

use crate::cursor::Cursor;
use crate::{BinlogError, encode, event_type, serialization};

/// Code of the logical timestamps, the only kind there is.
const LOGICAL_TIMESTAMP: u8 = 2;
/// In the 55-bit immediate timestamp: an original timestamp follows.
const ORIGINAL_TIMESTAMP_FOLLOWS: u64 = 1 << 55;
/// In the 31-bit immediate server version: an original server version follows.
const ORIGINAL_VERSION_FOLLOWS: u32 = 1 << 31;
/// "Unknown" in both server versions.
const UNDEFINED_VERSION: u32 = 999_999;
/// Largest transaction number (2^63 - 2).
const GNO_MAX: i64 = i64::MAX - 1;

/// Start of a transaction: its GTID, logical clock and commit times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtidEvent {
    /// `None` for an anonymous transaction.
    pub gtid: Option<Gtid>,
    /// Bit 0: the transaction may hold changes in statement format.
    pub flags: u8,
    /// Parent in the logical clock: the transaction may run in parallel with all others whose `sequence_number` is
    /// higher.
    pub last_committed: i64,
    /// The transaction's number in the logical clock, from 1 in each file; 0 if the source keeps no clock.
    pub sequence_number: i64,
    /// Microseconds since 1970 at which the immediate source committed; 0 = unknown.
    pub immediate_commit_timestamp_us: u64,
    /// Microseconds since 1970 at which the first source committed; 0 = unknown.
    pub original_commit_timestamp_us: u64,
    /// Bytes of the transaction's events in its binlog, including this one.
    pub transaction_length: Option<u64>,
    /// Version of the immediate source as XXYYZZ.
    pub immediate_server_version: Option<u32>,
    /// Version of the first source as XXYYZZ.
    pub original_server_version: Option<u32>,
    /// Group replication: transactions with the same ticket commit together.
    pub commit_group_ticket: Option<u64>,
}

impl GtidEvent {
    /// Bit of `flags`: the transaction may hold changes in statement format.
    pub const MAY_HAVE_STATEMENTS: u8 = 1;

    /// An event with a GTID and a clock, and nothing else.
    pub fn new(gtid: Option<Gtid>, last_committed: i64, sequence_number: i64) -> GtidEvent {
        GtidEvent {
            gtid,
            flags: 0,
            last_committed,
            sequence_number,
            immediate_commit_timestamp_us: 0,
            original_commit_timestamp_us: 0,
            transaction_length: None,
            immediate_server_version: None,
            original_server_version: None,
            commit_group_ticket: None,
        }
    }

    /// Reads the body of a Gtid, Anonymous_Gtid or Gtid_tagged event.
    #[inline]
    pub fn parse(event_type: u8, body: &[u8]) -> Result<GtidEvent, BinlogError> {
        let body = Cursor::new(event_type::name(event_type), body);
        match event_type {
            event_type::GTID | event_type::ANONYMOUS_GTID => parse_plain(event_type, body),
            event_type::GTID_TAGGED => parse_tagged(body),
            code => Err(body.value("event type", u64::from(code))),
        }
    }

    /// Event type that a server would use for it.
    pub fn event_type(&self) -> u8 {
        match &self.gtid {
            None => event_type::ANONYMOUS_GTID,
            Some(gtid) if gtid.tag.is_empty() => event_type::GTID,
            Some(_) => event_type::GTID_TAGGED,
        }
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        match &self.gtid {
            Some(gtid) if !gtid.tag.is_empty() => self.encode_tagged(gtid, out),
            _ => self.encode_plain(out),
        }
    }

    fn encode_plain(&self, out: &mut Vec<u8>) {
        out.push(self.flags);
        match &self.gtid {
            Some(gtid) => {
                out.extend(gtid.uuid.0);
                out.extend(gtid.gno.to_le_bytes());
            }
            None => out.extend([0; 24]),
        }
        out.push(LOGICAL_TIMESTAMP);
        out.extend(self.last_committed.to_le_bytes());
        out.extend(self.sequence_number.to_le_bytes());
        let immediate = self.immediate_commit_timestamp_us & (ORIGINAL_TIMESTAMP_FOLLOWS - 1);
        let original = self.original_commit_timestamp_us & (ORIGINAL_TIMESTAMP_FOLLOWS - 1);
        if immediate == original {
            encode::u56(out, immediate);
        } else {
            encode::u56(out, immediate | ORIGINAL_TIMESTAMP_FOLLOWS);
            encode::u56(out, original);
        }
        // Readers infer the optional parts from the bytes that remain, so a later part requires all earlier ones.
        let ticket = self.commit_group_ticket;
        let versions = self.immediate_server_version.is_some() || ticket.is_some();
        if self.transaction_length.is_some() || versions {
            encode::packed(out, self.transaction_length.unwrap_or(0));
        }
        if versions {
            // Its highest bit says that the other version follows; no version of a server is as high.
            let immediate = self.immediate_server_version.filter(|version| version & ORIGINAL_VERSION_FOLLOWS == 0);
            let immediate = immediate.unwrap_or(UNDEFINED_VERSION);
            let original = self.original_server_version.unwrap_or(immediate);
            if immediate == original {
                out.extend(immediate.to_le_bytes());
            } else {
                out.extend((immediate | ORIGINAL_VERSION_FOLLOWS).to_le_bytes());
                out.extend(original.to_le_bytes());
            }
        }
        if let Some(ticket) = ticket {
            out.extend(ticket.to_le_bytes());
        }
    }

    fn encode_tagged(&self, gtid: &Gtid, out: &mut Vec<u8>) {
        use serialization::{write_signed, write_unsigned};
        let immediate_version = self.immediate_server_version.unwrap_or(UNDEFINED_VERSION);
        let mut fields = Vec::with_capacity(120);
        for id in 0..12u64 {
            let start = fields.len();
            write_unsigned(&mut fields, id);
            match id {
                0 => write_unsigned(&mut fields, u64::from(self.flags)),
                1 => gtid.uuid.0.iter().for_each(|&byte| write_unsigned(&mut fields, u64::from(byte))),
                2 => write_signed(&mut fields, gtid.gno as i64),
                3 => {
                    write_unsigned(&mut fields, gtid.tag.as_str().len() as u64);
                    fields.extend(gtid.tag.as_str().as_bytes());
                }
                4 => write_signed(&mut fields, self.last_committed),
                5 => write_signed(&mut fields, self.sequence_number),
                6 => write_unsigned(&mut fields, self.immediate_commit_timestamp_us),
                7 if self.original_commit_timestamp_us != self.immediate_commit_timestamp_us => {
                    write_unsigned(&mut fields, self.original_commit_timestamp_us);
                }
                7 => fields.truncate(start),
                8 => write_unsigned(&mut fields, self.transaction_length.unwrap_or(0)),
                9 => write_unsigned(&mut fields, u64::from(immediate_version)),
                10 => match self.original_server_version {
                    Some(version) if version != immediate_version => {
                        write_unsigned(&mut fields, u64::from(version));
                    }
                    _ => fields.truncate(start),
                },
                11 => match self.commit_group_ticket {
                    Some(ticket) => write_unsigned(&mut fields, ticket),
                    None => fields.truncate(start),
                },
                _ => fields.truncate(start),
            }
        }
        // Version and last_non_ignorable_field_id take one byte each; the size counts itself.
        let mut size = fields.len() as u64 + 3;
        let mut head = Vec::new();
        loop {
            head.clear();
            write_unsigned(&mut head, SERIALIZATION_VERSION);
            write_unsigned(&mut head, size);
            write_unsigned(&mut head, 0);
            let whole = (head.len() + fields.len()) as u64;
            if whole == size {
                break;
            }
            size = whole;
        }
        out.extend(head);
        out.extend(fields);
    }
}

fn parse_plain(event_type: u8, mut body: Cursor<'_>) -> Result<GtidEvent, BinlogError> {
    let flags = body.u8("flags")?;
    let uuid = Uuid(body.array("uuid")?);
    let gno = body.i64("transaction number")?;
    let gtid = if event_type == event_type::ANONYMOUS_GTID {
        None
    } else {
        Some(Gtid { uuid, tag: Tag::EMPTY, gno: checked_gno(&body, gno)? })
    };
    let mut event = GtidEvent { flags, ..GtidEvent::new(gtid, 0, 0) };
    // MySQL 5.6 wrote no logical clock; every later part may be missing too.
    if body.is_empty() {
        return Ok(event);
    }
    let kind = body.u8("clock type")?;
    if kind != LOGICAL_TIMESTAMP {
        return Err(body.value("clock type", u64::from(kind)));
    }
    event.last_committed = body.i64("last_committed")?;
    event.sequence_number = body.i64("sequence_number")?;
    if body.is_empty() {
        return Ok(event);
    }
    let immediate = body.u56("immediate_commit_timestamp")?;
    event.immediate_commit_timestamp_us = immediate & (ORIGINAL_TIMESTAMP_FOLLOWS - 1);
    event.original_commit_timestamp_us = if immediate & ORIGINAL_TIMESTAMP_FOLLOWS != 0 {
        body.u56("original_commit_timestamp")?
    } else {
        event.immediate_commit_timestamp_us
    };
    if body.is_empty() {
        return Ok(event);
    }
    event.transaction_length = Some(body.packed("transaction_length")?);
    if body.is_empty() {
        return Ok(event);
    }
    let immediate = body.u32("immediate_server_version")?;
    event.immediate_server_version = Some(immediate & !ORIGINAL_VERSION_FOLLOWS);
    event.original_server_version = if immediate & ORIGINAL_VERSION_FOLLOWS != 0 {
        Some(body.u32("original_server_version")?)
    } else {
        event.immediate_server_version
    };
    // Bytes after the ticket would be additions of a later server.
    if body.len() >= 8 {
        event.commit_group_ticket = Some(body.u64("commit_group_ticket")?);
    }
    Ok(event)
}

fn checked_gno(body: &Cursor<'_>, gno: i64) -> Result<u64, BinlogError> {
    match gno {
        1..=GNO_MAX => Ok(gno.cast_unsigned()),
        _ => Err(body.value("transaction number", gno.cast_unsigned())),
    }
}

const SERIALIZATION_VERSION: u64 = 1;

fn parse_tagged(mut body: Cursor<'_>) -> Result<GtidEvent, BinlogError> {
    use serialization::{signed, unsigned};
    const EVENT: &str = "Gtid_tagged";
    let whole = body.len();
    let version = unsigned(&mut body, "serialization version")?;
    if version != SERIALIZATION_VERSION {
        return Err(body.value("serialization version", version));
    }
    let size = unsigned(&mut body, "message size")?;
    let head = whole - body.len();
    let Some(left) = usize::try_from(size).ok().and_then(|size| size.checked_sub(head)) else {
        return Err(body.value("message size", size));
    };
    let mut message = Cursor::new(EVENT, body.bytes(left, "message")?);
    let last_non_ignorable = unsigned(&mut message, "last non-ignorable field")?;

    let mut event = GtidEvent::new(None, 0, 0);
    let mut uuid = Uuid([0; 16]);
    let mut tag = Tag::EMPTY;
    let mut gno = 0;
    let mut original_timestamp = None;
    let mut next_id = 0;
    while !message.is_empty() {
        let id = unsigned(&mut message, "field id")?;
        if id < next_id {
            return Err(message.value("field id", id));
        }
        next_id = id.saturating_add(1);
        match id {
            0 => event.flags = unsigned_as(&mut message, "flags")?,
            1 => {
                for byte in &mut uuid.0 {
                    *byte = unsigned_as(&mut message, "uuid")?;
                }
            }
            2 => gno = signed(&mut message, "transaction number")?,
            3 => {
                let len: usize = unsigned_as(&mut message, "length of the tag")?;
                tag = Tag::new(message.bytes(len, "tag")?)
                    .map_err(|source: GtidError| BinlogError::Gtid { event: EVENT, source })?;
            }
            4 => event.last_committed = signed(&mut message, "last_committed")?,
            5 => event.sequence_number = signed(&mut message, "sequence_number")?,
            6 => event.immediate_commit_timestamp_us = unsigned(&mut message, "immediate_commit_timestamp")?,
            7 => original_timestamp = Some(unsigned(&mut message, "original_commit_timestamp")?),
            8 => event.transaction_length = Some(unsigned(&mut message, "transaction_length")?),
            9 => event.immediate_server_version = Some(unsigned_as(&mut message, "immediate_server_version")?),
            10 => event.original_server_version = Some(unsigned_as(&mut message, "original_server_version")?),
            11 => event.commit_group_ticket = Some(unsigned(&mut message, "commit_group_ticket")?),
            // Ids ascend, so additions of a later version come last. Only that version knows their length.
            id if id <= last_non_ignorable => return Err(message.value("field id", id)),
            _ => break,
        }
    }
    event.original_commit_timestamp_us = original_timestamp.unwrap_or(event.immediate_commit_timestamp_us);
    event.original_server_version = event.original_server_version.or(event.immediate_server_version);
    event.gtid = Some(Gtid { uuid, tag, gno: checked_gno(&message, gno)? });
    Ok(event)
}

fn unsigned_as<T: TryFrom<u64>>(from: &mut Cursor<'_>, field: &'static str) -> Result<T, BinlogError> {
    let value = serialization::unsigned(from, field)?;
    T::try_from(value).map_err(|_| from.value(field, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REFERENCE: &[u8] = &[
        0x02, 0x76, 0x00, 0x00, 0x02, 0x02, 0x25, 0x02, 0xdc, 0xf0, 0x09, 0x02, 0x30, 0xf9, 0x03, 0x22, 0xbd, 0x03,
        0xad, 0x02, 0x21, 0x02, 0x44, 0x44, 0x5a, 0x68, 0x51, 0x03, 0x22, 0x04, 0x04, 0x06, 0x0c, b'f', b'o', b'o',
        b'b', b'a', b'z', 0x08, 0x00, 0x0a, 0x04, 0x0c, 0x7f, 0x15, 0x83, 0x22, 0x2d, 0x5c, 0x2e, 0x06, 0x10, 0x49,
        0x03, 0x12, 0xc3, 0x02, 0x0b,
    ];

    #[test]
    fn the_largest_field_id_is_a_later_servers() {
        // Version 1, size 12, no mandatory field; then field 2^64 - 1.
        let mut body = vec![0x02, 0x18, 0x00, 0xff];
        body.extend([0xff; 8]);
        assert!(matches!(GtidEvent::parse(event_type::GTID_TAGGED, &body), Err(BinlogError::Value { .. })));
    }

    /// Found by fuzzing: such a version, of a tagged event without a tag, was written as if another one followed.
    #[test]
    fn a_version_that_no_server_has_promises_no_other() {
        let event = GtidEvent { immediate_server_version: Some(u32::MAX), ..GtidEvent::new(None, 0, 1) };
        let mut body = Vec::new();
        event.encode_into(&mut body);
        let again = GtidEvent::parse(event_type::ANONYMOUS_GTID, &body).unwrap();
        assert_eq!(again.immediate_server_version, Some(UNDEFINED_VERSION));
        assert_eq!(again.original_server_version, Some(UNDEFINED_VERSION));
    }

    #[test]
    fn tagged_event_of_the_reference() {
        let event = GtidEvent::parse(event_type::GTID_TAGGED, REFERENCE).unwrap();
        assert_eq!(event.gtid.unwrap().to_string(), "896e7882-18fe-11ef-ab88-22222d34d411:foobaz:1");
        assert_eq!(event.flags, 1);
        assert_eq!((event.last_committed, event.sequence_number), (0, 1));
        assert_eq!(event.immediate_commit_timestamp_us, 1_739_823_289_369_365);
        assert_eq!(event.original_commit_timestamp_us, 1_739_823_289_369_365);
        assert_eq!(event.transaction_length, Some(210));
        assert_eq!(event.immediate_server_version, Some(90200));
        assert_eq!(event.original_server_version, Some(90200));
        assert_eq!(event.commit_group_ticket, None);
        let mut again = Vec::new();
        event.encode_into(&mut again);
        assert_eq!(again, REFERENCE);
    }

    #[test]
    fn unknown_fields_of_a_tagged_event() {
        let mut later = REFERENCE.to_vec();
        later.extend([12 << 1, 0x55]);
        later[1] += 4;
        assert!(GtidEvent::parse(event_type::GTID_TAGGED, &later).is_ok());
        later[2] = 12 << 1;
        assert!(GtidEvent::parse(event_type::GTID_TAGGED, &later).is_err());
        let mut wrong_size = REFERENCE.to_vec();
        wrong_size[1] += 2;
        assert!(GtidEvent::parse(event_type::GTID_TAGGED, &wrong_size).is_err());
        wrong_size[1] = 0;
        assert!(GtidEvent::parse(event_type::GTID_TAGGED, &wrong_size).is_err());
    }

    /// A missing version is written as "unknown"; an original version that says the same is left out, as it would be read.
    #[test]
    fn a_missing_version_reads_back_as_written() {
        for original in [None, Some(UNDEFINED_VERSION), Some(90200)] {
            let mut event = GtidEvent::parse(event_type::GTID_TAGGED, REFERENCE).unwrap();
            (event.immediate_server_version, event.original_server_version) = (None, original);
            let (mut first, mut second) = (Vec::new(), Vec::new());
            event.encode_into(&mut first);
            let again = GtidEvent::parse(event_type::GTID_TAGGED, &first).unwrap();
            again.encode_into(&mut second);
            assert_eq!(first, second, "original version {original:?}");
            assert_eq!(again.immediate_server_version, Some(UNDEFINED_VERSION));
            assert_eq!(again.original_server_version, original.or(Some(UNDEFINED_VERSION)));
        }
    }

    fn any_event() -> impl Strategy<Value = GtidEvent> {
        let clock = (0u8..2, any::<i64>(), any::<i64>(), 0u64..1 << 55, 0u64..1 << 55);
        let tail = (0u64..=u64::MAX, 1u32..1 << 31, 1u32..1 << 31, proptest::option::of(any::<u64>()));
        let id = (any::<[u8; 16]>(), proptest::option::of("[a-z_][a-z0-9_]{0,31}"), 1u64..=GNO_MAX as u64);
        (id, clock, tail).prop_map(|((uuid, tag, gno), clock, tail)| {
            let tag = tag.map_or(Tag::EMPTY, |tag| Tag::new(tag.as_bytes()).unwrap());
            GtidEvent {
                gtid: Some(Gtid { uuid: Uuid(uuid), tag, gno }),
                flags: clock.0,
                last_committed: clock.1,
                sequence_number: clock.2,
                immediate_commit_timestamp_us: clock.3,
                original_commit_timestamp_us: clock.4,
                transaction_length: Some(tail.0),
                immediate_server_version: Some(tail.1),
                original_server_version: Some(tail.2),
                commit_group_ticket: tail.3,
            }
        })
    }

    proptest! {
        #[test]
        fn round_trip(mut event in any_event(), anonymous: bool) {
            if anonymous {
                event.gtid = None;
            }
            let mut body = Vec::new();
            event.encode_into(&mut body);
            prop_assert_eq!(GtidEvent::parse(event.event_type(), &body).unwrap(), event);
        }

        #[test]
        fn any_cut_is_an_error_or_an_older_form(event in any_event(), cut in 0usize..120) {
            let mut body = Vec::new();
            event.encode_into(&mut body);
            body.truncate(cut.min(body.len() - 1));
            let cut_short = GtidEvent::parse(event.event_type(), &body);
            prop_assert!(cut_short.is_err() || event.event_type() == event_type::GTID);
        }
    }
}
