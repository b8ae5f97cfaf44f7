//! Optional part of a Table_map event: signedness, collations, names, members, primary key (rows_event.h,
//! `Optional_metadata_fields`).

use crate::cursor::Cursor;
use crate::{BinlogError, TableMapEvent};

const EVENT: &str = "Table_map";

/// Fields of the optional metadata, still encoded; `None` for those the source left out. With
/// binlog_row_metadata=MINIMAL there are only the first three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionalMetadata<'a> {
    /// 1: a bit for each numeric column, highest first: the column is unsigned.
    pub signedness: Option<&'a [u8]>,
    /// 2: the default collation of character columns, and the exceptions.
    pub default_charset: Option<&'a [u8]>,
    /// 3: collation of each character column.
    pub column_charset: Option<&'a [u8]>,
    /// 4: name of each column.
    pub column_names: Option<&'a [u8]>,
    /// 5: members of each SET column.
    pub set_members: Option<&'a [u8]>,
    /// 6: members of each ENUM column.
    pub enum_members: Option<&'a [u8]>,
    /// 7: type of each GEOMETRY column.
    pub geometry_types: Option<&'a [u8]>,
    /// 8: columns of the primary key.
    pub simple_primary_key: Option<&'a [u8]>,
    /// 9: columns of the primary key with prefix lengths.
    pub primary_key_with_prefix: Option<&'a [u8]>,
    /// 10: like 2, for ENUM and SET columns.
    pub enum_and_set_default_charset: Option<&'a [u8]>,
    /// 11: like 3, for ENUM and SET columns.
    pub enum_and_set_column_charset: Option<&'a [u8]>,
    /// 12: a bit for each column, highest first: the column is visible.
    pub visibility: Option<&'a [u8]>,
    /// 13: dimension of each VECTOR column.
    pub vector_dimensions: Option<&'a [u8]>,
    /// Code of the first unknown field, if there is one.
    pub unknown_code: Option<u8>,
}

/// Everything the event says about one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnDetails<'a> {
    /// Type code; ENUM (247) and SET (248) where the event has 254 for both.
    pub real_type: u8,
    /// Raw metadata bytes.
    pub metadata: &'a [u8],
    /// Numeric columns: true if unsigned. `None` for other types and in logs before 8.0.1.
    pub unsigned: Option<bool>,
    /// Collation id of character, ENUM and SET columns.
    pub collation: Option<u16>,
    /// Name (row_metadata FULL).
    pub name: Option<&'a [u8]>,
    /// Members of ENUM and SET columns (row_metadata FULL).
    pub members: Option<PackedStrings<'a>>,
    /// Type of GEOMETRY columns (row_metadata FULL).
    pub geometry_type: Option<u64>,
    /// Dimension of VECTOR columns (row_metadata FULL).
    pub vector_dimension: Option<u64>,
    /// True if visible (row_metadata FULL).
    pub visible: Option<bool>,
}

/// A column of the primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPart {
    /// Index of the column, from 0.
    pub column: usize,
    /// Characters of the prefix; `None` for the whole column.
    pub prefix_len: Option<u64>,
}

