//! The power fails at any moment: what was acknowledged is there, what is there is an exact prefix of the source's
//! history, and replication continues from it to an equal end (invariants 12, 13, 15).
//!
//! A *life* is one data folder and what happens to it: rounds of start, load, cut, look. The wall clock decides when a
//! cut comes; the checks hold for every moment. The seed decides which unsynced bytes and names survive.
//!
//! By hand: SLIPSTREAM_POWER_CUT_SEED=N chooses the seeds, SLIPSTREAM_POWER_CUT_FAULT=TEXT the faults whose names
//! contain the text, SLIPSTREAM_POWER_CUT_TAKE_OUT=RULES removes syncs from every life (`power_cut::journal::skips`).

use std::path::PathBuf;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use base::{GtidSet, Random};
use power_cut::{Cut, PowerCut};
use whole_program_tests::replica::{executed, retrieved};
use whole_program_tests::{
    Proxy, Replica, Server, all_cases, assert_equal, assert_equal_at_rest, binary, folder, length, share, shop,
    slipstream, slipstream_with, soak, wait_for,
};

/// How a replica runs in a round. Add what should meet a cut: another option, another state of the source.
#[derive(Clone, Copy)]
struct Phase {
    name: &'static str,
    options: &'static [&'static str],
    /// Run at the source before the round.
    source: &'static str,
    /// True if commits at the source wait for this replica.
    semi_sync: bool,
    /// True for transactions of several MiB, and a dump stream that breaks inside them.
    torn_stream: bool,
    /// SLIPSTREAM_FAILPOINT of the replica.
    fail_point: &'static str,
    /// Exclusive upper bound of the random number of store cuts to wait for.
    store_cuts: u64,
}

const PLAIN: Phase = Phase {
    name: "plain",
    options: &["--semi-sync", "--max-relay-log-size=16K"],
    source: "SET GLOBAL binlog_checksum = CRC32",
    semi_sync: true,
    torn_stream: false,
    fail_point: "",
    store_cuts: 1,
};

const PHASES: &[Phase] = &[
    PLAIN,
    Phase {
        name: "no checksums",
        options: &["--semi-sync", "--max-relay-log-size=256K"],
        source: "SET GLOBAL binlog_checksum = NONE",
        ..PLAIN
    },
    Phase {
        name: "every transaction",
        options: &["--semi-sync", "--max-relay-log-size=64K", "--relay-sync=every-transaction"],
        ..PLAIN
    },
    Phase {
        name: "large transactions over a torn stream",
        options: &["--semi-sync", "--max-relay-log-size=4M"],
        torn_stream: true,
        ..PLAIN
    },
    Phase {
        name: "never synced",
        options: &["--relay-sync=never", "--max-relay-log-size=16K"],
        semi_sync: false,
        ..PLAIN
    },
    Phase { name: "one large file", options: &["--semi-sync", "--relay-sync=50,64K"], ..PLAIN },
    Phase {
        name: "a slow disk",
        options: &["--semi-sync", "--max-relay-log-size=16K"],
        fail_point: "relay_sync_delay_ms=60",
        ..PLAIN
    },
    Phase {
        name: "a slow disk and nobody waits for it",
        options: &["--max-relay-log-size=32K"],
        semi_sync: false,
        fail_point: "relay_sync_delay_ms=150",
        ..PLAIN
    },
    CUTS,
    Phase {
        name: "cuts of what is never synced",
        options: &["--relay-sync=never", "--max-relay-log-size=16K", "--memory=128M", "--cut-interval=200ms"],
        semi_sync: false,
        store_cuts: 4,
        ..PLAIN
    },
    Phase {
        name: "cuts between large transactions over a torn stream",
        options: &["--semi-sync", "--max-relay-log-size=1M", "--memory=128M", "--cut-interval=200ms"],
        torn_stream: true,
        store_cuts: 4,
        ..PLAIN
    },
];

/// Cuts the store, compacts it and purges the relay log as often as possible.
const CUTS: Phase = Phase {
    name: "cuts",
    options: &["--semi-sync", "--max-relay-log-size=16K", "--memory=128M", "--cut-interval=50ms"],
    store_cuts: 10,
    ..PLAIN
};

