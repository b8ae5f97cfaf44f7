//! Harness of the whole-program tests: real MySQL servers (testbed/), the real binary, a proxy between them.
//!
//! In: names and options. Out: servers and replicas that end when their value is dropped, or when this process ends,
//! however it ends. Never here: a mock, a hopeful sleep, another's process.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod all_types;
pub mod compare;
pub mod definition_statements;
pub mod definitions;
pub mod differential;
pub mod fail_over;
pub mod hostile;
pub mod load;
pub mod oracle;
pub mod oracle_clients;
pub mod proxy;
pub mod relay;
pub mod replica;
pub mod shop;
pub mod small_disk;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub use compare::{assert_equal, assert_equal_after_drift, assert_equal_at_rest, verify_equal};
pub use definitions::{assert_same_definitions, assert_same_definitions_but_silence, without_counter};
pub use hostile::{HostileSource, Packet};
pub use load::Load;
pub use proxy::Proxy;
pub use replica::{Replica, slipstream, slipstream_with};
pub use shop::under_load;
pub use small_disk::{Ballast, SmallDisk};
pub use testkit::scratch::folder;
pub use testkit::{Group, Ran, Random, Server, all_cases, repository, run_with_input, scratch, share};

/// Deadline of every wait: generous, for busy machines.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// True if the long forms run (SLIPSTREAM_TEST_LENGTH=soak).
#[must_use]
pub fn soak() -> bool {
    std::env::var("SLIPSTREAM_TEST_LENGTH").as_deref() == Ok("soak")
}

/// Returns `short`, or `long` in a soak run.
#[must_use]
pub fn length<T>(short: T, long: T) -> T {
    if soak() { long } else { short }
}

/// The program under test: the one that was built with these tests (they are tests of its package, so that cargo builds
/// both), or the one that SLIPSTREAM_BIN names.
#[must_use]
pub fn binary() -> PathBuf {
    let given = std::env::var_os("SLIPSTREAM_BIN").map(PathBuf::from);
    let path = given.unwrap_or_else(|| {
        // TARGET/debug/deps/this-test
        let test = std::env::current_exe().unwrap();
        test.ancestors().nth(2).unwrap().join("slipstream")
    });
    assert!(path.exists(), "no {}", path.display());
    path
}

/// Sets a flag on drop, even after a panic: what runs beside a test ends with it.
pub struct SetAtEnd<'a>(pub &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Polls until `look` returns something; panics with `what` and `state` after the deadline.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>, state: impl Fn() -> String) -> T {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited {DEADLINE:?} in vain for {what}\n{}", state());
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Sends a signal to a process. After SIGSTOP, returns once each of its threads is stopped: until then they run on for
/// as long as the thread that takes the signal waits for a core.
pub fn signal(process: Pid, signal: Signal) {
    kill_process(process, signal).unwrap();
    if signal != Signal::STOP {
        return;
    }
    let state = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).unwrap();
        let of = |folder: PathBuf| std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
        tasks.map(|task| of(task.unwrap().path())).collect::<Vec<_>>()
    };
    // The state follows the name in brackets.
    let is_stopped = |stat: &String| stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'));
    wait_for("every thread to stop", || state().iter().all(is_stopped).then_some(()), || state().concat());
}

/// The last of the CPUs this process may run on, and all of them, in the kernel's list format.
pub fn allowed_cpus() -> (String, String) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = cpus_allowed(&status).unwrap();
    (list.rsplit([',', '-']).next().unwrap().to_owned(), list)
}

/// CPUs that a process's thread of this name may run on, in the kernel's list format; None if there is no such thread.
pub fn cpus_of_thread(process: u32, thread: &str) -> Option<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let of = |folder: PathBuf| {
        let name = std::fs::read_to_string(folder.join("comm")).ok()?;
        (name.trim_end() == thread).then(|| std::fs::read_to_string(folder.join("status")).ok())?
    };
    tasks.flatten().find_map(|task| cpus_allowed(&of(task.path())?))
}

fn cpus_allowed(status: &str) -> Option<String> {
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_owned())
}

/// Copies a folder, except for sockets.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy_folder(&entry.path(), &target),
            kind if kind.is_file() => drop(std::fs::copy(entry.path(), target).unwrap()),
            _ => {}
        }
    }
}
