//! SHOW of what a replica shows of itself: columns as a 9.7 describes them, values of the replica.
//!
//! In: the statement, facts about the replica. Out: columns and rows. Never here: how the facts are found.

use std::sync::Arc;

use serve::{GrowingLog, ReplicaLine};
use sql::table::in_text;
use sql::{Bind, Column, Field, Show, SqlError, Value, gtid_text};
use wire::response::column_flag;
use wire::row::type_code;

use super::Session;
use super::execute::{needs, number_column, text_column};
use super::results::Rows;
use crate::replica_status::ReplicaStatus;
use crate::world::World;

/// Characters of a message of CHECK TABLE, as a 9.7 announces them.
const MESSAGE_CHARS: u32 = 393_216;

/// Characters of a line of SHOW GRANTS, as a 9.7 announces them.
const GRANT_CHARS: u32 = 1_024;

/// A column's type, with the length that a 9.7 announces, in characters.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text(u32),
    Long(u32),
    LongLong(u32),
}
use Kind::{Long, LongLong, Text};

/// A column: its name, its name before 8.0.22, its type.
pub(super) type Definition = (&'static str, &'static str, Kind);

const REPLICAS: &[Definition] = &[
    ("Server_Id", "Server_id", Long(11)),
    ("Host", "Host", Text(255)),
    ("Port", "Port", Long(8)),
    ("Source_Id", "Master_id", Long(11)),
    ("Replica_UUID", "Slave_UUID", Text(36)),
];

const BINARY_LOGS: &[Definition] = &[
    ("Log_name", "Log_name", Text(255)),
    ("File_size", "File_size", LongLong(20)),
    ("Encrypted", "Encrypted", Text(3)),
];

pub(super) const RELAY_LOG_EVENTS: &[Definition] = &[
    ("Log_name", "Log_name", Text(20)),
    ("Pos", "Pos", LongLong(12)),
    ("Event_type", "Event_type", Text(20)),
    ("Server_id", "Server_id", Long(11)),
    ("End_log_pos", "End_log_pos", LongLong(12)),
    ("Info", "Info", Text(20)),
];

const BINARY_LOG_STATUS: &[Definition] = &[
    ("File", "File", Text(512)),
    ("Position", "Position", LongLong(21)),
    ("Binlog_Do_DB", "Binlog_Do_DB", Text(255)),
    ("Binlog_Ignore_DB", "Binlog_Ignore_DB", Text(255)),
    ("Executed_Gtid_Set", "Executed_Gtid_Set", Text(0)),
];

impl Session {
    /// The result of a SHOW.
    ///
    /// # Errors
    /// A right is missing (1227), no such channel (3074), no binary log (1381), as for names: `names`.
    pub(super) fn show(&self, show: &Show, bind: &Bind<'_>, world: &dyn World) -> Result<Rows, SqlError> {
        let rights = self.login.identity.rights;
        match show {
            Show::Replicas { .. } if !rights.replicate => Err(needs("REPLICATION SLAVE")),
            Show::ReplicaStatus { .. } | Show::BinaryLogStatus | Show::BinaryLogs if !rights.monitor => {
                Err(needs("SUPER, REPLICATION CLIENT"))
            }
            Show::Engine { engine, status } => self.show_engine(engine.as_deref(), *status, world),
            Show::Processlist { full } => self.show_processlist(*full, world),
            Show::Databases { choice } => self.show_databases(choice, bind, world),
            Show::Tables { full, schema, choice } => self.show_tables(*full, schema.as_deref(), choice, bind, world),
            Show::Variables { .. }
            | Show::Status { .. }
            | Show::Columns { .. }
            | Show::Index { .. }
            | Show::TableStatus { .. }
            | Show::Collation { .. }
            | Show::CharacterSet { .. }
            | Show::Engines
            | Show::Plugins
            | Show::OpenTables { .. }
            | Show::Objects { .. } => self.show_listing(show, bind, world),
            Show::CheckTables(tables) => self.check_tables(tables, bind, world),
            Show::CreateTable { schema, table } => self.show_create_table(schema.as_deref(), table, bind, world),
            Show::CreateDatabase { name, if_not_exists } => self.show_create_database(name, *if_not_exists, world),
            Show::Grants { account } => self.show_grants(account.as_ref()),
            Show::Replicas { old_names } => Ok(replicas(world.log(), *old_names)),
            Show::BinaryLogStatus => Ok(log_status(world.log())),
            Show::BinaryLogs => match world.log() {
                Some(log) => Ok(log_files(log)),
                None => Err(SqlError::new(1381, "HY000", "You are not using binary logging")),
            },
            Show::RelayLogEvents { .. } => self.first_events(),
            Show::ReplicaStatus { old_names, channel } => {
                check_channel(channel.as_deref())?;
                let status = world.replica_status();
                let (definitions, row): (Vec<Definition>, Vec<Value>) =
                    columns_of(&status).into_iter().map(|(new, old, kind, value)| ((new, old, kind), value)).unzip();
                let columns = definitions.iter().map(|definition| column(definition, *old_names)).collect();
                Ok(Rows::new(columns, vec![row]))
            }
        }
    }
}

