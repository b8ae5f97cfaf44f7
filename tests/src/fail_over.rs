//! Observes fail-overs: each server is asked every 100 ms, and TPC-C runs on two of those that take writes.
//!
//! In: servers, which of them is about to be lost. Out: when another one could have been followed; writers that move to
//! whoever is alive. Never here: a fault, the replica.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread::{Scope, sleep};
use std::time::{Duration, SystemTime};

use client::{ConnectOptions, Connection};

use crate::{Server, binary, slipstream};

/// Interval at which each server is asked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A server that does not answer within this is not alive.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// A member of a group: its state, whether it refuses writes, the members that it cannot reach, and all it sees.
const OF_MEMBER: &str = "SELECT m.MEMBER_STATE, @@GLOBAL.super_read_only, \
    (SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'UNREACHABLE'), \
    (SELECT COUNT(*) FROM performance_schema.replication_group_members), \
    (SELECT GROUP_CONCAT(MEMBER_ID) FROM performance_schema.replication_group_members) \
    FROM performance_schema.replication_group_members m WHERE m.MEMBER_ID = @@GLOBAL.server_uuid";
const OF_SERVER: &str = "SELECT 'ONLINE', @@GLOBAL.super_read_only, 0, 1, @@GLOBAL.server_uuid";
/// Database of TPC-C.
pub const TPCC: &str = "tpcc";

/// Microseconds since 1970.
#[must_use]
pub fn now_us() -> u64 {
    u64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap()
}

/// A moment of the status report, `2026-11-30T12:00:00.123456Z`, in microseconds since its day began.
#[must_use]
pub fn of_day_us(text: &str) -> u64 {
    let number = |from: usize, to: usize| text[from..to].parse::<u64>().unwrap();
    ((number(11, 13) * 60 + number(14, 16)) * 60 + number(17, 19)) * 1_000_000 + number(20, 26)
}

/// How long after the other a moment is, in milliseconds. Both are of one day or of two.
#[must_use]
pub fn later_ms(moment: u64, than: u64) -> i64 {
    const DAY: i64 = 86_400_000_000;
    let between =
        i64::try_from(moment % DAY.unsigned_abs()).unwrap() - i64::try_from(than % DAY.unsigned_abs()).unwrap();
    (between + DAY / 2).rem_euclid(DAY) / 1000 - DAY / 2000
}

/// What a server said last.
#[derive(Clone, Default)]
struct Look {
    /// ONLINE with a majority.
    fit: bool,
    writable: bool,
    sees: String,
}

/// Looks at servers.
pub struct Watched<'a> {
    servers: Vec<&'a Server>,
    of_group: bool,
    looks: Vec<Mutex<Look>>,
    /// server_uuid of the one that is about to be lost.
    lost: Mutex<String>,
    /// When another one was first fit without it, µs; 0 if none was yet.
    fit_us: AtomicU64,
    pub ended: AtomicBool,
    /// Writers wait while it is set.
    pub paused: AtomicBool,
    running: AtomicU64,
}

impl<'a> Watched<'a> {
    #[must_use]
    pub fn new(servers: Vec<&'a Server>, of_group: bool) -> Watched<'a> {
        let looks = servers.iter().map(|_| Mutex::default()).collect();
        let (ended, paused) = (AtomicBool::new(false), AtomicBool::new(true));
        let (lost, fit_us, running) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        Watched { servers, of_group, looks, lost, fit_us, ended, paused, running }
    }

    /// Looks at each server until `ended`, in threads of this scope, and writes at two of them.
    pub fn begin<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        for at in 0..self.servers.len() {
            scope.spawn(move || self.watch(at));
        }
        for first in 0..2 {
            scope.spawn(move || self.write(first));
        }
    }

    /// From now on this one is about to be lost.
    pub fn loses(&self, server_uuid: &str) {
        server_uuid.clone_into(&mut self.lost.lock().unwrap());
        self.fit_us.store(0, SeqCst);
    }

    /// When another one was first ONLINE, with a majority in a view without the lost one, µs.
    #[must_use]
    pub fn fit_us(&self) -> Option<u64> {
        Some(self.fit_us.load(SeqCst)).filter(|us| *us > 0)
    }

