//! Partial updates of JSON documents, as `binlog_row_value_options = PARTIAL_JSON` logs them.
//!
//! In: a stored document (binary, or the text of a copied row) and the differences. Out: the document after them, in
//! the same form. Never here: a skipped difference. One that does not fit the document is an error, as on a MySQL
//! replica (ER_COULD_NOT_APPLY_JSON_DIFF). Mirrors sql-common/json_diff.cc and json_path.cc.

use crate::error::ValueError;
use crate::json::is_text;
use crate::json_tree::{Node, quoted_len, unquoted};

const BAD_DIFF: ValueError = ValueError::Invalid { what: "JSON difference" };
const DOES_NOT_FIT: ValueError = ValueError::Invalid { what: "JSON difference for the stored document" };

/// One step of a path.
#[derive(Debug, PartialEq)]
enum Leg {
    Member(Vec<u8>),
    Cell { index: usize, from_end: bool },
}

/// Appends the document that results from applying `differences` (without their length prefix) to `document`.
///
/// # Errors
/// The differences are damaged or do not fit the document.
pub fn apply(document: &[u8], differences: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let text = is_text(document);
    let mut root = if text { Node::of_text(document)? } else { Node::of_binary(document)? };
    let mut rest = differences;
    while !rest.is_empty() {
        let kind = *take(&mut rest, 1)?.first().ok_or(BAD_DIFF)?;
        let path_len = packed(&mut rest)?;
        let path = parse_path(take(&mut rest, path_len)?)?;
        let value = match kind {
            0 | 1 => {
                let len = packed(&mut rest)?;
                Some(value_of(take(&mut rest, len)?, text)?)
            }
            2 => None,
            _ => return Err(BAD_DIFF),
        };
        // No difference changes the root: the source then logs the whole document.
        let (last, parents) = path.split_last().ok_or(DOES_NOT_FIT)?;
        let parent = seek(&mut root, parents).ok_or(DOES_NOT_FIT)?;
        match (kind, value) {
            (0, Some(value)) => *step(parent, last).ok_or(DOES_NOT_FIT)? = value,
            (1, Some(value)) => insert(parent, last, value)?,
            _ => remove(parent, last)?,
        }
    }
    if text { root.write_text(out) } else { root.write_binary(out) }
}

fn value_of(value: &[u8], text: bool) -> Result<Node, ValueError> {
    if !text {
        return Node::of_binary(value);
    }
    let mut printed = Vec::new();
    crate::json::write_text(value, &mut printed)?;
    Node::of_text(&printed)
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], ValueError> {
    let (taken, tail) = rest.split_at_checked(len).ok_or(BAD_DIFF)?;
    *rest = tail;
    Ok(taken)
}

/// Reads MySQL's packed length.
fn packed(rest: &mut &[u8]) -> Result<usize, ValueError> {
    let first = *take(rest, 1)?.first().ok_or(BAD_DIFF)?;
    let len = match first {
        0..=0xfa => return Ok(usize::from(first)),
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return Err(BAD_DIFF),
    };
    let value = take(rest, len)?.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    usize::try_from(value).map_err(|_| BAD_DIFF)
}

/// Parses `$`, then `.key`, `."key"`, `[3]`, `[last]`, `[last-2]`.
fn parse_path(text: &[u8]) -> Result<Vec<Leg>, ValueError> {
    let mut rest = text.strip_prefix(b"$").ok_or(BAD_DIFF)?;
    let mut legs = Vec::new();
    while let Some((first, tail)) = rest.split_first() {
        match first {
            b' ' => rest = tail,
            b'.' => {
                let name = tail.trim_ascii_start();
                let len = match name.first() {
                    Some(b'"') => quoted_len(name).ok_or(BAD_DIFF)?,
                    _ => name.iter().take_while(|byte| !matches!(byte, b'.' | b'[' | b' ')).count(),
                };
                let (name, tail) = name.split_at_checked(len).ok_or(BAD_DIFF)?;
                let quoted = name.first() == Some(&b'"');
                legs.push(Leg::Member(if quoted { unquoted(name)? } else { name.to_vec() }));
                rest = tail;
            }
            b'[' => {
                let end = tail.iter().position(|byte| *byte == b']').ok_or(BAD_DIFF)?;
                let (cell, tail) = tail.split_at_checked(end).ok_or(BAD_DIFF)?;
                legs.push(parse_cell(std::str::from_utf8(cell).map_err(|_| BAD_DIFF)?.trim())?);
                rest = tail.get(1..).unwrap_or(&[]);
            }
            _ => return Err(BAD_DIFF),
        }
    }
    Ok(legs)
}

