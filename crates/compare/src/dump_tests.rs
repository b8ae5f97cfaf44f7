use base::{Gtid, SequenceNumber, key_hash};
use catalog::{Catalog, StatementContext};
use store::{CheckImages, OwnedShape, RowChange};

use super::*;
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
        lane.apply(lane_index, &shape.lend(), hash, key, change, self.sequence, 0, CheckImages::All, &layers).unwrap();
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
    assert!(sql.contains("SET NAMES utf8mb4;\nSET time_zone = '+00:00';\n"), "{sql}");
    assert!(sql.contains("INSERT INTO `d`.`k` (`a`) VALUES\n(-3),\n(5),\n(5);\n"), "{sql}");
    let want = "INSERT INTO `d`.`t` (`id`,`v`,`b`,`i`) VALUES\n(-1,'x',0xAB0C,7),\n(2,NULL,NULL,NULL),\n(300,";
    assert!(sql.contains(want), "{sql}");
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
