//! Copies one table again while replay continues (invariant 23).
//!
//! In: a running replica, a table's name. Out: the table under a fresh id, exact at the very transaction at which its
//! name is switched to it. Never here: replay blocked for longer than the last few changes take; a copy visible before
//! it is complete; any effect of an unfinished copy.
//!
//! 1. Replay's position P is recorded; the relay log is kept from there on.
//! 2. The table is locked on the source for milliseconds. Its rows at GTID set G are read into the tree, under an id
//!    that no catalog knows. Replay continues to change the old table.
//! 3. The relay log is read again from P, for this table only. Transactions in G are skipped; the others are applied
//!    to the copy in log order, between replay's pieces, so partial images and rows without a key stay exact.
//! 4. Once the copy is close to replay, and replay has passed G, replay is held at a transaction boundary, the copy
//!    catches up, and the name is switched. The cut that contains the switch contains the whole copy.
//!
//! Changes that foreign keys make without logging them (sources before 9.6, or with innodb_native_foreign_keys=ON)
//! cannot be followed: a DELETE or key change of the parent during the copy ends it with a message.
//!
//! DDL on the table ends an attempt, and another one starts. If the process ends before that cut, the table is
//! unchanged, compaction removes the copied rows, and the next start reports the abandoned copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apply::{Boundary, CopyTrack, Refused, TableCopier};
use base::GtidSet;
use catalog::TableDef;
use copy::{CopyError, CopyLock, CopyOptions, CopyReport, CopySink, Progress, RowBatch, SourceCopy};
use decode::{FollowEnd, MemoryGate, StopClass, TableFollower};
use observe::fail_point::{self, Phase};
use relay_log::{ReadLimit, ReaderOptions, RelayPosition, RelayReader, RelayShared, TailItem};
use source::TableFilter;
use store::{CopyWriter, Store};

use crate::config::CopyConfig;
use crate::exit::{Exit, Failure};
use crate::failure::{relay_failure, shown_set, store_failure};
use crate::initial_copy::{hopeless, note_unread, pause_after};
use crate::log::{self, Code};
use crate::login::SourceLogin;
use crate::running_copies::RunningCopies;

/// Maximum number of attempts; DDL on the table ends one.
const TRIES: u32 = 5;
/// Bytes of the log in flight to the workers.
const FOLLOW_BYTES: u64 = 32 << 20;
/// Interval of progress messages.
const SAY_EVERY: Duration = Duration::from_secs(1);
/// Interval at which the copy checks whether replay has passed its GTID set.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// If a pass over the log took longer than this, another pass follows before replay is held.
const CLOSE: Duration = Duration::from_millis(100);
/// Time limit for the last changes while replay is held.
const HELD_MAX: Duration = Duration::from_millis(400);

/// What such a table means for the replica.
const MISPLACED_ROWS_ADVICE: &str = "it is kept, but changes of its partitions, and changes without whole images, copy \
    it again; to avoid that, REPAIR TABLE on the source moves the rows to where they belong";

/// Input of a table copy.
pub(crate) struct TableCopy<'a> {
    /// Pipeline of the running replica.
    pub pipeline: &'a apply::Pipeline,
    /// Relay log of the replica.
    pub relay: &'a Arc<RelayShared>,
    /// Login at the source, which may be another one at the next attempt.
    pub login: &'a SourceLogin,
    /// Limits of the copy.
    pub config: &'a CopyConfig,
    /// The copies that run beside it.
    pub others: &'a RunningCopies,
    /// Buffer size for rows, in bytes.
    pub buffer_bytes: u64,
    /// Set when the replica ends.
    pub stop: &'a AtomicBool,
}

/// Report of a completed table copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableCopyReport {
    /// Database and table, quoted.
    pub table: String,
    /// Number of rows at the copy's GTID set.
    pub rows: u64,
    /// Bytes of their row images.
    pub bytes: u64,
    /// How long writers of the table waited on the source, µs.
    pub lock_us: u64,
    /// How long replay was held for the switch, µs.
    pub held_us: u64,
    pub elapsed: Duration,
    /// The copy's GTID set.
    pub executed: GtidSet,
    pub tries: u32,
}

impl std::fmt::Display for TableCopyReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "copied {}: {} rows, {} in {:.1} s; its writers waited {:.1} ms on the source, replay {:.1} ms here; \
             attempts: {}",
            observe::one_line(&self.table),
            self.rows,
            observe::bytes_text(self.bytes),
            self.elapsed.as_secs_f64(),
            self.lock_us as f64 / 1e3,
            self.held_us as f64 / 1e3,
            self.tries
        )
    }
}

