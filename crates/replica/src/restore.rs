//! A data folder made of a backup.
//!
//! In: an archive of `backup`, a folder that is absent or empty. Out: a stopped replica's folder with a server_uuid of
//! its own. Never here: a folder that a replica takes before every checksum was compared and everything is durable.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use base::GtidSet;
use observe::fail_point::{self, Phase};
use serde_json::Value;
use store::{Disk, DiskOptions};

use crate::archive::{cut_off, read, unknown};
use crate::backup::{ACCOUNTS, ARCHIVE_FORMAT, BEGIN, BackupReport, END, FACTS, SKIPPED};
use crate::exit::{Exit, Failure};
use crate::failure::store_failure;
use crate::folder::{
    FORMAT_FILE, RESTORING_FILE, check_format, new_uuid_file, refuse_planted, sync_name, write_atomically,
};
use crate::lock::{FolderLock, LOCK_FILE};

/// Size of the buffer for contents, in bytes.
const BUFFER: usize = 256 << 10;
/// Largest accepted member that is read into memory, in bytes.
const SMALL_BYTES_MAX: u64 = 64 << 20;
/// The list of the relay log's files. Its lines are names of files in the same folder, and lead nowhere else.
const RELAY_INDEX: &str = "relay-log/relay-bin.index";
/// Folders of an archive.
const FOLDERS: [&str; 3] = ["relay-log", "store", "store/tables"];

/// Makes a data folder of an archive. The replica started on it has a server_uuid of its own and receives what came
/// after the backup.
///
/// # Errors
/// Code 2 if the folder is not empty; 7 with the name of what is damaged, missing or unknown in the archive; 8 for disk
/// errors. The folder is empty again then. After a kill it is refused as a data folder, and another restore empties it.
pub fn restore(from: &mut dyn Read, data: &Path) -> Result<BackupReport, Failure> {
    let failed = |error: io::Error| Failure::io(data.display(), &error);
    DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(failed)?;
    refuse_planted(data)?;
    refuse_filled(data)?;
    let lock = FolderLock::exclusive(data)?;
    // Again, now that nobody else fills it.
    refuse_filled(data)?;
    empty(data)?;
    sync_name(data).map_err(failed)?;
    write_atomically(&data.join(RESTORING_FILE), b"slipstream restore-folder\n")?;
    let restored = fill(from, data).and_then(|report| finish(data).map(|()| report));
    if restored.is_err() {
        // The reason is the first error; what stays is refused by its mark.
        let _ = empty(data).and_then(|()| fs::remove_file(data.join(RESTORING_FILE)).map_err(failed));
        drop(lock);
        let _ = fs::remove_file(data.join(LOCK_FILE));
    }
    restored
}

/// Refuses a folder with anything in it, but for what an interrupted restore left.
fn refuse_filled(data: &Path) -> Result<(), Failure> {
    if data.join(RESTORING_FILE).exists() {
        return Ok(());
    }
    let failed = |error: io::Error| Failure::io(data.display(), &error);
    for entry in fs::read_dir(data).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name != LOCK_FILE && name != "lost+found" {
            let text = format!("{} is not empty: it holds '{}'", data.display(), name.to_string_lossy());
            return Err(Failure::usage(text).with_hint("name a new folder with --data"));
        }
    }
    Ok(())
}

/// Removes everything but lock and mark.
fn empty(data: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::io(data.display(), &error);
    for entry in fs::read_dir(data).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if name == LOCK_FILE || name == RESTORING_FILE || name == "lost+found" {
            continue;
        }
        let is_folder = entry.file_type().map_err(failed)?.is_dir();
        let removed = if is_folder { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        removed.map_err(failed)?;
    }
    Ok(())
}

