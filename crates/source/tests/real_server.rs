//! The client against real servers. Runs if SLIPSTREAM_TEST_SERVER=1; otherwise each test reports that it is skipped.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use base::{GtidSet, Uuid};
use binlog::{EventHeader, event_type};
use client::{ClientError, ConnectOptions, Connection, Param, SslMode, Value};
use source::preflight::{self, PreflightInput};
use source::{DumpRequest, FileSource, start_dump};
use testkit::Server;

fn login_as(server: &Server, user: &str, password: &str, ssl_mode: SslMode) -> ConnectOptions {
    ConnectOptions { password: Some(password.into()), ssl_mode, ..server.login(user) }
}

fn connect_root(server: &Server) -> Connection {
    let options = login_as(server, "root", "", SslMode::Disabled);
    Connection::connect(&ConnectOptions { multi_statements: true, ..options }).unwrap()
}

fn over_socket(server: &Server, options: ConnectOptions) -> ConnectOptions {
    ConnectOptions { socket: Some(server.socket()), ..options }
}

fn who(options: &ConnectOptions) -> Result<String, ClientError> {
    let mut connection = Connection::connect(options)?;
    Ok(connection.query_value("SELECT CURRENT_USER()")?.unwrap())
}

#[test]
fn every_way_to_log_in() {
    let Some(server) = Server::or_skip("wire-login", &[]) else { return };
    let mut root = connect_root(&server);
    eprintln!("server {}", root.server_version());
    let password = "pä ss'w";
    root.exec("CREATE USER full@'%' IDENTIFIED WITH caching_sha2_password BY 'pä ss''w'").unwrap();
    let forget = |root: &mut Connection| root.exec("FLUSH PRIVILEGES").map(|_| ()).unwrap();
    let clear = login_as(&server, "full", password, SslMode::Disabled);
    let with_request = ConnectOptions { get_server_public_key: true, ..clear.clone() };
    let key_file = Some(server.dir().join("public_key.pem"));
    let with_file = ConnectOptions { server_public_key_path: key_file, ..clear.clone() };
    let tls = login_as(&server, "full", password, SslMode::Preferred);

    // Full login: refused in clear text, by RSA with a requested and with a given key, over TLS, over the socket.
    forget(&mut root);
    assert!(matches!(who(&clear), Err(ClientError::Wire(wire::WireError::InsecureTransport { .. }))));
    for options in [&with_request, &with_file, &tls, &over_socket(&server, clear.clone())] {
        forget(&mut root);
        assert_eq!(who(options).unwrap(), "full@%");
        // Fast login: also in clear text, once the server has the password's hash in its cache.
        assert_eq!(who(&clear).unwrap(), "full@%");
    }
    let description = Connection::connect(&tls).unwrap().tls_description().unwrap();
    eprintln!("TLS: {description}");
    assert!(description.starts_with("TLSv1"));
    let quiet = over_socket(&server, login_as(&server, "full", password, SslMode::Preferred));
    assert_eq!(Connection::connect(&quiet).unwrap().tls_description(), None);
    let loud = over_socket(&server, login_as(&server, "full", password, SslMode::Required));
    assert!(Connection::connect(&loud).unwrap().tls_description().is_some());

    for mode in [SslMode::Disabled, SslMode::Required] {
        let options = ConnectOptions { get_server_public_key: true, ..login_as(&server, "full", "wrong", mode) };
        let error = Connection::connect(&options).unwrap_err();
        assert_eq!(error.server_code(), Some(1045), "{error}");
        assert!(!error.is_transient());
    }
    let nowhere = ConnectOptions { host: "no-such-host.invalid".into(), ..clear.clone() };
    assert!(matches!(Connection::connect(&nowhere), Err(ClientError::Resolve { .. })));
    let refused = ConnectOptions { port: 1, ..clear.clone() };
    assert!(matches!(Connection::connect(&refused), Err(ClientError::Connect { .. })));
    assert_eq!(who(&ConnectOptions { database: Some("nix".into()), ..clear }).unwrap_err().server_code(), Some(1044));
}

