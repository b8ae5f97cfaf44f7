//! A replica with several sources: it follows one of them, leaves it for the next one, and waits when none will do.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use base::GtidSet;
use serde_json::Value;
use whole_program_tests::fail_over::{later_ms, of_day_us};
use whole_program_tests::replica::retrieved;
use whole_program_tests::{Proxy, Replica, Server, SetAtEnd, assert_equal, folder, slipstream, wait_for};

use crate::door_fresh::{read, reader, set};

const TABLES: &str =
    "CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, n INT); INSERT INTO t.a VALUES (1, 0), (2, 0)";

/// `mysql://repl@` and the address of each.
pub(crate) fn several(servers: &[&Server]) -> String {
    let addresses: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    format!("mysql://repl@{}", addresses.join(","))
}

pub(crate) fn is_followed(status: &Value, server: &str) -> bool {
    status["source"]["state"] == "connected" && status["source"]["server_uuid"] == server
}

pub(crate) fn uuid(server: &Server) -> String {
    server.sql("SELECT @@server_uuid").trim().to_owned()
}

fn why_not(status: &Value, candidate: usize) -> &str {
    status["source"]["candidates"][candidate]["why_not"].as_str().unwrap()
}

fn await_set(server: &Server, set: &GtidSet) {
    assert_eq!(server.sql(&format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', 60)")).trim(), "0");
}

fn replicate(from: &Server, to: &Server) {
    to.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='repl', \
         SOURCE_PASSWORD='repl', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1; START REPLICA",
        from.port()
    ));
}

/// A source with rows, and a replica of MySQL's that has them.
pub(crate) fn pair(name: &str) -> Option<(Server, Server)> {
    let first = Server::or_skip(name, &[])?;
    let second = Server::start(&format!("{name}-second"), &[]);
    replicate(&first, &second);
    first.sql(TABLES);
    await_set(&second, &first.gtid_executed());
    Some((first, second))
}

fn follow(source: &str, data: &Path, options: &[&str]) -> (Replica, PathBuf) {
    let socket = data.with_extension("sock");
    let option = format!("--socket={}", socket.display());
    (Replica::start(source, data, &[&["--on-stop=stay", "--disk-reserve=100M", &option], options].concat()), socket)
}

/// Writes to the server of now, and reads here what its writer knows to be there; a read that fails is not older.
/// Counts writes, failures and reads that were older.
fn never_older(writes_to: &Mutex<&Server>, socket: &Path, ended: &AtomicBool) -> [u64; 3] {
    let mut session = reader(socket, "SESSION");
    let (mut counts, mut n) = ([0; 3], 0);
    while !ended.load(SeqCst) {
        n += 1;
        let server = *writes_to.lock().unwrap();
        let written = server.try_sql(&format!("UPDATE t.a SET n = {n} WHERE id = 1; SELECT @@GLOBAL.gtid_executed"));
        // A server that was killed may have committed it, and its successor may have it.
        let Ok(executed) = written else { continue };
        let [writes, failures, older] = &mut counts;
        *writes += 1;
        set(&mut session, &format!("slipstream_read_gtids = '{}'", executed.replace('\n', "")));
        match read(&mut session) {
            Ok(seen) => *older += u64::from(seen < n),
            Err(_) => *failures += 1,
        }
    }
    counts
}

