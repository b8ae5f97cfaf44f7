//! Check whether a source can be followed: changes nothing, and names for each problem the statement that solves it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base::{GtidSet, Uuid};

use crate::clock::{self, ClockDifference};
use crate::copy_check::Needed;
use crate::group::{self, BarrierError};
use crate::replication::{semi_sync_state, version_number};
use client::{ClientError, Connection, Result, ResultSet};

/// Exit code of a refused preflight.
pub const EXIT_REFUSED: i32 = 4;
/// Exit code if the source no longer has the transactions that we need (MySQL's error 1236).
pub const EXIT_PURGED: i32 = 5;
/// Oldest supported version.
const VERSION_MIN: u32 = 80_000;
/// First version that is newer than those tested.
const VERSION_UNTESTED: u32 = 90_800;
/// Number of round trips of the clock measurement.
const CLOCK_ROUNDS: u32 = 7;
/// How long one try waits for a member to commit what its group had ordered: less than a read may take, and so long
/// that waiters need not ask often.
const BARRIER_WITHIN: Duration = Duration::from_secs(4);

/// Our identity and the transactions that we have.
#[derive(Debug, Clone, Copy)]
pub struct PreflightInput<'a> {
    /// Our server id, which must differ from the source's and its replicas'.
    pub server_id: u32,
    /// Our uuid, so that an earlier connection of ours does not count as another replica.
    pub uuid: Option<Uuid>,
    pub executed: &'a GtidSet,
    /// GTIDs in the relay log.
    pub retrieved: &'a GtidSet,
    /// True if nothing was ever replayed into the store.
    pub store_empty: bool,
    /// Other servers may be followed instead, by themselves.
    pub has_others: bool,
}

/// Result of the check.
#[derive(Debug, Clone)]
pub struct PreflightReport {
    /// Facts about the source.
    pub facts: SourceFacts,
    /// Problems found, worst first.
    pub problems: Vec<Problem>,
    /// Why it cannot be known yet whether the source has all that we have: a member of a group may have it in a queue.
    pub undecided: Option<String>,
}

/// Facts about the source.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SourceFacts {
    /// Version, e.g. `9.7.4`.
    pub version: String,
    /// `@@server_uuid`; `None` for MariaDB.
    pub server_uuid: Option<Uuid>,
    /// The source's `@@server_id`.
    pub server_id: u32,
    /// 0: names compare as written; 1: stored in lower case; 2: compared in lower case.
    pub lower_case_table_names: u8,
    /// Binlog checksum, `CRC32` or `NONE`.
    pub binlog_checksum: String,
    /// `@@global.gtid_executed`.
    pub gtid_executed: GtidSet,
    /// `@@global.gtid_owned`: transactions in progress. One that waits for a semi-synchronous acknowledgement is in the
    /// source's log, and may be in ours, but is not yet in the source's gtid_executed.
    pub gtid_owned: GtidSet,
    /// `@@global.gtid_purged`.
    pub gtid_purged: GtidSet,
    /// It is to be a member of a group, ONLINE or not.
    pub is_member: bool,
    /// What a member has received from other members of its group, applied or not.
    pub group_received: GtidSet,
    /// How long the source keeps its log, seconds (binlog_expire_logs_seconds); None if it never purges it by itself.
    pub log_expires_s: Option<u64>,
    /// Difference between the source's clock and ours.
    pub clock: Option<ClockDifference>,
    /// Semi-synchronous replication: on, off, or (None) not installed.
    pub semi_sync: Option<bool>,
    /// The account logged in, e.g. `'repl'@'%'`.
    pub account: String,
    /// TLS version and cipher; None without TLS.
    pub tls: Option<String>,
}

/// Severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Replication must not start.
    Refused,
    /// Replication works, but the problem needs attention.
    Warning,
    Note,
}

