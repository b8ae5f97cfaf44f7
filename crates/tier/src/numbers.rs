//! Numbers of prepared statements: the client's, and the source's for those that it has.
//!
//! In: commands that name a statement by the client's number. Out: the same for the source. Never here: a number of the
//! source that a client sees; texts, parameters.

use std::collections::HashMap;

use wire::command;

use crate::Sees;

/// Texts that are kept, each in bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The statements of a session that the source has.
#[derive(Debug, Default)]
pub struct Numbers(HashMap<u32, There>);

/// A statement at the source.
#[derive(Debug)]
struct There {
    number: u32,
    /// It was executed there last: its cursor is there.
    is_last: bool,
    /// What it sees of its transaction's view.
    sees: Sees,
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
    /// The source has prepared the client's statement of this number as that one.
    pub fn add(&mut self, number: u32, there: u32, sees: Sees, text: &[u8]) {
        let text = (sees == Sees::Nothing && text.len() <= TEXT_BYTES_MAX).then(|| text.into());
        self.0.insert(number, There { number: there, is_last: true, sees, text });
    }

    /// What an execution of that one sees of its transaction's view.
    #[must_use]
    pub fn sees(&self, number: u32) -> Option<Sees> {
        self.0.get(&number).map(|there| there.sees)
    }

    /// The text of that one, if it is kept: it sees nothing, as far as its text tells.
    #[must_use]
    pub fn text(&self, number: u32) -> Option<&[u8]> {
        self.0.get(&number)?.text.as_deref()
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.values().map(|there| size_of::<There>() + there.text.as_ref().map_or(0, |text| text.len())).sum()
    }

    #[must_use]
    pub fn has(&self, number: u32) -> bool {
        self.0.contains_key(&number)
    }

    /// True if the statement was executed there last.
    #[must_use]
    pub fn ran_last(&self, number: u32) -> bool {
        self.0.get(&number).is_some_and(|there| there.is_last)
    }

    /// The statement was executed here.
    pub fn runs_here(&mut self, number: u32) {
        if let Some(there) = self.0.get_mut(&number) {
            there.is_last = false;
        }
    }

    /// Gives a command for the source that one's number of its statement, which it returns. A statement that is closed
    /// is forgotten.
    pub fn renumber(&mut self, payload: &mut [u8]) -> Option<u32> {
        let number = statement_of(payload)?;
        let there = self.0.get_mut(&number)?;
        there.is_last = true;
        let found = there.number;
        payload.get_mut(1..5)?.copy_from_slice(&found.to_le_bytes());
        if payload.first() == Some(&command::STMT_CLOSE) {
            self.0.remove(&number);
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
        numbers.add(3, 12, Sees::Tables, b"SELECT a FROM t");
        for code in [command::STMT_EXECUTE, command::STMT_FETCH, command::STMT_RESET, command::STMT_SEND_LONG_DATA] {
            let mut payload = command(code, 3);
            assert_eq!(numbers.renumber(&mut payload), Some(12));
            assert_eq!(payload, command(code, 12));
            let mut other = command(code, 4);
            assert_eq!((numbers.renumber(&mut other), other), (None, command(code, 4)));
        }
        assert!(numbers.ran_last(3));
        assert_eq!((numbers.sees(3), numbers.sees(12), numbers.text(3)), (Some(Sees::Tables), None, None));
        numbers.add(5, 13, Sees::Nothing, b"DELETE FROM t");
        numbers.add(6, 14, Sees::Nothing, &[b' '; TEXT_BYTES_MAX + 1]);
        assert_eq!((numbers.text(5), numbers.text(6)), (Some(&b"DELETE FROM t"[..]), None));
        assert!(numbers.bytes() > 3 * size_of::<There>());
        numbers.runs_here(3);
        assert!(!numbers.ran_last(3) && numbers.has(3));
        let mut query = command(command::QUERY, 3);
        assert_eq!((numbers.renumber(&mut query), query), (None, command(command::QUERY, 3)));
        assert_eq!(numbers.renumber(&mut command(command::STMT_CLOSE, 3)), Some(12));
        assert!(!numbers.has(3));
        assert_eq!(statement_of(&[command::STMT_EXECUTE, 1, 0]), None);
    }
}
