//! The end of the relay log: what is received is added there while the disk has room, and counted.
//!
//! In: events. Out: appends, what the next transaction lacks of disk space, figures for status. Never here: a
//! connection.

use std::sync::Arc;
use std::time::Duration;

use base::{GtidSet, LogPosition};
use observe::{ConnectionState, Work, now_us, steady_us};
use relay_log::{Intake, RelayError, RelayPosition, RelayWriter, Taken};

use super::link::Link;
use crate::exit::Failure;
use crate::failure::relay_failure;
use crate::room::{Room, SpaceNeed};

/// Interval at which a receiver that waits for disk space looks at the disk.
const LOOK_FOR_ROOM_EVERY: Duration = Duration::from_millis(100);
/// Free bytes with which a receiver that waits for more still begins a relay log file, so that the last one can be
/// purged.
const CLOSES_FILE_WITH: u64 = 128 << 10;

pub(super) struct LogEnd {
    intake: Intake,
    link: Arc<Link>,
    /// None: receiving does not wait for disk space.
    pub room: Option<Room>,
    /// Bytes of the intake already counted in `Link::received`.
    counted_bytes: u64,
}

impl LogEnd {
    pub(super) fn new(intake: Intake, link: &Arc<Link>) -> LogEnd {
        LogEnd { intake, link: Arc::clone(link), room: None, counted_bytes: 0 }
    }

    /// GTIDs in the relay log.
    pub(super) fn retrieved(&self) -> &GtidSet {
        self.intake.writer().retrieved()
    }

    /// Position in the source's log up to which events were received.
    pub(super) fn source_position(&self) -> &LogPosition {
        self.intake.source_position()
    }

    pub(super) fn writer(&self) -> &RelayWriter {
        self.intake.writer()
    }

    pub(super) fn taken_bytes(&self) -> u64 {
        self.intake.taken().1
    }

    /// Bytes taken since the figures for status were last updated.
    pub(super) fn uncounted_bytes(&self) -> u64 {
        self.taken_bytes().saturating_sub(self.counted_bytes)
    }

    /// See [`Intake::begin_file`].
    pub(super) fn begin_file(&mut self, name: &str) {
        self.intake.begin_file(name);
    }

    pub(super) fn in_transaction(&self) -> bool {
        self.intake.in_transaction()
    }

    pub(super) fn event(&mut self, event: &[u8]) -> Result<Taken, RelayError> {
        self.intake.event(event)
    }

    /// See [`Intake::flush`].
    pub(super) fn flush(&mut self) -> Result<Option<RelayPosition>, Failure> {
        self.intake.flush().map_err(relay_failure)
    }

    /// See [`Intake::abort_partial`].
    pub(super) fn abort_partial(&mut self) -> Result<(), Failure> {
        self.intake.abort_partial().map_err(relay_failure)
    }

    /// Closes the relay log after its last transaction.
    pub(super) fn close(mut self) -> Result<(), RelayError> {
        self.intake.abort_partial().and_then(|()| self.intake.finish()).and_then(RelayWriter::close)
    }

    /// The transaction that an event begins, if there is no room for it.
    pub(super) fn lacks_room_for(&mut self, event: &[u8]) -> Option<SpaceNeed> {
        let room = self.room.as_mut()?;
        let transaction_bytes = self.intake.length_of_transaction(event).filter(|bytes| !room.takes(*bytes))?;
        let begun_s = event.first_chunk().map_or(0, |seconds| u64::from(u32::from_le_bytes(*seconds)));
        Some(SpaceNeed { transaction_bytes, begun_s, lacks_bytes: room.lacks(transaction_bytes) })
    }

    /// Waits until there is room for the next transaction. Meanwhile cuts purge the relay log: its last file is closed
    /// for that.
    pub(super) fn wait_for_room(&mut self, need: SpaceNeed) -> Result<(), Failure> {
        let Some(room) = &mut self.room else { return Ok(()) };
        if room.look().is_none_or(|space| space.free_bytes >= CLOSES_FILE_WITH) {
            self.intake.close_file().map_err(relay_failure)?;
        }
        {
            let mut state = self.link.lock();
            state.source.connection = ConnectionState::Connecting;
            state.source.since_us = now_us();
        }
        let mut lacks_bytes = room.lacks(need.transaction_bytes);
        while lacks_bytes > 0 && !self.link.must_end() {
            self.link.lock().received.waits_for_space = Some(SpaceNeed { lacks_bytes, ..need });
            std::thread::sleep(LOOK_FOR_ROOM_EVERY);
            lacks_bytes = room.lacks(need.transaction_bytes);
        }
        self.link.lock().received.waits_for_space = None;
        Ok(())
    }

    /// Transactions received by this process.
    pub(super) fn taken_transactions(&self) -> u64 {
        self.intake.taken().0
    }

    /// Updates the figures for status.
    pub(super) fn note_progress(&mut self) {
        let (now, bytes) = (now_us(), self.uncounted_bytes());
        self.counted_bytes = self.taken_bytes();
        self.link.received.add(Work { bytes, ..Work::default() }, steady_us());
        let mut state = self.link.lock();
        if bytes > 0 {
            state.received.last_received_us = now;
        }
        state.received.transactions = self.intake.taken().0;
        state.received.source_position = Some(self.intake.source_position().to_string());
        if let Some(newest) = self.intake.newest() {
            // Only this session brings new ones, so they are from the source of the facts.
            if state.received.newest.as_ref().is_none_or(|(_, kept)| kept != newest) {
                state.received.newest = Some((state.source.facts.server_uuid.clone(), newest.clone()));
            }
        }
        let retrieved = self.intake.writer().retrieved();
        if state.received.retrieved != *retrieved {
            state.received.retrieved.clone_from(retrieved);
        }
    }
}
