//! A source that lies: what its dump never has at a real source is fetched again or stops the replica, with a place and
//! an exit code; nothing is lost, and no lie ends the process in another way.

use std::time::{Duration, Instant};

use binlog::event_type::{FORMAT_DESCRIPTION, GTID, QUERY, TABLE_MAP, WRITE_ROWS, XID};
use whole_program_tests::{
    HostileSource, Packet, Random, Replica, Server, assert_equal, folder, length, slipstream, wait_for,
};

const CHECKSUM_LEN: usize = 4;
const HEADER_LEN: usize = 19;

/// With the checksum of what it holds now.
fn sealed(mut event: Vec<u8>) -> Vec<u8> {
    let end = event.len() - CHECKSUM_LEN;
    let checksum = crc32fast::hash(&event[..end]);
    event[end..].copy_from_slice(&checksum.to_le_bytes());
    event
}

fn with_length(event: &[u8], len: u32) -> Vec<u8> {
    let mut event = event.to_vec();
    event[9..13].copy_from_slice(&len.to_le_bytes());
    sealed(event)
}

fn rotate(file: &[u8]) -> Vec<u8> {
    let mut event = vec![0; HEADER_LEN];
    event[4] = binlog::event_type::ROTATE;
    event[17..19].copy_from_slice(&binlog::flags::ARTIFICIAL.to_le_bytes());
    event.extend(4u64.to_le_bytes());
    event.extend(file);
    event.extend([0; CHECKSUM_LEN]);
    let len = u32::try_from(event.len()).unwrap();
    with_length(&event, len)
}

fn packets(events: &[Vec<u8>]) -> Vec<Packet> {
    events.iter().map(|event| Packet::event(event)).collect()
}

/// The last event of a type.
fn last_of(events: &[Vec<u8>], event_type: u8) -> usize {
    events.iter().rposition(|event| event[4] == event_type).unwrap()
}

