//! The configuration of a replica changed by SQL: CHANGE REPLICATION SOURCE TO, CHANGE REPLICATION FILTER, RESET
//! REPLICA.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use whole_program_tests::replica::executed;
use whole_program_tests::{Ran, Replica, Server, folder, repository, slipstream, slipstream_with};

/// MySQL's client at the replica's socket, as its operator.
fn ask(socket: &Path, options: &[&str], sql: &str) -> Ran {
    let mut command = Command::new(repository().join("testbed/mysql"));
    command.args(["run", "mysql", "--no-defaults", "--user=admin", "--batch", "--protocol=SOCKET"]);
    command.arg(format!("--socket={}", socket.display())).args(options).args(["-e", sql]);
    Ran::from(command.output().unwrap())
}

/// A column of SHOW REPLICA STATUS.
fn column(text: &str, name: &str) -> String {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(&format!("{name}:")));
    line.unwrap_or_default().trim().to_owned()
}

fn status(socket: &Path) -> String {
    ask(socket, &["--vertical"], "SHOW REPLICA STATUS").out
}

/// The statement is answered as a stock replica answers it: with this error, or 0 for none.
#[track_caller]
fn assert_same_answer(socket: &Path, theirs: &Server, statement: &str, code: u32) {
    let ours = ask(socket, &[], statement);
    match theirs.client(&[], statement) {
        Ok(_) => assert!(code == 0 && ours.code == 0, "{statement}: {ours:?}"),
        Err(error) => {
            let text = error.to_string();
            let from = text.find("ERROR").unwrap();
            assert!(ours.err.contains(text[from..].trim_end()), "{statement}: {ours:?} {text}");
            assert!(text.contains(&format!("ERROR {code} ")), "{statement}: {text}");
        }
    }
}

