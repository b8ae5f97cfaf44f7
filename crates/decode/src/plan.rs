//! Table plans: what decoding needs to know of a table, computed once per definition.

use std::sync::Arc;

use catalog::{
    Catalog, ForeignKey, Identity, IndexKind, KeyOrder, OmittedValue, ReferenceAction, RowVersions, TableDef,
    builds_whole_images,
};
use values::{ColumnType, RowLayout, type_code};

use crate::row_view::RowView;

/// How to find a row's identifying key in its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPlan {
    /// The first columns: the key follows the null bitmap. `len` is set if all are of fixed size.
    Leading {
        len: Option<usize>,
    },
    Columns,
    /// No key: the whole image.
    WholeImage,
}

/// A table's definition, prepared for decoding.
pub struct TablePlan {
    pub def: Arc<TableDef>,
    /// Layout of its row images.
    pub layout: RowLayout,
    /// Type of each column.
    pub types: Vec<ColumnType>,
    /// Sort order of its rows on disk.
    pub order: KeyOrder,
    /// Conversions for rows stored under earlier definitions.
    pub versions: RowVersions,
    pub(crate) key: KeyPlan,
    /// True for a table without a key but with JSON or virtual columns, see [`catalog::builds_whole_images`]. Copies of
    /// its rows are found by the text of their JSON values (invariant 21), because rows from the initial copy have no
    /// binary documents, and without virtual columns. Must agree with `catalog::RowKey`.
    pub(crate) keyless_built: bool,
    /// Columns that are NULL in the images that identify rows of a table without a key.
    pub(crate) left_out: Vec<usize>,
    /// The identifying columns in table order; empty without a key.
    pub(crate) key_columns: Vec<usize>,
    /// True if the deletion of a row makes foreign keys change or delete rows of other tables, unlogged.
    pub(crate) cascades_on_delete: bool,
    /// The columns whose change does the same.
    pub(crate) cascades_on_update_of: Vec<usize>,
    /// True if a foreign key of the table references the table itself and changes its rows.
    pub(crate) follows_itself: bool,
    /// True if a foreign key's action may delete rows of the table.
    pub deleted_by_cascade: bool,
    /// True if a foreign key's action may delete or change rows of the table.
    pub changed_by_cascade: bool,
    /// Catalog in which to find the table's children; set if foreign keys may change them.
    pub cascades: Option<Catalog>,
    /// Number of JSON columns.
    pub json_columns: usize,
    rolls_back: bool,
    /// Per column, the value that an INSERT without it gives.
    omitted: Vec<OmittedValue>,
}

impl TablePlan {
    pub(crate) fn new(def: &Arc<TableDef>, catalog: &Catalog) -> TablePlan {
        let types: Vec<ColumnType> = def.columns.iter().map(|c| c.ty.clone()).collect();
        let (key, key_columns) = match &def.identity {
            Identity::WholeImage => (KeyPlan::WholeImage, Vec::new()),
            Identity::Columns(columns) => {
                let mut columns = columns.clone();
                columns.sort_unstable();
                let leading = columns.iter().enumerate().all(|(i, c)| i == *c);
                let len = columns.iter().map(|c| types.get(*c).and_then(ColumnType::fixed_len)).sum();
                (if leading { KeyPlan::Leading { len } } else { KeyPlan::Columns }, columns)
            }
        };
        let mut plan = TablePlan {
            layout: RowLayout::new(&types),
            keyless_built: builds_whole_images(def),
            left_out: def.left_out(),
            json_columns: types.iter().filter(|ty| ty.code == type_code::JSON).count(),
            types,
            order: KeyOrder::of(def),
            versions: RowVersions::of(def),
            key,
            key_columns,
            cascades_on_delete: false,
            cascades_on_update_of: Vec::new(),
            cascades: None,
            follows_itself: false,
            deleted_by_cascade: def.foreign_keys.iter().any(|foreign| foreign.on_delete == ReferenceAction::Cascade),
            changed_by_cascade: def.foreign_keys.iter().any(changes_rows),
            rolls_back: def.engine_of().rolls_back,
            omitted: def.columns.iter().map(catalog::Column::omitted_value).collect(),
            def: Arc::clone(def),
        };
        for (child, foreign) in catalog.children(&def.db, &def.name) {
            let changes = foreign.on_delete.changes_children() || foreign.on_update.changes_children();
            plan.follows_itself |= changes && child.id == def.id;
            plan.cascades_on_delete |= foreign.on_delete.changes_children();
            if foreign.on_update.changes_children() {
                let columns = foreign.parent_columns.iter().filter_map(|name| def.column_index(name));
                plan.cascades_on_update_of.extend(columns);
            }
        }
        if plan.cascades_on_delete || !plan.cascades_on_update_of.is_empty() {
            plan.cascades = Some(catalog.clone());
        }
        plan
    }

