//! Statements that the source answers: packet by packet as without us, and what becomes of them when somebody goes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use accounts::{PasswordPlugin, SourceLogin};
use client::SslMode;
use door::{Facts, Followed, Forward, Note, ReplicaStatus, SchemaState};
use sql::SqlError;
use testkit::Server;
use wire::handshake::capability;
use wire::row::Param;

use crate::support::{CAPABILITIES, RawClient, TestDoor, account, different, open_with, queries};

/// A replica of this server.
pub(crate) struct Follows {
    server: Arc<Server>,
    server_uuid: String,
    pub(crate) number: AtomicU64,
    /// No connection is opened while this is locked.
    gate: Mutex<()>,
    /// The source's certificate is verified.
    pub(crate) verifies: AtomicBool,
}

impl Facts for Follows {
    fn schema(&self, _: &str) -> SchemaState {
        SchemaState::Missing
    }

    fn replica_status(&self) -> ReplicaStatus {
        ReplicaStatus::default()
    }

    fn pin(&self) -> Result<Arc<store::Snapshot>, SqlError> {
        Err(SqlError::new(1105, "HY000", "this server keeps no rows"))
    }

    fn followed(&self) -> Result<Followed, SqlError> {
        drop(self.gate.lock().unwrap());
        let mut options = self.server.login("nobody");
        if self.verifies.load(SeqCst) {
            (options.ssl_mode, options.ssl_ca) = (SslMode::VerifyCa, Some(self.server.dir().join("ca.pem")));
        }
        Ok(Followed { options, server_uuid: self.server_uuid.clone(), number: self.number.load(SeqCst) })
    }

    fn source_number(&self) -> Option<u64> {
        Some(self.number.load(SeqCst))
    }

    fn source_version(&self) -> Option<String> {
        Some("9.7.4".to_owned())
    }

    fn note(&self, note: Note) {
        panic!("{note:?}");
    }
}

/// A source with a port in front of it.
pub(crate) struct Tier {
    pub(crate) door: TestDoor,
    pub(crate) source: Arc<Server>,
    pub(crate) facts: Arc<Follows>,
}

impl Tier {
    pub(crate) fn open(source: Server, forward: Forward, connections: usize) -> Tier {
        let source = Arc::new(source);
        add_user(&source);
        let server_uuid = source.sql("SELECT @@server_uuid").trim().to_owned();
        let (server, number, gate) = (Arc::clone(&source), AtomicU64::new(1), Mutex::default());
        let facts = Arc::new(Follows { server, server_uuid, number, gate, verifies: AtomicBool::new(false) });
        let change = |config: &mut door::DoorConfig| {
            (config.forward, config.forward_connections) = (forward, connections);
        };
        let door = open_with(change, Arc::clone(&facts) as Arc<dyn Facts>);
        for (name, rights) in [("app", "forward"), ("asks", "read,forward")] {
            let app = account(name, rights, PasswordPlugin::CachingSha2);
            door.accounts.add_with(app, Some(SourceLogin::new("app", "there").unwrap())).unwrap();
        }
        Tier { door, source, facts }
    }

    pub(crate) fn client(&self, capabilities: u32) -> RawClient {
        self.client_of("app", capabilities)
    }

    /// `app` has all answered by the source, `asks` what this server does not answer.
    pub(crate) fn client_of(&self, account: &str, capabilities: u32) -> RawClient {
        RawClient::with_password(&self.door.socket, account, account, capabilities)
    }

    pub(crate) fn boss(&self) -> RawClient {
        RawClient::with_password(&self.door.socket, "boss", "boss", CAPABILITIES)
    }
}

/// The user that the account `app` is at the source.
fn add_user(server: &Server) {
    server.sql("CREATE USER app IDENTIFIED BY 'there'; GRANT ALL ON *.* TO app");
    server.sql("SET GLOBAL local_infile = ON");
}

