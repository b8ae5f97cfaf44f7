//! A relay log damaged under a running replica: noticed where replay reads it, truncated and fetched again, all in the
//! same process.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use base::GtidSet;
use testkit::raw_client::{CAPABILITIES, RawClient};
use whole_program_tests::replica::{executed, retrieved};
use whole_program_tests::{Replica, Server, assert_equal, folder, slipstream};

const OPTIONS: [&str; 2] = ["--memory=128M", "--max-relay-log-size=4M"];

/// Index of a file that is not in memory: the queues hold the first 16 MiB, the receiver the next or the last 8.
const FAR: usize = 8;

/// A replica that has received far more than it has replayed or holds in memory.
fn lagging(server: &Server, name: &str) -> (Replica, GtidSet) {
    server.sql("DROP DATABASE IF EXISTS damage; CREATE DATABASE damage; CREATE TABLE damage.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(4000))");
    let replica = Replica::follow(server, &folder(name), &OPTIONS);
    lets_lag(server, replica)
}

fn lets_lag(server: &Server, mut replica: Replica) -> (Replica, GtidSet) {
    replica.catch_up(server);
    slipstream(&["pause", "--data", replica.data()]).expect(0, &[]);
    for n in 0..52 {
        server.sql(&format!(
            "INSERT INTO damage.t (v) SELECT REPEAT(CHAR(65 + n % 26), 3000) FROM (WITH RECURSIVE s (n) AS (SELECT {n} UNION \
             ALL SELECT n + 1 FROM s WHERE n < {n} + 300) SELECT n FROM s) x"
        ));
    }
    let goal = server.gtid_executed();
    replica.wait_until("all in the relay log", |status| goal.is_subset_of(&retrieved(status)));
    assert!(files(&replica.data).len() > FAR + 2, "{:?}", files(&replica.data));
    (replica, goal)
}

/// Relay log files, oldest first.
fn files(data: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_dir(data.join("relay-log")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = list
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("relay-bin.0")))
        .collect();
    files.sort();
    files
}

/// Lets replay continue; it must reach the end in the same process.
fn is_mended(server: &Server, mut replica: Replica, said: &[&str], then: impl FnOnce()) {
    let pid = replica.pid();
    slipstream(&["resume", "--data", replica.data()]).expect(0, &[]);
    server.sql("INSERT INTO damage.t (v) VALUES ('meanwhile')");
    let goal = server.gtid_executed();
    let mut seen = GtidSet::new();
    // What was visible stays visible, even while the engine restarts.
    replica.wait_until("the end of the log", |status| {
        let now = executed(status);
        assert!(seen.is_subset_of(&now), "{now} after {seen}");
        seen = now;
        goal.is_subset_of(&seen)
    });
    assert_equal(server, &mut replica, &["damage"]);
    let status = replica.status().unwrap();
    assert_eq!(status["pid"], pid, "{}", replica.log_end());
    for text in said {
        replica.waits_for_log(&[text]);
    }
    then();
    replica.stop();
}

/// Flips a bit that replay has yet to read.
fn flip(data: &Path) {
    let file = File::options().read(true).write(true).open(&files(data)[FAR]).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 2_000_000).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], 2_000_000).unwrap();
}

/// Clients' transactions, cursors and unread rows hold the store open; the engine that starts again cannot wait for them.
#[test]
fn readers_let_go_of_what_they_read_when_the_engine_starts_again() {
    let server = Server::start("readers", &[]);
    server.sql(
        "CREATE DATABASE damage; CREATE TABLE damage.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(4000)); \
         CREATE TABLE damage.seen (id INT PRIMARY KEY, v VARCHAR(4000)); INSERT INTO damage.seen SELECT n, REPEAT('x', 3000) \
         FROM (WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n FROM s) x",
    );
    let (replica, socket) = Replica::with_socket(&server, &folder("readers"), &OPTIONS);
    let (replica, _) = lets_lag(&server, replica);
    let reader = || RawClient::over_socket(&socket, "admin", CAPABILITIES);
    let (mut transaction, mut cursor, mut slow) = (reader(), reader(), reader());
    transaction.query("BEGIN");
    assert_eq!(transaction.query("SELECT COUNT(*) FROM damage.t")[2], b"\x010");
    let prepared = cursor.prepare("SELECT id FROM damage.seen ORDER BY id");
    let id = u32::from_le_bytes(prepared[0][1..5].try_into().unwrap());
    cursor.execute(id, 1, &[]);
    assert_eq!(cursor.fetch(id, 3).len(), 4);
    slow.write(b"\x03SELECT * FROM damage.seen", 0);
    flip(&replica.data);
    is_mended(&server, replica, &["fetching the rest again"], || {
        let gone = |answer: &[Vec<u8>]| {
            let last = String::from_utf8_lossy(answer.last().unwrap()).into_owned();
            assert!(last.contains("snapshot too old: it was lost when"), "{last}");
        };
        gone(&slow.answer(3));
        gone(&cursor.fetch(id, 3));
        // It stays so until the transaction ends.
        gone(&transaction.query("SELECT COUNT(*) FROM damage.t"));
        gone(&transaction.query("SELECT COUNT(*) FROM damage.seen"));
        transaction.query("ROLLBACK");
        assert_eq!(transaction.query("SELECT COUNT(*) FROM damage.t")[2], b"\x0515653");
    });
}

#[test]
fn a_byte_flipped_under_a_running_replica_is_mended() {
    let server = Server::start("flipped", &[]);
    let (replica, _) = lagging(&server, "flipped");
    flip(&replica.data);
    is_mended(
        &server,
        replica,
        &["is damaged at offset", "fetching the rest again", "the source will send the rest again"],
        || (),
    );
}

#[test]
fn a_file_deleted_or_cut_off_under_a_running_replica_is_mended() {
    let server = Server::start("deleted", &[]);
    let (replica, _) = lagging(&server, "deleted");
    let all = files(&replica.data);
    std::fs::remove_file(&all[FAR]).unwrap();
    is_mended(&server, replica, &["it is missing", "fetching the rest again"], || ());
    let (replica, _) = lagging(&server, "deleted");
    let all = files(&replica.data);
    File::options().write(true).open(&all[FAR]).unwrap().set_len(1_000_000).unwrap();
    is_mended(&server, replica, &["fetching the rest again"], || ());
}

/// What the source has purged meanwhile cannot be fetched: reported with its own exit code, and nothing wrong is shown.
#[test]
fn what_the_source_purged_meanwhile_is_missing() {
    let server = Server::start("gone", &[]);
    let (mut replica, goal) = lagging(&server, "gone");
    server.purge_binary_logs();
    let all = files(&replica.data);
    let file = File::options().write(true).open(&all[FAR]).unwrap();
    file.write_all_at(&[0xee; 64], 2_000_000).unwrap();
    let before = executed(&replica.status().unwrap());
    slipstream(&["resume", "--data", replica.data()]).expect(0, &[]);
    let code = replica.wait_exit();
    assert_eq!(code, 5, "{}", replica.log_end());
    let after = whole_program_tests::replica::stopped_executed(&replica.data);
    assert!(before.is_subset_of(&after) && after.is_subset_of(&goal) && after != goal, "{after}");
}
