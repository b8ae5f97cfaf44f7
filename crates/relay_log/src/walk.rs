//! One relay file, read header by header: where its whole transactions end, which they are, what is wrong with it.
//!
//! In: a file and the offset from which checksums are verified. Out: a `FileWalk`. Never here: a change to the file,
//! a decision about what to do with damage (that is `recover`), an allocation larger than the file's bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use base::limits::{EVENT_LEN_MAX, READ_CHUNK_BYTES};
use base::{GtidSet, LogPosition};
use binlog::{ChecksumAlgorithm, EventHeader, PreviousGtids, Rotate, event_body, event_type, flags, verify_checksum};

use crate::boundary::BoundaryTracker;
use crate::names::file_name;
use crate::{MAGIC, RelayError};

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// First byte of the event that is wrong.
    pub offset: u64,
    pub reason: String,
    /// The file just ends too early: inside an event, or inside a transaction.
    pub torn: bool,
}

/// What a file holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileWalk {
    /// Length of the file.
    pub len: u64,
    /// End of the last whole transaction or of a control event after it; 0 while our own head is not whole.
    pub boundary: u64,
    /// GTIDs retrieved before this file.
    pub previous: GtidSet,
    /// GTIDs of the whole transactions in it.
    pub gtids: GtidSet,
    /// It ends with our ROTATE to the next file.
    pub closed: bool,
    /// Whether its events carry checksums.
    pub checksum: ChecksumAlgorithm,
    /// Where in the source's log `boundary` is.
    pub source_position: Option<LogPosition>,
    pub problem: Option<Problem>,
}

/// Buffered reads at given offsets.
struct Window<'a> {
    file: &'a File,
    path: &'a Path,
    bytes: Vec<u8>,
    start: u64,
    file_len: u64,
}

impl Window<'_> {
    /// The bytes at `offset`; the caller has checked that the file holds them.
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

/// Reads the file; events that end behind `verify_from` have their checksums verified, and are a problem where they
/// have none.
pub(crate) fn walk_file(path: &Path, number: u64, verify_from: u64) -> Result<FileWalk, RelayError> {
    let file = File::open(path).map_err(|e| RelayError::io("open", path, &e))?;
    let file_len = file.metadata().map_err(|e| RelayError::io("stat", path, &e))?.len();
    let mut window = Window { file: &file, path, bytes: Vec::new(), start: 0, file_len };
    let mut walk = FileWalk { len: file_len, ..FileWalk::default() };
    walk.problem = match check_magic(&mut window)? {
        Some(problem) => Some(problem),
        None => walk_events(&mut window, number, verify_from, &mut walk)?,
    };
    Ok(walk)
}

fn check_magic(window: &mut Window<'_>) -> Result<Option<Problem>, RelayError> {
    let have = window.file_len.min(MAGIC.len() as u64) as usize;
    let found = window.get(0, have)?;
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

fn walk_events(
    window: &mut Window<'_>,
    number: u64,
    verify_from: u64,
    walk: &mut FileWalk,
) -> Result<Option<Problem>, RelayError> {
    let mut tracker = BoundaryTracker::new(ChecksumAlgorithm::None);
    let mut source = SourcePosition::default();
    let mut offset = MAGIC.len() as u64;
    let mut index = 0u64;
    while offset < walk.len {
        let problem = |reason: String, torn: bool| Ok(Some(Problem { offset, reason, torn }));
        let left = walk.len - offset;
        if left < EventHeader::LEN as u64 {
            return problem("the file ends inside an event's header".into(), true);
        }
        let header = match EventHeader::parse(window.get(offset, EventHeader::LEN)?) {
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
        let verify = end > verify_from || index < 2;
        let whole = verify || BoundaryTracker::needs_body(header.event_type) || header.event_type == event_type::ROTATE;
        let event = window.get(offset, if whole { len } else { EventHeader::LEN })?;
        let checksum = tracker.checksum();
        let is_fde = header.event_type == event_type::FORMAT_DESCRIPTION; // `step_with` verifies that one's
        if verify && checksum == ChecksumAlgorithm::Crc32 && !is_fde && !verify_checksum(event) {
            return problem(format!("{} event fails its checksum", header.name()), false);
        }
        let step = match tracker.step_with(&header, event) {
            Ok(step) => step,
            Err(e) => return problem(e.to_string(), false),
        };
        if tracker.checksum() == ChecksumAlgorithm::None && end > verify_from {
            let reason = "events without checksums that were not synced before an unclean stop are not trusted";
            return problem(reason.into(), false);
        }
        if let Err(reason) = check_head(index, &header, event, checksum, walk) {
            return problem(reason, false);
        }
        if header.event_type == event_type::ROTATE {
            let rotate = match event_body(event, checksum).and_then(Rotate::parse) {
                Ok(rotate) => rotate,
                Err(e) => return problem(e.to_string(), false),
            };
            let name = String::from_utf8_lossy(rotate.file);
            if header.flags & flags::RELAY_LOG == 0 {
                source.rotate(&name, rotate.position);
            }
            // A file source may hand on the ROTATE of another relay log: only the very end is ours.
            walk.closed = header.flags & flags::RELAY_LOG != 0 && end == walk.len && name == file_name(number + 1);
        } else {
            source.event(&header);
        }
        offset = end;
        index += 1;
        if step.transaction_ends
            && let Some(gtid) = tracker.gtid()
        {
            walk.gtids.add(gtid);
        }
        if !tracker.in_transaction() && index >= 2 {
            walk.boundary = offset;
            walk.checksum = tracker.checksum();
            walk.source_position = source.get();
        }
    }
    if index < 2 {
        return Ok(Some(Problem { offset, reason: "the file ends inside its own head".into(), torn: true }));
    }
    if tracker.in_transaction() {
        let reason = match tracker.gtid() {
            Some(gtid) => format!("the file ends inside transaction {gtid}"),
            None => "the file ends inside a transaction".into(),
        };
        return Ok(Some(Problem { offset, reason, torn: true }));
    }
    Ok(None)
}

/// Every file begins with our FORMAT_DESCRIPTION and our PREVIOUS_GTIDS.
fn check_head(
    index: u64,
    header: &EventHeader,
    event: &[u8],
    checksum: ChecksumAlgorithm,
    walk: &mut FileWalk,
) -> Result<(), String> {
    let expected = match index {
        0 => event_type::FORMAT_DESCRIPTION,
        1 => event_type::PREVIOUS_GTIDS,
        _ => return Ok(()),
    };
    if header.event_type != expected || header.flags & flags::RELAY_LOG == 0 {
        return Err(format!("{} event where our own {} event stands", header.name(), event_type::name(expected)));
    }
    if index == 1 {
        let body = event_body(event, checksum).map_err(|e| e.to_string())?;
        walk.previous = PreviousGtids::parse(body).map_err(|e| e.to_string())?.set;
    }
    Ok(())
}

/// Follows the source's own positions. An event's header has 32 bits of its end; the rest is known from the order.
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
        // A little back is no wrap: the FORMAT_DESCRIPTION sent for a start further on has its own, smaller position.
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
