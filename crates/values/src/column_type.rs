//! Column types as the binary log needs them: how many bytes a value takes and what they mean.
//!
//! In: type byte and metadata from a table map, or a definition read from DDL. Out: `ColumnType`.

use std::sync::Arc;

use crate::collation::{self, Collation};
use crate::decimal;
use crate::error::ValueError;

/// The server's type codes (enum_field_types in field_types.h). CHAR, ENUM and SET have their real codes here; a table
/// map has 254 for all three.
pub mod type_code {
    #![allow(missing_docs)]
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    /// Of a literal NULL in a result; no column has it.
    pub const NULL: u8 = 6;
    /// TIMESTAMP as MySQL 5.5 and earlier stored it.
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    /// TIME as MySQL 5.5 and earlier stored it.
    pub const TIME: u8 = 11;
    /// DATETIME as MySQL 5.5 and earlier stored it.
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    /// Only in table maps; `ColumnType` uses `DATE`.
    pub const NEWDATE: u8 = 14;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const TIMESTAMP2: u8 = 17;
    pub const DATETIME2: u8 = 18;
    pub const TIME2: u8 = 19;
    pub const TYPED_ARRAY: u8 = 20;
    pub const VECTOR: u8 = 242;
    pub const JSON: u8 = 245;
    pub const DECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const BLOB: u8 = 252;
    /// Only in result sets, where it stands for VARCHAR.
    pub const VAR_STRING: u8 = 253;
    pub const CHAR: u8 = 254;
    pub const GEOMETRY: u8 = 255;
}

use type_code as t;

/// Type of one column.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnType {
    /// One of `type_code`; for CHAR, ENUM and SET the real type.
    #[serde(rename = "code")]
    pub code: u8,
    /// CHAR, VARCHAR: maximum bytes. ENUM, SET: stored bytes. DECIMAL: precision × 256 + scale. BLOB, JSON, GEOMETRY,
    /// VECTOR: bytes of the length prefix. Temporal types: fractional digits. BIT: bits. FLOAT: 4. DOUBLE: 8. Others:
    /// 0.
    #[serde(rename = "meta")]
    pub meta: u16,
    /// UNSIGNED; applies to integers, DECIMAL, FLOAT and DOUBLE.
    #[serde(rename = "unsigned")]
    pub unsigned: bool,
    /// Collation id of text; 63 for bytes; 0 if unknown.
    #[serde(rename = "collation")]
    pub collation: u16,
    /// Member names of ENUM and SET, in the column's character set; otherwise empty.
    #[serde(rename = "members")]
    pub members: Arc<[Box<[u8]>]>,
}

/// How the length of a stored value is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Always this many bytes.
    Fixed(u32),
    /// A little-endian length of 1 to 4 bytes, then as many bytes.
    Prefixed(u8),
}

impl ColumnType {
    /// A type with a code and metadata only.
    #[must_use]
    pub fn new(code: u8, meta: u16) -> ColumnType {
        ColumnType { code, meta, unsigned: false, collation: 0, members: Arc::default() }
    }

    /// Reads a type from the type byte and metadata bytes of a table map. Signedness, collation and names are elsewhere
    /// in the event.
    ///
    /// # Errors
    /// The metadata has the wrong length or is out of range, or no row image of MySQL 5.6 to 9.x holds the type.
    pub fn from_table_map(type_byte: u8, raw_metadata: &[u8]) -> Result<ColumnType, ValueError> {
        let what = "column metadata in a table map";
        let none = || raw_metadata.is_empty().then_some(()).ok_or(ValueError::Invalid { what });
        let one = || <[u8; 1]>::try_from(raw_metadata).map(|[b]| b).map_err(|_| ValueError::Invalid { what });
        let two = || <[u8; 2]>::try_from(raw_metadata).map_err(|_| ValueError::Invalid { what });
        let (code, meta) = match type_byte {
            t::TINY
            | t::SHORT
            | t::INT24
            | t::LONG
            | t::LONGLONG
            | t::YEAR
            | t::DATE
            | t::TIMESTAMP
            | t::TIME
            | t::DATETIME => {
                none()?;
                (type_byte, 0)
            }
            t::NEWDATE => {
                none()?;
                (t::DATE, 0)
            }
            t::FLOAT
            | t::DOUBLE
            | t::TIMESTAMP2
            | t::DATETIME2
            | t::TIME2
            | t::BLOB
            | t::JSON
            | t::GEOMETRY
            | t::VECTOR => (type_byte, u16::from(one()?)),
            t::VARCHAR => (type_byte, u16::from_le_bytes(two()?)),
            t::DECIMAL => (type_byte, u16::from_be_bytes(two()?)),
            t::BIT => {
                let [bits, bytes] = two()?;
                (type_byte, u16::from(bytes) * 8 + u16::from(bits))
            }
            t::CHAR => {
                let [high, low] = two()?;
                // Two bits of a CHAR's length are stored inverted in bits that all three real type codes have set.
                (high | 0x30, u16::from(!high & 0x30) << 4 | u16::from(low))
            }
            _ => return Err(ValueError::unsupported(format!("column type {type_byte} in a table map"))),
        };
        let ty = ColumnType::new(code, meta);
        ty.check()?;
        Ok(ty)
    }

