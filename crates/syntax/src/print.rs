//! A tree as text that parses to the same tree.
//!
//! In: a tree and the settings that the text will be read under, which are those the tree was read under. Out: one
//! line. Never here: the text that was there before (places of blanks, comments and hints are not kept); recursion:
//! pieces still to be printed stand on a stack.

mod calls;
mod query;

use crate::keyword::Keyword;
use crate::lexer::{Settings, is_bare_name};
use crate::sql_mode;
use crate::tree::{
    Binary, Expr, ExprId, Literal, LiteralForm, MatchMode, NameId, QueryId, TableId, Test, Text, Tree, TypeId, Unary,
    WindowId,
};

#[must_use]
pub fn print_query(tree: &Tree, query: QueryId, settings: Settings) -> Vec<u8> {
    printed(tree, Piece::Query(query), settings)
}

#[must_use]
pub fn print_expression(tree: &Tree, expr: ExprId, settings: Settings) -> Vec<u8> {
    printed(tree, Piece::Expr(expr, 0), settings)
}

fn printed(tree: &Tree, piece: Piece, settings: Settings) -> Vec<u8> {
    let mut printer = Printer { tree, settings, out: Vec::new(), stack: vec![piece], next: Vec::new() };
    while let Some(piece) = printer.stack.pop() {
        printer.print(piece);
        // What a piece consists of comes before all that was there.
        while let Some(inner) = printer.next.pop() {
            printer.stack.push(inner);
        }
    }
    printer.out
}

/// A part of the text still to be printed.
#[derive(Debug, Clone, Copy)]
enum Piece {
    /// After a blank where one is needed.
    Word(&'static str),
    /// Directly after the text before it.
    Glue(&'static str),
    Key(Keyword),
    Name(Text),
    Names(NameId),
    /// `@name`.
    User(Text),
    Raw(Text),
    String(Text),
    Literal(Literal),
    /// In brackets if it binds more loosely than that.
    Expr(ExprId, u8),
    Query(QueryId),
    Operand(QueryId),
    Table(TableId),
    /// In brackets if it is a join.
    Right(TableId),
    Window(WindowId),
    Type(TypeId),
}

struct Printer<'t> {
    tree: &'t Tree,
    settings: Settings,
    out: Vec<u8>,
    stack: Vec<Piece>,
    /// Parts of the piece that is printed now.
    next: Vec<Piece>,
}

impl Printer<'_> {
    fn print(&mut self, piece: Piece) {
        match piece {
            Piece::Word(word) => self.word(word.as_bytes()),
            Piece::Glue(text) => self.out.extend_from_slice(text.as_bytes()),
            Piece::Key(keyword) => self.word(keyword.text().as_bytes()),
            Piece::Name(name) => {
                self.blank();
                self.name(name);
            }
            Piece::Names(name) => {
                self.blank();
                self.names(name);
            }
            Piece::User(name) => self.user(name),
            Piece::Raw(text) => {
                let bytes = self.tree.bytes(text);
                self.word(bytes);
            }
            Piece::String(text) => self.string(text),
            Piece::Literal(literal) => self.literal(literal),
            Piece::Expr(expr, least) => self.expr(expr, least),
            Piece::Query(query) => self.query(query),
            Piece::Operand(query) => self.operand(query),
            Piece::Table(table) => self.table(table),
            Piece::Right(table) => self.right(table),
            Piece::Window(window) => self.window(window),
            Piece::Type(ty) => self.ty(ty),
        }
    }

    fn push(&mut self, pieces: &[Piece]) {
        self.next.extend_from_slice(pieces);
    }

    fn word(&mut self, word: &[u8]) {
        self.blank();
        self.out.extend_from_slice(word);
    }

    fn blank(&mut self) {
        if !matches!(self.out.last(), None | Some(b' ' | b'(' | b'.')) {
            self.out.push(b' ');
        }
    }

    fn name(&mut self, name: Text) {
        let bytes = self.tree.bytes(name);
        if is_bare_name(bytes, self.settings) {
            self.out.extend_from_slice(bytes);
        } else {
            self.quoted(bytes);
        }
    }

