//! REPEATABLE READ transactions that read here and continue at the source, while others write.

use std::path::Path;

use serde_json::Value;
use testkit::raw_client::{CAPABILITIES, RawClient};
use whole_program_tests::{Replica, Server, folder, slipstream};

use crate::forward::{PASSWORD, THERE, add_account, add_account_as};

const ROWS: &str = "CREATE DATABASE shop; USE shop;
    CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 10), (2, 20);
    CREATE TABLE u (id INT PRIMARY KEY, n INT); INSERT INTO u VALUES (1, 100), (2, 200);
    CREATE TABLE child (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE);
    INSERT INTO child VALUES (1, 1), (2, 2)";

/// A source with a replica in front of it.
struct Split {
    source: Server,
    replica: Replica,
    socket: std::path::PathBuf,
}

impl Split {
    fn start(name: &str) -> Split {
        Split::after(name, "")
    }

    /// With these statements at the source before it is copied.
    fn after(name: &str, sql: &str) -> Split {
        let source = Server::start_unsynced(name, &["--innodb-lock-wait-timeout=1"]);
        let data = folder(name);
        source.sql(&format!("CREATE USER shop IDENTIFIED BY '{THERE}'; GRANT ALL ON *.* TO shop, repl"));
        source.sql(ROWS);
        source.sql(sql);
        // Definitions that are older than the replica's start are known, too.
        let (replica, socket) = Replica::with_socket(&source, &data, &["--forward=all", "--copy=always"]);
        add_account(&data, "app", "read,forward");
        let split = Split { source, replica, socket };
        // Once it is known what the account may read at the source.
        answered_here(&mut split.client(), READ_T.0);
        split
    }

    fn client(&self) -> RawClient {
        RawClient::with_password(&self.socket, "app", PASSWORD, CAPABILITIES)
    }

    fn forwarded(&self) -> Value {
        let status = slipstream(&["status", "--json", "--data", self.replica.data()]);
        let status: Value = serde_json::from_str(&status.out).unwrap();
        status["clients"]["forwarded"].clone()
    }

    /// Transactions that went to the source, their reads there, and those in conflict.
    fn splits(&self) -> [u64; 3] {
        let splits = &self.forwarded()["splits"];
        ["begun", "proofs", "conflicts"].map(|name| splits[name].as_u64().unwrap())
    }

    /// Runs statements, each with the value that it must show.
    fn expects(&self, client: &mut RawClient, statements: &[(&str, &str)]) {
        for (sql, expected) in statements {
            assert_eq!(value(&client.query(sql)), *expected, "{sql}; {:#}", self.forwarded());
        }
    }

    /// A transaction at the source, which is replayed then.
    fn others(&mut self, sql: &str) {
        self.source.sql(sql);
        self.replica.catch_up(&self.source);
    }
}

/// Waits until a read is answered here: until it is known what its user may read at the source.
fn answered_here(client: &mut RawClient, read: &str) {
    let by_replica = |client: &mut RawClient| {
        client.query(read);
        value(&client.query(BY_REPLICA.0)) == "replica"
    };
    while !by_replica(client) {}
}

/// The first value of the last row, or the error's number.
fn value(packets: &[Vec<u8>]) -> String {
    let last = packets.last().unwrap();
    if last[0] == 0xff {
        return u16::from_le_bytes([last[1], last[2]]).to_string();
    }
    let Some(row) = packets.len().checked_sub(2).map(|at| &packets[at]) else { return "OK".to_owned() };
    String::from_utf8(row[1..=usize::from(row[0])].to_vec()).unwrap()
}

const READ_T: (&str, &str) = ("SELECT n FROM shop.t WHERE id = 1", "10");
const BY_REPLICA: (&str, &str) = ("SELECT @@slipstream_last_served_by", "replica");

