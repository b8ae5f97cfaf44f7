//! Stopped, killed, restarted, fed from files: each transaction exactly once, and the ledger is right.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use whole_program_tests::replica::{executed, ledger, retrieved};
use whole_program_tests::{
    Replica, Server, assert_equal, assert_equal_at_rest, folder, length, shop, slipstream, under_load, wait_for,
};

static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());

fn server() -> Arc<Server> {
    Server::shared(&SERVER, "restart", &[])
}

/// Events by type as mysqlbinlog counts them, checksums verified, over all relay files of a folder.
fn mysqlbinlog_counts(server: &Server, data: &Path) -> BTreeMap<String, u64> {
    let index = std::fs::read_to_string(data.join("relay-log/relay-bin.index")).unwrap();
    let mut arguments = vec![
        "--verify-binlog-checksum".to_owned(),
        "-vv".into(),
        "--base64-output=DECODE-ROWS".into(),
        "--force-if-open".into(),
    ];
    arguments.extend(index.lines().map(|line| data.join("relay-log").join(line.trim()).display().to_string()));
    let ran = server.mysqlbinlog(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    ran.expect(0, &[]);
    assert!(!ran.err.contains("ERROR") && !ran.err.contains("WARNING: The range"), "{}", ran.err);
    let mut counts = BTreeMap::new();
    for line in ran.out.lines().filter(|line| line.starts_with('#') && line.contains(" server id ")) {
        // "#241121  9:46:35 server id 1  end_log_pos 126 CRC32 0x5f4f2b1a  \tStart: binlog v 4, …"
        let Some((_, what)) = line.split_once('\t') else { continue };
        let name = what.split([':', '\t', ' ', '=']).next().unwrap();
        *counts.entry(name.trim_end_matches(':').to_owned()).or_insert(0) += 1;
    }
    counts
}

/// mysqlbinlog's name for a type in the ledger.
fn mysqlbinlog_name(name: &str) -> &str {
    match name {
        "Format_desc" => "Start",
        "Previous_gtids" => "Previous-GTIDs",
        "Gtid" => "GTID",
        // mysqlbinlog prints tagged ones under the same name.
        "GTID_TAGGED" | "Gtid_tagged" => "GTID",
        "Anonymous_Gtid" => "Anonymous_GTID",
        "Rows_query" => "Rows_query",
        "Transaction_payload" => "Transaction_Payload",
        other => other,
    }
}

#[track_caller]
fn assert_books(server: &Server, status: &Value, data: &Path) {
    let mut counted = mysqlbinlog_counts(server, data);
    let mut seen = BTreeMap::new();
    for (name, count) in ledger(status, "seen") {
        *seen.entry(mysqlbinlog_name(&name).to_owned()).or_insert(0) += count;
    }
    eprintln!("mysqlbinlog {counted:?}\nledger      {seen:?}");
    counted.retain(|_, count| *count > 0);
    assert_eq!(counted, seen, "mysqlbinlog's counts and the ledger's");
    for row in status["ledger"]["rows"].as_array().unwrap() {
        let of = |name: &str| row[name].as_u64().unwrap_or(0);
        let outcomes = [
            "applied",
            "control",
            "recorded",
            "filtered",
            "already_executed",
            "superseded_by_copy",
            "skipped_by_operator",
            "refused",
            "not_kept",
        ];
        assert_eq!(of("seen"), outcomes.iter().map(|name| of(name)).sum::<u64>(), "{row}");
    }
}

#[test]
fn stopped_and_killed_under_load() {
    let server = server();
    server.sql(&shop::schema("kills"));
    let data = folder("kills");
    under_load(&server, "kills", || {
        let mut last = 0;
        for round in 0..length(6, 60) {
            let policy = ["10,16M", "every-transaction", "never"][round % 3];
            let mut replica = Replica::follow(&server, &data, &["--relay-sync", policy, "--max-relay-log-size=64K"]);
            // At least what was there before, and more.
            let goal = server.gtid_executed();
            let status = replica.wait_until("progress", |status| {
                goal.is_subset_of(&executed(status)) && executed(status).count() > last + 20
            });
            last = executed(&status).count();
            if round % 2 == 0 { replica.kill() } else { replica.stop() }
        }
    });
    let mut replica = Replica::follow(&server, &data, &[]);
    assert_equal(&server, &mut replica, &["kills"]);
    // A quiet moment: everything seen is accounted for, and matches the files.
    let status = replica.catch_up(&server);
    replica.stop();
    slipstream(&["dump", "--data", data.to_str().unwrap(), "--format", "tab"]).expect(0, &[]);
    assert_equal_at_rest(&server, data.to_str().unwrap(), &["kills"]);
    drop(status);
}

#[test]
fn the_ledger_equals_mysqlbinlog() {
    // A server of its own: nothing may happen between the two counts.
    let server = Server::start("ledger", &["--binlog-rows-query-log-events=ON"]);
    server.sql(&shop::schema("books"));
    let mut replica =
        Replica::follow(&server, &folder("ledger"), &["--max-relay-log-size=64K", "--source-heartbeat-period=100ms"]);
    for (n, settings) in [
        "",
        "SET GLOBAL binlog_row_image = MINIMAL; SET GLOBAL binlog_checksum = NONE",
        "SET GLOBAL binlog_checksum = CRC32; FLUSH BINARY LOGS",
        "SET GLOBAL binlog_transaction_compression = ON",
    ]
    .iter()
    .enumerate()
    {
        let n = n as u64;
        server.sql(settings);
        server.sql(&shop::load("books", n, n * 60, 60));
        server.sql(&format!("CREATE USER u{n}; CREATE TABLE books.made{n} SELECT * FROM books.swap; SET gtid_next = 'AUTOMATIC:t{n}'; DROP USER u{n}"));
        let status = replica.catch_up(&server);
        assert_books(&server, &status, &replica.data);
    }
    assert_equal(&server, &mut replica, &["books"]);
    let status = replica.status().unwrap();
    assert!(
        ledger(&status, "applied").iter().any(|(name, count)| name == "Write_rows" && *count > 50),
        "{}",
        status["ledger"]
    );
    assert!(!ledger(&status, "recorded").is_empty(), "{}", status["ledger"]);
    // A killed replica without a cut replays all of its relay log again.
    let data = replica.data.clone();
    replica.kill();
    let mut replica = Replica::follow(&server, &data, &["--binlog-expire-logs-seconds=1h"]);
    let status = replica.catch_up(&server);
    assert_books(&server, &status, &data);
    // A stopped one has cut everything, its ledger too: nothing is applied twice.
    replica.stop();
    let before = ledger(&status, "applied");
    let mut replica = Replica::follow(&server, &data, &["--binlog-expire-logs-seconds=1h"]);
    let status = replica.catch_up(&server);
    assert_eq!(ledger(&status, "applied"), before, "{}", status["ledger"]);
    server.sql(&shop::load("books", 9, 540, 30));
    let status = replica.catch_up(&server);
    let (applied, seen) = (ledger(&status, "applied"), ledger(&status, "seen"));
    assert_ne!(applied, before);
    let mut counted = mysqlbinlog_counts(&server, &data);
    let mut books = BTreeMap::new();
    for (name, count) in seen {
        *books.entry(mysqlbinlog_name(&name).to_owned()).or_insert(0) += count;
    }
    // Events between transactions where replay starts are read again.
    for control in ["Start", "Rotate", "Previous-GTIDs"] {
        counted.remove(control);
        books.remove(control);
    }
    assert_eq!(counted, books, "mysqlbinlog's counts and the ledger's, across a restart");
    assert_equal(&server, &mut replica, &["books"]);
    replica.stop();
}

#[test]
fn signals_stop_it_within_5_seconds() {
    let server = server();
    server.sql(&shop::schema("signals"));
    let data = folder("signals");
    under_load(&server, "signals", || {
        for signal in [Signal::TERM, Signal::INT] {
            let mut replica = Replica::follow(&server, &data, &[]);
            let goal = server.gtid_executed();
            replica.wait_until("progress", |status| goal.is_subset_of(&executed(status)));
            let asked = Instant::now();
            replica.signal(signal);
            assert_eq!(replica.wait_exit(), 0, "{}", replica.log());
            assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
            replica.waits_for_log(&["stopped at a transaction boundary"]);
        }
    });
    // Stops at once while it waits for an absent source, and while it is paused.
    let mut replica = Replica::follow(&server, &data, &[]);
    slipstream(&["pause", "--data", replica.data()]).expect(0, &[]);
    let asked = Instant::now();
    replica.signal(Signal::TERM);
    assert_eq!(replica.wait_exit(), 0, "{}", replica.log());
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    let mut replica = Replica::follow(&server, &data, &[]);
    slipstream(&["resume", "--data", replica.data()]).expect(0, &[]);
    assert_equal(&server, &mut replica, &["signals"]);
    // A second INT ends it whatever it is doing.
    replica.signal(Signal::INT);
    replica.signal(Signal::INT);
    let code = replica.wait_exit();
    assert!([0, 1].contains(&code), "{code}");
}

#[test]
fn pause_and_resume() {
    let server = server();
    server.sql("CREATE DATABASE pause; CREATE TABLE pause.t (id INT PRIMARY KEY)");
    let mut replica = Replica::follow(&server, &folder("pause"), &[]);
    replica.catch_up(&server);
    slipstream(&["pause", "--data", replica.data()]).expect(0, &[]);
    server.sql("INSERT INTO pause.t VALUES (1), (2)");
    let goal = server.gtid_executed();
    let status =
        replica.wait_until("receiving", |status| goal.is_subset_of(&whole_program_tests::replica::retrieved(status)));
    assert!(!goal.is_subset_of(&executed(&status)));
    assert_eq!(status["replay"]["state"], "paused");
    let dump = slipstream(&["dump", "--data", replica.data(), "--format", "tab", "pause.t"]);
    assert_eq!(dump.expect(0, &[]).out, "");
    slipstream(&["resume", "--data", replica.data()]).expect(0, &[]);
    assert_equal(&server, &mut replica, &["pause"]);
    replica.stop();
}

#[test]
fn the_live_view_and_the_log() {
    let server = server();
    let (data, log) = (folder("view"), folder("view-log"));
    let options = ["--log-error", log.to_str().unwrap(), "--log-format=json"];
    let mut replica = Replica::spawn(&server.url("repl"), &data, &options, |_| ());
    replica.catch_up(&server);
    // Without a terminal, one plain line per poll.
    let ran = slipstream(&["status", "--data", replica.data(), "--watch", "--interval=100ms", "--count=3"]);
    assert!(ran.expect(0, &[]).out.lines().count() >= 3, "{}", ran.out);
    assert!(!ran.out.contains('\u{1b}'), "{}", ran.out);
    let moved = folder("view-log-moved");
    std::fs::rename(&log, &moved).unwrap();
    replica.signal(Signal::HUP);
    wait_for("a new log file", || log.exists().then_some(()), String::new);
    replica.stop();
    let text = std::fs::read_to_string(&moved).unwrap() + &std::fs::read_to_string(&log).unwrap();
    assert!(text.lines().count() > 3, "{text}");
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect(line);
        assert!(line["msg"].is_string() && line["time"].is_string(), "{line}");
    }
}