/// What happens to a process before the power fails.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Killed while it starts.
    EndsEarly,
    Runs,
    /// GTIDs are listed to be skipped.
    Skips,
    /// Killed, started, killed: what the first run left unsynced has not become durable.
    StartsAgain,
    /// As above, but the second start finds no source.
    StartsAgainAlone,
    /// A clean stop, after which everything it holds is durable.
    Stops,
}

const WAYS: &[Way] = &[
    Way::Runs,
    Way::Runs,
    Way::EndsEarly,
    Way::EndsEarly,
    Way::Skips,
    Way::StartsAgain,
    Way::StartsAgainAlone,
    Way::Stops,
];

/// The source, its load, and who may say that a transaction was acknowledged.
struct Source {
    server: Server,
    /// Held for reading by committers: nothing is in progress while it is held for writing.
    commits: RwLock<()>,
    ended: AtomicBool,
    large: AtomicBool,
    transactions: AtomicU64,
}

const DB: &str = "power";
/// Rows that a client inserts one at a time before it checks whether to end.
const SMALL: u64 = 25;
/// Connections that write.
const LOADS: u64 = 5;

impl Source {
    fn start() -> Source {
        let server = Server::start("power", &["--binlog-row-image=FULL"]);
        server.sql(
            "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so';
             SET GLOBAL rpl_semi_sync_source_timeout = 4000000000; SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON",
        );
        server.sql(&shop::schema(DB));
        server.sql(&format!(
            "CREATE TABLE {DB}.large (id INT PRIMARY KEY, v LONGTEXT); INSERT INTO {DB}.large VALUES (1,''), (2,''), (3,''), (4,''), (5,''), (6,'');
             CREATE TABLE {DB}.small (id BIGINT PRIMARY KEY)"
        ));
        // One login over TLS: the server then lets this account in through the proxy without TLS.
        slipstream(&["check", "--source", &server.url("repl")]).expect(0, &[]);
        Source {
            server,
            commits: RwLock::new(()),
            ended: AtomicBool::new(false),
            large: AtomicBool::new(false),
            transactions: AtomicU64::new(0),
        }
    }

    /// Runs `body` while the source is busy.
    fn busy(&self, body: impl FnOnce()) {
        self.ended.store(false, SeqCst);
        std::thread::scope(|scope| {
            scope.spawn(|| self.load(|n| shop::load(DB, n, n * 5, 5)));
            scope.spawn(|| {
                self.load(|n| {
                    let large = self.large.load(SeqCst);
                    let row = if large { "UPDATE large SET v = REPEAT(HEX(RANDOM_BYTES(16)), 8000);" } else { "" };
                    format!("USE {DB}; {row} INSERT INTO small VALUES ({});", n * SMALL)
                });
            });
            // Several at a time: another one's sync does not bring what one of them waits for.
            for _ in 0..3 {
                scope.spawn(|| {
                    self.load(|n| {
                        let keys = (0..SMALL).map(|key| n * SMALL + key);
                        let rows: String = keys.map(|key| format!("INSERT INTO small VALUES ({key});")).collect();
                        format!("USE {DB}; {rows}")
                    });
                });
            }
            let _ended = Ended(self);
            body();
        });
    }

    fn load(&self, sql: impl Fn(u64) -> String) {
        while !self.ended.load(SeqCst) {
            let n = self.transactions.fetch_add(1, SeqCst);
            let _commits = self.commits.read().unwrap();
            self.server.sql(&sql(n));
        }
    }
}

/// On drop, even after a panic: ends the load and releases everyone who waits for an acknowledgement.
struct Ended<'a>(&'a Source);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, SeqCst);
        self.0.server.sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF");
    }
}

