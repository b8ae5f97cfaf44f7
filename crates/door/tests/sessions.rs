//! SHOW PROCESSLIST and KILL between sessions.

use crate::support;

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use client::{ClientError, ConnectOptions, Connection, SslMode};
use support::{CAPABILITIES, RawClient, TestDoor, open};
use wire::row::Param;

fn connect(door: &TestDoor, user: &str) -> Connection {
    let (user, password) = (user.to_owned(), Some(user.to_owned()));
    let port = door.address.port();
    let ssl_mode = SslMode::Required;
    Connection::connect(&ConnectOptions { port, user, password, ssl_mode, ..ConnectOptions::default() }).unwrap()
}

fn id(connection: &mut Connection) -> String {
    connection.query_value("SELECT CONNECTION_ID()").unwrap().unwrap()
}

/// Runs a statement on a thread of its own.
fn run(mut connection: Connection, sql: &'static str) -> Receiver<(Connection, Result<Option<String>, ClientError>)> {
    let (done, result) = channel();
    std::thread::spawn(move || {
        let value = connection.query_value(sql);
        let _ = done.send((connection, value));
    });
    result
}

/// Rows of SHOW PROCESSLIST, columns by tabs.
fn processlist(connection: &mut Connection, sql: &str) -> Vec<String> {
    let answer = connection.query(sql).unwrap();
    let (rows, columns) = (0..answer.rows.len(), 0..answer.columns.len());
    let value = |row, column| answer.text(row, column).unwrap_or_else(|| "NULL".to_owned());
    rows.map(|row| columns.clone().map(|column| value(row, column)).collect::<Vec<_>>().join("\t")).collect()
}

/// Waits until a session with this in its line is there.
fn seen(connection: &mut Connection, what: &str) -> String {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let lines = processlist(connection, "SHOW FULL PROCESSLIST");
        if let Some(line) = lines.iter().find(|line| line.contains(what)) {
            return line.clone();
        }
        assert!(Instant::now() < until, "no {what} in {lines:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn sessions_are_listed_as_far_as_rights_go() {
    let door = open(|_| ());
    let (mut boss, mut reader) = (connect(&door, "boss"), connect(&door, "reader"));
    reader.query("USE shop").unwrap();
    let own = id(&mut boss);
    let sleeper = connect(&door, "reader");
    let sleeps = run(sleeper, "SELECT SLEEP(3600) -- until it is killed");
    let line = seen(&mut boss, "User sleep");
    assert!(line.contains("\treader\t127.0.0.1\tNULL\tQuery\t"), "{line}");
    assert!(line.ends_with("\tSELECT SLEEP(3600) -- until it is killed"), "{line}");
    let lines = processlist(&mut boss, "show processlist");
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines.iter().any(|l| l.starts_with(&format!("{own}\tboss\t")) && l.ends_with("\tinit\tshow processlist")));
    assert!(lines.iter().any(|line| line.contains("\treader\t127.0.0.1\tshop\tSleep\t") && line.ends_with("\t\tNULL")));
    // Without monitor: one's own only. Its long statement is cut without FULL.
    let mut plain = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let all = plain.query("SHOW PROCESSLIST");
    assert_eq!(all.len(), 1 + 8 + 4 + 1, "the process's user sees all: {all:?}");
    let long = format!("SHOW PROCESSLIST /* {} */", "x".repeat(200));
    let cut = processlist(&mut reader, &long);
    assert!(cut.iter().any(|line| line.ends_with(&long[..100])), "{cut:#?}");
    // The text of another account's statement is an administrator's to read.
    let others = processlist(&mut reader, "SHOW FULL PROCESSLIST");
    assert!(others.iter().any(|line| line.contains("\tboss\t") && line.ends_with("\tNULL")), "{others:#?}");

    // KILL QUERY ends the statement, and the session goes on.
    let victim = line.split('\t').next().unwrap().to_owned();
    reader.query(&format!("KILL QUERY {victim}")).unwrap();
    let (mut sleeper, result) = sleeps.recv().unwrap();
    let interrupted = result.err().map(|error| error.to_string());
    // SLEEP() itself returns 1 when it is killed, as MySQL's does; the statement may end with the error instead.
    assert!(interrupted.is_none_or(|text| text.contains("1317")));
    assert_eq!(sleeper.query_value("SELECT 7").unwrap().as_deref(), Some("7"));
    // KILL ends the session, also an idle one.
    boss.query(&format!("KILL {victim}")).unwrap();
    assert!(sleeper.query("SELECT 1").is_err());
    let until = Instant::now() + Duration::from_secs(60);
    while processlist(&mut boss, "SHOW PROCESSLIST").iter().any(|line| line.starts_with(&format!("{victim}\t"))) {
        assert!(Instant::now() < until);
    }
}

