//! SHOW about replication, compared with a real 9.7 packet by packet.

use crate::support;

use support::{CAPABILITIES, RawClient, differences, open, queries};
use testkit::Server;
use wire::handshake::capability;

/// Statements whose answers are those of a server that is no replica and has no binary log.
const STATEMENTS: &[&str] = &[
    "show replicas",
    "show binary log status",
    "show binary logs",
    "show relaylog events",
    "show relaylog events from 4 limit 2, 1 for channel ''",
    "show relaylog events limit 1 from 4",
    "show relaylog events from -1",
    "show replica status for channel 'q'",
    "show replica hosts",
    "show replica status for channel",
    "show replica status for channel q",
    "show binary logs limit 1",
    "show binary log",
    "show replica",
];

#[test]
fn shows_of_replication_are_mysqls() {
    let Some(server) = Server::or_skip("shows", &["--skip-log-bin"]) else { return };
    let door = open(|_| ());
    for capabilities in [CAPABILITIES, CAPABILITIES & !capability::DEPRECATE_EOF & !capability::SESSION_TRACK] {
        let mut ours = RawClient::over_socket(&door.socket, "admin", capabilities);
        let mut theirs = RawClient::over_socket(&server.socket(), "root", capabilities);
        let mut commands = queries(STATEMENTS);
        for sql in ["show replicas", "show binary log status", "show relaylog events", "show binary logs"] {
            commands.push((format!("prepare {sql}"), [b"\x16", sql.as_bytes()].concat()));
        }
        for number in 1u32..=3 {
            let execute = [&b"\x17"[..], &number.to_le_bytes(), &[0, 1, 0, 0, 0]].concat();
            commands.push((format!("execute {number}"), execute));
        }
        let found = differences(&mut ours, &mut theirs, &commands);
        assert!(found.is_empty(), "capabilities {capabilities:#x}\n{found}");
    }
}

/// That server has no row to show; the columns are the same.
#[test]
fn columns_of_show_replica_status_are_mysqls() {
    let Some(server) = Server::or_skip("shows", &["--skip-log-bin"]) else { return };
    let door = open(|_| ());
    let mut ours = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let mut theirs = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    for sql in ["show replica status", "show replica status for channel ''"] {
        let (mine, real) = (ours.query(sql), theirs.query(sql));
        assert_eq!((mine.len(), real.len()), (63, 62), "a row more");
        for (number, (mine, real)) in mine.iter().zip(&real).take(61).enumerate() {
            assert_eq!(mine.escape_ascii().to_string(), real.escape_ascii().to_string(), "packet {number}");
        }
    }
}

/// 9.7 has dropped these, and tools still send them.
#[test]
fn old_spellings_are_answered_with_old_names() {
    let door = open(|_| ());
    let mut client = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let mut names = |sql: &str| {
        let packets = client.query(sql);
        packets.iter().map(|packet| packet.escape_ascii().to_string()).collect::<Vec<_>>().concat()
    };
    let status = names("SHOW SLAVE STATUS");
    for name in ["Slave_IO_Running", "Seconds_Behind_Master", "Master_UUID", "Get_master_public_key"] {
        assert!(status.contains(name), "{status}");
    }
    assert!(!status.contains("Source_") && !status.contains("Replica_"), "{status}");
    assert!(names("SHOW SLAVE HOSTS").contains("Slave_UUID"));
    assert!(names("SHOW MASTER STATUS").contains("Binlog_Ignore_DB"));
    assert!(names("SHOW MASTER LOGS").contains("You are not using binary logging"));
}

#[test]
fn grants_are_described_as_mysqls() {
    let Some(server) = Server::or_skip("shows", &["--skip-log-bin"]) else { return };
    let door = open(|_| ());
    let mut ours = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let mut theirs = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    for sql in ["show grants", "show grants for current_user"] {
        let (mine, real) = (ours.query(sql), theirs.query(sql));
        let text = |packet: &[u8]| String::from_utf8_lossy(packet).into_owned();
        assert_eq!(text(&mine[1]).replace("\x1aGrants for admin@", "\x19Grants for root@"), text(&real[1]));
        assert!(text(&mine[2]).contains("GRANT SELECT, RELOAD, PROCESS, LOCK TABLES"), "{}", text(&mine[2]));
    }
    let denied = ours.query("show grants for 'x'@'%'");
    assert!(String::from_utf8_lossy(&denied[0]).contains("to database 'mysql'"));
}
