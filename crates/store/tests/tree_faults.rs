//! lsm-tree's tree, used as the store uses it, against a `BTreeMap`: ingest, merge, drop and reopen, with a fault at
//! every write and sync of a script.
//!
//! A script is run by this test program, started again under the power-cut shim. It notes each step that has ended. A
//! fault that it meets must be told, a failed sync as one; what it goes on with, and what is left after a power cut,
//! must be the state after the last step noted or after the one in progress.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use base::Random;
use lsm_tree::compaction::filter::{Context, Factory};
use lsm_tree::compaction::{
    CompactionFilter, CompactionStrategy, DropTables, ItemAccessor, MoveDown, PullDown, Verdict,
};
use lsm_tree::config::BlockSizePolicy;
use lsm_tree::file::SyncFailed;
use lsm_tree::{AbstractTree, AnyTree, Config, Error, Guard as _, SequenceNumberCounter, Table};
use power_cut::PowerCut;
use proptest::prelude::*;

const SPAN: u64 = 4;
const LEVELS: u8 = 7;
const FILE_BYTES: u64 = 64 << 20;

/// Rows of three tables at a time, by the first byte of their keys. One that is dropped is never used again.
#[derive(Clone, Default)]
struct Model {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    dead: BTreeSet<u8>,
}

impl Model {
    fn forget(&mut self, table: u8) {
        self.rows.retain(|key, _| key[0] != table);
        self.dead.insert(table);
    }
}

struct Entry {
    key: Vec<u8>,
    /// None removes the row.
    value: Option<Vec<u8>>,
    /// Of its number, within the run's span.
    offset: u64,
}

enum Step {
    Ingest(Vec<Entry>),
    /// A level into the next one that is not empty, or into this one if it lies in front of that.
    Merge {
        from: u8,
        to: u8,
    },
    /// A level that is one run.
    Move {
        from: u8,
        to: u8,
    },
    MergeAll,
    /// Forgets a table: its files go at once, its rows in other files when they are merged.
    Drop(u8),
    Reopen,
}

/// Steps, and the state before the first one and after each.
struct Script {
    steps: Vec<Step>,
    states: Vec<Model>,
}

impl Script {
    fn of(actions: &[(u8, u64)]) -> Script {
        let mut script = Script { steps: Vec::new(), states: vec![Model::default()] };
        for (action, seed) in actions {
            let mut model = script.states.last().unwrap().clone();
            let mut random = Random::new(*seed);
            let first_alive = (0..=u8::MAX).find(|table| !model.dead.contains(table)).unwrap();
            let step = match action % 16 {
                0..=6 => Step::Ingest(entries(&mut random, first_alive, script.steps.len())),
                7..=10 => {
                    let from = random.below(LEVELS - 1);
                    Step::Merge { from, to: from + 1 + random.below(LEVELS - 1 - from) }
                }
                11 => {
                    let from = random.below(LEVELS - 1);
                    Step::Move { from, to: from + 1 + random.below(LEVELS - 1 - from) }
                }
                12 => Step::MergeAll,
                13 => Step::Drop(first_alive),
                _ => Step::Reopen,
            };
            match &step {
                Step::Ingest(entries) => entries.iter().for_each(|entry| match &entry.value {
                    Some(value) => drop(model.rows.insert(entry.key.clone(), value.clone())),
                    None => drop(model.rows.remove(&entry.key)),
                }),
                Step::Drop(table) => model.forget(*table),
                Step::Merge { .. } | Step::Move { .. } | Step::MergeAll | Step::Reopen => {}
            }
            script.steps.push(step);
            script.states.push(model);
        }
        script
    }

    /// A script that has each kind of step, runs to merge for it, and tables of more than one write.
    fn of_seed(seed: u64) -> Script {
        let mut random = Random::new(seed);
        let actions = [0, 0, 8, 0, 13, 0, 12, 0, 14, 0, 9, 11, 0, 13, 8];
        Script::of(&actions.map(|action| (action, random.any())))
    }
}

