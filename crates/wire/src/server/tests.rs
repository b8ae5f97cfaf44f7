//! The client side parses what the server side writes, and the reverse.

use proptest::prelude::*;

use super::*;
use crate::WireError;
use crate::command::{self, Registration};
use crate::handshake::{FirstPacket, Greeting, Login, capability};
use crate::packet::{MAX_FRAME_LEN, MAX_PAYLOAD_LEN};
use crate::read::{Reader, put_lenenc, put_lenenc_bytes};
use crate::response::{
    Answer, ColumnDefinition, ErrPacket, OkPacket, PrepareOk, column_flag, ends_rows, rows_end, status,
};
use crate::row::{BinaryRow, DateTime, Param, Time, Value, ValueType, text_value, type_code};

fn written(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out);
    out
}

/// Payloads of the packets that a client receives, from sequence id 1.
fn payloads(out: &[u8]) -> Vec<Vec<u8>> {
    let mut buffer = PacketBuffer::new(MAX_PAYLOAD_LEN);
    buffer.expect_sequence(1);
    let (mut found, mut rest) = (Vec::new(), out);
    loop {
        while let Some(range) = buffer.take().unwrap() {
            found.push(buffer.payload(range).to_vec());
        }
        if rest.is_empty() {
            return found;
        }
        let room = buffer.spare();
        let (now, later) = rest.split_at(room.len().min(rest.len()));
        room[..now.len()].copy_from_slice(now);
        buffer.filled(now.len());
        rest = later;
    }
}

fn feed(stream: &mut ServerStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let room = stream.spare();
        let (now, later) = bytes.split_at(room.len().min(bytes.len()));
        room[..now.len()].copy_from_slice(now);
        stream.filled(now.len());
        bytes = later;
    }
}

#[test]
fn a_client_reads_greeting_ok_and_err() {
    let greeting = Greeting {
        server_version: "9.7.4".into(),
        connection_id: 5,
        capabilities: capability::PROTOCOL_41 | capability::SECURE_CONNECTION | capability::PLUGIN_AUTH,
        collation: 255,
        auth_plugin: "caching_sha2_password".into(),
        nonce: (1..=20).collect(),
    };
    let out = written(|out| greeting.write(out));
    assert_eq!(Greeting::parse(&out).unwrap(), FirstPacket::Greeting(greeting));
    let ok = OkPacket::parse(&written(|out| put_ok(out, &ServerOk::default(), 0))).unwrap();
    assert_eq!(ok, OkPacket { status: status::AUTOCOMMIT, ..OkPacket::default() });
    let err = ErrPacket::parse(&written(|out| put_err(out, 1236, "HY000", "gone"))).unwrap();
    assert_eq!((err.code, err.sqlstate.as_str(), err.message.as_str()), (1236, "HY000", "gone"));
}

#[test]
fn logins_with_and_without_lengths() {
    for more in [0, capability::PLUGIN_AUTH_LENENC_CLIENT_DATA, capability::SSL] {
        let capabilities = capability::PROTOCOL_41
            | capability::SECURE_CONNECTION
            | capability::PLUGIN_AUTH
            | capability::CONNECT_WITH_DB
            | capability::CONNECT_ATTRS
            | more;
        let login = Login {
            capabilities,
            collation: 255,
            user: "u",
            auth_response: b"xyz",
            database: "d",
            auth_plugin: "p",
            attributes: &[("_os", "Linux"), ("program_name", "")],
        };
        let out = written(|out| login.write(out));
        let LoginRequest::Login(read) = LoginRequest::parse(&out).unwrap() else { panic!("a login") };
        assert_eq!((read.capabilities, read.collation), (capabilities, 255));
        assert_eq!(
            (read.user, read.auth_response, read.database, read.auth_plugin),
            (&b"u"[..], &b"xyz"[..], &b"d"[..], &b"p"[..])
        );
        let attributes: Vec<_> = read.attributes.collect();
        assert_eq!(attributes, [(&b"_os"[..], &b"Linux"[..]), (&b"program_name"[..], &b""[..])]);
    }
}

