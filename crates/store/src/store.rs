//! The store: its lanes, its tree, and the state at its newest cut.
//!
//! In: generations to seal, to cut and to spill. Out: the layers that writers and readers hold. Never here: a row.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::{GtidSet, PreparedSet, SequenceNumber, SharedMap};
use catalog::{Catalog, IndexSet, TableDef, TableId};

use crate::arena::SegmentPool;
use crate::compaction::policy::L0_RUNS_MAX;
use crate::cut::{self, CutReport};
use crate::cut_record::{Recovered, RecoveredTables, TableFacts};
use crate::disk::{self, Disk, DiskStats};
use crate::error::StoreError;
use crate::index_entries;
use crate::lane::LaneStats;
use crate::layers::{self, CutPoint, Generation, Layer, Layers, Spill, TreeAt};
use crate::reader;
use crate::snapshot::{PinnedLayers, Visibility, WatermarkState};
use crate::table_changes::TableChanges;
use crate::waits::{LaneWaits, WaitStats};

/// All lanes, the tree below them, and their visible state.
pub struct Store {
    lanes: usize,
    visibility: Visibility,
    disk: Option<Arc<Disk>>,
    /// Folder for data that exceeds memory.
    scratch: Option<PathBuf>,
    next_generation: AtomicU64,
    last_cut: Mutex<LastCut>,
    recovered_ledger: String,
    /// Tables being copied, which are not in any catalog yet.
    copied: Mutex<BTreeMap<TableId, Arc<TableDef>>>,
    /// See [`Recovered::consistent_at`]; kept after it is reached.
    consistent_at: Option<GtidSet>,
    /// True once `consistent_at` was seen to be reached.
    is_consistent: AtomicBool,
    recovered_prepared: PreparedSet,
    segments: Arc<SegmentPool>,
    readers: reader::Readers,
    waits: Arc<LaneWaits>,
    changes: TableChanges,
}

/// State at the newest cut.
pub(crate) struct LastCut {
    sequence: u64,
    /// Row count by table id, those of tables being copied too.
    pub(crate) rows: SharedMap<u32, i64>,
    /// Sum of the rows of the catalog's tables.
    rows_sum: i64,
    pub(crate) catalog: Option<Catalog>,
    /// The number that parts of the catalog and records of tables are under; None if the tree has none, and the next
    /// cut writes all.
    pub(crate) parts: Option<u64>,
    /// True if its rows are exact, that is, no copy without a lock is still settling.
    pub(crate) is_consistent: bool,
    prepared: PreparedSet,
}

/// A row as a reader sees it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Stored key bytes; the whole image for a table without a key.
    pub key: &'a [u8],
    /// Row image under the requested definition: null bitmap over all columns, then values.
    pub image: &'a [u8],
    /// Number of equal rows: 1 with a key, 1 or more without.
    pub count: u64,
}

/// Memory, disk and counts of a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreStats {
    /// Rows and memory of all lanes.
    pub memory: LaneStats,
    /// Generations that are sealed but not cut yet.
    pub sealed: u64,
    /// Secondary indexes that readers cannot use yet: a later DDL statement added them and they are being filled.
    pub indexes_to_fill: u64,
    /// The tree; None for an in-memory store.
    pub disk: Option<DiskStats>,
}

/// Limit on the number of lanes of a store.
pub(crate) const LANES_MAX: usize = 1 << 12;

const _: () = assert!(LANES_MAX.is_power_of_two(), "lanes are rounded up to a power of two within it");

fn lanes_rounded(lanes: usize) -> usize {
    lanes.clamp(1, LANES_MAX).next_power_of_two()
}

impl Store {
    /// Creates an in-memory store with `lanes` lanes, rounded up to a power of two.
    #[must_use]
    pub fn new(lanes: usize, catalog: Catalog) -> Store {
        Store::assemble(lanes, None, None, catalog, None)
    }

    /// Creates an in-memory store that continues after transactions executed elsewhere.
    #[must_use]
    pub fn behind(lanes: usize, start: Recovered) -> Store {
        Store::assemble(lanes, None, None, start.catalog.clone(), Some(start))
    }

