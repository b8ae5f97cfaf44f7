//! A client's side: its socket, its login, packets both ways.

use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use accounts::{Accepted, Login, LoginRules, LoginStep, Peer, SessionStart, TlsPeer};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::{ServerConnection, StreamOwned};
use wire::packet::{self, PacketBuffer};
use wire::server::{NONCE_LEN, put_err};

use crate::server::Shared;
use crate::{Result, ShadowError};

/// Largest packet before the login, in bytes.
const LOGIN_BYTES_MAX: usize = 64 << 10;
/// Largest packet of a client that is logged in, in bytes: the largest that MySQL takes.
const PACKET_BYTES_MAX: usize = 1 << 30;
/// A login that takes longer is ended.
const LOGIN_WITHIN: Duration = Duration::from_secs(10);
/// An idle client is ended after this time, as MySQL's wait_timeout ends it.
const IDLE_FOR: Duration = Duration::from_secs(8 * 3600);

/// A socket, and bytes that were read from it before TLS began and belong to it.
#[derive(Debug)]
struct Early {
    bytes: Vec<u8>,
    socket: TcpStream,
}

impl Read for Early {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() {
            return self.socket.read(buf);
        }
        let len = self.bytes.as_slice().read(buf)?;
        self.bytes.drain(..len);
        Ok(len)
    }
}

