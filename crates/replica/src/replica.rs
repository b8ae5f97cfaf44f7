//! A running replica: relay log, receiver, pipeline, and requests to them.
//!
//! In: a configuration and a data folder that this process owns. Out: a store that follows the source, its status, and
//! the reason why it stopped. Never here: decoding or applying of rows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use apply::{ApplyOptions, CutOptions, Pipeline, PipelineOptions, lanes_for};
use base::{GtidSet, UntilGtids};
use catalog::Catalog;
use decode::{START_SQL, SkipList, Stop, StopClass};
use observe::ErrorReport;
use relay_log::{LogPart, ReaderOptions, RelayPosition, RelayReader, TailItem};
use store::{Closing, Disk, DiskSpace, Recovered, SnapshotLimits, Store};

use crate::acknowledged;
use crate::all_tables::AllTables;
use crate::backup::{self, RunningBackups};
use crate::config::{CopyConfig, CopyWhen, OnStop, ReplicaConfig, ServerOptions, SourceSpec};
use crate::damage::{self, DamageWatch, OnDamage};
use crate::drift::{self, DriftedTable};
use crate::exit::{Exit, Failure};
use crate::failure::{stop_failure, store_failure};
use crate::filter_orders;
use crate::folder::Folder;
use crate::inbound::Inbound;
use crate::initial_copy::CopyWatch;
use crate::log::{self, Code};
use crate::login::SourceLogin;
use crate::memory::MemoryPlan;
use crate::open::{Opened, Opening};
use crate::receiver::Receive;
use crate::receiving::Receiving;
use crate::relay::{Serving, StampingThread};
use crate::relay_purge::{LastCut, after_cut, sync_relay};
use crate::replay::{self, Replay};
use crate::running_copies;
use crate::serve_log::{OfEngine, ServeLog};
use crate::skip::Listed;
use crate::source_facts::SourceSettings;
use crate::table_copy::{TableCopy, TableCopyReport};
use crate::upkeep::{TableCopies, Upkeep};

/// A running replica.
///
/// Its parts end in this order: the stamping thread, replay, receiving. No lock of one part is taken under that of
/// another, but for the link's, which comes last.
pub struct Replica {
    folder: Folder,
    pub(crate) server_id: u32,
    pub(crate) memory: MemoryPlan,
    pub(crate) on_stop: OnStop,
    pub(crate) started: Instant,
    pub(crate) stopping: AtomicBool,
    pub(crate) inbound: Inbound,
    pub(crate) replay: Replay,
    pub(crate) upkeep: Upkeep,
    /// What it serves to other replicas, and the thread that stamps it.
    pub(crate) served: Option<(Arc<Serving>, StampingThread)>,
}

/// Damage of the store at which replay stopped.
pub struct StoreDamage {
    pub text: String,
    /// Number of files on the list of damaged ones.
    pub files: usize,
}

/// How long RESET REPLICA waits for its cut.
const CUT_WITHIN: Duration = Duration::from_secs(20);
/// Interval at which a check looks whether the cut it asked for is done.
const CUT_LOOK_EVERY: Duration = Duration::from_millis(20);
/// Interval at which the reader looks whether the pause has come that a start begins with.
const PAUSE_COMES_WITHIN: Duration = Duration::from_millis(1);
/// Input of a start.
pub struct Start<'a> {
    pub config: &'a ReplicaConfig,
    /// The data folder, whose exclusive lock the caller holds for the lifetime of the replica.
    pub folder: &'a Folder,
    /// Called for an initial copy.
    pub watch_copy: CopyWatch<'a>,
    pub receive: Receive,
    /// The login at the source; None for a source of files.
    pub login: Option<Arc<SourceLogin>>,
    pub replay: BeginReplay,
    /// After trouble with the disk: what of it concerns the start.
    pub after_disk: AfterDisk,
    /// What is served to other replicas.
    pub serve: Option<Arc<ServeLog>>,
}

/// What a start must know of an engine that trouble with the disk has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AfterDisk {
    /// The relay log is removed behind this position: it is not certain that the rest is durable.
    pub keep_up_to: Option<RelayPosition>,
    pub sync_failed: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BeginReplay {
    #[default]
    Runs,
    /// It runs up to this condition.
    Until(UntilGtids),
    /// It is stopped at the last cut.
    Stopped,
    /// It goes as far as rows were visible when it was stopped, and is stopped there.
    StoppedAt(GtidSet),
}

