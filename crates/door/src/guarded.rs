//! A client's work may break its own connection, and nothing else.
//!
//! In: work for one connection. Out: its result, or the knowledge that it panicked, which is noted as a defect. Never
//! here: a way on for that connection; its caller ends it. A stack that overflows is not caught: trees are bounded in
//! height where they are made.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::config::{Facts, Note};

/// Runs work of connection `number`; None: it panicked.
///
/// What it left half done is only seen by a connection that is ended, and behind locks that are not poisoned for
/// others.
pub(crate) fn guarded<T>(facts: &dyn Facts, number: u64, work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|panic| facts.note(Note::Defect { connection: number, what: message(&*panic) }))
        .ok()
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
