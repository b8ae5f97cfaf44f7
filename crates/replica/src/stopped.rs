//! `stopped`: what an operator has stopped and not started again, so that it stays stopped over a restart.
//!
//! In: orders to stop and start. Out: a file in the data folder, durable when the order's answer is sent. Never here: a
//! stop by an error, which the next start tries again.

use base::GtidSet;

use crate::exit::{Exit, Failure};
use crate::folder::{Folder, read_small, write_atomically};

const FILE: &str = "stopped";
const IO: &str = "io";
const SQL: &str = "sql";

/// Parts of a replica that an operator has stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Receiving (MySQL's IO_THREAD).
    pub io: bool,
    /// Replay (MySQL's SQL_THREAD).
    pub sql: bool,
    /// What was visible when replay was stopped; None if that is not known.
    pub shown: Option<GtidSet>,
}

impl Stopped {
    /// What is stopped in a folder.
    ///
    /// # Errors
    /// Code 7 if the file is damaged, or a newer release's; 8 for disk errors.
    pub fn of(folder: &Folder) -> Result<Stopped, Failure> {
        let path = folder.path().join(FILE);
        let mut stopped = Stopped::default();
        for line in read_small(&path)?.unwrap_or_default().lines() {
            let refused = |what: &str| {
                Err(Failure::new(Exit::Corrupt, format!("{}: '{}' {what}", path.display(), line.escape_debug())))
            };
            match line.split_once(' ') {
                None if line == IO => stopped.io = true,
                None if line == SQL => stopped.sql = true,
                Some((SQL, set)) => match set.parse() {
                    Ok(set) => (stopped.sql, stopped.shown) = (true, Some(set)),
                    Err(error) => return refused(&format!("is no GTID set: {error}")),
                },
                _ => return refused("is not a part of a replica"),
            }
        }
        Ok(stopped)
    }

    /// Keeps it in a folder, durably.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub fn keep(&self, folder: &Folder) -> Result<(), Failure> {
        if Stopped::of(folder).is_ok_and(|kept| kept == *self) {
            return Ok(());
        }
        let mut lines = String::new();
        if self.io {
            lines += &format!("{IO}\n");
        }
        if self.sql {
            let shown = self.shown.as_ref().map(|set| format!(" {set}")).unwrap_or_default();
            lines += &format!("{SQL}{shown}\n");
        }
        write_atomically(&folder.path().join(FILE), lines.as_bytes())
    }
}
