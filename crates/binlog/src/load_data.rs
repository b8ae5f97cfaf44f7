//! LOAD DATA in statement format: file blocks, and the statement that uses them.

use crate::cursor::Cursor;
use crate::{BinlogError, QueryEvent, event_type};

/// A block of a LOAD DATA file (Begin_load_query, Append_block).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeginLoadQuery<'a> {
    /// Number of the file, as the statement refers to it.
    pub file_id: u32,
    /// Bytes of the block.
    pub block: &'a [u8],
}

impl<'a> BeginLoadQuery<'a> {
    /// Reads the body of a Begin_load_query or Append_block event.
    pub fn parse(body: &'a [u8]) -> Result<BeginLoadQuery<'a>, BinlogError> {
        let mut body = Cursor::new(event_type::name(event_type::BEGIN_LOAD_QUERY), body);
        Ok(BeginLoadQuery { file_id: body.u32("file id")?, block: body.take_rest() })
    }
}

/// A LOAD DATA statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecuteLoadQuery<'a> {
    /// The statement and its session.
    pub query: QueryEvent<'a>,
    /// Number of the file whose blocks came before.
    pub file_id: u32,
    /// Offset in the statement of the file name's first byte.
    pub file_name_start: u32,
    /// Offset in the statement of the byte after the file name.
    pub file_name_end: u32,
    /// Treatment of duplicates: 0 error, 1 ignore, 2 replace.
    pub duplicates: u8,
}

impl<'a> ExecuteLoadQuery<'a> {
    /// Reads the body of an Execute_load_query event.
    pub fn parse(body: &'a [u8]) -> Result<ExecuteLoadQuery<'a>, BinlogError> {
        let event = event_type::name(event_type::EXECUTE_LOAD_QUERY);
        let mut body = Cursor::new(event, body);
        let header = QueryEvent::parse_header(&mut body)?;
        let file_id = body.u32("file id")?;
        let file_name_start = body.u32("start of the file name")?;
        let file_name_end = body.u32("end of the file name")?;
        let duplicates = body.u8("duplicate handling")?;
        let query = QueryEvent::parse_after_header(header, body)?;
        if file_name_start > file_name_end || file_name_end as usize > query.sql.len() {
            return Err(BinlogError::Value { event, field: "end of the file name", value: u64::from(file_name_end) });
        }
        Ok(ExecuteLoadQuery { query, file_id, file_name_start, file_name_end, duplicates })
    }
}
