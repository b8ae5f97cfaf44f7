//! `/metrics`: the report in OpenMetrics' text form.
//!
//! In: a report, the lags. Out: text. Never here: a figure that is not known shown as 0.

use std::fmt;

use observe::{
    ConnectionState, FlowControlReport, LAG_BOUNDS_US, LagHistogram, LagHistograms, LagPart, MemberFigures,
    MemberReport, ReplayState, StatusReport, WaitReport,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

/// Content type of the text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// States of the connection, each with its name.
const CONNECTION_STATES: [(ConnectionState, &str); 4] = [
    (ConnectionState::Stopped, "stopped"),
    (ConnectionState::Connecting, "connecting"),
    (ConnectionState::Connected, "connected"),
    (ConnectionState::Files, "files"),
];

/// States of replay, each with its name.
const REPLAY_STATES: [(ReplayState, &str); 8] = [
    (ReplayState::Stopped, "stopped"),
    (ReplayState::Copying, "copying"),
    (ReplayState::Recovering, "recovering"),
    (ReplayState::Running, "running"),
    (ReplayState::CaughtUp, "caught_up"),
    (ReplayState::Paused, "paused"),
    (ReplayState::Stopping, "stopping"),
    (ReplayState::Failed, "failed"),
];

/// The metrics of a report; None if they cannot be written.
pub(crate) fn text(report: StatusReport, lags: Option<LagHistograms>) -> Option<String> {
    let mut registry = Registry::with_prefix("slipstream");
    registry.register_collector(Box::new(Figures { report, lags }));
    let mut text = String::new();
    encode(&mut text, &registry).ok()?;
    Some(text)
}

#[derive(Debug)]
struct Figures {
    report: StatusReport,
    lags: Option<LagHistograms>,
}

/// Writes one metric after the other.
struct Writer<'a>(DescriptorEncoder<'a>);

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn none() -> Option<&'static Exemplar<[(&'static str, &'static str); 0], f64>> {
    None
}

fn encode_lags(to: MetricEncoder<'_>, lags: &LagHistogram) -> fmt::Result {
    let bounds = LAG_BOUNDS_US.iter().map(|us| seconds(*us)).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(lags.counts).collect();
    encode_histogram(to, lags.sum_us, &buckets)
}

fn encode_histogram(mut to: MetricEncoder<'_>, sum_us: u64, buckets: &[(f64, u64)]) -> fmt::Result {
    to.encode_histogram(
        seconds(sum_us),
        buckets.iter().map(|(_, count)| count).sum(),
        buckets,
        None::<&std::collections::HashMap<usize, Exemplar<[(&str, &str); 0], f64>>>,
    )
}

impl Writer<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: impl Into<Option<f64>>) -> fmt::Result {
        self.of(name, help, None, value.into())
    }

    fn gauge_bytes(&mut self, name: &str, help: &str, value: impl Into<Option<u64>>) -> fmt::Result {
        self.of(name, help, Some(&Unit::Bytes), value.into().map(|bytes| bytes as f64))
    }

    fn gauge_seconds(&mut self, name: &str, help: &str, us: impl Into<Option<u64>>) -> fmt::Result {
        self.of(name, help, Some(&Unit::Seconds), us.into().map(seconds))
    }

    fn of(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: Option<f64>) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Counter)?.encode_counter(&value, none())
    }

    fn counter_bytes(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut of = self.0.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Counter)?;
        of.encode_counter(&value, none())
    }

    fn counter_seconds(&mut self, name: &str, help: &str, us: u64) -> fmt::Result {
        let mut of = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Counter)?;
        of.encode_counter(&seconds(us), none())
    }

    /// One gauge or counter with labels.
    fn family<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        kind: MetricType,
        members: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let is_counter = matches!(kind, MetricType::Counter);
        let mut family = self.0.encode_descriptor(name, help, unit, kind)?;
        for (labels, value) in members {
            let mut member = family.encode_family(&labels)?;
            if is_counter { member.encode_counter(&value, none())? } else { member.encode_gauge(&value)? }
        }
        Ok(())
    }

    /// 1 at the state that there is, 0 at all others.
    fn states<S: Copy + PartialEq>(&mut self, name: &str, help: &str, states: &[(S, &str)], now: S) -> fmt::Result {
        let members = states.iter().map(|(state, name)| ([("state", *name)], f64::from(u8::from(*state == now))));
        self.family(name, help, None, MetricType::Gauge, members)
    }
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut to = Writer(encoder);
        self.source(&mut to)?;
        self.replay(&mut to)?;
        self.lag(&mut to)?;
        self.store(&mut to)?;
        self.group(&mut to)?;
        self.served(&mut to)?;
        self.process(&mut to)?;
        self.clients(&mut to)?;
        self.ledger(&mut to)
    }
}