fn entries(random: &mut Random, first_alive: u8, step: usize) -> Vec<Entry> {
    let tables = 1 + random.below(3u8);
    let keys: BTreeSet<[u8; 2]> =
        (0..1 + random.below(10u8)).map(|_| [first_alive + random.below(tables), random.below(5u8)]).collect();
    let entry = |key: [u8; 2]| {
        let len = random.pick(&[3, 3, 3, 30, 300, 300, 3000, 3000, 70_000]);
        let value = (!random.one_in(4)).then(|| format!("{step} {key:?} ").into_bytes());
        let value = value.map(|value| value.into_iter().cycle().take(len).collect());
        Entry { key: key.to_vec(), value, offset: random.below(SPAN) }
    };
    keys.into_iter().map(entry).collect()
}

/// Rows of these tables are not merged.
#[derive(Default, Clone)]
struct Dead(Arc<Mutex<BTreeSet<u8>>>);

impl Factory for Dead {
    fn name(&self) -> &str {
        "dead tables"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(self.clone())
    }
}

impl CompactionFilter for Dead {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        let is_dead = self.0.lock().unwrap().contains(&item.key()[0]);
        Ok(if is_dead { Verdict::Destroy } else { Verdict::Keep })
    }
}

/// The tree and what its reader holds.
struct Opened {
    tree: AnyTree,
    counter: SequenceNumberCounter,
    dead: Dead,
    /// States that are still readable, by the number to read at.
    readable: Vec<(u64, Model)>,
}

impl Opened {
    /// As `Disk::open_tree` does it.
    fn open(folder: &Path, state: &Model) -> lsm_tree::Result<Opened> {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| std::io::Error::new(error.kind(), SyncFailed(error)))?;
        let (counter, visible) = (SequenceNumberCounter::default(), SequenceNumberCounter::default());
        let dead = Dead(Arc::new(Mutex::new(state.dead.clone())));
        let tree = Config::new(folder, counter.clone(), visible.clone())
            .data_block_size_policy(BlockSizePolicy::all(1024))
            .with_compaction_filter_factory(Some(Arc::new(dead.clone()) as _))
            .open()?;
        let next = tree.get_highest_persisted_seqno().map_or(0, |highest| highest + 1);
        counter.fetch_max(next + 1);
        visible.fetch_max(next + 1);
        let readable = vec![(counter.get(), state.clone())];
        Ok(Opened { tree, counter, dead, readable })
    }

    fn take(&mut self, step: &Step, after: &Model) -> lsm_tree::Result<()> {
        match step {
            Step::Ingest(entries) => self.ingest(entries)?,
            Step::Merge { from, to } if self.runs(*from) > 0 => {
                let to = self.up_to(*from, *to);
                self.compact(Arc::new(PullDown(*from, to)), self.oldest())?;
            }
            Step::Move { from, to } if self.runs(*from) == 1 => {
                let to = self.up_to(*from, *to);
                self.compact(Arc::new(MoveDown(*from, to)), self.oldest())?;
            }
            Step::MergeAll => self.tree.major_compact(FILE_BYTES, self.oldest())?,
            Step::Drop(table) => {
                self.dead.0.lock().unwrap().insert(*table);
                self.readable.iter_mut().for_each(|(_, model)| model.forget(*table));
                self.compact(Arc::new(DropTables(self.files_of_dead())), 0)?;
            }
            Step::Merge { .. } | Step::Move { .. } | Step::Reopen => {}
        }
        self.readable.push((self.counter.get(), after.clone()));
        // Reads at two old numbers go on at most, as snapshots are let go.
        let gone = self.readable.len().saturating_sub(3);
        self.readable.drain(..gone);
        Ok(())
    }

    fn ingest(&self, entries: &[Entry]) -> lsm_tree::Result<()> {
        let mut ingestion = self.tree.ingestion()?.use_seqno_span(SPAN)?;
        for Entry { key, value, offset } in entries {
            match value {
                Some(value) => ingestion.write_at(key.as_slice(), value.as_slice(), *offset)?,
                None => ingestion.write_tombstone_at(key.as_slice(), *offset)?,
            }
        }
        ingestion.finish()
    }

    fn compact(&self, strategy: Arc<dyn CompactionStrategy>, oldest: u64) -> lsm_tree::Result<()> {
        self.tree.compact(strategy, oldest)
    }

    fn oldest(&self) -> u64 {
        self.readable[0].0
    }

    fn runs(&self, level: u8) -> usize {
        self.tree.current_version().level(usize::from(level)).map_or(0, |level| level.run_count())
    }

    /// Levels in between must be empty.
    fn up_to(&self, from: u8, to: u8) -> u8 {
        (from + 1..to).find(|level| self.runs(*level) > 0).unwrap_or(to)
    }

    fn files_of_dead(&self) -> Vec<u64> {
        let dead = self.dead.0.lock().unwrap();
        let version = self.tree.current_version();
        let is_dead = |file: &&Table| {
            let range = &file.metadata.key_range;
            (range.min()[0]..=range.max()[0]).all(|table| dead.contains(&table))
        };
        version.iter_tables().filter(is_dead).map(Table::id).collect()
    }

    /// What is read at every number that may still be read at.
    fn check(&self) -> lsm_tree::Result<()> {
        for (number, model) in &self.readable {
            let rows = self.rows(*number, model)?;
            assert!(rows == model.rows, "at {number}: {} rows, not {}", shown(&rows), shown(&model.rows));
            for key in (0..30u8).map(|key| [key / 5, key % 5]).filter(|key| !model.dead.contains(&key[0])) {
                let value = self.tree.get(key, *number)?;
                assert_eq!(value.as_deref(), model.rows.get(&key[..]).map(Vec::as_slice), "{key:?} at {number}");
            }
        }
        Ok(())
    }

    /// Without those of dead tables.
    fn rows(&self, number: u64, model: &Model) -> lsm_tree::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let rows = self.tree.iter(number, None).map(|guard| guard.into_inner());
        let rows = rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())));
        rows.filter(|row| row.as_ref().map_or(true, |(key, _)| !model.dead.contains(&key[0]))).collect()
    }
}

