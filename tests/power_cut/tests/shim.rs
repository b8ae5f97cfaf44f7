//! The shim and the model against a scripted process: this test binary, started again under the shim.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use base::Random;
use power_cut::PowerCut;
use power_cut::journal::{self, Operation, Record};

/// Names the script of the traced process.
const SCRIPT: &str = "POWER_CUT_TEST_SCRIPT";
/// Names its folder.
const FOLDER: &str = "POWER_CUT_TEST_FOLDER";

/// Not a test by itself: the traced process. Ends as after a kill, with nothing flushed or closed.
#[test]
fn traced_process() {
    let Ok(script) = std::env::var(SCRIPT) else { return };
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    SCRIPTS.iter().find(|(name, _)| *name == script).unwrap().1(&folder);
    // Leaves no core file.
    std::process::exit(33);
}

type Script = (&'static str, fn(&Path));

const SCRIPTS: &[Script] = &[
    ("synced and not", synced_and_not),
    ("overwritten", overwritten),
    ("names", names),
    ("more", |folder| append(&folder.join("d/a"), b" more", false)),
    ("many", many),
    ("a tree", a_tree),
    ("a new file", |folder| {
        fs::create_dir(folder.join("d")).unwrap();
        sync(folder);
        File::create(folder.join("d/f")).unwrap();
    }),
    ("a reader that tidies up", |folder| {
        // As lsm-tree does when it opens a tree: all versions except the current one are removed.
        for entry in fs::read_dir(folder.join("d")).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().starts_with('v') && !path.ends_with("v2") {
                fs::remove_file(path).unwrap();
            }
        }
    }),
    ("made anew", |folder| {
        // By names relative to folder descriptors.
        fs::remove_dir_all(folder.join("d")).unwrap();
        fs::create_dir_all(folder.join("d/tables")).unwrap();
        append(&folder.join("d/tables/0"), b"new", true);
    }),
    ("a link", |folder| {
        fs::create_dir(folder.join("d")).unwrap();
        fs::write(folder.join("d/a"), "x").unwrap();
        drop(fs::hard_link(folder.join("d/a"), folder.join("d/b")));
    }),
    ("O_DSYNC", |folder| {
        use std::os::unix::fs::OpenOptionsExt as _;
        fs::create_dir(folder.join("d")).unwrap();
        const O_DSYNC: i32 = 0o10000;
        drop(OpenOptions::new().create(true).write(true).custom_flags(O_DSYNC).open(folder.join("d/a")));
    }),
    ("copied", |folder| {
        fs::create_dir(folder.join("d")).unwrap();
        fs::write(folder.join("d/a"), vec![7; 100_000]).unwrap();
        fs::copy(folder.join("d/a"), folder.join("d/b")).unwrap();
        sync(&folder.join("d/b"));
        sync(&folder.join("d"));
        sync(folder);
    }),
    ("tempfile", |folder| {
        fs::create_dir(folder.join("d")).unwrap();
        for overwrite in [true, false] {
            let mut file = tempfile::NamedTempFile::new_in(folder.join("d")).unwrap();
            file.write_all(b"x").unwrap();
            file.as_file().sync_all().unwrap();
            if overwrite {
                file.persist(folder.join("d/a")).unwrap();
            } else {
                file.persist_noclobber(folder.join("d/b")).unwrap();
            }
        }
        drop(tempfile::NamedTempFile::new_in(folder.join("d")).unwrap());
        sync(&folder.join("d"));
        sync(folder);
    }),
    ("between folders", |folder| {
        fs::create_dir(folder.join("d")).unwrap();
        fs::create_dir(folder.join("e")).unwrap();
        fs::write(folder.join("d/a"), "x").unwrap();
        drop(fs::rename(folder.join("d/a"), folder.join("e/a")));
    }),
];

fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

fn append(path: &Path, bytes: &[u8], synced: bool) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
    if synced {
        file.sync_data().unwrap();
    }
}

fn synced_and_not(folder: &Path) {
    fs::create_dir_all(folder.join("d/sub")).unwrap();
    append(&folder.join("d/a"), b"durable", true);
    append(&folder.join("d/a"), b" and not", false);
    append(&folder.join("d/no-name"), b"synced, but its name is not", true);
    fs::rename(folder.join("d/no-name"), folder.join("d/renamed")).unwrap();
    fs::remove_file(folder.join("d/renamed")).unwrap();
    append(&folder.join("d/b"), b"b", true);
    sync(folder);
    sync(&folder.join("d"));
    append(&folder.join("d/late"), b"late", true);
    fs::remove_file(folder.join("d/b")).unwrap();
    append(&folder.join("d/sub/x"), b"x", true);
}

