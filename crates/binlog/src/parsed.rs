//! Events of any type, parsed, for tools that show or count them. The pipeline reads headers and parses only what it
//! needs.

use crate::{
    BeginLoadQuery, BinlogError, EventHeader, ExecuteLoadQuery, GtidEvent, Heartbeat, HeartbeatV2, Incident, Intvar,
    PreviousGtids, QueryEvent, Rand, Rotate, RowsEvent, RowsQuery, TableMapEvent, TransactionPayload, UserVar,
    XaPrepare, Xid, check_event_type, event_type,
};

/// An event of any type that occurs in a log. The format description is the exception: its parser needs the whole
/// event.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // Each variant is named after the event it holds.
pub enum ParsedEvent<'a> {
    /// A format description, unparsed.
    FormatDescription,
    Query(Box<QueryEvent<'a>>),
    Stop,
    Rotate(Rotate<'a>),
    Intvar(Intvar),
    Rand(Rand),
    UserVar(UserVar<'a>),
    Xid(Xid),
    /// Begin_load_query or Append_block.
    LoadBlock(BeginLoadQuery<'a>),
    /// Number of the file.
    DeleteFile(u32),
    ExecuteLoadQuery(Box<ExecuteLoadQuery<'a>>),
    TableMap(TableMapEvent<'a>),
    Rows(RowsEvent<'a>),
    Incident(Incident<'a>),
    Heartbeat(Heartbeat<'a>),
    HeartbeatV2(HeartbeatV2<'a>),
    RowsQuery(RowsQuery<'a>),
    Gtid(Box<GtidEvent>),
    PreviousGtids(PreviousGtids),
    XaPrepare(Box<XaPrepare>),
    TransactionPayload(TransactionPayload<'a>),
    /// Body of an event of group replication, or of an unknown one flagged as ignorable.
    Opaque(&'a [u8]),
}

impl<'a> ParsedEvent<'a> {
    /// Parses an event's body (see [`crate::event_body`]) by its header.
    pub fn parse(header: &EventHeader, body: &'a [u8]) -> Result<ParsedEvent<'a>, BinlogError> {
        check_event_type(header)?;
        Ok(match header.event_type {
            event_type::FORMAT_DESCRIPTION => ParsedEvent::FormatDescription,
            event_type::QUERY => ParsedEvent::Query(Box::new(QueryEvent::parse(body)?)),
            event_type::STOP => ParsedEvent::Stop,
            event_type::ROTATE => ParsedEvent::Rotate(Rotate::parse(body)?),
            event_type::INTVAR => ParsedEvent::Intvar(Intvar::parse(body)?),
            event_type::RAND => ParsedEvent::Rand(Rand::parse(body)?),
            event_type::USER_VAR => ParsedEvent::UserVar(UserVar::parse(body)?),
            event_type::XID => ParsedEvent::Xid(Xid::parse(body)?),
            event_type::BEGIN_LOAD_QUERY | event_type::APPEND_BLOCK => {
                ParsedEvent::LoadBlock(BeginLoadQuery::parse(body)?)
            }
            event_type::DELETE_FILE => ParsedEvent::DeleteFile(BeginLoadQuery::parse(body)?.file_id),
            event_type::EXECUTE_LOAD_QUERY => ParsedEvent::ExecuteLoadQuery(Box::new(ExecuteLoadQuery::parse(body)?)),
            event_type::TABLE_MAP => ParsedEvent::TableMap(TableMapEvent::parse(body)?),
            code if event_type::is_rows(code) => ParsedEvent::Rows(RowsEvent::parse(code, body)?),
            event_type::INCIDENT => ParsedEvent::Incident(Incident::parse(body)?),
            event_type::HEARTBEAT => ParsedEvent::Heartbeat(Heartbeat::parse(body)?),
            event_type::HEARTBEAT_V2 => ParsedEvent::HeartbeatV2(HeartbeatV2::parse(body)?),
            event_type::ROWS_QUERY => ParsedEvent::RowsQuery(RowsQuery::parse(body)?),
            code if event_type::is_gtid(code) => ParsedEvent::Gtid(Box::new(GtidEvent::parse(code, body)?)),
            event_type::PREVIOUS_GTIDS => ParsedEvent::PreviousGtids(PreviousGtids::parse(body)?),
            event_type::XA_PREPARE => ParsedEvent::XaPrepare(Box::new(XaPrepare::parse(body)?)),
            event_type::TRANSACTION_PAYLOAD => ParsedEvent::TransactionPayload(TransactionPayload::parse(body)?),
            _ => ParsedEvent::Opaque(body),
        })
    }
}
