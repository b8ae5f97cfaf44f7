//! Limits on connections and prepared statements, and counters.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use catalog::TableId;
use sql::{ClientMemory, Part, Purse, SqlError};

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::tally::Tally;

/// Prepared statements of all sessions (`max_prepared_stmt_count`).
const STATEMENTS_MAX: usize = 16_382;

/// Of what clients' memory leaves free, those that are not logged in get one part in so many: none of them needs more
/// than a login's packet.
const STRANGERS_PART: u64 = 8;

/// Bytes given back from which on the allocator is asked to return its part to the system.
const FALLEN_BY: u64 = 4 << 20;

/// Before the first number of a connection: smaller ones mean other things to a loop.
const NUMBERS_BEFORE: u64 = 16;

/// Counters of the port.
#[derive(Debug)]
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
    pub(crate) tally: Tally,
    /// Statements whose answers are being made.
    pub(crate) running: AtomicUsize,
    /// Bytes from and to clients that are logged in or want to be, as the sockets take them, inside of TLS.
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    memory: Arc<ClientMemory>,
    /// The most that was seen held since it fell by much.
    most_held: AtomicU64,
    /// What those hold that are not logged in.
    strangers: Arc<Part>,
    /// Accounts that have sessions.
    accounts: Mutex<HashMap<String, Present>>,
    has_long_rows: AtomicBool,
    /// Tables in which a long row was met.
    long_rows: RwLock<HashSet<TableId>>,
}

/// Tables with long rows that are remembered.
const LONG_TABLES_MAX: usize = 100_000;

/// An account that has sessions.
#[derive(Debug, Default)]
struct Present {
    sessions: u32,
    memory: Arc<Part>,
}

impl Gate {
    /// Whether a long row of this table was met.
    pub(crate) fn has_long_rows(&self, table: TableId) -> bool {
        self.has_long_rows.load(Relaxed)
            && self.long_rows.read().unwrap_or_else(PoisonError::into_inner).contains(&table)
    }

    /// A long row of this table was met.
    pub(crate) fn note_long_rows(&self, table: TableId) {
        if self.has_long_rows(table) {
            return;
        }
        let mut tables = self.long_rows.write().unwrap_or_else(PoisonError::into_inner);
        if tables.len() < LONG_TABLES_MAX {
            tables.insert(table);
            self.has_long_rows.store(true, Relaxed);
        }
    }

    /// A gate to this much memory of clients.
    pub(crate) fn new(memory: u64) -> Gate {
        Gate {
            numbered: AtomicU64::new(0),
            sessions: AtomicUsize::new(0),
            most_sessions: AtomicUsize::new(0),
            statements: AtomicUsize::new(0),
            unauthenticated: AtomicUsize::new(0),
            questions: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            tally: Tally::default(),
            running: AtomicUsize::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            memory: ClientMemory::within(memory),
            most_held: AtomicU64::new(0),
            strangers: Arc::new(Part::one_in(STRANGERS_PART)),
            accounts: Mutex::default(),
            has_long_rows: AtomicBool::new(false),
            long_rows: RwLock::default(),
        }
    }

    /// Memory of all clients.
    pub(crate) fn memory(&self) -> &ClientMemory {
        &self.memory
    }

    /// True once each time that clients have given back much of what they held.
    pub(crate) fn has_fallen(&self) -> bool {
        let held = self.memory.held();
        let most = self.most_held.fetch_max(held, Relaxed).max(held);
        let has_fallen = most - held >= FALLEN_BY;
        if has_fallen {
            self.most_held.store(held, Relaxed);
        }
        has_fallen
    }

    /// The purse of a connection that is not logged in.
    pub(crate) fn strangers_purse(&self) -> Purse {
        Purse::of_session(&self.memory, &self.strangers)
    }

    /// A session of an account begins; [`account_leaves`](Self::account_leaves) ends it.
    ///
    /// # Errors
    /// 1226: it has as many as it may have.
    pub(crate) fn account_enters(&self, account: &str, most: Option<u32>) -> Result<Purse, SqlError> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = accounts.get(account).map_or(0, |present| present.sessions);
        if let Some(most) = most.filter(|most| sessions >= *most) {
            let user = account.rsplit_once('@').map_or(account, |(user, _)| user);
            let text =
                format!("User '{user}' has exceeded the 'max_user_connections' resource (current value: {most})");
            return Err(SqlError::new(1226, "42000", text));
        }
        let present = accounts.entry(account.to_owned()).or_default();
        present.sessions += 1;
        Ok(Purse::of_session(&self.memory, &present.memory))
    }

    /// A session of an account has ended.
    pub(crate) fn account_leaves(&self, account: &str) {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(present) = accounts.get_mut(account) {
            present.sessions -= 1;
            if present.sessions == 0 {
                accounts.remove(account);
            }
        }
    }

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
        let gate = Gate::new(u64::MAX);
        assert!(gate.admit(false, 2) && gate.admit(true, 2));
        assert!(!gate.admit(false, 2));
        assert!(gate.admit(true, 2) && !gate.admit(true, 2));
        gate.leave();
        assert!(!gate.admit(false, 2) && gate.admit(true, 2));
    }

    #[test]
    fn an_account_has_as_many_sessions_as_it_may() {
        let gate = Gate::new(1 << 20);
        let first = gate.account_enters("a@%", Some(2)).unwrap();
        let second = gate.account_enters("a@%", Some(2)).unwrap();
        let refused = gate.account_enters("a@%", Some(2)).unwrap_err();
        assert_eq!((refused.code, refused.sqlstate), (1226, "42000"));
        let text = "User 'a' has exceeded the 'max_user_connections' resource (current value: 2)";
        assert_eq!(refused.message, text);
        assert!(gate.account_enters("b@%", Some(1)).is_ok() && gate.account_enters("a@%", None).is_ok());
        gate.account_leaves("a@%");
        gate.account_leaves("a@%");
        assert!(gate.account_enters("a@%", Some(2)).is_ok());
        drop((first, second));
        assert_eq!(gate.memory().held(), 0);
    }
}
