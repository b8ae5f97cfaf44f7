//! An application that was pointed at a replica: its statements go to the source, and its password there stays here.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use client::{ConnectOptions, Connection};
use rustix::process::{Pid, Signal};
use testkit::{Ran, run_with_input};
use whole_program_tests::{Replica, Server, binary, folder, repository, signal, slipstream, wait_for};

/// The password at the source, which no other file may have.
pub(crate) const THERE: &str = "a password at the source";
/// The password of accounts here.
pub(crate) const PASSWORD: &str = "a password here";

/// `slipstream account` with a password on standard input.
pub(crate) fn account(data: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(binary());
    command.arg("account").args(arguments).args(["--data", data.to_str().unwrap(), "--no-defaults"]);
    run_with_input(&mut command, "a password here\n")
}

pub(crate) fn app(socket: &Path) -> ConnectOptions {
    ConnectOptions {
        socket: Some(socket.to_owned()),
        user: "app".to_owned(),
        password: Some("a password here".to_owned()),
        multi_statements: true,
        ..ConnectOptions::default()
    }
}

/// Has the user `shop` at the source, and the account `app` here, forward.
fn add_app(server: &Server, data: &Path) {
    server.sql(&format!("CREATE USER shop IDENTIFIED BY '{THERE}'; GRANT ALL ON shop.* TO shop"));
    add_account(data, "app", "forward");
}

/// Has an account here be the user `shop` at the source.
pub(crate) fn add_account(data: &Path, name: &str, may: &str) {
    add_account_as(data, name, "shop", may);
}

/// As [`add_account`], for another user at the source.
pub(crate) fn add_account_as(data: &Path, name: &str, user: &str, may: &str) {
    let file = data.with_extension("login");
    std::fs::write(&file, format!("{THERE}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let path = file.to_str().unwrap();
    let add = ["add", name, "--may", may, "--source-login", user, "--source-password-file", path];
    account(data, &add).expect(0, &[]);
}

fn holds(file: &Path, text: &str) -> bool {
    std::fs::read(file).unwrap().windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn an_application_is_answered_by_the_source() {
    let server = Server::start_unsynced("forward", &[]);
    server.sql(&format!("CREATE USER shop IDENTIFIED BY '{THERE}'; GRANT ALL ON shop.* TO shop"));
    let data = folder("forward");
    let (mut replica, socket) = Replica::with_socket(&server, &data, &["--forward=all", "--forward-connections=5"]);
    let file = data.with_extension("login");
    std::fs::write(&file, format!("{THERE}\n")).unwrap();
    let path = file.to_str().unwrap();
    let add = ["add", "app", "--may", "forward", "--source-login", "shop", "--source-password-file", path];
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    account(&data, &add).expect(2, &["others than its owner may use it (mode 640)", "chmod 600"]);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let native = ["add", "app", "--may", "forward", "--plugin", "mysql_native_password"];
    account(&data, &native).expect(2, &["needs a login at the source", "--source-login"]);
    account(&data, &add).expect(0, &["account app@% is added; it may forward"]);

    let mut session = Connection::connect(&app(&socket)).unwrap();
    assert_eq!(session.server_version(), server.sql("SELECT VERSION()").trim());
    session.exec("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, a INT)").unwrap();
    session.exec("BEGIN; INSERT INTO shop.orders (a) VALUES (7); COMMIT").unwrap();
    let value = |session: &mut Connection, sql: &str| session.query_value(sql).unwrap().unwrap();
    assert_eq!(value(&mut session, "SELECT SUM(a) FROM shop.orders JOIN (SELECT 1) AS one"), "7");
    assert_eq!(value(&mut session, "SELECT @@server_uuid"), server.sql("SELECT @@server_uuid").trim());
    assert_eq!(value(&mut session, "SELECT CURRENT_USER()"), "shop@%");
    assert_eq!(session.exec("SELECT 1 FROM mysql.user").unwrap_err().server_code(), Some(1142), "its grants there");
    replica.catch_up(&server);

    // Another password there: sessions end, the next ones have it.
    server.sql("ALTER USER shop IDENTIFIED BY 'the next one'");
    std::fs::write(&file, "the next one\n").unwrap();
    let change = ["change", "app", "--may", "forward", "--source-login", "shop", "--source-password-file", path];
    account(&data, &change).expect(0, &["may forward now"]);
    let ended = (0..1_000_000).find(|_| session.exec("DO 0").is_err());
    assert!(ended.is_some());
    let mut session = Connection::connect(&app(&socket)).unwrap();
    assert_eq!(value(&mut session, "SELECT a FROM shop.orders"), "7");

    let backup = data.with_extension("tar");
    let text = data.to_str().unwrap();
    slipstream(&["backup", "--accounts", "--to", backup.to_str().unwrap(), "--data", text]).expect(0, &[]);
    assert!(!holds(&backup, "the next one") && !holds(&backup, "source-logins") && holds(&backup, "app"));
    let status = slipstream(&["status", "--json", "--data", text]);
    assert!(!status.out.contains("the next one"));
    let mode = data.join("source-logins").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let log = replica.log();
    assert!(!log.contains(THERE) && !log.contains("the next one"), "{log}");
    replica.stop();
}

#[test]
fn a_frozen_source_holds_up_only_what_is_forwarded() {
    let server = Server::start_unsynced("forward-frozen", &[]);
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a INT PRIMARY KEY); INSERT INTO shop.t VALUES (7)");
    let data = folder("forward-frozen");
    let (mut replica, socket) = Replica::with_socket(&server, &data, &["--forward=all"]);
    add_app(&server, &data);
    account(&data, &["add", "reader", "--may", "read"]).expect(0, &[]);
    replica.catch_up(&server);
    let mut session = Connection::connect(&app(&socket)).unwrap();
    session.exec("SET @a = 5").unwrap();
    let mut reader = Connection::connect(&ConnectOptions { user: "reader".to_owned(), ..app(&socket) }).unwrap();
    let pid = std::fs::read_to_string(server.sql("SELECT @@pid_file").trim()).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    signal(pid, Signal::STOP);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| session.query_value("SELECT @a"));
        let refused = scope.spawn(|| Connection::connect(&app(&socket)).unwrap().exec("DO 0").unwrap_err());
        assert_eq!(reader.query_value("SELECT a FROM shop.t").unwrap().as_deref(), Some("7"));
        let refused = refused.join().unwrap();
        assert_eq!(refused.server_code(), Some(1429), "{refused}");
        assert!(refused.to_string().contains("Unable to connect to the source"), "{refused}");
        signal(pid, Signal::CONT);
        assert_eq!(waits.join().unwrap().unwrap().as_deref(), Some("5"));
    });
    replica.stop();
}

