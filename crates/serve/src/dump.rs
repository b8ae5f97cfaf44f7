//! Dump: sends the files' events as a source does, each transaction at its time.
//!
//! Mirrors MySQL's Binlog_sender (sql/rpl_binlog_sender.cc). An artificial Rotate event names each file. The format
//! description is sent without the flag that marks a file in use. Transactions that the replica already has are
//! skipped, and a heartbeat reports the skip when a transaction follows that the replica lacks. At the end of the log,
//! heartbeats show that the source is alive.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::GtidSet;
use binlog::reader::BinlogFile;
use binlog::{ChecksumAlgorithm, GtidEvent, Rotate, event_type};
use wire::command::{DUMP_HEARTBEAT_V2, DUMP_NON_BLOCK};
use wire::server::{ServerOk, put_rows_end};

use crate::events::DumpEvents;
use crate::files::{LogFile, LogFiles, RecordedLog, opens};
use crate::session::Session;
use crate::{Hold, Part, Result, ServeError};

/// Bytes collected for one write.
pub(crate) const WRITE_BYTES: usize = 256 << 10;
/// Longest sleep between two checks of `stop` and of the heartbeat's time.
const LOOK: Duration = Duration::from_millis(20);

/// Start of a dump.
#[derive(Clone, Debug)]
pub enum Start {
    /// At the first transaction outside the set.
    After(GtidSet),
    /// At an event of a file.
    Place {
        /// Name of the file; an empty one means the first file.
        file: String,
        /// Offset of the event, in bytes.
        position: u32,
    },
}

/// How much of a part was sent, and how fast.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    started: Instant,
    pub transactions: u64,
    pub bytes: u64,
}

impl Sent {
    fn new() -> Sent {
        Sent { started: Instant::now(), transactions: 0, bytes: 0 }
    }
}

/// A dump in progress.
pub(crate) struct Dump<'s, 'a> {
    pub session: &'s mut Session<'a>,
    replica: u32,
    pub non_block: bool,
    heartbeat_period: Duration,
    pub at: DumpEvents,
    last_write: Instant,
    pub sent: Sent,
}

impl<'s, 'a> Dump<'s, 'a> {
    /// A dump that begins; the `Err` is the reason of a refusal.
    pub(crate) fn new(session: &'s mut Session<'a>, flags: u16, replica: u32) -> Result<Dump<'s, 'a>, String> {
        let text = |name: &str| session.variables.get(name).cloned().flatten();
        let period = text("source_heartbeat_period").or_else(|| text("master_heartbeat_period"));
        let heartbeat_period = period.as_deref().map_or(Ok(Duration::ZERO), period_of)?;
        let checksum = text("source_binlog_checksum").or_else(|| text("master_binlog_checksum"));
        let knows_checksums = checksum.is_some_and(|checksum| !checksum.eq_ignore_ascii_case("NONE"));
        let (server_id, checksum) = session.shared.log.dump_facts();
        Ok(Dump {
            replica,
            non_block: flags & DUMP_NON_BLOCK != 0,
            heartbeat_period,
            at: DumpEvents {
                server_id,
                heartbeat_v2: flags & DUMP_HEARTBEAT_V2 != 0,
                checksum: if knows_checksums { checksum } else { ChecksumAlgorithm::None },
                file: String::new(),
                position: 0,
            },
            last_write: Instant::now(),
            sent: Sent::new(),
            session,
        })
    }

    /// Sends the log from `start` and continues until the replica disconnects. The inner `Err` is the reason of a
    /// refusal.
    pub(crate) fn run(self, start: &Start) -> Result<Result<(), String>> {
        match self.session.shared.log {
            LogFiles::Recorded(log) => self.replay(log, start),
            LogFiles::RelayLog(relay) => self.follow(relay, start),
        }
    }

