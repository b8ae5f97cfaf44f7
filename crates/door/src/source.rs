//! Connections to the source for statements that are forwarded: how many there may be, which sessions wait for one,
//! and how they are opened.
//!
//! In: accounts' logins at the source, what a client has agreed with the port. Out: links that are logged in at the
//! followed source, to whoever asked. Never here: a statement of a client, a wait of a loop: threads of
//! this module's own connect and log in.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use accounts::{SessionStart, SourceLogin};
use client::{ClientError, ConnectOptions, Connection, NonBlocking, OnBehalf};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sql::SqlError;
use tier::Forward;
use wire::command;
use wire::handshake::capability;
use wire::read::Reader;
use wire::response::{ErrPacket, ends_rows, is_err};

use crate::config::{Facts, Followed};

/// Threads that connect and log in. Against one server more would not be faster.
const OPENERS: usize = 4;
/// Tasks that wait, of all clients: each session has one at most, and the port has fewer sessions.
const TASKS_MAX: usize = 100_000;
/// Time to wait for a thread, to connect and log in, and for each answer until the link is a session's.
const OPEN_WITHIN: Duration = Duration::from_secs(10);
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
/// Variables whose values a session keeps when it gets another connection: those that change what statements do or
/// answer, and that every user may set.
const KEPT: [&str; 32] = [
    "auto_increment_increment",
    "auto_increment_offset",
    "autocommit",
    "block_encryption_mode",
    "completion_type",
    "cte_max_recursion_depth",
    "default_storage_engine",
    "default_week_format",
    "div_precision_increment",
    "explicit_defaults_for_timestamp",
    "foreign_key_checks",
    "group_concat_max_len",
    "innodb_lock_wait_timeout",
    "lc_time_names",
    "lock_wait_timeout",
    "max_error_count",
    "max_execution_time",
    "max_join_size",
    "max_sort_length",
    "optimizer_switch",
    "sql_auto_is_null",
    "sql_big_selects",
    "sql_mode",
    "sql_quote_show_create",
    "sql_safe_updates",
    "sql_select_limit",
    "time_zone",
    "transaction_isolation",
    "transaction_read_only",
    "unique_checks",
    "updatable_views_with_limit",
    "windowing_use_high_precision",
];
const NO_RESULT: &str = "SELECT 1 LIMIT 0";

/// The right to have one of the connections.
pub(crate) struct Permit(Arc<Sources>);

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        let Some(Waiting { given, .. }) = state.waiting.pop_front() else {
            state.open -= 1;
            return;
        };
        drop(state);
        given(Permit(Arc::clone(&self.0)));
    }
}

#[derive(Default)]
struct State {
    open: usize,
    /// Sessions that wait for one, in order. Some may be gone.
    waiting: VecDeque<Waiting>,
}

/// A session that waits for a connection.
struct Waiting {
    /// The number of its client's connection.
    number: u64,
    given: Box<dyn FnOnce(Permit) + Send>,
}

/// What became of clients' statements of accounts that forward.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) here: AtomicU64,
    pub(crate) forwarded: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// What became of commands of accounts that forward, since the start, and connections to the source now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forwarded {
    /// Those that went to the source.
    pub commands: u64,
    pub served_here: u64,
    /// Those that are not forwarded.
    pub refused: u64,
    pub connections: u64,
    /// Sessions that wait for one.
    pub waiting: u64,
}

/// A connection to the source that is to be opened, or a statement there that is to be ended.
enum Task {
    Open(Box<Opening>),
    Kill(Kill),
}

/// A statement or a connection that is to be ended, and at which source: elsewhere its number is somebody else's.
pub(crate) struct Kill {
    pub(crate) login: Arc<SourceLogin>,
    /// The number of its source.
    pub(crate) number: u64,
    pub(crate) id: u32,
    pub(crate) query: bool,
    /// Given back once that was done or tried.
    pub(crate) permit: Option<Permit>,
}

/// Whose connection is to be opened, and how.
pub(crate) struct Opening {
    pub(crate) login: Arc<SourceLogin>,
    /// What the client's login asked for, with the schema of now.
    pub(crate) start: SessionStart,
    /// The session was reset: its character sets are not those of its login.
    pub(crate) was_reset: bool,
    /// What it has of [`KEPT`], if it had a connection before.
    pub(crate) values: Option<Values>,
    pub(crate) permit: Permit,
    /// Alive as long as somebody waits for the connection.
    pub(crate) waits: Weak<()>,
    pub(crate) since: Instant,
    pub(crate) done: Box<dyn FnOnce(Result<Opened, NotOpened>) + Send>,
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
}

