//! State shared by the writer, the sync thread and the readers: the list of files with their written, whole and synced
//! lengths, the chunks still in memory, and the failure that poisoned the log.
//!
//! There is one lock, taken once per append (a batch of events), once or twice per chunk read, and twice per sync.
//!
//! Invariants: `synced` ≤ `written` and `committed` ≤ `len` in every file; a reader never gets bytes after `committed`;
//! a truncation lowers lengths and `synced` here before it truncates the file.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LockResult, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base::limits::READ_CHUNK_BYTES;
use base::{BufferPool, CountedCondvar, GtidSet};
use observe::LagByPart;

use crate::backup::LogPart;
use crate::disk::RelayFs;
use crate::hot::Hot;
use crate::names::{file_name, write_index};
use crate::readers::Readers;
use crate::recover::KeptFile;
use crate::state::StateFile;
use crate::{Chunk, MAGIC, OnDamage, RelayError, RelayOptions, RelayPosition, SyncPolicy};

/// Number of spare buffers kept, and the largest size of one.
const SPARE_BUFFERS: usize = 32;
const SPARE_BYTES_MAX: usize = 2 * READ_CHUNK_BYTES;
/// While more bytes are at hand, a waiting reader is woken only for at least this many bytes.
const WAKE_BYTES: usize = 3 << 20;
const _: () = assert!(SPARE_BYTES_MAX >= READ_CHUNK_BYTES, "the buffer of a read is kept for the next one");

/// State of one file.
#[derive(Clone, Debug)]
pub(crate) struct FileEntry {
    pub number: u64,
    pub name: Arc<str>,
    /// Length in bytes, as written so far.
    pub len: u64,
    /// End of the last whole transaction, or of a control event after it.
    pub committed: u64,
    /// End of the last whole transaction; 0 if there is none.
    pub transactions_end: u64,
    /// True if it may have transactions without a GTID.
    pub anonymous: bool,
    /// GTIDs retrieved before this file.
    pub previous: Arc<GtidSet>,
}

impl FileEntry {
    pub(crate) fn new(number: u64, previous: Arc<GtidSet>) -> FileEntry {
        FileEntry {
            number,
            name: file_name(number).into(),
            len: 0,
            committed: 0,
            transactions_end: 0,
            anonymous: false,
            previous,
        }
    }

    pub(crate) fn kept(file: &KeptFile) -> FileEntry {
        FileEntry {
            len: file.len,
            committed: file.len,
            transactions_end: file.transactions_end,
            anonymous: file.anonymous,
            ..FileEntry::new(file.number, Arc::clone(&file.previous))
        }
    }

    /// Offset up to which a reader may read: whole transactions only, whatever their size. Lanes cannot undo a
    /// truncated transaction (invariant 3), so slices are only cut from a transaction that is complete in the file.
    pub(crate) fn visible(&self) -> u64 {
        self.committed
    }
}

/// What the written bytes end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkEnd {
    Open,
    /// An event outside transactions, with no transaction before it in the same bytes.
    Control,
    /// The end of a transaction, or a control event after one.
    Transaction {
        /// True if no GTIDs were passed with it.
        anonymous: bool,
        /// Number of transactions; 1 if they have no GTIDs.
        count: u64,
    },
}

/// The writer's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It appends more bytes that are at hand, or calls [`RelayShared::wake_reader`]: a waiting reader is woken per
    /// [`WAKE_BYTES`] rather than per append.
    Append,
    /// None that it knows of.
    Wait,
}

/// State of the sync thread, so that the writer wakes it only when necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncThread {
    Busy,
    /// Waits for work without a time limit.
    Idle,
    /// Waits for the interval to end.
    Timed,
}

#[derive(Debug)]
pub(crate) struct SyncState {
    /// Files written since the last sync, in order; the last one is the current file.
    pub unsynced: Vec<(u64, Arc<File>)>,
    pub unsynced_bytes: u64,
    pub synced: RelayPosition,
    /// End of the last whole transaction before `synced`, in the same file.
    pub synced_whole: u64,
    /// Number of syncs done.
    pub syncs: u64,
    pub requested: bool,
    pub thread: SyncThread,
    /// True if the current file's events have no checksums. Then the state file must be written before a sync is
    /// announced, or acknowledged bytes would not be trusted after a crash.
    pub without_checksums: bool,
    /// True if the next sync must write the state file first, because a new file follows one without checksums. Until
    /// the state file names the new file, the end of the previous one, and so the new file, may not be trusted.
    pub state_owed: bool,
    /// True if the sync thread must end.
    pub stopping: bool,
}

