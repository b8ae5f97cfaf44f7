//! `dump` of a replica, loaded into a server that has nothing: rows are equal by `verify`, definitions by text. As one
//! stream and as files, beside writers; and what full disks, kills and closed pipes leave.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use whole_program_tests::all_types::{FORMATS, changes, create, settings, types};
use whole_program_tests::compare::assert_equal;
use whole_program_tests::replica::Unread;
use whole_program_tests::{
    Ran, Replica, Server, SmallDisk, binary, folder, repository, slipstream, slipstream_with, without_counter,
};

/// Definitions with a part of every kind. Children come before their parents by name.
const TABLES: &str = "
CREATE DATABASE `shop of 'x'` CHARACTER SET latin1;
USE `shop of 'x'`;
CREATE TABLE zz_parent (id INT PRIMARY KEY AUTO_INCREMENT, u VARCHAR(20) NOT NULL UNIQUE COMMENT 'it''s');
CREATE TABLE child (
  id BIGINT AUTO_INCREMENT PRIMARY KEY, parent INT, n DECIMAL(9,2) DEFAULT '1.50', g INT AS (n * 2) VIRTUAL,
  s INT AS (id_of + 1) STORED, id_of INT NOT NULL DEFAULT 0, d DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE NOW(3),
  t TIMESTAMP NULL DEFAULT '2020-01-02 03:04:05', e ENUM('a''b', 'c\\\\d') DEFAULT 'a''b', x TEXT DEFAULT ('x'),
  b VARBINARY(9) DEFAULT x'ff00', hidden INT INVISIBLE DEFAULT 7, CHECK (n >= 0), CONSTRAINT odd CHECK (id_of <> 5) NOT ENFORCED,
  KEY f ((id_of + 1)), KEY k (e, n DESC) COMMENT 'k', KEY i (n) INVISIBLE, FULLTEXT KEY ft (x),
  CONSTRAINT `to``parent` FOREIGN KEY (parent) REFERENCES zz_parent (id) ON DELETE CASCADE
) COMMENT='a ''table''; of\n two lines' ROW_FORMAT=COMPACT STATS_PERSISTENT=1;
CREATE TABLE parts (id INT, w DATE, PRIMARY KEY (id, w)) PARTITION BY RANGE (YEAR(w)) SUBPARTITION BY HASH (id) SUBPARTITIONS 2 (
  PARTITION a VALUES LESS THAN (2000) COMMENT 'old', PARTITION b VALUES LESS THAN MAXVALUE);
CREATE TABLE zeros (id INT AUTO_INCREMENT PRIMARY KEY, d DATE NOT NULL, y YEAR) ENGINE=MyISAM;
CREATE TABLE keyless (a INT, b JSON);
SET sql_generate_invisible_primary_key = 1; CREATE TABLE invisible (a INT);
SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
INSERT INTO zz_parent VALUES (1, 'one'), (2, 'two''s'), (0, 'zero');
INSERT INTO child (parent, n, id_of, e, x) VALUES (1, 1, 5, 1, 'a; b\n-- c'), (2, 2.5, 6, 2, NULL), (0, 0, 7, NULL, '\\\\');
INSERT INTO parts VALUES (1, '1999-05-05'), (2, '2020-02-02'), (3, '1999-05-06');
INSERT INTO zeros VALUES (0, '0000-00-00', 0), (7, '2024-00-00', 2024);
INSERT INTO keyless VALUES (1, '{\"a\": [1, null]}'), (1, '{\"a\": [1, null]}'), (NULL, NULL);
INSERT INTO invisible VALUES (5), (6);
ALTER TABLE child ADD added INT NOT NULL DEFAULT 3 AFTER n;
";

