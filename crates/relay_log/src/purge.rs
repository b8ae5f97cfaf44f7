//! Purge of files that the store has passed and no longer needs, given its last durable cut.
//!
//! In: position and GTIDs of the store's last durable cut. Out: whole files deleted, oldest first. Never here: deletion
//! of a file with a transaction that the store lacks, of the last file, or of a file that a reader holds; deletion
//! before the index without that file is durable.

use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::{GtidSet, LogPosition};

use crate::names::write_index;
use crate::readers::OldestFile;
use crate::shared::{FileEntry, RelayShared, Shared};
use crate::{Purged, RelayError, RelayPosition};

impl RelayShared {
    /// Deletes whole files that the store has passed: files before that of `durable`, the position of the store's last
    /// durable cut, whose transactions are all in `executed`, the store's GTIDs at that cut. A position after a file's
    /// last transaction counts as the start of the next file. Deletes oldest first and stops at the first file to keep:
    /// one written within `expire` before `now` (binlog_expire_logs_seconds; ignored while the writer waits for space),
    /// one that a reader has not finished (see [`Hold`](crate::Hold)), or the last file.
    ///
    /// # Errors
    /// `durable` is not a position of a relay log, or the operating system fails. The log is not poisoned: files left
    /// over are deleted by a later purge or at the next start.
    pub fn purge(
        &self,
        durable: &LogPosition,
        executed: &GtidSet,
        expire: Duration,
        now: SystemTime,
    ) -> Result<Purged, RelayError> {
        let durable = RelayPosition::of(durable)
            .ok_or(RelayError::Misuse("a purge needs the position of a cut in this relay log"))?;
        // Serialises purges with changes of the index.
        let _index = self.lock_index();
        let gone = self.take_passed(durable, executed, expire, now)?;
        if gone.is_empty() {
            return Ok(Purged::default());
        }
        let kept = self.lock().numbers();
        // A file that no index names is deleted at the next start, so a crash between the two steps leaves no garbage.
        if let Err(error) = write_index(&self.disk, &self.dir, kept.into_iter()) {
            let mut state = self.lock();
            for file in gone.into_iter().rev() {
                state.files.push_front(file);
            }
            return Err(error);
        }
        let mut purged = Purged::default();
        let mut failed = None;
        for file in gone {
            let path = self.path(file.number);
            match self.disk.remove(&path) {
                Ok(()) => {
                    purged.bytes += file.len;
                    purged.files.push(file.name.to_string());
                }
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => failed = failed.or(Some(RelayError::io("delete", &path, &e))),
            }
        }
        self.space_condvar.notify_all();
        self.disk.sync_folder(&self.dir)?;
        failed.map_or(Ok(purged), Err)
    }

    /// Removes the files to purge from the list.
    fn take_passed(
        &self,
        durable: RelayPosition,
        executed: &GtidSet,
        expire: Duration,
        now: SystemTime,
    ) -> Result<Vec<FileEntry>, RelayError> {
        let mut state = self.lock();
        if state.closed {
            return Err(RelayError::Closed);
        }
        state.check()?;
        // The space limit overrides `expire`: the writer would wait for ever.
        let expire = if state.space.since.is_some() { Duration::ZERO } else { expire };
        let keep_from = passed_up_to(&state, durable);
        let mut bytes_to_end = state.total_bytes();
        let mut gone = Vec::new();
        while let Some(file) = state.files.front()
            && file.number < keep_from
            // File numbers are reused after a truncation; GTIDs are not.
            && state.files.get(1).is_some_and(|next| next.previous.is_subset_of(executed))
        {
            let path = self.path(file.number);
            // A file deleted by someone else counts as infinitely old.
            let modified = fs::metadata(&path).and_then(|metadata| metadata.modified()).unwrap_or(UNIX_EPOCH);
            let age = now.duration_since(modified).unwrap_or_default();
            let space_is_short = state.space.since.is_some();
            let oldest = OldestFile { number: file.number, bytes_to_end, age, space_is_short };
            if !expire.is_zero() && age < expire || state.readers.hold(oldest) {
                break;
            }
            bytes_to_end -= file.len;
            gone.extend(state.files.pop_front());
        }
        Ok(gone)
    }
}

/// Number of the first file that has a transaction after a position, or of the last file.
fn passed_up_to(state: &Shared, position: RelayPosition) -> u64 {
    let mut files = state.files.iter().peekable();
    while let Some(file) = files.next() {
        let passed = file.transactions_end == 0
            || (file.number, file.transactions_end) <= (position.file_number, position.offset);
        if !passed || files.peek().is_none() {
            return file.number;
        }
    }
    0
}
