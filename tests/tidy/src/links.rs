//! Links between documents: files and headings; tables of contents.

use crate::text::prose;
use crate::{Fault, File, Repository, fault};

/// Links to files or headings that do not exist.
#[must_use]
pub fn broken(repository: &Repository) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in repository.documents() {
        for (number, line) in prose(file) {
            for target in targets(line) {
                if let Some(why) = why_broken(repository, file, target) {
                    faults.push(fault(&file.path, number, format!("{target}: {why}")));
                }
            }
        }
    }
    faults
}

/// Documents that must have a table of contents; others may.
const WITH_CONTENTS: &str = "docs/operating/";

/// Headings that their document's table of contents lacks. The table is the list of bare links before
/// the first part.
#[must_use]
pub fn contents(repository: &Repository) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in repository.documents() {
        let head = prose(file).take_while(|(_, line)| !line.starts_with("## "));
        let items = head.filter(|(_, line)| line.trim_start().starts_with("- [") && line.ends_with(')'));
        let listed: Vec<&str> =
            items.flat_map(|(_, line)| targets(line)).filter_map(|to| to.strip_prefix('#')).collect();
        if listed.is_empty() && !file.path.starts_with(WITH_CONTENTS) {
            continue;
        }
        let parts = prose(file).filter(|(_, line)| line.starts_with("## ") || line.starts_with("### "));
        let lost = parts.filter(|(_, line)| anchor(line).is_some_and(|anchor| !listed.contains(&anchor.as_str())));
        faults.extend(lost.map(|(number, line)| fault(&file.path, number, format!("'{line}' is not in the contents"))));
    }
    faults
}

fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

fn why_broken(repository: &Repository, from: &File, target: &str) -> Option<&'static str> {
    if target.contains("://") {
        return None;
    }
    let (path, heading) = target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
    let path = if path.is_empty() { Some(from.path.clone()) } else { resolved(&from.path, path) };
    let Some(path) = path.filter(|path| repository.has(path)) else { return Some("no such file") };
    let heading = heading?;
    let document = repository.file(&path)?;
    let found = prose(document).any(|(_, line)| anchor(line).is_some_and(|anchor| anchor == heading));
    (!found).then_some("no such heading")
}

/// Turns a path relative to the document `from` into one from the root; None if it leads out of the repository.
fn resolved(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchor that GitHub gives a heading; None for other lines.
fn anchor(line: &str) -> Option<String> {
    let text = line.strip_prefix('#')?.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    Some(kept.map(|c| if c == ' ' { '-' } else { c }).collect())
}
