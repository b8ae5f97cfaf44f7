//! Batches of rows on their way to the sink.
//!
//! In: rows as the encoder writes them. Out: images and identifying keys, borrowed. Never here: an allocation per row
//! once a batch has grown.

use catalog::{KeyPlace, RowKey};
use values::ValueError;

/// Rows of one table: their images concatenated, and each one's identifying key.
#[derive(Clone, Debug, Default)]
pub struct RowBatch {
    images: Vec<u8>,
    /// Keys that are not a range of their image, concatenated.
    keys: Vec<u8>,
    rows: Vec<Row>,
    offsets: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// Offset in `images`.
    start: usize,
    /// Offset in `images`.
    end: usize,
    /// Offset in `images`, or in `keys` if `key_built`.
    key_start: usize,
    key_len: usize,
    key_built: bool,
}

impl RowBatch {
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of all images.
    #[must_use]
    pub fn image_bytes(&self) -> usize {
        self.images.len()
    }

    /// All images, concatenated.
    #[must_use]
    pub fn images(&self) -> &[u8] {
        &self.images
    }

    /// Identifying key (see [`catalog::RowKey`]) and image of each row.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.rows.iter().map(|row| {
            let keys = if row.key_built { &self.keys } else { &self.images };
            let key = keys.get(row.key_start..row.key_start + row.key_len).unwrap_or(&[]);
            (key, self.images.get(row.start..row.end).unwrap_or(&[]))
        })
    }

    /// Image of the row added last.
    pub(crate) fn last_image(&self) -> Option<&[u8]> {
        self.rows.last().and_then(|row| self.images.get(row.start..row.end))
    }

    /// Removes all rows but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.images.clear();
        self.keys.clear();
        self.rows.clear();
    }

    /// Adds the row whose image `encode` appends.
    pub(crate) fn push(
        &mut self,
        key: &RowKey,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), ValueError>,
    ) -> Result<(), ValueError> {
        let start = self.images.len();
        encode(&mut self.images)?;
        let end = self.images.len();
        let built_at = self.keys.len();
        let image = self.images.get(start..end).unwrap_or(&[]);
        let row = match key.find(image, &mut self.offsets, &mut self.keys)? {
            KeyPlace::Image { start: at, len } => {
                Row { start, end, key_start: start + at, key_len: len, key_built: false }
            }
            KeyPlace::Built => {
                Row { start, end, key_start: built_at, key_len: self.keys.len() - built_at, key_built: true }
            }
        };
        self.rows.push(row);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::{Catalog, StatementContext};

    #[test]
    fn keys_stand_beside_their_images() {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let key = |columns: &str| {
            let catalog =
                Catalog::new(0).apply(&context, format!("CREATE TABLE t ({columns})").as_bytes()).unwrap().catalog;
            RowKey::new(catalog.table("d", "t").unwrap())
        };
        let columns = "a TINYINT NOT NULL, s VARCHAR(9), b TINYINT NOT NULL";
        let rows: [&[u8]; 2] = [b"\0\x01\x02xy\x03", b"\x02\x04\x05"];
        for (definition, keys) in [
            (format!("{columns}, PRIMARY KEY (a)"), [&[1u8][..], &[4]]),
            (format!("{columns}, PRIMARY KEY (b, a)"), [&[1, 3], &[4, 5]]),
            (columns.to_owned(), [rows[0], rows[1]]),
        ] {
            let key = key(&definition);
            let mut batch = RowBatch::default();
            for row in rows {
                batch
                    .push(&key, |image| {
                        image.extend_from_slice(row);
                        Ok(())
                    })
                    .unwrap();
            }
            assert_eq!((batch.len(), batch.image_bytes()), (2, 9));
            assert_eq!(batch.images(), rows.concat());
            let wanted: Vec<_> = keys.into_iter().zip(rows).collect();
            assert_eq!(batch.iter().collect::<Vec<_>>(), wanted, "{definition}");
            batch.clear();
            assert!(batch.is_empty() && batch.iter().next().is_none());
        }
    }
}
