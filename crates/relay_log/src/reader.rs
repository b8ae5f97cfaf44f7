//! Readers of the relay log, any number of them: each reads existing files from a start point, then new bytes.
//!
//! In: the shared state, the files. Out: chunks in log order, from memory if they are still there. Never here: parsed
//! events, bytes after the reader's limit or the last whole transaction, more than one chunk held.
//!
//! Purges wait for a reader as its [`Hold`] says. A reader that exceeded it fails with the name of the purged file.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::limits::READ_CHUNK_BYTES;
use base::{GtidSet, LogPosition, to_usize};

use crate::backup::LogHold;
use crate::disk::RelayFs;
use crate::hot::HotAt;
use crate::names::file_name;
use crate::readers::ReaderId;
use crate::recover::{Scan, StoreState, scan};
use crate::shared::{FileEntry, RelayShared, Shared};
use crate::start::{StartPoint, format_chunk};
use crate::{Chunk, MAGIC, OnDamage, Recovery, RelayError, RelayOptions, RelayPosition, SyncPolicy, TailItem};

/// How far a reader may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLimit {
    /// The end of the last whole transaction written.
    Visible,
    /// The end of the last whole transaction that is synced and so survives a power cut. Under [`SyncPolicy::Never`] it
    /// moves only with [`RelaySync::request_sync`](crate::RelaySync::request_sync).
    Synced,
    /// A position, which must be the end of a whole transaction. A reader that has reached it gets `Idle` at once.
    Position(RelayPosition),
}

/// How long purges wait for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// For the lifetime of the reader.
    Always,
    /// As long as both limits hold and the writer does not wait for space. Afterwards the next read may fail with
    /// [`RelayError::PlaceLost`].
    UpTo {
        /// Maximum distance of the reader from the end of the log, in bytes.
        bytes: u64,
        /// Maximum time since the last write to the file it reads.
        age: Duration,
    },
}

/// Whether received bytes are kept in memory for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Kept up to [`RelayOptions::hot_bytes_max`], until all readers of this kind have read them. A slow reader of this
    /// kind forces the others to read the files, so this is for readers that keep up.
    Kept,
    /// Not kept; the reader shares what is kept for others.
    Shared,
}

/// Options of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderOptions {
    /// How long purges wait for it.
    pub hold: Hold,
    /// Whether received bytes are kept in memory for it.
    pub memory: Memory,
    /// How far it reads, until [`RelayReader::set_limit`].
    pub limit: ReadLimit,
}

impl ReaderOptions {
    /// Options for replay: reads everything visible; nothing is purged before it is read.
    pub const REPLAY: ReaderOptions =
        ReaderOptions { hold: Hold::Always, memory: Memory::Kept, limit: ReadLimit::Visible };
    /// Options for a table copy beside replay: nothing is purged before it is read, nothing kept in memory for it.
    pub const TABLE_COPY: ReaderOptions =
        ReaderOptions { hold: Hold::Always, memory: Memory::Shared, limit: ReadLimit::Visible };

    /// Options for serving, backup or inspection: such a reader must not make the log grow without bound.
    #[must_use]
    pub fn limited(bytes: u64, age: Duration, limit: ReadLimit) -> ReaderOptions {
        ReaderOptions { hold: Hold::UpTo { bytes, age }, memory: Memory::Shared, limit }
    }
}

/// A reader of the relay log.
#[derive(Debug)]
pub struct RelayReader {
    shared: Arc<RelayShared>,
    id: ReaderId,
    limit: ReadLimit,
    position: RelayPosition,
    /// The file read last.
    file: Option<(u64, File)>,
    /// Returned first: the FORMAT_DESCRIPTION in force at the start point.
    format: Option<Chunk>,
}

/// Result of a look at the state under its lock.
enum Found {
    Item(TailItem),
    /// Range to read from the file, and the number of truncations of the log so far.
    Read {
        name: Arc<str>,
        len: usize,
        truncations: u64,
    },
}

impl RelayReader {
    /// Reads from the start of the first file.
    #[must_use]
    pub fn open(shared: Arc<RelayShared>, options: ReaderOptions) -> RelayReader {
        let file_number = shared.lock().files.front().map_or(0, |file| file.number);
        RelayReader::begin(shared, RelayPosition { file_number, offset: MAGIC.len() as u64 }, None, options)
    }

