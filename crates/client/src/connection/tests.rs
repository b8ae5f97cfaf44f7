//! What servers that lie can make a client keep or believe.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};

use wire::handshake::{Greeting, capability};
use wire::packet::{self, PacketBuffer};
use wire::response::ColumnDefinition;
use wire::server::{ServerOk, put_err, put_ok, put_rows_end};

use super::login::LOGIN_PACKET_BYTES_MAX;
use super::{Connection, ResultSet};
use crate::session::gtid_executed;
use crate::{ClientError, ConnectOptions, SslMode};

const CAPABILITIES: u32 =
    capability::PROTOCOL_41 | capability::SECURE_CONNECTION | capability::PLUGIN_AUTH | capability::DEPRECATE_EOF;

/// The server's end of a connection.
struct Peer {
    stream: TcpStream,
    input: PacketBuffer,
    sequence: u8,
}

impl Peer {
    /// Sends packets; false once the client is gone.
    fn send(&mut self, payloads: &[&[u8]]) -> bool {
        let mut out = Vec::new();
        payloads.iter().for_each(|payload| packet::write(&mut out, &mut self.sequence, payload));
        self.stream.write_all(&out).is_ok()
    }

    fn read(&mut self) {
        use std::io::Read as _;
        while self.input.take().unwrap().is_none() {
            let len = self.stream.read(self.input.spare()).unwrap();
            assert!(len > 0, "the client closed");
            self.input.filled(len);
        }
        self.sequence = self.input.sequence();
    }

    fn command(&mut self) {
        self.read();
    }

    fn ok(&mut self) {
        let mut ok = Vec::new();
        put_ok(&mut ok, &ServerOk::default(), CAPABILITIES);
        self.send(&[&ok]);
    }

    fn greet(&mut self) {
        let mut greeting = Vec::new();
        Greeting {
            server_version: "9.7.4".into(),
            connection_id: 7,
            capabilities: CAPABILITIES,
            collation: 255,
            auth_plugin: "mysql_native_password".into(),
            nonce: vec![b'n'; 20],
        }
        .write(&mut greeting);
        self.send(&[&greeting]);
        self.read();
    }

    fn log_in(&mut self) {
        self.greet();
        self.ok();
    }

    /// Begins a result of one column.
    fn one_column(&mut self) {
        self.send(&[&[1], &definition(b"x")]);
    }

    fn end(&mut self) {
        let mut end = Vec::new();
        put_rows_end(&mut end, &ServerOk::default(), CAPABILITIES);
        self.send(&[&end]);
    }
}

fn definition(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    ColumnDefinition::of_text(name).write(&mut out);
    out
}

/// A value that begins with its length.
fn value(len: usize) -> Vec<u8> {
    let mut row = vec![0xfd];
    row.extend_from_slice(&u32::try_from(len).unwrap().to_le_bytes()[..3]);
    row.resize(row.len() + len, b'z');
    row
}

/// What a client gets from a server that behaves like this.
fn with<T>(serve: impl FnOnce(&mut Peer) + Send, ask: impl FnOnce(&ConnectOptions) -> T) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut options = ConnectOptions::from_url(&format!("mysql://u{port}:secret@127.0.0.1:{port}")).unwrap();
    options.ssl_mode = SslMode::Disabled;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut input = PacketBuffer::new(1 << 20);
            input.accept_any_sequence();
            serve(&mut Peer { stream, input, sequence: 0 });
        });
        ask(&options)
    })
}

fn after_login<T>(serve: impl FnOnce(&mut Peer) + Send, ask: impl FnOnce(&mut Connection) -> T) -> T {
    let serve = |peer: &mut Peer| {
        peer.log_in();
        peer.command();
        serve(peer);
    };
    with(serve, |options| ask(&mut Connection::connect(options).unwrap()))
}

fn is_too_large<T>(answer: crate::Result<T>, connection: &Connection) {
    let error = answer.err().unwrap();
    assert!(matches!(error, ClientError::AnswerTooLarge { .. }), "{error}");
    assert!(connection.is_broken() && !error.is_transient());
}

#[test]
fn a_first_packet_that_is_no_greeting_is_not_kept() {
    // Only its header comes: no byte of it is waited for.
    let len = u32::try_from(LOGIN_PACKET_BYTES_MAX + 1).unwrap().to_le_bytes();
    let serve = |peer: &mut Peer| peer.stream.write_all(&[len[0], len[1], len[2], 0]).unwrap();
    let error = with(serve, Connection::connect).unwrap_err();
    assert!(matches!(error, ClientError::LoginTooLarge), "{error}");
}

#[test]
fn a_packet_of_the_login_is_not_kept_either_and_one_of_64_kib_after_it_is() {
    let serve = |peer: &mut Peer| {
        peer.log_in();
        peer.command();
        peer.one_column();
        peer.send(&[&value(LOGIN_PACKET_BYTES_MAX)]);
        peer.end();
    };
    let ask = |options: &ConnectOptions| Connection::connect(options).unwrap().query_value("SELECT 1");
    assert_eq!(with(serve, ask).unwrap().unwrap().len(), LOGIN_PACKET_BYTES_MAX);
    let serve = |peer: &mut Peer| {
        peer.greet();
        let mut switch = b"\xfemysql_native_password\0".to_vec();
        switch.resize(LOGIN_PACKET_BYTES_MAX + 1, b'n');
        peer.send(&[&switch]);
    };
    let error = with(serve, Connection::connect).unwrap_err();
    assert!(matches!(error, ClientError::LoginTooLarge), "{error}");
}

