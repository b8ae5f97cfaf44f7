//! What a replica answers of times in a zone whose offset changes is what its source answers; what has no one answer
//! there, a local time that is never or twice, is refused. So is a constant of more digits than a time has, where MySQL
//! rounds it or not.

use std::collections::BTreeSet;
use std::path::Path;

use testkit::raw_client::{CAPABILITIES, RawClient};
use whole_program_tests::{Replica, Server, folder, wait_for};
use wire::handshake::capability::SESSION_TRACK;

/// The source's system: summer from the last Sunday of March to that of October, at 01:00 UTC.
const SYSTEM: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
/// Zones with names that are nobody's, and UTC's. What holds before a zone's first change is in its types; Old/Zone has
/// changes before 1970 and after 2038, and one that changes nothing.
const ZONES: &str = "SET sql_log_bin = 0;
INSERT INTO mysql.time_zone VALUES (1, 'N'), (2, 'N'), (3, 'N'), (4, 'N'), (5, 'N'), (6, 'N'), (7, 'Y');
INSERT INTO mysql.time_zone_name VALUES ('UTC', 1), ('Test/Zone', 2), ('Other/Zone', 3), ('Summer/First', 4),
  ('Summer/Only', 5), ('Old/Zone', 6), ('Same/Zone', 6), ('Leap/Zone', 7);
INSERT INTO mysql.time_zone_transition_type VALUES (1, 0, 0, 0, 'UTC'), (2, 0, 20700, 0, 'A'), (2, 1, -2671, 0, 'B'),
  (2, 2, 45900, 1, 'C'), (3, 0, 60, 0, 'O'), (4, 0, 7200, 1, 'S'), (4, 1, 3600, 0, 'W'), (5, 0, 7200, 1, 'S'),
  (6, 0, -600, 0, 'A'), (6, 1, 1800, 0, 'B'), (6, 2, 1800, 1, 'C'), (6, 3, -60, 0, 'D'), (7, 0, 60, 0, 'L');
INSERT INTO mysql.time_zone_transition VALUES (2, 100000017, 1), (2, 954000000, 2), (2, 971000001, 0),
  (2, 1711846800, 2), (2, 1729990800, 0), (2, 2100000000, 1), (4, 1000000000, 0), (6, -2000000000, 1),
  (6, 500000000, 2), (6, 954000000, 0), (6, 4000000000, 3)";
/// Moments at which one of the two changes, in seconds since 1970.
const CHANGES: [i64; 8] =
    [100_000_017, 354_675_600, 954_000_000, 971_000_001, 1_711_846_800, 1_729_990_800, 2_100_000_000, 2_121_901_200];
/// Moments beside a change.
const BESIDE: [&str; 13] =
    ["-90000", "-48571", "-25200.5", "-3600", "-1", "-0.001", "0", "0.5", "1800", "3599.999", "3600", "25200", "90000"];
/// All offsets that the two have.
const OFFSETS: [i64; 5] = [3_600, 7_200, 20_700, -2_671, 45_900];

/// A session at the source, and one at the replica.
struct Pair {
    ours: RawClient,
    theirs: RawClient,
    compared: usize,
    refused: BTreeSet<String>,
}

fn is_refusal(answer: &[Vec<u8>]) -> bool {
    answer.last().is_some_and(|packet| packet.starts_with(&[0xff, 1235u16.to_le_bytes()[0], 1235u16.to_le_bytes()[1]]))
}

impl Pair {
    fn of(server: &Server, socket: &Path) -> Pair {
        let capabilities = CAPABILITIES & !SESSION_TRACK;
        let ours = RawClient::over_socket(socket, "admin", capabilities);
        let theirs = RawClient::over_socket(&server.socket(), "root", capabilities);
        Pair { ours, theirs, compared: 0, refused: BTreeSet::new() }
    }

    /// All packets are the same, but for what the last one tells of indexes; true if ours refused instead.
    fn query(&mut self, sql: &str) -> bool {
        let (ours, theirs) = (self.ours.query(sql), self.theirs.query(sql));
        if is_refusal(&ours) {
            self.refused.insert(sql.to_owned());
            return true;
        }
        self.compared += 1;
        let rows = |answer: &[Vec<u8>]| answer.split_last().map(|(last, rest)| (last[0], rest.to_vec())).unwrap();
        assert_eq!(rows(&ours), rows(&theirs), "{sql}");
        if ours.last().is_some_and(|packet| packet[0] == 0xff) {
            assert_eq!(ours, theirs, "{sql}");
        }
        false
    }

