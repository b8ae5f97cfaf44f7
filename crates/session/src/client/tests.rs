//! Sessions without sockets: commands in, packets out.

use std::sync::Arc;

use accounts::{Accepted, Accounts, Login, LoginGuard, LoginRules, LoginStep, Peer};
use proptest::prelude::*;
use wire::handshake::Login as LoginPacket;
use wire::packet::PacketBuffer;
use wire::response::{ErrPacket, OkPacket, PrepareOk};
use wire::row::Param;

use super::*;
use crate::world::Statistics;

/// A server without anything.
pub(super) struct Nowhere;

impl OwnValues for Nowhere {
    fn own_value(&self, name: &str) -> Option<String> {
        (name == "version").then(|| "9.7.4-test".to_owned())
    }
}

impl World for Nowhere {
    fn own_values(&self) -> &dyn OwnValues {
        self
    }

    fn schema(&self, name: &str) -> SchemaState {
        match name {
            "shop" => SchemaState::There(Some(46)),
            "soon" => SchemaState::Unknown("the initial copy is running".to_owned()),
            _ => SchemaState::Missing,
        }
    }

    fn pin(&self) -> Result<Arc<store::Snapshot>, SqlError> {
        Err(SqlError::new(1105, "HY000", "nothing is kept here"))
    }

    fn reload_tls(&self) -> Result<(), String> {
        Err("no files".to_owned())
    }

    fn replica_status(&self) -> crate::ReplicaStatus {
        crate::ReplicaStatus::default()
    }

    fn statistics(&self) -> Statistics {
        Statistics { uptime_s: 10, threads: 1, questions: 25 }
    }

    fn take_statement(&self) -> bool {
        true
    }

    fn give_statements(&self, _: usize) {}
}

pub(super) fn admin(capabilities: u32) -> Session {
    let dir = tempfile::tempdir().unwrap();
    let accounts = Accounts::open(&dir.path().join("accounts")).unwrap();
    let rules = LoginRules {
        require_secure_transport: false,
        offers_tls: false,
        socket_admin: Some(7),
        capabilities: u32::MAX,
    };
    let mut login = Login::new(accounts, Arc::new(LoginGuard::default()), Peer::Socket { uid: 7 }, rules, [5; 20]);
    let packet = LoginPacket {
        capabilities: capabilities | capability::PROTOCOL_41 | capability::SECURE_CONNECTION,
        collation: 255,
        user: "admin",
        auth_response: b"",
        database: "",
        auth_plugin: "",
        attributes: &[],
    };
    let mut out = Vec::new();
    packet.write(&mut out);
    let LoginStep::Accepted(accepted) = login.packet(&out, None) else { panic!("refused") };
    let Accepted { identity, start, .. } = *accepted;
    Session::begin(9, identity, start, &Nowhere).unwrap()
}

pub(super) fn packets(out: &mut Output) -> Vec<Vec<u8>> {
    let mut buffer = PacketBuffer::new(1 << 30);
    buffer.accept_any_sequence();
    buffer.push(out.bytes());
    out.taken();
    let mut found = Vec::new();
    while let Some(range) = buffer.take().unwrap() {
        found.push(buffer.payload(range).to_vec());
    }
    found
}

fn ask(session: &mut Session, payload: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Output::default();
    assert_eq!(session.command(payload, &Nowhere, &mut out), After::Next);
    packets(&mut out)
}

pub(super) fn query(session: &mut Session, sql: &str) -> Vec<Vec<u8>> {
    ask(session, &[b"\x03", sql.as_bytes()].concat())
}

pub(super) fn error(packets: &[Vec<u8>]) -> ErrPacket {
    ErrPacket::parse(packets.last().unwrap()).unwrap_or_else(|_| panic!("no error: {packets:?}"))
}

#[test]
fn what_would_compare_for_long_is_refused() {
    let mut session = admin(capability::DEPRECATE_EOF);
    let (text, part) = ("a".repeat(2_000), "a".repeat(1_000));
    for sql in [format!("select instr('{text}', '{part}b')"), format!("select '{text}' like '%{part}b'")] {
        assert_eq!(error(&query(&mut session, &sql)).code, 1235);
    }
    let short = format!("select instr('{text}', 'b'), '{text}' like '%b'");
    assert_eq!(query(&mut session, &short)[3], b"\x010\x010");
}

#[test]
fn a_long_answer_waits_until_it_is_sent() {
    let mut session = admin(capability::MULTI_STATEMENTS | capability::DEPRECATE_EOF);
    let statement = format!("select '{}'; ", "x".repeat(100_000));
    let sql = format!("{}select 2", statement.repeat(20));
    let (mut out, mut rows, mut stops) = (Output::default(), 0, 0);
    let mut after = session.command(&[b"\x03", sql.as_bytes()].concat(), &Nowhere, &mut out);
    loop {
        assert!(out.len() < WAITS_BELOW, "{}", out.len());
        rows += packets(&mut out).len() / 4;
        if after != After::More {
            break;
        }
        stops += 1;
        after = session.resume(&Nowhere, &mut out);
    }
    assert_eq!((after, rows), (After::Next, 21));
    assert!(stops > 3, "{stops}");
}

/// More than one statement's answer behind the limit at which a session waits.
const WAITS_BELOW: usize = 512 << 10;

