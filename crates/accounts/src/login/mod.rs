//! The login of one connection, stepped with the client's packets.
//!
//! In: payloads, the result of slow hashing, the end of a delay. Out: the next thing to do. Never here: a different
//! packet, or other work, for an unknown name than for a wrong password.

mod full;
mod session;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use wire::auth::Secret;
use wire::handshake::{Greeting, capability};
use wire::server::{self, ChangeUser, ClientLogin, LoginRequest, NONCE_LEN};
use zeroize::Zeroizing;

use crate::accounts::{Accounts, Candidate, Identity, Peer};
use crate::guard::LoginGuard;
use crate::password::{self, PASSWORD_BYTES_MAX, PasswordPlugin, SHA256_LEN};
use crate::reads::Reads;
use crate::refusal::ServerError;
use crate::rights::{Rights, Transport};
use crate::source_login::SourceLogin;

pub use full::{FullLogin, FullLoginResult};
pub use session::SessionStart;

/// Longest user name in characters, MySQL's limit.
pub const USER_CHARS_MAX: usize = 32;
/// Longest answer of a plugin that we know, and a byte: longer ones are wrong whatever they hold.
const ANSWER_BYTES_MAX: usize = SHA256_LEN + 1;
/// The name under which the owner of the process logs in over the socket.
const SOCKET_ADMIN: &str = "admin";
/// Collation of the greeting: utf8mb4_0900_ai_ci.
const COLLATION: u8 = 255;
/// Capabilities that a login needs, offered whatever else is.
const NEEDED: u32 = capability::PROTOCOL_41
    | capability::SECURE_CONNECTION
    | capability::PLUGIN_AUTH
    | capability::PLUGIN_AUTH_LENENC_CLIENT_DATA
    | capability::CONNECT_WITH_DB
    | capability::CONNECT_ATTRS;
/// A client's request for an RSA key to encrypt the password with. There is none: what would decrypt it in constant
/// time does not exist here.
const KEY_REQUEST: [u8; 1] = [2];
/// What to do where the password itself may not be sent.
const NEEDS_FULL_LOGIN: &str = "; without TLS only a password that this server has seen can be checked: log \
                                in once with TLS (--ssl-mode=REQUIRED) or over the unix socket";

/// What the server demands of logins, and offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginRules {
    /// Whether TCP connections must have TLS (`require_secure_transport`).
    pub require_secure_transport: bool,
    /// Whether TLS can be had on this connection.
    pub offers_tls: bool,
    /// The user id that needs no password over the socket under the name `admin`; None: nobody.
    pub socket_admin: Option<u32>,
    /// Capabilities that the server offers; those of the login and `SSL` are added.
    pub capabilities: u32,
}

/// What TLS knows of a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TlsPeer {
    /// True if the client gave a certificate, which [`ServerTls`](crate::ServerTls)'s configuration has verified.
    pub has_certificate: bool,
}

/// What to do next in a login.
#[derive(Debug)]
pub enum LoginStep {
    /// Send this payload; the client's next packet goes to [`Login::packet`].
    Send(Vec<u8>),
    /// Begin TLS; the client's next packet comes inside it and goes to [`Login::packet`]. Bytes that came together with
    /// the request belong to TLS already.
    StartTls,
    /// Run this where milliseconds of work hold up nobody, and give the result to [`Login::worked`].
    Work(FullLogin),
    /// Hold everything back for this long, then call [`Login::waited`]. Bytes that the client sends meanwhile stay
    /// unread.
    Wait(Duration),
    /// The client is in: send [`Accepted::before_ok`] if there is one, then OK.
    Accepted(Box<Accepted>),
    /// Send this error and close the connection.
    Refused(ServerError),
}

/// A login that succeeded.
#[derive(Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Who it is.
    pub identity: Identity,
    /// What the client asked for its session.
    pub start: SessionStart,
    /// Payload of a packet to send before OK.
    pub before_ok: Option<Vec<u8>>,
}

/// The login of one connection.
///
/// A login that is dropped while the password is asked for or checked counts as a wrong password.
#[derive(Debug)]
pub struct Login {
    accounts: Arc<Accounts>,
    guard: Arc<LoginGuard>,
    peer: Peer,
    rules: LoginRules,
    nonce: [u8; NONCE_LEN],
    state: State,
    wrong_passwords: u32,
}

#[derive(Debug)]
enum State {
    /// Greeting sent.
    Greeted,
    /// TLS asked for and begun.
    InTls,
    /// Held back because of wrong passwords.
    Delayed(Box<Attempt>),
    /// Another plugin asked for.
    Switched(Box<Attempt>),
    /// The password itself asked for.
    Asked(Box<Attempt>),
    /// The password is being checked.
    Working(Box<Attempt>),
    /// Accepted or refused.
    Ended,
}

