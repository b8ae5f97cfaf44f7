//! A log of files that grow: how far each may be read, who reads, and who waits for more.
//!
//! In: files and lengths from the one who writes them. Out: what a dump may read, wake-ups, facts. Never here: I/O;
//! bytes after the last whole transaction.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use base::GtidSet;

use crate::acks::Acks;

/// A file of the log.
#[derive(Clone, Debug)]
pub struct GrowingFile {
    pub name: String,
    /// GTIDs of all transactions before it.
    pub previous: Arc<GtidSet>,
    /// Bytes that may be read: up to the end of a whole transaction.
    pub bytes: u64,
    /// How often it was made again: each time under its name there is another file, with the same bytes.
    pub made: u64,
}

/// A replica that has registered, or asked for the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaLine {
    pub server_id: u32,
    /// Host that it reports; mostly empty.
    pub host: String,
    /// Port that it reports.
    pub port: u16,
    /// Its server_uuid, as text; empty if it did not say.
    pub server_uuid: String,
    /// GTIDs that it had when it asked for the log; None before.
    pub executed: Option<GtidSet>,
    /// Number of its dump, which grows with each one; 0 before.
    pub dump: u64,
    /// True if it acknowledges what it has (semi-synchronous).
    pub acknowledges: bool,
}

/// Called once, when the log has changed.
pub type OnChange = Box<dyn FnOnce() + Send>;

pub struct GrowingLog {
    dir: PathBuf,
    server_id: u32,
    /// True if replicas that can acknowledge are asked to.
    asks_for_acks: AtomicBool,
    state: Mutex<State>,
    /// Told when an acknowledgement arrives, or the log grows.
    pub(crate) acked: Condvar,
}

pub(crate) struct State {
    files: VecDeque<GrowingFile>,
    /// Number of the first of `files`, counted from the first file ever.
    first: u64,
    /// Files below this number were of a log before it began anew.
    anew: u64,
    /// GTIDs of all transactions in or before the files.
    executed: GtidSet,
    /// GTIDs of all transactions before the first file.
    purged: Arc<GtidSet>,
    version: u64,
    waiting: BTreeMap<u64, OnChange>,
    replicas: BTreeMap<u64, ReplicaLine>,
    /// Newest dump of each server_uuid.
    dumps: HashMap<String, u64>,
    /// Where each dump reads next: number of the file, and offset.
    reading: BTreeMap<u64, (u64, u64)>,
    pub(crate) acks: Acks,
    /// Tickets and dumps given so far.
    given: u64,
}

impl State {
    pub(crate) fn executed(&self) -> &GtidSet {
        &self.executed
    }

    /// Number of the last file, and its length.
    pub(crate) fn end(&self) -> Option<(u64, u64)> {
        let last = self.files.back()?;
        Some((self.first + self.files.len() as u64 - 1, last.bytes))
    }
}

/// What a dump may read of a file.
pub(crate) struct Readable {
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    /// See [`GrowingFile::made`].
    pub made: u64,
    /// True if another file follows.
    pub complete: bool,
}

/// A replica's place in the list, until dropped.
pub struct Listed {
    log: Arc<GrowingLog>,
    ticket: u64,
}

impl std::fmt::Debug for Listed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Listed").field(&self.ticket).finish()
    }
}

impl Listed {
    /// Changes what is listed.
    pub fn change(&self, change: impl FnOnce(&mut ReplicaLine)) {
        if let Some(line) = self.log.lock().replicas.get_mut(&self.ticket) {
            change(line);
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.log.lock().replicas.remove(&self.ticket);
    }
}

impl std::fmt::Debug for GrowingLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrowingLog").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl GrowingLog {
    /// A log with these complete files; `purged` are the GTIDs before the first file there is, or will be, and
    /// `executed` those of all files.
    #[must_use]
    pub fn new(
        dir: &Path,
        server_id: u32,
        files: Vec<GrowingFile>,
        first: u64,
        purged: GtidSet,
        executed: GtidSet,
    ) -> Arc<GrowingLog> {
        let purged = files.first().map_or_else(|| Arc::new(purged), |file| Arc::clone(&file.previous));
        Arc::new(GrowingLog {
            dir: dir.to_owned(),
            server_id,
            asks_for_acks: AtomicBool::new(false),
            acked: Condvar::new(),
            state: Mutex::new(State {
                files: files.into(),
                first,
                anew: 0,
                executed,
                purged,
                version: 0,
                waiting: BTreeMap::new(),
                replicas: BTreeMap::new(),
                dumps: HashMap::new(),
                reading: BTreeMap::new(),
                acks: Acks::default(),
                given: 0,
            }),
        })
    }

