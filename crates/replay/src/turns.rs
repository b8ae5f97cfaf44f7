//! Measuring by turns: who runs when, and what the rounds say together.
//!
//! In: contenders; values, one a round. Out: an order of runs, medians, the sign test's interval. Never here: a run, a
//! verdict.

use std::fmt;

use serde::Serialize;

/// Share of the sign test's error.
const ERROR_MAX: f64 = 0.05;

/// The order of a round, the first of which is 0: every second one the other way round, so that a machine which becomes
/// slower slows nobody more than others.
pub fn turns<'a, I>(all: I, round: u32) -> Box<dyn Iterator<Item = I::Item> + 'a>
where
    I: IntoIterator,
    I::IntoIter: DoubleEndedIterator + 'a,
{
    if round.is_multiple_of(2) { Box::new(all.into_iter()) } else { Box::new(all.into_iter().rev()) }
}

/// The middle value; the mean of the two middle values if their number is even; 0 of none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
    (at(sorted.len().saturating_sub(1) / 2) + at(sorted.len() / 2)) / 2.0
}

/// One contender's values over another's, round by round.
#[must_use]
pub fn ratios(values: &[f64], base: &[f64]) -> Vec<f64> {
    values.iter().zip(base).map(|(value, base)| value / base.max(f64::MIN_POSITIVE)).collect()
}

/// Interval of a median by the sign test: of n values the k-th lowest and highest hold it with this probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
    /// Probability that it holds the median, 0 to 1.
    pub level: f64,
}

impl Interval {
    /// As benches/by-turns has it; None for fewer values than a level of 95 % needs, which are six.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Interval> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        // P(X < k) for X of B(n, 1/2), beginning with k = 1.
        let mut term = 0.5f64.powi(i32::try_from(n).ok()?);
        let (mut k, mut below) = (1, term);
        if n == 0 || 2.0 * below > ERROR_MAX {
            return None;
        }
        while 2 * k < n {
            term = term * (n - k + 1) as f64 / k as f64;
            if 2.0 * (below + term) > ERROR_MAX {
                break;
            }
            below += term;
            k += 1;
        }
        Some(Interval { low: *sorted.get(k - 1)?, high: *sorted.get(n - k)?, level: 1.0 - 2.0 * below })
    }

    /// True if all of it is within this distance of 1.
    #[must_use]
    pub fn is_within(&self, room: f64) -> bool {
        self.low >= 1.0 - room && self.high <= 1.0 + room
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} to {:.3} ({:.1} %)", self.low, self.high, 100.0 * self.level)
    }
}

/// An interval as a table's cell.
#[must_use]
pub fn text(interval: Option<Interval>) -> String {
    interval.map_or("-".to_owned(), |interval| interval.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_round_runs_the_other_way_round() {
        let order = |round| turns(["a", "b", "c"], round).collect::<String>();
        assert_eq!([0, 1, 2].map(order), ["abc", "cba", "abc"]);
    }

    #[test]
    fn medians_are_middle_values_and_ratios_are_of_rounds() {
        assert_eq!([&[][..], &[7.0], &[3.0, 1.0], &[9.0, 1.0, 2.0]].map(median), [0.0, 7.0, 2.0, 2.0]);
        assert_eq!(ratios(&[2.0, 6.0, 1.0], &[1.0, 4.0]), [2.0, 1.5]);
    }

    #[test]
    fn the_interval_is_that_of_by_turns() {
        // Six: the lowest and the highest, 96.9 %; eleven: the second lowest and highest, 98.8 %.
        let six = Interval::of(&[3.0, 1.0, 6.0, 2.0, 5.0, 4.0]).unwrap();
        assert_eq!((six.low, six.high, format!("{:.1}", six.level * 100.0)), (1.0, 6.0, "96.9".into()));
        let eleven: Vec<f64> = (1..=11).map(f64::from).collect();
        let eleven = Interval::of(&eleven).unwrap();
        assert_eq!((eleven.low, eleven.high, format!("{:.1}", eleven.level * 100.0)), (2.0, 10.0, "98.8".into()));
        assert_eq!(Interval::of(&[1.0; 5]), None, "93.8 %");
        assert_eq!(Interval::of(&[]), None);
    }
}
