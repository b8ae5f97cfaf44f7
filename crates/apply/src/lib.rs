//! Apply and publish: write rows into lanes, then move one watermark forward.
//!
//! In: sequenced pieces. Out: rows in the store, visible as prefixes of the source's history. Never here: a row at or
//! below the watermark that cannot be read; a row above it that can; a piece that delays a later one other than
//! through its own lanes and through barriers, which are counted.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, clippy::cast_sign_loss))]

mod beside;
mod cascade;
mod copy_track;
mod cutter;
pub mod front;
mod in_flight;
mod lanes;
mod logged_twice;
mod pause;
mod pipeline;
mod publish;
mod rewrite;
mod shutdown;
mod space_wait;
pub mod stages;
mod statement_rows;
mod stop;
mod sync;
mod target;
mod threads;
pub mod transactions;
mod watermark;
mod worker;

pub use beside::{Boundary, Refused, TableCopier};
pub use copy_track::CopyTrack;
pub use cutter::{AfterCut, CutOptions, CutState, CutWait, SyncRelay};
pub use front::{Front, FrontOptions, LogSource};
pub use logged_twice::{LoggedTwice, TwiceNote};
pub use pipeline::{Finished, Pipeline, PipelineOptions, lanes_for};
pub use publish::{Publisher, PublisherStatus};
pub use rewrite::RewriteProgress;
pub use threads::{StageTime, Threads};
pub use watermark::Watermark;
pub use worker::ApplyOptions;
