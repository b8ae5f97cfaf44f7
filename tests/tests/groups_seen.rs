//! What a person sees of the group that is followed: status, tables, metrics, in five states.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use whole_program_tests::{Group, Ran, Replica, Server, all_cases, folder, repository, slipstream, wait_for};

use crate::followed::{is_followed, uuid};

/// MySQL's client at the replica's socket, with the names of columns.
fn rows(socket: &Path, sql: &str) -> String {
    let mut command = Command::new(repository().join("testbed/mysql"));
    command.args(["run", "mysql", "--no-defaults", "--user=admin", "--batch", "--protocol=SOCKET"]);
    command.arg(format!("--socket={}", socket.display())).args(["-e", sql]);
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.code, 0, "{sql}: {}", ran.err);
    ran.out
}

/// The same rows as a member has.
fn same(member: &Server, socket: &Path, sql: &str) {
    let there = || member.client(&["--column-names"], sql).unwrap();
    let is_same = || (rows(socket, sql) == there()).then_some(());
    wait_for("the same rows", is_same, || format!("{}\n{}", rows(socket, sql), there()));
}

/// `slipstream status` without what follows the group.
fn shown(replica: &Replica, what: &str) -> String {
    let text = slipstream(&["status", "--data", replica.data()]).out;
    let about = text.lines().take_while(|line| !line.starts_with("Last received"));
    let about = about.collect::<Vec<_>>().join("\n");
    println!("--- {what}\n{about}");
    about
}

fn says(text: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(text.contains(word), "no '{word}' in:\n{text}"));
}

fn members(status: &Value) -> Vec<&str> {
    let all = status["source"]["group"]["members"].as_array();
    all.map(|all| all.iter().map(|of| of["member_state"].as_str().unwrap()).collect()).unwrap_or_default()
}

const MEMBERS: &str = "SELECT * FROM performance_schema.replication_group_members ORDER BY MEMBER_ID";
const STATS: &str = "SELECT * FROM performance_schema.replication_group_member_stats ORDER BY MEMBER_ID";

#[test]
fn a_person_sees_the_group_in_five_states() {
    if !all_cases() {
        return;
    }
    let Some(group) = Group::or_skip("groups-seen", 3, &["--single-primary"]) else { return };
    let all: Vec<&Server> = group.members().iter().collect();
    let uuids: Vec<String> = all.iter().map(|member| uuid(member)).collect();
    let primary = group.primary().unwrap();
    let at_primary = all.iter().position(|member| member.port() == primary.port()).unwrap();
    all.iter().for_each(|member| {
        member.sql(
            "SET @read_only = @@GLOBAL.super_read_only; SET GLOBAL super_read_only = OFF; SET SESSION sql_log_bin = 0; \
             INSTALL COMPONENT 'file://component_group_replication_flow_control_stats'; \
             SET GLOBAL super_read_only = @read_only",
        );
    });
    primary.sql("CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, n INT); INSERT INTO t.a VALUES (1, 0)");
    // A secondary is named.
    let first = (at_primary + 1) % 3;
    let source = format!("{}/?group&ssl-mode=REQUIRED", all[first].url("repl"));
    let data = folder("groups-seen");
    let socket = data.with_extension("sock");
    let listens = format!("--socket={}", socket.display());
    let options = ["--on-stop=stay", "--disk-reserve=100M", "--prefer=secondary", &listens];
    let mut replica = Replica::start(&source, &data, &options);
    replica.catch_up(primary);

    // All are ONLINE, and a secondary is followed.
    let figures = |status: &Value| {
        let all = status["source"]["group"]["members"].as_array();
        all.is_some_and(|all| all.len() == 3 && all.iter().all(|of| of["flow_control"].is_object()))
    };
    let status = replica.wait_until("figures of three members", figures);
    assert_eq!(members(&status), ["ONLINE"; 3]);
    let by_itself = |of: &Value| of["figures"]["by_itself"] == true && of["member_version"] == "9.7.4";
    assert!(status["source"]["group"]["members"].as_array().unwrap().iter().all(by_itself), "{status}");
    let text = shown(&replica, "all ONLINE, a secondary is followed");
    says(
        &text,
        &["3 of 3 members ONLINE", "ONLINE SECONDARY 9.7.4, followed, 0 to certify", "ONLINE PRIMARY 9.7.4, 0 to"],
    );
    same(all[first], &socket, MEMBERS);
    same(all[first], &socket, STATS);

    // The followed one leaves, and the other secondary is followed.
    group.leave(first);
    let followed = 3 - first - at_primary;
    replica.wait_until("another one", |status| is_followed(status, &uuids[followed]) && members(status).contains(&""));
    let text = shown(&replica, "one has left");
    says(&text, &["2 of 3 members ONLINE", "not in the view (left, expelled or down) for", "Left ", "last event 20"]);
    group.join(first);
    replica.wait_until("three members", |status| members(status) == ["ONLINE"; 3]);
    same(all[followed], &socket, MEMBERS);

    // A minority: the followed one, and nobody else answers.
    {
        let others: Vec<_> = (0..3).filter(|at| *at != followed).map(|at| group.freeze(at)).collect();
        replica.wait_until("nobody", |status| {
            let reasons = status["source"]["candidates"].as_array().unwrap();
            status["source"]["followed_since"].is_null() && reasons.iter().all(|of| of["why_not"] != "")
        });
        let text = shown(&replica, "a minority");
        says(&text, &["cannot reach a majority", "UNREACHABLE", "not followed: ", "(last followed: "]);
        drop(others);
    }
    group.mend();
    replica.wait_until("three members", |status| members(status) == ["ONLINE"; 3]);

    // Everything is down.
    (0..3).for_each(|at| group.kill(at));
    let is_down = |status: &Value| {
        let old = status["source"]["group"]["age_us"].as_u64().unwrap() > 5_000_000;
        old && status["source"]["candidates"].as_array().unwrap().iter().all(|of| of["why_not"] != "")
    };
    replica.wait_until("nobody", is_down);
    says(&shown(&replica, "everything is down"), &["nobody tells of it now", "was ONLINE PRIMARY", "Connecting"]);
    let listed = rows(&socket, "SELECT MEMBER_STATE, MEMBER_ROLE FROM performance_schema.replication_group_members");
    assert_eq!(listed, "MEMBER_STATE\tMEMBER_ROLE\nUNREACHABLE\t\nUNREACHABLE\t\nUNREACHABLE\t\n");
    group.mend();
    replica.wait_until("three members", |status| members(status) == ["ONLINE"; 3]);
    shown(&replica, "after all were restarted");
    replica.stop();
}
