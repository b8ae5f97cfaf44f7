//! The log that is served: its files in order, and what a source says of itself.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use base::{GtidSet, Uuid};
use binlog::reader::BinlogFile;
use binlog::{ChecksumAlgorithm, GtidEvent, PreviousGtids, event_type};

/// Whether an event of this type opens a transaction.
pub(crate) fn opens(event_type: u8) -> bool {
    matches!(event_type, event_type::GTID | event_type::ANONYMOUS_GTID | event_type::GTID_TAGGED)
}

/// One file.
#[derive(Debug)]
pub(crate) struct LogFile {
    pub path: PathBuf,
    pub name: String,
    /// What earlier files hold, as this one says.
    pub previous: GtidSet,
    pub bytes: u64,
    /// Sent at full speed.
    pub load: bool,
}

/// All files, and the source they come from.
#[derive(Debug)]
pub struct RecordedLog {
    pub(crate) files: Vec<LogFile>,
    /// Of all transactions in or before the files.
    pub(crate) executed: GtidSet,
    /// Of those before the first file.
    pub(crate) purged: GtidSet,
    pub(crate) transactions: u64,
    pub(crate) server_version: String,
    pub(crate) server_id: u32,
    pub(crate) server_uuid: Uuid,
    pub(crate) checksum: ChecksumAlgorithm,
}

impl RecordedLog {
    /// Reads all files once: their transactions' GTIDs. Those of `load` are sent first, at full speed.
    ///
    /// # Errors
    /// When a file cannot be read, or a replica could not ask for it.
    pub fn read(load: &[PathBuf], logs: &[PathBuf]) -> Result<RecordedLog> {
        let mut log = RecordedLog {
            files: Vec::new(),
            executed: GtidSet::new(),
            purged: GtidSet::new(),
            transactions: 0,
            server_version: String::new(),
            server_id: 0,
            server_uuid: Uuid([0; 16]),
            checksum: ChecksumAlgorithm::Crc32,
        };
        for (path, load) in load.iter().map(|path| (path, true)).chain(logs.iter().map(|path| (path, false))) {
            log.file(path, load).with_context(|| path.display().to_string())?;
        }
        let names: HashSet<&str> = log.files.iter().map(|file| file.name.as_str()).collect();
        ensure!(names.len() == log.files.len(), "two files of the log have the same name: a source's have not");
        ensure!(log.transactions > 0, "no transaction in the log");
        Ok(log)
    }

    fn file(&mut self, path: &Path, load: bool) -> Result<()> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut file = BinlogFile::open(path)?.without_verification();
        let first = self.files.is_empty();
        if first {
            self.server_version.clone_from(&file.format().server_version);
            self.checksum = file.format().checksum;
        }
        let mut previous = None;
        while let Some(event) = file.next_event()? {
            match event.header.event_type {
                event_type::PREVIOUS_GTIDS => previous = Some(PreviousGtids::parse(event.body()?)?.set),
                event_type::FORMAT_DESCRIPTION if first && self.server_id == 0 => {
                    self.server_id = event.header.server_id
                }
                kind if opens(kind) => {
                    let Some(gtid) = GtidEvent::parse(event.header.event_type, event.body()?)?.gtid else {
                        bail!("a transaction without GTID: replicas ask by GTID")
                    };
                    if self.transactions == 0 {
                        self.server_uuid = gtid.uuid;
                    }
                    self.transactions += 1;
                    self.executed.add(gtid);
                }
                _ => {}
            }
        }
        let previous = previous.context("no Previous_gtids event at its beginning")?;
        if first {
            self.purged = previous.clone();
        }
        self.executed.union_with(&previous);
        let bytes = std::fs::metadata(path)?.len();
        self.files.push(LogFile { path: path.to_owned(), name, previous, bytes, load });
        Ok(())
    }

    /// Where a replica that has `executed` begins: the last file in front of which there is nothing it lacks.
    pub(crate) fn first_file(&self, executed: &GtidSet) -> Option<usize> {
        self.files.iter().rposition(|file| file.previous.is_subset_of(executed))
    }

    pub(crate) fn about(&self) -> String {
        let bytes: u64 = self.files.iter().map(|file| file.bytes).sum();
        format!(
            "{} transactions in {} files, {:.1} MB, as MySQL {} with server id {}",
            self.transactions,
            self.files.len(),
            bytes as f64 / 1e6,
            self.server_version,
            self.server_id
        )
    }
}
