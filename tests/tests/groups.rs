//! A replica of a group: it follows one member while members are killed, cut off and expelled; how fresh its reads are;
//! what is errant.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use testkit::RawClient;
use whole_program_tests::{
    Group, Proxy, Replica, Server, SetAtEnd, all_cases, assert_equal, folder, length, slipstream, wait_for,
};

use crate::door_fresh::{read, reader, set};
use crate::followed::{is_followed, several, uuid};

/// The tests of this module have it one after the other: three members take 1.5 GiB.
static GROUP: Mutex<Option<Group>> = Mutex::new(None);

/// A row to read.
const TABLES: &str = "DROP DATABASE IF EXISTS t; CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, n INT); \
    INSERT INTO t.a VALUES (1, 0), (2, 0)";

fn group() -> Option<MutexGuard<'static, Option<Group>>> {
    Group::borrowed(&GROUP, || Group::or_skip("groups", 3, &["--multi-primary"]))
}

/// As [`group`], for what the gate has no time for.
fn group_at_night() -> Option<MutexGuard<'static, Option<Group>>> {
    if all_cases() { group() } else { None }
}

/// A replica of a source, with a socket for clients.
fn follow(url: &str, name: &str) -> (Replica, PathBuf) {
    let data = folder(name);
    let socket = data.with_extension("sock");
    let option = format!("--socket={}", socket.display());
    (Replica::start(url, &data, &["--on-stop=stay", "--disk-reserve=100M", &option]), socket)
}

fn number(client: &mut RawClient) -> u64 {
    read(client).unwrap()
}

/// Reads again until it gets an answer.
fn answered(client: &mut RawClient) -> u64 {
    wait_for("an answer", || read(client).ok(), String::new)
}

/// Writes the row over and over, each time reading it here once its writer was answered; a read that fails is not
/// stale. What it counts: reads, failures, stale ones.
fn never_stale(writer: &Server, socket: &Path, ended: &AtomicBool) -> [u64; 3] {
    let mut writes = writer.connect();
    let mut global = reader(socket, "GLOBAL");
    set(&mut global, "slipstream_read_timeout = 2000");
    let (mut counts, mut n) = ([0; 3], 0);
    while !ended.load(SeqCst) {
        n += 1;
        writes.query(&format!("UPDATE t.a SET n = {n} WHERE id = 1")).unwrap();
        let [reads, failures, stale] = &mut counts;
        match read(&mut global) {
            Ok(seen) => (*reads, *stale) = (*reads + 1, *stale + u64::from(seen < n)),
            Err(_) => *failures += 1,
        }
    }
    counts
}

#[test]
fn a_member_is_followed_while_members_are_killed_cut_off_and_expelled() {
    let Some(group) = group() else { return };
    let group = group.as_ref().unwrap();
    let [followed, writer, _] = group.members() else { panic!() };
    assert!(group.primary().is_none(), "{:?}", group.view());
    writer.sql(TABLES);
    let proxy = Proxy::start(followed.port());
    let source = format!("{}&get-server-public-key=1", proxy.url());
    let (mut replica, socket) = follow(&source, "groups");
    replica.catch_up(writer);
    // Its group is seen, though only this member is followed.
    replica.wait_until("its group", |status| status["source"]["group"]["members"].as_array().map(Vec::len) == Some(3));
    assert_eq!(replica.status().unwrap()["source"]["candidates"].as_array().map(Vec::len), Some(0));
    let ended = AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        let beside = scope.spawn(|| never_stale(writer, &socket, &ended));
        let _ends = SetAtEnd(&ended);
        let mut look = reader(&socket, "GLOBAL");
        answered(&mut look);
        group.kill(2);
        answered(&mut look);
        proxy.cut();
        answered(&mut look);
        // Two of three are the majority that expels the third.
        group.mend();
        group.expel(0);
        assert_eq!(group.view_of(1).len(), 2, "{:?}", group.view_of(1));
        // It need not know yet, and is asked at once.
        let _ = read(&mut look);
        group.mend();
        proxy.delay(Duration::from_millis(20));
        replica.catch_up(writer);
        answered(&mut look);
        ended.store(true, SeqCst);
        beside.join().unwrap()
    });
    println!("reads, failures, stale: {counts:?}");
    assert!(counts[0] > 0 && counts[2] == 0, "{counts:?}");
    assert_equal(followed, &mut replica, &["t"]);
    replica.stop();
}