impl Figures {
    fn source(&self, to: &mut Writer<'_>) -> fmt::Result {
        let source = &self.report.source;
        to.states("source_state", "State of the connection to the source", &CONNECTION_STATES, source.state)?;
        to.counter("source_reconnects", "Reconnects to the source since the start", source.reconnects)?;
        let about = "When the last event or heartbeat came, seconds since 1970";
        let last_us = source.heard.last_received_us;
        to.gauge_seconds("source_last_received_timestamp", about, last_us)?;
        let about = "Transactions that the source has, by its last answer (every 30 s), and that are not visible";
        to.gauge("gtids_behind", about, self.report.gtid.lacks.map(|count| count as f64))?;
        let about = "Time without a byte from the source while it is read; absent without a connection";
        to.gauge_seconds("source_silence", about, source.heard.silence.us)?;
        to.gauge_seconds(
            "source_purges_in",
            "Time until the source purges log that has not been received",
            source.purges_in_us,
        )?;
        let (io, sql) = (&self.report.last_io_error, &self.report.last_sql_error);
        let errors = [("io", io), ("sql", sql)].into_iter().filter_map(|(thread, error)| {
            let number = error.as_ref()?.number.unwrap_or(0);
            Some(([("thread", thread.to_owned()), ("number", number.to_string())], 1.0))
        });
        to.family("error", "Errors of receiving (io) and replay (sql) that last", None, MetricType::Gauge, errors)
    }

    fn replay(&self, to: &mut Writer<'_>) -> fmt::Result {
        let (replay, backlog, total) = (&self.report.replay, &self.report.backlog, &self.report.rates.total);
        to.states("replay_state", "State of replay", &REPLAY_STATES, replay.state)?;
        to.counter("transactions", "Transactions made visible since the start", total.transactions)?;
        to.counter("row_changes", "Row changes made visible since the start", total.rows)?;
        to.counter_bytes("replayed", "Bytes of log made visible since the start", total.bytes)?;
        to.gauge("backlog_transactions", "Transactions received and not visible", backlog.transactions as f64)?;
        to.gauge_bytes("backlog", "Bytes of relay log received and not visible", backlog.bytes)?;
        to.gauge_seconds("catch_up", "Time until the backlog is visible, at present speeds", backlog.catch_up_us)?;
        to.counter("barriers", "Transactions that one thread applied since the start", replay.barriers)?;
        let about = "Row changes passed over since the start, because the source logs them twice around its cascades";
        to.counter("rows_logged_twice", about, replay.rows_logged_twice)?;
        to.gauge("tables", "Tables in the store", replay.tables as f64)?;
        to.gauge("rows", "Rows in the store", replay.rows as f64)?;
        let len = |list: &Vec<String>| list.len() as f64;
        to.gauge("quarantined_tables", "Tables that wait for their copy", len(&replay.quarantined))?;
        let complete = f64::from(u8::from(replay.compared.comparison.is_empty()));
        to.gauge("tables_complete", "1 if every table of the source is known to be here", complete)?;
        let to_verify = len(&replay.moves.to_verify);
        to.gauge("tables_to_verify", "Tables changed by transactions that a source lacked", to_verify)?;
        to.gauge("drifted_tables", "Tables with rows that contradict the log", len(&replay.drifted))?;
        to.gauge("damaged_files", "Damaged files of the store", len(&replay.damaged))?;
        to.counter("tables_copied", "Tables copied again since the start", replay.tables_copied)
    }

