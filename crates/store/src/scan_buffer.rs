//! Rows that a scan copies from a lane, to read them without its lock.

use crate::Row;

/// One row of a [`ScanBuffer`].
struct Copied {
    hash: u64,
    key_len: u32,
    image_len: u32,
    count: u64,
    definition: u32,
    is_difference: bool,
}

/// One row as it is stored.
pub(crate) struct Read<'a> {
    pub hash: u64,
    pub row: Row<'a>,
    /// Version of the definition that the image was written under.
    pub definition: u32,
    /// The count is how many copies this generation adds, and no layer below has the row.
    pub is_difference: bool,
}

/// Rows copied from a lane.
#[derive(Default)]
pub(crate) struct ScanBuffer {
    bytes: Vec<u8>,
    rows: Vec<Copied>,
}

impl ScanBuffer {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    pub(crate) fn push(&mut self, hash: u64, key: &[u8], image: &[u8], count: u64, definition: u32) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(image);
        let (key_len, image_len) = (crate::short(key.len()), crate::short(image.len()));
        self.rows.push(Copied { hash, key_len, image_len, count, definition, is_difference: false });
    }

    /// Adds a keyless row whose count is a difference from the layers below. If they have none of it, the difference is
    /// not negative, so a negative one can be skipped.
    pub(crate) fn push_difference(&mut self, hash: u64, key: &[u8], difference: i64, definition: u32) {
        let Ok(count) = u64::try_from(difference) else { return };
        self.bytes.extend_from_slice(key);
        let key_len = crate::short(key.len());
        self.rows.push(Copied { hash, key_len, image_len: 0, count, definition, is_difference: true });
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Read<'_>> {
        let mut rest = self.bytes.as_slice();
        self.rows.iter().map(move |&Copied { hash, key_len, image_len, count, definition, is_difference }| {
            let (key, tail) = rest.split_at(key_len as usize);
            let (image, tail) = tail.split_at(image_len as usize);
            rest = tail;
            // A table without a key stores its image once, as the key.
            let row = Row { key, image: if image.is_empty() { key } else { image }, count };
            Read { hash, row, definition, is_difference }
        })
    }
}
