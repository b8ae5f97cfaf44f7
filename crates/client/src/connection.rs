//! A blocking MySQL client: log in, query, prepared statements. One write per command, 256 KiB reads, and no allocation
//! per row in the streaming calls.
//!
//! ```no_run
//! # fn main() -> Result<(), client::ClientError> {
//! use client::{ConnectOptions, Connection, Param};
//! let mut connection = Connection::connect(&ConnectOptions::from_url("mysql://root@127.0.0.1:3306/test")?)?;
//! connection.exec("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, v VARCHAR(20))")?;
//! let insert = connection.prepare("INSERT INTO t VALUES (?, ?)")?;
//! connection.execute_ok(&insert, &[Param::Int(1), "one".into()])?;
//! let select = connection.prepare("SELECT id, v FROM t WHERE id > ?")?;
//! let mut rows = connection.execute(&select, &[Param::Int(0)])?;
//! while let Some(mut row) = rows.next_row()? {
//!     let (_id, _v) = (row.next_int()?, row.next_bytes()?);
//! }
//! # Ok(()) }
//! ```

use std::path::Path;
use std::time::Duration;

use wire::auth::{AuthOptions, AuthStep, Authenticator};
use wire::command;
use wire::handshake::{FirstPacket, Greeting, Login, capability};
use wire::packet::{self, PacketBuffer, PayloadRange};
use wire::read::Reader;
use wire::response::{
    Answer, ColumnDefinition, ErrPacket, OkPacket, PrepareOk, column_flag, ends_rows, is_err, rows_end,
};
use wire::row::{BinaryRow, Param, ValueType, text_value};
use wire::rsa::PublicKey;

use crate::stream::{Interrupter, Socket, Stream};
use crate::tls::random;
use crate::{ClientError, ConnectOptions, Result, SslMode};

/// utf8mb4_0900_ai_ci, MySQL's default; MariaDB does not know it.
const COLLATION_MYSQL: u8 = 255;
/// utf8mb4_general_ci.
const COLLATION_MARIADB: u8 = 45;
/// Memory kept for commands; a larger one is freed after its command.
const OUTPUT_KEPT: usize = 1 << 20;
/// No login takes more packets than this.
const LOGIN_PACKETS_MAX: usize = 16;

/// A result column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Database, empty for an expression.
    pub schema: String,
    /// Table name, empty for an expression.
    pub table: String,
    /// Name or alias.
    pub name: String,
    /// Collation id; 63 = binary.
    pub collation: u16,
    /// Display length in bytes.
    pub length: u32,
    /// [`wire::row::type_code`].
    pub type_code: u8,
    /// [`wire::response::column_flag`].
    pub flags: u16,
    /// Digits after the point.
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

    /// UNSIGNED.
    pub fn is_unsigned(&self) -> bool {
        self.flags & column_flag::UNSIGNED != 0
    }
}

/// A text result, whole in memory. For large ones use [`Connection::query_each`] or a prepared statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultSet {
    /// The columns; none for a statement without rows.
    pub columns: Vec<Column>,
    /// Values as text; `None` is NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// What ended it.
    pub ok: OkPacket,
}

