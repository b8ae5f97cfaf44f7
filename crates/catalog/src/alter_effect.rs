//! Effect of ALTER TABLE on a definition and on the stored rows.
//!
//! In: a definition and the parsed actions. Out: the new definition, the origin of each of its columns, and whether
//! stored rows can stay as they are (invariant 4). Never here: the catalog's maps, rows, ids.
//!
//! The order of steps mirrors `mysql_prepare_alter_table` (sql/sql_table.cc): drops, then changes in place, then moved
//! and new columns, then keys.

use values::ColumnType;
use values::convert::{Conversion, ConvertOptions, DateRules};

use crate::alter_algorithm;
use crate::charset::{self, Collation};
use crate::column_type::{self, blob_length_bytes};
use crate::default_value;
use crate::define::{self, Scope};
use crate::error::Problem;
use crate::layout::{ColumnSource, OlderLayout};
use crate::partition::{self, PartitionChoice, Partitioning};
use crate::sql_mode;
use crate::syntax::{
    AlterAction, BaseType, CharsetSpec, ColumnSpec, DefaultSpec, KeyKind, KeySpec, PartSpec, PartitionAction, Position,
    TableName, TableOptions,
};
use crate::table::{Column, ColumnDefault, GeneratedKind, Identity, OmittedValue, TableDef, code, same_name};

/// Most older layouts that a table's rows may have; beyond it, all rows are rewritten.
const OLDER_LAYOUTS_MAX: usize = 32;

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

/// Which rows a change of partitions moves or deletes.
pub(crate) enum PartitionsEffect {
    /// All rows are deleted.
    AllEmptied,
    /// Rows of these partitions are deleted.
    Emptied(PartitionChoice),
    /// Rows of one partition are exchanged with those of another table.
    Exchanged(PartitionChoice, TableName),
}

/// Effect on the stored rows.
pub(crate) enum RowsEffect {
    /// Row images remain valid as they are.
    Unchanged,
    /// Rows stay as they are and are converted when read. This layout, that of the old definition, describes their
    /// images.
    ReadAnew(OlderLayout),
    /// Rows are rewritten under a new table id, with each column's values from these sources.
    Rewritten(Vec<ColumnSource>),
}

/// A column of the new definition.
struct Draft {
    column: Column,
    /// Index of the old column that it was; None for an added one.
    origin: Option<usize>,
    /// True if the column has no DEFAULT and satisfies [`define::is_silent_timestamp`].
    silent: bool,
}

/// The new definition under construction.
struct Edit<'a> {
    old: &'a TableDef,
    scope: &'a Scope<'a>,
    table: TableDef,
    columns: Vec<Draft>,
    /// Target of CONVERT TO.
    convert: Option<Collation>,
    /// True if any action satisfies [`makes_anew`].
    anew: bool,
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
        anew: actions.iter().any(makes_anew),
        keys: Vec::new(),
        renamed: Vec::new(),
    };
    edit.options(actions)?;
    edit.columns_in_place(actions)?;
    edit.columns_elsewhere(actions)?;
    edit.drop_keys(actions)?;
    edit.settle_columns()?;
    edit.add_keys(actions)?;
    let rename_to = actions.iter().rev().find_map(|action| match action {
        AlterAction::RenameTo(to) => Some(to.clone()),
        _ => None,
    });
    let Edit { mut table, columns, renamed, .. } = edit;
    define::settle_keys(&mut table);
    let origins: Vec<Option<usize>> = columns.iter().map(|draft| draft.origin).collect();
    let partitions = partition_effect(old, &mut table, actions, scope)?;
    let copies = alter_algorithm::copies(old, &table, &origins, actions, scope);
    // Only a copy stores every value again, and so applies the session's rules for dates.
    let dates = if copies { date_rules(scope) } else { DateRules::default() };
    let (rows, revalued) = rows_effect(old, &table, &origins, (copies, dates), scope);
    Ok(Altered { table, rename_to, renamed_columns: renamed, rows, revalued, partitions })
}

