//! The seam between the program's outer shell and its engine (`replica.rs`).
//!
//! In: checked configuration, an owned or stopped folder, commands. Out: status reports, streamed text, a `Failure` with
//! its exit code. The shell calls nothing of the engine but what stands here.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use base::GtidSet;
use observe::StatusReport;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::config::{PipelineConfig, ReplicaConfig, ServerOptions};
use crate::control::{Handler, Reply, Request};
use crate::exit::{Exit, Failure};
use crate::folder::Folder;
use crate::lock::FolderLock;
use crate::log::{self, Code};
use crate::memory::MemoryPlan;
use crate::replica::{self, ReadOnly, Replica};

/// Form of dumped rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DumpFormat {
    /// INSERT statements.
    #[default]
    Sql,
    /// Tab-separated, as `mysql --batch --raw` prints.
    Tab,
}

/// What `slipstream dump` writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DumpOptions {
    /// `schema.table`; none = all.
    pub tables: Vec<String>,
    /// Form of the rows.
    pub format: DumpFormat,
    /// Invisible columns too.
    pub all_columns: bool,
    /// BINARY, VARBINARY, BLOB, BIT as 0x...
    pub binary_as_hex: bool,
    /// Views, routines, triggers, events, users and grants, no rows.
    pub definitions: bool,
}

/// What `slipstream verify` compares, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerifyOptions {
    /// The server to compare with; none = the replica's own source.
    pub source: Option<ServerOptions>,
    /// `schema.table`; none = all.
    pub tables: Vec<String>,
    /// Differing rows printed per table.
    pub differences_max: u64,
    /// The result as one JSON document instead of a table.
    pub json: bool,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions { source: None, tables: Vec::new(), differences_max: 10, json: false }
    }
}

/// What `slipstream lab replay` replays.
#[derive(Clone, Debug, PartialEq)]
pub struct LabReplayOptions {
    /// Binlog files or index files, in order.
    pub logs: Vec<PathBuf>,
    /// Logs replayed before, timed apart.
    pub load: Vec<PathBuf>,
    /// How fast the measured logs are fed; none = full speed.
    pub pace: Option<lab::replay::Pace>,
    /// Samples of memory and progress in the report.
    pub samples: bool,
    /// Reads by key to measure; 0: none.
    pub reads: u64,
    /// Folder for relay log and store; none = a temporary one.
    pub folder: Option<PathBuf>,
    /// Memory of a store on disk; none = a store in memory.
    pub memory: Option<u64>,
    /// Threads and memory.
    pub pipeline: PipelineConfig,
    /// When the relay log is synced.
    pub relay_sync: crate::config::RelaySync,
    /// Who applies what.
    pub grain: lab::replay::Grain,
    /// No decoders: the scheduling thread decodes.
    pub scheduler_decodes: bool,
    /// The result as one JSON document.
    pub json: bool,
    /// Hash the result.
    pub hash: bool,
}

/// A running replica.
pub struct ReplicaHandle {
    replica: Replica,
    folder: Folder,
    /// One at a time: a verify holds publishing for a moment.
    verifying: Mutex<()>,
}

impl ReplicaHandle {
    /// Starts receiving and replaying. The folder's exclusive lock is held by the caller for as long as this lives.
    ///
    /// # Errors
    /// With the exit code of what is wrong; nothing runs then.
    pub fn start(config: ReplicaConfig, folder: Folder, lock: &FolderLock) -> Result<ReplicaHandle, Failure> {
        let mut skip = crate::skip::load(&folder)?;
        if !config.skip.is_subset_of(&skip) {
            log::write(Code::OperatorCommand, "Server", &format!("skip asked by --skip-gtids: {}", config.skip));
            skip = crate::skip::add(&folder, &config.skip)?;
        }
        let replica = Replica::start(&config, &folder, lock, skip)?;
        Ok(ReplicaHandle { replica, folder, verifying: Mutex::new(()) })
    }

