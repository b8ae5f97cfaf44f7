//! One process per data folder: `flock` on `DIR/slipstream.lock`, which contains the owner's pid.
//!
//! The kernel releases the lock when its process ends in any way; the file stays. The exclusive holder may write the
//! folder and owns the socket; readers of a stopped folder hold a shared lock.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::exit::{Exit, Failure};

/// Name of the lock file.
pub(crate) const LOCK_FILE: &str = "slipstream.lock";

/// How long an owner waits for readers. `status` of a stopped folder takes milliseconds and must not make a start fail;
/// a long dump may.
const READERS_WAIT: Duration = Duration::from_secs(2);
const READERS_LOOK_EVERY: Duration = Duration::from_millis(10);
/// Opening a tree takes milliseconds, or seconds if there is much to remove.
const OPENING_WAIT: Duration = Duration::from_secs(60);

/// A lock on a data folder, held until it is dropped.
#[derive(Debug)]
pub struct FolderLock {
    file: File,
    path: PathBuf,
    exclusive: bool,
}

impl FolderLock {
    /// Locks the folder for the one process that writes it.
    ///
    /// # Errors
    /// Code 3 with the owner's pid if another process has it. Fails at once, except that it waits for readers.
    pub fn exclusive(folder: &Path) -> Result<FolderLock, Failure> {
        let path = folder.join(LOCK_FILE);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o640).open(&path);
        let file = file.map_err(|error| Failure::io(path.display(), &error))?;
        let until = Instant::now() + READERS_WAIT;
        loop {
            match take(&file, folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(failure) if failure.exit != Exit::FolderInUse => return Err(failure),
                Err(failure) if !only_readers(&file) || Instant::now() >= until => return Err(failure),
                Err(_) => std::thread::sleep(READERS_LOOK_EVERY),
            }
        }
        // Only now: dropping it empties the file, which must stay the owner's until then.
        let mut lock = FolderLock { file, path, exclusive: true };
        lock.write_pid()?;
        Ok(lock)
    }

    /// Locks a stopped folder for a reader. Needs no write permission.
    ///
    /// # Errors
    /// Code 3 with the owner's pid if a process writes the folder.
    pub fn shared(folder: &Path) -> Result<FolderLock, Failure> {
        let path = folder.join(LOCK_FILE);
        let file = File::open(&path).map_err(|error| Failure::io(path.display(), &error))?;
        take(&file, folder, FlockOperation::NonBlockingLockShared)?;
        Ok(FolderLock { file, path, exclusive: false })
    }

    /// True if this lock allows writing.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// True if the folder was removed or replaced: its lock file is not the one that this process holds. False if that
    /// cannot be told.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match (std::fs::metadata(&self.path), self.file.metadata()) {
            (Ok(there), Ok(ours)) => (there.dev(), there.ino()) != (ours.dev(), ours.ino()),
            (Err(error), _) => matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory),
            _ => false,
        }
    }

    fn write_pid(&mut self) -> Result<(), Failure> {
        let pid = format!("{}\n", std::process::id());
        let written = self.file.set_len(0).and_then(|()| self.file.write_all(pid.as_bytes()));
        written.map_err(|error| Failure::io(self.path.display(), &error))
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if self.exclusive {
            // Best effort: the lock itself distinguishes a killed owner's pid from a live one.
            let _ = self.file.set_len(0);
        }
    }
}

/// Held by a reader of a stopped folder while it opens the store's tree: opening removes files that a killed process
/// left, and two readers must not do that at once. Once the tree is open, readers do not interfere.
#[derive(Debug)]
pub(crate) struct OpeningLock {
    _folder: Option<File>,
}

