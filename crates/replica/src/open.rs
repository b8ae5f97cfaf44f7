//! Start of a replica: opens store and relay log, copies the source if needed, and starts receiving.
//!
//! In: an owned folder and its configuration. Out: the parts of a `Replica`. Never here: replay.

use std::sync::Arc;

use base::LogPosition;
use observe::bytes_text;
use relay_log::{OnDamage, RelayLog, RelayOptions, TruncateReport};
use store::{Disk, DiskOptions, DiskSpace, Recovered};

use crate::after_replicas::AfterReplicas;
use crate::all_tables;
use crate::config::{OnStop, ReplicaConfig, ServerOptions, SourceSpec};
use crate::exit::Failure;
use crate::failure::{relay_failure, shown_set, store_failure};
use crate::folder::Folder;
use crate::inbound::{Feed, Inbound};
use crate::initial_copy::{self, Beside, CopyFailure, CopyInProgress, CopyWatch, NextSource};
use crate::log::{self, Code};
use crate::login::SourceLogin;
use crate::memory::MemoryPlan;
use crate::receiver::link::Link;
use crate::receiver::{LogSource, Receive, Receiver};
use crate::replica::AfterDisk;
use crate::serve_log::{self, ServeLog};

/// Input of a start.
pub(crate) struct Opening<'a> {
    pub config: &'a ReplicaConfig,
    pub folder: &'a Folder,
    pub watch_copy: CopyWatch<'a>,
    pub memory: MemoryPlan,
    pub receive: &'a Receive,
    pub login: Option<&'a Arc<SourceLogin>>,
    pub space: &'a Arc<DiskSpace>,
    pub after_disk: AfterDisk,
    pub serve: Option<&'a Arc<ServeLog>>,
}

/// Store and relay log, and a receiver that feeds the relay log.
pub(crate) struct Opened {
    pub inbound: Inbound,
    pub disk: Disk,
    pub recovered: Option<Recovered>,
    pub recovery: relay_log::Recovery,
    pub lower_case_table_names: u8,
    pub served: Option<serve_log::Opened>,
}

