//! What a replica does beside receiving and replay: copies of tables, watches over drift, damage and disk space, the
//! slow check, backups.
//!
//! In: the lists of store and catalog, free space. Out: copies that are due, replay paused or failed where the operator
//! wants that, lines of the log. Never here: a wait; the copy or check itself.
//!
//! Locks: each is held for one look, and none of them while another one of them is taken.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLockWriteGuard};
use std::time::{Duration, Instant};

use catalog::SourceNames;
use decode::{Stop, StopClass};
use observe::ConnectionState;
use store::DiskSpace;

use crate::all_tables::AllTables;
use crate::backup::RunningBackups;
use crate::config::CopyConfig;
use crate::damage::{DamageWatch, Due, OnDamage};
use crate::disk_trouble::SpaceWatch;
use crate::drift::{DriftWatch, OnDrift};
use crate::due_copies::{DueCopies, DueCopy};
use crate::exit::Failure;
use crate::log::{self, Code};
use crate::replica::Replica;
use crate::running_copies::RunningCopies;

/// A commit can be seen a moment before its GTID is in gtid_executed; no server takes this long between the two.
const DEFINITIONS_SETTLE: Duration = Duration::from_secs(1);

/// What [`Upkeep`] holds.
pub(crate) struct Upkeep {
    pub space: Arc<DiskSpace>,
    pub space_watch: Mutex<SpaceWatch>,
    pub copies: TableCopies,
    pub all_tables: AllTables,
    pub on_drift: OnDrift,
    pub drift: Mutex<DriftWatch>,
    pub on_damage: OnDamage,
    pub damage: Mutex<DamageWatch>,
    /// Taken when the slow check's thread is started.
    pub scrub_interval: Mutex<Option<Duration>>,
    /// What the slow check does, or found.
    pub scrub: Mutex<String>,
    pub backups: RunningBackups,
}

/// Copies of single tables.
pub(crate) struct TableCopies {
    pub config: CopyConfig,
    /// Bytes that each connection of a copy may hold.
    pub buffer_bytes: u64,
    pub running: RunningCopies,
    due: Mutex<DueCopies>,
    pub done: AtomicU64,
    pub done_by_itself: AtomicU64,
}

impl TableCopies {
    pub(crate) fn new(config: CopyConfig, buffer_bytes: u64) -> TableCopies {
        TableCopies {
            config,
            buffer_bytes,
            running: RunningCopies::default(),
            due: Mutex::new(DueCopies::new(Instant::now())),
            done: AtomicU64::new(0),
            done_by_itself: AtomicU64::new(0),
        }
    }

    /// Keeps copies away for as long as the guard lives.
    ///
    /// # Errors
    /// One runs.
    pub(crate) fn keep_away(&self) -> Result<RwLockWriteGuard<'_, ()>, Failure> {
        let busy = || Failure::error("this replica is copying a table; try again when that is done");
        self.running.none().ok_or_else(busy)
    }

    pub(crate) fn count_one(&self, by_itself: bool) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.done_by_itself.fetch_add(u64::from(by_itself), Ordering::Relaxed);
    }

    /// Records the result of the copy of a table that was due.
    fn ended(&self, copy: &DueCopy, copied: bool) {
        self.due.lock().unwrap_or_else(PoisonError::into_inner).copied(Instant::now(), copy, copied);
    }
}

impl Replica {
    /// The duties of upkeep. Copies quarantined tables, takes a cut if the receiver waits for relay log space, and
    /// logs changes of state.
    pub(crate) fn step_upkeep(self: &Arc<Self>) {
        self.tell_of_space();
        if self.inbound.relay.space().waiting.is_some() || self.inbound.link.lock().received.waits_for_space.is_some() {
            self.replay.pipeline.ask_for_cut();
        }
        self.compare_tables();
        self.look_at_moves();
        self.ask_source();
        self.look_for_drift();
        self.look_for_damage();
        self.begin_scrub();
        self.begin_due_copies();
    }

    /// Compares the source's tables with those here, once it is connected.
    fn compare_tables(self: &Arc<Self>) {
        let Some(login) = &self.inbound.login else { return };
        let source = {
            let link = self.inbound.link.lock();
            (link.source.connection == ConnectionState::Connected).then(|| link.source.facts.server_uuid.clone())
        };
        if let Some(source) = source {
            self.upkeep.all_tables.begin(self, login, &source);
        }
    }

    fn look_at_moves(&self) {
        let moves = &self.inbound.link.moves;
        if moves.is_settled() {
            return;
        }
        let pipeline = &self.replay.pipeline;
        // A transaction at which replay has stopped is checked again after a restart.
        let may_end = !self.is_recovering() && self.sql_failure().is_none();
        // What cannot be kept on a full disk is looked at again.
        let _ = moves.step(&pipeline.store, &self.replay.catalog(), &pipeline.decode_options().filters, may_end);
    }

