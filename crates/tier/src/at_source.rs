//! What a session has at the source that another connection would not have.
//!
//! In: statements that were sent, what their answers said. Out: whether the connection can be another one. Never here:
//! a guess: whatever is not known to be nothing is something.

use syntax::StatementKind;
use wire::response::status;

use crate::{Leaves, Sent, Told};

/// 1064: the text is no statement.
const SYNTAX_ERROR: u16 = 1064;
/// 1213: the transaction was rolled back.
const DEADLOCK: u16 = 1213;

/// Of one connection to the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AtSource {
    is_in_transaction: bool,
    /// Its statements do not commit by themselves.
    is_manual: bool,
    /// While they do not, until COMMIT or ROLLBACK: locks or savepoints of which no status tells.
    may_hold: bool,
    /// Until the session is reset.
    has_changed: bool,
    /// The source may not tell of its changes any more.
    is_untold: bool,
    /// Until the next statement: rows found or changed, warnings, an error.
    has_results: bool,
    /// Until the next SELECT: FOUND_ROWS() outlives other statements.
    has_found_rows: bool,
    /// Rows have changed, and no GTID was told since.
    has_unlogged: bool,
    /// It has something that is not known here.
    is_pinned: bool,
    /// Locks of GET_LOCK, at most.
    user_locks: u32,
}

impl AtSource {
    /// A command is sent.
    pub fn sends(&mut self, sent: &Sent) {
        self.has_changed |= sent.changes_session;
        self.is_untold |= sent.changes_tracking;
        self.has_results = true;
    }

    /// Its answer has ended.
    pub fn answered(&mut self, sent: &Sent, told: &Told) {
        if sent.resets && told.error.is_none() {
            *self = AtSource { is_untold: self.is_untold, ..AtSource::default() };
            return;
        }
        self.has_changed |= told.changed || told.last_insert_id != 0;
        let has_rows = told.rows > 0 || told.affected_rows > 0;
        self.has_results = told.error.is_some() || told.warnings > 0 || has_rows || sent.leaves_results;
        // Of several results the last one counts, and which that is was not looked at.
        self.has_found_rows = told.rows > 0 || (self.has_found_rows && !(sent.may_repeat && told.error.is_none()));
        if let Some(bits) = told.status {
            self.says(bits);
        }
        // A text that is not understood has done nothing.
        let did_nothing = sent.alone.is_some() && told.error == Some(SYNTAX_ERROR);
        if !self.is_manual || ends_transaction(sent, told) {
            self.may_hold = false;
        } else {
            self.may_hold |= !did_nothing && may_hold(sent, told);
        }
        if let Leaves::UserLock(lock) = sent.leaves
            && !did_nothing
        {
            self.user_locks = lock.after(self.user_locks, told);
        }
        self.is_pinned |= (sent.pins() && !did_nothing) || (told.changed && !sent.is_told);
        let rolled_back =
            (sent.alone == Some(StatementKind::Rollback) && told.error.is_none()) || told.error == Some(DEADLOCK);
        self.has_unlogged = (self.has_unlogged || told.changed_rows > 0) && !told.has_gtids && !rolled_back;
        if told.status.is_some_and(|bits| bits & status::IN_TRANS == 0) {
            // What has no GTID does not come here.
            self.is_pinned |= std::mem::take(&mut self.has_unlogged);
        }
    }

    /// A statement of our own has ended with these status bits.
    pub fn says(&mut self, bits: u16) {
        self.is_in_transaction = bits & status::IN_TRANS != 0;
        self.is_manual = bits & status::AUTOCOMMIT == 0;
    }

    /// A ROLLBACK of our own has ended with these status bits.
    pub fn rolled_back(&mut self, bits: u16) {
        self.says(bits);
        self.has_unlogged = false;
        self.may_hold = false;
    }

