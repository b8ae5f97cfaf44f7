//! How the mysql client splits a text into statements, where that can differ from how a server reads the text.
//!
//! In: the text of one statement, the `sql_mode` it was made under. Out: why no client may be given it, or that every
//! client sends it whole. Never here: a reading that depends on the client's version or options. What only some of
//! them do counts as done: commands such as `\!` and `source` (on by default until 9.5), named commands on every line,
//! comments that are stripped, a SET sql_mode that a server refused under `--force`.

use std::ops::Range;

/// Version of the oldest servers that definitions are loaded into. What a comment hides from it and a later server
/// runs, nobody has ever run as this statement.
const OLDEST_SERVER: u32 = 80_000;

/// Begins every script. SET NAMES tells the server alone: a client of gbk or sjis, which its locale may have chosen,
/// would still take the last byte of a character and the quote or backslash behind it for one character. Its command
/// `\C` makes it read UTF-8, whichever commands it allows; everybody else sees a comment of a version that never comes.
pub(crate) const READ_AS_UTF8: &str = "SET NAMES utf8mb4 /*!999999 \\C utf8mb4 */;";

const DELIMITER: &[u8] = b"delimiter";
/// Words that the client takes for a command at the beginning of a line with `--named-commands`, and what follows them
/// for its argument.
const COMMANDS_WITH_ARGUMENT: [&str; 12] = [
    "?",
    "charset",
    "connect",
    "delimiter",
    "help",
    "pager",
    "prompt",
    "query_attributes",
    "source",
    "system",
    "tee",
    "use",
];
/// The same without argument. Others of these only print something: a text loses that word, and nothing is run.
const COMMANDS_ALONE: [&str; 8] =
    ["clear", "edit", "ego", "exit", "go", "quit", "resetconnection", "ssl_session_data_print"];

/// Under which settings a text is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    /// Ends the statement for the client; None if the text does not hold it.
    pub delimiter: Option<&'a str>,
    /// The server takes `"` for a name's quote.
    pub ansi_quotes: bool,
    /// A backslash in a string is an ordinary character.
    pub no_backslash_escapes: bool,
    /// Newest version in a `/*!NNNNN` comment that every server runs.
    pub newest_version: u32,
}

impl<'a> Reading<'a> {
    /// Of a statement made under this `sql_mode`, with a delimiter that it does not hold.
    pub(crate) fn of_definition(sql_mode: &str) -> Reading<'a> {
        let has = |names: &[&str]| sql_mode.split(',').any(|mode| names.contains(&mode.trim()));
        Reading {
            delimiter: None,
            ansi_quotes: has(&["ANSI_QUOTES", "ANSI", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"]),
            no_backslash_escapes: has(&["NO_BACKSLASH_ESCAPES"]),
            newest_version: OLDEST_SERVER,
        }
    }

    /// Of a statement of our own, ended by `;`.
    pub(crate) fn of_own() -> Reading<'a> {
        Reading { delimiter: Some(";"), ansi_quotes: false, no_backslash_escapes: false, newest_version: u32::MAX }
    }
}

