//! Scan of a relay log folder: what it contains and what can be kept.
//!
//! In: a folder, the GTIDs and position of the store. Out: a `Scan` (for reading), or the repaired folder (for
//! writing). Never here: truncation of synced bytes that the store lacks, except the tail of a last file that ends too
//! early and damage that the source can repair; damage before synced bytes ignored, unless the store has them.

use std::cmp::Ordering;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use base::{GtidSet, LogPosition};
use binlog::ChecksumAlgorithm;

use crate::disk::RelayFs;
use crate::names::{file_name, list_files, read_index, remove_files, write_index};
use crate::start::StartPoint;
use crate::state::{State, StateFile};
use crate::walk::{FileWalk, Problem, VerifyFrom, read_previous, walk_file};
use crate::{DropReport, OnDamage, Recovery, RelayError, RelayPosition, TruncateReport};

/// Most file numbers that may be missing between existing files if the index is lost. Without this limit a single stray
/// name would create a list of all numbers up to it.
const GAP_MAX: u64 = 1000;

/// A file to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptFile {
    pub number: u64,
    /// Length in bytes; for the last file the length to truncate it to.
    pub len: u64,
    /// End of its last whole transaction; 0 if there is none.
    pub transactions_end: u64,
    /// True if it has transactions without a GTID.
    pub anonymous: bool,
    /// GTIDs retrieved before this file.
    pub previous: Arc<GtidSet>,
}

/// Content of the folder as scanned; nothing is changed yet.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The files to keep.
    pub files: Vec<KeptFile>,
    pub retrieved: GtidSet,
    pub source_position: Option<LogPosition>,
    /// True if the last file ends with our closing ROTATE.
    pub last_is_closed: bool,
    /// Checksum algorithm of the events in the last file.
    pub checksum: ChecksumAlgorithm,
    pub truncated: Option<TruncateReport>,
    /// Damaged files that the store had passed.
    pub dropped: Option<DropReport>,
    pub clean: bool,
    /// Highest number ever given to a file of this log, as far as is known. An emptied log continues after it, so that
    /// an old position gets no new meaning. A log that was truncated continues after its last file and so reuses
    /// numbers.
    pub last_used: u64,
    pub state: Option<State>,
    pub index_rebuilt: bool,
    /// Files to delete: truncated away, or left over from an interrupted purge, truncation or creation.
    pub doomed: Vec<u64>,
    left_over: Vec<u64>,
}

impl Scan {
    pub(crate) fn recovery(&self, start: StartPoint) -> Recovery {
        Recovery {
            retrieved: self.retrieved.clone(),
            files: self.files.iter().map(|file| (file.number, file.len)).collect(),
            truncated: self.truncated.clone(),
            dropped: self.dropped.clone(),
            start,
            clean: self.clean,
            last_source_position: self.source_position.clone(),
            index_rebuilt: self.index_rebuilt,
            removed: self.left_over.iter().map(|number| file_name(*number)).collect(),
        }
    }

    pub(crate) fn end(&self) -> RelayPosition {
        self.files
            .last()
            .map_or(RelayPosition::default(), |file| RelayPosition { file_number: file.number, offset: file.len })
    }

    /// Copies the reports of the first scan into the scan of the repaired folder.
    pub(crate) fn add_reports_of(&mut self, before: Scan) {
        self.truncated = self.truncated.take().or(before.truncated);
        if let Some(earlier) = before.dropped {
            let dropped = self.dropped.get_or_insert_with(DropReport::default);
            dropped.files.splice(..0, earlier.files);
            dropped.reasons.splice(..0, earlier.reasons);
        }
        self.clean = before.clean;
        self.index_rebuilt |= before.index_rebuilt;
        self.left_over.splice(..0, before.left_over);
        self.last_used = self.last_used.max(before.last_used);
    }

    fn forget_files(&mut self) {
        self.files.clear();
        self.retrieved = GtidSet::new();
        self.source_position = None;
        self.last_is_closed = false;
    }
}

/// What the store holds; the files are judged against it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreState<'a> {
    /// `gtid_executed` at the store's last cut; None if no store is known: then files are only checked against each
    /// other.
    pub executed: Option<&'a GtidSet>,
    /// Relay position at that cut.
    pub resume_at: Option<RelayPosition>,
    pub on_damage: OnDamage,
}