impl ResultSet {
    /// Index of a column by name, in any case.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// A value as text; `None` for NULL and outside the result.
    pub fn text(&self, row: usize, column: usize) -> Option<String> {
        let value = self.rows.get(row)?.get(column)?.as_ref()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// The first row's first value as text.
    pub fn first_text(&self) -> Option<String> {
        self.text(0, 0)
    }
}

/// A statement the server has prepared for one connection.
#[derive(Debug, Clone)]
pub struct Statement {
    id: u32,
    /// Number of placeholders.
    pub parameters: usize,
    /// Columns of its rows as known when it was prepared.
    pub columns: Vec<Column>,
}

/// A logged-in connection.
pub struct Connection {
    stream: Stream,
    input: PacketBuffer,
    output: Vec<u8>,
    /// Types of the columns of the binary result being read.
    types: Vec<ValueType>,
    deprecate_eof: bool,
    /// Where in an unfinished answer we stand.
    unread: Unread,
    greeting: Greeting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unread {
    Nothing,
    Rows,
    Result,
    /// An I/O or protocol error: nothing more can be made sense of.
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

// ---- logging in ----

impl Connection {
    /// Connects and logs in; each read within `connect_timeout`.
    pub fn connect(options: &ConnectOptions) -> Result<Connection> {
        let stream = Stream::new(Socket::connect(options)?);
        stream.set_timeout(Some(options.connect_timeout))?;
        let mut connection = Connection {
            stream,
            input: PacketBuffer::new(packet::MAX_PAYLOAD_LEN),
            output: Vec::new(),
            types: Vec::new(),
            deprecate_eof: false,
            unread: Unread::Nothing,
            greeting: Greeting {
                server_version: String::new(),
                connection_id: 0,
                capabilities: 0,
                collation: 0,
                auth_plugin: String::new(),
                nonce: Vec::new(),
            },
        };
        let range = connection.read_packet()?;
        connection.greeting = match Greeting::parse(connection.input.payload(range))? {
            FirstPacket::Greeting(greeting) => greeting,
            FirstPacket::Refused(err) => return Err(server_error(err)),
        };
        connection.log_in(options)?;
        connection.stream.set_timeout(options.read_timeout)?;
        Ok(connection)
    }

    fn log_in(&mut self, options: &ConnectOptions) -> Result<()> {
        let offered = self.greeting.capabilities;
        let tls = match options.ssl_mode {
            SslMode::Disabled => false,
            SslMode::Preferred => options.socket.is_none() && offered & capability::SSL != 0,
            _ if offered & capability::SSL == 0 => {
                let message = "ssl-mode asks for it, but the server does not offer it".into();
                return Err(ClientError::Tls { message });
            }
            _ => true,
        };
        let capabilities = capabilities(offered, options, tls);
        self.deprecate_eof = capabilities & capability::DEPRECATE_EOF != 0;
        let process = std::process::id().to_string();
        let attributes = [
            ("_client_name", "slipstream"),
            ("_client_version", env!("CARGO_PKG_VERSION")),
            ("_pid", process.as_str()),
            ("program_name", "slipstream"),
        ];
        let mut login = Login {
            capabilities,
            collation: if self.greeting.is_mariadb() { COLLATION_MARIADB } else { COLLATION_MYSQL },
            user: &options.user,
            auth_response: &[],
            database: options.database.as_deref().unwrap_or_default(),
            auth_plugin: "",
            attributes: &attributes,
        };
        let mut sequence = self.input.sequence();
        if tls {
            let at = self.begin_packet();
            login.ssl_request(&mut self.output);
            self.send_packet(at, &mut sequence)?;
            if self.input.pending_len() > 0 {
                // Clear bytes behind the greeting would be taken for the server's, TLS or not.
                let message = "the server spoke before the handshake".into();
                return Err(ClientError::Tls { message });
            }
            self.stream.start_tls(options)?;
        }
        let auth_options = AuthOptions {
            password: options.password.clone().unwrap_or_default(),
            secure_transport: tls || options.socket.is_some(),
            server_public_key: options.server_public_key_path.as_deref().map(read_public_key).transpose()?,
            get_server_public_key: options.get_server_public_key,
        };
        let mut auth = Authenticator::new(auth_options, &self.greeting.auth_plugin, &self.greeting.nonce);
        let response = auth.first_response(&random()?)?;
        login.auth_response = &response;
        login.auth_plugin = auth.plugin().name();
        let at = self.begin_packet();
        login.write(&mut self.output);
        self.send_packet(at, &mut sequence)?;
        self.authenticate(auth)
    }

    fn authenticate(&mut self, mut auth: Authenticator) -> Result<()> {
        for _ in 0..LOGIN_PACKETS_MAX {
            let range = self.read_packet()?;
            match auth.step(self.input.payload(range), &random()?)? {
                AuthStep::Read => {}
                AuthStep::Send(payload) => {
                    let mut sequence = self.input.sequence();
                    let at = self.begin_packet();
                    self.output.extend_from_slice(&payload);
                    self.send_packet(at, &mut sequence)?;
                }
                AuthStep::Done(_) => return Ok(()),
                AuthStep::Refused(err) => return Err(server_error(err)),
            }
        }
        Err(ClientError::UnexpectedAnswer { what: "the login" })
    }

    /// As the server greeted, e.g. `9.7.4` or `5.5.5-10.11.6-MariaDB`.
    pub fn server_version(&self) -> &str {
        &self.greeting.server_version
    }

    /// True when the version text names MariaDB.
    pub fn is_mariadb(&self) -> bool {
        self.greeting.is_mariadb()
    }

    /// The connection's id on the server (for KILL).
    pub fn connection_id(&self) -> u32 {
        self.greeting.connection_id
    }

    /// TLS version and cipher, or `None` without TLS.
    pub fn tls_description(&self) -> Option<String> {
        self.stream.tls_description()
    }

    /// Limit for a single read or write from now on; `None` waits for ever.
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.stream.set_timeout(timeout)
    }

    /// A handle that ends a blocked read from another thread.
    pub fn interrupter(&self) -> Result<Interrupter> {
        self.stream.interrupter()
    }

    /// True after a failure that leaves the connection useless.
    pub fn is_broken(&self) -> bool {
        self.unread == Unread::Broken
    }
}

fn capabilities(offered: u32, options: &ConnectOptions, tls: bool) -> u32 {
    let mut wanted = capability::LONG_PASSWORD
        | capability::LONG_FLAG
        | capability::PROTOCOL_41
        | capability::TRANSACTIONS
        | capability::SECURE_CONNECTION
        | capability::MULTI_RESULTS
        | capability::PS_MULTI_RESULTS
        | capability::PLUGIN_AUTH
        | capability::PLUGIN_AUTH_LENENC_CLIENT_DATA
        | capability::CONNECT_ATTRS
        | capability::DEPRECATE_EOF;
    if options.database.is_some() {
        wanted |= capability::CONNECT_WITH_DB;
    }
    if options.multi_statements {
        wanted |= capability::MULTI_STATEMENTS;
    }
    if tls {
        wanted |= capability::SSL;
    }
    wanted & offered
}

fn read_public_key(path: &Path) -> Result<PublicKey> {
    let pem = std::fs::read(path).map_err(|error| ClientError::File { path: path.to_owned(), error })?;
    Ok(PublicKey::from_pem(&pem)?)
}

fn server_error(err: ErrPacket) -> ClientError {
    ClientError::Server { code: err.code, sqlstate: err.sqlstate, message: err.message }
}

// ---- packets ----

impl Connection {
    fn begin_packet(&mut self) -> usize {
        self.output.clear();
        self.output.shrink_to(OUTPUT_KEPT);
        packet::start(&mut self.output)
    }

