//! Data folders that an earlier program made (`tests/fixtures/folders`) open as they always did.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use compare::{DumpFormat, DumpOptions, TableFilter, dump, dump_definitions};
use store::{Disk, DiskOptions, KeyRange, ReadOrder, Snapshot, Store, StoreError, TableReader};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/folders")
}

/// Text as it stands without the many rows that differ in a number only: they are in the hash.
fn shortened(text: &str) -> String {
    let is_filler = |line: &&str| line.contains("xxxxxxxxxx") || line.contains("..........");
    text.lines().filter(|line| !is_filler(line)).fold(String::new(), |all, line| all + line + "\n")
}

/// Everything that the newest cut of a folder says.
fn described(folder: &Path) -> String {
    let open = || Disk::open_existing(&folder.join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap().unwrap();
    let mut out = String::new();
    let (disk, recovered) = open();
    let readable = Store::read_only(2, disk, recovered).readable().map_err(|error| error.to_string());
    writeln!(out, "readable {readable:?}").unwrap();
    let (disk, mut recovered) = open();
    writeln!(out, "sequence {}\nexecuted {}", recovered.sequence, recovered.executed).unwrap();
    writeln!(out, "position {:?}\nrows {:?}", recovered.position, recovered.rows).unwrap();
    // Taken away, so that rows are shown that are no state of the source.
    writeln!(out, "settles_at {:?}", recovered.consistent_at.take().map(|set| set.to_string())).unwrap();
    writeln!(out, "ledger {}", recovered.ledger).unwrap();
    for (xid, held) in recovered.prepared.iter() {
        let (gtid, events) = (held.gtid.map(|gtid| gtid.to_string()), hash(&held.events));
        writeln!(out, "prepared {xid} {} {gtid:?} {} {events}", held.number, held.events.len()).unwrap();
    }
    writeln!(out, "catalog {}", String::from_utf8(recovered.catalog.to_json().unwrap()).unwrap()).unwrap();
    let store = Arc::new(Store::read_only(2, disk, recovered));
    writeln!(out, "indexes to fill {}", store.stats().indexes_to_fill).unwrap();
    let snapshot = Snapshot::pin(&store);
    for table in snapshot.catalog().tables() {
        let reader = TableReader::new(table);
        for key in table.keys.iter().filter(|key| !key.primary) {
            let entries = match store.range(&snapshot, &reader, ReadOrder::Index(key.id), &KeyRange::all()) {
                Ok(range) => range.map(Result::unwrap).count().to_string(),
                Err(StoreError::IndexNotReady { .. }) => "not ready".to_owned(),
                Err(error) => error.to_string(),
            };
            writeln!(out, "index {}.{}.{}: {entries}", table.db, table.name, key.name).unwrap();
        }
    }
    let mut text = Vec::new();
    dump_definitions(snapshot.catalog(), "", &mut text).unwrap();
    for format in [DumpFormat::Tab, DumpFormat::Sql] {
        let tables = TableFilter::default();
        let options = DumpOptions {
            format,
            binary_as_hex: true,
            all_columns: true,
            no_create_info: true,
            tables,
            compression: None,
            ..DumpOptions::default()
        };
        dump(&snapshot, &store, &options, &mut text).unwrap();
    }
    // The lists are older than a dump's last line.
    let end = text.windows(LAST_LINE.len()).rposition(|found| found == LAST_LINE).expect("the dump's last line");
    assert_eq!(text.iter().skip(end + LAST_LINE.len()).filter(|byte| **byte == b'\n').count(), 1);
    text.truncate(end);
    writeln!(out, "{}", hash(&text)).unwrap();
    out + &shortened(&String::from_utf8_lossy(&text))
}

/// Begins the last line of a dump that is whole.
const LAST_LINE: &[u8] = b"\n-- Dump completed: ";

fn hash(bytes: &[u8]) -> String {
    format!("xxh3 {:016x}", xxhash_rust::xxh3::xxh3_64(bytes))
}

fn unpacked() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    let archive = fixtures().join("folders.tar.gz");
    let unpacked = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(scratch.path()).status().unwrap();
    assert!(unpacked.success(), "{}", archive.display());
    scratch
}

/// Table, index and key up to which it is filled, as the index records in a tree's files have them. The tree does not
/// compress, so the records are there as text.
fn fillings(folder: &Path) -> Vec<(u32, u16, Vec<u8>)> {
    const BEGIN: &str = "\"filling\":{\"table\":";
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder.join("store/tables")).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        for at in (0..bytes.len()).filter(|at| bytes[*at..].starts_with(BEGIN.as_bytes())) {
            let rest = String::from_utf8_lossy(&bytes[at + BEGIN.len()..bytes.len().min(at + 1000)]).into_owned();
            let (table, rest) = rest.split_once(",\"index\":").unwrap();
            let (index, rest) = rest.split_once(",\"done\":[").unwrap();
            let (done, _) = rest.split_once(']').unwrap();
            let done = done.split(',').map(|byte| byte.parse().unwrap()).collect();
            found.push((table.parse().unwrap(), index.parse().unwrap(), done));
        }
    }
    found
}

#[test]
fn the_index_of_a_killed_fill_is_there_in_part() {
    let scratch = unpacked();
    let folder = scratch.path().join("replayed");
    let (_, recovered) =
        Disk::open_existing(&folder.join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap().unwrap();
    let table = recovered.catalog.table("shop", "wide").unwrap();
    let found = fillings(&folder);
    assert!(!found.is_empty(), "no fill has begun");
    for (id, index, done) in found {
        assert_eq!((id, index), (table.id.0, table.key("wide_text").unwrap().id));
        // The key of a row ends with its stored key bytes, here an INT.
        let row = u32::from_le_bytes(*done.last_chunk().unwrap());
        assert!((2..9000).contains(&row), "the fill has come to row {row} of 9000");
    }
    assert_eq!(fillings(&scratch.path().join("unsettled")), []);
}

#[test]
fn folders_of_an_earlier_program_open_equal() {
    let scratch = unpacked();
    for name in ["unsettled", "filtered", "replayed"] {
        let found = described(&scratch.path().join(name));
        let listed = fixtures().join(format!("{name}.txt"));
        if std::env::var_os("SLIPSTREAM_WRITE_EXPECTED").is_some() {
            std::fs::write(&listed, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&listed).unwrap();
        for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
            assert_eq!(found, expected, "line {} of {}", number + 1, listed.display());
        }
        assert_eq!(found, expected, "{}", listed.display());
    }
}