    fn lag(&self, to: &mut Writer<'_>) -> fmt::Result {
        let lag = &self.report.lag;
        to.gauge_seconds("lag", "Age of the oldest commit that is not visible; absent if not known", lag.current_us)?;
        let delay_us = self.report.replay.delay_s.saturating_mul(1_000_000);
        to.gauge_seconds("delay", "Time for which replay holds each transaction back (SQL_Delay)", delay_us)?;
        let difference = lag.clock_difference_us.map(|us| us as f64 / 1e6);
        to.of("clock_difference", "The source's clock minus ours", Some(&Unit::Seconds), difference)?;
        to.gauge_seconds("clock_error", "Maximum error of that difference", lag.clock_error_us)?;
        let Some(lags) = &self.lags else { return Ok(()) };
        let (help, unit) = ("Time from a commit on the source to its visibility here", Some(&Unit::Seconds));
        let whole = to.0.encode_descriptor("transaction_lag", help, unit, MetricType::Histogram)?;
        encode_lags(whole, &lags.whole)?;
        let help = "Its parts: transport, apply and publish make it up, durable runs in parallel with apply";
        let mut parts = to.0.encode_descriptor("transaction_lag_part", help, unit, MetricType::Histogram)?;
        for (part, lags) in LagPart::ALL.iter().zip(&lags.parts) {
            encode_lags(parts.encode_family(&[("part", part.name())])?, lags)?;
        }
        Ok(())
    }

    fn store(&self, to: &mut Writer<'_>) -> fmt::Result {
        let (store, disk) = (&self.report.store, &self.report.disk);
        to.counter("cuts", "Cuts since the start", store.cuts)?;
        to.gauge("sealed_generations", "Sealed generations that wait for their cut", store.sealed_generations as f64)?;
        to.gauge_bytes("tree", "Bytes in the tree's files", store.tree_bytes)?;
        to.counter_bytes("cuts_written", "Bytes of rows written by cuts since the start", store.written_bytes)?;
        to.gauge_bytes("compaction_debt", "Bytes that compaction has to merge", store.compaction_debt_bytes)?;
        to.gauge("compaction_debt_runs", "Sorted runs that contain them", store.compaction_debt_runs as f64)?;
        to.gauge("level0_runs", "Sorted runs in level 0", store.l0_runs as f64)?;
        to.counter("compactions", "Compaction steps since the start", store.compactions)?;
        let waits = [("reader", store.reader_waits), ("replay", store.replay_waits)];
        let count = waits.map(|(side, WaitReport { count, .. })| ([("side", side)], count as f64));
        to.family("lane_waits", "Waits of one side for the other's rows", None, MetricType::Counter, count)?;
        to.gauge_bytes("folder", "Bytes in the data folder", disk.folder_bytes)?;
        to.gauge_bytes("relay_log", "Bytes of the relay log in it", disk.relay_log_bytes)?;
        to.gauge_bytes("disk_free", "Free space of the data folder's file system", disk.free_bytes)?;
        to.gauge_bytes("disk_reserve", "Part of it that only cuts and purges may use", disk.reserve_bytes)?;
        to.gauge_seconds("disk_full_in", "Time until only the reserve is free", disk.full_in_us)?;
        to.gauge(
            "disk_waits",
            "1 while receiving or replay waits for free disk space",
            f64::from(u8::from(disk.waits)),
        )?;
        let about = "When the last backup of the running replica was complete, seconds since 1970; absent without one";
        to.gauge_seconds("last_backup_timestamp", about, self.report.store.last_backup_us)
    }

    /// The group that the source belongs to. States that nobody tells of now are not known.
    fn group(&self, to: &mut Writer<'_>) -> fmt::Result {
        let Some(group) = self.report.source.several.group.as_ref().filter(|group| !group.is_old()) else {
            return Ok(());
        };
        let id = |member: &MemberReport| [("member_id", member.member_id.clone())];
        let in_view = group.members.iter().filter(|member| !member.member_state.is_empty());
        let state = in_view.map(|member| {
            let MemberReport { member_host, member_port, member_state, member_role, .. } = member.clone();
            let [member_id] = id(member);
            let address = ("member", format!("{member_host}:{member_port}"));
            let labels = [member_id, address, ("member_state", member_state), ("member_role", member_role)];
            (labels, f64::from(u8::from(member.followed)))
        });
        let about = "Members of the group in the followed one's view; 1 for the one that is followed";
        to.family("group_member", about, None, MetricType::Gauge, state)?;
        let figures = |of: fn(&MemberFigures) -> f64| {
            group.members.iter().filter_map(move |member| Some((id(member), of(member.figures.as_ref()?))))
        };
        let (gauge, counter) = (MetricType::Gauge, MetricType::Counter);
        let certify = figures(|of| of.count_transactions_in_queue as f64);
        to.family("group_member_in_queue", "Transactions that wait for certification", None, gauge, certify)?;
        let apply = figures(|of| of.count_transactions_remote_in_applier_queue as f64);
        to.family(
            "group_member_in_applier_queue",
            "Those of other members that wait to be applied",
            None,
            gauge,
            apply,
        )?;
        let checked = figures(|of| of.count_transactions_checked as f64);
        to.family("group_member_checked", "Transactions that were certified or refused", None, counter, checked)?;
        let conflicts = figures(|of| of.count_conflicts_detected as f64);
        to.family("group_member_conflicts", "Those that were refused for a conflict", None, counter, conflicts)?;
        let age = figures(|of| seconds(of.age_us));
        let about = "Time since these figures were told";
        to.family("group_member_figures_age", about, Some(&Unit::Seconds), gauge, age)?;
        let throttled = |of: fn(&FlowControlReport) -> f64| {
            group.members.iter().filter_map(move |member| Some((id(member), of(member.flow_control.as_ref()?))))
        };
        let count = throttled(|of| of.throttle_count as f64);
        to.family("group_member_throttled", "Transactions that flow control held back", None, counter, count)?;
        let time = throttled(|of| seconds(of.throttle_time_us));
        to.family("group_member_throttled", "Time for which it did", Some(&Unit::Seconds), counter, time)
    }

