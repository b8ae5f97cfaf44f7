//! Parts of documents and of source files.

use crate::File;

/// Lines of a document, without those between fences.
pub fn prose(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    file.lines().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// Cells of a table line; none of other lines.
pub fn cells(line: &str) -> impl Iterator<Item = &str> {
    let row = line.trim().strip_prefix('|').map(|row| row.strip_suffix('|').unwrap_or(row));
    // A literal bar is written `\|`.
    let mut rest = row;
    std::iter::from_fn(move || {
        let row = rest?;
        let bytes = row.as_bytes();
        let end = (0..bytes.len()).find(|&at| bytes[at] == b'|' && (at == 0 || bytes[at - 1] != b'\\'));
        rest = end.map(|end| &row[end + 1..]);
        Some(row[..end.unwrap_or(row.len())].trim())
    })
}

/// The visible text of a cell: links without their targets.
#[must_use]
pub fn without_targets(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("](") {
        let Some(end) = rest[at..].find(')') else { break };
        out.push_str(&rest[..=at]);
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    out
}

/// The comment of a line of code: the text after `//` (Rust) or `#` (all else).
#[must_use]
pub fn comment<'a>(file: &File, line: &'a str) -> Option<&'a str> {
    let mark = if file.is("rs") { "//" } else { "#" };
    let at = line.find(mark)?;
    // Within a string, or the middle of a URL.
    let before = &line[..at];
    let is_code = before.matches('"').count() % 2 == 1 || before.ends_with(':');
    (!is_code).then(|| line[at..].trim_start_matches(['/', '!', '#']).trim_start())
}

/// The text of documents and comments, line by line: whole documents, and the comments of code.
#[must_use]
pub fn said(file: &File) -> Vec<(usize, &str)> {
    if file.is("md") {
        return file.lines().collect();
    }
    file.lines().filter_map(|(number, line)| Some((number, comment(file, line)?))).collect()
}

/// Texts in single backticks.
pub fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// String literals of Rust code with the lines they begin in; a line that is broken by a backslash is one.
#[must_use]
pub fn literals(code: &str) -> Vec<(usize, String)> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => at = end_of_line(bytes, at),
            // A character or a lifetime: `'"'` and `'\"'` begin no string.
            b'\'' if bytes.get(at + 1) == Some(&b'\\') => at += 4,
            b'\'' if bytes.get(at + 2) == Some(&b'\'') => at += 3,
            b'"' => {
                let hashes = bytes[..at].iter().rev().take_while(|byte| **byte == b'#').count();
                let is_raw = at > hashes && bytes[at - hashes - 1] == b'r';
                let end = end_of_literal(bytes, at + 1, is_raw.then_some(hashes));
                let text = String::from_utf8_lossy(&bytes[at + 1..end]);
                let line = 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
                found.push((line, text.replace("\\n", " ").replace("\\\n", " ")));
                at = end + 1;
            }
            _ => at += 1,
        }
    }
    found
}

fn end_of_line(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| from + end)
}

/// Where the quote is that ends a literal; `raw`: so many marks follow it, and a backslash is one of the text.
fn end_of_literal(bytes: &[u8], from: usize, raw: Option<usize>) -> usize {
    let mut at = from;
    while at < bytes.len() {
        match (bytes[at], raw) {
            (b'\\', None) => at += 2,
            (b'"', None) => return at,
            (b'"', Some(hashes)) if bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count() >= hashes => {
                return at;
            }
            _ => at += 1,
        }
    }
    bytes.len()
}
