//! Rows of an initial copy, on their way into the tree.
//!
//! In: rows of tables as the source has them at one GTID set, from several threads, in any order. Out: sorted runs, and
//! at the end one cut that makes them all the store's content. Never here: a generation; any trace of an unfinished
//! copy after a restart (a tree without a cut is discarded).
//!
//! A source sends rows in the order of their key, which mostly is their order here too. Each thread of an initial copy
//! has an open run, to which its rows go directly as long as their keys ascend. Whatever does not fit is collected,
//! sorted, and begins the thread's next run: rows of keys with another order here, and the entries of secondary
//! indexes, which have a run of their own each time. What is left of tables once all their rows were taken is gathered,
//! and written as one run for many tables: a run for each would take longer than its rows.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use base::{GtidSet, PreparedSet, SharedMap};
use catalog::{Catalog, KeyOrder, TableDef, TableId};

use crate::Store;
use crate::compaction::policy::L0_RUNS_MAX;
use crate::cut_record::{CutFacts, TableFacts};
use crate::disk::{Disk, Run};
use crate::error::StoreError;
use crate::index_state::IndexStates;
use crate::key_codec;

/// Limit on level-0 runs of a copy during replay, whose cuts need room there too.
const L0_RUNS_BESIDE: usize = L0_RUNS_MAX / 2;

const _: () = assert!(L0_RUNS_BESIDE >= crate::MERGE_RUNS, "merging must be able to make room");

/// Receives the rows of a copy.
pub struct CopyWriter<'a> {
    disk: &'a Disk,
    /// Set if the store is in use: it knows which views snapshots still read.
    store: Option<&'a Store>,
    /// Rows of one table are buffered up to this many bytes, then sorted and written.
    buffer_bytes: usize,
    buffers: Mutex<BTreeMap<u32, Buffer>>,
    /// What is left of tables whose rows were all taken, by table id, and its bytes.
    left: Mutex<(BTreeMap<u32, Buffer>, usize)>,
    rows: Mutex<BTreeMap<u32, i64>>,
    merging: Mutex<()>,
    /// Runs that threads have not finished.
    open: Mutex<HashMap<ThreadId, OpenRun<'a>>>,
    /// True if entries of secondary indexes are written with the rows; otherwise they are filled later.
    entries: bool,
}

/// A run that is being written, and the last key in it.
struct OpenRun<'a> {
    run: Run<'a>,
    last: Vec<u8>,
}

impl OpenRun<'_> {
    /// True if the key is greater than the last one.
    fn takes(&self, key: &[u8]) -> Result<bool, StoreError> {
        match key.cmp(&self.last) {
            Ordering::Equal => Err(twice(self.run.disk)),
            order => Ok(order.is_gt()),
        }
    }

    /// Appends an entry if its key is greater than the last one.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool, StoreError> {
        if !self.takes(key)? {
            return Ok(false);
        }
        self.run.put(key, value)?;
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(true)
    }
}

#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// Where an entry of a table lies in a buffer: its key, and behind it its value.
#[derive(Clone, Copy)]
struct Entry {
    /// The first bytes of the key behind the ids of table and index, as a number of the same order.
    head: u64,
    start: usize,
    value_len: u32,
    index: u16,
    key_len: u16,
}

impl Entry {
    fn key<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        bytes.get(self.start..self.start + usize::from(self.key_len)).unwrap_or_default()
    }

    fn value<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let start = self.start + usize::from(self.key_len);
        bytes.get(start..start + self.value_len as usize).unwrap_or_default()
    }

    /// Order of the keys of one table. Most comparisons end without a look into the buffer.
    fn order(&self, other: &Entry, bytes: &[u8]) -> Ordering {
        (self.index, self.head).cmp(&(other.index, other.head)).then_with(|| self.key(bytes).cmp(other.key(bytes)))
    }
}

impl<'a> CopyWriter<'a> {
    /// A writer that buffers up to `buffer_bytes` per table before it writes them.
    #[must_use]
    pub fn new(disk: &'a Disk, buffer_bytes: usize) -> CopyWriter<'a> {
        CopyWriter::with(disk, None, buffer_bytes)
    }

    /// A writer of rows that become exact only during replay; it writes no entries of secondary indexes.
    #[must_use]
    pub fn without_indexes(mut self) -> CopyWriter<'a> {
        self.entries = false;
        self
    }

