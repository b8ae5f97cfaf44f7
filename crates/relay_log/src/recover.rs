//! What is in a relay log folder, and what of it can be kept.
//!
//! In: a folder, what the store holds. Out: a `Scan` (for reading), or the folder made sound (for writing). Never
//! here: synced bytes the store lacks cut off, but for the tail of a last file that ends too early and for damage that
//! the source can make good; damage in front of synced bytes passed over, but for what the store holds.

use std::cmp::Ordering;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use base::{GtidSet, LogPosition};
use binlog::ChecksumAlgorithm;

use crate::disk::Disk;
use crate::names::{file_name, list_files, read_index, write_index};
use crate::start::StartPoint;
use crate::state::{State, StateFile};
use crate::walk::{FileWalk, Problem, VerifyFrom, read_previous, walk_file};
use crate::{DropReport, OnDamage, Recovery, RelayError, RelayPosition, TruncateReport};

/// Names that may be missing between the files that are there when the index is lost, so that one stray name far off
/// does not make a list of all numbers up to it.
const GAP_MAX: u64 = 1000;

/// A file to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptFile {
    pub number: u64,
    /// The last one's is where it is to be cut.
    pub len: u64,
    /// End of its last whole transaction; 0 when there is none.
    pub transactions_end: u64,
    /// It holds transactions without a GTID.
    pub anonymous: bool,
    /// GTIDs retrieved before it.
    pub previous: Arc<GtidSet>,
}

/// The folder's content after a look, nothing changed yet.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The files to keep.
    pub files: Vec<KeptFile>,
    pub retrieved: GtidSet,
    pub source_position: Option<LogPosition>,
    /// The last file ends with our closing ROTATE.
    pub last_is_closed: bool,
    /// Whether events in the last file carry checksums.
    pub checksum: ChecksumAlgorithm,
    pub truncated: Option<TruncateReport>,
    /// Damaged files that the store had passed.
    pub dropped: Option<DropReport>,
    pub clean: bool,
    /// The highest number a file of this log ever had, as far as is known: a number never comes back, lest an old
    /// position mean something new.
    pub last_used: u64,
    pub state: Option<State>,
    pub index_rebuilt: bool,
    /// Files to delete: cut off, or left over from an interrupted purge, cut or creation.
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

    /// A second look at a mended folder reports what was found by the first one.
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

/// What the store holds, against which the files are judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<'a> {
    /// `gtid_executed` at the store's last cut; None when nothing is known of a store: then files are only judged by
    /// each other.
    pub executed: Option<&'a GtidSet>,
    /// The relay position at that cut.
    pub resume_at: Option<RelayPosition>,
    pub on_damage: OnDamage,
}

impl Held<'_> {
    /// Nothing is known of a store.
    pub(crate) const UNKNOWN: Held<'static> = Held { executed: None, resume_at: None, on_damage: OnDamage::Refuse };

    fn lacks(&self, set: &GtidSet) -> GtidSet {
        self.executed.map_or_else(GtidSet::new, |executed| set.subtract(executed))
    }

    /// From where on checksums are verified although the bytes were synced: what the store passed is not read again,
    /// and what cannot be fetched again is told when it is replayed.
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

/// Something wrong with bytes that were durable.
struct Fault {
    name: String,
    /// End of what is whole in front of it in its file; 0 for none of it.
    keep: u64,
    /// Length of the file as found.
    len: u64,
    error: RelayError,
    reason: String,
}

/// Looks at every file.
pub(crate) fn scan(dir: &Path, held: Held<'_>) -> Result<Scan, RelayError> {
    let state = State::read(dir)?;
    let present = list_files(dir)?;
    let mut scan = Scan { state, ..Scan::default() };
    let listed = match read_index(dir) {
        Ok(Some(numbers)) => numbers,
        // What it named is known from the files; one that is missing among them is met below.
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

fn rebuilt(present: &[u64], scan: &mut Scan, held: Held<'_>) -> Result<Vec<u64>, RelayError> {
    scan.index_rebuilt = !present.is_empty();
    let (Some(first), Some(last)) = (present.first(), present.last()) else { return Ok(Vec::new()) };
    for pair in present.windows(2) {
        if let [before, after] = pair
            && before + 1 != *after
        {
            if held.on_damage == OnDamage::Refuse {
                return Err(RelayError::Missing { file: file_name(before + 1), named_by: "the next file's number" });
            }
            // A name far off is not one of this log: the run of names must be one that an index can hold.
            if last - first > present.len() as u64 + GAP_MAX {
                let keep = present.iter().take_while(|number| **number <= *before);
                return Ok(keep.copied().collect());
            }
        }
    }
    Ok((*first..=*last).collect())
}

fn walk_all(dir: &Path, listed: &[u64], known: State, held: Held<'_>, scan: &mut Scan) -> Result<(), RelayError> {
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
        // The store holds all that stood in front of `next`.
        let gone = listed.get(from..next).unwrap_or_default();
        let dropped = scan.dropped.get_or_insert_with(DropReport::default);
        dropped.files.extend(gone.iter().map(|number| file_name(*number)));
        dropped.reasons.push(format!("{}: {}", fault.name, fault.reason));
        scan.doomed.extend(gone);
        scan.forget_files();
        from = next;
    }
}

/// Everything from the fault on goes.
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

/// Index of the first file behind `at` such that the store holds all that was retrieved before it.
fn passed(dir: &Path, listed: &[u64], at: usize, held: Held<'_>) -> Result<Option<usize>, RelayError> {
    let Some(executed) = held.executed else { return Ok(None) };
    for (index, number) in listed.iter().enumerate().skip(at + 1) {
        // Without GTIDs only the position tells what the store passed.
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

/// Walks the files from an index on. Gives the first fault in what was durable, with its file's index; what is not
/// durable and not whole is cut off without more ado.
fn walk_from(
    dir: &Path,
    listed: &[u64],
    from: usize,
    known: State,
    held: Held<'_>,
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
        // Behind the synced length (always the end of an event) damage is what a power loss leaves. Before it only
        // a last file that is now shorter can be mended: what it lacks comes from the source again.
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

/// Each file names what all files before it hold, and what the store was ahead of them; the first one may follow
/// purged files, whose transactions the store must hold.
fn misfit(name: &str, walk: &FileWalk, follows: bool, held: Held<'_>, scan: &Scan) -> Option<RelayError> {
    if walk.boundary == 0 {
        return None; // its head is damaged: the walk's problem says so
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

/// Makes the folder what the scan says and durable; returns the state file, written as not clean.
pub(crate) fn mend(disk: &Disk, dir: &Path, scan: &Scan) -> Result<StateFile, RelayError> {
    let mut state = StateFile::new(disk, dir, scan.state);
    let end = scan.end();
    // In this order: never may the state claim what is being cut, nor the index name what is being deleted.
    state.lower(end)?;
    if scan.index_rebuilt || !scan.doomed.is_empty() {
        write_index(disk, dir, scan.files.iter().map(|file| file.number))?;
    }
    for number in &scan.doomed {
        let path = dir.join(file_name(*number));
        match disk.remove(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(RelayError::io("delete", &path, &e)),
            _ => {}
        }
    }
    let known = scan.state.map_or(0, |s| s.synced.file_number);
    for file in &scan.files {
        // Older ones are whole and durable, unless the log ends there now.
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
