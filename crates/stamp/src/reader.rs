//! Reads a log transaction by transaction, with the facts that a tracker needs.
//!
//! In: chunks of the log. Out: each whole transaction's events, where they stand, and their [`Facts`]. Never here: a
//! stamp; a transaction that was executed before.

use std::sync::Arc;

use base::{Buffer, Gtid, GtidSet, LogPosition, SequenceNumber};
use binlog::{ChecksumAlgorithm, EventHeader, FormatDescription, event_type};
use catalog::Catalog;
use decode::trackers::{Claims, Extractor, Facts, Rules};
use decode::{
    DecodeOptions, Decoder, MemoryGate, Piece, SequencedPiece, Sequencer, SharedCatalog, SplitOptions, Splitter, Stop,
};

use crate::StampError;
use crate::touched::Watched;

/// Bytes of pieces that wait for their decoding. There is one at a time, and the first is always granted.
const GATE_BYTES: u64 = 64 << 20;

/// A whole transaction of the log.
pub(crate) struct Transaction<'a> {
    /// Its events, its Gtid event first.
    pub events: &'a [u8],
    /// Checksum of the events.
    pub checksum: ChecksumAlgorithm,
    /// Place of its Gtid event.
    pub at: LogPosition,
    pub facts: &'a Facts,
    pub gtid: Option<Gtid>,
    pub catalog: &'a Catalog,
    /// Format description in force.
    pub format: &'a FormatDescription,
}

/// A transaction of several pieces, gathered.
struct Gathered {
    events: Vec<u8>,
    checksum: ChecksumAlgorithm,
    at: LogPosition,
    facts: Facts,
    catalog: Catalog,
}

pub(crate) struct LogReader {
    splitter: Splitter,
    decoder: Decoder,
    sequencer: Sequencer,
    shared: SharedCatalog,
    extractor: Extractor,
    needs_claims: bool,
    format: Option<FormatDescription>,
    /// True if the source began a file after the last transaction.
    new_file: bool,
    gathered: Option<Gathered>,
    /// What statements touched, if that is asked for.
    pub(crate) watched: Option<Watched>,
}

impl LogReader {
    pub(crate) fn new(catalog: Catalog, executed: GtidSet, needs_claims: bool) -> LogReader {
        let options = DecodeOptions { lanes: 1, for_stamps: true, quarantine: true, ..DecodeOptions::default() };
        // A piece for each transaction.
        let sizes = SplitOptions { piece_bytes: 1, ..SplitOptions::default() };
        LogReader {
            splitter: Splitter::with_options(MemoryGate::new(GATE_BYTES), sizes),
            decoder: Decoder::new(options.clone()),
            shared: SharedCatalog::new(catalog.clone()),
            sequencer: Sequencer::new(options, catalog, executed, SequenceNumber::ZERO),
            extractor: Extractor::new(Rules::InnoDb),
            needs_claims,
            format: None,
            new_file: false,
            gathered: None,
            watched: None,
        }
    }