    fn quoted(&mut self, name: &[u8]) {
        // One with a NUL was written as a string: between backquotes it would end the text.
        let is_string = name.contains(&0);
        let quote = if is_string { b'\'' } else { b'`' };
        self.out.push(quote);
        self.escaped(name, quote, is_string && !self.settings.has(sql_mode::NO_BACKSLASH_ESCAPES));
        self.out.push(quote);
    }

    fn names(&mut self, name: NameId) {
        let tree = self.tree;
        for (place, part) in tree.parts(name).iter().enumerate() {
            if place > 0 {
                self.out.push(b'.');
            }
            self.name(*part);
        }
    }

    fn user(&mut self, name: Text) {
        self.word(b"@");
        let bytes = self.tree.bytes(name);
        if is_bare_name(bytes, self.settings) { self.out.extend_from_slice(bytes) } else { self.quoted(bytes) }
    }

    /// Text between quotes, character by character of the client's set.
    fn escaped(&mut self, text: &[u8], quote: u8, backslash: bool) {
        let mut at = 0;
        while let Some(rest) = text.get(at..)
            && let Some(first) = rest.first()
        {
            let len = self.settings.character_len(rest);
            if len == 1 && *first == quote {
                self.out.push(quote);
            } else if len == 1 && *first == b'\\' && backslash {
                // The lexer keeps the backslash before these two.
                if !matches!(rest.get(1), Some(b'%' | b'_')) {
                    self.out.push(b'\\');
                }
            }
            self.out.extend_from_slice(rest.get(..len).unwrap_or_default());
            at += len;
        }
    }

    fn string(&mut self, text: Text) {
        self.blank();
        self.string_here(text);
    }

    fn string_here(&mut self, text: Text) {
        let tree = self.tree;
        self.out.push(b'\'');
        self.escaped(tree.bytes(text), b'\'', !self.settings.has(sql_mode::NO_BACKSLASH_ESCAPES));
        self.out.push(b'\'');
    }

    fn literal(&mut self, literal: Literal) {
        match literal.form {
            LiteralForm::Text => self.string(literal.text),
            LiteralForm::Hex => self.digits(literal.text, false),
            LiteralForm::Bits => self.digits(literal.text, true),
            LiteralForm::National => {
                self.word(b"N");
                self.string_here(literal.text);
            }
            LiteralForm::Introduced(charset) => {
                self.introducer(charset);
                self.string(literal.text);
            }
        }
    }

    fn introducer(&mut self, charset: Text) {
        self.word(b"_");
        let bytes = self.tree.bytes(charset);
        self.out.extend_from_slice(bytes);
    }

    fn digits(&mut self, digits: Text, bits: bool) {
        let bytes = self.tree.bytes(digits);
        // `0x` takes an odd number of digits, `x''` takes none.
        let quoted = bytes.is_empty();
        self.word(match (quoted, bits) {
            (true, true) => b"b'",
            (true, false) => b"x'",
            (false, true) => b"0b",
            (false, false) => b"0x",
        });
        self.out.extend_from_slice(bytes);
        if quoted {
            self.out.push(b'\'');
        }
    }

    /// What stands between commas.
    fn commas<T: Copy>(&mut self, all: &[T], mut one: impl FnMut(&mut Self, T)) {
        for (place, each) in all.iter().enumerate() {
            if place > 0 {
                self.push(&[Piece::Glue(",")]);
            }
            one(self, *each);
        }
    }

    fn expr_list(&mut self, list: &[ExprId]) {
        self.commas(list, |printer, expr| printer.push(&[Piece::Expr(expr, 0)]));
    }

    fn name_list(&mut self, list: &[Text]) {
        self.push(&[Piece::Word("(")]);
        self.commas(list, |printer, name| printer.push(&[Piece::Name(name)]));
        self.push(&[Piece::Glue(")")]);
    }