    /// Reads from a start point of this log. If it is inside a file, the first chunk is the FORMAT_DESCRIPTION event in
    /// force there, as if it came directly before.
    #[must_use]
    pub fn open_at(shared: Arc<RelayShared>, start: &StartPoint, options: ReaderOptions) -> RelayReader {
        RelayReader::begin(shared, first_byte(start), format_chunk(start), options)
    }

    /// Reads from the start of the last file that follows no transaction missing in `executed`. May return transactions
    /// that `executed` has.
    ///
    /// # Errors
    /// [`RelayError::Gap`] if the first file follows transactions that `executed` lacks.
    pub fn open_for(
        shared: Arc<RelayShared>,
        executed: &GtidSet,
        options: ReaderOptions,
    ) -> Result<RelayReader, RelayError> {
        let mut state = shared.lock();
        let file_number = match state.files.iter().rev().find(|file| file.previous.is_subset_of(executed)) {
            Some(file) => file.number,
            None => match state.files.front() {
                Some(first) => {
                    let (file, missing) = (first.name.to_string(), first.previous.subtract(executed));
                    return Err(RelayError::Gap { file, missing });
                }
                None => 0,
            },
        };
        let position = RelayPosition { file_number, offset: MAGIC.len() as u64 };
        let id = state.readers.add(position, options);
        drop(state);
        Ok(RelayReader { shared, id, limit: options.limit, position, file: None, format: None })
    }

    fn begin(
        shared: Arc<RelayShared>,
        position: RelayPosition,
        format: Option<Chunk>,
        options: ReaderOptions,
    ) -> RelayReader {
        let id = shared.lock().readers.add(position, options);
        RelayReader { shared, id, limit: options.limit, position, file: None, format }
    }

    /// Moves to a start point and reads from there as [`open_at`](Self::open_at) does.
    pub fn restart_at(&mut self, start: &StartPoint) {
        self.position = first_byte(start);
        self.format = format_chunk(start);
        self.shared.lock().readers.begin_at(self.id, self.position);
    }

    /// Sets how far the reader reads.
    pub fn set_limit(&mut self, limit: ReadLimit) {
        self.limit = limit;
    }

    /// Position of the next chunk.
    #[must_use]
    pub fn position(&self) -> RelayPosition {
        self.position
    }

    /// Returns the next item; waits up to `timeout` for it.
    ///
    /// # Errors
    /// The log is poisoned, reading fails, the file was purged, or the log was truncated before the reader's position.
    pub fn next(&mut self, timeout: Duration) -> Result<TailItem, RelayError> {
        if let Some(chunk) = self.format.take() {
            self.shared.lock().check()?;
            return Ok(TailItem::Chunk(chunk));
        }
        let deadline = Instant::now() + timeout;
        loop {
            let (name, len, truncations) = match self.find(deadline)? {
                Found::Item(item) => return Ok(item),
                Found::Read { name, len, truncations } => (name, len, truncations),
            };
            // Read without the lock; the count of truncations tells afterwards whether the bytes are still in the log.
            let read = self.read(len);
            let mut state = self.shared.lock();
            if state.truncations != truncations {
                continue; // the bytes may have been truncated while they were read
            }
            let data = match read {
                Ok(data) => data,
                // Purged after the look, before the read.
                Err(_) if state.is_gone(self.position) => return Err(self.place_lost()),
                Err(error) => return Err(error),
            };
            // The state says that these bytes are written, and the log was not truncated meanwhile.
            if data.len() < len {
                let end = self.position.offset + data.len() as u64;
                return Err(RelayError::corrupt(&name, end, "the file was cut off by someone else"));
            }
            let chunk = Chunk {
                file_number: self.position.file_number,
                file: name,
                offset: self.position.offset,
                data: self.shared.buffers.share(data),
                hot: false,
            };
            self.position.offset += chunk.data.len() as u64;
            state.readers.move_to(self.id, self.position);
            return Ok(TailItem::Chunk(chunk));
        }
    }

