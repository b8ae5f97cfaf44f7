//! Command line of `slipstream lab replay` and `slipstream lab ablation`, which measure the program that ships.

use std::io::Write as _;

use clap::{ArgMatches, FromArgMatches as _, Subcommand};
use observe::{PlainText, prefixed_lines};
use replica::Failure;

use crate::ablation::{self, AblationArgs};
pub use crate::command::PipelineOptions;
use crate::command::{self, ReplayFlags};

/// Commands of the lab that are the program's own.
#[derive(Debug, Clone, Subcommand)]
pub enum OwnCommand {
    /// Replay recorded logs through the whole pipeline into a fresh store; print rates, CPU by stage and peak memory
    Replay(ReplayFlags),
    /// Replay the same log alternately with each mechanism on and off; print medians and ratios
    Ablation(AblationArgs),
}

/// Runs one of these commands and prints results to standard output. `options` reads the pipeline's options.
///
/// # Errors
/// Code 1 if a check fails; otherwise the failure with its exit code.
pub fn run(
    given: &ArgMatches,
    options: &dyn Fn(&ArgMatches) -> Result<PipelineOptions, Failure>,
) -> Result<(), Failure> {
    let own = OwnCommand::from_arg_matches(given).map_err(|error| Failure::usage(error.to_string()))?;
    match (&own, given.subcommand()) {
        (OwnCommand::Replay(flags), Some(("replay", given))) => {
            let decoders = given.try_get_one::<String>("decoders").ok().flatten();
            let no_decoders = decoders.is_some_and(|given| given.parse() == Ok(0));
            command::run(flags, options(given)?, no_decoders, &mut PlainText::new(std::io::stdout().lock()))
        }
        (OwnCommand::Ablation(args), _) => match ablate(args) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::error("the check failed")),
            Err(error) => Err(Failure::error(format!("{error:#}"))),
        },
        (OwnCommand::Replay(_), _) => Err(Failure::usage("no such command")),
    }
}

/// False if a check failed.
fn ablate(args: &AblationArgs) -> anyhow::Result<bool> {
    let out = &mut PlainText::new(std::io::stdout());
    let report = ablation::ablation(args, &mut |line| eprint!("{}", prefixed_lines("", line)))?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(report.is_equal())
}