/// Values of the variables of [`KEPT`].
pub(crate) type Values = Vec<Vec<u8>>;

/// Why a connection was not opened.
pub(crate) struct NotOpened {
    pub(crate) error: SqlError,
    /// The source has refused the login.
    pub(crate) is_refusal: bool,
}

/// A connection on which a statement runs whose client has gone, before its answer has begun.
pub(crate) struct Left {
    /// With its permit. The source was told that nothing more is sent on it.
    pub(crate) link: Box<dyn AsFd + Send>,
    /// The number of its source.
    pub(crate) number: u64,
}

/// The connections to the source.
pub(crate) struct Sources {
    pub(crate) forward: Forward,
    most: usize,
    state: Mutex<State>,
    /// None once the server stops.
    left: Mutex<Option<Vec<Left>>>,
    queue: SyncSender<Task>,
    pub(crate) counts: Counts,
}

impl Sources {
    /// Starts the threads, unless nothing is forwarded. They end with the last queue.
    pub(crate) fn start(forward: Forward, most: usize, facts: &Arc<dyn Facts>) -> std::io::Result<Arc<Sources>> {
        let (queue, tasks) = sync_channel(TASKS_MAX);
        let tasks = Arc::new(Mutex::new(tasks));
        let openers = if forward == Forward::Off { 0 } else { OPENERS };
        for number in 0..openers {
            let (tasks, facts) = (Arc::clone(&tasks), Arc::clone(facts));
            let thread = std::thread::Builder::new().name(format!("door-source-{number}"));
            // Not joined: it ends with the connection that it opens.
            thread.spawn(move || run(&tasks, &*facts, forward))?;
        }
        Ok(Arc::new(Sources {
            forward,
            most,
            state: Mutex::default(),
            left: Mutex::new(Some(Vec::new())),
            queue,
            counts: Counts::default(),
        }))
    }

    /// What became of statements; None if nothing is forwarded.
    pub(crate) fn report(&self) -> Option<Forwarded> {
        let (open, waiting) = {
            let state = self.lock();
            (state.open, state.waiting.len())
        };
        (self.forward != Forward::Off).then(|| Forwarded {
            commands: self.counts.forwarded.load(Relaxed),
            served_here: self.counts.here.load(Relaxed),
            refused: self.counts.refused.load(Relaxed),
            connections: open as u64,
            waiting: waiting as u64,
        })
    }

