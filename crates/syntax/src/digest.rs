//! A statement without what differs from one of its kind to the next.
//!
//! In: a text and how it is read. Out: the same with `?` for literals, without comments. Never here: a literal of the
//! text, what a statement means.

use crate::lexer::{Kind, Lexer, Settings};

/// The text with `?` for each literal, one blank between tokens that had any, and without comments. A list of literals
/// is one `?`, so that statements which differ in its length are the same. What is longer than `most` bytes, and what
/// comes after something that no statement can contain, is `…`.
#[must_use]
pub fn digest_text(text: &[u8], settings: Settings, most: usize) -> String {
    let mut lexer = Lexer::new(text, settings);
    let (mut digest, mut end) = (String::new(), None);
    // A sign before a number is the number's, unless something stands before it that it can follow.
    let mut sign_at = None;
    loop {
        let token = lexer.next_token();
        if token.kind == Kind::End && digest.len() <= most {
            return digest;
        }
        if matches!(token.kind, Kind::Wrong(_)) || digest.len() > most {
            digest.truncate(digest.floor_char_boundary(most));
            digest.push_str(" …");
            return digest;
        }
        let before = digest.len();
        if end.is_some_and(|end| token.span.start > end) {
            digest.push(' ');
        }
        end = Some(token.span.end);
        let is_number = matches!(token.kind, Kind::Integer | Kind::Decimal | Kind::Float);
        match token.kind {
            _ if is_number && let Some(at) = sign_at => {
                digest.truncate(at);
                put_literal(&mut digest);
            }
            Kind::Text | Kind::NationalText | Kind::DollarText | Kind::Hex | Kind::Bits => put_literal(&mut digest),
            Kind::Integer | Kind::Decimal | Kind::Float => put_literal(&mut digest),
            // Part of the literal that follows.
            Kind::Introducer => {
                digest.truncate(before);
                end = None;
                if !digest.is_empty() && !digest.ends_with([' ', '(', ',']) {
                    digest.push(' ');
                }
            }
            Kind::Hint => digest.truncate(before),
            _ => digest.push_str(&String::from_utf8_lossy(token.span.of(text))),
        }
        let may_precede = digest.get(..before).unwrap_or_default().trim_end().ends_with(['(', ',', '=', '<', '>']);
        sign_at = match token.kind {
            Kind::Byte(b'-' | b'+') if may_precede => Some(digest.len() - 1),
            _ => None,
        };
    }
}

fn put_literal(digest: &mut String) {
    let before = digest.trim_end().len();
    match digest.get(..before) {
        Some(text) if text.ends_with("?,") => digest.truncate(before - 1),
        _ => digest.push('?'),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> String {
        digest_text(text.as_bytes(), Settings::default(), 1_000)
    }

    #[test]
    fn literals_are_not_shown() {
        for (text, digest) in [
            ("SELECT  a FROM t WHERE b = 'x''y' AND c=12 -- why", "SELECT a FROM t WHERE b = ? AND c=?"),
            ("select * from t where id in (1, 2,3) limit 5", "select * from t where id in (?) limit ?"),
            ("select * from t where id in (-1, +2, 3.5e1)", "select * from t where id in (?)"),
            ("select a - 1, (b-2)", "select a - ?, (b-?)"),
            ("select * from t where id in (?, ?)", "select * from t where id in (?, ?)"),
            ("select x'00', 0x1f, _latin1'a', N'b', b'1', 1.5e3", "select ?"),
            ("select /*+ MAX_EXECUTION_TIME(7) */ a from t", "select a from t"),
            ("insert into t values (1, 'a'), (2, 'b')", "insert into t values (?), (?)"),
            ("select `a 1`, @v, @@x, /*! 7, */ t.1a", "select `a 1`, @v, @@x, ?, t.1a"),
            ("", ""),
        ] {
            assert_eq!(of(text), digest, "{text}");
        }
        assert_eq!(of("select 'open"), "select …");
        let long = digest_text("select a, ".repeat(100).as_bytes(), Settings::default(), 12);
        assert_eq!(long, "select a, se …");
    }

    proptest! {
        #[test]
        fn any_bytes_have_one(text in proptest::collection::vec(any::<u8>(), 0..200), most in 0_usize..100) {
            let digest = digest_text(&text, Settings::default(), most);
            prop_assert!(digest.len() <= most + " …".len());
        }
    }
}
