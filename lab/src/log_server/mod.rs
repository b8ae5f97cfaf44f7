//! `lab source`: a recorded log served as a source serves it, at a given rate and with fresh commit times, so that a replica
//! is measured against a source that costs hardly any CPU.
//!
//! In: log files; connections of replicas (ours, stock MySQL's, mysqlbinlog). Out: the handshake, answers to what a replica
//! asks before it asks for the log, the dump with heartbeats; figures of each dump. Never here: a table, a change, an answer
//! to any other question; TLS; semi-synchronous acknowledgements.

mod dump;
mod files;
mod questions;
mod session;

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::pace::Pace;
use files::Log;
use session::Session;

/// How often the listener looks for connections and at `stop`.
const LOOK: Duration = Duration::from_millis(5);
/// Connections at once; a replica needs one, and one more now and then.
const SESSIONS_MAX: usize = 64;

/// Options of `lab source`.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// Binlog files, or index files that list them, in order
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Binlog or index file sent before, at full speed (a load phase); may be repeated
    #[arg(long, value_name = "LOG")]
    pub load: Vec<PathBuf>,
    /// Address and port to listen on; port 0: a free one, which is printed
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: String,
    /// Send so many transactions a second; 0: as fast as it goes [default: as fast as it goes]
    #[arg(long, value_name = "TPS", conflicts_with_all = ["speed", "pace"], value_parser = rate_or_none)]
    pub rate: Option<f64>,
    /// Send so many megabytes (10^6) of log a second
    #[arg(long, value_name = "MB/S", conflicts_with = "pace", value_parser = rate)]
    pub speed: Option<f64>,
    /// Send F times as fast as the recorded source committed
    #[arg(long, value_name = "F", value_parser = rate)]
    pub pace: Option<f64>,
}

impl SourceArgs {
    /// As options say it.
    #[must_use]
    pub fn pace(&self) -> Pace {
        match (self.rate, self.speed, self.pace) {
            (Some(rate), _, _) if rate > 0.0 => Pace::Transactions(rate),
            (_, Some(speed), _) => Pace::Bytes(speed * 1e6),
            (_, _, Some(factor)) => Pace::Factor(factor),
            _ => Pace::Unbound,
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    rate_or_none(text).and_then(|rate| if rate > 0.0 { Ok(rate) } else { Err("a number above 0".into()) })
}

fn rate_or_none(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "a number, 0 or above".into())
}

/// What all sessions share.
struct Shared<'a> {
    log: &'a Log,
    pace: Pace,
    /// What a login must know; None: anybody may log in.
    password: Option<String>,
    stop: &'a AtomicBool,
    connections: AtomicU32,
    replicas: Mutex<BTreeSet<u32>>,
    told: &'a (dyn Fn(&str) + Sync),
}

/// Serves the log until `stop` is raised; `told` gets a line for the address, and for each part of each dump. `password`
/// None: whoever reaches the address may log in, under any name.
///
/// # Errors
/// When a log cannot be read or the address not be listened on.
pub fn serve(
    args: &SourceArgs,
    password: Option<String>,
    stop: &AtomicBool,
    told: &(dyn Fn(&str) + Sync),
) -> Result<()> {
    let (load, logs) = (crate::replay::expand(&args.load)?, crate::replay::expand(&args.logs)?);
    let log = Log::read(&load, &logs)?;
    let listener = TcpListener::bind(&args.listen).with_context(|| format!("cannot listen on {}", args.listen))?;
    listener.set_nonblocking(true)?;
    told(&format!("listening on {}: {}", listener.local_addr()?, log.about()));
    let shared = Shared {
        log: &log,
        pace: args.pace(),
        password,
        stop,
        connections: AtomicU32::new(0),
        replicas: Mutex::default(),
        told,
    };
    std::thread::scope(|scope| {
        let mut sessions = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    std::thread::sleep(LOOK);
                    continue;
                }
                // A connection that was gone before it was taken.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    // The scope waits for the sessions, which end at the flag.
                    stop.store(true, Ordering::Relaxed);
                    return Err(error).context("accepting connections");
                }
            };
            sessions.retain(|session: &std::thread::ScopedJoinHandle<'_, ()>| !session.is_finished());
            if sessions.len() < SESSIONS_MAX {
                sessions.push(scope.spawn(|| one(&shared, stream)));
            }
        }
        Ok(())
    })
}

/// One connection to its end.
fn one(shared: &Shared<'_>, stream: TcpStream) {
    let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
    if let Err(error) = Session::new(shared, stream, number).and_then(|mut session| session.serve()) {
        (shared.told)(&format!("connection {number}: {error:#}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        source: SourceArgs,
    }

    fn pace(line: &str) -> Result<Pace, String> {
        let arguments = ["lab", "a"].into_iter().chain(line.split_whitespace());
        Cli::try_parse_from(arguments).map(|cli| cli.source.pace()).map_err(|error| error.to_string())
    }

    #[test]
    fn one_pace_at_a_time() {
        assert_eq!(pace(""), Ok(Pace::Unbound));
        assert_eq!(pace("--rate 0"), Ok(Pace::Unbound));
        assert_eq!(pace("--rate 5000"), Ok(Pace::Transactions(5000.0)));
        assert_eq!(pace("--speed 2.5"), Ok(Pace::Bytes(2_500_000.0)));
        assert_eq!(pace("--pace 3"), Ok(Pace::Factor(3.0)));
        for bad in ["--rate -1", "--rate inf", "--speed 0", "--pace 0", "--pace 1 --rate 1", "--speed 1 --rate 0"] {
            assert!(pace(bad).is_err(), "{bad}");
        }
    }
}
