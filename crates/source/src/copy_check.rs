//! Check before a copy of a source: privileges, disk space, time, and how long the source keeps its log.
//!
//! In: connections, free bytes on our disk. Out: figures, and problems with the statement or option that solves each.
//! Plain following does not need this check: it uses [`crate::preflight::check`]. Changes nothing on the source.

use std::time::Duration;

use base::GtidSet;
use client::session::open_memory_tables;
use client::{ClientError, Connection, Result};

use crate::before_log::log_begun_s;
use crate::preflight::{EXIT_REFUSED, Problem, Severity, grants_of, missing_of, quote_account};
use crate::{NOT_SYSTEM, TableFilter};

/// A privilege, and others that also suffice.
pub type Needed = (&'static str, &'static [&'static str]);

/// Required for a copy: reading, FLUSH TABLES WITH READ LOCK, XA RECOVER.
pub const COPY_PRIVILEGES: &[Needed] = &[("SELECT", &[]), ("RELOAD", &["FLUSH_TABLES"]), ("XA_RECOVER_ADMIN", &[])];
/// Required for a copy without a lock.
pub const UNLOCKED_COPY_PRIVILEGES: &[Needed] = &[("SELECT", &[]), ("XA_RECOVER_ADMIN", &[])];
/// Required for the copy of one table: LOCK TABLES … READ.
pub const TABLE_COPY_PRIVILEGES: &[Needed] = &[("SELECT", &[]), ("LOCK TABLES", &[]), ("XA_RECOVER_ADMIN", &[])];
/// Make a copy gentler. With LOCK INSTANCE FOR BACKUP only DDL waits, not writers; with PROCESS, long statements of
/// other sessions are seen before the read lock is requested.
pub const GENTLE_PRIVILEGES: &[Needed] = &[("BACKUP_ADMIN", &[]), ("PROCESS", &[])];
/// Disk space of a copy, as a multiple of the source's tables with their indexes. Rows and index entries are about as
/// large as on the source, and exist twice while they are merged into larger runs.
pub const ROOM_FACTOR: u64 = 2;
/// Below this multiple the copy is refused, because it will not fit.
pub const ROOM_FACTOR_MIN: u64 = 1;
/// Assumed speed of a copy without a rate limit, in bytes per second.
pub const BYTES_PER_SECOND: u64 = 50_000_000;
/// Tables copied in a second, however small: 5,000 of three rows each took 13 s of the source's CPU time and 4 s of
/// ours, of which the definitions take more than the rows.
pub const TABLES_PER_SECOND: u64 = 400;

/// The account logged in (quoted, as in GRANT), and the global privileges out of `needed` that it lacks. Privileges
/// through roles count.
///
/// # Errors
/// The connection fails.
pub fn missing_privileges(connection: &mut Connection, needed: &[Needed]) -> Result<(String, Vec<String>)> {
    let what = "SELECT CURRENT_USER()";
    let account: String = connection.query(what)?.told(0, 0, what)?;
    let missing = missing_of(&grants_of(connection)?, needed);
    Ok((quote_account(&account), missing.into_iter().map(str::to_owned).collect()))
}

/// The GRANT statement for these privileges.
#[must_use]
pub fn grant_statement(missing: &[String], account: &str) -> String {
    format!("GRANT {} ON *.* TO {account};", missing.join(", "))
}

/// The copy to check.
#[derive(Debug, Clone)]
pub struct CopyCheckInput<'a> {
    pub tables: &'a TableFilter,
    /// Free bytes on the disk of our data folder; None if unknown.
    pub free_bytes: Option<u64>,
    /// Rate limit in bytes per second.
    pub rate_bytes_per_second: Option<u64>,
    /// Longest age of the snapshots; None for a copy without a lock, which has no limit.
    pub snapshot_max: Option<Duration>,
    /// Whether the copy takes a lock (see [`UNLOCKED_COPY_PRIVILEGES`]).
    pub lock: LockWanted,
}

/// Whether the copy takes the read lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWanted {
    /// Takes it for milliseconds.
    Yes,
    /// Never takes it.
    No,
}

