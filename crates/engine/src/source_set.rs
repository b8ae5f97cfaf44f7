//! What the source shows to its readers, asked when a client's read needs it.
//!
//! In: times at or after which the source must have been asked. Out: a set that has all it showed then, one answer for
//! all who came before it was asked; or why there is none. Never here: an answer by a server other than the followed
//! one, or by one that lacks what was visible here; a password tried in a row.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use base::fail_points::is_planted;
use base::{GtidSet, LogPosition};
use client::{ClientError, ConnectOptions, Connection, Interrupter};
use door::{Registration, SourceSet, SqlError, Waker};
use replica::{Replica, SourceLogin};
use source::group::{self, BarrierError};
use source::preflight::parse_owned;

use crate::engine::Engine;
use crate::gtids::is_received;

/// How long one packet of the source may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long a member of a group is waited for until it has committed all that its group had ordered: less than
/// slipstream_read_timeout by default, so that readers are told what it waits for.
const BARRIER_WITHIN: Duration = Duration::from_secs(8);
/// How often the thread looks whether it is still needed, and whether the source belongs to a group by now.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A look at what has been received, while a set of the source's waits for it: the first, and the longest time between.
const RECEIVED_LOOKS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));
/// After so long without a request the connection is closed.
const IDLE: Duration = Duration::from_secs(60);

/// What the source said.
struct Answer {
    asked: Instant,
    /// Number of requests for another source or login until then.
    requests: u64,
    set: Arc<GtidSet>,
    /// Of these, what it counts as executed.
    executed: Arc<GtidSet>,
    time_us: u64,
    /// Why others may have acknowledged more: it has left its group.
    not_of_all: Option<SqlError>,
}

#[derive(Default)]
struct State {
    /// The newest answer, and when it was asked for.
    answer: Option<Answer>,
    /// The newest failure, and when that was asked.
    failure: Option<(Instant, SqlError)>,
    /// Someone waits since a time after the last request was sent.
    is_wanted: bool,
    waiting: Vec<Waker>,
    has_thread: bool,
    /// Ends the question that is being asked, which went to the source of this number of requests.
    asking: Option<(u64, Interrupter)>,
}

/// Asks the source, in a thread that begins with the first request.
#[derive(Default)]
pub(crate) struct SourceAsker {
    state: Mutex<State>,
    changed: Condvar,
}

impl SourceAsker {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the source had executed when it was asked at `since` or later; of all that was acknowledged to anybody if
    /// `of_all`.
    pub(crate) fn set(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        of_all: bool,
        (since, arrived): (Instant, Instant),
        waker: Waker,
    ) -> SourceSet {
        let mut state = self.lock();
        let is_late_enough = |answer: &&Answer| answer.asked >= since || is_planted("early_view");
        if let Some(answer) = state.answer.as_ref().filter(is_late_enough) {
            return match answer.not_of_all.as_ref().filter(|_| of_all) {
                Some(why) => SourceSet::Failed(why.clone()),
                None => SourceSet::Known(Arc::clone(&answer.set)),
            };
        }
        if let Some((asked, error)) = &state.failure
            && *asked >= arrived
        {
            return SourceSet::Failed(error.clone());
        }
        let Some(login) = engine.login().cloned() else {
            return SourceSet::Failed(error("the source is files, which cannot be asked"));
        };
        if let Some((_, asked)) = state.asking.take_if(|(requests, _)| *requests != login.requests()) {
            // The one that does not answer need not be the source any more.
            asked.shutdown();
        }
        state.waiting.retain(Waker::is_live);
        state.waiting.push(waker);
        state.is_wanted = true;
        if !state.has_thread {
            let (asker, engine) = (Arc::clone(self), Arc::downgrade(engine));
            let thread = std::thread::Builder::new().name("source-set".into());
            if let Err(why) = thread.spawn(move || asker.run(&login, &engine)) {
                return SourceSet::Failed(error(&format!("no thread to ask the source: {why}")));
            }
            state.has_thread = true;
        }
        drop(state);
        self.changed.notify_one();
        SourceSet::Awaited(Registration::new(|| ()))
    }

