//! MySQL's own clients at a running replica.

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

/// `reader` (read, monitor), `boss` (admin too) and `shopper` (read, schema Shop only); the password is the name.
fn add_accounts(data: &Path) {
    let accounts = Accounts::open(&data.join("accounts")).unwrap();
    for (name, rights, schema) in [
        ("reader", "read,monitor", None),
        ("boss", "read,monitor,replicate,admin", None),
        ("shopper", "read", Some("Shop")),
    ] {
        let new = NewAccount {
            name: AccountName::new(name, "%").unwrap(),
            rights: rights.parse().unwrap(),
            schemas: schema.map(|schema| vec![schema.to_owned()]),
            requirement: Requirement::None,
            reads: Default::default(),
            max_connections: None,
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
    let (mut replica, socket) = Replica::with_socket(server, &data, options);
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
    door.rows("reader", &[], "SELECT * FROM shop.t JOIN shop.t u").expect(1, &["1235", "SELECT … FROM … JOIN"]);
    door.run("mysqladmin", "reader", &["ping"]).expect(0, &["alive"]);
    door.run("mysqladmin", "reader", &["status"]).expect(0, &["Uptime: ", "Threads: 1"]);
    door.run("mysqladmin", "reader", &["processlist"]).expect(0, &["| reader", "show processlist"]);
    door.run("mysqladmin", "reader", &["kill", "999999"]).expect(1, &["Unknown thread id"]);
    let head = |text: &str| text.lines().next().map(str::to_owned);
    let list = |sql: &str| head(&door.rows("reader", &["--column-names"], sql).out);
    assert_eq!(list("SHOW PROCESSLIST"), head(&server.client(&["--column-names"], "SHOW PROCESSLIST").unwrap()));
    // How fresh an account's reads are: its sessions begin so.
    let fresh = ["--read-consistency=bounded", "--read-staleness=250", "--data", door.replica.data()];
    slipstream(&[&["account", "change", "shopper", "--may=read", "--schemas=Shop"][..], &fresh].concat())
        .expect(0, &[]);
    slipstream(&["account", "list", "--data", door.replica.data()]).expect(0, &["bounded (250 ms)"]);
    let ask = "SELECT @@slipstream_read_consistency, @@slipstream_read_staleness";
    let level = |level: &str| format!("SET slipstream_read_consistency = {level}; {ask}");
    let asked = format!("{ask}; {}; {}", level("GLOBAL"), level("DEFAULT"));
    assert_eq!(door.rows("shopper", &[], &asked).out, "BOUNDED\t250\nGLOBAL\t250\nBOUNDED\t250\n");
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
    let Some(server) = Server::or_skip("door", &["--max-connections=2000"]) else { return };
    let door = follow(&server, "door-memory", &["--max-connections=2000"]);
    let mysql = std::fs::read_to_string(server.sql("SELECT @@pid_file").trim()).unwrap().trim().parse().unwrap();
    let here = ("here", door.replica.pid(), door.port.parse().unwrap(), "reader");
    for (whose, pid, port, user) in [here, ("MySQL", mysql, server.port(), "repl")] {
        let connect = |ssl_mode| {
            let options = ConnectOptions {
                host: "127.0.0.1".to_owned(),
                port,
                user: user.to_owned(),
                password: Some(user.to_owned()),
                ssl_mode,
                ..ConnectOptions::default()
            };
            let mut connection = Connection::connect(&options).unwrap();
            connection.query("SELECT 1").unwrap();
            connection
        };
        let warm = connect(SslMode::Required);
        for (name, ssl_mode) in [("without TLS", SslMode::Disabled), ("with TLS", SslMode::Required)] {
            let before = resident_kib(pid);
            let sessions: Vec<Connection> = (0..1_000).map(|_| connect(ssl_mode)).collect();
            let grown = resident_kib(pid).saturating_sub(before);
            println!("{whose}, {name}: {:.1} KiB resident a session", grown as f64 / sessions.len() as f64);
        }
        drop(warm);
    }
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

/// Beginnings of the names of columns of `performance_schema` that differ: other accounts and options, what is not
/// known here.
const OWN_IN_TABLES: &[&str] = &[
    "USER",
    "CONNECTION_RETRY",
    "HEARTBEAT",
    "GTID_ONLY",
    "GET_PUBLIC_KEY",
    "ZSTD_",
    "COUNT_RECEIVED",
    "LAST_HEARTBEAT",
    "LAST_QUEUED",
    "RECEIVED_TRANSACTION_SET",
];

/// A replica of MySQL's, with an account of its own at the source.
fn replica_of_mysql(source: &Server) -> Server {
    source.sql("CREATE USER other@'%' IDENTIFIED BY 'other'; GRANT REPLICATION SLAVE ON *.* TO other@'%'");
    let replica = Server::start("door-beside", &["--skip-replica-start"]);
    replica.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='other',
         SOURCE_PASSWORD='other', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1; START REPLICA",
        source.port()
    ));
    replica
}

#[test]
fn replica_status_is_as_a_replica_of_mysqls_shows_it() {
    let Some(server) = Server::or_skip("door", &[]) else { return };
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a INT PRIMARY KEY); INSERT INTO shop.t VALUES (1)");
    let mut door = follow(&server, "door-status", &["--on-stop=stay"]);
    let theirs = replica_of_mysql(&server);
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
    // The same in tables.
    for table in ["connection_configuration", "connection_status", "applier_configuration", "applier_status"] {
        let ask = format!("SELECT * FROM performance_schema.replication_{table}");
        let ours = fields(&door.rows("reader", &["--vertical", "--column-names"], &ask).out);
        let reals = fields(&theirs.client(&["--vertical", "--column-names"], &ask).unwrap());
        assert_eq!(ours.len(), reals.len(), "{ours:#?}");
        for (ours, real) in ours.iter().zip(&reals) {
            assert_eq!(ours.0, real.0);
            let is_own = OWN_IN_TABLES.iter().any(|own| ours.0.starts_with(own));
            assert!(ours.1 == real.1 || is_own, "{table}: {ours:?} {real:?}");
        }
    }
    let threads =
        "SELECT USER, COMMAND, STATE FROM information_schema.PROCESSLIST WHERE USER = 'system user' ORDER BY ID";
    let lines = door.rows("reader", &[], threads).out;
    let waiting = "system user\tConnect\tWaiting for source to send event";
    assert_eq!(lines, format!("{waiting}\nsystem user\tQuery\t{idle}\n"));
    let threads =
        "SELECT NAME, PROCESSLIST_STATE FROM performance_schema.threads WHERE NAME LIKE 'thread/sql/replica%'";
    assert_eq!(door.rows("reader", &[], threads).out.lines().count(), 2);

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
    server.end_dumps();
    let refused = || is(&mine(), "Last_IO_Errno", "1045").then_some(());
    whole_program_tests::wait_for("the refused login", refused, || format!("{:#?}", mine()));
    let ours = mine();
    assert!(ours.iter().any(|(name, value)| name == "Last_IO_Error" && value.contains("Access denied")), "{ours:#?}");
    assert!(ours.iter().any(|(name, value)| name == "Last_IO_Error_Timestamp" && value.len() == 15), "{ours:#?}");
    assert!(!is(&ours, "Replica_IO_Running", "Yes"), "{ours:#?}");

    let old = door.rows("reader", &["--vertical", "--column-names"], "SHOW SLAVE STATUS").out;
    assert!(old.contains("Slave_IO_Running") && old.contains("Master_Host: 127.0.0.1"), "{old}");
}