#[test]
fn a_client_that_wants_tls_says_so_first() {
    let capabilities = capability::PROTOCOL_41 | capability::SSL;
    let login = Login {
        capabilities,
        collation: 45,
        user: "u",
        auth_response: b"",
        database: "",
        auth_plugin: "",
        attributes: &[],
    };
    let out = written(|out| login.ssl_request(out));
    let LoginRequest::WantsTls(request) = LoginRequest::parse(&out).unwrap() else { panic!("no login yet") };
    assert_eq!((request.capabilities, request.collation, request.packet_bytes_max), (capabilities, 45, 1 << 30));
    // Without the capability bit a login ends there, and a few more bytes are a truncated login.
    assert!(
        LoginRequest::parse(&written(|out| Login { capabilities: capability::PROTOCOL_41, ..login }.ssl_request(out)))
            .is_err()
    );
    assert!(LoginRequest::parse(&[&out[..], b"u"].concat()).is_err());
}

#[test]
fn commands_of_a_replica() {
    let registration = Registration { server_id: 9, host: "h", port: 1 };
    let parse = |bytes: &'static [u8]| ClientCommand::parse(bytes, 0).unwrap();
    let bytes = written(|out| command::put_register(out, &registration));
    let registered = ClientCommand::Register { server_id: 9, host: b"h", port: 1 };
    assert_eq!(ClientCommand::parse(&bytes, 0).unwrap(), registered);
    let bytes = written(|out| command::put_dump(out, 9, "b.1", 400, 2));
    let wanted = DumpFrom { position: 400, flags: 2, server_id: 9, file: b"b.1" };
    assert_eq!(ClientCommand::parse(&bytes, 0).unwrap(), ClientCommand::Dump(wanted));
    let bytes = written(|out| command::put_dump_gtid(out, 9, b"set", 3));
    let wanted = ClientCommand::DumpGtid { flags: 3, server_id: 9, gtid_set: b"set" };
    assert_eq!(ClientCommand::parse(&bytes, 0).unwrap(), wanted);
    let query = Query { sql: b"SELECT 1", attributes: BoundParams::default() };
    assert_eq!(parse(b"\x03SELECT 1"), ClientCommand::Query(query));
    assert_eq!(parse(b"\x02db"), ClientCommand::InitDb(b"db"));
    assert_eq!(parse(b"\x1f"), ClientCommand::ResetConnection);
    assert_eq!(parse(b"\x0c\x01\0\0\0"), ClientCommand::Other(0x0c));
}

#[test]
fn commands_of_sessions() {
    let parse = |bytes: &'static [u8]| ClientCommand::parse(bytes, 0).unwrap();
    assert_eq!(parse(b"\x04t\0a%"), ClientCommand::FieldList { table: b"t", pattern: b"a%" });
    assert_eq!(parse(b"\x09"), ClientCommand::Statistics);
    assert_eq!(parse(b"\x11x"), ClientCommand::ChangeUser);
    assert_eq!(parse(b"\x1b\x01\0"), ClientCommand::SetOption(1));
}

#[test]
fn commands_of_prepared_statements() {
    let parse = |bytes: &'static [u8]| ClientCommand::parse(bytes, 0).unwrap();
    assert_eq!(parse(b"\x16SELECT ?"), ClientCommand::Prepare(b"SELECT ?"));
    assert_eq!(parse(b"\x19\x07\0\0\0"), ClientCommand::Close(7));
    assert_eq!(parse(b"\x1a\x07\0\0\0"), ClientCommand::Reset(7));
    assert_eq!(parse(b"\x1c\x07\0\0\0\x64\0\0\0"), ClientCommand::Fetch { statement_id: 7, rows: 100 });
    let long = ClientCommand::SendLongData { statement_id: 7, parameter: 1, data: b"abc" };
    assert_eq!(parse(b"\x18\x07\0\0\0\x01\0abc"), long);
    assert_eq!(written(|out| command::put_close(out, 7)), b"\x19\x07\0\0\0");
    let ok = PrepareOk { statement_id: 7, columns: 300, parameters: 2 };
    let out = written(|out| ok.write(out, 1));
    assert_eq!((PrepareOk::parse(&out).unwrap(), out.len()), (ok, 12));
}

