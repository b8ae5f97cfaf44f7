//! A connection to the source for a session: a new one, or one that was idle and is logged in again.
//!
//! In: whose it is to be, what its session had before. Out: a link that is logged in at the followed source and stands
//! where the session stood, or the reason against it. Never here: a statement of a client; a link to another server
//! than the followed one.

use std::sync::LazyLock;
use std::time::Duration;

use accounts::{SessionStart, SourceLogin};
use client::{ClientError, ConnectOptions, Connection, NonBlocking, OnBehalf, SslMode};
use sql::{Mark, OwnValues, SqlError, marked};
use tier::Forward;
use wire::WireError;
use wire::command;
use wire::handshake::capability;
use wire::read::Reader;
use wire::response::{ErrPacket, ends_rows, is_err};

use super::pool::{Idle, Key, Permit};
use crate::config::{Facts, Followed};

/// Time to wait for a thread, to connect and log in, and for each answer until the link is a session's.
pub(super) const OPEN_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection stays open that nobody has, at most. Web servers open the next session within that.
const IDLE_FOR: Duration = Duration::from_secs(30);
/// Largest collation number that a login can name.
const LOGIN_COLLATION_MAX: u16 = 255;
/// utf8mb4_0900_ai_ci.
const DEFAULT_COLLATION: u8 = 255;
/// Statement that has the source say whether a session has changed.
const TRACK_STATE: &str = "SET session_track_state_change = ON";
const READ_ONLY: &str = "SET SESSION TRANSACTION READ ONLY";
/// Whatever the source's default: how the texts of a session that must not write are read is to be known.
const TRACK_CHARACTER_SETS: &str = "SET SESSION session_track_system_variables = \
    'time_zone,autocommit,character_set_client,character_set_results,character_set_connection'";
/// Variables whose values a session keeps when it gets another connection.
static KEPT: LazyLock<Vec<&str>> = LazyLock::new(|| marked(Mark::Kept).collect());
/// Leaves no rows to FOUND_ROWS().
const NO_RESULT: &str = "SELECT 1 LIMIT 0";
/// Errors with which the source refuses a login, whatever the connection: a new one meets the same.
pub(super) const REFUSED: [u16; 4] = [1045, 1862, 3118, 3955];
/// Errors of too many connections, of all or of the user.
const TOO_MANY: [u16; 3] = [1040, 1203, 1226];

/// Whose connection is to be opened, and what its session had.
pub(super) struct Wanted<'a> {
    pub(super) login: &'a SourceLogin,
    /// What the client's login asked for, with the schema of now.
    pub(super) start: &'a SessionStart,
    /// The session was reset: its character sets are not those of its login.
    pub(super) was_reset: bool,
    /// What it has of [`KEPT`], if it had a connection before.
    pub(super) values: Option<Values>,
    pub(super) forward: Forward,
}

/// A connection to the source that a session may use.
pub(crate) struct Opened {
    pub(crate) stream: NonBlocking,
    pub(crate) permit: Permit,
    /// The number of its source.
    pub(crate) number: u64,
    /// The source itself is set to say that a session has changed.
    pub(crate) shows_state: bool,
    /// What the session has of [`KEPT`].
    pub(crate) values: Values,
    pub(crate) reuse: Reuse,
}

/// Who may have a connection after its session.
#[derive(Debug, Clone)]
pub(crate) struct Reuse {
    /// None: nobody. The source does something at each login that a new one on an open connection leaves out.
    pub(crate) key: Option<Key>,
    /// How long it may be idle.
    pub(crate) idle_for: Duration,
}

/// Values of the variables of [`KEPT`].
pub(crate) type Values = Vec<Vec<u8>>;

/// Why a connection was not opened.
pub(crate) struct NotOpened {
    pub(crate) error: SqlError,
    /// The source has refused the login.
    pub(crate) is_refusal: bool,
}

impl NotOpened {
    pub(super) fn of(error: SqlError) -> NotOpened {
        NotOpened { error, is_refusal: false }
    }
}

/// The source that is followed, as errors name it.
struct Source {
    server_uuid: String,
    number: u64,
    place: String,
    /// It may be given the password of a client.
    is_trusted: bool,
}