impl Session {
    /// CHECK TABLE: known damage of the table. Nothing is read for it: each block is checked when it is read, and all
    /// of them in turn by the scrub; a table that a damaged one concerns cannot be read from then on.
    ///
    /// # Errors
    /// 1046: no schema is given and there is no default one.
    fn check_tables(
        &self,
        tables: &[(Option<Vec<u8>>, Vec<u8>)],
        bind: &Bind<'_>,
        world: &dyn World,
    ) -> Result<Rows, SqlError> {
        let long = Field { type_code: type_code::MEDIUM_BLOB, ..text_column("", 0, MESSAGE_CHARS).field };
        let columns = vec![
            text_column("Table", 0, 128),
            text_column("Op", 0, 10),
            text_column("Msg_type", 0, 10),
            Column { field: long, ..text_column("Msg_text", 0, 0) },
        ];
        if bind.parameters.is_none() {
            return Ok(Rows::new(columns, Vec::new()));
        }
        let mut rows = Vec::new();
        for (schema, table) in tables {
            let name = self.name_of_table(schema.as_deref(), table)?;
            let shown = format!("{}.{}", name.schema, name.table);
            let mut add = |kind: &str, message: &str| {
                rows.push(
                    [shown.as_str(), "check", kind, message].map(|part| Value::Text(part.as_bytes().to_vec())).to_vec(),
                );
            };
            match self.table_named("COLUMNS", name, world) {
                Ok(_) => add("status", "OK"),
                Err(error) if sql::passing::is_passing(&error.message) => {
                    add("Error", &error.message);
                    add("error", "Corrupt");
                }
                Err(error) => {
                    add("Error", &error.message);
                    add("status", "Operation failed");
                }
            }
        }
        Ok(Rows::new(columns, rows))
    }
}

/// Engines that SHOW ENGINE knows.
const ENGINES: &[&str] = &[
    "InnoDB",
    "MyISAM",
    "MEMORY",
    "HEAP",
    "CSV",
    "ARCHIVE",
    "BLACKHOLE",
    "MRG_MYISAM",
    "MERGE",
    "PERFORMANCE_SCHEMA",
    "TempTable",
];

const ENGINE_STATUS: &[Definition] =
    &[("Type", "Type", Text(10)), ("Name", "Name", Text(512)), ("Status", "Status", Text(10))];

impl Session {
    /// SHOW ENGINE. Of InnoDB's status there are the figures that take its place here, in one row as there.
    ///
    /// # Errors
    /// 1286 for an unknown engine, 1227 without the right `monitor`.
    fn show_engine(&self, engine: Option<&[u8]>, status: bool, world: &dyn World) -> Result<Rows, SqlError> {
        if let Some(engine) = engine {
            let name = in_text(engine);
            if !ENGINES.iter().any(|own| own.eq_ignore_ascii_case(&name)) {
                return Err(SqlError::new(1286, "42000", format!("Unknown storage engine '{name}'")));
            }
        }
        if !self.login.identity.rights.monitor {
            return Err(needs("PROCESS"));
        }
        let mut rows = rows_of(ENGINE_STATUS, false, Vec::new());
        if status && engine.is_none_or(|engine| engine.eq_ignore_ascii_case(b"InnoDB")) {
            let figures = world.status_values().into_iter().filter(|(name, _)| name.starts_with("Slipstream_"));
            let figures: String = figures.map(|(name, value)| format!("{name} {value}\n")).collect();
            let about = "Rows are kept by Slipstream, not by InnoDB; `slipstream status` shows its store.\n";
            rows.rows.push(vec![text("InnoDB"), text(""), text(&format!("\n{about}{figures}"))]);
        }
        Ok(rows)
    }