    /// The log that is served to replicas.
    fn served(&self, to: &mut Writer<'_>) -> fmt::Result {
        let Some(served) = &self.report.served else { return Ok(()) };
        to.gauge("served_files", "Files of the served log", served.files as f64)?;
        to.gauge_bytes("served", "Bytes of the served log", served.bytes)?;
        to.counter("served_transactions", "Transactions stamped since the start", served.transactions)?;
        to.gauge("served_stopped", "1 if stamping stopped with an error", f64::from(u8::from(served.error.is_some())))?;
        to.gauge("served_replicas", "Replicas that are connected", served.replicas.len() as f64)?;
        let about = "Connected replicas with GTIDs that the source lacks";
        to.gauge("served_replicas_errant", about, served.errant_replicas as f64)?;
        to.gauge("served_holds", "Replicas for which files are kept", served.holds.len() as f64)?;
        let lacks = served.holds.iter().filter_map(|held| {
            let labels = [("name", held.name.clone()), ("server_uuid", held.server_uuid.clone())];
            Some((labels, held.lacks? as f64))
        });
        let about = "Served transactions that a replica with a hold has not executed; absent if not known";
        to.family("served_hold_lacks", about, None, MetricType::Gauge, lacks)?;
        let unread = served.replicas_read.iter().map(|read| {
            let labels = [("server_id", read.server_id.to_string()), ("server_uuid", read.server_uuid.clone())];
            (labels, read.unread_bytes as f64)
        });
        let about = "Bytes of the served log that a connected replica has not been sent";
        to.family("served_replica_unread", about, Some(&Unit::Bytes), MetricType::Gauge, unread)
    }

    fn process(&self, to: &mut Writer<'_>) -> fmt::Result {
        let (report, memory) = (&self.report, &self.report.memory);
        let build = [("version", report.version.as_str()), ("server_uuid", report.server_uuid.as_str())];
        to.0.encode_descriptor("build", "Version", None, MetricType::Info)?.encode_info(&build)?;
        to.gauge("up", "1 if the replica answered, 0 if not", f64::from(u8::from(report.unanswered.is_none())))?;
        to.gauge_seconds("uptime", "Time since the start", report.uptime_us)?;
        to.gauge_bytes("memory_resident", "Resident memory", memory.rss_bytes)?;
        to.gauge_bytes("memory_resident_peak", "Highest resident memory so far", memory.rss_peak_bytes)?;
        to.gauge_bytes("memory_store", "Memory of the store's generations", memory.store_bytes)?;
        to.gauge_bytes("memory_queue", "Memory of work in the queues", memory.queue_bytes)?;
        to.gauge_bytes("memory_limit", "Limit of the process", memory.limit_bytes)?;
        to.counter_seconds("cpu", "CPU time of the process", report.cpu_us)?;
        let threads = report.threads.iter().map(|thread| ([("thread", thread.name.as_str())], seconds(thread.cpu_us)));
        let (help, unit) = ("CPU time of live threads, by stage", Some(&Unit::Seconds));
        to.family("thread_cpu", help, unit, MetricType::Gauge, threads)
    }

