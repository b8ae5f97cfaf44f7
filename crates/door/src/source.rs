//! Connections to the source for statements that are forwarded: how many there may be, which sessions wait for one,
//! and how they are opened.
//!
//! In: accounts' logins at the source, what a client has agreed with the port. Out: links that are logged in at the
//! followed source, to whoever asked. Never here: a statement of a client, a wait of a loop: threads of
//! this module's own connect and log in.

mod grants;
mod open;
mod pool;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use accounts::{SessionStart, SourceGrants, SourceLogin};
use client::{Connection, NonBlocking};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use session::Missed;
use sql::SqlError;
use tier::{Avoided, DigestCount, Forward, NotServed};

use crate::config::{Facts, Followed};
pub(crate) use grants::AsOf;
use grants::Grants;
pub(crate) use open::{NotOpened, Opened, Reuse, Values, begins_otherwise, first_statements, query};
use open::{OPEN_WITHIN, Wanted, options};
pub(crate) use pool::{Idle, Key, Permit};
use pool::{Pool, Sizes};

/// Threads that connect and log in. Against one server more would not be faster.
const OPENERS: usize = 4;
/// Tasks that wait, of all clients: each session has one at most, and the port has fewer sessions.
const TASKS_MAX: usize = 100_000;
/// Characters of a value of SHOW STATUS.
const STATUS_CHARACTERS: usize = 1024;
/// Digests in a report: those that would move most.
const DIGESTS_SHOWN: usize = 10;

/// What became of clients' statements of accounts that forward.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) here: AtomicU64,
    pub(crate) forwarded: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) splits: SplitCounts,
    not_served: Mutex<NotServed>,
}

/// What became of transactions that had read here.
#[derive(Debug, Default)]
pub(crate) struct SplitCounts {
    pub(crate) begun: AtomicU64,
    pub(crate) older: AtomicU64,
    pub(crate) proofs: AtomicU64,
    pub(crate) conflicts: AtomicU64,
}

impl Counts {
    /// The source answers a statement because of this construct; its digest if it only reads.
    pub(crate) fn note_not_served(&self, construct: &str, digest: Option<String>) {
        self.not_served.lock().unwrap_or_else(PoisonError::into_inner).note(construct, digest);
    }
}

/// What became of commands of accounts that forward, since the start, and connections to the source now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// Those that went to the source.
    pub commands: u64,
    pub served_here: u64,
    /// Those that are not forwarded.
    pub refused: u64,
    pub splits: Splits,
    pub connections: u64,
    /// Of these, those that no session has.
    pub idle: u64,
    /// Sessions that wait for one.
    pub waiting: u64,
    /// Those that went to the source, by the construct that is not answered here.
    pub by_construct: Vec<(String, u64)>,
    /// The most frequent of them that only read.
    pub by_digest: Vec<DigestCount>,
    /// Users that the source does not let in.
    pub refused_logins: Vec<String>,
}

/// REPEATABLE READ transactions that had read here when they went to the source, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Splits {
    pub begun: u64,
    /// Those whose rows here were not the newest any more by then.
    pub older: u64,
    /// Their plain reads at the source, each of which had to fit what was read here.
    pub proofs: u64,
    /// Those that ended with 1213 because one did not.
    pub conflicts: u64,
}

/// A connection to the source that is to be opened or to become another session's, or a statement there that is to be
/// ended.
enum Task {
    Open(Box<Opening>),
    Reset(Box<Resetting>),
    Kill(Kill),
    /// What the login's user may read is to be asked.
    Grants(Arc<SourceLogin>, Arc<Grants>, AsOf),
}

/// A connection whose reset was sent.
struct Resetting {
    stream: NonBlocking,
    permit: Permit,
    key: Key,
    until: Instant,
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
    /// Its variables, if it had a connection before.
    pub(crate) values: Option<Values>,
    pub(crate) permit: Permit,
    /// Alive as long as somebody waits for the connection.
    pub(crate) waits: Weak<()>,
    pub(crate) since: Instant,
    pub(crate) done: Box<dyn FnOnce(Result<Opened, NotOpened>) + Send>,
}

