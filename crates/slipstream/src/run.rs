//! Runs the subcommands: from arguments to exit code.

use std::any::Any;
use std::cell::Cell;
use std::ffi::OsString;
use std::io::{IsTerminal as _, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use accounts::Accounts;
use base::units::parse_span;
use base::{GtidSet, UntilGtids};
use clap::{ArgMatches, Args as _, CommandFactory as _, FromArgMatches as _};
use engine::{
    DiskMend, DoorSettings, Engine, GtidPort, OpenDoor, OpenWeb, ReplicaThread, Supervision, Wanted, engine_facts,
};
use observe::{ErrorReport, PlainText, ReplayState, StatusReport, now_us};
use replica::{
    BackupOptions, BeginReplay, CopyInProgress, Exit, Failure, FilterOrders, Folder, FolderLock, MemoryPlan, Receive,
    Replica, Reread, SourceLogin, SourceOrders, Start, Stopped, access,
    config::{OnStop, ReplicaConfig, Secret, SourceSpec, url_has_password},
    failure::error_report,
    folder_owner,
    log::{self, Code},
    skip,
};
use store::{Closing, DiskSpace, FreeSpace};

use crate::cli::{
    BackupFlags, Cli, Command, CopyFlags, DriftFlags, DumpFlags, ExecuteFlags, FileFlags, PasswordFlag, RelayCommand,
    RelayFlags, ReplicaFlags, SkipFlags, StartFlags, StatusFlags, VerifyFlags, normalised,
};
use crate::control::{Answers, Client, ControlServer, DumpRequest, Request, Until, VerifyRequest};
use crate::options::{self, Flags};
use crate::settings::{Settings, relay_sync_text};
use crate::signals::Signals;
use crate::{account, backup, dump_folder, ended, log_file, option_file, reading, requests, watch};

/// Interval at which the main thread checks signals and the replica's outcome.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The same interval until the duration of recovery is logged: it must not distort that figure.
const LOOK_WHILE_RECOVERING: Duration = Duration::from_millis(2);

/// A stop that takes longer ends the process: the folder is then as after a crash, which every start handles.
const STOP_WITHIN: Duration = Duration::from_millis(4500);

/// How long a running compaction may keep the store open before the engine is restarted in the same process.
const LET_GO_WITHIN: Duration = Duration::from_secs(60);

/// Interval at which the main thread looks whether the folder is still the one that it owns.
const LOOK_AT_FOLDER_EVERY: Duration = Duration::from_secs(1);

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

#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>, extension: &Extension) -> ExitCode {
    log_file::install();
    programs::hidden::from_core_files();
    let arguments = programs::hidden::arguments(arguments.into_iter().collect());
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
            programs::say_why(programs::PROGRAM, &failure);
            failure.exit.into()
        }
    }
}

/// A message on stderr, where a server's or a file's own text must not steer the terminal.
pub(crate) fn say(prefix: &str, text: &str) {
    eprint!("{}", observe::prefixed_lines(prefix, text));
}

fn usage_error(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage.code()))
}

fn dispatch(cli: Cli) -> Result<(), Failure> {
    let files = &cli.files;
    let mut out = PlainText::new(std::io::stdout().lock());
    match cli.command {
        Command::Replica(flags) => {
            drop(out);
            replica(files, &flags.common, flags.start_anew)
        }
        Command::Relay(RelayFlags { command: Some(RelayCommand::Check(flags)), .. }) => {
            let settings = settings(files, &flags.data.given, None)?;
            let data = settings.data()?;
            let status = || ask_running(&data, &Request::Status {});
            crate::relay_check::check(&settings.server(&flags.replica), status, &mut out)
        }
        Command::Relay(RelayFlags { command: Some(RelayCommand::Hold(flags)), .. }) => {
            crate::relay_hold::run(&settings(files, &flags.data.given, None)?, &flags, &mut out)
        }
        Command::Relay(flags) => {
            drop(out);
            relay(files, &flags)
        }
        Command::Check(flags) => check(files, &flags, &mut out),
        Command::Status(flags) => {
            drop(out);
            status(files, &flags, &mut std::io::stdout().lock())
        }
        Command::Verify(flags) => verify(files, flags, &mut out),
        Command::Dump(flags) => {
            drop(out);
            dump(files, flags, &mut std::io::stdout().lock())
        }
        Command::Backup(flags) => {
            drop(out);
            backup(files, &flags)
        }
        Command::RestoreFolder(flags) => {
            drop(out);
            let settings = settings(files, &flags.data.given, None)?;
            access::set_umask(settings.access());
            backup::restore_folder(&flags.from, &settings.data()?)
        }
        Command::Copy(flags) => copy(files, &flags, &mut out),
        Command::Skip(flags) => skip_gtids(files, &flags, &mut out),
        Command::Drift(flags) => drift(files, &flags, &mut out),
        Command::CheckStore(flags) => check_store(&data(files, &flags)?, &mut out),
        Command::Start(flags) => start(files, &flags),
        Command::Stop(flags) => stop(&data(files, &flags.data)?, flags.thread),
        Command::Execute(flags) => execute(files, &flags, &mut out),
        Command::Reload(flags) => reload(&data(files, &flags)?, &mut out),
        Command::Pause(flags) => ask_running(&data(files, &flags)?, &Request::Pause {}).map(|_| ()),
        Command::Resume(flags) => ask_running(&data(files, &flags)?, &Request::Resume {}).map(|_| ()),
        Command::Shadow(flags) => crate::shadow::run(&flags, &mut out),
        Command::Manual(flags) => crate::manual::write(&flags.folder, &mut out),
        Command::Account(flags) => {
            let settings = settings(files, &flags.command.data().given, None)?;
            account::run(&settings.data()?, &flags.command, settings.access(), &mut out)
        }
    }
}