pub(crate) fn direct(server: &Server, capabilities: u32) -> RawClient {
    RawClient::with_password(&server.socket(), "app", "there", capabilities)
}

/// Run in this order.
const STATEMENTS: &[&str] = &[
    "SELECT FOUND_ROWS(), ROW_COUNT(), LAST_INSERT_ID(), @@warning_count",
    "SELECT 1",
    "SELECT FOUND_ROWS()",
    "CREATE DATABASE shop",
    "USE shop",
    "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(20), b DECIMAL(10,2), c DATETIME(6), d JSON)",
    "INSERT INTO t (a, b, c, d) VALUES ('x', 1.5, '2026-01-02 03:04:05.6', '{\"k\": [1, 2]}'), (NULL, NULL, NULL, NULL)",
    "SELECT LAST_INSERT_ID(), ROW_COUNT()",
    "SELECT * FROM t",
    "SELECT COUNT(*), SUM(b), MAX(c) FROM t GROUP BY a ORDER BY 1",
    "UPDATE t SET a = 'y' WHERE id = 1",
    "UPDATE t SET a = 'y' WHERE id = 1",
    "INSERT INTO t (id) VALUES (1)",
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SELECT 1/0, CAST('x' AS SIGNED)",
    "SHOW WARNINGS",
    "SHOW COUNT(*) WARNINGS",
    "SELECT @@warning_count",
    "nonsense",
    "SELECT * FROM missing",
    "SELECT 1; SELECT 2; SELECT 3",
    "INSERT INTO t (a) VALUES ('m'); SELECT a FROM t; UPDATE t SET a = 'n' WHERE a = 'm'",
    "SELECT 1; nonsense; SELECT 2",
    "SELECT 1; SELECT * FROM missing; SELECT 2",
    "SET @a = 5, @b = 'text'",
    "SELECT @a, @b, @c",
    "SELECT @a := @a + 1",
    "SET sql_mode = 'ANSI_QUOTES'",
    "SELECT \"id\" FROM t",
    "SET sql_mode = DEFAULT",
    "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
    "SELECT 'a\\b'",
    "SET sql_mode = DEFAULT",
    "SET NAMES latin1",
    "SELECT 'é'",
    "SET NAMES utf8mb4",
    "SET time_zone = '+02:00', autocommit = 0",
    "INSERT INTO t (a) VALUES ('in a transaction')",
    "ROLLBACK",
    "SET autocommit = 1",
    "BEGIN",
    "INSERT INTO t (a) VALUES ('kept')",
    "SAVEPOINT s",
    "INSERT INTO t (a) VALUES ('not kept')",
    "ROLLBACK TO s",
    "COMMIT",
    "START TRANSACTION READ ONLY",
    "INSERT INTO t (a) VALUES ('refused')",
    "COMMIT",
    "CREATE TEMPORARY TABLE tmp AS SELECT 1 AS x UNION SELECT 2",
    "SELECT * FROM tmp",
    "CREATE PROCEDURE p(n INT) BEGIN SELECT n; SELECT id, a FROM t; INSERT INTO t (a) VALUES ('p'); END",
    "CALL p(7)",
    "CREATE FUNCTION f() RETURNS INT NO SQL BEGIN SET @f = 3; RETURN 4; END",
    "CREATE FUNCTION f() RETURNS INT DETERMINISTIC NO SQL BEGIN SET @f = 3; RETURN 4; END",
    "SELECT f()",
    "SELECT @f",
    "CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW SET @g = NEW.id",
    "UPDATE t SET b = 2 WHERE id = 1",
    "SELECT @g",
    "PREPARE s FROM 'SELECT ? + 1'",
    "EXECUTE s USING @a",
    "DEALLOCATE PREPARE s",
    "SELECT GET_LOCK('l', 1)",
    "SELECT RELEASE_LOCK('l')",
    "LOCK TABLES t READ",
    "INSERT INTO t (a) VALUES ('locked')",
    "UNLOCK TABLES",
    "HANDLER t OPEN",
    "HANDLER t READ FIRST",
    "HANDLER t CLOSE",
    "SELECT SQL_CALC_FOUND_ROWS id FROM t LIMIT 1",
    "SELECT FOUND_ROWS()",
    "SELECT id INTO @i FROM t LIMIT 1",
    "SELECT SLEEP(0), @i",
    "SELECT 1 FROM t WHERE a = 'no row'",
    "SHOW TABLES",
    "SHOW CREATE TABLE t",
    "EXPLAIN SELECT * FROM t WHERE id = 1",
    "DESCRIBE t",
    "SELECT @@version, @@read_only, @@port > 0, CURRENT_USER()",
    "SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop'",
    "XA START 'x'",
    "XA END 'x'",
    "XA ROLLBACK 'x'",
    "DO 1",
    "SET session_track_gtids = OWN_GTID",
    "SET session_track_schema = OFF",
    "USE mysql",
    "USE shop",
    "SET session_track_state_change = ON",
    "SET @a = 9",
    "TRUNCATE TABLE t",
    "DROP DATABASE shop",
    "SELECT 1 AS `last`",
    "",
];

