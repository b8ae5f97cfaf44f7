//! Walk over one relay file, header by header: the end of its whole transactions, their GTIDs, and any defect.
//!
//! In: a file and the offset from which to verify it. Out: a `FileWalk`. Never here: a change to the file, a decision
//! about damage (that is `recover`), an allocation larger than the file's bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use base::limits::{EVENT_LEN_MAX, READ_CHUNK_BYTES};
use base::{Gtid, GtidSet, LogPosition, to_usize};
use binlog::{ChecksumAlgorithm, EventHeader, PreviousGtids, Rotate, event_body, event_type, flags, verify_checksum};

use crate::boundary::{BoundaryTracker, Step};
use crate::names::file_name;
use crate::{MAGIC, RelayError};

/// Bytes that are not those that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Offset of the first byte of the bad event.
    pub offset: u64,
    pub reason: String,
    /// True if the file only ends too early: inside an event, or inside a transaction.
    pub torn: bool,
}

/// Content of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileWalk {
    /// Length of the file.
    pub len: u64,
    /// End of the last whole transaction or of a control event after it; 0 while our own file header is incomplete.
    pub boundary: u64,
    /// GTIDs retrieved before this file.
    pub previous: GtidSet,
    /// GTIDs of the whole transactions in the file.
    pub gtids: GtidSet,
    /// True if it has whole transactions without a GTID.
    pub anonymous: bool,
    /// End of the last whole transaction; 0 if there is none.
    pub transactions_end: u64,
    /// True if it ends with our ROTATE to the next file.
    pub closed: bool,
    /// Checksum algorithm of its events.
    pub checksum: ChecksumAlgorithm,
    /// Position in the source's log that corresponds to `boundary`.
    pub source_position: Option<LogPosition>,
    pub problem: Option<Problem>,
}

/// Offsets from which a file's bytes are verified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VerifyFrom {
    /// Events that end after this offset were not known to be durable: their checksums are verified, and an event
    /// without one is a problem.
    pub synced: u64,
    /// Events that end after this offset have their checksums verified if they have one.
    pub verify_from: u64,
}

impl VerifyFrom {
    /// Reads only headers and the events that say where transactions begin and end; those are verified.
    pub(crate) const TRUST: VerifyFrom = VerifyFrom { synced: u64::MAX, verify_from: u64::MAX };
}

/// Buffered reads at given offsets.
#[derive(Debug)]
struct Window<'a> {
    file: &'a File,
    path: &'a Path,
    bytes: Vec<u8>,
    start: u64,
    file_len: u64,
}

impl Window<'_> {
    /// The bytes at `offset`; the caller has checked that the file contains them.
    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8], RelayError> {
        let inside = offset.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        if let Some(at) = inside
            && at.checked_add(len).is_some_and(|end| end <= self.bytes.len())
        {
            return Ok(self.bytes.get(at..at + len).unwrap_or_default());
        }
        let left = usize::try_from(self.file_len.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.bytes.clear();
        self.bytes.resize(len.max(READ_CHUNK_BYTES).min(left), 0);
        self.file.read_exact_at(&mut self.bytes, offset).map_err(|e| RelayError::io("read", self.path, &e))?;
        self.start = offset;
        Ok(self.bytes.get(..len).unwrap_or_default())
    }
}

/// Steps through the events of a file up to `len`.
#[derive(Debug)]
pub(crate) struct EventCursor<'a> {
    window: Window<'a>,
    len: u64,
    checks: VerifyFrom,
    offset: u64,
    index: u64,
    tracker: BoundaryTracker,
}

/// One event and its role in its transaction.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub header: EventHeader,
    pub step: Step,
    pub offset: u64,
    pub end: u64,
    /// Number of events before it in the file.
    pub index: u64,
    /// The whole event if its body is parsed or verified, otherwise its header.
    pub event: &'a [u8],
    /// Checksum algorithm of the event.
    pub checksum: ChecksumAlgorithm,
    /// Checksum algorithm of the events after it.
    pub checksum_after: ChecksumAlgorithm,
    /// True if a transaction is open after it.
    pub in_transaction: bool,
    /// GTID of the transaction that it is part of or ends.
    pub gtid: Option<Gtid>,
}