/// Why client and server may split the text differently; None if every client sends it whole and every server reads
/// one statement.
pub(crate) fn hazard(text: &str, reading: Reading<'_>) -> Option<&'static str> {
    spans(text, reading).err()
}

/// The strings, quoted names and comments of a text that is no hazard.
pub(crate) fn spans(text: &str, reading: Reading<'_>) -> Result<Vec<Range<usize>>, &'static str> {
    if text.contains('\0') {
        return Err("a NUL byte");
    }
    let mut scan = Scan { bytes: text.as_bytes(), at: 0, reading, in_version_comment: false, begun: false };
    let mut spans = Vec::new();
    while scan.at < scan.bytes.len() {
        let start = scan.at;
        if scan.step()? {
            spans.push(start..scan.at);
        }
    }
    if scan.in_version_comment { Err("a comment without its end") } else { Ok(spans) }
}

/// Reads a text outside strings and comments, which are taken as a whole.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    reading: Reading<'a>,
    in_version_comment: bool,
    /// Something other than blanks and comments was there: the client's buffer is not empty.
    begun: bool,
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Takes the next string or comment (true) or other byte.
    fn step(&mut self) -> Result<bool, &'static str> {
        let is_line_start = self.at.checked_sub(1).is_none_or(|before| self.bytes.get(before) == Some(&b'\n'));
        if is_line_start && is_command(self.rest()) {
            return Err("a line that begins as a command of the mysql client");
        }
        match self.rest() {
            [b'#', ..] => self.line_comment(),
            [b'-', b'-'] => self.line_comment(),
            [b'-', b'-', blank, ..] if is_blank(*blank) => self.line_comment(),
            // The server alone takes it for a comment.
            [b'-', b'-', control, ..] if control.is_ascii_control() => return Err("'--' before a control character"),
            // The client alone does.
            [b'-', b'-', ..] if !self.begun => return Err("'--' at the beginning"),
            [b'/', b'*', ..] => return self.comment(),
            [b'*', b'/', ..] if self.in_version_comment => {
                self.in_version_comment = false;
                self.at += 2;
                self.not_before_star()?;
                return Ok(false);
            }
            [quote @ (b'\'' | b'"' | b'`'), ..] => self.quoted(*quote)?,
            [b'\\', ..] => return Err("a backslash outside strings"),
            rest => return self.other(rest).map(|()| false),
        }
        Ok(true)
    }

    fn other(&mut self, rest: &'a [u8]) -> Result<(), &'static str> {
        if self.reading.delimiter.is_some_and(|end| rest.starts_with(end.as_bytes())) {
            return Err("the delimiter");
        }
        let len = rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at_checked(len).unwrap_or((rest, &[]));
        self.begun |= rest.first().is_some_and(|byte| !is_blank(*byte));
        if word.first() == Some(&b'$') {
            return self.dollar(word);
        }
        let is_delimiter = word.len() >= DELIMITER.len()
            && word.get(word.len() - DELIMITER.len()..).is_some_and(|end| end.eq_ignore_ascii_case(DELIMITER));
        if is_delimiter && behind.first().is_none_or(|next| is_blank(*next)) {
            return Err("the mysql client's command DELIMITER");
        }
        self.at += len.max(1);
        Ok(())
    }

    /// `$tag$ … $tag$` is a string for 9.x, which older clients read as they read everything else. So what is in it
    /// must be harmless by itself.
    fn dollar(&mut self, word: &[u8]) -> Result<(), &'static str> {
        let Some(tag_len) = word.iter().skip(1).position(|byte| *byte == b'$').map(|at| at + 2) else {
            self.at += word.len();
            return Ok(());
        };
        let start = self.at + tag_len;
        let tag = self.bytes.get(self.at..start).unwrap_or_default();
        let behind = self.bytes.get(start..).unwrap_or_default();
        let len = behind.windows(tag_len).position(|part| part == tag).ok_or("a dollar quote without its end")?;
        let inside = behind.get(..len).and_then(|inside| std::str::from_utf8(inside).ok()).unwrap_or("\0");
        let is_comment = |span: &Range<usize>| matches!(inside.as_bytes().get(span.start), Some(b'#' | b'-' | b'/'));
        if self.in_version_comment || spans(inside, self.reading)?.iter().any(is_comment) {
            return Err("a comment in dollar quotes");
        }
        self.at = start + len + tag_len;
        // Right behind a word none begins.
        if self.rest().first().is_some_and(|byte| is_word(*byte)) { Err("a word after a dollar quote") } else { Ok(()) }
    }

    fn line_comment(&mut self) {
        let rest = self.rest();
        self.at += rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |line| line + 1);
    }

    /// A string, or a name in quotes. Where the mode makes client and server read backslashes differently, and where a
    /// server that refused the mode would, both readings must end at the same place.
    fn quoted(&mut self, quote: u8) -> Result<(), &'static str> {
        let no_end = "a string or name without its end";
        let plain = self.end_of_quoted(quote, false).ok_or(no_end)?;
        let is_name = quote == b'`' || (quote == b'"' && self.reading.ansi_quotes);
        let text = self.bytes.get(self.at..plain).unwrap_or_default();
        // The client drops the backslash.
        let ends_line = |pair: &[u8]| pair == b"\\\n" || pair == b"\\\r";
        if is_name && text.windows(2).any(ends_line) {
            return Err("a backslash at the end of a line in a name");
        }
        let end = if quote == b'`' {
            plain
        } else {
            let escaped = self.end_of_quoted(quote, true);
            if (is_name || self.reading.no_backslash_escapes) && escaped != Some(plain) {
                return Err("a backslash before a quote, under ANSI_QUOTES or NO_BACKSLASH_ESCAPES");
            }
            escaped.ok_or(no_end)?
        };
        self.begun = true;
        self.at = end;
        Ok(())
    }

    /// One past the closing quote. A doubled quote closes, and opens again.
    fn end_of_quoted(&self, quote: u8, escapes: bool) -> Option<usize> {
        let mut at = self.at + 1;
        loop {
            match *self.bytes.get(at)? {
                b'\\' if escapes => at += 2,
                byte if byte == quote => return Some(at + 1),
                _ => at += 1,
            }
        }
    }

    fn comment(&mut self) -> Result<bool, &'static str> {
        if self.in_version_comment {
            return Err("a comment inside a version comment");
        }
        let no_end = "a comment without its end";
        let body = self.rest().get(2..).unwrap_or_default();
        let len = body.windows(2).position(|pair| pair == b"*/").ok_or(no_end)?;
        let inside = body.get(..len).unwrap_or_default();
        match inside {
            [b'!', version @ ..] => {
                let digits = version.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let number = version.iter().take(digits).fold(0u32, |number, digit| {
                    number.saturating_mul(10).saturating_add(u32::from(digit.wrapping_sub(b'0')))
                });
                if !matches!(digits, 0 | 5 | 6) || number > self.reading.newest_version {
                    return Err("a comment that only some versions run");
                }
                self.begun = true;
                self.in_version_comment = true;
                self.at += 3 + digits;
                return Ok(false);
            }
            [b'M' | b'm', b'!', ..] => return Err("a comment that only some versions run"),
            [b'+', hint @ ..] => {
                check_hint(hint)?;
                self.begun = true;
            }
            // The client takes what it opens for another kind of comment, which ends elsewhere.
            _ if inside.ends_with(b"/") || inside.windows(2).any(|pair| pair == b"/*") => {
                return Err("a comment inside a comment");
            }
            _ => {}
        }
        self.at += len + 4;
        self.not_before_star()?;
        Ok(true)
    }

    /// The client takes `*/*` for the end of a comment, and its last two for the beginning of the next.
    fn not_before_star(&self) -> Result<(), &'static str> {
        if self.rest().first() == Some(&b'*') { Err("'*' after a comment") } else { Ok(()) }
    }
}