fn execute(bytes: &[u8], capabilities: u32) -> Execute<'_> {
    match ClientCommand::parse(bytes, capabilities).unwrap() {
        ClientCommand::Execute(execute) => execute,
        other => panic!("{other:?}"),
    }
}

#[test]
fn parameters_come_as_they_were_given() {
    let params = [Param::Null, Param::Int(-2), Param::UInt(u64::MAX), Param::Double(0.5), Param::Bytes(b"ab")];
    let bytes = written(|out| command::put_execute(out, 7, &params));
    let sent = execute(&bytes, 0);
    assert_eq!((sent.statement_id, sent.flags), (7, 0));
    let bound = sent.params(5, &[], &|_| false).unwrap();
    let wanted =
        [Value::Null, Value::Int(-2), Value::UInt(u64::MAX), Value::Double(0.5), Value::Bytes(b"ab")].map(Some);
    assert_eq!(bound.values, wanted);
    assert!(sent.params(6, &[], &|_| false).is_err());
    // What follows is not looked at.
    let longer = [&bytes[..], b"more"].concat();
    assert_eq!(execute(&longer, 0).params(5, &[], &|_| false).unwrap().values, wanted);
    // A text that ends too early is as long as it is; a number is an error.
    let packet = |value: &[u8]| [b"\x17\x07\0\0\0\0\x01\0\0\0\0\x01\xfd\0", value].concat();
    for (value, read) in [(&b"\x05ab"[..], &b"ab"[..]), (b"\xfc\xff\xff", b""), (b"\xfbab", b"ab")] {
        let packet = packet(value);
        let bound = execute(&packet, 0).params(1, &[], &|_| false).unwrap();
        assert_eq!(bound.values, [Some(Value::Bytes(read))], "{value:?}");
    }
    for value in [&b"\xff"[..], b"", b"\xfc\xff"] {
        assert!(execute(&packet(value), 0).params(1, &[], &|_| false).is_err(), "{value:?}");
    }
    // A second execution without types uses those of the first.
    let mut again = bytes[..10].to_vec();
    again.extend_from_slice(&[0b11101, 0]);
    again.extend_from_slice(&5i64.to_le_bytes());
    let values = execute(&again, 0).params(5, &bound.types, &|_| false).unwrap().values;
    assert_eq!(values, [Value::Null, Value::Int(5), Value::Null, Value::Null, Value::Null].map(Some));
    assert!(execute(&again, 0).params(5, &[], &|_| false).is_err(), "of what type?");
    // Values sent as long data are not in the packet.
    let mut long = written(|out| command::put_execute(out, 7, &[Param::Int(1), Param::Bytes(b"")]));
    long.pop();
    assert_eq!(execute(&long, 0).params(2, &[], &|index| index == 1).unwrap().values, [Some(Value::Int(1)), None]);
    assert_eq!(execute(b"\x17\x07\0\0\0\0\x01\0\0\0", 0).params(0, &[], &|_| false).unwrap(), BoundParams::default());
    assert!(ClientCommand::parse(b"\x17\x07\0\0\0\0\x01\0\0", 0).is_err(), "too short");
}

