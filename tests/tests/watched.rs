//! The page, /metrics and /health of a running replica.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use testkit::servers;
use whole_program_tests::{Replica, Server, folder, slipstream};

/// Status and body of the answer to a GET; `path` is of the URL that `status` shows.
fn get(url: &str, path: &str) -> (u16, String) {
    let host = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The value of a metric, with its labels if it has some.
fn metric(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// A replica of `server`, caught up, and its URL.
fn watched(server: &Server, name: &str, options: &[&str]) -> (Replica, String) {
    let mut replica = Replica::follow(server, &folder(name), &[&["--http=0"], options].concat());
    replica.catch_up(server);
    let status = replica.wait_until("all tables", |status| status["replay"]["comparison"] == "");
    let url = status["http"].as_str().unwrap().to_owned();
    (replica, url)
}

#[test]
fn figures_follow_the_replica() {
    if !servers() {
        return;
    }
    let server = Server::start("watched", &[]);
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, b TEXT)");
    server.sql("INSERT INTO d.t VALUES (1, 'secret'), (2, 'secret')");
    let (mut replica, url) = watched(&server, "watched", &[]);
    replica.waits_for_log(&[&format!("[SLIP-000100] [Server] serving the page and metrics at {url}")]);
    let (code, page) = get(&url, "/");
    assert!(code == 200 && page.starts_with("<!doctype html>") && page.contains("</html>"));
    // All that it loads is itself.
    assert!(!["src=", "@import", "url("].iter().any(|load| page.contains(load)));
    let (code, text) = get(&url, "/metrics");
    assert_eq!((code, metric(&text, "slipstream_row_changes_total")), (200, Some(2.0)));
    assert_eq!(
        metric(&text, "slipstream_transaction_lag_seconds_count"),
        metric(&text, "slipstream_transactions_total")
    );
    assert_eq!(metric(&text, "slipstream_source_state{state=\"connected\"}"), Some(1.0));
    // The server keeps its log for 30 days.
    let purge = metric(&text, "slipstream_source_purges_in_seconds").unwrap();
    assert!((2_500_000.0..=2_592_000.0).contains(&purge), "{purge}");
    assert_eq!(get(&url, "/health"), (200, "ok\n".to_owned()));

    // Nothing is applied while replay is paused.
    slipstream(&["pause", "--data", replica.data()]).expect(0, &[]);
    server.sql("INSERT INTO d.t VALUES (3, 'secret')");
    replica.wait_until("a backlog", |status| status["backlog"]["transactions"] == 1);
    let waiting = || {
        let text = get(&url, "/metrics").1;
        metric(&text, "slipstream_backlog_transactions") == Some(1.0)
            && metric(&text, "slipstream_replay_state{state=\"paused\"}") == Some(1.0)
    };
    replica.wait_until("the metrics to say so", |_| waiting());
    // It has arrived and is durable, and is not applied.
    let parts = |status: &serde_json::Value| {
        let count = |part: &str| status["lag"]["parts"][part]["overall"]["transactions"].as_u64().unwrap();
        ["transport", "durable", "apply", "publish"].map(count)
    };
    let waits = replica.wait_until("the relay log to be synced", |status| parts(status)[..2] == [4, 4]);
    assert_eq!(parts(&waits), [4, 4, 3, 3], "{waits}");
    slipstream(&["resume", "--data", replica.data()]).expect(0, &[]);
    replica.wait_until("the last parts", |status| parts(status) == [4, 4, 4, 4]);
    replica.wait_until("the metrics to say so", |_| {
        let text = get(&url, "/metrics").1;
        let count = |part: &str| {
            metric(&text, &format!("slipstream_transaction_lag_part_seconds_count{{part=\"{part}\"}}")).unwrap()
        };
        ["transport", "durable", "apply", "publish"].map(count) == [4.0; 4]
    });
    let text = slipstream(&["status", "--data", replica.data()]).out;
    assert!(text.contains("\nLag by part ") && text.contains(", apply "), "{text}");

    // The source is gone: not healthy, and the error is named without its text.
    server.stop();
    replica.wait_until("a lost source", |status| !status["last_io_error"].is_null());
    replica.wait_until("503", |_| get(&url, "/health").0 == 503);
    let (code, status) = get(&url, "/status");
    assert!(code == 200 && !status.contains("secret"), "{status}");
    let shown: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert!(
        ["the source cannot be reached", "the connection to the source was lost"]
            .contains(&shown["last_io_error"]["text"].as_str().unwrap())
    );
    let (_, text) = get(&url, "/metrics");
    assert_eq!(metric(&text, "slipstream_lag_seconds"), None);
    assert!(text.contains("slipstream_error{thread=\"io\""), "{text}");

    // The port is closed with the replica.
    let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    replica.stop();
    assert!(TcpStream::connect(host).is_err());
}

#[test]
fn a_stopped_replay_is_shown_without_rows() {
    if !servers() {
        return;
    }
    let server = Server::start("watched-stop", &[]);
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (a VARCHAR(20) PRIMARY KEY)");
    let (mut replica, url) = watched(&server, "watched-stop", &["--on-drift=stop", "--on-stop=stay"]);
    // The DELETE is not in the log: the row is here twice then.
    server.sql("INSERT INTO d.t VALUES ('secret')");
    replica.catch_up(&server);
    server.sql("SET sql_log_bin = 0; DELETE FROM d.t; SET sql_log_bin = 1; INSERT INTO d.t VALUES ('secret')");
    let stopped = replica.wait_until("a stop", |status| !status["last_sql_error"].is_null());
    assert!(stopped["last_sql_error"]["text"].as_str().unwrap().contains("secret"), "{stopped}");
    let found = |text: &str| text.contains("slipstream_error{thread=\"sql\"");
    replica.wait_until("the metrics to say so", |_| found(&get(&url, "/metrics").1));
    let (code, shown) = get(&url, "/status");
    assert!(code == 200 && !shown.contains("secret") && !shown.contains("\"last_sql_error\": null"), "{shown}");
    assert_eq!(get(&url, "/health").0, 503);
    replica.kill();
}

#[test]
fn a_taken_port_and_a_wrong_address_are_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let data = folder("watched-taken");
    let data = data.to_str().unwrap();
    let run = |http: &str| {
        slipstream(&["replica", "--no-defaults", "--source=file:/nowhere", "--data", data, "--port=0", "--http", http])
    };
    let told = run(&port);
    assert!(told.code == 1 && told.err.contains("--http=PORT listens on another port"), "{told:?}");
    let told = run("somewhere:80");
    assert!(told.code == 2 && told.err.contains("'somewhere:80' is not a port"), "{told:?}");
}

#[test]
fn the_token_is_read_at_the_start_and_again_at_sighup() {
    if !servers() {
        return;
    }
    let server = Server::start("watched-token", &[]);
    let data = folder("watched-token");
    let file = data.with_extension("token");
    let put = |token: &str, mode: u32| {
        std::fs::write(&file, token).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let option = format!("--http-token-file={}", file.display());
    let options = ["--http=0.0.0.0:0", &option];
    put("a-token-of-no-less-than-20-characters\n", 0o644);
    let refused = Replica::spawn(&server.url("repl"), &data, &options, |_| ());
    refused.expect_exit(2, &["--http-token-file", "chmod 600"]);
    put("a-token-of-no-less-than-20-characters\n", 0o600);
    let replica = Replica::follow(&server, &data, &options);
    put("another-token-of-no-less-than-20", 0o600);
    replica.signal(rustix::process::Signal::HUP);
    replica.waits_for_log(&["[SLIP-000115]"]);
    put("short", 0o600);
    slipstream(&["reload", "--data", replica.data()]).expect(0, &[]);
    replica.waits_for_log(&["[SLIP-000116]", "20 characters"]);
    assert!(!replica.log().contains("another-token"));
    replica.stop();
}
