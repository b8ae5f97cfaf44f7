//! Threads and queues for the grain of transactions.
//!
//! In: pieces of one transaction each from split. Out: what workers apply. Never here: a decision: those are the stepped
//! structs' ([`SequenceStage`], [`Scheduler`], `TransactionWorker`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use base::queue::{self, Received};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use decode::trackers::{Extractor, Facts};
use decode::{DecodeOptions, DecodedPiece, Decoder, LAST_OF_EVENT, Piece, PieceKind, SharedCatalog, SpareBuffers};
use observe::Ledger;
use store::{Store, WatermarkState};

use super::low_water_mark::{LowWaterMark, Waited};
use super::queue::{Job, PendingJobs, Task, WorkerQueue};
use super::scheduler::{Found, Scheduler};
use super::worker::{TransactionWorker, each_list};
use super::{HandOff, TransactionCounters, TransactionOptions, WaitAt, add};
use crate::cutter::Sealer;
use crate::in_flight::InFlight;
use crate::pipeline::{Control, IDLE_WAIT, QUEUE_PIECES, SPARE_PER_DECODER, spawn};
use crate::publish::Publisher;
use crate::rewrite::RewriteState;
use crate::stages::SequenceStage;
use crate::target::Target;
use crate::worker::{ApplyOptions, Worker};

/// What the pipeline brings along.
pub(crate) struct Parts<'a> {
    pub control: &'a Arc<Control>,
    pub store: &'a Arc<Store>,
    pub publisher: &'a Arc<Publisher>,
    pub ledger: &'a Arc<Ledger>,
    pub rewrites: &'a Arc<RewriteState>,
    pub pieces: &'a Arc<AtomicU64>,
    pub barriers: &'a Arc<std::sync::atomic::AtomicUsize>,
    pub shared: &'a Arc<SharedCatalog>,
    pub start: WatermarkState,
    pub decode_options: DecodeOptions,
    pub apply: ApplyOptions,
    /// 0: the scheduler decodes.
    pub decoders: usize,
    pub workers: usize,
    pub options: TransactionOptions,
    pub counters: &'a Arc<TransactionCounters>,
    pub sealer: Option<Sealer>,
    pub from_split: queue::Receiver<Piece>,
    /// Held by every worker.
    pub working: Sender<()>,
}

/// A piece with what was found out about it.
type Prepared = (DecodedPiece, Facts);

