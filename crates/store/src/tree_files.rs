//! The files of a tree as files: the manifest, and what their checksums say.
//!
//! In: a store's folder. Out: whether its bytes are those that were written. Never here: a block's content, a file of
//! the tree changed.
//!
//! lsm-tree writes a checksum of the whole manifest (`v*`) into `current`, and one of each file into the manifest, and
//! compares neither when it opens a tree. It makes a new tree where `current` is missing.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3Default;

use crate::error::StoreError;
use crate::synced_list;

pub(crate) const CURRENT: &str = "current";
pub(crate) const TABLES: &str = "tables";
/// The only kind of checksum: XXH3-128.
const KIND: u8 = 0;
const READ_BYTES: usize = 1 << 20;

/// Writes `current` again with what it contains: after a sync that failed, the disk may still have the one before it,
/// although the system shows the new one. A folder without a tree passes.
///
/// # Errors
/// When the file cannot be read or written; it then contains the same as before.
pub fn renew_current(folder: &Path) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| StoreError::io(folder, &error);
    match fs::read(folder.join(CURRENT)) {
        Ok(content) => synced_list::write(folder, CURRENT, &content).map_err(failed),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Checks that the manifest is the one that was written last. A folder without a tree passes.
///
/// # Errors
/// [`StoreError::Damaged`] with the name of the file and what is wrong, or the system's error.
pub(crate) fn check_manifest(folder: &Path) -> Result<(), StoreError> {
    let damaged = |text: String| Err(StoreError::damaged(folder, text));
    let current = match fs::read(folder.join(CURRENT)) {
        Ok(current) => current,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A crash while the tree was made leaves no files of rows.
            return if has_files(&folder.join(TABLES))? {
                damaged(format!("the file {CURRENT}, which names the newest manifest, is missing"))
            } else {
                Ok(())
            };
        }
        Err(error) => return Err(StoreError::io(folder, &error)),
    };
    let parts = || {
        let (version, rest) = current.split_first_chunk::<8>()?;
        let (checksum, kind) = rest.split_first_chunk::<16>()?;
        (kind == [KIND]).then_some((u64::from_le_bytes(*version), u128::from_le_bytes(*checksum)))
    };
    let Some((version, checksum)) = parts() else {
        return damaged(format!("the file {CURRENT} is not one of the tree's ({} bytes)", current.len()));
    };
    let manifest = folder.join(format!("v{version}"));
    match checksum_of(&manifest) {
        Ok(found) if found == checksum => Ok(()),
        Ok(_) => {
            damaged(format!("the manifest v{version} is damaged, or the file {CURRENT}: its checksum does not match"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            damaged(format!("the file {CURRENT} names the manifest v{version}, which is missing"))
        }
        Err(error) => Err(StoreError::io(folder, &error)),
    }
}

fn has_files(folder: &Path) -> Result<bool, StoreError> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io(folder, &error)),
    }
}

/// XXH3-128 of a file.
fn checksum_of(path: &Path) -> std::io::Result<u128> {
    let mut file = File::open(path)?;
    let (mut hasher, mut buffer) = (Xxh3Default::new(), vec![0; READ_BYTES]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.digest128()),
            read => hasher.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::disk::{Disk, DiskOptions, of_three_runs};

    fn open(folder: &Path) -> Result<(), StoreError> {
        Disk::open_existing(folder, DiskOptions { cache_bytes: 1 << 20 }).map(drop)
    }

    fn manifest(folder: &Path) -> PathBuf {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut versions: Vec<String> = names.filter(|name| name.starts_with('v')).collect();
        versions.sort_by_key(|name| name[1..].parse::<u64>().unwrap());
        folder.join(versions.pop().unwrap())
    }

    fn flip(path: &Path, at: usize) -> u8 {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 0x20;
        fs::write(path, &bytes).unwrap();
        bytes[at]
    }

    /// Every single byte of `current` and of the manifest, and both gone or cut off.
    #[test]
    fn a_damaged_manifest_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        drop(of_three_runs(folder, 40, |_, _| true));
        open(folder).unwrap();
        let manifest = manifest(folder);
        for path in [folder.join(CURRENT), manifest.clone()] {
            let whole = fs::read(&path).unwrap();
            let refused = |what: &str| match open(folder) {
                Err(StoreError::Damaged { text, .. }) => {
                    assert!(text.contains("manifest") || text.contains(CURRENT), "{what}: {text}");
                }
                other => panic!("{what} of {}: {other:?}", path.display()),
            };
            for at in 0..whole.len() {
                flip(&path, at);
                refused(&format!("byte {at}"));
                fs::write(&path, &whole).unwrap();
            }
            for len in [0, 1, whole.len() / 2, whole.len() - 1] {
                fs::write(&path, &whole[..len]).unwrap();
                refused(&format!("{len} bytes"));
            }
            fs::remove_file(&path).unwrap();
            refused("the lack");
            fs::write(&path, &whole).unwrap();
        }
        open(folder).unwrap();
    }

    /// Damage of a file's end, a missing or truncated file, and one that is none of the tree's: refused by name.
    #[test]
    fn a_file_that_cannot_be_opened_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        drop(of_three_runs(folder, 400, |_, _| true));
        let path = folder.join(TABLES).join("1");
        let whole = fs::read(&path).unwrap();
        let refused = |what: &str| match open(folder) {
            Err(error @ StoreError::DamagedFile { file: 1, .. }) => {
                assert!(error.to_string().contains("tables/1 is damaged: "), "{what}: {error}");
            }
            other => panic!("{what}: {other:?}"),
        };
        // The last 8 bytes, a length, are not used.
        for at in (whole.len() - 48)..(whole.len() - 8) {
            flip(&path, at);
            refused(&format!("byte {at} of {}", whole.len()));
            fs::write(&path, &whole).unwrap();
        }
        for len in [0, 1, whole.len() / 2, whole.len() - 1] {
            fs::write(&path, &whole[..len]).unwrap();
            refused(&format!("{len} bytes"));
        }
        fs::remove_file(&path).unwrap();
        refused("the lack");
        fs::write(&path, &whole).unwrap();
        open(folder).unwrap();
        fs::create_dir(folder.join(TABLES).join("9")).unwrap();
        let error = open(folder).unwrap_err().to_string();
        assert!(error.contains("tables/9 is not a file of the tree"), "{error}");
    }
}
