//! Checksums of a table's rows, cell by cell.
//!
//! In: rows with their identifying key. Out: per cell the rows, the sum of their hashes and their bytes; equal cells
//! hold equal multisets of rows. A row's cell comes from its key alone, so that a changed row changes one cell.

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Cells of a table: enough that a differing one of 100 M rows holds 1,500, at 3 MiB a side.
pub(crate) const CELLS: usize = 1 << 16;

/// Rows a chunk of the report has on average.
const ROWS_PER_CHUNK: u64 = 1000;

/// What the rows of one cell add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Rows, copies counted.
    pub rows: u64,
    /// Bytes of their images, copies counted.
    pub bytes: u64,
    /// Wrapping sum of their 128-bit hashes, copies counted.
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

/// The cell of a row.
pub(crate) fn cell_of(key: &[u8]) -> usize {
    xxh3_64(key) as usize % CELLS
}

impl Checksums {
    /// Takes `copies` equal rows. Both sides must give the same bytes for the same row.
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

    /// Everything added up.
    #[must_use]
    pub fn total(&self) -> Cell {
        let mut total = Cell::default();
        self.cells.iter().for_each(|cell| total.add(cell));
        total
    }

    /// The cell at `index`.
    #[must_use]
    pub fn cell(&self, index: usize) -> Cell {
        self.cells.get(index).copied().unwrap_or_default()
    }

    /// Cells folded into so many chunks.
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

    /// Cells that are not equal, by index.
    #[must_use]
    pub fn differing(&self, other: &Checksums) -> Vec<usize> {
        (0..CELLS).filter(|index| self.cells.get(*index) != other.cells.get(*index)).collect()
    }
}

/// How many chunks the report of a table with so many rows has.
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
