use std::collections::BTreeMap;

use base::{Gtid, SequenceNumber, key_hash};
use catalog::{Catalog, StatementContext};
use store::{CheckImages, OwnedShape, RowChange, RowTarget, WriteContext};

use super::*;
use crate::dump_parts::{DumpContents, MANIFEST, dump_parts};
use crate::row_source::table_checksum;

struct Rows {
    store: Arc<Store>,
    sequence: u64,
}

impl Rows {
    fn new(statements: &[&str]) -> Rows {
        let mut catalog = Catalog::new(0);
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        for sql in statements {
            catalog = catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
        }
        Rows { store: Arc::new(Store::new(4, catalog)), sequence: 0 }
    }

    fn apply(&mut self, table: &str, key: &[u8], change: RowChange<'_>) {
        let state = self.store.visibility().current();
        let def = Arc::clone(state.catalog.table("d", table).unwrap());
        let hash = key_hash(def.id.0, key);
        self.sequence += 1;
        let (layers, lane_index) = (self.store.visibility().layers(), self.store.lane_of(hash));
        let mut lane = layers.active.lane_mut(lane_index).unwrap();
        let shape = OwnedShape::of(&def);
        let target = RowTarget { lane: lane_index, shape: &shape.lend(), hash, key };
        let (sequence, check) = (self.sequence, CheckImages::All);
        lane.apply(&target, change, &WriteContext { sequence, oldest_needed: 0, check, layers: &layers }).unwrap();
        drop(lane);
        let gtid: Gtid = format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{}", self.sequence).parse().unwrap();
        self.store.visibility().advance(SequenceNumber(self.sequence), |set| {
            set.add(gtid);
        });
    }

    fn dump(&self, options: &DumpOptions) -> Result<String, CompareError> {
        let mut out = Vec::new();
        let snapshot = Snapshot::pin(&self.store);
        let report = dump(&snapshot, &self.store, options, &mut out)?;
        assert_eq!(report.bytes, out.len() as u64);
        Ok(String::from_utf8(out).unwrap())
    }
}

fn tab(names: &[&str]) -> DumpOptions {
    DumpOptions { tables: TableFilter::parse(names), format: DumpFormat::Tab, ..DumpOptions::default() }
}

fn keyed() -> Rows {
    let mut rows = Rows::new(&[
        "CREATE DATABASE d",
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), b VARBINARY(9), i INT INVISIBLE) DEFAULT CHARSET utf8mb4",
        "CREATE TABLE k (a SMALLINT) DEFAULT CHARSET utf8mb4",
    ]);
    for (id, v) in [(300i32, "it's\ta\\b"), (-1, "x"), (2, "y")] {
        let mut image = vec![if id == 2 { 0b1110 } else { 0 }];
        image.extend(id.to_le_bytes());
        if id != 2 {
            image.push(v.len() as u8);
            image.extend(v.as_bytes());
            image.extend([2, 0xAB, 0x0C]);
            image.extend(7i32.to_le_bytes());
        }
        rows.apply("t", &id.to_le_bytes(), RowChange::Insert { image: &image });
    }
    for value in [5i16, -3, 5] {
        let mut image = vec![0];
        image.extend(value.to_le_bytes());
        rows.apply("k", &image.clone(), RowChange::AddOne { later: false });
    }
    rows
}

#[test]
fn tab_form_sorts_by_key_and_repeats_copies() {
    let rows = keyed();
    let mut options = tab(&["d.t"]);
    options.binary_as_hex = true;
    assert_eq!(rows.dump(&options).unwrap(), "id\tv\tb\n-1\tx\t0xAB0C\n2\tNULL\tNULL\n300\tit's\ta\\b\t0xAB0C\n");
    options.all_columns = true;
    assert_eq!(
        rows.dump(&options).unwrap(),
        "id\tv\tb\ti\n-1\tx\t0xAB0C\t7\n2\tNULL\tNULL\tNULL\n300\tit's\ta\\b\t0xAB0C\t7\n"
    );
    assert_eq!(rows.dump(&tab(&["k"])).unwrap(), "a\n-3\n5\n5\n");
    let mut both = tab(&[]);
    both.binary_as_hex = true;
    let all = rows.dump(&both).unwrap();
    assert!(all.starts_with("-- d.k\na\n-3\n5\n5\n-- d.t\nid\tv\tb\n"), "{all}");
}

