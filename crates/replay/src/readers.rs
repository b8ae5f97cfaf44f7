//! Readers beside replay: what they read, and how long both sides waited for lanes.
//!
//! In: a store that is being replayed into, keys to read. Out: [`ReadersReport`]. Never here: a check of what is read
//! (`compare` and the store's tests do that); a row above the snapshot that reads it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use base::Random;
use store::{RowBatch, RowBuf, Snapshot, Store, StoreError, WaitStats};

use super::reads::{Sample, bounds};
use super::report::{ReadersReport, WaitReport};

const KEYS_PER_SNAPSHOT: usize = 100;
const RANGES_PER_SNAPSHOT: usize = 10;
const ROWS_PER_RANGE: usize = 10;
const SEED: u64 = 0x5ead_0e25;

/// Threads that read until they are ended.
pub(crate) struct Readers {
    store: Arc<Store>,
    threads: Vec<JoinHandle<anyhow::Result<Counts>>>,
    ended: Arc<AtomicBool>,
    started: Instant,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    keys: u64,
    ranges: u64,
    batches: u64,
    given_up: u64,
}

impl Readers {
    /// Starts `threads` readers, each of which takes one snapshot after another.
    ///
    /// # Errors
    /// There is nothing to read yet; a thread cannot be started.
    pub(crate) fn start(store: &Arc<Store>, sample: Sample, threads: usize) -> anyhow::Result<Readers> {
        anyhow::ensure!(!sample.is_empty(), "--readers reads rows of --load, and there are none");
        let (ended, sample) = (Arc::new(AtomicBool::new(false)), Arc::new(sample));
        let one = |number: usize| {
            let (store, sample, ended) = (Arc::clone(store), Arc::clone(&sample), Arc::clone(&ended));
            let thread = std::thread::Builder::new().name(format!("reader-{number}"));
            Ok(thread.spawn(move || read(&store, &sample, number, &ended))?)
        };
        let threads = (0..threads).map(one).collect::<anyhow::Result<_>>()?;
        Ok(Readers { store: Arc::clone(store), threads, ended, started: Instant::now() })
    }

    /// Ends them.
    ///
    /// # Errors
    /// One of them could not read.
    pub(crate) fn finish(self) -> anyhow::Result<ReadersReport> {
        self.ended.store(true, Ordering::Relaxed);
        let seconds = self.started.elapsed().as_secs_f64();
        let (mut sum, threads) = (Counts::default(), self.threads.len());
        for thread in self.threads {
            let read = thread.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;
            sum.keys += read.keys;
            sum.ranges += read.ranges;
            sum.batches += read.batches;
            sum.given_up += read.given_up;
        }
        let (readers, writers) = self.store.lane_waits();
        Ok(ReadersReport {
            threads,
            key_reads_per_s: sum.keys as f64 / seconds,
            ranges_per_s: sum.ranges as f64 / seconds,
            batches_per_s: sum.batches as f64 / seconds,
            snapshots_given_up: sum.given_up,
            reader_waits: of(readers),
            writer_waits: of(writers),
        })
    }
}

fn of(waits: WaitStats) -> WaitReport {
    let us = |ns: u64| ns as f64 / 1e3;
    WaitReport { count: waits.count, p50_us: us(waits.p50_ns), p99_us: us(waits.p99_ns), max_us: us(waits.max_ns) }
}

fn read(store: &Arc<Store>, sample: &Sample, number: usize, ended: &AtomicBool) -> anyhow::Result<Counts> {
    let mut random = Random::new(SEED + number as u64);
    let bounds = bounds(store, &Snapshot::pin(store), sample)?;
    let (mut counts, mut row, mut batch) = (Counts::default(), RowBuf::default(), RowBatch::default());
    while !ended.load(Ordering::Relaxed) {
        let snapshot = Snapshot::pin(store);
        let done = (|| -> Result<(), StoreError> {
            for _ in 0..KEYS_PER_SNAPSHOT {
                let (table, key) = sample.at(random.below(sample.len()));
                snapshot.get(&snapshot.reader(table), key, &mut row)?;
                counts.keys += 1;
            }
            for _ in 0..RANGES_PER_SNAPSHOT.min(bounds.len()) {
                let Some((reader, order, from)) = bounds.get(random.below(bounds.len())) else { continue };
                let mut range = snapshot.range(reader, *order, from)?;
                let mut rows = 0;
                while rows < ROWS_PER_RANGE && range.next_into(&mut row)? {
                    rows += 1;
                }
                counts.ranges += 1;
            }
            let (table, _) = sample.at(random.below(sample.len()));
            snapshot.scan(&snapshot.reader(table), &[0]).next_batch(&mut batch)?;
            counts.batches += 1;
            Ok(())
        })();
        match done {
            Ok(()) => {}
            Err(StoreError::SnapshotTooOld) => counts.given_up += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(counts)
}
