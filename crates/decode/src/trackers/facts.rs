//! Facts from a transaction's events other than its rows: the source's clock, the session, a new file.
//!
//! In: a decoded piece that holds one transaction or a slice of it. Out: [`Facts`]. Never here: a fault. What cannot
//! be read counts as unknown, and decode has reported it already.

use binlog::{
    ChecksumAlgorithm, EventHeader, FormatDescription, GtidEvent, QueryEvent, QueryKind, XaPrepare, event_body,
    event_type,
};
use catalog::Catalog;

use super::claims::{Claims, Extractor};
use super::clock::SourceStamp;
use crate::piece::DecodedPiece;

/// What a transaction does to an XA transaction, which its identifier names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XaStep {
    Prepares(String),
    /// XA COMMIT … ONE PHASE: it is prepared and committed at once.
    CommitsAtOnce(String),
    /// XA COMMIT or XA ROLLBACK of a prepared one; None if the identifier is unreadable.
    Ends(Option<String>),
}

/// Input of a tracker for one transaction, or for a slice of it.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The source's logical clock; None if its Gtid event is not in this piece.
    pub clock: Option<SourceStamp>,
    /// True if the source began a file just before it.
    pub new_file: bool,
    /// Session that ran it: server id and connection id of its first statement.
    pub session: Option<u64>,
    /// Number of events; a payload counts as one.
    pub events: u32,
    /// Its part in an XA transaction.
    pub xa: Option<XaStep>,
    /// Claims of its row changes; empty unless requested.
    pub claims: Claims,
}

impl Facts {
    /// Collects the facts from the events, without claims.
    #[must_use]
    pub fn of(decoded: &DecodedPiece) -> Facts {
        let mut facts = Facts::default();
        let piece = &decoded.piece;
        let mut checksum = piece.checksum;
        let mut rest = piece.bytes();
        while let Ok(header) = EventHeader::parse(rest) {
            let Some((event, tail)) = rest.split_at_checked(header.event_len as usize) else { break };
            rest = tail;
            facts.events += 1;
            facts.see(decoded, &header, event, &mut checksum);
        }
        facts
    }

    /// Like [`Facts::of`], with the claims of its rows. For `catalog` and `after` see [`Extractor::extract`].
    #[must_use]
    pub fn with_claims(
        decoded: &DecodedPiece,
        extractor: &mut Extractor,
        catalog: &Catalog,
        after: Option<&Catalog>,
    ) -> Facts {
        let mut facts = Facts::of(decoded);
        extractor.extract(decoded, catalog, after, &mut facts.claims);
        if let Some(XaStep::Prepares(xid) | XaStep::CommitsAtOnce(xid) | XaStep::Ends(Some(xid))) = &facts.xa {
            facts.claims.xa_transaction(xid);
        }
        facts
    }

    fn see(&mut self, decoded: &DecodedPiece, header: &EventHeader, event: &[u8], checksum: &mut ChecksumAlgorithm) {
        match header.event_type {
            event_type::FORMAT_DESCRIPTION => {
                self.new_file = true;
                if let Ok(format) = FormatDescription::parse(event) {
                    *checksum = format.checksum;
                }
            }
            event_type::ROTATE => self.new_file = true,
            event_type::GTID | event_type::ANONYMOUS_GTID | event_type::GTID_TAGGED => {
                let body = event_body(event, *checksum);
                if let Some(gtid) = body.ok().and_then(|body| GtidEvent::parse(header.event_type, body).ok()) {
                    let (last_committed, sequence_number) = (gtid.last_committed, gtid.sequence_number);
                    self.clock = Some(SourceStamp { last_committed, sequence_number });
                }
            }
            event_type::TRANSACTION_PAYLOAD => {
                // Decode has expanded the payload. Its events have no checksums.
                let mut rest = decoded.payload.as_slice();
                while let Ok(inner) = EventHeader::parse(rest) {
                    let Some((event, tail)) = rest.split_at_checked(inner.event_len as usize) else { break };
                    self.see_inner(&inner, event.get(EventHeader::LEN..).unwrap_or_default());
                    rest = tail;
                }
            }
            event_type::QUERY | event_type::XA_PREPARE => {
                if let Ok(body) = event_body(event, *checksum) {
                    self.see_inner(header, body);
                }
            }
            _ => {}
        }
    }

    /// Takes an event that may also be in a payload.
    fn see_inner(&mut self, header: &EventHeader, body: &[u8]) {
        match header.event_type {
            event_type::QUERY => {
                let Ok(query) = QueryEvent::parse(body) else { return };
                if self.session.is_none() {
                    self.session = Some(u64::from(header.server_id) << 32 | u64::from(query.thread_id));
                }
                if let (QueryKind::XaCommit | QueryKind::XaRollback, xid) = QueryKind::with_xid(query.sql) {
                    self.xa = Some(XaStep::Ends(xid.map(|xid| xid.to_string())));
                }
            }
            event_type::XA_PREPARE => {
                if let Ok(prepare) = XaPrepare::parse(body) {
                    let xid = prepare.xid.to_string();
                    self.xa = Some(match prepare.one_phase {
                        true => XaStep::CommitsAtOnce(xid),
                        false => XaStep::Prepares(xid),
                    });
                }
            }
            _ => {}
        }
    }
}