/// Result of the check.
#[derive(Debug, Clone, Default)]
pub struct CopyCheck {
    /// Number of tables to copy.
    pub tables: u64,
    /// Number of their rows, by the source's statistics.
    pub rows: u64,
    /// Their bytes on the source's disk without secondary indexes, by the source's statistics.
    pub data_bytes: u64,
    /// Bytes of their secondary indexes, by the source's statistics.
    pub index_bytes: u64,
    /// Estimated time to read them.
    pub duration: Duration,
    /// How long the source keeps its log.
    pub log_kept: LogKept,
    /// Problems found, worst first.
    pub problems: Vec<Problem>,
}

/// What is known about how long a source keeps its log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogKept {
    /// Age at which it purges a log file automatically (`binlog_expire_logs_seconds`); None for never.
    pub expire: Option<Duration>,
    /// Age of its oldest log file; None if none was ever purged.
    pub oldest: Option<Duration>,
}

impl LogKept {
    /// True if files younger than its own setting are gone: somebody, or a script, purged them.
    #[must_use]
    pub fn purged_by_others(&self) -> bool {
        match (self.expire, self.oldest) {
            (Some(expire), Some(oldest)) => oldest < expire,
            (None, oldest) => oldest.is_some(),
            (Some(_), None) => false,
        }
    }

    /// The shorter of the two: the time that can be relied on. None: nothing indicates that the log is ever purged.
    #[must_use]
    pub fn shortest(&self) -> Option<Duration> {
        self.expire.into_iter().chain(self.oldest).min()
    }
}

impl CopyCheck {
    /// Free bytes that the copy should have.
    #[must_use]
    pub fn bytes_needed(&self) -> u64 {
        self.data_bytes.saturating_add(self.index_bytes).saturating_mul(ROOM_FACTOR)
    }

    /// True if no problem prevents the copy.
    #[must_use]
    pub fn accepted(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity != Severity::Refused)
    }

    fn add(&mut self, severity: Severity, what: String, fix: String) {
        let exit_code = if severity == Severity::Refused { EXIT_REFUSED } else { 0 };
        self.problems.push(Problem { what, fix, severity, exit_code });
    }

    /// Adds a table's rows, bytes of data and bytes of indexes; None: the source does not tell, as of a table that it
    /// cannot open. Such a size must not count as nothing in silence.
    fn add_size(&mut self, db: &str, table: &str, size: [Option<u64>; 3]) {
        if size.contains(&None) {
            let what = format!("the source does not tell the size of {db}.{table}; the estimates count it as empty");
            let fix = format!("CHECK TABLE `{db}`.`{table}`; or leave it out by a filter");
            self.add(Severity::Warning, what, fix);
        }
        let [rows, data, index] = size.map(Option::unwrap_or_default);
        self.rows = self.rows.saturating_add(rows);
        self.data_bytes = self.data_bytes.saturating_add(data);
        self.index_bytes = self.index_bytes.saturating_add(index);
    }
}

/// Checks a source. `log_age` is the result of [`oldest_log_age`].
///
/// # Errors
/// The connection fails; problems of the source are in the result.
pub fn check_copy(
    connection: &mut Connection,
    input: &CopyCheckInput<'_>,
    log_age: Option<Duration>,
) -> Result<CopyCheck> {
    let mut check = CopyCheck::default();
    let needed: &[(&[Needed], Severity)] = match input.lock {
        LockWanted::Yes => &[(COPY_PRIVILEGES, Severity::Refused), (GENTLE_PRIVILEGES, Severity::Warning)],
        LockWanted::No => &[(UNLOCKED_COPY_PRIVILEGES, Severity::Refused)],
    };
    for &(needed, severity) in needed {
        let (account, missing) = missing_privileges(connection, needed)?;
        if !missing.is_empty() {
            let list = missing.join(", ");
            let what = match severity {
                Severity::Refused if missing.iter().any(|name| name == "RELOAD") => format!(
                    "the account {account} lacks the privileges {list} for the initial copy; where RELOAD cannot be \
                     granted, --copy-lock=none copies without a lock"
                ),
                Severity::Refused => format!("the account {account} lacks the privileges {list} for the initial copy"),
                _ => format!("without {list} the initial copy's lock may keep writers waiting longer, a second a try"),
            };
            check.add(severity, what, grant_statement(&missing, &account));
        }
    }
    read_sizes(connection, input.tables, &mut check)?;
    let speed = input.rate_bytes_per_second.unwrap_or(BYTES_PER_SECOND).clamp(1, BYTES_PER_SECOND);
    check.duration = Duration::from_secs(check.data_bytes / speed + check.tables / TABLES_PER_SECOND);
    let expire = expire_seconds(connection)?;
    check.log_kept = LogKept { expire: (expire > 0).then(|| Duration::from_secs(expire)), oldest: log_age };
    check_room_and_time(&mut check, input);
    check.problems.sort_by_key(|problem| problem.severity);
    Ok(check)
}

