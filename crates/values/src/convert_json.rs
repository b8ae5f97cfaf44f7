//! The part of [`Conversion`] with JSON on either side.
//!
//! In: a stored document, or text that is JSON. Out: stored bytes of the new column. Never here: text that the server
//! would not read as JSON; its statement failed. Mirrors `Field_json` (sql/field.cc) and the parser of JSON text
//! (sql-common/json_dom.cc, RapidJSON without full precision).

use crate::column_type::type_code as t;
use crate::convert::Conversion;
use crate::convert_parse as parse;
use crate::convert_text as text;
use crate::error::ValueError;
use crate::json::{self, INVALID};
use crate::json_tree::{Node, unquoted};

/// Converts a document. The server stores what it prints, but for a decimal number.
pub(crate) fn from_json(conversion: &Conversion, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let mut shown = Vec::new();
    json::write_text(crate::text::content(&conversion.from, stored)?, &mut shown)?;
    match conversion.to.code {
        // Other documents than numbers and truth have rules of their own there, and so have the largest numbers.
        t::DECIMAL | t::BIT => {
            let unknown = || conversion.does_not_fit(String::from_utf8_lossy(&shown));
            let number = match shown.as_slice() {
                b"true" => b"1".to_vec(),
                b"false" => b"0".to_vec(),
                [b'-' | b'0'..=b'9', ..] => parse::decimal(&shown).ok_or_else(unknown)?.value,
                _ => return Err(unknown()),
            };
            let whole = std::str::from_utf8(&number).ok().and_then(|number| number.parse::<i128>().ok());
            match whole {
                Some(value) if value > i64::MAX.into() => Err(unknown()),
                Some(value) if conversion.to.code == t::BIT => conversion.store_integer(value, out),
                None if conversion.to.code == t::BIT => Err(unknown()),
                _ => conversion.store_decimal(&number, out),
            }
        }
        _ => text::from_utf8(conversion, &shown, out),
    }
}

/// Stores text as a document.
pub(crate) fn to_json(conversion: &Conversion, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let unicode = text::plain_text(conversion, stored)?;
    let document = settled(Node::of_text(&unicode)?)?;
    let prefix_at = out.len();
    out.resize(prefix_at + conversion.to.prefix_len(), 0);
    let start = out.len();
    document.write_binary(out)?;
    let len = (out.len() - start).to_le_bytes();
    for (byte, len) in out.iter_mut().skip(prefix_at).take(conversion.to.prefix_len()).zip(len) {
        *byte = len;
    }
    Ok(())
}

/// Sorts members as the server does, shorter keys first, keeps the last of equal keys, and reads scalars.
fn settled(node: Node) -> Result<Node, ValueError> {
    Ok(match node {
        Node::Array(cells) => Node::Array(cells.into_iter().map(settled).collect::<Result<_, _>>()?),
        Node::Object(members) => {
            let mut members = members
                .into_iter()
                .map(|(key, value)| Ok((key, settled(value)?)))
                .collect::<Result<Vec<_>, ValueError>>()?;
            members.reverse();
            members.sort_by(|(left, _), (right, _)| (left.len(), left).cmp(&(right.len(), right)));
            members.dedup_by(|later, first| later.0 == first.0);
            Node::Object(members)
        }
        Node::Text(text) => scalar(&text)?,
        binary @ Node::Binary(..) => binary,
    })
}

fn scalar(text: &[u8]) -> Result<Node, ValueError> {
    let literal = |value: u8| Ok(Node::Binary(0x04, vec![value]));
    match text {
        b"null" => literal(0),
        b"true" => literal(1),
        b"false" => literal(2),
        [b'"', ..] => {
            let content = unquoted(text)?;
            let mut bytes = Vec::with_capacity(content.len() + 2);
            let mut len = content.len();
            while len >= 0x80 {
                bytes.push(len.to_le_bytes()[0] | 0x80);
                len >>= 7;
            }
            bytes.push(len.to_le_bytes()[0]);
            bytes.extend_from_slice(&content);
            Ok(Node::Binary(0x0c, bytes))
        }
        _ => number(text),
    }
}

fn number(text: &[u8]) -> Result<Node, ValueError> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let good_start = matches!(digits, [b'0'] | [b'0', b'.' | b'e' | b'E', ..] | [b'1'..=b'9', ..]);
    if !good_start {
        return Err(INVALID);
    }
    if digits.iter().all(u8::is_ascii_digit) {
        let shown = std::str::from_utf8(text).map_err(|_| INVALID)?;
        // An unsigned number beyond 32 bits stays unsigned.
        if !negative
            && let Ok(value) = shown.parse::<u64>()
            && value > u64::from(u32::MAX)
        {
            return Ok(Node::Binary(0x0a, value.to_le_bytes().to_vec()));
        }
        if let Ok(value) = shown.parse::<i64>() {
            return Ok(match (i16::try_from(value), i32::try_from(value)) {
                (Ok(value), _) => Node::Binary(0x05, value.to_le_bytes().to_vec()),
                (_, Ok(value)) => Node::Binary(0x07, value.to_le_bytes().to_vec()),
                _ => Node::Binary(0x09, value.to_le_bytes().to_vec()),
            });
        }
    }
    let value: f64 = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(INVALID)?;
    if !value.is_finite() {
        return Err(INVALID);
    }
    Ok(Node::Binary(0x0b, value.to_le_bytes().to_vec()))
}
