//! Expressions, by MySQL's precedences.

use catalog::lexer::Tok;
use catalog::sql_mode::{HIGH_NOT_PRECEDENCE, PIPES_AS_CONCAT};

use super::Parser;
use crate::Result;
use crate::ast::{Comparison, Expression, Scope};
use crate::invalid::said_of_literal;

/// NOT before an expression: comparisons bind more tightly.
pub(super) const NOT: u8 = 4;
/// Comparisons, and IS: each may stand to the left of another.
pub(super) const COMPARISON: u8 = 5;
/// IN, BETWEEN, LIKE, REGEXP, MEMBER OF and SOUNDS LIKE: to their left stands none of them and no comparison.
pub(super) const PREDICATE: u8 = 6;
/// The operators of bits and all that bind more tightly (`bit_expr`, sql/sql_yacc.yy).
pub(super) const OPERAND: u8 = 7;
/// What binds more tightly than signs of numbers (`simple_expr`).
pub(super) const SIMPLE: u8 = 13;

/// Binary operators of words, with their precedence; a higher one binds more tightly.
const WORD_OPERATORS: &[(&str, u8)] = &[
    ("OR", 1),
    ("XOR", 2),
    ("AND", 3),
    ("IS", COMPARISON),
    ("LIKE", PREDICATE),
    ("REGEXP", PREDICATE),
    ("RLIKE", PREDICATE),
    ("IN", PREDICATE),
    ("MEMBER", PREDICATE),
    ("SOUNDS", PREDICATE),
    ("BETWEEN", PREDICATE),
    ("NOT", PREDICATE),
    ("DIV", 11),
    ("MOD", 11),
    ("COLLATE", 14),
];

/// Binary operators of signs, the longest first.
const SIGN_OPERATORS: &[(&str, u8)] = &[
    ("->>", 15),
    ("<=>", COMPARISON),
    ("->", 15),
    (":=", 0),
    ("||", 1),
    ("&&", 3),
    ("<>", COMPARISON),
    ("!=", COMPARISON),
    (">=", COMPARISON),
    ("<=", COMPARISON),
    ("<<", 9),
    (">>", 9),
    ("=", COMPARISON),
    ("<", COMPARISON),
    (">", COMPARISON),
    ("|", OPERAND),
    ("&", 8),
    ("+", 10),
    ("-", 10),
    ("*", 11),
    ("/", 11),
    ("%", 11),
    ("^", 12),
];

/// Operators whose right side has a syntax of its own.
const CONDITIONS: &[&str] = &["IS", "IN", "BETWEEN", "LIKE", "NOT", "MEMBER", "SOUNDS"];

/// Signs that MySQL is going to drop.
const DEPRECATED: &[(&str, &str)] = &[
    ("&&", "'&&' is deprecated and will be removed in a future release. Please use AND instead"),
    ("||", "'|| as a synonym for OR' is deprecated and will be removed in a future release. Please use OR instead"),
    ("!", "'!' is deprecated and will be removed in a future release. Please use NOT instead"),
];

/// Reserved words that begin an expression of a form of its own.
const FORMS: &[&str] = &["CASE", "CONVERT", "EXISTS", "INTERVAL", "MATCH", "SELECT", "BINARY", "ROW"];

/// Words that begin a literal where a string follows, and are names elsewhere.
const TEMPORAL: &[&str] = &["DATE", "TIME", "TIMESTAMP"];

/// Reserved words that begin no expression.
const RESERVED: &[&str] = &[
    "ALL",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "DESC",
    "DISTINCT",
    "DIV",
    "ELSE",
    "FOR",
    "FROM",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INTO",
    "IS",
    "JOIN",
    "LIKE",
    "LIMIT",
    "LOCK",
    "NATURAL",
    "NOT",
    "ON",
    "OR",
    "ORDER",
    "PROCEDURE",
    "REGEXP",
    "RLIKE",
    "SET",
    "TABLE",
    "THEN",
    "UNION",
    "UPDATE",
    "USING",
    "WHEN",
    "WHERE",
    "WITH",
    "XOR",
];

