//! Limits on documents, cells and lines.
//!
//! In: a repository. Out: faults. Never here: a limit on code.

use crate::text::{cells, prose, without_targets};
use crate::{Fault, File, Repository, fault};

/// Bounds of one document.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Path from the root.
    pub path: &'static str,
    /// Maximum words, counted as `wc -w` does.
    pub words: usize,
    /// Maximum lines.
    pub lines: usize,
    /// Maximum words of a table cell.
    pub cell_words: usize,
}

/// Documents that a person reads from start to end.
pub const DOCUMENTS: [Bounds; 2] = [
    // A visitor reads for three minutes.
    Bounds { path: "README.md", words: 800, lines: 110, cell_words: 12 },
    // Maintainers read for a quarter of an hour.
    Bounds { path: "ARCHITECTURE.md", words: 2_500, lines: 250, cell_words: 40 },
];

/// Maximum words of a document below `docs`: its reader has a quarter of an hour.
pub const WORDS_MAX: usize = 3_500;
/// Documents below `docs` in which one looks something up: as long as what they list.
pub const FREE: [&str; 4] = ["docs/figures.md", "docs/formats.md", "docs/invariants.md", "docs/operating/reference.md"];
/// Maximum words of a cell in any other document: longer text is prose and unreadable in a column.
pub const CELL_WORDS_MAX: usize = 40;
/// Maximum columns of a line, as rustfmt.toml has it for code.
pub const COLUMNS_MAX: usize = 120;
/// Comments in code that are wider than `COLUMNS_MAX`. Only ever lowered: mend the lines you touch.
pub const WIDE_COMMENTS_MAX: usize = 100;

/// Documents and cells with too many words or lines.
#[must_use]
pub fn sizes(repository: &Repository) -> Vec<Fault> {
    let mut faults = Vec::new();
    for bounds in DOCUMENTS {
        match repository.file(bounds.path) {
            Some(file) => of_document(file, bounds, &mut faults),
            None => faults.push(format!("{}: no such document", bounds.path)),
        }
    }
    for file in repository.documents().filter(|file| file.path.starts_with("docs/")) {
        let words = file.text.split_whitespace().count();
        if words > WORDS_MAX && !FREE.contains(&file.path.as_str()) {
            faults.push(fault(&file.path, file.text.lines().count(), format!("{words} words; {WORDS_MAX} at most")));
        }
    }
    for file in repository.documents() {
        let own = DOCUMENTS.iter().find(|bounds| bounds.path == file.path);
        let most = own.map_or(CELL_WORDS_MAX, |bounds| bounds.cell_words);
        for (number, line) in prose(file) {
            let wide = cells(line).map(|cell| without_targets(cell).split_whitespace().count());
            faults.extend(
                wide.filter(|words| *words > most)
                    .map(|words| fault(&file.path, number, format!("a cell of {words} words; {most} at most"))),
            );
        }
    }
    faults
}

fn of_document(file: &File, bounds: Bounds, faults: &mut Vec<Fault>) {
    let (words, lines) = (file.text.split_whitespace().count(), file.text.lines().count());
    if words > bounds.words {
        faults.push(fault(&file.path, lines, format!("{words} words; {} at most", bounds.words)));
    }
    if lines > bounds.lines {
        faults.push(fault(&file.path, lines, format!("{lines} lines; {} at most", bounds.lines)));
    }
}

/// Lines of documents that are too wide, except for tables and links, which cannot be broken.
#[must_use]
pub fn widths(repository: &Repository) -> Vec<Fault> {
    let wide = |file: &File, number, line: &str| {
        let columns = line.chars().count();
        let breaks = !line.starts_with('|') && !line.contains("](") && !line.contains("://");
        (columns > COLUMNS_MAX && breaks)
            .then(|| fault(&file.path, number, format!("{columns} columns; {COLUMNS_MAX} at most")))
    };
    let lines = repository.documents().flat_map(|file| file.lines().map(move |(number, line)| (file, number, line)));
    lines.filter_map(|(file, number, line)| wide(file, number, line)).collect()
}

/// Comments in Rust files that are too wide, each as a fault.
#[must_use]
pub fn wide_comments(repository: &Repository) -> Vec<Fault> {
    let files = repository.files.iter().filter(|file| file.is("rs"));
    let lines = files.flat_map(|file| file.lines().map(move |(number, line)| (file, number, line)));
    lines
        .filter(|(_, _, line)| line.trim_start().starts_with("//") && line.chars().count() > COLUMNS_MAX)
        .map(|(file, number, _)| fault(&file.path, number, "a comment that is too wide"))
        .collect()
}

/// Packages whose documentation would be compiled as tests, and such code: no gate runs it, since cargo builds every
/// library for it once more.
#[must_use]
pub fn doc_tests(repository: &Repository) -> Vec<Fault> {
    let own = || repository.files.iter().filter(|file| !file.path.starts_with("third_party/"));
    let manifests = own().filter(|file| {
        let folder = file.path.strip_suffix("Cargo.toml");
        folder.is_some_and(|folder| repository.has(&format!("{folder}src/lib.rs")))
            && !file.text.contains("\ndoctest = false")
    });
    let mut faults: Vec<_> = manifests.map(|file| fault(&file.path, 1, "no [lib] with doctest = false")).collect();
    for file in own().filter(|file| file.is("rs")) {
        let mut open = false;
        for (number, line) in file.lines() {
            let line = line.trim_start();
            let Some(after) = line.strip_prefix("/// ```").or_else(|| line.strip_prefix("//! ```")) else { continue };
            open = !open;
            if open && after != "text" {
                faults.push(fault(&file.path, number, "code in documentation; no gate compiles it"));
            }
        }
    }
    faults
}