/// A connection on which a statement runs whose client has gone, before its answer has begun.
pub(crate) struct Left {
    /// With its permit. The source was told that nothing more is sent on it.
    pub(crate) link: Box<dyn AsFd + Send>,
    /// The number of its source.
    pub(crate) number: u64,
}

/// Users of the source that it does not let in, as of their last login: accounts here of which it knows nothing, or
/// another password. Of each the last statement about accounts that was visible here before that login.
#[derive(Default)]
struct Refused(Mutex<BTreeMap<String, Option<Arc<str>>>>);

/// Users of [`Refused`] that are named.
const REFUSED_SHOWN: usize = 16;
/// Users of [`Refused`]: as many as have grants that are remembered.
const REFUSED_MAX: usize = 10_000;

impl Refused {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<Arc<str>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> Vec<String> {
        self.lock().keys().take(REFUSED_SHOWN).cloned().collect()
    }

    /// A login is about to be tried. One that was refused is not held back once a statement about accounts, which may
    /// have unlocked it, is visible here. Returns the last one that is.
    fn tries(&self, login: &SourceLogin, facts: &dyn Facts) -> Option<Arc<str>> {
        let now = facts.account_statements();
        let is_old = self.lock().get(login.user()).is_some_and(|refused| *refused != now);
        if is_old && let Ok(followed) = facts.followed() {
            client::allow_login(&options(login, followed.options));
        }
        now
    }

    /// A login has ended so, with this error, or as it should; `as_of` is what [`tries`](Self::tries) returned.
    fn note(&self, user: &str, error: Option<u16>, as_of: Option<Arc<str>>) {
        let mut users = self.lock();
        match error {
            None => _ = users.remove(user),
            Some(code) if open::REFUSED.contains(&code) && users.len() < REFUSED_MAX => {
                users.insert(user.to_owned(), as_of);
            }
            Some(_) => {}
        }
    }
}

/// The connections to the source.
pub(crate) struct Sources {
    pub(crate) forward: Forward,
    refused: Arc<Refused>,
    pool: Arc<Pool>,
    grants: Arc<Grants>,
    /// None once the server stops.
    left: Mutex<Option<Vec<Left>>>,
    queue: SyncSender<Task>,
    pub(crate) counts: Counts,
    late: Late,
    avoided: Mutex<Avoided>,
}

/// Whether reads wait here in vain: then they do not wait until what one has waited for is visible, and after that, or
/// once a second, one tries it.
struct Late {
    begun: Instant,
    /// Milliseconds since then at which one tried it last; 0: reads do not wait in vain.
    tried: AtomicU64,
    /// What was waited for in vain, if that is known, and nobody tries it since it is visible.
    missed: Mutex<Option<Missed>>,
}

/// Time between two reads that try whether replay has caught up, in milliseconds.
const TRY_EVERY_MS: u64 = 1000;

/// Whether a read is to wait here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MayWait {
    Yes,
    /// Others have waited in vain, and it is the one that tries it.
    Tries,
    No,
}

impl Late {
    fn ms(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.begun).as_millis()).unwrap_or(u64::MAX).max(1)
    }

    fn missed(&self) -> MutexGuard<'_, Option<Missed>> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_wait(&self, now: Instant, is_visible: impl FnOnce(&Missed) -> bool) -> MayWait {
        let tried = self.tried.load(Relaxed);
        if tried == 0 {
            return MayWait::Yes;
        }
        let now = self.ms(now);
        let tries = now >= tried + TRY_EVERY_MS || self.missed().take_if(|missed| is_visible(missed)).is_some();
        match tries && self.tried.compare_exchange(tried, now, Relaxed, Relaxed).is_ok() {
            true => MayWait::Tries,
            false => MayWait::No,
        }
    }

    /// One that was to try has not waited: another tries.
    fn was_not_tried(&self) {
        // Long ago, unless one was answered meanwhile.
        let _ = self.tried.fetch_update(Relaxed, Relaxed, |tried| (tried != 0).then_some(1));
    }

    fn begins(&self, now: Instant, missed: Option<Missed>) {
        *self.missed() = missed;
        self.tried.store(self.ms(now), Relaxed);
    }
}