    /// What `slipstream status` shows.
    #[must_use]
    pub fn status(&self) -> StatusReport {
        self.replica.status()
    }

    /// Asks to stop at a transaction boundary; returns at once. Asked twice is asked once.
    pub fn stop(&self) {
        self.replica.stop();
    }

    /// To be called every now and then while it runs.
    pub fn tend(self: &Arc<Self>) {
        self.replica.tend();
        let Some(name) = self.replica.due_copy() else { return };
        let (handle, table) = (Arc::clone(self), name.clone());
        let copy = move || {
            // The log says how it goes.
            let copied = handle.replica.copy_table(&table, &mut |_| ()).is_ok();
            handle.replica.copied_by_itself(&table, copied);
        };
        if std::thread::Builder::new().name("copy-table".into()).spawn(copy).is_err() {
            self.replica.copied_by_itself(&name, false);
        }
    }

    /// Whether what was kept of the relay log is still being replayed.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.replica.is_recovering()
    }

    /// The outcome once everything has ended, stopped as asked or by a failure; none while running.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<(), Failure>> {
        self.replica.outcome()
    }

    /// Once it has ended: the damage of the relay log it ended at, where another start mends that.
    #[must_use]
    pub fn damage(&self) -> Option<String> {
        self.replica.damage().map(|damage| damage.to_string())
    }

    /// What must be gone before the folder is opened again in this process, and the transactions visible.
    #[must_use]
    pub fn remains(&self) -> (Weak<store::Store>, u64) {
        let store = &self.replica.pipeline.store;
        (Arc::downgrade(store), store.visibility().watermark().0)
    }

    /// Stops replaying at a transaction boundary; receiving goes on.
    ///
    /// # Errors
    /// When replay has failed.
    pub fn pause(&self) -> Result<(), Failure> {
        self.replica.failure().map_or(Ok(()), Err)?;
        self.replica.pipeline.pause();
        Ok(())
    }

    /// Replays again.
    ///
    /// # Errors
    /// When replay has failed.
    pub fn resume(&self) -> Result<(), Failure> {
        self.replica.failure().map_or(Ok(()), Err)?;
        self.replica.pipeline.resume();
        Ok(())
    }

    /// Commits these GTIDs empty from now on. `crate::skip::add` has kept them durably; `all` is the whole set.
    ///
    /// # Errors
    /// When some are executed already: those cannot be skipped any more.
    pub fn skip(&self, more: &GtidSet, all: &GtidSet) -> Result<(), Failure> {
        self.replica.skip(more, all)
    }

    /// Writes rows at the watermark.
    ///
    /// # Errors
    /// A failed write to `out` means that the asker has gone.
    pub fn dump(&self, options: &DumpOptions, out: &mut dyn Write) -> Result<(), Failure> {
        dump_store(&self.replica.pipeline.store, options, out)
    }

    /// Copies one table again and writes how far it is, a line at a time. It goes on when the asker goes away.
    ///
    /// # Errors
    /// Why the table is as it was.
    pub fn copy_table(&self, table: &str, out: &mut dyn Write) -> Result<(), Failure> {
        let mut line = |text: &str| {
            // The log has it too; an asker that is gone does not end the copy.
            let _ = writeln!(out, "{text}").and_then(|()| out.flush());
        };
        let report = self.replica.copy_table(table, &mut line)?;
        line(&report.to_string());
        Ok(())
    }

    /// Compares with the source and writes a line per table.
    ///
    /// # Errors
    /// Code 16 when tables differ.
    pub fn verify(&self, options: &VerifyOptions, out: &mut dyn Write) -> Result<(), Failure> {
        let Ok(_alone) = self.verifying.try_lock() else {
            return Err(Failure::error("another verify is running on this replica; try again when it has ended"));
        };
        let pipeline = &self.replica.pipeline;
        let engine = compare::Engine { store: &pipeline.store, publisher: Some(&pipeline.publisher) };
        let source = match &options.source {
            Some(server) => server.connect_options()?,
            None => self.replica.source_options().ok_or_else(no_server)?,
        };
        verify_engine(&engine, &source, &pipeline.decode_options().filters, options, out)
    }

    /// The folder it runs on.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }
}