    /// Sends recorded files, each transaction at its time.
    fn replay(mut self, log: &RecordedLog, start: &Start) -> Result<Result<(), String>> {
        let (first, position, executed) = match start {
            Start::After(executed) => match log.first_file(executed) {
                Some(first) => (first, 4, Some(executed)),
                None => {
                    return Ok(Err(format!(
                        "Cannot replicate because the source purged required binary logs: the log served begins after {}",
                        log.purged
                    )));
                }
            },
            Start::Place { file, position } => {
                let found = log.files.iter().position(|known| file.is_empty() || known.name == *file);
                let Some(first) = found else {
                    return Ok(Err("Could not find first log file name in binary log index file".into()));
                };
                (first, u64::from(*position).max(4), None)
            }
        };
        let hold = self.session.shared.options.hold;
        let mut holds = hold.map(|hold| hold(Part::Load));
        let mut in_load = true;
        for (number, file) in log.files.iter().enumerate().skip(first) {
            if in_load && !file.load {
                self.tell("load")?;
                (in_load, holds) = (false, hold.map(|hold| hold(Part::Log)));
            }
            let next = log.files.get(number + 1).map(|next| next.name.as_str());
            let from = if number == first { position } else { 4 };
            self.send_file(file, from, next, executed, &mut holds)?;
        }
        self.tell("log")?;
        self.end()?;
        Ok(Ok(()))
    }

    /// Sends one file from offset `from`. `next` is the name of the file that follows in this dump, `executed` the
    /// replica's GTID set.
    fn send_file(
        &mut self,
        file: &LogFile,
        from: u64,
        next: Option<&str>,
        executed: Option<&GtidSet>,
        holds: &mut Option<Hold>,
    ) -> Result<()> {
        self.send_place(file.name.as_bytes(), from);
        let mut reader = BinlogFile::open(&file.path)?.without_verification();
        // A dump from inside the file needs the file's format description first.
        if from > 4 {
            if let Some(format) = reader.next_event()? {
                self.send(&DumpEvents::format(format.bytes, true, format.checksum));
                self.at.checksum = format.checksum;
            }
            reader.seek(from)?;
        }
        let (mut left_out, mut behind_left_out) = (false, false);
        while let Some(event) = reader.next_event()? {
            let end = event.end_offset();
            let opens = opens(event.header.event_type);
            if opens {
                let gtid = GtidEvent::parse(event.header.event_type, event.body()?)?.gtid;
                let has = |executed: &GtidSet| gtid.is_some_and(|gtid| executed.contains(&gtid));
                left_out = executed.is_some_and(has);
            }
            let ends_file = matches!(event.header.event_type, event_type::ROTATE | event_type::STOP);
            // The event that ends the file is sent even after a skipped transaction.
            if left_out && !ends_file {
                (self.at.position, behind_left_out) = (end, true);
                continue;
            }
            if std::mem::take(&mut behind_left_out) {
                self.heartbeat();
            }
            self.sent.bytes += event.bytes.len() as u64;
            match (opens, &mut *holds) {
                (true, Some(hold)) => {
                    let sent_bytes = self.sent.bytes;
                    let restamped = hold(event.bytes, event.checksum, sent_bytes, &mut |wait| self.idle(wait))?;
                    self.send(&restamped);
                }
                (true, None) => self.send(event.bytes),
                _ if event.header.event_type == event_type::FORMAT_DESCRIPTION => {
                    self.send(&DumpEvents::format(event.bytes, false, event.checksum));
                    self.at.checksum = event.checksum;
                }
                // If the given files continue differently from the recorded ones, the dump's own Rotate event says how.
                _ if event.header.event_type == event_type::ROTATE
                    && next.map(str::as_bytes) != Some(Rotate::parse(event.body()?)?.file) => {}
                _ => self.send(event.bytes),
            }
            self.sent.transactions += u64::from(opens);
            self.at.position = end;
            if self.unsent() >= WRITE_BYTES {
                self.flush()?;
            }
        }
        if behind_left_out {
            self.heartbeat();
        }
        Ok(())
    }

