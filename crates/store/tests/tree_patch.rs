//! What our patch of lsm-tree does (third_party/README.md): each test fails without the change that it is about. The
//! syncs that `SyncFailed` marks, and what is written early, are in `tree_faults`.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use lsm_tree::compaction::filter::{Context, Factory};
use lsm_tree::compaction::{
    CompactionFilter, CompactionStrategy, DropTables, ItemAccessor, ItemVersion, PullDown, Verdict,
};
use lsm_tree::config::BlockSizePolicy;
use lsm_tree::file::{SyncFailed, fsync_directory};
use lsm_tree::{
    AbstractTree, AnyTree, Config, Error, Guard as _, KvSeparationOptions, SequenceNumberCounter, Slice, Table,
};

const SPAN: u64 = 4;
const LAST_LEVEL: u8 = 6;

/// A tree with the counter that its numbers come from, and the one that says what is visible.
struct Opened {
    tree: AnyTree,
    counter: SequenceNumberCounter,
    visible: SequenceNumberCounter,
}

fn opened(folder: &Path, with: impl FnOnce(Config) -> Config) -> lsm_tree::Result<Opened> {
    let (counter, visible) = (SequenceNumberCounter::default(), SequenceNumberCounter::default());
    let config = Config::new(folder, counter.clone(), visible.clone()).data_block_size_policy(BlockSizePolicy::all(64));
    let tree = with(config).open()?;
    let next = tree.get_highest_persisted_seqno().map_or(0, |highest| highest + 1);
    counter.fetch_max(next);
    visible.fetch_max(next);
    Ok(Opened { tree, counter, visible })
}

/// One run of entries in ascending order of their keys; none for a value is a tombstone.
fn ingest(tree: &AnyTree, entries: &[(&str, Option<&str>, u64)]) {
    let mut ingestion = tree.ingestion().unwrap().use_seqno_span(SPAN).unwrap();
    for (key, value, offset) in entries {
        match value {
            Some(value) => ingestion.write_at(*key, *value, *offset).unwrap(),
            None => ingestion.write_tombstone_at(*key, *offset).unwrap(),
        }
    }
    ingestion.finish().unwrap();
}

/// A run of 100 rows, in many blocks.
fn ingest_rows(tree: &AnyTree, table: &str) {
    let rows: Vec<(String, String)> = (0..100).map(|row| (format!("{table}{row:03}"), "a value".repeat(3))).collect();
    let rows: Vec<_> = rows.iter().map(|(key, value)| (key.as_str(), Some(value.as_str()), 0)).collect();
    ingest(tree, &rows);
}