/// Functions that MySQL allows without brackets.
const WITHOUT_BRACKETS: &[&str] = &[
    "CURRENT_USER",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "UTC_DATE",
    "UTC_TIME",
    "UTC_TIMESTAMP",
];

/// The construct of a cast to text.
pub(crate) const CAST_AS_CHAR: &str = "CAST(… AS CHAR)";

/// `$$` and `$tag$` begin text of a routine in another language, which is no expression.
fn begins_dollar_quotes(word: &str) -> bool {
    word.strip_prefix('$').is_some_and(|rest| rest.contains('$'))
}

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Result<Expression> {
        self.deeper(|parser| parser.binary(0))
    }

    /// An expression of operators that bind at least as tightly as `least`.
    pub(super) fn binary(&mut self, least: u8) -> Result<Expression> {
        let (left, tightness) = self.first_operand(least)?;
        self.operators_after(left, tightness, least)
    }

    /// The expression of operators that begins with `left`, whose last operator binds by `tightness`. Inlined, so that
    /// each operand takes one frame of the stack less.
    #[inline(always)]
    fn operators_after(&mut self, mut left: Expression, mut tightness: u8, least: u8) -> Result<Expression> {
        while let Some((name, precedence, signs)) = self.operator() {
            let may_follow = precedence < tightness || precedence == tightness && precedence != PREDICATE;
            if precedence < least || !may_follow {
                break;
            }
            if precedence < OPERAND {
                self.warn_of_sign(name);
            }
            for _ in 0..signs {
                self.advance()?;
            }
            if CONDITIONS.contains(&name) {
                (left, tightness) = self.condition(name, left)?;
                self.higher()?;
                continue;
            }
            // What follows it is a name, which is not parsed: the statement is refused all the same.
            if name == "COLLATE" {
                return Err(crate::SqlError::not_supported(name));
            }
            let right = self.deeper(|parser| parser.binary(precedence + 1))?;
            left = self.joined(name, left, right)?;
            tightness = precedence;
        }
        Ok(left)
    }

    /// What stands before the first binary operator, and how tightly it binds.
    fn first_operand(&mut self, least: u8) -> Result<(Expression, u8)> {
        if least > NOT || self.has_mode(HIGH_NOT_PRECEDENCE) || !self.accept("NOT")? {
            return Ok((self.unary()?, u8::MAX));
        }
        let operand = self.deeper(|parser| parser.binary(NOT))?;
        Ok((Expression::Other { construct: "operator NOT".to_owned(), operands: vec![operand] }, NOT))
    }

    fn warn_of_sign(&mut self, sign: &str) {
        if let Some((_, text)) = DEPRECATED.iter().find(|(own, _)| *own == sign) {
            self.notes.add(1287, text);
        }
    }

    /// Two expressions and the operator between them. A list that the left one is takes the right one too.
    fn joined(&mut self, name: &'static str, mut left: Expression, right: Expression) -> Result<Expression> {
        let is_and = matches!(name, "AND" | "&&");
        match (&mut left, Comparison::of(name)) {
            (Expression::And(list), None) if is_and => {
                list.push(right);
                return Ok(left);
            }
            (Expression::Chain { rest, .. }, None) if !is_and => {
                rest.push((name, right));
                return Ok(left);
            }
            _ => self.higher()?,
        }
        Ok(match Comparison::of(name) {
            Some(operator) => Expression::Compare { operator, sides: Box::new((left, right)) },
            None if is_and => Expression::And(vec![left, right]),
            None => Expression::Chain { first: Box::new(left), rest: vec![(name, right)] },
        })
    }

    /// The operator at the current token, its precedence and its number of tokens.
    fn operator(&self) -> Option<(&'static str, u8, usize)> {
        match &self.current.tok {
            Tok::Word(_) => WORD_OPERATORS.iter().find(|(word, _)| self.is(word)).map(|(word, p)| (*word, *p, 1)),
            Tok::Punct(_) => {
                let text = self.sql.get(self.current.start..).unwrap_or_default();
                let (sign, precedence) = SIGN_OPERATORS.iter().find(|(sign, _)| text.starts_with(sign.as_bytes()))?;
                let concatenates = *sign == "||" && self.has_mode(PIPES_AS_CONCAT);
                Some((*sign, if concatenates { SIMPLE } else { *precedence }, sign.len()))
            }
            _ => None,
        }
    }

    fn unary(&mut self) -> Result<Expression> {
        if self.accept_punct(b'-')? {
            let operand = self.deeper(Self::unary)?;
            return Ok(Expression::Negative(Box::new(operand)));
        }
        if self.accept_punct(b'+')? {
            return self.deeper(Self::unary);
        }
        if self.is_punct(b'!') {
            self.warn_of_sign("!");
        }
        for (sign, name) in [(b'!', "operator !"), (b'~', "operator ~")] {
            if self.accept_punct(sign)? {
                let operand = self.deeper(Self::unary)?;
                return Ok(Expression::Other { construct: name.to_owned(), operands: vec![operand] });
            }
        }
        if self.has_mode(HIGH_NOT_PRECEDENCE) && self.accept("NOT")? {
            let operand = self.deeper(Self::unary)?;
            return Ok(Expression::Other { construct: "operator NOT".to_owned(), operands: vec![operand] });
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Expression> {
        let expression = match &mut self.current.tok {
            Tok::Number(digits) => Expression::Number(std::mem::take(digits)),
            Tok::Bytes { .. } => return self.bytes(),
            Tok::Str { .. } => return self.string(),
            Tok::Variable => return self.variable(),
            Tok::Quoted(_) => return self.column(),
            Tok::Word(_) => return self.word_expression(),
            Tok::Punct(b'*') => Expression::Star(Vec::new()),
            Tok::Punct(b'?') => return self.parameter(),
            Tok::Punct(b'(') => return self.in_brackets(),
            Tok::Punct(b'{') => return self.escape(),
            _ => return Err(self.syntax()),
        };
        self.advance()?;
        Ok(expression)
    }

    /// Brackets directly in each other take no depth: clients write thousands of them.
    fn in_brackets(&mut self) -> Result<Expression> {
        let mut open = 0_usize;
        while self.accept_punct(b'(')? {
            open += 1;
        }
        if self.is("SELECT") {
            return Err(crate::SqlError::not_supported("subquery"));
        }
        let mut inner = self.expression()?;
        loop {
            if self.is_punct(b',') {
                return Err(crate::SqlError::not_supported("row constructor"));
            }
            self.expect_punct(b')')?;
            open -= 1;
            if open == 0 {
                return Ok(inner);
            }
            inner = self.more_operators(inner)?;
        }
    }

    /// The expression in brackets that begins with `first`, which stood in brackets itself.
    #[inline(never)]
    fn more_operators(&mut self, first: Expression) -> Result<Expression> {
        self.operators_after(first, u8::MAX, 0)
    }

    /// The character set in `_utf8mb3'…'` and `N'…'`.
    fn warn_of_introducer(&mut self) {
        let (Tok::Str { introducer, .. } | Tok::Bytes { introducer, .. }) = &self.current.tok else { return };
        let Some(name) = introducer else { return };
        if matches!(self.text(self.current.start, self.current.end), [b'N' | b'n', ..]) {
            let text = "NATIONAL/NCHAR/NVARCHAR implies the character set UTF8MB3, which will be replaced by UTF8MB4 \
                        in a future release. Please consider using CHAR(x) CHARACTER SET UTF8MB4 in order to be \
                        unambiguous.";
            self.notes.add(3720, text);
        } else {
            self.notes.charset(name);
        }
    }

    /// Adjacent strings are one.
    fn string(&mut self) -> Result<Expression> {
        self.warn_of_introducer();
        let (mut all, mut first_len, mut charset) = (Vec::new(), None, None);
        while let Tok::Str { bytes, introducer } = &mut self.current.tok {
            if first_len.is_none() {
                (all, charset) = (std::mem::take(bytes), introducer.take());
                first_len = Some(all.len());
            } else if introducer.is_some() {
                break;
            } else {
                all.extend_from_slice(bytes);
            }
            self.advance()?;
        }
        self.warn_of_no_text(&all, charset.as_deref());
        Ok(Expression::Text { first_len: first_len.unwrap_or_default(), bytes: all, introducer: charset })
    }

    /// A literal with bytes that are in no character of its character set.
    pub(super) fn warn_of_no_text(&mut self, bytes: &[u8], introducer: Option<&str>) {
        let charset = introducer.unwrap_or(self.charsets.client_charset());
        if let Some(said) = said_of_literal(charset, bytes) {
            self.notes.add(1300, &said);
        }
    }

    /// A hexadecimal or bit literal.
    fn bytes(&mut self) -> Result<Expression> {
        self.warn_of_introducer();
        let text = self.text(self.current.start, self.current.end);
        let is_bits = matches!(text, [b'b' | b'B', ..] | [b'0', b'b', ..]);
        let Tok::Bytes { bytes, introducer } = &mut self.current.tok else { return Err(self.syntax()) };
        let expression = Expression::Bytes { bytes: std::mem::take(bytes), is_bits, introducer: introducer.take() };
        self.advance()?;
        Ok(expression)
    }

    pub(super) fn parameter(&mut self) -> Result<Expression> {
        self.advance()?;
        self.parameters += 1;
        if self.parameters > usize::from(u16::MAX) {
            return Err(crate::SqlError::new(1390, "HY000", "Prepared statement contains too many placeholders"));
        }
        Ok(Expression::Parameter(self.parameters - 1))
    }

    fn variable(&mut self) -> Result<Expression> {
        let expression = match self.system_variable()? {
            Some((scope, name)) => {
                self.notes.reads(scope, &name);
                Expression::Variable { scope, name }
            }
            None => Expression::UserVariable(self.user_variable()?),
        };
        self.advance()?;
        Ok(expression)
    }

    /// Scope and name of the current token; None for a user variable.
    pub(super) fn system_variable(&mut self) -> Result<Option<(Option<Scope>, String)>> {
        let text = self.text(self.current.start, self.current.end);
        let Some(text) = text.strip_prefix(b"@@") else { return Ok(None) };
        let text: Vec<u8> = text.iter().copied().filter(|byte| *byte != b'`').collect();
        let text = String::from_utf8_lossy(&self.in_names(text)?).to_ascii_lowercase();
        let scoped = |scope, prefix: &str| text.strip_prefix(prefix).map(|name| (Some(scope), name.to_owned()));
        let found = scoped(Scope::Global, "global.")
            .or_else(|| scoped(Scope::Session, "session."))
            .or_else(|| scoped(Scope::Session, "local."))
            .or_else(|| scoped(Scope::Persist, "persist."))
            .or_else(|| scoped(Scope::Persist, "persist_only."));
        Ok(found.or(Some((None, text))))
    }

    /// The user variable at the current token: its name, as written, in UTF-8.
    pub(super) fn user_variable(&mut self) -> Result<Vec<u8>> {
        let name = self.text(self.current.start, self.current.end).to_vec();
        let Some((quote @ (b'`' | b'\'' | b'"'), rest)) = name.get(1..).and_then(<[u8]>::split_first) else {
            return self.in_names(name);
        };
        // What the name loses at its end does not take the quote.
        let inner = rest.strip_suffix(&[*quote]).unwrap_or(rest).to_vec();
        let inner = self.in_names(inner)?;
        Ok([&[b'@', *quote][..], &inner, &[*quote]].concat())
    }

    fn word_expression(&mut self) -> Result<Expression> {
        let word = self.word();
        let constant = match word.as_str() {
            "NULL" => Some(Expression::Null),
            "TRUE" => Some(Expression::Bool(true)),
            "FALSE" => Some(Expression::Bool(false)),
            _ => None,
        };
        if let Some(constant) = constant {
            self.advance()?;
            return Ok(constant);
        }
        if RESERVED.contains(&word.as_str()) || begins_dollar_quotes(&word) {
            return Err(self.syntax());
        }
        let begins_form = FORMS.contains(&word.as_str());
        let is_call = self.text(self.current.end, self.sql.len()).trim_ascii_start().starts_with(b"(");
        if self.is_reserved() && !is_call && !begins_form && !WITHOUT_BRACKETS.contains(&word.as_str()) {
            return Err(self.syntax());
        }
        let name = self.any_word()?;
        if self.is_punct(b'(') && word == "CAST" {
            return self.cast();
        }
        if self.is_punct(b'(') {
            return self.call(String::from_utf8_lossy(&name).into_owned(), begins_form);
        }
        if WITHOUT_BRACKETS.contains(&word.as_str()) {
            return Ok(Expression::Call { name: word, arguments: Vec::new() });
        }
        if begins_form && !self.at_end() && !self.is_punct(b',') {
            return Err(crate::SqlError::not_supported(&word));
        }
        if TEMPORAL.contains(&word.as_str()) && matches!(self.current.tok, Tok::Str { .. }) {
            return Err(crate::SqlError::not_supported(&format!("{word} '…'")));
        }
        self.column_after(name)
    }

    /// `{d '2020-01-01'}` and the like.
    fn escape(&mut self) -> Result<Expression> {
        self.advance()?;
        self.name()?;
        let operand = self.expression()?;
        self.expect_punct(b'}')?;
        Ok(Expression::Other { construct: "the escape {…}".to_owned(), operands: vec![operand] })
    }

    /// `CAST(… AS CHAR[(n)])`; other types are refused.
    fn cast(&mut self) -> Result<Expression> {
        self.advance()?;
        let mut operands = vec![self.expression()?];
        self.expect("AS")?;
        if !self.accept("CHAR")? {
            return Err(crate::SqlError::not_supported(&format!("CAST(… AS {})", self.word())));
        }
        if self.accept_punct(b'(')? {
            match &self.current.tok {
                Tok::Number(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    operands.push(Expression::Number(digits.clone()));
                }
                _ => return Err(self.syntax()),
            }
            self.advance()?;
            self.expect_punct(b')')?;
        }
        if !self.is_punct(b')') {
            return Err(crate::SqlError::not_supported("CAST(… AS CHAR …)"));
        }
        self.advance()?;
        Ok(Expression::Other { construct: CAST_AS_CHAR.to_owned(), operands })
    }

    fn call(&mut self, name: String, begins_form: bool) -> Result<Expression> {
        if begins_form {
            return Err(crate::SqlError::not_supported(&name.to_ascii_uppercase()));
        }
        self.advance()?;
        let mut arguments = Vec::new();
        if self.accept_punct(b')')? {
            self.notes.calls(&name);
            return Ok(Expression::Call { name, arguments });
        }
        if self.is_one_of(&["DISTINCT", "ALL"]) {
            return Err(crate::SqlError::not_supported(&format!("{}()", name.to_ascii_uppercase())));
        }
        loop {
            arguments.push(self.expression()?);
            if self.accept_punct(b')')? {
                return Ok(Expression::Call { name, arguments });
            }
            if !self.is_punct(b',') {
                // FROM, SEPARATOR, USING, AS …: functions of a syntax of their own.
                return match self.current.tok {
                    Tok::Word(_) => Err(crate::SqlError::not_supported(&format!("{}()", name.to_ascii_uppercase()))),
                    _ => Err(self.syntax()),
                };
            }
            self.advance()?;
        }
    }

    fn column(&mut self) -> Result<Expression> {
        let name = self.name()?;
        if self.is_punct(b'(') {
            return self.call(String::from_utf8_lossy(&name).into_owned(), false);
        }
        self.column_after(name)
    }

    fn column_after(&mut self, first: Vec<u8>) -> Result<Expression> {
        let mut parts = vec![first];
        while parts.len() < 3 && self.accept_punct(b'.')? {
            if self.accept_punct(b'*')? {
                return Ok(Expression::Star(parts));
            }
            parts.push(self.name()?);
        }
        Ok(Expression::Name(parts))
    }
}
