//! LOCK TABLES, FLUSH, and locking reads of a replica are answered as a read-only MySQL answers them, and hold what
//! they promise to a reader: one state.

use testkit::raw_client::{CAPABILITIES, RawClient};
use whole_program_tests::{Replica, Server, folder, wait_for};
use wire::handshake::capability;

const TABLES: &str = "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10)); \
    INSERT INTO t VALUES (1, 'a'), (2, 'b'); CREATE TABLE p (id INT PRIMARY KEY, v INT); CREATE TABLE n (id INT PRIMARY KEY, n INT); \
    INSERT INTO n VALUES (1, 0)";

/// Statements in the order in which one session sends them to both.
const STATEMENTS: &[&str] = &[
    "USE d",
    "select * from t where id=1 for share",
    "select * from t where id=1 lock in share mode",
    "select * from t where id=1 for share nowait",
    "select * from t where id=1 for share of t skip locked",
    "select * from t as x where id=1 for share of x nowait",
    "select * from t where id=1 for share of zz",
    "select * from t where id=1 for share of d.t",
    "select * from t where id=1 for share of t, t",
    "select * from t where id=1 for update",
    "select * from t where id=1 for update skip locked",
    "select * from missing for share",
    "select 1 for share",
    "select 1 for update",
    "select 1 lock in share mode",
    "select 1 for share of t",
    "select 1 for",
    "select 1 for shar",
    "select 1 lock in share",
    "select * from t where id=1 limit 1 for share",
    "select * from t for share lock in share mode",
    "select * from t for share for share",
    "select * from t for update of t for share of t",
    "select id from t for update nowait nowait",
    "start transaction read only",
    "select * from t where id=1 for share",
    "select * from t where id=1 for update",
    "commit",
    "lock tables t read",
    "select * from t where id=1",
    "select * from p where id=1",
    "select * from missing where id=1",
    "select 1",
    "select * from t as a where id=1",
    "select * from t as a where id=1 for share",
    "show create table p",
    "show create table t",
    "show columns from p",
    "lock tables t as a read, p read local",
    "select * from a.t",
    "select * from t as a where id=1",
    "select * from t where id=1",
    "select * from p where id=1",
    "begin",
    "select * from n where id=1",
    "rollback",
    "select * from n where id=1",
    "unlock tables",
    "lock tables t write",
    "lock tables t read, zz read",
    "lock tables zz read",
    "lock tables nodb.t read",
    "lock table t read",
    "lock tables t low_priority write",
    "lock tables t read, t read",
    "lock tables t read, t as t read",
    "select * from p where id=1",
    "lock tables t read",
    "lock tables zz read",
    "select * from p where id=1",
    "lock tables t read",
    "lock tables t write",
    "select * from p where id=1",
    "lock tables t read",
    "flush tables",
    "flush tables p",
    "flush tables t",
    "flush tables t with read lock",
    "flush tables with read lock",
    "lock tables p read",
    "select * from p where id=1",
    "select * from t where id=1",
    "unlock tables",
    "lock tables performance_schema.global_status read",
    "lock tables information_schema.tables read",
    "flush tables",
    "flush table",
    "flush tables t",
    "flush local tables",
    "flush no_write_to_binlog tables",
    "flush tables with read lock",
    "flush tables with read lock",
    "select * from t where id=1",
    "lock tables t read",
    "select * from p where id=1",
    "unlock tables",
    "flush tables with read lock",
    "begin",
    "select * from p where id=1",
    "unlock tables",
    "select * from p where id=1",
    "commit",
    "flush tables t with read lock",
    "select * from t where id=1",
    "select * from p where id=1",
    "unlock tables",
    "flush tables zz with read lock",
    "flush tables with read lock, status",
    "flush tables, tables",
    "flush binary logs",
    "flush engine logs, general logs, slow logs",
    "flush privileges",
    "flush user_resources, privileges",
    "flush optimizer_costs",
    "flush hosts",
    "flush",
    "flush foo",
    "lock tables",
    "unlock",
    "show engine archive mutex",
    "show engine memory status",
    "show engine 'csv' logs",
    "show engine zz status",
    "show engine",
    "show engine innodb",
    "begin",
    "lock tables t read",
    "rollback",
    "select * from p where id=1",
    "set autocommit=0",
    "unlock tables",
    "select * from p where id=1 for share",
    "commit",
    "set autocommit=1",
];

/// Answers without the flags that tell of an index, and without what MySQL says of a session's change.
fn shown(packets: Vec<Vec<u8>>) -> Vec<String> {
    let shown = |mut packet: Vec<u8>| {
        if let [0xfe, _, _, status, _, ..] = packet.as_mut_slice() {
            *status &= !0x20;
        }
        packet.escape_ascii().to_string()
    };
    packets.into_iter().map(shown).collect()
}