#[test]
fn parameters_are_sent_on_to_another_statement() {
    let at = DateTime { year: 2026, month: 1, day: 2, hour: 3, minute: 4, second: 5, micros: 6 };
    let time = Time { negative: true, days: 1, hours: 2, minutes: 3, seconds: 4, micros: 0 };
    let all = [
        (type_code::TINY, false, Value::Int(-3)),
        (type_code::SHORT, true, Value::UInt(65_535)),
        (type_code::LONG, false, Value::Int(-70_000)),
        (type_code::LONGLONG, true, Value::UInt(u64::MAX)),
        (type_code::FLOAT, false, Value::Float(0.5)),
        (type_code::DOUBLE, false, Value::Double(-0.5)),
        (type_code::DATETIME, false, Value::DateTime(at)),
        (type_code::DATE, false, Value::DateTime(DateTime::default())),
        (type_code::TIME, false, Value::Time(time)),
        (type_code::NEWDECIMAL, false, Value::Bytes(b"1.50")),
        (type_code::BLOB, false, Value::Bytes(b"a\0b")),
        (type_code::NULL, false, Value::Null),
        (type_code::LONG, false, Value::Null),
    ];
    let types = all.map(|(code, unsigned, _)| ParamType { value: ValueType { code, unsigned }, name: Vec::new() });
    let values = all.map(|(.., value)| Some(value));
    let sent = BoundParams { types: types.to_vec(), values: values.to_vec() };
    for capabilities in [0, capability::QUERY_ATTRIBUTES] {
        for count in 0..=all.len() {
            let out = written(|out| sent.put_execute(out, 9, count, capabilities).unwrap());
            let command = execute(&out, capabilities);
            assert_eq!(command.statement_id, 9);
            let bound = command.params(count, &[], &|_| false).unwrap();
            assert_eq!((&bound.types[..], &bound.values[..]), (&types[..count], &values[..count]));
        }
    }
    assert!(sent.put_execute(&mut Vec::new(), 9, all.len() + 1, 0).is_err(), "more than there are");
    let in_parts = BoundParams { values: vec![values[0], None], ..sent };
    assert!(in_parts.put_execute(&mut Vec::new(), 9, 1, 0).is_ok());
    assert!(in_parts.put_execute(&mut Vec::new(), 9, 2, 0).is_err(), "sent in parts");
}

#[test]
fn attributes_go_with_queries_and_executions() {
    let capabilities = capability::QUERY_ATTRIBUTES;
    // One attribute of type VAR_STRING, named a.
    let mut bytes = b"\x03\x01\x01\0\x01\xfd\0\x01a\x02hiSELECT 1".to_vec();
    let ClientCommand::Query(query) = ClientCommand::parse(&bytes, capabilities).unwrap() else { panic!() };
    assert_eq!((query.sql, &query.attributes.values[..]), (&b"SELECT 1"[..], &[Some(Value::Bytes(b"hi"))][..]));
    assert_eq!(query.attributes.types[0].name, b"a");
    bytes = b"\x03\0\x01SELECT 1".to_vec();
    let ClientCommand::Query(query) = ClientCommand::parse(&bytes, capabilities).unwrap() else { panic!() };
    assert_eq!((query.sql, query.attributes), (&b"SELECT 1"[..], BoundParams::default()));
    // One placeholder, followed by one attribute.
    let mut bytes = b"\x17\x07\0\0\0\x08\x01\0\0\0\x02\0\x01".to_vec();
    bytes.extend_from_slice(b"\x08\0\0\xfd\0\x01a");
    bytes.extend_from_slice(&9i64.to_le_bytes());
    bytes.extend_from_slice(b"\x02hi");
    let bound = execute(&bytes, capabilities).params(1, &[], &|_| false).unwrap();
    assert_eq!(bound.values, [Some(Value::Int(9)), Some(Value::Bytes(b"hi"))]);
    assert!(execute(&bytes, capabilities).params(3, &[], &|_| false).is_err(), "fewer than placeholders");
}

