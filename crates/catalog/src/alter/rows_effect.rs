//! Effect of ALTER TABLE on the stored rows.
//!
//! In: the definitions before and after. Out: the origin of each column's value, and whether rows stay as they are, are
//! converted when read, or are rewritten (invariant 4). Never here: rows.

use values::ColumnType;
use values::convert::{Conversion, ConvertOptions, DateRules};

use super::algorithm;
use crate::default_value;
use crate::generated::{may_read, moved_names, of_the_session, reads_changed_default, reads_the_same};
use crate::layout::{ColumnSource, OlderLayout};
use crate::numbering::Numbering;
use crate::sql_mode;
use crate::table::{Column, ColumnDefault, GeneratedKind, Identity, OmittedValue, TableDef, code};
use crate::table_build::Scope;

/// Most older layouts that a table's rows may have; beyond it, all rows are rewritten.
const OLDER_LAYOUTS_MAX: usize = 32;

/// Effect on the stored rows.
pub(crate) enum RowsEffect {
    /// Row images remain valid as they are.
    Unchanged,
    /// Rows stay as they are and are converted when read. This layout, that of the old definition, describes their
    /// images.
    ConvertedOnRead(OlderLayout),
    /// Rows are rewritten under a new table id, with each column's values from these sources, and numbered.
    Rewritten(Vec<ColumnSource>, Option<Numbering>),
}