/// A problem of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Description of the problem.
    pub what: String,
    /// Statement or option that solves it; may be empty.
    pub fix: String,
    /// Severity of the problem.
    pub severity: Severity,
    /// Exit code if the problem stops the program; otherwise 0.
    pub exit_code: i32,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.fix.is_empty() {
            write!(f, "\n    fix: {}", self.fix)?;
        }
        Ok(())
    }
}

impl PreflightReport {
    /// True if no problem prevents replication.
    pub fn accepted(&self) -> bool {
        self.exit_code() == 0
    }

    /// 0, or the exit code of the worst problem.
    pub fn exit_code(&self) -> i32 {
        self.problems.iter().map(|problem| problem.exit_code).find(|&code| code != 0).unwrap_or(0)
    }

    /// The sentence on a source that is not refused.
    #[must_use]
    pub fn verdict(&self) -> String {
        match &self.undecided {
            None => "the source can be followed".into(),
            Some(why) => format!("the source can be followed once it can say what it lacks: {why}"),
        }
    }

    fn refuse(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.add(Severity::Refused, EXIT_REFUSED, what.into(), fix.into());
    }

    fn warn(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.add(Severity::Warning, 0, what.into(), fix.into());
    }

    fn note(&mut self, what: impl Into<String>) {
        self.add(Severity::Note, 0, what.into(), String::new());
    }

    fn add(&mut self, severity: Severity, exit_code: i32, what: String, fix: String) {
        self.problems.push(Problem { what, fix, severity, exit_code });
    }
}

/// Checks a source. An `Err` means that the connection failed; problems of the source itself are in the report.
pub fn check(connection: &mut Connection, input: PreflightInput<'_>) -> Result<PreflightReport> {
    let version = connection.server_version().to_owned();
    let facts = SourceFacts { version: version.clone(), tls: connection.tls_description(), ..SourceFacts::default() };
    let mut report = PreflightReport { facts, problems: Vec::new(), undecided: None };
    if connection.is_mariadb() {
        let what = format!("the source is MariaDB ({version}); its binary log and GTIDs are not MySQL's");
        report.refuse(what, "use a MySQL 8.0 to 9.7 source");
        return Ok(report);
    }
    if !check_version(&mut report, &version) {
        return Ok(report);
    }
    whole_answers(connection)?;
    let variables = Variables::read(connection)?;
    read_facts(connection, &variables, &mut report)?;
    check_log_settings(&variables, &mut report);
    check_privileges(connection, &mut report)?;
    check_server_id(connection, &input, &mut report)?;
    report.undecided = ask_group(connection, &ours(&input), &mut report.facts)?;
    check_gtids(&input, &mut report);
    report.problems.sort_by_key(|problem| problem.severity);
    Ok(report)
}

/// The source's global `sql_select_limit` would cut answers, SHOW's included: what is missing there seems to be off.
fn whole_answers(connection: &mut Connection) -> Result<()> {
    match connection.exec("SET SESSION sql_select_limit = 18446744073709551615") {
        // A source that is no server of MySQL's need not know the statement.
        Err(error) if error.server_code().is_some() => Ok(()),
        result => result.map(drop),
    }
}

/// Returns false if further checks are pointless.
fn check_version(report: &mut PreflightReport, version: &str) -> bool {
    match version_number(version) {
        Some(number) if number < VERSION_MIN => {
            let what = format!("the source is MySQL {version}; versions before 8.0 are not supported");
            report.refuse(what, "upgrade the source to 8.0 or later");
            false
        }
        Some(number) if number >= VERSION_UNTESTED => {
            report.warn(format!("the source is MySQL {version}; versions after 9.7 have not been tested"), "");
            true
        }
        Some(_) => true,
        None => {
            report.warn(format!("the source's version '{version}' is not understood"), "");
            true
        }
    }
}

/// Global variables by name; a variable that the server does not have is empty.
struct Variables(ResultSet);