    /// Creates a store over a tree on disk. `recovered` is the result of [`Disk::open`]; `catalog` is used when that
    /// found nothing. `scratch` is a folder for data that exceeds memory; its contents are removed.
    ///
    /// # Errors
    /// When the scratch folder cannot be emptied.
    pub fn over(
        lanes: usize,
        disk: Disk,
        scratch: PathBuf,
        recovered: Option<Recovered>,
        catalog: Catalog,
    ) -> Result<Store, StoreError> {
        disk::remove_folder(&scratch)?;
        Ok(Store::assemble(lanes, Some(Arc::new(disk)), Some(scratch), catalog, recovered))
    }

    /// Starts with another catalog than that of the newest cut: tables are in quarantine. The next cut makes it
    /// durable. For a store that nobody reads or writes yet.
    pub fn start_with(&self, catalog: Catalog) {
        let at = self.visibility.watermark();
        self.visibility.announce_catalog(at, catalog);
        self.visibility.advance(at, |_| ());
    }

    /// Opens a stopped store for reading: applied changes stay in memory.
    #[must_use]
    pub fn read_only(lanes: usize, disk: Disk, recovered: Recovered) -> Store {
        Store::assemble(lanes, Some(Arc::new(disk)), None, recovered.catalog.clone(), Some(recovered))
    }

    fn assemble(
        lanes: usize,
        disk: Option<Arc<Disk>>,
        scratch: Option<PathBuf>,
        catalog: Catalog,
        recovered: Option<Recovered>,
    ) -> Store {
        let lanes = lanes_rounded(lanes);
        let bottom = disk.is_none();
        let segments = Arc::new(if bottom { SegmentPool::default() } else { SegmentPool::passing() });
        let waits = Arc::default();
        let active = Arc::new(Generation::new(0, lanes, bottom, &segments, &waits));
        let base = disk.as_ref().map(TreeAt::newest);
        let RecoveredTables { indexes, parts } = match (&disk, &recovered) {
            (Some(disk), Some(_)) => disk.recovered_tables(),
            _ => RecoveredTables::default(),
        };
        let layers = Layers { active, below: Vec::new(), base, indexes: Arc::new(indexes) };
        if let (Some(disk), Some(recovered)) = (&disk, &recovered) {
            disk.dead().set_alive(&recovered.catalog);
        }
        let recovered_ledger = recovered.as_ref().map(|recovered| recovered.ledger.clone()).unwrap_or_default();
        let consistent_at = recovered.as_ref().and_then(|recovered| recovered.consistent_at.clone());
        let recovered_prepared =
            recovered.as_ref().map(|recovered| Arc::clone(&recovered.prepared)).unwrap_or_default();
        let (watermark, last_cut) = match recovered {
            Some(recovered) => (
                WatermarkState {
                    sequence: SequenceNumber(recovered.sequence),
                    executed: recovered.executed,
                    catalog: recovered.catalog.clone(),
                },
                LastCut {
                    sequence: recovered.sequence,
                    rows_sum: recovered.rows.values().sum(),
                    rows: recovered.rows.into_iter().collect(),
                    catalog: Some(recovered.catalog),
                    parts,
                    is_consistent: consistent_at.is_none(),
                    prepared: recovered.prepared,
                },
            ),
            None => (
                WatermarkState { sequence: SequenceNumber::ZERO, executed: GtidSet::new(), catalog },
                LastCut {
                    prepared: PreparedSet::default(),
                    sequence: 0,
                    rows: SharedMap::new(),
                    rows_sum: 0,
                    catalog: None,
                    parts: None,
                    is_consistent: true,
                },
            ),
        };
        Store {
            lanes,
            visibility: Visibility::new(watermark, layers),
            disk,
            scratch,
            next_generation: AtomicU64::new(1),
            last_cut: Mutex::new(last_cut),
            recovered_ledger,
            copied: Mutex::new(BTreeMap::new()),
            is_consistent: AtomicBool::new(consistent_at.is_none()),
            consistent_at,
            recovered_prepared,
            segments,
            readers: reader::Readers::default(),
            waits,
            changes: TableChanges::default(),
        }
    }

    /// After a copy without a lock: GTIDs that replay must reach before the rows are exact. Keeps its value once they
    /// are reached.
    #[must_use]
    pub fn consistent_at(&self) -> Option<&GtidSet> {
        self.consistent_at.as_ref()
    }

