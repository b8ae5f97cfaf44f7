//! Parser of the PARTITION BY clause.
//!
//! In: the text after PARTITION BY. Out: the rule and its partitions. Never here: a guess; what is not understood is
//! kept as text.

use crate::context::StatementContext;
use crate::create;
use crate::error::Problem;
use crate::lexer::Tok;
use crate::parser::Parser;
use crate::syntax::Literal;

use super::definition::{
    BoundValue, PARTITIONS_MAX, Partition, PartitionExpression, PartitionRule, Partitioning, numbered,
};

/// Parses the text after PARTITION BY; None if it is not understood.
pub(crate) fn parse(context: &StatementContext, text: &str) -> Option<Partitioning> {
    let mut parser = Parser::new(context, text.as_bytes());
    let parsed = partitioning(&mut parser).ok()?;
    parser.expect_end().ok()?;
    Some(parsed)
}

fn partitioning(parser: &mut Parser<'_>) -> Result<Partitioning, Problem> {
    let rule = rule(parser)?;
    let mut count = None;
    if parser.eat_word("PARTITIONS")? {
        count = Some(parser.unsigned()?);
    }
    if parser.eat(&["SUBPARTITION", "BY"])? {
        self::rule(parser)?;
        if parser.eat_word("SUBPARTITIONS")? {
            parser.unsigned()?;
        }
    }
    let mut partitions = if parser.is_punct(b'(')? { definitions(parser)? } else { Vec::new() };
    if partitions.is_empty() {
        partitions = (0..count.unwrap_or(1).min(PARTITIONS_MAX)).map(|number| numbered(number as usize)).collect();
    }
    Ok(Partitioning { rule, partitions })
}

fn rule(parser: &mut Parser<'_>) -> Result<PartitionRule, Problem> {
    let linear = parser.eat_word("LINEAR")?;
    let word = parser.word_upper()?;
    parser.take()?;
    if word == "KEY" {
        let mut algorithm = 2;
        if parser.eat_word("ALGORITHM")? {
            parser.eat_punct(b'=')?;
            algorithm = parser.unsigned()?;
        }
        parser.expect_punct(b'(')?;
        let mut columns = Vec::new();
        while !parser.is_punct(b')')? {
            columns.push(parser.name()?);
            parser.eat_punct(b',')?;
        }
        parser.expect_punct(b')')?;
        // ALGORITHM = 1 is the hash of 5.1, which is not implemented.
        if algorithm != 2 {
            return Ok(PartitionRule::Other(format!("KEY ALGORITHM = {algorithm}")));
        }
        return Ok(PartitionRule::Key { columns, linear });
    }
    if parser.eat_word("COLUMNS")? {
        parser.expect_punct(b'(')?;
        let mut columns = vec![parser.name()?];
        while parser.eat_punct(b',')? {
            columns.push(parser.name()?);
        }
        parser.expect_punct(b')')?;
        return match word.as_str() {
            "RANGE" => Ok(PartitionRule::RangeColumns(columns)),
            "LIST" => Ok(PartitionRule::ListColumns(columns)),
            _ => parser.wrong("RANGE or LIST expected"),
        };
    }
    let expression = expression(parser)?;
    match word.as_str() {
        "HASH" if linear => Ok(PartitionRule::LinearHash(expression)),
        "HASH" => Ok(PartitionRule::Hash(expression)),
        "RANGE" => Ok(PartitionRule::Range(expression)),
        "LIST" => Ok(PartitionRule::List(expression)),
        _ => parser.wrong("HASH, KEY, RANGE or LIST expected"),
    }
}

/// Parses `(column)`, `(FUNCTION(column))`, or any other expression in parentheses.
fn expression(parser: &mut Parser<'_>) -> Result<PartitionExpression, Problem> {
    let is_name = |tok: &Tok| matches!(tok, Tok::Word(_) | Tok::Quoted(_));
    if is_name(parser.peek_at(1)?) && *parser.peek_at(2)? == Tok::Punct(b')') {
        parser.take()?;
        let column = parser.name()?;
        parser.take()?;
        return Ok(PartitionExpression::Column(column));
    }
    let of_column = *parser.peek_at(2)? == Tok::Punct(b'(')
        && is_name(parser.peek_at(3)?)
        && *parser.peek_at(4)? == Tok::Punct(b')')
        && *parser.peek_at(5)? == Tok::Punct(b')');
    if of_column {
        parser.take()?;
        let function = parser.word_upper()?;
        parser.take()?;
        parser.take()?;
        let column = parser.name()?;
        parser.take()?;
        parser.take()?;
        return Ok(match function.as_str() {
            "YEAR" => PartitionExpression::Year(column),
            "TO_DAYS" => PartitionExpression::ToDays(column),
            "UNIX_TIMESTAMP" => PartitionExpression::UnixTimestamp(column),
            _ => PartitionExpression::Other(format!("{function}({column})")),
        });
    }
    Ok(PartitionExpression::Other(parser.parenthesised()?))
}

