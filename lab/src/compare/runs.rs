//! One run of one contender, from a folder made for it to the hash of what it left.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use client::Connection;
use compare::TableHash;
use serde_json::Value;

use super::CompareArgs;
use super::contenders::{Contender, How};
use super::logs::{self, Goal};
use super::report::LogFacts;
use crate::ourselves;
use crate::reported::{Reported, variable_of};
use crate::servers::{
    PATIENCE, Programs, Running, Scratch, Server, copy_folder, empty_folder, ended_children_cpu_s, wait_applied,
};
use crate::stacks::{Sampling, Stack};

/// Base name of the relay log files put in place.
const RELAY: &str = "relay-log";
/// Base name of the binary log files that the copy limit's server serves.
const SERVED: &str = "served";

/// Measurements of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub wall_s: f64,
    pub cpu_s: f64,
    pub peak_rss_bytes: u64,
    /// Settings, as ours or a stock server reported them.
    pub settings: Option<String>,
    /// Of a stock server, as it reported it.
    pub synced: Option<Synced>,
    /// CPU seconds of a stock server's threads while it replayed, by name.
    pub threads: Vec<(String, f64)>,
    /// Answer of a stock server to the contender's question.
    pub asked: Vec<(String, f64)>,
    /// Stacks of a stock server's threads, if they were sampled.
    pub stacks: Vec<Stack>,
    /// A stock server's allocator, by what it has mapped.
    pub allocator: String,
    pub difference: Option<String>,
}

