//! The data folder: its contents, its owner, and atomic writes of its small files.
//!
//! ```text
//! DIR/slipstream.format   "slipstream 2": format version; a folder without it is ours only if it is empty
//! DIR/slipstream.lock     flock, the owner's pid
//! DIR/slipstream.sock     the control socket of a running replica
//! DIR/auto.cnf            server-uuid, as mysqld keeps it
//! DIR/relay-log/          the relay log and its index
//! DIR/relay-log.cleared/  one that RESET REPLICA removes
//! DIR/store/              the rows as of the last cut (one tree, docs/formats.md)
//! DIR/scratch/            data that does not fit into memory; emptied at every start
//! DIR/skipped             GTIDs to commit empty (`slipstream skip`)
//! DIR/filters             the filters with which its rows were replicated; absent without filters
//! DIR/filter-orders       filters by SQL, and a change of filters that no cut holds yet (`filter_orders`)
//! DIR/source-facts        facts about the source; DIR/source-last: a received transaction as the source has it
//! DIR/moved               what a move to another source leaves to be verified
//! DIR/accounts            who may log in, with password hashes; 0600
//! DIR/accounts-proved     unsalted hashes of passwords that were seen; 0600, in no backup
//! DIR/source-logins       logins at the source of accounts that forward, with passwords; 0600, in no backup
//! DIR/server-cert.pem, DIR/server-key.pem   the certificate that the server made for itself; 0600
//! DIR/source-orders       what CHANGE REPLICATION SOURCE TO changed, with a password; 0600
//! DIR/source-members      members of the source's group, as one of them told last
//! DIR/stopped             what an operator stopped: receiving, replay, or both
//! DIR/running            the machine's boot id, while a replica runs or after one that did not end cleanly
//! DIR/copying, DIR/copying-table   an unfinished copy
//! DIR/backing-up/         links that a running backup copies; removed by every start
//! DIR/restoring           an unfinished `slipstream restore-folder`
//! DIR/relay-start, DIR/served-log/   of a relay, which has no store (`crate::relay`)
//! DIR/aside-TIME/         a relay log and a store that `--start-anew` put aside
//! DIR/last-status.json    the status report at the last stop, and every few seconds before
//! DIR/history             lag and rates of the last 24 hours, a line a minute (`history`)
//! ```

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base::own_files::{give_to_owner_of_folder, may_be_planted};
use base::{GtidSet, Uuid};
use observe::fail_point::{self, Phase};
use observe::{ConnectionState, ReplayState, StatusReport, UnansweredReport};

use crate::access::{self, ASIDE};
use crate::exit::{Exit, Failure};
use crate::failure::error_report;
use crate::lock::{FolderLock, LOCK_FILE, owner};
use crate::log::{self, Code};

/// Replication filters, one rule per line.
pub(crate) const FILTERS_FILE: &str = "filters";
/// A relay log that RESET REPLICA cleared, until it is removed.
const CLEARED: &str = "relay-log.cleared";
/// The last status report.
const STATUS_FILE: &str = "last-status.json";
/// Lag and rates of the last minutes.
const HISTORY_FILE: &str = "history";
/// The boot id of the machine that a replica runs on.
const RUNNING_FILE: &str = "running";
pub(crate) const FORMAT_FILE: &str = "slipstream.format";
/// Mark of a folder that is being made of a backup: no replica may take it.
pub(crate) const RESTORING_FILE: &str = "restoring";
const FORMAT_NAME: &str = "slipstream";
const FORMAT_VERSION: u32 = 2;

/// Largest accepted state file, in bytes.
const STATE_BYTES_MAX: u64 = 64 << 20;

/// A data folder whose format was checked. The lock returned with it decides whether it may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    server_uuid: Uuid,
}

