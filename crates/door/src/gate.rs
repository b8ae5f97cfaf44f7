//! Limits on connections and prepared statements, and counters.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Prepared statements of all sessions (`max_prepared_stmt_count`).
const STATEMENTS_MAX: usize = 16_382;

/// Before the first number of a connection: smaller ones mean other things to a loop.
const NUMBERS_BEFORE: u64 = 16;

/// Counters of the port.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Connections numbered so far.
    numbered: AtomicU64,
    sessions: AtomicUsize,
    /// The most sessions that there were at once.
    most_sessions: AtomicUsize,
    statements: AtomicUsize,
    pub(crate) unauthenticated: AtomicUsize,
    pub(crate) questions: AtomicU64,
    pub(crate) accepted: AtomicU64,
}

impl Gate {
    /// The number of a new connection, which no other one of any loop has.
    pub(crate) fn number(&self) -> u64 {
        self.numbered.fetch_add(1, Relaxed) + NUMBERS_BEFORE + 1
    }

    /// Admits a session; false if there are too many. One more is for administrators.
    pub(crate) fn admit(&self, is_admin: bool, most: usize) -> bool {
        let is_admitted = take(&self.sessions, most + usize::from(is_admin));
        if is_admitted {
            self.most_sessions.fetch_max(self.sessions(), Relaxed);
        }
        is_admitted
    }

    /// The most sessions that there were at once.
    pub(crate) fn most_sessions(&self) -> usize {
        self.most_sessions.load(Relaxed)
    }

    /// A session has ended.
    pub(crate) fn leave(&self) {
        self.sessions.fetch_sub(1, Relaxed);
    }

    pub(crate) fn sessions(&self) -> usize {
        self.sessions.load(Relaxed)
    }

    pub(crate) fn take_statement(&self) -> bool {
        take(&self.statements, STATEMENTS_MAX)
    }

    pub(crate) fn give_statements(&self, count: usize) {
        self.statements.fetch_sub(count, Relaxed);
    }
}

fn take(counter: &AtomicUsize, most: usize) -> bool {
    counter.fetch_update(Relaxed, Relaxed, |count| (count < most).then_some(count + 1)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_administrator_gets_in_when_it_is_full() {
        let gate = Gate::default();
        assert!(gate.admit(false, 2) && gate.admit(true, 2));
        assert!(!gate.admit(false, 2));
        assert!(gate.admit(true, 2) && !gate.admit(true, 2));
        gate.leave();
        assert!(!gate.admit(false, 2) && gate.admit(true, 2));
    }
}