#[test]
fn locks_are_answered_as_a_read_only_mysql_does() {
    let Some(server) = Server::or_skip("door-locks", &[]) else { return };
    server.sql(TABLES);
    let (replica, socket) = Replica::with_socket(&server, &folder("door-locks"), &["--on-stop=stay"]);
    server.sql("SET GLOBAL super_read_only = 1");
    // Of changes of a transaction's state MySQL tells more.
    let capabilities = CAPABILITIES & !capability::SESSION_TRACK;
    let mut ours = RawClient::over_socket(&socket, "admin", capabilities);
    let mut theirs = RawClient::over_socket(&server.socket(), "root", capabilities);
    let mut different = Vec::new();
    for sql in STATEMENTS {
        let (mine, real) = (shown(ours.query(sql)), shown(theirs.query(sql)));
        // The account's name stands in some errors.
        let real: Vec<String> = real.into_iter().map(|text| text.replace("\\'root\\'@", "\\'admin\\'@")).collect();
        if mine != real {
            different.push(format!("{sql}\n ours    {}\n MySQL's {}", mine.join(" "), real.join(" ")));
        }
    }
    for sql in ["lock tables t read", "unlock tables", "flush tables", "select * from t where id=1 for share"] {
        let (mut mine, mut real) = (ours.prepare(sql), theirs.prepare(sql));
        // Numbers of statements.
        [&mut mine, &mut real].into_iter().filter(|one| one[0][0] == 0).for_each(|one| one[0][1..5].fill(0));
        if shown(mine.clone()) != shown(real.clone()) {
            different.push(format!("prepare {sql}\n ours    {mine:?}\n MySQL's {real:?}"));
        }
    }
    assert!(different.is_empty(), "{} differ\n{}", different.len(), different.join("\n"));
    // What takes the place of InnoDB's status.
    let status = ours.query("SHOW ENGINE INNODB STATUS");
    assert!(status[4].escape_ascii().to_string().contains("Slipstream_lag_apply_p99_us"), "{status:?}");
    for refused in
        ["FLUSH STATUS", "FLUSH TABLES t FOR EXPORT", "LOCK INSTANCE FOR BACKUP", "SET GLOBAL read_only = OFF"]
    {
        assert!(ours.query(refused)[0].starts_with(b"\xff\xd3\x04"), "{refused}");
    }
    replica.stop();
}

/// The value of the one row that writers count up, or the error.
fn n(client: &mut RawClient, locking: &str) -> Result<u64, String> {
    let answer = client.query(format!("SELECT n FROM d.n WHERE id = 1{locking}"));
    if answer.last().unwrap()[0] == 0xff {
        return Err(answer.last().unwrap().escape_ascii().to_string());
    }
    Ok(std::str::from_utf8(&answer[answer.len() - 2][1..]).unwrap().parse().unwrap())
}

fn done(client: &mut RawClient, sql: &str) {
    let answer = client.query(sql);
    assert_eq!(answer[0][0], 0, "{sql}: {}", answer[0].escape_ascii());
}

