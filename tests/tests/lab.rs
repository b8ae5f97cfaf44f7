//! The laboratory against real servers: a server could have written what it generates.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use base::GtidSet;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use whole_program_tests::{Ran, Replica, Server, binary, folder, slipstream_with, wait_for};

/// As root, without a password.
fn slipstream(arguments: &[&str]) -> Ran {
    slipstream_with(arguments, |command| {
        command.env_remove("MYSQL_PWD");
    })
}

fn last_line(text: &str) -> String {
    text.lines().rev().find_map(|line| line.trim().strip_prefix("result hash ")).expect(text).to_owned()
}

/// Full images, not compressed.
#[test]
fn a_generated_log_gives_a_stock_server_the_same_rows() {
    generated_log("labfull", ["--binlog-row-image=FULL", "--binlog-transaction-compression=OFF"]);
}

#[test]
fn a_generated_log_of_minimal_images_compressed() {
    generated_log("labmin", ["--binlog-row-image=MINIMAL", "--binlog-transaction-compression=ON"]);
}

/// A small TPC-C log, unrolled three times: `mysqlbinlog` reads it, a stock server that executes it ends with the same
/// rows as `lab replay`, and each repetition has its own warehouses.
fn generated_log(name: &str, options: [&str; 2]) {
    let server = Server::start_unsynced(name, &options);
    let url = server.url("root");
    let common = ["--server", &url, "--warehouses", "2"];
    let scale = ["--scale", "0.01"];
    slipstream(&[&["lab", "tpcc", "prepare"][..], &common, &scale].concat()).expect(0, &[]);
    server.sql("FLUSH BINARY LOGS");
    slipstream(&[&["lab", "tpcc", "run", "--write-transactions", "300"][..], &common, &scale].concat()).expect(0, &[]);
    server.sql("FLUSH BINARY LOGS");
    let here = slipstream(&["lab", "hash", &url, "--tables", "tpcc.*"]).expect(0, &["tpcc.stock"]).out.clone();
    let rows = server.sql("SELECT COUNT(*) FROM tpcc.stock").trim().to_owned();
    let read = format!("read 1 tables, {rows} rows");
    slipstream(&["lab", "read", &url, "--tables", "tpcc.stock"]).expect(0, &[&read]);
    let work = folder(name);
    let logs: Vec<String> =
        (1..=2).map(|n| server.dir().join(format!("binlog.{n:06}")).display().to_string()).collect();
    let replay = |load: &str, run: &str| {
        let folder = work.join("replay").display().to_string();
        let ran = slipstream(&["lab", "replay", "--hash", "--folder", &folder, "--load", load, run]);
        last_line(&ran.expect(0, &["write transactions/s"]).out)
    };
    assert_eq!(replay(&logs[0], &logs[1]), last_line(&here));

    let out = work.join("generated").display().to_string();
    let generate = ["lab", "generate", "--repeat", "3", "--out", &out, "--file-mib", "1", "--load", &logs[0], &logs[1]];
    slipstream(&generate).expect(0, &["2 warehouses a repetition"]);
    let files = |index: &str| -> Vec<String> {
        let text = std::fs::read_to_string(format!("{out}/{index}")).unwrap();
        text.lines().map(|name| format!("{out}/{name}")).collect()
    };
    let all = [files("load.index"), files("run.index")].concat();
    assert!(all.len() > 2, "{all:?}");
    let arguments: Vec<&str> = ["--verify-binlog-checksum"].into_iter().chain(all.iter().map(String::as_str)).collect();
    let sql = server.mysqlbinlog(&arguments);
    sql.expect(0, &[]);
    let stock = Server::start_unsynced(&format!("{name}stock"), &[]);
    stock.client(&["--binary-mode"], &sql.out).unwrap();
    let theirs = slipstream(&["lab", "hash", &stock.url("root"), "--tables", "tpcc.*"]);
    let ours = replay(&format!("{out}/load.index"), &format!("{out}/run.index"));
    assert_eq!(last_line(&theirs.expect(0, &[]).out), ours);
    assert_eq!(stock.sql("SELECT COUNT(*), MIN(w_id), MAX(w_id) FROM tpcc.warehouse").trim(), "6\t1\t6");
    let executed = stock.gtid_executed();
    assert_eq!(executed.to_string().matches(':').count(), 1, "no gap, one source: {executed}");
    server.stop();
    stock.stop();
}

