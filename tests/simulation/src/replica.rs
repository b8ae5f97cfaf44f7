//! A replica whose stages are stepped.
//!
//! In: which stage takes a step. Out: the store as it develops. Never here: a thread, a wait, a clock, the order of
//! steps.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use apply::stages::{
    CutState, Cutter, CutterStep, InFlight, Publisher, SequenceStage, Shutdown, SplitStage, Target, Watermark, Worker,
    class_of, sealer_and_cutter,
};
use apply::{ApplyOptions, CutOptions, lanes_for};
use base::{GtidSet, LogPosition, Random};
use catalog::Catalog;
use decode::{
    DecodeOptions, DecodedPiece, Decoder, MemoryGate, Piece, SharedCatalog, SplitOptions, Splitter, Stop, StopClass,
};
use observe::{LagMeter, Ledger, RateMeter};
use relay_log::{
    Intake, OnDamage, ReaderOptions, RelayError, RelayLog, RelayOptions, RelayPosition, RelayReader, RelayShared,
    RelayWriter, SyncPolicy, SyncStep, TailItem,
};
use store::{CheckImages, CutPoint, Disk, DiskOptions, Generation, Store, StoreError};

use crate::source::{Sent, Source, Stream};

/// Why a replica cannot continue.
#[derive(Debug)]
pub enum Fault {
    /// Failed as a failing disk makes it fail: class `Io`, exit 8 of the program.
    Disk(String),
    /// The relay log holds bytes that no source writes: class `Corrupt`, exit 7 of the program, which repairs it.
    Damaged(String),
    /// Anything else: a defect.
    Wrong(String),
}

impl Fault {
    /// From an error of the relay log.
    #[must_use]
    pub fn of_relay(error: &RelayError) -> Fault {
        match error {
            RelayError::Io { .. } | RelayError::DiskFull { .. } => Fault::Disk(error.to_string()),
            other => Fault::Wrong(other.to_string()),
        }
    }

    /// From an error of the store.
    #[must_use]
    pub fn of_store(error: &StoreError) -> Fault {
        match class_of(error) {
            StopClass::Io | StopClass::DiskFull | StopClass::SyncFailed => Fault::Disk(error.to_string()),
            _ => Fault::Wrong(error.to_string()),
        }
    }

    /// From a stop of replay.
    #[must_use]
    pub fn of_stop(stop: &Stop) -> Fault {
        match stop.class {
            StopClass::Io | StopClass::DiskFull | StopClass::SyncFailed => Fault::Disk(stop.to_string()),
            StopClass::Corrupt | StopClass::StoreDamaged => Fault::Damaged(stop.to_string()),
            StopClass::NotSupported | StopClass::DataDiffers | StopClass::Defect => Fault::Wrong(stop.to_string()),
        }
    }
}

/// Sizes, small so that every limit is reached.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Apply workers.
    pub workers: usize,
    /// Pieces that may be decoded out of order.
    pub decoders: usize,
    /// Bytes in flight at which splitting pauses.
    pub memory_bytes: u64,
    /// Size in bytes at which a generation is sealed.
    pub generation_bytes: u64,
    /// Size in bytes at which a relay log file is closed.
    pub file_bytes: u64,
    /// Bytes of the relay log kept in memory.
    pub hot_bytes: usize,
    /// Sizes of pieces.
    pub split: SplitOptions,
    /// When not every row is looked up on disk, changes of some columns are kept as deltas.
    pub check_images: CheckImages,
}

impl Sizes {
    /// Draws the sizes for a life.
    #[must_use]
    pub fn random(random: &mut Random) -> Sizes {
        Sizes {
            workers: 1 + random.below(4),
            decoders: 1 + random.below(3),
            memory_bytes: [1, 20_000, 1 << 20][random.below(3)],
            generation_bytes: [1, 100_000, 1_000_000, 1 << 30][random.below(4)],
            file_bytes: [2_000, 16_000, 200_000][random.below(3)],
            hot_bytes: [0, 4_000, 1 << 20][random.below(3)],
            split: SplitOptions {
                piece_bytes: [1, 300, 2_000, 256 << 10][random.below(4)],
                slice_bytes: [200, 2_000, 16 << 20][random.below(3)],
            },
            check_images: [CheckImages::All, CheckImages::Sample][random.below(2)],
        }
    }
}

