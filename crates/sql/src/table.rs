//! SELECT from one table, bound to the table's definition.
//!
//! In: a parsed statement, the catalog of the snapshot that is read. Out: a [`Plan`]: columns with MySQL's metadata, what
//! a row must fulfil, orders and bounds in which rows can be read. Never here: rows, the choice among orders by what is
//! ready, an account's rights.

mod condition;
mod cut;
mod cut_temporal;
mod field;
mod like;
mod name;
mod order;
mod parameter;
mod path;
mod plan;
mod zone;

#[cfg(test)]
mod tests;

pub use condition::{Filter, Weighed};
pub(crate) use field::least_bytes;
pub use field::{Origin, ResultColumn, in_cursor};
pub use like::NamePattern;
pub(crate) use like::Pattern;
pub use name::{NoTable, TableName, find, in_text, named};
pub(crate) use order::By;
pub use path::{Bound, Path, Prefix};
pub use plan::{Output, Plan, Selected, plan, plan_listing};
pub use zone::session_zone;
pub(crate) use zone::{ByName as ZoneByName, by_name as zone_by_name, has_names as has_zone_names, zone_named};
