//! Throw-away servers, created and run by testbed/mysql and testbed/mariadb.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use base::GtidSet;
use client::{ConnectOptions, Connection};

use crate::{Ran, repository, run_with_input, scratch, skipped};

/// Options of a server that does not wait for its disk.
const UNSYNCED: [&str; 2] = ["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2"];

/// True if tests may use real servers and MySQL's programs (`SLIPSTREAM_TEST_SERVER=1`); otherwise says that this one
/// is skipped.
#[must_use]
pub fn servers() -> bool {
    let on = std::env::var("SLIPSTREAM_TEST_SERVER").as_deref() == Ok("1");
    if !on {
        skipped("set SLIPSTREAM_TEST_SERVER=1 to run against real servers");
    }
    on
}

/// A server, destroyed with its data on drop.
pub struct Server {
    script: &'static str,
    name: String,
    port: u16,
}

impl Server {
    /// Starts a MySQL server as [`start_unsynced`](Self::start_unsynced) does; None, with a message, if this run may
    /// not use [`servers`].
    #[must_use]
    pub fn or_skip(name: &str, options: &[&str]) -> Option<Server> {
        servers().then(|| Server::start_unsynced(name, options))
    }

    /// Starts a MySQL server with these mysqld options.
    #[must_use]
    pub fn start(name: &str, options: &[&str]) -> Server {
        Server::start_with("mysql", name, options, None).unwrap_or_else(|error| panic!("no server: {error}"))
    }

    /// As `start_unsynced`, with this system time zone, in POSIX's form.
    #[must_use]
    pub fn start_in_zone(name: &str, zone: &str) -> Server {
        Server::start_with("mysql", name, &UNSYNCED, Some(zone)).unwrap_or_else(|error| panic!("no server: {error}"))
    }

    /// Starts a MySQL server that does not wait for its disk at each commit, yet loses nothing when killed: for tests
    /// of what is replayed, not of when the source sends it.
    #[must_use]
    pub fn start_unsynced(name: &str, options: &[&str]) -> Server {
        Server::start(name, &[&UNSYNCED[..], options].concat())
    }

    /// Starts a MariaDB server, not synced; None, with a message, if none is installed.
    #[must_use]
    pub fn mariadb(name: &str, options: &[&str]) -> Option<Server> {
        Server::start_with("mariadb", name, &[&UNSYNCED[..], options].concat(), None)
            .map_err(|error| skipped(&format!("no MariaDB: {error}")))
            .ok()
    }

    /// As [`mariadb`](Self::mariadb); None, with a message, also if this run may not use [`servers`].
    #[must_use]
    pub fn mariadb_or_skip(name: &str, options: &[&str]) -> Option<Server> {
        if servers() { Server::mariadb(name, options) } else { None }
    }

    fn start_with(script: &'static str, name: &str, options: &[&str], zone: Option<&str>) -> Result<Server, String> {
        // Names are used once: the last holder of a shared server may still be shutting it down.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut server = Server { script, name, port: 0 };
        let ran = Ran::from(
            server
                .command("start")
                .arg(SMALL_LOG_BUFFER)
                .args(options)
                .envs(zone.map(|zone| ("TZ", zone)))
                .output()
                .unwrap(),
        );
        if ran.code != 0 {
            return Err(ran.err);
        }
        server.find_port();
        Ok(server)
    }

    /// A member that `testbed/mysql group` starts.
    pub(crate) fn of_group(name: &str) -> Server {
        Server { script: "mysql", name: name.to_owned(), port: 0 }
    }

    pub(crate) fn find_port(&mut self) {
        self.port = self.ask("port").parse().unwrap();
    }

