//! What is in a relay log folder, and what of it can be kept.
//!
//! In: a folder. Out: a `Survey` (for reading), or the folder made sound (for writing). Never here: synced bytes cut
//! off, but for the tail of a last file that ends too early; damage in front of synced bytes passed over.

use std::cmp::Ordering;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;

use base::{GtidSet, LogPosition};
use binlog::ChecksumAlgorithm;

use crate::names::{file_name, list_files, read_index, sync_dir, write_index};
use crate::state::{State, StateFile};
use crate::walk::{FileWalk, Problem, walk_file};
use crate::{CutReport, Recovery, RelayError, RelayPosition};

/// The folder's content after a look, nothing changed yet.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Number and length of each file to keep; the last one's length is where it is to be cut.
    pub files: Vec<(u64, u64)>,
    pub retrieved: GtidSet,
    pub source_position: Option<LogPosition>,
    /// The last file ends with our closing ROTATE.
    pub last_is_closed: bool,
    /// Whether events in the last file carry checksums.
    pub checksum: ChecksumAlgorithm,
    pub cut: Option<CutReport>,
    pub clean: bool,
    pub state: Option<State>,
    pub index_rebuilt: bool,
    /// Files to delete: cut off, or left over from an interrupted purge, cut or creation.
    pub doomed: Vec<u64>,
    left_over: Vec<u64>,
}

impl Survey {
    pub(crate) fn recovery(&self) -> Recovery {
        Recovery {
            retrieved: self.retrieved.clone(),
            files: self.files.clone(),
            cut: self.cut.clone(),
            clean: self.clean,
            last_source_position: self.source_position.clone(),
            index_rebuilt: self.index_rebuilt,
            removed: self.left_over.iter().map(|number| file_name(*number)).collect(),
        }
    }

    pub(crate) fn end(&self) -> RelayPosition {
        self.files.last().map_or(RelayPosition::default(), |(file_number, offset)| RelayPosition {
            file_number: *file_number,
            offset: *offset,
        })
    }
}

/// Looks at every file.
pub(crate) fn survey(dir: &Path) -> Result<Survey, RelayError> {
    let state = State::read(dir)?;
    let present = list_files(dir)?;
    let mut survey = Survey { state, ..Survey::default() };
    let listed = match read_index(dir)? {
        Some(numbers) => numbers,
        None => {
            survey.index_rebuilt = !present.is_empty();
            check_gaps(&present)?;
            present.clone()
        }
    };
    let (Some(first), Some(last)) = (listed.first().copied(), listed.last().copied()) else {
        // No files: a new log, or one whose files were deleted on purpose.
        survey.clean = true;
        survey.state = None;
        return Ok(survey);
    };
    if let Some(missing) = listed.iter().find(|number| !present.contains(number)) {
        return Err(RelayError::Missing { file: file_name(*missing), named_by: "relay-bin.index" });
    }
    if let Some(state) = state
        && state.synced.file_number > last
    {
        return Err(RelayError::Missing { file: file_name(state.synced.file_number), named_by: "relay-log.state" });
    }
    survey.left_over = present.into_iter().filter(|number| !(first..=last).contains(number)).collect();
    survey.doomed.clone_from(&survey.left_over);
    survey.clean = state.is_some_and(|s| s.clean);
    walk_all(dir, &listed, state.unwrap_or(State::at(RelayPosition::default(), false)), &mut survey)?;
    Ok(survey)
}

fn check_gaps(present: &[u64]) -> Result<(), RelayError> {
    for pair in present.windows(2) {
        if let [before, after] = pair
            && before + 1 != *after
        {
            return Err(RelayError::Missing { file: file_name(before + 1), named_by: "the next file's number" });
        }
    }
    Ok(())
}

