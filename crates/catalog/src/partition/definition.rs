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
}

/// How the partition of a row is determined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum PartitionRule {
    /// RANGE (expression).
    #[serde(rename = "Range")]
    Range(PartitionExpression),
    /// LIST (expression).
    #[serde(rename = "List")]
    List(PartitionExpression),
    /// RANGE COLUMNS.
    #[serde(rename = "RangeColumns")]
    RangeColumns(Vec<String>),
    /// LIST COLUMNS.
    #[serde(rename = "ListColumns")]
    ListColumns(Vec<String>),
    /// HASH (expression).
    #[serde(rename = "Hash")]
    Hash(PartitionExpression),
    /// LINEAR HASH (expression).
    #[serde(rename = "LinearHash")]
    LinearHash(PartitionExpression),
    /// KEY (columns).
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

/// An expression over one column. Only the forms named here are evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionExpression {
    /// An integer column.
    #[serde(rename = "Column")]
    Column(String),
    /// YEAR(column).
    #[serde(rename = "Year")]
    Year(String),
    /// TO_DAYS(column).
    #[serde(rename = "ToDays")]
    ToDays(String),
    /// UNIX_TIMESTAMP(column), of a TIMESTAMP.
    #[serde(rename = "UnixTimestamp")]
    UnixTimestamp(String),
    /// Any other expression, as text.
    #[serde(rename = "Other")]
    Other(String),
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// Its name.
    #[serde(rename = "name")]
    pub name: String,
    /// For LESS THAN, one tuple with a bound per column. For IN, a list of tuples.
    #[serde(rename = "values")]
    pub values: Vec<Vec<BoundValue>>,
}

/// A value in LESS THAN or IN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoundValue {
    /// MAXVALUE.
    #[serde(rename = "Max")]
    Max,
    /// NULL.
    #[serde(rename = "Null")]
    Null,
    /// An integer.
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
    /// Positions of the chosen partitions.
    pub chosen: Vec<usize>,
}

/// MySQL's limit of partitions per table.
pub(super) const PARTITIONS_MAX: u64 = 8192;

pub(super) fn numbered(number: usize) -> Partition {
    Partition { name: format!("p{number}"), values: Vec::new() }
}

impl Partitioning {
    /// Positions of the partitions with these names.
    pub(crate) fn positions(&self, names: &[String]) -> Result<Vec<usize>, Problem> {
        let position = |name: &String| {
            let found = self.partitions.iter().position(|partition| partition.name.eq_ignore_ascii_case(name));
            found.ok_or_else(|| Problem::NotSupported(format!("the partition `{name}`, which is not known")))
        };
        names.iter().map(position).collect()
    }

    /// Appends partitions with generated names, for HASH and KEY.
    pub(crate) fn add_numbered(&mut self, count: u64) {
        for _ in 0..count.min(PARTITIONS_MAX) {
            self.partitions.push(numbered(self.partitions.len()));
        }
    }
}
