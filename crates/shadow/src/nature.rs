//! What of an answer differs by nature between two servers that hold the same rows.
//!
//! In: a parsed statement and the session's default schema. Out: the reason for all of its rows, or for single columns.
//! Never here: the statement's text, an answer's values: neither may excuse anything.

use std::cell::Cell;

use sql::listing::{Choice, virtual_schema};
use sql::{Comparison, Expression, Mark, Order, Scope, Select, Show, Statement};
use wire::response::ColumnDefinition;

const TIME: &str = "time";
const CHANCE: &str = "chance";
const CONNECTION: &str = "the connection's number";
const HOST: &str = "the account's host";
const ACCOUNTS: &str = "accounts";
const VERSION: &str = "the server's version";
const OWN_WRITES: &str = "own writes";
const SESSIONS: &str = "sessions";
const SCHEMAS: &str = "schemas of the server itself";
const SETTINGS: &str = "the server's settings";
const REPLICATION: &str = "replication's state";
const COUNTERS: &str = "the server's counters";
const LOGS: &str = "the server's logs";
const FILES: &str = "the server's files";
const ESTIMATES: &str = "estimates";
const ENGINES: &str = "the server's engines";
const PLUGINS: &str = "the server's plugins";
const CHECKS: &str = "what the server checks";
/// It counts what was rolled back too, which no log tells.
pub(crate) const NEXT_NUMBER: &str = "a table's next AUTO_INCREMENT";

/// Functions whose value is the moment's or the server's, and why. UNIX_TIMESTAMP(t), RAND(seed) and LAST_INSERT_ID(n)
/// are none: what follows from their arguments is the same everywhere.
const FUNCTIONS: &[(&str, Arguments, &str)] = &[
    ("NOW", Arguments::Any, TIME),
    ("CURRENT_TIMESTAMP", Arguments::Any, TIME),
    ("LOCALTIME", Arguments::Any, TIME),
    ("LOCALTIMESTAMP", Arguments::Any, TIME),
    ("SYSDATE", Arguments::Any, TIME),
    ("CURDATE", Arguments::Any, TIME),
    ("CURRENT_DATE", Arguments::Any, TIME),
    ("CURTIME", Arguments::Any, TIME),
    ("CURRENT_TIME", Arguments::Any, TIME),
    ("UTC_TIMESTAMP", Arguments::Any, TIME),
    ("UTC_DATE", Arguments::Any, TIME),
    ("UTC_TIME", Arguments::Any, TIME),
    ("UNIX_TIMESTAMP", Arguments::None, TIME),
    ("RAND", Arguments::None, CHANCE),
    ("UUID", Arguments::Any, CHANCE),
    ("UUID_SHORT", Arguments::Any, CHANCE),
    ("RANDOM_BYTES", Arguments::Any, CHANCE),
    ("CONNECTION_ID", Arguments::Any, CONNECTION),
    ("USER", Arguments::Any, HOST),
    ("CURRENT_USER", Arguments::Any, HOST),
    ("SESSION_USER", Arguments::Any, HOST),
    ("SYSTEM_USER", Arguments::Any, HOST),
    ("CURRENT_ROLE", Arguments::Any, ACCOUNTS),
    ("VERSION", Arguments::Any, VERSION),
    ("LAST_INSERT_ID", Arguments::None, OWN_WRITES),
    ("ROW_COUNT", Arguments::Any, OWN_WRITES),
    ("FOUND_ROWS", Arguments::Any, OWN_WRITES),
    ("MASTER_POS_WAIT", Arguments::Any, REPLICATION),
    ("SOURCE_POS_WAIT", Arguments::Any, REPLICATION),
];

/// Variables that tell of the session's last statement, which ran at both.
const OF_LAST_STATEMENT: &[&str] = &["warning_count", "error_count"];

