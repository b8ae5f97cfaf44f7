//! Parser of CREATE TABLE: columns, keys, options.
//!
//! In: a parser positioned after `CREATE TABLE`. Out: a [`CreateTable`] as written. Never here: lengths, character sets
//! or identities (`column_type`, `table_build` resolve them).

use crate::declared::{CheckSpec, DeclaredColumn, DeclaredKey, json_text};
use crate::engine::InsertMethod;
use crate::error::Problem;
use crate::lexer::Tok;
use crate::parser::Parser;
use crate::sql_mode;
use crate::syntax::{
    CharsetSpec, ColumnSpec, CreateBody, CreateTable, DefaultSpec, ForeignSpec, KeyKind, KeySpec, Literal, PartSpec,
    TableOptions, TableSpec, Text,
};
use crate::table::ReferenceAction;
use crate::type_syntax;

pub(crate) fn create_table(parser: &mut Parser<'_>) -> Result<CreateTable, Problem> {
    let if_not_exists = parser.eat(&["IF", "NOT", "EXISTS"])?;
    let name = parser.table_name()?;
    let mut rows_follow = false;
    let body = if parser.eat_word("LIKE")? {
        CreateBody::Like(parser.table_name()?)
    } else if parser.is_punct(b'(')? && parser.is_word_at(1, "LIKE")? {
        parser.take()?;
        parser.take()?;
        let source = parser.table_name()?;
        parser.expect_punct(b')')?;
        CreateBody::Like(source)
    } else {
        let mut table = TableSpec::default();
        if parser.is_punct(b'(')? && !parser.is_word_at(1, "SELECT")? && !parser.is_word_at(1, "WITH")? {
            parser.take()?;
            table_elements(parser, &mut table)?;
            parser.expect_punct(b')')?;
        }
        rows_follow = table_options(parser, &mut table.options)?;
        // The source writes both where the column's definition names one.
        if rows_follow || parser.of_the_source() {
            for column in &mut table.columns {
                let given = &column.ty.charset;
                column.declared.collated = given.charset.is_some() && given.collation.is_some();
            }
        }
        if parser.has_mode(sql_mode::NO_DIR_IN_CREATE) {
            forget_folders(&mut table.options);
        }
        refuse_select(parser)?;
        if table.columns.is_empty() {
            return parser.wrong("a column list expected");
        }
        CreateBody::Define(Box::new(table))
    };
    Ok(CreateTable { name, if_not_exists, body, rows_follow })
}

fn refuse_select(parser: &mut Parser<'_>) -> Result<(), Problem> {
    if parser.is_any_word(&["SELECT", "AS", "IGNORE", "REPLACE", "WITH", "TABLE", "VALUES"])?
        || parser.is_punct(b'(')?
    {
        return Problem::unsupported("CREATE TABLE … SELECT as statement text (binlog_format=STATEMENT)");
    }
    Ok(())
}

pub(crate) fn table_elements(parser: &mut Parser<'_>, table: &mut TableSpec) -> Result<(), Problem> {
    let mut checked = false;
    loop {
        match key_element(parser)? {
            Some(Element::Key(key)) => table.keys.push(key),
            Some(Element::Check(check)) => {
                checked |= check.enforced;
                table.checks.push(check);
            }
            None => column(parser, table)?,
        }
        if !parser.eat_punct(b',')? {
            // The check may be noted at any column; only whether there is one matters.
            table.columns.iter_mut().take(1).for_each(|column| column.checked |= checked);
            return Ok(());
        }
    }
}

/// An element of the table that is not a column.
pub(crate) enum Element {
    Key(KeySpec),
    /// A CHECK constraint, which the source has already enforced.
    Check(CheckSpec),
}

