//! The program accepts all commands and options that documents tell people to type.

use std::fs;
use std::path::Path;

use whole_program_tests::{repository, slipstream};

/// Documents with commands in their code blocks; of a folder, all of its documents.
const DOCUMENTS: [&str; 4] = ["README.md", "docs/operating.md", "docs/operating", "docs/lab.md"];

/// The text of a document, or of all documents of a folder.
fn text_of(path: &Path) -> String {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().map(|entry| text_of(&entry.unwrap().path())).collect();
    }
    fs::read_to_string(path).unwrap()
}

/// Commands in a document's code blocks, each with its possible subcommands and its options.
fn commands_of(text: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let blocks = text.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(str::lines).filter_map(|line| {
        let start =
            line.find("slipstream ").filter(|at| line[..*at].is_empty() || line[..*at].ends_with("release/"))?;
        Some(&line[start + "slipstream ".len()..])
    });
    let command = |line: &str| {
        // The command's description follows two spaces, which also align `check  --source`.
        let line = line.replacen("  --", " --", 1).replacen("   --", " --", 1).replace(" | ", "|");
        let line = line.split("  ").next().unwrap_or_default().to_owned();
        let is_letter = |c: char| c.is_ascii_lowercase() || "|-".contains(c);
        let is_name = |word: &&str| !word.starts_with('-') && word.chars().all(is_letter);
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
fn what_documents_say_to_type_is_understood() {
    let texts = DOCUMENTS.iter().map(|document| text_of(&repository().join(document)));
    let commands: Vec<_> = texts.flat_map(|text| commands_of(&text)).collect();
    assert!(commands.len() >= 20, "{} commands", commands.len());
    let mut wrong = Vec::new();
    for (commands, options) in commands {
        for command in commands {
            let mut arguments: Vec<&str> = command.split_whitespace().collect();
            arguments.push("--help");
            let ran = slipstream(&arguments);
            let help = ran.out;
            // Here a shape's name follows an option, and has options of its own.
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
