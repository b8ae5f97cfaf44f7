//! Queries and tables: the clauses of a SELECT in their order, set operations, joins.

use super::{Piece, Printer};
use crate::keyword::Keyword;
use crate::tree::{
    Body, Condition, FileOption, From, GroupItem, Grouping, Into, IntoVariable, JoinKind, JsonColumn, Locking,
    NamedTable, Query, QueryId, Select, Strength, Table, TableId, With,
};

impl Printer<'_> {
    pub(super) fn query(&mut self, query: QueryId) {
        let Query { with, body, order, limit, locking, into, into_first } = self.tree.query(query);
        if let Some(with) = with {
            self.with(with);
        }
        match body {
            Body::Select(select) => self.select(select),
            Body::Table { name, .. } => self.push(&[Piece::Word("TABLE"), Piece::Names(*name)]),
            Body::Values(rows) => {
                let tree = self.tree;
                self.push(&[Piece::Word("VALUES")]);
                self.commas(rows, |printer, row| {
                    printer.push(&[Piece::Word("ROW(")]);
                    printer.expr_list(tree.list(row));
                    printer.push(&[Piece::Glue(")")]);
                });
            }
            Body::Brackets(inner) => self.push(&[Piece::Word("("), Piece::Query(*inner), Piece::Glue(")")]),
            Body::Set { operation, quantifier, left, right } => {
                self.push(&[Piece::Operand(*left), Piece::Key(*operation)]);
                if let Some(quantifier) = quantifier {
                    self.push(&[Piece::Key(*quantifier)]);
                }
                // INTO after a plain SELECT would be that SELECT's.
                if into.is_some() {
                    self.push(&[Piece::Word("("), Piece::Query(*right), Piece::Glue(")")]);
                } else {
                    self.push(&[Piece::Operand(*right)]);
                }
            }
        }
        self.order_by(order);
        if let Some(limit) = limit {
            self.push(&[Piece::Word("LIMIT")]);
            match limit.offset {
                None => self.push(&[Piece::Expr(limit.rows, 17)]),
                // Placeholders are numbered as they stand.
                Some(offset) if offset < limit.rows => {
                    self.push(&[Piece::Expr(offset, 17), Piece::Glue(","), Piece::Expr(limit.rows, 17)]);
                }
                Some(offset) => {
                    self.push(&[Piece::Expr(limit.rows, 17), Piece::Word("OFFSET"), Piece::Expr(offset, 17)]);
                }
            }
        }
        if *into_first {
            self.into(into.as_ref());
        }
        for each in locking {
            self.locking(each);
        }
        if !*into_first {
            self.into(into.as_ref());
        }
    }

    /// An operand of a set operation, in brackets unless it is a plain one.
    pub(super) fn operand(&mut self, id: QueryId) {
        let query = self.tree.query(id);
        let is_plain = query.with.is_none()
            && query.order.is_empty()
            && query.limit.is_none()
            && query.locking.is_empty()
            && matches!(query.body, Body::Select(_) | Body::Table { .. } | Body::Values(_));
        if is_plain {
            self.push(&[Piece::Query(id)]);
        } else {
            self.push(&[Piece::Word("("), Piece::Query(id), Piece::Glue(")")]);
        }
    }

    fn with(&mut self, with: &With) {
        self.push(&[Piece::Word(if with.recursive { "WITH RECURSIVE" } else { "WITH" })]);
        for (place, table) in with.tables.iter().enumerate() {
            if place > 0 {
                self.push(&[Piece::Glue(",")]);
            }
            self.push(&[Piece::Name(table.name)]);
            if !table.columns.is_empty() {
                self.name_list(&table.columns);
            }
            self.push(&[Piece::Word("AS ("), Piece::Query(table.query), Piece::Glue(")")]);
        }
    }

    fn select(&mut self, select: &Select) {
        self.push(&[Piece::Word("SELECT")]);
        for option in &select.options {
            self.push(&[Piece::Key(*option)]);
        }
        self.commas(&select.items, |printer, item| {
            printer.push(&[Piece::Expr(item.expr, 0)]);
            if let Some(alias) = item.alias {
                printer.push(&[Piece::Word("AS"), Piece::Name(alias)]);
            }
        });
        self.into(select.into.as_ref());
        match &select.from {
            From::Nothing => {}
            From::Dual => self.push(&[Piece::Word("FROM DUAL")]),
            From::Tables(tables) => {
                self.push(&[Piece::Word("FROM")]);
                self.commas(tables, |printer, table| printer.push(&[Piece::Table(table)]));
            }
        }
        if let Some(filter) = select.filter {
            self.push(&[Piece::Word("WHERE"), Piece::Expr(filter, 0)]);
        }
        self.group_by(select);
        if let Some(having) = select.having {
            self.push(&[Piece::Word("HAVING"), Piece::Expr(having, 0)]);
        }
        if !select.windows.is_empty() {
            self.push(&[Piece::Word("WINDOW")]);
            self.commas(&select.windows, |printer, (name, window)| {
                printer.push(&[Piece::Name(name), Piece::Word("AS"), Piece::Window(window)]);
            });
        }
        if let Some(qualify) = select.qualify {
            self.push(&[Piece::Word("QUALIFY"), Piece::Expr(qualify, 0)]);
        }
    }

    fn group_by(&mut self, select: &Select) {
        if select.group.is_empty() {
            return;
        }
        let (before, after) = match select.grouping {
            Grouping::Plain => ("GROUP BY", ""),
            Grouping::WithRollup => ("GROUP BY", " WITH ROLLUP"),
            Grouping::Rollup => ("GROUP BY ROLLUP(", ")"),
            Grouping::Cube => ("GROUP BY CUBE(", ")"),
            Grouping::Sets => ("GROUP BY GROUPING SETS (", ")"),
        };
        let tree = self.tree;
        self.push(&[Piece::Word(before)]);
        self.commas(&select.group, |printer, item| match item {
            GroupItem::Expr(expr) => printer.push(&[Piece::Expr(expr, 0)]),
            GroupItem::Set(list) => {
                printer.push(&[Piece::Word("(")]);
                printer.expr_list(tree.list(list));
                printer.push(&[Piece::Glue(")")]);
            }
        });
        self.push(&[Piece::Glue(after)]);
    }

    fn locking(&mut self, locking: &Locking) {
        self.push(&[Piece::Word(match locking.strength {
            Strength::Update => "FOR UPDATE",
            Strength::Share => "FOR SHARE",
            Strength::ShareMode => "LOCK IN SHARE MODE",
        })]);
        if !locking.of.is_empty() {
            self.push(&[Piece::Word("OF")]);
            self.commas(&locking.of, |printer, name| printer.push(&[Piece::Names(name)]));
        }
        match locking.wait {
            None => {}
            Some(Keyword::Skip) => self.push(&[Piece::Word("SKIP LOCKED")]),
            Some(word) => self.push(&[Piece::Key(word)]),
        }
    }

    fn into(&mut self, into: Option<&Into>) {
        let Some(into) = into else { return };
        self.push(&[Piece::Word("INTO")]);
        match into {
            Into::Dumpfile(file) => self.push(&[Piece::Word("DUMPFILE"), Piece::String(*file)]),
            Into::Variables(variables) => self.commas(variables, |printer, variable| match variable {
                IntoVariable::User(name) => printer.push(&[Piece::User(name)]),
                IntoVariable::Local(name) => printer.push(&[Piece::Name(name)]),
            }),
            Into::Outfile { file, charset, fields, lines } => {
                self.push(&[Piece::Word("OUTFILE"), Piece::String(*file)]);
                if let Some(charset) = charset {
                    self.push(&[Piece::Word("CHARACTER SET"), Piece::Name(*charset)]);
                }
                self.file_options("FIELDS", fields);
                self.file_options("LINES", lines);
            }
        }
    }

    fn file_options(&mut self, word: &'static str, options: &[FileOption]) {
        if !options.is_empty() {
            self.push(&[Piece::Word(word)]);
        }
        for option in options {
            self.push(&[Piece::Key(option.word)]);
            let by = if option.word == Keyword::Optionally { "ENCLOSED BY" } else { "BY" };
            self.push(&[Piece::Word(by), Piece::Literal(option.value)]);
        }
    }

    pub(super) fn table(&mut self, table: TableId) {
        match self.tree.table(table) {
            Table::Named(named) => self.named_table(named),
            Table::Derived { lateral, query, alias, columns } => {
                self.push(&[Piece::Word(if *lateral { "LATERAL (" } else { "(" })]);
                self.push(&[Piece::Query(*query), Piece::Glue(")")]);
                if let Some(alias) = alias {
                    self.push(&[Piece::Word("AS"), Piece::Name(*alias)]);
                }
                if !columns.is_empty() {
                    self.name_list(columns);
                }
            }
            Table::JsonTable { document, path, columns, alias } => {
                self.push(&[Piece::Word("JSON_TABLE("), Piece::Expr(*document, 0), Piece::Glue(",")]);
                self.push(&[Piece::Literal(*path)]);
                self.json_columns(columns);
                self.push(&[Piece::Glue(")")]);
                if let Some(alias) = alias {
                    self.push(&[Piece::Word("AS"), Piece::Name(*alias)]);
                }
            }
            Table::Join { kind, left, right, condition } => {
                let word = match kind {
                    JoinKind::Inner => "JOIN",
                    JoinKind::Straight => "STRAIGHT_JOIN",
                    JoinKind::Left => "LEFT JOIN",
                    JoinKind::Right => "RIGHT JOIN",
                    JoinKind::Natural => "NATURAL JOIN",
                    JoinKind::NaturalLeft => "NATURAL LEFT JOIN",
                    JoinKind::NaturalRight => "NATURAL RIGHT JOIN",
                };
                self.push(&[Piece::Table(*left), Piece::Word(word), Piece::Right(*right)]);
                match condition {
                    Condition::Nothing => {}
                    Condition::On(expr) => self.push(&[Piece::Word("ON"), Piece::Expr(*expr, 0)]),
                    Condition::Using(columns) => {
                        self.push(&[Piece::Word("USING")]);
                        self.name_list(columns);
                    }
                }
            }
            Table::List(tables) => {
                self.push(&[Piece::Word("(")]);
                self.commas(tables, |printer, table| printer.push(&[Piece::Table(table)]));
                self.push(&[Piece::Glue(")")]);
            }
            Table::Odbc(table) => self.push(&[Piece::Word("{ OJ"), Piece::Table(*table), Piece::Word("}")]),
        }
    }

    pub(super) fn right(&mut self, table: TableId) {
        if matches!(self.tree.table(table), Table::Join { .. }) {
            self.push(&[Piece::Word("("), Piece::Table(table), Piece::Glue(")")]);
        } else {
            self.push(&[Piece::Table(table)]);
        }
    }

    fn named_table(&mut self, table: &NamedTable) {
        self.push(&[Piece::Names(table.name)]);
        if !table.partitions.is_empty() {
            self.push(&[Piece::Word("PARTITION")]);
            self.name_list(&table.partitions);
        }
        if let Some(alias) = table.alias {
            self.push(&[Piece::Word("AS"), Piece::Name(alias)]);
        }
        for hint in &table.hints {
            self.push(&[Piece::Key(hint.word), Piece::Word("INDEX")]);
            match hint.scope {
                None => {}
                Some(Keyword::Join) => self.push(&[Piece::Word("FOR JOIN")]),
                Some(Keyword::Order) => self.push(&[Piece::Word("FOR ORDER BY")]),
                Some(_) => self.push(&[Piece::Word("FOR GROUP BY")]),
            }
            self.name_list(&hint.indexes);
        }
        if let Some(sample) = table.sample {
            self.push(&[Piece::Word("TABLESAMPLE"), Piece::Key(sample.method)]);
            self.push(&[Piece::Word("("), Piece::Expr(sample.percent, 0), Piece::Glue(")")]);
        }
    }

    /// The parser bounds how deep they stand in each other.
    fn json_columns(&mut self, columns: &[JsonColumn]) {
        self.push(&[Piece::Word("COLUMNS (")]);
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                self.push(&[Piece::Glue(",")]);
            }
            match column {
                JsonColumn::Ordinality(name) => self.push(&[Piece::Name(*name), Piece::Word("FOR ORDINALITY")]),
                JsonColumn::Nested { path, columns } => {
                    self.push(&[Piece::Word("NESTED PATH"), Piece::Literal(*path)]);
                    self.json_columns(columns);
                }
                JsonColumn::Path { name, ty, collation, exists, path, on_empty, on_error } => {
                    self.push(&[Piece::Name(*name), Piece::Type(*ty)]);
                    if let Some(collation) = collation {
                        self.push(&[Piece::Word("COLLATE"), Piece::Name(*collation)]);
                    }
                    self.push(&[Piece::Word(if *exists { "EXISTS PATH" } else { "PATH" }), Piece::Literal(*path)]);
                    self.on_event(*on_empty, "ON EMPTY");
                    self.on_event(*on_error, "ON ERROR");
                }
            }
        }
        self.push(&[Piece::Glue(")")]);
    }
}
