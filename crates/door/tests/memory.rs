//! What clients hold is counted, refused above the limit with 1041, and given back.

use crate::support;

use std::time::{Duration, Instant};

use accounts::PasswordPlugin;
use client::{ConnectOptions, Connection, SslMode};
use support::{CAPABILITIES, RawClient, TestDoor, account, open};
use wire::response::{ErrPacket, PrepareOk};

/// Clients' memory in these tests: one session may hold a third of it.
const LIMIT: u64 = 6 << 20;

fn small() -> TestDoor {
    open(|config| config.clients_memory = LIMIT)
}

fn client(door: &TestDoor) -> RawClient {
    RawClient::over_socket(&door.socket, "admin", CAPABILITIES)
}

#[track_caller]
fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < until, "waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn code(answer: &[Vec<u8>]) -> Option<u16> {
    ErrPacket::parse(answer.last()?).ok().map(|error| error.code)
}

#[track_caller]
fn assert_refused(answer: &[Vec<u8>]) {
    let error = ErrPacket::parse(answer.last().unwrap()).unwrap();
    assert_eq!((error.code, error.sqlstate.as_str()), (1041, "HY000"), "{}", error.message);
    assert!(error.message.starts_with("Out of memory: ") && error.message.contains("--memory"), "{}", error.message);
}

/// The session goes on, and so do others.
#[track_caller]
fn assert_lives(door: &TestDoor, session: &mut RawClient) {
    assert_eq!(session.query("select 1").len(), 4);
    assert_eq!(client(door).query("select 2").len(), 4);
}

/// Repeats a command until it is refused; returns how often it was not.
fn until_refused(session: &mut RawClient, mut command: impl FnMut(&mut RawClient, usize) -> Vec<Vec<u8>>) -> usize {
    for done in 0..100_000 {
        let answer = command(session, done);
        if code(&answer).is_some() {
            assert_refused(&answer);
            return done;
        }
    }
    panic!("never refused");
}

#[test]
fn a_packet_that_is_not_whole() {
    let door = small();
    let mut session = client(&door);
    session.send(&[0xff, 0xff, 0xff, 0, 3]);
    session.send(&vec![b' '; 1 << 20]);
    wait_for("its bytes", || door.door.status().clients_memory >= 1 << 20);
    assert_eq!(client(&door).query("select 1").len(), 4);
    session.send(&vec![b' '; 2 << 20]);
    wait_for("that it is passed over", || door.door.status().clients_memory == 0);
    // The rest of the frame of 16 MiB, and one that ends the packet.
    session.send(&vec![b' '; 0xff_ffff - (3 << 20) - 1]);
    session.send(&[5, 0, 0, 1, 1, 2, 3, 4, 5]);
    assert_refused(&[session.read_any()]);
    assert_lives(&door, &mut session);
}

#[test]
fn packets_of_many_who_are_not_logged_in() {
    use std::io::Write as _;
    let door = small();
    let mut half: Vec<_> = (0..200).map(|_| support::unread(door.address)).collect();
    for stream in &mut half {
        // A login of 60,000 bytes, but for its end.
        let _ = stream.write_all(&[&[0x60, 0xea, 0, 1][..], &[7; 50_000]].concat());
    }
    wait_for("their greetings", || door.door.status().accepted >= 200);
    // They leave most of it to those who are logged in.
    let mut session = client(&door);
    let text = "x".repeat(100_000);
    assert_eq!(session.query(format!("select '{text}'")).len(), 4);
    assert!(door.door.status().clients_memory < LIMIT / 4);
    drop(half);
    drop(session);
    wait_for("what they held", || door.door.status().clients_memory == 0);
}

#[test]
fn the_tree_of_a_statement() {
    let door = small();
    let mut session = client(&door);
    let list = |count: usize| format!("select 1{}", ",1".repeat(count));
    assert!(session.query(list(1_000)).len() > 1_000);
    assert_refused(&session.query(list(20_000)));
    assert_lives(&door, &mut session);
    wait_for("what it held", || door.door.status().clients_memory == 0);
}

#[test]
fn prepared_statements() {
    let door = small();
    let mut session = client(&door);
    let mut ids = Vec::new();
    let done = until_refused(&mut session, |session, number| {
        let answer = session.prepare(&format!("select {number}, '{}'", "x".repeat(10_000)));
        if code(&answer).is_none() {
            ids.push(PrepareOk::parse(&answer[0]).unwrap().statement_id);
        }
        answer
    });
    assert!((50..110).contains(&done), "{done} texts of 10,000 bytes and their trees in 2 MiB");
    assert_lives(&door, &mut session);
    let held = door.door.status().clients_memory;
    assert!(held <= LIMIT / 2, "{held}");
    ids.iter().for_each(|id| session.close(*id));
    assert_lives(&door, &mut session);
    wait_for("what they held", || door.door.status().clients_memory == 0);
}