#[test]
fn what_a_transaction_reads_is_one_state_on_both_sides() {
    let mut split = Split::start("tier-split");
    let mut client = split.client();
    // Before the first write.
    split.expects(&mut client, &[("BEGIN", "OK"), READ_T, BY_REPLICA]);
    split.others("UPDATE shop.t SET n = 11 WHERE id = 1; UPDATE shop.u SET n = 101 WHERE id = 1");
    split.expects(
        &mut client,
        &[
            READ_T,
            ("SELECT n FROM shop.u WHERE id = 1", "100"),
            ("UPDATE shop.u SET n = n + 1 WHERE id = 1", "OK"),
            ("COMMIT", "OK"),
            ("SELECT n FROM shop.t WHERE id = 1", "11"),
            ("SELECT n FROM shop.u WHERE id = 1", "102"),
        ],
    );
    assert_eq!(split.splits(), [1, 0, 0]);
    // What it has written it reads there: nothing else has changed.
    split.expects(
        &mut client,
        &[
            ("BEGIN", "OK"),
            ("SELECT n FROM shop.u WHERE id = 1", "102"),
            ("DELETE FROM shop.t WHERE id = 2", "OK"),
            ("SELECT COUNT(*) FROM shop.t", "1"),
            ("ROLLBACK", "OK"),
            ("BEGIN", "OK"),
            ("SELECT n FROM shop.u WHERE id = 1", "102"),
            ("DELETE FROM shop.t WHERE id = 2", "OK"),
            ("SELECT COUNT(t) FROM shop.child", "1"),
            ("ROLLBACK", "OK"),
        ],
    );
    assert_eq!(split.splits(), [3, 2, 0]);
    // Of two tables only the one that is not read there has changed, and then only the one that is.
    for (changed, count) in [("u", "1"), ("t", "1")] {
        split.expects(&mut client, &[("BEGIN", "OK"), ("SELECT id FROM shop.u WHERE id = 1", "1")]);
        split.others(&format!("UPDATE shop.{changed} SET n = n + 1"));
        split.expects(
            &mut client,
            &[("SELECT COUNT(*) FROM shop.t JOIN shop.t other USING (id) WHERE id = 2", count), ("COMMIT", "OK")],
        );
    }
    assert_eq!(split.splits(), [5, 4, 0]);
    split.replica.stop();
}

#[test]
fn what_others_define_meanwhile_counts_in_what_is_written() {
    let mut split = Split::after("tier-defined", "USE shop; CREATE TABLE w (id INT PRIMARY KEY)");
    let mut client = split.client();
    split.expects(&mut client, &[("BEGIN", "OK"), READ_T, ("SELECT COUNT(*) FROM shop.w", "0")]);
    split.others("CREATE TRIGGER shop.g BEFORE INSERT ON shop.u FOR EACH ROW INSERT INTO shop.w VALUES (NEW.id)");
    split.expects(
        &mut client,
        &[("INSERT INTO shop.u VALUES (9, 9)", "OK"), ("SELECT COUNT(*) FROM shop.w", "1"), ("COMMIT", "OK")],
    );
    // Statements that fail and still commit.
    split.expects(&mut client, &[("BEGIN", "OK"), READ_T, ("INSERT INTO shop.u VALUES (10, 10)", "OK")]);
    split.expects(&mut client, &[("ALTER TABLE shop.nothing ADD x INT", "1146")]);
    split.others("UPDATE shop.t SET n = 12 WHERE id = 1; UPDATE shop.u SET n = 11 WHERE id = 10");
    split.expects(
        &mut client,
        &[("SELECT n FROM shop.u WHERE id = 10", "11"), ("SELECT n FROM shop.t WHERE id = 1", "12")],
    );
    // What cannot be prepared has committed nothing.
    let mut client = split.client();
    split.expects(&mut client, &[("BEGIN", "OK"), ("SELECT n FROM shop.t WHERE id = 2", "20"), BY_REPLICA]);
    split.expects(&mut client, &[("INSERT INTO shop.u VALUES (12, 12)", "OK")]);
    assert_eq!(value(&client.prepare("CREATE TRIGGER shop.h BEFORE DELETE ON shop.u FOR EACH ROW SET @a = 1")), "1295");
    split.others("UPDATE shop.t SET n = n + 1; UPDATE shop.u SET n = n + 1 WHERE id = 1");
    split.expects(&mut client, &[("SELECT n FROM shop.u WHERE id = 1", "1213")]);
    // A table that is another one by now is read there.
    let mut client = split.client();
    split.expects(&mut client, &[("BEGIN", "OK"), ("SELECT id FROM shop.t WHERE n = 13", "1"), BY_REPLICA]);
    split.others("TRUNCATE shop.w");
    let found = value(&client.query("SELECT COUNT(*) FROM shop.w"));
    assert!(matches!(found.as_str(), "0" | "1412"), "as the source has it, not the old rows: {found}");
    split.expects(&mut client, &[("ROLLBACK", "OK")]);
    split.replica.stop();
}