    /// Takes the next bytes of the log; `each` gets every transaction that ends in them. `verified` says that their
    /// checksums were verified.
    pub(crate) fn step(
        &mut self,
        file: &Arc<str>,
        offset: u64,
        data: &Arc<Buffer>,
        verified: bool,
        each: &mut dyn FnMut(&Transaction<'_>) -> Result<(), StampError>,
    ) -> Result<(), StampError> {
        let mut pieces = Vec::new();
        let split = self.splitter.step(file, offset, data, verified, &mut |mut piece| {
            // Reserved for one piece after the other, by one thread: nobody else waits.
            piece.reservation = None;
            pieces.push(piece);
            true
        });
        for piece in pieces {
            self.piece(piece, each)?;
        }
        Ok(split?)
    }

    /// Ends a file of the log.
    pub(crate) fn end_of_file(&mut self) -> Result<(), StampError> {
        Ok(self.splitter.end_of_file()?)
    }

    fn piece(
        &mut self,
        piece: Piece,
        each: &mut dyn FnMut(&Transaction<'_>) -> Result<(), StampError>,
    ) -> Result<(), StampError> {
        let before = self.sequencer.catalog().clone();
        let Some((catalog, version)) = self.shared.get(piece.epoch_to_decode()) else {
            return Err(defect(&piece, "a piece's epoch was not published"));
        };
        let decoded = self.decoder.decode(piece, &catalog, version);
        self.sequencer.take(decoded);
        let Some(sequenced) = self.sequencer.next(&self.shared) else { return Ok(()) };
        let named = self.sequencer.take_named();
        let gtid = sequenced.decoded.transactions.first().and_then(|transaction| transaction.gtid);
        if let Some(Watched { touched, within }) = &mut self.watched
            && gtid.is_none_or(|gtid| within.contains(&gtid))
        {
            named.iter().for_each(|statement| touched.add(statement));
            // One that another statement brings along was there before.
            if named.iter().any(|statement| statement.makes_database) {
                let made = self.sequencer.catalog().databases().filter(|(db, _)| before.database(db).is_none());
                touched.add_databases(made.map(|(db, _)| db));
            }
        }
        let outcome = self.sequenced(&sequenced, &before, each);
        let stop = sequenced.decoded.stop.clone();
        self.decoder.recycle(sequenced.decoded.into());
        outcome?;
        stop.map_or(Ok(()), |stop| Err(StampError::Stop(Box::new(stop))))
    }

    fn sequenced(
        &mut self,
        sequenced: &SequencedPiece,
        before: &Catalog,
        each: &mut dyn FnMut(&Transaction<'_>) -> Result<(), StampError>,
    ) -> Result<(), StampError> {
        let decoded = &sequenced.decoded;
        let piece = &decoded.piece;
        let sliced = piece.continues || piece.unfinished;
        let mut facts = match self.needs_claims && !sliced {
            true => {
                let after = sequenced.catalogs.last().map(|(_, catalog)| catalog);
                Facts::with_claims(decoded, &mut self.extractor, before, after)
            }
            // A transaction of many megabytes waits for everything.
            false => Facts { claims: Claims::of_anything(), ..Facts::of(decoded) },
        };
        self.new_file |= facts.new_file;
        let begin = decoded.transactions.first().map_or(piece.end, |transaction| transaction.start);
        let checksum = self.look_at_formats(sequenced, begin)?;
        let Some(transaction) = decoded.transactions.first() else { return Ok(()) };
        if transaction.skipped.is_some() {
            return Ok(());
        }
        let events = piece.data.get(transaction.start..transaction.end).unwrap_or_default();
        if !piece.continues {
            facts.new_file = std::mem::take(&mut self.new_file);
        }
        let Some(format) = self.format.clone() else {
            return Err(defect(piece, "a transaction before a format description"));
        };
        if sliced {
            let gathered = self.gathered.get_or_insert_with(|| Gathered {
                events: Vec::new(),
                checksum,
                at: piece.position(transaction.start),
                facts: facts.clone(),
                catalog: before.clone(),
            });
            gathered.events.extend_from_slice(events);
            gathered.facts.xa = facts.xa.take().or(gathered.facts.xa.take());
            if piece.unfinished {
                return Ok(());
            }
        }
        match self.gathered.take() {
            Some(Gathered { events, checksum, at, facts, catalog }) => each(&Transaction {
                events: &events,
                checksum,
                at,
                facts: &facts,
                gtid: transaction.gtid,
                catalog: &catalog,
                format: &format,
            }),
            None => each(&Transaction {
                events,
                checksum,
                at: piece.position(transaction.start),
                facts: &facts,
                gtid: transaction.gtid,
                catalog: before,
                format: &format,
            }),
        }
    }

    /// Notes the format descriptions before byte `end` of the piece; returns the checksum algorithm there.
    fn look_at_formats(&mut self, sequenced: &SequencedPiece, end: usize) -> Result<ChecksumAlgorithm, StampError> {
        let piece = &sequenced.decoded.piece;
        let (mut checksum, mut at) = (piece.checksum, piece.start);
        while let Some(event) = piece.data.get(at..end).filter(|rest| !rest.is_empty()) {
            let here = |error| StampError::Event { position: piece.position(at), error };
            let header = EventHeader::parse(event).map_err(here)?;
            let len = header.event_len as usize;
            if header.event_type == event_type::FORMAT_DESCRIPTION {
                let format = FormatDescription::parse(event.get(..len).unwrap_or_default()).map_err(here)?;
                checksum = format.checksum;
                self.format = Some(format);
            }
            at += len;
        }
        Ok(checksum)
    }
}

fn defect(piece: &Piece, what: &str) -> StampError {
    StampError::Stop(Box::new(Stop::of_defect(piece.position(piece.start), piece.begun.gtid, what)))
}
