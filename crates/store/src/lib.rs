//! The embedded store: rows in lanes, versions, snapshots at the watermark, one tree on disk below.
//!
//! In: row changes of one lane in log order, each with its transaction's sequence number; cuts at transaction
//! boundaries. Out: rows at a snapshot, which is always a prefix of the source's history. Never here: ordering between
//! lanes (the watermark of `apply` provides it), reading events, a log (the relay log is the only one).
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "tests"
    )
)]

mod arena;
mod ascending;
mod backup;
mod bulk_load;
mod compaction;
mod cut;
mod cut_record;
mod damage;
mod delta;
mod disk;
mod disk_space;
mod drift;
mod error;
mod executed;
mod expectation;
mod file_check;
mod gtid_waiters;
mod hold;
mod image_check;
mod index_before;
mod index_build;
mod index_check;
mod index_entries;
mod index_state;
mod key_codec;
mod lane;
mod layers;
mod point;
mod published;
mod range;
mod read_state;
mod reader;
mod row_change;
mod row_state;
mod scan;
mod scan_buffer;
mod snapshot;
mod sorted_slices;
mod store;
mod sync;
mod synced_list;
mod table_changes;
mod table_shape;
mod tree_blocks;
mod tree_cursor;
mod tree_files;
mod tree_range;
mod tree_view;
mod version_chain;
mod waits;

pub use backup::{ChosenStep, TableFileCopy, TreeCopy};
pub use bulk_load::CopyWriter;
pub use compaction::policy::{L0_RUNS_MAX, MERGE_RUNS};
pub use cut::CutReport;
pub use cut_record::Recovered;
pub use damage::{DamagedFile, DamagedRecords};
pub use disk::{Closing, Disk, DiskOptions, DiskStats, LevelStats};
pub use disk_space::{DiskSpace, FreeSpace};
pub use drift::{DriftKind, DriftedRow, TableDrift, row_text};
pub use error::StoreError;
pub use executed::NewGtids;
pub use file_check::FileCheck;
pub use hold::WatermarkHold;
pub use index_check::IndexCheck;
pub use lane::{Lane, LaneStats, RowTarget, WARM_ROWS, WriteContext};
pub use layers::{CutPoint, Generation, LaneGuard, Layers};
pub use point::RowBuf;
pub use range::{OwnedRow, Range};
pub use read_state::ReadState;
pub use reader::{KeyRange, ReadOrder, TableReader};
pub use row_change::{BeforeImage, CheckImages, RowChange, RowError, RowErrorKind, merge_json};
pub use scan::{RowBatch, Scan};
pub use snapshot::{ExecutedWait, PinnedLayers, Snapshot, SnapshotLimits, Visibility, WatermarkState};
pub use store::{Row, Store, StoreStats};
pub use table_changes::TableChanges;
pub use table_shape::{OwnedShape, TableShape};
pub use tree_files::renew_current;
pub use waits::WaitStats;

/// Converts a length or count to the 32 bits it is stored in.
///
/// # Panics
/// When it does not fit, which cannot happen: rows come in events, whose length has 32 bits.
#[inline]
pub(crate) fn short(len: usize) -> u32 {
    match u32::try_from(len) {
        Ok(len) => len,
        Err(_) => panic!("{len} is too much for a field of 32 bits"),
    }
}
