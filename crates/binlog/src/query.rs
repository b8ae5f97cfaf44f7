//! The Query event: a statement and the session it ran in (statement_events.h, `Query_event`).

use crate::cursor::Cursor;
use crate::{BinlogError, encode, event_type};

/// Codes of the status variables in a Query event.
pub mod status_code {
    /// Session options, 4 bytes.
    pub const FLAGS2: u8 = 0;
    /// sql_mode, 8 bytes.
    pub const SQL_MODE: u8 = 1;
    /// Catalog with a terminating zero (5.0.0 to 5.0.3).
    pub const CATALOG: u8 = 2;
    /// auto_increment_increment and _offset, 2 + 2 bytes.
    pub const AUTO_INCREMENT: u8 = 3;
    /// Collations of client, connection and server, 2 bytes each.
    pub const CHARSET: u8 = 4;
    /// time_zone, a length byte and text.
    pub const TIME_ZONE: u8 = 5;
    /// Catalog, a length byte and text: always "std".
    pub const CATALOG_NZ: u8 = 6;
    /// lc_time_names, 2 bytes.
    pub const LC_TIME_NAMES: u8 = 7;
    /// Collation of the default database, 2 bytes.
    pub const CHARSET_DATABASE: u8 = 8;
    /// Bitmap of the tables that a multi-table UPDATE changes, 8 bytes.
    pub const TABLE_MAP_FOR_UPDATE: u8 = 9;
    /// Obsolete, 4 bytes.
    pub const MASTER_DATA_WRITTEN: u8 = 10;
    /// User and host as whom the statement runs.
    pub const INVOKER: u8 = 11;
    /// Names of the databases the statement changes.
    pub const UPDATED_DB_NAMES: u8 = 12;
    /// Microseconds of the statement's start, 3 bytes.
    pub const MICROSECONDS: u8 = 13;
    /// explicit_defaults_for_timestamp, 1 byte.
    pub const EXPLICIT_DEFAULTS_FOR_TIMESTAMP: u8 = 16;
    /// Transaction number of an atomic DDL statement, 8 bytes.
    pub const DDL_XID: u8 = 17;
    /// default_collation_for_utf8mb4, 2 bytes.
    pub const DEFAULT_COLLATION_FOR_UTF8MB4: u8 = 18;
    /// sql_require_primary_key, 1 byte.
    pub const SQL_REQUIRE_PRIMARY_KEY: u8 = 19;
    /// default_table_encryption, 1 byte.
    pub const DEFAULT_TABLE_ENCRYPTION: u8 = 20;
    /// enable_cascade_triggers, 1 byte (seen since 9.7).
    pub const ENABLE_CASCADE_TRIGGERS: u8 = 21;
}

/// In place of the number of updated databases: too many to list.
const UPDATED_DBS_TOO_MANY: u8 = 254;

/// User and host as whom a statement runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invoker<'a> {
    /// User name.
    pub user: &'a [u8],
    /// Host name.
    pub host: &'a [u8],
}

/// auto_increment_increment and auto_increment_offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoIncrement {
    /// Step between values.
    pub increment: u16,
    /// First value of the series.
    pub offset: u16,
}

/// Databases that a statement changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdatedDatabases<'a> {
    /// More than the event can list; may be any.
    TooMany,
    /// Their names, each with a terminating zero.
    Names(&'a [u8]),
}

impl<'a> UpdatedDatabases<'a> {
    /// The names; empty if there were too many.
    pub fn names(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let list = match self {
            UpdatedDatabases::TooMany => &[],
            UpdatedDatabases::Names(list) => *list,
        };
        list.split_inclusive(|&byte| byte == 0).map(|name| name.strip_suffix(&[0]).unwrap_or(name))
    }
}

