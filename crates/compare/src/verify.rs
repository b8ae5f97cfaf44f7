//! Verify: compares every table of a source with our store, or with another server, at the same GTID set.
//!
//! In: the source, and a store whose publishing can be held, or a second server. Out: a report, printed table by table.
//! Invariants: both sides are compared at exactly one GTID set; publishing is held only until our side is pinned;
//! writers on the source are blocked only until its snapshots are open (for two servers, until the replica has caught
//! up). Never here: a change of either side.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use base::GtidSet;
use catalog::TableDef;
use client::session::gtid_executed;
use client::{ConnectOptions, Connection};
use source::TableFilter;
use store::{Snapshot, Store, WatermarkHold};

use crate::error::{CompareError, at_server};
use crate::report::{TableReport, VerifyReport};
use crate::row_source::{ServerRows, StoreRows};
use crate::rows::compare_rows;
use crate::rows_in_order::{Part, each_in_order};
use crate::schema::{ServerSchema, ServerTable};
use crate::shape::Shape;
use crate::snapshot_lock::ServerSnapshot;

/// A server's own schemas.
const SYSTEM_SCHEMAS: [&str; 4] = ["mysql", "sys", "information_schema", "performance_schema"];

/// The parts of a replica that verify needs.
pub struct Engine<'a> {
    /// Store with the replica's rows.
    pub store: &'a Arc<Store>,
    /// What makes them visible; None for a store that stands still (a stopped replica): it is compared at its own set.
    pub watermark: Option<&'a dyn WatermarkHold>,
}

/// Options of a comparison.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// Which tables to compare.
    pub tables: TableFilter,
    /// Most differing rows printed per table.
    pub max_rows_shown: usize,
    /// How long one lock request may keep writers waiting; the first attempts take 100 ms.
    pub lock_wait: Duration,
    /// How long to keep trying.
    pub lock_timeout: Duration,
    /// How long our side, or the replica, may take to reach the source's set.
    pub advance_timeout: Duration,
    /// Number of tables compared in parallel, each over a connection of its own.
    pub threads: usize,
}

impl Default for VerifyOptions {
    fn default() -> VerifyOptions {
        VerifyOptions {
            tables: TableFilter::default(),
            max_rows_shown: 20,
            lock_wait: Duration::from_secs(1),
            lock_timeout: Duration::from_secs(60),
            advance_timeout: Duration::from_secs(60),
            threads: 2,
        }
    }
}

/// Resumes publishing when dropped, however that happens.
struct HeldWatermark<'a>(&'a dyn WatermarkHold);

