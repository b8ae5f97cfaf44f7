//! Result of a comparison, as values and as a table.

use std::fmt;

use replay::conditions::Conditions;
use replay::table::Table;
use replay::turns::{self, Interval};
use serde::Serialize;

use super::contenders::Traits;

/// Content of a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LogFacts {
    /// Transactions, including those without rows.
    pub transactions: u64,
    /// Transactions that change rows.
    pub write_transactions: u64,
    pub rows: u64,
    /// Bytes of binlog, all files together.
    pub bytes: u64,
    /// Hash of the rows at the end of the log, as `lab hash` computes it.
    pub hash: String,
}

/// Result of one contender.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the contender.
    pub contender: String,
    /// Settings beyond those that all share; of a stock server, as it reported them.
    pub settings: String,
    /// Transactions in the part it replayed; None for the whole log.
    pub first_transactions: Option<u64>,
    /// Wall seconds of each round, for what it replayed.
    pub wall_s: Vec<f64>,
    /// Their median; for a part, scaled to the whole log by bytes.
    pub median_s: f64,
    /// Write transactions a second.
    pub write_transactions_per_s: f64,
    /// Row changes a second.
    pub rows_per_s: f64,
    /// Megabytes (10^6) of log a second.
    pub mb_per_s: f64,
    /// Its median seconds divided by those of our first contender: how many times as long it takes. None if ours is
    /// left out.
    pub times_ours: Option<f64>,
    /// Interval of that, round by round; None for fewer than six.
    pub times_ours_interval: Option<Interval>,
    /// Median of CPU seconds, servers and clients together, for what it replayed.
    pub cpu_s: f64,
    /// Largest peak of resident memory in bytes, of ours or of the servers, without their clients.
    pub peak_rss_bytes: u64,
    /// Properties of the contender.
    #[serde(flatten)]
    pub traits: Traits,
    /// Difference at its end from our replay of the same log; None if there is none.
    pub difference: Option<String>,
}

/// Result of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct CompareReport {
    /// One row per contender.
    pub rows: Vec<Row>,
    pub log: LogFacts,
    /// The log's first part, if a contender replays only that.
    pub first_part: Option<LogFacts>,
    /// Contenders missing from the table, and why.
    pub left_out: Vec<String>,
    pub rounds: u32,
    /// Version of the stock server; None without one.
    pub mysql_version: Option<String>,
    /// Options that every stock server had.
    pub mysql_common: String,
    #[serde(flatten)]
    pub conditions: Conditions,
}

impl CompareReport {
    /// True if all ended with the same rows or bytes.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.rows.iter().all(|row| row.difference.is_none())
    }
}

impl fmt::Display for CompareReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "contender",
            "seconds",
            "tx/s",
            "rows/s",
            "MB/s",
            "× ours",
            "× ours, round by round",
            "CPU s",
            "peak MB",
            "log synced",
            "store synced",
            "indexes",
            "readers",
            "in order",
            "",
        ]);
        self.rows.iter().for_each(|row| table.row(row.cells()));
        write!(f, "{table}")?;
        let LogFacts { write_transactions, rows, bytes, hash, .. } = &self.log;
        writeln!(f, "log: {write_transactions} write transactions, {rows} row changes, {:.1} MB", *bytes as f64 / 1e6)?;
        if let Some(part) = &self.first_part {
            writeln!(
                f,
                "~ replayed the first {} transactions only ({} with rows, {:.1} MB); seconds are scaled by bytes",
                part.transactions,
                part.write_transactions,
                part.bytes as f64 / 1e6
            )?;
        }
        if self.mysql_version.is_some() {
            writeln!(
                f,
                "the appliers' relay log lies there, synced, before the clock starts: they do not write it, ours does;\n\
                 what they sync and their settings are what the servers reported"
            )?;
        }
        for row in self.rows.iter().filter(|row| !row.settings.is_empty()) {
            writeln!(f, "  {}: {}", row.contender, row.settings)?;
        }
        if let Some(version) = &self.mysql_version {
            writeln!(f, "  mysql {version}, all: {}", self.mysql_common)?;
        }
        for line in &self.left_out {
            writeln!(f, "left out: {line}")?;
        }
        for row in &self.rows {
            if let Some(difference) = &row.difference {
                writeln!(f, "DIFFERENT: {}: {difference}", row.contender)?;
            }
        }
        if self.is_equal() {
            writeln!(f, "equal: every contender ended with the same; result hash {hash}")?;
        }
        writeln!(f, "medians of {}; {}", self.rounds, self.conditions)
    }
}

impl Row {
    fn cells(&self) -> [String; 15] {
        let scaled = if self.first_transactions.is_some() { "~" } else { "" };
        let ratio = self.times_ours.map_or("-".to_owned(), |ratio| format!("{scaled}{ratio:.2}"));
        [
            self.contender.clone(),
            format!("{scaled}{:.3}", self.median_s),
            format!("{:.0}", self.write_transactions_per_s),
            format!("{:.0}", self.rows_per_s),
            format!("{:.1}", self.mb_per_s),
            ratio,
            turns::text(self.times_ours_interval),
            format!("{:.2}", self.cpu_s),
            format!("{:.0}", self.peak_rss_bytes as f64 / 1e6),
            self.traits.log_synced.clone().into_owned(),
            self.traits.store_synced.clone().into_owned(),
            self.traits.indexes.to_owned(),
            self.traits.readers.to_owned(),
            self.traits.visible_in_order.to_owned(),
            if self.difference.is_some() { "DIFFERENT" } else { "" }.to_owned(),
        ]
    }
}
