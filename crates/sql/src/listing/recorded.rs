//! The columns of listings, as they were recorded.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use catalog::{Catalog, StatementContext, TableDef};
use values::collation::{self, BINARY};
use values::sort_key::implemented;
use wire::response::column_flag as flag;
use wire::row::type_code as w;

use crate::Result;
use crate::bind::{Field, Value};
use crate::error::SqlError;
use crate::table::Origin;

static RECORDED: &str = include_str!("../listings.tsv");
static ROWS: &str = include_str!("../listed_rows.tsv");
static MEMBERS: &str = include_str!("../members.tsv");

/// utf8mb3_general_ci: the collation of texts of which none is recorded.
const NAMES: u16 = 33;
/// Longest text that is held as a VARCHAR, in characters.
const VARCHAR_CHARS: u32 = 4_096;

/// Columns of a table that is kept nowhere.
#[derive(Debug, Clone)]
pub struct Listing {
    /// `schema.table`, or the SHOW.
    pub name: String,
    /// Its columns as a table's, for comparing their values.
    pub table: Arc<TableDef>,
    pub columns: Vec<ListingColumn>,
}

#[derive(Debug, Clone)]
pub struct ListingColumn {
    pub name: Cow<'static, str>,
    pub field: Field,
    /// Whether it is an ENUM or SET, which MySQL orders by its members' numbers.
    pub is_enumeration: bool,
    schema: &'static str,
    /// None: the alias of the table.
    table: Option<&'static str>,
    org_table: &'static str,
    org_name: Cow<'static, str>,
}

/// Tables of `information_schema` whose columns have their names in capitals, however a statement writes them.
const IN_CAPITALS: &[&str] = &[
    "ADMINISTRABLE_ROLE_AUTHORIZATIONS",
    "CHARACTER_SETS",
    "CHECK_CONSTRAINTS",
    "COLLATION_CHARACTER_SET_APPLICABILITY",
    "COLUMNS",
    "COLUMNS_EXTENSIONS",
    "COLUMN_STATISTICS",
    "EVENTS",
    "FILES",
    "INNODB_DATAFILES",
    "INNODB_FIELDS",
    "INNODB_FOREIGN_COLS",
    "INNODB_TABLESPACES_BRIEF",
    "JSON_DUALITY_VIEWS",
    "JSON_DUALITY_VIEW_COLUMNS",
    "JSON_DUALITY_VIEW_LINKS",
    "JSON_DUALITY_VIEW_TABLES",
    "KEYWORDS",
    "KEY_COLUMN_USAGE",
    "LIBRARIES",
    "PARAMETERS",
    "PARTITIONS",
    "REFERENTIAL_CONSTRAINTS",
    "RESOURCE_GROUPS",
    "ROUTINES",
    "ROUTINE_LIBRARIES",
    "SCHEMATA",
    "SCHEMATA_EXTENSIONS",
    "STATISTICS",
    "ST_GEOMETRY_COLUMNS",
    "ST_SPATIAL_REFERENCE_SYSTEMS",
    "ST_UNITS_OF_MEASURE",
    "TABLES",
    "TABLESPACES_EXTENSIONS",
    "TABLES_EXTENSIONS",
    "TABLE_CONSTRAINTS",
    "TABLE_CONSTRAINTS_EXTENSIONS",
    "TRIGGERS",
    "USER_ATTRIBUTES",
    "VIEWS",
    "VIEW_ROUTINE_USAGE",
    "VIEW_TABLE_USAGE",
];

