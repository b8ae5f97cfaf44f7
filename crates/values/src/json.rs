//! Prints JSON documents in MySQL's binary form as the server prints them.
//!
//! In: the bytes of a document (without length prefix). Out: text with `", "` and `": "`, keys in stored order. Never
//! here, whatever the offsets in the bytes say: text longer than any document of that length could need, nesting deeper
//! than the server allows. Mirrors sql/json_binary.cc.

use std::io::Write as _;

use crate::error::ValueError;
use crate::json_tree::is_inlined;
use crate::temporal::{DateTime, Time};
use crate::{decimal, float, type_code as t};

/// Maximum nesting of containers, as the server limits it.
pub(crate) const DEPTH_MAX: u32 = 100;
/// Characters in a line of the server's base64.
const BASE64_LINE: usize = 76;

pub(crate) const INVALID: ValueError = ValueError::Invalid { what: "JSON document" };

/// True if a stored JSON value is text, as in a copied row (invariant 21), instead of a document. A document begins
/// with its type, at most 0x0f; no JSON text begins with such a byte. An empty value is an empty document.
#[must_use]
pub fn is_text(value: &[u8]) -> bool {
    value.first().is_some_and(|byte| *byte >= b' ')
}

/// Appends the document as text. A value that is already text is appended unchanged.
///
/// # Errors
/// The bytes are neither a document nor UTF-8 text.
pub fn write_text(document: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    if is_text(document) {
        let text = std::str::from_utf8(document).map_err(|_| INVALID)?;
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    // NOT NULL columns filled by default hold no bytes, which reads as null.
    let Some((kind, value)) = document.split_first() else {
        out.extend_from_slice(b"null");
        return Ok(());
    };
    // No value prints as more than 8 characters per byte, so more output means overlapping offsets.
    let limit = out.len() + 64 + document.len().saturating_mul(8);
    Printer { out, limit, depth: 0 }.value(*kind, value)
}

struct Printer<'a> {
    out: &'a mut Vec<u8>,
    limit: usize,
    depth: u32,
}

/// Widths and counts from a container's header.
pub(crate) struct Shape {
    pub object: bool,
    pub large: bool,
}

impl Shape {
    fn of(kind: u8) -> Option<Shape> {
        (kind <= 3).then_some(Shape { object: kind < 2, large: kind & 1 == 1 })
    }

    /// Reads an offset, size or count at `at`.
    pub(crate) fn number(&self, bytes: &[u8], at: usize) -> Result<usize, ValueError> {
        let rest = bytes.get(at..).ok_or(INVALID)?;
        if self.large {
            rest.first_chunk().map(|b| u32::from_le_bytes(*b) as usize).ok_or(INVALID)
        } else {
            rest.first_chunk().map(|b| usize::from(u16::from_le_bytes(*b))).ok_or(INVALID)
        }
    }

    pub(crate) fn number_len(&self) -> usize {
        if self.large { 4 } else { 2 }
    }
}

