//! The login of a connection, and a change of its user.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use accounts::{Accepted, Login, LoginRules, LoginStep, SessionStart, TlsPeer};
use rustls::ServerConnection;
use sql::SqlError;
use tier::Forward;
use wire::compress::Algorithm;
use wire::handshake::capability;

use super::asked::Here;
use super::forward::Forwarding;
use super::{Connection, Deadline, Hold, Turn};
use crate::config::Note;
use crate::helper::Work;
use crate::server::Server;
use crate::source::AsOf;
use session::{After, Session};

/// Wrong passwords in a row from which on logins are delayed.
const DELAYED_FROM: u32 = 10;

impl Connection {
    pub(super) fn new_login(&self, server: &Server) -> Option<Login> {
        let rules = LoginRules {
            require_secure_transport: server.config.require_secure_transport,
            offers_tls: self.peer.ip().is_some(),
            socket_admin: server.socket_admin,
            capabilities: match server.config.forward {
                Forward::Off => CAPABILITIES,
                Forward::Reads | Forward::All => CAPABILITIES | capability::LOCAL_FILES,
            },
        };
        let nonce = server.nonce()?;
        server.guard.tick(Instant::now());
        Some(Login::new(Arc::clone(&server.accounts), Arc::clone(&server.guard), self.peer, rules, nonce))
    }

    pub(super) fn login_packet(&mut self, payload: &[u8], turn: &mut Turn<'_>) {
        let tls = self.tls_peer();
        let step = self.login.as_mut().map(|login| login.packet(payload, tls.as_ref()));
        self.login_step(step, turn);
    }

    fn tls_peer(&self) -> Option<TlsPeer> {
        self.transport.has_tls().then(|| TlsPeer { has_certificate: self.transport.has_certificate() })
    }

    pub(super) fn change_user(&mut self, payload: &[u8], turn: &mut Turn<'_>) {
        let Some(session) = &self.session else { return };
        let start = session.start().clone();
        let Some(mut login) = self.new_login(turn.server) else {
            self.hold = Hold::Close;
            return;
        };
        let step = login.change_user(payload, &start, self.tls_peer().as_ref());
        self.login = Some(Box::new(login));
        (self.why, self.deadline) = (Deadline::Login, turn.now + turn.server.config.connect_timeout);
        self.login_step(Some(step), turn);
    }

    pub(super) fn login_step(&mut self, step: Option<LoginStep>, turn: &mut Turn<'_>) {
        match step {
            None => self.hold = Hold::Close,
            Some(LoginStep::Send(payload)) => self.send(|out| out.extend_from_slice(&payload)),
            Some(LoginStep::StartTls) => self.start_tls(turn),
            Some(LoginStep::Work(work)) => self.submit(Work::Login(work), turn),
            Some(LoginStep::Wait(span)) => {
                self.hold = Hold::Until(turn.now + span);
                self.deadline = turn.now + span + turn.server.config.connect_timeout;
            }
            Some(LoginStep::Accepted(accepted)) => self.accepted(*accepted, turn),
            Some(LoginStep::Refused(error)) => {
                self.note_wrong_password(turn.server);
                self.refuse(&SqlError::new(error.number, error.sqlstate, error.text));
            }
        }
    }

    /// The tenth wrong password is logged, once.
    fn note_wrong_password(&self, server: &Server) {
        if self.login.as_ref().is_some_and(|login| login.wrong_passwords() == DELAYED_FROM) {
            server.facts.note(Note::LoginsDelayed { who: self.peer.host() });
        }
    }

    fn start_tls(&mut self, turn: &Turn<'_>) {
        let early = self.input.take_pending();
        match ServerConnection::new(turn.server.tls.config()) {
            Ok(tls) => self.transport.start_tls(Box::new(tls), early),
            Err(_) => self.hold = Hold::Close,
        }
    }

