//! Tokens, with version comments as a MySQL 9.7 reads them (`lex_one_token`, sql/sql_lex.cc).
//!
//! In: a statement's text. Out: its tokens, what MySQL says of comments, and which of their bytes it leaves out of the
//! text that names columns. Never here: what a token means.
//!
//! The catalog's lexer, which reads statements of all versions in a log, gets the text in parts that have no version
//! comment, so that it decides about none.

use std::ops::Range;

use catalog::lexer::{Lexer, Tok, Token};

use super::SERVER_VERSION;
use super::notes::Notes;

/// Digits of a version: six of them only where a blank follows.
const SHORT_VERSION: usize = 5;
const LONG_VERSION: usize = 6;

/// The tokens of a text.
pub(super) struct Tokens<'a> {
    sql: &'a [u8],
    sql_mode: u64,
    charset: &'static str,
    lexer: Lexer<'a>,
    /// Where the lexer's text begins in `sql`.
    base: usize,
    /// Inside a version comment that is executed.
    is_in_comment: bool,
    left_out: Vec<Range<usize>>,
}

/// Where the first of these two bytes stand in a text.
fn place_of(text: &[u8], wanted: &[u8; 2]) -> Option<usize> {
    text.windows(2).position(|pair| pair == wanted)
}

impl<'a> Tokens<'a> {
    pub(super) fn of(sql: &'a [u8], sql_mode: u64, charset: &'static str) -> Tokens<'a> {
        let lexer = lexer(sql, sql_mode, charset);
        Tokens { sql, sql_mode, charset, lexer, base: 0, is_in_comment: false, left_out: Vec::new() }
    }

    /// The token after the one that ended at `at`.
    ///
    /// # Errors
    /// The place from which on the text cannot be read.
    pub(super) fn next(&mut self, at: usize, notes: &mut Notes) -> Result<Token, usize> {
        if !self.is_in_comment
            && let Ok(token) = self.token()
            && !self.rest(at).get(..token.start.saturating_sub(at)).is_some_and(has_version_comment)
        {
            return Ok(token);
        }
        let at = self.skip(at, notes)?;
        self.base = at;
        self.lexer = lexer(self.rest(at), self.sql_mode, self.charset);
        match self.token() {
            Ok(Token { tok: Tok::End, .. }) if self.is_in_comment => Err(at),
            token => token.map_err(|()| at),
        }
    }

    /// True between `/*!` and its end.
    pub(super) fn is_in_comment(&self) -> bool {
        self.is_in_comment
    }

    /// Another text is asked for from here on.
    pub(super) fn forget_left_out(&mut self) {
        self.left_out.clear();
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.left_out.as_slice())
    }

    /// A part of the text without what MySQL leaves out; None if nothing is.
    pub(super) fn without_left_out(&self, span: &Range<usize>) -> Option<Vec<u8>> {
        let within = |range: &&Range<usize>| range.start >= span.start && range.end <= span.end;
        let mut shown = Vec::new();
        let mut at = span.start;
        for range in self.left_out.iter().filter(within) {
            shown.extend_from_slice(self.sql.get(at..range.start).unwrap_or_default());
            at = range.end;
        }
        if at == span.start {
            return None;
        }
        shown.extend_from_slice(self.sql.get(at..span.end).unwrap_or_default());
        Some(shown)
    }

    fn rest(&self, at: usize) -> &'a [u8] {
        self.sql.get(at..).unwrap_or_default()
    }

    fn token(&mut self) -> Result<Token, ()> {
        let Token { tok, start, end } = self.lexer.next_token().map_err(drop)?;
        Ok(Token { tok, start: start + self.base, end: end + self.base })
    }

    /// Skips blanks and comments, into and out of version comments; the place behind them.
    fn skip(&mut self, mut at: usize, notes: &mut Notes) -> Result<usize, usize> {
        loop {
            at = match self.rest(at) {
                [first, ..] if self.is_blank(*first) => at + 1,
                [b'#', ..] => self.line_end(at),
                [b'-', b'-'] => at + 2,
                [b'-', b'-', third, ..] if third.is_ascii_control() || self.is_skipped(&[b'-', b'-', *third]) => {
                    self.line_end(at)
                }
                [b'/', b'*', b'!', ..] => self.version_comment(at, notes)?,
                [b'/', b'*', ..] => {
                    if self.is_in_comment {
                        nested(notes);
                    }
                    self.comment_end(at).ok_or(at)?
                }
                [b'*', b'/', ..] if self.is_in_comment => {
                    self.is_in_comment = false;
                    self.leave_out(at, at + 2)
                }
                [] if self.is_in_comment => return Err(at),
                _ => return Ok(at),
            };
        }
    }

    /// Enters a version comment, or skips one that is not executed.
    fn version_comment(&mut self, at: usize, notes: &mut Notes) -> Result<usize, usize> {
        let body = self.rest(at + 3);
        let blank_after = |digits: usize| body.get(digits).is_some_and(|byte| self.is_blank(*byte));
        let digits = match body.iter().take(LONG_VERSION).take_while(|byte| byte.is_ascii_digit()).count() {
            LONG_VERSION if blank_after(LONG_VERSION) => LONG_VERSION,
            SHORT_VERSION | LONG_VERSION => SHORT_VERSION,
            _ => 0,
        };
        if digits > 0 && !blank_after(digits) {
            let text = "Immediately starting the version comment after the version number is deprecated and may \
                        change behavior in a future release. Please insert a white-space character after the version \
                        number.";
            notes.add(4164, text);
        }
        let version = body.iter().take(digits).fold(0, |version, digit| version * 10 + u32::from(digit - b'0'));
        let inner = at + 3 + digits;
        if version <= SERVER_VERSION {
            self.is_in_comment = true;
            return Ok(self.leave_out(at, inner));
        }
        let end = self.skipped_end(inner, notes).ok_or(at)?;
        Ok(self.leave_out(at, end))
    }

    /// The end of a version comment that is not executed: other comments may stand in it.
    fn skipped_end(&self, mut at: usize, notes: &mut Notes) -> Option<usize> {
        loop {
            let end = at + place_of(self.rest(at), b"*/")?;
            match place_of(self.sql.get(at..=end).unwrap_or_default(), b"/*") {
                None => return Some(end + 2),
                Some(inner) => {
                    nested(notes);
                    at = self.comment_end(at + inner)?;
                }
            }
        }
    }

    fn comment_end(&self, at: usize) -> Option<usize> {
        place_of(self.rest(at + 2), b"*/").map(|len| at + len + 4)
    }

    fn line_end(&self, at: usize) -> usize {
        let rest = self.rest(at);
        at + rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |len| len + 1)
    }

    fn leave_out(&mut self, start: usize, end: usize) -> usize {
        self.left_out.push(start..end);
        end
    }

    /// As the client's character set has it.
    fn is_blank(&self, byte: u8) -> bool {
        matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c) || !byte.is_ascii() && self.is_skipped(&[byte])
    }

    /// Whether the lexer finds nothing in a text.
    fn is_skipped(&self, text: &[u8]) -> bool {
        let mut lexer = lexer(text, self.sql_mode, self.charset);
        lexer.next_token().is_ok_and(|token| token.tok == Tok::End)
    }
}

fn lexer<'a>(sql: &'a [u8], sql_mode: u64, charset: &str) -> Lexer<'a> {
    Lexer::new(sql, sql_mode, SERVER_VERSION).in_charset(charset)
}

fn has_version_comment(gap: &[u8]) -> bool {
    gap.len() > 2 && gap.windows(3).any(|bytes| bytes == b"/*!")
}

/// A comment stands in a version comment.
fn nested(notes: &mut Notes) {
    notes.add(1681, "Nested comment syntax is deprecated and will be removed in a future release.");
}
