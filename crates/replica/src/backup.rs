//! A backup of the data folder, of a running replica or a stopped one.
//!
//! In: the folder, and a writer that may stall. Out: an archive (docs/formats.md), of which `restore` makes a folder
//! that goes on from there. Never here: a wait of replay for the backup; our server_uuid, lock, socket, keys of
//! TLS, scratch files or half copies in the archive.
//!
//! The relay log is held first. Then the newest version of the tree is linked, so that merges may remove its files, and
//! copied. The log is copied last, from that version's cut to the last whole transaction that is synced by then.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use base::{GtidSet, LogPosition};
use observe::fail_point::{self, Phase};
use observe::{BackupProgress, bytes_text, now_us, utc_text};
use relay_log::{LogHold, RelayFiles, RelayPosition, completed_copy};
use serde::{Deserialize, Serialize};
use store::{ChosenStep, Disk, DiskOptions, TreeCopy};
use xxhash_rust::xxh3::Xxh3Default;

use crate::archive::{ArchiveWriter, Output};
use crate::exit::{Exit, FREE_SPACE, Failure};
use crate::failure::{relay_failure, store_failure};
use crate::folder::{FORMAT_FILE, Folder, read_small};
use crate::initial_copy;
use crate::lock::OpeningLock;
use crate::log::{self, Code};
use crate::replica::Replica;

/// First member of the archive.
pub(crate) const BEGIN: &str = "backup-begin.json";
/// Last member but the checksums.
pub(crate) const END: &str = "backup-end.json";
/// Version of the archive's format.
pub(crate) const ARCHIVE_FORMAT: u32 = 1;
/// Small files of the folder that say what its rows are, and what must be known of the source.
pub(crate) const FACTS: [&str; 4] = ["filters", "filter-orders", "source-facts", "source-last"];
/// The list of transactions to skip; read last, because replay may have skipped some of what the log's copy holds.
pub(crate) const SKIPPED: &str = "skipped";
/// Who may log in; in the archive if asked for.
pub(crate) const ACCOUNTS: &str = "accounts";
/// Folder of the links of running backups, in the data folder.
const LINKS: &str = "backing-up";
/// How long a backup waits for a new file of the relay log and a cut in it. It does well without, with more of the log.
const CUT_WITHIN: Duration = Duration::from_secs(2);
/// A relay log of so many bytes is copied as it is.
const SHORT_LOG: u64 = 16 << 20;
/// How long the sync before the log's end is read may take.
const SYNC_WITHIN: Duration = Duration::from_secs(60);
/// How long a fail point waits for cuts.
const FORCED_WITHIN: Duration = Duration::from_secs(60);

/// What a backup contains beside rows and log, and when it is given up.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// Whether it contains who may log in.
    pub accounts: bool,
    /// Time without a byte taken after which it is given up.
    pub stalled_after: Duration,
}

/// First member of an archive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BackupBegin {
    /// Version of the format; read before anything else.
    pub slipstream_backup: u32,
    pub program: String,
    /// Whose folder it is.
    pub server_uuid: String,
    /// When it was begun.
    pub begun_at: String,
}

/// What an archive contains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupReport {
    /// GTIDs of the rows on disk.
    pub gtid_executed: String,
    /// GTIDs of rows and log together: those that a replica made of it has before it asks its source.
    pub gtid_retrieved: String,
    /// Number of rows on disk.
    pub rows: i64,
    /// Bytes of the store's files.
    pub store_bytes: u64,
    /// Bytes of the relay log.
    pub relay_log_bytes: u64,
    /// Whether it contains who may log in.
    pub accounts: bool,
    /// When the log's end was read.
    pub ends_at: String,
    /// Microseconds from the beginning to there.
    pub took_us: u64,
}

impl std::fmt::Display for BackupReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} rows, {} of rows on disk, {} of relay log, GTIDs {}",
            self.rows,
            bytes_text(self.store_bytes),
            bytes_text(self.relay_log_bytes),
            if self.gtid_retrieved.is_empty() { "(none)" } else { &self.gtid_retrieved }
        )
    }
}

