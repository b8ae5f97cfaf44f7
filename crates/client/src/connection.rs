//! A blocking MySQL client connection: login, queries, prepared statements. It makes one write per command and 256 KiB
//! reads, and the streaming calls do not allocate per row.

mod dump;
mod login;
mod packets;
mod relay;
mod statements;
#[cfg(test)]
mod tests;
mod text;

use std::str::FromStr;
use std::time::Duration;

use wire::handshake::Greeting;
use wire::packet::{self, PacketBuffer};
use wire::response::{ColumnDefinition, OkPacket, column_flag};
use wire::row::ValueType;

use crate::stream::{Interrupter, Stream};
use crate::{ClientError, Result};

pub use dump::DumpPacket;
pub use statements::Rows;

/// A result column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Column {
    /// Database, empty for an expression.
    pub schema: String,
    /// Table name, empty for an expression.
    pub table: String,
    /// Column name or alias.
    pub name: String,
    /// Collation id; 63 = binary.
    pub collation: u16,
    /// Display length in bytes.
    pub length: u32,
    /// Protocol type, see [`wire::row::type_code`].
    pub type_code: u8,
    /// Flag bits, see [`wire::response::column_flag`].
    pub flags: u16,
    /// Digits after the decimal point.
    pub decimals: u8,
}

impl Column {
    fn new(definition: &ColumnDefinition<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Column {
            schema: text(definition.schema),
            table: text(definition.org_table),
            name: text(definition.name),
            collation: definition.collation,
            length: definition.length,
            type_code: definition.type_code,
            flags: definition.flags,
            decimals: definition.decimals,
        }
    }

    /// True if the column is UNSIGNED.
    pub fn is_unsigned(&self) -> bool {
        self.flags & column_flag::UNSIGNED != 0
    }
}

/// A text result, held in memory as a whole. For large results use [`Connection::query_each`] or a prepared statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultSet {
    /// The columns; empty for a statement without rows.
    pub columns: Vec<Column>,
    /// Values as text; `None` is NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// The packet that ended the result.
    pub ok: OkPacket,
}

impl ResultSet {
    /// Index of a column by name, ignoring case.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// A value as text; `None` for NULL and outside the result.
    pub fn text(&self, row: usize, column: usize) -> Option<String> {
        let value = self.rows.get(row)?.get(column)?.as_ref()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// A value that the answer to `what` must have, as what it must be.
    ///
    /// # Errors
    /// [`ClientError::UnexpectedValue`] for NULL, outside the result, and for a text that is no such value.
    pub fn told<T: FromStr>(&self, row: usize, column: usize, what: &'static str) -> Result<T> {
        let text = self.text(row, column);
        text.as_deref().and_then(|text| text.parse().ok()).ok_or_else(|| {
            let name = self.columns.get(column).map_or_else(|| format!("column {}", column + 1), |of| of.name.clone());
            ClientError::unexpected_value(what, &name, text.as_deref())
        })
    }

    /// The first row's first value as text.
    pub fn first_text(&self) -> Option<String> {
        self.text(0, 0)
    }
}

/// A statement that the server has prepared for one connection.
#[derive(Debug, Clone)]
pub struct Statement {
    id: u32,
    /// Number of placeholders, which is the number of parameters to pass.
    pub parameters: usize,
    /// Columns of its rows at the time of preparation.
    pub columns: Vec<Column>,
}

/// A logged-in connection. After an I/O or protocol error it is broken, see [`Connection::is_broken`].
pub struct Connection {
    stream: Stream,
    input: PacketBuffer,
    output: Vec<u8>,
    /// Column types of the binary result being read.
    types: Vec<ValueType>,
    deprecate_eof: bool,
    /// What is still unread of the current answer.
    unread: Unread,
    greeting: Greeting,
    gave_password: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unread {
    Nothing,
    Rows,
    Result,
    /// After an I/O or protocol error: later bytes cannot be interpreted.
    Broken,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("connection_id", &self.greeting.connection_id)
            .field("server_version", &self.greeting.server_version)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Version from the server's greeting, e.g. `9.7.4` or `5.5.5-10.11.6-MariaDB`.
    pub fn server_version(&self) -> &str {
        &self.greeting.server_version
    }

    /// True if the version text names MariaDB.
    pub fn is_mariadb(&self) -> bool {
        self.greeting.is_mariadb()
    }

    /// Id of the connection on the server (for KILL).
    pub fn connection_id(&self) -> u32 {
        self.greeting.connection_id
    }

    /// TLS version and cipher, or `None` without TLS.
    pub fn tls_description(&self) -> Option<String> {
        self.stream.tls_description()
    }

    /// True if the login gave the server the password itself, not only an answer made of it.
    pub fn gave_password(&self) -> bool {
        self.gave_password
    }

    /// Sets the limit for a single read or write from now on; `None` waits for ever.
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.stream.set_timeout(timeout)
    }

    /// A handle that ends a blocked read from another thread.
    pub fn interrupter(&self) -> Result<Interrupter> {
        self.stream.interrupter()
    }

    /// True if nothing of an answer is left to be read.
    pub(crate) fn is_between_commands(&self) -> bool {
        self.unread == Unread::Nothing && self.input.pending_len() == 0
    }

    pub(crate) fn into_parts(self) -> (Stream, Greeting, bool) {
        (self.stream, self.greeting, self.deprecate_eof)
    }

    /// A connection between two commands, or whose next packet is the first one of an answer.
    pub(crate) fn of_parts((stream, greeting, deprecate_eof): (Stream, Greeting, bool), is_asked: bool) -> Connection {
        let mut input = PacketBuffer::new(packet::MAX_PAYLOAD_LEN);
        input.expect_sequence(u8::from(is_asked));
        Connection {
            stream,
            input,
            output: Vec::new(),
            types: Vec::new(),
            deprecate_eof,
            unread: Unread::Nothing,
            greeting,
            gave_password: false,
        }
    }

    /// True after a failure that leaves the connection unusable.
    pub fn is_broken(&self) -> bool {
        self.unread == Unread::Broken
    }
}