/// What became of a request to start receiving or replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    Running,
    /// It can run only after the engine was started again, from the last cut.
    NeedsNewEngine,
}

impl Replica {
    /// Opens store and relay log, connects to the source, copies it if needed, and starts replay.
    ///
    /// # Errors
    /// The source is refused by preflight, or the folder's files are unusable.
    pub fn start(start: &Start<'_>) -> Result<Replica, Failure> {
        let Start { config, folder, watch_copy, receive, login, replay, after_disk, serve } = start;
        let began = Instant::now();
        folder.begin_run()?;
        let skip = to_skip(config, folder)?;
        let memory = MemoryPlan::of(config.memory, config.pipeline.queue_memory);
        base::allocator::configure(memory.limit_bytes);
        running_copies::note_abandoned(folder)?;
        backup::remove_links(folder);
        folder.remove_cleared();
        let space = Arc::new(DiskSpace::new(folder.path(), config.disk_reserve));
        let opening = Opening {
            config,
            folder,
            watch_copy: *watch_copy,
            memory,
            receive,
            login: login.as_ref(),
            space: &space,
            after_disk: *after_disk,
            serve: serve.as_ref(),
        };
        let Opened { inbound, disk, recovered, recovery, lower_case_table_names, served } = opening.open()?;
        let relay = &inbound.relay;
        let is_known = matches!(replay, BeginReplay::StoppedAt(_));
        let log_was_cut = recovery.truncated.is_some() && !is_known;
        let last_cut = LastCut {
            executed: recovered.as_ref().map(|r| r.executed.clone()).unwrap_or_default(),
            ..LastCut::default()
        };
        // What the cut holds is never met again.
        let open = skip.subtract(&last_cut.executed);
        if open != skip {
            crate::skip::store(folder, &open)?;
        }
        let skip = SkipList::new(open);
        let on_damage = match config.source {
            SourceSpec::Server(_) => config.on_damage,
            SourceSpec::Files(_) => OnDamage::Stop,
        };
        let damage_watch = DamageWatch::new(Some(&disk));
        let has_server = matches!(config.source, SourceSpec::Server(_));
        let all_tables = AllTables::new(folder, config.copy.when, has_server)?;
        let changed = changed_definitions(folder, &disk, recovered.as_ref(), on_damage)?;
        let tail = RelayReader::open_at(Arc::clone(relay), &recovery.start, ReaderOptions::REPLAY);
        let workers = if config.pipeline.workers == 0 { cores() } else { config.pipeline.workers };
        let recovered_sequence = recovered.as_ref().map_or(0, |recovered| recovered.sequence);
        let has_relay_log = !recovery.files.is_empty();
        let catalog = Catalog::new(lower_case_table_names);
        let store = Store::over(lanes_for(workers), disk, folder.scratch(), recovered, catalog);
        let last_cut = Arc::new(Mutex::new(last_cut));
        let cuts = CutOptions {
            generation_bytes: memory.generation_bytes,
            interval: config.cut_interval,
            sync_relay: sync_relay(&inbound.relay_sync),
            after_cut: after_cut(relay, config.relay_log_expire, &last_cut),
            waits_for_space: config.on_stop == OnStop::Stay,
        };
        let store = Arc::new(store.map_err(|error| store_failure(&error))?);
        changed.into_iter().for_each(|catalog| store.start_with(catalog));
        limit_snapshots(&store, config, memory.snapshot_bytes);
        if let Err(error) = store.readable() {
            log::write(Code::CopyFoundNotConsistent, "Copy", &error.to_string());
        }
        let options = PipelineOptions {
            quarantine: has_server,
            copies_missing: config.copy.when != CopyWhen::Never,
            filters: Arc::clone(&config.filters),
            decoders: if config.pipeline.decoders == 0 { (cores() / 2).max(1) } else { config.pipeline.decoders },
            workers,
            memory_bytes: memory.queue_bytes,
            apply: apply_options(config, &inbound),
            skip: skip.clone(),
            store,
            cuts: Some(cuts),
            source_clock: Arc::clone(&inbound.link.source_clock),
            lag_by_part: Arc::clone(relay.lag_by_part()),
            affinity: config.pipeline.affinity.clone(),
        };
        let pipeline = begin_replay(tail, options, config.source_delay, replay);
        inbound.watch_source();
        acknowledged::watch(config.pipeline.show, &inbound, &pipeline.publisher)?;
        let of_engine = OfEngine { config, inbound: &inbound, lower_case_table_names };
        let served = match serve.as_ref().zip(served) {
            Some((serve, opened)) => Some((Arc::clone(&opened.serving), serve.stamps(opened, &of_engine)?)),
            None => None,
        };
        let replay = Replay::new(replay::Begin {
            pipeline,
            skip,
            last_cut,
            check_images: config.pipeline.check_images,
            log_was_cut,
            retrieved: recovery.retrieved,
            order: replay,
            began,
            recovered_from: has_relay_log.then_some(recovered_sequence),
        });
        let buffer_bytes = memory.generation_bytes / (4 * config.copy.connections.max(1) as u64);
        Ok(Replica {
            folder: Folder::clone(folder),
            server_id: config.server_id.unwrap_or_else(|| folder.default_server_id()),
            memory,
            on_stop: config.on_stop,
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            inbound,
            replay,
            upkeep: Upkeep {
                space,
                space_watch: Mutex::default(),
                copies: TableCopies::new(config.copy, buffer_bytes),
                all_tables,
                on_drift: config.on_drift,
                drift: Mutex::default(),
                on_damage,
                damage: Mutex::new(damage_watch),
                scrub_interval: Mutex::new(config.scrub_interval),
                scrub: Mutex::new(String::new()),
                backups: RunningBackups::after(folder.last_status().store.last_backup_us),
            },
            served,
        })
    }