impl<'a> OptionalMetadata<'a> {
    /// Splits the block into its fields.
    pub fn parse(block: &'a [u8]) -> Result<OptionalMetadata<'a>, BinlogError> {
        let mut fields = OptionalMetadata::default();
        let mut rest = Cursor::new(EVENT, block);
        while !rest.is_empty() {
            let code = rest.u8("code of an optional field")?;
            let value = rest.packed_bytes("optional field")?;
            let field = match code {
                1 => &mut fields.signedness,
                2 => &mut fields.default_charset,
                3 => &mut fields.column_charset,
                4 => &mut fields.column_names,
                5 => &mut fields.set_members,
                6 => &mut fields.enum_members,
                7 => &mut fields.geometry_types,
                8 => &mut fields.simple_primary_key,
                9 => &mut fields.primary_key_with_prefix,
                10 => &mut fields.enum_and_set_default_charset,
                11 => &mut fields.enum_and_set_column_charset,
                12 => &mut fields.visibility,
                13 => &mut fields.vector_dimensions,
                other => {
                    fields.unknown_code.get_or_insert(other);
                    continue;
                }
            };
            if field.replace(value).is_some() {
                return Err(rest.value("optional field given twice", u64::from(code)));
            }
        }
        Ok(fields)
    }

    /// Describes each column of `map`, the event that this metadata came from.
    pub fn details(&self, map: &TableMapEvent<'a>) -> Result<Vec<ColumnDetails<'a>>, BinlogError> {
        let mut columns: Vec<ColumnDetails<'a>> = map.columns().map(|(code, raw)| bare(code, raw)).collect();
        if let Some(bits) = self.signedness {
            let numeric = columns.iter_mut().filter(|column| is_numeric(column.real_type));
            for (index, column) in numeric.enumerate() {
                column.unsigned = Some(high_bit(bits, index, "signedness")?);
            }
        }
        collations(&mut columns, is_character, self.default_charset, self.column_charset)?;
        let (usual, each) = (self.enum_and_set_default_charset, self.enum_and_set_column_charset);
        collations(&mut columns, is_enum_or_set, usual, each)?;
        if let Some(names) = self.column_names {
            let mut names = PackedStrings(names);
            for column in &mut columns {
                column.name = Some(names.string("column name")?);
            }
            end(names.0, "column names")?;
        }
        for (code, lists) in [(ENUM, self.enum_members), (SET, self.set_members)] {
            if let Some(lists) = lists {
                let mut lists = StringLists(lists);
                for column in columns.iter_mut().filter(|column| column.real_type == code) {
                    column.members = Some(lists.take()?);
                }
                end(lists.0, "member names")?;
            }
        }
        if let Some(types) = self.geometry_types {
            let mut types = Cursor::new(EVENT, types);
            for column in columns.iter_mut().filter(|column| column.real_type == GEOMETRY) {
                column.geometry_type = Some(types.packed("geometry type")?);
            }
        }
        if let Some(dimensions) = self.vector_dimensions {
            let mut dimensions = Cursor::new(EVENT, dimensions);
            for column in columns.iter_mut().filter(|column| column.real_type == VECTOR) {
                column.vector_dimension = Some(dimensions.packed("vector dimension")?);
            }
        }
        if let Some(bits) = self.visibility {
            for (index, column) in columns.iter_mut().enumerate() {
                column.visible = Some(high_bit(bits, index, "visibility")?);
            }
        }
        Ok(columns)
    }

    /// Columns of the primary key in key order; `None` if the event does not give them (row_metadata MINIMAL, or no
    /// primary key).
    pub fn primary_key(&self, column_count: usize) -> Result<Option<Vec<KeyPart>>, BinlogError> {
        let (block, prefixes) = match (self.simple_primary_key, self.primary_key_with_prefix) {
            (Some(block), _) => (block, false),
            (None, Some(block)) => (block, true),
            (None, None) => return Ok(None),
        };
        let mut rest = Cursor::new(EVENT, block);
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let column = rest.packed_len("primary key column")?;
            if column >= column_count || parts.len() >= column_count {
                return Err(rest.value("primary key column", column as u64));
            }
            let prefix = if prefixes { rest.packed("primary key prefix")? } else { 0 };
            parts.push(KeyPart { column, prefix_len: (prefix != 0).then_some(prefix) });
        }
        Ok(Some(parts))
    }
}

const ENUM: u8 = 247;
const SET: u8 = 248;
const STRING: u8 = 254;
const GEOMETRY: u8 = 255;
const VECTOR: u8 = 242;

fn bare(type_code: u8, metadata: &[u8]) -> ColumnDetails<'_> {
    // CHAR, ENUM and SET share a code; the first byte of the metadata distinguishes them.
    let real_type = match (type_code, metadata.first()) {
        (STRING, Some(&real @ (ENUM | SET))) => real,
        _ => type_code,
    };
    ColumnDetails {
        real_type,
        metadata,
        unsigned: None,
        collation: None,
        name: None,
        members: None,
        geometry_type: None,
        vector_dimension: None,
        visible: None,
    }
}

/// True for columns that the signedness field counts, YEAR included.
fn is_numeric(real_type: u8) -> bool {
    matches!(real_type, 0..=5 | 8 | 9 | 13 | 246)
}

/// True for columns that the collation fields count, BLOB and VECTOR included.
fn is_character(real_type: u8) -> bool {
    matches!(real_type, 15 | VECTOR | 249..=254)
}

fn is_enum_or_set(real_type: u8) -> bool {
    matches!(real_type, ENUM | SET)
}

fn high_bit(bits: &[u8], index: usize, field: &'static str) -> Result<bool, BinlogError> {
    match bits.get(index / 8) {
        Some(byte) => Ok(byte << (index % 8) & 0x80 != 0),
        None => Err(BinlogError::Short { event: EVENT, field }),
    }
}

fn end(rest: &[u8], field: &'static str) -> Result<(), BinlogError> {
    Cursor::new(EVENT, rest).finish(field)
}

fn collation(from: &mut Cursor<'_>) -> Result<u16, BinlogError> {
    let id = from.packed("collation")?;
    u16::try_from(id).map_err(|_| from.value("collation", id))
}

