//! Phrases that are translated word by word and stop a reader, each with the English for it.
//!
//! In: a repository. Out: how often each phrase stands in what users read, in documents and in comments. Never here: a
//! judgement of grammar. A phrase may only become rarer: numbers are lowered, never raised.

use crate::text::{comment, literals, prose};
use crate::{Fault, File, Repository, fault};

/// A phrase and how often it may still stand. In help, log and error texts none may.
#[derive(Debug, Clone, Copy)]
pub struct Calque {
    /// In lower case; whole words.
    pub words: &'static str,
    /// What is meant.
    pub english: &'static str,
    /// Most places in documents.
    pub documents: usize,
    /// Most places in comments of code.
    pub comments: usize,
}

const fn calque(words: &'static str, english: &'static str, documents: usize, comments: usize) -> Calque {
    Calque { words, english, documents, comments }
}

/// What is counted. Numbers are only ever lowered: rewrite the sentences you touch.
pub const CALQUES: [Calque; 17] = [
    calque("all the same", "nevertheless, still", 0, 17),
    calque("anew", "again, over", 0, 33),
    calque("behind", "after", 7, 71),
    calque("beside", "during, next to, together with", 5, 127),
    calque("given up", "abandoned, released, dropped", 1, 48),
    calque("goes on", "continues", 1, 83),
    calque("is none", "is not one, does not exist", 1, 115),
    calque("listened for", "listening on", 0, 1),
    calque("of what", "a noun", 4, 79),
    calque("so many", "this many, a number", 0, 44),
    calque("there is none", "it does not exist", 0, 80),
    calque("to be had", "available", 0, 1),
    calque("what comes", "a noun", 2, 9),
    calque("what goes", "a noun", 1, 1),
    calque("what is", "a noun", 40, 351),
    calque("who may", "a noun", 7, 23),
    calque("who waits", "waiters", 2, 9),
];

/// Terms of the field that hold one of these words.
pub const TERMS: [&str; 11] = [
    "behind a proxy",
    "behind it",
    "behind the relay",
    "behind the source",
    "behind its files",
    "behind us",
    "falls behind",
    "gtids behind",
    "replicas behind",
    "too far behind",
    "transactions behind",
];

/// Where a text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Help, log lines, errors, status: string literals of code, and comments that clap shows as help.
    Shown,
    /// A document's prose and tables.
    Document,
    /// A comment of code.
    Comment,
}

/// Measured once and not rewritten.
const FIGURES: &str = "benches/results/";
/// Code whose doc comments are help.
const HELP: &str = "crates/slipstream/src/cli.rs";

/// Each place of each phrase: its number in [`CALQUES`], where, and the file's line.
#[must_use]
pub fn found(repository: &Repository) -> Vec<(usize, Place, Fault)> {
    let mut all = Vec::new();
    for file in &repository.files {
        for (place, number, text) in texts(file) {
            let text = plain(&text);
            for (at, calque) in CALQUES.iter().enumerate() {
                let count = text.matches(&format!(" {} ", calque.words)).count();
                let what = || format!("'{}': write {}", calque.words, calque.english);
                all.extend((0..count).map(|_| (at, place, fault(&file.path, number, what()))));
            }
        }
    }
    all
}

/// More of a phrase than there may be.
#[must_use]
pub fn too_many(repository: &Repository) -> Vec<Fault> {
    let found = found(repository);
    let of = |at: usize, place: Place| found.iter().filter(move |(of, by, _)| (*of, *by) == (at, place));
    let mut faults: Vec<Fault> =
        found.iter().filter(|(_, place, _)| *place == Place::Shown).map(|(_, _, fault)| fault.clone()).collect();
    for (at, calque) in CALQUES.iter().enumerate() {
        for (place, most) in [(Place::Document, calque.documents), (Place::Comment, calque.comments)] {
            let count = of(at, place).count();
            if count > most {
                faults.push(format!(
                    "'{}' stands {count} times in {place:?}s, {most} at most: write {}",
                    calque.words, calque.english
                ));
            }
        }
    }
    faults
}

/// The texts of a file, in pieces, each with its line.
fn texts(file: &File) -> Vec<(Place, usize, String)> {
    if file.path.starts_with(FIGURES) {
        return Vec::new();
    }
    if file.is("md") {
        return prose(file).map(|(number, line)| (Place::Document, number, line.to_owned())).collect();
    }
    if !file.is("rs") {
        return Vec::new();
    }
    let is_help = |line: &str| file.path == HELP && line.trim_start().starts_with("///");
    let comments = file.lines().filter_map(|(number, line)| {
        let place = if is_help(line) { Place::Shown } else { Place::Comment };
        Some((place, number, comment(file, line)?.to_owned()))
    });
    let mut all: Vec<_> = comments.collect();
    if is_shown(&file.path) {
        let shown = literals(shipped(&file.text));
        all.extend(shown.into_iter().map(|(number, text)| (Place::Shown, number, text)));
    }
    all
}

/// True for code whose texts users meet; the lab's are for ourselves.
fn is_shown(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/") && !path.contains("/tests/") && !path.ends_with("tests.rs")
}

/// Code up to its tests.
fn shipped(text: &str) -> &str {
    let tests = text.match_indices("#[cfg(test)]\nmod ").find(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        rest.lines().next().is_some_and(|line| line.ends_with('{'))
    });
    tests.map_or(text, |(at, _)| &text[..at])
}

/// Words in lower case between single spaces, without terms. `is_none`, `start-anew` and `{what}` are one word each.
fn plain(text: &str) -> String {
    let words = text.to_lowercase();
    let is_word = |c: char| c.is_alphanumeric() || "'_-{}".contains(c);
    let words: Vec<&str> = words.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
    TERMS.iter().fold(format!(" {} ", words.join(" ")), |text, term| text.replace(term, "term"))
}
