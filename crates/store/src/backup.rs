//! The tree's files for a backup: one version of the tree, complete, while cuts and merges go on.
//!
//! In: an empty folder for links. Out: names, lengths and checksums of the files, and the cut that they hold. Never
//! here: a file that the version does not name, a version of which a file is listed as damaged, a write in the store's
//! folder.
//!
//! `current` names the newest version's file, and a version that is replaced takes its file and tables with it. So both
//! are read, and the version that the tree shows must be the one that `current` names, before and after: otherwise they
//! are read again. The tables are linked while the version is held in memory, and are safe from then on.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::GtidSet;

use crate::damage::FILE as DAMAGE_LIST;
use crate::disk::Disk;
use crate::drift::FILE as DRIFT_LIST;
use crate::error::StoreError;
use crate::tree_files::{CURRENT, TABLES};
use crate::tree_view::TreeView;

/// Tries to read a version before it is replaced; a new one comes with each cut and each merge.
const TRIES: u32 = 1000;
/// Pause between two tries: a version's file is written before the tree shows the version.
const PAUSE: Duration = Duration::from_millis(5);
/// Largest manifest or list that is read, in bytes: a manifest has tens of bytes for each file of the tree.
const SMALL_BYTES_MAX: u64 = 256 << 20;

/// A moment while the files are chosen, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenStep {
    /// `current` and the version's file are read, and not yet compared with `current` again.
    VersionRead,
    /// Some tables are linked.
    Linking,
}

type SmallFiles = Vec<(String, Vec<u8>)>;

/// A file of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFileCopy {
    /// Number of the file.
    pub file: u64,
    /// Name in the store's folder.
    pub name: String,
    /// Where it can be read.
    pub path: PathBuf,
    /// Length in bytes.
    pub len: u64,
    /// XXH3-128 of its bytes.
    pub checksum: u128,
}

/// One version of the tree.
#[derive(Clone, Debug)]
pub struct TreeCopy {
    /// Small files with their content, by their names in the store's folder.
    pub small: SmallFiles,
    /// The files of rows.
    pub tables: Vec<TableFileCopy>,
    /// GTIDs of the cut that it holds; None if it holds none.
    pub executed: Option<GtidSet>,
    /// End of the cut's last transaction in the relay log.
    pub position: Option<(String, u64)>,
    /// Number of rows at the cut.
    pub rows: i64,
}

impl Disk {
    /// Links the newest version's files into `links`, a new folder in the same file system, while the tree is written.
    ///
    /// # Errors
    /// A file is damaged; links are not possible there, or the system fails otherwise.
    pub fn link_files(&self, links: &Path, at: &mut dyn FnMut(ChosenStep)) -> Result<TreeCopy, StoreError> {
        let mut tries = 0;
        let (view, small) = loop {
            let view = self.fresh_view();
            if let Some(small) = self.version_files(&view, at)? {
                break (view, small);
            }
            tries += 1;
            if tries == TRIES {
                return Err(StoreError::Io {
                    folder: self.folder().to_path_buf(),
                    text: format!("its version was replaced {TRIES} times while it was read"),
                });
            }
            std::thread::sleep(PAUSE);
        };
        let place = |file: u64| {
            let (from, to) = (self.folder().join(TABLES).join(file.to_string()), links.join(file.to_string()));
            fs::hard_link(&from, &to).map_err(|error| StoreError::io(&from, &error))?;
            at(ChosenStep::Linking);
            Ok(to)
        };
        self.copy_of(&view, small, place)
    }

    /// The files of a stopped tree, where they are.
    ///
    /// # Errors
    /// As [`link_files`](Self::link_files).
    pub fn files_of_stopped(&self) -> Result<TreeCopy, StoreError> {
        let view = self.newest();
        let Some(small) = self.version_files(&view, &mut |_| ())? else {
            return Err(self.damaged("another process writes it"));
        };
        self.copy_of(&view, small, |file| Ok(self.folder().join(TABLES).join(file.to_string())))
    }

    /// A view of the newest version at a number above all of its entries.
    fn fresh_view(&self) -> TreeView {
        loop {
            let number = self.next_number();
            let view = self.view_at(number);
            if self.next_number() == number {
                return view;
            }
        }
    }

    /// `current`, the version's file and the list of rows that contradict the log; None if another version than the
    /// view's was the newest at the beginning or at the end.
    fn version_files(&self, view: &TreeView, at: &mut dyn FnMut(ChosenStep)) -> Result<Option<SmallFiles>, StoreError> {
        let folder = self.folder();
        let version = format!("v{}", view.version());
        let Some(current) = read_small(folder, CURRENT)? else { return Ok(None) };
        if current.get(..8) != Some(&view.version().to_le_bytes()[..]) {
            return Ok(None);
        }
        let Some(manifest) = read_small(folder, &version)? else { return Ok(None) };
        // It knows all that merges found up to this version; nothing of this version is taken off it before the next.
        let drift = read_small(folder, DRIFT_LIST)?;
        at(ChosenStep::VersionRead);
        if read_small(folder, CURRENT)?.as_ref() != Some(&current) {
            return Ok(None);
        }
        let mut small = vec![(CURRENT.to_owned(), current), (version, manifest)];
        small.extend(drift.map(|drift| (DRIFT_LIST.to_owned(), drift)));
        Ok(Some(small))
    }

