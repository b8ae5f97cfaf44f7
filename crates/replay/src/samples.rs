//! Samples memory and progress of a running replay every 100 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use apply::Pipeline;
use observe::ProcessFacts;
use serde::Serialize;

/// Interval between two samples.
const APART: Duration = Duration::from_millis(100);

/// State at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Milliseconds since the phase began.
    pub at_ms: u64,
    /// Resident memory of the process, bytes.
    pub rss_bytes: u64,
    /// Bytes in flight between split and publish.
    pub queue_bytes: u64,
    /// Number of visible transactions.
    pub transactions: u64,
    /// Row changes applied by the workers, visible or not.
    pub rows_applied: u64,
    /// Lag of the transaction that became visible last, plus the time since then, µs.
    pub behind_us: u64,
    /// True while a generation is being cut and the next one is full.
    pub waits_for_cut: bool,
    /// True while the tree has too many runs for another cut.
    pub waits_for_compaction: bool,
    /// Sorted runs in level 0.
    pub l0_runs: u64,
    /// Bytes above the last level of the tree.
    pub debt_bytes: u64,
    /// Runs that hold those bytes.
    pub debt_runs: u64,
    /// Compaction steps since start.
    pub compactions: u64,
}

/// Handle of the thread `sample`.
pub(crate) struct Sampler {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Sampler {
    /// Starts the thread.
    ///
    /// # Errors
    /// No more threads can be started.
    pub(crate) fn start(pipeline: &Pipeline) -> std::io::Result<Sampler> {
        let (ended, started) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let (gate, rates) = (Arc::clone(&pipeline.gate), Arc::clone(&pipeline.rates));
        let (over, by_worker) = (Arc::clone(&ended), pipeline.rows_by_worker.clone());
        let (lag, store) = (Arc::clone(&pipeline.lag), Arc::clone(&pipeline.store));
        let cuts = pipeline.cut_state();
        let look = move || {
            let (disk, wait) = (store.disk().map(|disk| disk.stats()).unwrap_or_default(), cuts.wait());
            Sample {
                at_ms: started.elapsed().as_millis() as u64,
                rss_bytes: ProcessFacts::read().rss_bytes,
                queue_bytes: gate.used(),
                transactions: rates.total().transactions,
                rows_applied: by_worker.iter().map(|rows| rows.load(Ordering::Relaxed)).sum(),
                behind_us: lag.last().map_or(0, |(lag, at)| lag + observe::now_us().saturating_sub(at)),
                waits_for_cut: wait == apply::CutWait::Cut,
                waits_for_compaction: wait == apply::CutWait::Compaction,
                l0_runs: disk.l0_runs,
                debt_bytes: disk.debt_bytes,
                debt_runs: disk.debt_runs,
                compactions: disk.compactions,
            }
        };
        let thread = std::thread::Builder::new().name("sample".into()).spawn(move || {
            let mut samples = vec![look()];
            while !over.load(Ordering::Relaxed) {
                std::thread::park_timeout(APART);
                samples.push(look());
            }
            samples
        })?;
        Ok(Sampler { ended, thread })
    }

    /// Takes a last sample and ends the thread.
    pub(crate) fn finish(self) -> Vec<Sample> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}
