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
    Warning,
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
    ($($(#[doc = $meaning:literal])+ $name:ident = $number:literal $level:ident $action:literal,)*) => {
        /// Codes of messages, printed `SLIP-000001`. The comment of each is its meaning in docs/operating/reference.md.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Code {
            $($(#[doc = $meaning])+ $name = $number,)*
        }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The level of its lines.
            #[must_use]
            pub fn level(self) -> Level {
                match self {
                    $(Code::$name => Level::$level,)*
                }
            }

            /// What a line with this code says, in Markdown.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Code::$name => concat!($($meaning),+).trim_ascii(),)*
                }
            }

            /// What an operator does about it, in Markdown.
            #[must_use]
            pub fn action(self) -> &'static str {
                match self {
                    $(Code::$name => $action,)*
                }
            }
        }
    };
}

// 5, 40, 41, 43 and 44 were once reserved but never used.
codes! {
    /// The program has started.
    Started = 1 System "nothing",
    /// Stopped at a transaction boundary, as requested.
    Stopped = 2 System "nothing",
    /// A signal requested a stop.
    StopSignal = 3 System "nothing",
    /// The log file was reopened after SIGHUP.
    LogReopened = 4 Note "nothing",
    /// An operator gave a command: copy, pause, resume or skip.
    OperatorCommand = 6 Note "nothing",
    /// A password is on the command line.
    PasswordOnCommandLine = 7 Warning "use an option file or MYSQL_PWD",
    /// The receiver did not end within 4.5 s of a stop; the process ended without waiting for it.
    StopTimedOut = 8 Warning "nothing; the next start checks the relay log",
    /// The log file could not be reopened.
    LogNotReopened = 9 Warning "check its folder, then send SIGHUP",
    /// An operator requested a stop.
    OperatorStop = 10 System "nothing",
    /// Permissions in the data folder could not be narrowed; the line names the first one.
    FolderNotNarrowed = 11 Warning "set them",
    /// The relay log was truncated to its last whole transaction.
    RelayLogTruncated = 20 Warning "nothing after a crash; otherwise check the disk",
    /// What a start found, and where replay begins.
    FolderKept = 21 Note "nothing",
    /// Relay log files are missing; their transactions are in the store.
    RelayLogFilesGone = 22 Warning "find out who removed them",
    /// A cut is durable.
    Cut = 23 Note "nothing",
    /// Relay log files could not be purged.
    PurgeFailed = 24 Warning "check permissions; the next cut tries again",
    /// An initial copy is needed; the line estimates tables, rows, bytes and time.
    InitialCopyNeeded = 25 System "nothing",
    /// The initial copy has its snapshots.
    InitialCopyBegun = 26 System "nothing",
    /// The initial copy is complete.
    InitialCopyDone = 27 System "nothing",
    /// Progress of the initial copy.
    InitialCopyProgress = 28 Note "nothing",
    /// The remains of an unfinished initial copy were removed.
    InitialCopyRemoved = 29 Warning "nothing; it starts over",
    /// Connected to the source.
    Connected = 30 System "nothing",
    /// The connection to the source was lost or refused.
    ConnectionLost = 31 Warning "check the source if it repeats",
    /// A setting of the source works, but could be better.
    PreflightWarning = 32 Warning "read the line; it has the statement that changes it",
    /// The kept relay log was replayed; the line says how long it took.
    Recovered = 33 Note "nothing",
    /// A copy without a lock has been read and is not consistent yet.
    CopyNotConsistentYet = 34 System "wait; its rows cannot be read yet",
    /// The copy without a lock is consistent.
    CopyConsistent = 35 System "nothing; its rows can be read",
    /// A copy of one table began or ended.
    TableCopy = 36 System "nothing",
    /// A table is in quarantine, and its copy begins.
    TableInQuarantine = 37 Warning "nothing",
    /// The initial copy skipped a table.
    TableLeftOut = 38 Warning "nothing; it is copied later",
    /// Something slows down or endangers the initial copy.
    CopyCheckWarning = 39 Warning "read the line",
    /// A transaction was committed empty, as requested.
    Skipped = 42 System "`slipstream copy` the tables it changed",
    /// The replica ended with an error; the line has the reason and the exit code.
    ReplicaFailed = 50 Error "follow the hint in the line",
    /// The relay log is damaged; the damaged part is fetched again.
    RelayLogDamaged = 51 Warning "check the disk",
    /// The relay log could not be searched for damage.
    DamageSearchFailed = 52 Warning "check the disk",
    /// A start found a copy without a lock that is not consistent yet.
    CopyFoundNotConsistent = 53 Note "wait; its rows cannot be read yet",
    /// An attempt at the initial copy failed; another one follows.
    InitialCopyRetried = 54 Warning "read the reason if it repeats",
    /// Information about the initial copy.
    InitialCopyNote = 55 Note "nothing",
    /// A stopped folder could not be replayed to the end of its relay log.
    ReplayIncomplete = 56 Warning "rows were read as of where the line says",
    /// A copy of one table failed; the table is unchanged.
    TableCopyFailed = 57 Warning "follow the reason in the line",
    /// An attempt at a copy of one table failed; another one follows.
    TableCopyRetried = 58 Warning "nothing",
    /// The process ended during a copy of one table; the table is unchanged.
    TableCopyAbandoned = 59 Warning "run `slipstream copy` again",
    /// Rows of a table contradict the log: the table differs from the source's.
    TableDiffers = 60 Error "find out who changed them: [Tables that differ](copies.md#tables-that-differ)",
    /// The source cannot compute a virtual column of a table that was copied; only its stored columns were.
    VirtualColumnsUnknown = 61 Warning "correct the expression or the rows",
    /// A table was copied whose tablespace is discarded on the source.
    TablespaceDiscarded = 62 Warning "IMPORT TABLESPACE on the source",
    /// Receiving, replay or stamping is waiting for free disk space.
    WaitsForSpace = 63 Warning "free space; it continues by itself",
    /// A table holds rows outside their partition's rule, so only whole row images identify its rows.
    MisplacedRows = 64 Warning "[Rows outside their partition](../compatibility.md#rows-outside-their-partition)",
    /// Disk space is free again, and receiving, replay or stamping continues.
    GoesOnWithSpace = 65 System "nothing",
    /// Replay stopped with an error; the process keeps running.
    SqlStopped = 66 Error "follow the hint in the line",
    /// Receiving stopped with an error; the process keeps running.
    IoStopped = 67 Error "follow the hint in the line",
    /// The engine was restarted in the same process.
    EngineStarted = 68 System "nothing",
    /// The source refuses the login; the same password is not tried again for an hour.
    LoginRefused = 69 Error "write the new password to the option file",
    /// The option files were read again.
    OptionsRead = 70 Note "nothing",
    /// The option files could not be read again; the options stay as they were.
    OptionsNotRead = 71 Warning "read the line",
    /// The source's history may have changed: its log was purged, so this cannot be checked.
    HistoryUnknown = 72 Warning "run `slipstream verify` to be sure",
    /// The disk is nearly full, or will be within a day.
    DiskNearlyFull = 73 Warning "free space",
    /// The disk was full or a sync failed; the engine restarts.
    DiskFailed = 74 Error "check the disk",
    /// A file of the store is damaged.
    StoreFileDamaged = 76 Warning "check the disk: [Damage and crashes](stops.md#damage-and-crashes)",
    /// A damaged file of the store was removed, because nothing needs it any more.
    StoreFileGone = 77 System "nothing",
    /// Replay hit a damaged file of the store; the engine restarts without the tables in that file.
    EngineRestarted = 78 Warning "check the disk",
    /// `--start-anew` moved the store aside.
    StorePutAside = 79 System "remove that folder when you no longer need it",
    /// The slow check of all files has begun.
    ScrubBegun = 80 Note "nothing",
    /// The slow check of all files has ended; the line has its result.
    ScrubDone = 81 Note "nothing",
    /// The slow check found damage in the relay log, or could not read a file.
    ScrubTrouble = 82 Warning "check the disk",
    /// Every user can read an option file with a password.
    OptionFileReadable = 83 Warning "`chmod o-r` it",
    /// The source's certificate is not verified; an impostor may have got the password.
    SourceNotVerified = 84 Warning "`--ssl-mode=VERIFY_IDENTITY`, `--source-ssl-ca=FILE`",
    /// An operator added, changed or removed an account.
    AccountChanged = 85 Note "nothing",
    /// An account uses mysql_native_password.
    NativePassword = 86 Warning "`slipstream account password` with `--plugin caching_sha2_password`",
    /// The source's named time zones cannot be read, or are too many.
    ZonesNotRead = 87 Note "grant the privileges named under [Supported statements](clients.md#supported-statements)",
    /// Row changes that the source logs twice around its cascades were passed over; the line has table and GTID.
    LoggedTwice = 88 Note "nothing; a stock replica stops there with 1032",
    /// Listening for clients; the line has the address.
    ClientsListened = 95 System "nothing",
    /// The certificates were read again.
    TlsRead = 96 Note "nothing",
    /// The certificates could not be read again; the old ones stay in use.
    TlsNotRead = 97 Warning "correct the files, then send SIGHUP",
    /// Ten wrong passwords in a row came from one address; its logins are delayed.
    LoginsDelayed = 98 Warning "find out who it is",
    /// There are no more file descriptors for clients.
    NoDescriptors = 99 Warning "raise `ulimit -n`",
    /// Serving the status page and metrics; the line has the address.
    WatchersListened = 100 System "nothing",
    /// Telling ProxySQL which GTIDs are visible; the line has the address.
    GtidsServed = 101 System "nothing",
    /// A client's connection hit a defect of Slipstream and was ended.
    ClientDefect = 102 Error "report the line and those before it",
    /// A backup was made; the line has rows, bytes, GTIDs and time.
    BackupMade = 110 System "nothing",
    /// A backup was abandoned; the line has the reason.
    BackupFailed = 111 Warning "remove the cause, then back up again",
    /// Replay stopped at the condition of START REPLICA UNTIL.
    UntilMet = 112 System "nothing",
    /// A stop of replay by UNTIL could not be saved, so a restart would start replay.
    StopNotKept = 113 Warning "free space, then `slipstream stop sql`",
    /// Other replication filters are in force; the line counts tables added and removed.
    FiltersChanged = 114 System "nothing",
    /// The token of `--http-token-file` was read again.
    TokenRead = 115 Note "nothing",
    /// The token of `--http-token-file` could not be read again; the old one stays in use.
    TokenNotRead = 116 Warning "correct the file, then send SIGHUP",
    /// A new served log begins; the line has the GTIDs before it.
    RelayBegins = 120 System "nothing",
    /// Definitions of tables older than the served log were read, or could not be; the line names tables whose
    /// definitions were not understood.
    RelayDefinitions = 121 Note "nothing",
    /// A file of the served log was purged.
    ServedPurged = 122 Note "nothing",
    /// A served file that a replica is reading was purged because of the space limit.
    ServedInUsePurged = 123 Warning "raise the limit; check that this replica has everything",
    /// The served log is near `--serve-space-limit`.
    ServedNearLimit = 124 Warning "raise the limit, or help replicas to keep up",
    /// A replica behind the relay has GTIDs that the source lacks.
    ErrantGtids = 125 Warning "find their origin: a failover to that replica would spread them",
    /// A served file that a held replica has not executed was purged because of the space limit.
    ServedHeldPurged = 126 Warning "raise the limit; that replica may have to be rebuilt",
    /// A held replica cannot be asked what it has executed.
    HeldNotAsked = 127 Warning "check its URL, account and network; or `relay hold --remove`",
    /// Too few replicas are connected, so the relay does not acknowledge transactions to its source.
    AcksStop = 128 Warning "connect replicas, or lower `--ack-after-replicas`",
    /// Enough replicas are connected again.
    AcksGoOn = 129 Note "nothing",
    /// A replica starts a new served log, because its relay log lacks what follows; the line names the missing GTIDs.
    ServedBeginsAnew = 130 Warning "rebuild replicas that lack them; always start with `--serve-log`",
    /// Stamping for stock replicas stopped; stamped transactions are still served, and replay continues.
    StampingStopped = 131 Error "as the line says; then `slipstream start sql`",
    /// The source has tables that its log does not hold; the line names them.
    TablesMissing = 132 Warning "nothing; under `--copy=never`: `slipstream copy` them",
    /// The source's tables were listed, or are all here.
    TablesCompared = 133 Note "nothing",
    /// Transactions that a source lacked changed tables here; the line names them.
    TablesToVerify = 134 Warning "`slipstream verify`, then `slipstream copy` or `slipstream drift --accept`",
    /// The source is another server now, and nothing proves that it has all that was received before.
    MoveNotProven = 135 Warning "`slipstream check-store` compares all rows now",
    /// All rows from before such a move were compared.
    MoveCompared = 136 Note "nothing",
    /// One of several sources cannot be followed, or no longer; the next one is tried.
    SourceLeft = 137 Warning "look at that source; `slipstream status` shows which one is followed",
    /// A member of the source's group is not followed, or not kept for the next start.
    MemberNotDialled = 138 Warning "read the line",
    /// The source was asked how definitions are that its log does not settle or hold.
    DefinitionsAsked = 140 Note "nothing",
    /// The source could not be asked about definitions; the line has the reason.
    DefinitionsNotAsked = 141 Warning "grant the privileges that it names, or remove the cause; it is asked again",
    /// Another server answers as the source; the line has both `server_uuid`s.
    SourceReplaced = 150 System "nothing, if that was intended",
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

    #[test]
    fn each_code_is_given_once_and_in_order() {
        let numbers: Vec<u32> = Code::ALL.iter().map(|code| code.number()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
}
