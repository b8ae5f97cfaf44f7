//! What surrounds a statement in the log.

use std::sync::Arc;

use base::ReplicationFilters;

/// Which of the source's databases and tables are replicated, under which names, and how the source compares names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceNames {
    /// The rules; none: everything, under its own name.
    pub filters: Arc<ReplicationFilters>,
    /// The source's `lower_case_table_names`.
    pub lower_case_table_names: u8,
}

impl SourceNames {
    /// The name here of a database of the source.
    #[must_use]
    pub fn database<'a>(&'a self, db: &'a str) -> &'a str {
        self.filters.rewritten(db, self.lower_case_table_names)
    }

    /// Whether rows of the table (names as here) are replicated.
    #[must_use]
    pub fn replicates(&self, db: &str, table: &str) -> bool {
        self.filters.replicates(db, table, self.lower_case_table_names)
    }
}

/// The session's state a statement is read under: the status variables of its Query event, the Gtid event's version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatementContext {
    /// The event's database under its name here; empty if there was none.
    pub default_db: String,
    /// `sql_mode`, 0 where the event has none.
    pub sql_mode: u64,
    /// Collation of `character_set_client`: the encoding of the statement's text.
    pub collation_client: Option<u16>,
    /// `collation_connection`.
    pub collation_connection: Option<u16>,
    /// `collation_server`.
    pub collation_server: Option<u16>,
    /// `collation_database` of an older source; the catalog knows the database's own.
    pub collation_database: Option<u16>,
    /// Collation a bare `CHARACTER SET utf8mb4` means.
    pub default_collation_for_utf8mb4: Option<u16>,
    /// `explicit_defaults_for_timestamp`; absent means on, as in 8.0 and newer.
    pub explicit_defaults_for_timestamp: Option<bool>,
    /// `time_zone` the event carries, such as `+02:00` or `SYSTEM`; needed for constant TIMESTAMP defaults.
    pub time_zone: Option<String>,
    /// Version of the server that wrote the event as 80040 or 90704; decides which `/*!NNNNN … */` are executed and
    /// whether an inline REFERENCES counts (from 9.0). Absent: the newest version known here.
    pub server_version: Option<u32>,
    /// When the statement began at the source, µs since 1970: what CURRENT_TIMESTAMP is in it.
    pub timestamp_us: Option<u64>,
    /// `foreign_key_checks` is off.
    pub no_foreign_key_checks: bool,
    /// The transaction, as text; empty where there is none.
    pub gtid: String,
    /// The operator's filters: databases that the statement names are called here what these say.
    pub names: SourceNames,
}