impl Folder {
    /// Takes the folder for this process; creates it if it is absent or empty.
    ///
    /// # Errors
    /// Code 3 if another process has it; 7 if it is not ours, or of another format version; 8 for disk errors.
    pub fn own(path: &Path) -> Result<(Folder, FolderLock), Failure> {
        let failed = |error: io::Error| Failure::io(path.display(), &error);
        fs::DirBuilder::new().recursive(true).mode(0o750).create(path).map_err(failed)?;
        refuse_planted(path)?;
        refuse_half_restored(path)?;
        // Check before the lock file is created, to leave no trace in a folder that is not ours.
        if !path.join(FORMAT_FILE).exists() {
            refuse_foreign(path)?;
        }
        let lock = FolderLock::exclusive(path)?;
        refuse_half_restored(path)?;
        match read_small(&path.join(FORMAT_FILE))? {
            Some(text) => check_format(path, &text)?,
            None => {
                refuse_foreign(path)?;
                sync_name(path).map_err(failed)?;
                new_uuid_file(path)?;
                let format = format!("{FORMAT_NAME} {FORMAT_VERSION}\n");
                write_atomically(&path.join(FORMAT_FILE), format.as_bytes())?;
            }
        }
        Ok((Folder { path: path.to_owned(), server_uuid: read_uuid(path)? }, lock))
    }

    /// Opens a stopped folder for reading.
    ///
    /// # Errors
    /// Code 3 if a process has it; 7 if it is not ours; 1 if there is none.
    pub fn open_stopped(path: &Path) -> Result<(Folder, FolderLock), Failure> {
        Folder::check(path)?;
        let lock = FolderLock::shared(path)?;
        Ok((Folder { path: path.to_owned(), server_uuid: read_uuid(path)? }, lock))
    }

    /// Checks that the folder is ours, without taking it.
    ///
    /// # Errors
    /// Code 7 if it is not ours; 1 if there is none.
    pub fn check(path: &Path) -> Result<(), Failure> {
        fs::metadata(path).map_err(|error| Failure::error(format!("data folder {}: {error}", path.display())))?;
        refuse_half_restored(path)?;
        match read_small(&path.join(FORMAT_FILE))? {
            Some(text) => check_format(path, &text),
            None => Err(not_ours(path, &format!("it has no {FORMAT_FILE}"))),
        }
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[must_use]
    pub fn server_uuid(&self) -> Uuid {
        self.server_uuid
    }

    /// The server_id used if none is configured. It is derived from the uuid, so that it never changes, and is in the
    /// upper half, away from the small numbers that people give their servers.
    #[must_use]
    pub fn default_server_id(&self) -> u32 {
        let [a, b, c, d, ..] = self.server_uuid.0;
        u32::from_be_bytes([a, b, c, d]) | 0x8000_0000
    }

    /// Removes the relay log, all at once: a crash leaves it whole or gone.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub fn clear_relay_log(&self) -> Result<(), Failure> {
        self.clear(&self.relay_log())
    }