impl Sample {
    /// Settings and allocator, as they were reported and seen.
    pub(crate) fn options(&self) -> String {
        let settings = self.settings.iter().map(String::as_str);
        settings.chain([self.allocator.as_str()]).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

/// When a stock server syncs its binary log and its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Synced {
    pub log: String,
    pub store: String,
}

/// State at the end of our replay of a log.
#[derive(Clone, Debug, Default)]
struct Reference {
    hash: String,
    tables: Vec<TableHash>,
}

/// A log to replay: its files and the expected result.
#[derive(Debug, Default)]
struct Log {
    files: Vec<PathBuf>,
    goal: Goal,
    reference: Reference,
}

/// Logs, folders and servers of a comparison.
pub(crate) struct Bench<'a> {
    scratch: Scratch,
    /// The program whose replays are measured.
    ourselves: PathBuf,
    programs: Option<&'a Programs>,
    stop: &'a AtomicBool,
    load: Vec<PathBuf>,
    whole: Log,
    part: Log,
    server_id: u32,
    buffer_pool: String,
    more_options: Vec<String>,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(args: &CompareArgs, programs: Option<&'a Programs>, stop: &'a AtomicBool) -> Result<Bench<'a>> {
        let (load, files) = (replay::expand(&args.load)?, replay::expand(&args.logs)?);
        let goal = logs::goal(&files)?;
        ensure!(goal.transactions > 0, "no transaction in the log");
        let folder = empty_folder(args.folder.as_deref(), "compare")?;
        let load_ids = logs::goal(&load)?.server_ids;
        let mut server_id = 4_294_000_002;
        while goal.server_ids.contains(&server_id) || load_ids.contains(&server_id) {
            server_id += 1;
        }
        Ok(Bench {
            scratch: Scratch(folder),
            ourselves: crate::ourselves::program()?,
            programs,
            stop,
            load,
            whole: Log { files, goal, reference: Reference::default() },
            part: Log::default(),
            server_id,
            buffer_pool: args.buffer_pool.clone(),
            more_options: args.mysqld_option.clone(),
        })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.0.join(name)
    }

    fn programs(&self) -> Result<&'a Programs> {
        self.programs.context("no mysqld")
    }

    /// Removes the folder; the error says what failed.
    pub(super) fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.scratch.0).with_context(|| format!("cannot remove {}", self.scratch.0.display()))
    }

    /// Truncates the log after this many transactions, for contenders that replay a part.
    pub(super) fn cut_first_part(&mut self, transactions: u64) -> Result<()> {
        let files = logs::first_part(&self.whole.files, transactions, &self.at("first-part"))?;
        self.part = Log { goal: logs::goal(&files)?, files, reference: Reference::default() };
        Ok(())
    }

    fn log(&self, part: bool) -> &Log {
        if part { &self.part } else { &self.whole }
    }

    /// Replays the log, or its first part, with ours, to learn its content and the expected result.
    pub(crate) fn reference(&mut self, part: bool) -> Result<LogFacts> {
        let report = self.replay((&self.ourselves, None), part, &[])?;
        let measured = report.get("measured").cloned().unwrap_or_default();
        let number = |name: &str| measured.get(name).and_then(Value::as_u64).unwrap_or(0);
        let reference = reference_of(&report)?;
        let facts = LogFacts {
            transactions: number("transactions"),
            write_transactions: number("write_transactions"),
            rows: number("rows"),
            bytes: number("bytes"),
            hash: reference.hash.clone(),
        };
        let log = if part { &mut self.part } else { &mut self.whole };
        log.reference = reference;
        Ok(facts)
    }

    fn replay(&self, program: (&Path, Option<&str>), part: bool, arguments: &[String]) -> Result<Value> {
        ourselves::replay(program, &self.scratch.0, &self.load, &self.log(part).files, arguments, self.stop)
    }

    /// An empty data folder, made once.
    fn empty(&self) -> Result<PathBuf> {
        let data = self.at("empty");
        if !data.exists() {
            self.programs()?.initialise(&data, self.stop)?;
        }
        Ok(data)
    }

    /// A data folder that holds the load, from which rounds start.
    pub(crate) fn load_stock(&mut self) -> Result<()> {
        let data = self.at("loaded");
        copy_folder(&self.empty()?, &data, self.stop)?;
        let load = Log { goal: logs::goal(&self.load)?, files: self.load.clone(), reference: Reference::default() };
        let options: Vec<String> = [
            "--skip-log-bin",
            "--log-replica-updates=OFF",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-doublewrite=OFF",
            // Rounds read this into their buffer pool before the clock starts.
            "--innodb-buffer-pool-dump-pct=100",
        ]
        .map(str::to_owned)
        .to_vec();
        if !load.files.is_empty() {
            logs::place(&load.files, &data, RELAY)?;
        }
        let server = self.server(&data, &options)?;
        if !load.files.is_empty() {
            let mut connection = server.connect()?;
            start_applier(&mut connection)?;
            wait_applied(&mut connection, &load.goal.gtids.to_string(), self.stop)?;
            connection.exec("STOP REPLICA")?;
            connection.exec("RESET REPLICA ALL")?;
        }
        server.shut_down(self.stop)?;
        let _ = fs::remove_file(data.join("auto.cnf"));
        for entry in fs::read_dir(&data)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(RELAY) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Options of all stock servers.
    pub(super) fn common_options(&self) -> Vec<String> {
        [self.harness_options(), self.more_options.clone()].concat()
    }

    /// Options that the comparison itself needs.
    fn harness_options(&self) -> Vec<String> {
        vec![
            format!("--innodb-buffer-pool-size={}", self.buffer_pool),
            "--gtid-mode=ON".into(),
            "--enforce-gtid-consistency=ON".into(),
            "--max-allowed-packet=1G".into(),
            format!("--relay-log={RELAY}"),
            "--relay-log-purge=OFF".into(),
            "--skip-replica-start".into(),
            format!("--server-id={}", self.server_id),
        ]
    }

    fn server(&self, data: &Path, options: &[String]) -> Result<Server> {
        let options = [&self.common_options(), options].concat();
        Server::start(self.programs()?, data, &options, self.stop)
    }

    /// Runs a contender once.
    pub(crate) fn run(&self, contender: &Contender) -> Result<Sample> {
        let log = self.log(contender.first_part);
        let data = self.at("server");
        let options = contender.who.options.as_slice();
        let sample = match contender.how {
            How::Replay => {
                let program = contender.program.as_ref().unwrap_or(&self.ourselves);
                let report = self.replay((program, contender.who.cpus.as_deref()), contender.first_part, options)?;
                our_sample(&report, &log.reference)
            }
            How::Applier => self.applier(log, contender, &data),
            How::Client => self.client(log, options, &data),
            How::Copy => self.copy(log, &data),
        };
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
        sample
    }

    fn applier(&self, log: &Log, contender: &Contender, data: &Path) -> Result<Sample> {
        copy_folder(&self.at("loaded"), data, self.stop)?;
        logs::place(&log.files, data, RELAY)?;
        let programs = contender.who.programs(self.programs()?)?;
        let options = [&self.common_options()[..], &contender.who.options].concat();
        let server = Server::start(&programs, data, &options, self.stop)?;
        let mut connection = server.connect()?;
        self.warm(&mut connection)?;
        configure_applier(&mut connection)?;
        let sampling = contender.stacks.then(|| Sampling::begin(server.pid(), &self.scratch.0)).transpose()?;
        let (cpu, before, started) = (server.cpu_s(), server.threads_cpu_s(), Instant::now());
        connection.exec("START REPLICA SQL_THREAD")?;
        wait_applied(&mut connection, &log.goal.gtids.to_string(), self.stop)?;
        let (wall_s, cpu_s) = (started.elapsed().as_secs_f64(), server.cpu_s() - cpu);
        let threads = by_thread(&before, &server.threads_cpu_s());
        let stacks = sampling.map_or(Ok(Vec::new()), |sampling| sampling.end(self.stop))?;
        let asked = match contender.ask {
            Some(question) => numbers(&mut connection, question)?,
            None => Vec::new(),
        };
        let sample = self.stock_sample(&server, wall_s, cpu_s, log)?;
        Ok(Sample { threads, asked, stacks, allocator: server.allocator(), ..sample })
    }

    fn client(&self, log: &Log, options: &[String], data: &Path) -> Result<Sample> {
        copy_folder(&self.at("loaded"), data, self.stop)?;
        let server = self.server(data, options)?;
        self.warm(&mut server.connect()?)?;
        let (reader_err, client_err) = (self.at("mysqlbinlog.err"), self.at("mysql.err"));
        let mut reader = self.programs()?.command("mysqlbinlog")?;
        reader.args(&log.files).stdout(Stdio::piped()).stderr(File::create(&reader_err)?);
        let mut client = self.programs()?.command("mysql")?;
        client.args(server.client_options()).arg("--binary-mode").stderr(File::create(&client_err)?);
        let (cpu, children, started) = (server.cpu_s(), ended_children_cpu_s(), Instant::now());
        let mut reader = Running::start(&mut reader, "mysqlbinlog")?;
        client.stdin(reader.stdout().context("mysqlbinlog has no output")?);
        let client = Running::start(&mut client, "mysql")?.wait(self.stop)?;
        let reader = reader.wait(self.stop)?;
        let wall_s = started.elapsed().as_secs_f64();
        let cpu_s = server.cpu_s() - cpu + ended_children_cpu_s() - children;
        for (status, what, err) in [(reader, "mysqlbinlog", reader_err), (client, "mysql", client_err)] {
            if !status.success() {
                bail!("{what} failed ({status}): {}", fs::read_to_string(err).unwrap_or_default().trim());
            }
        }
        self.stock_sample(&server, wall_s, cpu_s, log)
    }

    fn copy(&self, log: &Log, data: &Path) -> Result<Sample> {
        copy_folder(&self.empty()?, data, self.stop)?;
        let served = logs::place(&log.files, data, SERVED)?;
        let options = [format!("--log-bin={SERVED}"), "--binlog-expire-logs-seconds=0".into()];
        let server = self.server(data, &options)?;
        let out = self.at("copied");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir_all(&out)?;
        let err = self.at("mysqlbinlog.err");
        let mut reader = self.programs()?.command("mysqlbinlog")?;
        reader.args(server.client_options()).args(["--read-from-remote-server", "--raw"]).stderr(File::create(&err)?);
        let mut prefix = std::ffi::OsString::from("--result-file=");
        prefix.push(out.join(""));
        reader.arg(prefix);
        let names: Vec<&std::ffi::OsStr> = served.iter().filter_map(|path| path.file_name()).collect();
        reader.args(&names);
        let (cpu, children, started) = (server.cpu_s(), ended_children_cpu_s(), Instant::now());
        let status = Running::start(&mut reader, "mysqlbinlog")?.wait(self.stop)?;
        let wall_s = started.elapsed().as_secs_f64();
        let cpu_s = server.cpu_s() - cpu + ended_children_cpu_s() - children;
        if !status.success() {
            bail!("mysqlbinlog failed ({status}): {}", fs::read_to_string(err).unwrap_or_default().trim());
        }
        let copies: Vec<PathBuf> = names.iter().map(|name| out.join(name)).collect();
        let (there, here) = (logs::bytes_hash(&log.files)?, logs::bytes_hash(&copies)?);
        let difference = (there != here).then(|| format!("the copy's bytes hash to {here}, the log's to {there}"));
        let peak_rss_bytes = server.peak_rss_bytes();
        drop(server);
        fs::remove_dir_all(&out)?;
        let settings = Some("copies only: reads the log from a server over TCP, writes files".to_owned());
        Ok(Sample { wall_s, cpu_s, peak_rss_bytes, settings, difference, ..Sample::default() })
    }

    /// Hashes a server's rows and compares them.
    fn stock_sample(&self, server: &Server, wall_s: f64, cpu_s: f64, log: &Log) -> Result<Sample> {
        let peak_rss_bytes = server.peak_rss_bytes();
        let reported = Reported::read(&mut server.connect()?)?;
        let report = crate::hash::hash(&server.address(), &[])?;
        let found = Reference { hash: report.hash, tables: report.tables };
        let difference = difference(&log.reference, &found);
        // Options by --mysqld-option are common too, and nevertheless shown.
        let common: Vec<String> = self.harness_options().iter().map(|option| variable_of(option)).collect();
        let settings = Some(reported.text_without(&common));
        let synced = Some(Synced { log: reported.log_synced, store: reported.store_synced });
        Ok(Sample { wall_s, cpu_s, peak_rss_bytes, settings, synced, difference, ..Sample::default() })
    }

    /// Waits until the buffer pool holds what it held at the end of the load.
    fn warm(&self, connection: &mut Connection) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = connection.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_load_status'")?;
            let status = status.text(0, 1).unwrap_or_default();
            if !status.starts_with("Loaded") && !status.starts_with("Loading") {
                return Ok(());
            }
            ensure!(Instant::now() < until, "the buffer pool is not warm after {PATIENCE:?}: {status}");
            crate::servers::check_stop(self.stop)?;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// CPU seconds of each thread since `before`, by thread number; those of one name are counted.
fn by_thread(before: &[(u32, String, f64)], after: &[(u32, String, f64)]) -> Vec<(String, f64)> {
    let mut after = after.to_vec();
    after.sort_by_key(|(thread, ..)| *thread);
    let mut known: HashMap<String, u32> = HashMap::new();
    let mut found = Vec::new();
    for (thread, name, seconds) in after {
        let earlier = before.iter().find(|(other, ..)| *other == thread).map_or(0.0, |(_, _, seconds)| *seconds);
        let count = known.entry(name.clone()).or_default();
        *count += 1;
        found.push((if *count > 1 { format!("{name} ({count})") } else { name }, seconds - earlier));
    }
    found
}

/// The first two columns of an answer.
fn numbers(connection: &mut Connection, question: &str) -> Result<Vec<(String, f64)>> {
    let answer = connection.query(question)?;
    let row = |row| Some((answer.text(row, 0)?, answer.text(row, 1)?.parse().ok()?));
    Ok((0..answer.rows.len()).filter_map(row).collect())
}

/// Makes a server use the files put in place as its relay log.
fn configure_applier(connection: &mut Connection) -> Result<()> {
    connection.exec(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='none', SOURCE_USER='none', SOURCE_AUTO_POSITION=0, \
         RELAY_LOG_FILE='{RELAY}.000001', RELAY_LOG_POS=4"
    ))?;
    Ok(())
}

