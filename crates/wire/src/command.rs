//! Commands as payloads. Each function appends to `out`, after a header that [`crate::packet::start`] began.

use crate::packet::MAX_PAYLOAD_LEN;
use crate::read::{Reader, put_short_bytes};
use crate::row::{Param, put_params};
use crate::{Result, WireError};

/// Ends the session.
pub const QUIT: u8 = 0x01;
/// Changes the default database.
pub const INIT_DB: u8 = 0x02;
/// Runs a statement; its text follows.
pub const QUERY: u8 = 0x03;
/// Lists the columns of a table.
pub const FIELD_LIST: u8 = 0x04;
/// Asks for a line about the server.
pub const STATISTICS: u8 = 0x09;
/// `COM_DEBUG`: the server writes about itself to its error log.
pub const DEBUG: u8 = 0x0d;
/// Checks that the server answers with an OK.
pub const PING: u8 = 0x0e;
/// Logs in again as another user.
pub const CHANGE_USER: u8 = 0x11;
/// Requests the log from a file and position.
pub const BINLOG_DUMP: u8 = 0x12;
/// Registers us in SHOW REPLICAS.
pub const REGISTER_SLAVE: u8 = 0x15;
/// Prepares a statement; its text follows.
pub const STMT_PREPARE: u8 = 0x16;
/// Executes a prepared statement.
pub const STMT_EXECUTE: u8 = 0x17;
/// Sends a part of a prepared statement's parameter; no answer.
pub const STMT_SEND_LONG_DATA: u8 = 0x18;
/// Closes a prepared statement; no answer.
pub const STMT_CLOSE: u8 = 0x19;
/// Discards a prepared statement's long data and cursor.
pub const STMT_RESET: u8 = 0x1a;
/// Turns multi-statements on or off.
pub const SET_OPTION: u8 = 0x1b;
/// Fetches rows from a prepared statement's cursor.
pub const STMT_FETCH: u8 = 0x1c;
/// Requests the log by GTID set.
pub const BINLOG_DUMP_GTID: u8 = 0x1e;
/// Resets session state.
pub const RESET_CONNECTION: u8 = 0x1f;
/// Copies all files of a server.
pub const CLONE: u8 = 0x20;
/// Begins the stream between the members of a group.
pub const SUBSCRIBE_GROUP_STREAM: u8 = 0x21;

/// Dump flag: at the end of the log, send EOF instead of waiting.
pub const DUMP_NON_BLOCK: u16 = 0x01;
/// Dump flag: send heartbeats as HEARTBEAT_V2 (8.0.26 and later).
pub const DUMP_HEARTBEAT_V2: u16 = 0x02;

/// COM_QUERY and similar commands: the command byte and a text.
pub fn put_text(out: &mut Vec<u8>, command: u8, text: &[u8]) {
    out.push(command);
    out.extend_from_slice(text);
}

/// COM_STMT_EXECUTE without a cursor.
pub fn put_execute(out: &mut Vec<u8>, statement_id: u32, params: &[Param<'_>]) {
    out.push(STMT_EXECUTE);
    out.extend_from_slice(&statement_id.to_le_bytes());
    out.push(0);
    out.extend_from_slice(&1u32.to_le_bytes());
    put_params(out, params);
}

/// COM_STMT_CLOSE.
pub fn put_close(out: &mut Vec<u8>, statement_id: u32) {
    out.push(STMT_CLOSE);
    out.extend_from_slice(&statement_id.to_le_bytes());
}

/// Our entry in SHOW REPLICAS.
#[derive(Debug, Clone, Copy, Default)]
pub struct Registration<'a> {
    /// Our server id.
    pub server_id: u32,
    /// Host name (truncated to 255 bytes).
    pub host: &'a str,
    /// TCP port.
    pub port: u16,
}