    fn copy_of(
        &self,
        view: &TreeView,
        small: SmallFiles,
        mut place: impl FnMut(u64) -> Result<PathBuf, StoreError>,
    ) -> Result<TreeCopy, StoreError> {
        let mut tables = Vec::new();
        for (file, checksum) in view.checksums() {
            if self.damage_list().is_damaged(file) {
                let text = format!("it is listed in {DAMAGE_LIST}");
                return Err(StoreError::DamagedFile { folder: self.folder().to_path_buf(), file, text });
            }
            let path = place(file)?;
            let len = fs::metadata(&path).map_err(|error| StoreError::io(&path, &error))?.len();
            tables.push(TableFileCopy { file, name: format!("{TABLES}/{file}"), path, len, checksum });
        }
        let Some(cut) = self.cut_in(view)? else {
            return Ok(TreeCopy { small, tables, executed: None, position: None, rows: 0 });
        };
        Ok(TreeCopy { small, tables, executed: Some(cut.executed), position: cut.position, rows: cut.rows })
    }
}

/// Content of a small file; None if it is not there.
fn read_small(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let path = folder.join(name);
    let failed = |error: std::io::Error| StoreError::io(&path, &error);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut content = Vec::new();
    file.take(SMALL_BYTES_MAX + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > SMALL_BYTES_MAX {
        return Err(StoreError::damaged(folder, format!("{name} is far too large")));
    }
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{DiskOptions, of_three_runs};

    const KEYS: u32 = 400;

    /// Writes one run that gives every key this value.
    fn add_run(disk: &Disk, value: u8) {
        let mut run = disk.begin().unwrap();
        for key in 0..KEYS {
            run.put(&key.to_be_bytes(), &[value; 20]).unwrap();
        }
        let version_lock = disk.version_lock();
        run.finish(&version_lock).unwrap();
        disk.take_over(&version_lock);
    }

    /// All values of a tree; each of its versions here has one value in every row but the first version.
    fn values(disk: &Disk) -> Vec<u8> {
        let view = disk.newest();
        let rows = disk.range_in(&view, &[], &[255; 8]).map(Result::unwrap);
        let mut values: Vec<u8> = rows.map(|(_, value)| value[0]).collect();
        assert_eq!(values.len(), KEYS as usize);
        values.dedup();
        values
    }

    /// Puts the copy's files where a store has them, and opens it.
    fn opened(copy: &TreeCopy, to: &Path) -> Disk {
        fs::create_dir_all(to.join(TABLES)).unwrap();
        for (name, content) in &copy.small {
            fs::write(to.join(name), content).unwrap();
        }
        for table in &copy.tables {
            let bytes = fs::read(&table.path).unwrap();
            assert_eq!(bytes.len() as u64, table.len);
            assert_eq!(xxhash_rust::xxh3::xxh3_128(&bytes), table.checksum);
            fs::write(to.join(&table.name), bytes).unwrap();
        }
        Disk::open_stopped(to, DiskOptions { cache_bytes: 1 << 20 }).unwrap().0
    }

    /// A cut and a merge of everything at each moment: the copy is one version, and its files outlive their removal.
    #[test]
    fn cuts_and_merges_at_every_moment() {
        for moment in [ChosenStep::VersionRead, ChosenStep::Linking] {
            let (from, links, to) =
                (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let disk = of_three_runs(from.path(), KEYS, |_, key| key % 11 != 10);
            add_run(&disk, 100);
            let mut changes = 0;
            let copy = disk
                .link_files(links.path(), &mut |step| {
                    if step == moment && changes < 3 {
                        changes += 1;
                        add_run(&disk, 100 + changes);
                        disk.compact_fully(u64::MAX >> 1).unwrap();
                        disk.let_go();
                    }
                })
                .unwrap();
            assert_eq!(changes, 3);
            // What was changed before the tables were linked is in it, what came later is not.
            let expected = if moment == ChosenStep::VersionRead { 103 } else { 100 };
            add_run(&disk, 200);
            disk.compact_fully(u64::MAX >> 1).unwrap();
            disk.let_go();
            for table in &copy.tables {
                assert!(!from.path().join(&table.name).exists(), "{} is still there", table.name);
            }
            assert_eq!(values(&opened(&copy, to.path())), [expected], "{moment:?}");
            assert_eq!(values(&disk), [200]);
        }
    }

    #[test]
    fn a_file_that_is_listed_as_damaged_is_refused() {
        let (from, links) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let disk = of_three_runs(from.path(), 40, |_, _| true);
        disk.damage_list().found(1, "a test says so");
        let error = disk.link_files(links.path(), &mut |_| ()).unwrap_err();
        assert!(matches!(error, StoreError::DamagedFile { file: 1, .. }), "{error}");
    }

    #[test]
    fn of_a_stopped_tree() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        add_run(&of_three_runs(from.path(), KEYS, |_, key| key % 11 != 10), 9);
        let (disk, _) = Disk::open_stopped(from.path(), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
        let copy = disk.files_of_stopped().unwrap();
        assert_eq!((copy.tables.len(), copy.executed.is_none()), (4, true));
        drop(disk);
        assert_eq!(values(&opened(&copy, to.path())), [9]);
    }
}
