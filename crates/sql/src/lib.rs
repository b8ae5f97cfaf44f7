//! Statements of clients: parsed, bound as MySQL binds them, evaluated.
//!
//! In: the text of a statement, the session's settings, facts about the session. Out: a statement that the session
//! carries out; columns with the metadata that MySQL sends and their values; errors with MySQL's number and text. Never
//! here: rows of tables (their definitions only), sockets, an answer that was not bound. What this crate lacks is
//! refused by name (1235).
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod ast;
mod bind;
mod charsets;
mod column_names;
mod command;
mod deprecated;
mod error;
mod functions;
mod gtid_text;
mod invalid;
pub mod listing;
mod literals;
mod memory;
mod minus;
mod modes;
mod operators;
mod orders;
mod parameters;
mod parse;
pub mod passing;
mod rules;
mod settings;
pub mod table;
mod template;
mod user_variables;
mod uses;
mod variables;
mod waits;

pub use ast::{
    AccessMode, Assignment, Characteristics, Comparison, Completion, ExplainFormat, Expression, Flush, FlushOption,
    From, Isolation, Item, Limit, LockedTable, Locking, NewValue, Order, Scope, Select, Show, Statement, Target,
};
pub use bind::{Bind, Column, Field, Value, assign, describe, evaluate};
pub use charsets::{Charsets, not_kept};
pub use column_names::named_after_text;
pub use command::Command;
pub use deprecated::{deprecated_variable, set_to_default};
pub use error::{SqlError, Warning};
pub use functions::{KNOWS_UTC, reads_clock, to_protocol};
pub use gtid_text::{gtid_set, gtid_text};
pub use memory::{ClientMemory, OUT_OF_MEMORY, Part, Purse};
pub use modes::bits as sql_mode_bits;
pub use orders::{FailoverOrder, FilterRules, OptionValue, ReplicaOrder, SourceOption, ThreadOrder, UntilText, until};
pub use parameters::{ParameterType, bind_parameters, parameter_types};
pub use parse::{Next, Parsed, SERVER_VERSION, Unparsed, parse, parse_within, trimmed};
pub use settings::{ReadConsistency, Settings, Tracked, TrackedGtids, TrackedTransaction, Typed, checked_first_value};
pub use template::{TEMPLATE_BYTES_MAX, Template, template_key};
pub use user_variables::UserVariables;
pub use uses::{Mark, marked};

pub use variables::{OwnValues, Variable, variables};
pub use waits::{Ended, Evaluated, Evaluation, Event, Interrupt, Wait, Waits};

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, SqlError>;