/// The next one is followed; the one that was left is ONLINE again before the next case.
#[test]
fn the_next_member_is_followed_when_one_is_killed_leaves_or_is_expelled() {
    let Some(group) = group() else { return };
    let group = group.as_ref().unwrap();
    let members: Vec<&Server> = group.members().iter().collect();
    let uuids: Vec<String> = members.iter().map(|member| uuid(member)).collect();
    members[0].sql(TABLES);
    let (mut replica, socket) = follow(&several(&members), "groups-next");
    let mut eventual = reader(&socket, "EVENTUAL");
    let mut n = 0;
    for (at, what) in ["killed", "left", "expelled"].into_iter().enumerate() {
        let next = (at + 1) % 3;
        replica.wait_until("the member", |status| is_followed(status, &uuids[at]));
        replica.catch_up(members[at]);
        let begun = Instant::now();
        match what {
            "killed" => group.kill(at),
            "left" => group.leave(at),
            _ => group.expel(at),
        }
        let gone = Instant::now();
        n += 1;
        members[next].sql(&format!("UPDATE t.a SET n = {n} WHERE id = 1"));
        let status = replica.wait_until("the next member", |status| is_followed(status, &uuids[next]));
        println!("{what} in {:?}: the next member's first event {:?} after it", gone - begun, gone.elapsed());
        println!("left: {}", status["source"]["left"]);
        replica.catch_up(members[next]);
        assert_eq!(number(&mut eventual), n);
        group.mend();
    }
    assert!(!replica.log().contains("SLIP-000135"), "{}", replica.log_end());
    assert_equal(members[0], &mut replica, &["t"]);
    replica.stop();
}