/// How far a backup is.
struct Progress {
    began: Instant,
    begun_at: String,
    written: AtomicU64,
    /// Bytes of rows and log, as far as they are known; 0: not yet.
    total: AtomicU64,
}

/// The backups that are being made.
#[derive(Default)]
pub(crate) struct RunningBackups {
    running: Mutex<Vec<Weak<Progress>>>,
    /// When the last one was complete, µs since 1970; 0: there was none.
    last_us: AtomicU64,
}

impl RunningBackups {
    /// None that runs, after one that was complete then.
    pub(crate) fn after(last_us: Option<u64>) -> RunningBackups {
        RunningBackups { last_us: AtomicU64::new(last_us.unwrap_or(0)), ..RunningBackups::default() }
    }

    /// When the last one was complete, µs since 1970.
    pub(crate) fn last_us(&self) -> Option<u64> {
        Some(self.last_us.load(Ordering::Relaxed)).filter(|us| *us > 0)
    }

    fn begin(&self) -> Arc<Progress> {
        let progress = Arc::new(Progress {
            began: Instant::now(),
            begun_at: utc_text(now_us()),
            written: AtomicU64::new(0),
            total: AtomicU64::new(0),
        });
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|other| other.strong_count() > 0);
        running.push(Arc::downgrade(&progress));
        progress
    }

    /// How far each of them is.
    pub(crate) fn report(&self) -> Vec<BackupProgress> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let report = |progress: Arc<Progress>| BackupProgress {
            begun_at: progress.begun_at.clone(),
            elapsed_us: u64::try_from(progress.began.elapsed().as_micros()).unwrap_or(u64::MAX),
            written_bytes: progress.written.load(Ordering::Relaxed),
            total_bytes: Some(progress.total.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0),
        };
        running.iter().filter_map(Weak::upgrade).map(report).collect()
    }
}

/// Moments of a backup, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Held,
    Chosen(u8),
    Linked,
    TablesBegun,
    TablesDone,
    LogChosen,
    Ending,
}

/// What is copied, and what is asked and told meanwhile.
struct Parts<'a> {
    folder: &'a Folder,
    options: &'a BackupOptions,
    tree: &'a TreeCopy,
    hold: &'a LogHold,
    progress: &'a Progress,
    /// Makes the log durable, and says where its last whole transaction ends.
    end: &'a dyn Fn() -> Result<RelayPosition, Failure>,
    /// A file of rows is copied: true if its bytes are those that were written.
    copied: &'a dyn Fn(u64, &Path, bool) -> Result<(), Failure>,
    at: &'a dyn Fn(Moment),
}

impl Replica {
    /// Writes a backup of the folder while replay goes on.
    ///
    /// # Errors
    /// Why there is none: the reader stalled or is gone, the disk reserve is reached, a file is damaged, the replica
    /// stops.
    pub fn backup(&self, options: &BackupOptions, out: &mut dyn Write) -> Result<BackupReport, Failure> {
        base::priority::to_background();
        let progress = self.upkeep.backups.begin();
        let result = self.write_backup(options, out, &progress);
        let seconds = progress.began.elapsed().as_secs_f64();
        match &result {
            Ok(report) => {
                self.upkeep.backups.last_us.store(now_us(), Ordering::Relaxed);
                log::write(Code::BackupMade, "Backup", &format!("a backup was made in {seconds:.1} s: {report}"));
            }
            Err(failure) => {
                let why = if failure.text.is_empty() { "its reader is gone".to_owned() } else { failure.told() };
                log::write(
                    Code::BackupFailed,
                    "Backup",
                    &format!(
                        "a backup was abandoned after {seconds:.1} s: \
                                                {why}"
                    ),
                );
            }
        }
        result
    }

