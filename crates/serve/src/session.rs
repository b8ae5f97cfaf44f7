//! One connection: its login and its commands.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base::GtidSet;
use wire::auth::scramble_sha256;
use wire::handshake::{Greeting, capability};
use wire::packet::{self, PacketBuffer};
use wire::server::{self, ClientCommand, LoginRequest, NONCE_LEN, ServerOk};

use crate::Shared;
use crate::dump::{Dump, Start};
use crate::questions::{Answer, Variables, answer};

/// What this server can do; all else is not offered.
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
/// The largest command: a GTID set of many gaps.
const COMMAND_BYTES_MAX: usize = 64 << 20;
/// How long one read or write may block before we look at `stop`.
pub(super) const BLOCK: Duration = Duration::from_millis(100);

/// A connection.
pub(super) struct Session<'a> {
    pub shared: &'a Shared<'a>,
    pub stream: TcpStream,
    pub number: u32,
    input: PacketBuffer,
    /// What the client and we can do.
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
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(BLOCK))?;
        stream.set_write_timeout(Some(BLOCK))?;
        let input = PacketBuffer::strict(COMMAND_BYTES_MAX);
        Ok(Session { shared, stream, number, input, capabilities: 0, variables: Variables::new(), replica: None })
    }

    /// Login, then commands until the client leaves.
    pub(super) fn serve(&mut self) -> Result<()> {
        if !self.log_in()? {
            return Ok(());
        }
        loop {
            self.input.expect_sequence(0);
            let Some(payload) = self.read()? else { return Ok(()) };
            match ClientCommand::parse(&payload, self.capabilities)? {
                ClientCommand::Quit => return Ok(()),
                ClientCommand::Ping | ClientCommand::InitDb(_) => self.answer_ok()?,
                ClientCommand::Query(query) => self.query(&String::from_utf8_lossy(query.sql))?,
                ClientCommand::Register { server_id } => {
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
                    let set = GtidSet::decode(gtid_set).context("the replica's GTID set")?;
                    return self.dump(Start::Behind(set), flags, server_id);
                }
                _ => {
                    let code = payload.first().copied().unwrap_or_default();
                    let text = format!("command {code:#x} is not known to lab source");
                    self.answer(&|out| server::put_err(out, 1047, "08S01", &text))?;
                }
            }
        }
    }

    fn dump(&mut self, start: Start, flags: u16, server_id: u32) -> Result<()> {
        let sequence = self.input.sequence();
        match Dump::new(self, flags, server_id, sequence).run(&start)? {
            Ok(()) => Ok(()),
            Err(refusal) => self.answer(&|out| server::put_err(out, 1236, "HY000", &refusal)),
        }
    }

    fn query(&mut self, sql: &str) -> Result<()> {
        let replicas: Vec<u32> =
            self.shared.replicas.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        match answer(self.shared.log, &mut self.variables, &replicas, sql) {
            Answer::Ok => self.answer_ok(),
            Answer::Rows(columns, rows) => {
                let (mut out, mut sequence) = (Vec::new(), self.input.sequence());
                server::put_text_rows(&mut out, &mut sequence, &columns, &rows, self.capabilities);
                self.write(&out)
            }
            Answer::Unknown => {
                let start: String = sql.chars().take(80).collect();
                let text = format!("lab source answers only what replicas ask; not: {start}");
                self.answer(&|out| server::put_err(out, 1235, "42000", &text))
            }
        }
    }

    /// False when the client left or was refused.
    fn log_in(&mut self) -> Result<bool> {
        let nonce = nonce()?;
        let greeting = Greeting {
            server_version: self.shared.log.server_version.clone(),
            connection_id: self.number,
            capabilities: CAPABILITIES,
            collation: 255,
            auth_plugin: PLUGIN.into(),
            nonce: nonce.clone(),
        };
        let (mut out, mut sequence) = (Vec::new(), 0);
        let at = packet::start(&mut out);
        greeting.write(&mut out);
        packet::finish(&mut out, at, &mut sequence);
        self.write(&out)?;
        self.input.expect_sequence(1);
        let Some(payload) = self.read()? else { return Ok(false) };
        let LoginRequest::Login(login) = LoginRequest::parse(&payload)? else {
            bail!("the client wants TLS, which was not offered")
        };
        self.capabilities = login.capabilities & CAPABILITIES;
        let mut response = login.auth_response.to_vec();
        if !login.auth_plugin.is_empty() && login.auth_plugin != PLUGIN.as_bytes() {
            self.answer(&|out| server::put_auth_switch(out, PLUGIN, &nonce))?;
            self.input.expect_sequence(self.input.sequence().wrapping_add(1));
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
        let (mut out, mut sequence) = (Vec::new(), self.input.sequence());
        // A client without a password gets its OK at once.
        if response.len() > 1 {
            let at = packet::start(&mut out);
            server::put_fast_auth_ok(&mut out);
            packet::finish(&mut out, at, &mut sequence);
        }
        let at = packet::start(&mut out);
        server::put_ok(&mut out, &ServerOk::default(), self.capabilities);
        packet::finish(&mut out, at, &mut sequence);
        self.write(&out)?;
        Ok(true)
    }

    fn answer_ok(&mut self) -> Result<()> {
        let capabilities = self.capabilities;
        self.answer(&|out| server::put_ok(out, &ServerOk::default(), capabilities))
    }

    /// One packet in answer to the last one read.
    fn answer(&mut self, put: &dyn Fn(&mut Vec<u8>)) -> Result<()> {
        let (mut out, mut sequence) = (Vec::new(), self.input.sequence());
        let at = packet::start(&mut out);
        put(&mut out);
        packet::finish(&mut out, at, &mut sequence);
        self.write(&out)
    }

    /// The next packet's payload; None when the client is gone or we are to stop.
    fn read(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(range) = self.input.take()? {
                return Ok(Some(self.input.payload(range).to_vec()));
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match self.stream.read(self.input.spare()) {
                Ok(0) => return Ok(None),
                Ok(len) => self.input.filled(len),
                Err(error) if is_wait(&error) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error).context("reading from a client"),
            }
        }
    }

    /// Whether the client is gone; what it says meanwhile is of no interest.
    pub(super) fn is_gone(&mut self) -> bool {
        let mut bytes = [0; 512];
        match self.stream.read(&mut bytes) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => !is_wait(&error),
        }
    }

    /// Writes all of it, however long the client takes to read.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => bail!("the connection is closed"),
                Ok(len) => bytes = bytes.get(len..).unwrap_or_default(),
                Err(error) if is_wait(&error) => {
                    ensure!(!self.shared.stop.load(Ordering::Relaxed), "stopped");
                }
                Err(error) => return Err(error).context("writing to a client"),
            }
        }
        Ok(())
    }
}

fn is_wait(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Random bytes, none of them zero: the greeting ends the nonce with one.
fn nonce() -> Result<Vec<u8>> {
    let mut bytes = vec![0; NONCE_LEN];
    let mut random = std::fs::File::open("/dev/urandom").context("/dev/urandom")?;
    random.read_exact(&mut bytes).context("/dev/urandom")?;
    // As MySQL does it: seven bits, and neither zero nor a dollar sign.
    for byte in &mut bytes {
        *byte &= 0x7f;
        if matches!(*byte, 0 | b'$') {
            *byte += 1;
        }
    }
    Ok(bytes)
}
