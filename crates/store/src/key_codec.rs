//! Keys and values of the tree, byte by byte (docs/formats.md).
//!
//! ```text
//! row key    table id u32 BE · index id u16 BE (0: the rows) · sort key · stored key bytes
//!            without a key: table id · index id · XXH3-128 of the image, BE
//! row value  kind u8 (1) · definition version u32 LE · length of the stored key u16 LE · image
//!            without a key: kind u8 (2) · definition version u32 LE · copies u64 LE · image
//! index key  table id u32 BE · index id u16 BE · sort key · the row's own key (stored key bytes)
//!            without a key: table id · index id · sort key · XXH3-128 of the image, BE
//! index value  length of the row's own key u16 LE
//! spill      kind u8 (3): the row was deleted by the transaction
//!            kind u8 (5) · what the log says of the row below u8 (1 exists, 2 does not) · one of the other values
//!            of a table with indexes: kind u8 (4) · the row below u8 (0 same keys, 1 absent, 2 keys follow)
//!            · length of the row's own key u16 LE · length of the keys u32 LE · keys (IndexSet::append_all)
//!            · one of the values above
//! record     table id 0xffffffff · name
//! ```

use catalog::{KeyOrder, TableId};

use crate::expectation::Expected;
use crate::index_before::KeysBelowKind;

/// Table id of the records, which are not rows; sorts after all tables.
pub(crate) const RECORDS: u32 = u32::MAX;

const KEYED: u8 = 1;
const KEYLESS: u8 = 2;
/// In a spill only: marks a deleted row.
const DELETED: u8 = 3;
/// In a spill only: the state of the row below comes first.
const WITH_KEYS_BELOW: u8 = 4;
/// In a spill only: what the log says of the row below comes first.
const WITH_EXPECTED: u8 = 5;
const SPILL_HEAD_LEN: usize = 8;
/// Length of the hash that identifies a row without a key, in bytes.
const HASH_LEN: usize = 16;
const KEYED_HEAD: usize = 7;
const KEYLESS_HEAD: usize = 13;

/// Limit on the length of a key, in bytes (MySQL's `MAX_KEY_LENGTH`, sql/sql_const.h).
const KEY_LEN_MAX: usize = 3072;

const _: () = assert!(KEY_LEN_MAX <= u16::MAX as usize && HASH_LEN <= KEY_LEN_MAX);

/// Length of table id and index id.
pub(crate) const PREFIX_LEN: usize = 6;

/// Prefix of all rows of a table.
pub(crate) fn table_prefix(table: TableId) -> [u8; PREFIX_LEN] {
    let [a, b, c, d] = table.0.to_be_bytes();
    [a, b, c, d, 0, 0]
}

/// First key of a table's rows, and the first key after them.
pub(crate) fn table_bounds(table: TableId) -> ([u8; PREFIX_LEN], [u8; PREFIX_LEN]) {
    let from = table_prefix(table);
    let mut to = from;
    to[5] = 1;
    (from, to)
}

/// Prefix of all entries of an index; index id 0 is the rows.
pub(crate) fn index_prefix(table: TableId, index: u16) -> [u8; PREFIX_LEN] {
    let ([a, b, c, d], [e, f]) = (table.0.to_be_bytes(), index.to_be_bytes());
    [a, b, c, d, e, f]
}

/// The first key after all entries of an index.
pub(crate) fn index_end(table: TableId, index: u16) -> [u8; PREFIX_LEN] {
    match index.checked_add(1) {
        Some(next) => index_prefix(table, next),
        None => index_prefix(TableId(table.0.saturating_add(1)), 0),
    }
}

/// Index id in a tree key.
pub(crate) fn index_of(key: &[u8]) -> Option<u16> {
    key.get(4..PREFIX_LEN)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// Appends the tree key of an index entry.
pub(crate) fn append_index_key(table: TableId, index: u16, sort_key: &[u8], own: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&index_prefix(table, index));
    out.extend_from_slice(sort_key);
    out.extend_from_slice(own);
}

/// Value of an index entry.
pub(crate) fn index_value(own_len: usize) -> [u8; 2] {
    key_len(own_len).to_le_bytes()
}

