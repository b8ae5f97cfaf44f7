//! One event's frame: header, checksum, format description.
#![no_main]

use binlog::reader::MAGIC;
use binlog::{ChecksumAlgorithm, EventHeader, FormatDescription, check_event_type, event_body, verify_checksum};
use fuzz::seeds;

fn events() -> Vec<Vec<u8>> {
    seeds::logs().into_iter().map(|log| log[MAGIC.len().min(log.len())..].iter().take(200).copied().collect()).collect()
}

fuzz::fuzz_target!(init: seeds::write(events), |event: &[u8]| {
    if let Ok(header) = EventHeader::parse(event) {
        assert_eq!(header.encode(), event[..EventHeader::LEN]);
        let _ = check_event_type(&header);
        let _ = (header.name(), header.is_artificial(), header.is_ignorable());
    }
    verify_checksum(event);
    for checksum in [ChecksumAlgorithm::None, ChecksumAlgorithm::Crc32] {
        if let Ok(body) = event_body(event, checksum) {
            assert_eq!(body.len() + EventHeader::LEN + checksum.len(), event.len());
        }
    }
    if let Ok(format) = FormatDescription::parse(event) {
        let _ = (format.carries_own_checksum(), format.post_header_len(event[4]));
    }
});