/// Parses a key, foreign key or check, if one is next; also used after ADD in ALTER TABLE.
pub(crate) fn key_element(parser: &mut Parser<'_>) -> Result<Option<Element>, Problem> {
    let mut constraint = None;
    let named = parser.eat_word("CONSTRAINT")?;
    if named && !parser.is_any_word(&["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"])? {
        constraint = Some(parser.name()?);
    }
    let kind = match parser.word_upper()?.as_str() {
        "PRIMARY" => {
            parser.take()?;
            parser.expect_word("KEY")?;
            KeyKind::Primary
        }
        "UNIQUE" => {
            parser.take()?;
            let _ = parser.eat_word("KEY")? || parser.eat_word("INDEX")?;
            KeyKind::Unique
        }
        "KEY" | "INDEX" if !named => {
            parser.take()?;
            KeyKind::Plain
        }
        word @ ("FULLTEXT" | "SPATIAL") if !named => {
            parser.take()?;
            let _ = parser.eat_word("KEY")? || parser.eat_word("INDEX")?;
            if word == "FULLTEXT" { KeyKind::FullText } else { KeyKind::Spatial }
        }
        "FOREIGN" => {
            parser.take()?;
            parser.expect_word("KEY")?;
            return Ok(Some(Element::Key(foreign_key(parser, constraint)?)));
        }
        "CHECK" => {
            return Ok(Some(Element::Check(check(parser, constraint)?)));
        }
        _ if named => return parser.wrong("PRIMARY, UNIQUE, FOREIGN or CHECK expected"),
        _ => return Ok(None),
    };
    let mut name = constraint;
    if !parser.is_punct(b'(')? && !parser.is_any_word(&["USING", "TYPE"])? {
        name = Some(parser.name()?);
    }
    key_rest(parser, kind, name).map(|key| Some(Element::Key(key)))
}

/// `[USING …] (parts) [options]`.
pub(crate) fn key_rest(parser: &mut Parser<'_>, kind: KeyKind, name: Option<String>) -> Result<KeySpec, Problem> {
    let declared = DeclaredKey::default();
    let mut key = KeySpec { kind, name, parts: Vec::new(), invisible: false, foreign: None, declared };
    key_options(parser, &mut key)?;
    key.parts = key_parts(parser)?;
    key_options(parser, &mut key)?;
    Ok(key)
}

fn key_parts(parser: &mut Parser<'_>) -> Result<Vec<PartSpec>, Problem> {
    parser.expect_punct(b'(')?;
    let mut parts = Vec::new();
    loop {
        if parser.is_punct(b'(')? {
            let text = parser.parenthesised()?;
            let spelled = parser.spelled(&text);
            let descending = direction(parser)?;
            parts.push(PartSpec::Expression { text, spelled, descending });
        } else {
            let name = parser.name()?;
            let mut prefix_len = None;
            if parser.eat_punct(b'(')? {
                prefix_len = Some(u32::try_from(parser.unsigned()?).unwrap_or(u32::MAX));
                parser.expect_punct(b')')?;
            }
            let descending = direction(parser)?;
            parts.push(PartSpec::Column { name, prefix_len, descending });
        }
        if !parser.eat_punct(b',')? {
            break;
        }
    }
    parser.expect_punct(b')')?;
    Ok(parts)
}

fn direction(parser: &mut Parser<'_>) -> Result<bool, Problem> {
    Ok(!parser.eat_word("ASC")? && parser.eat_word("DESC")?)
}

fn key_options(parser: &mut Parser<'_>, key: &mut KeySpec) -> Result<(), Problem> {
    loop {
        match parser.word_upper()?.as_str() {
            "USING" | "TYPE" => {
                parser.take()?;
                using(parser, &mut key.declared)?;
            }
            "COMMENT" => {
                parser.take()?;
                parser.eat_punct(b'=')?;
                key.declared.comment = parser.comment()?;
            }
            word @ ("ENGINE_ATTRIBUTE" | "SECONDARY_ENGINE_ATTRIBUTE") => {
                parser.take()?;
                let value = attribute(parser)?;
                key.declared.options.set(word, &value);
            }
            word @ "KEY_BLOCK_SIZE" => {
                parser.take()?;
                parser.eat_punct(b'=')?;
                let size = parser.unsigned()?;
                key.declared.options.set(word, &size.to_string());
            }
            "WITH" => {
                parser.take()?;
                parser.expect_word("PARSER")?;
                let name = parser.name()?;
                key.declared.options.set("PARSER", &name);
            }
            "VISIBLE" => {
                parser.take()?;
                key.invisible = false;
            }
            "INVISIBLE" => {
                parser.take()?;
                key.invisible = true;
            }
            _ => return Ok(()),
        }
    }
}