/// Every shape of `lab make`, small: `mysqlbinlog` reads it, and a stock server that executes it ends with the same
/// rows as `lab replay`.
#[test]
fn a_made_log_gives_a_stock_server_the_same_rows() {
    // Its disk does not matter.
    let stock = Server::start("labmake", &["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0"]);
    let shapes: [(&str, &[&str]); 7] = [
        ("counter", &[]),
        ("zipf", &["--rows=200", "--theta=0.99"]),
        ("private-shared", &["--inserts=16"]),
        ("keyless", &["--rows=200"]),
        ("huge", &["--huge-rows=3000", "--rows=200", "--change=insert"]),
        ("huge", &["--huge-rows=3000", "--rows=200", "--change=update"]),
        ("huge", &["--huge-rows=3000", "--rows=200", "--change=delete"]),
    ];
    for (shape, options) in shapes {
        let work = folder("made");
        let out = work.join("logs").display().to_string();
        let make = ["lab", "make", "--out", &out, "--transactions=120", "--seed=5", shape];
        slipstream(&[&make[..], options].concat()).expect(0, &["row changes"]);
        let files: Vec<String> = ["load.index", "run.index"]
            .iter()
            .flat_map(|index| {
                let text = std::fs::read_to_string(format!("{out}/{index}")).unwrap();
                text.lines().map(|name| format!("{out}/{name}")).collect::<Vec<_>>()
            })
            .collect();
        let arguments: Vec<&str> =
            ["--verify-binlog-checksum"].into_iter().chain(files.iter().map(String::as_str)).collect();
        let sql = stock.mysqlbinlog(&arguments);
        sql.expect(0, &[]);
        stock.client(&["--binary-mode"], &sql.out).unwrap();
        let theirs = slipstream(&["lab", "hash", &stock.url("root"), "--tables", "shapes.*"]);
        let replay = work.join("replay").display().to_string();
        let (load, run) = (format!("{out}/load.index"), format!("{out}/run.index"));
        let ours = slipstream(&["lab", "replay", "--hash", "--folder", &replay, "--load", &load, &run]);
        let (theirs, ours) = (last_line(&theirs.expect(0, &[]).out), last_line(&ours.expect(0, &[]).out));
        assert_eq!(theirs, ours, "{shape} {options:?}");
        stock.sql("DROP DATABASE shapes; RESET BINARY LOGS AND GTIDS");
    }
    stock.stop();
}

/// A tiny TPC-C log of a server that no longer exists: its load and its run.
struct TinyLog {
    load: String,
    run: String,
    /// All GTIDs in it.
    gtids: GtidSet,
    work: PathBuf,
}

/// MINIMAL images and compression are set for the sessions of the run, as the README says.
fn tiny_log(name: &str, transactions: u32) -> TinyLog {
    let server = Server::start(name, &[]);
    let url = server.url("root");
    let common = ["--server", &url, "--warehouses", "1", "--scale", "0.01"];
    slipstream(&[&["lab", "tpcc", "prepare"][..], &common].concat()).expect(0, &[]);
    server.sql("FLUSH BINARY LOGS");
    let count = transactions.to_string();
    let variables = "binlog_row_image=MINIMAL,binlog_transaction_compression=ON";
    let run = ["lab", "tpcc", "run", "--write-transactions", &count, "--session-variables", variables];
    slipstream(&[&run[..], &common].concat()).expect(0, &[]);
    server.sql("FLUSH BINARY LOGS");
    let events = server.sql("SHOW BINLOG EVENTS IN 'binlog.000002' LIMIT 40");
    assert!(events.contains("Transaction_payload"), "{events}");
    let work = folder(name);
    std::fs::create_dir_all(&work).unwrap();
    let keep = |file: &str| {
        std::fs::copy(server.dir().join(file), work.join(file)).unwrap();
        work.join(file).display().to_string()
    };
    let (load, run) = (keep("binlog.000001"), keep("binlog.000002"));
    TinyLog { load, run, gtids: server.gtid_executed(), work }
}

