//! One connection: login and commands.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::GtidSet;
use wire::auth::scramble_sha256;
use wire::handshake::{Greeting, capability};
use wire::server::{self, ClientCommand, LoginRequest, NONCE_LEN, ServerOk, ServerStream};

use crate::Shared;
use crate::dump::{Dump, Start};
use crate::files::Facts;
use crate::questions::{Answer, Variables, answer};
use crate::{Result, ServeError};

/// Capabilities of this server; no others are offered.
const CAPABILITIES: u32 = capability::LONG_PASSWORD
    | capability::LONG_FLAG
    | capability::CONNECT_WITH_DB
    | capability::PROTOCOL_41
    | capability::TRANSACTIONS
    | capability::SECURE_CONNECTION
    | capability::MULTI_RESULTS
    | capability::PS_MULTI_RESULTS
    | capability::PLUGIN_AUTH
    | capability::CONNECT_ATTRS
    | capability::PLUGIN_AUTH_LENENC_CLIENT_DATA;
const PLUGIN: &str = "caching_sha2_password";
/// Largest command in bytes: a GTID set with many gaps.
const COMMAND_BYTES_MAX: usize = 64 << 20;
/// How long one read or write may block before `stop` is checked.
pub(super) const BLOCK: Duration = Duration::from_millis(100);

/// A connection of one client.
pub(super) struct Session<'a> {
    pub shared: &'a Shared<'a>,
    pub stream: TcpStream,
    pub number: u32,
    pub wire: ServerStream,
    /// Capabilities that both the client and we have.
    pub capabilities: u32,
    pub variables: Variables,
    replica: Option<u32>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(replica) = self.replica {
            self.shared.replicas.lock().unwrap_or_else(PoisonError::into_inner).remove(&replica);
        }
    }
}

