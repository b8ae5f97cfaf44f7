//! Rows of a table for a client: read from a pinned snapshot by a bound plan, in either format of the protocol.
//!
//! In: a snapshot, a plan of crate `sql`. Out: row packets, a bounded number at a time; where to go on. Never here: a
//! statement's text, sockets, a lock held between two rows, a row that a filter of the plan leaves out.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss, unreachable_pub)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod encode;
mod encode_text;
mod reading;

pub use encode::Form;
pub use reading::{Each, Reading, RowOut};

use sql::SqlError;

/// The error of a store as a client gets it.
#[must_use]
pub fn store_error(error: &store::StoreError) -> SqlError {
    SqlError::new(1105, "HY000", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_a_store_that_pass_are_told_so() {
        for error in [store::StoreError::SnapshotTooOld, store::StoreError::IndexNotReady { table: 7, index: 1 }] {
            assert!(sql::passing::is_passing(&store_error(&error).message), "{error}");
        }
        let missing = store::StoreError::RowMissing { table: "snapshot too old: t".into(), key: "00".into() };
        assert!(!sql::passing::is_passing(&store_error(&missing).message));
    }
}