#[test]
fn a_dump_makes_the_same_databases_elsewhere() {
    let Some(server) = Server::or_skip("dumped", &["--default-time-zone=+03:00"]) else { return };
    server.sql(TABLES);
    server.sql("CREATE DATABASE types");
    let mut replica = Replica::follow(&server, &folder("dumped"), &[]);
    // What the copy took, and what came by the log.
    let mut types = types(&["latin1", "utf8mb4", "binary", "sjis", "utf32"]);
    // A JSON document goes through text, which turns some of its scalars into others.
    types.retain(|ty| !ty.sql.starts_with("JSON"));
    server.sql(&format!("USE types;\n{}", types.iter().map(create).collect::<String>()));
    let mut counts = BTreeMap::new();
    let mut sql = settings(0);
    for ty in &types {
        sql.push_str(&changes(ty, 0, counts.entry(ty.name.clone()).or_default()));
    }
    assert!(!FORMATS.is_empty());
    server.sql(&format!("USE types;\n{sql}"));
    replica.catch_up(&server);
    let dumped = slipstream(&["dump", "--data", replica.data()]).expect(0, &[]).out.clone();
    let in_files = folder("dumped-files");
    into_files(&replica.data, &in_files, &["--compress=zstd"]).expect(0, &["rows"]);
    replica.stop();
    let set = dumped.lines().find_map(|line| line.strip_prefix("-- GTID set: ")).expect("the GTID set").to_owned();

    let other = Server::start("dumped-into", &["--default-time-zone=-05:00", "--sql-mode=ANSI,TRADITIONAL"]);
    other.client(&[], &dumped).unwrap();
    other.sql(&format!("RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = '{set}'"));
    let equal = slipstream(&["verify", "--source", &server.url("repl"), "--replica", &other.url("repl")]);
    equal.expect(0, &["equal"]);
    let names = server.sql(
        "SELECT CONCAT('`', TABLE_SCHEMA, '`.`', TABLE_NAME, '`') FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA IN ('types') OR TABLE_SCHEMA LIKE 'shop%'",
    );
    assert!(names.lines().count() > 80, "{names}");
    let shows = names.lines().map(|name| format!("SHOW CREATE TABLE {name};\n")).collect::<String>();
    let shows = format!("SET sql_mode = '', time_zone = '+00:00'; SHOW CREATE DATABASE `shop of 'x'`; {shows}");
    // With the next table's name in front of its statement.
    let of = |server: &Server| server.sql(&shows).split("\tCREATE ").map(without_counter).collect::<Vec<_>>();
    let (here, there) = (of(&server), of(&other));
    assert!(here.len() > 80, "{}", here.len());
    here.iter().zip(&there).for_each(|(here, there)| assert_eq!(there, here));
    // The same from files, each loaded by itself.
    let drop_all = "DROP DATABASE `shop of 'x'`; DROP DATABASE types; RESET BINARY LOGS AND GTIDS";
    other.sql(&format!("SET foreign_key_checks = 0; {drop_all}"));
    load(&other, &in_files);
    other.sql(&format!("RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = '{set}'"));
    slipstream(&["verify", "--source", &server.url("repl"), "--replica", &other.url("repl")]).expect(0, &["equal"]);
    of(&other).iter().zip(&here).for_each(|(there, here)| assert_eq!(there, here));
    // What is written from now on is numbered as at the source.
    let next = "INSERT INTO `shop of 'x'`.zz_parent (u) VALUES ('next'); SELECT LAST_INSERT_ID()";
    assert_eq!(other.sql(next), server.sql(next));
}

/// Statements of `tests/ddl/definitions.sql`, each with tables of its own.
fn definitions() -> Vec<String> {
    let text = std::fs::read_to_string(repository().join("tests/ddl/definitions.sql")).unwrap();
    let forms = text.split("\n== ").skip(1).enumerate();
    let statement = |(number, form): (usize, &str)| {
        let parts: Vec<&str> = form.split("\n----\n").skip(1).collect();
        assert!(!parts.is_empty(), "{form}");
        parts.join(";\n").replace("{t}", &format!("f{number}"))
    };
    forms.map(statement).collect()
}

/// CREATE TABLE of each table of database `d` as the source shows it, in the order of the names.
fn shown(server: &Server) -> Vec<String> {
    let names = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd' ORDER BY 1";
    let shows = server.sql(names).lines().map(|name| format!("SHOW CREATE TABLE d.`{name}`;")).collect::<String>();
    let shown = server.sql(&format!("SET sql_mode = '', time_zone = '+00:00'; {shows}"));
    // Each statement has its table's name in front; at its end is that of the next.
    let mut all: Vec<String> = Vec::new();
    for line in shown.lines() {
        match line.split_once("\tCREATE TABLE ") {
            Some((_, rest)) => all.push(format!("CREATE TABLE {rest}")),
            None => all.last_mut().unwrap().push_str(&format!("\n{line}")),
        }
    }
    all.iter().map(|text| without_counter(text)).collect()
}

/// The same of what a dump writes.
fn written(dump: &str) -> Vec<String> {
    let ends = dump.split("\nCREATE TABLE ").skip(1);
    ends.map(|rest| format!("CREATE TABLE {}", rest.split_once(";\n").unwrap().0)).collect()
}

