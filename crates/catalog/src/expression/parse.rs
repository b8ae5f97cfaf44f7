//! Reads an expression by MySQL's precedences (sql/sql_yacc.yy) into what is printed.

use super::print::{condition, literal, negated};
use super::{Node, functions};
use crate::charset;
use crate::context::StatementContext;
use crate::lexer::Tok;
use crate::parser::Parser;
use crate::sql_mode;

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 64;
/// Highest tree that is read, but for what negation and conditions add to a node: printing recurses as deep, in the
/// thread that sequences, with some 300 bytes of stack a node in a debug build.
const HEIGHT_MAX: usize = 400;

/// Signs of numbers by how tightly they bind; with DIV and MOD as words.
const LEVELS: &[&[&str]] = &[&["|"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "%"], &["^"]];
const TERMS: usize = 3;
const FACTORS: usize = 4;

/// Units of intervals, EXTRACT and TIMESTAMPDIFF.
const UNITS: &[&str] = &[
    "microsecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "second_microsecond",
    "minute_microsecond",
    "minute_second",
    "hour_microsecond",
    "hour_second",
    "hour_minute",
    "day_microsecond",
    "day_second",
    "day_minute",
    "day_hour",
    "year_month",
];

/// Types of geometry in CAST.
const GEOMETRIES: &[&str] =
    &["point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection"];

/// The expression that a text is; None if it is not read here.
pub(super) fn parsed(context: &StatementContext, text: &str) -> Option<Node> {
    if context.sql_mode & sql_mode::HIGH_NOT_PRECEDENCE != 0 {
        return None;
    }
    let connection = context.collation_connection.and_then(charset::by_id).map_or("utf8mb4", |found| found.charset);
    // Text taken out of a statement has already been converted to UTF-8.
    let context = StatementContext { collation_client: None, collation_connection: None, ..context.clone() };
    let mut reader = Reader { parser: Parser::new(&context, text.as_bytes()), text, connection, depth: 0, height: 0 };
    let node = reader.expression()?;
    reader.parser.at_end().ok()?.then_some(node)
}

struct Reader<'a> {
    parser: Parser<'a>,
    text: &'a str,
    /// Character set of texts without an introducer.
    connection: &'static str,
    depth: usize,
    /// Height of the highest of the expressions that the one being read has so far.
    height: usize,
}

fn two(left: Node, right: Node) -> Box<[Node; 2]> {
    Box::new([left, right])
}

/// An operation whose left side may be one already.
fn operation(left: Node, sign: &'static str, right: Node) -> Node {
    match left {
        Node::Operation(first, mut rest) => {
            rest.push((sign, right));
            Node::Operation(first, rest)
        }
        first => Node::Operation(Box::new(first), vec![(sign, right)]),
    }
}

fn number(digits: &str) -> Node {
    Node::Number(digits.to_owned())
}

