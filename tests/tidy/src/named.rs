//! Files, functions, tests and rules that documents and comments name.

use std::collections::BTreeSet;

use crate::repository::ending_of;
use crate::text::{prose, quoted, said};
use crate::{Fault, File, Repository, fault};

/// Folders at the root: a word that begins with one of them is a path.
const FOLDERS: [&str; 9] = ["crates", "tests", "docs", "benches", "lab", "fuzz", "demo", "testbed", ".ci"];
/// Endings by which a quoted name is that of a file here.
const ENDINGS: [&str; 6] = ["rs", "md", "toml", "sh", "sql", "bin"];
/// Created when something runs.
const MADE: [&str; 4] = ["fuzz/target", "fuzz/artifacts", "fuzz/corpus", "fuzz/build"];
/// An example of any module's tests.
const EXAMPLE: &str = "module/tests.rs";
/// Words for documents that were never in the repository: a clone does not have them.
const ELSEWHERE: [&str; 5] = ["mysql-replication.md", "Appendix C", "Appendix D", "STYLE.md", "RULES.md"];
/// The document of rules.
pub const INVARIANTS: &str = "docs/invariants.md";

/// Paths and functions that do not exist.
#[must_use]
pub fn paths(repository: &Repository) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in &repository.files {
        for (number, line) in said(file) {
            for name in names(line) {
                if let Some(why) = why_missing(repository, file, name) {
                    faults.push(fault(&file.path, number, format!("{name}: {why}")));
                }
            }
        }
    }
    faults
}

/// Words of a line that name a file.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let quoted = quoted(line).filter(|text| !text.contains(' ')).filter(|text| is_file_name(text));
    let words = line.split(|c: char| c.is_whitespace() || "`()[]<>\"',;|".contains(c));
    let words = words.map(|word| word.trim_end_matches(['.', ':', '/', '!', '?']));
    quoted.filter(|text| !is_path(text)).chain(words.filter(|word| is_path(word)))
}

fn is_file_name(text: &str) -> bool {
    let path = text.split_once("::").map_or(text, |(path, _)| path);
    let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    plain && ending_of(path).is_some_and(|ending| ENDINGS.contains(&ending)) && !path.starts_with('.')
}

fn is_path(word: &str) -> bool {
    let path = word.split_once("::").map_or(word, |(path, _)| path);
    let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    plain && FOLDERS.contains(&first) && !rest.is_empty()
}

/// Says what is missing; None if the file exists, from the root or within the crate of the file that names it.
fn why_missing(repository: &Repository, by: &File, name: &str) -> Option<&'static str> {
    let (path, function) = name.split_once("::").map_or((name, None), |(path, function)| (path, Some(function)));
    if path == EXAMPLE || MADE.iter().any(|made| path == *made || path.starts_with(&format!("{made}/"))) {
        return None;
    }
    if !is_path(path) {
        return (!repository.has_ending(path)).then_some("no such file");
    }
    let in_crate = by.path.splitn(3, '/').take(2).collect::<Vec<_>>().join("/");
    let places = [path.to_owned(), format!("{in_crate}/{path}")];
    let Some(path) = places.iter().find(|path| repository.has(path)) else { return Some("no such file") };
    let function = function?;
    let text = &repository.file(path)?.text;
    (!functions(text).any(|(known, _)| known == function)).then_some("no such function in it")
}

/// Functions of a Rust file, and whether each is a test.
fn functions(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut is_test = false;
    text.lines().filter_map(move |line| {
        let line = line.trim();
        is_test |= line == "#[test]";
        let at = if line.starts_with("fn ") { 0 } else { line.find(" fn ").map(|at| at + 1)? };
        if line.starts_with("//") {
            return None;
        }
        let name = line[at + "fn ".len()..].split(['(', '<']).next().unwrap_or_default();
        Some((name, std::mem::take(&mut is_test)))
    })
}