/// Parses `(PARTITION name [VALUES …] [options] [(SUBPARTITION …)], …)`.
pub(crate) fn definitions(parser: &mut Parser<'_>) -> Result<Vec<Partition>, Problem> {
    parser.expect_punct(b'(')?;
    let mut partitions = Vec::new();
    loop {
        parser.expect_word("PARTITION")?;
        let name = parser.name()?;
        let mut values = Vec::new();
        if parser.eat(&["VALUES", "LESS", "THAN"])? {
            values.push(if parser.eat_word("MAXVALUE")? { vec![BoundValue::Max] } else { tuple(parser)? });
        } else if parser.eat(&["VALUES", "IN"])? {
            parser.expect_punct(b'(')?;
            loop {
                values.push(if parser.is_punct(b'(')? { tuple(parser)? } else { vec![bound(parser)?] });
                if !parser.eat_punct(b',')? {
                    break;
                }
            }
            parser.expect_punct(b')')?;
        }
        partitions.push(Partition { name, values });
        while !parser.is_punct(b',')? && !parser.is_punct(b')')? {
            if parser.is_punct(b'(')? {
                // Subpartitions.
                parser.parenthesised()?;
            } else if parser.take()? == Tok::End {
                return parser.wrong("')' expected");
            }
        }
        if !parser.eat_punct(b',')? {
            break;
        }
    }
    parser.expect_punct(b')')?;
    Ok(partitions)
}

fn tuple(parser: &mut Parser<'_>) -> Result<Vec<BoundValue>, Problem> {
    parser.expect_punct(b'(')?;
    let mut values = vec![bound(parser)?];
    while parser.eat_punct(b',')? {
        values.push(bound(parser)?);
    }
    parser.expect_punct(b')')?;
    Ok(values)
}

fn bound(parser: &mut Parser<'_>) -> Result<BoundValue, Problem> {
    if parser.eat_word("MAXVALUE")? {
        return Ok(BoundValue::Max);
    }
    for (function, of) in [("TO_DAYS", days as fn(&str) -> Option<i64>), ("YEAR", year)] {
        if parser.is_word(function)? {
            parser.take()?;
            parser.expect_punct(b'(')?;
            let text = parser.string_utf8()?;
            parser.expect_punct(b')')?;
            return Ok(of(&text).map_or(BoundValue::Other(format!("{function}('{text}')")), BoundValue::Number));
        }
    }
    if parser.is_word("UNIX_TIMESTAMP")? {
        parser.take()?;
        return Ok(BoundValue::Other(format!("UNIX_TIMESTAMP({})", parser.parenthesised()?)));
    }
    Ok(match create::literal(parser)? {
        Literal::Null => BoundValue::Null,
        Literal::Number(text) => text.parse().map_or(BoundValue::Other(text), BoundValue::Number),
        Literal::Text(text) => match crate::charset::to_unicode(&text.bytes, &text.charset) {
            Ok(text) => BoundValue::Text(text),
            Err(_) => BoundValue::Other("text beyond ASCII".to_owned()),
        },
        Literal::Bool(value) => BoundValue::Number(i64::from(value)),
        Literal::Bytes(_) => BoundValue::Other("a hexadecimal literal".to_owned()),
    })
}

/// Year, month and day of `YYYY-MM-DD…`.
fn date(text: &str) -> Option<(i64, i64, i64)> {
    let mut parts = text.split([' ', 'T']).next()?.split('-');
    let mut part = || parts.next()?.parse::<i64>().ok();
    let date = (part()?, part()?, part()?);
    ((0..=9999).contains(&date.0) && (1..=12).contains(&date.1) && (1..=31).contains(&date.2)).then_some(date)
}

fn year(text: &str) -> Option<i64> {
    date(text).map(|(year, ..)| year)
}

pub(super) fn days(text: &str) -> Option<i64> {
    date(text).and_then(|(year, month, day)| to_days(year, month, day))
}

/// Days since year 0, as `calc_daynr` computes them (sql-common/my_time.cc).
pub(super) fn to_days(year: i64, month: i64, day: i64) -> Option<i64> {
    if year == 0 || month == 0 || day == 0 {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    // The formula counts from 0000-03-01, which is day 60 of year 0.
    Some(
        365 * year + year.div_euclid(4) - year.div_euclid(100)
            + year.div_euclid(400)
            + (153 * month + 2) / 5
            + day
            + 59,
    )
}
