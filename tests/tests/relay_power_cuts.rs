//! The power fails under a relay, or a replica that serves its log, at any moment: what a replica behind it received is
//! in its logs, also while the source is gone; what was served is served again with the same bytes; and replication goes
//! on to an equal end.
//!
//! By hand: SLIPSTREAM_POWER_CUT_SEED=N chooses the seed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use base::{GtidSet, Random};
use power_cut::PowerCut;
use testkit::run_with_input;
use whole_program_tests::replica::{executed, retrieved};
use whole_program_tests::{Proxy, Replica, Server, SetAtEnd, binary, folder, length, slipstream, wait_for};

/// Small files, so that cuts meet their beginnings and ends, and the purge of the relay log.
const OPTIONS: &[&str] = &["--max-binlog-size=16K", "--max-relay-log-size=8K", "--source-connect-retry=1"];

/// One relay, or replica, between a source and a stock replica; its power fails again and again.
struct Life {
    beside_replay: bool,
    behind: Server,
    proxy: Proxy,
    power: PowerCut,
    data: PathBuf,
    random: Random,
    /// Of the relay, from its first start on.
    port: Option<String>,
    /// Cuts that found something that was not durable.
    unsynced: u64,
}

impl Life {
    fn begin(source: &Server, beside_replay: bool, seed: u64, skipped_syncs: &str) -> Life {
        let mut power = PowerCut::new(&folder("relaypower"));
        power.skip_syncs(skipped_syncs);
        Life {
            beside_replay,
            proxy: Proxy::start(source.port()),
            behind: Server::start_unsynced("relaypower2", &["--replica-parallel-workers=4"]),
            data: power.disk().join("data"),
            power,
            random: Random::new(seed),
            port: None,
            unsynced: 0,
        }
    }

    fn spawn(&self) -> Replica {
        let port = format!("--port={}", self.port.as_deref().unwrap_or("0"));
        let options = [OPTIONS, &[port.as_str()]].concat();
        let trace = |command: &mut Command| self.power.trace(command);
        if self.beside_replay {
            let options = [&options[..], &["--serve-log", "--cut-interval=1"]].concat();
            return Replica::spawn(&self.proxy.url(), &self.data, &options, trace);
        }
        Replica::spawn_relay(&self.proxy.url(), &self.data, &options, trace)
    }

    /// The first start: an account, and the replica behind.
    fn connect(&mut self, relay: &mut Replica) {
        let mut command = Command::new(binary());
        command.args(["account", "add", "repl", "--may", "replicate", "--no-defaults", "--data"]).arg(&self.data);
        run_with_input(&mut command, "repl\n").expect(0, &["is added"]);
        let status = relay.wait_until("its port", |status| status["clients"]["address"].is_string());
        let port = status["clients"]["address"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned();
        self.behind.sql(&format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='repl',
                 SOURCE_PASSWORD='repl', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1, SOURCE_CONNECT_RETRY=1,
                 SOURCE_RETRY_COUNT=1000;
             START REPLICA"
        ));
        self.port = Some(port);
    }

    /// What the replica behind has received, executed or not.
    fn received(&self) -> GtidSet {
        let sql = "SELECT CONCAT(@@GLOBAL.gtid_executed, IF(RECEIVED_TRANSACTION_SET = '', '', ','), RECEIVED_TRANSACTION_SET)
                   FROM performance_schema.replication_connection_status";
        self.behind.sql(sql).replace("\\n", "").trim().trim_matches(',').parse().unwrap()
    }

    /// The served files.
    fn served_files(&self) -> BTreeMap<String, Vec<u8>> {
        let Ok(entries) = std::fs::read_dir(self.data.join("served-log")) else { return BTreeMap::new() };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let is_file = |name: &String| name.strip_prefix("binlog.").is_some_and(|rest| rest.parse::<u64>().is_ok());
        names.filter(is_file).map(|name| (name.clone(), std::fs::read(self.served_file(&name)).unwrap())).collect()
    }

    fn served_file(&self, name: &str) -> PathBuf {
        self.data.join("served-log").join(name)
    }

    /// Runs for a while, is killed, the power fails; then it starts without a source.
    ///
    /// # Errors
    /// Something that a power cut must never cause.
    fn cut(&mut self, strict: bool) -> Result<(), String> {
        for _ in 0..=self.random.below(2) {
            let mut relay = self.spawn();
            let goal = self.received().count() + 20;
            if self.port.is_none() {
                relay.gets_to(|_| true)?;
                self.connect(&mut relay);
            }
            relay.gets_to(|status| executed(status).count() > goal)?;
            let has_more = || (self.received().count() > goal).then_some(());
            wait_for("what is served", has_more, || relay.log_end());
            std::thread::sleep(Duration::from_micros(self.random.below(400_000)));
            relay.kill();
        }
        // Nothing more comes from a process that is gone.
        let (had, before) = (self.received(), self.served_files());
        let cut = if strict { self.power.cut_strictly() } else { self.power.cut(self.random.any()) };
        self.unsynced += u64::from(!cut.lines.is_empty());

        self.proxy.close(true);
        let mut relay = self.spawn();
        // Alone it gets no more than its relay log has.
        let mut lacking = None;
        let found = relay.gets_to(|status| {
            let mut there = retrieved(status);
            there.union_with(&executed(status));
            let is_lost = !had.is_subset_of(&there) || !status["last_sql_error"].is_null();
            lacking = is_lost.then(|| format!("{} {}", had.subtract(&there), status["last_sql_error"]));
            is_lost || had.is_subset_of(&served(status))
        });
        let found = found.and_then(|()| lacking.map_or(Ok(()), |what| Err(format!("it lacks {what}"))));
        let log = relay.log_end();
        relay.kill();
        self.proxy.close(false);
        let about = |what: String| format!("{what}\n{cut}\nthe log ends:\n{log}");
        found.map_err(|error| about(format!("alone, with {had}: {error}")))?;
        let after = self.served_files();
        let last = after.keys().next_back().cloned().unwrap_or_default();
        for (name, bytes) in &before {
            match after.get(name) {
                Some(now) => {
                    let common = bytes.len().min(now.len());
                    if bytes[..common] != now[..common] {
                        return Err(about(format!("{name} was served with other bytes")));
                    }
                }
                None if *name < last => return Err(about(format!("{name} is gone, {last} is there"))),
                None => {}
            }
        }
        Ok(())
    }
}

