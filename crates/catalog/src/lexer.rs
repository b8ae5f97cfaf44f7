//! Lexer for statement text, one token at a time.
//!
//! In: the bytes of one statement in the client's character set, its `sql_mode`, the source's version. Out: tokens with
//! their offsets. Never here: keywords (every bare word is a [`Tok::Word`]; the parsers know which words have a meaning
//! where), conversion between character sets, panics.

use crate::client_text::{self, ClientText};
use crate::sql_mode;

/// Server version assumed if the log does not state one: the newest that this crate was tested against. Comments such
/// as `/*!99999 … */` remain comments.
pub(crate) const SERVER_VERSION_DEFAULT: u32 = 90_799;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tok {
    /// A bare word: keyword or identifier, as written.
    Word(Vec<u8>),
    /// An identifier in backticks, or in double quotes under ANSI_QUOTES, with doubled quotes resolved.
    Quoted(Vec<u8>),
    /// A string with escapes resolved; `introducer` is the character set of `_utf8mb4'…'`, or `utf8mb3` for `N'…'`.
    Str {
        /// Its bytes.
        bytes: Vec<u8>,
        /// The introducer's character set.
        introducer: Option<String>,
    },
    /// A number as written, without its sign.
    Number(String),
    /// `0x…`, `x'…'`, `0b…` or `b'…'` as bytes, most significant first.
    Bytes {
        /// Its bytes.
        bytes: Vec<u8>,
        /// The introducer's character set.
        introducer: Option<String>,
    },
    /// `@x` or `@@x`.
    Variable,
    /// Any other byte.
    Punct(u8),
    /// End of the statement.
    End,
}

/// A token and its byte range in the statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub tok: Tok,
    /// Offset of the first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// What is wrong with the text, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LexError {
    /// Description of the error.
    pub what: &'static str,
    /// Offset of the byte.
    pub at: usize,
}

/// Produces the tokens of one statement.
#[derive(Debug, Clone)]
pub struct Lexer<'a> {
    sql: &'a [u8],
    at: usize,
    text: ClientText,
    /// Before this place the text is UTF-8, whatever the client's character set.
    utf8_to: usize,
    ansi_quotes: bool,
    utf8_is_utf8mb4: bool,
    backslash_escapes: bool,
    server_version: u32,
    /// Inside `/*! … */`, which the next `*/` closes.
    in_version_comment: bool,
    /// The last token was a `.` directly after a name, so the next one is a name even if it starts with a digit.
    after_dot: bool,
    /// End of the last token if it was a name.
    name_end: Option<usize>,
}

/// The statement without a NUL byte at its end, which MySQL's lexer takes for the end of the text (`MY_LEX_EOL`,
/// sql/sql_lex.cc). mysqlslap sends one, and the log keeps it. Anywhere else outside strings and comments a NUL byte is
/// a syntax error, so no such statement is in a log.
pub(crate) fn without_final_nul(sql: &[u8]) -> &[u8] {
    sql.strip_suffix(&[0]).unwrap_or(sql)
}

impl<'a> Lexer<'a> {
    /// Reads `sql` under a `sql_mode` (bits of [`sql_mode`]); `server_version` decides about version comments, 90700
    /// for 9.7.0.
    #[must_use]
    pub fn new(sql: &'a [u8], sql_mode: u64, server_version: u32) -> Lexer<'a> {
        Lexer {
            sql: without_final_nul(sql),
            at: 0,
            text: client_text::PLAIN,
            utf8_to: 0,
            utf8_is_utf8mb4: sql_mode & sql_mode::INTERPRET_UTF8_AS_UTF8MB4 != 0,
            ansi_quotes: sql_mode & sql_mode::ANSI_QUOTES != 0,
            backslash_escapes: sql_mode & sql_mode::NO_BACKSLASH_ESCAPES == 0,
            server_version,
            in_version_comment: false,
            after_dot: false,
            name_end: None,
        }
    }

    /// The same for a part of the statement.
    pub(crate) fn over(self, sql: &'a [u8]) -> Lexer<'a> {
        Lexer { sql, at: 0, utf8_to: 0, in_version_comment: false, after_dot: false, name_end: None, ..self }
    }

    /// The same for text in this character set, instead of ASCII or UTF-8.
    #[must_use]
    pub fn in_charset(self, charset: &str) -> Lexer<'a> {
        Lexer { text: ClientText::of(charset), ..self }
    }

    /// The same for a statement whose beginning is UTF-8.
    pub(crate) fn with_utf8_to(self, utf8_to: usize) -> Lexer<'a> {
        Lexer { utf8_to, ..self }
    }