#[test]
fn the_other_one_of_a_pair_is_followed_when_one_is_killed() {
    let Some((first, second)) = pair("followed") else { return };
    let data = folder("followed");
    let (mut replica, socket) = follow(&several(&[&first, &second]), &data, &[]);
    let uuids = [uuid(&first), uuid(&second)];
    replica.wait_until("the first one", |status| is_followed(status, &uuids[0]));
    replica.catch_up(&first);
    let writes_to = Mutex::new(&first);
    let ended = AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        let beside = scope.spawn(|| never_older(&writes_to, &socket, &ended));
        let _ends = SetAtEnd(&ended);
        let written = |server: &Server| {
            let at = server.gtid_executed();
            wait_for("writes", || (server.gtid_executed() != at).then_some(()), String::new);
        };
        written(&first);
        // Its last writes would be lost with it, and the replica would wait for a server that has them.
        let mut paused = writes_to.lock().unwrap();
        await_set(&second, &first.gtid_executed());
        replica.catch_up(&first);
        first.kill();
        let killed = Instant::now();
        second.sql("STOP REPLICA; RESET REPLICA ALL");
        *paused = &second;
        drop(paused);
        // Its first event comes a moment after the connection.
        let has_begun =
            |status: &Value| is_followed(status, &uuids[1]) && status["source"]["followed_since"].is_string();
        let status = replica.wait_until("the second one", has_begun);
        println!("killed: the second one's first event {:?} after it", killed.elapsed());
        assert!(status["source"]["left"]["uri"].as_str().unwrap().contains(&first.port().to_string()), "{status}");
        assert_eq!(status["source"]["port"], second.port(), "{status}");
        written(&second);
        // And back, once it is its replica.
        first.restart(&[]);
        replicate(&second, &first);
        let mut paused = writes_to.lock().unwrap();
        await_set(&first, &second.gtid_executed());
        replica.catch_up(&second);
        second.stop();
        let stopped = Instant::now();
        *paused = &first;
        drop(paused);
        replica.wait_until("the first one again", |status| is_followed(status, &uuids[0]));
        println!("shut down: the first one's first event {:?} after it", stopped.elapsed());
        written(&first);
        ended.store(true, SeqCst);
        beside.join().unwrap()
    });
    println!("writes, failures, older: {counts:?}");
    assert!(counts[0] > 0 && counts[2] == 0, "{counts:?}");
    let log = replica.log();
    assert!(log.contains("SLIP-000137") && !log.contains("SLIP-000135"), "{}", replica.log_end());
    assert_equal(&first, &mut replica, &["t"]);
    let text = slipstream(&["status", "--data", replica.data()]);
    text.expect(0, &["Candidate", "followed since", "may be followed", "Left"]);
    replica.stop();
}

#[test]
fn one_that_lacks_what_is_here_or_purged_what_is_not_is_passed_over_with_its_reason() {
    let Some((first, second)) = pair("followed-lacks") else { return };
    let data = folder("followed-lacks");
    let source = several(&[&first, &second]);
    let (mut replica, socket) = follow(&source, &data, &[]);
    replica.catch_up(&first);
    let uuids = [uuid(&first), uuid(&second)];
    // Lost with the first one, until that is back.
    second.sql("STOP REPLICA");
    first.sql("UPDATE t.a SET n = 1 WHERE id = 2");
    replica.catch_up(&first);
    first.kill();
    let status = replica.wait_until("none", |status| {
        let error = status["last_io_error"]["text"].as_str().unwrap_or_default();
        error.contains("none of 2 sources can be followed") && !why_not(status, 1).is_empty()
    });
    let (one, two) = (why_not(&status, 0), why_not(&status, 1));
    assert!(one.contains("cannot connect") || one.contains("refused") || one.contains("closed"), "{one}");
    assert!(two.contains("errant GTIDs") && two.contains(&format!("not on the source: {}", uuids[0])), "{two}");
    assert!(two.contains("is followed once it has them") && !status.to_string().contains("empty folder"), "{status}");
    assert_eq!(read(&mut reader(&socket, "EVENTUAL")).unwrap(), 0, "readers are served");
    let moves = &status["replay"]["to_verify"];
    assert!(moves.as_array().unwrap().is_empty(), "it may only lag: {moves}");
    first.restart(&[]);
    replica.wait_until("the first one", |status| is_followed(status, &uuids[0]));
    // Purged where we are not.
    second.sql("START REPLICA");
    replica.stop();
    first.sql("UPDATE t.a SET n = 2 WHERE id = 2; INSERT INTO t.a VALUES (3, 3)");
    await_set(&second, &first.gtid_executed());
    first.purge_binary_logs();
    let (mut replica, _) = follow(&source, &data, &[]);
    let status = replica.wait_until("the second one", |status| is_followed(status, &uuids[1]));
    assert!(status["source"]["left"].is_null(), "{status}");
    replica.waits_for_log(&["has purged binary logs", "of which one may still have these", "the next one is"]);
    assert_equal(&second, &mut replica, &["t"]);
    let checked = slipstream(&["check", "--source", &source, "--data", replica.data()]);
    assert!(checked.code == 0 && checked.out.contains("2 of 2 sources can be followed now"), "{checked:?}");
    replica.stop();
}

