//! The parser: a text's tokens to its [`Tree`].
//!
//! In: one statement. Out: the tree of a SELECT, TABLE or VALUES statement, or of an expression; or the place at which
//! MySQL would answer 1064. Never here: names' meaning; errors other than of syntax, so a text may parse that MySQL
//! refuses with another number; recursion deeper than [`DEPTH_MAX`].
//!
//! Operators, brackets, plain calls, CASE and joins stand on stacks of the parser's own, so they may nest as deeply as
//! a text is long. What recurses is counted: subqueries, functions with words inside, nested columns of JSON_TABLE.

mod expression;
mod functions;
mod operand;
mod options;
mod query;
mod tables;
mod types;
mod windows;

use crate::keyword::Keyword;
use crate::lexer::{Kind, Lexer, Settings, Span, Token, resolved};
use crate::tree::{ExprId, List, Literal, LiteralForm, Name, NameId, QueryId, Table, Text, Tree};

use expression::{Entry, Operand};

/// Subqueries and functions with words inside that may stand in each other. MySQL takes 63 subqueries (error 1473) and
/// needs stack for each; a level takes 6 KiB of ours where nothing is optimized, and a test's thread has 2 MiB.
pub const DEPTH_MAX: u32 = 160;

/// Why a text has no tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntaxError {
    /// Offset of the token that cannot stand there.
    pub at: u32,
    /// Nothing is wrong but that more stands in each other than [`DEPTH_MAX`].
    pub too_deep: bool,
}

type Result<T> = std::result::Result<T, SyntaxError>;

/// The tree of a SELECT, TABLE, VALUES or WITH statement, in brackets or not; its query is the tree's last.
///
/// # Errors
/// Where the text is no such statement.
pub fn parse_select(text: &[u8], settings: Settings) -> Result<(Tree, QueryId)> {
    let mut parser = Parser::new(text, settings);
    let query = parser.statement()?;
    Ok((parser.tree, query))
}

/// The tree of an expression.
///
/// # Errors
/// Where the text is not an expression.
pub fn parse_expression(text: &[u8], settings: Settings) -> Result<(Tree, ExprId)> {
    let mut parser = Parser::new(text, settings);
    let expr = parser.expression(0)?;
    if parser.kind() != Kind::End {
        return parser.wrong();
    }
    Ok((parser.tree, expr))
}

