//! FROM: tables, joins, brackets, JSON_TABLE.
//!
//! Brackets and joins stand on stacks, so they may nest as deeply as a text is long. ON belongs to the nearest join
//! before it that has none; a join without one is made as soon as its right side is there, so `a JOIN b JOIN c ON x`
//! is `(a JOIN b) JOIN c ON x`, as MySQL has it.

use super::expression::level;
use super::{Parser, Result};
use crate::keyword::Keyword;
use crate::lexer::Kind;
use crate::tree::{Condition, IndexHint, JoinKind, JsonColumn, NamedTable, QueryId, Sample, Table, TableId, Text};

/// What a table reference is: not every one may stand in brackets of its own, or after NATURAL JOIN.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Named,
    Derived,
    Join,
    List,
    Odbc,
}

enum Element {
    Factor(TableId),
    Join { kind: JoinKind, conditioned: bool },
    Condition(Condition),
}

/// A bracket of FROM, or FROM itself.
struct Scope {
    closing: Option<u8>,
    /// What stood before a comma.
    whole: Vec<TableId>,
    elements: Vec<Element>,
    /// Places of joins without their ON among the elements.
    open: Vec<usize>,
    shape: Shape,
}

impl Scope {
    fn new(closing: Option<u8>) -> Scope {
        Scope { closing, whole: Vec::new(), elements: Vec::new(), open: Vec::new(), shape: Shape::Named }
    }

    fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.elements.is_empty()
    }
}

