//! Outcome of a run: exit codes that scripts can rely on, and the one error type of the program.

use std::fmt;
use std::io;

macro_rules! exits {
    ($($(#[doc = $meaning:literal])+ $name:ident = $number:literal $text:literal,)*) => {
        /// Exit codes. Numbers are part of the interface: never changed, only added to. The comment of each is its
        /// meaning in docs/operating/reference.md.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Exit {
            $($(#[doc = $meaning])+ $name = $number,)*
        }

        impl Exit {
            pub const ALL: &[Exit] = &[$(Exit::$name,)*];

            /// When the program ends with this code, in Markdown.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Exit::$name => concat!($($meaning),+).trim_ascii(),)*
                }
            }
        }

        impl fmt::Display for Exit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Exit::$name => $text,)*
                })
            }
        }
    };
}

exits! {
    /// Success; for `replica`: stopped as requested, whatever error it had stopped at before.
    Done = 0 "done",
    /// Any error without its own code; `status --max-lag`: the lag is above the limit or not known; `verify`: some
    /// tables could not be compared.
    Error = 1 "error",
    /// Invalid usage or configuration.
    Usage = 2 "usage or configuration",
    /// Another process uses the data folder.
    FolderInUse = 3 "folder in use",
    /// The source does not meet the requirements of replication, or is another one than before.
    PreflightRefused = 4 "preflight refused",
    /// The source no longer has the transactions that this replica needs (MySQL error 1236).
    SourcePurged = 5 "source no longer has what this replica needs",
    /// An event or statement of the log is not supported.
    NotSupported = 6 "event or statement not supported",
    /// A file is corrupt or not Slipstream's.
    Corrupt = 7 "file corrupt or not Slipstream's",
    /// Disk full or I/O error.
    Disk = 8 "disk full or I/O error",
    /// Rows differ from what the log expects (MySQL errors 1032 and 1062).
    DataDiffers = 9 "data differ from what the log expects",
    /// An internal check failed, a defect of Slipstream: start it again; report it if it stops at the same place.
    Defect = 10 "an internal check failed (a defect of Slipstream)",
    /// The first start of an empty folder: the source cannot be reached, refuses the login, or cannot be verified.
    SourceNotReached = 11 "source cannot be reached or refuses the login",
    /// `verify`, `check-store` or `shadow` found differences.
    VerifyDifferences = 16 "verify found differences",
    /// `dump` left out tables, or `dump --definitions` wrote statements as comments, or has unsettled objects.
    DefinitionsLeftOut = 17 "tables or definitions are left out of a dump",
}

impl Exit {
    /// The number returned to the shell.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The code of a replica or relay that could not start because of a connection to its source; MySQL's numbers are
    /// of a host, a login, or TLS.
    #[must_use]
    pub fn of_start(self, number: Option<u32>) -> Exit {
        match (self, number) {
            (Exit::Error, Some(1044 | 1045 | 1130 | 1698 | 2002 | 2003 | 2005 | 2026)) => Exit::SourceNotReached,
            _ => self,
        }
    }

    /// The code for a number received over the socket; an unknown number is `Error`.
    #[must_use]
    pub fn from_code(code: u8) -> Exit {
        Exit::ALL.iter().copied().find(|exit| exit.code() == code).unwrap_or(Exit::Error)
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit.code())
    }
}

/// Why a command failed: the exit code, a sentence, MySQL's error number if it has one, and the command that continues
/// if there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// Exit code for the shell.
    pub exit: Exit,
    /// Sentence for the user, with position and GTID if it concerns the log. Never contains a password.
    pub text: String,
    /// MySQL's error number, e.g. 1236; None if MySQL has none for it.
    pub number: Option<u32>,
    /// The command that continues.
    pub hint: Option<String>,
    /// What the disk did, if it is to blame and time can mend it.
    pub disk: Option<DiskTrouble>,
}

/// Trouble with the disk from which the process recovers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskTrouble {
    /// No space is left.
    Full,
    /// What was to be made durable was not.
    SyncFailed,
}

impl Failure {
    /// A failure with a code and a sentence.
    pub fn new(exit: Exit, text: impl Into<String>) -> Failure {
        Failure { exit, text: text.into(), number: None, hint: None, disk: None }
    }

    /// A failure with code 1.
    pub fn error(text: impl Into<String>) -> Failure {
        Failure::new(Exit::Error, text)
    }

    /// A failure because of invalid usage or configuration.
    pub fn usage(text: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, text)
    }

    /// A failure from an I/O error on `what` (usually a path). For a full disk it says what to do.
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Failure {
        let failure = Failure::new(exit_of_io(error), format!("{what}: {error}"));
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.with_hint(FREE_SPACE).of_disk(DiskTrouble::Full)
            }
            _ => failure,
        }
    }

    /// A failure from a failed write to stdout. If the reader closed the pipe (`| head`), the text is empty.
    #[must_use]
    pub fn output(error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe { Failure::error("") } else { Failure::io("output", error) }
    }

    /// The whole failure in one line of the log: number, text, exit code, hint.
    #[must_use]
    pub fn told(&self) -> String {
        // A server's own text begins with its number.
        let number = self.number.filter(|number| !self.text.starts_with(&format!("error {number}")));
        let number = number.map(|number| format!("Error {number}: ")).unwrap_or_default();
        let hint = self.hint.as_ref().map(|command| format!(" Hint: {command}")).unwrap_or_default();
        format!("{number}{} (exit {}: {}){hint}", self.text, self.exit.code(), self.exit)
    }

    /// Adds MySQL's error number.
    #[must_use]
    pub(crate) fn with_number(mut self, number: u32) -> Failure {
        self.number = Some(number);
        self
    }

    /// Says what the disk did.
    #[must_use]
    pub(crate) fn of_disk(mut self, trouble: DiskTrouble) -> Failure {
        self.disk = Some(trouble);
        self
    }

    /// Adds the command that continues.
    #[must_use]
    pub fn with_hint(mut self, command: impl Into<String>) -> Failure {
        self.hint = Some(command.into());
        self
    }
}

/// Hint for a full disk. Small files are written atomically, so nothing else needs repair.
pub(crate) const FREE_SPACE: &str = "free space in that folder's file system, then run the same command again";

/// Code 8 for a full or broken disk, `Error` for a mistake of the caller (no such file, no permission).
#[must_use]
pub(crate) fn exit_of_io(error: &io::Error) -> Exit {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let disk = matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
    if disk { Exit::Disk } else { Exit::Error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_published_ones() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17]);
        for exit in Exit::ALL {
            assert_eq!(Exit::from_code(exit.code()), *exit);
            assert!(!exit.to_string().is_empty());
        }
        assert_eq!(Exit::from_code(77), Exit::Error);
    }

    #[test]
    fn io_errors_of_the_disk_are_code_8() {
        for errno in
            [rustix::io::Errno::NOSPC, rustix::io::Errno::IO, rustix::io::Errno::ROFS, rustix::io::Errno::DQUOT]
        {
            assert_eq!(exit_of_io(&io::Error::from_raw_os_error(errno.raw_os_error())), Exit::Disk);
        }
        assert_eq!(exit_of_io(&io::Error::from(io::ErrorKind::NotFound)), Exit::Error);
    }
}
