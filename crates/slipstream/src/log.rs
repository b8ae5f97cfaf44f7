//! Log lines in mysqld's format, or as the objects its JSON sink writes.
//!
//! In: level, code, subsystem and text. Out: one line to stderr or a file, each written whole. Never here: a password of
//! a URL, a line break from a text, an error that stops the program because its log cannot be written.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::config::{LogConfig, LogFormat, mask_passwords};
use crate::exit::Failure;

/// mysqld's four. ERROR means that a human must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Start, stop, and the like; always written.
    System,
    /// A human must come.
    Error,
    /// Worth a look.
    Warning,
    /// For the record.
    Note,
}

impl Level {
    /// mysqld's priority number; its verbosity n shows those up to n.
    fn priority(self) -> u8 {
        match self {
            Level::System => 0,
            Level::Error => 1,
            Level::Warning => 2,
            Level::Note => 3,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Level::System => "System",
            Level::Error => "ERROR",
            Level::Warning => "Warning",
            Level::Note => "Note",
        }
    }
}

/// Codes of messages, printed `SLIP-000001`: what alerting is keyed on, so never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

/// The codes given so far. Engine and lab add theirs here.
pub mod code {
    use super::Code;

    /// The program started.
    pub const STARTED: Code = Code(1);
    /// The program stopped as asked.
    pub const STOPPED: Code = Code(2);
    /// A signal asked to stop.
    pub const SIGNAL: Code = Code(3);
    /// Log files were opened again.
    pub const LOG_REOPENED: Code = Code(4);
    /// The data folder was made.
    pub const FOLDER_CREATED: Code = Code(5);
    /// An operator's command came over the socket.
    pub const OPERATOR: Code = Code(6);
    /// A password stands on the command line.
    pub const PASSWORD_ON_COMMAND_LINE: Code = Code(7);
    /// Connected to the source.
    pub const CONNECTED: Code = Code(30);
    /// The connection to the source was lost or could not be made.
    pub const CONNECTION_LOST: Code = Code(31);
    /// Something about the source that works, but not as well as it could.
    pub const PREFLIGHT_WARNING: Code = Code(32);
    /// The source does not fulfil what replication needs.
    pub const PREFLIGHT_REFUSED: Code = Code(33);
    /// The relay log was cut back to its last whole transaction.
    pub const RELAY_LOG_RECOVERED: Code = Code(20);
    /// A relay log file was closed and the next one begun.
    pub const RELAY_LOG_ROTATED: Code = Code(21);
    /// Replay met damage in the relay log, which is mended while the program runs.
    pub const RELAY_DAMAGED: Code = Code(51);
    /// Replay began.
    pub const REPLAY_STARTED: Code = Code(40);
    /// Everything received is visible for the first time since the start.
    pub const CAUGHT_UP: Code = Code(41);
    /// A transaction was committed empty because the operator named it.
    pub const SKIPPED: Code = Code(42);
    /// A statement without effect on what is held was recorded.
    pub const STATEMENT_RECORDED: Code = Code(43);
    /// Replay was paused or goes on.
    pub const PAUSED: Code = Code(44);
    /// Replay stopped with an error.
    pub const REPLAY_FAILED: Code = Code(50);
}

#[derive(Debug)]
struct Logger {
    config: LogConfig,
    /// None = stderr.
    file: Mutex<Option<File>>,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Opens the log. Until then, lines go to stderr as text. A second call changes nothing.
///
/// # Errors
/// Code 2 if the file cannot be opened.
pub fn init(config: &LogConfig) -> Result<(), Failure> {
    let file = open(config.file.as_ref())?;
    let _ = LOGGER.set(Logger { config: config.clone(), file: Mutex::new(file) });
    Ok(())
}

/// Opens the log file again (after SIGHUP, for logrotate).
///
/// # Errors
/// If it cannot be opened; lines go on into the old one.
pub fn reopen() -> Result<(), Failure> {
    let Some(logger) = LOGGER.get() else { return Ok(()) };
    let file = open(logger.config.file.as_ref())?;
    *logger.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
    Ok(())
}

fn open(path: Option<&PathBuf>) -> Result<Option<File>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let file = OpenOptions::new().append(true).create(true).mode(0o640).open(path);
    file.map(Some).map_err(|error| Failure::usage(format!("log file {}: {error}", path.display())))
}