    /// Rows in the binary protocol.
    fn execute(&mut self, sql: &str) {
        let [ours, theirs] = [&mut self.ours, &mut self.theirs].map(|client| {
            let prepared = client.prepare(sql);
            let id = u32::from_le_bytes(prepared[0][1..5].try_into().unwrap());
            let answer = client.execute(id, 0, &[]);
            client.close(id);
            answer.split_last().unwrap().1.to_vec()
        });
        assert_eq!(ours, theirs, "{sql}");
        self.compared += 1;
    }
}

/// Local times of the rows in a zone, and others beside them; with each, how many moments it is.
fn local_times(server: &Server, zone: &str) -> Vec<(String, u64)> {
    let is = |offset: &i64| {
        let utc = format!("l.at - INTERVAL {offset} SECOND");
        // CONVERT_TZ() leaves alone what is no TIMESTAMP.
        format!("({utc} >= '1970-01-01 00:00:01' AND CONVERT_TZ({utc}, '+00:00', '{zone}') <=> l.at)")
    };
    let moments = OFFSETS.iter().map(is).collect::<Vec<_>>().join(" + ");
    let rows = server.sql(&format!(
        "SET time_zone = '{zone}'; SELECT l.at, {moments} FROM (SELECT DISTINCT CAST(ts AS DATETIME(3)) + INTERVAL shift SECOND AS at \
         FROM z.t, (SELECT 0 AS shift UNION SELECT 3600 UNION SELECT -7200) AS shifts WHERE id > 2 AND ts > 0) AS l"
    ));
    let parsed = rows.lines().map(|row| {
        let (at, moments) = row.split_once('\t').unwrap();
        (at.to_owned(), moments.parse().unwrap())
    });
    parsed.collect()
}

/// Reads the table in the zone that both sessions have.
fn reads(pair: &mut Pair, server: &Server, zone: &str) {
    let all = "SELECT @@time_zone, id, ts, ts FROM z.t ORDER BY id";
    assert!(!pair.query(all), "{:?}", pair.refused);
    pair.execute(all);
    for sql in [
        "SELECT TIMEDIFF(NOW(), UTC_TIMESTAMP()), TIMEDIFF(NOW(), SYSDATE())",
        "SELECT id FROM z.t WHERE ts IS NULL",
        "SHOW CREATE TABLE z.made",
    ] {
        assert!(!pair.query(sql), "{:?}", pair.refused);
    }
    let times = local_times(server, zone);
    let (mut never, mut twice) = (0, 0);
    for (at, moments) in &times {
        let conditions =
            [format!("ts = '{at}'"), format!("ts < '{at}'"), format!("ts BETWEEN '{at}' AND '2037-01-01'")];
        for condition in conditions {
            let refused = pair.query(&format!("SELECT id FROM z.t WHERE {condition} ORDER BY ts"));
            assert_eq!(refused, *moments != 1, "{condition} in {zone}: {moments} moments");
        }
        let refused = pair.query(&format!("SELECT CONVERT_TZ('{at}', '{zone}', '+01:00')"));
        assert_eq!(refused, *moments != 1, "{at} of {zone}: {moments} moments");
        assert!(!pair.query(&format!("SELECT CONVERT_TZ('{at}', '+01:00', '{zone}')")), "{at}");
        (never, twice) = (never + u32::from(*moments == 0), twice + u32::from(*moments > 1));
    }
    assert!(never >= 5 && twice >= 5 && times.len() > 200, "{never} never, {twice} twice of {}", times.len());
}

/// A source in that system with those zones; None without servers.
fn source(name: &str) -> Option<Server> {
    if !testkit::servers() {
        return None;
    }
    let server = Server::start_in_zone(name, SYSTEM);
    server.sql(ZONES);
    Some(server)
}