    /// Asks replicas that can acknowledge to do so, from now on.
    pub fn ask_for_acks(&self) {
        self.asks_for_acks.store(true, Ordering::Release);
    }

    /// True if replicas that can acknowledge are asked to.
    #[must_use]
    pub fn asks_for_acks(&self) -> bool {
        self.asks_for_acks.load(Ordering::Acquire)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.version += 1;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_values().for_each(|wake| wake());
    }

    /// A file begins; the one before it is complete. A last file of the same name is made again.
    pub fn begins(&self, name: String, previous: GtidSet) {
        self.change(|state| {
            let made = match state.files.back() {
                Some(last) if last.name == name => state.files.pop_back().map_or(0, |last| last.made + 1),
                _ => 0,
            };
            state.executed.clone_from(&previous);
            let previous = Arc::new(previous);
            if state.files.is_empty() {
                state.purged = Arc::clone(&previous);
            }
            state.files.push_back(GrowingFile { name, previous, bytes: 0, made });
        });
    }

    /// The last file may be read up to here, and its transactions so far are all of `executed`.
    pub fn grows(&self, bytes: u64, executed: &GtidSet) {
        self.change(|state| {
            if let Some(last) = state.files.back_mut() {
                last.bytes = bytes;
            }
            state.executed.clone_from(executed);
        });
        self.acked.notify_all();
    }

    /// The oldest file is gone. The last one stays.
    pub fn purges_oldest(&self) {
        self.change(|state| {
            if state.files.len() > 1 {
                state.files.pop_front();
                state.first += 1;
            }
            if let Some(file) = state.files.front() {
                state.purged = Arc::clone(&file.previous);
            }
        });
    }

    /// All files are gone, and the next one begins after `purged`. Dumps are closed, so that replicas ask again.
    pub fn begins_anew(&self, purged: GtidSet) {
        self.change(|state| {
            // Never a number that a dump reads or waits for.
            state.first += state.files.len() as u64 + 1;
            state.anew = state.first;
            state.files.clear();
            state.executed.clone_from(&purged);
            state.purged = Arc::new(purged);
        });
    }

    /// True if a dump reads the oldest file.
    #[must_use]
    pub fn oldest_is_read(&self) -> bool {
        let state = self.lock();
        state.reading.values().any(|(file, _)| *file <= state.first)
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lock().files.iter().map(|file| file.bytes).sum()
    }

    /// Server id of events that no source wrote.
    #[must_use]
    pub fn server_id(&self) -> u32 {
        self.server_id
    }

    /// GTIDs of all transactions served, now or once.
    #[must_use]
    pub fn executed(&self) -> GtidSet {
        self.lock().executed.clone()
    }

    /// True if all of `set` is served.
    #[must_use]
    pub fn has(&self, set: &GtidSet) -> bool {
        set.is_subset_of(&self.lock().executed)
    }

    /// GTIDs that can no longer be served.
    #[must_use]
    pub fn purged(&self) -> GtidSet {
        GtidSet::clone(&self.lock().purged)
    }

    /// Name and length in bytes of each file.
    #[must_use]
    pub fn files(&self) -> Vec<(String, u64)> {
        self.lock().files.iter().map(|file| (file.name.clone(), file.bytes)).collect()
    }

    /// Name of each file, and the GTIDs in it.
    #[must_use]
    pub fn file_sets(&self) -> Vec<(String, GtidSet)> {
        let state = self.lock();
        let ends = state.files.iter().skip(1).map(|next| &*next.previous).chain([&state.executed]);
        state.files.iter().zip(ends).map(|(file, end)| (file.name.clone(), end.subtract(&file.previous))).collect()
    }

    /// GTIDs of the oldest file; empty if there is none.
    #[must_use]
    pub fn oldest_set(&self) -> GtidSet {
        let state = self.lock();
        let end = state.files.get(1).map_or(&state.executed, |next| &next.previous);
        state.files.front().map(|file| end.subtract(&file.previous)).unwrap_or_default()
    }

    /// The replicas that are connected.
    #[must_use]
    pub fn replicas(&self) -> Vec<ReplicaLine> {
        self.lock().replicas.values().cloned().collect()
    }