impl StoreState<'_> {
    /// No store is known.
    pub(crate) const UNKNOWN: StoreState<'static> =
        StoreState { executed: None, resume_at: None, on_damage: OnDamage::Refuse };

    fn lacks(&self, set: &GtidSet) -> GtidSet {
        self.executed.map_or_else(GtidSet::new, |executed| set.subtract(executed))
    }

    /// Offset from which checksums are verified although the bytes were synced. Bytes that the store passed are not
    /// read again; damage that cannot be fetched again is reported by replay.
    fn verify_from(&self, number: u64) -> u64 {
        match (self.on_damage, self.resume_at) {
            (OnDamage::Refuse, _) => u64::MAX,
            (OnDamage::FetchAgain, None) => 0,
            (OnDamage::FetchAgain, Some(at)) => match number.cmp(&at.file_number) {
                Ordering::Less => u64::MAX,
                Ordering::Equal => at.offset,
                Ordering::Greater => 0,
            },
        }
    }
}

/// A defect in bytes that were durable.
struct Fault {
    name: String,
    /// End of the whole transactions before it in its file; 0 to keep nothing of the file.
    keep: u64,
    /// Length of the file as found, in bytes.
    len: u64,
    error: RelayError,
    reason: String,
}

pub(crate) fn scan(dir: &Path, held: StoreState<'_>) -> Result<Scan, RelayError> {
    let state = State::read(dir)?;
    let present = list_files(dir)?;
    let mut scan = Scan { state, ..Scan::default() };
    let listed = match read_index(dir) {
        Ok(Some(numbers)) => numbers,
        // The files themselves give the index; a gap among them is found below.
        Ok(None) => rebuilt(&present, &mut scan, held)?,
        Err(RelayError::Index { .. }) if held.on_damage == OnDamage::FetchAgain => rebuilt(&present, &mut scan, held)?,
        Err(e) => return Err(e),
    };
    let named = state.map(|s| s.synced.file_number).into_iter().chain(held.resume_at.map(|at| at.file_number));
    scan.last_used = named.max().unwrap_or(0);
    let (Some(first), Some(last)) = (listed.first().copied(), listed.last().copied()) else {
        // No files: a new log, or one whose files were deleted on purpose.
        scan.clean = true;
        scan.state = None;
        scan.retrieved = held.executed.cloned().unwrap_or_default();
        return Ok(scan);
    };
    scan.last_used = scan.last_used.max(last);
    let lost_files = state.map(|s| s.synced).filter(|synced| synced.file_number > last);
    if held.on_damage == OnDamage::Refuse
        && let Some(synced) = lost_files
    {
        return Err(RelayError::Missing { file: file_name(synced.file_number), named_by: "relay-log.state" });
    }
    scan.left_over = present.iter().copied().filter(|number| !(first..=last).contains(number)).collect();
    scan.doomed.clone_from(&scan.left_over);
    scan.clean = state.is_some_and(|s| s.clean);
    let known = state.unwrap_or(State::at(RelayPosition::default(), false));
    walk_all(dir, &listed, known, held, &mut scan)?;
    if let Some(synced) = lost_files
        && scan.truncated.is_none()
    {
        let reason = format!("it is missing (relay-log.state says that {} bytes of it were synced)", synced.offset);
        let file = file_name(synced.file_number);
        scan.truncated = Some(TruncateReport { file, from_len: synced.offset, to_len: 0, reason });
    }
    if let Some(executed) = held.executed {
        scan.retrieved.union_with(executed);
    }
    Ok(scan)
}

fn rebuilt(present: &[u64], scan: &mut Scan, held: StoreState<'_>) -> Result<Vec<u64>, RelayError> {
    scan.index_rebuilt = !present.is_empty();
    let (Some(first), Some(last)) = (present.first(), present.last()) else { return Ok(Vec::new()) };
    for pair in present.windows(2) {
        if let [before, after] = pair
            && before + 1 != *after
        {
            if held.on_damage == OnDamage::Refuse {
                return Err(RelayError::Missing { file: file_name(before + 1), named_by: "the next file's number" });
            }
            // A far-off number does not belong to this log: an index must be able to hold the range of numbers.
            if last - first > present.len() as u64 + GAP_MAX {
                let keep = present.iter().take_while(|number| **number <= *before);
                return Ok(keep.copied().collect());
            }
        }
    }
    Ok((*first..=*last).collect())
}

