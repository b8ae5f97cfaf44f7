//! What the source sees and asks for: semi-synchronous acknowledgements, logins, TLS. Also verify, which must catch
//! changes that are not in the log.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use serde_json::Value;
use whole_program_tests::replica::{executed, retrieved};
use whole_program_tests::{
    Ran, Replica, Server, assert_equal, folder, length, shop, slipstream, slipstream_with, under_load, verify_equal,
    wait_for,
};

/// Releases those who wait for an acknowledgement, even after a panic.
struct Off<'a>(&'a Server);

impl Drop for Off<'_> {
    fn drop(&mut self) {
        self.0.sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF");
    }
}

static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());

fn server() -> Arc<Server> {
    Server::shared(&SERVER, "sources", &[])
}

/// An acknowledgement never precedes our sync: with a delayed sync, the source's commit waits that long.
#[test]
fn semi_sync_acknowledges_after_the_sync() {
    let server = Server::start("semisync", &[]);
    server.sql(
        "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'; SET GLOBAL rpl_semi_sync_source_timeout = 600000;
         CREATE DATABASE semi; CREATE TABLE semi.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
    );
    const DELAY_MS: u64 = 700;
    let data = folder("semisync");
    let follow = |delay: u64| {
        let mut replica = Replica::spawn(&server.url("repl"), &data, &["--semi-sync"], |command| {
            command.env("SLIPSTREAM_FAILPOINT", format!("relay_sync_delay_ms={delay}"));
        });
        replica.catch_up(&server);
        server.sql("SET GLOBAL rpl_semi_sync_source_enabled = ON");
        let clients = || server.sql("SHOW STATUS LIKE 'Rpl_semi_sync_source_clients'").contains("\t1\n").then_some(());
        wait_for("a semi-synchronous replica", clients, || server.sql("SHOW STATUS LIKE 'Rpl_semi_sync%'"));
        replica
    };
    let yes = || -> u64 {
        server.sql("SHOW STATUS LIKE 'Rpl_semi_sync_source_yes_tx'").split_whitespace().last().unwrap().parse().unwrap()
    };
    let mut replica = follow(DELAY_MS);
    assert_eq!(replica.status().unwrap()["source"]["semi_sync"], true);
    for _ in 0..3 {
        let (before, since) = (yes(), Instant::now());
        server.sql("INSERT INTO semi.t (v) VALUES (1)");
        assert!(since.elapsed() >= Duration::from_millis(DELAY_MS), "committed after {:?}", since.elapsed());
        assert_eq!(yes(), before + 1, "{}", server.sql("SHOW STATUS LIKE 'Rpl_semi_sync%'"));
    }
    // Many commits at once share their syncs: they take a few delays, not one each.
    let since = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| server.sql("INSERT INTO semi.t (v) VALUES (2)"));
        }
    });
    assert!(since.elapsed() < Duration::from_millis(6 * DELAY_MS), "{:?}", since.elapsed());
    assert_equal(&server, &mut replica, &["semi"]);
    replica.stop();
    // Without the delay a commit gets a sync of its own instead of waiting for the next timed one.
    server.sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF");
    let mut replica = follow(0);
    let (before, since) = (yes(), Instant::now());
    server.sql(&"INSERT INTO semi.t (v) VALUES (3);".repeat(20));
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    assert_eq!(yes(), before + 20);
    // Killed with a commit acknowledged: everything the source was told is here.
    let goal = server.gtid_executed();
    server.sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF");
    replica.wait_until("all", |status| goal.is_subset_of(&retrieved(status)));
    replica.kill();
    server.stop();
    let mut replica = Replica::follow(&server, &data, &[]);
    replica.wait_until("all", |status| goal.is_subset_of(&whole_program_tests::replica::executed(status)));
    replica.stop();
}