    /// Bytes of the log that a dump has not read yet; None of one that has ended.
    #[must_use]
    pub fn unread_bytes(&self, dump: u64) -> Option<u64> {
        let state = self.lock();
        let (file, offset) = *state.reading.get(&dump)?;
        let numbered = (state.first..).zip(&state.files).filter(|(number, _)| *number >= file);
        let bytes =
            numbered.map(|(number, of)| if number == file { of.bytes.saturating_sub(offset) } else { of.bytes });
        Some(bytes.sum())
    }

    #[must_use]
    pub fn list(self: &Arc<Self>, line: ReplicaLine) -> Listed {
        let mut state = self.lock();
        state.given += 1;
        let ticket = state.given;
        state.replicas.insert(ticket, line);
        Listed { log: Arc::clone(self), ticket }
    }

    /// Number of changes so far.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// Calls `wake` at the next change after version `seen`; None if there was one. The ticket takes it back.
    pub fn when_changed(&self, seen: u64, wake: OnChange) -> Option<u64> {
        let mut state = self.lock();
        if state.version != seen {
            return None;
        }
        state.given += 1;
        let ticket = state.given;
        state.waiting.insert(ticket, wake);
        Some(ticket)
    }

    /// Takes back a wait. Its wake-up is dropped.
    pub fn forget(&self, ticket: u64) {
        let gone = self.lock().waiting.remove(&ticket);
        drop(gone);
    }

    /// Notes that a dump of this server begins: an older one of the same server ends.
    pub(crate) fn dump_begins(&self, server_uuid: &str) -> u64 {
        let mut number = 0;
        self.change(|state| {
            state.given += 1;
            number = state.given;
            if !server_uuid.is_empty() {
                state.dumps.insert(server_uuid.to_owned(), number);
            }
        });
        number
    }

    /// True if a newer dump of the same server has begun.
    pub(crate) fn is_replaced(&self, server_uuid: &str, dump: u64) -> bool {
        self.lock().dumps.get(server_uuid).is_some_and(|newest| *newest != dump)
    }

    /// Notes where a dump reads next.
    pub(crate) fn dump_reads(&self, dump: u64, file: u64, offset: u64) {
        self.lock().reading.insert(dump, (file, offset));
    }

    /// A dump has ended.
    pub(crate) fn dump_ended(&self, server_uuid: &str, dump: u64) {
        let mut state = self.lock();
        state.reading.remove(&dump);
        state.acks.forget(dump);
        if state.dumps.get(server_uuid) == Some(&dump) {
            state.dumps.remove(server_uuid);
        }
    }

    /// Number of the newest file that follows only transactions of `executed`; None if there is none yet.
    ///
    /// # Errors
    /// What is purged and not in `executed`.
    pub(crate) fn first_file(&self, executed: &GtidSet) -> Result<Option<u64>, GtidSet> {
        let state = self.lock();
        let missing = state.purged.subtract(executed);
        if !missing.is_empty() {
            return Err(missing);
        }
        let found = state.files.iter().rposition(|file| file.previous.is_subset_of(executed));
        Ok(found.map(|at| state.first + at as u64))
    }

    /// Number of the file of this name; an empty name is that of the first file.
    pub(crate) fn file_named(&self, name: &str) -> Option<u64> {
        let state = self.lock();
        let found = state.files.iter().position(|file| name.is_empty() || file.name == name);
        found.map(|at| state.first + at as u64)
    }

    /// Number that the first file has or will have.
    pub(crate) fn first_number(&self) -> u64 {
        self.lock().first
    }

    /// What may be read of a file; None if it has not begun.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) fn readable(&self, number: u64) -> Result<Option<Readable>, Gone> {
        let state = self.lock();
        let at = number.checked_sub(state.first).ok_or(Gone { anew: number < state.anew })?;
        let Some(file) = usize::try_from(at).ok().and_then(|at| state.files.get(at)) else { return Ok(None) };
        let complete = at + 1 < state.files.len() as u64;
        let path = self.dir.join(&file.name);
        Ok(Some(Readable { name: file.name.clone(), path, bytes: file.bytes, made: file.made, complete }))
    }
}

/// A file is no longer there.
#[derive(Debug)]
pub(crate) struct Gone {
    /// True if the log began anew after it.
    pub anew: bool,
}
