//! Command line of `slipstream-lab`. `slipstream lab …` hands these commands over.

use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use client::{ConnectOptions, SslMode};
use observe::{PlainText, prefixed_lines};
use replica::Failure;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stamp::FolderError;

use crate::balance::BalanceArgs;
use crate::clocks::ClocksArgs;
use crate::compare::CompareArgs;
use crate::figures::FigureArgs;
use crate::generate::{self, GenerateOptions};
use crate::log_source::{self, SourceArgs};
use crate::receive::ReceiveArgs;
use crate::record::{self, RecordOptions};
use crate::restamp::{self, RestampArgs};
use crate::serve_bench::ServeArgs;
use crate::servers::check_stop;
use crate::shapes::{self, MakeOptions, Shape, Tracking};
use crate::synthesize::{self, SynthesizeOptions};
use crate::tpcc::{self, Limit, Style, TpccOptions};

/// `lab` commands.
#[derive(Debug, Clone, Subcommand)]
pub enum LabCommand {
    /// Replay the same log alternately with ours and with MySQL's own tools; print medians and ratios
    Compare(CompareArgs),
    /// Search for the highest rate at which replicas follow a log or a primary for good
    Balance(BalanceArgs),
    /// Measure figures of the documents by their numbers: pairs by turns, a page each with a verdict, an index of all
    Figure(FigureArgs),
    /// Serve a recorded log to replicas as a source does, at a given rate, with fresh commit times
    Source(SourceArgs),
    /// Copy a server's log from its first statement on, for replay
    Record(RecordArgs),
    /// Unroll a recorded TPC-C log into a longer one: each repetition has its own warehouses
    Generate(GenerateArgs),
    /// Write a TPC-C-like log from a seed, without a server: for benchmarks
    Synthesize(SynthesizeArgs),
    /// Write a log of a shape that is hard to replay: hot rows, a huge transaction, rows without a key
    Make(MakeArgs),
    /// Write a recorded log again with other logical clocks, for stock replicas
    Restamp(RestampArgs),
    /// Hash a server's rows as `lab replay --hash` does
    Hash(HashArgs),
    /// Read a server's rows and throw them away, as a measure for the initial copy
    Read(ReadArgs),
    /// Receive a server's log with one or more connections and throw it away, as a measure for what a source can send
    Receive(ReceiveArgs),
    /// Read the same rows from MySQL and from a replica of it by turns; print CPU a statement, rates and ratios
    ServeBench(ServeArgs),
    /// Apply one load's logs at stock replicas: with their source's clocks, with a relay's, and with WRITESET; print
    /// ratios
    Clocks(ClocksArgs),
    /// TPC-C against any MySQL-protocol server
    #[command(subcommand)]
    Tpcc(TpccCommand),
}

/// `lab tpcc` commands.
#[derive(Debug, Clone, Subcommand)]
pub enum TpccCommand {
    /// Drop and create the database, then load it
    Prepare(TpccArgs),
    /// Run the five transactions in the standard mix
    Run(TpccArgs),
    /// Check consistency conditions 3.3.2.1 to 3.3.2.4
    Check(TpccArgs),
}

