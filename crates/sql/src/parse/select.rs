//! SELECT: its list, and the clauses behind.

use catalog::lexer::Tok;

use super::Parser;
use crate::ast::{Expression, Item, Limit, Locking, Select, Statement};
use crate::{Result, column_names};

/// Words between SELECT and its list that change nothing without tables.
const MODIFIERS: &[&str] = &["ALL", "SQL_NO_CACHE", "HIGH_PRIORITY", "STRAIGHT_JOIN", "SQL_SMALL_RESULT"];

/// What may follow the select list and is not answered.
const CLAUSES: &[&str] = &["WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "PROCEDURE"];

/// Words that end an item, so that they are no alias.
const NO_ALIAS: &[&str] =
    &["FROM", "LIMIT", "INTO", "UNION", "EXCEPT", "INTERSECT", "FOR", "LOCK", "WHERE", "GROUP", "HAVING"];

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Result<Statement> {
        self.advance()?;
        while self.is_one_of(MODIFIERS) {
            if self.is("SQL_NO_CACHE") {
                self.notes.add(1681, "'SQL_NO_CACHE' is deprecated and will be removed in a future release.");
            }
            self.advance()?;
        }
        if self.is_one_of(&["DISTINCT", "DISTINCTROW", "SQL_CALC_FOUND_ROWS", "SQL_BIG_RESULT", "SQL_BUFFER_RESULT"]) {
            return Ok(self.refused(format!("SELECT {}", self.word())));
        }
        let items = self.items()?;
        let mut from = None;
        if self.accept("FROM")? && !self.accept("DUAL")? {
            match self.from()? {
                Ok(found) => from = Some(Box::new(found)),
                Err(refused) => return Ok(refused),
            }
        }
        if self.is_one_of(CLAUSES) {
            return Ok(self.refused(format!("SELECT … {}", self.word())));
        }
        let limit = self.limit()?;
        let locking = self.locking()?;
        // INTO may stand behind the locking clauses too.
        if self.is_one_of(&["UNION", "EXCEPT", "INTERSECT", "INTO"]) {
            return Ok(self.refused(format!("SELECT … {}", self.word())));
        }
        Ok(Statement::Select(Select { items, from, limit, locking }))
    }

    fn items(&mut self) -> Result<Vec<Item>> {
        // A star without a table's name stands first only.
        let mut items = vec![self.item()?];
        while self.accept_punct(b',')? {
            if self.is_punct(b'*') {
                return Err(self.syntax());
            }
            items.push(self.item()?);
        }
        Ok(items)
    }

    pub(super) fn do_statement(&mut self) -> Result<Statement> {
        self.advance()?;
        let mut items = vec![self.item()?];
        while self.accept_punct(b',')? {
            items.push(self.item()?);
        }
        Ok(Statement::Do(Select { items, from: None, limit: Limit::none(), locking: Vec::new() }))
    }

    /// `FOR UPDATE|SHARE [OF names] [NOWAIT | SKIP LOCKED]`, once or more, and `LOCK IN SHARE MODE`. Nobody waits here,
    /// so NOWAIT and SKIP LOCKED change nothing.
    fn locking(&mut self) -> Result<Vec<Locking>> {
        let mut all = Vec::new();
        loop {
            if self.accept_all(&["LOCK", "IN", "SHARE", "MODE"])? {
                all.push(Locking { update: false, of: Vec::new() });
                continue;
            }
            if !self.accept("FOR")? {
                return Ok(all);
            }
            let update = self.accept("UPDATE")?;
            if !update {
                self.expect("SHARE")?;
            }
            let mut of = Vec::new();
            if self.accept("OF")? {
                of.push(self.table_name()?);
                while self.accept_punct(b',')? {
                    of.push(self.table_name()?);
                }
            }
            if !self.accept("NOWAIT")? {
                self.accept_all(&["SKIP", "LOCKED"])?;
            }
            all.push(Locking { update, of });
        }
    }

    fn item(&mut self) -> Result<Item> {
        let start = self.current.start;
        self.tokens.forget_left_out();
        let expression = self.expression()?;
        let span = start..self.last_end;
        let shown = self.tokens.without_left_out(&span);
        let alias = if self.accept("AS")? { Some(self.alias()?) } else { self.bare_alias()? };
        if let Some(warning) = alias.as_deref().and_then(column_names::lost_of) {
            self.notes.add(warning.code, &warning.message);
        }
        Ok(Item { expression, alias, span, shown })
    }

    fn alias(&mut self) -> Result<Vec<u8>> {
        self.name_or_text()
    }

    fn bare_alias(&mut self) -> Result<Option<Vec<u8>>> {
        let is_alias = match &self.current.tok {
            Tok::Word(_) => !self.is_one_of(NO_ALIAS) && !self.is_one_of(CLAUSES) && !self.is_reserved(),
            Tok::Quoted(_) | Tok::Str { introducer: None, .. } => true,
            _ => false,
        };
        if is_alias { self.alias().map(Some) } else { Ok(None) }
    }

    /// `LIMIT [offset,] rows` or `LIMIT rows OFFSET offset`, if it is there.
    pub(super) fn limit(&mut self) -> Result<Limit> {
        if !self.accept("LIMIT")? {
            return Ok(Limit::none());
        }
        let first = self.limit_option()?;
        if self.accept_punct(b',')? {
            return Ok(Limit { offset: first, rows: Some(self.limit_option()?) });
        }
        let offset = if self.accept("OFFSET")? { self.limit_option()? } else { Limit::none().offset };
        Ok(Limit { offset, rows: Some(first) })
    }

    fn limit_option(&mut self) -> Result<Expression> {
        match &self.current.tok {
            Tok::Number(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                let number = Expression::Number(digits.clone());
                self.advance()?;
                Ok(number)
            }
            Tok::Punct(b'?') => self.parameter(),
            _ => Err(self.syntax()),
        }
    }
}