/// Called after USING: the structure of an index.
pub(crate) fn using(parser: &mut Parser<'_>, declared: &mut DeclaredKey) -> Result<(), Problem> {
    let structure = parser.name()?.to_ascii_uppercase();
    declared.options.set("USING", &structure);
    Ok(())
}

/// Takes an attribute for an engine, which is JSON, and returns it as it is printed; empty for none.
fn attribute(parser: &mut Parser<'_>) -> Result<String, Problem> {
    parser.eat_punct(b'=')?;
    let text = parser.string_utf8()?;
    Ok(json_text(&text).unwrap_or(text))
}

/// Called after FOREIGN KEY.
fn foreign_key(parser: &mut Parser<'_>, constraint: Option<String>) -> Result<KeySpec, Problem> {
    let index_name = if parser.is_punct(b'(')? { None } else { Some(parser.name()?) };
    let parts = key_parts(parser)?;
    let foreign = references(parser, constraint.clone(), false)?;
    // The index is named after the constraint first, then after the index name (seen on 9.7).
    let name = constraint.or(index_name);
    let declared = DeclaredKey::default();
    Ok(KeySpec { kind: KeyKind::Foreign, name, parts, invisible: false, foreign: Some(foreign), declared })
}

/// `REFERENCES t (c, …) [MATCH …] [ON DELETE …] [ON UPDATE …]`.
fn references(parser: &mut Parser<'_>, constraint: Option<String>, inline: bool) -> Result<ForeignSpec, Problem> {
    parser.expect_word("REFERENCES")?;
    let parent = parser.table_name()?;
    let mut parent_columns = Vec::new();
    if parser.eat_punct(b'(')? {
        loop {
            parent_columns.push(parser.name()?);
            if !parser.eat_punct(b',')? {
                break;
            }
        }
        parser.expect_punct(b')')?;
    }
    let mut foreign = ForeignSpec {
        constraint,
        parent,
        parent_columns,
        on_delete: ReferenceAction::NoAction,
        on_update: ReferenceAction::NoAction,
        inline,
    };
    loop {
        if parser.eat_word("MATCH")? {
            parser.take()?;
        } else if parser.eat(&["ON", "DELETE"])? {
            foreign.on_delete = reference_action(parser)?;
        } else if parser.eat(&["ON", "UPDATE"])? {
            foreign.on_update = reference_action(parser)?;
        } else {
            return Ok(foreign);
        }
    }
}

fn reference_action(parser: &mut Parser<'_>) -> Result<ReferenceAction, Problem> {
    for (words, action) in [
        (&["RESTRICT"][..], ReferenceAction::Restrict),
        (&["CASCADE"], ReferenceAction::Cascade),
        (&["SET", "NULL"], ReferenceAction::SetNull),
        (&["SET", "DEFAULT"], ReferenceAction::SetDefault),
        (&["NO", "ACTION"], ReferenceAction::NoAction),
    ] {
        if parser.eat(words)? {
            return Ok(action);
        }
    }
    parser.wrong("RESTRICT, CASCADE, SET NULL, SET DEFAULT or NO ACTION expected")
}

/// Parses `CHECK (…) [[NOT] ENFORCED]`.
fn check(parser: &mut Parser<'_>, name: Option<String>) -> Result<CheckSpec, Problem> {
    parser.expect_word("CHECK")?;
    let text = parser.parenthesised()?;
    let condition = parser.spelled(&text);
    let enforced = !parser.eat(&["NOT", "ENFORCED"])?;
    if enforced {
        parser.eat_word("ENFORCED")?;
    }
    Ok(CheckSpec { name, condition, enforced })
}

