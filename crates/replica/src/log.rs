//! Log codes: each has a fixed meaning and level. Alerts are keyed on the code.
//!
//! In: code, subsystem and text. Out: the same, to the sink that the program set. Never here: the format of a line.
//! Invariant: a number is assigned once and never reused; a meaning has one level. The number of a dropped meaning
//! stays unused.

use std::sync::OnceLock;

/// Receives a line: code, subsystem, text.
pub type Sink = fn(Code, &str, &str);

static SINK: OnceLock<Sink> = OnceLock::new();

/// Sets the destination of lines; a second call has no effect. Without a sink nothing is written.
pub fn set_sink(sink: Sink) {
    let _ = SINK.set(sink);
}

/// Writes a line.
pub fn write(code: Code, subsystem: &str, text: &str) {
    if let Some(sink) = SINK.get() {
        sink(code, subsystem, text);
    }
}

/// mysqld's four levels. ERROR means that a human must intervene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Start, stop, and similar events; always written.
    System,
    /// A human must intervene.
    Error,
    /// Needs attention.
    Warning,
    /// For information.
    Note,
}

impl Level {
    /// mysqld's priority number; verbosity n shows priorities up to n.
    #[must_use]
    pub fn priority(self) -> u8 {
        match self {
            Level::System => 0,
            Level::Error => 1,
            Level::Warning => 2,
            Level::Note => 3,
        }
    }

    /// The level's text in a line.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Level::System => "System",
            Level::Error => "ERROR",
            Level::Warning => "Warning",
            Level::Note => "Note",
        }
    }
}