/// A source that can be semi-synchronous, and waits for its replicas for ever then.
fn waiting_for_replicas(name: &str) -> Server {
    let server = Server::start(name, &[]);
    server.sql(
        "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'; CREATE DATABASE ahead;
         CREATE TABLE ahead.t (id INT PRIMARY KEY); SET GLOBAL rpl_semi_sync_source_timeout = 4000000000;
         SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON",
    );
    server
}

fn waits_for_source(status: &Value) -> bool {
    status["replay"]["detail"].as_str().unwrap().contains("--show=acknowledged")
}

/// A source sends its log before its engine commits: a replica is ahead of it, unless it shows acknowledged ones only.
#[test]
fn what_the_source_has_not_committed_is_not_shown_if_so_asked() {
    let server = waiting_for_replicas("ahead");
    let mut ahead = Replica::follow(&server, &folder("ahead"), &[]);
    let mut behind = Replica::follow(&server, &folder("behind"), &["--show=acknowledged"]);
    ahead.catch_up(&server);
    behind.catch_up(&server);
    server.sql("SET GLOBAL rpl_semi_sync_source_enabled = ON");
    let before = server.gtid_executed();
    std::thread::scope(|scope| {
        let _off = Off(&server);
        scope.spawn(|| server.sql("INSERT INTO ahead.t VALUES (1)"));
        ahead.wait_until("a row that the source has not committed", |status| executed(status) != before);
        let status = behind.wait_until("it is applied", waits_for_source);
        assert_eq!((executed(&status), server.gtid_executed()), (before.clone(), before.clone()));
        assert_ne!(retrieved(&status), before);
        server.sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF");
    });
    assert_equal(&server, &mut behind, &["ahead"]);
    ahead.stop();
    // Many at once, and a restart of both sides.
    for restart in [false, true] {
        if restart {
            behind.stop();
            server.restart(&[]);
            behind = Replica::follow(&server, &folder("behind-again"), &["--show=acknowledged"]);
        }
        std::thread::scope(|scope| {
            for writer in 1..5 {
                let first = writer * 1000 + if restart { 500 } else { 0 };
                let server = &server;
                scope.spawn(move || {
                    let rows = first..first + 50;
                    server.sql(&rows.map(|id| format!("INSERT INTO ahead.t VALUES ({id});")).collect::<String>());
                });
            }
        });
        assert_equal(&server, &mut behind, &["ahead"]);
    }
    behind.stop();
}

#[test]
fn what_the_source_has_not_committed_is_not_shown_where_it_answers_statements_too() {
    let server = waiting_for_replicas("ahead-forward");
    let data = folder("ahead-forward");
    let mut replica = Replica::follow(&server, &data, &["--forward=all"]);
    replica.catch_up(&server);
    replica.stop();
    server.sql("SET GLOBAL rpl_semi_sync_source_enabled = ON");
    // It looks at the source's settings when it begins.
    let mut replica = Replica::follow(&server, &data, &["--forward=all"]);
    replica.wait_until("its port", |status| status["replay"]["state"] == "caught_up");
    let before = server.gtid_executed();
    std::thread::scope(|scope| {
        let _off = Off(&server);
        scope.spawn(|| server.sql("INSERT INTO ahead.t VALUES (1)"));
        let status = replica.wait_until("it is applied", waits_for_source);
        assert_eq!(executed(&status), before);
    });
    assert_equal(&server, &mut replica, &["ahead"]);
    replica.stop();
}