fn value_at(tree: &AnyTree, key: &str, number: u64) -> Option<String> {
    tree.get(key, number).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn files(tree: &AnyTree) -> Vec<u64> {
    let mut files: Vec<u64> = tree.current_version().iter_tables().map(Table::id).collect();
    files.sort_unstable();
    files
}

fn merge(tree: &AnyTree, from: u8, to: u8, oldest_read: u64) -> lsm_tree::Result<()> {
    tree.compact(Arc::new(PullDown(from, to)) as Arc<dyn CompactionStrategy>, oldest_read)
}

fn drop_files(tree: &AnyTree, files: Vec<u64>) -> lsm_tree::Result<()> {
    tree.compact(Arc::new(DropTables(files)) as Arc<dyn CompactionStrategy>, 0)
}

type Drops = (AnyTree, Vec<u64>);

/// Filters that note what they are shown.
#[derive(Default, Clone)]
struct Shown {
    lines: Arc<Mutex<Vec<String>>>,
    /// Whether entries take the numbers of what they replace, and then 0.
    lowers: bool,
    fails_at_end: Arc<AtomicBool>,
    /// Files dropped while they are merged.
    drops: Arc<Mutex<Option<Drops>>>,
}

impl Shown {
    fn with(&self) -> impl FnOnce(Config) -> Config + use<> {
        let factory: Arc<dyn Factory> = Arc::new(self.clone());
        |config| config.with_compaction_filter_factory(Some(factory))
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

impl Factory for Shown {
    fn name(&self) -> &str {
        "shown"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(self.clone())
    }
}

fn text(version: ItemVersion<'_>) -> String {
    let value = version.value.map_or("-".into(), String::from_utf8_lossy);
    format!("{value}@{}", version.seqno)
}

impl CompactionFilter for Shown {
    fn filter_item(&mut self, _: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        if let Some((tree, files)) = self.drops.lock().unwrap().take() {
            drop_files(&tree, files)?;
        }
        Ok(Verdict::Keep)
    }

    fn older_version(
        &mut self,
        key: &[u8],
        newer: ItemVersion<'_>,
        older: ItemVersion<'_>,
        drained: bool,
    ) -> lsm_tree::Result<u64> {
        let (key, becomes) = (String::from_utf8_lossy(key), if drained { "replaces" } else { "hides" });
        self.lines.lock().unwrap().push(format!("{key}: {} {becomes} {}", text(newer), text(older)));
        Ok(if self.lowers { older.seqno } else { newer.seqno })
    }

    fn oldest_version(&mut self, key: &[u8], item: ItemVersion<'_>) -> lsm_tree::Result<u64> {
        self.lines.lock().unwrap().push(format!("{}: {} is left", String::from_utf8_lossy(key), text(item)));
        Ok(if self.lowers { 0 } else { item.seqno })
    }

    fn finish(self: Box<Self>) -> lsm_tree::Result<()> {
        if self.fails_at_end.load(Ordering::Relaxed) { Err(Error::Unrecoverable) } else { Ok(()) }
    }
}

/// Three versions of `a`, the last a tombstone; one of `b`, removed in the second run; one of `c`.
fn of_three_runs(tree: &AnyTree) {
    ingest(tree, &[("a", Some("one"), 1), ("b", Some("one"), 0)]);
    ingest(tree, &[("a", Some("two"), 2), ("b", None, 0)]);
    ingest(tree, &[("a", None, 3), ("c", Some("three"), 0)]);
}

#[test]
fn a_filter_is_shown_every_older_version() {
    let folder = tempfile::tempdir().unwrap();
    let shown = Shown::default();
    let opened = opened(folder.path(), shown.with()).unwrap();
    of_three_runs(&opened.tree);
    merge(&opened.tree, 0, 1, 0).unwrap();
    let kept = ["a: -@11 hides two@6", "a: two@6 hides one@1", "b: -@4 hides one@0"];
    assert_eq!(shown.taken(), kept, "no reader's version goes, and what lies below is not known");
    merge(&opened.tree, 1, 2, u64::MAX).unwrap();
    let replaced = ["a: -@11 replaces two@6", "a: -@11 replaces one@1", "b: -@4 replaces one@0"];
    assert_eq!(shown.taken(), replaced);
    merge(&opened.tree, 2, LAST_LEVEL, u64::MAX).unwrap();
    assert_eq!(shown.taken(), ["a: -@11 is left", "b: -@4 is left", "c: three@8 is left"], "tombstones too");
    assert_eq!(opened.tree.len(u64::MAX, None).unwrap(), 1);
    assert_eq!(opened.tree.tombstone_count(), 0);
    for value in ["one", "two"] {
        ingest(&opened.tree, &[("d", Some(value), 0)]);
    }
    merge(&opened.tree, 0, LAST_LEVEL, 0).unwrap();
    let hides = ["c: three@8 is left", "d: two@20 hides one@16", "d: one@16 is left"];
    assert_eq!(shown.taken(), hides, "what hides another is not what is left");
}

/// In the last level an entry that replaces others is shown as the one that is left.
#[test]
fn an_entry_takes_the_number_that_its_filter_gives_it() {
    let folder = tempfile::tempdir().unwrap();
    let shown = Shown { lowers: true, ..Shown::default() };
    let opened = opened(folder.path(), shown.with()).unwrap();
    for value in ["one", "two", "three"] {
        ingest(&opened.tree, &[("a", Some(value), 1)]);
    }
    merge(&opened.tree, 0, 1, 0).unwrap();
    assert_eq!(shown.taken(), ["a: three@9 hides two@5", "a: two@5 hides one@1"]);
    merge(&opened.tree, 1, LAST_LEVEL, u64::MAX).unwrap();
    let lowered = ["a: three@9 replaces two@5", "a: three@5 replaces one@1", "a: three@1 is left"];
    assert_eq!(shown.taken(), lowered, "a number given to an entry that hides does not count");
    let entry = opened.tree.get_internal_entry(b"a", u64::MAX).unwrap().unwrap();
    assert_eq!((&*entry.value, entry.key.seqno), (&b"three"[..], 0));
}

#[test]
fn a_filter_that_fails_at_its_end_prevents_its_merge() {
    let folder = tempfile::tempdir().unwrap();
    let shown = Shown::default();
    let opened = opened(folder.path(), shown.with()).unwrap();
    of_three_runs(&opened.tree);
    let before = files(&opened.tree);
    shown.fails_at_end.store(true, Ordering::Relaxed);
    assert!(merge(&opened.tree, 0, LAST_LEVEL, u64::MAX).is_err());
    assert_eq!(files(&opened.tree), before);
    shown.fails_at_end.store(false, Ordering::Relaxed);
    merge(&opened.tree, 0, LAST_LEVEL, u64::MAX).unwrap();
    assert_eq!(opened.tree.table_count(), 1, "files of a merge that failed are merged by the next one");
}

#[test]
fn an_ingestion_takes_a_span_of_numbers_from_a_multiple_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let Opened { tree, counter, visible } = opened(folder.path(), |config| config).unwrap();
    counter.set(5);
    ingest(&tree, &[("a", Some("1"), 0), ("b", Some("1"), 3)]);
    assert_eq!((counter.get(), visible.get()), (12, 12), "8 to 11");
    let first_seen = |key: &str| (0..30).find(|number| value_at(&tree, key, *number).is_some());
    assert_eq!((first_seen("a"), first_seen("b")), (Some(9), Some(12)), "a read at a number sees what is below");
    let mut ingestion = tree.ingestion().unwrap();
    ingestion.write("c", "1").unwrap();
    ingestion.finish().unwrap();
    assert_eq!(counter.get(), 13, "without a span one number");
    let mut ingestion = tree.ingestion().unwrap().use_seqno_span(SPAN).unwrap();
    ingestion.write_tombstone_at("b", 2).unwrap();
    ingestion.write("d", "1").unwrap();
    ingestion.finish().unwrap();
    assert_eq!((counter.get(), visible.get()), (20, 20), "16 to 19");
    let seen = [16, 18, 19].map(|number| value_at(&tree, "b", number).is_some());
    assert_eq!(seen, [true, true, false], "a tombstone at 18");
    assert_eq!(first_seen("d"), Some(17), "an offset is one entry's");
    assert_eq!(tree.get_highest_persisted_seqno(), Some(18));
}

#[test]
fn an_offset_is_below_the_span() {
    let folder = tempfile::tempdir().unwrap();
    let opened = opened(folder.path(), |config| config).unwrap();
    for (span, offset) in [(1, 1), (SPAN, SPAN), (0, 1)] {
        let mut ingestion = opened.tree.ingestion().unwrap().use_seqno_span(span).unwrap();
        let put = catch_unwind(AssertUnwindSafe(|| ingestion.write_at("a", "1", offset)));
        assert!(put.is_err(), "{offset} of {span}");
        let remove = catch_unwind(AssertUnwindSafe(|| ingestion.write_tombstone_at("a", offset)));
        assert!(remove.is_err(), "{offset} of {span}");
    }
}

/// Values kept elsewhere are written with the number 0 and found by it.
#[test]
fn a_tree_with_values_elsewhere_takes_no_span() {
    let folder = tempfile::tempdir().unwrap();
    let with = |config: Config| config.with_kv_separation(Some(KvSeparationOptions::default()));
    let opened = opened(folder.path(), with).unwrap();
    assert!(opened.tree.ingestion().unwrap().use_seqno_span(SPAN).is_err());
    let mut ingestion = opened.tree.ingestion().unwrap();
    assert!(ingestion.write_at("a", "1", 0).is_err() && ingestion.write_tombstone_at("a", 0).is_err());
}

#[test]
fn spans_taken_by_several_threads_have_no_number_twice() {
    let counter = SequenceNumberCounter::new(5);
    assert_eq!((counter.next_multiple_of(4), counter.get()), (8, 12));
    assert_eq!((counter.next_multiple_of(1), counter.get()), (12, 13));
    let (counter, taken) = (&counter, Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for span in [4, 4, 4, 2] {
            let taken = &taken;
            scope.spawn(move || {
                let own: Vec<_> = (0..1000).map(|_| (counter.next_multiple_of(span), span)).collect();
                taken.lock().unwrap().extend(own);
            });
        }
    });
    let mut taken = taken.into_inner().unwrap();
    taken.sort_unstable();
    assert!(taken.iter().all(|(first, span)| first.is_multiple_of(*span)));
    assert!(taken.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
    counter.set(u64::MAX / 2);
    assert!(catch_unwind(AssertUnwindSafe(|| counter.next_multiple_of(4))).is_err(), "none is left");
}

#[test]
fn a_sync_that_could_not_be_tried_is_one_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    fsync_directory(folder.path()).unwrap();
    let error = fsync_directory(&folder.path().join("missing")).unwrap_err();
    assert!(SyncFailed::is_in(&error) && error.kind() == ErrorKind::NotFound);
    assert!(error.to_string().starts_with("cannot sync: "), "{error}");
    assert!(!SyncFailed::is_in(&ErrorKind::NotFound.into()) && !SyncFailed::is_in(&std::io::Error::other("x")));
}

#[test]
fn files_are_dropped_by_their_numbers_unread() {
    let folder = tempfile::tempdir().unwrap();
    let opened = opened(folder.path(), |config| config).unwrap();
    for table in ["a", "b", "a"] {
        ingest_rows(&opened.tree, table);
    }
    let [first, second, third] = files(&opened.tree)[..] else { panic!() };
    let path = folder.path().join("tables").join(second.to_string());
    let len = fs::metadata(&path).unwrap().len();
    File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
    assert!(opened.tree.get("b000", u64::MAX).is_err());
    drop_files(&opened.tree, vec![second, 999]).unwrap();
    assert_eq!(files(&opened.tree), [first, third], "a number that no file has does not prevent it");
    assert_eq!(value_at(&opened.tree, "b000", u64::MAX), None);
    let before = opened.tree.current_version().id();
    drop_files(&opened.tree, vec![second, 999]).unwrap();
    assert_eq!(opened.tree.current_version().id(), before, "nothing was left to drop");
}

#[test]
fn files_in_a_merge_are_not_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let shown = Shown::default();
    let opened = opened(folder.path(), shown.with()).unwrap();
    for table in ["a", "b", "a"] {
        ingest_rows(&opened.tree, table);
    }
    merge(&opened.tree, 0, LAST_LEVEL, 0).unwrap();
    ingest_rows(&opened.tree, "c");
    let [merged, other] = files(&opened.tree)[..] else { panic!() };
    *shown.drops.lock().unwrap() = Some((opened.tree.clone(), vec![merged, other]));
    merge(&opened.tree, LAST_LEVEL - 1, LAST_LEVEL, 0).unwrap();
    assert!(shown.drops.lock().unwrap().is_none(), "the merge came past its filter");
    let rows = opened.tree.len(u64::MAX, None).unwrap();
    assert_eq!((rows, opened.tree.table_count()), (300, 2), "the other file stays with it");
}