#[test]
fn one_that_is_silent_is_left_after_three_heartbeats() {
    let Some((first, second)) = pair("followed-silent") else { return };
    let proxy = Proxy::start(first.port());
    let source = format!("mysql://repl@127.0.0.1:{},127.0.0.1:{}", port(&proxy.url()), second.port());
    let source = format!("{source}/?get-server-public-key=1");
    let (mut replica, _) = follow(&source, &folder("followed-silent"), &[]);
    let uuids = [uuid(&first), uuid(&second)];
    replica.wait_until("the first one", |status| is_followed(status, &uuids[0]));
    proxy.silence(true);
    let silent = Instant::now();
    replica.wait_until("the second one", |status| is_followed(status, &uuids[1]));
    println!("silent: the second one's first event {:?} after it", silent.elapsed());
    assert!(silent.elapsed() < Duration::from_secs(30), "as after replica-net-timeout of a single source");
    // What was shown as the last event was the end of the connection.
    let left = &replica.status().unwrap()["source"]["left"];
    let at = |key: &str| of_day_us(left[key].as_str().unwrap());
    assert!(later_ms(at("at"), at("last_received")) >= 2900, "{left}");
    first.sql("UPDATE t.a SET n = 7 WHERE id = 1");
    await_set(&second, &first.gtid_executed());
    assert_equal(&second, &mut replica, &["t"]);
    replica.stop();
}

/// Kills a source while its larger table is copied; `before` is done first, once the other one is its replica.
fn killed_while_copied(name: &str, before: impl FnOnce(&Server, &Server)) -> Option<(Server, Replica)> {
    let (first, second) = pair(name)?;
    first.sql(
        "GRANT RELOAD, XA_RECOVER_ADMIN, LOCK TABLES, BACKUP_ADMIN, PROCESS ON *.* TO repl; \
         SET SESSION cte_max_recursion_depth = 100000; CREATE DATABASE u; \
         CREATE TABLE u.b (id INT PRIMARY KEY, v VARCHAR(200)); \
         INSERT INTO u.b WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20000) \
         SELECT n, REPEAT('x', 200) FROM s",
    );
    // In two databases: small tables of one are done together.
    await_set(&second, &first.gtid_executed());
    before(&first, &second);
    let source = several(&[&first, &second]);
    let options = ["--on-stop=stay", "--disk-reserve=100M", "--copy=always", "--copy-rate=1M"];
    let mut replica = Replica::start(&source, &folder(name), &options);
    let is_done = |status: &Value| status["replay"]["detail"].as_str().is_some_and(|line| line.contains("tables 1/2"));
    replica.wait_until("the smaller table's end", is_done);
    first.kill();
    Some((second, replica))
}

/// A finished table stays, and is replayed from there on; the other table is copied at the next one.
#[test]
fn a_first_copy_goes_on_at_the_next_one_when_its_source_is_killed() {
    let Some((second, mut replica)) = killed_while_copied("followed-copy", |_, _| ()) else { return };
    replica
        .waits_for_log(&["`u`.`b` is left out of the initial copy", "it was not copied yet when the source was lost"]);
    let second_uuid = uuid(&second);
    replica.wait_until("the second one", |status| is_followed(status, &second_uuid));
    second.sql("STOP REPLICA; RESET REPLICA ALL; DELETE FROM u.b WHERE id = 7; UPDATE t.a SET n = 5 WHERE id = 1");
    replica.copied();
    let log = replica.log();
    assert!(!log.contains("SLIP-000054") && !log.contains("`t`.`a` is left out"), "{log}");
    assert_equal(&second, &mut replica, &["t", "u"]);
    replica.stop();
}

/// Rows of a transaction that the next one never got do not stay.
#[test]
fn a_first_copy_begins_again_where_the_next_one_lacks_what_was_read() {
    let lacks = |first: &Server, second: &Server| {
        second.sql("STOP REPLICA");
        first.sql("UPDATE t.a SET n = 77 WHERE id = 2");
    };
    let Some((second, mut replica)) = killed_while_copied("followed-copy-lacks", lacks) else { return };
    replica.waits_for_log(&["SLIP-000054", "SLIP-000027"]);
    let second_uuid = uuid(&second);
    replica.wait_until("the second one", |status| is_followed(status, &second_uuid));
    second.sql("RESET REPLICA ALL; DELETE FROM u.b WHERE id = 7");
    assert_equal(&second, &mut replica, &["t", "u"]);
    replica.stop();
}

