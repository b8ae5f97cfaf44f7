//! An application whose reads are answered here and whose other statements are answered by the source: packet by packet
//! as by one server.

use std::fmt::Write as _;

use testkit::raw_client::{CAPABILITIES, RawClient};
use whole_program_tests::{Replica, Server, folder, slipstream};
use wire::handshake::capability;
use wire::row::Param;

use crate::forward::{PASSWORD, THERE, add_account};

/// A source with a replica in front of it, and another server with the same rows.
struct Tier {
    source: Server,
    other: Server,
    replica: Replica,
    socket: std::path::PathBuf,
}

impl Tier {
    fn start(name: &str, rows: &str, options: &[&str]) -> Tier {
        let (source, other) =
            (Server::start_unsynced(name, &[]), Server::start_unsynced(&format!("{name}-other"), &[]));
        let data = folder(name);
        let (mut replica, socket) = Replica::with_socket(&source, &data, &[&["--forward=all"], options].concat());
        for server in [&source, &other] {
            server.sql(&format!("CREATE USER shop IDENTIFIED BY '{THERE}'; GRANT ALL ON *.* TO shop"));
            server.sql(rows);
        }
        add_account(&data, "app", "read,forward");
        replica.catch_up(&source);
        Tier { source, other, replica, socket }
    }

    fn ours(&self, capabilities: u32) -> RawClient {
        RawClient::with_password(&self.socket, "app", PASSWORD, capabilities)
    }

    fn theirs(&self, capabilities: u32) -> RawClient {
        RawClient::with_password(&self.other.socket(), "shop", THERE, capabilities)
    }

    /// A session of each, at the same point. On a busy machine too, ours waits for rows instead of forwarding.
    fn both(&self, capabilities: u32) -> (RawClient, RawClient) {
        let (mut ours, mut theirs) = (self.ours(capabilities), self.theirs(capabilities));
        ours.query("SET slipstream_read_timeout = 60000");
        theirs.query("SET max_execution_time = 0");
        (ours, theirs)
    }

    /// Commands of accounts that forward: answered here, and forwarded.
    fn served(&self) -> (u64, u64) {
        let status = slipstream(&["status", "--json", "--data", self.replica.data()]);
        let status: serde_json::Value = serde_json::from_str(&status.out).unwrap();
        let forwarded = &status["clients"]["forwarded"];
        let number = |name: &str| forwarded[name].as_u64().unwrap_or_else(|| panic!("{name}: {forwarded}"));
        (number("served_here"), number("commands"))
    }
}

const ROWS: &str = "CREATE DATABASE shop; USE shop;
    CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(20), b DECIMAL(10,2), c DATETIME(6));
    INSERT INTO t VALUES (1, 'one', 1.5, '2026-01-02 03:04:05.6'), (2, NULL, NULL, NULL), (3, 'three', -3, NULL);
    CREATE TABLE u (id INT PRIMARY KEY, n INT) ENGINE=InnoDB; INSERT INTO u VALUES (1, 10), (2, 20);
    CREATE TABLE audited (id INT PRIMARY KEY, n INT); INSERT INTO audited VALUES (1, 1);
    CREATE TRIGGER g BEFORE UPDATE ON audited FOR EACH ROW SET @seen = NEW.n;
    CREATE PROCEDURE p() INSERT INTO t (a) VALUES ('by p');
    CREATE FUNCTION f() RETURNS INT DETERMINISTIC NO SQL RETURN (@f := 4);
    CREATE VIEW plain AS SELECT id, n FROM u;
    DELIMITER $$
    CREATE FUNCTION sets_k() RETURNS INT DETERMINISTIC READS SQL DATA BEGIN SELECT 42 INTO @k; RETURN 1; END $$
    CREATE FUNCTION hides_w() RETURNS INT DETERMINISTIC READS SQL DATA
        BEGIN CREATE TEMPORARY TABLE hidden (id INT, n INT); INSERT INTO hidden VALUES (8, 8); RETURN 1; END $$
    DELIMITER ;
    CREATE TABLE hidden (id INT PRIMARY KEY, n INT); INSERT INTO hidden VALUES (1, 1);
    CREATE VIEW inner_view AS SELECT sets_k() AS x; CREATE VIEW outer_view AS SELECT x FROM inner_view;
    CREATE VIEW hiding AS SELECT hides_w() AS x;
    CREATE FUNCTION locks_v() RETURNS INT DETERMINISTIC NO SQL RETURN GET_LOCK('of a view', 1);
    CREATE VIEW locking AS SELECT locks_v() AS x";

