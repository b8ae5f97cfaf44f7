//! Readers of a replica see prefixes of the source's history and never go back, while the replica is killed again and
//! again: a list-append checker.
//!
//! Each transaction appends its number to both lists of a pair. Whatever a reader sees is a list's beginning, and both
//! lists of a pair are equal in one snapshot. No session sees less than any session saw before it asked, across kills
//! too. At *session* it sees at least what was written up to its set, at *global* all that was acknowledged before.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use client::{ClientError, ConnectOptions, Connection};
use whole_program_tests::{Replica, Server, folder, length};

/// Pairs of lists; each pair has a writer.
const PAIRS: usize = 3;
/// Sessions that read at each level.
const READERS: usize = 2;
const LEVELS: [&str; 3] = ["EVENTUAL", "SESSION", "GLOBAL"];

/// What is known of the source's history while the test runs.
#[derive(Default)]
struct History {
    /// Appends of each pair that the source has acknowledged.
    acknowledged: [AtomicUsize; PAIRS],
    /// Appends of each pair that a reader has seen.
    seen: [AtomicUsize; PAIRS],
    /// GTID set behind the last acknowledged append of each pair, with the number of appends that it holds.
    written: [Mutex<(String, usize)>; PAIRS],
    reads: [AtomicUsize; LEVELS.len()],
    refused: AtomicUsize,
    ended: AtomicBool,
}

/// Ends the other threads also when the test fails.
struct Ends<'a>(&'a History);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, SeqCst);
    }
}

fn numbers(text: &str) -> Vec<usize> {
    text.split(',').filter(|number| !number.is_empty()).map(|number| number.parse().unwrap()).collect()
}

impl History {
    fn is_over(&self) -> bool {
        self.ended.load(SeqCst)
    }

    fn write(&self, server: &Server, pair: usize) {
        let mut writer = server.connect();
        let mut number = 0;
        while !self.is_over() {
            number += 1;
            // Two statements: a replica that showed half of a transaction would be found.
            writer.query("BEGIN").unwrap();
            for list in ["a", "b"] {
                let sql =
                    format!("UPDATE h.lists SET v = CONCAT(v, ',{number}') WHERE pair = {pair} AND list = '{list}'");
                writer.query(&sql).unwrap();
            }
            writer.query("COMMIT").unwrap();
            self.acknowledged[pair].store(number, SeqCst);
            let set = writer.query("SELECT @@global.gtid_executed").unwrap().first_text().unwrap();
            *self.written[pair].lock().unwrap() = (set.replace('\n', ""), number);
            // Bounded: a list stays below a megabyte.
            if number == 20_000 {
                return;
            }
        }
    }

    fn read(&self, socket: &Path, level: usize, number: usize) {
        let (mut connection, mut turn) = (None, number);
        while !self.is_over() {
            turn += 1;
            let pair = turn % PAIRS;
            let (before, acknowledged) = (self.seen[pair].load(SeqCst), self.acknowledged[pair].load(SeqCst));
            let (set, written) = self.written[pair].lock().unwrap().clone();
            let lists = self.lists_of(&mut connection, socket, LEVELS[level], &set, pair);
            let lists = match lists {
                Ok(lists) => lists,
                Err(error) => {
                    // Killed, or recovering and not yet able to show what it must.
                    let known = matches!(error.server_code(), None | Some(1105 | 1053));
                    assert!(known, "{error}");
                    self.refused.fetch_add(1, SeqCst);
                    connection = None;
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                }
            };
            let [one, other] = lists.as_slice() else { panic!("{} lists", lists.len()) };
            assert_eq!(one, other, "half of a transaction");
            assert!(one.iter().copied().eq(1..=one.len()), "no prefix: {one:?}");
            let what = format!("{} of pair {pair}, seen before {before}", LEVELS[level]);
            assert!(one.len() >= before, "{what}: {} now", one.len());
            match LEVELS[level] {
                "SESSION" => assert!(one.len() >= written, "{what}: {} of {written} written", one.len()),
                "GLOBAL" => assert!(one.len() >= acknowledged, "{what}: {} of {acknowledged}", one.len()),
                _ => {}
            }
            self.seen[pair].fetch_max(one.len(), SeqCst);
            self.reads[level].fetch_add(1, SeqCst);
        }
    }

