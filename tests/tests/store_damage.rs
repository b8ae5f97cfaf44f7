//! Damaged files of the store: named, never taken for damage of the relay log, and mended by copies of the tables in them;
//! or refused, with a way on.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use whole_program_tests::{Replica, Server, assert_equal, folder, slipstream, wait_for};

const SAMPLE: &str = "--check-images=sample";
const OPTIONS: [&str; 3] = ["--cut-interval=200ms", "--memory=128M", SAMPLE];
const ROWS: u32 = 4_000;

/// A source with a large table between two small ones. Its log is purged, so the replica's first rows come by a copy.
fn source(name: &str) -> Server {
    let server = Server::start(name, &[]);
    server.sql(&format!(
        "GRANT RELOAD, LOCK TABLES, XA_RECOVER_ADMIN ON *.* TO repl; CREATE DATABASE d; \
         CREATE TABLE d.first (id INT PRIMARY KEY, n INT); \
         CREATE TABLE d.large (id INT PRIMARY KEY, n INT, pad VARCHAR(300), KEY (n)); \
         CREATE TABLE d.last (id INT, n INT); SET SESSION cte_max_recursion_depth = {ROWS}; \
         INSERT INTO d.large SELECT n, n, REPEAT(CHAR(65 + n % 26), 250) FROM (WITH RECURSIVE s (n) AS (SELECT 1 UNION \
         ALL SELECT n + 1 FROM s WHERE n < {ROWS}) SELECT n FROM s) x; \
         INSERT INTO d.first SELECT id, n FROM d.large WHERE id < 50; INSERT INTO d.last SELECT id, n FROM d.first"
    ));
    server.purge_binary_logs();
    server
}

/// The file of the tree with the rows of the large table. Older ones may wait for their removal.
fn large_file(data: &Path) -> PathBuf {
    let files = fs::read_dir(data.join("store/tables")).unwrap().map(|entry| entry.unwrap().path());
    let large = files.filter(|path| fs::metadata(path).is_ok_and(|facts| facts.len() > 500_000));
    let number = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().parse::<u64>().unwrap();
    large.max_by_key(number).unwrap()
}

fn name_of(file: &Path) -> String {
    format!("tables/{}", file.file_name().unwrap().to_string_lossy())
}

