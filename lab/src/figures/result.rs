//! What a figure's run found, as it is stored.
//!
//! In: measurements. Out: one JSON document a figure, from which its page is drawn. Never here: a judgement.

use serde::Serialize;

use super::verdict::{Interval, Verdict};

/// Values of one contender at one place of the axis.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Point {
    /// Where on the axis; one word for a bar.
    pub at: String,
    /// One value a round.
    pub values: Vec<f64>,
    /// As the contender's options, where they differ by place.
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
        replay::ablation::median(&mut self.values.clone())
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
    /// What differs from the other contenders: as its server reported it, or as it was given.
    pub options: String,
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
    pub machine: String,
    /// Load average of the last minute, before and after.
    pub load_average: [String; 2],
    /// Build of the program.
    pub build: &'static str,
    /// Seconds that it took.
    pub seconds: f64,
    /// How to run it again.
    pub again: String,
}
