//! Effect of ALTER TABLE on a definition and on the stored rows.
//!
//! In: a definition and the parsed actions. Out: the new definition, the origin of each of its columns, and whether
//! stored rows can stay as they are (invariant 4). Never here: the catalog's maps, rows, ids.
//!
//! The order of steps mirrors `mysql_prepare_alter_table` (sql/sql_table.cc): drops, then changes in place, then moved
//! and new columns, then keys.

use values::ColumnType;
use values::convert::{Conversion, ConvertOptions, DateRules};

use crate::charset::{self, Collation};
use crate::column_type::{self, blob_length_bytes};
use crate::engine;
use crate::error::Problem;
use crate::expression;
use crate::identity;
use crate::numbering::Numbering;
use crate::partition;
use crate::syntax::{
    AlterAction, BaseType, CharsetSpec, ColumnSpec, DefaultSpec, KeyKind, KeySpec, PartSpec, PartitionAction, Position,
    TableName, TableOptions,
};
use crate::table::{Column, ColumnDefault, IndexKind, Key, TableDef, code, same_name};
use crate::table_build::{self, Scope, Silent};

use super::algorithm;
use super::partitions_effect::{PartitionsEffect, partition_effect};
use super::rows_effect::{RowsEffect, date_rules, rows_effect};

/// Result of an ALTER TABLE.
pub(crate) struct Altered {
    /// The new definition, still under the old id and version.
    pub(crate) table: TableDef,
    /// New name of the table, if it was renamed.
    pub(crate) rename_to: Option<TableName>,
    /// Renamed columns, old and new name, for foreign keys that reference them.
    pub(crate) renamed_columns: Vec<(String, String)>,
    pub(crate) rows: RowsEffect,
    /// New columns whose values may differ from before although their type is the same: dates that became zero.
    pub(crate) revalued: Vec<usize>,
    pub(crate) partitions: Option<PartitionsEffect>,
}

/// A column of the new definition.
struct Draft {
    column: Column,
    /// Index of the old column that it was; None for an added one.
    origin: Option<usize>,
    /// Whether it has no DEFAULT and satisfies [`table_build::is_silent_timestamp`].
    silent: Silent,
}

/// The new definition under construction.
struct Edit<'a> {
    old: &'a TableDef,
    scope: &'a Scope<'a>,
    table: TableDef,
    columns: Vec<Draft>,
    /// Target of CONVERT TO.
    convert: Option<Collation>,
    /// True if any action satisfies [`rereads_defaults`].
    anew: bool,
    /// True if any action writes the columns into the source's dictionary again.
    relists: bool,
    /// Keys declared with columns.
    keys: Vec<&'a KeySpec>,
    renamed: Vec<(String, String)>,
}

