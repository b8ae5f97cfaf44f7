//! An unknown lag is not shown as zero: of a source that says nothing, and of one that was reset while it is
//! followed.

use serde_json::Value;
use whole_program_tests::{Proxy, Replica, Server, assert_equal, folder, slipstream};

fn lag(status: &Value) -> &Value {
    &status["lag"]["current_us"]
}

/// The source's commits while it says nothing are not seen, so the lag is not 0.
#[test]
fn a_silent_source_has_no_known_lag() {
    let server = Server::start_unsynced("silent", &[]);
    server.sql("CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY); INSERT INTO s.t VALUES (1)");
    let proxy = Proxy::start(server.port());
    let data = folder("silent-source");
    let options = ["--get-server-public-key", "--source-heartbeat-period=100ms", "--replica-net-timeout=10min"];
    let mut replica = Replica::hurried_from(&proxy.url(), &data, &options);
    replica.catch_up(&server);
    let known = |status: &Value| *lag(status) == 0 && status["source"]["silence"]["too_long"] == false;
    replica.wait_until("lag 0", known);
    proxy.silence(true);
    server.sql("INSERT INTO s.t VALUES (2)");
    let status = replica.wait_until("a silence", |status| status["source"]["silence"]["too_long"] == true);
    assert!(lag(&status).is_null() && status["source"]["state"] == "connected", "{status}");
    assert!(status["source"]["silence"]["us"].as_u64() > Some(0));
    let path = data.to_str().unwrap();
    slipstream(&["status", "--data", path, "--max-lag=1h"]).expect(1, &["nothing has come from the source for"]);
    slipstream(&["status", "--data", path]).expect(0, &["Yes, since", "nothing has come from the source for", "NULL"]);
    proxy.silence(false);
    replica.catch_up(&server);
    replica.wait_until("lag 0 again", known);
    assert_equal(&server, &mut replica, &["s"]);
}

/// The source's dump waits at the old place of its new log, and tells nothing.
#[test]
fn a_reset_of_a_connected_source_is_noticed() {
    let server = Server::start_unsynced("reset-connected", &[]);
    let long = "a".repeat(5_000);
    server.sql(&format!(
        "CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY, v TEXT); INSERT INTO s.t VALUES (1, '{long}')"
    ));
    let data = folder("reset-connected");
    let mut replica = Replica::hurried(&server, &data, &["--on-stop=stay"]);
    server.sql(&format!("INSERT INTO s.t VALUES (2, '{long}')"));
    replica.catch_up(&server);
    server.sql("RESET BINARY LOGS AND GTIDS; INSERT INTO s.t VALUES (3, 'after')");
    let status = replica.wait_until("a stop", |status| status["source"]["state"] == "stopped");
    let error = &status["last_io_error"];
    assert_eq!(error["exit"], 4, "{error}");
    assert!(error["text"].as_str().unwrap().contains("errant GTIDs"), "{error}");
    assert!(lag(&status).is_null(), "{status}");
}
