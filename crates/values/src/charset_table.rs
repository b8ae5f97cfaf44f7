//! Multi-byte character sets (and swe7), converted exactly as a 9.7 server converts them.
//!
//! In: text in such a set, or Unicode. Out: the other one. Each set is an `encoding_rs` encoding plus a list of the
//! server's differences from it (`charsets.bin`, written by `examples/charset_tables.rs`). Never here: a guess.

use std::sync::OnceLock;

use encoding_rs::{BIG5, EUC_JP, EUC_KR, Encoding, GB18030, GBK, SHIFT_JIS};

use crate::charset::character_len;

/// In the file's order.
static SETS: [(&str, Option<&Encoding>); 10] = [
    ("big5", Some(BIG5)),
    ("cp932", Some(SHIFT_JIS)),
    ("eucjpms", Some(EUC_JP)),
    ("euckr", Some(EUC_KR)),
    ("gb18030", Some(GB18030)),
    ("gb2312", Some(GBK)),
    ("gbk", Some(GBK)),
    ("sjis", Some(SHIFT_JIS)),
    ("swe7", None),
    ("ujis", Some(EUC_JP)),
];

static FILE: &[u8] = include_bytes!("charsets.bin");

/// Conversion tables of one character set.
#[derive(Debug)]
pub(crate) struct CharsetTable {
    name: &'static str,
    /// `None` stands for ASCII.
    encoding: Option<&'static Encoding>,
    /// Codes of the set whose character differs from the encoding's, sorted by code.
    from: Vec<(u32, u32)>,
    /// Characters whose code differs from the encoding's, sorted by character; code 0 for none.
    into: Vec<(u32, u32)>,
    /// True if bytes below 0x80 are ASCII in both directions.
    pub ascii: bool,
}

/// Table of a character set, if it has one.
pub(crate) fn by_name(name: &str) -> Option<&'static CharsetTable> {
    static TABLES: [OnceLock<CharsetTable>; 10] = [const { OnceLock::new() }; 10];
    let index = SETS.iter().position(|(set, _)| *set == name)?;
    Some(TABLES.get(index)?.get_or_init(|| CharsetTable::read(index)))
}

/// Reads a number of 7 bits a byte, low bits first.
fn number(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift > 56 {
            break;
        }
    }
    value
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the tables are ours: characters of 32 bits"
)]
fn pairs(bytes: &mut &[u8]) -> Vec<(u32, u32)> {
    let count = number(bytes);
    let (mut left, mut right) = (0u32, 0i64);
    (0..count)
        .map(|_| {
            left = left.wrapping_add(number(bytes) as u32);
            let change = number(bytes);
            right += (change >> 1) as i64 ^ -((change & 1) as i64);
            (left, right as u32)
        })
        .collect()
}

fn find(pairs: &[(u32, u32)], left: u32) -> Option<u32> {
    let index = pairs.binary_search_by_key(&left, |pair| pair.0).ok()?;
    pairs.get(index).map(|pair| pair.1)
}

impl CharsetTable {
    fn read(index: usize) -> CharsetTable {
        let mut rest = FILE;
        for _ in 0..index {
            let len = rest.first_chunk().map_or(0, |len| u32::from_le_bytes(*len) as usize);
            rest = rest.get(4 + len..).unwrap_or(&[]);
        }
        let mut own = rest.get(4..).unwrap_or(&[]);
        let (from, into) = (pairs(&mut own), pairs(&mut own));
        let ascii = [&from, &into].iter().all(|list| list.first().is_none_or(|pair| pair.0 >= 0x80));
        let (name, encoding) = SETS.get(index).copied().unwrap_or(("", None));
        CharsetTable { name, encoding, from, into, ascii }
    }

    /// Decodes text of the set to Unicode; `None` if the bytes are not text in it. A character that Unicode lacks
    /// becomes `?`, as on the server.
    pub(crate) fn decode(&self, text: &[u8]) -> Option<String> {
        let mut out = String::with_capacity(text.len() * 2);
        let (mut at, mut run) = (0, 0);
        while let Some((first, rest)) = text.get(at..).and_then(<[u8]>::split_first) {
            let len = character_len(self.name, *first, rest.first().copied().unwrap_or(0));
            let code = text.get(at..at + len)?.iter().fold(0, |code, byte| code << 8 | u32::from(*byte));
            if let Some(char) = find(&self.from, code) {
                self.decode_run(text.get(run..at)?, &mut out)?;
                out.push(char::from_u32(char)?);
                run = at + len;
            }
            at += len;
        }
        self.decode_run(text.get(run..)?, &mut out)?;
        Some(out)
    }

