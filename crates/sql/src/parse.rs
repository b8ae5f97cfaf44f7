//! Parser of statements, over the catalog's lexer.
//!
//! In: text in the client's character set. Out: the first statement in it and where the next one begins. Never here:
//! what a name means, an answer; recursion deeper than [`DEPTH_MAX`].

mod condition;
pub(crate) mod expression;
mod from;
mod notes;
mod orders;
mod select;
mod set;
mod show;
mod statement;
#[cfg(test)]
mod tests;
mod tokens;

use std::borrow::Cow;

use catalog::lexer::{Tok, Token};

use crate::ast::Statement;
use crate::error::{SqlError, Warning};
use crate::listing::is_reserved;
use crate::memory::Purse;
use crate::{Charsets, Result};
use notes::Notes;
use tokens::Tokens;

/// Nesting of expressions while they are parsed, and height of their trees: a frame of the parser takes less than 1 KiB
/// of stack in a debug build, so this stays below 1 MiB. MySQL's own parser ends at about 10,000 symbols on its stack.
const DEPTH_MAX: usize = 400;
/// Expressions and assignments of a statement: each takes some 200 bytes, whatever its text takes.
const NODES_MAX: usize = 200_000;
/// Bytes of an expression or assignment with its place in a list, at most, besides the bytes of its text.
const NODE_BYTES: usize = 256;
/// Bytes of a name with its place in a list, or of a table that it names.
const NAME_BYTES: usize = 128;
/// Characters of a table's name or a database's, at most.
const NAME_MAX: usize = 64;
/// Copies of a literal: in the tree, in its column, in the row, in the character set of the result.
const COPIES: usize = 4;
/// MySQL's version whose answers these are: it decides about `/*!NNNNNN … */`.
pub const SERVER_VERSION: u32 = 90_704;

/// The first statement of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    pub statement: Statement,
    /// What MySQL says of its words, comments and variables when it is parsed.
    pub warnings: Vec<Warning>,
    pub parameters: usize,
    pub next: Option<Next>,
    /// Bytes of the tree, at most, besides those of its names and literals.
    pub tree_bytes: usize,
}

/// What follows a statement: at least a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// Offset of the text behind the semicolon.
    pub at: usize,
    /// Offset of the first token in it; None: there are comments only.
    pub token: Option<usize>,
}

/// A text that is not parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unparsed {
    pub error: SqlError,
    /// What MySQL says of its words and comments up to there.
    pub warnings: Vec<Warning>,
}

/// The text without blanks and semicolons at its end, as MySQL parses it and shows it in errors.
#[must_use]
pub fn trimmed(sql: &[u8]) -> &[u8] {
    let is_end = |byte: &u8| matches!(byte, b';' | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    let len = sql.iter().rposition(|byte| !is_end(byte)).map_or(0, |last| last + 1);
    sql.get(..len).unwrap_or_default()
}

/// Parses the first statement of `sql`; `sql_mode` are bits of [`catalog::sql_mode`].
///
/// # Errors
/// 1064 with the place; 1065 if there is no statement; 1235 for what has no parser here.
pub fn parse(sql: &[u8], sql_mode: u64, charsets: &Charsets) -> Result<Parsed> {
    parse_within(sql, sql_mode, charsets, &Purse::default()).map_err(|unparsed| unparsed.error)
}

/// As [`parse`], and counts what the statement will hold.
///
/// # Errors
/// As [`parse`], and 1041.
pub fn parse_within(
    sql: &[u8],
    sql_mode: u64,
    charsets: &Charsets,
    memory: &Purse,
) -> std::result::Result<Parsed, Unparsed> {
    let sql = trimmed(sql);
    let mut parser = Parser {
        sql,
        sql_mode,
        charsets,
        tokens: Tokens::of(sql, sql_mode, charsets.client_charset()),
        current: Token { tok: Tok::End, start: 0, end: 0 },
        last_end: 0,
        depth: 0,
        height: 0,
        nodes: 0,
        bytes: 0,
        memory,
        parameters: 0,
        notes: Notes::default(),
    };
    let parsed = parser.parsed();
    let current = parser.current.start..parser.current.end;
    let Parser { notes, parameters, bytes, .. } = parser;
    match parsed {
        Err(error) => Err(Unparsed { error: error.at(current), warnings: notes.of_words() }),
        Ok((statement, next)) => {
            let warnings = notes.all();
            let of_warnings: usize = warnings.iter().map(Warning::bytes).sum();
            match memory.work_with(of_warnings) {
                Ok(()) => Ok(Parsed { statement, warnings, parameters, next, tree_bytes: bytes + of_warnings }),
                Err(error) => Err(Unparsed { error, warnings: Vec::new() }),
            }
        }
    }
}

/// A parser at one token.
struct Parser<'a> {
    sql: &'a [u8],
    sql_mode: u64,
    charsets: &'a Charsets,
    tokens: Tokens<'a>,
    current: Token,
    /// End of the token before `current`.
    last_end: usize,
    depth: usize,
    /// Height of the highest of the expressions that the one being parsed has so far.
    height: usize,
    nodes: usize,
    /// Bytes of the tree so far.
    bytes: usize,
    memory: &'a Purse,
    parameters: usize,
    notes: Notes,
}