    /// Whether the visible state is one that the source had. Callers must check this before they show rows.
    ///
    /// # Errors
    /// [`StoreError::NotYetConsistent`] after a copy without a lock, until the watermark covers the copy's end.
    pub fn readable(&self) -> Result<(), StoreError> {
        if self.is_consistent.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Some(until) = &self.consistent_at else { return Ok(()) };
        let missing = until.subtract(&self.visibility.executed());
        if missing.is_empty() {
            self.is_consistent.store(true, Ordering::Relaxed);
            return Ok(());
        }
        Err(StoreError::NotYetConsistent { until: until.to_string().replace('\n', ""), missing: missing.count() })
    }

    /// When each table was changed last.
    #[must_use]
    pub fn changes(&self) -> &TableChanges {
        &self.changes
    }

    pub(crate) fn readers(&self) -> &reader::Readers {
        &self.readers
    }

    /// Number of lanes, a power of two.
    #[must_use]
    pub fn lane_count(&self) -> usize {
        self.lanes
    }

    /// Lane of a key hash.
    #[must_use]
    pub fn lane_of(&self, hash: u64) -> usize {
        base::lane_of(hash, self.lanes)
    }

    /// The visible state and its readers.
    #[must_use]
    pub fn visibility(&self) -> &Visibility {
        &self.visibility
    }

    /// The tree; None for an in-memory store.
    #[must_use]
    pub fn disk(&self) -> Option<&Arc<Disk>> {
        self.disk.as_ref()
    }

    /// The ledger in the cut that this store was opened from; empty without a cut.
    #[must_use]
    pub fn recovered_ledger(&self) -> &str {
        &self.recovered_ledger
    }

    /// XA transactions prepared at the cut that this store was opened from.
    #[must_use]
    pub fn recovered_prepared(&self) -> &PreparedSet {
        &self.recovered_prepared
    }

    /// Sequence number of the newest cut.
    #[must_use]
    pub fn last_cut(&self) -> u64 {
        self.cut_state().sequence
    }

    pub(crate) fn scratch_for_check(&self) -> Option<index_entries::Scratch> {
        let (folder, disk) = (self.scratch.as_ref()?.join("check"), self.disk.as_ref()?);
        let bytes_max = index_entries::gathered_bytes_max(0);
        Some(index_entries::Scratch { folder, kept: disk.kept().clone(), bytes_max })
    }

    pub(crate) fn cut_state(&self) -> std::sync::MutexGuard<'_, LastCut> {
        self.last_cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seals the active generation; later writes go into a new one. With a point, the sealed generation ends at that
    /// transaction boundary and can be cut; without one, it belongs to an unfinished transaction. Called by the single
    /// sequencing thread, before it hands on later pieces. Returns the sealed generation.
    pub fn seal(&self, point: Option<CutPoint>) -> Arc<Generation> {
        let number = self.next_generation.fetch_add(1, Ordering::Relaxed);
        let sealed = Arc::clone(&self.visibility.layers().active);
        if let Some(point) = point {
            sealed.seal(point);
        }
        // The next generation is likely to need as much.
        self.segments.keep(base::to_usize(sealed.lane_bytes()));
        self.visibility.put_on_top(Generation::new(
            number,
            self.lanes,
            self.disk.is_none(),
            &self.segments,
            &self.waits,
        ));
        sealed
    }

