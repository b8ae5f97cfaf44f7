//! MySQL's order of keys, and the choice of the key that identifies a row.
//!
//! In: a table's columns and keys. Out: keys sorted as the source sorts them, the [`Identity`]. Never here: names
//! (`table_build`). Mirrors `sort_keys` (sql/sql_table.cc) and the choice of a key when PRIMARY is missing
//! (sql/dd_table_share.cc). Both were checked on a 9.7 server with `binlog_row_image=MINIMAL`, whose before images
//! contain exactly the columns chosen there.

use crate::charset;
use crate::table::{Column, GeneratedKind, Identity, IndexKind, Key, KeyPart, code};

/// Bytes of the longest TINYBLOB or TINYTEXT.
const TINYBLOB_BYTES: u32 = 255;

/// Sorts keys as the source does: primary, unique, others, each kind with those over virtual columns last. The sort is
/// stable.
pub(crate) fn sort_keys(keys: &mut [Key], columns: &[Column]) {
    keys.sort_by_key(|key| {
        let full_text = key.kind == IndexKind::FullText;
        let functional = !key.expressions.is_empty();
        let of_virtual = functional || key.parts.iter().any(|part| is_virtual(columns, *part));
        if !key.unique {
            return (2, full_text, false, of_virtual);
        }
        if key.primary {
            return (0, false, false, false);
        }
        let nullable = functional || key.parts.iter().any(|part| is_nullable(columns, *part));
        let partial = key.parts.iter().any(|part| part.prefix_len.is_some());
        (1, nullable, partial, of_virtual)
    });
}

fn is_virtual(columns: &[Column], part: KeyPart) -> bool {
    columns.get(part.column).is_some_and(|column| column.generated == Some(GeneratedKind::Virtual))
}

fn is_nullable(columns: &[Column], part: KeyPart) -> bool {
    columns.get(part.column).is_none_or(|column| column.nullable)
}

/// Identity that results from keys in MySQL's order.
pub(crate) fn identity(keys: &[Key], columns: &[Column]) -> Identity {
    match identifying_key(keys, columns) {
        Some(key) => Identity::Columns(key.parts.iter().map(|part| part.column).collect()),
        None => Identity::WholeImage,
    }
}

/// The key that provides the identity; None if no key qualifies.
pub(crate) fn identifying_key<'a>(keys: &'a [Key], columns: &[Column]) -> Option<&'a Key> {
    let qualifies = |key: &&Key| {
        key.primary
            || (key.unique
                && key.kind == IndexKind::Ordered
                && key.expressions.is_empty()
                && key.parts.iter().all(|part| {
                    part.prefix_len.is_none()
                        && columns
                            .get(part.column)
                            .is_some_and(|column| !column.nullable && column.generated != Some(GeneratedKind::Virtual))
                }))
    };
    keys.iter().find(qualifies)
}

/// A prefix that covers the longest value is not a prefix. MySQL drops it for CHAR and VARCHAR, and treats the key as
/// covering the whole column for TINYBLOB and TINYTEXT, whose 255 bytes fit in an index.
pub(crate) fn effective_prefix(column: &Column, prefix_len: Option<u32>, mbmaxlen: u8) -> Option<u32> {
    let asked = prefix_len?;
    let bytes = u64::from(asked).saturating_mul(u64::from(mbmaxlen));
    let whole = match (column.ty.code, column.ty.meta) {
        (code::CHAR | code::VARCHAR, max) => bytes >= u64::from(max),
        (code::BLOB, 1) => bytes == u64::from(TINYBLOB_BYTES),
        (code::BLOB, _) => false,
        _ => true,
    };
    if whole { None } else { Some(asked) }
}

/// The prefix that the source keeps, and shows, of a part of an ordered key: it knows a BLOB or TEXT by a prefix only,
/// even by one of all 255 bytes.
pub(crate) fn declared_prefix(column: &Column, prefix_len: Option<u32>) -> Option<u32> {
    let whole = || {
        let mbmaxlen = charset::by_id(column.ty.collation).map_or(1, |collation| collation.mbmaxlen);
        (column.ty.code == code::BLOB).then(|| TINYBLOB_BYTES / u32::from(mbmaxlen.max(1)))
    };
    prefix_len.or_else(whole)
}

/// The prefix of a part of an ordered key that goes over to a column which is added under the name of another one: as
/// many characters, or bytes, as the part had (seen on 9.7.4: of an INT the four bytes, if the new column is text).
pub(crate) fn kept_length(column: &Column, prefix_len: Option<u32>) -> Option<u32> {
    let mbmaxlen = charset::by_id(column.ty.collation).map_or(1, |collation| collation.mbmaxlen);
    let whole = || match column.ty.code {
        code::CHAR | code::VARCHAR => Some(u32::from(column.ty.meta / u16::from(mbmaxlen.max(1)))),
        _ => column.ty.fixed_len().and_then(|len| u32::try_from(len).ok()),
    };
    declared_prefix(column, prefix_len).or_else(whole)
}
