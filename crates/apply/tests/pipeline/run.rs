//! Runs a history through the pipeline and compares everything visible with the serial model.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apply::{ApplyOptions, Finished, LogSource, Pipeline, PipelineOptions, lanes_for};
use base::{GtidSet, Random};
use binlog::{ChecksumAlgorithm, event_type};
use catalog::Catalog;
use decode::{SkipList, SplitOptions};
use observe::LedgerSnapshot;
use relay_log::{Chunk, TailItem};
use store::{CheckImages, Recovered, Snapshot, Store};
use testkit::history::{History, State};
use testkit::log;
use testkit::visible::{self, Seen};

/// Settings of a run.
pub(crate) struct Setup {
    pub workers: usize,
    pub decoders: usize,
    pub memory_bytes: u64,
    pub sizes: SplitOptions,
    pub skip: GtidSet,
    pub executed: GtidSet,
    pub check: CheckImages,
}

impl Setup {
    pub(crate) fn random(random: &mut Random) -> Setup {
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

    pub(crate) fn store(&self) -> Arc<Store> {
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

    pub(crate) fn start(&self, source: LogSource) -> Pipeline {
        Pipeline::start_with(source, self.options(), self.sizes)
    }

    pub(crate) fn options(&self) -> PipelineOptions {
        PipelineOptions {
            quarantine: false,
            copies_missing: false,
            filters: Arc::default(),
            decoders: self.decoders,
            workers: self.workers,
            memory_bytes: self.memory_bytes,
            apply: ApplyOptions { check_images: self.check, ..ApplyOptions::default() },
            skip: SkipList::new(self.skip.clone()),
            store: self.store(),
            cuts: None,
            source_clock: Arc::default(),
            lag_by_part: Arc::default(),
            affinity: base::ThreadAffinity::default(),
        }
    }
}

/// Returns files in chunks cut anywhere.
pub(crate) fn chunks(files: Vec<(String, Vec<u8>)>, random: &mut Random) -> Vec<TailItem> {
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
pub(crate) fn closing(items: Vec<TailItem>) -> LogSource {
    let mut items = items.into_iter();
    Box::new(move |_| Ok(items.next().unwrap_or(TailItem::Closed)))
}

/// A source that is idle after its items, like a live one.
pub(crate) fn quiet(items: Vec<TailItem>) -> LogSource {
    let mut items = items.into_iter();
    Box::new(move |timeout| {
        Ok(items.next().unwrap_or_else(|| {
            std::thread::sleep(timeout.min(Duration::from_millis(5)));
            TailItem::Idle
        }))
    })
}

/// Compares the watermark with the model; returns the transaction's number.
pub(crate) fn check_watermark(store: &Arc<Store>, states: &[State]) -> Result<usize, String> {
    match visible::compare(store, &Snapshot::pin(store), states)? {
        Seen::Equal(at) => Ok(at),
        Seen::Unreadable => Err("the store cannot be read".to_owned()),
    }
}

/// Compares a snapshot with the state at which it was pinned.
fn check_pinned(store: &Arc<Store>, (snapshot, at): &(Snapshot, usize), states: &[State]) -> Result<(), String> {
    let (digest, _) = visible::digest(store, snapshot).map_err(|error| error.to_string())?;
    if digest == states[*at].digest { Ok(()) } else { Err(format!("a snapshot pinned at {at} changed")) }
}

/// Runs to the end, checking the watermark throughout. There must be one state per transaction.
pub(crate) fn follow(pipeline: Pipeline, states: &[State]) -> Result<(Finished, usize, Outcome), String> {
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
            check_pinned(&store, &pinned.remove(0), states)?;
        }
    }
    let finished = pipeline.join();
    pinned.iter().try_for_each(|pinned| check_pinned(&store, pinned, states))?;
    let at = check_watermark(&store, states)?;
    Ok((finished, at, Outcome { ledger: ledger.snapshot(event_type::name) }))
}

/// State after replay ended.
pub(crate) struct Outcome {
    pub ledger: LedgerSnapshot,
}

/// Number of events by type, including those inside payloads.
pub(crate) fn count_events(files: &[(String, Vec<u8>)]) -> BTreeMap<u8, u64> {
    let mut counts = BTreeMap::new();
    files.iter().for_each(|(_, bytes)| log::count_events(bytes, ChecksumAlgorithm::None, &mut counts));
    counts
}

/// Checks that the ledger balances and saw exactly these events.
pub(crate) fn check_ledger(ledger: &LedgerSnapshot, expected: &BTreeMap<u8, u64>) -> Result<(), String> {
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
pub(crate) fn check(history: &History, setup: &Setup, random: &mut Random) -> Result<Outcome, String> {
    check_with(history, random, |source| setup.start(source))
}

/// Like [`check`], with any pipeline.
pub(crate) fn check_with(
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