    /// Cuts a sealed generation together with everything below it. All its pieces must be applied and visible. The cut
    /// is durable on return.
    ///
    /// # Errors
    /// When the tree cannot be written; the generations stay in memory.
    pub fn cut(&self, sealed: &Generation) -> Result<CutReport, StoreError> {
        let Some(disk) = &self.disk else { return Ok(CutReport::default()) };
        let point = sealed.point();
        let point = point.ok_or(StoreError::defect("a generation is cut that was not sealed at a boundary"))?;
        let layers = self.visibility.layers();
        let from = layers
            .below
            .iter()
            .position(|layer| matches!(layer, Layer::Memory(generation) if generation.number() == sealed.number()));
        let cutting = from.and_then(|from| layers.below.get(from..));
        let cutting = cutting.ok_or(StoreError::defect("a generation is cut that is not among the layers"))?;
        let mut state = self.cut_state();
        let copied = self.copied().clone();
        let (rows, rows_sum) = rows_at(&state, cutting, &point.catalog, &copied);
        let scratch = self.scratch.as_deref();
        // Only cuts, fills and new copies change the index states, all of them under `last_cut`, which is held here.
        let indexes = Arc::clone(&self.visibility.layers().indexes);
        let (consistent_at, prepared) = (self.consistent_at.as_ref(), &state.prepared);
        let records_due = disk.damage_list().records_due();
        let before = state.catalog.as_ref().map(|catalog| TableFacts { catalog, rows: &state.rows, indexes: &indexes });
        let to = cut::CutTo {
            disk,
            scratch,
            indexes: &indexes,
            copied: &copied,
            consistent_at,
            before: before.zip(state.parts),
            all_records: !records_due.is_empty(),
            prepared,
        };
        let cut::Written { run, mut report, indexes, parts, mut findings } = cut::write(&to, cutting, point, &rows)?;
        disk.save_drift(&mut findings)?;
        // Held until the layers are replaced: otherwise compaction could publish a newer view, and this one would
        // replace it.
        let version_lock = disk.version_lock();
        report.bytes = run.finish(&version_lock)?;
        let tree = TreeAt { disk: Arc::clone(disk), view: disk.take_over(&version_lock) };
        self.visibility.put_base(sealed.number(), tree, Arc::new(indexes));
        drop(version_lock);
        // The cut is durable, so compaction may drop the tables that it no longer knows (invariant 2).
        disk.dead().set_alive(&point.catalog);
        disk.damage_list().records_rewritten(&records_due);
        let is_consistent = consistent_at.is_none_or(|set| set.is_subset_of(&point.executed));
        let (catalog, prepared) = (Some(point.catalog.clone()), Arc::clone(&point.prepared));
        let (sequence, parts) = (point.sequence, Some(parts));
        *state = LastCut { sequence, rows, rows_sum, catalog, parts, is_consistent, prepared };
        match disk.forget_dead_drift() {
            // The cut is done; the next one shortens the list.
            Err(StoreError::DiskFull { .. }) => {}
            result => result?,
        }
        Ok(report)
    }

    fn copied(&self) -> std::sync::MutexGuard<'_, BTreeMap<TableId, Arc<TableDef>>> {
        self.copied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the copy of a table. The copy has an id of its own that no catalog knows, next to the table of the same
    /// name; from here on its rows are kept and cut.
    pub fn begin_table_copy(&self, table: &Arc<TableDef>) {
        self.copied().insert(table.id, Arc::clone(table));
        if let Some(disk) = &self.disk {
            disk.dead().keep(table.id.0);
            let state = self.cut_state();
            let indexes = self.visibility.layers().indexes.with_copied(table.id);
            self.visibility.set_indexes(Arc::new(indexes));
            drop(state);
        }
    }

    /// Ends the reading of a table copy: its `rows` rows are in the tree, and changes to the table may follow.
    pub fn table_copy_read(&self, table: TableId, rows: i64) {
        self.cut_state().rows.insert(table.0, rows);
        if let Some(disk) = &self.disk {
            self.take_over(disk);
        }
    }

    /// Ends a table copy: either the table is in the catalog of a durable cut, or the copy was abandoned and its rows
    /// are dropped.
    pub fn end_table_copy(&self, table: TableId) {
        self.copied().remove(&table);
        let mut state = self.cut_state();
        if state.catalog.as_ref().is_none_or(|catalog| catalog.table_by_id(table).is_none()) {
            state.rows.remove(&table.0);
        }
        drop(state);
        if let Some(disk) = &self.disk {
            disk.dead().keep_no_more(table.0);
        }
    }

