//! The session's transaction: open or not, its characteristics, its savepoints. It holds no snapshot: tables are read in
//! transactions of READ COMMITTED only.

use sql::{AccessMode, Characteristics, Completion, Isolation, SqlError, Warning};

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
}

/// A transaction that was begun.
#[derive(Debug, Default)]
struct Open {
    characteristics: Characteristics,
    consistent: bool,
    read_only: bool,
    savepoints: Vec<Vec<u8>>,
    /// A result was sent in it.
    answered: bool,
}

impl Transaction {
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// True if all that a transaction reads must be of one snapshot. `session` is the session's isolation level.
    pub(super) fn keeps_one_snapshot(&self, session: &str) -> bool {
        self.open.as_ref().is_some_and(|open| {
            let isolation = open.characteristics.isolation.map_or(session, |isolation| isolation.name());
            ![Isolation::ReadCommitted, Isolation::ReadUncommitted].iter().any(|level| level.name() == isolation)
        })
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.read_only)
    }

    /// BEGIN or START TRANSACTION; ends the open one.
    ///
    /// # Errors
    /// 1290 for READ WRITE.
    pub(super) fn begin(
        &mut self,
        consistent: bool,
        access: Option<AccessMode>,
        session: Session<'_>,
    ) -> Result<Option<Warning>, SqlError> {
        if access == Some(AccessMode::ReadWrite) {
            return Err(SqlError::read_only());
        }
        let next = std::mem::take(&mut self.next);
        let isolation: &str = next.isolation.map_or(session.isolation, |isolation| isolation.name());
        let warning = (consistent && isolation != Isolation::RepeatableRead.name()).then(|| {
            Warning::new(
                138,
                "InnoDB: WITH CONSISTENT SNAPSHOT was ignored because this phrase can only be used with \
                 REPEATABLE READ isolation level.",
            )
        });
        let access = access.or(next.access);
        let read_only = access.map_or(session.read_only, |access| access == AccessMode::ReadOnly);
        let characteristics = Characteristics { isolation: next.isolation, access };
        self.open = Some(Open { characteristics, consistent, read_only, ..Open::default() });
        self.begun += 1;
        Ok(warning)
    }

    /// COMMIT or ROLLBACK.
    pub(super) fn complete(&mut self, completion: Completion) {
        self.begun += u64::from(completion.chain);
        let ended = self.open.take();
        match (completion.chain, ended) {
            (true, Some(open)) => {
                self.open =
                    Some(Open { characteristics: open.characteristics, read_only: open.read_only, ..Open::default() });
            }
            (true, None) => self.open = Some(Open::default()),
            (false, _) => self.next = Characteristics::default(),
        }
    }

    /// Ends the open transaction, as statements do that end one implicitly.
    pub(super) fn end(&mut self) {
        self.open = None;
    }

    /// SET TRANSACTION for the next one.
    ///
    /// # Errors
    /// 1568 while one is open.
    pub(super) fn set_next(&mut self, new: Characteristics) -> Result<(), SqlError> {
        if self.is_open() {
            let text = "Transaction characteristics can't be changed while a transaction is in progress";
            return Err(SqlError::new(1568, "25001", text));
        }
        self.next.isolation = new.isolation.or(self.next.isolation);
        self.next.access = new.access.or(self.next.access);
        Ok(())
    }

    /// SAVEPOINT; without an open transaction it is forgotten at once, as by MySQL.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn savepoint(&mut self, name: Vec<u8>) -> Result<(), SqlError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.savepoints.retain(|own| !same_name(own, &name));
        if open.savepoints.len() == SAVEPOINTS_MAX {
            return Err(SqlError::not_supported("more than 10,000 savepoints"));
        }
        open.savepoints.push(name);
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT: later ones are gone.
    ///
    /// # Errors
    /// 1305.
    pub(super) fn rollback_to(&mut self, name: &[u8]) -> Result<(), SqlError> {
        self.keep_savepoints(name, 1)
    }

    /// RELEASE SAVEPOINT: it and later ones are gone.
    ///
    /// # Errors
    /// 1305.
    pub(super) fn release(&mut self, name: &[u8]) -> Result<(), SqlError> {
        self.keep_savepoints(name, 0)
    }

    fn keep_savepoints(&mut self, name: &[u8], more: usize) -> Result<(), SqlError> {
        let found = self.open.as_mut().and_then(|open| {
            let at = open.savepoints.iter().position(|own| same_name(own, name))?;
            open.savepoints.truncate(at + more);
            Some(())
        });
        let name = String::from_utf8_lossy(name);
        found.ok_or_else(|| SqlError::new(1305, "42000", format!("SAVEPOINT {name} does not exist")))
    }

    /// A result with rows was sent.
    pub(super) fn answered(&mut self) {
        if let Some(open) = &mut self.open {
            open.answered = true;
        }
    }

    /// Number of transactions begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// The eight letters of session tracking: begun, read from a consistent snapshot, answered with rows.
    pub(super) fn state(&self) -> String {
        let Some(open) = &self.open else { return "________".to_owned() };
        let letter = |on, letter| if on { letter } else { '_' };
        format!("T_{}___{}_", letter(open.consistent, 'R'), letter(open.answered, 'S'))
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

/// The session's values of what SET TRANSACTION sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Session<'a> {
    pub(super) isolation: &'a str,
    pub(super) read_only: bool,
}

fn space_before(text: &str, space: bool) -> String {
    if space && !text.is_empty() { format!(" {text}") } else { text.to_owned() }
}

/// Names of savepoints ignore case; those beyond ASCII are compared as they are.
fn same_name(a: &[u8], b: &[u8]) -> bool {
    a.eq_ignore_ascii_case(b)
}
