//! A full disk, and syncs that fail, under a process that stays: nothing ends, what waits goes on by itself, and rows
//! are equal at the end. By hand: SLIPSTREAM_FULL_DISK_SEED=N.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use base::Random;
use power_cut::PowerCut;
use serde_json::Value;
use whole_program_tests::replica::executed;
use whole_program_tests::{
    Ballast, Replica, Server, SmallDisk, assert_equal, assert_equal_at_rest, folder, length, slipstream,
};

const OPTIONS: [&str; 4] = ["--on-stop=stay", "--memory=128M", "--cut-interval=100ms", "--max-relay-log-size=256K"];
/// Rows of the table that changes; with their incompressible 3,000 bytes about 7 MiB.
const ROWS: u64 = 2400;

fn seed() -> u64 {
    let given = std::env::var("SLIPSTREAM_FULL_DISK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64 & 0xffff_ffff
    });
    eprintln!("SLIPSTREAM_FULL_DISK_SEED={seed}");
    seed
}

fn server(name: &str) -> Server {
    let server = Server::start(name, &["--cte-max-recursion-depth=10000"]);
    server.sql(
        "CREATE DATABASE full; CREATE TABLE full.t (id INT PRIMARY KEY, n INT DEFAULT 0, v VARCHAR(4000), KEY (n));
         GRANT RELOAD, XA_RECOVER_ADMIN, BACKUP_ADMIN, PROCESS ON *.* TO repl",
    );
    server.sql(&changes("REPLACE", 0, ROWS));
    server
}

/// Inserts or replaces rows of 3,000 incompressible bytes, in one transaction.
fn changes(verb: &str, first: u64, rows: u64) -> String {
    format!(
        "{verb} INTO full.t (id, n, v) SELECT n, n DIV 7, LEFT(CONCAT(SHA2(RAND(), 512), SHA2(RAND(), 512), \
         REPEAT(SHA2(n * RAND(), 512), 22)), 3000) FROM (WITH RECURSIVE s (n) AS (SELECT {first} UNION ALL \
         SELECT n + 1 FROM s WHERE n + 1 < {}) SELECT n FROM s) x",
        first + rows
    )
}

/// One to several transactions of up to a third of the table.
fn load(server: &Server, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let rows = 1 + random.below(ROWS / 3);
        let first = random.below(ROWS - rows);
        match random.below(4) {
            0 => server.sql(&format!("UPDATE full.t SET n = n + 1 WHERE id BETWEEN {first} AND {}", first + rows)),
            1 => server.sql(&format!("DELETE FROM full.t WHERE id BETWEEN {first} AND {}", first + rows / 2)),
            _ => server.sql(&changes("REPLACE", first, rows)),
        };
    }
}

fn waits(status: &Value) -> bool {
    let of = |part: &str, key: &str| status[part][key].as_str().unwrap_or_default().to_owned();
    !of("source", "waits").is_empty() || of("replay", "detail").contains("disk space")
}

/// Names in a folder and below it, without those of sockets.
fn names(folder: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            all.extend(names(&entry.path()).into_iter().map(|below| format!("{name}/{below}")));
        }
        all.insert(name);
    }
    all
}

/// No temporary files, no files of the tree that its manifest does not name, nothing spilled.
fn assert_nothing_left_over(data: &Path) {
    let stopped = names(data);
    let temporary: Vec<&String> = stopped.iter().filter(|name| name.contains("tmp")).collect();
    assert!(temporary.is_empty(), "{temporary:?}");
    let scratch = data.join("scratch");
    assert!(!scratch.exists() || names(&scratch).is_empty(), "{stopped:#?}");
    // Opening the tree removes what its manifest does not name: the files of the version before, at most. The first check
    // merges what it compares, the second finds nothing to merge.
    let check = || slipstream(&["check-store", "--data", data.to_str().unwrap()]);
    check().expect(0, &[]);
    let checked = check();
    let tables = names(data).iter().filter(|name| name.contains("tables/")).count();
    let all = if tables == 0 { "store: empty".to_owned() } else { format!("store: {tables} files") };
    checked.expect(0, &[&all]);
}

