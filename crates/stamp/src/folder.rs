//! The served log on disk.
//!
//! In: [`Part`]s. Out: files `binlog.000001`…, `binlog.index`, and for the last file a record of where it begins.
//! Never here: a file in the index that is not synced; a name that counts before its folder is synced.
//!
//! The last file is not trusted after a stop of any kind: it is made again from its record, with the same bytes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base::LogPosition;
use catalog::Catalog;

use crate::{FileStart, Part, StampOptions, file_name};

/// First line of a record.
const RECORD: &str = "slipstream served log start 1";
/// Name of the list of all files.
const INDEX: &str = "binlog.index";
/// End of a record's name.
const RECORD_SUFFIX: &str = ".start";
/// Bytes gathered before a write.
const WRITE_BYTES: usize = 1 << 20;

/// Why the served log on disk cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// An operation of the operating system failed.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The folder holds something else.
    #[error("{} holds {name}, which is no part of a served log: name a new folder", path.display())]
    Foreign { path: PathBuf, name: String },
    /// The record of the last file cannot be read.
    #[error("{} is damaged ({what}): remove the folder, and stamp from the beginning", path.display())]
    Record { path: PathBuf, what: String },
    /// The folder was stamped with other settings, so that its last file would not get the same bytes.
    #[error("{} was stamped with other settings ({kept}; now {given}): name a new folder", path.display())]
    Settings {
        path: PathBuf,
        /// Settings of the folder.
        kept: String,
        /// Settings given.
        given: String,
    },
}

/// A folder that is being filled. After an error of [`put`](Self::put) it must be opened again.
pub struct ServedFolder {
    path: PathBuf,
    options: StampOptions,
    open: Option<(u64, File)>,
    gathered: Vec<u8>,
    /// Names of the complete files.
    complete: Vec<String>,
    bytes: u64,
}