/// Runs `lab compare` with one round; returns its report and its output.
fn compare(log: &TinyLog, more: &[&str]) -> (Value, Ran) {
    let bench = log.work.join("bench");
    let bench_text = bench.display().to_string();
    let fixed = ["lab", "compare", "--rounds", "1", "--json", "--folder", &bench_text, "--buffer-pool", "64M"];
    let ran = slipstream(&[&fixed[..], &["--load", &log.load, &log.run], more].concat());
    assert!(!bench.exists(), "left behind: {}\n{}", bench.display(), ran.err);
    assert_eq!(servers_on(&bench), 0, "a server was left running");
    (serde_json::from_str(&ran.out).unwrap_or(Value::Null), ran)
}

/// Number of processes whose command line names a folder.
fn servers_on(folder: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let name = folder.display().to_string();
    lines.filter(|line| String::from_utf8_lossy(line).contains(&format!("--datadir={name}"))).count()
}

/// Every contender replays a tiny log and ends with the same rows; each row states its properties.
#[test]
fn all_contenders_end_with_the_same_rows() {
    let log = tiny_log("compare", 300);
    let (report, ran) = compare(&log, &["--memory", "64M", "--first", "200"]);
    ran.expect(0, &[]);
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["contender"].as_str().unwrap()).collect();
    let wanted = [
        "slipstream",
        "slipstream --memory 64M",
        "slipstream, as stock",
        "mysql applier, defaults",
        "mysql applier, 16 workers",
        "mysql applier, relaxed",
        "mysqlbinlog | mysql",
        "mysqlbinlog --raw",
    ];
    assert_eq!(names, wanted, "{}", ran.out);
    assert_eq!(report["first_part"]["transactions"], 200, "{}", ran.out);
    // One New-Order in a hundred is rolled back.
    assert!(report["log"]["write_transactions"].as_u64() > Some(200), "{}", ran.out);
    for row in rows {
        let name = row["contender"].as_str().unwrap();
        assert_eq!(row["difference"], Value::Null, "{row}");
        for figure in ["median_s", "write_transactions_per_s", "rows_per_s", "mb_per_s", "times_ours", "peak_rss_bytes"]
        {
            assert!(row[figure].as_f64().unwrap() > 0.0, "{name} {figure}: {row}");
        }
        let part = name.starts_with("mysql applier") || name == "mysqlbinlog | mysql";
        assert_eq!(row["first_transactions"].is_null(), !part, "{row}");
        assert!(!row["store_synced"].as_str().unwrap().is_empty());
    }
    let settings = |at: usize| rows[at]["settings"].as_str().unwrap();
    assert_eq!((settings(3), settings(4)), ("as it ships", "replica_parallel_workers=16"), "{}", ran.out);
    assert_eq!(
        (&rows[3]["log_synced"], &rows[3]["store_synced"]),
        (&"binlog each group".into(), &"each commit group".into())
    );
    assert_eq!(
        (&rows[5]["log_synced"], &rows[5]["store_synced"]),
        (&"no binary log".into(), &"no (once a second)".into())
    );
    for six in
        ["log_bin", "log_replica_updates", "innodb_flush_log", "doublewrite", "redo_log_capacity", "performance_schema"]
    {
        assert!(settings(5).contains(six), "{six}: {}", settings(5));
    }
}

