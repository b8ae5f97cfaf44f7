//! Runs the workspace's tests, several processes at once where there are cores for it.
//!
//! In: arguments for `cargo test`, and after `--` those of each test program. Out: what each process printed, whole and
//! once it has ended; wall and CPU seconds of processes, the longest processes and tests; what failed once more, in
//! short; how many tests passed, failed and were skipped; exit code 1 if one failed, naming each process. One that runs
//! longer than its limit is killed and has failed: one that hangs hides nothing of the others. Never here: which tests
//! there are.
//!
//! SLIPSTREAM_TESTS_DONE names a file that keeps which processes passed at a commit without changes: a run that was cut
//! short goes on where it was.
//!
//! `--again N` runs each process N times: `run_tests --workspace --locked --again 30 -- fail_over`. Tests in
//! `tests/quarantine.md` are left out and count as skipped, unless SLIPSTREAM_TEST_LENGTH is `night` or `soak`.
//!
//! A crate's unit tests are one process. Of its tests from outside each module is one: what a test does to its process,
//! or reads of it, meets only those beside which it stands.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::Value;

/// How long one program may run. The longest takes three minutes on two cores.
const LIMIT: Duration = Duration::from_secs(1_200);

/// Time between two lines about programs that still run.
const NEWS: Duration = Duration::from_secs(120);

/// What is told again of a process that failed: of so many of its tests, so many lines, so many characters of each.
const FAILURES_TOLD: usize = 8;
const LINES_TOLD: usize = 12;
const LINE_CHARACTERS_TOLD: usize = 600;

/// Tests that failed without a cause found, from the workspace's root.
const QUARANTINE: &str = "tests/quarantine.md";

type AnyError = Box<dyn std::error::Error>;

/// A process: a crate's unit tests, or a module of its tests from outside.
struct Job {
    name: String,
    command: Command,
}

/// The run's jobs.
struct Built {
    jobs: Vec<Job>,
    /// Where the test programs lie.
    folder: PathBuf,
    /// Tests that are left out.
    quarantined: u64,
}

/// What has become of the jobs.
#[derive(Default)]
struct State {
    /// Taken from the back.
    waiting: Vec<Job>,
    running: Vec<(String, Instant)>,
    ended: Vec<Ended>,
}

struct Ended {
    name: String,
    seconds: f64,
    cpu_seconds: f64,
    passed: bool,
    counts: Counts,
    /// Tests with their seconds.
    tests: Vec<(String, f64)>,
    /// Why it failed, in short.
    failures: String,
}

/// What a program did.
struct Ran {
    passed: bool,
    printed: Vec<u8>,
    /// Tests that said that they prove nothing here (`testkit::skipped`).
    skipped: u64,
    /// Its CPU time with that of processes it has waited for, in seconds.
    cpu_seconds: f64,
}

