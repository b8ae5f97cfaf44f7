//! Construction of a table's definition from a parsed statement.
//!
//! In: a [`TableSpec`] and the defaults of database and session. Out: a [`TableDef`]. Never here: the catalog's maps.

use values::text::{TextOptions, write_text};
use values::{ColumnType, Zone};

use crate::charset::{self, Collation};
use crate::column_type;
use crate::context::StatementContext;
use crate::declared::{DEFAULT_ZONE, DeclaredPart, DeclaredTable, LISTED_DEFAULT};
use crate::default_value::{self, LiteralScope};
use crate::engine;
use crate::error::Problem;
use crate::expression;
use crate::identity;
use crate::index_set;
use crate::lexer::SERVER_VERSION_DEFAULT;
use crate::parser;
use crate::partition;
use crate::shown;
use crate::sql_mode;
use crate::syntax::{BaseType, ColumnSpec, DefaultSpec, ForeignSpec, KeyKind, KeySpec, Literal, PartSpec, TableSpec};
use crate::table::{
    Column, ColumnDefault, ForeignKey, GeneratedKind, Identity, IndexKind, Key, KeyPart, TableDef, TableId, code,
    same_name,
};

/// Entries of a VECTOR that names no number.
const VECTOR_ENTRIES: u64 = 2048;

/// From this version on, REFERENCES at a column creates a foreign key; earlier servers parsed and ignored it.
const INLINE_REFERENCES_SINCE: u32 = 90_000;

/// Context of a definition.
pub(crate) struct Scope<'a> {
    pub(crate) context: &'a StatementContext,
    pub(crate) db: &'a str,
    /// Collation of tables that do not name one.
    pub(crate) database_default: Collation,
    /// Collation meant by `CHARACTER SET utf8mb4`.
    pub(crate) utf8mb4_default: Collation,
    /// Looks up the names of a parent table's PRIMARY KEY columns, for REFERENCES without columns.
    pub(crate) parent_key: &'a dyn Fn(&str, &str) -> Option<Vec<String>>,
}

impl Scope<'_> {
    fn version(&self) -> u32 {
        self.context.server_version.unwrap_or(SERVER_VERSION_DEFAULT)
    }
}

/// Builds the definition of a new table.
pub(crate) fn table(id: TableId, name: &str, spec: &TableSpec, scope: &Scope<'_>) -> Result<TableDef, Problem> {
    let default = column_type::resolve_charset(&spec.options.charset, scope.database_default, scope.utf8mb4_default)?;
    let mut table = TableDef {
        id,
        version: 1,
        db: scope.db.to_owned(),
        name: name.to_owned(),
        columns: Vec::with_capacity(spec.columns.len()),
        keys: Vec::new(),
        identity: Identity::WholeImage,
        without_virtual: false,
        misplaced_rows: false,
        virtual_unknown: false,
        default_collation: default.id,
        comment: spec.options.comment.clone().unwrap_or_default(),
        engine: engine::of_new_table(spec.options.engine.as_deref(), scope.context)?,
        merge: None,
        partition_by: spec.options.partition_by.clone(),
        partitioning: spec.options.partition_by.as_deref().and_then(|text| partition::parse(scope.context, text)),
        foreign_keys: Vec::new(),
        hidden_columns: 0,
        layout_since: 0,
        older_layouts: Vec::new(),
        declared: Some(DeclaredTable::default()),
        index_ids_given: 0,
    };
    let declared = table.declared.get_or_insert_default();
    spec.options.declared.iter().for_each(|(name, value)| declared.options.set(name, value));
    declared.add_checks(name, spec.checks.iter().cloned());
    for column_spec in &spec.columns {
        if table.column_index(&column_spec.name).is_some() {
            return Problem::disagrees(format!("column `{}` is defined twice", column_spec.name));
        }
        table.columns.push(column(column_spec, default, scope)?);
    }
    let silent: Vec<Silent> = table
        .columns
        .iter()
        .zip(&spec.columns)
        .map(|(column, spec)| match spec.default.is_none() && is_silent_timestamp(column) {
            true => Silent::Named,
            false => Silent::No,
        })
        .collect();
    // A primary key makes its columns NOT NULL, wherever it is declared.
    for key in spec.keys.iter().filter(|key| key.kind == KeyKind::Primary) {
        for part in &key.parts {
            if let PartSpec::Column { name, .. } = part {
                let position = column_position(&table, name)?;
                if let Some(column) = table.columns.get_mut(position) {
                    column.nullable = false;
                }
            }
        }
    }
    for key in &spec.keys {
        add_key(&mut table, key, scope)?;
    }
    promote_first_timestamp(&mut table, &silent, scope);
    if !scope.context.of_the_source {
        settle_spelling(&mut table, &|_| true);
    }
    engine::merge_options(&mut table, &spec.options, &scope.context.default_db);
    engine::settle(&mut table);
    settle_keys(&mut table);
    partition::settle_bounds(&mut table);
    table.settle_virtual();
    Ok(table)
}

