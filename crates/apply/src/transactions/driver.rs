//! Threads and queues of the grain of transactions.
//!
//! In: pieces of one transaction each, from split. Out: jobs for the workers. Never here: a decision; the stepped
//! structs make those ([`SequenceStage`], [`Scheduler`], `TransactionWorker`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::queue::Received;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use decode::trackers::Facts;
use decode::{DecodedPiece, FactsDecoder, LAST_OF_EVENT, SpareBuffers};

use super::low_water_mark::{LowWaterMark, Waited};
use super::queue::{Job, PendingJobs, Task, WorkerQueue};
use super::scheduler::{EarlyFacts, Scheduler};
use super::worker::{TransactionWorker, each_list};
use super::{HandOff, TransactionCounters, TransactionOptions, WaitAt, add};
use crate::front::{Front, IDLE_WAIT, Split, decode_one, spare_buffers};
use crate::in_flight::InFlight;
use crate::pause::Pause;
use crate::pipeline::{Replay, Shared};
use crate::publish::Publisher;
use crate::shutdown::Shutdown;
use crate::stages::SequenceStage;
use crate::threads::Threads;
use crate::worker::fail;

/// A decoded piece, with the tracker's facts about it.
type Prepared = (DecodedPiece, Facts);

/// Starts decoders, scheduler and workers. Returns their counters.
pub(crate) fn start(replay: Replay<'_>, options: TransactionOptions) -> Arc<TransactionCounters> {
    let Replay { shared, split, target, decode, decoders, working } = replay;
    let Shared { threads, store, publisher, .. } = shared;
    let start = store.visibility().current();
    let counters = Arc::new(TransactionCounters::default());
    let catalogs = Arc::clone(&split.feed.catalogs);
    let needs_claims = options.tracker.kind.needs_claims();
    let decoder = || FactsDecoder::new(decode.clone(), needs_claims);
    let (input, to_spare) = if decoders == 0 {
        let (to_spare, spare) = spare_buffers(1);
        (Input::Split(split, Box::new(decoder()), spare), to_spare)
    } else {
        let front = split.decode(decoders, 1, decoder, threads);
        let to_spare = front.spare.clone();
        (Input::Decoders(front), to_spare)
    };
    let mark = Arc::new(LowWaterMark::new(start.sequence.0));
    let pending = Arc::new(PendingJobs::default());
    let mut queues = Vec::new();
    for i in 0..shared.workers {
        let queue = Arc::new(WorkerQueue::new(options.worker_queue_events));
        queues.push(Arc::clone(&queue));
        let worker = TransactionWorker {
            worker: shared.worker(Vec::new()),
            store: Arc::clone(store),
            publisher: Arc::clone(publisher),
            options,
            queue,
            mark: Arc::clone(&mark),
            pending: Arc::clone(&pending),
            counters: Arc::clone(&counters),
            shutdown: Arc::clone(threads.shutdown()),
            spare: to_spare.clone(),
            touched: vec![false; store.lane_count()],
            tables: Vec::new(),
            given_up: false,
        };
        let working = working.clone();
        threads.spawn(&format!("apply-{i}"), move || {
            let _working = working;
            worker.run();
        });
    }
    let scheduling = Scheduling {
        threads: Arc::clone(threads),
        pause: Arc::clone(&shared.pause),
        publisher: Arc::clone(publisher),
        pieces: Arc::clone(&shared.pieces),
        stage: shared.sequence_stage(target, &catalogs, decode.clone(), 1),
        hands: Hands {
            options,
            queues: Queues(queues),
            scheduler: Scheduler::new(options.tracker, start.sequence, start.catalog),
            mark,
            pending,
            counters: Arc::clone(&counters),
            shutdown: Arc::clone(threads.shutdown()),
            publisher: Arc::clone(publisher),
            found: BTreeMap::new(),
        },
    };
    threads.spawn("sequence", move || scheduling.run(input));
    counters
}

/// Source of the scheduling thread's pieces.
enum Input {
    Decoders(Front<Prepared>),
    /// Undecoded pieces: the scheduling thread decodes them itself, like stock MySQL.
    Split(Split, Box<FactsDecoder>, Receiver<SpareBuffers>),
}

