//! Ops removed from decoded pieces or broken in them, and events removed from the ledger: each must be found, whichever
//! grain applies the piece.
//!
//! In: a log of four transactions. Out: the place where replay stopped. Never here: threads.

use std::sync::Arc;
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

pub(crate) fn author() -> Author {
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
pub(crate) enum Grain {
    Lanes,
    Transactions,
}

/// Replay in one thread.
pub(crate) struct Replay {
    grain: Grain,
    pub(crate) store: Arc<Store>,
    pub(crate) publisher: Arc<Publisher>,
    ledger: Arc<Ledger>,
    pub(crate) stage: SequenceStage,
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
        let publisher = Arc::new(Publisher::new(Watermark::of(&store), lag, rates, Arc::default()));
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
            publisher: Arc::clone(&publisher),
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
    fn run(&mut self, plant: impl FnMut(&mut DecodedPiece)) {
        self.run_log(log(), plant);
    }

    /// Like `run`, for another log whose statements each leave a catalog, up to one that rewrites a table.
    pub(crate) fn run_log(&mut self, log: Vec<u8>, mut plant: impl FnMut(&mut DecodedPiece)) {
        let mut pieces = Vec::new();
        let sizes = SplitOptions { piece_bytes: 1, ..SplitOptions::default() };
        let mut splitter = Splitter::with_options(MemoryGate::new(1 << 20), sizes);
        let emit = &mut |piece| {
            pieces.push(piece);
            true
        };
        splitter.step(&Arc::from("f"), 4, &Arc::new(log.into()), true, emit).unwrap();
        let mut decoder = Decoder::new(options(self.grain));
        for piece in pieces {
            let (catalog, version) = (self.stage.boundary().catalog, piece.epoch);
            let mut decoded = decoder.decode(piece, &catalog, version);
            plant(&mut decoded);
            self.stage.take(decoded);
            while let Some(flight) = self.stage.next(|| false) {
                self.apply(flight);
            }
        }
    }

    pub(crate) fn apply(&mut self, flight: Arc<InFlight>) {
        match self.grain {
            Grain::Lanes => {
                self.workers.iter_mut().for_each(|worker| assert!(worker.begin(&flight)));
                self.workers.iter_mut().for_each(|worker| worker.finish(&flight));
            }
            Grain::Transactions => {
                let decoded = &flight.piece().decoded;
                let ops = 0..decoded.lanes.iter().map(Vec::len).sum::<usize>() + decoded.barrier.len();
                let Some(base::SequenceNumber(number)) = flight.piece().last() else {
                    return flight.complete(&self.publisher);
                };
                let placed = Placed { number, last_committed: 0, events: 1, begins: true, ends: true };
                self.alone.queue.gets_one();
                let task = Arc::new(Task { flight, placed });
                self.alone.step(Job { task, ops, first: true, last: true, events: 1 });
            }
        }
    }

    pub(crate) fn visible(&self) -> u64 {
        self.store.visibility().current().sequence.0
    }
}

fn options(grain: Grain) -> DecodeOptions {
    DecodeOptions { lanes: if grain == Grain::Lanes { LANES } else { 1 }, ..DecodeOptions::default() }
}

pub(crate) fn in_memory(grain: Grain) -> Replay {
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

/// Changes the first op of the piece that has such a list; returns how replay ended.
fn with_broken_op(grain: Grain, list: List, plant: fn(&mut RowOp)) -> Replay {
    let mut replay = in_memory(grain);
    let mut broken = 0;
    replay.run(|decoded| {
        if let Some(op) = list(decoded).and_then(|ops| ops.first_mut()) {
            plant(op);
            broken += 1;
        }
    });
    assert_eq!(broken, 1);
    replay
}

#[test]
fn a_broken_op_stops_replay_in_front_of_its_piece() {
    let lists: [(List, u64); 2] = [(of_a_lane, 3), (of_the_barrier, 4)];
    type Plant = fn(&mut RowOp);
    let plants: [(Plant, &str); 4] = [
        (|op| op.transaction = 7, "in a piece that ends before transaction"),
        (|op| op.key.len = 1 << 20, "a row change whose bytes are not in its piece"),
        (|op| op.key.offset = decode::Span::PAYLOAD, "a row change whose bytes are not in its piece"),
        (|op| op.shape = 99, "a row change without a shape"),
    ];
    for grain in [Grain::Lanes, Grain::Transactions] {
        for (list, transaction) in lists {
            for (plant, what) in plants {
                let replay = with_broken_op(grain, list, plant);
                let stop = replay.publisher.failure().unwrap();
                assert_defect(&stop, transaction, what);
                assert!(stop.reason.contains(what), "{grain:?}: {stop}");
                assert_eq!(replay.visible(), transaction - 1, "{grain:?}, {what}");
            }
        }
    }
}

#[test]
fn a_row_in_another_lane_than_its_key_s_stops_replay() {
    for nth in 0..ROWS as usize {
        let (mut replay, mut strays_in) = (in_memory(Grain::Lanes), None);
        replay.run(|decoded| {
            let places =
                decoded.lanes.iter().enumerate().flat_map(|(lane, ops)| (0..ops.len()).map(move |at| (lane, at)));
            let places: Vec<_> = places.collect();
            if let (Some((lane, at)), None) = (places.get(nth), strays_in) {
                let (op, other) = (decoded.lanes[*lane].remove(*at), (*lane + 1) % LANES);
                decoded.lanes[other].push(op);
                strays_in = Some(other);
            }
        });
        let stop = replay.publisher.failure().unwrap();
        assert_defect(&stop, 3, "a stray row");
        let what = format!("a row change of another lane among those of lane {}", strays_in.unwrap());
        assert!(stop.reason.starts_with(&what), "{stop}");
        assert_eq!(replay.visible(), 2);
    }
}

#[test]
fn a_piece_has_the_store_s_lanes() {
    let (mut replay, mut planted) = (in_memory(Grain::Lanes), false);
    replay.run(|decoded| {
        if decoded.piece.kind == PieceKind::Rows && !std::mem::replace(&mut planted, true) {
            decoded.lanes.push(Vec::new());
        }
    });
    let stop = replay.publisher.failure().unwrap();
    assert_defect(&stop, 3, "lanes");
    assert!(stop.reason.starts_with("a piece of 5 lanes for a store of 4"), "{stop}");
    assert_eq!(replay.visible(), 2);
}

#[test]
fn a_transaction_ends_once() {
    let mut replay = in_memory(Grain::Transactions);
    assert!(replay.alone.mark.finish(2));
    replay.run(|_| {});
    let stop = replay.publisher.failure().unwrap();
    assert_defect(&stop, 2, "a transaction that is done");
    assert!(stop.reason.starts_with("transaction 2 ended twice"), "{stop}");
    assert_eq!(replay.visible(), 2, "it was visible when it ended again");
}

/// A catalog whose next table id is in use.
fn with_an_id_free_again() -> Catalog {
    let context = catalog::StatementContext::default();
    let made = Catalog::new(0).apply(&context, b"CREATE TABLE other.t (i INT)").unwrap().catalog;
    let text = String::from_utf8(made.to_json().unwrap()).unwrap();
    let planted = text.replace("\"next_table_id\":2", "\"next_table_id\":1");
    assert_ne!(planted, text);
    Catalog::from_json(planted.as_bytes()).unwrap()
}

#[test]
fn a_statement_whose_effect_is_broken_stops_replay() {
    for grain in [Grain::Lanes, Grain::Transactions] {
        let mut replay = Replay::new(grain, Store::new(LANES, with_an_id_free_again()), None);
        replay.run(|_| {});
        let stop = replay.publisher.failure().unwrap();
        assert_defect(&stop, 2, "a table id given twice");
        assert!(stop.reason.contains("id 1 of the new table `d`.`t` is not fresh: 1..2 are"), "{stop}");
        assert!(stop.reason.contains("statement: CREATE TABLE t") && stop.reason.contains(".rs:"), "{stop}");
        assert_eq!(replay.visible(), 1, "{grain:?}");
        let catalog = replay.store.visibility().current().catalog;
        assert!(catalog.table("d", "t").is_none() && catalog.table("other", "t").is_some(), "{grain:?}");
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
