//! The initial copy: fills an empty store when the source's log does not reach back to its first statement.
//!
//! In: the configuration, an empty store, the source. Out: a store with the source's content at one GTID set G, and a
//! receiver that has fetched the log after G since the copy started. Never here: remains of an unfinished copy; a mark
//! in the folder makes the next start remove them.

use std::any::Any;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::GtidSet;
use catalog::TableDef;
use client::{ClientError, ConnectOptions, Connection};
use copy::{
    CopyError, CopyLock, CopyOptions, CopyReport, CopySink, Preparing, Progress, RowBatch, SourceCopy, Unsettled,
    UnsettledTable,
};
use observe::fail_point::{self, Phase};
use observe::{
    Backlog, GtidReport, MemoryReport, PositionReport, ProcessFacts, ReplayReport, ReplayState, StatusReport, now_us,
    utc_text,
};
use relay_log::RelayShared;
use source::TableFilter;
use source::alive::Asking;
use source::copy_check::{CopyCheckInput, LockWanted, check_copy, oldest_log_age};
use source::preflight::{self, PreflightInput, PreflightReport, Problem, Severity};
use source::tables_before_log;
use store::{CopyWriter, Disk, StoreError};

use crate::all_tables;
use crate::config::{CopyWhen, ReplicaConfig, ServerOptions};
use crate::exit::{Exit, Failure};
use crate::failure::{preflight_failure, shown_set, source_failure, store_failure};
use crate::folder::{Folder, write_atomically};
use crate::log::{self, Code};
use crate::login::{SourceLogin, for_question};
use crate::memory::MemoryPlan;
use crate::receiver::link::{Link, LinkState};
use crate::status::{disk, source_report};

/// File in the folder while a copy runs; contains its GTID set.
const MARK: &str = "copying";
/// Maximum number of attempts after connection failures.
const TRIES: u32 = 10;
/// First and longest pause before another attempt.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Interval of progress lines in the log.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// The first one of a preparation comes after this time.
const SAY_FIRST: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Time limit of one read where a log begins: the source says nothing while it looks through its files.
const LOG_WITHIN: Duration = Duration::from_secs(30);
/// How long the next source may take to apply what the rows of a lost one contain, before all are read again.
const HAS_WITHIN: Duration = Duration::from_secs(5);

/// True if a copy was started in this folder and not completed.
#[must_use]
pub(crate) fn is_marked(folder: &Folder) -> bool {
    folder.path().join(MARK).exists()
}

/// Records durably that a copy at `executed` begins.
///
/// # Errors
/// Code 8 for disk errors.
pub(crate) fn mark(folder: &Folder, executed: &GtidSet) -> Result<(), Failure> {
    write_atomically(&folder.path().join(MARK), format!("{executed}\n").as_bytes())
}

/// Records that the copy is complete.
///
/// # Errors
/// Code 8 for disk errors.
pub(crate) fn unmark(folder: &Folder) -> Result<(), Failure> {
    let path = folder.path().join(MARK);
    fs::remove_file(&path).map_err(|error| Failure::io(path.display(), &error))?;
    folder.sync()
}

/// Removes the relay log of an unfinished copy, durably: it must not reappear without the mark.
///
/// # Errors
/// Code 8 for disk errors.
pub(crate) fn remove_relay_log(folder: &Folder) -> Result<(), Failure> {
    let path = folder.relay_log();
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::io(path.display(), &error)),
        _ => folder.sync(),
    }
}

/// True if an empty store is to be filled by a copy: the source's log does not reach back to its first statement, or
/// the operator wants it.
///
/// # Errors
/// A refusal of preflight or of the copy's own check, or the source cannot be reached.
pub(crate) fn is_needed(
    config: &ReplicaConfig,
    folder: &Folder,
    server: &ServerOptions,
    has_others: bool,
) -> Result<bool, Failure> {
    let options = server.connect_options()?;
    let never = AtomicBool::new(false);
    let (needed, is_lost) = Asking::run(&options, &never, |asking| {
        let connection = asking.connect(&options, Connection::connect).map_err(|error| source_failure(&error))?;
        ask_whether_needed(connection, config, folder, server, has_others)
    });
    if is_lost { Err(source_failure(&ClientError::ReadTimeout)) } else { needed }
}