/// Options of `lab tpcc`.
#[derive(Debug, Clone, Args)]
pub struct TpccArgs {
    /// mysql://user[:password]@host:port (password also from MYSQL_PWD)
    #[arg(long, value_name = "URL")]
    pub server: String,
    /// Database
    #[arg(long, default_value = "tpcc")]
    pub database: String,
    /// Warehouses to load (a run uses all it finds)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub warehouses: u32,
    /// Terminals: threads with a connection each
    #[arg(long, default_value_t = 4)]
    pub terminals: usize,
    /// Seed; the same seed gives the same load and the same inputs per terminal
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// statements: one round trip each; procedures: one per transaction
    #[arg(long, default_value = "statements", value_name = "STYLE")]
    pub style: String,
    /// Duration of the run (90, 90s, 10m, 2h)
    #[arg(long, default_value = "60s", value_parser = crate::duration::parse, conflicts_with_all = ["transactions", "write_transactions"])]
    pub duration: Duration,
    /// End the run after this many transactions instead
    #[arg(long, conflicts_with = "write_transactions")]
    pub transactions: Option<u64>,
    /// End the run after this many New-Order, Payment and Delivery transactions instead
    #[arg(long)]
    pub write_transactions: Option<u64>,
    /// Transactions to begin a second, evenly over all terminals, however long they take [default: each terminal begins
    /// the next one when the last one ends]
    #[arg(long, value_name = "TPS", value_parser = crate::log_source::rate)]
    pub rate: Option<f64>,
    /// Fraction of items, stock, customers and orders to load; below 1 the population is not TPC-C's
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// Declare the specification's foreign keys
    #[arg(long)]
    pub foreign_keys: bool,
    /// Connections that load at the same time
    #[arg(long, default_value_t = 4)]
    pub load_threads: usize,
    /// Variables to set first in every session: NAME=VALUE, comma-separated, as
    /// binlog_row_image=MINIMAL,binlog_transaction_compression=ON
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub session_variables: Vec<String>,
    /// How long a terminal retries a lost server
    #[arg(long, default_value = "30s", value_parser = crate::duration::parse)]
    pub reconnect_for: Duration,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `lab record`.
#[derive(Debug, Clone, Args)]
pub struct RecordArgs {
    /// The primary: mysql://user[:password]@host:port (password also from MYSQL_PWD)
    #[arg(long, value_name = "URL")]
    pub source: String,
    /// Folder for the files; created if absent, refused if it holds a recording
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Server id to present to the primary
    #[arg(long, default_value_t = 4_294_000_001)]
    pub server_id: u32,
}

/// Options of `lab generate`.
#[derive(Debug, Clone, Args)]
pub struct GenerateArgs {
    /// Logs of the run, or index files that list them, in order
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Log of the load, or an index file; may be repeated
    #[arg(long, required = true, value_name = "LOG")]
    pub load: Vec<PathBuf>,
    /// Number of repetitions
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repeat: u32,
    /// New folder for the files; load.index and run.index list them
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Start a new file after this many MiB
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub file_mib: u64,
}

/// Options of `lab synthesize`.
#[derive(Debug, Clone, Args)]
pub struct SynthesizeArgs {
    /// New folder for binlog.000001 (the load) and binlog.000002 (the run)
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Seed; the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Warehouses
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub warehouses: u32,
    /// Rows of STOCK per warehouse
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub items: u32,
    /// Customers in each of a warehouse's ten districts
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub customers: u32,
    /// Transactions in the run
    #[arg(long, default_value_t = 20_000)]
    pub transactions: u64,
}

/// Options of `lab make`.
#[derive(Debug, Clone, Args)]
pub struct MakeArgs {
    /// New folder for the files; load.index and run.index list them
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Transactions in the run, not counting a huge one
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub transactions: u64,
    /// Commits a second, according to their timestamps
    #[arg(long, default_value_t = 10_000.0, value_name = "TPS")]
    pub rate: f64,
    /// How the source tracks dependencies
    #[arg(long, value_enum, default_value = "writeset")]
    pub dependency_tracking: Tracking,
    /// Seed; the same seed gives the same log
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Start a new file after this many MiB
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub file_mib: u64,
    /// Kind of transactions
    #[command(subcommand)]
    pub shape: Shape,
}

/// Options of `lab hash`.
#[derive(Debug, Clone, Args)]
pub struct HashArgs {
    /// mysql://user[:password]@host:port (password also from MYSQL_PWD)
    #[arg(value_name = "URL")]
    pub server: String,
    /// Only this table: SCHEMA.TABLE, SCHEMA.* or TABLE; may be repeated
    #[arg(long, value_name = "TABLE")]
    pub tables: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `lab read`.
#[derive(Debug, Clone, Args)]
pub struct ReadArgs {
    /// mysql://user[:password]@host:port (password also from MYSQL_PWD)
    #[arg(value_name = "URL")]
    pub server: String,
    /// Only this table: SCHEMA.TABLE, SCHEMA.* or TABLE; may be repeated
    #[arg(long, value_name = "TABLE")]
    pub tables: Vec<String>,
    /// Connections, each of which reads a table at a time
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub connections: usize,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl TpccArgs {
    /// Options in the library's form.
    pub fn options(&self) -> anyhow::Result<TpccOptions> {
        let limit = match (self.transactions, self.write_transactions) {
            (Some(count), _) => Limit::Transactions(count),
            (None, Some(count)) => Limit::WriteTransactions(count),
            (None, None) => Limit::Duration(self.duration),
        };
        Ok(TpccOptions {
            server: server(&self.server)?,
            database: self.database.clone(),
            warehouses: self.warehouses,
            terminals: self.terminals,
            seed: self.seed,
            style: self.style.parse::<Style>()?,
            limit,
            rate: self.rate,
            scale: self.scale,
            foreign_keys: self.foreign_keys,
            load_threads: self.load_threads,
            reconnect_for: self.reconnect_for,
            session_variables: self.session_variables.iter().map(|text| variable(text)).collect::<Result<_, _>>()?,
        })
    }
}

#[derive(Debug, Parser)]
#[command(name = programs::LAB, version = programs::VERSION, max_term_width = 120, propagate_version = true, subcommand_required = true,
          arg_required_else_help = true)]
#[command(about = "Experiments around Slipstream: record logs, replay them at MySQL, TPC-C; also as slipstream lab …")]
struct Program {
    /// Read no option files: this program never does
    #[arg(long, global = true, hide = true)]
    no_defaults: bool,
    #[command(subcommand)]
    command: LabCommand,
}

/// The whole command line.
#[must_use]
pub fn program() -> clap::Command {
    Program::command().subcommand(clap::Command::new(programs::BUILD_ID_COMMAND).hide(true).about("Print the build"))
}

/// Runs the given command and prints results to standard output.
///
/// # Errors
/// Code 1 if a check fails; otherwise the failure with its exit code.
pub fn run(given: &ArgMatches) -> Result<(), Failure> {
    if given.subcommand_name() == Some(programs::BUILD_ID_COMMAND) {
        println!("{}", programs::BUILD_ID);
        return Ok(());
    }
    let command = LabCommand::from_arg_matches(given).map_err(|error| Failure::usage(error.to_string()))?;
    match run_other(&command) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::error("the check failed")),
        Err(error) => {
            let text = format!("{error:#}");
            match error.chain().find_map(|cause| cause.downcast_ref::<FolderError>()) {
                Some(FolderError::Io { error, .. }) => Err(Failure { text, ..Failure::io("", error) }),
                _ => Err(Failure::error(text)),
            }
        }
    }
}