impl<'a> HeldWatermark<'a> {
    fn hold(watermark: &'a dyn WatermarkHold) -> HeldWatermark<'a> {
        watermark.hold();
        HeldWatermark(watermark)
    }
}

impl Drop for HeldWatermark<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Compares our rows with the source's while both continue to change.
///
/// # Errors
/// If a server is unreachable, the lock cannot be acquired, or there is no common GTID set. Differences are not errors.
pub fn verify_store(
    engine: &Engine<'_>,
    source: &ConnectOptions,
    options: &VerifyOptions,
    out: &mut dyn Write,
) -> Result<VerifyReport, CompareError> {
    let mut server = ServerSnapshot::connect(source, options.threads)?;
    // Nothing may become visible here that the source's snapshot does not see.
    let mut held = None;
    let mut hold = |on: bool| {
        held = None;
        if on {
            held = engine.watermark.map(HeldWatermark::hold);
        }
    };
    server.open(options, &mut hold, |_| Ok(()))?;
    let set = server.executed.clone().unwrap_or_default();
    if let Some(watermark) = engine.watermark {
        advance(engine.store, watermark, &set, options)?;
    }
    let snapshot = Snapshot::pin(engine.store);
    drop(held);
    if *snapshot.executed() != set {
        return Err(CompareError::SetsDiffer {
            reason: "a stopped replica is compared with its source only while the source is at the same set".into(),
            source_set: set,
            here_set: snapshot.executed().clone(),
        });
    }
    let schema = ServerSchema::read(&mut server.control, &server.server, &options.tables)?;
    let jobs = store_jobs(&snapshot, schema, &options.tables)?;
    let mut report = begin(&mut server, None, out)?;
    let name = server.server.clone();
    let readers = std::mem::take(&mut server.readers);
    report.tables = run(jobs, readers, out, |job, connection| {
        let def = match &job.here {
            Some(Here::Quarantined(why)) => return Ok(TableReport::quarantined(&job.db, &job.table, why)),
            Some(Here::Known(def)) => Some(def),
            None => None,
        };
        let (Some(def), Some(table)) = (def, &job.source) else { return Ok(one_side_only(job)) };
        let shape = Shape::of(def);
        if let Some(difference) = table.disagrees(&shape) {
            return Ok(problem(job, difference));
        }
        if catalog::Engine::of(&table.engine).rows != def.engine_of().rows {
            return Ok(problem(job, format!("engine {} in source, {} here", table.engine, def.engine)));
        }
        if let Some(why) = def.engine_of().why_without_rows() {
            return Ok(without_rows(job, format!("engine {} {why}: nothing to compare", table.engine)));
        }
        let at = (table.db.as_str(), table.name.as_str());
        let mut theirs = ServerRows { connection, server: &name, table: at, shape: &shape };
        let mut ours = StoreRows { store: engine.store, snapshot: &snapshot, table: def, shape: &shape };
        let compared = match compare_rows(&shape, &mut theirs, &mut ours, options.max_rows_shown) {
            Err(error) if error.server_code() == Some(DISCARDED) && is_empty(engine.store, &snapshot, def, &shape)? => {
                return Ok(without_rows(job, "its tablespace is discarded in source: no rows there or here"));
            }
            compared => compared?,
        };
        let mut report = annotated(compared, table);
        report.notes.extend(shape.not_compared());
        Ok(report)
    })?;
    finish(report, out)
}

/// Moves the watermark to exactly the source's set.
fn advance(
    store: &Arc<Store>,
    watermark: &dyn WatermarkHold,
    set: &GtidSet,
    options: &VerifyOptions,
) -> Result<(), CompareError> {
    let visible = || store.visibility().executed();
    let differ = |reason: String| CompareError::SetsDiffer { reason, source_set: set.clone(), here_set: visible() };
    if !visible().is_subset_of(set) {
        return Err(differ("there are transactions here that the source does not have".into()));
    }
    if watermark.advance_to(set, options.advance_timeout) {
        return Ok(());
    }
    Err(differ(match watermark.stopped() {
        Some(stop) => format!("replay has stopped: {stop}"),
        None => format!("the replica did not reach that GTID set within {} s", options.advance_timeout.as_secs()),
    }))
}

/// Compares two servers. Blocks the source's writers until the replica has executed everything, then opens snapshots on
/// both.
///
/// # Errors
/// Those of `verify_store`.
pub fn verify_servers(
    source: &ConnectOptions,
    replica: &ConnectOptions,
    options: &VerifyOptions,
    out: &mut dyn Write,
) -> Result<VerifyReport, CompareError> {
    let mut left = ServerSnapshot::connect(source, options.threads)?;
    let mut right = ServerSnapshot::connect(replica, options.threads)?;
    left.open(options, &mut |_| {}, |left| follow(left, &mut right, options))?;
    let left_schema = ServerSchema::read(&mut left.control, &left.server, &options.tables)?;
    let right_schema = ServerSchema::read(&mut right.control, &right.server, &options.tables)?;
    let jobs = server_jobs(left_schema, right_schema, &options.tables)?;
    let mut report = begin(&mut left, Some(&mut right), out)?;
    let names = (left.server.clone(), right.server.clone());
    let pairs: Vec<(Connection, Connection)> =
        std::mem::take(&mut left.readers).into_iter().zip(std::mem::take(&mut right.readers)).collect();
    report.tables = run(jobs, pairs, out, |job, (left, right)| {
        let (Some(theirs), Some(ours)) = (&job.source, &job.here) else { return Ok(one_side_only(job)) };
        let shapes = theirs.shape().and_then(|shape| Ok((shape, ours.shape()?)));
        let (shape, here) = match shapes {
            Ok(shapes) => shapes,
            Err(reason) => return Ok(problem(job, reason)),
        };
        if let Some(difference) = theirs.disagrees(&here) {
            return Ok(problem(job, difference));
        }
        let at = (theirs.db.as_str(), theirs.name.as_str());
        let mut source = ServerRows { connection: left, server: &names.0, table: at, shape: &shape };
        let at = (ours.db.as_str(), ours.name.as_str());
        let mut replica = ServerRows { connection: right, server: &names.1, table: at, shape: &shape };
        Ok(annotated(compare_rows(&shape, &mut source, &mut replica, options.max_rows_shown)?, theirs))
    })?;
    finish(report, out)
}

/// Waits until the replica has executed everything in the source's snapshot, then opens the replica's snapshots.
fn follow(left: &ServerSnapshot, right: &mut ServerSnapshot, options: &VerifyOptions) -> Result<(), CompareError> {
    let name = right.server.clone();
    let Some(set) = &left.executed else { return right.start_snapshots() };
    let seconds = options.advance_timeout.as_secs().max(1);
    let differ =
        |reason: String, here_set: GtidSet| CompareError::SetsDiffer { reason, source_set: set.clone(), here_set };
    if at_server(&name, gtid_executed(&mut right.control))?.is_some() {
        let ask = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', {seconds})");
        if at_server(&name, right.control.query_value(&ask))?.as_deref() != Some("0") {
            let here = at_server(&name, gtid_executed(&mut right.control))?.unwrap_or_default();
            return Err(differ(format!("the replica did not reach that GTID set within {seconds} s"), here));
        }
    }
    right.start_snapshots()?;
    let here = right.executed.clone().unwrap_or_else(|| set.clone());
    let after = at_server(&name, gtid_executed(&mut right.control))?.unwrap_or_else(|| set.clone());
    if here != after || after != *set {
        let reason = "the replica has transactions that the source's snapshot does not have";
        return Err(differ(reason.into(), after));
    }
    Ok(())
}

/// ER_TABLESPACE_DISCARDED.
const DISCARDED: u16 = 1814;

/// One table to compare, with each side's definition.
struct Job<H> {
    source: Option<ServerTable>,
    here: Option<H>,
    db: String,
    table: String,
}

/// A table of our store.
enum Here {
    Known(Arc<TableDef>),
    /// Waits for its copy, for this reason; neither its definition nor its rows are known.
    Quarantined(String),
}

fn store_jobs(snapshot: &Snapshot, schema: ServerSchema, filter: &TableFilter) -> Result<Vec<Job<Here>>, CompareError> {
    let lower = schema.lower_case_table_names;
    let known = (snapshot.catalog().tables())
        .filter(|table| !SYSTEM_SCHEMAS.contains(&table.db.as_str()))
        .map(|table| (table.db.clone(), table.name.clone(), Here::Known(Arc::clone(table))));
    let quarantined = (snapshot.catalog().quarantined())
        .map(|(db, name, why)| (db.to_owned(), name.to_owned(), Here::Quarantined(why.to_owned())));
    let ours = known.chain(quarantined).filter(|(db, name, _)| filter.matches(db, name, lower));
    pair(schema.tables, ours, lower, filter)
}

fn server_jobs(
    left: ServerSchema,
    right: ServerSchema,
    filter: &TableFilter,
) -> Result<Vec<Job<ServerTable>>, CompareError> {
    let lower = left.lower_case_table_names.max(right.lower_case_table_names);
    let right = right.tables.into_iter().map(|(db, table)| (db, table.name.clone(), table));
    pair(left.tables, right, lower, filter)
}

/// Pairs the tables of both sides by name.
fn pair<H>(
    source: Vec<(String, ServerTable)>,
    here: impl Iterator<Item = (String, String, H)>,
    lower_case_table_names: u8,
    filter: &TableFilter,
) -> Result<Vec<Job<H>>, CompareError> {
    let fold = |name: &str| if lower_case_table_names > 0 { name.to_lowercase() } else { name.to_string() };
    let mut jobs: BTreeMap<(String, String), Job<H>> = BTreeMap::new();
    for (db, table) in source {
        let name = table.name.clone();
        jobs.insert((fold(&db), fold(&name)), Job { source: Some(table), here: None, db, table: name });
    }
    for (db, name, table) in here {
        let job = jobs.entry((fold(&db), fold(&name)));
        job.or_insert_with(|| Job { source: None, here: None, db, table: name }).here = Some(table);
    }
    let there = jobs.values().map(|job| (job.db.as_str(), job.table.as_str()));
    match filter.unmatched(there, lower_case_table_names) {
        Some(name) => Err(CompareError::NoSuchTable(name)),
        None => Ok(jobs.into_values().collect()),
    }
}

fn problem<H>(job: &Job<H>, reason: impl Into<String>) -> TableReport {
    TableReport::problem(&job.db, &job.table, reason)
}

fn one_side_only<H>(job: &Job<H>) -> TableReport {
    problem(job, if job.source.is_some() { "only in source" } else { "only here" })
}

/// Report of a table of which neither side has rows.
fn without_rows<H>(job: &Job<H>, note: impl Into<String>) -> TableReport {
    let notes = vec![note.into()];
    TableReport { db: job.db.clone(), table: job.table.clone(), notes, ..TableReport::default() }
}

fn is_empty(
    store: &Arc<Store>,
    snapshot: &Snapshot,
    table: &Arc<TableDef>,
    shape: &Shape,
) -> Result<bool, CompareError> {
    let mut empty = true;
    each_in_order(store, snapshot, table, shape, &Part::All, &mut |_, _| {
        empty = false;
        Ok(())
    })?;
    Ok(empty)
}

fn annotated(mut report: TableReport, table: &ServerTable) -> TableReport {
    if !table.engine.is_empty() && !catalog::Engine::of(&table.engine).rolls_back {
        let note = format!("engine {}: no snapshot of it; compared as it is read", table.engine);
        report.notes.push(note);
    }
    report
}

/// Runs the jobs with one thread per element of `workers`. Prints each report as soon as all before it are complete.
fn run<H: Send, W: Send>(
    jobs: Vec<Job<H>>,
    workers: Vec<W>,
    out: &mut dyn Write,
    compare: impl Fn(&Job<H>, &mut W) -> Result<TableReport, CompareError> + Sync,
) -> Result<Vec<TableReport>, CompareError>
where
    Job<H>: Sync,
{
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut done: BTreeMap<usize, TableReport> = BTreeMap::new();
    let mut reports = Vec::new();
    std::thread::scope(|scope| {
        for mut worker in workers {
            let (sender, next, jobs, compare) = (sender.clone(), &next, &jobs, &compare);
            scope.spawn(move || {
                while let Some((index, job)) = take(next, jobs) {
                    let result = settled(job, compare(job, &mut worker));
                    let failed = result.is_err();
                    if sender.send((index, result)).is_err() || failed {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (index, result) in receiver {
            let report = match result {
                Ok(report) => report,
                Err(error) => {
                    // The other threads end after their current table.
                    next.store(usize::MAX / 2, Ordering::Relaxed);
                    return Err(error);
                }
            };
            done.insert(index, report);
            while let Some(report) = done.remove(&reports.len()) {
                writeln!(out, "{report}")?;
                out.flush()?;
                reports.push(report);
            }
        }
        Ok(reports)
    })
}

fn take<'a, H>(next: &AtomicUsize, jobs: &'a [Job<H>]) -> Option<(usize, &'a Job<H>)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(index).map(|job| (index, job))
}

/// Classifies a failure: a table that cannot be read counts as different; a lost connection fails the whole comparison.
fn settled<H>(job: &Job<H>, result: Result<TableReport, CompareError>) -> Result<TableReport, CompareError> {
    match result {
        Err(error @ (CompareError::Value { .. } | CompareError::Row { .. })) => {
            Ok(problem(job, format!("cannot be compared: {error}")))
        }
        // ER_TABLE_DEF_CHANGED, ER_NO_SUCH_TABLE: DDL came after the snapshot.
        Err(error) if matches!(error.server_code(), Some(1412 | 1146)) => {
            Ok(problem(job, format!("changed while verify ran, run it again: {error}")))
        }
        Err(error) if error.server_code().is_some() => Ok(problem(job, format!("cannot be read: {error}"))),
        other => other,
    }
}

/// Starts the report and prints its head.
fn begin(
    left: &mut ServerSnapshot,
    right: Option<&mut ServerSnapshot>,
    out: &mut dyn Write,
) -> Result<VerifyReport, CompareError> {
    let mut report = VerifyReport {
        executed: left.executed.clone(),
        lock_ms: left.lock_ms,
        prepared_xa: left.prepared_xa.clone(),
        notes: std::mem::take(&mut left.notes),
        ..VerifyReport::default()
    };
    writeln!(out, "source {} ({})", left.server, observe::one_line(left.control.server_version()))?;
    if let Some(right) = right {
        report.notes.append(&mut right.notes);
        writeln!(out, "replica {} ({})", right.server, observe::one_line(right.control.server_version()))?;
    }
    if let Some(set) = &report.executed {
        let set = set.to_string().replace('\n', "");
        writeln!(out, "compared at GTID set {}", if set.is_empty() { "(empty)" } else { &set })?;
    }
    if let Some(lock_ms) = report.lock_ms {
        writeln!(out, "writers on the source waited {lock_ms} ms at most")?;
    }
    for note in &report.notes {
        writeln!(out, "note: {}", observe::one_line(note))?;
    }
    for xid in &report.prepared_xa {
        writeln!(out, "note: prepared XA transaction {xid:?} on the source; its rows are on neither side")?;
    }
    writeln!(out, "{:<9} table  rows source / here  bytes  chunks", "result")?;
    Ok(report)
}

fn finish(report: VerifyReport, out: &mut dyn Write) -> Result<VerifyReport, CompareError> {
    writeln!(out, "{report}")?;
    out.flush()?;
    Ok(report)
}
