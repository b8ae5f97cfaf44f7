//! Tables of a server as described by its information_schema.
//!
//! In: a connection. Out: columns with the types of their row images, the key that identifies rows, and where another
//! definition of the same table disagrees. Never here: system schemas, views, guessed types.

use std::collections::BTreeMap;

use client::{Connection, ResultSet, session};
use source::TableFilter;
use values::{ColumnType, RowLayout, charset, collation, type_code as t};

use crate::error::{CompareError, at_server};
use crate::shape::Shape;

const NOT_SYSTEM: &str = "TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

/// A column of a server's table.
#[derive(Clone, Debug)]
pub(crate) struct ServerColumn {
    pub name: String,
    /// Its type, or its declaration if there is no row image for it here.
    pub ty: Result<ColumnType, String>,
    pub nullable: bool,
    pub is_virtual: bool,
}

/// A base table of a server.
#[derive(Clone, Debug)]
pub(crate) struct ServerTable {
    pub db: String,
    pub name: String,
    pub engine: String,
    pub columns: Vec<ServerColumn>,
    /// Positions of the columns of its best key; empty if it has none.
    pub key: Vec<usize>,
}

/// All base tables of a server.
pub(crate) struct ServerSchema {
    /// Each with its database's name on this replica.
    pub tables: Vec<(String, ServerTable)>,
    pub lower_case_table_names: u8,
}

impl ServerSchema {
    pub(crate) fn read(
        connection: &mut Connection,
        server: &str,
        filter: &TableFilter,
    ) -> Result<ServerSchema, CompareError> {
        let ask = |connection: &mut Connection, sql: &str| at_server(server, connection.query_list(sql));
        let lower = ask(connection, "SELECT @@GLOBAL.lower_case_table_names")?.first_text();
        let lower_case_table_names = lower.and_then(|text| text.parse().ok()).unwrap_or(0);
        let tables = ask(
            connection,
            &format!(
                "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE FROM information_schema.TABLES \
             WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND {NOT_SYSTEM}"
            ),
        )?;
        let mut by_name = BTreeMap::new();
        for row in 0..tables.rows.len() {
            let (db, name) = (text(&tables, row, 0), text(&tables, row, 1));
            if let Some(here) = filter.place_of(&db, &name, lower_case_table_names) {
                let engine = text(&tables, row, 2);
                let table = ServerTable { db: db.clone(), name: name.clone(), engine, columns: vec![], key: vec![] };
                by_name.insert((db.clone(), name), (here.to_owned(), table));
            }
        }
        let columns = ask(
            connection,
            &format!(
                "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_OCTET_LENGTH, \
             DATETIME_PRECISION, COLLATION_NAME, IS_NULLABLE, EXTRA \
             FROM information_schema.COLUMNS WHERE {NOT_SYSTEM} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"
            ),
        )?;
        let mut exact = at_server(server, exact_members(connection, &columns, |name| by_name.contains_key(name)))?;
        for row in 0..columns.rows.len() {
            if let Some((_, table)) = by_name.get_mut(&(text(&columns, row, 0), text(&columns, row, 1))) {
                table.columns.push(ServerColumn {
                    name: text(&columns, row, 2),
                    ty: column_type(&columns, row, exact.remove(&row)),
                    nullable: text(&columns, row, 8) == "YES",
                    is_virtual: text(&columns, row, 9).contains("VIRTUAL GENERATED"),
                });
            }
        }
        let keys = ask(
            connection,
            &format!(
                "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, SUB_PART \
             FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0 AND {NOT_SYSTEM} \
             ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX"
            ),
        )?;
        let mut parts: BTreeMap<(String, String), Vec<KeyParts>> = BTreeMap::new();
        for row in 0..keys.rows.len() {
            let of_table = parts.entry((text(&keys, row, 0), text(&keys, row, 1))).or_default();
            let name = text(&keys, row, 2);
            let part = (keys.text(row, 3), keys.text(row, 4).is_some());
            match of_table.last_mut() {
                Some(last) if last.name == name => last.parts.push(part),
                _ => of_table.push(KeyParts { name, parts: vec![part] }),
            }
        }
        for (name, keys) in parts {
            if let Some((_, table)) = by_name.get_mut(&name) {
                table.key = best_key(&keys, &table.columns);
            }
        }
        Ok(ServerSchema { tables: by_name.into_values().collect(), lower_case_table_names })
    }
}