    /// As [`CharsetTable::decode`], with a question mark for what is not text in the set, as the server converts names
    /// and members of ENUM and SET (`my_convert` and the sets' `mb_wc`; seen on 9.7): for each such byte, or for two
    /// where the set's function does not look at the second one. An incomplete last character is left out.
    pub(crate) fn decode_with_question_marks(&self, text: &[u8]) -> String {
        let pairs = matches!(self.name, "big5" | "euckr" | "gb2312" | "gbk");
        let mut out = String::with_capacity(text.len() * 2);
        let mut rest = text;
        while let Some(first) = rest.first() {
            let len = self.wanted_len(*first, rest.get(1).copied());
            let Some((character, behind)) = rest.split_at_checked(len) else { break };
            // `encoding_rs` gives 0x80 a character, and reads all of GBK as gb2312.
            let lacks = *first == 0x80 || self.name == "gb2312" && matches!(character, [_, 0..=0xa0]);
            let decoded = self.decode(character).filter(|_| !lacks);
            rest = if decoded.is_some() || pairs { behind } else { rest.get(1..).unwrap_or(&[]) };
            out.push_str(decoded.as_deref().unwrap_or("?"));
        }
        out
    }

    /// Bytes that the set's `mb_wc` wants for a character with this beginning.
    fn wanted_len(&self, first: u8, second: Option<u8>) -> usize {
        match (self.name, first) {
            (_, 0..=0x7f) | ("sjis" | "cp932", 0xa1..=0xdf) | ("swe7", _) => 1,
            ("ujis" | "eucjpms", 0x80..=0x8d | 0x90..=0xa0 | 0xff) | ("gb18030", 0x80 | 0xff) => 1,
            (name, _) => character_len(name, first, second.unwrap_or(0)).max(2),
        }
    }

    /// The text without an incomplete last character.
    pub(crate) fn without_incomplete_end<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        let mut at = 0;
        while let Some(rest @ [first, ..]) = text.get(at..) {
            let len = self.wanted_len(*first, rest.get(1).copied());
            if len > rest.len() {
                break;
            }
            at += len;
        }
        text.get(..at).unwrap_or(text)
    }

    fn decode_run(&self, text: &[u8], out: &mut String) -> Option<()> {
        match self.encoding {
            Some(encoding) => out.push_str(&encoding.decode_without_bom_handling_and_without_replacement(text)?),
            None => out.push_str(std::str::from_utf8(text).ok().filter(|text| text.is_ascii())?),
        }
        Some(())
    }

    /// Encodes Unicode text in the set; `None` if the set lacks a character.
    pub(crate) fn encode(&self, text: &str) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(text.len());
        let mut run = 0;
        for (at, char) in text.char_indices() {
            if let Some(code) = find(&self.into, u32::from(char)) {
                self.encode_run(text.get(run..at)?, &mut out)?;
                if code == 0 && char != '\0' {
                    return None;
                }
                let bytes = code.to_be_bytes();
                let zeros = bytes.iter().take(3).take_while(|byte| **byte == 0).count();
                out.extend_from_slice(bytes.get(zeros..)?);
                run = at + char.len_utf8();
            }
        }
        self.encode_run(text.get(run..)?, &mut out)?;
        Some(out)
    }

    fn encode_run(&self, text: &str, out: &mut Vec<u8>) -> Option<()> {
        let Some(encoding) = self.encoding else {
            // ASCII text is unchanged, except where the set replaces an ASCII character with another.
            let same = text.is_ascii() && self.decode(text.as_bytes()).as_deref() == Some(text);
            out.extend_from_slice(Some(text).filter(|_| same)?.as_bytes());
            return Some(());
        };
        let (bytes, _, unmappable) = encoding.encode(text);
        // Text that does not decode to itself was encoded by a browsers' rule that the server does not have.
        if unmappable || self.decode(&bytes).as_deref() != Some(text) {
            return None;
        }
        out.extend_from_slice(&bytes);
        Some(())
    }

    /// False for codes whose character encodes to another code.
    #[cfg(test)]
    pub(crate) fn comes_back(&self, char: char) -> bool {
        self.encode(char.encode_utf8(&mut [0; 4])).is_some_and(|bytes| self.decode(&bytes) == Some(char.to_string()))
    }
}
