//! Split, decode, sequence: turns relay log bytes into ordered pieces of row changes, one list per lane.
//!
//! In: chunks of the relay log. Out: pieces in source order, each with its transactions' sequence numbers and the
//! changes of every lane; `trackers` determines which transaction each one must wait for. Never here: stored rows,
//! threads (drivers give these structs threads and queues), a wait for a dependency between transactions. Invariants:
//! one thread assigns each sequence number once, in source order; every row is decoded under the table definition
//! that is valid at its place in the log.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, clippy::cast_sign_loss))]

mod boundaries;
mod decode;
mod facts_decoder;
mod follow;
mod memory;
mod piece;
mod plan;
mod rewrite;
mod row_view;
mod rows;
mod sequence;
mod skip;
mod split;
mod stop;
pub mod trackers;
mod twice;
mod work;
mod writes;

pub use boundaries::Beginning;
pub use decode::{DecodeOptions, Decoder};
pub use facts_decoder::{DecodePiece, FactsDecoder};
pub use follow::{FollowEnd, TableFollower};
pub use memory::{MemoryGate, Reservation};
pub use piece::{
    BEFORE_CHECKED, BEFORE_UNCHECKED, Begun, CASCADE_GONE, CASCADE_NEW, CASCADE_OLD, CASCADES_LOGGED, DecodedPiece,
    LAST_OF_EVENT, LOGGED_TWICE, OpKind, Piece, PieceKind, RowOp, Shape, SkipReason, Span, SpareBuffers, Transaction,
    TransactionKind,
};
pub use plan::TablePlan;
pub use rewrite::{NotRewritten, Rewriter};
pub use row_view::RowView;
pub use sequence::{NamedStatement, SequencedPiece, Sequencer, SharedCatalog};
pub use skip::{SkipList, Skipped};
pub use split::{SplitOptions, Splitter};
pub use stop::{START_ANEW, START_SQL, Stop, StopClass};
pub use twice::{ReadAt, Unproved, written};
pub use writes::StatementWrites;
