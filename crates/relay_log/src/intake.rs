//! Groups single events into appends: how the receiver stores the source's log.
//!
//! In: events as sent by a source or stored in a file. Out: appends of whole transactions, cut where a reader can
//! begin. Never here: heartbeats, the source's own PREVIOUS_GTIDS and STOP in the relay log; a changed event, except
//! for a stale checksum in the source's FORMAT_DESCRIPTION.

use std::borrow::Cow;
use std::sync::Arc;

use base::limits::EVENT_LEN_MAX;
use base::{Gtid, GtidSet, LogPosition};
use binlog::writer::BinlogWriter;
use binlog::{
    ChecksumAlgorithm, EventHeader, GtidEvent, Heartbeat, HeartbeatV2, Rotate, event_body, event_type, flags,
    verify_checksum,
};
use observe::SourceClock;

use crate::boundary::{BoundaryError, BoundaryTracker, StepKind};
use crate::file_header::mended;
use crate::shared::Next;
use crate::{AppendMeta, Damage, RelayError, RelayPosition, RelayWriter, TruncateReport};

/// Offset of the type in an event's header.
const EVENT_TYPE_AT: usize = 4;
/// Bytes collected before an append, even if more are available.
const APPEND_BYTES: usize = 256 << 10;
/// Appends below this are copied into a buffer of their own size, so that they do not hold the whole buffer.
const SMALL_BYTES: usize = 32 << 10;
/// An open transaction above this is appended in parts.
const PART_BYTES: usize = 1 << 20;
const _: () = assert!(SMALL_BYTES < APPEND_BYTES && APPEND_BYTES <= PART_BYTES && PART_BYTES < EVENT_LEN_MAX);

/// Collects events and appends whole transactions to the relay log.
pub struct Intake {
    writer: RelayWriter,
    tracker: BoundaryTracker,
    buffer: Vec<u8>,
    /// Bytes of whole transactions at the start of `buffer`.
    whole: usize,
    gtids: Vec<Gtid>,
    open: Option<Gtid>,
    /// Commit times of the whole transactions in `buffer`, by the source's clock, and of the open one.
    commits_us: Vec<u64>,
    open_commit_us: u64,
    /// The source's clock minus ours, µs.
    source_clock: Arc<SourceClock>,
    rotate: Option<Vec<u8>>,
    /// True if the ROTATE came from a server rather than from `begin_file`.
    rotate_was_sent: bool,
    file: LogPosition,
    whole_at: LogPosition,
    checksum: ChecksumAlgorithm,
    /// True once this stream has described its format.
    described: bool,
    /// True if a transaction without a GTID is refused.
    only_gtids: bool,
    transactions: u64,
    bytes: u64,
    /// First event of the open transaction, and of the newest whole one.
    begun: FirstEvent,
    newest: FirstEvent,
}

/// The first event of a transaction, where the source has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstEvent {
    pub file: Arc<str>,
    /// Offset of the event.
    pub offset: u64,
    /// The whole event; empty if there was no transaction yet.
    pub bytes: Vec<u8>,
}

impl FirstEvent {
    fn none() -> FirstEvent {
        FirstEvent { file: "".into(), offset: 0, bytes: Vec::new() }
    }

    /// Keeps the buffer's allocation: this is done for every transaction.
    fn set(&mut self, end: &LogPosition, event: &[u8]) {
        self.file.clone_from(&end.file);
        self.offset = end.offset.saturating_sub(event.len() as u64);
        self.bytes.clear();
        self.bytes.extend_from_slice(event);
    }
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Stored in the log.
    Stored,
    /// A heartbeat, which is not stored. `moved`: the source's position is after the last event it sent, because it
    /// skipped events that we have; `source_position` is the new position.
    Heartbeat {
        /// True if the source's position moved.
        moved: bool,
    },
    /// Not needed; dropped.
    Ignored,
}