/// Every kind of definition is written as the source shows it, whether it came by the log, in the source's own time
/// zone too, or with a copy; and what is loaded elsewhere is the same again.
#[test]
fn definitions_are_written_as_the_source_has_them() {
    let server = Server::start_in_zone("dumped-definitions", "EET-2EEST,M3.5.0/3,M10.5.0/4");
    server.sql("CREATE DATABASE d; GRANT LOCK TABLES, RELOAD, BACKUP_ADMIN, XA_RECOVER_ADMIN ON *.* TO repl");
    let mut replica = Replica::follow(&server, &folder("dumped-definitions"), &[]);
    for statement in definitions() {
        server.client(&["--comments"], format!("USE d;\n{statement}")).unwrap();
    }
    replica.catch_up(&server);
    let of_the_log = slipstream(&["dump", "--data", replica.data(), "d.*"]).expect(0, &[]).out.clone();
    let here = shown(&server);
    assert!(here.len() > 50, "{}", here.len());
    assert_eq!(written(&of_the_log).len(), here.len());
    written(&of_the_log).iter().zip(&here).for_each(|(ours, theirs)| assert_eq!(ours, theirs));
    replica.stop();

    // What the log no longer has comes with the copy.
    let last = server.sql("FLUSH BINARY LOGS; SHOW BINARY LOG STATUS");
    server.sql(&format!("PURGE BINARY LOGS TO '{}'", last.split('\t').next().unwrap()));
    let mut copy = Replica::follow(&server, &folder("dumped-definitions-copy"), &[]);
    copy.catch_up(&server);
    let of_the_copy = slipstream(&["dump", "--data", copy.data(), "d.*"]).expect(0, &[]).out.clone();
    written(&of_the_copy).iter().zip(&here).for_each(|(ours, theirs)| assert_eq!(ours, theirs));
    assert_eq!(written(&of_the_copy).len(), here.len());
    copy.stop();

    let other = Server::start("dumped-definitions-into", &["--default-time-zone=-05:00"]);
    let collations =
        "SELECT TABLE_NAME, COLUMN_NAME, COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.COLUMNS
        WHERE TABLE_SCHEMA = 'd' ORDER BY TABLE_NAME, ORDINAL_POSITION";
    for dump in [of_the_log, of_the_copy] {
        other.client(&["--comments"], &dump).unwrap();
        // What is loaded names the collations that its text implies.
        let implied = |text: &String| text.replace(" COLLATE binary", "");
        shown(&other).iter().zip(&here).for_each(|(there, here)| assert_eq!(implied(there), implied(here)));
        assert_eq!(other.sql(collations), server.sql(collations));
        other.sql("DROP DATABASE d");
    }
}

/// A table whose definition cannot be told does not keep the others from being dumped.
#[test]
fn what_cannot_be_written_is_left_out_by_name() {
    let Some(server) = Server::or_skip("dumped-less", &[]) else { return };
    // The source writes the text in the column's character set.
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.a (id INT PRIMARY KEY); INSERT INTO d.a VALUES (1); CREATE TABLE d.c LIKE d.a;
         CREATE DATABASE e; CREATE TABLE e.x (id INT)",
    );
    let mut replica = Replica::follow(&server, &folder("dumped-less"), &[]);
    let data = replica.data.clone();
    server.sql(
        "SET NAMES latin1; CREATE TABLE d.b (a VARCHAR(9), g VARCHAR(9) AS (CONCAT(a, 'y')));
         INSERT INTO d.b (a) VALUES ('z')",
    );
    replica.catch_up(&server);
    let other = Server::start("dumped-less-into", &[]);
    let tables =
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ('d', 'e') ORDER BY 1, 2";
    let mut running = Some(replica);
    for when in ["running", "stopped"] {
        let dump = |options: &[&str]| slipstream(&[&["dump", "--data", data.to_str().unwrap()], options].concat());
        let ran = dump(&[]);
        ran.expect(17, &["`d`.`b`", "column `g`", "--ignore-table"]);
        assert!(
            ran.out.contains("-- LEFT OUT: ") && ran.out.contains("-- Dump completed: 3 tables, 1 rows"),
            "{}",
            ran.out
        );
        other.client(&[], &ran.out).unwrap();
        assert_eq!(other.sql(tables), "d\ta\nd\tc\ne\tx\n");
        other.sql("DROP DATABASE d; DROP DATABASE e");

        let ran = dump(&["--ignore-table=d.b", "--ignore-table", "e.*"]);
        assert!(!ran.expect(0, &[]).out.contains("LEFT OUT"), "{}", ran.out);
        other.client(&[], &ran.out).unwrap();
        assert_eq!(other.sql(tables), "d\ta\nd\tc\n");
        other.sql("DROP DATABASE d");
        let rows = dump(&["--no-create-info", "d.b"]);
        assert!(rows.expect(0, &[]).out.contains("'z'"), "{}", rows.out);
        dump(&["--format=tab", "--ignore-table=d.a", "d.b", "d.a"]).expect(0, &["z"]);
        dump(&["--ignore-table=b"]).expect(2, &["'b' is not SCHEMA.TABLE"]);

        let to = folder(&format!("dumped-less-{when}"));
        into_files(&data, &to, &[]).expect(17, &["`d`.`b`", "3 tables, 1 rows"]);
        let (files, list) = files_of(&to);
        assert!(list["left_out"][0].as_str().unwrap().contains("`d`.`b`"), "{list}");
        assert_eq!(files.keys().collect::<Vec<_>>(), ["d.a.sql", "d.c.sql", "e.x.sql", "schema.sql"]);
        load(&other, &to);
        assert_eq!(other.sql(tables), "d\ta\nd\tc\ne\tx\n");
        other.sql("DROP DATABASE d; DROP DATABASE e");
        if let Some(replica) = running.take() {
            replica.stop();
        }
    }
}

