//! Operands: literals, names, variables, brackets, and what begins them.

use super::expression::{Callee, Entry, What, level};
use super::functions::{arity, is_by_name};
use super::{Parser, Result};
use crate::function::Function;
use crate::keyword::Keyword;
use crate::lexer::{Kind, Sign, Token, resolved};
use crate::sql_mode;
use crate::tree::{Detail, Expr, ExprId, Name, Text, Unary};

/// What was found where an operand can begin.
enum Begun {
    /// A bracket, after which an operand follows.
    Open,
    Whole,
    No,
}

impl Parser<'_> {
    /// Reads prefixes and open brackets up to an operand that is whole.
    pub(super) fn operand(&mut self) -> Result<()> {
        loop {
            if let Some((unary, own)) = self.prefix() {
                // NOT is no operand of an operator that binds more tightly; all others are simple expressions.
                if self.top().is_some_and(|top| top.needs > own) {
                    return self.wrong();
                }
                let needs = if unary == Unary::Not { level::NOT } else { level::CONCAT };
                self.push_entry(What::Prefix(unary), own, needs);
                self.take();
                continue;
            }
            match self.opened()? {
                Begun::Open => {}
                Begun::Whole => return Ok(()),
                Begun::No => return self.primary(),
            }
        }
    }

    fn prefix(&self) -> Option<(Unary, u8)> {
        Some(match (self.kind(), self.keyword()) {
            (_, Keyword::Not) if self.settings.has(sql_mode::HIGH_NOT_PRECEDENCE) => (Unary::Bang, level::BANG),
            (_, Keyword::Not) => (Unary::Not, level::NOT),
            (_, Keyword::Binary) => (Unary::Binary, level::COLLATE),
            (Kind::Byte(b'!'), _) => (Unary::Bang, level::BANG),
            (Kind::Byte(b'-'), _) => (Unary::Minus, level::SIGN),
            (Kind::Byte(b'+'), _) => (Unary::Plus, level::SIGN),
            (Kind::Byte(b'~'), _) => (Unary::Invert, level::SIGN),
            _ => return None,
        })
    }

    /// Opens a bracket, CASE, INTERVAL, an assignment or a call, so that an operand follows.
    fn opened(&mut self) -> Result<Begun> {
        let first = self.operands.len();
        match (self.kind(), self.keyword()) {
            (Kind::Byte(b'('), _) if !self.query_begins_at(1) => {
                self.push_entry(What::Bracket { first, word: false }, level::ASSIGN, level::ASSIGN);
                self.take();
            }
            (_, Keyword::Row) if self.is_byte_at(1, b'(') => {
                self.push_entry(What::Bracket { first, word: true }, level::ASSIGN, level::ASSIGN);
                self.take();
                self.take();
            }
            (_, Keyword::Case) => {
                let operand = self.keyword_at(1) != Keyword::When;
                let what = if operand { What::Case { first } } else { What::When { first, operand } };
                self.push_entry(what, level::ASSIGN, level::ASSIGN);
                self.take();
                if !operand {
                    self.take();
                }
            }
            (_, Keyword::Interval) => {
                self.push_entry(What::Interval, level::ASSIGN, level::ASSIGN);
                self.take();
                if self.is_byte(b'(') && !self.query_begins_at(1) {
                    self.push_entry(What::IntervalBracket { first }, level::ASSIGN, level::ASSIGN);
                    self.take();
                }
            }
            (Kind::UserVariable, _) if self.token_at(1).kind == Kind::Sign(Sign::Assign) => {
                let start = self.start();
                let token = self.take();
                let variable = self.text_of(token);
                self.take();
                let what = What::Assign(variable);
                self.entries.push(Entry { what, level: level::ASSIGN, needs: level::ASSIGN, start });
            }
            _ => return self.call_opened(),
        }
        Ok(Begun::Open)
    }

    fn primary(&mut self) -> Result<()> {
        let start = self.start();
        let token = self.token();
        let expr = match token.kind {
            Kind::Integer | Kind::Decimal | Kind::Float => {
                self.take();
                Expr::Number(self.text_of(token))
            }
            Kind::Text => Expr::String { text: self.strings(), introducer: None, national: false },
            Kind::NationalText => Expr::String { text: self.strings(), introducer: None, national: true },
            Kind::Hex | Kind::Bits => {
                self.take();
                Expr::Digits { digits: self.digits_of(token), bits: token.kind == Kind::Bits, introducer: None }
            }
            Kind::Introducer => self.introduced()?,
            Kind::UserVariable => {
                self.take();
                Expr::UserVariable(self.text_of(token))
            }
            Kind::System => self.system_variable()?,
            Kind::Byte(b'?') => {
                self.take();
                self.tree.parameters += 1;
                Expr::Parameter(self.tree.parameters - 1)
            }
            Kind::Byte(b'(') => {
                self.take();
                let query = self.query_expression_inside()?;
                self.expect_byte(b')')?;
                Expr::Subquery(query)
            }
            Kind::Byte(b'{') => {
                self.take();
                let name = self.ident()?;
                let value = self.expression(level::ASSIGN)?;
                self.expect_byte(b'}')?;
                Expr::Odbc { name, value }
            }
            Kind::Word => self.word_operand(token)?,
            Kind::Name => self.column()?,
            _ => return self.wrong(),
        };
        self.push_operand(expr, level::PRIMARY, start);
        Ok(())
    }

    fn word_operand(&mut self, token: Token) -> Result<Expr> {
        let constant = match token.keyword {
            Keyword::Null => Expr::Null,
            Keyword::True => Expr::Bool(true),
            Keyword::False => Expr::Bool(false),
            Keyword::Exists => {
                self.take();
                return Ok(Expr::Exists(self.subquery()?));
            }
            Keyword::Date | Keyword::Time | Keyword::Timestamp if self.token_at(1).kind == Kind::Text => {
                self.take();
                let text = self.plain_text()?;
                return Ok(Expr::Temporal { kind: token.keyword, text });
            }
            Keyword::Default => {
                self.take();
                self.expect_byte(b'(')?;
                let name = self.name(3)?;
                self.expect_byte(b')')?;
                return Ok(Expr::DefaultOf(name));
            }
            Keyword::Values => {
                self.take();
                self.expect_byte(b'(')?;
                let name = self.name(3)?;
                self.expect_byte(b')')?;
                return Ok(Expr::ValuesOf(name));
            }
            _ => match self.special_function(token)? {
                Some(expr) => return Ok(expr),
                None => return self.column(),
            },
        };
        self.take();
        Ok(constant)
    }

    fn introduced(&mut self) -> Result<Expr> {
        let token = self.take();
        let introducer = Some(self.introducer_of(token));
        let literal = self.token();
        match literal.kind {
            Kind::Text => Ok(Expr::String { text: self.strings(), introducer, national: false }),
            Kind::Hex | Kind::Bits => {
                self.take();
                let digits = self.digits_of(literal);
                Ok(Expr::Digits { digits, bits: literal.kind == Kind::Bits, introducer })
            }
            _ => self.wrong(),
        }
    }

    /// `@@name`, `@@global.name`, `@@cache.name`.
    fn system_variable(&mut self) -> Result<Expr> {
        self.take();
        let is_scope = matches!(
            self.keyword(),
            Keyword::Global | Keyword::Session | Keyword::Local | Keyword::Persist | Keyword::PersistOnly
        );
        // A word before a dot is lexed as a name.
        let named = |parser: &Self| Keyword::of(parser.token().span.of(parser.text));
        let scope = match named(self) {
            scope @ (Keyword::Global | Keyword::Session | Keyword::Local | Keyword::Persist | Keyword::PersistOnly)
                if self.is_byte_at(1, b'.') =>
            {
                self.take();
                self.take();
                Some(scope)
            }
            _ if is_scope => return self.wrong(),
            _ => None,
        };
        let name = self.name(2)?;
        if self.is_byte(b'.') { self.wrong() } else { Ok(Expr::SystemVariable { scope, name }) }
    }

    fn column(&mut self) -> Result<Expr> {
        let column = self.name(3)?;
        if let Kind::Sign(arrow @ (Sign::Arrow | Sign::DoubleArrow)) = self.kind() {
            self.take();
            let path = self.plain_text()?;
            return Ok(Expr::Path { column, path, unquote: arrow == Sign::DoubleArrow });
        }
        Ok(Expr::Column(column))
    }

    /// Opens the brackets of a function whose arguments are expressions with commas between them.
    fn call_opened(&mut self) -> Result<Begun> {
        let token = self.token();
        let start = self.start();
        if !matches!(token.kind, Kind::Word | Kind::Name) {
            return Ok(Begun::No);
        }
        let callee = if self.is_byte_at(1, b'(') {
            let Some(callee) = self.callee(token) else { return Ok(Begun::No) };
            self.take();
            callee
        } else if self.is_ident() && self.is_byte_at(1, b'.') && self.is_ident_at(2) && self.is_byte_at(3, b'(') {
            // A stored function of a schema.
            Callee::Name(self.name(2)?)
        } else {
            return Ok(Begun::No);
        };
        self.expect_byte(b'(')?;
        let first = self.operands.len();
        if self.eat_byte(b')') {
            self.call_ends(first, callee, start)?;
            return Ok(Begun::Whole);
        }
        let what = What::Call { first, callee };
        self.entries.push(Entry { what, level: level::ASSIGN, needs: level::ASSIGN, start });
        Ok(Begun::Open)
    }

    /// The callee that the name before a bracket gives; None for a function with words in its brackets.
    fn callee(&mut self, token: Token) -> Option<Callee> {
        let raw = token.span.of(self.text);
        if matches!(raw.first(), Some(b'`' | b'"')) {
            let function = Function::of(&resolved(raw, self.settings)).filter(|function| is_by_name(*function));
            return Some(function.map_or_else(|| self.named_callee(token), Callee::Function));
        }
        let function = Function::of(raw);
        if token.kind == Kind::Word && token.keyword != Keyword::NotOne {
            return function.filter(|function| arity(*function).is_some()).map(Callee::Function);
        }
        match function {
            Some(function) if is_by_name(function) => Some(Callee::Function(function)),
            Some(function) if self.is_adjacent(token) => {
                arity(function).is_some().then_some(Callee::Function(function))
            }
            _ => Some(self.named_callee(token)),
        }
    }

    /// True if the bracket follows the name directly, or need not.
    pub(super) fn is_adjacent(&self, token: Token) -> bool {
        self.settings.has(sql_mode::IGNORE_SPACE) || token.span.end == self.token_at(1).span.start
    }

    fn named_callee(&mut self, token: Token) -> Callee {
        let first = self.text_of(token);
        let none = Text { start: 0, len: 0 };
        Callee::Name(self.tree.push_name(Name { parts: [first, none, none], len: 1 }))
    }

    /// A call is whole: its arguments are the operands from `first` on.
    pub(super) fn call_ends(&mut self, first: usize, callee: Callee, start: u32) -> Result<()> {
        let count = self.operands.len() - first;
        if let Callee::Function(function) = callee
            && let Some((least, most)) = arity(function)
            && !(least..=most).contains(&count)
        {
            return self.wrong();
        }
        let mut aliases = vec![None; count];
        while let Some((place, alias)) = self.aliases.pop_if(|(place, _)| *place >= first) {
            if let Some(free) = aliases.get_mut(place - first) {
                *free = Some(alias);
            }
        }
        let detail = aliases.iter().any(Option::is_some).then_some(Detail::Aliases(aliases));
        let detail = detail.map(|detail| self.tree.push_detail(detail));
        let list: Vec<ExprId> = self.operands.drain(first..).map(|operand| operand.id).collect();
        let arguments = self.tree.push_list(&list);
        let expr = match callee {
            Callee::Function(function) => Expr::Call { function, arguments, detail },
            Callee::Name(name) => Expr::CallByName { name, arguments, detail },
        };
        self.push_operand(expr, level::PRIMARY, start);
        Ok(())
    }

    /// Only functions that the grammar does not name take aliases of arguments.
    pub(super) fn takes_aliases(&self, callee: Callee) -> bool {
        match callee {
            Callee::Function(function) => arity(function).is_none(),
            Callee::Name(name) => self.tree.parts(name).len() == 1,
        }
    }

    pub(super) fn argument_alias(&mut self) -> Result<Option<Text>> {
        if self.eat(Keyword::As) || self.is_ident() || self.kind() == Kind::Text {
            return self.ident_or_text().map(Some);
        }
        Ok(None)
    }
}
