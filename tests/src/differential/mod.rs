//! Random schemas and random statements on a real server while a replica follows: is it equal?
//!
//! In: a seed. Out: counts, or a failure with the script that shows it, made small. Never here: an expectation of what a
//! statement does: the server decides, the replica must agree. What the server refuses is counted and goes on.

pub mod ddl;
pub mod dml;
pub mod follow;
pub mod run;
pub mod schema;
pub mod script;
pub mod session;
pub mod shrink;
pub mod types;

use crate::Random;

/// A statement and what is true when the server accepts it.
#[derive(Debug, Clone)]
pub struct Statement {
    /// One statement on one line, without its semicolon.
    pub sql: String,
    /// Its form, as it is counted.
    pub kind: &'static str,
    /// Changes of the schema.
    pub changes: Vec<schema::Change>,
}

impl Statement {
    /// A statement that changes no definition.
    #[must_use]
    pub fn new(kind: &'static str, sql: String) -> Statement {
        Statement { sql, kind, changes: Vec::new() }
    }
}

/// Choices.
pub trait Chance {
    /// One of these; they are never none.
    fn pick<T: Copy>(&mut self, from: &[T]) -> T;
    /// One of these.
    fn pick_or_none<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T>;
    /// True in so many of a hundred cases.
    fn chance(&mut self, percent: u64) -> bool;
    /// A character set and a collation of it.
    fn charset(&mut self) -> types::Charset;
}

impl Chance for Random {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        *self.pick_or_none(from).expect("something to choose from")
    }

    fn pick_or_none<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len().max(1) as u64) as usize)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn charset(&mut self) -> types::Charset {
        if self.chance(50) { types::CHARSETS[self.below(3) as usize] } else { self.pick(types::CHARSETS) }
    }
}