#[test]
fn sql_form_loads() {
    let rows = keyed();
    let sql = rows.dump(&DumpOptions::default()).unwrap();
    assert!(sql.contains("-- GTID set: 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-6\n"), "{sql}");
    assert!(sql.contains("SET NAMES utf8mb4 /*!999999 \\C utf8mb4 */;\nSET time_zone = '+00:00';\n"), "{sql}");
    assert!(sql.contains("INSERT INTO `d`.`k` (`a`) VALUES\n(-3),\n(5),\n(5);\n"), "{sql}");
    let want = "INSERT INTO `d`.`t` (`id`,`v`,`b`,`i`) VALUES\n(-1,'x',0xAB0C,7),\n(2,NULL,NULL,NULL),\n(300,";
    assert!(sql.contains(want), "{sql}");
    let create = "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `d` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE \
         utf8mb4_0900_ai_ci */ /*!80016 DEFAULT ENCRYPTION='N' */;\nUSE `d`;\n\nCREATE TABLE `k` (\n  `a` smallint \
         DEFAULT NULL\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;\n\nCREATE TABLE `t` (";
    assert!(sql.find(create).is_some_and(|at| at < sql.find("INSERT").unwrap()), "{sql}");
    let rows_only = rows.dump(&DumpOptions { no_create_info: true, ..DumpOptions::default() }).unwrap();
    assert!(!rows_only.contains("\nCREATE") && rows_only.contains(want), "{rows_only}");
}

/// Files of a dump in parts by name, decompressed; with the list of them.
fn in_parts(rows: &Rows, options: &DumpOptions) -> (BTreeMap<String, String>, DumpContents) {
    let snapshot = Snapshot::pin(&rows.store);
    let mut stream = Vec::new();
    dump_parts(&snapshot, &rows.store, options, 3, &mut stream).unwrap();
    let mut files = crate::dump_parts::tests::files_of(&stream, stream.len());
    let contents: DumpContents = serde_json::from_slice(&files.remove(MANIFEST).unwrap()).unwrap();
    let sizes: Vec<_> = files.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect();
    assert!(contents.files.iter().map(|file| (file.name.clone(), file.bytes)).eq(sizes), "{contents:?}");
    let text = |(name, bytes): (String, Vec<u8>)| {
        let bytes = if name.ends_with(".zst") { zstd::decode_all(&bytes[..]).unwrap() } else { bytes };
        (name, String::from_utf8(bytes).unwrap())
    };
    (files.into_iter().map(text).collect(), contents)
}

#[test]
fn parts_hold_what_the_whole_holds() {
    let mut rows = keyed();
    let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
    let sql = "CREATE TABLE `a.b/c%` (id INT PRIMARY KEY)";
    let catalog = rows.store.visibility().current().catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
    rows.store.visibility().announce_catalog(SequenceNumber(rows.sequence + 1), catalog);
    rows.apply("k", &[0, 9, 0], RowChange::AddOne { later: false });
    let whole = rows.dump(&DumpOptions::default()).unwrap();
    let lines = |text: &str| {
        let is_statement = |line: &&str| !line.is_empty() && !line.starts_with("--") && !line.starts_with("SET ");
        let mut lines: Vec<String> = text.lines().filter(is_statement).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for compression in [None, Some(Compression::Zstd)] {
        let options = DumpOptions { compression, ..DumpOptions::default() };
        let (files, contents) = in_parts(&rows, &options);
        let names: Vec<&str> = files.keys().map(|name| name.trim_end_matches(".zst")).collect();
        assert_eq!(names, ["d.a%2Eb%2Fc%25.sql", "d.k.sql", "d.t.sql", "schema.sql"]);
        assert_eq!(lines(&files.values().cloned().collect::<String>()), lines(&whole));
        assert!(files.values().all(|text| text.contains("-- GTID set: 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7\n")));
        assert!(files.values().all(|text| text.lines().last().unwrap().starts_with("-- Dump completed: ")));
        assert_eq!((contents.tables, contents.rows), (3, 7));
        assert_eq!(contents.gtid_executed, "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7");
        assert_eq!(contents.files.iter().map(|file| file.rows).collect::<Vec<_>>(), [0, 4, 3, 0]);
    }
    let mut options = tab(&["d.k", "d.t"]);
    options.binary_as_hex = true;
    let (files, _) = in_parts(&rows, &options);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["d.k.tsv", "d.t.tsv"]);
    assert_eq!(files["d.k.tsv"], "a\n-3\n5\n5\n9\n");
}

/// A compressed dump is the plain one; one that was cut off is seen to be incomplete.
#[test]
fn a_compressed_dump_is_the_plain_one() {
    let rows = keyed();
    let snapshot = Snapshot::pin(&rows.store);
    let mut out = Vec::new();
    let options = DumpOptions { compression: Some(Compression::Zstd), ..DumpOptions::default() };
    dump(&snapshot, &rows.store, &options, &mut out).unwrap();
    let plain = rows.dump(&DumpOptions::default()).unwrap();
    assert_eq!(zstd::decode_all(&out[..]).unwrap(), plain.as_bytes());
    assert!(plain.ends_with("\n-- Dump completed: 2 tables, 6 rows\n"), "{plain}");
    for len in [0, 1, out.len() / 2, out.len() - 1] {
        assert!(len == 0 || zstd::decode_all(&out[..len]).is_err(), "{len} of {} bytes", out.len());
    }
}

