//! Text statements and their text answers.

use wire::WireError;
use wire::command;
use wire::read::Reader;
use wire::response::{Answer, OkPacket};
use wire::row::text_value;

use super::{Column, Connection, ResultSet, Unread};
use crate::{ClientError, Result};

/// Memory that a whole answer may take: what a server is asked for whole has kilobytes, and one that never ends is a
/// server that lies.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The same of a list of all tables or columns of a server, of which a million take about as much.
const LIST_BYTES_MAX: usize = 512 << 20;
/// The same of GTID sets, which take several times as much once they are read: 300,000 intervals, each of a server of
/// its own. Those of sources that live have kilobytes.
const GTID_SETS_BYTES_MAX: usize = 16 << 20;
/// Characters of a statement that an error shows.
const SHOWN_CHARS_MAX: usize = 60;

/// ER_PARSE_ERROR.
const PARSE_ERROR: u16 = 1064;

impl Connection {
    fn send_query(&mut self, sql: &str) -> Result<()> {
        let at = self.begin()?;
        command::put_text(&mut self.output, command::QUERY, sql.as_bytes());
        self.send(at)
    }

    /// Runs a statement and returns its first result as a whole. Further results (CALL) are read and dropped.
    ///
    /// # Errors
    /// The server's, the connection's, or the answer takes more than 64 MiB of memory; the connection is broken then.
    pub fn query(&mut self, sql: &str) -> Result<ResultSet> {
        self.query_within(sql, ANSWER_BYTES_MAX)
    }

    /// As [`query`](Self::query), for a list of all of a server's tables or columns: it may take 512 MiB.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub fn query_list(&mut self, sql: &str) -> Result<ResultSet> {
        self.query_within(sql, LIST_BYTES_MAX)
    }

    /// As [`query`](Self::query), for GTID sets: the answer may take 16 MiB.
    ///
    /// # Errors
    /// The server's, the connection's, or the answer takes more; the connection is broken then.
    pub fn query_gtids(&mut self, sql: &str) -> Result<ResultSet> {
        self.query_within(sql, GTID_SETS_BYTES_MAX)
    }

    /// As [`query`](Self::query), for an answer that takes at most `limit` bytes of memory.
    ///
    /// # Errors
    /// The server's, the connection's, or the answer takes more; the connection is broken then.
    pub fn query_within(&mut self, sql: &str, limit: usize) -> Result<ResultSet> {
        let mut room = limit;
        self.send_whole(sql, limit)?;
        let read = self.read_result(&mut room).and_then(|result| self.drain().map(|_| result));
        read.map_err(|error| too_large(error, sql, limit))
    }

    /// Sends a statement whose packets are kept: none of them may be longer than all of them.
    fn send_whole(&mut self, sql: &str, limit: usize) -> Result<()> {
        self.send_query(sql)?;
        self.input.set_limit(limit);
        Ok(())
    }

    /// Runs several statements (with `multi_statements`) or a CALL; returns every result.
    pub fn query_all(&mut self, sql: &str) -> Result<Vec<ResultSet>> {
        let mut room = ANSWER_BYTES_MAX;
        self.send_whole(sql, room)?;
        let mut read = || {
            let mut results = vec![self.read_result(&mut room)?];
            while self.unread == Unread::Result {
                results.push(self.read_result(&mut room)?);
            }
            Ok(results)
        };
        read().map_err(|error| too_large(error, sql, ANSWER_BYTES_MAX))
    }

    /// Reads a result of at most `room` bytes of memory, and takes them off.
    fn read_result(&mut self, room: &mut usize) -> Result<ResultSet> {
        self.keeps(size_of::<ResultSet>(), room)?;
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
                    let bytes = self.input.payload(range).len() + row_bytes(result.columns.len());
                    self.keeps(bytes, room)?;
                    let row = text_row(self.input.payload(range), result.columns.len());
                    result.rows.push(self.parsed(row)?);
                }
            }
        }
        Ok(result)
    }

    fn keeps(&mut self, bytes: usize, room: &mut usize) -> Result<()> {
        match room.checked_sub(bytes) {
            Some(left) => *room = left,
            None => return self.parsed(Err(WireError::TooLarge { limit: *room })),
        }
        Ok(())
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

    /// Runs a query whose statement was renamed: by its name of today, or by the earlier one where the server knows only
    /// that.
    pub fn query_renamed(&mut self, today: &str, earlier: &str) -> Result<ResultSet> {
        match self.query(today) {
            Err(error) if error.server_code() == Some(PARSE_ERROR) => self.query(earlier),
            answer => answer,
        }
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

/// Bytes of a row without its values' own: a row of NULLs takes memory too.
fn row_bytes(columns: usize) -> usize {
    (columns + 1) * size_of::<Option<Vec<u8>>>()
}

fn too_large(error: ClientError, sql: &str, limit: usize) -> ClientError {
    match error {
        ClientError::Wire(WireError::TooLarge { .. }) => {
            let mut to: String = sql.chars().take(SHOWN_CHARS_MAX).collect();
            if to.len() < sql.len() {
                to.push('…');
            }
            ClientError::AnswerTooLarge { to, limit_mib: limit >> 20 }
        }
        error => error,
    }
}

fn text_row(payload: &[u8], columns: usize) -> wire::Result<Vec<Option<Vec<u8>>>> {
    let mut reader = Reader::new(payload);
    (0..columns).map(|_| Ok(text_value(&mut reader)?.map(<[u8]>::to_vec))).collect()
}
