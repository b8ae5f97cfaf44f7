//! A reader beside the one reader: for a table that is copied while replay goes on.
//!
//! In: the shared state, the files, how far the one reader's pieces are sequenced. Out: chunks up to there, from the
//! files. Never here: a byte behind that limit, which is the end of a whole transaction and can no longer be cut off;
//! memory kept for it. While it lives, no file from its position on is purged.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use base::limits::READ_CHUNK_BYTES;
use base::to_usize;

use crate::names::file_name;
use crate::shared::RelayShared;
use crate::start::{StartPoint, format_chunk};
use crate::{Chunk, MAGIC, RelayError, RelayPosition, TailItem};

/// See the module.
#[derive(Debug)]
pub struct SideReader {
    shared: Arc<RelayShared>,
    id: u64,
    position: RelayPosition,
    /// The file read last.
    file: Option<(u64, File)>,
    /// Comes first: the format in force where the reader begins.
    format: Option<Chunk>,
}

impl SideReader {
    /// A reader that stands in front of everything there is: nothing is purged from here on.
    #[must_use]
    pub fn hold(shared: Arc<RelayShared>) -> SideReader {
        let mut state = shared.lock();
        state.sides_opened += 1;
        let id = state.sides_opened;
        state.sides.insert(id, RelayPosition::default());
        drop(state);
        SideReader { shared, id, position: RelayPosition::default(), file: None, format: None }
    }

    /// Moves to a start point, from which it reads.
    pub fn begin(&mut self, start: &StartPoint) {
        let position = RelayPosition { offset: start.position.offset.max(MAGIC.len() as u64), ..start.position };
        self.format = format_chunk(start);
        self.move_to(position);
    }

    /// Where the next chunk begins.
    #[must_use]
    pub fn position(&self) -> RelayPosition {
        self.position
    }

    /// The next item in front of `limit`, which must be the end of a whole transaction that replay has sequenced;
    /// `Idle` when there is none.
    ///
    /// # Errors
    /// When the log is poisoned or reading fails.
    pub fn next(&mut self, limit: RelayPosition) -> Result<TailItem, RelayError> {
        if self.position >= limit {
            return Ok(TailItem::Idle);
        }
        if let Some(chunk) = self.format.take() {
            return Ok(TailItem::Chunk(chunk));
        }
        let state = self.shared.lock();
        state.check()?;
        let index = state.index_of(self.position.file_number);
        let Some(file) = index.and_then(|index| state.files.get(index)).cloned() else {
            return Err(RelayError::Purged { file_number: self.position.file_number });
        };
        drop(state);
        let here = self.position.file_number;
        let end = if here < limit.file_number { file.visible() } else { limit.offset };
        if self.position.offset >= end {
            let item = TailItem::EndOfFile { file_number: here, len: file.len };
            self.move_to(RelayPosition { file_number: here + 1, offset: MAGIC.len() as u64 });
            return Ok(item);
        }
        let data = self.read(to_usize(end - self.position.offset).min(READ_CHUNK_BYTES))?;
        let offset = self.position.offset;
        self.move_to(RelayPosition { offset: offset + data.len() as u64, ..self.position });
        Ok(TailItem::Chunk(Chunk {
            file_number: here,
            file: file.name,
            offset,
            data: Arc::new(data.into()),
            hot: false,
        }))
    }

    fn move_to(&mut self, position: RelayPosition) {
        self.position = position;
        self.shared.lock().sides.insert(self.id, position);
    }

    fn read(&mut self, len: usize) -> Result<Vec<u8>, RelayError> {
        let number = self.position.file_number;
        let path = self.shared.path(number);
        let file = match self.file.take() {
            Some((open, file)) if open == number => file,
            _ => File::open(&path).map_err(|e| RelayError::io("open", &path, &e))?,
        };
        let mut data = vec![0; len];
        match file.read_exact_at(&mut data, self.position.offset) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                let reason = "the file was cut off by someone else";
                return Err(RelayError::corrupt(&file_name(number), self.position.offset, reason));
            }
            Err(e) => return Err(RelayError::io("read", &path, &e)),
        }
        self.file = Some((number, file));
        Ok(data)
    }
}

impl Drop for SideReader {
    fn drop(&mut self) {
        self.shared.lock().sides.remove(&self.id);
    }
}
