//! PARTITION BY as the source prints it.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::OnceLock;

use super::columns::hex;
use super::{NotKnown, SourceZones, not_known, quoted};
use crate::charset;
use crate::context::StatementContext;
use crate::expression;
use crate::parser::backticked;
use crate::partition::{
    BoundValue, Given, Partition, PartitionExpression, PartitionRule, Partitioning, bound_bytes, bound_in_zone,
};
use crate::table::{Column, TableDef, code};
use values::collation::BINARY;

/// MySQL's words, reserved or not: names that are among them are quoted.
const KEYWORDS: &str = include_str!("keywords.txt");

/// A name in quotes if it needs them: it is a word of SQL, or has other letters than those of plain names.
fn name(name: &str) -> String {
    static WORDS: OnceLock<HashSet<&'static str>> = OnceLock::new();
    let words = WORDS.get_or_init(|| KEYWORDS.lines().collect());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$';
    let is_plain = name.bytes().all(plain) && !name.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain && !words.contains(name.to_ascii_uppercase().as_str()) { name.to_owned() } else { backticked(name) }
}

fn names(list: &[String]) -> String {
    list.iter().map(|one| name(one)).collect::<Vec<_>>().join(",")
}

/// Partitions as `information_schema.PARTITIONS` lists them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownPartitions {
    pub method: String,
    pub sub_method: Option<String>,
    /// PARTITION_EXPRESSION; None for KEY () without columns.
    pub expression: Option<String>,
    pub sub_expression: Option<String>,
    /// Partitions in order, those with subpartitions once for each.
    pub parts: Vec<ShownPartition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownPartition {
    pub name: String,
    pub sub_name: Option<String>,
    /// PARTITION_ORDINAL_POSITION, from 1.
    pub place: usize,
    /// SUBPARTITION_ORDINAL_POSITION, from 1.
    pub sub_place: Option<usize>,
    /// PARTITION_DESCRIPTION; None too if it is not known.
    pub description: Option<String>,
    pub comment: String,
    pub node_group: String,
}

/// The partitions of a table as the source lists them; None for a table without.
///
/// # Errors
/// What is not known of them.
pub fn shown_partitions(table: &TableDef) -> Result<Option<ShownPartitions>, NotKnown> {
    if table.partition_by.is_none() {
        return Ok(None);
    }
    let Some(partitioning) = &table.partitioning else { return not_known("the table's partitions") };
    let (method, expression) = method_of(table, &partitioning.rule)?;
    let below = partitioning.subpartitions.as_ref();
    let (sub_method, sub_expression) = match below {
        Some(below) => method_of(table, &below.rule).map(|(method, expression)| (Some(method), expression))?,
        None => (None, None),
    };
    let mut parts = Vec::new();
    for (at, one) in partitioning.partitions.iter().enumerate() {
        let of = Of { table, partitioning, source: &SourceZones::default() };
        let description = values_of(&of, one).unwrap_or_default();
        let part = |sub_name, sub_place: Option<usize>, options: Option<&String>| {
            let options = options.map_or("", String::as_str);
            ShownPartition {
                name: one.name.clone(),
                sub_name,
                place: at + 1,
                sub_place,
                description: description.clone(),
                comment: option_of(options, "COMMENT").unwrap_or_default(),
                node_group: option_of(options, "NODEGROUP").unwrap_or_else(|| "default".to_owned()),
            }
        };
        match below {
            None => parts.push(part(None, None, one.options.first())),
            Some(below) => parts.extend((0..below.count).map(|number| {
                // Subpartitions that were not given have the options of their partition.
                let options = if one.subpartitions.is_empty() { one.options.first() } else { one.options.get(number) };
                part(Some(one.subpartition_name(number)), Some(number + 1), options)
            })),
        }
    }
    Ok(Some(ShownPartitions { method, sub_method, expression, sub_expression, parts }))
}

