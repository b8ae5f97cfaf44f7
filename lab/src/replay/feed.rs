//! The receiver's place in a replay from files: binlog files into the relay log, at full speed or at a given pace.
//!
//! In: files. Out: the relay log's appends. Never here: replay.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use base::LogPosition;
use binlog::reader::BinlogFile;
use binlog::writer::BinlogWriter;
use binlog::{ChecksumAlgorithm, EventHeader, GtidEvent, event_type};
use crossbeam_channel::{Receiver, Sender, bounded};
use relay_log::{Intake, RelayWriter};

/// A paced feed that is this much too early waits; below it, it goes on.
const EARLY: Duration = Duration::from_micros(200);

/// The thread `receive`.
pub struct Feeder {
    jobs: Sender<Job>,
    /// None once it has told why it failed.
    thread: Option<std::thread::JoinHandle<anyhow::Result<()>>>,
}

/// How fast a log is fed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many times as fast as the source committed.
    Source(f64),
    /// So many transactions a second.
    Rate(f64),
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Source(factor) => write!(f, "{factor} times the source's pace"),
            Pace::Rate(per_second) => write!(f, "{per_second} transactions/s"),
        }
    }
}

struct Job {
    files: Vec<PathBuf>,
    pace: Option<Pace>,
    done: Sender<Fed>,
}

/// What was fed, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fed {
    /// Transactions.
    pub transactions: u64,
    /// Bytes of log.
    pub bytes: u64,
    /// Of the last job, when paced: the most that a transaction was fed behind its time, µs. Its commit time is the moment
    /// it is fed, so that this is no part of its lag.
    pub late_us_max: u64,
}

impl Feeder {
    /// Starts the thread.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub fn start(writer: RelayWriter) -> anyhow::Result<Feeder> {
        let (jobs, work) = bounded::<Job>(1);
        let thread = std::thread::Builder::new()
            .name("receive".into())
            .spawn(move || receive(writer, &work))
            .context("cannot start a thread")?;
        Ok(Feeder { jobs, thread: Some(thread) })
    }

    /// Feeds files and returns once all of it is in the relay log (synced or not). Paced, each transaction has the moment
    /// it is fed as its commit time; None: as fast as it goes.
    ///
    /// # Errors
    /// When a file cannot be read or the relay log not be written; the feeder is of no use then.
    pub fn feed(&mut self, files: &[PathBuf], pace: Option<Pace>) -> anyhow::Result<Fed> {
        let (done, fed) = bounded(1);
        let sent = self.jobs.send(Job { files: files.to_vec(), pace, done });
        match sent.ok().and_then(|()| fed.recv().ok()) {
            Some(fed) => Ok(fed),
            None => Err(self.ended().err().unwrap_or_else(|| anyhow::anyhow!("the receiver has ended"))),
        }
    }

    /// What the thread ended with.
    fn ended(&mut self) -> anyhow::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().map_err(|_| anyhow::anyhow!("the receiver failed"))?
    }

    /// Closes the relay log: replay ends behind what was fed.
    ///
    /// # Errors
    /// What made the thread fail.
    pub fn finish(mut self) -> anyhow::Result<()> {
        let (none, _) = bounded(1);
        drop(std::mem::replace(&mut self.jobs, none));
        self.ended()
    }
}

fn receive(writer: RelayWriter, work: &Receiver<Job>) -> anyhow::Result<()> {
    let mut intake = Intake::new(writer, LogPosition { file: std::sync::Arc::from(""), offset: 4 });
    for job in work {
        let mut pacer = job.pace.map(Pacer::new);
        for path in &job.files {
            feed(&mut intake, path, pacer.as_mut())?;
        }
        let (transactions, bytes) = intake.taken();
        // Nobody waits any more only when the whole replay failed.
        let late_us_max = pacer.map_or(0, |pacer| pacer.late_max.as_micros() as u64);
        let _ = job.done.send(Fed { transactions, bytes, late_us_max });
    }
    intake.finish()?.close()?;
    Ok(())
}

/// Reads one binlog file into the relay log.
///
/// # Errors
/// When the file is not a good binlog or the relay log cannot be written.
pub fn feed(intake: &mut Intake, path: &Path, mut pacer: Option<&mut Pacer>) -> anyhow::Result<()> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    // The intake verifies checksums; once is enough.
    let mut file = BinlogFile::open(path)?.without_verification();
    intake.begin_file(&name);
    let checksum = file.format().checksum;
    while let Some(event) = file.next_event()? {
        let at = || format!("{name} at offset {}", event.offset);
        let opens = is_gtid(event.bytes);
        match &mut pacer {
            Some(pacer) if opens => {
                let restamped = pacer.wait(intake, event.bytes, checksum).with_context(at)?;
                intake.event(&restamped).with_context(at)?;
            }
            _ => {
                intake.event(event.bytes).with_context(at)?;
            }
        }
    }
    if intake.in_transaction() {
        bail!("{name} ends inside a transaction");
    }
    intake.flush()?;
    Ok(())
}

/// Transactions in binlog files.
///
/// # Errors
/// When one cannot be read.
pub(crate) fn count_transactions(files: &[PathBuf]) -> anyhow::Result<u64> {
    let mut count = 0;
    for path in files {
        let mut file = BinlogFile::open(path)?.without_verification();
        while let Some(event) = file.next_event()? {
            count += u64::from(is_gtid(event.bytes));
        }
    }
    Ok(count)
}

