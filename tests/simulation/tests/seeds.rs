//! The simulation over many seeds, and over planted faults: a checker counts once it has caught one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use simulation::seed::{self, Faulty, Tally};

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_simulation"))
}

/// Number of seeds: 20 in `make check`, 100 in `make test`, 5,000 in `make soak`.
fn seeds() -> u64 {
    match std::env::var("SLIPSTREAM_TEST_LENGTH").as_deref() {
        Ok("soak") => 5_000,
        Ok("short") => 100,
        _ => 20,
    }
}

/// Runs seeds on two threads until one fails. Returns their tally and the failures, first seed first.
fn run(seeds: std::ops::Range<u64>, faulty: &Faulty) -> (Tally, Vec<String>) {
    let next = AtomicU64::new(seeds.start);
    let (all, failures) = (Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || !failures.lock().unwrap().is_empty() {
                        return;
                    }
                    match seed::run(program(), seed, faulty) {
                        Ok(tally) => all.lock().unwrap().add(tally),
                        Err(error) => failures.lock().unwrap().push(format!("seed {seed}: {error}")),
                    }
                }
            });
        }
    });
    (all.into_inner().unwrap(), failures.into_inner().unwrap())
}

#[test]
fn every_state_anybody_sees_is_a_prefix_of_the_sources_history() {
    let (tally, failures) = run(1..seeds() + 1, &Faulty::Nothing);
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    eprintln!("{} seeds: {tally}", seeds());
    // A case that never occurs is not tested.
    let met = [tally.power_cuts, tally.disk_failures, tally.cuts, tally.spills, tally.compactions, tally.purged];
    assert!(met.iter().all(|count| *count > 0) && tally.barriers > 0, "{tally}");
}

/// Runs seeds, up to a limit, until a planted fault is caught; the checker's message must contain `said`.
fn is_caught(faulty: &Faulty, said: &str) {
    let (_, failures) = run(1..120, faulty);
    let first = failures.first().unwrap_or_else(|| panic!("{faulty:?} was not caught"));
    eprintln!("{faulty:?}: {}", first.lines().next().unwrap_or_default());
    assert!(first.contains(said), "{first}");
}

#[test]
fn an_early_publish_is_caught() {
    is_caught(&Faulty::Stage("early-publish".into()), "the rows are not those of the source's history");
}

#[test]
fn a_cut_that_is_not_atomic_is_caught() {
    is_caught(&Faulty::Stage("cut-in-two".into()), "at the start: at ");
}

#[test]
fn a_relay_log_that_is_not_synced_is_caught() {
    is_caught(&Faulty::Syncs("fdatasync replica/relay-log/relay-bin.0*".into()), "was acknowledged and is gone");
}

#[test]
fn names_in_the_relay_log_that_are_not_synced_are_caught() {
    is_caught(&Faulty::Syncs("replica/relay-log/@relay-bin.index".into()), "at the start");
}

#[test]
fn a_cut_that_is_not_made_current_is_caught() {
    is_caught(&Faulty::Syncs("replica/store/@current".into()), "was durable");
}

/// A cut that a power loss can tear: its record is there, some of its rows are not.
#[test]
fn rows_of_a_cut_that_are_not_synced_are_caught() {
    let rules: Vec<String> = (0..10).map(|digit| format!("replica/store/tables/{digit}*")).collect();
    is_caught(&Faulty::Syncs(rules.join(";")), "damaged");
}