impl Reader<'_> {
    fn word(&mut self, word: &str) -> Option<bool> {
        self.parser.eat_word(word).ok()
    }

    fn expect(&mut self, word: &str) -> Option<()> {
        self.parser.expect_word(word).ok()
    }

    fn punct(&mut self, punct: u8) -> Option<bool> {
        self.parser.eat_punct(punct).ok()
    }

    fn expect_punct(&mut self, punct: u8) -> Option<()> {
        self.parser.expect_punct(punct).ok()
    }

    /// Takes one of these signs, written without a blank inside.
    fn sign(&mut self, signs: &[&'static str]) -> Option<Option<&'static str>> {
        if !matches!(self.parser.peek().ok()?, Tok::Punct(_)) {
            return Some(None);
        }
        let rest = self.text.get(self.parser.place().ok()?..)?;
        let Some(sign) = signs.iter().find(|sign| rest.starts_with(**sign)) else { return Some(None) };
        for _ in 0..sign.len() {
            self.parser.take().ok()?;
        }
        Some(Some(sign))
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let beside = std::mem::take(&mut self.height);
        let found = read(self).and_then(|found| self.higher(found));
        self.height = self.height.max(beside);
        self.depth -= 1;
        found
    }

    /// Counts a node around those that were read so far; None where the tree gets too high.
    fn higher<T>(&mut self, node: T) -> Option<T> {
        self.height += 1;
        (self.height <= HEIGHT_MAX).then_some(node)
    }

    fn expression(&mut self) -> Option<Node> {
        self.deeper(Self::or)
    }

    fn or(&mut self) -> Option<Node> {
        let mut list = vec![self.xor()?];
        let concat = self.parser.has_mode(sql_mode::PIPES_AS_CONCAT);
        while self.word("OR")? || !concat && self.sign(&["||"])?.is_some() {
            list.push(self.xor()?);
        }
        joined(list, Node::Or, |node| match node {
            Node::Or(inner) => Ok(inner),
            other => Err(other),
        })
    }

    fn xor(&mut self) -> Option<Node> {
        let mut left = self.and()?;
        while self.word("XOR")? {
            left = Node::Xor(two(condition(left)?, condition(self.and()?)?));
            left = self.higher(left)?;
        }
        Some(left)
    }

    fn and(&mut self) -> Option<Node> {
        let mut list = vec![self.not()?];
        while self.word("AND")? || self.sign(&["&&"])?.is_some() {
            list.push(self.not()?);
        }
        joined(list, Node::And, |node| match node {
            Node::And(inner) => Ok(inner),
            other => Err(other),
        })
    }

    fn not(&mut self) -> Option<Node> {
        if self.word("NOT")? {
            return negated(self.deeper(Self::not)?);
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Option<Node> {
        let mut left = self.predicate()?;
        loop {
            if self.word("IS")? {
                let is_not = self.word("NOT")?;
                let value = Box::new(left);
                left = match self.parser.word_upper().ok()?.as_str() {
                    "NULL" | "UNKNOWN" => Node::IsNull { value, negated: is_not },
                    truth @ ("TRUE" | "FALSE") => {
                        let value = Box::new(condition(*value)?);
                        Node::IsTruth { value, truth: truth == "TRUE", negated: is_not }
                    }
                    _ => return None,
                };
                left = self.higher(left)?;
                self.parser.take().ok()?;
                continue;
            }
            let signs = &["<=>", "<>", "!=", ">=", "<=", "=", "<", ">"];
            let Some(sign) = self.sign(signs)? else { return Some(left) };
            let right = self.predicate()?;
            left = compared(if sign == "!=" { "<>" } else { sign }, left, right)?;
            left = self.higher(left)?;
        }
    }

    fn predicate(&mut self) -> Option<Node> {
        let left = self.level(0)?;
        let is_not = self.word("NOT")?;
        let word = self.parser.word_upper().ok()?;
        let opposite = |node: Node| if is_not { negated(node) } else { Some(node) };
        match word.as_str() {
            "BETWEEN" => {
                self.parser.take().ok()?;
                let low = self.level(0)?;
                self.expect("AND")?;
                let high = self.deeper(Self::predicate)?;
                opposite(Node::Between { parts: Box::new([left, low, high]), negated: false })
            }
            "IN" => {
                self.parser.take().ok()?;
                self.expect_punct(b'(')?;
                let mut list = self.list()?;
                if list.len() == 1 {
                    return opposite(compared("=", left, list.pop()?)?);
                }
                opposite(Node::In { value: Box::new(left), list, negated: false })
            }
            "LIKE" => {
                self.parser.take().ok()?;
                let pattern = self.unary()?;
                let escape = if self.word("ESCAPE")? { Some(Box::new(self.unary()?)) } else { None };
                opposite(Node::Like { sides: two(left, pattern), escape })
            }
            "REGEXP" | "RLIKE" => {
                self.parser.take().ok()?;
                let pattern = self.level(0)?;
                opposite(Node::Call("regexp_like".to_owned(), vec![left, pattern]))
            }
            _ if is_not => None,
            "SOUNDS" => {
                self.parser.take().ok()?;
                self.expect("LIKE")?;
                let sound = |node| Node::Call("soundex".to_owned(), vec![node]);
                let right = self.level(0)?;
                compared("=", sound(left), sound(right))
            }
            "MEMBER" => {
                self.parser.take().ok()?;
                self.word("OF")?;
                self.expect_punct(b'(')?;
                let list = self.expression()?;
                self.expect_punct(b')')?;
                Some(Node::MemberOf(two(left, list)))
            }
            _ => Some(left),
        }
    }

    /// Operators of numbers that bind at least as tightly as those of this level.
    fn level(&mut self, level: usize) -> Option<Node> {
        let Some(signs) = LEVELS.get(level) else { return self.concatenated() };
        if level == TERMS && self.is_interval()? {
            let (amount, unit) = self.interval()?;
            self.expect_punct(b'+')?;
            let date = self.level(TERMS + 1)?;
            let first = Node::Interval { sign: '+', parts: two(date, amount), unit };
            return self.terms(first, level);
        }
        let first = self.level(level + 1)?;
        if level == TERMS {
            return self.terms(first, level);
        }
        let mut left = first;
        loop {
            // `||` and `&&` are other operators.
            let rest = self.text.get(self.parser.place().ok()?..)?;
            if rest.starts_with("||") || rest.starts_with("&&") {
                return Some(left);
            }
            let sign = match self.sign(signs)? {
                Some(sign) => Some(sign),
                None if level == FACTORS && self.word("DIV")? => Some("DIV"),
                None if level == FACTORS && self.word("MOD")? => Some("%"),
                None => None,
            };
            let Some(sign) = sign else { return Some(left) };
            left = operation(left, sign, self.level(level + 1)?);
        }
    }

    /// What follows the first term of a sum.
    fn terms(&mut self, first: Node, level: usize) -> Option<Node> {
        let mut left = first;
        loop {
            let rest = self.text.get(self.parser.place().ok()?..)?;
            if rest.starts_with("->") {
                return None;
            }
            let Some(sign) = self.sign(&["+", "-"])? else { return Some(left) };
            left = if self.is_interval()? {
                let (amount, unit) = self.interval()?;
                let sign = if sign == "+" { '+' } else { '-' };
                self.higher(Node::Interval { sign, parts: two(left, amount), unit })?
            } else {
                operation(left, sign, self.level(level + 1)?)
            };
        }
    }

    /// True at INTERVAL that is not the function.
    fn is_interval(&mut self) -> Option<bool> {
        if !self.parser.is_word("INTERVAL").ok()? {
            return Some(false);
        }
        // `INTERVAL (a + 1) DAY` is told from the function by what follows the brackets.
        if !matches!(self.parser.peek_at(1).ok()?, Tok::Punct(b'(')) {
            return Some(true);
        }
        let (mut at, mut depth) = (2, 1usize);
        while depth > 0 {
            match self.parser.peek_at(at).ok()? {
                Tok::Punct(b'(') => depth += 1,
                Tok::Punct(b')') => depth -= 1,
                Tok::End => return None,
                _ => {}
            }
            at += 1;
        }
        let Tok::Word(word) = self.parser.peek_at(at).ok()? else { return Some(false) };
        let word = String::from_utf8_lossy(word).to_ascii_lowercase();
        Some(UNITS.contains(&word.strip_prefix("sql_tsi_").unwrap_or(&word)))
    }

    /// `INTERVAL amount unit`.
    fn interval(&mut self) -> Option<(Node, String)> {
        self.expect("INTERVAL")?;
        let amount = self.expression()?;
        Some((amount, self.unit()?))
    }

    fn unit(&mut self) -> Option<String> {
        let word = self.parser.word_upper().ok()?.to_ascii_lowercase();
        self.parser.take().ok()?;
        let unit = word.strip_prefix("sql_tsi_").unwrap_or(&word);
        UNITS.contains(&unit).then(|| unit.to_owned())
    }

    fn concatenated(&mut self) -> Option<Node> {
        let mut left = self.unary()?;
        while self.parser.has_mode(sql_mode::PIPES_AS_CONCAT) && self.sign(&["||"])?.is_some() {
            left = Node::Call("concat".to_owned(), vec![left, self.unary()?]);
            left = self.higher(left)?;
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Node> {
        self.deeper(|reader| {
            if reader.punct(b'-')? {
                return Some(Node::Negative(Box::new(reader.unary()?)));
            }
            if reader.punct(b'+')? {
                return reader.unary();
            }
            if reader.punct(b'~')? {
                return Some(Node::Inverted(Box::new(reader.unary()?)));
            }
            if reader.punct(b'!')? {
                return negated(reader.unary()?);
            }
            if reader.word("BINARY")? {
                return Some(Node::Cast(Box::new(reader.unary()?), "char charset binary".to_owned()));
            }
            let mut node = reader.primary()?;
            loop {
                if reader.word("COLLATE")? {
                    let name = reader.parser.collation_name().ok()?.to_ascii_lowercase();
                    node = reader.higher(Node::Collate(Box::new(node), name))?;
                } else {
                    return Some(node);
                }
            }
        })
    }

    fn primary(&mut self) -> Option<Node> {
        match self.parser.peek().ok()? {
            Tok::Number(_) => {
                let Tok::Number(digits) = self.parser.take().ok()? else { return None };
                plain_number(&digits)
            }
            Tok::Str { .. } | Tok::Bytes { .. } => self.text(),
            Tok::Quoted(_) => self.column(),
            Tok::Word(_) => self.named(),
            Tok::Punct(b'(') => {
                self.parser.take().ok()?;
                let mut list = self.list()?;
                if list.len() == 1 { list.pop() } else { Some(Node::Row(list)) }
            }
            Tok::Punct(b'{') => {
                self.parser.take().ok()?;
                let kind = match self.parser.word_upper().ok()?.as_str() {
                    "D" => "DATE",
                    "T" => "TIME",
                    "TS" => "TIMESTAMP",
                    _ => return None,
                };
                self.parser.take().ok()?;
                let node = self.temporal(kind)?;
                self.expect_punct(b'}')?;
                Some(node)
            }
            _ => None,
        }
    }

    /// Expressions up to the closing bracket, which is taken.
    fn list(&mut self) -> Option<Vec<Node>> {
        let mut list = Vec::new();
        if self.punct(b')')? {
            return Some(list);
        }
        loop {
            list.push(self.expression()?);
            if self.punct(b')')? {
                return Some(list);
            }
            self.expect_punct(b',')?;
        }
    }

    fn text(&mut self) -> Option<Node> {
        if let Tok::Bytes { introducer: None, .. } = self.parser.peek().ok()? {
            let Tok::Bytes { bytes, .. } = self.parser.take().ok()? else { return None };
            return Some(Node::Hex(bytes));
        }
        let (mut all, introducer) = match self.parser.take().ok()? {
            Tok::Str { bytes, introducer } | Tok::Bytes { bytes, introducer } => (bytes, introducer),
            _ => return None,
        };
        while let Tok::Str { introducer: None, .. } = self.parser.peek().ok()? {
            let Tok::Str { bytes, .. } = self.parser.take().ok()? else { return None };
            all.extend_from_slice(&bytes);
        }
        let charset = match introducer.map(|name| name.to_ascii_lowercase()) {
            Some(name) if name == "utf8" => "utf8mb3".to_owned(),
            Some(name) => name,
            None => self.connection.to_owned(),
        };
        let text = String::from_utf8(all).ok()?;
        // Text beyond ASCII is printed in its own character set.
        (text.is_ascii() || charset.starts_with("utf8")).then_some(Node::Text { charset, text })
    }

    fn column(&mut self) -> Option<Node> {
        let mut name = self.parser.name().ok()?;
        if self.parser.is_punct(b'(').ok()? {
            return None;
        }
        while self.punct(b'.')? {
            name = self.parser.name().ok()?;
        }
        let node = Node::Column(name);
        if let Some(arrow) = self.sign(&["->>", "->"])? {
            let extract = Node::Call("json_extract".to_owned(), vec![node, self.text()?]);
            return Some(match arrow {
                "->>" => Node::Call("json_unquote".to_owned(), vec![extract]),
                _ => extract,
            });
        }
        Some(node)
    }

    /// A word, and what it begins.
    fn named(&mut self) -> Option<Node> {
        let word = self.parser.word_upper().ok()?;
        let with_brackets = matches!(self.parser.peek_at(1).ok()?, Tok::Punct(b'('));
        let before_text = matches!(self.parser.peek_at(1).ok()?, Tok::Str { .. });
        let lower = word.to_ascii_lowercase();
        match word.as_str() {
            "NULL" | "TRUE" | "FALSE" => {
                self.parser.take().ok()?;
                return Some(match word.as_str() {
                    "NULL" => Node::Null,
                    other => Node::Bool(other == "TRUE"),
                });
            }
            "CASE" => return self.case(),
            "DATE" | "TIME" | "TIMESTAMP" if before_text => {
                self.parser.take().ok()?;
                return self.temporal(if word == "DATE" {
                    "DATE"
                } else if word == "TIME" {
                    "TIME"
                } else {
                    "TIMESTAMP"
                });
            }
            "ROW" if with_brackets => {
                self.parser.take().ok()?;
                self.parser.take().ok()?;
                return Some(Node::Row(self.list()?));
            }
            _ => {}
        }
        if with_brackets {
            self.parser.take().ok()?;
            self.parser.take().ok()?;
            return self.call(&lower);
        }
        if functions::WITHOUT_BRACKETS.contains(&lower.as_str()) {
            self.parser.take().ok()?;
            return Some(Node::Call(functions::printed_name(&lower)?.to_owned(), Vec::new()));
        }
        if word.starts_with('@') || matches!(word.as_str(), "SELECT" | "EXISTS" | "DISTINCT" | "INTERVAL") {
            return None;
        }
        self.column()
    }

    fn temporal(&mut self, kind: &'static str) -> Option<Node> {
        let Node::Text { text, .. } = self.text()? else { return None };
        is_printed_so(kind, &text).then_some(Node::Temporal(kind, text))
    }

    fn case(&mut self) -> Option<Node> {
        self.expect("CASE")?;
        let value = if self.parser.is_word("WHEN").ok()? { None } else { Some(Box::new(self.expression()?)) };
        let mut arms = Vec::new();
        while self.word("WHEN")? {
            let when = self.expression()?;
            self.expect("THEN")?;
            arms.push([when, self.expression()?]);
        }
        let otherwise = if self.word("ELSE")? { Some(Box::new(self.expression()?)) } else { None };
        self.expect("END")?;
        (!arms.is_empty()).then_some(Node::Case { value, arms, otherwise })
    }

    /// A function after its opening bracket.
    fn call(&mut self, name: &str) -> Option<Node> {
        match name {
            "cast" => {
                let inner = self.expression()?;
                self.expect("AS")?;
                let to = self.cast_type()?;
                self.expect_punct(b')')?;
                return Some(Node::Cast(Box::new(inner), to));
            }
            "convert" => {
                let inner = self.expression()?;
                if self.word("USING")? {
                    let charset = self.charset()?;
                    self.expect_punct(b')')?;
                    return Some(Node::ConvertUsing(Box::new(inner), charset));
                }
                self.expect_punct(b',')?;
                let to = self.cast_type()?;
                self.expect_punct(b')')?;
                return Some(Node::Cast(Box::new(inner), to));
            }
            "extract" => {
                let unit = self.unit()?;
                self.expect("FROM")?;
                let inner = self.expression()?;
                self.expect_punct(b')')?;
                return Some(Node::Extract(unit, Box::new(inner)));
            }
            "trim" => return self.trim(),
            "position" => {
                let what = self.level(0)?;
                self.expect("IN")?;
                let text = self.expression()?;
                self.expect_punct(b')')?;
                return Some(Node::Call("locate".to_owned(), vec![what, text]));
            }
            "timestampdiff" | "timestampadd" => {
                let unit = self.unit()?;
                self.expect_punct(b',')?;
                let [one, other] = <[Node; 2]>::try_from(self.list()?).ok()?;
                return Some(match name {
                    "timestampdiff" => Node::TimestampDiff(unit.to_ascii_uppercase(), two(one, other)),
                    _ => Node::Interval { sign: '+', parts: two(other, one), unit },
                });
            }
            "get_format" => {
                let kind = match self.parser.word_upper().ok()?.as_str() {
                    "DATE" => "DATE",
                    "TIME" => "TIME",
                    "DATETIME" | "TIMESTAMP" => "DATETIME",
                    _ => return None,
                };
                self.parser.take().ok()?;
                self.expect_punct(b',')?;
                let [format] = <[Node; 1]>::try_from(self.list()?).ok()?;
                return Some(Node::GetFormat(kind, Box::new(format)));
            }
            "date_add" | "date_sub" | "adddate" | "subdate" => {
                let date = self.expression()?;
                self.expect_punct(b',')?;
                let sign = if matches!(name, "date_add" | "adddate") { '+' } else { '-' };
                let (amount, unit) = if self.is_interval()? {
                    self.interval()?
                } else if matches!(name, "adddate" | "subdate") {
                    (self.expression()?, "day".to_owned())
                } else {
                    return None;
                };
                self.expect_punct(b')')?;
                return Some(Node::Interval { sign, parts: two(date, amount), unit });
            }
            "json_value" => return self.json_value(),
            "substr" | "substring" => {
                let mut arguments = vec![self.expression()?];
                let by_words = self.word("FROM")?;
                if !by_words {
                    self.expect_punct(b',')?;
                }
                arguments.push(self.expression()?);
                if self.word("FOR")? || self.punct(b',')? {
                    arguments.push(self.expression()?);
                }
                self.expect_punct(b')')?;
                return Some(Node::Call("substr".to_owned(), arguments));
            }
            "char" => {
                let mut arguments = vec![self.expression()?];
                while self.punct(b',')? {
                    arguments.push(self.expression()?);
                }
                if self.word("USING")? {
                    self.charset()?;
                }
                self.expect_punct(b')')?;
                return Some(Node::Call("char".to_owned(), arguments));
            }
            "weight_string" => {
                let inner = self.expression()?;
                if self.word("AS")? {
                    self.expect("CHAR")?;
                    self.expect_punct(b'(')?;
                    let len = self.parser.unsigned().ok()?;
                    self.expect_punct(b')')?;
                    self.expect_punct(b')')?;
                    return Some(Node::WeightString(Box::new(inner), len));
                }
                self.expect_punct(b')')?;
                return Some(Node::Call(name.to_owned(), vec![inner]));
            }
            _ => {}
        }
        let arguments = self.list()?;
        rewritten(name, arguments)
    }

    fn trim(&mut self) -> Option<Node> {
        let mode = match self.parser.word_upper().ok()?.as_str() {
            "BOTH" => Some("both "),
            "LEADING" => Some("leading "),
            "TRAILING" => Some("trailing "),
            _ => None,
        };
        if mode.is_some() {
            self.parser.take().ok()?;
            if self.parser.is_word("FROM").ok()? {
                return None;
            }
        }
        let first = self.expression()?;
        if self.word("FROM")? {
            let text = self.expression()?;
            self.expect_punct(b')')?;
            return Some(Node::Trim { mode: mode.unwrap_or_default(), parts: two(first, text) });
        }
        self.expect_punct(b')')?;
        mode.is_none().then(|| Node::Call("trim".to_owned(), vec![first]))
    }

    fn charset(&mut self) -> Option<String> {
        let name = self.parser.charset_name().ok()?.to_ascii_lowercase();
        Some(if name == "utf8" { "utf8mb3".to_owned() } else { name })
    }

    /// `(n)`, if it is next.
    fn length(&mut self) -> Option<String> {
        if !self.punct(b'(')? {
            return Some(String::new());
        }
        let len = self.parser.unsigned().ok()?;
        self.expect_punct(b')')?;
        Some(format!("({len})"))
    }

    /// `(n)`, if it is next and not 0, which the source does not print as the digits of a second.
    fn digits(&mut self) -> Option<String> {
        self.length().map(|digits| if digits == "(0)" { String::new() } else { digits })
    }

    /// A type in CAST and CONVERT, as it is printed.
    fn cast_type(&mut self) -> Option<String> {
        let word = self.parser.word_upper().ok()?;
        self.parser.take().ok()?;
        // The element type of an array is printed in its own way where that is noted here.
        let mut element = None;
        let to = match word.as_str() {
            "CHAR" | "CHARACTER" => {
                let len = self.length()?;
                element = Some(format!("char{len}"));
                let charset = if self.word("CHARACTER")? {
                    self.expect("SET")?;
                    self.charset()?
                } else if self.word("CHARSET")? {
                    self.charset()?
                } else if self.word("ASCII")? {
                    "latin1".to_owned()
                } else if self.word("UNICODE")? {
                    "ucs2".to_owned()
                } else {
                    self.connection.to_owned()
                };
                self.word("BINARY")?;
                format!("char{len} charset {charset}")
            }
            "NCHAR" => format!("char{} charset utf8mb3", self.length()?),
            "BINARY" => {
                let len = self.length()?;
                element = Some(format!("binary{len}"));
                format!("char{len} charset binary")
            }
            "SIGNED" | "UNSIGNED" => {
                let _ = self.word("INTEGER")? || self.word("INT")?;
                word.to_ascii_lowercase()
            }
            "DECIMAL" | "DEC" => {
                let (precision, scale) = self.decimal()?;
                element = Some(format!("decimal({precision}, {scale})"));
                format!("decimal({precision},{scale})")
            }
            "DATE" | "YEAR" | "JSON" => word.to_ascii_lowercase(),
            "TIME" | "DATETIME" => format!("{}{}", word.to_ascii_lowercase(), self.digits()?),
            "FLOAT" => match self.length()?.trim_matches(['(', ')']).parse::<u32>() {
                Ok(bits) if bits > 24 => "double".to_owned(),
                _ => "float".to_owned(),
            },
            "DOUBLE" => {
                self.word("PRECISION")?;
                "double".to_owned()
            }
            "REAL" if self.parser.has_mode(sql_mode::REAL_AS_FLOAT) => "float".to_owned(),
            "REAL" => "double".to_owned(),
            other => {
                let name = other.to_ascii_lowercase();
                GEOMETRIES.contains(&name.as_str()).then_some(name)?
            }
        };
        Some(if self.word("ARRAY")? { format!("{} array", element.unwrap_or(to)) } else { to })
    }

    /// Precision and scale of a DECIMAL.
    fn decimal(&mut self) -> Option<(u64, u64)> {
        let (mut precision, mut scale) = (0, 0);
        if self.punct(b'(')? {
            precision = self.parser.unsigned().ok()?;
            if self.punct(b',')? {
                scale = self.parser.unsigned().ok()?;
            }
            self.expect_punct(b')')?;
        }
        Some((if precision == 0 { 10 } else { precision }, scale))
    }

    fn json_value(&mut self) -> Option<Node> {
        let document = self.expression()?;
        self.expect_punct(b',')?;
        let path = self.text()?;
        let mut clauses = String::from(" returning ");
        if self.word("RETURNING")? {
            let word = self.parser.word_upper().ok()?;
            self.parser.take().ok()?;
            clauses.push_str(&match word.as_str() {
                "SIGNED" | "UNSIGNED" | "DATE" | "YEAR" | "JSON" | "DOUBLE" | "FLOAT" => word.to_ascii_lowercase(),
                "TIME" | "DATETIME" => format!("{}{}", word.to_ascii_lowercase(), self.digits()?),
                "DECIMAL" => {
                    let (precision, scale) = self.decimal()?;
                    format!("decimal({precision}, {scale})")
                }
                "CHAR" => {
                    let len = self.length()?;
                    let charset = if self.word("CHARACTER")? {
                        self.expect("SET")?;
                        format!(" character set {}", self.charset()?)
                    } else if self.word("CHARSET")? {
                        format!(" character set {}", self.charset()?)
                    } else {
                        String::new()
                    };
                    // Without a length the server gives one.
                    if len.is_empty() {
                        return None;
                    }
                    format!("char{len}{charset}")
                }
                _ => return None,
            });
        } else {
            clauses.push_str("char(512)");
        }
        while !self.parser.is_punct(b')').ok()? {
            let answer = match self.parser.word_upper().ok()?.as_str() {
                "NULL" => " null".to_owned(),
                "ERROR" => " error".to_owned(),
                "DEFAULT" => String::new(),
                _ => return None,
            };
            self.parser.take().ok()?;
            let answer = if answer.is_empty() { format!(" default {}", self.json_default()?) } else { answer };
            self.expect("ON")?;
            let when = if self.word("EMPTY")? {
                "empty"
            } else {
                self.expect("ERROR")?;
                "error"
            };
            clauses.push_str(&format!("{answer} on {when}"));
        }
        self.expect_punct(b')')?;
        Some(Node::JsonValue(two(document, path), clauses))
    }

    fn json_default(&mut self) -> Option<String> {
        let minus = if self.punct(b'-')? { "-" } else { "" };
        Some(match self.primary()? {
            Node::Number(digits) => format!("{minus}{digits}"),
            Node::Text { charset, text } if minus.is_empty() => {
                let mut out = String::new();
                literal(&charset, &text, &mut out);
                out
            }
            _ => return None,
        })
    }
}

/// AND and OR of more than one operand, with those of the same operator in it among its own.
fn joined(
    mut list: Vec<Node>,
    join: impl Fn(Vec<Node>) -> Node,
    inner: impl Fn(Node) -> Result<Vec<Node>, Node>,
) -> Option<Node> {
    if list.len() == 1 {
        return list.pop();
    }
    let mut all = Vec::new();
    for node in list {
        match inner(node) {
            Ok(nodes) => all.extend(nodes),
            Err(node) => all.push(condition(node)?),
        }
    }
    Some(join(all))
}

/// A comparison; of rows, one of each of their parts where the source makes it so.
fn compared(sign: &'static str, left: Node, right: Node) -> Option<Node> {
    match (left, right) {
        (Node::Row(left), Node::Row(right)) if matches!(sign, "=" | "<>" | "<=>") => {
            if left.len() != right.len() {
                return None;
            }
            let parts = left.into_iter().zip(right).map(|(left, right)| compared(sign, left, right));
            let parts = parts.collect::<Option<Vec<_>>>()?;
            Some(if sign == "<>" { Node::Or(parts) } else { Node::And(parts) })
        }
        (left, right) => Some(Node::Compare(sign, two(left, right))),
    }
}

/// A function that is printed as another expression, or under its own name.
fn rewritten(name: &str, arguments: Vec<Node>) -> Option<Node> {
    let call = |name: &str, arguments: Vec<Node>| Some(Node::Call(name.to_owned(), arguments));
    let count = arguments.len();
    let mut all = arguments.into_iter();
    let first = all.next();
    match (name, count, first) {
        ("isnull", 1, Some(value)) => Some(Node::IsNull { value: Box::new(value), negated: false }),
        ("mod", 2, Some(left)) => Some(operation(left, "%", all.next()?)),
        ("instr", 2, Some(text)) => call("locate", vec![all.next()?, text]),
        ("bin", 1, Some(value)) => call("conv", vec![value, number("10"), number("2")]),
        ("oct", 1, Some(value)) => call("conv", vec![value, number("10"), number("8")]),
        ("week" | "yearweek", 1, Some(value)) => call(name, vec![value, number("0")]),
        ("weekofyear", 1, Some(value)) => call("week", vec![value, number("3")]),
        ("round", 1, Some(value)) => call(name, vec![value, number("0")]),
        ("date", 1, Some(value)) => Some(Node::Cast(Box::new(value), "date".to_owned())),
        ("time", 1, Some(value)) => Some(Node::Cast(Box::new(value), "time".to_owned())),
        ("timestamp", 1, Some(value)) => Some(Node::Cast(Box::new(value), "datetime".to_owned())),
        ("from_unixtime", 2, Some(value)) => {
            call("date_format", vec![Node::Call("from_unixtime".to_owned(), vec![value]), all.next()?])
        }
        ("datediff", 2, Some(left)) => {
            let days = |node| Node::Call("to_days".to_owned(), vec![node]);
            Some(operation(days(left), "-", days(all.next()?)))
        }
        ("json_length", 2, Some(document)) => {
            call(name, vec![Node::Call("json_extract".to_owned(), vec![document, all.next()?])])
        }
        (_, _, first) => {
            let arguments = first.into_iter().chain(all).collect();
            call(functions::printed_name(name)?, arguments)
        }
    }
}

/// A number as it is printed; None for a form that was not tried.
fn plain_number(digits: &str) -> Option<Node> {
    if digits.contains(['e', 'E']) {
        return digits.starts_with(|digit: char| digit.is_ascii_digit()).then(|| number(digits));
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if fraction.is_empty() { number(whole) } else { Node::Number(format!("{whole}.{fraction}")) })
}

/// True if a literal's text is in the form in which it is printed.
fn is_printed_so(kind: &str, text: &str) -> bool {
    let form = |text: &str| -> String {
        text.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect()
    };
    let (main, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_fraction = !fraction.is_empty() && fraction.len() <= 6 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let wanted = match kind {
        "DATE" => "0000-00-00",
        "TIME" => "00:00:00",
        _ => "0000-00-00 00:00:00",
    };
    form(main) == wanted && is_fraction && !(kind == "DATE" && text.contains('.'))
}
