//! Views, programs, triggers, events, libraries and accounts, as the source has them.
//!
//! In: definitions of the initial copy, statements with their context. Out: for each object the statements that make
//! it, the session settings they need, and the transaction. Never here: tables; what an object does.

use serde::{Deserialize, Serialize};

use crate::charset;
use crate::context::StatementContext;
use crate::filters::ReplicationFilters;
use crate::lexer::without_final_nul;
use crate::server_text;

mod all;
mod answer;
mod change;
mod later;

pub(crate) use all::{Definitions, Kept, Source};
pub(crate) use answer::StoredAnswer;
pub use answer::{Answer, Older};
pub(crate) use change::Change;
pub use later::Later;

/// Kinds of objects, in an order in which they can be created again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DefinitionKind {
    /// A user or role with its grants.
    #[serde(rename = "user")]
    User,
    #[serde(rename = "library")]
    Library,
    #[serde(rename = "function")]
    Function,
    #[serde(rename = "procedure")]
    Procedure,
    #[serde(rename = "view")]
    View,
    #[serde(rename = "trigger")]
    Trigger,
    #[serde(rename = "event")]
    Event,
}

impl DefinitionKind {
    /// MySQL's keyword for this kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DefinitionKind::User => "USER",
            DefinitionKind::Library => "LIBRARY",
            DefinitionKind::Function => "FUNCTION",
            DefinitionKind::Procedure => "PROCEDURE",
            DefinitionKind::View => "VIEW",
            DefinitionKind::Trigger => "TRIGGER",
            DefinitionKind::Event => "EVENT",
        }
    }
}

/// A statement with the session settings it ran under.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Text of the statement. For users and grants it may contain password hashes.
    #[serde(rename = "text")]
    pub text: String,
    /// GTID of its transaction; empty without GTIDs. Also empty for a definition from the initial copy, which belongs
    /// to the copy's GTID set.
    #[serde(rename = "gtid")]
    pub gtid: String,
    /// The session's default database, by its name on this replica.
    #[serde(rename = "default_db")]
    pub default_db: String,
    /// `sql_mode` as a list of names.
    #[serde(rename = "sql_mode")]
    pub sql_mode: String,
    /// `character_set_client`; empty if unknown.
    #[serde(rename = "client_charset")]
    pub client_charset: String,
    /// `collation_connection`; empty if unknown.
    #[serde(rename = "connection_collation")]
    pub connection_collation: String,
    /// Default collation of the database; empty if unknown.
    #[serde(rename = "database_collation")]
    pub database_collation: String,
    /// `time_zone`; empty if unknown.
    #[serde(rename = "time_zone")]
    pub time_zone: String,
    /// Of an event: when the statement began at the source, µs since 1970, from which its schedule counts.
    // Absent for all others, and for what the source shows, whose schedule names its moments.
    #[serde(rename = "timestamp_us", default, skip_serializing_if = "Option::is_none")]
    pub timestamp_us: Option<u64>,
}

/// A definition that may not be as the source has it, until the source is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unsettled {
    #[serde(rename = "kind")]
    pub kind: DefinitionKind,
    /// Its database, by its name on this replica; empty for accounts.
    #[serde(rename = "db")]
    pub db: String,
    /// `user@host` for accounts; empty if it may be any of them.
    #[serde(rename = "name")]
    pub name: String,
    /// GTID of the last transaction that may have changed it; empty without GTIDs.
    #[serde(rename = "gtid")]
    pub gtid: String,
    /// In words, without any part of a statement.
    #[serde(rename = "why")]
    pub why: String,
}

/// One object other than a table or database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Kind of the object.
    #[serde(rename = "kind")]
    pub kind: DefinitionKind,
    /// Its database, by its name on this replica; empty for users.
    #[serde(rename = "db")]
    pub db: String,
    /// Its name; `name@host` for users.
    #[serde(rename = "name")]
    pub name: String,
    /// Database and name of a trigger's table; None for other kinds.
    #[serde(rename = "table", deserialize_with = "Option::deserialize")]
    pub table: Option<(String, String)>,
    /// Statement that creates it; None in folders of earlier versions if it was older than the log.
    #[serde(rename = "made", deserialize_with = "Option::deserialize")]
    pub made: Option<Recorded>,
    /// Statements after it: ALTER; of an account what CREATE USER cannot say, and its grants.
    #[serde(rename = "later")]
    pub later: Later,
    /// Of a trigger: its place among those of its table that run at the same moment, counted from 1.
    // Absent for other kinds, and for triggers of folders written before it was kept.
    #[serde(rename = "order", default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
}