    /// Removes the served log, as [`clear_relay_log`](Self::clear_relay_log) does.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub(crate) fn clear_served_log(&self) -> Result<(), Failure> {
        self.clear(&self.served_log())
    }

    fn clear(&self, part: &Path) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::io(part.display(), &error);
        self.remove_cleared();
        match fs::rename(part, self.path.join(CLEARED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result.map_err(failed)?,
        }
        File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(failed)?;
        self.remove_cleared();
        Ok(())
    }

    /// Removes what a log that was cleared left. One that cannot be removed takes space, and nothing else.
    pub(crate) fn remove_cleared(&self) {
        let _ = fs::remove_dir_all(self.path.join(CLEARED));
    }

    /// The file of the accounts that may log in.
    #[must_use]
    pub fn accounts(&self) -> PathBuf {
        self.path.join("accounts")
    }

    /// Folder of the relay log.
    #[must_use]
    pub(crate) fn relay_log(&self) -> PathBuf {
        self.path.join("relay-log")
    }

    /// Folder of the served log.
    #[must_use]
    pub(crate) fn served_log(&self) -> PathBuf {
        self.path.join("served-log")
    }

    /// The file with the GTIDs that a relay's served log begins after.
    #[must_use]
    pub(crate) fn relay_start(&self) -> PathBuf {
        self.path.join("relay-start")
    }

    /// The file with the GTIDs that a replica's served log begins after.
    #[must_use]
    pub(crate) fn served_start(&self) -> PathBuf {
        self.path.join("served-start")
    }

    /// Folder of the tree.
    #[must_use]
    pub(crate) fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Folder for data that does not fit into memory.
    #[must_use]
    pub(crate) fn scratch(&self) -> PathBuf {
        self.path.join("scratch")
    }

    /// Puts the relay log and the store aside, so that a start fetches everything again; all else in the folder stays.
    /// Returns where they are now; None if there was neither.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub fn put_aside(&self) -> Result<Option<PathBuf>, Failure> {
        let failed = |error: io::Error| Failure::io(self.path.display(), &error);
        // The store last: if only the others are moved, the next start goes on from it.
        // What was served is of that relay log.
        let all = [self.served_start(), self.served_log(), self.relay_log(), self.store()];
        let there: Vec<&PathBuf> = all.iter().filter(|part| part.exists()).collect();
        if there.is_empty() {
            return Ok(None);
        }
        let at = observe::utc_text(observe::now_us());
        let at: String = at.chars().filter(char::is_ascii_digit).take(14).collect();
        let names =
            (1..).map(|number| format!("{ASIDE}{at}{}", if number > 1 { format!("-{number}") } else { String::new() }));
        let aside = names.map(|name| self.path.join(name)).find(|path| !path.exists()).unwrap_or_default();
        fs::DirBuilder::new().mode(0o750).create(&aside).map_err(failed)?;
        for part in there {
            let Some(name) = part.file_name() else { continue };
            fs::rename(part, aside.join(name)).map_err(failed)?;
            File::open(&aside).and_then(|folder| folder.sync_all()).map_err(failed)?;
            self.sync()?;
        }
        Ok(Some(aside))
    }

    /// Makes the names of everything created in the folder durable: store and relay log sync only their own folders.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub(crate) fn sync(&self) -> Result<(), Failure> {
        let synced = File::open(&self.path).and_then(|folder| folder.sync_all());
        synced.map_err(|error| Failure::io(self.path.display(), &error))
    }

    /// Bytes available to us in its file system.
    ///
    /// # Errors
    /// The system does not say.
    pub(crate) fn free_bytes(&self) -> Result<u64, Failure> {
        let facts = rustix::fs::statvfs(&self.path).map_err(|error| Failure::io(self.path.display(), &error.into()))?;
        Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
    }

    /// Stores a report for `status` on the stopped folder. Not synced, because nothing depends on it.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub fn keep_last_status(&self, report: &StatusReport) -> Result<(), Failure> {
        self.keep_unsynced(STATUS_FILE, report.to_json().as_bytes())
    }

    /// Stores what the last minutes were like. Not synced, because nothing depends on it.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub(crate) fn keep_history(&self, text: &[u8]) -> Result<(), Failure> {
        self.keep_unsynced(HISTORY_FILE, text)
    }

    /// What was stored of the last minutes; None if it cannot be read.
    pub(crate) fn kept_history(&self) -> Option<String> {
        read_small(&self.path.join(HISTORY_FILE)).ok().flatten()
    }

    fn keep_unsynced(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        let path = self.path.join(name);
        let temporary = self.path.join(format!("{name}.tmp"));
        let written = fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, &path));
        written.map_err(|error| {
            // On a full disk it would stay behind empty.
            let _ = fs::remove_file(&temporary);
            Failure::io(path.display(), &error)
        })
    }

    /// True if a replica ran on another boot of the machine, and did not end cleanly: what it showed may be lost, since
    /// rows are visible before the relay log is synced. A note that cannot be read says the same, and so does one where
    /// the boot is not known.
    #[must_use]
    pub fn lost_power(&self) -> bool {
        match read_small(&self.path.join(RUNNING_FILE)) {
            Ok(note) => note.is_some_and(|noted| may_be_of_another_boot(&noted, boot_id().as_deref())),
            Err(_) => true,
        }
    }

    /// Notes that a replica runs on this boot of the machine.
    ///
    /// # Errors
    /// Code 8 for disk errors; the note of the earlier run is then still there.
    pub fn note_running(&self) -> Result<(), Failure> {
        let boot = boot_id().unwrap_or_else(|| "a boot that is not known".to_owned());
        let (path, now) = (self.path.join(RUNNING_FILE), format!("{boot}\n"));
        // After a kill it is there.
        if read_small(&path).is_ok_and(|before| before.as_deref() == Some(&now)) {
            return Ok(());
        }
        write_atomically(&path, now.as_bytes())
    }

    /// Takes the note back: all that was visible is durable. A note that comes back after a power cut costs a question.
    pub fn ended_cleanly(&self) {
        let _ = fs::remove_file(self.path.join(RUNNING_FILE));
    }

    /// Takes back, durably, what the last report says of the end of replay: from now on the folder goes further. A
    /// power cut would bring that report back otherwise, since later ones are not synced.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub(crate) fn begin_run(&self) -> Result<(), Failure> {
        if !self.last_whole_report()?.replay.ended {
            return Ok(());
        }
        let mut report = self.last_status();
        report.replay.ended = false;
        write_atomically(&self.path.join(STATUS_FILE), report.to_json().as_bytes())
    }

    /// The last stored report, unchanged. A damaged one counts as none, and the log says so: reports are not synced, so
    /// a power cut may tear one. How the last run ended is then unknown, as after a kill.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub(crate) fn last_whole_report(&self) -> Result<StatusReport, Failure> {
        match self.kept_status() {
            Err(failure) if failure.exit == Exit::Corrupt => {
                let text = format!("{}; the folder is read as after a kill", failure.text);
                log::write(Code::FolderKept, "Server", &text);
                Ok(StatusReport::default())
            }
            kept => Ok(kept?.unwrap_or_default()),
        }
    }

    /// A GTID set of the last stored report.
    ///
    /// # Errors
    /// Code 7 if it is none.
    pub(crate) fn set_of_report(&self, key: &str, text: &str) -> Result<GtidSet, Failure> {
        text.parse().map_err(|_| self.damaged_report(key, text))
    }

    /// A value of the last stored report that no release writes.
    pub(crate) fn damaged_report(&self, key: &str, value: &str) -> Failure {
        let path = self.path.join(STATUS_FILE);
        let shown: String = value.chars().take(80).collect();
        let text = format!("{}: {key} is '{}'", path.display(), shown.escape_debug());
        Failure::new(Exit::Corrupt, text).with_hint(removal(&path, "the folder is then read as after a kill"))
    }

    /// The last stored report; None if there is none.
    fn kept_status(&self) -> Result<Option<StatusReport>, Failure> {
        let path = self.path.join(STATUS_FILE);
        let Some(text) = read_small(&path)? else { return Ok(None) };
        let report = serde_json::from_str(&text);
        let broken = |error| Failure::new(Exit::Corrupt, format!("{}: not a status report: {error}", path.display()));
        report.map(Some).map_err(|error| broken(error).with_hint(removal(&path, "a running replica writes it again")))
    }

    /// The last stored report of a replica that runs and does not answer, with its age; None if there is none.
    #[must_use]
    pub fn saved_status(path: &Path) -> Option<StatusReport> {
        let file = path.join(STATUS_FILE);
        let age = file.metadata().and_then(|facts| facts.modified()).ok()?.elapsed().unwrap_or_default();
        let mut report: StatusReport = serde_json::from_str(&read_small(&file).ok()??).ok()?;
        let age_us = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        report.unanswered = Some(UnansweredReport { pid: owner(path), status_age_us: age_us });
        Some(report)
    }

    /// The last stored report, changed to that of a stopped replica. If it cannot be read, the report is empty and its
    /// last error says why.
    #[must_use]
    pub fn last_status(&self) -> StatusReport {
        let unread = |failure| StatusReport { last_error: Some(error_report(&failure)), ..StatusReport::default() };
        let mut report = self.kept_status().map_or_else(unread, Option::unwrap_or_default);
        report.running = false;
        report.pid = None;
        report.uptime_us = 0;
        report.source.state = ConnectionState::Stopped;
        if report.replay.state != ReplayState::Failed {
            report.replay.state = ReplayState::Stopped;
        }
        report.replay.detail.clear();
        report.backups.clear();
        report.lag.current_us = None;
        report.lag.last_1s = observe::LagSummary::default();
        report.lag.last_10s = observe::LagSummary::default();
        report.rates.last_1s = observe::RateSample::default();
        report.rates.last_10s = observe::RateSample::default();
        report.memory = observe::MemoryReport::default();
        report.cpu_us = 0;
        report.threads.clear();
        report.disk.folder_bytes = observe::folder_bytes(&self.path);
        report.disk.relay_log_bytes = observe::folder_bytes(&self.relay_log());
        report.disk.free_bytes = self.free_bytes().ok();
        report.data = self.path.display().to_string();
        report.server_uuid = self.server_uuid.to_string();
        if report.version.is_empty() {
            report.version = env!("CARGO_PKG_VERSION").to_owned();
        }
        if report.server_id == 0 {
            report.server_id = self.default_server_id();
        }
        if report.at.is_empty() {
            report.at = observe::utc_text(observe::now_us());
        }
        report
    }
}

