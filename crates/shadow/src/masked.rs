//! Statements without their literals.

use catalog::lexer::{Lexer, Tok};
use sql::SERVER_VERSION;

/// Longest text of a statement in a report, in bytes.
const SHOWN_BYTES_MAX: usize = 1_000;

/// The statement with `?` for each literal and savepoint, one blank between tokens that had any, and without comments.
/// Lists of literals become one `?`, so that statements which differ in their number are the same.
pub(crate) fn masked(sql: &[u8], sql_mode: u64) -> String {
    let mut lexer = Lexer::new(sql, sql_mode, SERVER_VERSION);
    let (mut text, mut end) = (String::new(), 0);
    let mut savepoint = Savepoint::Begins;
    loop {
        let token = match lexer.next_token() {
            Ok(token) if token.tok == Tok::End => break,
            Ok(token) => token,
            Err(_) => {
                text.push_str(" …");
                break;
            }
        };
        if !text.is_empty() && token.start > end {
            text.push(' ');
        }
        end = token.end;
        let is_savepoint = savepoint.is_named_by(&token.tok);
        match token.tok {
            _ if is_savepoint => text.push('?'),
            Tok::Str { .. } | Tok::Number(_) | Tok::Bytes { .. } => {
                let before = text.trim_end().len();
                if text.get(..before).is_some_and(|text| text.ends_with("?,")) {
                    text.truncate(before - 1);
                } else {
                    text.push('?');
                }
            }
            _ => text.push_str(&String::from_utf8_lossy(sql.get(token.start..token.end).unwrap_or_default())),
        }
        if text.len() > SHOWN_BYTES_MAX {
            text.push_str(" …");
            break;
        }
    }
    text
}

/// Where a statement stands that may name a savepoint: applications number them, so each would be a form of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Savepoint {
    Begins,
    /// ROLLBACK or RELEASE stands at its beginning.
    MayFollow,
    /// SAVEPOINT stood last, or TO, which SAVEPOINT may follow.
    Follows,
    IsNone,
}

impl Savepoint {
    /// Whether this next token is a savepoint's name.
    fn is_named_by(&mut self, token: &Tok) -> bool {
        let Tok::Word(word) = token else {
            let is_quoted = *self == Savepoint::Follows && matches!(token, Tok::Quoted(_));
            *self = Savepoint::IsNone;
            return is_quoted;
        };
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let next = match self {
            Savepoint::Begins if is("SAVEPOINT") => Savepoint::Follows,
            Savepoint::Begins if is("ROLLBACK") || is("RELEASE") => Savepoint::MayFollow,
            Savepoint::MayFollow if is("WORK") => Savepoint::MayFollow,
            Savepoint::MayFollow if is("TO") || is("SAVEPOINT") => Savepoint::Follows,
            Savepoint::Follows if is("SAVEPOINT") => Savepoint::Follows,
            _ => Savepoint::IsNone,
        };
        std::mem::replace(self, next) == Savepoint::Follows && next == Savepoint::IsNone
    }
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn literals_are_not_shown() {
        for (sql, shown) in [
            ("SELECT  a FROM t WHERE b = 'x''y' AND c=12 -- why", "SELECT a FROM t WHERE b = ? AND c=?"),
            ("select * from t where id in (1, 2,3) limit 5", "select * from t where id in (?) limit ?"),
            ("select * from t where id in (?, ?)", "select * from t where id in (?, ?)"),
            ("select x'00', 0x1f, _latin1'a', 1.5e3", "select ?"),
            ("select `a 1`, @v, @@x", "select `a 1`, @v, @@x"),
            ("SAVEPOINT `s1_x2`", "SAVEPOINT ?"),
            ("rollback work to s1", "rollback work to ?"),
            ("ROLLBACK TO SAVEPOINT s1", "ROLLBACK TO SAVEPOINT ?"),
            ("RELEASE SAVEPOINT s1", "RELEASE SAVEPOINT ?"),
            ("ROLLBACK AND CHAIN", "ROLLBACK AND CHAIN"),
            ("select savepoint s1 from `to` t", "select savepoint s1 from `to` t"),
            ("select 'open", " …"),
        ] {
            let masked = masked(sql.as_bytes(), 0);
            assert!(masked == shown || (shown == " …" && masked.ends_with(shown)), "{sql}: {masked}");
            assert!(!masked.contains("open"), "{masked}");
        }
    }
}
