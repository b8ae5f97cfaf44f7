//! The embedded store: rows in lanes, versions, snapshots at the watermark.
//!
//! In: row changes of one lane in log order, each with its transaction's sequence number. Out: rows at a snapshot,
//! which is always a prefix of the source's history. Never here: order between lanes (the watermark of `apply` makes
//! it), reading events, files (in this form the store is memory only and is rebuilt from the relay log).
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod arena;
mod lane;
mod snapshot;
mod table;

pub use lane::{BeforeImage, CheckImages, Lane, LaneStats, RowChange, RowError, RowErrorKind};
pub use snapshot::{Snapshot, Visibility, WatermarkState};

use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use catalog::TableId;

/// Rows a reader copies out of a lane under one hold of its lock: bounds how long replay of that lane can wait for
/// a reader (about 50 µs).
const SCAN_SLICE_SLOTS: u32 = 1024;

/// All lanes and what of them is visible.
pub struct Store {
    lanes: Box<[RwLock<Lane>]>,
    visibility: Visibility,
}

/// A row as a reader sees it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Stored key bytes; the whole image for a table without a key.
    pub key: &'a [u8],
    /// Row image: null bitmap over all columns, then values.
    pub image: &'a [u8],
    /// How many equal rows this stands for: 1 with a key, 1 or more without.
    pub count: u64,
}

impl Store {
    /// A store of `lanes` lanes, rounded up to a power of two.
    #[must_use]
    pub fn new(lanes: usize, catalog: catalog::Catalog) -> Store {
        let lanes = lanes.clamp(1, 1 << 12).next_power_of_two();
        Store {
            lanes: (0..lanes).map(|_| RwLock::new(Lane::default())).collect(),
            visibility: Visibility::new(catalog),
        }
    }

    /// Number of lanes, a power of two.
    #[must_use]
    pub fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// The lane a key hash belongs to.
    #[must_use]
    pub fn lane_of(&self, hash: u64) -> usize {
        base::lane_of(hash, self.lanes.len())
    }

    /// The lane for its one writer; held for one piece of work at a time.
    pub fn lane_mut(&self, lane: usize) -> Option<RwLockWriteGuard<'_, Lane>> {
        self.lanes.get(lane).map(|l| l.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn lane(&self, lane: usize) -> Option<RwLockReadGuard<'_, Lane>> {
        self.lanes.get(lane).map(|l| l.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is visible, and who looks.
    #[must_use]
    pub fn visibility(&self) -> &Visibility {
        &self.visibility
    }

    /// One row by its identifying key at a snapshot; None when it is not there.
    #[must_use]
    pub fn get(&self, snapshot: &Snapshot, table: TableId, key: &[u8]) -> Option<Vec<u8>> {
        let hash = base::key_hash(table.0, key);
        let lane = self.lane(self.lane_of(hash))?;
        lane.get(table, hash, key, snapshot.sequence()).map(|row| row.image.to_vec())
    }

    /// Every row of a table at a snapshot, in no order. Replay of a lane waits at most for the copying of
    /// a thousand rows; `each` runs without any lock.
    pub fn scan<B>(
        &self,
        snapshot: &Snapshot,
        table: TableId,
        mut each: impl FnMut(Row<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut copied = ScanBuffer::default();
        for lane in 0..self.lanes.len() {
            let mut next = Some(0u32);
            while let Some(from) = next {
                copied.clear();
                next = match self.lane(lane) {
                    Some(guard) => guard.copy_slots(table, snapshot.sequence(), from, SCAN_SLICE_SLOTS, &mut copied),
                    None => None,
                };
                for row in copied.rows() {
                    each(row)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Memory and counts, summed over lanes.
    #[must_use]
    pub fn stats(&self) -> LaneStats {
        let mut sum = LaneStats::default();
        for lane in 0..self.lanes.len() {
            if let Some(guard) = self.lane(lane) {
                sum.add(&guard.stats());
            }
        }
        sum
    }
}

/// Rows copied out of a lane.
#[derive(Default)]
pub(crate) struct ScanBuffer {
    bytes: Vec<u8>,
    rows: Vec<(u32, u32, u64)>,
}

impl ScanBuffer {
    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    pub(crate) fn push(&mut self, key: &[u8], image: &[u8], count: u64) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(image);
        self.rows.push((key.len() as u32, image.len() as u32, count));
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let mut rest = self.bytes.as_slice();
        self.rows.iter().map(move |&(key_len, image_len, count)| {
            let (key, tail) = rest.split_at(key_len as usize);
            let (image, tail) = tail.split_at(image_len as usize);
            rest = tail;
            // A table without a key stores its image as the key, once.
            Row { key, image: if image.is_empty() { key } else { image }, count }
        })
    }
}

/// Shared by every thread of the process.
pub type SharedStore = Arc<Store>;
