//! Whether the source executed an ALTER TABLE by copying the table row by row (ALGORITHM=COPY).
//!
//! In: the old and the new definition, the actions, the session's modes. Out: yes or no. Never here: the consequence
//! for a column (`rows_effect`). A copy stores even the values of columns that the statement does not name again,
//! under the session's `sql_mode`.
//!
//! Mirrors the conditions that keep `mysql_alter_table` from working in place: `Field::is_equal` and its overrides
//! (sql/field.cc), `fill_alter_inplace_info` (sql/sql_table.cc), `check_if_supported_inplace_alter` (InnoDB). Every
//! form in the tests was tried on a 9.7 server. No event carries `old_alter_table`, so it is assumed OFF. With ON,
//! everything would be a copy except renames of the table and statements that name another algorithm.

use values::ColumnType;
use values::sort_key::{SortKeyColumn, SortKeyPlan, implemented};

use crate::charset::{self, Collation};
use crate::syntax::{AlterAction, KeyKind, KeySpec, PartitionAction, TableOptions};
use crate::table::{Column, ColumnDefault, GeneratedKind, IndexKind, Key, TableDef, code};
use crate::table_build::Scope;

use super::rows_effect::is_strict;

/// Longest VARCHAR, bytes, whose length prefix is one byte.
const SHORT_VARCHAR_MAX: u16 = 255;

/// True if the table is copied. `origins` gives for each new column the old one that it was.
pub(crate) fn copies(
    old: &TableDef,
    new: &TableDef,
    origins: &[Option<usize>],
    actions: &[AlterAction],
    scope: &Scope<'_>,
) -> bool {
    // Had it needed a copy, the server would have refused the statement.
    if actions.iter().any(|action| matches!(action, AlterAction::InPlace)) {
        return false;
    }
    if actions.iter().any(|action| matches!(action, AlterAction::Copies | AlterAction::OrderBy)) {
        return true;
    }
    if !old.engine.eq_ignore_ascii_case(&new.engine) {
        return true;
    }
    if !old.engine.eq_ignore_ascii_case("InnoDB") {
        return !of_the_definition_alone(old, new, origins, actions);
    }
    let partitions = |action: &PartitionAction| matches!(action, PartitionAction::By(_) | PartitionAction::Remove);
    let by_action = actions.iter().any(|action| match action {
        AlterAction::Partitions(action) => partitions(action),
        AlterAction::AddKey(key) => is_checked_foreign_key(key, scope),
        AlterAction::AddColumns { keys, columns, .. } => {
            columns.iter().any(|column| column.checked) || keys.iter().any(|key| is_checked_foreign_key(key, scope))
        }
        AlterAction::ChangeColumn { keys, column, .. } => {
            column.checked || keys.iter().any(|key| is_checked_foreign_key(key, scope))
        }
        _ => false,
    });
    let column_copies = |(column, origin): (&Column, &Option<usize>)| match origin.and_then(|at| old.columns.get(at)) {
        None => {
            column.generated == Some(GeneratedKind::Stored) || matches!(column.default, ColumnDefault::Expression(_))
        }
        Some(before) => {
            (before.nullable && !column.nullable && !is_strict(scope))
                || (column.auto_increment && !before.auto_increment)
                || before.generated != column.generated
                || before.expression != column.expression
                || !is_equal(before, column, is_indexed(old, *origin))
        }
    };
    by_action
        || new.columns.iter().zip(origins).any(column_copies)
        || loses_its_clustering_key(old, new)
        || (keeps_full_text(old, new) && rebuilds(old, new, origins, actions))
}

fn is_checked_foreign_key(key: &KeySpec, scope: &Scope<'_>) -> bool {
    key.kind == KeyKind::Foreign && !scope.context.no_foreign_key_checks
}

