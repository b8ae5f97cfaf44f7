//! Runs the workspace's tests, several test programs at once where there are cores for it.
//!
//! In: arguments for `cargo test`, and after `--` those of each test program. Out: what each program printed, whole and
//! once it has ended; the longest ones; exit code 1 if one failed, naming each. A program that runs longer than its
//! limit is killed and has failed: one that hangs hides nothing of the others. Never here: which tests there are.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long one program may run. The longest takes three minutes on two cores.
const LIMIT: Duration = Duration::from_secs(1_200);

/// Time between two lines about programs that still run.
const NEWS: Duration = Duration::from_secs(120);

type AnyError = Box<dyn std::error::Error>;

/// A test program, or the documentation's tests.
struct Job {
    name: String,
    command: Command,
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
    passed: bool,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let of_cargo: Vec<String> = arguments.by_ref().take_while(|argument| argument != "--").collect();
    match run(&of_cargo, &arguments.collect::<Vec<_>>()) {
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

/// Names of the programs that failed.
fn run(of_cargo: &[String], of_tests: &[String]) -> Result<Vec<String>, AnyError> {
    let (mut waiting, folder) = built(of_cargo, of_tests)?;
    waiting.push(documentation(of_cargo));
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
    println!("run_tests: {all} programs, {at_once} at once");

    let (started, output) = (Instant::now(), folder.join("test-output"));
    std::fs::create_dir_all(&output)?;
    let (state, ends) = (Mutex::new(State { waiting, ..State::default() }), Condvar::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(mut job) = taken(&state) {
                    let since = Instant::now();
                    let (passed, printed) = one(&mut job, &output, LIMIT)
                        .unwrap_or_else(|error| (false, format!("{error}\n").into_bytes()));
                    print(&job.name, passed, since.elapsed(), &printed);
                    let mut state = locked(&state);
                    state.running.retain(|(name, _)| *name != job.name);
                    state.ended.push(Ended { name: job.name, seconds: since.elapsed().as_secs_f64(), passed });
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
    println!("\nrun_tests: {} s, {sum:.0} s one after the other; the longest:", started.elapsed().as_secs());
    for job in ended.iter().take(12) {
        println!("{:8.1} s  {}", job.seconds, job.name);
    }
    let failed = ended.iter().filter(|job| !job.passed).map(|job| job.name.clone()).collect();
    seconds.extend(ended.into_iter().map(|job| (job.name, job.seconds)));
    std::fs::write(kept, serde_json::to_vec(&seconds)?)?;
    Ok(failed)
}

/// Number of programs at once: as asked for, or one for each two cores, since each runs two tests and their servers.
/// Two cores run two as well: one alone waits for half of its time.
fn at_once(asked: Option<&str>) -> Result<usize, AnyError> {
    match asked {
        Some(text) => match text.parse() {
            Ok(number @ 1..=64) => Ok(number),
            _ => Err(format!("SLIPSTREAM_TESTS_AT_ONCE={text} is no number from 1 to 64").into()),
        },
        None => Ok(std::thread::available_parallelism().map_or(1, |cores| match cores.get() {
            1 => 1,
            cores => (cores / 2).clamp(2, 8),
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
fn print(name: &str, passed: bool, took: Duration, printed: &[u8]) {
    let mut out = std::io::stdout().lock();
    let verdict = if passed { "ok" } else { "FAILED" };
    let _ = writeln!(out, "\n     Running {name}");
    let _ = out.write_all(printed);
    let _ = writeln!(out, "     {verdict} after {:.1} s: {name}", took.as_secs_f64());
    let _ = out.flush();
}

/// Builds all test programs, each to run in its package's folder as cargo runs it; and the folder they lie in.
fn built(of_cargo: &[String], of_tests: &[String]) -> Result<(Vec<Job>, PathBuf), AnyError> {
    let mut child = cargo(of_cargo)
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut text = String::new();
    child.stdout.take().ok_or("no output of cargo")?.read_to_string(&mut text)?;
    if !child.wait()?.success() {
        return Err("the tests were not built".into());
    }
    let (mut jobs, mut folder) = (Vec::new(), None);
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
            let name = format!("{package}: {}", Path::new(source).strip_prefix(at)?.display());
            let mut command = Command::new(program);
            command.args(of_tests).current_dir(at);
            jobs.push(Job { name, command });
            folder = Path::new(program).ancestors().nth(2).map(Path::to_owned);
        }
    }
    Ok((jobs, folder.ok_or("no test programs")?))
}

fn documentation(of_cargo: &[String]) -> Job {
    let mut command = cargo(of_cargo);
    command.arg("--doc");
    Job { name: "documentation".to_owned(), command }
}

fn cargo(arguments: &[String]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg("test").args(arguments);
    command
}

/// True if it passed; what it printed, also to a file in this folder, where one who waits can read it.
fn one(job: &mut Job, folder: &Path, limit: Duration) -> Result<(bool, Vec<u8>), AnyError> {
    let file = folder.join(job.name.replace(['/', ':', ' '], "-"));
    let out = File::create(&file)?;
    let mut child = job.command.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out).spawn()?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let mut printed = std::fs::read(&file)?;
    if status.is_none() {
        printed.extend(format!("killed: it ran longer than {} s\n", limit.as_secs()).bytes());
    }
    Ok((status.is_some_and(|status| status.success()), printed))
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
    fn a_program_that_fails_or_hangs_has_failed() {
        let folder = std::env::temp_dir().join(format!("slipstream-run-tests-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let ran = |script: &str, limit| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let (passed, printed) = one(&mut Job { name: "a: b/c".to_owned(), command }, &folder, limit).unwrap();
            (passed, String::from_utf8(printed).unwrap())
        };
        assert_eq!(ran("echo out; echo err >&2", LIMIT), (true, "out\nerr\n".to_owned()));
        assert_eq!(ran("echo out; exit 101", LIMIT), (false, "out\n".to_owned()));
        let (passed, printed) = ran("echo out; exec sleep 1000", Duration::from_secs(1));
        assert!(!passed && printed.starts_with("out\nkilled: "), "{printed}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