fn overwritten(folder: &Path) {
    fs::create_dir(folder.join("d")).unwrap();
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(folder.join("d/a")).unwrap();
    file.write_all(b"0123456789").unwrap();
    file.sync_all().unwrap();
    sync(&folder.join("d"));
    sync(folder);
    file.write_at(b"xx", 3).unwrap();
    file.set_len(5).unwrap();
    file.seek(SeekFrom::Start(8)).unwrap();
    let parts = [std::io::IoSlice::new(b"yy"), std::io::IoSlice::new(b"zzz")];
    assert_eq!(file.write_vectored(&parts).unwrap(), 5);
    drop(File::create(folder.join("d/a")).unwrap());
    append(&folder.join("d/a"), b"new", false);
}

fn names(folder: &Path) {
    fs::create_dir(folder.join("d")).unwrap();
    sync(folder);
    for text in ["one", "two", "three"] {
        append(&folder.join("d/tmp"), text.as_bytes(), true);
        fs::rename(folder.join("d/tmp"), folder.join("d/index")).unwrap();
        if text == "one" {
            sync(&folder.join("d"));
        }
    }
    fs::create_dir(folder.join("d/gone")).unwrap();
    fs::remove_dir(folder.join("d/gone")).unwrap();
    fs::create_dir(folder.join("d/again")).unwrap();
}

/// Writes and removes versions and the file that names the current one in lsm-tree's order, from two threads.
fn a_tree(folder: &Path) {
    let tree = folder.join("d");
    fs::create_dir_all(tree.join("tables")).unwrap();
    for path in [&tree.join("tables"), &tree, folder] {
        sync(path);
    }
    for version in 0..3 {
        let tables = tree.join("tables");
        let written = std::thread::spawn(move || {
            let table = tables.join(version.to_string());
            let mut file = File::create_new(&table).unwrap();
            file.write_all(b"rows").unwrap();
            file.sync_all().unwrap();
            sync(&tables);
        });
        written.join().unwrap();
        let mut file = File::create(tree.join(format!("v{version}"))).unwrap();
        file.write_all(b"a version").unwrap();
        file.sync_all().unwrap();
        sync(&tree);
        let mut current = tempfile::NamedTempFile::new_in(&tree).unwrap();
        current.write_all(version.to_string().as_bytes()).unwrap();
        current.as_file().sync_all().unwrap();
        current.persist(tree.join("current")).unwrap();
        sync(&tree.join("current"));
        sync(&tree);
    }
    fs::remove_file(tree.join("v0")).unwrap();
}

/// Appends numbered blocks and syncs now and then; prints the last synced one.
fn many(folder: &Path) {
    fs::create_dir(folder.join("d")).unwrap();
    let file = OpenOptions::new().create_new(true).write(true).open(folder.join("d/log")).unwrap();
    sync(&folder.join("d"));
    sync(folder);
    for n in 0..40u64 {
        file.write_all_at(&vec![n as u8 + 1; 3000], n * 3000).unwrap();
        if n == 19 {
            file.sync_data().unwrap();
        }
    }
}

/// Runs a script under the shim.
fn run(power: &PowerCut, script: &str) -> (ExitStatus, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "traced_process", "--nocapture"]).env(SCRIPT, script).env(FOLDER, power.disk());
    command.stdin(Stdio::null());
    power.trace(&mut command);
    let output = command.output().unwrap();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn done(power: &PowerCut, script: &str) {
    let (status, text) = run(power, script);
    assert_eq!(status.code(), Some(33), "{text}");
}

/// All files with their content; folders without.
fn content(folder: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                all.insert(name, None);
                left.push(path);
            } else {
                all.insert(name, Some(fs::read(path).unwrap()));
            }
        }
    }
    all
}

fn file(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

#[track_caller]
fn assert_content(power: &PowerCut, expected: &[(&str, Option<Vec<u8>>)]) {
    let expected: BTreeMap<_, _> = expected.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect();
    assert_eq!(content(power.disk()), expected);
}

#[test]
fn only_what_was_synced_survives_a_strict_cut() {
    let dir = tempfile::tempdir().unwrap();
    let power = PowerCut::new(dir.path());
    done(&power, "synced and not");
    let cut = power.cut_strictly();
    assert!(cut.lines.len() > 3 && cut.to_string().contains("late: lost"), "{cut}");
    assert_content(&power, &[("d", None), ("d/sub", None), ("d/a", file("durable")), ("d/b", file("b"))]);
    // What is on the disk after a cut is durable.
    let cut = {
        done(&power, "more");
        power.cut_strictly()
    };
    assert!(cut.to_string().contains("d/a: 1 unsynced changes, 12 bytes before, 7 after"), "{cut}");
    assert_content(&power, &[("d", None), ("d/sub", None), ("d/a", file("durable")), ("d/b", file("b"))]);
}

#[test]
fn overwritten_and_cut_off_bytes_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let power = PowerCut::new(dir.path());
    done(&power, "overwritten");
    assert_eq!(content(power.disk())["d/a"], file("new"));
    power.cut_strictly();
    assert_content(&power, &[("d", None), ("d/a", file("0123456789"))]);
}