#[test]
fn results_of_texts_end_as_the_client_expects() {
    for capabilities in [0, capability::DEPRECATE_EOF] {
        let deprecated = capabilities != 0;
        let names: Vec<String> = (0..300).map(|n| format!("c{n}")).collect();
        let mut row: Vec<Option<String>> = names.iter().cloned().map(Some).collect();
        row[1] = None;
        let mut sequence = 1;
        let out = written(|out| put_text_rows(out, &mut sequence, &names, &[row], capabilities));
        let payloads = payloads(&out);
        assert_eq!(Answer::parse(&payloads[0]).unwrap(), Answer::Columns(300), "more than one byte counts");
        assert_eq!(ColumnDefinition::parse(&payloads[300]).unwrap().name, b"c299");
        let first = if deprecated { 301 } else { 302 };
        assert_eq!(ends_rows(&payloads[301], deprecated), !deprecated);
        let mut reader = Reader::new(&payloads[first]);
        assert_eq!(text_value(&mut reader).unwrap(), Some(&b"c0"[..]));
        assert_eq!(text_value(&mut reader).unwrap(), None);
        let end = payloads.last().unwrap();
        assert!(ends_rows(end, deprecated));
        assert_eq!(rows_end(end, deprecated).unwrap().status, status::AUTOCOMMIT);
        assert_eq!((payloads.len(), usize::from(sequence)), (first + 2, (first + 3) % 256));
    }
}

#[test]
fn text_rows_print_as_a_server_does() {
    let form = |code, decimals| ColumnForm { value: ValueType { code, unsigned: false }, decimals };
    let at = DateTime { year: 26, month: 1, day: 2, hour: 3, minute: 4, second: 5, micros: 123_456 };
    let time = Time { negative: true, days: 34, hours: 22, minutes: 5, seconds: 6, micros: 70_000 };
    let columns = [
        form(type_code::LONG, 0),
        form(type_code::DATE, 0),
        form(type_code::DATETIME, 0),
        form(type_code::DATETIME, 3),
        form(type_code::DATETIME, 6),
        form(type_code::TIME, 0),
        form(type_code::TIME, 2),
        form(type_code::BLOB, 0),
        form(type_code::LONGLONG, 0),
    ];
    let values = [
        Value::Int(-7),
        Value::DateTime(at),
        Value::DateTime(at),
        Value::DateTime(at),
        Value::DateTime(at),
        Value::Time(time),
        Value::Time(time),
        Value::Bytes(b"\0x"),
        Value::UInt(u64::MAX),
    ];
    let mut out = Vec::new();
    put_text_row(&mut out, &columns, &values).unwrap();
    let mut reader = Reader::new(&out);
    let mut found = Vec::new();
    while !reader.is_empty() {
        found.push(String::from_utf8_lossy(text_value(&mut reader).unwrap().unwrap()).into_owned());
    }
    let wanted = [
        "-7",
        "0026-01-02",
        "0026-01-02 03:04:05",
        "0026-01-02 03:04:05.123",
        "0026-01-02 03:04:05.123456",
        "-838:05:06",
        "-838:05:06.07",
        "\0x",
        "18446744073709551615",
    ];
    assert_eq!(found, wanted);
    let refused = put_text_row(&mut Vec::new(), &columns[..1], &[Value::Double(1.0)]);
    assert!(matches!(refused, Err(WireError::Unwritable { .. })));
}

#[test]
fn a_value_that_does_not_fit_its_column_is_not_sent() {
    let form = |code, unsigned| ColumnForm { value: ValueType { code, unsigned }, decimals: 0 };
    for (column, value) in [
        (form(type_code::TINY, false), Value::Int(128)),
        (form(type_code::TINY, true), Value::Int(-1)),
        (form(type_code::YEAR, false), Value::Int(-1)),
        (form(type_code::LONGLONG, false), Value::UInt(1 << 63)),
        (form(type_code::LONG, false), Value::Bytes(b"1")),
        (form(type_code::DOUBLE, false), Value::Float(1.0)),
        (form(type_code::TIME, false), Value::DateTime(DateTime::default())),
        (form(type_code::VAR_STRING, false), Value::Int(1)),
    ] {
        let refused = put_binary_row(&mut Vec::new(), &[column], &[value]);
        assert!(matches!(refused, Err(WireError::Unwritable { .. })), "{column:?} {value:?}");
    }
    assert!(put_binary_row(&mut Vec::new(), &[], &[Value::Null]).is_err());
}

