//! Result of a comparison, as values and as a table.

use std::fmt;

use replay::conditions::Conditions;
use replay::turns::Interval;
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
        writeln!(
            f,
            "{:<27} {:>10} {:>8} {:>10} {:>8} {:>7} {:>8} {:>8}  {:<17} {:<27} {:<8} {:<10} in order",
            "contender",
            "seconds",
            "tx/s",
            "rows/s",
            "MB/s",
            "× ours",
            "CPU s",
            "peak MB",
            "log synced",
            "store synced",
            "indexes",
            "readers"
        )?;
        for row in &self.rows {
            row.line(f)?;
        }
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
        for row in &self.rows {
            if let Some(interval) = row.times_ours_interval.filter(|interval| !interval.is_within(0.0)) {
                writeln!(f, "  {}: {interval} times ours, round by round", row.contender)?;
            }
        }
        writeln!(f, "medians of {}; {}", self.rounds, self.conditions)
    }
}

impl Row {
    fn line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scaled = if self.first_transactions.is_some() { "~" } else { "" };
        let ratio = self.times_ours.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        writeln!(
            f,
            "{:<27} {:>10} {:>8.0} {:>10.0} {:>8.1} {:>7} {:>8.2} {:>8.0}  {:<17} {:<27} {:<8} {:<10} {}{}",
            self.contender,
            format!("{scaled}{:.3}", self.median_s),
            self.write_transactions_per_s,
            self.rows_per_s,
            self.mb_per_s,
            format!("{scaled}{ratio}"),
            self.cpu_s,
            self.peak_rss_bytes as f64 / 1e6,
            self.traits.log_synced,
            self.traits.store_synced,
            self.traits.indexes,
            self.traits.readers,
            self.traits.visible_in_order,
            if self.difference.is_some() { "  DIFFERENT" } else { "" }
        )
    }
}
