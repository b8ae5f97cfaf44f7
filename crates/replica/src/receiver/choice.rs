//! The choice of a source: where the log comes from, which server is connected to, and when it is tried again.
//!
//! In: the configuration, the login in force, failures of the connection. Out: options for one try, the pause before
//! the next one. Never here: a connection, a wait.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use client::ConnectOptions;
use observe::now_us;

use super::files::list_files;
use crate::config::{ReplicaConfig, SourceSpec};
use crate::exit::Failure;
use crate::login::SourceLogin;

/// First pause before a reconnect; doubles up to `connect_retry`.
const RETRY_FIRST: Duration = Duration::from_millis(100);

/// Where the log comes from.
pub(crate) enum LogSource {
    Server(SourceChoice),
    /// Binlog files, in order.
    Files(Vec<PathBuf>),
}

impl LogSource {
    /// # Errors
    /// Code 2 for a server without a login; the files cannot be listed.
    pub(crate) fn of(config: &ReplicaConfig, login: Option<&Arc<SourceLogin>>) -> Result<LogSource, Failure> {
        match (&config.source, login) {
            (SourceSpec::Files(path), _) => list_files(path).map(LogSource::Files),
            (SourceSpec::Server(_), None) => Err(Failure::usage("a server as the source needs a login")),
            (SourceSpec::Server(_), Some(login)) => Ok(LogSource::Server(SourceChoice::new(config, login))),
        }
    }
}

/// Which server is followed, with which login, and when it is tried again.
pub(crate) struct SourceChoice {
    login: Arc<SourceLogin>,
    read_timeout: Duration,
    connect_retry: Duration,
    retry_count: u64,
    /// Version of the login last tried.
    tried: u64,
    pause: Duration,
    attempts: u64,
}

/// The next attempt to connect.
pub(super) struct Attempt {
    /// Number of attempts since events last arrived.
    pub number: u64,
    pub wait: Duration,
}

impl SourceChoice {
    fn new(config: &ReplicaConfig, login: &Arc<SourceLogin>) -> SourceChoice {
        SourceChoice {
            login: Arc::clone(login),
            read_timeout: config.read_timeout,
            connect_retry: config.connect_retry,
            retry_count: config.retry_count,
            tried: 0,
            pause: RETRY_FIRST,
            attempts: 0,
        }
    }

    /// Takes other rules for retries. Which server it is, and how to log in there, the login says.
    pub(super) fn configure(&mut self, config: &ReplicaConfig) {
        self.connect_retry = config.connect_retry;
        self.retry_count = config.retry_count;
    }

    /// The chosen source, without a password.
    pub(super) fn shown(&self) -> String {
        self.login.shown()
    }

    /// Options for one try.
    pub(super) fn next(&mut self) -> ConnectOptions {
        let options;
        (self.tried, options) = self.login.versioned_for_try();
        ConnectOptions { read_timeout: Some(self.read_timeout), ..options }
    }

    /// Forgets earlier failures: the next one is the first.
    pub(super) fn forget_failures(&mut self) {
        (self.pause, self.attempts) = (RETRY_FIRST, 0);
    }

    /// The attempt after a failure that a retry may fix; None if there were enough.
    pub(super) fn again(&mut self) -> Option<Attempt> {
        self.attempts += 1;
        if self.retry_count > 0 && self.attempts >= self.retry_count {
            return None;
        }
        let wait = jittered(self.pause);
        self.pause = (self.pause * 2).min(self.connect_retry.max(RETRY_FIRST));
        Some(Attempt { number: self.attempts, wait })
    }

    /// Number of requests to try now.
    pub(super) fn requests(&self) -> u64 {
        self.login.requests()
    }

    /// True if the next try would be made with other options than the last one. Reads option files that have changed.
    pub(super) fn has_changed(&self) -> bool {
        self.login.version() != self.tried
    }
}

/// Random pause between three quarters and all of `pause`, so that many replicas do not reconnect at once.
fn jittered(pause: Duration) -> Duration {
    let spread = u32::try_from(now_us() % 250).unwrap_or(0);
    pause.mul_f64(0.75 + f64::from(spread) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerOptions;

    fn choice(retry_count: u64) -> SourceChoice {
        let login = SourceLogin::new(&ServerOptions::from_url("mysql://alone@127.0.0.1:3306"), None).unwrap();
        SourceChoice {
            login,
            read_timeout: Duration::from_secs(30),
            connect_retry: Duration::from_secs(1),
            retry_count,
            tried: 0,
            pause: RETRY_FIRST,
            attempts: 0,
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again_after_events() {
        let mut choice = choice(0);
        let whole: Vec<u64> = [100, 200, 400, 800, 1000, 1000].into();
        for (number, whole_ms) in (1..).zip(whole) {
            let attempt = choice.again().unwrap();
            let waits_ms = attempt.wait.as_secs_f64() * 1000.0;
            assert_eq!(attempt.number, number);
            assert!(waits_ms >= whole_ms as f64 * 0.75 && waits_ms <= whole_ms as f64, "{whole_ms}: {waits_ms}");
        }
        choice.forget_failures();
        let attempt = choice.again().unwrap();
        assert!(attempt.number == 1 && attempt.wait <= RETRY_FIRST);
    }

    #[test]
    fn attempts_end_at_the_count() {
        let mut choice = choice(3);
        assert!(choice.again().is_some() && choice.again().is_some() && choice.again().is_none());
    }
}