/// Each statement to a replica of MySQL's too: the same errors while threads run, the same columns after it.
#[test]
fn refused_and_shown_as_at_a_replica_of_mysqls() {
    let server = Server::start("changed", &[]);
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a INT PRIMARY KEY)");
    let data = folder("changed");
    let (mut replica, socket) = Replica::with_socket(&server, &data, &["--on-stop=stay"]);
    let theirs = Server::start("changed-beside", &["--skip-replica-start"]);
    theirs.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='repl', SOURCE_PASSWORD='repl',
         SOURCE_AUTO_POSITION=1, SOURCE_SSL=1; START REPLICA",
        server.port()
    ));
    let change = |options: &str| format!("CHANGE REPLICATION SOURCE TO {options}");
    for (statement, code) in [
        (change("SOURCE_DELAY = 3"), 3085),
        (change("SOURCE_CONNECT_RETRY = 5"), 3021),
        (change("SOURCE_HOST = '127.0.0.1'"), 3021),
        (change("SOURCE_DELAY = 3, SOURCE_USER = 'repl'"), 3081),
        ("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a)".to_owned(), 3085),
        ("RESET REPLICA".to_owned(), 3081),
        ("RESET REPLICA ALL".to_owned(), 3081),
        (change(""), 1064),
        (change("SOURCE_DELAY = -1"), 1064),
        ("STOP REPLICA IO_THREAD".to_owned(), 0),
        (change("SOURCE_DELAY = 3"), 3085),
        (change("SOURCE_DELAY = 3, SOURCE_CONNECT_RETRY = 6"), 3085),
        (change("SOURCE_CONNECT_RETRY = 6"), 0),
        ("RESET REPLICA".to_owned(), 3081),
        ("START REPLICA IO_THREAD".to_owned(), 0),
        ("STOP REPLICA SQL_THREAD".to_owned(), 0),
        (change("SOURCE_DELAY = 2"), 0),
        (change("SOURCE_DELAY = 3, SOURCE_CONNECT_RETRY = 7"), 3021),
        ("STOP REPLICA".to_owned(), 0),
        (change("SOURCE_DELAY = 2147483648"), 1729),
        (change("SOURCE_HOST = ''"), 1210),
        (change("SOURCE_HEARTBEAT_PERIOD = 4294968"), 1624),
        (change("SOURCE_PASSWORD = '012345678901234567890123456789012'"), 3056),
        (
            change("SOURCE_DELAY = 0, SOURCE_CONNECT_RETRY = 8, SOURCE_RETRY_COUNT = 9, SOURCE_HEARTBEAT_PERIOD = 1.5"),
            0,
        ),
        (change("SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1"), 0),
    ] {
        assert_same_answer(&socket, &theirs, &statement, code);
        let real = theirs.client(&["--vertical", "--column-names"], "SHOW REPLICA STATUS").unwrap();
        let ours = status(&socket);
        for name in ["SQL_Delay", "Source_Host", "Source_Port", "Source_User"] {
            assert_eq!(column(&ours, name), column(&real, name), "{statement}");
        }
    }
    let ours = status(&socket);
    assert_eq!((column(&ours, "Connect_Retry"), column(&ours, "Source_Retry_Count")), ("8".into(), "9".into()));
    // What is not taken is named.
    for (statement, name) in [
        (change("SOURCE_BIND = 'x'"), "CHANGE REPLICATION SOURCE TO SOURCE_BIND"),
        (change("SOURCE_LOG_FILE = 'x', SOURCE_LOG_POS = 4"), "SOURCE_LOG_FILE"),
        (change("SOURCE_AUTO_POSITION = 0"), "SOURCE_AUTO_POSITION = 0"),
        (
            "CHANGE REPLICATION FILTER REPLICATE_REWRITE_DB = ((a, b))".to_owned(),
            "CHANGE REPLICATION FILTER REPLICATE_REWRITE_DB",
        ),
        ("PURGE BINARY LOGS TO 'x'".to_owned(), "PURGE BINARY LOGS"),
        ("RESET BINARY LOGS AND GTIDS".to_owned(), "RESET BINARY LOGS AND GTIDS"),
    ] {
        ask(&socket, &[], &statement).expect(1, &["1235", name]);
    }
    ask(&socket, &[], "CHANGE REPLICATION FILTER REPLICATE_DO_DB = ()").expect(0, &[]);
    ask(&socket, &[], "START REPLICA").expect(0, &[]);
    server.sql("INSERT INTO shop.t VALUES (1)");
    replica.catch_up(&server);
    replica.stop();
}