impl Intake {
    /// An intake into `writer`. `start` is the start of the source's log, for a source that does not send a ROTATE
    /// first.
    #[must_use]
    pub fn new(writer: RelayWriter, start: LogPosition) -> Intake {
        Intake {
            writer,
            tracker: BoundaryTracker::new(ChecksumAlgorithm::None),
            buffer: Vec::with_capacity(APPEND_BYTES * 2),
            whole: 0,
            gtids: Vec::new(),
            open: None,
            commits_us: Vec::new(),
            open_commit_us: 0,
            source_clock: Arc::default(),
            rotate: None,
            rotate_was_sent: false,
            whole_at: start.clone(),
            file: start,
            checksum: ChecksumAlgorithm::None,
            described: false,
            only_gtids: false,
            transactions: 0,
            bytes: 0,
            begun: FirstEvent::none(),
            newest: FirstEvent::none(),
        }
    }

    /// Measures transport by the source's clock, which is so many µs ahead of ours.
    #[must_use]
    pub fn with_source_clock(self, source_clock: Arc<SourceClock>) -> Intake {
        Intake { source_clock, ..self }
    }

    /// Refuses transactions without a GTID: a source that skips transactions by GTID would send them again after each
    /// reconnect.
    #[must_use]
    pub fn with_only_gtids(self) -> Intake {
        Intake { only_gtids: true, ..self }
    }

    /// Begins the next file of a source that does not send a ROTATE itself (log files read from disk).
    pub fn begin_file(&mut self, name: &str) {
        let mut writer = BinlogWriter::new(0, ChecksumAlgorithm::None, 0);
        writer.rotate(name.as_bytes(), 4);
        let mut event = writer.take();
        if let Some(bits) = event.get_mut(17..19) {
            bits.copy_from_slice(&flags::ARTIFICIAL.to_le_bytes());
        }
        self.rotate = Some(event);
        self.rotate_was_sent = false;
        self.file = LogPosition { file: name.into(), offset: 4 };
    }

    /// Takes one whole event with header and checksum. The caller calls `flush` before it waits for the next event.
    ///
    /// # Errors
    /// The event is damaged or not allowed here, or the relay log cannot be written.
    pub fn event(&mut self, event: &[u8]) -> Result<Taken, RelayError> {
        let header = EventHeader::parse(event).map_err(|e| RelayError::Boundary(e.into()))?;
        if header.event_len as usize != event.len() {
            let (name, says, has) = (header.name(), header.event_len, event.len());
            return Err(self.malformed(&format!("the header of a {name} event says {says} bytes, but it has {has}")));
        }
        match header.event_type {
            event_type::HEARTBEAT | event_type::HEARTBEAT_V2 => {
                return Ok(Taken::Heartbeat { moved: self.note_heartbeat(&header, event) });
            }
            event_type::PREVIOUS_GTIDS | event_type::STOP => return Ok(Taken::Ignored),
            event_type::ROTATE if header.is_artificial() => {
                self.note_rotate(event)?;
                return Ok(Taken::Ignored);
            }
            event_type::FORMAT_DESCRIPTION => {
                self.note_format(event)?;
                return Ok(Taken::Stored);
            }
            _ => {}
        }
        if !self.described {
            return Err(self.malformed(&format!("a {} event comes before any format description", header.name())));
        }
        if self.checksum == ChecksumAlgorithm::Crc32 && !verify_checksum(event) {
            let text = format!("checksum of a {} event from the source does not match its bytes", header.name());
            return Err(self.malformed(&text));
        }
        let was_open = self.tracker.in_transaction();
        let step = self.tracker.step_with(&header, event)?;
        // Replay says what an INCIDENT means, with a GTID or without.
        let lacks_gtid = step.kind == StepKind::Begin && step.transaction_begins.is_none();
        if self.only_gtids && lacks_gtid && header.event_type != event_type::INCIDENT {
            let text =
                format!("the source sent a transaction without a GTID: it begins with a {} event", header.name());
            return Err(BoundaryError::NotSupported(text).into());
        }
        if let Some(gtid) = step.transaction_begins {
            self.open = Some(gtid);
        }
        let rest = if was_open && event.len() > 2 * PART_BYTES { self.append_parts(event)? } else { event };
        self.buffer.extend_from_slice(rest);
        self.bytes += event.len() as u64;
        if header.log_pos != 0 {
            self.file.offset = unwrap_position(self.file.offset, header.log_pos);
        }
        if step.transaction_begins.is_some() {
            self.begun.set(&self.file, event);
        }
        if step.commit_us != 0 {
            self.open_commit_us = step.commit_us;
        }
        // No transaction is open now, so a reader may begin after these bytes.
        if step.transaction_ends || !self.tracker.in_transaction() {
            self.whole = self.buffer.len();
            self.whole_at.clone_from(&self.file);
            if step.transaction_ends {
                self.transactions += 1;
                std::mem::swap(&mut self.begun, &mut self.newest);
                self.gtids.extend(self.open.take());
                self.commits_us.push(std::mem::take(&mut self.open_commit_us));
            }
            if self.whole >= APPEND_BYTES {
                self.append_whole(Next::Append)?;
            }
        } else if self.buffer.len() - self.whole >= PART_BYTES {
            // Do not collect a huge transaction in memory.
            self.append_whole(Next::Append)?;
            self.flush_part()?;
        }
        Ok(Taken::Stored)
    }

