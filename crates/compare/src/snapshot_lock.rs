//! Connections to a server that all see the same moment, and the GTID set of that moment (invariants 24, 25).
//!
//! In: how to reach the server, and how long writers may be kept waiting. Out: open consistent snapshots. Invariant:
//! writers wait at most `lock_wait` per attempt, plus the time to open the snapshots once the lock is held. Never here:
//! rows.

use std::time::{Duration, Instant};

use base::GtidSet;
use client::session::{gtid_executed, open_memory_tables, reading_session};
use client::{ConnectOptions, Connection};
use source::polite_lock::{LockTries, LockTry, ROW_WAITS_PAUSE};

use crate::error::{CompareError, at_server};
use crate::verify::VerifyOptions;

/// First and longest pause between two attempts.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// For a snapshot without a lock: a commit is visible to a snapshot slightly before its GTID is in gtid_executed. No
/// server takes this long between the two, so a set that stays the same for this time contains exactly what the
/// snapshot sees.
const QUIET: Duration = Duration::from_millis(50);

/// Consistent snapshots of one server.
pub(crate) struct ServerSnapshot {
    /// Address for messages, without the password.
    pub server: String,
    /// Each has an open transaction, and all see the same rows.
    pub readers: Vec<Connection>,
    pub control: Connection,
    /// GTIDs of everything that the snapshots see; None for a server without GTIDs.
    pub executed: Option<GtidSet>,
    /// How long writers were blocked, ms; None if no lock was taken.
    pub lock_ms: Option<u64>,
    /// Prepared XA transactions, as named by XA RECOVER.
    pub prepared_xa: Vec<String>,
    /// Notes for the operator.
    pub notes: Vec<String>,
}

impl ServerSnapshot {
    /// Logs in. Nothing is locked or open yet.
    pub(crate) fn connect(options: &ConnectOptions, readers: usize) -> Result<ServerSnapshot, CompareError> {
        let server = options.to_string();
        let mut notes = Vec::new();
        let readers =
            (0..readers.max(1)).map(|_| at_server(&server, reading_session(options))).collect::<Result<Vec<_>, _>>()?;
        let mut control = at_server(&server, reading_session(options))?;
        if at_server(&server, gtid_executed(&mut control))?.is_none() {
            notes.push(format!("{server} has no gtid_executed"));
        }
        Ok(ServerSnapshot { server, readers, control, executed: None, lock_ms: None, prepared_xa: vec![], notes })
    }

    /// Opens the snapshots under a read lock and runs `meanwhile` while writers wait. Without the privilege for the
    /// lock, opens the snapshots at a moment when nothing is being committed. `hold` is called with true just before
    /// that moment, and with false if the attempt failed.
    pub(crate) fn open<T>(
        &mut self,
        options: &VerifyOptions,
        hold: &mut dyn FnMut(bool),
        meanwhile: impl FnOnce(&ServerSnapshot) -> Result<T, CompareError>,
    ) -> Result<T, CompareError> {
        at_server(&self.server, open_memory_tables(&mut self.control))?;
        match self.lock(options)? {
            Ok(since) => {
                hold(true);
                let outcome = self.start_snapshots().and_then(|()| meanwhile(self));
                let unlocked = at_server(&self.server, self.control.exec("UNLOCK TABLES"));
                self.lock_ms = Some(since.elapsed().as_millis() as u64);
                unlocked.and(outcome)
            }
            Err(reason) => {
                self.open_when_quiet(options, hold, &reason)?;
                self.notes.push(format!(
                    "{}: snapshot without a lock, at a moment when nothing was committed ({reason})",
                    self.server
                ));
                meanwhile(self)
            }
        }
    }

    /// Acquires the lock and returns since when writers wait, or why it cannot be acquired at all.
    fn lock(&mut self, options: &VerifyOptions) -> Result<Result<Instant, String>, CompareError> {
        let mut tries = LockTries::new(options.lock_wait);
        let seconds = tries.timeout_seconds();
        let set = format!("SET SESSION lock_wait_timeout = {seconds}");
        if let Err(error) = self.control.exec(&set) {
            if error.server_code().is_none() {
                return at_server(&self.server, Err(error));
            }
            return Ok(Err(error.to_string()));
        }
        let deadline = Instant::now() + options.lock_timeout;
        let mut pause = BACK_OFF.0;
        loop {
            let Some(beside) = self.readers.first_mut() else { unreachable!("verify has a connection that reads") };
            match tries.lock(&mut self.control, beside, "FLUSH TABLES WITH READ LOCK") {
                Ok(LockTry { had: true, asked, .. }) => return Ok(Ok(asked)),
                Ok(LockTry { row_waits, .. }) => {
                    if row_waits {
                        pause = pause.min(ROW_WAITS_PAUSE);
                    }
                    if Instant::now() + pause >= deadline {
                        return Err(CompareError::NoLock {
                            server: self.server.clone(),
                            seconds: options.lock_timeout.as_secs(),
                            reason:
                                "long statements, or transactions that wait for each other's rows all the time, hold \
                                     off FLUSH TABLES WITH READ LOCK"
                                    .into(),
                        });
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(BACK_OFF.1);
                }
                Err(error) if error.server_code().is_some() => return Ok(Err(error.to_string())),
                Err(error) => return at_server(&self.server, Err(error)),
            }
        }
    }

    fn open_when_quiet(
        &mut self,
        options: &VerifyOptions,
        hold: &mut dyn FnMut(bool),
        reason: &str,
    ) -> Result<(), CompareError> {
        let deadline = Instant::now() + options.lock_timeout;
        let mut pause = BACK_OFF.0;
        loop {
            hold(true);
            let before = at_server(&self.server, gtid_executed(&mut self.control))?;
            self.start_snapshots()?;
            std::thread::sleep(QUIET);
            if at_server(&self.server, gtid_executed(&mut self.control))? == before {
                return Ok(());
            }
            hold(false);
            if Instant::now() + pause >= deadline {
                return Err(CompareError::NoLock {
                    server: self.server.clone(),
                    seconds: options.lock_timeout.as_secs(),
                    reason: reason.to_string(),
                });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(BACK_OFF.1);
        }
    }

    /// Opens a snapshot on every reader, or reopens it, and queries what belongs to that moment.
    pub(crate) fn start_snapshots(&mut self) -> Result<(), CompareError> {
        for reader in &mut self.readers {
            at_server(&self.server, reader.exec("START TRANSACTION WITH CONSISTENT SNAPSHOT"))?;
        }
        self.executed = at_server(&self.server, gtid_executed(&mut self.control))?;
        self.prepared_xa.clear();
        match self.control.query("XA RECOVER") {
            Ok(result) => {
                let rows = 0..result.rows.len();
                self.prepared_xa.extend(rows.map(|row| result.text(row, 3).unwrap_or_default()));
            }
            Err(error) if error.server_code().is_some() => {
                let note = format!("{}: prepared XA transactions are not known (XA RECOVER: {error})", self.server);
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
            Err(error) => return at_server(&self.server, Err(error)),
        }
        Ok(())
    }
}