    fn accepted(&mut self, accepted: Accepted, turn: &mut Turn<'_>) {
        let Accepted { identity, mut start, before_ok } = accepted;
        let server = turn.server;
        self.login = None;
        let is_first = self.session.is_none();
        if is_first && !server.gate.admit(identity.rights.admin, server.config.max_connections) {
            return self.refuse(&SqlError::new(1040, "08004", "Too many connections"));
        }
        // As by MySQL, a session that changes its user counts under both for a moment.
        let account = identity.account.clone();
        let memory = match server.gate.account_enters(&account, identity.max_connections) {
            Ok(memory) => memory,
            Err(error) => {
                if is_first {
                    server.gate.leave();
                }
                return self.refuse(&error);
            }
        };
        if let Some(mut old) = self.session.take() {
            old.end(server);
            server.gate.account_leaves(&old.identity().account);
        }
        if let Some(payload) = before_ok {
            self.send(|out| out.extend_from_slice(&payload));
        }
        let algorithm = algorithm(&start);
        self.leave_source(&server.sources);
        let login = identity.source_login.clone().filter(|_| server.config.forward != Forward::Off);
        // Without it the session here would have no answer.
        let reads_here = identity.rights.read && login.is_some();
        self.forwarding = login.map(|login| {
            let forwarding = Forwarding::new(login, start.clone(), server.facts.source_version().as_deref());
            Box::new(forwarding)
        });
        // Of one that forwards, the source has it, or not.
        let schema = if self.forwarding.is_some() { start.schema.take() } else { None };
        match Session::begin(self.number(), identity, start, server) {
            Ok(mut session) => {
                session.set_encryption(self.transport.encryption());
                self.memory = memory.beside();
                self.output.count_by(memory.beside());
                session.count_by(memory);
                self.release();
                if let Some(forwarding) = self.forwarding.as_mut().filter(|_| reads_here) {
                    session.begin_forwarding(forwarding_of(server.config.forward), schema.as_deref(), server);
                    forwarding.here = Some(Here::new(&session));
                }
                session.welcome(&mut self.output);
                self.session = Some(Box::new(session));
                if self.compression.is_none() {
                    self.compresses_next = algorithm;
                }
            }
            Err(error) => {
                server.gate.account_leaves(&account);
                server.gate.leave();
                return self.refuse(&error);
            }
        }
        self.input.set_limit(server.config.max_allowed_packet);
        self.after(After::Next);
        self.set_deadline(Deadline::Idle, turn.now);
    }

    /// What the session may read here is what its user may read at the source, as far as that is known.
    pub(super) fn renew_grants(&mut self, turn: &Turn<'_>) {
        let (Some(forwarding), Some(session)) = (&self.forwarding, &mut self.session) else { return };
        // Nothing is read here by one that is not asked.
        if forwarding.here.is_none() {
            return;
        }
        let facts = &turn.server.facts;
        let as_of = facts.source_number().zip(facts.account_statements()).map(|(number, statements)| AsOf {
            number,
            statements,
            engine: turn.server.given_up.load(SeqCst),
        });
        let grants = as_of.and_then(|as_of| turn.server.sources.grants(forwarding.login(), as_of, turn.now));
        session.set_source_grants(grants);
    }
}

/// What is offered to clients, besides what a login needs.
const CAPABILITIES: u32 = capability::OF_SESSIONS | capability::COMPRESS | capability::ZSTD_COMPRESSION_ALGORITHM;

/// What of a session's commands may be answered by the source.
fn forwarding_of(forward: Forward) -> session::Forwarding {
    match forward {
        Forward::Off => session::Forwarding::Off,
        Forward::Reads => session::Forwarding::Reads,
        Forward::All => session::Forwarding::All,
    }
}

/// zlib where a client offers both, as MySQL chooses.
fn algorithm(start: &SessionStart) -> Option<Algorithm> {
    if start.capabilities & capability::COMPRESS != 0 {
        return Some(Algorithm::Zlib);
    }
    let zstd = start.capabilities & capability::ZSTD_COMPRESSION_ALGORITHM != 0;
    zstd.then(|| Algorithm::Zstd(start.zstd_level.map_or(3, i32::from)))
}