/// What the control socket's requests do to a running replica.
#[must_use]
pub fn control_handler(replica: Arc<ReplicaHandle>) -> Handler {
    Arc::new(move |request, out| match request {
        Request::Status {} => match serde_json::to_value(replica.status()) {
            Ok(body) => Reply::with_body(body),
            Err(error) => Reply::failed(&Failure::error(error.to_string())),
        },
        Request::Verify(options) => Reply::from_result(replica.verify(&options, out)),
        Request::Copy { table } => {
            log::write(Code::OperatorCommand, "Control", &format!("copy of {table} asked by operator"));
            Reply::from_result(replica.copy_table(&table, out))
        }
        Request::Dump(options) => Reply::from_result(replica.dump(&options, out)),
        Request::Stop {} => {
            log::write(Code::OperatorStop, "Control", "stop asked by operator");
            replica.stop();
            Reply::done()
        }
        Request::Pause {} => {
            log::write(Code::OperatorCommand, "Control", "pause asked by operator");
            Reply::from_result(replica.pause())
        }
        Request::Resume {} => {
            log::write(Code::OperatorCommand, "Control", "resume asked by operator");
            Reply::from_result(replica.resume())
        }
        Request::Skip { gtid_set } => {
            log::write(Code::OperatorCommand, "Control", &format!("skip asked by operator: {gtid_set}"));
            let skip = || {
                let more = crate::skip::parse(&gtid_set)?;
                let all = crate::skip::add(replica.folder(), &more)?;
                replica.skip(&more, &all)
            };
            Reply::from_result(skip())
        }
    })
}

/// Preflight: writes one message per problem with the statement that fixes it. Changes nothing.
///
/// # Errors
/// Code 4 when replication would be refused.
pub fn check(config: &ReplicaConfig, out: &mut dyn Write) -> Result<(), Failure> {
    crate::receiver::check(config, out)
}

/// Status of a stopped folder.
///
/// # Errors
/// When the folder cannot be read.
pub fn stopped_status(folder: &Folder) -> Result<StatusReport, Failure> {
    Ok(folder.last_status())
}

/// Dump from a stopped folder: its kept relay log is replayed into memory first, as far as that goes.
///
/// # Errors
/// As `ReplicaHandle::dump`; code 7 or 8 after the rows when the relay log is damaged behind them.
pub fn stopped_dump(folder: &Folder, options: &DumpOptions, out: &mut dyn Write) -> Result<(), Failure> {
    let stopped = ReadOnly::open(folder, crate::skip::load(folder)?)?;
    dump_store(&stopped.pipeline.store, options, out)?;
    match stopped.stop.as_ref().map(replica::stop_failure) {
        // The rows above are right, but not all that the folder should hold.
        Some(failure) if matches!(failure.exit, Exit::Corrupt | Exit::Disk) => Err(failure),
        Some(failure) => {
            log::write(Code::ReplayIncomplete, "Dump", &format!("replay ends here: {}", failure.text));
            Ok(())
        }
        None => Ok(()),
    }
}

/// Verify of a stopped folder, at its own GTID set.
///
/// # Errors
/// Code 1 with both sets when the source has moved on; 16 when tables differ.
pub fn stopped_verify(folder: &Folder, options: &VerifyOptions, out: &mut dyn Write) -> Result<(), Failure> {
    let source = options.source.as_ref().ok_or_else(no_server)?.connect_options()?;
    let stopped = ReadOnly::open(folder, crate::skip::load(folder)?)?;
    let engine = compare::Engine { store: &stopped.pipeline.store, publisher: None };
    verify_engine(&engine, &source, &stopped.pipeline.decode_options().filters, options, out)
}

