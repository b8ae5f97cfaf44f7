//! What earlier releases left behind (`tests/fixtures/releases`) is opened and goes on; what a later one may leave is
//! refused by name, and left as it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::server::mysqlbinlog;
use whole_program_tests::{Replica, Server, assert_equal, folder, repository, slipstream};

fn fixtures() -> PathBuf {
    repository().join("tests/fixtures/releases")
}

/// Archives, one a release.
fn releases() -> Vec<PathBuf> {
    let files = std::fs::read_dir(fixtures()).unwrap().flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "gz")).collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

fn unpacked(archive: &Path) -> PathBuf {
    let to = folder("release");
    std::fs::create_dir_all(&to).unwrap();
    assert!(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&to).status().unwrap().success());
    to
}

/// A server that has executed the archive's log.
fn source_of(all: &Path) -> Server {
    let server = Server::start("release", &[]);
    server.sql("RESET BINARY LOGS AND GTIDS");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(all.join("log")).unwrap().flatten().map(|file| file.path()).collect();
    files.sort();
    for file in files {
        let text = mysqlbinlog(&[], &file);
        text.expect(0, &[]);
        server.client(&["--binary-mode"], text.out).unwrap();
    }
    server.sql("GRANT ALL ON *.* TO 'repl'@'%'");
    server
}

#[test]
fn what_a_release_left_goes_on() {
    for archive in releases() {
        let all = unpacked(&archive);
        let server = source_of(&all);
        server.sql(&std::fs::read_to_string(fixtures().join("afterwards.sql")).unwrap());
        let restored = all.join("restored");
        let (from, to) = (all.join("backup.tar"), restored.to_str().unwrap());
        slipstream(&["restore-folder", "--from", from.to_str().unwrap(), "--data", to]).expect(0, &["1400 rows"]);
        for name in ["stopped", "killed", "restored"] {
            let data = all.join(name);
            let mut replica = Replica::follow(&server, &data, &["--memory=128M", "--cut-interval=100ms"]);
            assert_equal(&server, &mut replica, &["shop"]);
            let log = replica.log();
            assert!(log.contains("kept store: cut at transaction"), "{name} of {}:\n{log}", archive.display());
            assert!(!log.contains("[SLIP-000025]") && !log.contains("[SLIP-000036]"), "{name} copied:\n{log}");
            replica.stop();
            slipstream(&["check-store", "--data", data.to_str().unwrap()]).expect(0, &[]);
        }
        let accounts = slipstream(&["account", "list", "--data", all.join("stopped").to_str().unwrap()]);
        accounts.expect(0, &["reader"]);
    }
}

/// What a start may write before it meets the store: nothing that rows depend on.
const OF_A_START: [&str; 5] = ["slipstream.lock", "running", "last-status.json", "server-cert.pem", "server-key.pem"];

/// Contents of all files in a folder, but for those.
fn contents(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(data).unwrap().flatten() {
        if entry.path().is_dir() {
            all.extend(contents(&entry.path()));
        } else if !OF_A_START.contains(&entry.file_name().to_str().unwrap()) {
            all.insert(entry.path(), std::fs::read(entry.path()).unwrap());
        }
    }
    all
}

/// What a newer release may have written, and what the refusal says. (In the store's tree:
/// `crates/store/src/cut_record.rs`.)
const NEWER: &[(&str, &str, &[&str])] = &[
    (
        "slipstream.format",
        "slipstream 3\n",
        &["format version '3', this program reads 2", "use the release that wrote it (slipstream "],
    ),
    ("slipstream.format", "slipstream 2.1\n", &["format version '2.1'", "use the release that wrote it"]),
    (
        "store/drift.json",
        r#"{"format":2,"tables":[],"since":"then"}"#,
        &["drift.json", "format version 2", "use the release that wrote it"],
    ),
    (
        "store/damage.json",
        r#"{"format":2,"files":[],"mended":true}"#,
        &["damage.json", "format version 2", "use the release that wrote it"],
    ),
    (
        "accounts",
        r#"{"slipstream_accounts":2,"roles":[],"accounts":[]}"#,
        &["accounts", "format version 2", "use the release that wrote it"],
    ),
    ("filters", "replicate-do-db=shop\nreplicate-do-column=shop.a\n", &["filters", "replicate-do-column"]),
    ("skipped", "from 3a583105-e9b7-11f1-9606-02fc00000001:77\n", &["skipped"]),
];

#[test]
fn what_a_newer_release_wrote_is_refused_and_left_alone() {
    let archive = releases().pop().unwrap();
    for (name, content, texts) in NEWER {
        let data = unpacked(&archive).join("stopped");
        std::fs::write(data.join(name), content).unwrap();
        let mut before = contents(&data);
        // Opening the tree removes the version before the newest one, which a stop left.
        let current = u64::from_le_bytes(before[&data.join("store/current")][..8].try_into().unwrap());
        before.remove(&data.join(format!("store/v{}", current - 1)));
        let text = data.to_str().unwrap();
        Replica::spawn("mysql://repl@127.0.0.1:1", &data, &[], |_| ()).expect_exit(7, texts);
        if name.starts_with("slipstream.format") {
            for command in [&["status"][..], &["dump"], &["check-store"], &["backup", "--to=-"]] {
                slipstream(&[command, &["--data", text]].concat()).expect(7, texts);
            }
        }
        let after = contents(&data);
        for (path, content) in before {
            assert!(after.get(&path) == Some(&content), "{name}: {} was changed", path.display());
        }
    }
}

/// Files that this program does not know are left alone: what a newer one must be known for raises the format.
#[test]
fn unknown_files_are_left_alone() {
    let all = unpacked(&releases().pop().unwrap());
    let data = all.join("stopped");
    let unknown = ["later", "relay-log/later", "store/later"];
    let write = |name: &&str| std::fs::write(data.join(name), "of a newer release").unwrap();
    unknown.iter().for_each(write);
    let source = format!("file:{}", all.join("log/binlog.000002").display());
    Replica::spawn(&source, &data, &["--on-stop=exit"], |_| ()).expect_exit(0, &[]);
    for name in &unknown {
        assert_eq!(std::fs::read_to_string(data.join(name)).unwrap(), "of a newer release", "{name}");
    }
}
