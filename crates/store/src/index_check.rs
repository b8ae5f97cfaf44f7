//! Whether rows on disk and the entries of their indexes agree.
//!
//! In: a snapshot, a table or a file of the tree. Out: how many were looked up in each other, and how many of them lack
//! the other. Never here: rows in memory, a repair.

use std::cmp::Ordering;

use catalog::{ConversionBuffers, IndexSet};
use lsm_tree::{AbstractTree, Slice};

use crate::error::StoreError;
use crate::key_codec;
use crate::layers::TreeAt;
use crate::reader::TableReader;
use crate::sorted_slices::append_key;
use crate::{Snapshot, Store};

/// Result of checking an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexCheck {
    /// Index entries on disk.
    pub entries: u64,
    /// Rows on disk without an entry.
    pub missing: u64,
    /// Entries on disk without a row.
    pub stale: u64,
}

/// Looks up rows and entries of one table in each other, at one view of the tree.
struct Lookup<'a> {
    tree: &'a TreeAt,
    table: &'a TableReader,
    key: Vec<u8>,
    buffers: ConversionBuffers,
}

impl<'a> Lookup<'a> {
    fn new(tree: &'a TreeAt, table: &'a TableReader) -> Lookup<'a> {
        Lookup { tree, table, key: Vec::new(), buffers: ConversionBuffers::default() }
    }

    /// The entry that a row has in an index.
    fn entry_of(&mut self, index: u16, row_key: &[u8], value: &[u8]) -> Result<&[u8], StoreError> {
        let Some(row) = key_codec::parse_row(row_key, value) else { return Err(damaged(self.tree, self.table)) };
        let Ok(image) = self.table.versions().read(row.definition, row.image, &mut self.buffers) else {
            return Err(damaged(self.tree, self.table));
        };
        self.key.clear();
        self.key.extend_from_slice(&key_codec::index_prefix(self.table.id(), index));
        match append_key(self.table.order(), index, row.key, image, &mut self.key) {
            Ok(true) => Ok(&self.key),
            _ => Err(damaged(self.tree, self.table)),
        }
    }

    fn row(&mut self, index: u16, row_key: &[u8], value: &[u8], check: &mut IndexCheck) -> Result<(), StoreError> {
        let tree = self.tree;
        check.missing += u64::from(!tree.contains(self.entry_of(index, row_key, value)?)?);
        Ok(())
    }

    fn entry(&mut self, entry: &[u8], value: &[u8], check: &mut IndexCheck) -> Result<(), StoreError> {
        let own = key_codec::own_of(entry, value).ok_or_else(|| damaged(self.tree, self.table))?;
        self.key.clear();
        self.key.extend_from_slice(&key_codec::table_prefix(self.table.id()));
        if !self.table.order().is_keyless() {
            self.table.order().append(own, &mut self.key);
        }
        self.key.extend_from_slice(own);
        check.entries += 1;
        check.stale += u64::from(!self.tree.contains(&self.key)?);
        Ok(())
    }
}

impl Store {
    /// As [`check_index`](Self::check_index), of every `every`-th row and entry, in bounded memory.
    ///
    /// # Errors
    /// As `range`.
    pub fn sample_index(
        &self,
        snapshot: &Snapshot,
        table: &TableReader,
        index: u16,
        every: usize,
    ) -> Result<IndexCheck, StoreError> {
        let layers = snapshot.layers()?;
        let Some(tree) = &layers.base else { return Ok(IndexCheck::default()) };
        if !layers.indexes.is_complete(table.id().0, index) {
            return Err(StoreError::IndexNotReady { table: table.id().0, index });
        }
        let (mut lookup, mut check) = (Lookup::new(tree, table), IndexCheck::default());
        let (from, to) = key_codec::table_bounds(table.id());
        for item in tree.range(&from, &to).step_by(every) {
            let (row_key, value) = item?;
            lookup.row(index, &row_key, &value, &mut check)?;
        }
        let (from, to) = (key_codec::index_prefix(table.id(), index), key_codec::index_end(table.id(), index));
        for item in tree.range(&from, &to).step_by(every) {
            let (entry, value) = item?;
            lookup.entry(&entry, &value, &mut check)?;
        }
        Ok(check)
    }

