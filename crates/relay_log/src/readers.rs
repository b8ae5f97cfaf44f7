//! All readers of a relay log: where each is, what it holds.
//!
//! In: positions, as readers move. Out: which files may not go, and for whom memory is kept. Never here: I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Hold, Memory, ReaderOptions, RelayPosition};

/// What the log knows of a reader.
#[derive(Debug)]
struct Registered {
    position: RelayPosition,
    hold: Hold,
    memory: Memory,
    /// What it was given is cut off again.
    truncated: bool,
}

/// A reader's name here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReaderId(u64);

/// The oldest file, and how much stands in front of its readers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldestFile {
    pub number: u64,
    /// Bytes from its start to the end of the log.
    pub bytes_to_end: u64,
    /// Since it was last written to.
    pub age: Duration,
    /// The writer waits until it is gone.
    pub space_is_short: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Readers {
    readers: BTreeMap<ReaderId, Registered>,
    opened: u64,
}

impl Readers {
    pub(crate) fn add(&mut self, position: RelayPosition, options: ReaderOptions) -> ReaderId {
        self.opened += 1;
        let id = ReaderId(self.opened);
        let ReaderOptions { hold, memory, limit: _ } = options;
        self.readers.insert(id, Registered { position, hold, memory, truncated: false });
        id
    }

    pub(crate) fn remove(&mut self, id: ReaderId) {
        self.readers.remove(&id);
    }

    pub(crate) fn move_to(&mut self, id: ReaderId, position: RelayPosition) {
        let Some(reader) = self.readers.get_mut(&id) else { unreachable!("a reader is known while it lives") };
        reader.position = position;
    }

    /// As [`move_to`](Self::move_to) for a reader that begins again: what it was given before is forgotten.
    pub(crate) fn begin_at(&mut self, id: ReaderId, position: RelayPosition) {
        self.move_to(id, position);
        if let Some(reader) = self.readers.get_mut(&id) {
            reader.truncated = false;
        }
    }

    pub(crate) fn is_truncated(&self, id: ReaderId) -> bool {
        self.readers.get(&id).is_some_and(|reader| reader.truncated)
    }

    /// The log ends at `to` now.
    pub(crate) fn truncate(&mut self, to: RelayPosition) {
        for reader in self.readers.values_mut() {
            reader.truncated |= reader.position > to;
        }
    }

    /// Where the slowest reader begins that memory is kept for; None when it is kept for nobody.
    pub(crate) fn memory_floor(&self) -> Option<RelayPosition> {
        self.kept().map(|(_, reader)| reader.position).min()
    }

    /// The same once `id` has gone on from where it is.
    pub(crate) fn memory_floor_after(&self, id: ReaderId) -> RelayPosition {
        let others = self.kept().filter(|(other, _)| **other != id).map(|(_, reader)| reader.position);
        others.min().unwrap_or(RelayPosition { file_number: u64::MAX, offset: u64::MAX })
    }

    fn kept(&self) -> impl Iterator<Item = (&ReaderId, &Registered)> {
        self.readers.iter().filter(|(_, reader)| reader.memory == Memory::Kept)
    }

    /// In front of it no reader reads; None when there is none.
    pub(crate) fn floor(&self) -> Option<RelayPosition> {
        self.readers.values().map(|reader| reader.position).min()
    }

    /// Whether a reader still needs the oldest file, and may.
    pub(crate) fn hold(&self, oldest: OldestFile) -> bool {
        self.readers.values().any(|reader| match reader.hold {
            Hold::Always => reader.position.file_number <= oldest.number,
            // One in front of the oldest file has lost its place.
            Hold::UpTo { bytes, age } => {
                reader.position.file_number == oldest.number
                    && !oldest.space_is_short
                    && oldest.bytes_to_end.saturating_sub(reader.position.offset) <= bytes
                    && oldest.age <= age
            }
        })
    }
}