fn ask_whether_needed(
    mut connection: Connection,
    config: &ReplicaConfig,
    folder: &Folder,
    server: &ServerOptions,
    has_others: bool,
) -> Result<bool, Failure> {
    let failed = |error: ClientError| source_failure(&error);
    let none = GtidSet::new();
    let input = PreflightInput {
        server_id: config.server_id.unwrap_or_else(|| folder.default_server_id()),
        uuid: Some(folder.server_uuid()),
        executed: &none,
        retrieved: &none,
        store_empty: true,
        has_others,
    };
    let mut report = preflight::check(&mut connection, input).map_err(failed)?;
    if has_others && let Some(why) = source::group::why_unfit(&mut connection).map_err(failed)? {
        return Err(Failure::error(why));
    }
    let needed = settle(&mut report, config.copy.when);
    if let Some(failure) = preflight_failure(&report) {
        return Err(failure);
    }
    if !needed {
        if let Some(problem) = before_log(config, server, &mut connection, &report)? {
            log::write(Code::PreflightWarning, "Source", &problem.to_string());
        }
        return Ok(false);
    }
    let free_bytes = match folder.free_bytes() {
        Ok(bytes) => Some(bytes),
        Err(failure) => {
            let text = format!("whether the disk has room for the copy is not known: {}", failure.text);
            log::write(Code::CopyCheckWarning, "Copy", &text);
            None
        }
    };
    let (text, problems, failure) = check(config, server, &mut connection, free_bytes)?;
    for problem in problems {
        log::write(Code::CopyCheckWarning, "Copy", &problem);
    }
    failure.map_or(Ok(()), Err)?;
    log::write(Code::InitialCopyNeeded, "Copy", &text);
    Ok(true)
}

/// Whether an empty store is to be filled by a copy, after preflight. A purged log is then no problem, and one that may
/// not be made up for by a copy says so.
#[must_use]
pub(crate) fn settle(report: &mut PreflightReport, when: CopyWhen) -> bool {
    let is_purged = |problem: &Problem| problem.exit_code == preflight::EXIT_PURGED;
    if when == CopyWhen::Never {
        for problem in report.problems.iter_mut().filter(|problem| is_purged(problem)) {
            problem.fix =
                "--copy=never forbids the initial copy, which would fill an empty data folder: --copy=auto".into();
        }
        return false;
    }
    let needed = when == CopyWhen::Always || report.problems.iter().any(is_purged);
    report.problems.retain(|problem| !is_purged(problem));
    needed
}

/// Options for a look at the heads of the source's log files.
fn for_log(server: &ServerOptions) -> Result<ConnectOptions, Failure> {
    Ok(ConnectOptions { read_timeout: Some(LOG_WITHIN), ..server.connect_options()? })
}

/// Warns of tables that the log does not hold although the source has purged nothing; None if no copy is made and none
/// is known. An empty store is to be filled from the log.
///
/// # Errors
/// The source cannot be queried.
pub(crate) fn before_log(
    config: &ReplicaConfig,
    server: &ServerOptions,
    connection: &mut Connection,
    report: &PreflightReport,
) -> Result<Option<Problem>, Failure> {
    if !report.facts.gtid_purged.is_empty() {
        return Ok(None);
    }
    let failed = |error: ClientError| source_failure(&error);
    let log = Connection::connect(&for_log(server)?).map_err(failed)?;
    let filter = TableFilter::default().of(&config.filters);
    let Some(found) = tables_before_log(connection, log, &filter).map_err(failed)? else { return Ok(None) };
    let what = format!(
        "the source has tables that are older than its first binary log file, begun {}, so that its log does not hold \
         them (RESET BINARY LOGS AND GTIDS, a physical restore, or the binary log was switched on later): {}",
        utc_text(found.begun_s.saturating_mul(1_000_000)),
        all_tables::names(&found.tables)
    );
    let fix = match config.copy.when {
        CopyWhen::Never => {
            "--copy=always copies all tables into an empty data folder; with --copy=never these are missing"
        }
        CopyWhen::Auto | CopyWhen::Always => {
            "nothing: missing tables are copied once the log is replayed; --copy=always copies all tables first"
        }
    };
    Ok(Some(Problem { what, fix: fix.into(), severity: Severity::Warning, exit_code: 0 }))
}