pub(crate) fn column(parser: &mut Parser<'_>, table: &mut TableSpec) -> Result<(), Problem> {
    if table.columns.len() >= base::limits::COLUMNS_MAX {
        return parser.wrong("more columns than a table can have");
    }
    let name = parser.name()?;
    let (ty, serial) = type_syntax::column_type(parser)?;
    let collated = ty.charset != CharsetSpec::default();
    let mut column = ColumnSpec {
        name,
        ty,
        nullable: None,
        default: None,
        on_update_now: false,
        auto_increment: false,
        invisible: false,
        generated: None,
        comment: String::new(),
        srid: None,
        checked: false,
        declared: DeclaredColumn { collated, ..DeclaredColumn::default() },
    };
    if serial {
        serial_default_value(&mut column, &mut table.keys);
    }
    while column_attribute(parser, &mut column, table)? {}
    table.columns.push(column);
    Ok(())
}

/// SERIAL and SERIAL DEFAULT VALUE mean NOT NULL AUTO_INCREMENT UNIQUE.
fn serial_default_value(column: &mut ColumnSpec, keys: &mut Vec<KeySpec>) {
    column.nullable = Some(false);
    column.auto_increment = true;
    keys.push(inline_key(KeyKind::Unique, &column.name));
}

fn inline_key(kind: KeyKind, column: &str) -> KeySpec {
    let part = PartSpec::Column { name: column.to_owned(), prefix_len: None, descending: false };
    let declared = DeclaredKey::default();
    KeySpec { kind, name: None, parts: vec![part], invisible: false, foreign: None, declared }
}

/// Parses one attribute after a column's type; false if none is next.
fn column_attribute(parser: &mut Parser<'_>, column: &mut ColumnSpec, table: &mut TableSpec) -> Result<bool, Problem> {
    let keys = &mut table.keys;
    let word = parser.word_upper()?;
    match word.as_str() {
        "NULL" => {
            parser.take()?;
            column.nullable = Some(true);
        }
        "NOT" => {
            parser.take()?;
            if parser.eat_word("NULL")? {
                column.nullable = Some(false);
            } else if parser.eat_word("SECONDARY")? {
                column.declared.not_secondary = true;
            } else {
                return parser.wrong("NULL expected");
            }
        }
        "DEFAULT" => {
            parser.take()?;
            column.default = Some(default_value(parser)?);
        }
        "ON" => {
            parser.take()?;
            parser.expect_word("UPDATE")?;
            if !now(parser)? {
                return parser.wrong("CURRENT_TIMESTAMP expected");
            }
            column.on_update_now = true;
        }
        "AUTO_INCREMENT" => {
            parser.take()?;
            column.auto_increment = true;
            column.nullable = Some(false);
        }
        "SERIAL" => {
            parser.take()?;
            parser.expect_word("DEFAULT")?;
            parser.expect_word("VALUE")?;
            serial_default_value(column, keys);
        }
        "PRIMARY" | "KEY" => {
            parser.take()?;
            if word == "PRIMARY" {
                parser.expect_word("KEY")?;
            }
            keys.push(inline_key(KeyKind::Primary, &column.name));
        }
        "UNIQUE" => {
            parser.take()?;
            parser.eat_word("KEY")?;
            keys.push(inline_key(KeyKind::Unique, &column.name));
        }
        "COMMENT" => {
            parser.take()?;
            column.comment = parser.comment()?;
        }
        "COLLATE" => {
            parser.take()?;
            column.ty.charset.collation = Some(parser.collation_name()?);
            column.declared.collated = true;
        }
        "COLUMN_FORMAT" | "STORAGE" => {
            parser.take()?;
            let value = parser.name()?.to_ascii_uppercase();
            column.declared.options.set(&word, if value == "DEFAULT" { "" } else { &value });
        }
        "SRID" => {
            parser.take()?;
            column.srid = Some(parser.unsigned()?);
        }
        "ENGINE_ATTRIBUTE" | "SECONDARY_ENGINE_ATTRIBUTE" => {
            parser.take()?;
            let value = attribute(parser)?;
            column.declared.options.set(&word, &value);
        }
        "VISIBLE" | "INVISIBLE" => {
            parser.take()?;
            column.invisible = word == "INVISIBLE";
        }
        "CONSTRAINT" => {
            parser.take()?;
            let name = if parser.is_word("CHECK")? { None } else { Some(parser.name()?) };
            let check = check(parser, name)?;
            column.checked |= check.enforced;
            table.checks.push(check);
        }
        "CHECK" => {
            let check = check(parser, None)?;
            column.checked |= check.enforced;
            table.checks.push(check);
        }
        "REFERENCES" => {
            let foreign = references(parser, None, true)?;
            let key = inline_key(KeyKind::Foreign, &column.name);
            keys.push(KeySpec { foreign: Some(foreign), ..key });
        }
        "GENERATED" | "AS" => {
            parser.take()?;
            if word == "GENERATED" {
                parser.expect_word("ALWAYS")?;
                parser.expect_word("AS")?;
            }
            let expression = parser.parenthesised()?;
            column.declared.spelled = parser.spelled(&expression).unwrap_or_default();
            let stored = !parser.eat_word("VIRTUAL")? && parser.eat_word("STORED")?;
            column.generated = Some((stored, expression));
        }
        // In ALTER TABLE, a position or partition clause may follow the columns.
        "" | "FIRST" | "AFTER" | "REMOVE" | "PARTITION" => return Ok(false),
        _ => return Problem::unsupported(format!("column attribute {word} of `{}`", column.name)),
    }
    Ok(true)
}