impl<'a> EventCursor<'a> {
    /// Starts at the first event after the magic. `len` is where to stop, at most the file's length.
    pub(crate) fn new(file: &'a File, path: &'a Path, len: u64, checks: VerifyFrom) -> EventCursor<'a> {
        EventCursor {
            window: Window { file, path, bytes: Vec::new(), start: 0, file_len: len },
            len,
            checks,
            offset: MAGIC.len() as u64,
            index: 0,
            tracker: BoundaryTracker::new(ChecksumAlgorithm::None),
        }
    }

    fn check_magic(&mut self) -> Result<Option<Problem>, RelayError> {
        let have = to_usize(self.len).min(MAGIC.len());
        let found = self.window.get(0, have)?;
        if found == MAGIC {
            return Ok(None);
        }
        let torn = MAGIC.starts_with(found);
        let reason = if torn {
            "the file ends inside its first four bytes".into()
        } else {
            format!("not a relay log: {found:02x?}")
        };
        Ok(Some(Problem { offset: 0, reason, torn }))
    }

    /// Returns the next event; None at the end. After a problem the next call returns it again.
    pub(crate) fn next(&mut self) -> Result<Option<Result<Seen<'_>, Problem>>, RelayError> {
        let offset = self.offset;
        if offset >= self.len {
            return Ok(None);
        }
        let problem = |reason: String, torn: bool| Ok(Some(Err(Problem { offset, reason, torn })));
        let left = self.len - offset;
        if left < EventHeader::LEN as u64 {
            return problem("the file ends inside an event's header".into(), true);
        }
        let header = match EventHeader::parse(self.window.get(offset, EventHeader::LEN)?) {
            Ok(header) => header,
            Err(e) => return problem(e.to_string(), false),
        };
        let len = header.event_len as usize;
        if len > EVENT_LEN_MAX {
            return problem(format!("event of impossible length {len}"), false);
        }
        if len as u64 > left {
            return problem(format!("the file ends inside a {} event", header.name()), true);
        }
        let end = offset + len as u64;
        // Verify everything that is relied on: a transaction with a wrong GTID would be fetched again, or never; a
        // wrong end of a transaction turns its rest into one without a GTID.
        let believed = BoundaryTracker::needs_body(header.event_type)
            || matches!(header.event_type, event_type::ROTATE | event_type::XID | event_type::XA_PREPARE)
            || !self.tracker.in_transaction();
        let whole = believed || self.index < 2 || end > self.checks.synced.min(self.checks.verify_from);
        let event = self.window.get(offset, if whole { len } else { EventHeader::LEN })?;
        let checksum = self.tracker.checksum();
        let is_fde = header.event_type == event_type::FORMAT_DESCRIPTION; // `step_with` verifies it
        if whole && checksum == ChecksumAlgorithm::Crc32 && !is_fde && !verify_checksum(event) {
            return problem(format!("{} event fails its checksum", header.name()), false);
        }
        let step = match self.tracker.step_with(&header, event) {
            Ok(step) => step,
            Err(e) => return problem(e.to_string(), false),
        };
        let checksum_after = self.tracker.checksum();
        if is_fde && self.index > 0 && checksum_after != checksum {
            // All events of a file have the same algorithm. One flipped bit in the server version can make it a version
            // without checksums, and then nothing after it would be verified, this event included.
            return problem(format!("{} event announces another checksum than its file's", header.name()), false);
        }
        if checksum_after == ChecksumAlgorithm::None && end > self.checks.synced {
            let reason = "events without checksums that were not synced before an unclean stop are not trusted";
            return problem(reason.into(), false);
        }
        let index = self.index;
        (self.offset, self.index) = (end, index + 1);
        let (in_transaction, gtid) = (self.tracker.in_transaction(), self.tracker.gtid());
        Ok(Some(Ok(Seen { header, step, offset, end, index, event, checksum, checksum_after, in_transaction, gtid })))
    }
}

/// Reads a file to its end, or to `len_max`, and verifies as `checks` says.
pub(crate) fn walk_file(path: &Path, number: u64, checks: VerifyFrom, len_max: u64) -> Result<FileWalk, RelayError> {
    let file = File::open(path).map_err(|e| RelayError::io("open", path, &e))?;
    let file_len = file.metadata().map_err(|e| RelayError::io("stat", path, &e))?.len();
    let file_len = file_len.min(len_max);
    let mut cursor = EventCursor::new(&file, path, file_len, checks);
    let mut walk = FileWalk { len: file_len, ..FileWalk::default() };
    walk.problem = match cursor.check_magic()? {
        Some(problem) => Some(problem),
        None => walk_events(&mut cursor, number, &mut walk)?,
    };
    Ok(walk)
}

/// GTIDs retrieved before a file, from its header, which must be in the first `len` bytes.
pub(crate) fn read_previous(path: &Path, len: u64) -> Result<Result<GtidSet, Problem>, RelayError> {
    let file = File::open(path).map_err(|e| RelayError::io("open", path, &e))?;
    let mut cursor = EventCursor::new(&file, path, len, VerifyFrom::TRUST);
    let mut walk = FileWalk::default();
    while let Some(seen) = cursor.next()? {
        let seen = match seen {
            Ok(seen) => seen,
            Err(problem) => return Ok(Err(problem)),
        };
        if let Err(reason) = check_head(&seen, &mut walk) {
            return Ok(Err(Problem { offset: seen.offset, reason, torn: false }));
        }
        if seen.index == 1 {
            return Ok(Ok(walk.previous));
        }
    }
    Ok(Err(Problem { offset: len, reason: "the file ends inside its own head".into(), torn: true }))
}

