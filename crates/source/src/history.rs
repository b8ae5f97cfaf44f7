//! Whether a source still has the log that was received from it: RESET BINARY LOGS AND GTIDS starts another history
//! under the same server_uuid, with the same GTIDs for other transactions.
//!
//! In: the first event of a transaction as it was received, and where. Out: whether the source has the same event there.
//! Never here: what to do about it.

use base::Gtid;
use binlog::{ChecksumAlgorithm, EventHeader, GtidEvent, event_body, event_type, verify_checksum};
use client::{ClientError, Connection, DumpPacket, Result, ResultSet};
use observe::utc_text;
use wire::command::{self, parse_dump_event};

use crate::replication::{DumpRequest, session_settings, start_dump};

const LIST: &str = "SHOW BINARY LOGS";

/// First event of a transaction, in the source's log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PastEvent {
    /// Name of the source's binlog file.
    pub file: String,
    /// Offset of the event.
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// What the source says of a past event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Past {
    /// It has the same event there.
    Same,
    /// It has something else there, in words: its history is another one.
    Other(String),
    /// It cannot be known, in words.
    Unknown(String),
}

/// The parts of an event that do not depend on how it was sent.
fn meaning(bytes: &[u8]) -> Option<(u32, u32, GtidEvent)> {
    let header = EventHeader::parse(bytes).ok()?;
    let checksum = if verify_checksum(bytes) { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::None };
    let event = GtidEvent::parse(header.event_type, event_body(bytes, checksum).ok()?).ok()?;
    Some((header.timestamp, header.server_id, event))
}

impl PastEvent {
    #[must_use]
    pub fn gtid(&self) -> Option<Gtid> {
        meaning(&self.bytes)?.2.gtid
    }

    /// The event in words.
    #[must_use]
    pub fn shown(&self) -> String {
        shown(&self.bytes)
    }
}

fn shown(bytes: &[u8]) -> String {
    let Some((_, server_id, event)) = meaning(bytes) else {
        let name = EventHeader::parse(bytes).map_or("unreadable", |header| header.name());
        return format!("a {name} event");
    };
    let gtid = event.gtid.map_or("an anonymous transaction".to_owned(), |gtid| gtid.to_string());
    let (at, first_at) = (event.immediate_commit_timestamp_us, event.original_commit_timestamp_us);
    let first = if first_at == at { String::new() } else { format!(" (first {})", utc_text(first_at)) };
    format!("{gtid}, committed {}{first} by server_id {server_id}", utc_text(at))
}

/// Number at the end of a binlog file's name, and the name before it.
fn numbered(file: &str) -> Option<(&str, u64)> {
    let (base, number) = file.rsplit_once('.')?;
    Some((base, number.parse().ok()?))
}

/// Where the source's log is, as far as SHOW BINARY LOGS says: None if the event may be read there.
///
/// # Errors
/// The connection fails.
pub fn listed(connection: &mut Connection, past: &PastEvent) -> Result<Option<Past>> {
    place_in(&connection.query(LIST)?, past)
}

fn place_in(logs: &ResultSet, past: &PastEvent) -> Result<Option<Past>> {
    let mut newest = None;
    for row in 0..logs.rows.len() {
        let name: String = logs.told(row, 0, LIST)?;
        if name == past.file {
            let len: u64 = logs.told(row, 1, LIST)?;
            let ends = len <= past.offset;
            return Ok(ends.then(|| Past::Other(format!("nothing: its {name} ends at {len}"))));
        }
        newest = Some(name);
    }
    let Some(newest) = newest else { return Ok(Some(Past::Unknown("the source lists no binary log".into()))) };
    Ok(Some(match (numbered(&newest), numbered(&past.file)) {
        // Numbers only grow.
        (Some((base, now)), Some((same, then))) if base == same && now < then => {
            Past::Other(format!("nothing: its newest binary log is {newest}"))
        }
        _ => Past::Unknown(format!("the source no longer has {}", past.file)),
    }))
}

