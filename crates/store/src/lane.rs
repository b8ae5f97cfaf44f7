//! A lane: the rows one apply worker owns, by table.
//!
//! In: row changes of this lane, in log order. Out: versions. Never here: a change whose row is not as the log says
//! passes unseen while `check_images` asks to look (RULES 20).

use catalog::TableId;
use values::{ColumnType, OFFSET_ABSENT, OFFSET_NULL, RowLayout, type_code};

use crate::ScanBuffer;
use crate::table::{LaneTable, Version};

/// How far the stored row is compared with what the log says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CheckImages {
    /// Rows are put and removed blindly.
    Off,
    /// An UPDATE or DELETE must find its row, an INSERT must not; every 16th before image is compared.
    #[default]
    Sample,
    /// As `Sample`, and every before image is compared.
    All,
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
    },
    /// The row goes.
    Delete {
        /// What it was.
        before: BeforeImage<'a>,
    },
    /// One more copy of a row of a table without a key; the key is the whole image.
    AddCopy,
    /// One copy less.
    RemoveCopy,
}

/// Why a row change does not fit the stored row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowErrorKind {
    /// ER_KEY_NOT_FOUND (1032): the row to change is not there.
    NotFound,
    /// ER_DUP_ENTRY (1062): the row to insert is there already.
    Duplicate,
    /// The row is there and differs from the before image.
    Differs,
    /// The stored image and the table's definition do not fit together.
    Damaged,
}

/// A row change that does not fit; nothing of it was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", match kind {
    RowErrorKind::NotFound => "Can't find record (1032): the row to change is not in the replica",
    RowErrorKind::Duplicate => "Duplicate entry (1062): the row to insert is in the replica already",
    RowErrorKind::Differs => "the row in the replica differs from the before image in the log",
    RowErrorKind::Damaged => "a stored row does not fit its table's definition",
})]
pub struct RowError {
    /// What does not fit.
    pub kind: RowErrorKind,
}

/// Memory and counts of a lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneStats {
    /// Rows as their newest versions have them; copies of a row without a key count once.
    pub rows: u64,
    /// Bytes taken from the allocator.
    pub bytes: u64,
    /// Of them versions nobody can see.
    pub dead_bytes: u64,
}

impl LaneStats {
    pub(crate) fn add(&mut self, other: &LaneStats) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.dead_bytes += other.dead_bytes;
    }
}

#[derive(Default)]
struct Table {
    rows: LaneTable,
    keyless: bool,
}

/// See the module.
#[derive(Default)]
pub struct Lane {
    /// By table id: ids are small and dense.
    tables: Vec<Option<Box<Table>>>,
    /// Tables that DDL took away, and the sequence number of that DDL.
    dying: Vec<(u64, TableId)>,
    /// Merged images are built here.
    scratch: Vec<u8>,
}

