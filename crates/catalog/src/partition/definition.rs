//! Partitions of a table by name, as the catalog keeps them.
//!
//! In: a parsed PARTITION BY clause, later changes. Out: the partitions and their positions. Never here: text, rows.

use serde::{Deserialize, Serialize};

use crate::error::Problem;

/// A parsed PARTITION BY clause, with later changes to the partitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partitioning {
    /// How rows are assigned to partitions.
    #[serde(rename = "rule")]
    pub rule: PartitionRule,
    /// The partitions, in order.
    #[serde(rename = "partitions")]
    pub partitions: Vec<Partition>,
    /// SUBPARTITION BY; None without it, and in a catalog stored before it was kept.
    #[serde(rename = "subpartitions", default, skip_serializing_if = "Option::is_none")]
    pub subpartitions: Option<Subpartitions>,
    /// How the partitions were given; None in a catalog stored before it was kept.
    #[serde(rename = "given", default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
}

/// How partitions were given, which is how SHOW CREATE TABLE tells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Given {
    /// Not at all: one partition.
    #[serde(rename = "Nothing")]
    Nothing,
    #[serde(rename = "Number")]
    Number,
    /// Each by itself.
    #[serde(rename = "Each")]
    Each,
}

/// How the rows of each partition are assigned to its subpartitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subpartitions {
    /// HASH or KEY.
    #[serde(rename = "rule")]
    pub rule: PartitionRule,
    /// Number of subpartitions of each partition.
    #[serde(rename = "count")]
    pub count: usize,
}

/// How the partition of a row is determined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum PartitionRule {
    #[serde(rename = "Range")]
    Range(PartitionExpression),
    #[serde(rename = "List")]
    List(PartitionExpression),
    #[serde(rename = "RangeColumns")]
    RangeColumns(Vec<String>),
    #[serde(rename = "ListColumns")]
    ListColumns(Vec<String>),
    #[serde(rename = "Hash")]
    Hash(PartitionExpression),
    #[serde(rename = "LinearHash")]
    LinearHash(PartitionExpression),
    #[serde(rename = "Key")]
    Key {
        /// Names of the columns; if empty, those of the key that identifies rows.
        #[serde(rename = "columns")]
        columns: Vec<String>,
        /// True for LINEAR KEY.
        #[serde(rename = "linear")]
        linear: bool,
    },
    /// A rule that is not understood, as text.
    #[serde(rename = "Other")]
    Other(String),
}

/// An expression over columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionExpression {
    #[serde(rename = "Column")]
    Column(String),
    #[serde(rename = "Year")]
    Year(String),
    #[serde(rename = "ToDays")]
    ToDays(String),
    /// UNIX_TIMESTAMP(column), of a TIMESTAMP.
    #[serde(rename = "UnixTimestamp")]
    UnixTimestamp(String),
    /// Any other expression, as text: with quoted names and all parentheses where it is one of those that MySQL allows.
    #[serde(rename = "Other")]
    Other(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    #[serde(rename = "name")]
    pub name: String,
    /// For LESS THAN, one tuple with a bound per column. For IN, a list of tuples.
    #[serde(rename = "values")]
    pub values: Vec<Vec<BoundValue>>,
    /// Names of its subpartitions, if they were given.
    #[serde(rename = "subpartitions", default, skip_serializing_if = "Vec::is_empty")]
    pub subpartitions: Vec<String>,
    /// Its other options as they are printed, or those of its subpartitions.
    #[serde(rename = "clauses", default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// A value in LESS THAN or IN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoundValue {
    #[serde(rename = "Max")]
    Max,
    /// NULL.
    #[serde(rename = "Null")]
    Null,
    #[serde(rename = "Number")]
    Number(i64),
    /// Text, in UTF-8.
    #[serde(rename = "Text")]
    Text(String),
    /// A value that is not understood, as text.
    #[serde(rename = "Other")]
    Other(String),
}

/// A subset of a table's partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionChoice {
    /// The rule and its partitions before the statement.
    pub partitioning: Partitioning,
    /// Positions of the chosen partitions; if the rule has subpartitions, of those, counted through all partitions.
    pub chosen: Vec<usize>,
}

/// MySQL's limit of partitions per table.
pub(super) const PARTITIONS_MAX: u64 = 8192;

pub(super) fn numbered(number: usize) -> Partition {
    Partition { name: format!("p{number}"), values: Vec::new(), subpartitions: Vec::new(), options: Vec::new() }
}

impl Partition {
    /// Name of its subpartition of this number; without one the server gives it.
    pub(crate) fn subpartition_name(&self, number: usize) -> String {
        self.subpartitions.get(number).cloned().unwrap_or_else(|| format!("{}sp{number}", self.name))
    }
}

impl Partitioning {
    /// Names of the parts that hold rows, in the order in which [`super::PartitionFinder::find`] counts them: of the
    /// subpartitions, or of the partitions if there are none.
    #[must_use]
    pub fn leaves(&self) -> Vec<String> {
        let of = |partition: &Partition| match &self.subpartitions {
            Some(Subpartitions { count, .. }) => (0..*count).map(|at| partition.subpartition_name(at)).collect(),
            None => vec![partition.name.clone()],
        };
        self.partitions.iter().flat_map(of).collect()
    }

    /// Positions of the partitions with these names.
    pub(crate) fn positions(&self, names: &[String]) -> Result<Vec<usize>, Problem> {
        let position = |name: &String| {
            let found = self.partitions.iter().position(|partition| partition.name.eq_ignore_ascii_case(name));
            found.ok_or_else(|| Problem::NotSupported(format!("the partition `{name}`, which is not known")))
        };
        names.iter().map(position).collect()
    }

    /// The rows in the partitions or subpartitions with these names. If only partitions are named, where a row lies in
    /// them does not matter.
    pub(crate) fn choice(&self, names: &[String]) -> Result<PartitionChoice, Problem> {
        if let Ok(chosen) = self.positions(names) {
            return Ok(PartitionChoice { partitioning: Partitioning { subpartitions: None, ..self.clone() }, chosen });
        }
        let count = self.subpartitions.as_ref().map_or(0, |subpartitions| subpartitions.count);
        let mut chosen = Vec::new();
        for name in names {
            let before = chosen.len();
            for (position, partition) in self.partitions.iter().enumerate() {
                let whole = partition.name.eq_ignore_ascii_case(name);
                let subpartitions = position * count..(position + 1) * count;
                chosen.extend(subpartitions.zip(0..).filter_map(|(leaf, at)| {
                    (whole || partition.subpartition_name(at).eq_ignore_ascii_case(name)).then_some(leaf)
                }));
            }
            if chosen.len() == before {
                return Problem::unsupported(format!("the partition `{name}`, which is not known"));
            }
        }
        Ok(PartitionChoice { partitioning: self.clone(), chosen })
    }

    /// Appends partitions with generated names, for HASH and KEY.
    pub(crate) fn add_numbered(&mut self, count: u64) {
        if self.given == Some(Given::Nothing) {
            self.given = Some(Given::Number);
        }
        for _ in 0..count.min(PARTITIONS_MAX) {
            self.partitions.push(numbered(self.partitions.len()));
        }
    }
}
