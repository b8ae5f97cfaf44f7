//! Start of replay in the relay log, given the transactions that the store has.
//!
//! In: the store's `gtid_executed` and the relay position of its last cut. Out: a `StartPoint`, from which a reader
//! returns everything the store lacks. Never here: a transaction that the store lacks before the start; a position
//! trusted without a check of the transactions around it (invariant 11), except for transactions without a GTID.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use base::{Gtid, GtidSet, LogPosition};
use binlog::event_type;

use crate::boundary::StepKind;
use crate::names::{file_name, file_number};
use crate::shared::{FileEntry, RelayShared};
use crate::walk::{EventCursor, Problem, Seen, VerifyFrom};
use crate::{MAGIC, OnDamage, RelayError, RelayPosition};

/// How a start was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartKind {
    /// At the first transaction of the first file: the store has passed none of them.
    #[default]
    Beginning,
    /// At the position that the store named; the transactions around it agree.
    Hint,
    /// At the first transaction whose GTID the store lacks, or at the end of the log if it lacks none.
    Search,
}

/// Start of a reader: [`RelayReader::open_at`](crate::RelayReader::open_at).
#[derive(Clone, Debug, Default)]
pub struct StartPoint {
    /// Offset 4 of a file, or directly after a whole transaction; 0:0 if there is no file yet.
    pub position: RelayPosition,
    /// How the start was found.
    pub kind: StartKind,
    /// Bytes of the kept files before it.
    pub skipped_bytes: u64,
    /// GTID of the first transaction after it; None if that one has no GTID, or if there is none yet.
    pub next_gtid: Option<Gtid>,
    /// Why the position named by the store could not be used; None if it was.
    pub hint_refused: Option<String>,
    /// FORMAT_DESCRIPTION event in force at the position; empty at the start of a file, which begins with one.
    pub(crate) format: Vec<u8>,
}

impl StartPoint {
    /// The position with its file name.
    #[must_use]
    pub fn log_position(&self) -> LogPosition {
        LogPosition { file: file_name(self.position.file_number).into(), offset: self.position.offset }
    }
}

impl RelayPosition {
    /// From a position with a file name; None if the name is not that of a relay log file.
    #[must_use]
    pub fn of(position: &LogPosition) -> Option<RelayPosition> {
        Some(RelayPosition { file_number: file_number(&position.file)?, offset: position.offset })
    }
}

impl RelayShared {
    /// Start for a store that has exactly `executed` and was at `hint` in this relay log at that time.
    ///
    /// The hint is valid if its file is kept, only whole events of whole transactions in `executed` come before it, and
    /// the transaction after it is not in `executed`. Otherwise the first transaction not in `executed` is searched
    /// for. A store that is ahead of the log starts at its end: the rest comes from the source. Transactions without
    /// GTIDs cannot be searched for: then the hint must be valid, even if `executed` is empty, unless the source of the
    /// log has GTIDs ([`OnDamage::FetchAgain`]).
    ///
    /// # Errors
    /// [`RelayError::Gap`] if the log begins after transactions that the store lacks, [`RelayError::StartLost`] if the
    /// hint is the only evidence and is invalid, [`RelayError::Corrupt`] if a file cannot be read.
    pub fn start_point(&self, executed: &GtidSet, hint: Option<&LogPosition>) -> Result<StartPoint, RelayError> {
        let _index = self.lock_index(); // a purged file is not a missing one
        let files = self.lock().files.iter().cloned().collect();
        let finder = Finder { dir: self.dir.clone(), files, executed, on_damage: self.on_damage };
        let Some(hint) = hint else { return finder.search(None) };
        match finder.check(hint)? {
            Ok(start) => Ok(start),
            Err(reason) => finder.search(Some((hint, reason))),
        }
    }
}

struct Finder<'a> {
    dir: PathBuf,
    files: Vec<FileEntry>,
    executed: &'a GtidSet,
    /// A source that can be asked again has GTIDs.
    on_damage: OnDamage,
}

/// Place of a transaction that the store lacks.
struct Found {
    /// End of the transaction before it in its file; 4 if it is the first in the file.
    offset: u64,
    gtid: Option<Gtid>,
    format: Vec<u8>,
}

