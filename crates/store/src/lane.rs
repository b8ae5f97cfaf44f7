//! A lane: the rows that one apply worker owns, by table.
//!
//! In: row changes of this lane, in log order. Out: versions. Never here: a mismatch between row and log that goes
//! unnoticed although `check_images` asks for the check (invariant 20).

use std::sync::Arc;

use catalog::{ConversionBuffers, IndexSet, KeyOrder, RowVersions, TableDef, TableId};
use values::{ColumnType, OFFSET_ABSENT, OFFSET_NULL, RowLayout, ValueError, type_code};

use crate::arena::{Cursor, RecordRef, SegmentPool};
use crate::beneath::{Base, Bases};
use crate::error::StoreError;
use crate::layers::{Below, Depth, Layer, Layers};
use crate::parts::{self, Parts};
use crate::scan::ScanBuffer;
use crate::table::{Content, KeyContent, LaneTable, Version, WARM_AT_ONCE, Written};

/// What a lane must know of a table.
#[derive(Clone, Copy)]
pub struct TableShape<'a> {
    /// Names its rows.
    pub id: TableId,
    /// How to walk its images.
    pub layout: &'a RowLayout,
    /// Type of each column.
    pub types: &'a [ColumnType],
    /// Where its rows stand on disk.
    pub order: &'a KeyOrder,
    /// Version of its definition: that of the images that are written.
    pub definition: u32,
    /// How images of earlier versions are read.
    pub versions: &'a RowVersions,
}

/// What a [`TableShape`] is lent from, made of a definition.
#[derive(Clone, Debug)]
pub struct OwnedShape {
    id: TableId,
    definition: u32,
    types: Vec<ColumnType>,
    layout: RowLayout,
    order: KeyOrder,
    versions: RowVersions,
}

impl OwnedShape {
    /// Of this definition.
    #[must_use]
    pub fn of(table: &TableDef) -> OwnedShape {
        let types = table.column_types();
        OwnedShape {
            id: table.id,
            definition: table.version,
            layout: RowLayout::new(&types),
            types,
            order: KeyOrder::of(table),
            versions: RowVersions::of(table),
        }
    }

    /// To be lent to the store.
    #[must_use]
    pub fn lend(&self) -> TableShape<'_> {
        TableShape {
            id: self.id,
            layout: &self.layout,
            types: &self.types,
            order: &self.order,
            definition: self.definition,
            versions: &self.versions,
        }
    }
}

/// How far the stored row is compared with what the log says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CheckImages {
    /// Rows are put and removed blindly.
    Off,
    /// An UPDATE or DELETE must find its row, an INSERT must not, where that is known without reading from disk; every
    /// 16th before image is compared with a row in memory, every 1,024th with one that must be read from disk. More
    /// would cost more than the 2 % that invariant 20 allows: reading every 16th took 40 % of apply, every 256th 14 %.
    #[default]
    Sample,
    /// As `Sample`, and every before image is compared.
    All,
    /// Between the two ends of a copy without a lock: a row is put or removed whatever is there. Looked for it is, so
    /// that rows are counted right. What a partial image says of a row that is not there is left out: for this key a
    /// deletion or a whole row follows before the copy settles.
    Settling,
}

impl CheckImages {
    /// Whether a row that is not as the log says is an error.
    #[inline]
    fn refuses(self) -> bool {
        matches!(self, CheckImages::Sample | CheckImages::All)
    }
}

/// What a row event says the row was.
#[derive(Clone, Copy, Debug)]
pub enum BeforeImage<'a> {
    /// Nothing to compare with.
    None,
    /// All columns.
    Full(&'a [u8]),
    /// The columns in the bitmap only.
    Partial {
        /// One bit per column of the table.
        present: &'a [u8],
        /// Null bitmap over the present columns, then values.
        image: &'a [u8],
    },
}

/// One change of one row of this lane.
#[derive(Clone, Copy, Debug)]
pub enum RowChange<'a> {
    /// A new row.
    Insert {
        /// All columns.
        image: &'a [u8],
    },
    /// The row gets a new image; its key stays.
    Update {
        /// What it was.
        before: BeforeImage<'a>,
        /// All columns.
        image: &'a [u8],
    },
    /// The row gets new values in some columns; its key stays.
    Merge {
        /// What it was.
        before: BeforeImage<'a>,
        /// The columns that the image holds.
        present: &'a [u8],
        /// Null bitmap over the present columns, then values.
        image: &'a [u8],
        /// The row need not be looked for on disk: what the image holds may stand for it until a cut or a reader puts
        /// the row together. False: the new row is whole. Asked for while the table's definition stays as it is only.
        later: bool,
    },
    /// As `Merge`, where the image holds differences of some JSON documents.
    MergeJson {
        /// What it was.
        before: BeforeImage<'a>,
        /// The columns that the image holds; None for all.
        present: Option<&'a [u8]>,
        /// One bit per JSON column of the table: its value is differences.
        partial: &'a [u8],
        /// Null bitmap over the present columns, then values.
        image: &'a [u8],
    },
    /// The row goes.
    Delete {
        /// What it was.
        before: BeforeImage<'a>,
    },
    /// One more copy of a row of a table without a key; the key is the whole image.
    AddCopy {
        /// As with `Merge`: the copies there are need not be looked up.
        later: bool,
    },
    /// One copy less.
    RemoveCopy {
        /// As with `AddCopy`.
        later: bool,
    },
}

