//! What statements are counted as, by the names of MySQL's status variables (sql/mysqld.cc, `com_status_vars`).

use crate::ast::{Show, Statement};
use crate::orders::{ReplicaOrder, ThreadOrder};

macro_rules! commands {
    ($($name:ident = $variable:literal,)*) => {
        /// What a statement, or a command of the protocol, is counted as.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Command {
            $($name,)*
        }

        impl Command {
            pub const ALL: &[Command] = &[$(Command::$name,)*];

            /// Name of its status variable.
            #[must_use]
            pub fn variable(self) -> &'static str {
                match self {
                    $(Command::$name => $variable,)*
                }
            }
        }
    };
}

commands! {
    AlterInstance = "Com_alter_instance",
    Begin = "Com_begin",
    ChangeDb = "Com_change_db",
    ChangeFilter = "Com_change_repl_filter",
    ChangeSource = "Com_change_replication_source",
    Check = "Com_check",
    Commit = "Com_commit",
    Do = "Com_do",
    EmptyQuery = "Com_empty_query",
    Flush = "Com_flush",
    Kill = "Com_kill",
    LockTables = "Com_lock_tables",
    ReleaseSavepoint = "Com_release_savepoint",
    ReplicaStart = "Com_replica_start",
    ReplicaStop = "Com_replica_stop",
    Reset = "Com_reset",
    Rollback = "Com_rollback",
    RollbackTo = "Com_rollback_to_savepoint",
    Savepoint = "Com_savepoint",
    Select = "Com_select",
    SetOption = "Com_set_option",
    ShowBinaryLogStatus = "Com_show_binary_log_status",
    ShowBinlogs = "Com_show_binlogs",
    ShowCharsets = "Com_show_charsets",
    ShowCollations = "Com_show_collations",
    ShowCreateDb = "Com_show_create_db",
    ShowCreateTable = "Com_show_create_table",
    ShowDatabases = "Com_show_databases",
    ShowEngineStatus = "Com_show_engine_status",
    ShowErrors = "Com_show_errors",
    ShowEvents = "Com_show_events",
    ShowFields = "Com_show_fields",
    ShowFunctionStatus = "Com_show_function_status",
    ShowGrants = "Com_show_grants",
    ShowKeys = "Com_show_keys",
    ShowOpenTables = "Com_show_open_tables",
    ShowPlugins = "Com_show_plugins",
    ShowProcedureStatus = "Com_show_procedure_status",
    ShowProcesslist = "Com_show_processlist",
    ShowRelaylogEvents = "Com_show_relaylog_events",
    ShowReplicaStatus = "Com_show_replica_status",
    ShowReplicas = "Com_show_replicas",
    ShowStatus = "Com_show_status",
    ShowStorageEngines = "Com_show_storage_engines",
    ShowTableStatus = "Com_show_table_status",
    ShowTables = "Com_show_tables",
    ShowTriggers = "Com_show_triggers",
    ShowVariables = "Com_show_variables",
    ShowWarnings = "Com_show_warnings",
    StmtClose = "Com_stmt_close",
    StmtExecute = "Com_stmt_execute",
    StmtFetch = "Com_stmt_fetch",
    StmtPrepare = "Com_stmt_prepare",
    StmtReset = "Com_stmt_reset",
    StmtSendLongData = "Com_stmt_send_long_data",
    UnlockTables = "Com_unlock_tables",
}