    /// SHOW GRANTS of the session's own account.
    ///
    /// # Errors
    /// 1044 for another account, as MySQL tells who may not read its schema `mysql`.
    fn show_grants(&self, account: Option<&(Vec<u8>, Vec<u8>)>) -> Result<Rows, SqlError> {
        let own = &self.login.identity.account;
        if let Some((user, host)) = account
            && format!("{}@{}", in_text(user), in_text(host)) != *own
        {
            let (user, host) = own.rsplit_once('@').unwrap_or((own, "%"));
            let text = format!("Access denied for user '{user}'@'{host}' to database 'mysql'");
            return Err(SqlError::new(1044, "42000", text));
        }
        let column = text_column(&format!("Grants for {own}"), column_flag::NOT_NULL, GRANT_CHARS);
        let rows = self.login.identity.grants().iter().map(|line| vec![text(line)]).collect();
        Ok(Rows::new(vec![column], rows))
    }
}

/// There is one channel, and its name is empty.
///
/// # Errors
/// 3074 for another.
pub(super) fn check_channel(name: Option<&[u8]>) -> Result<(), SqlError> {
    match name {
        None | Some([]) => Ok(()),
        Some(name) => {
            let text = format!("Replica channel '{}' does not exist.", String::from_utf8_lossy(name));
            Err(SqlError::new(3074, "HY000", text))
        }
    }
}

pub(super) fn rows_of(definitions: &[Definition], old_names: bool, rows: Vec<Vec<Value>>) -> Rows {
    Rows::new(definitions.iter().map(|definition| column(definition, old_names)).collect(), rows)
}

/// SHOW REPLICAS: none where no log is served.
fn replicas(log: Option<&Arc<GrowingLog>>, old_names: bool) -> Rows {
    let own = log.map_or(0, |log| log.server_id());
    let row = |line: ReplicaLine| {
        let ReplicaLine { server_id, host, port, server_uuid, .. } = line;
        vec![number(server_id), text(&host), number(port), number(own), text(&server_uuid)]
    };
    let rows = log.map(|log| log.replicas().into_iter().map(row).collect()).unwrap_or_default();
    rows_of(REPLICAS, old_names, rows)
}

/// SHOW BINARY LOG STATUS: nothing where no log is served, as of a server without a binary log.
fn log_status(log: Option<&Arc<GrowingLog>>) -> Rows {
    let row = |log: &Arc<GrowingLog>| {
        let (file, bytes) = log.files().pop()?;
        Some(vec![text(&file), number(bytes), text(""), text(""), text(&gtid_text(&log.executed()))])
    };
    rows_of(BINARY_LOG_STATUS, false, log.and_then(row).into_iter().collect())
}

fn log_files(log: &GrowingLog) -> Rows {
    let row = |(file, bytes): (String, u64)| vec![text(&file), number(bytes), text("No")];
    rows_of(BINARY_LOGS, false, log.files().into_iter().map(row).collect())
}

fn column((new, old, kind): &Definition, old_names: bool) -> Column {
    let name = if old_names { old } else { new };
    let not_null = column_flag::NOT_NULL;
    match *kind {
        Text(length) => text_column(name, not_null, length),
        Long(length) => number_column(name, not_null | column_flag::UNSIGNED, type_code::LONG, length),
        LongLong(length) => number_column(name, not_null | column_flag::UNSIGNED, type_code::LONGLONG, length),
    }
}

pub(super) fn text(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "None" } else { text }
}

pub(super) fn number(number: impl Into<u64>) -> Value {
    Value::UInt(number.into())
}

/// A set's text is announced with the length that it has.
fn length(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}