#[test]
fn changes_are_kept_until_reset_replica_all() {
    let server = Server::start("kept-source", &[]);
    server.sql(
        "CREATE DATABASE shop; CREATE TABLE shop.t (a INT PRIMARY KEY);
         CREATE USER second@'%' IDENTIFIED BY 'geheim-zwei';
         GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO second@'%'",
    );
    let other = Server::start("another-history", &[]);
    other.sql("CREATE DATABASE other");
    let data = folder("kept-source");
    let path = data.to_str().unwrap();
    let start = || Replica::with_socket_unawaited(&server, &data, &["--on-stop=stay", "--cut-interval=1h"]);
    let (mut replica, socket) = start();
    replica.catch_up(&server);
    let mut next = 0;
    let mut insert = |replica: &mut Replica| {
        next += 1;
        server.sql(&format!("INSERT INTO shop.t VALUES ({next})"));
        replica.catch_up(&server)
    };
    let changed = |status: &serde_json::Value| -> Vec<String> {
        let names = status["source"]["changed_by_sql"].as_array().unwrap();
        names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    insert(&mut replica);
    ask(&socket, &[], "STOP REPLICA").expect(0, &[]);
    // Another server needs its login, is asked who it is, and nothing of the order counts if it is not the one.
    let change = "CHANGE REPLICATION SOURCE TO";
    ask(&socket, &[], &format!("{change} SOURCE_HOST = 'localhost'")).expect(1, &["1210", "SOURCE_USER"]);
    let to_other = format!("{change} SOURCE_PORT = {}, SOURCE_DELAY = 60", other.port());
    let refused = ask(&socket, &[], &to_other);
    assert!(refused.code == 1 && refused.err.contains("1105") && refused.err.contains("errant"), "{refused:?}");
    ask(&socket, &[], &format!("{change} SOURCE_PORT = 1")).expect(1, &["1105"]);
    let now = replica.status().unwrap();
    assert!(changed(&now).is_empty() && now["replay"]["delay_s"] == 0, "{now}");
    // From the command line; a password only from standard input.
    let statement = format!(
        "{change} SOURCE_HOST = 'localhost', SOURCE_USER = 'second', SOURCE_PASSWORD = 'geheim-zwei', SOURCE_SSL = 1"
    );
    slipstream(&["execute", &statement, "--data", path]).expect(2, &["standard input"]);
    slipstream(&["execute", "--dat", path]).expect(2, &["unexpected argument '--dat'", "'--data'"]);
    let file = data.with_extension("sql");
    std::fs::write(&file, &statement).unwrap();
    slipstream_with(&["execute", "-", "--data", path], |command| {
        command.stdin(File::open(&file).unwrap());
    })
    .expect(0, &["done"]);
    slipstream(&["execute", "START REPLICA", "--data", path]).expect(0, &["done"]);
    let status_now = insert(&mut replica);
    let names = ["SOURCE_HOST", "SOURCE_USER", "SOURCE_PASSWORD", "SOURCE_SSL"];
    assert_eq!(changed(&status_now), names);
    assert_eq!(column(&status(&socket), "Source_User"), "second");
    // Kept for its owner alone, over kills.
    let kept = data.join("source-orders");
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    replica.kill();
    let (mut replica, socket) = start();
    let status_now = insert(&mut replica);
    assert_eq!(changed(&status_now), names);
    replica.waits_for_log(&["SOURCE_HOST, SOURCE_USER"]);
    let own = ask(&socket, &[], "SHOW FULL PROCESSLIST").out;
    for text in [replica.log(), status_now.to_string(), own, status(&socket)] {
        assert!(!text.contains("geheim-zwei"), "{text}");
    }
    // The relay log goes, rows stay, and the source of the start is in force.
    ask(&socket, &[], "RESET REPLICA ALL").expect(1, &["3081"]);
    ask(&socket, &[], "STOP REPLICA SQL_THREAD").expect(0, &[]);
    server.sql("INSERT INTO shop.t VALUES (1000)");
    ask(&socket, &[], "STOP REPLICA").expect(0, &[]);
    let shown = executed(&replica.status().unwrap());
    let rows = ask(&socket, &[], "SELECT a FROM shop.t").out;
    ask(&socket, &[], "RESET REPLICA ALL").expect(0, &[]);
    assert!(!kept.exists());
    let status_now = replica.status().unwrap();
    assert!(changed(&status_now).is_empty(), "{status_now}");
    assert_eq!((executed(&status_now), ask(&socket, &[], "SELECT a FROM shop.t").out), (shown.clone(), rows.clone()));
    assert_eq!(column(&status(&socket), "Source_User"), "repl");
    replica.kill();
    let (mut replica, socket) = start();
    let status_now = replica.wait_until("the stop", |status| status["replay"]["state"] == "paused");
    assert_eq!((executed(&status_now), ask(&socket, &[], "SELECT a FROM shop.t").out), (shown, rows));
    ask(&socket, &[], "START REPLICA").expect(0, &[]);
    insert(&mut replica);
    assert!(ask(&socket, &[], "SELECT a FROM shop.t").out.contains("1000"));
    slipstream(&["execute", "SELECT 1", "--data", path]).expect(2, &["yet support"]);
    slipstream(&["execute", "RESET REPLICA", "--data", path]).expect(1, &["3081", "STOP REPLICA"]);
    replica.stop();
}

/// Columns of SHOW REPLICA STATUS that show filters.
const FILTER_COLUMNS: [&str; 7] = [
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "Replicate_Rewrite_DB",
];

/// Each statement to a replica of MySQL's too: the same errors, the same columns.
#[test]
fn filters_are_changed_and_shown_as_at_a_replica_of_mysqls() {
    let server = Server::start_unsynced("filtered", &[]);
    server.sql("CREATE DATABASE a; CREATE TABLE a.t (i INT PRIMARY KEY); INSERT INTO a.t VALUES (1)");
    let (replica, socket) = Replica::with_socket(&server, &folder("filtered"), &["--on-stop=stay"]);
    let theirs = Server::start_unsynced("filtered-beside", &["--skip-replica-start"]);
    theirs.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='repl', SOURCE_PASSWORD='repl',
         SOURCE_AUTO_POSITION=1, SOURCE_SSL=1; START REPLICA",
        server.port()
    ));
    let change = |rules: &str| format!("CHANGE REPLICATION FILTER {rules}");
    for (statement, code) in [
        (change("REPLICATE_DO_DB = (a)"), 3085),
        ("STOP REPLICA IO_THREAD".to_owned(), 0),
        (change("REPLICATE_DO_DB = ()"), 3085),
        ("STOP REPLICA SQL_THREAD".to_owned(), 0),
        ("START REPLICA IO_THREAD".to_owned(), 0),
        (change(""), 1064),
        (change("REPLICATE_DO_DB"), 1064),
        (change("REPLICATE_DO_DB = a"), 1064),
        (change("REPLICATE_DO_DB = (a,)"), 1064),
        (change("REPLICATE_DO_TABLE = (t)"), 1064),
        (change("REPLICATE_WILD_DO_TABLE = (a.t)"), 1064),
        (change("REPLICATE_WILD_DO_TABLE = ('at')"), 3067),
        (change("REPLICATE_DO_DB = (a, b, `a b`)"), 0),
        (change("REPLICATE_DO_TABLE = (a.t, b.`x.y`), REPLICATE_IGNORE_DB = (c)"), 0),
        (change("REPLICATE_WILD_IGNORE_TABLE = ('a.x%', '%.\\_y') FOR CHANNEL ''"), 0),
        (change("REPLICATE_DO_DB = (), REPLICATE_DO_TABLE = ()"), 0),
        (change("REPLICATE_IGNORE_TABLE = (a.z), REPLICATE_IGNORE_TABLE = (a.y)"), 0),
        (change("REPLICATE_WILD_DO_TABLE = ('a.%'), REPLICATE_IGNORE_DB = ()"), 0),
        (change("REPLICATE_WILD_DO_TABLE = ()"), 0),
    ] {
        assert_same_answer(&socket, &theirs, &statement, code);
        let real = theirs.client(&["--vertical", "--column-names"], "SHOW REPLICA STATUS").unwrap();
        let shown = status(&socket);
        // Ours are sorted; MySQL's stand in the order of the statement, or of a hash.
        let columns = |text: &str| {
            FILTER_COLUMNS.map(|name| {
                let value = column(text, name);
                let mut rules: Vec<&str> = value.split(',').collect();
                rules.sort_unstable();
                format!("{name}: {}", rules.join(","))
            })
        };
        assert_eq!(columns(&shown), columns(&real), "{statement}");
    }
    replica.stop();
}

