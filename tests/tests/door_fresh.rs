//! Reads through a replica's port are as fresh as was asked for, or end with the reason: `slipstream_read_consistency`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use testkit::raw_client::{CAPABILITIES, RawClient};
use whole_program_tests::{Replica, Server, folder, length, signal, slipstream};
use wire::handshake::capability;

/// A table with one row to read and one to load the source with.
const TABLES: &str = "CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, n INT); INSERT INTO t.a VALUES (1, 0); \
    CREATE TABLE t.load_ (id INT AUTO_INCREMENT PRIMARY KEY, v CHAR(200))";

/// A client of the replica that reads at this level.
pub(crate) fn reader(socket: &std::path::Path, level: &str) -> RawClient {
    let mut client = RawClient::over_socket(socket, "admin", CAPABILITIES);
    set(&mut client, &format!("slipstream_read_consistency = {level}"));
    client
}

pub(crate) fn set(client: &mut RawClient, what: &str) {
    let answer = client.query(format!("SET {what}"));
    assert_eq!(answer[0][0], 0, "SET {what}: {}", answer[0].escape_ascii());
}

/// The value that it reads, or the error.
pub(crate) fn read(client: &mut RawClient) -> Result<u64, String> {
    let answer = client.query("SELECT n FROM t.a WHERE id = 1");
    let last = answer.last().unwrap();
    if last.first() == Some(&0xff) {
        return Err(String::from_utf8_lossy(&last[1..]).into_owned());
    }
    let row = &answer[answer.len() - 2];
    Ok(std::str::from_utf8(&row[1..]).unwrap().parse().unwrap())
}

fn error(client: &mut RawClient, has: &str) {
    let error = read(client).unwrap_err();
    assert!(error.contains(has), "{error}");
}

/// Prints how long reads took.
fn times(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() * part / 1000).min(times.len() - 1)];
    println!("{what}: p50 {:?}, p99 {:?}, max {:?}", at(500), at(990), at(1000));
}

/// Ends the load also when the test fails: it would run for ever.
struct EndsLoad<'a>(&'a AtomicBool);

impl Drop for EndsLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn each_write_is_read_at_once() {
    let Some(server) = Server::or_skip("door-fresh", &["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0"]) else {
        return;
    };
    server.sql(TABLES);
    let (replica, socket) = Replica::with_socket(&server, &folder("door-fresh"), &["--on-stop=stay"]);
    let mut writer = server.connect();
    let mut by = ["EVENTUAL", "SESSION", "GLOBAL", "BOUNDED"].map(|level| reader(&socket, level));
    set(&mut by[3], "slipstream_read_staleness = 0");
    let (mut stale, mut took) = ([0; 4], [const { Vec::new() }; 4]);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut load = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
            while !ended.load(Relaxed) {
                load.query("INSERT INTO t.load_ (v) VALUES (REPEAT('x', 200))");
            }
        });
        let _ends = EndsLoad(&ended);
        for n in 1..=length(500, 10_000) {
            // Each level reads first as often as any other.
            let level = usize::try_from(n % 4).unwrap();
            writer.query(&format!("UPDATE t.a SET n = {n} WHERE id = 1")).unwrap();
            if level == 1 {
                let executed = writer.query("SELECT @@global.gtid_executed").unwrap().first_text().unwrap();
                set(&mut by[1], &format!("slipstream_read_gtids = '{executed}'"));
            }
            let begun = Instant::now();
            let seen = read(&mut by[level]).unwrap_or_else(|why| panic!("write {n}, level {level}: {why}"));
            took[level].push(begun.elapsed());
            assert!(seen <= n);
            stale[level] += u64::from(seen < n);
        }
    });
    for (level, took) in ["eventual", "session", "global", "bounded by 0"].iter().zip(took) {
        times(level, took);
    }
    println!("stale: {stale:?}");
    assert_eq!(stale[1..], [0, 0, 0]);
    assert!(stale[0] > 0, "a replica that is never behind shows nothing");
    replica.stop();
}

