//! Stacks of a running server's threads, as `perf` samples them, folded.
//!
//! In: a process. Out: stacks with the number of samples of each, by thread; text that flame graph programs read; a
//! picture by inferno's own program, if it is installed. Never here: a hardware counter (the software clock is what
//! virtual machines have), a program that is not on PATH.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::servers::Running;

/// Samples a second: no multiple of any timer's.
const HZ: &str = "99";
/// Bytes of each stack that are kept for unwinding by DWARF.
const UNWIND: &str = "dwarf,16384";

/// A stack and how often it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    /// Name of the thread.
    pub thread: String,
    /// Functions, the outermost first.
    pub frames: Vec<String>,
    pub samples: u64,
}

/// A running `perf record`; killed on drop.
pub(crate) struct Sampling {
    perf: Running,
    data: PathBuf,
    told: PathBuf,
}

impl Sampling {
    /// Begins to sample all threads of a process, those included that it starts later.
    ///
    /// # Errors
    /// `perf` cannot be run.
    pub(crate) fn begin(pid: u32, folder: &Path) -> Result<Sampling> {
        let (data, told) = (folder.join("perf.data"), folder.join("perf.err"));
        let mut command = Command::new("perf");
        command.args(["record", "-e", "cpu-clock", "-F", HZ, "--call-graph", UNWIND, "-p", &pid.to_string(), "-o"]);
        command.arg(&data).stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&told)?);
        let perf = Running::start(&mut command, "perf")?;
        Ok(Sampling { perf, data, told })
    }

    /// Ends it and folds what it saw.
    ///
    /// # Errors
    /// `perf` failed, or `stop` is raised.
    pub(crate) fn end(self, stop: &AtomicBool) -> Result<Vec<Stack>> {
        let Sampling { mut perf, data, told } = self;
        let said = || std::fs::read_to_string(&told).unwrap_or_default().trim().to_owned();
        ensure!(perf.ended()?.is_none(), "perf ended by itself: {}", said());
        let pid = i32::try_from(perf.pid()).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, Signal::INT)?;
        perf.wait(stop)?;
        ensure!(data.is_file(), "perf wrote nothing: {}", said());
        let text = data.with_extension("script");
        let mut command = Command::new("perf");
        command.args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"]).arg(&data);
        command.stdin(Stdio::null()).stdout(File::create(&text)?).stderr(File::create(&told)?);
        let status = Running::start(&mut command, "perf script")?.wait(stop)?;
        ensure!(status.success(), "perf script failed ({status}): {}", said());
        let stacks = fold(&std::fs::read_to_string(&text)?);
        for file in [data, text] {
            std::fs::remove_file(file)?;
        }
        ensure!(!stacks.is_empty(), "perf saw no stack: {}", said());
        Ok(stacks)
    }
}

/// Folds the output of `perf script -F comm,ip,sym`.
fn fold(script: &str) -> Vec<Stack> {
    let mut counts: BTreeMap<(String, Vec<String>), u64> = BTreeMap::new();
    for sample in script.split("\n\n") {
        let mut lines = sample.lines().skip_while(|line| line.trim().is_empty());
        let Some(thread) = lines.next().map(str::trim) else { continue };
        // An address and a name, the innermost first.
        let name = |line: &str| line.trim().split_once(' ').map(|(_, name)| name.trim().to_owned());
        let mut frames: Vec<String> = lines.filter_map(name).collect();
        frames.reverse();
        if !frames.is_empty() {
            *counts.entry((thread.to_owned(), frames)).or_default() += 1;
        }
    }
    counts.into_iter().map(|((thread, frames), samples)| Stack { thread, frames, samples }).collect()
}

/// One line a stack, as flame graph programs read it.
pub(crate) fn folded(stacks: &[Stack]) -> String {
    let line = |stack: &Stack| {
        let names = [&stack.thread].into_iter().chain(&stack.frames).map(|name| name.replace(';', ":"));
        format!("{} {}\n", names.collect::<Vec<_>>().join(";"), stack.samples)
    };
    stacks.iter().map(line).collect()
}

/// Part of the samples of these threads in which a function is on the stack, 0 to 1.
pub(crate) fn share(stacks: &[Stack], thread: impl Fn(&str) -> bool, is_it: impl Fn(&str) -> bool) -> f64 {
    let of_threads = || stacks.iter().filter(|stack| thread(&stack.thread));
    let all: u64 = of_threads().map(|stack| stack.samples).sum();
    let with = of_threads().filter(|stack| stack.frames.iter().any(|frame| is_it(frame)));
    with.map(|stack| stack.samples).sum::<u64>() as f64 / all.max(1) as f64
}

/// The picture of folded stacks by inferno's program; None if it is not installed, or fails.
pub(crate) fn drawn(folded: &str, title: &str) -> Option<String> {
    let mut command = Command::new("inferno-flamegraph");
    command.args(["--title", title]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let (mut input, text) = (child.stdin.take()?, folded.to_owned());
    let writing = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().ok()?;
    writing.join().ok()?.ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "rpl_rca_sql-0 \n\t   55d2 binlog_event_deserialize(unsigned char const*, unsigned int)\n\t   \
                          55d1 exec_relay_log_event(THD*)\n\n\
                          rpl_rca_sql-0 \n\t   55d2 binlog_event_deserialize(unsigned char const*, unsigned int)\n\t   \
                          55d1 exec_relay_log_event(THD*)\n\n\
                          rpl_rca_sql-0 \n\t   7f01 malloc\n\t   55d2 my_malloc\n\t   55d1 exec_relay_log_event(THD*)\n\n\
                          rpl_rca_wkr-0 \n\t   7f01 [unknown]\n\n";

    #[test]
    fn samples_are_folded_by_thread_with_the_outermost_first() {
        let stacks = fold(SCRIPT);
        assert_eq!(stacks.iter().map(|stack| stack.samples).sum::<u64>(), 4);
        let text = folded(&stacks);
        let wanted =
            "rpl_rca_sql-0;exec_relay_log_event(THD*);binlog_event_deserialize(unsigned char const*, unsigned int) 2";
        assert!(text.lines().any(|line| line == wanted), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn shares_are_of_the_threads_asked_for() {
        let stacks = fold(SCRIPT);
        let of = |thread: &str, name: &str| share(&stacks, |one| one.starts_with(thread), |frame| frame.contains(name));
        assert!((of("rpl_rca_sql", "binlog_event_deserialize") - 2.0 / 3.0).abs() < 1e-9);
        assert!((of("rpl_rca_sql", "malloc") - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!((of("rpl_rca_wkr", "malloc"), of("nobody", "malloc")), (0.0, 0.0));
        assert!(fold("").is_empty());
    }
}