fn read_sizes(connection: &mut Connection, filter: &TableFilter, check: &mut CopyCheck) -> Result<()> {
    let what = "SELECT @@GLOBAL.lower_case_table_names";
    let lower = connection.query(what)?.told(0, 0, what)?;
    open_memory_tables(connection)?;
    // Otherwise the statistics may be a day old.
    connection.exec("SET SESSION information_schema_stats_expiry = 0")?;
    let tables = connection.query(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS, DATA_LENGTH, INDEX_LENGTH FROM information_schema.TABLES \
         WHERE TABLE_TYPE = 'BASE TABLE' AND {NOT_SYSTEM}"
    ))?;
    for row in 0..tables.rows.len() {
        let text = |column| tables.text(row, column).unwrap_or_default();
        if filter.place_of(&text(0), &text(1), lower).is_some() {
            check.tables += 1;
            check.add_size(&text(0), &text(1), [2, 3, 4].map(|column| text(column).parse().ok()));
        }
    }
    Ok(())
}

/// Seconds after which the source purges a log file automatically; 0 for never.
fn expire_seconds(connection: &mut Connection) -> Result<u64> {
    let variables = connection.query(
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('binlog_expire_logs_seconds', 'binlog_expire_logs_auto_purge', \
         'expire_logs_days')",
    )?;
    let get = |name: &str| {
        let row = (0..variables.rows.len()).find(|&row| variables.text(row, 0).as_deref() == Some(name))?;
        variables.text(row, 1)
    };
    if get("binlog_expire_logs_auto_purge").as_deref() == Some("OFF") {
        return Ok(0);
    }
    // 8.4 and later do not have the one in days.
    let number = |name| get(name).map_or(Ok(0), |text| text.parse::<u64>());
    let unreadable = |_| ClientError::UnexpectedAnswer { what: "SHOW GLOBAL VARIABLES LIKE '%expire_logs%'" };
    let seconds = number("binlog_expire_logs_seconds").map_err(unreadable)?;
    let days = number("expire_logs_days").map_err(unreadable)?;
    Ok(if seconds > 0 { seconds } else { days.saturating_mul(86_400) })
}

fn check_room_and_time(check: &mut CopyCheck, input: &CopyCheckInput<'_>) {
    let megabytes = |bytes: u64| format!("{} MB", bytes.div_ceil(1_000_000));
    let size = check.data_bytes.saturating_add(check.index_bytes);
    if let Some(free) = input.free_bytes.filter(|free| *free < size.saturating_mul(ROOM_FACTOR)) {
        let severity = if free < size.saturating_mul(ROOM_FACTOR_MIN) { Severity::Refused } else { Severity::Warning };
        let what = format!(
            "{} are free for tables of {} on the source; the copy needs about {}; also leave room for the log \
             received during the copy",
            megabytes(free),
            megabytes(size),
            megabytes(check.bytes_needed())
        );
        check.add(severity, what, "use a folder on a larger disk: --data=DIR, or copy fewer tables".into());
    }
    let seconds = check.duration.as_secs();
    if let Some(snapshot_max) = input.snapshot_max.filter(|max| check.duration > *max) {
        let what = format!(
            "reading {} will take about {seconds} s, longer than the snapshots may live ({} s)",
            megabytes(check.data_bytes),
            snapshot_max.as_secs()
        );
        let fix = format!("--snapshot-max={seconds}s or more (the source keeps old row versions as long)");
        check.add(Severity::Warning, what, fix);
    }
    if check.log_kept.shortest().is_some_and(|kept| kept < check.duration.saturating_mul(2)) {
        let (what, fix) = log_problem(&check.log_kept, check.duration);
        check.add(Severity::Warning, what, fix);
    }
}