/// GTIDs of both servers are taken for the same.
fn without_uuids(packet: &mut [u8], uuids: &[String]) {
    for uuid in uuids {
        let at = packet.windows(uuid.len()).position(|part| part == uuid.as_bytes());
        if let Some(part) = at.and_then(|at| packet.get_mut(at..at + uuid.len())) {
            part.fill(b'u');
        }
    }
}

#[test]
fn answers_are_the_sources_packet_by_packet() {
    let Some(theirs) = Server::or_skip("forward-theirs", &[]) else { return };
    add_user(&theirs);
    let tier = Tier::open(Server::start("forward-ours", &[]), Forward::All, 10);
    let with = |more: u32| CAPABILITIES | more;
    let uuids = [&theirs, &*tier.source].map(|server| server.sql("SELECT @@server_uuid").trim().to_owned());
    for (account, capabilities) in [
        with(0),
        with(capability::FOUND_ROWS | capability::IGNORE_SPACE | capability::INTERACTIVE),
        with(0) & !capability::DEPRECATE_EOF,
        with(0) & !capability::SESSION_TRACK,
        with(0) & !capability::DEPRECATE_EOF & !capability::SESSION_TRACK & !capability::MULTI_STATEMENTS,
        with(capability::OPTIONAL_RESULTSET_METADATA),
    ]
    .into_iter()
    .flat_map(|capabilities| [("app", capabilities), ("asks", capabilities)])
    {
        let (mut ours, mut real) = (tier.client_of(account, capabilities), direct(&theirs, capabilities));
        let mut commands = queries(STATEMENTS);
        let other = |name: &str, payload: &[u8]| (name.to_owned(), payload.to_vec());
        commands.extend([
            other("COM_INIT_DB", b"\x02mysql"),
            other("COM_INIT_DB missing", b"\x02missing"),
            other("COM_SET_OPTION", b"\x1b\x01\x00"),
            other("one statement only", b"\x03SELECT 1; SELECT 2"),
            other("COM_RESET_CONNECTION", b"\x1f"),
            other("as new", b"\x03SELECT FOUND_ROWS(), ROW_COUNT(), LAST_INSERT_ID(), @@warning_count"),
            other("nothing is left", b"\x03SELECT @a, DATABASE(), @@session.autocommit"),
            other("nothing is left open", b"\x03SELECT * FROM tmp"),
        ]);
        let text = different(&mut ours, &mut real, &commands, |packet| without_uuids(packet, &uuids));
        assert!(text.is_empty(), "{account}, capabilities {capabilities:x}\n{text}");
    }
}