/// Why a row change does not fit the stored row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowErrorKind {
    /// ER_KEY_NOT_FOUND (1032): the row to change is not there.
    NotFound,
    /// ER_DUP_ENTRY (1062): the row to insert is there already.
    Duplicate,
    /// The row is there and differs from the before image.
    Differs,
    /// The stored image and the table's definition do not fit together.
    Damaged,
    /// A key change whose after image lacks columns, before a copy without a lock has settled.
    Unsettled,
    /// ER_COULD_NOT_APPLY_JSON_DIFF: differences that do not fit the stored document.
    JsonDiff(values::ValueError),
    /// What the change asks for cannot be done here.
    NotSupported(String),
    /// The store's files cannot be read.
    Store(StoreError),
    /// The store's own structures contradict each other: a defect of this program.
    Defect(&'static str),
}

/// A row change that does not fit; nothing of it was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", match kind {
    RowErrorKind::Store(error) => error.to_string(),
    RowErrorKind::NotFound => "Can't find record (1032): the row to change is not in the replica".to_owned(),
    RowErrorKind::Duplicate => "Duplicate entry (1062): the row to insert is in the replica already".to_owned(),
    RowErrorKind::Differs => "the row in the replica differs from the before image in the log".to_owned(),
    RowErrorKind::NotSupported(reason) => format!("not supported: {reason}"),
    RowErrorKind::Unsettled => "a key change whose image lacks columns while the copy taken without a lock is not settled: \
        the session that made it did not log whole rows (binlog_row_image=FULL); copy anew into an empty folder".to_owned(),
    RowErrorKind::JsonDiff(error) => format!("Could not apply JSON diff: {error}"),
    RowErrorKind::Damaged => "a stored row does not fit its table's definition".to_owned(),
    RowErrorKind::Defect(what) => format!("{what} (a defect of Slipstream)"),
})]
pub struct RowError {
    /// What does not fit.
    pub kind: RowErrorKind,
}

/// Memory and counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneStats {
    /// Rows of the tables there are, as their newest versions have them.
    pub rows: u64,
    /// Bytes taken from the allocator.
    pub bytes: u64,
    /// Of them versions nobody can see.
    pub dead_bytes: u64,
}

/// Rows that [`Lane::warm`] takes at once: more misses at once than a core has, and small enough that what is warmed
/// is still there when it is used.
pub const WARM_ROWS: usize = WARM_AT_ONCE;

#[derive(Default)]
struct Table {
    rows: LaneTable,
    /// Of a table with secondary indexes, where something lies below: see `beneath`.
    bases: Bases,
    keyless: bool,
    /// Parts were written.
    has_parts: bool,
    /// Rows that came less rows that went.
    balance: i64,
    /// Bytes counted in the lane's.
    counted: usize,
}

/// One version in the order of the table's slots, for a cut.
pub(crate) struct Held<'a> {
    pub key: &'a [u8],
    pub content: Content<'a>,
    /// Version of the definition that the image was written under.
    pub definition: u32,
    /// How many copies of the row, without a key.
    pub copies: u64,
    /// What lies below, for secondary indexes.
    pub base: Base<'a>,
}

/// What a generation holds of a row, with its definition's version.
pub(crate) enum Standing<'a> {
    Row(crate::Row<'a>, u32),
    /// See `parts`.
    Part {
        key: &'a [u8],
        part: &'a [u8],
        definition: u32,
    },
    Gone,
}

/// See the module.
pub struct Lane {
    /// Nothing lies below: deleted rows leave no trace.
    bottom: bool,
    bytes: usize,
    /// By table id: ids are small and dense.
    tables: Vec<Option<Box<Table>>>,
    /// Tables that DDL took away, and the sequence number of that DDL.
    dying: Vec<(u64, TableId)>,
    /// Merged images are built here.
    scratch: Vec<u8>,
    /// Old images from below are copied here.
    below: Vec<u8>,
    /// Old images of earlier definitions are converted here.
    buffers: ConversionBuffers,
    /// Sort keys of rows below are made here.
    base_keys: Vec<u8>,
    /// Parts above a row that is looked for.
    parts: Parts,
    segments: Arc<SegmentPool>,
}