#[test]
fn packets_of_many_frames_go_both_ways() {
    for len in [MAX_FRAME_LEN - 1, MAX_FRAME_LEN, 2 * MAX_FRAME_LEN + 7] {
        let mut sql = vec![command::QUERY];
        sql.resize(len, b'x');
        let (mut sent, mut sequence) = (Vec::new(), 0);
        packet::write(&mut sent, &mut sequence, &sql);
        let mut stream = ServerStream::new(MAX_PAYLOAD_LEN);
        stream.await_command();
        feed(&mut stream, &sent);
        let range = stream.receive().unwrap().unwrap();
        let text = match ClientCommand::parse(stream.payload(range), 0).unwrap() {
            ClientCommand::Query(query) => query.sql.to_vec(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text.len(), len - 1);
        stream.send(|out| put_text_row(out, &[TEXT], &[Value::Bytes(&text)])).unwrap();
        let mut buffer = PacketBuffer::new(MAX_PAYLOAD_LEN);
        buffer.expect_sequence(sequence);
        let mut rest = stream.output();
        let payload = loop {
            if let Some(range) = buffer.take().unwrap() {
                break buffer.payload(range).to_vec();
            }
            let room = buffer.spare();
            let (now, later) = rest.split_at(room.len().min(rest.len()));
            room[..now.len()].copy_from_slice(now);
            buffer.filled(now.len());
            rest = later;
        };
        assert_eq!(text_value(&mut Reader::new(&payload)).unwrap().map(<[u8]>::len), Some(len - 1));
        stream.sent();
        assert!(stream.output().is_empty());
    }
}

const TEXT: ColumnForm = ColumnForm { value: ValueType { code: type_code::VAR_STRING, unsigned: false }, decimals: 0 };

#[test]
fn a_client_out_of_order_is_refused() {
    // Not even the bytes of a server's ERR packet.
    for packet in [&b"\x01\0\0\x01\x0e"[..], b"\x01\0\0\x03\xff"] {
        let mut stream = ServerStream::new(1 << 20);
        stream.await_command();
        feed(&mut stream, packet);
        assert!(matches!(stream.receive(), Err(WireError::OutOfOrder { expected: 0, .. })));
    }
    // An answer within a command, as in a login, continues the sequence.
    let mut stream = ServerStream::new(1 << 20);
    feed(&mut stream, b"\x01\0\0\0x");
    stream.receive().unwrap().unwrap();
    stream.send(|out| out.push(1));
    assert_eq!(stream.output(), b"\x01\0\0\x01\x01");
    feed(&mut stream, b"\x01\0\0\x02x");
    assert!(stream.receive().unwrap().is_some());
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 240..300)]
}

/// A column and a value that fits it; texts by their index in a list.
fn cell() -> impl Strategy<Value = (ValueType, Option<Cell>)> {
    let integers = prop_oneof![
        Just((type_code::TINY, 8u32)),
        Just((type_code::SHORT, 16)),
        Just((type_code::LONG, 32)),
        Just((type_code::INT24, 32)),
        Just((type_code::LONGLONG, 64)),
    ];
    let date_time = (any::<u16>(), any::<[u8; 5]>(), prop_oneof![Just(0), any::<u32>()], any::<bool>()).prop_map(
        |(year, [month, day, hour, minute, second], micros, whole)| match whole {
            true => DateTime { year, month, day, ..DateTime::default() },
            false => DateTime { year, month, day, hour, minute, second, micros },
        },
    );
    let time = (any::<bool>(), any::<u32>(), any::<[u8; 3]>(), prop_oneof![Just(0), any::<u32>()]).prop_map(
        |(negative, days, [hours, minutes, seconds], micros)| {
            let time = Time { negative: false, days, hours, minutes, seconds, micros };
            Time { negative: negative && time != Time::default(), ..time }
        },
    );
    let value = prop_oneof![
        (integers, any::<i64>(), any::<bool>()).prop_map(|((code, bits), value, unsigned)| {
            let shift = 64 - bits;
            let value = if unsigned { Cell::UInt(value as u64 >> shift) } else { Cell::Int(value >> shift) };
            (ValueType { code, unsigned }, value)
        }),
        any::<u16>().prop_map(|year| (ValueType { code: type_code::YEAR, unsigned: true }, Cell::UInt(year.into()))),
        any::<u32>().prop_map(|bits| (ValueType { code: type_code::FLOAT, unsigned: false }, Cell::Float(bits))),
        any::<u64>().prop_map(|bits| (ValueType { code: type_code::DOUBLE, unsigned: false }, Cell::Double(bits))),
        date_time.prop_map(|at| (ValueType { code: type_code::DATETIME, unsigned: false }, Cell::DateTime(at))),
        time.prop_map(|at| (ValueType { code: type_code::TIME, unsigned: false }, Cell::Time(at))),
        bytes().prop_map(|text| (ValueType { code: type_code::BLOB, unsigned: false }, Cell::Bytes(text))),
    ];
    (value, any::<bool>()).prop_map(|((ty, value), null)| (ty, (!null).then_some(value)))
}

