//! Events of one file of a relay log, one at a time, as SHOW RELAYLOG EVENTS lists them.
//!
//! In: the file, where to begin. Out: each event's place, type and what it says, in MySQL's words; those inside a
//! compressed transaction follow it. Never here: rows; secrets of statements; an event held whole of which only the
//! head is shown, or one larger than the caller allows; a look at more than one event a step.

mod info;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use base::to_usize;
use binlog::{
    BinlogError, ChecksumAlgorithm, EventHeader, FormatDescription, ParsedEvent, PayloadEvents, PayloadHead,
    event_body, event_type, verify_checksum,
};

/// First event of a file, after its magic number.
const FIRST: u64 = 4;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes of a body that are enough for what is shown of rows and of blocks of files, and for the fields before a
/// payload.
const HEAD_BYTES: usize = 256;

/// A file that may be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFile {
    pub name: String,
    pub path: PathBuf,
    /// Bytes of it that count.
    pub bytes: u64,
}

/// An event, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEvent {
    /// Its place in the file; of one inside a compressed transaction, the end of that.
    pub position: u64,
    /// Name of its type.
    pub event_type: &'static str,
    /// The server that wrote it first.
    pub server_id: u32,
    /// Its end in the log that it came from.
    pub end_log_pos: u64,
    pub info: String,
}

/// What a step found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListStep {
    Event(ListedEvent),
    /// An event before the place where the list begins, or the end of a compressed transaction.
    Passed,
    /// No more whole events.
    End,
}

/// Why the list ends early.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The file cannot be read.
    #[error("{name}: {source}")]
    Io {
        name: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// What is there is no event.
    #[error("Error reading Log_event at position {position}: {reason}")]
    Damaged {
        /// Its place in the file.
        position: u64,
        reason: String,
    },
    /// An event is larger than the caller allows.
    #[error("the event at position {position} has {bytes} bytes")]
    TooLarge {
        /// Its place in the file.
        position: u64,
        bytes: u64,
    },
}

/// A list of a file's events.
pub struct EventList {
    file: Arc<File>,
    name: String,
    end: u64,
    /// The next event, and where the list begins.
    at: u64,
    from: u64,
    checksum: ChecksumAlgorithm,
    event_bytes_max: usize,
    inside: Option<Inside>,
    /// Bytes that were read, and the place of the first one.
    window: Vec<u8>,
    window_at: u64,
}

/// A compressed transaction whose events are being listed.
struct Inside {
    events: PayloadEvents<'static>,
    end: u64,
    end_log_pos: u64,
}

impl std::fmt::Debug for EventList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EventList({}:{})", self.name, self.at)
    }
}

impl EventList {
    /// A list of the events that begin at `from` or after it. Stays readable if the file is removed meanwhile.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(file: &ListedFile, from: u64, event_bytes_max: u64) -> io::Result<EventList> {
        Ok(EventList {
            file: Arc::new(File::open(&file.path)?),
            name: file.name.clone(),
            end: file.bytes,
            at: FIRST,
            from,
            checksum: ChecksumAlgorithm::Crc32,
            event_bytes_max: to_usize(event_bytes_max),
            inside: None,
            window: Vec::new(),
            window_at: 0,
        })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Looks at the next event.
    ///
    /// # Errors
    /// It cannot be read, is none, or is too large.
    pub fn step(&mut self) -> Result<ListStep, ListError> {
        if let Some(inside) = &mut self.inside {
            return match inside.next(self.event_bytes_max) {
                Ok(Some(event)) => Ok(ListStep::Event(event)),
                Ok(None) => {
                    self.inside = None;
                    Ok(ListStep::Passed)
                }
                Err(error) => Err(error),
            };
        }
        let position = self.at;
        let Some(head) = self.bytes(position, EventHeader::LEN)? else { return Ok(ListStep::End) };
        let header = EventHeader::parse(head).map_err(|error| damaged(position, &error))?;
        let len = u64::from(header.event_len);
        // The rest of it was not received yet.
        if position + len > self.end {
            return Ok(ListStep::End);
        }
        self.at = position + len;
        if position < self.from && header.event_type != event_type::FORMAT_DESCRIPTION {
            return Ok(ListStep::Passed);
        }
        let info = self.info(&header, position)?;
        if position < self.from {
            return Ok(ListStep::Passed);
        }
        Ok(ListStep::Event(listed(&header, position, u64::from(header.log_pos), info)))
    }