    fn malformed(&self, text: &str) -> RelayError {
        BoundaryError::Malformed(format!("{text} (source position {})", self.file)).into()
    }

    fn note_rotate(&mut self, event: &[u8]) -> Result<(), RelayError> {
        // The ROTATE precedes the FORMAT_DESCRIPTION, so only the bytes tell whether it has a checksum.
        let checksum = if verify_checksum(event) { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::None };
        let rotate = event_body(event, checksum).and_then(Rotate::parse).map_err(|e| RelayError::Boundary(e.into()))?;
        self.flush()?;
        self.file = LogPosition { file: String::from_utf8_lossy(rotate.file).as_ref().into(), offset: rotate.position };
        self.rotate = Some(event.to_vec());
        self.rotate_was_sent = true;
        Ok(())
    }

    /// True if a heartbeat names a later position of the source than the last event. An unreadable heartbeat, or one
    /// within a transaction, moves nothing.
    fn note_heartbeat(&mut self, header: &EventHeader, event: &[u8]) -> bool {
        if self.tracker.in_transaction() || (self.checksum == ChecksumAlgorithm::Crc32 && !verify_checksum(event)) {
            return false;
        }
        let Ok(body) = event_body(event, self.checksum) else { return false };
        let at = if header.event_type == event_type::HEARTBEAT_V2 {
            HeartbeatV2::parse(body).map(|beat| (beat.file, beat.position))
        } else {
            let offset = unwrap_position(self.file.offset, header.log_pos);
            Heartbeat::parse(body).map(|beat| (beat.file, offset))
        };
        match at {
            Ok((file, offset)) if file == self.file.file.as_bytes() && offset > self.file.offset => {
                self.file.offset = offset;
                true
            }
            _ => false,
        }
    }

    fn note_format(&mut self, event: &[u8]) -> Result<(), RelayError> {
        self.flush()?;
        if self.rotate.is_none() {
            let file = self.file.file.to_string();
            self.begin_file(&file);
        }
        let rotate = self.rotate.take().unwrap_or_default();
        let event = if self.rotate_was_sent { mended(&rotate, event) } else { Cow::Borrowed(event) };
        self.writer.note_source_headers(&rotate, &event)?;
        self.tracker.reset();
        self.tracker.step(&event)?;
        self.checksum = self.tracker.checksum();
        self.described = true;
        self.whole_at.clone_from(&self.file);
        Ok(())
    }

    /// Appends the whole transactions collected so far; None if there are none.
    ///
    /// # Errors
    /// The relay log cannot be written.
    pub fn flush(&mut self) -> Result<Option<RelayPosition>, RelayError> {
        let end = self.append_whole(Next::Wait)?;
        if end.is_none() {
            self.writer.shared().wake_reader();
        }
        Ok(end)
    }