/// An idle source: heartbeats keep the connection known to be alive, and nothing reconnects.
#[test]
fn heartbeats_of_an_idle_source() {
    let server = Server::start("idle", &[]);
    let mut replica =
        Replica::follow(&server, &folder("idle"), &["--source-heartbeat-period=200ms", "--replica-net-timeout=4s"]);
    let since = Instant::now();
    let mut times = std::collections::BTreeSet::new();
    let status = replica.wait_until("heartbeats", |status| {
        times.insert(status["source"]["last_received"].as_str().unwrap_or_default().to_owned());
        times.len() > 8 && since.elapsed() > Duration::from_secs(6)
    });
    assert_eq!(status["source"]["reconnects"], 0, "{}", replica.log());
    assert_eq!(status["lag"]["current_us"], 0);
    assert!(status["lag"]["clock_difference_us"].is_i64());
    replica.stop();
}

#[test]
fn an_unsupported_statement_stops_and_skip_leads_on() {
    let server = Server::start("alter", &[]);
    server.sql("CREATE DATABASE a; CREATE TABLE a.t (id INT PRIMARY KEY); INSERT INTO a.t VALUES (1); CREATE TABLE a.u LIKE a.t; INSERT INTO a.u VALUES (1); CREATE VIEW a.v AS SELECT * FROM a.u");
    let data = folder("alter");
    let mut replica = Replica::follow(&server, &data, &[]);
    replica.catch_up(&server);
    let before = server.gtid_executed();
    server.sql("SET SESSION binlog_format = STATEMENT; INSERT INTO a.v (id) VALUES (50)");
    let gtid = server.gtid_executed().subtract(&before).to_string();
    server.sql("INSERT INTO a.t VALUES (2)");
    let texts = ["INSERT INTO a.v (id) VALUES (50)", &gtid, "relay-bin.000", &format!("slipstream skip {gtid} --data")];
    replica.expect_exit(6, &texts);
    let path = data.to_str().unwrap();
    // Restarted, it stops at the same place, with everything before it visible.
    Replica::spawn(&server.url("repl"), &data, &[], |_| ()).expect_exit(6, &texts);
    slipstream(&["status", "--data", path]).expect(0, &[&gtid, "INSERT INTO"]);
    assert!(slipstream(&["dump", "--data", path, "--format", "tab", "a.t"]).out.contains("id\n1\n"));
    slipstream(&["skip", &gtid, "--data", path]).expect(0, &[&gtid]);
    let mut replica = Replica::follow(&server, &data, &[]);
    let status = replica.catch_up(&server);
    assert!(ledger(&status, "skipped_by_operator").iter().any(|(_, count)| *count > 0), "{}", status["ledger"]);
    let told = format!("{gtid} was committed empty, as the operator asked; it contained");
    wait_for("the log", || replica.log().contains(&told).then_some(()), || replica.log());
    replica.waits_for_log(&["statement: INSERT INTO a.v (id) VALUES (50)"]);
    assert_equal_at_rest_of(&server, path, "a.t");
    // A statement about only one table stops nothing else: that table is to be copied. Secrets in it are not shown.
    server.sql("ALTER TABLE a.u ADD COLUMN more INT AS (id) STORED, CONNECTION = 'mysql://joe:Secret-3@h/d/t'");
    replica.catch_up(&server);
    replica.wait_until("a try to copy it", |status| status["replay"]["quarantined"][0].is_string());
    wait_for(
        "the log",
        || replica.log().contains("ALTER TABLE a.u ADD COLUMN more INT").then_some(()),
        || replica.log(),
    );
    assert!(!replica.log().contains("Secret-3"), "{}", replica.log());
    // A statement in a ROW source's log that may have changed any table: never guessed at.
    let before = server.gtid_executed();
    server.sql("SET SESSION binlog_format = STATEMENT; INSERT INTO a.v (id) VALUES (100)");
    let statement = server.gtid_executed().subtract(&before).to_string();
    replica.expect_exit(6, &["INSERT INTO a.v (id) VALUES (100)", &statement, "statement"]);
    slipstream(&["skip", &statement, "--data", path]).expect(0, &[]);
    let mut replica = Replica::follow(&server, &data, &[]);
    replica.catch_up(&server);
    // A skipped transaction counts as executed: it is neither requested again nor skipped twice.
    slipstream(&["skip", &gtid, "--data", path]).expect(1, &["already executed"]);
    // A future GTID, named to a running replica; a tagged one too.
    let uuid = gtid.split(':').next().unwrap().to_owned();
    slipstream(&["skip", &format!("{uuid}:bad:1"), "--data", path]).expect(0, &[]);
    server.sql("SET gtid_next = 'AUTOMATIC:bad'; INSERT INTO a.t VALUES (3)");
    server.sql("INSERT INTO a.t VALUES (4)");
    replica.catch_up(&server);
    let rows = slipstream(&["dump", "--data", path, "--format", "tab", "a.t"]).out;
    assert_eq!(rows, "id\n1\n2\n4\n");
    slipstream(&["verify", "--data", path, "--source", &server.url("repl"), "a.t"]).expect(16, &["a.t"]);
    // A row that the log changes and the copy lacks: stops with table, key and GTID, and is never skipped silently.
    server.sql("UPDATE a.t SET id = 30 WHERE id = 3");
    replica.expect_exit(9, &["a`.`t", "1032", &uuid, "slipstream skip"]);
}

