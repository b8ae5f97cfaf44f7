//! Read access to the data folder: its owner, and its group if the operator allows it. Others never have access.
//!
//! In: `--group-access`. Out: the process's umask, and the modes of existing files in the folder. Never here: a
//! followed symbolic link, a change to a name that is not ours, a file opened for writing.

use std::ffi::CStr;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, fchmod, fstat, openat, statat};
use rustix::io::Errno;

/// Names of our files in a data folder. The socket is not listed: its mode is set when it is created.
const OURS: &[&str] = &[
    "slipstream.format",
    "slipstream.lock",
    "auto.cnf",
    "relay-log",
    "store",
    "scratch",
    "skipped",
    "filters",
    "source-facts",
    "source-last",
    "running",
    "scrub",
    "copying",
    "copying-table",
    "last-status.json",
    "history",
    "accounts",
    "accounts-proved",
    "server-key.pem",
    "server-cert.pem",
    "restoring",
    "stopped",
    "source-orders",
    "filter-orders",
    "relay-log.cleared",
    "relay-log.state",
    "source-members",
    "moved",
    "tables-compared",
    "holds",
    "backing-up",
    "served-log",
    "served-start",
    "relay-start",
];
/// Begins the names of folders with what was put aside.
pub(crate) const ASIDE: &str = "aside-";
/// Of these, names that have passwords, their hashes or keys: the group never reads them.
const PRIVATE: &[&str] = &["accounts", "accounts-proved", "server-key.pem", "source-orders"];
/// Suffix of the file left by an interrupted write: NAME.tmp.
const TEMPORARY: &str = ".tmp";
/// Maximum depth to descend; our folders are three deep.
const DEPTH_MAX: u32 = 8;

/// Who may read the files that we write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Only the owner.
    #[default]
    Owner,
    /// The owner and the group may read.
    Group,
}

fn without_suffix(name: &str) -> &str {
    name.strip_suffix(TEMPORARY).unwrap_or(name)
}

/// Whether a name in a data folder is one of ours.
pub(crate) fn is_ours(name: &str) -> bool {
    OURS.contains(&without_suffix(name)) || name.starts_with(ASIDE)
}

fn is_private(name: &str) -> bool {
    PRIVATE.contains(&without_suffix(name))
}

impl Access {
    /// Mode bits that no new file may have.
    fn umask(self) -> Mode {
        match self {
            Access::Owner => Mode::RWXG | Mode::RWXO,
            Access::Group => Mode::WGRP | Mode::RWXO,
        }
    }

    /// The mode for a file or folder of ours that now has `mode`: the group gets the owner's rights except writing.
    fn of(self, mode: RawMode) -> RawMode {
        let owner = mode & 0o700;
        match self {
            Access::Owner => owner,
            Access::Group => owner | (owner >> 3 & 0o050),
        }
    }

    /// The mode for the data folder itself, which the operator may have created: the group keeps its rights, so that it
    /// can reach a log file there.
    fn of_data_folder(self, mode: RawMode) -> RawMode {
        let kept = mode & 0o770;
        match self {
            Access::Owner => kept,
            Access::Group => kept | 0o050,
        }
    }
}

/// Sets the umask of this process and returns the previous one. Must be called before the first thread starts.
pub fn set_umask(access: Access) -> RawMode {
    rustix::process::umask(access.umask()).bits()
}

/// Files whose mode could not be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotNarrowed {
    /// Number of files and folders.
    pub count: u64,
    /// Path of the first one below the data folder, and the reason.
    pub first: String,
}

impl fmt::Display for NotNarrowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotNarrowed { count, first } = self;
        write!(f, "could not set the permissions of {count} names in the data folder; the first: {first}")
    }
}

/// Sets the modes of the data folder and of our files in it. The folder's owner calls it before anything else is
/// written.
///
/// # Errors
/// Names left unchanged: those of other users, and symbolic links in place of our files. Not a reason to stop.
pub fn narrow(folder: &Path, access: Access) -> Result<(), NotNarrowed> {
    let mut narrowing = Narrowing { access, failed: None };
    let opened = openat(CWD, folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    match opened {
        Ok(folder) => narrowing.data_folder(&folder),
        Err(error) => narrowing.fail(".", &error),
    }
    narrowing.failed.map_or(Ok(()), Err)
}

struct Narrowing {
    access: Access,
    failed: Option<NotNarrowed>,
}

impl Narrowing {
    fn fail(&mut self, path: &str, reason: &dyn fmt::Display) {
        let failed = self.failed.get_or_insert_with(|| NotNarrowed { count: 0, first: format!("{path}: {reason}") });
        failed.count += 1;
    }

    fn data_folder(&mut self, folder: &OwnedFd) {
        let mode = |mode| self.access.of_data_folder(mode);
        if let Err(error) = set_mode(folder.as_fd(), mode) {
            self.fail(".", &error);
        }
        let entries = match Dir::read_from(folder) {
            Ok(entries) => entries,
            Err(error) => return self.fail(".", &error),
        };
        let access = self.access;
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.fail(".", &error),
            };
            let Some(name) = entry.file_name().to_str().ok().filter(|name| is_ours(name)) else { continue };
            self.access = if is_private(name) { Access::Owner } else { access };
            self.name(folder.as_fd(), entry.file_name(), name, 0);
        }
        self.access = access;
    }

    /// Handles one name in a folder, and everything below it.
    fn name(&mut self, folder: BorrowedFd<'_>, name: &CStr, path: &str, depth: u32) {
        // Check first: most modes are already correct, and those files need not be opened.
        let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return,
            Err(error) => return self.fail(path, &error),
        };
        let is_folder = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => true,
            FileType::RegularFile => false,
            FileType::Symlink => return self.fail(path, &"a symbolic link, not followed"),
            _ => return,
        };
        let bits = stat.st_mode & 0o777;
        if !is_folder && bits == self.access.of(bits) {
            return;
        }
        let kind = if is_folder { OFlags::DIRECTORY } else { OFlags::NONBLOCK };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | kind;
        let opened = match openat(folder, name, flags, Mode::empty()) {
            Ok(opened) => opened,
            // Removed in the meantime.
            Err(Errno::NOENT) => return,
            Err(error) => return self.fail(path, &error),
        };
        if let Err(error) = set_mode(opened.as_fd(), |mode| self.access.of(mode)) {
            self.fail(path, &error);
        }
        if is_folder && depth < DEPTH_MAX {
            self.inside(&opened, path, depth);
        }
    }

    fn inside(&mut self, folder: &OwnedFd, path: &str, depth: u32) {
        let entries = match Dir::read_from(folder) {
            Ok(entries) => entries,
            Err(error) => return self.fail(path, &error),
        };
        for entry in entries {
            match entry {
                Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
                Ok(entry) => {
                    let below = format!("{path}/{}", entry.file_name().to_string_lossy());
                    self.name(folder.as_fd(), entry.file_name(), &below, depth + 1);
                }
                Err(error) => return self.fail(path, &error),
            }
        }
    }
}