pub(crate) fn column(spec: &ColumnSpec, table_default: Collation, scope: &Scope<'_>) -> Result<Column, Problem> {
    let ty = column_type::resolve(&spec.name, &spec.ty, table_default, scope.utf8mb4_default)?;
    let old_timestamp = ty.code == code::TIMESTAMP2 && scope.context.explicit_defaults_for_timestamp == Some(false);
    let nullable = spec.nullable.unwrap_or(!old_timestamp);
    let display = column_type::number_display(&spec.ty, &ty);
    let mut declared = spec.declared.clone();
    // The source prints DEFAULT NULL wherever there is one.
    declared.no_default = scope.context.of_the_source && spec.default.is_none();
    let mut column = Column {
        name: spec.name.clone(),
        display,
        ty,
        nullable,
        invisible: spec.invisible,
        auto_increment: spec.auto_increment,
        generated: spec.generated.as_ref().map(|(stored, _)| match stored {
            true => GeneratedKind::Stored,
            false => GeneratedKind::Virtual,
        }),
        expression: match &spec.generated {
            Some((_, text)) => parser::spelled(scope.context, text).unwrap_or_else(|_| text.clone()),
            None => String::new(),
        },
        default: ColumnDefault::None,
        on_update_now: spec.on_update_now,
        comment: spec.comment.clone(),
        geometry: geometry(spec),
        vector_entries: (spec.ty.base == BaseType::Vector).then(|| spec.ty.len.unwrap_or(VECTOR_ENTRIES)),
        overlong: false,
        declared,
    };
    set_default(&mut column, spec.default.as_ref(), scope);
    Ok(column)
}

/// Gives a column a DEFAULT, and keeps what is to be shown of it; `spec` is None if there is none.
pub(crate) fn set_default(column: &mut Column, spec: Option<&DefaultSpec>, scope: &Scope<'_>) {
    column.default = default_of(&column.ty, spec, column.display.digits.zip(column.display.decimals), scope);
    let declared = &mut column.declared;
    match spec {
        Some(DefaultSpec::Expression { spelled, .. }) => declared.spelled = spelled.clone().unwrap_or_default(),
        Some(_) => declared.spelled.clear(),
        None => {}
    }
    let zone = scope.context.time_zone.as_deref().filter(|_| {
        column.ty.code == code::TIMESTAMP2
            && matches!(spec, Some(DefaultSpec::Literal { .. }))
            && matches!(column.default, ColumnDefault::Expression(_))
    });
    declared.options.set(DEFAULT_ZONE, zone.unwrap_or_default());
    list_default(column, scope.context);
}

/// Notes how information_schema lists the DEFAULT of a TIMESTAMP: as it reads in the time zone of the last statement
/// that wrote the table's definition.
pub(crate) fn list_default(column: &mut Column, context: &StatementContext) {
    let offset = context.time_zone.as_deref().and_then(default_value::offset_seconds);
    let text = match (&column.default, offset) {
        (ColumnDefault::Image(image), Some(offset)) if column.ty.code == code::TIMESTAMP2 && offset != 0 => {
            shown::timestamp_text(&column.ty, image, &Zone::Fixed(offset.into()))
        }
        _ => None,
    };
    column.declared.options.set(LISTED_DEFAULT, text.as_deref().unwrap_or_default());
}