/// Events of a life that short lives do not reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Number of cuts.
    pub cuts: u64,
    /// Parts of unfinished transactions written to a tree of their own.
    pub spills: u64,
    /// Compaction steps that had work to do.
    pub compactions: u64,
    /// Relay log files purged.
    pub purged: u64,
    /// Pieces that needed several lanes.
    pub barriers: u64,
}

/// A planted fault of the stages, which the checkers must catch. Only this driver has them, not the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// No fault.
    Nothing,
    /// A piece becomes visible when all workers but one have applied it.
    EarlyPublish,
    /// A cut's rows enter the tree in one ingestion, its GTID set and position in another.
    CutInTwo,
}

struct WorkerSlot {
    worker: Worker,
    queue: VecDeque<Arc<InFlight>>,
    /// The front piece is applied and waits at its barrier.
    begun: bool,
}

/// The replica's parts and their state between steps.
pub struct Replica {
    /// The rows.
    pub store: Arc<Store>,
    /// Moves the watermark.
    pub publisher: Arc<Publisher>,
    /// Fate of every event.
    pub ledger: Arc<Ledger>,
    /// Bytes in flight.
    pub gate: Arc<MemoryGate>,
    /// Asks for cuts.
    pub cut_state: Arc<CutState>,
    /// Number of the last transaction of the newest durable cut.
    pub durable: Arc<Mutex<u64>>,
    /// Counts for this life.
    pub done: Arc<Mutex<Done>>,
    /// Sequence number at which the store was recovered.
    pub recovered: u64,
    /// Retrieved GTIDs when the relay log was opened.
    pub retrieved_at_start: GtidSet,
    relay_log: PathBuf,
    relay: Arc<RelayShared>,
    sizes: Sizes,
    planted: Planted,
    intake: Intake,
    stream: Option<Stream>,
    sync: Arc<Mutex<SyncStep>>,
    tail: RelayReader,
    split: SplitStage,
    to_decode: VecDeque<Piece>,
    decoders: Vec<Decoder>,
    decoded: Vec<DecodedPiece>,
    shared: Arc<SharedCatalog>,
    sequence: SequenceStage,
    workers: Vec<WorkerSlot>,
    cutter: Cutter,
    barriers: Arc<AtomicUsize>,
    /// The second half of a cut in two: sealed, and empty except for its record.
    owed: Option<Arc<Generation>>,
    last_point: (GtidSet, Option<(String, u64)>),
}

/// Maximum by which splitting one item may exceed the bound: an item, and the expansion of its payloads.
const SPLIT_SLACK_BYTES: u64 = 1 << 20;