    fn write_backup(
        &self,
        options: &BackupOptions,
        out: &mut dyn Write,
        progress: &Progress,
    ) -> Result<BackupReport, Failure> {
        let Some(disk) = self.replay.pipeline.store.disk() else {
            return Err(Failure::error("this replica has no store on disk"));
        };
        let seen = Mutex::new(BTreeSet::new());
        let at = |moment: Moment| {
            if seen.lock().unwrap_or_else(PoisonError::into_inner).insert(moment) {
                fail_point::enter(Phase::Backup);
                self.force_cuts(disk);
            }
        };
        let mut hold = self.inbound.relay.hold();
        at(Moment::Held);
        self.may_back_up(&hold)?;
        self.shorten_log();
        let links = Links::make(self.folder())?;
        let chosen = |step: ChosenStep| at(Moment::Chosen(u8::from(step == ChosenStep::Linking)));
        let tree = disk.link_files(&links.0, &mut { chosen }).map_err(|error| link_failure(&error))?;
        hold.begin_at(&tree.executed.clone().unwrap_or_default(), position_of(&tree).as_ref())
            .map_err(relay_failure)?;
        at(Moment::Linked);
        let check = || self.may_back_up(&hold);
        let copied = |file: u64, link: &Path, whole: bool| {
            if whole {
                // A merge may have removed the file itself: its space is free from now on.
                let _ = fs::remove_file(link);
                return Ok(());
            }
            // Lists it, so that it is mended.
            let _ = disk.check_file(file, &mut |_| true);
            Err(damaged(file).with_hint("the replica copies the tables in it again; then make the backup"))
        };
        let parts = Parts {
            folder: self.folder(),
            options,
            tree: &tree,
            hold: &hold,
            progress,
            end: &|| self.end_of_log(),
            copied: &copied,
            at: &at,
        };
        progress.total.store(parts.tree_bytes() + self.inbound.relay.total_bytes(), Ordering::Relaxed);
        parts.write(Output { out, stalled_after: options.stalled_after, check: &check, written: &progress.written })
    }

    /// Whether a backup may go on: it takes space, and holds what could be purged.
    fn may_back_up(&self, hold: &LogHold) -> Result<(), Failure> {
        if self.is_stopping() {
            return Err(Failure::error("the replica stops"));
        }
        hold.check().map_err(relay_failure)?;
        let waits = self.inbound.link.lock().received.waits_for_space.is_some();
        match self.upkeep.space.look() {
            Some(space) if waits || space.free_bytes < space.reserve_bytes => {
                let text = format!(
                    "the disk has {} left, and --disk-reserve is {}: a backup would take what replay needs",
                    bytes_text(space.free_bytes),
                    bytes_text(space.reserve_bytes)
                );
                Err(Failure::new(Exit::Disk, text).with_hint(FREE_SPACE))
            }
            _ => Ok(()),
        }
    }

