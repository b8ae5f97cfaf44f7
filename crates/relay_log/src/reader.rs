//! Readers: any number, each from the first file or a start point on, first what is on disk, then what arrives.
//!
//! In: the shared state, the files. Out: chunks in the order of the log, from memory where they still are there.
//! Never here: an event looked into, a byte beyond the reader's limit or the last whole transaction, more than one
//! chunk held.
//!
//! Purges wait for readers as each one's [`Hold`] says. One that exceeded it finds its file gone and is told which.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::limits::READ_CHUNK_BYTES;
use base::{GtidSet, LogPosition, to_usize};

use crate::disk::Disk;
use crate::hot::HotAt;
use crate::names::file_name;
use crate::readers::ReaderId;
use crate::recover::{Held, Scan, scan};
use crate::shared::{FileEntry, RelayShared, Shared};
use crate::start::{StartPoint, format_chunk};
use crate::{Chunk, MAGIC, OnDamage, Recovery, RelayError, RelayOptions, RelayPosition, SyncPolicy, TailItem};

/// Up to where a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLimit {
    /// The end of the last whole transaction written.
    Visible,
    /// The end of the last whole transaction that is synced: what a power cut leaves. Under [`SyncPolicy::Never`] it
    /// moves with [`RelaySync::request_sync`](crate::RelaySync::request_sync) only.
    Synced,
    /// A place, which must be the end of a whole transaction. A reader that is there is told `Idle` at once.
    Position(RelayPosition),
}

/// How long purges wait for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// As long as it lives.
    Always,
    /// While all of this holds, and the writer does not wait for space. After that its next read may be
    /// [`RelayError::PlaceLost`].
    UpTo {
        /// The reader is at most so many bytes behind the end of the log.
        bytes: u64,
        /// The file it reads was last written to at most so long ago.
        age: Duration,
    },
}

/// Whether received bytes are kept in memory for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Up to [`RelayOptions::hot_bytes_max`], until all readers of this kind have them. A slow one of them makes the
    /// others read the files: for readers that keep up.
    Kept,
    /// No. It shares what is there for others.
    Shared,
}

/// What a reader asks of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderOptions {
    /// How long purges wait for it.
    pub hold: Hold,
    /// Whether received bytes are kept in memory for it.
    pub memory: Memory,
    /// Up to where it reads, until [`RelayReader::set_limit`].
    pub limit: ReadLimit,
}

impl ReaderOptions {
    /// Replay: all that is visible, nothing purged before it is read.
    pub const REPLAY: ReaderOptions =
        ReaderOptions { hold: Hold::Always, memory: Memory::Kept, limit: ReadLimit::Visible };
    /// A table copy beside replay: nothing purged before it is read, nothing kept in memory for it.
    pub const TABLE_COPY: ReaderOptions =
        ReaderOptions { hold: Hold::Always, memory: Memory::Shared, limit: ReadLimit::Visible };

    /// One that is served to others, backs up or inspects: it must not make the log grow without end.
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
    /// Comes first: the format in force where the reader begins.
    format: Option<Chunk>,
}

/// What the lock told.
enum Found {
    Item(TailItem),
    /// Bytes to read from the file, and how often the log had been truncated.
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

    /// Reads from a start point of this log on. Inside a file the first chunk is the FORMAT_DESCRIPTION event in
    /// force there, as if it stood right in front.
    #[must_use]
    pub fn open_at(shared: Arc<RelayShared>, start: &StartPoint, options: ReaderOptions) -> RelayReader {
        RelayReader::begin(shared, first_byte(start), format_chunk(start), options)
    }

    /// Reads from the start of the last file that follows nothing `executed` lacks. What `executed` has may come again.
    ///
    /// # Errors
    /// [`RelayError::Gap`] when the first file follows transactions that `executed` lacks.
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

    /// Goes to a start point, from which it reads as [`open_at`](Self::open_at) does.
    pub fn restart_at(&mut self, start: &StartPoint) {
        self.position = first_byte(start);
        self.format = format_chunk(start);
        self.shared.lock().readers.begin_at(self.id, self.position);
    }

    /// Changes up to where it reads.
    pub fn set_limit(&mut self, limit: ReadLimit) {
        self.limit = limit;
    }