    /// Both lists of a pair, in one snapshot.
    fn lists_of(
        &self,
        connection: &mut Option<Connection>,
        socket: &Path,
        level: &str,
        set: &str,
        pair: usize,
    ) -> Result<Vec<Vec<usize>>, ClientError> {
        let session = match connection {
            Some(session) => session,
            None => {
                let options = ConnectOptions {
                    socket: Some(socket.to_owned()),
                    user: "admin".to_owned(),
                    ..ConnectOptions::default()
                };
                let session = connection.insert(Connection::connect(&options)?);
                session.query(&format!("SET slipstream_read_consistency = {level}"))?;
                session
            }
        };
        if level == "SESSION" {
            session.query(&format!("SET slipstream_read_gtids = '{set}'"))?;
        }
        session.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
        let mut lists = Vec::new();
        for list in ["a", "b"] {
            let sql = format!("SELECT v FROM h.lists WHERE pair = {pair} AND list = '{list}'");
            lists.push(numbers(&session.query(&sql)?.first_text().unwrap()));
        }
        session.query("COMMIT")?;
        Ok(lists)
    }
}

#[test]
fn lists_only_grow_whatever_kills_the_replica() {
    let Some(server) = Server::or_skip("door-history", &["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0"])
    else {
        return;
    };
    server.sql(
        "CREATE DATABASE h; CREATE TABLE h.lists (pair INT, list CHAR(1), v MEDIUMTEXT, PRIMARY KEY (pair, list))",
    );
    for pair in 0..PAIRS {
        server.sql(&format!("INSERT INTO h.lists VALUES ({pair}, 'a', ''), ({pair}, 'b', '')"));
    }
    let data = folder("door-history");
    let options = ["--on-stop=stay", "--cut-interval=200ms", "--relay-sync=never"];
    let (mut replica, socket) = Replica::with_socket(&server, &data, &options);
    let listens = format!("--socket={}", socket.display());
    let history = History::default();
    std::thread::scope(|scope| {
        let _ends = Ends(&history);
        for pair in 0..PAIRS {
            let (history, server) = (&history, &server);
            scope.spawn(move || history.write(server, pair));
        }
        for level in 0..LEVELS.len() {
            for number in 0..READERS {
                let (history, socket) = (&history, &socket);
                scope.spawn(move || history.read(socket, level, number));
            }
        }
        let enough = |before: &[usize; LEVELS.len()]| {
            let read = history.reads.iter().zip(before).all(|(now, before)| now.load(SeqCst) >= before + 20);
            (read || history.is_over()).then_some(())
        };
        for _ in 0..length(4, 40) {
            let before = std::array::from_fn(|level| history.reads[level].load(SeqCst));
            whole_program_tests::wait_for("readers at each level", || enough(&before), || format!("{before:?}"));
            replica.signal(rustix::process::Signal::KILL);
            replica.wait_exit();
            replica = Replica::follow(&server, &data, &[&[listens.as_str()], options.as_slice()].concat());
        }
        let before = std::array::from_fn(|level| history.reads[level].load(SeqCst));
        whole_program_tests::wait_for("readers after the last kill", || enough(&before), || format!("{before:?}"));
    });
    replica.catch_up(&server);
    replica.stop();
    let count = |counts: &[AtomicUsize]| counts.iter().map(|count| count.load(SeqCst)).collect::<Vec<_>>();
    println!(
        "appends {:?}, reads {LEVELS:?} {:?}, {} refused",
        count(&history.acknowledged),
        count(&history.reads),
        history.refused.load(SeqCst)
    );
}