/// Columns that are nullable under a strict `sql_mode` and not without one: MySQL computes them by conversions that can
/// fail.
const NULLABLE_WHERE_STRICT: &[(&str, &[&str])] = &[
    ("information_schema.COLUMNS", &["COLUMN_NAME", "DATA_TYPE", "EXTRA"]),
    ("information_schema.COLUMNS_EXTENSIONS", &["COLUMN_NAME"]),
    ("information_schema.FILES", &["FILE_NAME"]),
    ("information_schema.INNODB_DATAFILES", &["SPACE"]),
    ("information_schema.INNODB_FIELDS", &["INDEX_ID"]),
    ("information_schema.INNODB_FOREIGN", &["ID", "FOR_NAME", "REF_NAME"]),
    ("information_schema.INNODB_FOREIGN_COLS", &["ID"]),
    ("information_schema.INNODB_TABLESPACES_BRIEF", &["SPACE", "FLAG"]),
    ("information_schema.KEY_COLUMN_USAGE", &["CONSTRAINT_NAME", "COLUMN_NAME"]),
    ("information_schema.PARAMETERS", &["DATA_TYPE"]),
    ("information_schema.REFERENTIAL_CONSTRAINTS", &["CONSTRAINT_NAME"]),
    ("information_schema.RESOURCE_GROUPS", &["VCPU_IDS"]),
    ("information_schema.ROUTINES", &["DATA_TYPE"]),
    ("information_schema.SCHEMATA_EXTENSIONS", &["OPTIONS"]),
    ("information_schema.STATISTICS", &["INDEX_NAME"]),
    ("information_schema.ST_GEOMETRY_COLUMNS", &["COLUMN_NAME", "GEOMETRY_TYPE_NAME"]),
    ("information_schema.TABLE_CONSTRAINTS", &["CONSTRAINT_NAME"]),
    ("SHOW COLUMNS", &["Field", "Extra"]),
    ("SHOW FULL COLUMNS", &["Field", "Extra"]),
    ("SHOW INDEX", &["Key_name"]),
];

impl Listing {
    /// A column's metadata under this `sql_mode`.
    pub(crate) fn field(&self, column: &ListingColumn, sql_mode: u64) -> Field {
        use catalog::sql_mode::{STRICT_ALL_TABLES, STRICT_TRANS_TABLES};
        let mut field = column.field;
        let name = self.name.strip_prefix(PREPARE).unwrap_or(&self.name);
        if sql_mode & (STRICT_ALL_TABLES | STRICT_TRANS_TABLES) == 0
            && NULLABLE_WHERE_STRICT
                .iter()
                .any(|(listing, columns)| *listing == name && columns.contains(&column.name.as_ref()))
        {
            field.flags |= flag::NOT_NULL;
        }
        field
    }

    /// True if its columns have their names in capitals, however a statement writes them.
    pub(crate) fn names_in_capitals(&self) -> bool {
        self.is_view()
    }

    /// True for a column that the view computes: it comes from no schema. Of two views a temporary table tells no
    /// schema of any column where `*` looks through them.
    pub(crate) fn computes(&self, column: &ListingColumn) -> bool {
        let of_temporary = ["information_schema.APPLICABLE_ROLES", "information_schema.ENABLED_ROLES"];
        column.schema.is_empty() && !of_temporary.contains(&self.name.as_str())
    }

    /// True for a view of MySQL's dictionary, as most of `information_schema` are.
    #[must_use]
    pub fn is_view(&self) -> bool {
        let table = self.name.strip_prefix("information_schema.");
        table.is_some_and(|table| IN_CAPITALS.contains(&table))
    }

    /// The same with another name of its first column, as SHOW TABLES has it.
    #[must_use]
    pub fn with_first_named(&self, name: &str) -> Listing {
        let mut listing = self.clone();
        if let Some(first) = listing.columns.first_mut() {
            first.name = Cow::Owned(name.to_owned());
            // MySQL tells its own name when SHOW DATABASES LIKE is prepared.
            if self.name != "prepare SHOW DATABASES" {
                first.org_name = first.name.clone();
            }
        }
        if let Some(first) = Arc::make_mut(&mut listing.table).columns.first_mut() {
            name.clone_into(&mut first.name);
        }
        listing
    }
}

impl ListingColumn {
    /// The name of the column that it comes from.
    #[must_use]
    pub fn org_name(&self) -> &str {
        &self.org_name
    }

    /// Where it comes from, for a statement that gives the table this alias.
    #[must_use]
    pub fn origin(&self, alias: &str) -> Origin {
        let bytes = |text: &str| text.as_bytes().to_vec();
        Origin {
            schema: bytes(self.schema),
            table: bytes(self.table.unwrap_or(alias)),
            org_table: bytes(self.org_table),
        }
    }
}

/// Recorded lines of each listing, by its name in lower case.
pub(super) type Recorded = BTreeMap<String, (&'static str, Vec<&'static str>)>;

pub(super) fn sections(text: &'static str) -> Recorded {
    let mut all = Recorded::new();
    let mut name = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("> ") {
            Some(begun) => name = begun,
            None => all.entry(name.to_lowercase()).or_insert((name, Vec::new())).1.push(line),
        }
    }
    all
}