    /// The same as status variables.
    pub(crate) fn status_values(&self) -> Vec<(&'static str, String)> {
        let Some(Forwarded { commands, served_here, refused, connections, waiting }) = self.report() else {
            return Vec::new();
        };
        let values = [
            ("Slipstream_forward_connections", connections),
            ("Slipstream_forward_waiting", waiting),
            ("Slipstream_forwarded", commands),
            ("Slipstream_not_forwarded", refused),
            ("Slipstream_served_here", served_here),
        ];
        values.into_iter().map(|(name, value)| (name, value.to_string())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if someone waits for a connection.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// The right to one more; None: `given` gets it later, unless the connection of this number is forgotten.
    pub(crate) fn permit(self: &Arc<Self>, number: u64, given: Box<dyn FnOnce(Permit) + Send>) -> Option<Permit> {
        let mut state = self.lock();
        if state.open < self.most {
            state.open += 1;
            return Some(Permit(Arc::clone(self)));
        }
        state.waiting.push_back(Waiting { number, given });
        None
    }

    /// It waits no more.
    pub(crate) fn forget(&self, number: u64) {
        self.lock().waiting.retain(|waiting| waiting.number != number);
    }

    fn lock_left(&self) -> MutexGuard<'_, Option<Vec<Left>>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a connection, and so its permit, until what runs there has ended.
    pub(crate) fn keep(&self, one: Left) {
        if let Some(left) = &mut *self.lock_left() {
            left.push(one);
        }
    }

    pub(crate) fn has_left(&self) -> bool {
        self.lock_left().as_ref().is_some_and(|left| !left.is_empty())
    }

    /// Closes kept connections whose statements have ended, or whose source is not followed any more.
    pub(crate) fn look(&self, facts: &dyn Facts) {
        let mut guard = self.lock_left();
        let Some(left) = guard.as_mut().filter(|left| !left.is_empty()) else { return };
        let number = facts.source_number();
        let mut polled: Vec<_> =
            left.iter().map(|one| PollFd::from_borrowed_fd(one.link.as_fd(), PollFlags::IN)).collect();
        // Interrupted: the next look sees them.
        let _ = poll(&mut polled, Some(&Timespec::default()));
        let has_ended: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        let mut has_ended = has_ended.into_iter();
        let is_over =
            |one: &mut Left| has_ended.next() == Some(true) || number.is_some_and(|number| number != one.number);
        let over: Vec<Left> = left.extract_if(.., is_over).collect();
        drop(guard);
        // Their permits are given to others, which takes other locks.
        drop(over);
    }

    /// The server stops: no more are kept.
    pub(crate) fn let_go(&self) {
        let left = self.lock_left().take();
        drop(left);
    }

    /// Opens a connection; false if too many are being opened.
    pub(crate) fn open_for(&self, opening: Opening) -> bool {
        self.queue.try_send(Task::Open(Box::new(opening))).is_ok()
    }

    /// Ends a statement at the source, or its connection.
    pub(crate) fn kill(&self, kill: Kill) {
        // A full queue means that nothing can be reached there now.
        let _ = self.queue.try_send(Task::Kill(kill));
    }
}

fn run(tasks: &Mutex<Receiver<Task>>, facts: &dyn Facts, forward: Forward) {
    loop {
        let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match task {
            Err(_) => return,
            Ok(Task::Open(opening)) => {
                let Opening { login, start, was_reset, values, permit, waits, since, done } = *opening;
                if waits.strong_count() == 0 {
                    continue;
                }
                if since.elapsed() > OPEN_WITHIN {
                    drop(permit);
                    done(Err(NotOpened { error: not_in_time(), is_refusal: false }));
                    continue;
                }
                done(open(&login, start, (was_reset, values), permit, facts, forward));
            }
            Ok(Task::Kill(kill)) => {
                let followed = facts.followed().ok().filter(|followed| followed.number == kill.number);
                let ended = followed.map(|followed| end(&kill, followed));
                // One that could not be reached has ended, or ends by itself.
                drop(ended);
                drop(kill.permit);
            }
        }
    }
}

fn not_in_time() -> SqlError {
    let within = OPEN_WITHIN.as_secs();
    let text =
        format!("Unable to connect to the source: earlier connections to it are still being opened after {within} s");
    SqlError::new(1429, "HY000", text)
}

fn end(kill: &Kill, followed: Followed) -> client::Result<()> {
    let mut connection = Connection::connect(&options(&kill.login, followed.options))?;
    let found = connection.query("SELECT @@server_uuid")?.first_text();
    if found.is_some_and(|found| found == followed.server_uuid) {
        let what = if kill.query { "QUERY" } else { "CONNECTION" };
        connection.exec(&format!("KILL {what} {}", kill.id))?;
    }
    Ok(())
}

/// The receiver's way to the source, with another login.
fn options(login: &SourceLogin, source: ConnectOptions) -> ConnectOptions {
    ConnectOptions {
        user: login.user().to_owned(),
        password: Some(login.password().to_owned()),
        connect_timeout: OPEN_WITHIN,
        read_timeout: Some(OPEN_WITHIN),
        database: None,
        init_command: None,
        ..source
    }
}

fn open(
    login: &SourceLogin,
    start: SessionStart,
    (was_reset, before): (bool, Option<Values>),
    permit: Permit,
    facts: &dyn Facts,
    forward: Forward,
) -> Result<Opened, NotOpened> {
    let not = |error: SqlError| NotOpened { error, is_refusal: false };
    let Followed { options: source, server_uuid, number } = facts.followed().map_err(not)?;
    let place = source.to_string();
    let place = place.rsplit_once('@').map_or(place.as_str(), |(_, place)| place);
    let failed = |error: ClientError| {
        let error = SqlError::new(1429, "HY000", format!("Unable to connect to the source {place}: {error}"));
        NotOpened { error, is_refusal: false }
    };
    let capabilities = start.capabilities | capability::SESSION_TRACK;
    let collation = u8::try_from(start.collation).unwrap_or(DEFAULT_COLLATION);
    let options = ConnectOptions {
        database: start.schema.clone(),
        multi_statements: capabilities & capability::MULTI_STATEMENTS != 0,
        on_behalf: Some(OnBehalf { capabilities, collation }),
        ..options(login, source)
    };
    let connection = Connection::connect(&options).map_err(|error| match error {
        ClientError::Server { code, sqlstate, message } => {
            NotOpened { error: SqlError::new(code, known_sqlstate(&sqlstate), message), is_refusal: true }
        }
        error => failed(error),
    })?;
    let of_session = capability::OF_SESSIONS | capability::LOCAL_FILES;
    if start.capabilities & of_session & !connection.offered() != 0 {
        let text = "the source's version lacks a capability that this client uses";
        return Err(not(SqlError::new(1105, "HY000", text)));
    }
    let mut session = Asking { connection, capabilities };
    if was_reset {
        session.reset().map_err(failed)?;
    }
    let mut said = session.ask(&QUESTION).map_err(failed)?;
    if said.len() != 2 + KEPT.len() {
        return Err(failed(ClientError::UnexpectedAnswer { what: "a question for the server's UUID" }));
    }
    let values = said.split_off(2);
    let text = |at: usize| said.get(at).map(|value| String::from_utf8_lossy(value)).unwrap_or_default();
    let (found, tracks) = (text(0), text(1));
    if found != server_uuid {
        let text = format!("{place} is the server {found}, not the followed source {server_uuid}");
        return Err(not(SqlError::new(1105, "HY000", text)));
    }
    let shows_state = tracks == "1";
    if !was_reset
        && start.collation > LOGIN_COLLATION_MAX
        && let Some(collation) = values::collation::by_id(start.collation)
    {
        session.ask(&format!("SET NAMES {} COLLATE {}", collation.charset, collation.name)).map_err(failed)?;
    }
    for statement in before.iter().flat_map(|before| moves(&values, before)) {
        session.ask(&statement).map_err(failed)?;
    }
    for statement in [NO_RESULT].into_iter().chain(first_statements(forward)) {
        session.ask(statement).map_err(failed)?;
    }
    let values = before.unwrap_or(values);
    let stream = session.connection.into_nonblocking().map_err(failed)?;
    Ok(Opened { stream, permit, number, shows_state, values })
}

/// The source's UUID, whether it says that sessions change, and the values of [`KEPT`].
static QUESTION: LazyLock<String> = LazyLock::new(|| {
    let kept: String = KEPT.iter().map(|name| format!(", @@session.{name}")).collect();
    format!("SELECT @@server_uuid, @@session.session_track_state_change{kept}")
});

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
pub(crate) fn query(statement: &str, capabilities: u32) -> Vec<u8> {
    let mut payload = vec![command::QUERY];
    if capabilities & capability::QUERY_ATTRIBUTES != 0 {
        // No attributes, one set.
        payload.extend_from_slice(&[0, 1]);
    }
    payload.extend_from_slice(statement.as_bytes());
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
        self.connection.relay(&query(statement, self.capabilities), &mut each)?;
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
    use std::net::TcpListener;

    use session::{ReplicaStatus, SchemaState};

    use super::*;
    use crate::config::Note;

    /// Follows a source that listens here, as number 2.
    struct Follows(TcpListener);

    impl Facts for Follows {
        fn schema(&self, _: &str) -> SchemaState {
            SchemaState::Missing
        }

        fn replica_status(&self) -> ReplicaStatus {
            ReplicaStatus::default()
        }

        fn pin(&self) -> Result<Arc<store::Snapshot>, SqlError> {
            Err(SqlError::not_supported("rows"))
        }

        fn followed(&self) -> Result<Followed, SqlError> {
            let port = self.0.local_addr().unwrap().port();
            let options = ConnectOptions { host: "127.0.0.1".into(), port, ..ConnectOptions::default() };
            Ok(Followed { options, server_uuid: String::new(), number: 2 })
        }

        fn note(&self, note: Note) {
            panic!("{note:?}");
        }
    }

    #[test]
    fn nobody_connects_for_a_client_that_is_gone_or_late_or_to_kill_at_another_source() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let facts: Arc<dyn Facts> = Arc::new(Follows(listener.try_clone().unwrap()));
        let sources = Sources::start(Forward::Off, 2, &facts).unwrap();
        let login = Arc::new(SourceLogin::new("app", "there").unwrap());
        let (queue, tasks) = sync_channel(3);
        let (told, errors) = std::sync::mpsc::channel();
        let waits = Arc::new(());
        let late = Instant::now().checked_sub(OPEN_WITHIN + Duration::from_secs(1)).unwrap();
        for (waits, since) in [(Weak::new(), Instant::now()), (Arc::downgrade(&waits), late)] {
            let told = told.clone();
            let opening = Opening {
                login: Arc::clone(&login),
                start: SessionStart::default(),
                was_reset: false,
                values: None,
                permit: sources.permit(1, Box::new(|_| ())).unwrap(),
                waits,
                since,
                done: Box::new(move |opened| told.send(opened.err().unwrap().error).unwrap()),
            };
            queue.send(Task::Open(Box::new(opening))).unwrap();
        }
        queue.send(Task::Kill(Kill { login, number: 1, id: 7, query: false, permit: None })).unwrap();
        drop((queue, told));
        run(&Mutex::new(tasks), &*facts, Forward::All);
        assert_eq!(errors.iter().map(|error| error.code).collect::<Vec<_>>(), [1429]);
        assert_eq!(sources.lock().open, 0, "both permits were given back");
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }

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
