//! What is known of generated columns: which columns they may read, and whose values the log does not tell for sure.
//!
//! In: definitions with the expressions' texts. Out: positions of columns. Never here: a computed value.
//!
//! A virtual column is computed when it is read. The log has the value that the writer's session read, which is not
//! always the value that another session reads. All of this was seen on 9.7.4.

use crate::expression;
use crate::table::{Column, ColumnDefault, GeneratedKind, TableDef, code, same_name};

/// Functions whose result depends on the session: `time_zone`, `lc_time_names`, `block_encryption_mode`.
const OF_THE_SESSION: [&str; 6] =
    ["from_unixtime", "monthname", "dayname", "date_format", "aes_encrypt", "aes_decrypt"];

/// True if a generated column's expression may read the column of this name, which is the case if its text contains the
/// name.
pub(crate) fn may_read(column: &Column, name: &str) -> bool {
    column.expression.is_empty() || names(&column.expression, name)
}

/// True if the name may stand in the text by itself, not only within another one. Names of other characters may be
/// written in several ways.
fn names(text: &str, name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if !name.chars().all(is_plain) {
        return true;
    }
    let (text, name) = (text.to_lowercase(), name.to_lowercase());
    let goes_on = |letter: Option<char>| letter.is_some_and(|one| is_plain(one) || one == '$' || !one.is_ascii());
    text.match_indices(&name).any(|(at, _)| {
        let (before, from) = text.split_at(at);
        !goes_on(before.chars().next_back()) && !goes_on(from.chars().nth(name.chars().count()))
    })
}

/// Columns that have another name after a statement: their names, and the new ones, None of dropped columns.
pub(crate) fn moved_names<'a>(
    old: &'a TableDef,
    new: &'a TableDef,
    origins: &[Option<usize>],
) -> Vec<(&'a str, Option<&'a str>)> {
    let mut names: Vec<(&str, Option<&str>)> = old.columns.iter().map(|column| (column.name.as_str(), None)).collect();
    for (column, origin) in new.columns.iter().zip(origins) {
        if let Some((_, now)) = origin.and_then(|at| names.get_mut(at)) {
            *now = Some(&column.name);
        }
    }
    names.retain(|(name, now)| *now != Some(*name));
    names
}

/// True if a generated column and the one that it was have the same expression over the same columns. The same text is
/// another expression if a name in it belongs to another column now; another text is the same one if the names alone
/// followed their columns. `moved` is that of [`moved_names`].
pub(crate) fn reads_the_same(before: &Column, column: &Column, moved: &[(&str, Option<&str>)]) -> bool {
    let is_another = |now: &Option<&str>, name: &str| now.is_none_or(|now| !same_name(now, name));
    let reads_another = || moved.iter().any(|(name, now)| is_another(now, name) && may_read(column, name));
    if before.expression == column.expression && !reads_another() {
        return true;
    }
    // No column has the empty name.
    let renamed = |name: &str| {
        let (_, now) = moved.iter().find(|(moved, _)| same_name(moved, name))?;
        Some(now.unwrap_or_default().to_owned())
    };
    let (was, is) = (&before.declared.spelled, &column.declared.spelled);
    !was.is_empty() && !is.is_empty() && expression::with_names(was, &renamed) == *is
}

/// True if a generated column may read the DEFAULT of a column that changed from `before` to `after`.
pub(crate) fn reads_changed_default(column: &Column, before: &Column, after: &Column) -> bool {
    let value = |column: &Column| match &column.default {
        ColumnDefault::None | ColumnDefault::Null => None,
        other => Some(other.clone()),
    };
    value(before) != value(after) && names(&column.expression, "default") && may_read(column, &after.name)
}

/// Per column: generated, and computed differently by sessions with another `time_zone`, `lc_time_names` or
/// `block_encryption_mode`. Dependence on `div_precision_increment` and on modes of `sql_mode` is not looked for.
pub(crate) fn of_the_session(table: &TableDef) -> Vec<bool> {
    let mut found: Vec<bool> = Vec::with_capacity(table.columns.len());
    for column in &table.columns {
        let text = column.expression.to_lowercase();
        let calls = OF_THE_SESSION.iter().any(|function| text.contains(function));
        let is_time = |column: &Column| column.ty.code == code::TIMESTAMP2;
        let reads = |at: usize, other: &Column| {
            (is_time(other) || found.get(at) == Some(&true)) && names(&column.expression, &other.name)
        };
        let reads_one = || table.columns.iter().enumerate().any(|(at, other)| reads(at, other));
        found.push(column.generated.is_some() && (calls || is_time(column) || reads_one()));
    }
    found
}

