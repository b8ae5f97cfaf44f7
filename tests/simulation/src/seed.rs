//! A seed: lives of a replica, each ended differently, and what happens between them.
//!
//! In: a seed, optionally a planted fault. Out: success of all checks, or the failure and the command that repeats it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base::Random;
use power_cut::PowerCut;

use crate::life::{EXIT_DAMAGED, EXIT_DISK, EXIT_WELL, Fate, Known};

/// A planted fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Faulty {
    /// No fault.
    Nothing,
    /// A fault of a stage: `early-publish` or `cut-in-two`.
    Stage(String),
    /// A fault of the disk: syncs that these rules name are left out, see [`power_cut::journal::skips`].
    Syncs(String),
}

/// Counts for a seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Number of lives.
    pub lives: u64,
    /// Kills, between steps or between system calls.
    pub kills: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Lives ended by a failing disk.
    pub disk_failures: u64,
    /// Lives ended by a damaged relay log.
    pub damages: u64,
    /// Clean stops before the end.
    pub stops: u64,
    /// Transactions in the history.
    pub transactions: u64,
    /// Number of cuts.
    pub cuts: u64,
    /// Spills of unfinished transactions.
    pub spills: u64,
    /// Compaction steps that had work to do.
    pub compactions: u64,
    /// Relay log files purged.
    pub purged: u64,
    /// Pieces that needed several lanes.
    pub barriers: u64,
}

impl Tally {
    fn done_mut(&mut self) -> [&mut u64; 5] {
        [&mut self.cuts, &mut self.spills, &mut self.compactions, &mut self.purged, &mut self.barriers]
    }

    fn done(self) -> [u64; 5] {
        [self.cuts, self.spills, self.compactions, self.purged, self.barriers]
    }

    /// Adds another tally to this one.
    pub fn add(&mut self, other: Tally) {
        self.lives += other.lives;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.disk_failures += other.disk_failures;
        self.damages += other.damages;
        self.stops += other.stops;
        self.transactions += other.transactions;
        self.done_mut().into_iter().zip(other.done()).for_each(|(all, more)| *all += more);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} lives, {} kills, {} power cuts, {} disk failures, {} damaged logs, {} clean stops; {} transactions, {} cuts, {} spills, {} \
             compactions, {} relay files purged, {} barriers",
            self.lives,
            self.kills,
            self.power_cuts,
            self.disk_failures,
            self.damages,
            self.stops,
            self.transactions,
            self.cuts,
            self.spills,
            self.compactions,
            self.purged,
            self.barriers
        )
    }
}

/// Runs a seed in `program`, the simulation's own binary. SIMULATION_KEEP=1 keeps the folder of a failing seed.
///
/// # Errors
/// A checker's finding, with the lives before it.
pub fn run(program: &Path, seed: u64, faulty: &Faulty) -> Result<Tally, String> {
    let folder = tempfile::Builder::new().prefix("simulation").tempdir_in(quick_folder()).unwrap();
    let mut run = Run {
        program,
        seed,
        faulty,
        power: PowerCut::new(folder.path()),
        random: Random::new(seed ^ 0xd15c),
        known: Known::default(),
        tally: Tally::default(),
        story: Vec::new(),
    };
    if let Faulty::Syncs(rules) = faulty {
        run.power.skip_syncs(rules);
    }
    let lives = 2 + run.random.below(5) as u64;
    let ended = run.lives(lives);
    let tally = run.tally;
    if ended.is_err() && std::env::var_os("SIMULATION_KEEP").is_some() {
        eprintln!("what is there is kept in {}", folder.keep().display());
    }
    ended.map(|()| tally)
}

/// In memory if there is such a folder: the model keeps what a power cut keeps, so the real disk need not.
fn quick_folder() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

struct Run<'a> {
    program: &'a Path,
    seed: u64,
    faulty: &'a Faulty,
    power: PowerCut,
    random: Random,
    known: Known,
    tally: Tally,
    story: Vec<String>,
}