/// A data folder, and what must be in it.
struct Life<'a> {
    source: &'a Source,
    proxy: Proxy,
    power: PowerCut,
    data: PathBuf,
    random: Random,
    /// Acknowledged to the source, so that commits returned there.
    acknowledged: GtidSet,
    /// Executed at the source before its commits began to wait for this folder; None while they do not wait.
    waits_since: Option<GtidSet>,
    /// On the disk after a cut or a clean stop: durable ever since.
    kept: GtidSet,
    /// GTIDs that `slipstream skip` promised to skip.
    skipped: GtidSet,
    cuts: u64,
    /// Cuts at which something in the relay log was not durable.
    unsynced_cuts: u64,
    /// Cuts at which something in the store was not durable.
    unsynced_store: u64,
    /// Cuts at which files merged by compaction were about to be deleted.
    compactions: u64,
    last: Cut,
}

impl<'a> Life<'a> {
    fn begin(source: &'a Source, seed: u64) -> Life<'a> {
        let mut power = PowerCut::new(&folder("power"));
        power.skip_syncs(&std::env::var("SLIPSTREAM_POWER_CUT_TAKE_OUT").unwrap_or_default());
        Life {
            source,
            proxy: Proxy::start(source.server.port()),
            data: power.disk().join("data"),
            power,
            random: Random::new(seed),
            acknowledged: GtidSet::new(),
            waits_since: None,
            kept: GtidSet::new(),
            skipped: GtidSet::new(),
            cuts: 0,
            unsynced_cuts: 0,
            unsynced_store: 0,
            compactions: 0,
            last: Cut::default(),
        }
    }

    /// Brings the source into the phase's state.
    fn enter(&mut self, phase: &Phase) {
        self.note_acknowledged();
        self.source.large.store(phase.torn_stream, SeqCst);
        let server = &self.source.server;
        // Releases those who wait: a change of the checksum waits for all commits in progress. They do not count as
        // acknowledged.
        self.waits_since = None;
        server.sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF");
        let _nobody = self.source.commits.write().unwrap();
        server.sql(phase.source);
        if phase.semi_sync {
            server.sql("SET GLOBAL rpl_semi_sync_source_enabled = ON");
            self.waits_since = Some(server.gtid_executed());
        }
    }

    /// With AFTER_SYNC the source has executed only what was acknowledged.
    fn note_acknowledged(&mut self) {
        if let Some(before) = &self.waits_since {
            let since = self.source.server.gtid_executed().subtract(before);
            self.acknowledged.union_with(&since);
        }
    }

    fn spawn(&self, phase: &Phase) -> Replica {
        let mut options = phase.options.to_vec();
        options.extend(["--source-connect-retry=1"]);
        let url = if phase.torn_stream { self.proxy.url() } else { self.source.server.url("repl") };
        Replica::spawn(&url, &self.data, &options, |command| {
            command.env("SLIPSTREAM_FAILPOINT", phase.fail_point);
            self.power.trace(command);
        })
    }

    /// Lives until the process is gone, in one of several ways.
    ///
    /// # Errors
    /// The replica does not come up, or does not settle.
    fn live(&mut self, phase: &Phase, way: Way) -> Result<(), String> {
        self.enter(phase);
        let before = self.power.processes();
        let mut replica = self.spawn(phase);
        match way {
            Way::EndsEarly => {
                wait_for("the shim", || (self.power.processes() > before).then_some(()), || replica.log_end());
                self.pass_ms(200);
            }
            Way::Runs => self.run(&mut replica, phase)?,
            Way::Skips => {
                self.run(&mut replica, phase)?;
                self.skip();
            }
            Way::StartsAgain => {
                self.run(&mut replica, phase)?;
                replica.kill();
                replica = self.spawn(phase);
                self.run(&mut replica, phase)?;
            }
            Way::StartsAgainAlone => {
                self.run(&mut replica, phase)?;
                replica.kill();
                replica = self.alone()?;
            }
            Way::Stops => {
                self.run(&mut replica, phase)?;
                // A stopped folder shows what its replica showed, which is less in the middle of recovery.
                self.note_acknowledged();
                let mut shown = self.kept.clone();
                shown.union_with(&self.acknowledged);
                replica.gets_to(|status| shown.is_subset_of(&executed(status)))?;
                replica.stop();
                let found = self.look("after a clean stop")?;
                self.kept.union_with(&found);
                return Ok(());
            }
        }
        replica.kill();
        Ok(())
    }

    /// Runs until the replica has made progress, and a little longer.
    fn run(&mut self, replica: &mut Replica, phase: &Phase) -> Result<(), String> {
        let goal = self.kept.count() + 10;
        if phase.torn_stream {
            self.proxy.cut_after(self.random.below(6 << 20));
        }
        let store_cuts = self.random.below(phase.store_cuts);
        replica.gets_to(|status| {
            retrieved(status).count() > goal && status["store"]["cuts"].as_u64() >= Some(store_cuts)
        })?;
        self.pass_ms(if phase.torn_stream { 1500 } else { 500 });
        Ok(())
    }

    /// Starts without a reachable source: it recovers what it has, and waits.
    fn alone(&mut self) -> Result<Replica, String> {
        self.proxy.close(true);
        let kept = self.kept.clone();
        let url = self.proxy.url();
        let mut replica =
            Replica::spawn(&url, &self.data, &["--source-connect-retry=1"], |command| self.power.trace(command));
        let found = replica.gets_to(|status| kept.is_subset_of(&executed(status)));
        self.proxy.close(false);
        found.map_err(|error| format!("alone, with {kept}: {error}\n{}", self.last))?;
        Ok(replica)
    }

    /// `slipstream skip` of a transaction that never comes: durable when it returns.
    fn skip(&mut self) {
        let gtid = format!("00000000-0000-0000-0000-00000000abcd:{}", 1 + self.skipped.count());
        slipstream(&["skip", &gtid, "--data", self.data.to_str().unwrap()]).expect(0, &[]);
        self.skipped.union_with(&gtid.parse().unwrap());
    }

    /// A random delay before the next event.
    fn pass_ms(&mut self, most: u64) {
        std::thread::sleep(Duration::from_micros(self.random.below(most * 1000)));
    }

    /// Cuts the power. With `strict`, nothing unsynced survives.
    ///
    /// # Errors
    /// Something happened that a power cut must never cause.
    fn cut(&mut self, strict: bool) -> Result<(), String> {
        self.note_acknowledged();
        let seed = self.random.any();
        self.last = if strict { self.power.cut_strictly() } else { self.power.cut(seed) };
        self.cuts += 1;
        let is = |is: &dyn Fn(&str) -> bool| u64::from(self.last.lines.iter().any(|line| is(line)));
        self.unsynced_cuts += is(&|line| line.starts_with("data/relay-log/relay-bin."));
        self.unsynced_store += is(&|line| line.starts_with("data/store/"));
        self.compactions += is(&|line| line.starts_with("data/store/tables/: ") && line.contains(" -> -: "));
        self.kept = self.look("after the cut")?;
        Ok(())
    }

    /// Checks what the stopped folder holds.
    fn look(&mut self, when: &str) -> Result<GtidSet, String> {
        let found = self.look_at().map_err(|error| format!("{when}: {error}\n{}", self.last))?;
        let missing = |what: &str, set: &GtidSet| match set.subtract(&found) {
            lost if lost.is_empty() => Ok(()),
            lost => Err(format!("{when}: {what} is lost: {lost}\n{}", self.last)),
        };
        missing("what was acknowledged", &self.acknowledged)?;
        missing("what was durable", &self.kept)?;
        Ok(found)
    }

    fn look_at(&mut self) -> Result<GtidSet, String> {
        // Cut before anything existed: the next start begins from nothing.
        if !self.data.join("slipstream.format").exists() {
            return Ok(GtidSet::new());
        }
        if !self.data.join("relay-log").exists() {
            return Ok(GtidSet::new());
        }
        // Not by `status`, which shows a stopped folder's last report. Store content, and the relay log after it, is
        // replayed here with every image checked. Traced: opening the store removes files that no version names.
        let arguments = ["dump", "--data", self.data.to_str().unwrap(), "--format=sql"];
        let ran = slipstream_with(&arguments, |command| self.power.trace(command));
        if ran.code != 0 {
            return Err(format!("dump ends with {}: {}", ran.code, ran.err));
        }
        let set = ran.out.lines().find_map(|line| line.strip_prefix("-- GTID set: "));
        let there: GtidSet = set.ok_or("dump names no GTID set")?.parse().map_err(|_| format!("{set:?} is no set"))?;
        let uuid = self.source.server.sql("SELECT @@server_uuid").trim().to_owned();
        let prefix = format!("{uuid}:1-{}", there.count());
        if !there.is_empty() && there != prefix.parse().unwrap() {
            return Err(format!("not a prefix: {there}"));
        }
        // Transactions that wait for their acknowledgement are not in gtid_executed yet: one per connection.
        if there.count() > self.source.server.gtid_executed().count() + LOADS {
            return Err(format!("more than the source has: {there}"));
        }
        let to_skip = std::fs::read_to_string(self.data.join("skipped")).unwrap_or_default();
        if !to_skip.trim().parse().is_ok_and(|set| self.skipped.is_subset_of(&set)) {
            return Err(format!("to skip: {to_skip}, said to skip: {}", self.skipped));
        }
        Ok(there)
    }

    /// Catches up and compares. Returns the numbers of store cuts and of purged relay log files.
    fn end(mut self) -> (usize, usize) {
        self.enter(&Phase { semi_sync: false, ..PLAIN });
        let url = self.source.server.url("repl");
        let mut replica = Replica::start(&url, &self.data, &[]);
        assert_equal(&self.source.server, &mut replica, &[DB]);
        let log = replica.log();
        let cut_back = log.matches("was truncated from").count();
        let (cuts, unsynced) = (self.cuts, self.unsynced_cuts);
        eprintln!("{cuts} cuts, {unsynced} with relay files not durable, {cut_back} starts that cut the log back");
        let (store, compactions) = (self.unsynced_store, self.compactions);
        let cut_lines = log.lines().filter(|line| line.contains(" cut at transaction ") && line.contains("purged: "));
        let (store_cuts, purged) =
            cut_lines.fold((0, 0), |(cuts, purged), line| (cuts + 1, purged + line.matches("relay-bin.").count()));
        eprintln!(
            "  {store} with the store not durable, {compactions} while compaction removed files; the store was cut {store_cuts} times, {purged} relay log files were purged"
        );
        replica.stop();
        (store_cuts, purged)
    }
}

fn rerun(seed: u64, test: &str) -> String {
    let length = if soak() { "soak" } else { "short" };
    format!(
        "SLIPSTREAM_BIN={} SLIPSTREAM_TEST_LENGTH={length} SLIPSTREAM_POWER_CUT_SEED={seed} cargo test -p slipstream --test whole_program power_cuts -- --nocapture {test}",
        binary().display()
    )
}

/// One life: rounds, then an equal end.
fn live_through(source: &Source, seed: u64, rounds: u64) -> (usize, usize) {
    let mut life = Life::begin(source, seed);
    source.busy(|| {
        for round in 0..rounds {
            let phase = &PHASES[(seed + round) as usize % PHASES.len()];
            let way = WAYS[life.random.below(WAYS.len() as u64) as usize];
            let strict = life.random.below(3) == 0;
            let mut outcome = life.live(phase, way).and_then(|()| life.cut(strict));
            // What exists is complete without the source.
            if outcome.is_ok() && !life.kept.is_empty() && life.random.below(4) == 0 {
                outcome = life.alone().map(Replica::kill).and_then(|()| life.cut(strict));
            }
            if let Err(error) = outcome {
                panic!("cut {} in phase '{}', {way:?}: {error}\nthe log ends:\n{}", life.cuts, phase.name, life.log());
            }
        }
    });
    life.end()
}

#[test]
fn nothing_acknowledged_is_lost_and_the_end_is_equal() {
    let source = Source::start();
    // A new folder now and then, so that first starts are cut too.
    let (lives, rounds) = length((2, 12), (10, 30));
    let first = PowerCut::seed();
    let (mut store_cuts, mut purged) = (0, 0);
    for seed in first..first + lives {
        eprintln!("seed {seed}");
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| live_through(&source, seed, rounds)));
        let of_life = outcome.unwrap_or_else(|panic| {
            eprintln!("run it again with:\n  {}", rerun(seed, "nothing_acknowledged"));
            std::panic::resume_unwind(panic);
        });
        store_cuts += of_life.0;
        purged += of_life.1;
    }
    assert!(store_cuts > 0 && purged > 0, "{store_cuts} {purged}: there was nothing to be cut to");
}

