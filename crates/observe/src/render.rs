//! Renders the status report as text for people: short aligned lines with MySQL's terms.
//!
//! In: a `StatusReport`. Out: text. Never here: control characters from a server, which could steer the reader's
//! terminal; a line break in a value begins an indented line.

use std::fmt::Write as _;

use crate::by_part::LagPartReport;
use crate::group_report::{FlowControlReport, GroupReport};
use crate::ledger::{Category, LedgerSnapshot};
use crate::parts::WaitReport;
use crate::status::{Backlog, ConnectionState, ErrorReport, StatusReport, UnansweredReport};
use crate::terminal::without_control;

/// Width of the label column; the longest label is Retrieved_Gtid_Set.
const LABEL: usize = 20;
/// Missing tables that the text names.
const MISSING_SHOWN: usize = 5;
/// Damaged files of the store that the text names.
const DAMAGED_SHOWN: usize = 3;

/// Width of the column of event names; MySQL's longest is Transaction_payload.
const EVENT: usize = 22;

/// Without a transaction, fewer unread bytes than this are headers and control events, not work.
const CONTROL_BYTES_MAX: u64 = 64 << 10;

/// The source's purge is shown when less time than this is left: a day.
const PURGE_SHOWN_BELOW_US: u64 = 24 * 3600 * 1_000_000;

/// Longer GTID sets are truncated in the text form, characters; `--json` has them whole.
const GTID_TEXT_MAX: usize = 600;

impl Backlog {
    /// The backlog in one line.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{} transactions", count_text(self.transactions));
        if self.transactions > 0 || self.bytes >= CONTROL_BYTES_MAX {
            let _ = write!(text, ", {}", bytes_text(self.bytes));
        }
        if let Some(catch_up_us) = self.catch_up_us {
            let _ = write!(text, ", caught up in about {}", duration_text(catch_up_us));
        }
        text
    }
}

/// The group that the source belongs to, and a line for each member.
fn render_group(group: &GroupReport, text: &mut String) {
    let of = format!("{} of {} members ONLINE", group.online(), group.members.len());
    let age = duration_text(group.age_us);
    let view = match group.is_old() {
        true => format!("nobody tells of it now; {age} ago {of}"),
        false => format!("{of}, as the followed one told {age} ago"),
    };
    line(text, "Group", &format!("{view} (view {})", group.view_id));
    for member in &group.members {
        let mut of = format!("{}:{} ", member.member_host, member.member_port);
        if member.member_state.is_empty() {
            let _ = write!(of, "not in the view (left, expelled or down) for {}", duration_text(member.age_us));
            line(text, "Member", &of);
            continue;
        }
        let role = if member.member_role.is_empty() { "" } else { " " };
        of.push_str(if group.is_old() { "was " } else { "" });
        let _ = write!(of, "{}{role}{} {}", member.member_state, member.member_role, member.member_version);
        of.push_str(if member.followed { ", followed" } else { "" });
        if let Some(figures) = &member.figures {
            let [certify, apply, conflicts, checked] = [
                figures.count_transactions_in_queue,
                figures.count_transactions_remote_in_applier_queue,
                figures.count_conflicts_detected,
                figures.count_transactions_checked,
            ]
            .map(count_text);
            let _ = write!(of, ", {certify} to certify, {apply} to apply, {conflicts} conflicts of {checked} checked");
        }
        if let Some(throttled) = &member.flow_control {
            let FlowControlReport { throttle_count, throttle_time_us, throttle_active_count } = *throttled;
            let (count, time) = (count_text(throttle_count), duration_text(throttle_time_us));
            of.push_str(", flow control held back ");
            let _ = match throttle_count {
                0 => write!(of, "none"),
                _ => write!(of, "{count} for {time}, {throttle_active_count} now"),
            };
        }
        if let Some(figures) = &member.figures {
            let age = duration_text(figures.age_us);
            let who = if figures.by_itself { "it said so" } else { "heard from another member" };
            let _ = write!(of, " ({who} {age} ago)");
        }
        line(text, "Member", &of);
    }
}

