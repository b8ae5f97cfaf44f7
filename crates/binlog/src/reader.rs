//! Reads a binlog or relay log file event by event, each with its position.
//!
//! In: a file or any other input. Out: whole events, with their checksums verified unless the caller leaves that to a
//! later stage. Never here: a parsed body, a skipped event.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use base::LogPosition;

use crate::framer::Framer;
use crate::{
    BinlogError, ChecksumAlgorithm, EventHeader, FormatDescription, check_event_type, event_body, event_type,
    verify_checksum,
};

/// The first four bytes of a binlog.
pub const MAGIC: [u8; 4] = [0xfe, b'b', b'i', b'n'];
/// The first four bytes of an encrypted binlog.
pub const MAGIC_ENCRYPTED: [u8; 4] = [0xfd, b'b', b'i', b'n'];

/// A log file and the position of its next event. Reading stops at the first error, with one exception: after
/// [`BinlogError::Truncated`] the next call checks whether the file has grown.
#[derive(Debug)]
pub struct BinlogFile<R = File> {
    name: Arc<str>,
    framer: Framer<R>,
    format: FormatDescription,
    offset: u64,
    handed_out: usize,
    verify: bool,
}

/// One event of a file.
#[derive(Clone, Copy, Debug)]
pub struct FileEvent<'a> {
    /// Offset of its first byte. Unlike the header's `log_pos` it does not wrap at 4 GiB.
    pub offset: u64,
    /// Header of the event.
    pub header: EventHeader,
    /// The whole event, header and checksum included.
    pub bytes: &'a [u8],
    /// Checksum that the event ends with.
    pub checksum: ChecksumAlgorithm,
}

impl<'a> FileEvent<'a> {
    /// The event without header and checksum.
    pub fn body(&self) -> Result<&'a [u8], BinlogError> {
        event_body(self.bytes, self.checksum)
    }

    /// Offset of the first byte after it.
    pub fn end_offset(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl BinlogFile<File> {
    /// Opens a file at its first event, the format description.
    pub fn open(path: impl AsRef<Path>) -> Result<BinlogFile<File>, BinlogError> {
        let path = path.as_ref();
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let file = File::open(path).map_err(BinlogError::Io);
        match file {
            Ok(file) => BinlogFile::new(&name, file),
            Err(error) => Err(error.at(LogPosition { file: name.into(), offset: 0 }, "file header")),
        }
    }

    /// Opens a file at an offset where an event begins. The format description is read first.
    pub fn open_at(path: impl AsRef<Path>, offset: u64) -> Result<BinlogFile<File>, BinlogError> {
        let mut file = BinlogFile::open(path)?;
        file.seek(offset)?;
        Ok(file)
    }
}

impl<R: Read + Seek> BinlogFile<R> {
    /// Moves to an offset where an event begins. The format description last read stays in force.
    pub fn seek(&mut self, offset: u64) -> Result<(), BinlogError> {
        let offset = offset.max(MAGIC.len() as u64);
        let sought = self.framer.input().seek(SeekFrom::Start(offset)).map_err(BinlogError::Io);
        self.framer.forget();
        self.handed_out = 0;
        self.offset = offset;
        sought.map(|_| ()).map_err(|error| error.at(self.position(), "event header"))
    }
}

impl<R: Read> BinlogFile<R> {
    /// Reads a log from any input and calls it `name` in positions. Magic and format description are read at once.
    pub fn new(name: &str, input: R) -> Result<BinlogFile<R>, BinlogError> {
        let name: Arc<str> = name.into();
        let position = |offset| LogPosition { file: Arc::clone(&name), offset };
        let mut framer = Framer::new(input);
        check_magic(&mut framer).map_err(|error| error.at(position(0), "file header"))?;
        let offset = MAGIC.len() as u64;
        let format = match framer.peek_event() {
            Ok(Some((_, event))) => FormatDescription::parse(event),
            Ok(None) => Err(BinlogError::Truncated { need: EventHeader::LEN as u64, have: 0 }),
            Err(error) => Err(error),
        };
        let format = format.map_err(|error| error.at(position(offset), "Format_desc"))?;
        Ok(BinlogFile { name, framer, format, offset, handed_out: 0, verify: true })
    }

    /// Turns off verification of checksums, except those of format descriptions, for a stage that leaves it to a later
    /// one.
    pub fn without_verification(mut self) -> BinlogFile<R> {
        self.verify = false;
        self
    }

    /// Format description in force for the next event.
    pub fn format(&self) -> &FormatDescription {
        &self.format
    }

    /// Name the file was opened with.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Position of the next event.
    pub fn position(&self) -> LogPosition {
        LogPosition { file: Arc::clone(&self.name), offset: self.offset + self.handed_out as u64 }
    }

    /// Returns the next event, or `None` at the end of the file. Its length and checksum are verified. Events that must
    /// not be skipped (MariaDB's, rows of MySQL 5.1, unknown ones) are errors. Every error carries its position.
    pub fn next_event(&mut self) -> Result<Option<FileEvent<'_>>, BinlogError> {
        let taken = std::mem::take(&mut self.handed_out);
        self.framer.consume(taken);
        self.offset += taken as u64;
        let offset = self.offset;
        let position = || LogPosition { file: Arc::clone(&self.name), offset };
        match self.framer.peek_event() {
            Ok(None) => Ok(None),
            Ok(Some((header, bytes))) => {
                let verify = self.verify;
                let checksum = check(&header, bytes, verify, &mut self.format)
                    .map_err(|error| error.at(position(), header.name()))?;
                self.handed_out = bytes.len();
                Ok(Some(FileEvent { offset, header, bytes, checksum }))
            }
            Err(error) => Err(error.at(position(), "event header")),
        }
    }
}

fn check_magic<R: Read>(framer: &mut Framer<R>) -> Result<(), BinlogError> {
    let magic = framer.peek(MAGIC.len())?;
    if magic == MAGIC {
        framer.consume(MAGIC.len());
        return Ok(());
    }
    if magic == MAGIC_ENCRYPTED {
        return Err(BinlogError::Encrypted);
    }
    if MAGIC.starts_with(magic) {
        return Err(BinlogError::Truncated { need: MAGIC.len() as u64, have: magic.len() as u64 });
    }
    Err(BinlogError::NotABinlog { found: magic.to_vec() })
}

/// Verifies an event and adopts a new format description; returns which checksum the event carries.
fn check(
    header: &EventHeader,
    bytes: &[u8],
    verify: bool,
    format: &mut FormatDescription,
) -> Result<ChecksumAlgorithm, BinlogError> {
    if header.event_type == event_type::FORMAT_DESCRIPTION {
        *format = FormatDescription::parse(bytes)?;
        return Ok(if format.carries_own_checksum() { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::None });
    }
    check_event_type(header)?;
    if verify && format.checksum == ChecksumAlgorithm::Crc32 && !verify_checksum(bytes) {
        return Err(BinlogError::Checksum { event: header.name() });
    }
    Ok(format.checksum)
}
