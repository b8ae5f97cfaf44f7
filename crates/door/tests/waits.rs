//! Functions of GTID sets and statements that wait: their answers are those of a real 9.7.

use crate::support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::GtidSet;
use door::{Facts, Gtids, Note, Position, Registration, SchemaState, Waker};
use sql::SqlError;
use support::{CAPABILITIES, RawClient, TestDoor, differences, open, open_with, queries};
use testkit::Server;
use wire::handshake::capability;
use wire::response::ErrPacket;

const U: &str = "aaaaaaaa-0000-0000-0000-000000000001";
const V: &str = "bbbbbbbb-0000-0000-0000-000000000002";

/// Nothing was executed at either server.
const STATEMENTS: &[&str] = &[
    "select wait_for_executed_gtid_set('')",
    "select wait_for_executed_gtid_set(null)",
    "select wait_for_executed_gtid_set(null, null)",
    "select wait_for_executed_gtid_set('', null)",
    "select wait_for_executed_gtid_set('', -1)",
    "select wait_for_executed_gtid_set('junk', null)",
    "select wait_for_executed_gtid_set('junk')",
    "select wait_for_executed_gtid_set(1)",
    "select wait_for_executed_gtid_set('U:0', 1)",
    "select wait_for_executed_gtid_set('U:1', 0.05), 2 as b",
    "select wait_for_executed_gtid_set('U:1', '0.01'), wait_for_executed_gtid_set('U:1', 1e-3)",
    "select wait_for_executed_gtid_set('U:1', 0.00001)",
    "select wait_for_executed_gtid_set('U:5-3', 0.01), wait_for_executed_gtid_set('U', 0.01)",
    "select wait_for_executed_gtid_set('U:1-', 0.01), wait_for_executed_gtid_set('U:+1', 0.01)",
    "select wait_for_executed_gtid_set('{U}:1', 0.01)",
    "select wait_for_executed_gtid_set(' U : 1 - 3 ,, ', 0.01)",
    "select wait_for_executed_gtid_set('U:tag:1', 0.01), wait_for_executed_gtid_set('U:tag', 0.01)",
    "select wait_for_executed_gtid_set(@@global.gtid_executed, 0)",
    "select wait_for_executed_gtid_set()",
    "select wait_for_executed_gtid_set('', '', '')",
    "select wait_for_executed_gtid_set('U:1') limit 0",
    "select wait_for_executed_gtid_set('junk') limit 0",
    "select sleep(5) limit 0",
    "select wait_for_executed_gtid_set(_latin1'', 0.01)",
    "select gtid_subset(null, ''), gtid_subset('', null), gtid_subset('', ''), gtid_subset('junk', null)",
    "select gtid_subset('U:1', 'U:1-3'), gtid_subset('U:1-3', 'U:1'), gtid_subset('U:TAG:1', 'U:tag:1')",
    "select gtid_subset('{U}:1', 'U:1'), gtid_subset(@@global.gtid_executed, 'U:1'), gtid_subset(',', '')",
    "select gtid_subset('', _latin1'')",
    "select gtid_subset('')",
    "select gtid_subtract(null, ''), gtid_subtract('', ''), gtid_subtract('U:1-9', null)",
    "select gtid_subtract('U:1-9', null)",
    "select gtid_subtract('U:1-5', 'U:3')",
    "select gtid_subtract('U:1-9', concat('', '')), gtid_subtract(concat('U:1', ''), '')",
    "select gtid_subtract('U:1-5:tag:2,U:7', 'U:3')",
    "select gtid_subtract('V:1,U:1:5:3-4:tag:2:1,U:9', 'V:7777') as x",
    "select gtid_subtract(@@global.gtid_executed, 'U:1')",
    "select gtid_subtract('U:1-9', @@global.gtid_executed)",
    "select gtid_subtract('U:1-9', concat('U', ':3'))",
    "set names latin1",
    "select gtid_subtract('U:1-9', 'U:2')",
    "select gtid_subtract(@@global.gtid_executed, 'U:2')",
    "set names utf8mb4 collate utf8mb4_bin",
    "select gtid_subtract('U:1-9', 'U:2')",
    "set names utf8mb4",
    "select @@gtid_executed, @@global.gtid_executed, @@gtid_purged, @@global.gtid_purged",
    "select @@gtid_owned, @@session.gtid_owned, @@global.gtid_owned, @@gtid_next, @@gtid_mode",
    "select @@enforce_gtid_consistency, @@gtid_executed_compression_period",
    "select @@session.gtid_executed",
    "select @@session.gtid_purged",
    "set session_track_gtids=3",
    "select sleep(0), sleep(0.01), sleep('0.01')",
    "select sleep(null)",
    "select sleep(-1)",
    "select sleep()",
    "select 1, sleep(0.01) as s; select 2; select sleep(0.01); select 3",
    "select concat(sleep(0), 'x'), sleep(sleep(0.01))",
    "set @s = sleep(0.01), @t = wait_for_executed_gtid_set('U:1', 0.01)",
    "select @s, @t",
    "select source_pos_wait('binlog.000001', 4)",
    "select source_pos_wait('binlog.000001', 4, 0.1), source_pos_wait(null, 4), source_pos_wait('', 4, 0.1)",
    "select source_pos_wait('b', 4, null), source_pos_wait('b', null), source_pos_wait('b', 4, 1, 'channel')",
    "select source_pos_wait('b', 4, -1)",
    "select source_pos_wait('b')",
    "select source_pos_wait(1, 2, 3, 4, 5)",
    "select master_pos_wait('binlog.000001', 4, 1)",
    "show warnings",
    "set max_execution_time=200",
    "select sleep(5)",
    "select sleep(5), 2, sleep(5)",
    "select wait_for_executed_gtid_set('U:1', 0.05) as a, sleep(0.01) b, sleep(5) c",
    "select wait_for_executed_gtid_set('U:1', 5)",
    "select 1; select wait_for_executed_gtid_set('U:1'); select 2",
    "do sleep(0.3)",
    "set max_execution_time=0",
    "do sleep(0.01)",
    "select row_count()",
    "do 1, wait_for_executed_gtid_set('U:1', 0.01), 2 as b",
    "do wait_for_executed_gtid_set('junk', 0.01)",
    "do",
];