impl Table {
    /// Room for as many rows as the newest sealed generation has: growing by and by costs a twentieth of apply.
    fn like(layers: &Layers, lane: usize, table: TableId, segments: &Arc<SegmentPool>) -> Box<Table> {
        let sealed = layers.newest_sealed();
        let rows = sealed.map_or(0, |generation| generation.lane(lane).slot_count(table));
        Box::new(Table { rows: LaneTable::with_capacity(rows, segments), ..Table::default() })
    }

    fn standing<'a>(&self, (key, content, definition): KeyContent<'a>) -> Standing<'a> {
        match content {
            Content::Row(image) if self.keyless => {
                Standing::Row(crate::Row { key, image: key, count: copies_of(image) }, definition)
            }
            Content::Row(image) => Standing::Row(crate::Row { key, image, count: 1 }, definition),
            Content::Part(part) => Standing::Part { key, part, definition },
            Content::Gone => Standing::Gone,
        }
    }
}

/// What a row was before a change.
#[derive(Clone, Copy)]
enum Old<'a> {
    Live(&'a [u8]),
    Gone,
    /// Nobody looked.
    Unknown,
}

impl Lane {
    pub(crate) fn new(bottom: bool, segments: &Arc<SegmentPool>) -> Lane {
        Lane {
            bottom,
            bytes: 0,
            tables: Vec::new(),
            dying: Vec::new(),
            scratch: Vec::new(),
            below: Vec::new(),
            buffers: ConversionBuffers::default(),
            base_keys: Vec::new(),
            parts: Parts::default(),
            segments: Arc::clone(segments),
        }
    }