impl OpeningLock {
    /// Waits at most `OPENING_WAIT` for other readers that open the tree; needs no write permission. Without a tree,
    /// nothing is locked.
    ///
    /// # Errors
    /// Code 3 if another process takes too long to open it; 8 for disk errors.
    pub(crate) fn take(store: &Path) -> Result<OpeningLock, Failure> {
        let folder = match File::open(store) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(OpeningLock { _folder: None }),
            folder => folder.map_err(|error| Failure::io(store.display(), &error))?,
        };
        let until = Instant::now() + OPENING_WAIT;
        loop {
            match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(OpeningLock { _folder: Some(folder) }),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(READERS_LOOK_EVERY),
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let text = format!("another process has been opening {} for {OPENING_WAIT:?}", store.display());
                    return Err(Failure::new(Exit::FolderInUse, text));
                }
                Err(error) => return Err(Failure::io(store.display(), &error.into())),
            }
        }
    }
}

/// True if all holders of the lock are readers. The pid in the file does not tell: a killed owner's pid may now be
/// another process's.
fn only_readers(file: &File) -> bool {
    let shared = flock(file, FlockOperation::NonBlockingLockShared).is_ok();
    // Release it, or two waiting processes would block each other.
    shared && flock(file, FlockOperation::Unlock).is_ok()
}

fn take(file: &File, folder: &Path, operation: FlockOperation) -> Result<(), Failure> {
    match flock(file, operation) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(in_use(folder)),
        Err(error) => Err(Failure::io(folder.join(LOCK_FILE).display(), &error.into())),
    }
}

/// The pid in the lock file of a folder, if a process with that id is alive.
#[must_use]
pub fn owner(folder: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(folder.join(LOCK_FILE)).ok()?.take(32).read_to_string(&mut text).ok()?;
    let pid: u32 = text.trim().parse().ok()?;
    Path::new("/proc").join(pid.to_string()).exists().then_some(pid)
}

fn in_use(folder: &Path) -> Failure {
    let who = match owner(folder) {
        Some(pid) => format!("process {pid} owns it"),
        None => "another process is reading it".to_owned(),
    };
    Failure::new(Exit::FolderInUse, format!("data folder {} is in use: {who}", folder.display()))
        .with_hint(format!("slipstream stop --data {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_owner_is_refused_and_told_the_pid() {
        let dir = tempfile::tempdir().unwrap();
        let first = FolderLock::exclusive(dir.path()).unwrap();
        for refused in [FolderLock::exclusive(dir.path()), FolderLock::shared(dir.path())] {
            let failure = refused.unwrap_err();
            assert_eq!(failure.exit, Exit::FolderInUse);
            assert!(failure.text.contains(&format!("process {} owns it", std::process::id())), "{}", failure.text);
        }
        drop(first);
        assert_eq!(owner(dir.path()), None);
        assert!(FolderLock::exclusive(dir.path()).is_ok());
    }

    #[test]
    fn readers_share_and_keep_an_owner_out() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(FolderLock::shared(dir.path()).unwrap_err().exit, Exit::Error);
        drop(FolderLock::exclusive(dir.path()).unwrap());
        let (one, two) = (FolderLock::shared(dir.path()).unwrap(), FolderLock::shared(dir.path()).unwrap());
        let failure = FolderLock::exclusive(dir.path()).unwrap_err();
        assert!(failure.text.contains("another process is reading it"), "{}", failure.text);
        // Readers that end in time are waited for.
        let reading = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop((one, two));
        });
        assert!(FolderLock::exclusive(dir.path()).is_ok());
        reading.join().unwrap();
    }

    /// Found by power cuts: with a leftover pid that now was another process's, the owner did not wait for readers.
    #[test]
    fn readers_are_waited_for_whatever_pid_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        drop(FolderLock::exclusive(dir.path()).unwrap());
        std::fs::write(dir.path().join(LOCK_FILE), "1\n").unwrap();
        let reader = FolderLock::shared(dir.path()).unwrap();
        let reading = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(reader);
        });
        assert!(FolderLock::exclusive(dir.path()).is_ok());
        reading.join().unwrap();
    }

    #[test]
    fn a_pid_left_by_a_killed_owner_does_not_lock() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(LOCK_FILE), "4194399\n").unwrap();
        assert!(FolderLock::exclusive(dir.path()).is_ok());
    }
}
