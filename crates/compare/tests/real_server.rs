//! Verify and dump against real servers (`testbed/mysql`); run with SLIPSTREAM_TEST_SERVER=1.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apply::{ApplyOptions, Pipeline, PipelineOptions};
use base::{GtidSet, LogPosition, Random};
use client::{ClientError, ConnectOptions, Connection, Interrupter};
use compare::{
    CompareError, DumpFormat, DumpOptions, Engine, TableFilter, VerifyOptions, VerifyReport, dump, verify_servers,
    verify_store,
};
use relay_log::{Intake, RelayLog, RelayOptions};
use source::{DumpRequest, start_dump};
use store::{CheckImages, KeyRange, Snapshot, Store, TableReader};
use testkit::Server;
use testkit::process::output_with_input;

const TYPES: &str = include_str!("types.sql");

/// Output of the mysql client.
fn client(server: &Server, options: &[&str], sql: impl AsRef<[u8]>) -> Vec<u8> {
    let mut command = server.client_command();
    command.args(["--default-character-set=utf8mb4", "--max-allowed-packet=64M"]).args(options);
    let output = output_with_input(&mut command, sql);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A pipeline that follows a server.
struct Replica {
    pipeline: Option<Pipeline>,
    interrupter: Interrupter,
    receiver: Option<std::thread::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Replica {
    fn follow(server: &Server) -> Replica {
        let folder = tempfile::tempdir().unwrap();
        let (writer, _) = RelayLog::open(RelayOptions::new(folder.path())).unwrap();
        let mut tail = writer.reader();
        let pipeline = Pipeline::start(
            Box::new(move |timeout| tail.next(timeout)),
            PipelineOptions {
                quarantine: false,
                copies_missing: false,
                filters: Arc::default(),
                decoders: 2,
                workers: 2,
                memory_bytes: 256 << 20,
                apply: ApplyOptions { check_images: CheckImages::All, ..ApplyOptions::default() },
                skip: Default::default(),
                store: Arc::new(store::Store::new(apply::lanes_for(2), catalog::Catalog::new(0))),
                cuts: None,
                source_clock: Arc::default(),
                lag_by_part: Arc::default(),
                affinity: base::ThreadAffinity::default(),
            },
        );
        let connection = Connection::connect(&server.login("repl")).unwrap();
        let mut stream = start_dump(connection, &DumpRequest::new(4711, &GtidSet::new())).unwrap();
        let interrupter = stream.interrupter().unwrap();
        let receiver = std::thread::spawn(move || {
            let mut intake = Intake::new(writer, LogPosition { file: Arc::from(""), offset: 4 });
            loop {
                match stream.next_event() {
                    Ok(Some(event)) => {
                        intake.event(event.event).unwrap();
                    }
                    Ok(None) | Err(ClientError::Interrupted | ClientError::Closed) => break,
                    Err(error) => panic!("{error}"),
                }
                if !stream.buffered() {
                    intake.flush().unwrap();
                }
            }
            intake.finish().unwrap().close().unwrap();
        });
        Replica { pipeline: Some(pipeline), interrupter, receiver: Some(receiver), _folder: folder }
    }

    fn pipeline(&self) -> &Pipeline {
        self.pipeline.as_ref().unwrap()
    }

    fn store(&self) -> &Arc<Store> {
        &self.pipeline().store
    }

    fn verify(&self, source: &ConnectOptions, options: &VerifyOptions) -> (Result<VerifyReport, CompareError>, String) {
        let engine = Engine { store: self.store(), watermark: Some(&*self.pipeline().publisher) };
        let mut out = Vec::new();
        let result = verify_store(&engine, source, options, &mut out);
        let text = String::from_utf8(out).unwrap();
        println!("{text}");
        (result, text)
    }

    fn wait_for(&self, server: &Server) -> GtidSet {
        let set = server.gtid_executed();
        let there = self.store().visibility().wait_executed(&set, Instant::now() + Duration::from_secs(60));
        assert!(there, "replay: {:?}", self.pipeline().failure());
        set
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.interrupter.shutdown();
        if let Some(receiver) = self.receiver.take() {
            let _ = receiver.join();
        }
        if let Some(pipeline) = self.pipeline.take() {
            pipeline.stop();
            let _ = pipeline.join();
        }
    }
}

fn tables(server: &Server) -> Vec<String> {
    let names = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'types' ORDER BY 1";
    server.sql(names).lines().map(str::to_string).collect()
}

#[test]
fn a_store_filled_from_the_log_equals_its_source_in_every_type() {
    let Some(server) = Server::or_skip("cmp-types", &[]) else { return };
    let replica = Replica::follow(&server);
    server.sql(TYPES);
    let source = server.login("root");
    let (report, text) = replica.verify(&source, &VerifyOptions::default());
    let report = report.unwrap();
    assert!(report.equal(), "{text}");
    assert!(report.lock_ms.is_some());
    assert_eq!(report.tables.len(), tables(&server).len());
    let many = report.tables.iter().find(|table| table.table == "many").unwrap();
    assert_eq!((many.source.rows, many.source.chunks), (4800, 4));

    // Without RELOAD, a quiet moment is found instead.
    let (report, text) = replica.verify(&server.login("repl"), &VerifyOptions::default());
    assert!(report.unwrap().equal());
    assert!(text.contains("snapshot without a lock"), "{text}");

    // A filter, and a table that does not exist.
    let only = |name: &str| VerifyOptions { tables: TableFilter::parse(&[name]), ..VerifyOptions::default() };
    assert_eq!(replica.verify(&source, &only("types.made")).0.unwrap().tables.len(), 1);
    assert!(matches!(replica.verify(&source, &only("types.nix")).0, Err(CompareError::NoSuchTable(_))));

    dumps_are_what_the_client_prints(&server, &replica);
    an_sql_dump_loads_into_an_equal_server(&server, &replica);
    differences_on_the_source_are_found(&server, &replica);
}

/// Compares with what `mysql --batch --raw` prints for the same tables.
fn dumps_are_what_the_client_prints(server: &Server, replica: &Replica) {
    replica.wait_for(server);
    let snapshot = Snapshot::pin(replica.store());
    let mut failures = String::new();
    for table in tables(server) {
        let quoted = format!("`{}`", table.replace('`', "``"));
        let key = snapshot.catalog().table("types", &table).map(|def| match &def.identity {
            catalog::Identity::Columns(columns) => {
                columns.iter().map(|c| format!("`{}`", def.columns[*c].name)).collect::<Vec<_>>().join(", ")
            }
            catalog::Identity::WholeImage => String::new(),
        });
        let key = key.unwrap();
        let has_bytes = ["bytes", "lists", "numbers", "shapes"].contains(&table.as_str());
        for binary_as_hex in if has_bytes { vec![false, true] } else { vec![true] } {
            let order = match table.as_str() {
                // Ordered by bytes here, not by the collation.
                "keyless" => " ORDER BY a, CAST(b AS BINARY), f".to_string(),
                _ => format!(" ORDER BY {key}"),
            };
            let sql = format!("SET time_zone = '+00:00'; SELECT * FROM types.{quoted}{order}");
            let hex = if binary_as_hex { "--binary-as-hex" } else { "--skip-binary-as-hex" };
            let wanted = client(server, &["--batch", "--raw", hex], sql);
            let options = DumpOptions {
                tables: TableFilter { tables: vec![(Some("types".into()), table.clone())], ..TableFilter::default() },
                format: DumpFormat::Tab,
                binary_as_hex,
                all_columns: false,
                no_create_info: true,
                compression: None,
                ..DumpOptions::default()
            };
            let mut out = Vec::new();
            if let Err(error) = dump(&snapshot, replica.store(), &options, &mut out) {
                let _ = writeln!(failures, "{table}: {error}");
            } else if out != wanted {
                let _ = writeln!(failures, "{table} (hex {binary_as_hex}): {}", first_difference(&wanted, &out));
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Text of any case and length, with accents and trailing spaces; numbers, some of them NULL.
fn index_rows(numbers: &mut Random, rows: std::ops::Range<u32>) -> String {
    let mut random = |bound: u64| numbers.below(bound);
    let letters = ["a", "A", "b", "é", "ß", "z", " ", "ä", "Z", "0", "-", "s"];
    let row = |id: u32| {
        let text: String = (0..random(7)).map(|_| letters[random(12) as usize]).collect();
        let text = if random(9) == 0 { "NULL".into() } else { format!("'{text}'") };
        let number = if random(5) == 0 { "NULL".into() } else { (random(9) as i64 - 4).to_string() };
        format!("({id}, {number}, {text}, {})", random(4))
    };
    rows.map(row).collect::<Vec<_>>().join(", ")
}

/// Compares with `FORCE INDEX … ORDER BY` its columns, in both directions.
#[test]
fn indexes_are_in_the_servers_order() {
    let Some(server) = Server::or_skip("cmp-index", &[]) else { return };
    let replica = Replica::follow(&server);
    let collations = [
        "utf8mb4_0900_ai_ci",
        "utf8mb4_0900_as_cs",
        "utf8mb4_0900_bin",
        "utf8mb4_bin",
        "utf8mb4_general_ci",
        "latin1_swedish_ci",
        "latin1_bin",
    ];
    let mut numbers = Random::new(1);
    let mut sql = "CREATE DATABASE i; USE i;".to_string();
    for collation in collations {
        let charset = collation.split('_').next().unwrap();
        let rows = index_rows(&mut numbers, 0..1500);
        let again = index_rows(&mut numbers, 1000..1800);
        let _ = write!(
            sql,
            "CREATE TABLE {collation} (id INT PRIMARY KEY, a INT, s VARCHAR(20) CHARACTER SET {charset} COLLATE {collation}, \
             n SMALLINT NOT NULL, KEY one (s, n, id), KEY two (a DESC, s, id), KEY three (n, a, s DESC, id DESC));
             INSERT INTO {collation} VALUES {rows};
             UPDATE {collation} SET a = a + 1, n = n + 3 WHERE id % 7 = 0;
             UPDATE {collation} SET s = CONCAT(s, 'b') WHERE id % 11 = 0 AND LENGTH(s) < 18;
             DELETE FROM {collation} WHERE id % 5 = 0;
             REPLACE INTO {collation} VALUES {again};
             ALTER TABLE {collation} ADD KEY late (s DESC, a, id);",
        );
    }
    server.sql(&sql);
    replica.wait_for(&server);
    let snapshot = Snapshot::pin(replica.store());
    for collation in collations {
        let def = snapshot.catalog().table("i", collation).unwrap();
        let reader = TableReader::new(def);
        for (index, order, reverse) in [
            ("one", "s, n, id", "s DESC, n DESC, id DESC"),
            ("two", "a DESC, s, id", "a, s DESC, id DESC"),
            ("three", "n, a, s DESC, id DESC", "n DESC, a DESC, s, id"),
            ("late", "s DESC, a, id", "s, a DESC, id DESC"),
        ] {
            let by = TableReader::order_of(def, def.key(index).unwrap()).unwrap();
            assert!(reader.is_ordered(by), "{collation}");
            let range = || replica.store().range(&snapshot, &reader, by, &KeyRange::all()).unwrap();
            let id = |row: Result<store::OwnedRow, _>| i32::from_le_bytes(row.unwrap().key.try_into().unwrap());
            let theirs = |order: &str| -> Vec<i32> {
                let sql = format!("SELECT id FROM i.{collation} FORCE INDEX ({index}) ORDER BY {order}");
                let out = server.sql(&sql);
                out.lines().map(|line| line.parse().unwrap()).collect()
            };
            let ours: Vec<i32> = range().map(id).collect();
            assert!(ours.len() > 1500);
            assert_eq!(ours, theirs(order), "{collation} {index}");
            assert_eq!(range().rev().map(id).collect::<Vec<_>>(), theirs(reverse), "{collation} {index} backwards");
        }
    }
}

fn first_difference(wanted: &[u8], got: &[u8]) -> String {
    let at = wanted.iter().zip(got).take_while(|(left, right)| left == right).count();
    let around = |bytes: &[u8]| {
        let from = at.saturating_sub(40);
        String::from_utf8_lossy(&bytes[from.min(bytes.len())..(at + 40).min(bytes.len())]).into_owned()
    };
    format!(
        "at byte {at} of {} / {}:\n  mysql {:?}\n  dump  {:?}",
        wanted.len(),
        got.len(),
        around(wanted),
        around(got)
    )
}

fn an_sql_dump_loads_into_an_equal_server(server: &Server, replica: &Replica) {
    let other = Server::start_unsynced("cmp-loaded", &[]);
    let schema: String = TYPES
        .split(";\n")
        .filter(|sql| {
            let sql = sql.lines().filter(|line| !line.starts_with("--")).collect::<String>();
            sql.trim_start().starts_with("CREATE") || sql.trim_start().starts_with("USE")
        })
        .fold(String::new(), |all, sql| all + sql + ";\n");
    other.sql(&schema);
    let snapshot = Snapshot::pin(replica.store());
    let mut sql = Vec::new();
    let report =
        dump(&snapshot, replica.store(), &DumpOptions { no_create_info: true, ..DumpOptions::default() }, &mut sql)
            .unwrap();
    assert_eq!(report.tables as usize, tables(server).len());
    client(&other, &[], &sql);
    // The servers have different histories, so `verify_servers` refuses; the second one is then given the source's
    // GTIDs.
    let mut out = Vec::new();
    let options = VerifyOptions { advance_timeout: Duration::from_secs(1), ..VerifyOptions::default() };
    let refused = verify_servers(&server.login("root"), &other.login("root"), &options, &mut out);
    assert!(matches!(refused, Err(CompareError::SetsDiffer { .. })), "{refused:?}");
    let set = server.gtid_executed();
    other.sql(&format!("RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = '{set}'"));
    let report = verify_servers(&server.login("root"), &other.login("root"), &options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    println!("{text}");
    // A JSON value loaded from text loses its DECIMAL: 123.450 becomes 123.45.
    let different: Vec<_> = report.tables.iter().filter(|table| !table.equal()).collect();
    assert_eq!(different.len(), 1, "{text}");
    assert_eq!((different[0].table.as_str(), different[0].rows_differing()), ("documents", 1), "{text}");
    assert!(text.contains("\"dec\": 123.450"), "{text}");

    // Differences planted in the second server, outside its binary log.
    other.sql(
        "SET sql_log_bin = 0; UPDATE types.numbers SET e = e * 1.0000001 WHERE id = 1;
         DELETE FROM types.many WHERE id = 100; INSERT INTO types.keyless SELECT * FROM types.keyless WHERE a = 2;
         UPDATE types.lists SET a = 4 WHERE id = 4; UPDATE types.documents SET j = JSON_SET(j, '$.b', 3) WHERE id = 1;
         ALTER TABLE types.bytes MODIFY a BINARY(5); DROP TABLE types.parts; CREATE TABLE types.extra (id INT PRIMARY KEY)",
    );
    let mut out = Vec::new();
    let report = verify_servers(&server.login("root"), &other.login("root"), &options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    println!("{text}");
    let different: Vec<&str> =
        report.tables.iter().filter(|table| !table.equal()).map(|table| table.table.as_str()).collect();
    assert_eq!(different, ["bytes", "documents", "extra", "keyless", "lists", "many", "numbers", "parts"]);
    for wanted in [
        "different  id=1: e source 16777216 here 16777218",
        "only in source: id=100,",
        "only here: a=2, b=''",
        "types.parts  only in source",
        "types.extra  only here",
        "column `a`: in source BINARY(4), here BINARY(5)",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
}

fn differences_on_the_source_are_found(server: &Server, replica: &Replica) {
    server.sql(
        "SET sql_log_bin = 0; UPDATE types.texts SET e = 'Zurich' WHERE id = 1; DELETE FROM types.many WHERE id = 1;
         INSERT INTO types.keyless SELECT * FROM types.keyless WHERE a = 2; UPDATE types.temporal SET i = '2026-11-21 07:11:13' WHERE id = 1;
         CREATE TABLE types.unknown (id INT PRIMARY KEY); DROP TABLE types.shapes;
         ALTER TABLE types.beyond MODIFY c ENUM('?', '😀') CHARACTER SET utf16",
    );
    let (report, text) = replica.verify(&server.login("root"), &VerifyOptions::default());
    let report = report.unwrap();
    assert!(!report.equal());
    for wanted in [
        "different  id=1: e source 'Zurich' here 'Zürich€'",
        "only here: id=1, v='value 1'",
        "only in source: a=2,",
        "different  id=1: i source 2026-11-21 07:11:13 here 2026-11-21 07:11:12",
        "types.unknown  only in source",
        "types.shapes  only here",
        "types.beyond  column `c`: in source ENUM",
        "DIFFERENT: 7 of",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
    // Publishing continues.
    server.sql("INSERT INTO types.empty_table VALUES (1, 'later')");
    replica.wait_for(server);
}

#[test]
fn verify_works_while_writes_continue() {
    let Some(server) = Server::or_skip("cmp-live", &[]) else { return };
    let replica = Replica::follow(&server);
    server.sql(
        "CREATE DATABASE live; CREATE TABLE live.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT, KEY (v));
         CREATE TABLE live.log (what INT, who VARCHAR(20))",
    );
    let source = server.login("root");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (source, stop) = (&source, &stop);
            scope.spawn(move || {
                let mut connection = Connection::connect(source).unwrap();
                let mut n = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    let change = |connection: &mut Connection| {
                        connection.exec("BEGIN")?;
                        connection.exec(&format!("INSERT INTO live.t (v) VALUES ({n}), ({writer})"))?;
                        connection.exec(&format!("INSERT INTO live.log VALUES ({}, 'w{writer}')", n % 5))?;
                        if n.is_multiple_of(3) {
                            connection
                                .exec(&format!("DELETE FROM live.log WHERE what = 4 AND who = 'w{writer}' LIMIT 1"))?;
                        }
                        connection.exec("COMMIT")
                    };
                    match change(&mut connection) {
                        // ER_LOCK_DEADLOCK
                        Err(error) if error.server_code() != Some(1213) => panic!("{error}"),
                        _ => {}
                    }
                }
            });
        }
        let mut sets = Vec::new();
        for _ in 0..5 {
            let (report, text) = replica.verify(&source, &VerifyOptions::default());
            match report {
                Ok(report) if report.equal() => sets.push(report.executed.unwrap().count()),
                other => {
                    stop.store(true, Ordering::Relaxed);
                    panic!("{other:?}\n{text}");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(sets.is_sorted() && sets[0] < sets[4], "{sets:?}");
    });

    // A stopped replica: equal at exactly its set, refused at others with both sets.
    let set = replica.wait_for(&server);
    let engine = Engine { store: replica.store(), watermark: None };
    let mut out = Vec::new();
    assert!(verify_store(&engine, &source, &VerifyOptions::default(), &mut out).unwrap().equal());
    replica.pipeline().publisher.hold();
    server.sql("INSERT INTO live.t (v) VALUES (1)");
    let refused = verify_store(&engine, &source, &VerifyOptions::default(), &mut out).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains(&set.to_string()) && text.contains("only in source:"), "{text}");
    replica.pipeline().publisher.release();
    replica.wait_for(&server);

    // A long statement blocks the lock: writers wait for a second at a time, then verify gives up.
    let mut long = Connection::connect(&source).unwrap();
    let handle = std::thread::spawn(move || long.query("SELECT SLEEP(8) FROM live.t LIMIT 1").map(|_| ()));
    std::thread::sleep(Duration::from_millis(500));
    let options = VerifyOptions { lock_timeout: Duration::from_secs(2), ..VerifyOptions::default() };
    let (refused, _) = replica.verify(&source, &options);
    assert!(matches!(refused, Err(CompareError::NoLock { .. })), "{refused:?}");
    let _ = handle.join();
    assert!(replica.verify(&source, &VerifyOptions::default()).0.unwrap().equal());

    // A prepared XA transaction is named.
    let mut xa = Connection::connect(&source).unwrap();
    for sql in ["XA START 'trx1'", "INSERT INTO live.t (v) VALUES (77)", "XA END 'trx1'", "XA PREPARE 'trx1'"] {
        xa.exec(sql).unwrap();
    }
    let (left, right) = (server.login("root"), server.login("root"));
    let mut out = Vec::new();
    let report = verify_servers(&left, &right, &VerifyOptions::default(), &mut out).unwrap();
    assert_eq!(report.prepared_xa, ["trx1"]);
    assert!(report.equal());
}

#[test]
fn a_mariadb_and_a_mysql_are_compared() {
    let Some(left) = Server::mariadb_or_skip("cmp-mariadb", &[]) else { return };
    let right = Server::start_unsynced("cmp-mysql", &[]);
    let sql = "CREATE DATABASE shop DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci; USE shop;
        CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(10,2), f FLOAT, d DOUBLE, made DATETIME(3),
            at TIMESTAMP(6) NULL, t TIME(2), y YEAR, state ENUM('new', 'old'), flags SET('a', 'b'), b BIT(5), raw VARBINARY(9), c CHAR(5));
        INSERT INTO items VALUES (1, 'näme', 12.50, 16777217, 0.1, '2026-01-02 03:04:05.678', '2026-01-02 03:04:05.678901',
            '-01:02:03.45', 2026, 'old', 'a,b', b'10101', 'x\\0y', 'c '), (2, '', -1, -1e-3, 1e300, NULL, NULL, NULL, NULL, NULL, '', NULL, '', '');
        CREATE TABLE order_lines (a INT, b TEXT); INSERT INTO order_lines VALUES (1, 'x'), (1, 'x'), (2, NULL);";
    left.sql(sql);
    right.sql(sql);
    let run = || {
        let mut out = Vec::new();
        let (source, replica) = (left.login("root"), right.login("root"));
        let report = verify_servers(&source, &replica, &VerifyOptions::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        println!("{text}");
        (report, text)
    };
    let (report, text) = run();
    assert!(report.equal(), "{text}");
    assert!(text.contains("has no gtid_executed"), "{text}");
    right.sql("UPDATE shop.items SET f = 16777218 WHERE id = 1; DELETE FROM shop.order_lines WHERE a = 1 LIMIT 1");
    let (report, text) = run();
    assert_eq!(report.different(), 2, "{text}");
    assert!(text.contains("f source 16777216 here 16777218") && text.contains("only in source: a=1"), "{text}");
}