/// A unique key. Each part is a column (None for an expression) and whether the key has only a prefix of it.
struct KeyParts {
    name: String,
    parts: Vec<(Option<String>, bool)>,
}

/// The PRIMARY key, otherwise the first unique key of whole NOT NULL columns.
fn best_key(keys: &[KeyParts], columns: &[ServerColumn]) -> Vec<usize> {
    let whole = |key: &KeyParts| -> Option<Vec<usize>> {
        key.parts
            .iter()
            .map(|(name, prefix)| {
                let position = columns.iter().position(|column| Some(&column.name) == name.as_ref())?;
                let column = columns.get(position)?;
                (!prefix && !column.nullable && !column.is_virtual).then_some(position)
            })
            .collect()
    };
    // A PRIMARY KEY with prefixes identifies rows, but not by whole columns, so it is not used here.
    keys.iter().find_map(whole).unwrap_or_default()
}

fn text(result: &ResultSet, row: usize, column: usize) -> String {
    result.text(row, column).unwrap_or_default()
}

/// Members of ENUM and SET columns whose text may stand for a character that the dictionary cannot spell, by the row of
/// the COLUMNS query.
fn exact_members(
    connection: &mut Connection,
    columns: &ResultSet,
    is_compared: impl Fn(&(String, String)) -> bool,
) -> client::Result<BTreeMap<usize, Vec<String>>> {
    let mut exact = BTreeMap::new();
    for row in 0..columns.rows.len() {
        let (data_type, declared) = (text(columns, row, 3), text(columns, row, 4));
        let is_set = data_type.eq_ignore_ascii_case("set");
        if !(is_set || data_type.eq_ignore_ascii_case("enum")) || !declared.contains('?') {
            continue;
        }
        let name = (text(columns, row, 0), text(columns, row, 1));
        if is_compared(&name) {
            let (column, count) = (text(columns, row, 2), members(&declared).len());
            let found = session::members(connection, (&name.0, &name.1, &column), is_set, count)?;
            exact.extend(found.map(|found| (row, found)));
        }
    }
    Ok(exact)
}

/// The type of a row of the COLUMNS query; `exact` has the members that its text does not spell.
fn column_type(result: &ResultSet, row: usize, exact: Option<Vec<String>>) -> Result<ColumnType, String> {
    let number = |column: usize| text(result, row, column).parse::<u64>().unwrap_or(0);
    let (data_type, declared) = (text(result, row, 3).to_ascii_lowercase(), text(result, row, 4));
    let octets = u16::try_from(number(5)).unwrap_or(0);
    let fraction = number(6) as u16;
    let (first, second) = parameters(&declared);
    let (code, meta) = match data_type.as_str() {
        "tinyint" => (t::TINY, 0),
        "smallint" => (t::SHORT, 0),
        "mediumint" => (t::INT24, 0),
        "int" => (t::LONG, 0),
        "bigint" => (t::LONGLONG, 0),
        "float" => (t::FLOAT, 4),
        "double" => (t::DOUBLE, 8),
        "decimal" => (t::DECIMAL, first << 8 | second),
        "bit" => (t::BIT, first),
        "date" => (t::DATE, 0),
        "time" => (t::TIME2, fraction),
        "datetime" => (t::DATETIME2, fraction),
        "timestamp" => (t::TIMESTAMP2, fraction),
        "year" => (t::YEAR, 0),
        "char" | "binary" => (t::CHAR, octets),
        "varchar" | "varbinary" => (t::VARCHAR, octets),
        "tinyblob" | "tinytext" => (t::BLOB, 1),
        "blob" | "text" => (t::BLOB, 2),
        "mediumblob" | "mediumtext" => (t::BLOB, 3),
        "longblob" | "longtext" => (t::BLOB, 4),
        "json" => (t::JSON, 4),
        "vector" => (t::VECTOR, 4),
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring" | "multipolygon"
        | "geomcollection" | "geometrycollection" => (t::GEOMETRY, 4),
        "enum" => (t::ENUM, if members(&declared).len() < 256 { 1 } else { 2 }),
        "set" => {
            let bytes = members(&declared).len().div_ceil(8) as u16;
            (t::SET, if bytes > 4 { 8 } else { bytes })
        }
        _ => return Err(declared),
    };
    let mut ty = ColumnType::new(code, meta);
    ty.unsigned = declared.contains("unsigned");
    ty.collation = match result.text(row, 7) {
        Some(name) => collation::by_name(&name).map_or(0, |collation| collation.id),
        None if matches!(code, t::CHAR | t::VARCHAR | t::BLOB) => collation::BINARY,
        None => 0,
    };
    if matches!(code, t::ENUM | t::SET) {
        let names: Option<Vec<Box<[u8]>>> = exact
            .unwrap_or_else(|| members(&declared))
            .iter()
            .map(|name| charset::from_utf8mb4(ty.collation, name.as_bytes()).ok().map(|name| name.into()))
            .collect();
        ty.members = names.unwrap_or_default().into();
    }
    ty.check().map_err(|_| declared)?;
    Ok(ty)
}