impl Statement {
    /// What it is counted as; None if it is not answered here.
    #[must_use]
    pub fn command(&self) -> Option<Command> {
        Some(match self {
            Statement::Empty => Command::EmptyQuery,
            // EXPLAIN of a SELECT counts as one.
            Statement::Select(_) | Statement::Explain { .. } => Command::Select,
            Statement::Do(_) => Command::Do,
            Statement::Set(_) | Statement::SetTransaction { .. } => Command::SetOption,
            Statement::Use(_) => Command::ChangeDb,
            Statement::Begin { .. } => Command::Begin,
            Statement::Commit(_) => Command::Commit,
            Statement::Rollback(_) => Command::Rollback,
            Statement::Savepoint(_) => Command::Savepoint,
            Statement::RollbackTo(_) => Command::RollbackTo,
            Statement::Release(_) => Command::ReleaseSavepoint,
            Statement::ShowWarnings { errors: false, .. } => Command::ShowWarnings,
            Statement::ShowWarnings { errors: true, .. } => Command::ShowErrors,
            // They are queries of a variable.
            Statement::ShowWarningCount { .. } => Command::Select,
            Statement::Show(show) => show.command(),
            Statement::Replica { order, .. } => match order {
                ReplicaOrder::Threads(ThreadOrder { start: true, .. }) => Command::ReplicaStart,
                ReplicaOrder::Threads(_) => Command::ReplicaStop,
                ReplicaOrder::ChangeSource(_) => Command::ChangeSource,
                ReplicaOrder::ChangeFilter(_) => Command::ChangeFilter,
                ReplicaOrder::Reset { .. } => Command::Reset,
                // Called by a SELECT.
                ReplicaOrder::Failover(_) => Command::Select,
            },
            Statement::Kill { .. } => Command::Kill,
            Statement::ReloadTls => Command::AlterInstance,
            Statement::LockTables(_) => Command::LockTables,
            Statement::UnlockTables => Command::UnlockTables,
            Statement::Flush(_) => Command::Flush,
            Statement::Write | Statement::Refused(_) => return None,
        })
    }
}

impl Show {
    fn command(&self) -> Command {
        match self {
            Show::Databases { .. } => Command::ShowDatabases,
            Show::Tables { .. } => Command::ShowTables,
            Show::CheckTables(_) => Command::Check,
            Show::OpenTables { .. } => Command::ShowOpenTables,
            Show::Variables { .. } => Command::ShowVariables,
            Show::Status { .. } => Command::ShowStatus,
            Show::Columns { .. } => Command::ShowFields,
            Show::Index { .. } => Command::ShowKeys,
            Show::CreateTable { .. } => Command::ShowCreateTable,
            Show::CreateDatabase { .. } => Command::ShowCreateDb,
            Show::TableStatus { .. } => Command::ShowTableStatus,
            Show::Collation { .. } => Command::ShowCollations,
            Show::CharacterSet { .. } => Command::ShowCharsets,
            Show::Grants { .. } => Command::ShowGrants,
            Show::Engines => Command::ShowStorageEngines,
            Show::Plugins => Command::ShowPlugins,
            Show::Engine { .. } => Command::ShowEngineStatus,
            Show::Objects { kind, .. } => match *kind {
                "TRIGGERS" => Command::ShowTriggers,
                "EVENTS" => Command::ShowEvents,
                "FUNCTION STATUS" => Command::ShowFunctionStatus,
                _ => Command::ShowProcedureStatus,
            },
            Show::Processlist { .. } => Command::ShowProcesslist,
            Show::ReplicaStatus { .. } => Command::ShowReplicaStatus,
            Show::Replicas { .. } => Command::ShowReplicas,
            Show::BinaryLogStatus => Command::ShowBinaryLogStatus,
            Show::BinaryLogs => Command::ShowBinlogs,
            Show::RelayLogEvents { .. } => Command::ShowRelaylogEvents,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_status_variable() {
        let names: Vec<&str> = crate::listing::status_variables().iter().map(|variable| variable.name).collect();
        for (at, command) in Command::ALL.iter().enumerate() {
            assert_eq!(*command as usize, at);
            assert!(names.contains(&command.variable()), "{}", command.variable());
        }
    }

    #[test]
    fn statements_are_counted_as_mysql_counts_them() {
        for (sql, variable) in [
            ("SELECT 1", "Com_select"),
            ("START TRANSACTION", "Com_begin"),
            ("SET @a = 1", "Com_set_option"),
            ("SHOW FULL COLUMNS FROM t", "Com_show_fields"),
            ("SHOW TRIGGERS", "Com_show_triggers"),
            ("STOP REPLICA", "Com_replica_stop"),
            ("SHOW OPEN TABLES", "Com_show_open_tables"),
        ] {
            let parsed = crate::parse(sql.as_bytes(), 0, &crate::Charsets::of_login(255).unwrap()).unwrap();
            assert_eq!(parsed.statement.command().map(Command::variable), Some(variable), "{sql}");
        }
    }
}
