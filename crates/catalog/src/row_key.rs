//! Stored key bytes: the bytes of a full image that identify its row.
//!
//! In: a table's definition; full row images (null bitmap over all columns, stored values). Out: the key, as a range of
//! the image or assembled in the caller's buffer. Never here: images with only some columns, an allocation per row.
//!
//! The key consists of the stored bytes of the identifying columns in **table** order, concatenated. For a keyless
//! table it is the whole image, with the unused null bits after the last column cleared. A JSON value is identified by
//! its printed text (invariant 21), because a copy has no binary documents. In a keyless table with JSON columns the
//! key is therefore the image with texts instead of documents, whichever form the image has. Virtual columns are NULL in
//! it ([`TableDef::without_virtual`]), because their values are those of the session that wrote the event.

use values::binary_protocol::comparable_image;
use values::{ColumnType, OFFSET_NULL, RowLayout, ValueError, type_code};

use crate::table::{Identity, TableDef};

const NULL_IN_KEY: ValueError = ValueError::Invalid { what: "NULL in a column of the identifying key" };

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPlace {
    /// A range of the image.
    Image {
        /// Offset of the first byte.
        start: usize,
        /// Length in bytes.
        len: usize,
    },
    /// Appended to the caller's buffer.
    Built,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Plan {
    /// The first columns, so the key directly follows the null bitmap. `len` is known if all have a fixed size.
    Leading {
        len: Option<usize>,
    },
    /// Columns elsewhere in the image.
    Columns,
    WholeImage,
    /// A keyless table with JSON columns, or with virtual ones that are left out.
    Comparable,
}

/// True if the images that identify a keyless table's rows differ from those in the log.
#[must_use]
pub fn builds_whole_images(table: &TableDef) -> bool {
    let has_json = || table.columns.iter().any(|column| column.ty.code == type_code::JSON);
    table.identity == Identity::WholeImage && (table.without_virtual || has_json())
}

/// Extracts the identifying key from full images of one version of a table.
#[derive(Debug, Clone)]
pub struct RowKey {
    plan: Plan,
    /// Identifying columns in table order.
    columns: Vec<usize>,
    /// Columns that are NULL in whole images.
    left_out: Vec<usize>,
    types: Vec<ColumnType>,
    layout: RowLayout,
    bitmap_len: usize,
    /// Bits of the last bitmap byte that belong to no column.
    unused_null_bits: u8,
}

impl RowKey {
    /// Prepares extraction for images of this definition.
    #[must_use]
    pub fn new(table: &TableDef) -> RowKey {
        let types = table.column_types();
        let (plan, columns) = match &table.identity {
            Identity::WholeImage if builds_whole_images(table) => (Plan::Comparable, Vec::new()),
            Identity::WholeImage => (Plan::WholeImage, Vec::new()),
            Identity::Columns(columns) => {
                let mut columns = columns.clone();
                columns.sort_unstable();
                let leading = columns.iter().enumerate().all(|(index, column)| index == *column);
                let len = columns.iter().map(|column| types.get(*column).and_then(ColumnType::fixed_len)).sum();
                (if leading { Plan::Leading { len } } else { Plan::Columns }, columns)
            }
        };
        let unused_null_bits = match types.len() % 8 {
            0 => 0,
            used => 0xff << used,
        };
        let layout = RowLayout::new(&types);
        let left_out = table.left_out();
        RowKey { plan, columns, left_out, bitmap_len: types.len().div_ceil(8), unused_null_bits, layout, types }
    }

    /// Layout of this table's images.
    #[must_use]
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// True if whole images identify rows, so that equal rows are indistinguishable.
    #[must_use]
    pub fn is_whole_image(&self) -> bool {
        matches!(self.plan, Plan::WholeImage | Plan::Comparable)
    }

    /// Finds the key of `image`, which must be exactly one row. A key that must be assembled is appended to `built`;
    /// `offsets` is scratch space.
    ///
    /// # Errors
    /// If the image does not fit the definition; `built` may then hold a partial key.
    pub fn find(
        &self,
        image: &[u8],
        offsets: &mut Vec<(u32, u32)>,
        built: &mut Vec<u8>,
    ) -> Result<KeyPlace, ValueError> {
        match self.plan {
            Plan::Leading { len } => self.leading(image, len),
            Plan::Columns => self.elsewhere(image, offsets, built),
            Plan::WholeImage => Ok(self.whole(image, built)),
            Plan::Comparable => {
                comparable_image(&self.types, &self.layout, &self.left_out, image, offsets, built)?;
                Ok(KeyPlace::Built)
            }
        }
    }

    /// Like [`RowKey::find`], but returns the key's bytes. Clears `built` first.
    ///
    /// # Errors
    /// Those of [`RowKey::find`].
    pub fn bytes<'a>(
        &self,
        image: &'a [u8],
        offsets: &mut Vec<(u32, u32)>,
        built: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], ValueError> {
        built.clear();
        match self.find(image, offsets, built)? {
            KeyPlace::Image { start, len } => Ok(image.get(start..start + len).unwrap_or(&[])),
            KeyPlace::Built => Ok(built),
        }
    }

    fn leading(&self, image: &[u8], len: Option<usize>) -> Result<KeyPlace, ValueError> {
        let null = |column: usize| image.get(column / 8).is_some_and(|byte| byte >> (column % 8) & 1 != 0);
        if (0..self.columns.len()).any(null) {
            return Err(NULL_IN_KEY);
        }
        let start = self.bitmap_len;
        let len = match len {
            Some(len) => len,
            None => {
                let mut end = start;
                for column in 0..self.columns.len() {
                    end += self.layout.stored_len(column, image.get(end..).unwrap_or(&[]))?;
                }
                end - start
            }
        };
        if image.len() < start + len {
            return Err(ValueError::ImageCutOff { column: 0, available: image.len() });
        }
        Ok(KeyPlace::Image { start, len })
    }

    fn elsewhere(
        &self,
        image: &[u8],
        offsets: &mut Vec<(u32, u32)>,
        built: &mut Vec<u8>,
    ) -> Result<KeyPlace, ValueError> {
        self.layout.walk_offsets(image, offsets)?;
        // Columns that are adjacent in the image form a range of it, which needs no copy.
        let mut together: Option<(usize, usize)> = None;
        let mut apart = false;
        for column in &self.columns {
            let (start, len) = match offsets.get(*column) {
                Some(&(start, len)) if start != OFFSET_NULL => (start as usize, len as usize),
                _ => return Err(NULL_IN_KEY),
            };
            together = match together {
                None => Some((start, len)),
                Some((first, so_far)) => {
                    apart |= first + so_far != start;
                    Some((first, so_far + len))
                }
            };
        }
        if let (Some((start, len)), false) = (together, apart) {
            return Ok(KeyPlace::Image { start, len });
        }
        for column in &self.columns {
            if let Some(&(start, len)) = offsets.get(*column) {
                built.extend_from_slice(image.get(start as usize..(start + len) as usize).unwrap_or(&[]));
            }
        }
        Ok(KeyPlace::Built)
    }

    fn whole(&self, image: &[u8], built: &mut Vec<u8>) -> KeyPlace {
        let last = self.bitmap_len.saturating_sub(1);
        if image.get(last).is_none_or(|byte| byte & self.unused_null_bits == 0) {
            return KeyPlace::Image { start: 0, len: image.len() };
        }
        let from = built.len();
        built.extend_from_slice(image);
        if let Some(byte) = built.get_mut(from + last) {
            *byte &= !self.unused_null_bits;
        }
        KeyPlace::Built
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, StatementContext};

    fn key_of(columns: &str, image: &[u8]) -> Result<(KeyPlace, Vec<u8>), ValueError> {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let sql = format!("CREATE TABLE t ({columns})");
        let catalog = Catalog::new(0).apply(&context, sql.as_bytes()).unwrap().catalog;
        let key = RowKey::new(catalog.table("d", "t").unwrap());
        let (mut offsets, mut built) = (Vec::new(), Vec::new());
        let place = key.find(image, &mut offsets, &mut built)?;
        let bytes = key.bytes(image, &mut offsets, &mut built)?.to_vec();
        Ok((place, bytes))
    }

    #[test]
    fn keys_stand_in_table_order() {
        let image = b"\xf0\x01\x02xy\x03\x04";
        let at = |start, len| KeyPlace::Image { start, len };
        let columns =
            |key: &str| format!("a TINYINT NOT NULL, s VARCHAR(9), b TINYINT NOT NULL, c TINYINT NOT NULL, {key}");
        assert_eq!(key_of(&columns("PRIMARY KEY (a)"), image).unwrap(), (at(1, 1), vec![1]));
        assert_eq!(key_of(&columns("PRIMARY KEY (s, a)"), image).unwrap(), (at(1, 4), b"\x01\x02xy".to_vec()));
        assert_eq!(key_of(&columns("PRIMARY KEY (c, b)"), image).unwrap(), (at(5, 2), vec![3, 4]));
        assert_eq!(key_of(&columns("UNIQUE KEY (c, a)"), image).unwrap(), (KeyPlace::Built, vec![1, 4]));
    }

    #[test]
    fn whole_images_lose_the_bits_of_no_column() {
        let image = b"\xf2\x01\x02xy";
        let clean = b"\x02\x01\x02xy".to_vec();
        let columns = "a TINYINT NOT NULL, n INT, s VARCHAR(9)";
        assert_eq!(key_of(columns, image).unwrap(), (KeyPlace::Built, clean.clone()));
        assert_eq!(key_of(columns, &clean).unwrap(), (KeyPlace::Image { start: 0, len: 5 }, clean));
    }

    #[test]
    fn json_is_identified_by_its_text() {
        // [1] as a document: small array, 1 element, 7 bytes, INT16 1 inlined.
        let document = b"\x00\x08\x00\x00\x00\x02\x01\x00\x07\x00\x05\x01\x00";
        let text = b"\x00\x03\x00\x00\x00[1]";
        let (_, from_document) = key_of("j JSON", document).unwrap();
        let (_, from_text) = key_of("j JSON", text).unwrap();
        assert_eq!(from_document, text);
        assert_eq!(from_text, text);
    }

    #[test]
    fn virtual_columns_take_no_part() {
        let columns = "a TINYINT, v TINYINT AS (a) VIRTUAL NOT NULL, s TINYINT AS (a) STORED, t TINYINT AS (1)";
        let key = b"\x0a\x01\x03".to_vec();
        assert_eq!(key_of(columns, b"\xf0\x01\x02\x03\x04").unwrap(), (KeyPlace::Built, key.clone()));
        assert_eq!(key_of(columns, &key).unwrap(), (KeyPlace::Built, key));
        let keyed = format!("{columns}, UNIQUE (v), PRIMARY KEY (a)");
        assert_eq!(key_of(&keyed, b"\xf0\x01\x02\x03\x04").unwrap().1, [1]);
    }

    #[test]
    fn broken_images_are_errors() {
        assert!(key_of("a INT PRIMARY KEY", b"\x00\x01\x02").is_err());
        assert!(key_of("a INT PRIMARY KEY", b"\x01").is_err());
        assert!(key_of("a INT, b VARCHAR(9) NOT NULL, UNIQUE (b)", b"\x01\x09x").is_err());
        assert!(key_of("a INT, b VARCHAR(9) NOT NULL, UNIQUE (b)", b"\x03").is_err());
        assert!(key_of("j JSON", b"\x00\x09\x00\x00\x00[1]").is_err());
    }
}