/// Length of a row's own key, as values store it.
fn key_len(len: usize) -> u16 {
    match u16::try_from(len) {
        Ok(len) => len,
        Err(_) => panic!("a key of {len} bytes: MySQL's have {KEY_LEN_MAX} at most"),
    }
}

/// The row's own key at the end of an index entry's key; None for a malformed entry.
pub(crate) fn own_of<'a>(key: &'a [u8], value: &[u8]) -> Option<&'a [u8]> {
    let len = usize::from(u16::from_le_bytes(*value.first_chunk()?));
    key.get(key.len().checked_sub(len).filter(|at| *at >= PREFIX_LEN)?..)
}

/// Length of a row's own key in tree keys.
pub(crate) fn own_len(keyless: bool, key: &[u8]) -> usize {
    if keyless { HASH_LEN } else { key.len() }
}

/// Appends a row's own key as tree keys contain it.
pub(crate) fn append_own(keyless: bool, key: &[u8], out: &mut Vec<u8>) {
    if keyless {
        out.extend_from_slice(&xxhash_rust::xxh3::xxh3_128(key).to_be_bytes());
    } else {
        out.extend_from_slice(key);
    }
}

/// The first 8 bytes as a number with the same sort order.
pub(crate) fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = key.len().min(8);
    head[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(head)
}

/// The first 16 bytes, padded with zeros.
pub(crate) fn long_head_of(key: &[u8]) -> [u8; 16] {
    if let Some(head) = key.first_chunk() {
        return *head;
    }
    let mut head = [0; 16];
    head[..key.len()].copy_from_slice(key);
    head
}

/// Key of a record.
pub(crate) fn record_key(name: &str) -> Vec<u8> {
    let mut key = RECORDS.to_be_bytes().to_vec();
    key.extend_from_slice(name.as_bytes());
    key
}

/// Table id in a tree key.
pub(crate) fn table_of(key: &[u8]) -> Option<u32> {
    key.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Whether a tree key is that of a row.
#[inline]
pub(crate) fn is_row_key(key: &[u8]) -> bool {
    key.first_chunk::<PREFIX_LEN>().is_some_and(|head| head[4..] == [0, 0] && head[..4] != RECORDS.to_be_bytes())
}

/// Appends the tree key of a row.
pub(crate) fn append_row_key(order: &KeyOrder, table: TableId, key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&table_prefix(table));
    if !order.is_keyless() {
        order.append(key, out);
    }
    append_own(order.is_keyless(), key, out);
}

/// Appends the tree value of a row: `image` and `copies` as a lane stores them.
pub(crate) fn append_value(keyless: bool, version: u32, key: &[u8], image: &[u8], copies: u64, out: &mut Vec<u8>) {
    out.push(if keyless { KEYLESS } else { KEYED });
    out.extend_from_slice(&version.to_le_bytes());
    if keyless {
        out.extend_from_slice(&copies.to_le_bytes());
        out.extend_from_slice(key);
    } else {
        out.extend_from_slice(&key_len(key.len()).to_le_bytes());
        out.extend_from_slice(image);
    }
}

/// Whether the value belongs to a table without a key.
pub(crate) fn is_keyless(value: &[u8]) -> bool {
    value.first() == Some(&KEYLESS)
}

/// Number of copies in a keyless row's value; None for any other value.
pub(crate) fn multiplicity(value: &[u8]) -> Option<u64> {
    value.get(5..KEYLESS_HEAD)?.first_chunk().filter(|_| is_keyless(value)).map(|bytes| u64::from_le_bytes(*bytes))
}

/// Appends the value of a keyless row with another number of copies; false for any other value.
pub(crate) fn with_copies(value: &[u8], copies: u64, out: &mut Vec<u8>) -> bool {
    if value.first() != Some(&KEYLESS) || value.len() < KEYLESS_HEAD {
        return false;
    }
    out.extend_from_slice(value.get(..5).unwrap_or(&[]));
    out.extend_from_slice(&copies.to_le_bytes());
    out.extend_from_slice(value.get(KEYLESS_HEAD..).unwrap_or(&[]));
    true
}

/// Value that marks a deleted row in a spill.
pub(crate) const DELETED_VALUE: [u8; 1] = [DELETED];

/// Whether a spill's value marks the row as deleted.
pub(crate) fn is_deleted(value: &[u8]) -> bool {
    plain(value).first() == Some(&DELETED)
}