/// The rules of who answers what, one group each. Each begins in a new session.
const RULES: &[(&str, &[&str])] = &[
    (
        "plain reads",
        &["SELECT 1", "SELECT * FROM shop.t WHERE id = 1", "USE shop", "SELECT a, b, c FROM t ORDER BY id"],
    ),
    (
        "a savepoint before its transaction",
        &[
            "SET autocommit = 0",
            "SAVEPOINT a",
            "SAVEPOINT b",
            "RELEASE SAVEPOINT b",
            "SELECT 1",
            "SELECT n FROM shop.u WHERE id = 1",
            "UPDATE shop.u SET n = n + 1 WHERE id = 1",
            "ROLLBACK TO a",
            "SELECT n FROM shop.u WHERE id = 1",
            "COMMIT",
            "SELECT n FROM shop.u WHERE id = 1",
        ],
    ),
    (
        "own writes are read",
        &[
            "USE shop",
            "INSERT INTO t (a) VALUES ('new')",
            "SELECT id, a FROM t WHERE a = 'new'",
            "UPDATE t SET a = 'newer' WHERE a = 'new'",
            "SELECT a FROM t WHERE id = 1",
            "DELETE FROM t WHERE a = 'newer'",
            "SELECT a FROM t WHERE a = 'newer'",
        ],
    ),
    (
        "variables that are set here are known there",
        &[
            "SET NAMES latin1, sql_mode = 'ANSI_QUOTES', time_zone = '+05:00', @a = 1.50, @b = 'text', @c = NULL",
            "SELECT @a, @b, @c",
            "SELECT @a, @b, @c, COUNT(*), COLLATION(@b) FROM shop.t GROUP BY \"a\" ORDER BY 1",
            "SELECT c FROM shop.t WHERE id = 1",
            "SELECT @@sql_mode, @@time_zone, UUID() IS NULL",
            "SET @a = @a + 1, sql_mode = DEFAULT",
            "SELECT @a, COUNT(*) FROM shop.t",
        ],
    ),
    (
        "what became of the statement before",
        &[
            "INSERT INTO shop.u VALUES (3, 30), (4, 40)",
            "SELECT ROW_COUNT()",
            "INSERT INTO shop.u VALUES (3, 30)",
            "SHOW WARNINGS",
            "SELECT @@error_count",
            "SELECT 'x' + 0, COUNT(*) FROM shop.u",
            "SHOW WARNINGS",
            "SHOW COUNT(*) WARNINGS",
            "SELECT CAST('x' AS SIGNED)",
            "SHOW WARNINGS",
            "SELECT ROW_COUNT()",
            "SELECT nothing FROM shop.u",
            "SHOW ERRORS",
            "SELECT SQL_CALC_FOUND_ROWS id FROM shop.u LIMIT 1",
            "SELECT FOUND_ROWS()",
            "DELETE FROM shop.u WHERE id > 2",
            "SELECT ROW_COUNT(), 1",
        ],
    ),
    (
        "the access of the next transaction",
        &[
            "BEGIN",
            "SELECT n FROM shop.u WHERE id = 1",
            "SET SESSION TRANSACTION READ ONLY",
            "UPDATE shop.u SET n = n WHERE id = 1",
            "COMMIT",
            "SELECT @@transaction_read_only",
            "SET SESSION TRANSACTION READ WRITE",
        ],
    ),
    (
        "savepoints before and after tables are opened",
        &[
            "SET autocommit = 0",
            "SAVEPOINT a",
            "SELECT n FROM shop.u WHERE id = 1",
            "ROLLBACK TO a",
            "SELECT n FROM shop.u WHERE id = 1",
            "COMMIT",
            "SET autocommit = 1",
        ],
    ),
    (
        "rows that are too many",
        &[
            "SET max_join_size = 1",
            "SELECT * FROM shop.u",
            "SELECT n FROM shop.u WHERE id = 1",
            "SELECT @@sql_big_selects",
            "SET sql_big_selects = 1",
            "SELECT * FROM shop.u",
        ],
    ),
    (
        "numbers that were made",
        &[
            "SELECT LAST_INSERT_ID(), @@identity",
            "INSERT INTO shop.t (a) VALUES ('numbered')",
            "SELECT a FROM shop.t WHERE id = 2",
            "SELECT LAST_INSERT_ID() > 3, @@identity > 3",
            "DELETE FROM shop.t WHERE a = 'numbered'",
        ],
    ),
    (
        "a transaction",
        &[
            "BEGIN",
            "SELECT n FROM shop.u WHERE id = 1",
            "UPDATE shop.u SET n = n + 1 WHERE id = 1",
            "SELECT n FROM shop.u WHERE id = 1",
            "INSERT INTO shop.u VALUES (1, 1)",
            "SELECT n FROM shop.u WHERE id = 1",
            "ROLLBACK",
            "SELECT n FROM shop.u WHERE id = 1",
            "SET autocommit = 0",
            "SELECT n FROM shop.u WHERE id = 1",
            "UPDATE shop.u SET n = n + 1 WHERE id = 1",
            "SELECT n FROM shop.u WHERE id = 1",
            "ROLLBACK",
            "SET autocommit = 1",
            "SELECT n FROM shop.u WHERE id = 1",
            "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
            "SELECT n FROM shop.u WHERE id = 1",
            "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SELECT n, @@transaction_isolation FROM shop.u WHERE id = 1",
        ],
    ),
    (
        "a transaction that reads what is committed",
        &[
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "BEGIN",
            "SELECT n FROM shop.u WHERE id = 1",
            "SAVEPOINT s",
            "SELECT COUNT(*) FROM shop.u",
            "UPDATE shop.u SET n = n + 1 WHERE id = 1",
            "SELECT n FROM shop.u WHERE id = 1",
            "ROLLBACK TO s",
            "SELECT n FROM shop.u WHERE id = 1",
            "ROLLBACK",
            "START TRANSACTION READ ONLY",
            "SELECT n FROM shop.u WHERE id = 1",
            "UPDATE shop.u SET n = 0",
            "SELECT n FROM shop.u WHERE id = 1",
            "COMMIT",
            "BEGIN",
            "SELECT n FROM shop.u WHERE id = 1",
            "SELECT nothing FROM shop.u",
            "INSERT INTO shop.u VALUES (1, 1)",
            "SELECT n FROM shop.u WHERE id = 1",
            "COMMIT",
            "BEGIN",
            "SELECT n FROM shop.u WHERE id = 2",
            "COMMIT AND CHAIN",
            "SELECT n FROM shop.u WHERE id = 2",
            "SELECT COUNT(*) FROM shop.u",
            "ROLLBACK",
            "SET autocommit = 0",
            "SELECT n FROM shop.u WHERE id = 2",
            "SAVEPOINT s",
            "DELETE FROM shop.u WHERE id = 2",
            "ROLLBACK TO s",
            "SELECT n FROM shop.u WHERE id = 2",
            "COMMIT",
        ],
    ),
    (
        "a transaction of one state, split at its first write",
        &[
            "USE shop",
            "BEGIN",
            "SELECT n FROM u WHERE id = 1",
            "SAVEPOINT s",
            "UPDATE u SET n = n + 1 WHERE id = 1",
            "SELECT a FROM t WHERE id = 1",
            "SELECT ROW_COUNT()",
            "SELECT n FROM u WHERE id = 1",
            "SELECT a FROM t WHERE id = 1",
            "ROLLBACK TO s",
            "SELECT n FROM u WHERE id = 1",
            "SELECT COUNT(*) FROM t",
            "ROLLBACK",
            "START TRANSACTION READ ONLY",
            "SELECT n FROM u WHERE id = 1",
            "SELECT COUNT(*), MAX(n) FROM u",
            "UPDATE u SET n = 0",
            "SELECT n FROM u WHERE id = 1",
            "COMMIT",
            "SET TRANSACTION READ ONLY",
            "BEGIN",
            "SELECT n FROM u WHERE id = 1",
            "DELETE FROM u",
            "COMMIT",
            "START TRANSACTION READ WRITE",
            "SELECT n FROM u WHERE id = 2",
            "SELECT n FROM u WHERE id = 2 FOR UPDATE",
            "INSERT INTO u VALUES (1, 1)",
            "SELECT n FROM u WHERE id = 2",
            "BEGIN",
            "SELECT n FROM u WHERE id = 2",
            "COMMIT AND CHAIN",
            "SELECT n FROM u WHERE id = 2",
            "COMMIT",
            "SET autocommit = 0",
            "SELECT n FROM u WHERE id = 1",
            "SAVEPOINT s",
            "UPDATE u SET n = n + 1 WHERE id = 2",
            "SELECT n FROM u WHERE id = 2",
            "ROLLBACK TO s",
            "SELECT n FROM u WHERE id = 2",
            "ROLLBACK",
            "SELECT n FROM u WHERE id = 2",
            "COMMIT",
            "SET autocommit = 1",
            "BEGIN",
            "SAVEPOINT first",
            "SELECT n FROM u WHERE id = 2",
            "UPDATE u SET n = n WHERE id = 2",
            "ROLLBACK TO first",
            "SELECT n FROM u WHERE id = 2",
            "ROLLBACK",
            "BEGIN",
            "SELECT n FROM u WHERE id = 1",
            "CALL p()",
            "SELECT n FROM u WHERE id = 1",
            "ROLLBACK",
        ],
    ),
    (
        "one-shot characteristics are sent before what they are of",
        &[
            "SET TRANSACTION READ ONLY",
            "BEGIN",
            "UPDATE shop.u SET n = 0",
            "COMMIT",
            "UPDATE shop.u SET n = n WHERE id = 1",
        ],
    ),
    (
        "temporary tables shadow",
        &[
            "SELECT n FROM shop.u WHERE id = 1",
            "CREATE TEMPORARY TABLE shop.u (id INT, n INT)",
            "INSERT INTO shop.u VALUES (1, 99)",
            "SELECT n FROM shop.u WHERE id = 1",
            "DROP TEMPORARY TABLE shop.u",
            "SELECT n FROM shop.u WHERE id = 1",
        ],
    ),
    (
        "variables that are set there",
        &[
            "SET @x = (SELECT MAX(n) FROM shop.u)",
            "SELECT @x",
            "SELECT id INTO @y FROM shop.u WHERE id = 2",
            "SELECT @y, n FROM shop.u WHERE id = 1",
            "SELECT @z := 5",
            "SELECT @z",
        ],
    ),
    ("a trigger sets one", &["UPDATE shop.audited SET n = 7", "SELECT @seen", "SELECT @seen, n FROM shop.audited"]),
    ("a function sets one", &["SELECT shop.f()", "SELECT @f"]),
    ("a call", &["CALL shop.p()", "SELECT a FROM shop.t WHERE id = 1", "DELETE FROM shop.t WHERE a = 'by p'"]),
    (
        "locks",
        &[
            "SELECT GET_LOCK('l', 1)",
            "SELECT n FROM shop.u WHERE id = 1",
            "SELECT IS_USED_LOCK('l') = CONNECTION_ID()",
            "SELECT RELEASE_ALL_LOCKS()",
            "LOCK TABLES shop.t READ",
            "SELECT n FROM shop.u WHERE id = 1",
            "SELECT a FROM shop.t WHERE id = 1",
            "UNLOCK TABLES",
            "SELECT n FROM shop.u WHERE id = 1 FOR UPDATE",
        ],
    ),
    (
        "what is said of the next transaction is used up by a statement that opens a table",
        &[
            "SET TRANSACTION READ ONLY",
            "SET completion_type = 0",
            "SELECT n FROM shop.u WHERE id = 1",
            "UPDATE shop.u SET n = n + 1 WHERE id = 1",
            "SET TRANSACTION READ ONLY",
            "SET completion_type = 0",
            "UPDATE shop.u SET n = n - 1 WHERE id = 1",
        ],
    ),
    (
        "a transaction that ends a READ ONLY one",
        &[
            "BEGIN",
            "START TRANSACTION READ ONLY",
            "START TRANSACTION READ WRITE",
            "SELECT n FROM shop.u WHERE id = 1",
            "UPDATE shop.u SET n = n WHERE id = 1",
            "START TRANSACTION READ ONLY",
            "BEGIN",
            "UPDATE shop.u SET n = n WHERE id = 1",
            "COMMIT",
        ],
    ),
    (
        "variables that an open transaction keeps",
        &[
            "BEGIN",
            "SELECT n FROM shop.u WHERE id = 1",
            "SET gtid_next = 'AUTOMATIC'",
            "SET SESSION session_track_gtids = OWN_GTID",
            "SET sql_log_bin = 1",
            "SET autocommit = 1, sql_mode = ''",
            "UPDATE shop.u SET n = n WHERE id = 1",
            "COMMIT",
            "SET gtid_next = 'AUTOMATIC'",
        ],
    ),
    (
        "prepared texts of transactions",
        &[
            "SET @n = 1",
            "BEGIN",
            "UPDATE shop.u SET n = n + 1 WHERE id = 1",
            "COMMIT AND CHAIN",
            "SELECT n FROM shop.u WHERE id = 1",
            "ROLLBACK",
        ],
    ),
    (
        "views that run stored code",
        &[
            "SET @k = 1",
            "SELECT id FROM shop.plain",
            "SELECT @k",
            "SELECT x FROM shop.outer_view",
            "SELECT @k",
            "SELECT n FROM shop.hidden",
            "SELECT x FROM shop.hiding",
            "SELECT n FROM shop.hidden",
        ],
    ),
    (
        "views that lock",
        &[
            "SELECT x FROM shop.locking",
            "SELECT n FROM shop.u WHERE id = 1",
            "SELECT IS_USED_LOCK('of a view') = CONNECTION_ID()",
        ],
    ),
    (
        "a write that reads a view",
        &["SET @k = 1", "UPDATE shop.u SET n = n + (SELECT x FROM shop.inner_view) - 1 WHERE id = 1", "SELECT @k"],
    ),
    (
        "handlers and prepared texts",
        &[
            "HANDLER shop.u OPEN",
            "HANDLER shop.u READ FIRST",
            "HANDLER shop.u CLOSE",
            "SET @n = 1",
            "PREPARE s FROM 'SELECT n FROM shop.u WHERE id = ?'",
            "EXECUTE s USING @n",
            "DEALLOCATE PREPARE s",
        ],
    ),
    (
        "definitions",
        &[
            "CREATE TABLE shop.d (id INT PRIMARY KEY, a INT)",
            "INSERT INTO shop.d VALUES (1, 1)",
            "SELECT * FROM shop.d",
            "ALTER TABLE shop.d ADD b VARCHAR(5) DEFAULT 'x'",
            "SELECT * FROM shop.d",
            "DROP TABLE shop.d",
            "SELECT * FROM shop.d",
        ],
    ),
    (
        "several statements",
        &[
            "SELECT 1; SELECT n FROM shop.u WHERE id = 2",
            "SET sql_mode = 'ANSI_QUOTES'; SELECT \"n\" FROM shop.u",
            "SELECT \"n\" FROM shop.u",
            "SET sql_mode = DEFAULT; SELECT 1",
            "SELECT \"n\", id FROM shop.u WHERE id = 1",
        ],
    ),
    (
        "what the client is told of its session",
        &[
            "SET session_track_schema = OFF",
            "USE shop",
            "USE mysql; USE shop",
            "SET session_track_system_variables = 'sql_mode'",
            "SET sql_mode = 'ANSI'; SET time_zone = '+01:00'",
            "SET session_track_state_change = ON",
            "SET @a = 1",
            "SET @a = (SELECT 1)",
        ],
    ),
    ("the server", &["SELECT CURRENT_USER()", "SELECT @@version, @@read_only", "SHOW TABLES FROM shop"]),
];