    /// A writer into a store that is in use, while replay runs; None for an in-memory store. Register the tables first
    /// ([`Store::begin_table_copy`]).
    #[must_use]
    pub fn beside(store: &'a Store, buffer_bytes: usize) -> Option<CopyWriter<'a>> {
        store.disk().map(|disk| CopyWriter::with(disk, Some(store), buffer_bytes))
    }

    fn with(disk: &'a Disk, store: Option<&'a Store>, buffer_bytes: usize) -> CopyWriter<'a> {
        CopyWriter {
            disk,
            store,
            buffer_bytes,
            buffers: Mutex::new(BTreeMap::new()),
            left: Mutex::default(),
            rows: Mutex::new(BTreeMap::new()),
            merging: Mutex::new(()),
            open: Mutex::new(HashMap::new()),
            // During replay, changes follow under an id that no cut's catalog knows, so indexes are filled after the
            // switch.
            entries: store.is_none(),
        }
    }

    /// Takes rows of a table: stored key bytes and image of each; for a table without a key only the image counts.
    ///
    /// # Errors
    /// When the tree cannot be written.
    pub fn rows<'r>(
        &self,
        table: &TableDef,
        rows: impl Iterator<Item = (&'r [u8], &'r [u8])>,
    ) -> Result<(), StoreError> {
        let order = KeyOrder::of(table);
        let keyless = order.is_keyless();
        let mut buffer = self.take(table.id.0);
        // Equal rows of a table without a key are counted, which needs them in one place.
        let mut open = if keyless { None } else { self.take_open() };
        let mut count = 0;
        let damaged = |_| self.disk.damaged(format!("a row of {} does not fit its definition", table.full_name()));
        let mut own = Vec::new();
        for (key, image) in rows {
            let start = buffer.bytes.len();
            key_codec::append_row_key(&order, table.id, key, &mut buffer.bytes);
            let value_at = buffer.bytes.len();
            key_codec::append_value(keyless, table.version, key, image, 1, &mut buffer.bytes);
            let is_written = match &mut open {
                Some(open) => {
                    let (key, value) = buffer.bytes[start..].split_at(value_at - start);
                    open.put(key, value)?
                }
                None => false,
            };
            match is_written {
                true => buffer.bytes.truncate(start),
                false => buffer.push(0, start, value_at)?,
            }
            count += 1;
            let Some(indexes) = order.indexes().filter(|_| self.entries) else { continue };
            own.clear();
            key_codec::append_own(keyless, key, &mut own);
            for index in indexes.indexes() {
                let start = buffer.bytes.len();
                buffer.bytes.extend_from_slice(&key_codec::index_prefix(table.id, index.id()));
                indexes.append(index, image, &mut buffer.bytes).map_err(damaged)?;
                buffer.bytes.extend_from_slice(&own);
                let value_at = buffer.bytes.len();
                buffer.bytes.extend_from_slice(&key_codec::index_value(own.len()));
                buffer.push(index.id(), start, value_at)?;
            }
        }
        if let Some(open) = open {
            self.put_back_open(open);
        }
        *self.rows.lock().unwrap_or_else(PoisonError::into_inner).entry(table.id.0).or_insert(0) += count;
        if buffer.held() >= self.buffer_bytes {
            return self.write(buffer);
        }
        self.put_back(table.id.0, buffer)
    }

    fn take(&self, table: u32) -> Buffer {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).remove(&table).unwrap_or_default()
    }

    /// This thread's open run.
    fn take_open(&self) -> Option<OpenRun<'a>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&thread::current().id())
    }

    fn put_back_open(&self, open: OpenRun<'a>) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(thread::current().id(), open);
    }

    /// Another thread may have started a buffer for the table in the meantime.
    fn put_back(&self, table: u32, buffer: Buffer) -> Result<(), StoreError> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        match buffers.get_mut(&table) {
            Some(other) => other.append(&buffer),
            None => {
                buffers.insert(table, buffer);
            }
        }
        Ok(())
    }

    /// Sorts and writes a table's buffered rows and entries.
    fn write(&self, mut buffer: Buffer) -> Result<(), StoreError> {
        if buffer.entries.is_empty() {
            return Ok(());
        }
        buffer.sort();
        let Buffer { bytes, entries } = &buffer;
        let (rows, of_indexes) = entries.split_at(entries.partition_point(|entry| entry.index == 0));
        let counted = rows.first().is_some_and(|first| key_codec::is_keyless(first.value(bytes)));
        // Beside a replay, each run's place is behind the cuts before it.
        if counted || self.store.is_some() {
            return self.write_run(bytes, entries);
        }
        self.write_open(bytes, rows)?;
        if of_indexes.is_empty() { Ok(()) } else { self.write_run(bytes, of_indexes) }
    }

    /// Writes sorted rows to this thread's open run, or to a new one that stays open.
    fn write_open(&self, bytes: &[u8], rows: &[Entry]) -> Result<(), StoreError> {
        let Some(first) = rows.first() else { return Ok(()) };
        let fits = |open: &OpenRun<'_>| open.takes(first.key(bytes));
        let mut open = match self.take_open() {
            Some(open) if fits(&open)? => open,
            open => {
                if let Some(open) = open {
                    self.end_run(open.run)?;
                }
                OpenRun { run: self.disk.begin()?, last: Vec::new() }
            }
        };
        for row in rows {
            open.put(row.key(bytes), row.value(bytes))?;
        }
        self.put_back_open(open);
        Ok(())
    }

    /// Sorts and writes what is left of tables as one run.
    fn write_left(&self, left: BTreeMap<u32, Buffer>) -> Result<(), StoreError> {
        if left.is_empty() {
            return Ok(());
        }
        // Table ids ascend, and the keys begin with them.
        let mut run = self.disk.begin()?;
        for mut buffer in left.into_values() {
            buffer.sort();
            self.write_entries(&mut run, &buffer.bytes, &buffer.entries)?;
        }
        self.end_run(run)
    }

    /// Writes sorted rows and entries as a run of their own.
    fn write_run(&self, bytes: &[u8], entries: &[Entry]) -> Result<(), StoreError> {
        let mut run = self.disk.begin()?;
        self.write_entries(&mut run, bytes, entries)?;
        self.end_run(run)
    }

    /// Appends sorted rows and entries of a table to a run.
    fn write_entries(&self, run: &mut Run<'_>, bytes: &[u8], entries: &[Entry]) -> Result<(), StoreError> {
        let mut at = 0;
        let mut merged = Vec::new();
        while let Some(entry) = entries.get(at) {
            let (key, value) = (entry.key(bytes), entry.value(bytes));
            let same = entries[at..].iter().take_while(|other| other.order(entry, bytes).is_eq()).count();
            if entry.index > 0 {
                // Equal rows of a table without a key share their index entries.
                run.put(key, value)?;
                at += same;
                continue;
            }
            let alike = entries[at + 1..at + same].iter().all(|other| other.value(bytes) == value);
            // Equal rows of a table without a key are counted, including those in earlier runs. No other thread writes
            // this table, because one connection copies it.
            let earlier = if key_codec::is_keyless(value) { self.disk.get_in(&self.disk.newest(), key)? } else { None };
            let earlier = match earlier {
                Some(value) => {
                    key_codec::multiplicity(&value).ok_or_else(|| self.disk.damaged("a row that is not one of ours"))?
                }
                None => 0,
            };
            let copies = same as u64 + earlier;
            merged.clear();
            if copies == 1 {
                run.put(key, value)?;
            } else if alike && key_codec::with_copies(value, copies, &mut merged) {
                run.put(key, &merged)?;
            } else {
                return Err(twice(self.disk));
            }
            at += same;
        }
        Ok(())
    }

    /// Makes a run a part of the tree.
    fn end_run(&self, run: Run<'_>) -> Result<(), StoreError> {
        let version_lock = self.disk.version_lock();
        run.finish(&version_lock)?;
        self.disk.take_over(&version_lock);
        drop(version_lock);
        self.merge()
    }

    /// Merges runs to keep levels small: a level's run count is one byte on disk (invariant 6).
    fn merge(&self) -> Result<(), StoreError> {
        let _alone = self.merging.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = self.store {
            while self.disk.l0_runs() >= L0_RUNS_BESIDE && store.compact()? {}
            return Ok(());
        }
        while self.disk.is_full() && self.disk.compact(self.disk.oldest_read())? {}
        Ok(())
    }

    /// Writes the remaining rows of a table whose rows were all taken, with those of other tables once they are many.
    ///
    /// # Errors
    /// When the tree cannot be written.
    pub fn table_done(&self, table: &TableDef) -> Result<(), StoreError> {
        let buffer = self.take(table.id.0);
        if self.store.is_some() || buffer.entries.is_empty() {
            return self.write(buffer);
        }
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.1 += buffer.held();
        left.0.insert(table.id.0, buffer);
        if left.1 < self.buffer_bytes {
            return Ok(());
        }
        let (tables, _) = std::mem::take(&mut *left);
        drop(left);
        self.write_left(tables)
    }

    /// Ends a copy that ran during replay: all rows are in the tree. Returns the number of rows of a table.
    ///
    /// # Errors
    /// When the tree cannot be written.
    pub fn finish_table(self, table: TableId) -> Result<i64, StoreError> {
        let buffers = std::mem::take(&mut *self.buffers.lock().unwrap_or_else(PoisonError::into_inner));
        for buffer in buffers.into_values() {
            self.write(buffer)?;
        }
        let rows = self.rows.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(rows.get(&table.0).copied().unwrap_or(0))
    }

    /// Ends the copy with one cut at `executed` and these tables, from which the store then continues. With
    /// `consistent_at`, after a copy without a lock, the rows are exact once replay has reached that set. Rows of tables
    /// that are not in the catalog are ignored, and dropped by compaction.
    ///
    /// # Errors
    /// When the tree cannot be written.
    pub fn finish(
        self,
        executed: &GtidSet,
        consistent_at: Option<&GtidSet>,
        catalog: &Catalog,
    ) -> Result<(), StoreError> {
        let known: BTreeSet<u32> = catalog.tables().map(|table| table.id.0).collect();
        let buffers = std::mem::take(&mut *self.buffers.lock().unwrap_or_else(PoisonError::into_inner));
        for (_, buffer) in buffers.into_iter().filter(|(id, _)| known.contains(id)) {
            self.write(buffer)?;
        }
        let (mut left, _) = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        left.retain(|id, _| known.contains(id));
        self.write_left(left)?;
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        for open in open.into_values() {
            self.end_run(open.run)?;
        }
        let rows = self.rows.into_inner().unwrap_or_else(PoisonError::into_inner);
        let rows: SharedMap<u32, i64> = rows.into_iter().filter(|(id, _)| known.contains(id)).collect();
        let mut run = self.disk.begin()?;
        // Rows of a copy without a lock do not belong to a single moment, and replay would later replace them without
        // knowing their entries: indexes are filled once the rows are exact.
        let not_yet_consistent = consistent_at.is_some_and(|set| !set.is_subset_of(executed));
        let none = PreparedSet::default();
        let indexes =
            if self.entries { IndexStates::all_complete(catalog) } else { IndexStates::none_complete(catalog) };
        run.records(&CutFacts {
            sequence: 0,
            executed,
            position: None,
            ledger: "",
            consistent_at: consistent_at.filter(|_| not_yet_consistent),
            tables: TableFacts { catalog, rows: &rows, indexes: &indexes },
            tables_before: None,
            replaced: None,
            prepared: &none,
            prepared_before: &none,
            all: true,
        })?;
        let version_lock = self.disk.version_lock();
        run.finish(&version_lock)?;
        self.disk.take_over(&version_lock);
        Ok(())
    }
}

fn twice(disk: &Disk) -> StoreError {
    disk.damaged("two rows of the copy have the same key")
}

impl Buffer {
    /// Adds the entry whose key begins at `start` and whose value lies from `value_at` to the end.
    fn push(&mut self, index: u16, start: usize, value_at: usize) -> Result<(), StoreError> {
        let key = self.bytes.get(start..value_at).unwrap_or_default();
        // The tree takes keys of up to 64 KiB.
        let key_len =
            u16::try_from(key.len()).map_err(|_| StoreError::defect("a key is longer than the tree takes"))?;
        let mut head = [0; 8];
        let rest = key.get(key_codec::PREFIX_LEN..).unwrap_or_default();
        head.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        let value_len = crate::short(self.bytes.len() - value_at);
        self.entries.push(Entry { head: u64::from_be_bytes(head), start, value_len, index, key_len });
        Ok(())
    }

    fn sort(&mut self) {
        let Buffer { bytes, entries } = self;
        entries.sort_unstable_by(|one, other| one.order(other, bytes));
    }

    fn held(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Entry>()
    }

    fn append(&mut self, other: &Buffer) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.entries.extend(other.entries.iter().map(|entry| Entry { start: entry.start + base, ..*entry }));
    }
}
