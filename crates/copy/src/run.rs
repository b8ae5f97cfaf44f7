//! Reading of all tables over several connections.
//!
//! In: open snapshots, a plan, a sink. Out: every row once, in batches; each table reported done once, after its last
//! row. Invariants: ranges of a table do not overlap and together contain every key; a table is reported done only if
//! its definition was seen unchanged after its last row was read, while the metadata lock of that read was held; rows
//! of a partition whose rule is understood belong there. Never here: a metadata lock held for longer than one range, or
//! than a group of small tables.
//!
//! A connection takes the next table that nobody has started; if there is none, it joins one that is being read.
//! Whoever takes a range first asks for its end, so a table is divided evenly whatever the gaps in its key. Partitions
//! are read one by one, as one range each if their table is small or its key begins with a column that decides the
//! partition: with a condition on it the source would not look for rows outside their partition's rule. After each
//! range the connection rolls back to its savepoint, which releases the metadata lock, so DDL on the source waits for
//! one range at most. Small tables of one database are read in groups, whose definitions one query compares: where
//! there are many, that query would take longer than the rows.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::Countdown;
use catalog::{Identity, TableDef};
use client::{ClientError, ConnectOptions, Connection, Interrupter, ResultSet};
use source::alive::{is_lost, is_silent};

use crate::batch::RowBatch;
use crate::chunk::{Bound, KeyRanges, Steps};
use crate::definitions::{Name, Read, are_unchanged};
use crate::error::{CopyError, at_table};
use crate::options::{CopyLock, CopyOptions, Unsettled};
use crate::progress::{Progress, TableProgress, TableState};
use crate::rate::Rate;
use crate::stop_signal::StopSignal;
use crate::table_reader::{self, TableReader};
use crate::{CopySink, SAVEPOINT, UnsettledTable};

/// Interval of checks of the stop flag and the snapshots' age.
const WATCH_EVERY: Duration = Duration::from_millis(50);
/// Most rows of a range, whatever the estimates say.
const RANGE_ROWS_MAX: u64 = 1_000_000;
/// A table with at most this many ranges is read as a whole.
const WHOLE_RANGES: u64 = 2;

/// Most tables of a group: their metadata locks are held for some ten milliseconds.
const GROUP_TABLES_MAX: usize = 64;

/// Rows of a table without snapshots, read while the lock was held; or none, of a table without rows.
#[derive(Debug, Default)]
pub(crate) struct TakenRows {
    pub batches: Vec<RowBatch>,
    /// See [`TableReader::is_without_virtual`].
    pub without_virtual: bool,
}

/// Where the next range of a table starts.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// After this key, or at the first one; in the partition of this position, if they are read one by one.
    At(Option<usize>, Option<Bound>),
    Nothing,
}

/// Whether ends of ranges are found by arithmetic.
#[derive(Debug)]
enum Stepping {
    NotAsked,
    /// By these steps; the smallest key.
    By(Steps, i128),
    /// The key has no numbers, or the source gives no estimates.
    No,
}

/// The reading of one table.
pub(crate) struct Job {
    pub reader: TableReader,
    pub name: Name,
    /// Its CREATE_TIME at the snapshot.
    pub created: Option<String>,
    ranges: Option<KeyRanges>,
    range_rows: u64,
    rows_estimated: u64,
    stepping: Mutex<Stepping>,
    /// True if several connections may read it at once.
    shareable: bool,
    /// Its rows, if they were read under the lock.
    taken: Option<Vec<RowBatch>>,
    /// True if its tablespace was discarded before the snapshot, so that the source has no rows of it.
    discarded: bool,
    next: Mutex<Next>,
    /// Number of ranges being read, plus 1 while `next` is not `Nothing`.
    open: Countdown,
    rows: AtomicU64,
    /// Why the table is not copied.
    unsettled: Mutex<Option<String>>,
}

