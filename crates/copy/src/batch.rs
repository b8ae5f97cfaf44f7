//! Rows on their way to the sink.

use catalog::{KeyPlace, RowKey};
use values::ValueError;

/// Some rows of one table: images back to back, each with its identifying key.
#[derive(Clone, Debug, Default)]
pub struct RowBatch {
    images: Vec<u8>,
    /// Keys that are no range of their image, back to back.
    keys: Vec<u8>,
    rows: Vec<Row>,
    offsets: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// In `images`.
    start: usize,
    /// In `images`.
    end: usize,
    /// In `images`, or in `keys`.
    key_start: usize,
    key_len: usize,
    key_built: bool,
}

impl RowBatch {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True without rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of all images.
    #[must_use]
    pub fn image_bytes(&self) -> usize {
        self.images.len()
    }

    /// All images, back to back.
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

    /// Empties it; its memory stays.
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
