//! The thread that stamps: from the relay log to the served log.
//!
//! In: chunks of the relay log. Out: the served log's files, and how far each may be read. Never here: a stamp (crate
//! `stamp`), a dump (crate `serve`).
//!
//! A full disk is waited for. What a failed write left is removed then: the last file is made again, with the same
//! bytes.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use base::{GtidSet, LogPosition};
use catalog::Catalog;
use client::session::gtid_executed;
use client::{ConnectOptions, Connection};
use copy::DefinitionsNow;
use observe::bytes_text;
use relay_log::{Chunk, LogHold, ReadLimit, ReaderOptions, RelayError, RelayReader, RelayShared, TailItem};
use serve::GrowingLog;
use source::preflight::errant;
use stamp::{DdlScan, FolderError, Part, ServedFolder, StampCounts, StampError, StampOptions, Stamper, file_name};
use store::DiskSpace;

use crate::config::ServerOptions;
use crate::exit::{DiskTrouble, Exit, Failure};
use crate::failure::{relay_failure, shown_set, source_failure, stop_failure};
use crate::log::{self, Code};
use crate::login::{SourceLogin, for_question};
use crate::receiver::link::Link;
use crate::relay::holds::Holds;
use crate::relay::{LogBegin, ServedKeep};

/// How long the thread waits for more before it looks whether to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Interval at which is looked whether a served file may go.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// Share of the space limit from which on the log warns.
const NEAR_LIMIT_PERCENT: u64 = 80;
/// Bytes that must be free beyond the reserve before a full disk is tried again.
const TRIES_WITH: u64 = 1 << 20;

/// What stamping shows of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub counts: StampCounts,
    /// Place in the relay log up to which it has read.
    pub position: Option<LogPosition>,
    /// What it waits for, in words; empty if for the source only.
    pub waits: String,
    pub failure: Option<Failure>,
}

pub(crate) struct Stamping {
    path: PathBuf,
    options: StampOptions,
    begin: LogBegin,
    lower_case_table_names: u8,
    relay: Arc<RelayShared>,
    log: Arc<GrowingLog>,
    space: Arc<DiskSpace>,
    link: Arc<Link>,
    /// To ask the source.
    login: Option<Arc<SourceLogin>>,
    /// Where definitions are read; None: at the source.
    definitions_from: Option<ServerOptions>,
    keep: ServedKeep,
    holds: Arc<Holds>,
    /// Keeps the relay log from where the last served file begins; None: it is purged up to there.
    hold: Option<Mutex<LogHold>>,
    /// True once the log says that the space limit is near.
    near_limit_said: AtomicBool,
    stop: AtomicBool,
    state: Mutex<State>,
}

/// What stamping works with.
pub(crate) struct Parts {
    pub path: PathBuf,
    pub options: StampOptions,
    pub begin: LogBegin,
    pub lower_case_table_names: u8,
    pub relay: Arc<RelayShared>,
    pub log: Arc<GrowingLog>,
    pub space: Arc<DiskSpace>,
    pub link: Arc<Link>,
    pub login: Option<Arc<SourceLogin>>,
    pub definitions_from: Option<ServerOptions>,
    pub keep: ServedKeep,
    pub holds: Arc<Holds>,
    /// Where others purge the relay log: what keeps it for the last served file.
    pub hold: Option<LogHold>,
}