impl StatusReport {
    /// Text that `slipstream status` prints.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        if let Some(UnansweredReport { pid, status_age_us }) = self.unanswered {
            let who = pid.map_or("the replica".to_owned(), |pid| format!("process {pid}"));
            let answer = format!("{who} does not answer; what follows was saved {} ago", duration_text(status_age_us));
            line(&mut text, "No answer", &answer);
        }
        self.render_source(&mut text);
        self.render_replay(&mut text);
        self.render_served(&mut text);
        self.render_clients(&mut text);
        self.render_resources(&mut text);
        if !self.ledger.rows.is_empty() {
            text.push('\n');
            render_ledger(&self.ledger, &mut text);
        }
        text
    }

    fn render_source(&self, text: &mut String) {
        let source = &self.source;
        // Of several the URI is that of the one which is tried, while the facts are of the one before.
        let is_other = !source.several.candidates.is_empty() && source.several.followed_since.is_none();
        let of = if is_other { "last followed: " } else { "" };
        let about = if source.server_version.is_empty() {
            String::new()
        } else {
            format!("  ({of}MySQL {}, server_id {}, {})", source.server_version, source.server_id, source.server_uuid)
        };
        line(text, "Source", &format!("{}{about}", or_dash(&source.uri)));
        if let Some(before) = &source.before {
            line(text, "Source before", &format!("{}, until {}", before.server_uuid, before.until));
        }
        if !source.changed_by_sql.is_empty() {
            line(text, "Changed by SQL", &source.changed_by_sql.join(", "));
        }
        let mut state = source.state.as_mysql().to_owned();
        if let Some(since) = &source.since {
            let _ = write!(state, ", since {since}");
        }
        if source.state == ConnectionState::Connected {
            let _ = write!(state, ", {}", source.tls.as_deref().unwrap_or("no TLS"));
        }
        if let Some(at) = &source.next_try {
            let _ = write!(state, ", the login is refused, next try {at}");
        }
        if !source.waits.is_empty() {
            let _ = write!(state, ", {}", source.waits);
        }
        if let Some(silence) = source.heard.silence.text() {
            let _ = write!(state, ", {silence}");
        }
        if source.semi_sync {
            state.push_str(", semi-sync");
        }
        if source.reconnects > 0 {
            let _ = write!(state, ", {} reconnects", count_text(source.reconnects));
        }
        line(text, "Replica_IO_Running", &state);
        let was = if source.several.group.as_ref().is_some_and(GroupReport::is_old) { "was " } else { "" };
        for candidate in &source.several.candidates {
            let state = match (candidate.followed, &candidate.tried) {
                (true, _) => format!("followed since {}", source.several.followed_since.as_deref().unwrap_or("-")),
                (false, Some(at)) => format!("not followed: {} ({at})", candidate.why_not),
                (false, None) => "may be followed".to_owned(),
            };
            let member = match candidate.member_state.as_str() {
                "" => String::new(),
                state => format!(", {was}{state} {}, {} queued", candidate.member_role, count_text(candidate.queued)),
            };
            line(text, "Candidate", &format!("{}: {state}{member}", candidate.uri));
        }
        source.several.members_not_followed.iter().for_each(|said| line(text, "Not followed", said));
        if let Some(left) = &source.several.left {
            let last = left.last_received.as_ref().map(|at| format!(", last event {at}")).unwrap_or_default();
            line(text, "Left", &format!("{} at {}{last}: {}", left.uri, left.at, left.why));
        }
        if let Some(group) = &source.several.group {
            render_group(group, text);
        }
        if let Some(at) = &source.heard.last_received {
            line(text, "Last received", at);
        }
        if let Some(purges_in_us) = source.purges_in_us.filter(|us| *us < PURGE_SHOWN_BELOW_US) {
            let what = "until the source purges log that has not been received";
            line(text, "Purge", &format!("{} {what}", duration_text(purges_in_us)));
        }
    }

    fn render_replay(&self, text: &mut String) {
        let replay = &self.replay;
        if !replay.filters.is_empty() {
            line(text, "Filters", &replay.filters.join(", "));
        }
        let mut state = format!("{}, {}", replay.state.as_mysql(), replay.state.sentence());
        if !replay.quarantined.is_empty() {
            let tables = match replay.quarantined.len() {
                1 => "1 table cannot be read until it is copied again".to_owned(),
                tables => format!("{tables} tables cannot be read until they are copied again"),
            };
            let _ = write!(state, ", {tables}");
        }
        if !replay.drifted.is_empty() {
            let _ = write!(state, ", tables that differ from the source: {}", replay.drifted.len());
        }
        if !replay.moves.to_verify.is_empty() {
            let _ = write!(state, ", tables to be verified: {}", replay.moves.to_verify.len());
        }
        if !replay.moves.unproven.is_empty() {
            let _ = write!(state, ", every change is checked: {}", replay.moves.unproven);
        }
        if !replay.table_copy.is_empty() {
            let _ = write!(state, ", copying {}", replay.table_copy);
        }
        if !replay.detail.is_empty() {
            let _ = write!(state, ": {}", replay.detail);
        }
        line(text, "Replica_SQL_Running", &state);
        if !replay.until.condition.is_empty() {
            line(text, "Until", &format!("{} = '{}'", replay.until.condition, replay.until.gtids));
        }
        if replay.delay_s > 0 {
            let next =
                replay.remaining_delay_us.map(|left| format!(", the next transaction in {}", duration_text(left)));
            line(text, "SQL_Delay", &format!("{} s{}", replay.delay_s, next.unwrap_or_default()));
        }
        if replay.compared.definitions_unsettled > 0 {
            let count = replay.compared.definitions_unsettled;
            line(text, "Definitions", &format!("{count} may be otherwise at the source, which is asked"));
        }
        if !replay.compared.comparison.is_empty() {
            line(text, "Not healthy", &replay.compared.comparison);
        }
        for table in replay.compared.missing.iter().take(MISSING_SHOWN) {
            line(text, "Missing table", table);
        }
        // The newest are the last.
        for file in replay.damaged.iter().rev().take(DAMAGED_SHOWN) {
            line(text, "Damaged file", file);
        }
        if !replay.scrub.is_empty() {
            line(text, "Scrub", &replay.scrub);
        }
        for backup in &self.backups {
            let of = backup.total_bytes.map(|bytes| format!(" of {}", bytes_text(bytes))).unwrap_or_default();
            let (written, elapsed) = (bytes_text(backup.written_bytes), duration_text(backup.elapsed_us));
            line(text, "Backup", &format!("{written}{of} written in {elapsed}, begun {}", backup.begun_at));
        }
        let lag = self.lag.current_us.map_or("NULL".to_owned(), duration_text);
        let recent = self.lag.last_10s;
        let recent = if recent.transactions == 0 {
            String::new()
        } else {
            format!(
                "  (last 10 s: p50 {}, p99 {}, max {})",
                duration_text(recent.p50_us),
                duration_text(recent.p99_us),
                duration_text(recent.max_us)
            )
        };
        line(text, "Lag", &format!("{lag}{recent}"));
        let all = self.lag.overall;
        if all.transactions > 0 {
            let figures = format!(
                "p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
                duration_text(all.p50_us),
                duration_text(all.p90_us),
                duration_text(all.p99_us),
                duration_text(all.p999_us),
                duration_text(all.max_us)
            );
            line(text, "Lag since start", &figures);
        }
        let parts = self.lag.parts.all();
        if parts.iter().any(|(_, figures)| figures.overall.transactions > 0) {
            let of = parts.map(|(part, figures)| {
                let LagPartReport { overall, last_10s } = figures;
                let shown = if last_10s.transactions > 0 { last_10s } else { overall };
                match shown.transactions {
                    0 => format!("{} -", part.name()),
                    _ => format!("{} {} / {}", part.name(), duration_text(shown.p50_us), duration_text(shown.p99_us)),
                }
            });
            line(text, "Lag by part", &format!("{}  (p50 / p99; durable runs in parallel with apply)", of.join(", ")));
        }
        if let Some(difference_us) = self.lag.clock_difference_us {
            let side = if difference_us < 0 { "behind us" } else { "ahead of us" };
            let mut clock = format!("source is {} {side}", duration_text(difference_us.unsigned_abs()));
            if let Some(error_us) = self.lag.clock_error_us {
                let _ = write!(clock, ", within {}", duration_text(error_us));
            }
            if let Some(at) = &self.lag.clock_measured {
                let _ = write!(clock, ", measured {at}");
            }
            line(text, "Clock", &clock);
        }
        line(text, "Backlog", &self.backlog.to_text());
        self.render_place(text);
    }

    /// How fast replay is, where it stands, and its errors.
    fn render_place(&self, text: &mut String) {
        if self.served.as_ref().is_none_or(|served| served.beside_replay) {
            self.render_rates(text);
        }
        let position = &self.position;
        let pair = |received: &Option<String>, executed: &Option<String>| {
            format!("received {}, executed {}", received.as_deref().unwrap_or("-"), executed.as_deref().unwrap_or("-"))
        };
        line(text, "Source log", &pair(&position.source_received, &position.source_executed));
        line(text, "Relay log", &pair(&position.relay_received, &position.relay_executed));
        line(text, "Retrieved_Gtid_Set", &gtid_text(&self.gtid.retrieved));
        line(text, "Executed_Gtid_Set", &gtid_text(&self.gtid.executed));
        if !self.gtid.to_skip.is_empty() {
            line(text, "To skip", &gtid_text(&self.gtid.to_skip));
        }
        match (&self.last_io_error, &self.last_sql_error, &self.last_error) {
            (None, None, None) => line(text, "Last_Error", "none"),
            (None, None, Some(error)) => render_error("Last_Error", error, text),
            (io, sql, _) => {
                io.iter().for_each(|error| render_error("Last_IO_Error", error, text));
                sql.iter().for_each(|error| render_error("Last_SQL_Error", error, text));
            }
        }
    }

    fn render_rates(&self, text: &mut String) {
        let (now, mean) = (self.rates.last_1s, self.rates.last_10s);
        let rates = format!(
            "{} tx/s, {} rows/s, {}/s  (10 s: {} tx/s, {} rows/s)",
            count_text(now.transactions_per_s as u64),
            count_text(now.rows_per_s as u64),
            bytes_text(now.bytes_per_s as u64),
            count_text(mean.transactions_per_s as u64),
            count_text(mean.rows_per_s as u64)
        );
        line(text, "Rates", &rates);
        let total = self.rates.total;
        let replayed = format!(
            "{} transactions, {} row changes, {}; watermark {}; {} barriers",
            count_text(total.transactions),
            count_text(total.rows),
            bytes_text(total.bytes),
            self.position.watermark,
            count_text(self.replay.barriers)
        );
        line(text, "Replayed", &replayed);
        if self.replay.rows_logged_twice > 0 {
            let (rows, last) = (count_text(self.replay.rows_logged_twice), &self.replay.logged_twice_last);
            line(
                text,
                "Logged twice",
                &format!("{rows} row changes by the source's cascades, passed over; last in {last}"),
            );
        }
    }

    fn render_served(&self, text: &mut String) {
        let Some(served) = &self.served else { return };
        let end = served.position.as_deref().unwrap_or("-");
        let about = format!("{} files, {}, to {end}", count_text(served.files), bytes_text(served.bytes));
        line(text, "Served log", &about);
        let share = |part: u64| part as f64 * 100.0 / served.transactions.max(1) as f64;
        let stamped = format!(
            "{} transactions, {:.1} % stamped here, {:.1} % with the source's clock; {} drain; mean distance {:.1} of 64",
            count_text(served.transactions),
            if served.transactions == 0 { 0.0 } else { 100.0 - share(served.source_clock) },
            share(served.source_clock),
            count_text(served.drains),
            served.mean_distance
        );
        line(text, "Stamped", &stamped);
        line(text, "Purged GTIDs", &gtid_text(&served.purged));
        if served.beside_replay {
            line(text, "Served GTIDs", &gtid_text(&served.executed));
            // A relay's are its replay's.
            if !served.waits.is_empty() {
                line(text, "Stamping", &served.waits);
            }
            served.error.iter().for_each(|error| render_error("Stamping error", error, text));
        }
        for replica in &served.replicas {
            line(text, "Replica", replica);
        }
        if !served.acknowledges.is_empty() {
            line(text, "Acknowledges", &served.acknowledges);
        }
        for held in &served.holds {
            line(text, "Hold", &held.to_string());
        }
    }

    fn render_clients(&self, text: &mut String) {
        let Some(clients) = &self.clients else { return };
        let places: Vec<&str> = [&clients.address, &clients.socket].into_iter().flatten().map(String::as_str).collect();
        let mut about = format!("{}, {} connections", places.join(" and "), count_text(clients.connections));
        if let Some(at) = &clients.certificate_expires {
            let _ = write!(about, ", certificate until {at}");
        }
        line(text, "Clients", &about);
    }

    fn render_resources(&self, text: &mut String) {
        let (memory, disk) = (self.memory, self.disk);
        if self.running {
            let memory = format!(
                "{} resident of {} (peak {}), generations {}, queues {} of {}",
                bytes_text(memory.rss_bytes),
                bytes_text(memory.limit_bytes),
                bytes_text(memory.rss_peak_bytes),
                bytes_text(memory.store_bytes),
                bytes_text(memory.queue_bytes),
                bytes_text(memory.queue_limit_bytes)
            );
            line(text, "Memory", &memory);
        }
        let mut free = disk.free_bytes.map(|bytes| format!(", {} free", bytes_text(bytes))).unwrap_or_default();
        if let Some(bytes) = disk.reserve_bytes.filter(|bytes| *bytes > 0) {
            let above = disk.free_bytes.unwrap_or_default().saturating_sub(bytes);
            let _ = write!(free, ", {} above the reserve of {}", bytes_text(above), bytes_text(bytes));
        }
        if let Some(full_in_us) = disk.full_in_us {
            let _ = write!(free, ", full in about {}", duration_text(full_in_us));
        }
        let disk_text =
            format!("{} (relay log {}){free}", bytes_text(disk.folder_bytes), bytes_text(disk.relay_log_bytes));
        line(text, "Disk", &disk_text);
        let store = &self.store;
        if store.last_cut > 0 || store.cuts > 0 {
            let when = store.last_cut_at.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
            let tree = format!(
                "last cut at transaction {}{when}, {} cuts; {} on disk, compaction debt {} in {} runs",
                count_text(store.last_cut),
                count_text(store.cuts),
                bytes_text(store.tree_bytes),
                bytes_text(store.compaction_debt_bytes),
                store.compaction_debt_runs
            );
            line(text, "Store", &tree);
        }
        if store.reader_waits.count + store.replay_waits.count > 0 {
            let waits = |waits: &WaitReport| {
                let WaitReport { count, p99_us, max_us, .. } = *waits;
                format!("{} (p99 {}, max {})", count_text(count), duration_text(p99_us), duration_text(max_us))
            };
            let both = format!("readers {}, replay {}", waits(&store.reader_waits), waits(&store.replay_waits));
            line(text, "Lane waits", &both);
        }
        line(
            text,
            "Holds",
            &format!("{} tables, {} rows", count_text(self.replay.tables), count_text(self.replay.rows)),
        );
        if !self.threads.is_empty() {
            let threads: Vec<String> = self
                .threads
                .iter()
                .filter(|thread| thread.cpu_us >= 1000)
                .map(|t| {
                    let times = if t.threads > 1 { format!(" x{}", t.threads) } else { String::new() };
                    format!("{}{times} {}", t.name, duration_text(t.cpu_us))
                })
                .collect();
            line(text, "CPU", &format!("{} ({})", duration_text(self.cpu_us), threads.join(", ")));
        }
        let program = match self.pid {
            Some(pid) => format!("pid {pid}, up {}, ", duration_text(self.uptime_us)),
            None => "not running, ".to_owned(),
        };
        let identity = if self.server_uuid.is_empty() {
            String::new()
        } else {
            format!(", server_id {}, {}", self.server_id, self.server_uuid)
        };
        line(text, "Slipstream", &format!("{program}version {}, data {}{identity}", self.version, self.data));
    }
}

