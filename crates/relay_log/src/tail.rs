//! The one reader: from the first file or a start point on, first what is on disk, then what arrives.
//!
//! In: the shared state, the files. Out: chunks in the order of the log, from memory where they still are there.
//! Never here: an event looked into, a byte behind the last whole transaction (but for transactions above 16 MiB),
//! more than one chunk held.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::limits::READ_CHUNK_BYTES;
use base::{GtidSet, LogPosition, to_usize};

use crate::disk::Disk;
use crate::names::file_name;
use crate::recover::{Held, Survey, survey};
use crate::shared::{FileEntry, RelayShared, Shared};
use crate::start::{StartPoint, format_chunk};
use crate::{Chunk, MAGIC, OnDamage, Recovery, RelayError, RelayOptions, RelayPosition, SyncPolicy, TailItem};

/// The one reader.
#[derive(Debug)]
pub struct RelayTail {
    shared: Arc<RelayShared>,
    position: RelayPosition,
    /// The file read last.
    file: Option<(u64, File)>,
    /// Comes first: the format in force where the reader begins.
    format: Option<Chunk>,
    /// Which of the readers opened it is.
    id: u64,
}

/// What the lock told.
enum Found {
    Item(TailItem),
    /// Bytes to read from the file, and how many cuts had been.
    Read {
        name: Arc<str>,
        len: usize,
        cuts: u64,
    },
}

impl RelayTail {
    /// Reads from the start of the first file. A new reader takes the place of an old one.
    #[must_use]
    pub fn open(shared: Arc<RelayShared>) -> RelayTail {
        let file_number = shared.lock().files.front().map_or(0, |file| file.number);
        RelayTail::begin(shared, RelayPosition { file_number, offset: MAGIC.len() as u64 }, None)
    }

    /// Reads from a start point of this log on. Inside a file the first chunk is the FORMAT_DESCRIPTION event in
    /// force there, as if it stood right in front. A new reader takes the place of an old one.
    #[must_use]
    pub fn open_at(shared: Arc<RelayShared>, start: &StartPoint) -> RelayTail {
        let mut position = start.position;
        position.offset = position.offset.max(MAGIC.len() as u64);
        RelayTail::begin(shared, position, format_chunk(start))
    }

    fn begin(shared: Arc<RelayShared>, position: RelayPosition, format: Option<Chunk>) -> RelayTail {
        let mut state = shared.lock();
        state.tail = Some(position);
        state.tail_is_cut_off = false;
        state.tails_opened += 1;
        let id = state.tails_opened;
        state.hot.clear();
        state.hot_bytes = 0;
        drop(state);
        RelayTail { shared, position, file: None, format, id }
    }

    /// Where the next chunk begins.
    #[must_use]
    pub fn position(&self) -> RelayPosition {
        self.position
    }

    /// The next item; waits up to `timeout` for one.
    ///
    /// # Errors
    /// When the log is poisoned, reading fails, or the file was purged under the reader.
    pub fn next(&mut self, timeout: Duration) -> Result<TailItem, RelayError> {
        if let Some(chunk) = self.format.take() {
            self.shared.lock().check()?;
            return Ok(TailItem::Chunk(chunk));
        }
        let deadline = Instant::now() + timeout;
        loop {
            let (name, len, cuts) = match self.find(deadline)? {
                Found::Item(item) => return Ok(item),
                Found::Read { name, len, cuts } => (name, len, cuts),
            };
            let data = self.read(len)?;
            let mut state = self.shared.lock();
            if state.cuts != cuts || state.tails_opened != self.id {
                continue; // the bytes may have been cut off while they were read
            }
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
            state.tail = Some(self.position);
            return Ok(TailItem::Chunk(chunk));
        }
    }

