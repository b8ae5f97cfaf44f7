//! Before an engine: what kind the folder is, where its served log begins, and the files that are complete.
//!
//! In: the folder, the configuration, the source for a relay's empty folder. Out: [`RelayBase`]. Never here: threads; a
//! served file that is not whole.

use std::path::Path;
use std::sync::Arc;

use base::GtidSet;
use binlog::reader::BinlogFile;
use binlog::{PreviousGtids, event_type};
use client::Connection;
use serve::{GrowingFile, GrowingLog};
use stamp::{FileStart, ServedFolder, StampOptions, file_name};

use super::holds::Holds;
use super::serving::Serving;
use super::stamping::folder_failure;
use super::{RelayConfig, RelayStart};
use crate::config::ServerOptions;
use crate::exit::{Exit, Failure};
use crate::failure::{binlog_failure, shown_set, source_failure};
use crate::folder::{Folder, read_small, write_atomically};
use crate::log::{self, Code};
use crate::login::{SourceLogin, for_question};

/// First line of the file with the set that the served log begins after.
const FORMAT: &str = "slipstream relay start 1";

/// What a relay begins with.
pub struct RelayBase {
    /// GTIDs that the served log begins after.
    pub(crate) start: GtidSet,
    /// Where its last file begins, which is made again.
    pub(crate) last: Option<FileStart>,
    /// The served log, with its complete files.
    pub serving: Arc<Serving>,
}

impl RelayBase {
    /// Looks at the folder. That of an empty one is decided here, durably.
    ///
    /// # Errors
    /// The folder is a replica's, its files are unusable, or the source cannot be asked where to begin.
    pub fn open(config: &RelayConfig, folder: &Folder, login: Option<&Arc<SourceLogin>>) -> Result<RelayBase, Failure> {
        let start = match kept_start(&folder.relay_start())? {
            Some(begin) => begin.after,
            None => {
                if folder.relay_log().exists() || folder.store().exists() {
                    let text = format!("{} is a replica's data folder, not a relay's", folder.path().display());
                    return Err(Failure::usage(text).with_hint("name another folder: --data DIR"));
                }
                let start = first_start(config, login)?;
                keep_start(&folder.relay_start(), &LogBegin { after: start.clone(), first: 1 })?;
                start
            }
        };
        let begin = LogBegin { after: start.clone(), first: 1 };
        let (last, log) = served_files(folder, &config.stamps(folder), &begin)?;
        let serving = Serving::new(log, Holds::open(folder)?, config.serve.ack_after_replicas);
        Ok(RelayBase { start, last, serving: Arc::new(serving) })
    }
}

/// Where a served log begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogBegin {
    pub after: GtidSet,
    /// Number of its first file.
    pub first: u64,
}

/// The files of a served log: where the last one begins, which must be made again, and the
/// log with the complete ones.
///
/// # Errors
/// The files are unusable.
pub(crate) fn served_files(
    folder: &Folder,
    stamps: &StampOptions,
    begin: &LogBegin,
) -> Result<(Option<FileStart>, Arc<GrowingLog>), Failure> {
    let path = folder.served_log();
    let (_, last) = ServedFolder::open(&path, stamps).map_err(folder_failure)?;
    let next = last.as_ref().map_or(begin.first, |last| last.number);
    // Older ones may have been purged.
    let is_there = |number: &u64| path.join(file_name(*number)).exists();
    let first = (1..next).rev().take_while(is_there).last().unwrap_or(next);
    let mut files = Vec::new();
    for number in first..next {
        files.push(complete_file(&path, number)?);
    }
    let executed = last.as_ref().map_or_else(|| begin.after.clone(), |last| last.executed.clone());
    let log = GrowingLog::new(&path, stamps.server_id, files, first, executed.clone(), executed);
    Ok((last, log))
}

/// True if the folder is a relay's.
pub(crate) fn is_relays(folder: &Folder) -> bool {
    folder.relay_start().exists()
}