fn collations(
    columns: &mut [ColumnDetails<'_>],
    belongs: fn(u8) -> bool,
    usual: Option<&[u8]>,
    each: Option<&[u8]>,
) -> Result<(), BinlogError> {
    if let Some(block) = each {
        let mut rest = Cursor::new(EVENT, block);
        for column in columns.iter_mut().filter(|column| belongs(column.real_type)) {
            column.collation = Some(collation(&mut rest)?);
        }
        return rest.finish("collations");
    }
    let Some(block) = usual else {
        return Ok(());
    };
    let mut rest = Cursor::new(EVENT, block);
    let default = collation(&mut rest)?;
    for column in columns.iter_mut().filter(|column| belongs(column.real_type)) {
        column.collation = Some(default);
    }
    while !rest.is_empty() {
        let index = rest.packed_len("column with another collation")?;
        let other = collation(&mut rest)?;
        match columns.iter_mut().filter(|column| belongs(column.real_type)).nth(index) {
            Some(column) => column.collation = Some(other),
            None => return Err(rest.value("column with another collation", index as u64)),
        }
    }
    Ok(())
}

/// Consecutive strings, each with a packed length. Iteration ends at a malformed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedStrings<'a>(&'a [u8]);

impl<'a> PackedStrings<'a> {
    fn string(&mut self, field: &'static str) -> Result<&'a [u8], BinlogError> {
        let mut rest = Cursor::new(EVENT, self.0);
        let string = rest.packed_bytes(field)?;
        self.0 = rest.rest();
        Ok(string)
    }
}

impl<'a> Iterator for PackedStrings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() { None } else { self.string("string").ok() }
    }
}

/// Consecutive lists of strings, each with a packed count.
#[derive(Clone, Copy, Debug)]
pub struct StringLists<'a>(&'a [u8]);

impl<'a> StringLists<'a> {
    fn take(&mut self) -> Result<PackedStrings<'a>, BinlogError> {
        let mut rest = Cursor::new(EVENT, self.0);
        let count = rest.packed("count of members")?;
        let strings = rest.rest();
        for _ in 0..count {
            rest.packed_bytes("member name")?;
        }
        let len = strings.len() - rest.len();
        self.0 = rest.rest();
        Ok(PackedStrings(strings.get(..len).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map<'a>(column_types: &'a [u8], metadata: &'a [u8], optional: &'a [u8]) -> TableMapEvent<'a> {
        TableMapEvent {
            table_id: 1,
            flags: 0,
            db: b"d",
            table: b"t",
            column_types,
            metadata,
            null_bitmap: &[0],
            optional,
        }
    }

    #[test]
    fn full_metadata() {
        // INT UNSIGNED, VARCHAR, ENUM, TEXT, BIGINT
        let optional = [
            &[1, 1, 0b1000_0000][..],
            &[2, 5, 45, 1, 0xfc, 0xff, 0x00],
            &[10, 1, 8],
            &[4, 10, 1, b'a', 1, b'b', 1, b'c', 1, b'd', 1, b'e'],
            &[6, 5, 2, 1, b'x', 1, b'y'],
            &[9, 4, 0, 0, 1, 10],
            &[12, 1, 0b1111_0000],
            &[99, 1, 7],
        ]
        .concat();
        let map = map(&[3, 15, 254, 252, 8], &[10, 0, 247, 1, 2], &optional);
        let fields = map.optional_metadata().unwrap();
        assert_eq!(fields.unknown_code, Some(99));
        let columns = fields.details(&map).unwrap();
        assert_eq!(columns[0].unsigned, Some(true));
        assert_eq!(columns[4].unsigned, Some(false));
        assert_eq!(columns[1].unsigned, None);
        let collations: Vec<Option<u16>> = columns.iter().map(|column| column.collation).collect();
        assert_eq!(collations, [None, Some(45), Some(8), Some(255), None]);
        assert_eq!(columns[2].real_type, ENUM);
        assert_eq!(columns[2].members.unwrap().collect::<Vec<_>>(), [b"x", b"y"]);
        assert_eq!(columns[3].name, Some(&b"d"[..]));
        assert_eq!((columns[3].visible, columns[4].visible), (Some(true), Some(false)));
        let key = fields.primary_key(5).unwrap().unwrap();
        assert_eq!(key, [KeyPart { column: 0, prefix_len: None }, KeyPart { column: 1, prefix_len: Some(10) }]);
        assert!(fields.primary_key(1).is_err());
    }

    #[test]
    fn malformed_fields_are_errors() {
        for optional in [
            &[1, 5, 0][..],
            &[1, 1, 0, 1, 1, 0],
            &[2, 3, 45, 9, 45],
            &[3, 0],
            &[4, 1, 9],
            &[6, 1, 0xff],
            &[6, 9, 0xfe, 255, 255, 255, 255, 255, 255, 255, 255],
        ] {
            let map = map(&[15, 254], &[10, 0, 247, 1], optional);
            let outcome = map.optional_metadata().and_then(|fields| fields.details(&map));
            assert!(outcome.is_err(), "{optional:?}");
        }
        assert!(OptionalMetadata::parse(&[8, 1, 0xff]).unwrap().primary_key(3).is_err());
    }
}
