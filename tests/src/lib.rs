//! Harness of the whole-program tests: real MySQL servers (testbed/), the real binary, a proxy between them.
//!
//! In: names and options. Out: servers and replicas that end when their value is dropped, or when this process ends,
//! however it ends. Never here: a mock, a hopeful sleep, another's process.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod all_types;
pub mod compare;
pub mod definitions;
pub mod differential;
pub mod proxy;
pub mod replica;
pub mod server;
pub mod shop;
pub mod small_disk;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

pub use compare::{assert_equal, assert_equal_at_rest, verify_equal};
pub use definitions::assert_same_definitions;
pub use proxy::Proxy;
pub use replica::{Ran, Replica, slipstream, slipstream_with};
pub use server::Server;
pub use shop::under_load;
pub use small_disk::SmallDisk;

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

/// The repository's root.
#[must_use]
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The program under test.
#[must_use]
pub fn binary() -> PathBuf {
    let path = std::env::var_os("SLIPSTREAM_BIN").map(PathBuf::from);
    let path = path.unwrap_or_else(|| repository().join("target/release/slipstream"));
    assert!(path.exists(), "no {}: run make build, or set SLIPSTREAM_BIN", path.display());
    path
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

/// This process's folder for everything. Its path is short, since unix sockets are in it. Removed with all servers and
/// replicas when this process ends, even by kill -9: a janitor waits for the end of a pipe that only this process holds
/// open.
pub fn scratch() -> &'static Path {
    static SCRATCH: OnceLock<(PathBuf, Mutex<Child>)> = OnceLock::new();
    let (path, _) = SCRATCH.get_or_init(|| {
        let path = PathBuf::from(format!("/tmp/slw-{}", std::process::id()));
        std::fs::create_dir_all(path.join("run")).unwrap();
        (path.clone(), Mutex::new(janitor(&path)))
    });
    path
}

/// Ends leftovers: replicas whose command line names the folder, then the folder's servers.
const JANITOR: &str = r#"cat >/dev/null
[ ! -e "$1/keep" ] || exit 0
for p in /proc/[0-9]*; do
    if [ "$(basename "$(readlink "$p/exe")" | cut -d' ' -f1)" = slipstream ] && tr '\0' ' ' <"$p/cmdline" | grep -qF -- "$1/"; then
        kill -9 "${p#/proc/}"
    fi
done
SLIPSTREAM_TESTBED_RUN=$1/run "$2/testbed/mysql" destroy --all
SLIPSTREAM_TESTBED_RUN=$1/run "$2/testbed/mariadb" destroy --all
rm -rf "$1""#;

fn janitor(path: &Path) -> Child {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new("sh");
    command.args(["-c", JANITOR, "janitor"]).arg(path).arg(repository());
    // In a process group of its own: an interrupt at the terminal must not end it before it is done.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
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

/// A new folder name in `scratch`.
pub fn folder(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    scratch().join(format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
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

/// Runs a program to its end with this text on stdin.
pub fn run_with_input(command: &mut Command, input: &str) -> Ran {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let feeder = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    Ran::from(output)
}

/// Number generator for loads that must be the same every time (xorshift64*).
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}