/// Another length than an event's own.
type Wrong = (&'static str, fn(u32) -> u32);
type OfPackets = (&'static str, fn(&mut Vec<Packet>));
type Lie = Box<dyn Fn(Vec<Vec<u8>>) -> Vec<Packet> + Send + Sync>;

/// Lies that no checksum tells, each about one transaction with rows.
fn lies() -> Vec<(String, Lie)> {
    let mut lies: Vec<(String, Lie)> = Vec::new();
    for kind in [FORMAT_DESCRIPTION, GTID, QUERY, TABLE_MAP, WRITE_ROWS, XID] {
        let len = |event: &[u8]| u32::try_from(event.len()).unwrap();
        let wrong: [Wrong; 6] = [
            ("no length", |_| 0),
            ("a header's length", |_| 19),
            ("a byte less", |len| len - 1),
            ("a byte more", |len| len + 1),
            ("1 MiB", |_| 1 << 20),
            ("4 GiB", |_| u32::MAX),
        ];
        for (name, wrong) in wrong {
            let lie = move |mut events: Vec<Vec<u8>>| {
                let at = last_of(&events, kind);
                events[at] = with_length(&events[at], wrong(len(&events[at])));
                packets(&events)
            };
            lies.push((format!("event type {kind} says {name}"), Box::new(lie)));
        }
        for rest in [0, 3, 18] {
            let lie = move |mut events: Vec<Vec<u8>>| {
                let at = last_of(&events, kind);
                events[at].truncate(rest);
                packets(&events)
            };
            lies.push((format!("event type {kind} has {rest} bytes"), Box::new(lie)));
        }
    }
    let of_packets: [OfPackets; 4] = [
        ("a packet out of order", |packets| packets.last_mut().unwrap().skips = 7),
        ("an empty packet", |packets| packets.last_mut().unwrap().payload.clear()),
        ("a packet of no known kind", |packets| packets.last_mut().unwrap().payload[0] = 1),
        ("the end within a transaction", |packets| packets.last_mut().unwrap().payload = b"\xfe\0\0\x02\0".to_vec()),
    ];
    for (name, change) in of_packets {
        let lie = move |events: Vec<Vec<u8>>| {
            let mut packets = packets(&events);
            change(&mut packets);
            packets
        };
        lies.push((name.to_owned(), Box::new(lie)));
    }
    lies.push((
        "no format description".to_owned(),
        Box::new(|mut events| {
            events.retain(|event| event[4] != FORMAT_DESCRIPTION);
            packets(&events)
        }),
    ));
    for file in [&b""[..], &[b'x'; 70_000]] {
        let lie = move |mut events: Vec<Vec<u8>>| {
            events[0] = rotate(file);
            packets(&events)
        };
        lies.push((format!("a file name of {} bytes", file.len()), Box::new(lie)));
    }
    lies
}

#[test]
fn what_no_source_sends_is_fetched_again() {
    let server = Server::start("hostile", &[]);
    server.sql("CREATE DATABASE lied; CREATE TABLE lied.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20))");
    let source = HostileSource::start(server.port(), 1);
    let options = ["--get-server-public-key", "--source-connect-retry=100ms"];
    let mut replica = Replica::start(&source.url(), &folder("hostile"), &options);
    for (number, (name, lie)) in (1..).zip(lies()) {
        replica.catch_up(&server);
        source.change_next(Box::new(lie));
        source.cut();
        server.sql("INSERT INTO lied.t (v) VALUES ('a row')");
        wait_for(&name, || (source.changed() == number).then_some(()), || replica.log_end());
        let goal = server.gtid_executed();
        // Another lie would be told now: the next connection gets the truth.
        assert!(replica.reaches(&goal), "{name}\n{}", replica.log_end());
    }
    assert_equal(&server, &mut replica, &["lied"]);
    // The files that it names are texts to us, and no paths.
    for file in [&b"../../lied"[..], b"/tmp/lied", b"a\nb\x1b[31m"] {
        source.change_next(Box::new(move |mut events| {
            events[0] = rotate(file);
            packets(&events)
        }));
        source.cut();
        server.sql("INSERT INTO lied.t (v) VALUES ('elsewhere')");
        replica.catch_up(&server);
    }
    assert_equal(&server, &mut replica, &["lied"]);
    let log = replica.log();
    assert!(!log.contains("panicked") && !log.contains('\x1b'), "{log}");
    replica.stop();
}

#[test]
fn a_transaction_without_a_gtid_stops_receiving() {
    let server = Server::start("hostile-anonymous", &[]);
    server.sql("CREATE DATABASE lied; CREATE TABLE lied.t (id INT PRIMARY KEY)");
    let source = HostileSource::start(server.port(), 1);
    let data = folder("hostile-anonymous");
    let mut replica = Replica::start(&source.url(), &data, &["--get-server-public-key"]);
    replica.catch_up(&server);
    source.change_next(Box::new(|mut events| {
        let at = last_of(&events, GTID);
        events.remove(at);
        packets(&events)
    }));
    source.cut();
    server.sql("INSERT INTO lied.t VALUES (1)");
    replica.expect_exit(6, &["a transaction without a GTID", "source position binlog."]);
    // The truth is taken from there, once.
    let mut replica = Replica::start(&source.url(), &data, &["--get-server-public-key"]);
    assert_equal(&server, &mut replica, &["lied"]);
    replica.stop();
}

/// As a source refuses an event above 1 GiB: in every dump, after it has sent what lies before.
#[test]
fn a_dump_that_ends_twice_for_one_reason_stops_receiving() {
    let server = Server::start("hostile-refuses", &[]);
    server.sql("CREATE DATABASE lied; CREATE TABLE lied.t (id INT PRIMARY KEY)");
    let source = HostileSource::start(server.port(), 1);
    let options = ["--get-server-public-key", "--source-connect-retry=100ms"];
    let mut replica = Replica::start(&source.url(), &folder("hostile-refuses"), &options);
    replica.catch_up(&server);
    source.change_all(|mut events| {
        events.truncate(last_of(&events, TABLE_MAP));
        let refusal = "log event entry exceeded max_allowed_packet; the last byte read from './binlog.000001' at 1999.";
        packets(&events).into_iter().chain([Packet::error(1236, refusal)]).collect()
    });
    source.cut();
    server.sql("INSERT INTO lied.t VALUES (1)");
    let texts = ["error 1236 (HY000): log event entry exceeded max_allowed_packet", "above 1 GiB", "--start-anew"];
    replica.expect_exit(5, &texts);
    assert_eq!(source.changed(), 2);
}

/// Flipped bits under right checksums, events dropped, doubled and exchanged, from the first event on.
#[test]
fn a_changed_log_stops_a_replica_with_a_code_or_is_replayed() {
    let server = Server::start("hostile-flips", &["--binlog-row-value-options=PARTIAL_JSON"]);
    server.sql(
        "CREATE DATABASE lied; USE lied; \
         CREATE TABLE p (id INT PRIMARY KEY, a VARCHAR(40), b TEXT, c DECIMAL(10,3), d DATETIME(3), e JSON, g BIT(9)); \
         INSERT INTO p VALUES (1, 'a', 'b', 1.5, NOW(3), '{\"a\": 1, \"b\": [1, 2]}', b'101'), (2, 'z', REPEAT('q', 300), -1, NULL, '[1]', 0); \
         BEGIN; UPDATE p SET a = 'changed' WHERE id = 1; DELETE FROM p WHERE id = 2; COMMIT; \
         UPDATE p SET e = JSON_SET(e, '$.a', 77); ALTER TABLE p ADD COLUMN z INT DEFAULT 7; \
         SET SESSION binlog_transaction_compression = ON; INSERT INTO p (id) VALUES (3), (4); \
         SET SESSION binlog_transaction_compression = OFF; INSERT INTO p (id) VALUES (5)",
    );
    let goal = server.gtid_executed();
    let source = HostileSource::start(server.port(), 4);
    let seeds = length(30, 600);
    for seed in 1..=seeds {
        source.change_next(Box::new(move |events| changed(events, &mut Random::new(seed))));
        let data = folder("hostile-flips");
        let options = ["--get-server-public-key", "--skip-networking", "--memory=128M"];
        let mut replica = Replica::spawn(&source.url(), &data, &options, |_| ());
        let until = Instant::now() + whole_program_tests::DEADLINE;
        let ended = loop {
            if let Some(code) = replica.ended() {
                break Some(code);
            }
            let status = slipstream(&["status", "--json", "--data", replica.data()]);
            let status: serde_json::Value = serde_json::from_str(&status.out).unwrap_or_default();
            let is_done = status["running"] == true
                && status["replay"]["state"] == "caught_up"
                && source.changed() >= seed
                && whole_program_tests::replica::executed(&status).count() + 1 >= goal.count();
            if is_done || status["source"]["reconnects"].as_u64() > Some(0) {
                break None;
            }
            // A lie about the last transaction may leave it open.
            assert!(Instant::now() < until, "seed {seed} hangs\n{}", replica.log_end());
            std::thread::sleep(Duration::from_millis(20));
        };
        let log = replica.log();
        assert!(!log.contains("panicked"), "seed {seed}\n{log}");
        if let Some(code) = ended {
            assert!(matches!(code, 6 | 7 | 9), "seed {seed} ends with {code}\n{log}");
            assert!(log.contains("relay-bin.") || log.contains("source position"), "seed {seed} has no place\n{log}");
        }
        source.cut();
        replica.kill();
    }
}

fn changed(mut events: Vec<Vec<u8>>, random: &mut Random) -> Vec<Packet> {
    let at = 3 + random.below(events.len() as u64 - 4) as usize;
    match random.below(8) {
        0 => drop(events.remove(at)),
        1 => events.insert(at, events[at].clone()),
        2 => events.swap(at, at + 1),
        _ => {
            let body = events[at].len() - CHECKSUM_LEN;
            let byte = random.below(body as u64) as usize;
            events[at][byte] ^= 1 << random.below(8);
            events[at] = sealed(std::mem::take(&mut events[at]));
        }
    }
    packets(&events)
}