    /// Sends the file name and position of the next event.
    pub(crate) fn send_place(&mut self, file: &[u8], position: u64) {
        let rotate = self.at.place(&String::from_utf8_lossy(file), position);
        self.send(&rotate);
    }

    pub(crate) fn heartbeat(&mut self) {
        let event = self.at.heartbeat();
        self.send(&event);
    }

    pub(crate) fn send(&mut self, event: &[u8]) {
        self.session.wire.send(|out| {
            out.push(0);
            out.extend_from_slice(event);
        });
    }

    /// Number of bytes collected.
    pub(crate) fn unsent(&self) -> usize {
        self.session.wire.output().len()
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.unsent() > 0 {
            self.session.flush()?;
            self.last_write = Instant::now();
        }
        Ok(())
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.session.shared.stop.load(Ordering::Relaxed)
    }

    /// Waits up to `wait`, because there is nothing to send.
    fn idle(&mut self, wait: Duration) -> Result<()> {
        self.flush()?;
        if self.is_stopped() {
            return Err(ServeError::Stopped);
        }
        std::thread::sleep(wait.min(LOOK));
        self.heartbeat_if_due()
    }

    pub(crate) fn heartbeat_if_due(&mut self) -> Result<()> {
        if !self.heartbeat_period.is_zero() && self.last_write.elapsed() >= self.heartbeat_period {
            self.heartbeat();
            self.flush()?;
        }
        Ok(())
    }

    /// At the end of the log: ends the dump too, or sends heartbeats until the replica disconnects.
    fn end(&mut self) -> Result<()> {
        if self.non_block {
            return self.send_end();
        }
        while !self.is_stopped() && !self.session.is_gone() {
            self.heartbeat_if_due()?;
        }
        Ok(())
    }

    /// Sends the packet that ends the dump.
    pub(crate) fn send_end(&mut self) -> Result<()> {
        let capabilities = self.session.capabilities;
        self.session.wire.send(|out| put_rows_end(out, &ServerOk::default(), capabilities));
        self.flush()
    }

    /// Reports how fast a part was sent, up to the moment when its last byte was passed to the operating system.
    fn tell(&mut self, what: &str) -> Result<()> {
        self.flush()?;
        let part = std::mem::replace(&mut self.sent, Sent::new());
        if part.bytes > 0 {
            let seconds = part.started.elapsed().as_secs_f64().max(1e-9);
            (self.session.shared.told)(&format!(
                "connection {}, server id {}: sent the {what}: {} transactions, {:.1} MB in {seconds:.3} s: {:.1} MB/s, {:.0} \
                 transactions/s",
                self.session.number,
                self.replica,
                part.transactions,
                part.bytes as f64 / 1e6,
                part.bytes as f64 / 1e6 / seconds,
                part.transactions as f64 / seconds
            ));
        }
        Ok(())
    }
}

/// A heartbeat period, which replicas give in nanoseconds. Taken for zero, it would be no heartbeats, and a replica
/// that waits for them would lose its connection again and again.
fn period_of(text: &str) -> Result<Duration, String> {
    let whole = text.parse().ok().map(Duration::from_nanos);
    let other = || Duration::try_from_secs_f64(text.parse::<f64>().ok()? / 1e9).ok();
    whole.or_else(other).ok_or_else(|| format!("the heartbeat period {text:?} is not a number of nanoseconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_a_number_or_refused() {
        for (text, ns) in [("0", 0), ("30000001024", 30_000_001_024), ("1e9", 1_000_000_000), ("1.5e9", 1_500_000_000)]
        {
            assert_eq!(period_of(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for text in ["", "x", "-1", "nan", "inf", "30s"] {
            assert!(period_of(text).unwrap_err().contains(&format!("{text:?}")), "{text}");
        }
    }
}