impl Job {
    pub(crate) fn new(
        reader: TableReader,
        created: Option<String>,
        (rows_estimated, bytes_estimated): (u64, u64),
        taken: Option<TakenRows>,
        options: &CopyOptions,
    ) -> Job {
        if taken.as_ref().is_some_and(|taken| taken.without_virtual) {
            reader.leave_out_virtual();
        }
        let def: &TableDef = &reader.def;
        let row_bytes = (bytes_estimated / rows_estimated.max(1)).max(1);
        let range_rows = (options.chunk_bytes / row_bytes).max(options.chunk_rows_min.max(1)).min(RANGE_ROWS_MAX);
        // A table that is large by either measure is never read as a whole.
        let bytes_small = options.chunk_bytes.max(range_rows.saturating_mul(row_bytes)).saturating_mul(WHOLE_RANGES);
        let small = rows_estimated <= range_rows * WHOLE_RANGES && bytes_estimated <= bytes_small;
        let partitioned = reader.partition_count() > 0;
        let ranges = if small { None } else { KeyRanges::of(def, &reader.name, &reader.deciding()) };
        Job {
            name: reader.name.clone(),
            // The sink counts equal rows of a table without a key, so one connection reads them all.
            shareable: taken.is_none() && (ranges.is_some() || partitioned && def.identity != Identity::WholeImage),
            ranges,
            range_rows,
            rows_estimated,
            stepping: Mutex::new(Stepping::NotAsked),
            reader,
            created,
            taken: taken.map(|taken| taken.batches),
            discarded: false,
            next: Mutex::new(Next::At(partitioned.then_some(0), None)),
            open: Countdown::new(1),
            rows: AtomicU64::new(0),
            unsettled: Mutex::new(None),
        }
    }

