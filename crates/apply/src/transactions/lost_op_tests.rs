//! Ops removed from decoded pieces, and events removed from the ledger: each loss must be found, whichever grain
//! applies the piece.
//!
//! In: a log of four transactions. Out: the place where replay stopped. Never here: threads.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use base::Uuid;
use binlog::{ChecksumAlgorithm, event_type, row_flags};
use catalog::Catalog;
use crossbeam_channel::bounded;
use decode::{
    DecodeOptions, DecodedPiece, Decoder, LAST_OF_EVENT, MemoryGate, PieceKind, RowOp, SharedCatalog, SplitOptions,
    Splitter, Stop, StopClass,
};
use observe::{Category, LagMeter, Ledger, RateMeter};
use store::{Disk, DiskOptions, Store};
use testkit::log::{Author, Change, INT, inserts, int};

use super::low_water_mark::LowWaterMark;
use super::queue::{Job, PendingJobs, Task, WorkerQueue};
use super::scheduler::Placed;
use super::worker::TransactionWorker;
use super::{TransactionCounters, TransactionOptions};
use crate::cutter::{CutOptions, CutState, Cutter, CutterStep, sealer_and_cutter};
use crate::in_flight::InFlight;
use crate::publish::Publisher;
use crate::shutdown::Shutdown;
use crate::stages::SequenceStage;
use crate::target::Target;
use crate::watermark::Watermark;
use crate::worker::{ApplyOptions, Worker};

const LANES: usize = 4;
/// Rows of the transaction whose ops are in lanes; the one with the barrier moves half as many.
const ROWS: i32 = 6;

fn author() -> Author {
    Author::at(Uuid([7; 16]), ChecksumAlgorithm::None, 4)
}

