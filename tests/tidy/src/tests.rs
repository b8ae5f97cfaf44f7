//! Runs each check over the repository, and over a planted fault.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use crate::code::{self, Measure};
use crate::{Fault, Repository, calques, limits, linked, links, named, quarantine, ratchets, text};

fn here() -> Repository {
    Repository::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

fn lock_file() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock")).unwrap()
}

fn none(faults: &[Fault]) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Asserts that a check finds exactly one fault, in these words.
fn one(faults: &[Fault], words: &str) {
    assert!(faults.len() == 1 && faults[0].contains(words), "wanted one with '{words}': {faults:?}");
}

#[test]
fn documents_and_cells_are_as_short_as_promised() {
    none(&limits::sizes(&here()));
}

#[test]
fn lines_of_documents_are_as_narrow_as_code() {
    none(&limits::widths(&here()));
}

#[test]
fn documentation_holds_no_tests() {
    none(&limits::doc_tests(&here()));
    let code = "//! ```text\n//! a\n//! ```\n//! ```\n//! b();\n//! ```\n";
    one(&limits::doc_tests(&planted("crates/a/src/b.rs", code)), "crates/a/src/b.rs:4: code in documentation");
    let library = [
        ("a/Cargo.toml", "[package]\n"),
        ("a/src/lib.rs", ""),
        ("b/Cargo.toml", "[lib]\ndoctest = false\n"),
        ("b/src/lib.rs", ""),
    ];
    one(&limits::doc_tests(&Repository::of(&library)), "a/Cargo.toml:1: no [lib]");
}

#[test]
fn few_tests_are_in_quarantine_and_none_for_long() {
    let git = std::process::Command::new("git").args(["log", "-1", "--format=%cs"]).output().unwrap();
    assert!(git.status.success(), "{git:?}");
    none(&quarantine::quarantine(&here(), String::from_utf8(git.stdout).unwrap().trim()));
}

#[test]
fn wide_comments_become_fewer() {
    let wide = limits::wide_comments(&here());
    let (count, most) = (wide.len(), limits::WIDE_COMMENTS_MAX);
    assert!(count <= most, "{count} comments are wider than {} columns; {most} were", limits::COLUMNS_MAX);
}

#[test]
fn calques_become_fewer_and_none_is_shown_to_users() {
    none(&calques::too_many(&here()));
}

#[test]
fn links_lead_to_files_and_headings() {
    none(&links::broken(&here()));
}

#[test]
fn tables_of_contents_have_every_heading() {
    none(&links::contents(&here()));
}

#[test]
fn the_program_has_nothing_that_only_the_lab_needs() {
    none(&linked::forbidden(&here(), &lock_file()));
}

#[test]
fn named_files_and_functions_exist() {
    none(&named::paths(&here()));
}

#[test]
fn named_types_and_constants_exist() {
    none(&named::identifiers(&here()));
}

#[test]
fn every_rule_has_its_tests() {
    none(&named::tests_of_invariants(&here()));
}

#[test]
fn nothing_refers_to_what_is_not_in_the_repository() {
    none(&named::references(&here()));
}

/// With `TIDY_LOWER=1` the list is lowered to what is; nothing raises it.
#[test]
fn code_above_its_goals_becomes_less() {
    let sizes = code::sizes(&here()).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("ratchets.txt");
    let mut list = std::fs::read_to_string(&path).unwrap();
    if std::env::var_os("TIDY_LOWER").is_some() {
        list = ratchets::lowered(&sizes, &list);
        std::fs::write(&path, &list).unwrap();
    }
    none(&ratchets::compared(&sizes, &list));
}

/// A README and an ARCHITECTURE without faults, and another document.
fn planted(path: &'static str, text: &str) -> Repository {
    let mut files = vec![("README.md", "# R\n"), ("ARCHITECTURE.md", "# A\n\n## Two words\n")];
    files.retain(|(known, _)| *known != path);
    files.push((path, text));
    Repository::of(&files)
}