#[test]
fn prepared_statements_are_the_sources() {
    let Some(theirs) = Server::or_skip("forward-prepared-theirs", &[]) else { return };
    add_user(&theirs);
    let tier = Tier::open(Server::start("forward-prepared-ours", &[]), Forward::All, 10);
    for (account, capabilities) in [("app", CAPABILITIES), ("asks", CAPABILITIES & !capability::DEPRECATE_EOF)] {
        let (mut ours, mut real) = (tier.client_of(account, capabilities), direct(&theirs, capabilities));
        let mut both = |name: &str, run: &mut dyn FnMut(&mut RawClient) -> Vec<Vec<u8>>| {
            let (mine, other) = (run(&mut ours), run(&mut real));
            assert_eq!(mine, other, "{account}: {name}");
        };
        both("a schema", &mut |client| client.query("CREATE DATABASE shop"));
        both("a table", &mut |client| client.query("CREATE TABLE shop.t (id INT PRIMARY KEY, a LONGTEXT)"));
        both("a wrong text", &mut |client| client.prepare("SELECT nonsense FROM"));
        both("an insert", &mut |client| client.prepare("INSERT INTO shop.t VALUES (?, ?)"));
        for id in 1..20 {
            let params = [Param::Int(id), "text".into()];
            both("its execution", &mut |client| client.execute(1, 0, &params));
        }
        both("a duplicate", &mut |client| client.execute(1, 0, &[Param::Int(1), Param::Null]));
        both("a select", &mut |client| client.prepare("SELECT id, a FROM shop.t WHERE id > ? ORDER BY id"));
        both("its rows", &mut |client| client.execute(2, 0, &[Param::Int(3)]));
        both("a cursor", &mut |client| client.execute(2, 1, &[Param::Int(3)]));
        for _ in 0..4 {
            both("rows of the cursor", &mut |client| client.fetch(2, 6));
        }
        both("a reset", &mut |client| client.command(&[0x1a, 2, 0, 0, 0]));
        both("a fetch without a cursor", &mut |client| client.fetch(2, 1));
        both("long data", &mut |client| {
            for part in ["one ", "two"] {
                client.write(&[&[0x18, 1, 0, 0, 0, 1, 0], part.as_bytes()].concat(), 0);
            }
            // Long data is in no execution: NULL bitmap, types, the first value.
            let execute = b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x08\0\xfb\0\x63\0\0\0\0\0\0\0";
            client.command(execute)
        });
        both("what came of it", &mut |client| client.query("SELECT a FROM shop.t WHERE id = 99"));
        both("an unknown one", &mut |client| client.execute(77, 0, &[]));
        both("a close", &mut |client| {
            client.close(2);
            client.execute(2, 0, &[])
        });
        both("the end", &mut |client| client.query("DROP DATABASE shop"));
    }
}

/// LOAD DATA LOCAL: what the server asked for, and its answer to the file.
fn load(client: &mut RawClient, statement: &str, parts: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
    client.write(&[b"\x03", statement.as_bytes()].concat(), 0);
    let asked = client.read();
    if asked.first() != Some(&0xfb) {
        return (asked, Vec::new());
    }
    for part in parts {
        client.write_next(part);
    }
    client.write_next(b"");
    (asked, client.read())
}

