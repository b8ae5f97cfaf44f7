//! The session's transaction: open or not, its characteristics, its savepoints, and the snapshot that it reads.

use std::sync::Arc;
use std::time::Instant;

use sql::{AccessMode, Characteristics, Completion, Isolation, Settings, SqlError, Warning};
use store::Snapshot;

use super::split::Split;
use super::told::OpenTransaction;

/// Savepoints of a transaction, at most: MySQL has no limit, a session's memory has.
const SAVEPOINTS_MAX: usize = 10_000;

/// State of the session's transactions.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    open: Option<Open>,
    /// What SET TRANSACTION said of the next one.
    next: Characteristics,
    /// Number of transactions begun.
    begun: u64,
    /// Of the open transaction. Without one, of a session that does not commit by itself.
    savepoints: Vec<Savepoint>,
}

#[derive(Debug)]
struct Savepoint {
    name: Vec<u8>,
    /// The transaction had opened a table before it.
    had_read: bool,
}

/// A pinned state, and since when; or why it was given up.
type View = Result<(Arc<Snapshot>, Instant), SqlError>;

/// A transaction that was begun.
struct Open {
    /// That of the session when it began, or what SET TRANSACTION said.
    isolation: Isolation,
    characteristics: Characteristics,
    consistent: bool,
    read_only: bool,
    /// Begun by a statement that read a table under autocommit=0.
    implicit: bool,
    /// A table was read in it, and also with a LIMIT, after which MySQL counts a statement as unsafe.
    read: bool,
    limited: bool,
    /// A table is open in it: the engine has a part in it, until that is rolled back as a whole.
    has_tables: bool,
    /// What all its statements read, if that is one state: since when, or why it was given up.
    view: Option<View>,
    /// What its locking reads hold, and its others too where they have no older state: the rows they locked would not
    /// change at MySQL's, nor would anything behind them.
    locked: Option<View>,
    /// A result was sent in it.
    answered: bool,
    /// What of it is another server's.
    split: Split,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Open({:?}, reads one state: {})", self.characteristics, self.view.is_some())
    }
}