/// Describes the copy to make: a summary, warnings, and problems that forbid it.
///
/// # Errors
/// The source cannot be queried.
pub(crate) fn check(
    config: &ReplicaConfig,
    server: &ServerOptions,
    connection: &mut Connection,
    free_bytes: Option<u64>,
) -> Result<(String, Vec<String>, Option<Failure>), Failure> {
    let failed = |error: ClientError| source_failure(&error);
    let locks = config.copy.lock != CopyLock::None;
    let input = CopyCheckInput {
        tables: &TableFilter::default().of(&config.filters),
        free_bytes,
        rate_bytes_per_second: config.copy.rate,
        snapshot_max: locks.then_some(config.copy.snapshot_max),
        lock: if locks { LockWanted::Yes } else { LockWanted::No },
    };
    let age = oldest_log_age(Connection::connect(&for_log(server)?).map_err(failed)?).map_err(failed)?;
    let check = check_copy(connection, &input, age).map_err(failed)?;
    let of = |refused: bool| {
        let all = check.problems.iter().filter(move |problem| (problem.severity == Severity::Refused) == refused);
        all.map(ToString::to_string).collect::<Vec<_>>()
    };
    let refused = of(true);
    let failure = (!refused.is_empty())
        .then(|| Failure::new(Exit::PreflightRefused, format!("the source cannot be copied:\n{}", refused.join("\n"))));
    let why = match config.copy.when {
        CopyWhen::Always => "--copy=always",
        CopyWhen::Auto | CopyWhen::Never => "the source's log does not reach back to its first statement",
    };
    let text = format!(
        "{why}: an initial copy of {} tables, about {} rows, {}, {} s",
        check.tables,
        check.rows,
        observe::bytes_text(check.data_bytes),
        check.duration.as_secs()
    );
    Ok((text, of(false), failure))
}

/// Opens snapshots of the source for reading.
///
/// # Errors
/// Why no copy can be made.
pub(crate) fn prepare(
    config: &ReplicaConfig,
    server: &ServerOptions,
    copying: &CopyInProgress,
) -> Result<SourceCopy, CopyError> {
    let connect = server.connect_options().map_err(|failure| CopyError::Sink {
        db: String::new(),
        table: String::new(),
        reason: failure.text,
    })?;
    let options = CopyOptions {
        lock: config.copy.lock,
        tables: TableFilter::default().of(&config.filters),
        connections: config.copy.connections,
        rate_bytes_per_second: config.copy.rate,
        lock_wait: config.copy.lock_wait,
        snapshot_max: config.copy.snapshot_max,
        // Each such table is copied later, at its own GTID set, while the others are replayed.
        unsettled: Unsettled::LeaveOut,
        preparing: Arc::clone(&copying.preparing),
        ..CopyOptions::default()
    };
    let copy = SourceCopy::prepare(&connect, &options, &copying.stop)?;
    let plan = copy.plan();
    let lock = match plan.lock {
        CopyLock::Auto | CopyLock::Table => {
            format!(
                "snapshots taken at GTIDs {}: the source was locked for {} in try {}",
                shown_set(&plan.executed),
                observe::duration_text(plan.lock_us),
                plan.lock_tries
            )
        }
        CopyLock::None => format!("copying without a lock, starting at GTIDs {}", shown_set(&plan.executed)),
    };
    let text = format!("{lock}; {} tables, {} connections", plan.tables.len(), config.copy.connections);
    log::write(Code::InitialCopyBegun, "Copy", &text);
    for note in &plan.notes {
        log::write(Code::InitialCopyNote, "Copy", note);
    }
    Ok(copy)
}

struct Sink<'a, 'd> {
    writer: &'a CopyWriter<'d>,
    next: Option<NextSource<'a>>,
    executed: &'a GtidSet,
    /// Why the store did not take rows.
    failed: OnceLock<StoreError>,
}

impl Sink<'_, '_> {
    fn told(&self, error: StoreError) -> String {
        self.failed.get_or_init(|| error).to_string()
    }
}

