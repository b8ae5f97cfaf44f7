//! Forward cursor over the tree as of one number.
//!
//! In: a view of the tree, a key. Out: keys and values in order from that key on, each key once with its newest visible
//! value. Never here: an allocation for a row once the cursor's buffers have grown; a copy of a value.

use std::cmp::Ordering;
use std::sync::Arc;

use lsm_tree::Slice;

use crate::tree_blocks::{BlockView, Malformed, Place};
use crate::tree_view::{SortedRun, TreeFault, TreeView, position_of};

/// Merges the runs of a view. Runs that have more entries stand in ascending order of their current keys; of equal keys
/// that of the newer run comes first.
pub(crate) struct TreeCursor {
    /// Position of each open run in `runs`, ascending by key, then by age.
    order: Vec<usize>,
    runs: Vec<RunCursor>,
    key: Vec<u8>,
}

/// A position in a run.
struct RunCursor {
    run: SortedRun,
    /// Number of the view.
    limit: u64,
    file: usize,
    /// Number below which entries of the file are visible.
    number: u64,
    /// A part of the file's index, its position, and the position of the block in it.
    index: Slice,
    part: usize,
    position: usize,
    block: Slice,
    place: Place,
    key: Vec<u8>,
    previous: Vec<u8>,
}

impl TreeCursor {
    /// Stands on the first visible entry at or after `from`.
    pub(crate) fn open(view: &TreeView, from: &[u8]) -> Result<TreeCursor, TreeFault> {
        let mut cursor = TreeCursor {
            runs: Vec::with_capacity(view.runs().len()),
            order: Vec::with_capacity(view.runs().len()),
            key: Vec::new(),
        };
        for run in view.runs() {
            if let Some(run) = RunCursor::open(run, from, view.number())? {
                let added = cursor.runs.len();
                cursor.runs.push(run);
                cursor.insert(added);
            }
        }
        if cursor.is_on_tombstone() {
            cursor.advance()?;
        }
        Ok(cursor)
    }

    fn first(&self) -> Option<&RunCursor> {
        self.order.first().and_then(|first| self.runs.get(*first))
    }

    /// Key and value of the current entry; None after the last one.
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.first().map(|run| (run.key.as_slice(), run.value()))
    }

    fn is_on_tombstone(&self) -> bool {
        self.first().is_some_and(|run| run.place.entry.is_tombstone)
    }

    /// Moves to the next visible entry.
    pub(crate) fn advance(&mut self) -> Result<(), TreeFault> {
        loop {
            let Some(&first) = self.order.first() else { return Ok(()) };
            // The other runs' older entries for this key are skipped too, and its older entries in this run.
            let is_shared = match (self.order.get(1).and_then(|second| self.runs.get(*second)), self.runs.get(first)) {
                (Some(second), Some(first)) => second.key == first.key,
                _ => false,
            };
            if is_shared {
                self.skip_shared()?;
            } else {
                self.step(first)?;
            }
            if !self.is_on_tombstone() {
                return Ok(());
            }
        }
    }

    /// Moves every run that stands on the first run's key.
    fn skip_shared(&mut self) -> Result<(), TreeFault> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(self.first().map_or(&[], |run| run.key.as_slice()));
        while let Some(first) = self.order.first().copied()
            && self.runs.get(first).is_some_and(|run| run.key == key)
        {
            self.step(first)?;
        }
        self.key = key;
        Ok(())
    }

    /// Moves the first run to its next key and puts it where it belongs.
    fn step(&mut self, first: usize) -> Result<(), TreeFault> {
        let has_more = match self.runs.get_mut(first) {
            Some(run) => run.next_key()?,
            None => false,
        };
        // Most often it stays the first: then nothing moves.
        let stays = match (has_more, self.order.get(1)) {
            (true, Some(second)) => self.compare(first, *second).is_lt(),
            (more, _) => more,
        };
        if !stays {
            self.order.remove(0);
            if has_more {
                self.insert(first);
            }
        }
        Ok(())
    }

    fn insert(&mut self, run: usize) {
        let at = self.order.partition_point(|other| self.compare(*other, run).is_lt());
        self.order.insert(at, run);
    }

    fn compare(&self, one: usize, other: usize) -> Ordering {
        match (self.runs.get(one), self.runs.get(other)) {
            (Some(a), Some(b)) => a.key.cmp(&b.key).then(one.cmp(&other)),
            _ => one.cmp(&other),
        }
    }
}

