//! The stamper: a log in, the served log out.
//!
//! In: chunks of a log. Out: [`Part`]s. Never here: I/O; a file's end that depends on the time.

use std::sync::Arc;

use base::{Buffer, GtidSet, SequenceNumber};
use binlog::{EventHeader, FormatDescription};
use catalog::Catalog;
use decode::trackers::{Rules, Stamp, Tracker, TrackerKind, TrackerOptions};

use crate::file::{ServedFile, first_event, opens};
use crate::reader::{LogReader, Transaction};
use crate::{FILE_BYTES_MAX, FileStart, Part, StampCounts, StampError, StampOptions, file_name};

/// Bytes by which a Gtid event's length may change with its stamp: varints of up to 10 bytes for three numbers.
const GTID_GROWS_MAX: u64 = 30;

/// Takes the parts of the served log, in order. Its error ends the stamping.
pub type PutPart<'p> = &'p mut dyn FnMut(Part<'_>) -> Result<(), String>;

pub struct Stamper {
    reader: LogReader,
    output: Output,
}

/// The served log's state.
struct Output {
    options: StampOptions,
    /// Number of the last file begun.
    number: u64,
    /// GTIDs of all transactions so far, and of those before the log.
    executed: GtidSet,
    open: Option<OpenFile>,
    /// Size of the next file, if it is made again.
    file_bytes_again: Option<u64>,
    counts: StampCounts,
}

struct OpenFile {
    file: ServedFile,
    file_bytes: u64,
    tracker: Tracker,
    format: FormatDescription,
}

impl Stamper {
    /// Creates a stamper for a log whose first transaction follows `executed` and finds the definitions of `catalog`.
    /// Its first file has this number.
    #[must_use]
    pub fn new(options: StampOptions, number: u64, executed: GtidSet, catalog: Catalog) -> Stamper {
        let needs_claims = options.tracking.needs_claims();
        Stamper {
            reader: LogReader::new(catalog, executed.clone(), needs_claims),
            output: Output {
                options,
                number: number.saturating_sub(1),
                executed,
                open: None,
                file_bytes_again: None,
                counts: StampCounts::default(),
            },
        }
    }

    /// Creates a stamper that makes a file, and all that follow it, again. The log is read from
    /// [`FileStart::at`], after the format description in force there.
    #[must_use]
    pub fn again(options: StampOptions, start: &FileStart) -> Stamper {
        let mut stamper = Stamper::new(options, start.number, start.executed.clone(), start.catalog.clone());
        stamper.output.file_bytes_again = Some(start.file_bytes);
        stamper
    }

    /// Takes the next bytes of the log, which may be cut anywhere, and puts out what they complete. `verified` says
    /// that their checksums were verified.
    ///
    /// # Errors
    /// The log cannot be stamped any further, or `put` failed.
    pub fn step(
        &mut self,
        file: &Arc<str>,
        offset: u64,
        data: &Arc<Buffer>,
        verified: bool,
        put: PutPart<'_>,
    ) -> Result<(), StampError> {
        let Stamper { reader, output } = self;
        reader.step(file, offset, data, verified, &mut |transaction| output.transaction(transaction, put))
    }

    /// Ends a file of the log.
    ///
    /// # Errors
    /// It ends inside a transaction.
    pub fn end_of_file(&mut self) -> Result<(), StampError> {
        self.reader.end_of_file()
    }

    /// GTIDs of all transactions put out, and of those before the log.
    #[must_use]
    pub fn executed(&self) -> &GtidSet {
        &self.output.executed
    }

    /// What was done so far.
    #[must_use]
    pub fn counts(&self) -> StampCounts {
        self.output.counts
    }
}

impl Output {
    fn transaction(&mut self, transaction: &Transaction<'_>, put: PutPart<'_>) -> Result<(), StampError> {
        let at = || transaction.at.clone();
        let here = |error| StampError::Event { position: at(), error };
        let header = first_event(transaction.events).and_then(|(event, _)| EventHeader::parse(event)).map_err(here)?;
        if !opens(header.event_type) {
            return Err(StampError::NoGtidEvent(at()));
        }
        if self.open.as_ref().is_some_and(|open| self.ends_before(open, transaction))
            && let Some(mut open) = self.open.take()
        {
            open.file.rotate(&file_name(self.number + 1));
            put(Part::Bytes(&open.file.take())).map_err(StampError::Output)?;
            put(Part::End).map_err(StampError::Output)?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                self.number += 1;
                let start = FileStart {
                    number: self.number,
                    at: at(),
                    executed: self.executed.clone(),
                    catalog: transaction.catalog.clone(),
                    file_bytes: self.file_bytes_again.take().unwrap_or(self.options.file_bytes),
                };
                none.insert(begin(&self.options, &start, transaction, header.timestamp, put)?)
            }
        };
        let counted = open.tracker.counts();
        let stamp = open.tracker.begin(transaction.facts);
        // A parent of 0 would make replicas wait for everything.
        let last_committed = stamp.last_committed.max(1).min(stamp.sequence_number - 1);
        let stamp = Stamp { last_committed, ..stamp };
        open.file.transaction(transaction.events, transaction.checksum, stamp).map_err(here)?;
        put(Part::Bytes(&open.file.take())).map_err(StampError::Output)?;
        let now = open.tracker.counts();
        if let Some(gtid) = transaction.gtid {
            self.executed.add(gtid);
        }
        self.counts.transactions += 1;
        self.counts.kept += u64::from(transaction.facts.claims.has_unknown_tables());
        self.counts.drains += now.drains - counted.drains;
        self.counts.distance += now.distance - counted.distance;
        Ok(())
    }

    /// True if the file ends before this transaction: it would become too long, or the format changes.
    fn ends_before(&self, open: &OpenFile, transaction: &Transaction<'_>) -> bool {
        let (own, now) = (&open.format, transaction.format);
        let same_format = own.server_version == now.server_version && own.post_header_lens == now.post_header_lens;
        // Every event has at least a header.
        let grows = if transaction.checksum.is_empty() {
            (transaction.events.len() / EventHeader::LEN * binlog::CHECKSUM_LEN) as u64
        } else {
            0
        };
        let len = transaction.events.len() as u64 + grows + GTID_GROWS_MAX;
        let limit = open.file_bytes.min(FILE_BYTES_MAX);
        !same_format || open.file.position() + len > limit
    }
}

fn begin(
    options: &StampOptions,
    start: &FileStart,
    transaction: &Transaction<'_>,
    timestamp: u32,
    put: PutPart<'_>,
) -> Result<OpenFile, StampError> {
    put(Part::Begin(start)).map_err(StampError::Output)?;
    let mut file = ServedFile::begin(transaction.format, options.server_id, timestamp, &start.executed);
    put(Part::Bytes(&file.take())).map_err(StampError::Output)?;
    let tracker = TrackerOptions { kind: options.tracking, rules: Rules::InnoDb, history_size: options.history_size };
    debug_assert!(options.tracking != TrackerKind::Database, "no replica of MySQL 8.0 or newer schedules by database");
    Ok(OpenFile {
        file,
        file_bytes: start.file_bytes,
        tracker: Tracker::new(tracker, SequenceNumber::ZERO),
        format: transaction.format.clone(),
    })
}