/// A login with a name.
#[derive(Debug)]
struct Attempt {
    user: String,
    start: SessionStart,
    /// Answer to the nonce; empty without a password.
    answer: Vec<u8>,
    /// The plugin that made the answer; None for one that we do not know.
    plugin: Option<PasswordPlugin>,
    transport: Transport,
    candidate: Candidate,
}

impl Login {
    /// The login of a new connection. `nonce` must be fresh random bytes.
    #[must_use]
    pub fn new(
        accounts: Arc<Accounts>,
        guard: Arc<LoginGuard>,
        peer: Peer,
        rules: LoginRules,
        nonce: [u8; NONCE_LEN],
    ) -> Login {
        let nonce = nonce.map(nonce_character);
        Login { accounts, guard, peer, rules, nonce, state: State::Greeted, wrong_passwords: 0 }
    }

    /// Payload of the first packet of a connection.
    #[must_use]
    pub fn greeting(&self, server_version: &str, connection_id: u32) -> Vec<u8> {
        let greeting = Greeting {
            server_version: server_version.to_owned(),
            connection_id,
            capabilities: self.offered(),
            collation: COLLATION,
            auth_plugin: PasswordPlugin::CachingSha2.name().to_owned(),
            nonce: self.nonce.to_vec(),
        };
        let mut out = Vec::new();
        greeting.write(&mut out);
        out
    }

    /// Wrong passwords for this name from this address since the last right one, with this login; 0 as long as it has
    /// not ended with one.
    #[must_use]
    pub fn wrong_passwords(&self) -> u32 {
        self.wrong_passwords
    }

