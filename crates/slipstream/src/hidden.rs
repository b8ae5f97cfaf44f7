//! Keeps passwords of the command line out of the process list, which every user of the machine can read: the program
//! starts itself again in the same process, with arguments that lack them, and reads the whole ones from a pipe. Keeps
//! those in memory, and rows, out of core files.
//!
//! In: the arguments. Out: the same arguments. Never here: a password in the environment, in a file, or in a message.

use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use replica::config::mask_passwords;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Environment variable of the second start: the pipe's file descriptor.
const VARIABLE: &str = "SLIPSTREAM_ARGUMENTS";

/// A pipe takes this many bytes, and more, before anybody reads.
const BYTES_MAX: usize = 32 << 10;

static HIDDEN: AtomicBool = AtomicBool::new(false);

/// True if the process list shows no password of the command line.
pub(crate) fn is_hidden() -> bool {
    HIDDEN.load(Relaxed)
}

/// Returns the arguments, in a process whose list of arguments has no password. Where that cannot be had, in the process
/// as it is.
pub(crate) fn arguments(given: Vec<OsString>) -> Vec<OsString> {
    if let Some(whole) = received() {
        HIDDEN.store(whole.len() == given.len(), Relaxed);
        return if is_hidden() { whole } else { given };
    }
    let masked = masked(&given);
    if masked != given {
        start_again(&given, &masked);
    }
    given
}

/// No core file of this process from now on. A limit, and not PR_SET_DUMPABLE: that would take debuggers from the user
/// who runs the program, and files in `/proc/self` from the program.
pub(crate) fn from_core_files() {
    let hard = getrlimit(Resource::Core).maximum;
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: hard });
}

/// The arguments that the first start left in the pipe; None if this is the first start.
fn received() -> Option<Vec<OsString>> {
    let fd: u32 = std::env::var(VARIABLE).ok()?.parse().ok()?;
    let mut bytes = Vec::new();
    // A pipe's end that is opened by this name reads the same pipe; the writing end was closed by the second start.
    std::fs::File::open(format!("/proc/self/fd/{fd}")).ok()?.read_to_end(&mut bytes).ok()?;
    // Each argument ends with a zero byte, which none can have inside.
    let whole = bytes.strip_suffix(b"\0")?;
    Some(whole.split(|byte| *byte == 0).map(|text| OsString::from_vec(text.to_vec())).collect())
}

/// Does not return if it succeeds.
fn start_again(given: &[OsString], masked: &[OsString]) {
    let whole: Vec<u8> = given.iter().flat_map(|text| [text.as_bytes(), b"\0"].concat()).collect();
    let (Some((name, rest)), Ok(program)) = (masked.split_first(), std::env::current_exe()) else { return };
    let Ok((reader, mut writer)) = std::io::pipe() else { return };
    if whole.len() > BYTES_MAX || writer.write_all(&whole).is_err() {
        return;
    }
    drop(writer);
    if fcntl_setfd(&reader, FdFlags::empty()).is_ok() {
        let _ = Command::new(program).arg0(name).args(rest).env(VARIABLE, reader.as_raw_fd().to_string()).exec();
        let _ = fcntl_setfd(&reader, FdFlags::CLOEXEC);
    }
}

/// The arguments without the passwords of URLs and of `-pPASSWORD`.
fn masked(given: &[OsString]) -> Vec<OsString> {
    // The lab's commands have a flag -p of another meaning, if any.
    let lab = given.get(1).is_some_and(|command| command == "lab");
    let mask = |argument: &OsString| match argument.to_str() {
        Some(text) if !lab && is_password(text) => {
            OsString::from(if text.starts_with("--") { "--password=***" } else { "-p***" })
        }
        Some(text) => OsString::from(mask_passwords(text)),
        None => argument.clone(),
    };
    given.iter().map(mask).collect()
}

/// True for `-pPASSWORD` and `--password=PASSWORD`.
fn is_password(argument: &str) -> bool {
    argument.starts_with("--password=") || attached_password(OsStr::new(argument)).is_some()
}

/// The password of `-pPASSWORD`.
pub(crate) fn attached_password(argument: &OsStr) -> Option<&str> {
    argument.to_str()?.strip_prefix("-p").filter(|password| !password.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_runs_without_core_files() {
        let extension = crate::run::Extension { command: clap::Command::new("lab"), run: |_, _| Ok(()) };
        let hard = getrlimit(Resource::Core).maximum;
        setrlimit(Resource::Core, Rlimit { current: hard, maximum: hard }).unwrap();
        let _ = crate::run::run(["slipstream", "lab"].map(OsString::from), &extension);
        assert_eq!(getrlimit(Resource::Core), Rlimit { current: Some(0), maximum: hard });
    }

    #[test]
    fn passwords_are_masked_wherever_they_stand() {
        let texts = |texts: &[&str]| texts.iter().map(OsString::from).collect::<Vec<_>>();
        let given =
            texts(&["slipstream", "verify", "--source=mysql://u:one@h", "--replica", "mysql://u:two@g", "-pthree"]);
        let wanted =
            texts(&["slipstream", "verify", "--source=mysql://u:***@h", "--replica", "mysql://u:***@g", "-p***"]);
        assert_eq!(masked(&given), wanted);
        assert_eq!(masked(&texts(&["x", "check", "--password=four"])), texts(&["x", "check", "--password=***"]));
        let without =
            texts(&["slipstream", "replica", "--source", "mysql://u@h:3306", "-p", "--data", "/-pd", "--password"]);
        assert_eq!(masked(&without), without);
        let lab = texts(&["slipstream", "lab", "x", "-p3"]);
        assert_eq!(masked(&lab), lab);
    }
}