#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Int(i64),
    UInt(u64),
    Float(u32),
    Double(u64),
    DateTime(DateTime),
    Time(Time),
    Bytes(Vec<u8>),
}

impl Cell {
    fn value(&self) -> Value<'_> {
        match self {
            Cell::Int(value) => Value::Int(*value),
            Cell::UInt(value) => Value::UInt(*value),
            Cell::Float(bits) => Value::Float(f32::from_bits(*bits)),
            Cell::Double(bits) => Value::Double(f64::from_bits(*bits)),
            Cell::DateTime(value) => Value::DateTime(*value),
            Cell::Time(value) => Value::Time(*value),
            Cell::Bytes(bytes) => Value::Bytes(bytes),
        }
    }

    fn of(value: Value<'_>) -> Option<Cell> {
        Some(match value {
            Value::Null => return None,
            Value::Int(value) => Cell::Int(value),
            Value::UInt(value) => Cell::UInt(value),
            Value::Float(value) => Cell::Float(value.to_bits()),
            Value::Double(value) => Cell::Double(value.to_bits()),
            Value::DateTime(value) => Cell::DateTime(value),
            Value::Time(value) => Cell::Time(value),
            Value::Bytes(bytes) => Cell::Bytes(bytes.to_vec()),
        })
    }
}