#[test]
fn times_in_a_zone_with_rules_are_the_sources() {
    let Some(server) = source("door-zones") else { return };
    let moments = CHANGES.iter().flat_map(|at| BESIDE.iter().map(move |beside| format!("({at} + {beside})")));
    let rows =
        moments.map(|at| format!("(TIMESTAMP('1970-01-01') + INTERVAL {at} SECOND)")).collect::<Vec<_>>().join(", ");
    server.sql(&format!(
        "SET time_zone = '+00:00'; CREATE DATABASE z; \
         CREATE TABLE z.t (id INT AUTO_INCREMENT PRIMARY KEY, ts TIMESTAMP(3) NULL, KEY (ts)); \
         INSERT INTO z.t (ts) VALUES ('1970-01-01 00:00:01'), ('2038-01-19 03:14:07.999'), {rows}, (NULL); \
         CREATE TABLE z.made (id INT PRIMARY KEY, a TIMESTAMP DEFAULT '2024-07-01 12:00:00', \
         b TIMESTAMP(2) NULL DEFAULT '2024-10-27 01:30:00.5')"
    ));
    let data = folder("door-zones");
    let (mut replica, socket) = Replica::with_socket(&server, &data, &[]);
    replica.catch_up(&server);
    let mut pair = Pair::of(&server, &socket);
    reads(&mut pair, &server, "SYSTEM");
    for zone in ["+05:30", "utc", "System"] {
        assert!(!pair.query(&format!("SET time_zone = '{zone}'")), "{zone}");
        assert!(!pair.query("SELECT @@time_zone, ts FROM z.t ORDER BY id"), "{:?}", pair.refused);
    }
    // Those with names are read from its tables.
    reads_by_name(&mut pair, &server);
    // The zone that sessions begin with is asked for by conversions.
    server.sql("SET GLOBAL time_zone = 'Test/Zone'");
    server.end_dumps();
    wait_for(
        "the new global variable",
        || {
            assert_eq!(replica.ended(), None, "{}", replica.log_end());
            let answer = RawClient::over_socket(&socket, "admin", CAPABILITIES).query("SELECT @@global.time_zone");
            answer.iter().any(|packet| packet.ends_with(b"Test/Zone")).then_some(())
        },
        String::new,
    );
    let mut pair = Pair::of(&server, &socket);
    reads(&mut pair, &server, "Test/Zone");
    for zone in ["SYSTEM", "test/ZONE"] {
        assert!(!pair.query(&format!("SET time_zone = '{zone}'")), "{zone}");
        assert!(!pair.query("SELECT @@time_zone, ts FROM z.t ORDER BY id"), "{:?}", pair.refused);
    }
    assert!(!pair.query("SET time_zone = '+15:00'"));
    // They are kept for a start that does not reach the source.
    replica.stop();
    let (replica, socket) = Replica::with_socket(&server, &data, &["--skip-replica-start"]);
    let mut pair = Pair::of(&server, &socket);
    reads(&mut pair, &server, "Test/Zone");
    assert!(!pair.query("SET time_zone = 'SYSTEM'"));
    reads(&mut pair, &server, "SYSTEM");
    reads_by_name(&mut pair, &server);
    replica.stop();
}

/// Zones that a session sets, all of which the source has in its tables.
fn reads_by_name(pair: &mut Pair, server: &Server) {
    // The source shows a name as its first user wrote it, the replica as its tables have it.
    let zones = ["Test/Zone", "Other/Zone", "Summer/First", "Summer/Only", "Old/Zone", "Same/Zone"];
    for zone in zones {
        assert!(!pair.query(&format!("SET time_zone = '{zone}'")), "{zone}");
        assert!(!pair.query(&format!("SET time_zone = '{}'", zone.to_uppercase())), "{zone}");
        let all = "SELECT @@time_zone, id, ts FROM z.t ORDER BY id";
        assert!(!pair.query(all), "{zone}");
        pair.execute(all);
        assert!(!pair.query(&format!("SELECT CONVERT_TZ('1970-01-02 00:00:00', '{zone}', 'Test/Zone')")), "{zone}");
    }
    assert!(!pair.query("SET time_zone = 'TEST/zone'"));
    reads(pair, server, "Test/Zone");
    assert!(!pair.query("SET time_zone = 'No/Zone'"));
    assert!(!pair.query("SELECT CONVERT_TZ('2024-01-01 00:00:00', 'No/Zone', '+00:00')"));
    assert!(pair.query("SET time_zone = 'Leap/Zone'"));
    assert!(!pair.query("SET time_zone = 'SYSTEM'"));
}