    fn find(&mut self, deadline: Instant) -> Result<Found, RelayError> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        loop {
            state.check()?;
            if state.tails_opened != self.id {
                return Err(RelayError::Misuse("another reader took this one's place"));
            }
            if state.tail_is_cut_off {
                return Err(RelayError::CutOff);
            }
            if let Some(found) = self.look(&mut state)? {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Found::Item(TailItem::Idle));
            }
            state = shared.tail_waiters.wait_timeout(state, left);
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
        let Some(index) = state.index_of(self.position.file_number) else {
            if state.files.front().is_some_and(|first| first.number > self.position.file_number) {
                return Err(RelayError::Purged { file_number: self.position.file_number });
            }
            return Ok(state.closed.then_some(Found::Item(TailItem::Closed)));
        };
        let Some(file) = state.files.get(index).cloned() else { unreachable!("index_of looked it up") };
        if self.position.offset < file.visible() {
            return Ok(Some(self.take(state, &file)));
        }
        if index + 1 < state.files.len() {
            let item = TailItem::EndOfFile { file_number: file.number, len: file.len };
            self.move_to(state, RelayPosition { file_number: file.number + 1, offset: MAGIC.len() as u64 });
            return Ok(Some(Found::Item(item)));
        }
        Ok(state.closed.then_some(Found::Item(TailItem::Closed)))
    }

    /// The chunk in memory that begins at the position, or how much to read from the file up to the next one there.
    fn take(&mut self, state: &mut Shared, file: &FileEntry) -> Found {
        let at = (self.position.file_number, self.position.offset);
        while let Some(front) = state.hot.front()
            && (front.file_number, front.offset) < at
        {
            state.hot_bytes -= front.data.len();
            state.hot.pop_front();
        }
        let next_hot = state.hot.front().filter(|front| front.file_number == file.number).map(|front| front.offset);
        if next_hot == Some(self.position.offset)
            && let Some(chunk) = state.hot.pop_front()
        {
            state.hot_bytes -= chunk.data.len();
            let offset = chunk.offset + chunk.data.len() as u64;
            self.move_to(state, RelayPosition { offset, ..self.position });
            return Found::Item(TailItem::Chunk(chunk));
        }
        let end = next_hot.map_or(file.visible(), |offset| file.visible().min(offset));
        assert!(self.position.offset < end, "nothing to read, and nothing in memory");
        let len = to_usize(end - self.position.offset).min(READ_CHUNK_BYTES);
        Found::Read { name: Arc::clone(&file.name), len, cuts: state.cuts }
    }

    fn move_to(&mut self, state: &mut Shared, position: RelayPosition) {
        self.position = position;
        state.tail = Some(position);
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

impl Drop for RelayTail {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.tails_opened != self.id {
            return; // the place is another's
        }
        state.tail = None;
        state.hot.clear();
        state.hot_bytes = 0;
    }
}

/// A relay log folder without a writer, read only: nothing in the folder is changed.
#[derive(Debug)]
pub struct RelayFiles {
    shared: Arc<RelayShared>,
}

impl RelayFiles {
    /// Surveys the folder, knowing nothing of a store; a torn tail is left out, not cut. The start is the first file's.
    ///
    /// # Errors
    /// As [`RelayLog::open`](crate::RelayLog::open).
    pub fn open_read_only(dir: impl Into<PathBuf>) -> Result<(RelayFiles, Recovery), RelayError> {
        let (files, survey) = RelayFiles::survey(dir.into(), Held::UNKNOWN)?;
        let mut start = StartPoint::default();
        if let Some((file_number, _)) = files.files().first() {
            start.position = RelayPosition { file_number: *file_number, offset: MAGIC.len() as u64 };
        }
        Ok((files, survey.recovery(start)))
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
        let (files, survey) = RelayFiles::survey(dir.into(), held)?;
        let start = files.shared.start_point(executed, resume_at)?;
        Ok((files, survey.recovery(start)))
    }

    fn survey(dir: PathBuf, held: Held<'_>) -> Result<(RelayFiles, Survey), RelayError> {
        let survey = survey(&dir, held)?;
        let options = RelayOptions { sync: SyncPolicy::Never, hot_bytes_max: 0, ..RelayOptions::new(dir) };
        let shared = RelayShared::new(&options, Disk::default(), &survey.files, None);
        Ok((RelayFiles { shared: Arc::new(shared) }, survey))
    }

    /// A reader from the start of the first file to the last whole transaction, then `Closed`. One at a time.
    #[must_use]
    pub fn tail(&self) -> RelayTail {
        RelayTail::open(Arc::clone(&self.shared))
    }

    /// As [`tail`](Self::tail), from [`Recovery::start`] on.
    #[must_use]
    pub fn tail_at(&self, start: &StartPoint) -> RelayTail {
        RelayTail::open_at(Arc::clone(&self.shared), start)
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
