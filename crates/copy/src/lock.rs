//! The moment of the copy: all snapshots opened at one GTID set, under a lock of milliseconds (invariants 22 to 24).
//!
//! In: connections, and how long writers may be kept waiting. Out: open snapshots, G, and what was read under the lock.
//! Invariants: nothing commits between FLUSH TABLES WITH READ LOCK and UNLOCK TABLES, so the snapshots of all
//! connections and gtid_executed belong to one moment; no XA transaction is prepared at that moment; the lock is
//! released whatever happens (in the worst case because the connection closes). Never here: reading of definitions or
//! rows, other than what `under_lock` does.
//!
//! The lock is requested politely. While a statement has been running for longer than `lock_wait`, it is not requested
//! at all: the statement would block it while it blocks every writer, and (seen on 9.7) the tables that the statement
//! uses stay closed to new statements until it ends, long after our attempt is over.
//!
//! LOCK INSTANCE FOR BACKUP is tried first, if the account may, because it waits for DDL without blocking writers. It
//! is then released and acquired again under the read lock. In the opposite order it deadlocks with ALTER TABLE, and
//! the ALTER may be the victim (seen on 9.7).
//!
//! An attempt takes 100 ms at first and `lock_wait` at most, see `source::polite_lock`. Pauses between attempts double
//! from 100 ms to 2 s, with random jitter so that several copies do not stay in step.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::GtidSet;
use client::session::{gtid_executed, quoted};
use client::{ClientError, ConnectOptions, Connection, ResultSet};
use source::polite_lock::{LockTries, LockTry, ROW_WAITS_PAUSE};

use crate::error::CopyError;
use crate::options::CopyOptions;
use crate::preparing::Preparing;

/// ER_LOCK_WAIT_TIMEOUT.
const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// ER_DBACCESS_DENIED_ERROR and ER_SPECIFIC_ACCESS_DENIED_ERROR.
const ACCESS_DENIED: [u16; 2] = [1044, 1227];
/// First and longest pause between two attempts.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
const PROCESSLIST: &str = "SHOW PROCESSLIST";
/// Longest time for which a sleep ignores the stop flag.
const STOP_POLL: Duration = Duration::from_millis(50);

/// Connections to one source.
pub(crate) struct Sessions {
    pub server: String,
    /// How it is reached.
    pub login: ConnectOptions,
    /// After `freeze`, each has an open transaction, and all see the same rows.
    pub readers: Vec<Connection>,
    /// Takes the locks; sees current data.
    pub control: Connection,
    /// Is told what is being done.
    pub preparing: Arc<Preparing>,
}

/// Which lock keeps rows from changing while snapshots are opened.
pub(crate) enum ReadLock {
    /// FLUSH TABLES WITH READ LOCK.
    All,
    /// LOCK TABLES … READ of one table. Transactions on other tables continue, and the GTID set tells exactly which of
    /// this table's transactions the snapshots see.
    Table(String, String),
}

impl ReadLock {
    fn of_all(&self) -> bool {
        matches!(self, ReadLock::All)
    }

    fn statement(&self) -> String {
        match self {
            ReadLock::All => "FLUSH TABLES WITH READ LOCK".into(),
            ReadLock::Table(db, table) => format!("LOCK TABLES {}.{} READ", quoted(db), quoted(table)),
        }
    }
}

/// The moment that all snapshots see.
pub(crate) struct Moment<T> {
    pub executed: GtidSet,
    /// The source's clock at that moment, to the second.
    pub now: String,
    pub opened: Instant,
    pub lock_wait_us: u64,
    /// When LOCK INSTANCE FOR BACKUP was acquired, if it is held.
    pub backup_since: Option<Instant>,
    /// Result of `under_lock`.
    pub taken: T,
}

/// Outcome of LOCK INSTANCE FOR BACKUP.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InstanceLock {
    /// Held since then.
    Held(Instant),
    Busy,
    /// The account lacks BACKUP_ADMIN.
    NotAllowed,
}

/// Result of one lock; `taken` is None if XA transactions are prepared.
struct Frozen<T> {
    executed: GtidSet,
    now: String,
    opened: Instant,
    backup_since: Option<Instant>,
    xids: Vec<String>,
    taken: Option<T>,
}