    /// Waits until there is an item or a range to read; `Idle` at the deadline.
    fn find(&mut self, deadline: Instant) -> Result<Found, RelayError> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        loop {
            state.check()?;
            if state.readers.is_truncated(self.id) {
                return Err(RelayError::Truncated);
            }
            if let Some(found) = self.look(&mut state)? {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Found::Item(TailItem::Idle));
            }
            let waiters = match self.limit {
                ReadLimit::Synced => &shared.synced_waiters,
                ReadLimit::Visible | ReadLimit::Position(_) => &shared.read_waiters,
            };
            state = waiters.wait_timeout(state, left);
        }
    }

    /// What the log holds at the reader's position; None if the reader must wait.
    fn look(&mut self, state: &mut Shared) -> Result<Option<Found>, RelayError> {
        // The reader was opened before the first file existed.
        if self.position.file_number == 0
            && let Some(first) = state.files.front()
        {
            let file_number = first.number;
            self.move_to(state, RelayPosition { file_number, offset: MAGIC.len() as u64 });
        }
        if matches!(self.limit, ReadLimit::Position(limit) if self.position >= limit) {
            return Ok(Some(Found::Item(TailItem::Idle)));
        }
        let Some(index) = state.index_of(self.position.file_number) else {
            if state.is_gone(self.position) {
                return Err(self.place_lost());
            }
            return Ok(state.closed.then_some(Found::Item(TailItem::Closed)));
        };
        let Some(file) = state.files.get(index).cloned() else { unreachable!("index_of looked it up") };
        let end = self.limit_in(&file, state);
        if self.position.offset < end {
            return Ok(Some(self.take(state, &file, end)));
        }
        if self.position.offset >= file.visible() && index + 1 < state.files.len() {
            let item = TailItem::EndOfFile { file_number: file.number, len: file.len };
            self.move_to(state, RelayPosition { file_number: file.number + 1, offset: MAGIC.len() as u64 });
            return Ok(Some(Found::Item(item)));
        }
        Ok(state.closed.then_some(Found::Item(TailItem::Closed)))
    }

    /// Offset up to which a file may be read.
    fn limit_in(&self, file: &FileEntry, state: &Shared) -> u64 {
        let limit = match self.limit {
            ReadLimit::Visible => return file.visible(),
            ReadLimit::Synced => RelayPosition { offset: state.sync.synced_whole, ..state.sync.synced },
            ReadLimit::Position(limit) => limit,
        };
        match file.number.cmp(&limit.file_number) {
            std::cmp::Ordering::Less => file.visible(),
            std::cmp::Ordering::Equal => file.visible().min(limit.offset),
            std::cmp::Ordering::Greater => 0,
        }
    }

    /// The chunk in memory at the position, or the range of the file to read up to the next such chunk.
    fn take(&mut self, state: &mut Shared, file: &FileEntry, end: u64) -> Found {
        let floor = state.readers.memory_floor_after(self.id);
        let end = match state.hot.take(self.position, floor, end) {
            HotAt::Chunk(chunk) => {
                let offset = chunk.offset + chunk.data.len() as u64;
                self.move_to(state, RelayPosition { offset, ..self.position });
                return Found::Item(TailItem::Chunk(chunk));
            }
            HotAt::Before(offset) => end.min(offset),
            HotAt::Nothing => end,
        };
        assert!(self.position.offset < end, "nothing to read, and nothing in memory");
        let len = to_usize(end - self.position.offset).min(READ_CHUNK_BYTES);
        Found::Read { name: Arc::clone(&file.name), len, truncations: state.truncations }
    }

    fn move_to(&mut self, state: &mut Shared, position: RelayPosition) {
        self.position = position;
        state.readers.move_to(self.id, position);
    }

    fn place_lost(&self) -> RelayError {
        RelayError::PlaceLost { file: file_name(self.position.file_number), offset: self.position.offset }
    }

    /// Reads `len` bytes of the file at the position; fewer if the file ends before.
    fn read(&mut self, len: usize) -> Result<Vec<u8>, RelayError> {
        let number = self.position.file_number;
        let path = self.shared.path(number);
        let file = match self.file.take() {
            Some((open, file)) if open == number => file,
            _ => match File::open(&path) {
                Ok(file) => file,
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    let file = file_name(number);
                    return Err(RelayError::Missing { file, named_by: "relay-bin.index" });
                }
                Err(e) => return Err(RelayError::io("open", &path, &e)),
            },
        };
        let mut data = self.shared.buffers.take(len);
        data.resize(len, 0);
        let mut filled = 0;
        while let Some(rest) = data.get_mut(filled..)
            && !rest.is_empty()
        {
            match file.read_at(rest, self.position.offset + filled as u64) {
                Ok(0) => break, // truncated meanwhile, or shorter than before
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(RelayError::io("read", &path, &e)),
            }
        }
        self.file = Some((number, file));
        data.truncate(filled);
        Ok(data)
    }
}

