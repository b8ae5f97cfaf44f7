//! All changes that the relay log makes on disk, in one place, so that a test can make any of them fail.
//!
//! In: the change to make. Out: the change made, or the error. Never here: a decision, a retry.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::RelayError;

/// A kind of change in the relay log's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiskOperation {
    /// A new file is created, or an existing one emptied for rewriting.
    Create,
    /// Bytes are written.
    Write,
    /// A file is truncated.
    Truncate,
    /// A file's bytes and length are made durable.
    Sync,
    /// A file is renamed; the path is the new name.
    Rename,
    /// A file is deleted.
    Remove,
    /// Names in the folder are made durable; the path is the folder.
    SyncFolder,
}

/// Called before each change; an error it returns replaces the change. For tests of what a failing disk, a full disk or
/// a crash leaves behind.
#[derive(Clone)]
pub struct DiskWatch(Arc<Watch>);

type Watch = dyn Fn(DiskOperation, &Path) -> io::Result<()> + Send + Sync;

impl DiskWatch {
    /// Wraps `watch`, which may be called from any thread.
    #[must_use]
    pub fn new(watch: impl Fn(DiskOperation, &Path) -> io::Result<()> + Send + Sync + 'static) -> DiskWatch {
        DiskWatch(Arc::new(watch))
    }
}

impl std::fmt::Debug for DiskWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DiskWatch")
    }
}

/// The disk as used by one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct RelayFs {
    watch: Option<DiskWatch>,
}

impl RelayFs {
    pub(crate) fn new(watch: Option<DiskWatch>) -> RelayFs {
        RelayFs { watch }
    }

    fn ask(&self, operation: DiskOperation, path: &Path) -> io::Result<()> {
        match &self.watch {
            Some(DiskWatch(watch)) => watch(operation, path),
            None => Ok(()),
        }
    }

    /// Creates a file to write and read; fails if it exists.
    pub(crate) fn create_new(&self, path: &Path) -> io::Result<File> {
        self.ask(DiskOperation::Create, path)?;
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o640).open(path)
    }

    pub(crate) fn write_at(&self, file: &File, path: &Path, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.ask(DiskOperation::Write, path)?;
        file.write_all_at(bytes, offset)
    }

    pub(crate) fn truncate(&self, file: &File, path: &Path, len: u64) -> io::Result<()> {
        self.ask(DiskOperation::Truncate, path)?;
        file.set_len(len)
    }

    /// Makes bytes, and the length if it changed, durable.
    pub(crate) fn sync_data(&self, file: &File, path: &Path) -> io::Result<()> {
        self.ask(DiskOperation::Sync, path)?;
        file.sync_data()
    }

    /// As [`sync_data`](Self::sync_data), including the file's metadata.
    pub(crate) fn sync_all(&self, file: &File, path: &Path) -> io::Result<()> {
        self.ask(DiskOperation::Sync, path)?;
        file.sync_all()
    }

    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask(DiskOperation::Remove, path)?;
        fs::remove_file(path)
    }

    /// Makes renames, creations and deletions in a folder durable.
    pub(crate) fn sync_folder(&self, dir: &Path) -> Result<(), RelayError> {
        let io = |e| RelayError::io("sync folder", dir, &e);
        self.ask(DiskOperation::SyncFolder, dir).map_err(io)?;
        File::open(dir).map_err(io)?.sync_all().map_err(io)
    }

    /// Replaces `path` by a file with these bytes; after a crash it holds either the old or the new bytes.
    pub(crate) fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), RelayError> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        self.write_new(&temporary, bytes).inspect_err(|_| {
            // Nobody reads it, and the space may be needed.
            let _ = self.remove(&temporary);
        })?;
        let io = |e| RelayError::io("rename to", path, &e);
        self.ask(DiskOperation::Rename, path).map_err(io)?;
        fs::rename(&temporary, path).map_err(io)
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> Result<(), RelayError> {
        let io = |e| RelayError::io("write", path, &e);
        self.ask(DiskOperation::Create, path).map_err(io)?;
        let mut file = File::create(path).map_err(io)?;
        self.ask(DiskOperation::Write, path).map_err(io)?;
        file.write_all(bytes).map_err(io)?;
        self.sync_data(&file, path).map_err(|e| RelayError::io("sync", path, &e))
    }
}