    /// What the event at a place says.
    fn info(&mut self, header: &EventHeader, position: u64) -> Result<String, ListError> {
        let failed = |error: BinlogError| damaged(position, &error);
        let len = header.event_len as usize;
        let checksum = self.checksum;
        if info::is_shown_by_head(header.event_type) {
            let body_len = len.saturating_sub(EventHeader::LEN + checksum.len());
            let head_len = EventHeader::LEN + body_len.min(HEAD_BYTES);
            let head = self.bytes(position, head_len)?.and_then(|event| event.get(EventHeader::LEN..));
            let head = head.unwrap_or_default();
            if header.event_type != event_type::TRANSACTION_PAYLOAD {
                return info::of_head(header, head, body_len).map_err(failed);
            }
            let payload = PayloadHead::parse(head).map_err(failed)?;
            self.enter(payload, header, position).map_err(failed)?;
            return Ok(info::of_payload(&payload));
        }
        if len > self.event_bytes_max {
            return Err(ListError::TooLarge { position, bytes: len as u64 });
        }
        let Some(event) = self.bytes(position, len)? else { return Ok(String::new()) };
        if header.event_type == event_type::FORMAT_DESCRIPTION {
            let format = FormatDescription::parse(event).map_err(failed)?;
            self.checksum = format.checksum;
            return Ok(format!("Server ver: {}, Binlog ver: 4", format.server_version));
        }
        if checksum == ChecksumAlgorithm::Crc32 && !verify_checksum(event) {
            return Err(failed(BinlogError::Checksum { event: header.name() }));
        }
        let body = event_body(event, checksum).map_err(failed)?;
        ParsedEvent::parse(header, body).map(|event| info::of(header, &event)).map_err(failed)
    }

    /// Goes on with the events of a payload.
    fn enter(&mut self, payload: PayloadHead, header: &EventHeader, position: u64) -> Result<(), BinlogError> {
        let start = position + (EventHeader::LEN + payload.len) as u64;
        let end = position + u64::from(header.event_len);
        let input = Part { file: Arc::clone(&self.file), at: start, end: end.min(start + payload.size as u64) };
        let events = payload.events(input, self.event_bytes_max)?;
        self.inside = Some(Inside { events, end, end_log_pos: u64::from(header.log_pos) });
        Ok(())
    }

    /// So many bytes of a place; None if the file ends before.
    fn bytes(&mut self, at: u64, len: usize) -> Result<Option<&[u8]>, ListError> {
        let covered = |window: &[u8], window_at: u64| {
            let start = at.checked_sub(window_at).map(to_usize)?;
            let end = start.checked_add(len)?;
            (end <= window.len()).then_some(start..end)
        };
        if covered(&self.window, self.window_at).is_none() {
            if at + len as u64 > self.end {
                return Ok(None);
            }
            let wanted = (len.max(READ_BYTES) as u64).min(self.end - at);
            self.window.clear();
            self.window.shrink_to(READ_BYTES);
            let mut part = Part { file: Arc::clone(&self.file), at, end: at + wanted };
            part.read_to_end(&mut self.window).map_err(|source| ListError::Io { name: self.name.clone(), source })?;
            self.window_at = at;
        }
        // Fewer than that: the log was cut back meanwhile.
        Ok(covered(&self.window, self.window_at).and_then(|range| self.window.get(range)))
    }
}

impl Inside {
    fn next(&mut self, event_bytes_max: usize) -> Result<Option<ListedEvent>, ListError> {
        let position = self.end;
        let failed = |error: BinlogError| match error {
            BinlogError::Value { field: "event length", value, .. } if value > event_bytes_max as u64 => {
                ListError::TooLarge { position, bytes: value }
            }
            error => damaged(position, &error),
        };
        let Some((header, event)) = self.events.next().map_err(failed)? else { return Ok(None) };
        let body = event.get(EventHeader::LEN..).unwrap_or_default();
        let info = match info::is_shown_by_head(header.event_type) {
            true => info::of_head(&header, body, body.len()),
            false => ParsedEvent::parse(&header, body).map(|event| info::of(&header, &event)),
        };
        Ok(Some(listed(&header, position, self.end_log_pos, info.map_err(failed)?)))
    }
}

fn listed(header: &EventHeader, position: u64, end_log_pos: u64, info: String) -> ListedEvent {
    let event_type = match header.event_type {
        // The one name that differs from the others.
        event_type::GTID_TAGGED => "Gtid_tagged_log_event",
        code => event_type::name(code),
    };
    ListedEvent { position, event_type, server_id: header.server_id, end_log_pos, info }
}

fn damaged(position: u64, error: &BinlogError) -> ListError {
    ListError::Damaged { position, reason: error.to_string() }
}

/// A part of a file, as a stream.
struct Part {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for Part {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = to_usize(self.end.saturating_sub(self.at));
        let wanted = out.len().min(left);
        let read = self.file.read_at(out.get_mut(..wanted).unwrap_or_default(), self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