#[test]
fn large_packets_and_files_pass() {
    let options = ["--max-allowed-packet=64M"];
    let Some(theirs) = Server::or_skip("forward-large-theirs", &options) else { return };
    add_user(&theirs);
    let tier = Tier::open(Server::start("forward-large-ours", &options), Forward::All, 10);
    let capabilities = CAPABILITIES | capability::LOCAL_FILES;
    let (mut ours, mut real) = (tier.client(capabilities), direct(&theirs, capabilities));
    let mut both = |name: &str, run: &mut dyn FnMut(&mut RawClient) -> Vec<Vec<u8>>| {
        let (mine, other) = (run(&mut ours), run(&mut real));
        assert!(mine == other, "{name}: {} and {} packets", mine.len(), other.len());
    };
    both("a table", &mut |client| client.query("CREATE DATABASE shop; CREATE TABLE shop.t (a LONGTEXT, b INT)"));
    for len in [0xff_fffe_usize, 0xff_ffff, 0x100_0000, 34 << 20] {
        both("a long row", &mut |client| client.query(format!("SELECT REPEAT('\u{7e}', {len}), 1")));
        let text = format!("INSERT INTO shop.t VALUES ('{}', {len})", "z".repeat(len));
        both("a long statement", &mut |client| client.query(&text));
    }
    both("what was stored", &mut |client| client.query("SELECT LENGTH(a), MD5(a), b FROM shop.t"));
    both("many rows", &mut |client| {
        client.query(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 200000) \
             SELECT /*+ SET_VAR(cte_max_recursion_depth = 1000000) */ n, REPEAT('x', n % 100) FROM c",
        )
    });
    let local = "LOAD DATA LOCAL INFILE '/a/file' INTO TABLE shop.t FIELDS TERMINATED BY ',' (a, b)";
    let mine = load(&mut ours, local, &[b"x,1\ny,", b"2\n", &[b'z'; 100_000]]);
    assert_eq!(mine, load(&mut real, local, &[b"x,1\ny,", b"2\n", &[b'z'; 100_000]]));
    assert_eq!(load(&mut ours, local, &[]), load(&mut real, local, &[]));
    let wrong = local.replace("shop.t", "shop.missing");
    assert_eq!(load(&mut ours, &wrong, &[]), load(&mut real, &wrong, &[]));
    assert_eq!(ours.query("SELECT COUNT(*) FROM shop.t"), real.query("SELECT COUNT(*) FROM shop.t"));
}

/// Looks until it is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
    }
}

/// The number of an error.
pub(crate) fn error(packets: &[Vec<u8>]) -> Option<u16> {
    let last = packets.last()?;
    (last.first() == Some(&0xff)).then(|| u16::from_le_bytes([last[1], last[2]]))
}

/// The first value of the first row.
pub(crate) fn value(packets: &[Vec<u8>]) -> String {
    let columns = usize::from(packets[0][0]);
    let row = &packets[1 + columns];
    let len = usize::from(row[0]);
    String::from_utf8(row[1..=len].to_vec()).unwrap()
}

#[test]
fn what_must_not_reach_the_source_does_not() {
    let Some(source) = Server::or_skip("forward-refused", &[]) else { return };
    let tier = Tier::open(source, Forward::Reads, 10);
    let mut client = tier.client(CAPABILITIES);
    for statement in ["CREATE DATABASE x", "SHUTDOWN", "SELECT 1; SHUTDOWN", "SET GLOBAL a = 1; SELECT 1"] {
        assert_eq!(error(&client.query(statement)), Some(1290), "{statement}");
    }
    assert_eq!(error(&client.prepare("INSERT INTO x.y VALUES (1)")), Some(1290));
    assert_eq!(value(&client.query("SELECT @@transaction_read_only")), "1");
    assert_eq!(error(&client.query("SELECT 1")), None);
    client.command(b"\x1f");
    assert_eq!(value(&client.query("SELECT @@transaction_read_only")), "1", "after a reset too");
    assert!(!tier.source.sql("SHOW DATABASES").contains('x'));
    // Of this server: the account's own session is the only one.
    assert_eq!(error(&client.query("SHOW PROCESSLIST")), None);
    assert_eq!(error(&client.query("KILL 999999")), Some(1094));
    assert_eq!(error(&client.query("SET GLOBAL max_connections = 3")), Some(1227));
}

#[test]
fn a_login_that_the_source_refuses_ends_with_its_error() {
    let Some(source) = Server::or_skip("forward-login", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 10);
    tier.source.sql("ALTER USER app IDENTIFIED BY 'another'");
    let mut client = tier.client(CAPABILITIES);
    let refused = client.query("SELECT 1");
    assert_eq!(error(&refused), Some(1045));
    assert!(client.is_closed());
}