fn shown(packets: &[Vec<u8>]) -> String {
    packets.iter().fold(String::new(), |text, packet| text + "  " + &packet.escape_ascii().to_string() + "\n")
}

fn query(sql: &str) -> Vec<u8> {
    [b"\x03", sql.as_bytes()].concat()
}

#[test]
fn answers_are_as_of_one_server_packet_by_packet() {
    let tier = Tier::start("tier", ROWS, &[]);
    let mut text = String::new();
    for capabilities in [
        CAPABILITIES,
        CAPABILITIES | capability::FOUND_ROWS,
        CAPABILITIES & !capability::DEPRECATE_EOF,
        CAPABILITIES & !capability::SESSION_TRACK,
    ] {
        for (rule, statements) in RULES {
            // MySQL tells of transactions that begin, asked for or not; of those that begin here only the source could.
            let is_told_unasked = statements.iter().any(|sql| matches!(*sql, "BEGIN"));
            let capabilities = if is_told_unasked { capabilities & !capability::SESSION_TRACK } else { capabilities };
            let (mut ours, mut theirs) = tier.both(capabilities);
            for sql in *statements {
                let (mine, real) = (ours.command(&query(sql)), theirs.command(&query(sql)));
                if mine != real {
                    let (mine, real) = (shown(&mine), shown(&real));
                    writeln!(text, "{rule}, {capabilities:x}: {sql}\n ours\n{mine} MySQL's\n{real}").unwrap();
                }
            }
            for client in [&mut ours, &mut theirs] {
                client.command(b"\x1f");
            }
            let (mine, real) =
                (ours.command(&query("SELECT n FROM shop.u")), theirs.command(&query("SELECT n FROM shop.u")));
            if mine != real {
                writeln!(text, "{rule}, {capabilities:x}: after a reset").unwrap();
            }
        }
    }
    let (here, forwarded) = tier.served();
    println!("{here} commands were answered here, {forwarded} were forwarded");
    assert!(text.is_empty(), "{text}");
    assert!(here > 100 && forwarded > 100, "{here}, {forwarded}");
    tier.replica.stop();
}

