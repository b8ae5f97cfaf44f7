//! The table, and the baseline it is compared with.
//!
//! In: figures by stage. Out: text, JSON, a baseline. Never here: a judgement of time.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use stage_benches::pass::Figure;
use stage_benches::stages;

/// Ratio to the baseline's instructions above which a stage is marked.
const WORSE: f64 = 1.03;
/// Allocations per row above the baseline at which a stage is marked. They are counted exactly; a stage that starts to
/// allocate takes 1 per row, or one for every so many rows.
const ALLOCATIONS_WORSE: f64 = 0.01;

/// Instructions and allocations per row of an earlier run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Baseline {
    /// Compiler of that run: another one generates other instructions.
    pub compiler: String,
    /// Instructions and allocations per row, and the result's hash, by stage.
    pub stages: BTreeMap<String, Entry>,
}

/// One stage of a baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Instructions per row in user mode.
    pub instructions_per_row: f64,
    /// Allocations per row once warm.
    pub allocations_per_row: f64,
    /// Hash of the stage's result.
    pub hash: String,
}

impl Baseline {
    /// Reads a file; None if there is none.
    ///
    /// # Errors
    /// The file cannot be read or is not a baseline.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Option<Baseline>> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        serde_json::from_slice(&text).map(Some).with_context(|| path.display().to_string())
    }
}

/// All measurements of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    machine: String,
    load_average: String,
    compiler: String,
    /// True if callgrind counted.
    counted: bool,
    stages: Vec<Row>,
    notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    stage: String,
    unit: &'static str,
    rows: u64,
    ns_per_row: f64,
    instructions_per_row: Option<f64>,
    /// Instructions divided by the baseline's.
    ratio: Option<f64>,
    worse: bool,
    /// Allocations once warm.
    allocations_per_row: Option<f64>,
    allocates_more: bool,
    hash: String,
}

impl Report {
    /// Combines figures with instructions and allocations per row by stage, where these could be counted.
    #[must_use]
    pub(crate) fn new(
        figures: Vec<Figure>,
        instructions: Option<BTreeMap<String, u64>>,
        allocations: Option<BTreeMap<String, f64>>,
    ) -> Report {
        let row = |figure: Figure| {
            let per_row = |n: u64| n as f64 / figure.rows.max(1) as f64;
            let counted = instructions.as_ref().and_then(|counts| counts.get(&figure.stage));
            Row {
                unit: stages::ALL.iter().find(|stage| stage.name == figure.stage).map_or("row", |stage| stage.unit),
                ns_per_row: per_row(figure.ns),
                instructions_per_row: counted.map(|n| per_row(*n)),
                ratio: None,
                worse: false,
                allocations_per_row: allocations.as_ref().and_then(|all| all.get(&figure.stage)).copied(),
                allocates_more: false,
                rows: figure.rows,
                hash: figure.hash.clone(),
                stage: figure.stage.clone(),
            }
        };
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Report {
            machine: machine(),
            load_average: load.split_whitespace().take(3).collect::<Vec<_>>().join(" "),
            compiler: compiler(),
            counted: instructions.is_some(),
            stages: figures.into_iter().map(row).collect(),
            notes: Vec::new(),
        }
    }

    /// Baseline for later runs.
    ///
    /// # Errors
    /// Instructions or allocations were not counted.
    pub(crate) fn baseline(&self) -> anyhow::Result<Baseline> {
        let entry = |row: &Row| {
            let instructions = row.instructions_per_row.context("no instructions without valgrind")?;
            // More digits would differ from run to run.
            let instructions_per_row = (instructions * 10.0).round() / 10.0;
            let allocations = row.allocations_per_row.context("no allocations without cargo")?;
            let allocations_per_row = (allocations * 10_000.0).round() / 10_000.0;
            Ok((row.stage.clone(), Entry { instructions_per_row, allocations_per_row, hash: row.hash.clone() }))
        };
        let stages = self.stages.iter().map(entry).collect::<anyhow::Result<_>>()?;
        Ok(Baseline { compiler: self.compiler.clone(), stages })
    }

    /// Adds ratios and marks.
    #[must_use]
    pub(crate) fn compare(mut self, baseline: Option<&Baseline>) -> Report {
        let Some(baseline) = baseline else {
            self.notes.push("no baseline, nothing compared; --write-baseline makes it".into());
            return self;
        };
        if !self.counted {
            self.notes
                .push("no valgrind: instructions not counted, nothing compared (apt-get install valgrind)".into());
        }
        if baseline.compiler != self.compiler {
            self.notes.push(format!("the baseline is of another compiler: {}", baseline.compiler));
        }
        for row in &mut self.stages {
            let Some(before) = baseline.stages.get(&row.stage) else {
                self.notes.push(format!("{}: not in the baseline", row.stage));
                continue;
            };
            row.ratio = row.instructions_per_row.map(|now| now / before.instructions_per_row.max(1.0));
            row.worse = row.ratio.is_some_and(|ratio| ratio > WORSE);
            let most = before.allocations_per_row + ALLOCATIONS_WORSE;
            row.allocates_more = row.allocations_per_row.is_some_and(|now| now > most);
            if before.hash != row.hash {
                self.notes.push(format!("{}: another result than the baseline's", row.stage));
            }
        }
        self
    }

    /// True if a stage takes more instructions or allocations than allowed.
    #[must_use]
    pub(crate) fn is_worse(&self) -> bool {
        self.stages.iter().any(|row| row.worse || row.allocates_more)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, load {}, {}", self.machine, self.load_average, self.compiler)?;
        let head = ("stage", "rows", "instructions/row", "baseline", "allocations/row", "ns/row");
        writeln!(f, "{:<12} {:>8} {:>17} {:>9} {:>16} {:>9}  result", head.0, head.1, head.2, head.3, head.4, head.5)?;
        for row in &self.stages {
            let counted = row.instructions_per_row.map_or("-".into(), |n| format!("{n:.1}"));
            let ratio = row.ratio.map_or("-".into(), |ratio| format!("{:+.1}%", (ratio - 1.0) * 100.0));
            let mark = match (row.worse, row.allocates_more) {
                (true, true) => "  MORE INSTRUCTIONS AND ALLOCATIONS",
                (true, false) => "  MORE INSTRUCTIONS",
                (false, true) => "  MORE ALLOCATIONS",
                (false, false) => "",
            };
            let hash = row.hash.get(..16).unwrap_or(&row.hash);
            let taken = row.allocations_per_row.map_or("-".into(), |n| format!("{n:.4}"));
            let (stage, rows, ns) = (&row.stage, row.rows, row.ns_per_row);
            write!(f, "{stage:<12} {rows:>8} {counted:>17} {ratio:>9} {taken:>16} {ns:>9.0}  {hash} ")?;
            writeln!(f, "per {}{mark}", row.unit)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name").and_then(|l| l.split(':').nth(1)));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} cores", model.map_or("unknown processor", str::trim))
}

fn compiler() -> String {
    let output = std::process::Command::new("rustc").arg("--version").output();
    output.map_or("unknown compiler".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
