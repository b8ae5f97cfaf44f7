//! Binlog files as a source: one file, or all files that an index lists, in order.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binlog::reader::{BinlogFile, FileEvent, MAGIC, MAGIC_ENCRYPTED};
use binlog::{BinlogError, Rotate, event_type};

/// Errors of reading binlog files.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file could not be read.
    #[error("{path}: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The file is neither a log nor an index.
    #[error("{}: an empty file, neither a binary log nor an index", path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file is damaged or of an unsupported format.
    #[error(transparent)]
    Binlog(#[from] BinlogError),
    /// Files that are not consecutive.
    #[error("{message}")]
    Order {
        /// Which files, and why.
        message: String,
    },
}

type Result<T> = std::result::Result<T, FileError>;

/// Largest accepted index file in bytes; enough for a million binlogs.
const INDEX_LEN_MAX: u64 = 32 << 20;

/// Events of binlog files in order.
#[derive(Debug)]
pub struct FileSource {
    paths: Vec<PathBuf>,
    /// Index of the open file in `paths`.
    at: usize,
    file: BinlogFile,
    file_len: u64,
    /// End offset of the last returned event.
    end_offset: u64,
    /// File that the Rotate event of the open file names.
    announced: Option<String>,
    /// True if there are no more events: at the end, or after an error.
    done: bool,
}

impl FileSource {
    /// Opens `path`: a binlog, or an index that lists binlogs (relative paths are relative to its folder). The file's
    /// first bytes decide, not its name.
    pub fn open(path: &Path) -> Result<FileSource> {
        let io_error = |error| FileError::File { path: path.to_owned(), error };
        let mut head = Vec::new();
        File::open(path).map_err(io_error)?.take(4).read_to_end(&mut head).map_err(io_error)?;
        let paths =
            if head == MAGIC || head == MAGIC_ENCRYPTED { vec![path.to_owned()] } else { index_entries(path, head)? };
        let first = paths.first().ok_or_else(|| FileError::Empty { path: path.to_owned() })?;
        let (file, file_len) = open(first)?;
        Ok(FileSource { file, file_len, paths, at: 0, end_offset: 0, announced: None, done: false })
    }

    /// Paths of the files, in order.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Name of the open file without its folder.
    pub fn file_name(&self) -> &Arc<str> {
        self.file.name()
    }

    /// Returns the next event with its position, or `None` at the end of the last file. Each file begins with its
    /// format description. After an error it returns no more events.
    pub fn next_event(&mut self) -> Result<Option<FileEvent<'_>>> {
        while !self.done && self.end_offset >= self.file_len {
            self.done = true;
            if !self.next_file()? {
                return Ok(None);
            }
            self.done = false;
        }
        if std::mem::replace(&mut self.done, true) {
            return Ok(None);
        }
        let event = self.file.next_event()?;
        if let Some(event) = &event {
            self.done = false;
            self.end_offset = event.end_offset();
            if event.header.event_type == event_type::ROTATE {
                let rotate = Rotate::parse(event.body()?)?;
                self.announced = Some(String::from_utf8_lossy(rotate.file).into_owned());
            }
        }
        Ok(event)
    }

    /// Opens the next file; false if there is none.
    fn next_file(&mut self) -> Result<bool> {
        self.at += 1;
        let Some(path) = self.paths.get(self.at) else { return Ok(false) };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(announced) = self.announced.take().filter(|announced| *announced != name) {
            let message = format!(
                "{} continues in {announced}, but the index names {name} next: a file is missing or out of order",
                self.file.name()
            );
            return Err(FileError::Order { message });
        }
        (self.file, self.file_len) = open(path)?;
        self.end_offset = 0;
        Ok(true)
    }
}

fn open(path: &Path) -> Result<(BinlogFile, u64)> {
    let file = BinlogFile::open(path)?;
    let metadata = std::fs::metadata(path).map_err(|error| FileError::File { path: path.to_owned(), error })?;
    Ok((file, metadata.len()))
}