impl Lane {
    /// Applies one change of the row `key` (whose hash is `hash`) of `table` at `sequence`.
    ///
    /// # Errors
    /// When the stored row is not as the log says; nothing was changed then.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub fn apply(
        &mut self,
        table: TableId,
        layout: &RowLayout,
        types: &[ColumnType],
        hash: u64,
        key: &[u8],
        change: RowChange<'_>,
        sequence: u64,
        oldest_needed: u64,
        check: CheckImages,
    ) -> Result<(), RowError> {
        let index = table.0 as usize;
        if self.tables.len() <= index {
            self.tables.resize_with(index + 1, || None);
        }
        let entry = self.tables[index].get_or_insert_with(Box::default);
        let rows = &mut entry.rows;
        let found = rows.find(hash, key);
        let live = found.filter(|f| !f.is_deleted());
        let fail = |kind| Err(RowError { kind });
        let compare = match check {
            CheckImages::Off => false,
            CheckImages::Sample => hash & 0xf == 0,
            CheckImages::All => true,
        };
        match change {
            RowChange::Insert { image } => {
                if live.is_some() && check != CheckImages::Off {
                    return fail(RowErrorKind::Duplicate);
                }
                rows.append(found, hash, key, Version { sequence, image, deleted: false }, oldest_needed);
            }
            RowChange::Update { before, image } => {
                match &live {
                    Some(f) if compare => compare_before(layout, types, rows.image(f), before)?,
                    None if check != CheckImages::Off => return fail(RowErrorKind::NotFound),
                    _ => {}
                }
                rows.append(found, hash, key, Version { sequence, image, deleted: false }, oldest_needed);
            }
            RowChange::Merge { before, present, image } => {
                let Some(f) = &live else { return fail(RowErrorKind::NotFound) };
                let stored = rows.image(f);
                if compare {
                    compare_before(layout, types, stored, before)?;
                }
                self.scratch.clear();
                layout
                    .merge(stored, present, image, &mut self.scratch)
                    .map_err(|_| RowError { kind: RowErrorKind::Damaged })?;
                let version = Version { sequence, image: &self.scratch, deleted: false };
                rows.append(found, hash, key, version, oldest_needed);
            }
            RowChange::Delete { before } => {
                match &live {
                    Some(f) if compare => compare_before(layout, types, rows.image(f), before)?,
                    None if check != CheckImages::Off => return fail(RowErrorKind::NotFound),
                    None => return Ok(()),
                    _ => {}
                }
                rows.append(found, hash, key, Version { sequence, image: &[], deleted: true }, oldest_needed);
            }
            RowChange::AddCopy | RowChange::RemoveCopy => {
                entry.keyless = true;
                let copies = live.map_or(0, |f| copies_of(entry.rows.image(&f)));
                let now = if matches!(change, RowChange::AddCopy) {
                    copies + 1
                } else if copies == 0 {
                    // Without a copy to remove there is nothing to count down, whatever the check.
                    return fail(RowErrorKind::NotFound);
                } else {
                    copies - 1
                };
                let image = now.to_le_bytes();
                let version = if now == 0 {
                    Version { sequence, image: &[], deleted: true }
                } else {
                    Version { sequence, image: &image, deleted: false }
                };
                entry.rows.append(found, hash, key, version, oldest_needed);
            }
        }
        Ok(())
    }

    /// The newest image of a row, whatever is visible: for the one writer that moves a row between lanes.
    #[must_use]
    pub fn newest(&self, table: TableId, hash: u64, key: &[u8]) -> Option<&[u8]> {
        let entry = self.tables.get(table.0 as usize)?.as_ref()?;
        let found = entry.rows.find(hash, key).filter(|f| !f.is_deleted())?;
        Some(entry.rows.image(&found))
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
            }
        }
        if !self.dying.is_empty() {
            let tables = &mut self.tables;
            self.dying.retain(|(sequence, table)| {
                let keep = *sequence > oldest_needed;
                if !keep && let Some(slot) = tables.get_mut(table.0 as usize) {
                    *slot = None;
                }
                keep
            });
        }
    }

    pub(crate) fn get(&self, table: TableId, hash: u64, key: &[u8], sequence: u64) -> Option<crate::Row<'_>> {
        let entry = self.tables.get(table.0 as usize)?.as_ref()?;
        let (key, image) = entry.rows.get(hash, key, sequence)?;
        Some(if entry.keyless {
            crate::Row { key, image: key, count: copies_of(image) }
        } else {
            crate::Row { key, image, count: 1 }
        })
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
        entry.rows.slots(sequence, from, count, |key, image| {
            if entry.keyless {
                out.push(key, &[], copies_of(image));
            } else {
                out.push(key, image, 1);
            }
        })
    }

    pub(crate) fn stats(&self) -> LaneStats {
        let mut stats = LaneStats::default();
        for (index, entry) in self.tables.iter().enumerate() {
            let Some(entry) = entry else { continue };
            let (bytes, dead) = entry.rows.bytes();
            let gone = self.dying.iter().any(|(_, table)| table.0 as usize == index);
            let rows = if gone { 0 } else { entry.rows.row_count() as u64 };
            stats.add(&LaneStats { rows, bytes: bytes as u64, dead_bytes: dead as u64 });
        }
        stats
    }
}

fn copies_of(image: &[u8]) -> u64 {
    image.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
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
/// (RULES 21). A source that updates a document in place logs it with gaps.
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
