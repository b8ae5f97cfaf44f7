//! The events of a dump that are in no file, and those that are sent other than they are.
//!
//! Mirrors MySQL's Binlog_sender (sql/rpl_binlog_sender.cc). In: places in the log. Out: Rotate events that name a
//! file, heartbeats, format descriptions without the flag that marks a file in use. Never here: I/O, the choice of an
//! event.

use binlog::writer::{BinlogWriter, relocate};
use binlog::{ChecksumAlgorithm, event_type};
use wire::read::put_lenenc;

/// Flag of an event of the dump that is not in a file.
const FLAG_ARTIFICIAL: u16 = 0x20;
/// Offsets of flags and creation time in a format description event.
const FLAGS_AT: usize = 17;
const CREATED_AT: usize = 19 + 2 + 50;

/// Builds events of one dump, which has reached a place.
#[derive(Clone, Debug)]
pub(crate) struct DumpEvents {
    pub server_id: u32,
    /// True if the replica understands the heartbeat of MySQL 8.0.26 or newer.
    pub heartbeat_v2: bool,
    /// Checksum algorithm for events that are not in a file: what the replica asked for until a format description was
    /// sent, then that one's (Binlog_sender::init_checksum_alg).
    pub checksum: ChecksumAlgorithm,
    /// The current file, and the end of the last event sent or skipped.
    pub file: String,
    pub position: u64,
}

impl DumpEvents {
    /// Names the file and position of the next event.
    pub(crate) fn place(&mut self, file: &str, position: u64) -> Vec<u8> {
        file.clone_into(&mut self.file);
        self.position = position;
        self.artificial(event_type::ROTATE, FLAG_ARTIFICIAL, 0, |out| {
            out.extend_from_slice(&position.to_le_bytes());
            out.extend_from_slice(file.as_bytes());
        })
    }

    /// A format description as it is sent. Before a position inside the file it has no position, and does not announce
    /// a server start.
    pub(crate) fn format(event: &[u8], inside: bool, checksum: ChecksumAlgorithm) -> Vec<u8> {
        let mut event = event.to_vec();
        if let Some(flags) = event.get_mut(FLAGS_AT) {
            *flags &= !1;
        }
        if inside {
            if let Some(created) = event.get_mut(CREATED_AT..CREATED_AT + 4) {
                created.fill(0);
            }
            relocate(&mut event, 0, checksum);
        }
        event
    }

    /// A heartbeat at the current place.
    pub(crate) fn heartbeat(&self) -> Vec<u8> {
        let kind = if self.heartbeat_v2 { event_type::HEARTBEAT_V2 } else { event_type::HEARTBEAT };
        let (file, position) = (self.file.as_bytes(), self.position);
        self.artificial(kind, 0, position, |out| {
            if kind == event_type::HEARTBEAT {
                out.extend_from_slice(file);
                return;
            }
            // Fields as number, length and value: 1 is the file, 2 the position, 0 the end.
            out.push(1);
            put_lenenc(out, file.len() as u64);
            out.extend_from_slice(file);
            let mut value = Vec::new();
            put_lenenc(&mut value, position);
            out.push(2);
            put_lenenc(out, value.len() as u64);
            out.extend_from_slice(&value);
            out.push(0);
        })
    }

    /// Builds an event that is not in a file, with the given end position.
    fn artificial(&self, kind: u8, flags: u16, log_pos: u64, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut writer = BinlogWriter::new(self.server_id, self.checksum, 0);
        writer.event(kind, flags, body);
        let mut event = writer.take();
        relocate(&mut event, log_pos, self.checksum);
        event
    }
}
