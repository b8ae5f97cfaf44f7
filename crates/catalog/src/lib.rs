//! Versioned catalog: the definition of every table at each place in the log.
//!
//! In: DDL statements as Query events carry them, each with its context, in log order. Out: immutable snapshots
//! ([`Catalog`]) with table definitions, whose column types are those of the source's Table_map events, and with row
//! identities (invariant 4); and the effect of each statement ([`DdlEffect`]). Never here: rows, I/O, guesses. A
//! statement that is not fully understood is refused with the reason. Text from the log is hostile: it may be
//! truncated, deeply nested or not text at all.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod account;
mod alter;
mod charset;
mod column_type;
mod context;
mod create;
mod declared;
mod default_value;
mod engine;
mod error;
mod expression;
mod filters;
mod generated;
mod identity;
mod index_set;
mod key_order;
mod layout;
pub mod lexer;
mod mask;
mod named;
mod numbering;
mod parser;
mod partition;
mod row_key;
mod server_text;
mod shown;
mod statement;
mod stored_objects;
mod syntax;
mod table;
mod table_build;
mod targets;
mod type_syntax;
mod versioned;

use ::syntax::client_text;
pub use ::syntax::sql_mode;

pub use context::{SourceNames, StatementContext};
pub use declared::{Check, DeclaredColumn, DeclaredKey, DeclaredPart, DeclaredTable, Options};
pub use engine::{Engine, EngineRows, InsertMethod, Merge};
pub use error::DdlError;
pub use filters::ReplicationFilters;
pub use index_set::{Index, IndexSet, NotKept, remembered as remembered_sort_key};
pub use key_order::KeyOrder;
pub use layout::{ColumnSource, ConversionBuffers, OlderLayout, RowConversion, RowVersions};
pub use mask::masked;
pub use named::{Named, NamedTable};
pub use numbering::{Numbering, RowNumbers, Series};
pub use partition::{
    BoundValue, Given, Partition, PartitionChoice, PartitionExpression, PartitionFinder, PartitionRule, Partitioning,
    Subpartitions,
};
pub use row_key::{KeyPlace, RowKey, builds_whole_images};
pub use server_text::statement_text;
pub use shown::{
    NotKnown, ShownDefault, ShownPartition, ShownPartitions, SourceZones, column_type, data_type, fraction, members,
    now as shown_now, quoted as shown_text, show_create_database, show_create_table, show_create_table_in,
    shown_default, shown_partitions,
};
pub use stored_objects::{Answer, Definition, DefinitionKind, Later, Older, Recorded, Unsettled};
pub use table::{
    Column, ColumnDefault, ForeignKey, GeneratedKind, Identity, IndexKind, Key, KeyPart, NumberDisplay, OmittedValue,
    ReferenceAction, TableDef, TableId, expected_table_map,
};
pub use versioned::{
    Catalog, CatalogHead, DdlEffect, DdlOutcome, Filtered, Found, LetIn, MISSING, Part, Quarantined, Rewrite, Written,
};
