//! Prepared statements and their binary answers.

use wire::command;
use wire::response::{Answer, OkPacket, PrepareOk, column_flag};
use wire::row::{BinaryRow, Param, ValueType};

use super::{Column, Connection, Statement, Unread};
use crate::{ClientError, Result};

impl Connection {
    /// Prepares a statement. It exists until the connection ends or [`Connection::close_statement`] is called.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement> {
        let at = self.begin()?;
        command::put_text(&mut self.output, command::STMT_PREPARE, sql.as_bytes());
        self.send(at)?;
        let range = self.read_ok_packet()?;
        let prepared = PrepareOk::parse(self.input.payload(range));
        let prepared = self.parsed(prepared)?;
        self.read_columns(usize::from(prepared.parameters), |_| {})?;
        let mut columns = Vec::new();
        self.read_columns(usize::from(prepared.columns), |column| columns.push(Column::new(column)))?;
        Ok(Statement { id: prepared.statement_id, parameters: usize::from(prepared.parameters), columns })
    }

    fn send_execute(&mut self, statement: &Statement, params: &[Param<'_>]) -> Result<()> {
        if params.len() != statement.parameters {
            let (want, have) = (statement.parameters, params.len());
            return Err(ClientError::usage(format!("the statement takes {want} parameters, {have} were given")));
        }
        let at = self.begin()?;
        command::put_execute(&mut self.output, statement.id, params);
        self.send(at)
    }

    /// Executes a statement and returns its rows one by one. The next command reads and drops unread rows.
    pub fn execute(&mut self, statement: &Statement, params: &[Param<'_>]) -> Result<Rows<'_>> {
        self.send_execute(statement, params)?;
        let ok = self.read_binary_head()?;
        Ok(Rows { connection: self, ok })
    }

    /// Executes a statement and drops its rows, if any.
    pub fn execute_ok(&mut self, statement: &Statement, params: &[Param<'_>]) -> Result<OkPacket> {
        self.send_execute(statement, params)?;
        self.read_ok()
    }

    fn read_binary_head(&mut self) -> Result<OkPacket> {
        let mut types = std::mem::take(&mut self.types);
        types.clear();
        let ok = match self.read_head()? {
            Answer::Columns(count) => {
                self.read_columns(count, |column| {
                    let unsigned = column.flags & column_flag::UNSIGNED != 0;
                    types.push(ValueType { code: column.type_code, unsigned });
                })?;
                OkPacket::default()
            }
            Answer::Ok(ok) => ok,
            Answer::Err(_) => return Err(ClientError::UnexpectedAnswer { what: "an execute" }),
        };
        self.types = types;
        Ok(ok)
    }

    /// Frees a statement on the server.
    pub fn close_statement(&mut self, statement: Statement) -> Result<()> {
        let at = self.begin()?;
        command::put_close(&mut self.output, statement.id);
        self.send(at)
    }
}

/// The rows of an executed statement.
#[derive(Debug)]
pub struct Rows<'c> {
    connection: &'c mut Connection,
    ok: OkPacket,
}

impl Rows<'_> {
    /// Returns the next row of the current result, borrowed from the read buffer.
    #[inline]
    pub fn next_row(&mut self) -> Result<Option<BinaryRow<'_>>> {
        if self.connection.unread != Unread::Rows {
            return Ok(None);
        }
        match self.connection.read_row()? {
            Ok(range) => Ok(Some(BinaryRow::new(self.connection.input.payload(range), &self.connection.types)?)),
            Err(end) => {
                self.ok = end;
                Ok(None)
            }
        }
    }

    /// Column types of the current result; empty for a statement without rows.
    pub fn types(&self) -> &[ValueType] {
        &self.connection.types
    }

    /// Moves to the next result of a CALL; false if there is none.
    pub fn next_result(&mut self) -> Result<bool> {
        while self.connection.unread == Unread::Rows {
            self.next_row()?;
        }
        if self.connection.unread != Unread::Result {
            return Ok(false);
        }
        self.ok = self.connection.read_binary_head()?;
        Ok(true)
    }

    /// Reads to the end: returns affected rows and status, or the error that followed the rows.
    pub fn finish(self) -> Result<OkPacket> {
        if self.connection.unread == Unread::Nothing { Ok(self.ok) } else { self.connection.drain() }
    }
}
