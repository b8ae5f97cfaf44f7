//! Stock MySQL servers on this machine: finds their programs, and runs one on a folder of its own.
//!
//! In: a folder with programs, or what PATH and the testbed have. Out: servers on free ports, which end when their
//! value is dropped, whatever happens. Never here: a server started by others, a file outside the given folder.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::{ConnectOptions, Connection, SslMode};
use rustix::process::{Pid, Signal, kill_process};

/// Options by which a server syncs nothing at a commit.
pub(crate) const UNSYNCED: [&str; 2] = ["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0"];
/// Interval between checks of a wait.
const LOOK: Duration = Duration::from_millis(2);
/// A server that is not up, or not down, by then has failed: recovery on a slow disk takes tens of seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// Seconds that one query for the end of replay waits in the server before we check for failures and signals.
const ASK_S: f64 = 0.5;
/// Number of ports lost to others between choosing and binding before we give up.
pub(crate) const PORT_TRIES: u32 = 5;
/// Clock ticks a second in /proc; the same on every Linux this is built for.
const USER_HZ: f64 = 100.0;

/// Where none of MySQL's programs were found.
pub(crate) const NO_MYSQLD: &str = "no mysqld on PATH, in SLIPSTREAM_TEST_MYSQLD or in the testbed: testbed/mysql install, \
                                    or --mysqld-bin DIR";

#[derive(Clone, Debug)]
pub struct Programs {
    mysqld: PathBuf,
    folders: Vec<PathBuf>,
    base: PathBuf,
    /// What each program is run by; empty for none.
    before: Vec<OsString>,
    /// Loader and libraries of the unpacked prefix; empty for an installed server.
    loader: Vec<OsString>,
    /// Folder of messages, character sets and plugins of an unpacked server.
    share: Vec<OsString>,
}

