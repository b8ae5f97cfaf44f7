//! Reads passwords: at the terminal with echo off, a new one from standard input if that is no terminal, or a file.

use std::fs::File;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use replica::{Failure, config::Secret};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

/// Longest accepted line in bytes.
const PASSWORD_BYTES_MAX: u64 = 4096;

/// Prompts and reads one line.
///
/// # Errors
/// Code 2 if there is no terminal.
pub(crate) fn ask(prompt: &str) -> Result<Secret, Failure> {
    let terminal = File::options().read(true).write(true).open("/dev/tty");
    let mut terminal = terminal
        .map_err(|_| Failure::usage("there is no terminal to ask for the password; use an option file or MYSQL_PWD"))?;
    let failed = |error: std::io::Error| Failure::io("terminal", &error);
    terminal.write_all(prompt.as_bytes()).map_err(failed)?;
    let before = tcgetattr(&terminal).map_err(|error| failed(error.into()))?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &silent).map_err(|error| failed(error.into()))?;
    let mut line = String::new();
    let read = BufReader::new(&terminal).take(PASSWORD_BYTES_MAX).read_line(&mut line);
    let restored = tcsetattr(&terminal, OptionalActions::Flush, &before);
    terminal.write_all(b"\n").map_err(failed)?;
    restored.map_err(|error| failed(error.into()))?;
    read.map_err(failed)?;
    Ok(Secret(line.trim_end_matches(['\r', '\n']).to_owned()))
}

/// A new password: asked for twice at the terminal, or the first line of standard input if that is no terminal.
///
/// # Errors
/// Code 2 if both differ, or standard input has no line or one that is too long.
pub(crate) fn new(what: &str) -> Result<Secret, Failure> {
    if !std::io::stdin().is_terminal() {
        return first_line(&mut std::io::stdin().lock());
    }
    let password = ask(&format!("New {what}: "))?;
    if ask("The same again: ")? == password { Ok(password) } else { Err(Failure::usage("the passwords differ")) }
}

/// The first line of a file that only its owner may read.
///
/// # Errors
/// Code 2 for a file that others may read, or without a password; code 8 if it cannot be read.
pub(crate) fn of_file(path: &Path) -> Result<Secret, Failure> {
    let failed = |error: std::io::Error| Failure::io(path.display(), &error);
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        let text = format!("{}: others than its owner may use it (mode {:o})", path.display(), mode & 0o777);
        return Err(Failure::usage(text).with_hint("chmod 600 it"));
    }
    let mut line = String::new();
    BufReader::new(file).take(PASSWORD_BYTES_MAX).read_line(&mut line).map_err(failed)?;
    match line.trim_end_matches(['\r', '\n']) {
        "" => Err(Failure::usage(format!("{}: its first line is no password", path.display()))),
        password => Ok(Secret(password.to_owned())),
    }
}

fn first_line(input: &mut dyn std::io::BufRead) -> Result<Secret, Failure> {
    let mut line = String::new();
    let read = input.take(PASSWORD_BYTES_MAX).read_line(&mut line);
    read.map_err(|error| Failure::usage(format!("password on standard input: {error}")))?;
    match line.trim_end_matches(['\r', '\n']) {
        "" => Err(Failure::usage("no password on standard input")),
        password => Ok(Secret(password.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_password() {
        let read = |text: &str| first_line(&mut text.as_bytes()).map(|password| password.0);
        assert_eq!(read("a b\r\nmore\n"), Ok("a b".to_owned()));
        assert_eq!(read(" x"), Ok(" x".to_owned()));
        for text in ["", "\n", "\r\n"] {
            assert!(read(text).is_err());
        }
        assert!(first_line(&mut &b"\xff\n"[..]).is_err());
    }
}
