//! Preparation of a copy: from connect options to open snapshots and a plan.
//!
//! In: how to reach the source, options, a stop flag. Out: a [`SourceCopy`]. Invariant: if preparation fails, the
//! source is left as it was. Never here: rows, except those of tables without snapshots.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catalog::{SourceNames, TableDef};
use client::session::{quoted, reading_session};
use client::{ConnectOptions, Connection};
use source::copy_check::{COPY_PRIVILEGES, TABLE_COPY_PRIVILEGES, UNLOCKED_COPY_PRIVILEGES, missing_privileges};
use source::replication::version_number;

use crate::batch::RowBatch;
use crate::definitions::{
    self, Listing, Name, build_catalog, definition_here, read_definitions, same_definition, show_create,
};
use crate::error::CopyError;
use crate::lock::{Moment, Patience, ReadLock, Sessions, micros};
use crate::options::{CopyLock, CopyOptions, Unsettled};
use crate::plan::{CopyPlan, PlannedTable, SourceFacts};
use crate::progress::Progress;
use crate::rate::Rate;
use crate::run::{Job, Run, RunState, TakenRows};
use crate::table_reader::TableReader;
use crate::{CopyReport, CopySink, UnsettledTable};

/// Engines whose rows a consistent snapshot sees.
const SNAPSHOT_ENGINES: [&str; 2] = ["INNODB", "ROCKSDB"];
/// Engines that show other tables' rows.
const BORROWED_ROWS: [&str; 2] = ["MRG_MYISAM", "FEDERATED"];
/// Number of attempts at a snapshot when DDL comes between the snapshot and reading the definitions.
const DDL_TRIES: u32 = 5;
/// CREATE_TIME has a resolution of one second; this long after a table's last DDL, the next one has a different value.
const FRESH: Duration = Duration::from_millis(1100);
/// A commit becomes visible slightly before its GTID is in gtid_executed, one stage of the same group commit earlier.
/// No server takes this long between the two.
const SETTLE: Duration = Duration::from_secs(1);
/// Factor by which reading may exceed `locked_bytes_max`, because the check before it uses rough estimates.
const LOCKED_BYTES_FACTOR: u64 = 4;

/// A copy with open snapshots. Dropping it leaves nothing on the source.
pub struct SourceCopy {
    plan: CopyPlan,
    sessions: Sessions,
    jobs: Vec<Job>,
    options: CopyOptions,
    opened: Instant,
}

impl SourceCopy {
    /// Opens snapshots of one moment on all connections and plans the copy. Takes seconds on a busy source, but blocks
    /// writers for milliseconds only. If the lock cannot be acquired and all tables can be copied without it, prepares
    /// a copy without a lock; see [`CopyPlan::lock`]. `stop` ends it early.
    ///
    /// # Errors
    /// [`CopyError`]; the source is left as it was.
    pub fn prepare(source: &ConnectOptions, options: &CopyOptions, stop: &AtomicBool) -> Result<SourceCopy, CopyError> {
        let (server, seconds, mut reason) = match SourceCopy::prepare_as_told(source, options, stop) {
            Err(CopyError::NoLock { server, seconds, reason }) if options.lock == CopyLock::Auto => {
                (server, seconds, reason)
            }
            other => return other,
        };
        let unlocked = CopyOptions { lock: CopyLock::None, ..options.clone() };
        match SourceCopy::prepare_as_told(source, &unlocked, stop) {
            Err(error @ (CopyError::NeedsKeys { .. } | CopyError::NeedsFullImages { .. })) => {
                reason.push_str(&format!("; and {error}"));
                Err(CopyError::NoLock { server, seconds, reason })
            }
            Ok(mut copy) => {
                copy.plan
                    .notes
                    .push(format!("copying without a lock, as none was to be had within {seconds} s: {reason}"));
                Ok(copy)
            }
            Err(error) => Err(error),
        }
    }