impl Source {
    /// Why a login failed.
    fn failed(&self, error: ClientError, login: &SourceLogin) -> NotOpened {
        let (place, user) = (&self.place, login.user());
        let unable =
            |why: String| SqlError::new(1429, "HY000", format!("Unable to connect to the source {place}: {why}"));
        match error {
            ClientError::Server { code, sqlstate, message } => {
                if REFUSED.contains(&code) {
                    login.forget();
                }
                let error = SqlError::new(code, known_sqlstate(&sqlstate), message);
                NotOpened { error, is_refusal: true }
            }
            ClientError::Wire(WireError::NoPassword { .. } | WireError::InsecureTransport { .. })
                if login.secret().is_some() =>
            {
                let what = if self.is_trusted {
                    // The next login here has the client send it.
                    login.forget();
                    "which this login here has not told: log in again, over TLS or the unix socket"
                } else {
                    "which goes only to a server whose certificate is verified (--ssl-mode=VERIFY_CA or \
                     VERIFY_IDENTITY) or over its unix socket: log in there once"
                };
                let text =
                    format!("it asks for the password of '{user}', {what}; or give the account a --source-login");
                NotOpened { error: unable(text), is_refusal: true }
            }
            error => NotOpened::of(unable(error.to_string())),
        }
    }
}

/// The receiver's way to the source, with another login.
pub(super) fn options(login: &SourceLogin, source: ConnectOptions) -> ConnectOptions {
    ConnectOptions {
        user: login.user().to_owned(),
        password: login.password().map(str::to_owned),
        secret: login.secret().cloned(),
        connect_timeout: OPEN_WITHIN,
        read_timeout: Some(OPEN_WITHIN),
        database: None,
        init_command: None,
        ..source
    }
}

pub(super) fn open(wanted: Wanted<'_>, mut permit: Permit, facts: &dyn Facts) -> Result<Opened, NotOpened> {
    let Followed { options: way, server_uuid, number } = facts.followed().map_err(NotOpened::of)?;
    let place = way.to_string();
    let place = place.rsplit_once('@').map_or(place.as_str(), |(_, place)| place).to_owned();
    let is_verified = matches!(way.ssl_mode, SslMode::VerifyCa | SslMode::VerifyIdentity);
    let source = Source { server_uuid, number, place, is_trusted: is_verified || way.socket.is_some() };
    let Wanted { login, start, .. } = &wanted;
    let capabilities = start.capabilities | capability::SESSION_TRACK;
    let collation = u8::try_from(start.collation).unwrap_or(DEFAULT_COLLATION);
    let options = ConnectOptions {
        database: start.schema.clone(),
        multi_statements: capabilities & capability::MULTI_STATEMENTS != 0,
        on_behalf: Some(OnBehalf { capabilities, collation }),
        ..options(login, way)
    };
    let key = Key { user: login.user().to_owned(), capabilities, number };
    if let Some(idle) = permit.take_idle() {
        match log_in_again(idle, &key, &options) {
            Err(error) if error.server_code().is_some_and(|code| REFUSED.contains(&code)) => {
                return Err(source.failed(error, login));
            }
            // Whatever else is wrong with it: a new one shows whether there is more to it.
            Err(_) => {}
            Ok(connection) => {
                if let Ok((begun, reuse)) = begin(connection, &wanted, &source)
                    && reuse.key.is_some()
                {
                    return Ok(opened(begun, reuse, permit, number));
                }
            }
        }
    }
    let connection = connect(&options, &permit).map_err(|error| source.failed(error, login))?;
    begin(connection, &wanted, &source).map(|(begun, reuse)| opened(begun, reuse, permit, number))
}

/// A session that stands where its client's stood.
struct Begun {
    stream: NonBlocking,
    shows_state: bool,
    values: Values,
}

fn opened(begun: Begun, reuse: Reuse, permit: Permit, number: u64) -> Opened {
    let Begun { stream, shows_state, values } = begun;
    Opened { stream, permit, number, shows_state, values, reuse }
}

/// The connection of another session, for a new one. One that cannot be that is closed: then an error.
fn log_in_again(idle: Idle, key: &Key, options: &ConnectOptions) -> client::Result<Connection> {
    let fits = idle.is_of(key);
    let mut connection = idle.into_stream().into_blocking(OPEN_WITHIN, false)?;
    if !fits {
        return Err(closed(connection));
    }
    connection.change_user(options)?;
    Ok(connection)
}

/// Waits until the source has closed a connection, and counts it no more; returns the error that it is then.
fn closed(mut connection: Connection) -> ClientError {
    let mut none = |_: &[u8]| Ok(());
    let end = connection.relay(&[command::QUIT], &mut none);
    let end = end.and_then(|()| connection.relay_answer(command::PING, &mut none));
    end.err().unwrap_or(ClientError::Broken)
}

