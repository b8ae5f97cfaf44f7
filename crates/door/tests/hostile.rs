//! Clients that misbehave, each with a good client beside that still gets its answers.

use crate::support;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use accounts::{AccountName, PasswordPlugin};
use client::{ConnectOptions, Connection, SslMode};
use door::{Facts, Note, ReplicaStatus, SchemaState};
use support::{CAPABILITIES, RawClient, TestDoor, account, open, open_with, unread};
use wire::response::ErrPacket;

fn options(door: &TestDoor, user: &str, ssl_mode: SslMode) -> ConnectOptions {
    ConnectOptions {
        host: "127.0.0.1".to_owned(),
        port: door.address.port(),
        user: user.to_owned(),
        password: Some(user.to_owned()),
        ssl_mode,
        ..ConnectOptions::default()
    }
}

fn assert_answers(door: &TestDoor) {
    let mut good = Connection::connect(&options(door, "reader", SslMode::Required)).unwrap();
    assert_eq!(good.query_value("SELECT 1").unwrap().as_deref(), Some("1"));
}

/// All that the server sends until it closes.
fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    all
}

/// The error in the last packet of what the server sent.
fn last_error(sent: &[u8]) -> ErrPacket {
    let mut rest = sent;
    loop {
        let len = usize::from(rest[0]) + (usize::from(rest[1]) << 8);
        let (packet, tail) = rest[4..].split_at(len);
        if tail.is_empty() {
            return ErrPacket::parse(packet).unwrap();
        }
        rest = tail;
    }
}

#[track_caller]
fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < until, "waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Facts that break where they are asked about a schema of this name or for rows, and keep what was noted.
#[derive(Default)]
struct Breaks {
    noted: Mutex<Vec<Note>>,
    /// Rows end with this error, not with a panic.
    error: Mutex<Option<sql::SqlError>>,
}

impl Facts for Breaks {
    fn schema(&self, name: &str) -> SchemaState {
        assert_ne!(name, "broken", "planted");
        SchemaState::There(Some(255))
    }

    fn replica_status(&self) -> ReplicaStatus {
        ReplicaStatus::default()
    }

    fn pin(&self) -> Result<Arc<store::Snapshot>, sql::SqlError> {
        Err(self.error.lock().unwrap().take().expect("planted too"))
    }

    fn note(&self, note: Note) {
        self.noted.lock().unwrap().push(note);
    }
}

/// A panic in one connection's work ends that connection, with a note.
#[test]
fn a_panic_ends_one_connection() {
    let facts = Arc::new(Breaks::default());
    let door = open_with(|_| (), Arc::clone(&facts) as Arc<dyn Facts>);
    let mut beside = Connection::connect(&options(&door, "reader", SslMode::Required)).unwrap();
    for (broken, message) in [("USE broken", "planted"), ("SELECT a FROM shop.t", "planted too")] {
        let mut client = Connection::connect(&options(&door, "reader", SslMode::Disabled)).unwrap();
        let id = client.query_value("SELECT CONNECTION_ID()").unwrap().unwrap();
        let error = client.query(broken).unwrap_err();
        assert_eq!(error.server_code(), None, "{error}");
        assert_eq!(beside.query_value("SELECT 1").unwrap().as_deref(), Some("1"));
        wait_for("its end", || door.door.status().sessions == 1);
        let Some(Note::Defect { connection, what }) = facts.noted.lock().unwrap().pop() else { panic!("no note") };
        assert_eq!(connection.to_string(), id);
        assert!(what.contains(message), "{what}");
    }
    assert_answers(&door);
}

/// What cannot be ends the connection that met it, with a note of its place; a state is an answer like others.
#[test]
fn a_defect_ends_one_connection() {
    let facts = Arc::new(Breaks::default());
    let door = open_with(|_| (), Arc::clone(&facts) as Arc<dyn Facts>);
    let mut client = Connection::connect(&options(&door, "reader", SslMode::Required)).unwrap();
    let id = client.query_value("SELECT CONNECTION_ID()").unwrap().unwrap();
    for (error, ends) in
        [(sql::SqlError::new(1105, "HY000", "a state"), false), (sql::SqlError::defect("planted"), true)]
    {
        *facts.error.lock().unwrap() = Some(error.clone());
        let answer = client.query("SELECT a FROM shop.t").unwrap_err();
        assert_eq!(answer.server_code(), Some(1105), "{answer}");
        assert!(answer.to_string().contains(&error.message), "{answer}");
        assert_eq!(client.query("SELECT 1").is_err(), ends);
    }
    wait_for("its end", || door.door.status().sessions == 0);
    let [Note::Defect { connection, what }] = &facts.noted.lock().unwrap()[..] else { panic!("other notes") };
    assert_eq!(connection.to_string(), id);
    assert!(what.contains("planted") && what.contains("hostile.rs:"), "{what}");
    assert_answers(&door);
}

#[test]
fn a_thousand_half_handshakes_end_the_oldest() {
    let door = open(|_| ());
    let mut half: Vec<TcpStream> = (0..1_100).map(|_| unread(door.address)).collect();
    wait_for("all connections", || door.door.status().accepted >= 1_100);
    assert!(door.door.status().unauthenticated <= 1_000);
    assert_answers(&door);
    // The first was ended, the last is greeted.
    let greeting = until_closed(&mut half[0]);
    assert_eq!(greeting.get(4), Some(&10));
    let mut byte = [0; 5];
    half.last_mut().unwrap().read_exact(&mut byte).unwrap();
    assert_eq!(byte[4], 10);
    drop(half);
    wait_for("their end", || door.door.status().unauthenticated == 0);
}

#[test]
fn connections_that_close_at_once_leave_nothing() {
    let door = open(|_| ());
    for _ in 0..3_000 {
        drop(unread(door.address));
    }
    assert_answers(&door);
    wait_for("their end", || door.door.status().unauthenticated == 0);
}

