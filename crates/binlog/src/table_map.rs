//! The Table_map event: which table, and the types of its columns.

use base::limits::COLUMNS_MAX;

use crate::cursor::Cursor;
use crate::{BinlogError, OptionalMetadata, encode};

const EVENT: &str = "Table_map";
/// In [`METADATA_LENS`]: no such type.
const NO_TYPE: u8 = 255;
/// In [`METADATA_LENS`]: an array, whose element type follows.
const ARRAY: u8 = 254;

/// Bytes of metadata by type code (rows_event.h).
static METADATA_LENS: [u8; 256] = metadata_lens();

const fn metadata_lens() -> [u8; 256] {
    let mut lens = [NO_TYPE; 256];
    let mut code = 0;
    while code <= 19 {
        lens[code] = match code {
            4 | 5 | 17 | 18 | 19 => 1,
            15 | 16 => 2,
            _ => 0,
        };
        code += 1;
    }
    lens[20] = ARRAY;
    lens[242] = 1;
    lens[244] = 0;
    lens[245] = 1;
    lens[246] = 2;
    lens[247] = 2;
    lens[248] = 2;
    lens[249] = 1;
    lens[250] = 1;
    lens[251] = 1;
    lens[252] = 1;
    lens[253] = 0;
    lens[254] = 2;
    lens[255] = 1;
    lens
}

/// Length of a column's metadata, given the metadata from that column on.
#[inline]
fn metadata_len(type_code: u8, metadata: &[u8]) -> Option<usize> {
    match METADATA_LENS.get(usize::from(type_code)).copied()? {
        NO_TYPE => None,
        ARRAY => {
            let element = *metadata.first()?;
            let len = match METADATA_LENS.get(usize::from(element)).copied()? {
                NO_TYPE | ARRAY => return None,
                // The length of a VARCHAR element takes three bytes.
                _ if element == 15 => 3,
                len => len,
            };
            Some(1 + usize::from(len))
        }
        len => Some(usize::from(len)),
    }
}

/// A Table_map event. All its parts are borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMapEvent<'a> {
    /// Number by which the rows events of this transaction refer to the table; has no meaning after it.
    pub table_id: u64,
    /// 0 in all current logs, except for bit 0, "unused".
    pub flags: u16,
    /// Name of the database.
    pub db: &'a [u8],
    /// Name of the table.
    pub table: &'a [u8],
    /// Type code of each column.
    pub column_types: &'a [u8],
    /// Metadata of all columns, concatenated; see [`TableMapEvent::columns`].
    pub metadata: &'a [u8],
    /// One bit for each column, lowest first: the column may be NULL.
    pub null_bitmap: &'a [u8],
    /// Optional metadata, still encoded; see [`TableMapEvent::optional_metadata`].
    pub optional: &'a [u8],
}

impl<'a> TableMapEvent<'a> {
    /// Table id of a rows event that only ends a statement.
    pub const DUMMY_TABLE_ID: u64 = (1 << 48) - 1;

    /// Reads the body of a Table_map event and checks that the metadata block fits the column types.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<TableMapEvent<'a>, BinlogError> {
        let mut body = Cursor::new(EVENT, body);
        let table_id = body.u48("table id")?;
        let flags = body.u16("flags")?;
        let db = body.short_bytes("database")?;
        body.nul("end of the database")?;
        let table = body.packed_bytes("table")?;
        body.nul("end of the table")?;
        let count = body.packed_len("column count")?;
        if count > COLUMNS_MAX {
            return Err(body.value("column count", count as u64));
        }
        let column_types = body.bytes(count, "column types")?;
        let metadata = body.packed_bytes("metadata")?;
        let null_bitmap = body.bytes(count.div_ceil(8), "null bitmap")?;
        let optional = body.take_rest();