fn method_of(table: &TableDef, rule: &PartitionRule) -> Result<(String, Option<String>), NotKnown> {
    let quoted = |columns: &[String]| {
        let list = columns.iter().map(|name| backticked(name)).collect::<Vec<_>>().join(",");
        Some(list).filter(|list| !list.is_empty())
    };
    let of = |word: &str, by: &PartitionExpression| Ok((word.to_owned(), Some(expression(table, by)?)));
    match rule {
        PartitionRule::Range(by) => of("RANGE", by),
        PartitionRule::List(by) => of("LIST", by),
        PartitionRule::Hash(by) => of("HASH", by),
        PartitionRule::LinearHash(by) => of("LINEAR HASH", by),
        PartitionRule::RangeColumns(columns) => Ok(("RANGE COLUMNS".to_owned(), quoted(columns))),
        PartitionRule::ListColumns(columns) => Ok(("LIST COLUMNS".to_owned(), quoted(columns))),
        PartitionRule::Key { columns, linear } => {
            Ok((if *linear { "LINEAR KEY" } else { "KEY" }.to_owned(), quoted(columns)))
        }
        PartitionRule::Other(what) => match by_old_key(what) {
            Some((key, columns)) => Ok((key.to_owned(), quoted(&columns))),
            None => not_known(format!("how the source lists PARTITION BY {what}")),
        },
    }
}

/// PARTITION_DESCRIPTION: the bounds, or the list of values.
fn values_of(of: &Of<'_>, one: &Partition) -> Result<Option<String>, NotKnown> {
    let all = of.partitioning;
    let text = match &all.rule {
        PartitionRule::Range(_) | PartitionRule::RangeColumns(_) => {
            tuple(of, one.values.first().map_or(&[], Vec::as_slice))?
        }
        PartitionRule::List(_) | PartitionRule::ListColumns(_) => list_of(of, one)?,
        _ => return Ok(None),
    };
    // An unsigned number beyond the signed ones is listed as the signed one of the same bits.
    let whole = matches!(all.rule, PartitionRule::Range(_) | PartitionRule::List(_));
    let signed = |number: &str| match number.parse::<u64>() {
        Ok(large) if i64::try_from(large).is_err() => large.cast_signed().to_string(),
        _ => number.to_owned(),
    };
    Ok(Some(if whole { text.split(',').map(signed).collect::<Vec<_>>().join(",") } else { text }))
}

/// The value of an option in its printed form, ` NAME = value`.
fn option_of(options: &str, name: &str) -> Option<String> {
    let mut rest = options;
    loop {
        let (option, after) = rest.trim_start().split_once(" = ")?;
        let (value, left) = match after.strip_prefix('\'') {
            None => {
                let (value, left) = after.split_once(' ').unwrap_or((after, ""));
                (value.to_owned(), left)
            }
            Some(text) => unquoted(text)?,
        };
        if option == name {
            return Some(value);
        }
        rest = left;
    }
}