    /// True if a foreign key's action may change this column.
    pub(crate) fn is_set_by_cascade(&self, column: usize) -> bool {
        self.def.foreign_keys.iter().any(|foreign| changes_rows(foreign) && foreign.columns.contains(&column))
    }

    /// True if a column's bytes may differ between images of one row: a virtual column is what the session read, and a
    /// document updated in place has gaps.
    #[must_use]
    pub fn is_not_compared(&self, column: usize) -> bool {
        self.versions.is_virtual(column) || self.types.get(column).is_some_and(|ty| ty.code == type_code::JSON)
    }

    /// True if the table holds at most one row that equals this one, a row of a table without a primary key: a UNIQUE
    /// key tells rows apart unless a part is NULL.
    #[must_use]
    pub fn has_one_copy(&self, row: &RowView<'_>) -> bool {
        self.def.keys.iter().any(|key| {
            key.unique
                && key.kind == IndexKind::Ordered
                && key.expressions.is_empty()
                && key.parts.iter().all(|part| row.is_not_null(part.column))
        })
    }

    /// True if ROLLBACK undoes changes of the table.
    pub(crate) fn rolls_back(&self) -> bool {
        self.rolls_back
    }

    /// Length in bytes of a bitmap with one bit per column.
    pub(crate) fn bitmap_len(&self) -> usize {
        self.def.columns.len().div_ceil(8)
    }

    /// Mask of the bits in a full image's last null byte that belong to no column.
    pub(crate) fn unused_null_bits(&self) -> u8 {
        match self.def.columns.len() % 8 {
            0 => 0,
            used => 0xff << used,
        }
    }

    /// Appends the stored bytes of a column that an INSERT does not log; true if it becomes NULL.
    ///
    /// # Errors
    /// The reason, if the default is not known here.
    pub(crate) fn default_of(&self, column: usize, out: &mut Vec<u8>) -> Result<bool, String> {
        match self.omitted.get(column) {
            Some(OmittedValue::Null) => Ok(true),
            Some(OmittedValue::Image(bytes)) => {
                out.extend_from_slice(bytes);
                Ok(false)
            }
            _ => Err(self.unknown_default(column)),
        }
    }

    /// Reason for refusing rows whose INSERT leaves a column out.
    fn unknown_default(&self, column: usize) -> String {
        format!(
            "the row event leaves out column {}.`{}`, whose default is not a constant known here",
            self.def.full_name(),
            self.def.columns.get(column).map_or("?", |column| column.name.as_str())
        )
    }

    /// Returns why an INSERT that logs only the columns of this bitmap cannot be decoded, or None if it can: a
    /// default may be unknown here (a TIMESTAMP's in a time zone that only the source knows).
    pub(crate) fn lacks_default(&self, present: &[u8]) -> Option<String> {
        let logged = |column: usize| present.get(column / 8).is_some_and(|byte| byte >> (column % 8) & 1 == 1);
        let mut unknown = self.omitted.iter().enumerate().filter(|(_, value)| **value == OmittedValue::Unknown);
        unknown.find(|(column, _)| !logged(*column)).map(|(column, _)| self.unknown_default(column))
    }
}

/// True if the foreign key's actions change or delete rows of its table.
fn changes_rows(foreign: &ForeignKey) -> bool {
    foreign.on_delete.changes_children() || foreign.on_update.changes_children()
}
