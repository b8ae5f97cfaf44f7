//! Our program as a replica or relay of stock servers, and programs that run to their end.
//!
//! In: a data folder, a port, a command. Out: accounts, sessions, output. Never here: a server of MySQL's.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::{ConnectOptions, Connection, SslMode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::servers::{PATIENCE, Running, check_stop, cpu_s, free_port};

/// The account by which the lab asks a replica, and its password.
const ACCOUNT: &str = "lab";
/// Interval between looks at a replica's status.
const LOOK: Duration = Duration::from_millis(50);

/// `slipstream replica` as a process of its own; killed on drop.
#[derive(Debug)]
pub(crate) struct Replica {
    process: Running,
    program: PathBuf,
    data: PathBuf,
    log: PathBuf,
    port: u16,
}

impl Replica {
    /// Starts it on a data folder, on these CPUs only where some are given.
    ///
    /// # Errors
    /// The program is missing.
    pub(crate) fn start(source: &str, data: &Path, arguments: &[String], cpus: Option<&str>) -> Result<Replica> {
        let (program, port, log) = (program()?, free_port()?, data.with_extension("log"));
        let mut command = bound(&program, cpus);
        command.args(["replica", "--no-defaults", "--on-stop", "exit", "--source", source, "--data"]).arg(data);
        command.args(["--port", &port.to_string()]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let process = Running::start(&mut command, "slipstream replica")?;
        Ok(Replica { process, program, data: data.to_owned(), log, port })
    }

    /// Its status report, as JSON.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) fn status(&self) -> Result<Value> {
        let mut command = Command::new(&self.program);
        command.args(["status", "--no-defaults", "--json", "--data"]).arg(&self.data);
        Ok(serde_json::from_str(&output(&mut command, "slipstream status")?)?)
    }

    /// Waits for a state of its report; `moment` names it.
    ///
    /// # Errors
    /// It ends before, does not reach it, or `stop` is raised.
    pub(crate) fn await_status(
        &mut self,
        moment: &str,
        stop: &AtomicBool,
        done: &dyn Fn(&Value) -> bool,
    ) -> Result<()> {
        // Until its control socket is there, there is no status.
        self.wait_until(moment, stop, &|replica| replica.status().is_ok_and(|status| done(&status)))
    }

    /// A session that may read; adds the account for it to a folder without accounts.
    ///
    /// # Errors
    /// It ends before, lets nobody in, or `stop` is raised.
    pub(crate) fn session(&mut self, stop: &AtomicBool) -> Result<Connection> {
        // Without an account there is no login to try: a refused password is not tried again.
        if !self.data.join("accounts").exists() {
            let add =
                |replica: &Replica| add_account(Command::new(&replica.program), &replica.data, ACCOUNT, "read,monitor");
            self.wait_until("its first account", stop, &|replica| add(replica).is_ok())?;
        }
        self.wait_until("its first login", stop, &|replica| session(replica.port, ACCOUNT).is_ok())?;
        session(self.port, ACCOUNT)
    }

    fn wait_until(&mut self, moment: &str, stop: &AtomicBool, done: &dyn Fn(&Replica) -> bool) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while !done(self) {
            check_stop(stop)?;
            self.check().with_context(|| format!("before {moment}"))?;
            ensure!(Instant::now() < until, "the replica did not reach {moment} within {PATIENCE:?}");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Fails once it has ended.
    ///
    /// # Errors
    /// It has; the error quotes the last line of its log.
    pub(crate) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.process.ended()? {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            // Of a refused option the last line only names --help.
            let refused = log.lines().find(|line| line.starts_with("error: "));
            bail!("the replica ended ({status}): {}", refused.or(log.lines().last()).unwrap_or_default());
        }
        Ok(())
    }

    /// CPU seconds that it has used.
    pub(crate) fn cpu_s(&self) -> f64 {
        cpu_s(self.process.pid())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Stops it: its last cut holds all that was visible.
    ///
    /// # Errors
    /// It cannot be told to, or ends with an error.
    pub(crate) fn stop(self, stop: &AtomicBool) -> Result<()> {
        let pid = i32::try_from(self.process.pid()).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, Signal::TERM)?;
        let status = self.process.wait(stop)?;
        ensure!(status.success(), "the replica ended with {status}");
        Ok(())
    }
}

/// A program of ours on these CPUs only, where some are given.
fn bound(program: &Path, cpus: Option<&str>) -> Command {
    let Some(cpus) = cpus else { return Command::new(program) };
    let mut command = Command::new("taskset");
    command.arg("-c").arg(cpus).arg(program);
    command
}

/// Runs `lab replay` of a program as a process of its own and returns its report. It works in folders of `scratch`.
///
/// # Errors
/// The replay fails, or `stop` is raised.
pub(crate) fn replay(
    (program, cpus): (&Path, Option<&str>),
    scratch: &Path,
    load: &[PathBuf],
    files: &[PathBuf],
    arguments: &[String],
    stop: &AtomicBool,
) -> Result<Value> {
    let (out, err) = (scratch.join("replay.json"), scratch.join("replay.err"));
    let mut command = bound(program, cpus);
    command.args(["lab", "replay", "--no-defaults", "--json", "--hash", "--folder"]).arg(scratch.join("replay"));
    for file in load {
        command.arg("--load").arg(file);
    }
    command.args(arguments).args(files);
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
    let status = Running::start(&mut command, "lab replay")?.wait(stop)?;
    if !status.success() {
        bail!("our replay failed ({status}): {}", fs::read_to_string(&err).unwrap_or_default().trim());
    }
    serde_json::from_str(&fs::read_to_string(&out)?).context("the report of lab replay")
}

/// The program in our own folder, of the same build.
///
/// # Errors
/// It is missing, or of another build.
pub(crate) fn program() -> Result<PathBuf> {
    Ok(programs::of_this_build(programs::PROGRAM)?)
}

/// Adds an account whose password is its name; `command` runs our program.
///
/// # Errors
/// The folder has no owner yet that answers, or the account is there.
pub(crate) fn add_account(mut command: Command, data: &Path, name: &str, rights: &str) -> Result<()> {
    command.args(["account", "add", name, "--may", rights, "--no-defaults", "--data"]).arg(data);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("no standard input")?.write_all(format!("{name}\n").as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "account add: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A session of an account whose password is its name. Over TLS: its first login may need it.
///
/// # Errors
/// It cannot log in.
pub(crate) fn session(port: u16, name: &str) -> Result<Connection> {
    let (user, password) = (name.to_owned(), Some(name.to_owned()));
    let options = ConnectOptions { port, user, password, ssl_mode: SslMode::Required, ..ConnectOptions::default() };
    Ok(Connection::connect(&options)?)
}

/// Fails if a program is not on PATH.
///
/// # Errors
/// It is not; the error names its package.
pub(crate) fn look_for(program: &str, package: &str) -> Result<()> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(drop).with_context(|| format!("{program} is missing: apt-get install {package}"))
}

/// Runs a program to its end and returns its standard output.
///
/// # Errors
/// It cannot be run, or fails; the error quotes what it said of that.
pub(crate) fn output(command: &mut Command, what: &str) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {what}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let lines = text.lines().filter(|line| line.contains("FATAL") || line.contains("rror"));
        let lines: Vec<&str> = lines.take(3).collect();
        let told = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("{what} failed ({}): {told} {}", output.status, lines.join("; "));
    }
    Ok(text)
}