/// Only one member is named; the others are found, and known at the next start though that one is down.
#[test]
fn members_that_one_has_told_of_are_followed_once_it_is_gone() {
    let Some(group) = group() else { return };
    let group = group.as_ref().unwrap();
    let [named, second, third] = group.members() else { panic!() };
    let uuids = [named, second, third].map(uuid);
    second.sql(TABLES);
    let source = format!("{}/?group&ssl-mode=REQUIRED", named.url("repl"));
    let (mut replica, _) = follow(&source, "groups-found");
    let is_known = |status: &serde_json::Value| {
        let candidates = status["source"]["candidates"].as_array().unwrap();
        candidates.len() == 3 && candidates.iter().all(|of| of["member_state"] == "ONLINE")
    };
    replica.wait_until("three members", is_known);
    replica.catch_up(second);
    let checks = |source: &str, says: &[&str]| {
        slipstream(&["check", "--source", source]).expect(0, says);
    };
    let online = "group    member of a group: MEMBER_STATE ONLINE; 3 of 3 members ONLINE, 3 PRIMARY; 0 transactions";
    checks(&source, &[online, "GLOBAL and BOUNDED reads wait"]);
    checks(&named.url("repl"), &[online, "only this member is followed"]);
    let data = replica.data.clone();
    assert!(std::fs::read_to_string(data.join("source-members")).unwrap().contains(&uuids[2]));
    group.kill(0);
    let killed = Instant::now();
    let status =
        replica.wait_until("another member", |status| is_followed(status, &uuids[1]) || is_followed(status, &uuids[2]));
    println!("killed: the other member's first event {:?} after it: {}", killed.elapsed(), status["source"]["left"]);
    third.sql("UPDATE t.a SET n = 1 WHERE id = 1");
    replica.catch_up(third);
    replica.stop();
    let options = ["--on-stop=stay", "--disk-reserve=100M"];
    let mut replica = Replica::start(&source, &data, &options);
    replica.wait_until("a kept member", |status| is_followed(status, &uuids[1]) || is_followed(status, &uuids[2]));
    assert_equal(third, &mut replica, &["t"]);
    group.mend();
    replica.stop();
    // A certificate that nobody verifies: the member's word for an address is not enough.
    let source = format!("{}/?group", named.url("repl"));
    checks(&source, &[&format!("note: {} at 127.0.0.1", uuids[1]), "--member-address"]);
    let mut replica = Replica::start(&source, &folder("groups-not-dialled"), &options);
    replica.waits_for_log(&["SLIP-000138", &format!("{} at 127.0.0.1", uuids[2]), "--member-address"]);
    let status = replica.status().unwrap();
    assert_eq!(status["source"]["candidates"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["source"]["members_not_followed"].as_array().unwrap().len(), 2, "{status}");
    group.kill(0);
    let status = replica.wait_until("the loss", |status| {
        status["last_io_error"]["text"].as_str().is_some_and(|text| text.contains("none of 1 sources"))
    });
    let error = status["last_io_error"]["text"].as_str().unwrap();
    assert!(error.contains(&uuids[2]) && error.contains("--member-address"), "{error}");
    replica.stop();
    group.mend();
}

#[test]
fn a_read_waits_for_what_the_followed_member_has_not_applied() {
    let Some(group) = group() else { return };
    let group = group.as_ref().unwrap();
    let [followed, writer, _] = group.members() else { panic!() };
    writer.sql(TABLES);
    let (mut replica, socket) = follow(&followed.url("repl"), "groups-held");
    replica.catch_up(writer);
    let mut global = reader(&socket, "GLOBAL");
    assert_eq!(number(&mut global), 0);
    let mut holds = followed.connect();
    holds.query("LOCK TABLES t.a READ").unwrap();
    writer.sql("UPDATE t.a SET n = 1 WHERE id = 1");
    // A planted fault: a plain SELECT of the followed member's set, which many take for fresh.
    let mut planted = reader(&socket, "SESSION");
    set(&mut planted, &format!("slipstream_read_gtids = '{}'", followed.gtid_executed()));
    assert_eq!(number(&mut planted), 0, "a plain SELECT is held: the fault that these tests look for is none");
    set(&mut global, "slipstream_read_timeout = 500");
    let late = read(&mut global).unwrap_err();
    assert!(late.contains("read consistency GLOBAL: the source has not answered after 500 ms"), "{late}");
    set(&mut global, "slipstream_read_timeout = 60000");
    let late = read(&mut global).unwrap_err();
    let why = "has not committed what its group had ordered within 8 s: 0 transactions to certify and 1 to apply";
    assert!(late.contains(why), "{late}");
    // One barrier for all who wait.
    let begun = |server: &Server| -> u64 {
        let row = server.sql("SHOW GLOBAL STATUS LIKE 'Com_begin'");
        row.trim().rsplit('\t').next().unwrap().parse().unwrap()
    };
    let before = begun(followed);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = reader(&socket, "GLOBAL");
                    number(&mut client)
                })
            })
            .collect();
        let waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'START TRANSACTION READ ONLY'";
        wait_for("a barrier", || (followed.sql(waits).trim() == "1").then_some(()), String::new);
        holds.query("UNLOCK TABLES").unwrap();
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() == 1));
    });
    let barriers = begun(followed) - before;
    println!("{barriers} barriers for 16 readers");
    assert!(barriers <= 8, "{barriers}");
    replica.stop();
}