#[test]
fn a_relay_follows_the_next_one_without_a_restart() {
    let Some((first, second)) = pair("followed-relay") else { return };
    let options = ["--disk-reserve=100M"];
    let source = several(&[&first, &second]);
    let mut relay = Replica::spawn_relay(&source, &folder("followed-relay"), &options, |_| ());
    let uuids = [uuid(&first), uuid(&second)];
    relay.wait_until("the first one", |status| is_followed(status, &uuids[0]));
    relay.wait_until("its log", |status| retrieved(status) == first.gtid_executed());
    first.kill();
    relay.wait_until("the second one", |status| is_followed(status, &uuids[1]));
    second.sql("STOP REPLICA; RESET REPLICA ALL; UPDATE t.a SET n = 5 WHERE id = 1");
    let goal = second.gtid_executed();
    relay.wait_until("what is new there", |status| retrieved(status) == goal);
    relay.stop();
}

fn port(url: &str) -> String {
    url.chars().skip_while(|c| *c != '@').skip_while(|c| *c != ':').filter(char::is_ascii_digit).collect()
}

/// A start takes the first one that will do.
#[test]
fn a_first_start_copies_from_the_one_that_is_there() {
    let Some((first, second)) = pair("followed-first") else { return };
    let source = several(&[&first, &second]);
    first.sql("GRANT RELOAD, XA_RECOVER_ADMIN, LOCK TABLES, BACKUP_ADMIN, PROCESS ON *.* TO repl");
    await_set(&second, &first.gtid_executed());
    first.kill();
    second.purge_binary_logs();
    let (mut replica, _) = follow(&source, &folder("followed-first"), &[]);
    replica.waits_for_log(&["SLIP-000137", "SLIP-000027"]);
    assert_equal(&second, &mut replica, &["t"]);
    replica.stop();
    second.stop();
    let refused = Replica::spawn(&source, &folder("followed-none"), &["--disk-reserve=100M"], |_| ());
    let log = refused.expect_exit(1, &["none of 2 sources can be followed", &second.port().to_string()]);
    assert!(log.matches("mysql://repl@127.0.0.1").count() >= 4, "{log}");
}

#[test]
fn a_source_that_lags_is_left_and_a_late_read_says_what_is_missing() {
    let Some((first, second)) = pair("followed-lag") else { return };
    let data = folder("followed-lag");
    let (mut replica, socket) = follow(&several(&[&second, &first]), &data, &["--max-source-lag=2"]);
    let uuids = [uuid(&first), uuid(&second)];
    replica.wait_until("the one that lags later", |status| is_followed(status, &uuids[1]));
    replica.catch_up(&first);
    second.sql("STOP REPLICA SQL_THREAD");
    for n in 1..=5 {
        first.sql(&format!("UPDATE t.a SET n = {n} WHERE id = 2"));
    }
    let status = replica.wait_until("the other one", |status| is_followed(status, &uuids[0]));
    let why = status["source"]["left"]["why"].as_str().unwrap();
    assert!(why.contains("it lacks 5 transactions that others have, and the next one 0"), "{status}");
    replica.catch_up(&first);
    let mut global = reader(&socket, "GLOBAL");
    set(&mut global, "slipstream_read_timeout = 1000");
    read(&mut global).unwrap();
    let mut stops = reader(&socket, "EVENTUAL");
    stops.query("STOP REPLICA IO_THREAD");
    let before = first.gtid_executed();
    first.sql("UPDATE t.a SET n = 6 WHERE id = 2");
    let missing = first.gtid_executed().subtract(&before);
    let late = read(&mut global).unwrap_err();
    let says = format!(
        "1 transactions are not visible yet after 1000 ms (slipstream_read_timeout); missing: {missing}; \
         Replica_IO_Running: No"
    );
    assert!(late.contains(&says), "{late}");
    replica.stop();
}

/// A list may name a host that nobody knows, one server by two names, and one that another authority vouches for.
#[test]
fn names_that_lead_nowhere_or_twice_to_one_server_are_passed_over() {
    let Some((first, second)) = pair("followed-names") else { return };
    let (one, two) = (first.port(), second.port());
    let source = format!("mysql://repl@nobody.invalid,127.0.0.1:{one},localhost:{one},127.0.0.1:{two}");
    let (mut replica, _) = follow(&source, &folder("followed-names"), &[]);
    let uuids = [uuid(&first), uuid(&second)];
    replica.wait_until("the first one", |status| is_followed(status, &uuids[0]));
    replica.waits_for_log(&["SLIP-000137", "nobody.invalid"]);
    replica.catch_up(&first);
    await_set(&second, &first.gtid_executed());
    first.kill();
    let status = replica.wait_until("the second one", |status| is_followed(status, &uuids[1]));
    assert!(status["source"]["left"]["uri"].as_str().unwrap().contains(&format!("127.0.0.1:{one}")), "{status}");
    second.sql("STOP REPLICA; UPDATE t.a SET n = 3 WHERE id = 1");
    assert_equal(&second, &mut replica, &["t"]);
    replica.stop();
}