fn may_be_of_another_boot(noted: &str, boot: Option<&str>) -> bool {
    boot.is_none_or(|boot| noted.trim() != boot)
}

/// A name that the kernel gives each boot of the machine; None where it does not tell it.
fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|boot| !boot.is_empty())
}

/// Whether the mode of a file of a data folder is set at a start.
fn is_listed(path: &Path) -> bool {
    let is_of_data_folder = path.with_file_name(FORMAT_FILE).exists();
    let name = path.file_name().and_then(|name| name.to_str());
    !is_of_data_folder || name.is_some_and(access::is_ours)
}

/// Writes a file completely or not at all: new file, sync, rename, sync of the folder.
///
/// # Errors
/// Code 8 for disk errors, with advice for a full disk; the old content is then unchanged.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_with_mode(path, bytes, 0o640)
}

/// As [`write_atomically`], a file that only its owner may read.
pub(crate) fn write_secret(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_with_mode(path, bytes, 0o600)
}

fn write_with_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    debug_assert!(is_listed(path), "{} is not in the list of access.rs", path.display());
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let write = || -> io::Result<()> {
        // What a crash left could have another mode.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::options().write(true).create_new(true).mode(mode).open(&temporary)?;
        give_to_owner_of_folder(&file, path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fail_point::enter(Phase::Keep);
        fs::rename(&temporary, path)?;
        fail_point::enter(Phase::Keep);
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(|error| {
        // It may occupy the last free space. Best effort: the next write removes it first.
        let _ = fs::remove_file(&temporary);
        Failure::io(path.display(), &error)
    })
}

/// Makes the name of a new folder durable, and the names of the folders above it, which may also be new. Stops at a
/// folder that we may not open and at a mount point: those existed before.
pub(crate) fn sync_name(path: &Path) -> io::Result<()> {
    let path = path.canonicalize()?;
    let device = path.metadata()?.dev();
    for above in path.ancestors().skip(1) {
        if above.metadata()?.dev() != device {
            break;
        }
        match File::open(above).and_then(|folder| folder.sync_all()) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
            result => result?,
        }
    }
    Ok(())
}

