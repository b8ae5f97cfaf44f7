//! A replica left alone under load: its source restarts and is killed, the account's password changes, the disk fills,
//! bytes of the store flip. Nobody touches the replica, and its rows are equal at the end.
//!
//! By hand: SLIPSTREAM_LEFT_ALONE_SEED=N, SLIPSTREAM_LEFT_ALONE_SECONDS=N (two hours in a soak).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime};

use base::Random;
use serde_json::Value;
use whole_program_tests::{Ballast, Replica, Server, SmallDisk, assert_equal, folder, length, slipstream, wait_for};

const DB: &str = "alone";
/// Rows of each table, of 300 incompressible bytes.
const ROWS: u64 = 6000;
const TABLES: [&str; 3] = ["a", "b", "c"];
const MIB: u64 = 96;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn password(file: &Path, password: &str) {
    let new = file.with_extension("new");
    fs::write(&new, format!("[slipstream]\npassword={password}\n")).unwrap();
    fs::rename(&new, file).unwrap();
}

/// Rows replaced in one transaction.
fn replaced(table: &str, first: u64, rows: u64) -> String {
    format!(
        "REPLACE INTO {DB}.{table} (id, n, v) SELECT n, n DIV 7, LEFT(CONCAT(SHA2(RAND(), 512), SHA2(RAND(), 512), \
         SHA2(RAND(), 512)), 300) FROM (WITH RECURSIVE s (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s \
         WHERE n + 1 < {}) SELECT n FROM s) x",
        first + rows
    )
}

fn one_change(random: &mut Random) -> String {
    let table = TABLES[random.below(3) as usize];
    let rows = 1 + random.below(400);
    let first = random.below(ROWS - rows);
    match random.below(5) {
        0 => format!("UPDATE {DB}.{table} SET n = n + 1 WHERE id BETWEEN {first} AND {}", first + rows),
        1 => format!("DELETE FROM {DB}.{table} WHERE id BETWEEN {first} AND {}", first + rows / 2),
        _ => replaced(table, first, rows),
    }
}

/// What happens to the source and the disk.
struct World<'a> {
    server: &'a Server,
    disk: &'a SmallDisk,
    option_file: PathBuf,
    passwords: u64,
    random: Random,
    happened: BTreeMap<&'static str, u64>,
}

impl World<'_> {
    fn something_happens(&mut self) {
        let what = match self.random.below(5) {
            0 => self.source_restarts(),
            1 => self.source_is_killed(),
            2 => self.password_changes(),
            3 => self.disk_fills(),
            _ => self.byte_flips(),
        };
        *self.happened.entry(what).or_default() += 1;
    }

    fn pause(&mut self, most_ms: u64) {
        std::thread::sleep(Duration::from_millis(self.random.below(most_ms)));
    }

    fn source_restarts(&mut self) -> &'static str {
        self.server.stop();
        self.pause(3000);
        self.server.restart(&[]);
        "source restarted"
    }

    fn source_is_killed(&mut self) -> &'static str {
        self.server.kill();
        self.pause(3000);
        self.server.restart(&[]);
        "source killed"
    }

    /// The option file follows a moment later.
    fn password_changes(&mut self) -> &'static str {
        self.passwords += 1;
        let new = format!("word{}", self.passwords);
        self.server.sql(&format!("ALTER USER alone@'%' IDENTIFIED BY '{new}'"));
        let list = self.server.sql("SHOW PROCESSLIST");
        let dumps = list.lines().filter(|line| line.contains("Binlog Dump"));
        dumps
            .filter_map(|line| line.split('\t').next())
            .for_each(|id| drop(self.server.try_sql(&format!("KILL {id}"))));
        self.pause(3000);
        password(&self.option_file, &new);
        "password changed"
    }

    fn disk_fills(&mut self) -> &'static str {
        let ballast = Ballast::leave(self.disk, self.random.below(1500));
        self.pause(12_000);
        drop(ballast);
        "disk full"
    }

    /// In the rows of a file, not in its end or its records, for which a hand is needed.
    fn byte_flips(&mut self) -> &'static str {
        let tables = self.disk.path().join("store/tables");
        let files = fs::read_dir(tables).into_iter().flatten().flatten().map(|entry| entry.path());
        let files: Vec<PathBuf> =
            files.filter(|file| fs::metadata(file).is_ok_and(|facts| facts.len() > 200_000)).collect();
        if files.is_empty() {
            return "no file to flip a byte in";
        }
        let file = &files[self.random.below(files.len() as u64) as usize];
        let Ok(file) = File::options().read(true).write(true).open(file) else {
            return "file gone before its byte flipped";
        };
        let at = self.random.below(file.metadata().unwrap().len() / 2);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        "byte flipped"
    }
}

