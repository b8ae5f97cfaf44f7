//! Entries of a tree between two keys, from either end.
//!
//! In: the tree as of one number, two keys. Out: its entries. Most ranges are read forward and abandoned after a few
//! rows. They are therefore read from the first key without an upper bound, which the tree would have to look up in
//! every run; this code checks for the end instead.

use std::path::Path;
use std::sync::Arc;

use lsm_tree::Slice;

use crate::error::StoreError;
use crate::tree_view::{Entries, TreeView};

pub(crate) type TreeEntry = (Slice, Slice);

/// A range of a tree that opens its iterator on first use, from the end that is used.
pub(crate) struct TreeRange {
    view: Arc<TreeView>,
    folder: Arc<Path>,
    /// Inclusive; after the last entry taken from the front.
    from: Vec<u8>,
    /// Exclusive.
    to: Vec<u8>,
    open: Open,
}

enum Open {
    Not,
    Forward(Entries),
    Both(Entries),
    Ended,
}

impl TreeRange {
    /// From `from` (inclusive) to `to` (exclusive).
    pub(crate) fn new(view: Arc<TreeView>, folder: Arc<Path>, from: &[u8], to: &[u8]) -> TreeRange {
        TreeRange { view, folder, from: from.to_vec(), to: to.to_vec(), open: Open::Not }
    }

    fn entry(&self, entry: lsm_tree::Result<TreeEntry>) -> Result<TreeEntry, StoreError> {
        entry.map_err(|error| StoreError::tree(&self.folder, &error))
    }
}

impl Iterator for TreeRange {
    type Item = Result<TreeEntry, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if matches!(self.open, Open::Not) {
            self.open = Open::Forward(self.view.entries_from(&self.from));
        }
        let next = match &mut self.open {
            Open::Not | Open::Ended => None,
            Open::Both(entries) => entries.next(),
            Open::Forward(entries) => match entries.next() {
                Some(Ok((key, _))) if *key >= *self.to => None,
                Some(Ok(entry)) => {
                    // The smallest key after this entry's key, in case the range is reopened from the back.
                    self.from.clear();
                    self.from.extend_from_slice(&entry.0);
                    self.from.push(0);
                    Some(Ok(entry))
                }
                other => other,
            },
        };
        if next.is_none() {
            self.open = Open::Ended;
        }
        next.map(|entry| self.entry(entry))
    }
}

impl DoubleEndedIterator for TreeRange {
    fn next_back(&mut self) -> Option<Self::Item> {
        if matches!(self.open, Open::Not | Open::Forward(_)) {
            if self.from >= self.to {
                self.open = Open::Ended;
                return None;
            }
            self.open = Open::Both(self.view.entries(&self.from, &self.to));
        }
        let Open::Both(entries) = &mut self.open else { return None };
        let next = entries.next_back();
        next.map(|entry| self.entry(entry))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::disk::of_three_runs;

    #[test]
    fn both_ends_meet() {
        let folder = tempfile::tempdir().unwrap();
        let disk = of_three_runs(folder.path(), 3_000, |run, key| key % 3 == run || key % 7 == 0);
        let view = disk.newest();
        // Each bit is a step: 0 reads from the front, 1 from the back. Later steps read from the front.
        let patterns = [0, u64::MAX, 0b1, 0b10, 0xaaaa_aaaa, 0xffff_0000, 0x00ff_00ff_00ff];
        for (from, to) in [(0u32, 3_000u32), (100, 101), (7, 7), (50, 90), (2_990, 9_000), (9_000, 9_001)] {
            let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
            let expected = |entry: lsm_tree::Result<TreeEntry>| entry.unwrap().0.to_vec();
            let expected: VecDeque<Vec<u8>> = match from < to {
                true => view.entries(&from, &to).map(expected).collect(),
                false => VecDeque::new(),
            };
            for pattern in patterns {
                let mut range = TreeRange::new(Arc::clone(&view), folder.path().into(), &from, &to);
                let mut left = expected.clone();
                for step in 0..expected.len() + 70 {
                    let back = step < 64 && pattern >> step & 1 == 1;
                    let (found, wanted) =
                        if back { (range.next_back(), left.pop_back()) } else { (range.next(), left.pop_front()) };
                    assert_eq!(found.map(|entry| entry.unwrap().0.to_vec()), wanted, "{from:?} {pattern:x} {step}");
                }
            }
        }
    }
}