impl CopySink for Sink<'_, '_> {
    fn rows(&self, table: &Arc<TableDef>, rows: &RowBatch) -> Result<(), String> {
        fail_point::enter(Phase::Copy);
        self.writer.rows(table, rows.iter()).map_err(|error| self.told(error))
    }

    fn table_done(&self, table: &Arc<TableDef>, _rows: u64) -> Result<(), String> {
        self.writer.table_done(table).map_err(|error| self.told(error))
    }

    fn is_left(&self) -> bool {
        self.next.as_ref().is_some_and(|next| !next.login.is_of(next.tried))
    }

    fn keeps_done(&self, why: &CopyError) -> bool {
        self.next.as_ref().is_some_and(|next| next.has(self.executed, why))
    }
}

/// The server of several that an initial copy reads, by its login and the version of the try, and the next one.
pub(crate) struct NextSource<'a> {
    pub login: &'a SourceLogin,
    pub tried: u64,
}

impl NextSource<'_> {
    /// Leaves the server that was lost. True if the next one has all that these rows contain: what was read before is
    /// then replayed from its log on. The next one is the first that answers.
    fn has(&self, executed: &GtidSet, why: &CopyError) -> bool {
        self.login.leave(self.tried, &Failure::error(why.to_string()));
        loop {
            let (tried, server) = self.login.server_for_try();
            let asked = server.connect_options().and_then(|options| {
                let failed = |error: ClientError| source_failure(&error);
                let mut connection = Connection::connect(&for_question(options)).map_err(failed)?;
                if let Some(why) = source::group::why_unfit(&mut connection).map_err(failed)? {
                    return Err(Failure::error(why));
                }
                let until = Instant::now() + HAS_WITHIN;
                loop {
                    let has = executed.is_subset_of(&preflight::executed(&mut connection).map_err(failed)?);
                    if has || Instant::now() > until {
                        return Ok(has);
                    }
                    std::thread::sleep(LOOK_EVERY);
                }
            });
            match asked {
                Ok(has) => return has,
                Err(failure) if self.login.leave(tried, &failure) => return false,
                Err(_) => {}
            }
        }
    }
}

/// Reads all rows into the tree and makes them its content.
///
/// # Errors
/// Why the copy failed; the tree then has no cut.
pub(crate) fn run(
    config: &ReplicaConfig,
    copying: &CopyInProgress,
    copy: SourceCopy,
    disk: &Disk,
    beside: Beside,
    next: Option<NextSource<'_>>,
) -> Result<(), CopyFailure> {
    let (executed, catalog) = (copy.plan().executed.clone(), copy.plan().catalog.clone());
    let progress = Arc::new(Progress::new(copy.plan()));
    // Each connection may be reading a different table, and a buffer that grows has up to twice its bytes; what is left
    // of small tables takes one more: little more than twice a generation in all, less than generations take once
    // replay runs.
    let buffer_bytes = copying.memory.generation_bytes as usize / config.copy.connections.max(1);
    let writer = CopyWriter::new(disk, buffer_bytes);
    let writer = if copy.plan().lock == CopyLock::None { writer.without_indexes() } else { writer };
    let _ = copying.reading.set((Arc::clone(&progress), beside));
    let sink = Sink { writer: &writer, next, executed: &executed, failed: OnceLock::new() };
    let ran = copy.run(&sink, &progress, &copying.stop);
    let report = match ran {
        Ok(report) => report,
        Err(error @ CopyError::Sink { .. }) => {
            let own = sink.failed.get().map(store_failure).unwrap_or_else(|| Failure::new(Exit::Disk, ""));
            return Err(CopyFailure::Own(Failure { text: format!("initial copy: {error}"), ..own }));
        }
        Err(error) => return Err(CopyFailure::Copy(error)),
    };
    let consistent_at = report.consistent_at.as_ref();
    let catalog = report.unsettled.iter().fold(catalog, |catalog, UnsettledTable { db, table, why }| {
        let text =
            format!("`{db}`.`{table}` is left out of the initial copy, and will be copied once replay runs: {why}");
        log::write(Code::TableLeftOut, "Copy", &text);
        catalog.with_quarantined(&(db.clone(), table.clone()), why).0
    });
    note_unread(&report);
    let catalog = catalog.with_virtual_unknown(&report.without_virtual);
    let finished = writer.finish(&executed, consistent_at, &catalog);
    finished.map_err(|error| CopyFailure::Own(store_failure(&error)))?;
    log::write(Code::InitialCopyDone, "Copy", &report.to_string());
    if let Some(until) = consistent_at {
        let text = format!("copied without a lock: rows can be read once GTIDs {} are replayed", shown_set(until));
        log::write(Code::CopyNotConsistentYet, "Copy", &text);
    }
    Ok(())
}

