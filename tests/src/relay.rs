//! Relays and replicas that serve their log, stock replicas behind them, and what both say of each other.

use std::path::{Path, PathBuf};
use std::process::Command;

use base::{GtidSet, Tag, Uuid};

use crate::compare::table_names;
use crate::{Ran, Replica, Server, binary, folder, repository, run_with_input, slipstream, wait_for};

/// A relay, or a replica that serves its log, with an account `repl` that may replicate and monitor, and one `reader`
/// that may not.
pub struct Relay {
    /// Its process.
    pub process: Replica,
    /// Its folder.
    pub data: PathBuf,
    /// Its port for replicas and clients.
    pub port: String,
    /// What it was started as.
    run: Run,
}

/// Starts one in a folder.
type Run = fn(&Server, &Path, &[&str]) -> Replica;

/// Adds an account with the password `repl`.
pub fn account(data: &Path, arguments: &[&str]) {
    let mut command = Command::new(binary());
    command.arg("account").args(arguments).args(["--data", data.to_str().unwrap(), "--no-defaults"]);
    run_with_input(&mut command, "repl\n").expect(0, &["is added"]);
}

impl Relay {
    /// A relay.
    pub fn start(source: &Server, name: &str, options: &[&str]) -> Relay {
        Relay::within(source, folder(name), options)
    }

    /// A relay in this folder.
    pub fn within(source: &Server, data: PathBuf, options: &[&str]) -> Relay {
        Relay::of(Replica::relay(source, &data, options), data)
    }

    /// A replica that serves its log.
    pub fn beside_replay(source: &Server, name: &str, options: &[&str]) -> Relay {
        Relay::beside_replay_within(source, folder(name), options)
    }

    /// A replica that serves its log, in this folder.
    pub fn beside_replay_within(source: &Server, data: PathBuf, options: &[&str]) -> Relay {
        let run: Run = serving_replica;
        Relay { run, ..Relay::of(run(source, &data, options), data) }
    }

    /// A relay that runs; it gets its accounts.
    pub fn of(mut process: Replica, data: PathBuf) -> Relay {
        account(&data, &["add", "repl", "--may", "replicate,monitor"]);
        account(&data, &["add", "reader", "--may", "read,monitor"]);
        let status = process.wait_until("its port", |status| status["clients"]["address"].is_string());
        let address = status["clients"]["address"].as_str().unwrap().to_owned();
        let port = address.rsplit_once(':').unwrap().1.to_owned();
        Relay { process, data, port, run: Replica::relay }
    }

    /// kill -9, and the same command again.
    pub fn kill_and_start(self, source: &Server, options: &[&str]) -> Relay {
        let Relay { process, data, port, run } = self;
        process.kill();
        let port_option = format!("--port={port}");
        let process = run(source, &data, &[&[port_option.as_str()], options].concat());
        Relay { process, data, port, run }
    }

    /// Stops it, and starts a replica in its folder.
    pub fn stop_and_start_replica(self, source: &Server, options: &[&str]) -> Relay {
        let Relay { process, data, port, run } = self;
        process.stop();
        let port_option = format!("--port={port}");
        let process = Replica::follow(source, &data, &[&[port_option.as_str()], options].concat());
        Relay { process, data, port, run }
    }

    /// Runs a client program at it.
    pub fn client(&self, program: &str, user: &str, arguments: &[&str]) -> Ran {
        let mut command = Command::new(repository().join("testbed/mysql"));
        command.args(["run", program, "--no-defaults", "--host=127.0.0.1", "--port", &self.port, "--user", user]);
        Ran::from(command.arg("--password=repl").args(arguments).output().unwrap())
    }

    /// Runs statements at it as `repl`.
    pub fn sql(&self, sql: &str) -> Ran {
        self.client("mysql", "repl", &["--batch", "--skip-column-names", "-e", sql])
    }