/// Applies the actions of one ALTER TABLE to a definition.
pub(crate) fn alter(old: &TableDef, actions: &[AlterAction], scope: &Scope<'_>) -> Result<Altered, Problem> {
    let mut edit = Edit {
        old,
        scope,
        table: old.clone(),
        columns: Vec::new(),
        convert: None,
        anew: actions.iter().any(rereads_defaults),
        relists: actions.iter().any(|action| rereads_defaults(action) || is_of_checks(action)),
        keys: Vec::new(),
        renamed: Vec::new(),
    };
    edit.options(actions)?;
    edit.columns_in_place(actions)?;
    edit.columns_elsewhere(actions)?;
    edit.drop_keys(actions)?;
    edit.settle_columns()?;
    edit.add_keys(actions)?;
    let silent: Vec<Silent> = edit.columns.iter().map(|draft| draft.silent).collect();
    table_build::promote_first_timestamp(&mut edit.table, &silent, scope);
    edit.checks(actions);
    let rename_to = actions.iter().rev().find_map(|action| match action {
        AlterAction::RenameTo(to) => Some(to.clone()),
        _ => None,
    });
    let Edit { mut table, columns, renamed, .. } = edit;
    // These place every row anew, and fail if keys are equal.
    let places_all = |action: &AlterAction| {
        matches!(action, AlterAction::Partitions(PartitionAction::By(_) | PartitionAction::Remove))
    };
    table.misplaced_rows &= !actions.iter().any(places_all);
    table_build::settle_keys(&mut table);
    let origins: Vec<Option<usize>> = columns.iter().map(|draft| draft.origin).collect();
    let partitions = partition_effect(old, &mut table, actions, scope)?;
    partition::settle_bounds(&mut table);
    let copies = algorithm::copies(old, &table, &origins, actions, scope);
    for (column, origin) in table.columns.iter_mut().zip(&origins) {
        let before = origin.and_then(|at| old.columns.get(at));
        column.overlong =
            before.is_some_and(|before| !copies && (before.overlong || algorithm::keeps_overlong(before, column)));
    }
    // Only a copy stores every value again, and so applies the session's rules for dates.
    let dates = if copies { date_rules(scope) } else { DateRules::default() };
    let numbering = Numbering::of(old, &table, &origins, actions, copies, scope.context);
    let (rows, revalued) = rows_effect(old, &table, &origins, numbering, (copies, dates), scope);
    if matches!(rows, RowsEffect::Rewritten(..)) {
        table.settle_virtual();
    }
    // What rows got while the log did not tell it stays in them. Without a key they got nothing.
    let (was_unknown, is_unknown) = (old.not_known(), table.not_known());
    let mut kept = origins.iter().enumerate().filter(|(at, _)| !is_unknown.contains(at));
    table.virtual_unknown |=
        !old.without_virtual && kept.any(|(_, origin)| origin.is_some_and(|origin| was_unknown.contains(&origin)));
    Ok(Altered { table, rename_to, renamed_columns: renamed, rows, revalued, partitions })
}

/// True if the server rewrites the whole definition for this action, and so re-reads from their text the defaults of
/// columns that the statement does not name (seen on 9.7; it executes the other actions without
/// `mysql_prepare_alter_table`).
fn rereads_defaults(action: &AlterAction) -> bool {
    !matches!(
        action,
        AlterAction::RenameTo(_)
            | AlterAction::Nothing
            | AlterAction::AddChecks(_)
            | AlterAction::DropCheck(_)
            | AlterAction::EnforceCheck { .. }
            | AlterAction::InPlace
            | AlterAction::Partitions(PartitionAction::Truncate(_) | PartitionAction::Exchange { .. })
    )
}

fn is_of_checks(action: &AlterAction) -> bool {
    matches!(action, AlterAction::AddChecks(_) | AlterAction::DropCheck(_) | AlterAction::EnforceCheck { .. })
}

/// A column that the statement names.
fn named(spec: &ColumnSpec, column: &Column) -> Silent {
    match spec.default.is_none() && table_build::is_silent_timestamp(column) {
        true => Silent::Named,
        false => Silent::No,
    }
}

fn no_column<T>(table: &TableDef, name: &str) -> Result<T, Problem> {
    Problem::disagrees(format!("table {} has no column `{name}`", table.full_name()))
}

impl<'a> Edit<'a> {
    fn options(&mut self, actions: &[AlterAction]) -> Result<(), Problem> {
        let mut charset = CharsetSpec::default();
        for action in actions {
            match action {
                AlterAction::Options(options @ TableOptions { charset: given, comment, engine: named, .. }) => {
                    charset.charset = given.charset.clone().or(charset.charset);
                    charset.collation = given.collation.clone().or(charset.collation);
                    if let Some(comment) = comment {
                        self.table.comment.clone_from(comment);
                    }
                    let context = self.scope.context;
                    if let Some(named) = named.as_deref().filter(|name| !name.is_empty()) {
                        self.table.engine = engine::after_alter(&self.old.engine, named, context)?;
                    }
                    engine::merge_options(&mut self.table, options, &context.default_db);
                    if let Some(declared) = &mut self.table.declared {
                        options.declared.iter().for_each(|(name, value)| declared.options.set(name, value));
                    }
                }
                AlterAction::ConvertTo(spec) => {
                    let to =
                        column_type::resolve_charset(spec, self.scope.database_default, self.scope.utf8mb4_default)?;
                    self.convert = Some(to);
                    self.table.default_collation = to.id;
                }
                _ => {}
            }
        }
        if charset != CharsetSpec::default() {
            let now = self.table_default()?;
            let to = column_type::resolve_charset(&charset, now, self.scope.utf8mb4_default)?;
            self.table.default_collation = to.id;
        }
        Ok(())
    }