/// The text of a state file; None if there is no such file.
///
/// # Errors
/// Code 7 if it is larger than any of our files or not text; 8 for disk errors.
pub(crate) fn read_small(path: &Path) -> Result<Option<String>, Failure> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::io(path.display(), &error)),
    };
    let mut bytes = Vec::new();
    let read = file.take(STATE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::io(path.display(), &error))?;
    if bytes.len() as u64 > STATE_BYTES_MAX {
        return Err(Failure::new(
            Exit::Corrupt,
            format!("{}: too large to be one of Slipstream's files", path.display()),
        ));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(Failure::new(Exit::Corrupt, format!("{}: not one of Slipstream's text files", path.display()))),
    }
}

/// Advice for a damaged file that a folder can do without: remove it, and what happens `then`.
pub(crate) fn removal(path: &Path, then: &str) -> String {
    format!("rm {}; {then}", path.display())
}

/// Refuses a data folder that somebody may have laid out at this path: its owner could exchange what is in it.
///
/// # Errors
/// Code 2; 8 for disk errors.
pub(crate) fn refuse_planted(path: &Path) -> Result<(), Failure> {
    if !may_be_planted(path).map_err(|error| Failure::io(path.display(), &error))? {
        return Ok(());
    }
    let text = format!("{} is another user's, in a folder where others may write", path.display());
    Err(Failure::usage(text).with_hint("chown it, if you trust its contents, or name another one with --data"))
}

