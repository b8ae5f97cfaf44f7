//! Facts from a transaction's events other than its rows: the source's clock, the session, a new file.
//!
//! In: a decoded piece that holds one transaction or a slice of it. Out: [`Facts`]. Never here: a fault. What cannot
//! be read counts as unknown, and decode has reported it already.

use binlog::{ChecksumAlgorithm, EventHeader, FormatDescription, GtidEvent, QueryEvent, event_body, event_type};
use catalog::Catalog;

use super::claims::{Claims, Extractor};
use super::clock::SourceStamp;
use crate::piece::DecodedPiece;

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
            event_type::QUERY if self.session.is_none() => {
                self.session = event_body(event, *checksum).ok().and_then(|body| session(header, body));
            }
            event_type::TRANSACTION_PAYLOAD if self.session.is_none() => {
                // Decode has expanded the payload. BEGIN comes first in it, without a checksum.
                let inner = EventHeader::parse(&decoded.payload).ok();
                self.session = inner.filter(|inner| inner.event_type == event_type::QUERY).and_then(|inner| {
                    session(&inner, decoded.payload.get(EventHeader::LEN..inner.event_len as usize)?)
                });
            }
            _ => {}
        }
    }
}

fn session(header: &EventHeader, body: &[u8]) -> Option<u64> {
    let query = QueryEvent::parse(body).ok()?;
    Some(u64::from(header.server_id) << 32 | u64::from(query.thread_id))
}
