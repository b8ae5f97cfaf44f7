//! Runs the subcommands: from arguments to exit code.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use base::units::parse_span;
use clap::{ArgMatches, Args as _, CommandFactory as _, FromArgMatches as _};
use observe::ReplayState;
use replica::{
    CopyInProgress, Exit, Failure, Folder, FolderLock, Replica, access,
    config::{ReplicaConfig, SourceSpec, url_has_password},
    failure::error_report,
    log::{self, Code},
    skip,
};

use crate::cli::{
    Cli, Command, CopyFlags, DriftFlags, DumpFlags, FileFlags, PasswordFlag, ReplicaFlags, SkipFlags, StatusFlags,
    VerifyFlags, normalised,
};
use crate::control::{Client, ControlServer, DumpRequest, Request, VerifyRequest};
use crate::options::{self, Flags};
use crate::settings::{Settings, relay_sync_text};
use crate::signals::Signals;
use crate::{log_file, reading, requests, watch};

/// Interval at which the main thread checks signals and the replica's outcome.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The same interval until the duration of recovery is logged: it must not distort that figure.
const LOOK_WHILE_RECOVERING: Duration = Duration::from_millis(2);

/// A stop that takes longer ends the process: the folder is then as after a crash, which every start handles.
const STOP_WITHIN: Duration = Duration::from_millis(4500);

/// How long a running compaction may keep the store open before the engine is restarted in the same process.
const LET_GO_WITHIN: Duration = Duration::from_secs(60);

/// Interval at which the status is stored for `status` after a crash.
const KEEP_STATUS_EVERY: Duration = Duration::from_secs(10);

/// Reads the option files, and applies the pipeline's options of a command's flags over them.
pub type ReadSettings<'a> = &'a dyn Fn(&ArgMatches) -> Result<Settings, Failure>;

/// A command of another crate, offered by the program beside its own.
pub struct Extension {
    /// Name and arguments of the command.
    pub command: clap::Command,
    /// Runs the command with its arguments.
    pub run: fn(&ArgMatches, ReadSettings<'_>) -> Result<(), Failure>,
}

/// Adds the options of threads and memory to a command.
#[must_use]
pub fn with_pipeline_options(command: clap::Command) -> clap::Command {
    Flags::<{ options::PIPELINE }>::augment_args(command)
}

/// The whole command line.
#[must_use]
pub fn command(extension: &Extension) -> clap::Command {
    Cli::command().subcommand(extension.command.clone())
}

/// Runs the program.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>, extension: &Extension) -> ExitCode {
    log_file::install();
    let matches = match command(extension).try_get_matches_from(normalised(arguments)) {
        Ok(matches) => matches,
        Err(error) => return usage_error(&error),
    };
    let result = match matches.subcommand() {
        Some((name, given)) if name == extension.command.get_name() => {
            let read = |given: &ArgMatches| {
                let files = FileFlags::from_arg_matches(&matches).map_err(|error| Failure::usage(error.to_string()))?;
                let flags = Flags::<{ options::PIPELINE }>::from_arg_matches(given);
                let flags = flags.map_err(|error| Failure::usage(error.to_string()))?;
                settings(&files, &flags.given, None)
            };
            (extension.run)(given, &read)
        }
        _ => match Cli::from_arg_matches(&matches) {
            Ok(cli) => dispatch(cli),
            Err(error) => return usage_error(&error),
        },
    };
    match result {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            if !failure.text.is_empty() {
                eprintln!("slipstream: {}", replica::config::mask_passwords(&failure.text));
                if let Some(hint) = &failure.hint {
                    eprintln!("slipstream: hint: {hint}");
                }
            }
            failure.exit.into()
        }
    }
}

fn usage_error(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage.code()))
}

