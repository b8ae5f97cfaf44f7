//! SHOW REPLICA STATUS from the status report and the options.
//!
//! In: the report, options of the source and of replication. Out: the facts of the statement's columns. Never here:
//! columns (crate `door`).

use std::sync::Arc;

use catalog::ReplicationFilters;
use client::SslMode;
use door::{
    FailoverLists, FailoverSource, FilterTexts, GroupFigures, GroupMember, ReplicaStatus, SourceTls, ThreadError,
};
use observe::{ConnectionState, ErrorReport, GroupReport, MemberFigures, MemberReport, ReplayState, StatusReport};
use replica::WEIGHT;
use replica::config::{ReplicaConfig, ServerOptions, SourceSpec};

/// Options that the statement shows.
pub struct ShownOptions {
    server: Option<ServerOptions>,
    filters: Arc<ReplicationFilters>,
    connect_retry_s: u64,
    retry_count: u64,
}

impl ShownOptions {
    /// Those of this configuration.
    pub fn of(config: &ReplicaConfig) -> ShownOptions {
        let server = match &config.source {
            SourceSpec::Server(server) => Some(server.clone()),
            SourceSpec::Files(_) => None,
        };
        ShownOptions {
            server,
            filters: Arc::clone(&config.filters),
            connect_retry_s: config.connect_retry.as_secs(),
            retry_count: config.retry_count,
        }
    }

    /// The replication filters, one rule each.
    pub(crate) fn filter_rules(&self) -> Vec<String> {
        self.filters.rules().map(|(option, rule)| format!("{option}={rule}")).collect()
    }

    pub fn status(&self, report: &StatusReport) -> ReplicaStatus {
        let options = self.server.as_ref().and_then(|server| server.each().ok()?.first()?.connect_options().ok());
        let tls = options.as_ref().map(source_tls).unwrap_or_default();
        let (mut host, user, mut port) = options.map(|o| (o.host, o.user, o.port)).unwrap_or_default();
        if !report.source.several.candidates.is_empty() {
            // The one of several that is followed.
            (host, port) = (report.source.host.clone(), report.source.port);
        }
        ReplicaStatus {
            io_state: io_state(report),
            source_host: host,
            source_user: user,
            source_port: port,
            connect_retry_s: self.connect_retry_s,
            source_received: place(report.position.source_received.as_deref()),
            relay_executed: place(report.position.relay_executed.as_deref()),
            source_executed: place(report.position.source_executed.as_deref()),
            io_running: report.source.state.as_mysql().to_owned(),
            sql_running: report.replay.state.as_mysql().to_owned(),
            sql_state: sql_state(report),
            filters: filter_texts(&self.filters),
            io_error: error(report.last_io_error.as_ref()),
            sql_error: error(report.last_sql_error.as_ref()),
            relay_log_bytes: report.disk.relay_log_bytes,
            tls,
            seconds_behind: seconds_behind(report),
            source_server_id: report.source.server_id,
            source_uuid: report.source.server_uuid.clone(),
            retry_count: self.retry_count,
            retrieved: report.gtid.retrieved.clone(),
            executed: report.gtid.executed.clone(),
            until_condition: report.replay.until.condition.clone(),
            delay_s: (report.replay.delay_s, report.replay.remaining_delay_us.map(|us| us.div_ceil(1_000_000))),
            failover: FailoverLists {
                members: report.source.several.group.as_ref().map(members).unwrap_or_default(),
                ..self.server.as_ref().map(failover).unwrap_or_default()
            },
        }
    }
}

/// The lists that SQL gave; where it gave none, the servers of the options.
fn failover(server: &ServerOptions) -> FailoverLists {
    let on = server.names_several();
    let source = |host: &str, port: u16, weight: u8, group: &str| FailoverSource {
        host: host.to_owned(),
        port,
        weight,
        managed_name: group.to_owned(),
    };
    let given = &server.failover;
    if !on || server.auto_failover && !given.sources.is_empty() {
        let sources = given.sources.iter();
        let groups = given.managed.iter();
        return FailoverLists {
            on,
            sources: sources.map(|of| source(&of.host, of.port, of.weight, &of.managed_name)).collect(),
            managed: groups.map(|of| (of.name.clone(), of.primary_weight, of.secondary_weight)).collect(),
            ..FailoverLists::default()
        };
    }
    let named = server.each().unwrap_or_default().into_iter();
    let of_options = |one: ServerOptions| {
        let options = one.connect_options().ok()?;
        Some(source(&options.host, options.port, one.weight.unwrap_or(WEIGHT), ""))
    };
    FailoverLists { on, sources: named.filter_map(of_options).collect(), ..FailoverLists::default() }
}

/// The members of the source's group. When nobody tells of them, none can be reached, as far as this replica knows.
fn members(group: &GroupReport) -> Vec<GroupMember> {
    let of = |member: &MemberReport| {
        let (state, role) = match group.is_old() {
            true => ("UNREACHABLE", ""),
            false => (member.member_state.as_str(), member.member_role.as_str()),
        };
        GroupMember {
            server_uuid: member.member_id.clone(),
            host: member.member_host.clone(),
            port: member.member_port,
            state: state.to_owned(),
            role: role.to_owned(),
            version: member.member_version.clone(),
            communication_stack: member.member_communication_stack.clone(),
            view_id: group.view_id.clone(),
            figures: member.figures.as_ref().map(figures),
        }
    };
    // MySQL lists those in the view.
    group.members.iter().filter(|member| !member.member_state.is_empty()).map(of).collect()
}

