//! What applications read through a replica's port is what a MySQL server alone could have shown them: pairs of reads
//! and transactions of many clients, held against the source's binary log. No violation is allowed.
//!
//! SLIPSTREAM_TEST_LENGTH: `short` takes seconds; `night` kills and freezes each party; `soak` has a million pairs of
//! each kind and a hundred thousand transactions.

use std::io::BufReader;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use client::ConnectOptions;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use whole_program_tests::oracle::{Log, TABLES, Transaction, Violation};
use whole_program_tests::oracle_clients::{FORMS, PAIRS, Trial};
use whole_program_tests::{Proxy, Replica, Server, SetAtEnd, all_cases, folder, signal, soak, wait_for};

use crate::forward::{account, app};

/// Rows, over all tables.
const KEYS: u32 = 30;
/// How long a party stands still.
const FROZEN_FOR: Duration = Duration::from_millis(700);
/// Without a pair or a transaction for so long, something hangs.
const STUCK_AFTER: Duration = Duration::from_secs(120);
/// Violations that are printed.
const PRINTED: usize = 20;

/// The source's settings, and who is there.
struct Shape {
    name: &'static str,
    options: &'static [&'static str],
    replica: &'static [&'static str],
    /// SLIPSTREAM_FAILPOINT of the replica.
    fail_point: &'static str,
    semi_sync: bool,
}

const GROUPED: Shape = Shape {
    name: "grouped",
    options: &[
        "--sync-binlog=1",
        "--binlog-group-commit-sync-delay=2000",
        "--binlog-group-commit-sync-no-delay-count=64",
    ],
    replica: &["--show=acknowledged"],
    fail_point: "",
    semi_sync: false,
};

/// Without a wait for the source before rows are shown.
const GROUPED_AHEAD: Shape = Shape { name: "grouped-ahead", replica: &["--show=received"], ..GROUPED };

const SEMI_SYNC: Shape = Shape {
    name: "semisync",
    options: &["--sync-binlog=1", "--plugin-load-add=semisync_source.so"],
    replica: &["--semi-sync", "--show=acknowledged"],
    fail_point: "relay_sync_delay_ms=5",
    semi_sync: true,
};

/// Rows read here may be ahead of the source by the whole wait for an acknowledgement: readers beside the port see
/// older ones there, but nobody through the port does.
const AHEAD: Shape = Shape { name: "ahead", replica: &["--semi-sync", "--show=received"], ..SEMI_SYNC };

const UNSYNCED: Shape = Shape { name: "unsynced", options: &[], semi_sync: false, fail_point: "", ..GROUPED };

/// How much of it.
struct Size {
    writers: u64,
    readers: u64,
    transactions: u64,
    wanted: (u64, u64),
    /// Faults of each party.
    faults: usize,
    /// What sessions through the port say first.
    first: Option<&'static str>,
}

fn size() -> Size {
    let of = |writers, readers, transactions, wanted, faults| Size {
        writers,
        readers,
        transactions,
        wanted,
        faults,
        first: None,
    };
    match (soak(), all_cases()) {
        (true, _) => of(64, 8, 8, (1_000_000, 12_500), 20),
        (_, true) => of(64, 4, 8, (10_000, 1_000), 2),
        _ => of(8, 3, 4, (600, 40), 0),
    }
}

/// Faults, one after the other.
#[derive(Clone, Copy, Debug)]
enum Fault {
    SourceFrozen,
    SourceKilled,
    ReplicaFrozen,
    ReplicaKilled,
    /// The connections between replica and source, those of sessions too.
    Cut,
    /// Sessions at the source alone.
    SessionsKilled,
    /// The log alone is late.
    DumpHeld,
}

const FAULTS: [Fault; 7] = [
    Fault::SourceFrozen,
    Fault::ReplicaFrozen,
    Fault::Cut,
    Fault::SessionsKilled,
    Fault::DumpHeld,
    Fault::ReplicaKilled,
    Fault::SourceKilled,
];

fn pid_of(server: &Server) -> Pid {
    let pid = std::fs::read_to_string(server.sql("SELECT @@pid_file").trim()).unwrap();
    Pid::from_raw(pid.trim().parse().unwrap()).unwrap()
}