impl ServedFolder {
    /// Opens a folder, which is created if absent. Returns where its last file began, if it has any: that file is
    /// removed, and everything from there on must be put again.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn open(path: &Path, options: &StampOptions) -> Result<(ServedFolder, Option<FileStart>), FolderError> {
        fs::create_dir_all(path).map_err(io_error("make", path))?;
        let mut numbers = Vec::new();
        let mut records = Vec::new();
        for entry in fs::read_dir(path).map_err(io_error("list", path))? {
            let entry = entry.map_err(io_error("list", path))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let number = name.strip_prefix("binlog.").map(|rest| rest.strip_suffix(RECORD_SUFFIX).unwrap_or(rest));
            match number.and_then(|number| number.parse::<u64>().ok()) {
                Some(number) if name.ends_with(RECORD_SUFFIX) => records.push(number),
                Some(number) => numbers.push(number),
                None if name == INDEX => {}
                // Left by a stop while it was written.
                None if name.ends_with(".new") => remove(&path.join(name))?,
                None => return Err(FolderError::Foreign { path: path.to_owned(), name }),
            }
        }
        let mut folder = ServedFolder {
            path: path.to_owned(),
            options: options.clone(),
            open: None,
            gathered: Vec::new(),
            complete: Vec::new(),
            bytes: 0,
        };
        let start = match records.iter().max() {
            Some(number) => Some(folder.read_record(*number)?),
            None if numbers.is_empty() => None,
            None => {
                let what = "the record of the last file is missing".to_owned();
                return Err(FolderError::Record { path: path.to_owned(), what });
            }
        };
        let first_open = start.as_ref().map_or(1, |start| start.number);
        for number in records.into_iter().filter(|number| *number < first_open) {
            remove(&folder.record(number))?;
        }
        numbers.sort_unstable();
        let (kept, open): (Vec<u64>, Vec<u64>) = numbers.into_iter().partition(|number| *number < first_open);
        for number in open {
            remove(&path.join(file_name(number)))?;
        }
        folder.complete.extend(kept.iter().copied().map(file_name));
        // Older ones may have been purged.
        let follow = |pair: &[u64]| matches!(pair, [one, next] if one + 1 == *next);
        if !kept.windows(2).all(follow) || kept.last().is_some_and(|last| last + 1 != first_open) {
            let what =
                format!("not all of the files from the first one there to the last, file {first_open}, are there");
            return Err(FolderError::Record { path: folder.record(first_open), what });
        }
        folder.write_index()?;
        Ok((folder, start))
    }

    /// Takes the next part.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put(&mut self, part: &Part<'_>) -> Result<(), FolderError> {
        match part {
            Part::Begin(start) => {
                self.write_record(start)?;
                // From now on a start begins there.
                if start.number > 1 && self.record(start.number - 1).exists() {
                    remove(&self.record(start.number - 1))?;
                }
                let path = self.path.join(file_name(start.number));
                let file = File::create(&path).map_err(io_error("make", &path))?;
                self.open = Some((start.number, file));
                sync_folder(&self.path)
            }
            Part::Bytes(bytes) => {
                self.gathered.extend_from_slice(bytes);
                if self.gathered.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
            }
            Part::End => {
                self.sync()?;
                if let Some((number, _)) = self.open.take() {
                    self.complete.push(file_name(number));
                }
                self.write_index()
            }
        }
    }

    /// Writes what was gathered, so that readers of the last file see it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush(&mut self) -> Result<(), FolderError> {
        let Some((number, file)) = &mut self.open else { return Ok(()) };
        file.write_all(&self.gathered).map_err(io_error("write", &self.path.join(file_name(*number))))?;
        self.bytes += self.gathered.len() as u64;
        self.gathered.clear();
        Ok(())
    }

    /// Makes everything put so far durable, and lists it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn sync(&mut self) -> Result<(), FolderError> {
        self.flush()?;
        let Some((number, file)) = &self.open else { return Ok(()) };
        file.sync_data().map_err(io_error("sync", &self.path.join(file_name(*number))))?;
        self.write_index()
    }

    /// Path of the oldest file, unless it is the last one.
    #[must_use]
    pub fn oldest(&self) -> Option<PathBuf> {
        self.complete.first().map(|name| self.path.join(name))
    }

    /// Removes the oldest file, unless it is the last one. The list lacks it before it is gone.
    ///
    /// # Errors
    /// The list cannot be written, or the file not be removed; the next start sees it again.
    pub fn purge_oldest(&mut self) -> Result<(), FolderError> {
        if self.complete.is_empty() {
            return Ok(());
        }
        let name = self.complete.remove(0);
        self.write_index()?;
        remove(&self.path.join(name))?;
        sync_folder(&self.path)
    }

    /// Number of files, the last one included.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.complete.len() as u64 + u64::from(self.open.is_some())
    }

    /// Bytes written since it was opened.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn record(&self, number: u64) -> PathBuf {
        self.path.join(file_name(number) + RECORD_SUFFIX)
    }

    fn write_index(&self) -> Result<(), FolderError> {
        let last = self.open.as_ref().map(|(number, _)| file_name(*number));
        let text: String = self.complete.iter().chain(&last).map(|name| format!("{name}\n")).collect();
        write_whole(&self.path.join(INDEX), text.as_bytes())
    }

    fn write_record(&self, start: &FileStart) -> Result<(), FolderError> {
        let path = self.record(start.number);
        let damaged =
            |error: &dyn std::fmt::Display| FolderError::Record { path: path.clone(), what: error.to_string() };
        let FileStart { number, at, executed, catalog, file_bytes } = start;
        let settings = settings(&self.options, *file_bytes);
        let mut text = format!("{RECORD}\n{settings}\n{number}\n{}\n{}\n{executed}\n", at.file, at.offset);
        let definitions = catalog.to_json().map_err(|error| damaged(&error))?;
        text.push_str(&String::from_utf8(definitions).map_err(|error| damaged(&error))?);
        text.push('\n');
        write_whole(&path, text.as_bytes())
    }

    fn read_record(&self, number: u64) -> Result<FileStart, FolderError> {
        let path = self.record(number);
        let damaged = |what: &str| FolderError::Record { path: path.clone(), what: what.to_owned() };
        let text = fs::read_to_string(&path).map_err(io_error("read", &path))?;
        let mut lines = text.splitn(7, '\n');
        let mut line = || lines.next().ok_or_else(|| damaged("it is cut off"));
        if line()? != RECORD {
            return Err(damaged("of another kind or version"));
        }
        let kept = line()?;
        // The file is made again with the size of its time.
        let own = settings(&self.options, self.options.file_bytes);
        let file_bytes = file_bytes_in(kept).unwrap_or(self.options.file_bytes);
        if kept != settings(&self.options, file_bytes) {
            return Err(FolderError::Settings { path: self.path.clone(), kept: kept.to_owned(), given: own });
        }
        let stated: u64 = line()?.parse().map_err(|_| damaged("no number"))?;
        let file = line()?.into();
        let offset = line()?.parse().map_err(|_| damaged("no offset"))?;
        let executed = line()?.parse().map_err(|_| damaged("no GTID set"))?;
        let definitions = line()?.strip_suffix('\n').ok_or_else(|| damaged("it is cut off"))?;
        let catalog = Catalog::from_json(definitions.as_bytes()).map_err(|error| damaged(&error.to_string()))?;
        if stated != number {
            return Err(damaged("of another file"));
        }
        Ok(FileStart { number, at: LogPosition { file, offset }, executed, catalog, file_bytes })
    }
}

/// What the bytes of a file depend on beside the log.
fn settings(options: &StampOptions, file_bytes: u64) -> String {
    let StampOptions { tracking, history_size, server_id, file_bytes: _ } = options;
    format!("tracking {tracking:?}, history {history_size}{FILES_OF}{file_bytes} bytes, server id {server_id}")
}

/// In a record, before the size of its file.
const FILES_OF: &str = ", files of ";

fn file_bytes_in(settings: &str) -> Option<u64> {
    settings.split_once(FILES_OF)?.1.split_once(' ')?.0.parse().ok()
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |error| FolderError::Io { action, path, error }
}

fn remove(path: &Path) -> Result<(), FolderError> {
    fs::remove_file(path).map_err(io_error("remove", path))
}

fn sync_folder(path: &Path) -> Result<(), FolderError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(io_error("sync", path))
}

/// Writes a file that is there as a whole or, after a crash, as it was.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(io_error("write", &new))?;
    fs::rename(&new, path).map_err(io_error("write", path))?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}
