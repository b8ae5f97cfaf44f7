//! Point reads of a tree at ascending keys, as a cut makes them.
//!
//! In: keys in ascending order. Out: their values. Where keys are dense, it iterates over the tree's entries, at a
//! tenth of the cost of a look-up per entry; where they are sparse, it looks each one up.

use std::sync::Arc;

use lsm_tree::Slice;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::tree_view::{TreeValue, TreeView};

/// Entries skipped on the way to a key before it is looked up instead.
const STEPS_MAX: usize = 12;
/// Look-ups before iteration is tried again; doubled each time the try did not pay off.
const LOOK_UPS_MIN: usize = 8;
const LOOK_UPS_MAX: usize = 256;

type Entry = Result<(Slice, Slice), StoreError>;

/// A cursor over ascending keys that chooses between iteration and look-ups.
pub(crate) struct Ascending<'a> {
    disk: &'a Disk,
    /// View at creation: compaction continues in the meantime.
    view: Arc<TreeView>,
    /// Exclusive.
    to: Vec<u8>,
    entries: Option<Box<dyn Iterator<Item = Entry>>>,
    /// The next entry of `entries`.
    next: Option<(Slice, Slice)>,
    /// Keys found since `entries` was opened.
    found: usize,
    /// Look-ups left before `entries` is opened again, and how many come after the next failed try.
    look_ups: usize,
    look_ups_next: usize,
}

impl<'a> Ascending<'a> {
    /// For keys below `to`, in the tree as of now.
    pub(crate) fn new(disk: &'a Disk, to: &[u8]) -> Ascending<'a> {
        let (look_ups, look_ups_next, view) = (0, LOOK_UPS_MIN, disk.newest());
        Ascending { disk, view, to: to.to_vec(), entries: None, next: None, found: 0, look_ups, look_ups_next }
    }

    /// The value of a key, which must be above the previous one.
    ///
    /// # Errors
    /// The tree cannot be read.
    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<TreeValue>, StoreError> {
        if self.entries.is_none() {
            if self.look_ups > 0 {
                self.look_ups -= 1;
                return self.disk.get_in(&self.view, key);
            }
            let mut entries: Box<dyn Iterator<Item = Entry>> = Box::new(self.disk.range_in(&self.view, key, &self.to));
            self.next = entries.next().transpose()?;
            (self.entries, self.found) = (Some(entries), 0);
        }
        for _ in 0..STEPS_MAX {
            match &self.next {
                Some((next, _)) if **next < *key => {}
                Some((next, value)) if **next == *key => {
                    self.found += 1;
                    return Ok(Some(value.clone().into()));
                }
                _ => return Ok(None),
            }
            let Some(entries) = &mut self.entries else { break };
            self.next = entries.next().transpose()?;
        }
        // The key is too far away. Opening the iterator paid off if it found more keys than its cost in look-ups.
        self.look_ups_next =
            if self.found > LOOK_UPS_MIN { LOOK_UPS_MIN } else { (2 * self.look_ups_next).min(LOOK_UPS_MAX) };
        self.look_ups = if self.found > LOOK_UPS_MIN { 0 } else { self.look_ups_next };
        (self.entries, self.next) = (None, None);
        self.disk.get_in(&self.view, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::of_three_runs;

    /// Dense keys, sparse keys and a mix of both; existing and missing keys; several runs.
    #[test]
    fn values_are_those_of_look_ups() {
        let folder = tempfile::tempdir().unwrap();
        let disk = of_three_runs(folder.path(), 20_000, |run, key| key % 7 != run);
        let (view, to) = (disk.newest(), 19_000u32.to_be_bytes());
        let asked: [Vec<u32>; 5] = [
            (0..19_000).collect(),
            (0..19_000).step_by(5).collect(),
            (0..19_000).step_by(97).collect(),
            (0..19_000).filter(|key| key / 1_000 % 2 == 0 || key % 300 == 0).collect(),
            vec![],
        ];
        for keys in asked {
            let mut tree = Ascending::new(&disk, &to);
            for key in keys {
                let key = key.to_be_bytes();
                let expected = disk.get_in(&view, &key).unwrap();
                assert_eq!(tree.get(&key).unwrap().as_deref(), expected.as_deref(), "{key:?}");
            }
        }
    }
}