fn shown(rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> String {
    let row = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        format!("{key:?}: {:?}", String::from_utf8_lossy(&value[..value.len().min(9)]))
    };
    rows.iter().map(row).collect::<Vec<_>>().join(", ")
}

/// Carries out the steps from `from` on. A step that meets an error is told to `failed`; the tree is opened again, and
/// it is tried again, as the store does it once there is room.
fn run(
    folder: &Path,
    script: &Script,
    from: usize,
    mut done: impl FnMut(usize),
    mut failed: impl FnMut(usize, &Error),
) {
    let mut opened: Option<Opened> = None;
    let mut failures = 0;
    let mut at = from;
    while let Some(step) = script.steps.get(at) {
        let (before, after) = (&script.states[at], &script.states[at + 1]);
        let result = match opened.take() {
            None => Opened::open(folder, before).and_then(|now| {
                now.check()?;
                opened = Some(now);
                Ok(())
            }),
            Some(_) if matches!(step, Step::Reopen) => {
                at += 1;
                done(at);
                continue;
            }
            Some(mut now) => {
                let taken = now.take(step, after);
                if taken.is_ok() {
                    at += 1;
                    done(at);
                }
                let result = now.check().and(taken);
                opened = result.is_ok().then_some(now);
                result
            }
        };
        if let Err(error) = result {
            failures += 1;
            assert!(failures < 4, "step {at}: {error:?}");
            failed(at, &error);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_tree_that_is_ingested_into_merged_dropped_and_reopened_is_a_map(
        actions in proptest::collection::vec((any::<u8>(), any::<u64>()), 1..60),
    ) {
        let folder = without_a_disk();
        let script = Script::of(&actions);
        let never = |step: usize, error: &Error| panic!("step {step}: {error:?}");
        run(folder.path(), &script, 0, |_| {}, never);
        // Whatever the last steps were, it is whole, and rows of dropped tables go with the next merge of all.
        let last = script.states.last().unwrap();
        let mut opened = Opened::open(folder.path(), last).unwrap();
        opened.check().unwrap();
        opened.take(&Step::MergeAll, last).unwrap();
        opened.check().unwrap();
        prop_assert_eq!(opened.tree.len(u64::MAX, None).unwrap(), last.rows.len());
    }
}

const FOLDER: &str = "TREE_FAULTS_FOLDER";
const SEED: &str = "TREE_FAULTS_SEED";
/// Beside the traced folder.
const NOTES: &str = "notes";
/// How the child ends: with its script at the end, and after a failed sync, as nothing is synced again.
const ENDED: i32 = 33;
const SYNC_FAILED: i32 = 35;

/// Run by the next test under the power-cut shim.
#[test]
#[ignore = "needs a folder"]
fn child_that_follows_a_script() {
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    let script = Script::of_seed(std::env::var(SEED).unwrap().parse().unwrap());
    let notes = File::options().append(true).create(true).open(folder.join(NOTES)).unwrap();
    let note = |text: String| (&notes).write_all(text.as_bytes()).unwrap();
    let failed = |step: usize, error: &Error| {
        let is_sync = is_failed_sync(error);
        note(format!("{} {step} {error:?}\n", if is_sync { "sync" } else { "error" }));
        if is_sync {
            std::process::exit(SYNC_FAILED);
        }
    };
    run(&folder.join("disk/tree"), &script, 0, |step| note(format!("done {step}\n")), failed);
    std::process::exit(ENDED);
}

fn is_failed_sync(error: &Error) -> bool {
    match error {
        Error::Io(error) => SyncFailed::is_in(error),
        Error::InTable(_, error) => is_failed_sync(error),
        _ => false,
    }
}

/// A script that was run under a plan.
struct Ran {
    power: PowerCut,
    status: ExitStatus,
    /// Steps that have ended.
    done: usize,
    /// Errors met, as the child noted them.
    errors: Vec<String>,
}

/// `child`: the test of this module that the plan meets. `skipped`: syncs that are left out and reported as done.
fn under(folder: &Path, child: &str, seed: u64, plan: &str, skipped: &str) -> Ran {
    fs::create_dir_all(folder.join("disk/tree")).unwrap();
    let mut power = PowerCut::new(folder);
    power.plan(plan);
    power.skip_syncs(skipped);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("tree_faults::{child}"), "--exact", "--ignored", "--nocapture"]);
    command.env(FOLDER, folder).env(SEED, seed.to_string());
    power.trace(&mut command);
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
    let status = output.status;
    let notes = fs::read_to_string(folder.join(NOTES)).unwrap_or_default();
    assert!(
        status.signal() == Some(9) || matches!(status.code(), Some(ENDED | SYNC_FAILED)),
        "seed {seed}, {plan}: {status}\n{notes}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (done, errors): (Vec<_>, Vec<_>) = notes.lines().map(str::to_owned).partition(|line| line.starts_with("done "));
    let done = done.last().map_or(0, |line| line["done ".len()..].parse().unwrap());
    Ran { power, status, done, errors }
}

impl Ran {
    /// Cuts the power, opens what is left and goes on to the script's end.
    fn recovers(&self, script: &Script, seed: Option<u64>, what: &str) {
        let cut = seed.map_or_else(|| self.power.cut_strictly(), |seed| self.power.cut(seed));
        let folder = self.power.disk().join("tree");
        let states = &script.states[self.done..script.states.len().min(self.done + 2)];
        let is = |state: &Model| {
            let opened = Opened::open(&folder, state).unwrap_or_else(|error| panic!("{what}: {error:?}\n{cut}"));
            opened.rows(u64::MAX, state).unwrap() == state.rows
        };
        assert!(states.iter().any(is), "{what}: neither the state after step {} nor the next\n{cut}", self.done);
        let never = |step: usize, error: &Error| panic!("{what}, again at step {step}: {error:?}");
        // A step that was in progress is carried out again, whether it is there or not.
        if states.first().is_some_and(is) {
            run(&folder, script, self.done, |_| {}, never);
        } else {
            run(&folder, script, self.done + 1, |_| {}, never);
        }
    }
}

/// Every write and sync fails once, and is once where the process dies; all that is opened cannot be opened once. The
/// long form has more scripts, and the process dies at every change of a name too.
#[test]
fn a_fault_at_any_write_or_sync_leaves_a_state_that_was() {
    let soak = std::env::var("SLIPSTREAM_TEST_LENGTH").is_ok_and(|length| length == "soak");
    let folder = without_a_disk();
    let faults = ["write:N:ENOSPC", "sync:N:EIO", "open:N:EIO", "write:N:kill", "sync:N:kill"];
    let more = ["sync:N:ENOSPC", "name:N:kill"];
    let (seeds, more) = if soak { (0..20, &more[..]) } else { (0..1, &more[..0]) };
    let faults = [&faults, more].concat();
    for (seed, fault) in seeds.flat_map(|seed| faults.iter().map(move |fault| (seed, *fault))) {
        let script = Script::of_seed(seed);
        let until = (1..).find(|number| !meets(&folder.path().join("run"), &script, seed, fault, *number)).unwrap();
        println!("seed {seed}, {fault}: {} faults", until - 1);
        assert!(until > 40, "seed {seed}, {fault}: {until} calls show little");
    }
}

/// Nothing waits for a disk where there is a folder in memory: what a power cut leaves is computed.
fn without_a_disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Runs the script with its fault at one call, and checks what became of it; false if there are fewer such calls.
fn meets(folder: &Path, script: &Script, seed: u64, fault: &str, number: u64) -> bool {
    let plan = fault.replace(":N:", &format!(":{number}:"));
    let what = format!("seed {seed}, {plan}");
    let ran = under(folder, "child_that_follows_a_script", seed, &plan, "");
    let meets = match fault.split_once(":N:").unwrap() {
        (_, "kill") => ran.status.signal() == Some(9),
        ("sync", _) => ran.status.code() == Some(SYNC_FAILED),
        // What could not be opened to be synced is not synced.
        _ => !ran.errors.is_empty(),
    };
    if fault == "write:N:ENOSPC" {
        assert_eq!(ran.status.code(), Some(ENDED), "{what}: no sync failed: {:?}", ran.errors);
        assert!(ran.errors.iter().all(|error| error.contains("StorageFull")), "{what}: {:?}", ran.errors);
    }
    if !meets {
        let ended = (ran.status.code(), ran.done, ran.errors.len());
        assert_eq!(ended, (Some(ENDED), script.steps.len(), 0), "{what}: a fault was not told: {:?}", ran.errors);
    }
    ran.recovers(script, Some(number).filter(|number| number % 2 == 0), &what);
    fs::remove_dir_all(folder).unwrap();
    meets
}

/// Planted: what a sync should have made durable is not, and the check sees it.
#[test]
fn a_sync_that_is_left_out_is_noticed() {
    let (folder, script) = (without_a_disk(), Script::of_seed(0));
    for (number, skipped) in ["tree/tables/*", "tree/tables/", "tree/v*", "tree/"].into_iter().enumerate() {
        let ran = under(&folder.path().join(number.to_string()), "child_that_follows_a_script", 0, "", skipped);
        assert_eq!((ran.status.code(), ran.done), (Some(ENDED), script.steps.len()));
        let recovers = catch_unwind(AssertUnwindSafe(|| ran.recovers(&script, None, "planted")));
        assert!(recovers.is_err(), "no sync of {skipped}, and nothing is lost");
    }
}

/// Run by the next test under the power-cut shim.
#[test]
#[ignore = "needs a folder"]
fn child_that_writes_a_large_file() {
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    let opened = Opened::open(&folder.join("disk/tree"), &Model::default()).unwrap();
    let mut ingestion = opened.tree.ingestion().unwrap();
    for row in 0..LARGE_ROWS {
        ingestion.write(row.to_be_bytes(), vec![7; 10_000]).unwrap();
    }
    ingestion.finish().unwrap();
    assert_eq!(opened.tree.len(u64::MAX, None).unwrap(), LARGE_ROWS as usize);
    std::process::exit(ENDED);
}

/// 14 MB.
const LARGE_ROWS: u32 = 1400;

/// Of a large file every 4 MiB are written as soon as they are there, not all at its sync. That they cannot be is the
/// sync's to tell.
#[test]
fn a_large_file_is_written_early() {
    const MIB: u64 = 1 << 20;
    let folder = without_a_disk();
    let under = |plan: &str| {
        let ran = under(&folder.path().join(plan.replace(':', "-")), "child_that_writes_a_large_file", 0, plan, "");
        let files = fs::read_dir(ran.power.disk().join("tree/tables")).unwrap();
        let len: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        (ran.status.signal(), len)
    };
    for number in 1..=3 {
        let (signal, len) = under(&format!("advice:{number}:kill"));
        assert_eq!(signal, Some(9), "advice {number}");
        let expected = 4 * MIB * number..4 * MIB * number + MIB / 2;
        assert!(expected.contains(&len), "advice {number} at {len} bytes");
    }
    for ends in ["advice:4:kill", "advice:1+:EIO"] {
        let (signal, len) = under(ends);
        assert!(signal.is_none() && len > 13 * MIB, "{ends}: {signal:?}, {len} bytes");
    }
}
