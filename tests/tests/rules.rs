//! What the documents name is there: tests in docs/rules-and-tests.md, commands and options in README.md.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use whole_program_tests::{repository, slipstream};

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

/// Commands of README's code blocks: each with the subcommands it stands for, and its options.
fn readme_commands(text: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let blocks = text.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(str::lines).filter_map(|line| {
        let start =
            line.find("slipstream ").filter(|at| line[..*at].is_empty() || line[..*at].ends_with("release/"))?;
        Some(&line[start + "slipstream ".len()..])
    });
    let command = |line: &str| {
        // What it does stands behind two spaces, and `check  --source` is aligned with them.
        let line = line.replacen("  --", " --", 1).replacen("   --", " --", 1).replace(" | ", "|");
        let line = line.split("  ").next().unwrap_or_default().to_owned();
        let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '|');
        let names: Vec<&str> = line.split(' ').take_while(is_name).collect();
        let mut commands = vec![String::new()];
        for name in names {
            let each = |command: &String| name.split('|').map(|name| format!("{command} {name}")).collect::<Vec<_>>();
            commands = commands.iter().flat_map(each).collect();
        }
        let options = line.split([' ', '[', ']']).filter(|word| word.starts_with("--")).map(str::to_owned).collect();
        (commands, options)
    };
    lines.map(command).collect()
}

#[test]
fn what_readme_says_to_type_is_understood() {
    let text = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let commands = readme_commands(&text);
    assert!(commands.len() >= 20, "{} commands", commands.len());
    let mut wrong = Vec::new();
    for (commands, options) in commands {
        for command in commands {
            let mut arguments: Vec<&str> = command.split_whitespace().collect();
            arguments.push("--help");
            let ran = slipstream(&arguments);
            let help = ran.out;
            // The name of a shape stands behind an option here, and has options of its own.
            let of_shape = (command == " lab make").then(|| slipstream(&["lab", "make", "zipf", "--help"]).out);
            let all = format!("{help} {}", of_shape.unwrap_or_default());
            if ran.code != 0 {
                wrong.push(format!("{command}: no such command"));
            }
            let knows = |option: &str| all.split([' ', ',', '[', ']', '\n']).any(|word| word == option);
            wrong.extend(options.iter().filter(|option| !knows(option)).map(|option| format!("{command} {option}")));
            let usage = help.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap_or_default();
            let needs = usage.split_whitespace().filter(|word| word.starts_with("--"));
            let lacks = needs.filter(|needed| !options.iter().any(|option| option == needed));
            wrong.extend(lacks.map(|needed| format!("{command} lacks {needed}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