/// Tests by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    /// Ignored, or ended early because something that they need is missing here.
    skipped: u64,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let of_cargo: Vec<String> = arguments.by_ref().take_while(|argument| argument != "--").collect();
    let run = times(of_cargo).and_then(|(of_cargo, times)| run(&of_cargo, &arguments.collect::<Vec<_>>(), times));
    match run {
        Ok(failed) if failed.is_empty() => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("run_tests: {} failed: {}", failed.len(), failed.join(", "));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("run_tests: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The arguments without `--again N`, and how many times each process runs.
fn times(mut of_cargo: Vec<String>) -> Result<(Vec<String>, u32), AnyError> {
    let Some(at) = of_cargo.iter().position(|argument| argument == "--again") else { return Ok((of_cargo, 1)) };
    let number = of_cargo.get(at + 1).and_then(|number| number.parse().ok()).filter(|number| *number > 0);
    let number = number.ok_or("--again needs a number of at least 1")?;
    of_cargo.drain(at..at + 2);
    Ok((of_cargo, number))
}

/// Names of the programs that failed.
fn run(of_cargo: &[String], of_tests: &[String], times: u32) -> Result<Vec<String>, AnyError> {
    let Built { jobs: mut waiting, folder, quarantined } = built(of_cargo, of_tests, times)?;
    let done = Done::open()?;
    if let Some(done) = &done {
        let all = waiting.len();
        waiting.retain(|job| !done.has(&job.name));
        println!("run_tests: {} processes passed before, at {}", all - waiting.len(), done.commit);
    }
    let kept = folder.join("test-seconds.json");
    let mut seconds: HashMap<String, f64> =
        std::fs::read(&kept).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    // The longest first, those that never ran before them: what is left at the end is short.
    waiting.sort_by(|a, b| {
        let of = |job: &Job| seconds.get(&job.name).copied().unwrap_or(f64::INFINITY);
        of(a).total_cmp(&of(b)).then(b.name.cmp(&a.name))
    });
    let at_once = at_once(std::env::var("SLIPSTREAM_TESTS_AT_ONCE").ok().as_deref())?;
    let all = waiting.len();
    println!("run_tests: {all} processes, {at_once} at once");

    let (started, output) = (Instant::now(), folder.join("test-output"));
    std::fs::create_dir_all(&output)?;
    let (state, ends) = (Mutex::new(State { waiting, ..State::default() }), Condvar::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(mut job) = taken(&state) {
                    let since = Instant::now();
                    let ran = one(&mut job, &output, LIMIT).unwrap_or_else(|error| Ran {
                        passed: false,
                        printed: format!("{error}\n").into_bytes(),
                        skipped: 0,
                        cpu_seconds: 0.0,
                    });
                    let ended = ended(job.name, since.elapsed(), &ran);
                    print(&ended, &ran.printed);
                    if let Some(done) = done.as_ref().filter(|_| ended.passed)
                        && let Err(error) = done.add(&ended.name)
                    {
                        println!("run_tests: {}: {error}", done.file.display());
                    }
                    let mut state = locked(&state);
                    state.running.retain(|(name, _)| *name != ended.name);
                    state.ended.push(ended);
                    ends.notify_all();
                }
            });
        }
        let mut told = Instant::now();
        let mut state = locked(&state);
        while state.ended.len() < all {
            state = ends.wait_timeout(state, NEWS).unwrap_or_else(PoisonError::into_inner).0;
            if told.elapsed() >= NEWS {
                told = Instant::now();
                let now = |(name, since): &(String, Instant)| format!("{name} ({} s)", since.elapsed().as_secs());
                let running = state.running.iter().map(now).collect::<Vec<_>>();
                println!("run_tests: {} s, running: {}", started.elapsed().as_secs(), running.join(", "));
            }
        }
    });

    let mut ended = state.into_inner().unwrap_or_else(PoisonError::into_inner).ended;
    ended.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let sum: f64 = ended.iter().map(|job| job.seconds).sum();
    let cpu: f64 = ended.iter().map(|job| job.cpu_seconds).sum();
    println!(
        "\nrun_tests: {} s, {sum:.0} s one after the other, {cpu:.0} s of CPU; the longest:",
        started.elapsed().as_secs()
    );
    for job in ended.iter().take(12) {
        println!("{:8.1} s  {:8.1} s of CPU  {}", job.seconds, job.cpu_seconds, job.name);
    }
    let mut tests: Vec<_> = ended.iter().flat_map(|job| job.tests.iter().map(move |test| (job, test))).collect();
    tests.sort_by(|(_, (_, a)), (_, (_, b))| b.total_cmp(a));
    println!("run_tests: the longest tests:");
    for (job, (test, seconds)) in tests.iter().take(25) {
        println!("{seconds:8.1} s  {} {test}", job.name);
    }
    for job in ended.iter().filter(|job| !job.passed) {
        println!("run_tests: FAILED {}\n{}", job.name, job.failures);
    }
    let counts = ended.iter().fold(Counts::default(), |sum, job| Counts {
        passed: sum.passed + job.counts.passed,
        failed: sum.failed + job.counts.failed,
        skipped: sum.skipped + job.counts.skipped,
    });
    if quarantined > 0 {
        println!("run_tests: {quarantined} in quarantine (tests/quarantine.md), and skipped");
    }
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped + quarantined);
    let failed = ended.iter().filter(|job| !job.passed).map(|job| job.name.clone()).collect();
    seconds.extend(ended.into_iter().map(|job| (job.name, job.seconds)));
    std::fs::write(kept, serde_json::to_vec(&seconds)?)?;
    Ok(failed)
}

