//! Parser for commands, on the server's side.

use crate::command;
use crate::handshake::capability;
use crate::read::{Reader, put_lenenc, put_lenenc_bytes};
use crate::row::{Value, ValueType, binary_value, is_bytes};
use crate::server::row::put_binary_value;
use crate::{Result, WireError};

/// Flag of COM_STMT_EXECUTE: the number of parameters is sent.
const PARAMETER_COUNT_AVAILABLE: u8 = 0x08;
/// Marks NULL in place of a length.
const NULL_MARK: u8 = 0xfb;
/// Bit in a parameter's type: UNSIGNED.
const UNSIGNED: u8 = 0x80;

/// A command from a client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientCommand<'a> {
    /// Ends the session; no answer.
    Quit,
    /// Checks that the server answers with an OK.
    Ping,
    /// Changes the default database.
    InitDb(&'a [u8]),
    /// Lists the columns of a table that match a pattern; both as sent.
    FieldList {
        /// Name of the table in the default database.
        table: &'a [u8],
        /// Pattern of LIKE; empty for all columns.
        pattern: &'a [u8],
    },
    /// Asks for a line about the server.
    Statistics,
    /// Asks the server to write about itself to its error log.
    Debug,
    /// Turns multi-statements on (0) or off (1).
    SetOption(u16),
    /// Logs in again: see [`ChangeUser`](super::ChangeUser).
    ChangeUser,
    /// Runs a statement.
    Query(Query<'a>),
    /// Prepares a statement.
    Prepare(&'a [u8]),
    /// Executes a prepared statement.
    Execute(Execute<'a>),
    /// Sends a part of a parameter; no answer.
    SendLongData {
        /// The prepared statement.
        statement_id: u32,
        /// Parameter number, from 0.
        parameter: u16,
        /// Further bytes of the parameter.
        data: &'a [u8],
    },
    /// Closes a prepared statement; no answer.
    Close(u32),
    /// Discards the long data and the cursor of a prepared statement.
    Reset(u32),
    /// Fetches rows from a cursor.
    Fetch {
        /// The prepared statement.
        statement_id: u32,
        /// Maximum number of rows.
        rows: u32,
    },
    /// Resets the session's state.
    ResetConnection,
    /// Registers a replica.
    Register {
        /// Server id of the replica.
        server_id: u32,
        /// Host that it reports; mostly empty.
        host: &'a [u8],
        /// Port that it reports.
        port: u16,
    },
    /// Requests the log from a file and position.
    Dump(DumpFrom<'a>),
    /// Requests the log from the first transaction outside a set.
    DumpGtid {
        /// Flags, see [`command::DUMP_NON_BLOCK`].
        flags: u16,
        /// The replica's server id.
        server_id: u32,
        /// The GTID set in binary form.
        gtid_set: &'a [u8],
    },
    /// Any other command, by its code.
    Other(u8),
}

/// COM_QUERY.
#[derive(Debug, Clone, PartialEq)]
pub struct Query<'a> {
    /// Text of the statement.
    pub sql: &'a [u8],
    /// Query attributes; empty if the client lacks QUERY_ATTRIBUTES.
    pub attributes: BoundParams<'a>,
}

/// COM_BINLOG_DUMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpFrom<'a> {
    /// Position in the file.
    pub position: u32,
    /// Flags, see [`command::DUMP_NON_BLOCK`].
    pub flags: u16,
    /// The replica's server id.
    pub server_id: u32,
    /// Name of the file; empty for the first file.
    pub file: &'a [u8],
}

/// COM_STMT_EXECUTE. How its bytes are parsed depends on the statement: see [`Execute::params`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execute<'a> {
    /// The prepared statement.
    pub statement_id: u32,
    /// Requested kind of cursor (0: none, 1: read only), and whether the number of parameters is sent.
    pub flags: u8,
    capabilities: u32,
    rest: Reader<'a>,
}

/// Type, sign and name of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamType {
    /// Type and sign.
    pub value: ValueType,
    /// Name of a query attribute; empty for a placeholder.
    pub name: Vec<u8>,
}

/// Parameters and their values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BoundParams<'a> {
    /// One type per value. A client sends them once, and they apply to later executions of the statement too.
    pub types: Vec<ParamType>,
    /// One value per parameter; None if long data was sent for it.
    pub values: Vec<Option<Value<'a>>>,
}