/// Positions of virtual columns that may have another value at the source than the log says.
///
/// Besides those that depend on the session:
/// - A BLOB, TEXT, JSON or GEOMETRY that an index has, or that another generated column or an index's expression reads.
///   The after image of an UPDATE may have bytes of the old value: the source computes the old row's value into the
///   same buffer.
/// - One that reads such a column. Under `binlog_row_image=NOBLOB` it is logged as if that one were NULL.
pub(crate) fn not_known(table: &TableDef) -> Vec<usize> {
    let is_virtual = |column: &Column| column.generated == Some(GeneratedKind::Virtual);
    if !table.columns.iter().any(is_virtual) {
        return Vec::new();
    }
    let of_the_session = of_the_session(table);
    let is_read = |at: usize, name: &str| {
        let mut others = table.columns.iter().enumerate().filter(|(other, _)| *other != at);
        let mut expressions = table.keys.iter().flat_map(|key| &key.expressions);
        let mut parts = table.keys.iter().flat_map(|key| &key.parts);
        parts.any(|part| part.column == at)
            || others.any(|(_, other)| other.generated.is_some() && may_read(other, name))
            || expressions.any(|(_, text)| names(text, name))
    };
    let mut found: Vec<usize> = Vec::new();
    for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| is_virtual(column)) {
        let is_blob = matches!(column.ty.code, code::BLOB | code::JSON | code::GEOMETRY);
        let read = |other: &usize| table.columns.get(*other).is_some_and(|other| may_read(column, &other.name));
        if of_the_session.get(at) == Some(&true) || is_blob && is_read(at, &column.name) || found.iter().any(read) {
            found.push(at);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::{Catalog, StatementContext};

    fn not_known(columns: &str) -> Vec<String> {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let sql = format!("CREATE TABLE t (id INT PRIMARY KEY, {columns})");
        let catalog = Catalog::new(0).apply(&context, sql.as_bytes()).unwrap().catalog;
        let table = catalog.table("d", "t").unwrap();
        table.not_known().iter().map(|at| table.columns[*at].name.clone()).collect()
    }

    #[test]
    fn virtual_columns_that_the_log_does_not_tell() {
        let none: [&str; 0] = [];
        assert_eq!(not_known("a INT, v INT AS (a + 1), g BLOB AS (a)"), none);
        assert_eq!(
            not_known("a BLOB, g BLOB AS (a), h VARCHAR(9) AS (g), i INT AS (h), j INT AS (a)"),
            ["g", "h", "i"]
        );
        assert_eq!(not_known("a BLOB, g TEXT AS (a), s INT AS (g) STORED"), ["g"]);
        assert_eq!(not_known("a BLOB, e INT, g LONGBLOB AS (a), v VARCHAR(9) AS (a), KEY (e, g(5)), KEY (v)"), ["g"]);
        assert_eq!(not_known("a INT, j JSON AS (json_array(a)), KEY ((CAST(j->'$[0]' AS SIGNED)))"), ["j"]);
        assert_eq!(not_known("x TIMESTAMP, v INT AS (hour(x)), s INT AS (hour(x)) STORED, w INT AS (s)"), ["v", "w"]);
        assert_eq!(not_known("a INT, v DATETIME AS (from_unixtime(a)), w VARCHAR(20) AS (monthname(v))"), ["v", "w"]);
        assert_eq!(not_known("a DATETIME, v TIMESTAMP AS (a), w INT AS (year(a))"), ["v"]);
    }

    /// What a row got while the log did not tell it stays in the row.
    #[test]
    fn what_was_not_known_stays_so_without_the_index() {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let sql = "CREATE TABLE t (id INT PRIMARY KEY, a BLOB, g BLOB AS (a), h INT AS (id), KEY k (g(5)))";
        let catalog = Catalog::new(0).apply(&context, sql.as_bytes()).unwrap().catalog;
        let after = |statements: &[&str]| {
            let apply = |catalog: Catalog, sql: &&str| catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
            statements.iter().fold(catalog.clone(), apply).table("d", "t").unwrap().not_known()
        };
        assert_eq!(after(&["DROP INDEX k ON t"]), [2, 3]);
        assert_eq!(after(&["ALTER TABLE t ADD COLUMN n INT FIRST", "ALTER TABLE t DROP KEY k"]), [3, 4]);
        assert_eq!(after(&["ALTER TABLE t DROP COLUMN g"]), [0usize; 0]);
        assert_eq!(after(&["ALTER TABLE t ADD KEY (h)"]), [2]);
    }

    #[test]
    fn without_a_key_no_virtual_column_is_known() {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let sql = "CREATE TABLE t (a INT, v INT AS (a), s INT AS (a) STORED, w INT AS (a))";
        let catalog = Catalog::new(0).apply(&context, sql.as_bytes()).unwrap().catalog;
        assert_eq!(catalog.table("d", "t").unwrap().not_known(), [1, 3]);
        let catalog = catalog.apply(&context, b"ALTER TABLE t ADD PRIMARY KEY (a)").unwrap().catalog;
        assert_eq!(catalog.table("d", "t").unwrap().not_known(), [0usize; 0]);
    }
}