    /// Moves a sealed generation of an unfinished transaction from memory to disk. All its pieces must be applied.
    ///
    /// # Errors
    /// When the scratch folder cannot be written.
    pub fn spill(
        self: &Arc<Store>,
        sealed: &Arc<Generation>,
        sequence: u64,
        catalog: &Catalog,
    ) -> Result<(), StoreError> {
        let (Some(scratch), Some(tree)) = (&self.scratch, &self.disk) else { return Ok(()) };
        let folder = scratch.join(sealed.number().to_string());
        // Deltas are applied to rows of the tree while compaction runs, so the layers are pinned.
        let spilled = Disk::open_scratch(&folder, tree.kept())
            .and_then(|disk| cut::spill(&disk, &PinnedLayers::pin(self), sealed, catalog).map(|()| disk));
        let disk = spilled.inspect_err(|_| {
            // Others need the space; what remains is removed by the next try, or the next start.
            let _ = disk::remove_folder(&folder);
        })?;
        let balances = layers::tables_of(sealed).into_iter().map(|id| (id.0, balance_of(sealed, id))).collect();
        let ids = |set: IndexSet| set.indexes().iter().map(catalog::Index::id).collect();
        let indexes = layers::tables_of(sealed).into_iter().filter_map(|id| {
            let set = IndexSet::of(catalog.table_by_id(id)?)?;
            Some((id.0, ids(set)))
        });
        let indexes = indexes.collect();
        let tree = TreeAt::newest(&Arc::new(disk));
        self.visibility.put_spill(sealed.number(), Spill { tree, sequence, folder, balances, indexes });
        Ok(())
    }

    /// Takes one step of compaction or of filling a new index; false if there is nothing to do.
    ///
    /// # Errors
    /// When the tree cannot be read or written.
    pub fn compact(&self) -> Result<bool, StoreError> {
        Ok(self.compact_near(false)? || self.compact_middle(false)? || self.compact_deep(false)?)
    }

    /// Takes one step of the compaction that cuts depend on, or of filling a new index; see [`Disk::compact_near`].
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_near(&self, idle: bool) -> Result<bool, StoreError> {
        let Some(disk) = &self.disk else { return Ok(false) };
        let space = disk.space.get().and_then(|space| space.look());
        match space.is_some_and(|space| space.is_short()) {
            true => self.visibility.tidy_for_space(),
            false => self.visibility.tidy(),
        }
        // A fill adds runs of its own, so with many runs compaction goes first.
        if disk.l0_runs() < L0_RUNS_MAX / 2 && self.fill_step(disk)? {
            return Ok(true);
        }
        self.compacted(disk, |oldest_read| disk.compact_near(oldest_read, idle))
    }

    /// Takes one step of merging runs of several cuts; see [`Disk::compact_middle`].
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_middle(&self, idle: bool) -> Result<bool, StoreError> {
        let Some(disk) = &self.disk else { return Ok(false) };
        self.compacted(disk, |oldest_read| disk.compact_middle(oldest_read, idle))
    }

    /// Takes one step of merging large runs; see [`Disk::compact_deep`].
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_deep(&self, idle: bool) -> Result<bool, StoreError> {
        let Some(disk) = &self.disk else { return Ok(false) };
        self.compacted(disk, |oldest_read| disk.compact_deep(oldest_read, idle))
    }

    /// Takes a step, given the oldest number in use by a reader, and publishes the result to readers.
    fn compacted(
        &self,
        disk: &Arc<Disk>,
        step: impl FnOnce(u64) -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        let did = step(disk.oldest_read())?;
        if did {
            self.take_over(disk);
        }
        Ok(did)
    }