/// Tables of information_schema that list what is each server's own.
const TABLES: &[(&str, &str)] = &[
    ("PROCESSLIST", SESSIONS),
    ("PROFILING", SESSIONS),
    ("OPTIMIZER_TRACE", SESSIONS),
    ("ENGINES", ENGINES),
    ("PLUGINS", PLUGINS),
    ("FILES", FILES),
    ("TABLESPACES_EXTENSIONS", FILES),
    ("RESOURCE_GROUPS", SETTINGS),
    ("COLUMN_STATISTICS", ESTIMATES),
    ("COLUMN_PRIVILEGES", ACCOUNTS),
    ("SCHEMA_PRIVILEGES", ACCOUNTS),
    ("TABLE_PRIVILEGES", ACCOUNTS),
    ("USER_PRIVILEGES", ACCOUNTS),
    ("USER_ATTRIBUTES", ACCOUNTS),
    ("ADMINISTRABLE_ROLE_AUTHORIZATIONS", ACCOUNTS),
    ("APPLICABLE_ROLES", ACCOUNTS),
    ("ENABLED_ROLES", ACCOUNTS),
    ("ROLE_COLUMN_GRANTS", ACCOUNTS),
    ("ROLE_ROUTINE_GRANTS", ACCOUNTS),
    ("ROLE_TABLE_GRANTS", ACCOUNTS),
];

/// Tables of information_schema that list schemas, by this column.
const TABLES_OF_SCHEMAS: &[&str] = &["SCHEMATA", "SCHEMATA_EXTENSIONS"];
const SCHEMA_NAME: &str = "SCHEMA_NAME";

/// Schemas that a server makes for itself.
const OWN_SCHEMAS: &[&str] = &["mysql", "sys", "information_schema", "performance_schema", "ndbinfo"];

/// Variables that follow the default schema, where the session has one.
const OF_SCHEMA: &[&str] = &["character_set_database", "collation_database"];

/// Variables that a login says, at both.
const OF_LOGIN: &[&str] =
    &["character_set_client", "character_set_connection", "character_set_results", "collation_connection"];

/// Whether a server makes a schema of this name for itself.
pub(crate) fn is_own_schema(name: &[u8]) -> bool {
    OWN_SCHEMAS.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name))
}

/// Which of an answer's columns names schemas, by their names and those of the table's columns they come from.
pub(crate) fn names_schemas(columns: &[ColumnDefinition<'_>]) -> Option<usize> {
    let of_table = columns.iter().position(|column| column.org_name.eq_ignore_ascii_case(SCHEMA_NAME.as_bytes()));
    // SHOW DATABASES LIKE 'a%' has `Database (a%)` alone.
    of_table.or_else(|| matches!(columns, [one] if one.name.starts_with(b"Database")).then_some(0))
}

/// Columns that are each server's own in a table whose other columns are not, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Own {
    columns: &'static [&'static str],
    why: &'static str,
}

const OF_TABLES: Own = Own {
    columns: &[
        "ROW_FORMAT",
        "TABLE_ROWS",
        "AVG_ROW_LENGTH",
        "DATA_LENGTH",
        "MAX_DATA_LENGTH",
        "INDEX_LENGTH",
        "DATA_FREE",
        "AUTO_INCREMENT",
        "CREATE_TIME",
        "UPDATE_TIME",
        "CHECK_TIME",
    ],
    why: FILES,
};
/// The same as SHOW TABLE STATUS names them.
const OF_TABLE_STATUS: Own = Own {
    columns: &[
        "Row_format",
        "Rows",
        "Avg_row_length",
        "Data_length",
        "Max_data_length",
        "Index_length",
        "Data_free",
        "Auto_increment",
        "Create_time",
        "Update_time",
        "Check_time",
    ],
    why: FILES,
};
/// Of information_schema.COLUMNS and of SHOW FULL COLUMNS.
const OF_COLUMNS: Own = Own { columns: &["PRIVILEGES"], why: ACCOUNTS };
/// Of information_schema.STATISTICS and of SHOW INDEX.
const OF_INDEXES: Own = Own { columns: &["CARDINALITY"], why: ESTIMATES };