/// Clients look for quotes and comments in a hint or do not, servers find names in quotes.
fn check_hint(hint: &[u8]) -> Result<(), &'static str> {
    let mut in_name = false;
    for (at, byte) in hint.iter().enumerate() {
        match byte {
            b'`' => in_name = !in_name,
            b'\'' | b'"' | b'\\' | b'\n' | b';' => return Err("a quote, ';' or line break in an optimizer hint"),
            b'#' if !in_name => return Err("a comment in an optimizer hint"),
            b'-' if !in_name && hint.get(at + 1) == Some(&b'-') => return Err("a comment in an optimizer hint"),
            b'*' if hint.get(at.wrapping_sub(1)) == Some(&b'/') => return Err("a comment in an optimizer hint"),
            _ => {}
        }
    }
    match hint.last() {
        Some(b'/') => Err("a comment in an optimizer hint"),
        _ if in_name => Err("a name without its end in an optimizer hint"),
        _ => Ok(()),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn is_command(rest: &[u8]) -> bool {
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let from = line.iter().position(|byte| !is_blank(*byte)).unwrap_or(line.len());
    let line = line.get(from..).unwrap_or_default();
    let to = line.iter().position(|byte| is_blank(*byte)).unwrap_or(line.len());
    let (word, argument) = line.split_at_checked(to).unwrap_or((line, &[]));
    // The client would end a command, too, at what ends a statement.
    let word = word.strip_suffix(b";").unwrap_or(word);
    let is = |command: &&str| word.eq_ignore_ascii_case(command.as_bytes());
    if is(&"use") && is_index_hint(argument) {
        return false;
    }
    COMMANDS_WITH_ARGUMENT.iter().any(is)
        || (COMMANDS_ALONE.iter().any(is) && argument.iter().all(|byte| is_blank(*byte)))
}

/// True for the rest of `USE INDEX (a, b)`: as a command it is an error, and nothing in it is left open for later
/// lines.
fn is_index_hint(argument: &[u8]) -> bool {
    let words = argument.trim_ascii().to_ascii_uppercase();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" \t\r_$,.()".contains(byte);
    (words.starts_with(b"INDEX") || words.starts_with(b"KEY")) && words.iter().all(is_plain)
}

/// Longest line of a text that is written as comments, in bytes: far below what a client reads at once.
const COMMENT_LINE_BYTES_MAX: usize = 64 << 10;

/// A text as comments, of which each line is one and holds no control characters.
pub(crate) fn as_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 3);
    for mut line in text.split('\n') {
        loop {
            let (head, rest) = line.split_at(line.floor_char_boundary(COMMENT_LINE_BYTES_MAX));
            out.push_str("-- ");
            out.push_str(&comment_safe(head));
            out.push('\n');
            line = rest;
            if rest.is_empty() {
                break;
            }
        }
    }
    out
}

