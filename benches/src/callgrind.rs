//! Counts the instructions of each stage with valgrind's callgrind.
//!
//! In: the logs. Out: user-mode instructions of each stage, by its function's name. Never here: a count of anything
//! outside those functions.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use stage_benches::pass::Figure;
use stage_benches::stages;

/// Runs a pass under callgrind; None if valgrind is not installed.
///
/// # Errors
/// valgrind fails, or the pass under it has another result.
pub(crate) fn count(logs: &Path, wanted: &[Figure]) -> anyhow::Result<Option<BTreeMap<String, u64>>> {
    let version = Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*measured_*", "--cache-sim=no", "--branch-sim=no"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .arg("--pass")
        .arg(logs)
        .output()
        .context("cannot start valgrind")?;
    if !output.status.success() {
        bail!("callgrind: {}", String::from_utf8_lossy(&output.stderr));
    }
    let figures: Vec<Figure> = serde_json::from_slice(&output.stdout).context("what callgrind's program printed")?;
    for (ours, theirs) in wanted.iter().zip(&figures) {
        anyhow::ensure!(ours.hash == theirs.hash, "{}: another result under callgrind", ours.stage);
    }
    let counts = inclusive(&std::fs::read_to_string(&out).context("what callgrind wrote")?);
    anyhow::ensure!(counts.len() == stages::ALL.len(), "callgrind saw only {counts:?}");
    Ok(Some(counts))
}

/// Instructions of each stage's function and of everything it calls, from callgrind's output. After `fn=` there are
/// lines of a position and a count: the function's own and, after `calls=`, those of the functions it calls.
fn inclusive(text: &str) -> BTreeMap<String, u64> {
    let (mut counts, mut known) = (BTreeMap::new(), BTreeMap::new());
    let mut stage = None;
    for line in text.lines() {
        if let Some(mention) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
            // `(number) name` the first time, `(number)` from then on.
            let (number, name) = mention.split_once(' ').unwrap_or((mention, ""));
            if let Some(found) = stages::ALL.iter().find(|stage| name.contains(stage.symbol)) {
                known.insert(number, found.name);
            }
            if line.starts_with("fn=") {
                stage = known.get(number).copied();
            }
        } else if let Some(name) = stage
            && line.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '*'))
            && let Some(count) = line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok())
        {
            *counts.entry(String::from(name)).or_default() += count;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_s_instructions_are_its_own_and_those_of_what_it_calls() {
        let text = "events: Ir\nfn=(1) main\n10 5\ncfn=(2) x::measured_split\ncalls=1 23\n60 111\n\nfn=(2)\n23 1\n\
                    +1 2\ncfi=(336)\ncfn=(3) work\ncalls=1 128 \n* 100\nfi=(253)\n491 4\nfe=(705)\n-27 3\n\n\
                    fn=(3)\n128 100\n\nfn=(4) x::measured_cut\n1 7\ntotals: 117\n";
        assert_eq!(inclusive(text), BTreeMap::from([("split".to_owned(), 110), ("cut".to_owned(), 7)]));
    }
}