    /// Begins a new file of the relay log, and waits a moment for a cut in it: the copy has the log from that file on.
    fn shorten_log(&self) {
        if self.inbound.relay.total_bytes() < SHORT_LOG {
            return;
        }
        let begun = || self.inbound.relay.files().last().map(|file| file.0);
        let cuts = || self.replay.last_cut().cuts;
        let (old, mut before, until) = (begun(), cuts(), Instant::now() + CUT_WITHIN);
        self.inbound.relay.request_rotation();
        let mut rotated = false;
        while !self.is_stopping() && Instant::now() < until {
            if !rotated && begun() != old {
                (rotated, before) = (true, cuts());
            }
            // The first cut after that may have been on its way.
            if rotated && cuts() > before + 1 {
                return;
            }
            if rotated {
                self.replay.pipeline.ask_for_cut();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Makes everything received durable; the end of the last whole transaction.
    fn end_of_log(&self) -> Result<RelayPosition, Failure> {
        let sync = &self.inbound.relay_sync;
        let until = Instant::now() + SYNC_WITHIN;
        while Instant::now() < until {
            let written = sync.written();
            sync.request_sync();
            let synced = sync.wait_synced(written, Duration::from_secs(1)).map_err(relay_failure)?;
            let end = sync.synced_whole();
            // A file that was just begun has no events yet.
            if synced && (end.offset > 0 || written.file_number == 0) {
                return Ok(end);
            }
        }
        Err(Failure::new(Exit::Disk, format!("the relay log was not synced within {} s", SYNC_WITHIN.as_secs())))
    }

    /// For tests: waits for this many cuts and a merge, if the fail point asks for it.
    fn force_cuts(&self, disk: &Disk) {
        let asked = base::fail_points::value("backup_forces_cuts").and_then(|cuts| cuts.parse::<u64>().ok());
        let Some(more) = asked else { return };
        let cuts = || self.replay.last_cut().cuts;
        let (before, merges, until) = (cuts(), disk.stats().compactions, Instant::now() + FORCED_WITHIN);
        while cuts() < before + more || disk.stats().compactions == merges {
            assert!(Instant::now() < until, "backup_forces_cuts: no cuts and merges come");
            self.replay.pipeline.ask_for_cut();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Writes a backup of a stopped folder, which the caller has locked.
///
/// # Errors
/// The folder has no whole copy of its source, a file is damaged, or the reader is gone.
pub fn backup_stopped(folder: &Folder, options: &BackupOptions, out: &mut dyn Write) -> Result<BackupReport, Failure> {
    let progress = RunningBackups::default().begin();
    let at = |_| fail_point::enter(Phase::Backup);
    let opening = OpeningLock::take(&folder.store())?;
    let path = folder.store();
    let opened = path.is_dir().then(|| Disk::open_stopped(&path, DiskOptions { cache_bytes: 16 << 20 })).transpose();
    let (disk, recovered) = opened.map_err(|error| store_failure(&error))?.unzip();
    let tree = disk.as_ref().map(Disk::files_of_stopped).transpose().map_err(|error| store_failure(&error))?;
    drop((disk, opening));
    if recovered.flatten().is_none() && initial_copy::is_marked(folder) {
        let text =
            format!("the initial copy into {} has not ended: there is nothing to back up", folder.path().display());
        return Err(Failure::error(text));
    }
    let tree =
        tree.unwrap_or(TreeCopy { small: Vec::new(), tables: Vec::new(), executed: None, position: None, rows: 0 });
    let executed = tree.executed.clone().unwrap_or_default();
    let (files, _) = RelayFiles::open_read_only_for(folder.relay_log(), &executed, position_of(&tree).as_ref())
        .map_err(relay_failure)?;
    let (mut hold, end) = files.hold();
    hold.begin_at(&executed, position_of(&tree).as_ref()).map_err(relay_failure)?;
    let copied = |file: u64, _: &Path, whole: bool| {
        let hint = format!("slipstream check-store --data {}", folder.path().display());
        if whole { Ok(()) } else { Err(damaged(file).with_hint(hint)) }
    };
    let progress = &*progress;
    let (end, copied) = (&|| Ok(end), &copied);
    let parts = Parts { folder, options, tree: &tree, hold: &hold, progress, end, copied, at: &at };
    let written = &progress.written;
    parts.write(Output { out, stalled_after: options.stalled_after, check: &|| Ok(()), written })
}

impl Parts<'_> {
    fn write(&self, output: Output<'_>) -> Result<BackupReport, Failure> {
        let now = now_us();
        let mut archive = ArchiveWriter::new(output, now / 1_000_000);
        let begin = BackupBegin {
            slipstream_backup: ARCHIVE_FORMAT,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            server_uuid: self.folder.server_uuid().to_string(),
            begun_at: utc_text(now),
        };
        archive.add(BEGIN, &json(&begin)?)?;
        self.add_small(&mut archive, FORMAT_FILE)?;
        for name in FACTS {
            self.add_small(&mut archive, name)?;
        }
        self.add_tree(&mut archive)?;
        (self.at)(Moment::TablesDone);
        let end = (self.end)()?;
        let (ends_at, took) = (now_us(), self.progress.began.elapsed());
        let (retrieved, relay_log_bytes) = self.add_log(&mut archive, end)?;
        self.add_small(&mut archive, SKIPPED)?;
        if self.options.accounts {
            self.add_small(&mut archive, ACCOUNTS)?;
        }
        (self.at)(Moment::Ending);
        let report = BackupReport {
            gtid_executed: self.tree.executed.as_ref().map(ToString::to_string).unwrap_or_default(),
            gtid_retrieved: retrieved.to_string(),
            rows: self.tree.rows,
            store_bytes: self.tree_bytes(),
            relay_log_bytes,
            accounts: self.options.accounts,
            ends_at: utc_text(ends_at),
            took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        };
        archive.add(END, &json(&report)?)?;
        archive.finish()?;
        Ok(report)
    }

    /// Bytes of the rows' files.
    fn tree_bytes(&self) -> u64 {
        self.tree.tables.iter().map(|table| table.len).sum()
    }

    /// Adds a small file of the folder, if it is there.
    fn add_small(&self, archive: &mut ArchiveWriter<'_>, name: &str) -> Result<(), Failure> {
        match read_small(&self.folder.path().join(name))? {
            Some(text) => archive.add(name, text.as_bytes()),
            None => Ok(()),
        }
    }

    fn add_tree(&self, archive: &mut ArchiveWriter<'_>) -> Result<(), Failure> {
        for (name, content) in &self.tree.small {
            archive.add(&format!("store/{name}"), content)?;
        }
        for table in &self.tree.tables {
            (self.at)(Moment::TablesBegun);
            let mut hash = Xxh3Default::new();
            archive
                .add_file(&format!("store/{}", table.name), &table.path, table.len, &mut |bytes| hash.update(bytes))?;
            (self.copied)(table.file, &table.path, hash.digest128() == table.checksum)?;
        }
        Ok(())
    }

    /// Adds the relay log up to `end`; returns the GTIDs of everything retrieved up to there, and its bytes.
    fn add_log(&self, archive: &mut ArchiveWriter<'_>, end: RelayPosition) -> Result<(GtidSet, u64), Failure> {
        let parts = self.hold.parts(end).map_err(relay_failure)?;
        (self.at)(Moment::LogChosen);
        let log_bytes = parts.iter().map(|part| part.len).sum::<u64>();
        self.progress.total.store(self.tree_bytes() + log_bytes, Ordering::Relaxed);
        let mut retrieved = self.tree.executed.clone().unwrap_or_default();
        for part in &parts {
            retrieved.union_with(&self.hold.check_part(part).map_err(relay_failure)?);
            archive.add_file(&format!("relay-log/{}", part.name), &part.path, part.len, &mut |_| ())?;
            // What was purged meanwhile may have been read in part.
            self.hold.check().map_err(relay_failure)?;
        }
        for (name, content) in completed_copy(&parts) {
            archive.add(&format!("relay-log/{name}"), content.as_bytes())?;
        }
        Ok((retrieved, log_bytes))
    }
}

/// Links of one backup, removed when it ends.
struct Links(PathBuf);

impl Links {
    fn make(folder: &Folder) -> Result<Links, Failure> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}", MADE.fetch_add(1, Ordering::Relaxed));
        let path = folder.path().join(LINKS).join(name);
        let made = DirBuilder::new().recursive(true).mode(0o750).create(&path);
        made.map(|()| Links(path.clone())).map_err(|error| Failure::io(path.display(), &error))
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        // What stays is removed by the next start.
        let _ = fs::remove_dir_all(&self.0);
        if let Some(all) = self.0.parent() {
            // Not empty while another backup runs.
            let _ = fs::remove_dir(all);
        }
    }
}

/// Removes links that a killed process left; the next start tries again if that fails.
pub(crate) fn remove_links(folder: &Folder) {
    let _ = fs::remove_dir_all(folder.path().join(LINKS));
}

fn position_of(tree: &TreeCopy) -> Option<LogPosition> {
    let (file, offset) = tree.position.as_ref()?;
    Some(LogPosition { file: file.as_str().into(), offset: *offset })
}

fn link_failure(error: &store::StoreError) -> Failure {
    // Advice for a damaged store is not to start anew: the replica mends it by itself.
    Failure { hint: None, ..store_failure(error) }
}

fn damaged(file: u64) -> Failure {
    let text = format!("store/tables/{file} is damaged: its checksum does not match; no backup was made");
    Failure::new(Exit::Corrupt, text)
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| Failure::error(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}