/// Log and store on one small disk, which fills again and again at any moment.
#[test]
fn a_disk_that_fills_again_and_again_is_waited_for() {
    let Some(disk) = SmallDisk::new("full-again", 64) else { return };
    let server = server("full-again");
    let mut random = Random::new(seed());
    let mut replica = Replica::follow(&server, disk.path(), &OPTIONS);
    replica.catch_up(&server);
    let pid = replica.pid();
    let (fillings, mut waited) = (length(6, 50), 0);
    for filling in 0..fillings {
        // From nothing to a little more than the reserve of 3.2 MiB; now and then in the middle of the load.
        let pages = random.below(1200);
        if random.below(2) == 0 {
            load(&server, &mut random);
        }
        let ballast = Ballast::leave(&disk, pages);
        load(&server, &mut random);
        let until = Instant::now() + Duration::from_millis(500 + random.below(2500));
        let mut seen = false;
        while !seen && Instant::now() < until {
            assert_eq!(replica.ended(), None, "{}", replica.log_end());
            seen = replica.status().is_some_and(|status| waits(&status));
        }
        waited += u64::from(seen);
        if random.below(2) == 0 {
            load(&server, &mut random);
        }
        drop(ballast);
        if random.below(3) > 0 || filling + 1 == fillings {
            replica.catch_up(&server);
        }
    }
    assert_eq!((replica.ended(), replica.pid()), (None, pid));
    assert!(waited > fillings / 3, "{waited} waits in {fillings} fillings");
    assert_equal(&server, &mut replica, &["full"]);
    let log = replica.log();
    let said = |code: &str| log.lines().filter(|line| line.contains(code)).count();
    eprintln!(
        "{fillings} fillings, {waited} seen to wait; log: {} waits, {} ends of waits, {} new engines",
        said("SLIP-000063"),
        said("SLIP-000065"),
        said("SLIP-000074")
    );
    assert!(said("SLIP-000063") > 0 && said("SLIP-000065") > 0, "{log}");
    replica.stop();
    assert_nothing_left_over(disk.path());
    assert_equal_at_rest(&server, disk.path().to_str().unwrap(), &["full"]);
}

/// What an operator sees: receiving waits first, without a connection; with space both go on.
#[test]
fn receiving_waits_first_and_says_for_what() {
    let Some(disk) = SmallDisk::new("full-says", 64) else { return };
    let server = server("full-says");
    let mut replica = Replica::follow(&server, disk.path(), &OPTIONS);
    replica.catch_up(&server);
    let ballast = Ballast::leave(&disk, 900);
    server.sql(&changes("REPLACE", 0, 1500));
    // A merge of the store may wait too, and even before.
    let status = replica.wait_until("receiving's wait", |status| status["source"]["waits"] != "");
    let text = status["source"]["waits"].as_str().unwrap();
    assert!(text.contains("receiving waits for") && text.contains("binlog_expire_logs_seconds"), "{text}");
    assert_eq!(status["source"]["state"], "connecting");
    assert!(status["last_sql_error"].is_null(), "{status}");
    assert!(status["disk"]["reserve_bytes"].as_u64().unwrap() == (64 << 20) / 20, "{status}");
    slipstream(&["status", "--data", replica.data()])
        .expect(0, &["Replica_IO_Running   Connecting", "more of disk space", "above the reserve of 3.19 MiB"]);
    let dumps = server.sql("SHOW PROCESSLIST");
    assert!(!dumps.contains("Binlog Dump"), "{dumps}");
    // It was enough for what the reserve is for.
    assert!(disk.free() > 0);
    drop(ballast);
    replica.catch_up(&server);
    let status = replica.status().unwrap();
    assert_eq!((&status["source"]["waits"], &status["source"]["state"]), (&"".into(), &"connected".into()));
    assert!(status["last_error"].is_null(), "{status}");
    assert_equal(&server, &mut replica, &["full"]);
    replica.stop();
}

/// A wait that is stopped has not got its space.
#[test]
fn a_stop_during_a_wait_frees_no_space() {
    let Some(disk) = SmallDisk::new("full-stopped", 64) else { return };
    let server = server("full-stopped");
    let mut replica = Replica::follow(&server, disk.path(), &OPTIONS);
    replica.catch_up(&server);
    let _ballast = Ballast::leave(&disk, 900);
    server.sql(&changes("REPLACE", 0, 1500));
    replica.wait_until("receiving's wait", |status| status["source"]["waits"] != "");
    replica.waits_for_log(&["SLIP-000063", "the reserve of 3.19 MiB"]);
    slipstream(&["stop", "--data", replica.data()]).expect(0, &[]);
    let log = replica.expect_exit(0, &["SLIP-000063"]);
    // An earlier wait may have ended, as cuts purge the relay log.
    assert!(log.rfind("SLIP-000063") > log.rfind("SLIP-000065"), "{log}");
}

