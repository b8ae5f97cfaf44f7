//! What a figure's run found, as it is stored.
//!
//! In: measurements. Out: one JSON document a figure, from which its page is drawn. Never here: a judgement.

use replay::conditions::Conditions;
use replay::turns::Interval;
use serde::Serialize;

use super::verdict::Verdict;

/// Values of one contender at one place of the axis.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Point {
    /// Where on the axis; one word for a bar.
    pub at: String,
    /// One value a round.
    pub values: Vec<f64>,
    /// What differs there from the other contenders: as its server reported it, or as it was given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub options: String,
    /// True if a replica did not follow there, in at least one round.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub falls: bool,
}

impl Point {
    /// Median of the rounds.
    #[must_use]
    pub fn median(&self) -> f64 {
        replay::turns::median(&self.values)
    }
}

/// A value without the digits that nobody reads.
#[must_use]
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Whose a contender is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// MySQL, as the figure's base.
    #[default]
    Base,
    /// MySQL, with the one factor changed.
    Changed,
    /// The base under another name.
    Again,
    /// Slipstream, over the same log.
    Slipstream,
}

/// A contender and its values.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    pub name: String,
    pub side: Side,
    pub points: Vec<Point>,
}

/// What a run found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Found {
    /// Unit of all values.
    pub unit: &'static str,
    /// Name of the axis; None: bars.
    pub axis: Option<&'static str>,
    pub series: Vec<Series>,
    /// Changed to base, by pair; for a ratio.
    pub ratios: Vec<f64>,
    /// Base to base, by pair; for a ratio.
    pub again: Vec<f64>,
    /// What each round showed, in words; for the other kinds.
    pub shown: Vec<String>,
    /// The verdict on what the rounds showed, if there were enough.
    pub judged: Option<Verdict>,
    pub mysql_version: String,
    /// Hash of the rows in which all that replayed the log ended.
    pub hash: Option<String>,
    /// What else has to be known.
    pub notes: Vec<String>,
    /// Folded stacks, which are a file of their own; empty if there are none.
    #[serde(skip)]
    pub folded: String,
}

impl Found {
    /// A contender's point at a place; both are added at the end where they are new.
    fn point(&mut self, (name, side): (&str, Side), at: &str) -> Option<&mut Point> {
        let series = self.series.iter().position(|series| series.name == name).unwrap_or_else(|| {
            self.series.push(Series { name: name.to_owned(), side, points: Vec::new() });
            self.series.len() - 1
        });
        let points = &mut self.series.get_mut(series)?.points;
        let point = points.iter().position(|point| point.at == at).unwrap_or_else(|| {
            points.push(Point { at: at.to_owned(), ..Point::default() });
            points.len() - 1
        });
        points.get_mut(point)
    }

    /// Adds a contender's value of a round at a place, and the options that it had there.
    pub(crate) fn add(&mut self, who: (&str, Side), at: &str, value: f64, options: &str) {
        if let Some(point) = self.point(who, at) {
            point.values.push(value);
            options.clone_into(&mut point.options);
        }
    }

    /// Marks a place where a replica did not follow the contender.
    pub(crate) fn mark(&mut self, who: (&str, Side), at: &str) {
        if let Some(point) = self.point(who, at) {
            point.falls = true;
        }
    }
}

/// How a figure is measured, as it was declared before the run.
#[derive(Clone, Debug, Serialize)]
pub struct Declared {
    pub load: &'static str,
    pub factor: &'static str,
    pub measure: &'static str,
    pub kind: String,
    pub rule: &'static str,
}

/// A figure, as stored.
#[derive(Clone, Debug, Serialize)]
pub struct Stored {
    pub number: &'static str,
    pub title: String,
    pub seed: &'static str,
    pub sentence: &'static str,
    pub seeds_number: String,
    /// The seed's number, where it is a ratio.
    pub seeds_ratio: Option<f64>,
    pub question: &'static str,
    #[serde(flatten)]
    pub plan: Declared,
    /// True for the form of at most three minutes, which gives no verdict.
    pub quick: bool,
    pub rounds: u32,
    pub found: Found,
    pub interval: Option<Interval>,
    pub interval_again: Option<Interval>,
    pub verdict: Option<Verdict>,
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Build of the program.
    pub build: &'static str,
    /// Seconds that it took.
    pub seconds: f64,
    /// How to run it again.
    pub again: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_keep_digits_and_large_ones_have_none_after_the_point() {
        assert_eq!([0.0, 0.0361, 4.25, 1234.5].map(short), ["0", "0.036", "4.25", "1234"]);
    }

    #[test]
    fn values_are_kept_by_contender_and_place_with_the_options_of_that_place() {
        let mut found = Found::default();
        let (base, ours) = (("MySQL", Side::Base), ("ours", Side::Slipstream));
        for (who, at, value) in [(base, "1", 1.0), (base, "8", 2.0), (ours, "1", 3.0), (base, "8", 4.0)] {
            found.add(who, at, value, &format!("workers={at}"));
        }
        found.mark(base, "8");
        found.add(base, "8", 6.0, "workers=8");
        let points = |at: usize| {
            let points = &found.series[at].points;
            points.iter().map(|one| (&one.at[..], &one.values[..], &one.options[..], one.falls)).collect::<Vec<_>>()
        };
        assert_eq!(points(0), [("1", &[1.0][..], "workers=1", false), ("8", &[2.0, 4.0, 6.0], "workers=8", true)]);
        assert_eq!(points(1), [("1", &[3.0][..], "workers=1", false)]);
        assert_eq!([found.series[0].side, found.series[1].side], [Side::Base, Side::Slipstream]);
    }
}