fn assert_equal_at_rest_of(server: &Server, data: &str, table: &str) {
    let there = server.sql(&format!("SELECT * FROM {table}"));
    let here = slipstream(&["dump", "--data", data, "--format", "tab", table]);
    let here: String = here.expect(0, &[]).out.lines().skip(1).map(|line| format!("{line}\n")).collect();
    assert_eq!(there, here, "{table}");
}

/// `--source file:` of an index replays recorded files through the same path; `lab replay` takes them too.
#[test]
fn from_files() {
    let server = Server::start("files", &["--max-binlog-size=64K"]);
    server.sql(&shop::schema("filed"));
    for (n, compression) in ["OFF", "ON", "OFF"].iter().enumerate() {
        let n = n as u64;
        server.sql(&format!(
            "SET SESSION binlog_transaction_compression = {compression}; {}",
            shop::load("filed", n, n * 50, 50)
        ));
    }
    server.sql("FLUSH BINARY LOGS");
    let copy = folder("binlogs");
    std::fs::create_dir_all(&copy).unwrap();
    for entry in std::fs::read_dir(server.dir()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with("binlog.") {
            std::fs::copy(&path, copy.join(name)).unwrap();
        }
    }
    let (index, data) = (format!("file:{}", copy.join("binlog.index").display()), folder("filed"));
    let path = data.to_str().unwrap();
    slipstream(&["check", "--source", &index]).expect(0, &["binlog.000001"]);
    slipstream(&["replica", "--source", &index, "--data", path, "--check-images=all"]).expect(0, &[]);
    assert_equal_at_rest(&server, path, &["filed"]);
    // Everything is already there: nothing is applied twice.
    slipstream(&["replica", "--source", &index, "--data", path, "--check-images=all"]).expect(0, &[]);
    assert_equal_at_rest(&server, path, &["filed"]);
    slipstream(&["verify", "--data", path, "--source", &server.url("repl")]).expect(0, &[]);
    let ran = slipstream(&["lab", "replay", copy.join("binlog.index").to_str().unwrap(), "--json", "--hash"]);
    let report: Value = serde_json::from_str(&ran.expect(0, &[]).out).unwrap();
    assert!(report.to_string().contains("hash"), "{report}");
    // The last file, truncated inside a transaction's rows: reported, and nothing of that transaction is visible.
    let mut files: Vec<_> = std::fs::read_dir(&copy)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| !p.to_str().unwrap().ends_with("index"))
        .collect();
    files.sort();
    let cut = files.iter().rev().find(|file| std::fs::metadata(file).unwrap().len() > 2000).unwrap();
    let bytes = std::fs::read(cut).unwrap();
    let data = folder("cutfile");
    let torn = folder("torn-binlog");
    for (keep, code) in [(bytes.len() - 60, 7), (bytes.len() / 2, 7)] {
        std::fs::write(&torn, &bytes[..keep]).unwrap();
        let source = format!("file:{}", torn.display());
        let ran = slipstream(&["replica", "--source", &source, "--data", data.to_str().unwrap()]);
        assert!(ran.code == code || ran.code == 9, "{}: {}", ran.code, ran.err);
        assert!(!ran.err.contains("panicked"));
        let _ = std::fs::remove_dir_all(&data);
    }
}