fn walk_all(dir: &Path, listed: &[u64], known: State, held: StoreState<'_>, scan: &mut Scan) -> Result<(), RelayError> {
    let mut from = 0;
    loop {
        let Some((at, fault)) = walk_from(dir, listed, from, known, held, scan)? else { return Ok(()) };
        let Some(next) = passed(dir, listed, at, held)? else {
            return match held.on_damage {
                OnDamage::Refuse => Err(fault.error),
                OnDamage::FetchAgain => {
                    truncate_at(scan, listed, at, &fault);
                    Ok(())
                }
            };
        };
        // The store has everything before `next`.
        let gone = listed.get(from..next).unwrap_or_default();
        let dropped = scan.dropped.get_or_insert_with(DropReport::default);
        dropped.files.extend(gone.iter().map(|number| file_name(*number)));
        dropped.reasons.push(format!("{}: {}", fault.name, fault.reason));
        scan.doomed.extend(gone);
        scan.forget_files();
        from = next;
    }
}

/// Drops everything from the fault on.
fn truncate_at(scan: &mut Scan, listed: &[u64], at: usize, fault: &Fault) {
    let kept = if fault.keep > 0 { at + 1 } else { at };
    scan.doomed.extend(listed.iter().skip(kept));
    scan.truncated = Some(TruncateReport {
        file: fault.name.clone(),
        from_len: fault.len,
        to_len: fault.keep,
        reason: fault.reason.clone(),
    });
}