/// State of the attempts, with their limits.
pub(crate) struct Patience<'a> {
    pub options: &'a CopyOptions,
    pub stop: &'a AtomicBool,
    pub begun: Instant,
    pub pause: Duration,
    /// Number of lock requests.
    pub tries: u32,
    /// Longest time for which one of them may have kept writers waiting, µs.
    pub longest_try_us: u64,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(options: &'a CopyOptions, stop: &'a AtomicBool) -> Patience<'a> {
        Patience { options, stop, begun: Instant::now(), pause: BACK_OFF.0, tries: 0, longest_try_us: 0 }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// `give_up` if the allowed time is over, or [`CopyError::Stopped`].
    pub(crate) fn back_off(&mut self, give_up: impl FnOnce() -> CopyError) -> Result<(), CopyError> {
        let jitter = (random() % 1000) as u32;
        let pause = self.pause / 2 + self.pause / 2000 * jitter;
        self.pause = (self.pause * 2).min(BACK_OFF.1);
        if self.begun.elapsed() + pause >= self.options.lock_timeout {
            return Err(give_up());
        }
        self.sleep(pause)
    }

    pub(crate) fn check_stop(&self) -> Result<(), CopyError> {
        if self.stop.load(Ordering::Relaxed) { Err(CopyError::Stopped) } else { Ok(()) }
    }

    pub(crate) fn sleep(&self, pause: Duration) -> Result<(), CopyError> {
        let until = Instant::now() + pause;
        loop {
            self.check_stop()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(STOP_POLL));
        }
    }
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Sessions {
    pub(crate) fn at<T>(&self, result: client::Result<T>) -> Result<T, CopyError> {
        result.map_err(|error| self.failed(error))
    }

    pub(crate) fn failed(&self, error: ClientError) -> CopyError {
        CopyError::Source { server: self.server.clone(), error }
    }

    /// Opens all snapshots at one moment and runs `under_lock` on `control` while writers wait. LOCK INSTANCE FOR
    /// BACKUP stays held if it could be acquired; call `unlock_instance` once the definitions are read.
    pub(crate) fn freeze<T>(
        &mut self,
        patience: &mut Patience<'_>,
        lock: &ReadLock,
        mut under_lock: impl FnMut(&mut Connection) -> Result<T, CopyError>,
    ) -> Result<Moment<T>, CopyError> {
        let mut tries = LockTries::new(patience.options.lock_wait);
        let seconds = tries.timeout_seconds();
        let seconds_allowed = patience.options.lock_timeout.as_secs();
        let set = format!("SET SESSION lock_wait_timeout = {seconds}");
        let done = self.control.exec(&set);
        self.at(done)?;
        loop {
            // While XA transactions are prepared, a lock would be useless.
            let xids = self.prepared_xa()?;
            if !xids.is_empty() {
                patience.back_off(|| CopyError::PreparedXa { xids })?;
                continue;
            }
            // LOCK TABLES only waits for, and blocks, statements on its own table.
            let long = if lock.of_all() { self.long_statement(seconds)? } else { None };
            if let Some(statement) = long {
                patience.back_off(|| self.no_lock(seconds_allowed, &statement))?;
                continue;
            }
            patience.tries += 1;
            if self.lock_instance()? == InstanceLock::Busy {
                let reason = "a DDL statement holds off LOCK INSTANCE FOR BACKUP";
                patience.back_off(|| self.no_lock(seconds_allowed, reason))?;
                continue;
            }
            self.unlock_instance()?;
            let LockTry { asked, waited, had, row_waits } = self.try_lock(&mut tries, lock)?;
            let lock_wait_us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
            patience.longest_try_us = patience.longest_try_us.max(lock_wait_us);
            if !had {
                let reason = format!(
                    "long statements, or transactions that wait for each other's rows all the time, hold off {}",
                    lock.statement()
                );
                if row_waits {
                    patience.pause = patience.pause.min(ROW_WAITS_PAUSE);
                }
                patience.back_off(|| self.no_lock(seconds_allowed, &reason))?;
                continue;
            }
            let outcome = self.snapshot(&mut under_lock);
            let unlocked = self.control.exec("UNLOCK TABLES");
            patience.longest_try_us = patience.longest_try_us.max(micros(asked));
            let Frozen { executed, now, opened, backup_since, xids, taken } = outcome?;
            self.at(unlocked)?;
            if let Some(taken) = taken {
                return Ok(Moment { executed, now, opened, lock_wait_us, backup_since, taken });
            }
            self.unlock_instance()?;
            patience.back_off(|| CopyError::PreparedXa { xids })?;
        }
    }

    /// Makes one attempt. The first reader, idle until the lock is held, observes it.
    fn try_lock(&mut self, tries: &mut LockTries, lock: &ReadLock) -> Result<LockTry, CopyError> {
        let Some(beside) = self.readers.first_mut() else { unreachable!("a copy has a connection that reads") };
        let tried = tries.lock(&mut self.control, beside, &lock.statement());
        self.at(tried)
    }

    /// Determines a moment without a lock: a GTID set that contains no prepared transaction. A transaction that is
    /// prepared and ended between the two queries makes replay stop at its XA COMMIT, so it is not missed silently.
    pub(crate) fn mark<T>(&mut self, patience: &mut Patience<'_>, taken: T) -> Result<Moment<T>, CopyError> {
        loop {
            let before = self.prepared_xa()?;
            let now = now(&mut self.control);
            let now = self.at(now)?;
            let executed = self.executed()?;
            let xids = if before.is_empty() { self.prepared_xa()? } else { before };
            if xids.is_empty() {
                let opened = Instant::now();
                return Ok(Moment { executed, now, opened, lock_wait_us: 0, backup_since: None, taken });
            }
            patience.back_off(|| CopyError::PreparedXa { xids })?;
        }
    }

    pub(crate) fn executed(&mut self) -> Result<GtidSet, CopyError> {
        let executed = gtid_executed(&mut self.control);
        self.at(executed)?.ok_or_else(|| CopyError::NoGtids { server: self.server.clone() })
    }

    /// Everything that is done while writers wait.
    fn snapshot<T>(
        &mut self,
        under_lock: &mut impl FnMut(&mut Connection) -> Result<T, CopyError>,
    ) -> Result<Frozen<T>, CopyError> {
        let backup_since = match self.lock_instance()? {
            InstanceLock::Held(since) => Some(since),
            // Under the read lock, only another backup tool can block it.
            InstanceLock::Busy | InstanceLock::NotAllowed => None,
        };
        let opened = Instant::now();
        let (readers, control) = (&mut self.readers, &mut self.control);
        // In parallel, so that the lock lasts as long as the slowest one instead of the sum.
        let (snapshots, facts) = std::thread::scope(|scope| {
            let opening: Vec<_> = (readers.iter_mut())
                .map(|reader| scope.spawn(|| reader.exec("START TRANSACTION WITH CONSISTENT SNAPSHOT").map(|_| ())))
                .collect();
            let facts = gtid_executed(control).and_then(|set| Ok((set, now(control)?)));
            let snapshots: client::Result<()> = opening
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            (snapshots, facts)
        });
        self.at(snapshots)?;
        let (executed, now) = self.at(facts)?;
        let executed = executed.ok_or_else(|| CopyError::NoGtids { server: self.server.clone() })?;
        // After reading the GTID set: a PREPARE in the set is visible here, because no XA COMMIT can come in between.
        let xids = self.prepared_xa()?;
        let taken = if xids.is_empty() { Some(under_lock(&mut self.control)?) } else { None };
        Ok(Frozen { executed, now, opened, backup_since, xids, taken })
    }

    fn no_lock(&self, seconds: u64, reason: &str) -> CopyError {
        CopyError::NoLock { server: self.server.clone(), seconds, reason: reason.to_owned() }
    }

    /// Identifiers of prepared XA transactions, as XA COMMIT takes them.
    fn prepared_xa(&mut self) -> Result<Vec<String>, CopyError> {
        let answer = self.control.query("XA RECOVER CONVERT XID");
        let result = self.at(answer)?;
        let name = |row| -> Option<String> {
            let number = |column| result.text(row, column)?.parse::<usize>().ok();
            let hex = result.text(row, 3)?;
            let hex = hex.strip_prefix("0x").unwrap_or(&hex);
            let (gtrid, bqual) = hex.split_at_checked(number(1)? * 2)?;
            Some(format!("X'{gtrid}',X'{bqual}',{}", result.text(row, 0)?))
        };
        Ok((0..result.rows.len()).map(|row| name(row).unwrap_or_else(|| "(unreadable)".into())).collect())
    }

    /// Finds somebody else's statement that has been running for more than `seconds`. Without the PROCESS privilege,
    /// only statements of our own account are visible.
    fn long_statement(&mut self, seconds: u64) -> Result<Option<String>, CopyError> {
        let answer = self.control.query(PROCESSLIST);
        let list = self.at(answer)?;
        self.at(long_statement_in(&list, self.control.connection_id(), seconds))
    }

    fn lock_instance(&mut self) -> Result<InstanceLock, CopyError> {
        let since = Instant::now();
        match self.control.exec("LOCK INSTANCE FOR BACKUP") {
            Ok(_) => Ok(InstanceLock::Held(since)),
            Err(error) => match error.server_code() {
                Some(LOCK_WAIT_TIMEOUT) => Ok(InstanceLock::Busy),
                Some(code) if ACCESS_DENIED.contains(&code) => Ok(InstanceLock::NotAllowed),
                _ => Err(self.failed(error)),
            },
        }
    }

    /// Releases LOCK INSTANCE FOR BACKUP, so that DDL continues. Does nothing if it is not held.
    pub(crate) fn unlock_instance(&mut self) -> Result<(), CopyError> {
        match self.control.exec("UNLOCK INSTANCE") {
            Err(error) if error.server_code().is_some_and(|code| ACCESS_DENIED.contains(&code)) => Ok(()),
            Err(error) => Err(self.failed(error)),
            Ok(_) => Ok(()),
        }
    }
}

