//! Answers: OK, ERR, EOF, column definitions, whole results.

use super::row::put_text;
use crate::handshake::capability;
use crate::packet;
use crate::read::{Reader, put_lenenc, put_lenenc_bytes};
use crate::response::{ColumnDefinition, PrepareOk, status};
use crate::row::type_code;
use crate::{Result, WireError};

/// Collation of texts that the server itself creates: utf8mb4_general_ci, which every client supports.
const COLLATION: u16 = 45;
/// Display length announced for such texts; no client sizes a buffer by it.
const TEXT_LENGTH: u32 = 1 << 20;
/// Length of an SQLSTATE in bytes.
const SQLSTATE_LEN: usize = 5;

/// An OK packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerOk<'a> {
    /// Number of rows changed.
    pub affected_rows: u64,
    /// The generated AUTO_INCREMENT value, or 0.
    pub last_insert_id: u64,
    /// Status bits, see [`status`].
    pub status: u16,
    /// Number of warnings.
    pub warnings: u16,
    /// Human-readable information.
    pub info: &'a [u8],
    /// Changes of the session's state, sent to clients with SESSION_TRACK.
    pub changes: &'a [SessionChange<'a>],
}

impl Default for ServerOk<'_> {
    /// No changes; autocommit.
    fn default() -> Self {
        let status = status::AUTOCOMMIT;
        ServerOk { affected_rows: 0, last_insert_id: 0, status, warnings: 0, info: &[], changes: &[] }
    }
}

