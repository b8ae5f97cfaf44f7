//! MySQL's values as bytes.
//!
//! In: column types, and stored bytes as row images carry them. Out: where rows and columns end; values as the text and
//! SQL that a client of the server sees; images built from result rows; sort keys in MySQL's order. Never here: I/O,
//! table names, DDL literals (catalog), a panic on outside bytes, a guessed value. What is not implemented is
//! `ValueError::Unsupported`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)
)]

pub mod binary_protocol;
pub mod charset;
mod charset_data;
mod charset_table;
pub mod collation;
mod collation_data;
mod column_type;
pub mod constant;
pub mod convert;
mod convert_json;
mod convert_parse;
mod convert_text;
mod decimal;
mod error;
mod float;
pub use float::text_of_f64;
pub mod json;
pub mod json_diff;
mod json_tree;
mod layout;
pub mod sort_key;
mod temporal;
pub mod text;
mod typed;
mod weight_table;
mod weights;
mod zone;

pub use collation::Collation;
pub use column_type::{ColumnType, type_code};
pub use error::ValueError;
pub use layout::{OFFSET_ABSENT, OFFSET_NULL, RowLayout};
pub use typed::{DateTimeValue, DateValue, DecimalValue, RowView, TimeValue, TypedValue};
pub use weights::{like_weight, weight_string};
pub use zone::{Changes, UtcMoment, Zone, Zones};
