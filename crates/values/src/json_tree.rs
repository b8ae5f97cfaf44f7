//! JSON documents as trees, for changing part of one.
//!
//! In: a document in MySQL's binary form, or the text of a copied row (invariant 21). Out: a tree, and from it a
//! document in the same form. Never here, whatever the offsets in the bytes say: a tree larger than its document
//! warrants, nesting deeper than the server allows. Scalars are never parsed: their bytes are moved as they are.
//! Mirrors sql-common/json_binary.cc.

use crate::error::ValueError;
use crate::json::{DEPTH_MAX, INVALID, Shape, sized, write_quoted, write_text};

/// A value in a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// Members in the server's order: shorter keys first, then by bytes.
    Object(Vec<(Vec<u8>, Node)>),
    Array(Vec<Node>),
    /// Type byte and value of a scalar in binary form.
    Binary(u8, Vec<u8>),
    /// A scalar as text.
    Text(Vec<u8>),
}

/// Maximum length of a key, MySQL's limit.
const KEY_MAX: usize = u16::MAX as usize;

impl Node {
    /// Reads a document in binary form, type byte first. An empty document is null.
    pub(crate) fn of_binary(document: &[u8]) -> Result<Node, ValueError> {
        let Some((kind, value)) = document.split_first() else { return Ok(Node::Binary(4, vec![0])) };
        // Every value has an entry of at least 3 bytes, so more values mean overlapping offsets.
        let mut budget = 64 + document.len();
        read(*kind, value, 0, &mut budget)
    }

    /// Reads text as the server prints it.
    pub(crate) fn of_text(text: &[u8]) -> Result<Node, ValueError> {
        let mut reader = Reader { rest: text };
        let node = reader.value(0)?;
        reader.space();
        if reader.rest.is_empty() { Ok(node) } else { Err(INVALID) }
    }

    /// Appends the document in binary form, type byte first.
    pub(crate) fn write_binary(&self, out: &mut Vec<u8>) -> Result<(), ValueError> {
        let at = out.len();
        out.push(0);
        let kind = self.write_value(out)?;
        if let Some(byte) = out.get_mut(at) {
            *byte = kind;
        }
        Ok(())
    }

    /// Appends the document as the server prints it.
    pub(crate) fn write_text(&self, out: &mut Vec<u8>) -> Result<(), ValueError> {
        match self {
            Node::Object(members) => {
                out.push(b'{');
                for (index, (key, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.extend_from_slice(b", ");
                    }
                    write_quoted(key, out)?;
                    out.extend_from_slice(b": ");
                    value.write_text(out)?;
                }
                out.push(b'}');
            }
            Node::Array(cells) => {
                out.push(b'[');
                for (index, value) in cells.iter().enumerate() {
                    if index > 0 {
                        out.extend_from_slice(b", ");
                    }
                    value.write_text(out)?;
                }
                out.push(b']');
            }
            Node::Binary(kind, value) => write_text(&[&[*kind][..], value].concat(), out)?,
            Node::Text(text) => out.extend_from_slice(text),
        }
        Ok(())
    }

    /// Appends the value without its type byte, which is returned.
    fn write_value(&self, out: &mut Vec<u8>) -> Result<u8, ValueError> {
        let (object, keys, values): (bool, Vec<&[u8]>, Vec<&Node>) = match self {
            Node::Binary(kind, value) => {
                out.extend_from_slice(value);
                return Ok(*kind);
            }
            // A document never mixes text and binary values.
            Node::Text(_) => return Err(INVALID),
            Node::Object(members) => (
                true,
                members.iter().map(|(key, _)| key.as_slice()).collect(),
                members.iter().map(|(_, v)| v).collect(),
            ),
            Node::Array(cells) => (false, Vec::new(), cells.iter().collect()),
        };
        let mut values_written = Vec::with_capacity(values.len());
        for value in values {
            let mut bytes = Vec::new();
            let kind = value.write_value(&mut bytes)?;
            values_written.push((kind, bytes));
        }
        let small = write_container(&Shape { object, large: false }, &keys, &values_written, out);
        let large = !small;
        if large && !write_container(&Shape { object, large }, &keys, &values_written, out) {
            return Err(ValueError::BeyondLimits { what: "a JSON document" });
        }
        Ok(match (object, large) {
            (true, false) => 0,
            (true, true) => 1,
            (false, false) => 2,
            (false, true) => 3,
        })
    }
}

