//! Expressions over integers, as MySQL allows them in PARTITION BY and in the bounds of partitions.
//!
//! In: tokens. Out: a tree, and its text with every name quoted and every operation in parentheses. Never here: values
//! (`evaluate`), a function or operator that MySQL refuses in a partitioning expression.

use std::fmt;

use crate::context::StatementContext;
use crate::error::Problem;
use crate::lexer::Tok;
use crate::parser::Parser;

/// Deepest nesting that is parsed; evaluation recurses as deep.
const DEPTH_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    Column(String),
    /// A whole number without a sign. It is unsigned if it exceeds a signed BIGINT.
    Number(u64),
    /// Text, which only constants have.
    Text(String),
    Negated(Box<Expression>),
    /// Operators, each applied to all that stands before it. One list, so that a text of many terms makes no deep tree.
    Operation(Box<Expression>, Vec<(Operator, Expression)>),
    Call(Function, Vec<Expression>),
    Extract(Unit, Box<Expression>),
}

macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum $name { $($variant,)+ }

        impl $name {
            #[allow(dead_code, reason = "operators are parsed by their tokens")]
            fn by_name(name: &str) -> Option<$name> {
                match name { $($text => Some($name::$variant),)+ _ => None }
            }

            fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }
    };
}

named! {
    /// An operator between two numbers. `MOD(a, b)` is the operator too.
    Operator {
        Plus = "+",
        Minus = "-",
        Times = "*",
        Div = "DIV",
        Mod = "%",
    }
}

named! {
    /// A function that MySQL allows in a partitioning expression.
    Function {
        Abs = "ABS",
        Ceiling = "CEILING",
        Floor = "FLOOR",
        DateDiff = "DATEDIFF",
        Day = "DAYOFMONTH",
        DayOfWeek = "DAYOFWEEK",
        DayOfYear = "DAYOFYEAR",
        Hour = "HOUR",
        Microsecond = "MICROSECOND",
        Minute = "MINUTE",
        Month = "MONTH",
        Quarter = "QUARTER",
        Second = "SECOND",
        TimeToSec = "TIME_TO_SEC",
        ToDays = "TO_DAYS",
        ToSeconds = "TO_SECONDS",
        UnixTimestamp = "UNIX_TIMESTAMP",
        Weekday = "WEEKDAY",
        Year = "YEAR",
        YearWeek = "YEARWEEK",
    }
}

named! {
    /// A unit of EXTRACT.
    Unit {
        Year = "YEAR",
        YearMonth = "YEAR_MONTH",
        Quarter = "QUARTER",
        Month = "MONTH",
        Day = "DAY",
        DayHour = "DAY_HOUR",
        DayMinute = "DAY_MINUTE",
        DaySecond = "DAY_SECOND",
        DayMicrosecond = "DAY_MICROSECOND",
        Hour = "HOUR",
        HourMinute = "HOUR_MINUTE",
        HourSecond = "HOUR_SECOND",
        HourMicrosecond = "HOUR_MICROSECOND",
        Minute = "MINUTE",
        MinuteSecond = "MINUTE_SECOND",
        MinuteMicrosecond = "MINUTE_MICROSECOND",
        Second = "SECOND",
        SecondMicrosecond = "SECOND_MICROSECOND",
        Microsecond = "MICROSECOND",
    }
}