impl Variables {
    fn read(connection: &mut Connection) -> Result<Self> {
        const NAMES: &[&str] = &[
            "log_bin",
            "binlog_format",
            "gtid_mode",
            "enforce_gtid_consistency",
            "server_id",
            "server_uuid",
            "lower_case_table_names",
            "binlog_checksum",
            "binlog_row_value_options",
            "binlog_encryption",
            "binlog_row_image",
            "binlog_transaction_compression",
            "binlog_expire_logs_seconds",
            "binlog_expire_logs_auto_purge",
            "group_replication_group_name",
            "sync_binlog",
            "innodb_flush_log_at_trx_commit",
        ];
        let list = NAMES.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(",");
        connection.query(&format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({list})")).map(Variables)
    }

    fn find(&self, name: &str) -> Option<String> {
        let row = (0..self.0.rows.len()).find(|&row| self.0.text(row, 0).as_deref() == Some(name));
        row.and_then(|row| self.0.text(row, 1))
    }

    fn get(&self, name: &str) -> String {
        self.find(name).unwrap_or_default()
    }

    /// A variable that every server has, as what it must be.
    fn told<T: FromStr>(&self, name: &str) -> Result<T> {
        let text = self.find(name);
        let value = text.as_deref().and_then(|text| text.parse().ok());
        value.ok_or_else(|| ClientError::unexpected_value("SHOW GLOBAL VARIABLES", name, text.as_deref()))
    }

    /// The same of a variable that not every server has.
    fn told_if_there<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        if self.get(name).is_empty() { Ok(None) } else { self.told(name).map(Some) }
    }

    fn put_facts(&self, facts: &mut SourceFacts) -> Result<()> {
        facts.server_uuid = Some(self.told("server_uuid")?);
        facts.server_id = self.told("server_id")?;
        facts.lower_case_table_names = self.told("lower_case_table_names")?;
        facts.binlog_checksum = self.get("binlog_checksum");
        // Without the second variable (before 8.0.29) the first one alone decides.
        let purges = self.get("binlog_expire_logs_auto_purge") != "OFF";
        let seconds = self.told_if_there("binlog_expire_logs_seconds")?;
        facts.log_expires_s = seconds.filter(|seconds| purges && *seconds > 0);
        Ok(())
    }
}

fn read_facts(connection: &mut Connection, variables: &Variables, report: &mut PreflightReport) -> Result<()> {
    report.facts.is_member = !variables.get("group_replication_group_name").is_empty();
    read_in_flight(connection, &mut report.facts)?;
    let what = "SELECT @@global.gtid_executed, @@global.gtid_purged, CURRENT_USER()";
    let sets = connection.query_gtids(what)?;
    let facts = &mut report.facts;
    facts.gtid_executed = sets.told(0, 0, what)?;
    facts.gtid_purged = sets.told(0, 1, what)?;
    facts.account = quote_account(&sets.told::<String>(0, 2, what)?);
    variables.put_facts(facts)?;
    facts.clock = Some(clock::measure(connection, CLOCK_ROUNDS)?);
    facts.semi_sync = semi_sync_state(connection)?;
    Ok(())
}

/// Reads what may become executed before gtid_executed is read, in the order in which a transaction passes through: one
/// that moves in between is then in one of the three.
fn read_in_flight(connection: &mut Connection, facts: &mut SourceFacts) -> Result<()> {
    if facts.is_member {
        facts.group_received = group::received(connection)?;
    }
    let what = "SELECT @@global.gtid_owned";
    let owned: String = connection.query_gtids(what)?.told(0, 0, what)?;
    facts.gtid_owned = parse_owned(&owned).ok_or(ClientError::UnexpectedAnswer { what })?;
    Ok(())
}

