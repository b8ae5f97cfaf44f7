//! Effect of one statement on the snapshot.
//!
//! In: a parsed statement with its context, and the snapshot before it. Out: the next snapshot's maps, with the tables
//! created, dropped and altered, and the rows to rewrite. Never here: text, objects other than tables and databases.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::alter::{self, PartitionsEffect, RowsEffect};
use crate::charset::{self, Collation};
use crate::column_type;
use crate::context::StatementContext;
use crate::default_value;
use crate::engine::EngineRows;
use crate::error::Problem;
use crate::index_set;
use crate::layout::ColumnSource;
use crate::syntax::{AlterAction, CharsetSpec, CreateBody, CreateTable, Statement, TableName};
use crate::table::{ForeignKey, Identity, TableDef, TableId, same_name};
use crate::table_build::{self, Scope};

use super::tables::FoldedName;
use super::{DdlEffect, Inner, Rewrite, is_system};

/// Whether a statement produced a new snapshot.
pub(super) enum Done {
    Changed,
    /// Only names of views changed: the epoch stays.
    Views,
    Nothing(DdlEffect),
}

/// The next snapshot while a statement is being executed.
pub(super) struct Change<'a> {
    pub(super) inner: Inner,
    pub(super) context: &'a StatementContext,
    pub(super) created: Vec<Arc<TableDef>>,
    pub(super) dropped: Vec<TableId>,
    pub(super) altered: Vec<Arc<TableDef>>,
    pub(super) rewritten: Vec<Rewrite>,
}