fn dispatch(cli: Cli) -> Result<(), Failure> {
    let files = &cli.files;
    let mut out = std::io::stdout().lock();
    match cli.command {
        Command::Replica(flags) => {
            drop(out);
            replica(files, &flags)
        }
        Command::Check(flags) => check(files, &flags, &mut out),
        Command::Status(flags) => status(files, &flags, &mut out),
        Command::Verify(flags) => verify(files, flags, &mut out),
        Command::Dump(flags) => dump(files, flags, &mut out),
        Command::Copy(flags) => copy(files, &flags, &mut out),
        Command::Skip(flags) => skip_gtids(files, &flags, &mut out),
        Command::Drift(flags) => drift(files, &flags, &mut out),
        Command::CheckStore(flags) => check_store(&data(files, &flags)?, &mut out),
        Command::Stop(flags) => stop(&data(files, &flags)?),
        Command::Pause(flags) => ask_running(&data(files, &flags)?, &Request::Pause {}).map(|_| ()),
        Command::Resume(flags) => ask_running(&data(files, &flags)?, &Request::Resume {}).map(|_| ()),
    }
}

fn settings(
    files: &FileFlags,
    flags: &[(&'static str, Option<String>)],
    password: Option<&PasswordFlag>,
) -> Result<Settings, Failure> {
    let mut settings = Settings::load(&files.files(), flags)?;
    if password.is_some_and(|flag| flag.ask_password) {
        settings.set_password(crate::password::ask("Enter password: ")?);
    }
    Ok(settings)
}

fn data(files: &FileFlags, flag: &Flags<{ options::DATA }>) -> Result<PathBuf, Failure> {
    settings(files, &flag.given, None)?.data()
}

/// Sends a request that needs a running replica.
fn ask_running(folder: &Path, request: &Request) -> Result<Option<serde_json::Value>, Failure> {
    match Client::connect(folder)? {
        Some(client) => client.ask(request, &mut std::io::sink()),
        None => {
            Folder::check(folder)?;
            Err(Failure::error(format!("no replica runs on {}", folder.display())))
        }
    }
}

fn replica(files: &FileFlags, flags: &ReplicaFlags) -> Result<(), Failure> {
    let settings = settings(files, &flags.options.given, Some(&flags.password))?;
    let config = settings.replica()?;
    // Set before the first thread starts: files created by the store's threads must not be open to others.
    let umask = access::set_umask(config.access);
    log_file::init(settings.log(), umask)?;
    if flags.options.value("source").is_some_and(url_has_password) {
        let text = "the password is on the command line, where other users can see it: use an option file or MYSQL_PWD";
        log::write(Code::PasswordOnCommandLine, "Server", text);
    }
    let signals = Signals::install()?;
    let log_is_stderr = settings.log().file.is_none();
    let result = own_and_follow(config, &signals);
    match &result {
        Ok(()) => log::write(Code::Stopped, "Server", "stopped at a transaction boundary"),
        Err(failure) => log_failure(failure),
    }
    // Do not print it twice on stderr.
    result.map_err(|failure| if log_is_stderr { Failure { text: String::new(), ..failure } } else { failure })
}

fn own_and_follow(config: ReplicaConfig, signals: &Signals) -> Result<(), Failure> {
    let (folder, lock) = Folder::own(&config.data)?;
    let about = format!(
        "slipstream {} starting as process {}: source {}, data {}, relay-sync {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        config.source.shown(),
        config.data.display(),
        relay_sync_text(config.relay_sync)
    );
    log::write(Code::Started, "Server", &about);
    narrow(&folder, config.access);
    let source = config.source.shown();
    let result = follow(config, &folder, &lock, signals);
    if let Err(failure) = &result {
        keep_failure(&folder, source, failure);
    }
    result
}

/// Narrows the modes of files from older versions, and of folders that the operator created, which may be open to
/// others.
fn narrow(folder: &Folder, access: access::Access) {
    if let Err(failed) = access::narrow(folder.path(), access) {
        log::write(Code::FolderNotNarrowed, "Server", &failed.to_string());
    }
}

/// Stores the failure, so that `status` on the stopped folder shows it even if the engine never started.
fn keep_failure(folder: &Folder, source: String, failure: &Failure) {
    let mut report = folder.last_status();
    report.source.uri = source;
    report.replay.state = ReplayState::Failed;
    report.last_error = Some(error_report(failure));
    let _ = folder.keep_last_status(&report);
}

/// Runs the engine until its end. If the relay log is damaged and the source can send that part again, the engine is
/// restarted: it truncates the log, fetches what is missing and continues.
fn follow(config: ReplicaConfig, folder: &Folder, lock: &FolderLock, signals: &Signals) -> Result<(), Failure> {
    let mut mended_at = None;
    loop {
        let (failure, damaged) = match run_engine(&config, folder, lock, signals)? {
            Life::Ended => return Ok(()),
            Life::Damaged(failure, damaged) => (failure, damaged),
        };
        // The same position again: fetching once more would not help.
        if signals.stop_asked() || mended_at == Some(damaged.visible) || !damaged.is_let_go() {
            return Err(failure);
        }
        mended_at = Some(damaged.visible);
        let text = format!("{}; truncating the relay log and fetching the rest again", damaged.text);
        log::write(Code::RelayLogDamaged, "Relay", &text);
    }
}

/// Outcome of one run of the engine.
enum Life {
    /// Ended as requested.
    Ended,
    /// Ended with this failure, which a restart repairs.
    Damaged(Failure, Damaged),
}

/// A relay log that replay could not read.
struct Damaged {
    text: String,
    /// Number of visible transactions.
    visible: u64,
    store: Weak<store::Store>,
}

impl Damaged {
    /// Waits until the store is closed; false if that takes too long.
    fn is_let_go(&self) -> bool {
        let until = Instant::now() + LET_GO_WITHIN;
        while self.store.strong_count() > 0 {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }
}

/// Starts the engine, opens the socket, and runs both until the end.
fn run_engine(config: &ReplicaConfig, folder: &Folder, lock: &FolderLock, signals: &Signals) -> Result<Life, Failure> {
    let started = Arc::new(AtomicBool::new(false));
    end_while_starting(signals.stop_flag(), Arc::clone(&started));
    // The socket also answers during an initial copy; it is closed when the returned value is dropped.
    let watch_copy = |copy: Arc<CopyInProgress>| -> Result<Box<dyn std::any::Any>, Failure> {
        Ok(Box::new(ControlServer::start(folder.path(), lock, requests::of_copy(copy))?))
    };
    let replica = Replica::start(config, folder, &watch_copy);
    started.store(true, SeqCst);
    let replica = Arc::new(replica?);
    let handler = requests::of_replica(Arc::clone(&replica));
    let mut control = match ControlServer::start(folder.path(), lock, handler) {
        Ok(control) => control,
        Err(failure) => {
            replica.stop();
            wait_for_outcome(&replica);
            return Err(failure);
        }
    };
    let outcome = supervise(&replica, folder, signals);
    let _ = folder.keep_last_status(&replica.status());
    control.stop();
    let Err(failure) = outcome else { return Ok(Life::Ended) };
    let Some(damage) = replica.damage() else { return Err(failure) };
    let (store, visible) = replica.store_and_watermark();
    Ok(Life::Damaged(failure, Damaged { text: damage.to_string(), visible, store }))
}

/// Runs until the replica has ended, or until a stop takes too long.
fn supervise(replica: &Arc<Replica>, folder: &Folder, signals: &Signals) -> Result<(), Failure> {
    let mut stopping: Option<Instant> = None;
    let mut kept = Instant::now();
    loop {
        if let Some(outcome) = replica.outcome() {
            return outcome;
        }
        if stopping.is_some_and(|since| since.elapsed() >= STOP_WITHIN) {
            log::write(
                Code::StopTimedOut,
                "Server",
                "the receiver did not stop in time; the next start checks the relay log",
            );
            return Ok(());
        }
        if signals.stop_asked() && stopping.is_none() {
            stopping = Some(Instant::now());
            log::write(Code::StopSignal, "Server", "received a signal to stop; stopping at a transaction boundary");
            replica.stop();
        }
        if signals.take_reopen() {
            match log_file::reopen() {
                Ok(()) => log::write(Code::LogReopened, "Server", "log file reopened"),
                Err(failure) => log::write(Code::LogNotReopened, "Server", &failure.text),
            }
        }
        replica.housekeep();
        if kept.elapsed() >= KEEP_STATUS_EVERY {
            kept = Instant::now();
            // The relay log reports a full disk; this report is only a convenience.
            let _ = folder.keep_last_status(&replica.status());
        }
        std::thread::sleep(if replica.is_recovering() { LOOK_WHILE_RECOVERING } else { LOOK_EVERY });
    }
}

/// Ends the process if a stop is requested during the first connection to the source, which may take long: nothing is
/// running yet.
fn end_while_starting(stop: Arc<AtomicBool>, started: Arc<AtomicBool>) {
    let look = move || {
        while !started.load(SeqCst) {
            if stop.load(SeqCst) {
                std::process::exit(Exit::Done.code().into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    };
    // Without this thread a stop waits for the connection's own time limit.
    let _ = std::thread::Builder::new().name("starting".into()).spawn(look);
}

fn wait_for_outcome(replica: &Replica) {
    while replica.outcome().is_none() {
        std::thread::sleep(LOOK_EVERY);
    }
}

fn log_failure(failure: &Failure) {
    let number = failure.number.map(|number| format!("Error {number}: ")).unwrap_or_default();
    let hint = failure.hint.as_ref().map(|command| format!(" Hint: {command}")).unwrap_or_default();
    let text = format!("{number}{} (exit {}: {}){hint}", failure.text, failure.exit.code(), failure.exit);
    log::write(Code::ReplicaFailed, "Replica", &text);
}

fn check(files: &FileFlags, flags: &ReplicaFlags, out: &mut dyn Write) -> Result<(), Failure> {
    let mut settings = settings(files, &flags.options.given, Some(&flags.password))?;
    if !settings.has_data() {
        settings = settings.with_data(PathBuf::new());
    }
    let result = replica::check(&settings.replica()?, out);
    out.flush().map_err(|error| Failure::output(&error))?;
    result
}

fn status(files: &FileFlags, flags: &StatusFlags, out: &mut dyn Write) -> Result<(), Failure> {
    let data = data(files, &flags.data)?;
    if flags.watch {
        let interval = span_flag("interval", &flags.interval)?;
        let in_place = std::io::stdout().is_terminal();
        let options = watch::WatchOptions { interval, count: flags.count, in_place };
        return watch::watch(&data, options, &Signals::install()?, out);
    }
    let lag_max = flags.max_lag.as_deref().map(|text| span_flag("max-lag", text)).transpose()?;
    let report = match watch::poll(&data)? {
        Some(report) => report,
        None => {
            let (folder, _lock) = Folder::open_stopped(&data)?;
            folder.last_status()
        }
    };
    let text = if flags.json { report.to_json() + "\n" } else { report.to_text() };
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))?;
    let above = lag_max.and_then(|span| report.lag_above(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)));
    above.map_or(Ok(()), |reason| Err(Failure::error(reason)))
}

fn span_flag(name: &str, text: &str) -> Result<Duration, Failure> {
    parse_span(text, "s").map_err(|reason| Failure::usage(format!("--{name}: {reason}")))
}

fn verify(files: &FileFlags, flags: VerifyFlags, out: &mut dyn Write) -> Result<(), Failure> {
    let settings = settings(files, &flags.options.given, Some(&flags.password))?;
    let source = match settings.source() {
        None => None,
        Some(SourceSpec::Server(server)) => Some(server),
        Some(SourceSpec::Files(_)) if flags.options.value("source").is_none() => None,
        Some(SourceSpec::Files(_)) => {
            return Err(Failure::usage("verify needs a server: --source mysql://USER@HOST:PORT"));
        }
    };
    let mut options =
        VerifyRequest { source, tables: flags.tables, differences_max: flags.max_differences, json: flags.json };
    check_table_names(&options.tables)?;
    if let Some(replica) = &flags.replica {
        let missing = || Failure::usage("both servers are needed: --source URL --replica URL");
        let source = options.source.take().ok_or_else(missing)?;
        let result = reading::verify_servers(&source, &settings.server(replica), &options, out);
        out.flush().map_err(|error| Failure::output(&error))?;
        return result;
    }
    on_folder(
        &settings.data()?,
        &Request::Verify(options.clone()),
        |folder, out| reading::stopped_verify(folder, &options, out),
        out,
    )
}

fn dump(files: &FileFlags, flags: DumpFlags, out: &mut dyn Write) -> Result<(), Failure> {
    let data = data(files, &flags.data)?;
    check_table_names(&flags.tables)?;
    let options = DumpRequest {
        tables: flags.tables,
        format: flags.format,
        all_columns: flags.all_columns,
        binary_as_hex: flags.binary_as_hex,
        definitions: flags.definitions,
    };
    on_folder(&data, &Request::Dump(options.clone()), |folder, out| reading::stopped_dump(folder, &options, out), out)
}

fn copy(files: &FileFlags, flags: &CopyFlags, out: &mut dyn Write) -> Result<(), Failure> {
    let data = data(files, &flags.data)?;
    check_table_names(std::slice::from_ref(&flags.table))?;
    match Client::connect(&data)? {
        Some(client) => client.ask(&Request::Copy { table: flags.table.clone() }, out).map(|_| ()),
        None => {
            Folder::check(&data)?;
            Err(Failure::error(format!(
                "no replica runs on {}: copying a table needs a running replica",
                data.display()
            )))
        }
    }
}

fn drift(files: &FileFlags, flags: &DriftFlags, out: &mut dyn Write) -> Result<(), Failure> {
    let data = data(files, &flags.data)?;
    check_table_names(flags.accept.as_slice())?;
    let reply = ask_running(&data, &Request::Drift { accept: flags.accept.clone() })?;
    let text = match (&flags.accept, reply.as_ref().and_then(|body| body.as_str())) {
        (Some(table), _) => format!("{table} is accepted as it is; after a pause: slipstream resume\n"),
        (None, Some("") | None) => "no table is known to differ from the source\n".to_owned(),
        (None, Some(text)) => text.to_owned(),
    };
    out.write_all(text.as_bytes()).map_err(|error| Failure::output(&error))
}

fn check_store(data: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    match Client::connect(data)? {
        Some(client) => client.ask(&Request::CheckStore {}, out).map(|_| ()),
        None => {
            Folder::check(data)?;
            let text = format!("no replica runs on {}: checking a store needs a running replica", data.display());
            Err(Failure::error(text))
        }
    }
}

fn check_table_names(tables: &[String]) -> Result<(), Failure> {
    let wrong = tables
        .iter()
        .find(|name| !matches!(name.split_once('.'), Some((db, table)) if !db.is_empty() && !table.is_empty()));
    wrong.map_or(Ok(()), |name| Err(Failure::usage(format!("'{name}' is not SCHEMA.TABLE"))))
}

/// Sends the request to the running replica, or opens the stopped folder for reading.
fn on_folder(
    data: &Path,
    request: &Request,
    stopped: impl FnOnce(&Folder, &mut dyn Write) -> Result<(), Failure>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if let Some(client) = Client::connect(data)? {
        return client.ask(request, out).map(|_| ());
    }
    let (folder, _lock) = Folder::open_stopped(data)?;
    let mut out = std::io::BufWriter::with_capacity(64 << 10, out);
    let result = stopped(&folder, &mut out);
    out.flush().map_err(|error| Failure::output(&error))?;
    result
}

fn skip_gtids(files: &FileFlags, flags: &SkipFlags, out: &mut dyn Write) -> Result<(), Failure> {
    let data = data(files, &flags.data)?;
    let set = skip::parse(&flags.gtid_set)?;
    let say = |out: &mut dyn Write, when: &str| {
        writeln!(out, "{set} will be committed empty {when}").map_err(|error| Failure::output(&error))
    };
    if let Some(client) = Client::connect(&data)? {
        client.ask(&Request::Skip { gtid_set: set.to_string() }, &mut std::io::sink())?;
        return say(out, "when replay meets it");
    }
    // Must not create a folder that is absent, and must not touch one that is not ours.
    Folder::check(&data)?;
    access::set_umask(settings(files, &[], None)?.access());
    let (folder, _lock) = Folder::own(&data)?;
    skip::add(&folder, &set)?;
    say(out, "at the next start")
}

/// Requests a stop, and returns once the folder is free.
fn stop(data: &Path) -> Result<(), Failure> {
    ask_running(data, &Request::Stop {})?;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match FolderLock::shared(data) {
            Ok(_) => return Ok(()),
            Err(failure) if failure.exit == Exit::FolderInUse && Instant::now() < deadline => {
                std::thread::sleep(LOOK_EVERY);
            }
            Err(failure) if failure.exit == Exit::FolderInUse => {
                return Err(Failure::error("the replica was asked to stop 60 s ago and still runs"));
            }
            Err(failure) => return Err(failure),
        }
    }
}