/// Head of a spill's value: sort keys of the row below, and the length of the row's own key.
pub(crate) struct SpillHead<'a> {
    pub below: KeysBelowKind,
    pub keys: &'a [u8],
    pub own_len: usize,
}

/// Appends the head of a spill's value; one of the other values follows.
pub(crate) fn append_spill_head(head: &SpillHead<'_>, out: &mut Vec<u8>) {
    let kind = match head.below {
        KeysBelowKind::Same => 0,
        KeysBelowKind::Absent => 1,
        KeysBelowKind::Keys => 2,
    };
    out.extend_from_slice(&[WITH_KEYS_BELOW, kind]);
    out.extend_from_slice(&key_len(head.own_len).to_le_bytes());
    out.extend_from_slice(&crate::short(head.keys.len()).to_le_bytes());
    out.extend_from_slice(head.keys);
}

/// Appends what the log says of the row below a row of a spill; the other values follow.
pub(crate) fn append_expected(expected: Expected, out: &mut Vec<u8>) {
    if expected != Expected::Unknown {
        out.extend(expected.bits().to_le_bytes().first().map(|bits| [WITH_EXPECTED, *bits]).into_iter().flatten());
    }
}

/// What the log says of the row below a row of a spill.
pub(crate) fn expected_of(value: &[u8]) -> Expected {
    match value {
        [WITH_EXPECTED, bits, ..] => Expected::of_bits(u32::from(*bits)),
        _ => Expected::Unknown,
    }
}

fn without_expected(value: &[u8]) -> &[u8] {
    match value {
        [WITH_EXPECTED, _, rest @ ..] => rest,
        _ => value,
    }
}

fn split_spill_head(value: &[u8]) -> Option<(SpillHead<'_>, &[u8])> {
    let value = without_expected(value);
    let (head, rest) = value.split_first_chunk::<SPILL_HEAD_LEN>()?;
    let below = match (head[0], head[1]) {
        (WITH_KEYS_BELOW, 0) => KeysBelowKind::Same,
        (WITH_KEYS_BELOW, 1) => KeysBelowKind::Absent,
        (WITH_KEYS_BELOW, 2) => KeysBelowKind::Keys,
        _ => return None,
    };
    let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let (keys, rest) = rest.split_at_checked(len)?;
    Some((SpillHead { below, keys, own_len: usize::from(u16::from_le_bytes([head[2], head[3]])) }, rest))
}

/// State of the row below a row of a spill, if the value contains it.
pub(crate) fn spill_head_of(value: &[u8]) -> Option<SpillHead<'_>> {
    split_spill_head(value).map(|(head, _)| head)
}

/// A value without what only spills have in front of it.
pub(crate) fn plain(value: &[u8]) -> &[u8] {
    split_spill_head(value).map_or_else(|| without_expected(value), |(_, rest)| rest)
}

/// A row as stored in the tree.
#[derive(Clone, Copy)]
pub(crate) struct StoredRow<'a> {
    /// Version of the definition that the image was written under.
    pub definition: u32,
    /// Stored key bytes; the image for a table without a key.
    pub key: &'a [u8],
    pub image: &'a [u8],
    pub copies: u64,
}

/// Parses a row's entry in the tree; None for a malformed entry.
pub(crate) fn parse_row<'a>(tree_key: &'a [u8], value: &'a [u8]) -> Option<StoredRow<'a>> {
    let value = plain(value);
    match *value.first()? {
        KEYED => {
            let head = value.first_chunk::<KEYED_HEAD>()?;
            let key_len = usize::from(u16::from_le_bytes([head[5], head[6]]));
            let definition = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
            let at = tree_key.len().checked_sub(key_len).filter(|at| *at >= PREFIX_LEN)?;
            Some(StoredRow { definition, key: tree_key.get(at..)?, image: value.get(KEYED_HEAD..)?, copies: 1 })
        }
        KEYLESS => {
            let copies = u64::from_le_bytes(*value.get(5..KEYLESS_HEAD)?.first_chunk()?);
            let definition = u32::from_le_bytes(*value.get(1..5)?.first_chunk()?);
            let image = value.get(KEYLESS_HEAD..)?;
            Some(StoredRow { definition, key: image, image, copies })
        }
        _ => None,
    }
}