/// State of the scheduling thread.
struct Scheduling {
    threads: Arc<Threads>,
    pause: Arc<Pause>,
    publisher: Arc<Publisher>,
    pieces: Arc<AtomicU64>,
    stage: SequenceStage,
    hands: Hands,
}

impl Scheduling {
    fn run(mut self, mut input: Input) {
        while self.publisher.failure().is_none() {
            let (piece, facts) = match self.wait(&mut input) {
                Ok(Some(prepared)) => prepared,
                Ok(None) => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.stage.idle();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if !self.pause.wait(&piece) || self.threads.shutdown().stops_handing_on() {
                break;
            }
            let catalog_version = (!piece.needs_serial).then_some(piece.catalog_version);
            self.hands.found.insert(piece.piece.number, EarlyFacts { facts, catalog_version });
            self.stage.take(piece);
            if !self.hand_out() {
                break;
            }
        }
        self.hands.queues.close();
    }

    fn wait(&self, input: &mut Input) -> Result<Option<Prepared>, RecvTimeoutError> {
        match input {
            Input::Decoders(front) => received(front.pieces.recv_timeout(IDLE_WAIT)).map(Some),
            Input::Split(split, decoder, spare) => {
                let piece = received(split.pieces.recv_timeout(IDLE_WAIT))?;
                add(&self.hands.counters.decoded_by_scheduler);
                Ok(decode_one(decoder.as_mut(), piece, spare, &split.feed.catalogs, || ()))
            }
        }
    }

    /// Hands out all pieces that are next in order; false when replay ends here.
    fn hand_out(&mut self) -> bool {
        let Scheduling { threads, stage, hands, pieces, .. } = self;
        let ended = || threads.shutdown().stops_handing_on();
        loop {
            while let Some(flight) = stage.next(ended) {
                pieces.fetch_add(1, Ordering::Relaxed);
                if !hands.give(flight) {
                    return false;
                }
            }
            if !stage.rewrite_waits() {
                return true;
            }
            let mut goes_on = true;
            let done = stage.rewrite(&ended, &mut |flight| {
                pieces.fetch_add(1, Ordering::Relaxed);
                goes_on = goes_on && hands.give(Arc::clone(flight));
            });
            if !done || !goes_on {
                return false;
            }
        }
    }
}

fn received<T>(received: Received<T>) -> Result<T, RecvTimeoutError> {
    match received {
        Received::Item(item) => Ok(item),
        Received::Nothing => Err(RecvTimeoutError::Timeout),
        Received::Ended => Err(RecvTimeoutError::Disconnected),
    }
}

/// The workers' queues. Closed on drop, so that workers end however the scheduling thread does.
struct Queues(Vec<Arc<WorkerQueue>>);

impl Queues {
    fn close(&self) {
        self.0.iter().for_each(|queue| queue.close());
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        self.close();
    }
}

/// Schedules transactions and hands them to workers.
struct Hands {
    options: TransactionOptions,
    queues: Queues,
    scheduler: Scheduler,
    mark: Arc<LowWaterMark>,
    pending: Arc<PendingJobs>,
    counters: Arc<TransactionCounters>,
    shutdown: Arc<Shutdown>,
    publisher: Arc<Publisher>,
    /// Facts by piece number, kept until the piece is sequenced.
    found: BTreeMap<u64, EarlyFacts>,
}

impl Hands {
    /// Gives a piece to a worker. False when replay ends first.
    fn give(&mut self, flight: Arc<InFlight>) -> bool {
        let found = self.found.remove(&flight.piece().decoded.piece.number);
        let placed = self.scheduler.place(flight.piece(), found);
        let (tracker, keyless_raised) = self.scheduler.counts();
        self.counters.note(tracker);
        self.counters.keyless_raised.store(keyless_raised, Ordering::Relaxed);
        let placed = match placed {
            Ok(placed) => placed,
            Err(what) => {
                fail(&self.publisher, &flight, &what);
                return false;
            }
        };
        let Some(placed) = placed else {
            // The piece holds no transaction: only events between two, or the stop before one.
            flight.complete(&self.publisher);
            return true;
        };
        if self.options.wait == WaitAt::Scheduler {
            match self.mark.wait(placed.last_committed, &self.shutdown) {
                Waited::No => {}
                Waited::Yes => add(&self.counters.scheduler_waits),
                Waited::GivenUp => return false,
            }
        }
        let Some(at) = self.find_worker(&placed) else { return false };
        let Some(queue) = self.queues.0.get(at).cloned() else {
            fail(&self.publisher, &flight, &format!("a transaction is scheduled to worker {at}, which is not there"));
            return false;
        };
        if placed.begins {
            queue.gets_one();
            add(&self.counters.transactions);
        }
        let at_once = placed.number.saturating_sub(self.mark.low());
        self.counters.at_once_max.fetch_max(at_once, Ordering::Relaxed);
        let task = Arc::new(Task { flight, placed });
        match self.options.hand_off {
            HandOff::Batch => {
                let ops = 0..op_count(&task.flight.piece().decoded);
                let events = placed.events.max(1) as usize;
                self.push(&queue, Job { task, ops, first: true, last: true, events });
            }
            HandOff::Event => self.push_events(&queue, &task),
        }
        true
    }