/// Time, number and text of an error, and the command that resolves it.
fn render_error(label: &str, error: &ErrorReport, text: &mut String) {
    // A server's own text begins with its number.
    let number = error.number.filter(|n| !error.text.starts_with(&format!("error {n}")));
    let number = number.map(|n| format!(" [{n}]")).unwrap_or_default();
    line(text, label, &format!("{}{number} {}", error.at, error.text));
    if let Some(way_on) = &error.way_on {
        line(text, "Hint", way_on);
    }
}

fn line(text: &mut String, label: &str, value: &str) {
    let mut label = label;
    for part in value.trim_end().split('\n') {
        let _ = write!(text, "{label:<LABEL$} ");
        // Bytes from a server must not steer the reader's terminal.
        text.extend(part.trim_end_matches('\r').chars().map(without_control));
        text.push('\n');
        label = "";
    }
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

fn gtid_text(set: &str) -> String {
    if set.chars().count() <= GTID_TEXT_MAX {
        return or_dash(set).to_owned();
    }
    let start: String = set.chars().take(GTID_TEXT_MAX).collect();
    format!("{start}... ({} characters; whole in --json)", set.len())
}

/// Event types as rows; as columns, the categories with a count.
fn render_ledger(ledger: &LedgerSnapshot, text: &mut String) {
    let totals = ledger.totals();
    let used: Vec<Category> = totals
        .by_category()
        .into_iter()
        .filter(|(category, count)| *count > 0 || matches!(category, Category::Seen | Category::Applied))
        .map(|(category, _)| category)
        .collect();
    let _ = write!(text, "{:<EVENT$}", "Ledger");
    for category in &used {
        let _ = write!(text, " {:>14}", heading(*category));
    }
    text.push('\n');
    let mut row = |name: &str, counts: &crate::LedgerCounts| {
        let _ = write!(text, "  {name:<width$}", width = EVENT - 2);
        for (category, count) in counts.by_category() {
            if used.contains(&category) {
                let _ = write!(text, " {:>14}", count_text(count));
            }
        }
        if counts.in_flight() != 0 {
            let _ = write!(text, "   {} in flight", counts.in_flight());
        }
        text.push('\n');
    };
    for event in &ledger.rows {
        row(&event.name, &event.counts);
    }
    row("all", &totals);
}

fn heading(category: Category) -> &'static str {
    match category {
        Category::Seen => "seen",
        Category::Applied => "applied",
        Category::Control => "control",
        Category::Recorded => "recorded",
        Category::Filtered => "filtered",
        Category::AlreadyExecuted => "already exec.",
        Category::SupersededByCopy => "by copy",
        Category::SkippedByOperator => "skipped",
        Category::Refused => "refused",
        Category::NotKept => "not kept",
    }
}

