//! Packets to send to one client.

use sql::{Purse, SqlError};
use wire::packet;

/// Memory that an idle connection keeps for its next answer, in bytes.
const KEPT_BYTES: usize = 1024;

/// Packets of one command's answer, with their sequence.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    sequence: u8,
    /// Counts the memory of `bytes`.
    memory: Purse,
}

impl Output {
    /// Counts its memory by another purse from now on.
    pub fn count_by(&mut self, memory: Purse) {
        self.memory = memory;
        self.recount();
    }

    /// Sets the sequence id of the next packet.
    pub fn continue_from(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    /// The sequence id of the next packet.
    #[must_use]
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Adds one packet whose payload `put` writes, in as many frames as it needs.
    pub fn send<T>(&mut self, put: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let at = packet::start(&mut self.bytes);
        let result = put(&mut self.bytes);
        packet::finish(&mut self.bytes, at, &mut self.sequence);
        result
    }

    /// Adds packets that `put` writes with their numbers; it sets the number after them.
    pub fn put_packets<T>(&mut self, put: impl FnOnce(&mut Vec<u8>, &mut u8) -> T) -> T {
        put(&mut self.bytes, &mut self.sequence)
    }

    /// Counts what was put out.
    ///
    /// # Errors
    /// 1041: it is more than the session may hold.
    pub fn count(&self) -> Result<(), SqlError> {
        self.memory.keep_in_all(self.bytes.capacity() as u64)
    }

    /// Bytes that the session may hold.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.memory.most()
    }

    /// What it holds has become less, or may not be refused any more.
    fn recount(&self) {
        if self.count().is_err() {
            // Told by the next count that matters.
        }
    }

    /// Length of what is not taken yet, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if all was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The packets' bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Puts other bytes in the place of those from `at` on: they were compressed.
    pub fn replace_from(&mut self, at: usize, bytes: Vec<u8>) {
        if at == 0 {
            self.bytes = bytes;
        } else {
            self.bytes.truncate(at);
            self.bytes.extend_from_slice(&bytes);
        }
        self.recount();
    }

    /// Records that all bytes were taken; the memory of a large answer is released.
    pub fn taken(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.recount();
    }

    /// Takes back everything from `len` on: an answer that fails half-way is none.
    pub fn truncate(&mut self, len: usize, sequence: u8) {
        self.bytes.truncate(len);
        self.bytes.shrink_to(len.max(KEPT_BYTES));
        self.sequence = sequence;
        self.recount();
    }
}