#[test]
fn renames_survive_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let power = PowerCut::new(&dir.path().join(seed.to_string()));
        done(&power, "names");
        let cut = if seed == 0 { power.cut_strictly() } else { power.cut(seed) };
        let mut now = content(power.disk());
        now.remove("d/again");
        // A file always has a name it had, and never another's content under one.
        let index = now.remove("d/index").flatten().unwrap();
        let tmp = now.remove("d/tmp").flatten();
        let (index, tmp) = (String::from_utf8(index).unwrap(), tmp.map(|text| String::from_utf8(text).unwrap()));
        assert!(seed > 0 || (index == "one" && tmp.is_none()), "{cut}");
        match (index.as_str(), tmp.as_deref()) {
            ("one", None | Some("two")) | ("two", None | Some("three")) | ("three", None) => {}
            other => panic!("{other:?} after {cut}"),
        }
        now.remove("d/gone");
        assert_eq!(now.into_keys().collect::<Vec<_>>(), ["d"], "{cut}");
        seen.insert(index);
    }
    assert_eq!(seen.len(), 3, "every outcome is met: {seen:?}");
}

#[test]
fn of_unsynced_bytes_any_part_survives_and_of_synced_ones_all() {
    let dir = tempfile::tempdir().unwrap();
    let (mut lengths, mut holes, mut all) = (std::collections::BTreeSet::new(), 0, 0);
    for seed in 0..60 {
        let power = PowerCut::new(&dir.path().join(seed.to_string()));
        done(&power, "many");
        let cut = power.cut(seed);
        let bytes = content(power.disk()).remove("d/log").flatten().unwrap();
        assert!((60_000..=120_000).contains(&bytes.len()), "{} after {cut}", bytes.len());
        for (at, byte) in bytes.iter().enumerate() {
            let written = (at / 3000) as u8 + 1;
            assert!(*byte == written || (*byte == 0 && at >= 60_000), "{byte} at {at} after {cut}");
        }
        let first_zero = bytes.iter().position(|byte| *byte == 0);
        holes += u64::from(first_zero.is_some_and(|at| bytes[at..].iter().any(|byte| *byte != 0)));
        all += u64::from(first_zero.is_none() && bytes.len() == 120_000);
        lengths.insert(bytes.len());
        // The same seed gives the same cut.
        if seed < 5 {
            let power = PowerCut::new(&dir.path().join(format!("again-{seed}")));
            done(&power, "many");
            assert_eq!(power.cut(seed).lines, cut.lines);
            assert_eq!(content(power.disk())["d/log"].as_ref(), Some(&bytes));
        }
    }
    assert!(lengths.len() > 10 && holes > 5 && all > 2, "{lengths:?} {holes} {all}");
}

#[test]
fn a_kill_without_a_cut_keeps_what_is_not_durable_so() {
    let dir = tempfile::tempdir().unwrap();
    let power = PowerCut::new(dir.path());
    done(&power, "synced and not");
    done(&power, "more");
    assert_eq!(content(power.disk())["d/a"], file("durable and not more"));
    power.cut_strictly();
    assert_eq!(content(power.disk())["d/a"], file("durable"));
}

/// The power-cut test ran `slipstream dump` untraced: opening the tree removed `v0`, and the next cut mistook that for
/// a change made without the shim.
#[test]
fn what_a_reader_of_the_tree_removes_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = vec![("d", None), ("d/current", file("2")), ("d/tables", None)];
    tree.extend(["d/tables/0", "d/tables/1", "d/tables/2"].map(|name| (name, file("rows"))));
    tree.extend(["d/v0", "d/v1", "d/v2"].map(|name| (name, file("a version"))));
    let power = PowerCut::new(&dir.path().join("1"));
    done(&power, "a tree");
    power.cut_strictly();
    // The removal of a version is not synced.
    assert_content(&power, &tree);
    done(&power, "a reader that tidies up");
    assert_eq!(power.processes(), 1);
    assert_eq!(content(power.disk()).get("d/v0"), None);
    power.cut_strictly();
    assert_content(&power, &tree);
    // Untraced, it is noticed.
    fs::remove_file(power.disk().join("d/v0")).unwrap();
    done(&power, "more");
    let caught = std::panic::catch_unwind(|| power.cut_strictly()).unwrap_err();
    assert!(caught.downcast_ref::<String>().unwrap().contains("d/v0 went past the shim"));
    // A whole tree removed and created again, with inode numbers of folders reused.
    let power = PowerCut::new(&dir.path().join("2"));
    done(&power, "a tree");
    power.cut_strictly();
    done(&power, "made anew");
    let names: Vec<String> = content(power.disk()).into_keys().collect();
    assert_eq!(names, ["d", "d/tables", "d/tables/0"]);
    power.cut_strictly();
    assert_content(&power, &tree);
}