/// Tables that filters let in are copied before they are read, and those that they leave out are gone, whatever happens
/// in between.
#[test]
fn filters_by_sql_let_tables_in_whole_and_out() {
    let server = Server::start_unsynced("let-in", &[]);
    server.sql(
        "GRANT RELOAD, LOCK TABLES, XA_RECOVER_ADMIN, SHOW VIEW ON *.* TO repl;
         CREATE DATABASE a; CREATE DATABASE b; USE a; CREATE TABLE t (i INT PRIMARY KEY);
         USE b; CREATE TABLE t (i INT PRIMARY KEY, n INT); CREATE TABLE u (i INT); CREATE VIEW v AS SELECT * FROM t;
         INSERT INTO a.t VALUES (1), (2); INSERT INTO b.t VALUES (1, 1), (2, 2), (3, 3); INSERT INTO b.u VALUES (1), (1)",
    );
    let data = folder("let-in");
    let path = data.to_str().unwrap();
    // No cut but those of clean stops and of copies.
    let given = ["--on-stop=stay", "--cut-interval=1h", "--replicate-do-db=a"];
    let start = || Replica::with_socket_unawaited(&server, &data, &given);
    let (mut replica, socket) = start();
    let order = |statement: &str| {
        ask(&socket, &[], statement).expect(0, &[]);
    };
    let code = |table: &str| {
        let ran = ask(&socket, &["--skip-column-names"], &format!("SELECT COUNT(*) FROM {table}"));
        let error = ran.err.find("ERROR ").map(|at| ran.err[at + 6..].split(' ').next().unwrap().to_owned());
        error.unwrap_or_else(|| ran.out.trim().to_owned())
    };
    let waits = |status: &serde_json::Value| status["replay"]["quarantined"].as_array().unwrap().len();
    let verified = |replica: &mut Replica| {
        replica.wait_until("the copies", |status| waits(status) == 0);
        replica.catch_up(&server);
        let arguments = ["verify", "--data", path, "--source", &server.url("root")];
        let ran = slipstream_with(&arguments, |command| {
            command.env_remove("MYSQL_PWD");
        });
        ran.expect(0, &["EQUAL"]);
        ran.out
    };
    replica.catch_up(&server);
    assert_eq!(["a.t", "b.t", "b.u"].map(code), ["2", "1146", "1146"]);
    order("STOP REPLICA SQL_THREAD");
    server.sql("INSERT INTO a.t VALUES (3); INSERT INTO b.t VALUES (4, 4); UPDATE b.t SET n = 10 WHERE i = 1");
    order("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a, b), REPLICATE_IGNORE_TABLE = (b.u)");
    // Named, and not shown with rows missing, until it is copied; after a kill too, which no cut has come before.
    for round in 0..2 {
        let status = replica.wait_until("an answer", |status| status["replay"]["state"] == "paused");
        assert_eq!(
            status["source"]["changed_by_sql"],
            serde_json::json!(["REPLICATE_DO_DB", "REPLICATE_IGNORE_TABLE"])
        );
        assert_eq!(
            status["replay"]["filters"],
            serde_json::json!(["replicate-do-db=a", "replicate-do-db=b", "replicate-ignore-table=b.u"])
        );
        assert_eq!(waits(&status), 1, "{status}");
        assert_eq!(["a.t", "b.t", "b.u"].map(code), ["2", "1105", "1146"], "round {round}");
        replica.kill();
        // What a stopped folder shows is the same.
        slipstream(&["dump", "--data", path, "--format=tab", "b.t"]).expect(1, &["b", "t"]);
        replica = start().0;
    }
    order("START REPLICA");
    assert!(verified(&mut replica).contains("b.t"));
    assert_eq!(["a.t", "b.t", "b.u"].map(code), ["3", "4", "1146"]);
    let views = ask(&socket, &["--skip-column-names"], "SHOW FULL TABLES FROM b").out;
    assert!(views.contains("v\tVIEW"), "{views}");
    assert!(slipstream(&["dump", "--data", path, "--definitions"]).out.contains("`b`.`v`"));
    server.sql("INSERT INTO b.t VALUES (5, 5); DELETE FROM b.t WHERE i = 2; INSERT INTO b.u VALUES (2)");
    verified(&mut replica);
    // Out: nothing remains that would grow old. In again: with all that came meanwhile.
    order("STOP REPLICA SQL_THREAD");
    order("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (a.t)");
    assert_eq!(["a.t", "b.t", "b.u"].map(code), ["1146", "4", "1105"]);
    order("START REPLICA SQL_THREAD");
    server.sql("INSERT INTO a.t VALUES (4); USE a; ALTER TABLE t ADD m INT DEFAULT 7; USE b; CREATE TABLE w (i INT PRIMARY KEY)");
    assert!(!verified(&mut replica).contains("a.t"));
    slipstream(&["stop", "sql", "--data", path]).expect(0, &[]);
    let statement = "CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = ()";
    slipstream(&["execute", statement, "--data", path]).expect(0, &["done"]);
    slipstream(&["start", "--data", path]).expect(0, &[]);
    assert!(verified(&mut replica).contains("a.t"));
    assert_eq!(["a.t", "b.t", "b.u", "b.w"].map(code), ["4", "4", "3", "0"]);
    // Over a restart, until RESET REPLICA ALL.
    replica.kill();
    let (mut replica, _) = start();
    replica.catch_up(&server);
    replica.waits_for_log(&["REPLICATE_DO_DB, REPLICATE_IGNORE_TABLE are in force"]);
    order("STOP REPLICA");
    order("RESET REPLICA ALL");
    let now = replica.status().unwrap();
    assert_eq!(
        (&now["source"]["changed_by_sql"], &now["replay"]["filters"]),
        (&serde_json::json!([]), &serde_json::json!(["replicate-do-db=a"]))
    );
    assert_eq!(["a.t", "b.t"].map(code), ["4", "1146"]);
    replica.kill();
    let (mut replica, _) = start();
    order("START REPLICA");
    server.sql("INSERT INTO a.t VALUES (6, 6); INSERT INTO b.t VALUES (6, 6)");
    assert!(!verified(&mut replica).contains("b.t"));
    replica.stop();
}