impl Stamping {
    pub(crate) fn new(parts: Parts) -> Stamping {
        Stamping {
            path: parts.path,
            options: parts.options,
            begin: parts.begin,
            lower_case_table_names: parts.lower_case_table_names,
            relay: parts.relay,
            log: parts.log,
            space: parts.space,
            link: parts.link,
            login: parts.login,
            definitions_from: parts.definitions_from,
            keep: parts.keep,
            holds: parts.holds,
            hold: parts.hold.map(Mutex::new),
            near_limit_said: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> State {
        self.lock().clone()
    }

    /// Why it stopped; None if it runs, or was told to end.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.lock().failure.clone()
    }

    /// Its thread panicked.
    pub(crate) fn panicked(&self) {
        let text = "the stamping thread panicked, see the lines above (a defect of Slipstream)";
        self.lock().failure = Some(Failure::new(Exit::Defect, text));
    }

    /// Before it runs again.
    pub(crate) fn forget_failure(&self) {
        self.lock().failure = None;
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Stamps until it is told to stop, or fails.
    pub(crate) fn run(&self) {
        while let Err(failure) = self.life() {
            if failure.disk == Some(DiskTrouble::Full) {
                self.wait_for_space(&failure);
                continue;
            }
            let text = format!("stamping stopped; stamped transactions are still served: {}", failure.told());
            log::write(Code::StampingStopped, "Stamp", &text);
            self.lock().failure = Some(failure);
            return;
        }
    }

    fn wait_for_space(&self, failure: &Failure) {
        log::write(Code::WaitsForSpace, "Stamp", &format!("stamping waits for disk space: {}", failure.text));
        "stamping waits for free disk space".clone_into(&mut self.lock().waits);
        while !self.stopping() && self.space.look().is_some_and(|space| space.above_reserve() < TRIES_WITH) {
            std::thread::sleep(LOOK);
        }
        // Where the system does not say, the next try does.
        std::thread::sleep(LOOK);
        self.lock().waits.clear();
        if !self.stopping() {
            log::write(Code::GoesOnWithSpace, "Stamp", "stamping continues; the last served file is rebuilt");
        }
    }

    /// Makes the last file again, and goes on from there.
    fn life(&self) -> Result<(), Failure> {
        let (folder, last) = ServedFolder::open(&self.path, &self.options).map_err(folder_failure)?;
        let (executed, hint) = match &last {
            Some(last) => (&last.executed, Some(&last.at)),
            None => (&self.begin.after, None),
        };
        let from = self.relay.start_point(executed, hint).map_err(relay_failure)?;
        // A power cut must not leave replicas with transactions that this relay lost: what is stamped may be sent.
        let options = ReaderOptions { limit: ReadLimit::Synced, ..ReaderOptions::REPLAY };
        let mut reader = RelayReader::open_at(Arc::clone(&self.relay), &from, options);
        let stamper = match &last {
            Some(last) => Stamper::again(self.options.clone(), last),
            None => {
                let Some(catalog) = self.first_definitions()? else { return Ok(()) };
                Stamper::new(self.options.clone(), self.begin.first, self.begin.after.clone(), catalog)
            }
        };
        let mut work = Work { stamping: self, folder, stamper, len: 0 };
        let mut looked: Option<Instant> = None;
        while !self.stopping() {
            if looked.is_none_or(|looked| looked.elapsed() >= KEEP_EVERY) {
                looked = Some(Instant::now());
                work.purge_served()?;
            }
            match reader.next(LOOK) {
                Ok(TailItem::Chunk(chunk)) => work.chunk(&chunk)?,
                Ok(TailItem::EndOfFile { .. }) => work.stamper.end_of_file().map_err(|error| stamp_failure(&error))?,
                Ok(TailItem::Idle) => {}
                Ok(TailItem::Closed) => break,
                // The end of a relay log that failed: its own error says why.
                Err(RelayError::Closed) => break,
                Err(error) => return Err(relay_failure(error)),
            }
        }
        Ok(())
    }
}

impl Stamping {
    /// Definitions where the served log begins; None if it is to stop. A server is asked, and what no statement has
    /// touched between the beginning and what that server had executed was the same at the beginning. So too where no
    /// GTID comes before: tables can be older than the log (RESET BINARY LOGS AND GTIDS, a restored server, a log that
    /// was switched on later).
    fn first_definitions(&self) -> Result<Option<Catalog>, Failure> {
        if self.login.is_none() && self.begin.after.is_empty() {
            return Ok(Some(Catalog::new(self.lower_case_table_names)));
        }
        let asked = match self.ask_definitions() {
            // The log may well bring them all, and where it does not, the source's clock is kept.
            Err(failure) if self.begin.after.is_empty() && self.definitions_from.is_none() => {
                let text = format!("tables older than the log keep the source's clock: {}", failure.text);
                log::write(Code::RelayDefinitions, "Stamp", &text);
                return Ok(Some(Catalog::new(self.lower_case_table_names)));
            }
            asked => asked?,
        };
        let Some((read, needed)) = asked else { return Ok(None) };
        let place = self.definitions_at();
        self.lock().waits = format!("stamping begins once the log is there up to the definitions read at {place}");
        let from = self.relay.start_point(&self.begin.after, None).map_err(relay_failure)?;
        let mut reader = RelayReader::open_at(Arc::clone(&self.relay), &from, ReaderOptions::REPLAY);
        let mut scan = DdlScan::new(self.lower_case_table_names, self.begin.after.clone(), needed.clone());
        while !scan.is_complete() {
            if self.stopping() {
                return Ok(None);
            }
            // Before the read: what was received by then is read.
            let all_is_there = needed.is_subset_of(&self.link.lock().received.retrieved);
            match reader.next(LOOK) {
                Ok(TailItem::Chunk(chunk)) => scan
                    .step(&chunk.file, chunk.offset, &chunk.data, chunk.hot)
                    .map_err(|error| stamp_failure(&error))?,
                Ok(TailItem::EndOfFile { .. }) => scan.end_of_file().map_err(|error| stamp_failure(&error))?,
                Ok(TailItem::Idle) if all_is_there => break,
                Ok(TailItem::Idle) => {}
                Ok(TailItem::Closed) | Err(RelayError::Closed) => return Ok(None),
                Err(error) => return Err(relay_failure(error)),
            }
        }
        let touched = scan.touched();
        let (catalog, refused) = read.catalog(&|db, table| touched.has(db, table), &|db| touched.has_database(db));
        let known = catalog.table_count();
        let mut text = format!("definitions of {known} tables were read at {place}");
        if !refused.is_empty() {
            text += &format!(
                "; tables whose definitions were not understood keep the source's clock: {}",
                refused.join(", ")
            );
        }
        log::write(Code::RelayDefinitions, "Stamp", &text);
        self.lock().waits.clear();
        Ok(Some(catalog))
    }

    /// Where definitions are read.
    fn definitions_at(&self) -> String {
        self.definitions_from.as_ref().map_or_else(|| "the source".to_owned(), ServerOptions::shown)
    }

    /// Reads the definitions, as often as it takes; None if it is to stop. The set is of all transactions of the source
    /// that they may follow.
    fn ask_definitions(&self) -> Result<Option<(DefinitionsNow, GtidSet)>, Failure> {
        let Some(login) = &self.login else { return Ok(None) };
        while !self.stopping() {
            let found = match &self.definitions_from {
                Some(server) => self.definitions_of(server, login)?,
                None => self.read_definitions(&login.for_try())?.map(|read| {
                    let executed = read.executed.clone();
                    (read, executed)
                }),
            };
            match found {
                Ok(found) => return Ok(Some(found)),
                Err(why) => self.lock().waits = why,
            }
            std::thread::sleep(LOOK * 10);
        }
        Ok(None)
    }

    /// Reads the definitions at a server; the inner `Err` is why another try is needed.
    fn read_definitions(&self, options: &ConnectOptions) -> Result<Result<DefinitionsNow, String>, Failure> {
        let place = self.definitions_at();
        match DefinitionsNow::read(options, self.lower_case_table_names) {
            Ok(read) => Ok(Ok(read)),
            Err(error) if error.is_transient() => Ok(Err(format!("definitions cannot be read at {place}: {error}"))),
            Err(error) => Err(Failure::error(format!("definitions of {place}: {error}"))),
        }
    }

    /// Reads the definitions at a replica that lags, once it has executed all that the served log begins after.
    fn definitions_of(
        &self,
        server: &ServerOptions,
        login: &SourceLogin,
    ) -> Result<Result<(DefinitionsNow, GtidSet), String>, Failure> {
        let again = |error: client::ClientError| source_failure(&error).text;
        let options = server.connect_options()?;
        let asked =
            Connection::connect(&for_question(options.clone())).and_then(|mut server| gtid_executed(&mut server));
        let executed =
            match asked.map_err(again).and_then(|set| set.ok_or_else(|| "it has no gtid_executed".to_owned())) {
                Ok(executed) => executed,
                Err(why) => return Ok(Err(format!("definitions cannot be read at {}: {why}", server.shown()))),
            };
        let missing = self.begin.after.subtract(&executed);
        if !missing.is_empty() {
            let text = "stamping begins once it has executed all that the served log begins after; it lacks";
            return Ok(Err(format!("definitions are read at {}: {text} {}", server.shown(), shown_set(&missing))));
        }
        let read = match self.read_definitions(&options)? {
            Ok(read) => read,
            Err(why) => return Ok(Err(why)),
        };
        // What it has and the source lacks never arrives.
        let lacks =
            Connection::connect(&login.for_question()).and_then(|mut source| errant(&mut source, &read.executed));
        Ok(match lacks.map_err(again).flatten() {
            Ok(errant) => {
                let needed = read.executed.subtract(&errant);
                Ok((read, needed))
            }
            Err(why) => Err(format!("the source cannot be asked: {why}")),
        })
    }
}

struct Work<'a> {
    stamping: &'a Stamping,
    folder: ServedFolder,
    stamper: Stamper,
    /// Length of the current file.
    len: u64,
}

impl Work<'_> {
    /// Removes files of the served log that need not, or may not, be kept.
    fn purge_served(&mut self) -> Result<(), Failure> {
        let Stamping { log, keep, holds, .. } = self.stamping;
        holds.note(&log.replicas());
        while let Some(oldest) = self.folder.oldest() {
            let modified = oldest.metadata().and_then(|facts| facts.modified());
            let age = modified.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
            let (bytes, is_read) = (log.bytes(), log.oldest_is_read());
            let lacking = holds.lacking(&log.oldest_set());
            let too_much = keep.bytes > 0 && bytes > keep.bytes;
            if !too_much && (age < keep.span || is_read || !lacking.is_empty()) {
                break;
            }
            let name = oldest.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if too_much {
                let about = format!("the served log has {}, more than --serve-space-limit", bytes_text(bytes));
                if is_read {
                    let replicas: Vec<String> = log.replicas().iter().map(super::replica_text).collect();
                    let replicas = replicas.join(", ");
                    let text = format!(
                        "{about}: {name} is purged although a replica is reading it; connected: \
                                        {replicas}"
                    );
                    log::write(Code::ServedInUsePurged, "Stamp", &text);
                }
                if !lacking.is_empty() {
                    let lacking = lacking.join(", ");
                    let text = format!(
                        "{about}: {name} is purged although these replicas have not executed it: \
                                        {lacking}"
                    );
                    log::write(Code::ServedHeldPurged, "Stamp", &text);
                }
            }
            // First, so that no dump begins there.
            log.purges_oldest();
            self.folder.purge_oldest().map_err(folder_failure)?;
            log::write(Code::ServedPurged, "Stamp", &format!("served file {name} was purged"));
        }
        self.warn_of_limit();
        Ok(())
    }

