//! Order of a table's rows on disk.
//!
//! In: a table's definition and stored key bytes. Out: the sort key by which rows of the table are ordered, and the
//! secondary indexes stored beside them. Never here: the identity of a row, which is its stored key bytes alone
//! (invariant 9).

use std::sync::Arc;

use values::sort_key::SortKeyPlan;
use values::{RowLayout, ValueError};

use crate::index_set::IndexSet;
use crate::table::{Identity, TableDef};

/// How the store orders the rows of a table.
#[derive(Debug, Clone)]
pub struct KeyOrder {
    keyless: bool,
    sorted: Option<Arc<Sorted>>,
    indexes: Option<Arc<IndexSet>>,
}

#[derive(Debug)]
struct Sorted {
    plan: SortKeyPlan,
    layout: RowLayout,
    /// The identifying columns in table order, which is the order of stored key bytes.
    stored: Vec<usize>,
    /// For each column in key order, its index in `stored`.
    key_order: Vec<usize>,
}

impl KeyOrder {
    /// Returns the order of a table's rows.
    #[must_use]
    pub fn of(table: &TableDef) -> KeyOrder {
        let indexes = IndexSet::of(table).map(Arc::new);
        let Identity::Columns(columns) = &table.identity else {
            return KeyOrder { keyless: true, sorted: None, indexes };
        };
        let sorted = || {
            let plan = SortKeyPlan::new(&table.sort_key_columns(table.identity_key()?)?).ok()?;
            let mut stored = columns.clone();
            stored.sort_unstable();
            let key_order = columns.iter().map(|column| stored.iter().position(|s| s == column)).collect::<Option<_>>();
            Some(Sorted { plan, layout: RowLayout::new(&table.column_types()), stored, key_order: key_order? })
        };
        KeyOrder { keyless: false, sorted: sorted().map(Arc::new), indexes }
    }

    /// True if rows are a multiset of whole images, without an order.
    #[must_use]
    pub fn is_keyless(&self) -> bool {
        self.keyless
    }

    /// True if the order is MySQL's order of the key. Otherwise readers must not rely on it.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.sorted.as_ref().is_some_and(|sorted| sorted.plan.is_ordered())
    }

    /// Secondary indexes that the store keeps; `None` if there are none.
    #[must_use]
    #[inline]
    pub fn indexes(&self) -> Option<&Arc<IndexSet>> {
        self.indexes.as_ref()
    }

    /// Appends the common prefix of the sort keys of all rows whose first key columns have these stored values, in key
    /// order.
    ///
    /// # Errors
    /// If the table has no ordered key; otherwise those of [`SortKeyPlan::append`].
    pub fn append_values<'a>(
        &self,
        values: impl IntoIterator<Item = Option<&'a [u8]>>,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        match &self.sorted {
            Some(sorted) => sorted.plan.append(values, out),
            None => Err(ValueError::Invalid { what: "a bound for a table without an ordered key" }),
        }
    }

    /// Appends the sort key of stored key bytes; appends nothing if they do not fit the definition.
    pub fn append(&self, key: &[u8], out: &mut Vec<u8>) {
        let Some(sorted) = &self.sorted else { return };
        let from = out.len();
        if sorted.append(key, out).is_none() {
            out.truncate(from);
        }
    }
}

impl Sorted {
    fn append(&self, key: &[u8], out: &mut Vec<u8>) -> Option<()> {
        // Room for 16 parts: MySQL's limit of columns in a key.
        let mut parts: [&[u8]; 16] = [&[]; 16];
        let mut rest = key;
        for (place, column) in self.stored.iter().enumerate() {
            let len = self.layout.stored_len(*column, rest).ok()?;
            let (part, tail) = rest.split_at_checked(len)?;
            *parts.get_mut(place)? = part;
            rest = tail;
        }
        let parts = &parts;
        let values = self.key_order.iter().map(|place| parts.get(*place).copied());
        self.plan.append(values, out).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, StatementContext};

    #[test]
    fn rows_stand_in_key_order_whatever_the_order_of_columns() {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let sql = "CREATE TABLE t (a INT NOT NULL, b SMALLINT NOT NULL, c INT, PRIMARY KEY (b, a DESC))";
        let catalog = Catalog::new(0).apply(&context, sql.as_bytes()).unwrap().catalog;
        let order = KeyOrder::of(catalog.table("d", "t").unwrap());
        assert!(order.is_ordered() && !order.is_keyless());
        let key = |a: i32, b: i16| {
            let mut out = Vec::new();
            order.append(&[a.to_le_bytes().as_slice(), &b.to_le_bytes()].concat(), &mut out);
            out
        };
        let rows = [key(7, -3), key(-7, -3), key(300, 2), key(2, 2), key(0, 300)];
        assert!(rows.is_sorted() && rows.iter().all(|row| row.len() == rows[0].len()), "{rows:?}");
        let mut out = Vec::new();
        order.append(b"x", &mut out);
        assert!(out.is_empty(), "bytes that are no key");
    }
}
