//! One pass of a log through all stages, in one thread.
//!
//! In: the logs of a load and a run. Out: for each stage rows, time and a hash of its result. Never here: threads, a
//! store that is not on disk, a stage whose input has another form than in the program.

pub mod changes;
pub mod warm;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use anyhow::{Context, anyhow};
use apply::ApplyOptions;
use apply::stages::{InFlight, Publisher, SequenceStage, Shutdown, SplitStage, Target, Watermark, Worker};
use base::LogPosition;
use binlog::reader::BinlogFile;
use catalog::{Catalog, TableDef};
use decode::{DecodeOptions, DecodedPiece, Decoder, MemoryGate, Piece, SharedCatalog, Splitter};
use observe::{LagMeter, Ledger, RateMeter};
use relay_log::{Intake, ReaderOptions, RelayLog, RelayOptions, RelayReader, SyncPolicy, TailItem};
use serde::{Deserialize, Serialize};
use store::{CheckImages, CutPoint, Disk, DiskOptions, KeyRange, ReadOrder, RowBuf, Snapshot, Store, StoreError};
use xxhash_rust::xxh3::xxh3_64;

use crate::stages::{self, Stage};

/// As many as a program with two workers has.
const LANES: usize = 16;
/// Parts in which the run is applied and cut, so that there is something to compact; another part stays in memory for
/// readers.
const CUTS: usize = 5;
/// More pieces than any log here is split into.
const PIECES_MAX: usize = 4096;
const POINT_READS: usize = 10_000;
const RANGE_READS: usize = 1_000;
const ROWS_PER_RANGE: usize = 10;
const ROWS_OF_A_RANGE: usize = 10_000;

/// Figures of one stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// Name of the stage.
    pub stage: String,
    /// Rows, in the stage's unit.
    pub rows: u64,
    /// Nanoseconds in total.
    pub ns: u64,
    /// Hash of the stage's result.
    pub hash: String,
}

/// Runs all stages once.
///
/// # Errors
/// The logs cannot be read, or a stage rejects them.
pub fn pass(logs: &Path) -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let mut line = Line::open(folder.path())?;
    line.take(&logs.join("binlog.000001"), &mut Counts::default())?;
    let mut counts = Counts::default();
    let run = logs.join("binlog.000002");
    let checksum = checksum(&run, &mut counts)?;
    line.take(&run, &mut counts)?;
    let rows = counts.rows;
    let replayed = line.hash()?;
    let mut more = Counts::default();
    line.compact(&mut more)?;
    anyhow::ensure!(line.hash()? == replayed, "compaction changed rows");
    let sample = line.sample()?;
    let points = line.point_reads(&sample, &mut more)?;
    let (range_rows, ranges) = line.range_reads(&mut more)?;
    let (scanned_rows, scanned) = line.rows_of_a_range(&mut more)?;
    let hex = |hash: u64| format!("{hash:016x}");
    Ok(vec![
        counts.figure(&stages::CHECKSUM, rows, hex(checksum)),
        counts.figure(&stages::RECEIVE, rows, hex(counts.received)),
        counts.figure(&stages::SPLIT, rows, hex(counts.split)),
        counts.figure(&stages::DECODE, rows, hex(counts.decoded)),
        counts.figure(&stages::SEQUENCE, rows, hex(counts.sequenced)),
        counts.figure(&stages::APPLY, rows, replayed.clone()),
        counts.figure(&stages::CUT, counts.entries, hex(counts.cut)),
        more.figure(&stages::COMPACT, counts.entries, replayed),
        more.figure(&stages::POINT_READ, POINT_READS as u64, hex(points)),
        more.figure(&stages::RANGE_READ, range_rows, hex(ranges)),
        more.figure(&stages::RANGE_ROW, scanned_rows, hex(scanned)),
    ])
}

/// Rows, times and hashes so far.
#[derive(Default)]
struct Counts {
    ns: [u64; stages::ALL.len()],
    /// Returns the number of allocations of this process so far; None if they are not counted.
    allocator: Option<fn() -> u64>,
    allocations: [u64; stages::ALL.len()],
    rows: u64,
    entries: u64,
    received: u64,
    split: u64,
    decoded: u64,
    sequenced: u64,
    cut: u64,
}

impl Counts {
    /// Measures work only where rows are counted: the load bypasses the functions that callgrind looks for.
    fn measure(&mut self, stage: &Stage, measured: bool, work: &mut dyn FnMut()) {
        if !measured {
            return work();
        }
        let allocations = || self.allocator.map_or(0, |so_far| so_far());
        let before = allocations();
        let ns = stage.measure(work);
        let allocations = allocations() - before;
        for (sums, more) in [(&mut self.ns, ns), (&mut self.allocations, allocations)] {
            if let Some(sum) = sums.get_mut(stage.index()) {
                *sum += more;
            }
        }
    }