    fn prepare_as_told(
        source: &ConnectOptions,
        options: &CopyOptions,
        stop: &AtomicBool,
    ) -> Result<SourceCopy, CopyError> {
        let server = source.to_string();
        let connect = || {
            let exact = |mut connection: Connection| -> client::Result<Connection> {
                // Room for the names of 4096 columns in hexadecimal.
                connection.exec("SET SESSION sql_quote_show_create = 1, group_concat_max_len = 4194304")?;
                // Exists since 8.0.30; older servers reject it.
                match connection.exec("SET SESSION show_gipk_in_create_table_and_information_schema = ON") {
                    Err(error) if error.server_code().is_none() => return Err(error),
                    _ => {}
                }
                Ok(connection)
            };
            let connected = reading_session(source).and_then(exact);
            connected.map_err(|error| CopyError::Source { server: server.clone(), error })
        };
        let control = connect()?;
        let mut sessions = Sessions { server: server.clone(), readers: Vec::new(), control };
        let facts = read_facts(&mut sessions)?;
        check_privileges(&mut sessions, options.lock)?;
        for _ in 0..options.connections.max(1) {
            sessions.readers.push(connect()?);
        }
        let mut patience = Patience::new(options, stop);
        let mut last = Vec::new();
        for tries in 1..=DDL_TRIES {
            let unsettled = if tries < DDL_TRIES { Unsettled::End } else { options.unsettled };
            match try_once(&mut sessions, &facts, options, unsettled, &mut patience)? {
                Attempt::Ready(found) => return finish(sessions, facts, options, &patience, *found),
                Attempt::Changed(names) => {
                    last = names.iter().map(|(db, table)| format!("{}.{}", quoted(db), quoted(table))).collect();
                    patience.sleep(FRESH)?;
                }
            }
        }
        Err(CopyError::Changing { tables: last })
    }

    /// The plan of this copy.
    #[must_use]
    pub fn plan(&self) -> &CopyPlan {
        &self.plan
    }

    /// Age of the snapshots.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Reads everything into the sink. `progress` must come from this copy's plan; `stop` ends it early.
    ///
    /// # Errors
    /// [`CopyError`]. Everything given to the sink must then be discarded, except for what
    /// [`CopyError::SnapshotTooOld`] lists.
    pub fn run(self, sink: &dyn CopySink, progress: &Progress, stop: &AtomicBool) -> Result<CopyReport, CopyError> {
        let SourceCopy { plan, sessions, jobs, options, opened } = self;
        let run = Run {
            server: sessions.server,
            jobs,
            sink,
            progress,
            stop,
            rate: options.rate_bytes_per_second.map(|rate| Rate::new(rate, Instant::now())),
            options: &options,
            control: Mutex::new(sessions.control),
            opened,
            state: RunState::default(),
        };
        run.run(sessions.readers)?;
        let consistent_at = match options.lock {
            CopyLock::Auto | CopyLock::Table => None,
            CopyLock::None => Some(settled(&run, stop)?),
        };
        let totals = progress.totals();
        let mut unsettled = run.unsettled();
        let tables = plan.tables.len() - unsettled.len();
        unsettled.extend(plan.unsettled);
        Ok(CopyReport {
            consistent_at,
            unsettled,
            tables,
            rows: totals.rows,
            bytes: totals.bytes,
            ranges: run.state.ranges.load(Ordering::Relaxed),
            elapsed: progress.elapsed(),
        })
    }
}

/// GTIDs of everything that the rows may contain.
fn settled(run: &Run<'_>, stop: &AtomicBool) -> Result<base::GtidSet, CopyError> {
    Patience::new(run.options, stop).sleep(SETTLE)?;
    let mut control = run.control.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match client::session::gtid_executed(&mut control) {
        Ok(Some(set)) => Ok(set),
        Ok(None) => Err(CopyError::NoGtids { server: run.server.clone() }),
        Err(error) => Err(CopyError::Source { server: run.server.clone(), error }),
    }
}