/// Inverts a byte of a file.
fn hit(folder: &Path, file: u64, at: u64) {
    let path = folder.join("tables").join(file.to_string());
    let mut bytes = fs::read(&path).unwrap();
    bytes[usize::try_from(at).unwrap()] ^= 0xFF;
    fs::write(path, bytes).unwrap();
}

/// The file that an error names, and the error that was met in it.
fn in_table<T>(result: lsm_tree::Result<T>) -> (u64, Error) {
    match result.err().expect("an error") {
        Error::InTable(file, error) => (file, *error),
        other => panic!("{other:?} names no file"),
    }
}

#[test]
fn an_error_in_a_block_names_the_file() {
    // In the first block, and in a later one: merges read the two in different places.
    for at in [40, 2500] {
        let folder = tempfile::tempdir().unwrap();
        let before = opened(folder.path(), |config| config).unwrap();
        for table in ["a", "b", "a"] {
            ingest_rows(&before.tree, table);
        }
        let hit_file = files(&before.tree)[1];
        drop(before);
        hit(folder.path(), hit_file, at);
        let opened = opened(folder.path(), |config| config).unwrap();
        let range: lsm_tree::Result<Vec<_>> =
            opened.tree.iter(u64::MAX, None).map(|guard| guard.into_inner()).collect();
        let point: lsm_tree::Result<Vec<_>> =
            (0..100).map(|row| opened.tree.get(format!("b{row:03}"), u64::MAX)).collect();
        for (reader, (file, error)) in [
            ("a range", in_table(range)),
            ("a point read", in_table(point)),
            ("a merge", in_table(merge(&opened.tree, 0, 1, 0))),
        ] {
            assert_eq!(file, hit_file, "{reader}");
            assert!(matches!(error, Error::ChecksumMismatch { .. } | Error::InvalidHeader(_)), "{reader}: {error:?}");
            let outer = Error::InTable(file, Box::new(error));
            assert!(std::error::Error::source(&outer).is_some());
        }
    }
}