/// Index of the first file after `at` such that the store has everything retrieved before that file.
fn passed(dir: &Path, listed: &[u64], at: usize, held: StoreState<'_>) -> Result<Option<usize>, RelayError> {
    let Some(executed) = held.executed else { return Ok(None) };
    for (index, number) in listed.iter().enumerate().skip(at + 1) {
        // Without GTIDs only the position tells what the store has passed.
        let by_position = held.resume_at.is_some_and(|resume_at| *number <= resume_at.file_number);
        if !by_position && held.on_damage == OnDamage::Refuse {
            return Ok(None);
        }
        let path = dir.join(file_name(*number));
        let len = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            Err(e) => return Err(RelayError::io("stat", &path, &e)),
        };
        if read_previous(&path, len)?.is_ok_and(|previous| previous.is_subset_of(executed)) {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Walks the files from an index on. Returns the first fault in durable bytes, with the index of its file; bytes that
/// are neither durable nor whole are truncated without a report.
fn walk_from(
    dir: &Path,
    listed: &[u64],
    from: usize,
    known: State,
    held: StoreState<'_>,
    scan: &mut Scan,
) -> Result<Option<(usize, Fault)>, RelayError> {
    for (i, &number) in listed.iter().enumerate().skip(from) {
        let is_last = i + 1 == listed.len();
        let name = file_name(number);
        let (synced_len, whole_len) = match number.cmp(&known.synced.file_number) {
            Ordering::Less => (u64::MAX, u64::MAX),
            Ordering::Equal => (known.synced.offset, known.whole),
            Ordering::Greater => (0, 0),
        };
        let checks = VerifyFrom { synced: synced_len, verify_from: held.verify_from(number) };
        let path = dir.join(&name);
        if matches!(fs::metadata(&path), Err(e) if e.kind() == ErrorKind::NotFound) {
            let error = RelayError::Missing { file: name.clone(), named_by: "relay-bin.index" };
            return Ok(Some((i, Fault { name, keep: 0, len: 0, error, reason: "it is missing".into() })));
        }
        let mut walk = walk_file(&path, number, checks, u64::MAX)?;
        if let Some(error) = misfit(&name, &walk, i > from, held, scan) {
            let reason = match &error {
                RelayError::Corrupt { reason, .. } => reason.clone(),
                other => other.to_string(),
            };
            return Ok(Some((i, Fault { name, keep: 0, len: walk.len, error, reason })));
        }
        if walk.problem.is_none() && !is_last && !walk.closed {
            let reason = "the file ends without the ROTATE that closes it".into();
            walk.problem = Some(Problem { offset: walk.len, reason, torn: true });
        }
        let holds_end = is_last && number == known.synced.file_number;
        let lost_whole = holds_end && walk.problem.is_none() && walk.len < synced_len;
        if lost_whole {
            let reason = format!("the file has {} bytes of the {synced_len} that were synced", walk.len);
            scan.truncated =
                Some(TruncateReport { file: name.clone(), from_len: synced_len, to_len: walk.len, reason });
        }
        let Some(problem) = walk.problem.clone() else {
            keep(scan, number, &walk);
            continue;
        };
        if walk.boundary > 0 {
            keep(scan, number, &walk);
        }
        // After the synced length (always the end of an event) damage is normal after a power loss. Before it, only a
        // last file that became shorter can be repaired: the source sends the missing bytes again.
        let shortened = is_last && problem.torn && walk.len < synced_len;
        let in_synced = problem.offset < synced_len || walk.boundary < whole_len;
        let error = RelayError::corrupt(&name, problem.offset, problem.reason.clone());
        let fault = Fault { name, keep: walk.boundary, len: walk.len, error, reason: problem.reason };
        if in_synced && !shortened {
            return Ok(Some((i, fault)));
        }
        truncate_at(scan, listed, i, &fault);
        return Ok(None);
    }
    Ok(None)
}

/// Checks that each file names the GTIDs of all files before it, plus those by which the store was ahead of them. The
/// first file may follow purged files, whose transactions the store must have.
fn misfit(name: &str, walk: &FileWalk, follows: bool, held: StoreState<'_>, scan: &Scan) -> Option<RelayError> {
    if walk.boundary == 0 {
        return None; // its header is damaged: the walk's problem says so
    }
    if !follows {
        let missing = held.lacks(&walk.previous);
        return (!missing.is_empty()).then(|| RelayError::Gap { file: name.to_string(), missing });
    }
    let ahead = walk.previous.subtract(&scan.retrieved);
    if scan.retrieved.is_subset_of(&walk.previous) && held.lacks(&ahead).is_empty() {
        return None;
    }
    let reason = format!("its PREVIOUS_GTIDS are {}, the files before it hold {}", walk.previous, scan.retrieved);
    Some(RelayError::corrupt(name, 0, reason))
}

fn keep(scan: &mut Scan, number: u64, walk: &FileWalk) {
    scan.files.push(KeptFile {
        number,
        len: walk.boundary.min(walk.len),
        transactions_end: walk.transactions_end,
        anonymous: walk.anonymous,
        previous: Arc::new(walk.previous.clone()),
    });
    scan.retrieved.union_with(&walk.previous);
    scan.retrieved.union_with(&walk.gtids);
    if walk.source_position.is_some() {
        scan.source_position.clone_from(&walk.source_position);
    }
    scan.last_is_closed = walk.closed;
    scan.checksum = walk.checksum;
}

/// Makes the folder match the scan, durably; returns the state file, written as not clean.
pub(crate) fn mend(disk: &RelayFs, dir: &Path, scan: &Scan) -> Result<StateFile, RelayError> {
    let mut state = StateFile::new(disk, dir, scan.state);
    let end = scan.end();
    // Order matters: the state must never claim truncated bytes, the index must never name deleted files.
    state.lower(end)?;
    if scan.index_rebuilt || !scan.doomed.is_empty() {
        write_index(disk, dir, scan.files.iter().map(|file| file.number))?;
    }
    remove_files(disk, dir, scan.doomed.iter().copied())?;
    let known = scan.state.map_or(0, |s| s.synced.file_number);
    for file in &scan.files {
        // Older files are whole and durable, unless the log now ends there.
        if file.number < known && file.number < end.file_number {
            continue;
        }
        let path = dir.join(file_name(file.number));
        let io = |e| RelayError::io("cut and sync", &path, &e);
        let open = OpenOptions::new().write(true).open(&path).map_err(io)?;
        if open.metadata().map_err(io)?.len() != file.len {
            disk.truncate(&open, &path, file.len).map_err(io)?;
        }
        disk.sync_all(&open, &path).map_err(io)?;
    }
    state.write(State::at(end, false))?;
    disk.sync_folder(dir)?;
    Ok(state)
}
