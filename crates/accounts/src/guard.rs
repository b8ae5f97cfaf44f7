//! Counts wrong passwords by account name and origin, and by origin alone; says how long the next login has to wait.
//!
//! In: the end of each login, the time. Out: a delay. Never here: a clock; a table that grows without bound; a count
//! that other failures can push out while it is the higher one.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::accounts::{Origin, Peer};
use crate::login::USER_CHARS_MAX;

/// Wrong passwords for one name that cost nothing: people mistype.
const FREE_FAILURES: u32 = 9;
/// Wrong passwords from one origin that cost nothing, whatever the names: many people may share an address.
const FREE_OF_ORIGIN: u32 = 99;
/// Delay after the first wrong password that is not free; each further one doubles it.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Longest delay of a name: a person who has found the password again must get in.
const DELAY_MAX: Duration = Duration::from_secs(60);
/// Longest delay of an origin: it meets everyone there, and clients give up after 10 s.
const ORIGIN_DELAY_MAX: Duration = Duration::from_secs(4);
/// How often an origin is forgiven one wrong password: right ones cannot clear its count, or any account could.
const FORGIVEN_EVERY: Duration = Duration::from_secs(60);
/// Highest count of an origin: an hour after an attack nobody there waits any more.
const ORIGIN_FAILURES_MAX: u32 = FREE_OF_ORIGIN + 60;
/// Pairs of name and origin that are remembered, and origins; about 3 MiB together.
const ENTRIES_MAX: usize = 10_000;

/// Account name, cut to the longest possible one, and where it was tried.
type Key = (String, Origin);

/// Counter of wrong passwords. Shared by all connections.
#[derive(Debug, Default)]
pub struct LoginGuard {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    names: Table<Key>,
    origins: Table<Origin>,
    /// When the first login began.
    began: Option<Instant>,
    /// Times that origins have been forgiven one failure since then.
    forgiven: u32,
}

/// Counts by key. When it is full, the key with the fewest failures goes, of several the one that failed longest ago.
#[derive(Debug)]
struct Table<K> {
    entries: HashMap<K, Entry>,
    /// Who goes first, by failures and last failure.
    order: BTreeMap<(u32, u64), K>,
    /// Number of failures so far.
    clock: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    failures: u32,
    /// The table's clock at the last failure.
    last: u64,
    /// `Tables::forgiven` at that time.
    forgiven: u32,
}

impl LoginGuard {
    /// Tells the time. Whoever begins logins calls it before.
    pub fn tick(&self, now: Instant) {
        let mut tables = self.tables();
        let began = *tables.began.get_or_insert(now);
        let spans = now.saturating_duration_since(began).as_secs() / FORGIVEN_EVERY.as_secs();
        tables.forgiven = tables.forgiven.max(u32::try_from(spans).unwrap_or(u32::MAX));
    }

    /// How long a login that has just sent its name must wait before anything is checked, right password or wrong: an
    /// answer that came at once would tell a right one apart.
    #[must_use]
    pub fn delay(&self, user: &str, peer: &Peer) -> Duration {
        let tables = self.tables();
        let by_name = delay_after(tables.names.failures(&key(user, peer)), FREE_FAILURES, DELAY_MAX);
        by_name.max(delay_after(tables.of_origin(peer), FREE_OF_ORIGIN, ORIGIN_DELAY_MAX))
    }

    /// Wrong passwords for this name from there since the last right one.
    #[must_use]
    pub fn failures(&self, user: &str, peer: &Peer) -> u32 {
        self.tables().names.failures(&key(user, peer))
    }

    /// Counts a wrong password; returns how many there were for this name from there since the last right one.
    pub fn failed(&self, user: &str, peer: &Peer) -> u32 {
        let mut tables = self.tables();
        let of_origin = tables.of_origin(peer).saturating_add(1).min(ORIGIN_FAILURES_MAX);
        let forgiven = tables.forgiven;
        tables.origins.set(peer.origin(), of_origin, forgiven);
        let key = key(user, peer);
        let of_name = tables.names.failures(&key).saturating_add(1);
        tables.names.set(key, of_name, forgiven);
        of_name
    }

