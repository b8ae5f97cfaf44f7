//! Statements of clients, under any mode, version and character set: what they are said to be, and SELECT's trees.
#![no_main]

use fuzz::{Input, join, long, seeds};
use syntax::{Settings, classify, parse_select, print_query};

const CHARSETS: [&str; 6] = ["utf8mb4", "latin1", "gbk", "sjis", "gb18030", "unknown"];

fn statements() -> Vec<Vec<u8>> {
    let recorded = include_str!("../../../crates/syntax/tests/statements.txt").lines();
    let recorded = recorded.filter_map(|line| line.split_once('\t')).map(|(_, text)| text.as_bytes().to_vec());
    recorded.chain(seeds::statements()).map(|text| join(&[&[0; 4], &text])).collect()
}

fuzz::fuzz_target!(init: seeds::write(statements), |data: &[u8]| {
    let mut input = Input::new(data);
    let (modes, other) = (input.u16(), input.u16());
    let sql_mode = u64::from(modes & 0xff) | u64::from(modes >> 8) << 16 << 8;
    let charset = CHARSETS[usize::from(other & 0xff) % CHARSETS.len()];
    let settings = Settings::new(sql_mode, 50_700 + u32::from(other >> 8) * 1_000, charset);
    let text = &long(input.rest());
    let mut before = 0;
    for one in classify(text, settings) {
        assert!(one.span.start >= before && one.span.start <= one.span.end);
        before = one.span.end;
    }
    // In other sets, bytes that make no whole character may be read otherwise next to other bytes.
    if let Ok((tree, query)) = parse_select(text, settings)
        && charset == "utf8mb4"
    {
        let printed = print_query(&tree, query, settings);
        let again = parse_select(&printed, settings);
        assert!(again.is_ok_and(|(again, _)| again == tree), "{}", String::from_utf8_lossy(&printed));
    }
});
