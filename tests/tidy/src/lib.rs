//! Checks of the repository's documents, comments and code: limits, widths, links, what they name, sizes.
//!
//! In: the repository's files as text. Out: one line for each fault, with file and line. Never here: a file outside the
//! repository, a build, a process.

pub mod calques;
pub mod code;
pub mod limits;
pub mod linked;
pub mod links;
pub mod named;
pub mod quarantine;
pub mod ratchets;
mod repository;
#[cfg(test)]
mod tests;
pub mod text;

pub use repository::{File, Repository};

/// A fault: file, line, what is wrong.
pub type Fault = String;

fn fault(file: &str, line: usize, what: impl std::fmt::Display) -> Fault {
    format!("{file}:{line}: {what}")
}