fn check_log_settings(variables: &Variables, report: &mut PreflightReport) {
    let is_on = |name: &str| matches!(variables.get(name).as_str(), "ON" | "1");
    if !is_on("log_bin") {
        report.refuse("the source writes no binary log (log_bin is OFF)", "restart it with log_bin=binlog in [mysqld]");
    }
    let format = variables.get("binlog_format");
    if !format.is_empty() && format != "ROW" {
        report.refuse(
            format!("binlog_format is {format}; only ROW can be replayed"),
            "SET PERSIST binlog_format = ROW; (sessions that are open keep the old value until they reconnect)",
        );
    }
    let mode = variables.get("gtid_mode");
    if mode != "ON" {
        let steps = gtid_mode_steps(&mode, &variables.get("enforce_gtid_consistency"));
        report.refuse(format!("gtid_mode is {mode}; transactions need GTIDs"), steps);
    }
    if !variables.get("binlog_row_value_options").is_empty() {
        report.note("binlog_row_value_options=PARTIAL_JSON: JSON updates are logged as differences");
    }
    if is_on("binlog_encryption") {
        report.note("binlog_encryption is ON: the stream can be followed, files copied from the source cannot be read");
    }
    let loose = |name: &str| {
        (!matches!(variables.get(name).as_str(), "" | "1")).then(|| (name.to_owned(), variables.get(name)))
    };
    let loose: Vec<_> = ["sync_binlog", "innodb_flush_log_at_trx_commit"].into_iter().filter_map(loose).collect();
    if !loose.is_empty() {
        let all =
            |form: fn(&(String, String)) -> String, between| loose.iter().map(form).collect::<Vec<_>>().join(between);
        report.warn(
            format!(
                "{}: a crash of the source can lose transactions that are already here",
                all(|(name, value)| format!("{name} is {value}"), " and ")
            ),
            all(|(name, _)| format!("SET PERSIST {name} = 1;"), " "),
        );
    }
    let image = variables.get("binlog_row_image");
    if !image.is_empty() && image != "FULL" {
        report.note(format!("binlog_row_image is {image}: rows are logged in part"));
    }
}

/// The statements that lead to gtid_mode=ON step by step.
fn gtid_mode_steps(mode: &str, enforce: &str) -> String {
    let mut steps = String::new();
    if enforce != "ON" {
        steps.push_str("SET PERSIST enforce_gtid_consistency = ON; ");
    }
    let all = ["OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"];
    let from = all.iter().position(|step| *step == mode).map_or(1, |at| at + 1);
    for step in all.iter().skip(from) {
        steps.push_str(&format!("SET PERSIST gtid_mode = {step}; "));
    }
    steps.trim_end().to_owned()
}

/// Quotes `repl@%` as `'repl'@'%'`.
pub(crate) fn quote_account(account: &str) -> String {
    let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
    let quote = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    format!("{}@{}", quote(user), quote(host))
}

fn check_privileges(connection: &mut Connection, report: &mut PreflightReport) -> Result<()> {
    let grants = grants_of(connection)?;
    let missing = missing_of(&grants, FOLLOW_PRIVILEGES);
    if !missing.is_empty() {
        let account = report.facts.account.clone();
        let list = missing.join(", ");
        report.refuse(
            format!("the account {account} lacks the privileges {list}"),
            format!("GRANT {list} ON *.* TO {account};"),
        );
    }
    Ok(())
}

/// Privileges required for following; no others suffice.
const FOLLOW_PRIVILEGES: &[Needed] = &[("REPLICATION SLAVE", &[]), ("REPLICATION CLIENT", &[]), ("SELECT", &[])];

/// The lines of SHOW GRANTS for the account logged in, including privileges from its active roles.
pub(crate) fn grants_of(connection: &mut Connection) -> Result<Vec<String>> {
    let roles = connection.query_value("SELECT CURRENT_ROLE()")?.filter(|roles| roles != "NONE");
    let grants = match roles {
        // Without USING, privileges from roles are not listed.
        Some(roles) => connection.query(&format!("SHOW GRANTS FOR CURRENT_USER() USING {roles}"))?,
        None => connection.query("SHOW GRANTS FOR CURRENT_USER()")?,
    };
    Ok((0..grants.rows.len()).filter_map(|row| grants.text(row, 0)).collect())
}