/// Gives the expressions of new columns and keys the names of the table's columns, and forgets the spelling of those in
/// which the source would convert texts to another character set.
pub(crate) fn settle_spelling(table: &mut TableDef, is_new: &dyn Fn(&str) -> bool) {
    let charset_of = |column: &Column| match column.ty.code {
        code::CHAR | code::VARCHAR | code::BLOB | code::ENUM | code::SET => {
            charset::by_id(column.ty.collation).map(|found| found.charset)
        }
        _ => None,
    };
    let columns: Vec<(String, Option<&'static str>)> =
        table.columns.iter().map(|column| (column.name.clone(), charset_of(column))).collect();
    let own_name = |name: &str| columns.iter().find(|(own, _)| same_name(own, name)).map(|(own, _)| own.clone());
    let settled = |spelled: &str| -> Option<String> {
        let (names, mut charsets) = expression::names_and_charsets(spelled);
        let of_columns = columns.iter().filter(|(own, _)| names.iter().any(|name| same_name(own, name)));
        charsets.extend(of_columns.filter_map(|(_, charset)| charset.map(str::to_owned)));
        charsets.sort_unstable();
        charsets.dedup();
        (charsets.len() <= 1).then(|| expression::with_names(spelled, &own_name))
    };
    for column in table.columns.iter_mut().filter(|column| is_new(&column.name)) {
        if !column.declared.spelled.is_empty() {
            column.declared.spelled = settled(&column.declared.spelled).unwrap_or_default();
        }
    }
    for part in table.keys.iter_mut().flat_map(|key| &mut key.declared.expressions) {
        part.spelled = part.spelled.as_deref().and_then(settled);
    }
}

/// Content of [`Column::geometry`].
fn geometry(spec: &ColumnSpec) -> String {
    match (spec.ty.base, spec.srid) {
        (BaseType::Geometry(name), Some(srid)) => format!("{name} srid {srid}"),
        (BaseType::Geometry(name), None) => name.to_owned(),
        _ => String::new(),
    }
}

/// A DEFAULT clause as the column stores it; `spec` is None if there is none.
fn default_of(
    ty: &ColumnType,
    spec: Option<&DefaultSpec>,
    decimals: Option<(u8, u8)>,
    scope: &Scope<'_>,
) -> ColumnDefault {
    let literal_scope = LiteralScope {
        decimals,
        time_zone: scope.context.time_zone.as_deref(),
        truncate_fraction: scope.context.sql_mode & sql_mode::TIME_TRUNCATE_FRACTIONAL != 0,
    };
    match spec {
        None => ColumnDefault::None,
        Some(DefaultSpec::Now) => ColumnDefault::CurrentTimestamp,
        Some(DefaultSpec::Expression { text, .. }) => ColumnDefault::Expression(text.clone()),
        // The server drops a constant default of a TEXT column with a warning if sql_mode is not strict.
        Some(DefaultSpec::Literal { value, .. }) if ty.code == code::BLOB && *value != Literal::Null => {
            ColumnDefault::None
        }
        Some(DefaultSpec::Literal { value: Literal::Null, .. }) => ColumnDefault::Null,
        Some(DefaultSpec::Literal { value, text }) => match default_value::image(ty, value, literal_scope) {
            Some(image) => ColumnDefault::Image(image),
            None => {
                let local = default_value::local_text(ty, value, literal_scope);
                ColumnDefault::Expression(local.unwrap_or_else(|| text.clone()))
            }
        },
    }
}

/// True if a TIMESTAMP column without DEFAULT gets one under `explicit_defaults_for_timestamp=OFF`.
pub(crate) fn is_silent_timestamp(column: &Column) -> bool {
    column.ty.code == code::TIMESTAMP2 && !column.nullable && !column.on_update_now && column.generated.is_none()
}

/// Whether a column is a TIMESTAMP that is NOT NULL without attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silent {
    No,
    /// The statement says so.
    Named,
    /// So it was before a statement that does not name it.
    Kept,
}

/// Defaults under `explicit_defaults_for_timestamp=OFF`: the table's first TIMESTAMP column, if it is silent, gets
/// CURRENT_TIMESTAMP for default and update, but for update only if the statement does not name it. Other silent ones
/// that it names get zero, unless they are in the primary key (`promote_first_timestamp_column`, sql/sql_table.cc; seen
/// on 9.7.4). The table has its keys.
pub(crate) fn promote_first_timestamp(table: &mut TableDef, silent: &[Silent], scope: &Scope<'_>) {
    if scope.context.explicit_defaults_for_timestamp != Some(false) {
        return;
    }
    let primary = table.keys.iter().find(|key| key.primary);
    let in_primary: Vec<usize> =
        primary.map(|key| key.parts.iter().map(|part| part.column).collect()).unwrap_or_default();
    let timestamps = table.columns.iter_mut().zip(silent).enumerate();
    let timestamps = timestamps.filter(|(_, (column, _))| column.ty.code == code::TIMESTAMP2);
    for (nth, (position, (column, silent))) in timestamps.enumerate() {
        match (nth, silent) {
            (0, Silent::Named) => (column.default, column.on_update_now) = (ColumnDefault::CurrentTimestamp, true),
            (0, Silent::Kept) => column.on_update_now = true,
            (_, Silent::Named) if !in_primary.contains(&position) => {
                column.default = default_value::implicit(&column.ty).map_or(ColumnDefault::None, ColumnDefault::Image);
            }
            _ => {}
        }
    }
}