/// COM_QUERY with query attributes, all as text.
/// Rows of a group of commits are visible at the source before their GTIDs are in its gtid_executed: who saw one there
/// must not see an older one here.
#[test]
fn what_the_source_shows_already_is_read() {
    const WRITERS: usize = 64;
    let options = [
        "--max-connections=300",
        "--binlog-group-commit-sync-delay=2000",
        "--binlog-group-commit-sync-no-delay-count=64",
        "--sync-binlog=1",
    ];
    let Some(server) = Server::or_skip("door-group", &options) else { return };
    let rows: Vec<String> = (0..WRITERS).map(|id| format!("({id}, 0)")).collect();
    let rows = rows.join(", ");
    server.sql(&format!(
        "CREATE DATABASE t; CREATE TABLE t.w (id INT PRIMARY KEY, n INT); INSERT INTO t.w VALUES {rows}"
    ));
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-group"), &["--on-stop=stay"]);
    replica.catch_up(&server);
    let read = |client: &mut RawClient| -> Vec<u64> {
        let answer = client.query("SELECT n FROM t.w ORDER BY id");
        let rows: Vec<u64> = answer
            .iter()
            .filter_map(|packet| {
                let text = std::str::from_utf8(packet.get(1..)?).ok()?;
                (usize::from(packet[0]) == text.len()).then(|| text.parse().ok())?
            })
            .collect();
        assert_eq!(rows.len(), WRITERS, "{}", answer.last().unwrap().escape_ascii());
        rows
    };
    let ended = AtomicBool::new(false);
    let source = server.socket();
    let (mut looks, mut older) = (0, 0);
    std::thread::scope(|scope| {
        let (ended, socket_there) = (&ended, &source);
        for id in 0..WRITERS {
            scope.spawn(move || {
                let mut writer = RawClient::over_socket(socket_there, "root", CAPABILITIES);
                while !ended.load(Relaxed) {
                    writer.query(format!("UPDATE t.w SET n = n + 1 WHERE id = {id}"));
                }
            });
        }
        let _ends = EndsLoad(ended);
        let mut there = RawClient::over_socket(socket_there, "root", CAPABILITIES);
        let mut here = reader(&socket, "GLOBAL");
        for _ in 0..length(4000, 20_000) {
            let (shown, seen) = (read(&mut there), read(&mut here));
            looks += 1;
            older += u64::from(shown.iter().zip(&seen).any(|(shown, seen)| seen < shown));
        }
    });
    println!("{older} of {looks} looks were older than what the source had shown");
    assert_eq!(older, 0);
    replica.stop();
}

fn with_attributes(attributes: &[(&str, &str)], sql: &str) -> Vec<u8> {
    let count = u8::try_from(attributes.len()).unwrap();
    let mut payload = vec![3, count, 1];
    if count > 0 {
        payload.extend([0, 1]);
    }
    let text = |payload: &mut Vec<u8>, text: &str| {
        payload.push(u8::try_from(text.len()).unwrap());
        payload.extend(text.as_bytes());
    };
    for (name, _) in attributes {
        payload.extend([0xfd, 0]);
        text(&mut payload, name);
    }
    attributes.iter().for_each(|(_, value)| text(&mut payload, value));
    payload.extend(sql.as_bytes());
    payload
}

