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
            eprintln!("skipped: no tmpfs can be mounted here");
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

/// A file without a name that, while open, leaves this many pages of a disk free.
pub struct Ballast(#[allow(dead_code, reason = "an open file keeps its space")] File);

impl Ballast {
    /// Fills the disk up to this many pages of 4 KiB. Others may write meanwhile, so it may be a few pages less.
    #[must_use]
    pub fn leave(disk: &SmallDisk, pages: u64) -> Ballast {
        let path = disk.path().join("ballast");
        let file = File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        for _ in 0..20 {
            let size = disk.free().saturating_sub(pages * 4096).max(1);
            if rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size).is_ok() {
                break;
            }
        }
        Ballast(file)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
