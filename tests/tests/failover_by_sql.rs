//! Which servers may be followed, by SQL as MySQL has it: the same statements at a server, and what they lead to.

use std::path::Path;
use std::process::Command;

use whole_program_tests::{Ballast, Ran, Replica, Server, SmallDisk, folder, repository};

use crate::followed::{is_followed, pair, uuid};

/// MySQL's client at the replica's socket, as its operator.
fn ask(socket: &Path, sql: &str) -> Ran {
    let mut command = Command::new(repository().join("testbed/mysql"));
    command.args(["run", "mysql", "--no-defaults", "--user=admin", "--batch", "--protocol=SOCKET"]);
    command.arg(format!("--socket={}", socket.display())).args(["-e", sql]);
    Ran::from(command.output().unwrap())
}

fn carried_out(socket: &Path, sql: &str) {
    ask(socket, sql).expect(0, &[]);
}

/// Each statement with the same answer: rows with their names, or the error's text.
fn compare(theirs: &Server, socket: &Path, statements: &[String]) {
    let mut differences = Vec::new();
    for sql in statements {
        let ours = ask(socket, sql);
        let (is_same, real) = match theirs.client(&["--column-names"], sql) {
            Ok(rows) => (ours.code == 0 && ours.out == rows, rows),
            Err(error) => {
                let text = error.to_string();
                let error = text[text.find("ERROR").unwrap()..].trim_end().to_owned();
                (ours.code == 1 && ours.err.contains(&error), error)
            }
        };
        if !is_same {
            differences.push(format!("{sql}\n  ours: {ours:?}\n  MySQL: {real:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

const GROUP: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

#[test]
fn lists_of_servers_are_changed_as_in_mysql() {
    let Some(server) = Server::or_skip("failover-lists", &["--performance-schema=ON"]) else { return };
    let data = folder("failover-lists");
    let (replica, socket) = Replica::with_socket(&server, &data, &["--on-stop=stay"]);
    let show = || {
        [
            "SELECT * FROM performance_schema.replication_asynchronous_connection_failover".to_owned(),
            "SELECT * FROM performance_schema.replication_asynchronous_connection_failover_managed".to_owned(),
        ]
    };
    let call = |name: &str, arguments: &[&str]| -> Vec<String> {
        let of = |arguments: &&str| format!("SELECT asynchronous_connection_failover_{name}({arguments})");
        let mut all: Vec<String> = arguments.iter().map(of).collect();
        all.extend(show());
        all
    };
    let sources = [
        "'', 'h1', 3306, '', 50",
        "'', 'h2', 3306, ''",
        "'', 'h3', 3307",
        "'', 'h0', 3307, NULL, 100",
        // There already; hosts have no case.
        "'', 'h1', 3306, '', 60",
        "'', 'H3', 3307, '', 1",
        "NULL, 'h4', 3306, '', 5",
        "",
        "''",
        "'', 'h4'",
        "'', 'h4', 3306, '', 50, 1",
        "'', '', 3306, '', 50",
        "'', NULL, 3306, '', 50",
        "'', 2, 3306, '', 50",
        "1, 'h4', 3306, '', 50",
        "'', 'h4', '3306', '', 50",
        "'', 'h4', NULL, '', 50",
        "'', 'h4', 3306.5, '', 50",
        "'', 'h4', 3306, 1, 50",
        "'', 'h4', 3306, '', 0",
        "'', 'h4', 3306, '', 101",
        "'', 'h4', 3306, '', '50'",
        "'', 'h4', 3306, '', NULL",
    ];
    compare(&server, &socket, &call("add_source", &sources));
    let managed = |rest: &str| rest.replace("GROUP", &format!("'{GROUP}'"));
    let groups = [
        "'', 'GroupReplication', GROUP, 'h1', 3306, '', 80, 60",
        "'', 'GroupReplication', GROUP, 'h9', 3306, '', 90, 70",
        "'', 'GroupReplication', GROUP, 'h1', 3306, '', 80",
        "'', 'GroupReplication', GROUP, 'h1', 3306, '', 80, 60, 1",
        "'', 'GroupReplication', GROUP",
        "'', 'Other', GROUP, 'h1', 3306, '', 80, 60",
        "'', 'groupreplication', GROUP, 'h1', 3306, '', 80, 60",
        "'', '', GROUP, 'h1', 3306, '', 80, 60",
        "'', NULL, GROUP, 'h1', 3306, '', 80, 60",
        "'', 'GroupReplication', 'name', 'h1', 3306, '', 80, 60",
        "'', 'GroupReplication', '', 'h1', 3306, '', 80, 60",
        "'', 'GroupReplication', NULL, 'h1', 3306, '', 80, 60",
        "'', 'GroupReplication', GROUP, '', 3306, '', 80, 60",
        "'', 'GroupReplication', GROUP, NULL, 3306, '', 80, 60",
        "'', 'GroupReplication', GROUP, 'h1', 0, '', 80, 60",
        "'', 'GroupReplication', GROUP, 'h1', '3306', '', 80, 60",
        "'', 'GroupReplication', GROUP, 'h1', 3306, '', 0, 60",
        "'', 'GroupReplication', GROUP, 'h1', 3306, '', 80, 101",
        "'', 'GroupReplication', GROUP, 'h1', 3306, '', '80', 60",
        "'', 'GroupReplication', GROUP, 'h1', 3306, '', NULL, 60",
        "1, 'GroupReplication', GROUP, 'h1', 3306, '', 80, 60",
    ]
    .map(managed);
    compare(&server, &socket, &call("add_managed", &groups.each_ref().map(String::as_str)));
    let gone = ["'', 'h2', 3306, ''", "'', 'h2', 3306, ''", "'', 'h1', 3306", "'', 'h1', 3306", "'', 'h3', '3307'"];
    let wrong = ["", "''", "'', ''", "'', '', 3306", "'', 'h3', 3307, '', 1", "NULL, 'h3', 3307", "1, 'h3', 3307"];
    compare(&server, &socket, &call("delete_source", &[&gone[..], &wrong].concat()));
    let groups =
        ["'', GROUP", "'', GROUP", "'', 'x'", "'', ''", "'', NULL", "''", "'', GROUP, 1", "1, GROUP"].map(managed);
    compare(&server, &socket, &call("delete_managed", &groups.each_ref().map(String::as_str)));
    compare(&server, &socket, &call("reset", &["1", ""]));
    // Another way to write the same: DO, and two in one statement.
    let add = |host: &str| format!("asynchronous_connection_failover_add_source('', '{host}', 3306, '', 50)");
    let mut statements = vec![format!("DO {}", add("a")), format!("SELECT {} AS x, {}", add("b"), add("c"))];
    statements.extend(show());
    compare(&server, &socket, &statements);
    switches(&server, &socket);
    carried_out(&socket, &format!("DO {}, {}", add("a"), add("b")));
    // Durable, and not forgotten by RESET REPLICA ALL, as in MySQL.
    let listed = ask(&socket, &show()[0]).out;
    carried_out(&socket, "STOP REPLICA; RESET REPLICA ALL");
    assert_eq!(ask(&socket, &show()[0]).out, listed);
    replica.kill();
    let (replica, socket) = Replica::with_socket_unawaited(&server, &data, &["--on-stop=stay"]);
    assert_eq!(ask(&socket, &show()[0]).out, listed);
    replica.stop();
}

/// SOURCE_CONNECTION_AUTO_FAILOVER beside a replica of MySQL's that has SOURCE_AUTO_POSITION, as there is nothing else
/// here.
fn switches(theirs: &Server, socket: &Path) {
    theirs.sql("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1, SOURCE_AUTO_POSITION=1");
    carried_out(socket, "STOP REPLICA");
    let change = |options: &str| format!("CHANGE REPLICATION SOURCE TO {options}");
    // The list's servers are at other hosts: the password goes there only if SQL gave it.
    let refused = ask(socket, &change("SOURCE_CONNECTION_AUTO_FAILOVER=1"));
    assert!(refused.code == 1 && refused.err.contains("need SOURCE_USER and SOURCE_PASSWORD"), "{refused:?}");
    // Names that no resolver knows would hold its thread up.
    compare(theirs, socket, &["DO asynchronous_connection_failover_reset()".to_owned()]);
    let column = "SELECT SOURCE_CONNECTION_AUTO_FAILOVER FROM performance_schema.replication_connection_configuration";
    compare(theirs, socket, &[column.to_owned()]);
    for sql in [
        change("SOURCE_USER='repl', SOURCE_PASSWORD='repl', SOURCE_CONNECTION_AUTO_FAILOVER=1"),
        change("SOURCE_AUTO_POSITION=0"),
        change("SOURCE_AUTO_POSITION=0, SOURCE_CONNECTION_AUTO_FAILOVER=1"),
        change("SOURCE_CONNECTION_AUTO_FAILOVER=2"),
        change("SOURCE_CONNECTION_AUTO_FAILOVER='1'"),
        column.to_owned(),
        "START REPLICA SQL_THREAD".to_owned(),
        change("SOURCE_CONNECTION_AUTO_FAILOVER=0"),
        "STOP REPLICA SQL_THREAD".to_owned(),
        "START REPLICA IO_THREAD".to_owned(),
        change("SOURCE_CONNECTION_AUTO_FAILOVER=0"),
        "STOP REPLICA IO_THREAD".to_owned(),
        change("SOURCE_CONNECTION_AUTO_FAILOVER=0"),
        column.to_owned(),
    ] {
        compare(theirs, socket, &[sql]);
    }
}

#[test]
fn a_server_that_sql_named_is_followed_when_the_source_is_lost() {
    let Some((first, second)) = pair("failover-next") else { return };
    let data = folder("failover-next");
    let (mut replica, socket) = Replica::with_socket(&first, &data, &["--on-stop=stay", "--replica-net-timeout=3s"]);
    replica.catch_up(&first);
    let add =
        |port: u16| format!("SELECT asynchronous_connection_failover_add_source('', '127.0.0.1', {port}, '', 60)");
    let remove = |port: u16| format!("SELECT asynchronous_connection_failover_delete_source('', '127.0.0.1', {port})");
    carried_out(&socket, "STOP REPLICA");
    carried_out(&socket, &add(1));
    let on =
        "CHANGE REPLICATION SOURCE TO SOURCE_USER='repl', SOURCE_PASSWORD='repl', SOURCE_CONNECTION_AUTO_FAILOVER=1";
    carried_out(&socket, &format!("{on}; START REPLICA"));
    let uuids = [uuid(&first), uuid(&second)];
    replica.wait_until("the first one", |status| is_followed(status, &uuids[0]));
    // While it receives: a server more, one less, and the one that is followed.
    let connected = replica.status().unwrap()["source"]["reconnects"].clone();
    for sql in [add(second.port()), remove(1), add(first.port()), remove(first.port())] {
        carried_out(&socket, &sql);
    }
    first.sql("INSERT INTO t.a VALUES (3, 3)");
    replica.catch_up(&first);
    let status = replica.status().unwrap();
    assert!(is_followed(&status, &uuids[0]) && status["source"]["reconnects"] == connected, "{status}");
    assert_eq!(status["source"]["candidates"][1]["weight"], 60, "{status}");
    second.sql(&format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{}', 60)", first.gtid_executed()));
    first.kill();
    replica.wait_until("the second one", |status| is_followed(status, &uuids[1]));
    replica.kill();
    let (mut replica, _) = Replica::with_socket_unawaited(&first, &data, &["--on-stop=stay"]);
    let status = replica.wait_until("the second one again", |status| is_followed(status, &uuids[1]));
    assert!(status["source"]["candidates"].as_array().unwrap().len() == 2, "{status}");
    second.sql("STOP REPLICA; INSERT INTO t.a VALUES (4, 4)");
    replica.catch_up(&second);
    replica.stop();
}

const HOSTS: &str = "SELECT HOST FROM performance_schema.replication_asynchronous_connection_failover";

/// Adds a server to the list, then takes it out, and so on, until an order fails. The number of those that were carried
/// out.
fn change_until_it_ends(socket: &Path) -> usize {
    let of =
        |what: &str| ask(socket, &format!("SELECT asynchronous_connection_failover_{what}('', 'h.example', 3306, '')"));
    let mut orders = ["add_source", "delete_source"].into_iter().cycle();
    std::iter::repeat_with(|| of(orders.next().unwrap())).take_while(|ran| ran.code == 0).count()
}

#[test]
fn a_list_is_the_old_or_the_new_one_wherever_a_kill_comes() {
    let Some(server) = Server::or_skip("failover-kill", &[]) else { return };
    let data = folder("failover-kill");
    let socket = data.with_extension("sock");
    let listens = format!("--socket={}", socket.display());
    let options = ["--on-stop=stay", "--disk-reserve=100M", &listens];
    // The first start writes small files, too. Then every second one is before its file replaces the old one.
    for entry in [40, 41, 42, 43] {
        let mut replica = Replica::spawn(&server.url("repl"), &data, &options, |command| {
            command.env("SLIPSTREAM_FAILPOINT", format!("die_at=keep:{entry}"));
        });
        replica.wait_until("an answer", |_| true);
        let carried_out = change_until_it_ends(&socket);
        whole_program_tests::wait_for("the kill", || replica.ended(), String::new);
        assert!(carried_out > 2, "{}", replica.log_end());
        let (replica, _) = Replica::with_socket_unawaited(&server, &data, &["--on-stop=stay"]);
        let (before, after) = match carried_out % 2 {
            0 => ("", "HOST\nh.example\n"),
            _ => ("HOST\nh.example\n", ""),
        };
        let listed = ask(&socket, HOSTS).out;
        println!("killed at the {entry}th: {}", if listed == before { "as before" } else { "as after" });
        assert!(listed == before || listed == after, "{carried_out}: {listed}");
        carried_out_or_not(&socket);
        replica.stop();
    }
}

/// Leaves the list empty.
fn carried_out_or_not(socket: &Path) {
    carried_out(socket, "SELECT asynchronous_connection_failover_reset()");
    assert_eq!(ask(socket, HOSTS).out, "");
}

#[test]
fn a_list_stays_as_it_was_where_the_disk_is_full() {
    let Some(disk) = SmallDisk::new("failover-full", 64) else { return };
    let Some(server) = Server::or_skip("failover-full", &[]) else { return };
    let data = disk.path().to_owned();
    let (replica, socket) = Replica::with_socket(&server, &data, &["--on-stop=stay", "--disk-reserve=1M"]);
    let add = |host: &str| format!("SELECT asynchronous_connection_failover_add_source('', '{host}', 3306)");
    carried_out(&socket, &add("a.example"));
    let ballast = Ballast::leave(&disk, 0);
    let refused = ask(&socket, &add("b.example"));
    assert!(refused.code == 1 && refused.err.contains("space"), "{refused:?}");
    assert_eq!(ask(&socket, HOSTS).out, "HOST\na.example\n");
    drop(ballast);
    carried_out(&socket, &add("b.example"));
    replica.kill();
    let (replica, socket) = Replica::with_socket_unawaited(&server, &data, &["--on-stop=stay", "--disk-reserve=1M"]);
    assert_eq!(ask(&socket, HOSTS).out, "HOST\na.example\nb.example\n");
    replica.stop();
}
