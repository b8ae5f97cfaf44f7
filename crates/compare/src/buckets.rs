//! Checksums of a table's rows, per cell.
//!
//! In: rows with their identifying key. Out: per cell the number of rows, the sum of their hashes, and their bytes;
//! cells with equal sums contain equal multisets of rows. Invariant: a row's cell depends on its key alone, so that a
//! changed row changes one cell. Never here: the rows themselves.

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Number of cells per table. A differing cell of 100 M rows contains 1,500 of them; one side takes 3 MiB.
pub(crate) const CELLS: usize = 1 << 16;

/// Average number of rows per chunk of the report.
const ROWS_PER_CHUNK: u64 = 1000;

/// Sums over the rows of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Number of rows, duplicates included.
    pub rows: u64,
    /// Bytes of their images, duplicates included.
    pub bytes: u64,
    /// Wrapping sum of their 128-bit hashes, duplicates included.
    pub hashes: u128,
}

impl Cell {
    fn add(&mut self, other: &Cell) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.hashes = self.hashes.wrapping_add(other.hashes);
    }
}

/// All cells of one side of a table.
#[derive(Clone, Debug)]
pub struct Checksums {
    cells: Vec<Cell>,
}

impl Default for Checksums {
    fn default() -> Checksums {
        Checksums { cells: vec![Cell::default(); CELLS] }
    }
}

/// Index of a row's cell.
pub(crate) fn cell_of(key: &[u8]) -> usize {
    xxh3_64(key) as usize % CELLS
}

impl Checksums {
    /// Adds `copies` equal rows. Both sides must pass the same bytes for the same row.
    pub fn add(&mut self, key: &[u8], image: &[u8], copies: u64) {
        let row = Cell {
            rows: copies,
            bytes: copies.wrapping_mul(image.len() as u64),
            hashes: xxh3_128(image).wrapping_mul(u128::from(copies)),
        };
        if let Some(cell) = self.cells.get_mut(cell_of(key)) {
            cell.add(&row);
        }
    }

    /// Sum over all cells.
    #[must_use]
    pub fn total(&self) -> Cell {
        let mut total = Cell::default();
        self.cells.iter().for_each(|cell| total.add(cell));
        total
    }

    /// Cell at `index`; empty if there is none.
    #[must_use]
    pub fn cell(&self, index: usize) -> Cell {
        self.cells.get(index).copied().unwrap_or_default()
    }

    /// Folds the cells into `count` chunks.
    #[must_use]
    pub fn chunks(&self, count: usize) -> Vec<Cell> {
        let mut chunks = vec![Cell::default(); count.clamp(1, CELLS)];
        let count = chunks.len();
        for (index, cell) in self.cells.iter().enumerate() {
            if let Some(chunk) = chunks.get_mut(index % count) {
                chunk.add(cell);
            }
        }
        chunks
    }

    /// Indexes of the cells that differ.
    #[must_use]
    pub fn differing(&self, other: &Checksums) -> Vec<usize> {
        (0..CELLS).filter(|index| self.cells.get(*index) != other.cells.get(*index)).collect()
    }
}

/// Number of chunks in the report of a table with this many rows.
pub(crate) fn chunk_count(rows: u64) -> usize {
    (rows / ROWS_PER_CHUNK).clamp(1, CELLS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_count_but_copies_do() {
        let (mut left, mut right) = (Checksums::default(), Checksums::default());
        for i in 0..5000u32 {
            left.add(&i.to_le_bytes(), &i.to_le_bytes(), 1);
            right.add(&(4999 - i).to_le_bytes(), &(4999 - i).to_le_bytes(), 1);
        }
        assert!(left.differing(&right).is_empty());
        assert_eq!(left.total(), right.total());
        assert_eq!((left.total().rows, left.total().bytes), (5000, 20000));
        right.add(&7u32.to_le_bytes(), &7u32.to_le_bytes(), 1);
        assert_eq!(left.differing(&right), [cell_of(&7u32.to_le_bytes())]);
        left.add(&7u32.to_le_bytes(), &7u32.to_le_bytes(), 1);
        assert!(left.differing(&right).is_empty());
    }

    #[test]
    fn chunks_hold_about_a_thousand_rows() {
        assert_eq!([chunk_count(0), chunk_count(1999), chunk_count(5000)], [1, 1, 5]);
        assert_eq!(chunk_count(u64::MAX), CELLS);
        let mut sums = Checksums::default();
        (0..5000u32).for_each(|i| sums.add(&i.to_le_bytes(), &[0], 1));
        let chunks = sums.chunks(5);
        assert!(chunks.iter().all(|chunk| (800..1200).contains(&chunk.rows)), "{chunks:?}");
        assert_eq!(chunks.iter().map(|chunk| chunk.rows).sum::<u64>(), 5000);
    }
}
