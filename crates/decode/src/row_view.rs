//! A row's columns, as far as images tell them: to compare images of one row, and to put changes on top of each other.
//!
//! In: row images, whole or partial. Out: comparisons, images put together. Never here: stored rows, events.

use values::{OFFSET_ABSENT, OFFSET_NULL, RowLayout};

/// A column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column<'a> {
    /// No image holds it.
    Unknown,
    Null,
    Stored(&'a [u8]),
}

/// What is known of a row's columns.
#[derive(Clone, Debug)]
pub struct RowView<'a> {
    columns: Vec<Column<'a>>,
}

impl<'a> RowView<'a> {
    /// Reads an image; `present` is the bitmap of its columns, None if it holds all. None if it cannot be read.
    #[must_use]
    pub fn of(layout: &RowLayout, present: Option<&[u8]>, image: &'a [u8]) -> Option<RowView<'a>> {
        let mut offsets = Vec::new();
        match present {
            Some(present) => layout.walk_present(present, image, &mut offsets).ok()?,
            None => layout.walk_offsets(image, &mut offsets).ok()?,
        };
        let column = |&(start, len): &(u32, u32)| match start {
            OFFSET_ABSENT => Some(Column::Unknown),
            OFFSET_NULL => Some(Column::Null),
            _ => image.get(start as usize..(start + len) as usize).map(Column::Stored),
        };
        Some(RowView { columns: offsets.iter().map(column).collect::<Option<_>>()? })
    }

    /// True if a column is known and not NULL.
    #[must_use]
    pub fn is_not_null(&self, column: usize) -> bool {
        matches!(self.columns.get(column), Some(Column::Stored(_)))
    }

    /// True if a column is known.
    #[must_use]
    pub fn is_known(&self, column: usize) -> bool {
        self.columns.get(column).is_some_and(|column| *column != Column::Unknown)
    }

    /// True if both hold the same in every column that both know. `but` tells which columns are not compared.
    #[must_use]
    pub fn agrees(&self, other: &RowView<'_>, but: impl Fn(usize) -> bool) -> bool {
        let mut both = self.columns.iter().zip(&other.columns).enumerate();
        both.all(|(at, (ours, theirs))| {
            ours == theirs || *ours == Column::Unknown || *theirs == Column::Unknown || but(at)
        })
    }

    /// Puts the columns that `newer` knows on top.
    pub fn put(&mut self, newer: &RowView<'a>) {
        for (column, newer) in self.columns.iter_mut().zip(&newer.columns) {
            if *newer != Column::Unknown {
                *column = *newer;
            }
        }
    }

    /// The columns of `after` that differ from those in `before`, or that `before` does not know.
    #[must_use]
    pub fn differing(before: &RowView<'_>, after: &RowView<'a>) -> RowView<'a> {
        let both = before.columns.iter().zip(&after.columns);
        let columns = both.map(|(before, after)| if before == after { Column::Unknown } else { *after }).collect();
        RowView { columns }
    }

    pub fn forget(&mut self, column: usize) {
        if let Some(column) = self.columns.get_mut(column) {
            *column = Column::Unknown;
        }
    }

    /// Positions of the columns that are known.
    pub fn known(&self) -> impl Iterator<Item = usize> {
        let known = self.columns.iter().enumerate().filter(|(_, column)| **column != Column::Unknown);
        known.map(|(at, _)| at)
    }

    /// True if this after image sets a column to what it was `then`, as far as known, where it is another one `now` and
    /// the event does not tell what it was before. Whether the source set it, or left it as it is now, is not known.
    pub(crate) fn sets_back(&self, column: usize, then: &RowView<'_>, now: &RowView<'_>) -> bool {
        let of = (then.columns.get(column), now.columns.get(column), self.columns.get(column));
        let (then, now, own) = of;
        then != now && own != now && (own == then || then == Some(&Column::Unknown))
    }

