//! The recorded logs: sources that keep them, and relays behind these that stamp them anew.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use compare::TableHash;
use source::TableFilter;
use xxhash_rust::xxh3::xxh3_128;

use super::report::Recorded;
use super::{ClocksArgs, Stamps};
use crate::ourselves;
use crate::servers::{self, PATIENCE, Programs, Running, Server, check_stop};
use crate::tpcc::{self, Limit, TpccOptions};

/// The account that replicates, and its password.
pub(super) const NAME: &str = "repl";
/// sysbench's database.
const DATABASE: &str = "sbtest";
/// Settings of every stock server.
const OPTIONS: [&str; 3] = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--skip-replica-start"];
/// Syncs that are timed.
const SYNCS: u32 = 200;

/// One log and where replicas get it.
#[derive(Clone, Debug)]
pub(super) struct Log {
    /// Number of the recording.
    pub recording: usize,
    pub clients: u32,
    pub stamps: Stamps,
    /// Port of the source or relay; None for a relay that is started while the clock runs.
    pub port: Option<u16>,
}

impl Log {
    pub(super) fn name(&self) -> String {
        format!("{} clients, stamped by {}", self.clients, self.stamps.name())
    }
}

/// A source with the log that it wrote.
struct Recording {
    clients: u32,
    is_reference: bool,
    server: Server,
    /// GTIDs of the log.
    executed: String,
    /// Its rows at the end.
    tables: Vec<TableHash>,
    relays: Vec<(Stamps, Relay)>,
}

/// A relay that has stamped all of its source's log.
pub(super) struct Relay {
    pub port: u16,
    _process: Running,
}

