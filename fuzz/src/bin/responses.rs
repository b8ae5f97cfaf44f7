//! Packets with which a server answers commands.
#![no_main]

use fuzz::{Input, seeds};
use wire::command::parse_dump_event;
use wire::read::Reader;
use wire::response::{Answer, ColumnDefinition, ErrPacket, OkPacket, PrepareOk, ends_rows, rows_end};
use wire::row::text_value;

fn packets() -> Vec<Vec<u8>> {
    let packets: [&[u8]; 8] = [
        b"\0\x01\x02\x02\0\x01\0done",
        b"\xff\x15\x04#28000Access denied",
        b"\xfe\x01\0\x02\0",
        b"\x03def\x04shop\x04item\x04item\x02id\x02id\x0c\xff\0\x0b\0\0\0\x03\x03\x42\0\0\0",
        b"\0\x01\0\0\0\x02\0\x01\0\0\0\0",
        b"\x03abc\xfb\xfc\x03\0abc",
        b"\0\xef\x01\0\0\0\0\x04\0\0\0\0",
        b"\xfc\x01\x10",
    ];
    packets.iter().map(|packet| [&[0], *packet].concat()).collect()
}

fuzz::fuzz_target!(init: seeds::write(packets), |data: &[u8]| {
    let mut input = Input::new(data);
    let flag = input.byte() & 1 != 0;
    let packet = input.rest();
    let _ = OkPacket::parse(packet).map(|ok| ok.more_results());
    let _ = OkPacket::parse_eof(packet);
    let _ = ErrPacket::parse(packet);
    let _ = ErrPacket::parse_before_login(packet);
    let _ = PrepareOk::parse(packet);
    let _ = ColumnDefinition::parse(packet);
    if let Ok(Answer::Columns(count)) = Answer::parse(packet) {
        assert!((1..=65_535).contains(&count));
    }
    if ends_rows(packet, flag) {
        let _ = rows_end(packet, flag);
    }
    if let Ok(event) = parse_dump_event(packet, flag) {
        assert!(packet.ends_with(event.event));
    }
    let mut reader = Reader::new(packet);
    while !reader.is_empty() && text_value(&mut reader).is_ok() {}
});