    /// Applies one change of the row `key` (whose hash is `hash`) of a table at `sequence`. `lane` is this lane's
    /// number; what is not in this generation is looked for in `layers`, of which this lane is in the active one.
    ///
    /// # Errors
    /// When the stored row is not as the log says, or the store cannot be read; nothing was changed then.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub fn apply(
        &mut self,
        lane: usize,
        shape: &TableShape<'_>,
        hash: u64,
        key: &[u8],
        change: RowChange<'_>,
        sequence: u64,
        oldest_needed: u64,
        check: CheckImages,
        layers: &Layers,
    ) -> Result<(), RowError> {
        let index = shape.id.0 as usize;
        if self.tables.len() <= index {
            self.tables.resize_with(index + 1, || None);
        }
        let entry = self.tables[index].get_or_insert_with(|| Table::like(layers, lane, shape.id, &self.segments));
        let rows = &mut entry.rows;
        let found = rows.find(hash, key);
        let compare = match check {
            CheckImages::Off | CheckImages::Settling => false,
            CheckImages::Sample => hash & 0xf == 0,
            CheckImages::All => true,
        };
        let (below, buffers, above) = (&mut self.below, &mut self.buffers, &mut self.parts);
        let damaged = |_| RowError { kind: RowErrorKind::Damaged };
        let later = !self.bottom && !reads(check, hash) && stands_as_part(shape, &change, check);
        let old = match &found {
            Some(found) if found.is_deleted() => Old::Gone,
            Some(found) if found.is_part() && (later || !needs_row(shape, &change)) => Old::Unknown,
            Some(found) if found.is_part() => {
                above.clear();
                above.push(rows.image(found), found.definition(), shape.versions).map_err(store_error)?;
                let looked = layers.newest_below(shape, lane, hash, key, Depth::Disk, above, below);
                match looked.map_err(store_error)? {
                    Below::Live => Old::Live(below),
                    Below::Gone | Below::Unknown => Old::Gone,
                }
            }
            Some(found) if shape.versions.is_current(found.definition()) => Old::Live(rows.image(found)),
            Some(found) => {
                let read = shape.versions.read(found.definition(), rows.image(found), buffers);
                Old::Live(read.map_err(damaged)?)
            }
            None if self.bottom => Old::Gone,
            None => {
                let depth = match depth_of(shape, &change, reads(check, hash), check) {
                    // In memory the whole row is at hand.
                    Some(Depth::Disk) if later => Some(Depth::Memory),
                    depth => depth,
                };
                above.clear();
                let looked = match depth {
                    Some(depth) => layers.newest_below(shape, lane, hash, key, depth, above, below),
                    None => Ok(Below::Unknown),
                };
                match looked.map_err(store_error)? {
                    Below::Live => Old::Live(below),
                    Below::Gone => Old::Gone,
                    Below::Unknown => Old::Unknown,
                }
            }
        };
        let fail = |kind| Err(RowError { kind });
        let mut is_part = false;
        // What the row is after it: its image, or None when it goes.
        let image = match change {
            RowChange::Insert { image } => {
                if matches!(old, Old::Live(_)) && check.refuses() {
                    return fail(RowErrorKind::Duplicate);
                }
                Some(image)
            }
            RowChange::Update { before, image } => {
                check_old(shape, &old, before, compare, check)?;
                Some(image)
            }
            RowChange::Merge { present, image, .. } if later && matches!(old, Old::Unknown) => {
                self.scratch.clear();
                is_part = true;
                match &found {
                    Some(found) => {
                        let (older, out) = (rows.image(found), &mut self.scratch);
                        parts::append_both(shape.layout, older, present, image, out).map_err(damaged)?;
                    }
                    None => parts::append(present, image, &mut self.scratch),
                }
                entry.has_parts = true;
                Some(self.scratch.as_slice())
            }
            RowChange::Merge { before, present, image, .. } => {
                let Old::Live(stored) = old else {
                    return if check == CheckImages::Settling { Ok(()) } else { fail(RowErrorKind::NotFound) };
                };
                check_old(shape, &old, before, compare, check)?;
                self.scratch.clear();
                shape.layout.merge(stored, present, image, &mut self.scratch).map_err(damaged)?;
                Some(self.scratch.as_slice())
            }
            RowChange::MergeJson { before, present, partial, image } => {
                let Old::Live(stored) = old else { return fail(RowErrorKind::NotFound) };
                check_old(shape, &old, before, compare, check)?;
                self.scratch.clear();
                merge_json(shape, stored, present, partial, image, &mut self.scratch)?;
                Some(self.scratch.as_slice())
            }
            RowChange::Delete { before } => {
                check_old(shape, &old, before, compare, check)?;
                if matches!(old, Old::Gone) {
                    return Ok(());
                }
                None
            }
            RowChange::AddCopy { .. } | RowChange::RemoveCopy { .. } if later && matches!(old, Old::Unknown) => {
                let before = found.as_ref().map_or(0, |found| parts::difference(rows.image(found)));
                let one = if matches!(change, RowChange::AddCopy { .. }) { 1 } else { -1 };
                (is_part, entry.has_parts, entry.keyless) = (true, true, true);
                self.scratch.clear();
                self.scratch.extend_from_slice(&before.saturating_add(one).to_le_bytes());
                Some(self.scratch.as_slice())
            }
            RowChange::AddCopy { .. } | RowChange::RemoveCopy { .. } => {
                entry.keyless = true;
                let copies = match old {
                    Old::Live(bytes) => copies_of(bytes),
                    _ => 0,
                };
                let now = if matches!(change, RowChange::AddCopy { .. }) {
                    copies + 1
                } else if copies == 0 {
                    // Without a copy to remove there is nothing to count down, whatever the check.
                    return fail(RowErrorKind::NotFound);
                } else {
                    copies - 1
                };
                self.scratch.clear();
                self.scratch.extend_from_slice(&now.to_le_bytes());
                (now > 0).then_some(self.scratch.as_slice())
            }
        };
        let base = match shape.order.indexes() {
            // What a part holds is in no index.
            Some(indexes) if !self.bottom && !is_part => {
                let held = found.as_ref().map(|found| entry.bases.get(found.slot));
                base_of(indexes, shape.order.is_keyless(), held, &old, &change, image, &mut self.base_keys)?
            }
            _ => Base::Same,
        };
        entry.balance += match change {
            RowChange::Insert { .. } if !matches!(old, Old::Live(_)) => 1,
            RowChange::Update { .. } if matches!(old, Old::Gone) => 1,
            RowChange::Delete { .. } | RowChange::RemoveCopy { .. } => -1,
            RowChange::AddCopy { .. } => 1,
            _ => 0,
        };
        let definition = shape.definition;
        let content = match image {
            Some(image) if is_part => Content::Part(image),
            Some(image) => Content::Row(image),
            None => Content::Gone,
        };
        let version = Version { sequence, content, definition };
        // The borrow of the old image ends here.
        let keep_graves = self.bottom;
        let slot = entry.rows.append(found, hash, key, version, oldest_needed, keep_graves);
        if base != Base::Same {
            entry.bases.set(slot, base);
        }
        Ok(())
    }

    /// Brings what [`Lane::apply`] will read of these rows (the first [`WARM_ROWS`] of them) into the cache, from this
    /// generation or the newest sealed one; changes nothing. Their cache misses overlap here; in `apply` each would
    /// wait for the one before.
    #[inline]
    pub fn warm(&self, lane: usize, layers: &Layers, rows: impl Iterator<Item = (TableId, u64)>) {
        let mut asked = [(TableId(0), 0); WARM_ROWS];
        let mut count = 0;
        for (place, row) in asked.iter_mut().zip(rows) {
            *place = row;
            count += 1;
        }
        let asked = &asked[..count];
        let mut found = [RecordRef::NONE; WARM_ROWS];
        self.warm_rows(asked, &mut found);
        if let Some(sealed) = layers.newest_sealed() {
            sealed.lane(lane).warm_rows(asked, &mut found);
        }
    }

    /// Two rounds over the rows not found yet: their slots, then their newest records.
    #[inline]
    fn warm_rows(&self, rows: &[(TableId, u64)], found: &mut [RecordRef; WARM_ROWS]) {
        let rows_of = |table: TableId| self.tables.get(table.0 as usize).and_then(|entry| Some(&entry.as_ref()?.rows));
        let mut here = [RecordRef::NONE; WARM_ROWS];
        for (((table, hash), at), _) in rows.iter().zip(&mut here).zip(found.iter()).filter(|(_, at)| at.is_none()) {
            *at = rows_of(*table).map_or(RecordRef::NONE, |rows| rows.warm_slot(*hash));
        }
        let mut sum = 0;
        for (((table, _), at), found) in rows.iter().zip(here).zip(found).filter(|((_, at), _)| !at.is_none()) {
            sum ^= rows_of(*table).map_or(0, |rows| rows.warm_record(at));
            *found = at;
        }
        std::hint::black_box(sum);
    }

    /// The newest image of a row, whatever is visible: for the one writer that moves a row between lanes. In this
    /// generation or below it; None when there is no such row.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn newest(
        &self,
        lane: usize,
        shape: &TableShape<'_>,
        hash: u64,
        key: &[u8],
        layers: &Layers,
        image: &mut Vec<u8>,
    ) -> Result<bool, RowError> {
        let mut above = Parts::default();
        let damaged = |_| RowError { kind: RowErrorKind::Damaged };
        match self.newest_version(shape.id, hash, key) {
            Some((Content::Row(found), definition)) => {
                image.clear();
                append_read(shape, definition, found, image).map_err(damaged)?;
                return Ok(true);
            }
            Some((Content::Gone, _)) => return Ok(false),
            None if self.bottom => return Ok(false),
            Some((Content::Part(part), definition)) => {
                above.push(part, definition, shape.versions).map_err(store_error)?;
            }
            None => {}
        }
        let below = layers.newest_below(shape, lane, hash, key, Depth::Disk, &mut above, image);
        Ok(below.map_err(store_error)? == Below::Live)
    }

    /// Makes whole rows of all that stands as parts of a table's rows in this lane, in whatever generation: before the
    /// statement `sequence` alters the table, which `shape` has as it was. Everything before that statement was applied
    /// here.
    ///
    /// The whole rows are versions of the statement's own number, so nobody sees them yet. A reader who sees them would
    /// pass over a row: it read the part above the row's layer, where a part has no place, and would find the row
    /// shadowed by a whole one when it comes to that layer.
    ///
    /// # Errors
    /// As `apply`.
    pub fn complete_parts(
        &mut self,
        lane: usize,
        shape: &TableShape<'_>,
        sequence: u64,
        oldest_needed: u64,
        layers: &Layers,
    ) -> Result<(), RowError> {
        if self.bottom {
            return Ok(());
        }
        let mut rows: Vec<(u64, Vec<u8>)> = Vec::new();
        self.each_part(shape.id, |hash, key| rows.push((hash, key.to_vec())));
        for layer in &layers.below {
            let Layer::Memory(generation) = layer else { continue };
            generation.lane(lane).each_part(shape.id, |hash, key| rows.push((hash, key.to_vec())));
        }
        rows.sort_unstable();
        rows.dedup();
        let mut image = Vec::new();
        for (hash, key) in rows {
            if matches!(self.newest_version(shape.id, hash, &key), Some((Content::Row(_) | Content::Gone, _))) {
                continue;
            }
            let there = self.newest(lane, shape, hash, &key, layers, &mut image)?;
            if !there && !shape.order.is_keyless() {
                // A generation in between has its end.
                continue;
            }
            let index = shape.id.0 as usize;
            if self.tables.len() <= index {
                self.tables.resize_with(index + 1, || None);
            }
            let entry = self.tables[index].get_or_insert_with(Box::default);
            entry.keyless = shape.order.is_keyless();
            let found = entry.rows.find(hash, &key);
            // As many copies of a keyless row may have gone as there were.
            let content = if there { Content::Row(&image) } else { Content::Gone };
            let version = Version { sequence, content, definition: shape.definition };
            entry.rows.append(found, hash, &key, version, oldest_needed, false);
        }
        self.tidy(std::iter::once(shape.id), oldest_needed);
        Ok(())
    }

    fn each_part(&self, table: TableId, each: impl FnMut(u64, &[u8])) {
        let entry = self.tables.get(table.0 as usize).and_then(Option::as_ref);
        if let Some(entry) = entry.filter(|entry| entry.has_parts) {
            entry.rows.each_part(each);
        }
    }

    /// The newest version in this generation, with its definition's version.
    pub(crate) fn newest_version(&self, table: TableId, hash: u64, key: &[u8]) -> Option<(Content<'_>, u32)> {
        let entry = self.tables.get(table.0 as usize)?.as_ref()?;
        let found = entry.rows.find(hash, key)?;
        Some((entry.rows.content(&found), found.definition()))
    }

    /// Bytes taken from the allocator, as of the last `tidy`.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    pub(crate) fn table_ids(&self) -> impl Iterator<Item = TableId> {
        let held = self.tables.iter().enumerate().filter(|(_, entry)| entry.is_some());
        held.map(|(index, _)| TableId(crate::short(index)))
    }

    pub(crate) fn is_keyless(&self, table: TableId) -> bool {
        self.tables.get(table.0 as usize).and_then(Option::as_ref).is_some_and(|entry| entry.keyless)
    }

    /// Rows that came to a table here, less those that went.
    pub(crate) fn balance(&self, table: TableId) -> i64 {
        self.tables.get(table.0 as usize).and_then(Option::as_ref).map_or(0, |entry| entry.balance)
    }

    /// Calls `each` for every row of a table with its newest version at or below `sequence`; rows without one are
    /// left out.
    pub(crate) fn each_held(&self, table: TableId, sequence: u64, mut each: impl FnMut(u64, Held<'_>)) {
        let Some(Some(entry)) = self.tables.get(table.0 as usize) else { return };
        let keyless = entry.keyless;
        entry.rows.each_newest(sequence, |place, (key, content, definition)| {
            each(place, Held { key, content, definition, copies: copies_in(keyless, content), base: Base::Same });
        });
    }

    /// Makes a place that `each_held` gave be read, see `LaneTable::touch`.
    pub(crate) fn touch(&self, table: TableId, place: u64) -> u8 {
        let entry = self.tables.get(table.0 as usize).and_then(Option::as_ref);
        entry.map_or(0, |entry| entry.rows.touch(place))
    }

    /// The version at a place that `each_held` gave; None only for a table that the lane does not hold.
    pub(crate) fn held_at(&self, table: TableId, place: u64) -> Option<Held<'_>> {
        let entry = self.tables.get(table.0 as usize)?.as_ref()?;
        let (key, content, definition) = entry.rows.at(place);
        let copies = copies_in(entry.keyless, content);
        Some(Held { key, content, definition, copies, base: entry.bases.get(entry.rows.slot_at(place)) })
    }

    /// As `LaneTable::written_since`, with images in place of counts of copies and their differences.
    pub(crate) fn written_since(
        &self,
        table: TableId,
        cursor: &mut Cursor,
        limits: (usize, usize),
        mut each: impl FnMut(Written<'_>),
    ) -> bool {
        let Some(Some(entry)) = self.tables.get(table.0 as usize) else { return false };
        entry.rows.written_since(cursor, limits, entry.keyless, |written| {
            if entry.keyless {
                // A table without a key stores its image as the key, once.
                let key = written.key;
                each(Written { image: key, before: written.before.map(|_| key), ..written });
            } else {
                each(written);
            }
        })
    }

    /// What a slot's row is at `sequence`; None when this generation has no version of it.
    pub(crate) fn visible(&self, table: TableId, slot: u32, sequence: u64) -> Option<Standing<'_>> {
        let entry = self.tables.get(table.0 as usize)?.as_ref()?;
        entry.rows.visible(slot, sequence).map(|content| entry.standing(content))
    }

    /// Rows that this generation holds of a table, deleted ones included.
    pub(crate) fn slot_count(&self, table: TableId) -> usize {
        self.tables.get(table.0 as usize).and_then(Option::as_ref).map_or(0, |entry| entry.rows.slot_count())
    }

    /// A table goes with transaction `sequence`; its rows stay for those who can see them.
    pub fn drop_table(&mut self, table: TableId, sequence: u64) {
        self.dying.push((sequence, table));
    }

    /// Frees what nobody can see any more, for `tables` that were just changed. Bounded work.
    pub fn tidy(&mut self, tables: impl Iterator<Item = TableId>, oldest_needed: u64) {
        for table in tables {
            if let Some(Some(entry)) = self.tables.get_mut(table.0 as usize) {
                entry.rows.tidy(oldest_needed);
                let now = entry.rows.bytes().0 + entry.bases.bytes();
                self.bytes = self.bytes + now - entry.counted;
                entry.counted = now;
            }
        }
        if !self.dying.is_empty() {
            let (tables, bytes) = (&mut self.tables, &mut self.bytes);
            self.dying.retain(|(sequence, table)| {
                let keep = *sequence > oldest_needed;
                if !keep && let Some(slot) = tables.get_mut(table.0 as usize) {
                    *bytes -= slot.take().map_or(0, |entry| entry.counted);
                }
                keep
            });
        }
    }

    /// What a row is at `sequence`; None when this generation has no version of it.
    pub(crate) fn get(&self, table: TableId, hash: u64, key: &[u8], sequence: u64) -> Option<Standing<'_>> {
        let entry = self.tables.get(table.0 as usize)?.as_ref()?;
        entry.rows.get(hash, key, sequence).map(|content| entry.standing(content))
    }

    pub(crate) fn copy_slots(
        &self,
        table: TableId,
        sequence: u64,
        from: u32,
        count: u32,
        out: &mut ScanBuffer,
    ) -> Option<u32> {
        let entry = self.tables.get(table.0 as usize)?.as_ref()?;
        entry.rows.slots(sequence, from, count, |hash, key, content, definition| match content {
            Content::Row(image) if entry.keyless => out.push(hash, key, &[], copies_of(image), definition),
            Content::Row(image) => out.push(hash, key, image, 1, definition),
            Content::Part(part) if entry.keyless => out.push_difference(hash, key, parts::difference(part), definition),
            // Its row is found below.
            Content::Part(_) | Content::Gone => {}
        })
    }

    /// Bytes taken from the allocator, and of them dead.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let tables = self.tables.iter().flatten().map(|entry| (entry.bases.bytes(), entry.rows.bytes()));
        tables.fold((0, 0), |sum, (bases, (bytes, dead))| (sum.0 + (bases + bytes) as u64, sum.1 + dead as u64))
    }
}

