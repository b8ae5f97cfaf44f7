//! Locks that block a server's writers, requested so that writers wait only for a moment (invariant 24).
//!
//! In: the connection that should hold the lock, and a second one to the same server. Out: the lock, or that it was not
//! granted within the time of one try. Never here: a try that continues after its time, a pause.
//!
//! `lock_wait_timeout` counts whole seconds, but a try may be hopeless long before that. If a transaction holds a row
//! that a statement of another one waits for, FLUSH TABLES WITH READ LOCK waits for that statement, the transaction's
//! next statement waits behind FLUSH TABLES, and the server does not detect the deadlock. Such a try is granted at once
//! or not before `innodb_lock_wait_timeout` (50 s). So a try is ended from the second connection with KILL QUERY, which
//! needs no privilege among connections of one account. It begins when nobody waits for a row, if such a moment is
//! observed. The limit grows from try to try only if no row waits are seen at its end: then statements delay it, and
//! longer tries outwait those.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use client::{Connection, Result};

/// ER_LOCK_WAIT_TIMEOUT and ER_QUERY_INTERRUPTED: the try reached its limit.
const ENDED: [u16; 2] = [1205, 1317];
/// Limit of the first try.
const FIRST_TRY: Duration = Duration::from_millis(100);
/// Limit of a try that begins while somebody waits for a row.
const HOPEFUL_TRY: Duration = Duration::from_millis(40);
/// One try in this many is as long as allowed, because row waits may never stop while something else delays the lock.
const LONGEST_EVERY: u32 = 50;
/// How long to search for a moment without row waits, and the interval of the checks.
const QUIET_WITHIN: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Outcome of a try.
#[derive(Clone, Copy, Debug)]
pub struct LockTry {
    /// Time of the request: writers may have waited since then.
    pub asked: Instant,
    /// Time until the lock was granted or given up.
    pub waited: Duration,
    /// True if the lock is held.
    pub had: bool,
    /// True if it was not granted and statements wait for rows: more tries help, longer ones do not.
    pub row_waits: bool,
}

/// Longest pause between tries while statements wait for rows: the next moment may be the right one, and a try is
/// short.
pub const ROW_WAITS_PAUSE: Duration = Duration::from_millis(200);

/// Time limits for a series of tries.
#[derive(Debug)]
pub struct LockTries {
    longest: Duration,
    limit: Duration,
    tries: u32,
}

impl LockTries {
    /// `longest`: limit of a single try.
    #[must_use]
    pub fn new(longest: Duration) -> LockTries {
        LockTries { longest, limit: FIRST_TRY.min(longest), tries: 0 }
    }

    /// Value for `lock_wait_timeout` in seconds: it ends a try that KILL QUERY does not reach.
    #[must_use]
    pub fn timeout_seconds(&self) -> u64 {
        self.longest.as_secs() + u64::from(self.longest.subsec_nanos() > 0)
    }

    /// Requests a lock with `sql` on `connection`; `beside` is idle. If it is not granted within the limit of this try,
    /// nothing is held and no request is left waiting.
    ///
    /// # Errors
    /// Any error of either connection, except that the limit was reached.
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

/// Executes a statement; false if it was ended because it took longer than `limit` or its own timeout. `beside` is
/// another connection of the same account.
///
/// # Errors
/// Any error of the statement, except that it was ended. If `beside` cannot end it, its own timeout applies.
pub fn exec_within(connection: &mut Connection, beside: &mut Connection, sql: &str, limit: Duration) -> Result<bool> {
    let kill = format!("KILL QUERY {}", connection.connection_id());
    let (done, wait) = mpsc::channel::<()>();
    // The killing thread ends before the connection is used again: KILL QUERY does nothing to an idle connection.
    let outcome = std::thread::scope(|scope| {
        scope.spawn(move || {
            if wait.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = beside.exec(&kill);
            }
        });
        let outcome = connection.exec(sql);
        // Wakes the killing thread, which then ends without a kill.
        drop(done);
        outcome
    });
    match outcome {
        Ok(_) => Ok(true),
        Err(error) if error.server_code().is_some_and(|code| ENDED.contains(&code)) => {
            // The kill may arrive just after the lock was granted.
            connection.exec("UNLOCK TABLES")?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// True if nobody waits for a row; false if no such moment was observed for a while.
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

/// Number of statements that currently wait for a row; 0 if the server does not report it.
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
