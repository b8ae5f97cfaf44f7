//! Errors of the store.

use std::path::{Path, PathBuf};

use lsm_tree::file::SyncFailed;
use serde_json::error::Category;

use crate::tree_view::TreeFault;

/// Why the store cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No space left in the file system.
    #[error("store {}: no space left on the device", folder.display())]
    DiskFull {
        /// Folder of the store.
        folder: PathBuf,
    },
    /// The operating system reported an error.
    #[error("store {}: {text}", folder.display())]
    Io {
        /// Folder of the store.
        folder: PathBuf,
        /// The system's error text.
        text: String,
    },
    /// The disk did not take what was to be made durable. What is lost is not known, so nothing is synced again: the
    /// store is opened anew, from its last cut.
    #[error("store {}: {text}", folder.display())]
    SyncFailed {
        /// Folder of the store.
        folder: PathBuf,
        /// The system's error text.
        text: String,
    },
    /// A file does not contain what this program wrote.
    #[error("store {}: damaged: {text}", folder.display())]
    Damaged {
        /// Folder of the store.
        folder: PathBuf,
        /// What is wrong, and where.
        text: String,
    },
    /// A file of the tree does not contain what was written.
    #[error("store {}: {} is damaged: {text}", folder.display(), file_name(*file))]
    DamagedFile {
        /// Folder of the store.
        folder: PathBuf,
        /// Number of the file.
        file: u64,
        text: String,
    },
    /// A record that is whole, but has a name that this program does not know, or lacks one that it needs.
    #[error("store {}: {text}: use the release that wrote it", folder.display())]
    OtherRelease {
        /// Folder of the store.
        folder: PathBuf,
        /// The record, and the name.
        text: String,
    },
    /// Written by another version of this program.
    #[error("store {}: format version {found}, this program reads {expected}: use the release that wrote it", folder.display())]
    Version {
        /// Folder of the store.
        folder: PathBuf,
        /// Format version of the folder.
        found: u32,
        /// Format version that this program reads.
        expected: u32,
    },
    /// A partial update (binlog_row_image=MINIMAL or NOBLOB) of a row that does not exist.
    #[error(
        "Can't find record (1032): some columns of a row of {table} were changed, and the row, key 0x{key}, is not in the \
         replica; with --check-images=all replay stops at the transaction that changed it"
    )]
    RowMissing {
        /// Name of the table, or its id.
        table: String,
        /// First bytes of the row's stored key, in hexadecimal.
        key: String,
    },
    /// The index cannot be read at this snapshot yet: a later DDL statement added it and it is being filled.
    #[error("index {index} of table id {table} is being filled and cannot be read yet")]
    IndexNotReady {
        /// Id of the table.
        table: u32,
        /// Id of the index within the table.
        index: u16,
    },
    /// The rows of a copy without a lock are exact only once the log has been replayed to the copy's end.
    #[error(
        "the copy was taken without a lock (--copy-lock=none): its rows are exact, and can be read, once {missing} more \
          transactions are replayed, up to GTIDs {until}"
    )]
    NotYetConsistent {
        /// GTIDs that must be executed.
        until: String,
        /// Number of those transactions that are still missing.
        missing: u64,
    },
    /// The store's own structures contradict each other: a defect of this program, not of its files.
    #[error("store: {what} (a defect of Slipstream)")]
    Defect { what: &'static str },
    /// The snapshot was given up because it held too much memory or was too old: see
    /// [`SnapshotLimits`](crate::SnapshotLimits).
    #[error(
        "snapshot too old: its rows were released to stay within --snapshot-memory and --snapshot-age, or because the \
         disk was nearly full; take a new one"
    )]
    SnapshotTooOld,
}

impl StoreError {
    /// For a violated invariant, in code that returns errors anyway.
    #[cold]
    pub(crate) fn defect(what: &'static str) -> StoreError {
        StoreError::Defect { what }
    }