/// Engines other than InnoDB work in place only if no row is touched.
fn of_the_definition_alone(old: &TableDef, new: &TableDef, origins: &[Option<usize>], actions: &[AlterAction]) -> bool {
    let comment = |options: &TableOptions| {
        *options == TableOptions { comment: options.comment.clone(), ..TableOptions::default() }
            && options.comment.is_some()
    };
    let plain = |action: &AlterAction| match action {
        AlterAction::ChangeColumn { keys, position: None, .. } => keys.is_empty(),
        AlterAction::Options(options) => comment(options),
        AlterAction::RenameColumn { .. }
        | AlterAction::ColumnDefault { .. }
        | AlterAction::ColumnVisibility { .. }
        | AlterAction::RenameKey { .. }
        | AlterAction::KeyVisibility { .. }
        | AlterAction::RenameTo(_)
        | AlterAction::Remakes
        | AlterAction::AddChecks(_)
        | AlterAction::DropCheck(_)
        | AlterAction::EnforceCheck { .. }
        | AlterAction::Nothing => true,
        _ => false,
    };
    let alike = |(column, origin): (&Column, &Option<usize>)| {
        origin.and_then(|at| old.columns.get(at)).is_some_and(|before| {
            let same_length = before.ty.code != code::VARCHAR || before.ty.meta == column.ty.meta;
            before.nullable == column.nullable
                && before.auto_increment == column.auto_increment
                && before.expression == column.expression
                && same_length
                && is_equal(before, column, true)
        })
    };
    actions.iter().all(plain) && new.columns.iter().zip(origins).all(alike)
}

/// True if values stored under one type are also valid under the other: `Field::is_equal`.
fn is_equal(before: &Column, column: &Column, indexed: bool) -> bool {
    let (old, new) = (&before.ty, &column.ty);
    if old.code != new.code || old.unsigned != new.unsigned {
        return false;
    }
    match old.code {
        code::ENUM | code::SET => old.meta == new.meta && has_names_of(old, new),
        code::CHAR | code::VARCHAR | code::BLOB => {
            let Some((from, to)) = reads_as(old, new) else { return false };
            if old.collation != new.collation && indexed {
                return false;
            }
            match old.code {
                code::VARCHAR => {
                    old.meta <= new.meta && (old.meta > SHORT_VARCHAR_MAX) == (new.meta > SHORT_VARCHAR_MAX)
                }
                code::CHAR if new.collation != charset::BINARY => {
                    u16::from(from.mbmaxlen).checked_mul(new.meta) == u16::from(to.mbmaxlen).checked_mul(old.meta)
                }
                _ => old.meta == new.meta,
            }
        }
        code::GEOMETRY => is_same_geometry(&before.geometry, &column.geometry),
        // Unknown ones count as the same.
        code::VECTOR => before.vector_entries.zip(column.vector_entries).is_none_or(|(before, now)| before == now),
        _ => old.meta == new.meta,
    }
}

/// True if each member has the name of the new member in its place, as far as the new collation can tell. Compares
/// bytes, whatever character set the old ones were in (`compare_type_names`; seen on 9.7.4).
fn has_names_of(old: &ColumnType, new: &ColumnType) -> bool {
    let ty = ColumnType { collation: new.collation, ..ColumnType::new(code::VARCHAR, u16::MAX) };
    let plan = SortKeyPlan::new(&[SortKeyColumn { ty, nullable: false, descending: false, prefix_len: None }]);
    let sort_key = |name: &[u8]| {
        let (mut stored, mut key) = ((name.len() as u16).to_le_bytes().to_vec(), Vec::new());
        stored.extend_from_slice(name);
        plan.as_ref().ok()?.append_column(0, Some(&stored), &mut key).ok()?;
        Some(key)
    };
    // Weights of this collation are not implemented here. Most collations ignore case, so fold ASCII letters.
    let folds = !implemented(new.collation)
        && charset::by_id(new.collation)
            .is_some_and(|found| !found.name.ends_with("_bin") && !found.name.ends_with("_cs"));
    let is_name = |old: &[u8], new: &[u8]| {
        old == new
            || folds && old.eq_ignore_ascii_case(new)
            || sort_key(old).is_some_and(|key| Some(key) == sort_key(new))
    };
    let mut both = old.members.iter().zip(&*new.members);
    old.members.len() <= new.members.len() && both.all(|(old, new)| is_name(old, new))
}

