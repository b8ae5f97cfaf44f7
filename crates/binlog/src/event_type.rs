//! Event type codes (binlog_event.h, `Log_event_type`) and the names `mysqlbinlog` and SHOW BINLOG EVENTS print, but
//! for Gtid_tagged, which they call `Gtid_tagged_log_event`.

/// Format of MySQL before 5.0; not written since.
pub const START_V3: u8 = 1;
/// A statement; also BEGIN, COMMIT, SAVEPOINT, XA ...
pub const QUERY: u8 = 2;
/// The server stopped; the last event of a file.
pub const STOP: u8 = 3;
/// The log continues in another file.
pub const ROTATE: u8 = 4;
/// LAST_INSERT_ID or INSERT_ID for the next statement.
pub const INTVAR: u8 = 5;
/// A block of a LOAD DATA file.
pub const APPEND_BLOCK: u8 = 9;
/// A LOAD DATA file is to be deleted.
pub const DELETE_FILE: u8 = 11;
/// Seeds of RAND() for the next statement.
pub const RAND: u8 = 13;
/// A user variable for the next statement.
pub const USER_VAR: u8 = 14;
/// Layout of the events that follow.
pub const FORMAT_DESCRIPTION: u8 = 15;
/// Commit of a transaction.
pub const XID: u8 = 16;
/// First block of a LOAD DATA file.
pub const BEGIN_LOAD_QUERY: u8 = 17;
/// A LOAD DATA statement.
pub const EXECUTE_LOAD_QUERY: u8 = 18;
/// Table of the rows that follow.
pub const TABLE_MAP: u8 = 19;
/// Rows as a development version of 5.1 wrote them.
pub const PRE_GA_WRITE_ROWS: u8 = 20;
/// Rows as a development version of 5.1 wrote them.
pub const PRE_GA_UPDATE_ROWS: u8 = 21;
/// Rows as a development version of 5.1 wrote them.
pub const PRE_GA_DELETE_ROWS: u8 = 22;
/// Rows as MySQL 5.1 to 5.5 wrote them.
pub const WRITE_ROWS_V1: u8 = 23;
/// Rows as MySQL 5.1 to 5.5 wrote them.
pub const UPDATE_ROWS_V1: u8 = 24;
/// Rows as MySQL 5.1 to 5.5 wrote them.
pub const DELETE_ROWS_V1: u8 = 25;
/// The source could not log something; replicas must stop.
pub const INCIDENT: u8 = 26;
/// Sent while the source is idle.
pub const HEARTBEAT: u8 = 27;
/// An event that may be ignored.
pub const IGNORABLE: u8 = 28;
/// Text of the statement whose rows follow.
pub const ROWS_QUERY: u8 = 29;
/// Inserted rows.
pub const WRITE_ROWS: u8 = 30;
/// Updated rows.
pub const UPDATE_ROWS: u8 = 31;
/// Deleted rows.
pub const DELETE_ROWS: u8 = 32;
/// Start of a transaction with a GTID.
pub const GTID: u8 = 33;
/// Start of a transaction without a GTID.
pub const ANONYMOUS_GTID: u8 = 34;
/// GTIDs in all earlier files.
pub const PREVIOUS_GTIDS: u8 = 35;
/// Group replication: certification data.
pub const TRANSACTION_CONTEXT: u8 = 36;
/// Group replication: a new view of the group.
pub const VIEW_CHANGE: u8 = 37;
/// End of an XA transaction that is prepared, or committed in one phase.
pub const XA_PREPARE: u8 = 38;
/// Updated rows whose after image may hold JSON differences.
pub const PARTIAL_UPDATE_ROWS: u8 = 39;
/// All events of a transaction, compressed.
pub const TRANSACTION_PAYLOAD: u8 = 40;
/// Sent while the source is idle, with a 64-bit position.
pub const HEARTBEAT_V2: u8 = 41;
/// Start of a transaction with a tagged GTID.
pub const GTID_TAGGED: u8 = 42;

/// First code MariaDB uses for events of its own.
pub const MARIADB_FIRST: u8 = 160;
/// Last code MariaDB is known to use for events of its own.
pub const MARIADB_LAST: u8 = 171;

/// MySQL's name of an event type; "Unknown" for codes that have no name here.
pub fn name(code: u8) -> &'static str {
    match code {
        START_V3 => "Start_v3",
        QUERY => "Query",
        STOP => "Stop",
        ROTATE => "Rotate",
        INTVAR => "Intvar",
        6 => "Load",
        7 => "Slave",
        8 => "Create_file",
        APPEND_BLOCK => "Append_block",
        10 => "Exec_load",
        DELETE_FILE => "Delete_file",
        12 => "New_load",
        RAND => "RAND",
        USER_VAR => "User var",
        FORMAT_DESCRIPTION => "Format_desc",
        XID => "Xid",
        BEGIN_LOAD_QUERY => "Begin_load_query",
        EXECUTE_LOAD_QUERY => "Execute_load_query",
        TABLE_MAP => "Table_map",
        PRE_GA_WRITE_ROWS => "Write_rows_event_old",
        PRE_GA_UPDATE_ROWS => "Update_rows_event_old",
        PRE_GA_DELETE_ROWS => "Delete_rows_event_old",
        WRITE_ROWS_V1 => "Write_rows_v1",
        UPDATE_ROWS_V1 => "Update_rows_v1",
        DELETE_ROWS_V1 => "Delete_rows_v1",
        INCIDENT => "Incident",
        HEARTBEAT => "Heartbeat",
        IGNORABLE => "Ignorable",
        ROWS_QUERY => "Rows_query",
        WRITE_ROWS => "Write_rows",
        UPDATE_ROWS => "Update_rows",
        DELETE_ROWS => "Delete_rows",
        GTID => "Gtid",
        ANONYMOUS_GTID => "Anonymous_Gtid",
        PREVIOUS_GTIDS => "Previous_gtids",
        TRANSACTION_CONTEXT => "Transaction_context",
        VIEW_CHANGE => "View_change",
        XA_PREPARE => "XA_prepare",
        PARTIAL_UPDATE_ROWS => "Update_rows_partial",
        TRANSACTION_PAYLOAD => "Transaction_payload",
        HEARTBEAT_V2 => "Heartbeat_v2",
        GTID_TAGGED => "Gtid_tagged",
        MARIADB_FIRST..=MARIADB_LAST => "MariaDB",
        _ => "Unknown",
    }
}

/// True for events that open a transaction: Gtid, Anonymous_Gtid, Gtid_tagged.
#[inline]
pub fn is_gtid(code: u8) -> bool {
    matches!(code, GTID | ANONYMOUS_GTID | GTID_TAGGED)
}

/// True for events that hold rows in a supported format.
#[inline]
pub fn is_rows(code: u8) -> bool {
    matches!(code, WRITE_ROWS | UPDATE_ROWS | DELETE_ROWS | PARTIAL_UPDATE_ROWS)
}

/// True for the row formats of MySQL 5.1 to 5.5 and of the development versions before it, which are not supported.
#[inline]
pub fn is_old_rows(code: u8) -> bool {
    matches!(code, PRE_GA_WRITE_ROWS..=DELETE_ROWS_V1)
}
