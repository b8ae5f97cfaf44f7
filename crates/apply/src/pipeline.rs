//! The driver: gives split, decode, sequence and apply their threads and queues.
//!
//! In: a relay log that is followed or read to its end. Out: a store that follows. Every queue is bounded; memory is
//! reserved by split in log order, so a full queue can never hold what an earlier piece waits for. Never here: a
//! thread that outlives the others' end: whatever ends one (the log's end, a failure, a request, a panic) ends all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::queue::{self, Received, queue};
use base::{LogPosition, ReplicationFilters, ThreadAffinity};
use crossbeam_channel::{Receiver, Sender, bounded};
use decode::{
    DecodeOptions, DecodedPiece, Decoder, MemoryGate, Piece, PieceKind, SharedCatalog, SkipList, SpareBuffers,
    SplitOptions, Splitter, StatementWrites, Stop,
};
use observe::{LagMeter, Ledger, RateMeter};
use relay_log::{RelayError, TailItem};
use store::Store;

use crate::beside::{self, Command, Commands, HOLD_MAX, TableCopier};
use crate::cutter::{self, CutOptions, CutState, CutWait, unbalanced_text};
use crate::ending::Ending;
use crate::in_flight::InFlight;
use crate::publish::Publisher;
use crate::rewrite::{RewriteProgress, RewriteState};
use crate::stages::{SequenceStage, SplitStage};
use crate::stop::class_of;
use crate::target::Target;
use crate::transactions::{TransactionCounters, TransactionOptions, driver};
use crate::watermark::Watermark;
use crate::worker::{ApplyOptions, Worker};

/// Hands out the relay log; waits at most the given time.
pub type LogSource = Box<dyn FnMut(Duration) -> Result<TailItem, RelayError> + Send>;

/// How replay runs.
pub struct PipelineOptions {
    /// Decoder threads; at least 1 under the rows grain.
    pub decoders: usize,
    /// Apply worker threads, at least 1.
    pub workers: usize,
    /// Bytes in flight between split and publish.
    pub memory_bytes: u64,
    /// How rows are applied.
    pub apply: ApplyOptions,
    /// Transactions to leave out.
    pub skip: SkipList,
    /// See [`DecodeOptions::quarantine`]: for who copies tables.
    pub quarantine: bool,
    /// Which databases and tables are replicated, under which names.
    pub filters: Arc<ReplicationFilters>,
    /// Where the rows go, with as many lanes as [`lanes_for`] says; replay goes on behind what it holds.
    pub store: Arc<Store>,
    /// When the store is cut; None for a store in memory, and for a look at a stopped one.
    pub cuts: Option<CutOptions>,
    /// Source clock minus ours, µs.
    pub clock_difference_us: Arc<AtomicI64>,
    /// CPUs of the threads.
    pub affinity: ThreadAffinity,
}

/// CPU time of one stage's thread.
#[derive(Clone, Debug)]
pub struct StageTime {
    /// Thread name.
    pub stage: String,
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
}

/// How replay ended.
#[derive(Debug)]
pub struct Finished {
    /// Why it stopped before the end, if it did.
    pub stop: Option<Stop>,
    /// CPU time of each thread.
    pub stages: Vec<StageTime>,
}

pub(crate) struct Control {
    pub(crate) ending: Arc<Ending>,
    pub(crate) gate: Arc<MemoryGate>,
    shared: Arc<SharedCatalog>,
    affinity: ThreadAffinity,
    paused: Mutex<bool>,
    resumed: Condvar,
    fault: Mutex<Option<Stop>>,
    stages: Mutex<Vec<StageTime>>,
    /// End of what split has handed on.
    split_file: Mutex<LogPosition>,
    /// When the source committed the first transaction of the piece that waits for `resume`, µs; 0: none waits.
    held_commit_us: AtomicU64,
}