fn store_error(error: StoreError) -> RowError {
    match error {
        StoreError::RowMissing { .. } => RowError { kind: RowErrorKind::NotFound },
        StoreError::Defect { what } => RowError { kind: RowErrorKind::Defect(what) },
        error => RowError { kind: RowErrorKind::Store(error) },
    }
}

/// Whether the row is read from disk for its before image's sake alone.
#[inline]
fn reads(check: CheckImages, hash: u64) -> bool {
    match check {
        CheckImages::Off | CheckImages::Settling => false,
        CheckImages::Sample => hash & 0x3ff == 0,
        CheckImages::All => true,
    }
}

/// Whether what a change says may stand for its row until somebody needs the row.
#[inline]
fn stands_as_part(shape: &TableShape<'_>, change: &RowChange<'_>, check: CheckImages) -> bool {
    let unwatched = match change {
        RowChange::Merge { present, later: true, .. } => {
            shape.order.indexes().is_none_or(|indexes| !indexes.may_change(present))
        }
        // The cut must know of rows that come and go.
        RowChange::AddCopy { later: true } | RowChange::RemoveCopy { later: true } => shape.order.indexes().is_none(),
        _ => false,
    };
    unwatched && check != CheckImages::Settling
}

/// Whether a change cannot be carried out without the old row.
#[inline]
fn needs_row(shape: &TableShape<'_>, change: &RowChange<'_>) -> bool {
    match change {
        RowChange::Merge { .. } | RowChange::MergeJson { .. } => true,
        RowChange::AddCopy { .. } | RowChange::RemoveCopy { .. } => true,
        // Only a row that is there has parts.
        RowChange::Insert { .. } => true,
        // The log does not hold the values that index entries are to be removed by.
        RowChange::Update { before, .. } | RowChange::Delete { before } => {
            shape.order.indexes().is_some() && !matches!(before, BeforeImage::Full(_))
        }
    }
}

