//! A first start that waits for its source: it says so, and can be stopped, refused or killed meanwhile.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::Value;
use whole_program_tests::{Replica, folder, slipstream, wait_for};

/// A server that takes connections and says nothing.
struct Mute {
    url: String,
    _listener: TcpListener,
}

impl Mute {
    /// Its clients wait that long for a greeting. The system accepts for it.
    fn start(connect_timeout_s: u32) -> Mute {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("mysql://repl@127.0.0.1:{port}/?connect-timeout={connect_timeout_s}");
        Mute { url, _listener: listener }
    }
}

/// The status of a process that may not have begun yet, once it shows this.
#[track_caller]
fn shows(data: &Path, what: &str) -> Value {
    let look = || {
        let ran = slipstream(&["status", "--json", "--data", data.to_str().unwrap()]);
        let status: Value = serde_json::from_str(&ran.out).ok()?;
        status["replay"]["detail"].as_str().is_some_and(|detail| detail.contains(what)).then_some(status)
    };
    wait_for(what, look, String::new)
}

fn health(status: &Value) -> String {
    let url = status["http"].as_str().unwrap();
    let host = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// `status` said that the folder is in use, and `stop` that no replica runs on it.
#[test]
fn a_replica_that_waits_for_its_source_says_so_and_stops() {
    let (mute, data) = (Mute::start(600), folder("first-start-mute"));
    let replica = Replica::spawn(&mute.url, &data, &["--http=0"], |_| ());
    let status = shows(&data, "starting: connecting to mysql://repl@127.0.0.1:");
    assert_eq!((&status["running"], &status["source"]["state"]), (&true.into(), &"connecting".into()), "{status}");
    assert_eq!(status["pid"], replica.pid(), "{status}");
    assert!(status["lag"]["current_us"].is_null() && status["last_error"].is_null(), "{status}");
    let path = data.to_str().unwrap();
    slipstream(&["status", "--data", path]).expect(0, &["Connecting, since 20", "starting: connecting to mysql://"]);
    slipstream(&["status", "--data", path, "--max-lag=1h"]).expect(1, &["starting: connecting to mysql://"]);
    let health = health(&status);
    assert!(health.starts_with("HTTP/1.1 503 ") && health.contains("starting: connecting to mysql://"), "{health}");
    for command in ["verify", "dump", "pause"] {
        slipstream(&[command, "--data", path]).expect(1, &["the replica is starting"]);
    }
    replica.stop();
    // Killed, it leaves a socket that nobody answers.
    let replica = Replica::spawn(&mute.url, &data, &[], |_| ());
    shows(&data, "starting: connecting to mysql://");
    replica.kill();
    slipstream(&["stop", "--data", path]).expect(1, &["no replica runs on"]);
    let replica = Replica::spawn(&mute.url, &data, &[], |_| ());
    shows(&data, "starting: connecting to mysql://");
    replica.stop();
}

#[test]
fn a_relay_that_waits_for_its_source_says_so_and_stops() {
    let (mute, data) = (Mute::start(600), folder("first-start-mute-relay"));
    let relay = Replica::spawn_relay(&mute.url, &data, &[], |_| ());
    let status = shows(&data, "starting: connecting to mysql://repl@127.0.0.1:");
    assert_eq!((&status["running"], &status["source"]["state"]), (&true.into(), &"connecting".into()), "{status}");
    slipstream(&["stop", "io", "--data", data.to_str().unwrap()]).expect(1, &["the relay is starting"]);
    relay.stop();
}

/// Without a greeting the start fails, and the stopped folder tells why.
#[test]
fn a_source_that_never_greets_ends_the_first_start() {
    let (mute, data) = (Mute::start(1), folder("first-start-no-greeting"));
    let mut replica = Replica::spawn(&mute.url, &data, &[], |_| ());
    assert_eq!(replica.wait_exit(), 11, "{}", replica.log());
    let path = data.to_str().unwrap();
    slipstream(&["status", "--data", path]).expect(0, &["Last_Error", "sent no greeting for 1 s"]);
    // The next start has not failed yet.
    let (mute, _gone) = (Mute::start(600), mute);
    let replica = Replica::spawn(&mute.url, &data, &[], |_| ());
    let status = shows(&data, "starting: connecting to mysql://");
    assert!(status["last_error"].is_null() && status["last_io_error"].is_null(), "{status}");
    replica.stop();
}