fn column_position(table: &TableDef, name: &str) -> Result<usize, Problem> {
    table
        .column_index(name)
        .ok_or_else(|| Problem::Disagrees(format!("table {} has no column `{name}`", table.full_name())))
}

/// Adds one key or foreign key. The caller must call [`settle_keys`] afterwards.
pub(crate) fn add_key(table: &mut TableDef, spec: &KeySpec, scope: &Scope<'_>) -> Result<(), Problem> {
    if table.keys.len() >= base::limits::KEYS_MAX {
        return Err(Problem::Disagrees(format!("more keys than a table can have, in {}", table.full_name())));
    }
    let mut key = Key {
        id: 0,
        name: String::new(),
        unique: matches!(spec.kind, KeyKind::Primary | KeyKind::Unique),
        primary: spec.kind == KeyKind::Primary,
        kind: match spec.kind {
            KeyKind::FullText => IndexKind::FullText,
            KeyKind::Spatial => IndexKind::Spatial,
            _ => IndexKind::Ordered,
        },
        invisible: spec.invisible,
        generated: spec.kind == KeyKind::Foreign,
        parts: Vec::with_capacity(spec.parts.len()),
        expressions: Vec::new(),
        declared: spec.declared.clone(),
    };
    for (place, part) in spec.parts.iter().enumerate() {
        match part {
            PartSpec::Expression { text, spelled, descending } => {
                key.expressions.push((place, text.clone()));
                key.declared.expressions.push(DeclaredPart { spelled: spelled.clone(), descending: *descending });
            }
            PartSpec::Column { name, prefix_len, descending } => {
                let position = column_position(table, name)?;
                key.parts.push(key_part(table, position, *prefix_len, *descending, key.kind));
            }
        }
    }
    if key.primary && !key.expressions.is_empty() {
        // Rows would be told apart by the other parts alone.
        return Err(Problem::Disagrees(format!("the PRIMARY KEY of {} has an expression", table.full_name())));
    }
    if let Some(foreign) = &spec.foreign {
        if foreign.inline && scope.version() < INLINE_REFERENCES_SINCE {
            return Ok(());
        }
        let columns = key.parts.iter().map(|part| part.column).collect();
        add_foreign_key(table, foreign, columns, scope);
    }
    if !drop_superseded(table, &key) {
        return Ok(());
    }
    key.name = if key.primary { "PRIMARY".to_owned() } else { key_name(table, &key, spec)? };
    table.keys.push(key);
    Ok(())
}

fn key_part(table: &TableDef, column: usize, prefix_len: Option<u32>, descending: bool, kind: IndexKind) -> KeyPart {
    let prefix_len = match (kind, table.columns.get(column)) {
        (IndexKind::Ordered, Some(found)) => prefix_of(found, prefix_len),
        _ => None,
    };
    KeyPart { column, prefix_len, descending }
}

/// The prefix that a key part really has; None if it covers the whole column.
pub(crate) fn prefix_of(column: &Column, prefix_len: Option<u32>) -> Option<u32> {
    let mbmaxlen = charset::by_id(column.ty.collation).map_or(1, |collation| collation.mbmaxlen);
    identity::effective_prefix(column, prefix_len, mbmaxlen)
}

/// A key generated for a foreign key is dropped if another key starts with the same columns. Removes such keys from the
/// table; returns false if the new key itself is superseded. Mirrors `foreign_key_prefix` (sql/sql_table.cc).
fn drop_superseded(table: &mut TableDef, key: &Key) -> bool {
    let columns = |key: &Key| key.parts.iter().map(|part| (part.column, part.prefix_len)).collect::<Vec<_>>();
    let own = columns(key);
    let usable = |key: &Key| key.kind == IndexKind::Ordered && key.expressions.is_empty();
    if !usable(key) {
        return true;
    }
    let mut keep = true;
    table.keys.retain(|other| {
        if !usable(other) || !(key.generated || other.generated) {
            return true;
        }
        let theirs = columns(other);
        if key.generated && theirs.starts_with(&own) && !(other.generated && theirs.len() == own.len()) {
            keep = false;
        }
        !(other.generated && own.starts_with(&theirs) && keep)
    });
    keep
}

