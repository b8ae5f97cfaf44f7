//! Power cuts at every step: unsynced bytes, lengths and names are lost completely or in part (invariants 12 and 13).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base::Random;
use binlog::ChecksumAlgorithm;
use relay_log::{
    AppendMeta, DiskOperation, DiskWatch, OnDamage, ReaderOptions, RelayError, RelayLog, RelayOptions, RelayPosition,
    RelayReader, RelayWriter, SyncPolicy,
};

use crate::common::*;

/// A sync that a planted fault skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skipped {
    Nothing,
    RelayFiles,
    Index,
    StateFile,
    Folder,
}

/// The durable part of a folder, tracked through the calls before each change. It sometimes lags the truth, as a disk
/// may (bytes written during a sync count as not synced).
#[derive(Debug, Default)]
struct Durable {
    names: BTreeMap<String, u64>,
    contents: BTreeMap<u64, Vec<u8>>,
    operations: u64,
}

impl Durable {
    fn note(&mut self, operation: DiskOperation, path: &Path, skipped: Skipped) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let left_out = match skipped {
            Skipped::Nothing => false,
            Skipped::RelayFiles => name.starts_with("relay-bin.0"),
            Skipped::Index => name.starts_with("relay-bin.index"),
            Skipped::StateFile => name.starts_with("relay-log.state"),
            Skipped::Folder => operation == DiskOperation::SyncFolder,
        };
        if left_out {
            return;
        }
        match operation {
            // A file that a purge deleted in the meantime is absent.
            DiskOperation::Sync => {
                if let (Ok(facts), Ok(bytes)) = (fs::metadata(path), fs::read(path)) {
                    self.contents.insert(facts.ino(), bytes);
                }
            }
            DiskOperation::SyncFolder => self.names = names(path),
            _ => {}
        }
    }

    /// The folder as the power cut leaves it. `luck` decides which unsynced parts survive: none for 0.
    fn image(&self, dir: &Path, luck: u64) -> tempfile::TempDir {
        let to = folder();
        let mut dice = Random::new(luck);
        let mut roll = move |bound: u64| dice.below(bound);
        let now = names(dir);
        let there = if luck > 0 && roll(2) == 0 { &now } else { &self.names };
        for (name, inode) in there {
            let synced = self.contents.get(inode).cloned().unwrap_or_default();
            let current =
                now.iter().find(|(_, other)| *other == inode).and_then(|(name, _)| fs::read(dir.join(name)).ok());
            let mut bytes = synced.clone();
            if luck > 0
                && let Some(current) = current
                && current.starts_with(&synced)
            {
                // Any length, with holes of zeros in the unsynced part.
                let more = roll((current.len() - synced.len()) as u64 + 1) as usize;
                bytes.extend(&current[synced.len()..synced.len() + more]);
                if more > 0 && roll(3) == 0 {
                    let from = synced.len() + roll(more as u64) as usize;
                    let to = (from + 1 + roll(200) as usize).min(bytes.len());
                    bytes[from..to].fill(0);
                }
            }
            fs::write(to.path().join(name), bytes).unwrap();
        }
        to
    }
}

fn names(dir: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata().unwrap().ino())).collect()
}

/// Promises made to the store and the source before the power cut.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Number of transactions acknowledged to the source.
    synced: u64,
    /// The store's last durable cut, and its position.
    cut: u64,
    at: RelayPosition,
}

struct Run {
    checksum: ChecksumAlgorithm,
    told: Told,
}

impl Run {
    fn connect(&self, options: RelayOptions) -> Result<(RelayWriter, Source), RelayError> {
        let (mut writer, _) = RelayLog::open(options)?;
        let mut source = Source::new(self.checksum);
        source.author.last = writer.retrieved().count();
        let (rotate, fde) = source.headers();
        writer.note_source_headers(&rotate, &fde)?;
        Ok((writer, source))
    }

    fn append(&mut self, writer: &mut RelayWriter, source: &mut Source) -> Result<RelayPosition, RelayError> {
        let data = source.transaction(300);
        let gtids = [gtid(source.author.last)];
        writer.append(data, AppendMeta { ends_transaction: true, gtids: &gtids, source_position: source.position() })
    }

    fn sync(&mut self, writer: &RelayWriter, source: &Source) -> Result<(), RelayError> {
        writer.sync().request_sync();
        assert!(writer.sync().wait_synced(writer.position(), LONG)?);
        self.told.synced = source.author.last;
        Ok(())
    }

    fn cut_and_purge(&mut self, writer: &RelayWriter) -> Result<(), RelayError> {
        (self.told.cut, self.told.at) = (self.told.synced, writer.position());
        let executed = gtids(self.told.cut);
        writer.shared().purge(&log_position(self.told.at), &executed, ZERO, std::time::SystemTime::now())?;
        Ok(())
    }

    /// Two lifetimes of a log: appends, rotations, aborted transactions, cuts, purges, a clean close, a truncation
    /// because of damage.
    fn live(&mut self, options: &RelayOptions) -> Result<(), RelayError> {
        let (mut writer, mut source) = self.connect(options.clone())?;
        for i in 0..9u64 {
            self.append(&mut writer, &mut source)?;
            if i % 4 == 1 {
                writer.append(vec![0; 40], part(&source))?;
                writer.abort_partial()?;
            }
            if i % 2 == 0 {
                self.sync(&writer, &source)?;
            }
            if i % 3 == 2 {
                self.sync(&writer, &source)?;
                self.cut_and_purge(&writer)?;
            }
        }
        writer.close()?;
        self.told.synced = source.author.last;
        let executed = if self.told.cut == 0 { base::GtidSet::new() } else { gtids(self.told.cut) };
        let (mut writer, mut source) = self.connect(RelayOptions { executed, ..options.clone() })?;
        for _ in 0..3 {
            self.append(&mut writer, &mut source)?;
        }
        self.sync(&writer, &source)?;
        self.cut_and_purge(&writer)?;
        self.append(&mut writer, &mut source)?;
        drop(writer); // like a kill
        if self.checksum == CRC { self.damaged_life(options) } else { Ok(()) }
    }

