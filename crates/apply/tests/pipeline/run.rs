//! Runs a history through the pipeline and compares everything visible with the serial model.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::{Duration, Instant};

use apply::{ApplyOptions, Finished, LogSource, Pipeline, PipelineOptions, lanes_for};
use base::GtidSet;
use binlog::{ChecksumAlgorithm, EventHeader, FormatDescription, TransactionPayload, event_body, event_type};
use catalog::Catalog;
use decode::{SkipList, SplitOptions};
use observe::LedgerSnapshot;
use relay_log::{Chunk, TailItem};
use store::{CheckImages, Recovered, Snapshot, Store};

use crate::kit::{History, Random, State, row_digest};

/// Settings of a run.
pub struct Setup {
    pub workers: usize,
    pub decoders: usize,
    pub memory_bytes: u64,
    pub sizes: SplitOptions,
    pub skip: GtidSet,
    pub executed: GtidSet,
    pub check: CheckImages,
}

impl Setup {
    pub fn random(random: &mut Random) -> Setup {
        let piece_bytes = [1, 300, 2_000, 256 << 10][random.below(4)];
        // With room for one piece at a time, every hand-over waits.
        let smallest = if piece_bytes > 1_000 { 1 } else { 10_000 };
        Setup {
            workers: 1 + random.below(8),
            decoders: 1 + random.below(4),
            memory_bytes: [smallest, 20_000, 64 << 20][random.below(3)],
            sizes: SplitOptions { piece_bytes, slice_bytes: [200, 2_000, 16 << 20][random.below(3)] },
            skip: GtidSet::new(),
            executed: GtidSet::new(),
            check: CheckImages::All,
        }
    }

    pub fn store(&self) -> Arc<Store> {
        let start = Recovered {
            consistent_at: None,
            sequence: 0,
            executed: self.executed.clone(),
            catalog: Catalog::new(0),
            position: None,
            rows: BTreeMap::new(),
            ledger: String::new(),
            prepared: base::PreparedSet::default(),
        };
        Arc::new(Store::behind(lanes_for(self.workers), start))
    }

    pub fn start(&self, source: LogSource) -> Pipeline {
        Pipeline::start_with(source, self.options(), self.sizes)
    }

    pub fn options(&self) -> PipelineOptions {
        PipelineOptions {
            quarantine: false,
            filters: Arc::default(),
            decoders: self.decoders,
            workers: self.workers,
            memory_bytes: self.memory_bytes,
            apply: ApplyOptions { check_images: self.check },
            skip: SkipList::new(self.skip.clone()),
            store: self.store(),
            cuts: None,
            clock_difference_us: Arc::new(AtomicI64::new(0)),
            affinity: base::ThreadAffinity::default(),
        }
    }
}

/// Returns files in chunks cut anywhere.
pub fn chunks(files: Vec<(String, Vec<u8>)>, random: &mut Random) -> Vec<TailItem> {
    let mut items = Vec::new();
    for (number, (name, bytes)) in files.into_iter().enumerate() {
        let name: Arc<str> = name.into();
        let most = [7, 300, 5_000, usize::MAX][random.below(4)];
        let mut at = 0;
        while at < bytes.len() {
            let len = (1 + random.below(most)).min(bytes.len() - at);
            items.push(TailItem::Chunk(Chunk {
                file_number: number as u64 + 1,
                file: Arc::clone(&name),
                offset: 4 + at as u64,
                data: Arc::new(bytes[at..at + len].to_vec().into()),
                hot: false,
            }));
            if random.one_in(50) {
                items.push(TailItem::Idle);
            }
            at += len;
        }
        items.push(TailItem::EndOfFile { file_number: number as u64 + 1, len: 4 + bytes.len() as u64 });
    }
    items
}

/// A source that closes after its items.
pub fn closing(items: Vec<TailItem>) -> LogSource {
    let mut items = items.into_iter();
    Box::new(move |_| Ok(items.next().unwrap_or(TailItem::Closed)))
}

/// A source that is idle after its items, like a live one.
pub fn quiet(items: Vec<TailItem>) -> LogSource {
    let mut items = items.into_iter();
    Box::new(move |timeout| {
        Ok(items.next().unwrap_or_else(|| {
            std::thread::sleep(timeout.min(Duration::from_millis(5)));
            TailItem::Idle
        }))
    })
}

/// Digest and tables that a snapshot sees.
pub fn seen(store: &Arc<Store>, snapshot: &Snapshot) -> (u64, Vec<String>) {
    let (mut digest, mut tables) = (0u64, Vec::new());
    for def in snapshot.catalog().tables() {
        let name = format!("{}.{}", def.db, def.name);
        let columns = def.columns.len();
        let flow = store.scan::<()>(snapshot, def, |row| {
            let mut image = row.image.to_vec();
            if columns % 8 != 0 {
                image[columns / 8] &= !(0xff << (columns % 8));
            }
            digest = digest.wrapping_add(row_digest(&name, &image, row.count));
            ControlFlow::Continue(())
        });
        let _ = flow.unwrap();
        tables.push(name);
    }
    tables.sort();
    (digest, tables)
}

