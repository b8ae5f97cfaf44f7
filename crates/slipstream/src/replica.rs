//! A running replica: relay log, receiver, pipeline, and what others may ask of them.
//!
//! In: a configuration and a data folder this process owns. Out: a store that follows the source, its status, and why
//! it stopped. Never here: how rows are decoded or applied.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use apply::{ApplyOptions, CutOptions, CutWait, Pipeline, PipelineOptions, lanes_for};
use base::{GtidSet, LogPosition};
use catalog::Catalog;
use decode::{SkipList, Stop, StopClass};
use observe::fail_point::{self, Phase};
use observe::{
    Backlog, ConnectionState, DiskReport, ErrorReport, GtidReport, LagReport, MemoryReport, PositionReport,
    ProcessFacts, RateMeter, RatesReport, ReplayReport, ReplayState, SourceReport, StatusReport, StoreReport, now_us,
    utc_text,
};
use relay_log::{
    OnDamage, ReaderOptions, RelayError, RelayFiles, RelayLog, RelayOptions, RelayPosition, RelayReader, RelayShared,
    RelaySync as RelaySyncHandle, SyncPolicy,
};
use store::{Disk, DiskOptions, Recovered, SnapshotLimits, Store, StoreError};

use crate::config::{CheckImages, CopyConfig, RelaySync, ReplicaConfig, SourceSpec};
use crate::due_copies::DueCopies;
use crate::exit::{Exit, FREE_SPACE, Failure};
use crate::folder::Folder;
use crate::initial_copy::{self, CopyFailure};
use crate::lock::{FolderLock, OpeningLock};
use crate::log::{self, Code};
use crate::memory::MemoryPlan;
use crate::receiver::{self, Receiver, SourceFacts};
use crate::table_copy::{self, TableCopy, TableCopyReport};

/// What the receiver and the rest tell each other.
pub struct Link {
    state: Mutex<LinkState>,
    /// Source clock minus ours, µs.
    pub clock_difference_us: Arc<AtomicI64>,
    /// Half the round trip of that measurement.
    pub clock_error_us: AtomicU64,
    /// Bytes of log received.
    pub received: RateMeter,
    /// The receiver must end.
    pub stopping: AtomicBool,
}

/// What the receiver knows.
#[derive(Default)]
pub struct LinkState {
    /// See there.
    pub connection: ConnectionState,
    /// What the source said of itself.
    pub facts: SourceFacts,
    /// TLS version and cipher.
    pub tls: Option<String>,
    /// Whether the source waits for our acknowledgements.
    pub semi_sync: bool,
    /// Since when connected or trying, µs.
    pub since_us: u64,
    /// Connections made again.
    pub reconnects: u64,
    /// When the last event or heartbeat came, µs.
    pub last_received_us: u64,
    /// In the relay log.
    pub retrieved: GtidSet,
    /// Where in the source's log that ends.
    pub source_position: Option<String>,
    /// Transactions taken since the start.
    pub received_transactions: u64,
    /// When the clocks were compared, µs.
    pub clock_measured_us: u64,
    /// The last error.
    pub last_error: Option<ErrorReport>,
    /// The receiver ended for good.
    pub failure: Option<Failure>,
    /// All files of a file source are read.
    pub files_done: bool,
    /// Breaks a blocked read.
    pub interrupter: Option<source::Interrupter>,
}

impl Link {
    fn new() -> Arc<Link> {
        Arc::new(Link {
            state: Mutex::new(LinkState::default()),
            clock_difference_us: Arc::new(AtomicI64::new(0)),
            clock_error_us: AtomicU64::new(0),
            received: RateMeter::new(),
            stopping: AtomicBool::new(false),
        })
    }

    /// The state, for a moment.
    pub fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an error for status and log.
    pub fn note_error(&self, failure: &Failure) {
        self.lock().last_error = Some(ErrorReport {
            at: utc_text(now_us()),
            exit: failure.exit.code(),
            number: failure.number,
            text: failure.text.clone(),
            way_on: failure.way_on.clone(),
        });
    }
}

/// See the module.
pub struct Replica {
    data: PathBuf,
    shown_source: String,
    source_options: Option<source::ConnectOptions>,
    server_id: u32,
    server_uuid: String,
    queue_limit_bytes: u64,
    memory_limit_bytes: u64,
    last_cut: Arc<Mutex<LastCut>>,
    started: Instant,
    /// Rows, watermark, ledger.
    pub pipeline: Pipeline,
    link: Arc<Link>,
    relay: Arc<RelayShared>,
    relay_sync: Option<Arc<RelaySyncHandle>>,
    receiver: Mutex<Option<JoinHandle<()>>>,
    stopping: AtomicBool,
    skip: SkipList,
    recovered: GtidSet,
    recovered_sequence: u64,
    began: Instant,
    /// Whether the log says how long recovery took; nothing to say of an empty folder.
    recovery_said: AtomicBool,
    /// Whether the log says when a copy without a lock is exact; nothing to say of others.
    settled_said: AtomicBool,
    copy_config: CopyConfig,
    folder: Folder,
    copy_buffer_bytes: u64,
    /// One table at a time.
    copying_table: Mutex<()>,
    /// How far it is.
    table_copy: Mutex<String>,
    tables_copied: AtomicU64,
    tables_copied_by_itself: AtomicU64,
    due: Mutex<DueCopies>,
}