/// As MySQL 9.7.4 answers an account without these privileges.
#[test]
fn some_variables_need_an_administrator() {
    let door = open(|_| ());
    let (mut boss, mut reader) = (connect(&door, "boss"), connect(&door, "reader"));
    let denied = "SYSTEM_VARIABLES_ADMIN or SESSION_VARIABLES_ADMIN privilege(s) for this operation";
    for name in ["sql_log_off", "low_priority_updates"] {
        for (value, code, part) in [("1", "1227", denied), ("DEFAULT", "1227", denied), ("7", "1231", name)] {
            let text = reader.query(&format!("SET {name} = {value}")).err().unwrap().to_string();
            assert!(text.contains(code) && text.contains(part), "{text}");
        }
        let text = reader.query(&format!("SET sql_notes = 0, {name} = 1")).err().unwrap().to_string();
        assert!(text.contains(denied), "{text}");
        boss.query(&format!("SET {name} = 1")).unwrap();
        assert_eq!(boss.query_value(&format!("SELECT @@{name}")).unwrap().as_deref(), Some("1"));
    }
    assert_eq!(reader.query_value("SELECT @@sql_notes").unwrap().as_deref(), Some("1"), "all assignments or none");
}

#[test]
fn only_owners_and_administrators_kill() {
    let door = open(|_| ());
    let (mut boss, mut reader) = (connect(&door, "boss"), connect(&door, "reader"));
    let (of_boss, of_reader) = (id(&mut boss), id(&mut reader));
    let error = |connection: &mut Connection, sql: &str| connection.query(sql).err().unwrap().to_string();
    for (sql, code) in [
        (format!("KILL {of_boss}"), "1095"),
        (format!("KILL QUERY {of_boss}"), "1095"),
        ("KILL 999999".to_owned(), "1094"),
        ("KILL 'x'".to_owned(), "1094"),
        ("KILL NULL".to_owned(), "1094"),
        ("KILL -1".to_owned(), "1094"),
        ("KILL".to_owned(), "1064"),
        ("KILL HARD 4".to_owned(), "1064"),
    ] {
        let text = error(&mut reader, &sql);
        assert!(text.contains(code), "{sql}: {text}");
    }
    // Nothing runs there: nothing happens.
    boss.query(&format!("KILL QUERY {of_reader}")).unwrap();
    assert_eq!(reader.query_value("SELECT 1").unwrap().as_deref(), Some("1"));
    // One's own session.
    let text = error(&mut reader, "KILL QUERY CONNECTION_ID()");
    assert!(text.contains("1317"), "{text}");
    let text = error(&mut reader, "KILL CONNECTION_ID()");
    assert!(text.contains("1317"), "{text}");
    assert!(reader.query("SELECT 1").is_err());
    assert_eq!(boss.query_value("SELECT 1").unwrap().as_deref(), Some("1"));
}

/// CPU time of each loop of a name by its thread, in nanoseconds. Doors of other tests run in this process too.
fn cpu_of(name: &str) -> HashMap<OsString, u64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let is_one = |task: &std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|own| own.trim_end() == name)
    };
    let cpu = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let ns = text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default();
        (task.file_name(), ns)
    };
    tasks.filter(is_one).map(cpu).collect()
}

