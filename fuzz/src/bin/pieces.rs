//! Replay up to the lanes: the same transactions however the log is cut into chunks, and huge ones into slices.
#![no_main]

use std::sync::OnceLock;

use decode::SplitOptions;
use fuzz::replay::replay;
use fuzz::{Input, seeds};

fn logs() -> Vec<Vec<u8>> {
    let events = seeds::shop_events();
    [0, 40, 255].iter().map(|step| [&[*step], &events[..]].concat()).collect()
}

fuzz::fuzz_target!(init: seeds::write(logs), |data: &[u8]| {
    static SHOP: OnceLock<catalog::Catalog> = OnceLock::new();
    let shop = SHOP.get_or_init(seeds::shop);
    let mut input = Input::new(data);
    let chunk_len = usize::from(input.byte()) * 4 + 1;
    let log = input.rest();
    let whole = replay(log, 1 << 20, SplitOptions::default(), shop);
    assert_eq!(whole, replay(log, chunk_len, SplitOptions::default(), shop));
    let sliced = replay(log, chunk_len, SplitOptions { piece_bytes: 1, slice_bytes: 100 }, shop);
    // Where it stops inside a transaction, slices of it were already handed on; a fault in them may come earlier.
    assert_eq!(whole.stop.is_some(), sliced.stop.is_some());
    let handed_on = whole.transactions.len() + usize::from(whole.stop.is_some());
    assert!(sliced.transactions.starts_with(&whole.transactions) && sliced.transactions.len() <= handed_on);
});
