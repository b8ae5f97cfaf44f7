//! Answers of a server: OK, ERR, EOF, column definitions.

use crate::read::Reader;
use crate::{Result, WireError};

/// Status bits of OK and EOF packets.
pub mod status {
    /// A transaction is open.
    pub const IN_TRANS: u16 = 1;
    /// Autocommit is on.
    pub const AUTOCOMMIT: u16 = 2;
    /// Another result follows.
    pub const MORE_RESULTS_EXISTS: u16 = 8;
    /// The statement read a table without using a key.
    pub const NO_INDEX_USED: u16 = 1 << 5;
    /// A read-only cursor is open for the statement.
    pub const CURSOR_EXISTS: u16 = 1 << 6;
    /// The cursor's last row was sent.
    pub const LAST_ROW_SENT: u16 = 1 << 7;
    /// A prepared statement has another number of result columns than before.
    pub const METADATA_CHANGED: u16 = 1 << 10;
    /// Backslashes in strings are ordinary characters.
    pub const NO_BACKSLASH_ESCAPES: u16 = 1 << 9;
    /// The open transaction is read only.
    pub const IN_TRANS_READONLY: u16 = 1 << 13;
    /// The OK packet reports changes of the session's state.
    pub const SESSION_STATE_CHANGED: u16 = 1 << 14;
}

/// An OK packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OkPacket {
    /// Number of rows changed.
    pub affected_rows: u64,
    /// The generated AUTO_INCREMENT value, or 0.
    pub last_insert_id: u64,
    /// Status bits, see [`status`].
    pub status: u16,
    /// Number of warnings.
    pub warnings: u16,
}

impl OkPacket {
    /// Parses an OK packet, also one that ends a result set (header 0xfe).
    pub fn parse(payload: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        if !matches!(reader.u8("OK packet")?, 0x00 | 0xfe) {
            return Err(WireError::Malformed { what: "not an OK packet" });
        }
        Ok(OkPacket {
            affected_rows: reader.lenenc("affected rows")?,
            last_insert_id: reader.lenenc("last insert id")?,
            status: reader.u16("status")?,
            warnings: reader.u16("warnings")?,
        })
    }

    /// Parses an EOF packet (the five-byte form) into the same fields.
    pub fn parse_eof(payload: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        reader.u8("EOF packet")?;
        if reader.is_empty() {
            return Ok(OkPacket::default());
        }
        let warnings = reader.u16("warnings")?;
        Ok(OkPacket { status: reader.u16("status")?, warnings, ..OkPacket::default() })
    }

    /// True if another result of the same command follows.
    pub fn more_results(&self) -> bool {
        self.status & status::MORE_RESULTS_EXISTS != 0
    }
}

/// Longest text of an error that is kept, in bytes; MySQL's have at most 512 (`MYSQL_ERRMSG_SIZE`).
const ERROR_TEXT_BYTES_MAX: usize = 4 << 10;

/// An ERR packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrPacket {
    /// MySQL's error number.
    pub code: u16,
    /// SQLSTATE of five characters; empty if the server sent none.
    pub sqlstate: String,
    /// Message of the server.
    pub message: String,
}

impl ErrPacket {
    /// Parses an ERR packet.
    pub fn parse(payload: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        if reader.u8("ERR packet")? != 0xff {
            return Err(WireError::Malformed { what: "not an ERR packet" });
        }
        let code = reader.u16("error code")?;
        let mut sqlstate = String::new();
        if reader.rest().first() == Some(&b'#') {
            let state = reader.take(6, "sqlstate")?;
            sqlstate = String::from_utf8_lossy(state.get(1..).unwrap_or_default()).into_owned();
        }
        let text = reader.rest();
        let text = text.get(..ERROR_TEXT_BYTES_MAX).unwrap_or(text);
        Ok(ErrPacket { code, sqlstate, message: String::from_utf8_lossy(text).into_owned() })
    }

    /// Parses an ERR packet sent instead of a greeting.
    pub fn parse_before_login(payload: &[u8]) -> Result<Self> {
        ErrPacket::parse(payload)
    }
}

/// True if the payload is an ERR packet.
#[inline]
pub fn is_err(payload: &[u8]) -> bool {
    payload.first() == Some(&0xff)
}

/// True if the payload ends the rows of a result set: an EOF packet, or an OK packet with header 0xfe.
#[inline]
pub fn ends_rows(payload: &[u8], deprecate_eof: bool) -> bool {
    // A row may begin with 0xfe too (a text value of 16 MiB or more), but then it is longer than a frame.
    payload.first() == Some(&0xfe)
        && if deprecate_eof { payload.len() < crate::packet::MAX_FRAME_LEN } else { payload.len() < 9 }
}

/// Parses the packet that ends the rows of a result set.
pub fn rows_end(payload: &[u8], deprecate_eof: bool) -> Result<OkPacket> {
    if deprecate_eof { OkPacket::parse(payload) } else { OkPacket::parse_eof(payload) }
}

/// First packet of the answer to a query or an execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A statement without rows succeeded.
    Ok(OkPacket),
    /// The statement failed.
    Err(ErrPacket),
    /// This many column definitions follow, then rows.
    Columns(usize),
}

