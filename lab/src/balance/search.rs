//! The search for the highest rate that is followed: which rate to try next, and when the answer is there.
//!
//! In: what was tried so far. Out: the next rate, or the answer. Never here: a try.

use std::fmt;

use serde::Serialize;

use super::series::Verdict;

/// Tries of one search; an edge that is noisier than that is given as it stands.
const TRIES_MAX: usize = 40;
/// Lowest rate that is tried, transactions a second.
const RATE_MIN: f64 = 1.0;
/// Part by which two searches may differ and still have one answer.
const SEARCHES_APART: f64 = 0.05;
/// Factor from a rate that is followed to the next one, as long as none failed.
const UPWARDS: f64 = 1.5;

/// How exact a search is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Exactness {
    /// The highest rate that is followed and the lowest that is not are this close, as a part of the former.
    pub within: f64,
    /// Tries of each of these two, of which the majority counts.
    pub edge_tries: usize,
}

/// What became of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tried {
    pub rate: f64,
    pub verdict: Verdict,
}

/// The answer of one search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Highest rate that is followed; None: not even the lowest is.
    pub rate: Option<f64>,
    /// Lowest rate that is not followed.
    pub lowest_failing: Option<f64>,
    /// True if the source sends no more than that, or its log ends: the replica may follow more.
    pub at_least: bool,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rate, self.at_least) {
            (None, _) => f.write_str("no rate is followed")?,
            (Some(rate), true) => write!(f, "at least {rate:.0}, the feed's end")?,
            (Some(rate), false) => write!(f, "{rate:.0}")?,
        }
        match self.lowest_failing {
            Some(rate) => write!(f, " (lowest failing {rate:.0})"),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    Try(f64),
    Done(Answer),
}

/// All tries of one rate.
struct Rate {
    rate: f64,
    follows: usize,
    fails: usize,
    not_sent: bool,
}

impl Rate {
    fn is_followed(&self) -> bool {
        !self.not_sent && self.follows > self.fails
    }

    /// False while further tries could turn the majority.
    fn is_settled(&self, tries: usize) -> bool {
        self.not_sent || 2 * self.follows.max(self.fails) > tries
    }
}

fn by_rate(tried: &[Tried]) -> Vec<Rate> {
    let mut rates: Vec<Rate> = Vec::new();
    for one in tried {
        let at = match rates.iter().position(|known| known.rate == one.rate) {
            Some(at) => at,
            None => {
                rates.push(Rate { rate: one.rate, follows: 0, fails: 0, not_sent: false });
                rates.len() - 1
            }
        };
        let Some(rate) = rates.get_mut(at) else { continue };
        match one.verdict {
            Verdict::Follows => rate.follows += 1,
            Verdict::NotSent => rate.not_sent = true,
            _ => rate.fails += 1,
        }
    }
    rates.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    rates
}

/// What to do after these tries, the first of which is at `start`.
#[must_use]
pub fn next(tried: &[Tried], start: f64, exactness: Exactness) -> Step {
    let rates = by_rate(tried);
    let high = rates.iter().find(|rate| !rate.is_followed());
    let below = |rate: &&Rate| high.is_none_or(|high| rate.rate < high.rate);
    let low = rates.iter().rev().filter(below).find(|rate| rate.is_followed());
    let answer = Answer {
        rate: low.map(|low| low.rate),
        lowest_failing: rates.iter().find(|rate| !rate.is_followed() && !rate.not_sent).map(|rate| rate.rate),
        at_least: high.is_some_and(|high| high.not_sent),
    };
    let begun_again = rates.iter().find(|rate| rate.follows + rate.fails > 1 && !rate.is_settled(exactness.edge_tries));
    match (low, high) {
        _ if tried.len() >= TRIES_MAX => Step::Done(answer),
        _ if begun_again.is_some() => Step::Try(begun_again.map_or(start, |rate| rate.rate)),
        (None, None) => Step::Try(start),
        (Some(low), None) => Step::Try(low.rate * UPWARDS),
        (None, Some(high)) if high.rate / 2.0 < RATE_MIN => Step::Done(answer),
        (None, Some(high)) => Step::Try(high.rate / 2.0),
        (Some(low), Some(high)) if high.rate > low.rate * (1.0 + exactness.within) => {
            Step::Try((low.rate * high.rate).sqrt())
        }
        (Some(low), Some(high)) => match [low, high].into_iter().find(|one| !one.is_settled(exactness.edge_tries)) {
            Some(open) => Step::Try(open.rate),
            None => Step::Done(answer),
        },
    }
}

/// What several searches say together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Together {
    /// They agree; their mean.
    One(f64),
    /// They differ by more than that; the least and the most.
    Range(f64, f64),
}

impl fmt::Display for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Together::One(rate) => write!(f, "{rate:.0}"),
            Together::Range(least, most) => write!(f, "{least:.0} to {most:.0}"),
        }
    }
}