/// True if the server rewrites the whole definition for this action, and so re-reads from their text the defaults of
/// columns that the statement does not name (seen on 9.7; it executes the other actions without
/// `mysql_prepare_alter_table`).
fn makes_anew(action: &AlterAction) -> bool {
    !matches!(
        action,
        AlterAction::RenameTo(_)
            | AlterAction::Nothing
            | AlterAction::InPlace
            | AlterAction::Partitions(PartitionAction::Truncate(_) | PartitionAction::Exchange { .. })
    )
}

fn no_column<T>(table: &TableDef, name: &str) -> Result<T, Problem> {
    Problem::disagrees(format!("table {} has no column `{name}`", table.full_name()))
}

impl<'a> Edit<'a> {
    fn options(&mut self, actions: &[AlterAction]) -> Result<(), Problem> {
        let mut charset = CharsetSpec::default();
        for action in actions {
            match action {
                AlterAction::Options(TableOptions { charset: given, comment, engine, .. }) => {
                    charset.charset = given.charset.clone().or(charset.charset);
                    charset.collation = given.collation.clone().or(charset.collation);
                    if let Some(comment) = comment {
                        self.table.comment.clone_from(comment);
                    }
                    if let Some(engine) = engine {
                        self.table.engine.clone_from(engine);
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
            define::read_default_anew(&mut column);
        }
        let silent = column.default == ColumnDefault::None && define::is_silent_timestamp(&column);
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
        let silent = spec.default.is_none() && define::is_silent_timestamp(&column);
        Ok(Draft { column, origin: Some(origin), silent })
    }

    fn defined(&self, spec: &ColumnSpec) -> Result<Column, Problem> {
        let default = self.table_default()?;
        let Some(to) = self.convert else { return define::column(spec, default, self.scope) };
        // CONVERT TO also applies to new and changed columns, whatever character set they name. Binary columns stay
        // binary.
        let named = column_type::resolve_charset(&spec.ty.charset, default, self.scope.utf8mb4_default)?;
        let mut spec = spec.clone();
        if named.id != charset::BINARY {
            spec.ty.charset = CharsetSpec::default();
        }
        define::column(&spec, to, self.scope)
    }

    fn set_default(&mut self, name: &str, default: Option<&DefaultSpec>) -> Result<(), Problem> {
        let Some(draft) = self.columns.iter_mut().find(|draft| same_name(&draft.column.name, name)) else {
            return no_column(self.old, name);
        };
        let scale = draft.column.display.decimals.map(u64::from);
        draft.column.default = define::default_of(&draft.column.ty, default, scale, self.scope);
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
                        let column = self.defined(spec)?;
                        let silent = spec.default.is_none() && define::is_silent_timestamp(&column);
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

    /// True if the first column is a generated invisible primary key, which stays in front of a column placed FIRST
    /// (seen on 9.7). Like the server, decides by the column's properties (`table_has_generated_invisible_primary_key`,
    /// sql/sql_gipk.cc).
    fn begins_with_generated_key(&self) -> bool {
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
                    if table.foreign_keys.len() == before {
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
        self.table.columns = self.columns.iter().map(|draft| draft.column.clone()).collect();
        let silent: Vec<bool> = self.columns.iter().map(|draft| draft.silent).collect();
        define::promote_first_timestamp(&mut self.table.columns, &silent, self.scope);
        let table = &mut self.table;
        for key in &mut table.keys {
            key.parts.retain_mut(|part| match now(part.column) {
                Some(column) => {
                    part.column = column;
                    true
                }
                None => false,
            });
            for part in &mut key.parts {
                if let (Some(column), Some(prefix)) = (table.columns.get(part.column), part.prefix_len) {
                    part.prefix_len = define::prefix_of(column, Some(prefix));
                }
            }
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
            match action {
                AlterAction::RenameKey { from, to } => {
                    match table.keys.iter_mut().find(|key| same_name(&key.name, from)) {
                        Some(key) => key.name.clone_from(to),
                        None => return Problem::disagrees(format!("table {} has no key `{from}`", table.full_name())),
                    }
                }
                AlterAction::KeyVisibility { name, invisible } => {
                    match table.keys.iter_mut().find(|key| same_name(&key.name, name)) {
                        Some(key) => key.invisible = *invisible,
                        None => return Problem::disagrees(format!("table {} has no key `{name}`", table.full_name())),
                    }
                }
                _ => {}
            }
        }
        for key in new {
            define::add_key(table, key, self.scope)?;
        }
        define::settle_engine(table);
        Ok(())
    }
}

/// Applies the partition action; MySQL accepts one per statement.
fn partition_effect(
    old: &TableDef,
    table: &mut TableDef,
    actions: &[AlterAction],
    scope: &Scope<'_>,
) -> Result<Option<PartitionsEffect>, Problem> {
    let action = actions.iter().find_map(|action| match action {
        AlterAction::Partitions(action) => Some(action),
        _ => None,
    });
    let Some(action) = action else { return Ok(None) };
    match action {
        PartitionAction::By(text) => {
            table.partition_by = Some(text.clone());
            table.partitioning = partition::parse(scope.context, text);
            return Ok(None);
        }
        PartitionAction::Remove => {
            (table.partition_by, table.partitioning) = (None, None);
            return Ok(None);
        }
        PartitionAction::Truncate(None) if table.partition_by.is_some() => {
            return Ok(Some(PartitionsEffect::AllEmptied));
        }
        _ => {}
    }
    // Every other action depends on the current partitions.
    let Some(now) = &mut table.partitioning else {
        let what = format!("a change of the partitions of {}, whose PARTITION BY is not understood", old.full_name());
        return Problem::unsupported(what);
    };
    let choice = |now: &Partitioning, names: &[String]| -> Result<PartitionChoice, Problem> {
        Ok(PartitionChoice { partitioning: now.clone(), chosen: now.positions(names)? })
    };
    Ok(match action {
        PartitionAction::Add(partitions) => {
            now.partitions.extend(partitions.iter().cloned());
            None
        }
        PartitionAction::AddNumbered(count) => {
            now.add_numbered(*count);
            None
        }
        PartitionAction::Renumber => {
            now.partitions.clear();
            now.add_numbered(1);
            None
        }
        PartitionAction::Coalesce(count) => {
            // COALESCE removes the last partitions; at least one remains.
            let left = now.partitions.len().saturating_sub(usize::try_from(*count).unwrap_or(usize::MAX));
            now.partitions.truncate(left.max(1));
            None
        }
        PartitionAction::Reorganize { partitions, into } => {
            let positions = now.positions(partitions)?;
            let first = positions.iter().min().copied().unwrap_or(0);
            let mut position = 0;
            now.partitions.retain(|_| {
                position += 1;
                !positions.contains(&(position - 1))
            });
            // The new partitions take the place of the first one that they replace.
            now.partitions.splice(first..first, into.iter().cloned());
            None
        }
        PartitionAction::Drop(names) => {
            let choice = choice(now, names)?;
            let mut position = 0;
            now.partitions.retain(|_| {
                position += 1;
                !choice.chosen.contains(&(position - 1))
            });
            Some(PartitionsEffect::Emptied(choice))
        }
        PartitionAction::Truncate(names) => {
            Some(PartitionsEffect::Emptied(choice(now, names.as_deref().unwrap_or_default())?))
        }
        PartitionAction::Exchange { partition, with } => {
            Some(PartitionsEffect::Exchanged(choice(now, std::slice::from_ref(partition))?, with.clone()))
        }
        PartitionAction::By(_) | PartitionAction::Remove => None,
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
        code::VECTOR => return Problem::unsupported("a VECTOR that becomes TEXT beside CONVERT TO"),
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

/// Effect on the rows, and [`Altered::revalued`]. `copies` is true if the source copies the table.
fn rows_effect(
    old: &TableDef,
    new: &TableDef,
    origins: &[Option<usize>],
    (copies, dates): (bool, DateRules),
    scope: &Scope<'_>,
) -> (RowsEffect, Vec<usize>) {
    let mut sources: Vec<ColumnSource> = Vec::with_capacity(origins.len());
    // Names of columns whose values change and from which generated columns may have been computed.
    let mut changed: Vec<&str> = Vec::new();
    // Columns whose dates may become zero: name, index of the old column, options.
    let mut dated: Vec<(&str, usize, ConvertOptions)> = Vec::new();
    for (column, origin) in new.columns.iter().zip(origins) {
        let source = match origin.and_then(|at| Some((at, old.columns.get(at)?))) {
            Some((at, before)) => {
                let source = from_old(at, before, column, (copies, dates), scope);
                if let ColumnSource::Converted { options, null: None, .. } = &source
                    && before.ty == column.ty
                    && before.name == column.name
                {
                    dated.push((&column.name, at, *options));
                } else if column.generated.is_none() && !keeps_value(&source, before, column) {
                    changed.extend([before.name.as_str(), column.name.as_str()]);
                }
                source
            }
            None => added(column, scope),
        };
        sources.push(source);
    }
    // In column order, because a generated column may read another one to its left.
    for ((column, source), origin) in new.columns.iter().zip(&mut sources).zip(origins) {
        if column.generated.is_some() && origin.is_some() && changed.iter().any(|name| may_read(column, name)) {
            let what = format!("the generated column `{}` over columns of another type", column.name);
            *source = ColumnSource::Unknown { what, column: None };
            changed.push(&column.name);
            continue;
        }
        let read = |(name, at, options): &(&str, usize, ConvertOptions)| {
            (*name != column.name && may_read(column, name)).then_some((*at, *options))
        };
        let same: Vec<_> = dated.iter().filter_map(read).collect();
        if let (Some(_), Some(at), false) = (column.generated, *origin, same.is_empty()) {
            let what = format!("the generated column `{}` over a date that became zero", column.name);
            *source = ColumnSource::KeptWhile { column: at, same, what };
        }
    }
    let in_place = |(at, source): (usize, &ColumnSource)| *source == ColumnSource::Kept(at);
    let same_layout = old.columns.len() == new.columns.len() && sources.iter().enumerate().all(in_place);
    let same_identity = same_identity(old, new, origins);
    let types_differ = old.columns.iter().zip(&new.columns).any(|(old, new)| old.ty != new.ty);
    // Any difference of types rules out unchanged rows, because entries of secondary indexes are made from images read
    // under the definition.
    let unchanged = same_layout && !types_differ && (same_identity || old.identity == new.identity);
    if unchanged && same_order(old, new) {
        return (RowsEffect::Unchanged, Vec::new());
    }
    let loss = |(source, column): (&ColumnSource, &Column)| loss_of(source, column, old);
    let losses: Vec<Loss> = sources.iter().zip(&new.columns).map(loss).collect();
    let revalued: Vec<usize> = (0..losses.len()).filter(|at| losses.get(*at) == Some(&Loss::Dates)).collect();
    let same_keys = match &new.identity {
        Identity::Columns(columns) => columns.iter().all(|column| !revalued.contains(column)),
        Identity::WholeImage => false,
    };
    let keyed = old.identity != Identity::WholeImage && same_keys;
    // Rows are converted lazily if their stored keys stay valid and no conversion can fail or merge rows.
    let can_wait = !losses.contains(&Loss::Values);
    if keyed && same_identity && can_wait && old.older_layouts.len() < OLDER_LAYOUTS_MAX {
        let layout = OlderLayout { since: old.layout_since, types: old.column_types(), to_next: sources };
        return (RowsEffect::ReadAnew(layout), revalued);
    }
    (RowsEffect::Rewritten(sources), revalued)
}

/// True if a generated column's expression may read the column of this name, which is the case if its text contains the
/// name.
fn may_read(column: &Column, name: &str) -> bool {
    let text = column.expression.to_lowercase();
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    text.is_empty() || !plain || text.contains(&name.to_lowercase())
}

/// True if the key has the same directions and prefixes, so that rows keep their order where [`same_identity`] holds.
/// Rows without a key have no order.
fn same_order(old: &TableDef, new: &TableDef) -> bool {
    let parts = |table: &TableDef| -> Vec<(bool, Option<u32>)> {
        let key = table.identity_key();
        key.map(|key| key.parts.iter().map(|part| (part.descending, part.prefix_len)).collect()).unwrap_or_default()
    };
    parts(old) == parts(new)
}

/// What conversion of a column's values may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Nothing,
    /// Dates that the session does not accept become zero. This raises no error, and no row becomes equal to another.
    Dates,
    /// Anything else, so rows must be rewritten immediately to show it.
    Values,
}

fn loss_of(source: &ColumnSource, column: &Column, old: &TableDef) -> Loss {
    match source {
        ColumnSource::Kept(_) | ColumnSource::Constant(_) | ColumnSource::Null => Loss::Nothing,
        ColumnSource::Converted { column: at, options, null: None } => {
            let before = old.columns.get(*at);
            match before.map(|before| Conversion::new(&before.ty, &column.ty, *options)) {
                Some(Ok(conversion)) if conversion.is_lossless() => Loss::Nothing,
                Some(Ok(conversion)) if conversion.is_lossless_but_for_dates() => Loss::Dates,
                _ => Loss::Values,
            }
        }
        ColumnSource::Converted { null: Some(_), .. }
        | ColumnSource::KeptWhile { .. }
        | ColumnSource::Unknown { .. } => Loss::Values,
    }
}

/// True if values computed from a column stay the same.
fn keeps_value(source: &ColumnSource, before: &Column, column: &Column) -> bool {
    // In strict mode a value that does not fit is an error, and the statement would not have been logged.
    let fits = |options: &ConvertOptions| match (integer_bytes(&before.ty), integer_bytes(&column.ty)) {
        (Some(old), Some(new)) if before.ty.unsigned == column.ty.unsigned => options.strict || old <= new,
        (Some(old), Some(new)) => options.strict || before.ty.unsigned && old < new,
        _ => false,
    };
    match source {
        ColumnSource::Kept(_) => before.ty.collation == column.ty.collation,
        ColumnSource::Converted { null: None, options, .. } => {
            fits(options)
                || (before.ty.code == column.ty.code
                    && before.ty.collation == column.ty.collation
                    && before.ty.code == code::VARCHAR
                    && before.ty.meta <= column.ty.meta)
        }
        _ => false,
    }
}

fn integer_bytes(ty: &ColumnType) -> Option<usize> {
    ty.is_integer().then(|| ty.fixed_len())?
}

fn from_old(
    at: usize,
    before: &Column,
    column: &Column,
    (copies, dates): (bool, DateRules),
    scope: &Scope<'_>,
) -> ColumnSource {
    let computed_alike =
        before.generated == column.generated && before.ty == column.ty && before.expression == column.expression;
    // A value that was computed as NULL and stored as the type's zero outside strict mode now becomes NULL.
    let may_be_null_again = !before.nullable && column.nullable;
    if column.generated.is_some() && (!computed_alike || may_be_null_again) {
        let what = format!("the values of the generated column `{}`", column.name);
        return ColumnSource::Unknown { what, column: None };
    }
    let options = convert_options(before, dates, scope);
    let null = match before.nullable && !column.nullable {
        // NULL becomes the time of the statement, whatever the mode (`do_copy_timestamp`, sql/field_conv.cc).
        true if column.ty.code == code::TIMESTAMP2 => match statement_time(column, scope) {
            Some(image) => Some(image),
            None => {
                let what = format!("the time in place of NULL in `{}`", column.name);
                return ColumnSource::Unknown { what, column: None };
            }
        },
        // Becomes the error value, not the first member as in a row that omits the column (`Field::reset`; seen on
        // 9.7).
        true if !options.strict && column.ty.code == code::ENUM => Some(vec![0; usize::from(column.ty.meta)]),
        // The server does not check the rows of a virtual column, whatever the mode: NULL reads as the type's zero
        // (seen on 9.7.4 with CHANGE … VIRTUAL NOT NULL).
        true if !options.strict || column.generated == Some(GeneratedKind::Virtual) => {
            default_value::implicit(&column.ty)
        }
        _ => None,
    };
    let same = Conversion::new(&before.ty, &column.ty, options).is_ok_and(|conversion| conversion.keeps_bytes());
    // An ALTER in place keeps member numbers, whatever their new names.
    let numbers = !copies && before.ty.code == column.ty.code && matches!(column.ty.code, code::ENUM | code::SET);
    if (same || numbers) && null.is_none() {
        return ColumnSource::Kept(at);
    }
    ColumnSource::Converted { column: at, options, null }
}

/// True if `sql_mode` makes a value that does not fit an error.
pub(crate) fn is_strict(scope: &Scope<'_>) -> bool {
    scope.context.sql_mode & (sql_mode::STRICT_TRANS_TABLES | sql_mode::STRICT_ALL_TABLES) != 0
}

/// Which dates a statement that copies its table rejects.
fn date_rules(scope: &Scope<'_>) -> DateRules {
    let mode = scope.context.sql_mode;
    DateRules {
        day_must_exist: mode & sql_mode::ALLOW_INVALID_DATES == 0,
        no_zero_in_date: mode & sql_mode::NO_ZERO_IN_DATE != 0,
    }
}

fn convert_options(before: &Column, dates: DateRules, scope: &Scope<'_>) -> ConvertOptions {
    let mode = |bits: u64| scope.context.sql_mode & bits != 0;
    ConvertOptions {
        strict: is_strict(scope),
        truncate_fraction: mode(sql_mode::TIME_TRUNCATE_FRACTIONAL),
        pad_char: mode(sql_mode::PAD_CHAR_TO_FULL_LENGTH),
        offset_seconds: scope.context.time_zone.as_deref().and_then(default_value::offset_seconds),
        zerofill_width: before.display.zerofill_width,
        dates,
    }
}

/// Time of the statement as a value of the column; None if it is unknown.
fn statement_time(column: &Column, scope: &Scope<'_>) -> Option<Vec<u8>> {
    let zone = scope.context.time_zone.as_deref().and_then(default_value::offset_seconds);
    scope.context.timestamp_us.and_then(|now| default_value::now(&column.ty, now, zone))
}

/// Value of an added column in existing rows.
fn added(column: &Column, scope: &Scope<'_>) -> ColumnSource {
    let unknown = |what: &str| ColumnSource::Unknown { what: format!("{what} `{}`", column.name), column: None };
    if column.auto_increment {
        return unknown("the numbers of the added AUTO_INCREMENT column");
    }
    match column.generated {
        Some(GeneratedKind::Stored | GeneratedKind::Virtual) => {
            return unknown("the values of the added generated column");
        }
        None => {}
    }
    if column.default == ColumnDefault::CurrentTimestamp {
        return match statement_time(column, scope) {
            Some(image) => ColumnSource::Constant(image),
            None => unknown("the time in the added column"),
        };
    }
    match column.omitted_value() {
        OmittedValue::Null => ColumnSource::Null,
        OmittedValue::Image(bytes) => ColumnSource::Constant(bytes),
        OmittedValue::Unknown => unknown("the default of the added column"),
    }
}

/// True if stored key bytes, their hash and their order stay the same (invariant 4).
fn same_identity(old: &TableDef, new: &TableDef, origins: &[Option<usize>]) -> bool {
    let (Identity::Columns(before), Identity::Columns(after)) = (&old.identity, &new.identity) else { return false };
    let origin = |column: usize| origins.get(column).copied().flatten();
    let kept = |(before, after): (&usize, &usize)| {
        let alike = match (old.columns.get(*before), new.columns.get(*after)) {
            (Some(before), Some(after)) => before.ty == after.ty && before.nullable == after.nullable,
            _ => false,
        };
        alike && origin(*after) == Some(*before)
    };
    if before.len() != after.len() || !before.iter().zip(after).all(kept) || !same_order(old, new) {
        return false;
    }
    // Key bytes are stored in table order.
    let mut in_order = after.clone();
    in_order.sort_unstable();
    in_order.iter().map(|column| origin(*column)).is_sorted()
}