/// Compares any two MySQL-protocol servers.
///
/// # Errors
/// Code 16 when tables differ.
pub fn verify_servers(
    source: &ServerOptions,
    replica: &ServerOptions,
    options: &VerifyOptions,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (source, replica) = (source.connect_options()?, replica.connect_options()?);
    verified(options, out, |out| compare::verify_servers(&source, &replica, &compare_options(options), out))
}

fn no_server() -> Failure {
    Failure::usage("verify needs a server to compare with: give --source mysql://USER@HOST:PORT")
}

fn dump_store(store: &Arc<store::Store>, options: &DumpOptions, out: &mut dyn Write) -> Result<(), Failure> {
    store.readable().map_err(|error| replica::store_failure(&error))?;
    let snapshot = store::Snapshot::pin(store);
    if options.definitions {
        let executed = snapshot.executed().to_string();
        return compare::dump_definitions(snapshot.catalog(), &executed, out).map(|_| ()).map_err(compare_failure);
    }
    refuse_quarantined(snapshot.catalog(), &options.tables)?;
    let options = compare::DumpOptions {
        tables: compare::TableFilter::parse(&options.tables),
        format: match options.format {
            DumpFormat::Sql => compare::DumpFormat::Sql,
            DumpFormat::Tab => compare::DumpFormat::Tab,
        },
        binary_as_hex: options.binary_as_hex,
        all_columns: options.all_columns,
    };
    compare::dump(&snapshot, store, &options, out).map_err(compare_failure)?;
    out.flush().map_err(|error| crate::control::output_failure(&error))
}

/// Tables that wait for their copy are not left out in silence.
fn refuse_quarantined(catalog: &catalog::Catalog, names: &[String]) -> Result<(), Failure> {
    let tables = replica::quarantined(catalog, names);
    if tables.is_empty() {
        return Ok(());
    }
    let text = format!("tables that are being copied again cannot be read yet, name the others: {}", tables.join("; "));
    Err(Failure::error(text))
}

fn compare_options(options: &VerifyOptions) -> compare::VerifyOptions {
    compare::VerifyOptions {
        tables: compare::TableFilter::parse(&options.tables),
        max_rows_shown: usize::try_from(options.differences_max).unwrap_or(usize::MAX),
        ..compare::VerifyOptions::default()
    }
}

fn verify_engine(
    engine: &compare::Engine<'_>,
    source: &source::ConnectOptions,
    filters: &Arc<base::ReplicationFilters>,
    options: &VerifyOptions,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    engine.store.readable().map_err(|error| replica::store_failure(&error))?;
    refuse_quarantined(&engine.store.visibility().current().catalog, &options.tables)?;
    let mut wanted = compare_options(options);
    wanted.tables = wanted.tables.of(filters);
    verified(options, out, |out| compare::verify_store(engine, source, &wanted, out))
}

fn verified(
    options: &VerifyOptions,
    out: &mut dyn Write,
    compare: impl FnOnce(&mut dyn Write) -> Result<compare::VerifyReport, compare::CompareError>,
) -> Result<(), Failure> {
    let report = if options.json { compare(&mut std::io::sink()) } else { compare(out) }.map_err(compare_failure)?;
    if options.json {
        let text = serde_json::to_string_pretty(&verify_json(&report)).unwrap_or_default();
        writeln!(out, "{text}").map_err(|error| crate::control::output_failure(&error))?;
    }
    if report.equal() {
        return Ok(());
    }
    Err(Failure::new(Exit::VerifyDifferences, format!("{} tables differ", report.different())))
}

