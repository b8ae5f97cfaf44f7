//! MySQL's own clients at a running replica.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use accounts::{AccountName, Accounts, NewAccount, PasswordPlugin, Requirement, StoredPassword};
use client::{ConnectOptions, Connection, SslMode};
use testkit::servers;
use whole_program_tests::{Ran, Replica, Server, folder, repository, slipstream};

/// A replica with clients' accounts, and where it listens.
struct Door {
    replica: Replica,
    port: String,
    socket: PathBuf,
}

/// `reader` (read, monitor) and `boss` (admin too); the password is the name.
fn add_accounts(data: &Path) {
    let accounts = Accounts::open(&data.join("accounts")).unwrap();
    for (name, rights) in [("reader", "read,monitor"), ("boss", "read,monitor,replicate,admin")] {
        let new = NewAccount {
            name: AccountName::new(name, "%").unwrap(),
            rights: rights.parse().unwrap(),
            schemas: None,
            requirement: Requirement::None,
            password: StoredPassword::new(PasswordPlugin::CachingSha2, name).unwrap(),
        };
        accounts.add(new).unwrap();
    }
}

/// Follows `server`. A first life makes the folder, so that accounts can be put into it.
fn follow(server: &Server, name: &str, options: &[&str]) -> Door {
    let data = folder(name);
    Replica::follow(server, &data, &[]).stop();
    add_accounts(&data);
    let socket = data.with_extension("sock");
    let path = format!("--socket={}", socket.display());
    let mut replica = Replica::follow(server, &data, &[&[path.as_str()], options].concat());
    let status = replica.catch_up(server);
    let address = status["clients"]["address"].as_str().unwrap().to_owned();
    let port = address.rsplit_once(':').unwrap().1.to_owned();
    Door { replica, port, socket }
}

impl Door {
    /// Runs a program of MySQL as a user whose password is its name, over TCP.
    fn run(&self, program: &str, user: &str, arguments: &[&str]) -> Ran {
        let mut command = Command::new(repository().join("testbed/mysql"));
        command.args(["run", program, "--no-defaults", "--host=127.0.0.1", "--port", &self.port]);
        command.arg(format!("--user={user}")).args(arguments).env("MYSQL_PWD", user);
        Ran::from(command.output().unwrap())
    }

    /// Rows of statements, without headers.
    fn rows(&self, user: &str, options: &[&str], sql: &str) -> Ran {
        self.run("mysql", user, &[&["--batch", "--skip-column-names"], options, &["-e", sql]].concat())
    }

    /// As [`rows`](Self::rows), over the socket.
    fn rows_over_socket(&self, user: &str, sql: &str) -> Ran {
        let mut command = Command::new(repository().join("testbed/mysql"));
        command.args(["run", "mysql", "--no-defaults", "--batch", "--skip-column-names", "--protocol=SOCKET"]);
        command.arg(format!("--socket={}", self.socket.display())).arg(format!("--user={user}")).args(["-e", sql]);
        Ran::from(command.output().unwrap())
    }
}

#[test]
fn mysqls_clients_log_in_and_are_answered() {
    let Some(server) = Server::or_skip("door", &[]) else { return };
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a INT PRIMARY KEY)");
    let door = follow(&server, "door-clients", &[]);
    // The first login of an account needs TLS; then the password is known.
    door.rows("reader", &["--ssl-mode=DISABLED"], "SELECT 1").expect(1, &["1045", "TLS"]);
    door.rows("reader", &["--ssl-mode=REQUIRED"], "SELECT 1; SELECT 'zwei'").expect(0, &["1\nzwei"]);
    door.rows("reader", &["--ssl-mode=DISABLED"], "SELECT CURRENT_USER()").expect(0, &["reader@%"]);
    for version in ["TLSv1.2", "TLSv1.3"] {
        let option = format!("--tls-version={version}");
        door.rows("reader", &["--ssl-mode=REQUIRED", &option], "SELECT 'tls'").expect(0, &["tls"]);
    }
    for algorithm in ["zlib", "zstd"] {
        let option = format!("--compression-algorithms={algorithm}");
        let text = "x".repeat(100_000);
        door.rows("reader", &[&option], &format!("SELECT '{text}'")).expect(0, &[&text]);
    }
    door.rows_over_socket("admin", "SELECT CURRENT_USER(), @@port").expect(0, &["admin@localhost", &door.port]);
    door.rows_over_socket("reader", "SELECT 1").expect(1, &["1045"]);
    door.rows("reader", &["--database=shop"], "SELECT DATABASE(), @@read_only").expect(0, &["shop\t1"]);
    door.rows("reader", &["--database=nope"], "SELECT 1").expect(1, &["1049"]);
    door.rows("reader", &["--database=shop"], "INSERT INTO t VALUES (1)").expect(1, &["1290"]);
    door.rows("reader", &[], "SELECT * FROM shop.t").expect(1, &["1235", "SELECT … FROM"]);
    door.run("mysqladmin", "reader", &["ping"]).expect(0, &["alive"]);
    door.run("mysqladmin", "reader", &["status"]).expect(0, &["Uptime: ", "Threads: 1"]);
    let status = door.replica.status().unwrap();
    assert!(status["clients"]["questions"].as_u64().unwrap() > 10, "{status}");
    slipstream(&["status", "--data", door.replica.data()]).expect(0, &["Clients", "127.0.0.1:", "certificate until"]);
}

