//! Logins and answers without a socket.

use wire::command;
use wire::handshake::{Greeting, capability};
use wire::response::{ColumnDefinition, is_err, status};
use wire::server::{ServerOk, put_err, put_ok, put_rows_end};

use super::{AnswerSteps, LoginStep, LoginSteps};
use crate::{ClientError, ConnectOptions, SslMode};

const OFFERED: u32 =
    capability::PROTOCOL_41 | capability::SECURE_CONNECTION | capability::PLUGIN_AUTH | capability::DEPRECATE_EOF;

fn greeting(capabilities: u32) -> Vec<u8> {
    let mut out = Vec::new();
    Greeting {
        server_version: "9.7.4".into(),
        connection_id: 7,
        capabilities,
        collation: 255,
        auth_plugin: "caching_sha2_password".into(),
        nonce: vec![1; 20],
    }
    .write(&mut out);
    out
}

fn packet(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn ok(status: u16) -> Vec<u8> {
    packet(|out| put_ok(out, &ServerOk { status, ..ServerOk::default() }, OFFERED))
}

#[test]
fn a_login_says_what_to_send_and_when_it_is_done() {
    let options = ConnectOptions {
        user: "ann".into(),
        password: Some("secret".into()),
        ssl_mode: SslMode::Disabled,
        ..ConnectOptions::default()
    };
    let mut login = LoginSteps::new(&options, None);
    let LoginStep::Send(first) = login.packet(&greeting(OFFERED)).unwrap() else { panic!() };
    assert!(first.windows(4).any(|bytes| bytes == b"ann\0") && !first.windows(6).any(|bytes| bytes == b"secret"));
    assert_eq!(login.capabilities() & capability::SSL, 0);
    // fast_auth_success
    assert_eq!(login.packet(&[1, 3]).unwrap(), LoginStep::Read);
    assert_eq!(login.packet(&ok(2)).unwrap(), LoginStep::Done);
    assert!(!login.gave_password());
    assert_eq!(login.into_greeting().connection_id, 7);
}

#[test]
fn nothing_but_the_request_goes_before_tls() {
    let options = ConnectOptions {
        user: "ann".into(),
        password: Some("secret".into()),
        ssl_mode: SslMode::Required,
        ..ConnectOptions::default()
    };
    let mut login = LoginSteps::new(&options, None);
    let LoginStep::SendThenSecure(request) = login.packet(&greeting(OFFERED | capability::SSL)).unwrap() else {
        panic!()
    };
    assert!(!request.windows(3).any(|bytes| bytes == b"ann"), "the account's name");
    assert!(matches!(login.packet(&ok(2)), Err(ClientError::UnexpectedAnswer { .. })), "a packet before TLS");
    let LoginStep::Send(_) = login.secured().unwrap() else { panic!() };
    // perform_full_authentication: the password itself, since TLS hides it.
    assert_eq!(login.packet(&[1, 4]).unwrap(), LoginStep::Send(b"secret\0".to_vec()));
    assert!(login.gave_password());
    let refused = packet(|out| put_err(out, 1045, "28000", "Access denied"));
    assert!(matches!(login.packet(&refused).unwrap(), LoginStep::Refused(error) if error.code == 1045));

    let mut login = LoginSteps::new(&options, None);
    assert!(matches!(login.packet(&greeting(OFFERED)), Err(ClientError::Tls { .. })), "no TLS offered");
}

#[test]
fn a_login_without_an_end_ends() {
    let options = ConnectOptions { ssl_mode: SslMode::Disabled, ..ConnectOptions::default() };
    let mut login = LoginSteps::new(&options, None);
    login.packet(&greeting(OFFERED)).unwrap();
    assert!((0..100).any(|_| login.packet(&[1, 3]).is_err()));
}

/// Packets of an answer, by what they are.
struct Kit {
    deprecates_eof: bool,
}

impl Kit {
    fn column(&self) -> Vec<u8> {
        packet(|out| ColumnDefinition::parse(&definition()).unwrap().write(out))
    }

    fn eof(&self, status: u16) -> Option<Vec<u8>> {
        (!self.deprecates_eof).then(|| self.end(status))
    }

    fn end(&self, status: u16) -> Vec<u8> {
        let capabilities = if self.deprecates_eof { capability::DEPRECATE_EOF } else { 0 };
        packet(|out| put_rows_end(out, &ServerOk { status, ..ServerOk::default() }, capabilities))
    }

    fn rows(&self, status: u16) -> Vec<Vec<u8>> {
        let head = [vec![2], self.column(), self.column()];
        let rows = [b"\x01a\x01b".to_vec(), b"\xfb\xfb".to_vec()];
        head.into_iter().chain(self.eof(2)).chain(rows).chain([self.end(status)]).collect()
    }
}

fn definition() -> Vec<u8> {
    let definition = ColumnDefinition {
        schema: b"s",
        table: b"t",
        org_table: b"t",
        name: b"c",
        org_name: b"c",
        collation: 255,
        length: 4,
        type_code: 253,
        flags: 0,
        decimals: 0,
    };
    packet(|out| definition.write(out))
}

#[test]
fn an_answer_ends_where_the_server_ends_it() {
    let err = packet(|out| put_err(out, 1064, "42000", "You have an error"));
    for deprecates_eof in [true, false] {
        let kit = Kit { deprecates_eof };
        let prepared = |columns: u8, parameters: u8| vec![0, 1, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0];
        let eof = || kit.eof(2).into_iter().collect::<Vec<_>>();
        let many = |parts: &[Vec<Vec<u8>>]| parts.concat();
        let answers = [
            (command::QUERY, vec![ok(2)]),
            (command::QUERY, vec![err.clone()]),
            (command::QUERY, kit.rows(2)),
            (command::QUERY, many(&[kit.rows(2 | status::MORE_RESULTS_EXISTS), kit.rows(2)])),
            (command::QUERY, many(&[vec![ok(status::MORE_RESULTS_EXISTS)], kit.rows(2)])),
            (command::QUERY, many(&[kit.rows(status::MORE_RESULTS_EXISTS), vec![err.clone()]])),
            // An error in the middle of rows, and of definitions.
            (command::QUERY, many(&[vec![vec![1], kit.column()], eof(), vec![b"\x01a".to_vec(), err.clone()]])),
            (command::QUERY, vec![vec![2], kit.column(), err.clone()]),
            // Without metadata.
            (command::STMT_EXECUTE, many(&[vec![vec![1, 0]], eof(), vec![vec![0, 0, 1, b'a'], kit.end(2)]])),
            (command::STMT_PREPARE, vec![err.clone()]),
            (command::STMT_PREPARE, vec![prepared(0, 0)]),
            (
                command::STMT_PREPARE,
                many(&[vec![prepared(1, 2), kit.column(), kit.column()], eof(), vec![kit.column()], eof()]),
            ),
            (command::STMT_FETCH, vec![vec![0, 0, 1, b'a'], kit.end(2)]),
            (command::STMT_FETCH, vec![err.clone()]),
            (command::FIELD_LIST, vec![kit.column(), vec![0xfe, 0, 0, 2, 0]]),
            (command::PING, vec![ok(2)]),
            (command::STATISTICS, vec![b"Uptime: 5".to_vec()]),
        ];
        for (code, packets) in answers {
            let mut steps = AnswerSteps::new(code, deprecates_eof);
            for (at, packet) in packets.iter().enumerate() {
                assert!(!steps.is_over(), "{code}: {at} of {packets:?}");
                steps.packet(packet).unwrap();
                assert!(!is_err(packet) || steps.is_over(), "{code}: {packets:?}");
            }
            assert!(steps.is_over(), "{code}, {deprecates_eof}: {packets:?}");
            assert!(steps.packet(&ok(2)).is_err(), "one too many");
        }
    }
    // An execution that opens a cursor: rows are fetched.
    let kit = Kit { deprecates_eof: false };
    let mut steps = AnswerSteps::new(command::STMT_EXECUTE, false);
    for packet in [vec![1], kit.column(), kit.end(status::CURSOR_EXISTS)] {
        assert!(!steps.is_over());
        steps.packet(&packet).unwrap();
    }
    assert!(steps.is_over());
    for code in [command::QUIT, command::STMT_CLOSE, command::STMT_SEND_LONG_DATA] {
        assert!(AnswerSteps::new(code, true).is_over());
    }
    let mut steps = AnswerSteps::new(command::QUERY, true);
    assert!(matches!(steps.packet(b"\xfb/etc/passwd"), Err(ClientError::UnexpectedAnswer { .. })));
}