#[test]
fn an_error_in_opening_a_file_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let before = opened(folder.path(), |config| config).unwrap();
    for table in ["a", "b", "a"] {
        ingest_rows(&before.tree, table);
    }
    let [first, second, third] = files(&before.tree)[..] else { panic!() };
    let path = |file: u64| folder.path().join("tables").join(file.to_string());
    let is_missing = |error: &Error| matches!(error, Error::Io(error) if error.kind() == ErrorKind::NotFound);
    fs::rename(path(second), folder.path().join("kept")).unwrap();
    let (file, error) = in_table(merge(&before.tree, 0, 1, 0));
    assert!(file == second && is_missing(&error), "{error:?}");
    drop(before);

    let (file, error) = in_table(opened(folder.path(), |config| config));
    assert!(file == second && is_missing(&error), "{error:?}");
    fs::rename(path(third), folder.path().join("kept too")).unwrap();
    assert_eq!(in_table(opened(folder.path(), |config| config)).0, second, "the first of those that are missing");
    fs::rename(folder.path().join("kept"), path(second)).unwrap();
    assert_eq!(in_table(opened(folder.path(), |config| config)).0, third);
    fs::rename(folder.path().join("kept too"), path(third)).unwrap();

    // Cut off, so that its end cannot be read.
    let whole = fs::read(path(first)).unwrap();
    for len in [0, 1, 100, whole.len() - 1] {
        fs::write(path(first), &whole[..len]).unwrap();
        assert_eq!(in_table(opened(folder.path(), |config| config)).0, first, "{len} bytes");
    }
    fs::write(path(first), whole).unwrap();
    assert_eq!(opened(folder.path(), |config| config).unwrap().tree.len(u64::MAX, None).unwrap(), 200);
}