#[test]
fn certificates_and_other_plugins() {
    let Some(server) = Server::or_skip("wire-tls", &[]) else { return };
    let mut root = connect_root(&server);
    let ca = Some(server.dir().join("ca.pem"));
    let verify = |ssl_mode, ssl_ca| ConnectOptions { ssl_ca, ..login_as(&server, "root", "", ssl_mode) };
    assert_eq!(who(&verify(SslMode::VerifyCa, ca.clone())).unwrap(), "root@127.0.0.1");
    // The server's own certificate names no host; the system's authorities do not include its authority.
    for options in [verify(SslMode::VerifyIdentity, ca), verify(SslMode::VerifyCa, None)] {
        let error = Connection::connect(&options).unwrap_err();
        eprintln!("refused as it should be: {error}");
        assert!(matches!(error, ClientError::Tls { .. }), "{error}");
    }
    root.exec("CREATE USER cert@'%' IDENTIFIED BY 'pw' REQUIRE X509").unwrap();
    let bare = login_as(&server, "cert", "pw", SslMode::Required);
    assert_eq!(who(&bare).unwrap_err().server_code(), Some(1045));
    let ssl_cert = Some(server.dir().join("client-cert.pem"));
    let ssl_key = Some(server.dir().join("client-key.pem"));
    assert_eq!(who(&ConnectOptions { ssl_cert, ssl_key, ..bare }).unwrap(), "cert@%");
    match root.exec("CREATE USER old@'%' IDENTIFIED WITH sha256_password BY 'pw'") {
        Err(error) => eprintln!("no sha256_password here: {error}"),
        Ok(_) => {
            let clear = login_as(&server, "old", "pw", SslMode::Disabled);
            assert_eq!(who(&ConnectOptions { get_server_public_key: true, ..clear }).unwrap(), "old@%");
            assert_eq!(who(&login_as(&server, "old", "pw", SslMode::Required)).unwrap(), "old@%");
        }
    }
}