/// Quarantined tables (of these names, `SCHEMA.TABLE`; none: all) with the reason.
#[must_use]
pub fn quarantined(catalog: &Catalog, names: &[String]) -> Vec<String> {
    let filter = source::TableFilter::parse(names);
    let lower = catalog.lower_case_table_names();
    let meant = catalog.quarantined().filter(|(db, name, _)| filter.matches(db, name, lower));
    meant.map(|(db, name, why)| format!("`{db}`.`{name}`: {why}")).collect()
}

/// What a stopped folder is opened for.
pub struct ReadOnly {
    /// The store, filled to the end of the relay log.
    pub pipeline: Pipeline,
    /// Where it stopped early, if it did.
    pub stop: Option<Stop>,
    relay_bytes: u64,
    data: PathBuf,
    retrieved: GtidSet,
    skip: SkipList,
}

impl Replica {
    /// Opens store and relay log, connects to the source, copies it where that is needed, starts replay. The caller
    /// owns the folder (lock, format).
    ///
    /// # Errors
    /// When the source cannot be used (preflight), or the folder's files cannot.
    pub fn start(
        config: &ReplicaConfig,
        folder: &Folder,
        lock: &FolderLock,
        skip: GtidSet,
    ) -> Result<Replica, Failure> {
        let began = Instant::now();
        let memory = MemoryPlan::of(config.memory, config.pipeline.queue_memory);
        base::allocator::suit(memory.limit_bytes);
        table_copy::note_abandoned(folder)?;
        let opening = Opening { config, folder, lock, memory };
        let Opened { link, disk, recovered, relay, relay_sync, recovery, lower_case_table_names, receiver } =
            opening.open()?;
        let skip = SkipList::new(skip);
        let mut tail = RelayReader::open_at(Arc::clone(&relay), &recovery.start, ReaderOptions::REPLAY);
        let workers = if config.pipeline.workers == 0 { cores() } else { config.pipeline.workers };
        let catalog = Catalog::new(lower_case_table_names);
        let recovered_sequence = recovered.as_ref().map_or(0, |recovered| recovered.sequence);
        let had_something = recovered.is_some() || !recovery.files.is_empty();
        let store = Store::over(lanes_for(workers), disk, folder.scratch(), recovered, catalog);
        let last_cut = Arc::new(Mutex::new(LastCut::default()));
        let cuts = CutOptions {
            generation_bytes: memory.generation_bytes,
            interval: config.cut_interval,
            sync_relay: sync_relay(&relay_sync),
            after_cut: after_cut(&relay, config.relay_log_expire, &last_cut),
        };
        let store = Arc::new(store.map_err(|error| store_failure(&error))?);
        let bytes = if config.snapshot_memory == 0 { memory.snapshot_bytes } else { config.snapshot_memory };
        store.visibility().limit_snapshots(SnapshotLimits { bytes, age: config.snapshot_age });
        let settling = store.readable();
        if let Err(error) = &settling {
            log::write(Code::CopyFoundNotConsistent, "Copy", &error.to_string());
        }
        let pipeline = Pipeline::start(
            Box::new(move |timeout| tail.next(timeout)),
            PipelineOptions {
                quarantine: matches!(config.source, SourceSpec::Server(_)),
                filters: Arc::clone(&config.filters),
                decoders: if config.pipeline.decoders == 0 { (cores() / 2).max(1) } else { config.pipeline.decoders },
                workers,
                memory_bytes: memory.queue_bytes,
                apply: ApplyOptions { check_images: check_images(config.pipeline.check_images) },
                skip: skip.clone(),
                store,
                cuts: Some(cuts),
                clock_difference_us: Arc::clone(&link.clock_difference_us),
                affinity: config.pipeline.affinity.clone(),
            },
        );
        if let SourceSpec::Server(_) = config.source {
            receiver::watch_clock(config, &link);
        }
        Ok(Replica {
            data: config.data.clone(),
            shown_source: config.source.shown(),
            source_options: match &config.source {
                SourceSpec::Server(server) => Some(server.connect_options()?),
                SourceSpec::Files(_) => None,
            },
            server_id: config.server_id.unwrap_or_else(|| folder.default_server_id()),
            server_uuid: folder.server_uuid().to_string(),
            queue_limit_bytes: memory.queue_bytes,
            memory_limit_bytes: memory.limit_bytes,
            last_cut,
            started: Instant::now(),
            pipeline,
            link,
            relay,
            relay_sync: Some(relay_sync),
            receiver: Mutex::new(Some(receiver)),
            stopping: AtomicBool::new(false),
            skip,
            recovered: recovery.retrieved,
            recovered_sequence,
            began,
            recovery_said: AtomicBool::new(!had_something),
            settled_said: AtomicBool::new(settling.is_ok()),
            copy_config: config.copy,
            folder: folder.clone(),
            copy_buffer_bytes: memory.generation_bytes / (4 * config.copy.connections.max(1) as u64),
            copying_table: Mutex::new(()),
            table_copy: Mutex::new(String::new()),
            tables_copied: AtomicU64::new(0),
            tables_copied_by_itself: AtomicU64::new(0),
            due: Mutex::new(DueCopies::new(Instant::now())),
        })
    }

    /// Asks receiver and replay to end at a transaction boundary.
    pub fn stop(&self) {
        if !self.stopping.swap(true, Ordering::AcqRel) {
            self.pipeline.stop();
            self.relay.end_space_wait();
            self.link.stopping.store(true, Ordering::Release);
            if let Some(interrupter) = &self.link.lock().interrupter {
                interrupter.shutdown();
            }
        }
    }