/// Found by inspection: everyone could read tables, status and index of a replica whose folder existed already.
#[test]
fn other_users_find_nothing_in_the_data_folder() {
    if !rustix::process::geteuid().is_root() {
        testkit::skipped("only root can become another user");
        return;
    }
    let server = server();
    server.sql("CREATE DATABASE secret; CREATE TABLE secret.t (id INT PRIMARY KEY); INSERT INTO secret.t VALUES (1)");
    let data = folder("secret");
    std::fs::create_dir(&data).unwrap();
    let open_to_all = || Command::new("chmod").args(["-R", "a+rX"]).arg(&data).status().unwrap();
    // As a user and a group that own nothing here, or with root's group.
    let found = |group: u32, what: &[&str]| {
        let mut find = Command::new("find");
        find.arg(&data).args(["-mindepth", "1"]).args(what).uid(65_534).gid(group);
        String::from_utf8(find.output().unwrap().stdout).unwrap()
    };
    open_to_all();
    let mut replica = Replica::follow(&server, &data, &[]);
    replica.catch_up(&server);
    assert_eq!(found(65_534, &[]), "");
    replica.stop();
    assert_eq!(found(65_534, &[]), "");
    open_to_all();
    assert!(found(65_534, &["-readable"]).contains("/store/tables/"), "else this test shows nothing");
    let mut replica = Replica::follow(&server, &data, &["--group-access"]);
    server.sql("INSERT INTO secret.t VALUES (2)");
    replica.catch_up(&server);
    replica.stop();
    assert_eq!(found(65_534, &[]), "");
    assert!(found(0, &["-readable"]).contains("/store/tables/"));
    assert_eq!(found(0, &["-writable"]), "");
    let mut replica = Replica::follow(&server, &data, &[]);
    replica.catch_up(&server);
    assert_eq!(found(0, &["-type", "f", "-readable"]), "");
    replica.stop();
    assert_equal_at_rest(&server, data.to_str().unwrap(), &["secret"]);
}

