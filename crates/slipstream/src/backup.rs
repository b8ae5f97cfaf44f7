//! `slipstream backup` and `restore-folder`: where a backup goes, where it comes from.
//!
//! In: a data folder, the name of a file or `-`. Out: the file under its name once it is whole and durable. Never here:
//! what a backup consists of; a file under its final name that is not whole, or one that was there before.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use accounts::Accounts;
use base::own_files::{OpenFolder, with_suffix};
use observe::PlainText;
use observe::fail_point::{self, Phase};
use replica::{BackupOptions, BackupReport, Exit, Failure, Folder, backup_stopped, restore};
use rustix::fs::{FlockOperation, flock};

use crate::control::{BackupRequest, Client, Request};

/// Stands for standard output and standard input.
const STDIO: &str = "-";
/// Suffix of the file while it is written.
const PART: &str = ".part";
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
    target.keep()?;
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
    tell_accounts(data, &mut out)?;
    let next = writeln!(out, "continue from there: slipstream replica --data {} --source …", data.display());
    next.map_err(|error| Failure::output(&error))
}

fn tell(out: &mut dyn Write, what: &str, report: &BackupReport, began: Instant) -> Result<(), Failure> {
    let seconds = began.elapsed().as_secs_f64();
    let told = writeln!(out, "{what}: {report}; as of {}, in {seconds:.1} s", report.ends_at);
    told.map_err(|error| Failure::output(&error))
}

/// Names who may log in by a backup: whoever wrote it has chosen them.
fn tell_accounts(data: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let path = data.join("accounts");
    if !path.exists() {
        return Ok(());
    }
    let failed = |error: accounts::AccountsError| {
        Failure::new(Exit::Corrupt, error.to_string())
            .with_hint("the folder is restored; remove this file, and add accounts of your own")
    };
    let names = Accounts::open(&path).map_err(failed)?.list().into_iter().map(|account| {
        let rights: Vec<&str> = account.rights.names().collect();
        let name = account.name.to_string().replace(char::is_control, "?");
        format!("{name} ({})", rights.join(", "))
    });
    let names: Vec<String> = names.collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let line = writeln!(out, "its accounts may log in with the passwords they had: {names}");
    line.map_err(|error| Failure::output(&error))
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
    place: Place,
    kept: bool,
}

impl Target {
    fn open(to: &Path) -> Result<Target, Failure> {
        let place = Place::of(to, "file")?;
        let file = match place.above.create(&place.part, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => place.above.reopen(&place.part),
            made => made,
        };
        let file = file.map_err(|error| place.not_ours(&error))?;
        // Of a killed backup it is overwritten, of a running one it is not.
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Failure::error(format!("{}: another backup writes it", place.shown())));
        }
        file.set_len(0).map_err(|error| Failure::io(place.shown(), &error))?;
        Ok(Target { file, place, kept: false })
    }

    fn keep(mut self) -> Result<(), Failure> {
        self.file.sync_all().map_err(|error| Failure::io(self.place.to.display(), &error))?;
        self.place.keep(&self.file, "file")?;
        self.kept = true;
        self.place.sync()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.kept && self.place.above.is(&self.place.part, &self.file).unwrap_or(false) {
            let _ = self.place.above.remove(&self.place.part);
        }
    }
}

/// Where something is written that gets the name `to` once it is whole, in a folder that is kept open: other users may
/// write there.
pub(crate) struct Place {
    /// The whole path, for messages.
    pub to: PathBuf,
    pub above: OpenFolder,
    name: OsString,
    /// Its name until then.
    pub part: OsString,
}

impl Place {
    /// A place for a new `what`, a file or folder.
    ///
    /// # Errors
    /// Code 2 if the name is taken.
    pub(crate) fn of(to: &Path, what: &str) -> Result<Place, Failure> {
        let failed = |error: io::Error| Failure::io(to.display(), &error);
        let (above, name) = OpenFolder::above(to).map_err(failed)?;
        if above.has(&name).map_err(failed)? {
            return Err(taken(to, what));
        }
        let part = with_suffix(&name, PART);
        Ok(Place { to: to.to_owned(), above, name, part })
    }

    /// The path until it is whole, for messages.
    pub(crate) fn shown(&self) -> String {
        self.to.with_file_name(&self.part).display().to_string()
    }

    /// What to do about a name that somebody else may have put there.
    pub(crate) fn not_ours(&self, error: &io::Error) -> Failure {
        let failure = Failure::io(self.shown(), error);
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                failure.with_hint("remove it, or choose a place with --to where only you may write")
            }
            _ => failure,
        }
    }

    /// Gives what is open its name.
    ///
    /// # Errors
    /// Code 2 if the name is taken by now.
    pub(crate) fn keep(&self, open: &impl AsFd, what: &str) -> Result<(), Failure> {
        self.above.rename_new(open, &self.part, &self.name).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => taken(&self.to, what),
            _ => self.not_ours(&error),
        })
    }

    /// Makes the name durable.
    pub(crate) fn sync(&self) -> Result<(), Failure> {
        self.above.sync().map_err(|error| Failure::io(self.to.display(), &error))
    }
}

fn taken(to: &Path, what: &str) -> Failure {
    Failure::usage(format!("{} exists", to.display())).with_hint(format!("name a new {what} with --to"))
}

/// The options of a request.
pub(crate) fn options(request: &BackupRequest) -> BackupOptions {
    BackupOptions { accounts: request.accounts, stalled_after: Duration::from_millis(request.stalled_after_ms) }
}
