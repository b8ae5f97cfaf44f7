//! Statement text without secrets, for messages and logs (invariant 19).
//!
//! In: any statement. Out: its text up to the first literal that may be a secret. Never here: a secret in the output.
//! The search works on raw text because the end of a string depends on an `sql_mode` that is unknown where messages are
//! made, so everything after the first suspicious quote is hidden.

use crate::lexer::{Lexer, SERVER_VERSION_DEFAULT, Tok};

/// Longest statement shown in a message, bytes.
const SHOWN_BYTES_MAX: usize = 2_000;

/// Replacement for the hidden part.
const HIDDEN: &str = "'***' …";

/// Words that announce a secret, at whatever distance.
const SECRET_WORDS: [&[u8]; 6] =
    [b"IDENTIFIED", b"PASSWORD", b"AUTH_STRING", b"AUTHENTICATION", b"CONNECTION", b"SECRET"];

/// The statement up to the first literal that may be a secret; the literal and everything after it become `'***' …`. In
/// statements about tables, where a column may well be called `password`, only a literal directly after such a word
/// counts. In all others, any literal after it does.
pub fn masked(sql: &str) -> String {
    let bytes = sql.as_bytes();
    let mut words = (0..bytes.len()).filter_map(|at| {
        let rest = bytes.get(at..)?;
        let word = SECRET_WORDS.iter().find(|word| starts_with_word(rest, word))?;
        Some(at + word.len())
    });
    let behind = |at: usize| bytes.get(at..).unwrap_or_default();
    let hidden_from = if is_about_table(bytes) {
        words.find_map(|at| literal_right_after(behind(at)).map(|gap| at + gap))
    } else {
        words.next().and_then(|at| first_literal(behind(at)).map(|gap| at + gap))
    };
    match hidden_from.and_then(|from| sql.get(..from)) {
        Some(shown) => format!("{shown}{HIDDEN}"),
        None => sql.to_owned(),
    }
}

fn starts_with_word(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
}

/// True where a string, hexadecimal or bit literal starts.
fn is_literal(text: &[u8]) -> bool {
    matches!(
        text,
        [b'\'' | b'"', ..] | [b'0', b'x' | b'X' | b'b', ..] | [b'x' | b'X' | b'b' | b'B' | b'n' | b'N', b'\'', ..]
    )
}

fn first_literal(text: &[u8]) -> Option<usize> {
    (0..text.len()).find(|at| text.get(*at..).is_some_and(is_literal))
}

/// Finds a literal separated from the word only by blanks, `=` and `(`.
fn literal_right_after(text: &[u8]) -> Option<usize> {
    let gap = text.iter().take_while(|byte| byte.is_ascii_whitespace() || b"=(".contains(byte)).count();
    text.get(gap..).is_some_and(is_literal).then_some(gap)
}

/// Judges by the first words, skipping comments.
fn is_about_table(sql: &[u8]) -> bool {
    let mut lexer = Lexer::new(sql, 0, SERVER_VERSION_DEFAULT);
    for _ in 0..3 {
        match lexer.next_token().map(|token| token.tok) {
            Ok(Tok::Word(word)) => match word.to_ascii_uppercase().as_slice() {
                b"TABLE" | b"INDEX" => return true,
                b"CREATE" | b"ALTER" | b"DROP" | b"TEMPORARY" | b"UNIQUE" => {}
                _ => return false,
            },
            _ => return false,
        }
    }
    false
}

/// `masked`, truncated to a length that fits in a message.
pub(crate) fn printable(sql: &[u8]) -> String {
    // Truncation may split a word that announces a secret, but then the secret is cut off, too.
    let head = sql.get(..SHOWN_BYTES_MAX).unwrap_or(sql);
    let mut text = masked(&String::from_utf8_lossy(head));
    if head.len() < sql.len() && !text.ends_with('…') {
        text.push_str(" …");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_gone() {
        for sql in [
            "CREATE USER 'u'@'h' IDENTIFIED WITH 'caching_sha2_password' AS 'secret'",
            "create user u identified by 'secret', v identified by \"secret\"",
            "ALTER USER u IDENTIFIED BY 'new secret' REPLACE 'secret'",
            "set password for u = 'secret'",
            "SET PASSWORD = PASSWORD('secret')",
            "CREATE USER u IDENTIFIED WITH x AS 0x736563726574",
            "CREATE USER u IDENTIFIED BY 'a\\'secret'",
            "CREATE USER u IDENTIFIED BY 'secret",
            "/*!80000 CREATE USER u IDENTIFIED BY 'secret' */",
            "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'r', PASSWORD 'secret')",
            "create table t (a int) engine=federated connection='mysql://u:secret@h/d/t'",
            // Under another sql_mode, these strings end elsewhere.
            r"CREATE USER 'a\'@'%' IDENTIFIED BY 'secret'",
            r"CREATE USER u IDENTIFIED BY 'a\', v IDENTIFIED BY 'secret'",
            "CREATE USER \"it's\" IDENTIFIED BY 'secret'",
            "UPDATE mysql.user SET authentication_string = SHA2('secret', 256)",
            "create table t (a int) password='secret'",
            "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD='secret'",
        ] {
            let shown = masked(sql);
            assert!(!shown.contains("secret") && !shown.contains("736563726574"), "{shown}");
        }
        assert_eq!(masked("create table t (a int default 5)"), "create table t (a int default 5)");
        assert_eq!(masked("create table t (a char(1) default 'x')"), "create table t (a char(1) default 'x')");
        assert_eq!(
            masked("create table t (password char(1) default 'x', b int)"),
            "create table t (password char(1) default 'x', b int)"
        );
        assert_eq!(masked("set password for 'u'@'h' = 'secret'"), "set password for '***' …");
    }

    #[test]
    fn long_statements_are_cut() {
        let sql = format!("create table t (a int comment '{}')", "x".repeat(10_000));
        assert!(printable(sql.as_bytes()).len() < SHOWN_BYTES_MAX + 10);
        let sql = format!("create user u{} identified by 'secret'", " ".repeat(SHOWN_BYTES_MAX - 40));
        assert!(!printable(sql.as_bytes()).contains("sec"));
    }
}