/// The tables, and the user of the application.
fn prepare(server: &Server) {
    let mut sql = String::from("CREATE DATABASE o; CREATE USER shop IDENTIFIED BY 'there'; GRANT ALL ON o.* TO shop;");
    // A copy sees all definitions.
    sql += "GRANT ALL ON *.* TO repl;";
    for table in 0..TABLES {
        let rows = (0..KEYS).filter(|key| key % TABLES == table).map(|key| format!("({key}, 0, 0)"));
        let rows = rows.collect::<Vec<_>>().join(", ");
        sql += &format!("CREATE TABLE o.t{table} (id INT PRIMARY KEY, n INT NOT NULL, w BIGINT NOT NULL);");
        sql += &format!("INSERT INTO o.t{table} VALUES {rows};");
    }
    server.sql(&sql);
}

/// An account that forwards, named `app`.
fn add_account(data: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let file = data.with_extension("login");
    std::fs::write(&file, "there\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let path = file.to_str().unwrap();
    let login = ["--source-login", "shop", "--source-password-file", path];
    account(data, &[&["add", "app", "--may", "forward,read"][..], &login].concat()).expect(0, &[]);
}

/// A source, the replica before it, and how to start that again.
struct Stage {
    shape: &'static Shape,
    server: Server,
    proxy: Proxy,
    url: String,
    data: std::path::PathBuf,
    replica: Option<Replica>,
}

impl Stage {
    fn start(shape: &'static Shape, fault: &str) -> Stage {
        let server = Server::start_unsynced(
            &format!("oracle-{}", shape.name),
            &[shape.options, &["--max-connections=600", "--innodb-lock-wait-timeout=5"]].concat(),
        );
        prepare(&server);
        let proxy = Proxy::start(server.port());
        let url = format!("{}&get-server-public-key=1", proxy.url());
        let data = folder(&format!("oracle-{}", shape.name));
        let mut stage = Stage { shape, server, proxy, url, data, replica: None };
        stage.begin(fault);
        add_account(&stage.data);
        if shape.semi_sync {
            let clients = "SHOW STATUS LIKE 'Rpl_semi_sync_source_clients'";
            stage.server.sql(
                "SET PERSIST rpl_semi_sync_source_timeout = 600000; \
                 SET PERSIST rpl_semi_sync_source_enabled = ON",
            );
            let is_one = || stage.server.sql(clients).contains("\t1\n").then_some(());
            wait_for("a semi-synchronous replica", is_one, || stage.server.sql("SHOW STATUS LIKE 'Rpl_semi_sync%'"));
        }
        stage
    }

    fn socket(&self) -> std::path::PathBuf {
        self.data.with_extension("sock")
    }

    /// Starts the replica.
    fn begin(&mut self, fault: &str) {
        let socket = format!("--socket={}", self.socket().display());
        let fixed = [socket.as_str(), "--copy=always", "--forward=all", "--forward-connections=400", "--on-stop=stay"];
        let points = [self.shape.fail_point, fault].join(";");
        let mut replica =
            Replica::spawn(&self.url, &self.data, &[&fixed[..], self.shape.replica].concat(), |command| {
                command.env("SLIPSTREAM_FAILPOINT", points);
            });
        replica.wait_until("an answer", |status| status["replay"]["state"] != "copying");
        self.replica = Some(replica);
    }

    fn replica(&mut self) -> &mut Replica {
        self.replica.as_mut().unwrap()
    }

    fn fails(&mut self, fault: Fault) {
        match fault {
            Fault::SourceFrozen => {
                let pid = pid_of(&self.server);
                signal(pid, Signal::STOP);
                std::thread::sleep(FROZEN_FOR);
                signal(pid, Signal::CONT);
            }
            Fault::SourceKilled => {
                self.server.kill();
                self.server.restart(&[]);
            }
            Fault::ReplicaFrozen => {
                self.replica().signal(Signal::STOP);
                std::thread::sleep(FROZEN_FOR);
                self.replica().signal(Signal::CONT);
            }
            Fault::ReplicaKilled => {
                self.replica.take().unwrap().kill();
                self.begin("");
            }
            Fault::Cut => self.proxy.cut(),
            Fault::SessionsKilled => {
                let ids = self.server.sql("SELECT id FROM information_schema.processlist WHERE user = 'shop'");
                // One that has ended by itself cannot be killed.
                ids.lines().for_each(|id| drop(self.server.try_sql(&format!("KILL {id}"))));
            }
            Fault::DumpHeld => {
                self.proxy.hold_dumps(Some(0));
                std::thread::sleep(FROZEN_FOR);
                self.proxy.hold_dumps(None);
            }
        }
    }

    fn forwarded(&mut self) -> Value {
        self.replica().wait_until("a status", |_| true)["clients"]["forwarded"].clone()
    }

    /// The whole log of the source.
    fn log(&self) -> Log {
        let files = self.server.sql("FLUSH BINARY LOGS; SHOW BINARY LOGS");
        let files = files.lines().map(|line| line.split('\t').next().unwrap());
        let mut command = self.server.mysqlbinlog_command();
        command.args(["--base64-output=decode-rows", "-v"]).args(files).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Log::read(BufReader::with_capacity(1 << 20, child.stdout.take().unwrap()), KEYS);
        assert!(child.wait().unwrap().success());
        log.unwrap()
    }
}

/// Runs clients until they have done all, or one of them has seen something wrong. Returns what the log and the
/// clients call wrong.
fn judged(shape: &'static Shape, size: &Size, planted: &str) -> Vec<String> {
    let mut stage = Stage::start(shape, planted);
    let port = ConnectOptions { init_command: size.first, ..app(&stage.socket()) };
    let mut trial = Trial::new(port, stage.server.login("root"), KEYS, size.wanted);
    trial.judges_source = shape.replica.contains(&"--show=acknowledged");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let _ends = SetAtEnd(&trial.ended);
        let trial = &trial;
        (0..size.writers).for_each(|seed| drop(scope.spawn(move || trial.writes(seed))));
        (0..size.readers).for_each(|seed| drop(scope.spawn(move || trial.reads(1_000 + seed))));
        (0..size.transactions).for_each(|seed| drop(scope.spawn(move || trial.transacts(2_000 + seed))));
        let faults: Vec<Fault> = FAULTS.into_iter().cycle().take(size.faults * FAULTS.len()).collect();
        let mut faults = faults.into_iter();
        let (mut last, mut since) = (0, Instant::now());
        let mut next_fault_at = 0;
        loop {
            let now = trial.progress();
            if now > next_fault_at
                && let Some(fault) = faults.next()
            {
                stage.fails(fault);
                // For a while without a fault.
                next_fault_at = trial.progress() + size.wanted.0 / 50;
            } else if trial.is_done() && faults.len() == 0 {
                break;
            }
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() > STUCK_AFTER || !trial.wrong().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        println!("{}: {now} pairs and transactions in {:?}", shape.name, begun.elapsed(), now = trial.progress());
        assert!(since.elapsed() <= STUCK_AFTER, "nothing goes on; errors: {:#?}", trial.errors());
    });
    let counts = PAIRS.iter().zip(&trial.pairs).map(|(pair, count)| format!("{pair:?} {}", count.load(SeqCst)));
    println!("  {}", counts.collect::<Vec<_>>().join(", "));
    let counts = FORMS.iter().zip(&trial.transactions).map(|(form, count)| format!("{form:?} {}", count.load(SeqCst)));
    println!("  {}", counts.collect::<Vec<_>>().join(", "));
    println!("  errors: {:#?}", trial.errors());
    let (plain, forced) = (trial.plain.load(SeqCst), trial.forced.load(SeqCst));
    println!("  {plain} plain reads, {forced} others that only the source answers; {}", stage.forwarded());
    let (asked, here) = (trial.sampled.0.load(SeqCst), trial.sampled.1.load(SeqCst));
    println!("  answered here: {here} of {asked} plain reads outside transactions that were asked about");
    let kept = trial.take_kept();
    let mut wrong = trial.wrong();
    let log = stage.log();
    let of_log = kept.iter().filter_map(|one| Some(format!("{}\n  {one:?}", log.check(one).err()?)));
    wrong.extend(of_log);
    println!("  {} transactions in the log judged {} of clients: {} violations", log.places(), kept.len(), wrong.len());
    if wrong.is_empty() {
        stage.replica.take().unwrap().stop();
    }
    wrong
}