#[test]
fn queries_and_statements() {
    let Some(server) = Server::or_skip("wire-query", &["--max-allowed-packet=128M"]) else { return };
    let mut c = connect_root(&server);
    c.exec("CREATE DATABASE t; USE t; CREATE TABLE n (id INT PRIMARY KEY, u BIGINT UNSIGNED, f FLOAT, d DOUBLE, s VARCHAR(50), \
            dt DATETIME(6), ti TIME(3), y YEAR, b LONGBLOB)").unwrap();
    let insert = c.prepare("INSERT INTO n VALUES (?, ?, 16777217, ?, ?, ?, ?, 2026, ?)").unwrap();
    assert_eq!(insert.parameters, 7);
    let big = vec![0x5a; 17 << 20];
    let row = |id, blob| {
        [
            Param::Int(id),
            Param::UInt(u64::MAX),
            Param::Double(0.1),
            "é".into(),
            "2026-11-21 01:02:03.000005".into(),
            "-01:02:03.5".into(),
            blob,
        ]
    };
    assert_eq!(c.execute_ok(&insert, &row(1, Param::Bytes(&big))).unwrap().affected_rows, 1);
    c.execute_ok(&insert, &row(2, Param::Null)).unwrap();
    assert_eq!(c.execute_ok(&insert, &row(2, Param::Null)).unwrap_err().server_code(), Some(1062));
    assert!(matches!(c.execute_ok(&insert, &[]), Err(ClientError::Usage { .. })));

    let select = c.prepare("SELECT * FROM n ORDER BY id").unwrap();
    assert_eq!(select.columns[1].name, "u");
    let mut rows = c.execute(&select, &[]).unwrap();
    let mut first = rows.next_row().unwrap().unwrap();
    assert_eq!(first.next_value().unwrap(), Value::Int(1));
    assert_eq!(first.next_value().unwrap(), Value::UInt(u64::MAX));
    assert_eq!(first.next_value().unwrap(), Value::Float(16_777_216.0));
    assert_eq!(first.next_value().unwrap(), Value::Double(0.1));
    assert_eq!(first.next_value().unwrap(), Value::Bytes("é".as_bytes()));
    let Value::DateTime(at) = first.next_value().unwrap() else { panic!() };
    assert_eq!((at.year, at.day, at.micros), (2026, 21, 5));
    let Value::Time(time) = first.next_value().unwrap() else { panic!() };
    assert_eq!((time.negative, time.hours, time.micros), (true, 1, 500_000));
    assert_eq!(first.next_value().unwrap(), Value::UInt(2026));
    assert!(first.next_bytes().unwrap() == Some(&big[..]));
    // A command reads the unread rows first.
    assert_eq!(c.query_value("SELECT COUNT(*) FROM n").unwrap().as_deref(), Some("2"));
    let long = c.query("SELECT REPEAT('x', 40000000), NULL").unwrap();
    assert_eq!(long.rows[0][0].as_ref().unwrap().len(), 40_000_000);
    assert_eq!(long.rows[0][1], None);
    let mut sum = 0;
    let ok = c.query_each("SELECT id FROM n", |row| {
        sum += wire::row::text_value(row)?.unwrap()[0] - b'0';
        Ok(())
    });
    assert!(ok.is_ok() && sum == 3);
    assert_eq!(c.exec("UPDATE n SET s = 'x' WHERE id > 0").unwrap().affected_rows, 2);
    c.close_statement(insert).unwrap();

    c.exec("CREATE PROCEDURE p(a INT) BEGIN SELECT a, a + 1; SELECT 'two'; UPDATE n SET s = a; END").unwrap();
    assert_eq!(c.query("CALL p(4)").unwrap().text(0, 1).as_deref(), Some("5"));
    assert_eq!(c.query_all("CALL p(4)").unwrap().len(), 3);
    let call = c.prepare("CALL p(?)").unwrap();
    for _ in 0..3 {
        let mut rows = c.execute(&call, &[Param::Int(7)]).unwrap();
        assert_eq!(rows.next_row().unwrap().unwrap().next_int().unwrap(), Some(7));
        assert!(rows.next_result().unwrap());
        assert_eq!(rows.next_row().unwrap().unwrap().next_bytes().unwrap(), Some(&b"two"[..]));
        rows.finish().unwrap();
    }
    c.exec("CREATE PROCEDURE q() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 4567; END").unwrap();
    assert_eq!(c.exec("CALL q()").unwrap_err().server_code(), Some(4567));
    c.ping().unwrap();
    assert!(!c.is_broken());

    // The same over TLS, in both directions.
    let mut tls = Connection::connect(&login_as(&server, "root", "", SslMode::Required)).unwrap();
    let check = tls.prepare("SELECT SHA2(?, 256), LENGTH(b), b FROM t.n WHERE id = 1").unwrap();
    let mut rows = tls.execute(&check, &[Param::Bytes(&big)]).unwrap();
    let mut row = rows.next_row().unwrap().unwrap();
    row.next_value().unwrap();
    assert_eq!(row.next_int().unwrap(), Some(big.len() as i64));
    assert!(row.next_bytes().unwrap() == Some(&big[..]));
}

