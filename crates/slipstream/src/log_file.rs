//! Log writer: lines in mysqld's format, or JSON objects as its JSON sink writes them.
//!
//! In: code, subsystem and text. Out: one line to stderr or a file, each written as a whole. Never here: a password of
//! a URL, a line break inside a text, an error that stops the program because its log cannot be written.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use base::own_files;
use replica::{Failure, config::mask_passwords, log::Code};

use crate::settings::{LogConfig, LogFormat};

#[derive(Debug)]
struct Logger {
    config: LogConfig,
    /// Mode of a new log file.
    mode: u32,
    /// The open log file; None = stderr.
    file: Mutex<Option<File>>,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Makes this module the sink of all log lines.
pub(crate) fn install() {
    replica::log::set_sink(write);
}

/// Opens the log. Before that, lines are written to stderr as text. A second call has no effect. A new file is readable
/// for the owner and the group as far as `umask` allows: the operator's umask, not the stricter one of the data folder.
///
/// # Errors
/// Code 2 if the file cannot be opened.
pub(crate) fn init(config: &LogConfig, umask: u32) -> Result<(), Failure> {
    let mode = 0o640 & !umask;
    let file = open(config.file.as_ref(), mode)?;
    let _ = LOGGER.set(Logger { config: config.clone(), mode, file: Mutex::new(file) });
    Ok(())
}

/// Reopens the log file (after SIGHUP, for logrotate).
///
/// # Errors
/// The file cannot be opened; lines are still written to the old one.
pub(crate) fn reopen() -> Result<(), Failure> {
    let Some(logger) = LOGGER.get() else { return Ok(()) };
    let file = open(logger.config.file.as_ref(), logger.mode)?;
    *logger.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
    Ok(())
}

fn open(path: Option<&PathBuf>, mode: u32) -> Result<Option<File>, Failure> {
    let Some(path) = path else { return Ok(None) };
    // The process's umask would take the group's permission; a file that exists keeps what the operator, or logrotate,
    // gave it.
    let file = own_files::append(path, mode);
    file.map(Some).map_err(|error| Failure::usage(format!("log file {}: {error}", path.display())))
}

/// Writes a line, unless its level is above the configured verbosity.
fn write(code: Code, subsystem: &str, text: &str) {
    let level = code.level();
    let logger = LOGGER.get();
    let (format, verbosity) = logger.map_or((LogFormat::Text, 3), |l| (l.config.format, l.config.verbosity));
    if level.priority() > verbosity {
        return;
    }
    let line = format_line(format, &Line { at_us: observe::now_us(), thread: thread_number(), code, subsystem, text });
    let mut file = logger.map(|logger| logger.file.lock().unwrap_or_else(PoisonError::into_inner));
    // A log that cannot be written must not stop replay, and there is no place to report it.
    let _ = match file.as_mut().and_then(|file| file.as_mut()) {
        Some(file) => file.write_all(line.as_bytes()),
        None => io::stderr().lock().write_all(line.as_bytes()),
    };
}

/// Number of this thread, in the order in which threads first log; the main thread is 0.
fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local!(static NUMBER: u32 = if std::thread::current().name() == Some("main") {
        0
    } else {
        NEXT.fetch_add(1, Relaxed)
    });
    NUMBER.with(|number| *number)
}

struct Line<'a> {
    at_us: u64,
    thread: u32,
    code: Code,
    subsystem: &'a str,
    text: &'a str,
}

fn format_line(format: LogFormat, line: &Line<'_>) -> String {
    let text = mask_passwords(line.text);
    let at = observe::utc_text(line.at_us);
    let (code, level) = (line.code, line.code.level());
    match format {
        LogFormat::Text => {
            let label = level.label();
            let mut text_line = format!("{at} {} [{label}] [{code}] [{}] ", line.thread, line.subsystem);
            // One line a record: the lines of a text are divided by a bar.
            let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            for c in lines.join(" | ").chars() {
                match c {
                    '\t' => text_line.push(' '),
                    c if c.is_control() => text_line.push('?'),
                    c => text_line.push(c),
                }
            }
            text_line.push('\n');
            text_line
        }
        LogFormat::Json => {
            let object = serde_json::json!({
                "prio": level.priority(),
                "err_code": code.number(),
                "err_symbol": code.to_string(),
                "subsystem": line.subsystem,
                "thread": line.thread,
                "msg": text,
                "time": at,
                "ts": line.at_us / 1000,
                "label": level.label(),
            });
            format!("{object}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::fs::OFlags;

    use super::*;

    fn line(text: &str) -> Line<'_> {
        Line { at_us: 1_795_248_000_123_456, thread: 0, code: Code::Cut, subsystem: "Store", text }
    }

    #[test]
    fn mysqlds_line_format() {
        assert_eq!(
            format_line(LogFormat::Text, &line("text")),
            "2026-11-21T08:00:00.123456Z 0 [Note] [SLIP-000023] [Store] text\n"
        );
    }

    #[test]
    fn a_new_log_file_is_for_owner_and_group_and_an_old_one_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mode = |path: &PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        open(Some(&path), 0o640).unwrap();
        assert_eq!(mode(&path), 0o640);
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let file = open(Some(&path), 0o640).unwrap().unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(!rustix::fs::fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
        assert!(open(Some(&pipe), 0o640).unwrap_err().text.contains("log file"));
        // One that is read takes lines.
        let reader = rustix::fs::open(&pipe, OFlags::RDONLY | OFlags::NONBLOCK, rustix::fs::Mode::empty()).unwrap();
        open(Some(&pipe), 0o640).unwrap().unwrap().write_all(b"line\n").unwrap();
        let mut line = [0; 8];
        assert_eq!(rustix::io::read(&reader, &mut line).unwrap(), 5);
    }

    #[test]
    fn one_line_whatever_the_text_and_no_password() {
        let text = format_line(LogFormat::Text, &line("a\nb\r\u{1b}[31m mysql://u:geheim@h"));
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.ends_with("a | b??[31m mysql://u:***@h\n"), "{text}");
    }

    #[test]
    fn json_is_mysqlds_sink() {
        let text = format_line(LogFormat::Json, &line("a\n\"b\" mysql://u:geheim@h"));
        assert_eq!(text.matches('\n').count(), 1);
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["prio"], 3);
        assert_eq!(object["label"], "Note");
        assert_eq!(object["err_symbol"], "SLIP-000023");
        assert_eq!(object["msg"], "a\n\"b\" mysql://u:***@h");
        assert_eq!(object["ts"], 1_795_248_000_123_u64);
    }
}
