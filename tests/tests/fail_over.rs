//! Another server becomes the source: what it lacks of the one before must not differ in silence.

use std::path::{Path, PathBuf};
use std::process::Command;

use base::{Gtid, GtidSet};
use serde_json::Value;
use whole_program_tests::{Ran, Replica, Server, assert_equal, folder, repository, slipstream};

/// As by default: other tests read every row before they change it.
const SAMPLE: &str = "--check-images=sample";
const TABLE: &str = "`shop`.`o`";

fn ask(socket: &Path, sql: &str) -> Ran {
    let mut command = Command::new(repository().join("testbed/mysql"));
    command.args(["run", "mysql", "--no-defaults", "--user=admin", "--batch", "--protocol=SOCKET"]);
    command.arg(format!("--socket={}", socket.display())).args(["-e", sql]);
    Ran::from(command.output().unwrap())
}

/// A source with rows, and a replica of MySQL's that is to replace it.
fn pair(name: &str) -> (Server, Server) {
    let (first, second) = (Server::start(name, &[]), Server::start(&format!("{name}-second"), &[]));
    second.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='repl', \
         SOURCE_PASSWORD='repl', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1; START REPLICA",
        first.port()
    ));
    first.sql(
        "GRANT LOCK TABLES, XA_RECOVER_ADMIN ON *.* TO repl; CREATE DATABASE shop; \
         CREATE TABLE shop.o (id INT PRIMARY KEY, v VARCHAR(50), KEY (v)); CREATE TABLE shop.other (id INT PRIMARY KEY); \
         INSERT INTO shop.o WITH RECURSIVE s (n) AS (SELECT 1001 UNION ALL SELECT n + 1 FROM s WHERE n < 1300) \
         SELECT n, 'l' FROM s; INSERT INTO shop.other VALUES (1)",
    );
    await_set(&second, &first.gtid_executed());
    (first, second)
}