impl Answer {
    /// Parses the first packet of an answer; fails for anything but OK, ERR or a column count.
    pub fn parse(payload: &[u8]) -> Result<Self> {
        match payload.first() {
            Some(0x00) => OkPacket::parse(payload).map(Answer::Ok),
            Some(0xff) => ErrPacket::parse(payload).map(Answer::Err),
            Some(0xfb) => Err(WireError::Malformed { what: "the server asked for a local file" }),
            _ => {
                let count = Reader::new(payload).lenenc("column count")?;
                // MySQL allows 4,096 columns in a table and in a result.
                match usize::try_from(count) {
                    Ok(count @ 1..=65_535) => Ok(Answer::Columns(count)),
                    _ => Err(WireError::Malformed { what: "column count" }),
                }
            }
        }
    }
}

/// A column definition, borrowed from its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnDefinition<'a> {
    /// Database name.
    pub schema: &'a [u8],
    /// Table alias.
    pub table: &'a [u8],
    /// Table name.
    pub org_table: &'a [u8],
    /// Column alias.
    pub name: &'a [u8],
    /// Column name.
    pub org_name: &'a [u8],
    /// Collation id; 63 = binary.
    pub collation: u16,
    /// Display length in bytes.
    pub length: u32,
    /// Protocol type code, see [`crate::row::type_code`].
    pub type_code: u8,
    /// Flags, see [`column_flag`].
    pub flags: u16,
    /// Digits after the decimal point.
    pub decimals: u8,
}

/// Flag bits of a column definition.
pub mod column_flag {
    #![allow(missing_docs)]
    pub const NOT_NULL: u16 = 1;
    pub const PRI_KEY: u16 = 2;
    pub const UNIQUE_KEY: u16 = 4;
    pub const MULTIPLE_KEY: u16 = 8;
    pub const BLOB: u16 = 16;
    pub const UNSIGNED: u16 = 32;
    pub const ZEROFILL: u16 = 64;
    pub const BINARY: u16 = 128;
    pub const ENUM: u16 = 256;
    pub const AUTO_INCREMENT: u16 = 512;
    pub const TIMESTAMP: u16 = 1024;
    pub const SET: u16 = 2048;
    pub const NO_DEFAULT_VALUE: u16 = 4096;
    pub const ON_UPDATE_NOW: u16 = 8192;
    pub const PART_KEY: u16 = 16_384;
}

impl<'a> ColumnDefinition<'a> {
    /// Parses a ColumnDefinition41.
    pub fn parse(payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        reader.lenenc_bytes("catalog")?;
        let schema = reader.lenenc_bytes("schema")?;
        let table = reader.lenenc_bytes("table")?;
        let org_table = reader.lenenc_bytes("original table")?;
        let name = reader.lenenc_bytes("column name")?;
        let org_name = reader.lenenc_bytes("original column name")?;
        let mut fixed = Reader::new(reader.lenenc_bytes("column attributes")?);
        Ok(ColumnDefinition {
            schema,
            table,
            org_table,
            name,
            org_name,
            collation: fixed.u16("collation")?,
            length: fixed.u32("column length")?,
            type_code: fixed.u8("column type")?,
            flags: fixed.u16("column flags")?,
            decimals: fixed.u8("decimals")?,
        })
    }
}

/// The answer to COM_STMT_PREPARE; definitions of `parameters` and then of `columns` follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrepareOk {
    /// Id of the statement on the server.
    pub statement_id: u32,
    /// Number of columns of its result set.
    pub columns: u16,
    /// Number of placeholders.
    pub parameters: u16,
}

impl PrepareOk {
    /// Parses the OK packet of COM_STMT_PREPARE.
    pub fn parse(payload: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        if reader.u8("prepare answer")? != 0 {
            return Err(WireError::Malformed { what: "not a prepare answer" });
        }
        Ok(PrepareOk {
            statement_id: reader.u32("statement id")?,
            columns: reader.u16("column count")?,
            parameters: reader.u16("parameter count")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ok_err_eof() {
        let ok = OkPacket::parse(&[0, 0xfc, 0x10, 0x27, 5, 10, 0, 1, 0]).unwrap();
        assert_eq!(ok, OkPacket { affected_rows: 10_000, last_insert_id: 5, status: 10, warnings: 1 });
        assert!(ok.more_results());
        let err = ErrPacket::parse(b"\xff\x15\x04#28000Access denied").unwrap();
        assert_eq!((err.code, err.sqlstate.as_str(), err.message.as_str()), (1045, "28000", "Access denied"));
        assert!(ends_rows(&[0xfe, 0, 0, 2, 0], false));
        assert!(!ends_rows(&[0xfe, 0, 0, 0, 0, 0, 0, 0, 1, 1], false));
        assert_eq!(rows_end(&[0xfe, 3, 0, 2, 0], false).unwrap().warnings, 3);
    }

    proptest! {
        #[test]
        fn hostile_answers_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = OkPacket::parse(&bytes);
            let _ = OkPacket::parse_eof(&bytes);
            let _ = ErrPacket::parse(&bytes);
            let _ = Answer::parse(&bytes);
            let _ = ColumnDefinition::parse(&bytes);
            let _ = PrepareOk::parse(&bytes);
        }
    }
}