/// Found by power cuts: a replica killed between a transaction's receipt and its acknowledgement holds something its
/// source has not executed yet, and was refused because of it.
#[test]
fn a_transaction_that_waits_for_its_acknowledgement_is_not_errant() {
    let source = Source::start();
    let server = &source.server;
    let data = folder("waits");
    let url = server.url("repl");
    let mut replica = Replica::spawn(&url, &data, &["--semi-sync"], |command| {
        command.env("SLIPSTREAM_FAILPOINT", "relay_sync_delay_ms=3600000");
    });
    replica.catch_up(server);
    server.sql("SET GLOBAL rpl_semi_sync_source_enabled = ON");
    let before = server.gtid_executed();
    std::thread::scope(|scope| {
        let _ended = Ended(&source);
        let commit = scope.spawn(|| server.sql(&format!("INSERT INTO {DB}.small VALUES (1)")));
        replica.gets_to(|status| !retrieved(status).is_subset_of(&before)).unwrap();
        assert_eq!(server.gtid_executed(), before);
        replica.kill();
        let mut replica = Replica::follow(server, &data, &["--semi-sync"]);
        // It connects and acknowledges: the commit ends, and so does one after it.
        server.sql(&format!("INSERT INTO {DB}.small VALUES (2)"));
        commit.join().unwrap();
        server.sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF");
        assert_equal(server, &mut replica, &[DB]);
        replica.stop();
    });
}