#[test]
fn a_member_that_lags_is_followed_though_it_lacks_what_is_here() {
    let Some(group) = group() else { return };
    let group = group.as_ref().unwrap();
    let [lags, writer, _] = group.members() else { panic!() };
    writer.sql(TABLES);
    let (mut replica, _) = follow(&writer.url("repl"), "groups-lag");
    let mut holds = lags.connect();
    replica.catch_up(writer);
    wait_for("the table", || lags.try_sql("SELECT n FROM t.a").ok().filter(|rows| !rows.is_empty()), String::new);
    // Sessions that do not say otherwise wait for the applier.
    lags.sql("SET GLOBAL group_replication_consistency = 'BEFORE'");
    holds.query("LOCK TABLES t.a READ").unwrap();
    writer.sql("UPDATE t.a SET n = 1 WHERE id = 1");
    replica.catch_up(writer);
    let data = replica.data.clone();
    replica.stop();
    let mut replica = Replica::start(&lags.url("repl"), &data, &["--on-stop=stay", "--disk-reserve=100M"]);
    replica.wait_until("the member that lags", |status| status["source"]["state"] == "connected");
    holds.query("SET GLOBAL group_replication_consistency = DEFAULT").unwrap();
    assert!(!replica.log().contains("errant"), "{}", replica.log_end());
    holds.query("UNLOCK TABLES").unwrap();
    lags.sql("UPDATE t.a SET n = n + 1 WHERE id = 2");
    assert_equal(lags, &mut replica, &["t"]);
    replica.stop();
}

#[test]
fn a_member_that_left_answers_for_nobody_and_is_waited_for() {
    let Some(group) = group_at_night() else { return };
    let group = group.as_ref().unwrap();
    let [left, writer, _] = group.members() else { panic!() };
    writer.sql(TABLES);
    let (mut replica, socket) = follow(&left.url("repl"), "groups-left");
    replica.catch_up(writer);
    let (mut global, mut eventual) = (reader(&socket, "GLOBAL"), reader(&socket, "EVENTUAL"));
    assert_eq!(number(&mut global), 0);
    group.leave(0);
    writer.sql("UPDATE t.a SET n = 1 WHERE id = 1");
    let why = read(&mut global).unwrap_err();
    assert!(why.contains("the source has left its group (MEMBER_STATE is OFFLINE)"), "{why}");
    assert_eq!(number(&mut eventual), 0);
    // From one that has the transaction to the one that left.
    let data = replica.data.clone();
    replica.stop();
    let mut replica = Replica::start(&writer.url("repl"), &data, &["--on-stop=stay", "--disk-reserve=100M"]);
    replica.catch_up(writer);
    replica.stop();
    let mut replica = Replica::start(&left.url("repl"), &data, &["--on-stop=stay", "--disk-reserve=100M"]);
    replica.waits_for_log(&["may be on their way to the source", "has left its group", "waiting for"]);
    group.join(0);
    replica.wait_until("the member that is back", |status| status["source"]["state"] == "connected");
    assert_equal(left, &mut replica, &["t"]);
    replica.stop();
}

#[test]
fn a_member_without_a_majority_answers_nobody() {
    let Some(group) = group_at_night() else { return };
    let group = group.as_ref().unwrap();
    let [alone, writer, _] = group.members() else { panic!() };
    writer.sql(TABLES);
    let (mut replica, socket) = follow(&alone.url("repl"), "groups-alone");
    replica.catch_up(writer);
    let mut global = reader(&socket, "GLOBAL");
    set(&mut global, "slipstream_read_timeout = 60000");
    assert_eq!(number(&mut global), 0);
    {
        let _others = (group.freeze(1), group.freeze(2));
        let why = wait_for(
            "the others to be unreachable",
            || read(&mut global).err().filter(|why| why.contains("2 of 3 members are unreachable")),
            String::new,
        );
        assert!(why.contains("cannot reach a majority of its group"), "{why}");
    }
    assert_eq!(answered(&mut global), 0);
    replica.stop();
}

