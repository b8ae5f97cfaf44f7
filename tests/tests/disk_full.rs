//! A disk that fills while the source is copied, and while the store is compacted: code 8, and on it goes with space.
//! (While receiving and cutting: `store.rs`.)
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::File;

use whole_program_tests::{Replica, Server, SmallDisk, assert_equal, wait_for};

const OPTIONS: [&str; 3] = ["--memory=128M", "--cut-interval=100ms", "--max-relay-log-size=256K"];

/// So many rows of 3,000 bytes that do not compress.
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
    server.sql(
        "FLUSH BINARY LOGS; PURGE BINARY LOGS TO 'binlog.000002'; \
         GRANT RELOAD, XA_RECOVER_ADMIN, BACKUP_ADMIN, PROCESS ON *.* TO repl",
    );
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
    // Room for what is received and cut, not for the tree once more.
    let ballast = disk.path().join("ballast");
    let room = disk.free() - (3 << 20);
    let file = File::create(&ballast).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, room).unwrap();
    // A few rows from all over the table in every cut, so that compaction has to write the whole of it.
    let ended = wait_for(
        "the end",
        || {
            server.sql("UPDATE full.t SET n = n + 1 WHERE id % 500 = 7");
            replica.ended()
        },
        String::new,
    );
    assert_eq!(ended, 8, "{}", replica.log_end());
    let log = replica.log_end();
    let why = log.lines().find(|line| line.contains("[ERROR]")).unwrap_or_default();
    assert!(why.contains("store ") && why.contains("no space left"), "{log}");
    drop(replica);
    // An open file keeps its space.
    drop(file);
    std::fs::remove_file(&ballast).unwrap();
    let mut replica = Replica::follow(&server, disk.path(), &OPTIONS);
    assert_equal(&server, &mut replica, &["full"]);
    replica.stop();
}