impl Replica {
    /// Opens the folder's content as the program does (`replica::open::Opening`).
    ///
    /// # Errors
    /// The part that failed.
    pub fn open(folder: &Path, sizes: Sizes, planted: Planted) -> Result<Replica, Fault> {
        let io = |error: std::io::Error| Fault::Disk(error.to_string());
        if !folder.is_dir() {
            fs::create_dir(folder).map_err(io)?;
        }
        let above = folder.parent().map_or_else(|| folder.to_owned(), Path::to_owned);
        File::open(above).and_then(|above| above.sync_all()).map_err(io)?;
        let (disk, recovered) = Disk::open(&folder.join("store"), DiskOptions { cache_bytes: 256 << 10 })
            .map_err(|error| Fault::of_store(&error))?;
        let mut options = RelayOptions::new(folder.join("relay-log"));
        if let Some(recovered) = &recovered {
            options.executed.clone_from(&recovered.executed);
            options.resume_at = recovered.position.as_ref().map(position_of);
        }
        options.on_damage = OnDamage::FetchAgain;
        options.hot_bytes_max = sizes.hot_bytes;
        options.max_file_bytes = sizes.file_bytes;
        options.sync = SyncPolicy::Never;
        let opened = RelayLog::open_stepped(&options);
        let (writer, recovery, sync) = opened.map_err(|error| Fault::of_relay(&error))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)?;
        let last_point = recovered.as_ref().map_or_else(Default::default, |r| (r.executed.clone(), r.position.clone()));
        let recovered_at = recovered.as_ref().map_or(0, |recovered| recovered.sequence);
        let lanes = lanes_for(sizes.workers);
        let store = Store::over(lanes, disk, folder.join("scratch"), recovered, Catalog::new(0));
        let store = Arc::new(store.map_err(|error| Fault::of_store(&error))?);
        let tail = RelayReader::open_at(writer.shared(), &recovery.start, ReaderOptions::REPLAY);
        let sync = Arc::new(Mutex::new(sync));
        let durable = Arc::new(Mutex::new(recovered_at));
        let done = Arc::new(Mutex::new(Done::default()));
        let cuts = cut_options(sizes, &sync, writer.shared(), &durable, &done);
        let stages = Stages::new(&store, sizes, planted, cuts);
        let start = LogPosition { file: Arc::from(""), offset: 4 };
        Ok(Replica {
            publisher: stages.publisher,
            ledger: stages.ledger,
            gate: stages.gate,
            cut_state: stages.cut_state,
            durable,
            done,
            barriers: stages.barriers,
            recovered: recovered_at,
            retrieved_at_start: recovery.retrieved,
            relay_log: folder.join("relay-log"),
            relay: writer.shared(),
            sizes,
            planted,
            intake: Intake::new(writer, start),
            stream: None,
            sync,
            tail,
            split: stages.split,
            to_decode: VecDeque::new(),
            decoders: stages.decoders,
            decoded: Vec::new(),
            shared: stages.shared,
            sequence: stages.sequence,
            workers: stages.workers,
            cutter: stages.cutter,
            owed: None,
            last_point,
            store,
        })
    }

    /// Reconnects to the source, starting from what is retrieved.
    ///
    /// # Errors
    /// The relay log cannot be truncated to a whole transaction.
    pub fn connect(&mut self, source: &Source, history: &testkit::history::History) -> Result<(), Fault> {
        self.intake.abort_partial().map_err(|error| Fault::of_relay(&error))?;
        self.stream = Some(source.connect(self.intake.writer().retrieved(), history));
        Ok(())
    }

    /// Receives one event; false if there is none.
    ///
    /// # Errors
    /// The relay log cannot be written.
    pub fn receive(&mut self, source: &Source) -> Result<bool, Fault> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        match source.next(stream) {
            None => return Ok(false),
            Some(Sent::File(name)) => self.intake.begin_file(name),
            Some(Sent::Event(event)) => {
                self.intake.event(event).map_err(|error| Fault::of_relay(&error))?;
            }
        }
        Ok(true)
    }

    /// Writes the gathered bytes.
    ///
    /// # Errors
    /// The relay log cannot be written.
    pub fn flush(&mut self) -> Result<bool, Fault> {
        self.intake.flush().map(|at| at.is_some()).map_err(|error| Fault::of_relay(&error))
    }

    /// Makes the relay log durable; returns what that acknowledges.
    ///
    /// # Errors
    /// The sync fails.
    pub fn sync_relay(&mut self) -> Result<GtidSet, Fault> {
        self.sync.lock().unwrap().sync().map_err(|error| Fault::of_relay(&error))?;
        Ok(self.intake.writer().retrieved().clone())
    }

    /// Writes the relay log's state file.
    ///
    /// # Errors
    /// The write fails.
    pub fn write_state(&mut self) -> Result<(), Fault> {
        self.sync.lock().unwrap().write_state().map_err(|error| Fault::of_relay(&error))
    }

    /// Reads one item of the relay log and splits it; false if there is none, or no memory for it.
    ///
    /// # Errors
    /// The log cannot be read, or holds something no source writes.
    pub fn split(&mut self) -> Result<bool, Fault> {
        if self.gate.used() > 0 && self.gate.used() >= self.sizes.memory_bytes {
            return Ok(false);
        }
        let item = match self.tail.next(Duration::ZERO) {
            Ok(TailItem::Idle | TailItem::Closed) => return Ok(false),
            Ok(item) => item,
            Err(error) => return Err(Fault::of_stop(&self.split.stop_of(&error))),
        };
        let to_decode = &mut self.to_decode;
        let done = self.split.step(item, &mut |piece| {
            to_decode.push_back(piece);
            true
        });
        done.map_err(|stop| Fault::of_stop(&stop))?;
        if self.gate.used() > self.sizes.memory_bytes + SPLIT_SLACK_BYTES {
            return Err(Fault::Wrong(format!("{} bytes in flight of {}", self.gate.used(), self.sizes.memory_bytes)));
        }
        Ok(true)
    }

    /// Decodes one of the first pieces whose epoch is published; false if there is none.
    pub fn decode(&mut self, random: &mut Random) -> bool {
        let most = self.decoders.len().min(self.to_decode.len());
        let ready: Vec<usize> =
            (0..most).filter(|i| self.shared.get(self.to_decode[*i].epoch_to_decode()).is_some()).collect();
        if ready.is_empty() {
            return false;
        }
        let at = ready[random.below(ready.len())];
        let Some(piece) = self.to_decode.remove(at) else { return false };
        let Some((catalog, version)) = self.shared.get(piece.epoch_to_decode()) else { return false };
        let decoder = random.below(self.decoders.len());
        self.decoded.push(self.decoders[decoder].decode(piece, &catalog, version));
        true
    }

    /// Hands one decoded piece to sequence; false if there is none.
    pub fn take_decoded(&mut self, random: &mut Random) -> bool {
        if self.decoded.is_empty() {
            return false;
        }
        let piece = self.decoded.swap_remove(random.below(self.decoded.len()));
        self.sequence.take(piece);
        true
    }

    /// Sequences the next piece; false if it is not there yet, or a cut must end first.
    pub fn sequence(&mut self) -> bool {
        if self.sequence.would_wait() || self.publisher.failure().is_some() {
            return false;
        }
        let Some(flight) = self.sequence.next(|| false) else {
            self.sequence.idle();
            return false;
        };
        for slot in &mut self.workers {
            slot.queue.push_back(Arc::clone(&flight));
        }
        true
    }

    /// Number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Steps one worker; false if it has nothing to do, or waits at a barrier.
    pub fn work(&mut self, worker: usize) -> bool {
        let Some(slot) = self.workers.get_mut(worker) else { return false };
        let Some(flight) = slot.queue.front() else { return false };
        if !slot.begun {
            slot.begun = slot.worker.begin(flight);
            return true;
        }
        if !flight.is_passed() {
            return false;
        }
        slot.worker.finish(flight);
        if self.planted == Planted::EarlyPublish && flight.open_workers() == 1 {
            self.publisher.complete(flight.index());
        }
        slot.begun = false;
        slot.queue.pop_front();
        true
    }

    /// Cuts a sealed generation if that is allowed; false if not.
    ///
    /// # Errors
    /// Relay log or store cannot be written.
    pub fn cut(&mut self) -> Result<bool, Fault> {
        if self.planted == Planted::CutInTwo {
            return self.cut_in_two();
        }
        let before = self.done.lock().unwrap().cuts;
        let step = self.cutter.step().map_err(|stop| Fault::of_stop(&stop))?;
        let mut done = self.done.lock().unwrap();
        done.barriers = self.barriers.load(Ordering::Relaxed) as u64;
        done.spills += u64::from(step == CutterStep::Done && done.cuts == before);
        Ok(step == CutterStep::Done)
    }

    /// Takes one step of compaction.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn compact(&self) -> Result<bool, Fault> {
        let did = self.store.compact().map_err(|error| Fault::of_store(&error))?;
        self.done.lock().unwrap().compactions += u64::from(did);
        Ok(did)
    }

    /// Stops cleanly: the last cut, and the relay log marked as closed. Nothing is in flight.
    ///
    /// # Errors
    /// Relay log or store cannot be written.
    pub fn stop(mut self) -> Result<(), Fault> {
        while self.cut()? {}
        if self.planted != Planted::CutInTwo {
            self.cutter.last_cut().map_err(|stop| Fault::of_stop(&stop))?;
        }
        let writer = self.intake.finish().map_err(|error| Fault::of_relay(&error))?;
        writer.close().map_err(|error| Fault::of_relay(&error))
    }

    /// Ends receiving, also after a failure: truncates what is not whole and marks the log as closed. A failure here
    /// follows an earlier one.
    pub fn end_receiving(self) {
        let mut intake = self.intake;
        let _ = intake.abort_partial().and_then(|()| intake.finish()).and_then(RelayWriter::close);
    }

    /// Flips a bit of the relay log on disk; false if there is none.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn damage(&self, random: &mut Random) -> std::io::Result<bool> {
        let files = self.relay.files();
        if files.is_empty() {
            return Ok(false);
        }
        let (number, len) = files[random.below(files.len())];
        let at = random.below(len as usize) as u64;
        let path = self.relay_log.join(relay_log::file_name(number));
        let file = File::options().read(true).write(true).open(path)?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        byte[0] ^= 1 << random.below(8);
        file.write_all_at(&byte, at)?;
        Ok(true)
    }

    /// True if the relay file in which replay stopped no longer exists.
    pub fn stopped_in_a_purged_file(&self) -> bool {
        let stopped = self.publisher.failure().and_then(|stop| RelayPosition::of(&stop.position));
        let first = self.relay.files().first().map(|(number, _)| *number);
        stopped.is_some_and(|at| first.is_none_or(|first| at.file_number < first))
    }

    /// True if the relay log itself is to blame for the stop.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn is_damaged(&self) -> Result<bool, Fault> {
        let visible = self.publisher.status().position;
        let first =
            self.relay.files().first().map(|(file_number, _)| RelayPosition { file_number: *file_number, offset: 0 });
        let from = visible.as_ref().and_then(RelayPosition::of).or(first).unwrap_or_default();
        let damage = self.relay.find_damage(from).map_err(|error| Fault::of_relay(&error))?;
        Ok(damage.is_some())
    }

    /// Plants [`Planted::CutInTwo`].
    fn cut_in_two(&mut self) -> Result<bool, Fault> {
        let failed = |error: StoreError| Fault::of_store(&error);
        if let Some(sealed) = self.owed.take() {
            self.store.cut(&sealed).map_err(failed)?;
            let Some(point) = sealed.point() else { return Ok(false) };
            self.last_point = (point.executed.clone(), point.position.clone());
            *self.durable.lock().unwrap() = point.sequence;
            return Ok(true);
        }
        let visible = self.store.visibility().current();
        if !self.publisher.is_drained() || visible.sequence.0 <= self.store.last_cut() {
            return Ok(false);
        }
        let position = self.publisher.status().position;
        let point = CutPoint {
            sequence: visible.sequence.0,
            executed: visible.executed,
            catalog: visible.catalog,
            position: position.map(|end| (end.file.to_string(), end.offset)),
            // Nothing is in flight.
            ledger: serde_json::to_string(&self.ledger.snapshot(binlog::event_type::name)).unwrap(),
            // The histories have no XA transactions.
            prepared: base::PreparedSet::default(),
        };
        self.sync.lock().unwrap().sync().map_err(|error| Fault::of_relay(&error))?;
        let (executed, position) = self.last_point.clone();
        let sealed = self.store.seal(Some(CutPoint { executed, position, ..point.clone() }));
        self.owed = Some(self.store.seal(Some(point)));
        self.store.cut(&sealed).map_err(failed)?;
        Ok(true)
    }
}

