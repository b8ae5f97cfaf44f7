//! A small file system, for tests of a full disk.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::folder;

/// A tmpfs of its own, unmounted on drop.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of this many MiB. None, with a message, if this user may not mount.
    #[must_use]
    pub fn new(name: &str, mib: u64) -> Option<SmallDisk> {
        let path = folder(name);
        std::fs::create_dir_all(&path).unwrap();
        let disk = SmallDisk(path);
        let mounted = disk.mount(&["-t", "tmpfs", "-o", &format!("size={mib}M"), "tmpfs"]);
        if !mounted {
            testkit::skipped("no tmpfs can be mounted here");
        }
        mounted.then_some(disk)
    }

    /// The mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Changes its size.
    #[must_use]
    pub fn resize(&self, mib: u64) -> bool {
        self.mount(&["-o", &format!("remount,size={mib}M")])
    }

    /// Free space in bytes.
    #[must_use]
    pub fn free(&self) -> u64 {
        let facts = rustix::fs::statvfs(&self.0).unwrap();
        facts.f_bavail * facts.f_frsize
    }

    fn mount(&self, options: &[&str]) -> bool {
        let status = Command::new("mount").args(options).arg(&self.0).status();
        status.is_ok_and(|status| status.success())
    }
}

/// Bytes that a file grows by on a tmpfs.
const PAGE: u64 = 4096;

/// A file without a name that, while open, leaves this many pages of a disk free.
pub struct Ballast(#[allow(dead_code, reason = "an open file keeps its space")] File);

impl Ballast {
    /// Fills the disk up to this many pages of 4 KiB, whatever it says is free: where many CPUs count the pages, that is
    /// only near the truth. Others may write meanwhile, so it may be a few pages less.
    #[must_use]
    pub fn leave(disk: &SmallDisk, pages: u64) -> Ballast {
        let path = disk.path().join("ballast");
        let file = File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (mut size, mut step) = (0, disk.free().next_power_of_two().max(PAGE));
        while step >= PAGE {
            match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), size, step) {
                Ok(()) => size += step,
                Err(_) => step /= 2,
            }
        }
        file.set_len(size.saturating_sub(pages * PAGE)).unwrap();
        Ballast(file)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