    /// True if the session has something there that is not known here.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.is_pinned || self.user_locks > 0
    }

    #[must_use]
    pub fn is_in_transaction(&self) -> bool {
        self.is_in_transaction
    }

    /// True if all that the session sends is the source's to answer.
    #[must_use]
    pub fn keeps_session(&self) -> bool {
        self.is_pinned() || self.is_in_transaction || self.may_hold
    }

    /// True if a connection that has just been opened is as good.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.may_repeat() && !self.has_results && !self.has_found_rows
    }

    /// True if a plain SELECT may be sent again over another connection.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        !self.is_in_transaction && !self.is_manual && !self.has_changed && !self.is_untold
    }
}

/// True if nothing of a transaction is left.
fn ends_transaction(sent: &Sent, told: &Told) -> bool {
    use StatementKind as S;
    let ends = matches!(sent.alone, Some(S::Commit | S::Rollback | S::Ddl | S::StoredProgram | S::Account));
    ends && told.error.is_none() && told.status.is_some_and(|bits| bits & status::IN_TRANS == 0)
}

/// True if, where statements do not commit by themselves, COMMIT may have something to end: an error has no status, and
/// after a savepoint, a table without transactions, or one that was looked for in vain, it is that of no transaction.
fn may_hold(sent: &Sent, told: &Told) -> bool {
    use StatementKind as S;
    let is_of_savepoint = matches!(sent.alone, Some(S::Savepoint | S::RollbackTo | S::ReleaseSavepoint));
    told.error.is_some() || is_of_savepoint || (sent.shows_rows && sent.alone != Some(S::Show))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserLock;

    #[test]
    fn what_is_left_behind_keeps_the_connection() {
        let sent = Sent::default();
        let ok = Told { status: Some(status::AUTOCOMMIT), ..Told::default() };
        let after = |sent: &Sent, told: &Told| {
            let mut at = AtSource::default();
            at.sends(sent);
            assert!(!at.is_nothing(), "it runs");
            at.answered(sent, told);
            at
        };
        assert!(after(&sent, &ok).is_nothing());
        for told in [
            Told { status: Some(status::AUTOCOMMIT | status::IN_TRANS), ..ok },
            Told { status: Some(0), ..ok },
            Told { changed: true, ..ok },
            Told { last_insert_id: 7, ..ok },
            Told { warnings: 1, ..ok },
            Told { rows: 1, ..ok },
            Told { error: Some(1064), status: None, ..ok },
        ] {
            assert!(!after(&sent, &told).is_nothing(), "{told:?}");
        }
        let mut at = after(&sent, &Told { rows: 1, ..ok });
        at.sends(&sent);
        at.answered(&sent, &ok);
        assert!(!at.is_nothing(), "FOUND_ROWS() is 1 still");
        let select = Sent { may_repeat: true, ..sent };
        at.sends(&select);
        at.answered(&select, &ok);
        assert!(at.is_nothing(), "and 0 after a SELECT without rows");
        let mut at = after(&Sent { changes_session: true, ..sent }, &ok);
        assert!(!at.is_nothing() && !at.may_repeat());
        let reset = Sent { resets: true, ..sent };
        at.sends(&reset);
        at.answered(&reset, &ok);
        assert!(at.is_nothing());
        at.sends(&Sent { changes_tracking: true, ..sent });
        at.sends(&reset);
        at.answered(&reset, &ok);
        assert!(!at.is_nothing(), "its schema may be another one");
    }

    #[test]
    fn what_is_not_known_here_keeps_the_session() {
        let sent = Sent { alone: Some(StatementKind::Update), ..Sent::default() };
        let ok = Told { status: Some(status::AUTOCOMMIT), ..Told::default() };
        let keeps = |all: &[(Sent, Told)]| {
            let mut at = AtSource::default();
            for (sent, told) in all {
                at.sends(sent);
                at.answered(sent, told);
            }
            at.keeps_session()
        };
        let written = Told { changed_rows: 1, ..ok };
        let open = |told: Told| Told { status: Some(status::AUTOCOMMIT | status::IN_TRANS), ..told };
        assert!(!keeps(&[(sent, ok)]));
        assert!(!keeps(&[(sent, Told { has_gtids: true, ..written })]));
        assert!(keeps(&[(sent, written)]), "without a GTID it does not come here");
        assert!(keeps(&[(sent, open(ok))]));
        assert!(!keeps(&[(sent, open(written)), (sent, Told { has_gtids: true, ..ok })]));
        assert!(keeps(&[(sent, open(written)), (sent, ok)]));
        assert!(!keeps(&[(sent, open(written)), (Sent { alone: Some(StatementKind::Rollback), ..sent }, ok)]));
        let pins = Sent { leaves: Leaves::Unknown, ..sent };
        assert!(keeps(&[(pins, ok), (sent, ok)]));
        assert!(!keeps(&[(pins, Told { error: Some(1064), status: None, ..ok })]));
        assert!(keeps(&[(pins, Told { error: Some(1305), status: None, ..ok })]));
        let manual = Told { status: Some(0), ..ok };
        assert!(!keeps(&[(sent, manual)]), "between two transactions of autocommit=0");
        assert!(keeps(&[(sent, Told { status: Some(status::IN_TRANS), ..ok })]));
        let failed = Told { error: Some(1062), status: None, ..ok };
        let ended = (Sent { alone: Some(StatementKind::Rollback), ..sent }, manual);
        assert!(keeps(&[(sent, manual), (sent, failed)]), "it may have locked a row");
        assert!(!keeps(&[(sent, manual), (sent, failed), ended]) && !keeps(&[(sent, ok), (sent, failed)]));
        assert!(!keeps(&[(sent, manual), (sent, Told { error: Some(1064), ..failed })]));
        let looks = Sent { shows_rows: true, alone: Some(StatementKind::Select), ..sent };
        assert!(keeps(&[(looks, manual)]), "of a table without transactions");
        assert!(!keeps(&[(Sent { alone: Some(StatementKind::Show), ..looks }, manual)]));
        let plain = Sent { alone: Some(StatementKind::Select), ..Sent::default() };
        assert!(keeps(&[(sent, manual), (sent, failed), (plain, manual)]), "and the next one does not end it");
        let savepoint = (Sent { alone: Some(StatementKind::Savepoint), ..Sent::default() }, manual);
        assert!(keeps(&[savepoint]) && !keeps(&[savepoint, ended]));
        assert!(!keeps(&[savepoint, (Sent { alone: Some(StatementKind::Ddl), ..looks }, manual)]));
        assert!(!keeps(&[savepoint, (sent, ok)]), "SET autocommit = 1 commits");
        let lock = |lock| Sent { leaves: Leaves::UserLock(lock), changes_session: true, ..sent };
        let one = Told { rows: 1, is_one: true, ..ok };
        let (got, released) = ((lock(UserLock::Get), one), (lock(UserLock::Release), one));
        assert!(keeps(&[got]) && keeps(&[got, got, released]));
        assert!(!keeps(&[got, got, released, released]) && !keeps(&[got, got, (lock(UserLock::ReleaseAll), one)]));
        let changed = Told { changed: true, ..ok };
        assert!(keeps(&[(sent, changed)]), "a trigger has set a variable");
        assert!(!keeps(&[(Sent { is_told: true, ..sent }, changed)]));
        assert!(!keeps(&[(pins, ok), (Sent { resets: true, ..sent }, ok)]));
        // A transaction that was begun for a statement that fails is open.
        let mut at = AtSource::default();
        at.says(status::AUTOCOMMIT | status::IN_TRANS);
        at.answered(&sent, &Told { error: Some(1146), ..Told::default() });
        assert!(at.keeps_session());
        at.answered(&sent, &open(written));
        at.rolled_back(status::AUTOCOMMIT);
        at.answered(&sent, &ok);
        assert!(!at.keeps_session(), "what it wrote was taken back");
    }
}