/// True for the same type with the same SRID, or with its SRID dropped. An unknown type counts as the same.
fn is_same_geometry(before: &str, after: &str) -> bool {
    let without_srid = before.split(" srid ").next();
    before.is_empty() || after.is_empty() || before == after || without_srid == Some(after)
}

/// Both collations, if text of the first has the same bytes in the second.
fn reads_as(old: &ColumnType, new: &ColumnType) -> Option<(Collation, Collation)> {
    let (from, to) = (charset::by_id(old.collation)?, charset::by_id(new.collation)?);
    let grows = from.charset == "utf8mb3" && to.charset == "utf8mb4";
    (from.charset == to.charset || grows || to.id == charset::BINARY).then_some((from, to))
}

/// True if a column that changes in place has fewer characters than before, though no fewer bytes: values stay as they
/// are, longer than the new type allows (seen on 9.7.4 with VARCHAR(15) of utf8mb3 to VARCHAR(12) of utf8mb4).
pub(crate) fn keeps_overlong(before: &Column, column: &Column) -> bool {
    let (old, new) = (&before.ty, &column.ty);
    if old.code != code::VARCHAR || new.code != code::VARCHAR || column.generated.is_some() {
        return false;
    }
    let Some((from, to)) = reads_as(old, new) else { return false };
    // Bytes are counted as such.
    to.id != charset::BINARY && new.meta / u16::from(to.mbmaxlen) < old.meta / u16::from(from.mbmaxlen)
}

fn is_indexed(table: &TableDef, column: Option<usize>) -> bool {
    table.keys.iter().any(|key| key.parts.iter().any(|part| Some(part.column) == column))
}

/// True if the key that orders the rows is dropped without a new candidate, or the new definition leaves no key that
/// could serve.
fn loses_its_clustering_key(old: &TableDef, new: &TableDef) -> bool {
    let Some(before) = old.identity_key() else { return false };
    let is_new = |key: &Key| key.id == 0 || old.keys.iter().all(|other| other.id != key.id);
    let could_be = |key: &&Key| {
        let whole = |part: &crate::table::KeyPart| {
            part.prefix_len.is_none() && new.columns.get(part.column).is_some_and(|column| !column.nullable)
        };
        key.primary || (key.unique && key.expressions.is_empty() && key.parts.iter().all(whole))
    };
    if new.keys.iter().any(|key| key.id == before.id && before.id != 0) {
        return new.identity_key().is_none();
    }
    !new.keys.iter().filter(|key| is_new(key)).any(|key| could_be(&key))
}

/// A FULLTEXT index present before and after prevents InnoDB from rebuilding the table in place.
fn keeps_full_text(old: &TableDef, new: &TableDef) -> bool {
    let is_full_text = |key: &&Key| key.kind == IndexKind::FullText;
    old.keys.iter().filter(is_full_text).any(|key| new.keys.iter().any(|now| now.id == key.id))
}

fn rebuilds(old: &TableDef, new: &TableDef, origins: &[Option<usize>], actions: &[AlterAction]) -> bool {
    let stored = |table: &TableDef| -> Vec<usize> {
        let stored = |(at, column): (usize, &Column)| (column.generated != Some(GeneratedKind::Virtual)).then_some(at);
        table.columns.iter().enumerate().filter_map(stored).collect()
    };
    let kept: Option<Vec<usize>> = stored(new).into_iter().map(|at| origins.get(at).copied().flatten()).collect();
    let nullable = |(column, origin): (&Column, &Option<usize>)| {
        origin.and_then(|at| old.columns.get(at)).is_some_and(|before| before.nullable != column.nullable)
    };
    let key = |table: &TableDef| table.identity_key().map(|key| key.id);
    kept.is_none_or(|kept| kept != stored(old))
        || new.columns.iter().zip(origins).any(nullable)
        || key(old) != key(new)
        || actions.iter().any(|action| match action {
            AlterAction::Rebuilds => true,
            AlterAction::Options(options) => options.engine.is_some() || options.row_format,
            _ => false,
        })
}