/// Found by power cuts: the folders of store and relay log were created, but their names became durable only when the
/// facts about a source server were written. A start from files has none.
#[test]
fn what_was_replayed_from_files_is_durable() {
    let server = Server::start("power-files", &[]);
    server.sql(&shop::schema(DB));
    server.sql(&shop::load(DB, 1, 0, 50));
    server.sql("FLUSH BINARY LOGS");
    let power = PowerCut::new(&folder("power"));
    let data = power.disk().join("data");
    let data = data.to_str().unwrap();
    let source = format!("file:{}", server.dir().join("binlog.index").display());
    let arguments = ["replica", "--source", &source, "--data", data, "--check-images=all"];
    slipstream_with(&arguments, |command| power.trace(command)).expect(0, &[]);
    let cut = power.cut_strictly();
    assert!(!cut.lines.iter().any(|line| line.contains("-> store: ") || line.contains("-> relay-log: ")), "{cut}");
    assert_equal_at_rest(&server, data, &[DB]);
}

/// The mark of an unfinished copy remained when the next start needed no copy. Each start until the first cut then
/// removed a relay log with acknowledged transactions.
#[test]
fn the_mark_of_a_copy_that_is_not_needed_is_removed() {
    let server = Server::start("power-mark", &[]);
    server.sql(&shop::schema(DB));
    let data = folder("marked");
    let start = || Replica::follow(&server, &data, &["--cut-interval=1h"]);
    start().kill();
    std::fs::write(data.join("copying"), "00000000-0000-0000-0000-00000000abcd:1\n").unwrap();
    let mut replica = start();
    replica.catch_up(&server);
    replica.waits_for_log(&["did not finish"]);
    replica.kill();
    assert!(!data.join("copying").exists());
    assert_equal_at_rest(&server, data.to_str().unwrap(), &[DB]);
}

