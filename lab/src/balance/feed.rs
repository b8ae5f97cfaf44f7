//! A recorded log served at a rate that changes from try to try: `lab source`, turned on and off.
//!
//! In: log files; rates. Out: the log to one replica, each transaction with the moment it is sent as its commit time;
//! how many were sent. Never here: the protocol, a transaction sent twice to one replica.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use replay::pace::{Opening, Pace, Pacer};
use serve::{Hold, LogFiles, Part, RecordedLog, ServeError, ServeOptions};

use crate::compare::logs;

/// How often a held transaction looks whether it may go.
const LOOK: Duration = Duration::from_millis(1);
/// Transactions that are early by less than this go at once.
const EARLY: Duration = Duration::from_micros(200);

/// Whether transactions of the run may go.
#[derive(Clone, Copy, Debug)]
enum Gate {
    Shut,
    /// As fast as the replica takes them.
    Open,
    /// This many a second, counted from a moment and a number.
    Rate {
        per_s: f64,
        since: Instant,
        from: u64,
    },
}

#[derive(Debug)]
struct State {
    gate: Gate,
    /// The replica of now: dumps that an earlier one asked for end.
    replica: u64,
    /// Dumps of the run that the replica of now asked for.
    dumps: u32,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Transactions of the whole log that the replica of now has or was sent.
    sent: AtomicU64,
    stop: AtomicBool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True once the next transaction of this replica is due; an error if another one is followed by now.
    fn is_due(&self, replica: u64) -> Result<bool, ServeError> {
        let state = self.state();
        if state.replica != replica || self.stop.load(Ordering::Relaxed) {
            return Err(ServeError::Hold("this replica is done with".into()));
        }
        Ok(match state.gate {
            Gate::Shut => false,
            Gate::Open => true,
            Gate::Rate { per_s, since, from } => {
                let number = self.sent.load(Ordering::Relaxed).saturating_sub(from) as f64;
                number / per_s <= (since.elapsed() + EARLY).as_secs_f64()
            }
        })
    }
}

/// A running log server; ends when dropped.
pub(super) struct Feed {
    shared: Arc<Shared>,
    server: Option<JoinHandle<Result<(), ServeError>>>,
    pub(super) port: u16,
    /// Transactions of the load.
    pub(super) load: u64,
    /// Transactions of the whole log.
    pub(super) transactions: u64,
    /// Bytes of the log's run.
    pub(super) bytes: u64,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

impl Feed {
    /// Reads the log and begins to serve it, the gate shut.
    ///
    /// # Errors
    /// A log cannot be read, or no address is free.
    pub(super) fn start(load: &[PathBuf], run: &[PathBuf]) -> Result<Feed> {
        let (of_load, of_run) = (logs::goal(load)?, logs::goal(run)?);
        let log = LogFiles::Recorded(RecordedLog::read(load, run)?);
        let bytes = run.iter().map(|path| std::fs::metadata(path).map_or(0, |data| data.len())).sum();
        let state = State { gate: Gate::Shut, replica: 0, dumps: 0 };
        let (sent, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { state: Mutex::new(state), sent, stop });
        let (told, address) = mpsc::channel();
        let of_server = Arc::clone(&shared);
        let server = std::thread::Builder::new().name("feed".into()).spawn(move || {
            let told = Mutex::new(told);
            let told = |line: &str| {
                let _ = told.lock().unwrap_or_else(PoisonError::into_inner).send(line.to_owned());
            };
            let hold = |part: Part| of_server.hold(part);
            let options = ServeOptions { listen: "127.0.0.1:0", password: None, hold: Some(&hold) };
            serve::serve(&log, &options, &of_server.stop, &told)
        })?;
        let mut feed = Feed {
            shared,
            server: Some(server),
            port: 0,
            load: of_load.transactions,
            transactions: of_load.transactions + of_run.transactions,
            bytes,
        };
        feed.port = port_told(&address)?;
        Ok(feed)
    }

    /// From here on another replica follows, which has this many transactions of the log.
    pub(super) fn turn_to_replica_with(&self, transactions: u64) {
        let mut state = self.shared.state();
        state.replica += 1;
        (state.gate, state.dumps) = (Gate::Shut, 0);
        self.shared.sent.store(transactions, Ordering::Relaxed);
    }

    /// Opens the gate: at this rate, or as wide as it goes.
    pub(super) fn open(&self, per_s: Option<f64>) {
        let from = self.sent();
        self.shared.state().gate = match per_s {
            Some(per_s) => Gate::Rate { per_s, since: Instant::now(), from },
            None => Gate::Open,
        };
    }

    pub(super) fn shut(&self) {
        self.shared.state().gate = Gate::Shut;
    }

    /// Transactions of the whole log that the replica has or was sent.
    pub(super) fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Fails if the replica lost its connection: what it was sent twice would count twice.
    ///
    /// # Errors
    /// It asked for the log more than once.
    pub(super) fn check(&self) -> Result<()> {
        let dumps = self.shared.state().dumps;
        if dumps > 1 {
            bail!("the replica asked for the log {dumps} times: it lost its connection during the tries");
        }
        if self.server.as_ref().is_none_or(JoinHandle::is_finished) {
            bail!("the log is no longer served");
        }
        Ok(())
    }
}

impl Shared {
    fn hold(self: &Arc<Shared>, part: Part) -> Hold {
        let shared = Arc::clone(self);
        let replica = {
            let mut state = shared.state();
            state.dumps += u32::from(part == Part::Log);
            state.replica
        };
        let mut pacer = Pacer::new(Pace::Unbound);
        Box::new(move |event, checksum, _, waiting| {
            while part == Part::Log && !shared.is_due(replica)? {
                waiting(LOOK)?;
            }
            let told = |error: anyhow::Error| ServeError::Hold(format!("{error:#}"));
            let opening = Opening::parse(event, checksum).map_err(told)?;
            let stamped = pacer.hold(opening, &mut |wait| Ok(waiting(wait)?)).map_err(told)?;
            shared.sent.fetch_add(1, Ordering::Relaxed);
            Ok(stamped)
        })
    }
}

fn port_told(lines: &Receiver<String>) -> Result<u16> {
    let line = lines.recv().context("the log cannot be served")?;
    let port = line.strip_prefix("listening on ").and_then(|rest| rest.split(':').nth(1)?.parse().ok());
    port.with_context(|| format!("where the log is served is not known: {line}"))
}