    /// Takes compaction steps until none is due, for measurements that must not pay for earlier writes.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_until_idle(&self) -> Result<(), StoreError> {
        let Some(disk) = &self.disk else { return Ok(()) };
        disk.compact_until_idle(disk.oldest_read())?;
        self.take_over(disk);
        Ok(())
    }

    /// Aborts running merges, and prevents new ones until it is called with false: for a shutdown that cannot wait for
    /// them.
    pub fn break_off_merges(&self, break_off: bool) {
        if let Some(disk) = &self.disk {
            disk.break_off_merges(break_off);
        }
    }

    /// Merges everything that was cut into the last level, and so compares it with what the log says of every row; see
    /// [`Disk::merge_into_last`] and [`Disk::drift`].
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn check_rows(&self) -> Result<(), StoreError> {
        let Some(disk) = &self.disk else { return Ok(()) };
        disk.merge_into_last(|| disk.oldest_read())?;
        self.take_over(disk);
        Ok(())
    }

    /// Merges the whole tree into one run, for measurements and tests.
    ///
    /// # Errors
    /// As `compact`.
    pub fn compact_fully(&self) -> Result<(), StoreError> {
        let Some(disk) = &self.disk else { return Ok(()) };
        disk.compact_fully(disk.oldest_read())?;
        self.take_over(disk);
        Ok(())
    }

    /// Lets new snapshots read the tree at its newest number, so that replaced files can be removed.
    fn take_over(&self, disk: &Arc<Disk>) {
        let version_lock = disk.version_lock();
        let tree = TreeAt { disk: Arc::clone(disk), view: disk.take_over(&version_lock) };
        self.visibility.move_base(tree, None);
    }

    /// Wait times of readers for lanes being written, and of writers for lanes being read.
    #[must_use]
    pub fn lane_waits(&self) -> (WaitStats, WaitStats) {
        (self.waits.readers.stats(), self.waits.writers.stats())
    }

    /// Rows of a table that these layers hold or have below them.
    pub(crate) fn rows_of(&self, layers: &Layers, table: TableId) -> u64 {
        let cut = self.cut_state().rows.get(&table.0).copied().unwrap_or(0);
        let below: i64 = layers.below.iter().map(|layer| balance(layer, table)).sum();
        u64::try_from(cut + balance_of(&layers.active, table) + below).unwrap_or(0)
    }

    /// Memory and counts. Walks all lanes: call it for status output, not per piece.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        let layers = self.visibility.layers();
        let catalog = self.visibility.current().catalog;
        let mut stats = StoreStats { disk: self.disk.as_ref().map(|disk| disk.stats()), ..StoreStats::default() };
        let mut all = vec![Layer::Memory(Arc::clone(&layers.active))];
        all.extend(layers.below.iter().cloned());
        stats.sealed = layers.below.len() as u64;
        stats.indexes_to_fill = match &layers.base {
            Some(_) => layers.indexes.incomplete(&catalog),
            None => 0,
        };
        let rows = rows_at(&self.cut_state(), &all, &catalog, &BTreeMap::new()).1;
        stats.memory.rows = u64::try_from(rows).unwrap_or(0);
        for layer in &all {
            let Layer::Memory(generation) = layer else { continue };
            for lane in generation.lanes() {
                let (bytes, dead) = lane.memory();
                stats.memory.bytes += bytes;
                stats.memory.dead_bytes += dead;
            }
            stats.memory.bytes += generation.bytes() - generation.lane_bytes();
        }
        stats
    }
}

fn balance_of(generation: &Generation, table: TableId) -> i64 {
    generation.lanes().map(|lane| lane.balance(table)).sum()
}

fn balance(layer: &Layer, table: TableId) -> i64 {
    match layer {
        Layer::Memory(generation) => balance_of(generation, table),
        Layer::Spill(spill) => spill.balances.get(&table.0).copied().unwrap_or(0),
    }
}

/// Row counts under this catalog with what these layers add to a cut, and their sum over the catalog's tables. Only
/// tables that have rows in the layers, and those that came or went since the cut, are looked at.
fn rows_at(
    last: &LastCut,
    layers: &[Layer],
    catalog: &Catalog,
    copied: &BTreeMap<TableId, Arc<TableDef>>,
) -> (SharedMap<u32, i64>, i64) {
    let (mut rows, mut sum) = (last.rows.clone(), last.rows_sum);
    let none = Catalog::new(catalog.lower_case_table_names());
    for change in catalog.changes_since(last.catalog.as_ref().unwrap_or(&none)) {
        let counted = rows.get(&change.key.0).copied().unwrap_or(0);
        match (change.before, change.after) {
            (Some(_), None) => {
                sum -= counted;
                rows.remove(&change.key.0);
            }
            (None, Some(_)) => sum += counted,
            _ => {}
        }
    }
    for id in cut::ids_in(layers) {
        let is_known = catalog.table_by_id(id).is_some();
        let more: i64 = layers.iter().map(|layer| balance(layer, id)).sum();
        if more != 0 && (is_known || copied.contains_key(&id)) {
            let counted = rows.get(&id.0).copied().unwrap_or(0);
            rows.insert(id.0, counted + more);
            sum += if is_known { more } else { 0 };
        }
    }
    (rows, sum)
}
