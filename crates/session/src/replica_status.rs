//! What SHOW REPLICA STATUS shows of the replica.

/// Facts of the columns that are not constant. Times and positions are those of the last report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaStatus {
    pub io_state: String,
    pub source_host: String,
    pub source_user: String,
    pub source_port: u16,
    /// Connect_Retry, seconds.
    pub connect_retry_s: u64,
    /// Source_Log_File and Read_Source_Log_Pos: received up to here.
    pub source_received: (String, u64),
    /// Relay_Log_File and Relay_Log_Pos: visible up to here.
    pub relay_executed: (String, u64),
    /// Relay_Source_Log_File and Exec_Source_Log_Pos: visible up to here.
    pub source_executed: (String, u64),
    /// Replica_IO_Running: Yes, No or Connecting.
    pub io_running: String,
    /// Replica_SQL_Running: Yes or No.
    pub sql_running: String,
    pub sql_state: String,
    pub filters: FilterTexts,
    /// Last_IO_Errno, Last_IO_Error and Last_IO_Error_Timestamp.
    pub io_error: ThreadError,
    /// Last_SQL_Errno, Last_SQL_Error and Last_SQL_Error_Timestamp; Last_Errno and Last_Error are the same.
    pub sql_error: ThreadError,
    /// Relay_Log_Space, bytes.
    pub relay_log_bytes: u64,
    /// How the connection to the source is secured.
    pub tls: SourceTls,
    /// Seconds_Behind_Source; None is NULL.
    pub seconds_behind: Option<u64>,
    pub source_server_id: u32,
    pub source_uuid: String,
    /// Source_Retry_Count; 0 is no limit.
    pub retry_count: u64,
    pub retrieved: String,
    pub executed: String,
    /// Until_Condition; empty is None.
    pub until_condition: String,
    /// SQL_Delay and SQL_Remaining_Delay, seconds; None is NULL.
    pub delay_s: (u64, Option<u64>),
    pub failover: FailoverLists,
}

/// A row of `performance_schema.replication_group_members`, and one of `replication_group_member_stats`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupMember {
    pub server_uuid: String,
    pub host: String,
    pub port: u16,
    pub state: String,
    pub role: String,
    pub version: String,
    pub communication_stack: String,
    pub view_id: String,
    pub figures: Option<GroupFigures>,
}

/// Figures of a member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFigures {
    /// By the names of their columns.
    pub counts: [(&'static str, u64); 8],
    pub committed_by_all: String,
    pub last_conflict_free: String,
}

/// Servers that may be followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailoverLists {
    pub on: bool,
    pub sources: Vec<FailoverSource>,
    /// Name, Primary_weight and Secondary_weight of groups whose members are found.
    pub managed: Vec<(String, u8, u8)>,
    /// The members of the source's group.
    pub members: Vec<GroupMember>,
}

/// A row of `performance_schema.replication_asynchronous_connection_failover`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailoverSource {
    pub host: String,
    pub port: u16,
    pub weight: u8,
    /// Its group; empty for none.
    pub managed_name: String,
}

/// Filters, as SHOW REPLICA STATUS lists them: names behind commas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterTexts {
    pub do_db: String,
    pub ignore_db: String,
    pub do_table: String,
    pub ignore_table: String,
    pub wild_do_table: String,
    pub wild_ignore_table: String,
    /// Replicate_Rewrite_DB, pairs in brackets.
    pub rewrite_db: String,
}

/// The error that stopped receiving or replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadError {
    /// MySQL's number; 0 is no error.
    pub number: u32,
    pub text: String,
    /// When, as `YYMMDD hh:mm:ss` in UTC.
    pub at: String,
}

/// Options of the connection to the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceTls {
    pub allowed: bool,
    pub verify: bool,
    pub ca: String,
    pub cert: String,
    pub key: String,
    pub public_key_path: String,
    pub get_public_key: bool,
}