    /// Stops replay at a transaction boundary; receiving continues (STOP REPLICA SQL_THREAD). Returns what is visible
    /// once nothing becomes visible any more; at once if replay is on its way to where it is stopped.
    ///
    /// # Errors
    /// Replay has failed, or does not come to rest in time; it does so later.
    pub fn stop_sql(&self) -> Result<GtidSet, Failure> {
        self.replay
            .stop(|| self.sql_failure().or_else(|| self.is_stopping().then(|| Failure::error("the replica stops"))))
    }

    /// The pipeline: rows, watermark, ledger.
    #[must_use]
    pub fn pipeline(&self) -> &Pipeline {
        &self.replay.pipeline
    }

    /// The data folder of the replica.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Tells when the store is closed, so that the folder can be opened again in this process.
    #[must_use]
    pub fn store_closing(&self) -> Closing {
        self.replay.pipeline.store.disk().map_or_else(Closing::default, |disk| disk.closing())
    }

    /// Requests that receiver and replay end at a transaction boundary.
    pub fn stop(&self) {
        if self.on_stop == OnStop::Stay && !self.is_stopping() {
            // What stopped before is no failure of this stop, although the log has not said it yet.
            self.tell_of_stops();
        }
        if !self.stopping.swap(true, Ordering::AcqRel) {
            if let Some((_, stamping)) = &self.served {
                stamping.stop();
            }
            self.replay.pipeline.stop();
            self.inbound.end();
        }
    }

    /// Stops receiving at a transaction boundary; replay goes on with what was received (STOP REPLICA IO_THREAD).
    ///
    /// # Errors
    /// The thread does not end in time; it ends later.
    pub fn stop_io(&self) -> Result<(), Failure> {
        self.inbound.stop()
    }

    /// Starts receiving again (START REPLICA IO_THREAD).
    ///
    /// # Errors
    /// It is still ending, or a thread cannot be started.
    pub fn start_io(&self) -> Result<Begun, Failure> {
        if self.inbound.relay_sync.poison().is_some() {
            return Ok(Begun::NeedsNewEngine);
        }
        Ok(self.inbound.start()?.map_or(Begun::NeedsNewEngine, |_| Begun::Running))
    }

