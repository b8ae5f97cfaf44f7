//! Expressions: operators by their precedence, on two stacks: entries and operands.
//!
//! The grammar has layers (an expression, a condition, a predicate, a term of bits and numbers, a simple one), and an
//! operator takes operands of certain layers only: `a LIKE b + c` is wrong, `a + b LIKE c` is not. Each operand has its
//! layer as a number of [`level`], each entry what it needs to its right.

use super::{Parser, Result};
use crate::keyword::Keyword;
use crate::lexer::{Kind, Sign, Span};
use crate::sql_mode;
use crate::tree::{Binary, Expr, ExprId, NameId, Test, Text, Unary};

/// How tightly operators bind, the manual's "Operator Precedence" from the loosest on.
pub(super) mod level {
    pub(in crate::parser) const ASSIGN: u8 = 0;
    pub(in crate::parser) const OR: u8 = 1;
    pub(in crate::parser) const XOR: u8 = 2;
    pub(in crate::parser) const AND: u8 = 3;
    pub(in crate::parser) const NOT: u8 = 4;
    /// Comparisons and IS NULL.
    pub(in crate::parser) const COMPARE: u8 = 5;
    /// IN, LIKE, BETWEEN, REGEXP, SOUNDS LIKE, MEMBER OF.
    pub(in crate::parser) const PREDICATE: u8 = 6;
    pub(in crate::parser) const BIT_OR: u8 = 7;
    pub(in crate::parser) const BIT_AND: u8 = 8;
    pub(in crate::parser) const SHIFT: u8 = 9;
    pub(in crate::parser) const ADD: u8 = 10;
    pub(in crate::parser) const MULTIPLY: u8 = 11;
    pub(in crate::parser) const BIT_XOR: u8 = 12;
    /// From here on: a simple expression.
    pub(in crate::parser) const CONCAT: u8 = 13;
    pub(in crate::parser) const SIGN: u8 = 14;
    pub(in crate::parser) const BANG: u8 = 15;
    pub(in crate::parser) const COLLATE: u8 = 16;
    pub(in crate::parser) const PRIMARY: u8 = 17;
}

/// An operand that is there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operand {
    pub(super) id: ExprId,
    pub(super) level: u8,
    /// Where it begins, brackets included.
    pub(super) start: u32,
}