/// Returns a log with two statements, rows of several lanes, and rows whose keys change in images that lack a column.
fn log() -> Vec<u8> {
    let mut author = author();
    author.flags |= row_flags::NO_FOREIGN_KEY_CHECKS;
    author.sql("CREATE DATABASE d");
    author.table("t", &[INT; 2], "id INT PRIMARY KEY, v INT");
    let row = |id| vec![int(id), int(id)];
    author.rows(&[inserts("t", (0..ROWS).map(row))]);
    let moved = (0..ROWS / 2).map(|id| (Some(row(id)), Some(row(id + 100)))).collect();
    let key = Some(vec![true, false]);
    author.rows(&[Change { rows: moved, before: key.clone(), after: key, ..inserts("t", []) }]);
    author.writer.take()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Grain {
    Lanes,
    Transactions,
}

/// Replay in one thread.
struct Replay {
    grain: Grain,
    store: Arc<Store>,
    publisher: Arc<Publisher>,
    ledger: Arc<Ledger>,
    stage: SequenceStage,
    cutter: Option<Cutter>,
    cut_state: Arc<CutState>,
    workers: Vec<Worker>,
    alone: TransactionWorker,
}

impl Replay {
    fn new(grain: Grain, store: Store, cuts: Option<CutOptions>) -> Replay {
        let store = Arc::new(store);
        let (ledger, shutdown) = (Arc::new(Ledger::new()), Arc::new(Shutdown::default()));
        let (lag, rates) = (Arc::new(LagMeter::new()), Arc::new(RateMeter::new()));
        let publisher = Arc::new(Publisher::new(Watermark::of(&store), lag, rates, Arc::new(AtomicI64::new(0))));
        let worker = |lanes| {
            let (store, publisher, ledger) = (Arc::clone(&store), Arc::clone(&publisher), Arc::clone(&ledger));
            Worker::new(store, publisher, ledger, ApplyOptions::default(), lanes, Arc::default(), Arc::clone(&shutdown))
        };
        let state = Arc::new(CutState::default());
        let (sealer, cutter) = match cuts {
            Some(cuts) => {
                let (sealer, cutter, _) = sealer_and_cutter(&store, &publisher, &ledger, &shutdown, &state, cuts);
                (Some(sealer), Some(cutter))
            }
            None => (None, None),
        };
        let count = if grain == Grain::Lanes { 2 } else { 1 };
        let catalog = Catalog::new(0);
        let target = Target::lanes(&store, sealer);
        let sequencer = target.sequencer(options(grain));
        let shared = Arc::new(SharedCatalog::new(catalog));
        let alone = TransactionWorker {
            worker: worker(Vec::new()),
            store: Arc::clone(&store),
            options: TransactionOptions::default(),
            queue: Arc::new(WorkerQueue::new(1)),
            mark: Arc::new(LowWaterMark::new(0)),
            pending: Arc::new(PendingJobs::default()),
            counters: Arc::new(TransactionCounters::default()),
            shutdown: Arc::clone(&shutdown),
            spare: bounded(1).0,
            touched: vec![false; LANES],
            tables: Vec::new(),
            given_up: false,
        };
        Replay {
            grain,
            stage: SequenceStage::new(sequencer, &shared, &publisher, target, &ledger, count),
            workers: (0..count).map(|i| worker((0..LANES).filter(|lane| lane % count == i).collect())).collect(),
            alone,
            store,
            publisher,
            ledger,
            cutter,
            cut_state: state,
        }
    }

    /// Replays the log; `plant` may change each decoded piece first.
    fn run(&mut self, mut plant: impl FnMut(&mut DecodedPiece)) {
        let mut pieces = Vec::new();
        let sizes = SplitOptions { piece_bytes: 1, ..SplitOptions::default() };
        let mut splitter = Splitter::with_options(MemoryGate::new(1 << 20), sizes);
        let emit = &mut |piece| {
            pieces.push(piece);
            true
        };
        splitter.step(&Arc::from("f"), 4, &Arc::new(log().into()), true, emit).unwrap();
        let mut decoder = Decoder::new(options(self.grain));
        for piece in pieces {
            // The two statements come first; each leaves its catalog to what follows.
            let version = piece.epoch.min(2);
            assert!(piece.kind == PieceKind::Serial || version == 2);
            let catalog = self.stage.boundary().catalog;
            let mut decoded = decoder.decode(piece, &catalog, version);
            plant(&mut decoded);
            self.stage.take(decoded);
            while let Some(flight) = self.stage.next(|| false) {
                self.apply(flight);
            }
        }
    }

    fn apply(&mut self, flight: Arc<InFlight>) {
        match self.grain {
            Grain::Lanes => {
                self.workers.iter_mut().for_each(|worker| assert!(worker.begin(&flight)));
                self.workers.iter_mut().for_each(|worker| worker.finish(&flight));
            }
            Grain::Transactions => {
                let decoded = &flight.piece().decoded;
                let ops = 0..decoded.lanes.iter().map(Vec::len).sum::<usize>() + decoded.barrier.len();
                let number = flight.piece().last().unwrap().0;
                let placed = Placed { number, last_committed: 0, events: 1, begins: true, ends: true };
                self.alone.queue.gets_one();
                let task = Arc::new(Task { flight, placed });
                self.alone.step(Job { task, ops, first: true, last: true, events: 1 });
            }
        }
    }

    fn visible(&self) -> u64 {
        self.store.visibility().current().sequence.0
    }
}

fn options(grain: Grain) -> DecodeOptions {
    DecodeOptions { lanes: if grain == Grain::Lanes { LANES } else { 1 }, ..DecodeOptions::default() }
}

fn in_memory(grain: Grain) -> Replay {
    Replay::new(grain, Store::new(LANES, Catalog::new(0)), None)
}

/// Selects the list of a piece from which an op is removed.
type List = for<'a> fn(&'a mut DecodedPiece) -> Option<&'a mut Vec<RowOp>>;