#[test]
fn a_released_session_ends_as_at_one_server() {
    let tier = Tier::start("tier-release", ROWS, &[]);
    let read = "SELECT n FROM shop.u WHERE id = 1";
    let write = "UPDATE shop.u SET n = n + 1 WHERE id = 1";
    for statements in [
        &["BEGIN", write, "COMMIT RELEASE"][..],
        &["BEGIN", read, write, "ROLLBACK WORK RELEASE"],
        &["BEGIN", read, "COMMIT RELEASE"],
        &["BEGIN", write, "COMMIT AND NO CHAIN NO RELEASE"],
    ] {
        let (mut ours, mut theirs) = tier.both(CAPABILITIES & !capability::SESSION_TRACK);
        for sql in statements {
            assert_eq!(ours.query(sql), theirs.query(sql), "{sql}");
        }
        if statements.last().unwrap().ends_with("NO RELEASE") {
            assert_eq!(ours.query(read), theirs.query(read));
        } else {
            assert!(ours.is_closed() && theirs.is_closed(), "{statements:?}");
        }
    }
    tier.replica.stop();
}

#[test]
fn prepared_statements_run_on_both_sides() {
    let tier = Tier::start("tier-prepared", ROWS, &[]);
    // Once it is known what the account may read at the source.
    let mut first = tier.ours(CAPABILITIES);
    while tier.served().0 == 0 {
        first.query("SELECT n FROM shop.u WHERE id = 1");
    }
    // MySQL tells of transactions that begin, asked for or not.
    let untold = CAPABILITIES & !capability::SESSION_TRACK;
    for capabilities in [untold, untold & !capability::DEPRECATE_EOF] {
        let (mut ours, mut theirs) = tier.both(capabilities);
        let mut both = |name: &str, run: &dyn Fn(&mut RawClient) -> Vec<Vec<u8>>| {
            let (mine, real) = (run(&mut ours), run(&mut theirs));
            assert!(mine == real, "{name}\n ours\n{} MySQL's\n{}", shown(&mine), shown(&real));
        };
        let named = |sql: &'static str| move |client: &mut RawClient| client.query(sql);
        both("a schema", &named("USE shop"));
        both("one that is answered here", &|client| client.prepare("SELECT n FROM u WHERE id = ?"));
        both("one that is not", &|client| client.prepare("SELECT COUNT(*), ? FROM u"));
        both("a write", &|client| client.prepare("INSERT INTO u VALUES (?, ?)"));
        both("one that fails", &|client| client.prepare("SELECT nothing FROM u"));
        let execute = |id: u32, flags: u8, params: &'static [i64]| {
            move |client: &mut RawClient| {
                let params: Vec<Param<'_>> = params.iter().map(|value| Param::Int(*value)).collect();
                client.execute(id, flags, &params)
            }
        };
        // As drivers send it from the second time on: types are those of before.
        let again = |id: u8, value: u8| {
            move |client: &mut RawClient| {
                client.command(&[&[0x17, id, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, value], &[0; 7][..]].concat())
            }
        };
        both("here", &execute(1, 0, &[1]));
        both("there", &execute(2, 0, &[7]));
        both("the write", &execute(3, 0, &[5, 50]));
        both("what was written", &execute(1, 0, &[5]));
        both("without types", &again(1, 5));
        both("a transaction", &named("BEGIN"));
        both("there, as it was executed here", &again(1, 5));
        both("a write in it", &execute(3, 0, &[6, 60]));
        both("what it has written", &again(1, 6));
        both("another schema", &named("USE mysql"));
        both("its own schema", &again(1, 6));
        both("its end", &named("ROLLBACK"));
        both("what is left", &again(1, 6));
        both("and is there", &again(1, 1));
        both("a cursor here", &execute(1, 1, &[1]));
        both("its rows", &|client| client.fetch(1, 5));
        both("a cursor there", &execute(2, 1, &[1]));
        both("its rows", &|client| client.fetch(2, 5));
        both("a reset", &|client| client.command(&[0x1a, 1, 0, 0, 0]));
        // MySQL takes numbers for statements that it prepares again, too.
        both("a locking read", &|client| {
            let mut packets = client.prepare("SELECT n FROM shop.u WHERE id = ? FOR UPDATE");
            let number = u32::from_le_bytes(packets[0][1..5].try_into().unwrap());
            packets[0][1..5].fill(0);
            packets.extend(client.execute(number, 0, &[Param::Int(1)]));
            packets
        });
        both("long data", &|client| {
            client.write(b"\x18\x01\0\0\0\0\x001", 0);
            client.command(b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\xfd\0")
        });
        both("another transaction", &named("BEGIN"));
        both("long data in it", &|client| {
            client.write(b"\x18\x01\0\0\0\0\x001", 0);
            client.command(b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\xfd\0")
        });
        both("its end", &named("COMMIT"));
        both("what was written is taken back", &named("DELETE FROM shop.u WHERE id > 2"));
        both("closed", &|client| {
            client.close(1);
            client.execute(1, 0, &[Param::Int(1)])
        });
        both("closed there", &|client| {
            client.close(2);
            client.execute(2, 0, &[Param::Int(1)])
        });
        both("a reset of the session", &|client| client.command(b"\x1f"));
        both("nothing is left", &execute(3, 0, &[1, 1]));
    }
    let (here, forwarded) = tier.served();
    println!("{here} commands were answered here, {forwarded} were forwarded");
    assert!(here > 10 && forwarded > 20, "{here}, {forwarded}");
    tier.replica.stop();
}

/// The first value of the last row.
fn value(packets: &[Vec<u8>]) -> String {
    let row = &packets[packets.len() - 2];
    String::from_utf8(row[1..=usize::from(row[0])].to_vec()).unwrap()
}

#[test]
fn what_waits_in_vain_is_the_sources() {
    let tier = Tier::start("tier-late", ROWS, &["--on-stop=stay"]);
    let mut client = tier.ours(CAPABILITIES);
    let read = "SELECT n FROM shop.u WHERE id = 1";
    // Once it is known what the account may read at the source.
    let until = |client: &mut RawClient, expected: &str, more_than: u64| {
        let mut reads = 0;
        while tier.served().0 <= more_than {
            assert_eq!(value(&client.query(read)), expected);
            reads += 1;
            assert!(reads < 1_000_000, "it is never answered here");
        }
    };
    until(&mut client, "10", 0);
    let (here, forwarded) = tier.served();
    slipstream(&["stop", "sql", "--data", tier.replica.data()]).expect(0, &[]);
    tier.source.sql("UPDATE shop.u SET n = 11 WHERE id = 1");
    assert_eq!(value(&client.query(read)), "11", "replay stands still");
    assert_eq!(tier.served(), (here, forwarded + 1));
    // One that waits for nothing is not late.
    let mut any_age = tier.ours(CAPABILITIES);
    any_age.query("SET slipstream_read_consistency = 'EVENTUAL'");
    let (here, forwarded) = tier.served();
    assert_eq!(value(&any_age.query(read)), "10");
    assert_eq!(tier.served(), (here + 1, forwarded));
    slipstream(&["start", "sql", "--data", tier.replica.data()]).expect(0, &[]);
    until(&mut client, "11", here);
    tier.replica.stop();
}

#[test]
fn what_the_source_keeps_for_a_while_is_answered_here_after_that() {
    let tier = Tier::start("tier-after", ROWS, &[]);
    let mut client = tier.ours(CAPABILITIES);
    let mut reads = 0;
    while tier.served().0 == 0 {
        assert_eq!(value(&client.query("SELECT n FROM shop.u WHERE id = 1")), "10");
        reads += 1;
        assert!(reads < 1_000, "it is never answered here");
    }
    // A statement that was prepared in a transaction at the source.
    client.query("BEGIN");
    client.query("UPDATE shop.u SET n = 11 WHERE id = 1");
    client.prepare("SELECT n FROM shop.u WHERE id = ?");
    assert_eq!(binary(&client.execute(1, 0, &[Param::Int(1)])), 11);
    client.query("COMMIT");
    let (here, forwarded) = tier.served();
    assert_eq!(binary(&client.execute(1, 0, &[Param::Int(1)])), 11);
    assert_eq!(tier.served(), (here + 1, forwarded));
    // A lock, until it is released, as migrations do on a connection of the application's pool.
    let served_by = |client: &mut RawClient| {
        assert_eq!(value(&client.query("SELECT n FROM shop.u WHERE id = 1")), "11");
        value(&client.query("SELECT @@slipstream_last_served_by"))
    };
    client.query("SET slipstream_read_timeout = 60000");
    assert_eq!(value(&client.query("SELECT GET_LOCK('a', 1)")), "1");
    assert_eq!(served_by(&mut client), "source");
    assert_eq!(value(&client.query("SELECT RELEASE_LOCK('a')")), "1");
    assert_eq!(served_by(&mut client), "replica");
    // A transaction that begins with a savepoint.
    client.query("SET autocommit = 0");
    client.query("SAVEPOINT a");
    assert_eq!(served_by(&mut client), "source");
    client.query("COMMIT");
    assert_eq!(served_by(&mut client), "replica");
    client.query("SET autocommit = 1");
    // Of a session that is kept there for good, what only this server knows.
    client.query("SET @a = (SELECT MAX(n) FROM shop.u)");
    assert_eq!(value(&client.query("SELECT n FROM shop.u WHERE id = 1")), "11");
    assert_eq!(value(&client.query("SELECT @@slipstream_last_served_by")), "source");
    assert_eq!(value(&client.query("SELECT @a")), "20");
    tier.replica.stop();
}

#[test]
fn what_fails_with_autocommit_off_holds_its_locks_until_rollback_and_no_longer() {
    let tier = Tier::start("tier-failed", ROWS, &[]);
    let mut other = RawClient::with_password(&tier.source.socket(), "shop", THERE, CAPABILITIES);
    other.query("SET lock_wait_timeout = 1, innodb_lock_wait_timeout = 1");
    let failed = |packets: Vec<Vec<u8>>| packets.last().unwrap()[0] == 0xff;
    for (fails, takes_lock) in [
        ("DESCRIBE shop.fresh", "CREATE TABLE shop.fresh (id INT)"),
        ("SELECT nothing FROM shop.u", "ALTER TABLE shop.u COMMENT 'a'"),
        ("INSERT INTO shop.u (id) VALUES (1)", "UPDATE shop.u SET n = 10 WHERE id = 1"),
    ] {
        let mut client = tier.ours(CAPABILITIES);
        client.query("SET autocommit = 0");
        assert!(failed(client.query(fails)), "{fails}");
        assert!(failed(other.query(takes_lock)), "{fails}: it holds none");
        client.query("SELECT 1");
        client.query("ROLLBACK");
        assert!(!failed(other.query(takes_lock)), "{fails}: it still holds them");
    }
    tier.replica.stop();
}

/// The INT of the last row of a prepared statement.
fn binary(packets: &[Vec<u8>]) -> i32 {
    let row = &packets[packets.len() - 2];
    i32::from_le_bytes(*row.last_chunk().unwrap())
}