impl Printer<'_> {
    fn check_limit(&self) -> Result<(), ValueError> {
        if self.out.len() > self.limit { Err(INVALID) } else { Ok(()) }
    }

    fn value(&mut self, kind: u8, bytes: &[u8]) -> Result<(), ValueError> {
        if let Some(shape) = Shape::of(kind) {
            return self.container(&shape, bytes);
        }
        match kind {
            0x04 => {
                let text: &[u8] = match bytes.first() {
                    Some(0) => b"null",
                    Some(1) => b"true",
                    Some(2) => b"false",
                    _ => return Err(INVALID),
                };
                self.out.extend_from_slice(text);
            }
            0x05 => self.integer(i16::from_le_bytes(fixed(bytes)?).into()),
            0x06 => self.integer(u16::from_le_bytes(fixed(bytes)?).into()),
            0x07 => self.integer(i32::from_le_bytes(fixed(bytes)?).into()),
            0x08 => self.integer(u32::from_le_bytes(fixed(bytes)?).into()),
            0x09 => self.integer(i64::from_le_bytes(fixed(bytes)?).into()),
            0x0a => self.integer(u64::from_le_bytes(fixed(bytes)?).into()),
            0x0b => self.double(f64::from_le_bytes(fixed(bytes)?)),
            0x0c => {
                let text = sized(bytes)?;
                self.quoted(text)?;
            }
            0x0f => {
                let (kind, rest) = bytes.split_first().ok_or(INVALID)?;
                self.opaque(*kind, sized(rest)?)?;
            }
            _ => return Err(INVALID),
        }
        self.check_limit()
    }

    fn container(&mut self, shape: &Shape, bytes: &[u8]) -> Result<(), ValueError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(INVALID);
        }
        let width = shape.number_len();
        let count = shape.number(bytes, 0)?;
        let size = shape.number(bytes, width)?;
        let bytes = bytes.get(..size).ok_or(INVALID)?;
        let keys_len = if shape.object { count * (width + 2) } else { 0 };
        let entry_len = 1 + width;
        let entries = 2 * width + keys_len;
        if entries + count * entry_len > bytes.len() {
            return Err(INVALID);
        }
        self.out.push(if shape.object { b'{' } else { b'[' });
        for index in 0..count {
            if index > 0 {
                self.out.extend_from_slice(b", ");
            }
            if shape.object {
                let at = 2 * width + index * (width + 2);
                let start = shape.number(bytes, at)?;
                let len = bytes.get(at + width..).and_then(|b| b.first_chunk()).ok_or(INVALID)?;
                let key = bytes.get(start..).and_then(|b| b.get(..usize::from(u16::from_le_bytes(*len))));
                self.quoted(key.ok_or(INVALID)?)?;
                self.out.extend_from_slice(b": ");
            }
            let at = entries + index * entry_len;
            let kind = *bytes.get(at).ok_or(INVALID)?;
            let inlined = is_inlined(shape, kind);
            let start = if inlined { at + 1 } else { shape.number(bytes, at + 1)? };
            self.value(kind, bytes.get(start..).ok_or(INVALID)?)?;
        }
        self.out.push(if shape.object { b'}' } else { b']' });
        self.depth -= 1;
        self.check_limit()
    }

    fn integer(&mut self, value: i128) {
        // Writing to a Vec cannot fail.
        let _ = write!(self.out, "{value}");
    }

    fn double(&mut self, value: f64) {
        let start = self.out.len();
        float::write_f64(value, self.out);
        if !self.out.iter().skip(start).any(|byte| matches!(byte, b'.' | b'e')) {
            self.out.extend_from_slice(b".0");
        }
    }

    fn quoted(&mut self, text: &[u8]) -> Result<(), ValueError> {
        write_quoted(text, self.out)?;
        self.check_limit()
    }

    fn opaque(&mut self, kind: u8, data: &[u8]) -> Result<(), ValueError> {
        let packed = || fixed::<8>(data).map(i64::from_le_bytes);
        match kind {
            t::DECIMAL => {
                let [precision, scale, digits @ ..] = data else { return Err(INVALID) };
                decimal::write_text(*precision, *scale, digits, self.out)?;
            }
            t::DATE => {
                let date = DateTime::from_packed(packed()?)?;
                self.out.push(b'"');
                date.write_date(self.out);
                self.out.push(b'"');
            }
            t::DATETIME | t::TIMESTAMP => {
                let when = DateTime::from_packed(packed()?)?;
                self.out.push(b'"');
                when.write(6, self.out);
                self.out.push(b'"');
            }
            t::TIME => {
                let time = Time::from_packed(packed()?)?;
                self.out.push(b'"');
                time.write(6, self.out);
                self.out.push(b'"');
            }
            _ => {
                let _ = write!(self.out, "\"base64:type{kind}:");
                self.base64(data)?;
                self.out.push(b'"');
            }
        }
        Ok(())
    }

    /// The server breaks its base64 into lines, and JSON shows the line ends as `\n`.
    fn base64(&mut self, data: &[u8]) -> Result<(), ValueError> {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut in_line = 0;
        for group in data.chunks(3) {
            if in_line == BASE64_LINE {
                self.out.extend_from_slice(b"\\n");
                in_line = 0;
                self.check_limit()?;
            }
            let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
            for place in 0..4 {
                let digit = DIGITS.get((bits >> (18 - 6 * place) & 63) as usize).copied().unwrap_or(b'=');
                self.out.push(if place > group.len() { b'=' } else { digit });
            }
            in_line += 4;
        }
        Ok(())
    }
}

/// Appends a string with quotes and escapes.
pub(crate) fn write_quoted(text: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    // Documents hold utf8mb4, and readers of the text rely on it.
    std::str::from_utf8(text).map_err(|_| INVALID)?;
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        let (plain, special) = rest.split_at_checked(at).unwrap_or((rest, &[]));
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else { break };
        let escape = match byte {
            b'"' | b'\\' => *byte,
            8 => b'b',
            9 => b't',
            10 => b'n',
            12 => b'f',
            13 => b'r',
            _ => b'u',
        };
        out.extend_from_slice(&[b'\\', escape]);
        if escape == b'u' {
            let _ = write!(out, "{byte:04x}");
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
    Ok(())
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], ValueError> {
    bytes.first_chunk().copied().ok_or(INVALID)
}

/// Bytes after a length prefix of at most 5 bytes, 7 bits a byte, low bits first.
pub(crate) fn sized(bytes: &[u8]) -> Result<&[u8], ValueError> {
    let mut len = 0u64;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        len |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let len = usize::try_from(len).map_err(|_| INVALID)?;
            return bytes.get(index + 1..).and_then(|rest| rest.get(..len)).ok_or(INVALID);
        }
    }
    Err(INVALID)
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