    fn clients(&self, to: &mut Writer<'_>) -> fmt::Result {
        let Some(clients) = &self.report.clients else { return Ok(()) };
        to.gauge("client_connections", "Clients that are logged in", clients.connections as f64)?;
        to.gauge("clients_logging_in", "Clients that are not logged in yet", clients.logging_in as f64)?;
        to.counter("client_connections_accepted", "Connections of clients since the start", clients.accepted)?;
        to.counter("client_questions", "Statements of clients since the start", clients.questions)?;
        if let Some(forwarded) = &clients.forwarded {
            let help = "Commands that the source answered";
            to.counter("client_commands_forwarded", help, forwarded.commands)?;
            let help = "Commands of accounts that forward which were answered here";
            to.counter("client_commands_served_here", help, forwarded.served_here)?;
            let help = "Commands of accounts that forward which are not forwarded";
            to.counter("client_commands_not_forwarded", help, forwarded.refused)?;
            let help = "Transactions that had read here when they went to the source";
            to.counter("client_split_transactions", help, forwarded.splits.begun)?;
            let help = "Those that ended with 1213, since what they had read here was changed before the source's view";
            to.counter("client_split_conflicts", help, forwarded.splits.conflicts)?;
            to.gauge("forward_connections", "Connections to the source for clients", forwarded.connections as f64)?;
            let by = forwarded.by_construct.iter();
            let by = by.map(|of| ([("construct", of.construct.clone())], of.count as f64));
            let help = "Statements that the source answered, by the construct that is not answered here";
            to.family("client_statements_not_served", help, None, MetricType::Counter, by)?;
            let help = "Sessions that wait for a connection to the source";
            to.gauge("forward_sessions_waiting", help, forwarded.waiting as f64)?;
        }
        let statements = &clients.statements;
        to.counter("client_statements_failed", "Those that ended with an error", statements.failed)?;
        let refused =
            statements.refused_by_construct.iter().map(|of| ([("construct", of.construct.clone())], of.count as f64));
        let about = "Those refused with 1235, by construct";
        to.family("client_statements_refused", about, None, MetricType::Counter, refused)?;
        let about = "Those that ended because their snapshot was too old";
        to.counter("client_snapshots_too_old", about, statements.snapshots_too_old)?;
        let duration = &statements.duration;
        let bounds = duration.bounds_us.iter().map(|us| seconds(*us)).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(duration.counts.iter().copied()).collect();
        let about = "Time from the arrival of a client's statement to its answer";
        let of =
            to.0.encode_descriptor("client_statement_duration", about, Some(&Unit::Seconds), MetricType::Histogram)?;
        encode_histogram(of, duration.sum_us, &buckets)
    }