/// Flips a bit at this part of the file, counted in thousandths.
fn flip(file: &Path, thousandths: u64) {
    let len = fs::metadata(file).unwrap().len();
    let file = File::options().read(true).write(true).open(file).unwrap();
    let (mut byte, at) = ([0], len * thousandths / 1000);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// A start that ends with exit code 7 and these texts in the log.
fn refused(server: &Server, data: &Path, options: &[&str], texts: &[&str]) {
    Replica::spawn(&server.url("repl"), data, options, |_| ()).expect_exit(7, texts);
}

fn damaged(status: &Value) -> Vec<String> {
    let list = status["replay"]["damaged"].as_array().cloned().unwrap_or_default();
    list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn is_mended(status: &Value) -> bool {
    let damaged = damaged(status);
    !damaged.is_empty() && damaged.iter().all(|file| file.contains("gone, its tables were copied again"))
}

/// Nothing of the damage is left, and the same process got there.
fn mended(server: &Server, mut replica: Replica, file: &Path) {
    server.sql("UPDATE d.large SET n = n + 1 WHERE id % 7 = 0; INSERT INTO d.last VALUES (-1, -1)");
    let status = replica.wait_until("the copies", is_mended);
    let named = damaged(&status).join("\n");
    assert!(named.contains(&name_of(file)) && named.contains("`d`.`large`"), "{named}");
    replica.catch_up(server);
    assert_equal(server, &mut replica, &["d"]);
    replica.waits_for_log(&["[SLIP-000076]", "[SLIP-000077]", &name_of(file), "`d`.`large`"]);
    let log = replica.log();
    assert!(!log.contains("relay log is damaged"), "{log}");
    // The last reader's view holds it for a moment longer.
    wait_for("the file's end", || (!file.exists()).then_some(()), || file.display().to_string());
    slipstream(&["status", "--data", replica.data()]).expect(0, &["Damaged file"]);
    replica.stop();
}

/// Damage of rows under a running replica, met by a merge, by replay or by a reader.
#[test]
fn a_damaged_file_is_named_and_its_tables_are_copied_again() {
    let server = source("store_flipped");
    for met_by in ["a reader", "replay", "a merge"] {
        let data = folder("store_flipped");
        let mut replica = Replica::follow(&server, &data, &OPTIONS);
        replica.catch_up(&server);
        replica.stop();
        let file = large_file(&data);
        // In the first half are data blocks.
        flip(&file, 300);
        let check = if met_by == "replay" { "--check-images=all" } else { SAMPLE };
        let mut replica = Replica::follow(&server, &data, &["--cut-interval=200ms", "--memory=128M", check]);
        match met_by {
            "a reader" => {
                let ran = slipstream(&["dump", "--data", replica.data(), "d.large"]);
                ran.expect(7, &[&name_of(&file), "a checksum does not match"]);
            }
            "replay" => drop(server.sql("UPDATE d.large SET n = n + 1")),
            // The copies may be faster.
            _ => drop(slipstream(&["check-store", "--data", replica.data()])),
        }
        replica.wait_until("the damage", |status| !damaged(status).is_empty());
        mended(&server, replica, &file);
    }
}

/// The tables are refused from the first moment after a restart until they are copied, and nothing is forgotten.
#[test]
fn a_restart_remembers_the_damage() {
    let server = source("store_remembers");
    let data = folder("store_remembers");
    let mut replica = Replica::follow(&server, &data, &OPTIONS);
    replica.catch_up(&server);
    replica.stop();
    let file = large_file(&data);
    flip(&file, 300);
    let stopping = [&OPTIONS[..], &["--on-damage=stop"]].concat();
    let replica = Replica::follow(&server, &data, &stopping);
    slipstream(&["dump", "--data", replica.data(), "d.large"]).expect(7, &[&name_of(&file)]);
    replica.expect_exit(7, &[&name_of(&file), "`d`.`large`", "--on-damage=copy", "--start-anew"]);
    refused(&server, &data, &stopping, &[&name_of(&file), "`d`.`large`"]);
    slipstream(&["dump", "--data", data.to_str().unwrap(), "d.large"]).expect(1, &["`d`.`large`", &name_of(&file)]);
    let replica = Replica::follow(&server, &data, &OPTIONS);
    mended(&server, replica, &file);
}

/// Damage that no reader meets is found by the slow check of a running replica and by that of a stopped one, also in what
/// only merges or only point reads look at.
#[test]
fn a_check_of_all_files_finds_damage_that_nobody_met() {
    let server = source("store_scrub");
    let every = [&OPTIONS[..], &["--scrub-interval=1s"]].concat();
    // Data, index and filter come one after the other.
    for thousandths in [5, 700, 900, 960, 990] {
        let data = folder("store_scrub");
        let mut replica = Replica::follow(&server, &data, &[&OPTIONS[..], &["--scrub-interval=0"]].concat());
        replica.catch_up(&server);
        replica.stop();
        slipstream(&["check-store", "--data", data.to_str().unwrap()])
            .expect(0, &["as they were written", "indexes: 1"]);
        let file = large_file(&data);
        flip(&file, thousandths);
        if thousandths == 700 {
            slipstream(&["check-store", "--data", data.to_str().unwrap()]).expect(7, &[&name_of(&file), "`d`.`large`"]);
        }
        let mut replica = Replica::follow(&server, &data, &every);
        let status = replica.wait_until("the damage", |status| !damaged(status).is_empty());
        let status = status["replay"]["scrub"].as_str().unwrap().to_owned();
        assert!(thousandths == 700 || status.contains("check"), "{status}");
        replica.wait_until("a sound store", |status| {
            status["replay"]["scrub"].as_str().is_some_and(|text| text.contains("nothing is damaged"))
        });
        for text in ["[SLIP-000080]", "[SLIP-000081]"] {
            replica.waits_for_log(&[text]);
        }
        mended(&server, replica, &file);
    }
}

/// Damage in a file that holds the newest records too: a running replica writes them again.
#[test]
fn a_damaged_file_with_records_goes_too() {
    let server = source("store_records");
    let data = folder("store_records");
    let mut replica = Replica::follow(&server, &data, &[&OPTIONS[..], &["--scrub-interval=1s"]].concat());
    replica.catch_up(&server);
    // A merge puts everything, records too, into the last level.
    server.sql(
        "UPDATE d.large SET n = n + 1; CREATE TABLE d.more (i INT PRIMARY KEY); INSERT INTO d.more VALUES (1), (2)",
    );
    replica.catch_up(&server);
    slipstream(&["check-store", "--data", replica.data()]).expect(0, &["no row contradicts the log"]);
    let file = large_file(&data);
    flip(&file, 300);
    replica.wait_until("the damage", |status| !damaged(status).is_empty());
    mended(&server, replica, &file);
    let mut replica = Replica::follow(&server, &data, &OPTIONS);
    replica.catch_up(&server);
    assert_equal(&server, &mut replica, &["d"]);
    replica.stop();
}

/// What no copy of a table repairs is refused by name, and `--start-anew` is the way on.
#[test]
fn a_store_that_cannot_be_opened_is_put_aside() {
    let server = source("store_anew");
    let skipped = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5";
    for what in ["current", "current gone", "manifest", "end", "cut off", "gone"] {
        let data = folder("store_anew");
        let mut replica = Replica::follow(&server, &data, &OPTIONS);
        let uuid = replica.catch_up(&server)["server_uuid"].clone();
        replica.stop();
        slipstream(&["skip", skipped, "--data", data.to_str().unwrap()]).expect(0, &[]);
        let file = large_file(&data);
        let store = data.join("store");
        let told = match what {
            "current" => {
                flip(&store.join("current"), 0);
                "current".to_owned()
            }
            "current gone" => {
                fs::remove_file(store.join("current")).unwrap();
                "current".to_owned()
            }
            "manifest" => {
                let current = fs::read(store.join("current")).unwrap();
                let version = u64::from_le_bytes(*current.first_chunk().unwrap());
                flip(&store.join(format!("v{version}")), 500);
                "manifest".to_owned()
            }
            "end" => {
                let end = fs::metadata(&file).unwrap().len() - 100;
                File::options().write(true).open(&file).unwrap().write_all_at(b"damage", end).unwrap();
                name_of(&file)
            }
            "cut off" => {
                File::options().write(true).open(&file).unwrap().set_len(100_000).unwrap();
                name_of(&file)
            }
            _ => {
                fs::remove_file(&file).unwrap();
                name_of(&file)
            }
        };
        refused(&server, &data, &OPTIONS, &[&told, "--start-anew"]);
        let mut replica = Replica::follow(&server, &data, &[&OPTIONS[..], &["--start-anew"]].concat());
        let status = replica.catch_up(&server);
        assert_eq!(status["server_uuid"], uuid, "{what}");
        replica.waits_for_log(&["[SLIP-000079]"]);
        assert_equal(&server, &mut replica, &["d"]);
        replica.stop();
        assert!(fs::read_to_string(data.join("skipped")).unwrap().contains(skipped), "{what}");
        let aside = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
        let aside = aside.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("aside-"));
        assert!(aside.into_iter().all(|path| path.join("store/tables").is_dir()), "{what}");
    }
}
