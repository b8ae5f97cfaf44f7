//! What an entry of the registry says of a figure, before anything is measured.
//!
//! In: constants. Out: the same, as values and as text. Never here: a measurement.

use std::fmt;

use serde::Serialize;

use super::context::Context;
use super::result::Found;
use super::verdict::Claim;

/// A figure of the documents.
pub struct Entry {
    /// Its number, and the numbers under which the documents show it again.
    pub numbers: &'static [&'static str],
    /// The document: 000 and 001 are chapter 10, 002 the post on Group Replication, 003 the one on WRITESET, 004
    /// chapter 11.
    pub seed: &'static str,
    /// The seed's own sentence.
    pub sentence: &'static str,
    /// The seed's number and the line it stands in; None: the seed gives a direction only.
    pub number: Option<(&'static str, u32)>,
    pub question: &'static str,
    pub how: How,
}

/// Whether and how a figure can be had.
pub enum How {
    Measured(Plan),
    /// A diagram: where ours is.
    Diagram(&'static str),
    /// It cannot be had on this kind of machine: why.
    NotHere(&'static str),
}

/// How a figure is measured; all of it is fixed before the first run.
pub struct Plan {
    pub load: &'static str,
    /// The one thing in which the contenders differ.
    pub factor: &'static str,
    /// The measured quantity, with its unit.
    pub measure: &'static str,
    pub kind: Kind,
    /// When the measurement agrees.
    pub rule: &'static str,
    pub run: fn(&Context<'_>) -> anyhow::Result<Found>,
}

/// Form of the claim that the verdict judges.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Changed to base, pair by pair.
    Ratio(Claim),
    /// How something moves over terminals.
    Trend,
    /// A place in an order.
    Rank,
    /// Where two lines cross.
    Crossing,
    /// A best value between the ends.
    InnerOptimum,
    /// The same value everywhere.
    Flat,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Ratio(_) => "ratio",
            Kind::Trend => "trend",
            Kind::Rank => "rank or share",
            Kind::Crossing => "crossing",
            Kind::InnerOptimum => "inner optimum",
            Kind::Flat => "flat",
        })
    }
}

impl Entry {
    /// The number it is filed under.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.numbers.first().copied().unwrap_or_default()
    }

    /// True if this is one of its numbers.
    #[must_use]
    pub fn is(&self, number: &str) -> bool {
        self.numbers.contains(&number)
    }

    /// All of its numbers.
    #[must_use]
    pub fn title(&self) -> String {
        self.numbers.join(" = ")
    }

    /// The seed's number with its line; without one, "direction only".
    #[must_use]
    pub fn number_text(&self) -> String {
        match self.number {
            Some((text, line)) => format!("{text} (line {line})"),
            None => "direction only".to_owned(),
        }
    }

    /// In one word, whether it can be had.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self.how {
            How::Measured(_) => "measured",
            How::Diagram(_) => "diagram",
            How::NotHere(_) => "not here",
        }
    }
}