#[test]
fn packets_larger_than_allowed_are_refused_by_their_header() {
    let door = open(|config| config.max_allowed_packet = 1 << 20);
    let mut early = unread(door.address);
    early.write_all(&[0xff, 0xff, 0xff, 1, 0]).unwrap();
    assert_eq!(last_error(&until_closed(&mut early)).code, 1153);
    let mut late = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    late.send(&[0xff, 0xff, 0xff, 0, 3]);
    assert_eq!(ErrPacket::parse(&late.read()).unwrap().code, 1153);
    assert!(late.is_closed());
    assert_answers(&door);
}

#[test]
fn garbage_and_packets_out_of_order_end_the_connection() {
    let door = open(|_| ());
    let mut random = base::Random::new(7);
    for _ in 0..200 {
        let len = random.below(300usize);
        let bytes: Vec<u8> = (0..len).map(|_| random.below(u8::MAX)).collect();
        let mut stream = unread(door.address);
        let _ = stream.write_all(&bytes);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let greeting = until_closed(&mut stream);
        assert!(greeting.is_empty() || greeting[4] == 10);
    }
    let mut skipping = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    skipping.write(b"\x0e", 3);
    assert_eq!(ErrPacket::parse(&skipping.read()).unwrap().code, 1156);
    assert!(skipping.is_closed());
    let mut malformed = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let answer = malformed.command(b"\x17\x01");
    assert_eq!(ErrPacket::parse(&answer[0]).unwrap().code, 1835);
    assert_eq!(malformed.query("select 1").len(), 4, "the session goes on");
    assert_answers(&door);
}

#[test]
fn a_client_that_never_reads_is_not_read_from_and_ends() {
    let door = open(|_| ());
    let mut deaf = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    deaf.query("set net_write_timeout=1");
    // 40 MB of answers to 4 MB of statements: the server must stop reading long before.
    let statement = format!("select '{}'", "x".repeat(4_000));
    let sql = vec![statement.as_str(); 10_000].join(";");
    deaf.write(&[b"\x03", sql.as_bytes()].concat(), 0);
    assert_answers(&door);
    wait_for("the end of the session", || door.door.status().sessions == 0);
    assert_answers(&door);
}

#[test]
fn slow_logins_and_idle_sessions_end() {
    let door = open(|config| config.connect_timeout = Duration::from_secs(1));
    let mut silent = unread(door.address);
    assert_eq!(until_closed(&mut silent)[4], 10, "a greeting and nothing else");
    let mut idle = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    idle.query("set wait_timeout=1");
    let error = ErrPacket::parse(&idle.read()).unwrap();
    assert_eq!((error.code, error.sqlstate.as_str()), (4031, "HY000"));
    assert!(idle.is_closed());
}

#[test]
fn too_many_are_refused_but_one_administrator_gets_in() {
    let door = open(|config| config.max_connections = 1);
    let first = Connection::connect(&options(&door, "reader", SslMode::Required)).unwrap();
    let refused = Connection::connect(&options(&door, "reader", SslMode::Required)).unwrap_err().to_string();
    assert!(refused.contains("1040"), "{refused}");
    let boss = Connection::connect(&options(&door, "boss", SslMode::Required)).unwrap();
    assert!(Connection::connect(&options(&door, "boss", SslMode::Required)).is_err());
    drop((first, boss));
    wait_for("their end", || door.door.status().sessions == 0);
    assert_answers(&door);
}

#[test]
fn passwords_need_tls_the_first_time() {
    let door = open(|_| ());
    let refused = Connection::connect(&options(&door, "boss", SslMode::Disabled)).unwrap_err().to_string();
    assert!(refused.contains("1045") && refused.contains("TLS"), "{refused}");
    assert_answers(&door);
    let mut known = Connection::connect(&options(&door, "reader", SslMode::Disabled)).unwrap();
    assert_eq!(known.query_value("SELECT CURRENT_USER()").unwrap().as_deref(), Some("reader@%"));
    known.reset().unwrap();
    known.ping().unwrap();
}

#[test]
fn a_session_ends_when_its_account_does() {
    let door = open(|_| ());
    door.accounts.add(account("leaver", "read", PasswordPlugin::CachingSha2)).unwrap();
    let mut leaver = Connection::connect(&options(&door, "leaver", SslMode::Required)).unwrap();
    let mut stays = Connection::connect(&options(&door, "reader", SslMode::Required)).unwrap();
    door.accounts.remove(&AccountName::new("leaver", "%").unwrap()).unwrap();
    wait_for("its end", || door.door.status().sessions == 1);
    assert!(leaver.query("SELECT 1").is_err());
    assert_eq!(stays.query_value("SELECT 1").unwrap().as_deref(), Some("1"));
}

#[test]
fn eighty_megabytes_go_both_ways() {
    let door = open(|config| config.max_allowed_packet = 128 << 20);
    let mut client = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let text = "é".repeat(40 << 20);
    let answer = client.query(format!("select '{text}' as long_one"));
    assert_eq!(answer.len(), 4);
    assert!(answer[2].ends_with(text.as_bytes()) && answer[2].len() == text.len() + 9);
    assert_answers(&door);
}

#[test]
fn a_stop_ends_idle_sessions_with_a_word() {
    let door = open(|_| ());
    let mut idle = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    idle.query("select 1");
    let (socket, stopping) = (door.socket.clone(), Instant::now());
    door.door.stop(Duration::from_secs(30));
    assert!(stopping.elapsed() < Duration::from_secs(30), "nothing ran");
    assert_eq!(ErrPacket::parse(&idle.read()).unwrap().code, 1053);
    assert!(!socket.exists());
}