impl Opening<'_> {
    pub(crate) fn open(&self) -> Result<Opened, Failure> {
        if crate::relay::is_relays(self.folder) {
            let text = format!("{} is a relay's data folder, not a replica's", self.folder.path().display());
            return Err(Failure::usage(text).with_hint("slipstream relay, or another folder: --data DIR"));
        }
        let (disk, recovered) = self.open_disk()?;
        if recovered.is_none() && initial_copy::is_marked(self.folder) {
            initial_copy::remove_relay_log(self.folder)?;
            log::write(
                Code::InitialCopyRemoved,
                "Copy",
                "an earlier initial copy did not finish; removing its remains",
            );
        }
        let is_empty = recovered.is_none() && !initial_copy::has_relay_log(&self.folder.relay_log());
        self.folder.keep_filters(&self.config.filters, is_empty)?;
        if is_empty {
            all_tables::forget(self.folder)?;
        }
        if recovered.is_none()
            && let SourceSpec::Server(server) = &self.config.source
            && !initial_copy::has_relay_log(&self.folder.relay_log())
            && self.needs_copy(server)?
        {
            // It receives beside, also where receiving is stopped once it has ended.
            return Opening { receive: &Receive::First, ..*self }.copy(server, disk);
        }
        // No new copy replaces the removed one: bytes received from now on must survive the next start.
        if initial_copy::is_marked(self.folder) {
            initial_copy::unmark(self.folder)?;
        }
        self.open_relay(disk, recovered)
    }

    fn needs_copy(&self, server: &ServerOptions) -> Result<bool, Failure> {
        let Some(login) = self.login else {
            return initial_copy::is_needed(self.config, self.folder, server, false);
        };
        let has_others = login.has_others();
        login.with_any(|server| initial_copy::is_needed(self.config, self.folder, server, has_others))
    }

    fn open_disk(&self) -> Result<(Disk, Option<Recovered>), Failure> {
        let options = DiskOptions { cache_bytes: self.memory.cache_bytes };
        let failed = |error| store_failure(&error);
        if self.after_disk.sync_failed {
            store::renew_current(&self.folder.store()).map_err(failed)?;
        }
        let (disk, recovered) = Disk::open(&self.folder.store(), options).map_err(failed)?;
        // Without waiting, a merge that fails ends the process, as it always did.
        if self.config.on_stop == OnStop::Stay {
            disk.watch_space(Arc::clone(self.space));
        }
        Ok((disk, recovered))
    }

    /// Copies the source, and meanwhile receives the log after the copy's GTID set.
    fn copy(&self, server: &ServerOptions, disk: Disk) -> Result<Opened, Failure> {
        let mut disk = Some(disk);
        let mut tries = 0;
        loop {
            tries += 1;
            let empty = match disk.take() {
                Some(disk) => disk,
                None => self.open_disk()?.0,
            };
            let (tried, server) = self.login.map_or_else(|| (0, server.clone()), |login| login.server_for_try());
            let next = self.login.filter(|login| login.has_others()).map(|login| NextSource { login, tried });
            let failed = match self.copy_once(&server, empty, next)? {
                Ok(opened) => return Ok(opened),
                Err(error) => error,
            };
            if let Some(failure) = initial_copy::hopeless(&failed, tries) {
                return Err(failure);
            }
            if let Some(login) = self.login {
                // Nothing receives by now that would leave the one that failed.
                login.leave(tried, &Failure::error(failed.to_string()));
            }
            let pause = initial_copy::pause_after(tries);
            let text = format!("{failed}; starting over in {} ms (attempt {})", pause.as_millis(), tries + 1);
            log::write(Code::InitialCopyRetried, "Copy", &text);
            std::thread::sleep(pause);
        }
    }

    fn copy_once(
        &self,
        server: &ServerOptions,
        disk: Disk,
        next: Option<NextSource<'_>>,
    ) -> Result<Result<Opened, copy::CopyError>, Failure> {
        let copying = Arc::new(CopyInProgress::new(self.config, self.folder, self.memory));
        let watching = (self.watch_copy)(Arc::clone(&copying))?;
        let shown = initial_copy::show(&copying);
        let copy = match initial_copy::prepare(self.config, server, &copying) {
            Ok(copy) => copy,
            Err(error) => return Ok(Err(error)),
        };
        let plan = copy.plan();
        // Marked before anything is stored: after a crash the next start removes all of it.
        initial_copy::mark(self.folder, &plan.executed)?;
        let start = Recovered {
            sequence: 0,
            executed: plan.executed.clone(),
            catalog: plan.catalog.clone(),
            position: None,
            rows: std::collections::BTreeMap::new(),
            ledger: String::new(),
            consistent_at: None,
            prepared: base::PreparedSet::default(),
        };
        let mut opened = self.open_relay(disk, Some(start))?;
        let inbound = &opened.inbound;
        let beside = Beside { link: Arc::clone(&inbound.link), relay: Arc::clone(&inbound.relay) };
        let result = initial_copy::run(self.config, &copying, copy, &opened.disk, beside, next);
        drop((shown, watching));
        match result {
            Ok(()) => {
                opened.recovered = opened.disk.recover().map_err(|error| store_failure(&error))?;
                initial_copy::unmark(self.folder)?;
                Ok(Ok(opened))
            }
            Err(failure) => {
                // End the receiver before its relay log is removed.
                opened.inbound.close();
                drop(opened.disk);
                initial_copy::remove_relay_log(self.folder)?;
                match failure {
                    CopyFailure::Copy(error) => Ok(Err(error)),
                    CopyFailure::Own(failure) => Err(failure),
                }
            }
        }
    }

    fn open_relay(&self, disk: Disk, recovered: Option<Recovered>) -> Result<Opened, Failure> {
        let Opening { config, folder, memory, .. } = self;
        let link = Link::new(folder.path())?;
        let server_id = config.server_id.unwrap_or_else(|| folder.default_server_id());
        let mut options = RelayOptions::new(folder.relay_log());
        options.affinity = config.pipeline.affinity.clone();
        if let Some(recovered) = &recovered {
            options.executed.clone_from(&recovered.executed);
            options.resume_at = recovered_position(recovered);
        }
        options.on_damage = match config.source {
            SourceSpec::Server(_) => OnDamage::FetchAgain,
            SourceSpec::Files(_) => OnDamage::Refuse,
        };
        options.keep_up_to = self.after_disk.keep_up_to;
        options.space_limit_bytes = config.relay_log_space_limit;
        options.hot_bytes_max = memory.hot_bytes;
        options.max_file_bytes = config.max_relay_log_size;
        options.sync = config.relay_sync;
        options.server_id = server_id;
        let (writer, recovery) = RelayLog::open(options).map_err(relay_failure)?;
        // Store and relay log now have their folders. The folder names must be durable before their contents count.
        folder.sync()?;
        if let Some(cut) = &recovery.truncated {
            note_truncation(cut);
        }
        if let Some(dropped) = &recovery.dropped {
            let text = format!(
                "relay log files {} are missing ({}); the store holds everything that was in them",
                dropped.files.join(", "),
                dropped.reasons.join("; ")
            );
            log::write(Code::RelayLogFilesGone, "Relay", &text);
        }
        if !initial_copy::is_marked(folder) {
            note_kept(&recovery, recovered.as_ref());
        }
        link.lock().received.retrieved.clone_from(&recovery.retrieved);
        let (relay, relay_sync) = (writer.shared(), writer.sync());
        let executed = recovered.as_ref().map(|recovered| recovered.executed.clone()).unwrap_or_default();
        let opens = |serve: &Arc<ServeLog>| serve.opens(&relay, &executed, initial_copy::is_marked(folder));
        let served = self.serve.map(opens).transpose()?;
        let acks = config.serve_log.as_ref().map_or(0, |serve| serve.ack_after_replicas);
        let after = served.as_ref().and_then(|served| AfterReplicas::of(served.serving.log(), acks));
        let source = LogSource::of(config, self.login)?;
        let receiver = Receiver::prepare(config, folder, &link, writer, self.receive, source)?;
        let receiver = receiver.acknowledging(after);
        let receiver = if config.on_stop == OnStop::Stay { receiver.within(self.space) } else { receiver };
        let lower_case_table_names = receiver.lower_case_table_names();
        let feed = Feed { relay, relay_sync, receiver };
        let inbound = Inbound::begin(config, self.receive, link, self.login.cloned(), feed)?;
        Ok(Opened { inbound, disk, recovered, recovery, lower_case_table_names, served })
    }
}

