//! docs/rules-and-tests.md names tests: each of them is there.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use whole_program_tests::repository;

/// Names of tests in a text: whatever stands in backticks as `path.rs::function`.
fn named(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter_map(|name| name.split_once("::")).filter(|(path, _)| path.ends_with(".rs")).collect()
}

/// Why a named test is none; None: it is one.
fn missing(path: &str, function: &str) -> Option<String> {
    let Ok(source) = std::fs::read_to_string(repository().join(path)) else { return Some("no such file".to_owned()) };
    let mut behind_attribute = false;
    for line in source.lines().map(str::trim) {
        behind_attribute |= line == "#[test]";
        if let Some(rest) = line.strip_prefix("fn ") {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            if name == function {
                return (!behind_attribute).then(|| "no test, but a function".to_owned());
            }
            behind_attribute = false;
        }
    }
    Some("no such test in it".to_owned())
}

#[test]
fn every_test_that_is_named_exists() {
    let text = std::fs::read_to_string(repository().join("docs/rules-and-tests.md")).unwrap();
    let names = named(&text);
    assert!(names.len() > 90, "{} names", names.len());
    let wrong: Vec<String> = (names.iter())
        .filter_map(|(path, function)| missing(path, function).map(|why| format!("{path}::{function}: {why}")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Every line gives a test or a reason.
    for line in text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| #")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{line}");
        assert!(!cells[2].is_empty() || !cells[3].is_empty(), "neither a test nor a reason: {line}");
    }
    assert_eq!(missing("tests/tests/rules.rs", "no_such_test").as_deref(), Some("no such test in it"));
    assert!(missing("tests/tests/rules.rs", "named").is_some_and(|why| why.starts_with("no test")));
}