/// The power fails during the copy of the source, or just after: the copy is complete, or there is nothing of it.
#[test]
fn a_copy_is_whole_or_started_over() {
    let source = Source::start();
    let server = &source.server;
    server.sql(&shop::load(DB, 3, 1 << 20, 60));
    server.sql("GRANT BACKUP_ADMIN, PROCESS, RELOAD, XA_RECOVER_ADMIN, SELECT ON *.* TO 'repl'@'%'");
    server.purge_binary_logs();
    let copied = server.gtid_executed();
    let mut random = Random::new(PowerCut::seed());
    // Slowed down, so that there is something to cut.
    server.sql(&format!("UPDATE {DB}.large SET v = REPEAT('x', 300000)"));
    let mut power = PowerCut::new(&folder("power"));
    let mut data = power.disk().join("data");
    let (mut begun, mut whole) = (0, 0);
    source.busy(|| {
        for round in 0..length(if all_cases() { 16 } else { 8 }, 120) {
            if round % 2 == 0 {
                power = PowerCut::new(&folder("power"));
                data = power.disk().join("data");
            }
            let command = |command: &mut _| power.trace(command);
            let options = ["--cut-interval=100ms", "--memory=128M", "--max-relay-log-size=16K", "--copy-rate=6M"];
            let mut replica = Replica::spawn(&server.url("repl"), &data, &options, command);
            wait_for("the shim", || (power.processes() > 0).then_some(()), || replica.log_end());
            std::thread::sleep(Duration::from_millis(random.below(1400)));
            assert_eq!(replica.ended(), None, "{}", replica.log_end());
            replica.kill();
            let cut = if random.below(2) == 0 { power.cut_strictly() } else { power.cut(random.any()) };
            let is_marked = data.join("copying").exists();
            begun += u64::from(is_marked);
            if !data.join("slipstream.format").exists() || !data.join("relay-log").exists() {
                continue;
            }
            let arguments = ["dump", "--data", data.to_str().unwrap(), "--format=sql"];
            let ran = slipstream_with(&arguments, command);
            let set = ran.out.lines().find_map(|line| line.strip_prefix("-- GTID set: "));
            let set: Option<GtidSet> = set.and_then(|set| set.parse().ok());
            match set {
                Some(set) if copied.is_subset_of(&set) => whole += 1,
                Some(set) if set.is_empty() => {}
                _ => assert!(is_marked, "{}\n{cut}", ran.err),
            }
        }
    });
    eprintln!("{begun} cuts in a copy, {whole} after one");
    let mut replica = Replica::start(&server.url("repl"), &data, &[]);
    assert_equal(server, &mut replica, &[DB]);
    replica.stop();
}

