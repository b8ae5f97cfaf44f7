//! Table maps: what a table id of the open transaction means under the catalog of this place in the log (invariant 16).
//!
//! In: table map events. Out: the plan of each table's rows, or why they are left out. Never here: rows.

use std::sync::Arc;

use binlog::TableMapEvent;
use catalog::{Catalog, EngineRows, Identity, NamedTable, TableDef};
use observe::Category;

use super::{Decoder, Fault, binlog_fault, unsupported};
use crate::plan::TablePlan;
use crate::stop::StopClass;
use crate::work::{LeftOut, Merged, TableMapEntry, Work};

/// Schemas of the server itself, which are not replicated.
const SYSTEM_SCHEMAS: [&[u8]; 4] = [b"mysql", b"sys", b"performance_schema", b"information_schema"];

/// Limit of table maps remembered under one catalog. Sources give a table a new id each time they reopen it.
const MAPS_MAX: usize = 4096;

/// The plan of a mapped table; None if its rows are left out.
type MappedPlan = Result<Option<Arc<TablePlan>>, Fault>;

pub(super) struct CachedMap {
    body: Vec<u8>,
    entry: TableMapEntry,
}

/// Returns a column of the identifying key that the source allows to be NULL, which means that the source's key is a
/// different one.
fn nullable_key_column<'d>(def: &'d TableDef, map: &TableMapEvent<'_>) -> Option<&'d str> {
    let Identity::Columns(columns) = &def.identity else { return None };
    let column = columns.iter().find(|column| map.is_nullable(**column))?;
    def.columns.get(*column).map(|column| column.name.as_str())
}

impl Decoder {
    pub(super) fn table_map(&mut self, work: &mut Work<'_>, body: &[u8]) -> Result<(), Fault> {
        let table_id = TableMapEvent::table_id_of(body).map_err(binlog_fault)?;
        let entry = match self.maps.get(&table_id) {
            Some(cached) if cached.body == body => cached.entry.clone(),
            _ => {
                let entry = self.mapped(&work.catalog, table_id, body)?;
                if self.maps.len() >= MAPS_MAX {
                    self.maps.clear();
                }
                self.maps.insert(table_id, CachedMap { body: body.to_vec(), entry: entry.clone() });
                entry
            }
        };
        match work.tables.iter_mut().find(|known| known.table_id == table_id) {
            Some(known) => *known = entry,
            None => work.tables.push(entry),
        }
        Ok(())
    }

    fn mapped(&mut self, catalog: &Catalog, table_id: u64, body: &[u8]) -> Result<TableMapEntry, Fault> {
        let map = TableMapEvent::parse(body).map_err(binlog_fault)?;
        let (mut merged, mut missing) = (None, None);
        let plan = self.resolve(catalog, &map, &mut merged, &mut missing);
        let left_out = match (&plan, &merged) {
            (Ok(None), Some(merged)) => self.left_out_as(catalog, &merged.def.member_of_inserts()),
            (Ok(None), None) => self.left_out_as(catalog, &Some(self.name_here(catalog, &map))),
            _ => LeftOut { category: Category::Filtered, cascades: false },
        };
        let name = self.options.for_stamps.then(|| Arc::new(self.name_here(catalog, &map)));
        Ok(TableMapEntry { table_id, plan, left_out, merged, missing, name })
    }