/// Statements whose error shows the place of what is malformed at MySQL, and the set here.
const MALFORMED: &[&str] = &[
    "select gtid_subset('junk', 'U:1')",
    "select gtid_subset('U:1', 'junk')",
    "select gtid_subset(1, 2)",
    "select gtid_subset('U:1-', '')",
    "select gtid_subset('U:+1', '')",
    "select gtid_subset('U:', '')",
    "select gtid_subtract('junk', '')",
    "select gtid_subtract('', 'U:0')",
    "select gtid_subtract('U:1', 1)",
];

fn spelled(statements: &[&str]) -> Vec<String> {
    statements.iter().map(|sql| sql.replace('U', U).replace('V', V)).collect()
}

fn ours_and_theirs(name: &str) -> Option<(TestDoor, Server)> {
    let server = Server::or_skip(name, &[])?;
    Some((open(|_| ()), server))
}

#[test]
fn gtids_and_waits_are_mysqls() {
    let Some((door, server)) = ours_and_theirs("waits") else { return };
    let statements = spelled(STATEMENTS);
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    for capabilities in [CAPABILITIES, CAPABILITIES & !capability::DEPRECATE_EOF & !capability::SESSION_TRACK] {
        let mut ours = RawClient::over_socket(&door.socket, "admin", capabilities);
        let mut theirs = RawClient::over_socket(&server.socket(), "root", capabilities);
        let found = differences(&mut ours, &mut theirs, &queries(&statements));
        assert!(found.is_empty(), "capabilities {capabilities:#x}\n{found}");
    }
    let mut ours = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let mut theirs = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    for sql in spelled(MALFORMED) {
        let (mut our, mut their) = (ours.query(&sql), theirs.query(&sql));
        without_specification(&mut our);
        without_specification(&mut their);
        assert_eq!(our, their, "{sql}");
    }
}

/// Cuts an error off at the specification that it shows.
fn without_specification(packets: &mut [Vec<u8>]) {
    const LEN: usize = 9 + "Malformed GTID set specification '".len();
    packets.iter_mut().filter(|packet| packet.first() == Some(&0xff)).for_each(|packet| packet.truncate(LEN));
}

#[test]
fn prepared_statements_wait() {
    let Some((door, server)) = ours_and_theirs("prepared-waits") else { return };
    let mut commands = Vec::new();
    for (number, sql) in [
        "select sleep(0.01), 1",
        "select wait_for_executed_gtid_set('U:1', 0.01), @@gtid_executed",
        "select wait_for_executed_gtid_set('junk', 0.01)",
        "select gtid_subtract('U:1-5', 'U:3'), gtid_subset('junk', '')",
        "do sleep(0.01)",
        "select source_pos_wait('b', 4, 0.01)",
    ]
    .into_iter()
    .enumerate()
    {
        let id = u32::try_from(number + 1).unwrap().to_le_bytes();
        commands.push([b"\x16", sql.replace('U', U).as_bytes()].concat());
        for _ in 0..2 {
            commands.push([&b"\x17"[..], &id, &[0, 1, 0, 0, 0]].concat());
        }
    }
    let mut ours = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let mut theirs = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    for command in commands {
        let text = String::from_utf8_lossy(&command).into_owned();
        let (mut our, mut their) = (ours.command(&command), theirs.command(&command));
        without_specification(&mut our);
        without_specification(&mut their);
        assert_eq!(our, their, "{text:?}");
    }
}

