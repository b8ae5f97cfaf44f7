//! `simulation seed SEED [--fault NAME]` runs one seed and prints its story. `simulation seeds FIRST COUNT` runs many.
//! `simulation life …` is one life of a seed, started by the former under the power-cut shim.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::ExitCode;

use simulation::life::{self, Fate};
use simulation::replica::Planted;
use simulation::seed::{self, Faulty, Tally};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let program = std::env::current_exe().unwrap();
    match words.as_slice() {
        ["life", folder, seed, count, known, fate, steps, planted] => {
            let fate = match *fate {
                "killed" => Fate::Killed(number(steps)),
                "stopped" => Fate::Stopped(number(steps)),
                _ => Fate::Done,
            };
            let planted = match *planted {
                "early-publish" => Planted::EarlyPublish,
                "cut-in-two" => Planted::CutInTwo,
                _ => Planted::Nothing,
            };
            let known = known.parse().expect("what is known");
            let code = life::live(Path::new(folder), number(seed), number(count), known, fate, planted);
            // Nothing is dropped on the way out.
            std::process::exit(code)
        }
        ["seed", seed, rest @ ..] => {
            let faulty = match rest {
                ["--fault", name] => Faulty::Stage((*name).to_owned()),
                ["--skip-syncs", rules] => Faulty::Syncs((*rules).to_owned()),
                _ => Faulty::Nothing,
            };
            report(number(seed), seed::run(&program, number(seed), &faulty))
        }
        ["seeds", first, count] => {
            let (mut all, mut failed) = (Tally::default(), 0);
            for seed in number(first)..number(first) + number(count) {
                match seed::run(&program, seed, &Faulty::Nothing) {
                    Ok(tally) => all.add(tally),
                    Err(error) => {
                        failed += 1;
                        println!("seed {seed}: {error}\n");
                    }
                }
            }
            println!("{count} seeds, {failed} failed: {all}");
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        _ => {
            eprintln!(
                "usage: simulation seed SEED [--fault early-publish|cut-in-two] [--skip-syncs RULES] | seeds FIRST COUNT"
            );
            ExitCode::from(2)
        }
    }
}

fn report(seed: u64, result: Result<Tally, String>) -> ExitCode {
    match result {
        Ok(tally) => {
            println!("seed {seed}: {tally}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("seed {seed}: {error}");
            ExitCode::FAILURE
        }
    }
}
