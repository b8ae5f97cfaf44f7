//! PARTITION BY KEY: the server's hash of the columns' values.
//!
//! In: columns of a definition, stored values. Out: the 32-bit hash. Never here: a type or collation whose result was
//! not compared with where a server places such rows (all supported ones were, on 9.7.4); ALGORITHM = 1, from 5.1.
//!
//! Mirrors `get_part_id_key` (sql/sql_partition.cc) and the `hash_sort` of each collation.

use values::weight_string;
use values::{ColumnType, collation};

use crate::table::code;

/// latin1_swedish_ci, as whose text the bytes of numbers are hashed.
const OF_NUMBERS: u16 = 8;

/// Single-byte collations in which a sequence of two bytes may have one weight.
const NOT_BYTE_BY_BYTE: &[&str] =
    &["latin1_german2_ci", "latin2_czech_cs", "cp1250_czech_cs", "tis620_thai_ci", "tis620_thai_bin"];

/// How values of one column are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnHash {
    prefix_len: usize,
    /// For CHAR and BINARY: the length to which values are padded, and the padding byte.
    filled: Option<(usize, u8)>,
    way: Way,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Bytes,
    /// Like `Bytes`, without trailing spaces.
    TrimmedBytes,
    /// Weights of a collation, without trailing spaces; the high byte of a 16-bit weight first.
    Weights(u16),
    /// Like `Weights`, with the low byte first.
    LowFirst(u16),
    /// Weights of a UCA 9.0.0 collation, two bytes at a time.
    Uca900(u16),
}

impl ColumnHash {
    /// Returns how values of this type are hashed.
    ///
    /// # Errors
    /// If their hash is not implemented.
    pub(crate) fn of(ty: &ColumnType) -> Result<ColumnHash, String> {
        let not_known = |what: &str| Err(format!("the partitions of rows placed by KEY over {what}"));
        let way = match ty.code {
            code::DATETIME2 | code::TIMESTAMP2 | code::TIME2 | code::ENUM | code::SET => Way::Bytes,
            code::TINY | code::SHORT | code::INT24 | code::LONG | code::LONGLONG => Way::Weights(OF_NUMBERS),
            code::FLOAT | code::DOUBLE | code::DECIMAL | code::YEAR | code::DATE => Way::Weights(OF_NUMBERS),
            code::CHAR | code::VARCHAR => match ty.text_collation() {
                None if ty.collation == collation::BINARY => Way::Bytes,
                None => return not_known("a text of a character set that is not known"),
                Some(found) => match way_of_text(found) {
                    Some(way) => way,
                    None => return not_known(&format!("a text in {}", found.name)),
                },
            },
            _ => return not_known(&format!("a column of type {}", ty.name())),
        };
        let filler = if ty.collation == collation::BINARY { 0 } else { b' ' };
        let filled = (ty.code == code::CHAR).then_some((usize::from(ty.meta), filler));
        Ok(ColumnHash { prefix_len: ty.prefix_len(), filled, way })
    }
}

fn way_of_text(found: collation::Collation) -> Option<Way> {
    if NOT_BYTE_BY_BYTE.contains(&found.name) {
        return None;
    }
    let is_utf8 = matches!(found.charset, "utf8mb4" | "utf8mb3");
    match found.name {
        name if name.ends_with("_bin") && (is_utf8 || found.mbmaxlen == 1) => Some(Way::TrimmedBytes),
        _ if found.mbmaxlen == 1 => Some(Way::Weights(found.id)),
        _ if !is_utf8 => None,
        name if name.ends_with("_general_ci") => Some(Way::LowFirst(found.id)),
        name if name.contains("_0900_") => Some(Way::Uca900(found.id)),
        name if name.ends_with("_mysql500_ci") || name.contains("_tolower_") => None,
        _ => Some(Way::Weights(found.id)),
    }
}

/// Hash state of a row. Values are added in table order of the columns.
pub(crate) struct KeyHash {
    first: u64,
    second: u64,
    value: Vec<u8>,
    weights: Vec<u8>,
}

impl KeyHash {
    pub(crate) fn new() -> KeyHash {
        KeyHash { first: 1, second: 4, value: Vec::new(), weights: Vec::new() }
    }

    /// Adds a column's stored value; None for NULL.
    ///
    /// # Errors
    /// If the collation's weights are not implemented.
    pub(crate) fn add(&mut self, column: &ColumnHash, stored: Option<&[u8]>) -> Result<(), String> {
        let Some(stored) = stored else {
            self.first ^= self.first << 1 | 1;
            return Ok(());
        };
        let mut value = std::mem::take(&mut self.value);
        let mut weights = std::mem::take(&mut self.weights);
        value.clear();
        value.extend_from_slice(stored.get(column.prefix_len..).unwrap_or(&[]));
        if let Some((len, filler)) = column.filled {
            value.resize(len.max(value.len()), filler);
        }
        let trimmed = without_spaces_at_the_end(&value);
        let mut weigh = |collation: u16, text: &[u8]| {
            weights.clear();
            weight_string(collation, text, &mut weights).map_err(|error| error.to_string())
        };
        match column.way {
            Way::Bytes => self.bytes(&value),
            Way::TrimmedBytes => self.bytes(trimmed),
            Way::Weights(collation) => {
                weigh(collation, trimmed)?;
                self.bytes(&weights);
            }
            Way::LowFirst(collation) => {
                weigh(collation, trimmed)?;
                weights.chunks_exact_mut(2).for_each(<[u8]>::reverse);
                self.bytes(&weights);
            }
            Way::Uca900(collation) => {
                weigh(collation, &value)?;
                // FNV-1a over weights instead of bytes.
                self.first ^= 0xcbf2_9ce4_8422_2325;
                for weight in weights.as_chunks::<2>().0 {
                    self.first ^= u64::from(u16::from_be_bytes(*weight));
                    self.first = self.first.wrapping_mul(0x100_0000_01b3);
                }
            }
        }
        (self.value, self.weights) = (value, weights);
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let step = (self.first & 63).wrapping_add(self.second).wrapping_mul(u64::from(*byte));
            self.first ^= step.wrapping_add(self.first << 8);
            self.second = self.second.wrapping_add(3);
        }
    }

    pub(crate) fn finish(self) -> u64 {
        self.first & 0xffff_ffff
    }
}

fn without_spaces_at_the_end(text: &[u8]) -> &[u8] {
    let len = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    text.get(..len).unwrap_or(&[])
}

/// Partition of a hash under LINEAR (`get_part_id_from_linear_hash`, sql/sql_partition.cc).
pub(crate) fn linear(hash: u64, count: u64) -> u64 {
    let mask = count.next_power_of_two() - 1;
    let part = hash & mask;
    if part < count { part } else { hash & (mask >> 1) }
}
