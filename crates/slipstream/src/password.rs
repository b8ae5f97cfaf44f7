//! Prompts for a password at the terminal, with echo off. Does not touch stdin, which may be a pipe.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};

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
    let read = std::io::Read::take(BufReader::new(&terminal), PASSWORD_BYTES_MAX).read_line(&mut line);
    let restored = tcsetattr(&terminal, OptionalActions::Flush, &before);
    terminal.write_all(b"\n").map_err(failed)?;
    restored.map_err(|error| failed(error.into()))?;
    read.map_err(failed)?;
    Ok(Secret(line.trim_end_matches(['\r', '\n']).to_owned()))
}