/// Maps names on the source to names on this replica.
fn names_of(facts: &SourceFacts, options: &CopyOptions) -> SourceNames {
    SourceNames { filters: Arc::clone(&options.tables.filters), lower_case_table_names: facts.lower_case_table_names }
}

fn read_facts(sessions: &mut Sessions) -> Result<SourceFacts, CopyError> {
    let version = sessions.control.server_version().to_owned();
    let answer =
        sessions.control.query("SELECT @@GLOBAL.gtid_mode, @@GLOBAL.lower_case_table_names, @@GLOBAL.server_uuid");
    let no_gtids = || CopyError::NoGtids { server: sessions.server.clone() };
    let result = match answer {
        // ER_UNKNOWN_SYSTEM_VARIABLE
        Err(error) if error.server_code() == Some(1193) => return Err(no_gtids()),
        answer => sessions.at(answer)?,
    };
    if result.text(0, 0).as_deref() != Some("ON") {
        return Err(no_gtids());
    }
    Ok(SourceFacts {
        server: sessions.server.clone(),
        version,
        server_uuid: result.text(0, 2).and_then(|uuid| uuid.parse().ok()),
        lower_case_table_names: result.text(0, 1).and_then(|text| text.parse().ok()).unwrap_or(0),
    })
}

fn check_privileges(sessions: &mut Sessions, lock: CopyLock) -> Result<(), CopyError> {
    let needed = match lock {
        CopyLock::Auto => COPY_PRIVILEGES,
        CopyLock::Table => TABLE_COPY_PRIVILEGES,
        CopyLock::None => UNLOCKED_COPY_PRIVILEGES,
    };
    let answer = missing_privileges(&mut sessions.control, needed);
    let (account, missing) = sessions.at(answer)?;
    if missing.is_empty() { Ok(()) } else { Err(CopyError::Privileges { account, missing }) }
}

/// Outcome of one attempt at the snapshots.
enum Attempt {
    Ready(Box<Found>),
    /// DDL changed these tables in between.
    Changed(Vec<Name>),
}

struct Found {
    moment: Moment<Vec<(TakenRows, TableDef)>>,
    listing: Listing,
    names: Vec<Name>,
    catalog: catalog::Catalog,
    /// Tables without a definition; not in the catalog.
    unsettled: Vec<Name>,
    backup_lock_us: Option<u64>,
}

impl Found {
    /// Excludes tables that DDL changed.
    fn leave_out(&mut self, changed: Vec<Name>) {
        self.names.retain(|name| !changed.contains(name));
        self.unsettled.extend(changed);
    }
}

