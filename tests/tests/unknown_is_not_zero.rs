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
    let known = |status: &Value| {
        *lag(status) == 0 && status["source"]["silence"]["too_long"] == false && status["gtid"]["lacks"] == 0
    };
    replica.wait_until("lag 0", known);
    proxy.silence(true);
    server.sql("INSERT INTO s.t VALUES (2)");
    let status = replica.wait_until("a silence", |status| status["source"]["silence"]["too_long"] == true);
    assert!(lag(&status).is_null() && status["source"]["state"] == "connected", "{status}");
    assert!(status["gtid"]["lacks"].is_null(), "{status}");
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
    // A reset is no errant transaction: to commit ours empty there would hide that its others differ.
    let text = error["text"].as_str().unwrap();
    assert!(text.starts_with("the source's history is not the one that was received: RESET BINARY LOGS"), "{error}");
    assert!(!text.contains("errant") && !text.contains("max_allowed_packet"), "{error}");
    assert!(error["way_on"].as_str().unwrap().contains("slipstream replica --start-anew"), "{error}");
    assert_eq!(error["number"], 1236, "{error}");
    assert_eq!(status["replay"]["to_verify"], serde_json::json!([]), "{status}");
    let max_lag = slipstream(&["status", "--data", data.to_str().unwrap(), "--max-lag=1h"]);
    max_lag.expect(1, &["lag is not known: receiving has stopped: the source's history is not the one", "(1236)"]);
    assert!(lag(&status).is_null(), "{status}");
}