impl Programs {
    /// The programs in `folder`; without one, in testbed/mysql's order: SLIPSTREAM_TEST_MYSQLD, a mysqld on PATH that
    /// is not MariaDB, the testbed's unpacked prefix. `None` if none of these three exists.
    ///
    /// # Errors
    /// The given folder holds no mysqld.
    pub fn find(folder: Option<&Path>) -> Result<Option<Programs>> {
        if let Some(folder) = folder {
            let mysqld = folder.join("mysqld");
            ensure!(mysqld.is_file(), "no mysqld in {}", folder.display());
            return Programs::of(&mysqld).map(Some);
        }
        if let Some(named) = std::env::var_os("SLIPSTREAM_TEST_MYSQLD").filter(|name| !name.is_empty()) {
            return Programs::of(Path::new(&named)).map(Some);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        for found in std::env::split_paths(&path).map(|folder| folder.join("mysqld")).filter(|path| path.is_file()) {
            let programs = Programs::of(&found)?;
            if programs.version().is_ok_and(|version| !version.contains("MariaDB")) {
                return Ok(Some(programs));
            }
        }
        let prefix = testbed_prefix();
        match prefix {
            Some(prefix) if prefix.join("READY").exists() => Programs::of(&prefix.join("usr/sbin/mysqld")).map(Some),
            _ => Ok(None),
        }
    }

    /// These programs, run on these CPUs only, as `0` or `0-3,6`.
    #[must_use]
    pub fn bound_to(&self, cpus: &str) -> Programs {
        let mut programs = self.clone();
        programs.before = ["taskset", "-c", cpus].map(OsString::from).to_vec();
        programs
    }

    /// These programs, run with a library loaded first and with variables set.
    #[must_use]
    pub fn preloading(&self, library: &Path, variables: &[(&str, String)]) -> Programs {
        let mut programs = self.clone();
        programs.before.push("env".into());
        programs.before.push(path_option("LD_PRELOAD=", library));
        programs.before.extend(variables.iter().map(|(name, value)| OsString::from(format!("{name}={value}"))));
        programs
    }

    fn of(mysqld: &Path) -> Result<Programs> {
        let mysqld = fs::canonicalize(mysqld).with_context(|| format!("no mysqld at {}", mysqld.display()))?;
        let folder = mysqld.parent().unwrap_or(Path::new("/")).to_owned();
        let base = folder.parent().unwrap_or(Path::new("/")).to_owned();
        let mut programs = Programs {
            folders: vec![folder, base.join("bin"), base.join("sbin")],
            mysqld,
            base: base.clone(),
            before: Vec::new(),
            loader: Vec::new(),
            share: Vec::new(),
        };
        // An unpacked prefix runs with its own loader: its libc is newer than the machine's.
        if let Some(prefix) = base.parent().filter(|prefix| prefix.join("READY").exists()) {
            programs.use_prefix(prefix)?;
        }
        Ok(programs)
    }

    fn use_prefix(&mut self, prefix: &Path) -> Result<()> {
        let subfolders = |folder: PathBuf| -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
        };
        let mut libraries: Vec<PathBuf> =
            ["usr/lib", "lib"].iter().flat_map(|at| subfolders(prefix.join(at))).collect();
        libraries.retain(|path| path.to_string_lossy().contains("-linux-gnu"));
        libraries.push(prefix.join("usr/lib/mysql/private"));
        let is_loader = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux")) && path.exists()
        };
        let files = libraries.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        let loader = files.map(|entry| entry.path()).find(is_loader);
        let loader = loader.with_context(|| format!("no program loader in {}", prefix.display()))?;
        let path = std::env::join_paths(libraries.iter().filter(|folder| folder.is_dir()))?;
        self.loader = vec![loader.into(), "--library-path".into(), path];
        let share = prefix.join("usr/share/mysql");
        for (option, at) in [
            ("--lc-messages-dir=", share.clone()),
            ("--character-sets-dir=", share.join("charsets")),
            ("--plugin-dir=", prefix.join("usr/lib/mysql/plugin")),
        ] {
            let mut option = OsString::from(option);
            option.push(at);
            self.share.push(option);
        }
        Ok(())
    }

    /// A library by file name, of those that the server is linked with or that are installed.
    #[must_use]
    pub fn library(&self, name: &str) -> Option<PathBuf> {
        let own = self.loader.get(2).map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
        let installed = |folder: &str| {
            let folders = fs::read_dir(folder).into_iter().flatten().flatten();
            folders.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let folders: Vec<PathBuf> = [own, installed("/usr/lib"), installed("/lib")].concat();
        folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
    }

    /// A program by name, run without option files.
    ///
    /// # Errors
    /// The program is missing.
    pub fn command(&self, name: &str) -> Result<Command> {
        let found = self.folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        let path = match found {
            Some(path) => path,
            None => bail!("no program {name} next to {}", self.mysqld.display()),
        };
        let mut words = self.before.iter().chain(&self.loader).cloned().chain([path.into_os_string()]);
        let mut command = Command::new(words.next().context("no program")?);
        command.args(words);
        command.arg("--no-defaults").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    /// Output of `mysqld --version`, without the program's name.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn version(&self) -> Result<String> {
        let output = self.command("mysqld")?.arg("--version").stdout(Stdio::piped()).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_once("Ver ").map_or(text.as_str(), |(_, version)| version);
        Ok(version.trim().to_owned())
    }

    fn mysqld(&self, data: &Path) -> Result<Command> {
        let mut command = self.command("mysqld")?;
        if rustix::process::getuid().is_root() {
            command.arg("--user=root");
        }
        command.arg(path_option("--datadir=", data)).arg(path_option("--basedir=", &self.base)).args(&self.share);
        Ok(command)
    }

    /// Creates a data folder whose only content is `root`, without a password.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn initialise(&self, data: &Path, stop: &AtomicBool) -> Result<()> {
        fs::create_dir_all(data).with_context(|| format!("cannot make {}", data.display()))?;
        // For 127.0.0.1 too, where names are not resolved.
        let users = "CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';\n\
                     GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;\n";
        let (init, log) = (data.with_extension("init.sql"), data.with_extension("init.log"));
        fs::write(&init, users)?;
        let mut command = self.mysqld(data)?;
        command.arg("--initialize-insecure").arg(path_option("--init-file=", &init)).stderr(File::create(&log)?);
        let status = Running::start(&mut command, "mysqld --initialize")?.wait(stop)?;
        if !status.success() {
            bail!("mysqld --initialize failed ({status}): {}", errors_in(&log));
        }
        // Copies of the folder become servers of their own.
        let _ = fs::remove_file(data.join("auto.cnf"));
        Ok(())
    }
}

