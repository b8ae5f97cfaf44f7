//! `lab restamp`: writes a recorded log again with logical clocks of another kind, so that a stock replica behind it
//! can be measured with either.
//!
//! In: log files from their first statement on. Out: a folder of log files, and an index. Never here: how a transaction
//! is stamped, and how its folder survives a crash (crate `stamp`).

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base::GtidSet;
use binlog::PreviousGtids;
use binlog::event_type;
use binlog::reader::{BinlogFile, MAGIC};
use catalog::Catalog;
use clap::{Args, ValueEnum};
use decode::trackers::{HISTORY_SIZE_MAX, TrackerKind};
use stamp::{FILE_BYTES_MAX, ServedFolder, StampCounts, StampOptions, Stamper};

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// `--dependency-tracking`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RestampTracking {
    /// Computed from the changed rows, and never more to wait for than the source's clock says
    Writeset,
    /// As writeset, but never before the session's previous transaction
    WritesetSession,
    /// The source's parents, carried over its rotations
    CommitOrder,
    /// The source's numbers, with its drains
    Source,
}

/// Options of `lab restamp`.
#[derive(Debug, Clone, Args)]
pub struct RestampArgs {
    /// Binlog files from their first statement on, or index files that list them, in order
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Folder for the files; binlog.index lists them. An interrupted stamping of the same logs goes on there
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// What a transaction must wait for
    #[arg(long, value_enum, value_name = "HOW", default_value = "writeset")]
    pub dependency_tracking: RestampTracking,
    /// Claims that a writeset tracker remembers
    #[arg(long, value_name = "N", default_value_t = HISTORY_SIZE_MAX,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=HISTORY_SIZE_MAX as u64))]
    pub history_size: usize,
    /// A file ends before a transaction that would make it longer than this many MiB
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub file_mib: u64,
}

/// Result of a stamping.
#[derive(Clone, Copy, Debug)]
pub struct RestampReport {
    /// What the stamper did.
    pub counts: StampCounts,
    /// Number of files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Time taken, reading and writing included.
    pub elapsed: Duration,
}

impl std::fmt::Display for RestampReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let StampCounts { transactions, kept, drains, distance } = self.counts;
        let (seconds, of) = (self.elapsed.as_secs_f64().max(1e-6), transactions.max(1) as f64);
        write!(
            f,
            "{transactions} transactions in {} files, {:.1} MB, {seconds:.2} s ({:.0} transactions/s); mean distance to the \
             parent (up to 64) {:.1}; {:.1} % keep the source's clock (tables of unknown definition), {drains} drain",
            self.files,
            self.bytes as f64 / 1e6,
            of / seconds,
            distance as f64 / of,
            kept as f64 * 100.0 / of,
        )
    }
}

/// Stamps the logs.
///
/// # Errors
/// A log cannot be read or stamped, or the folder cannot be written.
pub fn restamp(args: &RestampArgs) -> Result<RestampReport> {
    let started = Instant::now();
    let logs = replay::expand(&args.logs)?;
    let Some(first) = logs.first() else { bail!("no log") };
    let names: HashSet<_> = logs.iter().map(|log| log.file_name()).collect();
    if names.len() != logs.len() {
        bail!("two logs have the same name: a source's have not");
    }
    let (server_id, before) = head(first)?;
    let options = StampOptions {
        tracking: match args.dependency_tracking {
            RestampTracking::Writeset => TrackerKind::Writeset,
            RestampTracking::WritesetSession => TrackerKind::WritesetSession,
            RestampTracking::CommitOrder => TrackerKind::CommitOrder,
            RestampTracking::Source => TrackerKind::Source,
        },
        history_size: args.history_size,
        file_bytes: (args.file_mib << 20).min(FILE_BYTES_MAX),
        server_id,
    };
    let (mut folder, start) = ServedFolder::open(&args.out, &options)?;
    let mut stamper = match &start {
        Some(start) => Stamper::again(options, start),
        None => Stamper::new(options, 1, before, Catalog::new(0)),
    };
    let is_first = |log: &&PathBuf| start.as_ref().is_none_or(|start| name_of(log) == start.at.file);
    let Some(from) = logs.iter().position(|log| is_first(&log)) else {
        let begun = start.map(|start| start.at.file).unwrap_or_default();
        bail!("{} continues in {begun}, which is not one of these logs", args.out.display());
    };
    for (at, path) in logs.iter().enumerate().skip(from) {
        let offset = start.as_ref().filter(|_| at == from).map(|start| start.at.offset);
        stamp_file(&mut stamper, path, offset, &mut folder).with_context(|| format!("{}", path.display()))?;
    }
    folder.sync()?;
    let (files, bytes) = (folder.files(), folder.bytes());
    Ok(RestampReport { counts: stamper.counts(), files, bytes, elapsed: started.elapsed() })
}