/// A sync removed, and the kind of life in which it is missed.
struct Fault {
    name: &'static str,
    /// Rules for `power_cut::journal::skips`.
    rules: &'static str,
    phase: Phase,
    way: Way,
    /// None: started alone after a strict cut, too.
    strict: Option<bool>,
}

const NO_CHECKSUMS: Phase = PHASES[1];
const NEVER: Phase = PHASES[4];

const FAULTS: &[Fault] = &[
    Fault { name: "the data folder's name", rules: "/", phase: PLAIN, way: Way::Runs, strict: Some(true) },
    Fault { name: "names in the data folder", rules: "data/", phase: PLAIN, way: Way::Runs, strict: Some(true) },
    Fault { name: "the uuid", rules: "data/auto.cnf.tmp", phase: PLAIN, way: Way::Runs, strict: Some(true) },
    Fault { name: "the format", rules: "data/slipstream.format.tmp", phase: PLAIN, way: Way::Runs, strict: Some(true) },
    Fault { name: "the skip list", rules: "data/skipped.tmp", phase: PLAIN, way: Way::Skips, strict: Some(true) },
    Fault { name: "the skip list's name", rules: "data/@skipped", phase: PLAIN, way: Way::Skips, strict: Some(true) },
    Fault { name: "the source's facts", rules: "data/source-facts.tmp", phase: PLAIN, way: Way::Runs, strict: None },
    Fault {
        name: "the relay log's bytes",
        rules: "fdatasync data/relay-log/relay-bin.0*",
        phase: PLAIN,
        way: Way::Runs,
        strict: Some(true),
    },
    Fault {
        name: "the relay log's bytes at a clean stop",
        rules: "fdatasync data/relay-log/relay-bin.0*",
        phase: NEVER,
        way: Way::Stops,
        strict: Some(true),
    },
    Fault {
        name: "the end of an earlier run's last file",
        rules: "fsync data/relay-log/relay-bin.0*@old",
        phase: PLAIN,
        way: Way::StartsAgain,
        strict: Some(true),
    },
    Fault {
        name: "what recovery found and claims",
        rules: "fsync data/relay-log/relay-bin.0*@untouched;fsync data/relay-log/relay-bin.0*@cut",
        phase: NEVER,
        way: Way::StartsAgainAlone,
        strict: Some(false),
    },
    Fault {
        name: "the index",
        rules: "data/relay-log/relay-bin.index.tmp",
        phase: PLAIN,
        way: Way::Runs,
        strict: Some(false),
    },
    Fault {
        name: "names in the relay log's folder",
        rules: "data/relay-log/@relay-bin.index",
        phase: PLAIN,
        way: Way::Runs,
        strict: Some(true),
    },
    Fault {
        name: "the state file",
        rules: "data/relay-log/relay-log.state.tmp",
        phase: NO_CHECKSUMS,
        way: Way::Runs,
        strict: Some(true),
    },
    Fault {
        name: "the state file's name",
        rules: "data/relay-log/@relay-log.state",
        phase: NO_CHECKSUMS,
        way: Way::Runs,
        strict: Some(true),
    },
];