impl Drop for RelayReader {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.readers.remove(self.id);
        match state.readers.memory_floor() {
            Some(floor) => state.hot.release(floor),
            None => state.hot.clear(),
        }
    }
}

/// First byte of a reader: never before the first event.
fn first_byte(start: &StartPoint) -> RelayPosition {
    RelayPosition { offset: start.position.offset.max(MAGIC.len() as u64), ..start.position }
}

/// A relay log folder without a writer, opened read-only: the folder is not changed.
#[derive(Debug)]
pub struct RelayFiles {
    shared: Arc<RelayShared>,
}

impl RelayFiles {
    /// Scans the folder without a store; a torn tail is skipped, not truncated. The start point is the first file.
    ///
    /// # Errors
    /// As [`RelayLog::open`](crate::RelayLog::open).
    pub fn open_read_only(dir: impl Into<PathBuf>) -> Result<(RelayFiles, Recovery), RelayError> {
        let (files, scan) = RelayFiles::scan(dir.into(), StoreState::UNKNOWN)?;
        let mut start = StartPoint::default();
        if let Some((file_number, _)) = files.files().first() {
            start.position = RelayPosition { file_number: *file_number, offset: MAGIC.len() as u64 };
        }
        Ok((files, scan.recovery(start)))
    }

    /// As [`open_read_only`](Self::open_read_only), for a store that has `executed` and was at `resume_at`.
    ///
    /// # Errors
    /// As [`RelayLog::open`](crate::RelayLog::open) with [`OnDamage::Refuse`].
    pub fn open_read_only_for(
        dir: impl Into<PathBuf>,
        executed: &GtidSet,
        resume_at: Option<&LogPosition>,
    ) -> Result<(RelayFiles, Recovery), RelayError> {
        let held = StoreState {
            executed: Some(executed),
            resume_at: resume_at.and_then(RelayPosition::of),
            on_damage: OnDamage::Refuse,
        };
        let (files, scan) = RelayFiles::scan(dir.into(), held)?;
        let start = files.shared.start_point(executed, resume_at)?;
        Ok((files, scan.recovery(start)))
    }

    fn scan(dir: PathBuf, held: StoreState<'_>) -> Result<(RelayFiles, Scan), RelayError> {
        let scan = scan(&dir, held)?;
        let options = RelayOptions { sync: SyncPolicy::Never, hot_bytes_max: 0, ..RelayOptions::new(dir) };
        let shared = RelayShared::new(&options, RelayFs::default(), &scan.files, None);
        Ok((RelayFiles { shared: Arc::new(shared) }, scan))
    }

    /// A reader from the start of the first file to the last whole transaction; then `Closed`.
    #[must_use]
    pub fn reader(&self) -> RelayReader {
        RelayReader::open(Arc::clone(&self.shared), ReaderOptions::REPLAY)
    }

    /// As [`reader`](Self::reader), but from [`Recovery::start`].
    #[must_use]
    pub fn reader_at(&self, start: &StartPoint) -> RelayReader {
        RelayReader::open_at(Arc::clone(&self.shared), start, ReaderOptions::REPLAY)
    }

    /// Holds all files, for a backup, and says where the last whole transaction ends.
    #[must_use]
    pub fn hold(&self) -> (LogHold, RelayPosition) {
        let state = self.shared.lock();
        let end = RelayPosition { offset: state.whole(), ..state.written() };
        drop(state);
        (self.shared.hold(), end)
    }

    /// Verifies all checksums of one file, as [`RelayShared::check_file`].
    ///
    /// # Errors
    /// The operating system fails to read.
    pub fn check_file(&self, file_number: u64) -> Result<Option<String>, RelayError> {
        self.shared.check_file(file_number)
    }

    /// Total bytes of all files.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.shared.total_bytes()
    }

    /// Number and length in bytes of each file.
    #[must_use]
    pub fn files(&self) -> Vec<(u64, u64)> {
        self.shared.files()
    }
}
