//! A disk that fills while the source is copied, while the store is compacted, and when the folder's small files are
//! written: code 8, and with space again it continues. (For receiving and cutting see `store.rs`.)

use std::fs::File;

use power_cut::PowerCut;
use serde_json::Value;
use whole_program_tests::{
    Ballast, Replica, Server, SmallDisk, assert_equal, copy_folder, folder, slipstream, wait_for,
};

use crate::forward::{THERE, account, add_account};

const OPTIONS: [&str; 3] = ["--memory=128M", "--cut-interval=100ms", "--max-relay-log-size=256K"];

/// Inserts this many rows of 3,000 incompressible bytes.
fn fill(server: &Server, rows: u32) {
    server.sql(&format!(
        "INSERT INTO full.t (v) SELECT LEFT(CONCAT(SHA2(RAND(), 512), SHA2(RAND(), 512), REPEAT(SHA2(n * RAND(), 512), 22)), 3000) \
         FROM (WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) SELECT n FROM s) x"
    ));
}

fn server(name: &str) -> Server {
    let server = Server::start(name, &[]);
    server.sql("CREATE DATABASE full; CREATE TABLE full.t (id INT AUTO_INCREMENT PRIMARY KEY, n INT DEFAULT 0, v VARCHAR(4000))");
    server
}

#[test]
fn the_disk_fills_while_the_source_is_copied() {
    let Some(disk) = SmallDisk::new("full-copy", 6) else { return };
    let server = server("full-copy");
    for _ in 0..10 {
        fill(&server, 800);
    }
    server.sql("GRANT RELOAD, XA_RECOVER_ADMIN, BACKUP_ADMIN, PROCESS ON *.* TO repl");
    server.purge_binary_logs();
    for _ in 0..2 {
        let replica = Replica::spawn(&server.url("repl"), disk.path(), &OPTIONS, |_| ());
        replica.expect_exit(8, &["space"]);
    }
    assert!(disk.resize(512));
    let mut replica = Replica::follow(&server, disk.path(), &OPTIONS);
    replica.wait_until("the copy's end", |status| status["replay"]["state"] != "copying");
    assert_equal(&server, &mut replica, &["full"]);
    replica.stop();
}

#[test]
fn the_disk_fills_while_the_store_is_compacted() {
    let Some(disk) = SmallDisk::new("full-compaction", 256) else { return };
    let server = server("full-compaction");
    let mut replica = Replica::follow(&server, disk.path(), &OPTIONS);
    for _ in 0..10 {
        fill(&server, 800);
    }
    replica.catch_up(&server);
    replica.wait_until("all in the tree", |status| status["store"]["last_cut"] == status["position"]["watermark"]);
    // Leaves room for receiving and cutting, not for a second copy of the tree: whatever becomes free while rows still
    // move through the tree is taken too.
    let ballast = disk.path().join("ballast");
    let file = File::create(&ballast).unwrap();
    let leave_little = || {
        let more = disk.free().saturating_sub(12 << 20);
        if more > 0 {
            // The store may be faster, and there is already too little room.
            let size = file.metadata().unwrap().len() + more;
            let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size);
        }
    };
    // A quarter of the table changes, cut by cut. That is too much to stay above the other rows once the store is idle,
    // so compaction rewrites everything, wherever the first rows were until then.
    let (mut changed, mut cut) = (0, Value::Null);
    for start in 0.. {
        let ended = wait_for(
            "the end",
            || {
                leave_little();
                let last_cut = replica.status().map(|status| status["store"]["last_cut"].clone());
                if changed < 4 && last_cut.as_ref().is_some_and(|last| *last != cut) {
                    cut = last_cut.unwrap_or_default();
                    server.sql(&format!("UPDATE full.t SET n = n + 1 WHERE id % 16 = {changed}"));
                    changed += 1;
                }
                replica.ended()
            },
            String::new,
        );
        let log = replica.log_end();
        assert_eq!(ended, 8, "{log}");
        let why = log.lines().find(|line| line.contains("[ERROR]")).unwrap_or_default();
        if why.contains("store ") {
            assert!(why.contains("no space left"), "{log}");
            break;
        }
        // Receiving may be the first to run out of space; eventually there is nothing more to receive.
        assert!(start < 5 && why.contains("disk full"), "{log}");
        replica = Replica::spawn(&server.url("repl"), disk.path(), &OPTIONS, |_| ());
    }
    drop(replica);
    // An open file keeps its space.
    drop(file);
    std::fs::remove_file(&ballast).unwrap();
    let mut replica = Replica::follow(&server, disk.path(), &OPTIONS);
    assert_equal(&server, &mut replica, &["full"]);
    replica.stop();
}