/// Appends a container; returns false and appends nothing if a number exceeds its width.
fn write_container(shape: &Shape, keys: &[&[u8]], values: &[(u8, Vec<u8>)], out: &mut Vec<u8>) -> bool {
    let width = shape.number_len();
    let max = if shape.large { u32::MAX as usize } else { usize::from(u16::MAX) };
    let inlined = |kind: u8| is_inlined(shape, kind);
    let keys_at = 2 * width + keys.len() * (width + 2) + values.len() * (1 + width);
    let keys_len: usize = keys.iter().map(|key| key.len()).sum();
    let outside = values.iter().filter(|(kind, _)| !inlined(*kind));
    let size = keys_at + keys_len + outside.map(|(_, bytes)| bytes.len()).sum::<usize>();
    if size > max || keys.iter().any(|key| key.len() > KEY_MAX) {
        return false;
    }
    let number = |value: usize, out: &mut Vec<u8>| out.extend(value.to_le_bytes().iter().take(width));
    number(values.len(), out);
    number(size, out);
    let mut at = keys_at;
    for key in keys {
        number(at, out);
        #[allow(clippy::cast_possible_truncation, reason = "at most KEY_MAX, checked above")]
        let key_len = key.len() as u16;
        out.extend(key_len.to_le_bytes());
        at += key.len();
    }
    for (kind, bytes) in values {
        out.push(*kind);
        if inlined(*kind) {
            let start = out.len();
            out.extend(bytes.iter().take(width));
            out.resize(start + width, 0);
        } else {
            number(at, out);
            at += bytes.len();
        }
    }
    keys.iter().for_each(|key| out.extend_from_slice(key));
    values.iter().filter(|(kind, _)| !inlined(*kind)).for_each(|(_, bytes)| out.extend_from_slice(bytes));
    true
}

/// True if a container stores values of this type in their entries.
pub(crate) fn is_inlined(shape: &Shape, kind: u8) -> bool {
    matches!(kind, 0x04..=0x06) || (shape.large && matches!(kind, 0x07 | 0x08))
}

fn read(kind: u8, bytes: &[u8], depth: u32, budget: &mut usize) -> Result<Node, ValueError> {
    let mut spend = |amount: usize| -> Result<(), ValueError> {
        *budget = budget.checked_sub(amount).ok_or(INVALID)?;
        Ok(())
    };
    let Some(shape) = (kind <= 3).then_some(Shape { object: kind < 2, large: kind & 1 == 1 }) else {
        let len = match kind {
            0x04 => 1,
            0x05 | 0x06 => 2,
            0x07 | 0x08 => 4,
            0x09..=0x0b => 8,
            0x0c => prefixed(bytes)?,
            0x0f => 1 + prefixed(bytes.get(1..).ok_or(INVALID)?)?,
            _ => return Err(INVALID),
        };
        spend(len.max(2))?;
        return Ok(Node::Binary(kind, bytes.get(..len).ok_or(INVALID)?.to_vec()));
    };
    if depth >= DEPTH_MAX {
        return Err(INVALID);
    }
    let width = shape.number_len();
    let (count, size) = (shape.number(bytes, 0)?, shape.number(bytes, width)?);
    let bytes = bytes.get(..size).ok_or(INVALID)?;
    let keys_len = if shape.object { count * (width + 2) } else { 0 };
    let entries = 2 * width + keys_len;
    if entries + count * (1 + width) > bytes.len() {
        return Err(INVALID);
    }
    spend(2 * width)?;
    let mut members = Vec::new();
    let mut cells = Vec::new();
    for index in 0..count {
        let at = entries + index * (1 + width);
        let kind = *bytes.get(at).ok_or(INVALID)?;
        let start = if is_inlined(&shape, kind) { at + 1 } else { shape.number(bytes, at + 1)? };
        let value = read(kind, bytes.get(start..).ok_or(INVALID)?, depth + 1, budget)?;
        if !shape.object {
            cells.push(value);
            continue;
        }
        let at = 2 * width + index * (width + 2);
        let start = shape.number(bytes, at)?;
        let len = bytes.get(at + width..).and_then(|b| b.first_chunk()).ok_or(INVALID)?;
        let key = bytes.get(start..).and_then(|b| b.get(..usize::from(u16::from_le_bytes(*len)))).ok_or(INVALID)?;
        *budget = budget.checked_sub(key.len()).ok_or(INVALID)?;
        members.push((key.to_vec(), value));
    }
    Ok(if shape.object { Node::Object(members) } else { Node::Array(cells) })
}

