//! Hostile clients, most of them at a replica with little memory: it stays within its promise, and honest ones are
//! answered.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use accounts::{AccountName, Accounts, NewAccount, PasswordPlugin, Requirement, StoredPassword};
use client::{ConnectOptions, Connection, SslMode};
use testkit::raw_client::{CAPABILITIES, RawClient};
use whole_program_tests::{Replica, Server, folder};
use wire::response::{ErrPacket, PrepareOk};

/// Sessions of each kind of hostile client.
const SESSIONS: usize = 40;
/// What clients may add to `--memory`, in MiB (docs/operating/start.md, "Memory"); a fifth of what 500 connections may.
const BESIDES_MIB: u64 = 64;

fn add_account(data: &Path, name: &str, max_connections: Option<u32>) {
    let accounts = Accounts::open(&data.join("accounts")).unwrap();
    let new = NewAccount {
        name: AccountName::new(name, "%").unwrap(),
        rights: "read,monitor".parse().unwrap(),
        schemas: None,
        requirement: Requirement::None,
        reads: Default::default(),
        max_connections,
        password: StoredPassword::new(PasswordPlugin::CachingSha2, name).unwrap(),
    };
    accounts.add(new).unwrap();
}

/// A line of `/proc/PID/status` in MiB.
fn resident_mib(replica: &Replica, line: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", replica.pid())).unwrap();
    let found = text.lines().find_map(|one| one.strip_prefix(line)?.strip_prefix(':')).unwrap();
    found.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() / 1024
}

fn is_refused(answer: &[Vec<u8>]) -> bool {
    answer.last().and_then(|last| ErrPacket::parse(last).ok()).is_some_and(|error| error.code == 1041)
}

/// Repeats a command until it is refused.
fn fill(session: &mut RawClient, mut command: impl FnMut(&mut RawClient, usize) -> Vec<Vec<u8>>) {
    let refused = (0..10_000).any(|number| is_refused(&command(session, number)));
    assert!(refused, "10,000 times without an end");
}