fn verify_json(report: &compare::VerifyReport) -> serde_json::Value {
    let side = |side: &compare::SideTotals| json!({ "rows": side.rows, "bytes": side.bytes, "chunks": side.chunks });
    let row = |row: &compare::RowDifference| {
        let columns: Vec<_> =
            row.columns.iter().map(|c| json!({ "column": c.column, "source": c.source, "here": c.here })).collect();
        json!({
            "key": row.key, "source_copies": row.source_copies, "here_copies": row.here_copies, "columns": columns,
        })
    };
    let table = |table: &compare::TableReport| {
        json!({
            "db": table.db, "table": table.table, "equal": table.equal(), "problem": table.problem,
            "source": side(&table.source), "here": side(&table.here), "differing_chunks": table.differing_chunks,
            "rows_only_source": table.rows_only_source, "rows_only_here": table.rows_only_here,
            "rows_different": table.rows_different, "rows": table.shown.iter().map(row).collect::<Vec<_>>(),
        })
    };
    json!({
        "equal": report.equal(),
        "gtid_set": report.executed.as_ref().map(ToString::to_string),
        "lock_ms": report.lock_ms,
        "prepared_xa": report.prepared_xa,
        "notes": report.notes,
        "tables": report.tables.iter().map(table).collect::<Vec<_>>(),
    })
}

fn compare_failure(error: compare::CompareError) -> Failure {
    let exit = match error.class() {
        compare::ErrorClass::NotSupported => Exit::NotSupported,
        compare::ErrorClass::Corrupt => Exit::Corrupt,
        compare::ErrorClass::Io => Exit::Disk,
        compare::ErrorClass::Error => Exit::Error,
    };
    Failure::new(exit, error.to_string())
}

/// Replays recorded files and prints the figures.
///
/// # Errors
/// When a file cannot be read or replay stops.
pub fn lab_replay(options: &LabReplayOptions, out: &mut dyn Write) -> Result<(), Failure> {
    let scratch = std::env::temp_dir().join(format!("slipstream-lab-replay-{}", std::process::id()));
    let cores = replica::cores();
    let plan = options.memory.map(|memory| MemoryPlan::of(memory, options.pipeline.queue_memory));
    if let Some(plan) = plan {
        base::allocator::suit(plan.limit_bytes);
    }
    let report = lab::replay::replay(&lab::replay::ReplayOptions {
        logs: options.logs.clone(),
        load: options.load.clone(),
        pace: options.pace,
        samples: options.samples,
        reads: options.reads,
        folder: options.folder.clone().unwrap_or(scratch),
        workers: if options.pipeline.workers == 0 { cores } else { options.pipeline.workers },
        decoders: match options.pipeline.decoders {
            0 if options.scheduler_decodes => 0,
            0 => (cores / 2).max(1),
            decoders => decoders,
        },
        affinity: options.pipeline.affinity.clone(),
        grain: options.grain,
        memory_bytes: plan.map_or(options.pipeline.queue_memory, |plan| plan.queue_bytes),
        hot_bytes_max: plan.map(|plan| plan.hot_bytes),
        on_disk: plan.map(|plan| lab::replay::OnDisk {
            memory_bytes: plan.limit_bytes,
            generation_bytes: plan.generation_bytes,
            cache_bytes: plan.cache_bytes,
        }),
        check_images: replica::check_images(options.pipeline.check_images),
        relay_sync: replica::sync_policy(options.relay_sync),
        hash: options.hash,
    })
    .map_err(|error| lab_failure(&error))?;
    let text =
        if options.json { serde_json::to_string_pretty(&report).unwrap_or_default() } else { report.to_string() };
    writeln!(out, "{text}").map_err(|e| crate::control::output_failure(&e))
}

/// The failure behind a lab command's error, with its exit code.
fn lab_failure(error: &anyhow::Error) -> Failure {
    if let Some(stop) = error.downcast_ref::<decode::Stop>() {
        return replica::stop_failure(stop);
    }
    let exit = error.chain().find_map(|cause| {
        let binlog = cause.downcast_ref().map(crate::receiver::binlog_exit);
        binlog.or_else(|| cause.downcast_ref().map(replica::relay_exit))
    });
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // Some errors name their cause themselves.
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    Failure::new(exit.unwrap_or(Exit::Error), text)
}
