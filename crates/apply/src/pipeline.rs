//! The driver: gives split, decode, sequence and apply their threads and queues.
//!
//! In: a relay log that is followed or read to its end. Out: a store that follows. Every queue is bounded; memory is
//! reserved by split in log order, so a full queue can never hold what an earlier piece waits for. Never here: a
//! thread that outlives the others' end: whatever ends one (the log's end, a failure, a request, a panic) ends all.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use base::{LogPosition, ReplicationFilters, ThreadAffinity};
use crossbeam_channel::{Receiver, Sender, bounded};
use decode::{DecodeOptions, MemoryGate, SharedCatalog, SkipList, SplitOptions, StatementWrites, Stop};
use observe::{LagMeter, Ledger, RateMeter};
use store::Store;

use crate::beside::{self, TableCopier};
use crate::cutter::{self, CutOptions, CutState, CutWait, Sealer, unbalanced_text};
use crate::front::{LogSource, Split};
use crate::lanes;
use crate::pause::Pause;
use crate::publish::Publisher;
use crate::rewrite::{RewriteProgress, RewriteState};
use crate::stages::SequenceStage;
use crate::stop::class_of;
use crate::target::Target;
use crate::threads::{StageTime, Threads};
use crate::transactions::{TransactionCounters, TransactionOptions, driver};
use crate::watermark::Watermark;
use crate::worker::{ApplyOptions, Worker};

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