#[test]
fn names_are_shown_as_the_source_shows_them() {
    let Some(server) = Server::or_skip("door", &[]) else { return };
    server.sql(
        "CREATE DATABASE Shop; CREATE DATABASE shop_b; CREATE DATABASE `e_ü`; USE shop_b; CREATE TABLE Bar (a INT);
         CREATE TABLE bar (a INT); CREATE TABLE `a%b` (a INT); CREATE VIEW vv AS SELECT 1; CREATE TABLE `Ärger` (a INT);
         CREATE TABLE foo_1 (a INT); CREATE TABLE `_x` (a INT); CREATE TABLE gone (a INT)",
    );
    let mut door = follow(&server, "door-names", &[]);
    // What is made, renamed and dropped later counts too.
    server.sql("USE shop_b; DROP TABLE gone; RENAME TABLE vv TO ww; CREATE TABLE Shop.late (a INT); CREATE DATABASE z");
    door.replica.catch_up(&server);
    let ours = |sql: &str| door.rows("reader", &["--table", "--column-names", "--database=shop_b"], sql);
    for sql in [
        "SHOW DATABASES",
        "SHOW SCHEMAS LIKE 'SH%'",
        "SHOW DATABASES LIKE 'shop\\_%'",
        "SHOW DATABASES LIKE '%\\_schema'",
        "SHOW TABLES",
        "SHOW FULL TABLES",
        "SHOW EXTENDED TABLES",
        "SHOW TABLES LIKE 'BA%'",
        "SHOW TABLES LIKE 'ä%'",
        "SHOW TABLES LIKE 'a\\%b'",
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES'; SHOW TABLES LIKE 'a\\%b'",
        "SET NAMES latin1; SHOW TABLES LIKE 'Bar'",
        "SHOW FULL TABLES FROM shop_b LIKE '%w%'",
        "SHOW TABLES IN Shop",
        "SHOW TABLES FROM `e_ü`",
        "SHOW TABLES FROM none",
    ] {
        match server.client(&["--table", "--column-names", "--database=shop_b"], sql) {
            Ok(text) => {
                // Of MySQL's own schemas this one is not here.
                let is_here = |line: &&str| !line.starts_with("| sys  ");
                let theirs: Vec<&str> = text.lines().filter(is_here).collect();
                assert_eq!(ours(sql).expect(0, &[]).out.lines().collect::<Vec<_>>(), theirs, "{sql}");
            }
            Err(error) => {
                let text = error.to_string();
                let from = text.find("ERROR").unwrap();
                assert!(ours(sql).err.contains(text[from..].trim_end()), "{sql}: {text}");
            }
        }
    }
    // Who may not read a schema does not see its name.
    let theirs = |sql: &str| door.rows("shopper", &[], sql);
    theirs("SHOW DATABASES").expect(0, &["Shop", "information_schema"]);
    assert!(!theirs("SHOW DATABASES").out.contains("shop_b"));
    theirs("SHOW TABLES FROM shop_b").expect(1, &["1044"]);
    theirs("SHOW TABLES FROM Shop").expect(0, &["late"]);
    theirs("SHOW TABLES").expect(1, &["1046"]);
}

