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
/// First and longest pause once each of several sources has failed.
const ALL_FAILED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Rounds with the first pause: a pair whose second server takes over, or a group that is started again, is back within
/// a minute, or not soon.
const ROUNDS_SOON: u64 = 60;
/// Pause before the next of several sources: two that end every connection at once are not tried in a spin.
const NEXT_AFTER: Duration = Duration::from_millis(20);
/// Time limit of one question to one of several sources, and of one attempt to connect to it: longer than preflight
/// waits for a member of a group, and no longer than a person waits for the next one.
const ONE_OF_SEVERAL_WITHIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3));

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
    /// Version of the login last tried, and its options.
    tried: u64,
    tried_options: Option<Box<ConnectOptions>>,
    pause: Duration,
    attempts: u64,
}

/// The next attempt to connect.
pub(super) struct Attempt {
    /// Number of attempts since events last arrived; of several sources, of rounds.
    pub number: u64,
    pub wait: Duration,
    /// Each of several sources has failed.
    pub all_failed: bool,
}

/// One try to follow a source.
pub(super) struct Try {
    pub options: ConnectOptions,
    /// There are others that may be followed instead.
    pub has_others: bool,
}

impl SourceChoice {
    fn new(config: &ReplicaConfig, login: &Arc<SourceLogin>) -> SourceChoice {
        SourceChoice {
            login: Arc::clone(login),
            read_timeout: config.read_timeout,
            connect_retry: config.connect_retry,
            retry_count: config.retry_count,
            tried: 0,
            tried_options: None,
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

    /// There are several sources.
    pub(super) fn has_others(&self) -> bool {
        self.login.has_others()
    }

    /// One try, with the source of now.
    pub(super) fn next(&mut self) -> Try {
        let options;
        (self.tried, options) = self.login.versioned_for_try();
        let has_others = self.has_others();
        let (answer, connect) = ONE_OF_SEVERAL_WITHIN;
        let (read_timeout, connect_timeout) = match has_others {
            true => (self.read_timeout.max(answer), options.connect_timeout.min(connect)),
            false => (self.read_timeout, options.connect_timeout),
        };
        let options = ConnectOptions { read_timeout: Some(read_timeout), connect_timeout, ..options };
        self.tried_options = Some(Box::new(options.clone()));
        Try { options, has_others }
    }

    /// Options of the last try.
    pub(super) fn tried_options(&self) -> Option<ConnectOptions> {
        self.tried_options.as_deref().cloned()
    }

    /// The source of the last try is followed.
    pub(super) fn follows(&self, server_uuid: &str) {
        self.login.follows(self.tried, server_uuid);
    }

    /// The last event or heartbeat of the source of the last try arrived then, µs.
    pub(super) fn heard(&self, at_us: u64) {
        self.login.heard(self.tried, at_us);
    }

    /// The login, with its version at the last try.
    pub(super) fn login(&self) -> (Arc<SourceLogin>, u64) {
        (Arc::clone(&self.login), self.tried)
    }

    /// Forgets earlier failures: the next one is the first.
    pub(super) fn forget_failures(&mut self) {
        let first = if self.has_others() { ALL_FAILED.0 } else { RETRY_FIRST };
        (self.pause, self.attempts) = (first, 0);
    }

    /// The attempt after a failure that a retry may fix; None if there were enough. Of several sources, it is with the
    /// next one.
    pub(super) fn again(&mut self, failure: &Failure) -> Option<Attempt> {
        let longest = if self.has_others() {
            if !self.login.leave(self.tried, failure) {
                return Some(Attempt { number: self.attempts + 1, wait: NEXT_AFTER, all_failed: false });
            }
            ALL_FAILED.1
        } else {
            self.connect_retry.max(RETRY_FIRST)
        };
        self.attempts += 1;
        if self.retry_count > 0 && self.attempts >= self.retry_count {
            return None;
        }
        let wait = jittered(self.pause);
        let all_failed = self.has_others();
        if !all_failed || self.attempts >= ROUNDS_SOON {
            self.pause = (self.pause * 2).min(longest);
        }
        Some(Attempt { number: self.attempts, wait, all_failed })
    }

    /// Why none of several sources can be followed.
    pub(super) fn none_can_be_followed(&self) -> Failure {
        self.login.none_can_be_followed()
    }

    /// Number of requests to try now.
    pub(super) fn requests(&self) -> u64 {
        self.login.requests()
    }

    /// True if the next try would be made with other options than the last one. Reads option files that have changed.
    pub(super) fn has_changed(&self) -> bool {
        self.version() != self.tried
    }

    /// Version of the login: another one has other options, or another source. Reads option files that have changed.
    pub(super) fn version(&self) -> u64 {
        self.login.version()
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
        of("mysql://alone@127.0.0.1:3306", retry_count)
    }

    fn of(url: &str, retry_count: u64) -> SourceChoice {
        let login = SourceLogin::new(&ServerOptions::from_url(url), None).unwrap();
        SourceChoice {
            login,
            read_timeout: Duration::from_secs(30),
            connect_retry: Duration::from_secs(1),
            retry_count,
            tried: 0,
            tried_options: None,
            pause: RETRY_FIRST,
            attempts: 0,
        }
    }

    fn lost() -> Failure {
        Failure::error("lost")
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again_after_events() {
        let mut choice = choice(0);
        let whole: Vec<u64> = [100, 200, 400, 800, 1000, 1000].into();
        for (number, whole_ms) in (1..).zip(whole) {
            let attempt = choice.again(&lost()).unwrap();
            let waits_ms = attempt.wait.as_secs_f64() * 1000.0;
            assert_eq!(attempt.number, number);
            assert!(waits_ms >= whole_ms as f64 * 0.75 && waits_ms <= whole_ms as f64, "{whole_ms}: {waits_ms}");
        }
        choice.forget_failures();
        let attempt = choice.again(&lost()).unwrap();
        assert!(attempt.number == 1 && attempt.wait <= RETRY_FIRST);
    }

    #[test]
    fn attempts_end_at_the_count() {
        let mut choice = choice(3);
        let mut again = || choice.again(&lost());
        assert!(again().is_some() && again().is_some() && again().is_none());
    }

    #[test]
    fn several_are_tried_one_after_the_other_and_waited_for_once_all_have_failed() {
        let mut choice = of("mysql://u@a,b,c", 0);
        choice.forget_failures();
        let mut round = |whole_s: u64| {
            for at in 1..=3 {
                let _ = choice.next();
                let attempt = choice.again(&lost()).unwrap();
                let waits_s = attempt.wait.as_secs_f64();
                assert_eq!((attempt.all_failed, waits_s >= 0.75), (at == 3, at == 3));
                assert!(
                    at < 3 || waits_s >= whole_s as f64 * 0.75 && waits_s <= whole_s as f64,
                    "{whole_s}: {waits_s}"
                );
            }
        };
        [1; ROUNDS_SOON as usize].into_iter().chain([2, 4, 8, 16, 32, 60, 60]).for_each(&mut round);
        assert_eq!(choice.next().options.host, "a");
        let _ = choice.again(&lost());
        assert_eq!(choice.next().options.host, "b");
        assert!(choice.none_can_be_followed().text.contains("mysql://u@c: lost"));
        choice.follows("");
        choice.forget_failures();
        // Beginning after the one that was lost; the others' reasons are those of now.
        assert!(!choice.again(&Failure::error("gone")).unwrap().all_failed);
        assert_eq!(choice.next().options.host, "c");
        assert_eq!(choice.none_can_be_followed().text, "none of 3 sources can be followed:\nmysql://u@b: gone");
    }
}
