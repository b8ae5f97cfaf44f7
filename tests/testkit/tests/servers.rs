//! Servers end with their value, and with their process.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{Server, servers};

/// Set in the process that is killed.
const DOOMED: &str = "TESTKIT_DOOMED";

#[test]
fn a_server_is_gone_after_a_panic() {
    if std::env::var_os("SLIPSTREAM_TEST_KEEP").is_some() {
        return;
    }
    let Some(server) = Server::or_skip("panic", &[]) else { return };
    assert_eq!(server.connect().query_value("SELECT @@sync_binlog").unwrap().as_deref(), Some("0"));
    let pid_file = server.connect().query_value("SELECT @@pid_file").unwrap().unwrap();
    let pid: u32 = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
    let folder = server.dir();
    assert!(is_running(pid));
    let panicked = std::panic::catch_unwind(move || {
        let _server = server;
        panic!("as a failed test does");
    });
    assert!(panicked.is_err());
    assert!(!folder.exists());
    // Not its port: a server of another test may have it by now.
    let until = Instant::now() + Duration::from_secs(60);
    while is_running(pid) {
        assert!(Instant::now() < until, "process {pid} is still running");
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// False also for a process that ended and that nobody has waited for.
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

#[test]
fn a_server_is_gone_after_its_process_was_killed() {
    if !servers() {
        return;
    }
    if std::env::var_os(DOOMED).is_some() {
        let server = Server::start_unsynced("doomed", &[]);
        println!("\nserver {} {}", server.port(), server.dir().display());
        loop {
            std::thread::park();
        }
    }
    let mut doomed = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_server_is_gone_after_its_process_was_killed", "--nocapture"])
        .env(DOOMED, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(doomed.stdout.take().unwrap()).lines();
    let line = said.map(Result::unwrap).find(|line| line.starts_with("server ")).unwrap();
    let (port, folder) = line.strip_prefix("server ").unwrap().split_once(' ').unwrap();
    let port: u16 = port.parse().unwrap();
    assert!(Path::new(folder).exists() && TcpStream::connect(("127.0.0.1", port)).is_ok());
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while Path::new(folder).exists() || TcpStream::connect(("127.0.0.1", port)).is_ok() {
        assert!(Instant::now() < until, "{folder} is still there");
        std::thread::sleep(Duration::from_millis(30));
    }
}