    /// Where the next chunk begins.
    #[must_use]
    pub fn position(&self) -> RelayPosition {
        self.position
    }

    /// The next item; waits up to `timeout` for one.
    ///
    /// # Errors
    /// When the log is poisoned, reading fails, the file was purged under the reader, or the log was cut back to a
    /// place in front of it.
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
            let read = self.read(len);
            let mut state = self.shared.lock();
            if state.truncations != truncations {
                continue; // the bytes may have been cut off while they were read
            }
            let data = match read {
                Ok(data) => data,
                // Purged between the look and the read.
                Err(_) if state.is_gone(self.position) => return Err(self.place_lost()),
                Err(error) => return Err(error),
            };
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

    /// What there is at the reader's position; None when it has to wait.
    fn look(&mut self, state: &mut Shared) -> Result<Option<Found>, RelayError> {
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

    /// Up to where a file may be read.
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

    /// The chunk in memory that begins at the position, or how much to read from the file up to the next one there.
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
                Ok(0) => break, // cut off meanwhile, or shorter than it was
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

/// Where a reader begins: never in front of the first event.
fn first_byte(start: &StartPoint) -> RelayPosition {
    RelayPosition { offset: start.position.offset.max(MAGIC.len() as u64), ..start.position }
}

/// A relay log folder without a writer, read only: nothing in the folder is changed.
#[derive(Debug)]
pub struct RelayFiles {
    shared: Arc<RelayShared>,
}

impl RelayFiles {
    /// Scans the folder, knowing nothing of a store; a torn tail is left out, not cut. The start is the first file's.
    ///
    /// # Errors
    /// As [`RelayLog::open`](crate::RelayLog::open).
    pub fn open_read_only(dir: impl Into<PathBuf>) -> Result<(RelayFiles, Recovery), RelayError> {
        let (files, scan) = RelayFiles::scan(dir.into(), Held::UNKNOWN)?;
        let mut start = StartPoint::default();
        if let Some((file_number, _)) = files.files().first() {
            start.position = RelayPosition { file_number: *file_number, offset: MAGIC.len() as u64 };
        }
        Ok((files, scan.recovery(start)))
    }

    /// As [`open_read_only`](Self::open_read_only), for a store that holds `executed` and was at `resume_at` then.
    ///
    /// # Errors
    /// As [`RelayLog::open`](crate::RelayLog::open) with [`OnDamage::Refuse`].
    pub fn open_read_only_for(
        dir: impl Into<PathBuf>,
        executed: &GtidSet,
        resume_at: Option<&LogPosition>,
    ) -> Result<(RelayFiles, Recovery), RelayError> {
        let held = Held {
            executed: Some(executed),
            resume_at: resume_at.and_then(RelayPosition::of),
            on_damage: OnDamage::Refuse,
        };
        let (files, scan) = RelayFiles::scan(dir.into(), held)?;
        let start = files.shared.start_point(executed, resume_at)?;
        Ok((files, scan.recovery(start)))
    }

    fn scan(dir: PathBuf, held: Held<'_>) -> Result<(RelayFiles, Scan), RelayError> {
        let scan = scan(&dir, held)?;
        let options = RelayOptions { sync: SyncPolicy::Never, hot_bytes_max: 0, ..RelayOptions::new(dir) };
        let shared = RelayShared::new(&options, Disk::default(), &scan.files, None);
        Ok((RelayFiles { shared: Arc::new(shared) }, scan))
    }

    /// A reader from the start of the first file to the last whole transaction, then `Closed`.
    #[must_use]
    pub fn reader(&self) -> RelayReader {
        RelayReader::open(Arc::clone(&self.shared), ReaderOptions::REPLAY)
    }

    /// As [`reader`](Self::reader), from [`Recovery::start`] on.
    #[must_use]
    pub fn reader_at(&self, start: &StartPoint) -> RelayReader {
        RelayReader::open_at(Arc::clone(&self.shared), start, ReaderOptions::REPLAY)
    }

    /// Bytes in all files.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.shared.total_bytes()
    }

    /// Number and length of each file.
    #[must_use]
    pub fn files(&self) -> Vec<(u64, u64)> {
        self.shared.files()
    }
}
