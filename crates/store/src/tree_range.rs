//! Entries of a tree between two keys, from either end.
//!
//! In: the tree as of one number, two keys. Out: its entries. Most ranges are read forward and abandoned after a few rows:
//! a cursor on the blocks reads them, which copies nothing. Once the back is asked for, the tree's iterator reads what is
//! left, from both ends.

use std::sync::Arc;

use lsm_tree::Slice;

use crate::damage::DamageList;
use crate::error::StoreError;
use crate::tree_cursor::TreeCursor;
use crate::tree_view::{Entries, TreeView};

pub(crate) type TreeEntry = (Slice, Slice);

/// End of a range to read from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

/// A range of a tree that is opened on first use, from the end that is used.
pub(crate) struct TreeRange {
    damage: Arc<DamageList>,
    /// Inclusive.
    from: Vec<u8>,
    /// Exclusive.
    to: Vec<u8>,
    open: Open,
    /// After the files that `open` holds: see [`crate::disk::StillOpen`].
    view: Arc<TreeView>,
}

enum Open {
    Not,
    Forward {
        cursor: TreeCursor,
        /// Whether its entry is before the end.
        is_within: bool,
        /// Whether its entry was taken: the next one is read when it is asked for.
        taken: bool,
    },
    /// The entries between those that were read from the ends but not taken.
    Both {
        front: Option<TreeEntry>,
        entries: Entries,
        back: Option<TreeEntry>,
    },
}

impl TreeRange {
    /// From `from` (inclusive) to `to` (exclusive).
    pub(crate) fn new(view: Arc<TreeView>, damage: Arc<DamageList>, from: &[u8], to: &[u8]) -> TreeRange {
        TreeRange { damage, from: from.to_vec(), to: to.to_vec(), open: Open::Not, view }
    }

    /// Reads the entry at an end, unless it was read already; false if there is none left.
    pub(crate) fn read(&mut self, end: End) -> Result<bool, StoreError> {
        match (&mut self.open, end) {
            (Open::Forward { cursor, taken, is_within }, End::Front) => {
                if std::mem::take(taken) {
                    cursor.advance().map_err(|fault| self.damage.view_fault(&fault))?;
                    *is_within = comes_before(cursor, &self.to);
                }
                Ok(*is_within)
            }
            (Open::Not, End::Front) => {
                let cursor = TreeCursor::open(&self.view, &self.from);
                let cursor = cursor.map_err(|fault| self.damage.view_fault(&fault))?;
                let is_within = comes_before(&cursor, &self.to);
                self.open = Open::Forward { is_within, taken: false, cursor };
                Ok(is_within)
            }
            (Open::Both { .. }, _) => self.read_both(end),
            (Open::Not | Open::Forward { .. }, End::Back) => {
                self.open_both();
                self.read_both(end)
            }
        }
    }

    fn read_both(&mut self, end: End) -> Result<bool, StoreError> {
        let Open::Both { front, entries, back } = &mut self.open else { return Ok(false) };
        let slot = if end == End::Front { front } else { back };
        if slot.is_none() {
            let next = if end == End::Front { entries.next() } else { entries.next_back() };
            *slot = next.transpose().map_err(|error| self.damage.fault(&error))?;
        }
        Ok(self.entry(end).is_some())
    }

    /// The entry that was read.
    pub(crate) fn entry(&self, end: End) -> Option<(&[u8], &[u8])> {
        match &self.open {
            Open::Not => None,
            Open::Forward { cursor, is_within, taken } => cursor.entry().filter(|_| *is_within && !*taken),
            // The last entry may have been read from the other end.
            Open::Both { front, back, .. } => {
                let (one, other) = if end == End::Front { (front, back) } else { (back, front) };
                one.as_ref().or(other.as_ref()).map(|(key, value)| (&**key, &**value))
            }
        }
    }

    /// Takes the entry that was read.
    pub(crate) fn take(&mut self, end: End) {
        match &mut self.open {
            Open::Not => {}
            Open::Forward { taken, .. } => *taken = true,
            Open::Both { front, back, .. } => {
                let (one, other) = if end == End::Front { (front, back) } else { (back, front) };
                if one.take().is_none() {
                    *other = None;
                }
            }
        }
    }

    /// What is left, to be read from both ends.
    fn open_both(&mut self) {
        if let Open::Forward { cursor, taken, .. } = &self.open {
            self.from.clear();
            match cursor.entry() {
                Some((key, _)) => self.from.extend_from_slice(key),
                None => self.from.extend_from_slice(&self.to),
            }
            if *taken {
                // The smallest key after it.
                self.from.push(0);
            }
        }
        let entries: Entries =
            if self.from < self.to { self.view.entries(&self.from, &self.to) } else { Box::new(std::iter::empty()) };
        self.open = Open::Both { front: None, entries, back: None };
    }
}

fn comes_before(cursor: &TreeCursor, to: &[u8]) -> bool {
    cursor.entry().is_some_and(|(key, _)| key < to)
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
            let expected = |entry: lsm_tree::Result<TreeEntry>| {
                let (key, value) = entry.unwrap();
                (key.to_vec(), value.to_vec())
            };
            let expected: VecDeque<(Vec<u8>, Vec<u8>)> = match from < to {
                true => view.entries(&from, &to).map(expected).collect(),
                false => VecDeque::new(),
            };
            for pattern in patterns {
                let mut range = disk.tree_range(&view, &from, &to);
                let mut left = expected.clone();
                for step in 0..expected.len() + 70 {
                    let back = step < 64 && pattern >> step & 1 == 1;
                    let (end, wanted) =
                        if back { (End::Back, left.pop_back()) } else { (End::Front, left.pop_front()) };
                    assert_eq!(range.read(end).unwrap(), wanted.is_some(), "{from:?} {pattern:x} {step}");
                    let found = range.entry(end).map(|(key, value)| (key.to_vec(), value.to_vec()));
                    assert_eq!(found, wanted, "{from:?} {pattern:x} {step}");
                    range.take(end);
                }
            }
        }
    }
}