fn walk_all(dir: &Path, listed: &[u64], known: State, survey: &mut Survey) -> Result<(), RelayError> {
    for (i, &number) in listed.iter().enumerate() {
        let is_last = i + 1 == listed.len();
        let name = file_name(number);
        let (synced_len, whole_len) = match number.cmp(&known.synced.file_number) {
            Ordering::Less => (u64::MAX, u64::MAX),
            Ordering::Equal => (known.synced.offset, known.whole),
            Ordering::Greater => (0, 0),
        };
        let mut walk = walk_file(&dir.join(&name), number, synced_len)?;
        // Each file names what all files before it hold; the first one may follow purged files.
        if i > 0 && walk.boundary > 0 && walk.previous != survey.retrieved {
            return Err(RelayError::corrupt(
                &name,
                0,
                format!("its PREVIOUS_GTIDS are {}, the files before it hold {}", walk.previous, survey.retrieved),
            ));
        }
        if walk.problem.is_none() && !is_last && !walk.closed {
            let reason = "the file ends without the ROTATE that closes it".into();
            walk.problem = Some(Problem { offset: walk.len, reason, torn: true });
        }
        if let Some(problem) = &walk.problem {
            // Behind the synced length (always the end of an event) damage is what a power loss leaves. Before it only
            // a last file that is now shorter can be mended: what it lacks comes from the source again.
            let shortened = is_last && problem.torn && walk.len < synced_len;
            let in_synced = problem.offset < synced_len || walk.boundary < whole_len;
            if in_synced && !shortened {
                return Err(RelayError::corrupt(&name, problem.offset, problem.reason.clone()));
            }
        }
        let lost_whole = is_last && walk.problem.is_none() && walk.len < synced_len;
        if lost_whole {
            let reason = format!("the file has {} bytes of the {synced_len} that were synced", walk.len);
            survey.cut = Some(CutReport { file: name, from_len: synced_len, to_len: walk.len, reason });
            keep(survey, number, &walk);
            return Ok(());
        }
        let Some(problem) = walk.problem.clone() else {
            keep(survey, number, &walk);
            continue;
        };
        survey.cut = Some(CutReport { file: name, from_len: walk.len, to_len: walk.boundary, reason: problem.reason });
        survey.doomed.extend(listed.iter().skip(i + 1));
        if walk.boundary == 0 {
            survey.doomed.push(number);
        } else {
            keep(survey, number, &walk);
        }
        return Ok(());
    }
    Ok(())
}

fn keep(survey: &mut Survey, number: u64, walk: &FileWalk) {
    survey.files.push((number, walk.boundary.min(walk.len)));
    survey.retrieved.union_with(&walk.previous);
    survey.retrieved.union_with(&walk.gtids);
    if walk.source_position.is_some() {
        survey.source_position.clone_from(&walk.source_position);
    }
    survey.last_is_closed = walk.closed;
    survey.checksum = walk.checksum;
}

/// Makes the folder what the survey says and durable; returns the state file, written as not clean.
pub(crate) fn mend(dir: &Path, survey: &Survey) -> Result<StateFile, RelayError> {
    let mut state = StateFile::new(dir, survey.state);
    let end = survey.end();
    // In this order: never may the state claim what is being cut, nor the index name what is being deleted.
    state.lower(end)?;
    if survey.index_rebuilt || !survey.doomed.is_empty() {
        write_index(dir, survey.files.iter().map(|(number, _)| *number))?;
    }
    for number in &survey.doomed {
        let path = dir.join(file_name(*number));
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(RelayError::io("delete", &path, &e)),
            _ => {}
        }
    }
    let known = survey.state.map_or(0, |s| s.synced.file_number);
    for (number, len) in survey.files.iter().rev() {
        if *number < known {
            break;
        }
        let path = dir.join(file_name(*number));
        let io = |e| RelayError::io("cut and sync", &path, &e);
        let file = OpenOptions::new().write(true).open(&path).map_err(io)?;
        if file.metadata().map_err(io)?.len() != *len {
            file.set_len(*len).map_err(io)?;
        }
        file.sync_all().map_err(io)?;
    }
    sync_dir(dir)?;
    // Durably: a file without checksums is trusted on its word alone, and what follows it only if it is.
    state.write_durably(State::at(end, false))?;
    Ok(state)
}