/// Why an attempt ended.
enum Ended {
    /// Another attempt may succeed.
    Again(String),
    /// The source was lost; another attempt may find it, or the next one.
    Lost(String),
    /// Another attempt must take into account that rows lie outside their partition's rule.
    MisplacedRows(String),
    Failed(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Ended {
        Ended::Failed(failure)
    }
}

impl From<Refused> for Ended {
    fn from(_: Refused) -> Ended {
        Ended::Failed(Failure::error("the replica stopped before the copy finished; the table is unchanged"))
    }
}

impl TableCopy<'_> {
    /// Copies `SCHEMA.TABLE`; progress is passed to `say`.
    ///
    /// # Errors
    /// Why the table is unchanged.
    pub(crate) fn run(&self, name: &str, say: &mut dyn FnMut(&str)) -> Result<TableCopyReport, Failure> {
        let filter = TableFilter::parse(&[name]).of(&self.pipeline.decode_options().filters);
        if !matches!(filter.tables.as_slice(), [(Some(db), table)] if !db.is_empty() && !table.is_empty() && table != "*")
        {
            return Err(Failure::usage(format!("'{name}' is not SCHEMA.TABLE")));
        }
        self.pipeline.store.readable().map_err(|error| store_failure(&error))?;
        let begun = Instant::now();
        log::write(Code::TableCopy, "Copy", &format!("copying {name} again"));
        match self.attempts(&filter, say) {
            Ok(mut report) => {
                report.elapsed = begun.elapsed();
                log::write(Code::TableCopy, "Copy", &report.to_string());
                Ok(report)
            }
            Err(failure) => {
                log::write(Code::TableCopyFailed, "Copy", &format!("the copy of {name} failed: {}", failure.text));
                Err(failure)
            }
        }
    }

    fn attempts(&self, filter: &TableFilter, say: &mut dyn FnMut(&str)) -> Result<TableCopyReport, Failure> {
        let (mut tries, mut misplaced_rows) = (0, false);
        loop {
            tries += 1;
            let reason = match self.attempt(filter, misplaced_rows, say) {
                Ok(report) => return Ok(TableCopyReport { tries, ..report }),
                Err(Ended::Failed(failure)) => return Err(failure),
                Err(Ended::Again(reason)) => reason,
                Err(Ended::Lost(reason)) => {
                    self.sleep(pause_after(tries));
                    reason
                }
                Err(Ended::MisplacedRows(reason)) => {
                    misplaced_rows = true;
                    log::write(Code::MisplacedRows, "Copy", &format!("{reason}; {MISPLACED_ROWS_ADVICE}"));
                    reason
                }
            };
            if tries >= TRIES {
                return Err(Failure::error(format!(
                    "{reason}; gave up after {tries} attempts; the table is unchanged"
                )));
            }
            let text = format!("{reason}; starting over (attempt {})", tries + 1);
            log::write(Code::TableCopyRetried, "Copy", &text);
            say(&text);
        }
    }