/// mysqldump of all databases begins with `mysql`, and ends without a word where that is not listed.
#[test]
fn mysqldump_of_a_replica_is_loaded_elsewhere() {
    let Some(server) = Server::or_skip("mysqldumped", &["--default-time-zone=+03:00"]) else { return };
    server.sql(TABLES);
    let (mut replica, socket) = Replica::with_socket(&server, &folder("mysqldumped"), &[]);
    replica.catch_up(&server);
    let dump = |arguments: &[&str]| {
        let mut command = Command::new(repository().join("testbed/mysql"));
        command.args(["run", "mysqldump", "--no-defaults", "--protocol=SOCKET", "--user=admin", "--hex-blob"]);
        command.arg(format!("--socket={}", socket.display())).args(["--no-tablespaces", "--single-transaction"]);
        Ran::from(command.args(arguments).output().unwrap())
    };
    let other = Server::start("mysqldumped-into", &[]);
    for arguments in [&["--all-databases"][..], &["--databases", "shop of 'x'"]] {
        let ran = dump(arguments);
        ran.expect(0, &["INSERT INTO"]);
        other.sql("DROP DATABASE IF EXISTS `shop of 'x'`; RESET BINARY LOGS AND GTIDS");
        other.client(&[], &ran.out).unwrap();
        assert_eq!(other.gtid_executed(), server.gtid_executed(), "{arguments:?}");
        slipstream(&["verify", "--source", &server.url("repl"), "--replica", &other.url("repl")]).expect(0, &["equal"]);
    }
    replica.stop();
}

/// ALTER TABLE cuts a TEXT that keeps its character set at a byte, even inside a character: as text, dumped and through
/// the port, it is what the server sends; as SQL it is refused, because nothing can load it.
#[test]
fn text_that_ends_inside_a_character() {
    let Some(server) = Server::or_skip("cuttext", &[]) else { return };
    let charsets = [
        "gb18030", "sjis", "cp932", "ujis", "eucjpms", "euckr", "gbk", "big5", "gb2312", "ucs2", "utf16", "utf16le",
        "utf32", "utf8mb3", "utf8mb4", "latin1",
    ];
    let mut sql = "CREATE DATABASE d; USE d; SET sql_mode = '';".to_owned();
    for charset in charsets {
        sql += &format!("CREATE TABLE {charset} (id INT PRIMARY KEY, v TEXT CHARACTER SET {charset});");
        for (id, front) in ["", "a", "aa", "aaa"].into_iter().enumerate() {
            let characters = if charset == "latin1" { "é" } else { "一" };
            sql += &format!("INSERT INTO {charset} VALUES ({id}, CONCAT('{front}', REPEAT('{characters}', 300)));");
        }
        if ["utf16", "utf16le", "utf32", "utf8mb4", "gb18030"].contains(&charset) {
            for (id, front) in ["", "a", "aa", "aaa"].into_iter().enumerate() {
                sql += &format!("INSERT INTO {charset} VALUES (1{id}, CONCAT('{front}', REPEAT('😀', 300)));");
            }
        }
        sql += &format!("ALTER TABLE {charset} MODIFY v TINYTEXT CHARACTER SET {charset};");
    }
    let (mut replica, socket) = Replica::with_socket(&server, &folder("cuttext"), &[]);
    server.sql(&sql);
    assert_equal(&server, &mut replica, &["d"]);
    for charset in charsets {
        let table = format!("d.{charset}");
        let select = format!("SELECT * FROM {table}");
        let wanted = server.client(&["--column-names"], &select).unwrap();
        let dumped = slipstream(&["dump", "--data", replica.data(), "--format=tab", &table]);
        assert_eq!(dumped.expect(0, &[]).out, wanted, "{charset}");
        let mut command = Command::new(repository().join("testbed/mysql"));
        command.args(["run", "mysql", "--no-defaults", "--protocol=SOCKET", "--user=admin", "--batch", "--raw"]);
        command.arg(format!("--socket={}", socket.display())).args(["--default-character-set=utf8mb4", "-e", &select]);
        assert_eq!(Ran::from(command.output().unwrap()).expect(0, &[]).out, wanted, "{charset} through the port");
    }
    slipstream(&["dump", "--data", replica.data(), "d.latin1"]).expect(0, &[]);
    replica.stop();
}

