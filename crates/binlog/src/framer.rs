//! Cuts a stream of bytes into whole events. The buffer grows with what has arrived, never with what a header claims.

use std::io::Read;

use base::limits::{EVENT_LEN_MAX, READ_CHUNK_BYTES};

use crate::{BinlogError, EventHeader};

/// A buffer that grew for a large event is given back when it is this much larger than the next one needs.
const SHRINK_FACTOR: usize = 8;

/// Bytes read but not yet handed out are `buffer[start..end]`; `buffer` beyond `end` is scratch.
#[derive(Debug)]
pub(crate) struct Framer<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl<R: Read> Framer<R> {
    pub(crate) fn new(input: R) -> Framer<R> {
        Framer { input, buffer: Vec::new(), start: 0, end: 0 }
    }

    pub(crate) fn input(&mut self) -> &mut R {
        &mut self.input
    }

    /// Forgets what was read ahead, after the input was moved elsewhere.
    pub(crate) fn forget(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    fn buffered(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads until `len` bytes are buffered or the input ends; gives what there is, at most `len`. At the end of
    /// the input nothing is lost: the next call tries to read on.
    pub(crate) fn peek(&mut self, len: usize) -> Result<&[u8], BinlogError> {
        while self.end - self.start < len {
            self.make_room(len);
            let Some(room) = self.buffer.get_mut(self.end..) else {
                break;
            };
            match self.input.read(room) {
                Ok(0) => break,
                Ok(read) => self.end = (self.end + read).min(self.buffer.len()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(BinlogError::Io(error)),
            }
        }
        let buffered = self.buffered();
        Ok(buffered.get(..len).unwrap_or(buffered))
    }

    /// Room for at least one more byte, with `len` bytes wanted in all.
    fn make_room(&mut self, len: usize) {
        let have = self.end - self.start;
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.start = 0;
            self.end = have;
        }
        let wanted = len.min(have.saturating_mul(2)).max(READ_CHUNK_BYTES);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        } else if self.buffer.len() / SHRINK_FACTOR > wanted {
            self.buffer.truncate(wanted);
            self.buffer.shrink_to_fit();
        }
    }

    /// Drops the first `len` buffered bytes.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start = (self.start + len).min(self.end);
    }

    /// The header of the next event and the event itself, which stays buffered until [`Framer::consume`]. `None` at
    /// the end of the input; [`BinlogError::Truncated`] when it ends inside the event.
    pub(crate) fn peek_event(&mut self) -> Result<Option<(EventHeader, &[u8])>, BinlogError> {
        let head = self.peek(EventHeader::LEN)?;
        if head.is_empty() {
            return Ok(None);
        }
        if head.len() < EventHeader::LEN {
            return Err(BinlogError::Truncated { need: EventHeader::LEN as u64, have: head.len() as u64 });
        }
        let header = EventHeader::parse(head)?;
        let len = header.event_len as usize;
        if len > EVENT_LEN_MAX {
            let value = u64::from(header.event_len);
            return Err(BinlogError::Value { event: header.name(), field: "event length", value });
        }
        let event = self.peek(len)?;
        if event.len() < len {
            return Err(BinlogError::Truncated { need: len as u64, have: event.len() as u64 });
        }
        Ok(Some((header, event)))
    }
}
