//! The receiver's place in a replay from files: binlog files into the relay log, at full speed or at a given pace.
//!
//! In: files. Out: the relay log's appends. Never here: replay.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base::{LogPosition, ThreadAffinity};
use binlog::reader::BinlogFile;
use crossbeam_channel::{Receiver, Sender, bounded};
use relay_log::{Intake, RelayWriter};

use crate::pace::{Opening, Pace, Pacer, opens};

/// The thread `receive`.
pub struct Feeder {
    jobs: Sender<Job>,
    /// None once it has told why it failed.
    thread: Option<std::thread::JoinHandle<anyhow::Result<()>>>,
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
    /// Starts the thread, on the CPUs that `affinity` gives it.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub fn start(writer: RelayWriter, affinity: &ThreadAffinity) -> anyhow::Result<Feeder> {
        let (jobs, work) = bounded::<Job>(1);
        let thread = affinity.spawn("receive", move || receive(writer, &work)).context("cannot start a thread")?;
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
        let late_us_max = pacer.map_or(0, |pacer| pacer.late_max().as_micros() as u64);
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
        match &mut pacer {
            Some(pacer) if opens(event.bytes) => {
                let opening = Opening::parse(event.bytes, checksum).with_context(at)?;
                let mut waiting = |wait| {
                    // As a source does that has nothing more to send.
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

/// Transactions in binlog files.
///
/// # Errors
/// When one cannot be read.
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
