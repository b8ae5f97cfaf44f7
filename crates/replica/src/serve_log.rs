//! `--serve-log`: a replica serves what it receives to stock replicas, as a relay does, beside its replay.
//!
//! In: each engine's relay log. Out: the served log over all of them, the thread that stamps for one. Never here: a
//! relay log file purged before the last served file can do without it; a served log that leaves transactions out: it
//! begins anew where the relay log no longer has what follows.
//!
//! ```text
//! DIR/served-start        where the served log begins
//! DIR/served-log/, holds  as a relay's
//! ```

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use base::GtidSet;
use relay_log::{LogHold, RelayShared};
use stamp::{FileStart, StampOptions};
use store::DiskSpace;

use crate::config::ReplicaConfig;
use crate::exit::{Exit, Failure};
use crate::failure::{relay_failure, shown_set};
use crate::folder::Folder;
use crate::inbound::Inbound;
use crate::log::{self, Code};
use crate::relay::holds::Holds;
use crate::relay::stamping::{Parts, Stamping};
use crate::relay::{LogBegin, ServeConfig, Serving, StampingThread, keep_start, kept_start, served_files};

/// What a replica serves, over restarts of its engine.
pub struct ServeLog {
    folder: Folder,
    config: ServeConfig,
    stamps: StampOptions,
    disk_reserve: Option<u64>,
    /// Empty until it is known where the log begins.
    serving: OnceLock<Arc<Serving>>,
    /// Locked while an engine opens it.
    opening: Mutex<()>,
}

/// The served log, opened for one engine.
pub(crate) struct Opened {
    pub serving: Arc<Serving>,
    begin: LogBegin,
    hold: LogHold,
}

/// What stamping needs of the engine.
pub(crate) struct OfEngine<'a> {
    pub config: &'a ReplicaConfig,
    pub inbound: &'a Inbound,
    pub lower_case_table_names: u8,
}

impl ServeLog {
    /// As the configuration says; None if nothing is served.
    #[must_use]
    pub fn of(config: &ReplicaConfig, folder: &Folder) -> Option<Arc<ServeLog>> {
        let serve = config.serve_log.clone()?;
        let server_id = config.server_id.unwrap_or_else(|| folder.default_server_id());
        Some(Arc::new(ServeLog {
            folder: folder.clone(),
            stamps: serve.stamps(server_id),
            config: serve,
            disk_reserve: config.disk_reserve,
            serving: OnceLock::new(),
            opening: Mutex::default(),
        }))
    }

    /// The served log and its readers; None until the first engine has opened it.
    #[must_use]
    pub fn serving(&self) -> Option<&Arc<Serving>> {
        self.serving.get()
    }

    /// Opens the served log for an engine whose relay log this is, and holds of that what the last served file is made
    /// of. `executed` is what the store has; `anew` says that it is being copied.
    ///
    /// # Errors
    /// The folder's files are unusable.
    pub(crate) fn opens(&self, relay: &Arc<RelayShared>, executed: &GtidSet, anew: bool) -> Result<Opened, Failure> {
        let _alone = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        // First, so that no cut purges what is needed.
        let mut hold = relay.hold_always();
        // A new relay log is to have all that the store lacks.
        let before = if relay.files().is_empty() { executed.clone() } else { relay.before_first_file() };
        let path = self.folder.served_start();
        let kept = kept_start(&path)?;
        // A replica that asks by file and position never gets another file under a name that it knows.
        let mut first = kept.as_ref().map_or(1, |begin| begin.first);
        let continued = match kept {
            Some(begin) => {
                let (last, log) =
                    served_files(&self.folder, &self.stamps, &begin).map_err(|failure| self.advised(failure))?;
                first = first.max(last.as_ref().map_or(0, |last| last.number + 1));
                (!anew && goes_on(&begin, last.as_ref(), &before)).then_some((begin, last, log))
            }
            None => None,
        };
        let (begin, last, log) = match continued {
            Some(continued) => continued,
            None => {
                let begin = LogBegin { after: before, first };
                keep_start(&path, &begin)?;
                self.folder.clear_served_log()?;
                let (last, log) = served_files(&self.folder, &self.stamps, &begin)?;
                if let Some(serving) = self.serving.get() {
                    serving.log().begins_anew(begin.after.clone());
                }
                (begin, last, log)
            }
        };
        let (from, at) = last.as_ref().map_or((&begin.after, None), |last| (&last.executed, Some(&last.at)));
        hold.begin_at(from, at).map_err(relay_failure)?;
        let serving = match self.serving.get() {
            Some(serving) => serving,
            None => {
                let holds = Holds::open(&self.folder)?;
                holds.ask_servers();
                let serving = Arc::new(Serving::new(log, holds, self.config.ack_after_replicas));
                self.serving.get_or_init(|| serving)
            }
        };
        Ok(Opened { serving: Arc::clone(serving), begin, hold })
    }

    /// With the way on for a log that was stamped with other settings.
    fn advised(&self, failure: Failure) -> Failure {
        if failure.exit != Exit::Usage {
            return failure;
        }
        let way_on = format!(
            "restore the options; or remove {} while the replica is stopped: a new served log starts, and replicas \
             behind it must have everything before it",
            self.folder.served_log().display()
        );
        failure.with_hint(way_on)
    }

    /// Starts to stamp for an engine.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn stamps(&self, opened: Opened, engine: &OfEngine<'_>) -> Result<StampingThread, Failure> {
        let Opened { serving, begin, hold } = opened;
        let path = self.folder.served_log();
        let stamping = Stamping::new(Parts {
            space: Arc::new(DiskSpace::new(&path, self.disk_reserve)),
            path,
            options: self.stamps.clone(),
            begin,
            lower_case_table_names: engine.lower_case_table_names,
            relay: Arc::clone(&engine.inbound.relay),
            log: Arc::clone(serving.log()),
            link: Arc::clone(&engine.inbound.link),
            login: engine.inbound.login.clone(),
            definitions_from: self.config.definitions_from.clone(),
            keep: self.config.keep,
            holds: Arc::clone(&serving.holds),
            hold: Some(hold),
        });
        StampingThread::start(&engine.config.pipeline.affinity, stamping)
    }
}

impl Drop for ServeLog {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.get() {
            serving.holds.stop();
        }
    }
}

/// True if the relay log, whose first file follows `before`, has all that follows the last complete file.
fn goes_on(begin: &LogBegin, last: Option<&FileStart>, before: &GtidSet) -> bool {
    let missing = before.subtract(last.map_or(&begin.after, |last| &last.executed));
    if !missing.is_empty() {
        let text = format!(
            "the relay log no longer has {}, which the served log needs next: starting a new served log; replicas \
             that lack these transactions must be rebuilt (always start a replica that serves with --serve-log)",
            shown_set(&missing)
        );
        log::write(Code::ServedBeginsAnew, "Stamp", &text);
    }
    missing.is_empty()
}