    fn append_whole(&mut self, next: Next) -> Result<Option<RelayPosition>, RelayError> {
        if self.whole == 0 {
            return Ok(None);
        }
        let data = self.take_whole();
        let meta = AppendMeta { ends_transaction: true, gtids: &self.gtids, source_position: self.whole_at.clone() };
        let position = self.writer.append_before(next, data, meta)?;
        self.gtids.clear();
        if observe::WATCHES {
            let source_now_us = self.source_clock.now_us();
            self.writer.shared().lag_by_part().transported(&self.commits_us, source_now_us, observe::steady_us());
        }
        self.commits_us.clear();
        Ok(Some(position))
    }

    /// Removes the whole transactions at the start of `buffer`.
    fn take_whole(&mut self) -> Vec<u8> {
        let whole = std::mem::take(&mut self.whole);
        let (transactions, open) = self.buffer.split_at(whole);
        if whole < SMALL_BYTES {
            let data = transactions.to_vec();
            self.buffer.drain(..whole);
            return data;
        }
        let mut next = self.writer.spare_buffer(APPEND_BYTES * 2);
        next.clear();
        next.extend_from_slice(open);
        self.buffer.truncate(whole);
        std::mem::replace(&mut self.buffer, next)
    }

    /// Appends the part of an open transaction received so far.
    fn flush_part(&mut self) -> Result<(), RelayError> {
        let data = std::mem::take(&mut self.buffer);
        self.append_open(data)
    }

    fn append_open(&mut self, data: Vec<u8>) -> Result<(), RelayError> {
        let meta = AppendMeta { ends_transaction: false, gtids: &[], source_position: self.whole_at.clone() };
        self.writer.append_before(Next::Append, data, meta).map(drop)
    }

    /// Appends a long event of an open transaction, but for its end, part by part: the caller has it in memory, and it
    /// is not to be there twice. Returns its end.
    fn append_parts<'e>(&mut self, event: &'e [u8]) -> Result<&'e [u8], RelayError> {
        self.append_whole(Next::Append)?;
        if !self.buffer.is_empty() {
            self.flush_part()?;
        }
        let mut rest = event;
        while let Some((part, more)) = rest.split_at_checked(PART_BYTES).filter(|(_, more)| !more.is_empty()) {
            self.append_open(part.to_vec())?;
            rest = more;
        }
        Ok(rest)
    }

    /// Drops an open transaction from memory and from the file: the source will send it again from its start, in a new
    /// stream.
    ///
    /// # Errors
    /// The relay log cannot be truncated.
    pub fn abort_partial(&mut self) -> Result<(), RelayError> {
        self.flush()?;
        self.buffer.clear();
        self.open = None;
        self.open_commit_us = 0;
        self.described = false;
        self.tracker.reset();
        self.writer.abort_partial()?;
        Ok(())
    }

    /// Truncates the relay log before a damage, see [`RelayWriter::truncate_to`]. The next event must be the first of a
    /// new stream.
    ///
    /// # Errors
    /// The relay log cannot be truncated.
    pub fn truncate_to(&mut self, damage: &Damage, executed: &GtidSet) -> Result<TruncateReport, RelayError> {
        self.abort_partial()?;
        let report = self.writer.truncate_to(damage, executed)?;
        if let Some(position) = self.writer.source_position() {
            self.file.clone_from(position);
            self.whole_at.clone_from(position);
        }
        self.rotate = None;
        Ok(report)
    }

    /// Length in bytes of the transaction that an event begins, as its source says; the event's own length if the
    /// source does not say. None if the event begins none.
    #[must_use]
    pub fn length_of_transaction(&self, event: &[u8]) -> Option<u64> {
        let event_type = *event.get(EVENT_TYPE_AT)?;
        let begins = matches!(event_type, event_type::GTID | event_type::GTID_TAGGED | event_type::ANONYMOUS_GTID);
        if !begins {
            return None;
        }
        let gtid = event_body(event, self.checksum).and_then(|body| GtidEvent::parse(event_type, body)).ok();
        // What is wrong with the event is said by the one who takes it.
        Some(gtid.and_then(|gtid| gtid.transaction_length).unwrap_or(0).max(event.len() as u64))
    }

    /// Begins a new relay log file if the last one holds transactions: a purge never frees the last one.
    ///
    /// # Errors
    /// The relay log cannot be written.
    pub fn close_file(&mut self) -> Result<(), RelayError> {
        self.flush()?;
        self.writer.close_file()
    }

    /// True if a transaction is open.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        self.tracker.in_transaction()
    }

    /// End of the last event taken, in the source's log.
    #[must_use]
    pub fn source_position(&self) -> &LogPosition {
        &self.file
    }

    /// First event of the newest whole transaction of this run; None before there is one.
    #[must_use]
    pub fn newest(&self) -> Option<&FirstEvent> {
        Some(&self.newest).filter(|first| !first.bytes.is_empty())
    }

    /// Number of transactions and bytes taken.
    #[must_use]
    pub fn taken(&self) -> (u64, u64) {
        (self.transactions, self.bytes)
    }

    #[must_use]
    pub fn writer(&self) -> &RelayWriter {
        &self.writer
    }

    /// Appends the whole transactions and returns the writer.
    ///
    /// # Errors
    /// The relay log cannot be written.
    pub fn finish(mut self) -> Result<RelayWriter, RelayError> {
        self.flush()?;
        Ok(self.writer)
    }
}

