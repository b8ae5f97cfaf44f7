//! Context of a statement: session variables and names from its event.

use std::sync::Arc;

use crate::filters::ReplicationFilters;

/// Which of the source's databases and tables are replicated, under which names, and how the source compares names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceNames {
    /// Replication filters; with none, everything is replicated under its own name.
    pub filters: Arc<ReplicationFilters>,
    /// The source's `lower_case_table_names`.
    pub lower_case_table_names: u8,
}

impl SourceNames {
    /// Name on this replica of a database of the source.
    #[must_use]
    pub fn database<'a>(&'a self, db: &'a str) -> &'a str {
        self.filters.rewritten(db, self.lower_case_table_names)
    }

    /// True if rows of the table are replicated. Names are those on this replica.
    #[must_use]
    pub fn replicates(&self, db: &str, table: &str) -> bool {
        self.filters.replicates(db, table, self.lower_case_table_names)
    }
}

/// Session state under which a statement is interpreted: status variables of its Query event, and the version from the
/// Gtid event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatementContext {
    /// Database of the event by its name on this replica; empty if there was none.
    pub default_db: String,
    /// `sql_mode`; 0 if the event has none.
    pub sql_mode: u64,
    /// Collation of `character_set_client`, hence the encoding of the statement's text.
    pub collation_client: Option<u16>,
    /// `collation_connection`.
    pub collation_connection: Option<u16>,
    /// `collation_server`.
    pub collation_server: Option<u16>,
    /// `collation_database` from an older source, used if the catalog does not know the database's collation.
    pub collation_database: Option<u16>,
    /// Collation meant by `CHARACTER SET utf8mb4` without COLLATE.
    pub default_collation_for_utf8mb4: Option<u16>,
    /// `explicit_defaults_for_timestamp`; None means on, the default since 8.0.
    pub explicit_defaults_for_timestamp: Option<bool>,
    /// `time_zone` from the event, such as `+02:00` or `SYSTEM`; needed for constant TIMESTAMP defaults.
    pub time_zone: Option<String>,
    /// Version of the server that wrote the event, such as 80040 or 90704. Decides which `/*!NNNNN … */` are executed
    /// and whether inline REFERENCES create a foreign key (from 9.0). None means the newest known version.
    pub server_version: Option<u32>,
    /// Start of the statement at the source, µs since 1970: its CURRENT_TIMESTAMP.
    pub timestamp_us: Option<u64>,
    /// `auto_increment_increment` and `auto_increment_offset`; None means 1 and 1.
    pub auto_increment: Option<(u16, u16)>,
    /// True if the source logged the statement as one transaction, false if it did not; None if that is not known.
    /// See [`crate::Engine`].
    pub atomic: Option<bool>,
    /// True if `foreign_key_checks` is off.
    pub no_foreign_key_checks: bool,
    /// GTID of the transaction as text; empty if it has none.
    pub gtid: String,
    /// True if the source logged that the statement changed its data dictionary (`Q_DDL_LOGGED_WITH_XID`). Servers
    /// write it since 8.0; of views, programs, triggers and events not where IF NOT EXISTS did nothing, so seen on 9.7.
    pub changed: bool,
    /// User and host of whoever ran the statement, where the event names them: statements that mention CURRENT_USER,
    /// and those that create programs.
    pub invoker: Option<(String, String)>,
    /// True if the text is the source's own, as SHOW CREATE TABLE gives it: its expressions are spelled already.
    pub of_the_source: bool,
    /// The operator's filters, which may rename the databases in the statement.
    pub names: SourceNames,
}