    /// Starts replay again, up to a condition if there is one (START REPLICA SQL_THREAD [UNTIL …]).
    #[must_use]
    pub fn start_sql(&self, until: Option<UntilGtids>) -> Begun {
        if self.replay.start(until) { Begun::Running } else { Begun::NeedsNewEngine }
    }

    /// The condition of the last order to start replay, met or not.
    #[must_use]
    pub fn until(&self) -> Option<UntilGtids> {
        self.replay.until()
    }

    /// What is visible, once that condition has stopped replay; returned once, and noted in the log.
    #[must_use]
    pub fn take_until_met(&self) -> Option<GtidSet> {
        self.replay.take_until_met()
    }

    /// What stopped replay at its condition is kept for a restart, or cannot be.
    pub fn until_is_kept(&self) {
        self.replay.until_is_kept();
    }

    /// What is visible where an operator has stopped replay, also on the way there after a restart; None if it runs.
    #[must_use]
    pub fn stopped_at(&self) -> Option<GtidSet> {
        self.replay.stopped_at()
    }

    /// How replay begins in an engine that replaces this one, if nobody asks for another way: as it is here.
    #[must_use]
    pub fn replay_again(&self) -> BeginReplay {
        self.replay.again()
    }

    /// What must be visible before the kept relay log counts as replayed.
    #[must_use]
    pub fn recovers_to(&self) -> &GtidSet {
        &self.replay.recovered
    }

    /// Checks that another source may be followed from here. Receiving is stopped.
    ///
    /// # Errors
    /// Why it may not be, or that it cannot be reached; receiving is not stopped.
    pub fn try_source(&self, server: &ServerOptions) -> Result<(), Failure> {
        self.inbound.try_source(server)
    }

    /// Takes another source, and another delay. Receiving is stopped if its options change, and so is replay for the
    /// delay.
    pub fn configure(&self, config: &ReplicaConfig) {
        self.inbound.configure(config);
        self.replay.pipeline.set_delay(config.source_delay);
    }

    /// How receiving begins in an engine that replaces this one, if nobody asks for it: as it is here.
    #[must_use]
    pub fn receive_again(&self) -> Receive {
        self.inbound.again()
    }