/// `[System]`: start and stop.
pub fn system(code: Code, subsystem: &str, text: &str) {
    write(Level::System, code, subsystem, text);
}

/// `[ERROR]`: a human must come.
pub fn error(code: Code, subsystem: &str, text: &str) {
    write(Level::Error, code, subsystem, text);
}

/// `[Warning]`.
pub fn warning(code: Code, subsystem: &str, text: &str) {
    write(Level::Warning, code, subsystem, text);
}

/// `[Note]`.
pub fn note(code: Code, subsystem: &str, text: &str) {
    write(Level::Note, code, subsystem, text);
}

fn write(level: Level, code: Code, subsystem: &str, text: &str) {
    let logger = LOGGER.get();
    let (format, verbosity) = logger.map_or((LogFormat::Text, 3), |l| (l.config.format, l.config.verbosity));
    if level.priority() > verbosity {
        return;
    }
    let line =
        format_line(format, &Line { at_us: observe::now_us(), thread: thread_number(), level, code, subsystem, text });
    let mut file = logger.map(|logger| logger.file.lock().unwrap_or_else(PoisonError::into_inner));
    // A log that cannot be written must not stop replay; there is nowhere to say so.
    let _ = match file.as_mut().and_then(|file| file.as_mut()) {
        Some(file) => file.write_all(line.as_bytes()),
        None => io::stderr().lock().write_all(line.as_bytes()),
    };
}

/// Threads in the order they first log; the main thread is 0.
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
    level: Level,
    code: Code,
    subsystem: &'a str,
    text: &'a str,
}

fn format_line(format: LogFormat, line: &Line<'_>) -> String {
    let text = mask_passwords(line.text);
    let at = observe::utc_text(line.at_us);
    let code = format!("SLIP-{:06}", line.code.0);
    match format {
        LogFormat::Text => {
            let label = line.level.label();
            let mut text_line = format!("{at} {} [{label}] [{code}] [{}] ", line.thread, line.subsystem);
            for c in text.chars() {
                match c {
                    '\n' => text_line.push_str("\\n"),
                    '\r' => text_line.push_str("\\r"),
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
                "prio": line.level.priority(),
                "err_code": line.code.0,
                "err_symbol": code,
                "subsystem": line.subsystem,
                "thread": line.thread,
                "msg": text,
                "time": at,
                "ts": line.at_us / 1000,
                "label": line.level.label(),
            });
            format!("{object}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line<'_> {
        Line { at_us: 1_795_248_000_123_456, thread: 0, level: Level::Note, code: Code(1), subsystem: "Replica", text }
    }

    #[test]
    fn mysqlds_line_format() {
        assert_eq!(
            format_line(LogFormat::Text, &line("text")),
            "2026-11-21T08:00:00.123456Z 0 [Note] [SLIP-000001] [Replica] text\n"
        );
    }

    #[test]
    fn one_line_whatever_the_text_and_no_password() {
        let text = format_line(LogFormat::Text, &line("a\nb\r\u{1b}[31m mysql://u:geheim@h"));
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.ends_with("a\\nb\\r?[31m mysql://u:***@h\n"), "{text}");
    }

    #[test]
    fn json_is_mysqlds_sink() {
        let text = format_line(LogFormat::Json, &line("a\n\"b\" mysql://u:geheim@h"));
        assert_eq!(text.matches('\n').count(), 1);
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["prio"], 3);
        assert_eq!(object["label"], "Note");
        assert_eq!(object["err_symbol"], "SLIP-000001");
        assert_eq!(object["msg"], "a\n\"b\" mysql://u:***@h");
        assert_eq!(object["ts"], 1_795_248_000_123_u64);
    }
}