fn position_of((file, offset): &(String, u64)) -> LogPosition {
    LogPosition { file: Arc::from(file.as_str()), offset: *offset }
}

/// Makes a cut sync the relay log first and purge it afterwards.
fn cut_options(
    sizes: Sizes,
    sync: &Arc<Mutex<SyncStep>>,
    relay: Arc<RelayShared>,
    durable: &Arc<Mutex<u64>>,
    done: &Arc<Mutex<Done>>,
) -> CutOptions {
    let (sync, durable, done) = (Arc::clone(sync), Arc::clone(durable), Arc::clone(done));
    CutOptions {
        generation_bytes: sizes.generation_bytes,
        interval: Duration::MAX,
        sync_relay: Box::new(move |_| sync.lock().unwrap().sync().map_err(|error| error.to_string())),
        waits_for_space: false,
        after_cut: Box::new(move |point, _| {
            *durable.lock().unwrap() = point.sequence;
            let mut done = done.lock().unwrap();
            done.cuts += 1;
            if let Some(position) = &point.position {
                // A failure is retried after the next cut, as in the program.
                let purged = relay.purge(&position_of(position), &point.executed, Duration::ZERO, SystemTime::now());
                done.purged += purged.map_or(0, |purged| purged.files.len() as u64);
            }
        }),
    }
}