/// COM_REGISTER_SLAVE. Never contains a user or password.
pub fn put_register(out: &mut Vec<u8>, registration: &Registration<'_>) {
    out.push(REGISTER_SLAVE);
    out.extend_from_slice(&registration.server_id.to_le_bytes());
    put_short_bytes(out, registration.host.as_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&registration.port.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
}

/// COM_BINLOG_DUMP.
pub fn put_dump(out: &mut Vec<u8>, server_id: u32, file: &str, position: u32, flags: u16) {
    out.push(BINLOG_DUMP);
    out.extend_from_slice(&position.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&server_id.to_le_bytes());
    out.extend_from_slice(file.as_bytes());
}

/// COM_BINLOG_DUMP_GTID from the first transaction outside `gtid_set` (binary form, which must be shorter than 4 GiB).
pub fn put_dump_gtid(out: &mut Vec<u8>, server_id: u32, gtid_set: &[u8], flags: u16) {
    assert!(gtid_set.len() <= MAX_PAYLOAD_LEN, "a GTID set that no server takes");
    #[allow(clippy::cast_possible_truncation, reason = "asserted above")]
    let len = gtid_set.len() as u32;
    out.push(BINLOG_DUMP_GTID);
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&server_id.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&4u64.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(gtid_set);
}

/// First byte of semi-synchronous packets, both ways.
pub const SEMI_SYNC_MAGIC: u8 = 0xef;

/// Semi-synchronous acknowledgement: everything up to `position` in `file` is durable.
pub fn put_semi_sync_ack(out: &mut Vec<u8>, file: &str, position: u64) {
    out.push(SEMI_SYNC_MAGIC);
    out.extend_from_slice(&position.to_le_bytes());
    out.extend_from_slice(file.as_bytes());
}

/// Parses a semi-synchronous acknowledgement: file and position.
pub fn parse_semi_sync_ack(payload: &[u8]) -> Result<(&[u8], u64)> {
    let mut reader = Reader::new(payload);
    if reader.u8("acknowledgement")? != SEMI_SYNC_MAGIC {
        return Err(WireError::Malformed { what: "acknowledgement" });
    }
    let position = reader.u64("acknowledged position")?;
    // A stock replica ends the name with a NUL.
    let file = reader.rest();
    Ok((file.split(|byte| *byte == 0).next().unwrap_or_default(), position))
}

/// Begins a packet of a dump with the bytes before its event. Only in a semi-synchronous dump the replica can be asked
/// to acknowledge it.
pub fn put_dump_event_head(out: &mut Vec<u8>, semi_sync: bool, ack_wanted: bool) {
    out.push(0);
    if semi_sync {
        out.extend_from_slice(&[SEMI_SYNC_MAGIC, u8::from(ack_wanted)]);
    }
}

/// An event of the dump, without the bytes that precede it in its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpEvent<'a> {
    /// The whole event: header, body, checksum.
    pub event: &'a [u8],
    /// True if the source waits for an acknowledgement of this event.
    pub ack_wanted: bool,
}

/// Parses a dump packet that is neither ERR nor EOF.
#[inline]
pub fn parse_dump_event(payload: &[u8], semi_sync: bool) -> Result<DumpEvent<'_>> {
    let mut reader = Reader::new(payload);
    if reader.u8("dump packet")? != 0 {
        return Err(WireError::Malformed { what: "dump packet" });
    }
    if !semi_sync {
        return Ok(DumpEvent { event: reader.rest(), ack_wanted: false });
    }
    if reader.u8("semi-sync mark")? != SEMI_SYNC_MAGIC {
        return Err(WireError::Malformed { what: "semi-sync mark" });
    }
    let ack_wanted = reader.u8("semi-sync flag")? & 1 != 0;
    Ok(DumpEvent { event: reader.rest(), ack_wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts() {
        let mut out = Vec::new();
        put_execute(&mut out, 7, &[Param::Int(1)]);
        assert_eq!(out, b"\x17\x07\0\0\0\0\x01\0\0\0\0\x01\x08\0\x01\0\0\0\0\0\0\0");
        out.clear();
        put_register(&mut out, &Registration { server_id: 9, host: "h", port: 3306 });
        assert_eq!(out, b"\x15\x09\0\0\0\x01h\0\0\xea\x0c\0\0\0\0\0\0\0\0");
        out.clear();
        put_dump_gtid(&mut out, 9, b"set", DUMP_HEARTBEAT_V2);
        assert_eq!(out, b"\x1e\x02\0\x09\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x03\0\0\0set");
        out.clear();
        put_dump(&mut out, 9, "b.1", 4, 0);
        assert_eq!(out, b"\x12\x04\0\0\0\0\0\x09\0\0\0b.1");
        out.clear();
        put_semi_sync_ack(&mut out, "b.1", 260);
        assert_eq!(out, b"\xef\x04\x01\0\0\0\0\0\0b.1");
        assert_eq!(parse_semi_sync_ack(&out).unwrap(), (&b"b.1"[..], 260));
        out.push(0);
        assert_eq!(parse_semi_sync_ack(&out).unwrap(), (&b"b.1"[..], 260));
        assert!(parse_semi_sync_ack(&out[..8]).is_err() && parse_semi_sync_ack(b"\x0e12345678b").is_err());
        for (semi_sync, ack_wanted) in [(false, false), (true, false), (true, true)] {
            out.clear();
            put_dump_event_head(&mut out, semi_sync, ack_wanted);
            out.push(b'e');
            let wanted = DumpEvent { event: b"e", ack_wanted };
            assert_eq!(parse_dump_event(&out, semi_sync).unwrap(), wanted);
        }
    }

    #[test]
    fn dump_packets() {
        let event = parse_dump_event(b"\0\xef\x01xy", true).unwrap();
        assert_eq!(event, DumpEvent { event: b"xy", ack_wanted: true });
        assert!(!parse_dump_event(b"\0\xef\x00xy", true).unwrap().ack_wanted);
        assert_eq!(parse_dump_event(b"\0xy", false).unwrap().event, b"xy");
        for bad in [&b""[..], b"\0", b"\0\xee\x01", b"\0\xef", b"\x01"] {
            assert!(parse_dump_event(bad, true).is_err());
        }
    }
}
