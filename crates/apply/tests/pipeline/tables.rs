//! What a statement costs does not depend on how many tables there are.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apply::{ApplyOptions, CutOptions, Pipeline, PipelineOptions, lanes_for};
use base::Uuid;
use catalog::{Catalog, CatalogHead, Part, StatementContext, TableDef, TableId};
use decode::{SkipList, SplitOptions};
use relay_log::{Chunk, TailItem};
use store::{CheckImages, Disk, DiskOptions, Store};
use testkit::log::{Author, INT, insert, int};

use crate::run::closing;

/// A catalog of this many tables, a hundred to a database.
fn many(tables: u32) -> Catalog {
    let context = StatementContext::default();
    let one = Catalog::new(0).apply(&context, b"CREATE TABLE d.t (i INT PRIMARY KEY)").unwrap().catalog;
    let one = one.table("d", "t").unwrap();
    let parts = (1..=tables).map(|id| {
        let (db, name) = (format!("shop{}", id / 100), format!("t{id}"));
        Part::Table(Arc::new(TableDef { id: TableId(id), db, name, ..TableDef::clone(one) }))
    });
    let head = format!(r#"{{"lower_case_table_names":0,"epoch":1,"next_table_id":{},"tables":{tables}}}"#, tables + 1);
    Catalog::from_parts(&serde_json::from_str::<CatalogHead>(&head).unwrap(), parts).unwrap()
}

/// Replays a log into the store of this folder, which it ends with a cut. Returns the store.
fn replay(folder: &Path, catalog: Catalog, log: Author) -> Arc<Store> {
    let (disk, recovered) = Disk::open(&folder.join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
    let store = Arc::new(Store::over(lanes_for(2), disk, folder.join("scratch"), recovered, catalog).unwrap());
    let (data, file) = (Arc::new(log.events().into()), Arc::from("relay-bin.000001"));
    let item = TailItem::Chunk(Chunk { file_number: 1, file, offset: 4, data, hot: false });
    let options = PipelineOptions {
        quarantine: true,
        copies_missing: false,
        filters: Arc::default(),
        decoders: 1,
        workers: 2,
        memory_bytes: 64 << 20,
        apply: ApplyOptions { check_images: CheckImages::All, ..ApplyOptions::default() },
        skip: SkipList::new(store.visibility().executed()),
        store: Arc::clone(&store),
        cuts: Some(CutOptions {
            generation_bytes: 1 << 30,
            interval: Duration::from_secs(3600),
            sync_relay: Box::new(|_| Ok(())),
            after_cut: Box::new(|_, _| {}),
            waits_for_space: false,
        }),
        source_clock: Arc::default(),
        lag_by_part: Arc::default(),
        affinity: base::ThreadAffinity::default(),
    };
    let finished = Pipeline::start_with(closing(vec![item]), options, SplitOptions::default()).join();
    assert!(finished.stop.is_none(), "{:?}", finished.stop);
    // The compaction thread releases the store in its own time.
    let deadline = Instant::now() + Duration::from_secs(30);
    while Arc::strong_count(&store) > 1 {
        assert!(Instant::now() < deadline, "a thread stays");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(store.last_cut(), store.visibility().watermark().0, "no last cut");
    store
}

/// How many tables a log of many kinds of statements looks at, its cut and the status included, where this many others
/// are.
fn visited(tables: u32) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Author::new(Uuid([1; 16]));
    log.sql("CREATE DATABASE d");
    // Its cut writes all of them.
    drop(replay(folder.path(), many(tables), log));
    let mut log = Author::new(Uuid([2; 16]));
    for sql in [
        "CREATE TABLE p (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
        "CREATE TABLE shop0.c (p INT, FOREIGN KEY (p) REFERENCES d.p (id))",
        "CREATE VIEW v AS SELECT * FROM p",
        "CREATE TRIGGER tr AFTER INSERT ON p FOR EACH ROW SET @a = 1",
        "ALTER TABLE p ADD COLUMN b INT DEFAULT 1",
        "ALTER TABLE p RENAME COLUMN id TO number",
        "RENAME TABLE p TO q",
        "CREATE TABLE l LIKE c",
        "TRUNCATE TABLE c",
        "DROP TRIGGER tr",
        "DELETE FROM q WHERE a = 1",
        "ALTER TABLE shop0.c DROP PRIMARY KEY",
        "DROP TABLE l",
        "DROP TABLE shop0.t7",
        "CREATE DATABASE e",
        "CREATE TABLE e.t (i INT)",
        "DROP DATABASE e",
        "CREATE USER me",
    ] {
        log.sql(sql);
    }
    log.table("r", &[INT], "id INT PRIMARY KEY");
    for id in 0..50 {
        log.rows(&[insert("r", &[int(id)])]);
    }
    log.sql("CREATE INDEX i ON r (id)");
    let opened = |folder: &Path| {
        let (_, recovered) = Disk::open(&folder.join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
        recovered.unwrap().catalog
    };
    // What a start looks at: all.
    let before = opened(folder.path()).visited();
    let store = replay(folder.path(), Catalog::new(0), log);
    let stats = store.stats();
    let catalog = store.visibility().current().catalog;
    assert_eq!((stats.memory.rows, catalog.table_count()), (50, tables as usize));
    assert!(catalog.is_quarantined("d", "q") && catalog.is_quarantined("d", "c"));
    catalog.visited() - before
}

#[test]
fn a_statement_looks_at_as_many_tables_whatever_their_number() {
    let long = std::env::var("SLIPSTREAM_TEST_LENGTH").is_ok_and(|length| length == "night" || length == "soak");
    let few = visited(100);
    assert!(few > 20, "{few}: not counted");
    assert_eq!(visited(if long { 100_000 } else { 10_000 }), few);
}