impl Control {
    /// Holds a piece back while replay is paused.
    pub(crate) fn wait_while_paused(&self, piece: &DecodedPiece, before_waiting: impl FnOnce()) {
        let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        if *paused {
            before_waiting();
            let first = piece.transactions.iter().map(|transaction| transaction.commit_us).find(|at| *at > 0);
            self.held_commit_us.store(first.unwrap_or(0), Ordering::Relaxed);
        }
        while *paused && !self.ending.is_asked() {
            paused = self.resumed.wait(paused).unwrap_or_else(PoisonError::into_inner);
        }
        drop(paused);
        self.held_commit_us.store(0, Ordering::Relaxed);
    }

    fn set_paused(&self, to: bool) {
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) = to;
        self.resumed.notify_all();
    }

    fn set_fault(&self, stop: Stop) {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(stop);
    }

    /// A stage panicked: nothing any other one waits for may come any more.
    fn break_off(&self, stop: Stop) {
        self.set_fault(stop);
        self.ending.break_off();
        self.gate.open();
        self.shared.close();
        self.set_paused(false);
    }
}

/// Running replay.
pub struct Pipeline {
    /// The rows.
    pub store: Arc<Store>,
    /// What moves the watermark.
    pub publisher: Arc<Publisher>,
    /// What became of every event.
    pub ledger: Arc<Ledger>,
    /// Visibility lag.
    pub lag: Arc<LagMeter>,
    /// Transactions, rows and bytes made visible.
    pub rates: Arc<RateMeter>,
    /// Bytes in flight.
    pub gate: Arc<MemoryGate>,
    /// Transactions that several lanes had to apply together.
    pub barriers: Arc<AtomicUsize>,
    /// Pieces sequenced.
    pub pieces: Arc<AtomicU64>,
    /// Row changes that each worker took; empty under the grain of transactions.
    pub rows_by_worker: Vec<Arc<AtomicU64>>,
    cut_state: Arc<CutState>,
    rewrites: Arc<RewriteState>,
    copier: TableCopier,
    decode_options: DecodeOptions,
    control: Arc<Control>,
    threads: Vec<JoinHandle<()>>,
    /// Of the grain of transactions; None under the rows grain.
    transactions: Option<Arc<TransactionCounters>>,
    /// Not waited for: a step of compaction may take longer than a stop may, and can be broken off anywhere.
    compaction: Vec<JoinHandle<()>>,
}

/// Lanes of a store that so many workers fill.
#[must_use]
pub fn lanes_for(workers: usize) -> usize {
    workers.max(1) * LANES_PER_WORKER
}

/// Lanes per worker: more spread the work of a moderately hot row; each costs a lock per piece.
const LANES_PER_WORKER: usize = 8;
/// Queue lengths in pieces; memory is bounded by the gate, so these only bound wake-ups.
pub(crate) const QUEUE_PIECES: usize = 64;
/// A stage that sleeps is woken for so many, or when the one before it has nothing more to do. More would take fewer system
/// calls, and what waits leaves the cores' caches.
const WAKE_PIECES: usize = 8;
/// The same for sequencing, which does little with each.
const WAKE_SEQUENCE_PIECES: usize = 16;
/// Emptied buffers that wait for each decoder.
pub(crate) const SPARE_PER_DECODER: usize = 4;
/// How long a stage waits for input before it looks whether replay ends.
pub(crate) const IDLE_WAIT: Duration = Duration::from_millis(100);

impl Pipeline {
    /// Starts the threads.
    #[must_use]
    pub fn start(source: LogSource, options: PipelineOptions) -> Pipeline {
        Pipeline::start_with(source, options, SplitOptions::default())
    }

    /// As [`Pipeline::start`] with other sizes of pieces.
    #[must_use]
    pub fn start_with(source: LogSource, options: PipelineOptions, sizes: SplitOptions) -> Pipeline {
        Pipeline::launch(source, options, sizes, None)
    }

