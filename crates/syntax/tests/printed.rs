//! A printed tree parses to the same tree.

use proptest::prelude::*;
use syntax::{Settings, parse_select, print_query, sql_mode};
use testkit::Random;

use crate::grammar;

const MODES: [u64; 4] = [
    0,
    sql_mode::ANSI_QUOTES | sql_mode::PIPES_AS_CONCAT,
    sql_mode::NO_BACKSLASH_ESCAPES | sql_mode::HIGH_NOT_PRECEDENCE,
    sql_mode::IGNORE_SPACE,
];

/// True if the text parses, and then what it prints as is the same tree.
fn comes_back(text: &[u8], settings: Settings) -> bool {
    let Ok((tree, query)) = parse_select(text, settings) else { return false };
    let printed = print_query(&tree, query, settings);
    let shown = || format!("{}\n{}", String::from_utf8_lossy(text), String::from_utf8_lossy(&printed));
    let (again, of_again) = parse_select(&printed, settings).unwrap_or_else(|error| panic!("{error:?}: {}", shown()));
    assert!(tree == again && query == of_again, "{}", shown());
    assert_eq!(print_query(&again, of_again, settings), printed, "{}", shown());
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn drawn_statements_come_back(seed in any::<u64>(), mode in 0..MODES.len()) {
        let mut random = Random::new(seed);
        let text = grammar::statement(&mut random).join(" ");
        comes_back(text.as_bytes(), Settings::new(MODES[mode], 90_704, "utf8mb4"));
    }

    #[test]
    fn mutated_statements_come_back_if_they_parse(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let drawn = grammar::statement(&mut random);
        let text = grammar::mutated(&mut random, &drawn).join(" ");
        comes_back(text.as_bytes(), Settings::default());
    }

    #[test]
    fn any_strings_and_names_come_back(text in "\\PC*", name in "[^`\\x00]+") {
        let quoted = text.replace('\\', "\\\\").replace('\'', "''");
        let statement = format!("SELECT '{quoted}' AS `{name}`");
        prop_assert!(comes_back(statement.as_bytes(), Settings::default()));
        // MySQL ends the text at a NUL in a quoted name.
        let ended = format!("SELECT '{quoted}' AS `{name}\0`");
        prop_assert!(!comes_back(ended.as_bytes(), Settings::default()));
    }
}

/// As the fuzzer found it.
#[test]
fn names_that_were_strings_come_back_with_a_nul() {
    for mode in MODES {
        for text in ["SELECT a AS 'x\0`y', b 'z\0'", "SELECT @'x\0y' AS 'c\\\\\0d'"] {
            let settings = Settings::new(mode, 90_704, "utf8mb4");
            assert!(comes_back(text.as_bytes(), settings), "{text:?} {mode:x}");
        }
    }
}

/// Two fifths of the drawn statements parse: else the properties above say little.
#[test]
fn enough_drawn_statements_parse() {
    let parsed = (0..500).filter(|seed| {
        let text = grammar::statement(&mut Random::new(*seed)).join(" ");
        parse_select(text.as_bytes(), Settings::default()).is_ok()
    });
    assert!(parsed.count() > 200);
}