pub(crate) fn default_value(parser: &mut Parser<'_>) -> Result<DefaultSpec, Problem> {
    if parser.is_punct(b'(')? {
        let text = parser.parenthesised()?;
        let spelled = parser.spelled(&text);
        return Ok(DefaultSpec::Expression { text, spelled });
    }
    if now(parser)? {
        return Ok(DefaultSpec::Now);
    }
    let start = parser.place()?;
    let value = literal(parser)?;
    Ok(DefaultSpec::Literal { value, text: parser.text_from(start) })
}

/// The literal that an expression consists of. SET DEFAULT of ALTER TABLE takes it as if it stood there without
/// brackets; a minus sign makes it an expression (seen on 9.7.4).
pub(crate) fn constant(parser: &Parser<'_>, text: &str) -> Option<DefaultSpec> {
    let mut text = text.trim();
    while let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        text = inner.trim();
    }
    let mut parser = parser.of_text(text);
    if parser.is_punct(b'-').ok()? {
        return None;
    }
    let value = literal(&mut parser).ok()?;
    parser.at_end().ok()?.then(|| DefaultSpec::Literal { value, text: text.to_owned() })
}

/// Parses CURRENT_TIMESTAMP or a synonym, with or without digits.
fn now(parser: &mut Parser<'_>) -> Result<bool, Problem> {
    if !parser.is_any_word(&["CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"])? {
        return Ok(false);
    }
    parser.take()?;
    if parser.is_punct(b'(')? {
        parser.parenthesised()?;
    }
    Ok(true)
}

pub(crate) fn literal(parser: &mut Parser<'_>) -> Result<Literal, Problem> {
    for (word, value) in [("NULL", Literal::Null), ("TRUE", Literal::Bool(true)), ("FALSE", Literal::Bool(false))] {
        if parser.eat_word(word)? {
            return Ok(value);
        }
    }
    if parser.is_any_word(&["DATE", "TIME", "TIMESTAMP"])? {
        parser.take()?;
        return Ok(Literal::Text(parser.string()?));
    }
    let negative = parser.eat_punct(b'-')?;
    let signed = negative || parser.eat_punct(b'+')?;
    match parser.peek()?.clone() {
        Tok::Number(number) => {
            parser.take()?;
            Ok(Literal::Number(if negative { format!("-{number}") } else { number }))
        }
        Tok::Bytes { bytes, introducer } if !signed => {
            parser.take()?;
            Ok(match introducer {
                Some(charset) => Literal::Text(Text { bytes, charset }),
                None => Literal::Bytes(bytes),
            })
        }
        Tok::Str { .. } if !signed => Ok(Literal::Text(parser.value()?)),
        _ => parser.wrong("a literal expected"),
    }
}

