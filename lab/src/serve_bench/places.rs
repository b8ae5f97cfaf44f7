//! The servers that are read: a stock one with and without performance_schema, and replicas of it whose rows lie in
//! memory, in one cut, or in memory and in several cuts.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use client::Connection;
use rustix::process::{Pid, Signal, kill_process};
use xxhash_rust::xxh3::xxh3_128;

use super::ServeArgs;
use super::client::Sysbench;
use crate::ourselves;
use crate::servers::{self, PATIENCE, Programs, Server, check_stop};

/// The account that reads, and its password.
const NAME: &str = "bench";
const DATABASE: &str = "sbtest";
/// Rows that one statement of the check reads.
const CHECKED: u32 = 1_000;

/// Options of the stock servers.
pub(super) fn mysql_options(memory: &str) -> Vec<String> {
    let mut options: Vec<String> =
        ["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--server-id=1"].map(str::to_owned).to_vec();
    options.push(format!("--innodb-buffer-pool-size={memory}"));
    options
}

/// One of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    MysqlPlain,
    /// MySQL as it ships.
    Mysql,
    /// A replica that has cut nothing.
    Memory,
    /// A replica whose rows all lie in one cut.
    Cut,
    /// A replica with a third of its rows in memory, another one in a later cut, and so on.
    Layers,
}

impl Place {
    pub(super) fn name(self) -> &'static str {
        match self {
            Place::MysqlPlain => "mysql, no perf. schema",
            Place::Mysql => "mysql as it ships",
            Place::Memory => "slipstream, in memory",
            Place::Cut => "slipstream, just cut",
            Place::Layers => "slipstream, in layers",
        }
    }
}

/// How sysbench reaches a server.
pub(super) struct Reach {
    port: u16,
    /// What its certificate is verified with.
    pub(super) certificate: PathBuf,
}

impl Reach {
    pub(super) fn arguments(&self) -> Vec<String> {
        vec![
            "--mysql-host=127.0.0.1".into(),
            format!("--mysql-port={}", self.port),
            format!("--mysql-user={NAME}"),
            format!("--mysql-password={NAME}"),
            format!("--mysql-db={DATABASE}"),
        ]
    }
}

/// A server that is being read.
pub(super) struct Running {
    what: What,
    reach: Reach,
    rows: u32,
}

enum What {
    Mysql(Server),
    Replica(servers::Running),
}

impl Running {
    pub(super) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// CPU seconds used by the server.
    pub(super) fn cpu_s(&self) -> f64 {
        match &self.what {
            What::Mysql(server) => server.cpu_s(),
            What::Replica(running) => servers::cpu_s(running.pid()),
        }
    }

    /// A session of the account that reads, over TLS: its first login may need it.
    fn session(&self) -> Result<Connection> {
        ourselves::session(self.reach.port, NAME)
    }

    /// Hash over all rows, which warms the server too.
    pub(super) fn hash(&self) -> Result<String> {
        let mut connection = self.session()?;
        let mut all = Vec::new();
        for first in (1..=self.rows).step_by(CHECKED as usize) {
            let last = first + CHECKED - 1;
            let sql =
                format!("SELECT id, k, c, pad FROM {DATABASE}.sbtest1 WHERE id BETWEEN {first} AND {last} ORDER BY id");
            let rows = connection.query(&sql)?.rows;
            let mut text = Vec::new();
            for value in rows.iter().flatten() {
                text.extend_from_slice(value.as_deref().unwrap_or(b"NULL"));
                text.push(0);
            }
            ensure!(!rows.is_empty(), "no rows from {first} on");
            all.extend_from_slice(&xxh3_128(&text).to_le_bytes());
        }
        Ok(format!("{:032x}", xxh3_128(&all)))
    }
}

