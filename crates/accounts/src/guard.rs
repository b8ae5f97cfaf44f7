//! Counts wrong passwords by account name and address, and says how long the next login there has to wait.
//!
//! In: the end of each login, the time. Out: a delay. Never here: a clock; a table that grows without bound.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::accounts::Peer;
use crate::login::USER_CHARS_MAX;

/// Wrong passwords that cost nothing: people mistype.
const FREE_FAILURES: u32 = 9;
/// Delay after the tenth wrong password; each further one doubles it.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Longest delay: a person who has found the password again must get in.
const DELAY_MAX: Duration = Duration::from_secs(60);
/// Pairs of account name and address that are remembered, about 2 MiB. More: the one without failures for longest goes.
const ENTRIES_MAX: usize = 10_000;

/// Account name, cut to the longest possible one, and address; None for the unix socket.
type Key = (String, Option<IpAddr>);

/// Counter of wrong passwords. Shared by all connections.
#[derive(Debug, Default)]
pub struct LoginGuard {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Key, Entry>,
    /// Keys by their last failure, oldest first.
    by_age: BTreeMap<u64, Key>,
    /// Number of failures so far.
    clock: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    failures: u32,
    /// Key in `by_age`.
    last: u64,
}

impl LoginGuard {
    /// How long a login that has just sent its name must wait before anything is checked, right password or wrong: an
    /// answer that came at once would tell a right one apart.
    #[must_use]
    pub fn delay(&self, user: &str, peer: &Peer) -> Duration {
        delay_after(self.failures(user, peer))
    }

    /// Wrong passwords since the last right one.
    #[must_use]
    pub fn failures(&self, user: &str, peer: &Peer) -> u32 {
        self.table().entries.get(&key(user, peer)).map_or(0, |entry| entry.failures)
    }

    /// Counts a wrong password; returns how many there were since the last right one.
    pub fn failed(&self, user: &str, peer: &Peer) -> u32 {
        self.table().count(key(user, peer))
    }

    /// A right password clears what was counted.
    pub fn succeeded(&self, user: &str, peer: &Peer) {
        self.table().forget(&key(user, peer));
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn delay_after(failures: u32) -> Duration {
    match failures.checked_sub(FREE_FAILURES) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_DELAY.saturating_mul(1u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(DELAY_MAX),
    }
}

fn key(user: &str, peer: &Peer) -> Key {
    (user.chars().take(USER_CHARS_MAX).collect(), peer.ip())
}

impl Table {
    fn count(&mut self, key: Key) -> u32 {
        self.clock += 1;
        let last = self.clock;
        let entry = self.entries.entry(key.clone()).or_insert(Entry { failures: 0, last });
        self.by_age.remove(&entry.last);
        *entry = Entry { failures: entry.failures.saturating_add(1), last };
        let failures = entry.failures;
        self.by_age.insert(last, key);
        if self.entries.len() > ENTRIES_MAX
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.entries.remove(&oldest);
        }
        failures
    }

    fn forget(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_age.remove(&entry.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(last: u8) -> Peer {
        Peer::Tcp(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn the_tenth_is_delayed_and_each_further_one_twice_as_long() {
        let guard = LoginGuard::default();
        for failures in 0..9 {
            assert_eq!((guard.delay("a", &tcp(1)), guard.failures("a", &tcp(1))), (Duration::ZERO, failures));
            assert_eq!(guard.failed("a", &tcp(1)), failures + 1);
        }
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
            assert_eq!(guard.delay("a", &tcp(1)), Duration::from_secs(seconds));
            guard.failed("a", &tcp(1));
        }
        for other in [("a", tcp(2)), ("b", tcp(1)), ("a", Peer::Socket { uid: 0 })] {
            assert_eq!(guard.delay(other.0, &other.1), Duration::ZERO, "{other:?}");
        }
        guard.succeeded("a", &tcp(1));
        assert_eq!(guard.delay("a", &tcp(1)), Duration::ZERO);
        assert!(guard.table().entries.is_empty() && guard.table().by_age.is_empty());
    }

    #[test]
    fn the_longest_delay_holds_for_any_count() {
        for failures in [16, 40, 41, 42, u32::MAX] {
            assert_eq!(delay_after(failures), DELAY_MAX);
        }
    }

    #[test]
    fn the_table_is_bounded_and_the_oldest_goes() {
        let guard = LoginGuard::default();
        let twelve = |user| (0..12).map(|_| guard.failed(user, &tcp(1))).max();
        assert_eq!((twelve("first"), twelve("second")), (Some(12), Some(12)));
        for number in 0..ENTRIES_MAX - 1 {
            guard.failed(&format!("user{number}"), &tcp(1));
        }
        let table = guard.table();
        assert_eq!((table.entries.len(), table.by_age.len()), (ENTRIES_MAX, ENTRIES_MAX));
        drop(table);
        assert_eq!((guard.failures("first", &tcp(1)), guard.failures("second", &tcp(1))), (0, 12));
    }

    #[test]
    fn a_name_too_long_for_an_account_takes_no_more_memory_than_one() {
        let guard = LoginGuard::default();
        guard.failed(&"x".repeat(60_000), &tcp(1));
        assert!(guard.table().entries.keys().all(|(user, _)| user.len() == USER_CHARS_MAX));
    }
}