    /// Makes a stock replica follow it.
    pub fn feeds(&self, replica: &Server) {
        let port = &self.port;
        replica.sql(&format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='repl',
                 SOURCE_PASSWORD='repl', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1, SOURCE_CONNECT_RETRY=1,
                 SOURCE_RETRY_COUNT=1000;
             START REPLICA"
        ));
    }

    /// Its data folder.
    #[must_use]
    pub fn data(&self) -> &str {
        self.data.to_str().unwrap()
    }

    /// Waits until it serves what the source has.
    pub fn catches_up(&mut self, source: &Server) -> serde_json::Value {
        self.process.catch_up(source)
    }

    /// Names and bytes of the served files, in order, without one that goes while they are read.
    #[must_use]
    pub fn served(&self) -> Vec<(String, Vec<u8>)> {
        let dir = self.data.join("served-log");
        let names = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let is_file = |name: &String| name.strip_prefix("binlog.").is_some_and(|rest| rest.parse::<u64>().is_ok());
        let mut names: Vec<String> = names.filter(is_file).collect();
        names.sort();
        let bytes = |name: String| match std::fs::read(dir.join(&name)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            bytes => Some((name, bytes.unwrap())),
        };
        names.into_iter().filter_map(bytes).collect()
    }
}

/// SHOW REPLICA STATUS, a column a line, and what its workers say.
#[must_use]
pub fn replica_status(replica: &Server) -> String {
    let shown = replica.client(&["--vertical", "--column-names"], "SHOW REPLICA STATUS").unwrap();
    let errors = "SELECT LAST_ERROR_MESSAGE FROM performance_schema.replication_applier_status_by_worker
                  WHERE LAST_ERROR_NUMBER <> 0";
    shown + &replica.sql(errors)
}

/// True if its appliers do not run.
#[must_use]
pub fn has_stopped(replica: &Server) -> bool {
    replica.sql("SELECT SERVICE_STATE FROM performance_schema.replication_applier_status").trim() == "OFF"
}

/// Waits until a server has executed what another one has.
#[track_caller]
pub fn wait_until_equal(source: &Server, replica: &Server) {
    let goal = source.gtid_executed();
    let look = || {
        assert!(!has_stopped(replica), "{}", replica_status(replica));
        goal.is_subset_of(&replica.gtid_executed()).then_some(())
    };
    wait_for("the replica behind the relay", look, || replica_status(replica));
}

/// Compares all tables of these databases.
#[track_caller]
pub fn assert_same_rows(source: &Server, replica: &Server, dbs: &[&str]) {
    let tables = table_names(source, dbs);
    let (from, to) = (source.url("repl"), replica.url("repl"));
    let mut arguments = vec!["verify", "--source", &from, "--replica", &to];
    arguments.extend(tables.iter().map(String::as_str));
    slipstream(&arguments).expect(0, &[]);
}

/// A source that stamps as poorly as an old one.
#[must_use]
pub fn source(name: &str) -> Server {
    Server::start_unsynced(name, &["--binlog-transaction-dependency-history-size=1"])
}

/// A stock replica with many workers.
#[must_use]
pub fn replica(name: &str) -> Server {
    Server::start_unsynced(name, &["--replica-parallel-workers=16", "--innodb-lock-wait-timeout=20"])
}

/// Makes a source semi-synchronous, whose commits wait for ever; it gets a table `d.t`.
pub fn semi_synchronous(source: &Server) {
    source.sql(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY);
         INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so';
         SET GLOBAL rpl_semi_sync_source_timeout = 4000000000; SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON;
         SET GLOBAL rpl_semi_sync_source_enabled = ON",
    );
}

/// Makes a stock replica acknowledge what it receives.
pub fn acknowledges(replica: &Server) {
    replica.sql(
        "INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so';
         SET GLOBAL rpl_semi_sync_replica_enabled = ON",
    );
}

/// Transactions that a source committed after an acknowledgement.
#[must_use]
pub fn acknowledged(source: &Server) -> u64 {
    let shown = source.sql("SHOW STATUS LIKE 'Rpl_semi_sync_source_yes_tx'");
    shown.split_whitespace().last().unwrap().parse().unwrap()
}

/// What the source has executed, and its next transaction, which is not executed before it is acknowledged: AFTER_SYNC.
#[must_use]
pub fn with_next(source: &Server) -> GtidSet {
    let uuid: Uuid = source.sql("SELECT @@server_uuid").trim().parse().unwrap();
    let mut goal = source.gtid_executed();
    let last = goal.intervals().filter(|(own, ..)| *own == uuid).map(|(.., interval)| interval.last).max().unwrap();
    goal.add_range(uuid, Tag::EMPTY, last + 1, last + 1);
    goal
}

/// Releases commits that wait after a panic, so that the test ends.
pub struct Releases<'a>(pub &'a Server);

impl Drop for Releases<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.try_sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF");
        }
    }
}

fn serving_replica(source: &Server, data: &Path, options: &[&str]) -> Replica {
    Replica::follow(source, data, &[&["--serve-log"], options].concat())
}