#[test]
fn a_server_that_another_authority_vouches_for_gets_no_password() {
    let Some((first, second)) = pair("followed-authority") else { return };
    let authority = first.dir().join("ca.pem");
    // It makes its own at the next start; until then both have those of their template.
    second.stop();
    for file in ["ca.pem", "ca-key.pem", "server-cert.pem", "server-key.pem", "client-cert.pem", "client-key.pem"] {
        std::fs::remove_file(second.dir().join(file)).unwrap();
    }
    second.restart(&[]);
    let source = format!("{}/?ssl-mode=VERIFY_CA", several(&[&first, &second]));
    let option = format!("--source-ssl-ca={}", authority.display());
    let (mut replica, _) = follow(&source, &folder("followed-authority"), &[&option]);
    let uuids = [uuid(&first), uuid(&second)];
    replica.wait_until("the first one", |status| is_followed(status, &uuids[0]));
    replica.catch_up(&first);
    await_set(&second, &first.gtid_executed());
    first.kill();
    let status = replica.wait_until("none", |status| !why_not(status, 1).is_empty());
    assert!(why_not(&status, 1).contains("certificate"), "{status}");
    first.restart(&[]);
    replica.wait_until("the first one again", |status| is_followed(status, &uuids[0]));
    replica.stop();
}

/// It accepts connections, as one that is stopped or cut off does.
#[test]
fn a_first_start_passes_over_a_server_that_says_nothing() {
    let Some((first, second)) = pair("followed-mute") else { return };
    let proxy = Proxy::start(first.port());
    proxy.silence(true);
    let source = format!("mysql://repl@127.0.0.1:{},127.0.0.1:{}", proxy.port(), second.port());
    let (mut replica, _) = follow(&source, &folder("followed-mute"), &[]);
    let second_uuid = uuid(&second);
    replica.wait_until("the second one", |status| is_followed(status, &second_uuid));
    replica.waits_for_log(&["SLIP-000137", "it accepted the connection and sent no greeting"]);
    assert_equal(&second, &mut replica, &["t"]);
    replica.stop();
}

/// No query of a copy has a time limit; a silent source is asked over another connection whether it lives.
#[test]
fn a_copy_goes_on_at_the_next_one_when_its_source_falls_silent_as_it_prepares() {
    let Some((first, second)) = pair("followed-silent-copy") else { return };
    first.sql("GRANT RELOAD, XA_RECOVER_ADMIN, LOCK TABLES, BACKUP_ADMIN, PROCESS ON *.* TO repl");
    await_set(&second, &first.gtid_executed());
    let (before_first, before_second) = (Proxy::start(first.port()), Proxy::start(second.port()));
    let asks = "LOCK INSTANCE FOR BACKUP";
    before_first.silence_at(asks);
    let addresses = format!("127.0.0.1:{},127.0.0.1:{}", before_first.port(), before_second.port());
    let source = format!("mysql://repl@{addresses}/?ssl-mode=DISABLED&get-server-public-key=1");
    let options = ["--copy=always"];
    let (mut replica, _) = follow(&source, &folder("followed-silent-copy"), &options);
    let uuids = [uuid(&first), uuid(&second)];
    replica.wait_until("the second one", |status| is_followed(status, &uuids[1]));
    replica.waits_for_log(&["SLIP-000054", "nothing received from the source"]);
    assert_equal(&second, &mut replica, &["t"]);
    // And that of a single table, whose next attempt is at the one that is followed then.
    before_first.silence(false);
    before_second.silence_at(asks);
    slipstream(&["copy", "t.a", "--data", replica.data()]).expect(0, &["starting over (attempt 2)", "copied `t`.`a`"]);
    replica.wait_until("the first one", |status| is_followed(status, &uuids[0]));
    assert_equal(&first, &mut replica, &["t"]);
    replica.stop();
}