        let mut at = 0;
        for &type_code in column_types {
            match metadata_len(type_code, metadata.get(at..).unwrap_or_default()) {
                Some(len) => at += len,
                None => return Err(body.value("column type", u64::from(type_code))),
            }
        }
        if at != metadata.len() {
            return Err(body.value("length of the metadata", metadata.len() as u64));
        }
        Ok(TableMapEvent { table_id, flags, db, table, column_types, metadata, null_bitmap, optional })
    }

    /// Reads only the table id.
    #[inline]
    pub fn table_id_of(body: &[u8]) -> Result<u64, BinlogError> {
        Cursor::new(EVENT, body).u48("table id")
    }

    /// Number of columns.
    #[inline]
    pub fn column_count(&self) -> usize {
        self.column_types.len()
    }

    /// Each column's type byte and raw metadata bytes.
    #[inline]
    pub fn columns(&self) -> ColumnTypes<'a> {
        ColumnTypes { types: self.column_types, metadata: self.metadata }
    }

    /// True if the column may be NULL.
    #[inline]
    pub fn is_nullable(&self, column: usize) -> bool {
        self.null_bitmap.get(column / 8).is_some_and(|byte| byte >> (column % 8) & 1 != 0)
    }

    /// Splits the optional metadata into its fields.
    pub fn optional_metadata(&self) -> Result<OptionalMetadata<'a>, BinlogError> {
        OptionalMetadata::parse(self.optional)
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        encode::u48(out, self.table_id);
        out.extend(self.flags.to_le_bytes());
        encode::short_bytes(out, self.db);
        out.push(0);
        encode::packed_bytes(out, self.table);
        out.push(0);
        encode::packed_bytes(out, self.column_types);
        encode::packed_bytes(out, self.metadata);
        out.extend(self.null_bitmap);
        out.extend(self.optional);
    }
}

/// Iterator over a table's columns: type byte and raw metadata bytes.
#[derive(Clone, Debug)]
pub struct ColumnTypes<'a> {
    types: &'a [u8],
    metadata: &'a [u8],
}

impl<'a> Iterator for ColumnTypes<'a> {
    type Item = (u8, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&type_code, types) = self.types.split_first()?;
        let len = metadata_len(type_code, self.metadata)?;
        let (own, metadata) = self.metadata.split_at_checked(len)?;
        self.types = types;
        self.metadata = metadata;
        Some((type_code, own))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.types.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_with_their_metadata() {
        // INT, VARCHAR(40), DECIMAL(10,2), JSON, array of VARCHAR.
        let map = TableMapEvent {
            table_id: 77,
            flags: 1,
            db: b"shop",
            table: b"item",
            column_types: &[3, 15, 246, 245, 20],
            metadata: &[160, 0, 10, 2, 4, 15, 1, 2, 3],
            null_bitmap: &[0b10],
            optional: &[],
        };
        let mut body = Vec::new();
        map.encode_into(&mut body);
        let parsed = TableMapEvent::parse(&body).unwrap();
        assert_eq!(parsed, map);
        let columns: Vec<(u8, &[u8])> = parsed.columns().collect();
        assert_eq!(columns[0], (3, &[][..]));
        assert_eq!(columns[2], (246, &[10, 2][..]));
        assert_eq!(columns[4], (20, &[15, 1, 2, 3][..]));
        assert!(parsed.is_nullable(1) && !parsed.is_nullable(0) && !parsed.is_nullable(99));
        assert_eq!(TableMapEvent::table_id_of(&body).unwrap(), 77);
        for len in 0..body.len() {
            assert!(TableMapEvent::parse(&body[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn metadata_that_does_not_fit_the_types_is_refused() {
        let good = TableMapEvent {
            table_id: 1,
            flags: 0,
            db: b"d",
            table: b"t",
            column_types: &[15],
            metadata: &[1, 0],
            null_bitmap: &[0],
            optional: &[],
        };
        for (column_types, metadata) in
            [(&[15u8][..], &[1u8][..]), (&[15], &[1, 0, 0]), (&[99], &[]), (&[243], &[]), (&[20], &[20]), (&[20], &[])]
        {
            let mut body = Vec::new();
            TableMapEvent { column_types, metadata, ..good }.encode_into(&mut body);
            assert!(TableMapEvent::parse(&body).is_err(), "{column_types:?} {metadata:?}");
        }
    }
}
