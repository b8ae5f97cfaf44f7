//! Preparation of a copy: from connect options to open snapshots and a plan.
//!
//! In: how to reach the source, options, a stop flag. Out: a [`SourceCopy`]. Invariant: if preparation fails, the
//! source is left as it was. Never here: rows, except those of tables without snapshots (`locked_rows`).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catalog::{DefinitionKind, SourceNames};
use client::session::{open_memory_tables, quoted, reading_session};
use client::{ClientError, ConnectOptions, Connection};
use source::alive::Asking;
use source::copy_check::{COPY_PRIVILEGES, TABLE_COPY_PRIVILEGES, UNLOCKED_COPY_PRIVILEGES, missing_privileges};

use crate::definitions::{self, Name, definition_here};
use crate::error::CopyError;
use crate::lock::{Patience, Sessions};
use crate::options::{CopyLock, CopyOptions, Unsettled};
use crate::plan::{CopyPlan, PlannedTable, SourceFacts};
use crate::progress::Progress;
use crate::rate::Rate;
use crate::run::{Job, Run, RunState, TakenRows, groups_of};
use crate::table_reader::TableReader;
use crate::{CopyReport, CopySink, UnsettledTable};

mod attempt;
mod define;
mod locked_rows;

use attempt::{Attempt, FrozenTables, try_once};

/// Number of attempts at a snapshot when DDL comes between the snapshot and reading the definitions.
const DDL_TRIES: u32 = 5;
/// A commit becomes visible slightly before its GTID is in gtid_executed, one stage of the same group commit earlier.
/// No server takes this long between the two.
const SETTLE: Duration = Duration::from_secs(1);
/// CREATE_TIME has a resolution of one second; this long after a table's last DDL, the next one has a different value.
const FRESH: Duration = Duration::from_millis(1100);
/// Bytes of a table, by the source's statistics, below which further connections take longer to open than to read it.
const SMALL_BYTES: u64 = 1 << 20;

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
                    .push(format!("copying without a lock, because none was granted within {seconds} s: {reason}"));
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
        let (prepared, is_lost) =
            Asking::run(source, stop, |asking| SourceCopy::prepare_asking(asking, &server, source, options, stop));
        match prepared {
            _ if is_lost => Err(CopyError::Source { server, error: ClientError::ReadTimeout }),
            Err(_) if stop.load(Ordering::Relaxed) => Err(CopyError::Stopped),
            prepared => prepared,
        }
    }

    fn prepare_asking(
        asking: &Asking,
        server: &str,
        source: &ConnectOptions,
        options: &CopyOptions,
        stop: &AtomicBool,
    ) -> Result<SourceCopy, CopyError> {
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
            let connected = asking.connect(source, |options| reading_session(options).and_then(exact));
            connected.map_err(|error| CopyError::Source { server: server.to_owned(), error })
        };
        let control = connect()?;
        let preparing = Arc::clone(&options.preparing);
        let (server, readers) = (server.to_owned(), Vec::new());
        let mut sessions = Sessions { server, login: source.clone(), readers, control, preparing };
        let facts = read_facts(&mut sessions)?;
        check_privileges(&mut sessions, options.lock)?;
        let opened = open_memory_tables(&mut sessions.control);
        sessions.at(opened)?;
        for _ in 0..readers_of(&mut sessions, options)? {
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
            login: sessions.login,
            groups: groups_of(&jobs),
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
            without_virtual: run.of_jobs(|job| job.reader.is_without_virtual()),
            discarded: run.of_jobs(Job::is_discarded),
            tables,
            rows: totals.rows,
            bytes: totals.bytes,
            ranges: run.state.ranges.load(Ordering::Relaxed),
            elapsed: progress.elapsed(),
        })
    }
}

/// Number of connections that read: one is enough for a small table.
fn readers_of(sessions: &mut Sessions, options: &CopyOptions) -> Result<usize, CopyError> {
    let connections = options.connections.max(1);
    let Some(only) = options.tables.only_table().filter(|_| connections > 1) else { return Ok(connections) };
    let estimates = definitions::estimates(&mut sessions.control, Some(only));
    let bytes: u64 = sessions.at(estimates)?.values().map(|(_, bytes)| *bytes).sum();
    Ok(if bytes <= SMALL_BYTES { 1 } else { connections })
}

