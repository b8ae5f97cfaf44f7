//! Deltas: versions that record only what changes in a row held by a layer below.
//!
//! In: changes to rows that are not in memory: new values of some columns (images that lack columns: MINIMAL, NOBLOB),
//! or, for a table without a key, by how much the number of copies changes. Out: whole rows, assembled by whoever needs
//! one: a cut in key order, a reader, a later change that needs the whole row. Never here: a column that an index
//! covers, so a delta never moves its row in an index and needs no index entry of its own (except for a keyless row
//! with nothing below: readers check); a delta written under one definition and read under another (a statement that
//! alters the table first completes its deltas, see `Lane::complete_deltas`).

use catalog::RowVersions;
use values::{RowLayout, ValueError};

use crate::error::StoreError;

/// Appends a delta: length of the bitmap (2 bytes), bitmap of its columns, image.
pub(crate) fn append(present: &[u8], image: &[u8], out: &mut Vec<u8>) {
    let Ok(len) = u16::try_from(present.len()) else { panic!("a bitmap of more than the 4,096 columns of a table") };
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(present);
    out.extend_from_slice(image);
}

/// Changes in the number of copies of a keyless row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copies {
    /// Copies added minus copies removed.
    pub sum: i64,
    /// Lowest value of the sum after any of the changes that were to be checked; 0 at most.
    pub lowest: i64,
}

impl Copies {
    /// These changes and then `next`.
    pub(crate) fn then(self, next: Copies) -> Copies {
        let lowest = self.lowest.min(self.sum.saturating_add(next.lowest));
        Copies { sum: self.sum.saturating_add(next.sum), lowest }
    }

    /// As a lane stores it.
    pub(crate) fn append(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sum.to_le_bytes());
        out.extend_from_slice(&self.lowest.to_le_bytes());
    }

    /// What `append` wrote.
    pub(crate) fn of(delta: &[u8]) -> Copies {
        let lowest = delta.get(8..).and_then(|rest| rest.first_chunk());
        match lowest {
            Some(lowest) => Copies { sum: difference(delta), lowest: i64::from_le_bytes(*lowest) },
            None => panic!("a difference of {} bytes", delta.len()),
        }
    }
}

/// What deltas make of the number of copies of a keyless row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// None if more were removed than there were.
    pub copies: Option<u64>,
    /// A copy was removed when there was none, even if one was added after.
    pub too_few: bool,
}

/// A delta of a keyless row: the change in its number of copies.
pub(crate) fn difference(delta: &[u8]) -> i64 {
    match delta.first_chunk() {
        Some(bytes) => i64::from_le_bytes(*bytes),
        None => panic!("a difference of {} bytes", delta.len()),
    }
}

/// Bitmap and image of a delta.
pub(crate) fn split(delta: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = delta.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
}

fn split_or(delta: &[u8]) -> Result<(&[u8], &[u8]), ValueError> {
    split(delta).ok_or(ValueError::Invalid { what: "delta of a row" })
}

/// Appends one delta that combines two successive changes.
pub(crate) fn append_both(
    layout: &RowLayout,
    older: &[u8],
    present: &[u8],
    image: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    let older = split_or(older)?;
    let (mut both, mut merged) = (Vec::new(), Vec::new());
    layout.merge_parts(older, (present, image), &mut both, &mut merged)?;
    append(&both, &merged, out);
    Ok(())
}

/// The deltas of one row that lie above its whole image.
#[derive(Default)]
pub(crate) struct Deltas {
    /// Newest first, concatenated.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    scratch: Vec<u8>,
}

impl Deltas {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds an older delta.
    ///
    /// # Errors
    /// When it is of another definition, which `Lane::complete_deltas` prevents.
    pub(crate) fn push(&mut self, delta: &[u8], definition: u32, versions: &RowVersions) -> Result<(), StoreError> {
        if !versions.is_current(definition) {
            return Err(StoreError::defect("a delta of a row is of an earlier definition"));
        }
        self.bytes.extend_from_slice(delta);
        self.ends.push(self.bytes.len());
        Ok(())
    }

    /// For a keyless row: number of copies after applying the deltas to `copies`; None if more are removed than there
    /// are.
    pub(crate) fn count_over(&mut self, copies: u64) -> Option<u64> {
        self.counted_over(copies).copies
    }

    /// As `count_over`, and whether there were enough copies at each change.
    pub(crate) fn counted_over(&mut self, copies: u64) -> Counted {
        let starts = std::iter::once(&0).chain(&self.ends);
        // They are stored newest first.
        let all = starts
            .zip(&self.ends)
            .fold(Copies::default(), |newer, (start, end)| Copies::of(&self.bytes[*start..*end]).then(newer));
        self.clear();
        let copies_after = copies.checked_add_signed(all.sum);
        Counted {
            copies: copies_after,
            too_few: copies_after.is_none() || copies.checked_add_signed(all.lowest).is_none(),
        }
    }

    /// Applies the deltas to the row in `image` from offset `from` on: the row below them, under the same definition.
    ///
    /// # Errors
    /// When an image does not match the definition.
    pub(crate) fn complete(&mut self, layout: &RowLayout, image: &mut Vec<u8>, from: usize) -> Result<(), ValueError> {
        // The deltas are stored newest first and must be applied oldest first.
        for (nth, end) in self.ends.iter().enumerate().rev() {
            let start = nth.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
            let (present, delta) = split_or(&self.bytes[start..*end])?;
            self.scratch.clear();
            layout.merge(&image[from..], present, delta, &mut self.scratch)?;
            image.truncate(from);
            image.extend_from_slice(&self.scratch);
        }
        self.clear();
        Ok(())
    }
}
