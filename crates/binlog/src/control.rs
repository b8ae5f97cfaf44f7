//! Small control events: Rotate, heartbeats, Xid, Rows_query, Incident, Previous_gtids.

use base::GtidSet;

use crate::BinlogError;
use crate::cursor::Cursor;
use crate::{encode, event_type};

/// Maximum length of a file name that a server writes (FN_REFLEN).
const FILE_NAME_MAX: usize = 512;

/// The log continues in another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotate<'a> {
    /// Position of the next event in that file; 4 unless a dump starts further on.
    pub position: u64,
    /// Name of the file, without a folder.
    pub file: &'a [u8],
}

impl<'a> Rotate<'a> {
    /// Reads the body of a Rotate event.
    pub fn parse(body: &'a [u8]) -> Result<Rotate<'a>, BinlogError> {
        let mut body = Cursor::new(event_type::name(event_type::ROTATE), body);
        let position = body.u64("position")?;
        let file = file_name(&mut body)?;
        Ok(Rotate { position, file })
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend(self.position.to_le_bytes());
        out.extend(self.file);
    }
}

fn file_name<'a>(body: &mut Cursor<'a>) -> Result<&'a [u8], BinlogError> {
    match body.len() {
        0 => Err(body.short("file name")),
        1..=FILE_NAME_MAX => Ok(body.take_rest()),
        len => Err(body.value("length of the file name", len as u64)),
    }
}

/// Sent while the source is idle; its position is the header's `log_pos`. Never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat<'a> {
    /// The source's current file.
    pub file: &'a [u8],
}

impl<'a> Heartbeat<'a> {
    /// Reads the body of a Heartbeat event.
    pub fn parse(body: &'a [u8]) -> Result<Heartbeat<'a>, BinlogError> {
        let mut body = Cursor::new(event_type::name(event_type::HEARTBEAT), body);
        Ok(Heartbeat { file: file_name(&mut body)? })
    }
}

/// Sent while the source is idle if the replica asked for this form. Never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatV2<'a> {
    /// The source's current file.
    pub file: &'a [u8],
    /// Position in that file, in bytes.
    pub position: u64,
}

impl<'a> HeartbeatV2<'a> {
    /// Reads the body of a Heartbeat_v2 event. Skips fields of later versions.
    pub fn parse(body: &'a [u8]) -> Result<HeartbeatV2<'a>, BinlogError> {
        let mut body = Cursor::new(event_type::name(event_type::HEARTBEAT_V2), body);
        let mut file = None;
        let mut position = None;
        while !body.is_empty() {
            let code = body.packed("field code")?;
            if code == 0 {
                break;
            }
            let mut value = Cursor::new(event_type::name(event_type::HEARTBEAT_V2), body.packed_bytes("field")?);
            match code {
                1 => file = Some(file_name(&mut value)?),
                2 => {
                    position = Some(value.packed("position")?);
                    value.finish("position")?;
                }
                _ => {}
            }
        }
        match (file, position) {
            (Some(file), Some(position)) => Ok(HeartbeatV2 { file, position }),
            (None, _) => Err(body.short("file name")),
            (_, None) => Err(body.short("position")),
        }
    }
}

/// Commit of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xid {
    /// The source's own number of the transaction; has no meaning elsewhere.
    pub xid: u64,
}

impl Xid {
    /// Reads the body of an Xid event.
    #[inline]
    pub fn parse(body: &[u8]) -> Result<Xid, BinlogError> {
        let mut body = Cursor::new(event_type::name(event_type::XID), body);
        let xid = body.u64("xid")?;
        body.finish("xid")?;
        Ok(Xid { xid })
    }
}

/// Text of the statement whose rows follow, for human readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsQuery<'a> {
    /// Text of the statement.
    pub sql: &'a [u8],
}

