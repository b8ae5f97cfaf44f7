//! The program under test: runs to the end, and replicas in the background.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use base::GtidSet;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use testkit::process::code_of;

use crate::{Ran, Server, binary, wait_for};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    // Most tests wait for the exit code of a stop.
    if arguments.first() == Some(&"replica") && !arguments.iter().any(|argument| argument.starts_with("--on-stop")) {
        command.args(["replica", "--on-stop=exit"]).args(&arguments[1..]);
    } else {
        command.args(arguments);
    }
    // Replicas of several tests run at once: each takes a free port, which its status shows.
    let listens =
        matches!(arguments, ["replica", ..]) || matches!(arguments, ["relay", option, ..] if option.starts_with('-'));
    if listens && !arguments.iter().any(|argument| argument.starts_with("--port")) {
        command.arg("--port=0");
    }
    if !arguments.iter().any(|argument| argument.starts_with("--defaults-file")) {
        command.arg("--no-defaults");
    }
    command.env("MYSQL_PWD", "repl").env_remove("SLIPSTREAM_FAILPOINT");
    command.stdin(Stdio::null());
    command
}

/// Runs the program to its end.
#[track_caller]
pub fn slipstream(arguments: &[&str]) -> Ran {
    slipstream_with(arguments, |_| ())
}

/// As [`slipstream`], with changes to its environment.
pub fn slipstream_with(arguments: &[&str], change: impl FnOnce(&mut Command)) -> Ran {
    let mut command = command(arguments);
    change(&mut command);
    Ran::from(command.output().unwrap())
}

/// A replica process, killed on drop. Its folder remains for the next one.
pub struct Replica {
    /// The data folder.
    pub data: PathBuf,
    log: PathBuf,
    child: Child,
}

impl Replica {
    /// Follows a server into a folder and checks every image; returns once the replica answers, and an initial copy has
    /// its snapshots: what the server is told afterwards is replayed.
    #[track_caller]
    pub fn follow(server: &Server, data: &Path, options: &[&str]) -> Replica {
        Replica::start(&server.url("repl"), data, options)
    }

    /// As `follow`, with waits for copies and questions that are a tenth of what is shipped, but in the night.
    #[track_caller]
    pub fn hurried(server: &Server, data: &Path, options: &[&str]) -> Replica {
        Replica::hurried_from(&server.url("repl"), data, options)
    }

    /// As `hurried`, from the source of this URL.
    #[track_caller]
    pub fn hurried_from(source: &str, data: &Path, options: &[&str]) -> Replica {
        let is_night =
            std::env::var("SLIPSTREAM_TEST_LENGTH").is_ok_and(|length| length == "night" || length == "soak");
        let mut replica = Replica::spawn(source, data, options, |command| {
            if !is_night {
                command.env("SLIPSTREAM_FAILPOINT", "periods=10");
            }
        });
        replica.answers();
        replica
    }

    /// Waits until it answers, and prepares no initial copy any more.
    #[track_caller]
    fn answers(&mut self) {
        let prepares = |replay: &Value| replay["state"] == "copying" && replay["tables"] == 0;
        self.wait_until("an answer", |status| !prepares(&status["replay"]));
    }

    /// As `follow`, with a unix socket for clients beside the folder; returns its path too, once all is visible.
    #[track_caller]
    pub fn with_socket(server: &Server, data: &Path, options: &[&str]) -> (Replica, PathBuf) {
        let (mut replica, socket) = Replica::with_socket_unawaited(server, data, options);
        replica.catch_up(server);
        (replica, socket)
    }

    /// As `with_socket`, once the replica answers.
    #[track_caller]
    pub fn with_socket_unawaited(server: &Server, data: &Path, options: &[&str]) -> (Replica, PathBuf) {
        let socket = data.with_extension("sock");
        let option = format!("--socket={}", socket.display());
        (Replica::follow(server, data, &[&[option.as_str()], options].concat()), socket)
    }

    /// As `follow`, from any source.
    #[track_caller]
    pub fn start(source: &str, data: &Path, options: &[&str]) -> Replica {
        let mut replica = Replica::spawn(source, data, options, |_| ());
        replica.answers();
        replica
    }

    /// Starts `slipstream relay` instead; returns once it answers.
    #[track_caller]
    pub fn relay(server: &Server, data: &Path, options: &[&str]) -> Replica {
        Replica::relay_with(server, data, options, |_| ())
    }

    /// As `relay`, with changes to its environment.
    #[track_caller]
    pub fn relay_with(server: &Server, data: &Path, options: &[&str], change: impl FnOnce(&mut Command)) -> Replica {
        let mut relay = Replica::spawn_relay(&server.url("repl"), data, options, change);
        relay.wait_until("an answer", |_| true);
        relay
    }