pub(crate) fn recovered_position(recovered: &Recovered) -> Option<LogPosition> {
    let (file, offset) = recovered.position.as_ref()?;
    Some(LogPosition { file: Arc::from(file.as_str()), offset: *offset })
}

/// Logs what a start kept, and the position from which it replays.
fn note_kept(recovery: &relay_log::Recovery, recovered: Option<&Recovered>) {
    if recovery.files.is_empty() && recovered.is_none() {
        return;
    }
    let held = match recovered {
        Some(recovered) => format!(
            "kept store: cut at transaction {}, {} rows, GTIDs {}; ",
            recovered.sequence,
            recovered.rows.values().sum::<i64>(),
            shown_set(&recovered.executed)
        ),
        None => String::new(),
    };
    let bytes = recovery.files.iter().map(|file| file.1).sum::<u64>();
    let start = &recovery.start;
    let refused = start.hint_refused.as_ref().map(|why| format!(" (not from the cut's position: {why})"));
    let text = format!(
        "{held}kept relay log: {} files, {}, GTIDs {}; replaying from {}:{}, {}{}",
        recovery.files.len(),
        bytes_text(bytes),
        shown_set(&recovery.retrieved),
        relay_log::file_name(start.position.file_number),
        start.position.offset,
        bytes_text(bytes.saturating_sub(start.skipped_bytes)),
        refused.unwrap_or_default()
    );
    log::write(Code::FolderKept, "Relay", &text);
}

/// Logs that the end of a relay log was cut off when it was opened.
pub(crate) fn note_truncation(cut: &TruncateReport) {
    let text = format!(
        "relay log {} was truncated from {} to {}: {}; the source will send the rest again",
        cut.file,
        bytes_text(cut.from_len),
        bytes_text(cut.to_len),
        // What it advises to do is being done.
        cut.reason.split(". To continue").next().unwrap_or_default()
    );
    log::write(Code::RelayLogTruncated, "Relay", &text);
}