/// What passed before, in a file of lines `COMMIT NAME`.
struct Done {
    file: PathBuf,
    commit: String,
    passed: Vec<String>,
}

impl Done {
    /// None if no file is named.
    fn open() -> Result<Option<Done>, AnyError> {
        let Some(file) = std::env::var_os("SLIPSTREAM_TESTS_DONE").map(PathBuf::from) else { return Ok(None) };
        let git = |arguments: &[&str]| -> Result<String, AnyError> {
            Ok(String::from_utf8(Command::new("git").args(arguments).output()?.stdout)?.trim().to_owned())
        };
        if !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty() {
            return Err("SLIPSTREAM_TESTS_DONE: there are changes that no commit has".into());
        }
        let commit = git(&["rev-parse", "HEAD"])?;
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("{}: {error}", file.display()).into()),
        };
        let of_commit = |line: &str| line.strip_prefix(&commit).map(|name| name.trim().to_owned());
        let passed = text.lines().filter_map(of_commit).collect();
        Ok(Some(Done { file, commit, passed }))
    }

    fn has(&self, name: &str) -> bool {
        self.passed.iter().any(|passed| passed == name)
    }

    fn add(&self, name: &str) -> std::io::Result<()> {
        let mut file = File::options().create(true).append(true).open(&self.file)?;
        file.write_all(format!("{} {name}\n", self.commit).as_bytes())
    }
}

/// Number of programs at once: as asked for, or one for each two cores, since each runs two tests and their servers,
/// and two more: on two cores, two programs left half of the time unused (1,000 s of CPU in 1,079 s), by waits for
/// disks, servers that start and periods.
fn at_once(asked: Option<&str>) -> Result<usize, AnyError> {
    match asked {
        Some(text) => match text.parse() {
            Ok(number @ 1..=64) => Ok(number),
            _ => Err(format!("SLIPSTREAM_TESTS_AT_ONCE={text} is no number from 1 to 64").into()),
        },
        None => Ok(std::thread::available_parallelism().map_or(1, |cores| match cores.get() {
            1 => 1,
            cores => (cores / 2 + 2).clamp(3, 8),
        })),
    }
}

fn taken(state: &Mutex<State>) -> Option<Job> {
    let mut state = locked(state);
    let job = state.waiting.pop()?;
    state.running.push((job.name.clone(), Instant::now()));
    Some(job)
}

/// Nothing of another program stands in between.
fn print(Ended { name, seconds, cpu_seconds, passed, .. }: &Ended, printed: &[u8]) {
    let mut out = std::io::stdout().lock();
    let verdict = if *passed { "ok" } else { "FAILED" };
    let _ = writeln!(out, "\n     Running {name}");
    let _ = out.write_all(printed);
    let _ = writeln!(out, "     {verdict} after {seconds:.1} s, {cpu_seconds:.1} s of CPU: {name}");
    let _ = out.flush();
}

