//! Fail-overs one after the other, under TPC-C on two writers, and how long each leaves the replica without a source.
//! `tests/fail_overs` runs them; SLIPSTREAM_FAIL_OVERS says how many of each kind.
//!
//! A line of JSON each. `gap_ms` is from the last event or heartbeat of the one that was lost to the first event of the
//! next one; `fit_ms` from the former to the moment when another server was first seen ONLINE with a majority in a view
//! without the lost one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use client::{ConnectOptions, Connection};
use serde_json::{Value, json};
use whole_program_tests::fail_over::{TPCC, Watched, later_ms, load, now_us, of_day_us};
use whole_program_tests::relay::{Relay, assert_same_rows, wait_until_equal};
use whole_program_tests::{Group, Proxy, Replica, Server, SetAtEnd, assert_equal, folder, wait_for};

use crate::door_fresh::{read, reader, set};
use crate::followed::uuid;

const OPTIONS: [&str; 3] = ["--on-stop=stay", "--disk-reserve=100M", "--check-images=sample"];
/// Options of members: TPC-C has a table without a key, which a group refuses.
const KEYED: &str = "--sql-generate-invisible-primary-key=ON";

/// What happens to the followed server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Killed,
    Stopped,
    Left,
    Expelled,
    Cut,
    Frozen,
    Restarted,
}

const OF_GROUP: [Kind; 7] =
    [Kind::Killed, Kind::Stopped, Kind::Left, Kind::Expelled, Kind::Cut, Kind::Frozen, Kind::Restarted];

/// How many fail-overs of this name are wanted, `NAME:COUNT` in a list; none without one.
fn wanted(name: &str) -> usize {
    let list = std::env::var("SLIPSTREAM_FAIL_OVERS").unwrap_or_default();
    let of = |one: &str| one.trim().strip_prefix(name)?.strip_prefix(':')?.parse().ok();
    list.split(',').find_map(of).unwrap_or(0)
}

/// A group, with a proxy in front of each member.
struct Cluster {
    group: Group,
    proxies: Vec<Proxy>,
    uuids: Vec<String>,
}

impl Cluster {
    fn start(name: &str, mode: &str) -> Option<Cluster> {
        let group = Group::or_skip(name, 3, &[mode, KEYED])?;
        load(group.primary().unwrap_or(&group.members()[0]));
        let proxies = group.members().iter().map(|member| Proxy::start(member.port())).collect();
        let uuids = group.members().iter().map(uuid).collect();
        Some(Cluster { group, proxies, uuids })
    }

    /// The first one is named, and each is dialled through its proxy.
    fn source(&self) -> (String, Vec<String>) {
        let address = |at: usize| format!("--member-address={}=127.0.0.1:{}", self.uuids[at], self.proxies[at].port());
        let url = format!("{}&group&get-server-public-key=1", self.proxies[0].url());
        (url, (0..self.uuids.len()).map(address).collect())
    }

    fn at(&self, server_uuid: &str) -> usize {
        self.uuids.iter().position(|own| own == server_uuid).unwrap()
    }

    /// Does that to a member; returns once `moved` has. The member is back in the group afterwards.
    fn fails(&self, kind: Kind, at: usize, mut moved: impl FnMut() -> Value, watched: &Watched<'_>) -> Value {
        let (group, proxy) = (&self.group, &self.proxies[at]);
        let fit = || wait_for("a view without it", || watched.fit_us(), String::new);
        match kind {
            Kind::Killed => group.kill(at),
            Kind::Stopped => group.stop(at),
            Kind::Left => group.leave(at),
            Kind::Expelled => group.expel(at),
            Kind::Restarted => group.members()[at].restart(&[]),
            Kind::Cut => {
                proxy.silence(true);
                let of = moved();
                proxy.silence(false);
                proxy.cut();
                return of;
            }
            Kind::Frozen => {
                let _frozen = group.freeze(at);
                let of = moved();
                fit();
                return of;
            }
        }
        let of = moved();
        fit();
        of
    }
}

/// Followed by another one than that.
fn has_moved(status: &Value, from: &str) -> bool {
    let source = &status["source"];
    source["state"] == "connected"
        && source["server_uuid"] != from
        && source["server_uuid"] != ""
        && source["followed_since"].is_string()
}