proptest! {
    #[test]
    fn binary_rows_come_back(cells in prop::collection::vec(cell(), 0..30)) {
        let types: Vec<ValueType> = cells.iter().map(|(ty, _)| *ty).collect();
        let forms: Vec<ColumnForm> = types.iter().map(|ty| ColumnForm { value: *ty, decimals: 6 }).collect();
        let values: Vec<Value<'_>> =
            cells.iter().map(|(_, cell)| cell.as_ref().map_or(Value::Null, Cell::value)).collect();
        let mut out = Vec::new();
        put_binary_row(&mut out, &forms, &values).unwrap();
        let mut row = BinaryRow::new(&out, &types).unwrap();
        for (_, cell) in &cells {
            prop_assert_eq!(&Cell::of(row.next_value().unwrap()), cell);
        }
    }

    #[test]
    fn column_definitions_come_back(
        texts in prop::array::uniform5(bytes()),
        numbers in any::<(u16, u32, u8, u16, u8)>(),
    ) {
        let [schema, table, org_table, name, org_name] = &texts;
        let (collation, length, type_code, flags, decimals) = numbers;
        let column = ColumnDefinition {
            schema, table, org_table, name, org_name, collation, length, type_code, flags, decimals,
        };
        let out = written(|out| column.write(out));
        prop_assert_eq!(ColumnDefinition::parse(&out).unwrap(), column);
        let form = ColumnForm::of(&column);
        prop_assert_eq!(form.value.unsigned, flags & column_flag::UNSIGNED != 0);
    }

    #[test]
    fn ok_packets_come_back(
        numbers in any::<(u64, u64, u16, u16)>(),
        info in bytes(),
        texts in prop::array::uniform3(bytes()),
        kinds in prop::collection::vec(0u8..6, 0..8),
        capabilities in prop_oneof![Just(0), Just(capability::SESSION_TRACK)],
    ) {
        let [one, two, three] = &texts;
        let changes: Vec<SessionChange<'_>> = kinds.iter().map(|kind| match kind {
            0 => SessionChange::Variable { name: one, value: two },
            1 => SessionChange::Schema(three),
            2 => SessionChange::State(one.len() % 2 == 0),
            3 => SessionChange::Gtids(two),
            4 => SessionChange::TransactionCharacteristics(one),
            _ => SessionChange::TransactionState(three),
        }).collect();
        let (affected_rows, last_insert_id, status, warnings) = numbers;
        let status = status & !status::SESSION_STATE_CHANGED;
        let ok = ServerOk { affected_rows, last_insert_id, status, warnings, info: &info, changes: &changes };
        for end in [false, true] {
            let capabilities = capabilities | if end { capability::DEPRECATE_EOF } else { 0 };
            let out = written(|out| if end { put_rows_end(out, &ok, capabilities) } else { put_ok(out, &ok, capabilities) });
            let read = OkPacket::parse(&out).unwrap();
            prop_assert_eq!((read.affected_rows, read.last_insert_id, read.warnings), (affected_rows, last_insert_id, warnings));
            prop_assert_eq!(read.status & !status::SESSION_STATE_CHANGED, status);
            let told = SessionChanges::parse(&out, capabilities).unwrap();
            prop_assert_eq!(told.info, &info[..]);
            let told: Vec<_> = told.map(|change| change.unwrap()).collect();
            let wanted = if capabilities & capability::SESSION_TRACK == 0 { &[][..] } else { &changes[..] };
            prop_assert_eq!(&told[..], wanted);
        }
    }

    #[test]
    fn hostile_clients_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        head in 0usize..8,
        capabilities in prop_oneof![Just(0), Just(capability::QUERY_ATTRIBUTES), any::<u32>()],
        placeholders in 0usize..40,
    ) {
        if let Ok(LoginRequest::Login(login)) = LoginRequest::parse(&bytes) {
            let _ = login.attributes.count();
        }
        if let Ok(changes) = SessionChanges::parse(&bytes, capabilities) {
            let _ = changes.count();
        }
        let mut command = bytes.clone();
        command.insert(0, [0x03, 0x12, 0x15, 0x17, 0x18, 0x1c, 0x1e, 0xff][head]);
        for payload in [&bytes, &command] {
            if let Ok(ClientCommand::Execute(execute)) = ClientCommand::parse(payload, capabilities) {
                let _ = execute.params(placeholders, &[], &|index| index % 3 == 0);
            }
        }
        let mut stream = ServerStream::new(1 << 10);
        feed(&mut stream, &bytes);
        while let Ok(Some(range)) = stream.receive() {
            let _ = ClientCommand::parse(stream.payload(range), capabilities);
        }
    }

    #[test]
    fn parameters_survive_what_follows_them(name in bytes(), text in bytes(), sql in bytes()) {
        let mut packet = vec![command::QUERY];
        put_lenenc(&mut packet, 1);
        put_lenenc(&mut packet, 1);
        packet.extend_from_slice(&[0, 1, type_code::VAR_STRING, 0]);
        put_lenenc_bytes(&mut packet, &name);
        put_lenenc_bytes(&mut packet, &text);
        packet.extend_from_slice(&sql);
        let command = ClientCommand::parse(&packet, capability::QUERY_ATTRIBUTES).unwrap();
        let ClientCommand::Query(query) = command else { panic!("a query") };
        prop_assert_eq!(query.sql, &sql[..]);
        prop_assert_eq!(&query.attributes.types[0].name, &name);
        prop_assert_eq!(query.attributes.values[0], Some(Value::Bytes(&text)));
    }
}
