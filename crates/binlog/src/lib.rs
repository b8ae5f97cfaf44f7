//! MySQL's binary log as bytes: framing, checksums, every event type, row ranges, payload decompression; reading and
//! writing files.
//!
//! In: bytes of a binlog or relay log file, or of single events as a source sent them. Out: small values that borrow
//! from those bytes (a header, a Gtid, a Query with its status, a table map, the byte range of a rows event), or the
//! bytes of events we write ourselves. Never here: column values (crate `values`), network, threads, a panic on any
//! input, an allocation sized by an unchecked length. Field layouts follow binlog_event.h, control_events.h,
//! statement_events.h and rows_event.h of MySQL 9.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)
)]

mod control;
mod cursor;
mod encode;
mod error;
pub mod event_type;
mod format_description;
mod framer;
mod gtid_event;
mod header;
mod load_data;
mod optional_metadata;
mod parsed;
mod payload;
mod query;
mod query_kind;
pub mod reader;
mod restamp;
mod rows;
mod serialization;
mod table_map;
mod variables;
pub mod writer;
mod xa;

pub use control::{Heartbeat, HeartbeatV2, Incident, PreviousGtids, Rotate, RowsQuery, Xid};
pub use error::{BinlogError, ErrorClass};
pub use format_description::FormatDescription;
pub use gtid_event::GtidEvent;
pub use header::{CHECKSUM_LEN, ChecksumAlgorithm, EventHeader, check_event_type, event_body, flags, verify_checksum};
pub use load_data::{BeginLoadQuery, ExecuteLoadQuery};
pub use optional_metadata::{ColumnDetails, KeyPart, OptionalMetadata, PackedStrings, StringLists};
pub use parsed::ParsedEvent;
pub use payload::{Compression, PayloadDecompressor, PayloadEvents, PayloadHead, TransactionPayload};
pub use query::{AutoIncrement, Invoker, QueryEvent, QueryStatus, UpdatedDatabases, status_code};
pub use query_kind::QueryKind;
pub use restamp::restamped;
pub use rows::{PartialUpdateImage, RowsEvent, RowsKind, row_flags};
pub use table_map::{ColumnTypes, TableMapEvent};
pub use variables::{Intvar, IntvarKind, Rand, UserVar, UserVarValue};
pub use xa::{XaPrepare, XaXid};