/// Syncs of lsm-tree, which make a cut durable, in this order: tables, their names, a version, its name, the name of
/// the file that says which one is current.
const STORE_FAULTS: &[Fault] = &[
    Fault { name: "all of the store", rules: "data/store/*", ..OF_STORE },
    Fault { name: "the store's tables", rules: TABLES, ..OF_STORE },
    Fault { name: "names of the store's tables", rules: "data/store/tables/", ..OF_STORE },
    Fault { name: "the store's versions", rules: "data/store/v*", ..OF_STORE },
    Fault { name: "names of the store's versions", rules: "data/store/", ..OF_STORE },
    // Its content is synced before and after it is named.
    Fault { name: "which version is current", rules: "data/store/.tmp*;data/store/current", ..OF_STORE },
    Fault { name: "that a version is current", rules: "data/store/@current", ..OF_STORE },
];

const OF_STORE: Fault = Fault { name: "", rules: "", phase: CUTS, way: Way::Runs, strict: Some(true) };

/// Files named by a number.
const TABLES: &str = "data/store/tables/1*;data/store/tables/2*;data/store/tables/3*;data/store/tables/4*;data/store/tables/5*;data/store/tables/6*;data/store/tables/7*;data/store/tables/8*;data/store/tables/9*;data/store/tables/0*";

/// The checker is trusted once it has caught planted faults: with any one sync removed, a power cut does what it must
/// never do. Each fault has a bounded number of cuts in which to show. With nothing removed the same lives show none
/// (checked in the long form; the short one has the test above for that).
#[test]
fn each_sync_is_missed_when_it_is_taken_out() {
    let source = Source::start();
    let mut seed = PowerCut::seed();
    let only = std::env::var("SLIPSTREAM_POWER_CUT_FAULT").unwrap_or_default();
    let faults = FAULTS.iter().chain(STORE_FAULTS).filter(|fault| fault.name.contains(&only));
    for fault in share(faults, if only.is_empty() { 3 } else { 1 }) {
        for &planted in length(&[true][..], &[true, false]) {
            seed += 1;
            let mut life = Life::begin(&source, seed);
            if planted {
                life.power.skip_syncs(fault.rules);
            }
            let mut caught = None;
            source.busy(|| {
                // The rarest one shows in one cut of eight.
                let cuts = if planted { 80 } else { 1 };
                caught = (0..cuts).find_map(|_| life.with_fault(fault).err());
            });
            let what = caught.as_deref().unwrap_or_default().lines().next().unwrap_or_default().to_owned();
            eprintln!("{}: {} cuts: {what}", if planted { fault.name } else { "  none" }, life.cuts);
            assert_eq!(caught.is_some(), planted, "{}: {caught:?}, seed {seed}\n{}", fault.name, life.log());
        }
    }
}

impl Life<'_> {
    fn with_fault(&mut self, fault: &Fault) -> Result<(), String> {
        self.live(&fault.phase, fault.way)?;
        self.cut(fault.strict.unwrap_or(true))?;
        if fault.strict.is_none() {
            self.alone()?.kill();
            self.cut(true)?;
        }
        Ok(())
    }

    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.data.with_extension("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}