fn followed(status: &Value) -> String {
    status["source"]["server_uuid"].as_str().unwrap().to_owned()
}

/// The line of one fail-over.
fn line(name: &str, kind: &str, status: &Value, fit_us: Option<u64>) -> Value {
    let source = &status["source"];
    let left = &source["left"];
    let first = of_day_us(source["followed_since"].as_str().unwrap());
    let last = left["last_received"].as_str().map(of_day_us);
    let gap = last.map(|last| later_ms(first, last));
    let fit = last.zip(fit_us).map(|(last, fit)| later_ms(fit, last));
    json!({
        "set": name, "kind": kind, "gap_ms": gap, "fit_ms": fit,
        "after_fit_ms": gap.zip(fit).map(|(gap, fit)| gap - fit),
        "reconnects": source["reconnects"], "why": left["why"],
    })
}

/// Counts of clients: EVENTUAL reads and those that failed; acknowledged writes, GLOBAL reads that failed after
/// one, and those that were older.
#[derive(Default)]
struct Counts {
    served: AtomicU64,
    refused: AtomicU64,
    writes: AtomicU64,
    late: AtomicU64,
    stale: AtomicU64,
}

impl Counts {
    fn json(&self) -> Value {
        let Counts { served, refused, writes, late, stale } = self;
        let of = |count: &AtomicU64| count.load(SeqCst);
        json!({"reads": of(served), "reads_refused": of(refused), "writes": of(writes), "global_late": of(late),
            "stale": of(stale)})
    }