#[test]
fn planted_lengths_are_found() {
    none(&limits::sizes(&planted("docs/a.md", "| a | b |\n")));
    one(&limits::sizes(&planted("README.md", &"word ".repeat(801))), "801 words");
    one(&limits::sizes(&planted("README.md", &"line\n".repeat(111))), "111 lines");
    one(&limits::sizes(&planted("README.md", &format!("| a | {} |\n", "w ".repeat(13)))), "a cell of 13 words");
    one(&limits::sizes(&planted("ARCHITECTURE.md", &"word ".repeat(2501))), "2501 words");
    one(&limits::sizes(&planted("ARCHITECTURE.md", &"line\n".repeat(251))), "251 lines");
    one(&limits::sizes(&planted("docs/a.md", &format!("| a | {} |\n", "w ".repeat(41)))), "a cell of 41 words");
    one(&limits::sizes(&planted("docs/operating/a.md", &"word ".repeat(3501))), "3501 words; 3500 at most");
    none(&limits::sizes(&planted("docs/formats.md", &"word ".repeat(3501))));
    // A bar that is part of a cell does not end it, and a link's target is not a word of it.
    one(&limits::sizes(&planted("docs/a.md", &format!("| {}\\| {} |\n", "w ".repeat(21), "w ".repeat(20)))), "cell of");
    none(&limits::sizes(&planted("README.md", &format!("| {}[one two](a b c) |\n", "w ".repeat(10)))));
}

#[test]
fn planted_widths_are_found() {
    let wide = "w".repeat(121);
    one(&limits::widths(&planted("docs/a.md", &wide)), "docs/a.md:1: 121 columns");
    none(&limits::widths(&planted("docs/a.md", &format!("| {wide} |\n[{wide}](b.md)\n{}", &wide[1..]))));
    assert_eq!(limits::wide_comments(&planted("a.rs", &format!("    // {wide}\nlet a = \"{wide}\";\n"))).len(), 1);
}

#[test]
fn planted_links_are_found() {
    none(&links::broken(&planted(
        "docs/a.md",
        "[a](../ARCHITECTURE.md#two-words) [b](#x)\n# X\n[c](https://example.org)",
    )));
    one(&links::broken(&planted("docs/a.md", "[a](b.md)")), "docs/a.md:1: b.md: no such file");
    one(&links::broken(&planted("docs/a.md", "\n[a](../ARCHITECTURE.md#two-word)")), "docs/a.md:2");
    one(&links::broken(&planted("docs/a.md", "[a](../../outside.md)")), "no such file");
    none(&links::broken(&planted("docs/a.md", "```\n[a](b.md)\n```\n")));
}

#[test]
fn planted_headings_are_found() {
    let document = "# A\n\n- [B c](#b-c)\n\n## B c\n\n### D\n\n#### E\n";
    one(&links::contents(&planted("docs/a.md", document)), "docs/a.md:7: '### D' is not in the contents");
    none(&links::contents(&planted("docs/a.md", "# A\n\n## B\n")));
    one(&links::contents(&planted("docs/operating/a.md", "# A\n\n## B\n")), "'## B' is not");
}

#[test]
fn planted_names_are_found() {
    let with = |text: &str| {
        Repository::of(&[("docs/a.md", text), ("crates/x/src/b.rs", "/// `pub fn ghost()`\npub(crate) fn own() {}\n")])
    };
    none(&named::paths(&with("`crates/x/src/b.rs::own`, crates/x/src, `src/b.rs`, `b.rs`, `testbed`, tests and docs")));
    one(&named::paths(&with("`gone.rs`")), "docs/a.md:1: gone.rs: no such file");
    one(&named::paths(&with("see crates/x/src/gone.")), "crates/x/src/gone: no such file");
    one(&named::paths(&with("(`rc/b.rs`)")), "no such file");
    assert!(!named::paths(&with("`crates/x/src/b.rs::ghost`")).is_empty());
    // In code only comments count.
    one(&named::paths(&planted("c.rs", "let a = \"docs/gone.md\"; // docs/lost.md\n")), "docs/lost.md");
    one(&named::paths(&planted("Cargo.toml", "a = \"docs/gone.md\"\n# docs/lost.md\n")), "docs/lost.md");
}