    fn figure(&self, stage: &Stage, rows: u64, hash: String) -> Figure {
        let ns = self.ns.get(stage.index()).copied().unwrap_or_default();
        Figure { stage: stage.name.into(), rows, ns, hash }
    }
}

fn mix(hash: u64, with: u64) -> u64 {
    xxh3_64(&[hash.to_le_bytes(), with.to_le_bytes()].concat())
}

/// Reads events and verifies their checksums.
fn checksum(log: &Path, counts: &mut Counts) -> anyhow::Result<u64> {
    let bytes = std::fs::read(log)?;
    let mut file = BinlogFile::new("binlog", std::io::Cursor::new(bytes))?;
    let (mut hash, mut failed) = (0, None);
    counts.measure(&stages::CHECKSUM, true, &mut || {
        loop {
            match file.next_event() {
                Ok(Some(event)) => hash += event.bytes.len() as u64 ^ event.offset,
                Ok(None) => return,
                Err(error) => return failed = Some(error),
            }
        }
    });
    failed.map_or(Ok(hash), |error| Err(error.into()))
}

/// The stages, in order.
struct Line {
    store: Arc<Store>,
    publisher: Arc<Publisher>,
    intake: Intake,
    tail: RelayReader,
    split: SplitStage,
    shared: Arc<SharedCatalog>,
    decoder: Decoder,
    sequence: SequenceStage,
    worker: Worker,
    measured: bool,
}

impl Line {
    fn open(folder: &Path) -> anyhow::Result<Line> {
        let mut options = RelayOptions::new(folder.join("relay-log"));
        options.sync = SyncPolicy::Never;
        let (writer, recovery, _) = RelayLog::open_stepped(&options)?;
        let (disk, recovered) = Disk::open(&folder.join("store"), DiskOptions { cache_bytes: 8 << 20 })?;
        let store = Store::over(LANES, disk, folder.join("scratch"), recovered, Catalog::new(0))?;
        let store = Arc::new(store);
        let (lag, rates, ledger) = (Arc::new(LagMeter::new()), Arc::new(RateMeter::new()), Arc::new(Ledger::new()));
        let publisher = Arc::new(Publisher::new(Watermark::of(&store), lag, rates, Arc::default()));
        let gate = MemoryGate::new(u64::MAX);
        let start = store.visibility().current();
        let shared = Arc::new(SharedCatalog::new(start.catalog));
        let decode = DecodeOptions { lanes: LANES, ..DecodeOptions::default() };
        let target = Target::lanes(&store, None);
        let sequencer = target.sequencer(decode.clone());
        let worker = Worker::new(
            Arc::clone(&store),
            Arc::clone(&publisher),
            Arc::clone(&ledger),
            ApplyOptions { check_images: CheckImages::Sample, ..ApplyOptions::default() },
            (0..LANES).collect(),
            Arc::new(AtomicUsize::new(0)),
            Arc::new(Shutdown::default()),
        );
        Ok(Line {
            tail: RelayReader::open_at(writer.shared(), &recovery.start, ReaderOptions::REPLAY),
            intake: Intake::new(writer, LogPosition { file: Arc::from(""), offset: 4 }),
            split: SplitStage::new(Splitter::new(gate)),
            decoder: Decoder::new(decode),
            sequence: SequenceStage::new(sequencer, &shared, &publisher, target, &ledger, 1),
            shared,
            publisher,
            store,
            worker,
            measured: false,
        })
    }

    /// Runs a log through all stages: the first one as a load, after which the store is cut; the second one is
    /// measured.
    fn take(&mut self, log: &Path, counts: &mut Counts) -> anyhow::Result<()> {
        self.receive(log, counts)?;
        let pieces = self.split(counts)?;
        if !self.measured {
            // Later pieces need the tables that earlier ones create.
            for piece in pieces {
                let decoded = self.decode(vec![piece], counts)?;
                let flights = self.sequence(decoded, counts);
                self.apply(&flights, counts)?;
            }
            self.cut(&mut Counts::default())?;
            self.measured = true;
            return Ok(());
        }
        let mut decoded = self.decode(pieces, counts)?.into_iter();
        let part = decoded.len() / (CUTS + 1);
        for _ in 0..CUTS {
            // A piece enters the current generation when it is sequenced.
            let flights = self.sequence(decoded.by_ref().take(part).collect(), counts);
            self.apply(&flights, counts)?;
            self.cut(counts)?;
        }
        let flights = self.sequence(decoded.collect(), counts);
        self.apply(&flights, counts)
    }