/// The global privileges out of `needed` that no line of SHOW GRANTS grants.
pub(crate) fn missing_of(grants: &[String], needed: &[Needed]) -> Vec<&'static str> {
    let mut missing = needed.to_vec();
    for grant in grants {
        let upper = grant.to_ascii_uppercase();
        let Some((list, _)) = upper.strip_prefix("GRANT ").and_then(|rest| rest.split_once(" ON *.* TO ")) else {
            continue;
        };
        let given: Vec<&str> = list.split(',').map(str::trim).collect();
        let all = given.contains(&"ALL PRIVILEGES") || given.contains(&"ALL");
        missing.retain(|(name, instead)| {
            !all && !given.contains(name) && !instead.iter().any(|instead| given.contains(instead))
        });
    }
    missing.into_iter().map(|(name, _)| name).collect()
}

fn check_server_id(
    connection: &mut Connection,
    input: &PreflightInput<'_>,
    report: &mut PreflightReport,
) -> Result<()> {
    let ours = input.server_id;
    if ours == 0 {
        report.refuse("our server id is 0", "give a server id of our own: --server-id=N, 1 to 4294967295");
    }
    if report.facts.server_id == 0 {
        report.refuse("the source's server_id is 0: it refuses replicas", "SET PERSIST server_id = 1;");
    } else if report.facts.server_id == ours {
        let what = format!("our server id {ours} is the source's own");
        report.refuse(what, "choose another: --server-id=N");
    }
    // SHOW REPLICAS exists since 8.0.22 and needs REPLICATION SLAVE, whose lack is already reported.
    let what = "SHOW REPLICAS";
    let replicas = match connection.query_renamed(what, "SHOW SLAVE HOSTS") {
        Err(error) if error.server_code().is_some() => return Ok(()),
        answer => answer?,
    };
    let uuid_column = replicas.column("Replica_UUID").or_else(|| replicas.column("Slave_UUID")).unwrap_or(4);
    for row in 0..replicas.rows.len() {
        // A replica need not have one; without it, another one under our server id is not taken for us.
        let uuid = replicas.text(row, uuid_column).unwrap_or_default();
        let is_ours = input.uuid.is_some_and(|ours| uuid.parse() == Ok(ours));
        if !is_ours && replicas.told::<u32>(row, 0, what)? == ours && ours != 0 {
            let host = replicas.text(row, 1).unwrap_or_default();
            let what =
                format!("another replica (host '{host}', uuid {uuid}) follows this source under our server id {ours}");
            report.refuse(what, "choose another: --server-id=N");
        }
    }
    Ok(())
}

/// Parses a set in which a thread number follows each GTID: `uuid:5#38:6#39`. None for any other text.
#[must_use]
pub fn parse_owned(text: &str) -> Option<GtidSet> {
    let mut parts = text.split('#');
    let mut set = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        set.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    set.parse().ok()
}

/// The transactions that we have.
fn ours(input: &PreflightInput<'_>) -> GtidSet {
    let mut ours = input.executed.clone();
    ours.union_with(input.retrieved);
    ours
}

/// What the source is not known to have, or to be about to have. As rpl_binlog_sender.cc (`check_start_file`): we may
/// have what the source executed or owns; besides what it has received from its group.
#[must_use]
pub fn missing(ours: &GtidSet, facts: &SourceFacts) -> GtidSet {
    ours.subtract(&facts.gtid_executed).subtract(&facts.gtid_owned).subtract(&facts.group_received)
}