/// Reads an index file; content that does not name existing files is reported as not a binlog.
fn index_entries(path: &Path, head: Vec<u8>) -> Result<Vec<PathBuf>> {
    let io_error = |error| FileError::File { path: path.to_owned(), error };
    let not_ours = || FileError::Binlog(BinlogError::NotABinlog { found: head.clone() });
    if std::fs::metadata(path).map_err(io_error)?.len() > INDEX_LEN_MAX {
        return Err(not_ours());
    }
    let bytes = std::fs::read(path).map_err(io_error)?;
    let text = std::str::from_utf8(&bytes).ok().filter(|text| !text.contains('\0')).ok_or_else(not_ours)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut paths = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let entry = folder.join(line);
        if !entry.is_file() {
            // If the first line names no file, this is more likely a wrong file than a missing binlog.
            return Err(if paths.is_empty() && !line.contains('.') {
                not_ours()
            } else {
                let error = std::io::Error::new(std::io::ErrorKind::NotFound, format!("listed in {}", path.display()));
                FileError::File { path: entry, error }
            });
        }
        paths.push(entry);
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use binlog::writer::BinlogWriter;
    use binlog::{ChecksumAlgorithm, FormatDescription};

    fn write_file(folder: &Path, name: &str, next: Option<&str>) -> usize {
        let format = FormatDescription::new("9.7.4", ChecksumAlgorithm::Crc32);
        let mut writer = BinlogWriter::start_file(1, 0, &format);
        writer.statement(b"d", b"CREATE TABLE t (i INT)");
        if let Some(next) = next {
            writer.rotate(next.as_bytes(), 4);
        }
        let bytes = writer.take();
        std::fs::write(folder.join(name), &bytes).unwrap();
        bytes.len()
    }

    fn types(source: &mut FileSource) -> Result<Vec<(u8, String)>> {
        let mut types = Vec::new();
        loop {
            let name = |source: &FileSource| source.file_name().to_string();
            let Some(event) = source.next_event()?.map(|event| event.header.event_type) else { return Ok(types) };
            types.push((event, name(source)));
        }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("slipstream-files-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn an_index_and_a_single_file() {
        let folder = folder("index");
        write_file(&folder, "b.1", Some("b.2"));
        write_file(&folder, "b.2", None);
        std::fs::write(folder.join("b.index"), "./b.1\n./b.2\n").unwrap();
        let found = types(&mut FileSource::open(&folder.join("b.index")).unwrap()).unwrap();
        let found: Vec<(u8, &str)> = found.iter().map(|(ty, name)| (*ty, name.as_str())).collect();
        let expected = [(15, "b.1"), (2, "b.1"), (4, "b.1"), (15, "b.2"), (2, "b.2")];
        assert_eq!(found, expected);
        assert_eq!(types(&mut FileSource::open(&folder.join("b.2")).unwrap()).unwrap().len(), 2);
        std::fs::write(folder.join("gap.index"), "b.1\nb.1\n").unwrap();
        let error = types(&mut FileSource::open(&folder.join("gap.index")).unwrap()).unwrap_err();
        assert!(error.to_string().contains("continues in b.2, but the index names b.1"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_log_is_said_so() {
        let folder = folder("bad");
        let len = write_file(&folder, "b.1", None);
        let cut = std::fs::read(folder.join("b.1")).unwrap();
        std::fs::write(folder.join("cut"), &cut[..len - 3]).unwrap();
        std::fs::write(folder.join("empty"), "").unwrap();
        std::fs::write(folder.join("binary"), [0u8, 159, 146, 150, 0]).unwrap();
        std::fs::write(folder.join("text"), "hello\n").unwrap();
        std::fs::write(folder.join("lost.index"), "b.1\nb.2\n").unwrap();
        std::fs::write(folder.join("encrypted"), b"\xfdbin1234").unwrap();
        let mut source = FileSource::open(&folder.join("cut")).unwrap();
        assert!(matches!(types(&mut source), Err(FileError::Binlog(error)) if error.is_truncated()));
        assert!(source.next_event().unwrap().is_none());
        for (name, expected) in [
            ("empty", "an empty file"),
            ("binary", "not a binary log"),
            ("text", "not a binary log"),
            ("lost.index", "b.2: listed in"),
            ("encrypted", "encrypted"),
            ("nothing", "No such file"),
        ] {
            let error = FileSource::open(&folder.join(name)).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