/// The session a statement ran in, as far as its event describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryStatus<'a> {
    /// Session options, as bits: see the constants below.
    pub flags2: Option<u32>,
    /// sql_mode.
    pub sql_mode: Option<u64>,
    /// Catalog, always "std".
    pub catalog: Option<&'a [u8]>,
    /// auto_increment_increment and _offset, unless 1 and 1.
    pub auto_increment: Option<AutoIncrement>,
    /// Default collation of character_set_client.
    pub charset_client: Option<u16>,
    /// collation_connection.
    pub collation_connection: Option<u16>,
    /// collation_server.
    pub collation_server: Option<u16>,
    /// time_zone, if the statement depends on it.
    pub time_zone: Option<&'a [u8]>,
    /// lc_time_names, unless English.
    pub lc_time_names: Option<u16>,
    /// collation_database.
    pub charset_database: Option<u16>,
    /// Bitmap of the tables that a multi-table UPDATE changes.
    pub table_map_for_update: Option<u64>,
    /// Obsolete; kept to write the event back unchanged.
    pub master_data_written: Option<u32>,
    /// User and host as whom the statement runs.
    pub invoker: Option<Invoker<'a>>,
    /// Databases that the statement changes.
    pub updated_databases: Option<UpdatedDatabases<'a>>,
    /// Microseconds of the statement's start, to add to the header's timestamp.
    pub microseconds: Option<u32>,
    /// explicit_defaults_for_timestamp.
    pub explicit_defaults_for_timestamp: Option<bool>,
    /// Transaction number of an atomic DDL statement.
    pub ddl_xid: Option<u64>,
    /// default_collation_for_utf8mb4.
    pub default_collation_for_utf8mb4: Option<u16>,
    /// sql_require_primary_key.
    pub sql_require_primary_key: Option<bool>,
    /// default_table_encryption.
    pub default_table_encryption: Option<bool>,
    /// enable_cascade_triggers.
    pub enable_cascade_triggers: Option<bool>,
    /// The block from the first unknown code on: the length of an unknown variable is unknown too, and servers write
    /// new codes after old ones. Empty if every variable was understood.
    pub unknown: &'a [u8],
}

impl<'a> QueryStatus<'a> {
    /// Bit of `flags2`: OPTION_AUTO_IS_NULL.
    pub const AUTO_IS_NULL: u32 = 1 << 14;
    /// Bit of `flags2`: autocommit is off.
    pub const NOT_AUTOCOMMIT: u32 = 1 << 19;
    /// Bit of `flags2`: foreign_key_checks=0.
    pub const NO_FOREIGN_KEY_CHECKS: u32 = 1 << 26;
    /// Bit of `flags2`: unique_checks=0.
    pub const RELAXED_UNIQUE_CHECKS: u32 = 1 << 27;

    /// The first unknown status code, if there is one.
    pub fn unknown_code(&self) -> Option<u8> {
        self.unknown.first().copied()
    }

