//! Where transactions begin and end in a stream of events.
//!
//! In: whole events, one by one. Out: for each whether a transaction begins or ends with it. Looks into the bodies of
//! FORMAT_DESCRIPTION, GTID and QUERY events only. Never here: rows, I/O, checksums verified (FORMAT_DESCRIPTION's
//! excepted).

use base::Gtid;
use binlog::{
    BinlogError, ChecksumAlgorithm, ErrorClass, EventHeader, FormatDescription, GtidEvent, QueryKind, check_event_type,
    event_body, event_type,
};

/// What an event is to its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Outside of transactions or without meaning for them: FORMAT_DESCRIPTION, ROTATE, PREVIOUS_GTIDS, STOP,
    /// heartbeats.
    Control,
    /// The first event of a transaction: a GTID event, or what stands first where there is none.
    Begin,
    /// Part of a transaction.
    Body,
}

/// One event's part in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The event's header.
    pub header: EventHeader,
    /// What the event is.
    pub kind: StepKind,
    /// The GTID of the transaction that begins with this event; None for an anonymous one or when none begins.
    pub transaction_begins: Option<Gtid>,
    /// A transaction ends with this event.
    pub transaction_ends: bool,
}

/// An event that cannot stand where it stands, or that is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundaryError {
    /// The bytes are not a whole event, or one of the few bodies looked into is damaged.
    #[error("{0}")]
    Malformed(String),
    /// The bytes are sound, but of a kind that is not supported (MariaDB's, MySQL 5.1's).
    #[error("{0}")]
    NotSupported(String),
    /// A new transaction or file begins before the last transaction ended.
    #[error("{event} event inside an open transaction{}", open.map(|gtid| format!(" ({gtid})")).unwrap_or_default())]
    InsideTransaction {
        /// The event's name.
        event: &'static str,
        /// The open transaction.
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
    /// Behind the GTID event: the next Query decides whether the transaction is that statement alone.
    Begun,
    /// Behind BEGIN or XA START: only an event that ends the transaction ends it.
    Inside,
}

/// Follows transactions event by event.
#[derive(Clone, Debug)]
pub struct BoundaryTracker {
    checksum: ChecksumAlgorithm,
    place: Place,
    gtid: Option<Gtid>,
}

impl BoundaryTracker {
    /// Outside of any transaction; events carry checksums as told, until a FORMAT_DESCRIPTION event tells otherwise.
    #[must_use]
    pub fn new(checksum: ChecksumAlgorithm) -> BoundaryTracker {
        BoundaryTracker { checksum, place: Place::Outside, gtid: None }
    }

    /// Takes the next whole event (header, body, checksum).
    ///
    /// # Errors
    /// When it is damaged or stands where it cannot; the tracker stays as it was.
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

    /// As [`step`](Self::step) for a header that is parsed already. Events other than those
    /// [`needs_body`](Self::needs_body) names may be given without their body.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    #[inline]
    pub fn step_with(&mut self, header: &EventHeader, event: &[u8]) -> Result<Step, BoundaryError> {
        let mut step =
            Step { header: *header, kind: StepKind::Body, transaction_begins: None, transaction_ends: false };
        match header.event_type {
            // What nearly all events are.
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
            // Group replication writes this one before the GTID event.
            event_type::TRANSACTION_CONTEXT if self.place == Place::Outside => step.kind = StepKind::Control,
            _ if header.is_ignorable() && self.place == Place::Outside => step.kind = StepKind::Control,
            _ => {
                check_event_type(header)?;
                self.body(&mut step);
            }
        }
        Ok(step)
    }

    /// Whether [`step_with`](Self::step_with) looks into the body of events of this type.
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

    /// Whether a transaction is open.
    #[must_use]
    #[inline]
    pub fn in_transaction(&self) -> bool {
        self.place != Place::Outside
    }

    /// The open (or, right after its last event, the ended) transaction's GTID; None for an anonymous one.
    #[must_use]
    pub fn gtid(&self) -> Option<Gtid> {
        self.gtid
    }

    /// Whether events carry a checksum now.
    #[must_use]
    pub fn checksum(&self) -> ChecksumAlgorithm {
        self.checksum
    }

    /// Forgets an open transaction (after a cut back).
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

    /// An event of a transaction; it begins one where none is open (logs without GTID events).
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
            // CREATE TABLE … SELECT's CREATE, savepoints, XA END, statement-format changes.
            (_, Place::Inside) => {}
            _ => self.end(step),
        }
    }
}

/// The statement in a Query event's body (binlog_event.h, Query: post header 13, status, database, zero, statement).
#[inline]
fn query_text(body: &[u8]) -> Option<&[u8]> {
    let db_len = usize::from(*body.get(8)?);
    let status_len = usize::from(u16::from_le_bytes([*body.get(11)?, *body.get(12)?]));
    body.get(13 + status_len + db_len + 1..)
}