    fn send_packet(&mut self, at: usize, sequence: &mut u8) -> Result<()> {
        packet::finish(&mut self.output, at, sequence);
        self.input.expect_sequence(*sequence);
        let Err(error) = self.stream.write_all(&self.output) else { return Ok(()) };
        // A server that ended the session (timeout, shutdown) may have said why before it hung up.
        let reason = self.read_packet().ok().and_then(|range| ErrPacket::parse(self.input.payload(range)).ok());
        self.unread = Unread::Broken;
        Err(reason.map_or(error, server_error))
    }

    /// Starts a command, reading what an earlier one left unread.
    fn begin(&mut self) -> Result<usize> {
        match self.unread {
            Unread::Nothing => {}
            Unread::Broken => return Err(ClientError::Broken),
            _ => match self.drain() {
                Err(error) if error.server_code().is_none() => return Err(error),
                _ => {}
            },
        }
        Ok(self.begin_packet())
    }

    fn send(&mut self, at: usize) -> Result<()> {
        self.send_packet(at, &mut 0)
    }

    #[inline]
    fn receive(&mut self) -> Result<PayloadRange> {
        loop {
            if let Some(range) = self.input.take()? {
                return Ok(range);
            }
            let len = self.stream.read(self.input.spare())?;
            self.input.filled(len);
        }
    }