#[test]
fn query_attributes_are_of_their_statement() {
    let Some(server) = Server::or_skip("door-attributes", &[]) else { return };
    server.sql(TABLES);
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-attributes"), &["--on-stop=stay"]);
    let mut client = RawClient::over_socket(&socket, "admin", CAPABILITIES | capability::QUERY_ATTRIBUTES);
    let sql = "SELECT n FROM t.a WHERE id = 1";
    let mut read = |attributes: &[(&str, &str)]| -> Result<String, String> {
        let answer = client.command(&with_attributes(attributes, sql));
        let last = answer.last().unwrap();
        if last[0] == 0xff {
            return Err(String::from_utf8_lossy(&last[1..]).into_owned());
        }
        Ok(String::from_utf8_lossy(&answer[answer.len() - 2][1..]).into_owned())
    };
    let global = ("slipstream_read_consistency", "global");
    assert_eq!(read(&[("traceparent", "x"), global]).as_deref(), Ok("0"));
    slipstream(&["stop", "sql", "--data", replica.data()]).expect(0, &[]);
    server.sql("UPDATE t.a SET n = 1");
    // The session's own level is EVENTUAL, before and after.
    assert_eq!(read(&[]).as_deref(), Ok("0"));
    assert!(read(&[global]).unwrap_err().contains("replay is stopped"));
    assert_eq!(read(&[]).as_deref(), Ok("0"));
    slipstream(&["start", "sql", "--data", replica.data()]).expect(0, &[]);
    assert_eq!(read(&[global]).as_deref(), Ok("1"));
    let next = format!("{}:1-1000000", &server.gtid_executed().to_string()[..36]);
    let session = ("SLIPSTREAM_READ_CONSISTENCY", "SESSION");
    let begun = Instant::now();
    let late = read(&[session, ("slipstream_read_gtids", &next), ("slipstream_read_timeout", "200")]).unwrap_err();
    assert!(late.contains("read consistency SESSION") && late.contains("after 200 ms"), "{late}");
    assert!(begun.elapsed() >= Duration::from_millis(200));
    for (name, value, why) in [
        ("slipstream_read_consistency", "strict", "strict"),
        ("slipstream_read_gtids", "x", "slipstream_read_gtids"),
        ("slipstream_read_everything", "1", "slipstream_read_everything"),
    ] {
        let error = read(&[(name, value)]).unwrap_err();
        assert!(error.contains(why), "{name}: {error}");
    }
    assert_eq!(read(&[]).as_deref(), Ok("1"));
    // Of a prepared statement: behind its parameters, of which there are none here.
    let prepared = client.prepare(sql);
    let id = &prepared[0][1..5];
    let mut execute = |attributes: &[(&str, &str)]| {
        let sent = with_attributes(attributes, "");
        let head = [&[0x17], id, &[8, 1, 0, 0, 0], &sent[1..2], &sent[3..]].concat();
        client.command(&head)
    };
    let rows = execute(&[("other", "x")]);
    assert_eq!(rows[rows.len() - 2], [0, 0, 1, 0, 0, 0], "{rows:?}");
    let late = execute(&[session, ("slipstream_read_gtids", &next), ("slipstream_read_timeout", "200")]);
    assert!(String::from_utf8_lossy(&late[0]).contains("read consistency SESSION"), "{late:?}");
    assert_eq!(execute(&[("other", "x")]), rows);
    replica.catch_up(&server);
    replica.stop();
}