impl<'a> Change<'a> {
    pub(super) fn new(context: &'a StatementContext, inner: &Inner) -> Change<'a> {
        Change {
            inner: inner.clone(),
            context,
            created: Vec::new(),
            dropped: Vec::new(),
            altered: Vec::new(),
            rewritten: Vec::new(),
        }
    }

    pub(super) fn carry_out(&mut self, statement: &Statement) -> Result<Done, Problem> {
        match statement {
            Statement::NoEffect(reason) => Ok(Done::Nothing(DdlEffect::NoEffect(reason))),
            Statement::Recorded(kind) => Ok(Done::Nothing(DdlEffect::Recorded(kind))),
            Statement::Optimize(names) => self.optimize(names),
            Statement::CreateView(name) => self.create_view(name),
            Statement::DropView(names) => self.drop_views(names),
            Statement::CreateTable(create) => self.create_table(create),
            Statement::DropTable { if_exists, names } => self.drop_tables(names, *if_exists),
            Statement::Truncate(name) => self.truncate(name),
            Statement::RenameTable(pairs) => self.rename_tables(pairs),
            Statement::CreateDatabase { name, if_not_exists, options } => {
                self.create_database(name, *if_not_exists, options)
            }
            Statement::AlterDatabase { name, options } => self.alter_database(name.as_deref(), options),
            Statement::DropDatabase { name, if_exists } => self.drop_database(name, *if_exists),
            Statement::AlterTable { name, actions } => self.alter_table(name, actions),
        }
    }

    fn db_of<'n>(&'n self, name: &'n TableName) -> Result<&'n str, Problem> {
        match name.db.as_deref().unwrap_or(&self.context.default_db) {
            "" => Problem::disagrees(format!("table `{}` without a database", name.name)),
            db => Ok(db),
        }
    }

    /// True if filters exclude the rows of the table; it is then not in the catalog.
    fn is_left_out(&self, name: &TableName) -> Result<bool, Problem> {
        Ok(!self.context.names.replicates(self.db_of(name)?, &name.name))
    }

    fn find(&self, name: &TableName) -> Result<Option<Arc<TableDef>>, Problem> {
        Ok(self.inner.table(self.db_of(name)?, &name.name).cloned())
    }

    /// The table, or `Err` with the outcome: tables of the server's own databases are not in the catalog.
    fn expect(&self, name: &TableName) -> Result<Result<Arc<TableDef>, Done>, Problem> {
        let db = self.db_of(name)?;
        match self.inner.table(db, &name.name) {
            Some(table) => Ok(Ok(table.clone())),
            None if is_system(db) => Ok(Err(Done::Nothing(DdlEffect::Recorded("system table")))),
            None => Problem::disagrees(format!("there is no table `{db}`.`{}`", name.name)),
        }
    }

    fn fresh_id(&mut self) -> Result<TableId, Problem> {
        let id = TableId(self.inner.next_table_id);
        match self.inner.next_table_id.checked_add(1) {
            Some(next) => self.inner.next_table_id = next,
            None => return Problem::unsupported("more than 2^32 tables in the life of one catalog"),
        }
        Ok(id)
    }

    fn server_default(&self) -> Collation {
        let id = self.context.collation_server.unwrap_or(charset::UTF8MB4_0900_AI_CI);
        collation_or_default(id)
    }

    fn database_default(&self, db: &str) -> Collation {
        let known = self.inner.databases.get(self.inner.folded(db).as_ref()).and_then(|database| database.collation);
        let logged = if same_name(db, &self.context.default_db) { self.context.collation_database } else { None };
        known.or(logged).and_then(charset::by_id).unwrap_or_else(|| self.server_default())
    }

    fn utf8mb4_default(&self) -> Collation {
        collation_or_default(self.context.default_collation_for_utf8mb4.unwrap_or(charset::UTF8MB4_0900_AI_CI))
    }

    fn scoped<T>(&self, db: &str, work: impl FnOnce(&Scope<'_>) -> Result<T, Problem>) -> Result<T, Problem> {
        let parent_key = |parent_db: &str, name: &str| {
            let parent = self.inner.table(parent_db, name)?;
            let key = parent.keys.iter().find(|key| key.primary)?;
            Some(
                key.parts
                    .iter()
                    .filter_map(|part| parent.columns.get(part.column))
                    .map(|column| column.name.clone())
                    .collect(),
            )
        };
        work(&Scope {
            context: self.context,
            db,
            database_default: self.database_default(db),
            utf8mb4_default: self.utf8mb4_default(),
            parent_key: &parent_key,
        })
    }

    pub(super) fn is_view(&self, name: &TableName) -> Result<bool, Problem> {
        Ok(self.inner.is_view(self.db_of(name)?, &name.name))
    }

    /// True for a view that was made before the log began, so that no statement of the log has put it among the views.
    fn is_older_view(&self, name: &TableName) -> Result<bool, Problem> {
        let db = self.db_of(name)?;
        Ok(self.inner.table(db, &name.name).is_none() && self.inner.is_known_view(db, &name.name))
    }

    fn create_view(&mut self, name: &TableName) -> Result<Done, Problem> {
        let db = self.db_of(name)?.to_owned();
        // IF NOT EXISTS of a table's name makes no view.
        if self.inner.table(&db, &name.name).is_none() {
            let key = self.inner.folded(&name.name).as_ref().into();
            self.inner.change_database(&db, |database| _ = database.views.insert(key, ()));
        }
        Ok(Done::Views)
    }

    fn drop_views(&mut self, names: &[TableName]) -> Result<Done, Problem> {
        for name in names {
            let db = self.db_of(name)?.to_owned();
            let key = self.inner.folded(&name.name).into_owned();
            self.inner.change_database(&db, |database| _ = database.views.remove(key.as_str()));
        }
        Ok(Done::Views)
    }

    fn create_table(&mut self, create: &CreateTable) -> Result<Done, Problem> {
        if self.find(&create.name)?.is_some() || self.is_view(&create.name)? {
            if create.if_not_exists {
                return Ok(Done::Nothing(DdlEffect::NoEffect("the table is already there")));
            }
            return Problem::disagrees(format!("table `{}` is already there", create.name.name));
        }
        let db = self.inner.stored(self.db_of(&create.name)?);
        let name = self.inner.stored(&create.name.name);
        let id = self.fresh_id()?;
        let table = match &create.body {
            CreateBody::Define(spec) if create.rows_follow => self.scoped(&db, |scope| {
                // Written so only where the engine takes part in the transaction; the statement itself has no number.
                let context = StatementContext { atomic: Some(true), ..scope.context.clone() };
                table_build::table(id, &name, spec, &Scope { context: &context, ..*scope })
            })?,
            CreateBody::Define(spec) => self.scoped(&db, |scope| table_build::table(id, &name, spec, scope))?,
            CreateBody::Like(source) => match self.expect(source)? {
                Err(_) => return Problem::unsupported("CREATE TABLE … LIKE a table of the server's own"),
                Ok(source) => like(&source, id, db, name, self.context),
            },
        };
        let table = Arc::new(table);
        self.created.push(table.clone());
        self.inner.put_table(&table);
        Ok(Done::Changed)
    }

    fn drop_tables(&mut self, names: &[TableName], if_exists: bool) -> Result<Done, Problem> {
        let mut found: Vec<Arc<TableDef>> = Vec::new();
        for name in names {
            match self.find(name)? {
                Some(table) if found.iter().any(|other| other.id == table.id) => {
                    return Problem::disagrees(format!("table `{}` is dropped twice", name.name));
                }
                Some(table) => found.push(table),
                None if if_exists || is_system(self.db_of(name)?) || self.is_left_out(name)? => {}
                None => return Problem::disagrees(format!("there is no table `{}`", name.name)),
            }
        }
        if found.is_empty() {
            return Ok(Done::Nothing(DdlEffect::NoEffect("no such table")));
        }
        for table in found {
            self.inner.remove_table(&table);
            self.dropped.push(table.id);
        }
        Ok(Done::Changed)
    }

    fn truncate(&mut self, name: &TableName) -> Result<Done, Problem> {
        let old = match self.expect(name)? {
            Ok(table) => table,
            Err(done) => return Ok(done),
        };
        // Of a MERGE table it empties the members, whose rows it shows (seen on 9.7.4).
        let mut emptied: Vec<Arc<TableDef>> = match old.engine_of().rows {
            EngineRows::OfMembers => {
                old.members().filter_map(|(db, name)| self.inner.table(&db, &name).cloned()).collect()
            }
            _ => vec![old],
        };
        // UNION may name a table twice.
        let mut seen = BTreeSet::new();
        emptied.retain(|table| seen.insert(table.id));
        if emptied.is_empty() {
            return Ok(Done::Nothing(DdlEffect::NoEffect("none of its members is there")));
        }
        for table in emptied {
            let fresh = fresh(&table, self.fresh_id()?);
            self.move_to(&table, fresh);
        }
        Ok(Done::Changed)
    }

    /// Gives a table's name to another one under a fresh id; its rows are dead.
    fn move_to(&mut self, old: &Arc<TableDef>, new: TableDef) -> Arc<TableDef> {
        let new = Arc::new(new);
        self.inner.remove_table(old);
        self.dropped.push(old.id);
        self.created.push(Arc::clone(&new));
        self.inner.put_table(&new);
        new
    }

    pub(super) fn rename_tables(&mut self, pairs: &[(TableName, TableName)]) -> Result<Done, Problem> {
        let mut done = Done::Views;
        for (from, to) in pairs {
            if self.is_view(from)? || self.is_older_view(from)? {
                self.drop_views(std::slice::from_ref(from))?;
                self.create_view(to)?;
                continue;
            }
            done = Done::Changed;
            let table = match self.expect(from)? {
                Ok(table) => table,
                Err(_) => return Problem::unsupported("RENAME of a table of the server's own"),
            };
            let renamed = self.renamed(&table, to)?;
            self.replace(&table, renamed);
        }
        Ok(done)
    }

    /// Gives a table its new name and updates the foreign keys that reference it. The swap `a→t, b→a, t→b` works
    /// because each step sees the previous one.
    fn renamed(&mut self, table: &Arc<TableDef>, to: &TableName) -> Result<TableDef, Problem> {
        // An unqualified new name belongs to the session's database, not the table's, in both ALTER TABLE … RENAME and
        // RENAME TABLE.
        let db = self.inner.stored(self.db_of(to)?);
        let name = self.inner.stored(&to.name);
        if let Some(other) = self.inner.table(&db, &name)
            && other.id != table.id
        {
            return Problem::disagrees(format!("table `{db}`.`{name}` is already there"));
        }
        let mut renamed = TableDef::clone(table);
        let old_name = std::mem::replace(&mut renamed.name, name);
        let old_db = std::mem::replace(&mut renamed.db, db);
        table_build::rename_generated_names(&mut renamed, &old_name);
        renamed.version = renamed.version.saturating_add(1);
        let old = Arc::new(self.inner.name_key(&old_db, &old_name));
        let follows = |inner: &Inner, key: &ForeignKey| inner.name_key(&key.parent_db, &key.parent_table) == *old;
        for key in renamed.foreign_keys.iter_mut().filter(|key| follows(&self.inner, key)) {
            key.parent_db.clone_from(&renamed.db);
            key.parent_table.clone_from(&renamed.name);
        }
        for child in self.children_of(&old, table.id) {
            let mut changed = TableDef::clone(&child);
            for key in changed.foreign_keys.iter_mut().filter(|key| follows(&self.inner, key)) {
                key.parent_db.clone_from(&renamed.db);
                key.parent_table.clone_from(&renamed.name);
            }
            changed.version = changed.version.saturating_add(1);
            self.replace(&child, changed);
        }
        Ok(renamed)
    }

    /// Replaces `old` by `new`, which has the same id, and reports the table as altered once.
    fn replace(&mut self, old: &TableDef, new: TableDef) -> Arc<TableDef> {
        let new = Arc::new(new);
        self.inner.remove_table(old);
        self.altered.retain(|table| table.id != new.id);
        self.altered.push(new.clone());
        self.inner.put_table(&new);
        new
    }

    /// Tables other than this one with a foreign key that references it.
    fn children_of(&self, parent: &FoldedName, id: TableId) -> Vec<Arc<TableDef>> {
        let refers = |key: &ForeignKey| self.inner.name_key(&key.parent_db, &key.parent_table) == **parent;
        let is_child = |child: &&Arc<TableDef>| child.id != id && child.foreign_keys.iter().any(refers);
        self.inner.dependents_of(Arc::clone(parent)).filter(is_child).cloned().collect()
    }

    fn create_database(&mut self, name: &str, if_not_exists: bool, options: &CharsetSpec) -> Result<Done, Problem> {
        let known = self.inner.databases.get(self.inner.folded(name).as_ref());
        if known.is_some_and(|database| database.collation.is_some()) {
            if if_not_exists {
                return Ok(Done::Nothing(DdlEffect::NoEffect("the database is already there")));
            }
            // Under filters this may be another database of the source that is rewritten to this name, or one whose
            // DROP was filtered out.
            if self.context.names.filters.is_empty() {
                return Problem::disagrees(format!("database `{name}` is already there"));
            }
        }
        let collation = column_type::resolve_charset(options, self.server_default(), self.utf8mb4_default())?;
        self.inner.change_database(name, |database| database.collation = Some(collation.id));
        Ok(Done::Changed)
    }

    fn alter_database(&mut self, name: Option<&str>, options: &CharsetSpec) -> Result<Done, Problem> {
        let name = name.unwrap_or(&self.context.default_db).to_owned();
        if name.is_empty() {
            return Problem::disagrees("ALTER DATABASE without a database");
        }
        if *options == CharsetSpec::default() {
            return Ok(Done::Nothing(DdlEffect::NoEffect("no default of the database changes")));
        }
        let collation = column_type::resolve_charset(options, self.server_default(), self.utf8mb4_default())?;
        self.inner.change_database(&name, |database| database.collation = Some(collation.id));
        Ok(Done::Changed)
    }

    fn drop_database(&mut self, name: &str, if_exists: bool) -> Result<Done, Problem> {
        let key = self.inner.folded(name).into_owned();
        let Some(database) = self.inner.databases.get(key.as_str()).cloned() else {
            if if_exists {
                return Ok(Done::Nothing(DdlEffect::NoEffect("no such database")));
            }
            return Problem::disagrees(format!("there is no database `{name}`"));
        };
        for table in database.tables.values() {
            self.inner.remove_table(table);
            self.dropped.push(table.id);
        }
        self.inner.databases.remove(key.as_str());
        Ok(Done::Changed)
    }

    fn alter_table(&mut self, name: &TableName, actions: &[AlterAction]) -> Result<Done, Problem> {
        let old = match self.expect(name)? {
            Ok(table) => table,
            Err(_) => return Problem::unsupported("a change to a table of the server's own"),
        };
        if actions.contains(&AlterAction::Discards) {
            let fresh = fresh(&old, self.fresh_id()?);
            self.move_to(&old, fresh);
            return Ok(Done::Changed);
        }
        let db = old.db.clone();
        let altered = self.scoped(&db, |scope| alter::alter(&old, actions, scope))?;
        let mut new = altered.table;
        if !altered.renamed_columns.is_empty() {
            self.rename_in_children(&old, &altered.renamed_columns);
        }
        if let Some(to) = &altered.rename_to {
            // The rename also updates the children, so it must start from the table as changed so far.
            new = self.renamed(&Arc::new(new), to)?;
        }
        index_set::renew_changed(&old, &mut new, &altered.revalued);
        if new == *old && matches!(altered.rows, RowsEffect::Unchanged) && altered.partitions.is_none() {
            return Ok(Done::Nothing(DdlEffect::NoEffect("rows and definition stay as they are")));
        }
        new.version = old.version.saturating_add(1);
        let rows = match (old.engine_of().rows, new.engine_of().rows) {
            (EngineRows::Kept, EngineRows::Kept) => altered.rows,
            (EngineRows::Elsewhere | EngineRows::OfMembers, EngineRows::Kept) => {
                return Problem::unsupported("ALTER TABLE that gives a table the rows of others");
            }
            // There are no rows before or after it.
            _ => {
                let new = TableDef { id: self.fresh_id()?, ..new };
                self.move_to(&old, fresh_of(new));
                return Ok(Done::Changed);
            }
        };
        if let Some(effect) = altered.partitions {
            if new.column_types() != old.column_types() || new.identity != old.identity {
                return Problem::unsupported("a change of partitions together with one of columns");
            }
            return self.change_partitions(&old, new, effect);
        }
        match rows {
            RowsEffect::Unchanged => _ = self.replace(&old, new),
            RowsEffect::ConvertedOnRead(layout) => {
                new.older_layouts.push(layout);
                new.layout_since = new.version;
                self.replace(&old, new);
            }
            RowsEffect::Rewritten(sources, numbering) => {
                // A fresh id (invariants 2 and 4), so that no row written under the old definition is read under this
                // one.
                new.id = self.fresh_id()?;
                new.version = 1;
                new.layout_since = 0;
                new.older_layouts.clear();
                let new = self.move_to(&old, new);
                self.rewritten.push(Rewrite { numbering, ..rewrite(&old, &new, sources) });
            }
        }
        Ok(Done::Changed)
    }

    /// OPTIMIZE TABLE. InnoDB rebuilds the table and its definition, as ALTER TABLE … FORCE does. As long as the table
    /// is not copied, this shows only in the column defaults.
    fn optimize(&mut self, names: &[TableName]) -> Result<Done, Problem> {
        let mut done = Done::Nothing(DdlEffect::NoEffect("OPTIMIZE"));
        for name in names {
            // A missing table was not optimized, but the statement was logged all the same.
            let Some(old) = self.find(name)?.filter(|table| table.engine.eq_ignore_ascii_case("InnoDB")) else {
                continue;
            };
            // Then it was not rebuilt; the statement was logged all the same (seen on 9.7.4).
            if old.columns.iter().any(|column| default_value::is_refused(column, self.context.sql_mode)) {
                continue;
            }
            let mut new = TableDef::clone(&old);
            new.columns.iter_mut().for_each(table_build::reread_default);
            if new != *old {
                new.version = old.version.saturating_add(1);
                self.replace(&old, new);
                done = Done::Changed;
            }
        }
        Ok(done)
    }

    /// Deletes the rows of partitions, or exchanges them with those of another table, which gets a fresh id (invariant
    /// 2).
    fn change_partitions(
        &mut self,
        old: &Arc<TableDef>,
        new: TableDef,
        effect: PartitionsEffect,
    ) -> Result<Done, Problem> {
        if matches!(effect, PartitionsEffect::AllEmptied) {
            let fresh = fresh(&new, self.fresh_id()?);
            self.move_to(old, fresh);
            return Ok(Done::Changed);
        }
        if old.misplaced_rows {
            let what = "a change of partitions of a table that holds rows outside their partition's rule";
            return Problem::unsupported(what);
        }
        let new = self.replace(old, new);
        let kept = |table: &TableDef| (0..table.columns.len()).map(ColumnSource::Kept).collect::<Vec<_>>();
        // The rows before the statement are the input of every rewrite, so an exchange is three of them: the
        // partition's rows go to the fresh table, leave this table, and the other table's rows come in.
        let (only, with) = match effect {
            PartitionsEffect::AllEmptied => (None, None),
            PartitionsEffect::Emptied(choice) => (Some(choice), None),
            PartitionsEffect::Exchanged { partition, with, validated } => (Some(partition), Some((with, validated))),
        };
        if let Some((with, validated)) = &with {
            let Some(other) = self.find(with)?.filter(|other| other.id != old.id) else {
                return Problem::disagrees(format!("there is no other table `{}`", with.name));
            };
            if other.column_types() != new.column_types() {
                return Problem::unsupported("EXCHANGE PARTITION with a table of other columns");
            }
            if other.without_virtual && !new.without_virtual && new.identity == Identity::WholeImage {
                return Problem::unsupported("EXCHANGE PARTITION into a table that still keeps virtual columns");
            }
            let fresh = Arc::new(fresh(&other, self.fresh_id()?));
            self.inner.remove_table(&other);
            self.dropped.push(other.id);
            self.created.push(Arc::clone(&fresh));
            self.rewritten.push(Rewrite { only: only.clone(), ..rewrite(old, &fresh, kept(old)) });
            let within = only.clone().filter(|_| !validated);
            self.rewritten.push(Rewrite { only, removes: true, ..rewrite(old, &new, kept(old)) });
            self.rewritten.push(Rewrite { within, ..rewrite(&other, &new, kept(old)) });
            self.inner.put_table(&fresh);
        } else {
            self.rewritten.push(Rewrite { only, removes: true, ..rewrite(old, &new, kept(old)) });
        }
        Ok(Done::Changed)
    }

    /// Renames this table's columns in the foreign keys of other tables.
    fn rename_in_children(&mut self, parent: &TableDef, renamed: &[(String, String)]) {
        let own = Arc::new(self.inner.name_key(&parent.db, &parent.name));
        let refers = |inner: &Inner, key: &ForeignKey| inner.name_key(&key.parent_db, &key.parent_table) == *own;
        for child in self.children_of(&own, parent.id) {
            let mut changed = TableDef::clone(&child);
            for key in changed.foreign_keys.iter_mut().filter(|key| refers(&self.inner, key)) {
                alter::rename_parents(&mut key.parent_columns, renamed);
            }
            changed.version = changed.version.saturating_add(1);
            self.replace(&child, changed);
        }
    }
}

/// A rewrite of all rows of one table into another.
fn rewrite(from: &Arc<TableDef>, to: &Arc<TableDef>, sources: Vec<ColumnSource>) -> Rewrite {
    let (from, to) = (Arc::clone(from), Arc::clone(to));
    Rewrite { from, to, sources, numbering: None, only: None, within: None, removes: false, statement: String::new() }
}

/// The same table under a new id and without rows.
fn fresh(table: &TableDef, id: TableId) -> TableDef {
    fresh_of(TableDef { id, ..table.clone() })
}

fn fresh_of(table: TableDef) -> TableDef {
    let mut table =
        TableDef { version: 1, layout_since: 0, older_layouts: Vec::new(), virtual_unknown: false, ..table };
    if std::mem::take(&mut table.misplaced_rows) {
        table_build::settle_keys(&mut table);
    }
    table.settle_virtual();
    table
}

/// CREATE TABLE … LIKE: copies columns and keys, but no foreign keys.
fn like(source: &TableDef, id: TableId, db: String, name: String, context: &StatementContext) -> TableDef {
    let declared = source.declared.as_ref().map(|declared| declared.like(&name));
    let mut table = TableDef { db, name, foreign_keys: Vec::new(), declared, ..fresh(source, id) };
    if let Some(merge) = &mut table.merge {
        let members = source.members().map(|(db, name)| ((db != table.db).then_some(db), name));
        merge.members = members.collect();
    }
    table.keys.iter_mut().for_each(|key| key.generated = false);
    for column in &mut table.columns {
        table_build::reread_default(column);
        table_build::list_default(column, context);
    }
    table
}

fn collation_or_default(id: u16) -> Collation {
    charset::by_id(id).or_else(|| charset::default_collation("utf8mb4")).unwrap_or(Collation {
        id,
        name: "unknown",
        charset: "utf8mb4",
        mbmaxlen: 4,
    })
}