#[test]
fn a_dump_through_the_port_is_that_of_the_source() {
    let server = Server::start_unsynced("forward-dump", &[]);
    server.sql(
        "CREATE DATABASE shop; USE shop;
         CREATE TABLE t (id INT PRIMARY KEY, a LONGBLOB, b DECIMAL(20,5), c DATETIME(6), d JSON, e BIT(9));
         INSERT INTO t VALUES (1, REPEAT(x'00ff', 100000), 1.5, '2026-01-02 03:04:05.678', '{\"a\": [1]}', b'101');
         INSERT INTO t SELECT id + 1, a, NULL, NULL, NULL, NULL FROM t;
         CREATE VIEW v AS SELECT id FROM t; CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.b = 1;
         CREATE PROCEDURE p() SELECT 1; CREATE EVENT e ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1;",
    );
    let data = folder("forward-dump");
    let (replica, socket) = Replica::with_socket(&server, &data, &["--forward=all"]);
    add_app(&server, &data);
    server.sql("GRANT ALL ON *.* TO shop");
    let dump = |socket: &Path, user: &str, password: &str| {
        let mut command = Command::new(repository().join("testbed/mysql"));
        command.args(["run", "mysqldump", "--no-defaults", "--skip-dump-date", "--hex-blob", "--routines", "--events"]);
        command.args(["--single-transaction", "--set-gtid-purged=OFF", "--databases", "shop"]);
        command.args(["-u", user, &format!("-p{password}"), "-S", socket.to_str().unwrap()]);
        let ran = Ran::from(command.output().unwrap());
        ran.expect(0, &[]);
        ran.out
    };
    let direct = dump(&server.socket(), "shop", THERE);
    assert!(direct.len() > 400_000 && direct.contains("CREATE DEFINER"), "{}", direct.len());
    // The first line names the host, which is the same.
    assert_eq!(dump(&socket, "app", "a password here"), direct);
    replica.stop();
}