impl<'a> ClientCommand<'a> {
    /// Parses a command's payload from a client that uses `capabilities`.
    ///
    /// # Errors
    /// The payload is cut short, or contains something that the protocol does not define.
    pub fn parse(payload: &'a [u8], capabilities: u32) -> Result<Self> {
        let mut reader = Reader::new(payload);
        Ok(match reader.u8("command")? {
            command::QUIT => ClientCommand::Quit,
            command::PING => ClientCommand::Ping,
            command::INIT_DB => ClientCommand::InitDb(reader.rest()),
            command::FIELD_LIST => {
                let table = reader.nul_bytes("table")?;
                ClientCommand::FieldList { table, pattern: reader.nul_or_rest() }
            }
            command::STATISTICS => ClientCommand::Statistics,
            command::DEBUG => ClientCommand::Debug,
            command::SET_OPTION => ClientCommand::SetOption(reader.u16("option")?),
            command::CHANGE_USER => ClientCommand::ChangeUser,
            command::QUERY => ClientCommand::Query(query(reader, capabilities)?),
            command::STMT_PREPARE => ClientCommand::Prepare(reader.rest()),
            command::STMT_EXECUTE => {
                let statement_id = reader.u32("statement id")?;
                let flags = reader.u8("cursor flags")?;
                // MySQL does not look at it.
                reader.u32("iteration count")?;
                ClientCommand::Execute(Execute { statement_id, flags, capabilities, rest: reader })
            }
            command::STMT_SEND_LONG_DATA => {
                let statement_id = reader.u32("statement id")?;
                let parameter = reader.u16("parameter")?;
                ClientCommand::SendLongData { statement_id, parameter, data: reader.rest() }
            }
            command::STMT_CLOSE => ClientCommand::Close(reader.u32("statement id")?),
            command::STMT_RESET => ClientCommand::Reset(reader.u32("statement id")?),
            command::STMT_FETCH => {
                let statement_id = reader.u32("statement id")?;
                ClientCommand::Fetch { statement_id, rows: reader.u32("rows")? }
            }
            command::RESET_CONNECTION => ClientCommand::ResetConnection,
            command::REGISTER_SLAVE => {
                let server_id = reader.u32("server id")?;
                let mut text = |what| {
                    let len = usize::from(reader.u8(what)?);
                    reader.take(len, what)
                };
                let host = text("report host")?;
                text("report user")?;
                text("report password")?;
                ClientCommand::Register { server_id, host, port: reader.u16("report port")? }
            }
            command::BINLOG_DUMP => {
                let position = reader.u32("position")?;
                let flags = reader.u16("flags")?;
                let server_id = reader.u32("server id")?;
                ClientCommand::Dump(DumpFrom { position, flags, server_id, file: reader.nul_or_rest() })
            }
            command::BINLOG_DUMP_GTID => {
                let flags = reader.u16("flags")?;
                let server_id = reader.u32("server id")?;
                let name_len = reader.u32("file name")? as usize;
                reader.take(name_len, "file name")?;
                reader.u64("position")?;
                let set_len = reader.u32("GTID set")? as usize;
                ClientCommand::DumpGtid { flags, server_id, gtid_set: reader.take(set_len, "GTID set")? }
            }
            code => ClientCommand::Other(code),
        })
    }
}

fn query(mut reader: Reader<'_>, capabilities: u32) -> Result<Query<'_>> {
    let mut attributes = BoundParams::default();
    if capabilities & capability::QUERY_ATTRIBUTES != 0 {
        let count = length(&mut reader, "attribute count")?;
        if reader.lenenc("attribute sets")? != 1 {
            return Err(WireError::Malformed { what: "attribute sets" });
        }
        if count > 0 {
            attributes = bound(&mut reader, count, true, &[], &|_| false)?;
        }
    }
    Ok(Query { sql: reader.rest(), attributes })
}

impl<'a> Execute<'a> {
    /// Parses the values of a statement with `placeholders` placeholders; attributes follow them. `known` are the types
    /// of its previous execution: a client sends them once. `is_long` tells for which placeholders long data was sent
    /// before.
    ///
    /// # Errors
    /// The values are cut short, or the client sends no types and none are known.
    pub fn params(
        &self,
        placeholders: usize,
        known: &[ParamType],
        is_long: &dyn Fn(usize) -> bool,
    ) -> Result<BoundParams<'a>> {
        let mut reader = self.rest;
        let named = self.capabilities & capability::QUERY_ATTRIBUTES != 0;
        if placeholders == 0 && !(named && self.flags & PARAMETER_COUNT_AVAILABLE != 0) {
            return Ok(BoundParams::default());
        }
        // Where there are placeholders the flag is not asked: Connector/Python sends the count without it.
        let count = if named { length(&mut reader, "parameter count")? } else { placeholders };
        if count < placeholders {
            return Err(WireError::Malformed { what: "parameter count" });
        }
        if count == 0 {
            return Ok(BoundParams::default());
        }
        let is_long = |index: usize| index < placeholders && is_long(index);
        // What follows the parameters is not looked at, as by MySQL.
        bound(&mut reader, count, named, known, &is_long)
    }

    /// The same command with the types of its parameters, which it leaves out; None if it has them, or needs none.
    #[must_use]
    pub fn with_types(&self, placeholders: usize, types: &[ParamType]) -> Option<Vec<u8>> {
        let mut reader = self.rest;
        let named = self.capabilities & capability::QUERY_ATTRIBUTES != 0;
        if placeholders == 0 && !(named && self.flags & PARAMETER_COUNT_AVAILABLE != 0) {
            return None;
        }
        let count = if named { length(&mut reader, "parameter count").ok()? } else { placeholders };
        let nulls = reader.take(count.div_ceil(8), "NULL bitmap").ok()?;
        if count == 0 || types.len() != count || reader.u8("parameter types").ok()? != 0 {
            return None;
        }
        let mut out = vec![command::STMT_EXECUTE];
        out.extend_from_slice(&self.statement_id.to_le_bytes());
        out.push(self.flags);
        out.extend_from_slice(&1u32.to_le_bytes());
        if named {
            put_lenenc(&mut out, count as u64);
        }
        out.extend_from_slice(nulls);
        out.push(1);
        for ParamType { value: ValueType { code, unsigned }, name } in types {
            out.extend_from_slice(&[*code, if *unsigned { UNSIGNED } else { 0 }]);
            if named {
                put_lenenc_bytes(&mut out, name);
            }
        }
        out.extend_from_slice(reader.rest());
        Some(out)
    }
}