    /// Says once that the space limit is near, and who keeps files from going before.
    fn warn_of_limit(&self) {
        let Stamping { log, keep, holds, near_limit_said, .. } = self.stamping;
        let bytes = log.bytes();
        let is_near = keep.bytes > 0 && bytes >= keep.bytes / 100 * NEAR_LIMIT_PERCENT;
        if !is_near {
            near_limit_said.store(false, Ordering::Relaxed);
            return;
        }
        if near_limit_said.swap(true, Ordering::Relaxed) {
            return;
        }
        let lacking = holds.lacking(&log.oldest_set());
        let kept = match lacking.is_empty() {
            true => String::new(),
            false => format!("; the oldest one is kept for {}", lacking.join(", ")),
        };
        let text = format!(
            "the served log has {} of at most {} (--serve-space-limit); beyond that the oldest file is purged, \
             whether replicas have it or not{kept}",
            bytes_text(bytes),
            bytes_text(keep.bytes)
        );
        log::write(Code::ServedNearLimit, "Stamp", &text);
    }

    fn chunk(&mut self, chunk: &Chunk) -> Result<(), Failure> {
        let Work { stamping, folder, stamper, len } = self;
        let mut failed = None;
        let stamped = stamper.step(&chunk.file, chunk.offset, &chunk.data, chunk.hot, &mut |part| {
            take(stamping, folder, len, &part).map_err(|failure| {
                let text = failure.text.clone();
                failed = Some(failure);
                text
            })
        });
        match (stamped, failed) {
            (_, Some(failure)) => return Err(failure),
            (Err(error), None) => return Err(stamp_failure(&error)),
            (Ok(()), None) => {}
        }
        folder.flush().map_err(folder_failure)?;
        if *len > 0 {
            stamping.log.grows(*len, stamper.executed());
        }
        let mut state = stamping.lock();
        state.counts = stamper.counts();
        state.position =
            Some(LogPosition { file: Arc::clone(&chunk.file), offset: chunk.offset + chunk.data.len() as u64 });
        Ok(())
    }
}