/// Folder for everything, removed on drop; the source runs all the time.
pub(super) struct Places<'a> {
    folder: PathBuf,
    programs: Programs,
    args: &'a ServeArgs,
    stop: &'a AtomicBool,
    source: Option<Server>,
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        self.source = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl<'a> Places<'a> {
    pub(super) fn new(args: &'a ServeArgs, programs: &Programs, stop: &'a AtomicBool) -> Result<Places<'a>> {
        let folder = servers::empty_folder(args.folder.as_deref(), "serve")?;
        let programs = programs.bound_to(&args.server_cpu.to_string());
        Ok(Places { folder, programs, args, stop, source: None })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes the folder; the error says what failed.
    pub(super) fn remove(mut self) -> Result<()> {
        self.source = None;
        fs::remove_dir_all(&self.folder).with_context(|| format!("cannot remove {}", self.folder.display()))
    }

    fn mysql(&self, data: &Path, performance_schema: &str) -> Result<Server> {
        let mut options = mysql_options(&self.args.memory);
        options.push(format!("--performance-schema={performance_schema}"));
        Server::start(&self.programs, data, &options, self.stop)
    }

    /// Makes the source and its table.
    pub(super) fn fill(&mut self, sysbench: &Sysbench) -> Result<()> {
        let data = self.folder.join("source");
        self.programs.initialise(&data, self.stop)?;
        let server = self.mysql(&data, "OFF")?;
        let mut connection = server.connect()?;
        connection.exec(&format!("CREATE DATABASE {DATABASE}"))?;
        connection.exec(&format!("CREATE USER {NAME}@'%' IDENTIFIED BY '{NAME}'"))?;
        connection.exec(&format!("GRANT ALL ON {DATABASE}.* TO {NAME}@'%'"))?;
        let reach = Reach { port: server.address().port, certificate: data.join("ca.pem") };
        // From its first login over TLS on, the server takes the account without.
        drop(ourselves::session(reach.port, NAME)?);
        sysbench.prepare(&reach)?;
        for name in ["client-key.pem", "client-cert.pem"] {
            fs::copy(data.join(name), self.folder.join(name)).with_context(|| name.to_owned())?;
        }
        // Copies of its folder become the servers that are read; it is itself only replicated.
        server.shut_down(self.stop)?;
        for schema in ["ON", "OFF"] {
            let copy = self.folder.join(format!("stock-{schema}"));
            servers::copy_folder(&data, &copy, self.stop)?;
            let _ = fs::remove_file(copy.join("auto.cnf"));
        }
        self.source = Some(self.mysql(&data, "OFF")?);
        Ok(())
    }

    fn source(&self) -> Result<&Server> {
        self.source.as_ref().context("no source")
    }

    /// Starts these servers, all of which then stand side by side.
    pub(super) fn start(&mut self, wanted: &mut dyn Iterator<Item = Place>) -> Result<Vec<(Place, Running)>> {
        let wanted: Vec<Place> = wanted.collect();
        let mut running = Vec::new();
        // First the one that must see rows change.
        if wanted.contains(&Place::Layers) {
            for third in 0..2 {
                let replica = self.replica("layers")?;
                self.change(third)?;
                self.wait_caught_up(&replica)?;
                // A clean stop cuts.
                self.stop(replica)?;
            }
            let replica = self.replica("layers")?;
            self.change(2)?;
            self.wait_caught_up(&replica)?;
            running.push((Place::Layers, replica));
        }
        // The source has all its log, so nothing is copied: the rows are replayed into memory, and a clean stop cuts.
        if wanted.contains(&Place::Cut) {
            let replica = self.replica("cut")?;
            self.stop(replica)?;
            running.push((Place::Cut, self.replica("cut")?));
        }
        if wanted.contains(&Place::Memory) {
            running.push((Place::Memory, self.replica("memory")?));
        }
        let stock: Vec<Place> =
            wanted.iter().copied().filter(|place| matches!(place, Place::MysqlPlain | Place::Mysql)).collect();
        for place in stock {
            running.push((place, self.stock(place)?));
        }
        running.sort_by_key(|(place, _)| wanted.iter().position(|one| one == place));
        Ok(running)
    }

    /// A server with a copy of the source's folder.
    fn stock(&self, place: Place) -> Result<Running> {
        let schema = if place == Place::Mysql { "ON" } else { "OFF" };
        let copy = self.folder.join(format!("stock-{schema}"));
        let server = self.mysql(&copy, schema)?;
        let reach = Reach { port: server.address().port, certificate: copy.join("ca.pem") };
        Ok(Running { what: What::Mysql(server), reach, rows: self.args.rows })
    }

    /// Writes a third of the rows anew, with the values they have: a changed column is changed back.
    fn change(&self, third: u32) -> Result<()> {
        let mut connection = self.source()?.connect()?;
        for sign in ["+", "-"] {
            connection.exec(&format!("UPDATE {DATABASE}.sbtest1 SET k = k {sign} 1 WHERE id % 3 = {third}"))?;
        }
        Ok(())
    }

    fn wait_caught_up(&self, replica: &Running) -> Result<()> {
        let executed = self.source()?.connect()?.query_value("SELECT @@GLOBAL.gtid_executed")?.unwrap_or_default();
        let sql = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{}', 120)", executed.replace('\n', ""));
        let waited = replica.session()?.query_value(&sql)?;
        ensure!(waited.as_deref() == Some("0"), "the replica does not catch up");
        Ok(())
    }

    /// Starts the replica and waits until it has caught up.
    fn replica(&self, name: &str) -> Result<Running> {
        let source = self.source()?.address().port;
        let (data, port) = (self.folder.join(name), servers::free_port()?);
        let log = self.folder.join(format!("{name}.log"));
        let mut command = self.ourselves()?;
        command.args(["replica", "--no-defaults", "--source", &format!("mysql://root@127.0.0.1:{source}")]);
        command.arg("--data").arg(&data).args(["--port", &port.to_string(), "--cut-interval", "1h"]);
        command.args(["--memory", &self.args.memory]);
        command.stdin(Stdio::null()).stdout(File::create(&log)?).stderr(File::create(&log)?);
        let process = servers::Running::start(&mut command, "the replica")?;
        let reach = Reach { port, certificate: data.join("server-cert.pem") };
        let mut running = Running { what: What::Replica(process), reach, rows: self.args.rows };
        let until = Instant::now() + PATIENCE;
        let mut has_account = data.join("accounts").exists();
        loop {
            // Without an account there is no login to try: a refused password is not tried again.
            if !has_account {
                has_account = ourselves::add_account(self.ourselves()?, &data, NAME, "read").is_ok();
            }
            let answer =
                if has_account { self.wait_caught_up(&running) } else { Err(anyhow!("no account can be added")) };
            let Err(error) = answer else { break };
            let What::Replica(process) = &mut running.what else { bail!("no replica") };
            let goes_on = process.ended()?.is_none() && Instant::now() < until;
            let told = || fs::read_to_string(&log).unwrap_or_default();
            ensure!(goes_on, "the replica does not answer ({error:#}): {}", told());
            check_stop(self.stop)?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }

    /// The running program on the servers' CPU.
    fn ourselves(&self) -> Result<Command> {
        let mut command = Command::new("taskset");
        command.arg("-c").arg(self.args.server_cpu.to_string()).arg(ourselves::program()?);
        Ok(command)
    }

    /// Stops a server; a replica cuts at its end.
    pub(super) fn stop(&self, running: Running) -> Result<()> {
        match running.what {
            What::Mysql(server) => server.shut_down(self.stop),
            What::Replica(process) => {
                let pid = i32::try_from(process.pid()).ok().and_then(Pid::from_raw).context("no process id")?;
                kill_process(pid, Signal::TERM)?;
                let status = process.wait(self.stop)?;
                ensure!(status.success(), "the replica ended with {status}");
                Ok(())
            }
        }
    }
}