impl Own {
    fn has(self, name: &[u8]) -> bool {
        self.columns.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arguments {
    Any,
    None,
}

/// Why rows differ by nature, whichever columns they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    /// They list what is the server's own. An error may be as well.
    Own(&'static str),
    /// They list schemas, some of which are the server's own. Without a column that names them, all of them differ.
    Schemas(&'static str),
    /// Which rows there are, or in what order, follows from a value that differs by nature.
    Chosen(&'static str),
}

/// How far both describe columns that differ by nature alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Described {
    #[default]
    Alike,
    /// Their names have a value in them, as `Grants for app@%`.
    NotNamed,
    /// A setting decides their types, and whether there is a warning: performance_schema_show_processlist.
    OnlyNamed,
}

/// A part of the select list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// One column, and why it differs.
    One(Option<&'static str>),
    /// All columns of the table, and which of them are each server's own.
    Star(Option<Own>),
}

/// What of a statement's answer differs by nature.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Nature {
    whole: Option<Whole>,
    parts: Vec<Part>,
    /// How far both describe its columns alike.
    pub described: Described,
    /// MySQL 8.4 has dropped its spelling, which the replica knows.
    pub is_dropped: bool,
    /// Columns of the result by which ORDER BY orders, by number from 0.
    places: Vec<usize>,
}

/// The same for an answer whose columns are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Excused {
    /// Why all of its rows differ.
    pub whole: Option<Whole>,
    /// For each column why it differs.
    pub columns: Vec<Option<&'static str>>,
}

impl Excused {
    /// The reason, or one of several.
    pub(crate) fn why(&self) -> Option<&'static str> {
        match self.whole {
            Some(Whole::Own(why) | Whole::Schemas(why) | Whole::Chosen(why)) => Some(why),
            None => self.columns.iter().copied().flatten().next(),
        }
    }

    /// Whether this column differs.
    pub(crate) fn has(&self, column: usize) -> bool {
        self.columns.get(column).is_some_and(Option::is_some)
    }
}

impl Nature {
    /// Of this statement, in a session with this default schema.
    pub(crate) fn of(statement: &Statement, schema: Option<&str>) -> Nature {
        match statement {
            Statement::Select(select) => of_select(select, schema),
            Statement::Show(show) => of_show(show),
            // The optimizer's, in its own words.
            Statement::Explain { .. } => {
                Nature { whole: Some(Whole::Own(ESTIMATES)), parts: vec![Part::Star(None)], ..Nature::default() }
            }
            _ => Nature::default(),
        }
    }

    /// Of an answer with columns of these names.
    pub(crate) fn over(&self, names: &[&[u8]]) -> Excused {
        // One table only: every star is as wide as it.
        let stars = self.parts.iter().filter(|part| matches!(part, Part::Star(_))).count();
        let spread = names.len().checked_sub(self.parts.len() - stars);
        let width = match (spread, stars) {
            (Some(0), 0) => 0,
            (Some(spread), 1..) if spread % stars == 0 => spread / stars,
            // Not the columns that the statement has, or an error.
            _ => return Excused { whole: self.whole, columns: vec![None; names.len()] },
        };
        let mut columns = Vec::with_capacity(names.len());
        for part in &self.parts {
            match part {
                Part::One(why) => columns.push(*why),
                Part::Star(own) => {
                    let at = columns.len();
                    let of_table = names.iter().skip(at).take(width);
                    columns.extend(of_table.map(|name| own.filter(|own| own.has(name)).map(|own| own.why)));
                }
            }
        }
        let ordered_by = || self.places.iter().find_map(|place| columns.get(*place).copied().flatten());
        let whole = self.whole.or_else(|| ordered_by().map(Whole::Chosen));
        Excused { whole, columns }
    }
}

