//! Before a relay's engine: what kind the folder is, where its served log begins, and the files that are complete.
//!
//! In: the folder, the configuration, the source for an empty folder. Out: [`RelayBase`]. Never here: threads; a served
//! file that is not whole.

use std::path::Path;
use std::sync::Arc;

use base::GtidSet;
use binlog::reader::BinlogFile;
use binlog::{PreviousGtids, event_type};
use client::Connection;
use serve::{GrowingFile, GrowingLog};
use stamp::{FileStart, ServedFolder, file_name};

use super::stamping::folder_failure;
use super::{RelayConfig, RelayStart};
use crate::config::ServerOptions;
use crate::exit::{Exit, Failure};
use crate::failure::{binlog_failure, shown_set, source_failure};
use crate::folder::{Folder, read_small, write_atomically};
use crate::log::{self, Code};
use crate::login::SourceLogin;

/// First line of the file with the set that the served log begins after.
const FORMAT: &str = "slipstream relay start 1";

/// What a relay begins with.
pub struct RelayBase {
    /// GTIDs that the served log begins after.
    pub(crate) start: GtidSet,
    /// Where its last file begins, which is made again.
    pub(crate) last: Option<FileStart>,
    /// The served log, with its complete files.
    pub log: Arc<GrowingLog>,
}

impl RelayBase {
    /// Looks at the folder. That of an empty one is decided here, durably.
    ///
    /// # Errors
    /// The folder is a replica's, its files are unusable, or the source cannot be asked where to begin.
    pub fn open(config: &RelayConfig, folder: &Folder, login: Option<&Arc<SourceLogin>>) -> Result<RelayBase, Failure> {
        let start = match kept_start(folder)? {
            Some(start) => start,
            None => {
                if folder.relay_log().exists() || folder.store().exists() {
                    let text = format!("{} is a replica's data folder, not a relay's", folder.path().display());
                    return Err(Failure::usage(text).with_hint("name another folder: --data DIR"));
                }
                let start = first_start(config, login)?;
                write_atomically(&folder.relay_start(), format!("{FORMAT}\n{start}\n").as_bytes())?;
                let text = format!("the served log begins after GTIDs {}", shown_set(&start));
                log::write(Code::RelayBegins, "Stamp", &text);
                start
            }
        };
        let path = folder.served_log();
        let (_, last) = ServedFolder::open(&path, &config.stamps(folder)).map_err(folder_failure)?;
        let next = last.as_ref().map_or(1, |last| last.number);
        // Older ones may have been purged.
        let is_there = |number: &u64| path.join(file_name(*number)).exists();
        let first = (1..next).rev().take_while(is_there).last().unwrap_or(next);
        let mut files = Vec::new();
        for number in first..next {
            files.push(complete_file(&path, number)?);
        }
        let executed = last.as_ref().map_or_else(|| start.clone(), |last| last.executed.clone());
        let log = GrowingLog::new(&path, config.server_id(folder), files, first, executed.clone(), executed);
        if config.ack_after_replicas > 0 {
            // Before the first of them connects.
            log.ask_for_acks();
        }
        Ok(RelayBase { start, last, log })
    }
}

/// True if the folder is a relay's.
pub(crate) fn is_relays(folder: &Folder) -> bool {
    folder.relay_start().exists()
}

fn kept_start(folder: &Folder) -> Result<Option<GtidSet>, Failure> {
    let path = folder.relay_start();
    let Some(text) = read_small(&path)? else { return Ok(None) };
    let broken = || Failure::new(Exit::Corrupt, format!("{}: not what a relay writes", path.display()));
    let (format, set) = text.split_once('\n').ok_or_else(broken)?;
    if format != FORMAT {
        return Err(broken());
    }
    set.trim().parse().map(Some).map_err(|_| broken())
}

/// Where the served log of an empty folder begins.
fn first_start(config: &RelayConfig, login: Option<&Arc<SourceLogin>>) -> Result<GtidSet, Failure> {
    let Some(login) = login else {
        return Err(Failure::usage("a relay needs a server as its source: --source mysql://USER@HOST:PORT"));
    };
    let mut source = Connection::connect(&login.for_try()).map_err(|error| source_failure(&error))?;
    let purged = gtids_of(&mut source, "gtid_purged", "the source")?;
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
        "the source has purged transactions that --start asks for: {missing}; a replica that lacks them must be made anew"
    );
    Err(Failure::new(Exit::SourcePurged, text).with_number(1236).with_hint("--start=oldest"))
}

/// What a server has executed.
///
/// # Errors
/// It cannot be asked.
pub(crate) fn executed_of(server: &ServerOptions) -> Result<GtidSet, Failure> {
    let mut connection = Connection::connect(&server.connect_options()?).map_err(|error| source_failure(&error))?;
    gtids_of(&mut connection, "gtid_executed", &server.shown())
}

fn gtids_of(connection: &mut Connection, name: &str, whose: &str) -> Result<GtidSet, Failure> {
    let text = connection.query_value(&format!("SELECT @@GLOBAL.{name}")).map_err(|error| source_failure(&error))?;
    let text = text.unwrap_or_default();
    text.parse().map_err(|error| Failure::error(format!("{name} of {whose}: {error}")))
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