    /// Starts the threads for whole transactions handed to workers, instead of rows of lanes: see
    /// [`transactions`](crate::transactions). With no decoders ([`PipelineOptions::decoders`] 0) the scheduling thread
    /// decodes. Tables are not copied beside it ([`Pipeline::copier`] is refused).
    #[must_use]
    pub fn start_transactions(
        source: LogSource,
        options: PipelineOptions,
        transactions: TransactionOptions,
        slice_bytes: usize,
    ) -> Pipeline {
        // A piece for each transaction.
        let sizes = SplitOptions { batch_bytes: 1, slice_bytes };
        Pipeline::launch(source, options, sizes, Some(transactions))
    }

    fn launch(
        source: LogSource,
        options: PipelineOptions,
        sizes: SplitOptions,
        transactions: Option<TransactionOptions>,
    ) -> Pipeline {
        let workers = options.workers.max(1);
        let store = options.store;
        let start = store.visibility().current();
        let catalog = start.catalog.clone();
        let lanes = store.lane_count();
        let (lag, rates, ledger) = (Arc::new(LagMeter::new()), Arc::new(RateMeter::new()), Arc::new(Ledger::new()));
        if let Ok(earlier) = serde_json::from_str(store.recovered_ledger()) {
            ledger.restore(&earlier);
        }
        let publisher = Arc::new(Publisher::new(
            Watermark::of(&store),
            Arc::clone(&lag),
            Arc::clone(&rates),
            options.clock_difference_us,
        ));
        let gate = MemoryGate::new(options.memory_bytes);
        let shared = Arc::new(SharedCatalog::new(catalog.clone()));
        let ending = Arc::new(Ending::default());
        let control = Arc::new(Control {
            ending: Arc::clone(&ending),
            gate: Arc::clone(&gate),
            shared: Arc::clone(&shared),
            affinity: options.affinity,
            paused: Mutex::new(false),
            resumed: Condvar::new(),
            fault: Mutex::new(None),
            stages: Mutex::new(Vec::new()),
            split_file: Mutex::new(LogPosition { file: Arc::from(""), offset: 0 }),
            held_commit_us: AtomicU64::new(0),
        });
        let barriers = Arc::new(AtomicUsize::new(0));
        let pieces = Arc::new(AtomicU64::new(0));
        let rewrites = Arc::new(RewriteState::default());
        let decode_options = DecodeOptions {
            // A worker of whole transactions takes all changes in log order.
            lanes: if transactions.is_some() { 1 } else { lanes },
            skip: options.skip.clone(),
            known_only: false,
            quarantine: options.quarantine,
            filters: Arc::clone(&options.filters),
            writes: StatementWrites::default(),
        };
        let (copier, commands) = beside::channel();
        let (mut threads, mut rows_by_worker) = (Vec::new(), Vec::new());

        let (to_decode, from_split) = queue::<Piece>(QUEUE_PIECES, WAKE_PIECES);
        gate.flush_before_waiting({
            let waker = to_decode.waker();
            move || waker.flush()
        });
        threads.push(spawn("split", &control, {
            let (control, splitter) = (Arc::clone(&control), Splitter::with_options(Arc::clone(&gate), sizes));
            move || split(source, &control, splitter, &to_decode)
        }));
        let cut_state = Arc::new(CutState::default());
        let (mut sealer, mut compaction) = (None, Vec::new());
        // Lives as long as a worker: the cutter's last cut comes when all are done.
        let (working, all_done) = bounded::<()>(1);
        if let Some(cuts) = options.cuts {
            let (own, cutter, kicked) = cutter::pair(&store, &publisher, &ledger, &ending, &cut_state, cuts);
            sealer = Some(own);
            threads.push(spawn("cut", &control, {
                let control = Arc::clone(&control);
                move || {
                    if let Err(stop) = cutter.run(&all_done) {
                        control.break_off(*stop);
                    }
                }
            }));
            for (number, (which, kicked)) in kicked.into_iter().enumerate() {
                let (store, own, ending) = (Arc::clone(&store), Arc::clone(&control), Arc::clone(&ending));
                compaction.push(spawn(&format!("compact-{number}"), &control, move || {
                    // Cuts wait for the nearest: made less urgent it fell behind in a long replay, for nothing won in a
                    // short one.
                    if which != cutter::Compaction::Near {
                        base::priority::to_background();
                    }
                    if let Err(error) = cutter::compact(&store, &ending, which, &kicked) {
                        let position = LogPosition { file: Arc::from(""), offset: 0 };
                        let (class, reason) = (class_of(&error), error.to_string());
                        own.break_off(Stop { class, position, gtid: None, reason });
                    }
                }));
            }
        }
        let counters = transactions.map(|_| Arc::new(TransactionCounters::default()));
        match transactions.zip(counters.as_ref()) {
            Some((options_of_grain, counters)) => driver::start(
                driver::Parts {
                    control: &control,
                    store: &store,
                    publisher: &publisher,
                    ledger: &ledger,
                    rewrites: &rewrites,
                    pieces: &pieces,
                    barriers: &barriers,
                    shared: &shared,
                    start,
                    decode_options: decode_options.clone(),
                    apply: options.apply,
                    decoders: options.decoders,
                    workers,
                    options: options_of_grain,
                    counters,
                    sealer,
                    from_split,
                    working,
                },
                &mut threads,
            ),
            None => {
                let decoders = options.decoders.max(1);
                let (to_sequence, from_decode) = queue::<DecodedPiece>(QUEUE_PIECES, WAKE_SEQUENCE_PIECES);
                commands.wakes(to_sequence.waker());
                let (to_spare, spare) = bounded::<SpareBuffers>(SPARE_PER_DECODER * decoders);
                for i in 0..decoders {
                    let (input, output, spare) = (from_split.clone(), to_sequence.clone(), spare.clone());
                    let (shared, options) = (Arc::clone(&shared), decode_options.clone());
                    let work = move || decode(&input, &output, &spare, &shared, options);
                    threads.push(spawn(&format!("decode-{i}"), &control, work));
                }
                drop((from_split, to_sequence, spare));
                let mut to_workers = Vec::new();
                for i in 0..workers {
                    let (sender, receiver) = queue::<Arc<InFlight>>(QUEUE_PIECES, WAKE_PIECES);
                    to_workers.push(sender);
                    let own = (0..lanes).filter(|lane| lane % workers == i).collect();
                    let to_spare = to_spare.clone();
                    let mut worker = Worker::new(
                        Arc::clone(&store),
                        Arc::clone(&publisher),
                        Arc::clone(&ledger),
                        options.apply,
                        own,
                        Arc::clone(&barriers),
                        Arc::clone(&ending),
                    );
                    rows_by_worker.push(worker.rows());
                    let working = working.clone();
                    threads.push(spawn(&format!("apply-{i}"), &control, move || {
                        let _working = working;
                        while let Some(flight) = receiver.recv() {
                            worker.step(&flight);
                            if let Some(done) = Arc::into_inner(flight) {
                                // Nobody wants them when the decoders are gone or have enough.
                                let _ = to_spare.try_send(done.into_spare());
                            }
                        }
                    }));
                }
                threads.push(spawn("sequence", &control, {
                    let target = Target::lanes(&store, sealer);
                    let sequencer = target.sequencer(decode_options.clone());
                    let sequencing = Sequencing {
                        control: Arc::clone(&control),
                        publisher: Arc::clone(&publisher),
                        pieces: Arc::clone(&pieces),
                        workers: to_workers,
                        commanded: false,
                        stage: SequenceStage::new(sequencer, &shared, &publisher, target, &ledger, workers)
                            .with_rewrites(&rewrites),
                        commands,
                    };
                    move || sequencing.run(&from_decode)
                }));
                drop(working);
            }
        }
        Pipeline {
            store,
            publisher,
            ledger,
            lag,
            rates,
            gate,
            barriers,
            pieces,
            rows_by_worker,
            cut_state,
            rewrites,
            copier,
            decode_options,
            control,
            threads,
            compaction,
            transactions: counters,
        }
    }