    /// A right password clears what was counted for the name. Not what was counted for its origin: an account of one's
    /// own would clear guesses at others.
    pub fn succeeded(&self, user: &str, peer: &Peer) {
        self.tables().names.forget(&key(user, peer));
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn delay_after(failures: u32, free: u32, longest: Duration) -> Duration {
    match failures.checked_sub(free) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_DELAY.saturating_mul(1u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(longest),
    }
}

fn key(user: &str, peer: &Peer) -> Key {
    (user.chars().take(USER_CHARS_MAX).collect(), peer.origin())
}

impl Tables {
    /// Failures of an origin that are not forgiven.
    fn of_origin(&self, peer: &Peer) -> u32 {
        self.origins
            .entries
            .get(&peer.origin())
            .map_or(0, |entry| entry.failures.saturating_sub(self.forgiven.saturating_sub(entry.forgiven)))
    }
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Table { entries: HashMap::new(), order: BTreeMap::new(), clock: 0 }
    }
}

impl<K: Clone + Eq + Hash> Table<K> {
    fn failures(&self, key: &K) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    fn set(&mut self, key: K, failures: u32, forgiven: u32) {
        self.clock += 1;
        self.forget(&key);
        // Before it is in: it would be the first to go, and its further failures too.
        if self.entries.len() >= ENTRIES_MAX
            && let Some((_, fewest)) = self.order.pop_first()
        {
            self.entries.remove(&fewest);
        }
        self.order.insert((failures, self.clock), key.clone());
        self.entries.insert(key, Entry { failures, last: self.clock, forgiven });
    }

    fn forget(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&(entry.failures, entry.last));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn tcp(last: u8) -> Peer {
        Peer::Tcp(IpAddr::from([10, 0, 0, last]))
    }

    fn fails(guard: &LoginGuard, user: &str, peer: &Peer, times: u32) {
        for _ in 0..times {
            guard.failed(user, peer);
        }
    }

    /// Other names from the same address.
    fn sprays(guard: &LoginGuard, peer: &Peer, names: usize) {
        for number in 0..names {
            guard.failed(&format!("user{number}"), peer);
        }
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
        let tables = guard.tables();
        assert!(tables.names.entries.is_empty() && tables.names.order.is_empty());
    }

    #[test]
    fn the_longest_delay_holds_for_any_count() {
        for failures in [16, 40, 41, 42, u32::MAX] {
            assert_eq!(delay_after(failures, FREE_FAILURES, DELAY_MAX), DELAY_MAX);
        }
    }

    #[test]
    fn other_names_wash_nothing_away() {
        let guard = LoginGuard::default();
        fails(&guard, "victim", &tcp(1), 12);
        for peer in [tcp(1), tcp(2), Peer::Socket { uid: 65_534 }] {
            sprays(&guard, &peer, ENTRIES_MAX + 100);
            assert_eq!((guard.failures("victim", &tcp(1)), guard.delay("victim", &tcp(1)).as_secs()), (12, 8));
        }
        let tables = guard.tables();
        assert_eq!((tables.names.entries.len(), tables.names.order.len()), (ENTRIES_MAX, ENTRIES_MAX));
        assert_eq!((tables.origins.entries.len(), tables.origins.order.len()), (3, 3));
    }

    #[test]
    fn a_full_table_counts_new_names_too() {
        let guard = LoginGuard::default();
        sprays(&guard, &tcp(1), ENTRIES_MAX);
        sprays(&guard, &tcp(1), ENTRIES_MAX);
        fails(&guard, "victim", &tcp(2), 11);
        assert_eq!(guard.delay("victim", &tcp(2)).as_secs(), 4);
    }