#[test]
fn who_locks_reads_one_state() {
    let Some(server) = Server::or_skip("door-locked", &[]) else { return };
    server.sql(TABLES);
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-locked"), &["--on-stop=stay"]);
    let client = || RawClient::over_socket(&socket, "admin", CAPABILITIES);
    let (mut one, mut other) = (client(), client());
    let mut written = 0;
    let mut write = |replica: &mut Replica| {
        written += 1;
        server.sql(&format!("UPDATE d.n SET n = {written}"));
        replica.catch_up(&server);
        written
    };
    // LOCK TABLES keeps its session's state, and that of no other.
    done(&mut one, "LOCK TABLES d.n READ");
    let last = write(&mut replica);
    assert_eq!((n(&mut one, ""), n(&mut one, " FOR SHARE"), n(&mut other, "")), (Ok(0), Ok(0), Ok(last)));
    done(&mut one, "UNLOCK TABLES");
    assert_eq!(n(&mut one, ""), Ok(last));
    // A locking read of a transaction reads what is visible; rows that it has read stay, and so does all else.
    done(&mut one, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
    let locked = write(&mut replica);
    assert_eq!((n(&mut one, ""), n(&mut one, " FOR SHARE")), (Ok(last), Ok(locked)));
    let last = write(&mut replica);
    assert_eq!((n(&mut one, ""), n(&mut one, " LOCK IN SHARE MODE")), (Ok(locked - 1), Ok(locked)));
    done(&mut one, "COMMIT");
    assert_eq!(n(&mut one, " FOR SHARE"), Ok(last));
    done(&mut one, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
    done(&mut one, "BEGIN");
    assert_eq!(n(&mut one, ""), Ok(last));
    let locked = write(&mut replica);
    assert_eq!(n(&mut one, " FOR SHARE"), Ok(locked));
    let last = write(&mut replica);
    assert_eq!((n(&mut one, ""), n(&mut other, "")), (Ok(locked), Ok(last)));
    done(&mut one, "ROLLBACK");

    // FLUSH TABLES WITH READ LOCK keeps everything as it is, for all, and replay says why.
    done(&mut one, "FLUSH TABLES WITH READ LOCK");
    done(&mut one, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
    let executed = |client: &mut RawClient| client.query("SELECT @@global.gtid_executed")[2].clone();
    let before = executed(&mut one);
    server.sql("UPDATE d.n SET n = 100");
    let waits = "waiting for a client's FLUSH TABLES WITH READ LOCK to be released";
    replica.wait_until("replay to wait", |status| {
        status["replay"]["detail"] == waits && status["backlog"]["transactions"] == 1
    });
    assert_eq!((n(&mut one, ""), n(&mut other, ""), n(&mut client(), "")), (Ok(last), Ok(last), Ok(last)));
    assert_eq!((executed(&mut one), executed(&mut other)), (before.clone(), before));
    done(&mut one, "UNLOCK TABLES");
    replica.catch_up(&server);
    assert_eq!((n(&mut one, ""), n(&mut other, "")), (Ok(last), Ok(100)));
    done(&mut one, "COMMIT");
    // A second lock outlasts the first; a connection that ends gives its lock back.
    done(&mut one, "FLUSH TABLES WITH READ LOCK");
    done(&mut other, "FLUSH TABLES WITH READ LOCK");
    server.sql("UPDATE d.n SET n = 101");
    done(&mut one, "UNLOCK TABLES");
    replica.wait_until("replay to wait", |status| status["backlog"]["transactions"] == 1);
    assert_eq!(n(&mut one, ""), Ok(100));
    drop(other);
    wait_for("the write", || (n(&mut one, "") == Ok(101)).then_some(()), String::new);
    replica.stop();
}

/// Sequences of one session; at `bump` somebody else changes the row.
const SAVEPOINTS: [&str; 9] = [
    "BEGIN; none; SAVEPOINT s; bump; read; ROLLBACK TO s; bump; read",
    "BEGIN; SAVEPOINT s; read; bump; ROLLBACK TO s; read",
    "BEGIN; read; SAVEPOINT s; read; bump; ROLLBACK TO s; read",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT; SAVEPOINT s; read; bump; ROLLBACK TO s; read",
    "START TRANSACTION READ ONLY; SAVEPOINT s; read; bump; ROLLBACK TO s; read",
    "BEGIN; SAVEPOINT s; read; SAVEPOINT t; bump; ROLLBACK TO t; read; ROLLBACK TO s; read",
    "BEGIN; SAVEPOINT s; read; bump; SAVEPOINT s; ROLLBACK TO s; read",
    "BEGIN; SAVEPOINT s; read; bump; ROLLBACK TO s; read; bump; read; ROLLBACK TO s; SAVEPOINT t; read; bump; \
     ROLLBACK TO t; read",
    "SET autocommit = 0; SAVEPOINT s; read; bump; ROLLBACK TO s; read; COMMIT; SET autocommit = 1",
];

/// A transaction kept the state of a read that ROLLBACK TO had taken back.
#[test]
fn what_is_read_after_a_first_savepoint_goes_with_it() {
    let Some(server) = Server::or_skip("door-savepoints", &[]) else { return };
    server.sql(TABLES);
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-savepoints"), &[]);
    let mut ours = RawClient::over_socket(&socket, "admin", CAPABILITIES);
    let mut theirs = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    let mut answers = |sequence: &str, client: &mut RawClient| {
        let mut all = Vec::new();
        let base: u64 = server.sql("SELECT n FROM d.n").trim().parse().unwrap();
        for statement in sequence.split("; ") {
            match statement {
                "bump" => {
                    server.sql("UPDATE d.n SET n = n + 1");
                    replica.catch_up(&server);
                }
                "read" => {
                    let row = client.query("SELECT n FROM d.n").into_iter().nth_back(1).unwrap();
                    let value: u64 = std::str::from_utf8(&row[1..]).unwrap().parse().unwrap();
                    all.push(value - base);
                }
                "none" => drop(client.query("SELECT n FROM d.n LIMIT 0")),
                statement => assert_eq!(client.query(statement)[0][0], 0, "{statement}"),
            }
        }
        client.query("COMMIT");
        all
    };
    for sequence in SAVEPOINTS {
        assert_eq!(answers(sequence, &mut ours), answers(sequence, &mut theirs), "{sequence}");
    }
    replica.stop();
}