/// An operator or a bracket whose right side is not there yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(super) what: What,
    /// An operator to the right that binds no more tightly ends the right side.
    pub(super) level: u8,
    /// The least layer of the right side.
    pub(super) needs: u8,
    pub(super) start: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Prefix(Unary),
    Binary(Binary),
    Assign(Text),
    Regexp {
        negated: bool,
    },
    SoundsLike,
    Like {
        negated: bool,
    },
    LikeEscape {
        negated: bool,
    },
    BetweenHigh {
        negated: bool,
    },
    /// `INTERVAL amount unit +`.
    IntervalPlus(Keyword),
    /// From here on: what only its own end ends.
    Base,
    /// The same, of days or an interval of ADDDATE.
    Days,
    BetweenLow {
        negated: bool,
    },
    Member,
    Bracket {
        first: usize,
        word: bool,
    },
    In {
        first: usize,
        negated: bool,
    },
    Call {
        first: usize,
        callee: Callee,
    },
    /// INTERVAL, until its unit.
    Interval,
    /// A bracket after INTERVAL: of its amount, or of the function of that name.
    IntervalBracket {
        first: usize,
    },
    /// CASE, before the first WHEN.
    Case {
        first: usize,
    },
    When {
        first: usize,
        operand: bool,
    },
    Then {
        first: usize,
        operand: bool,
    },
    Else {
        first: usize,
        operand: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callee {
    Function(crate::function::Function),
    Name(NameId),
}

impl What {
    fn is_operator(self) -> bool {
        matches!(
            self,
            What::Prefix(_)
                | What::Binary(_)
                | What::Assign(_)
                | What::Regexp { .. }
                | What::SoundsLike
                | What::Like { .. }
                | What::LikeEscape { .. }
                | What::BetweenHigh { .. }
                | What::IntervalPlus(_)
        )
    }
}

/// What follows an operand.
enum Next {
    Operand,
    /// Another thing that may follow an operand.
    Again,
    /// Nothing of this expression.
    Done,
}

impl Parser<'_> {
    /// An expression whose layer is at least `needs`, up to the first token that is no part of it.
    pub(super) fn expression(&mut self, needs: u8) -> Result<ExprId> {
        self.expression_after(What::Base, needs)
    }

    /// What follows the comma of ADDDATE: an amount with its unit, or days without one.
    pub(super) fn days_or_interval(&mut self) -> Result<(ExprId, Option<Keyword>)> {
        let days = self.expression_after(What::Days, level::ASSIGN)?;
        Ok((days, self.days_unit.take()))
    }

    fn expression_after(&mut self, base: What, needs: u8) -> Result<ExprId> {
        self.deeper(|parser| {
            let floor = parser.operands.len();
            parser.push_entry(base, level::ASSIGN, needs);
            loop {
                parser.operand()?;
                loop {
                    match parser.after_operand()? {
                        Next::Operand => break,
                        Next::Again => {}
                        Next::Done => {
                            parser.entries.pop();
                            let found = parser.operands.pop();
                            debug_assert_eq!(parser.operands.len(), floor);
                            return found.map_or_else(|| parser.wrong(), |operand| Ok(operand.id));
                        }
                    }
                }
            }
        })
    }

    pub(super) fn push_entry(&mut self, what: What, level: u8, needs: u8) {
        let start = self.start();
        self.entries.push(Entry { what, level, needs, start });
    }

    pub(super) fn top(&self) -> Option<Entry> {
        self.entries.last().copied()
    }

    /// Adds an operand that ends with the last token taken.
    pub(super) fn push_operand(&mut self, expr: Expr, level: u8, start: u32) {
        let id = self.tree.push(expr, Span { start, end: self.end() });
        self.operands.push(Operand { id, level, start });
    }

    pub(super) fn pop_operand(&mut self) -> Result<Operand> {
        self.operands.pop().map_or_else(|| self.wrong(), Ok)
    }

    /// Ends the right sides that an operator of this level ends. False if what remains cannot have that operator.
    fn close(&mut self, level: u8) -> Result<bool> {
        while let Some(top) = self.top() {
            if !top.what.is_operator() {
                return Ok(top.needs <= level);
            }
            if top.level < level && top.needs <= level {
                return Ok(true);
            }
            self.reduce(top)?;
        }
        Ok(true)
    }

    /// Puts the operator on top together with its operands.
    fn reduce(&mut self, entry: Entry) -> Result<()> {
        self.entries.pop();
        let right = self.pop_operand()?;
        let prefix = |parser: &mut Self, expr, level| parser.push_operand(expr, level, entry.start);
        match entry.what {
            What::Prefix(unary) => {
                let own = match unary {
                    Unary::Not => level::NOT,
                    Unary::Bang => level::BANG,
                    Unary::Binary => level::COLLATE,
                    Unary::Minus | Unary::Plus | Unary::Invert => level::SIGN,
                };
                prefix(self, Expr::Unary(unary, right.id), own);
                return Ok(());
            }
            What::Assign(variable) => {
                prefix(self, Expr::Assign { variable, value: right.id }, level::PRIMARY);
                return Ok(());
            }
            What::IntervalPlus(unit) => {
                let amount = self.pop_operand()?;
                let (value, amount) = (right.id, amount.id);
                let expr = Expr::Interval { value, amount, unit, minus: false, before: true };
                prefix(self, expr, level::PRIMARY);
                return Ok(());
            }
            _ => {}
        }
        let left = self.pop_operand()?;
        let (value, pattern) = (left.id, right.id);
        let (expr, own, start) = match entry.what {
            What::Binary(operator) => (Expr::Binary(operator, value, pattern), entry.level, left.start),
            What::Regexp { negated } => (Expr::Regexp { value, pattern, negated }, level::PREDICATE, left.start),
            What::SoundsLike => (Expr::SoundsLike(value, pattern), level::PREDICATE, left.start),
            What::Like { negated } => {
                (Expr::Like { value, pattern, escape: None, negated }, level::PREDICATE, left.start)
            }
            What::LikeEscape { negated } => {
                let first = self.pop_operand()?;
                let expr = Expr::Like { value: first.id, pattern: value, escape: Some(pattern), negated };
                (expr, level::PREDICATE, first.start)
            }
            What::BetweenHigh { negated } => {
                let first = self.pop_operand()?;
                let expr = Expr::Between { value: first.id, low: value, high: pattern, negated };
                (expr, level::PREDICATE, first.start)
            }
            _ => return self.wrong(),
        };
        self.push_operand(expr, own, start);
        Ok(())
    }

    fn after_operand(&mut self) -> Result<Next> {
        if let Some((operator, level)) = self.infix() {
            return self.binary(operator, level);
        }
        match self.keyword() {
            Keyword::Is => self.is_test(),
            Keyword::Not
                if matches!(
                    self.keyword_at(1),
                    Keyword::In | Keyword::Like | Keyword::Between | Keyword::Regexp | Keyword::Rlike
                ) =>
            {
                self.predicate(true)
            }
            Keyword::In | Keyword::Like | Keyword::Between | Keyword::Regexp | Keyword::Rlike => self.predicate(false),
            Keyword::Sounds | Keyword::Member => self.predicate(false),
            Keyword::Collate => {
                if !self.left_of(level::COLLATE, level::CONCAT)? {
                    return self.delimiter();
                }
                self.take();
                let left = self.pop_operand()?;
                let collation = self.ident_or_text()?;
                self.push_operand(Expr::Collate { value: left.id, collation }, level::COLLATE, left.start);
                Ok(Next::Again)
            }
            Keyword::Escape => self.escape(),
            _ => self.delimiter(),
        }
    }

    /// ESCAPE, of the nearest LIKE whose pattern ends here; elsewhere the word is a name.
    fn escape(&mut self) -> Result<Next> {
        loop {
            self.close(level::CONCAT)?;
            let Some(top) = self.top() else { return self.wrong() };
            if let What::Like { negated } = top.what {
                self.take();
                self.entries.pop();
                let what = What::LikeEscape { negated };
                self.entries.push(Entry { what, level: level::PREDICATE, needs: level::CONCAT, start: top.start });
                return Ok(Next::Operand);
            }
            let mut operators = self.entries.iter().rev().take_while(|entry| entry.what.is_operator());
            if !operators.any(|entry| matches!(entry.what, What::Like { .. })) {
                return self.delimiter();
            }
            // The pattern is an assignment, whose right side ends as well.
            self.reduce(top)?;
        }
    }

    /// The binary operator that is next, without NOT before it.
    fn infix(&self) -> Option<(Binary, u8)> {
        Some(match self.kind() {
            Kind::Sign(sign) => match sign {
                Sign::LessOrEqual => (Binary::LessOrEqual, level::COMPARE),
                Sign::GreaterOrEqual => (Binary::GreaterOrEqual, level::COMPARE),
                Sign::NotEqual => (Binary::NotEqual, level::COMPARE),
                Sign::NullSafeEqual => (Binary::NullSafeEqual, level::COMPARE),
                Sign::ShiftLeft => (Binary::ShiftLeft, level::SHIFT),
                Sign::ShiftRight => (Binary::ShiftRight, level::SHIFT),
                Sign::And => (Binary::And, level::AND),
                Sign::Pipes if self.settings.has(sql_mode::PIPES_AS_CONCAT) => (Binary::Concat, level::CONCAT),
                Sign::Pipes => (Binary::Or, level::OR),
                Sign::Assign | Sign::Arrow | Sign::DoubleArrow => return None,
            },
            Kind::Byte(byte) => match byte {
                b'=' => (Binary::Equal, level::COMPARE),
                b'<' => (Binary::Less, level::COMPARE),
                b'>' => (Binary::Greater, level::COMPARE),
                b'|' => (Binary::BitOr, level::BIT_OR),
                b'&' => (Binary::BitAnd, level::BIT_AND),
                b'+' => (Binary::Add, level::ADD),
                b'-' => (Binary::Subtract, level::ADD),
                b'*' => (Binary::Multiply, level::MULTIPLY),
                b'/' => (Binary::Divide, level::MULTIPLY),
                b'%' => (Binary::Modulo, level::MULTIPLY),
                b'^' => (Binary::BitXor, level::BIT_XOR),
                _ => return None,
            },
            Kind::Word => match self.keyword() {
                Keyword::Or => (Binary::Or, level::OR),
                Keyword::Xor => (Binary::Xor, level::XOR),
                Keyword::And => (Binary::And, level::AND),
                Keyword::Div => (Binary::IntegerDivide, level::MULTIPLY),
                Keyword::Mod => (Binary::Modulo, level::MULTIPLY),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Whether an operator of this level may follow the operand, which is of at least the layer `least`. False: it
    /// belongs to the text around the expression.
    fn left_of(&mut self, level: u8, least: u8) -> Result<bool> {
        loop {
            if !self.close(level)? {
                return match self.top() {
                    Some(Entry { what: What::Base | What::Days, .. }) => Ok(false),
                    _ => self.wrong(),
                };
            }
            if self.operands.last().is_some_and(|operand| operand.level >= least) {
                return Ok(true);
            }
            // These end where their right side cannot go on, and are simple expressions then.
            let is_such = |entry: &Entry| matches!(entry.what, What::Assign(_) | What::IntervalPlus(_));
            let mut operators = self.entries.iter().rev().take_while(|entry| entry.what.is_operator());
            match self.top() {
                Some(top) if operators.any(is_such) => self.reduce(top)?,
                _ => return self.wrong(),
            }
        }
    }

    fn binary(&mut self, operator: Binary, level: u8) -> Result<Next> {
        if self.keyword() == Keyword::And {
            self.close(level)?;
            if let Some(Entry { what: What::BetweenLow { negated }, start, .. }) = self.top() {
                self.take();
                self.entries.pop();
                // A predicate may be the upper bound, so it does not end there.
                let what = What::BetweenHigh { negated };
                self.entries.push(Entry { what, level: level::COMPARE, needs: level::PREDICATE, start });
                return Ok(Next::Operand);
            }
        }
        if !self.left_of(level, level)? {
            return self.delimiter();
        }
        self.take();
        if level == level::COMPARE && operator != Binary::NullSafeEqual {
            let all = match self.keyword() {
                Keyword::All => Some(true),
                Keyword::Any | Keyword::Some if self.is_byte_at(1, b'(') => Some(false),
                _ => None,
            };
            if let Some(all) = all {
                self.take();
                let query = self.subquery()?;
                let left = self.pop_operand()?;
                let expr = Expr::Quantified { operator, value: left.id, query, all };
                self.push_operand(expr, level::COMPARE, left.start);
                return Ok(Next::Again);
            }
        }
        self.push_entry(What::Binary(operator), level, level + 1);
        Ok(Next::Operand)
    }

    fn is_test(&mut self) -> Result<Next> {
        if !self.left_of(level::COMPARE, level::COMPARE)? {
            return self.delimiter();
        }
        self.take();
        let negated = self.eat(Keyword::Not);
        let test = match self.keyword() {
            Keyword::Null => Test::Null,
            Keyword::True => Test::True,
            Keyword::False => Test::False,
            Keyword::Unknown => Test::Unknown,
            _ => return self.wrong(),
        };
        self.take();
        let left = self.pop_operand()?;
        // `a IS TRUE` is no operand of a comparison, `a IS NULL` is one.
        let own = if test == Test::Null { level::COMPARE } else { level::NOT };
        self.push_operand(Expr::Is { value: left.id, test, negated }, own, left.start);
        Ok(Next::Again)
    }

    fn predicate(&mut self, negated: bool) -> Result<Next> {
        if !self.left_of(level::PREDICATE, level::BIT_OR)? {
            return self.delimiter();
        }
        if negated {
            self.take();
        }
        let word = self.take().keyword;
        let (what, needs) = match word {
            Keyword::In => return self.in_list(negated),
            Keyword::Like => (What::Like { negated }, level::CONCAT),
            Keyword::Between => {
                self.push_entry(What::BetweenLow { negated }, level::ASSIGN, level::BIT_OR);
                return Ok(Next::Operand);
            }
            Keyword::Sounds => {
                self.expect(Keyword::Like)?;
                (What::SoundsLike, level::BIT_OR)
            }
            Keyword::Member => {
                self.eat(Keyword::Of);
                self.expect_byte(b'(')?;
                self.push_entry(What::Member, level::ASSIGN, level::CONCAT);
                return Ok(Next::Operand);
            }
            _ => (What::Regexp { negated }, level::BIT_OR),
        };
        self.push_entry(what, level::PREDICATE, needs);
        Ok(Next::Operand)
    }

    fn in_list(&mut self, negated: bool) -> Result<Next> {
        self.expect_byte(b'(')?;
        if self.query_begins_at(0) {
            let query = self.query_expression_inside()?;
            self.expect_byte(b')')?;
            let left = self.pop_operand()?;
            self.push_operand(Expr::InQuery { value: left.id, query, negated }, level::PREDICATE, left.start);
            return Ok(Next::Again);
        }
        let first = self.operands.len();
        self.push_entry(What::In { first, negated }, level::ASSIGN, level::ASSIGN);
        Ok(Next::Operand)
    }

    /// Any token but an operator ends a bracket, or the expression.
    fn delimiter(&mut self) -> Result<Next> {
        self.close(level::ASSIGN)?;
        let Some(top) = self.top() else { return self.wrong() };
        match top.what {
            What::Base | What::Days => Ok(Next::Done),
            What::Bracket { first, .. } | What::In { first, .. } => self.bracket_goes_on(top, first),
            What::Call { first, callee } => self.call_goes_on(top, first, callee),
            What::Member => {
                self.expect_byte(b')')?;
                self.entries.pop();
                let (right, left) = (self.pop_operand()?, self.pop_operand()?);
                self.push_operand(Expr::MemberOf(left.id, right.id), level::PREDICATE, left.start);
                Ok(Next::Again)
            }
            What::IntervalBracket { first } => self.interval_bracket_goes_on(top, first),
            What::Interval => self.interval_ends(top),
            What::Case { first } => self.case_goes_on(top, first, true),
            What::When { first, operand } | What::Then { first, operand } | What::Else { first, operand } => {
                self.case_goes_on(top, first, operand)
            }
            _ => self.wrong(),
        }
    }

    fn bracket_goes_on(&mut self, top: Entry, first: usize) -> Result<Next> {
        if self.eat_byte(b',') {
            return Ok(Next::Operand);
        }
        if self.query_goes_on()
            && self.operands.len() == first + 1
            && let Some(query) = self.take_subquery(top)
        {
            let query = self.query_rest(query)?;
            let start = self.start();
            self.push_operand(Expr::Subquery(query), level::PRIMARY, start);
            if !self.is_byte(b')') {
                return self.wrong();
            }
        }
        self.expect_byte(b')')?;
        match top.what {
            What::In { negated, .. } => self.in_ends(first, negated, top)?,
            What::Bracket { word, .. } => self.bracket_ends(first, word, top)?,
            _ => return self.wrong(),
        }
        Ok(Next::Again)
    }

    /// The query that is the last operand, of which nothing is left in the tree.
    fn take_subquery(&mut self, top: Entry) -> Option<crate::tree::QueryId> {
        if matches!(top.what, What::Bracket { word: true, .. }) {
            return None;
        }
        let operand = *self.operands.last()?;
        let Expr::Subquery(query) = self.tree.expr(operand.id) else { return None };
        if operand.id.index() + 1 != self.tree.exprs.len() {
            return None;
        }
        self.tree.exprs.pop();
        self.tree.spans.pop();
        self.operands.pop();
        Some(query)
    }

    fn in_ends(&mut self, first: usize, negated: bool, top: Entry) -> Result<()> {
        let query = if self.operands.len() == first + 1 { self.take_subquery(top) } else { None };
        self.entries.pop();
        let list: Vec<ExprId> = self.operands.drain(first..).map(|operand| operand.id).collect();
        let left = self.pop_operand()?;
        let expr = match query {
            Some(query) => Expr::InQuery { value: left.id, query, negated },
            None => Expr::In { value: left.id, list: self.tree.push_list(&list), negated },
        };
        self.push_operand(expr, level::PREDICATE, left.start);
        Ok(())
    }

    fn bracket_ends(&mut self, first: usize, word: bool, top: Entry) -> Result<()> {
        self.entries.pop();
        let many = self.operands.len() > first + 1;
        if !many {
            let Some(operand) = self.operands.last_mut().filter(|_| !word) else { return self.wrong() };
            *operand = Operand { id: operand.id, level: level::PRIMARY, start: top.start };
            return Ok(());
        }
        let list: Vec<ExprId> = self.operands.drain(first..).map(|operand| operand.id).collect();
        let list = self.tree.push_list(&list);
        self.push_operand(Expr::Row { list, word }, level::PRIMARY, top.start);
        Ok(())
    }

    fn interval_bracket_goes_on(&mut self, top: Entry, first: usize) -> Result<Next> {
        if self.is_byte(b',') {
            // It is the function: the entry of INTERVAL below goes.
            self.take();
            self.entries.pop();
            let below = self.entries.pop();
            let start = below.map_or(top.start, |below| below.start);
            let callee = Callee::Function(crate::function::Function::Interval);
            let what = What::Call { first, callee };
            self.entries.push(Entry { what, level: level::ASSIGN, needs: level::ASSIGN, start });
            return Ok(Next::Operand);
        }
        let bracket = Entry { what: What::Bracket { first, word: false }, ..top };
        self.bracket_goes_on(bracket, first)
    }

    /// After the amount: its unit, and `+` unless the interval itself stands after a sign.
    fn interval_ends(&mut self, top: Entry) -> Result<Next> {
        let Some(unit) = self.unit(true) else { return self.wrong() };
        self.entries.pop();
        if self.is_byte(b')') && matches!(self.top(), Some(Entry { what: What::Days, .. })) {
            self.days_unit = Some(unit);
            return Ok(Next::Again);
        }
        if let Some(Entry { what: What::Binary(sign @ (Binary::Add | Binary::Subtract)), .. }) = self.top() {
            self.entries.pop();
            let (amount, value) = (self.pop_operand()?, self.pop_operand()?);
            let minus = sign == Binary::Subtract;
            let expr = Expr::Interval { value: value.id, amount: amount.id, unit, minus, before: false };
            // The unit ends it, so that `a + INTERVAL 1 DAY * 2` multiplies the sum.
            self.push_operand(expr, level::BIT_XOR, value.start);
            return Ok(Next::Again);
        }
        self.expect_byte(b'+')?;
        let what = What::IntervalPlus(unit);
        self.entries.push(Entry { what, level: level::AND, needs: level::NOT, start: top.start });
        Ok(Next::Operand)
    }

    fn case_goes_on(&mut self, top: Entry, first: usize, operand: bool) -> Result<Next> {
        let before = |what: What| matches!(what, What::Case { .. } | What::Then { .. });
        let next = match self.keyword() {
            Keyword::When if before(top.what) => What::When { first, operand },
            Keyword::Then if matches!(top.what, What::When { .. }) => What::Then { first, operand },
            Keyword::Else if matches!(top.what, What::Then { .. }) => What::Else { first, operand },
            Keyword::End if matches!(top.what, What::Then { .. } | What::Else { .. }) => {
                self.take();
                self.entries.pop();
                let mut all: Vec<ExprId> = self.operands.drain(first..).map(|operand| operand.id).collect();
                let otherwise = if matches!(top.what, What::Else { .. }) { all.pop() } else { None };
                let (value, pairs) = if operand { (all.first().copied(), all.get(1..)) } else { (None, all.get(..)) };
                let pairs = self.tree.push_list(pairs.unwrap_or_default());
                let expr = Expr::Case { operand: value, pairs, otherwise };
                self.push_operand(expr, level::PRIMARY, top.start);
                return Ok(Next::Again);
            }
            _ => return self.wrong(),
        };
        self.take();
        self.entries.pop();
        self.entries.push(Entry { what: next, ..top });
        Ok(Next::Operand)
    }

    fn call_goes_on(&mut self, top: Entry, first: usize, callee: Callee) -> Result<Next> {
        if self.takes_aliases(callee)
            && let Some(alias) = self.argument_alias()?
        {
            self.aliases.push((self.operands.len() - 1, alias));
            if !self.is_byte(b',') && !self.is_byte(b')') {
                return self.wrong();
            }
        }
        if self.eat_byte(b',') {
            return Ok(Next::Operand);
        }
        self.expect_byte(b')')?;
        self.entries.pop();
        self.call_ends(first, callee, top.start)?;
        Ok(Next::Again)
    }
}