fn holds(shape: &'static Shape) {
    let wrong = judged(shape, &size(), "");
    assert!(wrong.is_empty(), "{} violations:\n{}", wrong.len(), wrong[..wrong.len().min(PRINTED)].join("\n"));
}

#[test]
fn nobody_reads_what_one_server_does_not_show_with_slow_groups_of_commits() {
    holds(&GROUPED);
}

#[test]
fn nobody_reads_what_one_server_does_not_show_with_late_acknowledgements() {
    holds(&SEMI_SYNC);
}

#[test]
fn nobody_reads_what_one_server_does_not_show_where_the_log_is_not_synced() {
    if all_cases() {
        holds(&UNSYNCED);
    }
}

#[test]
fn nobody_reads_what_one_server_does_not_show_where_the_replica_is_ahead() {
    if all_cases() {
        holds(&AHEAD);
        holds(&GROUPED_AHEAD);
    }
}

/// Reads at the source that need not fit what their transaction has read here, which only the log tells.
#[test]
fn a_skipped_table_check_is_found() {
    if all_cases() {
        let size = Size { writers: 64, readers: 0, transactions: 8, wanted: (0, 100), faults: 0, first: Some(PATIENT) };
        let wrong = judged(&GROUPED, &size, "plant=skipped_table_check");
        assert!(wrong.iter().any(|wrong| wrong.contains("no prefix has all reads")), "{wrong:#?}");
    }
}