/// Reports a source that may purge its log before the copy has ended.
fn log_problem(kept: &LogKept, copy: Duration) -> (String, String) {
    let lost = format!(
        "the copy will take about {}; if receiving is interrupted during it and the log is purged, the copy is lost",
        span(copy)
    );
    let seconds = copy.as_secs().saturating_mul(2).max(86_400);
    let setting = match kept.expire {
        Some(expire) => format!("{} (binlog_expire_logs_seconds = {})", span(expire), expire.as_secs()),
        None => "for ever (binlog_expire_logs_seconds = 0, or binlog_expire_logs_auto_purge = OFF)".into(),
    };
    match kept.oldest.filter(|_| kept.purged_by_others()) {
        Some(oldest) => (
            format!(
                "the source is set to keep its log {setting}, but its oldest log file was begun {} ago: older ones were purged by \
                 hand (PURGE BINARY LOGS), or a script does so; {lost}",
                span(oldest)
            ),
            "do not purge binary logs on the source until 'slipstream status' shows that the replica follows".into(),
        ),
        None => (
            format!("the source keeps its log {setting} only; {lost}"),
            format!("SET PERSIST binlog_expire_logs_seconds = {seconds};"),
        ),
    }
}

/// Formats a duration for people.
fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds @ 7200..=172_799 => format!("{:.1} hours", seconds as f64 / 3600.0),
        seconds => format!("{:.1} days", seconds as f64 / 86_400.0),
    }
}