    #[test]
    fn many_origins_take_no_more_than_their_table_and_the_worst_stays() {
        let guard = LoginGuard::default();
        sprays(&guard, &tcp(1), 110);
        for number in 0..ENTRIES_MAX {
            let number = u32::try_from(number).unwrap();
            guard.failed("a", &Peer::Tcp(IpAddr::from((0x0b00_0000 + number).to_be_bytes())));
        }
        assert_eq!(guard.tables().origins.entries.len(), ENTRIES_MAX);
        assert_eq!(guard.delay("b", &tcp(1)), ORIGIN_DELAY_MAX);
    }

    #[test]
    fn an_origin_is_delayed_from_the_hundredth_and_never_for_long() {
        let guard = LoginGuard::default();
        sprays(&guard, &tcp(1), 99);
        assert_eq!((guard.delay("honest", &tcp(1)).as_secs(), guard.delay("honest", &tcp(2)).as_secs()), (1, 0));
        for seconds in [2, 4, 4, 4] {
            guard.failed("other", &tcp(1));
            assert_eq!(guard.delay("honest", &tcp(1)).as_secs(), seconds);
        }
        // An account of the attacker's own clears nothing.
        for _ in 0..1_000 {
            guard.succeeded("own", &tcp(1));
        }
        assert_eq!(guard.delay("honest", &tcp(1)).as_secs(), 4);
        // The longer delay of a name stays the longer one.
        fails(&guard, "victim", &tcp(1), 30);
        assert_eq!(guard.delay("victim", &tcp(1)).as_secs(), 60);
    }

    #[test]
    fn an_origin_is_forgiven_within_an_hour() {
        let guard = LoginGuard::default();
        let began = Instant::now();
        guard.tick(began);
        sprays(&guard, &tcp(1), 5_000);
        fails(&guard, "victim", &tcp(1), 12);
        guard.tick(began + Duration::from_secs(59 * 60));
        assert_eq!(guard.delay("honest", &tcp(1)).as_secs(), 2);
        guard.tick(began + Duration::from_secs(61 * 60));
        assert_eq!(guard.delay("honest", &tcp(1)), Duration::ZERO);
        // A name's count waits for the right password, and a clock that goes back changes nothing.
        guard.tick(began);
        assert_eq!((guard.delay("honest", &tcp(1)).as_secs(), guard.delay("victim", &tcp(1)).as_secs()), (0, 8));
        // Long after, it counts anew.
        guard.tick(began + Duration::from_secs(86_400));
        sprays(&guard, &tcp(1), 98);
        assert_eq!(guard.delay("honest", &tcp(1)), Duration::ZERO);
        sprays(&guard, &tcp(1), 1);
        assert_eq!(guard.delay("honest", &tcp(1)).as_secs(), 1);
    }

    #[test]
    fn a_network_of_one_subscriber_is_one_origin() {
        let guard = LoginGuard::default();
        let ip = |text: &str| Peer::Tcp(text.parse().unwrap());
        for number in 0..12 {
            guard.failed("a", &ip(&format!("2001:db8:1:2::{number:x}")));
        }
        assert_eq!(guard.failures("a", &ip("2001:db8:1:2:ffff::")), 12);
        assert_eq!(guard.failures("a", &ip("2001:db8:1:3::")), 0);
        guard.failed("a", &ip("::ffff:10.0.0.9"));
        assert_eq!((guard.failures("a", &tcp(9)), guard.failures("a", &tcp(8))), (1, 0));
        // Processes of one user are one origin, those of another user are not.
        guard.failed("a", &Peer::Socket { uid: 1 });
        let of = |uid| guard.failures("a", &Peer::Socket { uid });
        assert_eq!((of(1), of(2)), (1, 0));
    }

    #[test]
    fn a_name_too_long_for_an_account_takes_no_more_memory_than_one() {
        let guard = LoginGuard::default();
        guard.failed(&"x".repeat(60_000), &tcp(1));
        assert!(guard.tables().names.entries.keys().all(|(user, _)| user.len() == USER_CHARS_MAX));
    }
}