/// Starts decoders, scheduler and workers.
pub(crate) fn start(parts: Parts<'_>, threads: &mut Vec<JoinHandle<()>>) {
    let Parts { control, store, publisher, counters, options, .. } = parts;
    let needs_claims = options.tracker.kind.needs_claims();
    let (to_spare, spare) = bounded::<SpareBuffers>(SPARE_PER_DECODER * parts.decoders.max(1));
    let (to_schedule, decoded) = bounded::<Prepared>(QUEUE_PIECES);
    for i in 0..parts.decoders {
        let (input, output, spare) = (parts.from_split.clone(), to_schedule.clone(), spare.clone());
        let (shared, decoder) = (Arc::clone(parts.shared), Preparing::new(parts.decode_options.clone(), needs_claims));
        threads.push(spawn(&format!("decode-{i}"), control, move || decoder.run(&input, &output, &spare, &shared)));
    }
    drop(to_schedule);
    let mark = Arc::new(LowWaterMark::new(parts.start.sequence.0));
    let pending = Arc::new(PendingJobs::default());
    let mut queues = Vec::new();
    for i in 0..parts.workers {
        let queue = Arc::new(WorkerQueue::new(options.worker_queue_events));
        queues.push(Arc::clone(&queue));
        let worker = TransactionWorker {
            worker: Worker::new(
                Arc::clone(store),
                Arc::clone(publisher),
                Arc::clone(parts.ledger),
                parts.apply,
                Vec::new(),
                Arc::clone(parts.barriers),
                Arc::clone(&control.ending),
            ),
            store: Arc::clone(store),
            options,
            queue,
            mark: Arc::clone(&mark),
            pending: Arc::clone(&pending),
            counters: Arc::clone(counters),
            ending: Arc::clone(&control.ending),
            spare: to_spare.clone(),
            touched: vec![false; store.lane_count()],
            tables: Vec::new(),
            given_up: false,
        };
        let working = parts.working.clone();
        threads.push(spawn(&format!("apply-{i}"), control, move || {
            let _working = working;
            worker.run();
        }));
    }
    let catalog = parts.start.catalog.clone();
    let target = Target::lanes(store, parts.sealer);
    let sequencer = target.sequencer(parts.decode_options.clone());
    let stage =
        SequenceStage::new(sequencer, parts.shared, publisher, target, parts.ledger, 1).with_rewrites(parts.rewrites);
    let input = if parts.decoders == 0 {
        Input::Split(parts.from_split, Box::new(Preparing::new(parts.decode_options, needs_claims)), spare)
    } else {
        Input::Decoders(decoded)
    };
    let scheduling = Scheduling {
        control: Arc::clone(control),
        publisher: Arc::clone(publisher),
        shared: Arc::clone(parts.shared),
        pieces: Arc::clone(parts.pieces),
        stage,
        hands: Hands {
            options,
            queues: Queues(queues),
            scheduler: Scheduler::new(options.tracker, parts.start.sequence, catalog),
            mark,
            pending,
            counters: Arc::clone(counters),
            control: Arc::clone(control),
            publisher: Arc::clone(publisher),
            found: BTreeMap::new(),
        },
    };
    threads.push(spawn("sequence", control, move || scheduling.run(input)));
}

/// A decoder that also finds out what trackers want to know.
struct Preparing {
    decoder: Decoder,
    extractor: Extractor,
    needs_claims: bool,
}

impl Preparing {
    fn new(options: DecodeOptions, needs_claims: bool) -> Preparing {
        Preparing { decoder: Decoder::new(options), extractor: Extractor::default(), needs_claims }
    }

    fn run(
        mut self,
        input: &queue::Receiver<Piece>,
        output: &Sender<Prepared>,
        spare: &Receiver<SpareBuffers>,
        shared: &SharedCatalog,
    ) {
        while let Some(piece) = input.recv() {
            let Some(prepared) = self.step(piece, spare, shared) else { return };
            if output.send(prepared).is_err() {
                return;
            }
        }
    }

    /// None when the piece's catalog will not come.
    fn step(&mut self, piece: Piece, spare: &Receiver<SpareBuffers>, shared: &SharedCatalog) -> Option<Prepared> {
        if let Ok(buffers) = spare.try_recv() {
            self.decoder.recycle(buffers);
        }
        // A serial piece is decoded by sequence, which has its epoch; nobody needs to wait for it here.
        let (catalog, version) = shared.wait(if piece.kind == PieceKind::Serial { 0 } else { piece.epoch })?;
        let decoded = self.decoder.decode(piece, &catalog, version);
        let facts = if self.needs_claims && !decoded.needs_serial {
            Facts::with_claims(&decoded, &mut self.extractor, &catalog, None)
        } else {
            Facts::of(&decoded)
        };
        Some((decoded, facts))
    }
}

/// Where the scheduling thread's pieces come from.
enum Input {
    Decoders(Receiver<Prepared>),
    /// It decodes them itself, as stock.
    Split(queue::Receiver<Piece>, Box<Preparing>, Receiver<SpareBuffers>),
}