/// Takes so many bytes, then fails.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Threads end, however much was written, and the error is the one that came first.
#[test]
fn a_writer_that_fails_ends_all_threads() {
    let rows = keyed();
    let snapshot = Snapshot::pin(&rows.store);
    let mut whole = Vec::new();
    dump_parts(&snapshot, &rows.store, &DumpOptions::default(), 3, &mut whole).unwrap();
    for room in 0..whole.len().min(2_000) {
        let error = dump_parts(&snapshot, &rows.store, &DumpOptions::default(), 3, &mut Full(room)).unwrap_err();
        assert!(matches!(&error, CompareError::Output(error) if error.kind() == std::io::ErrorKind::StorageFull));
    }
}

#[test]
fn a_table_whose_definition_is_not_known_is_left_out_by_name() {
    let mut rows = keyed();
    let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
    let sql = "CREATE TABLE unknown (id INT PRIMARY KEY, g VARCHAR(9) AS (no_such_function(id)))";
    let catalog = rows.store.visibility().current().catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
    rows.store = Arc::new(Store::new(4, catalog));
    let snapshot = Snapshot::pin(&rows.store);
    let report = dump(&snapshot, &rows.store, &DumpOptions::default(), &mut std::io::sink()).unwrap();
    let [why] = report.left_out.as_slice() else { panic!("{report:?}") };
    assert!(why.contains("`d`.`unknown`") && why.contains("column `g`") && why.contains("--no-create-info"), "{why}");
    assert_eq!(report.tables, 2);
    let text = rows.dump(&DumpOptions::default()).unwrap();
    assert!(text.contains(&format!("-- LEFT OUT: {why}\n")) && text.contains("CREATE TABLE `t`"), "{text}");
    assert!(!text.contains("INTO `d`.`unknown`"), "{text}");
    // Its rows alone can be written, and who knows of it is not told again.
    let rows_only = DumpOptions { no_create_info: true, ..DumpOptions::default() };
    assert!(!rows.dump(&rows_only).unwrap().contains("LEFT OUT"));
    let ignored = DumpOptions { ignored: TableFilter::parse(&["d.unknown", "d.k"]), ..DumpOptions::default() };
    let text = rows.dump(&ignored).unwrap();
    assert!(!text.contains("LEFT OUT") && !text.contains("`k`") && text.contains("CREATE TABLE `t`"), "{text}");
    let (files, contents) = in_parts(&rows, &DumpOptions::default());
    assert_eq!(contents.left_out, [why.as_str()]);
    assert_eq!((contents.tables, files.len()), (2, 3));
    assert!(files["schema.sql"].contains(&format!("-- LEFT OUT: {why}\n")));
}

#[test]
fn a_value_that_cannot_be_printed_names_its_column() {
    let mut rows = Rows::new(&["CREATE DATABASE d", "CREATE TABLE t (id INT PRIMARY KEY, j JSON)"]);
    let mut image = vec![0, 1, 0, 0, 0, 3, 0, 0, 0];
    image.extend([0xEE, 1, 2]);
    rows.apply("t", &[1, 0, 0, 0], RowChange::Insert { image: &image });
    let error = rows.dump(&DumpOptions::default()).unwrap_err();
    assert_eq!(error.class(), crate::ErrorClass::NotSupported);
    assert!(error.to_string().contains("`d`.`t`, column `j`"), "{error}");
    assert!(matches!(rows.dump(&tab(&["d.none"])), Err(CompareError::NoSuchTable(name)) if name == "`d`.`none`"));
}

#[test]
fn statements_stay_far_below_the_packet_limit() {
    let mut rows =
        Rows::new(&["CREATE DATABASE d", "CREATE TABLE t (id INT PRIMARY KEY, v TEXT) DEFAULT CHARSET utf8mb4"]);
    for id in 0..60i32 {
        let mut image = vec![0];
        image.extend(id.to_le_bytes());
        image.extend(60_000u16.to_le_bytes());
        image.extend(vec![b'x'; 60_000]);
        rows.apply("t", &id.to_le_bytes(), RowChange::Insert { image: &image });
    }
    let sql = rows.dump(&DumpOptions::default()).unwrap();
    let (sql, _) = sql.rsplit_once("-- Dump completed").unwrap();
    let inserts: Vec<&str> = sql.split("INSERT INTO").skip(1).collect();
    assert_eq!(inserts.len(), 4);
    assert!(inserts.iter().all(|insert| insert.len() < STATEMENT_BYTES + 70_000 && insert.trim_end().ends_with(");")));
}

#[test]
fn checksums_of_equal_tables_are_equal() {
    let (one, mut other) = (keyed(), keyed());
    let sum = |rows: &Rows, table: &str| {
        let snapshot = Snapshot::pin(&rows.store);
        let def = Arc::clone(snapshot.catalog().table("d", table).unwrap());
        table_checksum(&rows.store, &snapshot, &def).unwrap()
    };
    assert_eq!(sum(&one, "k"), sum(&other, "k"));
    assert_eq!(sum(&one, "k").rows, 3);
    other.apply("k", &[0, 5, 0], RowChange::AddOne { later: false });
    assert_ne!(sum(&one, "k"), sum(&other, "k"));
}