/// The answers of all searches as one; None where none found a rate.
#[must_use]
pub fn together(answers: &[Answer]) -> Option<Together> {
    let rates: Vec<f64> = answers.iter().map(|answer| answer.rate).collect::<Option<_>>()?;
    let (least, most) = rates.iter().fold((f64::MAX, 0.0f64), |(a, b), &rate| (a.min(rate), b.max(rate)));
    match rates.len() {
        0 => None,
        count if most <= least * (1.0 + SEARCHES_APART) => {
            Some(Together::One(rates.iter().sum::<f64>() / count as f64))
        }
        _ => Some(Together::Range(least, most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Exactness = Exactness { within: 0.02, edge_tries: 3 };

    /// Runs a search; `try_one` gets the rate and how often it was tried before.
    fn search(start: f64, exactness: Exactness, try_one: &dyn Fn(f64, usize) -> Verdict) -> (Answer, Vec<Tried>) {
        let mut tried: Vec<Tried> = Vec::new();
        loop {
            match next(&tried, start, exactness) {
                Step::Done(answer) => return (answer, tried),
                Step::Try(rate) => {
                    let before = tried.iter().filter(|one| one.rate == rate).count();
                    tried.push(Tried { rate, verdict: try_one(rate, before) });
                    assert!(tried.len() <= TRIES_MAX, "{tried:?}");
                }
            }
        }
    }

    fn edge(limit: f64) -> impl Fn(f64, usize) -> Verdict {
        move |rate, _| if rate <= limit { Verdict::Follows } else { Verdict::BacklogGrows }
    }

    #[test]
    fn a_clear_edge_is_found_from_below_and_above() {
        for start in [20.0, 900.0, 50_000.0] {
            let (answer, tried) = search(start, FULL, &edge(1234.0));
            let (rate, failing) = (answer.rate.unwrap(), answer.lowest_failing.unwrap());
            assert!(rate <= 1234.0 && failing > 1234.0 && failing <= rate * 1.02 + 1e-9, "{start}: {answer}");
            assert!(!answer.at_least && tried.len() < 30, "{start}: {}", tried.len());
            // Both sides of the edge were tried until two said the same.
            for edge in [rate, failing] {
                assert_eq!(tried.iter().filter(|one| one.rate == edge).count(), 2, "{tried:?}");
            }
        }
    }

    #[test]
    fn one_bad_try_at_the_edge_does_not_decide() {
        // Every rate up to the edge fails when it is tried for the first time above 1,200.
        let noisy = |rate: f64, before: usize| match rate {
            rate if rate > 1234.0 => Verdict::TooLate,
            rate if rate > 1200.0 && before == 1 => Verdict::TooLate,
            _ => Verdict::Follows,
        };
        let (answer, tried) = search(1000.0, FULL, &noisy);
        assert!((1200.0..=1234.0).contains(&answer.rate.unwrap()), "{answer}: {tried:?}");
        assert!(tried.iter().any(|one| tried.iter().filter(|other| other.rate == one.rate).count() == 3), "{tried:?}");
    }

    #[test]
    fn a_feed_that_ends_gives_a_lower_bound() {
        let (answer, _) =
            search(500.0, FULL, &|rate, _| if rate <= 2000.0 { Verdict::Follows } else { Verdict::NotSent });
        assert!(answer.at_least && answer.lowest_failing.is_none());
        assert!((1960.0..=2000.0).contains(&answer.rate.unwrap()), "{answer}");
        assert!(answer.to_string().ends_with("the feed's end"), "{answer}");
        // A rate that failed below it is the edge.
        let both = |rate: f64, _| match rate {
            rate if rate <= 700.0 => Verdict::Follows,
            rate if rate <= 2000.0 => Verdict::BacklogGrows,
            _ => Verdict::NotSent,
        };
        let (answer, _) = search(4000.0, FULL, &both);
        assert!(!answer.at_least && (686.0..=700.0).contains(&answer.rate.unwrap()), "{answer}");
    }

    #[test]
    fn a_replica_that_follows_nothing_ends_the_search() {
        let (answer, tried) = search(100.0, FULL, &|_, _| Verdict::TooLate);
        assert_eq!((answer.rate, answer.to_string().as_str()), (None, "no rate is followed (lowest failing 2)"));
        assert!(tried.len() < 10, "{tried:?}");
    }

    #[test]
    fn pure_chance_ends_too() {
        let chance = |rate: f64, before: usize| match (rate.to_bits() >> 7).wrapping_add(before as u64) % 2 {
            0 => Verdict::Follows,
            _ => Verdict::TooLate,
        };
        search(777.0, FULL, &chance);
        search(777.0, Exactness { within: 0.1, edge_tries: 1 }, &chance);
    }

    #[test]
    fn two_searches_are_one_answer_or_a_range() {
        let answer = |rate| Answer { rate, lowest_failing: None, at_least: false };
        assert_eq!(together(&[answer(Some(100.0)), answer(Some(104.0))]), Some(Together::One(102.0)));
        assert_eq!(together(&[answer(Some(110.0)), answer(Some(100.0))]), Some(Together::Range(100.0, 110.0)));
        assert_eq!(together(&[answer(Some(110.0)), answer(None)]), None);
        assert_eq!(together(&[]), None);
    }
}
