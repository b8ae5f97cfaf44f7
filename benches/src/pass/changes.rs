//! The row changes of a run as one stream, in log order.
//!
//! In: the logs of a load and of a run. Out: for each change of a row with a key its table, its key as stored and in
//! the tree's order, and its image. Never here: rows without a key, of which nobody reads ranges.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use catalog::{Catalog, KeyOrder, TableDef};
use decode::{OpKind, Span};

use super::{Counts, Line};

/// One row change.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Hash of table and stored key, from the decoder.
    pub hash: u64,
    /// Index into `Changes::tables`.
    pub table: u16,
    /// True if the change deletes the row.
    pub gone: bool,
    /// True if the row existed before.
    pub was_there: bool,
    ordered: (u32, u16),
    /// Position and length of the stored key.
    pub stored: (u32, u16),
    image: (u32, u32),
}

/// All changes of a run.
pub struct Changes {
    /// Catalog at the end of the log.
    pub catalog: Catalog,
    /// Tables whose rows change.
    pub tables: Vec<Arc<TableDef>>,
    /// Changes in log order.
    pub list: Vec<Change>,
    orders: Vec<KeyOrder>,
    keys: Vec<u8>,
    images: Vec<u8>,
}

impl Changes {
    /// Reads the changes of the run; the load only creates the tables.
    ///
    /// # Errors
    /// The logs cannot be read, or a stage rejects them.
    pub fn read(logs: &Path) -> anyhow::Result<Changes> {
        let folder = tempfile::tempdir()?;
        let mut line = Line::open(folder.path())?;
        line.take(&logs.join("binlog.000001"), &mut Counts::default())?;
        line.receive(&logs.join("binlog.000002"), &mut Counts::default())?;
        let pieces = line.split(&mut Counts::default())?;
        let mut changes = Changes {
            catalog: line.store.visibility().current().catalog,
            tables: Vec::new(),
            list: Vec::new(),
            orders: Vec::new(),
            keys: Vec::new(),
            images: Vec::new(),
        };
        let mut places = BTreeMap::new();
        for piece in pieces {
            let decoded = line.decode(vec![piece], &mut Counts::default())?;
            let decoded = decoded.first().context("no piece")?;
            let mut ops: Vec<_> = decoded.lanes.iter().flatten().copied().collect();
            // Images are in the log in the order of its changes.
            let at = |span: Span| span.offset & !(Span::SIDE | Span::PAYLOAD);
            ops.sort_by_key(|op| (op.transaction, at(if op.after.len > 0 { op.after } else { op.before })));
            for op in ops {
                let shape = decoded.shapes.get(op.shape as usize).context("an op without its shape")?;
                let (gone, was_there) = match op.kind {
                    OpKind::Insert => (false, false),
                    OpKind::Update => (false, true),
                    OpKind::Delete => (true, true),
                    OpKind::AddOne | OpKind::RemoveOne => continue,
                    other => anyhow::bail!("the log is not one of whole rows: {other:?}"),
                };
                let table = *places.entry(shape.plan.def.id.0).or_insert_with(|| {
                    changes.tables.push(Arc::clone(&shape.plan.def));
                    changes.orders.push(KeyOrder::of(&shape.plan.def));
                    changes.tables.len() - 1
                });
                let stored = append(&mut changes.keys, decoded.bytes(op.key));
                let image = append(&mut changes.images, if gone { &[] } else { decoded.bytes(op.after) });
                changes.list.push(Change {
                    hash: op.hash,
                    table: table as u16,
                    gone,
                    was_there,
                    ordered: (0, 0),
                    stored: (stored.0, stored.1 as u16),
                    image,
                });
            }
        }
        let mut key = Vec::new();
        for number in 0..changes.list.len() {
            let Some(mut change) = changes.list.get(number).copied() else { continue };
            changes.make_key(&change, &mut key);
            let (at, len) = append(&mut changes.keys, &key);
            change.ordered = (at, len as u16);
            if let Some(place) = changes.list.get_mut(number) {
                *place = change;
            }
        }
        Ok(changes)
    }

    /// Computes the key that [`key`](Self::key) has ready: the sort key, then what identifies the row, as `store`
    /// orders rows.
    #[inline]
    pub fn make_key(&self, change: &Change, out: &mut Vec<u8>) {
        out.clear();
        let stored = self.stored_key(change);
        if let Some(order) = self.orders.get(usize::from(change.table)) {
            order.append(stored, out);
        }
        out.extend_from_slice(stored);
    }

    /// Part of all stored keys, by position.
    #[must_use]
    #[inline]
    pub fn stored_at(&self, at: u32, len: u32) -> &[u8] {
        part(&self.keys, at, len)
    }

    /// Key of a change in the tree's order, without the table's prefix.
    #[must_use]
    #[inline]
    pub fn key(&self, change: &Change) -> &[u8] {
        part(&self.keys, change.ordered.0, change.ordered.1.into())
    }

    /// Key of a change as the log has it.
    #[must_use]
    #[inline]
    pub fn stored_key(&self, change: &Change) -> &[u8] {
        part(&self.keys, change.stored.0, change.stored.1.into())
    }

    /// The row after a change; empty if deleted.
    #[must_use]
    #[inline]
    pub fn image(&self, change: &Change) -> &[u8] {
        part(&self.images, change.image.0, change.image.1)
    }
}

fn append(to: &mut Vec<u8>, bytes: &[u8]) -> (u32, u32) {
    let at = to.len() as u32;
    to.extend_from_slice(bytes);
    (at, bytes.len() as u32)
}

#[inline]
fn part(of: &[u8], at: u32, len: u32) -> &[u8] {
    of.get(at as usize..).and_then(|rest| rest.get(..len as usize)).unwrap_or(&[])
}