    /// The next packet of an answer. After any failure the connection is broken.
    #[inline]
    fn read_packet(&mut self) -> Result<PayloadRange> {
        let received = self.receive();
        if received.is_err() {
            self.unread = Unread::Broken;
        }
        received
    }

    /// Reads a packet that must not be an error.
    fn read_ok_packet(&mut self) -> Result<PayloadRange> {
        let range = self.read_packet()?;
        let payload = self.input.payload(range);
        if is_err(payload) {
            self.unread = Unread::Nothing;
            return Err(server_error(ErrPacket::parse(payload)?));
        }
        Ok(range)
    }

    /// A malformed answer: nothing behind it can be trusted.
    fn parsed<T>(&mut self, parsed: wire::Result<T>) -> Result<T> {
        parsed.map_err(|error| {
            self.unread = Unread::Broken;
            ClientError::Wire(error)
        })
    }

    /// The head of an answer: OK, or the number of columns whose definitions come next.
    fn read_head(&mut self) -> Result<Answer> {
        let range = self.read_packet()?;
        let answer = Answer::parse(self.input.payload(range));
        match self.parsed(answer)? {
            Answer::Err(err) => {
                self.unread = Unread::Nothing;
                Err(server_error(err))
            }
            Answer::Ok(ok) => {
                self.unread = if ok.more_results() { Unread::Result } else { Unread::Nothing };
                Ok(Answer::Ok(ok))
            }
            columns => {
                self.unread = Unread::Rows;
                Ok(columns)
            }
        }
    }

    fn read_columns(&mut self, count: usize, mut each: impl FnMut(&ColumnDefinition<'_>)) -> Result<()> {
        for _ in 0..count {
            let range = self.read_ok_packet()?;
            let definition = ColumnDefinition::parse(self.input.payload(range));
            match definition {
                Ok(definition) => each(&definition),
                Err(error) => return self.parsed(Err(error)),
            }
        }
        if count > 0 && !self.deprecate_eof {
            self.read_ok_packet()?;
        }
        Ok(())
    }

    /// The next row of the current result, or what ended it.
    #[inline]
    fn read_row(&mut self) -> Result<std::result::Result<PayloadRange, OkPacket>> {
        let range = self.read_ok_packet()?;
        if !ends_rows(self.input.payload(range), self.deprecate_eof) {
            return Ok(Ok(range));
        }
        let end = rows_end(self.input.payload(range), self.deprecate_eof);
        let end = self.parsed(end)?;
        self.unread = if end.more_results() { Unread::Result } else { Unread::Nothing };
        Ok(Err(end))
    }

    /// Reads to the end of the answer; the last OK, or the first error.
    fn drain(&mut self) -> Result<OkPacket> {
        let mut last = OkPacket::default();
        loop {
            match self.unread {
                Unread::Nothing => return Ok(last),
                Unread::Broken => return Err(ClientError::Broken),
                Unread::Rows => {
                    if let Err(end) = self.read_row()? {
                        last = end;
                    }
                }
                Unread::Result => match self.read_head()? {
                    Answer::Columns(count) => self.read_columns(count, |_| {})?,
                    Answer::Ok(ok) => last = ok,
                    Answer::Err(_) => return Err(ClientError::UnexpectedAnswer { what: "a command" }),
                },
            }
        }
    }
}

// ---- text protocol ----

impl Connection {
    fn send_query(&mut self, sql: &str) -> Result<()> {
        let at = self.begin()?;
        command::put_text(&mut self.output, command::QUERY, sql.as_bytes());
        self.send(at)
    }

    /// Runs a statement; its first result, whole. Further results (CALL) are read and dropped.
    pub fn query(&mut self, sql: &str) -> Result<ResultSet> {
        self.send_query(sql)?;
        let result = self.read_result()?;
        self.drain()?;
        Ok(result)
    }

    /// Runs statements (with `multi_statements`) or a CALL; every result.
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

    /// Runs a statement and hands each row, as a reader of its text values ([`text_value`]), to `each`.
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

    /// Runs a statement whose rows, if any, do not matter.
    pub fn exec(&mut self, sql: &str) -> Result<OkPacket> {
        self.send_query(sql)?;
        self.read_ok()
    }