fn of_select(select: &Select, schema: Option<&str>) -> Nature {
    let (mut whole, mut own, mut lists_schemas) = (None, None, false);
    if let (Some(listed), Some(from)) = (virtual_schema(select, schema), &select.from) {
        (whole, own) = of_virtual(listed, &from.table);
        if whole == Some(SCHEMAS) && select.limit.rows.is_none() {
            let of_others = from.filter.as_ref().is_some_and(names_other_schemas);
            lists_schemas = !of_others;
            whole = None;
        }
    }
    let has_schema = schema.is_some();
    let why = |expression: &Expression| why(expression, own, has_schema);
    let part = |expression: &Expression| match expression {
        Expression::Star(_) => Part::Star(own),
        other => Part::One(why(other)),
    };
    let parts: Vec<Part> = select.items.iter().map(|item| part(&item.expression)).collect();
    let order = select.from.as_ref().map(|from| from.order.as_slice()).unwrap_or_default();
    // An alias goes before a column of that name.
    let by_alias = |order: &Order| {
        let Expression::Name(name) = &order.expression else { return None };
        let [name] = name.as_slice() else { return None };
        let is_it = |alias: &Option<Vec<u8>>| alias.as_ref().is_some_and(|alias| alias.eq_ignore_ascii_case(name));
        let at = select.items.iter().position(|item| is_it(&item.alias))?;
        parts.get(at).copied()
    };
    let of_order = |order: &Order| match by_alias(order) {
        Some(Part::One(why)) => why,
        _ => why(&order.expression),
    };
    let filter = select.from.as_ref().and_then(|from| from.filter.as_ref());
    let limits = std::iter::once(&select.limit.offset).chain(&select.limit.rows);
    let chosen = filter.into_iter().chain(limits).find_map(why);
    let chosen = chosen.or_else(|| order.iter().find_map(of_order));
    let place = |order: &Order| match &order.expression {
        Expression::Number(place) => place.parse::<usize>().ok()?.checked_sub(1),
        _ => None,
    };
    Nature {
        whole: whole.map(Whole::Own).or(chosen.map(Whole::Chosen)).or(lists_schemas.then_some(Whole::Schemas(SCHEMAS))),
        parts,
        places: order.iter().filter_map(place).collect(),
        ..Nature::default()
    }
}

/// Why rows of a table that is kept nowhere differ, or columns of it.
fn of_virtual(schema: &str, table: &[u8]) -> (Option<&'static str>, Option<Own>) {
    if schema == "performance_schema" {
        return (Some(COUNTERS), None);
    }
    let is = |name: &str| name.as_bytes().eq_ignore_ascii_case(table);
    if let Some((_, why)) = TABLES.iter().find(|(name, _)| is(name)) {
        return (Some(why), None);
    }
    if TABLES_OF_SCHEMAS.iter().any(|name| is(name)) {
        return (Some(SCHEMAS), None);
    }
    if table.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"INNODB_")) {
        return (Some(COUNTERS), None);
    }
    let of_columns =
        [("TABLES", OF_TABLES), ("PARTITIONS", OF_TABLES), ("COLUMNS", OF_COLUMNS), ("STATISTICS", OF_INDEXES)];
    (None, of_columns.into_iter().find(|(name, _)| is(name)).map(|(_, own)| own))
}