/// A read that waits for long is not left to the source, whose answer would be right.
const PATIENT: &str = "SET slipstream_read_timeout = 60000";

/// A fault of the tier, which the oracle must find: it ends as soon as something is wrong.
fn finds(shape: &'static Shape, planted: &str, has: &str) {
    let first = Some(PATIENT);
    let size = Size { writers: 64, readers: 8, transactions: 2, wanted: (1_000_000, 100_000), faults: 0, first };
    let wrong = judged(shape, &size, planted);
    assert!(wrong.iter().any(|wrong| wrong.contains(has)), "{planted}: {wrong:#?}");
}

#[test]
fn a_forward_that_does_not_wait_for_the_source_is_found() {
    if all_cases() {
        finds(&AHEAD, "plant=no_wait_at_source", "stale through the port");
    }
}

#[test]
fn a_bound_by_set_is_found() {
    if all_cases() {
        finds(&GROUPED_AHEAD, "plant=bound_by_set", "stale through the port");
    }
}

#[test]
fn a_view_from_before_the_question_is_found() {
    if all_cases() {
        finds(&GROUPED, "plant=early_view", "stale through the port");
    }
}

#[test]
fn a_skewed_clock_is_found() {
    if all_cases() {
        finds(&GROUPED, "plant=skewed_clock", "NOW()");
    }
}

/// The harness itself: a port that waits for nothing, and a source whose log is held back.
#[test]
fn a_port_that_waits_for_nothing_is_found_out() {
    let stage = Stage::start(&GROUPED, "");
    account(&stage.data, &["add", "reader", "--may", "read"]).expect(0, &[]);
    let port = ConnectOptions { user: "reader".to_owned(), ..app(&stage.socket()) };
    let trial = Trial::new(port, stage.server.login("root"), KEYS, (1, 0));
    stage.proxy.hold_dumps(Some(0));
    std::thread::scope(|scope| {
        let _ends = SetAtEnd(&trial.ended);
        scope.spawn(|| trial.writes(1));
        scope.spawn(|| trial.reads(2));
        let found = || (!trial.wrong().is_empty()).then_some(());
        wait_for("a stale read", found, || format!("{:#?}", trial.errors()));
    });
    stage.proxy.hold_dumps(None);
    assert!(trial.wrong()[0].starts_with("stale through the port"), "{:?}", trial.wrong());
    // The log says the same of the kept reads.
    let log = stage.log();
    let stale = |one: &Transaction| matches!(log.check(one), Err(Violation::Stale { .. }));
    assert!(trial.take_kept().iter().any(stale));
}
