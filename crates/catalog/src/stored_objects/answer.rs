//! The source's answer to a question about definitions, read next to the log.
//!
//! In: an answer, with what the source had executed before and after it was read. Out: whether a transaction is in it.
//! Never here: how it is asked.
//!
//! The answer is ahead of replay. A transaction that the source had executed before it was read is in it; one that came
//! while it was read may be; a later one is not.

use base::{Gtid, GtidSet};
use serde::{Deserialize, Serialize};

use super::{Definition, DefinitionKind};

/// Definitions in an answer that it was not asked for by name, and that may be older than the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Older {
    #[default]
    None,
    /// As far as the account sees them.
    Seen,
    All,
}

#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Kind, database and name of each object that was asked about, as [`Unsettled`](super::Unsettled) has them.
    pub asked: Vec<(DefinitionKind, String, String)>,
    /// Whether other definitions are in it.
    pub older: Older,
    /// What there is of both.
    pub definitions: Vec<Definition>,
    /// What the source had executed before.
    pub before: GtidSet,
    /// What it had executed afterwards, once all that could be seen was in it.
    pub after: GtidSet,
}

impl Answer {
    /// True if a transaction is in it; one without a GTID is.
    pub(crate) fn holds(&self, gtid: &str) -> bool {
        gtid.is_empty() || gtid.parse::<Gtid>().is_ok_and(|gtid| self.before.contains(&gtid))
    }
}

/// Where a transaction is, seen from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    During,
    After,
}

/// When an object was read.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) before: GtidSet,
    pub(crate) after: GtidSet,
}

impl Answered {
    pub(crate) fn of(answer: &Answer) -> Answered {
        Answered { before: answer.before.clone(), after: answer.after.clone() }
    }

    pub(crate) fn moment(&self, gtid: &str) -> Moment {
        match gtid.parse::<Gtid>() {
            Ok(gtid) if self.before.contains(&gtid) => Moment::Before,
            Ok(gtid) if self.after.contains(&gtid) => Moment::During,
            _ => Moment::After,
        }
    }

    pub(crate) fn stored(&self, kind: DefinitionKind, db: &str, name: &str) -> StoredAnswer {
        StoredAnswer {
            kind,
            db: db.to_owned(),
            name: name.to_owned(),
            before: self.before.to_string(),
            after: self.after.to_string(),
        }
    }
}

/// As the store keeps it, under the names by which the source compares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredAnswer {
    #[serde(rename = "kind")]
    pub(crate) kind: DefinitionKind,
    #[serde(rename = "db")]
    pub(crate) db: String,
    #[serde(rename = "name")]
    pub(crate) name: String,
    #[serde(rename = "before")]
    before: String,
    #[serde(rename = "after")]
    after: String,
}

impl StoredAnswer {
    pub(crate) fn read(&self) -> Option<Answered> {
        Some(Answered { before: self.before.parse().ok()?, after: self.after.parse().ok()? })
    }
}