/// Effect on the rows, and [`Altered::revalued`]. `copies` is true if the source copies the table.
pub(super) fn rows_effect(
    old: &TableDef,
    new: &TableDef,
    origins: &[Option<usize>],
    numbering: Option<Numbering>,
    (copies, dates): (bool, DateRules),
    scope: &Scope<'_>,
) -> (RowsEffect, Vec<usize>) {
    let mut sources: Vec<ColumnSource> = Vec::with_capacity(origins.len());
    // Names of columns whose values change, from which generated columns may be computed.
    let mut changed: Vec<&str> = Vec::new();
    // Columns whose dates may become zero: name, index of the old column, options.
    let mut dated: Vec<(&str, usize, ConvertOptions)> = Vec::new();
    let moved = moved_names(old, new, origins);
    for (column, origin) in new.columns.iter().zip(origins) {
        let source = match origin.and_then(|at| Some((at, old.columns.get(at)?))) {
            Some((_, before)) if column.generated.is_some() && !reads_the_same(before, column, &moved) => {
                values_of(column)
            }
            Some((at, before)) => {
                let source = from_old(at, before, column, (copies, dates), scope);
                if let ColumnSource::Converted { options, null: None, .. } = &source
                    && before.ty == column.ty
                {
                    dated.push((&column.name, at, *options));
                } else if column.generated.is_none() && !keeps_value(&source, before, column) {
                    changed.push(&column.name);
                }
                source
            }
            None => added(column, scope),
        };
        sources.push(source);
    }
    let defaults: Vec<(&Column, &Column)> = (new.columns.iter().zip(origins))
        .filter_map(|(column, origin)| Some((old.columns.get((*origin)?)?, column)))
        .collect();
    let new_default = |column: &Column| defaults.iter().any(|(old, new)| reads_changed_default(column, old, new));
    let of_the_session = of_the_session(new);
    // In column order, because a generated column may read another one to its left.
    for (place, ((column, source), origin)) in new.columns.iter().zip(&mut sources).zip(origins).enumerate() {
        let why = match column.generated {
            None => None,
            Some(_) if origin.is_none() => None,
            Some(_) if changed.iter().any(|name| may_read(column, name)) => Some("over columns whose values change"),
            // ALTER TABLE computes both kinds again (seen on 9.7.4; SET DEFAULT copies the table then).
            Some(_) if new_default(column) => Some("over a default that changed"),
            Some(GeneratedKind::Stored) if copies && of_the_session.get(place) == Some(&true) => {
                Some("computed again under the session's settings")
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            let what = format!("the generated column `{}` {why}", column.name);
            *source = ColumnSource::Unknown { what, column: None };
        }
        if column.generated.is_some() && matches!(source, ColumnSource::Unknown { .. }) {
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
    if unchanged && same_order(old, new) && numbering.is_none() {
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
    if keyed && same_identity && can_wait && numbering.is_none() && old.older_layouts.len() < OLDER_LAYOUTS_MAX {
        let layout = OlderLayout { since: old.layout_since, types: old.column_types(), to_next: sources };
        return (RowsEffect::ConvertedOnRead(layout), revalued);
    }
    settle_virtual(old, new, origins, &mut sources);
    (RowsEffect::Rewritten(sources, numbering), revalued)
}

/// Virtual columns in rows that are rewritten: without a key they are left out ([`TableDef::without_virtual`]), and where
/// they were left out so far they are not known.
fn settle_virtual(old: &TableDef, new: &TableDef, origins: &[Option<usize>], sources: &mut [ColumnSource]) {
    for ((column, source), origin) in new.columns.iter().zip(sources).zip(origins) {
        if column.generated != Some(GeneratedKind::Virtual) {
            continue;
        }
        if new.identity == Identity::WholeImage {
            *source = ColumnSource::Null;
        } else if old.without_virtual && origin.is_some() {
            let what = format!("the virtual column `{}` of a table that had no key", column.name);
            *source = ColumnSource::Unknown { what, column: None };
        }
    }
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

/// The values of a generated column that the source computes again.
fn values_of(column: &Column) -> ColumnSource {
    ColumnSource::Unknown { what: format!("the values of the generated column `{}`", column.name), column: None }
}

fn from_old(
    at: usize,
    before: &Column,
    column: &Column,
    (copies, dates): (bool, DateRules),
    scope: &Scope<'_>,
) -> ColumnSource {
    let computed_alike = before.generated == column.generated && before.ty == column.ty;
    // A value that was computed as NULL and stored as the type's zero outside strict mode now becomes NULL.
    let may_be_null_again = !before.nullable && column.nullable;
    if column.generated.is_some() && (!computed_alike || may_be_null_again) {
        return values_of(column);
    }
    let options = convert_options(before, column, (copies, dates), scope);
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
        // Replaced by a number, in every mode.
        true if column.auto_increment => default_value::implicit(&column.ty),
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
    let overlong = !copies && algorithm::keeps_overlong(before, column);
    if (same || numbers || overlong) && null.is_none() {
        return ColumnSource::Kept(at);
    }
    ColumnSource::Converted { column: at, options, null }
}

/// True if `sql_mode` makes a value that does not fit an error.
pub(super) fn is_strict(scope: &Scope<'_>) -> bool {
    sql_mode::is_strict(scope.context.sql_mode)
}

/// Which dates a statement that copies its table rejects.
pub(super) fn date_rules(scope: &Scope<'_>) -> DateRules {
    let mode = scope.context.sql_mode;
    DateRules {
        day_must_exist: mode & sql_mode::ALLOW_INVALID_DATES == 0,
        no_zero_in_date: mode & sql_mode::NO_ZERO_IN_DATE != 0,
    }
}

fn convert_options(
    before: &Column,
    column: &Column,
    (copies, dates): (bool, DateRules),
    scope: &Scope<'_>,
) -> ConvertOptions {
    let mode = |bits: u64| scope.context.sql_mode & bits != 0;
    let offset_seconds = scope.context.time_zone.as_deref().and_then(default_value::offset_seconds);
    let dated = matches!(column.ty.code, code::DATE | code::DATETIME2 | code::TIMESTAMP2);
    // A change in place leaves values as they are.
    let rounded = copies && (before.ty != column.ty || before.display != column.display);
    ConvertOptions {
        strict: is_strict(scope),
        truncate_fraction: mode(sql_mode::TIME_TRUNCATE_FRACTIONAL),
        pad_char: mode(sql_mode::PAD_CHAR_TO_FULL_LENGTH),
        offset_seconds,
        zerofill_width: before.display.zerofill_width,
        from_decimals: before.display.decimals,
        to_decimals: column.display.decimals.filter(|_| rounded).map(|d| (column.display.digits.unwrap_or(u8::MAX), d)),
        overlong: copies && before.overlong,
        today: if before.ty.code == code::TIME2 && dated { today(scope, offset_seconds) } else { None },
        dates,
    }
}

/// The session's date at the time of the statement, as YYYYMMDD.
fn today(scope: &Scope<'_>, offset_seconds: Option<i32>) -> Option<u32> {
    let ty = ColumnType::new(code::DATETIME2, 0);
    let image = default_value::now(&ty, scope.context.timestamp_us?, offset_seconds)?;
    let mut shown = Vec::new();
    values::text::write_text(&ty, &image, values::text::TextOptions::default(), &mut shown).ok()?;
    let digits = shown.iter().take(10).filter(|byte| byte.is_ascii_digit()).copied().collect();
    String::from_utf8(digits).ok()?.parse().ok()
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
        // Replaced by a number in every row.
        return match default_value::implicit(&column.ty) {
            Some(zero) => ColumnSource::Constant(zero),
            None => unknown("the numbers of the added AUTO_INCREMENT column"),
        };
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
