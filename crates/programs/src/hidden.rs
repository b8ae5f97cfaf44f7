//! Keeps passwords of the command line out of the process list, which every user of the machine can read: the program
//! starts itself again in the same process, with arguments that lack them, and reads the whole ones from a pipe. Keeps
//! those in memory, and rows, out of core files.
//!
//! In: the arguments. Out: the same arguments. Never here: a password in the environment, in a file, or in a message.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
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
pub fn is_hidden() -> bool {
    HIDDEN.load(Relaxed)
}

/// Returns the arguments, in a process whose list of arguments has no password. Where that cannot be had, in the process
/// as it is.
pub fn arguments(given: Vec<OsString>) -> Vec<OsString> {
    if let Some(whole) = received() {
        HIDDEN.store(whole.len() == given.len(), Relaxed);
        return if is_hidden() { whole } else { given };
    }
    let masked = masked(&given);
    if masked != given
        && let Ok(program) = std::env::current_exe()
    {
        let _ = exec_masked(&program, &given, &masked);
    }
    given
}

/// No core file of this process from now on. A limit, and not PR_SET_DUMPABLE: that would take debuggers from the user
/// who runs the program, and files in `/proc/self` from the program.
pub fn from_core_files() {
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

/// Becomes a program with these arguments, of which the first is its name, and shows no password of them. Returns why
/// it cannot.
pub fn exec(program: &Path, given: &[OsString]) -> io::Error {
    let masked = masked(given);
    if masked != given
        && let Some(error) = exec_masked(program, given, &masked)
    {
        return error;
    }
    let Some((name, rest)) = given.split_first() else { return io::ErrorKind::InvalidInput.into() };
    Command::new(program).arg0(name).args(rest).exec()
}

/// As [`exec`]; None if the arguments cannot be handed over by a pipe.
fn exec_masked(program: &Path, given: &[OsString], masked: &[OsString]) -> Option<io::Error> {
    let whole: Vec<u8> = given.iter().flat_map(|text| [text.as_bytes(), b"\0"].concat()).collect();
    let (name, rest) = masked.split_first()?;
    let (reader, mut writer) = io::pipe().ok()?;
    if whole.len() > BYTES_MAX || writer.write_all(&whole).is_err() {
        return None;
    }
    drop(writer);
    fcntl_setfd(&reader, FdFlags::empty()).ok()?;
    let error = Command::new(program).arg0(name).args(rest).env(VARIABLE, reader.as_raw_fd().to_string()).exec();
    let _ = fcntl_setfd(&reader, FdFlags::CLOEXEC);
    Some(error)
}

/// The arguments without the passwords of URLs and of `-pPASSWORD`.
fn masked(given: &[OsString]) -> Vec<OsString> {
    // The lab's commands have a flag -p of another meaning, if any.
    let is_lab = |name: &OsString| Path::new(name).file_name().is_some_and(|name| name == crate::LAB);
    let lab = given.get(1).is_some_and(|command| command == "lab") || given.first().is_some_and(is_lab);
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
pub fn attached_password(argument: &OsStr) -> Option<&str> {
    argument.to_str()?.strip_prefix("-p").filter(|password| !password.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let lab = texts(&["/usr/bin/slipstream-lab", "x", "-p3", "mysql://u:five@h"]);
        assert_eq!(masked(&lab), texts(&["/usr/bin/slipstream-lab", "x", "-p3", "mysql://u:***@h"]));
    }
}