impl Finder<'_> {
    /// The start at the hint, or the reason why the hint is invalid.
    fn check(&self, hint: &LogPosition) -> Result<Result<StartPoint, String>, RelayError> {
        let Some(at) = RelayPosition::of(hint) else {
            return Ok(Err(format!("{} is not the name of a relay log file", hint.file)));
        };
        let Some(index) = self.files.iter().position(|file| file.number == at.file_number) else {
            return Ok(Err(match self.files.first() {
                Some(first) if first.number > at.file_number => format!("{} was purged", hint.file),
                _ => format!("{} is not there", hint.file),
            }));
        };
        let Some(file) = self.files.get(index) else { return Ok(Err(format!("{} is not there", hint.file))) };
        if at.offset > file.committed {
            return Ok(Err(format!("{} has only {} bytes", file.name, file.committed)));
        }
        let missing = file.previous.subtract(self.executed);
        if !missing.is_empty() {
            return Ok(Err(format!("{} follows transactions that the store lacks: {missing}", file.name)));
        }
        let mut found = match self.look_behind(file, at.offset)? {
            Ok(found) => found,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut rest = self.files.iter().skip(index + 1);
        let mut next = found.next;
        while next.is_none()
            && let Some(file) = rest.next()
        {
            match self.first_transaction(file)? {
                Ok(first) => next = first,
                Err(problem) => return Ok(Err(told(file, &problem))),
            }
        }
        if let Some(Some(gtid)) = next
            && self.executed.contains(&gtid)
        {
            return Ok(Err(format!("the transaction after it, {gtid}, is already executed")));
        }
        // Our own file header tells the reader all it needs.
        let offset = if found.transactions { at.offset } else { MAGIC.len() as u64 };
        if !found.transactions {
            found.format.clear();
        }
        Ok(Ok(self.start(StartKind::Hint, index, offset, next.flatten(), found.format)))
    }

    /// What comes before an offset in a file, and the transaction after the offset.
    fn look_behind(&self, file: &FileEntry, offset: u64) -> Result<Result<Behind, String>, RelayError> {
        let path = self.dir.join(&*file.name);
        let open = open(&path)?;
        let mut cursor = EventCursor::new(&open, &path, file.committed, VerifyFrom::TRUST);
        let mut behind = Behind::default();
        // The start of a file may be given as 0 or 4, its end as its length.
        let mut is_boundary = offset <= MAGIC.len() as u64 || offset == file.committed;
        while let Some(seen) = cursor.next()? {
            let seen = match seen {
                Ok(seen) => seen,
                Err(problem) => return Ok(Err(told(file, &problem))),
            };
            if seen.offset >= offset {
                if let Some(gtid) = begins(&seen) {
                    behind.next = Some(gtid);
                    break;
                }
                continue;
            }
            is_boundary |= seen.end == offset && !seen.in_transaction;
            if seen.end >= offset && !is_boundary {
                break;
            }
            if seen.header.event_type == event_type::FORMAT_DESCRIPTION {
                behind.format = seen.event.to_vec();
            }
            behind.transactions |= seen.step.transaction_ends;
            if seen.step.transaction_ends
                && let Some(gtid) = seen.gtid
                && !self.executed.contains(&gtid)
            {
                return Ok(Err(format!("the store lacks transaction {gtid} in front of it")));
            }
        }
        if !is_boundary {
            return Ok(Err(format!("no transaction ends at {}:{offset}", file.name)));
        }
        Ok(Ok(behind))
    }

    /// The first transaction of a file: `Some(None)` if it has no GTID.
    fn first_transaction(&self, file: &FileEntry) -> Result<Result<Option<Option<Gtid>>, Problem>, RelayError> {
        let path = self.dir.join(&*file.name);
        let open = open(&path)?;
        let mut cursor = EventCursor::new(&open, &path, file.committed, VerifyFrom::TRUST);
        while let Some(seen) = cursor.next()? {
            match seen {
                Ok(seen) => {
                    if let Some(gtid) = begins(&seen) {
                        return Ok(Ok(Some(gtid)));
                    }
                }
                Err(problem) => return Ok(Err(problem)),
            }
        }
        Ok(Ok(None))
    }

    /// The first transaction that is not executed. `refused`: the invalid hint, with the reason.
    fn search(&self, refused: Option<(&LogPosition, String)>) -> Result<StartPoint, RelayError> {
        let lost = |why: &str| {
            let (hint, reason) = refused.as_ref()?;
            Some(RelayError::StartLost { hint: (*hint).clone(), reason: format!("{reason}; {why}") })
        };
        // Files are purged only if a durable cut has passed all their transactions, so after a purged file everything
        // is new.
        let purged = refused.as_ref().is_some_and(|(hint, _)| self.is_purged(hint));
        if self.executed.is_empty()
            && !purged
            && self.on_damage == OnDamage::Refuse
            && let Some(error) = lost("the store holds no GTIDs to search for")
        {
            return Err(error);
        }
        let done = |mut start: StartPoint| {
            start.hint_refused = refused.as_ref().map(|(_, reason)| reason.clone());
            Ok(start)
        };
        let Some(from) = self.search_from()? else {
            return done(self.start(StartKind::Search, 0, 0, None, Vec::new()));
        };
        for (index, file) in self.files.iter().enumerate().skip(from) {
            let found = match self.first_not_executed(file)? {
                Ok(found) => found,
                Err(format) if index + 1 == self.files.len() => {
                    return done(self.start(StartKind::Search, index, file.committed, None, format));
                }
                Err(_) => continue,
            };
            if found.gtid.is_none()
                && !purged
                && let Some(error) = lost("the transactions after it have no GTIDs to search for")
            {
                return Err(error);
            }
            let first = index == 0 && found.offset == MAGIC.len() as u64 && refused.is_none();
            let kind = if first { StartKind::Beginning } else { StartKind::Search };
            return done(self.start(kind, index, found.offset, found.gtid, found.format));
        }
        done(self.start(StartKind::Search, 0, 0, None, Vec::new()))
    }

    fn is_purged(&self, hint: &LogPosition) -> bool {
        let first = self.files.first().map(|file| file.number);
        RelayPosition::of(hint).zip(first).is_some_and(|(at, first)| at.file_number < first)
    }

    /// Index of the file to search from: the newest one that follows executed transactions only, but not after a file
    /// with transactions that have no GTID. None if there are no files.
    fn search_from(&self) -> Result<Option<usize>, RelayError> {
        let Some(last) = self.files.len().checked_sub(1) else { return Ok(None) };
        let may_be_anonymous = |file: &FileEntry| file.anonymous && self.on_damage == OnDamage::Refuse;
        let anonymous = self.files.iter().position(may_be_anonymous).unwrap_or(last);
        let mut missing = GtidSet::new();
        for (index, file) in self.files.iter().enumerate().take(anonymous + 1).rev() {
            missing = file.previous.subtract(self.executed);
            if missing.is_empty() {
                return Ok(Some(index));
            }
        }
        let file = self.files.first().map(|file| file.name.to_string()).unwrap_or_default();
        Err(RelayError::Gap { file, missing })
    }

    /// The first transaction of a file that is not executed, or the format in force at the end of the file if there is
    /// none.
    fn first_not_executed(&self, file: &FileEntry) -> Result<Result<Found, Vec<u8>>, RelayError> {
        let path = self.dir.join(&*file.name);
        let open = open(&path)?;
        let mut cursor = EventCursor::new(&open, &path, file.committed, VerifyFrom::TRUST);
        let mut offset = MAGIC.len() as u64;
        let (mut format, mut format_there) = (Vec::new(), Vec::new());
        while let Some(seen) = cursor.next()? {
            let seen =
                seen.map_err(|problem| RelayError::corrupt(&file.name, problem.offset, problem.reason.clone()))?;
            if seen.header.event_type == event_type::FORMAT_DESCRIPTION {
                format = seen.event.to_vec();
            }
            if let Some(gtid) = begins(&seen)
                && gtid.is_none_or(|gtid| !self.executed.contains(&gtid))
            {
                return Ok(Ok(Found { offset, gtid, format: format_there }));
            }
            if seen.step.transaction_ends {
                offset = seen.end;
                format_there.clone_from(&format);
            }
        }
        Ok(Err(format))
    }

    fn start(&self, kind: StartKind, index: usize, offset: u64, gtid: Option<Gtid>, format: Vec<u8>) -> StartPoint {
        let before: u64 = self.files.iter().take(index).map(|file| file.len).sum();
        let position = self
            .files
            .get(index)
            .map_or(RelayPosition::default(), |file| RelayPosition { file_number: file.number, offset });
        StartPoint { position, kind, skipped_bytes: before + offset, next_gtid: gtid, hint_refused: None, format }
    }
}