fn of_show(show: &Show) -> Nature {
    let none = Choice::default();
    let (whole, own, choice) = match show {
        Show::Databases { choice } => (None, None, choice),
        Show::Variables { choice, .. } => (Some(SETTINGS), None, choice),
        Show::Status { choice, .. } => (Some(COUNTERS), None, choice),
        Show::Grants { .. } => (Some(ACCOUNTS), None, &none),
        Show::Engines => (Some(ENGINES), None, &none),
        Show::Plugins => (Some(PLUGINS), None, &none),
        Show::OpenTables { choice, .. } => (Some(COUNTERS), None, choice),
        Show::CheckTables(_) => (Some(CHECKS), None, &none),
        Show::Engine { .. } => (Some(COUNTERS), None, &none),
        Show::Processlist { .. } => (Some(SESSIONS), None, &none),
        Show::ReplicaStatus { .. } | Show::Replicas { .. } => (Some(REPLICATION), None, &none),
        Show::BinaryLogStatus | Show::BinaryLogs | Show::RelayLogEvents { .. } => (Some(LOGS), None, &none),
        Show::Columns { full, choice, .. } => (None, full.then_some(OF_COLUMNS), choice),
        Show::Index { choice, .. } => (None, Some(OF_INDEXES), choice),
        Show::TableStatus { choice, .. } => (None, Some(OF_TABLE_STATUS), choice),
        Show::Tables { choice, .. }
        | Show::Collation { choice }
        | Show::CharacterSet { choice }
        | Show::Objects { choice, .. } => (None, None, choice),
        Show::CreateTable { .. } | Show::CreateDatabase { .. } => (None, None, &none),
    };
    let chosen = choice.filter.as_ref().and_then(|filter| why(filter, own, true));
    let whole = match show {
        Show::Databases { .. } => Some(Whole::Schemas(SCHEMAS)),
        _ => whole.map(Whole::Own).or(chosen.map(Whole::Chosen)),
    };
    let parts = match show {
        Show::CreateTable { .. } => vec![Part::One(None), Part::One(Some(NEXT_NUMBER))],
        _ => vec![Part::Star(own)],
    };
    Nature {
        whole,
        parts,
        described: match show {
            Show::Grants { .. } => Described::NotNamed,
            Show::Processlist { .. } => Described::OnlyNamed,
            _ => Described::Alike,
        },
        is_dropped: matches!(show, Show::ReplicaStatus { .. } | Show::Replicas { .. } | Show::BinaryLogStatus),
        places: Vec::new(),
    }
}

/// Whether a condition lets no schema pass that is a server's own.
fn names_other_schemas(filter: &Expression) -> bool {
    let is_name = |side: &Expression| {
        matches!(side, Expression::Name(name)
            if name.last().is_some_and(|name| name.eq_ignore_ascii_case(SCHEMA_NAME.as_bytes())))
    };
    let is_other = |side: &Expression| matches!(side, Expression::Text { bytes, .. } if !is_own_schema(bytes));
    match filter {
        Expression::And(all) => all.iter().any(names_other_schemas),
        Expression::Compare { operator: Comparison::Equal, sides } => {
            (is_name(&sides.0) && is_other(&sides.1)) || (is_other(&sides.0) && is_name(&sides.1))
        }
        Expression::In { value, list, negated: false } => is_name(value) && list.iter().all(is_other),
        _ => false,
    }
}

/// Why an expression's value differs in a session with or without a default schema.
fn why(expression: &Expression, own: Option<Own>, has_schema: bool) -> Option<&'static str> {
    let found = Cell::new(None);
    expression.any(&|one| {
        found.set(of_one(one, own, has_schema));
        found.get().is_some()
    });
    found.get()
}

fn of_one(expression: &Expression, own: Option<Own>, has_schema: bool) -> Option<&'static str> {
    match expression {
        Expression::Variable { name, scope } => {
            let is = |names: &[&str]| names.contains(&name.as_str());
            // A session begins with the source's values of some, and both run each SET.
            let is_alike =
                || is(OF_LOGIN) || (has_schema && is(OF_SCHEMA)) || sql::marked(Mark::First).any(|alike| alike == name);
            let is_of_session = *scope != Some(Scope::Global) && is_alike();
            (!is(OF_LAST_STATEMENT) && !is_of_session).then_some(SETTINGS)
        }
        Expression::Call { name, arguments } => {
            let is_it = |(function, takes, _): &&(&str, Arguments, &str)| {
                function.eq_ignore_ascii_case(name) && (*takes == Arguments::Any || arguments.is_empty())
            };
            FUNCTIONS.iter().find(is_it).map(|(.., why)| *why)
        }
        Expression::Name(parts) => own.filter(|own| parts.last().is_some_and(|name| own.has(name))).map(|own| own.why),
        _ => None,
    }
}

/// Whether a statement tells of the session's last one: its warnings, or their number.
pub(crate) fn tells_of_last(statement: &Statement) -> bool {
    let counts = |one: &Expression| matches!(one, Expression::Variable { name, .. } if OF_LAST_STATEMENT.contains(&name.as_str()));
    match statement {
        Statement::ShowWarnings { .. } | Statement::ShowWarningCount { .. } => true,
        Statement::Select(select) => select.items.iter().any(|item| item.expression.any(&counts)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
