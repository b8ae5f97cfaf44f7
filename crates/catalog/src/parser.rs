//! Cursor over a statement's tokens.
//!
//! In: tokens of the [`Lexer`], read only as far as needed (a statement is classified without reading its end). Out:
//! names as UTF-8, literals as bytes with their character set, raw text of expressions. Never here: the meaning of a
//! statement; recursion (nesting is counted, so hostile depth is harmless).

use std::collections::VecDeque;

use crate::charset;
use crate::client_text;
use crate::context::{SourceNames, StatementContext};
use crate::error::Problem;
use crate::expression;
use crate::lexer::{Lexer, SERVER_VERSION_DEFAULT, Tok, Token, without_final_nul};
use crate::server_text;
use crate::sql_mode;
use crate::syntax::{TableName, Text};

/// The cursor, with lookahead.
#[derive(Debug, Clone)]
pub(crate) struct Parser<'a> {
    sql: &'a [u8],
    lexer: Lexer<'a>,
    ahead: VecDeque<Token>,
    /// End offset of the last token taken.
    taken_to: usize,
    /// Before this place the text is UTF-8, whatever the client's character set.
    utf8_to: usize,
    /// Name of `character_set_client`.
    client_charset: &'static str,
    /// Character set of `collation_connection`, if the event has one.
    connection_charset: Option<&'static str>,
    sql_mode: u64,
    collation_connection: Option<u16>,
    server_version: Option<u32>,
    /// The text is the source's own.
    of_the_source: bool,
    /// The session's time zone.
    time_zone: Option<String>,
    names: Option<SourceNames>,
    /// Who ran the statement.
    invoker: Option<(String, String)>,
}

/// An expression's tokens in a canonical spelling, independent of the session's modes and of the writer's spaces,
/// comments, quoting and case of names, without brackets around the whole. The source reprints most expressions, which
/// this does not undo. So equal texts mean the same, but different ones may, too.
pub(crate) fn spelled(context: &StatementContext, text: &str) -> Result<String, Problem> {
    // Text taken out of a statement has already been converted to UTF-8.
    let context = StatementContext { collation_client: None, collation_connection: None, ..context.clone() };
    let mut parser = Parser::new(&context, text.as_bytes());
    let mut tokens = Vec::new();
    loop {
        tokens.push(match parser.take()? {
            Tok::End => break,
            Tok::Word(bytes) => under_mode(context.sql_mode, String::from_utf8_lossy(&bytes).to_lowercase()),
            Tok::Quoted(bytes) => String::from_utf8_lossy(&bytes).to_lowercase(),
            Tok::Number(number) => number,
            Tok::Punct(b'|') if context.sql_mode & sql_mode::PIPES_AS_CONCAT != 0 => "|concat".to_owned(),
            Tok::Punct(punct) => char::from(punct).to_string(),
            Tok::Str { bytes, introducer } | Tok::Bytes { bytes, introducer } => {
                format!("{}{bytes:02x?}", introducer.unwrap_or_default())
            }
            Tok::Variable => return parser.wrong("a variable in an expression"),
        });
    }
    let around = brackets_around(&tokens);
    Ok(tokens.get(around..tokens.len() - around).unwrap_or_default().join(" "))
}

/// A name in backticks.
pub(crate) fn backticked(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A word whose meaning in an expression depends on `sql_mode`, in a spelling of its own where it is not the usual one.
/// `PIPES_AS_CONCAT` is the same for `||`; quotes and backslashes are the lexer's.
fn under_mode(mode: u64, word: String) -> String {
    let is = |bit| mode & bit != 0;
    match word.as_str() {
        "not" if is(sql_mode::HIGH_NOT_PRECEDENCE) => "not!".to_owned(),
        "real" if is(sql_mode::REAL_AS_FLOAT) => "float".to_owned(),
        "utf8" if is(sql_mode::INTERPRET_UTF8_AS_UTF8MB4) => "utf8mb4".to_owned(),
        of if is(sql_mode::INTERPRET_UTF8_AS_UTF8MB4) && of.starts_with("utf8_") => of.replacen("utf8_", "utf8mb4_", 1),
        _ => word,
    }
}

/// Pairs of brackets around all other tokens.
fn brackets_around(tokens: &[String]) -> usize {
    let (mut open, mut pairs) = (Vec::new(), Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "(" => open.push(at),
            ")" => pairs.extend(open.pop().map(|opened| (opened, at))),
            _ => {}
        }
    }
    pairs.sort_unstable();
    let outer = |(at, pair): &(usize, &(usize, usize))| **pair == (*at, tokens.len() - 1 - *at);
    pairs.iter().enumerate().take_while(outer).count()
}