    /// Checks that the metadata is valid for the type code.
    ///
    /// # Errors
    /// The metadata is out of range, or the code is unknown.
    pub fn check(&self) -> Result<(), ValueError> {
        let meta = self.meta;
        let good = match self.code {
            t::TINY
            | t::SHORT
            | t::INT24
            | t::LONG
            | t::LONGLONG
            | t::YEAR
            | t::DATE
            | t::TIMESTAMP
            | t::TIME
            | t::DATETIME => true,
            t::FLOAT => meta == 4,
            t::DOUBLE => meta == 8,
            t::TIMESTAMP2 | t::DATETIME2 | t::TIME2 => meta <= 6,
            t::BLOB | t::JSON | t::GEOMETRY | t::VECTOR => (1..=4).contains(&meta),
            t::VARCHAR => true,
            t::CHAR => meta <= 1023,
            t::DECIMAL => {
                let (precision, scale) = self.precision_and_scale();
                (1..=65).contains(&precision) && scale <= 30 && scale <= precision
            }
            t::BIT => (1..=64).contains(&meta),
            t::ENUM => matches!(meta, 1 | 2),
            t::SET => matches!(meta, 1..=4 | 8),
            other => return Err(ValueError::unsupported(format!("column type {other}"))),
        };
        if good { Ok(()) } else { Err(ValueError::Invalid { what: "column type with its metadata" }) }
    }

    /// Precision and scale of a DECIMAL.
    #[must_use]
    pub fn precision_and_scale(&self) -> (u8, u8) {
        let [precision, scale] = self.meta.to_be_bytes();
        (precision, scale)
    }

