//! Queries: SELECT, TABLE, VALUES, set operations, WITH, brackets.

use super::expression::level;
use super::{Parser, Result};
use crate::keyword::Keyword;
use crate::lexer::{Kind, Span};
use crate::tree::{Body, CommonTable, Expr, From, GroupItem, Grouping, Item, List, Query, QueryId, Select, With};

/// A query that is read: `Fresh` can still get clauses of its own, `Done` is in brackets or has them.
enum Part {
    Fresh(Body),
    Done(QueryId),
}

fn bare(body: Body) -> Query {
    Query { with: None, body, order: Vec::new(), limit: None, locking: Vec::new(), into: None, into_first: false }
}

impl Parser<'_> {
    /// True if a query begins there, without brackets around it.
    pub(super) fn query_begins_at(&self, ahead: usize) -> bool {
        match self.keyword_at(ahead) {
            Keyword::Select | Keyword::With | Keyword::Table => true,
            Keyword::Values => self.keyword_at(ahead + 1) == Keyword::Row,
            _ => false,
        }
    }

    /// True if the next token belongs to a query that was read in brackets.
    pub(super) fn query_goes_on(&self) -> bool {
        use Keyword as K;
        matches!(self.keyword(), K::Union | K::Except | K::Intersect | K::Order | K::Limit | K::For | K::Lock)
    }

    /// A query that is a whole statement: its INTO may be at its end.
    pub(super) fn query_expression(&mut self) -> Result<QueryId> {
        self.deeper(|parser| {
            if parser.is_byte(b'(') {
                let inner = parser.bracketed_query()?;
                if parser.tree.query(inner).into.is_some() {
                    return Ok(inner);
                }
                return parser.query_tail(None, Part::Done(inner));
            }
            parser.query_without_bracket()
        })
    }

    /// A query inside of an expression or of FROM, its bracket taken.
    pub(super) fn query_expression_inside(&mut self) -> Result<QueryId> {
        let query = self.query_expression()?;
        self.no_into(query)
    }

    /// INTO after a query is the statement's.
    fn no_into(&self, query: QueryId) -> Result<QueryId> {
        if self.tree.query(query).into.is_some() { self.wrong() } else { Ok(query) }
    }

    /// A query in brackets.
    pub(super) fn subquery(&mut self) -> Result<QueryId> {
        let query = self.deeper(Parser::bracketed_query)?;
        self.no_into(query)
    }

    /// Any number of brackets around a query, without recursion.
    fn bracketed_query(&mut self) -> Result<QueryId> {
        let mut open = 0;
        while self.eat_byte(b'(') {
            open += 1;
        }
        if open == 0 {
            return self.wrong();
        }
        let mut query = self.query_without_bracket()?;
        loop {
            self.expect_byte(b')')?;
            open -= 1;
            if open == 0 {
                return Ok(query);
            }
            if !self.is_byte(b')') {
                query = self.query_rest(query)?;
            }
        }
    }

    /// What follows a query in brackets.
    pub(super) fn query_rest(&mut self, query: QueryId) -> Result<QueryId> {
        self.no_into(query)?;
        self.query_tail(None, Part::Done(query))
    }

    fn query_without_bracket(&mut self) -> Result<QueryId> {
        let outer = self.common.len();
        let with = if self.eat(Keyword::With) { Some(self.with()?) } else { None };
        let first = if with.is_some() && self.is_byte(b'(') {
            Part::Done(self.subquery()?)
        } else {
            Part::Fresh(self.query_primary()?)
        };
        let query = self.query_tail(with, first)?;
        self.common.truncate(outer);
        Ok(query)
    }

    /// Set operations, then clauses.
    fn query_tail(&mut self, with: Option<With>, first: Part) -> Result<QueryId> {
        let mut left = first;
        while let Some(operation) = self.eat_any(&[Keyword::Union, Keyword::Except, Keyword::Intersect]) {
            let quantifier = self.eat_any(&[Keyword::All, Keyword::Distinct]);
            let left_query = self.part(left);
            let mut right = self.query_operand()?;
            while operation != Keyword::Intersect && self.eat(Keyword::Intersect) {
                let quantifier = self.eat_any(&[Keyword::All, Keyword::Distinct]);
                let next = self.query_operand()?;
                let operation = Keyword::Intersect;
                right = self.tree.push_query(bare(Body::Set { operation, quantifier, left: right, right: next }));
            }
            left = Part::Fresh(Body::Set { operation, quantifier, left: left_query, right });
        }
        let order = self.order_by()?;
        let limit = self.limit()?;
        let mut locking = self.locking()?;
        let into_first = locking.is_empty() && self.keyword() == Keyword::Into;
        let into = self.read_into()?;
        if into_first {
            locking = self.locking()?;
        }
        let body = match left {
            Part::Fresh(body) => body,
            Part::Done(query)
                if with.is_none() && order.is_empty() && limit.is_none() && locking.is_empty() && into.is_none() =>
            {
                return Ok(query);
            }
            Part::Done(query) => Body::Brackets(query),
        };
        let into_first = into_first && !locking.is_empty();
        Ok(self.tree.push_query(Query { with, body, order, limit, locking, into, into_first }))
    }

    fn part(&mut self, part: Part) -> QueryId {
        match part {
            Part::Fresh(body) => self.tree.push_query(bare(body)),
            Part::Done(query) => query,
        }
    }

    /// An operand of a set operation.
    fn query_operand(&mut self) -> Result<QueryId> {
        if self.is_byte(b'(') {
            return self.subquery();
        }
        let body = self.query_primary()?;
        Ok(self.tree.push_query(bare(body)))
    }

    fn query_primary(&mut self) -> Result<Body> {
        if self.eat(Keyword::Select) {
            return self.select().map(|select| Body::Select(Box::new(select)));
        }
        if self.eat(Keyword::Table) {
            let name = self.name(2)?;
            return Ok(Body::Table { name, common: self.is_common(name) });
        }
        self.expect(Keyword::Values)?;
        self.list(|parser| {
            parser.expect(Keyword::Row)?;
            parser.expect_byte(b'(')?;
            if parser.eat_byte(b')') {
                return Ok(List { start: 0, len: 0 });
            }
            let row = parser.list(|parser| {
                let start = parser.start();
                if parser.keyword() == Keyword::Default && !parser.is_byte_at(1, b'(') {
                    parser.take();
                    return Ok(parser.tree.push(Expr::Default, Span { start, end: parser.end() }));
                }
                parser.expression(level::ASSIGN)
            })?;
            parser.expect_byte(b')')?;
            Ok(parser.tree.push_list(&row))
        })
        .map(Body::Values)
    }

    fn with(&mut self) -> Result<With> {
        let recursive = self.eat(Keyword::Recursive);
        let tables = self.list(|parser| {
            let name = parser.ident()?;
            let columns = if parser.is_byte(b'(') { parser.bracketed(Parser::ident)? } else { Vec::new() };
            parser.expect(Keyword::As)?;
            if recursive {
                parser.common.push(name);
            }
            let query = parser.subquery()?;
            if !recursive {
                parser.common.push(name);
            }
            Ok(CommonTable { name, columns, query })
        })?;
        Ok(With { recursive, tables })
    }

    fn select(&mut self) -> Result<Select> {
        let options = self.select_options();
        let mut select = Select { options, ..Select::default() };
        select.items = self.items()?;
        select.into = self.read_into()?;
        if self.eat(Keyword::From) {
            select.from = if self.eat(Keyword::Dual) { From::Dual } else { From::Tables(self.table_list()?) };
        }
        if self.eat(Keyword::Where) {
            select.filter = Some(self.expression(level::ASSIGN)?);
        }
        if self.eat(Keyword::Group) {
            self.expect(Keyword::By)?;
            (select.group, select.grouping) = self.group_by()?;
        }
        if self.eat(Keyword::Having) {
            select.having = Some(self.expression(level::ASSIGN)?);
        }
        if self.eat(Keyword::Window) {
            select.windows = self.list(|parser| {
                let name = parser.ident()?;
                parser.expect(Keyword::As)?;
                Ok((name, parser.window_spec()?))
            })?;
        }
        if self.eat(Keyword::Qualify) {
            select.qualify = Some(self.expression(level::ASSIGN)?);
        }
        Ok(select)
    }

    /// Words before the select list. The two that are no reserved words are names where nothing can follow them.
    fn select_options(&mut self) -> Vec<Keyword> {
        use Keyword as K;
        let words = [
            K::All,
            K::Distinct,
            K::Distinctrow,
            K::HighPriority,
            K::StraightJoin,
            K::SqlSmallResult,
            K::SqlBigResult,
            K::SqlBufferResult,
            K::SqlNoCache,
            K::SqlCalcFoundRows,
        ];
        let mut options = Vec::new();
        while let Some(word) = self.eat_any(&words) {
            options.push(if word == K::Distinctrow { K::Distinct } else { word });
        }
        options
    }

    pub(super) fn items(&mut self) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        loop {
            let start = self.start();
            let star = match (self.kind(), items.is_empty()) {
                (Kind::Byte(b'*'), true) => {
                    self.take();
                    Some(None)
                }
                _ => self.table_star()?.map(Some),
            };
            let (expr, alias, end) = match star {
                Some(table) => {
                    let end = self.end();
                    (self.tree.push(Expr::Star(table), Span { start, end }), None, end)
                }
                None => {
                    let expr = self.expression(level::ASSIGN)?;
                    let end = self.end();
                    (expr, self.alias()?, end)
                }
            };
            items.push(Item { expr, alias, span: Span { start, end } });
            if !self.eat_byte(b',') {
                return Ok(items);
            }
        }
    }

    /// `t.*` or `d.t.*`.
    fn table_star(&mut self) -> Result<Option<crate::tree::NameId>> {
        let dot_star = |parser: &Self, at: usize| parser.is_byte_at(at, b'.') && parser.is_byte_at(at + 1, b'*');
        let is_one = self.is_ident() && dot_star(self, 1);
        let is_two = self.is_ident() && self.is_byte_at(1, b'.') && self.is_ident_at(2) && dot_star(self, 3);
        if !is_one && !is_two {
            return Ok(None);
        }
        let name = self.name(2)?;
        self.take();
        self.take();
        Ok(Some(name))
    }

    /// An alias of a column: a name, or a string.
    fn alias(&mut self) -> Result<Option<crate::tree::Text>> {
        if self.eat(Keyword::As) || self.is_ident() || self.kind() == Kind::Text {
            return self.ident_or_text().map(Some);
        }
        Ok(None)
    }

    fn group_by(&mut self) -> Result<(Vec<GroupItem>, Grouping)> {
        let grouping = match (self.keyword(), self.keyword_at(1)) {
            (Keyword::Rollup, _) if self.is_byte_at(1, b'(') => Grouping::Rollup,
            (Keyword::Cube, _) if self.is_byte_at(1, b'(') => Grouping::Cube,
            (Keyword::Grouping, Keyword::Sets) => Grouping::Sets,
            _ => {
                let list = self.list(|parser| parser.expression(level::ASSIGN).map(GroupItem::Expr))?;
                let rollup = self.eat_two(Keyword::With, Keyword::Rollup);
                return Ok((list, if rollup { Grouping::WithRollup } else { Grouping::Plain }));
            }
        };
        self.take();
        if grouping != Grouping::Sets {
            let list = self.bracketed(|parser| parser.expression(level::ASSIGN).map(GroupItem::Expr))?;
            return Ok((list, grouping));
        }
        self.take();
        let sets = self.bracketed(|parser| {
            parser.expect_byte(b'(')?;
            if parser.eat_byte(b')') {
                return Ok(GroupItem::Set(List { start: 0, len: 0 }));
            }
            let set = parser.expression_list()?;
            parser.expect_byte(b')')?;
            Ok(GroupItem::Set(set))
        })?;
        Ok((sets, grouping))
    }
}