/// Age of the oldest log file on a source that has purged others; None on a source that never did. Uses its own
/// connection.
///
/// # Errors
/// The connection fails, or the account may not read the log.
pub fn oldest_log_age(mut connection: Connection) -> Result<Option<Duration>> {
    let what = "SELECT @@GLOBAL.gtid_purged, UNIX_TIMESTAMP()";
    let answer = connection.query(what)?;
    let (purged, now): (GtidSet, u64) = (answer.told(0, 0, what)?, answer.told(0, 1, what)?);
    if purged.is_empty() {
        return Ok(None);
    }
    let begun_s = log_begun_s(connection, &purged)?;
    Ok(begun_s.map(|begun_s| Duration::from_secs(now.saturating_sub(begun_s))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_is_not_told_is_warned_of() {
        let mut check = CopyCheck::default();
        check.add_size("d", "t", [Some(5), Some(600), Some(70)]);
        assert!(check.problems.is_empty());
        check.add_size("d", "broken", [None, None, None]);
        check.add_size("d", "odd", [Some(1), Some(2), None]);
        let named: Vec<_> = check.problems.iter().map(|problem| (problem.severity, problem.what.as_str())).collect();
        assert!(named.iter().all(|(severity, _)| *severity == Severity::Warning));
        assert!(
            matches!(named[..], [(_, first), (_, second)] if first.contains("d.broken") && second.contains("d.odd"))
        );
        assert_eq!((check.rows, check.data_bytes, check.index_bytes), (6, 602, 70));
    }

    #[test]
    fn purging_by_others_counts() {
        let kept = |expire: Option<u64>, oldest: Option<u64>| {
            let (expire, oldest) = (expire.map(Duration::from_secs), oldest.map(Duration::from_secs));
            let kept = LogKept { expire, oldest };
            (kept.purged_by_others(), kept.shortest().map(|time| time.as_secs()))
        };
        assert_eq!(kept(None, None), (false, None));
        assert_eq!(kept(Some(3600), None), (false, Some(3600)));
        assert_eq!(kept(None, Some(600)), (true, Some(600)));
        assert_eq!(kept(Some(3600), Some(600)), (true, Some(600)));
        assert_eq!(kept(Some(3600), Some(7200)), (false, Some(3600)));
    }

    /// Regression: a source purged by hand a minute ago was reported to keep its log for 0.0 hours.
    #[test]
    fn what_is_known_of_the_log_is_told_apart() {
        let (minutes, month) = (Duration::from_secs(250), Duration::from_secs(30 * 86_400));
        let by_hand = LogKept { expire: Some(month), oldest: Some(minutes) };
        let (what, fix) = log_problem(&by_hand, Duration::from_secs(9000));
        for text in [
            "keep its log 30.0 days (binlog_expire_logs_seconds = 2592000)",
            "begun 4 min ago",
            "PURGE BINARY LOGS",
            "about 2.5 hours",
        ] {
            assert!(what.contains(text), "{text}: {what}");
        }
        assert!(fix.contains("do not purge"), "{fix}");
        let never = LogKept { expire: None, oldest: Some(minutes) };
        assert!(log_problem(&never, minutes).0.contains("keep its log for ever"));
        let short = LogKept { expire: Some(minutes), oldest: Some(month) };
        let (what, fix) = log_problem(&short, Duration::from_secs(100_000));
        assert!(
            what.contains("keeps its log 4 min (binlog_expire_logs_seconds = 250) only") && !what.contains("by hand"),
            "{what}"
        );
        assert_eq!(fix, "SET PERSIST binlog_expire_logs_seconds = 200000;");
    }

    #[test]
    fn room_and_time() {
        let filter = TableFilter::default();
        let problems = |free_mb: u64, snapshot_max: u64, kept: Option<u64>| {
            let mut check = CopyCheck {
                data_bytes: 10_000_000_000,
                index_bytes: 1_000_000_000,
                duration: Duration::from_secs(200),
                log_kept: LogKept { expire: kept.map(Duration::from_secs), oldest: None },
                ..CopyCheck::default()
            };
            let input = CopyCheckInput {
                tables: &filter,
                free_bytes: Some(free_mb * 1_000_000),
                rate_bytes_per_second: None,
                snapshot_max: Some(Duration::from_secs(snapshot_max)),
                lock: LockWanted::Yes,
            };
            check_room_and_time(&mut check, &input);
            let severities: Vec<_> = check.problems.iter().map(|problem| problem.severity).collect();
            (severities, check.problems)
        };
        assert_eq!(problems(30_000, 600, Some(86_400)).0, []);
        assert_eq!(problems(20_000, 600, None).0, [Severity::Warning]);
        let (severities, found) = problems(10_999, 600, None);
        assert_eq!((severities, found[0].exit_code), (vec![Severity::Refused], EXIT_REFUSED));
        assert!(
            found[0]
                .what
                .starts_with("10999 MB are free for tables of 11000 MB on the source; the copy needs about 22000 MB")
        );
        let (severities, found) = problems(30_000, 100, Some(300));
        assert_eq!(severities, [Severity::Warning, Severity::Warning]);
        assert!(found[0].fix.starts_with("--snapshot-max=200s"));
        assert_eq!(found[1].fix, "SET PERSIST binlog_expire_logs_seconds = 86400;");
    }

    #[test]
    fn one_privilege_may_stand_for_another() {
        let grants = |list: &str| vec![format!("GRANT {list} ON *.* TO `r`@`%`")];
        assert_eq!(missing_of(&grants("SELECT"), COPY_PRIVILEGES), ["RELOAD", "XA_RECOVER_ADMIN"]);
        assert!(missing_of(&grants("SELECT, FLUSH_TABLES, XA_RECOVER_ADMIN"), COPY_PRIVILEGES).is_empty());
        assert!(missing_of(&grants("ALL PRIVILEGES"), GENTLE_PRIVILEGES).is_empty());
        let text = grant_statement(&["RELOAD".into(), "XA_RECOVER_ADMIN".into()], "'r'@'%'");
        assert_eq!(text, "GRANT RELOAD, XA_RECOVER_ADMIN ON *.* TO 'r'@'%';");
    }
}