/// `Ok(false)` means that it ran and a check failed.
fn run_other(command: &LabCommand) -> anyhow::Result<bool> {
    let out = &mut PlainText::new(std::io::stdout());
    match command {
        LabCommand::Tpcc(command) => return run_tpcc(command, out),
        LabCommand::Record(args) => {
            let options =
                RecordOptions { source: server(&args.source)?, folder: args.out.clone(), server_id: args.server_id };
            let report = record::record(&options)?;
            writeln!(out, "{report}")?;
        }
        LabCommand::Hash(args) => {
            let report = crate::hash::hash(&server(&args.server)?, &args.tables)?;
            if args.json {
                writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
            } else {
                writeln!(out, "{report}")?;
            }
        }
        LabCommand::Read(args) => {
            let report = crate::read::read(&server(&args.server)?, &args.tables, args.connections)?;
            if args.json {
                writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
            } else {
                writeln!(out, "{report}")?;
            }
        }
        LabCommand::Receive(args) => {
            let stop = stop_at_signals()?;
            let mut source = server(&args.source)?;
            source.ssl_mode = if args.tls { SslMode::Required } else { SslMode::Disabled };
            let report = crate::receive::receive(args, &source, &stop)?;
            if args.json {
                writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
            } else {
                writeln!(out, "{report}")?;
            }
        }
        LabCommand::Restamp(args) => writeln!(out, "{}", restamp::restamp(args)?)?,
        LabCommand::Synthesize(args) => {
            let SynthesizeArgs { seed, warehouses, items, customers, transactions, .. } = *args;
            let options = SynthesizeOptions { seed, warehouses, items, customers, transactions };
            writeln!(out, "{}", synthesize::synthesize(&args.out, options)?)?;
        }
        LabCommand::Make(args) => {
            let report = shapes::make(&MakeOptions {
                shape: args.shape.clone(),
                transactions: args.transactions,
                rate: args.rate,
                tracking: args.dependency_tracking,
                seed: args.seed,
                out: args.out.clone(),
                file_bytes: args.file_mib << 20,
            })?;
            writeln!(out, "{report}")?;
        }
        LabCommand::Compare(args) => {
            let stop = stop_at_signals()?;
            let report = unless_stopped(&stop, crate::compare::compare(args, &stop, &mut say))?;
            print(&report, args.json, out)?;
            return Ok(report.is_equal());
        }
        LabCommand::Figure(args) if args.list => write!(out, "{}", crate::figures::list())?,
        LabCommand::Figure(args) => return crate::figures::figure(args, &*stop_at_signals()?, &say),
        LabCommand::Balance(args) => {
            let stop = stop_at_signals()?;
            let report = unless_stopped(&stop, crate::balance::balance(args, &stop, &say))?;
            print(&report, args.json, out)?;
        }
        LabCommand::ServeBench(args) => {
            let stop = stop_at_signals()?;
            let report = unless_stopped(&stop, crate::serve_bench::serve_bench(args, &stop, &mut say))?;
            print(&report, args.json, out)?;
        }
        LabCommand::Clocks(args) => {
            let stop = stop_at_signals()?;
            let report = unless_stopped(&stop, crate::clocks::clocks(args, &stop, &mut say))?;
            print(&report, args.json, out)?;
        }
        LabCommand::Source(args) => {
            let stop = stop_at_signals()?;
            let password = std::env::var("MYSQL_PWD").ok();
            // Readers of these lines may leave while we serve; that is no reason to end.
            let told = |line: &str| {
                let mut out = PlainText::new(std::io::stdout().lock());
                let _ = writeln!(out, "{line}").and_then(|()| out.flush());
            };
            log_source::serve(args, password, &stop, &told)?;
        }
        LabCommand::Generate(args) => {
            let report = generate::generate(&GenerateOptions {
                load: args.load.clone(),
                logs: args.logs.clone(),
                repeat: args.repeat,
                out: args.out.clone(),
                file_bytes: args.file_mib << 20,
            })?;
            writeln!(out, "{report}")?;
        }
    }
    Ok(true)
}

