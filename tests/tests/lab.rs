//! The laboratory against real servers: what it generates is what a server could have written.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use whole_program_tests::{Ran, Server, allowed_cpus, cpus_of_thread, folder, slipstream_with, wait_for};

/// As root, who has no password.
fn slipstream(arguments: &[&str]) -> Ran {
    slipstream_with(arguments, |command| {
        command.env_remove("MYSQL_PWD");
    })
}

fn last_line(text: &str) -> String {
    text.lines().rev().find_map(|line| line.trim().strip_prefix("result hash ")).expect(text).to_owned()
}

/// A small TPC-C log, unrolled three times: `mysqlbinlog` reads it, a stock server that executes it ends with the same
/// rows as `lab replay`, and each repetition has warehouses of its own. FULL and MINIMAL images, plain and compressed.
#[test]
fn a_generated_log_gives_a_stock_server_the_same_rows() {
    for (name, options) in [
        ("labfull", ["--binlog-row-image=FULL", "--binlog-transaction-compression=OFF"]),
        ("labmin", ["--binlog-row-image=MINIMAL", "--binlog-transaction-compression=ON"]),
    ] {
        let server = Server::start(name, &options);
        let url = server.url("root");
        let common = ["--server", &url, "--warehouses", "2"];
        let scale = ["--scale", "0.01"];
        slipstream(&[&["lab", "tpcc", "prepare"][..], &common, &scale].concat()).expect(0, &[]);
        server.sql("FLUSH BINARY LOGS");
        slipstream(&[&["lab", "tpcc", "run", "--write-transactions", "300"][..], &common, &scale].concat())
            .expect(0, &[]);
        server.sql("FLUSH BINARY LOGS");
        let here = slipstream(&["lab", "hash", &url, "--tables", "tpcc.*"]).expect(0, &["tpcc.stock"]).out.clone();
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
        let generate =
            ["lab", "generate", "--repeat", "3", "--out", &out, "--file-mib", "1", "--load", &logs[0], &logs[1]];
        slipstream(&generate).expect(0, &["2 warehouses a repetition"]);
        let files = |index: &str| -> Vec<String> {
            let text = std::fs::read_to_string(format!("{out}/{index}")).unwrap();
            text.lines().map(|name| format!("{out}/{name}")).collect()
        };
        let all = [files("load.index"), files("run.index")].concat();
        assert!(all.len() > 2, "{all:?}");
        let arguments: Vec<&str> =
            ["--verify-binlog-checksum"].into_iter().chain(all.iter().map(String::as_str)).collect();
        let sql = server.mysqlbinlog(&arguments);
        sql.expect(0, &[]);
        let stock = Server::start(&format!("{name}stock"), &[]);
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
}

/// A log made from a seed is replayed; its threads run where `--thread-affinity` says, and a CPU that is not there is
/// refused before anything starts.
#[test]
fn replay_of_a_made_log_on_given_cpus() {
    let work = folder("affinity");
    let log = work.join("log").display().to_string();
    slipstream(&["lab", "synthesize", "--out", &log, "--warehouses=1", "--items=100", "--customers=10"])
        .expect(0, &["row changes"]);
    let (load, run) = (format!("{log}/binlog.000001"), format!("{log}/binlog.000002"));
    let replay = |options: &[&str]| slipstream(&[&["lab", "replay", "--load", &load, &run], options].concat());
    replay(&["--thread-affinity=apply=100000"]).expect(2, &["CPU 100000 of apply does not exist or is not allowed"]);
    replay(&["--thread-affinity=aply=0"]).expect(2, &["'aply' is no stage"]);
    let (last, list) = allowed_cpus();
    let affinity = format!("--cpu-affinity=all={last},apply={list}");
    replay(&[&affinity]).expect(0, &[&format!("bound to receive={last},relay-sync={last},split={last}")]);
    // At a hundredth of the source's speed: it still runs when its threads are looked at.
    let child = std::process::Command::new(whole_program_tests::binary())
        .args(["lab", "replay", "--pace=0.01", &affinity, "--load", &load, &run, "--folder"])
        .arg(work.join("paced"))
        .stdout(std::process::Stdio::null())
        .spawn();
    let mut child = child.unwrap();
    let stages = ["receive", "relay-sync", "split", "decode-0", "sequence", "apply-0"];
    let seen = wait_for(
        "the stages' threads",
        || stages.map(|stage| cpus_of_thread(child.id(), stage)).into_iter().collect::<Option<Vec<_>>>(),
        String::new,
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let mut wanted = vec![last; stages.len() - 1];
    wanted.push(list);
    assert_eq!(seen, wanted);
}
