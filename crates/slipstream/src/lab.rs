//! `slipstream lab …`: two commands that measure this very program, and all others, which `slipstream-lab` has.
//!
//! In: the arguments. Out: a measurement, or the other program in this one's place. Never here: what loads, records,
//! compares or draws; none of that is linked into the program.

use std::ffi::OsString;

use clap::{ArgMatches, Command, Subcommand as _};
use programs::{BUILD_ID, BUILD_ID_COMMAND};
use replay::cli::{OwnCommand, PipelineOptions};

use crate::run::{Extension, with_pipeline_options};

/// Names the other program where its commands are looked for.
const OTHERS: &str = "Every other command is slipstream-lab's, which is in this program's folder: compare, source, record, \
                      tpcc, clocks and more. slipstream-lab --help lists them.";

/// The commands. `replay` takes the options of the pipeline, like `replica`.
#[must_use]
pub fn lab() -> Extension {
    let command = Command::new("lab")
        .about("Experiments: replay recorded logs, record them, TPC-C")
        .after_help(OTHERS)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .allow_external_subcommands(true)
        .disable_help_subcommand(true);
    let command = OwnCommand::augment_subcommands(command)
        .subcommand(Command::new(BUILD_ID_COMMAND).hide(true).about("Print the build"))
        .mut_subcommand("replay", with_pipeline_options);
    Extension {
        command,
        run: |given, read| match given.subcommand() {
            Some((BUILD_ID_COMMAND, _)) => {
                println!("{BUILD_ID}");
                Ok(())
            }
            Some((name, others)) if !OwnCommand::has_subcommand(name) => {
                Err(programs::become_lab(arguments(name, others)))
            }
            _ => replay::cli::run(given, &|given| {
                let settings = read(given)?;
                Ok(PipelineOptions { pipeline: settings.pipeline(), relay_sync: settings.relay_sync() })
            }),
        },
    }
}

/// What was typed after `slipstream lab`.
fn arguments(name: &str, given: &ArgMatches) -> Vec<OsString> {
    let rest = given.get_many::<OsString>("").into_iter().flatten().cloned();
    [OsString::from(name)].into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_program_does_not_know_is_handed_over_whole() {
        let line = "slipstream lab tpcc run --server mysql://h -p3 --help";
        let matches = crate::run::command(&lab()).try_get_matches_from(line.split(' ')).unwrap();
        let (_, given) = matches.subcommand().unwrap();
        let (name, others) = given.subcommand().unwrap();
        let wanted: Vec<OsString> = line.split(' ').skip(2).map(OsString::from).collect();
        assert_eq!(arguments(name, others), wanted);
    }

    #[test]
    fn own_commands_parse_with_the_options_of_the_pipeline() {
        for line in [
            "lab replay a.000001 a.000002 --workers 2 --json",
            "lab replay a --grain transactions --dependency-tracking writeset-session --tracker-rules stock --history-size 25000 \
             --wait scheduler --preserve-commit-order OFF --decoders 0 --hand-off event --worker-queue-events 16384",
            "lab ablation a.index --load l.index --from stock --only wait --rounds 3 --json",
            "lab replay a --rate 5000 --json --samples",
        ] {
            let arguments = std::iter::once("slipstream").chain(line.split_whitespace());
            let matches = crate::run::command(&lab()).try_get_matches_from(arguments).unwrap();
            let (_, given) = matches.subcommand().unwrap();
            assert!(given.subcommand_name().is_some_and(OwnCommand::has_subcommand), "{line}");
        }
    }

    #[test]
    fn every_command_runs_without_core_files() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let extension = Extension { command: Command::new("lab"), run: |_, _| Ok(()) };
        let hard = getrlimit(Resource::Core).maximum;
        setrlimit(Resource::Core, Rlimit { current: hard, maximum: hard }).unwrap();
        let _ = crate::run::run(["slipstream", "lab"].map(OsString::from), &extension);
        assert_eq!(getrlimit(Resource::Core), Rlimit { current: Some(0), maximum: hard });
    }
}