/// Refuses a folder with anything except what an interrupted start of ours leaves: it belongs to someone else.
fn refuse_foreign(path: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::io(path.display(), &error);
    for entry in fs::read_dir(path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        let ours = [LOCK_FILE, "auto.cnf", "auto.cnf.tmp", "slipstream.format.tmp", "lost+found"];
        if !ours.contains(&name.as_ref()) {
            return Err(not_ours(path, &format!("it holds '{name}' and has no {FORMAT_FILE}")));
        }
    }
    // mysqld has a file of the same name; without our lock file it is mysqld's.
    if path.join("auto.cnf").exists() && !path.join(LOCK_FILE).exists() {
        return Err(not_ours(path, "it holds 'auto.cnf' of another server"));
    }
    Ok(())
}

/// Refuses a folder whose restore has not ended: some of its files are missing.
fn refuse_half_restored(path: &Path) -> Result<(), Failure> {
    if !path.join(RESTORING_FILE).exists() {
        return Ok(());
    }
    let text = format!("{}: a restore from a backup runs here, or was interrupted", path.display());
    let hint = format!("slipstream restore-folder --from FILE --data {}", path.display());
    Err(Failure::new(Exit::Corrupt, text).with_hint(hint))
}

fn not_ours(path: &Path, reason: &str) -> Failure {
    Failure::new(Exit::Corrupt, format!("{} is not a data folder of Slipstream: {reason}", path.display()))
}

/// Checks the content of the format file of a folder.
///
/// # Errors
/// Code 7 if it is of another version, or no format file of ours.
pub(crate) fn check_format(path: &Path, text: &str) -> Result<(), Failure> {
    match text.trim_end().split_once(' ') {
        Some((FORMAT_NAME, version)) if version.parse() == Ok(FORMAT_VERSION) => Ok(()),
        Some((FORMAT_NAME, version)) => Err(Failure::new(
            Exit::Corrupt,
            format!(
                "{}: format version '{}', this program reads {FORMAT_VERSION}: use the release that wrote it{}",
                path.display(),
                version.escape_default(),
                release_of(path).map_or_else(String::new, |release| format!(" ({release})"))
            ),
        )),
        _ => Err(not_ours(path, &format!("{FORMAT_FILE} is not one of ours"))),
    }
}

/// The program that last ran on a folder, as its last report says; reports are read across releases.
fn release_of(path: &Path) -> Option<String> {
    let text = read_small(&path.join(STATUS_FILE)).ok()??;
    let report: serde_json::Value = serde_json::from_str(&text).ok()?;
    let version = report.get("version")?.as_str()?;
    Some(format!("slipstream {}", version.escape_default()))
}

fn read_uuid(path: &Path) -> Result<Uuid, Failure> {
    let file = path.join("auto.cnf");
    let text = read_small(&file)?.unwrap_or_default();
    let uuid = text.lines().find_map(|line| line.trim().strip_prefix("server-uuid=")).and_then(|u| u.parse().ok());
    uuid.ok_or_else(|| Failure::new(Exit::Corrupt, format!("{}: no server-uuid in it", file.display())))
}

