//! Statements without their literals.

use catalog::lexer::{Lexer, Tok};
use sql::SERVER_VERSION;

/// Longest text of a statement in a report, in bytes.
const SHOWN_BYTES_MAX: usize = 1_000;

/// The statement with `?` for each literal, one blank between tokens that had any, and without comments. Lists of
/// literals become one `?`, so that statements which differ in their number are the same.
pub(crate) fn masked(sql: &[u8], sql_mode: u64) -> String {
    let mut lexer = Lexer::new(sql, sql_mode, SERVER_VERSION);
    let (mut text, mut end) = (String::new(), 0);
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
        match token.tok {
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
            ("select 'open", " …"),
        ] {
            let masked = masked(sql.as_bytes(), 0);
            assert!(masked == shown || (shown == " …" && masked.ends_with(shown)), "{sql}: {masked}");
            assert!(!masked.contains("open"), "{masked}");
        }
    }
}
