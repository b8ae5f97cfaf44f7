//! Serves a relay log while it is written: the source's events, with the source's file names and positions.
//!
//! In: chunks from a reader of the relay log. Out: the source's events as received. Never here: the relay log's own
//! events; a whole chunk kept after the event that its end splits.

use std::sync::Arc;
use std::time::Duration;

use base::limits::EVENT_LEN_MAX;
use base::{GtidSet, Uuid};
use binlog::{
    BinlogError, ChecksumAlgorithm, EventHeader, FormatDescription, GtidEvent, Rotate, event_body, event_type, flags,
    verify_checksum,
};
use relay_log::{ReaderOptions, RelayError, RelayReader, RelayShared, TailItem};

use crate::dump::{Dump, Start, WRITE_BYTES};
use crate::files::opens;
use crate::{Result, ServeError};

/// How long a dump that has sent everything waits for more before it checks whether the replica has disconnected.
const LOOK: Duration = Duration::from_millis(100);
/// Time limit of that check.
const LOOK_BLOCKS: Duration = Duration::from_millis(1);

/// Identity of the server that serves a relay log.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its version text: replicas choose their queries by it.
    pub server_version: String,
    /// Its server id; must differ from that of every replica.
    pub server_id: u32,
    /// Its server_uuid; must differ from that of every replica.
    pub server_uuid: Uuid,
    /// Checksum algorithm of its log's events.
    pub checksum: ChecksumAlgorithm,
}

/// A relay log to serve.
pub struct RelaySource {
    /// State of the relay log.
    pub shared: Arc<RelayShared>,
    /// Reader options of each dump: how far it reads, and how long it holds what it has not sent.
    pub reader: ReaderOptions,
    /// Identity of this server.
    pub identity: Identity,
    /// GTIDs of all transactions that a replica may have from us.
    pub executed: Box<dyn Fn() -> GtidSet + Send + Sync>,
}

/// State of a dump of a relay log between two events.
struct Follow<'a> {
    executed: &'a GtidSet,
    checksum: ChecksumAlgorithm,
    /// True if the source's file continues in another file of the relay log, which repeats the source's first events.
    repeats: bool,
    /// True if the replica already has the current transaction.
    left_out: bool,
    /// True if the previous transaction was skipped: a heartbeat reports the position.
    after_left_out: bool,
}