/// Gives the folder a new uuid, durably.
pub(crate) fn new_uuid_file(path: &Path) -> Result<(), Failure> {
    let uuid = new_uuid()?;
    write_atomically(&path.join("auto.cnf"), format!("[auto]\nserver-uuid={uuid}\n").as_bytes())
}

/// A random uuid (version 4).
fn new_uuid() -> Result<Uuid, Failure> {
    let mut bytes = [0u8; 16];
    let random = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    random.map_err(|error| Failure::io("/dev/urandom", &error))?;
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
    *version = (*version & 0x0f) | 0x40;
    *variant = (*variant & 0x3f) | 0x80;
    Ok(Uuid(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_once_then_opened_with_the_same_identity() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let (first, lock) = Folder::own(&path).unwrap();
        assert_eq!(Folder::own(&path).unwrap_err().exit, Exit::FolderInUse);
        assert_eq!(Folder::open_stopped(&path).unwrap_err().exit, Exit::FolderInUse);
        drop(lock);
        let (again, lock) = Folder::own(&path).unwrap();
        assert_eq!(first, again);
        assert!(again.default_server_id() >= 0x8000_0000);
        assert_eq!(again.server_uuid().to_string().len(), 36);
        drop(lock);
        let (read, lock) = Folder::open_stopped(&path).unwrap();
        assert_eq!(read, first);
        assert!(!lock.is_exclusive());
        assert!(read.free_bytes().is_ok());
    }

    #[test]
    fn only_a_run_of_this_boot_or_a_clean_end_has_lost_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::own(&dir.path().join("a")).unwrap();
        let note = folder.path.join(RUNNING_FILE);
        assert!(!folder.lost_power());
        folder.note_running().unwrap();
        assert!(!folder.lost_power());
        for other in [&b"another boot"[..], b"", b"\xff\xfe", &[b'0'; STATE_BYTES_MAX as usize + 1]] {
            fs::write(&note, other).unwrap();
            assert!(folder.lost_power());
        }
        fs::remove_file(&note).unwrap();
        fs::create_dir(&note).unwrap();
        assert!(folder.lost_power() && folder.note_running().is_err());
        fs::remove_dir(&note).unwrap();
        folder.note_running().unwrap();
        folder.ended_cleanly();
        assert!(!folder.lost_power());
        assert!(!may_be_of_another_boot("this one\n", Some("this one")));
        assert!(may_be_of_another_boot("this one\n", Some("")) && may_be_of_another_boot("\n", None));
    }

    #[test]
    fn folders_of_others_are_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ibdata1"), "x").unwrap();
        let failure = Folder::own(dir.path()).unwrap_err();
        assert_eq!(failure.exit, Exit::Corrupt);
        assert!(failure.text.contains("'ibdata1'"), "{}", failure.text);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
        assert_eq!(Folder::open_stopped(dir.path()).unwrap_err().exit, Exit::Corrupt);
        assert_eq!(Folder::open_stopped(&dir.path().join("none")).unwrap_err().exit, Exit::Error);
        let mysqld = tempfile::tempdir().unwrap();
        fs::write(mysqld.path().join("auto.cnf"), "[auto]\n").unwrap();
        assert_eq!(Folder::own(mysqld.path()).unwrap_err().exit, Exit::Corrupt);
    }

    #[test]
    fn an_interrupted_start_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        drop(Folder::own(dir.path()).unwrap());
        fs::remove_file(dir.path().join(FORMAT_FILE)).unwrap();
        assert!(Folder::own(dir.path()).is_ok());
    }

    #[test]
    fn other_versions_and_broken_files_are_code_7() {
        let dir = tempfile::tempdir().unwrap();
        drop(Folder::own(dir.path()).unwrap());
        for text in [b"slipstream 3\n".as_slice(), b"slipstream \n", b"", b"other 1\n", b"\xff\xfe"] {
            fs::write(dir.path().join(FORMAT_FILE), text).unwrap();
            assert_eq!(Folder::own(dir.path()).unwrap_err().exit, Exit::Corrupt);
            assert_eq!(Folder::open_stopped(dir.path()).unwrap_err().exit, Exit::Corrupt);
        }
        fs::write(dir.path().join(FORMAT_FILE), "slipstream 2\n").unwrap();
        fs::write(dir.path().join("auto.cnf"), "[auto]\nserver-uuid=nonsense\n").unwrap();
        assert_eq!(Folder::own(dir.path()).unwrap_err().exit, Exit::Corrupt);
    }

    #[test]
    fn files_are_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"2").unwrap();
        assert_eq!(read_small(&path).unwrap().as_deref(), Some("2"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(read_small(&dir.path().join("none")).unwrap(), None);
        assert!(write_atomically(&dir.path().join("no/such"), b"x").is_err());
    }

    /// Found by power cuts: a report of an earlier stop came back, and what was received since was not read.
    #[test]
    fn a_run_takes_back_that_replay_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::own(dir.path()).unwrap();
        let mut report = StatusReport::default();
        report.replay.ended = true;
        report.replay.check_images = "all".into();
        folder.keep_last_status(&report).unwrap();
        folder.begin_run().unwrap();
        let kept = folder.last_status().replay;
        assert_eq!((kept.ended, kept.check_images.as_str()), (false, "all"));
        fs::remove_file(dir.path().join("last-status.json")).unwrap();
        folder.begin_run().unwrap();
        assert!(!dir.path().join("last-status.json").exists());
    }

    #[test]
    fn what_is_put_aside_is_kept_under_a_new_name() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::own(dir.path()).unwrap();
        assert_eq!(folder.put_aside().unwrap(), None);
        fs::write(dir.path().join("skipped"), "x").unwrap();
        let mut places = Vec::new();
        for text in ["one", "two"] {
            fs::create_dir(folder.store()).unwrap();
            fs::write(folder.store().join("current"), text).unwrap();
            let aside = folder.put_aside().unwrap().unwrap();
            assert!(!folder.store().exists() && !places.contains(&aside));
            assert_eq!(fs::read_to_string(aside.join("store/current")).unwrap(), text);
            places.push(aside);
        }
        assert_eq!(fs::read_to_string(dir.path().join("skipped")).unwrap(), "x");
        assert_eq!(Folder::own(dir.path()).unwrap_err().exit, Exit::FolderInUse);
    }

    #[test]
    fn the_last_status_is_that_of_a_stopped_replica() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::own(dir.path()).unwrap();
        assert!(!folder.last_status().running);
        let mut report = StatusReport { running: true, pid: Some(1), ..StatusReport::default() };
        report.replay.state = ReplayState::Failed;
        report.lag.current_us = Some(1);
        report.gtid.executed = "x:1-3".to_owned();
        folder.keep_last_status(&report).unwrap();
        let last = folder.last_status();
        assert!(!last.running && last.pid.is_none() && last.lag.current_us.is_none());
        assert_eq!(last.replay.state, ReplayState::Failed);
        assert_eq!(last.gtid.executed, "x:1-3");
        let path = dir.path().join(STATUS_FILE);
        for damaged in [&b"{"[..], b"", b"\xff"] {
            fs::write(&path, damaged).unwrap();
            let last = folder.last_status();
            assert_eq!(last.gtid.executed, "");
            assert!(last.last_error.unwrap().text.contains(path.to_str().unwrap()));
            assert_eq!(folder.last_whole_report().unwrap(), StatusReport::default());
            folder.begin_run().unwrap();
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(folder.last_status().last_error, None);
        fs::create_dir(&path).unwrap();
        assert!(folder.last_whole_report().unwrap_err().text.contains(path.to_str().unwrap()));
        assert!(folder.begin_run().is_err() && folder.last_status().last_error.is_some());
    }
}