/// The way past a table that stops replay; and what needs a cut is refused until then.
/// Other filters start the engine again, which replays what was visible already before it rests where it is stopped.
#[test]
fn orders_count_while_replay_is_on_its_way_to_its_stop() {
    let server = Server::start_unsynced("bound", &[]);
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (i INT AUTO_INCREMENT PRIMARY KEY, n INT, KEY (n))");
    let data = folder("bound");
    let (mut replica, socket) = Replica::with_socket(&server, &data, &["--on-stop=stay", "--cut-interval=1h"]);
    let doubled = "INSERT INTO d.t (n) SELECT i FROM d.t;".repeat(18);
    server.sql(&format!("INSERT INTO d.t (n) VALUES (0); {doubled}"));
    replica.catch_up(&server);
    let rows = || ask(&socket, &["--skip-column-names"], "SELECT COUNT(*) FROM d.t").out;
    let orders = |more: &str| {
        let statements = format!(
            "STOP REPLICA SQL_THREAD; CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (d.a);
             CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (d.b); {more}"
        );
        ask(&socket, &[], &statements)
    };
    orders("STOP REPLICA SQL_THREAD").expect(0, &[]);
    server.sql("INSERT INTO d.t (n) VALUES (1)");
    replica.wait_until("its stop", |status| status["replay"]["state"] == "paused");
    assert_eq!(rows(), "262144\n");
    orders("START REPLICA SQL_THREAD").expect(0, &[]);
    replica.catch_up(&server);
    assert_eq!(rows(), "262145\n");
    replica.stop();
}

