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
    BoundValue, Given, PARTITIONS_MAX, Partition, PartitionExpression, PartitionRule, Partitioning, Subpartitions,
    numbered,
};
use super::evaluate;
use super::expression::{Expression, Function};

/// Parses the text after PARTITION BY; None if it is not understood.
pub(crate) fn parse(context: &StatementContext, text: &str) -> Option<Partitioning> {
    // Text taken out of a statement is UTF-8.
    let context = StatementContext { collation_client: None, ..context.clone() };
    let mut parser = Parser::new(&context, text.as_bytes());
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
    let mut below = None;
    if parser.eat(&["SUBPARTITION", "BY"])? {
        let rule = self::rule(parser)?;
        let given = if parser.eat_word("SUBPARTITIONS")? { Some(parser.unsigned()?) } else { None };
        below = Some((rule, given));
    }
    let mut partitions = if parser.is_punct(b'(')? { definitions(parser)? } else { Vec::new() };
    let given = match (partitions.is_empty(), count) {
        (false, _) => Given::Each,
        (true, Some(_)) => Given::Number,
        (true, None) => Given::Nothing,
    };
    if partitions.is_empty() {
        partitions = (0..count.unwrap_or(1).min(PARTITIONS_MAX)).map(|number| numbered(number as usize)).collect();
    }
    let named = partitions.first().map_or(0, |partition| partition.subpartitions.len());
    let subpartitions = below.map(|(rule, given)| {
        let given = given.map(|count| count.min(PARTITIONS_MAX) as usize);
        Subpartitions { rule, count: given.unwrap_or(named).max(1) }
    });
    Ok(Partitioning { rule, partitions, subpartitions, given: Some(given) })
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

/// Parses an expression in parentheses. One that is not among those that MySQL allows is kept as it is written.
fn expression(parser: &mut Parser<'_>) -> Result<PartitionExpression, Problem> {
    let text = parser.clone().parenthesised()?;
    let mut ahead = parser.clone();
    ahead.expect_punct(b'(')?;
    let parsed = Expression::parse(&mut ahead).and_then(|parsed| {
        ahead.expect_punct(b')')?;
        Ok(parsed)
    });
    let Ok(parsed) = parsed else {
        parser.parenthesised()?;
        return Ok(PartitionExpression::Other(text));
    };
    *parser = ahead;
    Ok(match &parsed {
        Expression::Column(name) => PartitionExpression::Column(name.clone()),
        Expression::Call(function, arguments) => match (function, arguments.as_slice()) {
            (Function::Year, [Expression::Column(name)]) => PartitionExpression::Year(name.clone()),
            (Function::ToDays, [Expression::Column(name)]) => PartitionExpression::ToDays(name.clone()),
            (Function::UnixTimestamp, [Expression::Column(name)]) => PartitionExpression::UnixTimestamp(name.clone()),
            _ => PartitionExpression::Other(parsed.to_string()),
        },
        _ => PartitionExpression::Other(parsed.to_string()),
    })
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
        let (mut subpartitions, mut options) = (Vec::new(), vec![partition_options(parser)?]);
        while !parser.is_punct(b',')? && !parser.is_punct(b')')? {
            if parser.is_punct(b'(')? {
                (subpartitions, options) = self::subpartitions(parser)?;
            } else if parser.take()? == Tok::End {
                return parser.wrong("')' expected");
            }
        }
        if options.iter().all(String::is_empty) {
            options.clear();
        }
        partitions.push(Partition { name, values, subpartitions, options });
        if !parser.eat_punct(b',')? {
            break;
        }
    }
    parser.expect_punct(b')')?;
    Ok(partitions)
}

/// Options of a partition or subpartition as they are printed, each with a blank in front. ENGINE is the table's.
fn partition_options(parser: &mut Parser<'_>) -> Result<String, Problem> {
    let mut options = [const { String::new() }; 6];
    loop {
        let storage = parser.eat_word("STORAGE")?;
        let word = parser.word_upper()?;
        let at = match word.as_str() {
            "ENGINE" => None,
            "TABLESPACE" => Some(0),
            "MAX_ROWS" => Some(1),
            "MIN_ROWS" => Some(2),
            "DATA" => Some(3),
            "INDEX" => Some(4),
            "COMMENT" => Some(5),
            "NODEGROUP" => None,
            _ if storage => return parser.wrong("ENGINE expected"),
            _ => break,
        };
        parser.take()?;
        if matches!(word.as_str(), "DATA" | "INDEX") {
            parser.expect_word("DIRECTORY")?;
        }
        parser.eat_punct(b'=')?;
        let value = match word.as_str() {
            "MAX_ROWS" | "MIN_ROWS" | "NODEGROUP" => parser.unsigned()?.to_string(),
            "ENGINE" => parser.name_or_string()?,
            "TABLESPACE" => crate::parser::backticked(&parser.name_or_string()?),
            _ => crate::shown::quoted(&parser.string_utf8()?),
        };
        let name = match word.as_str() {
            "DATA" => "DATA DIRECTORY",
            "INDEX" => "INDEX DIRECTORY",
            other => other,
        };
        if let Some(option) = at.and_then(|at| options.get_mut(at)) {
            *option = format!(" {name} = {value}");
        }
    }
    Ok(options.concat())
}

/// Parses `(SUBPARTITION name [options], …)`: names and options.
fn subpartitions(parser: &mut Parser<'_>) -> Result<(Vec<String>, Vec<String>), Problem> {
    parser.expect_punct(b'(')?;
    let (mut names, mut options) = (Vec::new(), Vec::new());
    loop {
        parser.expect_word("SUBPARTITION")?;
        names.push(parser.name_or_string()?);
        options.push(partition_options(parser)?);
        while !parser.is_punct(b',')? && !parser.is_punct(b')')? {
            if parser.take()? == Tok::End {
                return parser.wrong("')' expected");
            }
        }
        if !parser.eat_punct(b',')? {
            break;
        }
    }
    parser.expect_punct(b')')?;
    Ok((names, options))
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
    let mut ahead = parser.clone();
    if let Ok(parsed) = Expression::parse(&mut ahead)
        && !matches!(parsed, Expression::Text(_) | Expression::Column(_))
    {
        *parser = ahead;
        // A number beyond BIGINT is kept as text.
        let constant = evaluate::constant(&parsed, parser.offset_seconds());
        return Ok(match constant {
            Ok(Some(number)) => i64::try_from(number).map_or(BoundValue::Other(number.to_string()), BoundValue::Number),
            Ok(None) => BoundValue::Null,
            Err(_) => BoundValue::Other(parsed.to_string()),
        });
    }
    Ok(match create::literal(parser)? {
        Literal::Null => BoundValue::Null,
        Literal::Number(text) => text.parse().map_or(BoundValue::Other(text), BoundValue::Number),
        Literal::Text(text) => match crate::charset::to_unicode(&text.bytes, &text.charset) {
            Ok(text) => BoundValue::Text(text),
            Err(_) => BoundValue::Other("text beyond ASCII".to_owned()),
        },
        Literal::Bool(value) => BoundValue::Number(i64::from(value)),
        // A string, since MySQL takes no hexadecimal number here.
        Literal::Bytes(bytes) if bytes.is_ascii() => BoundValue::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Literal::Bytes(_) => BoundValue::Other("a hexadecimal literal".to_owned()),
    })
}
