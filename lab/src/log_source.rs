//! `lab source`: serves a recorded log as a source does, at a given rate and with fresh commit times, so that a replica
//! can be measured against a source that uses hardly any CPU.
//!
//! In: log files and the requested pace. Out: each transaction at its time, through the log server (crate `serve`).
//! Never here: the protocol.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::Args;
use serve::{Hold, LogFiles, Part, RecordedLog, ServeError, ServeOptions};

use replay::pace::{Opening, Pace, Pacer};

/// Options of `lab source`.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// Binlog files, or index files that list them, in order
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Binlog or index file sent first, at full speed (a load phase); may be repeated
    #[arg(long, value_name = "LOG")]
    pub load: Vec<PathBuf>,
    /// Address and port to listen on; port 0: a free port, which is printed
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: String,
    /// Transactions to send per second; 0: as fast as possible [default: as fast as possible]
    #[arg(long, value_name = "TPS", conflicts_with_all = ["speed", "pace"], value_parser = rate_or_none)]
    pub rate: Option<f64>,
    /// Megabytes (10^6) of log to send per second
    #[arg(long, value_name = "MB/S", conflicts_with = "pace", value_parser = rate)]
    pub speed: Option<f64>,
    /// Send F times as fast as the recorded source committed
    #[arg(long, value_name = "F", value_parser = rate)]
    pub pace: Option<f64>,
}

impl SourceArgs {
    /// The pace that the options request.
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

pub(crate) fn rate(text: &str) -> Result<f64, String> {
    rate_or_none(text).and_then(|rate| if rate > 0.0 { Ok(rate) } else { Err("a number above 0".into()) })
}

fn rate_or_none(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "a number, 0 or above".into())
}

/// Serves the log until `stop` is set; `told` gets a line for the address, and for each part of each dump. `password`
/// None: anyone who reaches the address may log in with any name.
///
/// # Errors
/// A log cannot be read, or the server cannot listen on the address.
pub fn serve(
    args: &SourceArgs,
    password: Option<String>,
    stop: &AtomicBool,
    told: &(dyn Fn(&str) + Sync),
) -> Result<()> {
    let (load, logs) = (replay::expand(&args.load)?, replay::expand(&args.logs)?);
    let log = LogFiles::Recorded(RecordedLog::read(&load, &logs)?);
    let pace = args.pace();
    let hold = |part: Part| -> Hold {
        let mut pacer = Pacer::new(if part == Part::Load { Pace::Unbound } else { pace });
        let mut counted = 0;
        Box::new(move |event, checksum, sent_bytes, waiting| {
            pacer.count(base::to_usize(sent_bytes - std::mem::replace(&mut counted, sent_bytes)));
            let told = |error: anyhow::Error| ServeError::Hold(format!("{error:#}"));
            let opening = Opening::parse(event, checksum).map_err(told)?;
            pacer.hold(opening, &mut |wait| Ok(waiting(wait)?)).map_err(told)
        })
    };
    let options = ServeOptions { listen: &args.listen, password, hold: Some(&hold) };
    Ok(serve::serve(&log, &options, stop, told)?)
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