#[test]
fn timeouts_interruption_and_kill() {
    let Some(server) = Server::or_skip("wire-wait", &[]) else { return };
    let mut root = connect_root(&server);
    for mode in [SslMode::Disabled, SslMode::Required] {
        let read_timeout = Some(Duration::from_millis(300));
        let mut c =
            Connection::connect(&ConnectOptions { read_timeout, ..login_as(&server, "root", "", mode) }).unwrap();
        assert!(c.query("SELECT SLEEP(30)").unwrap_err().is_timeout());
        assert!(matches!(c.query("SELECT 1"), Err(ClientError::Broken)));

        let mut c = Connection::connect(&login_as(&server, "root", "", mode)).unwrap();
        let interrupter = c.interrupter().unwrap();
        let id = c.connection_id();
        let waiting = std::thread::spawn(move || c.query("SELECT SLEEP(31)"));
        wait_for(|| {
            let list = root.query("SHOW PROCESSLIST").unwrap();
            let row = (0..list.rows.len()).find(|&row| list.text(row, 0) == Some(id.to_string())).unwrap();
            list.text(row, 7).as_deref() == Some("SELECT SLEEP(31)")
        });
        interrupter.shutdown();
        assert!(matches!(waiting.join().unwrap(), Err(ClientError::Interrupted)));

        let mut c = Connection::connect(&login_as(&server, "root", "", mode)).unwrap();
        root.exec(&format!("KILL {}", c.connection_id())).unwrap();
        let mut error = None;
        wait_for(|| {
            error = c.query("SELECT 1").err();
            error.is_some()
        });
        eprintln!("after KILL: {}", error.unwrap());
        assert!(c.is_broken());
    }
}

fn wait_for(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::yield_now();
    }
}

const OUR_UUID: &str = "11111111-2222-3333-4444-555555555555";

fn request(executed: &GtidSet) -> DumpRequest<'_> {
    DumpRequest {
        uuid: Some(OUR_UUID.parse::<Uuid>().unwrap()),
        register_host: "slip.example",
        register_port: 4711,
        heartbeat_period: Duration::from_millis(100),
        ..DumpRequest::new(99, executed)
    }
}

fn executed(c: &mut Connection) -> GtidSet {
    c.query_value("SELECT @@global.gtid_executed").unwrap().unwrap().parse().unwrap()
}

fn load(c: &mut Connection) {
    c.exec("CREATE DATABASE IF NOT EXISTS d; CREATE TABLE IF NOT EXISTS d.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(3000))")
        .unwrap();
    let insert = c.prepare("INSERT INTO d.t (v) VALUES (REPEAT(?, 2000))").unwrap();
    for _ in 0..200 {
        c.execute_ok(&insert, &["x".into()]).unwrap();
    }
}

/// All real events of a dump up to the end of the log, and their GTIDs.
fn dump_all(options: &ConnectOptions, have: &GtidSet) -> (Vec<Vec<u8>>, GtidSet) {
    let connection = Connection::connect(options).unwrap();
    let mut dump = start_dump(connection, &DumpRequest { non_block: true, ..request(have) }).unwrap();
    let (mut events, mut seen, mut buffered, mut first) = (Vec::new(), GtidSet::new(), 0, Vec::new());
    while let Some(event) = dump.next_event().unwrap() {
        let header = EventHeader::parse(event.event).unwrap();
        if first.len() < 2 {
            first.push(header.event_type);
        }
        if header.event_type == event_type::GTID {
            let body = binlog::event_body(event.event, binlog::ChecksumAlgorithm::Crc32).unwrap();
            seen.add(binlog::GtidEvent::parse(header.event_type, body).unwrap().gtid.unwrap());
        }
        assert!(binlog::verify_checksum(event.event), "{}", header.name());
        // Artificial events and heartbeats are not in any file.
        if header.log_pos != 0 && header.event_type != event_type::HEARTBEAT_V2 {
            events.push(event.event.to_vec());
        }
        buffered += usize::from(dump.buffered());
    }
    assert_eq!(first, [event_type::ROTATE, event_type::FORMAT_DESCRIPTION]);
    assert!(buffered * 2 > events.len(), "{buffered} of {}", events.len());
    assert!(dump.next_event().unwrap().is_none());
    (events, seen)
}