#[test]
fn another_server_than_the_followed_one_gets_no_statement() {
    let Some(source) = Server::or_skip("forward-other", &[]) else { return };
    let other = Server::start("forward-other-source", &[]);
    let tier = Tier::open(source, Forward::All, 10);
    let facts = Arc::new(Follows {
        server: Arc::clone(&tier.source),
        server_uuid: other.sql("SELECT @@server_uuid").trim().to_owned(),
        number: AtomicU64::new(1),
        gate: Mutex::default(),
        verifies: AtomicBool::new(false),
    });
    let change = |config: &mut door::DoorConfig| config.forward = Forward::All;
    let door = open_with(change, facts);
    let app = account("app", "forward", PasswordPlugin::CachingSha2);
    door.accounts.add_with(app, Some(SourceLogin::new("app", "there").unwrap())).unwrap();
    let mut client = RawClient::with_password(&door.socket, "app", "app", CAPABILITIES);
    let refused = client.query("SELECT 1");
    assert_eq!(error(&refused), Some(1105));
    assert!(String::from_utf8_lossy(&refused[0]).contains("not the followed source"), "{refused:?}");
}

#[test]
fn a_session_with_state_ends_with_its_source_and_another_goes_on() {
    let Some(source) = Server::or_skip("forward-killed", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 10);
    let (mut plain, mut with_state) = (tier.client(CAPABILITIES), tier.client(CAPABILITIES));
    assert_eq!(error(&plain.query("ROLLBACK")), None);
    assert_eq!(error(&with_state.query("SET @a = 1")), None);
    tier.source.kill();
    assert!(with_state.is_closed(), "without a packet: clients make 2013 of it");
    // The source is away: an error by name, and the session stays.
    assert_eq!(error(&plain.query("SELECT 1")), Some(1429));
    tier.source.restart(&[]);
    assert_eq!(error(&plain.query("SELECT 1")), None);
    // The source ends idle sessions: the packet that nobody asked for is no answer.
    tier.source.sql("SET GLOBAL wait_timeout = 1");
    let mut idle = tier.client(CAPABILITIES);
    assert_eq!(error(&idle.query("ROLLBACK")), None);
    let ended = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'app'";
    tier.source.sql("SET GLOBAL wait_timeout = 28800");
    wait_until("idle sessions have ended", || tier.source.sql(ended).trim() == "1");
    assert_eq!(error(&idle.query("ROLLBACK")), None);
}

#[test]
fn a_session_with_state_ends_when_another_source_is_followed() {
    let Some(source) = Server::or_skip("forward-moved", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 10);
    let (mut plain, mut with_state) = (tier.client(CAPABILITIES), tier.client(CAPABILITIES));
    assert_eq!(error(&plain.query("ROLLBACK")), None);
    let before = value(&plain.query("SELECT CONNECTION_ID()"));
    assert_eq!(error(&plain.command(b"\x1f")), None);
    assert_eq!(error(&with_state.query("BEGIN")), None);
    tier.facts.number.store(2, SeqCst);
    assert!(with_state.is_closed());
    assert_ne!(value(&plain.query("SELECT CONNECTION_ID()")), before);
}

/// The number of the connection that runs this, in SHOW PROCESSLIST.
fn listed(client: &mut RawClient, statement: &str) -> Option<String> {
    let rows = client.query("SHOW FULL PROCESSLIST");
    let runs = |row: &&Vec<u8>| row.windows(statement.len()).any(|part| part == statement.as_bytes());
    rows.iter().find(runs).map(|row| String::from_utf8(row[1..=usize::from(row[0])].to_vec()).unwrap())
}

/// A status variable of the port.
pub(crate) fn status_value(boss: &mut RawClient, name: &str) -> String {
    let shown = boss.query(format!("SHOW STATUS LIKE '{name}'"));
    let text = String::from_utf8_lossy(&shown[3]);
    text.rsplit(|byte: char| !byte.is_ascii_digit()).next().unwrap().to_owned()
}