impl Run<'_> {
    fn lives(&mut self, lives: u64) -> Result<(), String> {
        for number in 0..lives {
            self.life(number, false)?;
        }
        self.power.plan("");
        self.life(lives, true)?;
        self.tally.transactions = self.known.visible;
        Ok(())
    }

    /// Runs one life, then what follows it.
    fn life(&mut self, number: u64, last: bool) -> Result<(), String> {
        let steps = 1 + self.random.below([40, 400, 3_000][self.random.clone().below(3)]) as u64;
        let mut fate = if self.random.one_in(6) { Fate::Stopped(steps) } else { Fate::Killed(steps) };
        let plan = if self.random.one_in(2) { self.any_plan() } else { String::new() };
        if last {
            fate = Fate::Done;
        } else {
            self.power.plan(&plan);
        }
        let plan = if last { String::new() } else { plan };
        self.story.push(format!("life {number}: {fate:?}, plan '{plan}', from {}", self.known));
        let mut command = Command::new(self.program);
        let (how, steps) = match fate {
            Fate::Killed(steps) => ("killed", steps),
            Fate::Stopped(steps) => ("stopped", steps),
            Fate::Done => ("done", 0),
        };
        command.arg("life").arg(self.power.disk().join("replica"));
        command.args([self.seed.to_string(), number.to_string(), self.known.to_string()]);
        let stage = if let Faulty::Stage(name) = self.faulty { name } else { "nothing" };
        command.args([how, &steps.to_string(), stage]);
        self.power.trace(&mut command);
        let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let last_line = text.lines().filter_map(|line| line.strip_prefix("at ")?.split_once(' ')).next_back();
        if let Some((known, done)) = last_line {
            self.known = known.parse().map_err(|_| format!("not understood: {known}"))?;
            let done: Vec<u64> = done.split(',').filter_map(|number| number.parse().ok()).collect();
            let all = self.tally.done_mut();
            all.into_iter().zip(done).for_each(|(all, done)| *all += done);
        }
        self.tally.lives += 1;
        let killed = output.status.code().is_none();
        let may_be_killed = matches!(fate, Fate::Killed(_)) || plan.contains("kill");
        match output.status.code() {
            Some(EXIT_WELL) if fate != Fate::Killed(steps) => self.tally.stops += u64::from(!last),
            Some(EXIT_DISK) if !plan.is_empty() => {
                self.tally.disk_failures += 1;
                self.story.extend(text.lines().filter(|line| line.starts_with("disk ")).map(str::to_owned));
            }
            Some(EXIT_DAMAGED) if !last => self.tally.damages += 1,
            None if may_be_killed && is_sigkill(&output.status) => self.tally.kills += 1,
            _ => {
                let error = String::from_utf8_lossy(&output.stderr);
                return Err(self.failed(&format!("{}: {}", output.status, error.trim())));
            }
        }
        if last {
            return Ok(());
        }
        // The power may fail after any end, except where the model would have nothing to say.
        let choice = self.random.below(if killed { 4 } else { 8 });
        let seed = self.random.any();
        if self.power.processes() > 0 && choice < 3 {
            let cut = if choice == 0 { self.power.cut_strictly() } else { self.power.cut(seed) };
            self.tally.power_cuts += 1;
            self.story.push(cut.to_string());
        }
        Ok(())
    }

    /// Failures planned for a life; none can continue for ever.
    fn any_plan(&mut self) -> String {
        let number = 1 + self.random.below([20, 200, 1_000][self.random.clone().below(3)]);
        let on = if self.random.one_in(3) { "+" } else { "" };
        match self.random.below(8) {
            0 | 1 => format!("any:{number}:kill"),
            2 => format!("write:{number}{on}:ENOSPC"),
            3 => format!("write:{number}{on}:EIO"),
            4 => format!("write:{number}:short"),
            5 => format!("sync:{number}{on}:EIO"),
            6 => format!("read:{number}{on}:EIO"),
            _ => format!("name:{number}{on}:ENOSPC"),
        }
    }

    fn failed(&self, text: &str) -> String {
        let fault = match self.faulty {
            Faulty::Nothing => String::new(),
            Faulty::Stage(name) => format!(" --fault {name}"),
            Faulty::Syncs(rules) => format!(" --skip-syncs '{rules}'"),
        };
        format!("{text}\n{}\nrun it again: cargo run -p simulation -- seed {}{fault}", self.story.join("\n"), self.seed)
    }
}

fn is_sigkill(status: &std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal() == Some(9)
}