/// A count with separators: `1,234,567`.
#[must_use]
pub fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the unit that leaves at most four digits: `312 B`, `1.50 KiB`, `4.00 GiB`.
#[must_use]
pub fn bytes_text(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{} {unit}", three_digits(value))
}

/// A duration in a suitable unit: `850 us`, `12.3 ms`, `4.56 s`, `3 min 20 s`, `2 h 05 min`, `3 d 04 h`.
#[must_use]
pub fn duration_text(span_us: u64) -> String {
    let seconds = span_us / 1_000_000;
    match span_us {
        0..1_000 => format!("{span_us} us"),
        1_000..1_000_000 => format!("{} ms", three_digits(span_us as f64 / 1e3)),
        1_000_000..120_000_000 => format!("{} s", three_digits(span_us as f64 / 1e6)),
        _ if seconds < 7200 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ if seconds < 48 * 3600 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Truncates instead of rounding, so that a lag just below a limit is not printed as the limit.
fn three_digits(value: f64) -> String {
    if value < 10.0 {
        format!("{:.2}", (value * 100.0).floor() / 100.0)
    } else if value < 100.0 {
        format!("{:.1}", (value * 10.0).floor() / 10.0)
    } else {
        format!("{:.0}", value.floor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackupProgress, LagSummary, Ledger, LedgerBatch, Page, ReplayState, ThreadCpu};

    #[test]
    fn a_purge_is_shown_when_it_is_near() {
        let mut report = StatusReport::default();
        for (left_us, shown) in [(None, false), (Some(PURGE_SHOWN_BELOW_US), false), (Some(90 * 60 * 1_000_000), true)]
        {
            report.source.purges_in_us = left_us;
            assert_eq!(report.to_text().contains("90 min 00 s until the source purges"), shown);
        }
    }

    #[test]
    fn units() {
        assert_eq!(count_text(0), "0");
        assert_eq!(count_text(123), "123");
        assert_eq!(count_text(1_234_567), "1,234,567");
        assert_eq!(bytes_text(1023), "1023 B");
        assert_eq!(bytes_text(1536), "1.50 KiB");
        assert_eq!(bytes_text(4 << 30), "4.00 GiB");
        assert_eq!(bytes_text(u64::MAX), "16.0 EiB");
        assert_eq!(duration_text(999), "999 us");
        assert_eq!(duration_text(12_345), "12.3 ms");
        assert_eq!(duration_text(999_999), "999 ms");
        assert_eq!(duration_text(4_567_000), "4.56 s");
        assert_eq!(duration_text(200_000_000), "3 min 20 s");
        assert_eq!(duration_text(7_500_000_000), "2 h 05 min");
        assert_eq!(duration_text(273_600_000_000), "3 d 04 h");
    }

    #[test]
    fn status_text_of_a_stopped_and_of_a_running_replica() {
        let stopped = StatusReport::default().to_text();
        assert!(stopped.contains("Replica_IO_Running   No\n"), "{stopped}");
        assert!(stopped.contains("Lag                  NULL\n"), "{stopped}");
        assert!(stopped.contains("Slipstream           not running, "), "{stopped}");

        let (ledger, mut batch) = (Ledger::new(), LedgerBatch::new());
        batch.add(30, Category::Seen, 12_345);
        batch.add(30, Category::Applied, 12_340);
        batch.add(15, Category::Seen, 1);
        batch.add(15, Category::Control, 1);
        ledger.merge(Page::Left, &mut batch);
        let mut report = StatusReport { pid: Some(41), running: true, ..StatusReport::default() };
        report.source.uri = "mysql://repl@10.0.0.5:3306".to_owned();
        report.source.state = ConnectionState::Connected;
        report.source.server_version = "8.0.46".to_owned();
        report.replay.state = ReplayState::Failed;
        report.lag.current_us = Some(850);
        report.lag.clock_difference_us = Some(-1500);
        report.lag.parts.apply.overall =
            LagSummary { transactions: 2, p50_us: 70, p99_us: 900, ..LagSummary::default() };
        report.threads = vec![ThreadCpu { name: "apply".to_owned(), threads: 2, cpu_us: 1_500_000, core_wait_us: 0 }];
        report.backups = vec![BackupProgress {
            begun_at: "2026-11-21T07:59:00Z".to_owned(),
            elapsed_us: 4_567_000,
            written_bytes: 3 << 20,
            total_bytes: Some(6 << 20),
        }];
        report.last_error = Some(ErrorReport {
            at: "2026-11-21T08:00:00.000000Z".to_owned(),
            number: Some(1032),
            text: "row of shop.orders not\u{1b}[2J found\n    fix: none".to_owned(),
            way_on: Some("slipstream skip ...".to_owned()),
            ..ErrorReport::default()
        });
        report.ledger = ledger.snapshot(|event_type| if event_type == 30 { "Write_rows" } else { "Format_desc" });
        let text = report.to_text();
        for wanted in [
            "Source               mysql://repl@10.0.0.5:3306  (MySQL 8.0.46, server_id 0, )\n",
            "Lag                  850 us\n",
            "Lag by part          transport -, durable -, apply 70 us / 900 us, publish -  (p50 / p99; durable runs \
             in parallel with apply)\n",
            "Backup               3.00 MiB of 6.00 MiB written in 4.56 s, begun 2026-11-21T07:59:00Z\n",
            "Clock                source is 1.50 ms behind us\n",
            "[1032] row of shop.orders not?[2J found\n                         fix: none\n",
            "Hint                 slipstream skip ...\n",
            "apply x2 1.50 s",
            "  Write_rows                   12,345         12,340              0   5 in flight\n",
            "control\n",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is missing in\n{text}");
        }
        assert!(!text.contains("filtered"), "empty categories are left out");
        // Errors of receiving and of replay are told apart.
        report.last_sql_error = report.last_error.clone();
        report.last_io_error = Some(ErrorReport {
            at: "2026-11-21T09:00:00.000000Z".to_owned(),
            number: Some(1236),
            text: "purged".to_owned(),
            ..ErrorReport::default()
        });
        let text = report.to_text();
        for wanted in [
            "Last_IO_Error        2026-11-21T09:00:00.000000Z [1236] purged\n",
            "Last_SQL_Error       2026-11-21T08:00:00.000000Z [1032] row of",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is missing in\n{text}");
        }
        assert!(!text.contains("Last_Error"), "{text}");
        assert!(!text.contains("No answer"), "{text}");
        report.unanswered = Some(UnansweredReport { pid: Some(41), status_age_us: 7_000_000 });
        let text = report.to_text();
        let wanted = "No answer            process 41 does not answer; what follows was saved 7.00 s ago\n";
        assert!(text.starts_with(wanted), "{text}");
    }

    #[test]
    fn members_have_the_age_of_what_they_told_and_no_state_once_nobody_tells() {
        let member = |id: &str, state: &str, figures| crate::MemberReport {
            member_host: id.into(),
            member_port: 3306,
            age_us: 3_400_000,
            member_state: state.into(),
            member_role: "PRIMARY".into(),
            member_version: "9.7.4".into(),
            followed: id == "a",
            figures,
            ..crate::MemberReport::default()
        };
        let figures =
            |by_itself| Some(crate::MemberFigures { by_itself, age_us: 9, ..crate::MemberFigures::default() });
        let throttled = FlowControlReport { throttle_count: 7, throttle_time_us: 2_000_000, throttle_active_count: 1 };
        let first = crate::MemberReport { flow_control: Some(throttled), ..member("a", "ONLINE", figures(true)) };
        let members = vec![first, member("b", "ONLINE", figures(false)), member("c", "", None)];
        let mut group = GroupReport { view_id: "17:4".into(), members, ..GroupReport::default() };
        let mut text = String::new();
        render_group(&group, &mut text);
        for words in [
            "2 of 3 members ONLINE, as the followed one told 0 us ago (view 17:4)",
            "a:3306 ONLINE PRIMARY 9.7.4, followed, 0 to certify, 0 to apply, 0 conflicts of 0 checked, \
             flow control held back 7 for 2.00 s, 1 now (it said so 9 us ago)",
            "b:3306 ONLINE PRIMARY 9.7.4, 0 to certify, 0 to apply, 0 conflicts of 0 checked \
             (heard from another member 9 us ago)",
            "c:3306 not in the view (left, expelled or down) for 3.40 s",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        group.age_us = 60_000_000;
        let mut text = String::new();
        render_group(&group, &mut text);
        assert!(text.contains("nobody tells of it now; 60.0 s ago 2 of 3 members ONLINE"), "{text}");
        assert!(text.contains("a:3306 was ONLINE PRIMARY"), "{text}");
    }
}