impl<'a> Parser<'a> {
    pub(crate) fn new(context: &StatementContext, sql: &'a [u8]) -> Parser<'a> {
        let version = context.server_version.unwrap_or(SERVER_VERSION_DEFAULT);
        let client = context.collation_client.and_then(charset::by_id).map_or("utf8mb4", |collation| collation.charset);
        // What the server writes again begins in capitals.
        let utf8_to = if matches!(sql.first(), Some(b'C' | b'A' | b'G')) { server_text::utf8_len(sql) } else { 0 };
        Parser {
            sql: without_final_nul(sql),
            utf8_to,
            lexer: Lexer::new(sql, context.sql_mode, version)
                .in_charset(server_text::lexer_charset(sql, client))
                .with_utf8_to(utf8_to),
            ahead: VecDeque::new(),
            taken_to: 0,
            client_charset: client,
            collation_connection: context.collation_connection,
            server_version: context.server_version,
            of_the_source: context.of_the_source,
            connection_charset: context.collation_connection.and_then(charset::by_id).map(|found| found.charset),
            sql_mode: context.sql_mode,
            time_zone: context.time_zone.clone(),
            names: context.names.filters.renames().then(|| context.names.clone()),
            invoker: context.invoker.clone(),
        }
    }

    /// A parser of a text taken out of the statement, which is UTF-8.
    pub(crate) fn of_text<'t>(&self, text: &'t str) -> Parser<'t> {
        let version = self.server_version.unwrap_or(SERVER_VERSION_DEFAULT);
        Parser {
            sql: text.as_bytes(),
            lexer: Lexer::new(text.as_bytes(), self.sql_mode, version),
            ahead: VecDeque::new(),
            taken_to: 0,
            utf8_to: 0,
            client_charset: "utf8mb4",
            time_zone: self.time_zone.clone(),
            names: self.names.clone(),
            invoker: self.invoker.clone(),
            ..*self
        }
    }

    /// True if the text is the source's own.
    pub(crate) fn of_the_source(&self) -> bool {
        self.of_the_source
    }

    /// An expression of the statement in the source's spelling, if that is known.
    pub(crate) fn spelled(&self, text: &str) -> Option<String> {
        if self.of_the_source {
            return Some(text.to_owned());
        }
        let context = StatementContext {
            sql_mode: self.sql_mode,
            collation_connection: self.collation_connection,
            server_version: self.server_version,
            ..StatementContext::default()
        };
        expression::spelled(&context, text)
    }

    /// User and host of whoever ran the statement.
    pub(crate) fn invoker(&self) -> Option<(&str, &str)> {
        self.invoker.as_ref().map(|(user, host)| (user.as_str(), host.as_str()))
    }

    /// The session's time zone.
    pub(crate) fn time_zone(&self) -> Option<&str> {
        self.time_zone.as_deref()
    }

    fn fill(&mut self, count: usize) -> Result<(), Problem> {
        while self.ahead.len() < count {
            let token = self.lexer.next_token()?;
            self.ahead.push_back(token);
        }
        Ok(())
    }

    /// Returns the token `ahead` places further without taking it.
    pub(crate) fn peek_at(&mut self, ahead: usize) -> Result<&Tok, Problem> {
        self.fill(ahead + 1)?;
        Ok(self.ahead.get(ahead).map_or(&Tok::End, |token| &token.tok))
    }

    pub(crate) fn peek(&mut self) -> Result<&Tok, Problem> {
        self.peek_at(0)
    }

    pub(crate) fn take(&mut self) -> Result<Tok, Problem> {
        self.fill(1)?;
        Ok(self.ahead.pop_front().map_or(Tok::End, |token| {
            self.taken_to = token.end;
            token.tok
        }))
    }

    /// Offset of the next token.
    pub(crate) fn place(&mut self) -> Result<usize, Problem> {
        self.fill(1)?;
        Ok(self.ahead.front().map_or(self.sql.len(), |token| token.start))
    }

    /// Returns a syntax error at the next token.
    pub(crate) fn wrong<T>(&mut self, what: impl Into<String>) -> Result<T, Problem> {
        let at = self.place()?;
        Err(Problem::Syntax { what: what.into(), at })
    }

    /// Text from byte `start` to the end of the last token taken, for messages and storage. It reads the same to a
    /// parser whose client speaks UTF-8.
    pub(crate) fn text_from(&self, start: usize) -> String {
        self.text_of(start, self.taken_to)
    }

    /// End of the last token taken.
    pub(crate) fn taken_to(&self) -> usize {
        self.taken_to
    }

    /// As [`text_from`](Self::text_from), to byte `end`.
    pub(crate) fn text_of(&self, start: usize, end: usize) -> String {
        let bytes = self.sql.get(start..end).unwrap_or_default();
        match std::str::from_utf8(bytes) {
            // In swe7 ASCII is not ASCII.
            Ok(text)
                if text.is_ascii() && self.client_charset != "swe7"
                    || end <= self.utf8_to
                    || self.client_charset.starts_with("utf8") =>
            {
                text.to_owned()
            }
            _ => self.respelled(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned()),
        }
    }

    /// Whole tokens as UTF-8, without comments. Text that is not of the client's character set becomes hexadecimal.
    fn respelled(&self, bytes: &[u8]) -> Result<String, Problem> {
        let mut lexer = self.lexer.clone().over(bytes);
        let (mut text, mut end) = (String::new(), 0);
        loop {
            let token = lexer.next_token()?;
            let raw = bytes.get(token.start..token.end).unwrap_or_default();
            // A comment counts as a blank.
            if token.start > end && token.tok != Tok::End {
                text.push(' ');
            }
            end = token.end;
            match token.tok {
                Tok::End => return Ok(text),
                Tok::Word(word) => match self.bare(word)? {
                    word if client_text::PLAIN.word_len(word.as_bytes()) == word.len() => text.push_str(&word),
                    word => text.push_str(&backticked(&word)),
                },
                Tok::Quoted(name) => text.push_str(&backticked(&self.utf8(name)?)),
                Tok::Str { bytes, introducer } => {
                    let charset = introducer.as_deref().unwrap_or(self.client_charset);
                    match charset::to_unicode(&bytes, charset) {
                        Ok(value) if introducer.is_none() => text.push_str(&self.quoted(&value)),
                        _ => {
                            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                            text.push_str(&format!("_{charset} X'{hex}'"));
                        }
                    }
                }
                _ => text.push_str(&String::from_utf8_lossy(raw)),
            }
        }
    }

    fn quoted(&self, text: &str) -> String {
        let text = text.replace('\'', "''");
        let escapes = !self.has_mode(sql_mode::NO_BACKSLASH_ESCAPES);
        format!("'{}'", if escapes { text.replace('\\', "\\\\") } else { text })
    }

    pub(crate) fn at_end(&mut self) -> Result<bool, Problem> {
        Ok(*self.peek()? == Tok::End)
    }

    pub(crate) fn is_word_at(&mut self, ahead: usize, word: &str) -> Result<bool, Problem> {
        Ok(matches!(self.peek_at(ahead)?, Tok::Word(found) if found.eq_ignore_ascii_case(word.as_bytes())))
    }

    pub(crate) fn is_word(&mut self, word: &str) -> Result<bool, Problem> {
        self.is_word_at(0, word)
    }

    pub(crate) fn is_any_word(&mut self, words: &[&str]) -> Result<bool, Problem> {
        for word in words {
            if self.is_word(word)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes these words if all of them are next; otherwise takes none.
    pub(crate) fn eat(&mut self, words: &[&str]) -> Result<bool, Problem> {
        for (ahead, word) in words.iter().enumerate() {
            if !self.is_word_at(ahead, word)? {
                return Ok(false);
            }
        }
        for _ in words {
            self.take()?;
        }
        Ok(true)
    }

    pub(crate) fn eat_word(&mut self, word: &str) -> Result<bool, Problem> {
        self.eat(&[word])
    }

    pub(crate) fn expect_word(&mut self, word: &str) -> Result<(), Problem> {
        if self.eat_word(word)? { Ok(()) } else { self.wrong(format!("{word} expected")) }
    }

    pub(crate) fn is_punct(&mut self, punct: u8) -> Result<bool, Problem> {
        Ok(*self.peek()? == Tok::Punct(punct))
    }

    pub(crate) fn eat_punct(&mut self, punct: u8) -> Result<bool, Problem> {
        let found = self.is_punct(punct)?;
        if found {
            self.take()?;
        }
        Ok(found)
    }

    pub(crate) fn expect_punct(&mut self, punct: u8) -> Result<(), Problem> {
        if self.eat_punct(punct)? { Ok(()) } else { self.wrong(format!("'{}' expected", char::from(punct))) }
    }

    /// The next word in upper case, for messages and keyword matching; empty if the next token is not a bare word.
    pub(crate) fn word_upper(&mut self) -> Result<String, Problem> {
        Ok(match self.peek()? {
            Tok::Word(word) => String::from_utf8_lossy(word).to_ascii_uppercase(),
            _ => String::new(),
        })
    }

    /// Takes an identifier and returns it as UTF-8.
    pub(crate) fn name(&mut self) -> Result<String, Problem> {
        match self.peek()? {
            Tok::Word(_) | Tok::Quoted(_) => {}
            _ => return self.wrong("a name expected"),
        }
        let name = match self.take()? {
            Tok::Word(bytes) => self.bare(bytes)?,
            Tok::Quoted(bytes) => self.utf8(bytes)?,
            _ => return self.wrong("a name expected"),
        };
        // Names are utf8mb3 at the source; other characters become question marks (seen on 9.7).
        Ok(if name.is_ascii() { name } else { name.replace(|letter| letter > '\u{ffff}', "?") })
    }

    /// Takes a `name`, or a string where MySQL's grammar allows either (character sets, engines).
    pub(crate) fn name_or_string(&mut self) -> Result<String, Problem> {
        match self.peek()? {
            Tok::Str { .. } => self.string_utf8(),
            _ => self.name(),
        }
    }

    /// Takes the name of a character set.
    pub(crate) fn charset_name(&mut self) -> Result<String, Problem> {
        let name = self.name_or_string()?;
        Ok(if self.has_mode(sql_mode::INTERPRET_UTF8_AS_UTF8MB4) && name.eq_ignore_ascii_case("utf8") {
            "utf8mb4".to_owned()
        } else {
            name
        })
    }

    /// Takes the name of a collation.
    pub(crate) fn collation_name(&mut self) -> Result<String, Problem> {
        let name = self.name_or_string()?;
        let of_utf8 = name.get(..5).filter(|_| self.has_mode(sql_mode::INTERPRET_UTF8_AS_UTF8MB4));
        Ok(match of_utf8 {
            Some(head) if head.eq_ignore_ascii_case("utf8_") => {
                format!("utf8mb4_{}", name.get(5..).unwrap_or_default())
            }
            _ => name,
        })
    }

    /// Takes `table`, `db.table` or `.table`.
    pub(crate) fn table_name(&mut self) -> Result<TableName, Problem> {
        self.eat_punct(b'.')?;
        let first = self.name()?;
        if self.eat_punct(b'.')? {
            let name = self.name()?;
            return Ok(TableName { db: Some(self.renamed(first)), name });
        }
        Ok(TableName { db: None, name: first })
    }

    /// Takes a database's name and applies the rewrite rules.
    pub(crate) fn database_name(&mut self) -> Result<String, Problem> {
        let name = self.name()?;
        Ok(self.renamed(name))
    }

    fn renamed(&self, db: String) -> String {
        match &self.names {
            Some(names) => names.database(&db).to_owned(),
            None => db,
        }
    }

    /// The bytes of the word taken last, as UTF-8. The source converts only those with a byte beyond ASCII: in swe7 `{` is
    /// a letter, but stays what it is outside quotes (seen on 9.7).
    fn bare(&self, word: Vec<u8>) -> Result<String, Problem> {
        match String::from_utf8(word) {
            Ok(word) if word.is_ascii() => Ok(word),
            Ok(word) => self.utf8(word.into_bytes()),
            Err(error) => self.utf8(error.into_bytes()),
        }
    }

    /// The bytes of the token taken last, as UTF-8.
    pub(crate) fn utf8(&self, bytes: Vec<u8>) -> Result<String, Problem> {
        let charset = if self.taken_to <= self.utf8_to { "utf8mb4" } else { self.client_charset };
        charset::name_to_unicode(&bytes, charset)
    }

    /// Takes a string in a comment or an option and returns it as UTF-8.
    pub(crate) fn string_utf8(&mut self) -> Result<String, Problem> {
        let text = self.string()?;
        // Comments are for people, so invalid text is shown as well as possible.
        let charset = text.charset.as_str();
        Ok(charset::name_to_unicode(&text.bytes, charset)
            .unwrap_or_else(|_| String::from_utf8_lossy(&text.bytes).into_owned()))
    }

    /// Takes a comment. The source keeps it in utf8mb3, with question marks for what is beyond.
    pub(crate) fn comment(&mut self) -> Result<String, Problem> {
        Ok(charset::in_utf8mb3(&self.string_utf8()?))
    }

    /// Takes a string literal (adjacent ones are joined), or a hexadecimal or bit literal where text is expected.
    pub(crate) fn string(&mut self) -> Result<Text, Problem> {
        let mut text = match self.peek()? {
            Tok::Str { .. } | Tok::Bytes { .. } => match self.take()? {
                Tok::Str { bytes, introducer } => {
                    let charset = introducer.unwrap_or_else(|| self.client_charset.to_owned());
                    Text { bytes, charset }
                }
                Tok::Bytes { bytes, introducer } => {
                    Text { bytes, charset: introducer.unwrap_or_else(|| "binary".to_owned()) }
                }
                _ => return self.wrong("a string expected"),
            },
            _ => return self.wrong("a string expected"),
        };
        while let Tok::Str { introducer: None, .. } = self.peek()? {
            if let Tok::Str { bytes, .. } = self.take()? {
                text.bytes.extend_from_slice(&bytes);
            }
        }
        Ok(text)
    }

    /// Takes a string that is a value: a default, or a name of ENUM or SET. Without an introducer it is converted to
    /// the character set of `collation_connection`, with a question mark for each missing character (`text_literal`,
    /// sql/sql_yacc.yy; seen on 9.7). Comments are not converted.
    pub(crate) fn value(&mut self) -> Result<Text, Problem> {
        let plain = matches!(self.peek()?, Tok::Str { introducer: None, .. });
        let text = self.string()?;
        let Some(connection) = self.connection_charset.filter(|to| plain && *to != text.charset) else {
            return Ok(text);
        };
        let bytes = charset::convert_or_question_marks(&text.bytes, &text.charset, connection)?;
        Ok(Text { bytes, charset: connection.to_owned() })
    }

    /// Takes an unsigned integer, decimal or hexadecimal.
    pub(crate) fn unsigned(&mut self) -> Result<u64, Problem> {
        let value = match self.peek()? {
            Tok::Number(text) => text.parse().ok(),
            Tok::Bytes { bytes, .. } if bytes.len() <= 8 => {
                Some(bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte)))
            }
            _ => None,
        };
        match value {
            Some(value) => {
                self.take()?;
                Ok(value)
            }
            None => self.wrong("a whole number expected"),
        }
    }

    /// Takes a balanced `( … )` and returns the text inside unchanged.
    pub(crate) fn parenthesised(&mut self) -> Result<String, Problem> {
        self.expect_punct(b'(')?;
        let start = self.taken_to;
        let mut depth = 1usize;
        loop {
            let end = self.place()?;
            match self.take()? {
                Tok::Punct(b'(') => depth += 1,
                Tok::Punct(b')') => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(self.text_of(start, end).trim().to_owned());
                    }
                }
                Tok::End => return self.wrong("')' expected"),
                _ => {}
            }
        }
    }

    /// Takes everything to the end of the statement.
    pub(crate) fn rest(&mut self) -> Result<String, Problem> {
        let start = self.place()?;
        while self.take()? != Tok::End {}
        Ok(self.text_from(start).trim().to_owned())
    }

    pub(crate) fn expect_end(&mut self) -> Result<(), Problem> {
        self.eat_punct(b';')?;
        if self.at_end()? {
            return Ok(());
        }
        let start = self.place()?;
        let word = self.word_upper()?;
        if word.is_empty() {
            self.wrong("the end of the statement expected")
        } else {
            Err(Problem::Syntax { what: format!("unexpected {word}"), at: start })
        }
    }

    /// True if any of these `sql_mode` bits is set.
    pub(crate) fn has_mode(&self, bits: u64) -> bool {
        self.sql_mode & bits != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(collation: u16, sql: &[u8]) -> String {
        let context = StatementContext { collation_client: Some(collation), ..StatementContext::default() };
        Parser::new(&context, sql).rest().unwrap()
    }

    #[test]
    fn text_taken_out_is_utf8() {
        assert_eq!(text(45, "a('é' /* x */)".as_bytes()), "a('é' /* x */)");
        assert_eq!(text(8, b"`\xe9``` ( '\xe9''\\n\\\\' ) /* \xe9 */ + \xe9"), "`é``` ( 'é''\n\\\\' ) + é");
        assert_eq!(text(13, b"'\x95\x5c' , \x83\x5c = _latin1'\xe9'"), "'表' , ソ = _latin1 X'e9'");
        assert_eq!(text(10, b"a{ = `a{` + '{'"), "`a{` = `aä` + 'ä'");
        // 0x81 alone is nothing in gbk.
        assert_eq!(text(28, b"x = '\x81'"), "x = _gbk X'81'");
    }

    #[test]
    fn expressions_under_another_mode_are_others() {
        let of = |mode: u64, text: &str| {
            spelled(&StatementContext { sql_mode: mode, ..StatementContext::default() }, text).unwrap()
        };
        for (mode, text) in [
            (sql_mode::PIPES_AS_CONCAT, "a || b"),
            (sql_mode::HIGH_NOT_PRECEDENCE, "not a between 1 and 2"),
            (sql_mode::REAL_AS_FLOAT, "cast(a as real)"),
            (sql_mode::INTERPRET_UTF8_AS_UTF8MB4, "convert(a using UTF8)"),
            (sql_mode::INTERPRET_UTF8_AS_UTF8MB4, "a collate utf8_bin"),
            (sql_mode::INTERPRET_UTF8_AS_UTF8MB4, "_utf8'a'"),
            (sql_mode::ANSI_QUOTES, "a = \"b\""),
            (sql_mode::NO_BACKSLASH_ESCAPES, "a = '\\\\'"),
        ] {
            assert_ne!(of(0, text), of(mode, text), "{text}");
            assert_eq!(of(0, "abs(a) + utf8x.b"), of(mode, "abs(a) + utf8x.b"));
        }
    }
}
