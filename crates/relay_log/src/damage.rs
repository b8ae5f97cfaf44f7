//! Damage in files in use: finds it and truncates the log to the last whole transaction before it.
//!
//! In: the position at which replay found unreadable bytes. Out: a `Damage` if the file itself is damaged (rather than
//! the source having sent such bytes), and a log truncated before it. Never here: a truncation without a report; sound
//! bytes reported as damage.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use base::{GtidSet, LogPosition};
use binlog::ChecksumAlgorithm;

use crate::names::{file_name, remove_files, write_index};
use crate::recover::KeptFile;
use crate::shared::{FileEntry, RelayShared};
use crate::walk::{FileWalk, Problem, VerifyFrom, walk_file};
use crate::{RelayError, RelayPosition, TruncateReport};

/// A place in a file whose bytes are not those that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Name of the damaged or missing file.
    pub file: String,
    /// Offset of the first byte of the bad event; 0 if the file is missing.
    pub offset: u64,
    /// Description of the damage.
    pub reason: String,
    /// End of the last whole transaction before it; 0:0 if there is none.
    pub whole_up_to: RelayPosition,
    /// GTIDs retrieved up to `whole_up_to`.
    pub retrieved_before: GtidSet,
    /// What remains of the file of `whole_up_to`.
    pub(crate) kept: Option<LastFile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastFile {
    file: KeptFile,
    pub closed: bool,
    pub checksum: ChecksumAlgorithm,
    pub source_position: Option<LogPosition>,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "relay log file {} is damaged at offset {}: {}", self.file, self.offset, self.reason)
    }
}

impl RelayShared {
    /// Verifies all checksums of one file. None if it is sound, or no part of the log any more. Purges and new files wait
    /// meanwhile.
    ///
    /// # Errors
    /// The operating system fails to read.
    pub fn check_file(&self, file_number: u64) -> Result<Option<String>, RelayError> {
        let _index = self.lock_index(); // a purged file is not a missing one
        let file = self.lock().files.iter().find(|file| file.number == file_number).cloned();
        let Some(file) = file else { return Ok(None) };
        let walk = walk_known(&self.dir, &file, RelayPosition::default())?;
        Ok(walk
            .problem
            .map(|problem| format!("{} is damaged at offset {}: {}", file.name, problem.offset, problem.reason)))
    }

    /// Searches for damage from the file of `from` on, and verifies checksums of events after `from`. Returns None if
    /// the bad bytes are as the source sent them (or carry no checksum): fetching them again would bring the same
    /// bytes. Purges and new files wait during the search.
    ///
    /// # Errors
    /// The operating system fails to read.
    pub fn find_damage(&self, from: RelayPosition) -> Result<Option<Damage>, RelayError> {
        let _index = self.lock_index(); // a purged file is not a missing one
        // The previous file says what remains if the first file searched is lost as a whole.
        let is_wanted = |file: &&FileEntry| file.number.saturating_add(1) >= from.file_number;
        let files: Vec<FileEntry> = self.lock().files.iter().filter(is_wanted).cloned().collect();
        let mut before: Option<(RelayPosition, LastFile, GtidSet)> = None;
        for file in &files {
            let walk = walk_known(&self.dir, file, from)?;
            let kept = (walk.boundary > 0).then(|| kept_of(file, &walk));
            let mut retrieved = walk.previous.clone();
            retrieved.union_with(&walk.gtids);
            let here = RelayPosition { file_number: file.number, offset: walk.boundary };
            if let Some(problem) = walk.problem.as_ref().filter(|_| file.number >= from.file_number) {
                let (whole_up_to, kept, retrieved_before) = match (kept, before) {
                    (Some(kept), _) => (here, Some(kept), retrieved),
                    (None, Some((end, kept, retrieved))) => (end, Some(kept), retrieved),
                    (None, None) => (RelayPosition::default(), None, GtidSet::new()),
                };
                let (offset, reason) = (problem.offset, problem.reason.clone());
                return Ok(Some(Damage {
                    file: file.name.to_string(),
                    offset,
                    reason,
                    whole_up_to,
                    retrieved_before,
                    kept,
                }));
            }
            before = kept.map(|kept| (here, kept, retrieved));
        }
        Ok(None)
    }

