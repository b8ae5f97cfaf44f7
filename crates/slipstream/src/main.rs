//! The program: commands of this crate's library, and those of the lab.

#[cfg(all(feature = "jemalloc", feature = "mimalloc"))]
compile_error!("one allocator at most: jemalloc or mimalloc");

#[cfg(all(feature = "jemalloc", not(feature = "mimalloc")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(all(feature = "mimalloc", not(feature = "jemalloc")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use replica::Failure;
use slipstream::run::{Extension, with_pipeline_options};

fn main() -> std::process::ExitCode {
    slipstream::run::run(std::env::args_os(), &lab())
}

/// `slipstream lab ...`. `lab replay` takes the options of the pipeline, like `replica`.
fn lab() -> Extension {
    Extension {
        command: lab::cli::command().mut_subcommand("replay", with_pipeline_options),
        run: |given, read| {
            lab::cli::run(given, &|given| {
                let settings = read(given)?;
                Ok::<_, Failure>(lab::cli::PipelineOptions {
                    pipeline: settings.pipeline(),
                    relay_sync: settings.relay_sync(),
                })
            })
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labs_commands_parse() {
        for line in [
            "lab replay a.000001 a.000002 --workers 2 --json",
            "lab replay a --grain transactions --dependency-tracking writeset-session --tracker-rules stock --history-size 25000 \
             --wait scheduler --preserve-commit-order OFF --decoders 0 --hand-off event --worker-queue-events 16384",
            "lab ablation a.index --load l.index --from stock --only wait --rounds 3 --json",
            "lab compare a.index --load l.index --rounds 1 --only mysql --first 100 --memory 256M --mysqld-option=--x=1 --json",
            "lab source a.index --load l.index --listen 127.0.0.1:0 --rate 5000",
            "lab record --source mysql://h --out /new",
            "lab restamp a.index --out /new --dependency-tracking commit-order --history-size 25000 --file-mib 64",
            "lab make --out /new --transactions 5 --rate 100 --dependency-tracking commit-order huge --change delete --huge-rows 7",
            "lab make --out /new zipf --theta 1.2 --rows 10",
            "lab replay a --rate 5000 --json --samples",
            "lab tpcc prepare --server mysql://h --warehouses 2",
            "lab tpcc run --server mysql://h --warehouses 2 --terminals 4 --duration 60s --style procedures",
            "lab tpcc check --server mysql://h --warehouses 2",
        ] {
            let command = slipstream::run::command(&lab());
            let arguments = std::iter::once("slipstream").chain(line.split_whitespace());
            command.try_get_matches_from(arguments).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn the_whole_command_line_is_sound_and_documented() {
        let mut command = slipstream::run::command(&lab());
        command.build();
        command.clone().debug_assert();
        fn walk(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{} has no text", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{}: {} has no text", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(walk);
        }
        walk(&command);
    }
}
