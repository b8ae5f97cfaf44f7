//! All readers of a relay log: their positions and what each one holds.
//!
//! In: positions, as readers move. Out: files that must be kept, and the position from which chunks are kept in memory.
//! Never here: I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Hold, Memory, ReaderOptions, RelayPosition};

/// State of one reader.
#[derive(Debug)]
struct Registered {
    position: RelayPosition,
    hold: Hold,
    memory: Memory,
    /// True if bytes that it was given have been truncated.
    truncated: bool,
}

/// Identifies a reader of this log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReaderId(u64);

/// The oldest file, with the facts that decide whether its readers may hold it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldestFile {
    pub number: u64,
    /// Bytes from its start to the end of the log.
    pub bytes_to_end: u64,
    /// Time since it was last written.
    pub age: Duration,
    /// True if the writer waits for its deletion.
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

    /// As [`move_to`](Self::move_to), for a reader that restarts: earlier truncations no longer concern it.
    pub(crate) fn begin_at(&mut self, id: ReaderId, position: RelayPosition) {
        self.move_to(id, position);
        if let Some(reader) = self.readers.get_mut(&id) {
            reader.truncated = false;
        }
    }

    pub(crate) fn is_truncated(&self, id: ReaderId) -> bool {
        self.readers.get(&id).is_some_and(|reader| reader.truncated)
    }

    /// Records that the log now ends at `to`.
    pub(crate) fn truncate(&mut self, to: RelayPosition) {
        for reader in self.readers.values_mut() {
            reader.truncated |= reader.position > to;
        }
    }

    /// Position of the slowest reader that chunks are kept in memory for; None without such readers.
    pub(crate) fn memory_floor(&self) -> Option<RelayPosition> {
        self.kept().map(|(_, reader)| reader.position).min()
    }

    /// The same floor once `id` has moved past its current position.
    pub(crate) fn memory_floor_after(&self, id: ReaderId) -> RelayPosition {
        let others = self.kept().filter(|(other, _)| **other != id).map(|(_, reader)| reader.position);
        others.min().unwrap_or(RelayPosition { file_number: u64::MAX, offset: u64::MAX })
    }

    fn kept(&self) -> impl Iterator<Item = (&ReaderId, &Registered)> {
        self.readers.iter().filter(|(_, reader)| reader.memory == Memory::Kept)
    }

    /// Position of the slowest reader; None without readers.
    pub(crate) fn floor(&self) -> Option<RelayPosition> {
        self.readers.values().map(|reader| reader.position).min()
    }

    /// True if a reader still needs the oldest file and may hold it.
    pub(crate) fn hold(&self, oldest: OldestFile) -> bool {
        self.readers.values().any(|reader| match reader.hold {
            Hold::Always => reader.position.file_number <= oldest.number,
            // A reader before the oldest file has lost its place.
            Hold::UpTo { bytes, age } => {
                reader.position.file_number == oldest.number
                    && !oldest.space_is_short
                    && oldest.bytes_to_end.saturating_sub(reader.position.offset) <= bytes
                    && oldest.age <= age
            }
        })
    }
}