    /// Why the replica cannot continue; None if it can.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.sql_failure().or_else(|| self.io_failure())
    }

    /// Why replay stopped; None if it runs or was stopped as asked.
    #[must_use]
    pub fn sql_failure(&self) -> Option<Failure> {
        self.replay.pipeline.failure().map(|stop| self.by_itself(self.stop_failure(&stop)))
    }

    /// Why receiving stopped; None if it runs or was stopped as asked.
    #[must_use]
    pub fn io_failure(&self) -> Option<Failure> {
        self.inbound.failure().map(|failure| self.by_itself(failure))
    }

    /// Why replay stopped, for status.
    pub(crate) fn sql_error(&self) -> Option<ErrorReport> {
        Some(self.replay.error(self.sql_failure()?))
    }

    /// Why receiving stopped, or why it does not connect, for status.
    pub(crate) fn io_error(&self) -> Option<ErrorReport> {
        let state = self.inbound.link.lock();
        match self.on_stop {
            OnStop::Exit => state.received.last_error.clone(),
            OnStop::Stay => {
                let hint = state.received.failure.clone().and_then(|failure| self.by_itself(failure).hint);
                self.inbound.error(&state, self.folder.path(), hint)
            }
        }
    }

    /// Converts a stop, with this replica's folder and source in the command that continues.
    pub(crate) fn stop_failure(&self, stop: &Stop) -> Failure {
        let mut failure = stop_failure(stop);
        if stop.class == StopClass::StoreDamaged
            && let Some(disk) = self.replay.pipeline.store.disk()
            && let Some(named) = damage::refusal(disk, &self.replay.catalog())
        {
            let text = if stop.reason == named.text { stop.to_string() } else { format!("{stop}; {}", named.text) };
            failure = Failure { text, ..named };
        }
        failure.hint = failure.hint.map(|command| {
            let command = match self.on_stop {
                OnStop::Stay => command,
                OnStop::Exit => command.replace(START_SQL, "start the replica again"),
            };
            let data = format!("--data {}", self.folder.path().display());
            let source = format!("--source {}", crate::config::mask_passwords(&self.inbound.shown_source()));
            command.replace("--data DIR", &data).replace("--source URL", &source)
        });
        failure
    }

    /// The outcome once receiver and replay have ended; None while they run, or while the process stays with what
    /// stopped. A defect ends both, and so does any failure under `--on-stop=exit`.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<(), Failure>> {
        let ends = |failure: &Failure| self.on_stop == OnStop::Exit || failure.exit == Exit::Defect;
        let stamps = self.served.as_ref().is_some_and(|(_, stamping)| stamping.runs());
        let defect = self.served.as_ref().and_then(|(_, stamping)| stamping.failure());
        let defect = defect.filter(|failure| failure.exit == Exit::Defect);
        if defect.is_some() {
            self.stop();
        }
        let replay = self.sql_failure();
        if replay.as_ref().is_some_and(ends) || self.io_failure().is_some_and(|failure| failure.exit == Exit::Defect) {
            self.stop();
        }
        let receiving_ended = matches!(*self.inbound.look(), Receiving::Ended);
        if !self.replay.pipeline.is_finished() || !receiving_ended || self.is_stopping() && stamps {
            return None;
        }
        // What the process stayed with is no failure of a stop that was asked for; what happens in the stop is one.
        let replay = replay.filter(|failure| !self.replay.stop_is_said() || ends(failure));
        let receiving = || self.io_failure().filter(|failure| !self.inbound.stop_is_said() || ends(failure));
        let failure = replay.or_else(receiving);
        let failure = failure.or(defect);
        if !self.is_stopping() && !failure.as_ref().is_none_or(ends) {
            return None;
        }
        Some(failure.map_or(Ok(()), Err))
    }

    /// Starts stamping again after an error. False if it runs, or nothing is served.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start_stamping(&self) -> Result<bool, Failure> {
        self.served.as_ref().map_or(Ok(false), |(_, stamping)| stamping.start_again())
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The files of the relay log.
    #[must_use]
    pub fn relay_log_files(&self) -> Vec<LogPart> {
        self.inbound.relay.parts()
    }

    /// The damage of the relay log at which replay stopped, if the source can send that part again: the next start
    /// truncates the log. Also None if the source itself sent the damaged bytes.
    #[must_use]
    pub fn damage(&self) -> Option<relay_log::Damage> {
        let stop = self.replay.pipeline.failure().filter(|stop| stop.class == StopClass::Corrupt)?;
        self.inbound.login.as_ref()?;
        // The damage is after the last visible transaction, and not after the position at which replay stopped.
        let visible = self.replay.pipeline.publisher.status().position;
        let from = visible.as_ref().and_then(RelayPosition::of).or_else(|| {
            let (file_number, _) = *self.inbound.relay.files().first()?;
            Some(RelayPosition { file_number, offset: 0 })
        });
        match self.inbound.relay.find_damage(from.unwrap_or_default()) {
            Ok(damage) => damage,
            Err(error) => {
                log::write(
                    Code::DamageSearchFailed,
                    "Relay",
                    &format!("cannot search the relay log for the damage that caused '{stop}': {error}"),
                );
                None
            }
        }
    }

    /// Damage of the store at which replay stopped, if a restart of the engine goes on without the tables in it.
    #[must_use]
    pub fn store_damage(&self) -> Option<StoreDamage> {
        let stop = self.replay.pipeline.failure().filter(|stop| stop.class == StopClass::StoreDamaged)?;
        if self.upkeep.on_damage != OnDamage::Copy {
            return None;
        }
        let disk = self.replay.pipeline.store.disk()?;
        // A merge in progress would keep the store open.
        self.replay.pipeline.store.break_off_merges(true);
        Some(StoreDamage { text: stop.to_string(), files: disk.damage().len() })
    }

    /// What of the source changes answers, as last asked.
    #[must_use]
    pub fn source_settings(&self) -> Arc<SourceSettings> {
        self.inbound.link.source_settings()
    }

    /// What this makes of UUID and version of the source as it was met last.
    pub fn of_source<T>(&self, of: impl FnOnce(&str, &str) -> T) -> T {
        self.inbound.link.of_source(of)
    }

    /// Connection options of the source for one try; None for files.
    #[must_use]
    pub fn source_options(&self) -> Option<client::ConnectOptions> {
        self.inbound.login.as_ref().map(|login| login.for_try())
    }

    /// Copies one table (`SCHEMA.TABLE`) again while replay continues, and reports progress to `say`. Returns when the
    /// copy is durable and has replaced the table.
    ///
    /// # Errors
    /// Why the table is unchanged; code 2 for an invalid name.
    pub fn copy_table(&self, name: &str, say: &mut dyn FnMut(&str)) -> Result<TableCopyReport, Failure> {
        self.copy_table_for(None, name, say)
    }

    /// As [`copy_table`](Self::copy_table); one that was due by itself reads over this number of connections at most.
    pub(crate) fn copy_table_for(
        &self,
        by_itself: Option<usize>,
        name: &str,
        say: &mut dyn FnMut(&str),
    ) -> Result<TableCopyReport, Failure> {
        let Some(login) = self.inbound.login.as_deref() else {
            return Err(Failure::usage(
                "a table can be copied from a server only, and the source of this replica is files",
            ));
        };
        self.failure().map_or(Ok(()), Err)?;
        if self.inbound.is_stopped() {
            return Err(Failure::error("receiving is stopped, and a table's copy needs it to run")
                .with_hint(format!("slipstream start io --data {}", self.folder.path().display())));
        }
        if self.replay.pipeline.is_paused() {
            return Err(Failure::error("replay is paused, and a table's copy needs it to run")
                .with_hint(format!("slipstream resume --data {}", self.folder.path().display())));
        }
        let copies = &self.upkeep.copies;
        let connections = by_itself.unwrap_or(copies.config.connections);
        let running = copies.running.begin(&self.folder, name)?;
        let copy = TableCopy {
            pipeline: self.pipeline(),
            relay: &self.inbound.relay,
            login,
            config: &CopyConfig { connections, ..copies.config },
            others: &copies.running,
            buffer_bytes: copies.buffer_bytes,
            stop: &self.stopping,
        };
        let result = copy.run(name, &mut |line| {
            running.says(line);
            say(line);
        });
        // Before it counts as ended: whoever sees no copy run sees all of them counted.
        if result.is_ok() {
            copies.count_one(by_itself.is_some());
        }
        drop(running);
        if result.as_ref().is_err_and(|failure| failure.exit == Exit::Disk)
            && let Some(disk) = self.replay.pipeline.store.disk()
        {
            // Others need the space; a disk that refuses this too has been named already.
            let _ = disk.remove_unnamed();
        }
        result
    }

    /// Tables with rows that contradict the log.
    #[must_use]
    pub fn drifted(&self) -> Vec<DriftedTable> {
        let catalog = self.replay.catalog();
        drift::drifted(&self.replay.pipeline.store, &catalog)
    }

    /// The tables of [`drifted`](Self::drifted) and some rows of each, for the operator.
    #[must_use]
    pub fn drift_report(&self) -> String {
        drift::report(&self.drifted(), &self.inbound.link.moves.to_verify(&self.replay.catalog()))
    }

    /// Accepts a table (`SCHEMA.TABLE`, or `*.*` for all) as it is. Later findings are reported again.
    ///
    /// # Errors
    /// The table is not one of [`drifted`](Self::drifted), or the list cannot be written.
    pub fn accept_drift(&self, name: &str) -> Result<(), Failure> {
        let catalog = self.replay.catalog();
        drift::accept(&self.replay.pipeline.store, &catalog, &self.inbound.link.moves, name)
    }

    /// GTIDs of the last durable cut, as far as cuts of this engine or the one that it began with are known.
    #[must_use]
    pub fn cut_executed(&self) -> GtidSet {
        self.replay.last_cut().executed
    }

    /// Makes all that is visible durable in the store, so that the relay log is not needed for it. Replay is stopped.
    ///
    /// # Errors
    /// Replay has failed, a table is being copied, or no cut is taken in time.
    pub fn cut_all(&self) -> Result<(), Failure> {
        let needed = "rows since the last cut are only in the relay log";
        if let Some(failure) = self.sql_failure() {
            return Err(Failure { text: format!("{}; {needed}", failure.text), ..failure });
        }
        let _alone = self.upkeep.copies.keep_away()?;
        if let Err(error) = self.replay.pipeline.store.readable() {
            return Err(Failure::error(format!("{error}; until then the relay log is needed")));
        }
        let until = Instant::now() + CUT_WITHIN;
        let now = self.replay.pipeline.store.visibility().current().sequence.0;
        while self.replay.pipeline.store.last_cut() < now {
            self.sql_failure().map_or(Ok(()), Err)?;
            if self.is_stopping() || Instant::now() > until {
                return Err(Failure::error(format!("no cut was taken in time, and {needed}; try again")));
            }
            self.replay.pipeline.ask_for_cut();
            std::thread::sleep(CUT_LOOK_EVERY);
        }
        Ok(())
    }

    /// Compares what the log says of each row with the rows on disk: of all that is replayed now. Takes as long as
    /// writing the store once.
    ///
    /// # Errors
    /// The store cannot be written, or replay has stopped.
    pub fn check_store(&self) -> Result<Vec<DriftedTable>, Failure> {
        let now = self.replay.pipeline.store.visibility().current().sequence.0;
        while self.replay.pipeline.store.last_cut() < now {
            self.sql_failure().map_or(Ok(()), Err)?;
            if self.is_stopping() {
                return Err(Failure::error("the replica stops"));
            }
            self.replay.pipeline.ask_for_cut();
            std::thread::sleep(CUT_LOOK_EVERY);
        }
        self.replay.pipeline.store.check_rows().map_err(|error| store_failure(&error))?;
        // A damaged file is not merged, so its rows were not compared.
        if let Some(disk) = self.replay.pipeline.store.disk()
            && let Some(failure) = damage::unchecked(disk)
        {
            return Err(failure);
        }
        Ok(self.drifted())
    }

    /// Damaged files of the store, for `status`.
    pub(crate) fn damaged(&self) -> Vec<String> {
        let catalog = self.replay.catalog();
        self.replay.pipeline.store.disk().map_or_else(Vec::new, |disk| damage::report(disk, &catalog))
    }

    /// Commits these GTIDs empty when replay meets them, also after a restart. Returns a warning if some are unlikely
    /// to come.
    ///
    /// # Errors
    /// Some of `more` are already sequenced; code 7 or 8 if the list cannot be stored.
    pub fn skip(&self, more: &GtidSet) -> Result<Option<String>, Failure> {
        let mut late = GtidSet::new();
        self.replay.skip.change(|listed, sequenced| {
            let (all, already) = crate::skip::with(listed, more, &self.replay.decided(sequenced));
            late = already;
            crate::skip::store(&self.folder, &all).map(|()| all)
        })?;
        crate::skip::too_late(&late)?;
        let mut known = self.inbound.link.lock().received.retrieved.clone();
        known.union_with(&self.replay.skip.sequenced());
        Ok(crate::skip::far_ahead(more, &known))
    }

    /// Takes these GTIDs off the list of transactions to skip.
    ///
    /// # Errors
    /// Some of `less` are not on the list, or already sequenced; code 7 or 8 if the list cannot be stored.
    pub fn undo_skip(&self, less: &GtidSet) -> Result<(), Failure> {
        // A copy follows the log beside replay, and may have left them out already.
        let _alone = self.upkeep.copies.keep_away()?;
        self.replay.skip.change(|listed, sequenced| {
            let rest = crate::skip::without(listed, less, &self.replay.decided(sequenced))?;
            crate::skip::store(&self.folder, &rest).map(|()| rest)
        })
    }

    /// The transactions to skip that no cut holds yet.
    #[must_use]
    pub fn skip_list(&self) -> Listed {
        let cut = self.replay.last_cut().executed;
        Listed::of(&self.replay.skip.current(), &self.replay.decided(&self.replay.skip.sequenced()), &cut)
    }

    /// Periodic work without a thread of its own; call it every few milliseconds.
    pub fn housekeep(self: &Arc<Self>) {
        self.replay.step();
        self.inbound.step(Instant::now());
        if self.on_stop == OnStop::Stay {
            self.tell_of_stops();
        }
        if let (Some((serving, _)), Some(login)) = (&self.served, &self.inbound.login) {
            serving.look_for_errant(&self.inbound.link, login);
        }
        self.step_upkeep();
    }

    /// Logs that receiving or replay stopped with an error, once each.
    fn tell_of_stops(&self) {
        if let Some(failure) = self.sql_failure() {
            self.replay.tell_of_stop(failure);
        }
        if let Some(failure) = self.io_failure() {
            self.inbound.tell_of_stop(&failure, "replay is not affected", self.folder.path());
        }
    }

    /// True if the start truncated the relay log, which may have lost what was visible before, unless that is known.
    #[must_use]
    pub fn log_was_cut(&self) -> bool {
        self.replay.log_was_cut
    }

    /// True while the kept part of the relay log is being replayed.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.replay.is_recovering()
    }
}

