//! kill -9 in every phase: fail points name the phase, the real process dies in it, and the next one continues exactly.
//!
//! Under TPC-C with DDL in parallel. Each restart reports what it kept and how long recovery took. The table at the end
//! compares that with the time the killed process took to replay what came after its last cut.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Instant;

use base::GtidSet;
use whole_program_tests::{
    Load, Random, Replica, Server, SetAtEnd, assert_equal, folder, length, slipstream, wait_for,
};

const TPCC: &str = "tpcc";
const DDL: &str = "changing";

/// Where the process dies, how often at most it enters that point, and how long after the last entry it lives at most,
/// µs.
const PHASES: [(&str, u64, u64); 7] = [
    ("receive", 200, 5_000),
    ("cut", 4, 8_000),
    ("ingest", 4, 12_000),
    ("compaction", 2, 20_000),
    ("purge", 4, 2_000),
    ("ddl", 12, 3_000),
    ("recopy", 6, 20_000),
];

/// Copies tables of the load again and again during replay.
struct Copying {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Copying {
    fn start(data: &Path) -> Copying {
        let ended = Arc::new(AtomicBool::new(false));
        let (stop, data) = (Arc::clone(&ended), data.to_str().unwrap().to_owned());
        let work = move || {
            for table in ["item", "stock", "warehouse", "customer"].into_iter().cycle() {
                if stop.load(SeqCst) {
                    return;
                }
                // Refused while the replica starts, and cut off when it dies.
                let _ = slipstream(&["copy", "--data", &data, &format!("{TPCC}.{table}")]);
            }
        };
        Copying { ended, thread: Some(std::thread::spawn(work)) }
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.ended.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Changes definitions while `body` runs.
fn while_definitions_change(server: &Server, body: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0u64.. {
                if ended.load(SeqCst) {
                    return;
                }
                let t = format!("{DDL}.t{}", n % 7);
                server.sql(&format!(
                    "DROP TABLE IF EXISTS {t}; CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20)); \
                     INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c'); UPDATE {t} SET v = 'x' WHERE id > 1; \
                     ALTER TABLE {t} ADD INDEX (v); RENAME TABLE {t} TO {t}x; INSERT INTO {t}x VALUES (4, 'd'); \
                     TRUNCATE TABLE {t}x; INSERT INTO {t}x VALUES (5, 'e'); RENAME TABLE {t}x TO {t}; \
                     DROP TABLE IF EXISTS {DDL}.copied; CREATE TABLE {DDL}.copied AS SELECT * FROM {t}"
                ));
            }
        });
        let _ended = SetAtEnd(&ended);
        body();
    });
}

/// Report of a restart, and what it is compared with.
struct Restart {
    phase: &'static str,
    kept: String,
    recovered_ms: u64,
    replayed: u64,
    /// From the killed process's last cut to its death.
    since_cut_ms: u64,
}

