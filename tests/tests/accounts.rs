//! `slipstream account` on a running replica, after a kill, and on a stopped one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use testkit::{Ran, run_with_input};
use whole_program_tests::{Replica, Server, binary, folder, slipstream};

/// Runs `slipstream account …` with a password on standard input.
fn account(data: &Path, arguments: &[&str], password: &str) -> Ran {
    let data = data.display().to_string();
    let mut command = Command::new(binary());
    command.arg("account").args(arguments).args(["--data", &data, "--no-defaults"]);
    run_with_input(&mut command, format!("{password}\n"))
}

fn listed(data: &Path) -> String {
    let ran = account(data, &["list"], "");
    ran.expect(0, &[]);
    ran.out
}

#[test]
fn accounts_are_kept_and_changed_whether_it_runs_or_not() {
    let server = Server::start_unsynced("accounts", &[]);
    let data = folder("accounts");
    account(&data, &["list"], "").expect(1, &["data folder"]);
    let replica = Replica::follow(&server, &data, &[]);
    account(&data, &["list"], "").expect(0, &["no accounts"]);
    let add = ["add", "app@10.0.0.0/8", "--may", "read", "--schemas", "shop,stock", "--require-tls"];
    account(&data, &add, "first password").expect(0, &["account app@10.0.0.0/8 is added; it may read of shop,stock"]);
    account(&data, &add, "x").expect(1, &["account app@10.0.0.0/8 exists already"]);
    account(&data, &["add", "old", "--may", "read", "--plugin", "mysql_native_password"], "x")
        .expect(0, &["not salted"]);
    account(&data, &["add", "bare", "--may", "read"], "").expect(2, &["no password on standard input"]);
    account(&data, &["add", "bare@db.example", "--may", "read"], "x").expect(2, &["names are not looked up"]);
    let lines = "account\tmay\tschemas\trequires\treads\tplugin\tmax_connections\tsource_login\n\
                 app@10.0.0.0/8\tread\tshop,stock\ttls\teventual\tcaching_sha2_password\tany\tnone\n\
                 old@%\tread\tall\tnothing\teventual\tmysql_native_password\tany\tnone\n";
    assert_eq!(listed(&data), lines);
    let file = data.join("accounts");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    replica.waits_for_log(&["SLIP-000085", "SLIP-000086"]);
    let log = replica.log();
    assert!(!log.contains("first password") && !log.contains("$A$"), "{log}");

    replica.kill();
    assert_eq!(listed(&data), lines);
    account(&data, &["change", "app@10.0.0.0/8", "--may", "read,monitor"], "").expect(0, &["may monitor,read now"]);
    account(&data, &["password", "old"], "y").expect(0, &["has a new password"]);
    account(&data, &["remove", "nobody"], "").expect(1, &["there is no account nobody@%"]);
    let replica = Replica::follow(&server, &data, &["--start-anew"]);
    let kept = listed(&data);
    assert!(kept.contains("app@10.0.0.0/8\tmonitor,read\tall\tnothing\t"), "{kept}");
    assert!(kept.contains("old@%\tread\tall\tnothing\teventual\tmysql_native_password"), "the plugin stays: {kept}");
    replica.waits_for_log(&["account old@% uses mysql_native_password"]);
    account(&data, &["remove", "old"], "").expect(0, &["account old@% is removed"]);
    replica.stop();

    std::fs::write(&file, std::fs::read(&file).unwrap().split_last().unwrap().1.split_last().unwrap().1).unwrap();
    account(&data, &["list"], "").expect(7, &["accounts", "not a file of accounts"]);
    let data = data.display().to_string();
    slipstream(&["replica", "--source", &server.url("repl"), "--data", &data]).expect(7, &["accounts"]);
}