fn start_applier(connection: &mut Connection) -> Result<()> {
    configure_applier(connection)?;
    connection.exec("START REPLICA SQL_THREAD")?;
    Ok(())
}

fn reference_of(report: &Value) -> Result<Reference> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let hash = text(report, "hash");
    ensure!(!hash.is_empty(), "our replay gave no hash");
    let tables = report.get("tables").and_then(Value::as_array).into_iter().flatten();
    let tables = tables.map(|table| TableHash {
        db: text(table, "db"),
        table: text(table, "table"),
        rows: table.get("rows").and_then(Value::as_u64).unwrap_or(0),
        hash: text(table, "hash"),
    });
    Ok(Reference { tables: tables.collect(), hash })
}

fn our_sample(report: &Value, wanted: &Reference) -> Result<Sample> {
    let number = |value: Option<&Value>| value.and_then(Value::as_f64).unwrap_or(0.0);
    let stages = report.get("stages").and_then(Value::as_array).into_iter().flatten();
    Ok(Sample {
        wall_s: number(report.get("measured").and_then(|measured| measured.get("wall_s"))),
        cpu_s: stages.map(|stage| number(stage.get("cpu_s"))).sum(),
        peak_rss_bytes: report.get("peak_rss_bytes").and_then(Value::as_u64).unwrap_or(0),
        settings: report.get("settings").and_then(Value::as_str).map(str::to_owned),
        difference: difference(wanted, &reference_of(report)?),
        ..Sample::default()
    })
}