    /// What the source counted as executed when it was asked at `after` or later.
    pub(crate) fn executed(&self, engine: &Engine, after: Instant) -> Option<Arc<GtidSet>> {
        self.answer_since(engine, after, |answer| Arc::clone(&answer.executed))
    }

    /// The source's clock when it was asked at `after` or later, in microseconds since 1970.
    pub(crate) fn time_us(&self, engine: &Engine, after: Instant) -> Option<u64> {
        self.answer_since(engine, after, |answer| answer.time_us)
    }

    fn answer_since<T>(&self, engine: &Engine, after: Instant, take: impl FnOnce(&Answer) -> T) -> Option<T> {
        let requests = engine.login()?.requests();
        let state = self.lock();
        state.answer.as_ref().filter(|answer| answer.asked >= after && answer.requests == requests).map(take)
    }

    /// Why there was no answer the last time, if there was none since.
    pub(crate) fn last_failure(&self) -> Option<String> {
        let state = self.lock();
        let (failed, error) = state.failure.as_ref()?;
        let answered = state.answer.as_ref().is_some_and(|answer| answer.asked > *failed);
        (!answered).then(|| error.message.clone())
    }

    /// Asks whenever someone waits, until the engine is gone.
    fn run(&self, login: &SourceLogin, engine: &Weak<Engine>) {
        let mut connection = None;
        let mut last = Instant::now();
        let mut seen = login.requests();
        loop {
            if !self.wait_for_request() {
                if engine.strong_count() == 0 {
                    return;
                }
                if last.elapsed() > IDLE {
                    connection = None;
                }
                continue;
            }
            let Some(engine) = engine.upgrade() else { return };
            let requests = login.requests();
            if std::mem::replace(&mut seen, requests) != requests {
                // The login, or the source, may be another one now.
                connection = None;
            }
            let visible = engine.replica().map(|replica| replica.pipeline().store.visibility().executed());
            // Everything the source acknowledged before this is in its answer.
            let asked = Instant::now();
            let answer = match visible {
                Err(failure) => Err(error(&failure.text)),
                Ok(visible) => self
                    .ask(&mut connection, login)
                    .and_then(|said| said.checked(&engine, &visible))
                    .and_then(|said| self.with_shown(said, &engine)),
            };
            last = Instant::now();
            if let Some(answer) = answer.transpose() {
                self.answered((asked, requests), answer);
            }
        }
    }