/// Without a reserve receiving goes on until nothing is free; the source is copied onto a disk that is too small at
/// first.
#[test]
fn a_copy_waits_and_begins_anew() {
    let Some(disk) = SmallDisk::new("full-copied", 6) else { return };
    let server = server("full-copied");
    server.purge_binary_logs();
    let mut replica = Replica::spawn(&server.url("repl"), disk.path(), &OPTIONS, |_| ());
    let status = replica.wait_until("the failed copy", |status| status["last_sql_error"].is_object());
    assert!(status["last_sql_error"]["text"].as_str().unwrap().contains("space"), "{status}");
    server.sql(&changes("REPLACE", 100, 300));
    assert!(disk.resize(512));
    replica.copied();
    replica.catch_up(&server);
    assert_equal(&server, &mut replica, &["full"]);
    replica.stop();
    assert_nothing_left_over(disk.path());
}

/// Calls of the process that fail once each: writes for lack of space, syncs for either reason.
fn plan(random: &mut Random, writes: u64, syncs: u64) -> String {
    let mut rules = Vec::new();
    // A start makes about 60 of each; one that fails ends with its exit code, as it should.
    let mut at = 80;
    for _ in 0..writes {
        at += 1 + random.below(120);
        rules.push(format!("write:{at}:ENOSPC"));
    }
    at = 70;
    for _ in 0..syncs {
        at += 1 + random.below(60);
        rules.push(format!("sync:{at}:{}", if random.below(2) == 0 { "EIO" } else { "ENOSPC" }));
    }
    rules.join(";")
}

/// Starts that fail in a row are up to a minute apart: together more than other waits of the tests.
fn wait_long(replica: &mut Replica, server: &Server) {
    let (goal, end) = (server.gtid_executed(), Instant::now() + Duration::from_secs(900));
    while Instant::now() < end && replica.ended().is_none() {
        if replica.status().is_some_and(|status| goal.is_subset_of(&executed(&status))) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn writes_and_syncs_that_fail_once_end_nothing() {
    let server = server("full-calls");
    let mut random = Random::new(seed());
    for round in 0..length(2, 12) {
        let at = folder(&format!("full-calls-{round}"));
        let mut power = PowerCut::new(&at);
        let data = power.disk().join("data");
        let rules = plan(&mut random, 12, 3);
        eprintln!("round {round}: {rules}");
        power.plan(&rules);
        let mut replica = Replica::spawn(&server.url("repl"), &data, &OPTIONS, |command| power.trace(command));
        replica.wait_until("an answer", |_| true);
        let new_engines = |replica: &Replica| replica.log().matches("SLIP-000074").count();
        for _ in 0..40 {
            load(&server, &mut random);
            wait_long(&mut replica, &server);
            replica.catch_up(&server);
            assert_eq!(replica.ended(), None, "{}", replica.log_end());
            if new_engines(&replica) >= 3 {
                break;
            }
        }
        assert!(new_engines(&replica) > 0, "no sync failed: {}", replica.log_end());
        eprintln!("round {round}: {} new engines", new_engines(&replica));
        slipstream(&["stop", "--data", data.to_str().unwrap()]).expect(0, &[]);
        // 8: a call of the stop itself failed.
        let code = replica.wait_exit();
        assert!(code == 0 || code == 8, "{code}: {}", replica.log_end());
        // The next start goes on from what is there. Compared without faults: one would make a new engine, which shows
        // an earlier state until it has replayed again.
        let mut again = Replica::spawn(&server.url("repl"), &data, &OPTIONS, |_| ());
        again.catch_up(&server);
        assert_equal(&server, &mut again, &["full"]);
        again.stop();
        assert_nothing_left_over(&data);
        assert_equal_at_rest(&server, data.to_str().unwrap(), &["full"]);
    }
}
