//! What the preparation of a copy does: text for those who wait for it.
//!
//! In: the steps, and tables done in them. Out: a line for people. Never here: the copy itself (`progress`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What the preparation of a copy does, while there is no plan yet.
#[derive(Debug, Default)]
pub struct Preparing {
    /// What it does, and of how many tables.
    step: Mutex<(&'static str, usize)>,
    /// Tables done in this step.
    done: AtomicU64,
}

impl Preparing {
    /// Begins a step that concerns `tables` tables; 0 if they are not counted.
    pub(crate) fn begin(&self, step: &'static str, tables: usize) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = (step, tables);
        self.done.store(0, Ordering::Relaxed);
    }

    pub(crate) fn table_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// One line: what is done, and how far it is. Its change shows that the source answers.
    #[must_use]
    pub fn line(&self) -> String {
        let (step, tables) = *self.step.lock().unwrap_or_else(PoisonError::into_inner);
        match (step, tables) {
            ("", _) => "preparing the copy: connecting to the source".to_owned(),
            (step, 0) => format!("preparing the copy: {step}"),
            (step, tables) => format!("preparing the copy: {step}, {} of {tables}", self.done.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preparation_tells_how_far_it_is() {
        let preparing = Preparing::default();
        assert_eq!(preparing.line(), "preparing the copy: connecting to the source");
        preparing.begin("reading definitions", 3);
        preparing.table_done();
        assert_eq!(preparing.line(), "preparing the copy: reading definitions, 1 of 3");
        preparing.begin("listing tables", 0);
        assert_eq!(preparing.line(), "preparing the copy: listing tables");
    }
}