/// Logs in. Where the source has too many connections, those of the user that are idle here are closed first.
fn connect(options: &ConnectOptions, permit: &Permit) -> client::Result<Connection> {
    let connected = Connection::connect(options);
    let is_full = |error: &ClientError| error.server_code().is_some_and(|code| TOO_MANY.contains(&code));
    if !connected.as_ref().is_err_and(is_full) {
        return connected;
    }
    let idle = permit.take_idle_of(&options.user);
    if idle.is_empty() {
        return connected;
    }
    for one in idle {
        let end = one.into_stream().into_blocking(OPEN_WITHIN, false).map(closed);
        drop(end);
    }
    Connection::connect(options)
}

/// Proves that the connection is one to the followed source, and brings it to where its session stood.
fn begin(connection: Connection, wanted: &Wanted<'_>, source: &Source) -> Result<(Begun, Reuse), NotOpened> {
    let Wanted { login, start, was_reset, values: before, forward } = wanted;
    let capabilities = start.capabilities | capability::SESSION_TRACK;
    let failed = |error: ClientError| match error {
        // Of a statement of ours, not of the login.
        ClientError::Server { code, sqlstate, message } => {
            NotOpened::of(SqlError::new(code, known_sqlstate(&sqlstate), message))
        }
        error => source.failed(error, login),
    };
    let of_session = capability::OF_SESSIONS | capability::LOCAL_FILES;
    if start.capabilities & of_session & !connection.offered() != 0 {
        let text = "the source's version lacks a capability that this client uses";
        return Err(NotOpened::of(SqlError::new(1105, "HY000", text)));
    }
    let mut session = Asking { connection, capabilities };
    if *was_reset {
        session.reset().map_err(failed)?;
    }
    let mut said = session.ask(&QUESTION).map_err(failed)?;
    if said.len() != ASKED + KEPT.len() {
        return Err(failed(ClientError::UnexpectedAnswer { what: "a question for the server's UUID" }));
    }
    let values = said.split_off(ASKED);
    let text = |at: usize| said.get(at).map(|value| String::from_utf8_lossy(value)).unwrap_or_default();
    let (found, tracks, init_connect) = (text(0), text(1), text(2));
    if found != source.server_uuid.as_str() {
        let Source { server_uuid, place, .. } = source;
        let text = format!("{place} is the server {found}, not the followed source {server_uuid}");
        return Err(NotOpened::of(SqlError::new(1105, "HY000", text)));
    }
    let shows_state = tracks == "1";
    let key = Key { user: login.user().to_owned(), capabilities, number: source.number };
    let wait_timeout = text(3).parse().map_or(Duration::ZERO, Duration::from_secs);
    let reuse = Reuse { key: init_connect.is_empty().then_some(key), idle_for: IDLE_FOR.min(wait_timeout / 2) };
    if !*was_reset
        && start.collation > LOGIN_COLLATION_MAX
        && let Some(collation) = values::collation::by_id(start.collation)
    {
        session.ask(&format!("SET NAMES {} COLLATE {}", collation.charset, collation.name)).map_err(failed)?;
    }
    for statement in before.iter().flat_map(|before| moves(&values, before)) {
        session.ask(&statement).map_err(failed)?;
    }
    for statement in [NO_RESULT].into_iter().chain(first_statements(*forward)) {
        session.ask(statement).map_err(failed)?;
    }
    let values = before.clone().unwrap_or(values);
    let stream = session.connection.into_nonblocking().map_err(failed)?;
    Ok((Begun { stream, shows_state, values }, reuse))
}

/// Ends what a session had on a connection whose reset was sent: then another session may have it.
pub(super) fn await_reset(stream: NonBlocking) -> client::Result<NonBlocking> {
    let mut connection = stream.into_blocking(OPEN_WITHIN, true)?;
    connection.relay_answer(command::RESET_CONNECTION, &mut |payload| match is_err(payload) {
        true => Err(server_error(payload)),
        false => Ok(()),
    })?;
    connection.into_nonblocking()
}

/// Values that are asked for besides those of [`KEPT`].
const ASKED: usize = 4;

/// The source's UUID, whether it says that sessions change, what it does at logins and when it ends idle sessions; and
/// the values of [`KEPT`].
static QUESTION: LazyLock<String> = LazyLock::new(|| {
    let kept: String = KEPT.iter().map(|name| format!(", @@session.{name}")).collect();
    format!(
        "SELECT @@server_uuid, @@session.session_track_state_change, @@global.init_connect, \
         @@session.wait_timeout{kept}"
    )
});