#[test]
fn what_a_trigger_writes_is_read_though_the_copy_saw_no_trigger() {
    let trigger =
        "CREATE TRIGGER shop.g AFTER UPDATE ON shop.t FOR EACH ROW UPDATE shop.u SET n = n + 1 WHERE id = NEW.id";
    for (name, sees) in [("tier-trigger", ""), ("tier-trigger-unseen", "; REVOKE TRIGGER ON *.* FROM repl")] {
        let split = Split::after(name, &format!("{trigger}{sees}"));
        let read_u = "SELECT n FROM shop.u WHERE id = 1";
        let write = "UPDATE shop.t SET n = n + 1 WHERE id = 1";
        split.expects(
            &mut split.client(),
            &[("BEGIN", "OK"), (read_u, "100"), (write, "OK"), (read_u, "101"), ("COMMIT", "OK")],
        );
        split.replica.stop();
    }
}

#[test]
fn a_transaction_whose_reads_are_of_no_one_state_is_rolled_back() {
    let mut split = Split::start("tier-conflict");
    let mut client = split.client();
    let read_u = "SELECT n FROM shop.u WHERE id = 2";
    split.expects(&mut client, &[("BEGIN", "OK"), (read_u, "200")]);
    split.others("UPDATE shop.t SET n = 11 WHERE id = 1; UPDATE shop.u SET n = 201 WHERE id = 2");
    split.expects(
        &mut client,
        &[
            ("UPDATE shop.t SET n = 21 WHERE id = 2", "OK"),
            ("SELECT COUNT(*) FROM shop.t", "1213"),
            ("SELECT n FROM shop.t WHERE id = 2", "20"),
        ],
    );
    assert_eq!(split.splits(), [1, 1, 1]);
    // It holds no lock there.
    split.others("UPDATE shop.t SET n = 22 WHERE id = 2");
    // One that begins with such a read is the source's, and others are not.
    split.expects(&mut client, &[("BEGIN", "OK"), ("SELECT n FROM shop.u WHERE id = 1", "100")]);
    split.others("UPDATE shop.t SET n = 12 WHERE id = 1; UPDATE shop.u SET n = 101 WHERE id = 1");
    split.expects(
        &mut client,
        &[
            ("SELECT n FROM shop.u WHERE id = 1", "100"),
            ("SELECT MAX(n) FROM shop.t", "22"),
            ("COMMIT", "OK"),
            ("BEGIN", "OK"),
            ("SELECT id FROM shop.u WHERE id = 1", "1"),
            ("UPDATE shop.t SET n = 13 WHERE id = 1", "OK"),
            ("COMMIT", "OK"),
        ],
    );
    assert_eq!(split.splits(), [2, 1, 1]);
    // Under autocommit = 0 the session reads here after it, too.
    split.expects(&mut client, &[("SET autocommit = 0", "OK"), ("SELECT id FROM shop.u WHERE n = 101", "1")]);
    split.others("UPDATE shop.t SET n = 14 WHERE id = 1; UPDATE shop.u SET n = 102 WHERE id = 1");
    split.expects(
        &mut client,
        &[
            ("SELECT MAX(n), COUNT(*) FROM shop.t", "1213"),
            ("SELECT id FROM shop.u WHERE id IN (1) AND n = 102", "1"),
            BY_REPLICA,
            ("COMMIT", "OK"),
        ],
    );
    split.replica.stop();
}