impl Dump<'_, '_> {
    /// Sends what a replica with `start`'s set lacks, and then new events, until it disconnects. The inner `Err` is the
    /// reason of a refusal.
    pub(crate) fn follow(mut self, relay: &RelaySource, start: &Start) -> Result<Result<(), String>> {
        let everything = GtidSet::new();
        let executed = match start {
            Start::After(executed) => executed,
            Start::Place { file, .. } if file.is_empty() => &everything,
            Start::Place { .. } => {
                return Ok(Err("A relay log is served by GTID set only: use SOURCE_AUTO_POSITION = 1".into()));
            }
        };
        let mut reader = match RelayReader::open_for(Arc::clone(&relay.shared), executed, relay.reader) {
            Ok(reader) => reader,
            Err(RelayError::Gap { missing, .. }) => {
                return Ok(Err(format!(
                    "Cannot replicate because the source purged required binary logs. The replica lacks {missing}"
                )));
            }
            Err(error) => return Err(error.into()),
        };
        self.session.stream.set_read_timeout(Some(LOOK_BLOCKS)).map_err(ServeError::io("set up a connection"))?;
        let mut follow = Follow {
            executed,
            checksum: relay.identity.checksum,
            repeats: false,
            left_out: false,
            after_left_out: false,
        };
        let mut events = Events::default();
        loop {
            match reader.next(if self.unsent() > 0 { Duration::ZERO } else { LOOK }) {
                Ok(TailItem::Chunk(chunk)) => {
                    events.take(&chunk.data, &mut |event| self.follow_event(event, &mut follow))?;
                    if self.unsent() >= WRITE_BYTES {
                        self.flush()?;
                    }
                }
                Ok(TailItem::EndOfFile { .. }) => {}
                Ok(TailItem::Idle) => {
                    if std::mem::take(&mut follow.after_left_out) {
                        self.heartbeat();
                    }
                    self.flush()?;
                    if self.non_block {
                        self.send_end()?;
                        return Ok(Ok(()));
                    }
                    self.heartbeat_if_due()?;
                    if self.is_stopped() || self.session.is_gone() {
                        return Ok(Ok(()));
                    }
                }
                Ok(TailItem::Closed) => {
                    self.flush()?;
                    return Ok(Ok(()));
                }
                // Events that it was given are no longer in the log, or those it needs are gone: it must request the
                // log again.
                Err(error @ (RelayError::PlaceLost { .. } | RelayError::Truncated)) => {
                    return Ok(Err(error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn follow_event(&mut self, event: &[u8], follow: &mut Follow<'_>) -> Result<()> {
        let header = EventHeader::parse(event)?;
        if header.flags & flags::RELAY_LOG != 0 {
            return Ok(()); // the relay log's own event
        }
        let is_control = match header.event_type {
            event_type::FORMAT_DESCRIPTION => {
                follow.checksum = FormatDescription::parse(event)?.checksum;
                // From now on the replica expects it in every event, in those that are in no file too.
                self.at.checksum = follow.checksum;
                if follow.repeats {
                    return Ok(());
                }
                true
            }
            event_type::ROTATE => {
                if header.is_artificial() {
                    // It precedes the format description that announces the algorithm.
                    let checksum =
                        if verify_checksum(event) { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::None };
                    let rotate = Rotate::parse(event_body(event, checksum)?)?;
                    follow.repeats = rotate.file == self.at.file.as_bytes();
                    if follow.repeats {
                        self.at.position = rotate.position;
                        return Ok(());
                    }
                    // Built again: the replica, not the log, decides whether it has a checksum.
                    self.send_place(rotate.file, rotate.position);
                    return Ok(());
                }
                true
            }
            event_type::STOP => true,
            kind if opens(kind) => {
                let gtid = GtidEvent::parse(kind, event_body(event, follow.checksum)?)?.gtid;
                follow.left_out = gtid.is_some_and(|gtid| follow.executed.contains(&gtid));
                self.sent.transactions += u64::from(!follow.left_out);
                false
            }
            _ => false,
        };
        let end = match header.log_pos {
            0 => self.at.position,
            log_pos => whole_position(self.at.position, log_pos),
        };
        if follow.left_out && !is_control {
            (self.at.position, follow.after_left_out) = (end, true);
            return Ok(());
        }
        // Of the end of what was left out: the replica adds this event's length to it.
        if std::mem::take(&mut follow.after_left_out) {
            self.heartbeat();
        }
        self.at.position = end;
        self.sent.bytes += event.len() as u64;
        self.send(event);
        Ok(())
    }
}

/// Extends an end position of 32 bits to 64, given the previous one: it wraps in files above 4 GiB.
fn whole_position(before: u64, low: u32) -> u64 {
    let candidate = (before & !0xffff_ffff) | u64::from(low);
    if candidate >= before || before - candidate < 1 << 31 { candidate } else { candidate + (1 << 32) }
}

/// Extracts whole events from chunks that may begin and end inside events.
#[derive(Default)]
struct Events {
    /// The first bytes of an incomplete event.
    rest: Vec<u8>,
}

impl Events {
    fn take(&mut self, mut data: &[u8], each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while !data.is_empty() {
            if self.rest.is_empty()
                && let Some(len) = event_len(data)?
                && let Some((event, later)) = data.split_at_checked(len)
            {
                each(event)?;
                data = later;
                continue;
            }
            // As many bytes as complete the event, or its header first.
            let wanted = event_len(&self.rest)?.unwrap_or(EventHeader::LEN);
            let (more, later) = data.split_at((wanted - self.rest.len()).min(data.len()));
            self.rest.extend_from_slice(more);
            data = later;
            if event_len(&self.rest)? == Some(self.rest.len()) {
                each(&self.rest)?;
                self.rest.clear();
                self.rest.shrink_to(WRITE_BYTES);
            }
        }
        Ok(())
    }
}

/// Length of the event that begins here; None while its header is incomplete.
fn event_len(bytes: &[u8]) -> Result<Option<usize>> {
    if bytes.len() < EventHeader::LEN {
        return Ok(None);
    }
    let header = EventHeader::parse(bytes)?;
    let len = header.event_len as usize;
    if !(EventHeader::LEN..=EVENT_LEN_MAX).contains(&len) {
        return Err(BinlogError::Value { event: header.name(), field: "length", value: len as u64 }.into());
    }
    Ok(Some(len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use binlog::writer::BinlogWriter;
    use proptest::prelude::*;

    #[test]
    fn positions_beyond_four_gib() {
        assert_eq!(whole_position(100, 200), 200);
        assert_eq!(whole_position(0xffff_ff00, 0x10), 0x1_0000_0010);
        assert_eq!(whole_position(0x1_0000_0010, 0x20), 0x1_0000_0020);
    }

    proptest! {
        #[test]
        fn events_come_out_whole_however_they_are_cut(
            lens in prop::collection::vec(0usize..300, 1..20),
            cuts in prop::collection::vec(1usize..200, 1..60),
        ) {
            let mut writer = BinlogWriter::new(1, ChecksumAlgorithm::Crc32, 4);
            let wanted: Vec<Vec<u8>> = lens.iter().map(|len| {
                writer.event(event_type::WRITE_ROWS, 0, |out| out.resize(out.len() + len, 7));
                writer.take()
            }).collect();
            let bytes = wanted.concat();
            let (mut events, mut found, mut rest) = (Events::default(), Vec::new(), &bytes[..]);
            for len in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*len).min(rest.len()));
                events.take(now, &mut |event| {
                    found.push(event.to_vec());
                    Ok(())
                }).unwrap();
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, wanted);
            prop_assert!(events.rest.is_empty());
        }

        #[test]
        fn damaged_bytes_are_an_error_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Events::default().take(&bytes, &mut |_| Ok(()));
        }
    }
}
