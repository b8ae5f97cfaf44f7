//! The replica's rows seen from outside: as text or SQL, and compared with a server.
//!
//! In: a pinned snapshot of our store, connections to MySQL-protocol servers. Out: a dump; per table the counts and
//! checksums of both sides, and the rows that differ. Never here: a change of any row; a table silently left out. What
//! cannot be compared counts as different; what cannot be printed is an error that names the column.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod buckets;
mod client_split;
mod definitions;
mod dump;
mod dump_parts;
mod error;
mod hash;
mod order;
mod report;
mod row_source;
mod rows;
mod rows_in_order;
mod schema;
mod shape;
mod snapshot_lock;
mod verify;

pub use buckets::{Cell, Checksums};
pub use definitions::{DefinitionsReport, dump_definitions};
pub use dump::{Compression, DumpFormat, DumpOptions, DumpReport, dump};
pub use dump_parts::{DumpContents, DumpedFile, MANIFEST, PartEvent, PartStream, dump_parts};
pub use error::{CompareError, ErrorClass};
pub use hash::{TableHash, hash_server, hash_store};
pub use report::{ColumnDifference, RowDifference, SideTotals, TableReport, VerifyReport};
pub use row_source::{RowSource, ServerRows, StoreRows, table_checksum};
pub use rows::compare_rows;
pub use shape::Shape;
pub use source::TableFilter;
pub use verify::{Engine, VerifyOptions, verify_servers, verify_store};