    fn expr(&mut self, id: ExprId, least: u8) {
        let expr = self.tree.expr(id);
        if level_of(expr) < least {
            self.push(&[Piece::Word("("), Piece::Expr(id, 0), Piece::Glue(")")]);
            return;
        }
        match expr {
            Expr::Null => self.word(b"NULL"),
            Expr::Bool(value) => self.word(if value { b"TRUE" } else { b"FALSE" }),
            Expr::Number(text) => self.push(&[Piece::Raw(text)]),
            Expr::String { text, introducer, national } => {
                if let Some(charset) = introducer {
                    self.introducer(charset);
                }
                if national {
                    self.word(b"N");
                    self.string_here(text);
                } else {
                    self.string(text);
                }
            }
            Expr::Digits { digits, bits, introducer } => {
                if let Some(charset) = introducer {
                    self.introducer(charset);
                }
                self.digits(digits, bits);
            }
            Expr::Temporal { kind, text } => self.push(&[Piece::Key(kind), Piece::String(text)]),
            Expr::Parameter(_) => self.word(b"?"),
            Expr::UserVariable(name) => self.user(name),
            Expr::SystemVariable { scope, name } => self.system(scope, name),
            Expr::Column(name) => self.push(&[Piece::Names(name)]),
            Expr::Star(None) => self.word(b"*"),
            Expr::Star(Some(table)) => self.push(&[Piece::Names(table), Piece::Glue(".*")]),
            Expr::Default => self.word(b"DEFAULT"),
            Expr::DefaultOf(name) => self.push(&[Piece::Word("DEFAULT("), Piece::Names(name), Piece::Glue(")")]),
            Expr::ValuesOf(name) => self.push(&[Piece::Word("VALUES("), Piece::Names(name), Piece::Glue(")")]),
            Expr::Exists(query) => self.push(&[Piece::Word("EXISTS ("), Piece::Query(query), Piece::Glue(")")]),
            Expr::Subquery(query) => self.push(&[Piece::Word("("), Piece::Query(query), Piece::Glue(")")]),
            Expr::Row { list, word } => {
                let tree = self.tree;
                self.push(&[Piece::Word(if word { "ROW(" } else { "(" })]);
                self.expr_list(tree.list(list));
                self.push(&[Piece::Glue(")")]);
            }
            Expr::Collate { value, collation } => {
                self.push(&[Piece::Expr(value, 16), Piece::Word("COLLATE"), Piece::Name(collation)]);
            }
            Expr::Path { column, path, unquote } => {
                let arrow = Piece::Word(if unquote { "->>" } else { "->" });
                self.push(&[Piece::Names(column), arrow, Piece::String(path)]);
            }
            Expr::Odbc { name, value } => {
                self.push(&[Piece::Word("{"), Piece::Name(name), Piece::Expr(value, 0), Piece::Word("}")]);
            }
            Expr::Unary(..) | Expr::Binary(..) | Expr::Assign { .. } | Expr::Interval { .. } => self.operator(expr),
            Expr::Case { .. } | Expr::Match { .. } => self.worded(expr),
            Expr::Cast { .. } | Expr::CastAtZone { .. } | Expr::Convert { .. } | Expr::ConvertUsing { .. } => {
                self.conversion(expr);
            }
            Expr::Call { .. } | Expr::CallByName { .. } | Expr::Over { .. } => self.call(expr),
            _ => self.predicate(expr),
        }
    }

    fn system(&mut self, scope: Option<Keyword>, name: NameId) {
        self.word(b"@@");
        if let Some(scope) = scope {
            self.out.extend_from_slice(scope.text().as_bytes());
            self.out.push(b'.');
        }
        self.names(name);
    }

