//! OK packets of the source, as a client of other capabilities gets them.
//!
//! In: an OK packet to a client that tracks its session. Out: its numbers; the packet for a client that does not, or
//! that has not asked for one of the changes. Never here: a change that is not understood and therefore dropped.

use client::OkPacket;
use wire::Result;
use wire::handshake::capability;
use wire::read::{Reader, put_lenenc_bytes};
use wire::response::status;

/// Kinds of changes of the session: a variable, the schema, something of it (`session_track_state_change`), GTIDs.
const VARIABLE: u8 = 0;
const SCHEMA: u8 = 1;
const STATE: u8 = 2;
const GTIDS: u8 = 3;

/// Which changes of its session a client is told, where the source tells more of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub state: bool,
    pub schema: bool,
    pub gtids: bool,
    /// Names of variables, or `*`; None: those that the source tells.
    pub variables: Option<String>,
}

impl Shown {
    /// All that the source tells, but that something has changed unless `state`.
    #[must_use]
    pub fn told(state: bool) -> Shown {
        Shown { state, schema: true, gtids: true, variables: None }
    }

    fn shows_variable(&self, name: &str) -> bool {
        let is_named = |one: &str| one == "*" || one.eq_ignore_ascii_case(name);
        self.variables.as_ref().is_none_or(|list| list.split(',').map(str::trim).any(is_named))
    }
}

/// Numbers of an OK packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) ok: OkPacket,
    /// Rows that have changed, where a statement says that of those that it found.
    pub(crate) changed_rows: Option<u64>,
    /// Something of the session has changed.
    pub(crate) changed: bool,
    /// Variables that have, with their values.
    pub(crate) variables: Vec<(String, String)>,
    /// A transaction was committed under a GTID, or GTIDs were shown.
    pub(crate) has_gtids: bool,
    /// The default schema, if that has: empty for none.
    pub(crate) schema: Option<String>,
}

/// Puts the payload of an OK packet of the source for a client with these capabilities, with the changes that it is
/// told.
///
/// # Errors
/// It breaks the protocol.
pub(crate) fn put(out: &mut Vec<u8>, payload: &[u8], capabilities: u32, shown: &Shown) -> Result<Numbers> {
    let ok = OkPacket::parse(payload)?;
    let mut reader = Reader::new(payload);
    reader.u8("OK packet")?;
    reader.lenenc("affected rows")?;
    reader.lenenc("last insert id")?;
    let numbers_end = payload.len() - reader.rest().len();
    let bits = reader.u16("status")?;
    let warnings = reader.u16("warnings")?;
    let has_changes = bits & status::SESSION_STATE_CHANGED != 0;
    let info = if reader.is_empty() { &[] } else { reader.lenenc_bytes("info")? };
    let changes = if has_changes { reader.lenenc_bytes("session state")? } else { &[] };
    let mut numbers = Numbers { ok, changed_rows: changed_rows(info), ..Numbers::default() };
    let others = shown_of(changes, shown, &mut numbers)?;
    let tracks = capabilities & capability::SESSION_TRACK != 0;
    if tracks && others.len() == changes.len() {
        out.extend_from_slice(payload);
        return Ok(numbers);
    }
    let tells = tracks && !others.is_empty();
    out.extend_from_slice(payload.get(..numbers_end).unwrap_or_default());
    let bits = if tells { bits } else { bits & !status::SESSION_STATE_CHANGED };
    out.extend_from_slice(&bits.to_le_bytes());
    out.extend_from_slice(&warnings.to_le_bytes());
    if tells || !info.is_empty() {
        put_lenenc_bytes(out, info);
    }
    if tells {
        put_lenenc_bytes(out, &others);
    }
    Ok(numbers)
}

/// The second number of `Rows matched: 1  Changed: 0  Warnings: 0`.
fn changed_rows(info: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(info).ok()?.strip_prefix("Rows matched: ")?;
    let (_, rest) = text.split_once("Changed: ")?;
    rest.split(' ').next()?.parse().ok()
}

