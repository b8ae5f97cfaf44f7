//! The driver: gives split, decode, sequence and apply their threads and queues.
//!
//! In: a relay log that is followed or read to its end. Out: a store that follows it. Every queue is bounded; split
//! reserves memory in log order, so a full queue can never hold what an earlier piece waits for. Never here: a thread
//! that outlives the others: whatever ends one (the log's end, a failure, a request, a panic) ends all.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use base::{LogPosition, ThreadAffinity, UntilGtids, UntilStep};
use catalog::ReplicationFilters;
use crossbeam_channel::{Receiver, Sender, bounded};
use decode::{DecodeOptions, MemoryGate, SharedCatalog, SkipList, SplitOptions, StatementWrites, Stop};
use observe::{LagByPart, LagMeter, Ledger, LedgerSnapshot, RateMeter, SourceClock};
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

pub struct PipelineOptions {
    /// Decoder threads; at least 1 under the rows grain.
    pub decoders: usize,
    /// Apply worker threads, at least 1.
    pub workers: usize,
    /// Bytes in flight between split and publish.
    pub memory_bytes: u64,
    /// Checks of the apply workers.
    pub apply: ApplyOptions,
    pub skip: SkipList,
    /// See [`DecodeOptions::quarantine`]; for callers that copy tables.
    pub quarantine: bool,
    /// See [`DecodeOptions::copies_missing`](decode::DecodeOptions::copies_missing).
    pub copies_missing: bool,
    /// Which databases and tables are replicated, under which names.
    pub filters: Arc<ReplicationFilters>,
    /// The store that takes the rows, with as many lanes as [`lanes_for`] says. Replay continues after what it holds.
    pub store: Arc<Store>,
    /// When the store is cut; None for a store in memory, and for one that is opened only to be read.
    pub cuts: Option<CutOptions>,
    /// Source clock minus ours, µs.
    pub source_clock: Arc<SourceClock>,
    /// The lag's parts, as the relay log that is replayed measures them (`RelayShared::lag_by_part`).
    pub lag_by_part: Arc<LagByPart>,
    /// CPUs that the threads may use.
    pub affinity: ThreadAffinity,
}

#[derive(Debug)]
pub struct Finished {
    /// Why it stopped before the end, if it did.
    pub stop: Option<Stop>,
    /// CPU time of each thread.
    pub stages: Vec<StageTime>,
}

pub struct Pipeline {
    /// The store that takes the rows.
    pub store: Arc<Store>,
    pub publisher: Arc<Publisher>,
    /// Counts, per event type, what became of every event.
    pub ledger: Arc<Ledger>,
    pub lag: Arc<LagMeter>,
    pub lag_by_part: Arc<LagByPart>,
    /// Transactions, rows and bytes made visible.
    pub rates: Arc<RateMeter>,
    /// Bytes in flight.
    pub gate: Arc<MemoryGate>,
    /// Number of barriers passed.
    pub barriers: Arc<AtomicUsize>,
    /// Number of pieces sequenced.
    pub pieces: Arc<AtomicU64>,
    /// Row changes taken, per worker; empty under the grain of transactions.
    pub rows_by_worker: Vec<Arc<AtomicU64>>,
    cut_state: Arc<CutState>,
    rewrites: Arc<RewriteState>,
    copier: TableCopier,
    decode_options: DecodeOptions,
    threads: Arc<Threads>,
    pause: Arc<Pause>,
    /// Relay log position up to which split has handed on pieces.
    position: Arc<Mutex<LogPosition>>,
    /// Counters of the grain of transactions; None under the rows grain.
    transactions: Option<Arc<TransactionCounters>>,
    /// Compaction threads. `join` does not wait for them: a step of compaction may outlast the 5 s of a stop, and can
    /// be broken off anywhere.
    compaction: Vec<JoinHandle<()>>,
}

/// Number of lanes of a store that this many workers fill.
#[must_use]
pub fn lanes_for(workers: usize) -> usize {
    workers.max(1) * LANES_PER_WORKER
}

/// Lanes per worker. More lanes spread the keys around a hot row better, but each costs a lock per piece.
const LANES_PER_WORKER: usize = 8;
impl Pipeline {
    #[must_use]
    pub fn start(source: LogSource, options: PipelineOptions) -> Pipeline {
        Pipeline::start_with(source, options, SplitOptions::default())
    }

    /// Like [`Pipeline::start`], with other piece sizes.
    #[must_use]
    pub fn start_with(source: LogSource, options: PipelineOptions, sizes: SplitOptions) -> Pipeline {
        Pipeline::launch(source, options, sizes, None)
    }