impl Transaction {
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// What the open transaction reads, if that is one state and was pinned; `locking`: by a locking read.
    ///
    /// # Errors
    /// It was given up; that stays so until the transaction ends.
    pub(super) fn view(&self, locking: bool) -> Result<Option<Arc<Snapshot>>, SqlError> {
        let of = |open: &'_ Open| -> Option<View> {
            let own = open.view.as_ref().filter(|_| !locking);
            own.or(open.locked.as_ref()).cloned()
        };
        match self.open.as_ref().and_then(of) {
            None => Ok(None),
            Some(Ok((snapshot, _))) => Ok(Some(snapshot)),
            Some(Err(why)) => Err(why),
        }
    }

    /// A statement opens a table. Under autocommit=0 that begins a transaction.
    pub(super) fn opens_table(&mut self, limited: bool, settings: &Settings) {
        if self.open.is_none() && !settings.typed().autocommit {
            let next = Open::of_next(std::mem::take(&mut self.next), settings);
            self.open = Some(Open { implicit: true, ..next });
        }
        if let Some(open) = &mut self.open {
            (open.read, open.has_tables) = (true, true);
            open.limited |= limited;
        }
    }

    /// A statement reads rows of this snapshot: the transaction's others do too, unless each reads anew.
    pub(super) fn reads(&mut self, snapshot: &Arc<Snapshot>, locking: bool, now: Instant) {
        let Some(open) = &mut self.open else { return };
        if locking {
            open.locked.get_or_insert_with(|| Ok((Arc::clone(snapshot), now)));
            return;
        }
        if open.view.is_none() && open.keeps_one_state() {
            open.view = Some(Ok((Arc::clone(snapshot), now)));
            open.split.sees(snapshot);
        }
    }

    pub(super) fn split(&self) -> Option<&Split> {
        self.open.as_ref().map(|open| &open.split)
    }

    pub(super) fn split_mut(&mut self) -> Option<&mut Split> {
        self.open.as_mut().map(|open| &mut open.split)
    }

    /// What was read of the open transaction is of another that it has ended.
    pub(super) fn forget_view(&mut self) {
        if let Some(open) = &mut self.open {
            (open.view, open.locked, open.split) = (None, None, Split::default());
            open.has_tables = false;
        }
    }

    /// True if all that the open transaction, or the next one, reads is of one state that another server can keep.
    pub(super) fn keeps_one_state(&self, settings: &Settings) -> bool {
        self.isolation(settings) == Isolation::RepeatableRead
    }

    /// It was rolled back, because it was in conflict with others.
    pub(super) fn conflicts(&mut self) {
        self.end();
        self.next = Characteristics::default();
    }

    /// Lets go of the snapshot, if it was pinned before this time; reading ends with this error from then on.
    pub(super) fn give_up(&mut self, pinned_before: Option<Instant>, why: &SqlError) {
        let views = self.open.iter_mut().flat_map(|open| [&mut open.view, &mut open.locked]).flatten();
        for view in views {
            if view.as_ref().is_ok_and(|(_, since)| pinned_before.is_none_or(|before| *since < before)) {
                *view = Err(why.clone());
            }
        }
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.read_only)
    }

    /// BEGIN or START TRANSACTION; ends the open one. `pin` pins what WITH CONSISTENT SNAPSHOT reads.
    ///
    /// # Errors
    /// 1290 for READ WRITE, unless another server may write.
    pub(super) fn begin(
        &mut self,
        consistent: bool,
        access: Option<AccessMode>,
        settings: &Settings,
        may_write: bool,
        pin: impl FnOnce() -> Result<(Arc<Snapshot>, Instant), SqlError>,
    ) -> Result<Option<Warning>, SqlError> {
        if access == Some(AccessMode::ReadWrite) && !may_write {
            return Err(SqlError::read_only());
        }
        // As MySQL's does, the level outlasts a transaction that BEGIN ends, whatever SET SESSION has said in it.
        let of_open = self.open.as_ref().map(|open| open.isolation);
        let isolation = of_open.or(self.next.isolation).unwrap_or(settings.typed().isolation);
        let pins = consistent && isolation == Isolation::RepeatableRead;
        // What cannot be pinned now cannot be read in this transaction at all.
        let view = pins.then(pin);
        let next = std::mem::take(&mut self.next);
        let warning = (consistent && !pins).then(|| {
            Warning::new(
                138,
                "InnoDB: WITH CONSISTENT SNAPSHOT was ignored because this phrase can only be used with \
                 REPEATABLE READ isolation level.",
            )
        });
        let access = access.or(next.access);
        // As MySQL's does, READ ONLY outlasts a transaction that BEGIN ends, unless it says otherwise.
        let of_session = || settings.typed().read_only || self.is_read_only();
        let read_only = access.map_or_else(of_session, |access| access == AccessMode::ReadOnly);
        let characteristics = Characteristics { isolation: next.isolation, access };
        self.open = Some(Open { characteristics, consistent, read_only, view, ..Open::of(isolation) });
        self.savepoints.clear();
        self.begun += 1;
        Ok(warning)
    }

    pub(super) fn complete(&mut self, completion: Completion, settings: &Settings) {
        self.begun += u64::from(completion.chain);
        let ended = self.open.take();
        self.savepoints.clear();
        match (completion.chain, ended) {
            (true, Some(open)) => {
                let Open { characteristics, read_only, isolation, .. } = open;
                self.open = Some(Open { characteristics, read_only, ..Open::of(isolation) });
            }
            (true, None) => self.open = Some(Open::of_next(std::mem::take(&mut self.next), settings)),
            (false, _) => self.next = Characteristics::default(),
        }
    }

    /// Ends the open transaction, as statements do that end one implicitly.
    pub(super) fn end(&mut self) {
        self.open = None;
        self.savepoints.clear();
    }

    /// # Errors
    /// 1568 while one is open.
    pub(super) fn next_may_be_set(&self) -> Result<(), SqlError> {
        if !self.is_open() {
            return Ok(());
        }
        let text = "Transaction characteristics can't be changed while a transaction is in progress";
        Err(SqlError::new(1568, "25001", text))
    }

    /// SET TRANSACTION for the next one.
    ///
    /// # Errors
    /// 1568 while one is open.
    pub(super) fn set_next(&mut self, new: Characteristics) -> Result<(), SqlError> {
        self.next_may_be_set()?;
        self.next.isolation = new.isolation.or(self.next.isolation);
        self.next.access = new.access.or(self.next.access);
        Ok(())
    }

    /// The session's own characteristics are set: they take the place of what SET TRANSACTION said.
    pub(super) fn session_sets(&mut self, isolation: bool, access: bool) {
        if self.is_open() {
            return;
        }
        self.next.isolation = self.next.isolation.filter(|_| !isolation);
        self.next.access = self.next.access.filter(|_| !access);
    }

    /// Bytes of its savepoints.
    pub(super) fn bytes(&self) -> usize {
        let savepoints: usize = self.savepoints.iter().map(|own| size_of::<Savepoint>() + own.name.len()).sum();
        savepoints + self.split().map_or(0, Split::bytes)
    }

    /// SAVEPOINT; where each statement is a transaction it is forgotten at once, as by MySQL.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn savepoint(&mut self, name: Vec<u8>, autocommit: bool) -> Result<(), SqlError> {
        if self.open.is_none() && autocommit {
            return Ok(());
        }
        self.savepoints.retain(|own| !same_name(&own.name, &name));
        if self.savepoints.len() == SAVEPOINTS_MAX {
            return Err(SqlError::not_supported("more than 10,000 savepoints"));
        }
        let is_of_engine = |open: &Open| open.has_tables || open.view.is_some() || open.locked.is_some();
        let had_read = self.open.as_ref().is_some_and(is_of_engine);
        self.savepoints.push(Savepoint { name, had_read });
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT: later ones are gone. An engine that had no part in the transaction at the savepoint rolls
    /// back all of it (`ha_rollback_to_savepoint`, sql/handler.cc): what was read since is let go, with its locks, and
    /// the next read is of a new state.
    ///
    /// # Errors
    /// 1305.
    pub(super) fn rollback_to(&mut self, name: &[u8]) -> Result<(), SqlError> {
        self.keep_savepoints(name, 1)?;
        let had_read = self.savepoints.last().is_some_and(|own| own.had_read);
        if !had_read {
            self.forget_view();
        }
        Ok(())
    }

    /// RELEASE SAVEPOINT: it and later ones are gone.
    ///
    /// # Errors
    /// 1305.
    pub(super) fn release(&mut self, name: &[u8]) -> Result<(), SqlError> {
        self.keep_savepoints(name, 0)
    }

    fn keep_savepoints(&mut self, name: &[u8], more: usize) -> Result<(), SqlError> {
        let Some(at) = self.savepoints.iter().position(|own| same_name(&own.name, name)) else {
            let name = String::from_utf8_lossy(name);
            return Err(SqlError::new(1305, "42000", format!("SAVEPOINT {name} does not exist")));
        };
        self.savepoints.truncate(at + more);
        Ok(())
    }

    /// A result with rows was sent.
    pub(super) fn answered(&mut self) {
        if let Some(open) = &mut self.open {
            open.answered = true;
        }
    }

    /// The isolation level of the open transaction, or of the next one.
    pub(super) fn isolation(&self, settings: &Settings) -> Isolation {
        let open = self.open.as_ref().map(|open| open.isolation);
        open.or(self.next.isolation).unwrap_or(settings.typed().isolation)
    }

    /// What SET TRANSACTION said of the next one.
    pub(super) fn next(&self) -> Characteristics {
        self.next
    }

    /// The open transaction, as another server must begin it.
    pub(super) fn open(&self) -> Option<OpenTransaction> {
        let open = self.open.as_ref()?;
        let Open { isolation, read_only, implicit, .. } = *open;
        // What was read here must be in the view there, which is opened before anything else is done.
        let consistent = open.consistent || open.split.has_seen();
        let savepoints = self.savepoints.iter().map(|own| own.name.clone()).collect();
        let (number, says_read_write) = (self.begun, false);
        Some(OpenTransaction { number, isolation, read_only, says_read_write, consistent, implicit, savepoints })
    }

    /// Another server says whether a transaction is open there; `keeps_next`: what SET TRANSACTION said is not used up.
    pub(super) fn is_elsewhere(&mut self, is_open: bool, read_only: bool, keeps_next: bool, settings: &Settings) {
        match (&mut self.open, is_open) {
            (Some(open), true) => open.read_only = read_only,
            (None, true) => {
                let next = Open::of_next(std::mem::take(&mut self.next), settings);
                self.open = Some(Open { read_only, ..next });
                self.begun += 1;
            }
            (None, false) if keeps_next => self.end(),
            (_, false) => {
                self.end();
                self.next = Characteristics::default();
            }
        }
    }

    /// Number of transactions begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// The eight letters of session tracking: begun, read tables or pinned a snapshot, with LIMIT, answered with rows.
    pub(super) fn state(&self) -> String {
        let Some(open) = &self.open else { return "________".to_owned() };
        let letter = |on, letter| if on { letter } else { '_' };
        let begun = if open.implicit { 'I' } else { 'T' };
        let read = letter(open.consistent || open.read, 'R');
        format!("{begun}_{read}__{}{}_", letter(open.limited, 's'), letter(open.answered, 'S'))
    }

    /// The statements that would begin this transaction again.
    pub(super) fn characteristics(&self) -> String {
        let isolation = |isolation: Option<Isolation>| {
            let name = isolation.map(|isolation| isolation.name().replace('-', " "));
            name.map_or_else(String::new, |name| format!("SET TRANSACTION ISOLATION LEVEL {name};"))
        };
        let Some(open) = &self.open else {
            let access = match self.next.access {
                None => "",
                Some(AccessMode::ReadOnly) => "SET TRANSACTION READ ONLY;",
                Some(AccessMode::ReadWrite) => "SET TRANSACTION READ WRITE;",
            };
            return isolation(self.next.isolation) + &space_before(access, self.next.isolation.is_some());
        };
        let mut options = Vec::new();
        options.extend(open.consistent.then_some("WITH CONSISTENT SNAPSHOT"));
        options.extend(open.characteristics.access.map(|access| match access {
            AccessMode::ReadOnly => "READ ONLY",
            AccessMode::ReadWrite => "READ WRITE",
        }));
        let start = format!("START TRANSACTION {}", options.join(", "));
        let start = format!("{};", start.trim_end());
        isolation(open.characteristics.isolation) + &space_before(&start, open.characteristics.isolation.is_some())
    }
}

impl Open {
    fn of(isolation: Isolation) -> Open {
        Open {
            isolation,
            characteristics: Characteristics::default(),
            consistent: false,
            read_only: false,
            implicit: false,
            read: false,
            limited: false,
            has_tables: false,
            view: None,
            locked: None,
            answered: false,
            split: Split::default(),
        }
    }

    /// One of the session, with what SET TRANSACTION said of it.
    fn of_next(next: Characteristics, settings: &Settings) -> Open {
        let read_only = next.access.map_or(settings.typed().read_only, |access| access == AccessMode::ReadOnly);
        let isolation = next.isolation.unwrap_or(settings.typed().isolation);
        Open { characteristics: next, read_only, ..Open::of(isolation) }
    }

    /// True if all that it reads is of one snapshot.
    fn keeps_one_state(&self) -> bool {
        !matches!(self.isolation, Isolation::ReadCommitted | Isolation::ReadUncommitted)
    }
}

fn space_before(text: &str, space: bool) -> String {
    if space && !text.is_empty() { format!(" {text}") } else { text.to_owned() }
}

/// Names of savepoints ignore case; those beyond ASCII are compared as they are.
fn same_name(a: &[u8], b: &[u8]) -> bool {
    a.eq_ignore_ascii_case(b)
}
