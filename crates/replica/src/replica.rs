//! A running replica: relay log, receiver, pipeline, and requests to them.
//!
//! In: a configuration and a data folder that this process owns. Out: a store that follows the source, its status, and
//! the reason why it stopped. Never here: decoding or applying of rows.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use apply::{ApplyOptions, CutOptions, Pipeline, PipelineOptions, lanes_for};
use base::{GtidSet, ThreadAffinity, UntilGtids};
use catalog::Catalog;
use decode::{START_SQL, SkipList, Stop, StopClass};
use observe::ErrorReport;
use relay_log::{LogPart, ReaderOptions, RelayPosition, RelayReader, RelayShared, RelaySync, TailItem};
use store::{CheckImages, Closing, DiskSpace, SnapshotLimits, Store};

use crate::backup::{self, RunningBackups};
use crate::config::{CopyConfig, OnStop, ReplicaConfig, ServerOptions, SourceSpec};
use crate::damage::{self, DamageWatch, Due, OnDamage};
use crate::disk_trouble::SpaceWatch;
use crate::drift::{self, DriftWatch, DriftedTable, OnDrift};
use crate::due_copies::{DueCopies, DueCopy};
use crate::exit::{Exit, Failure};
use crate::failure::{error_report, stop_failure, store_failure};
use crate::filter_orders;
use crate::folder::Folder;
use crate::initial_copy::CopyWatch;
use crate::log::{self, Code};
use crate::login::SourceLogin;
use crate::memory::MemoryPlan;
use crate::open::{Opened, Opening};
use crate::receiver::{self, Receive};
use crate::receiver_status::Link;
use crate::receiving::Receiving;
use crate::relay::{Serving, StampingThread};
use crate::relay_purge::{LastCut, after_cut, sync_relay};
use crate::serve_log::{OfEngine, ServeLog};
use crate::skip::Listed;
use crate::source_facts::SourceSettings;
use crate::table_copy::{self, TableCopy, TableCopyReport};

/// A running replica.
pub struct Replica {
    pub(crate) data: PathBuf,
    shown_source: Mutex<String>,
    /// None for a source of files.
    login: Option<Arc<SourceLogin>>,
    pub(crate) server_id: u32,
    pub(crate) log_was_cut: bool,
    pub(crate) server_uuid: String,
    pub(crate) queue_limit_bytes: u64,
    pub(crate) memory_limit_bytes: u64,
    pub(crate) check_images: CheckImages,
    pub(crate) last_cut: Arc<Mutex<LastCut>>,
    pub(crate) started: Instant,
    /// The pipeline: rows, watermark, ledger.
    pub pipeline: Pipeline,
    pub(crate) link: Arc<Link>,
    pub(crate) relay: Arc<RelayShared>,
    pub(crate) relay_sync: Option<Arc<RelaySync>>,
    receiving: Mutex<Receiving>,
    witness_kept: Mutex<Instant>,
    affinity: ThreadAffinity,
    pub(crate) on_stop: OnStop,
    pub(crate) space: Arc<DiskSpace>,
    pub(crate) space_watch: Mutex<SpaceWatch>,
    /// Why replay stopped, with the time at which that was noticed.
    sql_error: OnceLock<ErrorReport>,
    /// True once the log says that receiving, or replay, stopped with an error.
    io_stop_said: AtomicBool,
    sql_stop_said: AtomicBool,
    pub(crate) stopping: AtomicBool,
    pub(crate) skip: SkipList,
    pub(crate) recovered: GtidSet,
    /// The condition of the last order to start replay.
    until: Mutex<Option<UntilGtids>>,
    /// True once the log says that it is met.
    until_said: AtomicBool,
    /// True once that stop is kept for a restart.
    until_kept: AtomicBool,
    recovered_sequence: u64,
    began: Instant,
    /// True once the duration of recovery is logged; also for an empty folder, which has none.
    recovery_said: AtomicBool,
    /// True once the log says that a copy without a lock is exact; also if there is no such copy.
    settled_said: AtomicBool,
    copy_config: CopyConfig,
    folder: Folder,
    copy_buffer_bytes: u64,
    /// Locked during a table copy: only one runs at a time.
    copying_table: Mutex<()>,
    /// Progress of the table copy; empty if none runs.
    pub(crate) table_copy: Mutex<String>,
    pub(crate) tables_copied: AtomicU64,
    pub(crate) tables_copied_by_itself: AtomicU64,
    due: Mutex<DueCopies>,
    on_drift: OnDrift,
    drift: Mutex<DriftWatch>,
    on_damage: OnDamage,
    damage: Mutex<DamageWatch>,
    /// Taken when its thread is started.
    scrub_interval: Mutex<Option<Duration>>,
    /// What the slow check does, or found.
    pub(crate) scrub: Mutex<String>,
    pub(crate) backups: RunningBackups,
    /// What it serves to other replicas, and the thread that stamps it.
    pub(crate) served: Option<(Arc<Serving>, StampingThread)>,
}

