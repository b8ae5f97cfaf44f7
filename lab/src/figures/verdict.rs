//! The verdict on a figure: what the measured pairs say of the seed's claim.
//!
//! In: ratios of pairs that ran by turns, of one thing against another and of the first against itself; or what each
//! round showed. Out: a verdict, or none. Never here: a measurement, a limit that was chosen after it.

use std::fmt;

use replay::turns::Interval;
use serde::Serialize;

/// Widest interval of A against A, to either side of 1, with which anything can be said.
pub(super) const NOISE: f64 = 0.03;
/// Rounds that a verdict needs at least: the sign test's interval over fewer holds less than 95 %.
pub const ROUNDS_MIN: usize = 6;

/// What a figure's measurement says of the seed's claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As the seed has it.
    Agrees,
    /// The other way round.
    Opposite,
    /// Less than half of the seed's effect.
    Smaller,
    /// No effect on this machine.
    NoEffectHere,
    /// The measurement does not decide.
    Undecided,
    /// It differs in something else than the seed's contenders, which cannot be had.
    AnotherFactor,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Agrees => "agrees",
            Verdict::Opposite => "opposite",
            Verdict::Smaller => "smaller",
            Verdict::NoEffectHere => "no effect here",
            Verdict::Undecided => "undecided",
            Verdict::AnotherFactor => "another factor",
        })
    }
}

/// The seed's claim of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Claim {
    /// The changed side is above the base.
    Above,
    /// The changed side is below the base.
    Below,
    /// The changed side is this many times the base, and not 1.
    Times(f64),
    /// None that these contenders can judge.
    OfAnotherFactor,
}

/// Judges a ratio: changed to base, pair by pair, and base to base. None for fewer rounds than a verdict needs.
#[must_use]
pub fn of_ratios(claim: Claim, changed: &[f64], again: &[f64]) -> Option<Verdict> {
    if changed.len() < ROUNDS_MIN {
        return None;
    }
    let (found, noise) = (Interval::of(changed)?, Interval::of(again)?);
    if !noise.is_within(NOISE) {
        return Some(Verdict::Undecided);
    }
    let above = match claim {
        Claim::Above => true,
        Claim::Below => false,
        Claim::Times(times) => times > 1.0,
        Claim::OfAnotherFactor => return Some(Verdict::AnotherFactor),
    };
    if found.is_within(NOISE) {
        return Some(Verdict::NoEffectHere);
    }
    if found.low > 1.0 || found.high < 1.0 {
        return Some(if (found.low > 1.0) == above { Verdict::Agrees } else { Verdict::Opposite });
    }
    match claim {
        // Of an effect below 1 the far end is the lower one.
        Claim::Times(times) if above && found.high - 1.0 < (times - 1.0) / 2.0 => Some(Verdict::Smaller),
        Claim::Times(times) if !above && 1.0 - found.low < (1.0 - times) / 2.0 => Some(Verdict::Smaller),
        _ => Some(Verdict::Undecided),
    }
}

/// Judges what each round showed: a sign, a place or an order, which must be the same in every round. None for fewer
/// rounds than a verdict needs.
#[must_use]
pub fn of_rounds<T: PartialEq>(claimed: &T, opposite: Option<&T>, shown: &[T]) -> Option<Verdict> {
    if shown.len() < ROUNDS_MIN {
        return None;
    }
    let all = |wanted: &T| shown.iter().all(|one| one == wanted);
    Some(match opposite {
        _ if all(claimed) => Verdict::Agrees,
        Some(opposite) if all(opposite) => Verdict::Opposite,
        _ => Verdict::Undecided,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: [f64; 6] = [0.99, 1.0, 1.01, 0.995, 1.005, 1.0];

    #[test]
    fn known_samples_give_their_verdicts() {
        let of = |claim, changed: [f64; 6]| of_ratios(claim, &changed, &QUIET).unwrap();
        let gain = [1.10, 1.2, 1.15, 1.3, 1.12, 1.18];
        assert_eq!(of(Claim::Above, gain), Verdict::Agrees);
        assert_eq!(of(Claim::Times(1.157), gain), Verdict::Agrees);
        assert_eq!(of(Claim::Below, gain), Verdict::Opposite);
        assert_eq!(of(Claim::Times(0.8), gain), Verdict::Opposite);
        let loss = [0.8, 0.9, 0.85, 0.7, 0.88, 0.81];
        assert_eq!(of(Claim::Above, loss), Verdict::Opposite);
        assert_eq!(of(Claim::Below, loss), Verdict::Agrees);
        assert_eq!(of(Claim::Above, [1.02, 0.98, 1.0, 1.01, 1.03, 0.97]), Verdict::NoEffectHere);
        // Up to 6 %, where the seed has 15.7: less than half.
        let little = [0.99, 1.06, 1.02, 1.03, 1.01, 1.05];
        assert_eq!(of(Claim::Times(1.157), little), Verdict::Smaller);
        assert_eq!(of(Claim::Above, little), Verdict::Undecided, "the seed has no number");
        assert_eq!(of(Claim::Times(1.1), little), Verdict::Undecided, "more than half of it is possible");
        assert_eq!(of(Claim::Times(0.8), [0.95, 1.01, 0.98, 1.04, 0.97, 1.0]), Verdict::Smaller);
        // One side of 1, but not by 3 %: the whole interval is within it.
        assert_eq!(of(Claim::Above, [1.01, 1.02, 1.015, 1.01, 1.025, 1.03]), Verdict::NoEffectHere);
    }

    #[test]
    fn noise_leaves_everything_undecided() {
        let gain = [1.5; 6];
        let loud = [0.9, 1.0, 1.1, 1.0, 1.05, 0.95];
        assert_eq!(of_ratios(Claim::Above, &gain, &loud), Some(Verdict::Undecided));
        assert_eq!(of_ratios(Claim::Above, &gain, &QUIET), Some(Verdict::Agrees));
        assert_eq!(of_ratios(Claim::OfAnotherFactor, &gain, &QUIET), Some(Verdict::AnotherFactor));
        assert_eq!(of_ratios(Claim::OfAnotherFactor, &gain, &loud), Some(Verdict::Undecided));
    }

    #[test]
    fn too_few_rounds_give_no_verdict() {
        assert_eq!(of_ratios(Claim::Above, &[1.5; 5], &QUIET), None);
        assert_eq!(of_ratios(Claim::Above, &[1.5; 6], &[1.0; 5]), None);
        assert_eq!(of_rounds(&1, None, &[1; 5]), None);
    }

    #[test]
    fn what_is_shown_must_be_the_same_in_every_round() {
        assert_eq!(of_rounds(&"falls", Some(&"rises"), &["falls"; 6]), Some(Verdict::Agrees));
        assert_eq!(of_rounds(&"falls", Some(&"rises"), &["rises"; 6]), Some(Verdict::Opposite));
        assert_eq!(of_rounds(&"falls", None, &["rises"; 6]), Some(Verdict::Undecided));
        let mixed = ["falls", "falls", "falls", "rises", "falls", "falls"];
        assert_eq!(of_rounds(&"falls", Some(&"rises"), &mixed), Some(Verdict::Undecided));
    }
}