/// Makes one attempt. With `Unsettled::LeaveOut`, tables that DDL changed are excluded instead of failing the attempt.
fn try_once(
    sessions: &mut Sessions,
    facts: &SourceFacts,
    options: &CopyOptions,
    unsettled: Unsettled,
    patience: &mut Patience<'_>,
) -> Result<Attempt, CopyError> {
    patience.check_stop()?;
    let lower = facts.lower_case_table_names;
    let before = Listing::read(&mut sessions.control, "");
    let before = sessions.at(before)?;
    let wanted = before.wanted(&options.tables, lower)?;
    if wanted.iter().any(|name| before.tables.get(name).is_some_and(|table| table.fresh)) {
        // A lock taken now would probably be useless.
        patience.sleep(FRESH)?;
    }
    if options.lock == CopyLock::None {
        return try_unlocked(sessions, facts, unsettled, patience, &before);
    }
    let without_snapshots = without_snapshots(sessions, &before, &wanted, options)?;
    let lock = match (options.lock, wanted.as_slice()) {
        (CopyLock::Table, [(db, table)]) => ReadLock::Table(db.clone(), table.clone()),
        _ => ReadLock::All,
    };
    let moment = sessions.freeze(patience, &lock, |control| {
        let limit = options.locked_bytes_max.saturating_mul(LOCKED_BYTES_FACTOR);
        take_rows(control, &without_snapshots, facts, options, limit)
    })?;
    let outcome = read_catalog(sessions, facts, unsettled, patience, &moment);
    let backup_lock_us = moment.backup_since.map(micros);
    sessions.unlock_instance()?;
    let Defined { listing, names, catalog, unsettled: left_out } = match outcome? {
        Ok(defined) => defined,
        Err(changed) => return Ok(Attempt::Changed(changed)),
    };
    // Tables read under the lock must be the ones that were listed before it.
    let taken: HashSet<&Name> = moment.taken.iter().map(|((name, _), _)| name).collect();
    let not_taken = |name: &&Name| {
        let engine = listing.tables.get(*name).map_or("", |table| &table.engine);
        !has_snapshot(engine) && !taken.contains(name)
    };
    let mut changed: Vec<Name> = names.iter().filter(not_taken).cloned().collect();
    for ((name, _), def) in &moment.taken {
        let same =
            definition_here(&catalog, &names_of(facts, options), name).is_some_and(|now| same_definition(def, now));
        if !same && !left_out.contains(name) {
            changed.push(name.clone());
        }
    }
    let mut found = Found { moment, listing, names, catalog, unsettled: left_out, backup_lock_us };
    if !changed.is_empty() {
        if unsettled == Unsettled::End {
            return Ok(Attempt::Changed(changed));
        }
        found.leave_out(changed);
    }
    Ok(Attempt::Ready(Box::new(found)))
}

/// Like `try_once`, but without a lock: takes a mark in the log, then definitions that are the same before and after
/// it.
fn try_unlocked(
    sessions: &mut Sessions,
    facts: &SourceFacts,
    unsettled: Unsettled,
    patience: &mut Patience<'_>,
    before: &Listing,
) -> Result<Attempt, CopyError> {
    check_full_images(sessions)?;
    let moment = sessions.mark(patience, Vec::new())?;
    let listing = Listing::read(&mut sessions.control, &moment.now);
    let listing = sessions.at(listing)?;
    let names = listing.wanted(&patience.options.tables, facts.lower_case_table_names)?;
    let fresh = |name: &Name| listing.tables.get(name).is_some_and(|table| table.fresh);
    let mut changed = before.changed(&listing, &names);
    // Dropped meanwhile: the log will drop a table that replay does not know.
    let gone = |name: &&Name| !listing.tables.contains_key(*name);
    changed.extend(before.wanted(&patience.options.tables, facts.lower_case_table_names)?.iter().filter(gone).cloned());
    changed.extend(names.iter().filter(|name| fresh(name)).cloned());
    let other = |(db, _): &&(String, String)| !before.databases.iter().any(|(known, _)| known == db);
    let databases: Vec<Name> =
        listing.databases.iter().filter(other).map(|(db, _)| (db.clone(), "*".to_owned())).collect();
    if !databases.is_empty() || !changed.is_empty() && unsettled == Unsettled::End {
        changed.extend(databases);
        return Ok(Attempt::Changed(changed));
    }
    let version = version_number(&facts.version);
    let source_names = names_of(facts, patience.options);
    let defining = Defining { listing, names, source_names, version };
    let Defined { listing, names, catalog, unsettled } = match define_all(sessions, defining, changed, unsettled)? {
        Ok(defined) => defined,
        Err(changed) => return Ok(Attempt::Changed(changed)),
    };
    let full_name = |name: &Name| format!("{}.{}", quoted(&name.0), quoted(&name.1));
    let engine = |name: &Name| listing.tables.get(name).map_or("", |table| table.engine.as_str());
    if let Some(name) = names.iter().find(|name| borrows_rows(engine(name))) {
        return Err(CopyError::NoRowsOfItsOwn { table: full_name(name), engine: engine(name).to_owned() });
    }
    let source_names = names_of(facts, patience.options);
    let keyless = |name: &&Name| {
        let table = definition_here(&catalog, &source_names, name);
        table.is_some_and(|table| table.identity == catalog::Identity::WholeImage)
    };
    let tables: Vec<String> = names.iter().filter(keyless).map(full_name).collect();
    if !tables.is_empty() {
        return Err(CopyError::NeedsKeys { tables });
    }
    Ok(Attempt::Ready(Box::new(Found { moment, listing, names, catalog, unsettled, backup_lock_us: None })))
}

