//! The report at the end of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use client::ClientError;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::transactions::{Outcome, TransactionType};
use super::{Population, Style, TpccOptions};

/// Latencies above this are counted as this.
const LATENCY_US_MAX: u64 = 600_000_000;

/// Figures of one transaction type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransactionReport {
    /// Name in the specification.
    pub name: String,
    /// Completed transactions, including those rolled back.
    pub completed: u64,
    /// Transactions rolled back as the specification demands (1 % of New-Order).
    pub rolled_back: u64,
    /// Retries after a deadlock or lock wait.
    pub retries: u64,
    /// Median latency in microseconds, retries included.
    pub p50_us: u64,
    /// 90th percentile, as `p50_us`.
    pub p90_us: u64,
    /// 99th percentile, as `p50_us`.
    pub p99_us: u64,
    /// Maximum, as `p50_us`.
    pub max_us: u64,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TpccReport {
    /// Number of warehouses found.
    pub warehouses: u32,
    pub terminals: usize,
    /// "statements" or "procedures".
    pub style: String,
    /// Seed of the run.
    pub seed: u64,
    /// False if the population is smaller than the specification's.
    pub spec_scale: bool,
    /// Wall seconds.
    pub seconds: f64,
    /// New-Order transactions completed per minute.
    pub tpmc: f64,
    /// Completed transactions of all types.
    pub completed: u64,
    /// Committed New-Order, Payment and Delivery transactions.
    pub write_transactions: u64,
    /// Per type, in the specification's order.
    pub transactions: Vec<TransactionReport>,
    /// Errors with their counts, including deadlocks that were retried.
    pub errors: BTreeMap<String, u64>,
}

/// Counts and latencies of one terminal, or of all.
pub(crate) struct Tally {
    latencies_us: Vec<Histogram<u64>>,
    rolled_back: [u64; 5],
    retries: [u64; 5],
    errors: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn new() -> Result<Self> {
        let histogram = || Histogram::new_with_bounds(1, LATENCY_US_MAX, 3);
        Ok(Tally {
            latencies_us: (0..5).map(|_| histogram()).collect::<Result<_, _>>()?,
            rolled_back: [0; 5],
            retries: [0; 5],
            errors: BTreeMap::new(),
        })
    }

    pub(crate) fn completed(
        &mut self,
        transaction: TransactionType,
        outcome: Outcome,
        latency: Duration,
        retries: u32,
    ) {
        let index = transaction as usize;
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latencies_us[index].saturating_record(micros.max(1));
        self.rolled_back[index] += u64::from(outcome == Outcome::RolledBack);
        self.retries[index] += u64::from(retries);
    }

    pub(crate) fn error(&mut self, transaction: TransactionType, error: &ClientError) {
        *self.errors.entry(format!("{transaction}: {error}")).or_default() += 1;
    }

    pub(crate) fn connect_error(&mut self, error: &ClientError) {
        *self.errors.entry(format!("connecting: {error}")).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: Tally) -> Result<()> {
        for (mine, theirs) in self.latencies_us.iter_mut().zip(&other.latencies_us) {
            mine.add(theirs)?;
        }
        for index in 0..5 {
            self.rolled_back[index] += other.rolled_back[index];
            self.retries[index] += other.retries[index];
        }
        for (text, count) in other.errors {
            *self.errors.entry(text).or_default() += count;
        }
        Ok(())
    }

    pub(crate) fn into_report(self, options: &TpccOptions, population: &Population, elapsed: Duration) -> TpccReport {
        let transactions: Vec<TransactionReport> = TransactionType::ALL
            .iter()
            .map(|transaction| {
                let index = *transaction as usize;
                let latency = &self.latencies_us[index];
                TransactionReport {
                    name: transaction.to_string(),
                    completed: latency.len(),
                    rolled_back: self.rolled_back[index],
                    retries: self.retries[index],
                    p50_us: latency.value_at_quantile(0.5),
                    p90_us: latency.value_at_quantile(0.9),
                    p99_us: latency.value_at_quantile(0.99),
                    max_us: latency.max(),
                }
            })
            .collect();
        let seconds = elapsed.as_secs_f64();
        let new_orders = transactions[TransactionType::NewOrder as usize].completed;
        let writes = TransactionType::ALL.iter().filter(|transaction| transaction.writes());
        TpccReport {
            warehouses: population.warehouses,
            terminals: options.terminals,
            style: match options.style {
                Style::Statements => "statements".into(),
                Style::Procedures => "procedures".into(),
            },
            seed: options.seed,
            spec_scale: population.is_spec_scale(),
            seconds,
            tpmc: if seconds > 0.0 { new_orders as f64 * 60.0 / seconds } else { 0.0 },
            completed: transactions.iter().map(|transaction| transaction.completed).sum(),
            write_transactions: writes
                .map(|transaction| &transactions[*transaction as usize])
                .map(|transaction| transaction.completed - transaction.rolled_back)
                .sum(),
            transactions,
            errors: self.errors,
        }
    }
}

