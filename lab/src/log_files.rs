//! Writes consecutive binlog files, and the indexes that list them.
//!
//! In: events, through a [`BinlogWriter`]. Out: files as a source would leave them, in a new folder. Never here: more
//! than [`WRITE_BYTES`] and one transaction of the log in memory.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base::{Gtid, GtidSet};
use binlog::FormatDescription;
use binlog::writer::BinlogWriter;

/// Bytes gathered before a write.
const WRITE_BYTES: usize = 1 << 20;

/// Binlog files being written to a folder.
pub(crate) struct LogFiles {
    folder: PathBuf,
    /// Bytes after which the next transaction starts a new file.
    file_bytes: u64,
    format: FormatDescription,
    open: Option<(File, BinlogWriter)>,
    names: Vec<String>,
    executed: GtidSet,
    bytes: u64,
}

impl LogFiles {
    /// Starts in a new or empty folder.
    pub(crate) fn create(folder: &Path, file_bytes: u64, format: FormatDescription) -> anyhow::Result<LogFiles> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        if std::fs::read_dir(folder)?.next().is_some() {
            bail!("folder {} is not empty", folder.display());
        }
        let (names, executed) = (Vec::new(), GtidSet::new());
        Ok(LogFiles { folder: folder.to_owned(), file_bytes, format, open: None, names, executed, bytes: 0 })
    }

    /// Ensures that a file with room is open; returns true if it is new. Call it between transactions only.
    pub(crate) fn open(&mut self, server_id: u32, timestamp: u32) -> anyhow::Result<bool> {
        if self.open.as_ref().is_some_and(|(_, writer)| writer.position() >= self.file_bytes) {
            self.end_file(true)?;
        }
        if self.open.is_some() {
            return Ok(false);
        }
        let name = format!("binlog.{:06}", self.names.len() + 1);
        let path = self.folder.join(&name);
        let file = File::create_new(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let mut writer = BinlogWriter::start_file(server_id, timestamp, &self.format);
        writer.previous_gtids(&self.executed);
        self.names.push(name);
        self.open = Some((file, writer));
        Ok(true)
    }

    /// Writer of the open file.
    pub(crate) fn writer(&mut self) -> anyhow::Result<&mut BinlogWriter> {
        self.open.as_mut().map(|(_, writer)| writer).context("no binlog file is open")
    }

    /// Records that a transaction of this GTID is in the log.
    pub(crate) fn executed(&mut self, gtid: Gtid) {
        self.executed.add(gtid);
    }

    /// Writes the gathered bytes once there are enough.
    pub(crate) fn write_gathered(&mut self) -> anyhow::Result<()> {
        if self.open.as_ref().is_some_and(|(_, writer)| writer.bytes().len() >= WRITE_BYTES) {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let Some((file, writer)) = &mut self.open else { return Ok(()) };
        let bytes = writer.take();
        self.bytes += bytes.len() as u64;
        file.write_all(&bytes).with_context(|| format!("cannot write to {}", self.folder.display()))
    }

    /// Ends the open file: with a pointer to the next one, or as a server that stops does.
    pub(crate) fn end_file(&mut self, goes_on: bool) -> anyhow::Result<()> {
        let next = format!("binlog.{:06}", self.names.len() + 1);
        if let Some((_, writer)) = &mut self.open {
            if goes_on {
                writer.rotate(next.as_bytes(), 4);
            } else {
                writer.stop();
            }
        }
        self.flush()?;
        self.open = None;
        Ok(())
    }

    /// Number of files begun so far.
    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// Bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes an index of the files from number `from` on; returns their number.
    pub(crate) fn index(&self, name: &str, from: usize) -> anyhow::Result<usize> {
        self.index_without(name, from, None)
    }

    /// As `index`, with one file left out.
    pub(crate) fn index_without(&self, name: &str, from: usize, without: Option<usize>) -> anyhow::Result<usize> {
        let listed = self.names.iter().enumerate().skip(from).filter(|(at, _)| Some(*at) != without);
        let names: Vec<&str> = listed.map(|(_, name)| name.as_str()).collect();
        let text: String = names.iter().map(|name| format!("{name}\n")).collect();
        let path = self.folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(names.len())
    }
}