    /// Looks up the rows, or the index entries, with which a file of the tree begins: behind the first `skip`, and
    /// `most` of them. Returns the table's id with the result; None if the file is gone, or begins with neither.
    ///
    /// # Errors
    /// As `range`.
    pub fn sample_file(
        &self,
        snapshot: &Snapshot,
        file: u64,
        skip: usize,
        most: usize,
    ) -> Result<Option<(u32, IndexCheck)>, StoreError> {
        let layers = snapshot.layers()?;
        let Some(tree) = &layers.base else { return Ok(None) };
        let Some(first) = first_key(tree, file) else { return Ok(None) };
        let ids = key_codec::table_of(&first).zip(key_codec::index_of(&first));
        let found = ids.and_then(|(id, index)| Some((snapshot.catalog().table_by_id(catalog::TableId(id))?, index)));
        let Some((table, index)) = found else { return Ok(None) };
        let Some(set) = IndexSet::of(table) else { return Ok(None) };
        let is_complete = |index: &u16| layers.indexes.is_complete(table.id.0, *index);
        let reader = TableReader::new(table);
        let (mut lookup, mut check) = (Lookup::new(tree, &reader), IndexCheck::default());
        if index > 0 {
            if !is_complete(&index) || set.index(index).is_none() {
                return Ok(None);
            }
            for item in tree.range(&first, &key_codec::index_end(table.id, index)).skip(skip).take(most) {
                let (entry, value) = item?;
                lookup.entry(&entry, &value, &mut check)?;
            }
            return Ok(Some((table.id.0, check)));
        }
        let indexes: Vec<u16> = set.indexes().iter().map(catalog::Index::id).filter(is_complete).collect();
        for item in tree.range(&first, &key_codec::table_bounds(table.id).1).skip(skip).take(most) {
            let (row_key, value) = item?;
            for index in &indexes {
                lookup.row(*index, &row_key, &value, &mut check)?;
            }
        }
        Ok(Some((table.id.0, check)))
    }

    /// Compares an index on disk, entry by entry, with the rows on disk at a snapshot's cut. Rows in memory are
    /// ignored. Reads the whole table.
    ///
    /// # Errors
    /// As `range`.
    pub fn check_index(&self, snapshot: &Snapshot, table: &TableReader, index: u16) -> Result<IndexCheck, StoreError> {
        let layers = snapshot.layers()?;
        let Some(tree) = &layers.base else { return Ok(IndexCheck::default()) };
        if !layers.indexes.is_complete(table.id().0, index) {
            return Err(StoreError::IndexNotReady { table: table.id().0, index });
        }
        let mut expected = crate::index_entries::Sorter::new(self.scratch_for_check());
        let (from, to) = key_codec::table_bounds(table.id());
        let mut lookup = Lookup::new(tree, table);
        for item in tree.range(&from, &to) {
            let (row_key, value) = item?;
            expected.push(lookup.entry_of(index, &row_key, &value)?, None)?;
        }
        let mut check = IndexCheck::default();
        let (from, to) = (key_codec::index_prefix(table.id(), index), key_codec::index_end(table.id(), index));
        let mut entries = tree.range(&from, &to).peekable();
        let mut take = |upto: Option<&[u8]>| -> Result<bool, StoreError> {
            loop {
                let order = match (entries.peek(), upto) {
                    (None, _) => return Ok(false),
                    (Some(Err(_)), _) | (Some(Ok(_)), None) => Ordering::Less,
                    (Some(Ok((key, _))), Some(upto)) => (**key).cmp(upto),
                };
                if order.is_gt() {
                    return Ok(false);
                }
                entries.next().transpose()?;
                check.entries += 1;
                if order.is_eq() {
                    return Ok(true);
                }
                check.stale += 1;
            }
        };
        let mut missing = 0;
        expected.finish(|key, _| {
            missing += u64::from(!take(Some(key))?);
            Ok(())
        })?;
        take(None)?;
        check.missing = missing;
        Ok(check)
    }
}

fn damaged(tree: &TreeAt, table: &TableReader) -> StoreError {
    tree.disk.damaged(format!("a row or an entry of table id {} is not one of ours", table.id().0))
}

fn first_key(tree: &TreeAt, file: u64) -> Option<Slice> {
    let version = tree.disk.tree.current_version();
    version.iter_tables().find(|table| table.id() == file).map(|table| table.metadata.key_range.min().clone())
}
