//! Logins and commands that a client sends to a server.
#![no_main]

use fuzz::{Input, seeds};
use wire::handshake::capability;
use wire::server::{ClientCommand, LoginRequest, SessionChanges};

/// Placeholders of the executed statement.
const PLACEHOLDERS: usize = 3;

fn packets() -> Vec<Vec<u8>> {
    let packets: [&[u8]; 8] = [
        b"\x03SELECT 1",
        b"\x03\x01\x01\0\x01\xfd\0\x01a\x02hiSELECT 1",
        b"\x17\x07\0\0\0\0\x01\0\0\0\x01\x01\x06\0\x08\0\xfd\0\x01\0\0\0\0\0\0\0\x02ab",
        b"\x17\x07\0\0\0\x08\x01\0\0\0\x03\0\x01\x08\0\0\x0c\0\0\x0b\0\x01t\x01\0\0\0\0\0\0\0\x04\xea\x07\x0b\x15\0",
        b"\x18\x07\0\0\0\x01\0abc",
        b"\x1e\0\0\x09\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x03\0\0\0set",
        b"\x00\x00\x00\x02\x40\0\0\x02hi\x08\x01\x04\x03abc\x02\x011",
        b"\x8d\xa2\x1a\0\0\0\0\x40\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0u\0\x03xyzd\0p\0\x04\x01a\x01b",
    ];
    packets.iter().map(|packet| [&[0], *packet].concat()).collect()
}

fuzz::fuzz_target!(init: seeds::write(packets), |data: &[u8]| {
    let mut input = Input::new(data);
    let flags = input.byte();
    let mut capabilities = 0;
    for (bit, flag) in [capability::QUERY_ATTRIBUTES, capability::SESSION_TRACK].into_iter().enumerate() {
        capabilities |= if flags >> bit & 1 != 0 { flag } else { 0 };
    }
    let packet = input.rest();
    if let Ok(LoginRequest::Login(login)) = LoginRequest::parse(packet) {
        let told: usize = login.attributes.map(|(name, value)| name.len() + value.len()).sum();
        assert!(told < packet.len());
    }
    if let Ok(changes) = SessionChanges::parse(packet, capabilities) {
        assert!(changes.count() < packet.len());
    }
    match ClientCommand::parse(packet, capabilities) {
        Ok(ClientCommand::Query(query)) => {
            assert!(packet.ends_with(query.sql));
            assert_eq!(query.attributes.types.len(), query.attributes.values.len());
        }
        Ok(ClientCommand::Execute(execute)) => {
            let Ok(first) = execute.params(PLACEHOLDERS, &[], &|_| flags & 4 != 0) else { return };
            assert!(first.values.len() >= PLACEHOLDERS && first.types.len() == first.values.len());
            // Known types change nothing when the client sends them.
            let again = execute.params(PLACEHOLDERS, &first.types, &|_| flags & 4 != 0);
            // NaN is not equal to itself, but its bits are.
            assert_eq!(format!("{:?}", Ok::<_, wire::WireError>(first)), format!("{again:?}"));
        }
        _ => {}
    }
});
