//! Memory that clients hold, all of them in one sum within a limit.
//!
//! In: bytes that a session is about to hold. Out: a yes, or error 1041. Never here: an atomic operation for what fits
//! in what was granted before; a session or an account that takes what others need.
//!
//! A purse gets grants of [`STEP`] bytes and counts in them by itself. An account is granted no more than is left free
//! for all others, a session no more than half of that: one account alone gets half of the limit and one session a
//! third, and the more there are who hold much, the less each of them gets. So those who hold most are refused first.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Result;
use crate::error::SqlError;

/// Bytes of a grant: a short statement costs no atomic operation, and 500 idle sessions waste 16 MiB at most.
const STEP: u64 = 32 << 10;
/// Bytes that a purse holds without a grant: a client that is idle, or sends and gets little, is never refused.
const FREE: u64 = 8 << 10;
/// Bytes that a statement holds without a grant while a thread works on it: there are as many as threads, not as many
/// as sessions, so a short statement is answered whatever others hold.
const FREE_AT_WORK: u64 = 128 << 10;

/// Memory of all clients together.
#[derive(Debug)]
pub struct ClientMemory {
    limit: u64,
    held: AtomicU64,
}

/// What an account or a session holds of it.
#[derive(Debug)]
pub struct Part {
    held: AtomicU64,
    /// Its part of what is left free.
    divisor: u64,
}

impl Default for Part {
    fn default() -> Part {
        Part { held: AtomicU64::new(0), divisor: 1 }
    }
}

impl Part {
    /// A part that gets this fraction of what is left free.
    #[must_use]
    pub fn one_in(divisor: u64) -> Part {
        Part { held: AtomicU64::new(0), divisor: divisor.max(1) }
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }
}

/// Who holds memory: a session of an account.
#[derive(Debug, Clone)]
struct Holder {
    all: Arc<ClientMemory>,
    account: Arc<Part>,
    session: Arc<Part>,
}

impl ClientMemory {
    /// Memory within a limit in bytes.
    #[must_use]
    pub fn within(limit: u64) -> Arc<ClientMemory> {
        Arc::new(ClientMemory { limit, held: AtomicU64::new(0) })
    }

    /// Bytes that are granted.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// The limit in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

impl Holder {
    /// Takes a grant; false if it is more than the holder may have now.
    fn take(&self, bytes: u64) -> bool {
        let add = |held: &AtomicU64| held.fetch_add(bytes, Relaxed).saturating_add(bytes);
        let (all, account, session) = (add(&self.all.held), add(&self.account.held), add(&self.session.held));
        let free = self.all.limit.checked_sub(all);
        let fits = free.is_some_and(|free| account <= free / self.account.divisor && session <= free / 2);
        if !fits {
            self.give(bytes);
        }
        fits
    }

    fn give(&self, bytes: u64) {
        for held in [&self.all.held, &self.account.held, &self.session.held] {
            held.fetch_sub(bytes, Relaxed);
        }
    }

    /// 1041, which says who holds what.
    fn refusal(&self, wanted: u64) -> SqlError {
        let text = format!(
            "Out of memory: this session holds {} bytes and asks for {wanted} more, its account holds {}, all clients {} of \
             {}; make the statement smaller, close sessions and prepared statements, or raise --memory",
            self.session.held(),
            self.account.held(),
            self.all.held(),
            self.all.limit
        );
        SqlError::new(OUT_OF_MEMORY, "HY000", text)
    }
}

/// Number of the error of a statement that asks for more memory than there is.
pub const OUT_OF_MEMORY: u16 = 1041;

/// What a session, or one of its buffers, holds. Gives it back when it is dropped.
#[derive(Debug, Default)]
pub struct Purse {
    /// None: without a limit.
    holder: Option<Holder>,
    granted: Cell<u64>,
    /// Bytes that outlast a statement.
    kept: Cell<u64>,
    /// Bytes of the statement that runs.
    working: Cell<u64>,
}

impl Purse {
    /// A purse of a new session of this account.
    #[must_use]
    pub fn of_session(all: &Arc<ClientMemory>, account: &Arc<Part>) -> Purse {
        let (all, account) = (Arc::clone(all), Arc::clone(account));
        Purse::of(Some(Holder { all, account, session: Arc::default() }))
    }