    /// Why the replica cannot go on, if so.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let replay = self.pipeline.failure().map(|stop| self.stop_failure(&stop));
        replay.or_else(|| self.link.lock().failure.clone())
    }

    /// The stop with this replica's folder and source in the command that leads on.
    fn stop_failure(&self, stop: &Stop) -> Failure {
        let mut failure = stop_failure(stop);
        failure.way_on = failure.way_on.map(|command| {
            let data = format!("--data {}", self.data.display());
            let source = format!("--source {}", crate::config::mask_passwords(&self.shown_source));
            command.replace("--data DIR", &data).replace("--source URL", &source)
        });
        failure
    }

    /// The outcome once receiver and replay have ended; None while they run. A failure of either ends the other.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<(), Failure>> {
        if self.pipeline.failure().is_some() {
            self.stop();
        }
        let receiving = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.pipeline.is_finished() || receiving.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return None;
        }
        Some(self.failure().map_or(Ok(()), Err))
    }

    /// Why replay stopped, where that is a damaged relay log that the source can be asked for again: the next start
    /// cuts it back. None too when what is wrong is what the source sent.
    #[must_use]
    pub fn damage(&self) -> Option<relay_log::Damage> {
        let stop = self.pipeline.failure().filter(|stop| stop.class == StopClass::Corrupt)?;
        self.source_options.as_ref()?;
        // The damage lies behind all that is visible, in front of where replay stopped or there.
        let visible = self.pipeline.publisher.status().position;
        let from = visible.as_ref().and_then(RelayPosition::of).or_else(|| {
            let (file_number, _) = *self.relay.files().first()?;
            Some(RelayPosition { file_number, offset: 0 })
        });
        match self.relay.find_damage(from.unwrap_or_default()) {
            Ok(damage) => damage,
            Err(error) => {
                log::write(
                    Code::DamageSearchFailed,
                    "Relay",
                    &format!("cannot look for damage behind '{stop}': {error}"),
                );
                None
            }
        }
    }

    /// How to reach the source; None for files.
    #[must_use]
    pub fn source_options(&self) -> Option<source::ConnectOptions> {
        self.source_options.clone()
    }

    /// Copies one table (`SCHEMA.TABLE`) again while everything else goes on; `say` is told how far it is. Returns when
    /// the copy is durable and stands in the table's place.
    ///
    /// # Errors
    /// Why the table is as it was; code 2 for a name that is none.
    pub fn copy_table(&self, name: &str, say: &mut dyn FnMut(&str)) -> Result<TableCopyReport, Failure> {
        let Some(source) = &self.source_options else {
            return Err(Failure::usage("files cannot be asked for a table's rows: this needs a server as source"));
        };
        self.failure().map_or(Ok(()), Err)?;
        if self.pipeline.is_paused() {
            return Err(Failure::error("replay is paused, and a copy takes its place between its transactions")
                .with_way_on(format!("slipstream resume --data {}", self.data.display())));
        }
        let Ok(_alone) = self.copying_table.try_lock() else {
            return Err(Failure::error("a table is being copied on this replica; try again when it has ended"));
        };
        let shown = |line: &str| line.clone_into(&mut self.table_copy.lock().unwrap_or_else(PoisonError::into_inner));
        shown(name);
        let copy = TableCopy {
            pipeline: &self.pipeline,
            relay: &self.relay,
            source,
            config: &self.copy_config,
            folder: &self.folder,
            buffer_bytes: self.copy_buffer_bytes,
            stop: &self.stopping,
        };
        let result = copy.run(name, &mut |line| {
            shown(&format!("{name}: {line}"));
            say(line);
        });
        shown("");
        if result.is_ok() {
            self.tables_copied.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// A quarantined table whose copy is due; it counts as being copied until `copied_by_itself` is told how that went.
    #[must_use]
    pub fn due_copy(&self) -> Option<String> {
        self.source_options.as_ref()?;
        if self.stopping.load(Ordering::Acquire) {
            return None;
        }
        let catalog = self.pipeline.store.visibility().current().catalog;
        let writes = self.pipeline.decode_options().writes;
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, why) = due.look(Instant::now(), &catalog, &writes)?;
        let text = format!("{name} cannot be read before it is copied again, which begins now: {why}");
        log::write(Code::TableInQuarantine, "Copy", &text);
        Some(name)
    }

    /// How the copy of a quarantined table went.
    pub fn copied_by_itself(&self, name: &str, copied: bool) {
        self.due.lock().unwrap_or_else(PoisonError::into_inner).copied(Instant::now(), name, copied);
        if copied {
            self.tables_copied_by_itself.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Leaves out `all` from now on.
    ///
    /// # Errors
    /// When some of `more` are visible already.
    pub fn skip(&self, more: &GtidSet, all: &GtidSet) -> Result<(), Failure> {
        let late = more.intersection(&self.pipeline.store.visibility().executed());
        self.skip.replace(all.clone());
        if late.is_empty() {
            return Ok(());
        }
        Err(Failure::error(format!("executed already, cannot be skipped any more: {late}")))
    }

    /// Looks after what no thread of its own does: a receiver that waits for relay log space is helped by a cut.
    pub fn tend(&self) {
        if !self.recovery_said.load(Ordering::Relaxed) {
            let visible = self.pipeline.store.visibility().current();
            if self.recovered.is_subset_of(&visible.executed) {
                self.recovery_said.store(true, Ordering::Relaxed);
                let replayed = visible.sequence.0.saturating_sub(self.recovered_sequence);
                let text = format!(
                    "recovered in {} ms: {replayed} transactions of the kept relay log were replayed behind the cut",
                    self.began.elapsed().as_millis()
                );
                log::write(Code::Recovered, "Store", &text);
            }
        }
        let (skipped, more) = self.skip.take_skipped(&self.pipeline.store.visibility().executed());
        for one in skipped {
            let text = format!("{} was committed empty, as the operator asked; it held {}", one.gtid, one.held);
            log::write(Code::Skipped, "Replay", &text);
        }
        if more > 0 {
            log::write(Code::Skipped, "Replay", &format!("{more} more transactions were committed empty"));
        }
        if !self.settled_said.load(Ordering::Relaxed) && self.pipeline.store.readable().is_ok() {
            self.settled_said.store(true, Ordering::Relaxed);
            log::write(Code::CopyConsistent, "Copy", "the copy taken without a lock is exact now; rows can be read");
        }
        if self.relay.space().waiting.is_some() {
            self.pipeline.ask_for_cut();
        }
    }

    /// Whether what was kept of the relay log is still being replayed.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        !self.recovery_said.load(Ordering::Relaxed)
    }

    /// What replay waits for, in words; empty when nothing.
    fn waits_for(&self) -> String {
        if self.relay.space().waiting.is_some() {
            return "receiving waits for relay log space".into();
        }
        match self.pipeline.waits_for() {
            CutWait::None => self.pipeline.store.readable().map_or_else(|error| error.to_string(), |()| String::new()),
            CutWait::Cut => "waiting for a cut".into(),
            CutWait::Compaction => "waiting for compaction".into(),
        }
    }

    fn store_report(&self, stats: &store::StoreStats) -> StoreReport {
        let last = self.last_cut.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let tree = stats.disk.unwrap_or_default();
        StoreReport {
            last_cut: self.pipeline.store.last_cut(),
            last_cut_at: (last.at_us > 0).then(|| utc_text(last.at_us)),
            cuts: last.cuts,
            sealed_generations: stats.sealed,
            tree_bytes: tree.bytes,
            written_bytes: tree.written_bytes,
            compaction_debt_bytes: tree.debt_bytes,
            compaction_debt_runs: tree.debt_runs,
            l0_runs: tree.l0_runs,
            compactions: tree.compactions,
        }
    }

    fn backlog(&self, transactions: u64, queue_bytes: u64, lag_us: Option<u64>, now_us: u64) -> Backlog {
        let bytes = self.relay.unread_bytes() + queue_bytes;
        // Nearer to the source, replay is as fast as the source and not as it can be.
        let behind = transactions > 0 && lag_us.is_none_or(|lag_us| lag_us >= 1_000_000) && !self.pipeline.is_paused();
        let replayed = if behind { self.pipeline.rates.bytes_per_s_now(now_us) } else { None };
        let received_per_s = self.link.received.bytes_per_s_now(now_us).unwrap_or(0.0);
        let catch_up_us = replayed.and_then(|per_s| Backlog::catch_up_us_of(bytes, per_s, received_per_s));
        Backlog { transactions, bytes, catch_up_us }
    }

    /// What `slipstream status` shows.
    #[must_use]
    pub fn status(&self) -> StatusReport {
        let now = now_us();
        let publisher = self.pipeline.publisher.status();
        let link = self.link.lock();
        let visible = self.pipeline.store.visibility().current();
        let stats = self.pipeline.store.stats();
        let process = ProcessFacts::read();
        let relay_bytes = self.relay.total_bytes();
        let mut waiting = link.retrieved.subtract(&visible.executed).count();
        waiting = waiting.max(publisher.pending_transactions);
        let queue_bytes = self.pipeline.gate.used();
        let failed = self.pipeline.failure();
        let state = if failed.is_some() {
            ReplayState::Failed
        } else if self.stopping.load(Ordering::Acquire) {
            ReplayState::Stopping
        } else if self.pipeline.is_paused() {
            ReplayState::Paused
        } else if !self.recovered.is_subset_of(&visible.executed) {
            ReplayState::Recovering
        } else if waiting == 0 {
            ReplayState::CaughtUp
        } else {
            ReplayState::Running
        };
        let clock = self.link.clock_difference_us.load(Ordering::Relaxed);
        let current_us = match (link.connection, state) {
            (ConnectionState::Connected | ConnectionState::Files, ReplayState::CaughtUp) => Some(0),
            (_, ReplayState::CaughtUp) => None,
            (_, ReplayState::Failed | ReplayState::Stopping | ReplayState::Stopped) => None,
            _ => self
                .pipeline
                .oldest_pending_commit_us()
                .map(|commit| now.saturating_add_signed(clock).saturating_sub(commit))
                .or_else(|| self.pipeline.lag.last().map(|(lag, _)| lag)),
        };
        let to_skip = self.skip.current().subtract(&visible.executed);
        StatusReport {
            version: env!("CARGO_PKG_VERSION").into(),
            at: utc_text(now),
            running: true,
            pid: Some(std::process::id()),
            uptime_us: self.started.elapsed().as_micros() as u64,
            data: self.data.display().to_string(),
            server_id: self.server_id,
            server_uuid: self.server_uuid.clone(),
            source: SourceReport {
                uri: self.shown_source.clone(),
                state: link.connection,
                server_version: link.facts.version.clone(),
                server_id: link.facts.server_id,
                server_uuid: link.facts.server_uuid.clone(),
                tls: link.tls.clone(),
                semi_sync: link.semi_sync,
                since: (link.since_us > 0).then(|| utc_text(link.since_us)),
                reconnects: link.reconnects,
                last_received: (link.last_received_us > 0).then(|| utc_text(link.last_received_us)),
            },
            replay: ReplayReport {
                state,
                detail: self.waits_for(),
                barriers: self.pipeline.barriers.load(Ordering::Relaxed) as u64,
                tables: visible.catalog.tables().count() as u64,
                rows: stats.memory.rows,
                table_copy: self.table_copy.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                tables_copied: self.tables_copied.load(Ordering::Relaxed),
                tables_copied_by_itself: self.tables_copied_by_itself.load(Ordering::Relaxed),
                quarantined: quarantined(&visible.catalog, &[]),
            },
            gtid: GtidReport {
                retrieved: link.retrieved.to_string(),
                executed: visible.executed.to_string(),
                to_skip: to_skip.to_string(),
            },
            position: PositionReport {
                source_received: link.source_position.clone(),
                source_executed: if waiting == 0 { link.source_position.clone() } else { None },
                relay_received: self.relay_sync.as_ref().map(|sync| {
                    let end = sync.written();
                    format!("{}:{}", relay_log::file_name(end.file_number), end.offset)
                }),
                relay_executed: publisher.position.map(|end| end.to_string()),
                watermark: visible.sequence.0,
            },
            lag: LagReport {
                current_us,
                overall: self.pipeline.lag.overall(),
                last_1s: self.pipeline.lag.last_seconds(1, now),
                last_10s: self.pipeline.lag.last_seconds(10, now),
                clock_difference_us: (link.clock_measured_us > 0).then_some(clock),
                clock_error_us: (link.clock_measured_us > 0).then(|| self.link.clock_error_us.load(Ordering::Relaxed)),
                clock_measured: (link.clock_measured_us > 0).then(|| utc_text(link.clock_measured_us)),
            },
            backlog: self.backlog(waiting, queue_bytes, current_us, now),
            rates: RatesReport {
                last_1s: self.pipeline.rates.last_seconds(1, now),
                last_10s: self.pipeline.rates.last_seconds(10, now),
                total: self.pipeline.rates.total(),
            },
            last_error: failed.map(|stop| error_report(&self.stop_failure(&stop))).or_else(|| link.last_error.clone()),
            ledger: self.pipeline.ledger.snapshot(binlog::event_type::name),
            memory: MemoryReport {
                rss_bytes: process.rss_bytes,
                rss_peak_bytes: process.rss_peak_bytes,
                store_bytes: stats.memory.bytes,
                limit_bytes: self.memory_limit_bytes,
                queue_bytes,
                queue_limit_bytes: self.queue_limit_bytes,
            },
            store: self.store_report(&stats),
            disk: disk(&self.data, relay_bytes),
            cpu_us: process.cpu_us,
            threads: process.threads,
        }
    }
}

impl ReadOnly {
    /// Reads a stopped replica's folder into a store: for `status`, `dump` and `verify`. Changes nothing but that files
    /// of the store which its current version does not name are removed.
    ///
    /// # Errors
    /// When the relay log cannot be read.
    pub fn open(folder: &Folder, skip: GtidSet) -> Result<ReadOnly, Failure> {
        let disk_options = DiskOptions { cache_bytes: 64 << 20 };
        let opening = OpeningLock::take(&folder.store())?;
        let kept = Disk::open_existing(&folder.store(), disk_options).map_err(|error| store_failure(&error))?;
        drop(opening);
        let (executed, resume_at) = match &kept {
            Some((_, recovered)) => (recovered.executed.clone(), recovered_position(recovered)),
            None => (GtidSet::new(), None),
        };
        let (files, recovery) =
            RelayFiles::open_read_only_for(folder.relay_log(), &executed, resume_at.as_ref()).map_err(relay_failure)?;
        let data = folder.path();
        let catalog = Catalog::new(receiver::known_lower_case_table_names(data));
        let workers = cores();
        let store = match kept {
            Some((disk, recovered)) => Store::read_only(lanes_for(workers), disk, recovered),
            None => Store::new(lanes_for(workers), catalog),
        };
        let skip = SkipList::new(skip);
        let mut tail = files.reader_at(&recovery.start);
        let pipeline = Pipeline::start(
            Box::new(move |timeout| tail.next(timeout)),
            PipelineOptions {
                // As the running replica did and will do.
                quarantine: true,
                filters: Arc::new(folder.filters()?),
                decoders: 1,
                workers,
                memory_bytes: 256 << 20,
                apply: ApplyOptions { check_images: store::CheckImages::All },
                skip: skip.clone(),
                store: Arc::new(store),
                cuts: None,
                clock_difference_us: Arc::new(AtomicI64::new(0)),
                affinity: base::ThreadAffinity::default(),
            },
        );
        while !pipeline.is_finished() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let stop = pipeline.failure();
        Ok(ReadOnly {
            stop,
            relay_bytes: files.total_bytes(),
            pipeline,
            data: data.to_path_buf(),
            retrieved: recovery.retrieved,
            skip,
        })
    }

    /// What `slipstream status` shows of a stopped replica.
    #[must_use]
    pub fn status(&self) -> StatusReport {
        let visible = self.pipeline.store.visibility().current();
        let stats = self.pipeline.store.stats();
        StatusReport {
            version: env!("CARGO_PKG_VERSION").into(),
            at: utc_text(now_us()),
            running: false,
            data: self.data.display().to_string(),
            replay: ReplayReport {
                state: ReplayState::Stopped,
                detail: String::new(),
                tables: visible.catalog.tables().count() as u64,
                rows: stats.memory.rows,
                ..ReplayReport::default()
            },
            gtid: GtidReport {
                retrieved: self.retrieved.to_string(),
                executed: visible.executed.to_string(),
                to_skip: self.skip.current().subtract(&visible.executed).to_string(),
            },
            backlog: Backlog { transactions: self.retrieved.subtract(&visible.executed).count(), ..Backlog::default() },
            position: PositionReport {
                relay_executed: Some(self.pipeline.position().to_string()),
                watermark: visible.sequence.0,
                ..PositionReport::default()
            },
            last_error: self.stop.as_ref().map(|stop| error_report(&stop_failure(stop))),
            ledger: self.pipeline.ledger.snapshot(binlog::event_type::name),
            disk: disk(&self.data, self.relay_bytes),
            ..StatusReport::default()
        }
    }
}

fn disk(data: &Path, relay_log_bytes: u64) -> DiskReport {
    let free = rustix::fs::statvfs(data).ok().map(|fs| fs.f_bavail * fs.f_frsize);
    DiskReport { folder_bytes: observe::folder_bytes(data), relay_log_bytes, free_bytes: free }
}

fn error_report(failure: &Failure) -> ErrorReport {
    ErrorReport {
        at: utc_text(now_us()),
        exit: failure.exit.code(),
        number: failure.number,
        text: failure.text.clone(),
        way_on: failure.way_on.clone(),
    }
}

/// What a start begins with.
struct Opening<'a> {
    config: &'a ReplicaConfig,
    folder: &'a Folder,
    lock: &'a FolderLock,
    memory: MemoryPlan,
}