/// The changes that the client is told; `numbers` gets what all of them say.
fn shown_of(changes: &[u8], shown: &Shown, numbers: &mut Numbers) -> Result<Vec<u8>> {
    let mut reader = Reader::new(changes);
    let mut others = Vec::new();
    while !reader.is_empty() {
        let kind = reader.u8("session state")?;
        let data = reader.lenenc_bytes("session state")?;
        let mut told = Reader::new(data);
        let mut text =
            || -> Result<String> { Ok(String::from_utf8_lossy(told.lenenc_bytes("session state")?).into_owned()) };
        let shows = match kind {
            STATE => {
                numbers.changed |= data == b"1";
                shown.state
            }
            VARIABLE => {
                let (name, value) = (text()?, text()?);
                let shows = shown.shows_variable(&name);
                numbers.variables.push((name, value));
                shows
            }
            SCHEMA => {
                numbers.schema = Some(text()?);
                shown.schema
            }
            GTIDS => {
                numbers.has_gtids = true;
                shown.gtids
            }
            _ => true,
        };
        if shows {
            others.push(kind);
            put_lenenc_bytes(&mut others, data);
        }
    }
    Ok(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OK, 3 rows, no number, in a transaction, 1 warning.
    const NUMBERS: [u8; 7] = [0, 3, 0, 1, 0, 1, 0];

    fn with(bits: u16, rest: &[u8]) -> Vec<u8> {
        let mut payload = NUMBERS.to_vec();
        payload[3..5].copy_from_slice(&bits.to_le_bytes());
        payload.extend_from_slice(rest);
        payload
    }

    fn put_for(payload: &[u8], capabilities: u32, shows_state: bool) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        let numbers = put(&mut out, payload, capabilities, &Shown::told(shows_state)).unwrap();
        assert_eq!((numbers.ok.affected_rows, numbers.ok.warnings), (3, 1));
        (out, numbers.changed)
    }

    #[test]
    fn a_client_gets_what_it_asked_for() {
        let changed = 1 | status::SESSION_STATE_CHANGED;
        let track = capability::SESSION_TRACK;
        let (plain, informed) = (with(1, b""), with(1, b"\x02ab"));
        assert_eq!(put_for(&plain, 0, false), (plain.clone(), false));
        assert_eq!(put_for(&informed, 0, false), (informed.clone(), false));
        // A schema, and that something has changed.
        let both = with(changed, b"\x02ab\x08\x01\x03\x02db\x02\x011");
        assert_eq!(put_for(&both, track, true), (both.clone(), true));
        assert_eq!(put_for(&both, track, false), (with(changed, b"\x02ab\x05\x01\x03\x02db"), true));
        assert_eq!(put_for(&both, 0, false), (informed.clone(), true));
        // Only that something has changed.
        let state = with(changed, b"\0\x03\x02\x011");
        assert_eq!(put_for(&state, track, false), (plain.clone(), true));
        assert_eq!(put_for(&with(changed, b"\0\x03\x02\x010"), 0, false), (plain, false));
        for len in 0..both.len() {
            assert!(put(&mut Vec::new(), &both[..len], 0, &Shown::told(false)).is_err(), "{len}");
        }
    }

    #[test]
    fn found_rows_are_not_changed_ones() {
        assert_eq!(changed_rows(b"Rows matched: 12  Changed: 3  Warnings: 0"), Some(3));
        assert_eq!(changed_rows(b"Records: 2  Duplicates: 0  Warnings: 0"), None);
        assert_eq!(changed_rows(b"Rows matched: x"), None);
    }

    #[test]
    fn what_was_asked_for_our_sake_is_not_shown() {
        let changed = 1 | status::SESSION_STATE_CHANGED;
        let track = capability::SESSION_TRACK;
        let (mode, schema, gtids) = (b"\0\x06\x03abc\x01x", b"\x01\x03\x02db", b"\x03\x04\0\x02u1");
        let all = [&mode[..], schema, gtids].concat();
        let packet = |rest: &[u8]| with(changed, &[b"\0", &[u8::try_from(rest.len()).unwrap()][..], rest].concat());
        let nothing = Shown { state: false, schema: false, gtids: false, variables: Some(String::new()) };
        for (shown, expected) in [
            (Shown { variables: Some("time_zone, ABC".to_owned()), ..nothing.clone() }, packet(mode)),
            (Shown { variables: Some("*".to_owned()), ..nothing.clone() }, packet(mode)),
            (Shown { schema: true, ..nothing.clone() }, packet(schema)),
            (Shown { gtids: true, ..nothing.clone() }, packet(gtids)),
            (nothing, with(1, b"")),
        ] {
            let mut out = Vec::new();
            let numbers = put(&mut out, &packet(&all), track, &shown).unwrap();
            assert_eq!(out, expected, "{shown:?}");
            assert_eq!(numbers.variables, [("abc".to_owned(), "x".to_owned())]);
            assert_eq!((numbers.schema.as_deref(), numbers.has_gtids, numbers.changed), (Some("db"), true, false));
        }
    }
}
