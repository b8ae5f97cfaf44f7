//! What comes in from the source: the login, the connection, the relay log, and the thread that receives.
//!
//! In: the source that was chosen, orders of the operator. Out: transactions at the end of the relay log, and why no
//! more arrive. Never here: replay, or what is served to others.
//!
//! A replica and a relay both have one. Locks: that of the thread's state is held while the link's is taken, never the
//! other way round.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::ThreadAffinity;
use observe::{ErrorReport, LagReport, SourceReport, utc_text};
use relay_log::{RelayShared, RelaySync};

use crate::config::{ReplicaConfig, ServerOptions};
use crate::exit::Failure;
use crate::log::{self, Code};
use crate::login::SourceLogin;
use crate::receiver::link::{Link, LinkState};
use crate::receiver::{self, Receive, Receiver};
use crate::receiving::Receiving;
use crate::source_facts::SourceSettings;
use crate::status;

/// Interval at which the file `source-last` is written while transactions arrive.
const KEEP_WITNESS_EVERY: Duration = Duration::from_secs(5);

/// The side of a replica or relay that faces its source.
pub(crate) struct Inbound {
    /// The source as it is shown, if it is files.
    shown_files: String,
    /// None for a source of files.
    pub login: Option<Arc<SourceLogin>>,
    pub link: Arc<Link>,
    pub relay: Arc<RelayShared>,
    pub relay_sync: Arc<RelaySync>,
    receiving: Mutex<Receiving>,
    affinity: ThreadAffinity,
    /// True once the log says that receiving stopped with an error.
    stop_said: AtomicBool,
    witness_kept: Mutex<Instant>,
    /// All ends: a thread that waits to be started again ends too.
    ending: AtomicBool,
}

/// An open relay log, and the one who writes to it.
pub(crate) struct Feed {
    pub relay: Arc<RelayShared>,
    pub relay_sync: Arc<RelaySync>,
    pub receiver: Receiver,
}