fn lines() -> &'static Recorded {
    static ALL: OnceLock<Recorded> = OnceLock::new();
    ALL.get_or_init(|| sections(RECORDED))
}

/// The members of an ENUM of a table, in the order of their numbers; None for other columns.
#[must_use]
pub fn members_of(listing: &str, column: &str) -> Option<Vec<&'static str>> {
    let lines = MEMBERS.lines().filter(|line| !line.starts_with('#'));
    let mut cells = lines.filter_map(|line| line.split_once('\t')?.1.split_once('\t').map(|rest| (line, rest)));
    let found = cells.find(|(line, (name, _))| {
        line.split('\t').next().is_some_and(|table| table.eq_ignore_ascii_case(listing)) && *name == column
    });
    found.map(|(_, (_, members))| members.split('|').collect())
}

fn lines_of_rows() -> &'static Recorded {
    static ALL: OnceLock<Recorded> = OnceLock::new();
    ALL.get_or_init(|| sections(ROWS))
}

/// True for a word that MySQL 9.7 reserves, in any case.
pub(crate) fn is_reserved(word: &[u8]) -> bool {
    static ALL: OnceLock<BTreeSet<&str>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let rows = lines_of_rows().get("information_schema.keywords").map(|(_, rows)| rows.as_slice());
        rows.unwrap_or_default().iter().filter_map(|row| row.strip_suffix("\t1")).collect()
    });
    str::from_utf8(word).is_ok_and(|word| all.contains(word.to_ascii_uppercase().as_str()))
}

/// The rows of a table that are the same in every server; None for other tables.
#[must_use]
pub fn recorded_rows(listing: &Listing) -> Option<Vec<Vec<Value>>> {
    let (_, rows) = lines_of_rows().get(&listing.name.to_lowercase())?;
    let row =
        |row: &&str| listing.columns.iter().zip(row.split('\t')).map(|(column, cell)| value_of(column, cell)).collect();
    Some(rows.iter().map(row).collect())
}

/// A recorded cell that stands for NULL.
pub(super) const NULL: &str = "\\N";

/// The value of a recorded cell of a column.
pub(super) fn value_of(column: &ListingColumn, cell: &str) -> Value {
    match cell {
        NULL => Value::Null,
        _ if column.field.collation != BINARY => Value::Text(cell.as_bytes().to_vec()),
        number if column.field.flags & flag::UNSIGNED != 0 => number.parse().map_or(Value::Null, Value::UInt),
        number => number.parse().map_or(Value::Null, Value::Int),
    }
}

/// The listing of this name, in any case.
///
/// # Errors
/// What was recorded of it is no table.
pub fn listing(name: &str) -> Result<Option<&'static Listing>> {
    static MADE: OnceLock<BTreeMap<&'static str, OnceLock<Result<Listing>>>> = OnceLock::new();
    let made = MADE.get_or_init(|| lines().keys().map(|name| (name.as_str(), OnceLock::new())).collect());
    let name = name.to_lowercase();
    let Some((place, (name, columns))) = made.get(name.as_str()).zip(lines().get(&name)) else { return Ok(None) };
    place.get_or_init(|| of_lines(name, columns)).as_ref().map(Some).map_err(Clone::clone)
}

/// The columns of a SHOW as MySQL describes them when it is prepared: its plan, which puts rows into a temporary table
/// of other columns, is made when it runs.
///
/// # Errors
/// As [`listing`].
pub fn listing_prepared(show: &str) -> Result<Option<&'static Listing>> {
    match listing(&format!("{PREPARE}{show}"))? {
        Some(own) => Ok(Some(own)),
        None => listing(show),
    }
}

/// Begins the name of what a SHOW says when it is prepared.
const PREPARE: &str = "prepare ";

/// Names of the tables of a virtual schema, in order.
pub fn tables_of(schema: &str) -> impl Iterator<Item = &'static str> {
    lines().values().filter_map(move |(name, _)| name.strip_prefix(schema)?.strip_prefix('.'))
}