impl fmt::Display for TpccReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "TPC-C mix: {} warehouses, {} terminals, {}, seed {}, {:.1} s",
            self.warehouses, self.terminals, self.style, self.seed, self.seconds
        )?;
        writeln!(f, "No think or keying time: figures of this driver, not a TPC-C result.")?;
        if !self.spec_scale {
            writeln!(f, "NOT the specification's scale: fewer items, customers and orders.")?;
        }
        writeln!(
            f,
            "{:.0} tpmC, {:.0} transactions/s, {} write transactions committed",
            self.tpmc,
            if self.seconds > 0.0 { self.completed as f64 / self.seconds } else { 0.0 },
            self.write_transactions
        )?;
        writeln!(
            f,
            "{:<13}{:>10}{:>7}{:>9}{:>9}{:>11}{:>11}{:>11}{:>11}",
            "", "completed", "%", "rolled", "retries", "p50 ms", "p90 ms", "p99 ms", "max ms"
        )?;
        let ms = |micros: u64| micros as f64 / 1000.0;
        for transaction in &self.transactions {
            writeln!(
                f,
                "{:<13}{:>10}{:>7.1}{:>9}{:>9}{:>11.2}{:>11.2}{:>11.2}{:>11.2}",
                transaction.name,
                transaction.completed,
                transaction.completed as f64 * 100.0 / self.completed.max(1) as f64,
                transaction.rolled_back,
                transaction.retries,
                ms(transaction.p50_us),
                ms(transaction.p90_us),
                ms(transaction.p99_us),
                ms(transaction.max_us)
            )?;
        }
        for (error, count) in &self.errors {
            writeln!(f, "{count} x {error}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::ConnectOptions;

    #[test]
    fn the_report_counts_and_says_what_it_is_not() {
        let mut one = Tally::new().unwrap();
        for millis in 1..=100 {
            one.completed(TransactionType::NewOrder, Outcome::Committed, Duration::from_millis(millis), 0);
        }
        let mut other = Tally::new().unwrap();
        other.completed(TransactionType::NewOrder, Outcome::RolledBack, Duration::from_millis(1), 0);
        other.completed(TransactionType::Payment, Outcome::Committed, Duration::from_millis(2), 3);
        other.completed(TransactionType::StockLevel, Outcome::Committed, Duration::from_millis(2), 0);
        other.error(TransactionType::Payment, &ClientError::Closed);
        one.merge(other).unwrap();
        let mut options = TpccOptions::new(ConnectOptions::default());
        options.terminals = 3;
        let report = one.into_report(&options, &Population::scaled(2, 0.1), Duration::from_secs(60));
        assert_eq!(report.tpmc, 101.0);
        assert_eq!((report.completed, report.write_transactions), (103, 101));
        let new_order = &report.transactions[0];
        assert_eq!((new_order.rolled_back, report.transactions[1].retries), (1, 3));
        assert!((49_900..50_100).contains(&new_order.p50_us) && (100_000..100_100).contains(&new_order.max_us));
        let text = report.to_string();
        assert!(text.starts_with("TPC-C mix: 2 warehouses, 3 terminals, statements, seed 1, 60.0 s\n"), "{text}");
        assert!(text.contains("not a TPC-C result") && text.contains("NOT the specification's scale"), "{text}");
        assert!(text.contains("101 tpmC") && text.contains("1 x Payment: the source closed"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("Stock-Level")).count(), 1);
    }
}