impl Sources {
    /// Whether a read is to wait here, or not since others have waited in vain.
    pub(crate) fn may_wait(&self, now: Instant, facts: &dyn Facts) -> MayWait {
        self.late.may_wait(now, |missed| missed.is_visible(facts.gtids()))
    }

    /// Whether others have waited in vain.
    pub(crate) fn is_late(&self) -> bool {
        self.late.tried.load(Relaxed) != 0
    }

    /// The one that was to try it has not waited.
    pub(crate) fn was_not_tried(&self) {
        self.late.was_not_tried();
    }

    /// A read has waited in vain, for this if that is known.
    pub(crate) fn was_late(&self, now: Instant, missed: Option<Missed>) {
        self.late.begins(now, missed);
    }

    /// A read was answered here.
    pub(crate) fn is_in_time(&self) {
        if self.late.tried.load(Relaxed) != 0 {
            self.late.tried.store(0, Relaxed);
        }
    }

    /// True if transactions that begin with a read of this digest are the source's as a whole now.
    pub(crate) fn avoids(&self, digest: impl FnOnce() -> Option<String>, now: Instant) -> bool {
        let avoided = self.avoided.lock().unwrap_or_else(PoisonError::into_inner);
        !avoided.is_empty() && digest().is_some_and(|digest| avoided.has(&digest, now))
    }

    /// One of them was in conflict.
    pub(crate) fn avoid(&self, digest: String, now: Instant) {
        self.avoided.lock().unwrap_or_else(PoisonError::into_inner).add(digest, now);
    }

    /// Starts the threads, unless nothing is forwarded. They end with the last queue.
    pub(crate) fn start(forward: Forward, most: usize, facts: &Arc<dyn Facts>) -> std::io::Result<Arc<Sources>> {
        let (queue, tasks) = sync_channel(TASKS_MAX);
        let tasks = Arc::new(Mutex::new(tasks));
        let refused: Arc<Refused> = Arc::default();
        let openers = if forward == Forward::Off { 0 } else { OPENERS };
        for number in 0..openers {
            let (tasks, facts, refused) = (Arc::clone(&tasks), Arc::clone(facts), Arc::clone(&refused));
            let thread = std::thread::Builder::new().name(format!("door-source-{number}"));
            // Not joined: it ends with the connection that it opens.
            thread.spawn(move || run(&tasks, &*facts, forward, &refused))?;
        }
        Ok(Arc::new(Sources {
            forward,
            refused,
            pool: Pool::new(most),
            grants: Arc::default(),
            left: Mutex::new(Some(Vec::new())),
            queue,
            counts: Counts::default(),
            late: Late { begun: Instant::now(), tried: AtomicU64::new(0), missed: Mutex::default() },
            avoided: Mutex::default(),
        }))
    }