    fn operator(&mut self, expr: Expr) {
        let own = level_of(expr);
        match expr {
            Expr::Unary(unary, value) => {
                let (sign, least) = match unary {
                    Unary::Not => ("NOT", own),
                    Unary::Bang => ("!", own),
                    Unary::Minus => ("-", own),
                    Unary::Plus => ("+", own),
                    Unary::Invert => ("~", own),
                    Unary::Binary => ("BINARY", 17),
                };
                self.push(&[Piece::Word(sign), Piece::Expr(value, least)]);
            }
            Expr::Binary(operator, left, right) => {
                let sign = Piece::Word(sign_of(operator));
                self.push(&[Piece::Expr(left, own), sign, Piece::Expr(right, own + 1)]);
            }
            Expr::Assign { variable, value } => {
                self.push(&[Piece::User(variable), Piece::Word(":="), Piece::Expr(value, 0)]);
            }
            Expr::Interval { value, amount, unit, before: true, .. } => {
                self.push(&[Piece::Word("INTERVAL"), self.amount(amount), Piece::Key(unit)]);
                self.push(&[Piece::Word("+"), Piece::Expr(value, 4)]);
            }
            Expr::Interval { value, amount, unit, minus, .. } => {
                let sign = Piece::Word(if minus { "-" } else { "+" });
                self.push(&[Piece::Expr(value, 10), sign, Piece::Word("INTERVAL")]);
                self.push(&[self.amount(amount), Piece::Key(unit)]);
            }
            _ => {}
        }
    }

    /// A row after INTERVAL would be the arguments of the function of that name.
    fn amount(&self, amount: ExprId) -> Piece {
        let is_row = matches!(self.tree.expr(amount), Expr::Row { word: false, .. });
        Piece::Expr(amount, if is_row { u8::MAX } else { 0 })
    }

    fn negated(&mut self, negated: bool, word: &'static str) {
        if negated {
            self.push(&[Piece::Word("NOT")]);
        }
        self.push(&[Piece::Word(word)]);
    }

    fn predicate(&mut self, expr: Expr) {
        let tree = self.tree;
        match expr {
            Expr::Is { value, test, negated } => {
                let word = match test {
                    Test::Null => "NULL",
                    Test::True => "TRUE",
                    Test::False => "FALSE",
                    Test::Unknown => "UNKNOWN",
                };
                self.push(&[Piece::Expr(value, 5), Piece::Word("IS")]);
                self.negated(negated, word);
            }
            Expr::In { value, list, negated } => {
                self.push(&[Piece::Expr(value, 7)]);
                self.negated(negated, "IN (");
                self.expr_list(tree.list(list));
                self.push(&[Piece::Glue(")")]);
            }
            Expr::InQuery { value, query, negated } => {
                self.push(&[Piece::Expr(value, 7)]);
                self.negated(negated, "IN (");
                self.push(&[Piece::Query(query), Piece::Glue(")")]);
            }
            Expr::Between { value, low, high, negated } => {
                self.push(&[Piece::Expr(value, 7)]);
                self.negated(negated, "BETWEEN");
                self.push(&[Piece::Expr(low, 7), Piece::Word("AND"), Piece::Expr(high, 7)]);
            }
            Expr::Like { value, pattern, escape, negated } => {
                self.push(&[Piece::Expr(value, 7)]);
                self.negated(negated, "LIKE");
                self.push(&[Piece::Expr(pattern, 13)]);
                if let Some(escape) = escape {
                    self.push(&[Piece::Word("ESCAPE"), Piece::Expr(escape, 13)]);
                }
            }
            Expr::Regexp { value, pattern, negated } => {
                self.push(&[Piece::Expr(value, 7)]);
                self.negated(negated, "REGEXP");
                self.push(&[Piece::Expr(pattern, 7)]);
            }
            Expr::SoundsLike(left, right) => {
                self.push(&[Piece::Expr(left, 7), Piece::Word("SOUNDS LIKE"), Piece::Expr(right, 7)]);
            }
            Expr::MemberOf(left, right) => {
                self.push(&[
                    Piece::Expr(left, 7),
                    Piece::Word("MEMBER OF ("),
                    Piece::Expr(right, 13),
                    Piece::Glue(")"),
                ]);
            }
            Expr::Quantified { operator, value, query, all } => {
                self.push(&[Piece::Expr(value, 5), Piece::Word(sign_of(operator))]);
                let word = Piece::Word(if all { "ALL (" } else { "ANY (" });
                self.push(&[word, Piece::Query(query), Piece::Glue(")")]);
            }
            _ => {}
        }
    }

