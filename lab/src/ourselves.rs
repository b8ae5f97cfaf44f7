//! Our program as a replica or relay of stock servers, and programs that run to their end.
//!
//! In: a data folder, a port, a command. Out: accounts, sessions, output. Never here: a server of MySQL's.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use client::{ConnectOptions, Connection, SslMode};

/// The program in our own folder, of the same build.
///
/// # Errors
/// It is missing, or of another build.
pub(crate) fn program() -> Result<PathBuf> {
    Ok(programs::of_this_build(programs::PROGRAM)?)
}

/// Adds an account whose password is its name; `command` runs our program.
///
/// # Errors
/// The folder has no owner yet that answers, or the account is there.
pub(crate) fn add_account(mut command: Command, data: &Path, name: &str, rights: &str) -> Result<()> {
    command.args(["account", "add", name, "--may", rights, "--no-defaults", "--data"]).arg(data);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("no standard input")?.write_all(format!("{name}\n").as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "account add: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A session of an account whose password is its name. Over TLS: its first login may need it.
///
/// # Errors
/// It cannot log in.
pub(crate) fn session(port: u16, name: &str) -> Result<Connection> {
    let (user, password) = (name.to_owned(), Some(name.to_owned()));
    let options = ConnectOptions { port, user, password, ssl_mode: SslMode::Required, ..ConnectOptions::default() };
    Ok(Connection::connect(&options)?)
}

/// Runs a program to its end and returns its standard output.
///
/// # Errors
/// It cannot be run, or fails; the error quotes what it said of that.
pub(crate) fn output(command: &mut Command, what: &str) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {what}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let lines = text.lines().filter(|line| line.contains("FATAL") || line.contains("rror"));
        let lines: Vec<&str> = lines.take(3).collect();
        let told = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("{what} failed ({}): {told} {}", output.status, lines.join("; "));
    }
    Ok(text)
}