impl Recorded {
    /// Records a statement of the log.
    pub(crate) fn of(context: &StatementContext, sql: &[u8], database_collation: Option<u16>) -> Recorded {
        let collation = |id: Option<u16>| id.and_then(charset::by_id);
        let client = collation(context.collation_client).map_or("utf8mb4", |collation| collation.charset);
        let text = server_text::as_utf8(without_final_nul(sql), client);
        let name = |id| collation(id).map_or("", |collation| collation.name).to_owned();
        Recorded {
            text,
            gtid: context.gtid.clone(),
            default_db: context.default_db.clone(),
            sql_mode: sql_mode_names(context.sql_mode),
            client_charset: client.to_owned(),
            connection_collation: name(context.collation_connection),
            database_collation: name(database_collation),
            time_zone: context.time_zone.clone().unwrap_or_default(),
            timestamp_us: context.timestamp_us,
        }
    }

    /// The session that the statement needs.
    fn context(&self) -> StatementContext {
        StatementContext {
            default_db: self.default_db.clone(),
            sql_mode: sql_mode_bits(&self.sql_mode),
            ..StatementContext::default()
        }
    }
}

impl Definition {
    /// True if these filters let it in: a view as a table, a trigger with its table, others by their database.
    #[must_use]
    pub fn passes(&self, filters: &ReplicationFilters, lower_case_table_names: u8) -> bool {
        match (self.kind, &self.table) {
            (DefinitionKind::View, _) => filters.replicates(&self.db, &self.name, lower_case_table_names),
            (_, Some((db, table))) => filters.replicates(db, table, lower_case_table_names),
            (DefinitionKind::User, None) => filters.is_empty() || filters.database_passes("", lower_case_table_names),
            (_, None) => filters.database_passes(&self.db, lower_case_table_names),
        }
    }
}

/// Bits of `sql_mode` (sql/system_variables.h) with the names that SET accepts.
const SQL_MODES: [(u32, &str); 23] = [
    (0, "REAL_AS_FLOAT"),
    (1, "PIPES_AS_CONCAT"),
    (2, "ANSI_QUOTES"),
    (3, "IGNORE_SPACE"),
    (5, "ONLY_FULL_GROUP_BY"),
    (6, "NO_UNSIGNED_SUBTRACTION"),
    (7, "NO_DIR_IN_CREATE"),
    (18, "ANSI"),
    (19, "NO_AUTO_VALUE_ON_ZERO"),
    (20, "NO_BACKSLASH_ESCAPES"),
    (21, "STRICT_TRANS_TABLES"),
    (22, "STRICT_ALL_TABLES"),
    (23, "NO_ZERO_IN_DATE"),
    (24, "NO_ZERO_DATE"),
    (25, "ALLOW_INVALID_DATES"),
    (26, "ERROR_FOR_DIVISION_BY_ZERO"),
    (27, "TRADITIONAL"),
    (29, "HIGH_NOT_PRECEDENCE"),
    (30, "NO_ENGINE_SUBSTITUTION"),
    (31, "PAD_CHAR_TO_FULL_LENGTH"),
    (32, "TIME_TRUNCATE_FRACTIONAL"),
    (33, "INTERPRET_UTF8_AS_UTF8MB4"),
    (28, "NO_AUTO_CREATE_USER"),
];

fn sql_mode_bits(names: &str) -> u64 {
    let bit = |name: &str| SQL_MODES.iter().find(|(_, known)| *known == name).map_or(0, |(bit, _)| 1 << bit);
    names.split(',').map(bit).sum()
}

fn sql_mode_names(bits: u64) -> String {
    // Removed in 8.0; SET rejects it.
    let gone = |name: &str| name == "NO_AUTO_CREATE_USER";
    let names = SQL_MODES.iter().filter(|(bit, name)| bits >> bit & 1 == 1 && !gone(name));
    names.map(|(_, name)| *name).collect::<Vec<_>>().join(",")
}