    /// Reads a block of status variables. A truncated variable is an error. An unknown one ends the parse and stays in
    /// `unknown` with everything after it.
    pub fn parse(block: &'a [u8]) -> Result<QueryStatus<'a>, BinlogError> {
        let mut status = QueryStatus::default();
        let mut rest = Cursor::new(event_type::name(event_type::QUERY), block);
        while !rest.is_empty() {
            let from_code = rest.rest();
            match rest.u8("status code")? {
                status_code::FLAGS2 => status.flags2 = Some(rest.u32("flags2")?),
                status_code::SQL_MODE => status.sql_mode = Some(rest.u64("sql_mode")?),
                status_code::CATALOG => {
                    status.catalog = Some(rest.short_bytes("catalog")?);
                    rest.nul("end of the catalog")?;
                }
                status_code::AUTO_INCREMENT => {
                    let increment = rest.u16("auto_increment_increment")?;
                    let offset = rest.u16("auto_increment_offset")?;
                    status.auto_increment = Some(AutoIncrement { increment, offset });
                }
                status_code::CHARSET => {
                    status.charset_client = Some(rest.u16("character_set_client")?);
                    status.collation_connection = Some(rest.u16("collation_connection")?);
                    status.collation_server = Some(rest.u16("collation_server")?);
                }
                status_code::TIME_ZONE => status.time_zone = Some(rest.short_bytes("time_zone")?),
                status_code::CATALOG_NZ => status.catalog = Some(rest.short_bytes("catalog")?),
                status_code::LC_TIME_NAMES => status.lc_time_names = Some(rest.u16("lc_time_names")?),
                status_code::CHARSET_DATABASE => status.charset_database = Some(rest.u16("collation_database")?),
                status_code::TABLE_MAP_FOR_UPDATE => {
                    status.table_map_for_update = Some(rest.u64("table map for update")?);
                }
                status_code::MASTER_DATA_WRITTEN => {
                    status.master_data_written = Some(rest.u32("master data written")?);
                }
                status_code::INVOKER => {
                    let user = rest.short_bytes("user of the invoker")?;
                    let host = rest.short_bytes("host of the invoker")?;
                    status.invoker = Some(Invoker { user, host });
                }
                status_code::UPDATED_DB_NAMES => status.updated_databases = Some(updated_databases(&mut rest)?),
                status_code::MICROSECONDS => status.microseconds = Some(rest.u24("microseconds")?),
                status_code::EXPLICIT_DEFAULTS_FOR_TIMESTAMP => {
                    let value = rest.u8("explicit_defaults_for_timestamp")?;
                    status.explicit_defaults_for_timestamp = Some(value != 0);
                }
                status_code::DDL_XID => status.ddl_xid = Some(rest.u64("ddl xid")?),
                status_code::DEFAULT_COLLATION_FOR_UTF8MB4 => {
                    status.default_collation_for_utf8mb4 = Some(rest.u16("default_collation_for_utf8mb4")?);
                }
                status_code::SQL_REQUIRE_PRIMARY_KEY => {
                    status.sql_require_primary_key = Some(rest.u8("sql_require_primary_key")? != 0);
                }
                status_code::DEFAULT_TABLE_ENCRYPTION => {
                    status.default_table_encryption = Some(rest.u8("default_table_encryption")? != 0);
                }
                status_code::ENABLE_CASCADE_TRIGGERS => {
                    status.enable_cascade_triggers = Some(rest.u8("enable_cascade_triggers")? != 0);
                }
                _ => {
                    status.unknown = from_code;
                    break;
                }
            }
        }
        Ok(status)
    }

    /// Appends the variables as a block, ordered by code as a server writes them.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        fn fixed<const N: usize>(out: &mut Vec<u8>, code: u8, value: Option<[u8; N]>) {
            if let Some(bytes) = value {
                out.push(code);
                out.extend(bytes);
            }
        }
        fixed(out, status_code::FLAGS2, self.flags2.map(u32::to_le_bytes));
        fixed(out, status_code::SQL_MODE, self.sql_mode.map(u64::to_le_bytes));
        if let Some(catalog) = self.catalog {
            out.push(status_code::CATALOG_NZ);
            encode::short_bytes(out, catalog);
        }
        if let Some(AutoIncrement { increment, offset }) = self.auto_increment {
            out.push(status_code::AUTO_INCREMENT);
            out.extend(increment.to_le_bytes());
            out.extend(offset.to_le_bytes());
        }
        if let (Some(client), Some(connection), Some(server)) =
            (self.charset_client, self.collation_connection, self.collation_server)
        {
            out.push(status_code::CHARSET);
            out.extend([client, connection, server].into_iter().flat_map(u16::to_le_bytes));
        }
        if let Some(zone) = self.time_zone {
            out.push(status_code::TIME_ZONE);
            encode::short_bytes(out, zone);
        }
        fixed(out, status_code::LC_TIME_NAMES, self.lc_time_names.map(u16::to_le_bytes));
        fixed(out, status_code::CHARSET_DATABASE, self.charset_database.map(u16::to_le_bytes));
        fixed(out, status_code::TABLE_MAP_FOR_UPDATE, self.table_map_for_update.map(u64::to_le_bytes));
        fixed(out, status_code::MASTER_DATA_WRITTEN, self.master_data_written.map(u32::to_le_bytes));
        if let Some(Invoker { user, host }) = self.invoker {
            out.push(status_code::INVOKER);
            encode::short_bytes(out, user);
            encode::short_bytes(out, host);
        }
        match &self.updated_databases {
            Some(UpdatedDatabases::TooMany) => out.extend([status_code::UPDATED_DB_NAMES, UPDATED_DBS_TOO_MANY]),
            Some(databases @ UpdatedDatabases::Names(list)) => match u8::try_from(databases.names().count()) {
                Ok(count) if count < UPDATED_DBS_TOO_MANY => {
                    out.extend([status_code::UPDATED_DB_NAMES, count]);
                    out.extend(*list);
                    if list.last().is_some_and(|&last| last != 0) {
                        out.push(0);
                    }
                }
                _ => out.extend([status_code::UPDATED_DB_NAMES, UPDATED_DBS_TOO_MANY]),
            },
            None => {}
        }
        if let Some(microseconds) = self.microseconds {
            out.push(status_code::MICROSECONDS);
            out.extend(microseconds.to_le_bytes().into_iter().take(3));
        }
        let explicit = self.explicit_defaults_for_timestamp;
        fixed(out, status_code::EXPLICIT_DEFAULTS_FOR_TIMESTAMP, explicit.map(|on| [u8::from(on)]));
        fixed(out, status_code::DDL_XID, self.ddl_xid.map(u64::to_le_bytes));
        let utf8mb4 = self.default_collation_for_utf8mb4;
        fixed(out, status_code::DEFAULT_COLLATION_FOR_UTF8MB4, utf8mb4.map(u16::to_le_bytes));
        fixed(out, status_code::SQL_REQUIRE_PRIMARY_KEY, self.sql_require_primary_key.map(|on| [u8::from(on)]));
        fixed(out, status_code::DEFAULT_TABLE_ENCRYPTION, self.default_table_encryption.map(|on| [u8::from(on)]));
        fixed(out, status_code::ENABLE_CASCADE_TRIGGERS, self.enable_cascade_triggers.map(|on| [u8::from(on)]));
        out.extend(self.unknown);
    }
}