    /// Counters of the grain of transactions; None under the rows grain.
    #[must_use]
    pub fn transaction_counters(&self) -> Option<Arc<TransactionCounters>> {
        self.transactions.clone()
    }

    /// For a table that is copied beside replay.
    #[must_use]
    pub fn copier(&self) -> TableCopier {
        self.copier.clone()
    }

    /// How its changes must be decoded.
    #[must_use]
    pub fn decode_options(&self) -> DecodeOptions {
        self.decode_options.clone()
    }

    /// Asks replay to end at a transaction boundary within a few seconds: what is split already is still applied for
    /// a second, what the workers have in hand for three.
    pub fn stop(&self) {
        self.control.ending.ask();
        self.resume();
    }

    /// Stops handing pieces to the workers until `resume`; receiving goes on. Without effect once replay ends.
    pub fn pause(&self) {
        self.control.set_paused(true);
    }

    /// See `pause`.
    pub fn resume(&self) {
        self.control.set_paused(false);
    }

    /// Whether replay is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        *self.control.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the source committed the oldest transaction that replay has in hand and that is not visible, µs.
    #[must_use]
    pub fn oldest_pending_commit_us(&self) -> Option<u64> {
        let held = self.control.held_commit_us.load(Ordering::Relaxed);
        self.publisher.oldest_pending_commit_us().or((held > 0).then_some(held))
    }