impl<'a> RowsQuery<'a> {
    /// Reads the body of a Rows_query event. The length byte holds the length modulo 256, so the text is taken to the
    /// end.
    pub fn parse(body: &'a [u8]) -> Result<RowsQuery<'a>, BinlogError> {
        let mut body = Cursor::new(event_type::name(event_type::ROWS_QUERY), body);
        body.u8("length")?;
        Ok(RowsQuery { sql: body.take_rest() })
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(u8::try_from(self.sql.len()).unwrap_or(u8::MAX));
        out.extend(self.sql);
    }
}

/// The source could not log something; a replica must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incident<'a> {
    /// 1: events were lost.
    pub kind: u16,
    /// The source's explanation.
    pub message: &'a [u8],
}

impl<'a> Incident<'a> {
    /// Reads the body of an Incident event.
    pub fn parse(body: &'a [u8]) -> Result<Incident<'a>, BinlogError> {
        let mut body = Cursor::new(event_type::name(event_type::INCIDENT), body);
        let kind = body.u16("kind")?;
        let message = if body.is_empty() { &[] } else { body.short_bytes("message")? };
        Ok(Incident { kind, message })
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend(self.kind.to_le_bytes());
        encode::short_bytes(out, self.message);
    }
}

/// GTIDs of all transactions in earlier files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousGtids {
    /// GTIDs of all earlier files.
    pub set: GtidSet,
}

impl PreviousGtids {
    /// Reads the body of a Previous_gtids event, tagged or not.
    pub fn parse(body: &[u8]) -> Result<PreviousGtids, BinlogError> {
        let set = GtidSet::decode(body)
            .map_err(|source| BinlogError::Gtid { event: event_type::name(event_type::PREVIOUS_GTIDS), source })?;
        Ok(PreviousGtids { set })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeat_v2_of_the_reference() {
        let body = b"\x01\x0dbinlog.000001\x02\x01\x9e\x00";
        let beat = HeartbeatV2::parse(body).unwrap();
        assert_eq!((beat.file, beat.position), (&b"binlog.000001"[..], 158));
        // Version 2 exists because positions can exceed 4 GiB.
        let body = b"\x01\x01b\x09\x02zz\x02\x09\xfe\x00\x00\x00\x00\x01\x00\x00\x00\x00";
        assert_eq!(HeartbeatV2::parse(body).unwrap().position, 1 << 32);
        assert!(HeartbeatV2::parse(b"\x01\x01b\x00").is_err());
        assert!(HeartbeatV2::parse(b"\x01\x7fb\x00").is_err());
    }

    #[test]
    fn rotate_and_heartbeat() {
        let rotate = Rotate::parse(b"\x04\0\0\0\0\0\0\0binlog.000002").unwrap();
        assert_eq!(rotate, Rotate { position: 4, file: b"binlog.000002" });
        assert!(Rotate::parse(b"\x04\0\0\0\0\0\0\0").is_err());
        assert_eq!(Heartbeat::parse(b"b.1").unwrap().file, b"b.1");
        assert!(Heartbeat::parse(&[b'x'; 513]).is_err());
    }

    #[test]
    fn rows_query_longer_than_its_length_byte() {
        let mut body = vec![44];
        body.extend([b'q'; 300]);
        assert_eq!(RowsQuery::parse(&body).unwrap().sql.len(), 300);
    }

    #[test]
    fn incident_with_and_without_a_message() {
        assert_eq!(Incident::parse(b"\x01\0\x04lost").unwrap(), Incident { kind: 1, message: b"lost" });
        assert_eq!(Incident::parse(b"\x01\0").unwrap().message, b"");
        assert!(Incident::parse(b"\x01\0\x05lost").is_err());
    }

    #[test]
    fn xid_has_exactly_eight_bytes() {
        assert_eq!(Xid::parse(&[1, 0, 0, 0, 0, 0, 0, 1]).unwrap().xid, (1 << 56) | 1);
        assert!(Xid::parse(&[1; 7]).is_err());
        assert!(Xid::parse(&[1; 9]).is_err());
    }
}