/// Folder for everything, removed on drop.
pub(super) struct Bench<'a> {
    folder: PathBuf,
    pub(super) programs: &'a Programs,
    pub(super) args: &'a ClocksArgs,
    pub(super) stop: &'a AtomicBool,
    recordings: Vec<Recording>,
    /// The library that makes syncs slower; None where none is wanted.
    pub(super) slow_sync: Option<PathBuf>,
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        self.recordings.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl<'a> Bench<'a> {
    pub(super) fn new(args: &'a ClocksArgs, programs: &'a Programs, stop: &'a AtomicBool) -> Result<Bench<'a>> {
        let folder = servers::empty_folder(args.folder.as_deref(), "clocks")?;
        let mut bench = Bench { folder, programs, args, stop, recordings: Vec::new(), slow_sync: None };
        if args.sync_delays.iter().any(|&ms| ms > 0.0) {
            bench.slow_sync = Some(bench.build_slow_sync()?);
        }
        Ok(bench)
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Removes the folder; the error says what failed.
    pub(super) fn remove(mut self) -> Result<()> {
        self.recordings.clear();
        fs::remove_dir_all(&self.folder).with_context(|| format!("cannot remove {}", self.folder.display()))
    }

    fn build_slow_sync(&self) -> Result<PathBuf> {
        let (source, library) = (self.at("slow_sync.c"), self.at("slow_sync.so"));
        fs::write(&source, include_str!("slow_sync.c"))?;
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-O2", "-o"]).args([&library, &source]).arg("-ldl");
        ourselves::output(&mut command, "cc, for --sync-delays other than 0")?;
        Ok(library)
    }

    /// Median time of a sync of 4 KiB in this folder, in microseconds.
    pub(super) fn sync_us(&self) -> Result<f64> {
        let mut file = File::create(self.at("synced"))?;
        let mut times = Vec::new();
        for _ in 0..SYNCS {
            file.write_all(&[7; 4096])?;
            let started = Instant::now();
            file.sync_data()?;
            times.push(started.elapsed().as_secs_f64() * 1e6);
        }
        Ok(replay::turns::median(&times))
    }

    /// Options of a stock server.
    pub(super) fn options(&self, server_id: usize) -> Vec<String> {
        let mut options: Vec<String> = OPTIONS.iter().map(|&option| option.to_owned()).collect();
        options.push(format!("--server-id={server_id}"));
        options.push(format!("--innodb-buffer-pool-size={}", self.args.buffer_pool));
        options
    }

    fn tpcc(&self, server: &Server) -> TpccOptions {
        TpccOptions {
            warehouses: self.args.tables,
            seed: u64::from(self.args.seed),
            limit: Limit::WriteTransactions(self.args.transactions),
            foreign_keys: true,
            ..TpccOptions::new(server.address())
        }
    }

    fn sysbench(&self, server: &Server, what: &[String], action: &str) -> Result<()> {
        let mut command = Command::new("sysbench");
        command.arg(&self.args.workload);
        command.args(["--mysql-host=127.0.0.1", "--mysql-user=root", "--mysql-ssl=off"]);
        command.arg(format!("--mysql-port={}", server.address().port)).arg(format!("--mysql-db={DATABASE}"));
        command.arg(format!("--tables={}", self.args.tables)).arg(format!("--table-size={}", self.args.rows));
        command.arg(format!("--rand-seed={}", self.args.seed)).arg("--rand-type=uniform").args(what).arg(action);
        ourselves::output(command.current_dir(&self.folder), "sysbench").map(drop)
    }

    /// Makes the folder that sources and replicas are copied from: the load's tables, and no log of how they came.
    pub(super) fn prepare(&mut self) -> Result<()> {
        let data = self.at("base");
        self.programs.initialise(&data, self.stop)?;
        let mut options = self.options(1);
        options.push("--innodb-flush-log-at-trx-commit=0".into());
        options.push("--sync-binlog=0".into());
        let server = Server::start(self.programs, &data, &options, self.stop)?;
        let mut connection = server.connect()?;
        connection.exec(&format!("CREATE DATABASE {DATABASE}"))?;
        connection.exec(&format!("CREATE USER {NAME}@'%' IDENTIFIED BY '{NAME}'"))?;
        connection.exec(&format!("GRANT REPLICATION SLAVE ON *.* TO {NAME}@'%'"))?;
        if self.args.workload == "tpcc" {
            tpcc::prepare(&self.tpcc(&server), &mut std::io::sink())?;
        } else {
            self.sysbench(&server, &[], "prepare")?;
        }
        if connection.exec("RESET BINARY LOGS AND GTIDS").is_err() {
            connection.exec("RESET MASTER")?;
        }
        server.shut_down(self.stop)
    }

    /// A new server's folder with the load's tables.
    pub(super) fn copy(&self, name: &str) -> Result<PathBuf> {
        let data = self.at(name);
        servers::copy_folder(&self.at("base"), &data, self.stop)?;
        let _ = fs::remove_file(data.join("auto.cnf"));
        Ok(data)
    }

    /// Writes a log with this many clients at a source of its own, which stays, and has relays stamp it.
    pub(super) fn record(&mut self, clients: u32, is_reference: bool) -> Result<Recorded> {
        let number = self.recordings.len();
        let data = self.copy(&format!("source-{number}"))?;
        let mut options = self.options(101 + number);
        if !is_reference {
            options.push("--binlog-transaction-dependency-history-size=1".into());
        }
        let server = Server::start(self.programs, &data, &options, self.stop)?;
        let started = Instant::now();
        if self.args.workload == "tpcc" {
            let options = TpccOptions { terminals: clients as usize, ..self.tpcc(&server) };
            tpcc::run(&options, &mut std::io::sink())?;
        } else {
            let events = format!("--events={}", self.args.transactions);
            self.sysbench(&server, &[format!("--threads={clients}"), events, "--time=0".into()], "run")?;
        }
        let recorded = Recorded { clients, is_reference, seconds: started.elapsed().as_secs_f64() };
        let executed = server.connect()?.query_value("SELECT @@GLOBAL.gtid_executed")?.unwrap_or_default();
        ensure!(!executed.is_empty(), "the load wrote no transaction");
        let tables = compare::hash_server(&server.address(), &TableFilter::parse::<&str>(&[]))?;
        let executed = executed.replace('\n', "");
        self.recordings.push(Recording { clients, is_reference, server, executed, tables, relays: Vec::new() });
        if !is_reference && !self.args.put_in_between {
            for &how in &self.args.dependency_tracking {
                let relay = self.relay(number, Stamps::Relay(how), "relay")?;
                let recording = self.recordings.last_mut().context("no recording")?;
                recording.relays.push((Stamps::Relay(how), relay));
            }
        }
        Ok(recorded)
    }

    /// Every log, in the order of a round.
    pub(super) fn logs(&self) -> Vec<Log> {
        let mut logs = Vec::new();
        for (number, recording) in self.recordings.iter().enumerate() {
            let own = if recording.is_reference { Stamps::Reference } else { Stamps::Source };
            let log = |stamps, port| Log { recording: number, clients: recording.clients, stamps, port };
            logs.push(log(own, Some(recording.server.address().port)));
            logs.extend(recording.relays.iter().map(|(stamps, relay)| log(*stamps, Some(relay.port))));
            if self.args.put_in_between && !recording.is_reference {
                let relays = self.args.dependency_tracking.iter();
                logs.extend(relays.map(|&how| log(Stamps::Relay(how), None)));
            }
        }
        logs
    }

    /// GTIDs and rows that a replica must have in the end.
    pub(super) fn goal(&self, log: &Log) -> Result<(&str, &[TableHash])> {
        let recording = self.recordings.get(log.recording).context("no such recording")?;
        Ok((&recording.executed, &recording.tables))
    }

    /// Hash over the rows of all sources.
    pub(super) fn hash(&self) -> String {
        let all: Vec<String> = self.recordings.iter().map(|one| replay::total(&one.tables)).collect();
        format!("{:032x}", xxh3_128(all.concat().as_bytes()))
    }

    /// Starts a relay behind a recording's source; returns once it serves all of the log.
    fn relay(&self, recording: usize, stamps: Stamps, name: &str) -> Result<Relay> {
        let relay = self.begin_relay(recording, stamps, name)?;
        let executed = &self.recordings.get(recording).context("no such recording")?.executed;
        let until = Instant::now() + PATIENCE;
        let sql = format!("SELECT GTID_SUBSET('{executed}', @@GLOBAL.gtid_executed)");
        while ourselves::session(relay.port, NAME)?.query_value(&sql)?.as_deref() != Some("1") {
            ensure!(Instant::now() < until, "the relay does not serve {executed} after {PATIENCE:?}");
            check_stop(self.stop)?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(relay)
    }

    /// Starts a relay behind a recording's source; returns once it lets replicas in.
    pub(super) fn begin_relay(&self, recording: usize, stamps: Stamps, name: &str) -> Result<Relay> {
        let Stamps::Relay(how) = stamps else { bail!("no relay stamps this log") };
        let how = super::word(how);
        let data = self.at(&format!("{name}-{recording}-{how}"));
        let source = self.recordings.get(recording).context("no such recording")?.server.address().port;
        let (port, log) = (servers::free_port()?, data.with_extension("log"));
        let mut command = Command::new(ourselves::program()?);
        command.args(["relay", "--no-defaults", "--source", &format!("mysql://root@127.0.0.1:{source}")]);
        command.arg("--data").arg(&data).args(["--port", &port.to_string(), "--dependency-tracking", &how]);
        command.stdin(Stdio::null()).stdout(File::create(&log)?).stderr(File::create(&log)?);
        let mut process = Running::start(&mut command, "the relay")?;
        let until = Instant::now() + PATIENCE;
        let mut has_account = false;
        while !has_account || ourselves::session(port, NAME).is_err() {
            let goes_on = process.ended()?.is_none() && Instant::now() < until;
            let told = || fs::read_to_string(&log).unwrap_or_default();
            ensure!(goes_on, "the relay does not answer: {}", told());
            check_stop(self.stop)?;
            // Without an account there is no login to try: a refused password is not tried again.
            has_account = has_account || {
                let command = Command::new(ourselves::program()?);
                ourselves::add_account(command, &data, NAME, "replicate,monitor").is_ok()
            };
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Relay { port, _process: process })
    }
}
