//! The servers of which one is followed: in which order they are tried, and why one was left.
//!
//! In: the servers that the options name, which of them was lost and why. Out: the one that is to be tried, a report.
//! Never here: a connection, a wait, a server's password in a text.

use client::ConnectOptions;
use observe::{CandidateReport, LeftReport, utc_text};

use crate::exit::Failure;
use crate::server_options::ServerOptions;

/// One that was followed for less than this, µs, counts as failed like one that refuses: several that end every
/// connection soon are tried with pauses.
const STEADY_AFTER_US: u64 = 1_000_000;

pub(crate) type Place = (String, u16, Option<std::path::PathBuf>);

pub(crate) fn place(options: &ConnectOptions) -> Place {
    (options.host.clone(), options.port, options.socket.clone())
}

#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub server: ServerOptions,
    pub options: ConnectOptions,
    /// Why it cannot be followed, and since when, µs; None if it was not tried since the last one was followed.
    refused: Option<(u64, String)>,
    /// It was tried since the last one was followed for long, or all had failed.
    has_failed: bool,
}

/// The servers, never none, and which of them is followed.
#[derive(Clone, Debug)]
pub(crate) struct Candidates {
    /// In the order in which they are tried.
    all: Vec<Candidate>,
    /// The one that is followed, or is to be tried.
    at: usize,
    /// Since when it is followed, µs; 0 if it is not.
    followed_since_us: u64,
    left: Option<LeftReport>,
}

