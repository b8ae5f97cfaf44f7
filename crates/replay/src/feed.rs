//! Stands in for the receiver in a replay from files: feeds binlog files to the relay log, at full speed or at a pace.
//!
//! In: files. Out: the relay log's appends. Never here: replay.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base::{LogPosition, ThreadAffinity};
use binlog::reader::BinlogFile;
use crossbeam_channel::{Receiver, Sender, bounded};
use relay_log::{Intake, RelayWriter};

use crate::pace::{Opening, Pace, Pacer, opens};

/// Handle of the thread `receive`.
pub struct Feeder {
    jobs: Sender<Job>,
    /// None once its failure has been reported.
    thread: Option<std::thread::JoinHandle<anyhow::Result<()>>>,
}

struct Job {
    files: Vec<PathBuf>,
    pace: Option<Pace>,
    done: Sender<Fed>,
}

/// Totals of everything fed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fed {
    pub transactions: u64,
    /// Bytes of log.
    pub bytes: u64,
    /// For the last paced job, the maximum delay of a transaction after its due time, µs. The commit time is the moment
    /// of feeding, so this is not part of the lag.
    pub late_us_max: u64,
}

impl Feeder {
    /// Starts the thread on the CPUs that `affinity` assigns to it.
    ///
    /// # Errors
    /// No more threads can be started.
    pub fn start(writer: RelayWriter, affinity: &ThreadAffinity) -> anyhow::Result<Feeder> {
        let (jobs, work) = bounded::<Job>(1);
        let thread = affinity.spawn("receive", move || receive(writer, &work)).context("cannot start a thread")?;
        Ok(Feeder { jobs, thread: Some(thread) })
    }

    /// Feeds files and returns once everything is in the relay log (synced or not). With a pace, each transaction's
    /// commit time is the moment it is fed; None: as fast as possible.
    ///
    /// # Errors
    /// A file cannot be read or the relay log cannot be written; the feeder is then unusable.
    pub fn feed(&mut self, files: &[PathBuf], pace: Option<Pace>) -> anyhow::Result<Fed> {
        let (done, fed) = bounded(1);
        let sent = self.jobs.send(Job { files: files.to_vec(), pace, done });
        match sent.ok().and_then(|()| fed.recv().ok()) {
            Some(fed) => Ok(fed),
            None => Err(self.ended().err().unwrap_or_else(|| anyhow::anyhow!("the receiver has ended"))),
        }
    }

    /// Error that ended the thread.
    fn ended(&mut self) -> anyhow::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().map_err(|_| anyhow::anyhow!("the receiver failed"))?
    }

    /// Closes the relay log, so that replay ends after everything fed.
    ///
    /// # Errors
    /// The thread's failure.
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
        // The waiting side is gone only if the whole replay failed.
        let late_us_max = pacer.map_or(0, |pacer| pacer.late_max().as_micros() as u64);
        let _ = job.done.send(Fed { transactions, bytes, late_us_max });
    }
    intake.finish()?.close()?;
    Ok(())
}

/// Feeds one binlog file to the relay log.
///
/// # Errors
/// The file is damaged or the relay log cannot be written.
pub fn feed(intake: &mut Intake, path: &Path, mut pacer: Option<&mut Pacer>) -> anyhow::Result<()> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    // The intake verifies checksums; once is enough.
    let mut file = BinlogFile::open(path)?.without_verification();
    intake.begin_file(&name);
    let checksum = file.format().checksum;
    while let Some(event) = file.next_event()? {
        let at = || format!("{name} at offset {}", event.offset);
        match &mut pacer {
            Some(pacer) if opens(event.bytes) => {
                let opening = Opening::parse(event.bytes, checksum).with_context(at)?;
                let mut waiting = |wait| {
                    // As a source does when it has nothing more to send.
                    intake.flush()?;
                    std::thread::sleep(wait);
                    Ok(())
                };
                let restamped = pacer.hold(opening, &mut waiting).with_context(at)?;
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

/// Counts the transactions in binlog files.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn count_transactions(files: &[PathBuf]) -> anyhow::Result<u64> {
    let mut count = 0;
    for path in files {
        let mut file = BinlogFile::open(path)?.without_verification();
        while let Some(event) = file.next_event()? {
            count += u64::from(opens(event.bytes));
        }
    }
    Ok(count)
}