/// Writes the archive's members, and compares their checksums.
fn fill(from: &mut dyn Read, data: &Path) -> Result<BackupReport, Failure> {
    for folder in FOLDERS {
        let path = data.join(folder);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::io(path.display(), &error))?;
    }
    let (mut begun, mut formatted, mut report) = (false, false, None);
    read(from, &mut |name, content| {
        fail_point::enter(Phase::Restore);
        if !begun && name != BEGIN {
            return Err(unknown(name, &format!("it does not begin with {BEGIN}")));
        }
        match name {
            BEGIN => {
                check_begin(&small(name, content)?)?;
                begun = true;
            }
            END => {
                let found = serde_json::from_slice(&small(name, content)?);
                report = Some(sound(found.map_err(|error| unreadable(name, &error))?)?);
            }
            FORMAT_FILE => {
                let text = small(name, content)?;
                check_format(Path::new(name), &String::from_utf8_lossy(&text))?;
                place(&data.join(name), &mut text.as_slice())?;
                formatted = true;
            }
            RELAY_INDEX => {
                let text = small(name, content)?;
                let checked = relay_log::parse_index(&text);
                checked.map_err(|error| Failure::new(Exit::Corrupt, format!("{name} in the backup: {error}")))?;
                place(&data.join(name), &mut text.as_slice())?;
            }
            _ if is_known(name) => place(&data.join(name), content)?,
            _ => return Err(unknown(name, "this program writes no such file")),
        }
        Ok(())
    })?;
    match report {
        Some(report) if formatted => Ok(report),
        _ => {
            let name = if formatted { END } else { FORMAT_FILE };
            Err(Failure::new(Exit::Corrupt, format!("{name} is missing in the backup")))
        }
    }
}

/// Makes everything durable, and the folder a replica's.
fn finish(data: &Path) -> Result<(), Failure> {
    let sync = |path: &Path| {
        let synced = File::open(path).and_then(|folder| folder.sync_all());
        synced.map_err(|error| Failure::io(path.display(), &error))
    };
    // What the manifest names is there, and it is the one that `current` names.
    let store = data.join("store");
    drop(Disk::open_stopped(&store, DiskOptions { cache_bytes: 16 << 20 }).map_err(|error| store_failure(&error))?);
    for folder in FOLDERS {
        sync(&data.join(folder))?;
    }
    new_uuid_file(data)?;
    sync(data)?;
    let mark = data.join(RESTORING_FILE);
    fs::remove_file(&mark).map_err(|error| Failure::io(mark.display(), &error))?;
    sync(data)
}

/// Whether a backup may have a member of this name.
fn is_known(name: &str) -> bool {
    let number = |text: Option<&str>, digits: usize| {
        text.is_some_and(|text| text.len() >= digits && text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    FACTS.contains(&name)
        || [SKIPPED, ACCOUNTS, "store/current", "store/drift.json"].contains(&name)
        || name == "relay-log/relay-log.state"
        || number(name.strip_prefix("store/v"), 1)
        || number(name.strip_prefix("store/tables/"), 1)
        || number(name.strip_prefix("relay-log/relay-bin."), 6)
}

/// Refuses what no backup says of itself: the command prints it.
fn sound(report: BackupReport) -> Result<BackupReport, Failure> {
    let is_set = |text: &str| text.parse::<GtidSet>().is_ok();
    let is_time = report.ends_at.bytes().all(|byte| byte.is_ascii_graphic());
    if is_set(&report.gtid_executed) && is_set(&report.gtid_retrieved) && is_time {
        return Ok(report);
    }
    Err(Failure::new(Exit::Corrupt, format!("{END} in the backup: no GTID sets and time")))
}

fn check_begin(text: &[u8]) -> Result<(), Failure> {
    let found: Value = serde_json::from_slice(text).map_err(|error| unreadable(BEGIN, &error))?;
    let (format, program) = (found.get("slipstream_backup"), found.get("program"));
    if format.and_then(Value::as_u64) == Some(u64::from(ARCHIVE_FORMAT)) {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Corrupt,
        format!(
            "the backup has format {}, written by slipstream {}; this program reads format {ARCHIVE_FORMAT}: use the \
             release that wrote it",
            format.map_or("(none)".to_owned(), ToString::to_string),
            program.and_then(Value::as_str).unwrap_or("(unknown)").escape_debug()
        ),
    ))
}

fn unreadable(name: &str, error: &serde_json::Error) -> Failure {
    Failure::new(Exit::Corrupt, format!("{name} in the backup: {error}"))
}

fn reading(name: &str, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::UnexpectedEof => cut_off(name),
        _ => Failure::io(format!("reading {name} of the backup"), error),
    }
}

fn small(name: &str, content: &mut dyn Read) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    content.take(SMALL_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| reading(name, &error))?;
    if bytes.len() as u64 > SMALL_BYTES_MAX {
        return Err(unknown(name, "it is far too large"));
    }
    Ok(bytes)
}

/// Writes a new file, durably; its name is made durable at the end.
fn place(path: &Path, content: &mut dyn Read) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::io(path.display(), &error);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(reading(&path.display().to_string(), &error)),
        };
        file.write_all(buffer.get(..read).unwrap_or_default()).map_err(failed)?;
    }
    file.sync_all().map_err(failed)
}
