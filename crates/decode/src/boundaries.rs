//! Transactions that begin in a piece, and a piece cut in two where one does.
//!
//! In: a piece's bytes. Out: GTID, commit time and place of each transaction, from Gtid events alone. Never here: rows;
//! an error (what cannot be read is the decoder's to report, in its place).

use std::sync::Arc;

use base::{Gtid, to_usize};
use binlog::{ChecksumAlgorithm, EventHeader, FormatDescription, GtidEvent, event_body, event_type};

use crate::piece::{Begun, Piece, part};

/// A transaction that begins in a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Where its Gtid event begins in the piece's data.
    pub at: usize,
    /// Its GTID; None if the source runs without.
    pub gtid: Option<Gtid>,
    /// Source commit time, in µs since 1970. Where the Gtid event has none: when it was written, rounded up to a
    /// second.
    pub commit_us: u64,
}

impl Piece {
    /// Passes each transaction that begins in the piece to `see`, in log order, until `see` returns false.
    pub fn each_beginning(&self, mut see: impl FnMut(&Beginning) -> bool) {
        self.walk(self.end, &mut |event, at, checksum| {
            let Ok(header) = EventHeader::parse(event) else { return false };
            if !matches!(header.event_type, event_type::GTID | event_type::ANONYMOUS_GTID | event_type::GTID_TAGGED) {
                return true;
            }
            let Ok(body) = event_body(event, checksum) else { return false };
            let Ok(gtid) = GtidEvent::parse(header.event_type, body) else { return false };
            let begun = Begun::of(&gtid);
            let written_us = (u64::from(header.timestamp) + 1) * 1_000_000;
            let commit_us = if begun.commit_us > 0 { begun.commit_us } else { written_us };
            see(&Beginning { at, gtid: begun.gtid, commit_us })
        });
    }

    /// Walks the whole events before `end`, each with its place and the checksum algorithm in force; returns the one in
    /// force behind them.
    fn walk(&self, end: usize, see: &mut dyn FnMut(&[u8], usize, ChecksumAlgorithm) -> bool) -> ChecksumAlgorithm {
        let (mut at, mut checksum) = (self.start, self.checksum);
        while at < end {
            let bytes = part(&self.data, at..end);
            let Ok(header) = EventHeader::parse(bytes) else { break };
            let Some(event) = bytes.get(..to_usize(header.event_len.into())) else { break };
            if event.is_empty() || !see(event, at, checksum) {
                break;
            }
            if header.event_type == event_type::FORMAT_DESCRIPTION
                && let Ok(description) = FormatDescription::parse(event)
            {
                checksum = description.checksum;
            }
            at += event.len();
        }
        checksum
    }

    /// Cuts the piece in two before the transaction that begins at `at`. Both keep the number.
    pub(crate) fn cut_at(mut self, at: usize) -> (Piece, Piece) {
        let checksum = self.walk(at, &mut |_, _, _| true);
        let rest = Piece {
            number: self.number,
            kind: self.kind,
            data: Arc::clone(&self.data),
            start: at,
            end: self.end,
            file: Arc::clone(&self.file),
            offset: self.offset_of(at),
            checksum,
            verified: self.verified,
            epoch: self.epoch,
            continues: false,
            unfinished: self.unfinished,
            begun: Begun::default(),
            cut_statement: false,
            context: Vec::new(),
            reservation: self.reservation.as_mut().map(|reservation| reservation.split_off((self.end - at) as u64)),
        };
        (self.end, self.unfinished) = (at, false);
        (self, rest)
    }
}