/// A change of the session's state, as reported in OK packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionChange<'a> {
    /// A system variable has changed.
    Variable {
        /// Name of the variable.
        name: &'a [u8],
        /// New value.
        value: &'a [u8],
    },
    /// The default database has changed.
    Schema(&'a [u8]),
    /// Whether something has changed, as requested by `session_track_state_change`.
    State(bool),
    /// GTIDs of the last transaction, as text.
    Gtids(&'a [u8]),
    /// The statements that would start the same kind of transaction again.
    TransactionCharacteristics(&'a [u8]),
    /// State of the transaction as eight letters, one per aspect.
    TransactionState(&'a [u8]),
}

impl<'a> SessionChange<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        let mut data = Vec::new();
        let kind = match self {
            SessionChange::Variable { name, value } => {
                put_lenenc_bytes(&mut data, name);
                put_lenenc_bytes(&mut data, value);
                0
            }
            SessionChange::Schema(name) => {
                put_lenenc_bytes(&mut data, name);
                1
            }
            SessionChange::State(changed) => {
                // The only one without a length of its own.
                data.push(if *changed { b'1' } else { b'0' });
                2
            }
            SessionChange::Gtids(set) => {
                data.push(0); // the only encoding
                put_lenenc_bytes(&mut data, set);
                3
            }
            SessionChange::TransactionCharacteristics(statements) => {
                put_lenenc_bytes(&mut data, statements);
                4
            }
            SessionChange::TransactionState(letters) => {
                put_lenenc_bytes(&mut data, letters);
                5
            }
        };
        out.push(kind);
        put_lenenc_bytes(out, &data);
    }

    fn parse(kind: u8, data: &'a [u8]) -> Result<Option<SessionChange<'a>>> {
        let mut data = Reader::new(data);
        let what = "session state";
        Ok(Some(match kind {
            0 => SessionChange::Variable { name: data.lenenc_bytes(what)?, value: data.lenenc_bytes(what)? },
            1 => SessionChange::Schema(data.lenenc_bytes(what)?),
            2 => SessionChange::State(data.rest() == b"1"),
            3 => {
                data.u8(what)?;
                SessionChange::Gtids(data.lenenc_bytes(what)?)
            }
            4 => SessionChange::TransactionCharacteristics(data.lenenc_bytes(what)?),
            5 => SessionChange::TransactionState(data.lenenc_bytes(what)?),
            _ => return Ok(None),
        }))
    }
}

/// Content of an OK packet besides its numbers, as parsed by the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionChanges<'a> {
    /// Human-readable information.
    pub info: &'a [u8],
    changes: Reader<'a>,
}

impl<'a> SessionChanges<'a> {
    /// Parses an OK packet of a server to a client that uses `capabilities`.
    ///
    /// # Errors
    /// The payload is not an OK packet, or it is cut short.
    pub fn parse(payload: &'a [u8], capabilities: u32) -> Result<Self> {
        let mut reader = Reader::new(payload);
        if !matches!(reader.u8("OK packet")?, 0x00 | 0xfe) {
            return Err(WireError::Malformed { what: "not an OK packet" });
        }
        reader.lenenc("affected rows")?;
        reader.lenenc("last insert id")?;
        let bits = reader.u16("status")?;
        reader.u16("warnings")?;
        let mut found = SessionChanges { info: &[], changes: Reader::new(&[]) };
        if capabilities & capability::SESSION_TRACK == 0 {
            found.info = reader.rest();
        } else if !reader.is_empty() {
            found.info = reader.lenenc_bytes("info")?;
            if bits & status::SESSION_STATE_CHANGED != 0 {
                found.changes = Reader::new(reader.lenenc_bytes("session state")?);
            }
        }
        Ok(found)
    }
}

impl<'a> Iterator for SessionChanges<'a> {
    type Item = Result<SessionChange<'a>>;

    /// The next change; unknown kinds are skipped.
    fn next(&mut self) -> Option<Self::Item> {
        while !self.changes.is_empty() {
            let change = self.changes.u8("session state").and_then(|kind| {
                let data = self.changes.lenenc_bytes("session state")?;
                SessionChange::parse(kind, data)
            });
            match change {
                Ok(None) => {}
                Ok(Some(change)) => return Some(Ok(change)),
                Err(error) => {
                    self.changes = Reader::new(&[]);
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Payload of an OK packet.
pub fn put_ok(out: &mut Vec<u8>, ok: &ServerOk<'_>, capabilities: u32) {
    put_ok_as(out, 0x00, ok, capabilities);
}

fn put_ok_as(out: &mut Vec<u8>, header: u8, ok: &ServerOk<'_>, capabilities: u32) {
    let tracks = capabilities & capability::SESSION_TRACK != 0;
    let changed = tracks && !ok.changes.is_empty();
    let status = if changed { ok.status | status::SESSION_STATE_CHANGED } else { ok.status };
    out.push(header);
    put_lenenc(out, ok.affected_rows);
    put_lenenc(out, ok.last_insert_id);
    out.extend_from_slice(&status.to_le_bytes());
    out.extend_from_slice(&ok.warnings.to_le_bytes());
    if !tracks {
        out.extend_from_slice(ok.info);
    } else if changed || !ok.info.is_empty() {
        put_lenenc_bytes(out, ok.info);
    }
    if changed {
        let mut changes = Vec::new();
        for change in ok.changes {
            change.put(&mut changes);
        }
        put_lenenc_bytes(out, &changes);
    }
}

/// Payload of an ERR packet; `sqlstate` must have five characters.
pub fn put_err(out: &mut Vec<u8>, code: u16, sqlstate: &str, message: impl AsRef<[u8]>) {
    assert_eq!(sqlstate.len(), SQLSTATE_LEN, "an SQLSTATE that a client would read as part of the text");
    out.push(0xff);
    out.extend_from_slice(&code.to_le_bytes());
    out.push(b'#');
    out.extend_from_slice(sqlstate.as_bytes());
    out.extend_from_slice(message.as_ref());
}

/// Payload of the packet that ends the rows of a result: an EOF, or an OK for clients that no longer use EOF.
pub fn put_rows_end(out: &mut Vec<u8>, ok: &ServerOk<'_>, capabilities: u32) {
    if capabilities & capability::DEPRECATE_EOF != 0 {
        return put_ok_as(out, 0xfe, ok, capabilities);
    }
    out.push(0xfe);
    out.extend_from_slice(&ok.warnings.to_le_bytes());
    out.extend_from_slice(&ok.status.to_le_bytes());
}

impl ColumnDefinition<'_> {
    /// Definition of a text column that the server itself creates: SHOW statements, answers about the server.
    #[must_use]
    pub fn of_text(name: &[u8]) -> ColumnDefinition<'_> {
        ColumnDefinition {
            schema: b"",
            table: b"",
            org_table: b"",
            name,
            org_name: b"",
            collation: COLLATION,
            length: TEXT_LENGTH,
            type_code: type_code::VAR_STRING,
            flags: 0,
            decimals: 0,
        }
    }

    /// Payload of a ColumnDefinition41.
    pub fn write(&self, out: &mut Vec<u8>) {
        put_lenenc_bytes(out, b"def");
        for text in [self.schema, self.table, self.org_table, self.name, self.org_name] {
            put_lenenc_bytes(out, text);
        }
        out.push(12); // length of the rest
        out.extend_from_slice(&self.collation.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.push(self.type_code);
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&[self.decimals, 0, 0]);
    }
}

impl PrepareOk {
    /// Payload of the answer to COM_STMT_PREPARE. Definitions of parameters, then of columns follow it.
    pub fn write(&self, out: &mut Vec<u8>, warnings: u16) {
        out.push(0);
        out.extend_from_slice(&self.statement_id.to_le_bytes());
        out.extend_from_slice(&self.columns.to_le_bytes());
        out.extend_from_slice(&self.parameters.to_le_bytes());
        out.push(0);
        out.extend_from_slice(&warnings.to_le_bytes());
    }
}

/// Writes the start of a result with rows, as packets: the number of columns, their definitions, and an EOF for clients
/// that expect one.
pub fn put_columns(out: &mut Vec<u8>, sequence: &mut u8, columns: &[ColumnDefinition<'_>], capabilities: u32) {
    one(out, sequence, &mut |out| put_lenenc(out, columns.len() as u64));
    for column in columns {
        one(out, sequence, &mut |out| column.write(out));
    }
    if capabilities & capability::DEPRECATE_EOF == 0 {
        one(out, sequence, &mut |out| put_rows_end(out, &ServerOk::default(), capabilities));
    }
}

/// Writes the text answer to a query, as packets: text columns and rows.
pub fn put_text_rows(
    out: &mut Vec<u8>,
    sequence: &mut u8,
    columns: &[String],
    rows: &[Vec<Option<String>>],
    capabilities: u32,
) {
    let columns: Vec<_> = columns.iter().map(|name| ColumnDefinition::of_text(name.as_bytes())).collect();
    put_columns(out, sequence, &columns, capabilities);
    for row in rows {
        one(out, sequence, &mut |out| {
            for value in row {
                put_text(out, value.as_ref().map(String::as_bytes));
            }
        });
    }
    one(out, sequence, &mut |out| put_rows_end(out, &ServerOk::default(), capabilities));
}

/// Writes one packet.
fn one(out: &mut Vec<u8>, sequence: &mut u8, write: &mut dyn FnMut(&mut Vec<u8>)) {
    let at = packet::start(out);
    write(out);
    packet::finish(out, at, sequence);
}
