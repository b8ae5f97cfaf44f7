//! Parser of the PARTITION BY clause.
//!
//! In: the text after PARTITION BY. Out: the rule and its partitions. Never here: a guess; what is not understood is
//! kept as text.

use std::borrow::Cow;

use values::Zone;

use crate::charset;
use crate::context::StatementContext;
use crate::create;
use crate::default_value;
use crate::error::Problem;
use crate::lexer::Tok;
use crate::parser::{Parser, backticked};
use crate::shown;
use crate::syntax::Literal;
use crate::table::{TableDef, code, same_name};

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
    // The text may begin inside an executable comment that ends in it.
    let begins_inside = text.find("*/").is_some_and(|end| text.find("/*").is_none_or(|begin| end < begin));
    let text = if begins_inside { Cow::Owned(format!("/*! {text} */")) } else { Cow::Borrowed(text) };
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
            let columns = columns.iter().map(|name| backticked(name)).collect::<Vec<_>>().join(",");
            let linear = if linear { "LINEAR " } else { "" };
            return Ok(PartitionRule::Other(format!("{linear}KEY ALGORITHM = {algorithm} ({columns})")));
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
        let own = partition_options(parser, &[])?;
        let (mut subpartitions, mut options) = (Vec::new(), vec![own.concat()]);
        while !parser.is_punct(b',')? && !parser.is_punct(b')')? {
            if parser.is_punct(b'(')? {
                (subpartitions, options) = self::subpartitions(parser, &own)?;
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

/// Options of a partition or subpartition as they are printed, each with a blank in front. `inherited` are those of the
/// subpartition's partition. ENGINE is the table's.
fn partition_options(parser: &mut Parser<'_>, inherited: &[String]) -> Result<Vec<String>, Problem> {
    let mut options = inherited.to_vec();
    options.resize(OPTIONS_COUNT, String::new());
    loop {
        let storage = parser.eat_word("STORAGE")?;
        let word = parser.word_upper()?;
        let at = match word.as_str() {
            "ENGINE" => None,
            "TABLESPACE" => Some(0),
            "NODEGROUP" => Some(1),
            "MAX_ROWS" => Some(2),
            "MIN_ROWS" => Some(3),
            "DATA" => Some(4),
            "INDEX" => Some(5),
            "COMMENT" => Some(6),
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
            "TABLESPACE" => backticked(&parser.name_or_string()?),
            _ => shown::partition_text(&parser.comment()?),
        };
        let is_default = matches!((word.as_str(), value.as_str()), (_, "''") | ("MAX_ROWS" | "MIN_ROWS", "0"));
        let name = match word.as_str() {
            "DATA" => "DATA DIRECTORY",
            "INDEX" => "INDEX DIRECTORY",
            other => other,
        };
        if let Some(option) = at.and_then(|at| options.get_mut(at)) {
            *option = if is_default { String::new() } else { format!(" {name} = {value}") };
        }
    }
    Ok(options)
}

/// Options of a partition that are printed.
const OPTIONS_COUNT: usize = 7;

/// Parses `(SUBPARTITION name [options], …)`: names and options.
fn subpartitions(parser: &mut Parser<'_>, inherited: &[String]) -> Result<(Vec<String>, Vec<String>), Problem> {
    parser.expect_punct(b'(')?;
    let (mut names, mut options) = (Vec::new(), Vec::new());
    loop {
        parser.expect_word("SUBPARTITION")?;
        names.push(parser.name_or_string()?);
        options.push(partition_options(parser, inherited)?.concat());
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
        let offset = parser.time_zone().and_then(default_value::offset_seconds);
        let zone = offset.map(|offset| Zone::Fixed(offset.into()));
        return Ok(match evaluate::constant(&parsed, zone.as_ref()) {
            Ok(Some(number)) => i64::try_from(number).map_or(BoundValue::Other(number.to_string()), BoundValue::Number),
            Ok(None) => BoundValue::Null,
            Err(_) => {
                let text = parsed.to_string();
                let unknown = parser.time_zone().filter(|_| zone.is_none() && text.contains("UNIX_TIMESTAMP("));
                BoundValue::Other(unknown.map_or_else(|| text.clone(), |zone| format!("{text}{IN_ZONE}{zone}")))
            }
        });
    }
    Ok(match create::literal(parser)? {
        Literal::Null => BoundValue::Null,
        Literal::Number(text) => text.parse().map_or(BoundValue::Other(text), BoundValue::Number),
        Literal::Text(text) if text.charset == "binary" && !text.bytes.is_ascii() => bytes_bound(&text.bytes),
        Literal::Text(text) => match charset::to_unicode(&text.bytes, &text.charset) {
            Ok(text) => BoundValue::Text(text),
            Err(_) => BoundValue::Other("text beyond ASCII".to_owned()),
        },
        Literal::Bool(value) => BoundValue::Number(i64::from(value)),
        // A string, since MySQL takes no hexadecimal number here.
        Literal::Bytes(bytes) if bytes.is_ascii() => BoundValue::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Literal::Bytes(bytes) => bytes_bound(&bytes),
    })
}

/// Bytes that are no text in themselves.
fn bytes_bound(bytes: &[u8]) -> BoundValue {
    BoundValue::Other(format!("0x{}", shown::hex(bytes)))
}

/// The bytes of a bound that [`bytes_bound`] wrote.
pub(crate) fn bound_bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Turns bytes among the bounds of columns of text into text.
pub(crate) fn settle_bounds(table: &mut TableDef) {
    let Some(partitioning) = &mut table.partitioning else { return };
    let (PartitionRule::RangeColumns(names) | PartitionRule::ListColumns(names)) = &partitioning.rule else { return };
    let charset = |name: &String| {
        let column = table.columns.iter().find(|column| same_name(&column.name, name))?;
        let is_text = matches!(column.ty.code, code::CHAR | code::VARCHAR) && column.ty.collation != charset::BINARY;
        charset::by_id(column.ty.collation).filter(|_| is_text).map(|found| found.charset)
    };
    let charsets: Vec<_> = names.iter().map(charset).collect();
    for tuple in partitioning.partitions.iter_mut().flat_map(|partition| &mut partition.values) {
        for (value, charset) in tuple.iter_mut().zip(&charsets) {
            if let (BoundValue::Other(bytes), Some(charset)) = (&*value, charset)
                && let Some(text) = bound_bytes(bytes).and_then(|bytes| charset::to_unicode(&bytes, charset).ok())
            {
                *value = BoundValue::Text(text);
            }
        }
    }
}

/// Stands between a bound and the session's time zone, whose rules are not in the log.
const IN_ZONE: &str = " in time_zone ";

/// The number of a bound that is kept as text because it depends on a time zone; `zone` gives what is known of zones.
pub(crate) fn bound_in_zone(text: &str, zone: &dyn Fn(&str) -> Option<Zone>) -> Option<i128> {
    let (expression, name) = text.rsplit_once(IN_ZONE)?;
    evaluate::constant(&Expression::of_text(expression)?, Some(&zone(name)?)).ok()?
}