/// What a program's output says of its tests, as libtest prints them.
fn ended(name: String, took: Duration, ran: &Ran) -> Ended {
    let printed = String::from_utf8_lossy(&ran.printed);
    let (mut counts, mut tests) = (Counts::default(), Vec::new());
    for line in printed.lines() {
        if let Some(result) = line.strip_prefix("test result: ") {
            for part in result.split(['.', ';']) {
                let Some((number, what)) = part.trim().split_once(' ') else { continue };
                let Ok(number) = number.parse::<u64>() else { continue };
                match what {
                    "passed" => counts.passed += number,
                    "failed" => counts.failed += number,
                    "ignored" => counts.skipped += number,
                    _ => {}
                }
            }
        } else if let Some((test, seconds)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) {
            let seconds = seconds.split_once('<').and_then(|(_, rest)| rest.strip_suffix("s>")?.parse().ok());
            tests.extend(seconds.map(|seconds| (test.to_owned(), seconds)));
        }
    }
    let skipped = ran.skipped.min(counts.passed);
    (counts.passed, counts.skipped) = (counts.passed - skipped, counts.skipped + skipped);
    // One that was killed or died has counted nothing.
    if !ran.passed && counts.failed == 0 {
        counts.failed = 1;
    }
    let (seconds, cpu_seconds) = (took.as_secs_f64(), ran.cpu_seconds);
    let failures = if ran.passed { String::new() } else { in_short(&printed) };
    Ended { name, seconds, cpu_seconds, passed: ran.passed, counts, tests, failures }
}

/// The first lines that each failed test printed behind its panic; of a process that tells of none its last lines.
fn in_short(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().collect();
    let is_panic = |line: &str| line.starts_with("thread '") && line.contains("panicked at");
    let panics = lines.iter().enumerate().filter(|(_, line)| is_panic(line)).map(|(at, _)| at);
    let mut kept = Vec::new();
    for at in panics.take(FAILURES_TOLD) {
        let behind = lines.iter().skip(at).take(LINES_TOLD);
        kept.extend(behind.take_while(|line| !line.starts_with("stack backtrace:")));
    }
    if kept.is_empty() {
        kept.extend(lines.iter().skip(lines.len().saturating_sub(LINES_TOLD)));
    }
    let short = |line: &&str| line.chars().take(LINE_CHARACTERS_TOLD).chain(['\n']).collect::<String>();
    kept.into_iter().map(short).collect()
}

/// Builds all test programs, each to run in its package's folder as cargo runs it; and the folder they lie in.
fn built(of_cargo: &[String], of_tests: &[String], times: u32) -> Result<Built, AnyError> {
    let mut child = cargo(of_cargo)
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut text = String::new();
    child.stdout.take().ok_or("no output of cargo")?.read_to_string(&mut text)?;
    if !child.wait()?.success() {
        return Err("the tests were not built".into());
    }
    let (mut jobs, mut folder, mut quarantined) = (Vec::new(), None, 0);
    let in_quarantine = in_quarantine()?;
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line)?;
        let word = |pointer| message.pointer(pointer).and_then(Value::as_str);
        if message["profile"]["test"] != true {
            continue;
        }
        if let (Some(program), Some(manifest), Some(source)) =
            (word("/executable"), word("/manifest_path"), word("/target/src_path"))
        {
            let at = Path::new(manifest).parent().ok_or("a manifest in no folder")?;
            let package = at.file_name().unwrap_or_default().to_string_lossy();
            let source = Path::new(source);
            // Times of single tests are not stable in libtest.
            let run = |tests: &[String]| {
                let mut command = Command::new(program);
                command.args(tests).args(of_tests).args(["-Zunstable-options", "--report-time"]);
                command.env("RUSTC_BOOTSTRAP", "1").current_dir(at);
                command
            };
            let from_outside = message.pointer("/target/kind/0").and_then(Value::as_str) == Some("test");
            for (module, mut tests) in if from_outside { modules(program, of_tests)? } else { BTreeMap::new() } {
                let all = tests.len();
                tests.retain(|test| !in_quarantine.contains(test));
                quarantined += (all - tests.len()) as u64;
                if tests.is_empty() {
                    continue;
                }
                let file = module.map_or_else(|| source.to_owned(), |module| source.with_file_name(module + ".rs"));
                let name = format!("{package}: {}", file.strip_prefix(at).unwrap_or(&file).display());
                let exact = [&["--exact".to_owned()][..], &tests].concat();
                jobs.extend((0..times).map(|time| Job { name: named(&name, time), command: run(&exact) }));
            }
            if !from_outside {
                let name = format!("{package}: {}", source.strip_prefix(at)?.display());
                jobs.extend((0..times).map(|time| Job { name: named(&name, time), command: run(&[]) }));
            }
            folder = Path::new(program).ancestors().nth(2).map(Path::to_owned);
        }
    }
    Ok(Built { jobs, folder: folder.ok_or("no test programs")?, quarantined })
}