/// How far below the active generation a change needs its row to be looked for.
fn depth_of(shape: &TableShape<'_>, change: &RowChange<'_>, reads: bool, check: CheckImages) -> Option<Depth> {
    match change {
        RowChange::Insert { .. } => {}
        change if needs_row(shape, change) => return Some(Depth::Disk),
        _ => {}
    }
    if reads || check == CheckImages::Settling {
        return Some(Depth::Disk);
    }
    // In memory it is at hand (invariant 20).
    (check != CheckImages::Off).then_some(Depth::Memory)
}

/// An UPDATE or DELETE must find its row, and find it as the log says.
#[inline]
fn check_old(
    shape: &TableShape<'_>,
    old: &Old<'_>,
    before: BeforeImage<'_>,
    compare: bool,
    check: CheckImages,
) -> Result<(), RowError> {
    match old {
        Old::Live(stored) if compare => compare_before(shape.layout, shape.types, stored, before),
        Old::Gone if check.refuses() => Err(RowError { kind: RowErrorKind::NotFound }),
        _ => Ok(()),
    }
}

/// Appends an image, or a count of copies, as a lane holds it, read under the definition of `shape`.
pub(crate) fn append_read(
    shape: &TableShape<'_>,
    definition: u32,
    image: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    if shape.versions.is_current(definition) {
        out.extend_from_slice(image);
        return Ok(());
    }
    let mut buffers = ConversionBuffers::default();
    out.extend_from_slice(shape.versions.read(definition, image, &mut buffers)?);
    Ok(())
}

