//! SHOW PROCESSLIST and KILL between sessions.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use client::{ClientError, ConnectOptions, Connection, SslMode};
use support::{CAPABILITIES, RawClient, TestDoor, open};

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