/// Changes the mode of an open file to what `wanted` returns, unless it already has that mode.
fn set_mode(opened: BorrowedFd<'_>, wanted: impl Fn(RawMode) -> RawMode) -> Result<(), Errno> {
    let bits = fstat(opened)?.st_mode & 0o7777;
    // Keep a folder's set-group-ID bit: it is the operator's choice.
    let wanted = bits & 0o7000 | wanted(bits & 0o777);
    if bits == wanted { Ok(()) } else { fchmod(opened, Mode::from_raw_mode(wanted)) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A folder left by older versions under a umask of 022, with a log file of the operator, and a symbolic link that
    /// points outside.
    fn old_folder() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        // Others must be able to reach this folder.
        set(dir.path(), 0o755);
        let data = dir.path().join("data");
        for folder in ["", "store", "store/tables", "relay-log", "aside-20261130"] {
            fs::create_dir(data.join(folder)).unwrap();
            set(&data.join(folder), 0o755);
        }
        for file in [
            "slipstream.format",
            "last-status.json",
            "last-status.json.tmp",
            "store/tables/1",
            "store/v1",
            "relay-log/relay.000001",
            "aside-20261130/relay.000001",
            "tables-compared",
            "operators.log",
        ] {
            fs::write(data.join(file), "a customer's row").unwrap();
            set(&data.join(file), 0o644);
        }
        fs::create_dir(dir.path().join("outside")).unwrap();
        set(&dir.path().join("outside"), 0o755);
        fs::write(dir.path().join("outside/theirs"), "").unwrap();
        set(&dir.path().join("outside/theirs"), 0o644);
        symlink(dir.path().join("outside"), data.join("scratch")).unwrap();
        symlink(dir.path().join("outside/theirs"), data.join("store/tables/2")).unwrap();
        (dir, data)
    }

    #[test]
    fn what_is_ours_is_narrowed_and_what_links_lead_to_is_not() {
        let (dir, data) = old_folder();
        let failed = narrow(&data, Access::Owner).unwrap_err();
        assert_eq!(failed.count, 2, "{failed}");
        assert!(failed.to_string().contains("a symbolic link, not followed"), "{failed}");
        for (name, wanted) in [
            ("data", 0o750),
            ("data/store", 0o700),
            ("data/store/tables", 0o700),
            ("data/store/tables/1", 0o600),
            ("data/store/v1", 0o600),
            ("data/relay-log", 0o700),
            ("data/relay-log/relay.000001", 0o600),
            ("data/slipstream.format", 0o600),
            ("data/last-status.json", 0o600),
            ("data/last-status.json.tmp", 0o600),
            ("data/operators.log", 0o644),
            ("outside", 0o755),
            ("outside/theirs", 0o644),
        ] {
            assert_eq!(mode(&dir.path().join(name)), wanted, "{name}");
        }
    }

    #[test]
    fn the_group_reads_only_where_the_operator_says_so() {
        let (_dir, data) = old_folder();
        let _ = narrow(&data, Access::Owner);
        let _ = narrow(&data, Access::Group);
        for (name, wanted) in [
            ("", 0o750),
            ("store", 0o750),
            ("store/tables/1", 0o640),
            ("last-status.json", 0o640),
            ("operators.log", 0o644),
        ] {
            assert_eq!(mode(&data.join(name)), wanted, "{name}");
        }
        let _ = narrow(&data, Access::Owner);
        assert_eq!((mode(&data.join("store")), mode(&data.join("store/v1"))), (0o700, 0o600));
    }

    #[test]
    fn another_user_finds_nothing() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can become another user");
            return;
        }
        let (_dir, data) = old_folder();
        let found = || {
            let mut find = Command::new("find");
            find.arg(&data).args(["-mindepth", "1"]).uid(65_534).gid(65_534);
            String::from_utf8(find.output().unwrap().stdout).unwrap()
        };
        assert!(found().contains("store/tables/1"), "else this test shows nothing");
        let _ = narrow(&data, Access::Owner);
        assert_eq!(found(), "");
    }
}
