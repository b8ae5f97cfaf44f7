//! Relay log work for a cut: a sync before it, a purge after it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{GtidSet, LogPosition};
use observe::fail_point::{self, Phase};
use observe::now_us;
use relay_log::{RelayError, RelayPosition, RelayShared, RelaySync};

use crate::log::{self, Code};

/// The newest cut; time and number are this process's.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastCut {
    pub at_us: u64,
    pub cuts: u64,
    /// GTIDs that it holds.
    pub executed: GtidSet,
}

/// Makes the relay log durable up to a cut before the cut itself becomes durable (invariant 11).
pub(crate) fn sync_relay(sync: &Arc<RelaySync>) -> apply::SyncRelay {
    let sync = Arc::clone(sync);
    Box::new(move |point| {
        let Some((file, offset)) = &point.position else { return Ok(()) };
        let position = LogPosition { file: Arc::from(file.as_str()), offset: *offset };
        let Some(position) = RelayPosition::of(&position) else {
            return Err(format!("{file} is not the name of a relay log file"));
        };
        loop {
            sync.request_sync();
            match sync.wait_synced(position, Duration::from_secs(1)) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // Closed with everything durable, except what was skipped at a torn end of the stream.
                Err(RelayError::Closed) if sync.synced() >= position => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
    })
}

/// Purges the relay log up to a durable cut.
pub(crate) fn after_cut(relay: &Arc<RelayShared>, expire: Duration, last_cut: &Arc<Mutex<LastCut>>) -> apply::AfterCut {
    let (relay, last_cut) = (Arc::clone(relay), Arc::clone(last_cut));
    Box::new(move |point, report| {
        {
            let mut last = last_cut.lock().unwrap_or_else(PoisonError::into_inner);
            last.at_us = now_us();
            last.cuts += 1;
            last.executed.clone_from(&point.executed);
        }
        let purged = match &point.position {
            Some((file, offset)) => {
                let position = LogPosition { file: Arc::from(file.as_str()), offset: *offset };
                let now = std::time::SystemTime::now();
                fail_point::enter(Phase::Purge);
                relay.purge(&position, &point.executed, expire, now).map(|purged| purged.files)
            }
            None => Ok(Vec::new()),
        };
        let text = format!(
            "cut at transaction {}: {} keys, {}; relay log files purged: {}",
            report.sequence,
            report.entries,
            observe::bytes_text(report.bytes),
            match &purged {
                Ok(files) if files.is_empty() => "none".to_owned(),
                Ok(files) => files.join(", "),
                // The last cut of a clean stop.
                Err(RelayError::Closed) => "none, left for the next cut".to_owned(),
                Err(_) => "failed".to_owned(),
            }
        );
        log::write(Code::Cut, "Store", &text);
        if let Err(error) = purged
            && !matches!(error, RelayError::Closed)
        {
            // Nothing is lost: the next cut purges the files.
            log::write(Code::PurgeFailed, "Relay", &format!("relay log files could not be purged: {error}"));
        }
    })
}