    /// Chooses a worker. If only an idle one will do, polls for it and yields the core in between, like stock MySQL.
    fn find_worker(&mut self, placed: &super::Placed) -> Option<usize> {
        let only_idle = self.options.wait == WaitAt::Scheduler;
        let mut looked = false;
        loop {
            let busy = self.queues.0.iter().map(|queue| queue.busy());
            let chosen = self.scheduler.choose(placed, busy, only_idle);
            if chosen.is_some() || self.shutdown.stops_applying() {
                return chosen;
            }
            if !looked {
                add(&self.counters.idle_waits);
                looked = true;
            }
            std::thread::yield_now();
        }
    }

    fn push(&self, queue: &WorkerQueue, job: Job) {
        add(&self.counters.jobs);
        if queue.push(job, &self.shutdown) {
            add(&self.counters.queue_waits);
        }
    }

    /// Pushes one job per event: the control events first, then each rows event with its ops, and one control event
    /// at the end.
    fn push_events(&self, queue: &WorkerQueue, task: &Arc<Task>) {
        let decoded = &task.flight.piece().decoded;
        let events = task.placed.events.max(1) as usize;
        let rows = row_events(decoded, events);
        let idle = events.saturating_sub(rows.len());
        let all = op_count(decoded);
        // Control events come before their rows events, and carry no ops.
        let empty = std::iter::repeat_n(0..0, idle.saturating_sub(1));
        let last = std::iter::repeat_n(all..all, idle.min(1));
        let jobs: Vec<Range<usize>> = empty.chain(rows).chain(last).collect();
        let count = jobs.len();
        for (at, ops) in jobs.into_iter().enumerate() {
            self.pending.added(&self.counters);
            let (first, last) = (at == 0, at + 1 == count);
            self.push(queue, Job { task: Arc::clone(task), ops, first, last, events: 1 });
        }
    }
}

fn op_count(decoded: &DecodedPiece) -> usize {
    decoded.lanes.iter().map(Vec::len).sum::<usize>() + decoded.barrier.len()
}

/// Returns the range of ops of each rows event; a single range where the log does not separate them (a payload), or
/// where the piece's lists are not in log order (rewritten rows).
fn row_events(decoded: &DecodedPiece, events: usize) -> Vec<Range<usize>> {
    let all = op_count(decoded);
    let mut ranges = Vec::new();
    let (mut start, mut at) = (0, 0);
    each_list(decoded, 0..all, |ops| {
        for op in ops {
            at += 1;
            if op.flags & LAST_OF_EVENT != 0 {
                ranges.push(start..at);
                start = at;
            }
        }
    });
    if start < all || ranges.len() > events || decoded.lanes.len() > 1 {
        ranges.clear();
        ranges.extend((all > 0).then_some(0..all));
    }
    ranges
}