struct Run {
    url: String,
    data: PathBuf,
    random: Random,
    /// Bytes of log already evaluated.
    log_len: usize,
    restarts: Vec<Restart>,
    kills: BTreeMap<&'static str, u64>,
    /// GTID sets that restarts found, each larger than the one before.
    held: Vec<GtidSet>,
    /// How the previous process ended, and the age of its last cut then.
    before: Option<(&'static str, u64)>,
}

impl Run {
    /// Starts the replica so that it dies in a phase; returns when it is dead.
    fn die_in(&mut self, (phase, most, after_us): (&'static str, u64, u64), options: &[&str]) {
        let number = 1 + self.random.below(most);
        let after = if self.random.below(3) == 0 { 0 } else { self.random.below(after_us) };
        // Compaction and purge need many cuts.
        let longest = if phase == "compaction" || phase == "purge" { 1 } else { 3 };
        let interval = [100, 300, 1_000][self.random.below(longest) as usize];
        let interval = format!("--cut-interval={interval}ms");
        let options = [&[interval.as_str()], options].concat();
        let point = format!("die_at={phase}:{number}+{after}");
        let began = Instant::now();
        let mut replica = Replica::spawn(&self.url, &self.data, &options, |command| {
            command.env("SLIPSTREAM_FAILPOINT", &point);
        });
        let copying = (phase == "recopy").then(|| Copying::start(&self.data));
        let mut last_cut = (0, began);
        let mut cuts = 0;
        let end = wait_for(
            &point,
            || {
                let log = replica.log();
                let seen = log[self.log_len..].matches("cut at transaction").count();
                if seen > cuts {
                    (cuts, last_cut) = (seen, (seen, Instant::now()));
                }
                replica.ended()
            },
            String::new,
        );
        assert_eq!(end, 128 + 9, "{point}: {}", replica.log_end());
        drop((replica, copying));
        *self.kills.entry(phase).or_default() += 1;
        self.take_log();
        self.before = Some((phase, last_cut.1.elapsed().as_millis() as u64));
    }

    /// Ignores the log so far.
    fn skip_log(&mut self) {
        self.log_len = std::fs::metadata(self.data.with_extension("log")).unwrap().len() as usize;
        self.before = None;
    }

    /// Evaluates what the last process reported about its start.
    fn take_log(&mut self) {
        let log = std::fs::read_to_string(self.data.with_extension("log")).unwrap();
        let new = log[self.log_len..].to_owned();
        self.log_len = log.len();
        let Some((phase, since_cut_ms)) = self.before.take() else { return };
        let kept = new.lines().find(|line| line.contains("kept relay log")).unwrap_or_default();
        if phase == "copy" {
            // It started from nothing.
            return;
        }
        let set = kept.rsplit_once(", GTIDs ").and_then(|(_, rest)| rest.split(';').next());
        let held: GtidSet = set.and_then(|set| set.parse().ok()).unwrap_or_default();
        // The next process replays what an ended one had received, and that one had received more than it started with.
        let grown = self.held.last().is_none_or(|before| before.is_subset_of(&held));
        assert!(grown, "after {phase}: {held} does not hold {:?}", self.held.last());
        self.held.push(held);
        assert!(!kept.is_empty(), "after {phase}: a restart does not say what it kept:\n{new}");
        let Some(line) = new.lines().find(|line| line.contains("recovered in ")) else { return };
        let number = |after: &str| {
            let rest = line.split(after).nth(1).unwrap_or_default();
            rest.split(' ').next().unwrap_or_default().parse::<u64>().unwrap()
        };
        self.restarts.push(Restart {
            phase,
            kept: kept.split("kept ").nth(1).unwrap_or_default().chars().take(60).collect(),
            recovered_ms: number("recovered in "),
            replayed: number("replayed "),
            since_cut_ms,
        });
    }

    fn table(&self) -> String {
        let mut lines = vec![format!("kills by phase: {:?}", self.kills)];
        let mut above = 0;
        for restart in &self.restarts {
            // A clock's tick is the smallest value to compare with.
            let ratio = restart.recovered_ms as f64 / restart.since_cut_ms.max(1) as f64;
            above += u64::from(ratio > 2.0);
            lines.push(format!(
                "killed in {:10} recovered in {:5} ms ({:5} transactions), replayed before in {:5} ms: ratio {ratio:.2}; kept {}",
                restart.phase, restart.recovered_ms, restart.replayed, restart.since_cut_ms, restart.kept
            ));
        }
        lines.push(format!("{} restarts that told their recovery, {above} with a ratio above 2", self.restarts.len()));
        lines.join("\n")
    }
}

#[test]
fn killed_in_every_phase() {
    let server = Server::start("phases", &[]);
    server.sql("CREATE USER `load` IDENTIFIED BY 'repl'; GRANT ALL ON *.* TO `load`");
    let url = server.url("load");
    let arguments = ["--server", &url, "--database", TPCC, "--warehouses=1", "--scale=0.02"];
    slipstream(&[&["lab", "tpcc", "prepare"][..], &arguments].concat()).expect(0, &[]);
    server.sql(&format!(
        "CREATE DATABASE {DDL}; \
         GRANT RELOAD, LOCK TABLES, XA_RECOVER_ADMIN, BACKUP_ADMIN, PROCESS ON *.* TO repl"
    ));
    server.purge_binary_logs();
    let mut run = Run {
        url: server.url("repl"),
        data: folder("phases"),
        random: Random::new(whole_program_tests::length(5, 77)),
        log_len: 0,
        restarts: Vec::new(),
        kills: BTreeMap::new(),
        held: Vec::new(),
        before: None,
    };
    let options = ["--memory=128M", "--max-relay-log-size=64K"];
    let load = Load::start(&server);
    for _ in 0..length(2, 26) {
        run.die_in(("copy", 3, 20_000), &options);
    }
    // A copy that meets DDL again and again has a test of its own.
    let mut replica = Replica::follow(&server, &run.data, &options);
    replica.wait_until("the copy's end", |status| status["replay"]["state"] != "copying");
    replica.kill();
    run.skip_log();
    while_definitions_change(&server, || {
        for n in 0..length(8, 174) {
            run.die_in(PHASES[n % PHASES.len()], &options);
        }
    });
    drop(load);
    let mut replica = Replica::follow(&server, &run.data, &options);
    assert_equal(&server, &mut replica, &[TPCC, DDL]);
    wait_for(
        "the end of recovery",
        || replica.log()[run.log_len..].contains("recovered in ").then_some(()),
        String::new,
    );
    replica.stop();
    run.take_log();
    eprintln!("{}", run.table());
    let least = length(1, 5);
    assert!(run.kills.len() == PHASES.len() + 1 && run.kills.values().all(|count| *count >= least), "{:?}", run.kills);
    assert!(!run.restarts.is_empty());
    let grown = run.held.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(grown * 2 > run.held.len(), "gtid_executed grows between kills: {grown} of {}", run.held.len());
}