    /// Handles the client's next packet; `tls` if it came inside TLS.
    pub fn packet(&mut self, payload: &[u8], tls: Option<&TlsPeer>) -> LoginStep {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Greeted => self.first_packet(payload, tls),
            State::InTls if tls.is_some() => self.first_packet(payload, tls),
            State::Switched(mut attempt) => {
                attempt.set_answer(payload);
                attempt.plugin = Some(attempt.candidate.stored.plugin());
                self.check_answer(attempt)
            }
            State::Asked(attempt) => self.take_password(attempt, payload),
            _ => LoginStep::Refused(ServerError::bad_handshake()),
        }
    }

    /// Handles COM_CHANGE_USER of a session that `session` began, instead of a first packet. The client is always asked
    /// to answer this login's nonce.
    pub fn change_user(&mut self, payload: &[u8], session: &SessionStart, tls: Option<&TlsPeer>) -> LoginStep {
        self.state = State::Ended;
        let Ok(change) = ChangeUser::parse(payload, session.capabilities) else {
            return LoginStep::Refused(ServerError::unknown_command());
        };
        let Some(start) = SessionStart::of_change(&change, session) else {
            return LoginStep::Refused(ServerError::unknown_command());
        };
        self.begin(Box::new(Attempt {
            user: lossy(change.user),
            start,
            answer: Vec::new(),
            plugin: None,
            transport: self.transport(tls),
            candidate: self.accounts.candidate(&lossy(change.user), &self.peer),
        }))
    }

    /// Continues after [`LoginStep::Wait`].
    pub fn waited(&mut self) -> LoginStep {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Delayed(attempt) => self.choose_plugin(attempt),
            _ => LoginStep::Refused(ServerError::bad_handshake()),
        }
    }

    /// Continues after [`LoginStep::Work`].
    pub fn worked(&mut self, result: FullLoginResult) -> LoginStep {
        let State::Working(attempt) = std::mem::replace(&mut self.state, State::Ended) else {
            return LoginStep::Refused(ServerError::bad_handshake());
        };
        match &attempt.candidate.entry {
            Some(_) if result.is_right => self.accept(&attempt, None, result.secret),
            _ => self.deny(&attempt, ""),
        }
    }

    fn offered(&self) -> u32 {
        let tls = if self.rules.offers_tls { capability::SSL } else { 0 };
        self.rules.capabilities & !capability::SSL | NEEDED | tls
    }

    fn transport(&self, tls: Option<&TlsPeer>) -> Transport {
        Transport {
            is_secure: tls.is_some() || self.peer.ip().is_none(),
            has_certificate: tls.is_some_and(|tls| tls.has_certificate),
        }
    }

    fn first_packet(&mut self, payload: &[u8], tls: Option<&TlsPeer>) -> LoginStep {
        match LoginRequest::parse(payload) {
            Ok(LoginRequest::WantsTls(_)) if self.rules.offers_tls && tls.is_none() => {
                self.state = State::InTls;
                LoginStep::StartTls
            }
            Ok(LoginRequest::Login(login)) => match self.attempt(&login, tls) {
                Some(attempt) => self.begin(attempt),
                None => LoginStep::Refused(ServerError::bad_handshake()),
            },
            _ => LoginStep::Refused(ServerError::bad_handshake()),
        }
    }

    /// None if the packet names a schema that cannot be one.
    fn attempt(&self, login: &ClientLogin<'_>, tls: Option<&TlsPeer>) -> Option<Box<Attempt>> {
        let user = lossy(login.user);
        let mut attempt = Attempt {
            start: SessionStart::of_login(login, self.offered())?,
            answer: Vec::new(),
            plugin: claimed_plugin(login),
            transport: self.transport(tls),
            candidate: self.accounts.candidate(&user, &self.peer),
            user,
        };
        attempt.set_answer(login.auth_response);
        Some(Box::new(attempt))
    }

    fn begin(&mut self, attempt: Box<Attempt>) -> LoginStep {
        if self.is_socket_admin(&attempt.user) {
            return self.accept_socket_admin(&attempt);
        }
        if self.rules.require_secure_transport && !attempt.transport.is_secure {
            return LoginStep::Refused(ServerError::insecure_transport());
        }
        match self.guard.delay(&attempt.user, &self.peer) {
            Duration::ZERO => self.choose_plugin(attempt),
            delay => {
                self.state = State::Delayed(attempt);
                LoginStep::Wait(delay)
            }
        }
    }

    /// Asks for the account's plugin, unless the answer came from it.
    fn choose_plugin(&mut self, attempt: Box<Attempt>) -> LoginStep {
        let plugin = attempt.candidate.stored.plugin();
        if attempt.plugin == Some(plugin) {
            return self.check_answer(attempt);
        }
        if attempt.start.capabilities & capability::PLUGIN_AUTH == 0 {
            return LoginStep::Refused(ServerError::old_client());
        }
        let mut out = Vec::new();
        server::put_auth_switch(&mut out, plugin.name(), &self.nonce);
        self.state = State::Switched(attempt);
        LoginStep::Send(out)
    }

    fn check_answer(&mut self, attempt: Box<Attempt>) -> LoginStep {
        if !attempt.has_password() {
            return self.deny(&attempt, "");
        }
        match attempt.candidate.stored.plugin() {
            PasswordPlugin::Native => self.check_native(&attempt),
            PasswordPlugin::CachingSha2 => self.check_fast(attempt),
        }
    }

    fn check_native(&mut self, attempt: &Attempt) -> LoginStep {
        let is_right = attempt.candidate.stored.native_answer_is_right(&attempt.answer, &self.nonce);
        if is_right && attempt.is_allowed() { self.accept(attempt, None, None) } else { self.deny(attempt, "") }
    }

    fn check_fast(&mut self, attempt: Box<Attempt>) -> LoginStep {
        let fast = attempt.candidate.entry.as_ref().and_then(|entry| entry.fast.get());
        let proved = password::proved_by_fast_answer(&attempt.answer, &self.nonce, fast.as_ref());
        if let Some(once) = proved.map(Zeroizing::new)
            && attempt.is_allowed()
        {
            let mut before_ok = Vec::new();
            server::put_fast_auth_ok(&mut before_ok);
            let secret = attempt.forwards_as_client().then(|| Secret::of_hash(&once));
            return self.accept(&attempt, Some(before_ok), secret);
        }
        if !attempt.transport.is_secure && !attempt.candidate.was_seen {
            // Nothing was checked: an agent's right password must not lock its account.
            return LoginStep::Refused(self.denied(&attempt, NEEDS_FULL_LOGIN));
        }
        if attempt.answer == KEY_REQUEST || !attempt.transport.is_secure {
            return self.deny(&attempt, NEEDS_FULL_LOGIN);
        }
        let mut out = Vec::new();
        server::put_full_auth_request(&mut out);
        self.state = State::Asked(attempt);
        LoginStep::Send(out)
    }

    fn take_password(&mut self, mut attempt: Box<Attempt>, payload: &[u8]) -> LoginStep {
        if payload == KEY_REQUEST {
            return self.deny(&attempt, NEEDS_FULL_LOGIN);
        }
        let password = payload.strip_suffix(&[0]).unwrap_or(payload);
        match password.len() {
            0 => {
                attempt.answer.clear();
                self.deny(&attempt, "")
            }
            1..=PASSWORD_BYTES_MAX => {
                let (accounts, entry) = (Arc::clone(&self.accounts), attempt.candidate.entry.clone());
                let proves = move |fast| entry.iter().for_each(|entry| accounts.proves(entry, fast));
                let keeps = attempt.forwards_as_client();
                let work = FullLogin::new(password, &attempt.candidate.stored, Box::new(proves), keeps);
                self.state = State::Working(attempt);
                LoginStep::Work(work)
            }
            _ => self.deny(&attempt, ""),
        }
    }

    fn is_socket_admin(&self, user: &str) -> bool {
        match self.peer {
            Peer::Socket { uid } => user == SOCKET_ADMIN && self.rules.socket_admin == Some(uid),
            Peer::Tcp(_) => false,
        }
    }

    fn accept_socket_admin(&self, attempt: &Attempt) -> LoginStep {
        let identity = Identity {
            account: format!("{SOCKET_ADMIN}@localhost"),
            user: SOCKET_ADMIN.to_owned(),
            peer_host: self.peer.host(),
            rights: Rights::ALL,
            schemas: None,
            reads: Reads::default(),
            max_connections: None,
            source_login: None,
            transport: attempt.transport,
            password: None,
        };
        LoginStep::Accepted(Box::new(Accepted {
            identity,
            start: attempt.start.clone(),
            // Its client waits for the answer of a plugin, if it has sent a password.
            before_ok: (attempt.plugin == Some(PasswordPlugin::CachingSha2) && attempt.has_password()).then(|| {
                let mut out = Vec::new();
                server::put_fast_auth_ok(&mut out);
                out
            }),
        }))
    }

    /// `secret`: what the login has proved of a password with which the account logs in at the source.
    fn accept(
        &mut self,
        attempt: &Attempt,
        before_ok: Option<Vec<u8>>,
        secret: Option<io::Result<Secret>>,
    ) -> LoginStep {
        let Some(mut identity) = self.identity(attempt) else { return self.deny(attempt, "") };
        self.guard.succeeded(&attempt.user, &self.peer);
        match secret.transpose() {
            Ok(secret) => {
                let login = secret.zip(identity.password).map(|(secret, number)| {
                    let accounts = Arc::clone(&self.accounts);
                    SourceLogin::of_client(&attempt.user, secret, move || accounts.forget(number))
                });
                identity.source_login = identity.source_login.or(login.map(Arc::new));
            }
            Err(error) => return LoginStep::Refused(ServerError::no_locked_memory(&error)),
        }
        LoginStep::Accepted(Box::new(Accepted { identity, start: attempt.start.clone(), before_ok }))
    }

    /// None if the account does not allow this connection, or was changed since the login began.
    fn identity(&self, attempt: &Attempt) -> Option<Identity> {
        let entry = attempt.candidate.entry.as_deref()?;
        let identity = entry.identity(&attempt.user, &self.peer, attempt.transport);
        self.accounts.still_valid(&identity).then_some(identity)
    }

    fn deny(&mut self, attempt: &Attempt, advice: &str) -> LoginStep {
        self.wrong_passwords = self.guard.failed(&attempt.user, &self.peer);
        LoginStep::Refused(self.denied(attempt, advice))
    }

    fn denied(&self, attempt: &Attempt, advice: &str) -> ServerError {
        let shown: String = attempt.user.chars().take(USER_CHARS_MAX).collect();
        ServerError::access_denied(&shown, &self.peer.host(), attempt.has_password(), advice)
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        // The answer to the nonce was wrong, and that was to be seen: a guess.
        if let State::Asked(attempt) | State::Working(attempt) = &self.state {
            self.guard.failed(&attempt.user, &self.peer);
        }
    }
}

