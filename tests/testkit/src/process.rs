//! Programs run to their end.

use std::io::Write as _;
use std::process::{Command, ExitStatus, Output, Stdio};

/// Result of a program. Death by signal N is code 128 + N.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Exit code.
    pub code: i32,
    /// Text on stdout.
    pub out: String,
    /// Text on stderr.
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            code: code_of(output.status),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    /// Checks the exit code, that each text is in stdout or stderr, and that nothing panicked.
    #[track_caller]
    pub fn expect(&self, code: i32, texts: &[&str]) -> &Ran {
        let all = format!("{}{}", self.out, self.err);
        assert_eq!(self.code, code, "exit code; it said:\n{}", shortened(&all));
        for text in texts {
            assert!(all.to_lowercase().contains(&text.to_lowercase()), "no {text:?} in:\n{}", shortened(&all));
        }
        assert!(!all.contains("panicked"), "{}", shortened(&all));
        self
    }
}

/// The first and the last lines of a long text: a table's rows must not push the error out of what CI keeps.
fn shortened(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let (first, last) = (10, 60);
    match lines.len().checked_sub(first + last) {
        None | Some(0) => text.to_owned(),
        Some(left_out) => {
            let (begin, end) = (lines[..first].join("\n"), lines[first + left_out..].join("\n"));
            format!("{begin}\n[{left_out} lines left out]\n{end}")
        }
    }
}

/// Exit code of a process; 128 + N if signal N ended it.
#[must_use]
pub fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Runs a program to its end with these bytes on stdin.
pub fn run_with_input(command: &mut Command, input: impl AsRef<[u8]>) -> Ran {
    Ran::from(output_with_input(command, input))
}

/// As [`run_with_input`], for output that may not be text.
pub fn output_with_input(command: &mut Command, input: impl AsRef<[u8]>) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.as_ref().to_vec();
    let feeder = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}