impl BoundParams<'_> {
    /// Appends a COM_STMT_EXECUTE of another statement with the first `placeholders` of these values, without a cursor
    /// and without attributes.
    ///
    /// # Errors
    /// There are fewer values, or long data was sent for one of them; `out` then contains a partial command.
    pub fn put_execute(
        &self,
        out: &mut Vec<u8>,
        statement_id: u32,
        placeholders: usize,
        capabilities: u32,
    ) -> Result<()> {
        let named = capabilities & capability::QUERY_ATTRIBUTES != 0;
        out.push(command::STMT_EXECUTE);
        out.extend_from_slice(&statement_id.to_le_bytes());
        out.push(if named && placeholders > 0 { PARAMETER_COUNT_AVAILABLE } else { 0 });
        out.extend_from_slice(&1u32.to_le_bytes());
        if placeholders == 0 {
            return Ok(());
        }
        let (Some(types), Some(values)) = (self.types.get(..placeholders), self.values.get(..placeholders)) else {
            return Err(WireError::Unwritable { what: "parameters that were not sent" });
        };
        if named {
            put_lenenc(out, placeholders as u64);
        }
        let bitmap = out.len();
        out.resize(bitmap + placeholders.div_ceil(8), 0);
        for (index, value) in values.iter().enumerate() {
            if *value == Some(Value::Null)
                && let Some(byte) = out.get_mut(bitmap + index / 8)
            {
                *byte |= 1 << (index % 8);
            }
        }
        out.push(1);
        for ParamType { value: ValueType { code, unsigned }, .. } in types {
            out.extend_from_slice(&[*code, if *unsigned { UNSIGNED } else { 0 }]);
            if named {
                out.push(0);
            }
        }
        for (ty, value) in types.iter().zip(values) {
            match value {
                Some(Value::Null) => {}
                Some(value) => put_binary_value(out, ty.value, *value)?,
                None => return Err(WireError::Unwritable { what: "a parameter that was sent in parts" }),
            }
        }
        Ok(())
    }
}

fn length(reader: &mut Reader<'_>, what: &'static str) -> Result<usize> {
    usize::try_from(reader.lenenc(what)?).map_err(|_| WireError::Malformed { what })
}

/// Parses NULL bitmap, types (if sent) and values.
/// A value. A text that is announced as longer than the rest of the packet is that rest, as by MySQL, which takes the
/// mark of NULL for a length too.
fn sent_value<'a>(reader: &mut Reader<'a>, ty: ValueType) -> Result<Value<'a>> {
    let mut after = *reader;
    if let Ok(value) = binary_value(&mut after, ty) {
        *reader = after;
        return Ok(value);
    }
    if !is_bytes(ty.code) {
        return Err(WireError::Malformed { what: "value" });
    }
    let mut text = *reader;
    if text.u8("value")? != NULL_MARK {
        text = *reader;
        text.lenenc("value")?;
    }
    *reader = Reader::new(&[]);
    Ok(Value::Bytes(text.rest()))
}

fn bound<'a>(
    reader: &mut Reader<'a>,
    count: usize,
    named: bool,
    known: &[ParamType],
    is_long: &dyn Fn(usize) -> bool,
) -> Result<BoundParams<'a>> {
    let nulls = reader.take(count.div_ceil(8), "NULL bitmap")?;
    // Nothing is reserved for `count`: claimed values must arrive first.
    let mut params = BoundParams::default();
    match reader.u8("parameter types")? {
        0 if known.len() == count => params.types.extend_from_slice(known),
        1 => {
            for _ in 0..count {
                let code = reader.u8("parameter type")?;
                let unsigned = reader.u8("parameter type")? & UNSIGNED != 0;
                let name = if named { reader.lenenc_bytes("parameter name")?.to_vec() } else { Vec::new() };
                params.types.push(ParamType { value: ValueType { code, unsigned }, name });
            }
        }
        _ => return Err(WireError::Malformed { what: "parameter types" }),
    }
    for (index, ty) in params.types.iter().enumerate() {
        let is_null = nulls.get(index / 8).is_some_and(|byte| byte & (1 << (index % 8)) != 0);
        params.values.push(match (is_null, is_long(index)) {
            // Long data counts, marked as NULL or not.
            (_, true) => None,
            (true, false) => Some(Value::Null),
            (false, false) => Some(sent_value(reader, ty.value)?),
        });
    }
    Ok(params)
}