impl Candidates {
    /// # Errors
    /// Code 2 if the options are invalid.
    pub(crate) fn of(server: &ServerOptions) -> Result<Candidates, Failure> {
        let mut all: Vec<Candidate> = Vec::new();
        for server in server.each()? {
            let options = server.connect_options()?;
            if all.iter().any(|other| place(&other.options) == place(&options)) {
                return Err(Failure::usage(format!("the source names {options} twice")));
            }
            all.push(Candidate { server, options, refused: None, has_failed: false });
        }
        Ok(Candidates { all, at: 0, followed_since_us: 0, left: None })
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// The one that is followed, or is to be tried.
    pub(crate) fn now(&self) -> &Candidate {
        // `at` is always below the number of them.
        &self.all[self.at]
    }

    /// Takes other options for the same servers, and servers more or less. True if anything changed.
    ///
    /// # Errors
    /// Code 2: the one that is followed is not among them.
    pub(crate) fn replace(&mut self, server: &ServerOptions) -> Result<bool, Failure> {
        let mut next = Candidates::of(server)?;
        let here = place(&self.now().options);
        let Some(at) = next.all.iter().position(|candidate| place(&candidate.options) == here) else {
            let named = next.now().options.to_string();
            return Err(Failure::usage(format!(
                "the options name another source now, {named}: start the replica again"
            )));
        };
        for candidate in &mut next.all {
            let before = self.all.iter().find(|before| place(&before.options) == place(&candidate.options));
            if let Some(before) = before {
                (candidate.refused, candidate.has_failed) = (before.refused.clone(), before.has_failed);
            }
        }
        let servers = |of: &Candidates| of.all.iter().map(|candidate| candidate.server.clone()).collect::<Vec<_>>();
        let changed = servers(self) != servers(&next);
        *self = Candidates { all: next.all, at, followed_since_us: self.followed_since_us, left: self.left.take() };
        Ok(changed)
    }

    /// From now on the one of now is followed, and what others were refused for is forgotten.
    pub(crate) fn follows(&mut self, now_us: u64) {
        self.followed_since_us = now_us;
        self.all.iter_mut().for_each(|candidate| candidate.refused = None);
    }

    /// The one of now cannot be followed, or no longer: the next one is to be tried. True if all have failed by now.
    pub(crate) fn leave(&mut self, why: &str, now_us: u64) -> bool {
        let followed_since_us = std::mem::take(&mut self.followed_since_us);
        if followed_since_us > 0 && now_us.saturating_sub(followed_since_us) >= STEADY_AFTER_US {
            self.all.iter_mut().for_each(|candidate| candidate.has_failed = false);
        }
        if followed_since_us > 0 {
            let uri = self.now().server.shown();
            self.left = Some(LeftReport { uri, why: why.to_owned(), at: utc_text(now_us) });
        }
        let left = &mut self.all[self.at];
        (left.refused, left.has_failed) = (Some((now_us, why.to_owned())), true);
        let all_failed = self.all.iter().all(|candidate| candidate.has_failed);
        if all_failed {
            self.all.iter_mut().for_each(|candidate| candidate.has_failed = false);
        }
        self.at = self.next();
        all_failed
    }

    /// Of those that have not failed, the next one after that of now.
    fn next(&self) -> usize {
        let count = self.all.len();
        (1..=count).map(|step| (self.at + step) % count).find(|at| !self.all[*at].has_failed).unwrap_or(self.at)
    }

    /// Why each of them cannot be followed, a line each.
    pub(crate) fn reasons(&self) -> String {
        let line = |candidate: &Candidate| {
            let (_, why) = candidate.refused.as_ref()?;
            Some(format!("{}: {}", candidate.server.shown(), why.replace('\n', "\n    ")))
        };
        self.all.iter().filter_map(line).collect::<Vec<_>>().join("\n")
    }

    /// Each of them, for status; none if there is only one.
    pub(crate) fn report(&self) -> Vec<CandidateReport> {
        if self.all.len() < 2 {
            return Vec::new();
        }
        let of = |(at, candidate): (usize, &Candidate)| CandidateReport {
            uri: candidate.server.shown(),
            followed: at == self.at && self.followed_since_us > 0,
            why_not: candidate.refused.as_ref().map(|(_, why)| why.clone()).unwrap_or_default(),
            tried: candidate.refused.as_ref().map(|(at_us, _)| utc_text(*at_us)),
        };
        self.all.iter().enumerate().map(of).collect()
    }

    /// Since when the one of now is followed, and which one was left before.
    pub(crate) fn followed(&self) -> (Option<String>, Option<LeftReport>) {
        ((self.followed_since_us > 0).then(|| utc_text(self.followed_since_us)), self.left.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Candidates {
        Candidates::of(&ServerOptions::from_url(url)).unwrap()
    }

    fn host(of: &Candidates) -> &str {
        &of.now().options.host
    }

    #[test]
    fn the_next_one_is_tried_beginning_after_the_one_that_was_lost() {
        let mut three = of("mysql://u:geheim@a,b:3307,[::1]:3308/?ssl-mode=REQUIRED");
        assert_eq!((three.count(), host(&three)), (3, "a"));
        assert!(!three.leave("refused", 1));
        three.follows(2);
        assert_eq!((host(&three), three.now().options.port), ("b", 3307));
        assert!(!three.leave("the source closed the connection", 3_000_000));
        assert_eq!(host(&three), "::1");
        assert!(!three.leave("a\nb", 4));
        assert_eq!(host(&three), "a");
        assert_eq!(
            three.reasons(),
            "mysql://u:***@b:3307/?ssl-mode=REQUIRED: the source closed the connection\n\
             mysql://u:***@[::1]:3308/?ssl-mode=REQUIRED: a\n    b"
        );
        let (since, left) = three.followed();
        assert_eq!((since, left.unwrap().uri.as_str()), (None, "mysql://u:***@b:3307/?ssl-mode=REQUIRED"));
        assert!(!format!("{:?}", three.report()).contains("geheim"));
        assert!(three.leave("refused", 5), "all have failed");
        assert!(!three.leave("refused", 6) && host(&three) == "::1");
    }

    #[test]
    fn other_options_may_name_other_servers_but_for_the_one_of_now() {
        let mut two = of("mysql://u@a,b");
        assert!(!two.leave("lost", 1));
        assert!(!two.replace(&ServerOptions::from_url("mysql://u@a,b")).unwrap());
        assert!(two.replace(&ServerOptions::from_url("mysql://v@c,b,a")).unwrap());
        assert_eq!((host(&two), two.now().options.user.as_str(), two.count()), ("b", "v", 3));
        assert!(two.reasons().contains("@a"));
        let refused = two.replace(&ServerOptions::from_url("mysql://v@c")).unwrap_err().text;
        assert!(refused.contains("another source now, mysql://v@c:3306"), "{refused}");
        assert_eq!(two.count(), 3);
    }

    #[test]
    fn what_names_no_list_is_refused() {
        let refused = |server: ServerOptions| Candidates::of(&server).unwrap_err().text;
        assert!(refused(ServerOptions::from_url("mysql://u@a,,b")).contains("an empty address"));
        assert!(refused(ServerOptions::from_url("mysql://u@a,b,a:3306")).contains("names mysql://u@a:3306 twice"));
        let port = ServerOptions { port: Some(1), ..ServerOptions::from_url("mysql://u@a,b") };
        assert!(refused(port).contains("each with its own port"));
        // A comma before the @ is of the password.
        assert_eq!(of("mysql://u:a,b@c").count(), 1);
    }
}
