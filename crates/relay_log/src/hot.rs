//! Received bytes that are still in memory, for readers that keep up.
//!
//! In: chunks as they are written. Out: the same buffers, shared, not copied. Never here: a byte that is not in its file
//! too; more than the limit the writer keeps to.

use std::collections::VecDeque;

use crate::{Chunk, RelayPosition};

/// Chunks in the order of the log; gaps are where memory was full.
#[derive(Debug, Default)]
pub(crate) struct Hot {
    chunks: VecDeque<Chunk>,
    bytes: usize,
}

/// What memory has at a position.
pub(crate) enum HotAt {
    /// The chunk that begins there.
    Chunk(Chunk),
    /// Nothing; the next chunk in the same file begins at this offset.
    Before(u64),
    /// Nothing from there to the file's end.
    Nothing,
}

impl Hot {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(crate) fn push(&mut self, chunk: Chunk) {
        assert!(self.chunks.back().is_none_or(|last| end(last) <= begin(&chunk)), "chunks overlap");
        self.bytes += chunk.data.len();
        self.chunks.push_back(chunk);
    }

    pub(crate) fn clear(&mut self) {
        self.chunks.clear();
        self.bytes = 0;
    }

    /// What there is at a position and ends at offset `limit` or in front of it. `floor` is where the slowest of those
    /// begins that chunks are kept for, once the caller has taken this one: a chunk that nobody else waits for is handed
    /// over, not shared.
    pub(crate) fn take(&mut self, position: RelayPosition, floor: RelayPosition, limit: u64) -> HotAt {
        self.release(floor.min(position));
        let index = match self.chunks.front() {
            Some(front) if begin(front) >= position => 0,
            _ => self.chunks.partition_point(|chunk| begin(chunk) < position),
        };
        let Some(chunk) = self.chunks.get(index).filter(|chunk| chunk.file_number == position.file_number) else {
            return HotAt::Nothing;
        };
        if begin(chunk) > position {
            return HotAt::Before(chunk.offset);
        }
        if end(chunk).offset > limit {
            return HotAt::Nothing;
        }
        let shared = chunk.clone();
        if index == 0 && floor > position {
            self.pop();
        }
        HotAt::Chunk(shared)
    }

    /// Forgets what begins in front of a position.
    pub(crate) fn release(&mut self, floor: RelayPosition) {
        while self.chunks.front().is_some_and(|front| begin(front) < floor) {
            self.pop();
        }
    }

    /// Forgets what begins at a position or behind it: it is cut off.
    pub(crate) fn truncate(&mut self, to: RelayPosition) {
        while let Some(chunk) = self.chunks.pop_back_if(|chunk| begin(chunk) >= to) {
            self.bytes -= chunk.data.len();
        }
    }

    fn pop(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.bytes -= chunk.data.len();
        Some(chunk)
    }
}

fn begin(chunk: &Chunk) -> RelayPosition {
    RelayPosition { file_number: chunk.file_number, offset: chunk.offset }
}

fn end(chunk: &Chunk) -> RelayPosition {
    RelayPosition { file_number: chunk.file_number, offset: chunk.offset + chunk.data.len() as u64 }
}