/// Every small file that the folder starts with, each in turn: code 8, its path and a hint; the next start continues
/// where space ran out.
#[test]
fn the_disk_is_full_when_the_small_files_are_written() {
    let Some(disk) = SmallDisk::new("full-small", 2) else { return };
    let data = disk.path().to_owned();
    let server = server("full-small");
    server.sql("GRANT LOCK TABLES, XA_RECOVER_ADMIN ON *.* TO repl; CREATE DATABASE other; CREATE TABLE other.t (id INT PRIMARY KEY)");
    let options = [&OPTIONS[..], &["--replicate-do-db=full", "--replicate-wild-do-table=full.%"]].concat();
    let (mut pages, mut failed, mut early) = (0, Vec::<String>::new(), 0);
    let missed = |failed: &[String]| {
        let files = ["slipstream.lock", "auto.cnf", "slipstream.format", "store "];
        files.into_iter().find(|file| !failed.iter().any(|what| what.contains(file)))
    };
    loop {
        let ballast = Ballast::leave(&disk, pages);
        let mut replica = Replica::spawn(&server.url("repl"), &data, &options, |_| ());
        let answers = wait_for(
            "an answer or the end",
            || match replica.ended() {
                Some(_) => Some(false),
                // It answers before it has written them all; it reports its executed set only afterwards.
                None => replica.status().filter(|status| status["gtid"]["executed"] != "").map(|_| true),
            },
            String::new,
        );
        if answers {
            // It may still end for lack of space: until each file was hit, try again with the same space.
            drop(replica);
            early += 1;
            if missed(&failed).is_none() || early > 100 {
                break;
            }
            continue;
        }
        drop(ballast);
        let log = replica.log();
        let why =
            log.lines().rfind(|line| line.contains("[ERROR]")).unwrap_or_else(|| panic!("no error: {log}")).to_owned();
        assert!(why.contains("(exit 8") && why.contains(data.to_str().unwrap()), "{why}");
        assert!(why.contains("ree space"), "not what to do: {why}");
        let what = why.split_once("[ERROR]").map(|(_, what)| what.to_owned()).unwrap();
        // From the start after each new place: a replaced file needs one page more than it has.
        pages = if failed.contains(&what) { pages + 1 } else { 1 };
        assert!(failed.len() < 200, "{failed:#?}");
        failed.push(what);
    }
    assert_eq!(missed(&failed), None, "was not met: {failed:#?}");
    let mut replica = Replica::follow(&server, &data, &options);
    fill(&server, 20);
    server.sql("INSERT INTO other.t VALUES (1)");
    replica.catch_up(&server);
    // A table copy begins with a file too; replay continues without it.
    let copy = || slipstream(&["copy", "full.t", "--data", data.to_str().unwrap()]);
    // The start above may have left one in progress.
    for tries in 0.. {
        wait_for("a copy", || (copy().code == 0).then_some(()), String::new);
        let ballast = Ballast::leave(&disk, 0);
        let ran = copy();
        drop(ballast);
        ran.expect(8, &["free space"]);
        if ran.err.contains("copying-table") {
            break;
        }
        // A cut of the store was the first to find no room, which ends the replica.
        assert!(tries < 20 && ran.err.contains("store "), "{}", ran.err);
        assert_eq!(replica.wait_exit(), 8, "{}", replica.log());
        replica = Replica::follow(&server, &data, &options);
    }
    copy().expect(0, &[]);
    assert_equal(&server, &mut replica, &["full"]);
    replica.stop();
    // The skip list is either the old one or the new one.
    let skip = |gtid: &str| slipstream(&["skip", gtid, "--data", data.to_str().unwrap()]);
    let first = "3e11fa47-71ca-11e1-9e33-c80aa9429562:5";
    skip(first).expect(0, &[]);
    let ballast = Ballast::leave(&disk, 0);
    skip("3e11fa47-71ca-11e1-9e33-c80aa9429562:6").expect(8, &["slipstream.lock", "free space"]);
    drop(ballast);
    let ballast = Ballast::leave(&disk, 1);
    skip("3e11fa47-71ca-11e1-9e33-c80aa9429562:6").expect(8, &["/skipped", "free space"]);
    assert_eq!(std::fs::read_to_string(data.join("skipped")).unwrap().trim(), first);
    drop(ballast);
    // The rules are those that the folder was filled with.
    slipstream(&["replica", "--source", &server.url("repl"), "--data", data.to_str().unwrap()])
        .expect(2, &["other replication filters", "--replicate-do-db='full'", "--replicate-wild-do-table='full.%'"]);
    let mut replica = Replica::follow(&server, &data, &options);
    assert_equal(&server, &mut replica, &["full"]);
    replica.stop();
}

