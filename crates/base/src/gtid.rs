//! Global transaction identifiers: `uuid[:tag]:gno`.
//!
//! In: text. Out: fixed-size values that copy without allocation. Never here: sets (`gtid_set`).

use std::fmt;
use std::str::FromStr;

/// Why a text or binary form is not a GTID or GTID set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GtidError {
    /// Not 32 hexadecimal digits with optional dashes.
    #[error("'{0}' is not a server UUID")]
    Uuid(String),
    /// Not `[a-z_][a-z0-9_]{0,31}`.
    #[error("'{0}' is not a GTID tag (letters, digits and underscore, at most 32, not starting with a digit)")]
    Tag(String),
    /// Not a number, or outside 1 to 2^63-2.
    #[error("'{0}' is not a transaction number or interval (1 to 9223372036854775806)")]
    Number(String),
    /// A uuid without an interval, or text that is no GTID at all.
    #[error("'{0}' is not a GTID or GTID set")]
    Malformed(String),
    /// The binary form ends early or contains impossible numbers.
    #[error("binary GTID set is damaged: {0}")]
    Binary(&'static str),
}

/// Largest transaction number; MySQL's GNO_END, 2^63-1, is exclusive.
pub(crate) const GNO_MAX: u64 = i64::MAX as u64 - 1;

/// A server UUID, 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = GtidError;

    /// Accepts the form with dashes, the form without, and braces around either, as MySQL's `Uuid::parse` does.
    fn from_str(text: &str) -> Result<Uuid, GtidError> {
        let bad = || GtidError::Uuid(text.chars().take(64).collect());
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        let dashed = inner.len() == 36;
        let mut bytes = [0u8; 16];
        let mut nibbles = 0usize;
        for (i, c) in inner.bytes().enumerate() {
            if dashed && matches!(i, 8 | 13 | 18 | 23) {
                if c != b'-' {
                    return Err(bad());
                }
                continue;
            }
            let digit = (c as char).to_digit(16).ok_or_else(bad)? as u8;
            let slot = bytes.get_mut(nibbles / 2).ok_or_else(bad)?;
            *slot = (*slot << 4) | digit;
            nibbles += 1;
        }
        if nibbles == 32 { Ok(Uuid(bytes)) } else { Err(bad()) }
    }
}

/// The tag of a tagged GTID (MySQL 8.3 and later); usually empty.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tag {
    // Unused bytes stay zero, so that the derived order is that of the text.
    bytes: [u8; 32],
    len: u8,
}

impl Tag {
    pub const EMPTY: Tag = Tag { bytes: [0; 32], len: 0 };

    /// Makes a tag from text. Upper case is lowered, as MySQL does; empty text gives [`Tag::EMPTY`].
    ///
    /// # Errors
    /// If the text is neither empty nor of the form `[a-zA-Z_][a-zA-Z0-9_]{0,31}`.
    pub fn new(text: &[u8]) -> Result<Tag, GtidError> {
        let bad = || GtidError::Tag(String::from_utf8_lossy(text.get(..64).unwrap_or(text)).into_owned());
        let mut tag = Tag::EMPTY;
        if text.len() > tag.bytes.len() {
            return Err(bad());
        }
        for (i, (to, from)) in tag.bytes.iter_mut().zip(text).enumerate() {
            let c = from.to_ascii_lowercase();
            let good = c == b'_' || c.is_ascii_lowercase() || (i > 0 && c.is_ascii_digit());
            if !good {
                return Err(bad());
            }
            *to = c;
        }
        tag.len = text.len() as u8;
        Ok(tag)
    }

    /// True if there is no tag.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tag as text; empty if there is none.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.bytes.get(..usize::from(self.len)).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or("")
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Identity of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gtid {
    /// Server that first committed it.
    pub uuid: Uuid,
    /// Its tag; usually [`Tag::EMPTY`].
    pub tag: Tag,
    /// Its number under this uuid and tag, from 1.
    pub gno: u64,
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tag.is_empty() {
            write!(f, "{}:{}", self.uuid, self.gno)
        } else {
            write!(f, "{}:{}:{}", self.uuid, self.tag.as_str(), self.gno)
        }
    }
}

impl FromStr for Gtid {
    type Err = GtidError;

    fn from_str(text: &str) -> Result<Gtid, GtidError> {
        let malformed = || GtidError::Malformed(text.chars().take(128).collect());
        let mut parts = text.trim().split(':');
        let uuid: Uuid = parts.next().ok_or_else(malformed)?.trim().parse()?;
        let second = parts.next().ok_or_else(malformed)?.trim();
        let (tag, number) = match parts.next() {
            Some(third) => (Tag::new(second.as_bytes())?, third.trim()),
            None => (Tag::EMPTY, second),
        };
        if parts.next().is_some() {
            return Err(malformed());
        }
        Ok(Gtid { uuid, tag, gno: parse_gno(number)? })
    }
}

pub(crate) fn parse_gno(text: &str) -> Result<u64, GtidError> {
    let bad = || GtidError::Number(text.chars().take(32).collect());
    if text.is_empty() || !text.bytes().all(|c| c.is_ascii_digit()) {
        return Err(bad());
    }
    let number: u64 = text.parse().map_err(|_| bad())?;
    if (1..=GNO_MAX).contains(&number) { Ok(number) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gtid_text_round_trips() {
        for text in ["896e7882-18fe-11ef-ab88-22222d34d411:1", "896e7882-18fe-11ef-ab88-22222d34d411:foobaz:77"] {
            assert_eq!(text.parse::<Gtid>().unwrap().to_string(), text);
        }
        assert_eq!(
            "896E788218FE11EFAB8822222D34D411:A:3".parse::<Gtid>().unwrap().to_string(),
            "896e7882-18fe-11ef-ab88-22222d34d411:a:3"
        );
    }

    #[test]
    fn bad_gtids_are_refused() {
        for text in [
            "",
            "x",
            "896e7882-18fe-11ef-ab88-22222d34d411",
            "896e7882-18fe-11ef-ab88-22222d34d411:0",
            "896e7882-18fe-11ef-ab88-22222d34d411:9223372036854775807",
            "896e7882-18fe-11ef-ab88-22222d34d411:9x:1",
            "896e7882-18fe-11ef-ab88-22222d34d411:-1",
            "896e7882-18fe-11ef-ab88-22222d34d411:+1",
        ] {
            assert!(text.parse::<Gtid>().is_err(), "{text}");
        }
    }
}
