//! Packets from a stream that arrives in pieces of any size.
#![no_main]

use fuzz::{Input, seeds};
use wire::WireError;
use wire::packet::{self, PacketBuffer};

const LIMIT: usize = 1 << 12;

fn packets(stream: &[u8], step: usize) -> (Vec<Vec<u8>>, Option<WireError>) {
    let mut buffer = PacketBuffer::new(LIMIT);
    let mut packets = Vec::new();
    for bytes in stream.chunks(step) {
        let room = buffer.spare();
        let len = bytes.len().min(room.len());
        assert_eq!(len, bytes.len(), "there is room for what a read gives");
        room[..len].copy_from_slice(&bytes[..len]);
        buffer.filled(len);
        loop {
            let whole = buffer.has_packet();
            match buffer.take() {
                Ok(Some(range)) => packets.push(buffer.payload(range).to_vec()),
                Ok(None) => {
                    assert!(!whole, "a whole packet is taken");
                    break;
                }
                Err(error) => return (packets, Some(error)),
            }
        }
    }
    (packets, None)
}

fn written() -> Vec<Vec<u8>> {
    let mut stream = vec![3];
    let mut sequence = 0;
    for payload in [&b"\x0a9.7.4\0"[..], b"", &[7; 300], &[1; LIMIT + 1]] {
        packet::write(&mut stream, &mut sequence, payload);
    }
    vec![stream, b"\x01\x01\0\0\0a\x01\0\0\x02b".to_vec()]
}

fuzz::fuzz_target!(init: seeds::write(written), |data: &[u8]| {
    let mut input = Input::new(data);
    let step = usize::from(input.byte()) + 1;
    let stream = input.rest();
    assert_eq!(packets(stream, step), packets(stream, 1 << 16));
});