/// The text up to the closing quote, and what follows; the reverse of [`quoted`].
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' if letters.next_if(|(_, next)| *next == '\'').is_some() => value.push('\''),
            '\'' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(match letters.next()?.1 {
                'n' => '\n',
                'r' => '\r',
                '0' => '\0',
                'Z' => '\x1a',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

/// Text of a partition's options in quotes, as the source escapes it: up to the first zero, line breaks as they are.
pub(crate) fn partition_text(text: &str) -> String {
    let mut out = "'".to_owned();
    for letter in text.chars().take_while(|letter| *letter != '\0') {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '\x1a' => out.push_str("\\Z"),
            other => out.push(other),
        }
    }
    out.push('\'');
    out
}

pub(super) fn print(table: &TableDef, source: &SourceZones, out: &mut String) -> Result<(), NotKnown> {
    let unknown = || not_known("how the source prints the table's partitions");
    let Some(partitioning) = &table.partitioning else { return unknown() };
    let Some(given) = partitioning.given else { return unknown() };
    let by_columns = matches!(partitioning.rule, PartitionRule::RangeColumns(_) | PartitionRule::ListColumns(_));
    let by = rule(table, &partitioning.rule)?;
    let version = if by_columns || by.contains("to_seconds(") { "50500" } else { "50100" };
    let _ = write!(out, "\n/*!{version} PARTITION BY {by}");
    if let Some(below) = &partitioning.subpartitions {
        let _ = write!(out, "\nSUBPARTITION BY {}", rule(table, &below.rule)?);
        if partitioning.partitions.iter().all(|partition| partition.subpartitions.is_empty()) {
            let _ = write!(out, "\nSUBPARTITIONS {}", below.count);
        }
    }
    match given {
        Given::Nothing => {}
        Given::Number => {
            let _ = write!(out, "\nPARTITIONS {}", partitioning.partitions.len());
        }
        Given::Each => {
            let of = Of { table, partitioning, source };
            let tablespace = tablespace(partitioning)?;
            let all = partitioning.partitions.iter().map(|one| partition(&of, one, &tablespace));
            let _ = write!(out, "\n({})", all.collect::<Result<Vec<_>, _>>()?.join(",\n "));
        }
    }
    out.push_str(" */");
    Ok(())
}

fn rule(table: &TableDef, rule: &PartitionRule) -> Result<String, NotKnown> {
    let of = |word: &str, by: &PartitionExpression| Ok(format!("{word} ({})", expression(table, by)?));
    match rule {
        PartitionRule::Range(by) => of("RANGE", by),
        PartitionRule::List(by) => of("LIST", by),
        PartitionRule::Hash(by) => of("HASH", by),
        PartitionRule::LinearHash(by) => of("LINEAR HASH", by),
        PartitionRule::RangeColumns(columns) => Ok(format!("RANGE  COLUMNS({})", names(columns))),
        PartitionRule::ListColumns(columns) => Ok(format!("LIST  COLUMNS({})", names(columns))),
        PartitionRule::Key { columns, linear } => {
            Ok(format!("{}KEY ({})", if *linear { "LINEAR " } else { "" }, names(columns)))
        }
        PartitionRule::Other(what) => match by_old_key(what) {
            Some((key, columns)) => Ok(format!("{key} */ /*!50611 ALGORITHM = 1 */ /*!50100 ({})", names(&columns))),
            None => not_known(format!("how the source prints PARTITION BY {what}")),
        },
    }
}

/// KEY or LINEAR KEY with its columns, of a rule by the algorithm of MySQL 5.1.
fn by_old_key(rule: &str) -> Option<(&str, Vec<String>)> {
    let (key, columns) = rule.split_once(" ALGORITHM = 1 (")?;
    Some((key, expression::names_and_charsets(columns).0))
}

/// The TABLESPACE of every partition: as soon as one names it, the source shows it of all.
fn tablespace(partitioning: &Partitioning) -> Result<String, NotKnown> {
    let mut all = partitioning.partitions.iter().flat_map(|one| &one.options);
    let Some(first) = all.find_map(|options| option_of(options, "TABLESPACE")) else { return Ok(String::new()) };
    match all.filter_map(|options| option_of(options, "TABLESPACE")).all(|other| other == first) {
        true => Ok(format!(" TABLESPACE = {first}")),
        false => not_known("which TABLESPACE each partition got"),
    }
}

/// What the bounds of partitions are printed by.
struct Of<'a> {
    table: &'a TableDef,
    partitioning: &'a Partitioning,
    source: &'a SourceZones,
}

fn expression(table: &TableDef, by: &PartitionExpression) -> Result<String, NotKnown> {
    let text = match by {
        PartitionExpression::Column(name) => backticked(name),
        PartitionExpression::Year(name) => format!("year({})", backticked(name)),
        PartitionExpression::ToDays(name) => format!("to_days({})", backticked(name)),
        PartitionExpression::UnixTimestamp(name) => format!("unix_timestamp({})", backticked(name)),
        PartitionExpression::Other(text) => match expression::spelled(&StatementContext::default(), text) {
            Some(spelled) => spelled,
            None => return not_known(format!("how the source spells the partitioning expression {text}")),
        },
    };
    let own_name = |name: &str| table.column_index(name).and_then(|at| table.columns.get(at)).map(|of| of.name.clone());
    Ok(expression::with_names(&text, &own_name))
}

fn partition(of: &Of<'_>, one: &Partition, tablespace: &str) -> Result<String, NotKnown> {
    let mut out = format!("PARTITION {}", name(&one.name));
    let tuple = |values: &[BoundValue]| tuple(of, values);
    match &of.partitioning.rule {
        PartitionRule::Range(_) => match one.values.first().map(Vec::as_slice) {
            Some([BoundValue::Max]) => out.push_str(" VALUES LESS THAN MAXVALUE"),
            Some(values) => {
                let _ = write!(out, " VALUES LESS THAN ({})", tuple(values)?);
            }
            None => {}
        },
        PartitionRule::RangeColumns(_) => {
            let _ = write!(out, " VALUES LESS THAN ({})", tuple(one.values.first().map_or(&[], Vec::as_slice))?);
        }
        PartitionRule::List(_) | PartitionRule::ListColumns(_) => {
            let _ = write!(out, " VALUES IN ({})", list_of(of, one)?);
        }
        _ => {}
    }
    let engine = of.table.engine_of().shown_name(&of.table.engine);
    let options = |at: usize| {
        let own = one.options.get(at).map_or("", String::as_str);
        let shown = if own.starts_with(" TABLESPACE = ") { "" } else { tablespace };
        format!("{shown}{own}")
    };
    if one.subpartitions.is_empty() {
        let _ = write!(out, "{} ENGINE = {engine}", options(0));
    } else {
        let below = one
            .subpartitions
            .iter()
            .enumerate()
            .map(|(at, below)| format!("SUBPARTITION {}{} ENGINE = {engine}", name(below), options(at)));
        let _ = write!(out, "\n ({})", below.collect::<Vec<_>>().join(",\n  "));
    }
    Ok(out)
}