/// A figure of each family that has its own way of measuring: numbers, no verdict, a page and an index; and nothing
/// remains of it.
#[test]
fn a_figure_is_measured_stored_and_shown() {
    let work = folder("figure");
    let (out, scratch) = (work.join("pages"), work.join("scratch"));
    let (out_text, scratch_text) = (out.display().to_string(), scratch.display().to_string());
    let fixed = ["lab", "figure", "--quick", "--rounds", "1", "--out", &out_text, "--folder", &scratch_text];
    let ran = slipstream(&[&fixed[..], &["10-7"]].concat());
    ran.expect(0, &[]);
    assert!(ran.err.contains("no verdict: the quick form"), "{}", ran.err);
    assert!(!scratch.exists() && servers_on(&scratch) == 0, "left behind");
    let stored: Value = serde_json::from_slice(&std::fs::read(out.join("10-7.json")).unwrap()).unwrap();
    let names: Vec<&str> =
        stored["found"]["series"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.iter().any(|name| name.starts_with("rpl_rca_sql")), "{names:?}");
    assert_eq!((&stored["verdict"], &stored["rounds"]), (&Value::Null, &1.into()));
    let page = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert!(page("10-7.html").contains("<svg ") && page("index.html").contains("<a href=\"10-7.html\">"));
    slipstream(&[&fixed[..], &["10-99"]].concat()).expect(1, &["no figure 10-99"]);
    let listed = slipstream(&["lab", "figure", "--list"]);
    assert!(listed.expect(0, &[]).out.contains("10-22 = 11-11"), "{}", listed.out);
    // What cannot be had says why, and is no failure.
    let ran = slipstream(&[&fixed[..], &["10-3"]].concat());
    ran.expect(0, &[]);
    assert!(ran.err.contains("two NUMA nodes"), "{}", ran.err);
}