    fn next(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next range. None if none is left.
    fn take_range(&self, connection: &mut Connection) -> Result<Option<table_reader::Range>, CopyError> {
        let mut next = self.next();
        let Next::At(partition, after) = std::mem::replace(&mut *next, Next::Nothing) else { return Ok(None) };
        let clause = partition.map(|at| self.reader.partition(at)).unwrap_or_default();
        let (mut rest, mut upto) = (clause.clone(), None);
        if let Some(ranges) = &self.ranges {
            upto = self.end_of_range(connection, ranges, &clause, after.as_ref())?;
            rest.push_str(&ranges.hint());
            rest.push_str(&ranges.condition(after.as_ref(), upto.as_ref()));
        }
        let following = partition.map(|at| at + 1).filter(|at| *at < self.reader.partition_count());
        let left = match (upto, following) {
            (Some(upto), _) => Some(Next::At(partition, Some(upto))),
            (None, Some(following)) => Some(Next::At(Some(following), None)),
            (None, None) => None,
        };
        if let Some(left) = left {
            *next = left;
            // Counted while this range is open, so that `open` does not reach 0 while another range is left.
            self.open.add();
        }
        Ok(Some(table_reader::Range { rest, partition }))
    }

    /// Finds where the range after `after` ends, in the partition that `clause` selects if it is not empty; None if it
    /// has all that is left.
    fn end_of_range(
        &self,
        connection: &mut Connection,
        ranges: &KeyRanges,
        clause: &str,
        after: Option<&Bound>,
    ) -> Result<Option<Bound>, CopyError> {
        if clause.is_empty() && ranges.has_steps() {
            let mut stepping = self.stepping.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(end) = self.step(connection, ranges, after, &mut stepping)? {
                return Ok(end);
            }
        }
        let query = ranges.bound_query(clause, after, self.range_rows);
        let mut result = connection.query(&query).map_err(|error| self.reader.failed(error))?;
        let Some(values) = result.rows.pop() else { return Ok(None) };
        let what = "the query for a key";
        let bound = ranges.bound(&values).ok_or(client::ClientError::UnexpectedAnswer { what });
        bound.map(Some).map_err(|error| self.reader.failed(error))
    }

    /// Finds the end by arithmetic; the outer None if the source does not say what that needs.
    fn step(
        &self,
        connection: &mut Connection,
        ranges: &KeyRanges,
        after: Option<&Bound>,
        stepping: &mut Stepping,
    ) -> Result<Option<Option<Bound>>, CopyError> {
        let failed = |error| self.reader.failed(error);
        if let Stepping::NotAsked = stepping {
            let extent = connection.query(&ranges.extent_query()).map_err(failed)?;
            let number = |at: usize| number_at(extent.rows.first()?, at);
            *stepping = match (number(0), number(1)) {
                (Some(first), Some(last)) => {
                    Stepping::By(Steps::new(first, last, self.rows_estimated, self.range_rows), first)
                }
                // No rows.
                _ => Stepping::No,
            };
        }
        let Stepping::By(steps, first) = stepping else { return Ok(None) };
        let from = match after.and_then(|bound| bound.first()) {
            Some(text) => text.parse().ok(),
            None => Some(*first - 1),
        };
        let Some(from) = from else { return Ok(None) };
        let mut error = None;
        let found = steps.next(from, self.range_rows, |end| {
            let estimate = connection.query(&ranges.estimate_query(after, &vec![end.to_string()]));
            let rows = match estimate {
                Ok(estimate) => estimated(&estimate),
                Err(failure) => {
                    error = Some(failure);
                    None
                }
            };
            rows.ok_or(())
        });
        match (found, error) {
            (Ok(end), _) => Ok(Some(end.map(|end| vec![end.to_string()]))),
            (Err(()), Some(error)) => Err(failed(error)),
            (Err(()), None) => {
                *stepping = Stepping::No;
                Ok(None)
            }
        }
    }

    /// Stops reading the table, which will never be done.
    fn leave_out(&self, progress: &TableProgress, why: &str) {
        *self.next() = Next::Nothing;
        let mut unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        unsettled.get_or_insert_with(|| why.to_owned());
        progress.set(TableState::LeftOut);
    }

    /// The same job for a table whose tablespace was discarded before the snapshot.
    pub(crate) fn discarded(self, discarded: bool) -> Job {
        Job { taken: if discarded { Some(Vec::new()) } else { self.taken }, discarded, ..self }
    }

    /// See [`crate::CopyReport::discarded`].
    pub(crate) fn is_discarded(&self) -> bool {
        self.discarded
    }

    /// True if it is read as a whole, by one query.
    pub(crate) fn is_small(&self) -> bool {
        self.taken.is_none() && self.ranges.is_none() && self.reader.partition_count() == 0
    }

    fn can_be_shared(&self) -> bool {
        self.shareable && *self.next() != Next::Nothing
    }
}

/// The jobs that a connection takes together: small tables of one database that follow each other, or a single one.
pub(crate) fn groups_of(jobs: &[Job]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (at, job) in jobs.iter().enumerate() {
        let first = groups.last().and_then(|group| Some((group.len(), jobs.get(group.start)?)));
        let joins = first.is_some_and(|(len, first)| {
            len < GROUP_TABLES_MAX && first.is_small() && job.is_small() && first.name.0 == job.name.0
        });
        match groups.last_mut() {
            Some(group) if joins => group.end = at + 1,
            _ => groups.push(at..at + 1),
        }
    }
    groups
}

/// State shared by all threads of a run.
pub(crate) struct Run<'a> {
    pub server: String,
    /// How it is reached.
    pub login: ConnectOptions,
    pub jobs: Vec<Job>,
    /// See [`groups_of`].
    pub groups: Vec<Range<usize>>,
    pub sink: &'a dyn CopySink,
    pub progress: &'a Progress,
    pub stop: &'a AtomicBool,
    pub options: &'a CopyOptions,
    pub rate: Option<Rate>,
    pub control: Mutex<Connection>,
    /// When the snapshots were opened.
    pub opened: Instant,
    pub state: RunState,
}

/// Decrements the number of running threads, even on panic, because `watch` waits for it.
struct Leaving<'a, 'r>(&'a Run<'r>);

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state.stop_signal.end();
        }
        *self.0.lock(&self.0.state.running) -= 1;
        self.0.state.ended.notify_all();
    }
}