#[test]
fn a_stray_name_among_the_files_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    ingest_rows(&opened(folder.path(), |config| config).unwrap().tree, "a");
    let stray = |name: &str| {
        let error = opened(folder.path(), |config| config).err().unwrap();
        assert!(
            matches!(&error, Error::Io(inner) if inner.kind() == ErrorKind::InvalidData && inner.to_string().contains(name)),
            "{error:?}"
        );
    };
    let tables = folder.path().join("tables");
    fs::write(tables.join("stray"), "").unwrap();
    stray("tables/stray");
    fs::remove_file(tables.join("stray")).unwrap();
    fs::create_dir(tables.join("77")).unwrap();
    stray("tables/77");
    fs::remove_dir(tables.join("77")).unwrap();
    assert!(opened(folder.path(), |config| config).is_ok());
}

#[test]
fn files_of_all_versions_that_are_kept_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let opened = opened(folder.path(), |config| config).unwrap();
    for table in ["a", "b"] {
        ingest_rows(&opened.tree, table);
    }
    let before = files(&opened.tree);
    let told = || {
        let mut told: Vec<u64> = opened.tree.get_version_history_lock().table_ids().collect();
        told.sort_unstable();
        told.dedup();
        told
    };
    merge(&opened.tree, 0, 1, 0).unwrap();
    let merged = files(&opened.tree);
    assert_eq!(told(), [before, merged].concat(), "readers at old numbers read the old files");
    merge(&opened.tree, 1, 2, u64::MAX).unwrap();
    assert_eq!(told(), files(&opened.tree));
}

/// A copy hands its open runs from thread to thread.
#[test]
fn an_ingestion_goes_from_thread_to_thread() {
    let folder = tempfile::tempdir().unwrap();
    let opened = opened(folder.path(), |config| config).unwrap();
    let mut ingestion = opened.tree.ingestion().unwrap();
    ingestion.write("a", "1").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            ingestion.write(Slice::from("b"), "2").unwrap();
            ingestion.finish().unwrap();
        });
    });
    assert_eq!(value_at(&opened.tree, "b", u64::MAX).as_deref(), Some("2"));
}
