//! Replay continues from data folders that an earlier program made (`tests/fixtures/folders`), without a server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use store::{Disk, DiskOptions, KeyRange, ReadOrder, Snapshot, Store, TableReader};
use whole_program_tests::{Replica, folder, repository, slipstream};

/// All except `shop.unclear`, whose rows a statement changed as text.
const TABLES: &[&str] = &[
    "`café`.`ta``ble`",
    "shop.bag",
    "shop.by_key",
    "shop.by_list",
    "shop.by_year",
    "shop.children",
    "shop.computed",
    "shop.customers",
    "shop.emptied",
    "shop.held",
    "shop.layouts",
    "shop.orders",
    "shop.parents",
    "shop.texts",
    "shop.wide",
];

fn unpacked(name: &str) -> PathBuf {
    let to = folder(name);
    std::fs::create_dir_all(&to).unwrap();
    let archive = repository().join("tests/fixtures/folders/folders.tar.gz");
    assert!(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&to).status().unwrap().success());
    to
}

fn rows(data: &Path) -> String {
    let mut arguments = vec!["dump", "--format=tab", "--binary-as-hex", "--data", data.to_str().unwrap()];
    arguments.extend(TABLES);
    let ran = slipstream(&arguments);
    ran.expect(0, &[]);
    let is_filler = |line: &&str| line.contains("xxxxxxxxxx") || line.contains("..........");
    let fillers = ran.out.lines().filter(is_filler).count();
    let rest = ran.out.lines().filter(|line| !is_filler(line)).fold(String::new(), |all, line| all + line + "\n");
    format!("{rest}and {fillers} long rows\n")
}

/// Entries of the index that was being filled, once the rest is built: a replica would do that in the background, but
/// with files as its source it ends when they do.
fn entries(data: &Path) -> usize {
    let (disk, recovered) = Disk::open(&data.join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
    let recovered = recovered.unwrap();
    assert!(recovered.prepared.is_empty(), "no XA transaction is open");
    assert!(recovered.executed.to_string().ends_with(":1-140"), "{}", recovered.executed);
    let catalog = recovered.catalog.clone();
    let store = Arc::new(Store::over(2, disk, data.join("scratch"), Some(recovered), catalog).unwrap());
    while store.compact().unwrap() {}
    assert_eq!(store.stats().indexes_to_fill, 0);
    let snapshot = Snapshot::pin(&store);
    let table = snapshot.catalog().table("shop", "wide").unwrap();
    let (reader, index) = (TableReader::new(table), table.key("wide_text").unwrap().id);
    let check = store.check_index(&snapshot, &reader, index).unwrap();
    assert_eq!((check.missing, check.stale), (0, 0));
    store.range(&snapshot, &reader, ReadOrder::Index(index), &KeyRange::all()).unwrap().map(Result::unwrap).count()
}

/// The folder that has replication filters goes on with them, and with no others.
fn check_filtered(all: &Path, source: &str) {
    const FILTERS: [&str; 2] = ["--replicate-rewrite-db=shop->store", "--replicate-wild-ignore-table=store.ord%"];
    let data = all.join("filtered");
    let text = data.to_str().unwrap();
    let start = |options: &[&str]| Replica::spawn(source, &data, options, |_| ());
    let both = "Only in the folder: --replicate-rewrite-db='shop->store' --replicate-wild-ignore-table='store.ord%'";
    start(&[]).expect_exit(2, &["was filled with other replication filters", both]);
    start(&FILTERS[..1]).expect_exit(2, &["Only in the folder: --replicate-wild-ignore-table='store.ord%'"]);
    let facts = std::fs::read_to_string(all.join("replayed/skipped")).unwrap();
    let (uuid, _) = facts.trim().split_once(':').unwrap();
    slipstream(&["skip", "--data", text, &format!("{uuid}:127:130")]).expect(0, &[]);
    start(&FILTERS).expect_exit(0, &[]);
    let rows = |data: &str, table: &str| slipstream(&["dump", "--format=tab", "--data", data, table]).out;
    let replayed = all.join("replayed");
    for table in ["customers", "layouts", "held", "bag"] {
        let here = rows(text, &format!("store.{table}"));
        assert!(here.lines().count() > 2, "{table}: {here}");
        assert_eq!(here, rows(replayed.to_str().unwrap(), &format!("shop.{table}")), "{table}");
    }
    assert_eq!(rows(text, "store.orders"), "");
}

#[test]
fn replay_continues_from_folders_of_an_earlier_program() {
    let all = unpacked("kept");
    let source = format!("file:{}", all.join("log/binlog.index").display());
    let mut ends = Vec::new();
    for name in ["unsettled", "replayed"] {
        let data = all.join(name);
        let text = data.to_str().unwrap();
        if name == "unsettled" {
            // The transactions that `replayed` lacks because of its quarantine and its skip list.
            let facts = std::fs::read_to_string(all.join("replayed/skipped")).unwrap();
            let (uuid, _) = facts.trim().split_once(':').unwrap();
            slipstream(&["skip", "--data", text, &format!("{uuid}:127:130")]).expect(0, &[]);
        }
        let replica = Replica::spawn(&source, &data, &["--cut-interval=100ms"], |_| ());
        replica.expect_exit(0, &[]);
        assert_eq!(entries(&data), 9000, "{name}");
        ends.push(rows(&data));
    }
    let listed = repository().join("tests/fixtures/folders/end.txt");
    if std::env::var_os("SLIPSTREAM_WRITE_EXPECTED").is_some() {
        std::fs::write(&listed, &ends[1]).unwrap();
    }
    let expected = std::fs::read_to_string(&listed).unwrap();
    check_filtered(&all, &source);
    for end in &ends {
        for (number, (found, expected)) in end.lines().zip(expected.lines()).enumerate() {
            assert_eq!(found, expected, "line {} of {}", number + 1, listed.display());
        }
        assert_eq!(*end, expected);
    }
}
