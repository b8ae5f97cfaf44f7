//! The program's interface as a list: commands, options, exit codes, log codes, keys of `status --json`.
//!
//! In: the program's own tables. Out: `tests/interface.txt`, or how the program differs from it. Never here: a name
//! written by hand; the report below has every field because a struct literal must.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction};
use observe::{
    Backlog, BackupProgress, CandidateReport, ClientsReport, ComparedReport, ConnectionState, DiskReport, ErrorReport,
    FlowControlReport, GroupReport, GtidReport, HeldReport, LagPartReport, LagPartsReport, LagReport, LagSummary,
    LedgerCounts, LedgerRow, LedgerSnapshot, LeftReport, MemberFigures, MemberReport, MemoryReport, PositionReport,
    RateSample, RatesReport, ReplayReport, ReplayState, ReplicaReadReport, ServedReport, SeveralReport, SilenceReport,
    SourceReport, StatusReport, StoreReport, ThreadCpu, UnansweredReport, WaitReport, Work,
};
use replica::{Exit, log::Code};
use serde_json::Value;

use crate::options::{Default as OptionDefault, Kind, OPTIONS};
use crate::run::command;

const LISTED: &str = include_str!("../tests/interface.txt");

/// All values of an enum; does not compile if one is missing.
macro_rules! all_of {
    ($kind:ident: $($name:ident),+) => {{
        fn _complete(value: $kind) {
            match value {
                $($kind::$name => {})+
            }
        }
        [$($kind::$name),+]
    }};
}

/// An option of the table, with the names, default and form that flags and option files share.
fn option_lines() -> Vec<String> {
    let mut lines = Vec::new();
    for option in OPTIONS {
        let mut line = format!("option {} {}", option.name, option.value);
        match option.default {
            OptionDefault::None => {}
            OptionDefault::Is(text) => line += &format!(" default={text}"),
            OptionDefault::Said(text) => line += &format!(" default=({text})"),
        }
        match option.kind {
            Kind::List(_) => line += " repeatable",
            Kind::Number(least, most, _) => line += &format!(" from {least} to {most}"),
            Kind::Bytes(least, most, _) => line += &format!(" bytes from {least} to {most}"),
            _ => {}
        }
        lines.push(line);
        let others = |kind: &str, names: &[&str]| -> Vec<String> {
            names.iter().map(|name| format!("option {} {kind} {name}", option.name)).collect()
        };
        lines.extend(others("alias", option.aliases));
        lines.extend(others("in option files also", option.file_names));
    }
    lines
}

fn argument_line(path: &str, argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default().join(" ");
    let takes_value = argument.get_action().takes_values();
    let mut line = match (argument.get_long(), takes_value) {
        (Some(long), true) => format!("{path} --{long} {values}"),
        (Some(long), false) => format!("{path} --{long}"),
        (None, _) => format!("{path} {values}"),
    };
    if let Some(short) = argument.get_short() {
        line += &format!(" -{short}");
    }
    for alias in argument.get_all_aliases().unwrap_or_default() {
        line += &format!(" --{alias}");
    }
    if takes_value {
        let defaults = argument.get_default_values().iter().map(|value| value.to_string_lossy());
        defaults.for_each(|value| line += &format!(" default={value}"));
        let possible = argument.get_possible_values();
        let possible: Vec<&str> = possible.iter().map(|value| value.get_name()).collect();
        if !possible.is_empty() {
            line += &format!(" one of {}", possible.join("|"));
        }
    }
    if argument.is_required_set() {
        line += " required";
    }
    if matches!(argument.get_action(), ArgAction::Append) {
        line += " repeatable";
    }
    line
}

fn command_lines(command: &clap::Command, path: &str, into: &mut Vec<String>) {
    into.push(path.to_owned());
    into.extend(command.get_all_aliases().map(|alias| format!("{path} alias {alias}")));
    for argument in command.get_arguments() {
        let built_in = ["help", "version"].contains(&argument.get_id().as_str());
        let inherited = argument.is_global_set() && path.contains(' ');
        if !built_in && !inherited {
            into.push(argument_line(path, argument));
        }
    }
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        command_lines(below, &format!("{path} {}", below.get_name()), into);
    }
}

/// Every key of a document with its type; `or_null` has the keys that may be null. A list's items are `[]`.
///
/// # Panics
/// A value is null or a list is empty: the keys in it would not be listed.
fn key_lines(value: &Value, or_null: &BTreeSet<String>, path: &str, into: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Null => panic!("{path} is null: fill it, or its keys are not listed"),
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(items) => {
            assert!(!items.is_empty(), "{path} has no item: fill it, or its keys are not listed");
            items.iter().for_each(|item| key_lines(item, or_null, &format!("{path}[]"), into));
            "list"
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                key_lines(value, or_null, &below(path, key), into);
            }
            "object"
        }
    };
    let null = if or_null.contains(path) { " or null" } else { "" };
    into.insert(format!("{path} {kind}{null}"));
}

