//! Figures of two builds of our program over one log: a profile-guided one, and one that does not watch itself.
//!
//! In: two programs, by option; a recorded log. Out: speed or CPU of each, by turns. Never here: a build.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};

use super::context::Context;
use super::entry::{Entry, How, Kind, Plan};
use super::replays::{Field, One, SPEED, by_turns, ratios, recorded, unrolled};
use super::result::{Found, Side};
use super::verdict::Claim;
use crate::compare::{Contender, Sample};

const UNROLLED: &str =
    "TPC-C recorded at a stock primary with eight terminals, unrolled into many times its warehouses";

/// The entries of this family.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        numbers: &["PGO"],
        seed: "004",
        sentence: "Profile-guided optimization (PGO) typically improves program execution efficiency.",
        number: None,
        question: "Does our replay gain by PGO?",
        how: How::Measured(Plan {
            load: UNROLLED,
            factor: "how our program was built: --binaries PLAIN,GUIDED, as make build and make dist leave them",
            measure: SPEED,
            kind: Kind::Ratio(Claim::Above),
            rule: "the profile-guided program is faster, by the sign test over pairs",
            run: guided,
        }),
    },
    Entry {
        numbers: &["watching"],
        seed: "000",
        sentence: "The overhead associated with my_malloc calling PFS-related functions is substantial.",
        number: None,
        question: "How much CPU does our own watching take, compared with 10-24's?",
        how: How::Measured(Plan {
            load: UNROLLED,
            factor: "whether our program watches itself: --binaries WATCHING,UNWATCHED, the latter by --features unwatched",
            measure: "CPU seconds",
            kind: Kind::Ratio(Claim::Below),
            rule: "without watching it takes less CPU, by the sign test over pairs",
            run: unwatched,
        }),
    },
];

fn guided(context: &Context<'_>) -> Result<Found> {
    let speed = |sample: &Sample, field: &Field<'_>| field.transactions as f64 / sample.wall_s.max(1e-9);
    measure(context, SPEED, &speed)
}

fn unwatched(context: &Context<'_>) -> Result<Found> {
    measure(context, "CPU s", &|sample, _| sample.cpu_s)
}

/// The two programs of `--binaries`.
fn given(binaries: &[PathBuf]) -> Result<[&PathBuf; 2]> {
    let [base, changed] = binaries else {
        bail!("this figure compares two builds of slipstream: --binaries BASE,CHANGED (it builds none)");
    };
    for program in [base, changed] {
        ensure!(program.is_file(), "--binaries: no program {}", program.display());
    }
    Ok([base, changed])
}

fn measure(context: &Context<'_>, unit: &'static str, value: &dyn Fn(&Sample, &Field<'_>) -> f64) -> Result<Found> {
    let [base, changed] = given(context.binaries)?;
    let recording = recorded(context, "recording", 8, &[])?;
    let field = unrolled(context, &recording)?;
    let of = |name: &str, side, program: &PathBuf| {
        let contender = Contender { program: Some(program.clone()), ..Contender::ours(name, &[]) };
        (One { side, contender, ..One::ours(name, &[]) }, &field)
    };
    let contenders = [
        of("Slipstream, the first", Side::Base, base),
        of("Slipstream, the second", Side::Changed, changed),
        of("Slipstream, the first, again", Side::Again, base),
    ];
    let mut found = by_turns(context, &contenders, unit, value)?;
    found.ratios = ratios(&found, Side::Changed);
    found.again = ratios(&found, Side::Again);
    found.notes.push(format!("the first: {}; the second: {}", base.display(), changed.display()));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_programs_are_asked_for_by_name() {
        let missing = given(&[]).unwrap_err().to_string();
        assert!(missing.contains("--binaries BASE,CHANGED"), "{missing}");
        let own = std::env::current_exe().unwrap();
        assert!(given(&[own.clone(), own.clone()]).is_ok());
        assert!(given(&[own, "/nowhere/slipstream".into()]).unwrap_err().to_string().contains("/nowhere/slipstream"));
    }
}
