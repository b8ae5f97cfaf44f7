//! Positions in a log and in the order of replay.

use std::fmt;
use std::sync::Arc;

/// A byte offset in a named log file, printed as MySQL's messages print it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogPosition {
    /// File name without a folder, as the source or the relay log index names it.
    pub file: Arc<str>,
    /// Offset in bytes from the start of the file.
    pub offset: u64,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)
    }
}

/// A transaction's place in the order of replay: dense, from 1, in source order, assigned once by one thread (the
/// *sequence* stage). Not MySQL's `sequence_number`, which restarts in every file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    /// Before the first transaction.
    pub const ZERO: SequenceNumber = SequenceNumber(0);

    /// The number after this one.
    #[must_use]
    pub fn next(self) -> SequenceNumber {
        SequenceNumber(self.0 + 1)
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
