//! What decoding needs to know of a table, worked out once per definition.

use std::sync::Arc;

use catalog::{Catalog, Identity, KeyOrder, OmittedValue, RowVersions, TableDef};
use values::{ColumnType, RowLayout, type_code};

/// How a row's identifying key is found in its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPlan {
    /// The first columns: the bytes right behind the null bitmap. `len` when all are of fixed size.
    Leading { len: Option<usize> },
    /// Columns elsewhere.
    Columns,
    /// No key: the whole image.
    WholeImage,
}

/// A table's definition made ready for decoding.
pub struct TablePlan {
    /// The definition.
    pub def: Arc<TableDef>,
    /// How to walk its images.
    pub layout: RowLayout,
    /// Type of each column.
    pub types: Vec<ColumnType>,
    /// Where its rows stand on disk.
    pub order: KeyOrder,
    /// How rows stored under earlier definitions are read.
    pub versions: RowVersions,
    pub(crate) key: KeyPlan,
    /// No key, and JSON columns: copies of a row are found by the texts of its JSON values (invariant 21), because rows
    /// that the initial copy brought have no documents. As `catalog::RowKey` has it.
    pub(crate) keyless_json: bool,
    /// The identifying columns in table order; empty without a key.
    pub(crate) key_columns: Vec<usize>,
    /// Foreign keys change or delete rows of other tables, unlogged, when a row here is deleted.
    pub(crate) cascades_on_delete: bool,
    /// As above, when one of these columns changes.
    pub(crate) cascades_on_update_of: Vec<usize>,
    /// A foreign key of the table refers to itself and changes its rows.
    pub(crate) follows_itself: bool,
    /// Where the table's children are found, when foreign keys may change them.
    pub cascades: Option<Catalog>,
    /// JSON columns of the table.
    pub json_columns: usize,
    /// What an INSERT that leaves a column out gives it.
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
            keyless_json: key == KeyPlan::WholeImage && types.iter().any(|ty| ty.code == type_code::JSON),
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

    /// Whether ROLLBACK undoes changes of the table.
    pub(crate) fn rolls_back(&self) -> bool {
        ["InnoDB", "NDB", "NDBCLUSTER"].iter().any(|engine| engine.eq_ignore_ascii_case(&self.def.engine))
    }

    /// Bytes of a bitmap with one bit per column.
    pub(crate) fn bitmap_len(&self) -> usize {
        self.def.columns.len().div_ceil(8)
    }

    /// The bits of a full image's last null byte that belong to no column.
    pub(crate) fn unused_null_bits(&self) -> u8 {
        match self.def.columns.len() % 8 {
            0 => 0,
            used => 0xff << used,
        }
    }

    /// Appends the stored bytes a column gets when an INSERT does not log it; true when it gets NULL.
    ///
    /// # Errors
    /// The reason, when the default is not known here.
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

    /// Why rows cannot be read whose INSERT leaves a column out.
    fn unknown_default(&self, column: usize) -> String {
        format!(
            "the row event leaves out column {}.`{}`, whose default is not a constant known here",
            self.def.full_name(),
            self.def.columns.get(column).map_or("?", |column| column.name.as_str())
        )
    }

    /// The reason why an INSERT that logs the columns of this bitmap alone cannot be read: a default is not known here (a
    /// TIMESTAMP's in a time zone that only the source knows). None when it can.
    pub(crate) fn lacks_default(&self, present: &[u8]) -> Option<String> {
        let logged = |column: usize| present.get(column / 8).is_some_and(|byte| byte >> (column % 8) & 1 == 1);
        let mut unknown = self.omitted.iter().enumerate().filter(|(_, value)| **value == OmittedValue::Unknown);
        unknown.find(|(column, _)| !logged(*column)).map(|(column, _)| self.unknown_default(column))
    }
}