    /// Reads an answer to its end; rows are dropped.
    fn read_ok(&mut self) -> Result<OkPacket> {
        match self.read_head()? {
            Answer::Ok(ok) if self.unread == Unread::Nothing => Ok(ok),
            Answer::Columns(count) => {
                self.read_columns(count, |_| {})?;
                self.drain()
            }
            _ => self.drain(),
        }
    }

    /// One value as text; `None` for NULL or no row.
    pub fn query_value(&mut self, sql: &str) -> Result<Option<String>> {
        Ok(self.query(sql)?.first_text())
    }

    /// Asks whether the server is there.
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

    /// Says goodbye. Dropping without it works too; the server then counts an aborted client.
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

// ---- prepared statements ----

impl Connection {
    /// Prepares a statement. It lives as long as the connection, or until [`Connection::close_statement`].
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

    /// Executes a statement and reads its rows one by one. Rows left unread are read by the next command.
    pub fn execute(&mut self, statement: &Statement, params: &[Param<'_>]) -> Result<Rows<'_>> {
        self.send_execute(statement, params)?;
        let ok = self.read_binary_head()?;
        Ok(Rows { connection: self, ok })
    }

    /// Executes a statement whose rows, if any, do not matter.
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
    /// The next row of the current result, borrowed from the read buffer.
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

    /// Types of the current result's columns; empty for a statement without rows.
    pub fn types(&self) -> &[ValueType] {
        &self.connection.types
    }

    /// Goes on to the next result of a CALL; false when there is none.
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

    /// Reads to the end: affected rows and status, or the error that came behind the rows.
    pub fn finish(self) -> Result<OkPacket> {
        if self.connection.unread == Unread::Nothing { Ok(self.ok) } else { self.connection.drain() }
    }
}

// ---- what replication needs ----

/// A packet of a dump.
#[derive(Debug)]
pub enum DumpPacket {
    /// An event, at this place of the read buffer.
    Event(PayloadRange),
    /// The end of a dump that does not wait.
    End,
}

impl Connection {
    /// Sends a command given as a payload; its answer is read by what comes next.
    pub fn send_command(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let at = self.begin()?;
        put(&mut self.output);
        self.send(at)
    }

    /// Sends a command given as a payload and reads its OK.
    pub fn command_ok(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<OkPacket> {
        self.send_command(put)?;
        self.read_ok()
    }

    /// Sends a packet of its own sequence beside the stream being read.
    pub fn send_aside(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let at = self.begin_packet();
        put(&mut self.output);
        packet::finish(&mut self.output, at, &mut 0);
        self.stream.write_all(&self.output)
    }

    /// Takes packets whatever their sequence number: a semi-synchronous source counts its own.
    pub fn accept_any_sequence(&mut self) {
        self.input.accept_any_sequence();
    }

    /// The next packet of a dump. Only a read timeout leaves the connection usable.
    #[inline]
    pub fn read_dump_packet(&mut self) -> Result<DumpPacket> {
        if self.unread == Unread::Broken {
            return Err(ClientError::Broken);
        }
        let range = match self.receive() {
            Ok(range) => range,
            Err(error) => {
                if !error.is_timeout() {
                    self.unread = Unread::Broken;
                }
                return Err(error);
            }
        };
        let payload = self.input.payload(range);
        match payload.first() {
            Some(0xff) => {
                self.unread = Unread::Broken;
                Err(server_error(ErrPacket::parse(payload)?))
            }
            Some(0xfe) if payload.len() < 9 => Ok(DumpPacket::End),
            _ => Ok(DumpPacket::Event(range)),
        }
    }

    /// The bytes of a packet just read.
    #[inline]
    pub fn payload(&self, range: PayloadRange) -> &[u8] {
        self.input.payload(range)
    }

    /// True when a whole packet can be had without a system call.
    pub fn has_packet(&mut self) -> bool {
        loop {
            if self.input.has_packet() {
                return true;
            }
            let len = self.stream.read_buffered(self.input.spare());
            if len == 0 {
                return false;
            }
            self.input.filled(len);
        }
    }
}
