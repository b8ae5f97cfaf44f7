//! Reads the tree's files whole and compares them with the checksums in the manifest.
//!
//! In: the number of a file. Out: whether its bytes are those that were written; a damaged file is on the list of
//! `damage`. Never here: the block cache, a byte that only the page cache had, more than one file held at a time.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU64;

use lsm_tree::{AbstractTree, Table};
use rustix::fs::{Advice, fadvise};
use xxhash_rust::xxh3::Xxh3Default;

use crate::disk::Disk;
use crate::error::StoreError;

const READ_BYTES: usize = 1 << 20;

/// Result of reading a file whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCheck {
    /// It contains what was written; its size in bytes.
    Whole(u64),
    /// It does not, or it is missing or cannot be read.
    Damaged,
    /// It is no part of the tree any more.
    Gone,
    /// The caller gave up.
    BrokenOff,
}

impl Disk {
    /// Numbers of the tree's files, in ascending order.
    #[must_use]
    pub fn file_numbers(&self) -> Vec<u64> {
        let mut files: Vec<u64> = self.tree.current_version().iter_tables().map(Table::id).collect();
        files.sort_unstable();
        files
    }

    /// True if all rows of the files up to this number are in the last level, below which there is nothing that they
    /// could still be compared with.
    #[must_use]
    pub fn is_merged_up_to(&self, number: u64) -> bool {
        let version = self.tree.current_version();
        let above = version.iter_levels().collect::<Vec<_>>();
        let above = above.split_last().map_or(&[][..], |(_, above)| above);
        above.iter().flat_map(|level| level.iter()).flat_map(|run| run.iter()).all(|file| file.id() > number)
    }

    /// Reads a file from the disk, past all caches, and compares its checksum. `goes_on` is told of each part that was
    /// read, in bytes, and may wait; false gives up.
    ///
    /// # Errors
    /// When the system fails to read.
    pub fn check_file(&self, file: u64, goes_on: &mut dyn FnMut(u64) -> bool) -> Result<FileCheck, StoreError> {
        let version = self.tree.current_version();
        // It holds this file alone, not the version with all others.
        let Some(table) = version.iter_tables().find(|table| table.id() == file).cloned() else {
            return Ok(FileCheck::Gone);
        };
        drop(version);
        if self.damage_list().is_damaged(file) {
            return Ok(FileCheck::Damaged);
        }
        let damaged = |text: &str| {
            self.damage_list().found(file, text);
            Ok(FileCheck::Damaged)
        };
        let failed = |error: std::io::Error| Err(StoreError::io(self.folder(), &error));
        let mut open = match File::open(&*table.path) {
            Ok(open) => open,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return damaged("it is missing"),
            Err(error) => return failed(error),
        };
        let forget = |open: &File, from: u64, len: u64| {
            // Advice only: without it the page cache is checked.
            let _ = fadvise(open, from, NonZeroU64::new(len), Advice::DontNeed);
        };
        forget(&open, 0, 0);
        let (mut hasher, mut buffer, mut at) = (Xxh3Default::new(), vec![0; READ_BYTES], 0);
        loop {
            let read = match open.read(&mut buffer) {
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return failed(error),
            };
            if read == 0 {
                break;
            }
            hasher.update(buffer.get(..read).unwrap_or_default());
            forget(&open, at, read as u64);
            at += read as u64;
            if !goes_on(read as u64) {
                return Ok(FileCheck::BrokenOff);
            }
        }
        if hasher.digest128() == table.checksum().into_u128() {
            return Ok(FileCheck::Whole(at));
        }
        damaged("its bytes are not those that were written")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::damage::DamagedRecords;
    use crate::disk::of_three_runs;

    /// Every byte of a file counts, also those that no reader looks at.
    #[test]
    fn every_flipped_byte_is_found_and_the_file_is_not_merged() {
        let folder = tempfile::tempdir().unwrap();
        let disk = of_three_runs(folder.path(), 300, |_, _| true);
        assert_eq!(disk.file_numbers(), [0, 1, 2]);
        let path = folder.path().join("tables/1");
        let len = std::fs::metadata(&path).unwrap().len();
        let open = File::options().read(true).write(true).open(&path).unwrap();
        let flip = |at: u64| {
            let mut byte = [0];
            open.read_exact_at(&mut byte, at).unwrap();
            open.write_all_at(&[byte[0] ^ 1], at).unwrap();
        };
        for at in (0..len - 1).step_by(97) {
            flip(at);
            let table = disk.tree().current_version().iter_tables().find(|table| table.id() == 1).unwrap().clone();
            let mut bytes = Vec::new();
            File::open(&*table.path).unwrap().read_to_end(&mut bytes).unwrap();
            assert_ne!(xxhash_rust::xxh3::xxh3_128(&bytes), table.checksum().into_u128(), "{at}");
            flip(at);
        }
        for file in disk.file_numbers() {
            assert!(matches!(disk.check_file(file, &mut |_| true).unwrap(), FileCheck::Whole(_)), "{file}");
        }
        assert_eq!(disk.check_file(1, &mut |_| false).unwrap(), FileCheck::BrokenOff);
        assert_eq!(disk.check_file(77, &mut |_| true).unwrap(), FileCheck::Gone);
        assert!(disk.damage().is_empty());
        flip(len - 1);
        assert_eq!(disk.check_file(1, &mut |_| true).unwrap(), FileCheck::Damaged);
        let damage = disk.damage();
        assert!(matches!(damage.as_slice(), [file] if file.file == 1 && file.records == DamagedRecords::None));
        // A merge would give the damage a new checksum, and no cut says that nobody needs the file.
        assert!(!disk.compact_near(0, true).unwrap());
        assert_eq!(disk.file_numbers(), [0, 1, 2]);
    }
}