/// Logs which tables the source could not show as they are.
pub(crate) fn note_unread(report: &CopyReport) {
    for (db, table) in &report.without_virtual {
        let text = format!(
            "`{db}`.`{table}`: the source cannot compute a virtual column for some row, so only the stored columns are \
             copied; verify and dump leave the virtual ones out"
        );
        log::write(Code::VirtualColumnsUnknown, "Copy", &text);
    }
    for (db, table) in &report.discarded {
        let text = format!(
            "`{db}`.`{table}`: its tablespace is discarded on the source, so it has no rows; IMPORT TABLESPACE copies it"
        );
        log::write(Code::TablespaceDiscarded, "Copy", &text);
    }
}

/// Why a copy failed.
pub(crate) enum CopyFailure {
    /// The source or the connection to it failed.
    Copy(CopyError),
    /// The store, the folder, or the watcher of the copy failed.
    Own(Failure),
}

/// Pause after this many attempts: a source that restarts takes a while.
#[must_use]
pub(crate) fn pause_after(tries: u32) -> Duration {
    AGAIN_AFTER.0.saturating_mul(1 << tries.min(10)).min(AGAIN_AFTER.1)
}

/// The failure that ends the copy; None if another attempt may succeed.
#[must_use]
pub(crate) fn hopeless(error: &CopyError, tries: u32) -> Option<Failure> {
    if error.is_transient() && tries < TRIES {
        return None;
    }
    let exit = match error {
        CopyError::Stopped => Exit::Done,
        CopyError::Sink { .. } => Exit::Disk,
        CopyError::Definition { .. } | CopyError::NoSnapshot { .. } => Exit::NotSupported,
        CopyError::Privileges { .. }
        | CopyError::NoGtids { .. }
        | CopyError::PreparedXa { .. }
        | CopyError::NeedsKeys { .. }
        | CopyError::NeedsFullImages { .. } => Exit::PreflightRefused,
        _ => Exit::Error,
    };
    Some(Failure::new(exit, format!("initial copy: {error}")))
}

/// A running initial copy: answers requests in place of the replica, which does not exist yet.
pub struct CopyInProgress {
    source: String,
    data: PathBuf,
    server_id: u32,
    server_uuid: String,
    memory: MemoryPlan,
    pub(crate) preparing: Arc<Preparing>,
    /// Once there is a plan.
    pub(crate) reading: OnceLock<(Arc<Progress>, Beside)>,
    stop: AtomicBool,
    began: Instant,
}

/// What runs beside an initial copy.
pub(crate) struct Beside {
    /// The connection that receives the log.
    pub link: Arc<Link>,
    /// The relay log that it fills.
    pub relay: Arc<RelayShared>,
}

/// Called when an initial copy begins to be prepared; the returned value is dropped when the copy ends.
pub type CopyWatch<'a> = &'a dyn Fn(Arc<CopyInProgress>) -> Result<Box<dyn Any>, Failure>;

impl CopyInProgress {
    /// A copy that begins with its preparation.
    pub(crate) fn new(config: &ReplicaConfig, folder: &Folder, memory: MemoryPlan) -> CopyInProgress {
        CopyInProgress {
            source: config.source.shown(),
            data: folder.path().to_owned(),
            server_id: config.server_id.unwrap_or_else(|| folder.default_server_id()),
            server_uuid: folder.server_uuid().to_string(),
            memory,
            preparing: Arc::default(),
            reading: OnceLock::new(),
            stop: AtomicBool::new(false),
            began: Instant::now(),
        }
    }

