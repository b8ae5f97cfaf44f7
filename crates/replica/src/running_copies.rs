//! Tables that are copied again, beside replay and each other.
//!
//! In: names as copies begin and end. Out: a file in the data folder that names them, for the log of a start after a
//! crash; their progress. Never here: two copies of one table; the copies themselves.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use source::TableFilter;

use crate::exit::Failure;
use crate::folder::{Folder, read_small, write_atomically};
use crate::log::{self, Code};

/// File in the folder while tables are copied; contains their names, a line each.
const MARK: &str = "copying-table";

/// By the table's name, quoted: the name as it was given, and the progress.
type Running = BTreeMap<String, (String, String)>;

/// The tables of one replica that are being copied.
#[derive(Default)]
pub(crate) struct RunningCopies {
    running: Mutex<Running>,
    /// Held while the file is written, so that it ends with the newest names.
    marking: Mutex<()>,
    /// Held for reading by each copy, for writing by whoever needs that none runs.
    any: RwLock<()>,
    /// Held by the copy that holds replay. A switch that comes too late must not fall into the hold of another copy:
    /// its table would lack what was replayed in between.
    switching: Mutex<()>,
}

/// A copy that runs until this is dropped.
pub(crate) struct RunningCopy<'a> {
    of: &'a RunningCopies,
    folder: &'a Folder,
    name: String,
    _any: RwLockReadGuard<'a, ()>,
}

impl RunningCopies {
    /// Begins the copy of a table and keeps its name in the folder.
    ///
    /// # Errors
    /// The table is being copied already, or none may be copied now; code 8 for disk errors.
    pub(crate) fn begin<'a>(&'a self, folder: &'a Folder, name: &str) -> Result<RunningCopy<'a>, Failure> {
        let (given, name) = (name.to_owned(), quoted(name));
        let Ok(any) = self.any.try_read() else {
            return Err(Failure::error("no table can be copied at this moment; try again"));
        };
        let mut running = self.lock();
        if running.contains_key(&name) {
            return Err(Failure::error(format!("this replica is copying {given} already")));
        }
        running.insert(name.clone(), (given.clone(), given));
        drop(running);
        let copy = RunningCopy { of: self, folder, name, _any: any };
        self.mark(folder).map(|()| copy)
    }

    /// Keeps the names in the folder.
    fn mark(&self, folder: &Folder) -> Result<(), Failure> {
        let _alone = self.marking.lock().unwrap_or_else(PoisonError::into_inner);
        let names: String = self.lock().values().map(|(given, _)| observe::one_line(given) + "\n").collect();
        mark(folder, &names)
    }

    /// Keeps copies from beginning, as long as the answer is kept; None if one runs.
    pub(crate) fn none(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        self.any.try_write().ok()
    }

    /// Progress of those that run; empty if none does.
    pub(crate) fn progress(&self) -> String {
        self.lock().values().map(|(_, progress)| progress.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Waits until no other copy holds replay.
    pub(crate) fn switching(&self) -> MutexGuard<'_, ()> {
        self.switching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningCopy<'_> {
    pub(crate) fn says(&self, text: &str) {
        if let Some((given, progress)) = self.of.lock().get_mut(&self.name) {
            *progress = format!("{given}: {text}");
        }
    }
}

impl Drop for RunningCopy<'_> {
    fn drop(&mut self) {
        self.of.lock().remove(&self.name);
        if let Err(failure) = self.of.mark(self.folder) {
            log::write(Code::TableCopyFailed, "Copy", &failure.text);
        }
    }
}

/// The name as `` `db`.`table` ``.
fn quoted(name: &str) -> String {
    match TableFilter::parse(&[name]).tables.as_slice() {
        [(Some(db), table)] => format!("`{db}`.`{table}`"),
        _ => name.to_owned(),
    }
}

fn mark(folder: &Folder, names: &str) -> Result<(), Failure> {
    let path = folder.path().join(MARK);
    if !names.is_empty() {
        return write_atomically(&path, names.as_bytes());
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::io(path.display(), &error)),
        _ => folder.sync(),
    }
}

/// Logs which copies the previous process left unfinished.
///
/// # Errors
/// Code 8 for disk errors.
pub(crate) fn note_abandoned(folder: &Folder) -> Result<(), Failure> {
    let Some(tables) = read_small(&folder.path().join(MARK))? else { return Ok(()) };
    for table in tables.lines() {
        let text = format!(
            "the copy of {table} did not finish; the table is unchanged. To copy it again: \
             slipstream copy --data {} '{table}'",
            folder.path().display()
        );
        log::write(Code::TableCopyAbandoned, "Copy", &text);
    }
    mark(folder, "")
}
