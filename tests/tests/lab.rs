//! The laboratory against real servers: what it generates is what a server could have written.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use whole_program_tests::{Ran, Server, folder, slipstream_with};

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

/// Every shape of `lab make`, small: `mysqlbinlog` reads it, and a stock server that executes it ends with the same rows as
/// `lab replay`.
#[test]
fn a_made_log_gives_a_stock_server_the_same_rows() {
    // Nothing is asked of its disk.
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