/// Each write that was acknowledged, and each row that its own member shows, by either of two writers.
#[test]
fn reads_are_as_fresh_as_two_writers_saw() {
    let Some(group) = group_at_night() else { return };
    let group = group.as_ref().unwrap();
    let [followed, one, two] = group.members() else { panic!() };
    one.sql(TABLES);
    let (mut replica, socket) = follow(&followed.url("repl"), "groups-two");
    replica.catch_up(one);
    let (ended, looks, older) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let ended = &ended;
        let _ends = SetAtEnd(ended);
        for (writer, id) in [(one, 1), (two, 2), (followed, 2)] {
            scope.spawn(move || {
                let mut writes = writer.connect();
                while !ended.load(SeqCst) {
                    // Certification rolls one of two back.
                    let _ = writes.query(&format!("UPDATE t.a SET n = n + 1 WHERE id = {id}"));
                }
            });
        }
        let (looks, older, socket) = (&looks, &older, &socket);
        for writer in [one, two, followed] {
            scope.spawn(move || {
                let (mut there, mut here) = (writer.connect(), reader(socket, "GLOBAL"));
                while !ended.load(SeqCst) {
                    let shown = there.query("SELECT n FROM t.a WHERE id = 1").unwrap().first_text().unwrap();
                    let shown: u64 = shown.parse().unwrap();
                    let seen = number(&mut here);
                    looks.fetch_add(1, SeqCst);
                    older.fetch_add(u64::from(seen < shown), SeqCst);
                }
            });
        }
        let enough = length(2000, 20_000);
        wait_for("looks", || (looks.load(SeqCst) >= enough).then_some(()), || looks.load(SeqCst).to_string());
    });
    println!("{older:?} of {looks:?} looks were older than what a member had shown");
    assert_eq!(older.into_inner(), 0);
    assert_equal(followed, &mut replica, &["t"]);
    replica.stop();
}

/// A member that cannot know is waited for. Once its membership was forced it does know, and what it lacks is errant.
#[test]
fn after_a_forced_membership_what_it_lacks_is_errant_at_once() {
    if !all_cases() {
        return;
    }
    let Some(group) = Group::or_skip("groups-forced", 3, &["--multi-primary"]) else { return };
    let [survivor, _, writer] = group.members() else { panic!() };
    writer.sql(TABLES);
    let (mut replica, _) = follow(&writer.url("repl"), "groups-forced");
    group.leave(2);
    writer.sql("SET GLOBAL read_only = OFF; UPDATE t.a SET n = 1 WHERE id = 1");
    replica.catch_up(writer);
    group.kill(1);
    let is_alone = || group.view_of(0).iter().any(|member| member.state == "UNREACHABLE").then_some(());
    wait_for("a minority", is_alone, String::new);
    let data = replica.data.clone();
    replica.stop();
    let replica = Replica::start(&survivor.url("repl"), &data, &["--on-stop=stay", "--disk-reserve=100M"]);
    replica.waits_for_log(&["may be on their way to the source", "1 of 2 members are unreachable; waiting for"]);
    assert!(!replica.log().contains("errant"), "{}", replica.log_end());
    survivor.sql(
        "SET @alone = @@GLOBAL.group_replication_local_address; SET GLOBAL group_replication_force_members = @alone",
    );
    let errant = format!("not on the source: {}:1", writer.sql("SELECT @@server_uuid").trim());
    replica.waits_for_log(&["errant GTIDs", &errant, "were written outside this group"]);
    println!("{}", replica.log_end());
    replica.kill();
}

/// As [`members_that_one_has_told_of_are_followed_once_it_is_gone`], by MySQL's statements.
#[test]
fn members_of_a_group_that_sql_named_are_followed() {
    let Some(group) = group() else { return };
    let group = group.as_ref().unwrap();
    let [named, second, third] = group.members() else { panic!() };
    let uuids = [named, second, third].map(uuid);
    second.sql(TABLES);
    let (mut replica, socket) = follow(&format!("{}/?ssl-mode=REQUIRED", named.url("repl")), "groups-managed");
    replica.catch_up(second);
    let mut operator = reader(&socket, "EVENTUAL");
    let name = named.sql("SELECT @@group_replication_group_name").trim().to_owned();
    for sql in [
        format!(
            "SELECT asynchronous_connection_failover_add_managed('', 'GroupReplication', '{name}', '127.0.0.1', {}, '', \
             80, 60)",
            named.port()
        ),
        "STOP REPLICA IO_THREAD".to_owned(),
        "STOP REPLICA SQL_THREAD".to_owned(),
        "CHANGE REPLICATION SOURCE TO SOURCE_USER='repl', SOURCE_PASSWORD='repl', SOURCE_CONNECTION_AUTO_FAILOVER=1"
            .to_owned(),
        "START REPLICA".to_owned(),
    ] {
        let answer = operator.query(&sql);
        assert_ne!(answer[0][0], 0xff, "{sql}: {}", answer[0].escape_ascii());
    }
    let is_known = |status: &serde_json::Value| {
        let candidates = status["source"]["candidates"].as_array().unwrap();
        candidates.len() == 3 && candidates.iter().all(|of| of["member_state"] == "ONLINE" && of["weight"] == 80)
    };
    replica.wait_until("three members that are PRIMARY", is_known);
    group.kill(0);
    replica.wait_until("another member", |status| is_followed(status, &uuids[1]) || is_followed(status, &uuids[2]));
    third.sql("UPDATE t.a SET n = 1 WHERE id = 1");
    replica.catch_up(third);
    assert_equal(third, &mut replica, &["t"]);
    group.mend();
    replica.stop();
}

