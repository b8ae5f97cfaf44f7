//! Cuts a stream of bytes into whole events. The buffer grows with bytes that have arrived, never with a header's
//! claim.

use std::io::Read;

use base::limits::{EVENT_LEN_MAX, READ_CHUNK_BYTES};

use crate::{BinlogError, EventHeader};

/// A buffer that grew for a large event is released once it is this many times what the next event needs.
const SHRINK_FACTOR: usize = 8;

/// Bytes read but not yet handed out are `buffer[start..end]`; the rest of `buffer` is scratch.
#[derive(Debug)]
pub(crate) struct Framer<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    event_len_max: usize,
}

impl<R: Read> Framer<R> {
    pub(crate) fn new(input: R) -> Framer<R> {
        Framer { input, buffer: Vec::new(), start: 0, end: 0, event_len_max: EVENT_LEN_MAX }
    }

    /// As it is, for events of at most this length.
    pub(crate) fn with_event_len_max(self, event_len_max: usize) -> Framer<R> {
        Framer { event_len_max: event_len_max.min(EVENT_LEN_MAX), ..self }
    }

    pub(crate) fn input(&mut self) -> &mut R {
        &mut self.input
    }

    /// Drops what was read ahead, after a seek of the input.
    pub(crate) fn forget(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    fn buffered(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads until `len` bytes are buffered or the input ends, and returns at most `len`. Nothing is lost at the end of
    /// the input: the next call tries to read further.
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

    /// Makes room for at least one more byte, towards a total of `len`.
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

    /// Returns the header of the next event and the event itself, which stays buffered until [`Framer::consume`].
    /// `None` at the end of the input; [`BinlogError::Truncated`] if it ends inside the event.
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
        if len > self.event_len_max {
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