    /// The bitmap of the known columns, and an image of them.
    #[must_use]
    pub fn to_partial(&self) -> (Vec<u8>, Vec<u8>) {
        let mut present = vec![0; self.columns.len().div_ceil(8)];
        for at in self.known() {
            set(&mut present, at);
        }
        let count = self.known().count();
        let mut image = vec![0; count.div_ceil(8)];
        for (at, column) in self.columns.iter().filter(|column| **column != Column::Unknown).enumerate() {
            match column {
                Column::Stored(bytes) => image.extend_from_slice(bytes),
                _ => set(&mut image, at),
            }
        }
        (present, image)
    }

    /// The whole image; None unless all columns are known.
    #[must_use]
    pub fn to_image(&self) -> Option<Vec<u8>> {
        (self.known().count() == self.columns.len()).then(|| self.to_partial().1)
    }
}

fn set(bits: &mut [u8], at: usize) {
    if let Some(byte) = bits.get_mut(at / 8) {
        *byte |= 1 << (at % 8);
    }
}

#[cfg(test)]
mod tests {
    use values::{ColumnType, type_code};

    use super::*;

    fn layout() -> RowLayout {
        let types = [(type_code::LONG, 0), (type_code::VARCHAR, 20), (type_code::SHORT, 0)];
        RowLayout::new(&types.map(|(code, meta)| ColumnType::new(code, meta)))
    }

    /// (5, 'a', 7), the unused bits set.
    const BEFORE: [u8; 9] = [0xf8, 5, 0, 0, 0, 1, b'a', 7, 0];
    /// (5, NULL, 7).
    const AFTER: [u8; 7] = [0x02, 5, 0, 0, 0, 7, 0];

    #[test]
    fn what_differs_goes_on_top_of_another_row() {
        let layout = layout();
        let [before, after] = [&BEFORE[..], &AFTER].map(|image| RowView::of(&layout, None, image).unwrap());
        assert!(before.is_not_null(1) && !after.is_not_null(1) && after.is_known(1));
        assert!(!before.agrees(&after, |_| false));
        assert!(before.agrees(&after, |column| column == 1));
        let written = RowView::differing(&before, &after);
        assert_eq!(written.known().collect::<Vec<_>>(), [1]);
        assert_eq!(written.to_partial(), (vec![0b010], vec![1]));
        assert_eq!(written.to_image(), None);
        // A cascade has changed the last column meanwhile.
        let mut now = RowView::of(&layout, None, &[0, 5, 0, 0, 0, 1, b'a', 9, 0]).unwrap();
        now.put(&written);
        assert_eq!(now.to_image().unwrap(), [0x02, 5, 0, 0, 0, 9, 0]);
    }

    #[test]
    fn columns_that_an_image_lacks_are_not_known() {
        let layout = layout();
        let key = RowView::of(&layout, Some(&[0b001]), &[0, 5, 0, 0, 0]).unwrap();
        let whole = RowView::of(&layout, None, &BEFORE).unwrap();
        assert!(key.agrees(&whole, |_| false) && !key.is_known(2));
        assert_eq!(RowView::differing(&key, &whole).known().collect::<Vec<_>>(), [1, 2]);
        // 7 then, 9 now: an update that sets 7 and does not say what it found may have found either.
        let now = RowView::of(&layout, None, &[0, 5, 0, 0, 0, 1, b'a', 9, 0]).unwrap();
        let sets = |value| RowView::of(&layout, Some(&[0b100]), value).unwrap();
        assert!(sets(&[0, 7, 0]).sets_back(2, &whole, &now));
        assert!(sets(&[0, 7, 0]).sets_back(2, &key, &now));
        assert!(!sets(&[0, 8, 0]).sets_back(2, &whole, &now));
        assert!(!sets(&[0, 9, 0]).sets_back(2, &key, &now));
        assert!(!sets(&[0, 7, 0]).sets_back(2, &whole, &whole));
        assert!(RowView::of(&layout, None, &BEFORE[..6]).is_none());
    }
}
