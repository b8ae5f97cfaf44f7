//! The events we write ourselves: first and last events of a file, and the repeated first two events of the source.
//!
//! Flags and positions follow MySQL's binlog.cc (`open_binlog`, `new_file_impl`). Our own events carry the relay log
//! flag and their own position. The source's FORMAT_DESCRIPTION, repeated after one of our rotations, is artificial: it
//! has no position and no `created` time, so it announces the format only.

use std::borrow::Cow;

use base::{GtidSet, LogPosition};
use binlog::writer::{BinlogWriter, relocate};
use binlog::{ChecksumAlgorithm, EventHeader, FormatDescription, Rotate, event_body, event_type, flags};

use crate::{MAGIC, RelayError};

/// Server version in our own FORMAT_DESCRIPTION: one whose layout the binlog crate writes.
const OUR_VERSION: &str = "8.4.0-slipstream";

/// Offsets in an event: flags of the header, `created` of a FORMAT_DESCRIPTION (binlog_event.h).
const FLAGS: std::ops::Range<usize> = 17..19;
const CREATED: std::ops::Range<usize> = 71..75;

/// The first two events that the source sent.
#[derive(Clone, Debug)]
pub(crate) struct SourceHeaders {
    server_id: u32,
    log_pos: u64,
    flags: u16,
    format_description: Vec<u8>,
    /// Checksum algorithm of the FORMAT_DESCRIPTION itself, whatever the events after it carry.
    own_checksum: ChecksumAlgorithm,
    pub checksum: ChecksumAlgorithm,
    pub position: LogPosition,
}

impl SourceHeaders {
    /// Parses the two events as received. The ROTATE may carry a checksum or not, whatever the FORMAT_DESCRIPTION says:
    /// the source sends it before it announces the algorithm.
    pub(crate) fn parse(rotate: &[u8], fde: &[u8]) -> Result<SourceHeaders, RelayError> {
        let damaged = |e: binlog::BinlogError| RelayError::Boundary(e.into());
        let format = FormatDescription::parse(fde).map_err(damaged)?;
        let header = EventHeader::parse(rotate).map_err(damaged)?;
        if header.event_type != event_type::ROTATE {
            return Err(RelayError::Misuse("the first event of a source's file is not its ROTATE"));
        }
        let checksum = if binlog::verify_checksum(rotate) { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::None };
        let parsed = event_body(rotate, checksum).and_then(Rotate::parse).map_err(damaged)?;
        let position =
            LogPosition { file: String::from_utf8_lossy(parsed.file).as_ref().into(), offset: parsed.position };
        let fde_header = EventHeader::parse(fde).map_err(damaged)?;
        Ok(SourceHeaders {
            server_id: fde_header.server_id,
            log_pos: u64::from(fde_header.log_pos),
            flags: fde_header.flags,
            format_description: fde.to_vec(),
            own_checksum: if format.carries_own_checksum() {
                ChecksumAlgorithm::Crc32
            } else {
                ChecksumAlgorithm::None
            },
            checksum: format.checksum,
            position,
        })
    }

    /// The two events for one of our files; `repeated_at` is the source's current position if they are repeated.
    pub(crate) fn events(&self, repeated_at: Option<&LogPosition>) -> Vec<u8> {
        let position = repeated_at.unwrap_or(&self.position);
        let mut bytes = rotate(BinlogWriter::new(self.server_id, self.checksum, 0), flags::ARTIFICIAL, position);
        relocate(&mut bytes, 0, self.checksum);
        let mut fde = self.format_description.clone();
        let mut flag_bits = self.flags & !flags::BINLOG_IN_USE;
        let mut log_pos = self.log_pos;
        if repeated_at.is_some() {
            flag_bits |= flags::ARTIFICIAL;
            log_pos = 0;
            overwrite(&mut fde, CREATED, &[0; 4]);
        }
        overwrite(&mut fde, FLAGS, &flag_bits.to_le_bytes());
        relocate(&mut fde, log_pos, self.own_checksum);
        bytes.extend(fde);
        bytes
    }
}

/// The source's FORMAT_DESCRIPTION event with a checksum that matches its bytes. A source whose log has no checksums
/// clears `created` when it sends the event to a replica that already has transactions, and leaves the event's own
/// checksum unchanged (`Binlog_sender::send_format_description_event`, rpl_binlog_sender.cc; seen on 9.7). Only events
/// of such a source are mended; its ROTATE has no checksum.
pub(crate) fn mended<'e>(rotate: &[u8], fde: &'e [u8]) -> Cow<'e, [u8]> {
    let algorithm = fde.len().checked_sub(5).and_then(|at| fde.get(at));
    let cleared = fde.get(CREATED) == Some(&[0; 4][..]) && algorithm == Some(&0);
    if !cleared || binlog::verify_checksum(rotate) || binlog::verify_checksum(fde) {
        return Cow::Borrowed(fde);
    }
    let log_pos = EventHeader::parse(fde).map_or(0, |header| u64::from(header.log_pos));
    let mut mended = fde.to_vec();
    relocate(&mut mended, log_pos, ChecksumAlgorithm::Crc32);
    Cow::Owned(mended)
}

fn overwrite(event: &mut [u8], range: std::ops::Range<usize>, bytes: &[u8]) {
    if let Some(place) = event.get_mut(range) {
        place.copy_from_slice(bytes);
    }
}

/// Magic, our FORMAT_DESCRIPTION, our PREVIOUS_GTIDS.
pub(crate) fn own_head(server_id: u32, checksum: ChecksumAlgorithm, retrieved: &GtidSet) -> Vec<u8> {
    let mut writer = BinlogWriter::new(server_id, checksum, MAGIC.len() as u64);
    writer.format_description(&FormatDescription::new(OUR_VERSION, checksum), flags::RELAY_LOG);
    let set = retrieved.encode();
    writer.event(event_type::PREVIOUS_GTIDS, flags::RELAY_LOG | flags::IGNORABLE, |out| out.extend(set));
    let mut head = MAGIC.to_vec();
    head.extend(writer.take());
    head
}

/// The ROTATE event that closes one of our files.
pub(crate) fn closing_rotate(server_id: u32, offset: u64, next: &str, checksum: ChecksumAlgorithm) -> Vec<u8> {
    let next = LogPosition { file: next.into(), offset: MAGIC.len() as u64 };
    rotate(BinlogWriter::new(server_id, checksum, offset), flags::RELAY_LOG, &next)
}

fn rotate(mut writer: BinlogWriter, event_flags: u16, to: &LogPosition) -> Vec<u8> {
    writer.event(event_type::ROTATE, event_flags, |out| {
        out.extend(to.offset.to_le_bytes());
        out.extend(to.file.as_bytes());
    });
    writer.take()
}