    /// Waits, unless the replica ends.
    fn sleep(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.stop.load(Ordering::Acquire) {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn attempt(
        &self,
        filter: &TableFilter,
        misplaced_rows: bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<TableCopyReport, Ended> {
        let copier = self.pipeline.copier();
        // Order matters: anything purged before the position is known was sequenced before it.
        let mut side = RelayReader::open(Arc::clone(self.relay), ReaderOptions::TABLE_COPY);
        let place = copier.look(self.stop)?;
        let start = self.relay.start_point(&place.executed, place.end.as_ref());
        side.restart_at(&start.map_err(relay_failure)?);

        let options = CopyOptions {
            lock: CopyLock::Table,
            tables: filter.clone(),
            connections: self.config.connections,
            rate_bytes_per_second: self.config.rate,
            lock_wait: self.config.lock_wait,
            snapshot_max: self.config.snapshot_max,
            misplaced_rows,
            ..CopyOptions::default()
        };
        let copy = SourceCopy::prepare(&self.login.for_try(), &options, self.stop).map_err(copy_ended)?;
        let plan = copy.plan();
        let executed = plan.executed.clone();
        let Some(planned) = plan.tables.first() else {
            return Err(Failure::error("the source has no such table").into());
        };
        let lost = place.executed.subtract(&executed);
        if !lost.is_empty() {
            let text = format!("the source lacks GTIDs {} that are executed here", shown_set(&lost));
            return Err(Failure::error(text).into());
        }
        let Some(id) = copier.reserve(self.stop)? else {
            return Err(Failure::new(Exit::NotSupported, "no table id is left").into());
        };
        let def = Arc::new(TableDef { id, ..TableDef::clone(&planned.def) });
        let lock_us = plan.lock_us;
        say(&format!(
            "{} at GTIDs {}: locked for {}",
            def.full_name(),
            shown_set(&executed),
            observe::duration_text(lock_us)
        ));

        let store = &self.pipeline.store;
        store.begin_table_copy(&def);
        let outcome = self.read(copy, &def, say).and_then(|report| {
            let (rows, bytes) = (report.rows, report.bytes);
            note_unread(&report);
            let virtual_unknown = !report.without_virtual.is_empty();
            let def = Arc::new(TableDef { virtual_unknown, ..TableDef::clone(&def) });
            say(&format!("read {rows} rows; following the log"));
            let held_us = self.follow(&copier, &mut side, &place, &def, &executed, say)?;
            Ok(TableCopyReport {
                table: def.full_name(),
                rows,
                bytes,
                lock_us,
                held_us,
                executed: executed.clone(),
                ..TableCopyReport::default()
            })
        });
        store.end_table_copy(id);
        outcome
    }

    /// Reads the rows into the tree.
    fn read(&self, copy: SourceCopy, def: &Arc<TableDef>, say: &mut dyn FnMut(&str)) -> Result<CopyReport, Ended> {
        let store: &Store = &self.pipeline.store;
        let Some(writer) = CopyWriter::beside(store, self.buffer_bytes as usize) else {
            return Err(Failure::error("this replica has no store on disk").into());
        };
        let progress = Progress::new(copy.plan());
        let sink = Sink { writer: &writer, def };
        let report = std::thread::scope(|scope| {
            let reading = scope.spawn(|| copy.run(&sink, &progress, self.stop));
            let mut said = Instant::now();
            while !reading.is_finished() {
                std::thread::sleep(LOOK_EVERY);
                if said.elapsed() >= SAY_EVERY {
                    said = Instant::now();
                    say(&progress.line());
                }
            }
            reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let report = report.map_err(copy_ended)?;
        let failed = |error: store::StoreError| Ended::Failed(store_failure(&error));
        let rows = writer.finish_table(def.id).map_err(failed)?;
        store.table_copy_read(def.id, rows);
        Ok(report)
    }

    /// Lets the copy catch up with replay and switches the name; returns how long replay was held, µs.
    fn follow(
        &self,
        copier: &TableCopier,
        side: &mut RelayReader,
        place: &Boundary,
        def: &Arc<TableDef>,
        copied: &GtidSet,
        say: &mut dyn FnMut(&str),
    ) -> Result<u64, Ended> {
        let gate = MemoryGate::new(FOLLOW_BYTES);
        let options = self.pipeline.decode_options();
        let mut follower = TableFollower::new(options, gate, &place.catalog, Arc::clone(def), copied.clone());
        let track = Arc::new(CopyTrack::default());
        let mut said = Instant::now();
        loop {
            let began = Instant::now();
            let now = copier.look(self.stop)?;
            self.advance(copier, side, &mut follower, &now, &track)?;
            // After a long pass replay is far ahead again: catch up first, so that it is held only briefly.
            if began.elapsed() > CLOSE {
                continue;
            }
            // Until replay has passed the copy's GTID set, the copied rows are ahead of the other tables.
            if !copied.is_subset_of(&now.executed) {
                if said.elapsed() >= SAY_EVERY {
                    said = Instant::now();
                    let missing = copied.subtract(&now.executed).count();
                    say(&format!("waiting for replay to pass the copy: {missing} transactions"));
                }
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            let alone = self.others.switching();
            let asked = Instant::now();
            let held = copier.hold(self.stop)?;
            let advanced = self.advance(copier, side, &mut follower, &held, &track);
            // Not caught up in time: release replay, then return the error or try again.
            if advanced.is_err() || !is_consistent(&track, asked + HELD_MAX) {
                copier.release(self.stop)?;
                advanced?;
                continue;
            }
            if let Some(reason) = track.reason() {
                copier.release(self.stop)?;
                return Err(unfit(&reason));
            }
            let Ok(number) = copier.switch(def, self.stop) else {
                // Refused because the replica ends, or because replay was no longer held: nothing was switched.
                if self.stop.load(Ordering::Acquire) {
                    return Err(Refused.into());
                }
                continue;
            };
            let held_us = asked.elapsed().as_micros() as u64;
            drop(alone);
            say("switched; making the copy durable");
            return self.wait_durable(number).map(|()| held_us);
        }
    }

    /// Applies the log's changes of the table up to a boundary of replay.
    fn advance(
        &self,
        copier: &TableCopier,
        side: &mut RelayReader,
        follower: &mut TableFollower,
        to: &Boundary,
        track: &Arc<CopyTrack>,
    ) -> Result<(), Ended> {
        // Nothing was sequenced since the start, so nothing follows the position.
        let Some(end) = &to.end else { return Ok(()) };
        let limit = RelayPosition::of(end)
            .ok_or_else(|| Failure::error(format!("{} is not the name of a relay log file", end.file)))?;
        side.set_limit(ReadLimit::Position(limit));
        loop {
            let mut refused = false;
            let followed = match side.next(Duration::ZERO).map_err(relay_failure)? {
                TailItem::Chunk(chunk) => follower.step(&chunk.file, chunk.offset, &chunk.data, &mut |piece| {
                    refused = copier.changes(piece, track, self.stop).is_err();
                    !refused
                }),
                TailItem::EndOfFile { .. } => follower.end_of_file(),
                TailItem::Idle | TailItem::Closed => return Ok(()),
            };
            if refused {
                return Err(Refused.into());
            }
            match followed {
                Ok(()) => {}
                Err(FollowEnd::Changed(statement)) => {
                    return Err(Ended::Again(format!("the table was changed by: {statement}")));
                }
                Err(FollowEnd::Written(statement)) => {
                    let text = format!("a statement in the log changed the table's rows during the copy: {statement}");
                    return Err(Failure::error(text).into());
                }
                // Partial images of a table whose rows only whole ones tell apart: the next copy contains these changes.
                Err(FollowEnd::Stop(stop))
                    if follower.needs_whole_images() && stop.class == StopClass::NotSupported =>
                {
                    return Err(Ended::Again(stop.to_string()));
                }
                Err(FollowEnd::Stop(stop)) => return Err(Failure::new(Exit::Error, stop.to_string()).into()),
            }
            if let Some(reason) = track.reason() {
                return Err(unfit(&reason));
            }
        }
    }

    /// Requests cuts until one that contains the switch, with sequence number `number`, is durable.
    fn wait_durable(&self, number: u64) -> Result<(), Ended> {
        while self.pipeline.store.last_cut() < number {
            if self.stop.load(Ordering::Acquire) || self.pipeline.failure().is_some() {
                let text =
                    "the replica stopped before the copy was durable; its log says at the next start what became of it";
                return Err(Failure::error(text).into());
            }
            self.pipeline.ask_for_cut();
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

/// Waits until all changes passed on are applied; false at `until`.
fn is_consistent(track: &CopyTrack, until: Instant) -> bool {
    while !track.is_idle() {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

fn unfit(reason: &str) -> Ended {
    Ended::Failed(Failure::new(Exit::DataDiffers, format!("the log does not match the copied rows: {reason}")))
}

fn copy_ended(error: CopyError) -> Ended {
    if let CopyError::MisplacedRows { .. } = error {
        return Ended::MisplacedRows(error.to_string());
    }
    let is_lost = matches!(error, CopyError::Source { .. } | CopyError::Table { .. });
    match hopeless(&error, 0) {
        None if is_lost => Ended::Lost(error.to_string()),
        None => Ended::Again(error.to_string()),
        Some(failure) => Ended::Failed(Failure { text: error.to_string(), ..failure }),
    }
}

struct Sink<'a, 'd> {
    writer: &'a CopyWriter<'d>,
    /// Definition of the table with its new id.
    def: &'a Arc<TableDef>,
}

impl CopySink for Sink<'_, '_> {
    fn rows(&self, _: &Arc<TableDef>, rows: &RowBatch) -> Result<(), String> {
        fail_point::enter(Phase::Recopy);
        self.writer.rows(self.def, rows.iter()).map_err(|error| error.to_string())
    }

    fn table_done(&self, _: &Arc<TableDef>, _rows: u64) -> Result<(), String> {
        self.writer.table_done(self.def).map_err(|error| error.to_string())
    }
}