/// Takes a part of the served log.
fn take(stamping: &Stamping, folder: &mut ServedFolder, len: &mut u64, part: &Part<'_>) -> Result<(), Failure> {
    folder.put(part).map_err(folder_failure)?;
    match part {
        Part::Begin(start) => {
            if *len > 0 {
                // The file before it is complete, and synced.
                stamping.log.grows(*len, &start.executed);
                purge(stamping, &start.at, &start.executed);
            }
            *len = 0;
            stamping.log.begins(file_name(start.number), start.executed.clone());
        }
        Part::Bytes(bytes) => *len += bytes.len() as u64,
        Part::End => {}
    }
    Ok(())
}

/// Purges the relay log up to where the last served file begins, or lets others do so.
fn purge(stamping: &Stamping, at: &LogPosition, executed: &GtidSet) {
    let purged = match &stamping.hold {
        Some(hold) => hold.lock().unwrap_or_else(PoisonError::into_inner).begin_at(executed, Some(at)),
        None => stamping.relay.purge(at, executed, Duration::ZERO, SystemTime::now()).map(drop),
    };
    match purged {
        Ok(()) | Err(RelayError::Closed) => {}
        Err(error) => {
            let text = format!("relay log files could not be purged: {error}");
            log::write(Code::PurgeFailed, "Relay", &text);
        }
    }
}

/// Converts an error of the served log's folder.
pub(crate) fn folder_failure(error: FolderError) -> Failure {
    match error {
        FolderError::Io { action, path, error } => Failure::io(format!("cannot {action} {}", path.display()), &error),
        FolderError::Settings { .. } => Failure::usage(error.to_string()),
        error => Failure::new(Exit::Corrupt, error.to_string()),
    }
}

fn stamp_failure(error: &StampError) -> Failure {
    match error {
        StampError::Stop(stop) => stop_failure(stop),
        StampError::NoGtidEvent(_) => Failure::new(Exit::NotSupported, error.to_string()),
        error => Failure::new(Exit::Corrupt, error.to_string()),
    }
}