#[derive(Default)]
struct Behind {
    /// True if whole transactions come before it.
    transactions: bool,
    /// FORMAT_DESCRIPTION event in force there.
    format: Vec<u8>,
    next: Option<Option<Gtid>>,
}

/// The GTID (or None) of the transaction that begins with an event.
fn begins(seen: &Seen<'_>) -> Option<Option<Gtid>> {
    (seen.step.kind == StepKind::Begin).then_some(seen.step.transaction_begins)
}

fn told(file: &FileEntry, problem: &Problem) -> String {
    format!("{} is damaged at offset {}: {}", file.name, problem.offset, problem.reason)
}

fn open(path: &std::path::Path) -> Result<File, RelayError> {
    File::open(path).map_err(|e| RelayError::io("open", path, &e))
}

/// The chunk that a reader gets first if it begins inside a file.
pub(crate) fn format_chunk(start: &StartPoint) -> Option<crate::Chunk> {
    let len = start.format.len() as u64;
    // Both the event and the bytes after it are in the file, so the offset before the start is large enough for it.
    let offset = start.position.offset.checked_sub(len).filter(|_| len > 0)?;
    Some(crate::Chunk {
        file_number: start.position.file_number,
        file: Arc::from(file_name(start.position.file_number)),
        offset,
        data: Arc::new(start.format.clone().into()),
        hot: false,
    })
}