    /// What became of statements; None if nothing is forwarded.
    pub(crate) fn report(&self) -> Option<Forwarded> {
        let Sizes { open, idle, waiting } = self.pool.sizes();
        if self.forward == Forward::Off {
            return None;
        }
        let not_served = self.counts.not_served.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Forwarded {
            commands: self.counts.forwarded.load(Relaxed),
            served_here: self.counts.here.load(Relaxed),
            refused: self.counts.refused.load(Relaxed),
            splits: Splits {
                begun: self.counts.splits.begun.load(Relaxed),
                older: self.counts.splits.older.load(Relaxed),
                proofs: self.counts.splits.proofs.load(Relaxed),
                conflicts: self.counts.splits.conflicts.load(Relaxed),
            },
            connections: open as u64,
            idle: idle as u64,
            waiting: waiting as u64,
            by_construct: not_served.by_construct(),
            by_digest: not_served.most_frequent(DIGESTS_SHOWN),
            refused_logins: self.refused.names(),
        })
    }

    /// The same as status variables.
    pub(crate) fn status_values(&self) -> Vec<(&'static str, String)> {
        let Some(report) = self.report() else { return Vec::new() };
        let Forwarded { commands, served_here, refused, splits, connections, idle, waiting, by_construct, .. } =
            &report;
        let values = [
            ("Slipstream_split_conflicts", &splits.conflicts),
            ("Slipstream_split_proofs", &splits.proofs),
            ("Slipstream_split_transactions", &splits.begun),
            ("Slipstream_forward_connections", connections),
            ("Slipstream_forward_idle", idle),
            ("Slipstream_forward_waiting", waiting),
            ("Slipstream_forwarded", commands),
            ("Slipstream_not_forwarded", refused),
            ("Slipstream_served_here", served_here),
        ];
        let counts = values.into_iter().map(|(name, value)| (name, value.to_string()));
        let texts = [
            ("Slipstream_forwarded_by_construct", listed(by_construct)),
            ("Slipstream_forward_refused_logins", report.refused_logins.join(", ")),
        ];
        counts.chain(texts).collect()
    }

    /// True if someone waits for a connection.
    pub(crate) fn has_waiting(&self) -> bool {
        self.pool.has_waiting()
    }

    /// The right to one more; None: `given` gets it later, unless the client's connection of this number is forgotten.
    pub(crate) fn permit(&self, number: u64, key: Key, given: Box<dyn FnOnce(Permit) + Send>) -> Option<Permit> {
        self.pool.permit(number, &key, given)
    }

    /// It waits no more.
    pub(crate) fn forget(&self, number: u64) {
        self.pool.forget(number);
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

    /// True if there is something for [`look`](Self::look).
    pub(crate) fn has_left(&self) -> bool {
        self.pool.has_idle() || self.lock_left().as_ref().is_some_and(|left| !left.is_empty())
    }

    /// Closes kept connections whose statements have ended, idle ones that are over, and those of a source that is not
    /// followed any more.
    pub(crate) fn look(&self, facts: &dyn Facts) {
        if !self.has_left() {
            return;
        }
        let number = facts.source_number();
        self.pool.look(Instant::now(), number);
        let mut guard = self.lock_left();
        let Some(left) = guard.as_mut().filter(|left| !left.is_empty()) else { return };
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
        self.pool.let_go();
    }

    /// Opens a connection; false if too many are being opened.
    pub(crate) fn open_for(&self, opening: Opening) -> bool {
        self.queue.try_send(Task::Open(Box::new(opening))).is_ok()
    }

    /// Another session may have a connection, once its reset, which was sent, is answered.
    pub(crate) fn reset(&self, stream: NonBlocking, permit: Permit, key: Key, until: Instant) {
        // A full queue: the connection is closed, which ends all that its session had too.
        let _ = self.queue.try_send(Task::Reset(Box::new(Resetting { stream, permit, key, until })));
    }

    /// What a user may read at the source; None: it is not known, and asked.
    pub(crate) fn grants(&self, login: &Arc<SourceLogin>, as_of: AsOf, now: Instant) -> Option<Arc<SourceGrants>> {
        let found = self.grants.find(login.user(), &as_of, now);
        if found.asks {
            let (login, grants) = (Arc::clone(login), Arc::clone(&self.grants));
            // A full queue: it is asked again.
            let _ = self.queue.try_send(Task::Grants(login, grants, as_of));
        }
        found.grants
    }

    /// Ends a statement at the source, or its connection.
    pub(crate) fn kill(&self, kill: Kill) {
        // A full queue means that nothing can be reached there now.
        let _ = self.queue.try_send(Task::Kill(kill));
    }
}

/// As many of these as a value of SHOW STATUS has place for.
fn listed(by_construct: &[(String, u64)]) -> String {
    let mut text = String::new();
    for (construct, count) in by_construct {
        let one = format!("{construct}: {count}");
        if text.chars().count() + one.chars().count() + 2 > STATUS_CHARACTERS {
            break;
        }
        text.push_str(if text.is_empty() { "" } else { "; " });
        text.push_str(&one);
    }
    text
}