    /// How far it is, in one line.
    fn line(&self) -> String {
        match self.reading.get() {
            Some((progress, _)) => progress.line(),
            None => self.preparing.line(),
        }
    }

    /// The report for `slipstream status`.
    #[must_use]
    pub fn status(&self) -> StatusReport {
        let process = ProcessFacts::read();
        let report = StatusReport {
            version: env!("CARGO_PKG_VERSION").into(),
            at: utc_text(now_us()),
            running: true,
            pid: Some(std::process::id()),
            uptime_us: self.began.elapsed().as_micros() as u64,
            data: self.data.display().to_string(),
            server_id: self.server_id,
            server_uuid: self.server_uuid.clone(),
            source: source_report(&self.source, &LinkState::default()),
            replay: ReplayReport { state: ReplayState::Copying, detail: self.line(), ..ReplayReport::default() },
            memory: MemoryReport {
                rss_bytes: process.rss_bytes,
                rss_peak_bytes: process.rss_peak_bytes,
                limit_bytes: self.memory.limit_bytes,
                queue_limit_bytes: self.memory.queue_bytes,
                ..MemoryReport::default()
            },
            disk: disk(&self.data, 0),
            cpu_us: process.cpu_us,
            threads: process.threads,
            ..StatusReport::default()
        };
        let Some((progress, Beside { link, relay })) = self.reading.get() else { return report };
        let (totals, relay_bytes, link) = (progress.totals(), relay.total_bytes(), link.lock());
        StatusReport {
            source: source_report(&self.source, &link),
            replay: ReplayReport { tables: totals.tables as u64, rows: totals.rows, ..report.replay },
            gtid: GtidReport { retrieved: link.received.retrieved.to_string(), ..GtidReport::default() },
            position: PositionReport {
                source_received: link.received.source_position.clone(),
                ..PositionReport::default()
            },
            // Nothing of it is replayed before the copy ends.
            backlog: Backlog { transactions: link.received.transactions, bytes: relay_bytes, catch_up_us: None },
            last_error: link.received.last_error.clone(),
            disk: disk(&self.data, relay_bytes),
            ..report
        }
    }

    /// Requests a stop; returns at once.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// Display of the progress, until it is dropped.
pub(crate) struct Shown {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Shows a progress bar on a terminal; otherwise a line in the log every ten seconds, and one early in a preparation
/// that takes longer than a second.
pub(crate) fn show(copying: &Arc<CopyInProgress>) -> Shown {
    let end = Arc::new(AtomicBool::new(false));
    let work = {
        let (copying, end) = (Arc::clone(copying), Arc::clone(&end));
        move || {
            let terminal = io::stderr().is_terminal();
            let (mut said, mut pause) = (Instant::now(), SAY_FIRST);
            while !end.load(Ordering::Acquire) {
                std::thread::sleep(LOOK_EVERY);
                let reading = copying.reading.get();
                if terminal {
                    let _ = write!(io::stderr(), "\r{}\x1b[K", copying.line());
                }
                if reading.is_some() {
                    pause = SAY_EVERY;
                }
                if said.elapsed() >= pause {
                    (said, pause) = (Instant::now(), SAY_EVERY);
                    let lines = reading.map(|(progress, _)| progress.table_lines(4)).unwrap_or_default();
                    log::write(Code::InitialCopyProgress, "Copy", &copying.line());
                    for line in lines.lines() {
                        log::write(Code::InitialCopyProgress, "Copy", line);
                    }
                }
            }
            match (copying.reading.get(), terminal) {
                (_, true) => _ = writeln!(io::stderr(), "\r{}\x1b[K", copying.line()),
                (Some((progress, _)), false) => log::write(Code::InitialCopyProgress, "Copy", &progress.line()),
                (None, false) => {}
            }
        }
    };
    // Without the thread, the copy only lacks a progress display.
    let thread = std::thread::Builder::new().name("copy-progress".into()).spawn(work).ok();
    Shown { end, thread }
}

/// True if the folder contains a relay log.
#[must_use]
pub(crate) fn has_relay_log(relay_log: &Path) -> bool {
    fs::read_dir(relay_log).is_ok_and(|mut entries| entries.next().is_some())
}