    /// Lowers all state to the damage, then truncates the folder to match. The caller holds no open transaction.
    pub(crate) fn truncate_to_damage(&self, damage: &Damage) -> Result<(), RelayError> {
        let _index = self.lock_index();
        let to = damage.whole_up_to;
        let doomed: Vec<u64> = {
            let mut state = self.lock();
            let doomed = state.files.iter().map(|file| file.number).filter(|number| *number > to.file_number).collect();
            state.files.retain(|file| file.number <= to.file_number);
            if let (Some(last), Some(kept)) = (state.files.back_mut(), &damage.kept) {
                *last = FileEntry::kept(&kept.file);
            }
            state.hot.clear();
            state.sync.unsynced.retain(|(number, _)| *number <= to.file_number);
            state.sync.lower(to);
            state.readers.truncate(to);
            state.truncations += 1;
            self.wake_readers(state);
            doomed
        };
        // Order matters: the state must never claim truncated bytes, the index must never name deleted files.
        if let Some(state_file) = self.lock_state_file().as_mut() {
            state_file.lower(to)?;
        }
        let numbers = self.lock().numbers();
        write_index(&self.disk, &self.dir, numbers.into_iter())?;
        remove_files(&self.disk, &self.dir, doomed)?;
        if to.file_number > 0 {
            let path = self.path(to.file_number);
            let io = |e| RelayError::io("cut", &path, &e);
            let file = OpenOptions::new().write(true).open(&path).map_err(io)?;
            self.disk.truncate(&file, &path, to.offset).map_err(io)?;
            self.disk.sync_all(&file, &path).map_err(io)?;
        }
        self.disk.sync_folder(&self.dir)
    }
}

impl Damage {
    /// The report of a truncation to this damage.
    pub(crate) fn report(&self, len: u64) -> TruncateReport {
        let same = self.whole_up_to.file_number > 0 && file_name(self.whole_up_to.file_number) == self.file;
        TruncateReport {
            file: self.file.clone(),
            from_len: len,
            to_len: if same { self.whole_up_to.offset } else { 0 },
            reason: format!("{} at offset {}", self.reason, self.offset),
        }
    }
}

fn kept_of(file: &FileEntry, walk: &FileWalk) -> LastFile {
    LastFile {
        file: KeptFile {
            number: file.number,
            len: walk.boundary,
            transactions_end: walk.transactions_end,
            anonymous: walk.anonymous,
            previous: Arc::new(walk.previous.clone()),
        },
        closed: walk.closed,
        checksum: walk.checksum,
        source_position: walk.source_position.clone(),
    }
}

/// Walks the bytes of a file that are known to be written and whole.
fn walk_known(dir: &Path, file: &FileEntry, from: RelayPosition) -> Result<FileWalk, RelayError> {
    let path = dir.join(&*file.name);
    let missing = |reason: String| {
        let problem = Some(Problem { offset: 0, reason, torn: false });
        FileWalk { problem, ..FileWalk::default() }
    };
    match fs::metadata(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(missing("it is missing".into())),
        Err(e) => return Err(RelayError::io("stat", &path, &e)),
        Ok(_) => {}
    }
    let verify_from = match file.number.cmp(&from.file_number) {
        std::cmp::Ordering::Less => u64::MAX,
        std::cmp::Ordering::Equal => from.offset,
        std::cmp::Ordering::Greater => 0,
    };
    let mut walk = walk_file(&path, file.number, VerifyFrom { synced: u64::MAX, verify_from }, file.committed)?;
    if walk.problem.is_none() && walk.len < file.committed {
        let reason = format!("it has only {} of its {} bytes", walk.len, file.committed);
        walk.problem = Some(Problem { offset: walk.len, reason, torn: true });
    }
    if walk.boundary > 0 && walk.previous != *file.previous {
        return Ok(missing("it is another file than the one that was written".into()));
    }
    Ok(walk)
}