#[test]
fn certificates_are_read_again_while_it_runs() {
    let Some(server) = Server::or_skip("door", &[]) else { return };
    let mut door = follow(&server, "door-certificates", &[]);
    door.rows("reader", &[], "ALTER INSTANCE RELOAD TLS").expect(1, &["1227"]);
    door.rows("boss", &[], "ALTER INSTANCE RELOAD TLS").expect(0, &[]);
    door.replica.signal(rustix::process::Signal::HUP);
    let log = || door.replica.log().matches("SLIP-000096").count();
    whole_program_tests::wait_for("the second reading", || (log() >= 2).then_some(()), String::new);
    door.rows("boss", &["--ssl-mode=REQUIRED"], "SELECT 1").expect(0, &["1"]);
    assert!(door.replica.is_running());
}

/// Resident memory of a process in KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
#[ignore = "prints figures"]
fn memory_of_idle_sessions() {
    let Some(server) = Server::or_skip("door", &[]) else { return };
    let door = follow(&server, "door-memory", &["--max-connections=2000"]);
    let connect = |ssl_mode| {
        let options = ConnectOptions {
            host: "127.0.0.1".to_owned(),
            port: door.port.parse().unwrap(),
            user: "reader".to_owned(),
            password: Some("reader".to_owned()),
            ssl_mode,
            ..ConnectOptions::default()
        };
        let mut connection = Connection::connect(&options).unwrap();
        connection.query("SELECT 1").unwrap();
        connection
    };
    let warm = connect(SslMode::Required);
    for (name, ssl_mode) in [("without TLS", SslMode::Disabled), ("with TLS", SslMode::Required)] {
        let before = resident_kib(door.replica.pid());
        let sessions: Vec<Connection> = (0..1_000).map(|_| connect(ssl_mode)).collect();
        let grown = resident_kib(door.replica.pid()).saturating_sub(before);
        println!("{name}: {:.1} KiB resident a session", grown as f64 / sessions.len() as f64);
    }
    drop(warm);
}

#[test]
fn a_taken_port_ends_the_start_and_says_so() {
    if !servers() {
        return;
    }
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("--port={}", holder.local_addr().unwrap().port());
    let (data, source) = (folder("door-taken"), "mysql://repl@127.0.0.1:1");
    slipstream(&["replica", "--source", source, "--data", data.to_str().unwrap(), &port])
        .expect(1, &["cannot listen on 127.0.0.1:", "--skip-networking"]);
}

#[test]
fn the_port_is_open_before_the_source_answers() {
    if !servers() {
        return;
    }
    let data = folder("door-early");
    // A source that accepts and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let source = format!("mysql://repl@127.0.0.1:{}", silent.local_addr().unwrap().port());
    let replica = Replica::spawn(&source, &data, &[], |_| ());
    let open = || replica.log().contains("SLIP-000095").then_some(());
    whole_program_tests::wait_for("the open port", open, || replica.log());
}

/// `SHOW REPLICA STATUS\G` as names and values, in order.
fn fields(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| line.split_once(": ").or_else(|| line.split_once(':')));
    lines.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

