//! User locks that a session has at the source: GET_LOCK and its like.
//!
//! In: a statement's text, what its answer said. Out: how many locks the session may have. Never here: a call that may
//! be made more than once or not at all: its statement is no [`UserLock`], and the source keeps the session.

use syntax::{Classified, Keyword, Kind, Lexer, Settings, State, StatementKind};

use crate::Told;

/// A SELECT of one call, of constants, and of nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserLock {
    /// GET_LOCK: 1 if the session has the lock now.
    Get,
    /// RELEASE_LOCK: 1 if it had it.
    Release,
    ReleaseAll,
}

/// Tokens of the longest statement that is looked at whole, with an alias.
const TOKENS_MAX: usize = 10;

impl UserLock {
    /// `text`: what `one` was read from.
    pub(crate) fn of(text: &[u8], one: &Classified, settings: Settings) -> Option<UserLock> {
        let does_nothing_else = one.kind == StatementKind::Select
            && one.state.has(State::NAMED_LOCKS)
            && one.state.without(State::NAMED_LOCKS).is_empty()
            && one.inexact.is_empty()
            && one.unknown_functions.is_empty();
        if does_nothing_else { of_call(one.span.of(text), settings) } else { None }
    }

    /// Upper bound of the session's locks after it, from the one before; one that was got twice counts twice.
    pub(crate) fn after(self, held: u32, told: &Told) -> u32 {
        let has_row = told.error.is_none() && told.rows == 1;
        match self {
            UserLock::Get if has_row && !told.is_one => held,
            UserLock::Get => held.saturating_add(1),
            UserLock::Release if has_row && told.is_one => held.saturating_sub(1),
            UserLock::ReleaseAll if has_row => 0,
            UserLock::Release | UserLock::ReleaseAll => held,
        }
    }
}

fn of_call(text: &[u8], settings: Settings) -> Option<UserLock> {
    let mut lexer = Lexer::new(text, settings);
    let (mut shape, mut function, mut has_as) = (Vec::new(), &b""[..], false);
    loop {
        let token = lexer.next_token();
        shape.push(match token.kind {
            Kind::End => break,
            Kind::Word | Kind::Name => b'w',
            Kind::Text => b't',
            Kind::Integer | Kind::Decimal => b'n',
            Kind::Byte(byte) => byte,
            _ => return None,
        });
        match shape.len() {
            1 if token.keyword != Keyword::Select => return None,
            2 => function = token.span.of(text),
            length if length > TOKENS_MAX => return None,
            _ => has_as |= token.keyword == Keyword::As,
        }
    }
    let calls: &[(&str, &[u8], UserLock)] = &[
        ("GET_LOCK", b"ww(t,n)", UserLock::Get),
        ("GET_LOCK", b"ww(t,-n)", UserLock::Get),
        ("RELEASE_LOCK", b"ww(t)", UserLock::Release),
        ("RELEASE_ALL_LOCKS", b"ww()", UserLock::ReleaseAll),
    ];
    let (.., lock) = calls.iter().find(|(name, call, _)| {
        let alias = shape.strip_prefix(*call);
        function.eq_ignore_ascii_case(name.as_bytes())
            && alias.is_some_and(|alias| matches!((alias, has_as), (b"" | b"w", false) | (b"ww", true)))
    })?;
    Some(*lock)
}

#[cfg(test)]
mod tests {
    use syntax::classify;

    use super::*;

    fn of(text: &str) -> Option<UserLock> {
        let settings = Settings::default();
        UserLock::of(text.as_bytes(), &classify(text.as_bytes(), settings)[0], settings)
    }

    #[test]
    fn one_call_of_constants_is_known() {
        for text in ["SELECT GET_LOCK('Flyway--1', 10)", "select get_lock('a', -1) AS l", "SELECT GET_LOCK('a', 0.5) l"]
        {
            assert_eq!(of(text), Some(UserLock::Get), "{text}");
        }
        for text in ["SELECT RELEASE_LOCK('Flyway--1')", "SELECT /* x */ release_lock('a') as `l`"] {
            assert_eq!(of(text), Some(UserLock::Release), "{text}");
        }
        assert_eq!(of("SELECT RELEASE_ALL_LOCKS()"), Some(UserLock::ReleaseAll));
        for text in [
            "SELECT GET_LOCK(a, 1)",
            "SELECT GET_LOCK(@a, 1)",
            "SELECT GET_LOCK(?, 1)",
            "SELECT GET_LOCK('a', 1), GET_LOCK('b', 1)",
            "SELECT GET_LOCK('a', 1) FROM t",
            "SELECT GET_LOCK('a', 1) WHERE 0",
            "SELECT GET_LOCK('a', 1) HAVING l",
            "SELECT GET_LOCK('a', 1) INTO @a",
            "SELECT RELEASE_LOCK('a') LIMIT 0",
            "SELECT 1 + RELEASE_LOCK('a')",
            "DO GET_LOCK('a', 1)",
            "SELECT IS_FREE_LOCK('a')",
            "SELECT d.RELEASE_LOCK('a')",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn a_lock_counts_until_its_release_is_told() {
        let one = Told { rows: 1, is_one: true, ..Told::default() };
        let zero = Told { is_one: false, ..one };
        let error = Told { error: Some(1317), rows: 0, ..zero };
        assert_eq!(UserLock::Get.after(0, &one), 1);
        assert_eq!(UserLock::Get.after(0, &zero), 0, "another session has it");
        assert_eq!(UserLock::Get.after(1, &error), 2, "that is not known");
        assert_eq!(UserLock::Release.after(2, &one), 1);
        assert_eq!(UserLock::Release.after(2, &zero), 2);
        assert_eq!(UserLock::Release.after(2, &error), 2);
        assert_eq!(UserLock::ReleaseAll.after(2, &zero), 0, "the answer is how many there were");
        assert_eq!(UserLock::ReleaseAll.after(2, &error), 2);
    }
}