/// `Ok(false)` means that the check failed.
fn run_tpcc(command: &TpccCommand, out: &mut dyn Write) -> anyhow::Result<bool> {
    match command {
        TpccCommand::Prepare(args) => tpcc::prepare(&args.options()?, out)?,
        TpccCommand::Run(args) => {
            if args.json {
                let report = tpcc::run(&args.options()?, &mut PlainText::new(std::io::stderr()))?;
                writeln!(out, "{}", serde_json::to_string(&report)?)?;
            } else {
                let report = tpcc::run(&args.options()?, out)?;
                write!(out, "{report}")?;
            }
        }
        TpccCommand::Check(args) => {
            let report = tpcc::check(&args.options()?)?;
            write!(out, "{report}")?;
            return Ok(report.is_consistent());
        }
    }
    Ok(true)
}

/// Writes a report as JSON or as its table.
fn print(report: &(impl Serialize + Display), json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    match json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(report)?)?,
        false => write!(out, "{report}")?,
    }
    Ok(())
}

/// A line on stderr about how far a command has come.
fn say(line: &str) {
    eprint!("{}", prefixed_lines("", line));
}

/// The result, or "interrupted": a terminal's Ctrl-C ends servers too, whose errors are then no news.
fn unless_stopped<T>(stop: &AtomicBool, result: anyhow::Result<T>) -> anyhow::Result<T> {
    result.or_else(|error| check_stop(stop).and(Err(error)))
}