fn testbed_prefix() -> Option<PathBuf> {
    if let Some(testbed) = std::env::var_os("SLIPSTREAM_TESTBED") {
        return Some(Path::new(&testbed).join("mysql"));
    }
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => Path::new(&std::env::var_os("HOME")?).join(".cache"),
    };
    Some(cache.join("slipstream/testbed/mysql"))
}

fn path_option(option: &str, path: &Path) -> OsString {
    let mut text = OsString::from(option);
    text.push(path);
    text
}

/// The last error lines of a server's log.
pub(crate) fn errors_in(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let errors: Vec<&str> = text.lines().filter(|line| line.contains("ERROR") || line.contains("rror:")).collect();
    let last = errors.get(errors.len().saturating_sub(5)..).unwrap_or_default();
    if last.is_empty() { format!("see {}", log.display()) } else { last.join("; ") }
}

/// A running program, killed if dropped before its end.
#[derive(Debug)]
pub struct Running {
    child: Child,
    what: String,
}

impl Running {
    /// Starts the program.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(command: &mut Command, what: &str) -> Result<Running> {
        let child = command.spawn().with_context(|| format!("cannot run {what}"))?;
        Ok(Running { child, what: what.to_owned() })
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Standard output, if it is a pipe; can be taken once.
    pub fn stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Exit status; None while the program runs.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for the program to end.
    ///
    /// # Errors
    /// `stop` is raised first; the program is then killed.
    pub fn wait(mut self, stop: &AtomicBool) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            check_stop(stop).with_context(|| self.what.clone())?;
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Fails once `stop` is raised.
///
/// # Errors
/// `stop` is raised.
pub fn check_stop(stop: &AtomicBool) -> Result<()> {
    ensure!(!stop.load(Ordering::Relaxed), "interrupted");
    Ok(())
}

/// A running mysqld; killed on drop, which leaves its folder as after a crash.
#[derive(Debug)]
pub struct Server {
    process: Running,
    data: PathBuf,
    port: u16,
}

impl Server {
    /// Starts a server on a data folder and waits until it answers.
    ///
    /// # Errors
    /// The server does not come up; the error quotes its log.
    pub fn start(programs: &Programs, data: &Path, options: &[String], stop: &AtomicBool) -> Result<Server> {
        let mut tries = 1;
        loop {
            let port = free_port()?;
            match Server::start_on(programs, data, options, port, stop) {
                Ok(server) => return Ok(server),
                Err(error) if tries < PORT_TRIES && format!("{error:#}").contains("port:") => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn start_on(programs: &Programs, data: &Path, options: &[String], port: u16, stop: &AtomicBool) -> Result<Server> {
        let log = data.with_extension("log");
        let _ = fs::remove_file(&log);
        let mut command = programs.mysqld(data)?;
        command.args(["--bind-address=127.0.0.1", "--socket=mysqld.sock", "--pid-file=mysqld.pid"]);
        command.args(["--loose-mysqlx=OFF", "--secure-file-priv=NULL"]);
        command.arg(format!("--port={port}")).arg(path_option("--log-error=", &log)).args(options);
        // A relative socket path is short, however long the folder's is.
        command.current_dir(data).stderr(File::create(data.with_extension("stderr"))?);
        let mut server = Server { process: Running::start(&mut command, "mysqld")?, data: data.to_owned(), port };
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(mut connection) = server.connect() {
                connection.exec("DO 1")?;
                return Ok(server);
            }
            if let Some(status) = server.process.ended()? {
                // What could not even run it tells elsewhere.
                let told = fs::read_to_string(data.with_extension("stderr")).unwrap_or_default();
                let told = if log.is_file() { errors_in(&log) } else { told.trim().to_owned() };
                bail!("mysqld did not start ({status}): {told}");
            }
            ensure!(Instant::now() < until, "mysqld does not answer after {PATIENCE:?}: {}", errors_in(&log));
            check_stop(stop)?;
            std::thread::sleep(10 * LOOK);
        }
    }

    /// Address of the server, as root.
    #[must_use]
    pub fn address(&self) -> ConnectOptions {
        ConnectOptions { port: self.port, ssl_mode: SslMode::Disabled, ..ConnectOptions::default() }
    }

    /// Connects as root.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn connect(&self) -> Result<Connection> {
        Ok(Connection::connect(&self.address())?)
    }

    /// Options with which MySQL's clients connect: TCP without TLS.
    #[must_use]
    pub fn client_options(&self) -> Vec<String> {
        let port = format!("--port={}", self.port);
        ["--protocol=TCP", "--host=127.0.0.1", "--user=root", "--ssl-mode=DISABLED"]
            .into_iter()
            .map(str::to_owned)
            .chain([port])
            .collect()
    }

    /// Number of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// CPU seconds used by the server.
    #[must_use]
    pub fn cpu_s(&self) -> f64 {
        cpu_s(self.process.pid())
    }

    /// Number, name and CPU seconds of each of the server's threads.
    #[must_use]
    pub fn threads_cpu_s(&self) -> Vec<(u32, String, f64)> {
        threads_cpu_s(self.process.pid())
    }

    /// The allocator that the server uses, by the libraries that it has mapped.
    #[must_use]
    pub fn allocator(&self) -> String {
        let of = |file: &str| format!("/proc/{}/{file}", self.process.pid());
        let maps = fs::read_to_string(of("maps")).unwrap_or_default();
        let environment = fs::read(of("environ")).unwrap_or_default();
        let preloaded = environment.split(|&byte| byte == 0).find_map(|one| one.strip_prefix(b"LD_PRELOAD="));
        allocator(&maps, &String::from_utf8_lossy(preloaded.unwrap_or_default()))
    }

    /// URL of the server, as root.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}", self.port)
    }