/// The 60 columns. Constant here: there is one channel, UNTIL knows no positions, no transactions are skipped by
/// number, revocation lists and network namespaces are no options, server ids are not ignored.
fn columns_of(status: &ReplicaStatus) -> Vec<(&'static str, &'static str, Kind, Value)> {
    let ReplicaStatus { filters, tls, io_error, sql_error, .. } = status;
    let yes = |is: bool| text(if is { "Yes" } else { "No" });
    let none = || text("");
    vec![
        ("Replica_IO_State", "Slave_IO_State", Text(14), text(&status.io_state)),
        ("Source_Host", "Master_Host", Text(256), text(&status.source_host)),
        ("Source_User", "Master_User", Text(97), text(&status.source_user)),
        ("Source_Port", "Master_Port", Long(8), number(status.source_port)),
        ("Connect_Retry", "Connect_Retry", Long(11), number(status.connect_retry_s)),
        ("Source_Log_File", "Master_Log_File", Text(512), text(&status.source_received.0)),
        ("Read_Source_Log_Pos", "Read_Master_Log_Pos", LongLong(11), number(status.source_received.1)),
        ("Relay_Log_File", "Relay_Log_File", Text(512), text(&status.relay_executed.0)),
        ("Relay_Log_Pos", "Relay_Log_Pos", LongLong(11), number(status.relay_executed.1)),
        ("Relay_Source_Log_File", "Relay_Master_Log_File", Text(512), text(&status.source_executed.0)),
        ("Replica_IO_Running", "Slave_IO_Running", Text(3), text(&status.io_running)),
        ("Replica_SQL_Running", "Slave_SQL_Running", Text(3), text(&status.sql_running)),
        ("Replicate_Do_DB", "Replicate_Do_DB", Text(20), text(&filters.do_db)),
        ("Replicate_Ignore_DB", "Replicate_Ignore_DB", Text(20), text(&filters.ignore_db)),
        ("Replicate_Do_Table", "Replicate_Do_Table", Text(20), text(&filters.do_table)),
        ("Replicate_Ignore_Table", "Replicate_Ignore_Table", Text(23), text(&filters.ignore_table)),
        ("Replicate_Wild_Do_Table", "Replicate_Wild_Do_Table", Text(24), text(&filters.wild_do_table)),
        ("Replicate_Wild_Ignore_Table", "Replicate_Wild_Ignore_Table", Text(28), text(&filters.wild_ignore_table)),
        ("Last_Errno", "Last_Errno", Long(5), number(sql_error.number)),
        ("Last_Error", "Last_Error", Text(20), text(&sql_error.text)),
        ("Skip_Counter", "Skip_Counter", Long(11), number(0u64)),
        ("Exec_Source_Log_Pos", "Exec_Master_Log_Pos", LongLong(11), number(status.source_executed.1)),
        ("Relay_Log_Space", "Relay_Log_Space", LongLong(11), number(status.relay_log_bytes)),
        ("Until_Condition", "Until_Condition", Text(6), text(or_none(&status.until_condition))),
        ("Until_Log_File", "Until_Log_File", Text(512), none()),
        ("Until_Log_Pos", "Until_Log_Pos", LongLong(11), number(0u64)),
        ("Source_SSL_Allowed", "Master_SSL_Allowed", Text(7), yes(tls.allowed)),
        ("Source_SSL_CA_File", "Master_SSL_CA_File", Text(512), text(&tls.ca)),
        ("Source_SSL_CA_Path", "Master_SSL_CA_Path", Text(512), none()),
        ("Source_SSL_Cert", "Master_SSL_Cert", Text(512), text(&tls.cert)),
        ("Source_SSL_Cipher", "Master_SSL_Cipher", Text(512), none()),
        ("Source_SSL_Key", "Master_SSL_Key", Text(512), text(&tls.key)),
        (
            "Seconds_Behind_Source",
            "Seconds_Behind_Master",
            LongLong(11),
            status.seconds_behind.map_or(Value::Null, number),
        ),
        ("Source_SSL_Verify_Server_Cert", "Master_SSL_Verify_Server_Cert", Text(3), yes(tls.verify)),
        ("Last_IO_Errno", "Last_IO_Errno", Long(5), number(io_error.number)),
        ("Last_IO_Error", "Last_IO_Error", Text(20), text(&io_error.text)),
        ("Last_SQL_Errno", "Last_SQL_Errno", Long(5), number(sql_error.number)),
        ("Last_SQL_Error", "Last_SQL_Error", Text(20), text(&sql_error.text)),
        ("Replicate_Ignore_Server_Ids", "Replicate_Ignore_Server_Ids", Text(512), none()),
        ("Source_Server_Id", "Master_Server_Id", Long(9), number(status.source_server_id)),
        ("Source_UUID", "Master_UUID", Text(36), text(&status.source_uuid)),
        ("Source_Info_File", "Master_Info_File", Text(1024), none()),
        ("SQL_Delay", "SQL_Delay", Long(11), number(status.delay_s.0)),
        ("SQL_Remaining_Delay", "SQL_Remaining_Delay", Long(9), status.delay_s.1.map_or(Value::Null, number)),
        ("Replica_SQL_Running_State", "Slave_SQL_Running_State", Text(20), text(&status.sql_state)),
        ("Source_Retry_Count", "Master_Retry_Count", LongLong(11), number(status.retry_count)),
        ("Source_Bind", "Master_Bind", Text(256), none()),
        ("Last_IO_Error_Timestamp", "Last_IO_Error_Timestamp", Text(20), text(&io_error.at)),
        ("Last_SQL_Error_Timestamp", "Last_SQL_Error_Timestamp", Text(20), text(&sql_error.at)),
        ("Source_SSL_Crl", "Master_SSL_Crl", Text(512), none()),
        ("Source_SSL_Crlpath", "Master_SSL_Crlpath", Text(512), none()),
        ("Retrieved_Gtid_Set", "Retrieved_Gtid_Set", Text(length(&status.retrieved)), text(&status.retrieved)),
        ("Executed_Gtid_Set", "Executed_Gtid_Set", Text(length(&status.executed)), text(&status.executed)),
        ("Auto_Position", "Auto_Position", Long(9), number(1u64)),
        ("Replicate_Rewrite_DB", "Replicate_Rewrite_DB", Text(24), text(&filters.rewrite_db)),
        ("Channel_Name", "Channel_Name", Text(192), none()),
        ("Source_TLS_Version", "Master_TLS_Version", Text(512), none()),
        ("Source_public_key_path", "Master_public_key_path", Text(512), text(&tls.public_key_path)),
        ("Get_Source_public_key", "Get_master_public_key", Long(9), number(tls.get_public_key)),
        ("Network_Namespace", "Network_Namespace", Text(193), none()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Facts in which every field differs from its default.
    fn facts() -> ReplicaStatus {
        let word = |word: &str| word.to_owned();
        ReplicaStatus {
            failover: crate::FailoverLists::default(),
            io_state: word("waits"),
            source_host: word("h"),
            source_user: word("u"),
            source_port: 3306,
            connect_retry_s: 10,
            source_received: (word("b.1"), 1),
            relay_executed: (word("r.1"), 2),
            source_executed: (word("b.2"), 3),
            io_running: word("Yes"),
            sql_running: word("No"),
            sql_state: word("reads"),
            filters: crate::FilterTexts {
                do_db: word("a"),
                ignore_db: word("b"),
                do_table: word("a.c"),
                ignore_table: word("a.d"),
                wild_do_table: word("a.%"),
                wild_ignore_table: word("b.%"),
                rewrite_db: word("(a,b)"),
            },
            io_error: crate::ThreadError { number: 1045, text: word("denied"), at: word("261125 12:00:00") },
            sql_error: crate::ThreadError { number: 1032, text: word("no row"), at: word("261125 12:00:01") },
            relay_log_bytes: 4,
            tls: crate::SourceTls {
                allowed: true,
                verify: true,
                ca: word("ca"),
                cert: word("c"),
                key: word("k"),
                public_key_path: word("p"),
                get_public_key: true,
            },
            seconds_behind: Some(5),
            source_server_id: 6,
            source_uuid: word("uuid"),
            retry_count: 7,
            retrieved: word("g:1-2"),
            executed: word("g:1"),
            until_condition: word("SQL_AFTER_GTIDS"),
            delay_s: (8, Some(9)),
        }
    }

    /// Columns that never change, each for the reason that `columns_of` gives.
    const CONSTANT: &[&str] = &[
        "Skip_Counter",
        "Until_Log_File",
        "Until_Log_Pos",
        "Source_SSL_CA_Path",
        "Source_SSL_Cipher",
        "Replicate_Ignore_Server_Ids",
        "Source_Info_File",
        "Source_Bind",
        "Source_SSL_Crl",
        "Source_SSL_Crlpath",
        "Auto_Position",
        "Channel_Name",
        "Source_TLS_Version",
        "Network_Namespace",
    ];

    #[test]
    fn each_column_changes_or_is_listed_as_constant() {
        let (before, after) = (columns_of(&ReplicaStatus::default()), columns_of(&facts()));
        assert_eq!(after.len(), 60);
        for ((name, .., before), (.., after)) in before.iter().zip(&after) {
            assert_eq!(before == after, CONSTANT.contains(name), "{name}");
        }
    }

    #[test]
    fn old_names_have_no_new_words() {
        for (new, old, ..) in columns_of(&ReplicaStatus::default()) {
            let renamed = old.replace("Slave", "Replica").replace("Master", "Source").replace("master", "Source");
            assert_eq!(renamed, new);
        }
    }
}