fn settings(
    files: &FileFlags,
    flags: &[(&'static str, Option<String>)],
    password: Option<&PasswordFlag>,
) -> Result<Settings, Failure> {
    let settings = load(files, flags, password)?;
    for warning in settings.warnings() {
        say("slipstream: warning: ", warning);
    }
    Ok(settings)
}

/// As [`settings`], without a word about the option files.
fn load(
    files: &FileFlags,
    flags: &[(&'static str, Option<String>)],
    password: Option<&PasswordFlag>,
) -> Result<Settings, Failure> {
    let mut settings = Settings::load(&files.files(), flags)?;
    match password.and_then(|flag| flag.password.as_deref()) {
        None => {}
        Some("") => settings.set_password(crate::password::ask("Enter password: ")?),
        Some(password) => settings.set_password(Secret(password.to_owned())),
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

fn replica(files: &FileFlags, flags: &ReplicaFlags, start_anew: bool) -> Result<(), Failure> {
    let settings = load(files, &flags.options.given, Some(&flags.password))?;
    let config = settings.replica()?;
    // Set before the first thread starts: files created by the store's threads must not be open to others.
    let umask = access::set_umask(config.access);
    log_file::init(settings.log(), umask)?;
    for warning in settings.warnings() {
        log::write(Code::OptionFileReadable, "Server", warning);
    }
    warn_of_password(&flags.password, flags.options.value("source"));
    let signals = Signals::install()?;
    let reread = reread(files, &flags.options.given, settings.asked_password());
    let result = ended::of(&settings.data()?, || own_and_follow(config, &settings.door, reread, start_anew, &signals));
    match &result {
        Ok(()) => log::write(Code::Stopped, "Server", "stopped at a transaction boundary"),
        Err(failure) => log::write(Code::ReplicaFailed, "Replica", &failure.told()),
    }
    result.map_err(|failure| ended::shown(failure, settings.log().file.is_none()))
}

fn relay(files: &FileFlags, flags: &RelayFlags) -> Result<(), Failure> {
    let settings = load(files, &flags.options.given, Some(&flags.password))?;
    // What is wrong with the options is told before anything is made.
    settings.relay()?;
    let signals = crate::relay::prepare(&settings)?;
    warn_of_password(&flags.password, flags.options.value("source"));
    let reread = reread(files, &flags.options.given, settings.asked_password());
    let result = ended::of(&settings.data()?, || crate::relay::run(&settings, reread, &signals));
    match &result {
        Ok(()) => log::write(Code::Stopped, "Server", "stopped at a transaction boundary"),
        Err(failure) => log::write(Code::ReplicaFailed, "Relay", &failure.told()),
    }
    result.map_err(|failure| ended::shown(failure, settings.log().file.is_none()))
}

/// Other users see a command line.
fn warn_of_password(password: &PasswordFlag, source: Option<&str>) {
    let given = password.password.as_deref().is_some_and(|password| !password.is_empty());
    if (given || source.is_some_and(url_has_password)) && !programs::hidden::is_hidden() {
        let text = "the password is on the command line, where other users can see it: use an option file or MYSQL_PWD";
        log::write(Code::PasswordOnCommandLine, "Server", text);
    }
}

/// How a running replica reads the options of its source again: the same files and flags, and the password that was
/// entered at the terminal.
fn reread(files: &FileFlags, given: &[(&'static str, Option<String>)], asked: Option<Secret>) -> Reread {
    let (files, given) = (files.files(), given.to_vec());
    let paths = files.paths();
    let read = move || {
        let mut settings = Settings::load(&files, &given)?;
        asked.iter().for_each(|password| settings.set_password(password.clone()));
        match settings.source() {
            Some(SourceSpec::Server(server)) => Ok(server),
            _ => Err(Failure::usage("the option files name no server as the source now")),
        }
    };
    Reread { read: Box::new(read), stamp: Box::new(move || option_file::stamp(&paths)) }
}

/// As `reread`, with what was changed by SQL over it.
fn over_files(reread: Reread, folder: &Folder) -> Reread {
    let (read, folder) = (reread.read, folder.clone());
    Reread { read: Box::new(move || SourceOrders::of(&folder)?.over_server(&read()?)), ..reread }
}

fn own_and_follow(
    config: ReplicaConfig,
    door: &DoorSettings,
    reread: Reread,
    start_anew: bool,
    signals: &Signals,
) -> Result<(), Failure> {
    let (folder, lock) = Folder::own(&config.data)?;
    let orders = SourceOrders::of(&folder)?;
    let in_force = orders.over(&config)?;
    let about = format!(
        "slipstream {} starting as process {}: source {}, data {}, relay-sync {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        in_force.source.shown(),
        config.data.display(),
        relay_sync_text(config.relay_sync)
    );
    log::write(Code::Started, "Server", &about);
    if !orders.names().is_empty() {
        let names = orders.names().join(", ");
        let text = format!("{names} are in force as SQL has changed them, until RESET REPLICA ALL");
        log::write(Code::OperatorCommand, "Server", &text);
    }
    let filters = FilterOrders::of(&folder)?;
    if !filters.names().is_empty() {
        let names = filters.names().join(", ");
        let text = format!("{names} are in force as SQL has changed them, until RESET REPLICA ALL");
        log::write(Code::OperatorCommand, "Server", &text);
    }
    narrow(&folder, config.access);
    let accounts = account::open(&folder)?;
    account::warn_of_native(&accounts);
    if start_anew && let Some(aside) = folder.put_aside()? {
        let text = format!(
            "store and relay log were put aside as {} (--start-anew); remove that folder when it is no longer needed",
            aside.display()
        );
        log::write(Code::StorePutAside, "Server", &text);
    }
    let source = in_force.source.shown();
    let login = match &in_force.source {
        SourceSpec::Server(server) => Some(SourceLogin::kept(server, over_files(reread, &folder), &folder)?),
        SourceSpec::Files(_) => None,
    };
    let result = follow(&config, door, login, accounts, &folder, &lock, signals);
    if let Err(failure) = &result
        && !lock.is_lost()
    {
        keep_failure(&folder, source, failure);
    }
    result
}

/// Narrows the modes of files from older versions, and of folders that the operator created, which may be open to
/// others.
pub(crate) fn narrow(folder: &Folder, access: access::Access) {
    if let Err(failed) = access::narrow(folder.path(), access) {
        log::write(Code::FolderNotNarrowed, "Server", &failed.to_string());
    }
}

/// Stores the failure, so that `status` on the stopped folder shows it even if the engine never started.
pub(crate) fn keep_failure(folder: &Folder, source: String, failure: &Failure) {
    let mut report = folder.last_status();
    report.source.uri = source;
    report.replay.state = ReplayState::Failed;
    report.last_error = Some(error_report(failure));
    // Errors of an earlier run, unless it is the engine's own, which has said whether replay or receiving failed.
    let is_this = |error: &Option<ErrorReport>| error.as_ref().is_some_and(|error| error.text == failure.text);
    if !is_this(&report.last_io_error) && !is_this(&report.last_sql_error) {
        (report.last_io_error, report.last_sql_error) = (None, None);
    }
    let _ = folder.keep_last_status(&report);
}

/// Notes the boot this run is of, once rows are held back no longer for what an earlier boot may have lost: a process
/// that is killed before that leaves the earlier note to the next one. True if it is noted.
fn note_running(folder: &Folder, engine: &Engine) -> bool {
    !engine.parked.is_gated() && folder.note_running().is_ok()
}

/// Runs the engine until the process ends. What stops replay or receiving with an error leaves the engine open, unless
/// `--on-stop=exit` is given; a request then starts it again from the last cut. If the relay log is damaged and the
/// source can send that part again, it is started again at once: it truncates the log, fetches what is missing and
/// continues.
fn follow(
    config: &ReplicaConfig,
    door: &DoorSettings,
    login: Option<Arc<SourceLogin>>,
    accounts: Arc<Accounts>,
    folder: &Folder,
    lock: &FolderLock,
    signals: &Signals,
) -> Result<(), Failure> {
    let engine = Engine::new(signals.stop_flag(), login.clone(), folder, config)?;
    if door.serve_at_once {
        engine.parked.serve_at_once();
    }
    // What was visible when replay was stopped is known.
    let is_known = Stopped::of(folder).is_ok_and(|stopped| stopped.shown.is_some());
    if folder.lost_power() && !is_known {
        engine.parked.may_have_lost();
    }
    let noted = Cell::new(note_running(folder, &engine));
    // Before the copy or recovery, which may take hours: a taken port is told at once.
    let tls = door.tls(folder)?;
    let of_all = Arc::clone(&accounts);
    let facts = engine_facts(&engine);
    let memory = MemoryPlan::of(config.memory, config.pipeline.queue_memory);
    engine.opens(OpenDoor::open(door, folder, config.server_id, &memory, of_all, tls.clone(), facts)?);
    engine.watched_by(OpenWeb::open(door, Arc::clone(&accounts), tls, &engine)?);
    let gtid_port = GtidPort::open(door, &engine)?;
    let supervision = Supervision::start(&engine)?;
    let handler = requests::of_engine(Arc::clone(&engine), Arc::clone(&accounts));
    // Before the source is connected to, which may take long.
    let mut control = ControlServer::start(folder.path(), lock, handler)?;
    let answers = control.answers();
    let process = Process { config, login, folder, lock, signals, engine, noted, answers, is_ready: Cell::default() };
    let result = process.run();
    if result.is_ok() && !lock.is_lost() && folder.last_status().replay.ended {
        folder.ended_cleanly();
    }
    drop((supervision, gtid_port));
    Supervision::stopping();
    process.engine.close_door();
    if lock.is_lost() {
        control.abandon()
    } else {
        control.stop()
    }
    result
}

/// What the main thread works with.
struct Process<'a> {
    config: &'a ReplicaConfig,
    login: Option<Arc<SourceLogin>>,
    folder: &'a Folder,
    lock: &'a FolderLock,
    signals: &'a Signals,
    engine: Arc<Engine>,
    /// The folder says that a replica runs: not while the disk has no space for that.
    noted: Cell<bool>,
    /// Of the control socket.
    answers: Answers,
    /// The initial copy has begun, or the engine has run.
    is_ready: Cell<bool>,
}

/// Why the wait for another start ended.
enum Wait {
    /// An operator asks for it.
    Asked(Wanted),
    /// The disk failed the last one, and may not fail another.
    DiskMayWork,
    Ends,
}

/// Why one run of the engine ended.
enum Life {
    Ended(Result<(), Failure>),
    /// The engine is started again, with receiving in this state, and as it is wanted.
    Again(Receive, Wanted),
}

/// What is left of an engine that was taken down.
struct Past {
    store: Closing,
    /// Damage that was mended: the number of visible transactions there, and of the store's damaged files if it was the
    /// store's.
    mended_at: Option<(u64, Option<usize>)>,
    /// Trouble with the disk.
    disk: DiskMend,
    /// How replay begins in the next one.
    replay: BeginReplay,
    /// The relay log is removed before that.
    clear_relay_log: bool,
}

impl Past {
    /// Waits until the store is closed: a tree is never opened twice. False if that takes too long.
    fn is_let_go(&self) -> bool {
        let until = Instant::now() + LET_GO_WITHIN;
        while !self.store.is_closed() {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }
}

impl Process<'_> {
    fn run(&self) -> Result<(), Failure> {
        let stopped = self.stopped()?;
        let replay = begins(&stopped);
        let mut past = Past {
            store: Closing::default(),
            mended_at: None,
            disk: DiskMend::default(),
            replay,
            clear_relay_log: false,
        };
        let mut receive = if stopped.io { Receive::Stopped(None) } else { Receive::First };
        // Until the engine has run once.
        let mut first = true;
        loop {
            let failure = match self.start(&past, receive.clone()) {
                Ok(replica) => {
                    past.disk.started();
                    if !first {
                        log::write(Code::EngineStarted, "Server", "replay starts again, from the last cut");
                    }
                    if std::mem::take(&mut first) && stopped.io {
                        // An initial copy has received beside.
                        let _ = replica.stop_io();
                    }
                    (past.replay, past.clear_relay_log) = (BeginReplay::Runs, false);
                    match self.live(&replica, &mut past) {
                        Life::Ended(result) => return result,
                        Life::Again(again, _) => receive = again,
                    }
                    continue;
                }
                Err(failure) => failure,
            };
            let ends = failure.exit == Exit::Defect || self.config.on_stop == OnStop::Exit;
            // The initial copy, which may have run for hours, begins anew.
            let copied = self.is_ready.get() && failure.disk.is_some();
            if first && !copied || ends {
                return Err(failure);
            }
            let text = format!("the engine could not be started again: {}", failure.told());
            log::write(Code::SqlStopped, "Server", &text);
            past.disk.start_failed(&failure, self.space().map(|space| space.free_bytes));
            self.engine.is_down(failure);
            let wait = self.wait_for_request(&past.disk)?;
            if let Wait::Asked(wanted) = &wait {
                let kept = || Stopped::of(self.folder).map(|stopped| begins(&stopped)).unwrap_or_default();
                past.replay = wanted.replay.clone().unwrap_or_else(kept);
                past.clear_relay_log |= wanted.clear_relay_log;
            }
            match wait {
                Wait::Asked(_) if !first => receive = Receive::Again,
                Wait::Asked(_) | Wait::DiskMayWork => {}
                Wait::Ends => return Ok(()),
            }
        }
    }

    /// What this start leaves stopped.
    fn stopped(&self) -> Result<Stopped, Failure> {
        let kept = Stopped::of(self.folder)?;
        if self.config.skip_replica_start {
            let text = "receiving and replay stay stopped (--skip-replica-start): slipstream start";
            log::write(Code::OperatorCommand, "Server", text);
            return Ok(Stopped { io: true, sql: true, shown: kept.shown });
        }
        if kept != Stopped::default() {
            let what = match (kept.io, kept.sql) {
                (true, true) => "receiving and replay stay",
                (true, false) => "receiving stays",
                _ => "replay stays",
            };
            let text = format!("{what} stopped, as an operator left it: slipstream start");
            log::write(Code::OperatorCommand, "Server", &text);
        }
        Ok(kept)
    }

    fn start(&self, past: &Past, receive: Receive) -> Result<Arc<Replica>, Failure> {
        if !past.is_let_go() {
            return Err(Failure::error(
                "a dump, verify or compaction still reads the store; try again when it is done",
            ));
        }
        let started = Arc::new(AtomicBool::new(false));
        end_while_starting(self.signals.stop_flag(), Arc::clone(&started), self.answers.clone());
        let watch_copy = |copy: Arc<CopyInProgress>| -> Result<Box<dyn Any>, Failure> {
            self.engine.copies(copy);
            self.ready();
            Ok(Box::new(Copied(Arc::clone(&self.engine))))
        };
        if past.clear_relay_log {
            self.folder.clear_relay_log()?;
        }
        let config = &self.engine.config()?;
        let (folder, login) = (self.folder, self.login.clone());
        let after_disk = past.disk.after();
        let replay = past.replay.clone();
        let serve = self.engine.serve_log().cloned();
        let start = Start { config, folder, watch_copy: &watch_copy, receive, login, replay, after_disk, serve };
        let replica = Replica::start(&start);
        started.store(true, SeqCst);
        let replica = Arc::new(replica?);
        self.engine.runs(Arc::clone(&replica));
        self.ready();
        Ok(replica)
    }

    fn ready(&self) {
        if !self.is_ready.replace(true) {
            Supervision::ready();
        }
    }

    /// Runs the engine until it or the process ends.
    fn live(&self, replica: &Arc<Replica>, past: &mut Past) -> Life {
        let life = self.supervise(replica, past);
        if self.lock.is_lost() {
            return life;
        }
        let report = replica.status();
        let _ = self.folder.keep_last_status(&report);
        self.engine.history().keep();
        if let Life::Again(_, wanted) = &life {
            let Wanted { replay, clear_relay_log, .. } = wanted.clone();
            past.clear_relay_log = clear_relay_log;
            past.store = replica.store_closing();
            past.replay = replay.unwrap_or_else(|| replica.replay_again());
            self.engine.restarts(report);
            self.answers.cut_streams();
            replica.stop();
            wait_for_outcome(replica);
        }
        life
    }

    /// Runs until the replica has ended, must be started again, or a stop takes too long.
    fn supervise(&self, replica: &Arc<Replica>, past: &mut Past) -> Life {
        let mut stopping: Option<Instant> = None;
        // At once too: what an earlier run left says nothing about this one.
        let _ = self.folder.keep_last_status(&replica.status());
        let (mut kept, mut looked) = (Instant::now(), Instant::now());
        let mut searched = false;
        loop {
            let outcome = replica.outcome();
            if !searched && replica.pipeline().is_finished() && stopping.is_none() {
                searched = true;
                if self.must_mend(replica, past) {
                    return Life::Again(replica.receive_again(), Wanted::default());
                }
            }
            if stopping.is_none()
                && let Some(stopped) = replica.stopped_by_disk()
                && past.disk.is_due(&stopped, replica.space())
            {
                log::write(Code::DiskFailed, "Server", &format!("{}; starting again from the last cut", stopped.text));
                return Life::Again(replica.receive_after_disk(&stopped), Wanted::default());
            }
            if let Some(outcome) = outcome {
                return Life::Ended(outcome);
            }
            if stopping.is_some_and(|since| since.elapsed() >= STOP_WITHIN) {
                log::write(
                    Code::StopTimedOut,
                    "Server",
                    "the receiver did not stop in time; the next start checks the relay log",
                );
                return Life::Ended(Ok(()));
            }
            if self.signals.stop_asked() && stopping.is_none() {
                stopping = Some(Instant::now());
                log::write(Code::StopSignal, "Server", "received a signal to stop; stopping at a transaction boundary");
                self.engine.close_door();
                replica.stop();
            }
            if let Some(wanted) = self.engine.take_wanted() {
                let receive = if wanted.io { Receive::Again } else { replica.receive_again() };
                return Life::Again(receive, wanted);
            }
            self.engine.look_at_until(replica);
            self.reopen_log();
            replica.housekeep();
            self.engine.parked.look(replica);
            if looked.elapsed() >= LOOK_AT_FOLDER_EVERY {
                looked = Instant::now();
                if self.lock.is_lost() {
                    return Life::Ended(Err(lost(self.folder)));
                }
            }
            if kept.elapsed() >= KEEP_STATUS_EVERY {
                kept = Instant::now();
                // The relay log reports a full disk; this report is only a convenience.
                let report = replica.status();
                let _ = self.folder.keep_last_status(&report);
                self.engine.history().note(now_us(), &report);
                if !self.noted.get() {
                    self.noted.set(note_running(self.folder, &self.engine));
                }
            }
            std::thread::sleep(if replica.is_recovering() { LOOK_WHILE_RECOVERING } else { LOOK_EVERY });
        }
    }

    /// True if replay stopped at damage of the relay log that the source can mend, or at damage of the store that a
    /// start from the last cut leaves behind, with the tables in it.
    fn must_mend(&self, replica: &Arc<Replica>, past: &mut Past) -> bool {
        let (files, code, part, text) = match (replica.damage(), replica.store_damage()) {
            (Some(damage), _) => {
                let text = format!("{damage}; truncating the relay log and fetching the rest again");
                (None, Code::RelayLogDamaged, "Relay", text)
            }
            (None, Some(damage)) => {
                let text = format!("{}; starting again from the last cut, without the tables in it", damage.text);
                (Some(damage.files), Code::EngineRestarted, "Store", text)
            }
            (None, None) => return false,
        };
        let visible = replica.pipeline().store.visibility().watermark().0;
        // The same damage again: another start would not help.
        if past.mended_at == Some((visible, files)) {
            return false;
        }
        past.mended_at = Some((visible, files));
        log::write(code, part, &text);
        true
    }

    fn space(&self) -> Option<FreeSpace> {
        DiskSpace::new(self.folder.path(), self.config.disk_reserve).look()
    }

    /// Waits for a reason to start the engine again.
    ///
    /// # Errors
    /// The folder is not ours any more.
    fn wait_for_request(&self, disk: &DiskMend) -> Result<Wait, Failure> {
        loop {
            if self.signals.stop_asked() {
                return Ok(Wait::Ends);
            }
            if self.lock.is_lost() {
                return Err(lost(self.folder));
            }
            if let Some(wanted) = self.engine.take_wanted() {
                return Ok(Wait::Asked(wanted));
            }
            if disk.may_start(self.space()) {
                return Ok(Wait::DiskMayWork);
            }
            self.reopen_log();
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// What SIGHUP asks for.
    fn reopen_log(&self) {
        if self.signals.take_reopen() {
            match log_file::reopen() {
                Ok(()) => log::write(Code::LogReopened, "Server", "log file reopened"),
                Err(failure) => log::write(Code::LogNotReopened, "Server", &failure.text),
            }
            // The log has a failure already.
            if let Ok(text) = self.engine.reload() {
                log::write(Code::OptionsRead, "Server", &format!("option files read again: {text}"));
            }
        }
    }
}

/// How replay begins where this is stopped.
fn begins(stopped: &Stopped) -> BeginReplay {
    match (stopped.sql, &stopped.shown) {
        (false, _) => BeginReplay::Runs,
        (true, None) => BeginReplay::Stopped,
        (true, Some(shown)) => BeginReplay::StoppedAt(shown.clone()),
    }
}

/// Tells the engine, when dropped, that the initial copy has ended.
struct Copied(Arc<Engine>);

impl Drop for Copied {
    fn drop(&mut self) {
        self.0.copied();
    }
}

pub(crate) fn lost(folder: &Folder) -> Failure {
    let text = format!("the data folder {} was removed or replaced while this process ran", folder.path().display());
    Failure::new(Exit::Disk, text)
}

/// Ends the process if a stop is requested during the first connection to the source, which may take long: nothing is
/// running yet.
pub(crate) fn end_while_starting(stop: Arc<AtomicBool>, started: Arc<AtomicBool>, answers: Answers) {
    let look = move || {
        while !started.load(SeqCst) {
            if stop.load(SeqCst) {
                log::write(Code::Stopped, "Server", "stopped before it had started");
                answers.are_given();
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

fn check(files: &FileFlags, flags: &ReplicaFlags, out: &mut dyn Write) -> Result<(), Failure> {
    let mut settings = settings(files, &flags.options.given, Some(&flags.password))?;
    if !settings.has_data() {
        settings = settings.with_data(PathBuf::new());
    }
    let result = replica::check(&settings.replica()?, out);
    out.flush().map_err(|error| Failure::output(&error))?;
    result.map_err(ended::of_check)
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
    let out = &mut PlainText::new(out);
    let mut print = |report: &StatusReport| {
        let text = if flags.json { report.to_json() + "\n" } else { report.to_text() };
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
    };
    let report = match watch::poll(&data)? {
        watch::Polled::Report(report) => *report,
        watch::Polled::Silent(failure) => {
            if let Some(saved) = Folder::saved_status(&data) {
                print(&saved)?;
            }
            return Err(failure);
        }
        watch::Polled::NotRunning => {
            let (folder, _lock) = Folder::open_stopped(&data)?;
            folder.last_status()
        }
    };
    print(&report)?;
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
    check_table_names(&flags.ignore_table)?;
    let options = DumpRequest {
        tables: flags.tables,
        ignored: flags.ignore_table,
        format: flags.format,
        all_columns: flags.all_columns,
        binary_as_hex: flags.binary_as_hex,
        no_create_info: flags.no_create_info,
        definitions: flags.definitions,
        compression: flags.compress,
        threads: if flags.to.is_some() { flags.threads } else { 0 },
    };
    let write = |out: &mut dyn Write| {
        let request = Request::Dump(options.clone());
        on_folder(&data, &request, |folder, out| reading::stopped_dump(folder, &options, out), out)
    };
    if let Some(to) = &flags.to {
        Folder::check(&data)?;
        return dump_folder::dump_to(to, write, out);
    }
    write(out).map_err(|failure| match failure.text.is_empty() {
        true => Failure::error("standard output was closed before the dump was complete"),
        false => failure,
    })
}

fn backup(files: &FileFlags, flags: &BackupFlags) -> Result<(), Failure> {
    let data = data(files, &flags.data)?;
    let stalled_after = span_flag("stalled-after", &flags.stalled_after)?;
    backup::backup(&data, &flags.to, &BackupOptions { accounts: flags.accounts, stalled_after })
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
            // What is found is kept for the next start, so no other process may have the folder.
            Folder::check(data)?;
            let (folder, _lock) = Folder::own(data)?;
            let mut told = Ok(());
            let result = replica::check_stopped(&folder, &mut |line| {
                if told.is_ok() {
                    told = writeln!(out, "{line}").and_then(|()| out.flush());
                }
            });
            told.map_err(|error| Failure::output(&error))?;
            result
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
    let Some(text) = &flags.gtid_set else { return list_skips(&data, out) };
    let set = skip::parse(text)?;
    let running = Client::connect(&data)?;
    let when = if running.is_some() { "when replay meets it" } else { "at the next start" };
    let request = if flags.undo {
        Request::UndoSkip { gtid_set: set.to_string() }
    } else {
        Request::Skip { gtid_set: set.to_string() }
    };
    let warning = match running {
        Some(client) => {
            let body = client.ask(&request, &mut std::io::sink())?;
            body.and_then(|warning| warning.as_str().map(str::to_owned))
        }
        None => {
            // Must not create a folder that is absent, and must not touch one that is not ours.
            Folder::check(&data)?;
            access::set_umask(settings(files, &[], None)?.access());
            let (folder, _lock) = Folder::own(&data)?;
            if flags.undo {
                skip::undo_stopped(&folder, &set).map(|()| None)?
            } else {
                skip::add_stopped(&folder, &set)?
            }
        }
    };
    let said = if flags.undo {
        writeln!(out, "{set} will not be skipped")
    } else {
        writeln!(out, "{set} will be committed empty {when}")
    };
    said.map_err(|error| Failure::output(&error))?;
    if let Some(warning) = warning {
        say("slipstream: warning: ", &warning);
    }
    Ok(())
}

fn list_skips(data: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let listed = match Client::connect(data)? {
        Some(client) => {
            let body = client.ask(&Request::SkipList {}, &mut std::io::sink())?.unwrap_or_default();
            serde_json::from_value(body).map_err(|error| Failure::error(format!("the replica's list: {error}")))?
        }
        None => skip::list_stopped(&Folder::open_stopped(data)?.0)?,
    };
    let mut line = |about: &str, set: &str| -> Result<(), Failure> {
        if set.is_empty() {
            return Ok(());
        }
        writeln!(out, "{about}\t{}", set.replace('\n', "")).map_err(|error| Failure::output(&error))
    };
    line("waiting", &listed.waiting)?;
    line("met", &listed.met)?;
    if listed == skip::Listed::default() {
        writeln!(out, "no transaction is to be skipped").map_err(|error| Failure::output(&error))?;
    }
    Ok(())
}

/// Starts threads, replay up to a condition if one is given.
fn start(files: &FileFlags, flags: &StartFlags) -> Result<(), Failure> {
    let set = |text: &str| {
        let set: Result<GtidSet, _> = text.parse();
        set.map_err(|error| Failure::usage(format!("'{text}' is not a GTID set: {error}")))
    };
    let before = flags.sql_before_gtids.as_deref().map(set).transpose()?.map(UntilGtids::Before);
    let after = flags.sql_after_gtids.as_deref().map(set).transpose()?.map(UntilGtids::After);
    let until = before.or(after).map(Until);
    if until.is_some() && flags.thread == Some(ReplicaThread::Io) {
        return Err(Failure::usage("only replay stops at a condition: slipstream start sql"));
    }
    ask_running(&data(files, &flags.data)?, &Request::Start { thread: flags.thread, until }).map(|_| ())
}

/// Has the running replica carry out an order in SQL.
fn execute(files: &FileFlags, flags: &ExecuteFlags, out: &mut dyn Write) -> Result<(), Failure> {
    let statement = match flags.statement.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|error| Failure::io("standard input", &error))?;
            text
        }
        text if text.to_ascii_uppercase().contains("PASSWORD") => {
            let text = "a password in an argument can be seen by others: give the statement on standard input, as '-'";
            return Err(Failure::usage(text));
        }
        text => text.to_owned(),
    };
    let reply = ask_running(&data(files, &flags.data)?, &Request::Execute { statement })?;
    let text = reply.as_ref().and_then(|body| body.as_str()).unwrap_or_default();
    writeln!(out, "{text}").map_err(|error| Failure::output(&error))
}

fn reload(data: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let reply = ask_running(data, &Request::Reload {})?;
    let text = reply.as_ref().and_then(|body| body.as_str()).unwrap_or_default();
    writeln!(out, "{text}").map_err(|error| Failure::output(&error))
}

/// Requests a stop, and returns once the folder is free; or stops one thread.
fn stop(data: &Path, thread: Option<ReplicaThread>) -> Result<(), Failure> {
    ask_running(data, &Request::Stop { thread })?;
    if thread.is_some() {
        return Ok(());
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match FolderLock::shared(data) {
            Ok(_) => return Ok(()),
            Err(failure) if failure.exit == Exit::FolderInUse && Instant::now() < deadline => {
                std::thread::sleep(LOOK_EVERY);
            }
            Err(failure) if failure.exit == Exit::FolderInUse => {
                let who = folder_owner(data).map_or("the replica".to_owned(), |pid| format!("process {pid}"));
                return Err(Failure::error(format!("{who} was asked to stop 60 s ago and still runs")));
            }
            Err(failure) => return Err(failure),
        }
    }
}