/// Columns that differ between two replicas of one source in the same state: what each calls its own files, what it
/// received before it was asked, and what 9.7 keeps in tables of its own.
const OWN: &[&str] = &[
    "Source_User",
    "Connect_Retry",
    "Relay_Log_File",
    "Relay_Log_Pos",
    "Relay_Log_Space",
    "Source_Info_File",
    "Source_Retry_Count",
    "Retrieved_Gtid_Set",
    "Get_Source_public_key",
];

#[test]
fn replica_status_is_as_a_replica_of_mysqls_shows_it() {
    let Some(server) = Server::or_skip("door", &[]) else { return };
    server.sql(
        "CREATE USER other@'%' IDENTIFIED BY 'other'; GRANT REPLICATION SLAVE ON *.* TO other@'%';
         CREATE DATABASE shop; CREATE TABLE shop.t (a INT PRIMARY KEY); INSERT INTO shop.t VALUES (1)",
    );
    let mut door = follow(&server, "door-status", &["--on-stop=stay"]);
    let theirs = Server::start("door-beside", &["--skip-replica-start"]);
    theirs.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='other',
         SOURCE_PASSWORD='other', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1; START REPLICA",
        server.port()
    ));
    server.sql("INSERT INTO shop.t VALUES (2)");
    door.replica.catch_up(&server);
    let ask = "SHOW REPLICA STATUS";
    let real = || fields(&theirs.client(&["--vertical", "--column-names"], ask).unwrap());
    let is = |fields: &[(String, String)], name: &str, value: &str| fields.iter().any(|(n, v)| n == name && v == value);
    let executed = server.gtid_executed().to_string();
    let idle = "Replica has read all relay log; waiting for more updates";
    let there = || {
        let fields = real();
        // It notes its position every 300 ms only.
        let read = fields.iter().find(|(name, _)| name == "Read_Source_Log_Pos").map_or("", |(_, value)| value);
        let done = is(&fields, "Executed_Gtid_Set", &executed) && is(&fields, "Exec_Source_Log_Pos", read);
        (done && is(&fields, "Replica_SQL_Running_State", idle)).then_some(())
    };
    whole_program_tests::wait_for("MySQL's replica", there, || format!("{:#?}", real()));
    let mine = || fields(&door.rows("reader", &["--vertical", "--column-names"], ask).out);
    let (ours, reals) = (mine(), real());
    assert_eq!(ours.len(), 60, "{ours:#?}");
    for (ours, real) in ours.iter().zip(&reals) {
        assert_eq!(ours.0, real.0);
        assert!(ours.1 == real.1 || OWN.contains(&ours.0.as_str()), "{ours:?} {real:?}");
    }
    assert!(is(&ours, "Source_User", "repl") && !is(&ours, "Relay_Log_Pos", "0"), "{ours:#?}");

    slipstream(&["stop", "sql", "--data", door.replica.data()]).expect(0, &[]);
    theirs.sql("STOP REPLICA SQL_THREAD");
    for fields in [mine(), real()] {
        assert!(
            is(&fields, "Replica_SQL_Running", "No") && is(&fields, "Replica_SQL_Running_State", ""),
            "{fields:#?}"
        );
        assert!(is(&fields, "Seconds_Behind_Source", "NULL"), "{fields:#?}");
    }
    slipstream(&["start", "sql", "--data", door.replica.data()]).expect(0, &[]);

    // What stops receiving is told with MySQL's number.
    server.sql("ALTER USER repl IDENTIFIED BY 'changed'");
    let dumps =
        server.sql("SELECT id FROM information_schema.processlist WHERE user = 'repl' AND command LIKE 'Binlog%'");
    dumps.lines().for_each(|id| drop(server.try_sql(&format!("KILL {id}"))));
    let refused = || is(&mine(), "Last_IO_Errno", "1045").then_some(());
    whole_program_tests::wait_for("the refused login", refused, || format!("{:#?}", mine()));
    let ours = mine();
    assert!(ours.iter().any(|(name, value)| name == "Last_IO_Error" && value.contains("Access denied")), "{ours:#?}");
    assert!(ours.iter().any(|(name, value)| name == "Last_IO_Error_Timestamp" && value.len() == 15), "{ours:#?}");
    assert!(!is(&ours, "Replica_IO_Running", "Yes"), "{ours:#?}");

    let old = door.rows("reader", &["--vertical", "--column-names"], "SHOW SLAVE STATUS").out;
    assert!(old.contains("Slave_IO_Running") && old.contains("Master_Host: 127.0.0.1"), "{old}");
}