/// Damage of the store at which replay stopped.
pub struct StoreDamage {
    /// What replay said.
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
/// How long a request to stop replay waits for the end of the transaction in hand.
const SQL_ENDS_WITHIN: Duration = Duration::from_secs(15);
/// Interval at which it looks.
const REST_LOOK_EVERY: Duration = Duration::from_millis(1);

/// Interval at which the file `source-last` is written while transactions arrive.
const KEEP_WITNESS_EVERY: Duration = Duration::from_secs(5);

/// Input of a start.
pub struct Start<'a> {
    /// The configuration.
    pub config: &'a ReplicaConfig,
    /// The data folder, whose exclusive lock the caller holds for the lifetime of the replica.
    pub folder: &'a Folder,
    /// Called for an initial copy.
    pub watch_copy: CopyWatch<'a>,
    /// How receiving begins.
    pub receive: Receive,
    /// The login at the source; None for a source of files.
    pub login: Option<Arc<SourceLogin>>,
    /// How replay begins.
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
    /// A sync failed.
    pub sync_failed: bool,
}

/// How replay begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BeginReplay {
    /// It runs.
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
    /// It runs.
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
        let mut skip = crate::skip::load(folder)?;
        if !config.skip.is_subset_of(&skip) {
            log::write(Code::OperatorCommand, "Server", &format!("--skip-gtids asks to skip {}", config.skip));
            skip = crate::skip::add(folder, &config.skip)?;
        }
        let memory = MemoryPlan::of(config.memory, config.pipeline.queue_memory);
        base::allocator::configure(memory.limit_bytes);
        table_copy::note_abandoned(folder)?;
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
        let Opened { link, disk, recovered, relay, relay_sync, recovery, lower_case_table_names, receiving, served } =
            opening.open()?;
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
        let under_filters = filter_orders::take_over(folder, recovered.as_ref())?;
        let mut without_damaged = None;
        if let Some(recovered) = &recovered {
            if on_damage == OnDamage::Stop {
                damage::refusal(&disk, &recovered.catalog).map_or(Ok(()), Err)?;
            }
            let of_cut = under_filters.as_ref().unwrap_or(&recovered.catalog);
            without_damaged = damage::quarantined_at_start(&disk, of_cut);
        }
        let mut tail = RelayReader::open_at(Arc::clone(&relay), &recovery.start, ReaderOptions::REPLAY);
        let workers = if config.pipeline.workers == 0 { cores() } else { config.pipeline.workers };
        let catalog = Catalog::new(lower_case_table_names);
        let recovered_sequence = recovered.as_ref().map_or(0, |recovered| recovered.sequence);
        let had_something = recovered.is_some() || !recovery.files.is_empty();
        let store = Store::over(lanes_for(workers), disk, folder.scratch(), recovered, catalog);
        let last_cut = Arc::new(Mutex::new(last_cut));
        let cuts = CutOptions {
            generation_bytes: memory.generation_bytes,
            interval: config.cut_interval,
            sync_relay: sync_relay(&relay_sync),
            after_cut: after_cut(&relay, config.relay_log_expire, &last_cut),
            waits_for_space: config.on_stop == OnStop::Stay,
        };
        let store = Arc::new(store.map_err(|error| store_failure(&error))?);
        without_damaged.or(under_filters).into_iter().for_each(|catalog| store.start_with(catalog));
        let bytes = if config.snapshot_memory == 0 { memory.snapshot_bytes } else { config.snapshot_memory };
        store.visibility().limit_snapshots(SnapshotLimits { bytes, age: config.snapshot_age });
        let not_yet_consistent = store.readable();
        if let Err(error) = &not_yet_consistent {
            log::write(Code::CopyFoundNotConsistent, "Copy", &error.to_string());
        }
        // Nothing is read before it is known what holds replay back.
        let may_read = Arc::new(AtomicBool::new(false));
        let gate = Arc::clone(&may_read);
        let pipeline = Pipeline::start(
            Box::new(move |timeout| {
                if !gate.load(Ordering::Acquire) {
                    std::thread::sleep(PAUSE_COMES_WITHIN);
                    return Ok(TailItem::Idle);
                }
                tail.next(timeout)
            }),
            PipelineOptions {
                quarantine: matches!(config.source, SourceSpec::Server(_)),
                filters: Arc::clone(&config.filters),
                decoders: if config.pipeline.decoders == 0 { (cores() / 2).max(1) } else { config.pipeline.decoders },
                workers,
                memory_bytes: memory.queue_bytes,
                apply: ApplyOptions { check_images: config.pipeline.check_images },
                skip: skip.clone(),
                store,
                cuts: Some(cuts),
                clock_difference_us: Arc::clone(&link.clock_difference_us),
                lag_by_part: Arc::clone(relay.lag_by_part()),
                affinity: config.pipeline.affinity.clone(),
            },
        );
        pipeline.set_delay(config.source_delay);
        match replay {
            BeginReplay::Runs => {}
            BeginReplay::Until(until) => pipeline.resume(Some(until.clone())),
            BeginReplay::Stopped => pipeline.pause(),
            BeginReplay::StoppedAt(shown) => pipeline.resume(Some(UntilGtids::After(shown.clone()))),
        }
        may_read.store(true, Ordering::Release);
        if let Some(login) = login {
            receiver::watch_clock(login, &link);
        }
        let of_engine = OfEngine { config, relay: &relay, link: &link, login: login.as_ref(), lower_case_table_names };
        let served = match serve.as_ref().zip(served) {
            Some((serve, opened)) => Some((Arc::clone(&opened.serving), serve.stamps(opened, &of_engine)?)),
            None => None,
        };
        Ok(Replica {
            data: config.data.clone(),
            shown_source: Mutex::new(config.source.shown()),
            login: login.clone(),
            server_id: config.server_id.unwrap_or_else(|| folder.default_server_id()),
            server_uuid: folder.server_uuid().to_string(),
            queue_limit_bytes: memory.queue_bytes,
            memory_limit_bytes: memory.limit_bytes,
            check_images: config.pipeline.check_images,
            last_cut,
            started: Instant::now(),
            log_was_cut,
            pipeline,
            link,
            relay,
            relay_sync: Some(relay_sync),
            receiving: Mutex::new(receiving),
            witness_kept: Mutex::new(Instant::now()),
            affinity: config.pipeline.affinity.clone(),
            on_stop: config.on_stop,
            space,
            space_watch: Mutex::default(),
            sql_error: OnceLock::new(),
            io_stop_said: AtomicBool::new(matches!(receive, Receive::Stopped(_))),
            sql_stop_said: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            skip,
            recovered: match replay {
                // Until then rows are those of before the stop.
                BeginReplay::StoppedAt(shown) => shown.clone(),
                _ => recovery.retrieved,
            },
            until: Mutex::new(match replay {
                BeginReplay::Until(until) => Some(until.clone()),
                _ => None,
            }),
            until_said: AtomicBool::new(false),
            until_kept: AtomicBool::new(false),
            recovered_sequence,
            began,
            recovery_said: AtomicBool::new(!had_something),
            settled_said: AtomicBool::new(not_yet_consistent.is_ok()),
            copy_config: config.copy,
            folder: Folder::clone(folder),
            copy_buffer_bytes: memory.generation_bytes / (4 * config.copy.connections.max(1) as u64),
            copying_table: Mutex::new(()),
            table_copy: Mutex::new(String::new()),
            tables_copied: AtomicU64::new(0),
            tables_copied_by_itself: AtomicU64::new(0),
            due: Mutex::new(DueCopies::new(Instant::now())),
            on_drift: config.on_drift,
            drift: Mutex::default(),
            on_damage,
            damage: Mutex::new(damage_watch),
            scrub_interval: Mutex::new(config.scrub_interval),
            scrub: Mutex::new(String::new()),
            backups: RunningBackups::default(),
            served,
        })
    }

    /// Stops replay at a transaction boundary; receiving continues (STOP REPLICA SQL_THREAD). Returns what is visible
    /// once nothing becomes visible any more; at once if replay is on its way to where it is stopped.
    ///
    /// # Errors
    /// Replay has failed, or does not come to rest in time; it does so later.
    pub fn stop_sql(&self) -> Result<GtidSet, Failure> {
        self.sql_failure().map_or(Ok(()), Err)?;
        if let (Some(shown), false) = (self.stopped_at(), self.pipeline.is_paused()) {
            return Ok(shown);
        }
        self.pipeline.pause();
        let until = Instant::now() + SQL_ENDS_WITHIN;
        while !self.pipeline.is_at_rest() {
            self.sql_failure().map_or(Ok(()), Err)?;
            if self.stopping.load(Ordering::Acquire) {
                return Err(Failure::error("the replica stops"));
            }
            if Instant::now() > until {
                return Err(Failure::error("replay was told to stop and has not ended its transaction yet"));
            }
            std::thread::sleep(REST_LOOK_EVERY);
        }
        Ok(self.pipeline.store.visibility().executed())
    }

    /// The data folder of the replica.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Tells when the store is closed, so that the folder can be opened again in this process.
    #[must_use]
    pub fn store_closing(&self) -> Closing {
        self.pipeline.store.disk().map_or_else(Closing::default, |disk| disk.closing())
    }

    /// Requests that receiver and replay end at a transaction boundary.
    pub fn stop(&self) {
        if self.on_stop == OnStop::Stay && !self.stopping.load(Ordering::Acquire) {
            // What stopped before is no failure of this stop, although the log has not said it yet.
            self.tell_of_stops();
        }
        if !self.stopping.swap(true, Ordering::AcqRel) {
            if let Some((_, stamping)) = &self.served {
                stamping.stop();
            }
            self.pipeline.stop();
            self.relay.end_space_wait();
            self.link.stopping.store(true, Ordering::Release);
            self.link.interrupt();
        }
    }

    /// Stops receiving at a transaction boundary; replay goes on with what was received (STOP REPLICA IO_THREAD).
    ///
    /// # Errors
    /// The thread does not end in time; it ends later.
    pub fn stop_io(&self) -> Result<(), Failure> {
        Receiving::stop(&self.link, &self.relay, || matches!(*self.look_at_receiving(), Receiving::Running(_)))
    }

    /// Starts receiving again (START REPLICA IO_THREAD).
    ///
    /// # Errors
    /// It is still ending, or a thread cannot be started.
    pub fn start_io(&self) -> Result<Begun, Failure> {
        if self.relay_sync.as_ref().is_some_and(|sync| sync.poison().is_some()) {
            return Ok(Begun::NeedsNewEngine);
        }
        if let Some(login) = &self.login {
            login.try_now();
        }
        let mut receiving = self.look_at_receiving();
        let started = receiving.start_again(&self.link, &self.relay, &self.affinity, &self.io_stop_said)?;
        Ok(started.map_or(Begun::NeedsNewEngine, |_| Begun::Running))
    }

    /// Starts replay again, up to a condition if there is one (START REPLICA SQL_THREAD [UNTIL …]).
    #[must_use]
    pub fn start_sql(&self, until: Option<UntilGtids>) -> Begun {
        if self.pipeline.failure().is_some() {
            return Begun::NeedsNewEngine;
        }
        self.until_ordered().clone_from(&until);
        self.until_said.store(false, Ordering::Relaxed);
        self.until_kept.store(false, Ordering::Relaxed);
        self.pipeline.resume(until);
        Begun::Running
    }

    fn until_ordered(&self) -> MutexGuard<'_, Option<UntilGtids>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The condition of the last order to start replay, met or not.
    #[must_use]
    pub fn until(&self) -> Option<UntilGtids> {
        self.until_ordered().clone()
    }

    /// What is visible, once that condition has stopped replay; returned once, and noted in the log.
    #[must_use]
    pub fn take_until_met(&self) -> Option<GtidSet> {
        let until = self.until()?;
        if !self.pipeline.is_until_met() || !self.pipeline.is_at_rest() || self.until_said.swap(true, Ordering::Relaxed)
        {
            return None;
        }
        let text = format!("replay stopped: START REPLICA UNTIL {} = '{}' is met", until.name(), until.set());
        log::write(Code::UntilMet, "Replay", &text);
        Some(self.pipeline.store.visibility().executed())
    }

    /// What stopped replay at its condition is kept for a restart, or cannot be.
    pub fn until_is_kept(&self) {
        self.until_kept.store(true, Ordering::Relaxed);
    }

    /// True if an operator has stopped replay, and it has stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        let is_kept =
            || self.until_kept.load(Ordering::Relaxed) || self.until().is_none() || !self.pipeline.is_until_met();
        self.pipeline.is_paused() && self.pipeline.is_at_rest() && is_kept()
    }

    /// What is visible where an operator has stopped replay, also on the way there after a restart; None if it runs.
    #[must_use]
    pub fn stopped_at(&self) -> Option<GtidSet> {
        if self.pipeline.is_paused() {
            return Some(self.pipeline.store.visibility().executed());
        }
        match (self.pipeline.until(), self.until()) {
            (Some(UntilGtids::After(shown)), None) => Some(shown),
            _ => None,
        }
    }

    /// How replay begins in an engine that replaces this one, if nobody asks for another way: as it is here.
    #[must_use]
    pub fn replay_again(&self) -> BeginReplay {
        match (self.stopped_at(), self.until()) {
            (Some(shown), _) => BeginReplay::StoppedAt(shown),
            (None, Some(until)) => BeginReplay::Until(until),
            (None, None) => BeginReplay::Runs,
        }
    }

    /// What must be visible before the kept relay log counts as replayed.
    #[must_use]
    pub fn recovers_to(&self) -> &GtidSet {
        &self.recovered
    }

    /// The source as it is shown.
    pub(crate) fn shown_source(&self) -> String {
        self.shown_source.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks that another source may be followed from here. Receiving is stopped.
    ///
    /// # Errors
    /// Why it may not be, or that it cannot be reached; receiving is not stopped.
    pub fn try_source(&self, server: &ServerOptions) -> Result<(), Failure> {
        match &*self.look_at_receiving() {
            Receiving::Stopped(receiver) => receiver.try_source(server),
            _ => Err(Failure::error("receiving is not stopped")),
        }
    }

    /// Takes another source, and another delay. Receiving is stopped if its options change, and so is replay for the
    /// delay.
    pub fn configure(&self, config: &ReplicaConfig) {
        if let Receiving::Stopped(receiver) = &mut *self.look_at_receiving() {
            receiver.configure(config);
        }
        *self.shown_source.lock().unwrap_or_else(PoisonError::into_inner) = config.source.shown();
        self.pipeline.set_delay(config.source_delay);
    }

    /// How receiving begins in an engine that replaces this one, if nobody asks for it: as it is here.
    #[must_use]
    pub fn receive_again(&self) -> Receive {
        let failure = self.link.lock().failure.clone();
        if failure.is_some() || self.link.io_stop.load(Ordering::Acquire) {
            return Receive::Stopped(failure);
        }
        Receive::Again
    }

    /// State of receiving, after a look whether its thread has ended.
    fn look_at_receiving(&self) -> MutexGuard<'_, Receiving> {
        Receiving::looked_at(&self.receiving, &self.link, self.stopping.load(Ordering::Acquire))
    }

    /// Why the replica cannot continue; None if it can.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.sql_failure().or_else(|| self.io_failure())
    }

    /// Why replay stopped; None if it runs or was stopped as asked.
    #[must_use]
    pub fn sql_failure(&self) -> Option<Failure> {
        self.pipeline.failure().map(|stop| self.by_itself(self.stop_failure(&stop)))
    }

    /// Why receiving stopped; None if it runs or was stopped as asked.
    #[must_use]
    pub fn io_failure(&self) -> Option<Failure> {
        self.link.lock().failure.clone().map(|failure| self.by_itself(failure))
    }

    /// Why replay stopped, for status.
    pub(crate) fn sql_error(&self) -> Option<ErrorReport> {
        let failure = self.sql_failure()?;
        let mut report = self.sql_error.get_or_init(|| error_report(&failure)).clone();
        // A failure at an earlier place of the log may replace the first one that was noticed.
        (report.exit, report.number, report.text, report.way_on) =
            (failure.exit.code(), failure.number, failure.text, failure.hint);
        Some(report)
    }

    /// Why receiving stopped, or why it does not connect, for status.
    pub(crate) fn io_error(&self) -> Option<ErrorReport> {
        let state = self.link.lock();
        let mut report = state.last_error.clone()?;
        if let Some(failure) = &state.failure
            && self.on_stop == OnStop::Stay
        {
            let hint = self.by_itself(failure.clone()).hint;
            report.way_on = hint.or(report.way_on).or_else(|| Some(self.start_io_hint()));
        }
        Some(report)
    }

    fn start_io_hint(&self) -> String {
        format!("once that is mended: slipstream start io --data {}", self.data.display())
    }

    /// Converts a stop, with this replica's folder and source in the command that continues.
    pub(crate) fn stop_failure(&self, stop: &Stop) -> Failure {
        let mut failure = stop_failure(stop);
        if stop.class == StopClass::StoreDamaged
            && let Some(disk) = self.pipeline.store.disk()
            && let Some(named) = damage::refusal(disk, &self.pipeline.store.visibility().current().catalog)
        {
            let text = if stop.reason == named.text { stop.to_string() } else { format!("{stop}; {}", named.text) };
            failure = Failure { text, ..named };
        }
        failure.hint = failure.hint.map(|command| {
            let command = match self.on_stop {
                OnStop::Stay => command,
                OnStop::Exit => command.replace(START_SQL, "start the replica again"),
            };
            let data = format!("--data {}", self.data.display());
            let source = format!("--source {}", crate::config::mask_passwords(&self.shown_source()));
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
        let receiving_ended = matches!(*self.look_at_receiving(), Receiving::Ended);
        if !self.pipeline.is_finished() || !receiving_ended || self.is_stopping() && stamps {
            return None;
        }
        // What the process stayed with is no failure of a stop that was asked for; what happens in the stop is one.
        let told = |failure: &Failure, said: &AtomicBool| said.load(Ordering::Relaxed) && !ends(failure);
        let replay = replay.filter(|failure| !told(failure, &self.sql_stop_said));
        let failure = replay.or_else(|| self.io_failure().filter(|failure| !told(failure, &self.io_stop_said)));
        let failure = failure.or(defect);
        if !self.stopping.load(Ordering::Acquire) && !failure.as_ref().is_none_or(ends) {
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

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The files of the relay log.
    #[must_use]
    pub fn relay_log_files(&self) -> Vec<LogPart> {
        self.relay.parts()
    }

    /// The damage of the relay log at which replay stopped, if the source can send that part again: the next start
    /// truncates the log. Also None if the source itself sent the damaged bytes.
    #[must_use]
    pub fn damage(&self) -> Option<relay_log::Damage> {
        let stop = self.pipeline.failure().filter(|stop| stop.class == StopClass::Corrupt)?;
        self.login.as_ref()?;
        // The damage is after the last visible transaction, and not after the position at which replay stopped.
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
                    &format!("cannot search the relay log for the damage that caused '{stop}': {error}"),
                );
                None
            }
        }
    }

    /// Damage of the store at which replay stopped, if a restart of the engine goes on without the tables in it.
    #[must_use]
    pub fn store_damage(&self) -> Option<StoreDamage> {
        let stop = self.pipeline.failure().filter(|stop| stop.class == StopClass::StoreDamaged)?;
        if self.on_damage != OnDamage::Copy {
            return None;
        }
        let disk = self.pipeline.store.disk()?;
        // A merge in progress would keep the store open.
        self.pipeline.store.break_off_merges(true);
        Some(StoreDamage { text: stop.to_string(), files: disk.damage().len() })
    }

    /// What of the source changes answers, as last asked.
    #[must_use]
    pub fn source_settings(&self) -> Arc<SourceSettings> {
        self.link.source_settings()
    }

    /// Connection options of the source for one try; None for files.
    #[must_use]
    pub fn source_options(&self) -> Option<client::ConnectOptions> {
        self.login.as_ref().map(|login| login.for_try())
    }

    /// Copies one table (`SCHEMA.TABLE`) again while replay continues, and reports progress to `say`. Returns when the
    /// copy is durable and has replaced the table.
    ///
    /// # Errors
    /// Why the table is unchanged; code 2 for an invalid name.
    pub fn copy_table(&self, name: &str, say: &mut dyn FnMut(&str)) -> Result<TableCopyReport, Failure> {
        let Some(source) = self.source_options() else {
            return Err(Failure::usage(
                "a table can be copied from a server only, and the source of this replica is files",
            ));
        };
        self.failure().map_or(Ok(()), Err)?;
        if self.link.io_stop.load(Ordering::Acquire) {
            return Err(Failure::error("receiving is stopped, and a table's copy needs it to run")
                .with_hint(format!("slipstream start io --data {}", self.data.display())));
        }
        if self.pipeline.is_paused() {
            return Err(Failure::error("replay is paused, and a table's copy needs it to run")
                .with_hint(format!("slipstream resume --data {}", self.data.display())));
        }
        let Ok(_alone) = self.copying_table.try_lock() else {
            return Err(Failure::error("this replica is copying another table; try again when that is done"));
        };
        let shown = |line: &str| line.clone_into(&mut self.table_copy.lock().unwrap_or_else(PoisonError::into_inner));
        shown(name);
        let copy = TableCopy {
            pipeline: &self.pipeline,
            relay: &self.relay,
            source: &source,
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
        if result.as_ref().is_err_and(|failure| failure.exit == Exit::Disk)
            && let Some(disk) = self.pipeline.store.disk()
        {
            // Others need the space; a disk that refuses this too has been named already.
            let _ = disk.remove_unnamed();
        }
        if result.is_ok() {
            self.tables_copied.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// A quarantined table whose copy is due; it counts as being copied until `copied_by_itself` is called.
    fn due_copy(&self) -> Option<String> {
        self.login.as_ref()?;
        if self.stopping.load(Ordering::Acquire)
            || self.link.io_stop.load(Ordering::Acquire)
            || self.pipeline.is_paused()
            || self.failure().is_some()
        {
            return None;
        }
        let catalog = self.pipeline.store.visibility().current().catalog;
        let writes = self.pipeline.decode_options().writes;
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let mut drifted = Vec::new();
        if self.on_drift == OnDrift::Copy && self.pipeline.store.readable().is_ok() && !self.pipeline.is_paused() {
            drifted.extend(self.drifted().into_iter().map(|table| table.name));
        }
        match due.look(Instant::now(), &catalog, &writes, &drifted)? {
            DueCopy { name, why: Some(why) } => {
                let text = format!("{name} cannot be read until it is copied again; starting the copy: {why}");
                log::write(Code::TableInQuarantine, "Copy", &text);
                Some(name)
            }
            // The log has said already why.
            DueCopy { name, why: None } => Some(name),
        }
    }

    /// Tables with rows that contradict the log.
    #[must_use]
    pub fn drifted(&self) -> Vec<DriftedTable> {
        let catalog = self.pipeline.store.visibility().current().catalog;
        drift::drifted(&self.pipeline.store, &catalog)
    }

    /// The tables of [`drifted`](Self::drifted) and some rows of each, for the operator.
    #[must_use]
    pub fn drift_report(&self) -> String {
        drift::report(&self.drifted())
    }

    /// Accepts that a table (`SCHEMA.TABLE`) differs. What is found later is reported again.
    ///
    /// # Errors
    /// The table is not one of [`drifted`](Self::drifted), or the list cannot be written.
    pub fn accept_drift(&self, name: &str) -> Result<(), Failure> {
        let catalog = self.pipeline.store.visibility().current().catalog;
        drift::accept(&self.pipeline.store, &catalog, name)
    }

    /// GTIDs of the last durable cut, as far as cuts of this engine or the one that it began with are known.
    #[must_use]
    pub fn cut_executed(&self) -> GtidSet {
        self.last_cut.lock().unwrap_or_else(PoisonError::into_inner).executed.clone()
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
        let Ok(_alone) = self.copying_table.try_lock() else {
            return Err(Failure::error("this replica is copying a table; try again when that is done"));
        };
        if let Err(error) = self.pipeline.store.readable() {
            return Err(Failure::error(format!("{error}; until then the relay log is needed")));
        }
        let until = Instant::now() + CUT_WITHIN;
        let now = self.pipeline.store.visibility().current().sequence.0;
        while self.pipeline.store.last_cut() < now {
            self.sql_failure().map_or(Ok(()), Err)?;
            if self.stopping.load(Ordering::Acquire) || Instant::now() > until {
                return Err(Failure::error(format!("no cut was taken in time, and {needed}; try again")));
            }
            self.pipeline.ask_for_cut();
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
        let now = self.pipeline.store.visibility().current().sequence.0;
        while self.pipeline.store.last_cut() < now {
            self.sql_failure().map_or(Ok(()), Err)?;
            if self.stopping.load(Ordering::Acquire) {
                return Err(Failure::error("the replica stops"));
            }
            self.pipeline.ask_for_cut();
            std::thread::sleep(CUT_LOOK_EVERY);
        }
        self.pipeline.store.check_rows().map_err(|error| store_failure(&error))?;
        // A damaged file is not merged, so its rows were not compared.
        if let Some(disk) = self.pipeline.store.disk()
            && let Some(failure) = damage::unchecked(disk)
        {
            return Err(failure);
        }
        Ok(self.drifted())
    }

    fn look_for_drift(&self) {
        let catalog = || self.pipeline.store.visibility().current().catalog;
        let mut watch = self.drift.lock().unwrap_or_else(PoisonError::into_inner);
        if watch.look(&self.pipeline.store, catalog, self.on_drift) && self.on_drift == OnDrift::Stop {
            self.pipeline.pause();
        }
    }

    fn look_for_damage(self: &Arc<Self>) {
        let Some(disk) = self.pipeline.store.disk() else { return };
        let catalog = || self.pipeline.store.visibility().current().catalog;
        let mut watch = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
        let due = watch.look(disk, catalog, self.on_damage);
        drop(watch);
        match due {
            None => {}
            Some(Due::Stop(failure)) => {
                let publisher = &self.pipeline.publisher;
                let position = publisher.status().position.unwrap_or_else(|| self.pipeline.position());
                let stop = Stop { class: StopClass::StoreDamaged, position, gtid: None, reason: failure.text };
                publisher.fail(self.pipeline.store.visibility().watermark().next(), stop);
            }
            Some(Due::Quarantine(tables)) => {
                let replica = Arc::clone(self);
                // Replay answers at a boundary, or after a pause.
                let ask = move || {
                    let _ = replica.pipeline.copier().quarantine(tables, &replica.stopping);
                    replica.damage.lock().unwrap_or_else(PoisonError::into_inner).quarantined();
                };
                if std::thread::Builder::new().name("quarantine".into()).spawn(ask).is_err() {
                    self.damage.lock().unwrap_or_else(PoisonError::into_inner).quarantined();
                }
            }
        }
    }

    /// Starts the thread of the slow check, once.
    fn begin_scrub(self: &Arc<Self>) {
        let Some(interval) = self.scrub_interval.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let replica = Arc::clone(self);
        let run = move || {
            base::priority::to_background();
            crate::scrub::run(&replica, interval);
        };
        if let Err(error) = std::thread::Builder::new().name("scrub".into()).spawn(run) {
            log::write(Code::ScrubTrouble, "Store", &format!("cannot start a thread: {error}"));
        }
    }

    /// Damaged files of the store, for `status`.
    pub(crate) fn damaged(&self) -> Vec<String> {
        let catalog = self.pipeline.store.visibility().current().catalog;
        self.pipeline.store.disk().map_or_else(Vec::new, |disk| damage::report(disk, &catalog))
    }

    /// Records the result of the copy of a quarantined table.
    fn copied_by_itself(&self, name: &str, copied: bool) {
        self.due.lock().unwrap_or_else(PoisonError::into_inner).copied(Instant::now(), name, copied);
        if copied {
            self.tables_copied_by_itself.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Commits these GTIDs empty when replay meets them, also after a restart. Returns a warning if some are unlikely
    /// to come.
    ///
    /// # Errors
    /// Some of `more` are already sequenced; code 7 or 8 if the list cannot be stored.
    pub fn skip(&self, more: &GtidSet) -> Result<Option<String>, Failure> {
        let mut late = GtidSet::new();
        self.skip.change(|listed, sequenced| {
            let (all, already) = crate::skip::with(listed, more, &self.decided(sequenced));
            late = already;
            crate::skip::store(&self.folder, &all).map(|()| all)
        })?;
        crate::skip::too_late(&late)?;
        let mut known = self.link.lock().retrieved.clone();
        known.union_with(&self.skip.sequenced());
        Ok(crate::skip::far_ahead(more, &known))
    }

    /// Takes these GTIDs off the list of transactions to skip.
    ///
    /// # Errors
    /// Some of `less` are not on the list, or already sequenced; code 7 or 8 if the list cannot be stored.
    pub fn undo_skip(&self, less: &GtidSet) -> Result<(), Failure> {
        // A copy follows the log beside replay, and may have left them out already.
        let Ok(_alone) = self.copying_table.try_lock() else {
            return Err(Failure::error("this replica is copying a table; try again when that is done"));
        };
        self.skip.change(|listed, sequenced| {
            let rest = crate::skip::without(listed, less, &self.decided(sequenced))?;
            crate::skip::store(&self.folder, &rest).map(|()| rest)
        })
    }

    /// The transactions to skip that no cut holds yet.
    #[must_use]
    pub fn skip_list(&self) -> Listed {
        let cut = self.last_cut.lock().unwrap_or_else(PoisonError::into_inner).executed.clone();
        Listed::of(&self.skip.current(), &self.decided(&self.skip.sequenced()), &cut)
    }

    /// GTIDs of which it is decided whether they are skipped: all that are sequenced. Once replay has failed only the
    /// visible ones: the next engine meets the others again.
    fn decided(&self, sequenced: &GtidSet) -> GtidSet {
        if self.pipeline.failure().is_some() { self.pipeline.store.visibility().executed() } else { sequenced.clone() }
    }

    /// Periodic work without a thread of its own; call it every few milliseconds. Copies a quarantined table, takes a
    /// cut if the receiver waits for relay log space, and logs changes of state.
    pub fn housekeep(self: &Arc<Self>) {
        self.tell_the_log();
        self.keep_witness();
        if self.on_stop == OnStop::Stay {
            self.tell_of_stops();
        }
        self.tell_of_space();
        if self.relay.space().waiting.is_some() || self.link.lock().waits_for_space.is_some() {
            self.pipeline.ask_for_cut();
        }
        if let (Some((serving, _)), Some(login)) = (&self.served, &self.login) {
            serving.look_for_errant(&self.link, login);
        }
        self.look_for_drift();
        self.look_for_damage();
        self.begin_scrub();
        let Some(name) = self.due_copy() else { return };
        let (replica, table) = (Arc::clone(self), name.clone());
        let copy = move || {
            // The result is logged by the copy.
            let copied = replica.copy_table(&table, &mut |_| ()).is_ok();
            replica.copied_by_itself(&table, copied);
        };
        if std::thread::Builder::new().name("copy-table".into()).spawn(copy).is_err() {
            self.copied_by_itself(&name, false);
        }
    }

    /// Stores now and then what the newest transaction looks like at the source: a receiver that is killed cannot.
    fn keep_witness(&self) {
        let mut kept = self.witness_kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.elapsed() >= KEEP_WITNESS_EVERY {
            *kept = Instant::now();
            // The relay log reports a full disk; without this file, a check of the source's history is left out.
            let _ = self.link.keep_witness();
        }
    }

    /// Logs that receiving or replay stopped with an error, once each.
    fn tell_of_stops(&self) {
        if let Some(failure) = self.sql_failure()
            && !self.sql_stop_said.swap(true, Ordering::Relaxed)
        {
            let _ = self.sql_error();
            let text = format!("replay stopped; receiving is not affected: {}", failure.told());
            log::write(Code::SqlStopped, "Replay", &text);
        }
        if let Some(failure) = self.io_failure()
            && !self.io_stop_said.swap(true, Ordering::Relaxed)
        {
            let failure = Failure { hint: failure.hint.clone().or_else(|| Some(self.start_io_hint())), ..failure };
            let text = format!("receiving stopped; replay is not affected: {}", failure.told());
            log::write(Code::IoStopped, "Source", &text);
        }
    }

    /// Logs the end of recovery, skipped transactions, and when a copy without a lock becomes consistent.
    fn tell_the_log(&self) {
        if !self.recovery_said.load(Ordering::Relaxed) {
            let visible = self.pipeline.store.visibility().current();
            if self.recovered.is_subset_of(&visible.executed) {
                self.recovery_said.store(true, Ordering::Relaxed);
                let replayed = visible.sequence.0.saturating_sub(self.recovered_sequence);
                let text = format!(
                    "recovered in {} ms: replayed {replayed} transactions of the kept relay log after the cut",
                    self.began.elapsed().as_millis()
                );
                log::write(Code::Recovered, "Store", &text);
            }
        }
        let (skipped, more) = self.skip.take_skipped(&self.pipeline.store.visibility().executed());
        for one in skipped {
            let text = format!("{} was committed empty, as the operator asked; it contained {}", one.gtid, one.held);
            log::write(Code::Skipped, "Replay", &text);
        }
        if more > 0 {
            log::write(Code::Skipped, "Replay", &format!("{more} more transactions were committed empty"));
        }
        if !self.settled_said.load(Ordering::Relaxed) && self.pipeline.store.readable().is_ok() {
            self.settled_said.store(true, Ordering::Relaxed);
            log::write(
                Code::CopyConsistent,
                "Copy",
                "the copy made without a lock is consistent now; rows can be read",
            );
        }
    }

    /// True if the start truncated the relay log, which may have lost what was visible before, unless that is known.
    #[must_use]
    pub fn log_was_cut(&self) -> bool {
        self.log_was_cut
    }

    /// True while the kept part of the relay log is being replayed.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        !self.recovery_said.load(Ordering::Relaxed)
    }
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