/// Parses `CHARACTER SET x`, `CHARSET x` or `COLLATE x`, with or without `=`; false if none is next.
pub(crate) fn charset_option(parser: &mut Parser<'_>, spec: &mut CharsetSpec) -> Result<bool, Problem> {
    if parser.eat(&["CHARACTER", "SET"])? || parser.eat(&["CHAR", "SET"])? || parser.eat_word("CHARSET")? {
        parser.eat_punct(b'=')?;
        // DEFAULT means the same as omitting the option.
        spec.charset = if parser.eat_word("DEFAULT")? { None } else { Some(parser.charset_name()?) };
    } else if parser.eat_word("COLLATE")? {
        parser.eat_punct(b'=')?;
        spec.collation = if parser.eat_word("DEFAULT")? { None } else { Some(parser.collation_name()?) };
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Parses the options after the column list; true if START TRANSACTION is among them.
fn table_options(parser: &mut Parser<'_>, options: &mut TableOptions) -> Result<bool, Problem> {
    let mut rows_follow = false;
    loop {
        parser.eat_punct(b',')?;
        if parser.is_word("PARTITION")? {
            let (text, starts) = partition_by(parser)?;
            options.partition_by = Some(text);
            return Ok(starts || rows_follow);
        }
        if parser.eat(&["START", "TRANSACTION"])? {
            rows_follow = true;
        } else if !table_option(parser, options)? {
            return Ok(rows_follow);
        }
    }
}

/// Parses one table option; false if none is next.
pub(crate) fn table_option(parser: &mut Parser<'_>, options: &mut TableOptions) -> Result<bool, Problem> {
    let default = parser.eat_word("DEFAULT")?;
    if charset_option(parser, &mut options.charset)? {
        return Ok(true);
    }
    if default {
        return parser.wrong("CHARACTER SET or COLLATE expected");
    }
    let word = parser.word_upper()?;
    match word.as_str() {
        "ENGINE" => {
            parser.take()?;
            parser.eat_punct(b'=')?;
            options.engine = Some(parser.name_or_string()?);
        }
        "COMMENT" => {
            parser.take()?;
            parser.eat_punct(b'=')?;
            options.comment = Some(parser.comment()?);
        }
        "DATA" | "INDEX" => {
            parser.take()?;
            parser.expect_word("DIRECTORY")?;
            parser.eat_punct(b'=')?;
            let folder = parser.string_utf8()?;
            options.declared.push((format!("{word} DIRECTORY"), folder));
        }
        "UNION" => {
            parser.take()?;
            parser.eat_punct(b'=')?;
            parser.expect_punct(b'(')?;
            let mut members = Vec::new();
            while !parser.eat_punct(b')')? {
                members.push(parser.table_name()?);
                parser.eat_punct(b',')?;
            }
            options.union = Some(members);
        }
        "INSERT_METHOD" => {
            parser.take()?;
            parser.eat_punct(b'=')?;
            options.insert_method = Some(match parser.word_upper()?.as_str() {
                "NO" => InsertMethod::No,
                "FIRST" => InsertMethod::First,
                "LAST" => InsertMethod::Last,
                _ => return parser.wrong("NO, FIRST or LAST expected"),
            });
            parser.take()?;
        }
        "KEY_BLOCK_SIZE" | "ROW_FORMAT" => {
            option_value(parser, &word, options)?;
            options.row_format = true;
        }
        "AUTO_INCREMENT" => {
            parser.take()?;
            parser.eat_punct(b'=')?;
            options.auto_increment = Some(parser.unsigned()?);
        }
        "AUTOEXTEND_SIZE"
        | "AVG_ROW_LENGTH"
        | "CHECKSUM"
        | "TABLE_CHECKSUM"
        | "COMPRESSION"
        | "CONNECTION"
        | "DELAY_KEY_WRITE"
        | "ENCRYPTION"
        | "MAX_ROWS"
        | "MIN_ROWS"
        | "PACK_KEYS"
        | "PASSWORD"
        | "STATS_AUTO_RECALC"
        | "STATS_PERSISTENT"
        | "STATS_SAMPLE_PAGES"
        | "TABLESPACE"
        | "STORAGE"
        | "SECONDARY_ENGINE"
        | "ENGINE_ATTRIBUTE"
        | "SECONDARY_ENGINE_ATTRIBUTE" => option_value(parser, &word, options)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Takes an option and its value, which is kept as it is printed: empty for the default.
fn option_value(parser: &mut Parser<'_>, word: &str, options: &mut TableOptions) -> Result<(), Problem> {
    parser.take()?;
    parser.eat_punct(b'=')?;
    let value = match parser.peek()? {
        Tok::Word(_) | Tok::Quoted(_) => parser.name()?,
        Tok::Str { .. } => parser.string_utf8()?,
        Tok::Number(_) => match parser.take()? {
            Tok::Number(digits) => digits,
            _ => String::new(),
        },
        Tok::Bytes { .. } => parser.unsigned()?.to_string(),
        _ => return parser.wrong(format!("a value for {word} expected")),
    };
    let word = if word == "TABLE_CHECKSUM" { "CHECKSUM" } else { word };
    let is_default = value.eq_ignore_ascii_case("DEFAULT");
    let printed = match word {
        // Not printed.
        "PASSWORD" | "STORAGE" => return Ok(()),
        _ if is_default => String::new(),
        "ROW_FORMAT" => value.to_ascii_uppercase(),
        "MIN_ROWS" | "MAX_ROWS" | "AVG_ROW_LENGTH" | "CHECKSUM" | "DELAY_KEY_WRITE" | "KEY_BLOCK_SIZE"
        | "STATS_SAMPLE_PAGES" | "AUTOEXTEND_SIZE"
            if value.bytes().all(|byte| byte == b'0') =>
        {
            String::new()
        }
        "AUTOEXTEND_SIZE" => bytes(&value).map_or(value, |bytes| bytes.to_string()),
        "CHECKSUM" | "DELAY_KEY_WRITE" => "1".to_owned(),
        "SECONDARY_ENGINE" if value.eq_ignore_ascii_case("NULL") => String::new(),
        "ENCRYPTION" if value.eq_ignore_ascii_case("N") => String::new(),
        "ENGINE_ATTRIBUTE" | "SECONDARY_ENGINE_ATTRIBUTE" => json_text(&value).unwrap_or(value),
        _ => value,
    };
    options.declared.push((word.to_owned(), printed));
    Ok(())
}

/// DATA DIRECTORY and INDEX DIRECTORY are obeyed when a table is made, if at all.
pub(crate) fn forget_folders(options: &mut TableOptions) {
    options.declared.retain(|(name, _)| !name.ends_with(" DIRECTORY"));
}

/// A size such as `4M`, in bytes.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match text.get(digits.len()..)?.to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Parses everything from PARTITION on and returns it as text; true if START TRANSACTION is among it. The `partition`
/// module interprets the text.
pub(crate) fn partition_by(parser: &mut Parser<'_>) -> Result<(String, bool), Problem> {
    parser.expect_word("PARTITION")?;
    parser.expect_word("BY")?;
    let start = parser.place()?;
    let mut end = start;
    let mut rows_follow = false;
    loop {
        if parser.eat(&["START", "TRANSACTION"])? {
            rows_follow = true;
            continue;
        }
        match parser.peek()? {
            Tok::End | Tok::Punct(b';') => return Ok((parser.text_of(start, end), rows_follow)),
            Tok::Punct(b'(') => {
                parser.parenthesised()?;
            }
            Tok::Word(_) => {
                refuse_select_word(parser)?;
                parser.take()?;
            }
            _ => {
                parser.take()?;
            }
        }
        end = parser.taken_to();
    }
}

fn refuse_select_word(parser: &mut Parser<'_>) -> Result<(), Problem> {
    if parser.is_any_word(&["SELECT", "AS", "WITH", "TABLE", "VALUES"])? {
        // VALUES of a partition appears only inside parentheses, which are skipped as a whole.
        return Problem::unsupported("CREATE TABLE … PARTITION BY … SELECT as statement text");
    }
    Ok(())
}