/// GTIDs of everything that the rows may contain.
fn settled(run: &Run<'_>, stop: &AtomicBool) -> Result<base::GtidSet, CopyError> {
    Patience::new(run.options, stop).sleep(SETTLE)?;
    let mut control = run.control.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let limit = Some(run.login.connect_timeout);
    match control.set_read_timeout(limit).and_then(|()| client::session::gtid_executed(&mut control)) {
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
    let what = "SELECT @@GLOBAL.gtid_mode, @@GLOBAL.lower_case_table_names, @@GLOBAL.server_uuid";
    let answer = sessions.control.query(what);
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
        server_uuid: Some(sessions.at(result.told(0, 2, what))?),
        lower_case_table_names: sessions.at(result.told(0, 1, what))?,
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

fn finish(
    mut sessions: Sessions,
    source: SourceFacts,
    options: &CopyOptions,
    patience: &Patience<'_>,
    found: FrozenTables,
) -> Result<SourceCopy, CopyError> {
    let FrozenTables { moment, listing, names, mut catalog, unsettled, discarded, backup_lock_us } = found;
    options.preparing.begin("asking for the tables' sizes", 0);
    let estimates = definitions::estimates(&mut sessions.control, options.tables.only_table());
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
        notes.push(format!("read while writers waited, because no snapshot shows them: {}", taken_names.join(", ")));
    }
    let mut taken: HashMap<Name, TakenRows> = moment.taken.into_iter().map(|(rows, _)| rows).collect();
    let source_names = names_of(&source, options);
    if options.lock != CopyLock::Table {
        let recorded = crate::recorded::read(&mut sessions.control, &source_names);
        let recorded = sessions.at(recorded)?;
        // Others may exist that its account does not see.
        let has_accounts = recorded.all.iter().any(|one| one.kind == DefinitionKind::User);
        let are_all = recorded.notes.is_empty() && has_accounts;
        notes.extend(recorded.notes);
        catalog = catalog.with_definitions(recorded.all, are_all);
    }
    let mut tables: Vec<(PlannedTable, Name)> = (names.iter())
        .filter_map(|name| {
            let mut def = Arc::clone(definition_here(&catalog, &source_names, name)?);
            if options.misplaced_rows && def.partition_by.is_some() {
                def = Arc::new(def.with_misplaced_rows());
            }
            let (rows_estimated, bytes_estimated) = estimates.get(name).copied().unwrap_or_default();
            Some((PlannedTable { def, rows_estimated, bytes_estimated }, name.clone()))
        })
        .collect();
    for (table, _) in &tables {
        if let Some(why) = table.def.engine_of().why_without_rows() {
            notes.push(format!(
                "{}: engine {} {why}: only its definition is copied",
                table.def.full_name(),
                table.def.engine
            ));
        }
    }
    // Largest first, so that the copy does not end with one large table that has just been started. Small ones follow
    // by database, so that they can be read in groups.
    tables.sort_by(|(one, name), (other, name_of_other)| {
        let large = |table: &PlannedTable| Some(table.bytes_estimated).filter(|bytes| *bytes > SMALL_BYTES);
        large(other).cmp(&large(one)).then_with(|| name.cmp(name_of_other))
    });
    let jobs = (tables.iter())
        .map(|(table, name)| {
            let reader = TableReader::new(&table.def, name, options.batch_bytes);
            let estimates = (table.rows_estimated, table.bytes_estimated);
            let rows = match table.def.engine_of().keeps_rows() {
                true => taken.remove(name),
                false => Some(TakenRows::default()),
            };
            // Of a partitioned table, other partitions may have rows.
            let discarded = discarded && table.def.partition_by.is_none();
            Job::new(reader, listing.created(name).map(str::to_owned), estimates, rows, options).discarded(discarded)
        })
        .collect();
    let copied: HashSet<&Name> = names.iter().chain(unsettled.iter().map(|(name, _)| name)).collect();
    let source_names = names_of(&source, options);
    let unsettled_tables = unsettled.iter().map(|((db, table), why)| UnsettledTable {
        db: source_names.database(db).to_owned(),
        table: table.clone(),
        why: why.clone(),
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
