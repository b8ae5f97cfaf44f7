//! Text statements and their text answers.

use wire::command;
use wire::read::Reader;
use wire::response::{Answer, OkPacket};
use wire::row::text_value;

use super::{Column, Connection, ResultSet, Unread};
use crate::{ClientError, Result};

impl Connection {
    fn send_query(&mut self, sql: &str) -> Result<()> {
        let at = self.begin()?;
        command::put_text(&mut self.output, command::QUERY, sql.as_bytes());
        self.send(at)
    }

    /// Runs a statement and returns its first result as a whole. Further results (CALL) are read and dropped.
    pub fn query(&mut self, sql: &str) -> Result<ResultSet> {
        self.send_query(sql)?;
        let result = self.read_result()?;
        self.drain()?;
        Ok(result)
    }

    /// Runs several statements (with `multi_statements`) or a CALL; returns every result.
    pub fn query_all(&mut self, sql: &str) -> Result<Vec<ResultSet>> {
        self.send_query(sql)?;
        let mut results = vec![self.read_result()?];
        while self.unread == Unread::Result {
            results.push(self.read_result()?);
        }
        Ok(results)
    }

    fn read_result(&mut self) -> Result<ResultSet> {
        let mut result = ResultSet::default();
        match self.read_head()? {
            Answer::Columns(count) => self.read_columns(count, |column| result.columns.push(Column::new(column)))?,
            Answer::Ok(ok) => result.ok = ok,
            Answer::Err(_) => return Err(ClientError::UnexpectedAnswer { what: "a query" }),
        }
        while self.unread == Unread::Rows {
            match self.read_row()? {
                Err(end) => result.ok = end,
                Ok(range) => {
                    let row = text_row(self.input.payload(range), result.columns.len());
                    result.rows.push(self.parsed(row)?);
                }
            }
        }
        Ok(result)
    }

    /// Runs a statement and passes each row to `each`, as a reader of its text values ([`text_value`]).
    pub fn query_each(&mut self, sql: &str, mut each: impl FnMut(&mut Reader<'_>) -> Result<()>) -> Result<OkPacket> {
        self.send_query(sql)?;
        if let Answer::Columns(count) = self.read_head()? {
            self.read_columns(count, |_| {})?;
            while self.unread == Unread::Rows {
                if let Ok(range) = self.read_row()? {
                    each(&mut Reader::new(self.input.payload(range)))?;
                }
            }
        }
        self.drain()
    }

    /// Runs a statement and drops its rows, if any.
    pub fn exec(&mut self, sql: &str) -> Result<OkPacket> {
        self.send_query(sql)?;
        self.read_ok()
    }

    /// Reads an answer to its end and drops its rows.
    pub(super) fn read_ok(&mut self) -> Result<OkPacket> {
        match self.read_head()? {
            Answer::Ok(ok) if self.unread == Unread::Nothing => Ok(ok),
            Answer::Columns(count) => {
                self.read_columns(count, |_| {})?;
                self.drain()
            }
            _ => self.drain(),
        }
    }

    /// Runs a query and returns the first value as text; `None` for NULL or no row.
    pub fn query_value(&mut self, sql: &str) -> Result<Option<String>> {
        Ok(self.query(sql)?.first_text())
    }

    /// Checks that the server answers.
    pub fn ping(&mut self) -> Result<()> {
        let at = self.begin()?;
        self.output.push(command::PING);
        self.send(at)?;
        self.read_ok().map(|_| ())
    }

    /// Resets the session (variables, transaction, prepared statements).
    pub fn reset(&mut self) -> Result<()> {
        let at = self.begin()?;
        self.output.push(command::RESET_CONNECTION);
        self.send(at)?;
        self.read_ok().map(|_| ())
    }

    /// Sends COM_QUIT. Dropping the connection works too, but the server then counts an aborted client.
    pub fn close(mut self) {
        if let Ok(at) = self.begin() {
            self.output.push(command::QUIT);
            let _ = self.send(at);
        }
    }
}

fn text_row(payload: &[u8], columns: usize) -> wire::Result<Vec<Option<Vec<u8>>>> {
    let mut reader = Reader::new(payload);
    (0..columns).map(|_| Ok(text_value(&mut reader)?.map(<[u8]>::to_vec))).collect()
}