    /// How the bytes at the current place are read.
    fn text(&self) -> ClientText {
        if self.at < self.utf8_to { client_text::PLAIN } else { self.text }
    }

    fn byte(&self, ahead: usize) -> u8 {
        // Every caller treats NUL as an ordinary unknown byte, so it can also mean the end of the text.
        self.at.checked_add(ahead).and_then(|at| self.sql.get(at)).copied().unwrap_or(0)
    }

    fn rest(&self) -> &'a [u8] {
        self.sql.get(self.at..).unwrap_or_default()
    }

    fn slice(&self, start: usize, end: usize) -> &'a [u8] {
        self.sql.get(start..end).unwrap_or_default()
    }

    fn error<T>(&self, what: &'static str) -> Result<T, LexError> {
        Err(LexError { what, at: self.at.min(self.sql.len()) })
    }

    /// Skips blanks and comments; enters and leaves version comments.
    fn skip_blank(&mut self) -> Result<(), LexError> {
        loop {
            match self.rest() {
                [first, ..] if self.text().is_blank(*first) => self.at += 1,
                [b'#', ..] => self.skip_line(),
                [b'-', b'-'] => self.at += 2,
                [b'-', b'-', third, ..] if self.text().is_blank_or_control(*third) => self.skip_line(),
                [b'/', b'*', b'!', ..] if !self.in_version_comment => self.enter_version_comment()?,
                [b'/', b'*', ..] => self.skip_comment()?,
                [b'*', b'/', ..] if self.in_version_comment => {
                    self.in_version_comment = false;
                    self.at += 2;
                }
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = self.rest();
        self.at += rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |n| n + 1);
    }

    fn skip_comment(&mut self) -> Result<(), LexError> {
        let body = self.rest().get(2..).unwrap_or_default();
        match body.windows(2).position(|pair| pair == b"*/") {
            Some(n) => {
                self.at += n + 4;
                Ok(())
            }
            None => self.error("a comment without its end"),
        }
    }

    /// `/*! … */` is executed; `/*!NNNNN` and `/*!NNNNNN` only by servers of at least that version.
    fn enter_version_comment(&mut self) -> Result<(), LexError> {
        let digits = self.rest().iter().skip(3).take(6).take_while(|byte| byte.is_ascii_digit()).count();
        let used = if digits >= 5 { digits } else { 0 };
        let needed = (3..3 + used).fold(0u32, |value, n| value * 10 + u32::from(self.byte(n).wrapping_sub(b'0')));
        if needed > self.server_version {
            return self.skip_comment();
        }
        self.at += 3 + used;
        self.in_version_comment = true;
        Ok(())
    }

    /// Returns the next token; [`Tok::End`] again and again at the end.
    ///
    /// # Errors
    /// A string, name or comment lacks its end, or a literal has a wrong digit.
    pub fn next_token(&mut self) -> Result<Token, LexError> {
        let after_dot = std::mem::take(&mut self.after_dot);
        let name_end = self.name_end.take();
        if !after_dot {
            self.skip_blank()?;
        }
        let start = self.at;
        let first = self.byte(0);
        let tok = if start >= self.sql.len() {
            if self.in_version_comment {
                return self.error("a comment without its end");
            }
            Tok::End
        } else if after_dot && self.text().is_word(first) {
            self.word()
        } else {
            match first {
                b'`' => Tok::Quoted(self.quoted(b'`')?),
                b'"' if self.ansi_quotes => Tok::Quoted(self.quoted(b'"')?),
                b'\'' | b'"' => Tok::Str { bytes: self.string()?, introducer: None },
                b'0'..=b'9' => self.number_or_word()?,
                // A dot directly after a name qualifies it; elsewhere a dot before a digit starts a number.
                b'.' if name_end == Some(start) || !self.byte(1).is_ascii_digit() => {
                    self.at += 1;
                    self.after_dot = self.text().is_word(self.byte(0)) || self.byte(0) == b'`';
                    Tok::Punct(b'.')
                }
                b'.' => self.number(),
                b'@' => self.variable()?,
                word if self.text().is_word(word) => self.word_or_prefixed()?,
                other => {
                    self.at += 1;
                    Tok::Punct(other)
                }
            }
        };
        if matches!(tok, Tok::Word(_) | Tok::Quoted(_)) {
            self.name_end = Some(self.at);
        }
        Ok(Token { tok, start, end: self.at })
    }

    fn word(&mut self) -> Tok {
        let start = self.at;
        self.at += self.text().word_len(self.rest());
        Tok::Word(self.slice(start, self.at).to_vec())
    }

    /// Reads a word, or the literal that it introduces: `_charset'…'`, `N'…'`, `x'…'`, `b'…'`.
    fn word_or_prefixed(&mut self) -> Result<Tok, LexError> {
        let start = self.at;
        match (self.byte(0), self.byte(1)) {
            (b'x' | b'X', b'\'') => {
                self.at += 1;
                return Ok(Tok::Bytes { bytes: self.quoted_digits(16)?, introducer: None });
            }
            (b'b' | b'B', b'\'') => {
                self.at += 1;
                return Ok(Tok::Bytes { bytes: self.quoted_digits(2)?, introducer: None });
            }
            (b'n' | b'N', b'\'') => {
                self.at += 1;
                return Ok(Tok::Str { bytes: self.string()?, introducer: Some("utf8mb3".to_owned()) });
            }
            _ => {}
        }
        let word = self.word();
        let name = self.slice(start, self.at);
        let introducer = match name.split_first() {
            Some((b'_', charset)) if is_introducer(charset) => String::from_utf8_lossy(charset).to_ascii_lowercase(),
            _ => return Ok(word),
        };
        let introducer = if self.utf8_is_utf8mb4 && introducer == "utf8" { "utf8mb4".to_owned() } else { introducer };
        // Restored if no literal follows: the word is then a name.
        let after_word = self.clone();
        self.skip_blank()?;
        let literal = match (self.byte(0), self.byte(1)) {
            (b'\'', _) => Some(Tok::Str { bytes: self.string()?, introducer: Some(introducer) }),
            (b'"', _) if !self.ansi_quotes => Some(Tok::Str { bytes: self.string()?, introducer: Some(introducer) }),
            (b'x' | b'X', b'\'') => {
                self.at += 1;
                Some(Tok::Bytes { bytes: self.quoted_digits(16)?, introducer: Some(introducer) })
            }
            (b'b' | b'B', b'\'') => {
                self.at += 1;
                Some(Tok::Bytes { bytes: self.quoted_digits(2)?, introducer: Some(introducer) })
            }
            (b'0', b'x' | b'b') => match self.number_or_word()? {
                Tok::Bytes { bytes, .. } => Some(Tok::Bytes { bytes, introducer: Some(introducer) }),
                _ => None,
            },
            _ => None,
        };
        Ok(literal.unwrap_or_else(|| {
            *self = after_word;
            word
        }))
    }

    /// Reads text enclosed in `quote`, with doubled quotes resolved.
    fn quoted(&mut self, quote: u8) -> Result<Vec<u8>, LexError> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.rest() {
                // As MySQL reads it, a NUL ends the text.
                [] | [0, ..] => return self.error("a quoted name without its end"),
                [first, second, ..] if *first == quote && *second == quote => {
                    text.push(quote);
                    self.at += 2;
                }
                [first, ..] if *first == quote => {
                    self.at += 1;
                    return Ok(text);
                }
                rest => {
                    let len = self.text().character_len(rest);
                    text.extend_from_slice(rest.get(..len).unwrap_or_default());
                    self.at += len;
                }
            }
        }
    }

    fn string(&mut self) -> Result<Vec<u8>, LexError> {
        let quote = self.byte(0);
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.rest() {
                [] => return self.error("a string without its end"),
                [first, second, ..] if *first == quote && *second == quote => {
                    text.push(quote);
                    self.at += 2;
                }
                [b'\\', escaped, ..] if self.backslash_escapes => {
                    match escaped {
                        b'n' => text.push(b'\n'),
                        b't' => text.push(b'\t'),
                        b'r' => text.push(b'\r'),
                        b'b' => text.push(8),
                        b'0' => text.push(0),
                        b'Z' => text.push(26),
                        // MySQL keeps the backslash of these two, for LIKE.
                        b'%' | b'_' => text.extend_from_slice(&[b'\\', *escaped]),
                        other => text.push(*other),
                    }
                    self.at += 2;
                }
                [first, ..] if *first == quote => {
                    self.at += 1;
                    return Ok(text);
                }
                rest => {
                    let len = self.text().character_len(rest);
                    text.extend_from_slice(rest.get(..len).unwrap_or_default());
                    self.at += len;
                }
            }
        }
    }

    /// Reads the digits of `x'…'` or `b'…'`, starting at the quote.
    fn quoted_digits(&mut self, radix: u32) -> Result<Vec<u8>, LexError> {
        self.at += 1;
        let start = self.at;
        while self.at < self.sql.len() && self.byte(0) != b'\'' {
            self.at += 1;
        }
        if self.at >= self.sql.len() {
            return self.error("a literal without its end");
        }
        let digits = self.slice(start, self.at);
        self.at += 1;
        match radix {
            16 if digits.len() % 2 == 1 => self.error("a hexadecimal literal of odd length"),
            _ => packed_digits(digits, radix).map_or_else(|| self.error("a literal with a wrong digit"), Ok),
        }
    }

    /// Reads `0x41`, `0b01`, a number, or a name that starts with a digit.
    fn number_or_word(&mut self) -> Result<Tok, LexError> {
        let start = self.at;
        let word_len = self.text().word_len(self.rest());
        let word = self.slice(start, start + word_len);
        let radix = match word {
            [b'0', b'x', _, ..] => 16,
            [b'0', b'b', _, ..] => 2,
            _ => 10,
        };
        if radix != 10
            && let Some(bytes) = packed_digits(word.get(2..).unwrap_or_default(), radix)
        {
            self.at += word_len;
            return Ok(Tok::Bytes { bytes, introducer: None });
        }
        if word.iter().all(u8::is_ascii_digit) || self.exponent_follows() {
            return Ok(self.number());
        }
        Ok(self.word())
    }

    /// True for `1e5`, `1e+5`, `12E-3`: a number although letters follow the digits.
    fn exponent_follows(&self) -> bool {
        let text = self.rest();
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        match text.get(digits..) {
            Some([b'e' | b'E', b'+' | b'-', third, ..]) => third.is_ascii_digit(),
            Some([b'e' | b'E', tail @ ..]) => {
                let exponent = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
                exponent > 0 && !tail.get(exponent).is_some_and(|byte| self.text().is_word(*byte))
            }
            _ => false,
        }
    }

    fn number(&mut self) -> Tok {
        let start = self.at;
        self.digits();
        if self.byte(0) == b'.' {
            self.at += 1;
            self.digits();
        }
        if matches!(self.byte(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
            if self.byte(1 + sign).is_ascii_digit() {
                self.at += 1 + sign;
                self.digits();
            }
        }
        Tok::Number(String::from_utf8_lossy(self.slice(start, self.at)).into_owned())
    }

    fn digits(&mut self) {
        while self.byte(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    fn variable(&mut self) -> Result<Tok, LexError> {
        while self.byte(0) == b'@' {
            self.at += 1;
        }
        match self.byte(0) {
            quote @ (b'`' | b'\'' | b'"') => {
                self.quoted(quote)?;
            }
            _ => {
                while let len @ 1.. = self.text().word_len(self.rest()) + usize::from(self.byte(0) == b'.') {
                    self.at += len;
                }
            }
        }
        Ok(Tok::Variable)
    }
}

/// Packs digits of base 2 or 16 into bytes, most significant first; `None` if a character is not a digit.
fn packed_digits(digits: &[u8], radix: u32) -> Option<Vec<u8>> {
    let per_byte = if radix == 16 { 2 } else { 8 };
    let mut bytes = Vec::with_capacity(digits.len() / per_byte + 1);
    let (head, tail) = digits.split_at_checked(digits.len() % per_byte)?;
    for group in std::iter::once(head).filter(|head| !head.is_empty()).chain(tail.chunks(per_byte)) {
        let mut value = 0u32;
        for digit in group {
            value = value * radix + char::from(*digit).to_digit(radix)?;
        }
        bytes.push(u8::try_from(value).ok()?);
    }
    Some(bytes)
}

/// True for character sets that MySQL knows; only for these is `_name` before a literal an introducer.
fn is_introducer(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| crate::charset::default_collation(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(sql: &str, mode: u64) -> Vec<Tok> {
        let mut lexer = Lexer::new(sql.as_bytes(), mode, SERVER_VERSION_DEFAULT);
        let mut found = Vec::new();
        loop {
            match lexer.next_token().unwrap().tok {
                Tok::End => return found,
                tok => found.push(tok),
            }
        }
    }

    fn word(text: &str) -> Tok {
        Tok::Word(text.as_bytes().to_vec())
    }

    fn quoted(text: &str) -> Tok {
        Tok::Quoted(text.as_bytes().to_vec())
    }

    fn text(text: &str) -> Tok {
        Tok::Str { bytes: text.as_bytes().to_vec(), introducer: None }
    }

    #[test]
    fn names() {
        assert_eq!(tokens("a `b``c` 1a é $x", 0), [word("a"), quoted("b`c"), word("1a"), word("é"), word("$x")]);
        let dot = Tok::Punct(b'.');
        assert_eq!(tokens("a.1b.`c`", 0), [word("a"), dot.clone(), word("1b"), dot.clone(), quoted("c")]);
        assert_eq!(tokens("a.1e5", 0), [word("a"), dot, word("1e5")]);
        assert_eq!(tokens("\"a\"\"b\"", 0), [text("a\"b")]);
        assert!(Lexer::new(b"`a\0b`", 0, 1).next_token().is_err());
        assert_eq!(tokens("\"a\"\"b\"", sql_mode::ANSI_QUOTES), [quoted("a\"b")]);
    }

    #[test]
    fn comments() {
        assert_eq!(tokens("a /* x */ b -- c\n d # e\n f --1", 0).len(), 7);
        assert_eq!(tokens("a --", 0), [word("a")]);
        assert_eq!(
            tokens("/*!40005 a */ /*!80013 b*/ /*!99999 c */ /*! d */ /*!090100 e */ /*!100000 f*/", 0).len(),
            4
        );
        assert_eq!(tokens("/*!50100 a /* inner */ b */ c", 0), [word("a"), word("b"), word("c")]);
        assert_eq!(tokens("/*+ hint */ a", 0), [word("a")]);
        assert!(Lexer::new(b"/* a", 0, 1).next_token().is_err());
        let mut open = Lexer::new(b"/*! a", 0, 1);
        assert_eq!(open.next_token().unwrap().tok, word("a"));
        assert!(open.next_token().is_err());
    }

    #[test]
    fn second_bytes_that_look_like_quotes() {
        let of = |charset: &str, sql: &[u8]| {
            let mut lexer = Lexer::new(sql, 0, SERVER_VERSION_DEFAULT).in_charset(charset);
            let mut found = Vec::new();
            loop {
                match lexer.next_token().unwrap().tok {
                    Tok::End => return found,
                    tok => found.push(tok),
                }
            }
        };
        let quoted = |bytes: &[u8]| Tok::Quoted(bytes.to_vec());
        let text = |bytes: &[u8]| Tok::Str { bytes: bytes.to_vec(), introducer: None };
        let word = |bytes: &[u8]| Tok::Word(bytes.to_vec());
        assert_eq!(of("gbk", b"`\x81\x60` a"), [quoted(b"\x81\x60"), word(b"a")]);
        assert_eq!(of("sjis", b"'\x95\x5c' a"), [text(b"\x95\x5c"), word(b"a")]);
        assert_eq!(of("big5", b"\xa5\x5c\xb3\x5c1 a"), [word(b"\xa5\x5c\xb3\x5c1"), word(b"a")]);
        assert_eq!(of("gb18030", b"1\x81\x7c a"), [word(b"1\x81\x7c"), word(b"a")]);
        assert_eq!(of("cp932", b"@\x83\x60.a b"), [Tok::Variable, word(b"b")]);
        // A backslash escapes one byte, even the first one of two.
        assert_eq!(of("gbk", b"'\\\x81\\'' a"), [text(b"\x81'"), word(b"a")]);
        // 0x27 is never the second byte.
        assert_eq!(of("gbk", b"'\x81' a"), [text(b"\x81"), word(b"a")]);
        assert_eq!(of("latin1", b"a\xa0--\xa0b\n\xe9"), [word(b"a"), word(b"\xe9")]);
        assert_eq!(of("swe7", b"f[r ~"), [word(b"f[r"), word(b"~")]);
    }

    #[test]
    fn a_nul_byte_ends_the_statement_at_its_end_only() {
        for sql in ["a\0", "a \0", "a/* x\0y */\0", "a -- x\0", "a # x\0", "a /*! */\0"] {
            assert_eq!(tokens(sql, 0), [word("a")], "{sql:?}");
        }
        assert_eq!(tokens("\0", 0), []);
        assert_eq!(tokens("'x\0y'\0", 0), [text("x\0y")]);
        // Two are a syntax error at the server, as is one in the middle.
        assert_eq!(tokens("a\0\0", 0), [word("a"), Tok::Punct(0)]);
        assert_eq!(tokens("a\0b", 0), [word("a"), Tok::Punct(0), word("b")]);
        assert!(Lexer::new(b"'a\0", 0, 1).next_token().is_err());
    }

    #[test]
    fn literals() {
        assert_eq!(tokens(r"'a''b\'\n\%\\'", 0), [text("a'b'\n\\%\\")]);
        assert_eq!(tokens(r"'a\'", sql_mode::NO_BACKSLASH_ESCAPES), [text("a\\")]);
        assert_eq!(
            tokens("_utf8mb4'x' _latin1 'y' n'z'", 0),
            ["utf8mb4", "latin1", "utf8mb3"]
                .iter()
                .zip(["x", "y", "z"])
                .map(|(charset, value)| Tok::Str {
                    bytes: value.as_bytes().to_vec(),
                    introducer: Some((*charset).to_owned())
                })
                .collect::<Vec<_>>()
        );
        let bytes = |bytes: &[u8]| Tok::Bytes { bytes: bytes.to_vec(), introducer: None };
        assert_eq!(
            tokens("0x4142 x'00FF' b'101' 0b100000001", 0),
            [bytes(b"AB"), bytes(&[0, 255]), bytes(&[5]), bytes(&[1, 1])]
        );
        assert_eq!(tokens("0xZZ _foo 'a' x", 0), [word("0xZZ"), word("_foo"), text("a"), word("x")]);
        let number = |text: &str| Tok::Number(text.to_owned());
        assert_eq!(
            tokens("1 1.5 .5 1e5 1.e-3", 0),
            [number("1"), number("1.5"), number(".5"), number("1e5"), number("1.e-3")]
        );
        assert!(Lexer::new(b"x'1'", 0, 1).next_token().is_err());
        assert!(Lexer::new(b"'abc", 0, 1).next_token().is_err());
    }
}