/// What the parser stands at, and what it has found.
pub(crate) struct Parser<'a> {
    text: &'a [u8],
    settings: Settings,
    tokens: Vec<Token>,
    at: usize,
    tree: Tree,
    depth: u32,
    /// Operators and brackets whose operands are not all there.
    entries: Vec<Entry>,
    operands: Vec<Operand>,
    /// Aliases of arguments, by their place among the operands.
    aliases: Vec<(usize, Text)>,
    /// Tables of the FROM that is read, which are numbered when all are there.
    tables: Vec<Table>,
    /// Names that the WITH clauses around this place give.
    common: Vec<Text>,
    /// Of the interval that was the last argument of ADDDATE.
    days_unit: Option<Keyword>,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a [u8], settings: Settings) -> Parser<'a> {
        let mut lexer = Lexer::new(text, settings);
        let mut tree = Tree::default();
        let mut tokens = Vec::with_capacity((text.len() / 4).clamp(16, 1 << 16));
        loop {
            let token = lexer.next_token();
            match token.kind {
                Kind::Hint => tree.hints.push(token.span),
                Kind::End | Kind::Wrong(_) => {
                    tokens.push(token);
                    break;
                }
                _ => tokens.push(token),
            }
        }
        Parser { tree, ..Parser::of_tokens(text, settings, tokens) }
    }

    /// Of one statement, whose tokens are known.
    pub(crate) fn of_tokens(text: &'a [u8], settings: Settings, tokens: Vec<Token>) -> Parser<'a> {
        let mut tree = Tree::default();
        // About what a short statement needs; a long one grows.
        let expected = (tokens.len() / 2).min(64);
        tree.exprs.reserve(expected);
        tree.spans.reserve(expected);
        tree.names.reserve(expected / 2);
        tree.text.reserve(8 * expected);
        Parser {
            text,
            settings,
            tokens,
            at: 0,
            tree,
            depth: 0,
            entries: Vec::new(),
            operands: Vec::new(),
            aliases: Vec::new(),
            tables: Vec::new(),
            common: Vec::new(),
            days_unit: None,
        }
    }

    /// The tree, and the tokens that were given.
    pub(crate) fn into_parts(self) -> (Tree, Vec<Token>) {
        (self.tree, self.tokens)
    }

    /// DO and its expressions.
    pub(crate) fn do_list(&mut self) -> Result<()> {
        self.expect(Keyword::Do)?;
        self.items()?;
        if self.kind() == Kind::End { Ok(()) } else { self.wrong() }
    }

    /// A whole statement, with `;` after it or not.
    pub(crate) fn statement(&mut self) -> Result<QueryId> {
        let query = self.query_expression()?;
        if self.eat_byte(b';') && self.kind() == Kind::Byte(0) {
            self.at += 1;
        }
        if self.kind() == Kind::End { Ok(query) } else { self.wrong() }
    }

    fn token_at(&self, ahead: usize) -> Token {
        let end = || Token { kind: Kind::End, keyword: Keyword::NotOne, span: Span::default() };
        self.tokens.get(self.at + ahead).or(self.tokens.last()).copied().unwrap_or_else(end)
    }

    fn token(&self) -> Token {
        self.token_at(0)
    }

    fn kind(&self) -> Kind {
        self.token().kind
    }

    fn keyword(&self) -> Keyword {
        self.token().keyword
    }

    fn keyword_at(&self, ahead: usize) -> Keyword {
        self.token_at(ahead).keyword
    }

    fn is_byte_at(&self, ahead: usize, byte: u8) -> bool {
        self.token_at(ahead).kind == Kind::Byte(byte)
    }

    fn is_byte(&self, byte: u8) -> bool {
        self.is_byte_at(0, byte)
    }

    /// Takes a token; the last one stays.
    fn take(&mut self) -> Token {
        let token = self.token();
        self.at = (self.at + 1).min(self.tokens.len().saturating_sub(1));
        token
    }

    fn start(&self) -> u32 {
        self.token().span.start
    }

    /// End of the last token taken.
    fn end(&self) -> u32 {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |token| token.span.end)
    }

    fn wrong<T>(&self) -> Result<T> {
        Err(SyntaxError { at: self.start(), too_deep: false })
    }

    fn eat(&mut self, keyword: Keyword) -> bool {
        let found = self.keyword() == keyword;
        if found {
            self.take();
        }
        found
    }

    /// Takes both if both are next.
    fn eat_two(&mut self, first: Keyword, second: Keyword) -> bool {
        let found = self.keyword() == first && self.keyword_at(1) == second;
        if found {
            self.take();
            self.take();
        }
        found
    }

    fn eat_any(&mut self, keywords: &[Keyword]) -> Option<Keyword> {
        let keyword = self.keyword();
        keywords.contains(&keyword).then(|| {
            self.take();
            keyword
        })
    }

    fn expect(&mut self, keyword: Keyword) -> Result<()> {
        if self.eat(keyword) { Ok(()) } else { self.wrong() }
    }

    fn expect_any(&mut self, keywords: &[Keyword]) -> Result<Keyword> {
        match self.eat_any(keywords) {
            Some(keyword) => Ok(keyword),
            None => self.wrong(),
        }
    }

    fn eat_byte(&mut self, byte: u8) -> bool {
        let found = self.is_byte(byte);
        if found {
            self.take();
        }
        found
    }

    fn expect_byte(&mut self, byte: u8) -> Result<()> {
        if self.eat_byte(byte) { Ok(()) } else { self.wrong() }
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Parser<'a>) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(SyntaxError { at: self.start(), too_deep: true });
        }
        self.depth += 1;
        let found = inner(self);
        self.depth -= 1;
        found
    }

    /// One or more, with commas between them.
    fn list<T>(&mut self, mut one: impl FnMut(&mut Parser<'a>) -> Result<T>) -> Result<Vec<T>> {
        let mut all = vec![one(self)?];
        while self.eat_byte(b',') {
            all.push(one(self)?);
        }
        Ok(all)
    }

    /// The same in brackets.
    fn bracketed<T>(&mut self, one: impl FnMut(&mut Parser<'a>) -> Result<T>) -> Result<Vec<T>> {
        self.expect_byte(b'(')?;
        let all = self.list(one)?;
        self.expect_byte(b')')?;
        Ok(all)
    }

    /// What a token is without quotes, in the tree.
    fn text_of(&mut self, token: Token) -> Text {
        let raw = token.span.of(self.text);
        match (token.kind, raw.first()) {
            (Kind::Word | Kind::Integer | Kind::Decimal | Kind::Float, _)
            | (Kind::Name, Some(1..=0x21 | 0x23..=0x5f | 0x61..)) => self.tree.push_text(raw),
            _ => {
                let bytes = resolved(raw, self.settings);
                self.tree.push_text(&bytes)
            }
        }
    }

    fn is_ident_at(&self, ahead: usize) -> bool {
        let token = self.token_at(ahead);
        token.kind == Kind::Name || (token.kind == Kind::Word && !token.keyword.is_reserved())
    }

    fn is_ident(&self) -> bool {
        self.is_ident_at(0)
    }

    fn ident(&mut self) -> Result<Text> {
        if !self.is_ident() {
            return self.wrong();
        }
        let token = self.take();
        Ok(self.text_of(token))
    }

    /// A name, or a string in its place.
    fn ident_or_text(&mut self) -> Result<Text> {
        if self.kind() == Kind::Text { self.plain_text() } else { self.ident() }
    }

    fn charset_name(&mut self) -> Result<Text> {
        if self.keyword() == Keyword::Binary {
            let token = self.take();
            return Ok(self.text_of(token));
        }
        self.ident_or_text()
    }

    /// One string without an introducer.
    fn plain_text(&mut self) -> Result<Text> {
        if self.kind() != Kind::Text {
            return self.wrong();
        }
        let token = self.take();
        Ok(self.text_of(token))
    }

    /// A string, or a hexadecimal or bit literal in its place.
    fn text_or_digits(&mut self) -> Result<Literal> {
        let form = match self.kind() {
            Kind::Text => LiteralForm::Text,
            Kind::Hex => LiteralForm::Hex,
            Kind::Bits => LiteralForm::Bits,
            _ => return self.wrong(),
        };
        let token = self.take();
        let text = if form == LiteralForm::Text { self.text_of(token) } else { self.digits_of(token) };
        Ok(Literal { text, form })
    }

    /// Adjacent strings, the first perhaps with an introducer.
    fn text_literal(&mut self) -> Result<Literal> {
        let form = match self.kind() {
            Kind::Text => LiteralForm::Text,
            Kind::NationalText => LiteralForm::National,
            Kind::Introducer if self.token_at(1).kind == Kind::Text => {
                let token = self.take();
                LiteralForm::Introduced(self.introducer_of(token))
            }
            _ => return self.wrong(),
        };
        let text = self.strings();
        Ok(Literal { text, form })
    }

    /// The string here and those that follow it.
    fn strings(&mut self) -> Text {
        let token = self.take();
        let mut text = self.text_of(token);
        while self.kind() == Kind::Text {
            let token = self.take();
            text.len += self.text_of(token).len;
        }
        text
    }

    fn introducer_of(&mut self, token: Token) -> Text {
        let raw = token.span.of(self.text);
        self.tree.push_text(raw.get(1..).unwrap_or_default())
    }

    /// Digits of a hexadecimal or bit literal.
    fn digits_of(&mut self, token: Token) -> Text {
        let raw = token.span.of(self.text);
        let digits = raw.get(2..).unwrap_or_default();
        self.tree.push_text(digits.strip_suffix(b"'").unwrap_or(digits))
    }

    /// A number without a point or an exponent.
    fn integer(&mut self) -> Result<Text> {
        if self.kind() != Kind::Integer {
            return self.wrong();
        }
        let token = self.take();
        Ok(self.text_of(token))
    }

    /// Whether the number that is next is no larger.
    fn is_up_to(&self, most: u64) -> bool {
        let digits = self.token().span.of(self.text);
        let value =
            digits.iter().try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit & 15)));
        value.is_some_and(|value| value <= most)
    }

    /// A name of at most `parts_max` parts.
    fn name(&mut self, parts_max: usize) -> Result<NameId> {
        let first = self.ident()?;
        let mut name = Name { parts: [first; 3], len: 1 };
        while usize::from(name.len) < parts_max && self.is_byte(b'.') && self.is_ident_at(1) {
            self.take();
            let part = self.ident()?;
            if let Some(place) = name.parts.get_mut(usize::from(name.len)) {
                *place = part;
            }
            name.len += 1;
        }
        // Places without a part are the same in every tree.
        for place in name.parts.iter_mut().skip(usize::from(name.len)) {
            *place = Text { start: 0, len: 0 };
        }
        Ok(self.tree.push_name(name))
    }

    /// True if a WITH around this place gives the name. Upper and lower case differ: where they do not at the server,
    /// it is taken for a table.
    fn is_common(&self, name: NameId) -> bool {
        match self.tree.parts(name) {
            [only] => self.common.iter().any(|common| self.tree.bytes(*common) == self.tree.bytes(*only)),
            _ => false,
        }
    }

    fn expression_list(&mut self) -> Result<List> {
        let list = self.list(|parser| parser.expression(0))?;
        Ok(self.tree.push_list(&list))
    }
}

#[cfg(test)]
mod tests;