fn check_full_images(sessions: &mut Sessions) -> Result<(), CopyError> {
    let answer = sessions.control.query("SELECT @@GLOBAL.binlog_row_image, @@GLOBAL.binlog_row_value_options");
    let result = sessions.at(answer)?;
    let text = |column| result.text(0, column).unwrap_or_default();
    if text(0) != "FULL" {
        let what = format!("binlog_row_image is {}", text(0));
        return Err(CopyError::NeedsFullImages { what, fix: "SET PERSIST binlog_row_image = FULL;".into() });
    }
    if !text(1).is_empty() {
        let what = format!("binlog_row_value_options is {}", text(1));
        return Err(CopyError::NeedsFullImages { what, fix: "SET PERSIST binlog_row_value_options = '';".into() });
    }
    Ok(())
}

/// Definitions to read.
struct Defining {
    listing: Listing,
    names: Vec<Name>,
    source_names: SourceNames,
    version: Option<u32>,
}

/// Definitions read.
struct Defined {
    listing: Listing,
    names: Vec<Name>,
    catalog: catalog::Catalog,
    /// Tables that DDL changed; in neither `names` nor `catalog`.
    unsettled: Vec<Name>,
}

/// The catalog at the snapshot, or the tables that DDL has changed since.
fn read_catalog<T>(
    sessions: &mut Sessions,
    facts: &SourceFacts,
    unsettled: Unsettled,
    patience: &Patience<'_>,
    moment: &Moment<T>,
) -> Result<Result<Defined, Vec<Name>>, CopyError> {
    let lower = facts.lower_case_table_names;
    let Some(reader) = sessions.readers.first_mut() else { return Ok(Err(Vec::new())) };
    let listing = Listing::read(reader, &moment.now);
    let listing = sessions.at(listing)?;
    let names = listing.wanted(&patience.options.tables, lower)?;
    let fresh = |name: &&Name| listing.tables.get(*name).is_some_and(|table| table.fresh);
    let mut fresh: Vec<Name> = names.iter().filter(fresh).cloned().collect();
    if !fresh.is_empty() {
        if moment.backup_since.is_some() {
            // DDL is blocked, so wait for the end of the second; the next DDL on these tables will then have a
            // different time.
            patience.sleep(FRESH)?;
            fresh.clear();
        } else if unsettled == Unsettled::End {
            return Ok(Err(fresh));
        }
    }
    let version = version_number(&facts.version);
    let source_names = names_of(facts, patience.options);
    let defining = Defining { listing, names, source_names, version };
    define_all(sessions, defining, fresh, unsettled)
}

/// The definitions of all tables in the listing, or those tables that have changed since. With `Unsettled::LeaveOut`,
/// changed tables, including `changed` from the start, are excluded instead.
fn define_all(
    sessions: &mut Sessions,
    defining: Defining,
    mut changed: Vec<Name>,
    unsettled: Unsettled,
) -> Result<Result<Defined, Vec<Name>>, CopyError> {
    let Defining { listing, mut names, source_names, version } = defining;
    let mut left_out = Vec::new();
    loop {
        // Terminates, because each iteration removes at least one name.
        names.retain(|name| !changed.contains(name));
        left_out.append(&mut changed);
        match define(sessions, &listing, &names, &source_names, version)? {
            Ok(catalog) => return Ok(Ok(Defined { listing, names, catalog, unsettled: left_out })),
            Err(more) if unsettled == Unsettled::LeaveOut => changed = more,
            Err(more) => return Ok(Err(more)),
        }
    }
}