/// Keys that are null in a document.
fn null_keys(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Null => {
            into.insert(path.to_owned());
        }
        Value::Object(fields) => fields.iter().for_each(|(key, value)| null_keys(value, &below(path, key), into)),
        _ => {}
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn full_lag() -> LagSummary {
    LagSummary { transactions: 1, p50_us: 1, p90_us: 1, p99_us: 1, p999_us: 1, max_us: 1 }
}

fn full_parts() -> LagPartsReport {
    let part = LagPartReport { overall: full_lag(), last_10s: full_lag() };
    LagPartsReport { transport: part, durable: part, apply: part, publish: part }
}

fn full_source() -> SourceReport {
    let text = || "text".to_owned();
    SourceReport {
        uri: text(),
        state: ConnectionState::Connected,
        server_version: text(),
        server_id: 1,
        server_uuid: text(),
        tls: Some(text()),
        semi_sync: true,
        since: Some(text()),
        waits: text(),
        next_try: Some(text()),
        reconnects: 1,
        before: Some(observe::BeforeReport { server_uuid: text(), until: text() }),
        heard: observe::HeardReport {
            last_received: Some(text()),
            last_received_us: Some(1),
            silence: SilenceReport { us: Some(1), too_long: true },
        },
        purges_in_us: Some(0),
        changed_by_sql: vec![text()],
        host: text(),
        port: 1,
        several: SeveralReport {
            followed_since: Some(text()),
            left: Some(LeftReport { uri: text(), why: text(), at: text(), last_received: Some(text()) }),
            candidates: vec![CandidateReport {
                uri: text(),
                followed: true,
                why_not: text(),
                tried: Some(text()),
                server_uuid: text(),
                member_state: text(),
                member_role: text(),
                queued: 1,
                weight: 50,
            }],
            members_not_followed: vec![text()],
            group: Some(full_group()),
        },
    }
}

fn full_group() -> GroupReport {
    let text = || "text".to_owned();
    let figures = MemberFigures {
        age_us: 1,
        by_itself: true,
        count_transactions_in_queue: 1,
        count_transactions_checked: 1,
        count_conflicts_detected: 1,
        count_transactions_rows_validating: 1,
        transactions_committed_all_members: text(),
        last_conflict_free_transaction: text(),
        count_transactions_remote_in_applier_queue: 1,
        count_transactions_remote_applied: 1,
        count_transactions_local_proposed: 1,
        count_transactions_local_rollback: 1,
    };
    let flow_control = FlowControlReport { throttle_count: 1, throttle_time_us: 1, throttle_active_count: 1 };
    let member = MemberReport {
        member_id: text(),
        member_host: text(),
        member_port: 1,
        age_us: 1,
        member_state: text(),
        member_role: text(),
        member_version: text(),
        member_communication_stack: text(),
        followed: true,
        figures: Some(figures),
        flow_control: Some(flow_control),
    };
    GroupReport { told_by: text(), age_us: 1, view_id: text(), members: vec![member] }
}

fn full_clients() -> ClientsReport {
    let text = || Some("text".to_owned());
    ClientsReport {
        address: text(),
        socket: text(),
        connections: 1,
        logging_in: 1,
        accepted: 1,
        questions: 1,
        certificate_expires: text(),
        statements: observe::StatementsReport {
            failed: 1,
            refused: 1,
            refused_by_construct: vec![observe::RefusedReport { construct: "text".to_owned(), count: 1 }],
            snapshots_too_old: 1,
            duration: observe::DurationReport { bounds_us: vec![1], counts: vec![1], sum_us: 1 },
        },
        forwarded: Some(observe::ForwardedReport {
            commands: 1,
            served_here: 1,
            refused: 1,
            splits: observe::SplitsReport { begun: 1, older: 1, proofs: 1, conflicts: 1 },
            connections: 1,
            waiting: 1,
            by_construct: vec![observe::RefusedReport { construct: "text".to_owned(), count: 1 }],
            by_digest: vec![observe::DigestReport { text: "text".to_owned(), construct: "text".to_owned(), count: 1 }],
            refused_logins: vec!["text".to_owned()],
        }),
    }
}

fn full_store() -> StoreReport {
    StoreReport {
        last_cut: 1,
        last_cut_at: Some("text".to_owned()),
        last_backup_us: Some(1),
        cuts: 1,
        sealed_generations: 1,
        tree_bytes: 1,
        written_bytes: 1,
        compaction_debt_bytes: 1,
        compaction_debt_runs: 1,
        l0_runs: 1,
        compactions: 1,
        reader_waits: WaitReport { count: 1, p50_us: 1, p99_us: 1, max_us: 1 },
        replay_waits: WaitReport { count: 1, p50_us: 1, p99_us: 1, max_us: 1 },
    }
}

fn full_replay() -> ReplayReport {
    let text = || "text".to_owned();
    ReplayReport {
        state: ReplayState::Running,
        detail: text(),
        barriers: 1,
        rows_logged_twice: 1,
        logged_twice_last: text(),
        tables: 1,
        rows: 1,
        table_copy: text(),
        tables_copied: 1,
        tables_copied_by_itself: 1,
        filters: vec![text()],
        quarantined: vec![text()],
        drifted: vec![text()],
        moves: observe::MovesReport { to_verify: vec![text()], unproven: text() },
        compared: ComparedReport {
            comparison: text(),
            missing: vec![text()],
            definitions_unsettled: 1,
            definitions_asked: 1,
            definitions_read: true,
        },
        copy: text(),
        check_images: text(),
        ended: true,
        damaged: vec![text()],
        scrub: text(),
        until: observe::UntilReport { condition: text(), gtids: text() },
        delay_s: 1,
        remaining_delay_us: Some(1),
    }
}

fn full_ledger() -> LedgerSnapshot {
    let counts = LedgerCounts {
        seen: 9,
        applied: 1,
        control: 1,
        recorded: 1,
        filtered: 1,
        already_executed: 1,
        superseded_by_copy: 1,
        skipped_by_operator: 1,
        refused: 1,
        not_kept: 1,
    };
    LedgerSnapshot { rows: vec![LedgerRow { event_type: 1, name: "text".to_owned(), counts }] }
}

fn full_error() -> ErrorReport {
    let text = || "text".to_owned();
    ErrorReport {
        at: text(),
        exit: 1,
        number: Some(1),
        text: text(),
        gtid: Some(text()),
        table: Some(text()),
        way_on: Some(text()),
    }
}

/// A report in which every field has a value.
fn full_report() -> StatusReport {
    let text = || "text".to_owned();
    let rate = RateSample { transactions_per_s: 1.5, rows_per_s: 1.5, bytes_per_s: 1.5 };
    StatusReport {
        version: text(),
        at: text(),
        running: true,
        unanswered: Some(UnansweredReport { pid: Some(1), status_age_us: 1 }),
        pid: Some(1),
        uptime_us: 1,
        data: text(),
        server_id: 1,
        server_uuid: text(),
        source: full_source(),
        replay: full_replay(),
        gtid: GtidReport { retrieved: text(), executed: text(), to_skip: text(), lacks: Some(1) },
        position: PositionReport {
            source_received: Some(text()),
            source_executed: Some(text()),
            relay_received: Some(text()),
            relay_executed: Some(text()),
            watermark: 1,
        },
        lag: LagReport {
            current_us: Some(1),
            overall: full_lag(),
            last_1s: full_lag(),
            last_10s: full_lag(),
            parts: full_parts(),
            clock_difference_us: Some(1),
            clock_error_us: Some(1),
            clock_measured: Some(text()),
        },
        backlog: Backlog { transactions: 1, bytes: 1, catch_up_us: Some(1) },
        rates: RatesReport { last_1s: rate, last_10s: rate, total: Work { transactions: 1, rows: 1, bytes: 1 } },
        last_error: Some(full_error()),
        last_io_error: Some(full_error()),
        last_sql_error: Some(full_error()),
        ledger: full_ledger(),
        clients: Some(full_clients()),
        http: Some(String::new()),
        backups: vec![BackupProgress { begun_at: text(), elapsed_us: 1, written_bytes: 1, total_bytes: Some(1) }],
        served: Some(ServedReport {
            files: 1,
            bytes: 1,
            position: Some(String::new()),
            purged: String::new(),
            executed: String::new(),
            beside_replay: true,
            waits: text(),
            error: Some(full_error()),
            transactions: 1,
            source_clock: 1,
            drains: 1,
            mean_distance: 1.5,
            replicas: vec![String::new()],
            replicas_read: vec![ReplicaReadReport { server_id: 1, server_uuid: text(), unread_bytes: 1 }],
            errant_replicas: 1,
            acknowledges: text(),
            holds: vec![full_hold()],
        }),
        store: full_store(),
        memory: MemoryReport {
            rss_bytes: 1,
            rss_peak_bytes: 1,
            store_bytes: 1,
            queue_bytes: 1,
            queue_limit_bytes: 1,
            limit_bytes: 1,
        },
        disk: DiskReport {
            folder_bytes: 1,
            relay_log_bytes: 1,
            free_bytes: Some(1),
            reserve_bytes: Some(1),
            full_in_us: Some(1),
            waits: true,
        },
        cpu_us: 1,
        threads: vec![ThreadCpu { name: text(), threads: 1, cpu_us: 1, core_wait_us: 1 }],
    }
}

fn full_hold() -> HeldReport {
    HeldReport {
        name: String::new(),
        server_uuid: String::new(),
        server: Some(String::new()),
        executed: Some(String::new()),
        lacks: Some(1),
        keeps_from: Some(String::new()),
        error: Some(String::new()),
    }
}

fn status_lines() -> Vec<String> {
    let json = |report: &StatusReport| serde_json::to_value(report).unwrap();
    let mut or_null = BTreeSet::new();
    null_keys(&json(&StatusReport::default()), "", &mut or_null);
    let failed = StatusReport {
        last_error: Some(ErrorReport::default()),
        last_io_error: Some(ErrorReport::default()),
        last_sql_error: Some(ErrorReport::default()),
        unanswered: Some(UnansweredReport::default()),
        ..StatusReport::default()
    };
    null_keys(&json(&failed), "", &mut or_null);
    let mut keys = BTreeSet::new();
    or_null.insert("backups[].total_bytes".to_owned());
    key_lines(&json(&full_report()), &or_null, "", &mut keys);
    let name = |state: serde_json::Result<Value>| state.unwrap().as_str().unwrap().to_owned();
    let source = all_of!(ConnectionState: Stopped, Connecting, Connected, Files, Unknown);
    let replay =
        all_of!(ReplayState: Stopped, Copying, Recovering, Running, CaughtUp, Paused, Stopping, Failed, Unknown);
    keys.extend(source.iter().map(|state| format!("source.state is {}", name(serde_json::to_value(state)))));
    keys.extend(replay.iter().map(|state| format!("replay.state is {}", name(serde_json::to_value(state)))));
    keys.into_iter().map(|line| format!("status {}", line.trim_start())).collect()
}

/// The whole list, one item a line, in the order of its sections.
fn interface() -> String {
    let mut extension = crate::lab::lab();
    // As they are typed, wherever they run.
    let others = lab::cli::program();
    let others = others.get_subcommands().filter(|command| command.get_name() != programs::BUILD_ID_COMMAND);
    extension.command = extension.command.subcommands(others.cloned().collect::<Vec<_>>());
    let mut program = command(&extension);
    program.build();
    let mut lines = Vec::new();
    command_lines(&program, "slipstream", &mut lines);
    lines.extend(option_lines());
    lines.extend(Exit::ALL.iter().map(|exit| format!("exit {} {exit:?}: {exit}", exit.code())));
    lines.extend(Code::ALL.iter().map(|code| format!("{code} {} {code:?}", code.level().label())));
    lines.extend(status_lines());
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Lines that only one side has, marked as in a diff. A line that is there twice counts twice.
pub(crate) fn difference(listed: &str, found: &str) -> String {
    let only = |these: &str, those: &str, mark: &str| -> String {
        let mut those: Vec<&str> = those.lines().collect();
        let mut out = String::new();
        for line in these.lines() {
            match those.iter().position(|other| *other == line) {
                Some(at) => drop(those.swap_remove(at)),
                None => out += &format!("{mark} {line}\n"),
            }
        }
        out
    };
    only(listed, found, "-") + &only(found, listed, "+")
}

#[test]
fn the_interface_is_that_of_the_list() {
    let found = interface();
    if std::env::var_os("SLIPSTREAM_WRITE_EXPECTED").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interface.txt");
        std::fs::write(path, &found).unwrap();
        return;
    }
    let difference = difference(LISTED, &found);
    assert!(
        found == LISTED,
        "the interface is not that of crates/slipstream/tests/interface.txt (- listed, + found; none: another order):\n\
         {difference}\n\
         Scripts use these names. A name that is removed or renamed must still be read: keep the old one as an alias.\n\
         A code's number is never used again. If the change is wanted, renew the list:\n\
         SLIPSTREAM_WRITE_EXPECTED=1 cargo test -p slipstream --lib interface"
    );
}

#[test]
fn a_lost_line_and_a_changed_one_are_shown() {
    assert_eq!(difference("a\nb\nb\nc x\n", "a\nb\nc y\n"), "- b\n- c x\n+ c y\n");
    assert_eq!(difference("a\nb\n", "a\nb\n"), "");
}

#[test]
#[should_panic(expected = "source.tls is null")]
fn a_key_without_a_value_is_noticed() {
    let mut report = full_report();
    report.source.tls = None;
    key_lines(&serde_json::to_value(&report).unwrap(), &BTreeSet::new(), "", &mut BTreeSet::new());
}

#[test]
#[should_panic(expected = "threads has no item")]
fn a_list_without_an_item_is_noticed() {
    let report = StatusReport { threads: Vec::new(), ..full_report() };
    key_lines(&serde_json::to_value(&report).unwrap(), &BTreeSet::new(), "", &mut BTreeSet::new());
}
