//! Events of a log, taken apart again.

use std::collections::BTreeMap;

use binlog::{ChecksumAlgorithm, EventHeader, FormatDescription, TransactionPayload, event_body, event_type};

/// Splits consecutive events.
pub fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut events = Vec::new();
    while !bytes.is_empty() {
        let (event, rest) = bytes.split_at(EventHeader::parse(bytes).unwrap().event_len as usize);
        events.push(event);
        bytes = rest;
    }
    events
}

/// Adds the number of events by type, including those inside payloads. The checksum is that of the first event.
pub fn count_events(bytes: &[u8], mut checksum: ChecksumAlgorithm, counts: &mut BTreeMap<u8, u64>) {
    for event in split(bytes) {
        let header = EventHeader::parse(event).unwrap();
        *counts.entry(header.event_type).or_insert(0) += 1;
        match header.event_type {
            event_type::FORMAT_DESCRIPTION => checksum = FormatDescription::parse(event).unwrap().checksum,
            event_type::TRANSACTION_PAYLOAD => {
                let body = event_body(event, checksum).unwrap();
                let mut inner = TransactionPayload::parse(body).unwrap().events(1 << 30).unwrap();
                while let Some((inner, _)) = inner.next().unwrap() {
                    *counts.entry(inner.event_type).or_insert(0) += 1;
                }
            }
            _ => {}
        }
    }
}
