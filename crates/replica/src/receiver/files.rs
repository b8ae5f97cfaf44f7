//! Binlog files as the source.
//!
//! In: a file, or an index that lists them. Out: their events at the end of the relay log. Never here: a server.

use std::path::{Path, PathBuf};

use binlog::reader::BinlogFile;
use observe::ConnectionState;

use super::link::Link;
use super::log_end::LogEnd;
use crate::exit::{Exit, Failure};
use crate::failure::{binlog_failure, relay_failure};

/// Bytes of a file between two progress updates.
const PROGRESS_BYTES: u64 = 4 << 20;

/// The binlog file itself, or the files that an index lists.
pub(crate) fn list_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if path.extension().is_none_or(|e| e != "index") {
        return Ok(vec![path.to_path_buf()]);
    }
    let text = std::fs::read_to_string(path).map_err(|e| Failure::io(path.display(), &e))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let files: Vec<PathBuf> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| folder.join(line)).collect();
    if files.is_empty() {
        return Err(Failure::new(Exit::Corrupt, format!("{} lists no file", path.display())));
    }
    Ok(files)
}

/// Receives all of the files, or stops when it is told to.
pub(super) fn receive(end: &mut LogEnd, link: &Link, files: &[PathBuf]) -> Result<(), Failure> {
    link.lock().source.connection = ConnectionState::Files;
    for path in files {
        receive_file(end, link, path)?;
        end.note_progress();
        if link.must_end() {
            return Ok(());
        }
    }
    end.flush()?;
    end.note_progress();
    link.lock().received.files_done = true;
    Ok(())
}

fn receive_file(end: &mut LogEnd, link: &Link, path: &Path) -> Result<(), Failure> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut file = BinlogFile::open(path).map_err(binlog_failure)?.without_verification();
    end.begin_file(&name);
    while let Some(event) = file.next_event().map_err(binlog_failure)? {
        let offset = event.offset;
        if let Some(need) = end.lacks_room_for(event.bytes) {
            end.wait_for_room(need)?;
            link.lock().source.connection = ConnectionState::Files;
        }
        end.event(event.bytes).map_err(|e| {
            let mut failure = relay_failure(e);
            failure.text = format!("{name} at offset {offset}: {}", failure.text);
            failure
        })?;
        if end.uncounted_bytes() >= PROGRESS_BYTES {
            end.note_progress();
        }
        if link.must_end() {
            return Ok(());
        }
    }
    if end.in_transaction() {
        let text = format!("{name} ends in the middle of a transaction: the file is truncated");
        return Err(Failure::new(Exit::Corrupt, text));
    }
    Ok(())
}