/// An account has the old login at the source or the new one, whichever write found no room.
#[test]
fn the_disk_is_full_when_logins_at_the_source_are_written() {
    let Some(disk) = SmallDisk::new("full-logins", 64) else { return };
    let (server, data) = (server("full-logins"), disk.path());
    Replica::follow(&server, data, &OPTIONS).stop();
    add_account(data, "app", "forward");
    let logins = || std::fs::read_to_string(data.join("source-logins")).unwrap();
    let (old, file) = (logins(), data.with_extension("login"));
    std::fs::write(&file, "the next one\n").unwrap();
    let path = file.to_str().unwrap();
    let change = ["change", "app", "--may", "forward", "--source-login", "other", "--source-password-file", path];
    let failed = (0..100).find(|pages| {
        let ballast = Ballast::leave(&disk, *pages);
        let ran = account(data, &change);
        drop(ballast);
        if ran.code == 0 {
            return true;
        }
        ran.expect(8, &["free space"]);
        account(data, &["list"]).expect(0, &["app"]);
        assert_eq!(logins(), old, "{}", ran.err);
        false
    });
    assert!(failed.is_some_and(|pages| pages > 1), "{failed:?}");
    assert!(logins().contains("the next one") && !logins().contains(THERE));
}

/// The rules have a file of their own, written while the folder has no rows; so have the facts about the source.
#[test]
fn the_disk_is_full_when_filters_and_facts_are_written() {
    let (server, data) = (server("full-filters"), folder("full-filters"));
    server.sql("CREATE DATABASE other; CREATE TABLE other.t (id INT PRIMARY KEY); INSERT INTO other.t VALUES (1)");
    fill(&server, 5);
    let path = data.to_str().unwrap();
    // A folder without rows: this user was refused.
    slipstream(&["replica", "--source", &server.url("nobody"), "--data", path, "--replicate-do-db=other"])
        .expect(11, &["nobody"]);
    let kept = std::fs::read_to_string(data.join("filters")).unwrap();
    assert!(kept.contains("other"), "{kept}");
    let options = ["--replicate-wild-do-table=full.%"];
    let url = server.url("repl");
    // Then a disk that has no room for one write, the first, the second and so on, until each file was hit.
    let mut missed = vec!["filters", "source-facts"];
    for number in 1.. {
        assert!(number < 200, "not met: {missed:?}");
        let at = folder(&format!("full-filters-{number}"));
        let tried = at.join("disk/data");
        std::fs::create_dir_all(at.join("disk")).unwrap();
        copy_folder(&data, &tried);
        let mut power = PowerCut::new(&at);
        power.plan(&format!("write:{number}:ENOSPC"));
        let mut replica = Replica::spawn(&url, &tried, &options, |command| power.trace(command));
        let follows = |status: &Value| status["replay"]["state"] == "caught_up";
        let goes_on =
            |replica: &mut Replica| replica.ended().is_some() || replica.status().as_ref().is_some_and(follows);
        wait_for("an answer or the end", || goes_on(&mut replica).then_some(()), String::new);
        let Some(code) = replica.ended() else {
            replica.kill();
            continue;
        };
        let log = replica.log();
        let Some(at) = missed.iter().position(|file| log.contains(&format!("{}/{file}: ", tried.display()))) else {
            continue;
        };
        assert!(code == 8 && log.contains("ree space") && log.contains("No space left"), "{code}: {log}");
        let now = std::fs::read_to_string(tried.join("filters")).unwrap();
        assert_eq!(now == kept, missed[at] == "filters", "{now}");
        missed.remove(at);
        if missed.is_empty() {
            break;
        }
    }
    // With space it continues, under the rules given then.
    let mut replica = Replica::follow(&server, &data, &options);
    assert_equal(&server, &mut replica, &["full"]);
    replica.stop();
    slipstream(&["replica", "--source", &url, "--data", path, "--replicate-do-db=other"])
        .expect(2, &["other replication filters", "Only in the folder: --replicate-wild-do-table='full.%'"]);
}