#[test]
fn zones_that_may_not_be_read_are_refused() {
    let Some(server) = source("door-bare") else { return };
    server.sql(
        "SET GLOBAL partial_revokes = ON; CREATE USER bare@'%' IDENTIFIED BY 'repl'; \
         GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO bare@'%'; REVOKE SELECT ON mysql.* FROM bare@'%'; \
         SET GLOBAL time_zone = 'Other/Zone'",
    );
    let data = folder("door-bare");
    let socket = data.with_extension("sock");
    let mut replica = Replica::start(&server.url("bare"), &data, &[&format!("--socket={}", socket.display())]);
    replica.catch_up(&server);
    replica.waits_for_log(&["[SLIP-000087]"]);
    let mut pair = Pair::of(&server, &socket);
    for zone in ["SYSTEM", "other/zone", "UTC"] {
        assert!(!pair.query(&format!("SET time_zone = '{zone}'")), "{zone}");
        assert!(!pair.query("SELECT @@time_zone, CONVERT_TZ('2024-01-01 00:00:00', 'Other/Zone', 'UTC')"), "{zone}");
    }
    for refused in [
        "SET time_zone = 'Test/Zone'",
        "SET time_zone = 'No/Zone'",
        "SELECT CONVERT_TZ('2024-01-01 00:00:00', 'UTC', 'Test/Zone')",
        "SELECT CONVERT_TZ('2024-01-01 00:00:00', 'UTC', 'No/Zone')",
    ] {
        assert!(pair.query(refused), "{refused}");
    }
    let tables = ["", "_name", "_transition", "_transition_type", "_leap_second"];
    server.sql(&tables.map(|table| format!("GRANT SELECT ON mysql.time_zone{table} TO bare@'%'")).join("; "));
    server.end_dumps();
    wait_for("a zone that is read", || (!pair.query("SET time_zone = 'Test/Zone'")).then_some(()), String::new);
    assert!(!pair.query("SELECT @@time_zone, CONVERT_TZ('2024-01-01 00:00:00', 'UTC', 'Test/Zone')"));
    assert!(!pair.query("SET time_zone = 'No/Zone'"));
    replica.stop();
}

/// Columns with a key and without one, constants of digits that they have, and constants of more.
const DIGITS: &[(&[&str], &[&str], &[&str])] = &[
    (
        &["t0", "k0"],
        &["10:11:12", "10:11:12.0", "-10:11:12.000000", "00:00:00", "-00:00:01", "838:59:59"],
        &["10:11:12.5", "-10:11:12.000001", "00:00:00.4", "838:59:58.9"],
    ),
    (
        &["t3", "k3"],
        &["10:11:12.5", "10:11:12.499", "-10:11:12.501000", "00:00:00.000", "-00:00:00.001", "10:11:12"],
        &["10:11:12.4995", "-10:11:12.5001", "00:00:00.000001", "838:59:58.9999"],
    ),
    (
        &["d0", "e0"],
        &["2024-02-29 10:11:12", "2024-02-29 10:11:12.0", "2000-01-01", "1999-12-31 23:59:59.000000", "2024-02-29"],
        &["2024-02-29 10:11:12.5", "1999-12-31 23:59:59.000001", "2024-02-29 10:11:11.999999"],
    ),
    (
        &["d3", "e3"],
        &["2024-02-29 10:11:12.5", "2024-02-29 10:11:12.499000", "1999-12-31 23:59:59.999", "2000-01-01 00:00:00.000"],
        &["2024-02-29 10:11:12.4999", "1999-12-31 23:59:59.999001", "2024-02-29 10:11:12.5000001"],
    ),
];

/// What a condition with the constant is refused for; None: its rows are the source's.
fn refused_for(pair: &mut Pair, condition: &str) -> Option<String> {
    let sql = format!("SELECT id FROM d.t WHERE {condition} ORDER BY id");
    if !pair.query(&sql) {
        return None;
    }
    let answer = pair.ours.query(&sql).concat();
    Some(String::from_utf8_lossy(&answer).into_owned())
}