/// Fails if no loop of the name that began after `others` were seen has worked since `before`.
fn assert_works(name: &str, others: &HashMap<OsString, u64>, before: &HashMap<OsString, u64>) {
    let now = cpu_of(name);
    let works = |(thread, cpu): (&OsString, &u64)| !others.contains_key(thread) && before.get(thread) < Some(cpu);
    assert!(now.iter().any(works), "{name} did nothing: {others:?} {before:?} {now:?}");
}

/// A session whose text is long moves to a loop of its own and back: meanwhile too it is listed, and can be killed.
#[test]
fn sessions_with_long_texts_are_never_lost() {
    const CLIENTS: usize = 6;
    let names = ["door-long", "door-login"];
    let others = names.map(cpu_of);
    let door = open(|_| ());
    let before = names.map(cpu_of);
    let (mut boss, mut reader) = (connect(&door, "boss"), connect(&door, "reader"));
    let clients: Vec<_> = (0..CLIENTS).map(|_| RawClient::over_socket(&door.socket, "admin", CAPABILITIES)).collect();
    let works = |(number, mut client): (usize, RawClient)| {
        let letter = char::from(b'a' + u8::try_from(number).unwrap()).to_string();
        let prepared = client.prepare(&format!("SELECT '{}', ?", letter.repeat(20_000)));
        let statement = u32::from_le_bytes(*prepared[0][1..].first_chunk().unwrap());
        for round in 0..400 {
            // Longer ones are read in several parts.
            let long = letter.repeat([8_000, 9_000, 100_000][round % 3]);
            let answer = client.query(format!("SELECT '{long}'"));
            let row = &answer[answer.len() - 2];
            assert!(row.ends_with(long.as_bytes()), "{} bytes", row.len());
            let answer = client.query(format!("SELECT {round}"));
            assert!(answer[answer.len() - 2].ends_with(round.to_string().as_bytes()), "{answer:?}");
            let answer = client.execute(statement, 0, &[Param::Int(7)]);
            assert!(answer[answer.len() - 2].windows(20_000).any(|part| part == letter.repeat(20_000).as_bytes()));
        }
        // It stays connected until all are done.
        client
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients.into_iter().enumerate().map(|given| scope.spawn(move || works(given))).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            let lines = processlist(&mut boss, "SHOW PROCESSLIST");
            assert_eq!(lines.len(), CLIENTS + 2, "{lines:#?}");
        }
        threads.into_iter().for_each(|thread| drop(thread.join().unwrap()));
    });
    for (name, (others, before)) in names.into_iter().zip(others.iter().zip(&before)) {
        assert_works(name, others, before);
    }

    // A long statement that waits, several in one text, and what comes in pieces.
    let sleeps = format!("SELECT SLEEP(3600) /* {} */", "x".repeat(20_000));
    let mut sleeper = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    sleeper.write(&[b"\x03", sleeps.as_bytes()].concat(), 0);
    let line = seen(&mut boss, "User sleep");
    boss.query(&format!("KILL QUERY {}", line.split('\t').next().unwrap())).unwrap();
    sleeper.answer(3);
    let many = "SELECT 5;".repeat(20_000);
    assert_eq!(sleeper.query(&many).iter().filter(|packet| *packet == b"\x015").count(), 20_000);
    // A client at work is killed, which is never said to be unknown.
    let killed = id(&mut reader);
    let worker = std::thread::spawn(move || {
        let long = format!("SELECT '{}'", "x".repeat(20_000));
        while reader.query(&long).is_ok() {}
    });
    for _ in 0..100 {
        boss.query(&format!("KILL QUERY {killed}")).unwrap();
    }
    boss.query(&format!("KILL {killed}")).unwrap();
    worker.join().unwrap();
    // Who stops the server does not wait for those that are idle there.
    sleeper.write(&[b"\x03", sleeps.as_bytes()].concat(), 0);
    seen(&mut boss, "User sleep");
    door.door.stop(Duration::from_secs(60));
    assert_eq!(sleeper.answer(3)[0][..3], [0xff, 0x1d, 0x04], "1053");
    assert!(sleeper.is_closed());
}