fn await_set(server: &Server, set: &GtidSet) {
    assert_eq!(server.sql(&format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', 60)")).trim(), "0");
}

fn promote(second: &Server) {
    second.sql("STOP REPLICA; RESET REPLICA ALL");
}

fn change_to(server: &Server) -> String {
    format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='repl', SOURCE_PASSWORD='repl'",
        server.port()
    )
}

fn gtids(set: &GtidSet) -> Vec<Gtid> {
    let each = set.intervals().flat_map(|(uuid, tag, interval)| {
        (interval.first..=interval.last).map(move |number| Gtid { uuid, tag, gno: number })
    });
    each.collect()
}

fn to_verify(status: &Value) -> Vec<String> {
    let list = status["replay"]["to_verify"].as_array().unwrap();
    list.iter().map(|line| line.as_str().unwrap().to_owned()).collect()
}

/// A replica whose store is not merged because nothing comes, which compares rows.
fn unmerged(source: &Server, data: &Path) -> (Replica, PathBuf) {
    let socket = data.with_extension("sock");
    let option = format!("--socket={}", socket.display());
    let options = [option.as_str(), "--on-stop=stay", "--cut-interval=200ms", SAMPLE];
    let replica = Replica::spawn(&source.url("repl"), data, &options, |command| {
        command.env("SLIPSTREAM_FAILPOINT", "never_idle=1");
    });
    (replica, socket)
}

/// The first source dies with three transactions that only the replica has, and they are committed empty on the second.
#[test]
fn lost_transactions_that_were_committed_empty_do_not_differ_in_silence() {
    let (first, second) = pair("lost");
    let data = folder("lost");
    let path = data.to_str().unwrap();
    let (mut replica, socket) = unmerged(&first, &data);
    replica.catch_up(&first);
    second.sql("STOP REPLICA IO_THREAD");
    first.sql("INSERT INTO shop.o VALUES (5001, 'lost'), (5002, 'lost'); DELETE FROM shop.o WHERE id = 1003");
    first.sql("UPDATE shop.o SET v = 'lost' WHERE id = 1004");
    replica.catch_up(&first);
    let ours = first.gtid_executed();
    replica.wait_until("a cut", |status| status["store"]["last_cut"] == status["position"]["watermark"]);
    first.kill();
    promote(&second);

    ask(&socket, "STOP REPLICA").expect(0, &[]);
    let refused = ask(&socket, &change_to(&second));
    assert!(refused.code == 1 && refused.err.contains("errant") && refused.err.contains("GTID_NEXT"), "{refused:?}");
    let status = replica.wait_until("its tables", |status| !to_verify(status).is_empty());
    assert!(to_verify(&status).iter().all(|line| line.starts_with(TABLE)), "{status}");

    let lost = ours.subtract(&second.gtid_executed());
    for gtid in gtids(&lost) {
        second.sql(&format!("SET GTID_NEXT = '{gtid}'; BEGIN; COMMIT"));
    }
    ask(&socket, &change_to(&second)).expect(0, &[]);
    ask(&socket, "START REPLICA").expect(0, &[]);
    let status = replica.wait_until("the move", |status| status["replay"]["unproven_move"] != "");
    assert!(to_verify(&status).iter().any(|line| line.contains(&lost.to_string())), "{status}");
    slipstream(&["drift", "--data", path]).expect(0, &[TABLE, "slipstream verify"]);
    replica.waits_for_log(&["SLIP-000134", "SLIP-000135"]);

    // A row that only the replica has, on disk: replay stops before the source's is visible.
    let before = second.gtid_executed();
    second.sql("INSERT INTO shop.o VALUES (5001, 'new')");
    let status = replica.wait_until("a stop", |status| status["last_sql_error"]["number"] == 1062);
    assert!(status["last_sql_error"]["text"].as_str().unwrap().contains("5001"), "{status}");
    // A restart checks what it checked before, though all rows were compared meanwhile.
    slipstream(&["check-store", "--data", path]).expect(0, &[]);
    replica.stop();
    let (mut replica, socket) = unmerged(&second, &data);
    let status = replica.wait_until("the same stop", |status| status["last_sql_error"]["number"] == 1062);
    assert!(status["replay"]["unproven_move"] != "" && to_verify(&status).len() == 1, "{status}");

    let stopped_at = second.gtid_executed().subtract(&before);
    slipstream(&["skip", &stopped_at.to_string(), "--data", path]).expect(0, &[]);
    ask(&socket, "START REPLICA").expect(0, &[]);
    replica.catch_up(&second);
    slipstream(&["copy", "shop.o", "--data", path]).expect(0, &[]);
    replica.catch_up(&second);
    replica.wait_until("no mark", |status| to_verify(status).is_empty());
    slipstream(&["check-store", "--data", path]).expect(0, &[]);
    replica.wait_until("the end of the checks", |status| status["replay"]["unproven_move"] == "");
    replica.waits_for_log(&["SLIP-000136"]);
    assert_equal(&second, &mut replica, &["shop"]);
    replica.stop();
}

/// A source whose log has what the one before committed last has everything before it, too.
#[test]
fn a_source_that_has_the_newest_transaction_of_the_one_before_is_proven() {
    let (first, second) = pair("proven");
    let data = folder("proven");
    let (mut replica, socket) = Replica::with_socket(&first, &data, &["--on-stop=stay", SAMPLE]);
    first.sql("UPDATE shop.o SET v = 'last' WHERE id = 1004");
    replica.catch_up(&first);
    await_set(&second, &first.gtid_executed());
    promote(&second);
    ask(&socket, "STOP REPLICA").expect(0, &[]);
    ask(&socket, &change_to(&second)).expect(0, &[]);
    ask(&socket, "START REPLICA").expect(0, &[]);
    second.sql("INSERT INTO shop.o VALUES (5001, 'new')");
    let status = replica.catch_up(&second);
    assert_eq!((&status["replay"]["unproven_move"], to_verify(&status)), (&"".into(), vec![]));
    let uuid = |server: &Server| server.sql("SELECT @@GLOBAL.server_uuid").trim().to_owned();
    let (before, now) = (uuid(&first), uuid(&second));
    assert_eq!(
        (&status["source"]["before"]["server_uuid"], &status["source"]["server_uuid"]),
        (&before.clone().into(), &now.clone().into())
    );
    replica.waits_for_log(&["SLIP-000150", &format!("{before} → {now}")]);
    assert_equal(&second, &mut replica, &["shop"]);

    // What cannot be proved is said: the new source has purged its log.
    ask(&socket, "STOP REPLICA").expect(0, &[]);
    first.sql("STOP REPLICA");
    first.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='repl', \
         SOURCE_PASSWORD='repl', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1; START REPLICA",
        second.port()
    ));
    await_set(&first, &second.gtid_executed());
    promote(&first);
    first.purge_binary_logs();
    ask(&socket, &change_to(&first)).expect(0, &[]);
    ask(&socket, "START REPLICA").expect(0, &[]);
    replica.wait_until("the move", |status| status["replay"]["unproven_move"] != "");
    replica.stop();
}