fn define(
    sessions: &mut Sessions,
    listing: &Listing,
    names: &[Name],
    source_names: &SourceNames,
    version: Option<u32>,
) -> Result<Result<catalog::Catalog, Vec<Name>>, CopyError> {
    let definitions = read_definitions(&mut sessions.readers, names)?;
    let later = Listing::read(&mut sessions.control, "");
    let later = sessions.at(later)?;
    let mut changed = listing.changed(&later, names);
    let mut complete = Vec::with_capacity(definitions.len());
    for (name, sql) in definitions {
        match sql {
            Some(sql) => complete.push((name, sql)),
            None => changed.push(name),
        }
    }
    if !changed.is_empty() {
        return Ok(Err(changed));
    }
    let catalog = build_catalog(listing, &complete, source_names, version)?;
    let Some(reader) = sessions.readers.first_mut() else { return Ok(Ok(catalog)) };
    let others = definitions::with_other_columns(reader, &catalog, source_names, names);
    let others = sessions.at(others)?;
    Ok(if others.is_empty() { Ok(catalog) } else { Err(others) })
}

fn borrows_rows(engine: &str) -> bool {
    BORROWED_ROWS.iter().any(|known| known.eq_ignore_ascii_case(engine))
}

fn has_snapshot(engine: &str) -> bool {
    SNAPSHOT_ENGINES.iter().any(|known| known.eq_ignore_ascii_case(engine))
}

/// Tables that must be read under the lock.
fn without_snapshots(
    sessions: &mut Sessions,
    listing: &Listing,
    wanted: &[Name],
    options: &CopyOptions,
) -> Result<Vec<Name>, CopyError> {
    let engine = |name: &Name| listing.tables.get(name).map_or("", |table| table.engine.as_str());
    let full_name = |name: &Name| format!("{}.{}", quoted(&name.0), quoted(&name.1));
    let names: Vec<Name> = wanted.iter().filter(|name| !has_snapshot(engine(name))).cloned().collect();
    if let Some(name) = names.iter().find(|name| borrows_rows(engine(name))) {
        return Err(CopyError::NoRowsOfItsOwn { table: full_name(name), engine: engine(name).to_owned() });
    }
    if names.is_empty() {
        return Ok(names);
    }
    let estimates = definitions::estimates(&mut sessions.control);
    let estimates = sessions.at(estimates)?;
    let bytes = names.iter().filter_map(|name| estimates.get(name)).map(|(_, bytes)| *bytes).sum();
    if bytes > options.locked_bytes_max {
        let tables = names.iter().map(|name| format!("{} ({})", full_name(name), engine(name))).collect();
        return Err(CopyError::NoSnapshot { tables, bytes, limit: options.locked_bytes_max });
    }
    Ok(names)
}

/// Reads tables without snapshots into memory while writers wait; fails beyond `limit` bytes.
fn take_rows(
    control: &mut Connection,
    names: &[Name],
    facts: &SourceFacts,
    options: &CopyOptions,
    limit: u64,
) -> Result<Vec<(TakenRows, TableDef)>, CopyError> {
    let mut taken = Vec::new();
    let mut bytes = 0;
    for name in names {
        let vanished = || CopyError::TableVanished { db: name.0.clone(), table: name.1.clone() };
        let sql = show_create(control, name)?.ok_or_else(vanished)?;
        let alone = catalog::Catalog::new(facts.lower_case_table_names);
        let source_names = names_of(facts, options);
        let catalog = definitions::define(&alone, &source_names, name, &sql, version_number(&facts.version))?;
        let Some(def) = definition_here(&catalog, &source_names, name) else { return Err(vanished()) };
        let reader = TableReader::new(def, name, options.batch_bytes);
        let mut batches = Vec::new();
        reader.read(control, "", &mut RowBatch::default(), &mut |batch| {
            bytes += batch.image_bytes() as u64;
            if bytes > limit {
                let tables = vec![format!("{}.{}", quoted(&name.0), quoted(&name.1))];
                return Err(CopyError::NoSnapshot { tables, bytes, limit });
            }
            batches.push(batch.clone());
            Ok(())
        })?;
        taken.push(((name.clone(), batches), TableDef::clone(def)));
    }
    Ok(taken)
}

