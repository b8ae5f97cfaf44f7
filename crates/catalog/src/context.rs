//! What surrounds a statement in the log.

/// The session's state a statement is read under: the status variables of its Query event, the Gtid event's version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatementContext {
    /// The event's database; empty if there was none.
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
}