#[test]
fn an_answer_that_does_not_end_is_given_up() {
    let rows = |peer: &mut Peer| {
        peer.one_column();
        let row = value(1 << 20);
        // Ends, so that the test does too if nothing is given up.
        let _ = (0..80).all(|_| peer.send(&[&row]));
        peer.end();
    };
    after_login(rows, |connection| {
        let answer = connection.query("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('a', 'b', 'c', 'd', 'e', 'f')");
        let text = answer.as_ref().unwrap_err().to_string();
        assert!(text.contains("the answer to SHOW GLOBAL VARIABLES") && text.contains("64 MiB"), "{text}");
        is_too_large(answer, connection);
    });
    let set = |peer: &mut Peer| {
        peer.one_column();
        let _ = (0..17).all(|_| peer.send(&[&value(1 << 20)]));
        peer.end();
    };
    after_login(set, |connection| {
        let answer = crate::session::gtid_executed(connection);
        let text = answer.as_ref().unwrap_err().to_string();
        assert!(text.contains("the answer to SELECT @@GLOBAL.gtid_executed") && text.contains("16 MiB"), "{text}");
        is_too_large(answer, connection);
    });
    // Row by row it may be as long as it wants.
    let count = after_login(rows, |connection| {
        let mut count = 0;
        let each = |_: &mut wire::read::Reader<'_>| {
            count += 1;
            Ok(())
        };
        connection.query_each("SELECT x FROM t", each).unwrap();
        count
    });
    assert_eq!(count, 80);
}

#[test]
fn one_row_or_rows_of_nothing_count_too() {
    let row = |peer: &mut Peer| {
        peer.one_column();
        let row = value((16 << 20) - 5);
        let mut long = row.clone();
        (0..4).for_each(|_| long.extend_from_slice(&row));
        peer.send(&[&long]);
        peer.end();
    };
    after_login(row, |connection| is_too_large(connection.query("SELECT x"), connection));
    let nulls = |peer: &mut Peer| {
        peer.one_column();
        let rows = vec![[0xfb].as_slice(); 10_000];
        let _ = (0..150).all(|_| peer.send(&rows));
        peer.end();
    };
    after_login(nulls, |connection| is_too_large(connection.query_all("SELECT x"), connection));
}

#[test]
fn definitions_of_columns_count_too() {
    let columns = |peer: &mut Peer| {
        peer.send(&[&[0xfc, 0xff, 0xff]]);
        let definition = definition(&vec![b'n'; 60_000]);
        let _ = (0..400).all(|_| peer.send(&[&definition]));
    };
    after_login(columns, |connection| is_too_large(connection.query("SELECT x"), connection));
    after_login(columns, |connection| is_too_large(connection.exec("SELECT x"), connection));
}

#[test]
fn the_text_of_an_error_is_one_short_line() {
    let fails = |peer: &mut Peer| {
        let mut error = Vec::new();
        let text = format!("evil \u{1b}[31m\n2026-11-29 [System] forged\u{9b}{}", "x".repeat(100_000));
        put_err(&mut error, 1105, "HY000", &text);
        peer.send(&[&error]);
    };
    let error = after_login(fails, |connection| connection.query("SELECT 1").unwrap_err().to_string());
    assert!(error.starts_with("error 1105 (HY000): evil ?[31m 2026-11-29 [System] forged?xxx"), "{error}");
    assert!(error.len() < 5_000, "{}", error.len());
}

#[test]
fn a_value_that_cannot_be_read_is_named() {
    let value = |value: Option<&str>| value.map(|text| text.as_bytes().to_vec());
    let rows = vec![vec![value(Some("12")), value(None), value(Some("evil\n\u{1b}[31m"))]];
    let result = ResultSet { rows, ..ResultSet::default() };
    assert_eq!(result.told::<u8>(0, 0, "SELECT a, b, c").unwrap(), 12);
    let error = |row, column| result.told::<u8>(row, column, "SELECT a, b, c").unwrap_err();
    assert_eq!(error(0, 1).to_string(), "unexpected answer to SELECT a, b, c: column 2 is NULL or missing");
    assert_eq!(error(1, 0).to_string(), "unexpected answer to SELECT a, b, c: column 1 is NULL or missing");
    assert_eq!(error(0, 2).to_string(), r"unexpected answer to SELECT a, b, c: column 3 is 'evil\n\u{1b}[31m'");
    assert!(!error(0, 1).is_transient());
}

#[test]
fn a_set_that_is_not_told_is_not_an_empty_one() {
    let of = |row: &'static [u8]| {
        let serve = move |peer: &mut Peer| {
            peer.one_column();
            peer.send(&[row]);
            peer.end();
        };
        after_login(serve, gtid_executed)
    };
    assert_eq!(of(b"\0").unwrap(), Some(base::GtidSet::new()));
    for (row, found) in [(b"\xfb".as_slice(), "x is NULL or missing"), (b"\x01y", "x is 'y'")] {
        let error = of(row).unwrap_err().to_string();
        assert_eq!(error, format!("unexpected answer to SELECT @@GLOBAL.gtid_executed: {found}"));
    }
}
