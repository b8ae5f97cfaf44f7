//! Code whose memory safety the compiler does not prove is confined to named places.

use std::fs;
use std::path::{Path, PathBuf};

/// Hooks called by the C library, locked memory for secrets, the call that returns the allocator's memory, and one that
/// no library has (a thread's slice).
const PLACES: [&str; 4] = [
    "tests/power_cut/shim/src/hooks.rs",
    "crates/base/src/locked.rs",
    "crates/base/src/threads/allocator.rs",
    "crates/base/src/threads/priority.rs",
];
/// Not our source: build output, fuzzing results, and libraries of others, which are as unsafe as their authors made them
/// (third_party/README.md).
const LEFT_OUT: [&str; 5] = ["target", "corpus", "artifacts", ".git", "third_party"];
/// The keyword, not spelled out, because this file is scanned too.
const KEYWORD: &str = concat!("un", "safe");

/// The lint `unsafe_code` stops the compiler, but any file could allow it again, and `fuzz` is outside the workspace.
#[test]
fn unsafe_code_is_in_its_places_only() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut found: Vec<String> = (rust_files(&root).iter())
        .filter(|path| uses_keyword(&fs::read_to_string(path).unwrap()))
        .map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/"))
        .collect();
    found.sort();
    let mut places = PLACES.map(str::to_owned);
    places.sort();
    assert_eq!(found, places, "files that use {KEYWORD}");
}

#[test]
fn the_keyword_is_found_in_code_and_nowhere_else() {
    for code in ["KEY { f() }", "    let x = KEY{ 1 };", "pub KEY fn f() {}", "#[KEY(no_mangle)]", "f(); KEY {}// no"] {
        assert!(uses_keyword(&code.replace("KEY", KEYWORD)), "{code}");
    }
    for other in ["// KEY { f() }", "#![forbid(KEY_code)]", "fn un_KEY() {}", "/// No `KEY` here.", "let a = 1; // KEY"]
    {
        assert!(!uses_keyword(&other.replace("KEY", KEYWORD)), "{other}");
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() && !LEFT_OUT.iter().any(|name| entry.file_name() == *name) {
            files.extend(rust_files(&path));
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    files
}

/// True if the word is in a line before its comment. A string that contains it counts too: none needs to.
fn uses_keyword(text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .any(|code| code.split(|c| !is_word(c)).any(|word| word == KEYWORD))
}