fn is_gtid(event: &[u8]) -> bool {
    let code = event.get(4).copied().unwrap_or_default();
    matches!(code, event_type::GTID | event_type::ANONYMOUS_GTID | event_type::GTID_TAGGED)
}

/// Holds each transaction back until its time has come, and gives it that time.
pub struct Pacer {
    pace: Pace,
    /// When the first one was fed, and its recorded commit time in µs.
    started: Option<(Instant, u64)>,
    /// Transactions fed.
    fed: u64,
    /// The most that one was fed behind its time.
    late_max: Duration,
}

impl Pacer {
    /// Nothing is fed yet.
    #[must_use]
    pub fn new(pace: Pace) -> Pacer {
        Pacer { pace, started: None, fed: 0, late_max: Duration::ZERO }
    }

    /// Waits for the moment of a transaction and gives back its first event with that moment as its commit times.
    fn wait(&mut self, intake: &mut Intake, event: &[u8], checksum: ChecksumAlgorithm) -> anyhow::Result<Vec<u8>> {
        let header = EventHeader::parse(event)?;
        let body = binlog::event_body(event, checksum)?;
        let mut gtid = GtidEvent::parse(header.event_type, body)?;
        let recorded_us = gtid.immediate_commit_timestamp_us;
        let (start, first_us) = *self.started.get_or_insert_with(|| (Instant::now(), recorded_us));
        let due = Duration::from_secs_f64(match self.pace {
            Pace::Source(factor) => recorded_us.saturating_sub(first_us) as f64 / 1e6 / factor,
            Pace::Rate(per_second) => self.fed as f64 / per_second,
        });
        self.fed += 1;
        let elapsed = start.elapsed();
        self.late_max = self.late_max.max(elapsed.saturating_sub(due));
        if due > elapsed + EARLY {
            // As a source does that has nothing more to send.
            intake.flush()?;
            while let Some(wait) = due.checked_sub(start.elapsed()) {
                std::thread::sleep(wait);
            }
        }
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        // Two equal times are written as one: what differed must go on to differ.
        let apart = u64::from(gtid.original_commit_timestamp_us != recorded_us);
        gtid.immediate_commit_timestamp_us = now_us;
        gtid.original_commit_timestamp_us = now_us - apart;
        restamped(&header, &gtid, event.len(), checksum)
    }
}

/// The event with other commit times; its length must stay, for all positions in the file count on it.
fn restamped(
    header: &EventHeader,
    gtid: &GtidEvent,
    event_len: usize,
    checksum: ChecksumAlgorithm,
) -> anyhow::Result<Vec<u8>> {
    let start = u64::from(header.log_pos).saturating_sub(event_len as u64);
    let mut writer = BinlogWriter::new(header.server_id, checksum, start);
    writer.set_timestamp(header.timestamp);
    writer.gtid(gtid);
    let event = writer.take();
    if event.len() != event_len {
        bail!(
            "the commit times of {} cannot be changed: the event had {event_len} bytes and would have {}",
            gtid.gtid.as_ref().map_or("an anonymous transaction".into(), ToString::to_string),
            event.len()
        );
    }
    Ok(event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Gtid, Tag, Uuid};

    /// What servers write: with a length and a version, with and without a tag, with one commit time and with two.
    #[test]
    fn a_new_time_leaves_length_and_all_else_as_they_were() {
        for tag in ["", "blue"] {
            for original in [1_763_000_000_000_000, 1_763_000_000_000_001] {
                let gtid = Gtid { uuid: Uuid([7; 16]), tag: Tag::new(tag.as_bytes()).unwrap_or_default(), gno: 5 };
                let mut event = GtidEvent::new(Some(gtid), 3, 4);
                event.immediate_commit_timestamp_us = 1_763_000_000_000_001;
                event.original_commit_timestamp_us = original;
                event.transaction_length = Some(70_000);
                event.immediate_server_version = Some(90_704);
                let mut writer = BinlogWriter::new(9, ChecksumAlgorithm::Crc32, 1000);
                writer.set_timestamp(1_763_000_000);
                writer.gtid(&event);
                let bytes = writer.take();
                let header = EventHeader::parse(&bytes).unwrap();
                let body = binlog::event_body(&bytes, ChecksumAlgorithm::Crc32).unwrap();
                let mut changed = GtidEvent::parse(header.event_type, body).unwrap();
                changed.immediate_commit_timestamp_us = 1_800_000_000_000_000;
                changed.original_commit_timestamp_us += 1_800_000_000_000_000 - event.immediate_commit_timestamp_us;
                let new = restamped(&header, &changed, bytes.len(), ChecksumAlgorithm::Crc32).unwrap();
                assert!(binlog::verify_checksum(&new));
                let new_header = EventHeader::parse(&new).unwrap();
                assert_eq!((new_header.log_pos, new_header.server_id), (header.log_pos, header.server_id));
                let body = binlog::event_body(&new, ChecksumAlgorithm::Crc32).unwrap();
                assert_eq!(GtidEvent::parse(new_header.event_type, body).unwrap(), changed);
            }
        }
    }
}