impl RunCursor {
    /// Stands on the first visible entry of a run at or after `from`; None if there is none.
    fn open(run: &SortedRun, from: &[u8], limit: u64) -> Result<Option<RunCursor>, TreeFault> {
        let mut cursor = RunCursor {
            run: Arc::clone(run),
            limit,
            file: position_of(run, from),
            number: 0,
            index: Slice::default(),
            part: 0,
            position: 0,
            block: Slice::default(),
            place: Place::default(),
            key: Vec::new(),
            previous: Vec::new(),
        };
        Ok((cursor.open_file(from)? && cursor.settle()?).then_some(cursor))
    }

    fn value(&self) -> &[u8] {
        // The range was checked when the entry was parsed.
        self.block.get(self.place.entry.value.clone()).unwrap_or_default()
    }

    /// Moves to the first entry at or after `from` of the current file, which ends at or after it.
    fn open_file(&mut self, from: &[u8]) -> Result<bool, TreeFault> {
        let Some(file) = self.run.get(self.file) else { return Ok(false) };
        self.number = file.relative(self.limit);
        if self.number == 0 {
            return self.next_file();
        }
        let malformed = |fault| file.malformed(fault);
        // No entry has this number, so the first of several entries for a key is found.
        let Some((part, index)) = file.find_index(from, u64::MAX)? else { return Err(malformed(Malformed)) };
        let view = BlockView::of(&index).map_err(malformed)?;
        let position = view.find_block(from, u64::MAX).map_err(malformed)?;
        let at = position.map(|position| view.block(position)).transpose().map_err(malformed)?.flatten();
        let (Some(position), Some(at)) = (position, at) else { return Err(malformed(Malformed)) };
        let block = file.data_block(&at)?;
        let view = BlockView::of(&block).map_err(malformed)?;
        let found = view.find(from, u64::MAX).map_err(malformed)?;
        let Some((place, _)) = found else { return Err(malformed(Malformed)) };
        view.copy_key(&place, &mut self.key).map_err(malformed)?;
        (self.index, self.part, self.position, self.block, self.place) = (index, part, position, block, place);
        Ok(true)
    }

    /// Moves to the first entry of the next file that has visible entries.
    fn next_file(&mut self) -> Result<bool, TreeFault> {
        loop {
            self.file += 1;
            let Some(file) = self.run.get(self.file) else { return Ok(false) };
            self.number = file.relative(self.limit);
            if self.number > 0
                && let Some(index) = file.index_part(0)?
            {
                (self.index, self.part, self.position) = (index, 0, 0);
                return self.open_block();
            }
        }
    }

    /// Moves to the first entry of the block at `position`, which may be one after the last.
    fn open_block(&mut self) -> Result<bool, TreeFault> {
        let Some(file) = self.run.get(self.file) else { return Ok(false) };
        let malformed = |fault| file.malformed(fault);
        let at = BlockView::of(&self.index).and_then(|view| view.block(self.position)).map_err(malformed)?;
        let Some(at) = at else {
            let Some(index) = file.index_part(self.part + 1)? else { return self.next_file() };
            (self.index, self.part, self.position) = (index, self.part + 1, 0);
            return self.open_block();
        };
        self.block = file.data_block(&at)?;
        let view = BlockView::of(&self.block).map_err(malformed)?;
        let Some(place) = view.first().map_err(malformed)? else { return Err(malformed(Malformed)) };
        view.copy_key(&place, &mut self.key).map_err(malformed)?;
        self.place = place;
        Ok(true)
    }

    /// Moves to the next entry, whose key may be the same; false after the last one.
    fn next_entry(&mut self) -> Result<bool, TreeFault> {
        let Some(file) = self.run.get(self.file) else { return Ok(false) };
        let malformed = |fault| file.malformed(fault);
        let view = BlockView::of(&self.block).map_err(malformed)?;
        if view.step_on(&mut self.place).map_err(malformed)? {
            view.copy_key(&self.place, &mut self.key).map_err(malformed)?;
            return Ok(true);
        }
        self.position += 1;
        self.open_block()
    }

    /// Moves to the first visible entry from the current one on.
    fn settle(&mut self) -> Result<bool, TreeFault> {
        while self.place.entry.number >= self.number {
            if !self.next_entry()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Moves to the first visible entry with a greater key. A file's entries for one key stand in descending order of
    /// their numbers, so one whose number is not below that of the entry before it is for another key.
    fn next_key(&mut self) -> Result<bool, TreeFault> {
        std::mem::swap(&mut self.key, &mut self.previous);
        let mut before = (self.file, self.place.entry.number);
        while self.next_entry()? {
            let (file, number) = (self.file, self.place.entry.number);
            let is_other = file == before.0 && number >= before.1;
            if number < self.number && (is_other || self.key != self.previous) {
                return Ok(true);
            }
            before = (file, number);
        }
        Ok(false)
    }
}
