//! `lab serve-bench`: the same reads by turns from a stock MySQL server and from a replica of it, on one machine in one
//! run.
//!
//! In: the location of MySQL's programs; sysbench on PATH. Out: for every read, server CPU a statement, statements a
//! second and the 99th percentile, each beside MySQL's; a hash of the rows that all of them served. Never here: a
//! figure of a server whose rows were not compared, a client on the server's core.

mod client;
mod places;
mod report;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

pub use report::{Figures, Line, ServeReport};

use crate::ourselves;
use crate::servers::{NO_MYSQLD, Programs};
use client::Sysbench;
use places::{Place, Places};
use replay::conditions::Conditions;
use replay::turns::{median, turns};

/// Options of `lab serve-bench`.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Rows of the table
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    pub rows: u32,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub seconds: u32,
    /// Rounds; each measures every read at every server once, every second one in the other order; medians are taken,
    /// from six on also the intervals of ratios by the sign test
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
    pub connections: Vec<u32>,
    /// What is read
    #[arg(long, value_delimiter = ',', value_enum, default_value = "point,range10,range100,in10")]
    pub shapes: Vec<Shape>,
    /// How statements are sent
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Style::Prepared, Style::Text])]
    pub styles: Vec<Style>,
    /// Connections with TLS, without, or both by turns
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Tls::Off, Tls::On])]
    pub tls: Vec<Tls>,
    /// Only servers whose names contain this; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// CPU for the servers
    #[arg(long, default_value_t = 1)]
    pub server_cpu: u32,
    /// CPU for sysbench
    #[arg(long, default_value_t = 0)]
    pub client_cpu: u32,
    /// innodb_buffer_pool_size and the replica's --memory
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub memory: String,
    /// Folder with mysqld [default: SLIPSTREAM_TEST_MYSQLD, PATH, the testbed's]
    #[arg(long, value_name = "DIR")]
    pub mysqld_bin: Option<PathBuf>,
    /// New folder for servers, removed afterwards [default: a temporary one in TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// What a statement reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// One row by its key.
    Point,
    /// Ten rows with consecutive keys.
    Range10,
    /// A hundred rows with consecutive keys.
    Range100,
    /// Ten rows by an IN list.
    In10,
}

/// How statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Prepared once a connection, executed with parameters.
    Prepared,
    /// As text with literals.
    Text,
}

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    On,
    Off,
}

/// The word of an option's value.
pub(crate) fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Runs every read at every server. `told` receives a line for each run.
///
/// # Errors
/// A server does not start, a read fails, rows differ, or `stop` is raised.
pub fn serve_bench(args: &ServeArgs, stop: &AtomicBool, told: &mut dyn FnMut(&str)) -> Result<ServeReport> {
    let programs = Programs::find(args.mysqld_bin.as_deref())?.context(NO_MYSQLD)?;
    ourselves::look_for("sysbench", "sysbench")?;
    ensure!(args.server_cpu != args.client_cpu, "--server-cpu and --client-cpu must differ");
    let conditions = Conditions::begin();
    let mut places = Places::new(args, &programs, stop)?;
    let sysbench = Sysbench::new(args, places.folder())?;
    told("a stock server, its table and a replica of it");
    places.fill(&sysbench)?;
    let mut report = ServeReport {
        lines: Vec::new(),
        rows: args.rows,
        hash: String::new(),
        mysql_version: programs.version()?,
        mysql_options: places::mysql_options(&args.memory).join(" "),
        client: sysbench.version()?,
        seconds: args.seconds,
        rounds: args.rounds,
        conditions,
    };
    let wanted =
        |place: &Place| args.only.is_empty() || args.only.iter().any(|text| place.name().contains(text.as_str()));
    let running = places.start(&mut PLACES.iter().copied().filter(wanted))?;
    for (place, running) in &running {
        let hash = running.hash()?;
        if report.hash.is_empty() {
            report.hash = hash;
        } else if report.hash != hash {
            bail!("{}: its rows hash to {hash}, those of the servers before to {}", place.name(), report.hash);
        }
    }
    measure(args, &sysbench, &running, &mut report, stop, told)?;
    for (_, running) in running {
        places.stop(running)?;
    }
    report.conditions.end();
    places.remove()?;
    Ok(report)
}

/// The servers, in the order of their lines.
const PLACES: [Place; 5] = [Place::MysqlPlain, Place::Mysql, Place::Memory, Place::Cut, Place::Layers];

/// Measures every read at every server, the servers by turns.
fn measure(
    args: &ServeArgs,
    sysbench: &Sysbench,
    running: &[(Place, places::Running)],
    report: &mut ServeReport,
    stop: &AtomicBool,
    told: &mut dyn FnMut(&str),
) -> Result<()> {
    for &shape in &args.shapes {
        for &style in &args.styles {
            for &tls in &args.tls {
                for &connections in &args.connections {
                    let load = client::Load { shape, style, tls, connections, seconds: args.seconds };
                    let mut samples: Vec<Vec<(f64, client::Sample)>> = running.iter().map(|_| Vec::new()).collect();
                    for round in 0..args.rounds {
                        for ((place, running), samples) in turns(running.iter().zip(&mut samples), round) {
                            let cpu = running.cpu_s();
                            let sample = sysbench.run(running, &load, stop).with_context(|| place.name().to_owned())?;
                            samples.push((running.cpu_s() - cpu, sample));
                        }
                    }
                    for ((place, _), samples) in running.iter().zip(&samples) {
                        let figures = figures(*place, samples);
                        let [shape, style, tls] = [word(shape), word(style), word(tls)];
                        told(&format!("{shape} {style} tls {tls}, {connections} connections: {figures}"));
                        report.add(shape, style, tls, connections, figures);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Medians of one read at one server.
fn figures(place: Place, samples: &[(f64, client::Sample)]) -> Figures {
    let of = |figure: fn(&(f64, client::Sample)) -> f64| samples.iter().map(figure).collect::<Vec<_>>();
    let rounds_cpu_us = of(|(cpu, sample)| cpu * 1e6 / sample.statements.max(1) as f64);
    Figures {
        server: place.name().to_owned(),
        cpu_us: median(&rounds_cpu_us),
        rounds_cpu_us,
        statements_per_s: median(&of(|(_, sample)| sample.per_s)),
        p99_ms: median(&of(|(_, sample)| sample.p99_ms)),
    }
}