impl Attempt {
    /// Keeps what is needed of an answer; clients mark an empty password by nothing or by one NUL.
    fn set_answer(&mut self, answer: &[u8]) {
        let answer = if answer == [0] { &[] } else { answer };
        self.answer = answer.iter().copied().take(ANSWER_BYTES_MAX).collect();
    }

    fn has_password(&self) -> bool {
        !self.answer.is_empty()
    }

    /// Whether the account's statements log in at the source with the password that is proved here.
    fn forwards_as_client(&self) -> bool {
        self.candidate.entry.as_ref().is_some_and(|entry| entry.kept.account.forwards_as_client())
    }

    /// Whether the account allows this connection.
    fn is_allowed(&self) -> bool {
        let account = self.candidate.entry.as_ref().map(|entry| &entry.kept.account);
        account.is_some_and(|account| account.requirement.is_met(self.transport))
    }
}

/// The plugin that made the answer in a login packet.
fn claimed_plugin(login: &ClientLogin<'_>) -> Option<PasswordPlugin> {
    if login.capabilities & capability::PLUGIN_AUTH == 0 {
        return Some(PasswordPlugin::Native);
    }
    PasswordPlugin::from_name(std::str::from_utf8(login.auth_plugin).ok()?)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Some clients read the nonce as text: seven bits, no NUL, and no `$`, which MySQL's never has either.
fn nonce_character(byte: u8) -> u8 {
    match byte & 0x7f {
        0 => 1,
        b'$' => b'%',
        character => character,
    }
}
