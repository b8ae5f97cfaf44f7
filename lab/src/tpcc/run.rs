//! Runs terminals, one thread each, until the limit.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use client::{ClientError, ConnectOptions};

use super::load::create_procedures;
use super::report::{Tally, TpccReport};
use super::session::{Remedy, Session, remedy};
use super::transactions::{Outcome, Terminal, TransactionType};
use super::{Limit, Population, Style, TpccOptions};

/// Interval between lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// Longest sleep of a terminal before it looks whether the run has ended.
const WAIT: Duration = Duration::from_millis(20);
/// A transaction that loses this often against others is given up and counted as an error.
const RETRIES_MAX: u32 = 100;

/// State that terminals share: the end of the run, and live counts.
struct Course<'a> {
    options: &'a TpccOptions,
    server: ConnectOptions,
    started: Instant,
    stop: AtomicBool,
    completed: AtomicU64,
    new_orders: AtomicU64,
    /// Transactions already promised, so that the limit is met exactly.
    promised: AtomicU64,
    /// Transactions that a terminal has taken, of those that are due at a rate.
    turns: AtomicU64,
}

pub(crate) fn run(options: &TpccOptions, out: &mut dyn Write) -> Result<TpccReport> {
    ensure!(options.terminals > 0, "at least one terminal");
    let server = options.connect_options()?;
    let population = find_population(options, &server)?;
    let course = Course {
        options,
        server,
        started: Instant::now(),
        stop: AtomicBool::new(false),
        completed: AtomicU64::new(0),
        new_orders: AtomicU64::new(0),
        promised: AtomicU64::new(0),
        turns: AtomicU64::new(0),
    };
    let mut total = Tally::new()?;
    let mut elapsed = Duration::ZERO;
    std::thread::scope(|scope| -> Result<()> {
        let terminals: Vec<_> = (0..options.terminals)
            .map(|number| {
                let terminal = Terminal::new(population, options.seed, number as u64);
                scope.spawn(|| {
                    let result = course.run_terminal(terminal);
                    if result.is_err() {
                        course.stop.store(true, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        course.watch(out, || terminals.iter().all(|terminal| terminal.is_finished()))?;
        for terminal in terminals {
            total.merge(terminal.join().map_err(|_| anyhow!("a terminal panicked"))??)?;
        }
        elapsed = course.started.elapsed();
        Ok(())
    })?;
    Ok(total.into_report(options, &population, elapsed))
}

/// Finds out what was loaded, which bounds the inputs.
fn find_population(options: &TpccOptions, server: &ConnectOptions) -> Result<Population> {
    let mut session =
        Session::connect(server, Some(&options.database), &options.session_variables).context("connecting")?;
    let population = Population {
        warehouses: u32::try_from(session.number("SELECT COUNT(*) FROM warehouse")?)?,
        items: session.number("SELECT COUNT(*) FROM item")?,
        customers: session.number("SELECT COUNT(*) FROM customer WHERE c_w_id = 1 AND c_d_id = 1")?,
    };
    ensure!(
        population.warehouses > 0 && population.items > 0 && population.customers > 0,
        "database {} is not loaded: run prepare first",
        options.database
    );
    if options.style == Style::Procedures {
        let count = session.number(&format!(
            "SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = '{}' AND routine_name LIKE 'tpcc\\_%'",
            options.database
        ))?;
        if count < super::schema::PROCEDURES.len() as u64 {
            create_procedures(&mut session)?;
        }
    }
    Ok(population)
}

impl Course<'_> {
    /// Takes a transaction from those left to the limit; `false` ends the terminal.
    fn promise(&self, transaction: TransactionType) -> bool {
        let take = |limit: u64| self.promised.fetch_add(1, Ordering::Relaxed) < limit;
        match self.options.limit {
            Limit::Duration(duration) => self.started.elapsed() < duration,
            Limit::Transactions(limit) => take(limit),
            Limit::WriteTransactions(limit) if transaction.writes() => take(limit),
            Limit::WriteTransactions(limit) => self.promised.load(Ordering::Relaxed) < limit,
        }
    }

    /// Waits for the moment of the next transaction at the given rate, and returns it: a late start counts into the
    /// latency. Now, without a rate. None if the run ends first.
    fn turn(&self) -> Option<Instant> {
        let Some(rate) = self.options.rate else { return Some(Instant::now()) };
        let number = self.turns.fetch_add(1, Ordering::Relaxed);
        let due = Duration::try_from_secs_f64(number as f64 / rate).ok()?;
        if matches!(self.options.limit, Limit::Duration(duration) if due >= duration) {
            return None;
        }
        while let Some(wait) = due.checked_sub(self.started.elapsed()) {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::sleep(wait.min(WAIT));
        }
        Some(self.started + due)
    }

    fn run_terminal(&self, mut terminal: Terminal) -> Result<Tally> {
        let mut tally = Tally::new()?;
        let mut session = self.connect(&mut tally)?;
        while !self.stop.load(Ordering::Relaxed) {
            let input = terminal.draw();
            let transaction = input.transaction_type();
            if !self.promise(transaction) {
                break;
            }
            let Some(begun) = self.turn() else { break };
            let mut retries = 0;
            let outcome = loop {
                match terminal.perform(&mut session, &input, self.options.style) {
                    Ok(outcome) => break Some(outcome),
                    Err(error) => {
                        tally.error(transaction, &error);
                        match remedy(&error) {
                            Remedy::Retry if retries < RETRIES_MAX => retries += 1,
                            Remedy::Retry => break None,
                            // Whether the lost transaction committed is unknown, so it is not retried.
                            Remedy::Reconnect => {
                                session = self.connect(&mut tally)?;
                                break None;
                            }
                            Remedy::Fail => return Err(error).with_context(|| transaction.to_string()),
                        }
                    }
                }
            };
            if let Some(outcome) = outcome {
                tally.completed(transaction, outcome, begun.elapsed(), retries);
                self.completed.fetch_add(1, Ordering::Relaxed);
                if transaction == TransactionType::NewOrder && outcome == Outcome::Committed {
                    self.new_orders.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(tally)
    }

    /// Connects, retrying for as long as a lost server may take to return.
    fn connect(&self, tally: &mut Tally) -> Result<Session> {
        let deadline = Instant::now() + self.options.reconnect_for;
        loop {
            match Session::connect(&self.server, Some(&self.options.database), &self.options.session_variables) {
                Ok(session) => return Ok(session),
                Err(error) if error_ends(&error, deadline) => return Err(error).context("connecting a terminal"),
                Err(error) => {
                    tally.connect_error(&error);
                    std::thread::sleep(Duration::from_millis(200));
                }
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(anyhow!("stopped while connecting"));
            }
        }
    }

    fn watch(&self, out: &mut dyn Write, finished: impl Fn() -> bool) -> Result<()> {
        let (mut told_at, mut told_orders, mut told_completed) = (Instant::now(), 0, 0);
        while !finished() {
            std::thread::sleep(Duration::from_millis(20));
            let seconds = told_at.elapsed().as_secs_f64();
            if told_at.elapsed() >= PROGRESS_EVERY {
                let orders = self.new_orders.load(Ordering::Relaxed);
                let completed = self.completed.load(Ordering::Relaxed);
                writeln!(
                    out,
                    "tpcc: {:>4.0} s  {:>8.0} tpmC  {:>7.0} transactions/s",
                    self.started.elapsed().as_secs_f64(),
                    (orders - told_orders) as f64 * 60.0 / seconds,
                    (completed - told_completed) as f64 / seconds
                )?;
                out.flush()?;
                (told_at, told_orders, told_completed) = (Instant::now(), orders, completed);
            }
        }
        Ok(())
    }
}

fn error_ends(error: &ClientError, deadline: Instant) -> bool {
    remedy(error) == Remedy::Fail || Instant::now() >= deadline
}