    /// Another purse of the same session.
    #[must_use]
    pub fn beside(&self) -> Purse {
        Purse::of(self.holder.clone())
    }

    fn of(holder: Option<Holder>) -> Purse {
        Purse { holder, granted: Cell::new(0), kept: Cell::new(0), working: Cell::new(0) }
    }

    /// Counts bytes that outlast a statement.
    ///
    /// # Errors
    /// 1041; nothing is counted then.
    pub fn keep(&self, bytes: usize) -> Result<()> {
        self.keep_in_all(self.kept.get().saturating_add(bytes as u64))
    }

    /// Counts so many bytes in all that outlast a statement.
    ///
    /// # Errors
    /// 1041; what was counted before is counted still.
    pub fn keep_in_all(&self, bytes: u64) -> Result<()> {
        let all = bytes.saturating_add(self.working.get());
        if bytes > self.granted.get().saturating_add(FREE) {
            self.ask(all, FREE)?;
        } else if all > self.granted.get().saturating_add(FREE_AT_WORK) {
            self.ask(all, FREE_AT_WORK)?;
        }
        self.kept.set(bytes);
        self.give_surplus();
        Ok(())
    }

    /// Bytes that were kept are given up.
    pub fn drop_kept(&self, bytes: usize) {
        self.kept.set(self.kept.get().saturating_sub(bytes as u64));
        self.give_surplus();
    }

    /// Counts bytes of the statement that runs.
    ///
    /// # Errors
    /// 1041; nothing is counted then.
    pub fn work_with(&self, bytes: usize) -> Result<()> {
        let working = self.working.get().saturating_add(bytes as u64);
        let all = self.kept.get().saturating_add(working);
        if all > self.granted.get().saturating_add(FREE_AT_WORK) {
            self.ask(all, FREE_AT_WORK)?;
        }
        self.working.set(working);
        Ok(())
    }

    /// Bytes of the statement that runs are given up.
    pub fn drop_working(&self, bytes: usize) {
        self.working.set(self.working.get().saturating_sub(bytes as u64));
    }

    /// The statement goes on later: what it holds outlasts the thread's work on it.
    ///
    /// # Errors
    /// 1041
    pub fn pause(&self) -> Result<()> {
        let all = self.kept.get().saturating_add(self.working.get());
        if all > self.granted.get().saturating_add(FREE) { self.ask(all, FREE) } else { Ok(()) }
    }

    /// The statement has ended.
    pub fn end_work(&self) {
        if self.working.replace(0) > 0 || self.granted.get() > 0 {
            self.give_surplus();
        }
    }

    /// Bytes of the statement that runs.
    #[must_use]
    pub fn working(&self) -> u64 {
        self.working.get()
    }

    /// Bytes that outlast statements.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.kept.get()
    }

    /// True while little is held in all: what is kept only to be faster must not take the place of what is needed.
    #[must_use]
    pub fn is_ample(&self) -> bool {
        self.holder.as_ref().is_none_or(|holder| holder.all.held() < holder.all.limit / 4)
    }

