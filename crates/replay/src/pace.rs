//! Decides when a transaction of a recorded log is passed on, and makes that moment its commit time.
//!
//! In: the first event of each transaction. Out: a wait, and the event with fresh commit times and a new checksum.
//! Never here: a wait inside a transaction, an event whose length changes (all positions in a file depend on it).

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use binlog::writer::BinlogWriter;
use binlog::{ChecksumAlgorithm, EventHeader, GtidEvent, event_type};

/// Transactions that are early by less than this are passed on without a wait.
const EARLY: Duration = Duration::from_micros(200);

/// Speed at which a log is fed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pace {
    /// As fast as possible.
    #[default]
    Unbound,
    /// This many times as fast as the source committed.
    Factor(f64),
    /// This many transactions a second, evenly spaced.
    Transactions(f64),
    /// This many bytes of log a second.
    Bytes(f64),
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Unbound => f.write_str("as fast as possible"),
            Pace::Factor(factor) => write!(f, "{factor} times the source's pace"),
            Pace::Transactions(per_second) => write!(f, "{per_second} transactions/s"),
            Pace::Bytes(per_second) => write!(f, "{per_second} bytes/s"),
        }
    }
}

/// First event of a transaction.
#[derive(Clone, Debug)]
pub struct Opening<'a> {
    header: EventHeader,
    /// Parsed form of the event.
    pub gtid: GtidEvent,
    bytes: &'a [u8],
    checksum: ChecksumAlgorithm,
}

/// True if the event opens a transaction.
#[must_use]
pub fn opens(event: &[u8]) -> bool {
    let code = event.get(4).copied().unwrap_or_default();
    matches!(code, event_type::GTID | event_type::ANONYMOUS_GTID | event_type::GTID_TAGGED)
}

impl<'a> Opening<'a> {
    /// Parses the event.
    ///
    /// # Errors
    /// The event does not have the format of its type.
    pub fn parse(bytes: &'a [u8], checksum: ChecksumAlgorithm) -> Result<Opening<'a>> {
        let header = EventHeader::parse(bytes)?;
        let gtid = GtidEvent::parse(header.event_type, binlog::event_body(bytes, checksum)?)?;
        Ok(Opening { header, gtid, bytes, checksum })
    }

    /// Returns the event with other commit times.
    fn at(mut self, now_us: u64) -> Result<Vec<u8>> {
        let gtid = &mut self.gtid;
        // Equal times are encoded as one, so times that differed must still differ.
        let apart = u64::from(gtid.original_commit_timestamp_us != gtid.immediate_commit_timestamp_us);
        gtid.immediate_commit_timestamp_us = now_us;
        gtid.original_commit_timestamp_us = now_us - apart;
        let start = u64::from(self.header.log_pos).saturating_sub(self.bytes.len() as u64);
        let mut writer = BinlogWriter::new(self.header.server_id, self.checksum, start);
        writer.set_timestamp(self.header.timestamp);
        writer.gtid(&self.gtid);
        let event = writer.take();
        if event.len() != self.bytes.len() {
            bail!(
                "the commit times of {} cannot be changed: the event had {} bytes and would have {}",
                self.gtid.gtid.as_ref().map_or("an anonymous transaction".into(), ToString::to_string),
                self.bytes.len(),
                event.len()
            );
        }
        Ok(event)
    }
}

/// Holds each transaction back until its time and gives it that commit time.
#[derive(Clone, Debug)]
pub struct Pacer {
    pace: Pace,
    /// When the first transaction was passed on, and its recorded commit time in µs.
    started: Option<(Instant, u64)>,
    transactions: u64,
    bytes: u64,
    /// Maximum delay of a transaction after its due time.
    late_max: Duration,
}

impl Pacer {
    /// Starts at the first transaction that is held.
    #[must_use]
    pub fn new(pace: Pace) -> Pacer {
        Pacer { pace, started: None, transactions: 0, bytes: 0, late_max: Duration::ZERO }
    }