fn parse_cell(cell: &str) -> Result<Leg, ValueError> {
    let number = |text: &str| text.trim().parse::<u32>().map(|n| n as usize).map_err(|_| BAD_DIFF);
    Ok(match cell.strip_prefix("last").map(str::trim) {
        Some("") => Leg::Cell { index: 0, from_end: true },
        Some(back) => Leg::Cell { index: number(back.strip_prefix('-').ok_or(BAD_DIFF)?)?, from_end: true },
        None => Leg::Cell { index: number(cell)?, from_end: false },
    })
}

/// Index of the cell in an array of `len`; `None` before its start.
fn place(index: usize, from_end: bool, len: usize) -> Option<usize> {
    if from_end { (len + usize::from(len == 0)).checked_sub(index + 1) } else { Some(index) }
}

fn seek<'a>(root: &'a mut Node, path: &[Leg]) -> Option<&'a mut Node> {
    path.iter().try_fold(root, step)
}

/// Node that a leg leads to. A value that is not an array is its own first and last cell.
fn step<'a>(node: &'a mut Node, leg: &Leg) -> Option<&'a mut Node> {
    match (node, leg) {
        (Node::Object(members), Leg::Member(key)) => {
            let at = members.iter().position(|(member, _)| member == key)?;
            members.get_mut(at).map(|(_, value)| value)
        }
        (Node::Array(cells), Leg::Cell { index, from_end }) => {
            let at = place(*index, *from_end, cells.len())?;
            cells.get_mut(at)
        }
        (node, Leg::Cell { index: 0, .. }) => Some(node),
        _ => None,
    }
}

fn insert(parent: &mut Node, leg: &Leg, value: Node) -> Result<(), ValueError> {
    match (parent, leg) {
        (Node::Object(members), Leg::Member(key)) => {
            // The server orders members by key length, then by bytes.
            let order = |member: &[u8]| (member.len(), member.to_vec());
            match members.binary_search_by_key(&order(key), |(member, _)| order(member)) {
                Ok(_) => return Err(DOES_NOT_FIT),
                Err(at) => members.insert(at, (key.clone(), value)),
            }
        }
        (Node::Array(cells), Leg::Cell { index, from_end }) => {
            let at = place(*index, *from_end, cells.len()).unwrap_or(0).min(cells.len());
            cells.insert(at, value);
        }
        _ => return Err(DOES_NOT_FIT),
    }
    Ok(())
}

fn remove(parent: &mut Node, leg: &Leg) -> Result<(), ValueError> {
    match (parent, leg) {
        (Node::Object(members), Leg::Member(key)) => {
            let at = members.iter().position(|(member, _)| member == key).ok_or(DOES_NOT_FIT)?;
            members.remove(at);
        }
        (Node::Array(cells), Leg::Cell { index, from_end }) => {
            let at = place(*index, *from_end, cells.len()).filter(|at| *at < cells.len()).ok_or(DOES_NOT_FIT)?;
            cells.remove(at);
        }
        _ => return Err(DOES_NOT_FIT),
    }
    Ok(())
}

#[cfg(test)]
#[path = "json_diff_tests.rs"]
mod tests;