impl SyncState {
    /// Everything up to a position is synced; the position is the end of a whole transaction.
    fn at(synced: RelayPosition) -> SyncState {
        SyncState {
            unsynced: Vec::new(),
            unsynced_bytes: 0,
            synced,
            synced_whole: synced.offset,
            syncs: 0,
            requested: false,
            thread: SyncThread::Busy,
            without_checksums: false,
            state_owed: false,
            stopping: false,
        }
    }

    /// Records that the log now ends at `to`, the end of a whole transaction.
    pub(crate) fn lower(&mut self, to: RelayPosition) {
        if self.synced > to {
            (self.synced, self.synced_whole) = (to, to.offset);
        }
    }
}

/// The writer's wait for space.
#[derive(Debug, Default)]
pub(crate) struct SpaceWait {
    /// Start of the wait.
    pub since: Option<Instant>,
    /// True if the writer must not wait any more.
    pub ended: bool,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub files: VecDeque<FileEntry>,
    pub sync: SyncState,
    pub hot: Hot,
    pub readers: Readers,
    pub space: SpaceWait,
    /// Number of truncations so far.
    pub truncations: u64,
    pub poison: Option<RelayError>,
    /// True if no more bytes will be added.
    pub closed: bool,
}

impl Shared {
    pub(crate) fn written(&self) -> RelayPosition {
        self.files
            .back()
            .map_or(RelayPosition::default(), |file| RelayPosition { file_number: file.number, offset: file.len })
    }

    /// End of the last whole transaction in the last file.
    pub(crate) fn whole(&self) -> u64 {
        self.files.back().map_or(0, |file| file.committed)
    }

    pub(crate) fn check(&self) -> Result<(), RelayError> {
        match &self.poison {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }

    /// The file numbers for the index.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.files.iter().map(|file| file.number).collect()
    }

    /// True if the bytes at a position were purged.
    pub(crate) fn is_gone(&self, position: RelayPosition) -> bool {
        self.files.front().is_some_and(|first| position.file_number < first.number)
    }

    /// Index in `files` of a file number.
    pub(crate) fn index_of(&self, number: u64) -> Option<usize> {
        let first = self.files.front()?.number;
        let index = usize::try_from(number.checked_sub(first)?).ok()?;
        (index < self.files.len()).then_some(index)
    }
}

/// The relay log as shared by its writer, its readers and its sync thread.
#[derive(Debug)]
pub struct RelayShared {
    pub(crate) dir: PathBuf,
    pub(crate) policy: SyncPolicy,
    pub(crate) hot_bytes_max: usize,
    /// Space limit in bytes; 0: none.
    pub(crate) space_limit_bytes: u64,
    pub(crate) on_damage: OnDamage,
    pub(crate) disk: RelayFs,
    /// Buffers for appended and read bytes.
    pub(crate) buffers: Arc<BufferPool>,
    /// When what is in the log arrived, and how long each part of the lag takes.
    lag_by_part: Arc<LagByPart>,
    state: Mutex<Shared>,
    /// Serialises changes of the index file. Locked before `state`.
    index: Mutex<()>,
    /// Locked before `state`, or alone.
    state_file: Mutex<Option<StateFile>>,
    /// Readers that wait for bytes.
    pub(crate) read_waiters: CountedCondvar,
    pub(crate) sync_condvar: Condvar,
    /// Threads that wait for a sync: to acknowledge, or to read on.
    pub(crate) synced_waiters: CountedCondvar,
    /// The writer waits here for a purge.
    pub(crate) space_condvar: Condvar,
    /// The next transaction begins a new file.
    rotation: AtomicBool,
}

/// Guard that blocks purges, see [`RelayShared::lock_index`].
pub(crate) type IndexLock<'a> = MutexGuard<'a, ()>;

fn unpoisoned<'a, T>(result: LockResult<MutexGuard<'a, T>>) -> MutexGuard<'a, T> {
    // A panic elsewhere leaves these values consistent: each is changed in one step.
    result.unwrap_or_else(PoisonError::into_inner)
}