/// The transactions to skip: those that are listed, and those that the configuration adds.
fn to_skip(config: &ReplicaConfig, folder: &Folder) -> Result<GtidSet, Failure> {
    let listed = crate::skip::load(folder)?;
    if config.skip.is_subset_of(&listed) {
        return Ok(listed);
    }
    log::write(Code::OperatorCommand, "Server", &format!("--skip-gtids asks to skip {}", config.skip));
    crate::skip::add(folder, &config.skip)
}

fn limit_snapshots(store: &Store, config: &ReplicaConfig, planned_bytes: u64) {
    let bytes = if config.snapshot_memory == 0 { planned_bytes } else { config.snapshot_memory };
    store.visibility().limit_snapshots(SnapshotLimits { bytes, age: config.snapshot_age });
}

fn apply_options(config: &ReplicaConfig, inbound: &Inbound) -> ApplyOptions {
    let checks_all = Arc::clone(inbound.link.moves.checks_all());
    ApplyOptions { check_images: config.pipeline.check_images, checks_all }
}

/// The definitions to begin with where they differ from the cut's: under other filters, or without tables in damaged
/// files.
fn changed_definitions(
    folder: &Folder,
    disk: &Disk,
    recovered: Option<&Recovered>,
    on_damage: OnDamage,
) -> Result<Option<Catalog>, Failure> {
    let under_filters = filter_orders::take_over(folder, recovered)?;
    let Some(recovered) = recovered else { return Ok(under_filters) };
    if on_damage == OnDamage::Stop {
        damage::refusal(disk, &recovered.catalog).map_or(Ok(()), Err)?;
    }
    let without_damaged = damage::quarantined_at_start(disk, under_filters.as_ref().unwrap_or(&recovered.catalog));
    Ok(without_damaged.or(under_filters))
}

