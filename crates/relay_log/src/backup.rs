//! Holds on the log's files; for a backup the parts that a copy consists of, and the files that complete the copy.
//!
//! In: the store's cut in the backup, the end up to which the log is copied. Out: paths, lengths, GTIDs of the parts,
//! the text of the copy's index and state file. Never here: bytes after the last synced whole transaction; a change in
//! the log's folder; purges that wait for a backup while the writer waits for space.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{GtidSet, LogPosition};

use crate::names::{file_name, index_text};
use crate::readers::ReaderId;
use crate::shared::{FileEntry, RelayShared};
use crate::state::State;
use crate::walk::{VerifyFrom, walk_file};
use crate::{Hold, MAGIC, ReadLimit, ReaderOptions, RelayError, RelayPosition};

/// Holds files of the log: purges wait for it. It ends when dropped.
#[derive(Debug)]
pub struct LogHold {
    shared: Arc<RelayShared>,
    id: ReaderId,
    from: RelayPosition,
}

/// A file of the log, as far as a backup copies it, or a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPart {
    /// Number in the file's name.
    pub number: u64,
    /// Name of the file.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Length in bytes of what counts.
    pub len: u64,
}

impl RelayShared {
    /// Holds all files of the log for a backup: purges do not wait for it while the writer waits for space.
    #[must_use]
    pub fn hold(self: &Arc<Self>) -> LogHold {
        self.hold_as(ReaderOptions::limited(u64::MAX, Duration::MAX, ReadLimit::Synced))
    }

    /// Holds all files of the log for a served log that is made from them again after a crash: purges always wait.
    #[must_use]
    pub fn hold_always(self: &Arc<Self>) -> LogHold {
        let options = ReaderOptions::limited(u64::MAX, Duration::MAX, ReadLimit::Synced);
        self.hold_as(ReaderOptions { hold: Hold::Always, ..options })
    }

    fn hold_as(self: &Arc<Self>, options: ReaderOptions) -> LogHold {
        let mut state = self.lock();
        let from = match state.files.front() {
            Some(first) => RelayPosition { file_number: first.number, offset: MAGIC.len() as u64 },
            None => RelayPosition::default(),
        };
        let id = state.readers.add(from, options);
        drop(state);
        LogHold { shared: Arc::clone(self), id, from }
    }
}

impl LogHold {
    /// Lets go of the files before the first one that replay needs after a cut with these GTIDs, made at `position`.
    ///
    /// # Errors
    /// [`RelayError::Gap`] if the log begins after transactions that `executed` lacks.
    pub fn begin_at(&mut self, executed: &GtidSet, position: Option<&LogPosition>) -> Result<(), RelayError> {
        let mut state = self.shared.lock();
        state.check()?;
        let Some(first) = state.files.front() else { return Ok(()) };
        let named = position.and_then(RelayPosition::of);
        let suits = |file: &&FileEntry| file.previous.is_subset_of(executed);
        // Transactions without a GTID are found by their position only, so its file must be there.
        let anonymous = state.files.iter().any(|file| file.anonymous);
        let begin = match named {
            Some(at) if anonymous => state.files.iter().filter(suits).find(|file| file.number == at.file_number),
            _ => None,
        };
        let Some(begin) = begin.or_else(|| state.files.iter().rev().find(suits)) else {
            return Err(RelayError::Gap { file: first.name.to_string(), missing: first.previous.subtract(executed) });
        };
        self.from.file_number = begin.number;
        let (id, from) = (self.id, self.from);
        state.readers.move_to(id, from);
        Ok(())
    }

    /// The held files up to `end`, the end of a whole transaction; none if the log is empty.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn parts(&self, end: RelayPosition) -> Result<Vec<LogPart>, RelayError> {
        self.check()?;
        let state = self.shared.lock();
        let held = state.files.iter().filter(|file| (self.from.file_number..=end.file_number).contains(&file.number));
        let part = |file: &FileEntry| LogPart {
            number: file.number,
            name: file.name.to_string(),
            path: self.shared.path(file.number),
            len: if file.number == end.file_number { end.offset.min(file.committed) } else { file.committed },
        };
        Ok(held.map(part).collect())
    }

    /// Verifies all checksums of a part. Returns the GTIDs of everything retrieved up to its end.
    ///
    /// # Errors
    /// [`RelayError::Corrupt`] if it does not contain what was received; the operating system fails to read.
    pub fn check_part(&self, part: &LogPart) -> Result<GtidSet, RelayError> {
        let walk = walk_file(&part.path, part.number, VerifyFrom { synced: u64::MAX, verify_from: 0 }, part.len)?;
        if let Some(problem) = walk.problem {
            return Err(RelayError::corrupt(&part.name, problem.offset, problem.reason));
        }
        if walk.len != part.len {
            return Err(RelayError::corrupt(&part.name, walk.len, "the file was cut off by someone else"));
        }
        let mut retrieved = walk.previous;
        retrieved.union_with(&walk.gtids);
        Ok(retrieved)
    }

    /// Whether the files are still there.
    ///
    /// # Errors
    /// [`RelayError::PlaceLost`] if some were purged because the writer waited for space; the error that poisoned the
    /// log.
    pub fn check(&self) -> Result<(), RelayError> {
        let state = self.shared.lock();
        state.check()?;
        if self.from.file_number > 0 && state.is_gone(self.from) {
            return Err(RelayError::PlaceLost { file: file_name(self.from.file_number), offset: self.from.offset });
        }
        Ok(())
    }
}

impl Drop for LogHold {
    fn drop(&mut self) {
        self.shared.lock().readers.remove(self.id);
    }
}

/// Names and contents of the two files that complete a copy of these parts: the index, and a state file that says that
/// all of it is durable. None for a log without files.
#[must_use]
pub fn completed_copy(parts: &[LogPart]) -> Vec<(&'static str, String)> {
    let Some(last) = parts.last() else { return Vec::new() };
    let end = RelayPosition { file_number: last.number, offset: last.len };
    let index = index_text(parts.iter().map(|part| part.number));
    vec![(crate::names::INDEX, index), (crate::state::NAME, State::at(end, true).encode())]
}