/// Where a served log begins, as a file keeps it; None without that file.
///
/// # Errors
/// Code 7 if the file is damaged; 8 for disk errors.
pub(crate) fn kept_start(path: &Path) -> Result<Option<LogBegin>, Failure> {
    let Some(text) = read_small(path)? else { return Ok(None) };
    let broken = || Failure::new(Exit::Corrupt, format!("{}: not what a relay writes", path.display()));
    let mut lines = text.lines();
    let (format, set) = (lines.next().unwrap_or_default(), lines.next().ok_or_else(broken)?);
    let first = lines.next().map_or(Ok(1), |line| line.parse().map_err(|_| broken()))?;
    if format != FORMAT || lines.next().is_some() {
        return Err(broken());
    }
    Ok(Some(LogBegin { after: set.parse().map_err(|_| broken())?, first }))
}

/// Keeps that file, durably.
///
/// # Errors
/// Code 8 for disk errors.
pub(crate) fn keep_start(path: &Path, begin: &LogBegin) -> Result<(), Failure> {
    let LogBegin { after, first } = begin;
    // The files of a relay's own log have no others before them.
    let number = if *first > 1 { format!("{first}\n") } else { String::new() };
    write_atomically(path, format!("{FORMAT}\n{after}\n{number}").as_bytes())?;
    log::write(Code::RelayBegins, "Stamp", &format!("the served log begins after GTIDs {}", shown_set(after)));
    Ok(())
}

/// Where the served log of an empty folder begins.
fn first_start(config: &RelayConfig, login: Option<&Arc<SourceLogin>>) -> Result<GtidSet, Failure> {
    let Some(login) = login else {
        return Err(Failure::usage("a relay needs a server as its source: --source mysql://USER@HOST:PORT"));
    };
    let purged = login.with_any(|server| {
        let options = for_question(server.connect_options()?);
        let mut source = Connection::connect(&options).map_err(|error| source_failure(&error))?;
        gtids_of(&mut source, "SELECT @@GLOBAL.gtid_purged", "the source")
    })?;
    let start = match &config.start {
        RelayStart::Oldest => return Ok(purged),
        RelayStart::After(set) => set.clone(),
        RelayStart::Server(server) => executed_of(server)?,
    };
    let missing = purged.subtract(&start);
    if missing.is_empty() {
        return Ok(start);
    }
    let text = format!(
        "the source has purged transactions that --start asks for: {missing}; a replica that lacks them must be rebuilt"
    );
    Err(Failure::new(Exit::SourcePurged, text).with_number(1236).with_hint("--start=oldest"))
}

/// What a server has executed.
///
/// # Errors
/// It cannot be asked.
pub(crate) fn executed_of(server: &ServerOptions) -> Result<GtidSet, Failure> {
    let options = for_question(server.connect_options()?);
    let mut connection = Connection::connect(&options).map_err(|error| source_failure(&error))?;
    gtids_of(&mut connection, "SELECT @@GLOBAL.gtid_executed", &server.shown())
}

fn gtids_of(connection: &mut Connection, what: &'static str, whose: &str) -> Result<GtidSet, Failure> {
    let answer = connection.query_gtids(what).map_err(|error| source_failure(&error))?;
    answer.told(0, 0, what).map_err(|error| Failure::error(format!("{whose}: {error}")))
}

fn complete_file(folder: &Path, number: u64) -> Result<GrowingFile, Failure> {
    let name = file_name(number);
    let path = folder.join(&name);
    let mut file = BinlogFile::open(&path).map_err(binlog_failure)?;
    while let Some(event) = file.next_event().map_err(binlog_failure)? {
        if event.header.event_type == event_type::PREVIOUS_GTIDS {
            let previous = event.body().and_then(PreviousGtids::parse).map_err(binlog_failure)?.set;
            let bytes = path.metadata().map_err(|error| Failure::io(path.display(), &error))?.len();
            return Ok(GrowingFile { name, previous: Arc::new(previous), bytes, made: 0 });
        }
    }
    Err(Failure::new(Exit::Corrupt, format!("{}: no Previous_gtids event in it", path.display())))
}