/// What the scheduling thread works with.
struct Scheduling {
    control: Arc<Control>,
    publisher: Arc<Publisher>,
    shared: Arc<SharedCatalog>,
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
            self.control.wait_while_paused(&piece, || ());
            if self.control.ending.stops_handing_on() {
                break;
            }
            let catalog_version = (!piece.needs_serial).then_some(piece.catalog_version);
            self.hands.found.insert(piece.piece.number, Found { facts, catalog_version });
            self.stage.take(piece);
            if !self.hand_out() {
                break;
            }
        }
        self.hands.queues.close();
        // As in the rows grain: nobody waits for what will not come.
        self.control.ending.close();
        self.control.gate.open();
        self.shared.close();
    }

    fn wait(&self, input: &mut Input) -> Result<Option<Prepared>, RecvTimeoutError> {
        match input {
            Input::Decoders(decoded) => decoded.recv_timeout(IDLE_WAIT).map(Some),
            Input::Split(pieces, preparing, spare) => {
                let piece = match pieces.recv_timeout(IDLE_WAIT) {
                    Received::Item(piece) => piece,
                    Received::Nothing => return Err(RecvTimeoutError::Timeout),
                    Received::Ended => return Err(RecvTimeoutError::Disconnected),
                };
                add(&self.hands.counters.decoded_by_scheduler);
                Ok(preparing.step(piece, spare, &self.shared))
            }
        }
    }

    /// All pieces that are next in order; false when replay ends here.
    fn hand_out(&mut self) -> bool {
        let Scheduling { control, stage, hands, pieces, .. } = self;
        let ended = || control.ending.stops_handing_on();
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

/// The workers' queues; closed when the scheduling thread ends, however it does.
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

/// Hands transactions to workers.
struct Hands {
    options: TransactionOptions,
    queues: Queues,
    scheduler: Scheduler,
    mark: Arc<LowWaterMark>,
    pending: Arc<PendingJobs>,
    counters: Arc<TransactionCounters>,
    control: Arc<Control>,
    publisher: Arc<Publisher>,
    /// By piece number, until its turn comes.
    found: BTreeMap<u64, Found>,
}

impl Hands {
    /// False when replay ends before the piece is in a worker's hands.
    fn give(&mut self, flight: Arc<InFlight>) -> bool {
        let found = self.found.remove(&flight.piece().decoded.piece.number);
        let placed = self.scheduler.place(flight.piece(), found);
        let (tracker, keyless_raised) = self.scheduler.counts();
        self.counters.note(tracker);
        self.counters.keyless_raised.store(keyless_raised, Ordering::Relaxed);
        let Some(placed) = placed else {
            // Nothing of a transaction: events between transactions, or the stop before one.
            flight.complete(&self.publisher);
            return true;
        };
        if self.options.wait == WaitAt::Scheduler {
            match self.mark.wait(placed.last_committed, &self.control.ending) {
                Waited::No => {}
                Waited::Yes => add(&self.counters.scheduler_waits),
                Waited::GivenUp => return false,
            }
        }
        let Some(at) = self.find_worker(&placed) else { return false };
        let Some(queue) = self.queues.0.get(at).cloned() else { return false };
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

    /// As stock: looks for an idle worker again and again, giving up the core in between.
    fn find_worker(&mut self, placed: &super::Placed) -> Option<usize> {
        let only_idle = self.options.wait == WaitAt::Scheduler;
        let mut looked = false;
        loop {
            let busy = self.queues.0.iter().map(|queue| queue.busy());
            let chosen = self.scheduler.choose(placed, busy, only_idle);
            if chosen.is_some() || self.control.ending.gives_up() {
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
        if queue.push(job, &self.control.ending) {
            add(&self.counters.queue_waits);
        }
    }

    /// One job for each event: the Gtid event first, each rows event with its rows, the rest without.
    fn push_events(&self, queue: &WorkerQueue, task: &Arc<Task>) {
        let decoded = &task.flight.piece().decoded;
        let events = task.placed.events.max(1) as usize;
        let rows = row_events(decoded, events);
        let idle = events.saturating_sub(rows.len());
        let all = op_count(decoded);
        // Control events stand in front of their rows events.
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

/// The ops of each rows event; all in one where they are not told apart by the log's own events (a payload), or where the
/// piece's lists are not in log order (rows written anew).
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
