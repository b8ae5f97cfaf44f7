//! The served log, and facts about its server.
//!
//! In: recorded files, read once, or a relay log. Out: the start of a dump, facts. Never here: a dump.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use base::{GtidSet, Uuid};
use binlog::reader::BinlogFile;
use binlog::{ChecksumAlgorithm, GtidEvent, PreviousGtids, event_type};

use crate::relay::{Identity, RelaySource};
use crate::{Result, ServeError};

/// A log to serve.
pub enum LogFiles {
    /// Files that do not change.
    Recorded(RecordedLog),
    /// A relay log that may grow.
    RelayLog(RelaySource),
}

/// Facts that the server of a log reports about itself.
#[derive(Debug)]
pub(crate) struct Facts {
    pub server_version: String,
    pub server_id: u32,
    pub server_uuid: Uuid,
    pub checksum: ChecksumAlgorithm,
    /// GTIDs of all transactions that the log has or had.
    pub executed: GtidSet,
    /// GTIDs out of `executed` that it can no longer send.
    pub purged: GtidSet,
    /// Names and lengths in bytes of the files that can be requested by name.
    pub files: Vec<(String, u64)>,
    /// True if SHOW BINARY LOGS lists the files. False where each dump changes events (fresh commit times): whoever looks
    /// for an event in a listed file expects it as it was sent.
    pub listed: bool,
}

impl LogFiles {
    pub(crate) fn facts(&self) -> Facts {
        match self {
            LogFiles::Recorded(log) => Facts {
                server_version: log.server_version.clone(),
                server_id: log.server_id,
                server_uuid: log.server_uuid,
                checksum: log.checksum,
                executed: log.executed.clone(),
                purged: log.purged.clone(),
                files: log.files.iter().map(|file| (file.name.clone(), file.bytes)).collect(),
                listed: true,
            },
            LogFiles::RelayLog(relay) => Facts {
                server_version: relay.identity.server_version.clone(),
                server_id: relay.identity.server_id,
                server_uuid: relay.identity.server_uuid,
                checksum: relay.identity.checksum,
                executed: (relay.executed)(),
                purged: relay.shared.before_first_file(),
                files: Vec::new(),
                listed: true,
            },
        }
    }

    /// Server id and checksum algorithm for events that are not in a file.
    pub(crate) fn dump_facts(&self) -> (u32, ChecksumAlgorithm) {
        match self {
            LogFiles::Recorded(log) => (log.server_id, log.checksum),
            LogFiles::RelayLog(relay) => (relay.identity.server_id, relay.identity.checksum),
        }
    }

    /// Describes the log in the line that announces the server.
    pub(crate) fn about(&self) -> String {
        match self {
            LogFiles::Recorded(log) => log.about(),
            LogFiles::RelayLog(relay) => {
                let Identity { server_version, server_id, .. } = &relay.identity;
                format!("a relay log, as MySQL {server_version} with server id {server_id}")
            }
        }
    }
}

/// True if an event of this type opens a transaction.
pub(crate) fn opens(event_type: u8) -> bool {
    matches!(event_type, event_type::GTID | event_type::ANONYMOUS_GTID | event_type::GTID_TAGGED)
}

/// One file of a recorded log.
#[derive(Debug)]
pub(crate) struct LogFile {
    pub path: PathBuf,
    pub name: String,
    /// GTIDs of earlier files, as stated in this file.
    pub previous: GtidSet,
    pub bytes: u64,
    /// True if it is sent at full speed.
    pub load: bool,
}

/// All files, and facts about their source.
#[derive(Debug)]
pub struct RecordedLog {
    pub(crate) files: Vec<LogFile>,
    /// GTIDs of all transactions in or before the files.
    pub(crate) executed: GtidSet,
    /// GTIDs of all transactions before the first file.
    pub(crate) purged: GtidSet,
    pub(crate) transactions: u64,
    pub(crate) server_version: String,
    pub(crate) server_id: u32,
    pub(crate) server_uuid: Uuid,
    pub(crate) checksum: ChecksumAlgorithm,
}

impl RecordedLog {
    /// Reads all files once for the GTIDs of their transactions. The files of `load` are sent first, at full speed.
    ///
    /// # Errors
    /// A file cannot be read, or a replica could not request it.
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
            log.file(path, load)?;
        }
        let names: HashSet<&str> = log.files.iter().map(|file| file.name.as_str()).collect();
        if names.len() != log.files.len() {
            return Err(ServeError::Unfit("two files of the log have the same name: a source's have not".into()));
        }
        if log.transactions == 0 {
            return Err(ServeError::Unfit("no transaction in the log".into()));
        }
        Ok(log)
    }

    fn file(&mut self, path: &Path, load: bool) -> Result<()> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let unfit = |what: &str| ServeError::Unfit(format!("{}: {what}", path.display()));
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
                        return Err(unfit("a transaction without GTID: replicas ask by GTID"));
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
        let previous = previous.ok_or_else(|| unfit("no Previous_gtids event at its beginning"))?;
        if first {
            self.purged = previous.clone();
        }
        self.executed.union_with(&previous);
        let bytes = std::fs::metadata(path).map_err(ServeError::io(format!("look at {}", path.display())))?.len();
        self.files.push(LogFile { path: path.to_owned(), name, previous, bytes, load });
        Ok(())
    }

    /// First file for a replica that has `executed`: the last file that is preceded by nothing that the replica lacks.
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