    /// Counts bytes of log passed on, for [`Pace::Bytes`].
    pub fn count(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Maximum delay of a transaction after its due time. It is not part of the lag, because the commit time is the
    /// moment the transaction is passed on.
    #[must_use]
    pub fn late_max(&self) -> Duration {
        self.late_max
    }

    /// Waits for a transaction's due time and returns its first event with that moment as commit times. `waiting`
    /// sleeps for the given time or less, and is called until the time has come.
    ///
    /// # Errors
    /// Those of `waiting`; an event whose times cannot be changed in place.
    pub fn hold(&mut self, opening: Opening<'_>, waiting: &mut dyn FnMut(Duration) -> Result<()>) -> Result<Vec<u8>> {
        let recorded_us = opening.gtid.immediate_commit_timestamp_us;
        let (start, first_us) = *self.started.get_or_insert_with(|| (Instant::now(), recorded_us));
        let due = self.due(recorded_us.saturating_sub(first_us));
        self.transactions += 1;
        let elapsed = start.elapsed();
        self.late_max = self.late_max.max(elapsed.saturating_sub(due));
        if due > elapsed + EARLY {
            while let Some(wait) = due.checked_sub(start.elapsed()) {
                waiting(wait)?;
            }
        }
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        opening.at(now_us)
    }

    /// Due time of the next transaction, relative to the first; `recorded_us` is the recorded distance.
    fn due(&self, recorded_us: u64) -> Duration {
        let seconds = match self.pace {
            Pace::Unbound => 0.0,
            Pace::Factor(factor) => recorded_us as f64 / 1e6 / factor,
            Pace::Transactions(per_second) => self.transactions as f64 / per_second,
            Pace::Bytes(per_second) => self.bytes as f64 / per_second,
        };
        // A time beyond Duration's range never comes.
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Gtid, Tag, Uuid};

    fn event(tag: &str, original: u64) -> Vec<u8> {
        let gtid = Gtid { uuid: Uuid([7; 16]), tag: Tag::new(tag.as_bytes()).unwrap_or_default(), gno: 5 };
        let mut event = GtidEvent::new(Some(gtid), 3, 4);
        event.immediate_commit_timestamp_us = 1_763_000_000_000_001;
        event.original_commit_timestamp_us = original;
        event.transaction_length = Some(70_000);
        event.immediate_server_version = Some(90_704);
        let mut writer = BinlogWriter::new(9, ChecksumAlgorithm::Crc32, 1000);
        writer.set_timestamp(1_763_000_000);
        writer.gtid(&event);
        writer.take()
    }

    /// Forms that servers write: with a length and a version, with and without a tag, with one commit time and with
    /// two.
    #[test]
    fn a_new_time_leaves_length_and_all_else_as_they_were() {
        for tag in ["", "blue"] {
            for original in [1_763_000_000_000_000, 1_763_000_000_000_001] {
                let bytes = event(tag, original);
                let opening = Opening::parse(&bytes, ChecksumAlgorithm::Crc32).unwrap();
                let mut wanted = opening.gtid;
                let now_us = 1_800_000_000_000_000;
                wanted.original_commit_timestamp_us += now_us - wanted.immediate_commit_timestamp_us;
                wanted.immediate_commit_timestamp_us = now_us;
                let header = opening.header;
                let new = opening.at(now_us).unwrap();
                assert!(binlog::verify_checksum(&new));
                let read = Opening::parse(&new, ChecksumAlgorithm::Crc32).unwrap();
                assert_eq!((read.header.log_pos, read.header.server_id), (header.log_pos, header.server_id));
                assert_eq!(read.gtid, wanted);
            }
        }
    }

    #[test]
    fn each_pace_has_its_moments() {
        let mut pacer = Pacer::new(Pace::Unbound);
        pacer.transactions = 50;
        pacer.count(1_000_000);
        let mut due = |pace, recorded_us| {
            pacer.pace = pace;
            pacer.due(recorded_us)
        };
        assert_eq!(due(Pace::Unbound, 5_000_000), Duration::ZERO);
        assert_eq!(due(Pace::Factor(2.0), 5_000_000), Duration::from_millis(2500));
        assert_eq!(due(Pace::Transactions(100.0), 0), Duration::from_millis(500));
        assert_eq!(due(Pace::Bytes(4e6), 0), Duration::from_millis(250));
        assert_eq!(due(Pace::Transactions(1e-300), 0), Duration::MAX);
    }

    /// The requested waits end at the due time; a failing wait ends the hold.
    #[test]
    fn a_transaction_waits_for_its_moment() {
        let bytes = event("", 1_763_000_000_000_001);
        let opening = || Opening::parse(&bytes, ChecksumAlgorithm::Crc32).unwrap();
        let mut pacer = Pacer::new(Pace::Transactions(2.0));
        let mut asked = Vec::new();
        for _ in 0..2 {
            pacer
                .hold(opening(), &mut |wait| {
                    asked.push(wait);
                    std::thread::sleep(wait);
                    Ok(())
                })
                .unwrap();
        }
        assert!(!asked.is_empty() && asked.iter().all(|wait| *wait <= Duration::from_millis(500)), "{asked:?}");
        pacer.pace = Pace::Transactions(1e-3);
        assert!(pacer.hold(opening(), &mut |_| bail!("stopped")).is_err());
    }
}