    /// Peak resident memory of the server in bytes.
    #[must_use]
    pub fn peak_rss_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
    }

    /// Shuts the server down cleanly.
    ///
    /// # Errors
    /// The server does not end.
    pub fn shut_down(mut self, stop: &AtomicBool) -> Result<()> {
        let pid = i32::try_from(self.process.pid()).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, Signal::TERM)?;
        let until = Instant::now() + PATIENCE;
        while self.process.ended()?.is_none() {
            ensure!(Instant::now() < until, "mysqld does not stop after {PATIENCE:?}: {}", self.data.display());
            check_stop(stop)?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// Waits until a replica has executed these GTIDs; fails once its applier has stopped.
///
/// # Errors
/// It has, or `stop` is raised.
pub(crate) fn wait_applied(connection: &mut Connection, gtids: &str, stop: &AtomicBool) -> Result<()> {
    let ask = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{}', {ASK_S})", gtids.replace('\n', ""));
    while connection.query_value(&ask)?.as_deref() != Some("0") {
        let status = connection.query("SHOW REPLICA STATUS")?;
        let text = |name: &str| status.column(name).and_then(|at| status.text(0, at)).unwrap_or_default();
        if text("Replica_SQL_Running") != "Yes" {
            bail!("MySQL's applier stopped: {} {}", text("Last_SQL_Errno"), text("Last_SQL_Error"));
        }
        check_stop(stop)?;
    }
    Ok(())
}

/// The allocator of a process: of the libraries that are preloaded and mapped the first that has one, else a linked
/// one; without these its libc's.
fn allocator(maps: &str, preloaded: &str) -> String {
    const NAMES: [&str; 3] = ["libjemalloc", "libtcmalloc", "libmimalloc"];
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let mapped: Vec<String> = maps.lines().filter(|line| line.contains('/')).map(name).collect();
    let has_one = |name: &String| NAMES.iter().any(|one| name.starts_with(one));
    let first = preloaded.split([':', ' ']).map(name).find(|name| has_one(name) || name.starts_with("libc.so"));
    match first.filter(|name| mapped.contains(name)).or_else(|| mapped.iter().find(|name| has_one(name)).cloned()) {
        Some(name) if has_one(&name) => name,
        _ => "libc's malloc".to_owned(),
    }
}

/// Number, name and CPU seconds of each thread of a running process.
#[must_use]
pub fn threads_cpu_s(pid: u32) -> Vec<(u32, String, f64)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let thread = |entry: fs::DirEntry| {
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        let stat = entry.path().join("stat").display().to_string();
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, name.trim().to_owned(), cpu_ticks(&stat, 11) / USER_HZ))
    };
    threads.filter_map(thread).collect()
}