    /// Starts a relay without waiting for anything.
    pub fn spawn_relay(source: &str, data: &Path, options: &[&str], change: impl FnOnce(&mut Command)) -> Replica {
        let arguments = ["relay", "--source", source, "--data", data.to_str().unwrap()];
        Replica::spawn_command(command(&[&arguments, options].concat()), data, change)
    }

    /// Starts the process without waiting for anything.
    pub fn spawn(source: &str, data: &Path, options: &[&str], change: impl FnOnce(&mut Command)) -> Replica {
        let text = data.to_str().unwrap();
        let mut command = command(&[&["replica", "--source", source, "--data", text], options].concat());
        if !options.iter().any(|option| option.starts_with("--check-images")) {
            command.arg("--check-images=all");
        }
        Replica::spawn_command(command, data, change)
    }

    fn spawn_command(mut command: Command, data: &Path, change: impl FnOnce(&mut Command)) -> Replica {
        let log = data.with_extension("log");
        command.stdout(Stdio::null());
        let file = File::options().create(true).append(true).open(&log).unwrap();
        command.stderr(file);
        change(&mut command);
        Replica { data: data.to_owned(), log, child: command.spawn().unwrap() }
    }

    /// Starts a dump of a table whose output is not read yet.
    #[must_use]
    pub fn dump_unread(&self, table: &str) -> Unread {
        let mut command = command(&["dump", "--data", self.data(), "--format=tab", table]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::with_capacity(1, child.stdout.take().unwrap());
        Unread { child: Some(child), out, read: String::new() }
    }

    /// Log lines of all runs in this folder.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Until every one of these texts is in the log: the status can tell of something before the log does.
    pub fn waits_for_log(&self, texts: &[&str]) {
        let all = || {
            let log = self.log();
            texts.iter().all(|text| log.contains(text)).then_some(())
        };
        crate::wait_for(&format!("{texts:?} in the log"), all, || self.log());
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder as an argument.
    #[must_use]
    pub fn data(&self) -> &str {
        self.data.to_str().unwrap()
    }

    /// `status --json`; None while the replica does not answer, or is only starting.
    #[must_use]
    pub fn status(&self) -> Option<Value> {
        let ran = slipstream(&["status", "--json", "--data", self.data()]);
        let status = (ran.code == 0).then(|| serde_json::from_str(&ran.out).expect("status is JSON"));
        status.filter(|status| !is_starting(status))
    }

    /// As `wait_until`, for what may fail.
    ///
    /// # Errors
    /// The process has ended, or does not get on.
    pub fn gets_to(&mut self, mut is: impl FnMut(&Value) -> bool) -> Result<(), String> {
        let until = Instant::now() + crate::DEADLINE;
        while !self.status().is_some_and(|status| status["running"] == true && is(&status)) {
            let code = self.ended();
            if code.is_some() || Instant::now() > until {
                return Err(format!("it does not get on; ended: {code:?}\n{}", self.log_end()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Polls the status of the running process.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, mut is: impl FnMut(&Value) -> bool) -> Value {
        let (log, data) = (self.log.clone(), self.data.clone());
        let (child, mut last) = (&mut self.child, String::new());
        let until = Instant::now() + crate::DEADLINE;
        loop {
            let ran = slipstream(&["status", "--json", "--data", data.to_str().unwrap()]);
            if let Ok(status) = serde_json::from_str::<Value>(&ran.out) {
                if status["running"] == true && !is_starting(&status) && is(&status) {
                    return status;
                }
                last = status.to_string();
            }
            let ended = child.try_wait().unwrap();
            if ended.is_some() || Instant::now() > until {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                let log: String = log
                    .lines()
                    .rev()
                    .take(30)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .rev()
                    .fold(String::new(), |a, l| a + l + "\n");
                panic!("waiting for {what}: ended {ended:?}\nlog ends:\n{log}\nlast status: {last}");
            }
            std::thread::sleep(Duration::from_millis(25));
        }
    }

    /// As `catch_up`, and until the source has been asked about definitions that its log does not settle or hold.
    #[track_caller]
    pub fn settled(&mut self, server: &Server) -> Value {
        self.catch_up(server);
        self.wait_until("answers of the source", |status| {
            status["replay"]["definitions_unsettled"] == 0 && status["replay"]["definitions_read"] == true
        })
    }

    /// Waits until everything the server has executed so far is visible here.
    #[track_caller]
    pub fn catch_up(&mut self, server: &Server) -> Value {
        let goal = server.gtid_executed();
        self.wait_until(&format!("GTIDs {goal}"), |status| goal.is_subset_of(&executed(status)))
    }

    /// Waits until the initial copy has ended and no table still waits for its own.
    #[track_caller]
    pub fn copied(&mut self) -> Value {
        self.wait_until("the copies' end", |status| {
            let waiting = status["replay"]["quarantined"].as_array().map_or(0, Vec::len);
            status["replay"]["state"] != "copying" && waiting == 0
        })
    }

    /// Waits until this set is visible here; false if the process ends first.
    pub fn reaches(&mut self, goal: &GtidSet) -> bool {
        let look = || {
            let there = self.status().is_some_and(|status| goal.is_subset_of(&executed(&status)));
            if there { Some(true) } else { self.child.try_wait().unwrap().map(|_| false) }
        };
        wait_for("the end of the log", look, String::new)
    }

    /// The exit code, once the process has ended.
    pub fn ended(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().map(code_of)
    }

    /// The last lines of the log.
    #[must_use]
    pub fn log_end(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Waits for the process to end.
    #[track_caller]
    pub fn wait_exit(&mut self) -> i32 {
        let child = &mut self.child;
        let log = self.log.clone();
        let look = || child.try_wait().unwrap().map(code_of);
        wait_for("the replica's end", look, || std::fs::read_to_string(&log).unwrap_or_default())
    }

    /// Runs `slipstream stop`, which must end it with code 0.
    #[track_caller]
    pub fn stop(mut self) {
        slipstream(&["stop", "--data", self.data()]).expect(0, &[]);
        let code = self.wait_exit();
        assert_eq!(code, 0, "{}", self.log());
    }

    /// True while the process runs.
    #[must_use]
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        crate::signal(pid, signal);
    }

    /// Sends SIGKILL and waits until the process is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the process to end by itself, with this code and these texts in the log.
    #[track_caller]
    pub fn expect_exit(mut self, code: i32, texts: &[&str]) -> String {
        let got = self.wait_exit();
        let log = self.log();
        assert_eq!(got, code, "{log}");
        for text in texts {
            assert!(log.to_lowercase().contains(&text.to_lowercase()), "no {text:?} in:\n{log}");
        }
        assert!(!log.contains("panicked"), "{log}");
        log
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if self.child.try_wait().ok().flatten().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if !std::thread::panicking() {
            assert!(!self.log().contains("panicked"), "{}", self.log());
        }
    }
}

/// A program whose output waits to be read.
pub struct Unread {
    child: Option<Child>,
    out: BufReader<ChildStdout>,
    read: String,
}

impl Unread {
    /// Starts the program with these arguments.
    pub fn start(arguments: &[&str]) -> Unread {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Unread { child: Some(child), out, read: String::new() }
    }

    /// Asks it to end, with SIGTERM.
    pub fn terminate(&self) {
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), Signal::TERM).unwrap();
    }

    /// Reads the first line, which shows that the program has started.
    pub fn first_line(&mut self) -> String {
        self.out.read_line(&mut self.read).unwrap();
        self.read.clone()
    }

    /// Reads the rest; returns the program's result.
    #[must_use]
    pub fn end(mut self) -> Ran {
        self.out.read_to_string(&mut self.read).unwrap();
        let mut ran = Ran::from(self.child.take().unwrap().wait_with_output().unwrap());
        ran.out = std::mem::take(&mut self.read);
        ran
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// True while the process starts, and has no replica to tell of.
fn is_starting(status: &Value) -> bool {
    status["replay"]["detail"].as_str().is_some_and(|detail| detail.starts_with("starting"))
}

/// gtid.executed of a status.
#[must_use]
pub fn executed(status: &Value) -> GtidSet {
    set_of(&status["gtid"]["executed"])
}

/// gtid.executed of a stopped folder.
#[must_use]
pub fn stopped_executed(data: &Path) -> GtidSet {
    let ran = slipstream(&["status", "--json", "--data", data.to_str().unwrap()]);
    executed(&serde_json::from_str(&ran.expect(0, &[]).out).unwrap())
}

/// gtid.retrieved of a status.
#[must_use]
pub fn retrieved(status: &Value) -> GtidSet {
    set_of(&status["gtid"]["retrieved"])
}

fn set_of(value: &Value) -> GtidSet {
    value.as_str().unwrap_or_default().replace('\n', "").parse().unwrap()
}

/// One column of the ledger, summed over the event types: (name, count) where it is not 0.
#[must_use]
pub fn ledger(status: &Value, category: &str) -> Vec<(String, u64)> {
    let rows = status["ledger"]["rows"].as_array().expect("ledger rows");
    let of = |row: &Value| (row["name"].as_str().unwrap().to_owned(), row[category].as_u64().unwrap_or(0));
    let mut counts: Vec<_> = rows.iter().map(of).filter(|(_, count)| *count > 0).collect();
    counts.sort();
    counts
}