/// Dumps a folder into files.
fn into_files(data: &Path, to: &Path, options: &[&str]) -> Ran {
    let [data, to] = [data, to].map(|path| path.to_str().unwrap());
    slipstream(&[&["dump", "--data", data, "--to", to, "--threads=3"], options].concat())
}

/// Files of a dump by name, decompressed, and its list of files.
fn files_of(folder: &Path) -> (BTreeMap<String, String>, serde_json::Value) {
    let (mut files, mut list) = (BTreeMap::new(), serde_json::Value::Null);
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (name, bytes) = (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap());
        if name == "dump.json" {
            list = serde_json::from_slice(&bytes).unwrap();
        } else {
            let bytes = if name.ends_with(".zst") { zstd::decode_all(&bytes[..]).unwrap() } else { bytes };
            files.insert(name.trim_end_matches(".zst").to_owned(), String::from_utf8(bytes).unwrap());
        }
    }
    assert_eq!(list["files"].as_array().unwrap().len(), files.len(), "{list}");
    (files, list)
}

/// Loads the definitions, then each file by a session of its own.
fn load(server: &Server, folder: &Path) {
    let (mut files, _) = files_of(folder);
    server.client(&[], files.remove("schema.sql").unwrap()).unwrap();
    for (name, text) in files {
        server.client(&[], text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// A server with a table of megabytes and two that change together, and a replica with all of it in one run of files.
fn filled(name: &str) -> Option<(Server, Replica)> {
    let server = Server::or_skip(name, &[])?;
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.a (id INT PRIMARY KEY, n INT); CREATE TABLE d.b LIKE d.a;
         CREATE TABLE d.big (id INT PRIMARY KEY, v VARCHAR(2000)); SET cte_max_recursion_depth = 10000;
         INSERT INTO d.big SELECT n, REPEAT(SHA2(n, 512), 10) FROM
           (WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 4000) SELECT n FROM s) x;
         INSERT INTO d.a SELECT id, 0 FROM d.big WHERE id <= 500; INSERT INTO d.b SELECT * FROM d.a",
    );
    // Every file of the tree begins a file of the dump.
    let mut replica = Replica::spawn(&server.url("repl"), &folder(name), &["--cut-interval=100ms"], |command| {
        command.env("SLIPSTREAM_FAILPOINT", "dump_part_bytes=1");
    });
    replica.catch_up(&server);
    slipstream(&["check-store", "--data", replica.data()]).expect(0, &[]);
    Some((server, replica))
}

/// A large table comes in several files. Beside writers all files are of one snapshot, whose GTID set is in each.
#[test]
fn files_are_of_one_snapshot() {
    let Some((server, mut replica)) = filled("dumped-parts") else { return };
    server.sql("INSERT INTO d.big SELECT id + 10000, v FROM d.big WHERE id <= 50");
    replica.catch_up(&server);
    replica.wait_until("a cut", |status| status["store"]["last_cut"] == status["position"]["watermark"]);
    let to = folder("dumped-parts-files");
    into_files(&replica.data, &to, &[]).expect(0, &["3 tables, 5050 rows", "in 5 files"]);
    let names: Vec<_> = files_of(&to).0.into_keys().collect();
    assert_eq!(names, ["d.a.sql", "d.b.sql", "d.big.00000.sql", "d.big.00001.sql", "schema.sql"]);
    into_files(&replica.data, &to, &[]).expect(2, &["exists"]);
    let other = Server::start("dumped-parts-into", &[]);
    load(&other, &to);
    let set = files_of(&to).1["gtid_executed"].as_str().unwrap().to_owned();
    other.sql(&format!("RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = '{set}'"));
    slipstream(&["verify", "--source", &server.url("repl"), "--replica", &other.url("repl")]).expect(0, &["equal"]);

    let script = "UPDATE d.a SET n = n + 1; UPDATE d.b SET n = n + 1; COMMIT;".repeat(200);
    let beside = std::thread::scope(|scope| {
        let writer = scope.spawn(|| server.sql(&format!("SET autocommit = 0; {script}")));
        let mut seen = BTreeSet::new();
        for number in 0.. {
            let to = folder(&format!("dumped-beside-{number}"));
            let is_over = writer.is_finished();
            into_files(&replica.data, &to, &["--compress=zstd"]).expect(0, &[]);
            let (files, list) = files_of(&to);
            let set = list["gtid_executed"].as_str().unwrap();
            let head = format!("-- GTID set: {set}\n");
            assert!(!set.is_empty() && files.values().all(|text| text.contains(&head)), "{set}");
            let (a, b) = (values(&files, "d.a."), values(&files, "d.b."));
            assert!(a == b && a.len() == 1, "rows of several moments: {a:?} {b:?}");
            seen.extend(a);
            if is_over {
                break;
            }
        }
        seen
    });
    assert!(beside.len() > 1, "no dump was made beside the writer: {beside:?}");
    // Of the folder that a kill leaves: what the relay log holds beyond the last cut is in it.
    replica.catch_up(&server);
    let data = replica.data.clone();
    replica.kill();
    let to = folder("dumped-killed-files");
    into_files(&data, &to, &[]).expect(0, &[]);
    assert_eq!(values(&files_of(&to).0, "d.a."), BTreeSet::from(["200".to_owned()]));
}

/// Values of the second column in the files of a table.
fn values(files: &BTreeMap<String, String>, of: &str) -> BTreeSet<String> {
    let files = files.iter().filter(|(name, _)| name.starts_with(of));
    let rows = files.flat_map(|(_, text)| text.lines()).filter(|line| line.starts_with('('));
    rows.map(|row| row.split([',', ')']).nth(1).unwrap().to_owned()).collect()
}

/// Without its end a dump is never taken for a whole one, and the reason is told.
#[test]
fn what_is_not_whole_does_not_look_so() {
    let Some((server, replica)) = filled("dumped-broken") else { return };
    let data = replica.data.clone();
    let text = data.to_str().unwrap();
    if let Some(disk) = SmallDisk::new("dumped-disk", 2) {
        let to = disk.path().join("dump");
        into_files(&data, &to, &[]).expect(8, &["dump.part/", "No space left", "free space"]);
        assert_eq!(std::fs::read_dir(disk.path()).unwrap().count(), 0, "something is left");
        let file = disk.path().join("dump.sql");
        let mut command = Command::new(binary());
        command.args(["dump", "--no-defaults", "--data", text]).stdout(File::create(&file).unwrap());
        Ran::from(command.stderr(Stdio::piped()).output().unwrap()).expect(8, &["No space left", "free space"]);
        assert!(!std::fs::read_to_string(&file).unwrap().contains("-- Dump completed"));
    }
    let to = folder("dumped-broken-files");
    for write in [1, 2, 5] {
        let killed = slipstream_with(&["dump", "--data", text, "--to", to.to_str().unwrap()], |command| {
            command.env("SLIPSTREAM_FAILPOINT", format!("die_at=save:{write}"));
        });
        assert_eq!(killed.code, 128 + 9, "{}", killed.err);
        assert!(!to.exists());
    }
    into_files(&data, &to, &[]).expect(0, &["3 tables, 5000 rows"]);
    assert!(!to.with_extension("part").exists());

    let broken = || {
        let mut command = Command::new(binary());
        command.args(["dump", "--no-defaults", "--data", text]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 100]).unwrap();
        drop(out);
        Ran::from(child.wait_with_output().unwrap()).expect(1, &["closed before the dump was complete"]);
    };
    broken();
    // The pipe holds the client, and the client the replica.
    let mut unread = Unread::start(&["dump", "--data", text]);
    assert!(unread.first_line().contains("Slipstream dump"));
    replica.kill();
    let ended = unread.end();
    ended.expect(1, &["before it had sent all"]);
    assert!(!ended.out.contains("-- Dump completed"));
    broken();
    drop(server);
}