/// Extends the header's 32-bit end position to 64 bits: it wraps in files above 4 GiB.
fn unwrap_position(before: u64, low: u32) -> u64 {
    let candidate = (before & !0xffff_ffff) | u64::from(low);
    if candidate >= before || before - candidate < 1 << 31 { candidate } else { candidate + (1 << 32) }
}

#[cfg(test)]
mod tests {
    use base::Uuid;
    use testkit::log::{Author, dump_head};

    use super::*;
    use crate::{RelayLog, RelayOptions, SyncPolicy};

    #[test]
    fn positions_beyond_four_gib() {
        assert_eq!(unwrap_position(100, 200), 200);
        assert_eq!(unwrap_position(0xffff_ff00, 0x10), 0x1_0000_0010);
        assert_eq!(unwrap_position(0x1_0000_0010, 0x20), 0x1_0000_0020);
    }

    /// The second transaction is compressed: its last event is the long one.
    #[test]
    fn a_long_event_is_stored_whole_and_never_kept() {
        let dir = tempfile::tempdir().unwrap();
        let options = RelayOptions { sync: SyncPolicy::Never, ..RelayOptions::new(dir.path()) };
        let (writer, _) = RelayLog::open(options).unwrap();
        let mut intake = Intake::new(writer, LogPosition { file: "".into(), offset: 4 });
        let mut author = Author::at(Uuid([7; 16]), ChecksumAlgorithm::Crc32, 200);
        let (rotate, format) = dump_head("binlog.000042", ChecksumAlgorithm::Crc32);
        intake.event(&rotate).unwrap();
        intake.event(&format).unwrap();
        let mut sent = Vec::new();
        for compressed in [false, true] {
            author.compressed = compressed;
            author.transaction(|events| {
                events.sql("BEGIN");
                let mut random = 1u64;
                events.writer.event(event_type::WRITE_ROWS, 0, |out| {
                    out.extend((0..5 * PART_BYTES).map(|_| {
                        // Numbers that do not compress.
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        random.to_le_bytes()[7]
                    }));
                });
                events.writer.xid(1);
            });
            let transaction = author.writer.take();
            let mut rest = &transaction[..];
            while let Ok(header) = EventHeader::parse(rest) {
                let (event, more) = rest.split_at(header.event_len as usize);
                intake.event(event).unwrap();
                assert!(intake.buffer.capacity() <= 2 * PART_BYTES, "{} of {}", intake.buffer.capacity(), event.len());
                rest = more;
            }
            sent.extend(transaction);
        }
        intake.flush().unwrap();
        let file = std::fs::read(dir.path().join(crate::file_name(1))).unwrap();
        assert!(file.ends_with(&sent), "{} bytes", file.len());
        assert_eq!(intake.taken().0, 2);
        drop(intake);
        let recovery = RelayLog::open(RelayOptions::new(dir.path())).unwrap().1;
        assert_eq!(recovery.retrieved.count(), 2);
    }
}
