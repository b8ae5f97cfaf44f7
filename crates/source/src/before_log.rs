//! Tables that are older than the source's first binary log file, on a source that has purged none: the log does not
//! hold them (RESET BINARY LOGS AND GTIDS, a physical restore, the binary log switched on later).
//!
//! In: connections. Out: their names, and when that file was begun. Never here: a table made with `sql_log_bin=0`
//! later, or changed by DDL since, whose CREATE_TIME says nothing.

use base::GtidSet;
use binlog::{EventHeader, event_type};
use client::{ClientError, Connection, Result};

use crate::{DumpRequest, NOT_SYSTEM, TableFilter, start_dump};

const TABLES: &str = "information_schema.TABLES";
/// What a source answers that has a log and no tables, such as a relay, to a question about tables
/// (ER_NOT_SUPPORTED_YET). A MySQL server answers each of these questions.
pub const KEEPS_NO_TABLES: u16 = 1235;

/// Tables that are older than the source's first binary log file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TablesBeforeLog {
    /// When the source began the file, seconds since 1970.
    pub begun_s: u64,
    /// Database and table, by their names here.
    pub tables: Vec<(String, String)>,
}

/// When the source began its oldest binary log file that has transactions outside `executed`: the time of its format
/// description event, seconds since 1970. None if there is no such file. Uses its own connection.
///
/// # Errors
/// The connection fails, or the account may not read the log.
pub(crate) fn log_begun_s(log: Connection, executed: &GtidSet) -> Result<Option<u64>> {
    // With server id 0 the source does not treat us as a replica.
    let mut stream = start_dump(log, &DumpRequest { non_block: true, ..DumpRequest::new(0, executed) })?;
    while let Some(event) = stream.next_event()? {
        let what = "COM_BINLOG_DUMP_GTID";
        let header = EventHeader::parse(event.event).map_err(|_| ClientError::UnexpectedAnswer { what })?;
        let first = header.event_type == event_type::FORMAT_DESCRIPTION || !header.is_artificial();
        if first && header.timestamp != 0 && header.event_type != event_type::ROTATE {
            return Ok(Some(u64::from(header.timestamp)));
        }
    }
    Ok(None)
}

/// Finds them; None if there are none. The source has purged nothing. `log` is a connection for the log alone.
///
/// # Errors
/// As `log_begun_s`, or the tables cannot be listed.
pub fn tables_before_log(
    connection: &mut Connection,
    log: Connection,
    filter: &TableFilter,
) -> Result<Option<TablesBeforeLog>> {
    let Some(begun_s) = log_begun_s(log, &GtidSet::new())? else { return Ok(None) };
    let what = "SELECT @@GLOBAL.lower_case_table_names";
    let lower = connection.query(what)?.told(0, 0, what)?;
    // In another time zone an hour of the year comes twice.
    connection.exec("SET SESSION time_zone = '+00:00'")?;
    let found = match connection.query(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM {TABLES} WHERE TABLE_TYPE = 'BASE TABLE' AND CREATE_TIME < \
         FROM_UNIXTIME({begun_s}) AND {NOT_SYSTEM} ORDER BY 1, 2"
    )) {
        Err(error) if error.server_code() == Some(KEEPS_NO_TABLES) => return Ok(None),
        found => found?,
    };
    let mut tables = Vec::new();
    for row in 0..found.rows.len() {
        let (db, table): (String, String) = (found.told(row, 0, TABLES)?, found.told(row, 1, TABLES)?);
        if let Some(here) = filter.place_of(&db, &table, lower) {
            tables.push((here.to_owned(), table));
        }
    }
    Ok((!tables.is_empty()).then_some(TablesBeforeLog { begun_s, tables }))
}
