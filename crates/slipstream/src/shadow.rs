//! `slipstream shadow`: a proxy through which an application works at its source, and which says what a replica would
//! have answered.
//!
//! In: flags, passwords of both servers. Out: the report, at the end and into a file while it runs. Never here: a
//! statement's literal, unless a file for rows was asked for.

use std::io::Write;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::own_files::OpenFolder;
use client::ConnectOptions;
use replica::{Exit, Failure};
use shadow::{Report, Shadow, ShadowConfig, ShadowError};

use crate::cli::ShadowFlags;
use crate::signals::Signals;

/// Interval at which the file of the report is written anew.
const WRITTEN_EVERY: Duration = Duration::from_secs(5);

/// A folder of our own, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Failure> {
        let path = std::env::temp_dir().join(format!("slipstream-shadow-{}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::io(path.display(), &error))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn failure(error: &ShadowError) -> Failure {
    match error {
        ShadowError::Own { what, source } => Failure::io(what, source),
        other => Failure::error(other.to_string()),
    }
}

/// A server's URL; without a password that of ~/.my.cnf or MYSQL_PWD.
fn server(option: &str, url: &str) -> Result<ConnectOptions, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::usage(format!("{option}: {error}"));
    let mut options = ConnectOptions::from_url(url).map_err(|error| usage(&error))?;
    options.complete_password(None).map_err(|error| usage(&error))?;
    Ok(options)
}

/// Runs until a signal ends it.
///
/// # Errors
/// Code 16 if answers differed; 1, 2 or 8 if it cannot run.
pub(crate) fn run(flags: &ShadowFlags, out: &mut dyn Write) -> Result<(), Failure> {
    let source = server("--source", &flags.source)?;
    if source.password.as_deref().unwrap_or_default().is_empty() {
        let text =
            "--source: clients log in with the name and password of the source's URL, so it must have a password";
        return Err(
            Failure::usage(text).with_hint("put it into MYSQL_PWD, or after the name: mysql://NAME:PASSWORD@HOST")
        );
    }
    let replica = server("--replica", &flags.replica)?;
    let own = match &flags.folder {
        Some(_) => None,
        None => Some(Folder::new()?),
    };
    let folder = own.as_ref().map(|folder| folder.0.clone()).or_else(|| flags.folder.clone()).unwrap_or_default();
    let signals = Signals::install()?;
    let user = source.user.clone();
    let config = ShadowConfig { listen: flags.listen, source, replica, folder, keep_rows: flags.keep_rows.clone() };
    let shadow = Shadow::start(config).map_err(|error| failure(&error))?;
    let address = shadow.address().map_err(|error| Failure::io("the listener", &error))?;
    let line = format!("listening on {address}: clients log in as '{user}', with the source's password");
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| Failure::output(&error))?;
    let stop = signals.stop_flag();
    let ran = std::thread::scope(|scope| {
        if let Some(path) = &flags.report {
            let (shadow, stop) = (&shadow, &stop);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    // The last one is written below, and says what fails.
                    let _ = write(path, &shadow.report());
                    for _ in 0..WRITTEN_EVERY.as_millis() / 100 {
                        if stop.load(Relaxed) {
                            break;
                        }
                        std::thread::sleep(Duration::from_millis(100));
                    }
                }
            });
        }
        let told: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(|line: &str| crate::run::say("slipstream: ", line));
        let ran = shadow.run(&stop, &told);
        stop.store(true, Relaxed);
        ran
    });
    let report = shadow.report();
    let written = flags.report.as_ref().map_or(Ok(()), |path| write(path, &report));
    write!(out, "{report}").map_err(|error| Failure::output(&error))?;
    written?;
    ran.map_err(|error| failure(&error))?;
    if report.different > 0 {
        return Err(Failure::new(Exit::VerifyDifferences, format!("{} answers differ", report.different)));
    }
    Ok(())
}

/// Writes the report beside the file, then over it.
fn write(path: &Path, report: &Report) -> Result<(), Failure> {
    let place = OpenFolder::above(path);
    let written = place.and_then(|(folder, name)| folder.replace(&name, 0o644, report.to_string().as_bytes()));
    written.map_err(|error| Failure::io(path.display(), &error))
}