macro_rules! codes {
    ($($(#[$about:meta])* $name:ident = $number:literal $level:ident,)*) => {
        /// Codes of messages, printed `SLIP-000001`. docs/operating/reference.md describes each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Code {
            $($(#[$about])* $name = $number,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The level of its lines.
            #[must_use]
            pub fn level(self) -> Level {
                match self {
                    $(Code::$name => Level::$level,)*
                }
            }
        }
    };
}

// 5, 40, 41, 43 and 44 were once reserved but never used.
codes! {
    /// The program has started.
    Started = 1 System,
    /// The program has stopped as requested.
    Stopped = 2 System,
    /// A signal requested a stop.
    StopSignal = 3 System,
    /// The log file was reopened.
    LogReopened = 4 Note,
    /// An operator made a request over the socket or by an option.
    OperatorCommand = 6 Note,
    /// A password is on the command line.
    PasswordOnCommandLine = 7 Warning,
    /// The receiver did not end in time; the process ended without waiting for it.
    StopTimedOut = 8 Warning,
    /// The log file could not be reopened.
    LogNotReopened = 9 Warning,
    /// An operator requested a stop.
    OperatorStop = 10 System,
    /// Permissions in the data folder could not be narrowed.
    FolderNotNarrowed = 11 Warning,
    /// The relay log was truncated to its last whole transaction.
    RelayLogTruncated = 20 Warning,
    /// Result of a start: store, relay log, and the position from which replay begins.
    FolderKept = 21 Note,
    /// Relay log files are missing whose transactions the store has.
    RelayLogFilesGone = 22 Warning,
    /// A cut is durable.
    Cut = 23 Note,
    /// Relay log files could not be purged.
    PurgeFailed = 24 Warning,
    /// An initial copy is needed; describes the copy.
    InitialCopyNeeded = 25 System,
    /// The initial copy has its snapshots.
    InitialCopyBegun = 26 System,
    /// The initial copy is complete.
    InitialCopyDone = 27 System,
    /// Progress of the initial copy.
    InitialCopyProgress = 28 Note,
    /// Remains of an unfinished initial copy were removed.
    InitialCopyRemoved = 29 Warning,
    /// Connected to the source.
    Connected = 30 System,
    /// The connection to the source was lost or could not be made.
    ConnectionLost = 31 Warning,
    /// Something about the source that works, but could be better.
    PreflightWarning = 32 Warning,
    /// The kept relay log was replayed.
    Recovered = 33 Note,
    /// A copy without a lock is complete but not yet consistent.
    CopyNotConsistentYet = 34 System,
    /// The copy without a lock is now consistent.
    CopyConsistent = 35 System,
    /// Start and end of a copy of one table.
    TableCopy = 36 System,
    /// A table is in quarantine and its copy begins.
    TableInQuarantine = 37 Warning,
    /// The initial copy skipped a table.
    TableLeftOut = 38 Warning,
    /// Something that slows down or endangers the initial copy.
    CopyCheckWarning = 39 Warning,
    /// A transaction was committed empty because the operator named it.
    Skipped = 42 System,
    /// The replica ended with an error.
    ReplicaFailed = 50 Error,
    /// Replay met damage in the relay log; the damaged part is fetched again.
    RelayLogDamaged = 51 Warning,
    /// The relay log could not be searched for damage.
    DamageSearchFailed = 52 Warning,
    /// A start found a copy without a lock that is not yet consistent.
    CopyFoundNotConsistent = 53 Note,
    /// An attempt of the initial copy failed; another one follows.
    InitialCopyRetried = 54 Warning,
    /// Information about the initial copy.
    InitialCopyNote = 55 Note,
    /// A stopped folder could not be replayed to the end of its relay log.
    ReplayIncomplete = 56 Warning,
    /// A table's copy failed; the table is unchanged.
    TableCopyFailed = 57 Warning,
    /// An attempt of a table's copy failed; another one follows.
    TableCopyRetried = 58 Warning,
    /// The process ended during a table's copy; the table is unchanged.
    TableCopyAbandoned = 59 Warning,
    /// Rows of a table contradict the log: the table differs from the source's.
    TableDiffers = 60 Error,
    /// The source cannot compute a virtual column of a table that was copied.
    VirtualColumnsUnknown = 61 Warning,
    /// A table was copied whose tablespace is discarded on the source.
    TablespaceDiscarded = 62 Warning,
    /// Receiving or replay waits for free disk space.
    WaitsForSpace = 63 Warning,
    /// A table holds rows outside their partition's rule, so whole images identify its rows.
    MisplacedRows = 64 Warning,
    /// What waited for disk space goes on.
    GoesOnWithSpace = 65 System,
    /// Replay stopped with an error; the process stays.
    SqlStopped = 66 Error,
    /// Receiving stopped with an error; the process stays.
    IoStopped = 67 Error,
    /// The engine is started again in the same process.
    EngineStarted = 68 System,
    /// The source refuses the login; the same password is not tried again for an hour.
    LoginRefused = 69 Error,
    /// The option files were read again.
    OptionsRead = 70 Note,
    /// The option files could not be read again, and the options stay as they were.
    OptionsNotRead = 71 Warning,
    /// Whether the source's history is still the one that was received cannot be known.
    HistoryUnknown = 72 Warning,
    /// The disk is nearly full, or will be within a day.
    DiskNearlyFull = 73 Warning,
    /// The disk is full all the same, or a sync failed; the engine starts again in the same process.
    DiskFailed = 74 Error,
    /// A file of the store is damaged.
    StoreFileDamaged = 76 Warning,
    /// A damaged file of the store is gone, because nothing needs it any more.
    StoreFileGone = 77 System,
    /// Replay ran into a damaged file of the store; the engine starts again without the tables in it.
    EngineRestarted = 78 Warning,
    /// The store was put aside (`--start-anew`).
    StorePutAside = 79 System,
    /// The slow check of all files has begun.
    ScrubBegun = 80 Note,
    /// The slow check of all files has ended; says what it found.
    ScrubDone = 81 Note,
    /// The slow check found damage in the relay log, or could not check a file.
    ScrubTrouble = 82 Warning,
    /// An option file with a password can be read by every user.
    OptionFileReadable = 83 Warning,
    /// The source's certificate is not verified, or the connection is not encrypted.
    SourceNotVerified = 84 Warning,
    /// An operator added, changed or removed an account.
    AccountChanged = 85 Note,
    /// An account uses mysql_native_password.
    NativePassword = 86 Warning,
    /// The source has time zones with names, and does not let us read them.
    ZonesNotRead = 87 Note,
    /// The port for clients is open.
    ClientsListened = 95 System,
    /// The certificates were read again.
    TlsRead = 96 Note,
    /// The certificates could not be read again, and stay as they were.
    TlsNotRead = 97 Warning,
    /// Logins are delayed after wrong passwords.
    LoginsDelayed = 98 Warning,
    /// The process has no more file descriptors for clients.
    NoDescriptors = 99 Warning,
    /// The port for those who watch is open.
    WatchersListened = 100 System,
    /// ProxySQL is told which GTIDs are visible.
    GtidsServed = 101 System,
    /// The work of a client's connection met a defect of Slipstream; that connection was ended.
    ClientDefect = 102 Error,
    /// A backup was made.
    BackupMade = 110 System,
    /// A backup was given up.
    BackupFailed = 111 Warning,
    /// Replay stopped, because the condition of START REPLICA UNTIL is met.
    UntilMet = 112 System,
    /// That replay stopped could not be kept for a restart.
    StopNotKept = 113 Warning,
    /// Other replication filters are in force: what they let in is copied, what they leave out is removed.
    FiltersChanged = 114 System,
    /// The token for those who watch was read again.
    TokenRead = 115 Note,
    /// The token could not be read again, and stays as it was.
    TokenNotRead = 116 Warning,
    /// Where the served log of a new relay begins.
    RelayBegins = 120 System,
    /// Definitions for the beginning of the served log were read at the source.
    RelayDefinitions = 121 Note,
    /// A file of the served log was purged.
    ServedPurged = 122 Note,
    /// A file of the served log was purged for the space limit, although a replica reads it.
    ServedInUsePurged = 123 Warning,
    /// The served log is near its space limit.
    ServedNearLimit = 124 Warning,
    /// A replica behind the relay has GTIDs that the source lacks.
    ErrantGtids = 125 Warning,
    /// A file of the served log was purged for the space limit, although a replica for which it is kept lacks it.
    ServedHeldPurged = 126 Warning,
    /// A replica for which served files are kept cannot be asked what it has executed.
    HeldNotAsked = 127 Warning,
    /// A relay does not acknowledge its source, because too few replicas are connected.
    AcksStop = 128 Warning,
    /// Enough replicas are connected again.
    AcksGoOn = 129 Note,
    /// A replica's served log begins anew, because the relay log no longer has what follows.
    ServedBeginsAnew = 130 Warning,
    /// Stamping stopped with an error; what was stamped is served.
    StampingStopped = 131 Error,
}

impl Code {
    /// The number without prefix.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SLIP-{:06}", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (code, level) of each row in the document's table of log codes.
    fn documented() -> Vec<(String, String)> {
        let text = include_str!("../../../docs/operating/reference.md");
        let section = text.split("\n## ").find(|section| section.starts_with("Log codes\n")).unwrap();
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        let rows = section.lines().filter(|line| line.starts_with("| SLIP-")).map(cells);
        rows.map(|row| {
            assert!(row.len() == 6 && row.iter().skip(1).take(4).all(|cell| !cell.is_empty()), "{row:?}");
            (row[1].clone(), row[2].clone())
        })
        .collect()
    }

    #[test]
    fn each_code_is_given_once_and_documented_with_its_level() {
        let codes: Vec<(String, String)> =
            Code::ALL.iter().map(|code| (code.to_string(), code.level().label().to_owned())).collect();
        assert_eq!(codes, documented(), "the table in docs/operating/reference.md is in order of the numbers");
        let numbers: std::collections::BTreeSet<u32> = Code::ALL.iter().map(|code| code.number()).collect();
        assert_eq!(numbers.len(), Code::ALL.len());
    }
}