#[test]
fn dump_of_a_log_with_gtids() {
    let Some(server) = Server::or_skip("wire-dump", &[]) else { return };
    let mut root = connect_root(&server);
    let before = executed(&mut root);
    load(&mut root);
    let after = executed(&mut root);
    let clear = login_as(&server, "repl", "repl", SslMode::Disabled);
    let clear = ConnectOptions { get_server_public_key: true, ..clear };
    let (events, seen) = dump_all(&clear, &GtidSet::new());
    assert_eq!(seen, after);
    let (over_tls, _) = dump_all(&login_as(&server, "repl", "repl", SslMode::Required), &GtidSet::new());
    assert!(over_tls == events);
    let (_, rest) = dump_all(&clear, &before);
    assert_eq!(rest, after.subtract(&before));

    // The files contain the same events.
    let mut files = FileSource::open(&server.dir().join("binlog.index")).unwrap();
    let mut from_files = Vec::new();
    while let Some(event) = files.next_event().unwrap() {
        from_files.push(event.bytes.to_vec());
    }
    // The log in use has a flag set in its format description, only on disk.
    let same = |a: &[Vec<u8>]| a.iter().filter(|e| e[4] != event_type::FORMAT_DESCRIPTION).cloned().collect::<Vec<_>>();
    assert_eq!(same(&from_files), same(&events));

    // A waiting dump: is listed, sends heartbeats when idle, ends by interruption.
    let mut dump = start_dump(Connection::connect(&clear).unwrap(), &request(&after)).unwrap();
    dump.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut types = Vec::new();
    while !types.contains(&event_type::HEARTBEAT_V2) {
        types.push(dump.next_event().unwrap().unwrap().event[4]);
    }
    let replicas = root.query("SHOW REPLICAS").unwrap();
    let listed: Vec<_> = (0..5).map(|column| replicas.text(0, column).unwrap()).collect();
    eprintln!("SHOW REPLICAS: {listed:?}");
    assert_eq!((listed[0].as_str(), listed[1].as_str(), listed[2].as_str()), ("99", "slip.example", "4711"));
    assert_eq!(listed[4], OUR_UUID);
    let interrupter = dump.interrupter().unwrap();
    let waiting = std::thread::spawn(move || {
        loop {
            if let Err(error) = dump.next_event() {
                return error;
            }
        }
    });
    interrupter.shutdown();
    assert!(matches!(waiting.join().unwrap(), ClientError::Interrupted));
    // Without a heartbeat an idle source is silent: the timeout is recognised, and reading continues after it.
    let silent = DumpRequest { heartbeat_period: Duration::ZERO, ..request(&after) };
    let mut dump = start_dump(Connection::connect(&clear).unwrap(), &silent).unwrap();
    dump.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let error = loop {
        if let Err(error) = dump.next_event() {
            break error;
        }
    };
    assert!(error.is_timeout(), "{error}");
    root.exec("INSERT INTO d.t (v) VALUES ('more')").unwrap();
    wait_for(|| dump.next_event().is_ok_and(|event| event.unwrap().event[4] == event_type::XID));
    // A second dump under our uuid ends the first.
    let mut second = start_dump(Connection::connect(&clear).unwrap(), &request(&after)).unwrap();
    second.next_event().unwrap();
    dump.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let error = loop {
        if let Err(error) = dump.next_event() {
            break error;
        }
    };
    eprintln!("first of two dumps: {error}");
    assert_eq!(error.dump_refusal(), Some(client::DumpRefusal::SameUuid));
    drop(second);
    let mut ahead = after.clone();
    let uuid = root.query_value("SELECT @@server_uuid").unwrap().unwrap();
    ahead.union_with(&format!("{uuid}:9000").parse().unwrap());
    let mut dump = start_dump(Connection::connect(&clear).unwrap(), &request(&ahead)).unwrap();
    let error = loop {
        if let Err(error) = dump.next_event() {
            break error;
        }
    };
    eprintln!("more than the source: {error}");
    assert_eq!(error.dump_refusal(), Some(client::DumpRefusal::MoreGtidsThanSource));

    server.purge_binary_logs();
    let mut dump = start_dump(Connection::connect(&clear).unwrap(), &request(&before)).unwrap();
    let error = loop {
        if let Err(error) = dump.next_event() {
            break error;
        }
    };
    eprintln!("after PURGE: {error}");
    assert_eq!(error.server_code(), Some(1236));
    assert_eq!(error.dump_refusal(), Some(client::DumpRefusal::Purged));
    let none = GtidSet::new();
    let input = PreflightInput {
        server_id: 99,
        uuid: None,
        executed: &before,
        retrieved: &none,
        store_empty: false,
        has_others: false,
    };
    let report = preflight::check(&mut Connection::connect(&clear).unwrap(), input).unwrap();
    report.problems.iter().for_each(|problem| eprintln!("preflight: {problem}"));
    assert_eq!(report.exit_code(), 5);
}

