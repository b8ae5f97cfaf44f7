//! XA transactions: kept aside from XA PREPARE on, applied at XA COMMIT.
//!
//! In: events of an XA transaction; its end. Out: the events in the side buffer, decoded as a part of the transaction
//! that commits them. Never here: the prepared set (`sequence`).

use base::limits::PREPARED_BYTES_MAX;
use binlog::{EventHeader, QueryEvent, QueryKind, TransactionPayload, XaPrepare, XaXid, event_type};
use observe::Category;

use super::{Decoder, Fault, Space, binlog_fault, open_without_gtid, unsupported};
use crate::piece::{SPACE_BYTES, short};
use crate::stop::StopClass;
use crate::work::Work;

impl Decoder {
    /// Keeps an event of an XA transaction, since only its end tells whether it is committed. None if no XA
    /// transaction is open; otherwise whether it ends here.
    pub(super) fn put_aside(
        &mut self,
        work: &mut Work<'_>,
        header: &EventHeader,
        body: &[u8],
    ) -> Result<Option<bool>, Fault> {
        let Some(sink) = &mut work.sink else { return Ok(None) };
        let Some(events) = sink.aside() else { return Ok(None) };
        match header.event_type {
            event_type::XA_PREPARE => {
                let prepare = XaPrepare::parse(body).map_err(binlog_fault)?;
                work.count(header.event_type, Category::Control);
                if prepare.one_phase {
                    let events = work.sink.as_mut().and_then(|sink| sink.aside().take());
                    self.release(work, &events.unwrap_or_default())?;
                } else {
                    let gtid = work.open.as_ref().and_then(|open| open.begun.gtid);
                    let transaction = work.out.transactions.len();
                    let Some(sink) = &mut work.sink else { return Ok(None) };
                    sink.prepare(prepare.xid.to_string(), gtid, transaction).map_err(unsupported)?;
                }
                Ok(Some(true))
            }
            event_type::TABLE_MAP
            | event_type::WRITE_ROWS
            | event_type::UPDATE_ROWS
            | event_type::DELETE_ROWS
            | event_type::PARTIAL_UPDATE_ROWS
            | event_type::EXECUTE_LOAD_QUERY
            | event_type::QUERY => {
                let len = EventHeader::LEN + body.len();
                if events.len() + len > PREPARED_BYTES_MAX {
                    return Err(unsupported("an XA transaction of more than 1 GiB"));
                }
                let header = EventHeader { event_len: short(len), ..*header };
                events.extend_from_slice(&header.encode());
                events.extend_from_slice(body);
                if header.event_type == event_type::TABLE_MAP {
                    // A table map that cannot be read is reported here, not at the commit.
                    self.table_map(work, body)?;
                }
                work.count(header.event_type, Category::Control);
                Ok(Some(false))
            }
            _ => Ok(None),
        }
    }

    /// Handles XA COMMIT and XA ROLLBACK of a prepared transaction.
    pub(super) fn resolve_xa(&mut self, work: &mut Work<'_>, header: &EventHeader, sql: &[u8]) -> Result<bool, Fault> {
        let (kind, xid) = QueryKind::with_xid(sql);
        let Some(xid) = xid else {
            return Err(unsupported(format!(
                "an XA statement whose identifier is unreadable: {}",
                String::from_utf8_lossy(sql)
            )));
        };
        if self.options.for_stamps {
            open_without_gtid(work, header);
            work.count(header.event_type, Category::Control);
            return Ok(true);
        }
        let Some(sink) = &mut work.sink else {
            work.out.needs_serial = true;
            return Ok(true);
        };
        let Some(prepared) = sink.resolve(&xid.to_string()) else {
            let verb = if kind == QueryKind::XaCommit { "XA COMMIT" } else { "XA ROLLBACK" };
            let reason = format!("{verb} {xid}: the replica has no such prepared transaction, so it lacks its changes");
            return Err((StopClass::DataDiffers, reason));
        };
        open_without_gtid(work, header);
        work.count(header.event_type, Category::Control);
        if kind == QueryKind::XaCommit {
            self.release(work, &prepared.events)?;
        }
        Ok(true)
    }

    /// Applies kept events as part of the current transaction. This is safe at any later place in the log: from XA
    /// PREPARE to XA COMMIT the source locks their rows, and their tables against DDL, across restarts too.
    fn release(&mut self, work: &mut Work<'_>, events: &[u8]) -> Result<(), Fault> {
        let from = work.out.side.len();
        if from + events.len() > SPACE_BYTES {
            return Err(unsupported("a piece of the log of more than 1 GiB"));
        }
        work.out.side.extend_from_slice(events);
        self.inner_events(work, events, from, Space::Side)
    }
}

/// The XA transaction that is prepared, committed or rolled back by an event, if it can be read.
fn ended_xid(header: &EventHeader, body: &[u8]) -> Option<XaXid> {
    match header.event_type {
        event_type::XA_PREPARE => XaPrepare::parse(body).ok().filter(|prepare| !prepare.one_phase).map(|of| of.xid),
        event_type::QUERY => match QueryKind::with_xid(QueryEvent::parse(body).ok()?.sql) {
            (QueryKind::XaCommit | QueryKind::XaRollback, xid) => xid,
            _ => None,
        },
        event_type::TRANSACTION_PAYLOAD => {
            let mut events = TransactionPayload::parse(body).and_then(|payload| payload.events(u64::MAX)).ok()?;
            while let Ok(Some((inner, event))) = events.next() {
                if inner.event_type == event_type::XA_PREPARE {
                    return ended_xid(&inner, event.get(EventHeader::LEN..)?);
                }
            }
            None
        }
        _ => None,
    }
}

/// Forgets the prepared transaction that a skipped event ends. It would wait forever, and under the same identifier a
/// later XA COMMIT would apply it in place of its own. False if only the ordered stage can do this.
pub(super) fn forget_skipped(work: &mut Work<'_>, header: &EventHeader, body: &[u8]) -> bool {
    let Some(xid) = ended_xid(header, body) else { return true };
    match &mut work.sink {
        Some(sink) => {
            sink.resolve(&xid.to_string());
            true
        }
        None => {
            work.out.needs_serial = true;
            false
        }
    }
}
