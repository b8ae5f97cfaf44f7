//! Where transactions begin and end in a stream of events.
//!
//! In: whole events, one by one. Out: whether a transaction begins or ends with each. Only the bodies of
//! FORMAT_DESCRIPTION, GTID and QUERY events are parsed. Never here: rows, I/O, verified checksums (except that of
//! FORMAT_DESCRIPTION).

use base::Gtid;
use binlog::{
    BinlogError, ChecksumAlgorithm, ErrorClass, EventHeader, FormatDescription, GtidEvent, QueryKind, check_event_type,
    event_body, event_type,
};

/// Role of an event in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Outside transactions, or irrelevant to them: FORMAT_DESCRIPTION, ROTATE, PREVIOUS_GTIDS, STOP, heartbeats.
    Control,
    /// First event of a transaction: a GTID event, or the first event of any type in a log without GTID events.
    Begin,
    /// Part of a transaction.
    Body,
}

/// One event and its role in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub header: EventHeader,
    /// Role of the event.
    pub kind: StepKind,
    /// GTID of the transaction that begins with this event; None for an anonymous one, or if none begins.
    pub transaction_begins: Option<Gtid>,
    /// True if a transaction ends with this event.
    pub transaction_ends: bool,
    /// When the transaction that begins with this event was committed at the source it was received from, µs since
    /// 1970 by that server's clock; 0 if none begins, or the log does not say.
    pub commit_us: u64,
}

/// An event that is damaged or not allowed at its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundaryError {
    /// The bytes are not a whole event, or one of the few parsed bodies is damaged.
    #[error("{0}")]
    Malformed(String),
    /// The bytes are sound, but of an unsupported kind (MariaDB's, MySQL 5.1's).
    #[error("{0}")]
    NotSupported(String),
    /// A new transaction or file begins before the last transaction ended.
    #[error("{event} event inside an open transaction{}", open.map(|gtid| format!(" ({gtid})")).unwrap_or_default())]
    InsideTransaction {
        /// MySQL's name of the event type.
        event: &'static str,
        /// GTID of the open transaction; None if it is anonymous.
        open: Option<Gtid>,
    },
}