fn run(tasks: &Mutex<Receiver<Task>>, facts: &dyn Facts, forward: Forward, refused: &Refused) {
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
                    done(Err(NotOpened::of(not_in_time())));
                    continue;
                }
                let wanted = Wanted { login: &login, start: &start, was_reset, values, forward };
                let as_of = refused.tries(&login, facts);
                let opened = open::open(wanted, permit, facts);
                refused.note(login.user(), opened.as_ref().err().map(|failed| failed.error.code), as_of);
                done(opened);
            }
            Ok(Task::Reset(resetting)) => {
                let Resetting { stream, permit, key, until } = *resetting;
                if let Ok(stream) = open::await_reset(stream) {
                    permit.give_back(Idle::new(stream, key, until));
                }
            }
            Ok(Task::Kill(kill)) => {
                let followed = facts.followed().ok().filter(|followed| followed.number == kill.number);
                let ended = followed.map(|followed| end(&kill, followed));
                // One that could not be reached has ended, or ends by itself.
                drop(ended);
                drop(kill.permit);
            }
            Ok(Task::Grants(login, grants, as_of)) => {
                let followed = facts.followed().ok().filter(|followed| followed.number == as_of.number);
                let tried = refused.tries(&login, facts);
                let said = followed.map(|followed| grants::ask(&login, followed));
                if let Some(said) = &said {
                    let error = said.as_ref().err().map(|error| error.server_code().unwrap_or_default());
                    refused.note(login.user(), error, tried);
                }
                match said {
                    Some(Ok(Some(found))) => grants.put(login.user(), &as_of, Some(found), Instant::now()),
                    Some(Err(error)) if error.server_code().is_some_and(|code| open::REFUSED.contains(&code)) => {
                        grants.put(login.user(), &as_of, None, Instant::now());
                    }
                    // Where it cannot be asked, a later statement asks again.
                    _ => {}
                }
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
    connection.close();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use client::ConnectOptions;

    use session::{ReplicaStatus, SchemaState};

    use super::*;
    use crate::config::Note;

    /// Follows this source.
    struct Follows {
        options: ConnectOptions,
        server_uuid: String,
        number: u64,
    }

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
            let Follows { options, server_uuid, number } = self;
            Ok(Followed { options: options.clone(), server_uuid: server_uuid.clone(), number: *number })
        }

        fn note(&self, note: Note) {
            panic!("{note:?}");
        }
    }

    #[test]
    fn nobody_connects_for_a_client_that_is_gone_or_late_or_to_kill_at_another_source() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let options = ConnectOptions { host: "127.0.0.1".into(), port, ..ConnectOptions::default() };
        let facts: Arc<dyn Facts> = Arc::new(Follows { options, server_uuid: String::new(), number: 2 });
        let sources = Sources::start(Forward::Off, 2, &facts).unwrap();
        let login = Arc::new(SourceLogin::new("app", "there").unwrap());
        let (queue, tasks) = sync_channel(3);
        let (told, errors) = std::sync::mpsc::channel();
        let waits = Arc::new(());
        let key = Key { user: "app".to_owned(), capabilities: 0, number: 2 };
        let late = Instant::now().checked_sub(OPEN_WITHIN + Duration::from_secs(1)).unwrap();
        for (waits, since) in [(Weak::new(), Instant::now()), (Arc::downgrade(&waits), late)] {
            let told = told.clone();
            let opening = Opening {
                login: Arc::clone(&login),
                start: SessionStart::default(),
                was_reset: false,
                values: None,
                permit: sources.permit(1, key.clone(), Box::new(|_| ())).unwrap(),
                waits,
                since,
                done: Box::new(move |opened| told.send(opened.err().unwrap().error).unwrap()),
            };
            queue.send(Task::Open(Box::new(opening))).unwrap();
        }
        queue.send(Task::Kill(Kill { login, number: 1, id: 7, query: false, permit: None })).unwrap();
        drop((queue, told));
        run(&Mutex::new(tasks), &*facts, Forward::All, &Refused::default());
        assert_eq!(errors.iter().map(|error| error.code).collect::<Vec<_>>(), [1429]);
        assert_eq!(sources.pool.sizes().open, 0, "both permits were given back");
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }

    #[test]
    fn users_that_the_source_does_not_let_in_are_named() {
        let refused = Refused::default();
        let named = || refused.names();
        [("shop", Some(1045)), ("other", Some(1040)), ("app", None), ("late", Some(3118))]
            .into_iter()
            .for_each(|(user, error)| refused.note(user, error, None));
        assert_eq!(named(), ["late", "shop"]);
        refused.note("shop", None, None);
        (0..=REFUSED_MAX).for_each(|number| refused.note(&number.to_string(), Some(1045), None));
        assert_eq!((named().len(), refused.lock().len()), (REFUSED_SHOWN, REFUSED_MAX));
    }

    #[test]
    fn as_many_constructs_are_listed_as_have_place() {
        let of = |name: &str, count| (name.to_owned(), count);
        assert_eq!(listed(&[]), "");
        assert_eq!(listed(&[of("GROUP BY", 7), of("a join", 2)]), "GROUP BY: 7; a join: 2");
        let many: Vec<_> = (0..64).map(|number| of(&"é".repeat(40), number)).collect();
        let text = listed(&many);
        assert!((970..=STATUS_CHARACTERS).contains(&text.chars().count()) && text.ends_with(": 21"), "{text}");
    }

    #[test]
    fn grants_are_asked_again_once_others_are_replayed() {
        let Some(server) = testkit::Server::or_skip("source-grants-asked", &[]) else { return };
        server.sql("CREATE USER app IDENTIFIED BY 'there'; GRANT SELECT ON shop.* TO app");
        let server_uuid = server.sql("SELECT @@server_uuid").trim().to_owned();
        let facts: Arc<dyn Facts> = Arc::new(Follows { options: server.login("nobody"), server_uuid, number: 1 });
        let sources = Sources::start(Forward::All, 2, &facts).unwrap();
        let login = Arc::new(SourceLogin::new("app", "there").unwrap());
        let as_of = |statements: &str| AsOf { number: 1, statements: statements.into(), engine: 0 };
        let deadline = Instant::now() + Duration::from_secs(60);
        let found = |as_of: &AsOf| loop {
            if let Some(found) = sources.grants(&login, as_of.clone(), Instant::now()) {
                return found;
            }
            assert!(Instant::now() < deadline, "nobody asks");
            std::thread::yield_now();
        };
        assert!(found(&as_of("")).may_read("shop", "t"));
        server.sql("REVOKE SELECT ON shop.* FROM app; GRANT SELECT ON log.* TO app");
        assert!(found(&as_of("")).may_read("shop", "t"), "it is not replayed");
        let now = found(&as_of("uuid:7"));
        assert!(!now.may_read("shop", "t") && now.may_read("log", "t"));
        assert_eq!(server.sql("SHOW GLOBAL STATUS LIKE 'Aborted_clients'").trim(), "Aborted_clients\t0");
    }

    #[test]
    fn one_read_tries_whether_replay_has_caught_up_once_it_has_or_a_second_later() {
        use MayWait::{No, Tries, Yes};
        let begun = Instant::now();
        let late = Late { begun, tried: AtomicU64::new(0), missed: Mutex::default() };
        let at = |ms| begun + Duration::from_millis(ms);
        let may = |ms| late.may_wait(at(ms), |_| false);
        assert_eq!(may(5), Yes);
        late.begins(at(10), None);
        assert_eq!([may(11), may(1009), may(1010), may(1010), may(2009)], [No, No, Tries, No, No]);
        assert_eq!(may(2010), Tries);
        late.begins(at(2020), Some(Missed { set: None, since: at(1900) }));
        assert_eq!(may(2021), No);
        assert_eq!(late.may_wait(at(2022), |missed| missed.since == at(1900)), Tries, "that is visible");
        assert_eq!(late.may_wait(at(2022), |_| true), No, "and nobody else until it knows more");
        late.was_not_tried();
        assert_eq!([may(2023), may(2024)], [Tries, No]);
        assert_eq!([may(3022), may(3023)], [No, Tries]);
        late.tried.store(0, Relaxed);
        late.was_not_tried();
        assert_eq!(may(3024), Yes);
    }
}