#[test]
fn constants_of_more_digits_than_a_time_has_are_refused_by_name() {
    let Some(server) = Server::or_skip("door-digits", &[]) else { return };
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, t0 TIME, t3 TIME(3), d0 DATETIME, d3 DATETIME(3), \
         k0 TIME, k3 TIME(3), e0 DATETIME, e3 DATETIME(3), KEY (k0), KEY (k3), KEY (e0), KEY (e3)); \
         INSERT INTO d.t (id, t0, t3, d0, d3) VALUES \
         (1, '10:11:12', '10:11:12.5', '2024-02-29 10:11:12', '2024-02-29 10:11:12.5'), \
         (2, '10:11:13', '10:11:12.499', '2024-02-29 10:11:13', '2024-02-29 10:11:12.499'), \
         (3, '-10:11:12', '-10:11:12.501', '1999-12-31 23:59:59', '1999-12-31 23:59:59.999'), \
         (4, '00:00:00', '00:00:00', '2000-01-01', '2000-01-01'), (5, NULL, NULL, NULL, NULL), \
         (6, '-00:00:01', '-00:00:00.001', '2024-02-29', '2024-02-29 00:00:00.001'), \
         (7, '838:59:59', '838:59:59', '9999-12-31 23:59:59', '9999-12-31 23:59:59.999'); \
         UPDATE d.t SET k0 = t0, k3 = t3, e0 = d0, e3 = d3",
    );
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-digits"), &[]);
    replica.catch_up(&server);
    let mut pair = Pair::of(&server, &socket);
    let (equal, ordered) = (["=", "<=>", "<>"], ["<", "<=", ">", ">="]);
    for (columns, within, beyond) in DIGITS {
        for column in *columns {
            for (constant, other) in within.iter().zip(within.iter().cycle().skip(1)) {
                let one = equal.iter().chain(&ordered).map(|operator| format!("{column} {operator} '{constant}'"));
                let two =
                    ["BETWEEN '{}' AND '{}'", "NOT BETWEEN '{}' AND '{}'", "IN ('{}', '{}')", "NOT IN ('{}', '{}')"];
                let two = two.map(|form| form.replacen("{}", constant, 1).replacen("{}", other, 1));
                let two = two.iter().map(|form| format!("{column} {form}"));
                for condition in one.chain(two).chain([format!("'{constant}' <= {column}")]) {
                    assert_eq!(refused_for(&mut pair, &condition), None, "{condition}");
                }
            }
            // An order of dates is that of their values, whatever path leads to them.
            let is_time = column.starts_with(['t', 'k']);
            for constant in *beyond {
                let bound = within[0];
                let of_order = ordered.iter().map(|operator| format!("{column} {operator} '{constant}'")).chain([
                    format!("'{constant}' > {column}"),
                    format!("{column} BETWEEN '{constant}' AND '{bound}'"),
                    format!("{column} NOT BETWEEN '{bound}' AND '{constant}'"),
                ]);
                let of_order: Vec<String> = of_order.collect();
                let of_equality = equal.iter().map(|operator| format!("{column} {operator} '{constant}'"));
                let of_equality = of_equality.chain([
                    format!("{column} IN ('{bound}', '{constant}')"),
                    format!("{column} NOT IN ('{constant}', '{bound}')"),
                ]);
                let all = of_order.iter().map(|condition| (condition.clone(), is_time));
                for (condition, is_refused) in all.chain(of_equality.map(|condition| (condition, true))) {
                    // Of seven digits the last is rounded before anything is compared.
                    let digits = constant.rsplit_once('.').map_or(0, |(_, fraction)| fraction.len());
                    let why = if digits > 6 { "a string" } else { "a constant of more fractional digits" };
                    let is_refused = is_refused || why == "a string";
                    let refused = refused_for(&mut pair, &condition);
                    assert_eq!(refused.is_some(), is_refused, "{condition}: {refused:?}");
                    assert!(refused.is_none_or(|text| text.contains(why)), "{condition}");
                }
            }
        }
    }
    assert!(pair.compared > 450, "{}", pair.compared);
    replica.stop();
}
