//! Random schemas and random statements on a real server while a replica follows: is the copy equal?
//!
//! In: a seed. Out: counts, or a failure with a minimized script that shows it. Never here: an expectation of what a
//! statement does. The server decides, and the replica must agree. Refused statements are counted and the run
//! continues.

pub mod clients;
pub mod ddl;
pub mod dml;
pub mod follow;
pub mod run;
pub mod schema;
pub mod script;
pub mod session;
pub mod shrink;
pub mod stock;
pub mod types;

use crate::Random;

/// A statement, and its effect if the server accepts it.
#[derive(Debug, Clone)]
pub struct Statement {
    /// One statement on one line, without its semicolon.
    pub sql: String,
    /// Name under which it is counted.
    pub kind: &'static str,
    /// Its changes of the schema.
    pub changes: Vec<schema::Change>,
}

impl Statement {
    /// A statement that changes no definition.
    #[must_use]
    pub fn new(kind: &'static str, sql: String) -> Statement {
        Statement { sql, kind, changes: Vec::new() }
    }
}

/// Random choices.
pub trait Chance {
    /// One of these, or None if there are none.
    fn pick_or_none<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T>;
    /// True in this many of a hundred cases.
    fn chance(&mut self, percent: u64) -> bool;
    /// A character set and a collation of it.
    fn charset(&mut self) -> types::Charset;
}

impl Chance for Random {
    fn pick_or_none<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn charset(&mut self) -> types::Charset {
        if self.chance(50) { types::CHARSETS[self.below(3) as usize] } else { self.pick(types::CHARSETS) }
    }
}
