//! Which files may go: those the store has passed, once it is durable past them.
//!
//! In: the position and the GTIDs of the store's last durable cut. Out: files deleted, oldest first, whole ones only.
//! Never here: a file with a transaction the store lacks, the last file, a file a reader holds; a file
//! deleted before the index that does not name it is durable.

use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::{GtidSet, LogPosition};

use crate::names::write_index;
use crate::readers::OldestFile;
use crate::shared::{FileEntry, RelayShared, Shared};
use crate::{Purged, RelayError, RelayPosition};

impl RelayShared {
    /// Deletes whole files that the store has passed: those before the file that holds `durable`, the position of its
    /// last durable cut (a position behind the last transaction of a file counts as the next file's start), and of
    /// which `executed`, the store's GTIDs at that cut, holds all. Oldest first, up to the first that is kept: one that
    /// was written to in the last `expire` before `now` (binlog_expire_logs_seconds; ignored while the writer waits for
    /// space), one a reader has not finished (see [`Hold`](crate::Hold)), the last file.
    ///
    /// # Errors
    /// When `durable` is no position of a relay log, or the system refuses; the log is not poisoned by that, and a
    /// file that is not deleted now is deleted by a later purge or the next start.
    pub fn purge(
        &self,
        durable: &LogPosition,
        executed: &GtidSet,
        expire: Duration,
        now: SystemTime,
    ) -> Result<Purged, RelayError> {
        let durable = RelayPosition::of(durable)
            .ok_or(RelayError::Misuse("a purge needs the position of a cut in this relay log"))?;
        // Serialises purges and changes of the index.
        let _index = self.lock_index();
        let gone = self.take_passed(durable, executed, expire, now)?;
        if gone.is_empty() {
            return Ok(Purged::default());
        }
        let kept = self.lock().numbers();
        // A file no index names is deleted at the next start, so a crash between the two leaves nothing behind.
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

    /// Takes the files to purge out of the list.
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
        // The limit is the stronger wish: what waits for it would wait for ever.
        let expire = if state.space.since.is_some() { Duration::ZERO } else { expire };
        let keep_from = passed_up_to(&state, durable);
        let mut bytes_to_end = state.total_bytes();
        let mut gone = Vec::new();
        while let Some(file) = state.files.front()
            && file.number < keep_from
            // File numbers come again when the log was cut back; GTIDs do not.
            && state.files.get(1).is_some_and(|next| next.previous.is_subset_of(executed))
        {
            let path = self.path(file.number);
            // A file that was deleted by someone else is as old as any.
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

/// The first file that holds a transaction behind a position, or the last file.
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