impl Parser<'_> {
    /// The first statement, and what follows it.
    fn parsed(&mut self) -> Result<(Statement, Option<Next>)> {
        self.memory.work_with(self.sql.len().saturating_mul(COPIES))?;
        self.advance()?;
        if self.current.tok == Tok::End {
            // The lexer takes a NUL byte at the end for the end.
            let text = self.sql.strip_suffix(&[0]).unwrap_or(self.sql);
            return match trimmed(text) {
                [] => Err(SqlError::new(1065, "42000", "Query was empty")),
                _ => Ok((Statement::Empty, None)),
            };
        }
        let statement = self.statement()?;
        let next = match (&statement, &self.current.tok) {
            // What follows is not looked at: an error ends the text.
            (Statement::Refused(_) | Statement::Write, _) | (_, Tok::End) => None,
            (_, Tok::Punct(b';')) => Some(self.next_statement()?),
            _ => return Err(self.syntax()),
        };
        Ok((statement, next))
    }

    fn advance(&mut self) -> Result<()> {
        self.last_end = self.current.end;
        let before = self.tokens.bytes();
        let next = self.tokens.next(self.last_end, &mut self.notes);
        self.hold(self.tokens.bytes().saturating_sub(before))?;
        self.current = next.map_err(|at| self.charsets.syntax(self.sql, at))?;
        Ok(())
    }

    fn has_mode(&self, mode: u64) -> bool {
        self.sql_mode & mode != 0
    }

    /// Counts bytes that the tree will hold.
    fn hold(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        self.memory.work_with(bytes)
    }

    /// What follows a semicolon: blanks and semicolons alone would not be in the text.
    fn next_statement(&mut self) -> Result<Next> {
        let (at, noted) = (self.current.end, self.notes.len());
        if self.tokens.is_in_comment() {
            return Err(self.charsets.syntax(self.sql, at));
        }
        let token = match self.tokens.next(at, &mut self.notes) {
            Ok(Token { tok: Tok::End, .. }) => None,
            Ok(token) => Some(token.start),
            Err(place) => Some(place),
        };
        self.notes.truncate(noted);
        Ok(Next { at, token })
    }

    /// A statement that is not answered, for the construct that stands here.
    fn refused(&self, construct: impl AsRef<str>) -> Statement {
        let span = self.current.start..self.current.end;
        Statement::Refused(SqlError::not_supported(construct.as_ref()).at(span))
    }

    fn syntax(&self) -> SqlError {
        self.charsets.syntax(self.sql, self.current.start)
    }

    fn text(&self, start: usize, end: usize) -> &[u8] {
        self.sql.get(start..end).unwrap_or_default()
    }

    /// True if the current token is this word.
    fn is(&self, word: &str) -> bool {
        matches!(&self.current.tok, Tok::Word(found) if found.eq_ignore_ascii_case(word.as_bytes()))
    }

    fn is_one_of(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }

    /// Takes this word if it is there.
    fn accept(&mut self, word: &str) -> Result<bool> {
        let found = self.is(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.accept(word)? { Ok(()) } else { Err(self.syntax()) }
    }

    /// Takes these words if the first one is there; the others must follow.
    fn accept_all(&mut self, words: &[&str]) -> Result<bool> {
        let Some((first, rest)) = words.split_first() else { return Ok(true) };
        if !self.accept(first)? {
            return Ok(false);
        }
        for word in rest {
            self.expect(word)?;
        }
        Ok(true)
    }

    fn is_punct(&self, byte: u8) -> bool {
        self.current.tok == Tok::Punct(byte)
    }

    fn accept_punct(&mut self, byte: u8) -> Result<bool> {
        let found = self.is_punct(byte);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect_punct(&mut self, byte: u8) -> Result<()> {
        if self.accept_punct(byte)? { Ok(()) } else { Err(self.syntax()) }
    }

    /// True at the end of a statement.
    fn at_end(&self) -> bool {
        matches!(self.current.tok, Tok::End | Tok::Punct(b';'))
    }

    /// A name, quoted or not.
    fn name(&mut self) -> Result<Vec<u8>> {
        if self.is_reserved() {
            return Err(self.syntax());
        }
        self.any_word()
    }

    /// True for a word that is no name unless it is quoted.
    fn is_reserved(&self) -> bool {
        matches!(&self.current.tok, Tok::Word(word) if is_reserved(word)) && !self.is_beside_dot()
    }

    /// A name, or a word of whatever kind.
    fn any_word(&mut self) -> Result<Vec<u8>> {
        self.hold(NAME_BYTES)?;
        self.warn_of_full();
        let name = match &mut self.current.tok {
            Tok::Word(name) | Tok::Quoted(name) => std::mem::take(name),
            _ => return Err(self.syntax()),
        };
        let name = self.in_names(name)?;
        self.advance()?;
        Ok(name)
    }

    /// A name of the client's in UTF-8.
    fn in_names(&mut self, name: Vec<u8>) -> Result<Vec<u8>> {
        match self.charsets.name(&name)? {
            (Cow::Borrowed(_), _) => Ok(name),
            (Cow::Owned(converted), said) => {
                said.iter().for_each(|said| self.notes.add(1300, said));
                Ok(converted)
            }
        }
    }

    /// MySQL warns of each name FULL that is not quoted, unless a dot is beside it.
    fn warn_of_full(&mut self) {
        if self.is("FULL") && !self.is_beside_dot() {
            let text = "Using FULL as unquoted identifier is deprecated, please use quotes or rename the identifier.";
            self.notes.add(4119, text);
        }
    }

    fn is_beside_dot(&self) -> bool {
        self.text(self.current.end, self.current.end + 1) == b"."
            || self.text(0, self.current.start).trim_ascii_end().ends_with(b".")
    }

    /// A string without an introducer, in UTF-8: one that the server keeps among its names.
    fn text_literal(&mut self) -> Result<Vec<u8>> {
        let Tok::Str { bytes, introducer: None } = &self.current.tok else { return Err(self.syntax()) };
        let text = self.charsets.text_of_names(bytes)?.into_owned();
        self.advance()?;
        Ok(text)
    }

    fn is_text(&self) -> bool {
        matches!(self.current.tok, Tok::Str { introducer: None, .. })
    }

    fn name_or_text(&mut self) -> Result<Vec<u8>> {
        if self.is_text() { self.text_literal() } else { self.name() }
    }

    /// The current word in upper case, for messages.
    fn word(&self) -> String {
        match &self.current.tok {
            Tok::Word(word) => String::from_utf8_lossy(word).to_ascii_uppercase(),
            _ => String::new(),
        }
    }

    /// Runs `parse` one level deeper; what it makes is an operand of the expression around it.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.nodes += 1;
        self.hold(NODE_BYTES)?;
        if self.nodes > NODES_MAX {
            let text = "Memory capacity exceeded for 'parser_max_mem_size'. Parser bailed out for this query.";
            return Err(SqlError::new(3170, "HY000", text));
        }
        if self.depth == DEPTH_MAX {
            return Err(too_deep());
        }
        self.depth += 1;
        let beside = std::mem::take(&mut self.height);
        let result = parse(self).and_then(|parsed| {
            self.higher()?;
            Ok(parsed)
        });
        self.height = self.height.max(beside);
        self.depth -= 1;
        result
    }

    /// Counts a node around the expressions that were parsed so far.
    fn higher(&mut self) -> Result<()> {
        if self.height == DEPTH_MAX {
            return Err(too_deep());
        }
        self.height += 1;
        Ok(())
    }
}

/// That a table or a database may have this name, which is UTF-8.
///
/// # Errors
/// 1102, 1103 and 1059.
fn check_name(of: &str, name: &[u8]) -> Result<()> {
    let name = String::from_utf8_lossy(name);
    if name.is_empty() || name.ends_with(' ') {
        let code = if of == "table" { 1103 } else { 1102 };
        return Err(SqlError::new(code, "42000", format!("Incorrect {of} name '{name}'")));
    }
    if name.chars().count() > NAME_MAX {
        return Err(SqlError::new(1059, "42000", format!("Identifier name '{name}' is too long")));
    }
    Ok(())
}

/// What MySQL answers once its parser's stack is full.
fn too_deep() -> SqlError {
    SqlError::new(3950, "HY000", format!("Out of memory: expressions nested more than {DEPTH_MAX} deep"))
}