#[test]
fn after_a_failed_replay_filters_go_on_and_reset_is_refused() {
    let server = Server::start_unsynced("failed", &[]);
    server
        .sql("CREATE DATABASE d; CREATE TABLE d.bad (i INT PRIMARY KEY, n INT); CREATE TABLE d.t (i INT PRIMARY KEY)");
    let data = folder("failed");
    let path = data.to_str().unwrap();
    let (mut replica, socket) = Replica::with_socket(&server, &data, &["--on-stop=stay", "--cut-interval=1h"]);
    server.sql("INSERT INTO d.bad VALUES (1, 1); INSERT INTO d.t VALUES (1)");
    replica.catch_up(&server);
    // A row that the log does not bring, and its change.
    server.sql("SET sql_log_bin = 0; INSERT INTO d.bad VALUES (2, 2); SET sql_log_bin = 1; UPDATE d.bad SET n = 3 WHERE i = 2; INSERT INTO d.t VALUES (2)");
    replica.wait_until("the error", |status| status["replay"]["state"] == "failed");
    let all = server.gtid_executed();
    replica.wait_until("all received", |status| all.is_subset_of(&whole_program_tests::replica::retrieved(status)));
    let rows = || ask(&socket, &["--skip-column-names"], "SELECT i FROM d.t").out;
    assert_eq!(rows(), "1\n");
    ask(&socket, &[], "STOP REPLICA IO_THREAD").expect(0, &[]);
    // Rows since the last cut live in the relay log alone.
    for statement in ["RESET REPLICA", "RESET REPLICA ALL"] {
        let refused = ask(&socket, &[], statement);
        assert!(refused.code == 1 && refused.err.contains("1105") && refused.err.contains("relay log"), "{refused:?}");
        slipstream(&["execute", statement, "--data", path]).expect(1, &["1105", "relay log"]);
    }
    assert!(data.join("relay-log").read_dir().unwrap().count() > 0);
    assert_eq!(rows(), "1\n");
    ask(&socket, &[], "CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (d.bad)").expect(0, &[]);
    assert_eq!(rows(), "1\n");
    ask(&socket, &[], "START REPLICA").expect(0, &[]);
    replica.catch_up(&server);
    assert_eq!(rows(), "1\n2\n");
    ask(&socket, &[], "STOP REPLICA").expect(0, &[]);
    ask(&socket, &[], "RESET REPLICA").expect(0, &[]);
    replica.kill();
    let (mut replica, _) = Replica::with_socket_unawaited(&server, &data, &["--on-stop=stay", "--cut-interval=1h"]);
    replica.wait_until("the stop", |status| status["replay"]["state"] == "paused");
    assert_eq!(rows(), "1\n2\n");
    replica.stop();
}