/// What an operator stopped stays stopped over stops and kills, exactly where it was, until it is started.
#[test]
fn what_is_stopped_stays_stopped_over_a_restart() {
    // Its own, because its log is purged.
    let server = Server::start("kept-stopped", &[]);
    server.sql("CREATE DATABASE kept; CREATE TABLE kept.t (id INT PRIMARY KEY)");
    let data = folder("kept-stopped");
    let path = data.to_str().unwrap();
    let start = |options: &[&str]| {
        Replica::follow(&server, &data, &[&["--on-stop=stay", "--cut-interval=100ms"], options].concat())
    };
    let mut replica = start(&[]);
    let paused = |status: &Value| status["replay"]["state"] == "paused";
    let is_stopped = |status: &Value| status["source"]["state"] == "stopped";
    let mut next = 0;
    let mut insert = || {
        next += 1;
        server.sql(&format!("INSERT INTO kept.t VALUES ({next})"));
    };
    for way in ["stop", "kill"] {
        // Replay.
        insert();
        let shown = executed(&replica.catch_up(&server));
        slipstream(&["stop", "sql", "--data", path]).expect(0, &[]);
        insert();
        if way == "stop" {
            replica.stop()
        } else {
            replica.kill()
        }
        replica = start(&[]);
        let goal = server.gtid_executed();
        let status = replica.wait_until("all received", |status| goal.is_subset_of(&retrieved(status)));
        let now = executed(&status);
        // After a kill it stands at the last cut.
        let is_there = if way == "stop" { now == shown } else { now.is_subset_of(&shown) };
        assert!(paused(&status) && is_there, "{way}: {shown} before, {status}");
        slipstream(&["start", "sql", "--data", path]).expect(0, &[]);
        replica.catch_up(&server);

        // Receiving.
        slipstream(&["stop", "io", "--data", path]).expect(0, &[]);
        insert();
        if way == "stop" {
            replica.stop()
        } else {
            replica.kill()
        }
        replica = start(&[]);
        let status = replica.wait_until("an answer", is_stopped);
        assert!(!paused(&status), "{way}: {status}");
        replica.waits_for_log(&["receiving stays stopped, as an operator left it"]);
        slipstream(&["start", "--data", path]).expect(0, &[]);
        replica.catch_up(&server);
    }
    // Asked for, once.
    insert();
    replica.catch_up(&server);
    replica.stop();
    insert();
    replica = start(&["--skip-replica-start"]);
    replica.wait_until("both stopped", |status| paused(status) && is_stopped(status));
    slipstream(&["start", "--data", path]).expect(0, &[]);
    replica.catch_up(&server);
    replica.stop();
    insert();
    replica = start(&[]);
    assert_equal(&server, &mut replica, &["kept"]);
    replica.stop();
    // A new folder gets its copy first, and then nothing.
    let fresh = folder("skip-start");
    server.purge_binary_logs();
    server.sql("GRANT RELOAD, XA_RECOVER_ADMIN ON *.* TO repl");
    let mut replica = Replica::follow(&server, &fresh, &["--on-stop=stay", "--skip-replica-start"]);
    replica.wait_until("both stopped", |status| paused(status) && is_stopped(status));
    insert();
    slipstream(&["start", "--data", fresh.to_str().unwrap()]).expect(0, &[]);
    assert_equal(&server, &mut replica, &["kept"]);
    replica.stop();
}