/// A replica that ended between its write and its acknowledgement has the transaction when it returns, so the source
/// leaves it out of the stream. The commit must be released all the same.
#[test]
fn semi_sync_acknowledges_what_an_earlier_life_received() {
    let server = Server::start("semisync-again", &[]);
    server.sql(
        "CREATE DATABASE semi; CREATE TABLE semi.t (id INT PRIMARY KEY);
         INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so';
         SET GLOBAL rpl_semi_sync_source_timeout = 4000000000; SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON;
         SET GLOBAL rpl_semi_sync_source_enabled = ON",
    );
    let state = || server.sql("SHOW STATUS LIKE 'Rpl_semi_sync%'; SHOW PROCESSLIST");
    let data = folder("semisync-again");
    let before = server.gtid_executed();
    let mut replica = Replica::spawn(&server.url("repl"), &data, &["--semi-sync"], |command| {
        command.env("SLIPSTREAM_FAILPOINT", "relay_sync_delay_ms=600000");
    });
    std::thread::scope(|scope| {
        let _off = Off(&server);
        let insert = scope.spawn(|| server.sql("INSERT INTO semi.t VALUES (1)"));
        let received = |status: &Value| !retrieved(status).is_subset_of(&before);
        replica.wait_until("the transaction received", received);
        replica.kill();
        assert!(!insert.is_finished(), "the commit did not wait: {}", state());
        let mut replica = Replica::follow(&server, &data, &["--semi-sync"]);
        wait_for("the commit to be let go", || insert.is_finished().then_some(()), state);
        server.sql("INSERT INTO semi.t VALUES (2)");
        let no = server.sql("SHOW STATUS LIKE 'Rpl_semi_sync_source_no_tx'");
        assert!(no.contains("\t0\n"), "{no}");
        assert_equal(&server, &mut replica, &["semi"]);
        replica.stop();
    });
}

/// Without the password of `repl`.
fn as_root(arguments: &[&str]) -> Ran {
    slipstream_with(arguments, |command| {
        command.env_remove("MYSQL_PWD");
    })
}

