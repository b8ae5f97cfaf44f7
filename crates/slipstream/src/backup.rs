//! `slipstream backup` and `restore-folder`: where a backup goes, where it comes from.
//!
//! In: a data folder, the name of a file or `-`. Out: the file under its name once it is whole and durable. Never here:
//! what a backup consists of; a file under its final name that is not whole, or one that was there before.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use observe::PlainText;
use observe::fail_point::{self, Phase};
use replica::{BackupOptions, BackupReport, Exit, Failure, Folder, backup_stopped, restore};
use rustix::fs::{FlockOperation, flock};

use crate::control::{BackupRequest, Client, Request};

/// Stands for standard output and standard input.
const STDIO: &str = "-";
/// Suffix of the file while it is written.
const PART: &str = ".part";

/// Where something is written that gets the name `to` once it is whole.
pub(crate) fn part_of(to: &Path) -> PathBuf {
    let mut part = OsString::from(to);
    part.push(PART);
    part.into()
}
/// Size of the buffer for reading a backup, in bytes.
const BUFFER: usize = 1 << 20;

/// Makes a backup of a data folder, of a running replica or a stopped one.
///
/// # Errors
/// Code 2 if the file exists; as [`Replica::backup`](replica::Replica::backup).
pub(crate) fn backup(data: &Path, to: &Path, options: &BackupOptions) -> Result<(), Failure> {
    let began = Instant::now();
    Folder::check(data)?;
    if to.as_os_str() == STDIO {
        let report = make(data, options, &mut Saved(io::stdout().lock()))?;
        return tell(&mut io::stderr().lock(), "backup", &report, began);
    }
    let target = Target::open(to)?;
    let report = make(data, options, &mut Saved(&target.file))?;
    target.keep(to)?;
    tell(&mut PlainText::new(io::stdout().lock()), &format!("backup {}", to.display()), &report, began)
}

fn make(data: &Path, options: &BackupOptions, out: &mut dyn Write) -> Result<BackupReport, Failure> {
    let Some(client) = Client::connect(data)? else {
        let (folder, _lock) = Folder::open_stopped(data)?;
        return backup_stopped(&folder, options, out);
    };
    let request = BackupRequest {
        accounts: options.accounts,
        stalled_after_ms: u64::try_from(options.stalled_after.as_millis()).unwrap_or(u64::MAX),
    };
    let body = client.ask(&Request::Backup(request), out).map_err(|failure| match failure.hint {
        None if failure.exit == Exit::Error => failure.with_hint("the replica's log says more: SLIP-000111"),
        _ => failure,
    })?;
    serde_json::from_value(body.unwrap_or_default())
        .map_err(|error| Failure::error(format!("the replica's answer: {error}")))
}

/// Makes a data folder of a backup.
///
/// # Errors
/// As [`restore`]; code 8 if the backup cannot be read.
pub(crate) fn restore_folder(from: &Path, data: &Path) -> Result<(), Failure> {
    let began = Instant::now();
    let report = if from.as_os_str() == STDIO {
        restore(&mut io::stdin().lock(), data)?
    } else {
        let failed = |error: io::Error| Failure::io(from.display(), &error);
        let file = File::open(from).map_err(failed)?;
        restore(&mut (Box::new(BufReader::with_capacity(BUFFER, file)) as Box<dyn Read>), data)?
    };
    let mut out = PlainText::new(io::stdout().lock());
    tell(&mut out, &format!("restored {}", data.display()), &report, began)?;
    let next = writeln!(out, "go on from there: slipstream replica --data {} --source …", data.display());
    next.map_err(|error| Failure::output(&error))
}

fn tell(out: &mut dyn Write, what: &str, report: &BackupReport, began: Instant) -> Result<(), Failure> {
    let seconds = began.elapsed().as_secs_f64();
    let told = writeln!(out, "{what}: {report}; as of {}, in {seconds:.1} s", report.ends_at);
    told.map_err(|error| Failure::output(&error))
}

/// A writer with a fail point in front of each write.
struct Saved<W: Write>(W);

impl<W: Write> Write for Saved<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        fail_point::enter(Phase::Save);
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A file that gets its name once it is whole. It is removed when it is dropped before.
struct Target {
    file: File,
    part: PathBuf,
    kept: bool,
}

impl Target {
    fn open(to: &Path) -> Result<Target, Failure> {
        refuse_existing(to, "file")?;
        let part = part_of(to);
        let failed = |error: io::Error| Failure::io(part.display(), &error);
        let opened = File::options().write(true).create(true).truncate(false).mode(0o600).open(&part);
        let file = opened.map_err(failed)?;
        // Of a killed backup it is overwritten, of a running one it is not.
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Failure::error(format!("{}: another backup writes it", part.display())));
        }
        file.set_len(0).map_err(failed)?;
        Ok(Target { file, part, kept: false })
    }

    fn keep(mut self, to: &Path) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::io(to.display(), &error);
        self.file.sync_all().map_err(failed)?;
        refuse_existing(to, "file")?;
        std::fs::rename(&self.part, to).map_err(failed)?;
        self.kept = true;
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// Refuses to write a new `what`, a file or folder, under a name that is taken.
pub(crate) fn refuse_existing(to: &Path, what: &str) -> Result<(), Failure> {
    if to.exists() {
        let hint = format!("name a new {what} with --to");
        return Err(Failure::usage(format!("{} exists", to.display())).with_hint(hint));
    }
    Ok(())
}

/// The options of a request.
pub(crate) fn options(request: &BackupRequest) -> BackupOptions {
    BackupOptions { accounts: request.accounts, stalled_after: Duration::from_millis(request.stalled_after_ms) }
}