    /// What replay waits for in the store.
    #[must_use]
    pub fn waits_for(&self) -> CutWait {
        self.cut_state.wait()
    }

    /// What cutting is at, for those who look at it often.
    #[must_use]
    pub fn cut_state(&self) -> Arc<CutState> {
        Arc::clone(&self.cut_state)
    }

    /// The table that is being written anew, if one is.
    #[must_use]
    pub fn rewriting(&self) -> Option<RewriteProgress> {
        self.rewrites.progress()
    }

    /// Tables written anew since start.
    #[must_use]
    pub fn rewritten(&self) -> u64 {
        self.rewrites.done()
    }

    /// Asks for a cut at the next transaction boundary.
    pub fn ask_for_cut(&self) {
        self.cut_state.ask();
    }

    /// End of what was taken from the relay log.
    #[must_use]
    pub fn position(&self) -> LogPosition {
        self.control.split_file.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why replay stopped, once it did by itself.
    #[must_use]
    pub fn failure(&self) -> Option<Stop> {
        // What split or a panic tells stands behind everything the publisher knows of.
        let fault = || self.control.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.publisher.failure().or_else(fault).or_else(|| self.lost_event())
    }

    /// Events of which nobody knows what became of them, once nothing is in flight: unless replay gave up what workers had
    /// in hand, that is when the threads are done.
    fn lost_event(&self) -> Option<Stop> {
        if !self.is_finished() || !self.publisher.is_applied() {
            return None;
        }
        let events = self.ledger.of_this_run(binlog::event_type::name);
        let row = events.unbalanced().next()?;
        let gtid = self.publisher.status().last_gtid;
        Some(Stop::of_defect(self.publisher.position(), gtid, &unbalanced_text(row)))
    }

    /// Whether all threads but the caller's are done.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the end.
    #[must_use]
    pub fn join(mut self) -> Finished {
        for thread in self.threads.drain(..) {
            // A panic is caught in the thread and told as a fault.
            let _ = thread.join();
        }
        let stages = self.control.stages.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Finished { stop: self.failure(), stages }
    }

    /// As [`join`](Self::join), and waits for compaction to end its step: whoever removes or opens the folder needs it.
    #[must_use]
    pub fn join_all(mut self) -> Finished {
        let (compaction, store) = (std::mem::take(&mut self.compaction), Arc::clone(&self.store));
        // Its end asks compaction to end.
        let finished = self.join();
        store.break_off_merges(true);
        for thread in compaction {
            let _ = thread.join();
        }
        store.break_off_merges(false);
        finished
    }
}

impl Drop for Pipeline {
    /// Replay nobody holds ends.
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) fn spawn(name: &str, control: &Arc<Control>, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let affinity = &control.affinity;
    let control = Arc::clone(control);
    let stage = name.to_string();
    let body = move || {
        // The closure owns all it works with and drops it here; what it shares is guarded by locks that outlive it.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panicked");
            control.break_off(Stop::of_panic(&stage, text));
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let cpu_ns = time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned();
        control.stages.lock().unwrap_or_else(PoisonError::into_inner).push(StageTime { stage, cpu_ns });
    };
    match affinity.spawn(name, body) {
        Ok(handle) => handle,
        Err(error) => panic!("cannot start thread {name}: {error}"),
    }
}

fn split(mut source: LogSource, control: &Control, splitter: Splitter, output: &queue::Sender<Piece>) {
    let mut wanted = true;
    let mut stage = SplitStage::new(splitter);
    // What is there; else, with what was split on its way, what comes.
    let mut next = || match source(Duration::ZERO) {
        Ok(TailItem::Idle) => {
            output.flush();
            source(IDLE_WAIT)
        }
        item => item,
    };
    let result = loop {
        if control.ending.takes_no_more() || !wanted {
            return;
        }
        let item = match next() {
            Ok(TailItem::Closed) => return,
            Ok(item) => item,
            Err(error) => break stage.stop_of(&error),
        };
        let moves = matches!(item, TailItem::Chunk(_));
        let done = stage.step(item, &mut |piece| {
            wanted = output.send(piece).is_ok();
            wanted
        });
        if moves {
            stage.position().clone_into(&mut control.split_file.lock().unwrap_or_else(PoisonError::into_inner));
        }
        if let Err(stop) = done {
            break *stop;
        }
    };
    if wanted {
        control.set_fault(result);
    }
}

fn decode(
    input: &queue::Receiver<Piece>,
    output: &queue::Sender<DecodedPiece>,
    spare: &Receiver<SpareBuffers>,
    shared: &SharedCatalog,
    options: DecodeOptions,
) {
    let mut decoder = Decoder::new(options);
    loop {
        let piece = match input.try_recv() {
            Received::Item(piece) => piece,
            Received::Ended => return,
            Received::Nothing => {
                output.flush();
                match input.recv() {
                    Some(piece) => piece,
                    None => return,
                }
            }
        };
        if let Ok(buffers) = spare.try_recv() {
            decoder.recycle(buffers);
        }
        // A serial piece is decoded by sequence, which has its epoch; nobody needs to wait for it here.
        let epoch = if piece.kind == PieceKind::Serial { 0 } else { piece.epoch };
        let known = shared.get(epoch).or_else(|| {
            output.flush();
            shared.wait(epoch)
        });
        let Some((catalog, version)) = known else { return };
        if output.send(decoder.decode(piece, &catalog, version)).is_err() {
            return;
        }
    }
}

/// What the sequencing thread works with.
struct Sequencing {
    control: Arc<Control>,
    publisher: Arc<Publisher>,
    pieces: Arc<AtomicU64>,
    workers: Vec<queue::Sender<Arc<InFlight>>>,
    stage: SequenceStage,
    /// From the thread that follows a copied table.
    commands: Commands,
    /// The last that came was a command: a piece comes before the next one.
    commanded: bool,
}

/// What the sequencing thread does next.
#[allow(clippy::large_enum_variant, reason = "it lives for a moment, and a box would be an allocation per piece")]
enum Next {
    Piece(DecodedPiece),
    Command(Command),
    Idle,
    Over,
}

impl Sequencing {
    fn run(mut self, input: &queue::Receiver<DecodedPiece>) {
        'pieces: while self.publisher.failure().is_none() {
            let piece = match self.wait(input) {
                Next::Piece(piece) => piece,
                Next::Command(command) => {
                    self.carry_out(command);
                    continue;
                }
                Next::Idle => {
                    self.stage.idle();
                    continue;
                }
                Next::Over => break,
            };
            self.control.wait_while_paused(&piece, || flush(&self.workers));
            if self.control.ending.stops_handing_on() {
                break;
            }
            self.stage.take(piece);
            loop {
                while let Some(flight) = self.next() {
                    self.pieces.fetch_add(1, Ordering::Relaxed);
                    self.send(&flight);
                }
                if !self.stage.rewrite_waits() {
                    break;
                }
                if !self.rewrite() {
                    break 'pieces;
                }
            }
        }
        // Split ends though its source may not, and waits for no memory that pieces left in queues hold; decoders
        // that wait for an epoch that will not come go home; the others find their queue closed.
        self.control.ending.close();
        self.control.gate.open();
        self.control.shared.close();
    }