    /// Takes a request; false if there is none for a while.
    fn wait_for_request(&self) -> bool {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, LOOK_EVERY, |state| !state.is_wanted);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.is_wanted)
    }

    /// Adds what the source shows already and does not count as executed: a commit's rows are visible before its GTID
    /// is in gtid_executed, but not before the end of the log has passed it. Which GTIDs those are is known once the
    /// log up to there has come here. None if it has not, and someone still waits: the source may be another one by then.
    fn with_shown(&self, said: Said, engine: &Engine) -> Result<Option<Said>, SqlError> {
        let Some(end) = said.end_of_log.clone() else { return Ok(Some(said)) };
        let until = Instant::now() + ANSWER_WITHIN;
        let mut pause = RECEIVED_LOOKS.0;
        loop {
            let replica = engine.replica().map_err(|failure| error(&failure.text))?;
            if let Some(received) = received_to(&replica, &end) {
                return Ok(Some(said.with(&received)));
            }
            drop(replica);
            if Instant::now() > until {
                break;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(RECEIVED_LOOKS.1);
        }
        let mut state = self.lock();
        state.is_wanted = state.waiting.iter().any(Waker::is_live);
        match state.is_wanted {
            true => Ok(None),
            false => Err(error(&format!("the source's log up to {end} has not arrived here"))),
        }
    }

    /// All who wait look again: those who came after the request was sent ask anew.
    fn answered(&self, (asked, requests): (Instant, u64), answer: Result<Said, SqlError>) {
        let mut state = self.lock();
        match answer {
            Ok(Said { executed, shown, not_of_all, time_us, .. }) => {
                let executed = Arc::new(executed);
                let set = shown.map_or_else(|| Arc::clone(&executed), Arc::new);
                state.answer = Some(Answer { asked, requests, set, executed, time_us, not_of_all });
            }
            Err(error) => state.failure = Some((asked, error)),
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// 1105 with this reason.
fn error(why: &str) -> SqlError {
    SqlError::new(1105, "HY000", format!("read consistency: {why}"))
}

/// What the source says of itself.
struct Said {
    server_uuid: String,
    /// In progress. Such a transaction may be in the log, and visible here, before it counts as executed: the log is
    /// sent once it is written, and the commit ends after that.
    owned: GtidSet,
    executed: GtidSet,
    /// With those of `owned` that its readers may see; None: none.
    shown: Option<GtidSet>,
    purged: GtidSet,
    /// Its clock, in microseconds since 1970.
    time_us: u64,
    not_of_all: Option<SqlError>,
    /// Asked for after all others, where transactions are in progress.
    end_of_log: Option<LogPosition>,
}

/// What has been received, if the log up to this place has.
fn received_to(replica: &Replica, end: &LogPosition) -> Option<GtidSet> {
    let received = replica.received();
    (is_received(&received, &end.file, end.offset) == Some(true)).then_some(received.gtids)
}

/// A kept connection to the source.
struct Kept {
    connection: Connection,
    /// The source is to be in a group, as of this time.
    is_member: (bool, Instant),
}

impl Kept {
    fn connect(login: &SourceLogin) -> client::Result<Kept> {
        // A member that waits for its group's transactions says nothing meanwhile.
        let read_timeout = Some(BARRIER_WITHIN + ANSWER_WITHIN);
        let options = ConnectOptions { connect_timeout: ANSWER_WITHIN, read_timeout, ..login.for_try() };
        let mut connection = Connection::connect(&options)?;
        let is_member = (group::is_member(&mut connection)?, Instant::now());
        if !is_member.0 {
            connection.set_read_timeout(Some(ANSWER_WITHIN))?;
        }
        Ok(Kept { connection, is_member })
    }

    fn read(&mut self) -> Result<Said, BarrierError> {
        if self.is_member.1.elapsed() > LOOK_EVERY {
            let is_member = group::is_member(&mut self.connection)?;
            if is_member != self.is_member.0 {
                return Err(ClientError::Closed.into());
            }
            self.is_member.1 = Instant::now();
        }
        if !self.is_member.0 {
            return Ok(read(&mut self.connection)?);
        }
        match group::behind_barrier(&mut self.connection, BARRIER_WITHIN, read) {
            // One that has left keeps answering, of itself.
            Err(why @ (BarrierError::NotOnline(_) | BarrierError::NoMajority(_))) => {
                Ok(Said { not_of_all: Some(error(&why.to_string())), ..read(&mut self.connection)? })
            }
            said => said,
        }
    }
}

impl SourceAsker {
    /// Asks over the kept connection, or over a new one if that is gone or the group has changed meanwhile.
    fn ask(&self, kept: &mut Option<Kept>, login: &SourceLogin) -> Result<Said, SqlError> {
        let failed = |why: ClientError| error(&format!("the source cannot be asked: {why}"));
        let mut may_retry = true;
        loop {
            let mut asked = match kept.take() {
                Some(kept) => kept,
                None => Kept::connect(login).map_err(failed)?,
            };
            self.lock().asking = Some((login.requests(), asked.connection.interrupter().map_err(failed)?));
            let said = asked.read();
            self.lock().asking = None;
            match said {
                Ok(said) => {
                    *kept = said.not_of_all.is_none().then_some(asked);
                    return Ok(said);
                }
                Err(BarrierError::Client(_) | BarrierError::ViewChanged { .. }) if may_retry => may_retry = false,
                Err(BarrierError::Client(why)) => return Err(failed(why)),
                Err(why) => return Err(error(&why.to_string())),
            }
        }
    }
}

fn read(connection: &mut Connection) -> client::Result<Said> {
    // gtid_owned first: a transaction that ends in between is then in one of the two.
    let what = "SELECT @@global.server_uuid, @@global.gtid_owned, @@global.gtid_executed, @@global.gtid_purged, \
                TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
    let answer = connection.query_gtids(what)?;
    let owned: String = answer.told(0, 1, what)?;
    let owned = parse_owned(&owned).ok_or(ClientError::UnexpectedAnswer { what })?;
    let (server_uuid, executed, purged) =
        (answer.told(0, 0, what)?, answer.told(0, 2, what)?, answer.told(0, 3, what)?);
    let time_us = answer.told(0, 4, what)?;
    let owned = if is_planted("bound_by_set") { GtidSet::new() } else { owned };
    let time_us = if is_planted("skewed_clock") { time_us + 2_000_000 } else { time_us };
    let end_of_log = if owned.is_empty() { None } else { Some(end_of_log(connection)?) };
    Ok(Said { server_uuid, owned, executed, shown: None, purged, time_us, not_of_all: None, end_of_log })
}

/// The end of the source's log.
fn end_of_log(connection: &mut Connection) -> client::Result<LogPosition> {
    // Renamed in 8.2, and the old name is gone in 8.4.
    let what = "SHOW BINARY LOG STATUS";
    let answer = connection.query_renamed(what, "SHOW MASTER STATUS")?;
    Ok(LogPosition { file: answer.told::<String>(0, 0, what)?.into(), offset: answer.told(0, 1, what)? })
}

impl Said {
    /// With those in progress that have been received.
    fn with(mut self, received: &GtidSet) -> Said {
        let mut shown = self.executed.clone();
        shown.union_with(&self.owned.intersection(received));
        self.shown = Some(shown);
        self
    }

    /// Of this, what the source neither has executed nor is committing.
    fn lacks(&self, visible: &GtidSet) -> GtidSet {
        visible.subtract(&self.executed).subtract(&self.owned)
    }

    /// The answer, if it is one to go by. `visible` was visible here before it was asked for.
    fn checked(self, engine: &Engine, visible: &GtidSet) -> Result<Said, SqlError> {
        let replica = engine.replica().map_err(|failure| error(&failure.text))?;
        let followed = replica.followed();
        if !followed.is_empty() && followed != self.server_uuid {
            let text =
                format!("the server that answers is {}, and {followed} is the followed source", self.server_uuid);
            return Err(error(&text));
        }
        let lost = self.lacks(visible);
        if !lost.is_empty() {
            if let Some(why) = self.not_of_all {
                return Err(why);
            }
            return Err(error(&format!("the source lacks transactions that were visible here: {lost}")));
        }
        let received = replica.received().gtids;
        let missing = self.executed.subtract(&received).subtract(&replica.pipeline().store.visibility().executed());
        let gone = missing.intersection(&self.purged);
        if !gone.is_empty() {
            return Err(error(&format!("the source has purged transactions that have not arrived here: {gone}")));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_committed_is_not_lost() {
        let set = |text: &str| text.replace('A', "aaaaaaaa-0000-0000-0000-000000000001").parse().unwrap();
        let said = Said {
            server_uuid: String::new(),
            owned: parse_owned("aaaaaaaa-0000-0000-0000-000000000001:8#14:10#15").unwrap(),
            executed: set("A:1-7:9"),
            shown: None,
            purged: GtidSet::new(),
            time_us: 0,
            not_of_all: None,
            end_of_log: None,
        };
        assert!(said.lacks(&set("A:1-10")).is_empty());
        assert_eq!(said.lacks(&set("A:1-12")), set("A:11-12"));
        let said = said.with(&set("A:1-9"));
        assert_eq!((said.shown, said.executed), (Some(set("A:1-7:8:9")), set("A:1-7:9")));
    }
}
