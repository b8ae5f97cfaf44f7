//! A relay log's index, and the walk from transaction to transaction.
#![no_main]

use binlog::ChecksumAlgorithm;
use binlog::reader::{BinlogFile, MAGIC};
use fuzz::seeds;
use relay_log::boundary::BoundaryTracker;
use relay_log::parse_index;

fn files() -> Vec<Vec<u8>> {
    let indexes = ["./relay-bin.000009\n./relay-bin.000010\n", "relay-bin.000001", "./relay-bin.1000000\n"];
    seeds::texts(&indexes).into_iter().chain(seeds::logs()).collect()
}

fuzz::fuzz_target!(init: seeds::write(files), |data: &[u8]| {
    if let Ok(numbers) = parse_index(data) {
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "without gaps");
    }
    let mut tracker = BoundaryTracker::new(ChecksumAlgorithm::None);
    if !data.starts_with(&MAGIC) {
        let _ = tracker.step(data);
        return;
    }
    let Ok(file) = BinlogFile::new("fuzz", data) else { return };
    let mut file = file.without_verification();
    while let Ok(Some(event)) = file.next_event() {
        let before = tracker.clone();
        match tracker.step(event.bytes) {
            Ok(step) => assert!(!step.transaction_ends || !tracker.in_transaction()),
            Err(_) => assert_eq!(before.in_transaction(), tracker.in_transaction(), "it stays as it was"),
        }
    }
});