fn walk_events(cursor: &mut EventCursor<'_>, number: u64, walk: &mut FileWalk) -> Result<Option<Problem>, RelayError> {
    let mut source = SourcePosition::default();
    let mut offset = MAGIC.len() as u64;
    let mut index = 0u64;
    let mut open = None;
    while let Some(seen) = cursor.next()? {
        let seen = match seen {
            Ok(seen) => seen,
            Err(problem) => return Ok(Some(problem)),
        };
        let problem = |reason: String| Ok(Some(Problem { offset: seen.offset, reason, torn: false }));
        if let Err(reason) = check_head(&seen, walk) {
            return problem(reason);
        }
        if seen.header.event_type == event_type::ROTATE {
            let rotate = match event_body(seen.event, seen.checksum).and_then(Rotate::parse) {
                Ok(rotate) => rotate,
                Err(e) => return problem(e.to_string()),
            };
            let name = String::from_utf8_lossy(rotate.file);
            let ours = seen.header.flags & flags::RELAY_LOG != 0;
            if !ours {
                source.rotate(&name, rotate.position);
            }
            // A file source may pass on the ROTATE of another relay log: only the very last event is ours.
            walk.closed = ours && seen.end == walk.len && name == file_name(number + 1);
        } else {
            source.event(&seen.header);
        }
        offset = seen.end;
        index = seen.index + 1;
        if seen.step.transaction_ends {
            match seen.gtid {
                Some(gtid) => walk.gtids.add(gtid),
                None => std::mem::replace(&mut walk.anonymous, true),
            };
            walk.transactions_end = offset;
        }
        open = seen.in_transaction.then_some(seen.gtid);
        if open.is_none() && index >= 2 {
            walk.boundary = offset;
            walk.checksum = seen.checksum_after;
            walk.source_position = source.get();
        }
    }
    let torn = |reason: String| Ok(Some(Problem { offset, reason, torn: true }));
    match open {
        _ if index < 2 => torn("the file ends inside its own head".into()),
        Some(Some(gtid)) => torn(format!("the file ends inside transaction {gtid}")),
        Some(None) => torn("the file ends inside a transaction".into()),
        None => Ok(None),
    }
}

/// Checks that the file begins with our FORMAT_DESCRIPTION and our PREVIOUS_GTIDS.
fn check_head(seen: &Seen<'_>, walk: &mut FileWalk) -> Result<(), String> {
    let expected = match seen.index {
        0 => event_type::FORMAT_DESCRIPTION,
        1 => event_type::PREVIOUS_GTIDS,
        _ => return Ok(()),
    };
    if seen.header.event_type != expected || seen.header.flags & flags::RELAY_LOG == 0 {
        return Err(format!("{} event in place of our own {} event", seen.header.name(), event_type::name(expected)));
    }
    if seen.index == 1 {
        let body = event_body(seen.event, seen.checksum).map_err(|e| e.to_string())?;
        walk.previous = PreviousGtids::parse(body).map_err(|e| e.to_string())?.set;
    }
    Ok(())
}

/// Tracks the source's own positions. An event's header has 32 bits of its end; the order of events gives the rest.
#[derive(Clone, Debug, Default)]
struct SourcePosition {
    file: Option<std::sync::Arc<str>>,
    offset: u64,
}

impl SourcePosition {
    fn rotate(&mut self, name: &str, position: u64) {
        if self.file.as_deref() != Some(name) {
            self.file = Some(name.into());
        }
        self.offset = position;
    }

    fn event(&mut self, header: &EventHeader) {
        if header.log_pos == 0 || header.flags & (flags::ARTIFICIAL | flags::RELAY_LOG) != 0 {
            return;
        }
        let mut offset = (self.offset & !u64::from(u32::MAX)) | u64::from(header.log_pos);
        // A small step back is not a wrap: a FORMAT_DESCRIPTION sent for a later start has its own, smaller position.
        if offset < self.offset {
            if self.offset - offset < 1 << 31 {
                return;
            }
            offset += 1 << 32;
        }
        self.offset = offset;
    }

    fn get(&self) -> Option<LogPosition> {
        Some(LogPosition { file: self.file.clone()?, offset: self.offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_positions_beyond_four_gib() {
        let mut position = SourcePosition::default();
        assert_eq!(position.get(), None);
        position.rotate("binlog.000007", 0xffff_ff00);
        let at = |log_pos, flags| EventHeader { log_pos, flags, ..EventHeader::default() };
        let steps = [
            (at(126, flags::ARTIFICIAL), 0xffff_ff00),
            (at(0x10, 0), 0x1_0000_0010),
            (at(0, 0), 0x1_0000_0010),
            (at(0x40, 0), 0x1_0000_0040),
            (at(0x30, 0), 0x1_0000_0040),
            (at(0x90, flags::RELAY_LOG), 0x1_0000_0040),
        ];
        for (header, expected) in steps {
            position.event(&header);
            assert_eq!(position.get().unwrap().offset, expected);
        }
    }
}