#[test]
fn what_cannot_be_had_is_said() {
    let Some(server) = Server::or_skip("door-not-fresh", &[]) else { return };
    server.sql(TABLES);
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-not-fresh"), &["--on-stop=stay"]);
    let mut eventual = reader(&socket, "EVENTUAL");
    let (mut session, mut global, mut bounded) =
        (reader(&socket, "SESSION"), reader(&socket, "GLOBAL"), reader(&socket, "BOUNDED"));
    assert_eq!(read(&mut session), Ok(0), "an empty set is always visible");
    // A transaction waits for its first read only.
    global.query("BEGIN");
    assert_eq!(read(&mut global), Ok(0));
    server.sql("UPDATE t.a SET n = 1");
    assert_eq!(read(&mut global), Ok(0));
    global.query("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    assert_eq!(read(&mut global), Ok(1));
    global.query("COMMIT");
    for (wrong, number) in [("slipstream_read_gtids = 'x'", 1231_u16), ("slipstream_read_consistency = 'x'", 1231)] {
        let answer = session.query(format!("SET {wrong}"));
        assert_eq!(answer[0][1..3], number.to_le_bytes(), "{}", answer[0].escape_ascii());
    }
    // What is not there in time.
    let executed = server.gtid_executed();
    let uuid = executed.to_string()[..36].to_owned();
    set(&mut session, &format!("slipstream_read_gtids = '{uuid}:1-1000000', slipstream_read_timeout = 300"));
    error(&mut session, "read consistency SESSION: 99");
    set(&mut session, "max_execution_time = 100");
    error(&mut session, "maximum statement execution time exceeded");
    set(&mut session, "max_execution_time = 0, slipstream_read_timeout = 60000");
    // Replay stops while it is waited for, and before.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| error(&mut session, "replay is stopped; slipstream start"));
        std::thread::sleep(Duration::from_millis(300));
        slipstream(&["stop", "sql", "--data", replica.data()]).expect(0, &[]);
        waits.join().unwrap();
    });
    error(&mut session, "replay is stopped");
    server.sql("UPDATE t.a SET n = 2");
    error(&mut global, "replay is stopped");
    assert_eq!(read(&mut eventual), Ok(1));
    slipstream(&["start", "sql", "--data", replica.data()]).expect(0, &[]);
    assert_eq!(read(&mut global), Ok(2));
    // A source that says nothing, as if its packets were lost.
    set(&mut bounded, "slipstream_read_staleness = 3600000, slipstream_read_timeout = 500");
    set(&mut global, "slipstream_read_timeout = 500");
    let pid = std::fs::read_to_string(server.sql("SELECT @@pid_file").trim()).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    signal(pid, Signal::STOP);
    let (at_global, at_bounded) = (read(&mut global), read(&mut bounded));
    set(&mut bounded, "slipstream_read_staleness = 1");
    let at_once = read(&mut bounded);
    signal(pid, Signal::CONT);
    let silent = "the source has not answered after 500 ms";
    assert!(at_global.as_ref().is_err_and(|error| error.contains(silent)), "{at_global:?}");
    assert!(at_once.as_ref().is_err_and(|error| error.contains(silent)), "{at_once:?}");
    assert_eq!(at_bounded, Ok(2), "the source answered less than an hour ago");
    // A source that is gone, and comes back.
    server.stop();
    set(&mut global, "slipstream_read_timeout = 20000");
    error(&mut global, "the source cannot be asked");
    server.restart(&[]);
    replica.wait_until("a connection", |status| status["source"]["state"] == "connected");
    server.sql("UPDATE t.a SET n = 3");
    assert_eq!(read(&mut global), Ok(3));
    // What it has purged, and what it has lost.
    let other = "aaaaaaaa-0000-0000-0000-000000000001:1-5";
    server.sql(&format!("SET GLOBAL gtid_purged = '+{other}'"));
    error(&mut global, &format!("the source has purged transactions that have not arrived here: {other}"));
    server.sql("RESET BINARY LOGS AND GTIDS");
    error(&mut global, &format!("the source lacks transactions that were visible here: {uuid}:1-"));
    assert_eq!(read(&mut eventual), Ok(3));
    drop(replica);
}