fn named(name: &str, time: u32) -> String {
    if time == 0 { name.to_owned() } else { format!("{name} #{}", time + 1) }
}

/// Tests that this run leaves out, as libtest names them; none in the long forms.
fn in_quarantine() -> Result<Vec<String>, AnyError> {
    if matches!(std::env::var("SLIPSTREAM_TEST_LENGTH").as_deref(), Ok("night" | "soak")) {
        return Ok(Vec::new());
    }
    Ok(listed(&std::fs::read_to_string(QUARANTINE).map_err(|error| format!("{QUARANTINE}: {error}"))?))
}

/// The second cells of a table's rows that begin with a date.
fn listed(table: &str) -> Vec<String> {
    let rows = table.lines().filter(|line| line.starts_with("| 2"));
    rows.filter_map(|row| row.split('|').nth(2)).map(|test| test.trim().to_owned()).collect()
}

/// The tests of a program by module; those in none are under `None`.
fn modules(program: &str, of_tests: &[String]) -> Result<BTreeMap<Option<String>, Vec<String>>, AnyError> {
    let listed = Command::new(program).args(of_tests).args(["--list", "--format=terse"]).output()?;
    if !listed.status.success() {
        return Err(format!("{program} --list: {}", String::from_utf8_lossy(&listed.stderr)).into());
    }
    let mut modules = BTreeMap::<_, Vec<_>>::new();
    for test in String::from_utf8(listed.stdout)?.lines().filter_map(|line| line.strip_suffix(": test")) {
        let module = test.split_once("::").map(|(module, _)| module.to_owned());
        modules.entry(module).or_default().push(test.to_owned());
    }
    Ok(modules)
}

fn cargo(arguments: &[String]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg("test").args(arguments);
    command
}

