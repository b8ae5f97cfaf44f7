//! Numbers of prepared statements: the client's, and the source's for those that it has.
//!
//! In: commands that name a statement by the client's number. Out: the same for the source; facts about each
//! statement since it was prepared. Never here: a number of the source that a client sees; parameters.

use std::collections::HashMap;

use syntax::StatementKind;
use wire::command;

use crate::{Sees, Sent};

/// Texts that are kept, each in bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The prepared statements of a session.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Those that the source has.
    there: HashMap<u32, There>,
    /// Facts about the preparation of each.
    prepared: HashMap<u32, Sent>,
}

/// A statement at the source.
#[derive(Debug)]
struct There {
    number: u32,
    /// It was executed there last: its cursor is there.
    is_last: bool,
    /// Its text, if that is short: whether it locks rows of a view is known only where views are.
    text: Option<Box<[u8]>>,
}

/// The statement that a command names.
#[must_use]
pub fn statement_of(payload: &[u8]) -> Option<u32> {
    let names = matches!(
        *payload.first()?,
        command::STMT_EXECUTE
            | command::STMT_SEND_LONG_DATA
            | command::STMT_CLOSE
            | command::STMT_RESET
            | command::STMT_FETCH
    );
    if names { Some(u32::from_le_bytes(*payload.get(1..)?.first_chunk()?)) } else { None }
}

impl Numbers {
    /// The client's statement of this number was prepared, here or there, unless it is one that was before.
    pub fn prepared(&mut self, number: u32, sent: Sent) {
        self.prepared.entry(number).or_insert(sent);
    }

    /// Facts about an execution of it, or about another command.
    #[must_use]
    pub fn execution(&self, payload: &[u8], sent: Sent) -> Sent {
        let is_execution = payload.first() == Some(&command::STMT_EXECUTE);
        let prepared = statement_of(payload).filter(|_| is_execution).and_then(|number| self.prepared.get(&number));
        prepared.map_or(sent, |prepared| sent.executing(*prepared))
    }

    /// A statement is closed here.
    pub fn closes(&mut self, number: u32) {
        self.prepared.remove(&number);
    }

    /// The source has prepared the client's statement of this number as that one.
    pub fn add(&mut self, number: u32, there: u32, text: &[u8]) {
        let is_short = text.len() <= TEXT_BYTES_MAX;
        let sees_nothing = self.prepared.get_mut(&number).filter(|sent| sent.sees == Sees::Nothing);
        let text = (is_short && sees_nothing.is_some()).then(|| text.into());
        // A locking read, perhaps of a view.
        if let Some(sent) = sees_nothing.filter(|sent| !is_short && sent.alone == Some(StatementKind::Select)) {
            sent.sees = Sees::Anything;
        }
        self.there.insert(number, There { number: there, is_last: true, text });
    }

    /// The text of that one, if it is kept: it sees nothing, as far as its text tells.
    #[must_use]
    pub fn text(&self, number: u32) -> Option<&[u8]> {
        self.there.get(&number)?.text.as_deref()
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let there = |there: &There| size_of::<There>() + there.text.as_ref().map_or(0, |text| text.len());
        self.there.values().map(there).sum::<usize>() + self.prepared.len() * size_of::<Sent>()
    }

    #[must_use]
    pub fn has(&self, number: u32) -> bool {
        self.there.contains_key(&number)
    }

    /// True if the statement was executed there last.
    #[must_use]
    pub fn ran_last(&self, number: u32) -> bool {
        self.there.get(&number).is_some_and(|there| there.is_last)
    }

    /// The statement was executed here.
    pub fn runs_here(&mut self, number: u32) {
        if let Some(there) = self.there.get_mut(&number) {
            there.is_last = false;
        }
    }

    /// Gives a command for the source that one's number of its statement, which it returns. A statement that is closed
    /// is forgotten.
    pub fn renumber(&mut self, payload: &mut [u8]) -> Option<u32> {
        let number = statement_of(payload)?;
        let there = self.there.get_mut(&number)?;
        there.is_last = true;
        let found = there.number;
        payload.get_mut(1..5)?.copy_from_slice(&found.to_le_bytes());
        if payload.first() == Some(&command::STMT_CLOSE) {
            self.closes(number);
            self.there.remove(&number);
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(code: u8, number: u32) -> Vec<u8> {
        [&[code], &number.to_le_bytes()[..], &[7]].concat()
    }

    #[test]
    fn commands_name_the_sources_statement() {
        let mut numbers = Numbers::default();
        numbers.prepared(3, Sent { sees: Sees::Tables, ..Sent::default() });
        numbers.add(3, 12, b"SELECT a FROM t");
        for code in [command::STMT_EXECUTE, command::STMT_FETCH, command::STMT_RESET, command::STMT_SEND_LONG_DATA] {
            let mut payload = command(code, 3);
            assert_eq!(numbers.renumber(&mut payload), Some(12));
            assert_eq!(payload, command(code, 12));
            let mut other = command(code, 4);
            assert_eq!((numbers.renumber(&mut other), other), (None, command(code, 4)));
        }
        assert!(numbers.ran_last(3));
        let sent = Sent { reads: true, sees: Sees::Anything, ..Sent::default() };
        let executed = Sent { sees: Sees::Tables, ..sent };
        assert_eq!(numbers.execution(&command(command::STMT_EXECUTE, 3), sent), executed);
        assert_eq!(numbers.execution(&command(command::STMT_EXECUTE, 12), sent), sent);
        assert_eq!((numbers.execution(&command(command::STMT_FETCH, 3), sent), numbers.text(3)), (sent, None));
        [5, 6].into_iter().for_each(|number| numbers.prepared(number, Sent::default()));
        numbers.add(5, 13, b"DELETE FROM t");
        numbers.prepared(7, Sent { alone: Some(StatementKind::Select), ..Sent::default() });
        [6, 7].into_iter().for_each(|number| numbers.add(number, number + 8, &[b' '; TEXT_BYTES_MAX + 1]));
        let sees = |numbers: &Numbers, number| numbers.execution(&command(command::STMT_EXECUTE, number), sent).sees;
        assert_eq!((sees(&numbers, 6), sees(&numbers, 7)), (Sees::Nothing, Sees::Anything), "of a view, perhaps");
        assert_eq!((numbers.text(5), numbers.text(6)), (Some(&b"DELETE FROM t"[..]), None));
        assert!(numbers.bytes() > 3 * size_of::<There>());
        numbers.runs_here(3);
        assert!(!numbers.ran_last(3) && numbers.has(3));
        let mut query = command(command::QUERY, 3);
        assert_eq!((numbers.renumber(&mut query), query), (None, command(command::QUERY, 3)));
        assert_eq!(numbers.renumber(&mut command(command::STMT_CLOSE, 3)), Some(12));
        assert!(!numbers.has(3));
        assert_eq!(numbers.execution(&command(command::STMT_EXECUTE, 3), sent), sent);
        assert_eq!(statement_of(&[command::STMT_EXECUTE, 1, 0]), None);
    }
}