/// Appends the row that an image with differences of JSON documents makes of the stored one.
///
/// # Errors
/// When the differences do not fit.
pub fn merge_json(
    shape: &TableShape<'_>,
    stored: &[u8],
    present: Option<&[u8]>,
    partial: &[u8],
    image: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), RowError> {
    let is_partial = |json: usize| partial.get(json / 8).is_some_and(|byte| byte >> (json % 8) & 1 != 0);
    let merged = shape.layout.merge_partial(shape.types, stored, present, is_partial, image, out);
    merged.map_err(|error| RowError { kind: RowErrorKind::JsonDiff(error) })
}

/// What to remember of the layers below with a change. `held`: what is remembered already, where this generation has
/// the row. `Same` leaves it as it is.
fn base_of<'a>(
    indexes: &IndexSet,
    keyless: bool,
    held: Option<Base<'_>>,
    old: &Old<'_>,
    change: &RowChange<'_>,
    image: Option<&[u8]>,
    keys: &'a mut Vec<u8>,
) -> Result<Base<'a>, RowError> {
    if held.is_some_and(|base| base != Base::Same) {
        return Ok(Base::Same);
    }
    if keyless {
        // The image is the identity: it is below, or it is not.
        return Ok(if held.is_none() && matches!(old, Old::Gone) { Base::Absent } else { Base::Same });
    }
    let was = match (old, change) {
        (Old::Live(stored), _) => stored,
        // Deleted here while the table had no index: no cut asks.
        (Old::Gone, _) if held.is_some() => return Ok(Base::Same),
        (Old::Unknown, RowChange::Update { before, .. } | RowChange::Delete { before }) => match before {
            BeforeImage::Full(before) => before,
            // Always looked for: see `look_below`.
            BeforeImage::None | BeforeImage::Partial { .. } => return Ok(Base::Absent),
        },
        _ => return Ok(Base::Absent),
    };
    let damaged = |_| RowError { kind: RowErrorKind::Damaged };
    if let Some(image) = image
        && indexes.is_same(was, image).map_err(damaged)?
    {
        return Ok(Base::Same);
    }
    keys.clear();
    indexes.append_all(was, keys).map_err(damaged)?;
    Ok(Base::Keys(keys))
}

