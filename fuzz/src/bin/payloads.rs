//! Compressed transactions: decompressed at once and event by event, within a limit.
#![no_main]

use binlog::{ChecksumAlgorithm, ParsedEvent, TransactionPayload, event_body, event_type};
use fuzz::seeds;

const LIMIT_BYTES: u64 = 1 << 20;

fuzz::fuzz_target!(init: seeds::write(|| seeds::bodies(event_type::TRANSACTION_PAYLOAD)), |data: &[u8]| {
    let Ok(payload) = TransactionPayload::parse(data) else { return };
    let mut whole = Vec::new();
    let unpacked = payload.decompress_into(&mut whole, LIMIT_BYTES);
    assert!(unpacked.is_err() || whole.len() as u64 <= LIMIT_BYTES);
    let Ok(mut events) = payload.events(LIMIT_BYTES) else { return };
    let mut one_by_one = Vec::new();
    let end = loop {
        match events.next() {
            Ok(Some((header, bytes))) => {
                one_by_one.extend_from_slice(bytes);
                let body = event_body(bytes, ChecksumAlgorithm::None).expect("a whole event");
                let _ = ParsedEvent::parse(&header, body);
            }
            end => break end.map(|_| ()),
        }
    };
    if unpacked.is_ok() && end.is_ok() {
        assert_eq!(whole, one_by_one);
    }
});