/// Starts replay as it was ordered. Nothing is read before it is known what holds it back.
fn begin_replay(mut tail: RelayReader, options: PipelineOptions, delay: Duration, order: &BeginReplay) -> Pipeline {
    let may_read = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&may_read);
    let read = move |timeout| {
        if !gate.load(Ordering::Acquire) {
            std::thread::sleep(PAUSE_COMES_WITHIN);
            return Ok(TailItem::Idle);
        }
        tail.next(timeout)
    };
    let pipeline = Pipeline::start(Box::new(read), options);
    pipeline.set_delay(delay);
    match order {
        BeginReplay::Runs => {}
        BeginReplay::Until(until) => pipeline.resume(Some(until.clone())),
        BeginReplay::Stopped => pipeline.pause(),
        BeginReplay::StoppedAt(shown) => pipeline.resume(Some(UntilGtids::After(shown.clone()))),
    }
    may_read.store(true, Ordering::Release);
    pipeline
}

/// Quarantined tables with the reason; limited to these names (`SCHEMA.TABLE`) unless the list is empty.
#[must_use]
pub fn quarantined(catalog: &Catalog, names: &[String]) -> Vec<String> {
    let filter = source::TableFilter::parse(names);
    let lower = catalog.lower_case_table_names();
    let meant = catalog.quarantined().filter(|(db, name, _)| filter.matches(db, name, lower));
    meant.map(|(db, name, why)| format!("`{db}`.`{name}`: {why}")).collect()
}

/// Number of cores that this process may use.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