#[test]
fn hostile_clients_do_not_take_more_than_memory_allows() {
    let server = Server::start_unsynced("client-memory", &[]);
    server.sql(
        "CREATE DATABASE shop; CREATE TABLE shop.t (a INT PRIMARY KEY, b TEXT); INSERT INTO shop.t VALUES (1, 'x');
         CREATE TABLE shop.long_ (a INT PRIMARY KEY, b LONGBLOB);
         INSERT INTO shop.long_ VALUES (1, REPEAT('abcd', 2097152)), (2, REPEAT('bcda', 2097152))",
    );
    let data = folder("client-memory");
    Replica::follow(&server, &data, &[]).stop();
    add_account(&data, "honest", None);
    add_account(&data, "single", Some(1));
    let (mut replica, socket) = Replica::with_socket(&server, &data, &["--memory=256M"]);
    let status = replica.catch_up(&server);
    let address = status["clients"]["address"].as_str().unwrap().to_owned();
    let connect = |user: &str| {
        Connection::connect(&ConnectOptions {
            host: "127.0.0.1".to_owned(),
            port: address.rsplit_once(':').unwrap().1.parse().unwrap(),
            user: user.to_owned(),
            password: Some(user.to_owned()),
            ssl_mode: SslMode::Required,
            ..ConnectOptions::default()
        })
    };
    let mut honest = connect("honest").unwrap();
    let session = || RawClient::over_socket(&socket, "admin", CAPABILITIES);
    let mut check = |what: &str| {
        let row = honest.query_value("SELECT b FROM shop.t WHERE a = 1").unwrap();
        assert_eq!(row.as_deref(), Some("x"), "beside {what}");
        let peak = resident_mib(&replica, "VmHWM");
        println!("{what}: resident {} MiB, {peak} at most", resident_mib(&replica, "VmRSS"));
        assert!(peak <= 256 + BESIDES_MIB, "{what}: {peak} MiB resident");
    };

    let mut unfinished: Vec<RawClient> = (0..SESSIONS).map(|_| session()).collect();
    for one in &mut unfinished {
        one.send(&[0xff, 0xff, 0xff, 0, 3]);
        // A part of 16 MiB; the server ends the connection where it is too much.
        for _ in 0..15 {
            if one.try_send(&vec![b' '; 1 << 20]).is_err() {
                break;
            }
        }
    }
    check("unfinished packets");
    drop(unfinished);

    let value = "x".repeat(16_000);
    let mut kept: Vec<RawClient> = (0..SESSIONS).map(|_| session()).collect();
    for (number, one) in kept.iter_mut().enumerate() {
        match number % 2 {
            0 => fill(one, |one, number| one.query(format!("set @a{number} = '{value}'"))),
            _ => fill(one, |one, number| one.prepare(&format!("select {number}, '{value}'"))),
        }
    }
    check("user variables and prepared statements");
    drop(kept);

    let columns = vec!["column_name"; 4_000].join(", ");
    let sort = format!("select {columns} from information_schema.columns order by column_name");
    let mut sorting: Vec<RawClient> = (0..SESSIONS).map(|_| session()).collect();
    sorting.iter_mut().for_each(|one| one.write(&[b"\x03", sort.as_bytes()].concat(), 0));
    assert!(sorting.iter_mut().all(|one| is_refused(&one.answer(3))));
    check("sorts of information_schema");

    let mut reading: Vec<RawClient> = (0..SESSIONS).map(|_| session()).collect();
    let long = b"\x03select a from shop.long_ where b > 'ab' and b <> 'c'";
    reading.iter_mut().for_each(|one| one.write(long, 0));
    for one in &mut reading {
        let rows = one.answer(3).iter().filter(|packet| packet.starts_with(b"\x01")).count();
        // The count of columns, and two rows.
        assert_eq!(rows, 3);
    }
    check("rows of 8 MiB");

    let answers = vec![format!("select '{value}'"); 60].join(";");
    sorting.iter_mut().for_each(|one| one.write(&[b"\x03", answers.as_bytes()].concat(), 0));
    check("answers that are not read");
    drop(sorting);

    let mut long: Vec<RawClient> = (0..SESSIONS).map(|_| session()).collect();
    for one in &mut long {
        let prepared = one.prepare("select ?");
        let id = PrepareOk::parse(&prepared[0]).unwrap().statement_id;
        let data = [&b"\x18"[..], &id.to_le_bytes(), &[0, 0], &[b'x'; 1 << 20]].concat();
        (0..10).for_each(|_| one.write(&data, 0));
    }
    assert!(long.iter_mut().all(|one| one.query("select 1").len() == 4));
    check("long data");
    drop(long);

    let first = connect("single").unwrap();
    let refused = connect("single").unwrap_err().to_string();
    assert!(refused.contains("1226") && refused.contains("'max_user_connections'"), "{refused}");
    drop(first);
    whole_program_tests::wait_for("its place", || connect("single").ok(), String::new);
    replica.stop();
}

/// Between two answers to one session, few statements of others end that read rows of 1 MB.
#[test]
fn rows_of_a_megabyte_do_not_hold_other_sessions_up() {
    const READERS: usize = 20;
    const LOOKS: usize = 30;
    let server = Server::start_unsynced("wide-rows", &[]);
    server.sql(
        "CREATE DATABASE shop; CREATE TABLE shop.t (a INT PRIMARY KEY); INSERT INTO shop.t VALUES (1);
         CREATE TABLE shop.wide (a INT PRIMARY KEY, b LONGTEXT);
         INSERT INTO shop.wide WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 3)
             SELECT a, REPEAT('x', 1000000) FROM n",
    );
    let data = folder("wide-rows");
    let (mut replica, socket) = Replica::with_socket(&server, &data, &[]);
    replica.catch_up(&server);
    let session = || RawClient::over_socket(&socket, "admin", CAPABILITIES);
    let (ended, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let during = std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let mut reader = session();
                while !over.load(Ordering::Relaxed) {
                    // Longer than a turn on any machine: every character is compared.
                    assert_eq!(reader.query("SELECT a FROM shop.wide WHERE b LIKE '%y%'").len(), 3);
                    ended.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let all_began = || (ended.load(Ordering::Relaxed) > READERS).then_some(());
        whole_program_tests::wait_for("readers at work", all_began, String::new);
        let mut other = session();
        let before = ended.load(Ordering::Relaxed);
        for _ in 0..LOOKS {
            assert_eq!(other.query("SELECT a FROM shop.t WHERE a = 1").len(), 1 + 3);
        }
        let during = ended.load(Ordering::Relaxed) - before;
        over.store(true, Ordering::Relaxed);
        during
    });
    // One that waits for a turn of each of them sees READERS of their statements end between two answers.
    println!("{during} statements ended meanwhile");
    assert!(during < LOOKS * READERS / 2, "{during} statements ended during {LOOKS} of another session");
    replica.stop();
}