    fn wait(&mut self, input: &queue::Receiver<DecodedPiece>) -> Next {
        let takes_commands = !self.stage.is_open();
        let command = |commands: &Commands| takes_commands.then(|| commands.try_next()).flatten();
        // By turns where both are there.
        if !std::mem::take(&mut self.commanded)
            && let Some(command) = command(&self.commands)
        {
            self.commanded = true;
            return Next::Command(command);
        }
        let next = |received| match received {
            Received::Item(piece) => Some(Next::Piece(piece)),
            Received::Ended => Some(Next::Over),
            Received::Nothing => None,
        };
        next(input.try_recv()).or_else(|| command(&self.commands).map(Next::Command)).unwrap_or_else(|| {
            flush(&self.workers);
            // A command that comes now ends the wait.
            next(input.recv_timeout(IDLE_WAIT)).unwrap_or(Next::Idle)
        })
    }

    /// At a transaction boundary.
    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Look(reply) => answer(&reply, self.stage.boundary()),
            Command::Reserve(reply) => answer(&reply, self.stage.reserve_table_id()),
            Command::Changes(piece, track) => {
                let flight = self.stage.copied(*piece, track);
                self.send(&flight);
            }
            Command::Hold(reply) => {
                answer(&reply, self.stage.boundary());
                self.hold();
            }
            // The hold is over: its asker is told by the answer that does not come.
            Command::Switch(..) | Command::Release => {}
        }
    }

    /// Takes nothing but what the copy brings, until it is in its place or time is over.
    fn hold(&mut self) {
        flush(&self.workers);
        let until = Instant::now() + HOLD_MAX;
        while !self.control.ending.stops_handing_on() {
            match self.commands.next_until(until) {
                Some(Command::Switch(table, reply)) => {
                    let (flight, number) = self.stage.switch(&table);
                    self.send(&flight);
                    answer(&reply, number);
                    return;
                }
                Some(Command::Release) | None => return,
                Some(Command::Hold(reply)) => answer(&reply, self.stage.boundary()),
                Some(other) => self.carry_out(other),
            }
        }
    }

    /// Rows that a statement writes anew, in front of it; false when replay ends here.
    fn rewrite(&mut self) -> bool {
        let Sequencing { stage, control, workers, pieces, .. } = self;
        flush(workers);
        // It waits for the workers between two slices.
        stage.rewrite(&|| control.ending.stops_handing_on(), &mut |flight| {
            pieces.fetch_add(1, Ordering::Relaxed);
            send(workers, flight);
            flush(workers);
        })
    }

    fn next(&mut self) -> Option<Arc<InFlight>> {
        if self.stage.would_wait() {
            flush(&self.workers);
        }
        self.stage.next(|| self.control.ending.stops_handing_on())
    }

    fn send(&self, flight: &Arc<InFlight>) {
        send(&self.workers, flight);
    }
}

/// Nobody may wait for it any more.
fn answer<T>(reply: &Sender<T>, with: T) {
    let _ = reply.send(with);
}

fn send(workers: &[queue::Sender<Arc<InFlight>>], flight: &Arc<InFlight>) {
    for worker in workers {
        if !worker.has_room() {
            // It may wait for another one at a barrier.
            flush(workers);
        }
        // A worker only goes away when the sequencing thread does, or breaks off.
        let _ = worker.send(Arc::clone(flight));
    }
}

/// Before anything is waited for that may wait for the workers.
fn flush(workers: &[queue::Sender<Arc<InFlight>>]) {
    workers.iter().for_each(queue::Sender::flush);
}
