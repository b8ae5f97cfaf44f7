//! Commands of a client that is logged in: each is answered within bounds, or ends the session.
#![no_main]

use std::sync::Arc;

use accounts::{Accounts, Identity, Login, LoginGuard, LoginRules, LoginStep, Peer, SessionStart};
use session::{After, Forwarding, Session};
use session::{Output, ReplicaStatus, SchemaState, Statistics, World};
use fuzz::{Input, chunk, join, long, seeds};
use sql::{Ended, OwnValues, SqlError};
use store::Snapshot;
use wire::handshake::{Login as LoginPacket, capability};
use wire::packet::PacketBuffer;

/// Output of one step, at most: a session stops at 256 KiB, and one statement of an input's length adds less than
/// the rest.
const OUTPUT_MAX: usize = 8 << 20;
/// Steps of one command, at most: each but the last has put out more than 256 KiB.
const STEPS_MAX: usize = 1_000;

/// A server with one schema.
struct OneSchema;

impl OwnValues for OneSchema {
    fn own_value(&self, name: &str) -> Option<String> {
        let known = [("version", "9.7.4-fuzz"), ("system_time_zone", "UTC"), (sql::KNOWS_UTC, "1")];
        known.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
    }
}

impl World for OneSchema {
    fn own_values(&self) -> &dyn OwnValues {
        self
    }

    fn schema(&self, name: &str) -> SchemaState {
        if name == "shop" { SchemaState::There(Some(46)) } else { SchemaState::Missing }
    }

    fn pin(&self) -> Result<Arc<Snapshot>, SqlError> {
        Err(SqlError::new(1105, "HY000", "no rows here"))
    }

    fn replica_status(&self) -> ReplicaStatus {
        ReplicaStatus { executed: "aaaaaaaa-0000-0000-0000-000000000001:1-9".to_owned(), ..ReplicaStatus::default() }
    }

    fn reload_tls(&self) -> Result<(), String> {
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        Statistics { uptime_s: 10, threads: 1, questions: 25 }
    }

    fn take_statement(&self) -> bool {
        true
    }

    fn give_statements(&self, _: usize) {}
}

/// Logs in over the socket as the process's user.
fn logged_in(capabilities: u32) -> (Identity, SessionStart) {
    let path = std::env::temp_dir().join(format!("no-accounts-{}", std::process::id()));
    let accounts = Accounts::open(&path).expect("no file is no account");
    let rules = LoginRules {
        require_secure_transport: false,
        offers_tls: false,
        socket_admin: Some(7),
        capabilities: u32::MAX,
    };
    let mut login = Login::new(accounts, Arc::new(LoginGuard::default()), Peer::Socket { uid: 7 }, rules, [5; 20]);
    let mut out = Vec::new();
    let packet = LoginPacket {
        capabilities: capabilities | capability::PROTOCOL_41 | capability::SECURE_CONNECTION,
        collation: 255,
        user: "admin",
        auth_response: b"",
        database: "",
        auth_plugin: "",
        attributes: &[],
    };
    packet.write(&mut out);
    let step = login.packet(&out, None);
    let LoginStep::Accepted(accepted) = step else { panic!("refused: {step:?}") };
    (accepted.identity, accepted.start)
}