/// Variables with which sessions begin otherwise there than here, as when the source has an `init_connect`.
pub(crate) fn begins_otherwise(values: &Values, here: &dyn OwnValues) -> Vec<(String, String)> {
    let differs = |name: &str, value: &[u8]| here.own_value(name).is_some_and(|known| known.as_bytes() != value);
    let all = KEPT.iter().zip(values).filter(|(name, value)| differs(name, value));
    all.map(|(name, value)| ((*name).to_owned(), String::from_utf8_lossy(value).into_owned())).collect()
}

/// Statements that give a session the values that it had: global ones may be others now.
fn moves(now: &[Vec<u8>], before: &[Vec<u8>]) -> Vec<String> {
    let differing = KEPT.iter().zip(now.iter().zip(before)).filter(|(_, (now, before))| now != before);
    differing.map(|(name, (_, before))| format!("SET @@session.{name} = {}", literal(before))).collect()
}

/// A value as SET takes it.
fn literal(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    if is_number { text.into_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}

/// Statements that come before a session's own, after a login and after a reset. They leave ROW_COUNT() as it is in a
/// new session.
pub(crate) fn first_statements(forward: Forward) -> impl Iterator<Item = &'static str> {
    let of_reads = [READ_ONLY, TRACK_CHARACTER_SETS].into_iter().filter(move |_| forward == Forward::Reads);
    [TRACK_STATE].into_iter().chain(of_reads)
}

/// The payload of a statement of our own.
pub(crate) fn query(statement: &[u8], capabilities: u32) -> Vec<u8> {
    let mut payload = vec![command::QUERY];
    if capabilities & capability::QUERY_ATTRIBUTES != 0 {
        // No attributes, one set.
        payload.extend_from_slice(&[0, 1]);
    }
    payload.extend_from_slice(statement);
    payload
}

/// A connection that is asked before a session has it.
struct Asking {
    connection: Connection,
    capabilities: u32,
}

impl Asking {
    /// Has the server reset the session.
    fn reset(&mut self) -> client::Result<()> {
        self.connection.relay(&[command::RESET_CONNECTION], &mut |payload| match is_err(payload) {
            true => Err(server_error(payload)),
            false => Ok(()),
        })
    }

    /// Runs a statement; the values of its first row, none without one.
    fn ask(&mut self, statement: &str) -> client::Result<Vec<Vec<u8>>> {
        let deprecates_eof = self.capabilities & capability::DEPRECATE_EOF != 0;
        let mut columns = None;
        let (mut packets, mut row) = (0, Vec::new());
        let mut each = |payload: &[u8]| {
            if is_err(payload) {
                return Err(server_error(payload));
            }
            let columns = *columns.get_or_insert(payload.first().copied().map_or(0, usize::from));
            let is_first = packets == 1 + columns + usize::from(!deprecates_eof);
            if columns > 0 && is_first && !ends_rows(payload, deprecates_eof) {
                let mut reader = Reader::new(payload);
                for _ in 0..columns {
                    row.push(reader.lenenc_bytes("value")?.to_vec());
                }
            }
            packets += 1;
            Ok(())
        };
        self.connection.relay(&query(statement.as_bytes(), self.capabilities), &mut each)?;
        Ok(row)
    }
}

fn server_error(payload: &[u8]) -> ClientError {
    match ErrPacket::parse(payload) {
        Ok(ErrPacket { code, sqlstate, message }) => ClientError::Server { code, sqlstate, message },
        Err(error) => ClientError::Wire(error),
    }
}

/// The states of errors that a login may end with.
fn known_sqlstate(state: &str) -> &'static str {
    const KNOWN: [&str; 6] = ["28000", "42000", "08004", "08S01", "3D000", "HY000"];
    KNOWN.into_iter().find(|known| *known == state).unwrap_or("HY000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_moved_are_set_as_they_were() {
        let now: Vec<Vec<u8>> = KEPT.iter().map(|_| b"1".to_vec()).collect();
        let mut before = now.clone();
        assert!(moves(&now, &before).is_empty());
        let place = |name: &str| KEPT.iter().position(|kept| *kept == name).unwrap();
        before[place("autocommit")] = b"0".to_vec();
        before[place("sql_mode")] = b"ANSI,it's".to_vec();
        before[place("time_zone")] = Vec::new();
        let expected = ["autocommit = 0", "sql_mode = 'ANSI,it''s'", "time_zone = ''"];
        assert_eq!(moves(&now, &before), expected.map(|set| format!("SET @@session.{set}")));
    }
}
