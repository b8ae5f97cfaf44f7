//! TPC-C (revision 5.11) against any MySQL-protocol server: tables, population, the five transactions, consistency.
//!
//! In: a server's address, warehouses, terminals, a seed. Out: tpmC, latencies per transaction, results of the
//! consistency conditions. Never here: think and keying times. Without them this is not a TPC-C result, and every
//! report says so.

mod check;
mod load;
pub(crate) mod random;
mod report;
mod run;
pub(crate) mod schema;
mod session;
mod transactions;

use std::io::Write;
use std::str::FromStr;
use std::time::Duration;

use client::ConnectOptions;

pub use check::{CheckReport, Condition};
pub use report::{TpccReport, TransactionReport};
pub use transactions::TransactionType;

/// How the terminals talk to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// One prepared statement per round trip, as an application without procedures works.
    #[default]
    Statements,
    /// One stored procedure per transaction: one round trip.
    Procedures,
}

impl FromStr for Style {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "statements" => Ok(Style::Statements),
            "procedures" => Ok(Style::Procedures),
            _ => anyhow::bail!("style '{text}' is unknown (statements, procedures)"),
        }
    }
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Duration(Duration),
    /// After this many completed transactions of all types.
    Transactions(u64),
    /// After this many completed New-Order, Payment and Delivery transactions, the ones that reach the log.
    WriteTransactions(u64),
}

/// Options of `prepare`, `run` and `check`.
#[derive(Clone, Debug)]
pub struct TpccOptions {
    pub server: ConnectOptions,
    /// Database to use; `prepare` drops and creates it.
    pub database: String,
    /// Warehouses to load; a run uses every warehouse it finds.
    pub warehouses: u32,
    /// Terminals, each a thread with a connection of its own.
    pub terminals: usize,
    /// The same seed gives the same load and the same inputs per terminal.
    pub seed: u64,
    /// How the terminals talk to the server.
    pub style: Style,
    /// When a run ends.
    pub limit: Limit,
    /// Transactions that begin a second, evenly, whatever the server takes; None: each terminal begins the next one
    /// when the last one ends. If terminals are too few for it, each begins as soon as it can.
    pub rate: Option<f64>,
    /// Fraction (0 to 1) of items, stock, customers and orders; 1 is the specification's.
    pub scale: f64,
    /// True to declare the specification's foreign keys.
    pub foreign_keys: bool,
    /// Connections that load at the same time.
    pub load_threads: usize,
    /// How long a terminal retries a lost server before the run fails.
    pub reconnect_for: Duration,
    /// Variables to set first in every session that writes: names and literals.
    pub session_variables: Vec<(String, String)>,
}

impl TpccOptions {
    /// One warehouse, one terminal, one minute, prepared statements, the specification's scale.
    pub fn new(server: ConnectOptions) -> Self {
        TpccOptions {
            server,
            database: "tpcc".into(),
            warehouses: 1,
            terminals: 1,
            seed: 1,
            style: Style::Statements,
            limit: Limit::Duration(Duration::from_secs(60)),
            rate: None,
            scale: 1.0,
            foreign_keys: false,
            load_threads: 4,
            reconnect_for: Duration::from_secs(30),
            session_variables: Vec::new(),
        }
    }

    fn connect_options(&self) -> anyhow::Result<ConnectOptions> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        anyhow::ensure!(
            !self.database.is_empty() && self.database.len() <= 64 && self.database.chars().all(plain),
            "database name '{}': letters, digits and _ only",
            self.database
        );
        Ok(self.server.clone())
    }
}

/// Sizes of the population: the specification's, or a fraction of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Population {
    pub warehouses: u32,
    pub items: u64,
    /// Per district; there are as many orders.
    pub customers: u64,
}

pub(crate) const DISTRICTS: u64 = 10;

impl Population {
    pub(crate) const ITEMS: u64 = 100_000;
    pub(crate) const CUSTOMERS: u64 = 3_000;

    fn scaled(warehouses: u32, scale: f64) -> Self {
        let part = |full: u64, least: u64| ((full as f64 * scale) as u64).clamp(least, full);
        Population { warehouses, items: part(Self::ITEMS, 100), customers: part(Self::CUSTOMERS, 30) }
    }

    pub(crate) fn is_spec_scale(&self) -> bool {
        self.items == Self::ITEMS && self.customers == Self::CUSTOMERS
    }

    /// The last three tenths of the orders are undelivered.
    pub(crate) fn first_undelivered(&self) -> u64 {
        self.customers - self.customers * 3 / 10 + 1
    }
}

/// Drops and creates the database, then loads it. Progress goes to `out`.
pub fn prepare(options: &TpccOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    load::prepare(options, out)
}

/// Runs the mix until the limit. Writes a line to `out` every ten seconds; the caller prints the result.
pub fn run(options: &TpccOptions, out: &mut dyn Write) -> anyhow::Result<TpccReport> {
    run::run(options, out)
}

/// Checks consistency conditions 3.3.2.1 to 3.3.2.4.
pub fn check(options: &TpccOptions) -> anyhow::Result<CheckReport> {
    check::check(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_one_is_the_specification() {
        let full = Population::scaled(2, 1.0);
        assert!(full.is_spec_scale());
        assert_eq!((full.items, full.customers, full.first_undelivered()), (100_000, 3_000, 2_101));
        let small = Population::scaled(1, 0.01);
        assert!(!small.is_spec_scale());
        assert_eq!((small.items, small.customers, small.first_undelivered()), (1_000, 30, 22));
        assert_eq!(Population::scaled(1, 0.0).items, 100);
    }

    #[test]
    fn only_plain_database_names() {
        let mut options = TpccOptions::new(ConnectOptions::default());
        assert!(options.connect_options().is_ok());
        for bad in ["", "a`b", "a b", "a-b"] {
            options.database = bad.into();
            assert!(options.connect_options().is_err(), "{bad}");
        }
    }
}