    pub(crate) fn row_missing(table: String, key: &[u8]) -> StoreError {
        StoreError::row_missing_hex(table, &key.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    /// As `row_missing`, of a key in hexadecimal.
    pub(crate) fn row_missing_hex(table: String, key: &str) -> StoreError {
        let shown = if key.len() > 64 { format!("{}…", &key[..64]) } else { key.to_owned() };
        StoreError::RowMissing { table, key: shown }
    }

    pub(crate) fn io(folder: &Path, error: &std::io::Error) -> StoreError {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        let folder = folder.to_owned();
        if SyncFailed::is_in(error) {
            return StoreError::SyncFailed { folder, text: error.to_string() };
        }
        match error.kind() {
            StorageFull | QuotaExceeded => StoreError::DiskFull { folder },
            _ => StoreError::Io { folder, text: error.to_string() },
        }
    }

    pub(crate) fn tree(folder: &Path, error: &lsm_tree::Error) -> StoreError {
        match error {
            lsm_tree::Error::Io(error) if SyncFailed::is_in(error) => StoreError::io(folder, error),
            lsm_tree::Error::Io(error) if is_of_content(error) => StoreError::damaged(folder, error.to_string()),
            lsm_tree::Error::Io(error) => StoreError::io(folder, error),
            lsm_tree::Error::InTable(file, error) => match damage_of(error) {
                Some(text) => StoreError::DamagedFile { folder: folder.to_owned(), file: *file, text },
                None => StoreError::tree(folder, error),
            },
            lsm_tree::Error::InvalidVersion(found) => {
                let text = format!("its tree has format {found}, which this program does not know");
                StoreError::OtherRelease { folder: folder.to_owned(), text }
            }
            other => StoreError::damaged(folder, shown(other)),
        }
    }

    pub(crate) fn tree_fault(folder: &Path, fault: &TreeFault) -> StoreError {
        match fault {
            TreeFault::Tree(error) => StoreError::tree(folder, error),
            TreeFault::Malformed { file } => {
                let text = "a block's checksum is right and its content is not the tree's".to_owned();
                StoreError::DamagedFile { folder: folder.to_owned(), file: *file, text }
            }
        }
    }

    /// A record that cannot be read. Text that is JSON was not damaged: checksums and the syntax would tell.
    pub(crate) fn record(folder: &Path, what: &str, error: &serde_json::Error) -> StoreError {
        let text = format!("{what}: {error}");
        match error.classify() {
            Category::Data => StoreError::OtherRelease { folder: folder.to_owned(), text },
            Category::Io | Category::Syntax | Category::Eof => StoreError::damaged(folder, text),
        }
    }

    pub(crate) fn damaged(folder: &Path, text: impl Into<String>) -> StoreError {
        StoreError::Damaged { folder: folder.to_owned(), text: text.into() }
    }
}

/// Name of a file of the tree in the store's folder.
pub(crate) fn file_name(file: u64) -> String {
    format!("tables/{file}")
}

/// What is wrong with a file; None if its content is not to blame.
fn damage_of(error: &lsm_tree::Error) -> Option<String> {
    match error {
        lsm_tree::Error::Io(error) if error.kind() == std::io::ErrorKind::NotFound => Some("it is missing".into()),
        lsm_tree::Error::Io(error) if !is_of_content(error) => None,
        other => Some(shown(other)),
    }
}

/// The library's error in words.
fn shown(error: &lsm_tree::Error) -> String {
    match error {
        lsm_tree::Error::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            format!("it is too short ({error})")
        }
        lsm_tree::Error::Io(error) => error.to_string(),
        lsm_tree::Error::ChecksumMismatch { .. } => "a checksum does not match".into(),
        lsm_tree::Error::InvalidHeader(_) | lsm_tree::Error::InvalidTag(_) | lsm_tree::Error::InvalidTrailer => {
            "a block is not one of the tree's".into()
        }
        lsm_tree::Error::Unrecoverable => "its end is not one of the tree's".into(),
        other => other.to_string(),
    }
}

/// Whether a read failed because the file is truncated or contains a wrong offset: the disk itself worked.
fn is_of_content(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn a_file_cut_off_is_damage_and_a_disk_that_fails_is_not() {
        let of = |error: Error| StoreError::tree(Path::new("s"), &lsm_tree::Error::Io(error));
        for kind in [ErrorKind::UnexpectedEof, ErrorKind::InvalidInput, ErrorKind::InvalidData] {
            assert!(matches!(of(kind.into()), StoreError::Damaged { .. }), "{kind}");
        }
        assert!(matches!(of(Error::from_raw_os_error(5)), StoreError::Io { .. }));
        assert!(matches!(of(Error::from_raw_os_error(28)), StoreError::DiskFull { .. }));
        let in_file = |errno: i32| {
            let error = Box::new(lsm_tree::Error::Io(Error::from_raw_os_error(errno)));
            StoreError::tree(Path::new("s"), &lsm_tree::Error::InTable(7, error))
        };
        assert!(matches!(in_file(5), StoreError::Io { .. }), "a disk that fails may work again");
        assert!(matches!(in_file(2), StoreError::DamagedFile { file: 7, .. }));
    }
}