/// Runs it; what it prints goes to a file in this folder too, where one who waits can read it.
fn one(job: &mut Job, folder: &Path, limit: Duration) -> Result<Ran, AnyError> {
    let file = folder.join(job.name.replace(['/', ':', ' '], "-"));
    let out = File::create(&file)?;
    let skips = file.with_extension("skipped");
    drop(std::fs::remove_file(&skips));
    job.command.env("SLIPSTREAM_TESTS_SKIPPED", &skips);
    let mut child = job.command.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out).spawn()?;
    let started = Instant::now();
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or("a process without a number")?;
    // It is looked at before it is waited for: its CPU time is told until then.
    let ends = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let mut killed = false;
    while waitid(WaitId::Pid(pid), ends)?.is_none() {
        if started.elapsed() > limit && !killed {
            killed = true;
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let cpu_seconds = cpu_seconds(child.id()).unwrap_or_default();
    let status = child.wait()?;
    let mut printed = std::fs::read(&file)?;
    if killed {
        printed.extend(format!("killed: it ran longer than {} s\n", limit.as_secs()).bytes());
    }
    let skipped = std::fs::read_to_string(&skips).map_or(0, |lines| lines.lines().count() as u64);
    Ok(Ran { passed: status.success() && !killed, printed, skipped, cpu_seconds })
}

/// CPU seconds of a process and of those that it has waited for (proc(5), stat).
fn cpu_seconds(pid: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = text.rsplit_once(')')?;
    // The state is field 3; user and system time, own and of children, are 14 to 17.
    let ticks: u64 = behind_name.split_whitespace().skip(11).take(4).map_while(|field| field.parse::<u64>().ok()).sum();
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_run_at_once() {
        assert_eq!(at_once(Some("3")).unwrap(), 3);
        assert!(["0", "65", "", "two"].iter().all(|wrong| at_once(Some(wrong)).is_err()));
        assert!((1..=8).contains(&at_once(None).unwrap()));
    }

    #[test]
    fn what_is_repeated_and_left_out() {
        let of = |arguments: &[&str]| times(arguments.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(of(&["--workspace", "--again", "30", "--locked"]).unwrap().1, 30);
        assert_eq!(of(&["--workspace", "--again", "30", "--locked"]).unwrap().0, ["--workspace", "--locked"]);
        assert_eq!(of(&["--workspace"]).unwrap().1, 1);
        assert!(of(&["--again"]).is_err() && of(&["--again", "0"]).is_err() && of(&["--again", "x"]).is_err());
        assert_eq!(["a: b.rs", "a: b.rs #3"], [named("a: b.rs", 0), named("a: b.rs", 2)]);
        let table = "| Date | Test | Log |\n|---|---|---|\n| 2026-11-30 | relay::held | x.log |\n";
        assert_eq!(listed(table), ["relay::held"]);
    }

    #[test]
    fn a_program_that_fails_or_hangs_has_failed() {
        let folder = std::env::temp_dir().join(format!("slipstream-run-tests-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let ran = |script: &str, limit| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let ran = one(&mut Job { name: "a: b/c".to_owned(), command }, &folder, limit).unwrap();
            assert_eq!(ran.skipped, 2 * u64::from(script.contains("SKIPPED")));
            (ran.passed, String::from_utf8(ran.printed).unwrap())
        };
        assert!(ran("for why in a b; do echo $why >>$SLIPSTREAM_TESTS_SKIPPED; done", LIMIT).0);
        assert_eq!(ran("echo out; echo err >&2", LIMIT), (true, "out\nerr\n".to_owned()));
        assert_eq!(ran("echo out; exit 101", LIMIT), (false, "out\n".to_owned()));
        let (passed, printed) = ran("echo out; exec sleep 1000", Duration::from_secs(1));
        assert!(!passed && printed.starts_with("out\nkilled: "), "{printed}");
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; true"]);
        let ran = one(&mut Job { name: "busy".to_owned(), command }, &folder, LIMIT).unwrap();
        assert!(ran.passed && ran.cpu_seconds > 0.0, "children count too: {}", ran.cpu_seconds);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_libtest_prints_is_counted() {
        let printed = "running 3 tests\ntest a::b ... ok <1.250s>\ntest c ... FAILED <0.5s>\ntest d ... ignored\n\n\
                       test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 4 filtered out; finished in 1.75s\n";
        let of = |passed, printed: &str| {
            let ran = Ran { passed, printed: printed.into(), skipped: 1, cpu_seconds: 2.0 };
            ended("x".to_owned(), Duration::from_secs(3), &ran)
        };
        let job = of(false, printed);
        assert!(job.failures.ends_with("finished in 1.75s\n"), "{}", job.failures);
        assert_eq!(job.counts, Counts { passed: 0, failed: 1, skipped: 2 });
        assert_eq!(job.tests, [("a::b".to_owned(), 1.25), ("c".to_owned(), 0.5)]);
        assert_eq!(of(false, "killed").counts.failed, 1, "one that died has failed");
        assert_eq!(of(true, "").counts, Counts::default());
        let panicked =
            "---- c stdout ----\nbefore\n\nthread 'c' (7) panicked at tests/x.rs:9:5:\nnot 7\nstack backtrace:\n 0:";
        assert_eq!(of(false, panicked).failures, "thread 'c' (7) panicked at tests/x.rs:9:5:\nnot 7\n");
    }
}
