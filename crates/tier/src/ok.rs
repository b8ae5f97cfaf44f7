//! OK packets of the source, as a client of other capabilities gets them.
//!
//! In: an OK packet to a client that tracks its session. Out: its numbers; the packet for a client that does not, or
//! that has not asked for one of the changes. Never here: a change that is not understood and therefore dropped.

use client::OkPacket;
use wire::Result;
use wire::handshake::capability;
use wire::read::{Reader, put_lenenc_bytes};
use wire::response::status;

/// Kinds of changes of the session: a variable, the schema, something of it (`session_track_state_change`).
const VARIABLE: u8 = 0;
const SCHEMA: u8 = 1;
const STATE: u8 = 2;
/// The variable that says how texts are read.
const CHARSET: &[u8] = b"character_set_client";

/// Numbers of an OK packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) ok: OkPacket,
    /// Something of the session has changed.
    pub(crate) changed: bool,
    /// `character_set_client`, if that has.
    pub(crate) charset: Option<String>,
    /// The default schema, if that has: empty for none.
    pub(crate) schema: Option<String>,
}

/// Puts the payload of an OK packet of the source for a client with these capabilities. `shows_state`: whether it is
/// told that something of its session has changed.
///
/// # Errors
/// It breaks the protocol.
pub(crate) fn put(out: &mut Vec<u8>, payload: &[u8], capabilities: u32, shows_state: bool) -> Result<Numbers> {
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
    let mut numbers = Numbers { ok, ..Numbers::default() };
    let others = without_state(changes, &mut numbers)?;
    let tracks = capabilities & capability::SESSION_TRACK != 0;
    if tracks && (shows_state || others.len() == changes.len()) {
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

/// The changes but for the one of [`STATE`]; `numbers` gets what they say.
fn without_state(changes: &[u8], numbers: &mut Numbers) -> Result<Vec<u8>> {
    let mut reader = Reader::new(changes);
    let mut others = Vec::new();
    while !reader.is_empty() {
        let kind = reader.u8("session state")?;
        let data = reader.lenenc_bytes("session state")?;
        if kind == STATE {
            numbers.changed |= data == b"1";
        } else {
            let mut told = Reader::new(data);
            let mut text = || told.lenenc_bytes("session state");
            let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match kind {
                VARIABLE if text()? == CHARSET => numbers.charset = Some(owned(text()?)),
                SCHEMA => numbers.schema = Some(owned(text()?)),
                _ => {}
            }
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
        let numbers = put(&mut out, payload, capabilities, shows_state).unwrap();
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
            assert!(put(&mut Vec::new(), &both[..len], 0, false).is_err(), "{len}");
        }
    }
}