/// Store and relay log, and a receiver that feeds the latter.
struct Opened {
    link: Arc<Link>,
    disk: Disk,
    recovered: Option<Recovered>,
    relay: Arc<RelayShared>,
    relay_sync: Arc<RelaySyncHandle>,
    recovery: relay_log::Recovery,
    lower_case_table_names: u8,
    receiver: JoinHandle<()>,
}

impl Opening<'_> {
    fn open(&self) -> Result<Opened, Failure> {
        let (disk, recovered) = self.open_disk()?;
        if recovered.is_none() && initial_copy::is_marked(self.folder) {
            initial_copy::remove_relay_log(self.folder)?;
            log::write(
                Code::InitialCopyRemoved,
                "Copy",
                "an initial copy did not come to its end; what there was of it is removed",
            );
        }
        let is_empty = recovered.is_none() && !initial_copy::has_relay_log(&self.folder.relay_log());
        self.folder.keep_filters(&self.config.filters, is_empty)?;
        if recovered.is_none()
            && let SourceSpec::Server(server) = &self.config.source
            && !initial_copy::has_relay_log(&self.folder.relay_log())
            && initial_copy::is_needed(self.config, self.folder, server)?
        {
            return self.copy(server, disk);
        }
        // No copy follows the one that was removed: what is received from here on must survive the next start.
        if initial_copy::is_marked(self.folder) {
            initial_copy::unmark(self.folder)?;
        }
        self.open_relay(disk, recovered)
    }

    fn open_disk(&self) -> Result<(Disk, Option<Recovered>), Failure> {
        let options = DiskOptions { cache_bytes: self.memory.cache_bytes };
        Disk::open(&self.folder.store(), options).map_err(|error| store_failure(&error))
    }

    /// Copies the source; receiving begins at the copy's GTID set, beside it.
    fn copy(&self, server: &crate::config::ServerOptions, disk: Disk) -> Result<Opened, Failure> {
        let mut disk = Some(disk);
        let mut tries = 0;
        loop {
            tries += 1;
            let empty = match disk.take() {
                Some(disk) => disk,
                None => self.open_disk()?.0,
            };
            let failed = match self.copy_once(server, empty)? {
                Ok(opened) => return Ok(opened),
                Err(error) => error,
            };
            if let Some(failure) = initial_copy::hopeless(&failed, tries) {
                return Err(failure);
            }
            let pause = initial_copy::pause_after(tries);
            let text = format!("{failed}; beginning anew in {} ms (try {})", pause.as_millis(), tries + 1);
            log::write(Code::InitialCopyRetried, "Copy", &text);
            std::thread::sleep(pause);
        }
    }

    fn copy_once(
        &self,
        server: &crate::config::ServerOptions,
        disk: Disk,
    ) -> Result<Result<Opened, copy::CopyError>, Failure> {
        let copy = match initial_copy::prepare(self.config, server, &AtomicBool::new(false)) {
            Ok(copy) => copy,
            Err(error) => return Ok(Err(error)),
        };
        let plan = copy.plan();
        initial_copy::mark(self.folder, &plan.executed)?;
        let start = Recovered {
            sequence: 0,
            executed: plan.executed.clone(),
            catalog: plan.catalog.clone(),
            position: None,
            rows: std::collections::BTreeMap::new(),
            ledger: String::new(),
            settles_at: None,
            prepared: base::PreparedSet::default(),
        };
        let mut opened = self.open_relay(disk, Some(start))?;
        let memory = self.memory.generation_bytes;
        let result = initial_copy::run(self.config, self.folder, self.lock, copy, &opened.disk, memory);
        match result {
            Ok(()) => {
                opened.recovered = opened.disk.recover().map_err(|error| store_failure(&error))?;
                initial_copy::unmark(self.folder)?;
                Ok(Ok(opened))
            }
            Err(failure) => {
                opened.link.stopping.store(true, Ordering::Release);
                opened.relay.end_space_wait();
                if let Some(interrupter) = &opened.link.lock().interrupter {
                    interrupter.shutdown();
                }
                let _ = opened.receiver.join();
                drop(opened.disk);
                initial_copy::remove_relay_log(self.folder)?;
                match failure {
                    CopyFailure::Copy(error) => Ok(Err(error)),
                    CopyFailure::Own(failure) => Err(failure),
                }
            }
        }
    }

    fn open_relay(&self, disk: Disk, recovered: Option<Recovered>) -> Result<Opened, Failure> {
        let Opening { config, folder, memory, .. } = self;
        let link = Link::new();
        let server_id = config.server_id.unwrap_or_else(|| folder.default_server_id());
        let mut options = RelayOptions::new(folder.relay_log());
        options.affinity = config.pipeline.affinity.clone();
        if let Some(recovered) = &recovered {
            options.executed.clone_from(&recovered.executed);
            options.resume_at = recovered_position(recovered);
        }
        options.on_damage = match config.source {
            SourceSpec::Server(_) => OnDamage::FetchAgain,
            SourceSpec::Files(_) => OnDamage::Refuse,
        };
        options.space_limit_bytes = config.relay_log_space_limit;
        options.hot_bytes_max = memory.hot_bytes;
        options.max_file_bytes = config.max_relay_log_size;
        options.sync = sync_policy(config.relay_sync);
        options.server_id = server_id;
        let (writer, recovery) = RelayLog::open(options).map_err(relay_failure)?;
        // Store and relay log have their folders now. Nothing may count in them before their names do.
        folder.sync()?;
        if let Some(cut) = &recovery.cut {
            let text = format!(
                "relay log {} was cut back from {} to {} bytes: {}; the source sends it again",
                cut.file, cut.from_len, cut.to_len, cut.reason
            );
            log::write(Code::RelayLogTruncated, "Relay", &text);
        }
        if let Some(dropped) = &recovery.dropped {
            let text = format!(
                "relay log files {} are gone ({}); the store holds all that was in them",
                dropped.files.join(", "),
                dropped.reasons.join("; ")
            );
            log::write(Code::RelayLogFilesGone, "Relay", &text);
        }
        if !initial_copy::is_marked(folder) {
            note_kept(&recovery, recovered.as_ref());
        }
        link.lock().retrieved.clone_from(&recovery.retrieved);
        let (relay, relay_sync) = (writer.shared(), writer.sync());
        let receiver = Receiver::prepare(config, folder, &link, writer, &recovery.retrieved)?;
        let lower_case_table_names = receiver.lower_case_table_names();
        let receiver = config
            .pipeline
            .affinity
            .spawn("receive", move || receiver.run())
            .map_err(|e| Failure::error(format!("cannot start a thread: {e}")))?;
        Ok(Opened { link, disk, recovered, relay, relay_sync, recovery, lower_case_table_names, receiver })
    }
}