    /// True for TINYINT to BIGINT, signed or unsigned.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        matches!(self.code, t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG)
    }

    /// Length in bytes of a stored value, if all values have the same.
    #[must_use]
    pub fn fixed_len(&self) -> Option<usize> {
        match self.extent() {
            Extent::Fixed(len) => Some(len as usize),
            Extent::Prefixed(_) => None,
        }
    }

    /// Length in bytes of a stored value's length prefix; 0 for types of fixed length.
    #[must_use]
    pub fn prefix_len(&self) -> usize {
        match self.extent() {
            Extent::Fixed(_) => 0,
            Extent::Prefixed(len) => usize::from(len),
        }
    }

    pub(crate) fn extent(&self) -> Extent {
        let fraction = u32::from(self.meta).div_ceil(2);
        match self.code {
            t::TINY | t::YEAR => Extent::Fixed(1),
            t::SHORT => Extent::Fixed(2),
            t::INT24 | t::DATE | t::TIME => Extent::Fixed(3),
            t::LONG | t::FLOAT | t::TIMESTAMP => Extent::Fixed(4),
            t::LONGLONG | t::DOUBLE | t::DATETIME => Extent::Fixed(8),
            t::TIMESTAMP2 => Extent::Fixed(4 + fraction),
            t::DATETIME2 => Extent::Fixed(5 + fraction),
            t::TIME2 => Extent::Fixed(3 + fraction),
            t::ENUM | t::SET => Extent::Fixed(u32::from(self.meta)),
            t::BIT => Extent::Fixed(u32::from(self.meta).div_ceil(8)),
            t::DECIMAL => {
                let (precision, scale) = self.precision_and_scale();
                #[allow(clippy::cast_possible_truncation, reason = "two numbers below 256 make at most 228 bytes")]
                let len = decimal::stored_len(precision, scale) as u32;
                Extent::Fixed(len)
            }
            t::CHAR | t::VARCHAR => Extent::Prefixed(if self.meta > 255 { 2 } else { 1 }),
            // BLOB, JSON, GEOMETRY, VECTOR. `check` rejects other codes; for those the only duty here is not to
            // misread.
            _ => Extent::Prefixed(self.meta.clamp(1, 4) as u8),
        }
    }

    /// Collation of a text column; `None` for bytes, numbers and unknown ids.
    #[must_use]
    pub fn text_collation(&self) -> Option<Collation> {
        match self.code {
            t::CHAR | t::VARCHAR | t::BLOB | t::ENUM | t::SET => {
                collation::by_id(self.collation).filter(|c| c.id != collation::BINARY)
            }
            _ => None,
        }
    }

    /// Name of the type for messages, without parameters.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let binary = self.collation == collation::BINARY;
        match self.code {
            t::TINY => "TINYINT",
            t::SHORT => "SMALLINT",
            t::INT24 => "MEDIUMINT",
            t::LONG => "INT",
            t::LONGLONG => "BIGINT",
            t::FLOAT => "FLOAT",
            t::DOUBLE => "DOUBLE",
            t::DECIMAL => "DECIMAL",
            t::YEAR => "YEAR",
            t::DATE => "DATE",
            t::TIME | t::TIME2 => "TIME",
            t::DATETIME | t::DATETIME2 => "DATETIME",
            t::TIMESTAMP | t::TIMESTAMP2 => "TIMESTAMP",
            t::BIT => "BIT",
            t::ENUM => "ENUM",
            t::SET => "SET",
            t::CHAR if binary => "BINARY",
            t::CHAR => "CHAR",
            t::VARCHAR if binary => "VARBINARY",
            t::VARCHAR => "VARCHAR",
            t::BLOB if binary => "BLOB",
            t::BLOB => "TEXT",
            t::JSON => "JSON",
            t::GEOMETRY => "GEOMETRY",
            t::VECTOR => "VECTOR",
            _ => "unknown type",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(code: u8, raw: &[u8]) -> (u8, u16) {
        let ty = ColumnType::from_table_map(code, raw).unwrap();
        (ty.code, ty.meta)
    }

    #[test]
    fn string_metadata_hides_the_real_type_and_long_lengths() {
        assert_eq!(map(254, &[0xfe, 40]), (t::CHAR, 40));
        assert_eq!(map(254, &[0xce, 0xfc]), (t::CHAR, 0x3fc)); // CHAR(255) utf8mb4: 1020 bytes
        assert_eq!(map(254, &[0xee, 0x2c]), (t::CHAR, 300)); // CHAR(100) utf8mb3 or CHAR(75) utf8mb4
        assert_eq!(map(254, &[0xf7, 1]), (t::ENUM, 1));
        assert_eq!(map(254, &[0xf8, 8]), (t::SET, 8));
        assert!(ColumnType::from_table_map(254, &[0xf6, 1]).is_err());
        assert!(ColumnType::from_table_map(254, &[0xf7, 3]).is_err());
    }

    #[test]
    fn other_metadata() {
        assert_eq!(map(15, &[0x2c, 1]), (t::VARCHAR, 300));
        assert_eq!(map(246, &[10, 2]), (t::DECIMAL, 10 << 8 | 2));
        assert_eq!(map(16, &[3, 1]), (t::BIT, 11));
        assert_eq!(map(14, &[]), (t::DATE, 0));
        assert_eq!(map(18, &[6]), (t::DATETIME2, 6));
        for (code, raw) in
            [(3, &[1u8][..]), (18, &[7]), (246, &[66, 0]), (246, &[5, 6]), (252, &[5]), (252, &[0]), (15, &[1])]
        {
            assert!(ColumnType::from_table_map(code, raw).is_err(), "{code} {raw:?}");
        }
        assert!(matches!(ColumnType::from_table_map(20, &[]), Err(ValueError::Unsupported { .. })));
        assert!(matches!(ColumnType::from_table_map(253, &[1, 0]), Err(ValueError::Unsupported { .. })));
    }

    #[test]
    fn lengths() {
        let fixed = |code, meta| ColumnType::new(code, meta).fixed_len();
        assert_eq!(fixed(t::DATETIME2, 3), Some(7));
        assert_eq!(fixed(t::TIME2, 6), Some(6));
        assert_eq!(fixed(t::TIMESTAMP2, 0), Some(4));
        assert_eq!(fixed(t::DECIMAL, 10 << 8 | 2), Some(5));
        assert_eq!(fixed(t::BIT, 9), Some(2));
        assert_eq!(fixed(t::VARCHAR, 9), None);
        assert_eq!(ColumnType::new(t::VARCHAR, 256).prefix_len(), 2);
        assert_eq!(ColumnType::new(t::BLOB, 3).prefix_len(), 3);
    }
}