    fn ledger(&self, to: &mut Writer<'_>) -> fmt::Result {
        let rows = self.report.ledger.rows.iter().flat_map(|row| {
            let fates = row.counts.by_category().into_iter().filter(|(_, count)| *count > 0);
            fates.map(|(fate, count)| ([("type", row.name.clone()), ("fate", fate.name().to_owned())], count as f64))
        });
        to.family("events", "Events by type and fate, since the folder was created", None, MetricType::Counter, rows)?;
        let unbalanced = self.report.ledger.unbalanced().count() as f64;
        to.gauge("events_unbalanced", "Event types with events whose fate is not known", unbalanced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::{
        ClientsReport, DurationReport, ErrorReport, ForwardedReport, GroupReport, HeldReport, LedgerRow, RefusedReport,
        ReplicaReadReport, ServedReport, ThreadCpu,
    };

    /// A report in which everything is known.
    fn full() -> StatusReport {
        let held = HeldReport { name: "east".into(), lacks: Some(7), ..HeldReport::default() };
        let read = ReplicaReadReport { server_id: 7, server_uuid: "u".into(), unread_bytes: 9 };
        let served = ServedReport {
            errant_replicas: 1,
            holds: vec![held],
            replicas_read: vec![read],
            ..ServedReport::default()
        };
        let mut clients = ClientsReport { forwarded: Some(ForwardedReport::default()), ..ClientsReport::default() };
        clients.statements.refused_by_construct = vec![RefusedReport { construct: "GROUP BY \"".into(), count: 3 }];
        clients.statements.duration =
            DurationReport { bounds_us: vec![100, 1_000], counts: vec![4, 1, 1], sum_us: 2_000_000 };
        let mut report = StatusReport { clients: Some(clients), served: Some(served), ..StatusReport::default() };
        (report.source.heard.last_received_us, report.gtid.lacks) = (Some(1_700_000_000_500_000), Some(5));
        report.store.last_backup_us = Some(1_700_000_000_000_000);
        (report.source.purges_in_us, report.source.heard.silence.us) = (Some(1), Some(1));
        (report.lag.current_us, report.lag.clock_difference_us, report.lag.clock_error_us) =
            (Some(1), Some(-1), Some(1));
        report.backlog.catch_up_us = Some(1);
        (report.disk.free_bytes, report.disk.reserve_bytes, report.disk.full_in_us) = (Some(1), Some(1), Some(1));
        let member = |id: &str, state: &str, followed| MemberReport {
            member_id: id.into(),
            member_host: "h".into(),
            member_port: 3306,
            member_state: state.into(),
            member_role: "PRIMARY".into(),
            followed,
            figures: Some(MemberFigures { count_conflicts_detected: 4, age_us: 500_000, ..MemberFigures::default() }),
            flow_control: Some(FlowControlReport { throttle_time_us: 7_500_000, ..FlowControlReport::default() }),
            ..MemberReport::default()
        };
        let members =
            vec![member("u1", "ONLINE", true), MemberReport { figures: None, ..member("u2", "UNREACHABLE", false) }];
        report.source.several.group = Some(GroupReport { members, ..GroupReport::default() });
        report.last_io_error = Some(ErrorReport::default());
        report.threads = vec![ThreadCpu { name: "apply".into(), ..ThreadCpu::default() }];
        let mut row = LedgerRow { event_type: 30, name: "Write_rows".into(), ..LedgerRow::default() };
        (row.counts.seen, row.counts.applied) = (1, 1);
        report.ledger.rows = vec![row];
        report
    }

    #[test]
    fn alerts_and_dashboard_name_metrics_that_there_are() {
        let text = text(full(), Some(LagHistograms::default())).unwrap();
        let packaging = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
        for file in ["slipstream-alerts.yml", "slipstream-grafana.json"] {
            let named = std::fs::read_to_string(packaging.join(file)).unwrap();
            let words = named.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let metrics: Vec<&str> = words.filter(|word| word.starts_with("slipstream_")).collect();
            assert!(metrics.len() > 7, "{file}");
            for metric in metrics {
                let is = |line: &str| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with([' ', '{']));
                assert!(text.lines().any(is), "{file}: {metric}");
            }
        }
        for part in LagPart::ALL.map(LagPart::name) {
            let bucket = format!("slipstream_transaction_lag_part_seconds_bucket{{le=\"0.0001\",part=\"{part}\"}} 0\n");
            assert!(text.contains(&bucket), "{part}: {text}");
        }
        assert!(text.contains("slipstream_clock_difference_seconds -0.000001"), "{text}");
        assert!(text.contains("slipstream_events_total{type=\"Write_rows\",fate=\"applied\"} 1"), "{text}");
        for line in [
            "slipstream_source_last_received_timestamp_seconds 1700000000.5",
            "slipstream_gtids_behind 5.0",
            "slipstream_last_backup_timestamp_seconds 1700000000.0",
            "slipstream_disk_waits 0.0",
            "slipstream_group_member{member_id=\"u1\",member=\"h:3306\",member_state=\"ONLINE\",member_role=\"PRIMARY\"} 1.0",
            "slipstream_group_member_conflicts_total{member_id=\"u1\"} 4.0",
            "slipstream_group_member_figures_age_seconds{member_id=\"u1\"} 0.5",
            "slipstream_group_member_throttled_seconds_total{member_id=\"u2\"} 7.5",
            "slipstream_served_replicas_errant 1.0",
            "slipstream_served_hold_lacks{name=\"east\",server_uuid=\"\"} 7.0",
            "slipstream_served_replica_unread_bytes{server_id=\"7\",server_uuid=\"u\"} 9.0",
            "slipstream_client_statements_refused_total{construct=\"GROUP BY \\\"\"} 3.0",
            "slipstream_client_statement_duration_seconds_bucket{le=\"0.0001\"} 4",
            "slipstream_client_statement_duration_seconds_bucket{le=\"+Inf\"} 6",
            "slipstream_client_statement_duration_seconds_sum 2.0",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}: {text}");
        }
        assert!(!text.contains("conflicts_total{member_id=\"u2\"}"), "{text}");
        // Nobody tells of the group now.
        let mut old = full();
        old.source.several.group.as_mut().unwrap().age_us = 60_000_000;
        assert!(!super::text(old, None).unwrap().contains("group_member"));
        // An unknown figure is not zero.
        let unknown = super::text(StatusReport::default(), None).unwrap();
        for name in ["gtids_behind ", "last_backup", "last_received", "served_", "client_"] {
            let is = |line: &str| line.starts_with(&format!("slipstream_{name}"));
            assert!(!unknown.lines().any(is), "{name}: {unknown}");
        }
    }
}