/// The numbers in `decimal(10,2) unsigned`; 0 where there is none. `NUMERIC_PRECISION` is not used: 9.7 puts 66 there for
/// the decimal(65,0) of a CREATE TABLE … SELECT of 66 digits.
fn parameters(declared: &str) -> (u16, u16) {
    let inside = declared.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or("", |(inside, _)| inside);
    let mut numbers = inside.split(',').map(|number| number.trim().parse::<u8>().map_or(0, u16::from));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Names in `enum('a','b''c')`. Backslashes are escapes, whatever the sql_mode (seen on 9.7; `append_unescaped`).
fn members(declared: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = declared.chars().peekable();
    while rest.by_ref().any(|character| character == '\'') {
        let mut name = String::new();
        while let Some(character) = rest.next() {
            if character == '\'' && rest.next_if_eq(&'\'').is_none() {
                break;
            }
            name.push(match character {
                '\\' => match rest.next() {
                    Some('0') => '\0',
                    Some('n') => '\n',
                    Some('r') => '\r',
                    other => other.unwrap_or(character),
                },
                _ => character,
            });
        }
        names.push(name);
    }
    names
}

impl ServerTable {
    /// The shape in which to compare the table.
    ///
    /// # Errors
    /// Names the column whose type is not supported.
    pub(crate) fn shape(&self) -> Result<Shape, String> {
        let mut types = Vec::new();
        for column in &self.columns {
            match &column.ty {
                Ok(ty) => types.push(ty.clone()),
                Err(declared) => {
                    return Err(format!("column `{}` has the type {declared}, which is not supported", column.name));
                }
            }
        }
        Ok(Shape {
            db: self.db.clone(),
            table: self.name.clone(),
            names: self.columns.iter().map(|column| column.name.clone()).collect(),
            layout: RowLayout::new(&types),
            types,
            key: self.key.clone(),
            not_known: Vec::new(),
        })
    }

    /// How `here`, another definition of the table, disagrees with this one; None if they agree.
    pub(crate) fn disagrees(&self, here: &Shape) -> Option<String> {
        let listed = |names: Vec<&str>| names.join(", ");
        let ours: Vec<&str> = here.names.iter().map(String::as_str).collect();
        let theirs: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let same_names = ours.len() == theirs.len()
            && ours.iter().zip(&theirs).all(|(left, right)| left.to_lowercase() == right.to_lowercase());
        if !same_names {
            return Some(format!("columns in source ({}), here ({})", listed(theirs), listed(ours)));
        }
        self.columns.iter().zip(&here.types).find_map(|(column, ours)| {
            let name = &column.name;
            match &column.ty {
                Err(declared) => Some(format!("column `{name}` has the type {declared}, which is not supported")),
                Ok(theirs) => type_difference(theirs, ours)
                    .map(|(theirs, ours)| format!("column `{name}`: in source {theirs}, here {ours}")),
            }
        })
    }
}

fn type_difference(source: &ColumnType, here: &ColumnType) -> Option<(String, String)> {
    let text = matches!(source.code, t::CHAR | t::VARCHAR | t::BLOB | t::ENUM | t::SET);
    let same = source.code == here.code
        && source.meta == here.meta
        && (!source.is_integer() || source.unsigned == here.unsigned)
        && (!text || source.collation == here.collation || source.collation == 0 || here.collation == 0)
        && (source.members == here.members || source.members.is_empty() || here.members.is_empty());
    (!same).then(|| (described(source), described(here)))
}

/// A type as in a definition, with lengths in bytes.
fn described(ty: &ColumnType) -> String {
    let parameters = match ty.code {
        t::DECIMAL => {
            let (precision, scale) = ty.precision_and_scale();
            format!("({precision},{scale})")
        }
        t::CHAR | t::VARCHAR | t::BIT => format!("({})", ty.meta),
        t::TIME2 | t::DATETIME2 | t::TIMESTAMP2 if ty.meta > 0 => format!("({})", ty.meta),
        t::BLOB => format!(" with a length of {} bytes", ty.meta),
        t::ENUM | t::SET => {
            let names: Vec<_> = ty.members.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
            format!("({})", names.join(","))
        }
        _ => String::new(),
    };
    let sign = if ty.unsigned { " UNSIGNED" } else { "" };
    let collation = ty.text_collation().map_or(String::new(), |collation| format!(" COLLATE {}", collation.name));
    format!("{}{parameters}{sign}{collation}", ty.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, data_type: &str, declared: &str, octets: &str, collation: &str) -> ServerColumn {
        let cell = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
        let row = ["d", "t", name, data_type, declared, octets, "3", collation, "NO", ""];
        let result = ResultSet { rows: vec![row.iter().map(|text| cell(text)).collect()], ..ResultSet::default() };
        ServerColumn { name: name.into(), ty: column_type(&result, 0, None), nullable: false, is_virtual: false }
    }

    #[test]
    fn types_are_those_of_row_images() {
        let ty = |data_type: &str, declared: &str, octets: &str, collation: &str| {
            let ty = column("c", data_type, declared, octets, collation).ty.unwrap();
            (ty.code, ty.meta, ty.unsigned, ty.collation)
        };
        assert_eq!(ty("int", "int unsigned", "", ""), (t::LONG, 0, true, 0));
        assert_eq!(ty("decimal", "decimal(10,2)", "", ""), (t::DECIMAL, 10 << 8 | 2, false, 0));
        assert_eq!(ty("decimal", "decimal(65,30) unsigned zerofill", "", ""), (t::DECIMAL, 65 << 8 | 30, true, 0));
        assert_eq!(ty("bit", "bit(64)", "", ""), (t::BIT, 64, false, 0));
        assert_eq!(ty("char", "char(3)", "12", "utf8mb4_0900_ai_ci"), (t::CHAR, 12, false, 255));
        assert_eq!(ty("varbinary", "varbinary(300)", "300", ""), (t::VARCHAR, 300, false, 63));
        assert_eq!(ty("datetime", "datetime(3)", "", ""), (t::DATETIME2, 3, false, 0));
        assert_eq!(ty("enum", "enum('a','b''c')", "4", "latin1_swedish_ci"), (t::ENUM, 1, false, 8));
        assert!(column("c", "uuid", "uuid", "", "").ty.is_err());
        assert_eq!(members("set('a','','b''c',')')"), ["a", "", "b'c", ")"]);
        assert_eq!(members(r"enum('a\\b\n\0','c\\','d''')"), ["a\\b\n\0", "c\\", "d'"]);
    }

    #[test]
    fn keys_of_whole_columns_that_are_never_null() {
        let mut columns = vec![
            column("a", "int", "int", "", ""),
            column("b", "int", "int", "", ""),
            column("c", "int", "int", "", ""),
        ];
        columns[0].nullable = true;
        let key = |name: &str, parts: &[(&str, bool)]| KeyParts {
            name: name.into(),
            parts: parts.iter().map(|(name, prefix)| (Some(name.to_string()), *prefix)).collect(),
        };
        let keys = [key("k1", &[("a", false)]), key("k2", &[("b", true)]), key("k3", &[("c", false), ("b", false)])];
        assert_eq!(best_key(&keys, &columns), [2, 1]);
        assert_eq!(best_key(&keys[..2], &columns), [0usize; 0]);
    }

    #[test]
    fn definitions_that_disagree_are_named() {
        let table = |columns: Vec<ServerColumn>| ServerTable {
            db: "d".into(),
            name: "t".into(),
            engine: "InnoDB".into(),
            columns,
            key: vec![],
        };
        let one = table(vec![column("id", "int", "int", "", ""), column("v", "varchar", "varchar(9)", "36", "")]);
        assert_eq!(one.disagrees(&one.shape().unwrap()), None);
        let other = table(vec![column("ID", "int", "int unsigned", "", ""), one.columns[1].clone()]);
        let said = one.disagrees(&other.shape().unwrap()).unwrap();
        assert!(said.contains("`id`: in source INT, here INT UNSIGNED"), "{said}");
        let fewer = table(vec![one.columns[0].clone()]);
        assert!(one.disagrees(&fewer.shape().unwrap()).unwrap().contains("source (id, v), here (id)"));
    }
}