/// Let in after the source has renamed it: its rows of before stand in the log under a name that nothing can be copied
/// from. Replay names it, and leaving it out is the way on.
#[test]
fn a_table_that_the_source_has_renamed_since_is_left_out() {
    let server = Server::start_unsynced("renamed", &[]);
    server.sql(
        "GRANT RELOAD, LOCK TABLES, XA_RECOVER_ADMIN ON *.* TO repl; CREATE DATABASE a; CREATE DATABASE b;
         CREATE TABLE a.t (i INT PRIMARY KEY); CREATE TABLE b.old (i INT PRIMARY KEY); INSERT INTO b.old VALUES (1)",
    );
    let data = folder("renamed");
    let given = ["--on-stop=stay", "--cut-interval=1h", "--replicate-do-db=a"];
    let (mut replica, socket) = Replica::with_socket_unawaited(&server, &data, &given);
    let order = |statement: &str| {
        ask(&socket, &[], statement).expect(0, &[]);
    };
    replica.catch_up(&server);
    order("STOP REPLICA SQL_THREAD");
    server.sql("INSERT INTO b.old VALUES (2); RENAME TABLE b.old TO b.new; INSERT INTO b.new VALUES (3); INSERT INTO a.t VALUES (1)");
    order("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a, b)");
    order("START REPLICA");
    let failed = replica.wait_until("the error", |status| status["replay"]["state"] == "failed");
    let error = failed["last_sql_error"]["text"].to_string();
    assert!(error.contains("`b`.`old`"), "{error}");
    let rows = |table: &str| ask(&socket, &["--skip-column-names"], &format!("SELECT i FROM {table}"));
    assert_eq!(rows("a.t").out, "");
    order("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (b.old)");
    order("START REPLICA");
    replica.catch_up(&server);
    replica.wait_until("the copy", |status| status["replay"]["quarantined"].as_array().unwrap().is_empty());
    assert_eq!(rows("a.t").out, "1\n");
    assert_eq!(rows("b.new").out, "1\n2\n3\n");
    assert!(rows("b.old").err.contains("1146"));
    replica.stop();
}