/// A file got the inode number of a removed folder, and a kill came before the record of its completed creation: the
/// next cut mistook it for a change made without the shim.
#[test]
fn a_file_with_a_removed_folder_s_number_is_followed_through_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let power = PowerCut::new(dir.path());
    done(&power, "a new file");
    let shadow = dir.path().join("shadow");
    let mut records = journal::read(&shadow).unwrap();
    let is_it = |record: &Record| match record {
        Record::Begin { operation: Operation::Create { name, folder }, .. } if name == b"f" => Some(*folder),
        _ => None,
    };
    let (at, folder) = records.iter().enumerate().find_map(|(at, record)| Some((at, is_it(record)?))).unwrap();
    let Record::End { inode, .. } = records[at + 1] else { panic!("{:?}", records[at + 1]) };
    let begun = records[at].clone();
    records.truncate(at);
    let name = b"gone".to_vec();
    let made = Operation::MakeFolder { folder, name: name.clone() };
    let removed = Operation::Remove { folder, name };
    for (id, operation, inode) in [(1000, made, inode), (1001, removed, 0)] {
        records.extend([Record::Begin { id, operation }, Record::End { id, result: 0, inode }]);
    }
    records.push(begun);
    let bytes: Vec<u8> = records.iter().flat_map(Record::encode).collect();
    fs::write(shadow.join(journal::JOURNAL_FILE), bytes).unwrap();
    power.cut_strictly();
    assert_content(&power, &[("d", None)]);
}

#[test]
fn a_process_killed_at_any_moment_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20u64 {
        let power = PowerCut::new(&dir.path().join(round.to_string()));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "traced_process"]).env(SCRIPT, "many").env(FOLDER, power.disk());
        power.trace(&mut command);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(Random::new(round).below(12_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        // Otherwise it was killed before the shim was loaded, and nothing can be said.
        if power.processes() > 0 {
            power.cut(round);
        }
    }
}

#[test]
fn a_planted_fault_loses_what_was_synced() {
    let dir = tempfile::tempdir().unwrap();
    let mut power = PowerCut::new(dir.path());
    power.skip_syncs("fdatasync d/a");
    done(&power, "synced and not");
    power.cut_strictly();
    assert_content(&power, &[("d", None), ("d/sub", None), ("d/a", file("")), ("d/b", file("b"))]);
    let mut power = PowerCut::new(&dir.path().join("2"));
    power.skip_syncs("d/");
    done(&power, "synced and not");
    power.cut_strictly();
    assert_content(&power, &[("d", None)]);
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for script in ["a link", "O_DSYNC", "between folders"] {
        let power = PowerCut::new(&dir.path().join(script));
        let (status, text) = run(&power, script);
        assert!(status.code().is_none() && text.contains("power-cut shim: "), "{script}: {status} {text}");
    }
    // The tempfile crate's calls are seen (lsm-tree replaces its manifest with it).
    let power = PowerCut::new(&dir.path().join("tempfile"));
    done(&power, "tempfile");
    power.cut_strictly();
    assert_content(&power, &[("d", None), ("d/a", file("x")), ("d/b", file("x"))]);
    // Copying falls back to reading and writing.
    let power = PowerCut::new(&dir.path().join("copy"));
    done(&power, "copied");
    power.cut_strictly();
    assert_content(&power, &[("d", None), ("d/a", file("")), ("d/b", Some(vec![7; 100_000]))]);
    // A change made without the shim is noticed.
    let power = PowerCut::new(&dir.path().join("past"));
    done(&power, "copied");
    fs::write(power.disk().join("d/other"), "x").unwrap();
    let caught = std::panic::catch_unwind(|| power.cut_strictly()).unwrap_err();
    assert!(caught.downcast_ref::<String>().unwrap().contains("d/other came past the shim"));
}