/// A group of three, with a proxy between its members, and a replica of ours: rows are equal at all of them.
#[test]
fn a_figure_of_a_group_is_measured_and_followed() {
    let work = folder("group-figure");
    let (out, scratch) = (work.join("pages"), work.join("scratch"));
    let (out_text, scratch_text) = (out.display().to_string(), scratch.display().to_string());
    let fixed = ["lab", "figure", "--quick", "--rounds", "1", "--out", &out_text, "--folder", &scratch_text];
    let ran = slipstream(&[&fixed[..], &["11-26"]].concat());
    ran.expect(0, &[]);
    assert!(!scratch.exists() && servers_on(&scratch) == 0, "left behind");
    let stored: Value = serde_json::from_slice(&std::fs::read(out.join("11-26.json")).unwrap()).unwrap();
    let series = stored["found"]["series"].as_array().unwrap();
    let options: Vec<&str> = series.iter().map(|one| one["points"][0]["options"].as_str().unwrap()).collect();
    let given = ["OFF", "ON", "OFF"].map(|value| format!("binlog_transaction_compression={value}"));
    assert!(options.iter().zip(&given).all(|(options, given)| options.ends_with(given.as_str())), "{options:?}");
    let values = |one: &Value| -> Vec<f64> {
        one["points"].as_array().unwrap().iter().filter_map(|point| point["values"][0].as_f64()).collect()
    };
    assert!(
        series.iter().all(|one| values(one).len() == 2 && values(one).iter().all(|&value| value > 0.0)),
        "{stored}"
    );
    // A commit waits for a majority, there and back, at 10 ms each way; a terminal has one at a time.
    let alone = values(&series[0])[0];
    assert!(alone < 60.0 * 1000.0 / 20.0, "{alone} tpmC of one terminal: nothing was delayed");
    let notes: Vec<&str> = stored["found"]["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let followed =
        |note: &&str| note.starts_with("Slipstream follows that run of 8 terminals") && note.ends_with("rows equal.");
    assert!(notes.iter().any(followed), "{notes:?}");
}

/// One try is all that this log has transactions for, so that its rate is a lower bound. On a busy machine it may not
/// be followed, and others are tried.
#[test]
fn a_replica_follows_a_log_at_a_rate_until_the_log_ends() {
    let work = folder("balance");
    let (logs, scratch) = (work.join("logs"), work.join("scratch"));
    let (out, folder) = (logs.display().to_string(), scratch.display().to_string());
    slipstream(&["lab", "make", "--out", &out, "--transactions=700", "zipf", "--rows=50"]).expect(0, &[]);
    let (load, run) = (format!("{out}/load.index"), format!("{out}/run.index"));
    let fixed = ["lab", "balance", "--load", &load, &run, "--folder", &folder, "--length=quick", "--searches=1"];
    let ours = ["--contender", "slipstream, unsynced:--relay-sync never", "--from=38", "--lag-max=5"];
    slipstream(&[&fixed[..], &ours, &["--within=20s"]].concat()).expect(1, &["more than --within allows"]);
    slipstream(&[&fixed[..], &["--contender", "postgres:"]].concat()).expect(2, &["begins with mysql or slipstream"]);
    let ran = slipstream(&[&fixed[..], &ours, &["--json"]].concat());
    let report: Value = serde_json::from_str(&ran.expect(0, &[]).out).unwrap();
    let contender = &report["contenders"][0];
    let search = &contender["searches"][0];
    assert_eq!(contender["options"], "--relay-sync never");
    let tries = search["tries"].as_array().unwrap();
    assert!(tries[0]["rate"].as_f64().unwrap() > 0.0 && tries[0]["slope"].is_f64(), "{search}");
    if tries[0]["verdict"] == "follows" {
        assert_eq!((&search["answer"]["rate"], &search["answer"]["at_least"]), (&38.0.into(), &true.into()));
        assert_eq!(tries.len(), 1);
    }
    // Of a prefix of the log: what a replay of as much leaves.
    assert_eq!(search["hash"].as_str().unwrap().len(), 32);
    assert!(!scratch.exists(), "left behind");
}

/// An interrupted figure, and an interrupted search, leave no server and no folder.
#[test]
fn interrupted_measurements_leave_nothing() {
    let work = folder("interrupted");
    let out = work.join("pages").display().to_string();
    let commands: [(usize, &[&str]); 3] = [
        (1, &["lab", "figure", "10-7", "--quick", "--out", &out]),
        (3, &["lab", "figure", "11-25", "--quick", "--out", &out]),
        (1, &["lab", "balance", "--primary", "--scale=0.01", "--length=quick", "--contender=mysql:"]),
    ];
    for (at, (servers, command)) in commands.into_iter().enumerate() {
        let scratch = work.join(format!("scratch-{at}"));
        let mut started = Command::new(binary());
        started.args(command).arg("--folder").arg(&scratch).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = started.spawn().unwrap();
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
        wait_for("its servers", || (servers_on(&scratch) >= servers).then_some(()), String::new);
        kill_process(pid, Signal::INT).unwrap();
        Ran::from(child.wait_with_output().unwrap()).expect(1, &["interrupted"]);
        assert!(!scratch.exists(), "{command:?} leaves its folder");
        assert_eq!(servers_on(&scratch), 0);
    }
}

/// A log of `lab synthesize` is taken too, and an option for every server shows in what the server reports.
#[test]
fn a_synthesized_log_is_compared_and_options_show() {
    let work = folder("synthesized");
    let logs = work.join("logs").display().to_string();
    let size = ["--warehouses=1", "--items=20", "--customers=5", "--transactions=120"];
    slipstream(&[&["lab", "synthesize", "--out", &logs][..], &size].concat()).expect(0, &["row changes"]);
    let log = TinyLog {
        load: format!("{logs}/binlog.000001"),
        run: format!("{logs}/binlog.000002"),
        gtids: GtidSet::new(),
        work,
    };
    let contender = ["--contender", "mysql, not flushed:--innodb-flush-log-at-trx-commit=2"];
    let (report, ran) = compare(&log, &[&contender[..], &["--mysqld-option=--sync-binlog=0"]].concat());
    ran.expect(0, &[]);
    let row = &report["rows"][0];
    assert_eq!((report["rows"].as_array().unwrap().len(), &row["contender"]), (1, &"mysql, not flushed".into()));
    assert_eq!((&row["log_synced"], &row["difference"]), (&"binlog never".into(), &Value::Null), "{}", ran.out);
    assert_eq!(row["store_synced"], "no (written; once a second)");
    assert_eq!(row["settings"], "innodb_flush_log_at_trx_commit=2 sync_binlog=0");
    LogSource::start(&log, &["--listen", "127.0.0.1:0"]).stop();
}

/// A stock server that leaves out a table does not end as ours does: the command names the table and fails, and leaves
/// nothing behind.
#[test]
fn a_contender_that_ends_otherwise_fails_the_comparison() {
    let log = tiny_log("differ", 60);
    let planted = "--mysqld-option=--replicate-ignore-table=tpcc.history";
    let (report, ran) = compare(&log, &["--only", "relaxed", planted]);
    ran.expect(1, &["the check failed"]);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{}", ran.out);
    let difference = rows[0]["difference"].as_str().unwrap();
    assert!(difference.contains("tpcc.history") && !difference.contains("tpcc.stock"), "{difference}");
    assert_eq!(rows[0]["times_ours"], Value::Null, "ours was left out");

    interrupted(&log);

    // A server that does not come up.
    let (_, ran) = compare(&log, &["--only", "relaxed", "--mysqld-option=--no-such-option=1"]);
    ran.expect(1, &["mysqld did not start"]);
}

/// An interrupt while a server runs ends the server and removes everything.
fn interrupted(log: &TinyLog) {
    let bench = log.work.join("interrupted");
    let mut command = Command::new(binary());
    command.args([
        "lab",
        "compare",
        "--no-defaults",
        "--only",
        "16 workers",
        "--rounds",
        "99",
        "--load",
        &log.load,
        &log.run,
    ]);
    command.arg("--folder").arg(&bench).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    wait_for("a server", || (servers_on(&bench) > 0).then_some(()), String::new);
    kill_process(pid, Signal::INT).unwrap();
    Ran::from(child.wait_with_output().unwrap()).expect(1, &["interrupted"]);
    assert!(!bench.exists());
    assert_eq!(servers_on(&bench), 0);
}

/// A copy of one of our programs, and a script in place of the other one.
fn with_script(copied: &Path, folder: &Path, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir_all(folder).unwrap();
    let copy = folder.join(copied.file_name().unwrap());
    std::fs::copy(copied, &copy).unwrap();
    let other = if copy.ends_with("slipstream") { "slipstream-lab" } else { "slipstream" };
    std::fs::write(folder.join(other), script).unwrap();
    std::fs::set_permissions(folder.join(other), std::fs::Permissions::from_mode(0o755)).unwrap();
    copy
}

/// The lab's program is the one in the program's own folder, whatever PATH has; both are of one build.
#[test]
fn the_labs_program_is_the_one_in_the_same_folder_and_of_the_same_build() {
    let work = folder("programs");
    let run = |program: &Path, arguments: &[&str], path: &Path| {
        let mut command = Command::new(program);
        Ran::from(command.args(arguments).env("PATH", format!("{}:/usr/bin:/bin", path.display())).output().unwrap())
    };
    // What it is handed, after its own name.
    let alone = work.join("alone");
    let copy = with_script(&binary(), &alone, "#!/bin/sh\necho handed \"$@\"\n");
    let handed = run(&copy, &["lab", "tpcc", "run", "--server", "mysql://h", "-p3"], &alone);
    assert_eq!(handed.expect(0, &[]).out.trim(), "handed tpcc run --server mysql://h -p3");
    assert_eq!(run(&copy, &["lab", "build-id"], &alone).expect(0, &[]).out.trim().len(), 16);
    // On PATH only.
    let elsewhere = work.join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::rename(alone.join("slipstream-lab"), elsewhere.join("slipstream-lab")).unwrap();
    run(&copy, &["lab", "tpcc", "run"], &elsewhere).expect(1, &["no slipstream-lab in the folder of", "make build"]);
    // A program of another build.
    let log = tests_log(&work);
    let lab = with_script(
        &binary().with_file_name("slipstream-lab"),
        &work.join("other"),
        "#!/bin/sh\necho 0123456789abcdef\n",
    );
    run(&lab, &["compare", &log], &elsewhere).expect(1, &["of another build (0123456789abcdef)"]);
    std::fs::remove_file(lab.with_file_name("slipstream")).unwrap();
    run(&lab, &["compare", &log], &elsewhere).expect(1, &["no slipstream in the folder of"]);
}

/// Path of a log's run.
fn tests_log(work: &Path) -> String {
    let logs = work.join("logs").display().to_string();
    let size = ["--warehouses=1", "--items=5", "--customers=2", "--transactions=5"];
    slipstream(&[&["lab", "synthesize", "--out", &logs][..], &size].concat()).expect(0, &[]);
    format!("{logs}/binlog.000002")
}

/// `lab source` in the background, killed on drop.
struct LogSource {
    child: Child,
    lines: BufReader<ChildStdout>,
    address: String,
}

impl LogSource {
    fn start(log: &TinyLog, options: &[&str]) -> LogSource {
        let mut command = Command::new(binary());
        command.args(["lab", "source", "--no-defaults", "--load", &log.load, &log.run]).args(options);
        command.env("MYSQL_PWD", "repl").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut source = LogSource { child, lines, address: String::new() };
        let line = source.line();
        let address = line.strip_prefix("listening on ").and_then(|rest| rest.split_once(": ")).expect(&line).0;
        source.address = address.to_owned();
        source
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// Reads lines up to one that contains a text.
    fn said(&mut self, text: &str) -> String {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the source ended before it said {text:?}");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Ends it by a signal, cleanly.
    fn stop(mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for LogSource {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Hash of `lab replay` over the load and a run.
fn replayed(log: &TinyLog, run: &str) -> String {
    let folder = log.work.join("replay").display().to_string();
    let ran = slipstream(&["lab", "replay", "--hash", "--folder", &folder, "--load", &log.load, run]);
    last_line(&ran.expect(0, &[]).out)
}

/// Our replica and a stock one follow a served log to its end, with the same rows as `lab replay`. A second start of
/// ours asks for what it lacks: nothing. mysqlbinlog reads it too, by file and position.
#[test]
fn replicas_follow_a_served_log() {
    let log = tiny_log("served", 150);
    let wanted = replayed(&log, &log.run);
    let goal = log.gtids.clone();
    // A second or two of the run, so that the pace shows; the load runs at full speed.
    let started = Instant::now();
    let mut source = LogSource::start(&log, &["--listen", "127.0.0.1:0", "--rate", "100"]);
    let url = format!("mysql://repl@{}", source.address);

    let data = log.work.join("ours");
    let mut ours = Replica::start(&url, &data, &[]);
    let status =
        ours.wait_until("the log's end", |status| goal.is_subset_of(&whole_program_tests::replica::executed(status)));
    // Commit times are this run's: the recorded ones are older than the source.
    let lag_us = status["lag"]["overall"]["max_us"].as_u64().unwrap();
    assert!(u128::from(lag_us) < started.elapsed().as_micros(), "{status}");
    let said = source.said("sent the log");
    let rate = said.rsplit_once(": ").and_then(|(_, rates)| rates.split_once(", ")).expect(&said).1;
    let rate: f64 = rate.trim().trim_end_matches(" transactions/s").parse().unwrap();
    assert!(rate <= 101.0, "{said}");

    let stock = Server::start("servedstock", &[]);
    let (host, port) = source.address.rsplit_once(':').unwrap();
    stock.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='{host}', SOURCE_PORT={port}, SOURCE_USER='repl', SOURCE_PASSWORD='repl', \
         SOURCE_AUTO_POSITION=1, SOURCE_SSL=0, SOURCE_HEARTBEAT_PERIOD=0.2; START REPLICA;"
    ));
    let state = || {
        stock.sql("SELECT CONCAT(@@GLOBAL.gtid_executed, ' ', (SELECT GROUP_CONCAT(LAST_ERROR_MESSAGE) FROM performance_schema.replication_connection_status))")
    };
    wait_for("the stock replica", || goal.is_subset_of(&stock.gtid_executed()).then_some(()), state);
    let theirs = slipstream(&["lab", "hash", &stock.url("root")]);
    assert_eq!(last_line(&theirs.expect(0, &[]).out), wanted, "the stock replica's rows");
    ours.stop();

    // Ours by hash: its rows equal the stock replica's.
    let mut ours = Replica::start(&url, &data, &[]);
    ours.wait_until("the source", |status| status["source"]["state"] == "connected");
    let verified = slipstream(&["verify", "--data", ours.data(), "--source", &stock.url("root")]);
    verified.expect(0, &[]);
    ours.stop();

    let out = log.work.join("copied-").display().to_string();
    let copied = stock.mysqlbinlog(&[
        "-R",
        "--protocol=TCP",
        &format!("--host={host}"),
        &format!("--port={port}"),
        "--user=repl",
        "--password=repl",
        "--ssl-mode=DISABLED",
        "--raw",
        &format!("--result-file={out}"),
        "binlog.000002",
    ]);
    copied.expect(0, &[]);
    // Its transactions are the log's, with other commit times.
    assert_eq!(replayed(&log, &format!("{out}binlog.000002")), wanted, "the copy's rows");
    // A wrong password is refused.
    let refused = slipstream_with(&["check", "--source", &url], |command| {
        command.env("MYSQL_PWD", "wrong");
    });
    assert_ne!(refused.code, 0, "{}", refused.out);
    refused.expect(refused.code, &["Access denied"]);
    source.stop();
}

/// One client's log at stock replicas: as its source and as relays stamped it, and a log with WRITESET beside.
#[test]
fn clocks_of_a_relay_at_stock_replicas() {
    if Command::new("sysbench").arg("--version").stdout(Stdio::null()).status().is_err() {
        testkit::skipped("no sysbench; apt-get install sysbench");
        return;
    }
    let work = folder("clocks");
    let (servers, picture) = (work.join("servers"), work.join("clocks.svg"));
    std::fs::create_dir_all(&work).unwrap();
    let (servers, picture_text) = (servers.to_str().unwrap(), picture.to_str().unwrap());
    let load = ["--transactions=100", "--tables=2", "--rows=1000", "--clients=1", "--reference-clients=3"];
    let ways = ["--workers=4", "--sync-delays=1", "--rounds=1", "--dependency-tracking=writeset,writeset-session"];
    let more = ["--folder", servers, "--picture", picture_text, "--buffer-pool=64M", "--json"];
    let ran = slipstream(&[&["lab", "clocks"], &load[..], &ways, &more].concat());
    let report: Value = serde_json::from_str(&ran.expect(0, &[]).out).unwrap();
    let stamped: Vec<&str> =
        report["lines"].as_array().unwrap().iter().map(|line| line["stamped_by"].as_str().unwrap()).collect();
    assert_eq!(stamped, ["its source", "relay, writeset", "relay, writeset-session", "its source, WRITESET"]);
    let svg = std::fs::read_to_string(&picture).unwrap();
    // A place for each clock of the one client's log, for its source, and for the log with WRITESET; each is named.
    assert_eq!(svg.matches("<circle").count(), 5, "{svg}");
    for name in
        ["COMMIT_ORDER", "relay, writeset", "relay, writeset-session", "its source, WRITESET", "the source, writing it"]
    {
        assert!(svg.contains(&format!("\n{name}\n</text>")), "{name}: {svg}");
    }
    assert!(!Path::new(servers).exists(), "its folder is left");
    std::fs::remove_dir_all(&work).unwrap();

    let ran = slipstream(&["lab", "clocks", "--sync-delays=-1"]);
    assert_ne!(ran.code, 0, "{}{}", ran.out, ran.err);
}