impl<'a> Session<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, stream: TcpStream, number: u32) -> Result<Session<'a>> {
        let setting = || {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(BLOCK))?;
            stream.set_write_timeout(Some(BLOCK))
        };
        setting().map_err(ServeError::io("set up a connection"))?;
        let wire = ServerStream::new(COMMAND_BYTES_MAX);
        Ok(Session { shared, stream, number, wire, capabilities: 0, variables: Variables::new(), replica: None })
    }

    /// Performs the login, then serves commands until the client disconnects.
    pub(super) fn serve(&mut self) -> Result<()> {
        if !self.log_in()? {
            return Ok(());
        }
        loop {
            self.wire.await_command();
            let Some(payload) = self.read()? else { return Ok(()) };
            match ClientCommand::parse(&payload, self.capabilities)? {
                ClientCommand::Quit => return Ok(()),
                ClientCommand::Ping | ClientCommand::InitDb(_) => self.answer_ok()?,
                ClientCommand::Query(query) => self.query(&String::from_utf8_lossy(query.sql))?,
                ClientCommand::Register { server_id, .. } => {
                    self.replica = Some(server_id);
                    self.shared.replicas.lock().unwrap_or_else(PoisonError::into_inner).insert(server_id);
                    self.answer_ok()?;
                }
                ClientCommand::Dump(from) => {
                    let file = String::from_utf8_lossy(from.file).into_owned();
                    let start = Start::Place { file, position: from.position };
                    return self.dump(start, from.flags, from.server_id);
                }
                ClientCommand::DumpGtid { flags, server_id, gtid_set } => {
                    return self.dump(Start::After(GtidSet::decode(gtid_set)?), flags, server_id);
                }
                _ => {
                    let code = payload.first().copied().unwrap_or_default();
                    let text = format!("command {code:#x} is not known to this server of a log");
                    self.answer(&|out| server::put_err(out, 1047, "08S01", &text))?;
                }
            }
        }
    }

    fn dump(&mut self, start: Start, flags: u16, server_id: u32) -> Result<()> {
        let run = match Dump::new(self, flags, server_id) {
            Ok(dump) => dump.run(&start)?,
            Err(refusal) => Err(refusal),
        };
        match run {
            Ok(()) => Ok(()),
            Err(refusal) => self.answer(&|out| server::put_err(out, 1236, "HY000", &refusal)),
        }
    }

    fn query(&mut self, sql: &str) -> Result<()> {
        let replicas: Vec<u32> =
            self.shared.replicas.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let facts = self.shared.log.facts();
        let facts = Facts { listed: self.shared.options.hold.is_none(), ..facts };
        match answer(&facts, &mut self.variables, &replicas, sql) {
            Answer::Ok => self.answer_ok(),
            Answer::Rows(columns, rows) => {
                let capabilities = self.capabilities;
                self.wire.send_packets(|out, sequence| {
                    server::put_text_rows(out, sequence, &columns, &rows, capabilities);
                });
                self.flush()
            }
            Answer::Unknown => {
                let start: String = sql.chars().take(80).collect();
                let text = format!("this server of a log answers only what replicas ask; not: {start}");
                self.answer(&|out| server::put_err(out, 1235, "42000", &text))
            }
        }
    }

    /// Returns false if the client disconnected or was refused.
    fn log_in(&mut self) -> Result<bool> {
        let nonce = nonce()?;
        let greeting = Greeting {
            server_version: self.shared.log.facts().server_version,
            connection_id: self.number,
            capabilities: CAPABILITIES,
            collation: 255,
            auth_plugin: PLUGIN.into(),
            nonce: nonce.clone(),
        };
        self.answer(&|out| greeting.write(out))?;
        let Some(payload) = self.read()? else { return Ok(false) };
        let LoginRequest::Login(login) = LoginRequest::parse(&payload)? else {
            return Err(ServeError::Tls);
        };
        self.capabilities = login.capabilities & CAPABILITIES;
        let mut response = login.auth_response.to_vec();
        if !login.auth_plugin.is_empty() && login.auth_plugin != PLUGIN.as_bytes() {
            self.answer(&|out| server::put_auth_switch(out, PLUGIN, &nonce))?;
            let Some(payload) = self.read()? else { return Ok(false) };
            response = payload;
        }
        let known = match &self.shared.options.password {
            None => true,
            Some(password) if password.is_empty() => response.is_empty() || response == [0],
            Some(password) => response == scramble_sha256(password.as_bytes(), &nonce),
        };
        if !known {
            self.answer(&|out| server::put_err(out, 1045, "28000", "Access denied: not the password in MYSQL_PWD"))?;
            return Ok(false);
        }
        // A client without a password gets its OK at once.
        if response.len() > 1 {
            self.wire.send(server::put_fast_auth_ok);
        }
        self.answer_ok()?;
        Ok(true)
    }

    fn answer_ok(&mut self) -> Result<()> {
        let capabilities = self.capabilities;
        self.answer(&|out| server::put_ok(out, &ServerOk::default(), capabilities))
    }

    /// Sends one packet as an answer to the last one read.
    fn answer(&mut self, put: &dyn Fn(&mut Vec<u8>)) -> Result<()> {
        self.wire.send(put);
        self.flush()
    }

    /// Payload of the next packet; None if the client disconnected or the server must stop.
    fn read(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(range) = self.wire.receive()? {
                return Ok(Some(self.wire.payload(range).to_vec()));
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match self.stream.read(self.wire.spare()) {
                Ok(0) => return Ok(None),
                Ok(len) => self.wire.filled(len),
                Err(error) if is_wait(&error) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(ServeError::io("read from a client")(error)),
            }
        }
    }

    /// True if the client has disconnected; anything it sends in the meantime is ignored.
    pub(super) fn is_gone(&mut self) -> bool {
        let mut bytes = [0; 512];
        match self.stream.read(&mut bytes) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => !is_wait(&error),
        }
    }

    /// Writes all collected bytes, however long the client takes to read them.
    pub(super) fn flush(&mut self) -> Result<()> {
        let mut rest = self.wire.output();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(ServeError::io("write to a client")(ErrorKind::WriteZero.into())),
                Ok(len) => rest = rest.get(len..).unwrap_or_default(),
                Err(error) if is_wait(&error) => {
                    if self.shared.stop.load(Ordering::Relaxed) {
                        return Err(ServeError::Stopped);
                    }
                }
                Err(error) => return Err(ServeError::io("write to a client")(error)),
            }
        }
        self.wire.sent();
        Ok(())
    }
}

fn is_wait(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Random nonzero bytes: a zero byte terminates the nonce in the greeting.
fn nonce() -> Result<Vec<u8>> {
    let mut bytes = vec![0; NONCE_LEN];
    let mut read = || std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes);
    read().map_err(ServeError::io("read /dev/urandom"))?;
    // As in MySQL: seven bits, and neither zero nor a dollar sign.
    for byte in &mut bytes {
        *byte &= 0x7f;
        if matches!(*byte, 0 | b'$') {
            *byte += 1;
        }
    }
    Ok(bytes)
}