/// The first statement in the list that has been running for more than `seconds`, but for those of connection `own` and
/// of the server itself.
fn long_statement_in(list: &ResultSet, own: u32, seconds: u64) -> client::Result<Option<String>> {
    let column = |name| {
        list.column(name).ok_or_else(|| ClientError::unexpected_value(PROCESSLIST, &format!("column {name}"), None))
    };
    let [id, user, command, time] = [column("Id")?, column("User")?, column("Command")?, column("Time")?];
    for row in 0..list.rows.len() {
        let user = list.text(row, user).unwrap_or_default();
        let runs = matches!(list.text(row, command).as_deref(), Some("Query" | "Execute"));
        if !runs || matches!(user.as_str(), "system user" | "event_scheduler") {
            continue;
        }
        let id: u64 = list.told(row, id, PROCESSLIST)?;
        // NULL before its first statement; less than zero after SET timestamp.
        let time: i128 = if list.text(row, time).is_none() { 0 } else { list.told(row, time, PROCESSLIST)? };
        if id != u64::from(own) && time > i128::from(seconds) {
            return Ok(Some(format!("a statement of {user} (connection {id}) has been running for {time} s")));
        }
    }
    Ok(None)
}

fn now(connection: &mut Connection) -> client::Result<String> {
    let what = "SELECT NOW()";
    connection.query(what)?.told(0, 0, what)
}