    /// Stops the writers.
    pub fn pause(&self) {
        self.paused.store(true, SeqCst);
        while self.running.load(SeqCst) > 0 {
            sleep(LOOK_EVERY);
        }
    }

    pub fn resume(&self) {
        self.paused.store(false, SeqCst);
    }

    /// A server that takes writes, the first one from that of this number.
    #[must_use]
    pub fn writable(&self, from: usize) -> Option<usize> {
        let count = self.servers.len();
        let is = |at: &usize| {
            let look = self.looks[*at].lock().unwrap_or_else(PoisonError::into_inner);
            look.fit && look.writable
        };
        (0..count).map(|step| (from + step) % count).find(is)
    }

    fn watch(&self, at: usize) {
        let what = if self.of_group { OF_MEMBER } else { OF_SERVER };
        let within = Some(ANSWER_WITHIN);
        let options =
            ConnectOptions { connect_timeout: ANSWER_WITHIN, read_timeout: within, ..self.servers[at].login("root") };
        let mut connection: Option<Connection> = None;
        while !self.ended.load(SeqCst) {
            sleep(LOOK_EVERY);
            if connection.is_none() {
                connection = Connection::connect(&options).ok();
            }
            let answer = connection.as_mut().and_then(|connection| connection.query(what).ok());
            if answer.is_none() {
                connection = None;
            }
            let text = |column| answer.as_ref().and_then(|answer| answer.text(0, column)).unwrap_or_default();
            let number = |column| text(column).parse::<u64>().unwrap_or(0);
            let look =
                Look { fit: text(0) == "ONLINE" && number(2) * 2 < number(3), writable: text(1) == "0", sees: text(4) };
            let lost = self.lost.lock().unwrap().clone();
            if look.fit && !look.sees.contains(&lost) {
                let _ = self.fit_us.compare_exchange(0, now_us(), SeqCst, SeqCst);
            }
            *self.looks[at].lock().unwrap() = look;
        }
    }

    /// TPC-C on a server that takes writes, and on the next one when that is lost.
    fn write(&self, first: usize) {
        let mut at = first;
        while !self.ended.load(SeqCst) {
            sleep(LOOK_EVERY);
            let Some(next) = self.writable(at).filter(|_| !self.paused.load(SeqCst)) else { continue };
            at = next;
            self.running.fetch_add(1, SeqCst);
            let mut child = terminals(self.servers[at]);
            let goes_on = || {
                let look = self.looks[at].lock().unwrap().clone();
                look.fit && look.writable && !self.paused.load(SeqCst) && !self.ended.load(SeqCst)
            };
            while goes_on() && child.try_wait().unwrap().is_none() {
                sleep(LOOK_EVERY);
            }
            let _ = child.kill();
            child.wait().unwrap();
            self.running.fetch_sub(1, SeqCst);
        }
    }
}

fn terminals(server: &Server) -> Child {
    let mut command = Command::new(binary());
    let url = server.url("load");
    command.args([
        "lab",
        "tpcc",
        "run",
        "--database",
        TPCC,
        "--terminals=2",
        "--rate=40",
        "--duration=1h",
        "--server",
        &url,
    ]);
    command.args(["--reconnect-for=1s"]).env("MYSQL_PWD", "repl");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Loads TPC-C's tables, and a table `t.a` of one row; `repl` gets what a copy needs.
pub fn load(server: &Server) {
    server.sql(
        "CREATE USER `load` IDENTIFIED BY 'repl'; GRANT ALL ON *.* TO `load`; \
         GRANT RELOAD, LOCK TABLES, XA_RECOVER_ADMIN, BACKUP_ADMIN, PROCESS ON *.* TO repl; \
         CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, n INT); INSERT INTO t.a VALUES (1, 0)",
    );
    let url = server.url("load");
    let arguments = ["--server", &url, "--database", TPCC, "--warehouses=1", "--scale=0.02"];
    slipstream(&[&["lab", "tpcc", "prepare"][..], &arguments].concat()).expect(0, &[]);
}