    /// Asks the source about definitions that the log does not settle.
    fn ask_source(self: &Arc<Self>) {
        let Some(login) = &self.inbound.login else { return };
        let connected = self.inbound.link.lock().source.connection == ConnectionState::Connected;
        if connected && !self.is_stopping() && !self.replay.pipeline.is_paused() {
            let login = Arc::clone(login);
            let replica = Arc::downgrade(self);
            let ask = move |names: &SourceNames, question| {
                let options = login.for_try();
                let asked = copy::ask_definitions(&options, names, question, DEFINITIONS_SETTLE);
                // An order may have named another source meanwhile, whose answer counts.
                let is_source = || {
                    let now = login.for_try();
                    replica.upgrade().is_some_and(|replica| !replica.is_stopping())
                        && (&now.host, now.port, &now.socket) == (&options.host, options.port, &options.socket)
                };
                if asked.is_err() && !is_source() { Ok(None) } else { asked.map(Some) }
            };
            let replica = Arc::downgrade(self);
            let hand_on = move |answer| {
                let replica = replica.upgrade()?;
                replica.replay.pipeline.copier().answer(answer, &replica.stopping).ok()
            };
            let filters = Arc::clone(&self.replay.pipeline.decode_options().filters);
            self.upkeep.all_tables.definitions.begin(ask, filters, &self.replay.catalog(), hand_on);
        }
    }

    fn look_for_drift(&self) {
        let pipeline = &self.replay.pipeline;
        let mut watch = self.upkeep.drift.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = watch.look(&pipeline.store, || self.replay.catalog(), self.upkeep.on_drift);
        if is_new && self.upkeep.on_drift == OnDrift::Stop {
            pipeline.pause();
        }
    }

    fn look_for_damage(self: &Arc<Self>) {
        let pipeline = &self.replay.pipeline;
        let Some(disk) = pipeline.store.disk() else { return };
        let mut watch = self.upkeep.damage.lock().unwrap_or_else(PoisonError::into_inner);
        let due = watch.look(disk, || self.replay.catalog(), self.upkeep.on_damage);
        drop(watch);
        match due {
            None => {}
            Some(Due::Stop(failure)) => {
                let publisher = &pipeline.publisher;
                let position = publisher.status().position.unwrap_or_else(|| pipeline.position());
                let stop = Stop { class: StopClass::StoreDamaged, position, gtid: None, reason: failure.text };
                publisher.fail(pipeline.store.visibility().watermark().next(), stop);
            }
            Some(Due::Quarantine(tables)) => {
                let replica = Arc::clone(self);
                // Replay answers at a boundary, or after a pause.
                let ask = move || {
                    let _ = replica.replay.pipeline.copier().quarantine(tables, &replica.stopping);
                    replica.quarantined();
                };
                if std::thread::Builder::new().name("quarantine".into()).spawn(ask).is_err() {
                    self.quarantined();
                }
            }
        }
    }

    fn quarantined(&self) {
        self.upkeep.damage.lock().unwrap_or_else(PoisonError::into_inner).quarantined();
    }

    /// Starts the thread of the slow check, once.
    fn begin_scrub(self: &Arc<Self>) {
        let interval = self.upkeep.scrub_interval.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(interval) = interval else { return };
        let replica = Arc::clone(self);
        let run = move || {
            base::priority::to_background();
            crate::scrub::run(&replica, interval);
        };
        if let Err(error) = std::thread::Builder::new().name("scrub".into()).spawn(run) {
            log::write(Code::ScrubTrouble, "Store", &format!("cannot start a thread: {error}"));
        }
    }

    /// Starts the copies that are due, each on a thread of its own.
    fn begin_due_copies(self: &Arc<Self>) {
        let due = self.due_copies();
        let connections = (self.upkeep.copies.config.connections / due.len().max(1)).max(1);
        for copy in due {
            let (replica, of) = (Arc::clone(self), copy.clone());
            let run = move || {
                // The result is logged by the copy.
                let copied = replica.copy_table_for(Some(connections), &of.name, &mut |_| ()).is_ok();
                replica.upkeep.copies.ended(&of, copied);
            };
            if std::thread::Builder::new().name("copy-table".into()).spawn(run).is_err() {
                self.upkeep.copies.ended(&copy, false);
            }
        }
    }

    /// Quarantined tables whose copies are due; they count as being copied until the end of each is recorded.
    fn due_copies(&self) -> Vec<DueCopy> {
        let (pipeline, copies) = (&self.replay.pipeline, &self.upkeep.copies);
        let waits = self.is_stopping() || self.inbound.is_stopped() || pipeline.is_paused();
        if self.inbound.login.is_none() || waits || self.failure().is_some() {
            return Vec::new();
        }
        let catalog = self.replay.catalog();
        let writes = pipeline.decode_options().writes;
        let mut due = copies.due.lock().unwrap_or_else(PoisonError::into_inner);
        let mut drifted = Vec::new();
        if self.upkeep.on_drift == OnDrift::Copy && pipeline.store.readable().is_ok() && !pipeline.is_paused() {
            drifted.extend(self.drifted().into_iter().map(|table| (table.name, u64::from(table.id))));
        }
        // A limit of the rate is one for all copies.
        let most = if copies.config.rate.is_some() { 1 } else { copies.config.connections.max(1) };
        let found = due.look(Instant::now(), &catalog, &writes, &drifted, most);
        for DueCopy { name, why, .. } in &found {
            // Of a table that differs the log has said already why.
            if let Some(why) = why {
                let text = format!("{name} cannot be read until it is copied again; starting the copy: {why}");
                log::write(Code::TableInQuarantine, "Copy", &text);
            }
        }
        found
    }
}
