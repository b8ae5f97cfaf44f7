//! What `slipstream` and `slipstream-lab` do alike at their start, and how each finds the other.
//!
//! In: the arguments. Out: the arguments, in a process that shows no password; the other program of the same build.
//! Never here: a program looked for in PATH, an option, the meaning of an argument.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod hidden;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use replica::Failure;

/// What `--version` says: the version, and in a package the commit that it was built from.
pub const VERSION: &str = match option_env!("SLIPSTREAM_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Hash of the sources, the profile, the target and the flags of this build.
pub const BUILD_ID: &str = env!("SLIPSTREAM_BUILD_ID");

/// The hidden command by which each program prints [`BUILD_ID`].
pub const BUILD_ID_COMMAND: &str = "build-id";

/// File name of the lab's program; it is in the same folder.
pub const LAB: &str = "slipstream-lab";
/// File name of the program itself.
pub const PROGRAM: &str = "slipstream";

/// Says on stderr why a program of this name ends, without passwords, and what to do where that is known.
pub fn say_why(program: &str, failure: &Failure) {
    if failure.text.is_empty() {
        return;
    }
    let text = replica::config::mask_passwords(&failure.text);
    eprint!("{}", observe::prefixed_lines(&format!("{program}: "), &text));
    if let Some(hint) = &failure.hint {
        eprint!("{}", observe::prefixed_lines(&format!("{program}: hint: "), hint));
    }
}

/// The file of this name in the running program's own folder.
///
/// # Errors
/// It does not exist.
pub fn in_own_folder(name: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::error(format!("which program runs: {error}")))?;
    let path = own.with_file_name(name);
    if path.is_file() {
        return Ok(path);
    }
    let how = match name {
        LAB => "make build makes it, and `make package` a package of its own, slipstream-lab",
        _ => "make build makes both",
    };
    Err(Failure::error(format!("no {name} in the folder of {}: {how}", own.display())))
}

/// As [`in_own_folder`], if it is of the same build.
///
/// # Errors
/// No such file, or it is of another build.
pub fn of_this_build(name: &str) -> Result<PathBuf, Failure> {
    let path = in_own_folder(name)?;
    match build_of(&path) {
        Some(id) if id == BUILD_ID => Ok(path),
        id => Err(Failure::error(format!(
            "{} is of another build ({}) than this program ({BUILD_ID}): make build makes both",
            path.display(),
            id.as_deref().unwrap_or("which it does not tell")
        ))),
    }
}

fn build_of(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    if program.file_name().is_some_and(|name| name == PROGRAM) {
        command.arg("lab");
    }
    let output = command.arg(BUILD_ID_COMMAND).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
        .filter(|id| output.status.success() && !id.is_empty())
}

/// Becomes the lab's program with these arguments; returns only if it cannot.
#[must_use]
pub fn become_lab(arguments: Vec<OsString>) -> Failure {
    match in_own_folder(LAB) {
        Ok(path) => {
            let given = [vec![OsString::from(LAB)], arguments].concat();
            Failure::error(format!("cannot run {}: {}", path.display(), hidden::exec(&path, &given)))
        }
        Err(failure) => failure,
    }
}