/// GTIDs of what is served.
fn served(status: &serde_json::Value) -> GtidSet {
    let text = status["served"]["executed"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<String>().parse().unwrap()
}

fn source(name: &str) -> Server {
    let source = Server::start_unsynced(name, &["--binlog-transaction-dependency-history-size=1"]);
    source.sql("CREATE DATABASE power; CREATE TABLE power.t (id INT PRIMARY KEY, v VARCHAR(500))");
    // One login over TLS: the server then lets this account in through the proxy without TLS.
    slipstream(&["check", "--source", &source.url("repl")]).expect(0, &[]);
    source
}

/// Runs `body` while the source is busy, which writes while `lags` is false of how many transactions it has made.
fn busy<T>(source: &Server, mut lags: impl FnMut(u64) -> bool + Send, body: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ended = &ended;
        scope.spawn(move || {
            for batch in 0_u32.. {
                while lags(u64::from(batch) * 22) && !ended.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(30));
                }
                let made =
                    format!("CREATE TABLE power.m{batch} (id INT PRIMARY KEY); INSERT INTO power.m{batch} VALUES (1);");
                let row = |id: u32| format!("INSERT INTO power.t VALUES ({id}, REPEAT('x', {id} % 500));");
                let rows: String = (0..20).map(|nth| row(batch * 20 + nth)).collect();
                source.sql(&(made + &rows));
                if ended.load(SeqCst) {
                    return;
                }
            }
        });
        let _ended = SetAtEnd(ended);
        body()
    })
}

#[test]
fn what_replicas_received_outlives_a_power_cut() {
    outlives(false);
}

#[test]
fn what_replicas_of_a_replica_received_outlives_a_power_cut() {
    outlives(true);
}

fn outlives(beside_replay: bool) {
    let source = source(if beside_replay { "replicapower" } else { "relaypower" });
    let seed = PowerCut::seed();
    let mut life = Life::begin(&source, beside_replay, seed, "");
    // Else a busy machine, on which the cuts take minutes, leaves the stock replica more than it executes in time.
    let mut behind = life.behind.connect();
    let lags = move |made| {
        let executed = behind.query_value("SELECT @@GLOBAL.gtid_executed").unwrap().unwrap();
        made > executed.replace('\n', "").parse::<GtidSet>().unwrap().count() + 2_000
    };
    busy(&source, lags, || {
        for round in 0..length(6, 80) {
            let strict = life.random.below(2) == 0;
            if let Err(error) = life.cut(strict) {
                panic!("cut {round} of SLIPSTREAM_POWER_CUT_SEED={seed}: {error}");
            }
        }
    });
    eprintln!("seed {seed}: something was not durable at {} cuts", life.unsynced);
    assert!(life.unsynced > 0);
    let mut relay = life.spawn();
    relay.catch_up(&source);
    let goal = source.gtid_executed();
    let all_is_there = || goal.is_subset_of(&life.behind.gtid_executed()).then_some(());
    let stopped = || life.behind.client(&["--vertical"], "SHOW REPLICA STATUS").unwrap();
    wait_for("the replica behind the relay", all_is_there, stopped);
    assert!(life.behind.gtid_executed().is_subset_of(&goal), "what the source never had was served");
    let (from, to) = (source.url("repl"), life.behind.url("repl"));
    slipstream(&["verify", "--source", &from, "--replica", &to, "power.t"]).expect(0, &[]);
    relay.stop();
}

/// The checker is trusted once it has caught planted faults: with one of these syncs removed, a power cut does what it
/// must never do.
#[test]
fn each_sync_of_a_relay_is_missed_when_it_is_taken_out() {
    let source = source("relaysyncs");
    let faults = [
        ("the relay log's bytes", false, "fdatasync data/relay-log/relay-bin.0*"),
        ("served files", false, "data/served-log/binlog.0*"),
        ("names of served files", false, "data/served-log/"),
        ("where the served log begins", false, "data/relay-start.tmp"),
        ("where a replica's served log begins", true, "data/served-start.tmp"),
    ];
    busy(
        &source,
        |_| false,
        || {
            for (nth, (name, beside_replay, rules)) in faults.into_iter().enumerate() {
                let mut life = Life::begin(&source, beside_replay, PowerCut::seed() + nth as u64, rules);
                let caught = (0..40).find_map(|_| life.cut(true).err());
                let what = caught.as_deref().unwrap_or_default().lines().next().unwrap_or_default().to_owned();
                eprintln!("{name}: {what}");
                assert!(caught.is_some(), "{name}");
            }
        },
    );
}