#[test]
fn semi_synchronous_acknowledgements() {
    let options = [
        "--plugin-load-add=semisync_source.so",
        "--rpl-semi-sync-source-enabled=1",
        "--rpl-semi-sync-source-timeout=60000",
    ];
    let Some(server) = Server::or_skip("wire-semi", &options) else { return };
    let mut root = connect_root(&server);
    for mode in [SslMode::Disabled, SslMode::Required] {
        let have = executed(&mut root);
        let login = ConnectOptions { get_server_public_key: true, ..login_as(&server, "repl", "repl", mode) };
        let asked = DumpRequest { semi_sync: true, ..request(&have) };
        let mut dump = start_dump(Connection::connect(&login).unwrap(), &asked).unwrap();
        assert!(dump.semi_sync());
        wait_for(|| status(&mut root, "Rpl_semi_sync_source_clients") == "1");
        let acknowledged = status(&mut root, "Rpl_semi_sync_source_yes_tx").parse::<u32>().unwrap();
        let mut writer = connect_root(&server);
        let writing = std::thread::spawn(move || {
            writer.exec("CREATE DATABASE IF NOT EXISTS s; CREATE TABLE IF NOT EXISTS s.t (i INT)").unwrap();
            for i in 0..20 {
                writer.exec(&format!("INSERT INTO s.t VALUES ({i})")).unwrap();
            }
        });
        let (mut file, mut acks, mut waited) = (String::new(), 0, false);
        while acks < 22 {
            let event = dump.next_event().unwrap().unwrap();
            let header = EventHeader::parse(event.event).unwrap();
            if header.event_type == event_type::ROTATE {
                let body = binlog::event_body(event.event, binlog::ChecksumAlgorithm::Crc32).unwrap();
                file = String::from_utf8(binlog::Rotate::parse(body).unwrap().file.to_vec()).unwrap();
            }
            if event.ack_wanted {
                // The source's session waits for us.
                waited |= status(&mut root, "Rpl_semi_sync_source_wait_sessions") == "1";
                acks += 1;
                dump.ack(&file, u64::from(header.log_pos)).unwrap();
            }
        }
        writing.join().unwrap();
        assert!(waited);
        assert_eq!(status(&mut root, "Rpl_semi_sync_source_no_tx"), "0");
        let now = status(&mut root, "Rpl_semi_sync_source_yes_tx").parse::<u32>().unwrap();
        eprintln!("{mode:?}: acknowledged {acknowledged} -> {now}");
        assert!(now >= acknowledged + 22);
        drop(dump);
        root.exec("SET GLOBAL rpl_semi_sync_source_enabled = 0").unwrap();
        // We register even if it is off, because it may be switched on later.
        let off = start_dump(Connection::connect(&login).unwrap(), &asked).unwrap();
        assert!(off.semi_sync());
        drop(off);
        wait_for(|| status(&mut root, "Rpl_semi_sync_source_clients") == "0");
        root.exec("SET GLOBAL rpl_semi_sync_source_enabled = 1").unwrap();
    }
}

fn status(c: &mut Connection, name: &str) -> String {
    c.query(&format!("SHOW GLOBAL STATUS LIKE '{name}'")).unwrap().text(0, 1).unwrap()
}

fn problems(server: &Server, options: &ConnectOptions, server_id: u32) -> String {
    let none = GtidSet::new();
    let input = PreflightInput {
        server_id,
        uuid: None,
        executed: &none,
        retrieved: &none,
        store_empty: true,
        has_others: false,
    };
    let report = preflight::check(&mut Connection::connect(options).unwrap(), input).unwrap();
    let text: String = report.problems.iter().map(|problem| format!("{:?}: {problem}\n", problem.severity)).collect();
    eprintln!("preflight of {}: exit {}, {:?}\n{text}", server.name(), report.exit_code(), report.facts.clock);
    text
}