    /// Bytes that may be kept in addition without a grant.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.granted.get().saturating_add(FREE).saturating_sub(self.kept.get())
    }

    /// Bytes that one session gets at most; without a limit, the largest number.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.holder.as_ref().map_or(u64::MAX, |holder| holder.all.limit / 3)
    }

    /// Asks for what `all` bytes need of which so many are free.
    fn ask(&self, all: u64, free: u64) -> Result<()> {
        let Some(holder) = &self.holder else {
            self.granted.set(u64::MAX / 2);
            return Ok(());
        };
        let missing = all.saturating_sub(free).saturating_sub(self.granted.get());
        let steps = missing.div_ceil(STEP).saturating_mul(STEP);
        if !holder.take(steps) {
            return Err(holder.refusal(missing));
        }
        self.granted.set(self.granted.get() + steps);
        Ok(())
    }

    /// Gives grants back, but for one that may be needed again at once.
    fn give_surplus(&self) {
        let Some(holder) = &self.holder else { return };
        let used = self.kept.get().saturating_add(self.working.get());
        let needed = if used <= FREE { 0 } else { used.div_ceil(STEP).saturating_add(1).saturating_mul(STEP) };
        let surplus = self.granted.get().saturating_sub(needed);
        if surplus > 0 {
            holder.give(surplus);
            self.granted.set(self.granted.get() - surplus);
        }
    }
}

impl Drop for Purse {
    fn drop(&mut self) {
        if let Some(holder) = &self.holder {
            holder.give(self.granted.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn most(purse: &Purse) -> usize {
        (0..).take_while(|_| purse.keep(MIB).is_ok()).count()
    }

    #[test]
    fn one_session_gets_a_third_and_one_account_half() {
        let memory = ClientMemory::within(60 << 20);
        let account = Arc::default();
        let purses: Vec<Purse> = (0..20).map(|_| Purse::of_session(&memory, &account)).collect();
        assert_eq!(most(&purses[0]), 20);
        let rest: usize = purses.iter().skip(1).map(most).sum();
        assert!((8..=10).contains(&rest), "{rest} MiB more of the account's half");
        let error = purses[3].keep(MIB).unwrap_err();
        assert_eq!((error.code, error.sqlstate), (OUT_OF_MEMORY, "HY000"));
        // Another account gets half of what is left.
        let other = Purse::of_session(&memory, &Arc::default());
        assert!(most(&other) >= 9);
        drop((purses, other));
        assert_eq!((memory.held(), account.held()), (0, 0));
    }

    #[test]
    fn those_who_are_not_logged_in_get_less() {
        let memory = ClientMemory::within(60 << 20);
        let strangers = Arc::new(Part::one_in(4));
        let purses: Vec<Purse> = (0..100).map(|_| Purse::of_session(&memory, &strangers)).collect();
        let held: usize = purses.iter().map(most).sum();
        assert!((10..=12).contains(&held), "{held} MiB: a fifth");
    }

    #[test]
    fn short_statements_need_no_grant_and_what_pauses_does() {
        let memory = ClientMemory::within(1 << 20);
        let account = Arc::default();
        let (full, small) = (Purse::of_session(&memory, &account), Purse::of_session(&memory, &account));
        while full.keep(1 << 10).is_ok() {}
        let greedy = Purse::of_session(&memory, &account);
        while greedy.keep(1 << 10).is_ok() {}
        assert!(small.work_with(100 << 10).is_ok(), "it is short");
        assert_eq!(small.pause().unwrap_err().code, OUT_OF_MEMORY);
        small.end_work();
        assert!(small.work_with(1 << 20).is_err());
        assert_eq!(small.working(), 0, "what was refused is not counted");
        assert!(small.keep(7 << 10).is_ok() && small.pause().is_ok());
    }

    #[test]
    fn what_is_given_up_goes_back() {
        let memory = ClientMemory::within(64 << 20);
        let purse = Purse::of_session(&memory, &Arc::default());
        purse.work_with(4 * MIB).unwrap();
        purse.keep(2 * MIB).unwrap();
        assert!(memory.held() >= (6 * MIB) as u64 - FREE_AT_WORK);
        purse.end_work();
        assert!(memory.held() <= (2 * MIB) as u64 + 2 * STEP);
        purse.drop_kept(MIB);
        assert!(memory.held() <= MIB as u64 + 2 * STEP);
        purse.keep_in_all(0).unwrap();
        assert_eq!(memory.held(), 0);
        let unlimited = Purse::default();
        unlimited.keep(usize::MAX / 4).unwrap();
        unlimited.work_with(usize::MAX / 4).unwrap();
    }
}