fn finish(
    mut sessions: Sessions,
    source: SourceFacts,
    options: &CopyOptions,
    patience: &Patience<'_>,
    found: Found,
) -> Result<SourceCopy, CopyError> {
    let Found { moment, listing, names, mut catalog, unsettled, backup_lock_us } = found;
    let estimates = definitions::estimates(&mut sessions.control);
    let estimates = sessions.at(estimates)?;
    let mut notes = Vec::new();
    if backup_lock_us.is_none() && options.lock == CopyLock::Auto {
        notes.push(
            "without BACKUP_ADMIN a long DDL statement on the source may hold off the lock and, with it, writers"
                .into(),
        );
    }
    let taken_names: Vec<String> =
        moment.taken.iter().map(|((name, _), _)| format!("{}.{}", quoted(&name.0), quoted(&name.1))).collect();
    if !taken_names.is_empty() {
        notes.push(format!("read while writers waited, for want of snapshots: {}", taken_names.join(", ")));
    }
    let mut taken: std::collections::HashMap<Name, Vec<RowBatch>> =
        moment.taken.into_iter().map(|(rows, _)| rows).collect();
    let source_names = names_of(&source, options);
    if options.lock != CopyLock::Table {
        let recorded = crate::recorded::read(&mut sessions.control, &source_names);
        let recorded = sessions.at(recorded)?;
        notes.extend(recorded.notes);
        catalog = catalog.with_definitions(recorded.all);
    }
    let mut tables: Vec<(PlannedTable, Name)> = (names.iter())
        .filter_map(|name| {
            let def = Arc::clone(definition_here(&catalog, &source_names, name)?);
            let (rows_estimated, bytes_estimated) = estimates.get(name).copied().unwrap_or_default();
            Some((PlannedTable { def, rows_estimated, bytes_estimated }, name.clone()))
        })
        .collect();
    // Largest first, so that the copy does not end with one large table that has just been started.
    tables.sort_by_key(|(table, _)| std::cmp::Reverse(table.bytes_estimated));
    let jobs = (tables.iter())
        .map(|(table, name)| {
            let reader = TableReader::new(&table.def, name, options.batch_bytes);
            let estimates = (table.rows_estimated, table.bytes_estimated);
            Job::new(reader, listing.created(name), estimates, taken.remove(name), options)
        })
        .collect();
    let copied: HashSet<&Name> = names.iter().chain(&unsettled).collect();
    let why = "its definition was changed by DDL again and again while the copy began";
    let source_names = names_of(&source, options);
    let unsettled_tables = unsettled.iter().map(|(db, table)| UnsettledTable {
        db: source_names.database(db).to_owned(),
        table: table.clone(),
        why: why.into(),
    });
    let plan = CopyPlan {
        unsettled: unsettled_tables.collect(),
        lock: options.lock,
        executed: moment.executed,
        left_out: listing.tables.keys().filter(|name| !copied.contains(name)).cloned().collect(),
        tables: tables.into_iter().map(|(table, _)| table).collect(),
        catalog,
        lock_us: patience.longest_try_us,
        lock_wait_us: moment.lock_wait_us,
        backup_lock_us,
        lock_tries: patience.tries,
        source,
        notes,
    };
    Ok(SourceCopy { plan, sessions, jobs, options: options.clone(), opened: moment.opened })
}