/// Without line ends and other control characters, so that a name cannot end the comment that contains it, nor reach a
/// terminal as an order.
pub(crate) fn comment_safe(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if c.is_control() => '?',
            c => c,
        })
        .collect()
}

/// `USE` for a name of any characters. The client takes a line that begins with USE as its own, and reads no further
/// than the line's end; behind another statement it is SQL. (A comment in front is not enough: with `--commands`, 8.0's
/// default, it is dropped before the line is looked at. Tried on 9.7.4.)
pub(crate) fn use_statement(db: &str) -> String {
    let front = if db.contains(['\n', '\r']) { "DO 0; " } else { "" };
    format!("{front}USE {};", client::session::quoted(db))
}

/// A delimiter that none of these texts holds: `//`, or `//N//` with the smallest number that is free.
pub(crate) fn delimiter_for<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut taken = std::collections::BTreeSet::new();
    let mut plain = true;
    for text in texts {
        // Each place, since pairs overlap: `///1//` holds `//1//`.
        for (at, _) in text.as_bytes().windows(2).enumerate().filter(|(_, pair)| *pair == b"//") {
            plain = false;
            let behind = text.get(at + 2..).unwrap_or_default();
            let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
            if let Some((number, end)) = behind.split_at_checked(digits)
                && end.starts_with("//")
                && let Ok(number) = number.parse::<u64>()
            {
                taken.insert(number);
            }
        }
    }
    if plain {
        return "//".to_owned();
    }
    let free = (1..).find(|number| !taken.contains(number)).unwrap_or_default();
    format!("//{free}//")
}

#[cfg(test)]
#[path = "client_split_tests.rs"]
mod tests;