fn of_a_lane(decoded: &mut DecodedPiece) -> Option<&mut Vec<RowOp>> {
    // A list with the last op of the event and another op.
    let last = |ops: &Vec<RowOp>| ops.len() > 1 && ops.iter().any(|op| op.flags & LAST_OF_EVENT != 0);
    let any = decoded.lanes.iter().position(last);
    any.and_then(|at| decoded.lanes.get_mut(at))
}

fn of_the_barrier(decoded: &mut DecodedPiece) -> Option<&mut Vec<RowOp>> {
    (!decoded.barrier.is_empty()).then_some(&mut decoded.barrier)
}

fn assert_defect(stop: &Stop, transaction: u64, what: &str) {
    assert_eq!(stop.class, StopClass::Defect, "{what}: {stop}");
    assert_eq!(stop.gtid, Some(author().gtid_of(transaction)), "{what}: {stop}");
    assert!(stop.position.offset > 4, "{what}: {stop}");
}

#[test]
fn a_lost_op_stops_replay_in_front_of_its_piece() {
    let lists: [(&str, List, u64); 2] = [("lane", of_a_lane, 3), ("barrier", of_the_barrier, 4)];
    for grain in [Grain::Lanes, Grain::Transactions] {
        for (name, list, transaction) in lists {
            for last in [true, false] {
                let what = format!("{grain:?}, {name}, last of its event: {last}");
                let mut lost = 0;
                let mut replay = in_memory(grain);
                replay.run(|decoded| {
                    let Some(ops) = list(decoded) else { return };
                    let at = ops.iter().position(|op| (op.flags & LAST_OF_EVENT != 0) == last).unwrap();
                    ops.remove(at);
                    lost += 1;
                });
                assert_eq!(lost, 1, "{what}");
                assert_defect(&replay.publisher.failure().unwrap(), transaction, &what);
                assert_eq!(replay.visible(), transaction - 1, "{what}");
            }
        }
    }
}

#[test]
fn where_no_op_is_lost_replay_continues() {
    for grain in [Grain::Lanes, Grain::Transactions] {
        let mut replay = in_memory(grain);
        replay.run(|_| {});
        assert!(replay.publisher.failure().is_none());
        assert_eq!(replay.visible(), 4, "{grain:?}");
        assert!(replay.ledger.of_this_run(event_type::name).balanced(), "{grain:?}");
    }
}

/// Replays into a store on disk, removes an event if `lose`, and cuts: a sealed generation, or what is left when
/// replay ends.
fn cut_after_a_lost_event(lose: bool, sealed: bool) -> Result<CutterStep, Box<Stop>> {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = Disk::open(&folder.path().join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
    let store = Store::over(LANES, disk, folder.path().join("scratch"), None, Catalog::new(0)).unwrap();
    let cuts = CutOptions {
        generation_bytes: 1 << 20,
        interval: Duration::MAX,
        sync_relay: Box::new(|_| Ok(())),
        waits_for_space: false,
        after_cut: Box::new(|_, _| {}),
    };
    let mut replay = Replay::new(Grain::Lanes, store, Some(cuts));
    replay.run(|decoded| {
        if lose && decoded.piece.kind == PieceKind::Rows {
            decoded.ledger.add(event_type::WRITE_ROWS, Category::Seen, 1);
        }
    });
    let cutter = replay.cutter.as_mut().unwrap();
    if sealed {
        replay.cut_state.ask();
        replay.stage.idle();
        return cutter.step();
    }
    cutter.last_cut().map(|()| CutterStep::Done)
}

#[test]
fn no_generation_is_cut_whose_ledger_lacks_an_event() {
    for sealed in [true, false] {
        assert_eq!(cut_after_a_lost_event(false, sealed).unwrap(), CutterStep::Done);
        let stop = cut_after_a_lost_event(true, sealed).unwrap_err();
        assert_eq!(stop.class, StopClass::Defect, "{stop}");
    }
}