impl Inbound {
    /// Begins to receive, or stays stopped, as `receive` says.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn begin(
        config: &ReplicaConfig,
        receive: &Receive,
        link: Arc<Link>,
        login: Option<Arc<SourceLogin>>,
        feed: Feed,
    ) -> Result<Inbound, Failure> {
        let affinity = config.pipeline.affinity.clone();
        let receiving = Receiving::begin(receive, feed.receiver, &link, &affinity)?;
        Ok(Inbound {
            shown_files: config.source.shown(),
            login,
            link,
            relay: feed.relay,
            relay_sync: feed.relay_sync,
            receiving: Mutex::new(receiving),
            affinity,
            stop_said: AtomicBool::new(matches!(receive, Receive::Stopped(_))),
            witness_kept: Mutex::new(Instant::now()),
            ending: AtomicBool::new(false),
        })
    }

    /// Looks at the source from now on: its clock, and whether it has what was received.
    pub(crate) fn watch_source(&self) {
        if let Some(login) = &self.login {
            receiver::watch_source(login, &self.link);
        }
    }

    /// The source as it is shown.
    pub(crate) fn shown_source(&self) -> String {
        self.login.as_ref().map_or_else(|| self.shown_files.clone(), |login| login.shown())
    }

    /// State of receiving, after a look whether its thread has ended.
    pub(crate) fn look(&self) -> MutexGuard<'_, Receiving> {
        Receiving::looked_at(&self.receiving, &self.link, self.ending.load(Ordering::Acquire))
    }

    /// True while the thread runs.
    pub(crate) fn runs(&self) -> bool {
        matches!(*self.look(), Receiving::Running(_))
    }

    /// Asks the thread to end for good, at a transaction boundary.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.relay.end_space_wait();
        self.link.stopping.store(true, Ordering::Release);
        self.link.interrupt();
    }

    /// Waits for the end of the thread, and closes the relay log.
    pub(crate) fn close(self) {
        self.end();
        self.receiving.into_inner().unwrap_or_else(PoisonError::into_inner).end();
    }

    /// Stops the thread at a transaction boundary; it can be started again (STOP REPLICA IO_THREAD).
    ///
    /// # Errors
    /// The thread does not end in time; it ends later.
    pub(crate) fn stop(&self) -> Result<(), Failure> {
        Receiving::stop(&self.link, &self.relay, || self.runs())
    }

    /// Starts the thread again (START REPLICA IO_THREAD). False if it runs, and a try that it waits for is made at once
    /// then; None if the relay log is closed.
    ///
    /// # Errors
    /// It is still ending, or a thread cannot be started.
    pub(crate) fn start(&self) -> Result<Option<bool>, Failure> {
        if let Some(login) = &self.login {
            login.try_now();
        }
        self.look().start_again(&self.link, &self.relay, &self.affinity, &self.stop_said)
    }

    /// True if an operator has stopped receiving.
    pub(crate) fn is_stopped(&self) -> bool {
        self.link.io_stop.load(Ordering::Acquire)
    }

    /// How receiving begins in an engine that replaces this one, if nobody asks for another way: as it is here.
    pub(crate) fn again(&self) -> Receive {
        let failure = self.failure();
        if failure.is_some() || self.is_stopped() { Receive::Stopped(failure) } else { Receive::Again }
    }

    /// Checks that another source may be followed from here. Receiving is stopped.
    ///
    /// # Errors
    /// Why it may not be, or that it cannot be reached; receiving is not stopped.
    pub(crate) fn try_source(&self, server: &ServerOptions) -> Result<(), Failure> {
        match &*self.look() {
            Receiving::Stopped(receiver) => receiver.try_source(server),
            _ => Err(Failure::error("receiving is not stopped")),
        }
    }

    /// Takes another source. Receiving is stopped if its options change.
    pub(crate) fn configure(&self, config: &ReplicaConfig) {
        if let Receiving::Stopped(receiver) = &mut *self.look() {
            receiver.configure(config);
        }
    }

    /// Why receiving stopped; None if it runs or was stopped as asked.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.link.lock().received.failure.clone()
    }

    /// The last error of receiving, for status; with the way on once it has stopped: `hint`, or the order that starts
    /// it again.
    pub(crate) fn error(&self, link: &LinkState, data: &Path, hint: Option<String>) -> Option<ErrorReport> {
        let report = link.received.last_error.clone()?;
        let way_on = link
            .received
            .failure
            .as_ref()
            .and(hint.or_else(|| report.way_on.clone()).or_else(|| Some(start_hint(data))));
        Some(ErrorReport { way_on: way_on.or(report.way_on), ..report })
    }

    /// True if the log says that receiving stopped.
    pub(crate) fn stop_is_said(&self) -> bool {
        self.stop_said.load(Ordering::Relaxed)
    }

    /// Logs once that receiving stopped with an error. `beside`: what goes on.
    pub(crate) fn tell_of_stop(&self, failure: &Failure, beside: &str, data: &Path) {
        if !self.stop_said.swap(true, Ordering::Relaxed) {
            let hint = failure.hint.clone().or_else(|| Some(start_hint(data)));
            let told = Failure { hint, ..failure.clone() }.told();
            log::write(Code::IoStopped, "Source", &format!("receiving stopped; {beside}: {told}"));
        }
    }

    /// The source and the connection to it, for status. `now` in µs since 1970.
    pub(crate) fn source_report(&self, link: &LinkState, now: u64) -> SourceReport {
        let clock = self.link.source_clock.difference_us();
        let report = SourceReport {
            purges_in_us: link.purges_in_us(now.saturating_add_signed(clock), clock),
            ..status::source_report(&self.shown_source(), link)
        };
        match &self.login {
            Some(login) => login.report(report),
            None => report,
        }
    }

    /// How far the source's clock is from ours, for status; of lag nothing.
    pub(crate) fn clock_report(&self, link: &LinkState) -> LagReport {
        if link.source.clock_measured_us == 0 {
            return LagReport::default();
        }
        LagReport {
            clock_difference_us: Some(self.link.source_clock.difference_us()),
            clock_error_us: Some(self.link.clock_error_us.load(Ordering::Relaxed)),
            clock_measured: Some(utc_text(link.source.clock_measured_us)),
            ..LagReport::default()
        }
    }

    /// End of the relay log, as `file:offset`.
    pub(crate) fn received_up_to(&self) -> String {
        let end = self.relay_sync.written();
        format!("{}:{}", relay_log::file_name(end.file_number), end.offset)
    }

    /// What of the source changes answers, as last asked.
    pub(crate) fn source_settings(&self) -> Arc<SourceSettings> {
        self.link.source_settings()
    }

    /// Stores now and then what the newest transaction looks like at the source: a receiver that is killed cannot.
    pub(crate) fn step(&self, now: Instant) {
        let mut kept = self.witness_kept.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(*kept) >= KEEP_WITNESS_EVERY {
            *kept = now;
            // The relay log reports a full disk; without this file, a check of the source's history is left out.
            let _ = self.link.keep_witness();
        }
    }
}

/// The order that starts receiving again.
fn start_hint(data: &Path) -> String {
    format!("once that is fixed: slipstream start io --data {}", data.display())
}