#[test]
fn killed_beside_its_pool_it_leaves_nothing_at_the_source() {
    let server = Server::start_unsynced("forward-killed", &[]);
    server
        .sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, a INT); INSERT INTO shop.t VALUES (1, 7)");
    let data = folder("forward-killed");
    let (replica, socket) = Replica::with_socket(&server, &data, &["--forward=all"]);
    add_app(&server, &data);
    let connected = || Connection::connect(&app(&socket)).unwrap();
    // One for the pool, one with a transaction, one that runs.
    let mut given_back = connected();
    given_back.exec("INSERT INTO shop.t VALUES (2, 20)").unwrap();
    given_back.close();
    let mut open = connected();
    open.exec("BEGIN").unwrap();
    open.exec("UPDATE shop.t SET a = 8 WHERE id = 1").unwrap();
    let mut runs = connected();
    let count = |what: &str| {
        let of = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'shop'";
        server.sql(&format!("{of}{what}")).trim().parse::<u32>().unwrap()
    };
    std::thread::scope(|scope| {
        let locked = scope.spawn(move || runs.exec("UPDATE shop.t SET a = 9 WHERE id = 1"));
        let waits = || (count(" AND info LIKE 'UPDATE%'") == 1).then_some(());
        wait_for("a statement that waits for the lock", waits, || server.sql("SHOW FULL PROCESSLIST"));
        replica.kill();
        assert!(locked.join().unwrap().is_err());
    });
    assert!(open.exec("COMMIT").is_err());
    wait_for("nobody", || (count("") == 0).then_some(()), || server.sql("SHOW FULL PROCESSLIST"));
    // The source runs to its end what it has received, and undoes what was not committed.
    let row = server.sql("SELECT a FROM shop.t WHERE id = 1");
    assert!(matches!(row.trim(), "7" | "9"), "{row}");
    let (replica, socket) = Replica::with_socket(&server, &data, &["--forward=all"]);
    let mut again = Connection::connect(&app(&socket)).unwrap();
    again.exec("UPDATE shop.t SET a = a + 100 WHERE id = 1").unwrap();
    let sum = again.query_value("SELECT SUM(a) FROM shop.t").unwrap().unwrap();
    assert_eq!(sum, (row.trim().parse::<u32>().unwrap() + 120).to_string());
    replica.stop();
}

/// Of the deadline for a client's packets, which was that of the source's work on them.
#[test]
fn a_file_takes_the_source_longer_than_a_client_has_for_a_packet() {
    let server = Server::start_unsynced("forward-slow-file", &[]);
    server.sql("SET GLOBAL local_infile = ON; CREATE DATABASE shop; CREATE TABLE shop.t (a LONGTEXT, b INT)");
    let data = folder("forward-slow-file");
    let socket = data.with_extension("sock");
    let at = format!("--socket={}", socket.display());
    let mut replica = Replica::spawn(&server.url("repl"), &data, &[&at, "--forward=all"], |command| {
        command.env("SLIPSTREAM_FAILPOINT", "packet_within_ms=1500");
    });
    replica.wait_until("an answer", |status| status["replay"]["state"] == "caught_up");
    add_app(&server, &data);
    // Each row is more than sockets hold, and the source works on it for longer than that, on the last one too.
    let file = data.with_extension("rows");
    std::fs::write(&file, format!("{}\n", "x".repeat(8 << 20)).repeat(3)).unwrap();
    let mut command = Command::new(repository().join("testbed/mysql"));
    command.args(["run", "mysql", "--no-defaults", "-NB", "--local-infile=1", "-u", "app", "-pa password here"]);
    command.args(["-S", socket.to_str().unwrap()]);
    let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE shop.t (a) SET b = SLEEP(2.5);", file.display());
    let ran = run_with_input(&mut command, format!("{load} SELECT COUNT(*), SUM(LENGTH(a)), SUM(b) FROM shop.t"));
    ran.expect(0, &[]);
    assert_eq!(ran.out, "3\t25165824\t0\n");
    replica.stop();
}

#[test]
fn a_compressed_client_sends_a_file() {
    let server = Server::start_unsynced("forward-file", &[]);
    server.sql("SET GLOBAL local_infile = ON; CREATE DATABASE shop; CREATE TABLE shop.t (a TEXT, b INT)");
    let data = folder("forward-file");
    let (replica, socket) = Replica::with_socket(&server, &data, &["--forward=all"]);
    add_app(&server, &data);
    let file = data.with_extension("rows");
    let rows: String = (0..50_000).map(|number| format!("{}\t{number}\n", "x".repeat(number % 90))).collect();
    std::fs::write(&file, &rows).unwrap();
    for algorithm in ["zlib", "zstd", "uncompressed"] {
        let mut command = Command::new(repository().join("testbed/mysql"));
        command.args(["run", "mysql", "--no-defaults", "-NB", "--local-infile=1"]);
        command.args(["-u", "app", "-pa password here", "-S", socket.to_str().unwrap()]);
        command.arg(format!("--compression-algorithms={algorithm}"));
        let load = format!("TRUNCATE shop.t; LOAD DATA LOCAL INFILE '{}' INTO TABLE shop.t;", file.display());
        let sum = "SELECT COUNT(*), SUM(b), SUM(LENGTH(a)) FROM shop.t; SELECT a, b FROM shop.t ORDER BY b";
        let ran = run_with_input(&mut command, format!("{load} {sum}"));
        ran.expect(0, &[]);
        let (sums, listed) = ran.out.split_once('\n').unwrap();
        let letters: usize = (0..50_000).map(|number| number % 90).sum();
        assert_eq!(sums, format!("50000\t1249975000\t{letters}"), "{algorithm}");
        assert!(listed == rows, "{algorithm}");
    }
    replica.stop();
}