/// Each order to both, in turn: the same answer, the same note, the same state after it.
#[test]
fn replication_is_stopped_and_started_as_at_a_replica_of_mysqls() {
    let Some(server) = Server::or_skip("door", &[]) else { return };
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a INT PRIMARY KEY)");
    let mut door = follow(&server, "door-orders", &["--on-stop=stay"]);
    let theirs = replica_of_mysql(&server);
    let states = |text: &str| -> Vec<String> {
        let wanted = ["Replica_IO_Running", "Replica_SQL_Running"];
        let of = |name: &str| fields(text).into_iter().find(|(n, _)| n == name).map(|(_, value)| value);
        wanted.into_iter().filter_map(of).collect()
    };
    let ask = "SHOW REPLICA STATUS";
    for order in [
        "START REPLICA",
        "STOP REPLICA SQL_THREAD",
        "STOP REPLICA SQL_THREAD",
        "STOP REPLICA IO_THREAD, SQL_THREAD",
        "STOP REPLICA",
        "START REPLICA IO_THREAD FOR CHANNEL ''",
        "START REPLICA",
        "START REPLICA SQL_THREAD",
        "STOP REPLICA FOR CHANNEL 'none'",
        "BEGIN; STOP REPLICA IO_THREAD",
        "START REPLICA RELAY_THREAD",
        "STOP REPLICA",
    ] {
        let sql = format!("{order}; SHOW WARNINGS");
        let ours = door.rows("boss", &["--vertical"], &sql);
        let real = theirs.client(&["--vertical"], &sql);
        match real {
            Ok(rows) => assert_eq!((ours.code, ours.out), (0, rows), "{order}"),
            Err(error) => {
                let text = error.to_string();
                let from = text.find("ERROR").unwrap();
                assert!(ours.code == 1 && ours.err.contains(text[from..].trim_end()), "{order}: {ours:?} {text}");
            }
        }
        let is_settled = || {
            let ours = states(&door.rows("reader", &["--vertical", "--column-names"], ask).out);
            let real = states(&theirs.client(&["--vertical", "--column-names"], ask).unwrap());
            (ours == real && ours.len() == 2 && !ours.contains(&"Connecting".to_owned())).then_some(())
        };
        whole_program_tests::wait_for("the same threads", is_settled, || order.to_owned());
    }
    // What came meanwhile is not here until replay goes on.
    server.sql("INSERT INTO shop.t VALUES (7)");
    assert_eq!(door.rows("reader", &[], "SELECT a FROM shop.t").out, "");
    door.rows("reader", &[], "START REPLICA").expect(1, &["1227", "SUPER or REPLICATION_SLAVE_ADMIN"]);
    door.rows("boss", &[], "START REPLICA UNTIL SQL_AFTER_MTS_GAPS").expect(1, &["1235", "START REPLICA UNTIL"]);
    door.rows("boss", &[], "START REPLICA").expect(0, &[]);
    door.replica.catch_up(&server);
    assert_eq!(door.rows("reader", &[], "SELECT a FROM shop.t").out.trim(), "7");
    door.replica.waits_for_log(&["boss@% asked to start receiving and replay"]);
}

