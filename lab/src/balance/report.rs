//! What a search printed: all tries, both searches, and the answer with what it is not.
//!
//! In: tries. Out: a table and JSON. Never here: a rate that is called R(L_max) after windows of less than 300 seconds.

use std::fmt;

use replay::conditions::Conditions;
use serde::Serialize;

use super::search::{Answer, Together};
use super::series::{Shown, Verdict};

/// Seconds of a window after which a result is called R(L_max).
const NAMED_S: f64 = 300.0;
/// Flushes of a store that a try must see, so that it is not a burst.
const FLUSHES_MIN: u64 = 3;

#[derive(Clone, Debug, Serialize)]
pub struct Try {
    /// Transactions a second that were asked for; None: as many as the terminals begin.
    #[serde(rename = "asked")]
    pub rate: Option<f64>,
    pub terminals: Option<usize>,
    #[serde(flatten)]
    pub shown: Shown,
    pub verdict: Verdict,
    /// The same with a limit of 100 ms.
    pub verdict_100_ms: Verdict,
    /// Cuts of our store meanwhile.
    pub flushes: Option<u64>,
    /// Lag at the load's end by the replica's own account, seconds: status, or performance_schema's applier table.
    pub own_lag_s: Option<f64>,
    /// CPU seconds of the replica for each second of the window.
    pub cpus: f64,
    /// Of a primary under TPC-C.
    pub tpmc: Option<f64>,
}

impl fmt::Display for Try {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |value: Option<f64>| value.map_or("never".to_owned(), |value| format!("{value:.3} s"));
        let asked = match (self.rate, self.terminals) {
            (Some(rate), _) => format!("{rate:.0}/s"),
            (None, Some(terminals)) => format!("{terminals} terminals"),
            (None, None) => "unbound".to_owned(),
        };
        let Shown { rate, slope, lag_p99_s, drain_s, .. } = self.shown;
        let (p99, drain) = (seconds(lag_p99_s), seconds(drain_s));
        let own = self.own_lag_s.map_or(String::new(), |lag| format!(" (at the end it says {lag:.3} s)"));
        write!(
            f,
            "{asked}: {rate:.0}/s, slope {slope:+.1}/s, p99 of the lag {p99}{own}, drained after {drain}: {}",
            self.verdict
        )
    }
}

/// One search, or a row of tries by terminals.
#[derive(Clone, Debug, Serialize)]
pub struct Search {
    pub tries: Vec<Try>,
    /// None where rates were not searched for.
    pub answer: Option<Answer>,
    /// Hash of the replica's rows, which are its source's, at the search's end.
    pub hash: String,
}

impl Search {
    /// True if the tries at the answer saw fewer than three flushes of our store.
    fn is_burst(&self) -> bool {
        let rate = self.answer.and_then(|answer| answer.rate);
        let of_answer = self.tries.iter().filter(|one| one.rate == rate && one.verdict == Verdict::Follows);
        of_answer.filter_map(|one| one.flushes).max().is_some_and(|flushes| flushes < FLUSHES_MIN)
    }

    /// Highest rate that was also followed within 100 ms.
    fn within_100_ms(&self) -> Option<f64> {
        let within = self.tries.iter().filter(|one| one.verdict_100_ms == Verdict::Follows);
        within.filter_map(|one| one.rate).max_by(f64::total_cmp)
    }
}

/// All searches of a contender.
#[derive(Clone, Debug, Serialize)]
pub struct Balanced {
    pub contender: String,
    /// As the server reported them.
    pub options: String,
    pub searches: Vec<Search>,
    pub together: Option<Together>,
}

/// Result of `lab balance`.
#[derive(Clone, Debug, Serialize)]
pub struct BalanceReport {
    pub source: String,
    /// Seconds of a window, after a fifth of that as warm-up.
    pub window_s: f64,
    /// Limit of the lag, seconds.
    pub lag_max_s: f64,
    pub contenders: Vec<Balanced>,
    pub mysql_version: Option<String>,
    #[serde(flatten)]
    pub conditions: Conditions,
}

impl fmt::Display for BalanceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.window_s >= NAMED_S {
            true => format!("R({} s)", self.lag_max_s),
            false => format!("highest rate followed (not R({} s): that takes windows of {NAMED_S} s)", self.lag_max_s),
        };
        writeln!(f, "{name}, windows of {} s; source: {}", self.window_s, self.source)?;
        for one in &self.contenders {
            writeln!(f, "{} ({})", one.contender, one.options)?;
            for search in &one.searches {
                for tried in &search.tries {
                    writeln!(f, "    {tried}")?;
                }
                if let Some(answer) = &search.answer {
                    let within =
                        search.within_100_ms().map_or(String::new(), |rate| format!("; within 100 ms {rate:.0}"));
                    let burst = if search.is_burst() { "; burst: fewer than three flushes of the store" } else { "" };
                    writeln!(f, "  search: {answer}{within}{burst}; rows equal, hash {}", search.hash)?;
                } else {
                    writeln!(f, "  rows equal, hash {}", search.hash)?;
                }
            }
            if let Some(together) = &one.together {
                writeln!(f, "  {} transactions/s", together)?;
            }
        }
        if let Some(version) = &self.mysql_version {
            writeln!(f, "mysql {version}")?;
        }
        writeln!(f, "{}", self.conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(rate: f64, verdict: Verdict, flushes: u64) -> Try {
        let shown = Shown { rate, slope: 0.5, lag_p99_s: Some(0.05), lag_p50_s: Some(0.01), drain_s: None };
        let verdict_100_ms = if rate < 100.0 { Verdict::Follows } else { Verdict::TooLate };
        let flushes = Some(flushes);
        Try {
            rate: Some(rate),
            terminals: None,
            shown,
            verdict,
            verdict_100_ms,
            flushes,
            own_lag_s: None,
            cpus: 0.5,
            tpmc: None,
        }
    }

    fn report(window_s: f64, flushes: u64) -> String {
        let tries = vec![tried(90.0, Verdict::Follows, 9), tried(100.0, Verdict::Follows, flushes)];
        let answer = Some(Answer { rate: Some(100.0), lowest_failing: Some(102.0), at_least: false });
        let search = Search { tries, answer, hash: "abc".into() };
        let contenders = vec![Balanced {
            contender: "slipstream".into(),
            options: "as it ships".into(),
            searches: vec![search],
            together: Some(Together::One(100.0)),
        }];
        BalanceReport {
            source: "a log".into(),
            window_s,
            lag_max_s: 1.0,
            contenders,
            mysql_version: None,
            conditions: Conditions::begin(),
        }
        .to_string()
    }

    #[test]
    fn only_long_windows_are_called_by_the_name() {
        assert!(report(300.0, 3).starts_with("R(1 s), windows of 300 s"));
        assert!(report(15.0, 3).starts_with("highest rate followed (not R(1 s)"));
    }

    #[test]
    fn a_burst_and_a_smaller_limit_are_said() {
        let text = report(15.0, 2);
        assert!(text.contains("search: 100 (lowest failing 102); within 100 ms 90; burst"), "{text}");
        assert!(!report(15.0, 3).contains("burst"));
        assert!(text.contains("drained after never"), "{text}");
    }
}