pub(crate) fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(columns: &[&str], rows: &[[Option<&str>; 4]]) -> ResultSet {
        let column = |name: &&str| client::Column { name: (*name).to_owned(), ..Default::default() };
        let row = |row: &[Option<&str>; 4]| row.iter().map(|text| text.map(|text| text.into())).collect();
        let (columns, rows) = (columns.iter().map(column).collect(), rows.iter().map(row).collect());
        ResultSet { columns, rows, ..ResultSet::default() }
    }

    #[test]
    fn a_long_statement_is_found_in_what_servers_list() {
        const COLUMNS: [&str; 4] = ["Id", "User", "Command", "Time"];
        let rows = [
            [Some("5"), Some("event_scheduler"), Some("Daemon"), Some("900")],
            [Some("6"), Some("system user"), Some("Query"), Some("-3")],
            [Some("7"), Some("unauthenticated user"), Some("Connect"), None],
            [Some("8"), Some("a"), Some("Query"), None],
            [Some("9"), Some("own"), Some("Query"), Some("900")],
            [Some("10"), Some("b"), Some("Query"), Some("-86400")],
            [Some("11"), Some("c"), Some("Sleep"), Some("900")],
            [Some("12"), Some("d"), Some("Execute"), Some("2")],
        ];
        let found = |rows: &[_], seconds| long_statement_in(&list(&COLUMNS, rows), 9, seconds);
        assert_eq!(found(&rows, 2).unwrap(), None);
        assert!(found(&rows, 1).unwrap().unwrap().contains("of d (connection 12) has been running for 2 s"));
        for [id, time] in [[Some("1"), Some("x")], [None, Some("3")]] {
            let error = found(&[[id, Some("e"), Some("Query"), time]], 2).unwrap_err().to_string();
            assert!(error.contains("SHOW PROCESSLIST: "), "{error}");
        }
        let error = long_statement_in(&list(&["Id", "User", "Command", "Seconds"], &rows), 9, 2).unwrap_err();
        assert!(error.to_string().contains("column Time is NULL or missing"), "{error}");
    }
}