/// How replay ended.
#[derive(Debug)]
pub struct Finished {
    /// Why it stopped before the end, if it did.
    pub stop: Option<Stop>,
    /// CPU time of each thread.
    pub stages: Vec<StageTime>,
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
    threads: Arc<Threads>,
    pause: Arc<Pause>,
    /// End of what split has handed on.
    position: Arc<Mutex<LogPosition>>,
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
        let threads = Threads::new(options.affinity.clone());
        let pause = Arc::new(Pause::new(threads.ending()));
        threads.on_failure({
            let pause = Arc::clone(&pause);
            move || pause.set(false)
        });
        let store = Arc::clone(&options.store);
        let shared = Shared::new(&options, &threads, &pause);
        let catalog = store.visibility().current().catalog;
        let split = Split::start(source, options.memory_bytes, sizes, catalog, &threads);
        let (gate, position) = (Arc::clone(&split.feed.gate), split.feed.position());
        let decode_options = DecodeOptions {
            // A worker of whole transactions takes all changes in log order.
            lanes: if transactions.is_some() { 1 } else { store.lane_count() },
            skip: options.skip.clone(),
            known_only: false,
            quarantine: options.quarantine,
            filters: Arc::clone(&options.filters),
            writes: StatementWrites::default(),
        };
        let cut_state = Arc::new(CutState::default());
        // Lives as long as a worker: the cutter's last cut comes when all are done.
        let (working, all_done) = bounded::<()>(1);
        let (sealer, compaction) = match options.cuts {
            Some(cuts) => {
                let (sealer, compaction) = start_cuts(&shared, &cut_state, cuts, all_done);
                (Some(sealer), compaction)
            }
            None => (None, Vec::new()),
        };
        let (copier, commands) = beside::channel();
        let replay = Replay {
            shared: &shared,
            split,
            target: Target::lanes(&store, sealer),
            decode: decode_options.clone(),
            decoders: options.decoders,
            working,
        };
        let (rows_by_worker, counters) = match transactions {
            Some(transactions) => (Vec::new(), Some(driver::start(replay, transactions))),
            None => (lanes::start(replay, commands), None),
        };
        let Shared { publisher, ledger, lag, rates, barriers, pieces, rewrites, .. } = shared;
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
            threads,
            pause,
            position,
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
        self.threads.ending().ask();
        self.resume();
    }

    /// Stops handing pieces to the workers until `resume`; receiving goes on. Without effect once replay ends.
    pub fn pause(&self) {
        self.pause.set(true);
    }

    /// See `pause`.
    pub fn resume(&self) {
        self.pause.set(false);
    }

    /// Whether replay is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.pause.is_on()
    }

    /// When the source committed the oldest transaction that replay has in hand and that is not visible, µs.
    #[must_use]
    pub fn oldest_pending_commit_us(&self) -> Option<u64> {
        self.publisher.oldest_pending_commit_us().or_else(|| self.pause.held_commit_us())
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
        self.position.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why replay stopped, once it did by itself.
    #[must_use]
    pub fn failure(&self) -> Option<Stop> {
        // What split or a panic tells stands behind everything the publisher knows of.
        self.publisher.failure().or_else(|| self.threads.fault()).or_else(|| self.lost_event())
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
        self.threads.is_finished()
    }

    /// Waits for the end.
    #[must_use]
    pub fn join(self) -> Finished {
        let stages = self.threads.join();
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

/// What the threads of replay share.
pub(crate) struct Shared {
    pub threads: Arc<Threads>,
    pub pause: Arc<Pause>,
    pub store: Arc<Store>,
    pub publisher: Arc<Publisher>,
    pub ledger: Arc<Ledger>,
    pub barriers: Arc<AtomicUsize>,
    pub pieces: Arc<AtomicU64>,
    pub rewrites: Arc<RewriteState>,
    pub apply: ApplyOptions,
    /// At least 1.
    pub workers: usize,
    lag: Arc<LagMeter>,
    rates: Arc<RateMeter>,
}

impl Shared {
    fn new(options: &PipelineOptions, threads: &Arc<Threads>, pause: &Arc<Pause>) -> Shared {
        let store = Arc::clone(&options.store);
        let (lag, rates, ledger) = (Arc::new(LagMeter::new()), Arc::new(RateMeter::new()), Arc::new(Ledger::new()));
        match store.recovered_ledger() {
            // A first start.
            "" => {}
            text => match serde_json::from_str(text) {
                Ok(earlier) => ledger.restore(&earlier),
                Err(error) => threads.break_off(Stop {
                    class: decode::StopClass::Corrupt,
                    position: LogPosition { file: Arc::from(""), offset: 0 },
                    gtid: None,
                    reason: format!("the newest cut's ledger cannot be read: {error}"),
                }),
            },
        }
        let clock = Arc::clone(&options.clock_difference_us);
        let publisher = Publisher::new(Watermark::of(&store), Arc::clone(&lag), Arc::clone(&rates), clock);
        Shared {
            threads: Arc::clone(threads),
            pause: Arc::clone(pause),
            store,
            publisher: Arc::new(publisher),
            ledger,
            barriers: Arc::default(),
            pieces: Arc::default(),
            rewrites: Arc::default(),
            apply: options.apply,
            workers: options.workers.max(1),
            lag,
            rates,
        }
    }

    /// A worker of these lanes.
    pub(crate) fn worker(&self, lanes: Vec<usize>) -> Worker {
        Worker::new(
            Arc::clone(&self.store),
            Arc::clone(&self.publisher),
            Arc::clone(&self.ledger),
            self.apply,
            lanes,
            Arc::clone(&self.barriers),
            Arc::clone(self.threads.ending()),
        )
    }

    /// The stage between decoders and so many workers.
    pub(crate) fn sequence_stage(
        &self,
        target: Target,
        catalogs: &Arc<SharedCatalog>,
        decode: DecodeOptions,
        workers: usize,
    ) -> SequenceStage {
        let sequencer = target.sequencer(decode);
        SequenceStage::new(sequencer, catalogs, &self.publisher, target, &self.ledger, workers)
            .with_rewrites(&self.rewrites)
    }
}

/// What is left to be started once split runs: all of one grain.
pub(crate) struct Replay<'a> {
    pub shared: &'a Shared,
    pub split: Split,
    pub target: Target,
    pub decode: DecodeOptions,
    /// 0 under the grain of transactions: the scheduler decodes.
    pub decoders: usize,
    /// Held by every worker.
    pub working: Sender<()>,
}

/// Starts the cutter and compaction; the latter's threads are not waited for.
fn start_cuts(
    shared: &Shared,
    state: &Arc<CutState>,
    options: CutOptions,
    all_done: Receiver<()>,
) -> (Sealer, Vec<JoinHandle<()>>) {
    let Shared { threads, store, publisher, ledger, .. } = shared;
    let (sealer, cutter, kicked) = cutter::pair(store, publisher, ledger, threads.ending(), state, options);
    threads.spawn("cut", {
        let threads = Arc::clone(threads);
        move || {
            if let Err(stop) = cutter.run(&all_done) {
                threads.break_off(*stop);
            }
        }
    });
    let compaction = kicked.into_iter().enumerate().map(|(number, (which, kicked))| {
        let (store, own) = (Arc::clone(store), Arc::clone(threads));
        threads.spawn_apart(&format!("compact-{number}"), move || {
            // The nearest, which cuts wait for, is not niced: at low priority it fell behind on long replays and gained
            // nothing on short ones.
            if which != cutter::Compaction::Near {
                base::priority::to_background();
            }
            if let Err(error) = cutter::compact(&store, own.ending(), which, &kicked) {
                let position = LogPosition { file: Arc::from(""), offset: 0 };
                let (class, reason) = (class_of(&error), error.to_string());
                own.break_off(Stop { class, position, gtid: None, reason });
            }
        })
    });
    (sealer, compaction.collect())
}