impl RelayShared {
    pub(crate) fn new(
        options: &RelayOptions,
        disk: RelayFs,
        files: &[KeptFile],
        state_file: Option<StateFile>,
    ) -> RelayShared {
        let files: VecDeque<FileEntry> = files.iter().map(FileEntry::kept).collect();
        let mut shared = Shared {
            files,
            sync: SyncState::at(RelayPosition::default()),
            hot: Hot::default(),
            readers: Readers::default(),
            space: SpaceWait::default(),
            truncations: 0,
            poison: None,
            closed: state_file.is_none(),
        };
        shared.sync = SyncState::at(shared.written());
        RelayShared {
            dir: options.dir.clone(),
            policy: options.sync,
            hot_bytes_max: options.hot_bytes_max,
            space_limit_bytes: options.space_limit_bytes,
            on_damage: options.on_damage,
            disk,
            buffers: BufferPool::new(SPARE_BUFFERS, SPARE_BYTES_MAX),
            lag_by_part: Arc::default(),
            state: Mutex::new(shared),
            index: Mutex::new(()),
            state_file: Mutex::new(state_file),
            read_waiters: CountedCondvar::new(),
            sync_condvar: Condvar::new(),
            synced_waiters: CountedCondvar::new(),
            space_condvar: Condvar::new(),
            rotation: AtomicBool::new(false),
        }
    }

    /// The lag's parts, of transactions received since the log was opened. Replay adds its own.
    #[must_use]
    pub fn lag_by_part(&self) -> &Arc<LagByPart> {
        &self.lag_by_part
    }

    /// Notes that everything up to `position` is durable.
    pub(crate) fn note_synced(&self, position: RelayPosition) {
        if observe::WATCHES {
            self.lag_by_part.synced((position.file_number, position.offset), observe::steady_us());
        }
    }

    /// Lets the next transaction begin a new file (FLUSH RELAY LOGS), unless the last one has none yet.
    pub fn request_rotation(&self) {
        self.rotation.store(true, Ordering::Relaxed);
    }

    /// True if a new file is asked for and the last one has transactions; asked once.
    pub(crate) fn take_rotation(&self) -> bool {
        self.rotation.load(Ordering::Relaxed)
            && self.rotation.swap(false, Ordering::Relaxed)
            && self.last_holds_transactions()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Shared> {
        unpoisoned(self.state.lock())
    }

    pub(crate) fn lock_state_file(&self) -> MutexGuard<'_, Option<StateFile>> {
        unpoisoned(self.state_file.lock())
    }

    pub(crate) fn path(&self, number: u64) -> PathBuf {
        self.dir.join(file_name(number))
    }

    /// Makes every later call fail with this error, wakes all waiting threads, and returns the error.
    pub(crate) fn poison(&self, error: RelayError) -> RelayError {
        let mut state = self.lock();
        let error = state.poison.get_or_insert(error).clone();
        state.hot.clear();
        drop(state);
        self.wake_all();
        error
    }

    /// Wakes all readers, whichever event they wait for.
    pub(crate) fn wake_readers(&self, state: MutexGuard<'_, Shared>) {
        self.read_waiters.wake_all(state);
        self.synced_waiters.wake_all(self.lock());
    }

    pub(crate) fn wake_all(&self) {
        self.wake_readers(self.lock());
        self.sync_condvar.notify_all();
        self.space_condvar.notify_all();
    }

    /// Publishes bytes written to the last file; `chunk` is what readers get of them.
    pub(crate) fn publish(&self, chunk: Chunk, end: ChunkEnd, next: Next) {
        let mut state = self.lock();
        let len = chunk.data.len();
        let Some(file) = state.files.back_mut() else { unreachable!("bytes were written to no file") };
        // A gap or an overlap would be passed on as the source's bytes.
        assert_eq!((chunk.file_number, chunk.offset), (file.number, file.len.max(MAGIC.len() as u64)), "not the end");
        file.len = chunk.offset + len as u64;
        let committed = end != ChunkEnd::Open;
        if committed {
            file.committed = file.len;
        }
        if let ChunkEnd::Transaction { anonymous, count } = end {
            file.transactions_end = file.len;
            file.anonymous |= anonymous;
            if observe::WATCHES {
                self.lag_by_part.arrived((file.number, file.len), count, observe::steady_us());
            }
        }
        let visible = file.visible() > chunk.offset;
        state.sync.unsynced_bytes += len as u64;
        let is_hot = state.hot.bytes() + len <= self.hot_bytes_max && state.readers.memory_floor().is_some();
        if is_hot {
            state.hot.push(chunk);
        }
        let enough = !is_hot || state.hot.bytes() >= WAKE_BYTES.min(self.hot_bytes_max / 4);
        let wake_readers = visible && (next == Next::Wait || enough);
        let wake_sync = match (state.sync.thread, self.policy) {
            (SyncThread::Busy, _) | (_, SyncPolicy::Never) => false,
            (_, SyncPolicy::EveryTransaction) => committed,
            (SyncThread::Idle, SyncPolicy::Interval { .. }) => true,
            (SyncThread::Timed, SyncPolicy::Interval { bytes, .. }) => state.sync.unsynced_bytes >= bytes,
        };
        if wake_sync {
            state.sync.thread = SyncThread::Busy;
        }
        if wake_readers {
            self.read_waiters.wake_all(state);
        } else {
            drop(state);
        }
        if wake_sync {
            self.sync_condvar.notify_all();
        }
    }