    /// Reads all the while.
    fn reads(&self, socket: &std::path::Path, watched: &Watched<'_>) {
        let mut eventual = reader(socket, "EVENTUAL");
        while !watched.ended.load(SeqCst) {
            let count = if read(&mut eventual).is_ok() { &self.served } else { &self.refused };
            count.fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Writes at whoever takes it, and reads here once its writer was answered.
    fn never_stale(&self, socket: &std::path::Path, servers: &[&Server], watched: &Watched<'_>) {
        let mut global = reader(socket, "GLOBAL");
        set(&mut global, "slipstream_read_timeout = 5000");
        let mut connection: Option<Connection> = None;
        let mut n = 0;
        while !watched.ended.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
            if connection.is_none() && !watched.paused.load(SeqCst) {
                let within = Some(Duration::from_secs(2));
                let login = watched.writable(n as usize % servers.len()).map(|at| servers[at].login("root"));
                connection =
                    login.and_then(|login| Connection::connect(&ConnectOptions { read_timeout: within, ..login }).ok());
            }
            let Some(writes) = connection.as_mut().filter(|_| !watched.paused.load(SeqCst)) else { continue };
            n += 1;
            if writes.query(&format!("UPDATE t.a SET n = {n} WHERE id = 1")).is_err() {
                connection = None;
                continue;
            }
            self.writes.fetch_add(1, SeqCst);
            match read(&mut global) {
                Ok(seen) if seen < n => {
                    println!("STALE: {seen} after {n} was acknowledged");
                    self.stale.fetch_add(1, SeqCst);
                }
                Ok(_) => {}
                Err(_) => {
                    self.late.fetch_add(1, SeqCst);
                }
            }
        }
    }
}

/// All have executed the same.
fn settled(servers: &[Server]) {
    let sets = || servers.iter().map(Server::gtid_executed).collect::<Vec<_>>();
    let same = || {
        let sets = sets();
        sets.iter().all(|set| *set == sets[0]).then_some(())
    };
    wait_for("members with the same transactions", same, || format!("{:?}", sets()));
}

/// Nothing lost, nothing twice.
fn equal(server: &Server, replica: &mut Replica) {
    let status = replica.catch_up(server);
    let here: base::GtidSet = status["gtid"]["executed"].as_str().unwrap().parse().unwrap();
    assert_eq!(here, server.gtid_executed(), "transactions here, and there");
    assert_equal(server, replica, &[TPCC, "t"]);
}

fn of_a_group(name: &str, mode: &str) {
    let rounds = wanted(name);
    if rounds == 0 {
        return;
    }
    let Some(cluster) = Cluster::start(name, mode) else { return };
    let members: Vec<&Server> = cluster.group.members().iter().collect();
    let data = folder(name);
    let socket = data.with_extension("sock");
    let (url, addresses) = cluster.source();
    let listens = format!("--socket={}", socket.display());
    let options: Vec<&str> =
        OPTIONS.into_iter().chain([listens.as_str()]).chain(addresses.iter().map(String::as_str)).collect();
    let mut replica = Replica::start(&url, &data, &options);
    replica.catch_up(members[0]);
    let knows = |status: &Value| status["source"]["group"]["members"].as_array().is_some_and(|all| all.len() == 3);
    replica.wait_until("three members", knows);
    let watched = Watched::new(members.clone(), true);
    let counts = Counts::default();
    std::thread::scope(|scope| {
        let _ends = SetAtEnd(&watched.ended);
        watched.begin(scope);
        scope.spawn(|| counts.reads(&socket, &watched));
        scope.spawn(|| counts.never_stale(&socket, &members, &watched));
        for kind in OF_GROUP.into_iter().cycle().take(rounds) {
            watched.resume();
            let status = replica.status().unwrap();
            let lost = followed(&status);
            std::thread::sleep(Duration::from_secs(2));
            watched.loses(&lost);
            let moved = || replica.wait_until("another member", |status| has_moved(status, &lost));
            let status = cluster.fails(kind, cluster.at(&lost), moved, &watched);
            println!("{}", line(name, &format!("{kind:?}"), &status, watched.fit_us()));
            watched.pause();
            cluster.group.mend();
            settled(cluster.group.members());
            equal(members[cluster.at(&followed(&replica.status().unwrap()))], &mut replica);
        }
    });
    println!("{name}: {}", counts.json());
    let of = |count: &AtomicU64| count.load(SeqCst);
    assert!(of(&counts.stale) == 0 && of(&counts.refused) == 0, "{}", counts.json());
    replica.stop();
}

#[test]
fn members_of_a_group_with_several_primaries_are_lost_one_after_the_other() {
    of_a_group("multi", "--multi-primary");
}

#[test]
fn members_of_a_group_with_one_primary_are_lost_one_after_the_other() {
    of_a_group("single", "--single-primary");
}

/// The copy begins again at the next member, or keeps the tables that were done.
#[test]
fn a_copy_survives_the_members_it_reads() {
    let rounds = wanted("copy");
    if rounds == 0 {
        return;
    }
    let Some(cluster) = Cluster::start("copy", "--multi-primary") else { return };
    let members: Vec<&Server> = cluster.group.members().iter().collect();
    let watched = Watched::new(members.clone(), true);
    let (_, addresses) = cluster.source();
    std::thread::scope(|scope| {
        let _ends = SetAtEnd(&watched.ended);
        watched.begin(scope);
        for (round, kind) in OF_GROUP.into_iter().cycle().take(rounds).enumerate() {
            watched.resume();
            let victim = round % 3;
            let url = format!("{}&group&get-server-public-key=1", cluster.proxies[victim].url());
            let mut options = vec!["--copy=always", "--copy-rate=1M"];
            options.extend(OPTIONS);
            options.extend(addresses.iter().map(String::as_str));
            let others: Vec<String> = (0..3)
                .filter(|at| *at != victim)
                .map(|at| format!("127.0.0.1:{}", cluster.proxies[at].port()))
                .collect();
            let named = format!("127.0.0.1:{}", cluster.proxies[victim].port());
            let url = url.replace(&named, &format!("{named},{}", others.join(",")));
            let mut replica = Replica::spawn(&url, &folder(&format!("copy-{round}")), &options, |_| ());
            let copies = |status: &Value| status["replay"]["state"] == "copying" && status["replay"]["rows"] != 0;
            replica.wait_until("rows of a copy", copies);
            watched.loses(&cluster.uuids[victim]);
            let begun = now_us();
            let lost = cluster.uuids[victim].clone();
            let moved = || {
                replica.wait_until("another member", |status| {
                    status["source"]["server_uuid"] != lost.as_str()
                        && status["replay"]["state"] != "copying"
                        && status["source"]["followed_since"].is_string()
                })
            };
            let status = cluster.fails(kind, victim, moved, &watched);
            let first = of_day_us(status["source"]["followed_since"].as_str().unwrap());
            let log = replica.log();
            println!(
                "{}",
                json!({"set": "copy", "kind": format!("{kind:?}"), "copied_after_ms": later_ms(first, begun),
                    "begun_again": log.matches("SLIP-000054").count(), "tables_left_out": log.matches("is left out of the initial copy").count()})
            );
            watched.pause();
            cluster.group.mend();
            settled(cluster.group.members());
            replica.copied();
            equal(members[(victim + 1) % 3], &mut replica);
            replica.stop();
        }
    });
}

/// A relay moves, and the stock replica behind it notices nothing.
#[test]
fn a_relay_moves_and_its_stock_replica_is_equal() {
    let rounds = wanted("relay");
    if rounds == 0 {
        return;
    }
    let Some(cluster) = Cluster::start("relay", "--multi-primary") else { return };
    let members: Vec<&Server> = cluster.group.members().iter().collect();
    let stock = Server::start_unsynced("behind", &["--replica-parallel-workers=4", KEYED]);
    let (url, addresses) = cluster.source();
    let options: Vec<&str> = OPTIONS[1..2].iter().copied().chain(addresses.iter().map(String::as_str)).collect();
    let data = folder("moving-relay");
    let mut process = Replica::spawn_relay(&url, &data, &options, |_| ());
    process.wait_until("an answer", |status| !followed(status).is_empty());
    let mut relay = Relay::of(process, data);
    relay.feeds(&stock);
    let watched = Watched::new(members.clone(), true);
    std::thread::scope(|scope| {
        let _ends = SetAtEnd(&watched.ended);
        watched.begin(scope);
        let knows = |status: &Value| status["source"]["group"]["members"].as_array().is_some_and(|all| all.len() == 3);
        relay.process.wait_until("three members", knows);
        for kind in OF_GROUP.into_iter().cycle().take(rounds) {
            watched.resume();
            let lost = followed(&relay.process.status().unwrap());
            std::thread::sleep(Duration::from_secs(2));
            watched.loses(&lost);
            let moved = || relay.process.wait_until("another member", |status| has_moved(status, &lost));
            let status = cluster.fails(kind, cluster.at(&lost), moved, &watched);
            println!("{}", line("relay", &format!("{kind:?}"), &status, watched.fit_us()));
            watched.pause();
            cluster.group.mend();
            settled(cluster.group.members());
            wait_until_equal(members[0], &stock);
            assert_eq!(stock.gtid_executed(), members[0].gtid_executed());
            assert_same_rows(members[0], &stock, &[TPCC, "t"]);
        }
    });
    relay.process.stop();
}

/// A source and its semi-synchronous replica, which replaces it, and becomes a replica of it.
#[test]
fn servers_of_a_pair_are_lost_one_after_the_other() {
    let rounds = wanted("pair");
    if rounds == 0 {
        return;
    }
    // One that was lost takes no writes when it is back.
    let options = [
        KEYED,
        "--plugin-load-add=semisync_source.so",
        "--plugin-load-add=semisync_replica.so",
        "--super-read-only=ON",
    ];
    let Some(first) = Server::or_skip("pair", &options) else { return };
    let second = Server::start_unsynced("pair-second", &options);
    let servers = [&first, &second];
    replicate(&first, &second);
    load(&first);
    let proxies = [Proxy::start(first.port()), Proxy::start(second.port())];
    let url = proxies[0].url().replace("/?", &format!(",127.0.0.1:{}/?", proxies[1].port()));
    let data = folder("pair");
    let socket = data.with_extension("sock");
    let listens = format!("--socket={}", socket.display());
    let options: Vec<&str> = OPTIONS.into_iter().chain([listens.as_str()]).collect();
    let mut replica = Replica::start(&format!("{url}&get-server-public-key=1"), &data, &options);
    replica.catch_up(&first);
    let uuids = servers.map(uuid);
    let watched = Watched::new(servers.to_vec(), false);
    let counts = Counts::default();
    std::thread::scope(|scope| {
        let _ends = SetAtEnd(&watched.ended);
        watched.begin(scope);
        scope.spawn(|| counts.reads(&socket, &watched));
        for (round, kind) in
            [Kind::Killed, Kind::Stopped, Kind::Cut, Kind::Frozen].into_iter().cycle().take(rounds).enumerate()
        {
            let (at, next) = (round % 2, (round + 1) % 2);
            watched.resume();
            std::thread::sleep(Duration::from_secs(2));
            watched.loses(&uuids[at]);
            let promoted = Mutex::new(0);
            // Before it is lost: two that take writes would differ.
            let promote = || {
                servers[next].sql("STOP REPLICA IO_THREAD");
                wait_for("its applier", || is_applied(servers[next]).then_some(()), String::new);
                servers[next].sql("STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = OFF, read_only = OFF");
                *promoted.lock().unwrap() = now_us();
            };
            let mut moved = || replica.wait_until("the other one", |status| has_moved(status, &uuids[at]));
            let status = match kind {
                Kind::Killed | Kind::Stopped => {
                    if kind == Kind::Killed {
                        servers[at].kill()
                    } else {
                        servers[at].stop()
                    }
                    promote();
                    let status = moved();
                    servers[at].restart(&[]);
                    status
                }
                Kind::Cut => {
                    watched.pause();
                    wait_for("the other one's set", || same_sets(servers).then_some(()), String::new);
                    proxies[at].silence(true);
                    let status = moved();
                    promote();
                    proxies[at].silence(false);
                    proxies[at].cut();
                    status
                }
                _ => {
                    let pid = servers[at].sql("SELECT @@pid_file");
                    let pid: i32 = std::fs::read_to_string(pid.trim()).unwrap().trim().parse().unwrap();
                    let pid = rustix::process::Pid::from_raw(pid).unwrap();
                    whole_program_tests::signal(pid, rustix::process::Signal::STOP);
                    promote();
                    let status = moved();
                    // Fenced before it runs again, as whoever fails over must: its dump ends with it.
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                    servers[at].restart(&[]);
                    status
                }
            };
            let mut line = line("pair", &format!("{kind:?}"), &status, None);
            let promoted_us = *promoted.lock().unwrap();
            let last = status["source"]["left"]["last_received"].as_str().map(of_day_us);
            line["promoted_ms"] = json!(last.map(|last| later_ms(promoted_us, last)));
            println!("{line}");
            watched.pause();
            let lost = servers[at].gtid_executed().subtract(&servers[next].gtid_executed());
            if !lost.is_empty() {
                // In its log when it was killed, and acknowledged to nobody: it has to be filled again.
                println!("only at the one that was lost: {lost}");
                servers[at].sql(
                    "SET GLOBAL super_read_only = OFF; SET SESSION sql_log_bin = 0; DROP DATABASE tpcc; DROP DATABASE t; \
                     DROP USER `load`; RESET BINARY LOGS AND GTIDS",
                );
            }
            replicate(servers[next], servers[at]);
            wait_for("both with the same transactions", || same_sets(servers).then_some(()), String::new);
            equal(servers[next], &mut replica);
        }
    });
    println!("pair: {}", counts.json());
    assert_eq!(counts.refused.into_inner(), 0);
    replica.stop();
}

fn same_sets(servers: [&Server; 2]) -> bool {
    servers[0].gtid_executed() == servers[1].gtid_executed()
}

/// All that it has received is applied.
fn is_applied(server: &Server) -> bool {
    let received = "SELECT GTID_SUBSET(RECEIVED_TRANSACTION_SET, @@GLOBAL.gtid_executed) FROM \
        performance_schema.replication_connection_status WHERE CHANNEL_NAME = ''";
    server.sql(received).trim() != "0"
}

/// `from` becomes the semi-synchronous source of `to`, which takes no writes from then on.
fn replicate(from: &Server, to: &Server) {
    to.sql(&format!(
        "SET GLOBAL super_read_only = ON, rpl_semi_sync_source_enabled = OFF, rpl_semi_sync_replica_enabled = ON; \
         CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='repl', \
         SOURCE_PASSWORD='repl', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1, SOURCE_CONNECT_RETRY=1; START REPLICA",
        from.port()
    ));
    from.sql(
        "SET GLOBAL super_read_only = OFF, read_only = OFF, rpl_semi_sync_source_timeout = 4000000000; \
        SET GLOBAL rpl_semi_sync_source_enabled = ON",
    );
}