#[test]
fn planted_identifiers_are_found() {
    let with = |text: &str| {
        Repository::of(&[
            ("docs/a.md", text),
            ("b.rs", "impl OneTwo { fn own() {} } // TwoThree\nconst A_B: u8 = 1;\n"),
        ])
    };
    none(&named::identifiers(&with(
        "`OneTwo::own`, `OneTwo`, `A_B`, `GTID`, `Lag`, `gtid_executed`, `docs/x.rs::own`",
    )));
    one(&named::identifiers(&with("`OneTwo::other`")), "no code has other");
    one(&named::identifiers(&with("`TwoThree`")), "no code has TwoThree");
    one(&named::identifiers(&with("`A_C`")), "no code has A_C");
}

#[test]
fn planted_tests_are_found() {
    let with = |text: &str| {
        let code = "#[test]\nfn is_one() {}\nfn is_none() {}\n";
        Repository::of(&[(named::INVARIANTS, text), ("crates/x/src/b.rs", code)])
    };
    let rule = |tests: &str| named::tests_of_invariants(&with(&format!("### 1. A\n\n- **Tests:**\n  {tests}\n")));
    none(&rule("`crates/x/src/b.rs::is_one`"));
    one(&rule("`crates/x/src/b.rs::is_none`"), "no such test");
    one(&rule("`crates/x/src/c.rs::is_one`"), "no such test");
    one(&rule("soon"), "neither a test nor a reason");
    one(&named::tests_of_invariants(&with("| C1 | a | | |\n")), "neither a test nor a reason");
    none(&named::tests_of_invariants(&with("| C1 | a | | not built |\n")));
    one(&named::tests_of_invariants(&with("### 1. A\n### 3. B\n")), "gaps");
}

#[test]
fn planted_references_are_found() {
    let with = |code: &str| Repository::of(&[(named::INVARIANTS, "### 1. A\n"), ("a.rs", code)]);
    none(&named::references(&with("// As invariant 1 has it. An invariant of 2 crates.\nlet a = \"invariant 7\";\n")));
    one(&named::references(&with("/// (invariant 2)\n")), "a.rs:1: invariant 2");
    one(&named::references(&with("/// (invariants 3 and 1)\n")), "a.rs:1: invariant 3");
    let rules = concat!("RUL", "ES 7");
    one(&named::references(&with(&format!("//! {rules}\n"))), "is not in the repository");
    one(&named::references(&with(&format!("//! {}\n", concat!("Appen", "dix C")))), "is not in the repository");
}

#[test]
fn planted_sizes_are_found() {
    let of = |text: &str| code::sizes(&Repository::of(&[("crates/x/src/a.rs", text)])).unwrap();
    let lines = |count: usize| "    one();\n".repeat(count);
    assert_eq!(of(&format!("fn f() {{\n{}}}\n", lines(108))), []);
    let long = of(&format!("impl T {{\nfn f() {{\n{}}}\n}}\n", lines(109)));
    assert_eq!(long, [(Measure::Function, "crates/x/src/a.rs::T::f".to_owned(), 111)]);
    assert_eq!(of(&format!("fn f({}) {{}}\n", "a: u8, ".repeat(9)))[0].0, Measure::Parameters);
    assert_eq!(
        of(&format!("struct S({});\n", "u8, ".repeat(21))),
        [(Measure::Fields, "crates/x/src/a.rs::S".into(), 21)]
    );
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "struct S;\n".repeat(901));
    assert_eq!(of(&tests), [], "tests do not count");
    assert_eq!(of(&"struct S;\n".repeat(901)), [(Measure::File, "crates/x/src/a.rs".to_owned(), 901)]);
    let echoes = of(
        "/// The table.\nstruct A;\n/// The table of a statement.\nstruct B;\n/// One that\n/// goes on.\nstruct C;\n",
    );
    assert_eq!(echoes, [(Measure::Echoes, "crates/x".to_owned(), 1)]);
    // A circle goes through folders and groups; what tests name does not count.
    let circle = Repository::of(&[
        ("crates/x/src/a.rs", "use crate::b::{self, c::D};\n"),
        ("crates/x/src/b/c.rs", "fn f() { super::super::a::g() }\n"),
        ("crates/x/src/d.rs", "use crate::a::A;\n#[cfg(test)]\nmod tests { use crate::d::X; }\n"),
    ]);
    assert_eq!(code::sizes(&circle).unwrap(), [(Measure::Circles, "crates/x".to_owned(), 2)]);
}