fn of_lines(name: &str, lines: &[&'static str]) -> Result<Listing> {
    let broken = || SqlError::defect(format!("the recorded definition of {name} is not a table"));
    let mut columns = Vec::new();
    let mut sql = "CREATE TABLE t (".to_owned();
    for line in lines {
        let (column, definition) = of_line(line).ok_or_else(broken)?;
        let comma = if columns.is_empty() { "" } else { ", " };
        let _ = write!(sql, "{comma}`{}` {definition}", column.name);
        columns.push(column);
    }
    sql.push(')');
    let context = StatementContext { default_db: "d".to_owned(), ..StatementContext::default() };
    let catalog = ["CREATE DATABASE d CHARACTER SET utf8mb3", &sql]
        .iter()
        .try_fold(Catalog::new(0), |catalog, sql| catalog.apply(&context, sql.as_bytes()).map(|done| done.catalog))
        .map_err(|_| broken())?;
    let made = catalog.table("d", "t").ok_or_else(broken)?;
    let (db, table) = name.split_once('.').unwrap_or(("", name));
    let table = TableDef { db: db.to_owned(), name: table.to_owned(), ..TableDef::clone(made) };
    Ok(Listing { name: name.to_owned(), table: Arc::new(table), columns })
}

/// A column, and its type as a definition's text.
fn of_line(line: &'static str) -> Option<(ListingColumn, String)> {
    let cells: Vec<&'static str> = line.split('\t').collect();
    let [name, schema, table, org_table, org_name, code, flags, length, decimals, kind, text] = cells[..] else {
        return None;
    };
    let type_code: u8 = code.parse().ok()?;
    let (flags, length): (u16, u32) = (flags.parse().ok()?, length.parse().ok()?);
    let decimals = decimals.parse().ok()?;
    let is_text = kind == "text";
    let own = || collation::by_name(text).map_or(NAMES, |own| own.id);
    let field = Field { type_code, flags, length, decimals, collation: if is_text { own() } else { BINARY } };
    let is_enumeration = flags & (flag::ENUM | flag::SET) != 0;
    let table = Some(table).filter(|table| *table != "=");
    let definition = match type_code {
        _ if is_text => text_type(length, text, flags),
        w::TINY | w::SHORT | w::INT24 | w::LONG | w::LONGLONG => {
            format!("BIGINT{}", if flags & flag::UNSIGNED != 0 { " UNSIGNED" } else { "" })
        }
        w::FLOAT | w::DOUBLE => "DOUBLE".to_owned(),
        w::NEWDECIMAL => format!("DECIMAL(65,{decimals})"),
        w::DATE => "DATE".to_owned(),
        w::DATETIME => format!("DATETIME({decimals})"),
        w::TIMESTAMP => format!("TIMESTAMP({decimals}) NULL"),
        w::JSON => "JSON".to_owned(),
        // Bytes, and what is always NULL.
        _ => "VARBINARY(4096)".to_owned(),
    };
    let (name, org_name) = (Cow::Borrowed(name), Cow::Borrowed(org_name));
    Some((ListingColumn { name, field, is_enumeration, schema, table, org_table, org_name }, definition))
}

/// `text` is the column's collation, or `-`.
fn text_type(length: u32, text: &str, flags: u16) -> String {
    let own = collation::by_name(text).filter(|own| implemented(own.id)).map(|own| own.name);
    let collation = own.unwrap_or(if flags & flag::BINARY != 0 { "utf8mb3_bin" } else { "utf8mb3_general_ci" });
    let charset = collation.split('_').next().unwrap_or("utf8mb3");
    match length {
        0..=VARCHAR_CHARS => format!("VARCHAR({length}) CHARACTER SET {charset} COLLATE {collation}"),
        _ => format!("LONGTEXT CHARACTER SET {charset} COLLATE {collation}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listing_is_a_table() {
        for (name, columns) in lines() {
            let listing = listing(name).unwrap().unwrap();
            assert_eq!(listing.columns.len(), columns.1.len(), "{name}");
            assert_eq!(listing.table.columns.len(), columns.1.len(), "{name}");
        }
        assert!(lines().len() > 150);
        assert!(tables_of("information_schema").any(|table| table == "TABLES"));
        assert!(listing("nonsense").unwrap().is_none());
        assert_eq!(
            members_of("information_schema.tables", "TABLE_TYPE").unwrap(),
            ["BASE TABLE", "VIEW", "SYSTEM VIEW"]
        );
        assert_eq!(members_of("information_schema.COLUMNS", "COLUMN_KEY").unwrap(), ["", "PRI", "UNI", "MUL"]);
        assert_eq!(members_of("information_schema.COLUMNS", "COLUMN_NAME"), None);
    }
}