#[test]
fn a_connection_that_was_opened_for_a_killed_statement_is_no_other_ones() {
    let Some(source) = Server::or_skip("forward-kill-opening", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 10);
    let (mut client, mut boss) = (tier.client(CAPABILITIES), tier.boss());
    let mut keeper = direct(&tier.source, CAPABILITIES);
    assert_eq!(value(&keeper.query("SELECT GET_LOCK('held', 0)")), "1");
    let gate = tier.facts.gate.lock().unwrap();
    for round in 0..2 {
        client.write(format!("\x03SELECT {round}, 'opening'").as_bytes(), 0);
        let deadline = Instant::now() + Duration::from_secs(60);
        let id = loop {
            if let Some(id) = listed(&mut boss, "'opening'") {
                break id;
            }
            assert!(Instant::now() < deadline, "it is not listed");
        };
        assert_eq!(error(&boss.query(format!("KILL QUERY {id}"))), None);
        assert_eq!(error(&client.answer(3)), Some(1317));
    }
    client.write(b"\x03SELECT GET_LOCK('held', 1000)", 0);
    drop(gate);
    let waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'";
    wait_until("it waits at the source", || tier.source.sql(waiting).trim() == "1");
    // Those that nobody waits for are closed, and the one that runs stays.
    let deadline = Instant::now() + Duration::from_secs(60);
    while status_value(&mut boss, "Slipstream_forward_connections") != "1" {
        assert!(Instant::now() < deadline, "more than one connection");
    }
    assert_eq!(value(&keeper.query("SELECT RELEASE_LOCK('held')")), "1");
    assert_eq!(value(&client.answer(3)), "1");
    assert_eq!(value(&client.query("SELECT IS_USED_LOCK('held') = CONNECTION_ID()")), "1");
}

#[test]
fn what_a_client_that_goes_had_running_counts_until_it_has_ended() {
    let Some(source) = Server::or_skip("forward-left", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 1);
    tier.source.sql("CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY, a INT)");
    tier.source.sql("INSERT INTO test.t VALUES (1, 0)");
    let mut boss = tier.boss();
    let running = |what: &str| {
        let count = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '{what}%'");
        tier.source.sql(&count).trim() == "1"
    };
    // A lone SELECT is ended, even one that would not notice.
    let all = ["a", "b", "c", "d"].map(|name| format!("information_schema.COLLATIONS {name}")).join(", ");
    let long = format!("SELECT MAX(a.ID + b.ID + c.ID + d.ID) FROM {all}");
    let mut client = tier.client(CAPABILITIES);
    client.write(&[b"\x03", long.as_bytes()].concat(), 0);
    wait_until("it runs", || running("SELECT MAX"));
    drop(client);
    wait_until("it runs no more", || !running("SELECT MAX"));
    assert_eq!(value(&tier.client(CAPABILITIES).query("SELECT 'next'")), "next");
    // A write runs to its end, as MySQL has it.
    let mut keeper = direct(&tier.source, CAPABILITIES);
    keeper.query("BEGIN");
    keeper.query("SELECT * FROM test.t FOR UPDATE");
    let mut client = tier.client(CAPABILITIES);
    client.write(b"\x03UPDATE test.t SET a = 7", 0);
    wait_until("it waits", || running("UPDATE test.t"));
    drop(client);
    wait_until("its client is gone", || listed(&mut tier.boss(), "UPDATE test.t").is_none());
    assert_eq!(status_value(&mut boss, "Slipstream_forward_connections"), "1");
    keeper.query("COMMIT");
    assert_eq!(value(&tier.client(CAPABILITIES).query("SELECT a FROM test.t")), "7");
}

