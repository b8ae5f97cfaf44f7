//! Locks that keep a server's writers waiting, asked for so that they wait for a moment only (invariant 24).
//!
//! In: the connection that is to hold the lock, another one to the same server beside it. Out: the lock, or that it was
//! not had within the time one try may take. Never here: a try that goes on when its time is over, a pause.
//!
//! `lock_wait_timeout` counts whole seconds, and a try may be without hope long before: where a transaction has a row
//! that a statement of another one waits for, FLUSH TABLES WITH READ LOCK waits for that statement, the transaction's
//! next statement waits behind FLUSH TABLES, and the server sees no deadlock in it. Such a try is had at once or not
//! before `innodb_lock_wait_timeout` (50 s). So a try is ended from beside with KILL QUERY, which needs no privilege
//! among connections of one account; it begins when nobody waits for a row, if such a moment is seen; and it grows from
//! try to try only where no row waits are seen at its end: then it is statements that hold it off, and longer tries
//! outwait those.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use client::{Connection, Result};

/// ER_LOCK_WAIT_TIMEOUT and ER_QUERY_INTERRUPTED: the try was ended by its limit.
const ENDED: [u16; 2] = [1205, 1317];
/// How long the first try takes at most.
const FIRST_TRY: Duration = Duration::from_millis(100);
/// How long one takes that begins while somebody waits for a row.
const HOPEFUL_TRY: Duration = Duration::from_millis(40);
/// One try in so many is as long as allowed: somebody may wait for rows all the time besides what holds the lock off.
const LONGEST_EVERY: u32 = 50;
/// How long a moment without row waits is looked for, and how often.
const QUIET_WITHIN: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How a try went.
#[derive(Clone, Copy, Debug)]
pub struct LockTry {
    /// Since when writers may have waited for it.
    pub asked: Instant,
    /// For how long, by the time the lock was had or let go.
    pub waited: Duration,
    /// Whether the lock is held.
    pub had: bool,
    /// Not had, and statements wait for rows: more tries help, longer ones do not.
    pub row_waits: bool,
}

/// The longest pause between tries while statements wait for rows: the next moment may be the right one, and a try is
/// short.
pub const ROW_WAITS_PAUSE: Duration = Duration::from_millis(200);

/// How long each of a row of tries may take.
#[derive(Debug)]
pub struct LockTries {
    longest: Duration,
    limit: Duration,
    tries: u32,
}

impl LockTries {
    /// `longest`: what a single try may take.
    #[must_use]
    pub fn new(longest: Duration) -> LockTries {
        LockTries { longest, limit: FIRST_TRY.min(longest), tries: 0 }
    }

    /// What `lock_wait_timeout` is to be set to, in seconds: it ends a try that KILL QUERY does not reach.
    #[must_use]
    pub fn timeout_seconds(&self) -> u64 {
        self.longest.as_secs() + u64::from(self.longest.subsec_nanos() > 0)
    }

    /// Asks for a lock with `sql` on `connection`; `beside` is idle. Where it was not had in this try's time nothing is
    /// held and nobody waits for it any more.
    ///
    /// # Errors
    /// What either connection says but that the time was over.
    pub fn lock(&mut self, connection: &mut Connection, beside: &mut Connection, sql: &str) -> Result<LockTry> {
        self.tries += 1;
        let full = self.tries.is_multiple_of(LONGEST_EVERY);
        let limit = match (full, is_quiet(beside)?) {
            (true, _) => self.longest,
            (false, true) => self.limit,
            (false, false) => self.limit.min(HOPEFUL_TRY),
        };
        let asked = Instant::now();
        let had = exec_within(connection, beside, sql, limit)?;
        let waited = asked.elapsed();
        let row_waits = !had && row_waits(beside)? > 0;
        if !had && !full && !row_waits {
            self.limit = (self.limit * 2).min(self.longest);
        }
        Ok(LockTry { asked, waited, had, row_waits })
    }
}

/// Executes a statement; false when it took longer than `limit`, or than its own timeout, and was ended. `beside` is
/// another connection of the same account.
///
/// # Errors
/// What the server says of the statement, if not that it was ended. Where it cannot be ended from beside, its own
/// timeout decides.
pub fn exec_within(connection: &mut Connection, beside: &mut Connection, sql: &str, limit: Duration) -> Result<bool> {
    let kill = format!("KILL QUERY {}", connection.connection_id());
    let (done, wait) = mpsc::channel::<()>();
    // The one that kills has ended before the connection is used again: KILL QUERY does nothing to one that is idle.
    let outcome = std::thread::scope(|scope| {
        scope.spawn(move || {
            if wait.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = beside.exec(&kill);
            }
        });
        let outcome = connection.exec(sql);
        drop(done);
        outcome
    });
    match outcome {
        Ok(_) => Ok(true),
        Err(error) if error.server_code().is_some_and(|code| ENDED.contains(&code)) => {
            // The kill may come when the lock was just granted.
            connection.exec("UNLOCK TABLES")?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// True when nobody waits for a row; false when no such moment was seen for a while.
fn is_quiet(connection: &mut Connection) -> Result<bool> {
    let until = Instant::now() + QUIET_WITHIN;
    while row_waits(connection)? > 0 {
        if Instant::now() >= until {
            return Ok(false);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(true)
}

/// Statements that wait for a row at present; 0 where the server does not say.
fn row_waits(connection: &mut Connection) -> Result<u64> {
    let result = connection.query("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")?;
    Ok(result.text(0, 1).and_then(|text| text.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_timeout_is_never_shorter_than_a_try() {
        for (millis, seconds) in [(1, 1), (999, 1), (1000, 1), (1001, 2), (2500, 3)] {
            assert_eq!(LockTries::new(Duration::from_millis(millis)).timeout_seconds(), seconds);
        }
        assert_eq!(LockTries::new(Duration::from_millis(30)).limit, Duration::from_millis(30));
        assert_eq!(LockTries::new(Duration::from_secs(1)).limit, FIRST_TRY);
    }
}