/// Another member may have sent us what this one has neither applied nor certified: it is asked once it has committed
/// all that its group had ordered by now. Returns why it cannot say.
fn ask_group(connection: &mut Connection, ours: &GtidSet, facts: &mut SourceFacts) -> Result<Option<String>> {
    let missing = missing(ours, facts);
    if missing.is_empty() || !facts.is_member {
        return Ok(None);
    }
    match group::behind_barrier(connection, BARRIER_WITHIN, executed) {
        Ok(executed) => facts.gtid_executed = executed,
        Err(BarrierError::Client(error)) => return Err(error),
        Err(why) => {
            let text = format!("transactions that are here may be on their way to the source: {missing}\n    {why}");
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// What the server has executed.
///
/// # Errors
/// The server cannot be asked, or answers otherwise.
pub fn executed(connection: &mut Connection) -> Result<GtidSet> {
    let what = "SELECT @@global.gtid_executed";
    connection.query_gtids(what)?.told(0, 0, what)
}

/// The transactions of this set that the source has not and will not have by itself; or why it cannot say.
///
/// # Errors
/// The source cannot be asked.
pub fn errant(connection: &mut Connection, set: &GtidSet) -> Result<std::result::Result<GtidSet, String>> {
    let mut facts = SourceFacts { is_member: group::is_member(connection)?, ..SourceFacts::default() };
    read_in_flight(connection, &mut facts)?;
    facts.gtid_executed = executed(connection)?;
    Ok(match ask_group(connection, set, &mut facts)? {
        Some(undecided) => Err(undecided),
        None => Ok(missing(set, &facts)),
    })
}

/// Begins the problem of a source that lacks what was received.
pub const SOURCE_LACKS: &str = "we have transactions that the source does not have";

const OTHERS_ARE_TRIED: &str = "the other sources are tried, of which one may still have these transactions";

fn check_gtids(input: &PreflightInput<'_>, report: &mut PreflightReport) {
    let ours = ours(input);
    let facts = &report.facts;
    let purged_and_needed = facts.gtid_purged.subtract(&ours);
    let errant = missing(&ours, facts);
    if !purged_and_needed.is_empty() {
        let missing = facts.gtid_executed.subtract(&ours);
        let what = format!(
            "the source has purged binary logs with transactions we need (as error 1789)\n    purged and needed: {purged_and_needed}\n    \
             all that we miss:  {missing}\n    gtid_purged:       {}\n    ours:              {}",
            facts.gtid_purged,
            or_empty(&ours)
        );
        let fix = if input.store_empty && ours.is_empty() {
            "an empty data folder is filled by an initial copy: slipstream replica makes it"
        } else if input.has_others {
            OTHERS_ARE_TRIED
        } else {
            "follow a server that still has these transactions, or copy everything again: slipstream replica --start-anew"
        };
        report.add(Severity::Refused, EXIT_PURGED, what, fix.into());
    }
    if !errant.is_empty() && report.undecided.is_none() {
        let what = format!(
            "{SOURCE_LACKS} (errant GTIDs, as error 1885)\n    not on the source: {errant}\n    \
             ours:              {ours}\n    source:            {}",
            or_empty(&report.facts.gtid_executed)
        );
        let fix = if input.has_others {
            "a server that lags is followed once it has them; until then the other sources are tried"
        } else if report.facts.is_member {
            "follow the server that has them: they were written outside this group, or lost by a forced membership"
        } else {
            "follow the server they came from; or, if they are lost for good, commit each empty on the source (SET \
             GTID_NEXT='UUID:N'; BEGIN; COMMIT), start again, then slipstream verify, and slipstream copy what differs; or copy everything again: \
             slipstream replica --start-anew"
        };
        report.refuse(what, fix);
    }
}

impl PreflightReport {
    /// What stops the replica, but for GTIDs that the source lacks or has purged.
    pub fn refused_beside_gtids(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| {
            problem.severity == Severity::Refused
                && !problem.what.starts_with(SOURCE_LACKS)
                && problem.exit_code != EXIT_PURGED
        })
    }
}

fn or_empty(set: &GtidSet) -> String {
    if set.is_empty() { "(empty)".into() } else { set.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| line.to_string()).collect()
    }

    #[test]
    fn privileges_from_grants() {
        let missing_privileges = |grants: &[String]| missing_of(grants, FOLLOW_PRIVILEGES);
        assert!(missing_privileges(&lines(&["GRANT ALL PRIVILEGES ON *.* TO `r`@`%` WITH GRANT OPTION"])).is_empty());
        let grants = lines(&["GRANT SELECT, REPLICATION SLAVE ON *.* TO `r`@`%`", "GRANT SELECT ON `a`.* TO `r`@`%`"]);
        assert_eq!(missing_privileges(&grants), ["REPLICATION CLIENT"]);
        let grants =
            lines(&["GRANT USAGE ON *.* TO `r`@`%`", "GRANT SELECT ON `a`.* TO `r`@`%`", "GRANT `x`@`%` TO `r`@`%`"]);
        assert_eq!(missing_privileges(&grants), ["REPLICATION SLAVE", "REPLICATION CLIENT", "SELECT"]);
        // A grant on columns, or of a privilege with a similar name, is not the global one.
        let grants = lines(&["GRANT REPLICATION_APPLIER,SELECT ON *.* TO `r`@`%`"]);
        assert_eq!(missing_privileges(&grants), ["REPLICATION SLAVE", "REPLICATION CLIENT"]);
    }

    #[test]
    fn the_way_to_gtid_mode_on() {
        assert_eq!(
            gtid_mode_steps("OFF", "OFF"),
            "SET PERSIST enforce_gtid_consistency = ON; SET PERSIST gtid_mode = OFF_PERMISSIVE; \
             SET PERSIST gtid_mode = ON_PERMISSIVE; SET PERSIST gtid_mode = ON;"
        );
        assert_eq!(gtid_mode_steps("ON_PERMISSIVE", "ON"), "SET PERSIST gtid_mode = ON;");
        assert_eq!(quote_account("o'x@h%"), "'o''x'@'h%'");
    }

    const VARIABLES: [(&str, Option<&str>); 4] = [
        ("server_uuid", Some("3e11fa47-71ca-11e1-9e33-c80aa9429562")),
        ("server_id", Some("7")),
        ("lower_case_table_names", Some("1")),
        ("binlog_expire_logs_seconds", Some("3600")),
    ];

    /// The facts of a source that has these variables, but for one.
    fn facts_with(name: &str, value: Option<Option<&str>>) -> Result<SourceFacts> {
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        let told = VARIABLES.iter().filter_map(|(own, usual)| {
            let value = if *own == name { value? } else { *usual };
            Some(vec![bytes(own), value.and_then(bytes)])
        });
        let mut facts = SourceFacts::default();
        Variables(ResultSet { rows: told.collect(), ..ResultSet::default() }).put_facts(&mut facts).map(|()| facts)
    }

    #[test]
    fn a_variable_that_is_not_told_has_no_value_of_ours() {
        let facts = facts_with("", None).unwrap();
        assert_eq!((facts.server_id, facts.lower_case_table_names, facts.log_expires_s), (7, 1, Some(3600)));
        // As a server of a log, which need not have it.
        assert_eq!(facts_with("binlog_expire_logs_seconds", None).unwrap().log_expires_s, None);
        for (name, _) in VARIABLES {
            for value in [None, Some(None), Some(Some("")), Some(Some("x"))] {
                if name == "binlog_expire_logs_seconds" && value != Some(Some("x")) {
                    continue;
                }
                let error = facts_with(name, value).unwrap_err().to_string();
                assert!(error.contains("SHOW GLOBAL VARIABLES") && error.contains(name), "{error}");
            }
        }
    }

    fn input(executed: &GtidSet) -> PreflightInput<'_> {
        let retrieved = executed;
        PreflightInput { server_id: 1, uuid: None, executed, retrieved, store_empty: false, has_others: false }
    }

    fn gtid_report(executed: &str, purged: &str, ours: &str) -> PreflightReport {
        let facts = SourceFacts {
            gtid_executed: executed.parse().unwrap(),
            gtid_purged: purged.parse().unwrap(),
            ..SourceFacts::default()
        };
        let mut report = PreflightReport { facts, problems: Vec::new(), undecided: None };
        let (ours, none) = (ours.parse().unwrap(), GtidSet::new());
        check_gtids(&PreflightInput { retrieved: &none, ..input(&ours) }, &mut report);
        report
    }

    #[test]
    fn purged_and_errant_gtids() {
        const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";
        let report = gtid_report(&format!("{A}:1-10"), &format!("{A}:1-5"), &format!("{A}:1-3"));
        assert_eq!(report.exit_code(), EXIT_PURGED);
        assert!(report.problems[0].what.contains(&format!("purged and needed: {A}:4-5\n")));
        assert!(report.problems[0].what.contains(&format!("all that we miss:  {A}:4-10\n")));
        let report = gtid_report(&format!("{A}:1-10"), "", &format!("{A}:1-3,{B}:7"));
        assert_eq!(report.exit_code(), EXIT_REFUSED);
        assert!(report.problems[0].what.contains(&format!("not on the source: {B}:7\n")));
        assert!(gtid_report(&format!("{A}:1-10"), &format!("{A}:1-3"), &format!("{A}:1-3")).accepted());
    }

    #[test]
    fn nobody_is_told_to_start_over_while_there_are_others() {
        const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let set = |text: &str| format!("{A}:{text}").parse::<GtidSet>().unwrap();
        for (executed, purged, ours, fix) in [
            ("1-10", "1-5", "1-3", "of which one may still have these"),
            ("1-10", "1-3", "1-12", "is followed once it has them"),
        ] {
            let facts =
                SourceFacts { gtid_executed: set(executed), gtid_purged: set(purged), ..SourceFacts::default() };
            let ours = set(ours);
            for has_others in [false, true] {
                let mut report = PreflightReport { facts: facts.clone(), problems: Vec::new(), undecided: None };
                check_gtids(&PreflightInput { has_others, ..input(&ours) }, &mut report);
                let [problem] = &report.problems[..] else { panic!("{:?}", report.problems) };
                assert_eq!(problem.fix.contains("copy everything again"), !has_others, "{}", problem.fix);
                assert_eq!(problem.fix.contains(fix), has_others, "{}", problem.fix);
            }
        }
    }

    /// Found by power cuts under semi-synchronous replication: the source sends a transaction before it executes it.
    #[test]
    fn transactions_under_way_are_not_errant() {
        const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let owned = parse_owned(&format!("{A}:11#38:12#7:tag:1#9")).unwrap();
        assert_eq!(owned, format!("{A}:11-12:tag:1").parse().unwrap());
        assert_eq!(parse_owned(""), Some(GtidSet::new()));
        assert_eq!(parse_owned("x#1"), None);
        let facts = SourceFacts {
            gtid_executed: format!("{A}:1-10").parse().unwrap(),
            gtid_owned: owned,
            ..SourceFacts::default()
        };
        for (ours, accepted) in [("1-11", true), ("1-13", false)] {
            let mut report = PreflightReport { facts: facts.clone(), problems: Vec::new(), undecided: None };
            let (ours, none) = (format!("{A}:{ours}").parse().unwrap(), GtidSet::new());
            let input = PreflightInput { retrieved: &ours, ..input(&none) };
            check_gtids(&input, &mut report);
            assert_eq!(report.accepted(), accepted);
        }
    }

    #[test]
    fn what_a_member_has_received_or_may_receive_is_not_errant() {
        let set = |text: &str| format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{text}").parse::<GtidSet>().unwrap();
        let facts = SourceFacts {
            gtid_executed: set("1-10"),
            group_received: set("5-12"),
            is_member: true,
            ..SourceFacts::default()
        };
        assert_eq!(missing(&set("1-13"), &facts), set("13"));
        for (undecided, accepted) in [(None, false), (Some("why".to_owned()), true)] {
            let mut report = PreflightReport { facts: facts.clone(), problems: Vec::new(), undecided };
            let (ours, none) = (set("1-13"), GtidSet::new());
            let input = PreflightInput { retrieved: &none, ..input(&ours) };
            check_gtids(&input, &mut report);
            assert_eq!(report.accepted(), accepted);
            assert!(
                !report.verdict().contains("in an empty folder")
                    && !report.problems.iter().any(|of| of.fix.contains("empty folder"))
            );
        }
    }
}