    fn table_default(&self) -> Result<Collation, Problem> {
        let id = self.table.default_collation;
        charset::by_id(id).ok_or_else(|| Problem::NotSupported(format!("collation {id}")))
    }

    /// Goes over the old columns in order: each is dropped, changed, renamed or kept.
    fn columns_in_place(&mut self, actions: &'a [AlterAction]) -> Result<(), Problem> {
        for action in actions {
            let named = match action {
                AlterAction::DropColumn(name) | AlterAction::ChangeColumn { name, .. } => Some(name),
                AlterAction::RenameColumn { from, .. } => Some(from),
                _ => None,
            };
            if let Some(name) = named
                && self.old.column_index(name).is_none()
            {
                return no_column(self.old, name);
            }
        }
        let old = self.old;
        for (origin, column) in old.columns.iter().enumerate() {
            let is = |name: &str| same_name(name, &column.name);
            let of_column = actions.iter().find(|action| match action {
                AlterAction::DropColumn(name) | AlterAction::ChangeColumn { name, .. } => is(name),
                AlterAction::RenameColumn { from, .. } => is(from),
                _ => false,
            });
            match of_column {
                Some(AlterAction::DropColumn(_)) => {}
                Some(AlterAction::ChangeColumn { column: spec, keys, .. }) => {
                    self.keys.extend(keys);
                    let draft = self.changed(origin, spec)?;
                    self.columns.push(draft);
                    self.note_name(&column.name, &spec.name);
                }
                Some(AlterAction::RenameColumn { to, .. }) => {
                    let mut draft = self.kept(origin, column)?;
                    draft.column.name.clone_from(to);
                    self.columns.push(draft);
                    self.note_name(&column.name, to);
                }
                _ => {
                    let draft = self.kept(origin, column)?;
                    self.columns.push(draft);
                }
            }
        }
        for action in actions {
            match action {
                AlterAction::ColumnDefault { name, default } => self.set_default(name, default.as_ref())?,
                AlterAction::ColumnVisibility { name, invisible } => {
                    match self.columns.iter_mut().find(|draft| same_name(&draft.column.name, name)) {
                        Some(draft) => draft.column.invisible = *invisible,
                        None => return no_column(self.old, name),
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn note_name(&mut self, from: &str, to: &str) {
        if from != to {
            self.renamed.push((from.to_owned(), to.to_owned()));
        }
    }

    fn kept(&self, origin: usize, column: &Column) -> Result<Draft, Problem> {
        let mut column = column.clone();
        if let Some(to) = self.convert {
            column.ty = converted_type(&column.ty, to)?;
            if column.ty.collation != self.old.columns.get(origin).map_or(0, |old| old.ty.collation)
                && !matches!(column.ty.code, code::ENUM | code::SET)
                && let ColumnDefault::Image(image) = &column.default
                && let Some(old) = self.old.columns.get(origin)
            {
                column.default = converted_default(&old.ty, &column.ty, image);
            }
        }
        if self.anew {
            table_build::reread_default(&mut column);
        }
        if self.relists {
            table_build::list_default(&mut column, self.scope.context);
        }
        let is_silent = column.default == ColumnDefault::None && table_build::is_silent_timestamp(&column);
        let silent = if is_silent { Silent::Kept } else { Silent::No };
        Ok(Draft { column, origin: Some(origin), silent })
    }

    fn changed(&self, origin: usize, spec: &ColumnSpec) -> Result<Draft, Problem> {
        let mut column = self.defined(spec)?;
        if self.convert.is_some()
            && matches!(spec.ty.base, BaseType::Text(0..=3) | BaseType::Blob(0..=3))
            && spec.ty.len.is_none()
            && let Some(before) = self.old.columns.get(origin)
        {
            column.ty.meta = text_class(before, &column.ty)?;
        }
        let silent = named(spec, &column);
        Ok(Draft { column, origin: Some(origin), silent })
    }

    fn defined(&self, spec: &ColumnSpec) -> Result<Column, Problem> {
        let default = self.table_default()?;
        let Some(to) = self.convert else { return table_build::column(spec, default, self.scope) };
        // CONVERT TO also applies to new and changed columns, whatever character set they name. Binary columns stay
        // binary.
        let named = column_type::resolve_charset(&spec.ty.charset, default, self.scope.utf8mb4_default)?;
        let mut spec = spec.clone();
        if named.id != charset::BINARY {
            spec.ty.charset = CharsetSpec::default();
        }
        table_build::column(&spec, to, self.scope)
    }

    fn set_default(&mut self, name: &str, default: Option<&DefaultSpec>) -> Result<(), Problem> {
        let Some(draft) = self.columns.iter_mut().find(|draft| same_name(&draft.column.name, name)) else {
            return no_column(self.old, name);
        };
        table_build::set_default(&mut draft.column, default, self.scope);
        draft.column.declared.no_default = default.is_none();
        Ok(())
    }

    /// Places moved and new columns, in the order of the statement. Until its turn comes, a column keeps its old place
    /// under its new name, so that another one can be placed AFTER it there (seen on 9.7).
    fn columns_elsewhere(&mut self, actions: &'a [AlterAction]) -> Result<(), Problem> {
        for action in actions {
            match action {
                AlterAction::ChangeColumn { name, position: Some(position), .. } => {
                    let origin = self.old.column_index(name);
                    let Some(at) = self.columns.iter().position(|draft| origin.is_some() && draft.origin == origin)
                    else {
                        return no_column(self.old, name);
                    };
                    let draft = self.columns.remove(at);
                    self.place(draft, Some(position))?;
                }
                AlterAction::AddColumns { columns, keys, position } => {
                    self.keys.extend(keys);
                    for spec in columns {
                        if self.columns.len() >= base::limits::COLUMNS_MAX {
                            let name = self.old.full_name();
                            return Problem::disagrees(format!("more columns than a table can have, in {name}"));
                        }
                        let column = self.defined(spec)?;
                        let silent = named(spec, &column);
                        self.place(Draft { column, origin: None, silent }, position.as_ref())?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn place(&mut self, draft: Draft, position: Option<&Position>) -> Result<(), Problem> {
        let at = match position {
            None => self.columns.len(),
            Some(Position::First) => usize::from(self.begins_with_generated_key()),
            Some(Position::After(name)) => {
                match self.columns.iter().position(|other| same_name(&other.column.name, name)) {
                    Some(at) => at + 1,
                    None => return no_column(self.old, name),
                }
            }
        };
        self.columns.insert(at, draft);
        Ok(())
    }

    /// True if the first column is a generated invisible primary key, which stays in front of a column placed FIRST in
    /// a table that is of InnoDB before and after (seen on 9.7). Like the server, decides by the column's properties
    /// (`table_has_generated_invisible_primary_key`, sql/sql_gipk.cc).
    fn begins_with_generated_key(&self) -> bool {
        if ![self.old, &self.table].iter().all(|table| table.engine.eq_ignore_ascii_case("InnoDB")) {
            return false;
        }
        let Some(Column { name, ty, invisible: true, auto_increment: true, .. }) =
            self.columns.first().map(|draft| &draft.column)
        else {
            return false;
        };
        let is_key = self.old.keys.iter().any(|key| {
            let alone = key.primary && key.expressions.is_empty() && key.parts.len() == 1;
            alone && key.parts.iter().any(|part| self.old.column_index(name) == Some(part.column))
        });
        same_name(name, "my_row_id") && ty.code == code::LONGLONG && ty.unsigned && is_key
    }

    fn drop_keys(&mut self, actions: &[AlterAction]) -> Result<(), Problem> {
        let table = &mut self.table;
        for action in actions {
            match action {
                AlterAction::DropKey(name) => {
                    let before = table.keys.len();
                    table.keys.retain(|key| !same_name(&key.name, name));
                    if table.keys.len() == before {
                        return Problem::disagrees(format!("table {} has no key `{name}`", table.full_name()));
                    }
                }
                AlterAction::DropPrimaryKey => {
                    let before = table.keys.len();
                    table.keys.retain(|key| !key.primary);
                    if table.keys.len() == before {
                        return Problem::disagrees(format!("table {} has no PRIMARY KEY", table.full_name()));
                    }
                }
                AlterAction::DropForeignKey(name) => {
                    let before = table.foreign_keys.len();
                    table.foreign_keys.retain(|key| !same_name(&key.name, name));
                    // Engines without foreign keys take any name.
                    if table.foreign_keys.len() == before && table.engine.eq_ignore_ascii_case("InnoDB") {
                        return Problem::disagrees(format!("table {} has no foreign key `{name}`", table.full_name()));
                    }
                }
                AlterAction::DropConstraint(name) => {
                    // A name that matches neither is that of a check.
                    table.foreign_keys.retain(|key| !same_name(&key.name, name));
                    table.keys.retain(|key| !(key.unique && same_name(&key.name, name)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts the columns into the definition and updates the keys that refer to them.
    fn settle_columns(&mut self) -> Result<(), Problem> {
        let mut names: Vec<String> = self.columns.iter().map(|draft| draft.column.name.to_lowercase()).collect();
        names.sort_unstable();
        if let Some([twice, _]) = names.array_windows().find(|[left, right]| left == right) {
            return Problem::disagrees(format!("column `{twice}` is there twice"));
        }
        if self.columns.is_empty() {
            return Problem::disagrees("a table without columns");
        }
        let now = |old: usize| self.columns.iter().position(|draft| draft.origin == Some(old));
        let of_key = |old: &Column| column_of_key(self.old, &self.columns, &old.name);
        self.table.columns = self.columns.iter().map(|draft| draft.column.clone()).collect();
        let table = &mut self.table;
        for key in &mut table.keys {
            let ordered = key.kind == IndexKind::Ordered;
            key.parts.retain_mut(|part| {
                let before = self.old.columns.get(part.column);
                let Some(column) = before.and_then(of_key) else { return false };
                let is_another = now(part.column) != Some(column);
                let asked = before.filter(|_| ordered).and_then(|before| match is_another {
                    true => identity::kept_length(before, part.prefix_len),
                    // All bytes of a TINYBLOB may be fewer than all of another type.
                    false => identity::declared_prefix(before, part.prefix_len),
                });
                part.column = column;
                part.prefix_len = table.columns.get(column).and_then(|column| table_build::prefix_of(column, asked));
                if is_another {
                    key.id = 0;
                }
                if let Some(column) = table.columns.get_mut(column).filter(|_| key.primary) {
                    column.nullable = false;
                }
                true
            });
        }
        // A key that lost all of its columns is dropped.
        table.keys.retain(|key| !key.parts.is_empty() || !key.expressions.is_empty());
        for key in &mut table.foreign_keys {
            key.columns = key.columns.iter().filter_map(|column| now(*column)).collect();
            if key.parent_db == table.db && key.parent_table == table.name {
                rename_parents(&mut key.parent_columns, &self.renamed);
            }
        }
        Ok(())
    }

    /// CHECK constraints, and the spelling of expressions.
    fn checks(&mut self, actions: &[AlterAction]) {
        let names: Vec<String> = self.table.columns.iter().map(|column| column.name.clone()).collect();
        let is_new = |name: &str| {
            let named = |spec: &ColumnSpec| same_name(&spec.name, name);
            actions.iter().any(|action| match action {
                AlterAction::AddColumns { columns, .. } => columns.iter().any(named),
                AlterAction::ChangeColumn { column, .. } => named(column),
                AlterAction::ColumnDefault { name: of, .. } => same_name(of, name),
                _ => false,
            })
        };
        table_build::settle_spelling(&mut self.table, &is_new);
        let Some(declared) = &mut self.table.declared else { return };
        if self.anew {
            let own_name = |name: &str| names.iter().find(|own| same_name(own, name)).cloned();
            for condition in declared.checks.iter_mut().filter_map(|check| check.condition.as_mut()) {
                *condition = expression::with_names(condition, &own_name);
            }
        }
        for action in actions {
            match action {
                AlterAction::DropColumn(name) => declared.column_gone(name),
                AlterAction::DropCheck(name) => declared.checks.retain(|check| !same_name(&check.name, name)),
                AlterAction::DropConstraint(name) => {
                    let of_another = self.old.foreign_keys.iter().any(|key| same_name(&key.name, name))
                        || self.old.keys.iter().any(|key| key.unique && same_name(&key.name, name));
                    if !of_another {
                        declared.checks.retain(|check| !same_name(&check.name, name));
                    }
                }
                AlterAction::EnforceCheck { name, enforced } => {
                    for check in declared.checks.iter_mut().filter(|check| same_name(&check.name, name)) {
                        check.enforced = *enforced;
                    }
                }
                _ => {}
            }
        }
        let new = actions.iter().filter_map(|action| match action {
            AlterAction::AddChecks(checks) => Some(checks),
            _ => None,
        });
        declared.add_checks(&self.old.name, new.flatten().cloned());
    }

    fn add_keys(&mut self, actions: &[AlterAction]) -> Result<(), Problem> {
        let table = &mut self.table;
        let new = self.keys.iter().copied().chain(actions.iter().filter_map(|action| match action {
            AlterAction::AddKey(key) => Some(key),
            _ => None,
        }));
        let new: Vec<&KeySpec> = new.collect();
        // A primary key makes its columns NOT NULL, even if the statement does not say so.
        for key in new.iter().filter(|key| key.kind == KeyKind::Primary) {
            for part in &key.parts {
                let PartSpec::Column { name, .. } = part else { continue };
                let Some(position) = table.column_index(name) else { return no_column(table, name) };
                if let Some(column) = table.columns.get_mut(position) {
                    column.nullable = false;
                }
            }
        }
        for action in actions {
            let (AlterAction::RenameKey { from: name, .. } | AlterAction::KeyVisibility { name, .. }) = action else {
                continue;
            };
            let is_named = |key: &Key| same_name(&key.name, name);
            if !table.keys.iter().any(is_named) {
                return Problem::disagrees(format!("table {} has no key `{name}`", table.full_name()));
            }
        }
        // By the names before the statement, which two keys may exchange.
        for key in &mut table.keys {
            let before = key.name.clone();
            for action in actions {
                match action {
                    AlterAction::RenameKey { from, to } if same_name(from, &before) => key.name.clone_from(to),
                    AlterAction::KeyVisibility { name, invisible } if same_name(name, &before) => {
                        key.invisible = *invisible;
                    }
                    _ => {}
                }
            }
        }
        for key in new {
            table_build::add_key(table, key, self.scope)?;
        }
        engine::settle(table);
        Ok(())
    }
}

/// Position of the column that a key's column of this name becomes: the first one that had the name or is added under
/// it. So the key of a column that is dropped and added has the added one, and that of a renamed column goes over to a
/// column added before it under its name (`prepare_key`, sql/sql_table.cc; seen on 9.7.4).
fn column_of_key(old: &TableDef, columns: &[Draft], name: &str) -> Option<usize> {
    columns.iter().position(|draft| {
        let before = draft.origin.and_then(|origin| old.columns.get(origin));
        same_name(&before.unwrap_or(&draft.column).name, name)
    })
}

/// Renames the parent columns of a foreign key after columns of the parent were renamed.
pub(crate) fn rename_parents(columns: &mut [String], renamed: &[(String, String)]) {
    for column in columns {
        if let Some((_, to)) = renamed.iter().find(|(from, _)| same_name(from, column)) {
            column.clone_from(to);
        }
    }
}

/// Type of a column after CONVERT TO: room for as many characters as before. TEXT grows or shrinks to the class that
/// holds them (`Create_field::init_for_tmp_table` and `blob_type_from_length`; seen on 9.7).
fn converted_type(ty: &ColumnType, to: Collation) -> Result<ColumnType, Problem> {
    let is_text = matches!(ty.code, code::CHAR | code::VARCHAR | code::BLOB | code::ENUM | code::SET);
    if !is_text || ty.collation == charset::BINARY {
        return Ok(ty.clone());
    }
    let from =
        charset::by_id(ty.collation).ok_or_else(|| Problem::NotSupported(format!("collation {}", ty.collation)))?;
    let (old_width, new_width) = (u64::from(from.mbmaxlen), u64::from(to.mbmaxlen));
    let mut new = ty.clone();
    new.collation = to.id;
    match ty.code {
        code::CHAR => new.meta = u16::try_from(u64::from(ty.meta) / old_width * new_width).unwrap_or(u16::MAX),
        code::VARCHAR => {
            let bytes = u64::from(ty.meta) / old_width * new_width;
            match u16::try_from(bytes) {
                Ok(bytes) => new.meta = bytes,
                Err(_) => (new.code, new.meta) = (code::BLOB, blob_length_bytes(bytes)),
            }
        }
        code::BLOB => {
            let bytes = (1u64 << (8 * ty.meta.clamp(1, 4))) - 1;
            if old_width != new_width {
                new.meta = blob_length_bytes(bytes / old_width * new_width);
            }
        }
        // Member names keep their bytes, whatever these mean in the new character set (seen on 9.7.4: utf8mb4 'é'
        // becomes latin1 'Ã©').
        _ => {}
    }
    Ok(new)
}

/// Length bytes of a TEXT or BLOB column that comes from CHANGE or MODIFY next to CONVERT TO, with neither a length nor
/// LONGTEXT given. Whatever size is named, the class follows from the maximum text length of the old column,
/// interpreted as bytes of its character set (seen on 9.7). For numbers and times only the widths that exceed TINYTEXT
/// matter.
fn text_class(before: &Column, to: &ColumnType) -> Result<u16, Problem> {
    let charset = |collation: u16| {
        charset::by_id(collation).ok_or_else(|| Problem::NotSupported(format!("collation {collation}")))
    };
    let old = &before.ty;
    let is_text = matches!(old.code, code::CHAR | code::VARCHAR | code::BLOB | code::ENUM | code::SET);
    let from = if is_text { Some(charset(old.collation)?) } else { None };
    let old_width = from.map_or(1, |from| u64::from(from.mbmaxlen));
    let name = from.map_or("binary", |from| from.charset);
    let members: Vec<u64> = (old.members.iter())
        .map(|member| charset::to_unicode(member, name).map_or(member.len(), |text| text.chars().count()) as u64)
        .collect();
    let len = match old.code {
        code::CHAR | code::VARCHAR => u64::from(old.meta) / old_width,
        code::BLOB => (1u64 << (8 * old.meta.clamp(1, 4))) - 1,
        code::ENUM => members.iter().max().copied().unwrap_or(0),
        // Plus the commas between members.
        code::SET => members.iter().sum::<u64>() + members.len().saturating_sub(1) as u64,
        code::JSON | code::GEOMETRY => u64::from(u32::MAX),
        code::BIT => u64::from(old.meta),
        // Plus a sign, and a point if there are decimals.
        code::DECIMAL => {
            let (precision, scale) = old.precision_and_scale();
            u64::from(precision) + u64::from(scale > 0) + u64::from(!old.unsigned)
        }
        code::VECTOR => return Problem::unsupported("a VECTOR that becomes TEXT together with CONVERT TO"),
        _ => 0,
    };
    Ok(blob_length_bytes(len / old_width * u64::from(charset(to.collation)?.mbmaxlen)))
}

/// Converts a default to the column's new type.
fn converted_default(old: &ColumnType, new: &ColumnType, image: &[u8]) -> ColumnDefault {
    let options = ConvertOptions { strict: true, ..ConvertOptions::default() };
    let mut out = Vec::new();
    let converted = Conversion::new(old, new, options).and_then(|conversion| conversion.append(image, &mut out));
    match converted {
        Ok(()) => ColumnDefault::Image(out),
        Err(_) => ColumnDefault::Expression("a default in another character set".to_owned()),
    }
}
