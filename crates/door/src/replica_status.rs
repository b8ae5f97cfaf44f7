//! What SHOW REPLICA STATUS shows of the replica.

/// Facts of the columns that are not constant. Times and positions are those of the last report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// Replica_IO_State.
    pub io_state: String,
    /// Source_Host.
    pub source_host: String,
    /// Source_User.
    pub source_user: String,
    /// Source_Port.
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
    /// Replica_SQL_Running_State.
    pub sql_state: String,
    /// The replication filters.
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
    /// Source_Server_Id.
    pub source_server_id: u32,
    /// Source_UUID.
    pub source_uuid: String,
    /// Source_Retry_Count; 0 is no limit.
    pub retry_count: u64,
    /// Retrieved_Gtid_Set.
    pub retrieved: String,
    /// Executed_Gtid_Set.
    pub executed: String,
    /// Until_Condition; empty is None.
    pub until_condition: String,
    /// SQL_Delay, seconds.
    pub delay_s: u64,
    /// SQL_Remaining_Delay, seconds; None is NULL.
    pub remaining_delay_s: Option<u64>,
}

/// Filters, as SHOW REPLICA STATUS lists them: names behind commas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterTexts {
    /// Replicate_Do_DB.
    pub do_db: String,
    /// Replicate_Ignore_DB.
    pub ignore_db: String,
    /// Replicate_Do_Table.
    pub do_table: String,
    /// Replicate_Ignore_Table.
    pub ignore_table: String,
    /// Replicate_Wild_Do_Table.
    pub wild_do_table: String,
    /// Replicate_Wild_Ignore_Table.
    pub wild_ignore_table: String,
    /// Replicate_Rewrite_DB, pairs in brackets.
    pub rewrite_db: String,
}

/// The error that stopped receiving or replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadError {
    /// MySQL's number; 0 is no error.
    pub number: u32,
    /// Its text.
    pub text: String,
    /// When, as `YYMMDD hh:mm:ss` in UTC.
    pub at: String,
}

/// Options of the connection to the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceTls {
    /// Source_SSL_Allowed.
    pub allowed: bool,
    /// Source_SSL_Verify_Server_Cert.
    pub verify: bool,
    /// Source_SSL_CA_File.
    pub ca: String,
    /// Source_SSL_Cert.
    pub cert: String,
    /// Source_SSL_Key.
    pub key: String,
    /// Source_public_key_path.
    pub public_key_path: String,
    /// Get_Source_public_key.
    pub get_public_key: bool,
}