fn copies_in(keyless: bool, content: Content<'_>) -> u64 {
    match content {
        Content::Row(image) if keyless => copies_of(image),
        Content::Gone if keyless => 0,
        _ => 1,
    }
}

/// The copies of a keyless row as a lane holds them.
pub(crate) fn copies_of(image: &[u8]) -> u64 {
    match image.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => panic!("a count of copies of {} bytes", image.len()),
    }
}

#[inline]
fn compare_before(
    layout: &RowLayout,
    types: &[ColumnType],
    stored: &[u8],
    before: BeforeImage<'_>,
) -> Result<(), RowError> {
    let (present, image) = match before {
        BeforeImage::None => return Ok(()),
        BeforeImage::Full(image) if stored == image => return Ok(()),
        BeforeImage::Full(image) => (None, image),
        BeforeImage::Partial { present, image } => (Some(present), image),
    };
    if layout.images_equal(stored, present, image) || equal_but_for_json_layout(layout, types, stored, present, image) {
        return Ok(());
    }
    Err(RowError { kind: RowErrorKind::Differs })
}

/// Whether two images differ in nothing but how JSON documents are laid out: a document is its printed text
/// (invariant 21). A source that updates a document in place logs it with gaps.
#[cold]
fn equal_but_for_json_layout(
    layout: &RowLayout,
    types: &[ColumnType],
    stored: &[u8],
    present: Option<&[u8]>,
    image: &[u8],
) -> bool {
    if !types.iter().any(|ty| ty.code == type_code::JSON) {
        return false;
    }
    let (mut ours, mut logged) = (Vec::new(), Vec::new());
    let walked = match present {
        Some(present) => layout.walk_present(present, image, &mut logged),
        None => layout.walk_offsets(image, &mut logged),
    };
    if walked.is_err() || layout.walk_offsets(stored, &mut ours).is_err() {
        return false;
    }
    types.iter().zip(ours).zip(logged).all(|((ty, ours), logged)| {
        if logged.0 == OFFSET_ABSENT {
            return true;
        }
        let value = |bytes, (start, len): (u32, u32)| {
            if start == OFFSET_NULL { None } else { value_of(bytes, start, len) }
        };
        match (value(stored, ours), value(image, logged)) {
            (None, None) => true,
            (Some(ours), Some(logged)) => ours == logged || ty.code == type_code::JSON && same_json(ty, ours, logged),
            _ => false,
        }
    })
}

fn value_of(bytes: &[u8], start: u32, len: u32) -> Option<&[u8]> {
    bytes.get(start as usize..)?.get(..len as usize)
}

fn same_json(ty: &ColumnType, left: &[u8], right: &[u8]) -> bool {
    let text = |stored: &[u8]| {
        let mut text = Vec::new();
        values::json::write_text(stored.get(ty.prefix_len()..)?, &mut text).ok()?;
        Some(text)
    };
    text(left).is_some_and(|left| Some(left) == text(right))
}