#[test]
fn the_members_are_kept_whole_wherever_a_kill_or_a_failed_write_comes() {
    let Some(group) = group_at_night() else { return };
    let group = group.as_ref().unwrap();
    let [named, second, third] = group.members() else { panic!() };
    second.sql(TABLES);
    let source = format!("{}/?group&ssl-mode=REQUIRED", named.url("repl"));
    let options = ["--on-stop=stay", "--disk-reserve=100M"];
    let data = folder("groups-kept");
    let (file, in_the_way) = (data.join("source-members"), data.join("source-members.tmp"));
    group.leave(2);
    let mut replica = Replica::start(&source, &data, &options);
    let knows = |status: &serde_json::Value, count| status["source"]["candidates"].as_array().unwrap().len() == count;
    replica.wait_until("two members", |status| knows(status, 2));
    wait_for("the file", || file.exists().then_some(()), String::new);
    std::fs::create_dir(&in_the_way).unwrap();
    group.join(2);
    replica.waits_for_log(&["the members of the group are not kept for the next start"]);
    let id = uuid(third);
    assert!(!std::fs::read_to_string(&file).unwrap().contains(&id));
    std::fs::remove_dir(&in_the_way).unwrap();
    wait_for("the third one", || std::fs::read_to_string(&file).ok().filter(|text| text.contains(&id)), String::new);
    replica.kill();
    for entry in 1..=8 {
        let _ = std::fs::remove_file(&file);
        let mut replica = Replica::spawn(&source, &data, &options, |command| {
            command.env("SLIPSTREAM_FAILPOINT", format!("die_at=keep:{entry}"));
        });
        let known_or_killed = || {
            let known = replica.status().is_some_and(|status| status["running"] == true && knows(&status, 3));
            (known || replica.ended().is_some()).then_some(())
        };
        wait_for("three members, or the kill", known_or_killed, String::new);
        replica.kill();
    }
    let mut replica = Replica::start(&source, &data, &options);
    replica.wait_until("three members", |status| knows(status, 3));
    assert_equal(second, &mut replica, &["t"]);
    replica.stop();
}

/// It takes no further connection while it shuts down: nothing but its first answer says of which view it was.
#[test]
fn a_member_that_was_asked_only_once_is_left_for_the_view_of_another_one() {
    let Some(group) = group_at_night() else { return };
    let group = group.as_ref().unwrap();
    let [followed, next, _] = group.members() else { panic!() };
    next.sql(TABLES);
    let proxy = Proxy::start(followed.port());
    proxy.close_at_dump();
    let addresses = format!("127.0.0.1:{},127.0.0.1:{}", proxy.port(), next.port());
    let source = format!("mysql://repl@{addresses}/?get-server-public-key=1&ssl-mode=DISABLED");
    let (mut replica, _) = follow(&source, "groups-asked-once");
    let uuids = [followed, next].map(uuid);
    replica.wait_until("the member", |status| is_followed(status, &uuids[0]));
    replica.catch_up(next);
    group.stop(0);
    let status = replica.wait_until("the next member", |status| is_followed(status, &uuids[1]));
    let why = status["source"]["left"]["why"].as_str().unwrap();
    assert!(why.contains("it is not in the view of its group"), "{status}");
    group.mend();
    assert_equal(next, &mut replica, &["t"]);
    replica.stop();
}