/// Flag raised by INT, TERM and HUP: commands with folders and processes of their own then clean up and end.
fn stop_at_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("signal handlers")?;
    }
    Ok(stop)
}

fn server(url: &str) -> anyhow::Result<ConnectOptions> {
    let mut options = ConnectOptions::from_url(url).context("the server's URL")?;
    if options.password.is_none() {
        options.password = std::env::var("MYSQL_PWD").ok();
    }
    Ok(options)
}

/// Splits `NAME=VALUE` into a name and a literal. Nothing else can enter the statement.
fn variable(text: &str) -> anyhow::Result<(String, String)> {
    let (name, value) =
        text.split_once('=').with_context(|| format!("--session-variables: '{text}' is not NAME=VALUE"))?;
    let is_name =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_value = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    if !is_name(name.trim()) || !is_value(value.trim()) {
        bail!("--session-variables: '{text}': a name and a number or word");
    }
    let value = value.trim();
    let literal = if value.parse::<f64>().is_ok() { value.to_owned() } else { format!("'{value}'") };
    Ok((name.trim().to_owned(), literal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(subcommand)]
        command: LabCommand,
    }

    #[test]
    fn commands_parse() {
        for line in [
            "compare a.index --load l.index --rounds 1 --only mysql --first 100 --memory 256M --mysqld-option=--x=1 --json",
            "source a.index --load l.index --listen 127.0.0.1:0 --rate 5000 --no-defaults",
            "record --source mysql://h --out /new",
            "restamp a.index --out /new --dependency-tracking commit-order --history-size 25000 --file-mib 64",
            "make --out /new --transactions 5 --rate 100 --dependency-tracking commit-order huge --change delete --huge-rows 7",
            "make --out /new zipf --theta 1.2 --rows 10",
            "tpcc prepare --server mysql://h --warehouses 2",
            "tpcc run --server mysql://h --warehouses 2 --terminals 4 --duration 60s --style procedures",
            "tpcc check --server mysql://h --warehouses 2",
        ] {
            let arguments = std::iter::once("slipstream-lab").chain(line.split_whitespace());
            program().try_get_matches_from(arguments).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn the_whole_command_line_is_sound_and_documented() {
        fn walk(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{} has no text", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{}: {} has no text", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(walk);
        }
        let mut command = program();
        command.build();
        command.clone().debug_assert();
        walk(&command);
    }

    #[test]
    fn session_variables_are_names_and_literals() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(variable("binlog_row_image=MINIMAL").unwrap(), pair("binlog_row_image", "'MINIMAL'"));
        assert_eq!(variable(" a = 12").unwrap(), pair("a", "12"));
        for bad in ["a", "a=", "=1", "a=1;DROP TABLE t", "a='x'", "a b=1"] {
            assert!(variable(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_count_replaces_the_default_duration() {
        let url = "mysql://root@127.0.0.1:3306";
        let cli = Cli::try_parse_from(["lab", "tpcc", "run", "--server", url, "--write-transactions", "5"]).unwrap();
        let LabCommand::Tpcc(TpccCommand::Run(args)) = cli.command else { panic!("not a run") };
        assert_eq!(args.options().unwrap().limit, Limit::WriteTransactions(5));
        let cli = Cli::try_parse_from(["lab", "tpcc", "run", "--server", url]).unwrap();
        let LabCommand::Tpcc(TpccCommand::Run(args)) = cli.command else { panic!("not a run") };
        assert_eq!(args.options().unwrap().limit, Limit::Duration(Duration::from_secs(60)));
    }
}