fn figures(of: &MemberFigures) -> GroupFigures {
    GroupFigures {
        counts: [
            ("COUNT_TRANSACTIONS_IN_QUEUE", of.count_transactions_in_queue),
            ("COUNT_TRANSACTIONS_CHECKED", of.count_transactions_checked),
            ("COUNT_CONFLICTS_DETECTED", of.count_conflicts_detected),
            ("COUNT_TRANSACTIONS_ROWS_VALIDATING", of.count_transactions_rows_validating),
            ("COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE", of.count_transactions_remote_in_applier_queue),
            ("COUNT_TRANSACTIONS_REMOTE_APPLIED", of.count_transactions_remote_applied),
            ("COUNT_TRANSACTIONS_LOCAL_PROPOSED", of.count_transactions_local_proposed),
            ("COUNT_TRANSACTIONS_LOCAL_ROLLBACK", of.count_transactions_local_rollback),
        ],
        committed_by_all: of.transactions_committed_all_members.clone(),
        last_conflict_free: of.last_conflict_free_transaction.clone(),
    }
}

/// What receiving does, in MySQL's words where it has some.
fn io_state(report: &StatusReport) -> String {
    let source = &report.source;
    if !source.waits.is_empty() {
        return source.waits.clone();
    }
    match source.state {
        ConnectionState::Connected => "Waiting for source to send event".to_owned(),
        ConnectionState::Connecting if source.reconnects > 0 => {
            "Reconnecting after a failed source event read".to_owned()
        }
        ConnectionState::Connecting => "Connecting to source".to_owned(),
        ConnectionState::Stopped | ConnectionState::Files | ConnectionState::Unknown => String::new(),
    }
}

fn sql_state(report: &StatusReport) -> String {
    let detail = &report.replay.detail;
    match report.replay.state {
        ReplayState::CaughtUp => "Replica has read all relay log; waiting for more updates".to_owned(),
        ReplayState::Running if detail.is_empty() => "Reading event from the relay log".to_owned(),
        ReplayState::Stopped | ReplayState::Paused | ReplayState::Failed | ReplayState::Unknown => String::new(),
        state if detail.is_empty() => state.sentence().to_owned(),
        _ => detail.clone(),
    }
}

/// None is NULL, as MySQL has it while replay is stopped.
fn seconds_behind(report: &StatusReport) -> Option<u64> {
    let lag = report.lag.current_us.filter(|_| report.replay.state.as_mysql() == "Yes");
    lag.map(|lag| lag / 1_000_000)
}

/// `file:offset`
fn place(text: Option<&str>) -> (String, u64) {
    let parts = text.and_then(|text| text.rsplit_once(':'));
    parts.map_or_else(Default::default, |(file, at)| (file.to_owned(), at.parse().unwrap_or(0)))
}

/// An error without a number of MySQL's is told as 1105, ER_UNKNOWN_ERROR: 0 would say that there is none.
fn error(report: Option<&ErrorReport>) -> ThreadError {
    report.map_or_else(ThreadError::default, |report| ThreadError {
        number: report.number.unwrap_or(1105),
        text: report.text.clone(),
        at: mysql_time(&report.at),
    })
}

/// `2026-11-25T12:00:00.5Z` as `261125 12:00:00`.
fn mysql_time(utc: &str) -> String {
    let part = |from, to| utc.get(from..to).unwrap_or_default();
    format!("{}{}{} {}", part(2, 4), part(5, 7), part(8, 10), part(11, 19))
}

fn source_tls(options: &client::ConnectOptions) -> SourceTls {
    let path =
        |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    SourceTls {
        allowed: options.ssl_mode != SslMode::Disabled,
        verify: options.ssl_mode == SslMode::VerifyIdentity,
        ca: path(&options.ssl_ca),
        cert: path(&options.ssl_cert),
        key: path(&options.ssl_key),
        public_key_path: path(&options.server_public_key_path),
        get_public_key: options.get_server_public_key,
    }
}

fn filter_texts(filters: &ReplicationFilters) -> FilterTexts {
    let text = |option| filters.text(option);
    FilterTexts {
        do_db: text("replicate-do-db"),
        ignore_db: text("replicate-ignore-db"),
        do_table: text("replicate-do-table"),
        ignore_table: text("replicate-ignore-table"),
        wild_do_table: text("replicate-wild-do-table"),
        wild_ignore_table: text("replicate-wild-ignore-table"),
        rewrite_db: text("replicate-rewrite-db"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_times() {
        assert_eq!(place(Some("binlog.000038:24764")), ("binlog.000038".to_owned(), 24764));
        assert_eq!(place(None), (String::new(), 0));
        assert_eq!(mysql_time("2026-11-25T12:28:04.109140Z"), "261125 12:28:04");
        let report = ErrorReport { text: "x".to_owned(), ..ErrorReport::default() };
        assert_eq!(error(Some(&report)).number, 1105);
        assert_eq!(error(None), ThreadError::default());
    }

    #[test]
    fn states_are_mysqls() {
        let mut report = StatusReport::default();
        report.source.state = ConnectionState::Connected;
        report.replay.state = ReplayState::CaughtUp;
        assert_eq!(io_state(&report), "Waiting for source to send event");
        assert_eq!(sql_state(&report), "Replica has read all relay log; waiting for more updates");
        report.lag.current_us = Some(1_999_999);
        assert_eq!(seconds_behind(&report), Some(1));
        report.source.waits = "receiving waits for space".to_owned();
        report.replay.state = ReplayState::Running;
        assert_eq!(io_state(&report), "receiving waits for space");
        assert_eq!(sql_state(&report), "Reading event from the relay log");
        report.replay.detail = "copies a table".to_owned();
        assert_eq!(sql_state(&report), "copies a table");
        report.replay.state = ReplayState::Paused;
        assert_eq!(seconds_behind(&report), None);
    }
}