/// Names the tables that differ; None if none does.
fn difference(wanted: &Reference, found: &Reference) -> Option<String> {
    if wanted.hash == found.hash {
        return None;
    }
    let name = |table: &TableHash| format!("{}.{}", table.db, table.table);
    let mut differing = Vec::new();
    for table in &wanted.tables {
        match found.tables.iter().find(|other| (&other.db, &other.table) == (&table.db, &table.table)) {
            Some(other) if other == table => {}
            Some(other) if other.rows == table.rows => differing.push(format!("{} has other values", name(table))),
            Some(other) => {
                differing.push(format!("{} has {} rows where ours has {}", name(table), other.rows, table.rows));
            }
            None => differing.push(format!("{} is not there", name(table))),
        }
    }
    let known =
        |table: &&TableHash| wanted.tables.iter().any(|other| (&other.db, &other.table) == (&table.db, &table.table));
    differing.extend(
        found.tables.iter().filter(|table| !known(table)).map(|table| format!("{} is only there", name(table))),
    );
    Some(format!("hash {} instead of {}: {}", found.hash, wanted.hash, differing.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(hash: &str, tables: &[(&str, u64, &str)]) -> Reference {
        let table = |&(table, rows, hash): &(&str, u64, &str)| TableHash {
            db: "d".into(),
            table: table.into(),
            rows,
            hash: hash.into(),
        };
        Reference { hash: hash.into(), tables: tables.iter().map(table).collect() }
    }

    #[test]
    fn threads_of_one_name_are_told_apart_and_count_from_the_start() {
        let thread = |id, name: &str, seconds| (id, name.to_owned(), seconds);
        let before = [thread(1, "wkr", 1.0)];
        let after = [thread(2, "wkr", 2.0), thread(1, "wkr", 1.5), thread(3, "sql", 1.0)];
        let wanted = [("wkr".to_owned(), 0.5), ("wkr (2)".to_owned(), 2.0), ("sql".to_owned(), 1.0)];
        assert_eq!(by_thread(&before, &after), wanted);
    }

    #[test]
    fn a_difference_names_its_tables() {
        let wanted = state("1", &[("a", 1, "x"), ("b", 2, "y"), ("c", 3, "z"), ("f", 4, "u")]);
        assert_eq!(difference(&wanted, &wanted), None);
        let found = state("2", &[("a", 1, "x"), ("b", 2, "w"), ("e", 1, "v"), ("f", 3, "u")]);
        let text = difference(&wanted, &found).unwrap();
        for part in ["d.b has other values", "d.c is not there", "d.f has 3 rows where ours has 4", "d.e is only there"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("d.a"), "{text}");
    }
}