fn name_of(path: &Path) -> Arc<str> {
    path.file_name().unwrap_or_default().to_string_lossy().into()
}

/// The server id of the first event, and the GTIDs of earlier files.
fn head(path: &Path) -> Result<(u32, GtidSet)> {
    let mut file = BinlogFile::open(path)?;
    let (mut server_id, mut before) = (0, GtidSet::new());
    while let Some(event) = file.next_event()? {
        match event.header.event_type {
            event_type::FORMAT_DESCRIPTION => server_id = event.header.server_id,
            event_type::PREVIOUS_GTIDS => before = PreviousGtids::parse(event.body()?)?.set,
            _ => break,
        }
    }
    Ok((server_id, before))
}

/// Stamps a file, from `offset` on after its format description, if one is given.
fn stamp_file(stamper: &mut Stamper, path: &Path, offset: Option<u64>, folder: &mut ServedFolder) -> Result<()> {
    let name = name_of(path);
    let mut put = |at: u64, bytes: Vec<u8>| -> Result<()> {
        // Kept as it is: a full disk has an exit code of its own.
        let mut failed = None;
        let stepped = stamper.step(&name, at, &Arc::new(bytes.into()), false, &mut |part| {
            folder.put(&part).map_err(|error| failed.insert(error).to_string())
        });
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(stepped?),
        }
    };
    // Its magic number and format description are checked here.
    let mut opened = BinlogFile::open(path)?;
    let mut at = MAGIC.len() as u64;
    if let Some(offset) = offset
        && let Some(format) = opened.next_event()?
    {
        // As if it came directly before.
        put(offset.saturating_sub(format.bytes.len() as u64), format.bytes.to_vec())?;
        at = offset;
    }
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(at))?;
    loop {
        let mut bytes = Vec::with_capacity(READ_BYTES);
        let len = Read::take(&file, READ_BYTES as u64).read_to_end(&mut bytes)? as u64;
        if len == 0 {
            break;
        }
        put(at, bytes)?;
        at += len;
    }
    Ok(stamper.end_of_file()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Uuid;
    use testkit::log::{Author, INT, insert, int};

    #[test]
    fn a_log_is_stamped_into_files_that_every_reader_takes() {
        let dir = tempfile::tempdir().unwrap();
        let mut author = Author::new(Uuid([3; 16]));
        author.sql("CREATE DATABASE d");
        author.table("t", &[INT; 2], "id INT PRIMARY KEY, v INT");
        for id in 0..20 {
            author.rows(&[insert("t", &[int(id), int(0)])]);
        }
        let log = dir.path().join("log.000001");
        std::fs::write(&log, author.end_file()).unwrap();
        let args = |out: &str| RestampArgs {
            logs: vec![log.clone()],
            out: dir.path().join(out),
            dependency_tracking: RestampTracking::Writeset,
            history_size: HISTORY_SIZE_MAX,
            file_mib: 1024,
        };
        let report = restamp(&args("a")).unwrap();
        assert_eq!((report.counts.transactions, report.files, report.counts.kept), (22, 1, 0));
        assert!(report.to_string().contains("22 transactions in 1 files"), "{report}");
        let served = std::fs::read(dir.path().join("a/binlog.000001")).unwrap();
        assert_eq!(served.len() as u64, report.bytes);
        assert_eq!(std::fs::read_to_string(dir.path().join("a/binlog.index")).unwrap(), "binlog.000001\n");
        // Stamped again, it stays as it is.
        let again = RestampArgs { logs: vec![dir.path().join("a/binlog.index")], ..args("b") };
        restamp(&again).unwrap();
        assert_eq!(std::fs::read(dir.path().join("b/binlog.000001")).unwrap(), served);
        // The last file is made again.
        assert_eq!(restamp(&args("a")).unwrap().counts, report.counts);
        assert_eq!(std::fs::read(dir.path().join("a/binlog.000001")).unwrap(), served);
        let other = RestampArgs { dependency_tracking: RestampTracking::CommitOrder, ..args("a") };
        let refused = restamp(&other).unwrap_err().to_string();
        assert!(refused.contains("other settings (tracking Writeset,"), "{refused}");
        std::fs::write(dir.path().join("b/notes"), "").unwrap();
        let refused = restamp(&args("b")).unwrap_err().to_string();
        assert!(refused.contains("holds notes, which is no part of a served log"), "{refused}");
    }
}