    /// The plan of a mapped table. For a MERGE table, sets `merged` and returns the plan of the member that gets its new
    /// rows. For a table that is not here and is to be copied, sets `missing`.
    fn resolve(
        &mut self,
        catalog: &Catalog,
        map: &TableMapEvent<'_>,
        merged: &mut Option<Arc<Merged>>,
        missing: &mut Option<Arc<NamedTable>>,
    ) -> MappedPlan {
        if is_system(map.db, catalog) {
            return Ok(None);
        }
        let (db, name) = self.name_here(catalog, map);
        if !self.options.filters.is_empty()
            && !self.options.filters.replicates(&db, &name, catalog.lower_case_table_names())
        {
            return Ok(None);
        }
        let Some(def) = catalog.table(&db, &name) else {
            if self.options.known_only || catalog.is_quarantined(&db, &name) {
                return Ok(None);
            }
            if self.options.quarantine && self.options.copies_missing {
                *missing = Some(Arc::new((db, name)));
                return Ok(None);
            }
            return Err((
                StopClass::DataDiffers,
                format!("rows of table `{db}`.`{name}`, which does not exist at this place in the log"),
            ));
        };
        let mut types = Vec::new();
        for (index, (code, metadata)) in map.columns().enumerate() {
            let ty = values::ColumnType::from_table_map(code, metadata).map_err(|e| {
                let column = def.columns.get(index).map_or("?", |column| column.name.as_str());
                unsupported(format!("column `{db}`.`{name}`.`{column}`: {e}"))
            })?;
            types.push(ty);
        }
        def.matches(map.column_types, &types).map_err(|difference| {
            (
                StopClass::DataDiffers,
                format!("the table map of `{db}`.`{name}` disagrees with its definition here: {difference}"),
            )
        })?;
        if let Some(column) = nullable_key_column(def, map) {
            return Err((
                StopClass::DataDiffers,
                format!(
                    "the table map of `{db}`.`{name}` disagrees with its definition here: column `{column}` may be NULL in the \
                     log and is a part of the identifying key in the catalog"
                ),
            ));
        }
        match def.engine_of().rows {
            EngineRows::Kept => Ok(Some(self.plan_of(def, catalog))),
            EngineRows::Nowhere | EngineRows::Elsewhere => Ok(None),
            EngineRows::OfMembers => {
                let target = def.member_of_inserts().and_then(|(db, name)| catalog.table(&db, &name).cloned());
                let fits = |member: &Arc<TableDef>| {
                    member.engine_of().keeps_rows()
                        && member.matches(map.column_types, &types).is_ok()
                        && nullable_key_column(member, map).is_none()
                };
                let is_here =
                    |(db, name): &NamedTable| catalog.table(db, name).is_some() || catalog.is_quarantined(db, name);
                let inserts = def.member_of_inserts().is_some() && target.as_ref().is_none_or(fits);
                *merged = Some(Arc::new(Merged {
                    def: Arc::clone(def),
                    members: def.members().filter(is_here).collect(),
                    inserts,
                }));
                Ok(target.filter(fits).map(|member| self.plan_of(&member, catalog)))
            }
        }
    }

    fn plan_of(&mut self, def: &Arc<TableDef>, catalog: &Catalog) -> Arc<TablePlan> {
        Arc::clone(self.plans.entry(def.id).or_insert_with(|| Arc::new(TablePlan::new(def, catalog))))
    }

    /// Returns database and table under their local names.
    fn name_here(&self, catalog: &Catalog, map: &TableMapEvent<'_>) -> NamedTable {
        let (db, name) = (String::from_utf8_lossy(map.db), String::from_utf8_lossy(map.table).into_owned());
        if !self.options.filters.renames() {
            return (db.into_owned(), name);
        }
        (self.options.filters.rewritten(&db, catalog.lower_case_table_names()).to_owned(), name)
    }

    /// Returns how rows of a left-out table are counted, and whether foreign keys lead from it to other tables.
    fn left_out_as(&self, catalog: &Catalog, table: &Option<NamedTable>) -> LeftOut {
        let Some((db, name)) = table else { return LeftOut { category: Category::Filtered, cascades: false } };
        let category = match catalog.table(db, name) {
            Some(def) if !def.engine_of().keeps_rows() => Category::NotKept,
            _ if catalog.is_quarantined(db, name) => Category::SupersededByCopy,
            _ => Category::Filtered,
        };
        LeftOut {
            category,
            cascades: catalog
                .children(db, name)
                .any(|(_, key)| key.on_delete.changes_children() || key.on_update.changes_children()),
        }
    }
}

/// True for the server's own schemas, compared as the source compares names.
fn is_system(db: &[u8], catalog: &Catalog) -> bool {
    SYSTEM_SCHEMAS.iter().any(|schema| {
        if catalog.lower_case_table_names() == 0 { db == *schema } else { db.eq_ignore_ascii_case(schema) }
    })
}