    /// Wakes a waiting reader for bytes that were below [`WAKE_BYTES`].
    pub(crate) fn wake_reader(&self) {
        let state = self.lock();
        if !state.hot.is_empty() {
            self.read_waiters.wake_all(state);
        }
    }

    /// Publishes a new file whose header is written and which the index names.
    pub(crate) fn publish_file(
        &self,
        _index: &IndexLock<'_>,
        file: Arc<File>,
        previous: GtidSet,
        head: Chunk,
        without_checksums: bool,
    ) {
        let number = head.file_number;
        let mut state = self.lock();
        state.files.push_back(FileEntry::new(number, Arc::new(previous)));
        state.sync.unsynced.push((number, file));
        state.sync.state_owed |= without_checksums || state.sync.without_checksums;
        state.sync.without_checksums = without_checksums;
        drop(state);
        self.publish(head, ChunkEnd::Control, Next::Append);
    }

    /// Lowers all lengths to the end of the last whole transaction, before the file itself is truncated there.
    pub(crate) fn truncate_open(&self) -> Result<(), RelayError> {
        let mut state = self.lock();
        let Some(file) = state.files.back_mut() else { return Ok(()) };
        assert!(file.committed <= file.len, "{} is committed beyond its end", file.name);
        let gone_bytes = file.len - file.committed;
        file.len = file.committed;
        let to = RelayPosition { file_number: file.number, offset: file.committed };
        state.hot.truncate(to);
        state.sync.unsynced_bytes = state.sync.unsynced_bytes.saturating_sub(gone_bytes);
        state.sync.lower(to);
        state.truncations += 1;
        self.wake_readers(state);
        match self.lock_state_file().as_mut() {
            Some(state_file) => state_file.lower(to),
            None => Ok(()),
        }
    }

    /// Blocks purges while the lock is held.
    pub(crate) fn lock_index(&self) -> IndexLock<'_> {
        unpoisoned(self.index.lock())
    }

    /// Writes the index with one more file. The caller holds the lock until the file is published: a purge in between
    /// would write the index without it.
    pub(crate) fn add_to_index(&self, _index: &IndexLock<'_>, number: u64) -> Result<(), RelayError> {
        let mut numbers = self.lock().numbers();
        numbers.push(number);
        write_index(&self.disk, &self.dir, numbers.into_iter())
    }

    /// Total bytes of all files.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.lock().total_bytes()
    }

    /// GTIDs of everything before the first file: purged, or already in the store when the log was first opened.
    #[must_use]
    pub fn before_first_file(&self) -> GtidSet {
        self.lock().files.front().map(|file| GtidSet::clone(&file.previous)).unwrap_or_default()
    }

    /// Each file, with all that is written.
    #[must_use]
    pub fn parts(&self) -> Vec<LogPart> {
        let part = |file: &FileEntry| LogPart {
            number: file.number,
            name: file.name.to_string(),
            path: self.path(file.number),
            len: file.len,
        };
        self.lock().files.iter().map(part).collect()
    }

    /// Number and length in bytes of each file.
    #[must_use]
    pub fn files(&self) -> Vec<(u64, u64)> {
        self.lock().files.iter().map(|file| (file.number, file.len)).collect()
    }

    /// Bytes not yet given to the slowest reader of [`Memory::Kept`](crate::Memory::Kept); without such a reader those
    /// after `from`, up to which an earlier one has come; without that all bytes.
    #[must_use]
    pub fn unread_bytes(&self, from: Option<RelayPosition>) -> u64 {
        let state = self.lock();
        let at = state.readers.memory_floor().or(from).unwrap_or_default();
        let unread = |file: &FileEntry| match file.number.cmp(&at.file_number) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => file.len.saturating_sub(at.offset),
            std::cmp::Ordering::Greater => file.len,
        };
        state.files.iter().map(unread).sum()
    }
}