    /// A lifetime in which a transaction that the store lacks is damaged, truncated and fetched again.
    fn damaged_life(&mut self, options: &RelayOptions) -> Result<(), RelayError> {
        let held = gtids(self.told.cut);
        let opened = RelayOptions {
            executed: held.clone(),
            resume_at: Some(log_position(self.told.at)),
            on_damage: OnDamage::FetchAgain,
            ..options.clone()
        };
        let (mut writer, mut source) = self.connect(opened)?;
        let ends = [
            self.append(&mut writer, &mut source)?,
            self.append(&mut writer, &mut source)?,
            self.append(&mut writer, &mut source)?,
        ];
        self.sync(&writer, &source)?;
        let hurt = ends[1];
        let path = file_path(&options.dir, hurt.file_number);
        let mut bytes = fs::read(&path).unwrap();
        bytes[hurt.offset as usize - 60] ^= 1;
        fs::write(&path, bytes).unwrap();
        let damage = writer.shared().find_damage(self.told.at)?.unwrap();
        // From here on acknowledged bytes are damaged: the source is asked again.
        self.told.synced = damage.retrieved_before.count();
        writer.truncate_to(&damage, &held)?;
        let (rotate, fde) = source.headers();
        writer.note_source_headers(&rotate, &fde)?;
        source.author.last = writer.retrieved().count();
        for _ in 0..4 {
            self.append(&mut writer, &mut source)?;
        }
        self.sync(&writer, &source)?;
        self.cut_and_purge(&writer)?;
        writer.close()
    }
}

fn log_position(at: RelayPosition) -> base::LogPosition {
    named(at)
}

/// Cuts the power before operation `n`. Returns whether it was reached, and any error in the remaining folder.
fn power_cut(n: u64, checksum: ChecksumAlgorithm, skipped: Skipped) -> (bool, Result<(), String>) {
    let dir = folder();
    let durable = Arc::new(Mutex::new(Durable::default()));
    let noted = Arc::clone(&durable);
    let root: PathBuf = dir.path().into();
    let watch = DiskWatch::new(move |operation, path| {
        assert!(path.starts_with(&root));
        let mut durable = noted.lock().unwrap();
        if durable.operations >= n {
            return Err(io::Error::other("no power"));
        }
        durable.operations += 1;
        durable.note(operation, path, skipped);
        Ok(())
    });
    let plain = RelayOptions { max_file_bytes: 700, sync: SyncPolicy::Never, ..options(dir.path()) };
    let mut run = Run { checksum, told: Told::default() };
    let lived = run.live(&RelayOptions { disk_watch: Some(watch), ..plain.clone() });
    let reached = lived.is_err();
    let durable = durable.lock().unwrap();
    for luck in 0..5 {
        let image = durable.image(dir.path(), luck * (n + 1));
        if let Err(wrong) = check(&run, &RelayOptions { dir: image.path().into(), ..plain.clone() }) {
            return (reached, Err(format!("cut before operation {n}, luck {luck}, {:?}: {wrong}", run.told)));
        }
    }
    (reached, Ok(()))
}

/// Checks that the log is an exact prefix with all acknowledged transactions, and that it can be continued.
fn check(run: &Run, options: &RelayOptions) -> Result<(), String> {
    let Told { synced, cut, at } = run.told;
    let resume_at = (cut > 0).then(|| log_position(at));
    // A power cut leaves no damage: nothing is refused.
    let opened = RelayOptions { executed: executed(cut), resume_at, on_damage: OnDamage::Refuse, ..options.clone() };
    let (writer, found) = RelayLog::open(opened.clone()).map_err(|e| e.to_string())?;
    let kept = found.retrieved.count();
    if kept < synced || found.retrieved != executed(kept) {
        return Err(format!("{} is kept, {synced} was acknowledged", found.retrieved));
    }
    drop(writer);
    let (mut writer, mut source) = run.connect(opened).map_err(|e| e.to_string())?;
    while source.author.last < kept + 3 {
        source.feed(&mut writer, 10);
    }
    let seen = transactions(&mut RelayReader::open_at(writer.shared(), &found.start, ReaderOptions::REPLAY));
    writer.close().map_err(|e| e.to_string())?;
    if seen != expected(cut + 1, kept + 3) {
        return Err(format!("{seen:?} follows {cut}"));
    }
    Ok(())
}

#[test]
fn a_power_cut_before_any_operation_leaves_an_exact_prefix() {
    for checksum in [CRC, NONE] {
        let mut n = 0;
        loop {
            let (reached, outcome) = power_cut(n, checksum, Skipped::Nothing);
            if let Err(wrong) = outcome {
                panic!("{wrong}");
            }
            if !reached {
                break;
            }
            n += 1;
        }
        assert!(n > if checksum == CRC { 200 } else { 150 }, "{n} operations");
    }
}

#[test]
fn any_sync_left_out_is_noticed() {
    for skipped in [Skipped::RelayFiles, Skipped::Index, Skipped::StateFile, Skipped::Folder] {
        let mut cuts = [CRC, NONE].into_iter().flat_map(|checksum| (0..400).map(move |n| (n, checksum)));
        let noticed = cuts.find_map(|(n, checksum)| power_cut(n, checksum, skipped).1.err());
        println!("{skipped:?}: {noticed:?}");
        assert!(noticed.is_some(), "{skipped:?}");
    }
}