    fn receive(&mut self, log: &Path, counts: &mut Counts) -> anyhow::Result<()> {
        let mut file = BinlogFile::open(log)?;
        let mut events = Vec::new();
        while let Some(event) = file.next_event()? {
            events.push(event.bytes.to_vec());
        }
        self.intake.begin_file("binlog");
        self.receive_events(&events, counts)
    }

    fn receive_events(&mut self, events: &[Vec<u8>], counts: &mut Counts) -> anyhow::Result<()> {
        let (intake, mut failed) = (&mut self.intake, None);
        counts.measure(&stages::RECEIVE, self.measured, &mut || {
            for event in events {
                if let Err(error) = intake.event(event) {
                    return failed = Some(error);
                }
            }
            failed = intake.flush().err();
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        let (transactions, bytes) = self.intake.taken();
        counts.received = mix(transactions, bytes);
        Ok(())
    }

    fn split(&mut self, counts: &mut Counts) -> anyhow::Result<Vec<Piece>> {
        let mut items = Vec::new();
        while let item @ (TailItem::Chunk(_) | TailItem::EndOfFile { .. }) = self.tail.next(Duration::ZERO)? {
            items.push(item);
        }
        // With capacity, so that the benchmark's own collecting is not counted.
        let (split, mut pieces, mut failed) = (&mut self.split, Vec::with_capacity(PIECES_MAX), None);
        let mut items = items.into_iter();
        counts.measure(&stages::SPLIT, self.measured, &mut || {
            for item in &mut items {
                let done = split.step(item, &mut |piece| {
                    pieces.push(piece);
                    true
                });
                if let Err(stop) = done {
                    return failed = Some(stop);
                }
            }
        });
        if let Some(stop) = failed {
            return Err((*stop).into());
        }
        counts.split = pieces.iter().fold(0, |hash, piece| mix(hash, piece.bytes().len() as u64));
        Ok(pieces)
    }

    fn decode(&mut self, pieces: Vec<Piece>, counts: &mut Counts) -> anyhow::Result<Vec<DecodedPiece>> {
        let Line { decoder, shared, .. } = self;
        let mut decoded = Vec::with_capacity(pieces.len());
        let ready: Option<Vec<_>> =
            pieces.into_iter().map(|piece| shared.get(piece.epoch_to_decode()).map(|known| (piece, known))).collect();
        let mut ready = ready.context("a piece's epoch is not there")?.into_iter();
        counts.measure(&stages::DECODE, self.measured, &mut || {
            for (piece, (catalog, version)) in &mut ready {
                decoded.push(decoder.decode(piece, &catalog, version));
            }
        });
        for piece in &decoded {
            counts.rows += piece.row_count();
            let ops = piece.lanes.iter().flatten().map(|op| op.hash);
            counts.decoded = ops.fold(counts.decoded, |hash, op| hash.wrapping_mul(31).wrapping_add(op));
        }
        Ok(decoded)
    }

    fn sequence(&mut self, pieces: Vec<DecodedPiece>, counts: &mut Counts) -> Vec<Arc<InFlight>> {
        let sequence = &mut self.sequence;
        let (mut flights, mut pieces) = (Vec::with_capacity(PIECES_MAX), pieces.into_iter());
        counts.measure(&stages::SEQUENCE, self.measured, &mut || {
            for piece in &mut pieces {
                sequence.take(piece);
                while let Some(flight) = sequence.next(|| false) {
                    flights.push(flight);
                }
            }
        });
        counts.sequenced = mix(counts.sequenced, flights.len() as u64);
        flights
    }

    fn apply(&mut self, flights: &[Arc<InFlight>], counts: &mut Counts) -> anyhow::Result<()> {
        let worker = &mut self.worker;
        counts.measure(&stages::APPLY, self.measured, &mut || {
            for flight in flights {
                worker.step(flight);
            }
        });
        self.publisher.failure().map_or(Ok(()), |stop| Err(stop.into()))
    }

    fn cut(&mut self, counts: &mut Counts) -> anyhow::Result<()> {
        let visible = self.store.visibility().current();
        let mut point = CutPoint::at(visible.sequence.0, visible.catalog);
        point.executed = visible.executed;
        let (store, mut report) = (&self.store, None);
        let sealed = store.seal(Some(point));
        counts.measure(&stages::CUT, self.measured, &mut || report = Some(store.cut(&sealed)));
        let report = report.context("no cut")??;
        counts.entries += report.entries + report.index_entries;
        counts.cut = mix(mix(counts.cut, report.entries), report.bytes);
        Ok(())
    }

    fn compact(&self, counts: &mut Counts) -> anyhow::Result<()> {
        let mut done = Ok(());
        counts.measure(&stages::COMPACT, true, &mut || done = self.store.compact_fully());
        done.map_err(Into::into)
    }

    fn hash(&self) -> anyhow::Result<String> {
        Ok(replay::total(&compare::hash_store(&self.store, &Snapshot::pin(&self.store))?))
    }

    /// Keys of the tables whose rows are read by key.
    fn sample(&self) -> anyhow::Result<Vec<(Arc<TableDef>, Vec<u8>)>> {
        let snapshot = Snapshot::pin(&self.store);
        let mut keys = Vec::new();
        for table in snapshot.catalog().tables().filter(|table| table.name != "history") {
            let flow = self.store.scan::<()>(&snapshot, table, |row| {
                keys.push((xxh3_64(row.key), Arc::clone(table), row.key.to_vec()));
                ControlFlow::Continue(())
            })?;
            let ControlFlow::Continue(()) = flow else { break };
        }
        keys.sort_unstable_by_key(|key| (key.0, key.1.id.0));
        Ok(keys.into_iter().map(|(_, table, key)| (table, key)).collect())
    }

    fn point_reads(&self, keys: &[(Arc<TableDef>, Vec<u8>)], counts: &mut Counts) -> anyhow::Result<u64> {
        let snapshot = Snapshot::pin(&self.store);
        let keys: Vec<_> = keys.iter().map(|(table, key)| (snapshot.reader(table), table, key)).collect();
        let (mut row, mut hash, mut failed) = (RowBuf::default(), 0, None);
        counts.measure(&stages::POINT_READ, true, &mut || {
            for (reader, table, key) in keys.iter().cycle().take(POINT_READS) {
                match snapshot.get(reader, key, &mut row) {
                    Ok(true) => hash ^= xxh3_64(row.image()),
                    Ok(false) => return failed = Some(anyhow!("a row of {} is gone", table.name)),
                    Err(error) => return failed = Some(error.into()),
                }
            }
        });
        failed.map_or(Ok(hash), Err)
    }

    /// Number of rows read and a hash of them: ranges over the identifying key of ORDER_LINE, some from each part of
    /// it.
    fn range_reads(&self, counts: &mut Counts) -> anyhow::Result<(u64, u64)> {
        let snapshot = Snapshot::pin(&self.store);
        let table = snapshot.catalog().table("tpcc", "order_line").context("no order lines")?;
        let reader = snapshot.reader(table);
        let ranges: Vec<KeyRange> = (0..RANGE_READS)
            .map(|n| {
                let (warehouse, district, order) = (1i32, (n % 10) as u8 + 1, (n / 10) as i32 + 1);
                let key: [&[u8]; 3] = [&warehouse.to_le_bytes(), &[district], &order.to_le_bytes()];
                Ok(KeyRange::all().from_including(&reader.bound(ReadOrder::Identity, key.into_iter().map(Some))?))
            })
            .collect::<anyhow::Result<_>>()?;
        let (mut row, mut rows, mut hash, mut failed) = (RowBuf::default(), 0, 0, None);
        counts.measure(&stages::RANGE_READ, true, &mut || {
            for range in &ranges {
                let mut found = match snapshot.range(&reader, ReadOrder::Identity, range) {
                    Ok(found) => found,
                    Err(error) => return failed = Some(error),
                };
                if let Err(error) = read_rows(&mut found, ROWS_PER_RANGE, &mut row, &mut rows, &mut hash) {
                    return failed = Some(error);
                }
            }
        });
        failed.map_or(Ok((rows, hash)), |error| Err(error.into()))
    }

    /// As `range_reads`, for the rows of one long range after its first: what a row costs once the range is open.
    fn rows_of_a_range(&self, counts: &mut Counts) -> anyhow::Result<(u64, u64)> {
        let snapshot = Snapshot::pin(&self.store);
        let table = snapshot.catalog().table("tpcc", "order_line").context("no order lines")?;
        let reader = snapshot.reader(table);
        let mut found = snapshot.range(&reader, ReadOrder::Identity, &KeyRange::all())?;
        let (mut row, mut rows, mut hash, mut failed) = (RowBuf::default(), 0, 0, None);
        found.next_into(&mut row)?;
        counts.measure(&stages::RANGE_ROW, true, &mut || {
            failed = read_rows(&mut found, ROWS_OF_A_RANGE, &mut row, &mut rows, &mut hash).err();
        });
        failed.map_or(Ok((rows, hash)), |error| Err(error.into()))
    }
}

/// Reads up to `limit` rows of an open range; counts them and adds them to the hash.
#[inline]
fn read_rows(
    range: &mut store::Range<'_>,
    limit: usize,
    row: &mut RowBuf,
    rows: &mut u64,
    hash: &mut u64,
) -> Result<(), StoreError> {
    for _ in 0..limit {
        if !range.next_into(row)? {
            break;
        }
        *hash ^= xxh3_64(row.image()).rotate_left(*rows as u32);
        *rows += 1;
    }
    Ok(())
}