fn conversations() -> Vec<Vec<u8>> {
    let all: [(u32, &[&[u8]]); 12] = [
        (0, &[b"\x03select 1, -1, 1.5e3, 'a' 'b', null, x'41', @@sql_mode, concat('a', 'b') limit 1", b"\x01"]),
        (u32::MAX, &[b"\x03\0\x01select 1; set names latin1; select 'x'", b"\x0e", b"\x09"]),
        (
            0,
            &[
                b"\x16select ?, ? as b limit ?",
                b"\x18\x01\0\0\0\0\0long",
                b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\xfd\0\x08\0\x08\0",
            ],
        ),
        (
            0,
            &[
                b"\x16select 1",
                b"\x17\x01\0\0\0\x01\x01\0\0\0",
                b"\x1c\x01\0\0\0\x01\0\0\0",
                b"\x1a\x01\0\0\0",
                b"\x19\x01\0\0\0",
            ],
        ),
        (
            1 << 23,
            &[
                b"\x03set session_track_transaction_info='CHARACTERISTICS'",
                b"\x03begin",
                b"\x03savepoint a",
                b"\x03rollback to a",
            ],
        ),
        (0, &[b"\x02shop", b"\x03use shop", b"\x04t\0", b"\x1b\0\0", b"\x03select 1; select 2", b"\x1f"]),
        (0, &[b"\x03set @a = 1, @b = concat('x', 'y')", b"\x03select @a, @b, @c", b"\x03show warnings limit 1"]),
        (
            0,
            &[
                b"\x03set time_zone = '+02:30', @@transaction_isolation = 'serializable'",
                b"\x03select convert_tz('2024-02-29 13:04:05.25', '-13:59', 'SYSTEM'), timediff(now(3), now()) is null",
                b"\x03select date_format(now(), '%a %D %j %r %W %w'), time_format(timediff(now(), now()), '%H:%k:%f')",
                b"\x03select left(user(), instr(concat(user(), '@'), '@') - 1), 1 + 2 - -3, left('abc', -1)",
            ],
        ),
        (0, &[b"\x03show variables like 'v%'", b"\x03show processlist", b"\x03kill 1", b"\x03show replica status"]),
        (
            0,
            &[
                b"\x03select sleep(1), gtid_subset('a', 'b'); do sleep(2)",
                b"\x16select wait_for_executed_gtid_set(?, 1)",
            ],
        ),
        (
            0,
            &[
                b"\x03select a, t.b x, count(*) from shop.t where b in (1, 'x') and c like 'a%' and not d is null order by d desc limit 3",
                b"\x16select * from shop.t where a = ? and b between ? and ? limit ?",
            ],
        ),
        (
            0,
            &[
                b"\x03select 1\x0e + 1 or 1\x0f\xe0, 1\x0e is null\x0f\x0a",
                b"\x03select a from shop.t where a = 1\x0e and a = 1\x0f\xe0 or (a like 'x'\x0e in (1)\x0f\x08)",
                b"\x16select \x0e(\x0f\x0d1\x0e)\x0f\x0d\x0e = 1\x0f\x0d",
            ],
        ),
    ];
    let bytes = |(capabilities, commands): (u32, &[&[u8]])| {
        let commands: Vec<u8> = commands.iter().flat_map(|command| chunk(command)).collect();
        join(&[&capabilities.to_le_bytes(), &commands])
    };
    all.into_iter().map(bytes).collect()
}

/// All that was put out are whole packets in sequence.
fn check(out: &mut Output) {
    assert!(out.len() < OUTPUT_MAX, "{} bytes", out.len());
    let mut buffer = PacketBuffer::new(OUTPUT_MAX);
    buffer.accept_any_sequence();
    buffer.push(out.bytes());
    while buffer.take().expect("packets of our own").is_some() {}
    assert_eq!(buffer.pending_len(), 0, "the last packet is whole");
    out.taken();
}

fuzz::fuzz_target!(init: seeds::write(conversations), |data: &[u8]| {
    let mut input = Input::new(data);
    let capabilities = u32::from_le_bytes([input.byte(), input.byte(), input.byte(), input.byte()]);
    let (identity, start) = logged_in(capabilities);
    let mut session = Session::begin(9, identity, start, &OneSchema).expect("no schema was asked for");
    // By a bit of the protocol's that a session does not look at.
    session.set_forwarding(if capabilities & 1 << 30 == 0 { Forwarding::Off } else { Forwarding::All });
    let mut out = Output::default();
    for payload in input.chunks() {
        let payload = &long(payload);
        let mut after = session.command(payload, &OneSchema, &mut out);
        for _ in 0..STEPS_MAX {
            check(&mut out);
            after = match after {
                After::More => session.resume(&OneSchema, &mut out),
                After::Wait => session.waited(Ended::TimedOut, &OneSchema, &mut out),
                _ => break,
            };
        }
        match after {
            After::Next | After::ChangeUser => {}
            // Hundreds of statements of one text may wait, one after the other.
            After::More | After::Wait => break,
            After::NotHere => {
                let not_here = session.take_not_here().expect("said once");
                assert!(out.len() == 0, "nothing of what is another's was put out");
                session.refuse_not_here(&not_here, &mut out);
                check(&mut out);
            }
            After::Close => break,
        }
    }
    session.end(&OneSchema);
});