/// The pipeline's parts.
struct Stages {
    publisher: Arc<Publisher>,
    ledger: Arc<Ledger>,
    gate: Arc<MemoryGate>,
    cut_state: Arc<CutState>,
    split: SplitStage,
    decoders: Vec<Decoder>,
    shared: Arc<SharedCatalog>,
    sequence: SequenceStage,
    workers: Vec<WorkerSlot>,
    cutter: Cutter,
    barriers: Arc<AtomicUsize>,
}

impl Stages {
    fn new(store: &Arc<Store>, sizes: Sizes, planted: Planted, cuts: CutOptions) -> Stages {
        let start = store.visibility().current();
        let ledger = Arc::new(Ledger::new());
        if let Ok(earlier) = serde_json::from_str(store.recovered_ledger()) {
            ledger.restore(&earlier);
        }
        let (lag, rates) = (Arc::new(LagMeter::new()), Arc::new(RateMeter::new()));
        let publisher = Arc::new(Publisher::new(Watermark::of(store), lag, rates, Arc::default()));
        let gate = MemoryGate::new(sizes.memory_bytes);
        // Nothing waits here: whoever steps `split` observes the bound.
        gate.open();
        let shared = Arc::new(SharedCatalog::new(start.catalog));
        let options = DecodeOptions { lanes: store.lane_count(), ..DecodeOptions::default() };
        let (shutdown, cut_state) = (Arc::new(Shutdown::default()), Arc::new(CutState::default()));
        let (sealer, cutter, _) = sealer_and_cutter(store, &publisher, &ledger, &shutdown, &cut_state, cuts);
        let sealer = (planted != Planted::CutInTwo).then_some(sealer);
        let barriers = Arc::new(AtomicUsize::new(0));
        let workers = (0..sizes.workers).map(|i| {
            let lanes = (0..store.lane_count()).filter(|lane| lane % sizes.workers == i).collect();
            let worker = Worker::new(
                Arc::clone(store),
                Arc::clone(&publisher),
                Arc::clone(&ledger),
                ApplyOptions { check_images: sizes.check_images, ..ApplyOptions::default() },
                lanes,
                Arc::clone(&barriers),
                Arc::clone(&shutdown),
            );
            WorkerSlot { worker, queue: VecDeque::new(), begun: false }
        });
        let target = Target::lanes(store, sealer);
        let sequencer = target.sequencer(options.clone());
        Stages {
            split: SplitStage::new(Splitter::with_options(Arc::clone(&gate), sizes.split)),
            decoders: (0..sizes.decoders).map(|_| Decoder::new(options.clone())).collect(),
            sequence: SequenceStage::new(sequencer, &shared, &publisher, target, &ledger, sizes.workers),
            workers: workers.collect(),
            publisher,
            ledger,
            gate,
            cut_state,
            shared,
            cutter,
            barriers,
        }
    }
}