/// Length of a value with its length prefix, prefix included.
fn prefixed(bytes: &[u8]) -> Result<usize, ValueError> {
    let value = sized(bytes)?;
    let len = bytes.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    Ok(len + value.len())
}

/// Parser of JSON text.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn space(&mut self) {
        let blank = self.rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.rest = self.rest.get(blank..).unwrap_or(&[]);
    }

    fn takes(&mut self, byte: u8) -> bool {
        self.space();
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn value(&mut self, depth: u32) -> Result<Node, ValueError> {
        if depth > DEPTH_MAX {
            return Err(INVALID);
        }
        if self.takes(b'[') {
            let mut cells = Vec::new();
            while !self.takes(b']') {
                if !cells.is_empty() && !self.takes(b',') {
                    return Err(INVALID);
                }
                cells.push(self.value(depth + 1)?);
            }
            return Ok(Node::Array(cells));
        }
        if self.takes(b'{') {
            let mut members = Vec::new();
            while !self.takes(b'}') {
                if !members.is_empty() && !self.takes(b',') {
                    return Err(INVALID);
                }
                let key = unquoted(self.string()?)?;
                if !self.takes(b':') {
                    return Err(INVALID);
                }
                members.push((key, self.value(depth + 1)?));
            }
            return Ok(Node::Object(members));
        }
        if self.rest.first() == Some(&b'"') {
            return Ok(Node::Text(self.string()?.to_vec()));
        }
        let end =
            self.rest.iter().take_while(|byte| !matches!(byte, b',' | b']' | b'}') && !byte.is_ascii_whitespace());
        let (scalar, rest) = self.rest.split_at_checked(end.count()).ok_or(INVALID)?;
        if scalar.is_empty() {
            return Err(INVALID);
        }
        self.rest = rest;
        Ok(Node::Text(scalar.to_vec()))
    }

    /// Reads a string, quotes and escapes included.
    fn string(&mut self) -> Result<&'a [u8], ValueError> {
        self.space();
        let len = quoted_len(self.rest).ok_or(INVALID)?;
        let (string, rest) = self.rest.split_at_checked(len).ok_or(INVALID)?;
        self.rest = rest;
        Ok(string)
    }
}

/// Length in bytes of the quoted string at the front of `text`, quotes included.
pub(crate) fn quoted_len(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    for (index, byte) in text.iter().enumerate() {
        match byte {
            b'"' if index == 0 => {}
            _ if index == 0 => return None,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(index + 1),
            _ => {}
        }
    }
    None
}

/// Characters of a quoted string.
pub(crate) fn unquoted(quoted: &[u8]) -> Result<Vec<u8>, ValueError> {
    let text: Result<String, _> = serde_json::from_slice(quoted);
    text.map(String::into_bytes).map_err(|_| INVALID)
}