    fn worded(&mut self, expr: Expr) {
        let tree = self.tree;
        match expr {
            Expr::Case { operand, pairs, otherwise } => {
                self.push(&[Piece::Word("CASE")]);
                if let Some(operand) = operand {
                    self.push(&[Piece::Expr(operand, 0)]);
                }
                for pair in tree.list(pairs).chunks(2) {
                    if let [when, then] = pair {
                        self.push(&[Piece::Word("WHEN"), Piece::Expr(*when, 0), Piece::Word("THEN")]);
                        self.push(&[Piece::Expr(*then, 0)]);
                    }
                }
                if let Some(otherwise) = otherwise {
                    self.push(&[Piece::Word("ELSE"), Piece::Expr(otherwise, 0)]);
                }
                self.push(&[Piece::Word("END")]);
            }
            Expr::Match { columns, against, mode } => {
                self.push(&[Piece::Word("MATCH (")]);
                self.expr_list(tree.list(columns));
                self.push(&[Piece::Glue(")"), Piece::Word("AGAINST ("), Piece::Expr(against, 7)]);
                let mode = match mode {
                    MatchMode::Plain => "",
                    MatchMode::NaturalLanguage => " IN NATURAL LANGUAGE MODE",
                    MatchMode::Boolean => " IN BOOLEAN MODE",
                    MatchMode::Expansion => " WITH QUERY EXPANSION",
                    MatchMode::NaturalLanguageExpansion => " IN NATURAL LANGUAGE MODE WITH QUERY EXPANSION",
                };
                self.push(&[Piece::Glue(mode), Piece::Glue(")")]);
            }
            _ => {}
        }
    }
}

/// How tightly an expression binds as an operand: the parser's levels.
fn level_of(expr: Expr) -> u8 {
    match expr {
        // They take all that follows them.
        Expr::Assign { .. } | Expr::Interval { before: true, .. } => 0,
        Expr::Interval { .. } => 10,
        Expr::Unary(unary, _) => match unary {
            Unary::Not => 4,
            Unary::Minus | Unary::Plus | Unary::Invert => 14,
            Unary::Bang => 15,
            Unary::Binary => 16,
        },
        Expr::Binary(operator, ..) => match operator {
            Binary::Or => 1,
            Binary::Xor => 2,
            Binary::And => 3,
            Binary::BitOr => 7,
            Binary::BitAnd => 8,
            Binary::ShiftLeft | Binary::ShiftRight => 9,
            Binary::Add | Binary::Subtract => 10,
            Binary::Multiply | Binary::Divide | Binary::IntegerDivide | Binary::Modulo => 11,
            Binary::BitXor => 12,
            Binary::Concat => 13,
            _ => 5,
        },
        Expr::Is { test: Test::Null, .. } | Expr::Quantified { .. } => 5,
        Expr::Is { .. } => 4,
        Expr::In { .. } | Expr::InQuery { .. } | Expr::Between { .. } | Expr::Like { .. } => 6,
        Expr::Regexp { .. } | Expr::SoundsLike(..) | Expr::MemberOf(..) => 6,
        Expr::Collate { .. } => 16,
        _ => 17,
    }
}

fn sign_of(operator: Binary) -> &'static str {
    match operator {
        Binary::Or => "OR",
        Binary::Xor => "XOR",
        Binary::And => "AND",
        Binary::Equal => "=",
        Binary::NullSafeEqual => "<=>",
        Binary::NotEqual => "<>",
        Binary::Less => "<",
        Binary::LessOrEqual => "<=",
        Binary::Greater => ">",
        Binary::GreaterOrEqual => ">=",
        Binary::BitOr => "|",
        Binary::BitAnd => "&",
        Binary::ShiftLeft => "<<",
        Binary::ShiftRight => ">>",
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Multiply => "*",
        Binary::Divide => "/",
        Binary::IntegerDivide => "DIV",
        Binary::Modulo => "%",
        Binary::BitXor => "^",
        Binary::Concat => "||",
    }
}