impl Expression {
    /// Parses the text that [`fmt::Display`] writes; None for any other expression.
    pub(super) fn of_text(text: &str) -> Option<Expression> {
        let context = StatementContext::default();
        let mut parser = Parser::new(&context, text.as_bytes());
        let parsed = Expression::parse(&mut parser).ok()?;
        parser.expect_end().ok()?;
        Some(parsed)
    }

    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Expression, Problem> {
        sum(parser, DEPTH_MAX)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Column(name) => write!(f, "`{}`", name.replace('`', "``")),
            Expression::Number(number) => write!(f, "{number}"),
            Expression::Text(text) => write!(f, "'{}'", text.replace('\\', "\\\\").replace('\'', "''")),
            Expression::Negated(of) => write!(f, "-({of})"),
            Expression::Operation(first, rest) => {
                rest.iter().try_for_each(|_| f.write_str("("))?;
                write!(f, "{first}")?;
                rest.iter().try_for_each(|(operator, operand)| write!(f, " {} {operand})", operator.name()))
            }
            Expression::Call(function, arguments) => {
                write!(f, "{}(", function.name())?;
                for (at, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Expression::Extract(unit, of) => write!(f, "EXTRACT({} FROM {of})", unit.name()),
        }
    }
}

fn operation(left: Expression, operator: Operator, right: Expression) -> Expression {
    match left {
        Expression::Operation(first, mut rest) => {
            rest.push((operator, right));
            Expression::Operation(first, rest)
        }
        first => Expression::Operation(Box::new(first), vec![(operator, right)]),
    }
}

fn sum(parser: &mut Parser<'_>, depth: usize) -> Result<Expression, Problem> {
    let first = signed(parser, depth)?;
    sum_after(first, parser, depth)
}

/// A sum whose first factor was taken.
fn sum_after(first: Expression, parser: &mut Parser<'_>, depth: usize) -> Result<Expression, Problem> {
    let mut left = product_after(first, parser, depth)?;
    loop {
        let operator = match parser.peek()? {
            Tok::Punct(b'+') => Operator::Plus,
            Tok::Punct(b'-') => Operator::Minus,
            _ => return Ok(left),
        };
        parser.take()?;
        let factor = signed(parser, depth)?;
        left = operation(left, operator, product_after(factor, parser, depth)?);
    }
}

/// A product whose first factor was taken.
fn product_after(first: Expression, parser: &mut Parser<'_>, depth: usize) -> Result<Expression, Problem> {
    let mut left = first;
    loop {
        let operator = match parser.peek()? {
            Tok::Punct(b'*') => Operator::Times,
            Tok::Punct(b'%') => Operator::Mod,
            Tok::Word(word) if word.eq_ignore_ascii_case(b"DIV") => Operator::Div,
            Tok::Word(word) if word.eq_ignore_ascii_case(b"MOD") => Operator::Mod,
            _ => return Ok(left),
        };
        parser.take()?;
        left = operation(left, operator, signed(parser, depth)?);
    }
}

fn signed(parser: &mut Parser<'_>, depth: usize) -> Result<Expression, Problem> {
    let Some(depth) = depth.checked_sub(1) else { return parser.wrong("a less deeply nested expression expected") };
    if parser.eat_punct(b'-')? {
        return Ok(Expression::Negated(Box::new(signed(parser, depth)?)));
    }
    if parser.eat_punct(b'+')? {
        return signed(parser, depth);
    }
    // A sum of many terms is written with as many brackets before the first one.
    let mut brackets = 0u32;
    while parser.eat_punct(b'(')? {
        brackets += 1;
    }
    if brackets > 0 {
        let mut inner = sum(parser, depth)?;
        parser.expect_punct(b')')?;
        for _ in 1..brackets {
            inner = sum_after(inner, parser, depth)?;
            parser.expect_punct(b')')?;
        }
        return Ok(inner);
    }
    if matches!(parser.peek()?, Tok::Word(_)) && *parser.peek_at(1)? == Tok::Punct(b'(') {
        return call(parser, depth);
    }
    // DATE '…', TIMESTAMP '…'.
    if matches!(parser.peek_at(1)?, Tok::Str { .. }) {
        for word in ["DATE", "TIME", "TIMESTAMP"] {
            parser.eat_word(word)?;
        }
    }
    match parser.peek()?.clone() {
        Tok::Number(digits) => {
            let Ok(number) = digits.parse() else { return parser.wrong("a whole number expected") };
            parser.take()?;
            Ok(Expression::Number(number))
        }
        Tok::Str { .. } => Ok(Expression::Text(parser.string_utf8()?)),
        Tok::Word(_) | Tok::Quoted(_) => {
            // [[database.]table.]column
            let mut name = parser.name()?;
            while parser.eat_punct(b'.')? {
                name = parser.name()?;
            }
            Ok(Expression::Column(name))
        }
        _ => parser.wrong("a column, number or function expected"),
    }
}

fn call(parser: &mut Parser<'_>, depth: usize) -> Result<Expression, Problem> {
    let word = parser.word_upper()?;
    let name = match word.as_str() {
        "CEIL" => "CEILING",
        "DAY" => "DAYOFMONTH",
        other => other,
    };
    if name == "EXTRACT" {
        parser.take()?;
        parser.expect_punct(b'(')?;
        let Some(unit) = Unit::by_name(&parser.word_upper()?) else { return parser.wrong("a unit expected") };
        parser.take()?;
        parser.expect_word("FROM")?;
        let of = sum(parser, depth)?;
        parser.expect_punct(b')')?;
        return Ok(Expression::Extract(unit, Box::new(of)));
    }
    let function = Function::by_name(name);
    if function.is_none() && name != "MOD" {
        return parser.wrong(format!("{word} in a partitioning expression"));
    }
    parser.take()?;
    parser.expect_punct(b'(')?;
    let mut arguments = vec![sum(parser, depth)?];
    while parser.eat_punct(b',')? {
        arguments.push(sum(parser, depth)?);
    }
    parser.expect_punct(b')')?;
    let Some(function) = function else {
        return match <[Expression; 2]>::try_from(arguments) {
            Ok([left, right]) => Ok(operation(left, Operator::Mod, right)),
            Err(_) => parser.wrong("MOD of two numbers expected"),
        };
    };
    let count = match function {
        Function::DateDiff => 2..=2,
        Function::YearWeek => 1..=2,
        _ => 1..=1,
    };
    if !count.contains(&arguments.len()) {
        return parser.wrong(format!("another number of arguments of {word} expected"));
    }
    Ok(Expression::Call(function, arguments))
}