#[test]
fn parameters_are_bound() {
    let mut session = admin(capability::DEPRECATE_EOF);
    let prepared = ask(&mut session, b"\x16select ? as a, ?, 'x', ? limit ?");
    let ok = PrepareOk::parse(&prepared[0]).unwrap();
    assert_eq!((ok.parameters, ok.columns, prepared.len()), (4, 4, 9));
    let mut execute = Vec::new();
    let params = [Param::Int(-5), Param::from("é"), Param::Null, Param::UInt(1)];
    wire::command::put_execute(&mut execute, ok.statement_id, &params);
    let answer = ask(&mut session, &execute);
    // Header, NULL bitmap with the fourth column, -5, two texts.
    assert_eq!(answer[5], b"\x00\x20\xfb\xff\xff\xff\xff\xff\xff\xff\x02\xc3\xa9\x01x", "{answer:?}");
    let text = error(&ask(&mut session, b"\x17\x01\0\0\0\0\x01\0\0\0")).message;
    assert_eq!(text, "Malformed communication packet.");
}

#[test]
fn long_data_is_a_parameter_and_bounded() {
    let mut session = admin(capability::DEPRECATE_EOF);
    ask(&mut session, b"\x16select ?");
    let part = |data: &[u8]| [b"\x18\x01\0\0\0\0\0", data].concat();
    assert!(ask(&mut session, &part(b"ab")).is_empty());
    ask(&mut session, &part(b"cd"));
    let execute = [&b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\xfd\0"[..]].concat();
    assert_eq!(ask(&mut session, &execute)[2], b"\x00\x00\x04abcd");
    let megabyte = part(&vec![b'x'; 1 << 20]);
    for _ in 0..70 {
        ask(&mut session, &megabyte);
    }
    assert!(session.statements.held_bytes() <= 64 << 20);
    assert_eq!(error(&ask(&mut session, &execute)).code, 1105);
    assert!(session.statements.held_bytes() < 2_000, "the long data went with the execution");
    let long = [&b"\x16select '"[..], &vec![b'x'; 20 << 20], b"'"].concat();
    assert_eq!(ask(&mut session, &long)[0][0], 0);
    assert_eq!(error(&ask(&mut session, &long)).code, 1041);
}

#[test]
fn a_cursor_keeps_its_place() {
    let mut session = admin(0);
    ask(&mut session, b"\x16select 1");
    let opened = ask(&mut session, b"\x17\x01\0\0\0\x01\x01\0\0\0");
    let status = |packet: &Vec<u8>| OkPacket::parse_eof(packet).unwrap().status;
    assert_eq!(status(opened.last().unwrap()) & 0xc0, status::CURSOR_EXISTS);
    let fetch = |session: &mut Session| ask(session, b"\x1c\x01\0\0\0\x01\0\0\0");
    let first = fetch(&mut session);
    assert_eq!((first.len(), status(&first[1]) & 0xc0), (2, status::CURSOR_EXISTS));
    let last = fetch(&mut session);
    assert_eq!((last.len(), status(&last[0]) & 0xc0), (1, status::LAST_ROW_SENT));
    assert_eq!(error(&fetch(&mut session)).code, 1421);
}

#[test]
fn schemas_and_their_collation() {
    let mut session = admin(capability::SESSION_TRACK);
    assert_eq!(error(&ask(&mut session, b"\x02none")).code, 1049);
    let soon = error(&query(&mut session, "use soon"));
    assert_eq!((soon.code, soon.message.as_str()), (1105, "the initial copy is running"));
    assert_eq!(ask(&mut session, b"\x02shop")[0][0], 0);
    let answer = query(&mut session, "select @@collation_database");
    assert!(answer.contains(&b"\x0butf8mb4_bin".to_vec()), "{answer:?}");
    assert_eq!(error(&ask(&mut session, b"\x04t\0")).code, 1235);
}

#[test]
fn statistics_and_what_is_not_there() {
    let mut session = admin(0);
    let line = String::from_utf8(ask(&mut session, b"\x09").remove(0)).unwrap();
    assert!(line.starts_with("Uptime: 10  Threads: 1  Questions: 25  "), "{line}");
    assert!(line.ends_with("avg: 2.500"), "{line}");
    assert_eq!(error(&ask(&mut session, b"\x0c\x01\0\0\0")).code, 1047);
    // COM_DEBUG: an EOF.
    assert_eq!(ask(&mut session, b"\x0d").remove(0)[0], 0xfe);
    assert_eq!(error(&query(&mut session, "alter instance reload tls")).message, "TLS is unchanged: no files");
    assert_eq!(error(&query(&mut session, "set global wait_timeout=1")).code, 1235);
    assert_eq!(error(&query(&mut session, "load data local infile 'x' into table t")).code, 1290);
}

proptest! {
    #[test]
    fn any_command_is_answered_or_ends_the_session(
        payloads in prop::collection::vec((0u8..0x22, prop::collection::vec(any::<u8>(), 0..40)), 1..8),
        capabilities: u32,
    ) {
        let mut session = admin(capabilities);
        for (command, bytes) in payloads {
            let mut out = Output::default();
            let payload = [&[command][..], &bytes].concat();
            let after = session.command(&payload, &Nowhere, &mut out);
            prop_assert!(out.len() < 1 << 20);
            if after == After::Close {
                break;
            }
        }
    }
}