#[test]
fn long_data() {
    let door = small();
    let mut session = client(&door);
    let prepared = session.prepare("select ?");
    let id = PrepareOk::parse(&prepared[0]).unwrap().statement_id;
    let data = [&b"\x18"[..], &id.to_le_bytes(), &[0, 0], &[b'x'; 500_000]].concat();
    for _ in 0..10 {
        session.write(&data, 0);
    }
    wait_for("its bytes", || door.door.status().clients_memory > 1 << 20);
    let execute = [&b"\x17"[..], &id.to_le_bytes(), &[0, 1, 0, 0, 0], &[0, 1, 0xfc, 0]].concat();
    assert_refused(&session.command(&execute));
    assert_lives(&door, &mut session);
    wait_for("what they held", || door.door.status().clients_memory == 0);
}

#[test]
fn user_variables() {
    let door = small();
    let mut session = client(&door);
    let value = "x".repeat(16_000);
    let done = until_refused(&mut session, |session, number| session.query(format!("set @a{number} = '{value}'")));
    // They are there twice while one is set.
    assert!((40..125).contains(&done), "{done} values of 16,000 bytes");
    assert_lives(&door, &mut session);
    assert!(door.door.status().clients_memory >= 500_000);
    // COM_RESET_CONNECTION
    session.command(b"\x1f");
    wait_for("what they held", || door.door.status().clients_memory == 0);
    assert_eq!(session.query(format!("set @b = '{value}'")).len(), 1);
}

#[test]
fn texts_that_are_computed() {
    let door = small();
    let mut session = client(&door);
    session.query(format!("set @a = '{}'", "x".repeat(16_000)));
    let many = |count: usize| format!("select concat(@a{})", ",@a".repeat(count));
    assert_eq!(session.query(many(10)).len(), 4);
    assert_refused(&session.query(many(100)));
    assert_lives(&door, &mut session);
}

#[test]
fn rows_of_tables_that_are_kept_nowhere() {
    let door = small();
    let mut session = client(&door);
    let times = |count: usize| {
        let columns = vec!["variable_name"; count].join(", ");
        format!("select {columns} from performance_schema.session_variables order by variable_name")
    };
    assert!(session.query(times(10)).len() > 600);
    assert_refused(&session.query(times(1_000)));
    assert_lives(&door, &mut session);
    wait_for("what it held", || door.door.status().clients_memory == 0);
}

#[test]
fn cursors() {
    let door = small();
    let mut session = client(&door);
    let sql = "select variable_name, variable_value from performance_schema.session_variables";
    let done = until_refused(&mut session, |session, _| {
        let prepared = session.prepare(sql);
        if code(&prepared).is_some() {
            return prepared;
        }
        let id = PrepareOk::parse(&prepared[0]).unwrap().statement_id;
        session.execute(id, 1, &[])
    });
    assert!((5..60).contains(&done), "{done} cursors over 650 rows");
    assert_lives(&door, &mut session);
}

#[test]
fn answers_that_are_not_read() {
    let door = small();
    let statement = format!("select '{}'", "x".repeat(4_000));
    let sql = vec![statement.as_str(); 100].join(";");
    let mut deaf: Vec<RawClient> = (0..40).map(|_| client(&door)).collect();
    for session in &mut deaf {
        session.write(&[b"\x03", sql.as_bytes()].concat(), 0);
    }
    wait_for("answers that wait", || door.door.status().clients_memory > 1 << 20);
    assert!(door.door.status().clients_memory <= LIMIT / 2 + (1 << 20));
    assert_eq!(client(&door).query("select 1").len(), 4);
    drop(deaf);
    wait_for("what they held", || door.door.status().clients_memory == 0);
}

#[test]
fn other_accounts_get_their_part() {
    let door = small();
    door.accounts.add(account("honest", "read,monitor", PasswordPlugin::CachingSha2)).unwrap();
    let value = "x".repeat(16_000);
    let mut hostile: Vec<RawClient> = (0..8).map(|_| client(&door)).collect();
    for session in &mut hostile {
        until_refused(session, |session, number| session.query(format!("set @a{number} = '{value}'")));
    }
    let held = door.door.status().clients_memory;
    assert!(held > LIMIT / 3 && held <= LIMIT / 2, "{held}");
    let mut honest = Connection::connect(&ConnectOptions {
        host: "127.0.0.1".to_owned(),
        port: door.address.port(),
        user: "honest".to_owned(),
        password: Some("honest".to_owned()),
        ssl_mode: SslMode::Required,
        ..ConnectOptions::default()
    })
    .unwrap();
    let text = "y".repeat(100_000);
    assert_eq!(honest.query_value(&format!("select '{text}'")).unwrap(), Some(text));
    // A short statement of the same account is answered too.
    assert_eq!(client(&door).query("select 1, 2, 3, @a, @@version").len(), 8);
}