impl Write for Early {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.socket.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

enum Transport {
    Plain(Early),
    Tls(Box<StreamOwned<ServerConnection, Early>>),
    None,
}

pub(crate) struct Client {
    transport: Transport,
    input: PacketBuffer,
    peer: Peer,
}

impl Client {
    pub(crate) fn new(socket: TcpStream) -> Result<Client> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(LOGIN_WITHIN))?;
        socket.set_write_timeout(Some(LOGIN_WITHIN))?;
        let peer = Peer::Tcp(socket.peer_addr()?.ip());
        let transport = Transport::Plain(Early { bytes: Vec::new(), socket });
        Ok(Client { transport, input: PacketBuffer::strict(LOGIN_BYTES_MAX), peer })
    }

    fn socket(&self) -> Option<&TcpStream> {
        match &self.transport {
            Transport::Plain(early) => Some(&early.socket),
            Transport::Tls(tls) => Some(&tls.sock.socket),
            Transport::None => None,
        }
    }

    fn tls_peer(&self) -> Option<TlsPeer> {
        matches!(self.transport, Transport::Tls(_)).then_some(TlsPeer { has_certificate: false })
    }

    /// The next packet's payload; None once the client has closed.
    pub(crate) fn read(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let taken = self.input.take().map_err(|error| ShadowError::Other(error.to_string()))?;
            if let Some(range) = taken {
                return Ok(Some(self.input.payload(range).to_vec()));
            }
            let spare = self.input.spare();
            let read = match &mut self.transport {
                Transport::Plain(early) => early.read(spare),
                Transport::Tls(tls) => tls.read(spare),
                Transport::None => Ok(0),
            };
            let len = match read {
                // Many clients go without a word, TLS's or theirs.
                Err(error) if matches!(error.kind(), UnexpectedEof | ConnectionReset) => 0,
                read => read?,
            };
            if len == 0 {
                return Ok(None);
            }
            self.input.filled(len);
        }
    }

    /// Sends these payloads as packets; the first one answers what was read last.
    pub(crate) fn send<'a>(&mut self, payloads: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
        let (mut out, mut sequence) = (Vec::new(), self.input.sequence());
        for payload in payloads {
            packet::write(&mut out, &mut sequence, payload);
        }
        self.input.expect_sequence(sequence);
        match &mut self.transport {
            Transport::Plain(early) => early.write_all(&out)?,
            Transport::Tls(tls) => {
                tls.write_all(&out)?;
                tls.flush()?;
            }
            Transport::None => {}
        }
        Ok(())
    }

    /// The next packet begins a command.
    pub(crate) fn next_command(&mut self) {
        self.input.expect_sequence(0);
    }

    pub(crate) fn refuse(&mut self, number: u16, sqlstate: &str, text: &str) -> Result<()> {
        let mut payload = Vec::new();
        put_err(&mut payload, number, sqlstate, text);
        self.send([payload.as_slice()])
    }

    /// Lets the client in; None if it may not, which it was told. The OK is still to be sent.
    pub(crate) fn log_in(&mut self, shared: &Shared, id: u32) -> Result<Option<Accepted>> {
        let mut login = self.login(shared)?;
        let greeting = login.greeting(&shared.version, id);
        // The greeting is the connection's first packet.
        self.input.expect_sequence(0);
        self.send([greeting.as_slice()])?;
        let Some(first) = self.read()? else { return Ok(None) };
        let tls = self.tls_peer();
        let step = login.packet(&first, tls.as_ref());
        let accepted = self.step_login(shared, &mut login, step)?;
        if accepted.is_some() {
            self.input.set_limit(PACKET_BYTES_MAX);
            if let Some(socket) = self.socket() {
                socket.set_read_timeout(Some(IDLE_FOR))?;
                socket.set_write_timeout(Some(IDLE_FOR))?;
            }
        }
        Ok(accepted)
    }

    /// COM_CHANGE_USER of a session.
    pub(crate) fn change_user(
        &mut self,
        shared: &Shared,
        payload: &[u8],
        start: &SessionStart,
    ) -> Result<Option<Accepted>> {
        let mut login = self.login(shared)?;
        let tls = self.tls_peer();
        let step = login.change_user(payload, start, tls.as_ref());
        self.step_login(shared, &mut login, step)
    }

    fn login(&self, shared: &Shared) -> Result<Login> {
        let rules = LoginRules {
            require_secure_transport: false,
            offers_tls: true,
            socket_admin: None,
            capabilities: shared.offered,
        };
        let mut nonce = [0; NONCE_LEN];
        let filled = SystemRandom::new().fill(&mut nonce);
        filled.map_err(|_| ShadowError::Other("the system gives no random bytes".into()))?;
        shared.guard.tick(Instant::now());
        Ok(Login::new(Arc::clone(&shared.accounts), Arc::clone(&shared.guard), self.peer, rules, nonce))
    }

    fn step_login(&mut self, shared: &Shared, login: &mut Login, mut step: LoginStep) -> Result<Option<Accepted>> {
        loop {
            step = match step {
                LoginStep::Accepted(accepted) => {
                    if let Some(payload) = &accepted.before_ok {
                        self.send([payload.as_slice()])?;
                    }
                    return Ok(Some(*accepted));
                }
                LoginStep::Refused(error) => {
                    self.refuse(error.number, error.sqlstate, &error.text)?;
                    return Ok(None);
                }
                LoginStep::Work(work) => login.worked(work.run()),
                LoginStep::Wait(span) => {
                    std::thread::sleep(span);
                    login.waited()
                }
                LoginStep::Send(payload) => {
                    self.send([payload.as_slice()])?;
                    let Some(next) = self.read()? else { return Ok(None) };
                    let tls = self.tls_peer();
                    login.packet(&next, tls.as_ref())
                }
                LoginStep::StartTls => {
                    self.start_tls(shared)?;
                    let Some(next) = self.read()? else { return Ok(None) };
                    let tls = self.tls_peer();
                    login.packet(&next, tls.as_ref())
                }
            };
        }
    }

    fn start_tls(&mut self, shared: &Shared) -> Result<()> {
        let early = self.input.take_pending();
        let connection =
            ServerConnection::new(shared.tls.config()).map_err(|error| ShadowError::Other(error.to_string()))?;
        if let Transport::Plain(mut plain) = std::mem::replace(&mut self.transport, Transport::None) {
            plain.bytes = early;
            self.transport = Transport::Tls(Box::new(StreamOwned::new(connection, plain)));
        }
        Ok(())
    }
}