/// Where the machine went down, rows that were visible may not be in the relay log.
#[test]
fn a_power_cut_takes_back_nothing_that_was_shown() {
    let Some(server) = Server::or_skip("door-power", &[]) else { return };
    server.sql(TABLES);
    let data = folder("door-power");
    let options = ["--on-stop=stay", "--relay-sync=never", "--cut-interval=1h"];
    let (mut replica, socket) = Replica::with_socket(&server, &data, &options);
    for n in 1..200 {
        server.sql(&format!("UPDATE t.a SET n = {n}"));
    }
    replica.catch_up(&server);
    assert_eq!(read(&mut reader(&socket, "EVENTUAL")), Ok(199));
    replica.kill();
    let shown = format!("--socket={}", socket.display());
    // As another boot of the machine finds it.
    let log = data.join("relay-log/relay-bin.000001");
    let len = std::fs::metadata(&log).unwrap().len();
    std::fs::File::options().write(true).open(&log).unwrap().set_len(len / 2).unwrap();
    let running = data.join("running");
    let boot = std::fs::read_to_string(&running).unwrap();
    std::fs::write(&running, "another").unwrap();
    server.stop();
    let read_at_start = |options: &[&str]| {
        let mut replica = Replica::follow(&server, &data, &[&[shown.as_str()], options].concat());
        replica.wait_until("the log's end", |status| status["replay"]["state"] == "caught_up");
        (read(&mut reader(&socket, "EVENTUAL")), replica)
    };
    let (seen, replica) = read_at_start(&options);
    let recovering = |seen: Result<u64, String>| {
        let error = seen.unwrap_err();
        assert!(error.contains("recovering, an earlier run may have shown unsynced transactions"), "{error}");
    };
    recovering(seen);
    replica.kill();
    // Who is killed while rows are held back leaves that to the next one.
    assert_eq!(std::fs::read_to_string(&running).unwrap(), "another");
    let (seen, replica) = read_at_start(&options);
    recovering(seen);
    replica.kill();
    let (seen, replica) = read_at_start(&[&options[..], &["--serve=at-once"]].concat());
    assert!(seen.as_ref().is_ok_and(|seen| *seen < 199), "{seen:?}");
    replica.kill();
    std::fs::write(&running, "another").unwrap();
    let (seen, mut replica) = read_at_start(&options);
    recovering(seen);
    server.restart(&[]);
    let mut eventual = reader(&socket, "EVENTUAL");
    let answer = whole_program_tests::wait_for("an answer", || read(&mut eventual).ok(), String::new);
    assert_eq!(answer, 199);
    let noted = || (std::fs::read_to_string(&running).unwrap() == boot).then_some(());
    whole_program_tests::wait_for("the note of this boot", noted, String::new);
    replica.catch_up(&server);
    replica.stop();
    assert!(!running.exists(), "a clean end leaves nothing to ask for");
}

/// What ProxySQL is told is visible to a reader that asks then.
#[test]
fn proxysql_is_told_what_is_visible() {
    use std::io::BufRead as _;
    let Some(server) = Server::or_skip("door-gtid-port", &[]) else { return };
    server.sql(TABLES);
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-gtid-port"), &["--gtid-port=0"]);
    replica.catch_up(&server);
    let log = replica.log();
    let address = log.split_once("visible GTIDs to ProxySQL on ").unwrap().1.lines().next().unwrap();
    let connect = || {
        let stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        std::io::BufReader::new(stream)
    };
    let line = |from: &mut std::io::BufReader<std::net::TcpStream>| {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let mut proxy = connect();
    let executed = server.gtid_executed().to_string();
    let (uuid, numbers) = executed.split_once(':').unwrap();
    let last: u64 = numbers.rsplit('-').next().unwrap().parse().unwrap();
    assert_eq!(line(&mut proxy), format!("ST={uuid}:1-{last}"));
    let mut eventual = reader(&socket, "EVENTUAL");
    for n in 1..=200 {
        server.sql(&format!("UPDATE t.a SET n = {n}"));
        let number = last + n;
        let told = if n == 1 { format!("I1={}:{number}", uuid.replace('-', "")) } else { format!("I2={number}") };
        assert_eq!(line(&mut proxy), told);
        assert_eq!(read(&mut eventual), Ok(n), "told of it before it was visible");
    }
    assert_eq!(line(&mut connect()), format!("ST={uuid}:1-{}", last + 200));
    // A session says exactly what its transaction reads.
    let pinned = |client: &mut RawClient| {
        let answer = client.query("SHOW STATUS LIKE 'Slipstream_snapshot_gtids'");
        String::from_utf8_lossy(&answer[3]).into_owned()
    };
    eventual.query("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    server.sql("UPDATE t.a SET n = 0");
    replica.catch_up(&server);
    let wanted = format!("{uuid}:1-{}", last + 200);
    assert!(pinned(&mut eventual).ends_with(&wanted), "{:?} {wanted}", pinned(&mut eventual));
    assert_eq!(read(&mut eventual), Ok(200));
    eventual.query("COMMIT");
    assert!(pinned(&mut eventual).ends_with("gtids\0"), "{:?}", pinned(&mut eventual));
    assert_eq!(line(&mut proxy), format!("I2={}", last + 201));
    replica.stop();
    assert_eq!(line(&mut proxy), "", "the connection ends with the replica");
}