#[test]
fn kill_ends_both_halves() {
    let Some(source) = Server::or_skip("forward-kill", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 10);
    let (mut sleeper, mut killer) = (tier.client(CAPABILITIES), tier.client(CAPABILITIES));
    let running = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%'";
    for query in [true, false] {
        sleeper.write(b"\x03SELECT SLEEP(1000)", 0);
        wait_until("it sleeps", || tier.source.sql(running).trim() == "1");
        let id = listed(&mut killer, "SELECT SLEEP").unwrap();
        assert_eq!(error(&killer.query(format!("KILL {} {id}", if query { "QUERY" } else { "CONNECTION" }))), None);
        if query {
            // SLEEP() returns 1 when it is interrupted, as without us.
            assert_eq!(value(&sleeper.answer(3)), "1");
        } else {
            assert!(sleeper.is_closed());
        }
        wait_until("it sleeps no more", || tier.source.sql(running).trim() == "0");
    }
}

#[test]
fn a_client_that_goes_leaves_no_half_read_answer() {
    let Some(source) = Server::or_skip("forward-gone", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 1);
    let rows = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1000000) \
                SELECT /*+ SET_VAR(cte_max_recursion_depth = 1000000) */ REPEAT('x', 1000) FROM c";
    for _ in 0..3 {
        let mut client = tier.client(CAPABILITIES);
        client.write(&[b"\x03", rows.as_bytes()].concat(), 0);
        client.read();
        drop(client);
        // The only connection is free again, and clean.
        assert_eq!(value(&tier.client(CAPABILITIES).query("SELECT 'next'")), "next");
    }
}

#[test]
fn two_hundred_sessions_share_ten_connections() {
    let Some(source) = Server::or_skip("forward-many", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 10);
    tier.source.sql("CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY AUTO_INCREMENT, a INT)");
    std::thread::scope(|scope| {
        for session in 0..200 {
            let tier = &tier;
            scope.spawn(move || {
                let mut client = tier.client(CAPABILITIES);
                assert_eq!(error(&client.query(format!("INSERT INTO test.t (a) VALUES ({session})"))), None);
                assert_eq!(value(&client.query("SELECT 1")), "1");
                // Nothing is kept any more: others may have the connection.
                client.command(b"\x1f");
                assert_eq!(error(&client.query("COMMIT")), None);
            });
        }
        let mut boss = tier.boss();
        for _ in 0..1_000 {
            let count = status_value(&mut boss, "Slipstream_forward_connections");
            assert!(count.parse::<usize>().unwrap() <= 10, "{count}");
        }
    });
    assert_eq!(tier.source.sql("SELECT COUNT(*), COUNT(DISTINCT a) FROM test.t").trim(), "200\t200");
    // Each connection was ended as clients do, not dropped.
    assert_eq!(tier.source.sql("SHOW GLOBAL STATUS LIKE 'Aborted_clients'").trim(), "Aborted_clients\t0");
}

#[test]
fn a_session_that_gave_its_connection_up_is_as_it_was() {
    let Some(source) = Server::or_skip("forward-given-up", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 1);
    let mut client = tier.client(CAPABILITIES);
    assert_eq!(error(&client.query("ROLLBACK")), None);
    tier.source.sql("SET GLOBAL sql_mode = 'ANSI_QUOTES', GLOBAL group_concat_max_len = 77");
    // Another one takes the only connection as soon as the first has nothing there.
    let other = || {
        let mut other = tier.client(CAPABILITIES);
        assert_eq!(value(&other.query("SELECT CONCAT(@@sql_mode, @@group_concat_max_len)")), "ANSI_QUOTES77");
    };
    other();
    let values = value(&client.query("SELECT CONCAT(@@sql_mode, @@group_concat_max_len)"));
    assert!(values.starts_with("ONLY_FULL_GROUP_BY") && values.ends_with("1024"), "{values}");
    // A reset leaves the schema, and takes new values.
    for command in [&b"\x03USE mysql"[..], b"\x03SET NAMES latin1", b"\x1f"] {
        assert_eq!(error(&client.command(command)), None);
    }
    other();
    assert_eq!(value(&client.query("SELECT CONCAT(DATABASE(), @@character_set_client)")), "mysqlutf8mb4");
    assert_eq!(value(&client.query("SELECT @@group_concat_max_len")), "77");
}