/// Compares the watermark with the model; returns the transaction's number.
pub fn check_watermark(store: &Arc<Store>, states: &[State]) -> Result<usize, String> {
    let snapshot = Snapshot::pin(store);
    let at = snapshot.sequence() as usize;
    let Some(state) = states.get(at) else { return Err(format!("watermark {at} of {}", states.len())) };
    if *snapshot.executed() != state.executed {
        return Err(format!("at {at}: executed {} instead of {}", snapshot.executed(), state.executed));
    }
    let (digest, tables) = seen(store, &snapshot);
    if tables != state.tables {
        return Err(format!("at {at}: tables {tables:?} instead of {:?}", state.tables));
    }
    if digest != state.digest {
        return Err(format!("at {at}: digest {digest:x} instead of {:x}", state.digest));
    }
    Ok(at)
}

/// Runs to the end, checking the watermark throughout. There must be one state per transaction.
pub fn follow(pipeline: Pipeline, states: &[State]) -> Result<(Finished, usize, Outcome), String> {
    let store = Arc::clone(&pipeline.store);
    let ledger = Arc::clone(&pipeline.ledger);
    let deadline = Instant::now() + Duration::from_secs(60);
    // Some snapshots stay open while replay continues.
    let mut pinned: Vec<(Snapshot, usize)> = Vec::new();
    let mut samples = 0;
    while !pipeline.is_finished() {
        if Instant::now() > deadline {
            return Err(format!("hangs; visible {:?}", store.visibility().watermark()));
        }
        let at = check_watermark(&store, states)?;
        // Leaves the cores to replay.
        std::thread::sleep(Duration::from_micros(300));
        samples += 1;
        if samples % 7 == 0 {
            let snapshot = Snapshot::pin(&store);
            let at = at.max(snapshot.sequence() as usize);
            pinned.push((snapshot, at));
        }
        if pinned.len() > 3 {
            let (old, at) = pinned.remove(0);
            let (digest, _) = seen(&store, &old);
            if digest != states[at].digest {
                return Err(format!("a snapshot pinned at {at} changed"));
            }
        }
    }
    let finished = pipeline.join();
    for (old, at) in pinned {
        if seen(&store, &old).0 != states[at].digest {
            return Err(format!("a snapshot pinned at {at} changed"));
        }
    }
    let at = check_watermark(&store, states)?;
    Ok((finished, at, Outcome { ledger: ledger.snapshot(event_type::name) }))
}

/// Seeds that a test tries; `SLIPSTREAM_SEEDS` multiplies their number for a long run.
pub fn seeds(few: u64) -> std::ops::Range<u64> {
    let times = std::env::var("SLIPSTREAM_SEEDS").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(1);
    0..few * times
}

/// State after replay ended.
pub struct Outcome {
    pub ledger: LedgerSnapshot,
}

/// Number of events by type, including those inside payloads.
pub fn count_events(files: &[(String, Vec<u8>)]) -> BTreeMap<u8, u64> {
    let mut counts = BTreeMap::new();
    for (_, bytes) in files {
        let mut checksum = ChecksumAlgorithm::None;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let header = EventHeader::parse(rest).unwrap();
            let (event, tail) = rest.split_at(header.event_len as usize);
            rest = tail;
            *counts.entry(header.event_type).or_insert(0) += 1;
            match header.event_type {
                event_type::FORMAT_DESCRIPTION => checksum = FormatDescription::parse(event).unwrap().checksum,
                event_type::TRANSACTION_PAYLOAD => {
                    let body = event_body(event, checksum).unwrap();
                    let mut events = TransactionPayload::parse(body).unwrap().events(1 << 30).unwrap();
                    while let Some((inner, _)) = events.next().unwrap() {
                        *counts.entry(inner.event_type).or_insert(0) += 1;
                    }
                }
                _ => {}
            }
        }
    }
    counts
}

/// Checks that the ledger balances and saw exactly these events.
pub fn check_ledger(ledger: &LedgerSnapshot, expected: &BTreeMap<u8, u64>) -> Result<(), String> {
    if let Some(row) = ledger.unbalanced().next() {
        return Err(format!("the ledger does not add up: {row:?}"));
    }
    let seen: BTreeMap<u8, u64> = ledger.rows.iter().map(|row| (row.event_type, row.counts.seen)).collect();
    if seen != *expected {
        return Err(format!("the ledger saw {seen:?}, the log holds {expected:?}"));
    }
    Ok(())
}

/// The whole check of one history.
pub fn check(history: &History, setup: &Setup, random: &mut Random) -> Result<Outcome, String> {
    check_with(history, random, |source| setup.start(source))
}

/// Like [`check`], with any pipeline.
pub fn check_with(
    history: &History,
    random: &mut Random,
    start: impl FnOnce(LogSource) -> Pipeline,
) -> Result<Outcome, String> {
    let files = history.files();
    let expected = count_events(&files);
    let pipeline = start(closing(chunks(files, random)));
    let gate = Arc::clone(&pipeline.gate);
    let (finished, at, outcome) = follow(pipeline, &history.states)?;
    if let Some(stop) = finished.stop {
        return Err(format!("stopped: {stop}"));
    }
    if at + 1 != history.states.len() {
        return Err(format!("ended at {at} of {}", history.states.len() - 1));
    }
    if gate.used() != 0 {
        return Err(format!("{} bytes are still held", gate.used()));
    }
    check_ledger(&outcome.ledger, &expected)?;
    Ok(outcome)
}
