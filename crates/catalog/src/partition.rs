//! Partitioning: the PARTITION BY clause, and the partition of a row.
//!
//! In: the text after PARTITION BY; row images. Out: the partitions by name; a row's partition by position. Never here:
//! guesses. A rule that is not understood, or a value that cannot be placed, is an error once a row's partition is
//! needed.
//!
//! Rows are placed by the rule, not by the partition number in their event: rows of an initial copy have none, and
//! numbers change with every ADD, DROP and REORGANIZE PARTITION.

mod definition;
mod evaluate;
mod expression;
mod find;
mod hash;
mod parse;

pub use definition::{
    BoundValue, Given, Partition, PartitionChoice, PartitionExpression, PartitionRule, Partitioning, Subpartitions,
};
pub use find::PartitionFinder;
pub(crate) use parse::{bound_bytes, bound_in_zone, definitions, parse, settle_bounds};