impl Door {
    /// A connection of `reader`, with TLS at first.
    fn connect(&self) -> Result<Connection, client::ClientError> {
        let port = self.port.parse().unwrap();
        let (user, password) = ("reader".to_owned(), Some("reader".to_owned()));
        Connection::connect(&ConnectOptions { port, user, password, ..ConnectOptions::default() })
    }
}

fn ask(connection: &mut Connection, sql: &str) -> Result<Option<String>, client::ClientError> {
    Ok(connection.query(sql)?.first_text())
}

#[test]
fn clients_wait_for_what_becomes_visible() {
    let Some(server) = Server::or_skip("door", &[]) else { return };
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a INT PRIMARY KEY)");
    let mut door = follow(&server, "door-waits", &["--on-stop=stay"]);
    let mut reader = door.connect().unwrap();
    let mut wait = |set: &str, seconds: &str| {
        ask(&mut reader, &format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', {seconds})")).unwrap()
    };
    // Each write is there once its set is waited for, and not before the set says so.
    for number in 0..whole_program_tests::length(50, 2000) {
        server.sql(&format!("INSERT INTO shop.t VALUES ({number})"));
        assert_eq!(wait(&server.gtid_executed().to_string(), "60").as_deref(), Some("0"));
    }
    let executed = server.gtid_executed();
    let uuid = server.sql("SELECT @@server_uuid");
    let next = format!("{}:1-{}", uuid.trim(), executed.count() + 1);
    assert_eq!(wait(&next, "0.2").as_deref(), Some("1"));
    let visible = ask(&mut reader, "SELECT @@GLOBAL.gtid_executed").unwrap().unwrap();
    assert_eq!(visible.replace('\n', ""), executed.to_string());

    // One that waits already is woken by the commit, by an empty transaction too.
    let waits = |sql: String| {
        let mut waiter = door.connect().unwrap();
        std::thread::spawn(move || ask(&mut waiter, &sql))
    };
    let waiter = waits(format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{next}')"));
    std::thread::sleep(std::time::Duration::from_millis(200));
    server.sql(&format!("SET gtid_next = '{}:{}'; BEGIN; COMMIT", uuid.trim(), executed.count() + 1));
    assert_eq!(waiter.join().unwrap().unwrap().as_deref(), Some("0"));

    // Positions in the source's log.
    let at = |sql: &str| server.sql(sql).split('\t').map(str::to_owned).collect::<Vec<_>>();
    let place = at("SHOW BINARY LOG STATUS");
    let sql = format!("SELECT SOURCE_POS_WAIT('{}', {}, 60)", place[0], place[1]);
    assert!(ask(&mut reader, &sql).unwrap().unwrap().parse::<u64>().is_ok());
    let later = place[1].parse::<u64>().unwrap() + 1;
    let waiter = waits(format!("SELECT SOURCE_POS_WAIT('{}', {later}, 60)", place[0]));
    std::thread::sleep(std::time::Duration::from_millis(200));
    server.sql("INSERT INTO shop.t VALUES (1000)");
    // The number of moves that it waited for: of the receiver, and of replay.
    let moves: u64 = waiter.join().unwrap().unwrap().unwrap().parse().unwrap();
    assert!((1..=4).contains(&moves), "{moves}");
    let none = ask(&mut reader, "SELECT SOURCE_POS_WAIT('other.000001', 4, 1)").unwrap();
    assert_eq!(none, None);

    // What waits at a stop ends with 1053.
    let waiter = waits(format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{}:1-99999')", uuid.trim()));
    std::thread::sleep(std::time::Duration::from_millis(200));
    door.replica.catch_up(&server);
    door.replica.stop();
    let error = waiter.join().unwrap().unwrap_err();
    assert!(error.server_code() == Some(1053), "{error}");
}

/// A reader that remembers the set it saw never sees less, whatever kills the replica.
#[test]
fn nothing_shown_is_taken_back_by_a_kill() {
    let Some(server) = Server::or_skip("door", &[]) else { return };
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(200))");
    let options = ["--on-stop=stay", "--cut-interval=200ms", "--relay-sync=never"];
    let mut door = follow(&server, "door-kills", &options);
    let mut seen = base::GtidSet::new();
    let (mut answers, mut refusals) = (0, 0);
    for life in 0..whole_program_tests::length(4, 40) {
        let until = std::time::Instant::now() + std::time::Duration::from_millis(700);
        let mut connection = None;
        while std::time::Instant::now() < until || answers <= life {
            server.sql("INSERT INTO shop.t (v) SELECT REPEAT('x', 200) UNION ALL SELECT 'y'");
            let reader = match &mut connection {
                Some(reader) => reader,
                None => connection.insert(door.connect().unwrap()),
            };
            match ask(reader, "SELECT @@GLOBAL.gtid_executed") {
                Ok(text) => {
                    let now: base::GtidSet = text.unwrap().replace('\n', "").parse().unwrap();
                    assert!(seen.is_subset_of(&now), "life {life}: {seen} was shown, now {now}");
                    seen = now;
                    answers += 1;
                }
                Err(error) => {
                    assert_eq!(error.server_code(), Some(1105), "{error}");
                    assert!(error.to_string().contains("missing") || error.to_string().contains("starting"), "{error}");
                    refusals += 1;
                }
            }
        }
        let (data, port) = (PathBuf::from(door.replica.data()), format!("--port={}", door.port));
        door.replica.kill();
        let mut replica = Replica::follow(&server, &data, &[&[port.as_str()], options.as_slice()].concat());
        replica.wait_until("an answer", |_| true);
        door.replica = replica;
    }
    eprintln!("{answers} answers, {refusals} refusals while it recovered");
    door.replica.catch_up(&server);
    door.replica.stop();
}

/// Every table and every SHOW, asked by an account with one schema, while another's objects are there and in use.
#[test]
fn an_account_sees_no_byte_of_another_schema() {
    let Some(server) = Server::or_skip("door-hidden", &["--lower-case-table-names=0"]) else { return };
    server.sql(
        "CREATE DATABASE Shop; CREATE TABLE Shop.t (id INT PRIMARY KEY);
         CREATE DATABASE secret_db COLLATE utf8mb4_bin;
         CREATE TABLE secret_db.secret_parent (secret_id INT PRIMARY KEY);
         CREATE TABLE secret_db.secret_table (secret_id INT PRIMARY KEY COMMENT 'secret', n INT DEFAULT 7,
           UNIQUE secret_key (n), CONSTRAINT secret_fk FOREIGN KEY (secret_id) REFERENCES secret_parent (secret_id));
         CREATE TABLE Shop.child (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES Shop.t (id));
         CREATE VIEW secret_db.secret_view AS SELECT 1; CREATE USER secret_user;
         CREATE PROCEDURE secret_db.secret_procedure() SELECT 1",
    );
    let door = follow(&server, "door-hidden", &[]);
    door.rows("boss", &[], "SELECT * FROM secret_db.secret_table").expect(0, &[]);
    let names = |schema: &str| {
        let out = door.rows("shopper", &[], &format!("SHOW TABLES FROM {schema}")).out;
        out.lines().map(|table| format!("SELECT * FROM {schema}.{table}")).collect::<Vec<_>>()
    };
    let mut asked = [names("information_schema"), names("performance_schema")].concat();
    assert!(asked.len() > 140, "{}", asked.len());
    for sql in [
        "SHOW DATABASES",
        "SHOW TABLES FROM Shop",
        "SHOW FULL TABLES FROM Shop",
        "SHOW TABLE STATUS FROM Shop",
        "SHOW FULL COLUMNS FROM Shop.t",
        "SHOW INDEX FROM Shop.child",
        "SHOW VARIABLES",
        "SHOW GLOBAL VARIABLES",
        "SHOW STATUS",
        "SHOW GLOBAL STATUS",
        "SHOW FULL PROCESSLIST",
        "SHOW GRANTS",
        "SHOW TRIGGERS FROM Shop",
        "SHOW EVENTS FROM Shop",
        "SHOW FUNCTION STATUS",
        "SHOW PROCEDURE STATUS",
        "SHOW REPLICA STATUS",
        "SHOW REPLICAS",
        "SHOW BINARY LOG STATUS",
        "SHOW WARNINGS",
    ] {
        asked.push(sql.to_owned());
    }
    // A session of another account in that schema, with a statement that takes its time.
    let text = std::thread::scope(|scope| {
        let busy = scope.spawn(|| door.rows("boss", &["--database=secret_db"], "SELECT 'secret', SLEEP(600)"));
        let sleeper = || {
            let sql = "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep'";
            door.rows("boss", &[], sql).out.lines().next().map(str::to_owned)
        };
        let id = whole_program_tests::wait_for("the other's statement", sleeper, String::new);
        let answer = |sql: &String| door.rows("shopper", &[], sql);
        let text: String = asked.iter().map(answer).map(|ran| ran.out + &ran.err).collect();
        door.rows("boss", &[], &format!("KILL {id}")).expect(0, &[]);
        drop(busy.join().unwrap());
        text.to_lowercase()
    });
    assert!(text.contains("child") && text.contains("autocommit"), "{text}");
    let leaks: Vec<&str> = text.lines().filter(|line| line.contains("secret")).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
    // Names that are there and names that are not end alike.
    for (there, not_there) in [
        ("SHOW TABLES FROM secret_db", "SHOW TABLES FROM absent_db"),
        ("SHOW COLUMNS FROM secret_db.secret_table", "SHOW COLUMNS FROM absent_db.absent_table"),
        ("SHOW INDEX FROM secret_db.secret_table", "SHOW INDEX FROM absent_db.absent_table"),
        ("SHOW TABLE STATUS FROM secret_db", "SHOW TABLE STATUS FROM absent_db"),
        ("SHOW TRIGGERS FROM secret_db", "SHOW TRIGGERS FROM absent_db"),
        ("SELECT * FROM secret_db.secret_table", "SELECT * FROM absent_db.absent_table"),
        ("SELECT * FROM secret_db.absent_table", "SELECT * FROM absent_db.absent_table"),
    ] {
        let [one, other] = [there, not_there].map(|sql| door.rows("shopper", &[], sql).err);
        let even = |text: &str| text.replace("secret", "absent");
        assert_eq!(even(&one), even(&other), "{there}");
    }
}
