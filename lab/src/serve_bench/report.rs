//! Result of `lab serve-bench`, as values and as a table.

use std::fmt;

use replay::conditions::Conditions;
use replay::table::Table;
use replay::turns::{self, Interval, ratios};
use serde::Serialize;

/// What was measured of one read at one server.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    pub server: String,
    /// CPU of the server a statement, in microseconds, system time included.
    pub cpu_us: f64,
    /// The same in each round.
    pub rounds_cpu_us: Vec<f64>,
    /// Statements a second by the wall clock.
    pub statements_per_s: f64,
    /// 99th percentile of a statement's time at the client, in milliseconds.
    pub p99_ms: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { server, cpu_us, statements_per_s, p99_ms, .. } = self;
        write!(f, "{server}: {cpu_us:.1} µs of CPU a statement, {statements_per_s:.0} a second, p99 {p99_ms:.2} ms")
    }
}

/// One read at all servers.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    pub shape: String,
    /// How it is sent.
    pub style: String,
    /// Whether connections are encrypted.
    pub tls: String,
    pub connections: u32,
    /// In the order of the runs; MySQL without performance_schema first, unless it is left out.
    pub servers: Vec<Figures>,
}

/// Result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct ServeReport {
    /// One line a read.
    pub lines: Vec<Line>,
    /// Rows of the table.
    pub rows: u32,
    /// Hash of these rows, the same at every server.
    pub hash: String,
    /// Version of the stock server.
    pub mysql_version: String,
    pub mysql_options: String,
    /// The client and its version.
    pub client: String,
    /// Seconds of each measurement.
    pub seconds: u32,
    pub rounds: u32,
    #[serde(flatten)]
    pub conditions: Conditions,
}

impl ServeReport {
    pub(super) fn add(&mut self, shape: String, style: String, tls: String, connections: u32, figures: Figures) {
        let same = |line: &&mut Line| {
            (&line.shape, &line.style, &line.tls, line.connections) == (&shape, &style, &tls, connections)
        };
        match self.lines.iter_mut().find(same) {
            Some(line) => line.servers.push(figures),
            None => self.lines.push(Line { shape, style, tls, connections, servers: vec![figures] }),
        }
    }
}

impl fmt::Display for ServeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "read",
            "sent",
            "tls",
            "conn.",
            "server",
            "CPU µs",
            "a second",
            "p99 ms",
            "CPU ×",
            "CPU ×, round by round",
            "wall ×",
        ]);
        for line in &self.lines {
            for figures in &line.servers {
                let first = line.servers.first().unwrap_or(figures);
                table.row([
                    line.shape.clone(),
                    line.style.clone(),
                    line.tls.clone(),
                    line.connections.to_string(),
                    figures.server.clone(),
                    format!("{:.1}", figures.cpu_us),
                    format!("{:.0}", figures.statements_per_s),
                    format!("{:.2}", figures.p99_ms),
                    format!("{:.2}", first.cpu_us / figures.cpu_us.max(f64::MIN_POSITIVE)),
                    turns::text(Interval::of(&ratios(&first.rounds_cpu_us, &figures.rounds_cpu_us))),
                    format!("{:.2}", figures.statements_per_s / first.statements_per_s.max(f64::MIN_POSITIVE)),
                ]);
            }
        }
        write!(f, "{table}")?;
        writeln!(
            f,
            "CPU ×: statements a second of server CPU, wall ×: of the clock, in multiples of the first server's"
        )?;
        writeln!(f, "{} rows, the same at every server; result hash {}", self.rows, self.hash)?;
        writeln!(f, "mysql {}: {}", self.mysql_version, self.mysql_options)?;
        writeln!(f, "{}; {} s each, medians of {}; {}", self.client, self.seconds, self.rounds, self.conditions)
    }
}
