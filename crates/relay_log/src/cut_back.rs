//! Cutting a closed log back to what was durable, after a sync that failed.
//!
//! In: a folder, the end of the last whole transaction that a sync announced. Out: a log that ends there. Never here:
//! bytes that a failed sync should have made durable: the system may show them, although the disk never got them.

use std::fs::OpenOptions;
use std::path::Path;

use crate::disk::RelayFs;
use crate::names::{file_name, list_files, remove_files, write_index};
use crate::state::{State, StateFile};
use crate::{RelayError, RelayPosition};

/// Removes everything behind `end`, durably.
pub(crate) fn cut_back(disk: &RelayFs, dir: &Path, end: RelayPosition) -> Result<(), RelayError> {
    let (kept, doomed): (Vec<u64>, Vec<u64>) =
        list_files(dir)?.into_iter().partition(|number| *number <= end.file_number);
    // Order matters: the state must never claim removed bytes, the index must never name deleted files.
    StateFile::new(disk, dir, State::read(dir)?).lower(end)?;
    if !doomed.is_empty() {
        write_index(disk, dir, kept.iter().copied())?;
    }
    remove_files(disk, dir, doomed)?;
    if kept.last() == Some(&end.file_number) {
        let path = dir.join(file_name(end.file_number));
        let io = |e| RelayError::io("cut and sync", &path, &e);
        let file = OpenOptions::new().write(true).open(&path).map_err(io)?;
        if file.metadata().map_err(io)?.len() > end.offset {
            disk.truncate(&file, &path, end.offset).map_err(io)?;
        }
        disk.sync_all(&file, &path).map_err(io)?;
    }
    disk.sync_folder(dir)
}