#[test]
fn a_list_is_only_ever_lowered() {
    let sizes = [(Measure::Fields, "a::S".to_owned(), 30), (Measure::File, "b".to_owned(), 950)];
    none(&ratchets::compared(&sizes, "fields a::S 30\nfile b 950\n"));
    one(&ratchets::compared(&sizes, "fields a::S 29\nfile b 950\n"), "it was 29");
    one(&ratchets::compared(&sizes, "fields a::S 31\nfile b 950\n"), "lower 31");
    one(&ratchets::compared(&sizes, "fields a::S 30\n"), "file b 950: above the goal");
    one(&ratchets::compared(&sizes, "fields a::S 30\nfile b 950\nfile c 1000\n"), "take the line out");
    assert_eq!(ratchets::lowered(&sizes, "fields a::S 29\nfile b 960\nfile c 1000\n"), "fields a::S 29\nfile b 950\n");
}

#[test]
fn planted_calques_are_found() {
    let with = |path: &str, text: &str| calques::found(&Repository::of(&[(path, text)])).len();
    let shown = |text: &str| calques::too_many(&Repository::of(&[("crates/x/src/a.rs", text)]));
    one(
        &shown("fn f() {\n    log(\"it goes\\\n        on by itself\");\n}\n"),
        "crates/x/src/a.rs:2: 'goes on': write",
    );
    none(&shown("log(\"GTIDs behind {what} is\", Option::is_none, '\"', \"--start-anew\"); // it goes on\n"));
    none(&shown("fn f() {}\n#[cfg(test)]\nmod tests {\n    const A: &str = \"it goes on\";\n}\n"));
    one(&calques::too_many(&Repository::of(&[("crates/slipstream/src/cli.rs", "    /// It goes on\n")])), "'goes on'");
    assert_eq!(
        (with("docs/a.md", "It goes on, and so on. Goes\n"), with("lab/a.rs", "// goes on\n\"goes on\"")),
        (1, 1)
    );
    let most = calques::CALQUES.iter().map(|calque| calque.documents).max().unwrap();
    let many = "what is it ".repeat(most + 1);
    one(&calques::too_many(&Repository::of(&[("docs/a.md", &many)])), "'what is' stands");
}

#[test]
fn literals_of_code_are_cut_as_rust_cuts_them() {
    let code = "f('\"', \"a \\\" b\"); // \"no\"\nlet x: &'static str = r#\"c \" d\"#;\nb\"e\\\n   f\"";
    let wanted = [(1, "a \\\" b"), (2, "c \" d"), (3, "e    f")];
    assert_eq!(text::literals(code), wanted.map(|(line, text)| (line, text.to_owned())));
}

#[test]
fn a_driver_that_is_linked_into_the_program_is_noticed() {
    let mut repository = here();
    let manifest = repository.files.iter_mut().find(|file| file.path == "crates/replay/Cargo.toml").unwrap();
    manifest.text = manifest.text.replace("[dependencies]", "[dependencies]\nlab.workspace = true");
    let faults = linked::forbidden(&repository, &lock_file());
    assert!(faults.iter().any(|fault| fault.contains("lab is linked into the program")), "{faults:?}");
}
