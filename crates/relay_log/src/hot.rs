//! Received bytes still in memory, for readers that keep up.
//!
//! In: chunks as they are written. Out: the same buffers, shared, not copied. Never here: bytes that are not in the
//! file too; more than the writer's limit.

use std::collections::VecDeque;

use crate::{Chunk, RelayPosition};

/// Chunks in log order, with gaps where memory was full.
#[derive(Debug, Default)]
pub(crate) struct Hot {
    chunks: VecDeque<Chunk>,
    bytes: usize,
}

/// What memory holds at a position.
pub(crate) enum HotAt {
    /// The chunk that begins there.
    Chunk(Chunk),
    /// No chunk there; the next chunk in the same file begins at this offset.
    Before(u64),
    /// No chunk from there to the end of the file.
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

    /// Returns the chunk at a position if it ends at or before offset `limit`. `floor` is the position of the slowest
    /// reader that chunks are kept for, once the caller has taken this one: a chunk that no other reader needs is moved
    /// out, not shared.
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

    /// Drops chunks that begin before a position.
    pub(crate) fn release(&mut self, floor: RelayPosition) {
        while self.chunks.front().is_some_and(|front| begin(front) < floor) {
            self.pop();
        }
    }

    /// Drops chunks that begin at or after a position, because they are truncated.
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