/// The checker is trusted once it has caught planted faults.
#[test]
fn verify_catches_planted_faults() {
    let server = server();
    server.sql(&shop::schema("planted"));
    server.sql(&shop::load("planted", 3, 0, 200));
    server.sql("INSERT INTO planted.visit VALUES ('2024-01-01', '/twin', 'x', 5), ('2024-01-01', '/twin', 'x', 5);
         CREATE TABLE planted.document (id INT PRIMARY KEY, doc JSON); INSERT INTO planted.document VALUES (1, '{\"a\": 1}');
         CREATE TABLE planted.fixed (id INT PRIMARY KEY, v VARCHAR(20), g DOUBLE, t TIME(6), body TEXT);
         INSERT INTO planted.fixed VALUES (1, 'one', 1, '1:1:1', 'x'), (2, 'two', 0.1, '00:00:00.1', NULL), (3, 'three', 0, NULL, '')");
    let mut replica = Replica::follow(&server, &folder("planted"), &[]);
    assert_equal(&server, &mut replica, &["planted"]);
    let url = server.url("root");
    let verify = |data: &str, table: &str| as_root(&["verify", "--data", data, "--source", &url, table]);
    // (what, fault, its reversal, table, words)
    let faults: &[(&str, &str, &str, &str, &[&str])] = &[
        (
            "a flipped byte",
            "UPDATE fixed SET v = 'thrfe' WHERE id = 3",
            "UPDATE fixed SET v = 'three' WHERE id = 3",
            "fixed",
            &["id=3"],
        ),
        (
            "the case of a letter",
            "UPDATE fixed SET v = 'Three' WHERE id = 3",
            "UPDATE fixed SET v = 'three' WHERE id = 3",
            "fixed",
            &["id=3"],
        ),
        (
            "a lost row",
            "DELETE FROM fixed WHERE id = 2",
            "INSERT INTO fixed VALUES (2, 'two', 0.1, '00:00:00.1', NULL)",
            "fixed",
            &["id=2"],
        ),
        (
            "a row too many",
            "INSERT INTO swap VALUES (4000, 'new', NULL)",
            "DELETE FROM swap WHERE id = 4000",
            "swap",
            &["4000"],
        ),
        (
            "another key",
            "UPDATE number SET b = 'hidden' WHERE b = 'most'",
            "UPDATE number SET b = 'most' WHERE b = 'hidden'",
            "number",
            &["most", "hidden"],
        ),
        (
            "a doubled keyless row",
            "INSERT INTO visit VALUES ('2024-01-01', '/twin', 'x', 5)",
            "DELETE FROM visit WHERE page = '/twin' LIMIT 1",
            "visit",
            &["/twin"],
        ),
        (
            "a keyless twin lost",
            "DELETE FROM visit WHERE page = '/twin' LIMIT 1",
            "INSERT INTO visit VALUES ('2024-01-01', '/twin', 'x', 5)",
            "visit",
            &["/twin"],
        ),
        (
            "the last digit of a double",
            "UPDATE fixed SET g = 0.10000000000000002 WHERE id = 2",
            "UPDATE fixed SET g = 0.1 WHERE id = 2",
            "fixed",
            &["id=2"],
        ),
        (
            "a microsecond",
            "UPDATE fixed SET t = '00:00:00.100001' WHERE id = 2",
            "UPDATE fixed SET t = '00:00:00.1' WHERE id = 2",
            "fixed",
            &["id=2"],
        ),
        (
            "empty for NULL",
            "UPDATE fixed SET body = '' WHERE id = 2",
            "UPDATE fixed SET body = NULL WHERE id = 2",
            "fixed",
            &["id=2", "NULL"],
        ),
        (
            "a JSON value",
            "REPLACE INTO document VALUES (1, '{\"a\": 1.0}')",
            "REPLACE INTO document VALUES (1, '{\"a\": 1}')",
            "document",
            &["1.0"],
        ),
    ];
    for (what, fault, undo, table, words) in faults {
        let unlogged = |sql: &str| server.sql(&format!("USE planted; SET sql_log_bin = 0; {sql}"));
        unlogged(fault);
        let ran = verify(replica.data(), &format!("planted.{table}"));
        eprintln!("{what}");
        ran.expect(16, &[&[&format!("planted.{table}") as &str], *words].concat());
        // All tables at once find it too, and so does the stopped folder.
        as_root(&["verify", "--data", replica.data(), "--source", &url]).expect(16, &[table]);
        unlogged(undo);
        verify(replica.data(), &format!("planted.{table}")).expect(0, &[]);
    }
    // A table that only one side has.
    server.sql("USE planted; SET sql_log_bin = 0; CREATE TABLE unlogged (id INT PRIMARY KEY)");
    as_root(&["verify", "--data", replica.data(), "--source", &url]).expect(16, &["unlogged"]);
    server.sql("USE planted; SET sql_log_bin = 0; DROP TABLE unlogged");
    verify_equal(&server, replica.data(), &["planted"]);
    // Two servers; the source with itself.
    as_root(&["verify", "--source", &url, "--replica", &url, "planted.swap", "planted.visit"]).expect(0, &[]);
    replica.stop();
}

/// Both live and busy: verify holds publishing, never the source, and compares at one GTID set.
#[test]
fn verify_while_both_are_busy() {
    let server = server();
    server.sql(&shop::schema("busy"));
    let mut replica = Replica::follow(&server, &folder("busy"), &[]);
    let data = replica.data().to_owned();
    under_load(&server, "busy", || {
        let mut last = 0;
        for user in length(&["root", "root"] as &[&str], &["root", "root", "root", "repl"]) {
            let status = replica.wait_until("progress", |status| executed(status).count() > last + 30);
            last = executed(&status).count();
            let names = ["customer", "product", "purchase", "line", "number", "visit", "shelf", "swap"]
                .map(|name| format!("busy.{name}"));
            let url = server.url(user);
            let mut arguments = vec!["verify", "--data", &data, "--source", &url];
            arguments.extend(names.iter().map(String::as_str));
            let ran = if *user == "root" { as_root(&arguments) } else { slipstream(&arguments) };
            if *user == "root" || ran.code == 0 {
                ran.expect(0, &["compared at GTID set", "EQUAL"]);
            } else {
                // Without RELOAD it needs a moment without commits; if none comes, it says so.
                ran.expect(1, &["no moment for a consistent snapshot", "RELOAD"]);
            }
        }
    });
    assert_equal(&server, &mut replica, &["busy"]);
    replica.stop();
}

/// Verify and dump of a stopped folder, and with a source that has moved on.
#[test]
fn a_stopped_replica() {
    let server = Server::start("stopped", &[]);
    server.sql("CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY, f FLOAT); INSERT INTO s.t VALUES (1, 1.5)");
    let mut replica = Replica::follow(&server, &folder("stopped"), &[]);
    assert_equal(&server, &mut replica, &["s"]);
    let data = replica.data().to_owned();
    replica.stop();
    let url = server.url("repl");
    let verify = || slipstream(&["verify", "--data", &data, "--source", &url]);
    verify().expect(0, &[]);
    let status = slipstream(&["status", "--data", &data]);
    status.expect(0, &["stopped"]);
    slipstream(&["status", "--data", &data, "--max-lag", "1d"]).expect(1, &["lag is not known"]);
    // Moved on: prints both sets and gives no verdict.
    let before = server.gtid_executed();
    server.sql("INSERT INTO s.t VALUES (2, 2.25)");
    verify().expect(1, &[&before.to_string(), &server.gtid_executed().to_string()]);
    // The dump survives a round trip through a server unchanged: into no database, and its rows into an empty table.
    let dump = slipstream(&["dump", "--data", &data]);
    server.sql(&format!("SET sql_log_bin = 0; DROP DATABASE s; {}", dump.expect(0, &[]).out));
    assert_eq!(server.sql("SELECT * FROM s.t"), "1\t1.5\n");
    let rows = slipstream(&["dump", "--data", &data, "--no-create-info"]);
    server.sql(&format!("SET sql_log_bin = 0; DELETE FROM s.t; {}", rows.expect(0, &[]).out));
    assert_eq!(server.sql("SELECT * FROM s.t"), "1\t1.5\n");
}

#[test]
fn logins_and_tls() {
    let server = server();
    server.sql(
        "CREATE USER fresh@'%' IDENTIFIED WITH caching_sha2_password BY 'repl'; GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO fresh@'%';
         CREATE USER tls@'%' IDENTIFIED BY 'repl' REQUIRE SSL; GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO tls@'%'",
    );
    let dir = server.dir();
    let file = |name: &str| dir.join(name).display().to_string();
    let check = |user: &str, options: &[&str]| {
        // Nothing cached: a full login every time.
        server.sql("FLUSH PRIVILEGES");
        slipstream(&[&["check", "--source", &server.url(user)], options].concat())
    };
    check("fresh", &[]).expect(0, &["TLSv1"]);
    check("fresh", &["--ssl-mode=DISABLED"]).expect(1, &["caching_sha2_password", "get-server-public-key"]);
    check("fresh", &["--ssl-mode=DISABLED", "--get-server-public-key"]).expect(0, &["none"]);
    check("fresh", &["--ssl-mode=DISABLED", "--server-public-key-path", &file("public_key.pem")]).expect(0, &[]);
    check("fresh", &["--ssl-mode=DISABLED", "--server-public-key-path", &file("ca.pem")]).expect(1, &[]);
    check("tls", &["--ssl-mode=DISABLED", "--get-server-public-key"]).expect(1, &["1045"]);
    check("tls", &["--ssl-mode=REQUIRED"]).expect(0, &["TLSv1"]);
    check("fresh", &["--ssl-mode=VERIFY_CA", "--source-ssl-ca", &file("ca.pem")]).expect(0, &["TLSv1"]);
    check("fresh", &["--ssl-mode=VERIFY_CA", "--source-ssl-ca", &file("client-cert.pem")]).expect(1, &[]);
    // The server's own certificate names none of our hosts.
    check("fresh", &["--ssl-mode=VERIFY_IDENTITY", "--source-ssl-ca", &file("ca.pem")]).expect(1, &["127.0.0.1"]);
    check("fresh", &["--ssl-mode=VERIFY_CA", "--source-ssl-ca", "/no/such/ca.pem"]).expect(1, &["/no/such/ca.pem"]);
    let socket = server.socket().display().to_string();
    slipstream(&["check", "--source", "mysql://fresh@localhost", "--source-socket", &socket]).expect(0, &["none"]);
    slipstream(&["check", "--source", "mysql://fresh@localhost", "--source-socket", "/no/such.sock"])
        .expect(1, &["/no/such.sock"]);
    // Password from an option file; no password at all.
    let options = folder("client.cnf");
    std::fs::write(
        &options,
        format!("[slipstream]\nsource=mysql://fresh@127.0.0.1:{}\npassword=\"repl\"\n", server.port()),
    )
    .unwrap();
    let mut command = std::process::Command::new(whole_program_tests::binary());
    command.arg("check").arg(format!("--defaults-file={}", options.display()));
    whole_program_tests::Ran::from(command.output().unwrap()).expect(0, &[]);
    let ran = slipstream_with(&["check", "--source", &server.url("fresh")], |command| {
        command.env_remove("MYSQL_PWD");
    });
    ran.expect(1, &["1045", "using password: no"]);
    // Follows over each of them.
    server.sql("CREATE DATABASE IF NOT EXISTS paths; CREATE TABLE paths.t (id INT PRIMARY KEY)");
    let data = folder("paths");
    for (n, options) in [&["--ssl-mode=REQUIRED"] as &[&str], &["--ssl-mode=DISABLED"], &["--source-socket", &socket]]
        .iter()
        .enumerate()
    {
        let mut replica = Replica::follow(&server, &data, options);
        server.sql(&format!("INSERT INTO paths.t VALUES ({n})"));
        assert_equal(&server, &mut replica, &["paths"]);
        replica.stop();
    }
}

/// The rows of MEMORY tables are gone after a restart of the source. It logs that when such a table is first opened:
/// `verify` must compare after that, and no copy may keep it out of the log.
#[test]
fn memory_tables_after_a_restart_of_the_source() {
    let server = Server::start_unsynced("memory", &[]);
    server.sql(
        "GRANT XA_RECOVER_ADMIN, LOCK TABLES, RELOAD, BACKUP_ADMIN ON *.* TO repl; CREATE DATABASE m; USE m;
         CREATE TABLE a (id INT PRIMARY KEY) ENGINE=MEMORY; CREATE TABLE `b-c` (id INT) ENGINE=MEMORY; CREATE TABLE i (id INT)",
    );
    let fill = || {
        server.sql(
            "USE m; INSERT INTO a VALUES (1),(2); INSERT INTO `b-c` VALUES (1),(1); INSERT INTO i VALUES (1);
             CREATE TEMPORARY TABLE own (id INT) ENGINE=MEMORY; INSERT INTO own VALUES (1)",
        );
    };
    fill();
    let mut replica = Replica::follow(&server, &folder("memory"), &[]);
    replica.catch_up(&server);
    let before = server.gtid_executed();
    server.restart(&[]);
    verify_equal(&server, replica.data(), &["m"]);
    assert_ne!(server.gtid_executed(), before, "the tables were emptied, and the log says so");
    // Another replica is made of the source: the first one hears that the tables were emptied.
    server.sql("USE m; DELETE FROM a; DELETE FROM `b-c`");
    fill();
    replica.catch_up(&server);
    server.restart(&[]);
    // Only a copy opens the tables: who reads the log from its first statement hears of it when somebody else does.
    server.purge_binary_logs();
    let mut second = Replica::follow(&server, &folder("memory-second"), &[]);
    second.copied();
    assert_equal(&server, &mut second, &["m"]);
    assert_equal(&server, &mut replica, &["m"]);
    second.stop();
    // And a table is copied again.
    fill();
    replica.catch_up(&server);
    server.restart(&[]);
    slipstream(&["copy", "--data", replica.data(), "m.i"]).expect(0, &[]);
    assert_equal(&server, &mut replica, &["m"]);
    replica.stop();
}