    /// Starts the threads of the grain of transactions, which hands whole transactions to workers: see
    /// [`transactions`](crate::transactions). With no decoders ([`PipelineOptions::decoders`] 0) the scheduling
    /// thread decodes. Tables cannot be copied beside it ([`Pipeline::copier`] is refused).
    #[must_use]
    pub fn start_transactions(
        source: LogSource,
        options: PipelineOptions,
        transactions: TransactionOptions,
        slice_bytes: usize,
    ) -> Pipeline {
        // One byte per batch: every transaction becomes a piece of its own.
        let sizes = SplitOptions { piece_bytes: 1, slice_bytes };
        Pipeline::launch(source, options, sizes, Some(transactions))
    }

    fn launch(
        source: LogSource,
        options: PipelineOptions,
        sizes: SplitOptions,
        transactions: Option<TransactionOptions>,
    ) -> Pipeline {
        let threads = Threads::new(options.affinity.clone());
        let pause = Arc::new(Pause::new(threads.shutdown(), Arc::clone(&options.source_clock)));
        threads.on_failure({
            let pause = Arc::clone(&pause);
            move || pause.look_again()
        });
        let store = Arc::clone(&options.store);
        let shared = Shared::new(&options, &threads, &pause);
        let catalog = store.visibility().current().catalog;
        let split = Split::start(source, options.memory_bytes, sizes, catalog, &threads);
        let (gate, position) = (Arc::clone(&split.feed.gate), split.feed.position());
        let decode_options = DecodeOptions {
            // A worker of whole transactions needs all changes in log order, hence in one lane.
            lanes: if transactions.is_some() { 1 } else { store.lane_count() },
            skip: options.skip.clone(),
            known_only: false,
            quarantine: options.quarantine,
            copies_missing: options.copies_missing,
            filters: Arc::clone(&options.filters),
            writes: StatementWrites::default(),
            for_stamps: false,
        };
        let cut_state = Arc::new(CutState::default());
        // Every worker holds the sender. Its closing tells the cutter that all are done, so that the last cut can be
        // taken.
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
            lag_by_part: options.lag_by_part,
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

    /// Returns a handle for copying a table while replay runs.
    #[must_use]
    pub fn copier(&self) -> TableCopier {
        self.copier.clone()
    }

    /// Returns the settings under which changes of a copied table must be decoded.
    #[must_use]
    pub fn decode_options(&self) -> DecodeOptions {
        self.decode_options.clone()
    }

    /// Requests the end of replay, at a transaction boundary and within a few seconds: pieces already split are
    /// handed to the workers for one more second, and workers finish what they hold for three.
    pub fn stop(&self) {
        self.threads.shutdown().ask();
        self.pause.look_again();
    }

    /// Stops handing pieces to the workers until `resume`, at a transaction boundary; receiving continues. Has no
    /// effect once replay ends.
    pub fn pause(&self) {
        self.pause.begin();
    }

    /// Ends a pause. Replay goes on up to this condition, and then pauses by itself; without one it forgets an earlier
    /// one. Under the grain of transactions conditions are not looked at.
    pub fn resume(&self, until: Option<UntilGtids>) {
        let until = until.map(|until| UntilStep::new(until, &self.decode_options.skip.sequenced()));
        self.pause.end(until);
    }

    /// Whether replay is paused. Transactions handed on before may still become visible.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.pause.is_on()
    }