/// The given name, or the first column's, with a number appended if that is taken.
fn key_name(table: &TableDef, key: &Key, spec: &KeySpec) -> Result<String, Problem> {
    let taken = |name: &str| table.keys.iter().any(|other| same_name(&other.name, name));
    if let Some(name) = &spec.name {
        if taken(name) {
            return Problem::disagrees(format!("table {} already has a key `{name}`", table.full_name()));
        }
        return Ok(name.clone());
    }
    let stem = if key.expressions.is_empty() {
        key.parts.first().and_then(|part| table.columns.get(part.column)).map_or("key", |column| column.name.as_str())
    } else {
        "functional_index"
    };
    if !taken(stem) && !same_name(stem, "PRIMARY") {
        return Ok(stem.to_owned());
    }
    let mut number = 2u32;
    loop {
        let name = format!("{stem}_{number}");
        if !taken(&name) {
            return Ok(name);
        }
        number += 1;
    }
}

fn add_foreign_key(table: &mut TableDef, spec: &ForeignSpec, columns: Vec<usize>, scope: &Scope<'_>) {
    let parent_db = spec.parent.db.clone().unwrap_or_else(|| table.db.clone());
    let mut parent_columns = spec.parent_columns.clone();
    if parent_columns.is_empty() {
        parent_columns = (scope.parent_key)(&parent_db, &spec.parent.name).unwrap_or_default();
    }
    let name = spec.constraint.clone().unwrap_or_else(|| generated_foreign_name(table));
    table.foreign_keys.push(ForeignKey {
        name,
        columns,
        parent_db,
        parent_table: spec.parent.name.clone(),
        parent_columns,
        on_delete: spec.on_delete,
        on_update: spec.on_update,
    });
}

/// `table_ibfk_N`, where N is one above the highest in use.
fn generated_foreign_name(table: &TableDef) -> String {
    let stem = format!("{}_ibfk_", table.name);
    let highest = table
        .foreign_keys
        .iter()
        .filter_map(|key| key.name.strip_prefix(stem.as_str())?.parse::<u32>().ok())
        .max()
        .unwrap_or(0);
    format!("{stem}{}", highest.saturating_add(1))
}

/// Renames generated constraint names along with their table.
pub(crate) fn rename_generated_names(table: &mut TableDef, old_name: &str) {
    if let Some(declared) = &mut table.declared {
        declared.rename_generated(old_name, &table.name);
    }
    let stem = format!("{old_name}_ibfk_");
    for key in &mut table.foreign_keys {
        if let Some(number) = key.name.strip_prefix(stem.as_str()) {
            key.name = format!("{}_ibfk_{number}", table.name);
        }
    }
}

/// Sorts keys as MySQL does and derives everything that depends on them. Columns of the primary key become NOT NULL,
/// even if ALTER TABLE changes one without saying so.
pub(crate) fn settle_keys(table: &mut TableDef) {
    forget_key_block_sizes(table);
    for part in table.keys.iter().filter(|key| key.primary).flat_map(|key| &key.parts) {
        if let Some(column) = table.columns.get_mut(part.column) {
            column.nullable = false;
        }
    }
    identity::sort_keys(&mut table.keys, &table.columns);
    table.identity = match table.misplaced_rows {
        true => Identity::WholeImage,
        false => identity::identity(&table.keys, &table.columns),
    };
    table.hidden_columns = table.keys.iter().map(|key| key.expressions.len()).sum();
    index_set::give_ids(table);
}
/// InnoDB forgets KEY_BLOCK_SIZE of the indexes of tables that it does not compress.
fn forget_key_block_sizes(table: &mut TableDef) {
    let Some(declared) = &table.declared else { return };
    let compressed = declared.options.get("KEY_BLOCK_SIZE").is_some()
        || declared.options.get("ROW_FORMAT").is_some_and(|format| format == "COMPRESSED");
    if !compressed && table.engine.eq_ignore_ascii_case("InnoDB") {
        for key in &mut table.keys {
            key.declared.options.set("KEY_BLOCK_SIZE", "");
        }
    }
}

/// Reproduces the change of a column's default when the server derives a definition from another one (ALTER TABLE,
/// CREATE TABLE … LIKE). It re-reads the default from its text, which shows six digits of a FLOAT without decimals:
/// 16777216 becomes 16777200.
pub(crate) fn reread_default(column: &mut Column) {
    if column.ty.code != code::FLOAT || column.display.decimals.is_some() {
        return;
    }
    let ColumnDefault::Image(image) = &mut column.default else { return };
    let mut text = Vec::new();
    let shown = write_text(&column.ty, image, TextOptions::default(), &mut text);
    let shown = shown.ok().and_then(|()| std::str::from_utf8(&text).ok()?.parse::<f64>().ok());
    if let Some(shown) = shown {
        *image = (shown as f32).to_le_bytes().to_vec();
    }
}