fn updated_databases<'a>(rest: &mut Cursor<'a>) -> Result<UpdatedDatabases<'a>, BinlogError> {
    let count = rest.u8("count of updated databases")?;
    if count == UPDATED_DBS_TOO_MANY {
        return Ok(UpdatedDatabases::TooMany);
    }
    let names = rest.rest();
    for _ in 0..count {
        rest.until_nul("updated databases")?;
    }
    let len = names.len() - rest.len();
    Ok(UpdatedDatabases::Names(names.get(..len).unwrap_or_default()))
}

/// A Query event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryEvent<'a> {
    /// Connection id of the session.
    pub thread_id: u32,
    /// Duration of the statement in seconds.
    pub exec_time: u32,
    /// Error number the statement ended with; 0 for none.
    pub error_code: u16,
    /// Default database; empty for none.
    pub db: &'a [u8],
    /// The session's other variables.
    pub status: QueryStatus<'a>,
    /// Text of the statement.
    pub sql: &'a [u8],
}

/// The 13 fixed bytes of a Query event.
pub(crate) struct QueryHeader {
    thread_id: u32,
    exec_time: u32,
    db_len: u8,
    error_code: u16,
    status_len: u16,
}

impl<'a> QueryEvent<'a> {
    /// Reads the body of a Query event.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<QueryEvent<'a>, BinlogError> {
        let mut body = Cursor::new(event_type::name(event_type::QUERY), body);
        let header = QueryEvent::parse_header(&mut body)?;
        QueryEvent::parse_after_header(header, body)
    }

    /// Reads only the statement, for callers that walk over many events and examine few.
    #[inline]
    pub fn sql_of(body: &'a [u8]) -> Result<&'a [u8], BinlogError> {
        let mut body = Cursor::new(event_type::name(event_type::QUERY), body);
        let header = QueryEvent::parse_header(&mut body)?;
        body.bytes(usize::from(header.status_len) + usize::from(header.db_len), "status and database")?;
        body.nul("end of the database")?;
        Ok(body.take_rest())
    }

    pub(crate) fn parse_header(body: &mut Cursor<'a>) -> Result<QueryHeader, BinlogError> {
        Ok(QueryHeader {
            thread_id: body.u32("thread id")?,
            exec_time: body.u32("execution time")?,
            db_len: body.u8("length of the database")?,
            error_code: body.u16("error code")?,
            status_len: body.u16("length of the status")?,
        })
    }

    pub(crate) fn parse_after_header(header: QueryHeader, mut body: Cursor<'a>) -> Result<QueryEvent<'a>, BinlogError> {
        let status = QueryStatus::parse(body.bytes(usize::from(header.status_len), "status")?)?;
        let db = body.bytes(usize::from(header.db_len), "database")?;
        body.nul("end of the database")?;
        Ok(QueryEvent {
            thread_id: header.thread_id,
            exec_time: header.exec_time,
            error_code: header.error_code,
            db,
            status,
            sql: body.take_rest(),
        })
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        let db = self.db.get(..255).unwrap_or(self.db);
        let mut status = Vec::new();
        self.status.encode_into(&mut status);
        // The length field ends at 64 KiB, and no server writes a block above 4 KiB.
        status.truncate(usize::from(u16::MAX));
        out.extend(self.thread_id.to_le_bytes());
        out.extend(self.exec_time.to_le_bytes());
        out.push(u8::try_from(db.len()).unwrap_or(u8::MAX));
        out.extend(self.error_code.to_le_bytes());
        out.extend(u16::try_from(status.len()).unwrap_or(u16::MAX).to_le_bytes());
        out.extend(status);
        out.extend(db);
        out.push(0);
        out.extend(self.sql);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unknown_codes_are_kept_not_dropped() {
        let status = QueryStatus::parse(&[0, 1, 0, 0, 0, 128, 9, 9]).unwrap();
        assert_eq!(status.flags2, Some(1));
        assert_eq!(status.unknown, [128, 9, 9]);
        assert_eq!(status.unknown_code(), Some(128));
        assert!(QueryStatus::parse(&[0, 1, 0]).is_err());
        assert_eq!(QueryStatus::parse(&[]).unwrap(), QueryStatus::default());
    }

    #[test]
    fn updated_databases_listed_and_too_many() {
        let status = QueryStatus::parse(b"\x0c\x02a\0bc\0\x10\x01").unwrap();
        let names: Vec<&[u8]> = status.updated_databases.unwrap().names().collect();
        assert_eq!(names, [&b"a"[..], b"bc"]);
        assert_eq!(status.explicit_defaults_for_timestamp, Some(true));
        let status = QueryStatus::parse(b"\x0c\xfe\x10\x00").unwrap();
        assert_eq!(status.updated_databases, Some(UpdatedDatabases::TooMany));
        assert!(QueryStatus::parse(b"\x0c\x02a\0bc").is_err());
    }

    fn any_status() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        // Each variable in its own encoding, in random order and number.
        let variable = prop_oneof![
            any::<u32>().prop_map(|v| [&[0][..], &v.to_le_bytes()].concat()),
            any::<u64>().prop_map(|v| [&[1][..], &v.to_le_bytes()].concat()),
            any::<[u8; 4]>().prop_map(|v| [&[3][..], &v].concat()),
            any::<[u8; 6]>().prop_map(|v| [&[4][..], &v].concat()),
            "[a-z]{0,9}".prop_map(|v| [&[5, v.len() as u8][..], v.as_bytes()].concat()),
            "[a-z]{0,9}".prop_map(|v| [&[6, v.len() as u8][..], v.as_bytes()].concat()),
            any::<[u8; 2]>().prop_map(|v| [&[7][..], &v].concat()),
            any::<[u8; 2]>().prop_map(|v| [&[8][..], &v].concat()),
            any::<u64>().prop_map(|v| [&[9][..], &v.to_le_bytes()].concat()),
            any::<u32>().prop_map(|v| [&[10][..], &v.to_le_bytes()].concat()),
            Just(b"\x0b\x01u\x04host".to_vec()),
            any::<[u8; 3]>().prop_map(|v| [&[13][..], &v].concat()),
            any::<bool>().prop_map(|v| vec![16, u8::from(v)]),
            any::<u64>().prop_map(|v| [&[17][..], &v.to_le_bytes()].concat()),
            any::<[u8; 2]>().prop_map(|v| [&[18][..], &v].concat()),
            any::<bool>().prop_map(|v| vec![19, u8::from(v)]),
            any::<bool>().prop_map(|v| vec![20, u8::from(v)]),
            any::<bool>().prop_map(|v| vec![21, u8::from(v)]),
        ];
        (
            proptest::collection::vec(variable, 0..12).prop_map(|all| all.concat()),
            proptest::collection::vec(any::<u8>(), 0..40),
        )
    }

    proptest! {
        #[test]
        fn round_trip((block, sql) in any_status(), thread_id: u32, error_code: u16) {
            let status = QueryStatus::parse(&block).unwrap();
            prop_assert!(status.unknown.is_empty());
            let event = QueryEvent { thread_id, exec_time: 3, error_code, db: b"shop", status, sql: &sql };
            let mut body = Vec::new();
            event.encode_into(&mut body);
            prop_assert_eq!(QueryEvent::parse(&body).unwrap(), event);
            prop_assert_eq!(QueryEvent::sql_of(&body).unwrap(), &sql[..]);
        }
    }
}