    /// A server, not synced, that the tests of this process share while any of them holds it.
    pub fn shared(place: &'static Mutex<Weak<Server>>, name: &str, options: &[&str]) -> Arc<Server> {
        let mut place = place.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        place.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Server::start_unsynced(name, options));
            *place = Arc::downgrade(&server);
            server
        })
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = testbed(self.script);
        command.args([verb, &self.name]).env("SLIPSTREAM_TESTBED_RUN", scratch().join("run"));
        command
    }

    fn ask(&self, verb: &str) -> String {
        let ran = Ran::from(self.command(verb).output().unwrap());
        assert_eq!(ran.code, 0, "testbed {verb}: {}", ran.err);
        ran.out.trim().to_owned()
    }

    /// Runs statements as root; returns their rows without headers, tab-separated.
    ///
    /// # Errors
    /// The client's message.
    pub fn try_sql(&self, sql: &str) -> Result<String, String> {
        self.client(&[], sql)
    }

    /// Runs statements that must succeed.
    pub fn sql(&self, sql: &str) -> String {
        let start: String = sql.chars().take(300).collect();
        self.try_sql(sql).unwrap_or_else(|error| panic!("{}: {error}\nin: {start}", self.name))
    }

    /// As [`try_sql`](Self::try_sql), with more options of the mysql client.
    ///
    /// # Errors
    /// The client's message.
    pub fn client(&self, options: &[&str], sql: impl AsRef<[u8]>) -> Result<String, String> {
        let fixed =
            ["--batch", "--raw", "--skip-column-names", "--default-character-set=utf8mb4", "--max-allowed-packet=1G"];
        let ran = run_with_input(self.client_command().args(fixed).args(options), sql);
        if ran.code == 0 { Ok(ran.out) } else { Err(ran.err) }
    }

    /// The mysql client as root, without any other option.
    #[must_use]
    pub fn client_command(&self) -> Command {
        self.command("sql")
    }

    /// How [`Connection`] logs in as `root`, or as a user whose password is its name, as `repl` is.
    #[must_use]
    pub fn login(&self, user: &str) -> ConnectOptions {
        let password = (user != "root").then(|| user.to_owned());
        ConnectOptions { port: self.port, user: user.to_owned(), password, ..ConnectOptions::default() }
    }

    /// A connection as root.
    #[must_use]
    pub fn connect(&self) -> Connection {
        Connection::connect(&self.login("root")).unwrap()
    }

    /// `mysql://USER@127.0.0.1:PORT`; the password of `repl` comes from MYSQL_PWD.
    #[must_use]
    pub fn url(&self, user: &str) -> String {
        format!("mysql://{user}@127.0.0.1:{}", self.port)
    }

    /// Name among the testbed's servers.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.ask("socket").into()
    }

    /// Data folder.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.ask("dir").into()
    }

    /// gtid_executed.
    #[must_use]
    pub fn gtid_executed(&self) -> GtidSet {
        self.sql("SELECT @@GLOBAL.gtid_executed").replace('\n', "").parse().unwrap()
    }

    /// Rotates the binary log and purges every file but the new one. PURGE BINARY LOGS leaves a file that is still sent
    /// to a replica (warning 1867), and the source notices only after a while that a replica has gone: asked again
    /// until the files are gone.
    ///
    /// # Panics
    /// If one is still there after 120 s.
    pub fn purge_binary_logs(&self) {
        let files = |sql: &str| -> Vec<String> {
            let rows = self.sql(&format!("{sql}; SHOW BINARY LOGS"));
            rows.lines().map(|row| row.split('\t').next().unwrap().to_owned()).collect()
        };
        let newest = files("FLUSH BINARY LOGS").pop().unwrap();
        let started = Instant::now();
        loop {
            let left = files(&format!("PURGE BINARY LOGS TO '{newest}'"));
            if left[0] == newest {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(120), "{}: not purged: {left:?}", self.name);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the connections over which replicas receive its log.
    pub fn end_dumps(&self) {
        let dumps = self.sql("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog%'");
        // One that has ended by itself cannot be killed.
        dumps.lines().for_each(|id| drop(self.try_sql(&format!("KILL {id}"))));
    }

    /// Waits until the number of InnoDB's transactions that fulfil a condition over
    /// `information_schema.INNODB_TRX` is a wanted one. That view is a copy that InnoDB renews only where nobody has
    /// read it for 0.1 s: who reads it more often sees the same rows for ever.
    ///
    /// # Panics
    /// If it is another number after 120 s.
    pub fn wait_for_transactions(&self, condition: &str, wanted: impl Fn(u64) -> bool) {
        let mut connection = self.connect();
        let started = Instant::now();
        loop {
            std::thread::sleep(Duration::from_millis(150));
            let sql = format!("SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE {condition}");
            let count = connection.query_value(&sql).unwrap().unwrap().parse().unwrap();
            if wanted(count) {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(120), "{}: {count} where {condition}", self.name);
        }
    }

    /// Shuts it down cleanly.
    pub fn stop(&self) {
        self.ask("stop");
    }

    /// Kills it with SIGKILL.
    pub fn kill(&self) {
        self.ask("kill");
    }

    /// Restarts it on the same port, with the previous options and these.
    pub fn restart(&self, options: &[&str]) {
        let ran = Ran::from(self.command("restart").args(options).output().unwrap());
        assert_eq!(ran.code, 0, "restart: {}", ran.err);
    }

    /// The mysqlbinlog program, which finds files of this server by their names.
    #[must_use]
    pub fn mysqlbinlog_command(&self) -> Command {
        self.command("binlog")
    }

    /// Runs mysqlbinlog with these arguments.
    #[must_use]
    pub fn mysqlbinlog(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command("binlog").args(arguments).output().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let keep = std::env::var("SLIPSTREAM_TEST_KEEP").unwrap_or_default();
        if keep == "always" || std::thread::panicking() && !keep.is_empty() {
            let _ = std::fs::write(scratch().join("keep"), "");
            eprintln!("kept: {}", scratch().display());
            return;
        }
        let _ = self.command("destroy").output();
    }
}

/// Runs MySQL's mysqlbinlog on a file, without a server.
pub fn mysqlbinlog(options: &[&str], file: &Path) -> Ran {
    Ran::from(testbed("mysql").args(["run", "mysqlbinlog"]).args(options).arg(file).output().unwrap())
}

/// MySQL's `mysql` client without options, for servers that are not the testbed's.
#[must_use]
pub fn mysql_client() -> Command {
    let mut command = testbed("mysql");
    command.args(["run", "mysql", "--no-defaults"]);
    command
}

/// InnoDB clears the 64 MiB of its default at each start: a tenth of the CPU time of one.
const SMALL_LOG_BUFFER: &str = "--innodb-log-buffer-size=8M";

pub(crate) fn testbed(script: &str) -> Command {
    Command::new(repository().join("testbed").join(script))
}