/// Each member takes GTIDs out of its own block of a million.
#[test]
fn ddl_and_rows_of_two_members_are_replayed_out_of_two_blocks_of_gtids() {
    let Some(group) = group_at_night() else { return };
    let group = group.as_ref().unwrap();
    let members: Vec<&Server> = group.members().iter().collect();
    members[0].sql(TABLES);
    let (mut replica, _) = follow(&several(&[members[2], members[1], members[0]]), "groups-ddl");
    let uuids: Vec<String> = members.iter().map(|member| uuid(member)).collect();
    replica.wait_until("the third one", |status| is_followed(status, &uuids[2]));
    let round = |member: &Server, name: &str, round: u32| {
        // Two members that change one row at once: one of them fails.
        let own = if name == "x" { 1 } else { 2 };
        member.sql(&format!(
            "CREATE TABLE t.{name}{round} (id INT PRIMARY KEY, n INT); INSERT INTO t.{name}{round} VALUES (1, {round}); \
             ALTER TABLE t.{name}{round} ADD COLUMN m INT NOT NULL DEFAULT 7, ADD KEY (n); \
             INSERT INTO t.{name}{round} VALUES (2, 2, 2); UPDATE t.a SET n = n + 1 WHERE id = {own}; \
             ALTER TABLE t.{name}{round} RENAME COLUMN n TO o; TRUNCATE TABLE t.{name}{round}; \
             INSERT INTO t.{name}{round} VALUES (3, 3, {round}); DROP TABLE IF EXISTS t.{name}{}",
            round.wrapping_sub(3)
        ));
    };
    std::thread::scope(|scope| {
        for (member, name) in [(members[0], "x"), (members[1], "y")] {
            scope.spawn(move || (0..length(8_u32, 40)).for_each(|number| round(member, name, number)));
        }
    });
    replica.catch_up(members[0]);
    replica.catch_up(members[1]);
    let set = members[2].gtid_executed().to_string();
    assert!(set.contains(":1-") && set.contains(":1000"), "two blocks of a million: {set}");
    assert_equal(members[1], &mut replica, &["t"]);
    // Whoever is followed next has them, too: nothing is errant.
    group.kill(2);
    replica.wait_until("the second one", |status| is_followed(status, &uuids[1]));
    round(members[0], "x", 1000);
    round(members[1], "y", 1000);
    replica.catch_up(members[0]);
    assert_equal(members[1], &mut replica, &["t"]);
    group.mend();
    replica.stop();
}

/// A server of another group lacks transactions; status says so before the followed one is lost.
#[test]
fn a_server_of_another_group_is_told_of_and_passed_over() {
    if !all_cases() {
        return;
    }
    let alone = |name: &str| Group::or_skip(name, 1, &["--single-primary"]);
    let (Some(group), Some(other)) = (alone("groups-one"), alone("groups-other")) else { return };
    let (own, foreign) = (&group.members()[0], &other.members()[0]);
    own.sql(TABLES);
    foreign.sql("CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, n INT); INSERT INTO t.a VALUES (1, 99)");
    let (mut replica, _) = follow(&several(&[own, foreign]), "groups-two");
    let uuids = [own, foreign].map(uuid);
    replica.wait_until("its member", |status| is_followed(status, &uuids[0]));
    let why = |status: &serde_json::Value| status["source"]["candidates"][1]["why_not"].as_str().unwrap().to_owned();
    replica.wait_until("what is wrong", |status| why(status).contains("a member of another group"));
    replica.catch_up(own);
    group.kill(0);
    replica.wait_until("nobody", |status| why(status).contains("errant GTIDs"));
    group.mend();
    replica.wait_until("its member", |status| is_followed(status, &uuids[0]));
    own.sql("UPDATE t.a SET n = 5 WHERE id = 1");
    assert_equal(own, &mut replica, &["t"]);
    replica.stop();
}