impl From<BinlogError> for BoundaryError {
    fn from(error: BinlogError) -> BoundaryError {
        match error.class() {
            ErrorClass::NotSupported => BoundaryError::NotSupported(error.to_string()),
            _ => BoundaryError::Malformed(error.to_string()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Outside,
    /// After the GTID event: the next Query decides whether the transaction is that statement alone.
    Begun,
    /// After BEGIN or XA START: only an event that ends the transaction ends it.
    Inside,
}

/// Tracks transactions event by event.
#[derive(Clone, Debug)]
pub struct BoundaryTracker {
    checksum: ChecksumAlgorithm,
    place: Place,
    gtid: Option<Gtid>,
}

impl BoundaryTracker {
    /// Starts outside any transaction. Events carry checksums as `checksum` says, until a FORMAT_DESCRIPTION event says
    /// otherwise.
    #[must_use]
    pub fn new(checksum: ChecksumAlgorithm) -> BoundaryTracker {
        BoundaryTracker { checksum, place: Place::Outside, gtid: None }
    }

    /// Takes the next whole event (header, body, checksum).
    ///
    /// # Errors
    /// The event is damaged or not allowed at its place; the tracker keeps its state.
    #[inline]
    pub fn step(&mut self, event: &[u8]) -> Result<Step, BoundaryError> {
        let header = EventHeader::parse(event)?;
        if header.event_len as usize != event.len() {
            return Err(BoundaryError::Malformed(format!(
                "{} event: its header says {} bytes, {} are at hand",
                header.name(),
                header.event_len,
                event.len()
            )));
        }
        self.step_with(&header, event)
    }

    /// As [`step`](Self::step), for an already parsed header. Only events that [`needs_body`](Self::needs_body) names
    /// must be passed with their body.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    #[inline]
    pub fn step_with(&mut self, header: &EventHeader, event: &[u8]) -> Result<Step, BoundaryError> {
        let mut step = Step {
            header: *header,
            kind: StepKind::Body,
            transaction_begins: None,
            transaction_ends: false,
            commit_us: 0,
        };
        match header.event_type {
            // Nearly all events.
            event_type::TABLE_MAP
            | event_type::WRITE_ROWS
            | event_type::UPDATE_ROWS
            | event_type::DELETE_ROWS
            | event_type::PARTIAL_UPDATE_ROWS
            | event_type::ROWS_QUERY => self.body(&mut step),
            event_type::GTID | event_type::GTID_TAGGED | event_type::ANONYMOUS_GTID => {
                self.outside_only(header)?;
                let parsed = GtidEvent::parse(header.event_type, event_body(event, self.checksum)?)?;
                self.place = Place::Begun;
                self.gtid = parsed.gtid;
                step.kind = StepKind::Begin;
                step.transaction_begins = parsed.gtid;
                step.commit_us = parsed.immediate_commit_timestamp_us;
            }
            event_type::QUERY => {
                let sql = query_text(event_body(event, self.checksum)?)
                    .ok_or_else(|| BoundaryError::Malformed("Query event is cut off before its statement".into()))?;
                self.query(&mut step, QueryKind::of(sql));
            }
            event_type::XID | event_type::XA_PREPARE | event_type::TRANSACTION_PAYLOAD => {
                self.body(&mut step);
                self.end(&mut step);
            }
            event_type::INCIDENT => {
                let alone = self.place != Place::Inside;
                self.body(&mut step);
                if alone {
                    self.end(&mut step);
                }
            }
            event_type::FORMAT_DESCRIPTION => {
                self.outside_only(header)?;
                self.checksum = FormatDescription::parse(event)?.checksum;
                step.kind = StepKind::Control;
            }
            event_type::ROTATE | event_type::PREVIOUS_GTIDS | event_type::STOP => {
                self.outside_only(header)?;
                step.kind = StepKind::Control;
            }
            event_type::HEARTBEAT | event_type::HEARTBEAT_V2 => step.kind = StepKind::Control,
            // Group replication writes this event before the GTID event.
            event_type::TRANSACTION_CONTEXT if self.place == Place::Outside => step.kind = StepKind::Control,
            _ if header.is_ignorable() && self.place == Place::Outside => step.kind = StepKind::Control,
            _ => {
                check_event_type(header)?;
                self.body(&mut step);
            }
        }
        Ok(step)
    }

    /// True if [`step_with`](Self::step_with) parses the body of events of this type.
    #[must_use]
    #[inline]
    pub fn needs_body(event_type: u8) -> bool {
        matches!(
            event_type,
            event_type::GTID
                | event_type::GTID_TAGGED
                | event_type::ANONYMOUS_GTID
                | event_type::QUERY
                | event_type::FORMAT_DESCRIPTION
        )
    }

    /// True if a transaction is open.
    #[must_use]
    #[inline]
    pub fn in_transaction(&self) -> bool {
        self.place != Place::Outside
    }

    /// GTID of the open transaction or, right after its last event, of the ended one; None for an anonymous one.
    #[must_use]
    pub fn gtid(&self) -> Option<Gtid> {
        self.gtid
    }

    /// Checksum algorithm of the events at this place.
    #[must_use]
    pub fn checksum(&self) -> ChecksumAlgorithm {
        self.checksum
    }

    /// Forgets an open transaction (after a truncation).
    pub fn reset(&mut self) {
        self.place = Place::Outside;
        self.gtid = None;
    }

    fn outside_only(&self, header: &EventHeader) -> Result<(), BoundaryError> {
        if self.place == Place::Outside {
            return Ok(());
        }
        Err(BoundaryError::InsideTransaction { event: header.name(), open: self.gtid })
    }

    /// An event inside a transaction; begins one if none is open (logs without GTID events).
    fn body(&mut self, step: &mut Step) {
        if self.place == Place::Outside {
            self.place = Place::Begun;
            self.gtid = None;
            step.kind = StepKind::Begin;
        }
    }

    fn end(&mut self, step: &mut Step) {
        self.place = Place::Outside;
        step.transaction_ends = true;
    }

    fn query(&mut self, step: &mut Step, kind: QueryKind) {
        self.body(step);
        match (kind, self.place) {
            (QueryKind::Begin | QueryKind::XaStart, _) => self.place = Place::Inside,
            (QueryKind::Commit | QueryKind::Rollback | QueryKind::XaCommit | QueryKind::XaRollback, Place::Inside) => {
                self.end(step)
            }
            // CREATE of CREATE TABLE … SELECT, savepoints, XA END, changes logged as statements.
            (_, Place::Inside) => {}
            _ => self.end(step),
        }
    }
}

/// The statement in a Query event's body (binlog_event.h, Query: 13 bytes of post header, status, database, zero,
/// statement).
#[inline]
fn query_text(body: &[u8]) -> Option<&[u8]> {
    let db_len = usize::from(*body.get(8)?);
    let status_len = usize::from(u16::from_le_bytes([*body.get(11)?, *body.get(12)?]));
    body.get(13 + status_len + db_len + 1..)
}