#[test]
fn preflight_names_each_problem() {
    let Some(server) = Server::or_skip("wire-flight", &[]) else { return };
    let repl = login_as(&server, "repl", "repl", SslMode::Preferred);
    let mut root = connect_root(&server);
    root.exec("SET GLOBAL sync_binlog = 0, GLOBAL innodb_flush_log_at_trx_commit = 2").unwrap();
    let text = problems(&server, &repl, 4_000_000_000);
    assert!(text.starts_with("Warning: sync_binlog is 0 and innodb_flush_log_at_trx_commit is 2"), "{text}");
    root.exec("SET GLOBAL sync_binlog = 1, GLOBAL innodb_flush_log_at_trx_commit = 1").unwrap();
    assert_eq!(problems(&server, &repl, 4_000_000_000), "");
    root.exec(
        "CREATE USER bare@'%'; CREATE ROLE r; GRANT REPLICATION SLAVE ON *.* TO r; GRANT r TO bare@'%'; \
               ALTER USER bare@'%' DEFAULT ROLE r",
    )
    .unwrap();
    let text = problems(&server, &login_as(&server, "bare", "", SslMode::Preferred), 4_000_000_000);
    assert!(text.contains("GRANT REPLICATION CLIENT, SELECT ON *.* TO 'bare'@'%';"), "{text}");
    let source_id = root.query_value("SELECT @@server_id").unwrap().unwrap().parse().unwrap();
    assert!(problems(&server, &repl, source_id).contains("is the source's own"));
    assert!(problems(&server, &repl, 0).contains("our server id is 0"));
    let none = GtidSet::new();
    let _dump = start_dump(Connection::connect(&repl).unwrap(), &request(&none)).unwrap();
    wait_for(|| !root.query("SHOW REPLICAS").unwrap().rows.is_empty());
    assert!(problems(&server, &repl, 99).contains("another replica (host 'slip.example'"));
    root.exec("SET GLOBAL gtid_mode = ON_PERMISSIVE; SET GLOBAL binlog_format = MIXED").unwrap();
    let text = problems(&server, &repl, 7);
    assert!(text.contains("gtid_mode is ON_PERMISSIVE") && text.contains("binlog_format is MIXED"), "{text}");
    drop(server);
    let off = ["--skip-log-bin", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"];
    let Some(server) = Server::or_skip("wire-nolog", &off) else { return };
    let text = problems(&server, &login_as(&server, "root", "", SslMode::Preferred), 7);
    assert!(text.contains("log_bin is OFF") && text.contains("gtid_mode is OFF"), "{text}");
}

#[test]
fn mariadb_native_password_and_refusal() {
    let Some(server) = Server::mariadb_or_skip("wire-maria", &[]) else { return };
    let login = ConnectOptions { socket: Some(server.socket()), ..ConnectOptions::default() };
    let mut root = Connection::connect(&login).unwrap();
    root.exec("CREATE USER native@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('pw')").unwrap();
    assert!(who(&login_as(&server, "native", "pw", SslMode::Preferred)).unwrap().starts_with("native@"));
    let wrong = login_as(&server, "native", "wrong", SslMode::Preferred);
    assert_eq!(who(&wrong).unwrap_err().server_code(), Some(1045));
    let mut c = Connection::connect(&login_as(&server, "native", "pw", SslMode::Disabled)).unwrap();
    let select = c.prepare("SELECT ?, 'a'").unwrap();
    let mut rows = c.execute(&select, &[Param::Int(5)]).unwrap();
    assert_eq!(rows.next_row().unwrap().unwrap().next_int().unwrap(), Some(5));
    eprintln!("MariaDB {}", c.server_version());
    assert!(
        problems(&server, &login_as(&server, "native", "pw", SslMode::Preferred), 7).contains("the source is MariaDB")
    );
}