impl Parser<'_> {
    /// Tables and joins after FROM.
    pub(super) fn table_list(&mut self) -> Result<Vec<TableId>> {
        let outer = std::mem::take(&mut self.tables);
        let found = self.local_tables();
        let mut local = std::mem::replace(&mut self.tables, outer);
        Ok(self.numbered(&mut local, &found?))
    }

    /// The same, numbered among those of this FROM.
    fn local_tables(&mut self) -> Result<Vec<TableId>> {
        let mut scopes = vec![Scope::new(None)];
        loop {
            let (mut table, mut shape) = self.table_factor(&mut scopes)?;
            // A whole table reference may end brackets, each of which makes it another one.
            loop {
                let Some(scope) = scopes.last_mut() else { return self.wrong() };
                if matches!(scope.elements.last(), Some(Element::Join { kind, .. }) if is_natural(*kind))
                    && shape == Shape::Odbc
                {
                    return self.wrong();
                }
                scope.shape = if scope.elements.is_empty() { shape } else { Shape::Join };
                scope.elements.push(Element::Factor(table));
                if self.joined(scope)? {
                    break;
                }
                let whole = self.made(scope)?;
                scope.whole.push(whole);
                if scope.closing != Some(b'}') && self.eat_byte(b',') {
                    scope.shape = Shape::List;
                    break;
                }
                let Some(closing) = scope.closing else { return Ok(std::mem::take(&mut scope.whole)) };
                self.expect_byte(closing)?;
                (table, shape) = self.closed(scope, closing)?;
                scopes.pop();
            }
        }
    }

    fn local(&mut self, table: Table) -> TableId {
        self.tables.push(table);
        TableId(u32::try_from(self.tables.len() - 1).unwrap_or(u32::MAX))
    }

    /// Moves tables into the tree, parts of a join before it: the same numbers for the same joins, however they are
    /// written.
    fn numbered(&mut self, local: &mut [Table], roots: &[TableId]) -> Vec<TableId> {
        let mut made: Vec<TableId> = Vec::new();
        // A table is met first on the way down, then when its parts are made.
        let mut stack: Vec<(TableId, bool)> = roots.iter().rev().map(|root| (*root, false)).collect();
        while let Some((id, parts_are_made)) = stack.pop() {
            let Some(table) = local.get_mut(id.index()) else { continue };
            let parts: Vec<TableId> = match table {
                Table::Join { left, right, .. } => vec![*left, *right],
                Table::List(list) => list.clone(),
                Table::Odbc(inner) => vec![*inner],
                _ => Vec::new(),
            };
            if !parts_are_made && !parts.is_empty() {
                stack.push((id, true));
                stack.extend(parts.iter().rev().map(|part| (*part, false)));
                continue;
            }
            let mut of_parts = made.split_off(made.len().saturating_sub(parts.len())).into_iter();
            let mut next = || of_parts.next().unwrap_or(id);
            match table {
                Table::Join { left, right, .. } => (*left, *right) = (next(), next()),
                Table::List(list) => list.iter_mut().for_each(|part| *part = next()),
                Table::Odbc(inner) => *inner = next(),
                _ => {}
            }
            let table = std::mem::replace(table, Table::List(Vec::new()));
            made.push(self.tree.push_table(table));
        }
        made
    }

    /// ON and USING as far as they go, then a join whose right side follows.
    fn joined(&mut self, scope: &mut Scope) -> Result<bool> {
        loop {
            let condition = if self.eat(Keyword::On) {
                Condition::On(self.expression(level::ASSIGN)?)
            } else if self.eat(Keyword::Using) {
                Condition::Using(self.bracketed(Parser::ident)?)
            } else {
                break;
            };
            let join = scope.open.pop().and_then(|place| scope.elements.get_mut(place));
            let Some(Element::Join { conditioned, .. }) = join else { return self.wrong() };
            *conditioned = true;
            scope.elements.push(Element::Condition(condition));
        }
        let Some(kind) = self.join_kind()? else { return Ok(false) };
        if !is_natural(kind) {
            scope.open.push(scope.elements.len());
        }
        scope.elements.push(Element::Join { kind, conditioned: false });
        Ok(true)
    }

    fn join_kind(&mut self) -> Result<Option<JoinKind>> {
        use Keyword as K;
        let word = self.keyword();
        let outer = |word: K| if word == K::Left { JoinKind::Left } else { JoinKind::Right };
        Ok(Some(match word {
            K::Join => {
                self.take();
                JoinKind::Inner
            }
            K::StraightJoin => {
                self.take();
                JoinKind::Straight
            }
            K::Inner | K::Cross => {
                self.take();
                self.expect(K::Join)?;
                JoinKind::Inner
            }
            K::Left | K::Right => {
                self.take();
                self.eat(K::Outer);
                self.expect(K::Join)?;
                outer(word)
            }
            K::Natural => {
                self.take();
                let side = self.eat_any(&[K::Left, K::Right, K::Inner]);
                if matches!(side, Some(K::Left | K::Right)) {
                    self.eat(K::Outer);
                }
                self.expect(K::Join)?;
                match side {
                    Some(K::Left) => JoinKind::NaturalLeft,
                    Some(K::Right) => JoinKind::NaturalRight,
                    _ => JoinKind::Natural,
                }
            }
            _ => return Ok(None),
        }))
    }

    /// The table reference that a scope's elements are.
    fn made(&mut self, scope: &mut Scope) -> Result<TableId> {
        let mut tables: Vec<TableId> = Vec::new();
        let mut joins: Vec<(JoinKind, bool)> = Vec::new();
        for place in scope.open.drain(..) {
            if let Some(Element::Join { kind: JoinKind::Left | JoinKind::Right, .. }) = scope.elements.get(place) {
                return self.wrong();
            }
        }
        let mut condition = Condition::Nothing;
        for element in scope.elements.drain(..) {
            let makes = match element {
                Element::Factor(table) => {
                    tables.push(table);
                    joins.last().is_some_and(|(kind, _)| is_natural(*kind))
                }
                Element::Join { kind, conditioned } => {
                    let makes = joins.last().is_some_and(|(_, conditioned)| !conditioned);
                    if makes {
                        self.make_join(&mut tables, &mut joins, Condition::Nothing)?;
                    }
                    joins.push((kind, conditioned));
                    false
                }
                Element::Condition(found) => {
                    condition = found;
                    true
                }
            };
            if makes {
                let condition = std::mem::replace(&mut condition, Condition::Nothing);
                self.make_join(&mut tables, &mut joins, condition)?;
            }
        }
        while !joins.is_empty() {
            self.make_join(&mut tables, &mut joins, Condition::Nothing)?;
        }
        tables.pop().map_or_else(|| self.wrong(), Ok)
    }

    fn make_join(
        &mut self,
        tables: &mut Vec<TableId>,
        joins: &mut Vec<(JoinKind, bool)>,
        condition: Condition,
    ) -> Result<()> {
        let (Some((kind, _)), Some(right), Some(left)) = (joins.pop(), tables.pop(), tables.pop()) else {
            return self.wrong();
        };
        tables.push(self.local(Table::Join { kind, left, right, condition }));
        Ok(())
    }

    /// What a bracket is. Around one table it must be a named one.
    fn closed(&mut self, scope: &mut Scope, closing: u8) -> Result<(TableId, Shape)> {
        let whole = std::mem::take(&mut scope.whole);
        let Some(first) = whole.first().copied() else { return self.wrong() };
        if closing == b'}' {
            if scope.shape == Shape::Odbc {
                return self.wrong();
            }
            return Ok((self.local(Table::Odbc(first)), Shape::Odbc));
        }
        if whole.len() > 1 {
            return Ok((self.local(Table::List(whole)), Shape::List));
        }
        match scope.shape {
            Shape::Derived | Shape::Odbc => self.wrong(),
            shape => Ok((first, shape)),
        }
    }

    fn table_factor(&mut self, scopes: &mut Vec<Scope>) -> Result<(TableId, Shape)> {
        loop {
            if self.is_byte(b'(') {
                let brackets = (0..).take_while(|ahead| self.is_byte_at(*ahead, b'(')).count();
                let is_query = self.query_begins_at(brackets);
                self.at += brackets;
                scopes.extend((usize::from(is_query)..brackets).map(|_| Scope::new(Some(b')'))));
                if is_query {
                    let query = self.query_expression_inside()?;
                    self.expect_byte(b')')?;
                    return self.derived_in_brackets(query, brackets - 1, scopes);
                }
                continue;
            }
            if self.is_byte(b'{') {
                self.take();
                self.odbc_word()?;
                scopes.push(Scope::new(Some(b'}')));
                continue;
            }
            if self.eat(Keyword::Lateral) {
                let query = self.subquery()?;
                return self.derived(true, query);
            }
            if self.keyword() == Keyword::JsonTable {
                return self.json_table();
            }
            return self.named_table();
        }
    }

    /// OJ, the only word there is before a join in braces.
    fn odbc_word(&mut self) -> Result<()> {
        let is_oj = self.token().span.of(self.text).eq_ignore_ascii_case(b"oj");
        if !is_oj || !self.is_ident() {
            return self.wrong();
        }
        self.take();
        Ok(())
    }

    /// Brackets directly around a query are the query's, as far as they end directly after it.
    fn derived_in_brackets(
        &mut self,
        mut query: QueryId,
        mut around: usize,
        scopes: &mut Vec<Scope>,
    ) -> Result<(TableId, Shape)> {
        while around > 0 && scopes.last().is_some_and(Scope::is_empty) {
            if self.query_goes_on() {
                query = self.query_rest(query)?;
                self.no_statement_into(query)?;
                if !self.is_byte(b')') {
                    return self.wrong();
                }
            }
            if !self.eat_byte(b')') {
                break;
            }
            scopes.pop();
            around -= 1;
        }
        self.derived(false, query)
    }

    fn no_statement_into(&self, query: QueryId) -> Result<()> {
        if self.tree.query(query).into.is_some() { self.wrong() } else { Ok(()) }
    }

    fn derived(&mut self, lateral: bool, query: QueryId) -> Result<(TableId, Shape)> {
        let alias = self.table_alias()?;
        let columns = if alias.is_some() && self.is_byte(b'(') { self.bracketed(Parser::ident)? } else { Vec::new() };
        Ok((self.local(Table::Derived { lateral, query, alias, columns }), Shape::Derived))
    }

    fn table_alias(&mut self) -> Result<Option<Text>> {
        if self.eat(Keyword::As) || self.is_ident() { self.ident().map(Some) } else { Ok(None) }
    }

    fn named_table(&mut self) -> Result<(TableId, Shape)> {
        let name = self.name(2)?;
        let partitions = if self.eat(Keyword::Partition) { self.bracketed(Parser::ident)? } else { Vec::new() };
        let alias = self.table_alias()?;
        let mut hints = Vec::new();
        while let Some(word) = self.eat_any(&[Keyword::Use, Keyword::Force, Keyword::Ignore]) {
            hints.push(self.index_hint(word)?);
        }
        let mut sample = None;
        if self.eat(Keyword::Tablesample) {
            let method = self.expect_any(&[Keyword::System, Keyword::Bernoulli])?;
            self.expect_byte(b'(')?;
            let is_amount = matches!(
                self.kind(),
                Kind::Integer | Kind::Decimal | Kind::Float | Kind::Byte(b'?') | Kind::UserVariable
            ) || self.is_ident();
            if !is_amount {
                return self.wrong();
            }
            let percent = self.expression(level::PRIMARY)?;
            self.expect_byte(b')')?;
            sample = Some(Sample { method, percent });
        }
        let table = NamedTable { name, common: self.is_common(name), partitions, alias, hints, sample };
        Ok((self.local(Table::Named(table)), Shape::Named))
    }

    fn index_hint(&mut self, word: Keyword) -> Result<IndexHint> {
        self.expect_any(&[Keyword::Index, Keyword::Key])?;
        let mut scope = None;
        if self.eat(Keyword::For) {
            let word = self.expect_any(&[Keyword::Join, Keyword::Order, Keyword::Group])?;
            if word != Keyword::Join {
                self.expect(Keyword::By)?;
            }
            scope = Some(word);
        }
        self.expect_byte(b'(')?;
        if word == Keyword::Use && self.eat_byte(b')') {
            return Ok(IndexHint { word, scope, indexes: Vec::new() });
        }
        let indexes = self.list(|parser| {
            if parser.keyword() == Keyword::Primary {
                let token = parser.take();
                return Ok(parser.text_of(token));
            }
            parser.ident()
        })?;
        self.expect_byte(b')')?;
        Ok(IndexHint { word, scope, indexes })
    }

    fn json_table(&mut self) -> Result<(TableId, Shape)> {
        self.take();
        self.expect_byte(b'(')?;
        let document = self.expression(level::ASSIGN)?;
        self.expect_byte(b',')?;
        let path = self.text_literal()?;
        let columns = self.json_columns()?;
        self.expect_byte(b')')?;
        let alias = self.table_alias()?;
        Ok((self.local(Table::JsonTable { document, path, columns, alias }), Shape::Derived))
    }

    fn json_columns(&mut self) -> Result<Vec<JsonColumn>> {
        self.deeper(|parser| {
            parser.expect(Keyword::Columns)?;
            parser.bracketed(Parser::json_column)
        })
    }

    fn json_column(&mut self) -> Result<JsonColumn> {
        if self.keyword() == Keyword::Nested && self.keyword_at(1) == Keyword::Path {
            self.take();
            self.take();
            let path = self.text_literal()?;
            return Ok(JsonColumn::Nested { path, columns: self.json_columns()? });
        }
        let name = self.ident()?;
        if self.eat_two(Keyword::For, Keyword::Ordinality) {
            return Ok(JsonColumn::Ordinality(name));
        }
        let ty = self.column_type()?;
        let collation = if self.eat(Keyword::Collate) { Some(self.collation_name()?) } else { None };
        let exists = self.eat(Keyword::Exists);
        self.expect(Keyword::Path)?;
        let path = self.text_literal()?;
        let (on_empty, on_error) = self.on_events(true)?;
        Ok(JsonColumn::Path { name, ty, collation, exists, path, on_empty, on_error })
    }

    /// As a column's type has it, where `binary` is a collation.
    fn collation_name(&mut self) -> Result<Text> {
        self.charset_name()
    }
}

fn is_natural(kind: JoinKind) -> bool {
    matches!(kind, JoinKind::Natural | JoinKind::NaturalLeft | JoinKind::NaturalRight)
}
