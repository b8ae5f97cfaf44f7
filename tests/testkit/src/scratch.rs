//! This process's folder for everything that its tests leave on disk.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::repository;

/// The folder. Its path is short, since unix sockets are in it. Removed with all servers and replicas when this process
/// ends, even by kill -9: a janitor waits for the end of a pipe that only this process holds open.
pub fn scratch() -> &'static Path {
    static SCRATCH: OnceLock<(PathBuf, Mutex<Child>)> = OnceLock::new();
    let (path, _) = SCRATCH.get_or_init(|| {
        let path = PathBuf::from(format!("/tmp/slw-{}", std::process::id()));
        std::fs::create_dir_all(path.join("run")).unwrap();
        (path.clone(), Mutex::new(janitor(&path)))
    });
    path
}

/// A new folder name in [`scratch`].
pub fn folder(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    scratch().join(format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// Ends leftovers: replicas whose command line names the folder, then the folder's servers.
const JANITOR: &str = r#"cat >/dev/null
[ ! -e "$1/keep" ] || exit 0
for p in /proc/[0-9]*; do
    comm=
    read -r comm <"$p/comm"
    if [ "$comm" = slipstream ] && tr '\0' ' ' <"$p/cmdline" | grep -qF -- "$1/"; then
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
