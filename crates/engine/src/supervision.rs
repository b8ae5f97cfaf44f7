//! What a service manager is told: ready, one line of progress, signs of life.
//!
//! In: the engine's status and movement. Out: systemd's notifications (sd_notify(3)), where NOTIFY_SOCKET names a
//! socket. Never here: a sign of life from a timer: it is sent only if something moved since the last one, or nothing
//! has to.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use observe::{ConnectionState, ReplayState, StatusReport, bytes_text, count_text, duration_text};
use replica::{Failure, Movement};
use sd_notify::NotifyState;

use crate::engine::Engine;

/// Longest interval between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Looks in the time after which the service manager acts (WATCHDOG_USEC).
const LOOKS: u32 = 4;

/// The thread that tells the service manager. Ends when dropped.
pub struct Supervision {
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Supervision {
    /// Starts telling, if somebody listens.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(engine: &Arc<Engine>) -> Result<Supervision, Failure> {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(Supervision { ends: None, thread: None });
        }
        let (ends, end) = channel();
        let engine = Arc::clone(engine);
        let watchdog = sd_notify::watchdog_enabled();
        let interval = watchdog.map_or(LOOK_EVERY, |limit| (limit / LOOKS).min(LOOK_EVERY));
        let look = move || {
            let (mut life, mut said) = (SignsOfLife::default(), String::new());
            while end.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let line = progress(&engine.status());
                if line != said {
                    tell(&[NotifyState::Status(&line)]);
                    said = line;
                }
                if watchdog.is_some() && life.is_seen(engine.movement(), main_thread_ns()) {
                    tell(&[NotifyState::Watchdog]);
                }
            }
        };
        let thread = std::thread::Builder::new().name("supervision".into()).spawn(look);
        let thread = thread.map_err(|error| Failure::io("the thread for the service manager", &error))?;
        Ok(Supervision { ends: Some(ends), thread: Some(thread) })
    }

    /// The folder is ours and the control socket answers.
    pub fn ready() {
        tell(&[NotifyState::Ready]);
    }

    /// The process is about to end.
    pub fn stopping() {
        tell(&[NotifyState::Stopping]);
    }
}

impl Drop for Supervision {
    fn drop(&mut self) {
        self.ends = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A service manager that does not listen is no reason to stop: it decides by itself what silence means.
fn tell(state: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(state);
}

/// What was seen at the last look.
#[derive(Debug, Default)]
struct SignsOfLife {
    work: Option<u64>,
    main_ns: u64,
}

impl SignsOfLife {
    /// True if the stages have moved since the last look. Where they have nothing to do, or the engine is only being
    /// started, it is the main thread that must have run: it looks 50 times a second, or does the start's work.
    fn is_seen(&mut self, movement: Option<Movement>, main_ns: u64) -> bool {
        let main_moved = std::mem::replace(&mut self.main_ns, main_ns) != main_ns;
        match movement {
            None | Some(Movement::Rests) => main_moved,
            Some(Movement::Works(work)) => self.work.replace(work) != Some(work),
        }
    }
}

/// Time that the main thread has spent on a CPU, ns; 0 if the kernel does not tell.
fn main_thread_ns() -> u64 {
    let path = format!("/proc/self/task/{}/schedstat", std::process::id());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// One line for `systemctl status`.
fn progress(status: &StatusReport) -> String {
    let error = |report: &Option<observe::ErrorReport>| report.as_ref().map(|error| error.text.clone());
    let source = &status.source;
    let backlog = || {
        format!(
            "{} transactions, {} to replay",
            count_text(status.backlog.transactions),
            bytes_text(status.backlog.bytes)
        )
    };
    let replay = match status.replay.state {
        ReplayState::Copying => format!("copying: {}", status.replay.detail),
        ReplayState::Failed => format!("replay stopped: {}", error(&status.last_sql_error).unwrap_or_default()),
        ReplayState::Paused => format!("replay paused; {}", backlog()),
        ReplayState::CaughtUp => "caught up".to_owned(),
        ReplayState::Recovering => format!("reading the kept relay log; {}", backlog()),
        ReplayState::Stopping => "stopping".to_owned(),
        ReplayState::Running if status.replay.detail.is_empty() => backlog(),
        ReplayState::Running => format!("{}; {}", status.replay.detail, backlog()),
        ReplayState::Stopped | ReplayState::Unknown => "starting".to_owned(),
    };
    let lag = status.lag.current_us.map(|lag| format!("lag {}", duration_text(lag)));
    let receiving = match source.state {
        _ if !source.waits.is_empty() => Some(source.waits.clone()),
        ConnectionState::Stopped if status.replay.state != ReplayState::Copying => {
            Some(format!("receiving stopped: {}", error(&status.last_io_error).unwrap_or_default()))
        }
        ConnectionState::Connecting => {
            Some(format!("connecting to {}: {}", source.uri, error(&status.last_io_error).unwrap_or_default()))
        }
        _ => None,
    };
    let parts = [Some(replay), lag, receiving].into_iter().flatten();
    let line = parts.map(|part| part.trim_end_matches([':', ' ']).to_owned()).collect::<Vec<_>>().join("; ");
    line.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::ErrorReport;

    #[test]
    fn life_is_what_moves_and_not_the_time_that_passes() {
        let mut life = SignsOfLife::default();
        let works = |work| Some(Movement::Works(work));
        assert!(life.is_seen(works(7), 1));
        assert!(!life.is_seen(works(7), 2), "the main thread alone, while replay stands");
        assert!(life.is_seen(works(8), 2), "the main thread sleeps through a copy");
        assert!(!life.is_seen(works(8), 2));
        assert!(!life.is_seen(Some(Movement::Rests), 2), "the main thread stands");
        assert!(life.is_seen(Some(Movement::Rests), 3));
        assert!(!life.is_seen(None, 3) && life.is_seen(None, 4), "a start");
    }

    #[test]
    fn the_main_thread_spends_time() {
        let before = main_thread_ns();
        assert!(before > 0);
    }

    #[test]
    fn one_line_says_what_goes_on() {
        let mut status = StatusReport::default();
        assert_eq!(progress(&status), "starting; receiving stopped");
        status.source.state = ConnectionState::Connected;
        status.replay.state = ReplayState::CaughtUp;
        status.lag.current_us = Some(0);
        assert_eq!(progress(&status), "caught up; lag 0 us");
        status.replay.state = ReplayState::Running;
        status.backlog.transactions = 1234;
        status.backlog.bytes = 4 << 30;
        status.lag.current_us = Some(200_000_000);
        assert_eq!(progress(&status), "1,234 transactions, 4.00 GiB to replay; lag 3 min 20 s");
        let error = |text: &str| Some(ErrorReport { text: text.to_owned(), ..ErrorReport::default() });
        status.replay.state = ReplayState::Failed;
        status.last_sql_error = error("no row\nin `a`.`b`");
        status.lag.current_us = None;
        status.source.state = ConnectionState::Connecting;
        status.source.uri = "mysql://repl@h:3306".to_owned();
        status.last_io_error = error("Access denied");
        assert_eq!(
            progress(&status),
            "replay stopped: no row in `a`.`b`; connecting to mysql://repl@h:3306: Access denied"
        );
        status.replay.state = ReplayState::Copying;
        status.replay.detail = "3 of 8 tables".to_owned();
        status.source.waits = "receiving waits for 1 GiB".to_owned();
        assert_eq!(progress(&status), "copying: 3 of 8 tables; receiving waits for 1 GiB");
    }
}