/// Reads one event from the source's log and compares it. The file must be [`listed`]. Takes a connection of its own,
/// and does not register as a replica.
///
/// # Errors
/// The connection fails.
pub fn compare(mut connection: Connection, past: &PastEvent) -> Result<Past> {
    let Ok(position) = u32::try_from(past.offset) else {
        return Ok(Past::Unknown(format!("the source sends nothing from {}:{}", past.file, past.offset)));
    };
    let none = base::GtidSet::new();
    connection.exec(&session_settings(&DumpRequest::new(0, &none)))?;
    connection.send_command(|out| command::put_dump(out, 0, &past.file, position, command::DUMP_NON_BLOCK))?;
    loop {
        let range = match connection.read_dump_packet() {
            Ok(DumpPacket::Event(range)) => range,
            Ok(DumpPacket::End) => return Ok(Past::Other("nothing".into())),
            Err(ClientError::Server { code: 1236, message, .. }) => {
                return Ok(Past::Other(nothing_begins_there(&message)));
            }
            Err(error) => return Err(error),
        };
        let event = parse_dump_event(connection.payload(range), false)?.event;
        let what = "COM_BINLOG_DUMP";
        let header = EventHeader::parse(event).map_err(|_| ClientError::UnexpectedAnswer { what })?;
        let leads = matches!(
            header.event_type,
            event_type::FORMAT_DESCRIPTION | event_type::HEARTBEAT | event_type::HEARTBEAT_V2
        );
        if leads || header.is_artificial() {
            continue;
        }
        let same = meaning(event).is_some_and(|there| meaning(&past.bytes) == Some(there));
        return Ok(if same { Past::Same } else { Past::Other(shown(event)) });
    }
}

/// A file that continues there without an event that begins there has other events. The source reads a length out of
/// the middle of one, and blames max_allowed_packet.
fn nothing_begins_there(message: &str) -> String {
    match message.contains("max_allowed_packet") {
        true => "the middle of another event".to_owned(),
        false => format!("no event that can be read ({message})"),
    }
}

/// Whether another server has a transaction as the server before committed it: the same GTID, server_id and time of its
/// first commit, which a replica keeps. One committed empty under that GTID has others. `received` has the GTID.
/// Takes a connection of its own, and does not register as a replica.
///
/// # Errors
/// The connection fails, or its answer cannot be read.
pub fn is_elsewhere(connection: Connection, past: &PastEvent, received: &base::GtidSet) -> Result<Past> {
    let Some((_, server_id, then)) = meaning(&past.bytes) else {
        return Ok(Past::Unknown("the newest received transaction is not known".into()));
    };
    let Some(gtid) = then.gtid else { return Ok(Past::Unknown("the newest received transaction has no GTID".into())) };
    let mut alone = base::GtidSet::new();
    alone.add(gtid);
    let others = received.subtract(&alone);
    let mut stream = start_dump(connection, &DumpRequest { non_block: true, ..DumpRequest::new(0, &others) })?;
    loop {
        let event = match stream.next_event() {
            Ok(Some(event)) => event.event,
            Ok(None) => return Ok(Past::Other(format!("its log ends without {gtid}"))),
            Err(error) if error.dump_refusal().is_some() => {
                return Ok(Past::Unknown(format!("its log no longer has {gtid}, or it does not send it: {error}")));
            }
            Err(error) => return Err(error),
        };
        let Some((_, there_id, there)) = meaning(event) else { continue };
        if there.gtid.as_ref() == Some(&gtid) {
            let times = (then.original_commit_timestamp_us, there.original_commit_timestamp_us);
            let same = there_id == server_id && times.0 == times.1;
            return Ok(if same { Past::Same } else { Past::Other(format!("it has {}", shown(event))) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_numbers() {
        assert_eq!(numbered("bin.log.000012"), Some(("bin.log", 12)));
        assert_eq!((numbered("binlog"), numbered("binlog.x")), (None, None));
    }

    #[test]
    fn a_place_inside_an_event_is_called_that() {
        let blamed = "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source; the first event \
                      'binlog.000001' at 158";
        assert_eq!(nothing_begins_there(blamed), "the middle of another event");
        let other = "bogus data in log event";
        assert_eq!(nothing_begins_there(other), "no event that can be read (bogus data in log event)");
    }

    #[test]
    fn a_length_that_is_not_told_is_no_end_of_the_log() {
        let past = PastEvent { file: "b.000002".into(), offset: 100, bytes: Vec::new() };
        let place = |len: Option<&str>| {
            let row = |name: &str, len: Option<&str>| [Some(name), len].map(|text| text.map(|text| text.into()));
            let rows = vec![row("b.000001", None).to_vec(), row("b.000002", len).to_vec()];
            place_in(&ResultSet { rows, ..ResultSet::default() }, &past)
        };
        assert_eq!(place(Some("101")).unwrap(), None);
        assert!(matches!(place(Some("100")).unwrap(), Some(Past::Other(_))));
        for wrong in [None, Some(""), Some("x")] {
            assert!(place(wrong).unwrap_err().to_string().contains("SHOW BINARY LOGS"));
        }
    }
}