    /// True if replay is paused, and nothing becomes visible any more.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.pause.is_at_rest() && !self.publisher.status().pending
    }

    /// The condition up to which replay goes, or went.
    #[must_use]
    pub fn until(&self) -> Option<UntilGtids> {
        self.pause.until()
    }

    /// True if replay is paused because that condition is met.
    #[must_use]
    pub fn is_until_met(&self) -> bool {
        self.pause.is_until_met()
    }

    /// From now on a transaction is applied so long after its commit at the source, at the earliest.
    pub fn set_delay(&self, delay: Duration) {
        self.pause.set_delay(delay);
    }

    #[must_use]
    pub fn delay(&self) -> Duration {
        self.pause.delay()
    }

    /// How long the next transaction still waits for the delay; None if none does.
    #[must_use]
    pub fn remaining_delay(&self) -> Option<Duration> {
        self.pause.remaining_delay()
    }

    /// Source commit time of the oldest transaction that replay holds and that is not visible, in µs.
    #[must_use]
    pub fn oldest_pending_commit_us(&self) -> Option<u64> {
        self.publisher.oldest_pending_commit_us().or_else(|| self.pause.held_commit_us())
    }

    /// Returns what replay waits for in the store.
    #[must_use]
    pub fn waits_for(&self) -> CutWait {
        self.cut_state.wait()
    }

    /// True once replay has been asked to end.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.threads.shutdown().is_asked()
    }

    /// Returns the state of cutting, for callers that poll it.
    #[must_use]
    pub fn cut_state(&self) -> Arc<CutState> {
        Arc::clone(&self.cut_state)
    }

    /// Returns the progress of the table rewrite in hand, if any.
    #[must_use]
    pub fn rewriting(&self) -> Option<RewriteProgress> {
        self.rewrites.progress()
    }

    /// Number of tables rewritten since start.
    #[must_use]
    pub fn rewritten(&self) -> u64 {
        self.rewrites.done()
    }

    /// Requests a cut at the next transaction boundary.
    pub fn ask_for_cut(&self) {
        self.cut_state.ask();
    }

    /// Relay log position up to which the log was read.
    #[must_use]
    pub fn position(&self) -> LogPosition {
        self.position.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns why replay stopped, if it did so by itself.
    #[must_use]
    pub fn failure(&self) -> Option<Stop> {
        // The publisher's failure comes first: its place in the log is before that of any fault of split.
        self.publisher.failure().or_else(|| self.threads.fault()).or_else(|| self.lost_event())
    }

    /// Returns a defect if the ledger does not balance once nothing is in flight. Unless replay gave up what the
    /// workers held, that is the case when the threads are done.
    fn lost_event(&self) -> Option<Stop> {
        if !self.is_finished() || !self.publisher.is_applied() {
            return None;
        }
        let events = self.ledger.of_this_run(binlog::event_type::name);
        let row = events.unbalanced().next()?;
        let gtid = self.publisher.status().last_gtid;
        Some(Stop::of_defect(self.publisher.position(), gtid, &unbalanced_text(row)))
    }

    /// True if all threads but those of compaction are done.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.is_finished()
    }

    /// Waits until all threads but those of compaction are done.
    #[must_use]
    pub fn join(self) -> Finished {
        let stages = self.threads.join();
        Finished { stop: self.failure(), stages }
    }

    /// Like [`join`](Self::join), and waits for compaction to end its step, which is necessary before the folder is
    /// removed or opened again.
    #[must_use]
    pub fn join_all(mut self) -> Finished {
        let (compaction, store) = (std::mem::take(&mut self.compaction), Arc::clone(&self.store));
        // `join` drops the pipeline, which requests the end of compaction too.
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
    /// Requests the end of replay.
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
            // An empty store: no cut holds a ledger.
            "" => {}
            text => match LedgerSnapshot::from_record(text) {
                Ok(earlier) => ledger.restore(&earlier),
                Err(error) => threads.break_off(Stop {
                    class: decode::StopClass::Corrupt,
                    position: LogPosition { file: Arc::from(""), offset: 0 },
                    gtid: None,
                    reason: format!(
                        "the newest cut's ledger cannot be read: {error}; if a newer release wrote this folder, use that \
                         release"
                    ),
                }),
            },
        }
        let clock = Arc::clone(&options.source_clock);
        let publisher = Publisher::new(Watermark::of(&store), Arc::clone(&lag), Arc::clone(&rates), clock)
            .with_parts(Arc::clone(&options.lag_by_part));
        Shared {
            threads: Arc::clone(threads),
            pause: Arc::clone(pause),
            store,
            publisher: Arc::new(publisher),
            ledger,
            barriers: Arc::default(),
            pieces: Arc::default(),
            rewrites: Arc::default(),
            apply: options.apply.clone(),
            workers: options.workers.max(1),
            lag,
            rates,
        }
    }

    /// Creates the worker that owns these lanes.
    pub(crate) fn worker(&self, lanes: Vec<usize>) -> Worker {
        Worker::new(
            Arc::clone(&self.store),
            Arc::clone(&self.publisher),
            Arc::clone(&self.ledger),
            self.apply.clone(),
            lanes,
            Arc::clone(&self.barriers),
            Arc::clone(self.threads.shutdown()),
        )
    }

    /// Creates the stage between the decoders and this many workers.
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

/// What a grain needs to start its threads, once split runs.
pub(crate) struct Replay<'a> {
    pub shared: &'a Shared,
    pub split: Split,
    pub target: Target,
    pub decode: DecodeOptions,
    /// 0 under the grain of transactions makes the scheduler decode.
    pub decoders: usize,
    /// Held by every worker; see `Cutter::run`.
    pub working: Sender<()>,
}

/// Starts the cutter and the compaction threads; the latter are returned, as `join` does not wait for them.
fn start_cuts(
    shared: &Shared,
    state: &Arc<CutState>,
    options: CutOptions,
    all_done: Receiver<()>,
) -> (Sealer, Vec<JoinHandle<()>>) {
    let Shared { threads, store, publisher, ledger, .. } = shared;
    let waits_for_space = options.waits_for_space;
    let (sealer, cutter, kicked) =
        cutter::sealer_and_cutter(store, publisher, ledger, threads.shutdown(), state, options);
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
            if let Err(error) = cutter::compact(&store, own.shutdown(), which, waits_for_space, &kicked) {
                let position = LogPosition { file: Arc::from(""), offset: 0 };
                let (class, reason) = (class_of(&error), error.to_string());
                own.break_off(Stop { class, position, gtid: None, reason });
            }
        })
    });
    (sealer, compaction.collect())
}