#[test]
fn many_wait_at_once_and_for_their_time_only() {
    let door = open(|_| ());
    let began = Instant::now();
    let mut clients: Vec<RawClient> =
        (0..50).map(|_| RawClient::over_socket(&door.socket, "admin", CAPABILITIES)).collect();
    for client in &mut clients {
        client.write(b"\x03select sleep(0.3)", 0);
    }
    // Others are served meanwhile.
    let mut other = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    assert_eq!(other.query("select 1")[2], b"\x011");
    for client in &mut clients {
        assert_eq!((client.read(), client.read().is_empty(), client.read()).2, b"\x010");
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_wait_ends_with_its_connection_and_with_the_server() {
    let door = open(|_| ());
    let wait = format!("\x03select wait_for_executed_gtid_set('{U}:1')");
    let mut gone = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    gone.write(wait.as_bytes(), 0);
    let mut stays = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    stays.write(b"\x03select 7; select sleep(1000)", 0);
    for _ in 0..4 {
        stays.read();
    }
    drop(gone);
    let until = Instant::now() + Duration::from_secs(20);
    while door.door.status().sessions > 1 {
        assert!(Instant::now() < until, "{:?}", door.door.status());
        std::thread::sleep(Duration::from_millis(5));
    }
    let stop = std::thread::spawn(move || door.door.stop(Duration::from_secs(20)));
    let error = ErrPacket::parse(&stays.read()).unwrap();
    assert_eq!((error.code, error.message.as_str()), (1053, "Server shutdown in progress"));
    stop.join().unwrap();
}

/// A replica of which the test says what is visible, and up to which offset of the source's only file.
#[derive(Default)]
struct Followed {
    visible: Mutex<GtidSet>,
    offset: Mutex<u64>,
    wakers: Mutex<Vec<Waker>>,
    unreadable: Mutex<Option<SqlError>>,
}

impl Followed {
    /// Waits until somebody waits, then shows more.
    fn shows_who_waits(&self, set: &str, offset: u64) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.wakers.lock().unwrap().is_empty() {
            assert!(Instant::now() < until, "nobody waits");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.shows(set, offset);
    }

    fn shows(&self, set: &str, offset: u64) {
        *self.visible.lock().unwrap() = set.replace('U', U).replace('V', V).parse().unwrap();
        *self.offset.lock().unwrap() = offset;
        self.wakers.lock().unwrap().drain(..).for_each(Waker::wake);
    }
}

impl Facts for Followed {
    fn schema(&self, _: &str) -> SchemaState {
        SchemaState::Missing
    }

    fn gtids(&self) -> &dyn Gtids {
        self
    }

    fn pin(&self) -> Result<Arc<store::Snapshot>, door::SqlError> {
        Err(door::SqlError::new(1105, "HY000", "this server keeps no rows"))
    }

    fn replica_status(&self) -> door::ReplicaStatus {
        door::ReplicaStatus::default()
    }

    fn note(&self, _: Note) {}
}

impl Gtids for Followed {
    fn readable(&self) -> Result<(), SqlError> {
        self.unreadable.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn visible(&self) -> Result<GtidSet, SqlError> {
        self.readable().map(|()| self.visible.lock().unwrap().clone())
    }

    fn when_visible(&self, set: &GtidSet, waker: Waker) -> Option<Registration> {
        if set.is_subset_of(&self.visible.lock().unwrap()) {
            return None;
        }
        self.wakers.lock().unwrap().push(waker);
        Some(Registration::new(|| ()))
    }

    fn when_position(&self, file: &str, offset: u64, waker: Waker) -> Position {
        match file {
            "binlog.000001" if offset <= *self.offset.lock().unwrap() => Position::Reached,
            "binlog.000001" => {
                self.wakers.lock().unwrap().push(waker);
                Position::Awaited(Registration::new(|| ()))
            }
            _ => Position::NotRunning,
        }
    }
}

fn follows(set: &str) -> (Arc<Followed>, TestDoor) {
    let followed = Arc::new(Followed::default());
    followed.shows(set, 100);
    let door = open_with(|_| (), Arc::clone(&followed) as Arc<dyn Facts>);
    (followed, door)
}

/// What MySQL tells of GTIDs, and when.
const TRACKED: &[&str] = &[
    "select @@gtid_executed, @@gtid_purged, gtid_subtract(@@global.gtid_executed, 'V:1')",
    "select wait_for_executed_gtid_set('U:2-4,V:1'), wait_for_executed_gtid_set('U:1-6', 0.01)",
    "select wait_for_executed_gtid_set('U:tag:7'), gtid_subset('U:1-3', @@global.gtid_executed)",
    "set session_track_gtids=2",
    "select @@session_track_gtids, @@global.session_track_gtids",
    "select 1; select 2; do 3",
    "set names utf8mb4",
    "set session_track_system_variables='autocommit', autocommit=0, autocommit=1",
    "commit",
    "rollback",
    "use information_schema",
    "show warnings",
    "select 1 limit 0",
    "select a",
    "select sleep(-1)",
    "alter instance reload tls",
    "set transaction read only",
    "set session_track_gtids='own_gtid'",
    "select @@session_track_gtids",
    "set session_track_gtids=2",
    "select 1",
    "set session_track_gtids=default",
    "select 1",
];

#[test]
fn tracked_gtids_are_mysqls() {
    let Some(server) = Server::or_skip("tracked-gtids", &[]) else { return };
    let set = "U:1-5:tag:7,V:1";
    let (_, door) = follows(set);
    let statements = spelled(TRACKED);
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    let mut theirs = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    let purged = spelled(&[&format!("set global gtid_purged='{set}'")]);
    assert_eq!(theirs.query(&purged[0])[0][0], 0);
    let mut ours = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let found = differences(&mut ours, &mut theirs, &queries(&statements));
    assert!(found.is_empty(), "{found}");
    // In a transaction nothing is told but at its COMMIT.
    let tells = |client: &mut RawClient, sql: &str| {
        let last = client.query(sql).pop().unwrap();
        last.windows(U.len()).any(|part| part == U.as_bytes())
    };
    for (sql, told) in [
        ("set session_track_gtids=all_gtids", true),
        ("begin", false),
        ("select 1", false),
        ("savepoint x", false),
        ("commit", true),
        ("begin", false),
        ("rollback and chain", false),
        ("commit and chain", true),
        ("select 1", false),
        ("rollback", false),
        ("do 1", true),
    ] {
        assert_eq!((tells(&mut ours, sql), tells(&mut theirs, sql)), (told, told), "{sql}");
    }
}

#[test]
fn a_wait_ends_by_what_it_waits_for() {
    let (followed, door) = follows("U:1-5");
    let mut client = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let wait = |client: &mut RawClient, sql: &str| client.write(format!("\x03{}", spelled(&[sql])[0]).as_bytes(), 0);
    let answer = |client: &mut RawClient, columns: usize| {
        let mut packets: Vec<Vec<u8>> = (0..columns + 3).map(|_| client.read()).collect();
        packets.remove(columns + 1)
    };
    wait(&mut client, "select @@gtid_executed, wait_for_executed_gtid_set('U:7,V:1', 60), @@gtid_executed");
    followed.shows_who_waits("U:1-7", 100);
    followed.shows_who_waits("U:1-7,V:1", 100);
    // What stands before the wait was read before it.
    let row = String::from_utf8_lossy(&answer(&mut client, 3)).replace(U, "U").replace(V, "V");
    let values: Vec<&str> = row.split(|c: char| c.is_control() && c != '\n').filter(|part| !part.is_empty()).collect();
    assert_eq!(values, ["(U:1-5", "0PU:1-7,\nV:1"], "{row:?}");
    wait(&mut client, "select source_pos_wait('binlog.000001', 200, 60), source_pos_wait('binlog.000001', 50)");
    followed.shows_who_waits("U:1-8,V:1", 150);
    followed.shows_who_waits("U:1-9,V:1", 200);
    // The second position was reached before.
    assert_eq!(answer(&mut client, 2), b"\x012\x010");
    wait(&mut client, "select source_pos_wait('binlog.000001', 900, 0.05), source_pos_wait('other.000001', 4)");
    assert_eq!(answer(&mut client, 2), b"\x02-1\xfb");
}

#[test]
fn what_cannot_be_read_yet_is_said() {
    let (followed, door) = follows("U:1-5");
    let mut client = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let recovering = SqlError::new(1105, "HY000", "recovering, 3 transactions missing");
    *followed.unreadable.lock().unwrap() = Some(recovering.clone());
    for sql in ["select @@gtid_executed", "select wait_for_executed_gtid_set('')", "set @a = @@global.gtid_purged"] {
        let error = ErrPacket::parse(client.query(sql).last().unwrap()).unwrap();
        assert_eq!((error.code, error.message), (recovering.code, recovering.message.clone()), "{sql}");
    }
    assert_eq!(client.query("select gtid_subset('', ''), @@server_uuid")[0], b"\x02");
    client.query("set session_track_gtids=all_gtids");
    *followed.unreadable.lock().unwrap() = None;
    assert_eq!(client.query("select @@gtid_executed")[0], b"\x01");
}