#[test]
fn a_default_schema_that_is_gone_or_may_not_be_used_is_an_error_of_the_statement() {
    let lim = format!("CREATE USER lim IDENTIFIED BY '{THERE}'; GRANT SELECT ON shop.* TO lim");
    let other = "CREATE DATABASE other; CREATE TABLE other.o (id INT PRIMARY KEY)";
    let mut split = Split::after("tier-schema", &format!("{lim}; {other}"));
    add_account_as(Path::new(split.replica.data()), "lim", "lim", "read,forward");
    // A schema that others drop while the transaction is held back.
    let mut client = split.client();
    answered_here(&mut client, READ_T.0);
    split.expects(&mut client, &[("BEGIN", "OK"), READ_T, ("USE other", "OK"), BY_REPLICA]);
    split.others("DROP DATABASE other");
    split.expects(
        &mut client,
        &[
            ("INSERT INTO o VALUES (1)", "1049"),
            ("UPDATE shop.u SET n = n + 1 WHERE id = 1", "1049"),
            READ_T,
            ("USE shop", "OK"),
            ("UPDATE u SET n = n + 1 WHERE id = 1", "OK"),
            ("SELECT n FROM shop.u WHERE id = 1", "101"),
            ("COMMIT", "OK"),
            ("SELECT MAX(n) FROM u", "200"),
        ],
    );
    // What an account loses it loses in its open transactions, too.
    let mut lim = RawClient::with_password(&split.socket, "lim", PASSWORD, CAPABILITIES);
    let mut chosen = RawClient::with_password(&split.socket, "lim", PASSWORD, CAPABILITIES);
    let read = "SELECT n FROM shop.t WHERE id = 2";
    answered_here(&mut lim, read);
    split.expects(&mut chosen, &[("USE shop", "OK"), (read, "20"), ("SELECT MAX(n) FROM t", "20")]);
    split.expects(&mut lim, &[("BEGIN", "OK"), (read, "20"), BY_REPLICA]);
    split.others("REVOKE SELECT ON shop.* FROM lim");
    split.expects(&mut lim, &[(read, "1142"), ("SELECT n FROM shop.u WHERE id = 1", "1142"), ("ROLLBACK", "OK")]);
    let mut new = RawClient::with_password(&split.socket, "lim", PASSWORD, CAPABILITIES);
    split.expects(&mut new, &[("USE shop", "1044"), ("SELECT MAX(n) FROM shop.t", "1142"), ("SELECT 1", "1")]);
    // The source looks up again which rights the user has to the default schema.
    split.expects(&mut chosen, &[("USE shop", "1044"), ("SELECT 1", "1")]);
    split.replica.stop();
}

#[test]
fn orders_to_this_server_commit_at_the_source_too() {
    let mut split = Split::start("tier-orders");
    add_account(Path::new(split.replica.data()), "chief", "read,forward,admin");
    let mut client = RawClient::with_password(&split.socket, "chief", PASSWORD, CAPABILITIES);
    let count = "SELECT COUNT(*) FROM shop.u";
    split.expects(
        &mut client,
        &[
            ("BEGIN", "OK"),
            ("INSERT INTO shop.u VALUES (9, 9)", "OK"),
            ("START REPLICA", "OK"),
            ("ROLLBACK", "OK"),
            (count, "3"),
        ],
    );
    // Also without the right to give them.
    let mut client = split.client();
    split.expects(
        &mut client,
        &[
            ("BEGIN", "OK"),
            READ_T,
            ("INSERT INTO shop.u VALUES (10, 10)", "OK"),
            ("STOP REPLICA", "1227"),
            ("ROLLBACK", "OK"),
            (count, "4"),
        ],
    );
    split.replica.catch_up(&split.source);
    split.replica.stop();
}

#[test]
fn an_account_that_is_unlocked_is_let_in_again() {
    let lim = format!("CREATE USER lim IDENTIFIED BY '{THERE}'; GRANT ALL ON *.* TO lim");
    let mut split = Split::after("tier-unlocked", &lim);
    add_account_as(Path::new(split.replica.data()), "lim", "lim", "read,forward");
    let lim = || RawClient::with_password(&split.socket, "lim", PASSWORD, CAPABILITIES);
    let read = "SELECT MAX(n) FROM shop.t";
    assert_eq!(value(&lim().query(read)), "20");
    let again = format!("ALTER USER lim IDENTIFIED BY '{THERE}'");
    for (locks, unlocks) in [
        ("ALTER USER lim ACCOUNT LOCK", "ALTER USER lim ACCOUNT UNLOCK"),
        ("ALTER USER lim IDENTIFIED BY 'other'", again.as_str()),
        ("RENAME USER lim TO lost", "RENAME USER lost TO lim"),
    ] {
        split.source.sql(locks);
        split.replica.catch_up(&split.source);
        let refused = |code: &str| matches!(code, "3118" | "1045" | "1429");
        assert!(refused(&value(&lim().query(read))) && refused(&value(&lim().query(read))), "{locks}");
        split.source.sql(unlocks);
        split.replica.catch_up(&split.source);
        assert_eq!(value(&lim().query(read)), "20", "{unlocks}");
    }
    split.replica.stop();
}