/// CPU seconds used by a running process.
#[must_use]
pub fn cpu_s(pid: u32) -> f64 {
    cpu_ticks(&format!("/proc/{pid}/stat"), 11) / USER_HZ
}

/// CPU seconds of this process's children that have ended and were waited for.
#[must_use]
pub fn ended_children_cpu_s() -> f64 {
    cpu_ticks("/proc/self/stat", 13) / USER_HZ
}

/// User plus system time from a /proc stat file: two consecutive fields, the first of which is field `first` after the
/// name.
fn cpu_ticks(path: &str, first: usize) -> f64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().skip(first).take(2).filter_map(|field| field.parse::<f64>().ok()).sum()
}

/// A TCP port of 127.0.0.1 that was free a moment ago.
///
/// # Errors
/// All ports are taken.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0)).context("no free port")?.local_addr()?.port())
}

/// A command's folder, removed on drop, whatever becomes of the command.
#[derive(Debug)]
pub(crate) struct Scratch(pub PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The folder given for a command's servers, or one of this name in TMPDIR; made if absent.
///
/// # Errors
/// It cannot be made, or is not empty.
pub(crate) fn empty_folder(given: Option<&Path>, name: &str) -> Result<PathBuf> {
    let own = || std::env::temp_dir().join(format!("slipstream-lab-{name}-{}", std::process::id()));
    let folder = given.map_or_else(own, Path::to_owned);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    ensure!(fs::read_dir(&folder)?.next().is_none(), "folder {} is not empty", folder.display());
    Ok(fs::canonicalize(&folder)?)
}

/// Copies a stopped server's folder.
///
/// # Errors
/// A file cannot be copied, or `stop` is raised first.
pub fn copy_folder(from: &Path, to: &Path, stop: &AtomicBool) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        check_stop(stop)?;
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_folder(&path, &target, stop)?;
        } else if kind.is_file() {
            fs::copy(&path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_server_is_refused_by_name() {
        let error = Programs::find(Some(Path::new("/nowhere/at/all"))).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }

    #[test]
    fn a_raised_flag_ends_a_wait_and_the_program() {
        let stop = AtomicBool::new(true);
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do sleep 1; done"]);
        let running = Running::start(&mut command, "a loop").unwrap();
        let stat = format!("/proc/{}/stat", running.pid());
        assert!(format!("{:#}", running.wait(&stop).unwrap_err()).contains("interrupted"));
        assert!(!Path::new(&stat).exists());
    }

    #[test]
    fn the_allocator_is_the_first_that_is_preloaded_or_the_one_that_is_linked() {
        let maps = "55d0-55d1 r-xp 00 0 7 /usr/lib/libtcmalloc_minimal.so.4\n55d2-55d3 r-xp 00 0 7 /usr/lib/libc.so.6\n\
                    55d4-55d5 r-xp 00 0 7 /opt/libjemalloc.so.2\n55d6-55d7 rw-p 00 0 0 [heap]\n";
        assert_eq!(allocator(maps, ""), "libtcmalloc_minimal.so.4");
        assert_eq!(allocator(maps, "/opt/libjemalloc.so.2"), "libjemalloc.so.2");
        assert_eq!(allocator(maps, "/usr/lib/libstdc++.so.6:/usr/lib/libc.so.6"), "libc's malloc");
        assert_eq!(allocator(maps, "/opt/libmimalloc.so"), "libtcmalloc_minimal.so.4", "it could not be loaded");
        assert_eq!(allocator("55d2-55d3 r-xp 00 0 7 /usr/lib/libc.so.6", ""), "libc's malloc");
    }

    #[test]
    fn ticks_after_the_name_are_read() {
        let path = std::env::temp_dir().join(format!("slipstream-ticks-{}", std::process::id()));
        fs::write(&path, "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 40 2 5 6 0 0").unwrap();
        let path_text = path.display().to_string();
        assert!((cpu_ticks(&path_text, 11) - 42.0).abs() < 0.1 && (cpu_ticks(&path_text, 13) - 11.0).abs() < 0.1);
        fs::remove_file(&path).unwrap();
    }
}