fn tuple(of: &Of<'_>, values: &[BoundValue]) -> Result<String, NotKnown> {
    let columns = match &of.partitioning.rule {
        PartitionRule::RangeColumns(columns) | PartitionRule::ListColumns(columns) => columns.as_slice(),
        _ => &[],
    };
    let column = |at: usize| of.table.columns.get(of.table.column_index(columns.get(at)?)?);
    let one = |(at, value): (usize, &BoundValue)| bound(of.source, column(at), value);
    Ok(values.iter().enumerate().map(one).collect::<Result<Vec<_>, _>>()?.join(","))
}

/// The values of IN.
fn list_of(of: &Of<'_>, one: &Partition) -> Result<String, NotKnown> {
    let is_null = |values: &&Vec<BoundValue>| matches!(values.as_slice(), [BoundValue::Null]);
    let simple = one.values.iter().all(|values| values.len() == 1);
    // Of single values NULL comes first.
    let nulls_first = matches!(of.partitioning.rule, PartitionRule::List(_));
    let (nulls, others): (Vec<_>, Vec<_>) = one.values.iter().partition(|values| nulls_first && is_null(values));
    let list = nulls.into_iter().chain(others).map(|values| match simple {
        true => tuple(of, values),
        false => Ok(format!("({})", tuple(of, values)?)),
    });
    Ok(list.collect::<Result<Vec<_>, _>>()?.join(","))
}

fn bound(source: &SourceZones, column: Option<&Column>, value: &BoundValue) -> Result<String, NotKnown> {
    let unknown = || NotKnown("how the source prints the bound of a partition".to_owned());
    let column = column.filter(|column| matches!(column.ty.code, code::VARCHAR | code::CHAR));
    Ok(match (value, column) {
        (BoundValue::Max, _) => "MAXVALUE".to_owned(),
        (BoundValue::Null, _) => "NULL".to_owned(),
        (BoundValue::Number(number), _) => number.to_string(),
        (BoundValue::Text(text), Some(column)) => text_bound(column, text).ok_or_else(unknown)?,
        (BoundValue::Text(text), None) => quoted(text),
        (BoundValue::Other(text), _) if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() => {
            text.clone()
        }
        (BoundValue::Other(text), Some(column)) if column.ty.collation == BINARY && text.starts_with("0x") => {
            format!("_binary 0x{}", hex(&bound_bytes(text).ok_or_else(unknown)?))
        }
        (BoundValue::Other(text), _) => bound_in_zone(text, &|name| source.zone(name)).ok_or_else(unknown)?.to_string(),
    })
}

/// Text as the bound of a column; None if it is not known.
fn text_bound(column: &Column, text: &str) -> Option<String> {
    let found = charset::by_id(column.ty.collation)?;
    match found.charset {
        // Beyond ASCII the bytes depend on the client.
        "binary" => text.is_ascii().then(|| format!("_binary 0x{}", hex(text.as_bytes()))),
        _ if charset::is_utf8mb3(text) => Some(quoted(text)),
        charset => Some(format!("_{charset} 0x{}", hex(&charset::from_unicode(text, charset).ok()?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_they_are_printed() {
        let comment = "it's \\ a\nNODEGROUP = 7 ";
        let options =
            format!(" DATA DIRECTORY = '/x COMMENT = ' MAX_ROWS = 5 COMMENT = {} NODEGROUP = 3", quoted(comment));
        assert_eq!(option_of(&options, "COMMENT").as_deref(), Some(comment));
        assert_eq!(option_of(&options, "MAX_ROWS").as_deref(), Some("5"));
        assert_eq!(option_of(&options, "NODEGROUP").as_deref(), Some("3"));
        assert_eq!(option_of(&options, "TABLESPACE"), None);
        assert_eq!(option_of("", "COMMENT"), None);
    }
}