/// Progress and outcome of a run.
#[derive(Default)]
pub(crate) struct RunState {
    next_group: AtomicUsize,
    /// Number of ranges read.
    pub ranges: AtomicU64,
    failure: Mutex<Option<CopyError>>,
    /// Set when a thread failed, the flag was raised or time ran out: all threads end.
    stop_signal: StopSignal,
    running: Mutex<usize>,
    ended: Condvar,
}

impl Run<'_> {
    /// Reads everything; fails with the first error.
    pub(crate) fn run(&self, readers: Vec<Connection>) -> Result<(), CopyError> {
        self.progress.begin();
        let mut interrupters = Vec::new();
        for reader in &readers {
            interrupters.push(reader.interrupter().map_err(|error| self.source(error))?);
        }
        let control = self.lock(&self.control).interrupter().map_err(|error| self.source(error))?;
        *self.lock(&self.state.running) = readers.len();
        std::thread::scope(|scope| {
            for mut reader in readers {
                scope.spawn(move || {
                    let _leaving = Leaving(self);
                    match self.work(&mut reader) {
                        Ok(()) => reader.close(),
                        Err(error) => self.fail(error),
                    }
                });
            }
            scope.spawn(|| self.watch_server(&interrupters, &control));
            self.watch(&interrupters, &control);
        });
        match self.lock(&self.state.failure).take() {
            None => Ok(()),
            Some(CopyError::SnapshotTooOld { limit_s, .. }) if self.options.unsettled == Unsettled::LeaveOut => {
                self.leave_out_rest(&format!(
                    "it was not copied yet when the snapshots were {limit_s} s old (--snapshot-max)"
                ));
                Ok(())
            }
            Some(error) if self.may_keep_done(&error) && self.sink.keeps_done(&error) => {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(CopyError::Stopped);
                }
                self.leave_out_rest(&format!("it was not copied yet when the source was lost: {error}"));
                Ok(())
            }
            Some(error) => Err(error),
        }
    }

    /// True if the source was lost after some tables were done at the plan's set.
    fn may_keep_done(&self, error: &CopyError) -> bool {
        let is_lost = matches!(error, CopyError::Source { .. } | CopyError::Table { .. }) && error.is_transient();
        let at_plan = self.options.lock != CopyLock::None && self.options.unsettled == Unsettled::LeaveOut;
        is_lost && at_plan && self.progress.tables.iter().any(|table| table.state() == TableState::Done)
    }

    fn leave_out_rest(&self, why: &str) {
        for (job, progress) in self.jobs.iter().zip(&self.progress.tables) {
            if progress.state() != TableState::Done {
                job.leave_out(progress, why);
            }
        }
    }

    /// Tables that were not copied.
    pub(crate) fn unsettled(&self) -> Vec<UnsettledTable> {
        let of = |job: &Job| {
            let why = self.lock(&job.unsettled).clone()?;
            let def = &job.reader.def;
            Some(UnsettledTable { db: def.db.clone(), table: def.name.clone(), why })
        };
        self.jobs.iter().filter_map(of).collect()
    }

    /// Names on this replica of the tables that `wanted` selects.
    pub(crate) fn of_jobs(&self, wanted: impl Fn(&Job) -> bool) -> Vec<(String, String)> {
        let name = |job: &Job| (job.reader.def.db.clone(), job.reader.def.name.clone());
        self.jobs.iter().filter(|job| wanted(job)).map(name).collect()
    }

    /// Watches the stop flag and the clock until all threads have ended.
    fn watch(&self, interrupters: &[Interrupter], control: &Interrupter) {
        let mut running = self.lock(&self.state.running);
        while *running > 0 {
            if self.stop.load(Ordering::Relaxed) {
                self.fail(CopyError::Stopped);
            }
            if interrupters.iter().chain([control]).any(is_silent) && self.sink.is_left() {
                self.fail(self.source(ClientError::ReadTimeout));
            }
            let limited = self.options.lock != CopyLock::None;
            let too_old = limited && self.opened.elapsed() >= self.options.snapshot_max;
            if too_old {
                self.state.stop_signal.expire();
            }
            if self.lock(&self.state.failure).is_some() || self.state.stop_signal.is_expired() {
                // Unblocks threads that wait in a read for rows nobody needs any more.
                interrupters.iter().for_each(Interrupter::shutdown);
                // After a failure nothing else is asked over it.
                if is_silent(control) && self.lock(&self.state.failure).is_some() {
                    control.shutdown();
                }
            }
            running = match self.state.ended.wait_timeout(running, WATCH_EVERY) {
                Ok((running, _)) => running,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Ends the copy once the server answers nobody; one that was left for another one is lost by its silence alone.
    fn watch_server(&self, interrupters: &[Interrupter], control: &Interrupter) {
        let silent = || interrupters.iter().chain([control]).any(is_silent);
        let pause = || {
            let waited = self.state.ended.wait_timeout(self.lock(&self.state.running), WATCH_EVERY);
            let (running, _) = waited.unwrap_or_else(PoisonError::into_inner);
            *running == 0 || self.state.stop_signal.is_stopping()
        };
        if is_lost(&self.login, silent, pause) {
            self.fail(self.source(ClientError::ReadTimeout));
        }
    }

    fn lock<'m, T>(&self, mutex: &'m Mutex<T>) -> MutexGuard<'m, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn source(&self, error: ClientError) -> CopyError {
        CopyError::Source { server: self.server.clone(), error }
    }

    /// Keeps the first failure only; later ones result from ending the other threads.
    fn fail(&self, error: CopyError) {
        let mut failure = self.lock(&self.state.failure);
        if failure.is_none() {
            *failure = Some(if self.state.stop_signal.is_expired() { self.too_old() } else { error });
        }
        self.state.stop_signal.end();
    }

    fn too_old(&self) -> CopyError {
        let (done, remaining) = (self.jobs.iter().zip(&self.progress.tables))
            .map(|(job, progress)| (job.name.clone(), progress.state() == TableState::Done))
            .partition::<Vec<_>, _>(|(_, done)| *done);
        let names = |tables: Vec<(Name, bool)>| tables.into_iter().map(|(name, _)| name).collect();
        CopyError::SnapshotTooOld {
            limit_s: self.options.snapshot_max.as_secs(),
            done: names(done),
            remaining: names(remaining),
        }
    }

    fn check_ending(&self) -> Result<(), CopyError> {
        if self.state.stop_signal.is_stopping() { Err(CopyError::Stopped) } else { Ok(()) }
    }

    /// Body of one reading thread.
    fn work(&self, connection: &mut Connection) -> Result<(), CopyError> {
        let mut batch = RowBatch::default();
        if self.options.lock != CopyLock::None {
            connection.exec(&format!("SAVEPOINT {SAVEPOINT}")).map_err(|error| self.source(error))?;
        }
        loop {
            self.check_ending()?;
            let fresh = self.state.next_group.fetch_add(1, Ordering::Relaxed);
            let group = match self.groups.get(fresh) {
                Some(group) => group.clone(),
                None => match self.jobs.iter().position(Job::can_be_shared) {
                    Some(at) => at..at + 1,
                    None => return Ok(()),
                },
            };
            let jobs: Vec<(&Job, &TableProgress)> =
                self.jobs.iter().zip(&self.progress.tables).take(group.end).skip(group.start).collect();
            let waiting = |progress: &TableProgress| progress.state() == TableState::Waiting;
            jobs.iter().filter(|(_, progress)| waiting(progress)).for_each(|(_, one)| one.set(TableState::Copying));
            match jobs.as_slice() {
                [(job, progress)] => {
                    let copied = self.copy_table(connection, job, progress, &mut batch);
                    if !self.or_left_out(job, progress, copied)? {
                        // Discards the rest of the result and releases its metadata lock.
                        connection.exec(&self.end_of_range()).map_err(|error| self.source(error))?;
                    }
                }
                group => self.copy_group(connection, group, &mut batch)?,
            }
        }
    }

    /// Leaves a table out that cannot be copied, if that is allowed; then false.
    fn or_left_out(
        &self,
        job: &Job,
        progress: &TableProgress,
        outcome: Result<(), CopyError>,
    ) -> Result<bool, CopyError> {
        match outcome {
            Err(
                error @ (CopyError::TableChanged { .. }
                | CopyError::TableVanished { .. }
                | CopyError::MisplacedRows { .. }),
            ) if self.options.unsettled == Unsettled::LeaveOut => {
                job.leave_out(progress, &error.to_string());
                Ok(false)
            }
            outcome => outcome.map(|()| true),
        }
    }

    /// Reads small tables of one database, each with one query, then compares their definitions while the metadata
    /// locks of all these reads are held.
    fn copy_group(
        &self,
        connection: &mut Connection,
        group: &[(&Job, &TableProgress)],
        batch: &mut RowBatch,
    ) -> Result<(), CopyError> {
        if self.options.lock == CopyLock::None {
            connection.exec("START TRANSACTION READ ONLY").map_err(|error| self.source(error))?;
        }
        let mut read = Vec::with_capacity(group.len());
        for &(job, progress) in group {
            self.check_ending()?;
            let Some(range) = job.take_range(connection)? else { continue };
            let rows = self.read_range(connection, job, progress, &range, batch);
            if self.or_left_out(job, progress, rows)? {
                read.push((job, progress));
            }
        }
        for ((job, progress), unchanged) in read.iter().zip(self.are_unchanged(&read)?) {
            if self.or_left_out(job, progress, unchanged)? {
                self.state.ranges.fetch_add(1, Ordering::Relaxed);
                self.range_done(job, progress)?;
            }
        }
        connection.exec(&self.end_of_range()).map_err(|error| self.source(error))?;
        Ok(())
    }

    /// Statement that ends the reading of a range. Without a lock, each range has its own snapshot.
    fn end_of_range(&self) -> String {
        match self.options.lock {
            CopyLock::Auto | CopyLock::Table => format!("ROLLBACK TO SAVEPOINT {SAVEPOINT}"),
            CopyLock::None => "COMMIT".to_owned(),
        }
    }

    /// Reads ranges of a table until none is left.
    fn copy_table(
        &self,
        connection: &mut Connection,
        job: &Job,
        progress: &TableProgress,
        batch: &mut RowBatch,
    ) -> Result<(), CopyError> {
        if let Some(taken) = &job.taken {
            *job.next() = Next::Nothing;
            for batch in taken {
                self.hand_on(job, progress, batch)?;
                job.rows.fetch_add(batch.len() as u64, Ordering::Relaxed);
            }
            return self.range_done(job, progress);
        }
        let end = self.end_of_range();
        let begin = (self.options.lock == CopyLock::None).then_some("START TRANSACTION READ ONLY");
        loop {
            if let Some(begin) = begin {
                connection.exec(begin).map_err(|error| self.source(error))?;
            }
            let Some(range) = job.take_range(connection)? else { break };
            self.check_ending()?;
            self.read_range(connection, job, progress, &range, batch)?;
            // The metadata lock of the read is still held, so what is true now was true while the rows were read.
            self.check_unchanged(job, progress)?;
            connection.exec(&end).map_err(|error| self.source(error))?;
            self.state.ranges.fetch_add(1, Ordering::Relaxed);
            self.range_done(job, progress)?;
        }
        if begin.is_some() {
            connection.exec(&end).map_err(|error| self.source(error))?;
        }
        Ok(())
    }

    fn read_range(
        &self,
        connection: &mut Connection,
        job: &Job,
        progress: &TableProgress,
        range: &table_reader::Range,
        batch: &mut RowBatch,
    ) -> Result<(), CopyError> {
        let read = job.reader.read(connection, range, batch, &mut |batch| self.hand_on(job, progress, batch));
        if let Err(CopyError::Row { .. } | CopyError::MisplacedRows { .. } | CopyError::Sink { .. }) = &read {
            // Rows may not fit because columns were reordered or another table took the name; then report the change
            // instead.
            self.check_unchanged(job, progress)?;
        }
        job.rows.fetch_add(read?, Ordering::Relaxed);
        Ok(())
    }

    fn hand_on(&self, job: &Job, progress: &TableProgress, batch: &RowBatch) -> Result<(), CopyError> {
        self.check_ending()?;
        self.sink.rows(&job.reader.def, batch).map_err(|reason| sink_failed(&job.name, reason))?;
        let bytes = batch.image_bytes() as u64;
        progress.add(batch.len() as u64, bytes);
        if let Some(rate) = &self.rate {
            let until = Instant::now() + rate.pause(bytes, Instant::now());
            loop {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                self.check_ending()?;
                std::thread::sleep(left.min(WATCH_EVERY));
            }
        }
        Ok(())
    }

    /// Checks that the rows came from the table in the plan. An in-place ALTER, or another table renamed to its name,
    /// need not raise an error when reading.
    fn check_unchanged(&self, job: &Job, progress: &TableProgress) -> Result<(), CopyError> {
        self.are_unchanged(&[(job, progress)])?.into_iter().collect()
    }

    /// The same for tables of one database, one by one.
    fn are_unchanged(&self, jobs: &[(&Job, &TableProgress)]) -> Result<Vec<Result<(), CopyError>>, CopyError> {
        let Some((first, _)) = jobs.first() else { return Ok(Vec::new()) };
        let (db, table) = &first.name;
        let read = jobs.iter().map(|(job, _)| Read {
            table: &job.name.1,
            def: &job.reader.def,
            created: job.created.as_deref(),
        });
        let read: Vec<Read<'_>> = read.collect();
        let unchanged = are_unchanged(&mut self.lock(&self.control), db, &read);
        let unchanged = unchanged.map_err(|error| at_table(db, table, error))?;
        let outcome = |((job, _), unchanged): (&(&Job, &TableProgress), Option<bool>)| {
            let (db, table) = (job.name.0.clone(), job.name.1.clone());
            match unchanged {
                Some(true) => Ok(()),
                Some(false) => {
                    let reason = "its definition is newer than the snapshot".into();
                    Err(CopyError::TableChanged { db, table, reason })
                }
                None => Err(CopyError::TableVanished { db, table }),
            }
        };
        Ok(jobs.iter().zip(unchanged).map(outcome).collect())
    }

    /// Counts a range as done; after the last one the table is done.
    fn range_done(&self, job: &Job, progress: &TableProgress) -> Result<(), CopyError> {
        // The range at which a table is excluded is never counted, so such a table is not reported done.
        if job.open.done() {
            let rows = job.rows.load(Ordering::Relaxed);
            self.sink.table_done(&job.reader.def, rows).map_err(|reason| sink_failed(&job.name, reason))?;
            progress.set(TableState::Done);
        }
        Ok(())
    }
}

/// The value of a column as a number.
fn number_at(row: &[Option<Vec<u8>>], at: usize) -> Option<i128> {
    std::str::from_utf8(row.get(at)?.as_deref()?).ok()?.parse().ok()
}

/// The rows that EXPLAIN believes to be there; None if it does not say so in one line.
fn estimated(explained: &ResultSet) -> Option<u64> {
    let (at, row) = (explained.column("rows")?, explained.rows.first()?);
    if explained.rows.len() != 1 {
        return None;
    }
    match row.get(at)? {
        Some(_) => number_at(row, at)?.try_into().ok(),
        // It knows that there are none.
        None => Some(0),
    }
}

fn sink_failed(name: &Name, reason: String) -> CopyError {
    CopyError::Sink { db: name.0.clone(), table: name.1.clone(), reason }
}