fn all_mended(status: &Value) -> bool {
    let damaged = status["replay"]["damaged"].as_array().cloned().unwrap_or_default();
    let quarantined = status["replay"]["quarantined"].as_array().map_or(0, Vec::len);
    quarantined == 0 && damaged.iter().all(|file| file.as_str().is_some_and(|text| text.contains("gone")))
}

#[test]
fn a_replica_left_alone_gets_over_everything() {
    let Some(disk) = SmallDisk::new("alone", MIB) else { return };
    let seconds = number("SLIPSTREAM_LEFT_ALONE_SECONDS").unwrap_or_else(|| length(40, 7200));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64 & 0xffff_ffff;
    let seed = number("SLIPSTREAM_LEFT_ALONE_SEED").unwrap_or(now);
    eprintln!("SLIPSTREAM_LEFT_ALONE_SEED={seed} for {seconds} s");
    let server = Server::start("alone", &["--cte-max-recursion-depth=10000"]);
    server.sql(&format!(
        "CREATE USER alone@'%' IDENTIFIED BY 'word0'; CREATE DATABASE {DB};
         GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT, LOCK TABLES, RELOAD, XA_RECOVER_ADMIN, BACKUP_ADMIN, PROCESS \
         ON *.* TO alone@'%'"
    ));
    for table in TABLES {
        server
            .sql(&format!("CREATE TABLE {DB}.{table} (id INT PRIMARY KEY, n INT DEFAULT 0, v VARCHAR(400), KEY (n))"));
        server.sql(&replaced(table, 0, ROWS));
    }
    let option_file = folder("alone.cnf");
    password(&option_file, "word0");
    let option = format!("--defaults-file={}", option_file.display());
    let options = [
        "--on-stop=stay",
        "--memory=128M",
        "--cut-interval=1s",
        "--max-relay-log-size=1M",
        "--scrub-interval=20s",
        &option,
    ];
    let mut replica = Replica::spawn(&server.url("alone"), disk.path(), &options, |_| ());
    replica.wait_until("an answer", |_| true);
    let (pid, ends) = (replica.pid(), Instant::now() + Duration::from_secs(seconds));
    let mut world = World {
        server: &server,
        disk: &disk,
        option_file,
        passwords: 0,
        random: Random::new(seed),
        happened: BTreeMap::new(),
    };
    let (ended, changes) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(seed ^ 1);
            while !ended.load(SeqCst) {
                // The source is away now and then.
                if server.try_sql(&one_change(&mut random)).is_ok() {
                    changes.fetch_add(1, SeqCst);
                }
                std::thread::sleep(Duration::from_millis(150 + random.below(300)));
            }
        });
        while Instant::now() < ends {
            world.something_happens();
            world.pause(length(4000, 30_000));
            if replica.ended().is_some() {
                break;
            }
        }
        ended.store(true, SeqCst);
    });
    assert_eq!(replica.ended(), None, "{}", replica.log_end());
    let happened = format!("{:?}, {} changes", world.happened, changes.load(SeqCst));
    eprintln!("{happened}");
    replica.catch_up(&server);
    // Bytes that nothing has read yet.
    wait_for(
        "a check that finds nothing more",
        || {
            let ran = slipstream(&["check-store", "--data", replica.data()]);
            let status = replica.wait_until("copies of what is damaged", all_mended);
            (ran.code == 0 && all_mended(&status)).then_some(())
        },
        String::new,
    );
    replica.catch_up(&server);
    assert_equal(&server, &mut replica, &[DB]);
    assert_eq!((replica.ended(), replica.pid()), (None, pid));
    let log = replica.log();
    for (code, what) in [
        ("SLIP-000031", "connections lost"),
        ("SLIP-000063", "waits for space"),
        ("SLIP-000069", "refused logins"),
        ("SLIP-000074", "new engines after the disk"),
        ("SLIP-000076", "damaged files"),
        ("SLIP-000078", "new engines after damage"),
    ] {
        eprintln!("{what}: {}", log.matches(code).count());
    }
    replica.stop();
}