/// What the newest cut of this process was.
#[derive(Clone, Debug, Default)]
struct LastCut {
    at_us: u64,
    cuts: u64,
}

/// The relay log must be durable up to a cut before the cut is (invariant 11).
fn sync_relay(sync: &Arc<RelaySyncHandle>) -> apply::SyncRelay {
    let sync = Arc::clone(sync);
    Box::new(move |point| {
        let Some((file, offset)) = &point.position else { return Ok(()) };
        let position = LogPosition { file: Arc::from(file.as_str()), offset: *offset };
        let Some(position) = RelayPosition::of(&position) else {
            return Err(format!("{file} is not the name of a relay log file"));
        };
        loop {
            sync.request_sync();
            match sync.wait_synced(position, Duration::from_secs(1)) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // Closed with everything durable but what a torn end of the stream left out.
                Err(RelayError::Closed) if sync.synced() >= position => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
    })
}

/// Purges the relay log behind a durable cut.
fn after_cut(relay: &Arc<RelayShared>, expire: Duration, last_cut: &Arc<Mutex<LastCut>>) -> apply::AfterCut {
    let (relay, last_cut) = (Arc::clone(relay), Arc::clone(last_cut));
    Box::new(move |point, report| {
        {
            let mut last = last_cut.lock().unwrap_or_else(PoisonError::into_inner);
            last.at_us = now_us();
            last.cuts += 1;
        }
        let purged = match &point.position {
            Some((file, offset)) => {
                let position = LogPosition { file: Arc::from(file.as_str()), offset: *offset };
                let now = std::time::SystemTime::now();
                fail_point::enter(Phase::Purge);
                relay.purge(&position, &point.executed, expire, now).map(|purged| purged.files)
            }
            None => Ok(Vec::new()),
        };
        let text = format!(
            "cut at transaction {}: {} keys, {} bytes; relay log files purged: {}",
            report.sequence,
            report.entries,
            report.bytes,
            match &purged {
                Ok(files) if files.is_empty() => "none".to_owned(),
                Ok(files) => files.join(", "),
                // The last cut of a clean stop.
                Err(RelayError::Closed) => "none, left to the next cut".to_owned(),
                Err(_) => "failed".to_owned(),
            }
        );
        log::write(Code::Cut, "Store", &text);
        if let Err(error) = purged
            && !matches!(error, RelayError::Closed)
        {
            // Nothing is lost: the files are tried again after the next cut.
            log::write(Code::PurgeFailed, "Relay", &format!("relay log files could not be purged: {error}"));
        }
    })
}

fn recovered_position(recovered: &Recovered) -> Option<LogPosition> {
    let (file, offset) = recovered.position.as_ref()?;
    Some(LogPosition { file: Arc::from(file.as_str()), offset: *offset })
}

/// Says what a start kept, and from where it replays.
fn note_kept(recovery: &relay_log::Recovery, recovered: Option<&Recovered>) {
    if recovery.files.is_empty() && recovered.is_none() {
        return;
    }
    let held = match recovered {
        Some(recovered) => format!(
            "kept store: cut at transaction {}, {} rows, GTIDs {}; ",
            recovered.sequence,
            recovered.rows.values().sum::<i64>(),
            shown_set(&recovered.executed)
        ),
        None => String::new(),
    };
    let bytes = recovery.files.iter().map(|file| file.1).sum::<u64>();
    let start = &recovery.start;
    let refused = start.hint_refused.as_ref().map(|why| format!(" (not from the cut's position: {why})"));
    let text = format!(
        "{held}kept relay log: {} files, {bytes} bytes, GTIDs {}; replaying from {}:{}, {} bytes{}",
        recovery.files.len(),
        shown_set(&recovery.retrieved),
        relay_log::file_name(start.position.file_number),
        start.position.offset,
        bytes.saturating_sub(start.skipped_bytes),
        refused.unwrap_or_default()
    );
    log::write(Code::FolderKept, "Relay", &text);
}

/// A fault of the store as the program's failure.
#[must_use]
pub fn store_failure(error: &StoreError) -> Failure {
    let exit = match error {
        StoreError::Damaged { .. } | StoreError::Version { .. } => Exit::Corrupt,
        StoreError::RowMissing { .. } => Exit::DataDiffers,
        StoreError::Defect { .. } => Exit::Defect,
        StoreError::DiskFull { .. } | StoreError::Io { .. } => Exit::Disk,
        StoreError::IndexNotReady { .. } | StoreError::SnapshotTooOld | StoreError::Settling { .. } => Exit::Error,
    };
    let failure = Failure::new(exit, error.to_string());
    if matches!(error, StoreError::DiskFull { .. }) { failure.with_way_on(FREE_SPACE) } else { failure }
}

/// The store's word for the option.
#[must_use]
pub fn check_images(option: CheckImages) -> store::CheckImages {
    match option {
        CheckImages::Off => store::CheckImages::Off,
        CheckImages::Sample => store::CheckImages::Sample,
        CheckImages::All => store::CheckImages::All,
    }
}

/// The relay log's word for the option.
#[must_use]
pub fn sync_policy(option: RelaySync) -> SyncPolicy {
    match option {
        RelaySync::EveryTransaction => SyncPolicy::EveryTransaction,
        RelaySync::Interval { every, bytes } => SyncPolicy::Interval { ms: every.as_millis() as u64, bytes },
        RelaySync::Never => SyncPolicy::Never,
    }
}

/// Cores this process may use.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A stop of replay as the program's failure.
#[must_use]
pub fn stop_failure(stop: &Stop) -> Failure {
    let exit = match stop.class {
        StopClass::NotSupported => Exit::NotSupported,
        StopClass::Corrupt => Exit::Corrupt,
        StopClass::DataDiffers => Exit::DataDiffers,
        StopClass::Io => Exit::Disk,
        StopClass::Defect => Exit::Defect,
    };
    Failure::new(exit, stop.to_string()).with_way_on(stop.help())
}

/// A fault of the relay log as the program's failure.
#[must_use]
pub fn relay_failure(error: RelayError) -> Failure {
    Failure::new(relay_exit(&error), error.to_string())
}

/// The exit code of a fault of the relay log.
#[must_use]
pub fn relay_exit(error: &RelayError) -> Exit {
    match error {
        RelayError::Corrupt { .. } | RelayError::Missing { .. } | RelayError::Index { .. } => Exit::Corrupt,
        RelayError::Gap { .. } | RelayError::StartLost { .. } => Exit::Corrupt,
        RelayError::Boundary(relay_log::boundary::BoundaryError::NotSupported(_)) => Exit::NotSupported,
        RelayError::Boundary(_) => Exit::Corrupt,
        RelayError::Io { .. } | RelayError::DiskFull { .. } => Exit::Disk,
        RelayError::Misuse(_) | RelayError::PlaceLost { .. } | RelayError::CutOff | RelayError::Closed => Exit::Error,
    }
}

/// A GTID set for a message; empty is said in words.
#[must_use]
pub fn shown_set(set: &GtidSet) -> String {
    if set.is_empty() { "(none)".into() } else { set.to_string() }
}