/// Rust types, members and constants that documents quote and no code has.
#[must_use]
pub fn identifiers(repository: &Repository) -> Vec<Fault> {
    let code = repository.files.iter().filter(|file| file.is("rs")).flat_map(|file| file.text.lines());
    let code = code.map(|line| line.split("//").next().unwrap_or_default());
    let known: BTreeSet<&str> = code.flat_map(|line| line.split(|c: char| !is_word(c))).collect();
    let mut faults = Vec::new();
    for file in repository.documents() {
        for (number, line) in prose(file) {
            for name in quoted(line).filter(|name| is_identifier(name)) {
                if let Some(part) = name.split("::").find(|part| !known.contains(part)) {
                    faults.push(fault(&file.path, number, format!("`{name}`: no code has {part}")));
                }
            }
        }
    }
    faults
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// True for `Type::member`, `TypeOfTwoWords` and `CONSTANT_OF_TWO_WORDS`; other words may have other origins.
fn is_identifier(name: &str) -> bool {
    let is_path = name.contains("::") && name.split("::").all(|part| !part.is_empty() && part.chars().all(is_word));
    let humps = name.chars().filter(char::is_ascii_uppercase).count();
    let is_type = humps > 1 && name.chars().any(|c| c.is_ascii_lowercase()) && !name.contains('_');
    let is_constant = name.contains('_') && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let begins = name.starts_with(|c: char| c.is_ascii_uppercase());
    is_path || (begins && name.chars().all(is_word) && (is_type || is_constant))
}

/// Checks [`INVARIANTS`]: every rule has a test, everything it calls a test is one, and its numbers have no gap.
#[must_use]
pub fn tests_of_invariants(repository: &Repository) -> Vec<Fault> {
    let Some(document) = repository.file(INVARIANTS) else { return vec![format!("{INVARIANTS}: no such document")] };
    let mut faults = Vec::new();
    for (number, text) in paragraphs(document) {
        let is_row = text.starts_with("| C") || text.starts_with("| D");
        if !is_row && !text.starts_with("- **Tests:**") {
            continue;
        }
        let tests: Vec<_> = quoted(&text).filter_map(|name| name.split_once("::")).collect();
        if tests.is_empty() && (!is_row || text.trim_end().ends_with("| |")) {
            faults.push(fault(INVARIANTS, number, "neither a test nor a reason"));
        }
        for (path, function) in tests {
            let file = repository.file(path);
            if !file.is_some_and(|file| functions(&file.text).any(|found| found == (function, true))) {
                faults.push(fault(INVARIANTS, number, format!("{path}::{function}: no such test")));
            }
        }
    }
    let given = rules(document);
    if given != (1..=given.len()).collect() {
        faults.push(format!("{INVARIANTS}: the rules' numbers have gaps: {given:?}"));
    }
    faults
}

/// Lines, each joined with its continuation lines.
fn paragraphs(document: &File) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    for (number, line) in document.lines() {
        match all.last_mut() {
            Some((_, last)) if line.starts_with("  ") && !last.is_empty() => {
                last.push(' ');
                last.push_str(line.trim());
            }
            _ => all.push((number, line.to_owned())),
        }
    }
    all
}

/// Numbers of the rules.
fn rules(document: &File) -> BTreeSet<usize> {
    let headings = document.text.lines().filter_map(|line| line.strip_prefix("### "));
    headings.filter_map(|heading| heading.split_once(". ")?.0.parse().ok()).collect()
}

/// References to rules that do not exist, and to documents outside the repository.
#[must_use]
pub fn references(repository: &Repository) -> Vec<Fault> {
    let known = repository.file(INVARIANTS).map(rules).unwrap_or_default();
    let mut faults = Vec::new();
    for file in &repository.files {
        for (number, line) in said(file) {
            if let Some(rule) = cited(line, "invariant").filter(|rule| !known.contains(rule)) {
                faults.push(fault(&file.path, number, format!("invariant {rule}: no such rule in {INVARIANTS}")));
            }
            let elsewhere = ELSEWHERE.iter().find(|name| line.contains(*name)).copied();
            let elsewhere = elsewhere.or_else(|| cited(line, "RULES").map(|_| "RULES"));
            let elsewhere = elsewhere.or_else(|| cited(line, "DESIGN").map(|_| "DESIGN"));
            faults.extend(elsewhere.map(|name| fault(&file.path, number, format!("{name} is not in the repository"))));
        }
    }
    faults
}

/// The number after a word.
fn cited(line: &str, word: &str) -> Option<usize> {
    let rest = line.split(word).skip(1).find_map(|rest| rest.trim_start_matches('s').strip_prefix(' '))?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}
