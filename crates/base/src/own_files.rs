//! Files and folders in places where other users may write: a shared backup folder, `/tmp`.
//!
//! In: the path of an operator. Out: a file or folder that is this user's and nobody else's, reached by its name in an
//! open folder, so that nobody can put another one there in between. Never here: a followed symbolic link (but in the
//! operator's own path to the folder), a wait for the other end of a FIFO, a file of another user's taken over.
//!
//! What exists already is used only if it was left by this user: regular, with one name, and with no rights for others.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat, chmod, fchmod, fcntl_getfl, fcntl_setfl, fstat,
    fsync, mkdirat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

/// Opened without following a link in the last place, and without waiting for a FIFO's writer.
const CAREFUL: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// An open folder, in which names are looked up wherever it is moved to.
#[derive(Debug)]
pub struct OpenFolder(OwnedFd);

impl OpenFolder {
    /// Opens a folder by the operator's path, links included.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<OpenFolder> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(OpenFolder(openat(CWD, path, flags, Mode::empty())?))
    }

    /// The folder that has or shall have this file or folder, and its name there.
    ///
    /// # Errors
    /// The path names nothing, such as `..`; the system's.
    pub fn above(path: &Path) -> io::Result<(OpenFolder, OsString)> {
        let no_name = || io::Error::new(ErrorKind::InvalidInput, "the path ends without a name");
        let name = path.file_name().ok_or_else(no_name)?;
        Ok((OpenFolder::open(path.parent().unwrap_or(Path::new("")))?, name.to_owned()))
    }

    /// True if the name is taken, also by a link that leads nowhere.
    ///
    /// # Errors
    /// The system's.
    pub fn has(&self, name: &OsStr) -> io::Result<bool> {
        match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a file, to be read and written.
    ///
    /// # Errors
    /// `AlreadyExists`; the system's.
    pub fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | CAREFUL;
        Ok(openat(&self.0, name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Opens a file that this user has left.
    ///
    /// # Errors
    /// `NotFound`; `PermissionDenied`, saying why, for what is not this user's alone; the system's.
    pub fn reopen(&self, name: &OsStr) -> io::Result<File> {
        let opened = openat(&self.0, name, OFlags::RDWR | CAREFUL, Mode::empty()).map_err(not_followed)?;
        let found = fstat(&opened)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(refused("it is no regular file"));
        }
        if found.st_nlink != 1 {
            return Err(refused("it has several names"));
        }
        of_this_user_alone(&found)?;
        Ok(opened.into())
    }

    /// Creates a folder for this user alone.
    ///
    /// # Errors
    /// `AlreadyExists`; `PermissionDenied` if somebody has replaced it at once; the system's.
    pub fn create_folder(&self, name: &OsStr) -> io::Result<OpenFolder> {
        mkdirat(&self.0, name, Mode::RWXU)?;
        let made = self.reopen_folder(name)?;
        // One of this user's that somebody moved here is not empty, or just as good.
        if made.names()?.is_empty() { Ok(made) } else { Err(refused("another folder is in its place")) }
    }

    /// Opens a folder that this user has left.
    ///
    /// # Errors
    /// As [`reopen`](Self::reopen).
    pub fn reopen_folder(&self, name: &OsStr) -> io::Result<OpenFolder> {
        let opened = openat(&self.0, name, OFlags::RDONLY | OFlags::DIRECTORY | CAREFUL, Mode::empty());
        let opened = opened.map_err(not_followed)?;
        of_this_user_alone(&fstat(&opened)?)?;
        Ok(OpenFolder(opened))
    }

    /// Names in it.
    ///
    /// # Errors
    /// The system's.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Removes a file, or a link.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// The system's.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// True if the name is that of this open file or folder.
    ///
    /// # Errors
    /// The system's.
    pub fn is(&self, name: &OsStr, open: &impl AsFd) -> io::Result<bool> {
        let (there, ours) = (statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW), fstat(open)?);
        match there {
            Ok(there) => Ok((there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives this open file or folder, which has the name `from`, the name `to`.
    ///
    /// # Errors
    /// `AlreadyExists`; `PermissionDenied` if somebody has replaced it; the system's.
    pub fn rename_new(&self, open: &impl AsFd, from: &OsStr, to: &OsStr) -> io::Result<()> {
        if !self.is(from, open)? {
            return Err(refused("another file or folder is in its place"));
        }
        match renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE) {
            // Some file systems cannot; who may write there can replace the file afterwards just as well.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if !self.has(to)? => {
                Ok(renameat(&self.0, from, &self.0, to)?)
            }
            result => Ok(result?),
        }
    }

    /// Makes the names in it durable.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.0)?)
    }

    /// Writes a file beside and then over another of this name, whoever's that is. A link is replaced, not followed.
    ///
    /// # Errors
    /// The system's; the old file is then unchanged.
    pub fn replace(&self, name: &OsStr, mode: u32, content: &[u8]) -> io::Result<()> {
        let beside = with_suffix(name, ".new");
        match self.remove(&beside) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = self.create(&beside, mode)?;
        let written = file.write_all(content).and_then(|()| Ok(renameat(&self.0, &beside, &self.0, name)?));
        written.inspect_err(|_| {
            // It may occupy the last free space. Best effort: the next one removes it first.
            let _ = self.remove(&beside);
        })
    }
}

impl AsFd for OpenFolder {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Opens a file to append to, and creates it with this mode, umask or not. In a folder where others may write, one that
/// exists must be a regular file of this user's or root's; elsewhere it is what the operator put there, such as a link
/// or a device. The open of a pipe that nobody reads is an error: it would wait for a reader, and a stop with it.
///
/// # Errors
/// `PermissionDenied`, saying why; the system's.
pub fn append(path: &Path, mode: u32) -> io::Result<File> {
    let (folder, name) = OpenFolder::above(path)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | CAREFUL;
    match openat(&folder.0, &name, flags, Mode::from_raw_mode(mode)) {
        Ok(made) => {
            fchmod(&made, Mode::from_raw_mode(mode))?;
            return Ok(made.into());
        }
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let above = fstat(&folder.0)?;
    if of_this_user_or_root(&above) && above.st_mode & 0o022 == 0 {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        return waiting(File::options().append(true).create(true).mode(mode).custom_flags(flags).open(path)?);
    }
    let opened = openat(&folder.0, &name, OFlags::WRONLY | OFlags::APPEND | CAREFUL, Mode::empty());
    let opened = opened.map_err(not_followed)?;
    let found = fstat(&opened)?;
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_nlink == 1;
    if !is_file || !of_this_user_or_root(&found) {
        return Err(refused("others may write in its folder, and it is no regular file of this user's"));
    }
    Ok(opened.into())
}

/// Largest option file, key or certificate, in bytes: a system's bundle of authorities has a quarter of a MiB.
pub const SMALL_FILE_MAX: u64 = 16 << 20;

/// How long each read of such a file waits for the other end of a pipe: somebody may be about to write to it.
const WRITER_WITHIN: Duration = Duration::from_secs(30);

/// Reads a file that an operator names, or a pipe, or a device: some never end, and some say nothing.
///
/// # Errors
/// `FileTooLarge` beyond `bytes_max`; `TimedOut` for a pipe into which nobody writes; the system's.
pub fn read_within(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_in_time(path, bytes_max, WRITER_WITHIN)
}

fn read_in_time(path: &Path, bytes_max: u64, wait: Duration) -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut file = File::options().read(true).custom_flags(flags).open(path)?;
    let (mut bytes, mut part) = (Vec::new(), [0; 8 << 10]);
    while bytes.len() as u64 <= bytes_max {
        // A pipe without a writer would count as an empty file otherwise, one whose writer is slow as an error.
        let mut ready = [PollFd::new(&file, PollFlags::IN)];
        if poll(&mut ready, Some(&Timespec::try_from(wait).map_err(io::Error::other)?))? == 0 {
            let text = format!("nothing was written to it within {} s", wait.as_secs());
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
        match file.read(&mut part) {
            Ok(0) => break,
            Ok(len) => bytes.extend_from_slice(part.get(..len).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    if bytes.len() as u64 > bytes_max {
        let text = format!("it is larger than {bytes_max} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// Gives a new file to the owner and group of its folder. Root writes for the user that runs the replica, whom a file
/// of root's would keep out at its next start. Nothing is changed without root's rights.
///
/// # Errors
/// The system's.
pub fn give_to_owner_of_folder(file: &File, path: &Path) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (folder, found) = (folder.metadata()?, file.metadata()?);
    if (found.uid(), found.gid()) == (folder.uid(), folder.gid()) {
        return Ok(());
    }
    fchown(file, Some(folder.uid()), Some(folder.gid()))
}

/// A pipe that was opened without waiting for its other end; writes to it wait, so that lines are written whole.
fn waiting(file: File) -> io::Result<File> {
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Sets the mode of a socket that this user has just bound. Whoever may write in its folder may have put a link to
/// another file in its place.
///
/// # Errors
/// `PermissionDenied` if it is not this user's socket; the system's.
pub fn set_socket_mode(path: &Path, mode: u32) -> io::Result<()> {
    let opened = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&opened)?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    if !is_socket || found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refused("something else is in its place"));
    }
    // Not by the path: this is what was looked at.
    let ours = format!("/proc/self/fd/{}", opened.as_raw_fd());
    Ok(chmod(ours, Mode::from_raw_mode(mode))?)
}

/// True if this folder is another user's in a folder where others may write: so it may be one that was laid out for
/// this path. A folder that an administrator gave to somebody stands in a folder of root's.
///
/// # Errors
/// The system's.
pub fn may_be_planted(folder: &Path) -> io::Result<bool> {
    let folder = folder.canonicalize()?;
    let above = folder.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned);
    let (of_folder, of_above) = (fstat(OpenFolder::open(&folder)?)?, fstat(OpenFolder::open(&above)?)?);
    let others_write = !of_this_user_or_root(&of_above) || of_above.st_mode & 0o022 != 0;
    Ok(others_write && !of_this_user_or_root(&of_folder))
}

/// A name with more behind it.
#[must_use]
pub fn with_suffix(name: &OsStr, suffix: &str) -> OsString {
    let mut longer = name.to_owned();
    longer.push(suffix);
    longer
}

fn of_this_user_alone(found: &Stat) -> io::Result<()> {
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refused("it is another user's"));
    }
    if found.st_mode & 0o077 != 0 {
        return Err(refused("others may read or write it"));
    }
    Ok(())
}

fn of_this_user_or_root(found: &Stat) -> bool {
    found.st_uid == 0 || found.st_uid == rustix::process::geteuid().as_raw()
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why)
}

fn not_followed(error: Errno) -> io::Error {
    match error {
        Errno::LOOP | Errno::MLINK => refused("it is a symbolic link"),
        Errno::NOTDIR => refused("it is no folder, or a symbolic link"),
        Errno::NXIO => refused("it is no regular file"),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_never_ends_is_not_read() {
        let error = read_within(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "it is larger than 1000 bytes");
        let path = std::env::temp_dir().join(format!("slipstream-read-within-{}", std::process::id()));
        std::fs::write(&path, [7; 1000]).unwrap();
        let read = [read_within(&path, 1000), read_within(&path, 999)];
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read[0].as_ref().unwrap().len(), 1000);
        assert!(read[1].is_err());
    }

    /// A FIFO named as a certificate held up the start for ever.
    #[test]
    fn a_pipe_is_read_once_somebody_writes_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let error = read_in_time(&path, 9, Duration::from_millis(10)).unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains("nothing was written")), (ErrorKind::TimedOut, true));
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                let mut pipe = File::options().write(true).open(path).unwrap();
                [b"ab", b"cd"].iter().for_each(|part| pipe.write_all(*part).unwrap());
            }
        });
        assert_eq!(read_within(&path, 9).unwrap(), b"abcd");
        writer.join().unwrap();
    }

    #[test]
    fn what_root_writes_is_the_owners_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("data");
        fs::create_dir(&folder).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(&folder, Some(65_534), Some(65_534)).unwrap();
        }
        let path = folder.join("accounts");
        let file = File::create(&path).unwrap();
        give_to_owner_of_folder(&file, &path).unwrap();
        let (folder, found) = (folder.metadata().unwrap(), path.metadata().unwrap());
        assert_eq!((found.uid(), found.gid()), (folder.uid(), folder.gid()));
        assert_eq!(found.uid() == 65_534, is_root);
    }

    #[test]
    fn only_what_this_user_left_is_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let folder = OpenFolder::open(dir.path()).unwrap();
        folder.create(name("mine"), 0o600).unwrap();
        assert_eq!(folder.create(name("mine"), 0o600).unwrap_err().kind(), ErrorKind::AlreadyExists);
        folder.reopen(name("mine")).unwrap();
        assert_eq!(folder.reopen(name("none")).unwrap_err().kind(), ErrorKind::NotFound);

        symlink("mine", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("open"), "").unwrap();
        mode(&at("open"), 0o666);
        rustix::fs::mkfifoat(CWD, at("fifo"), Mode::RWXU).unwrap();
        for (what, why) in [("link", "symbolic link"), ("open", "others may"), ("fifo", "no regular file")] {
            let error = folder.reopen(name(what)).unwrap_err();
            assert!(error.kind() == ErrorKind::PermissionDenied && error.to_string().contains(why), "{what}: {error}");
        }
        assert!(folder.reopen(name("folder")).is_err());
        assert!(folder.has(name("dangling")).unwrap() && folder.create(name("dangling"), 0o600).is_err());
        fs::hard_link(at("mine"), at("twice")).unwrap();
        assert!(folder.reopen(name("mine")).unwrap_err().to_string().contains("several names"));

        mode(&at("folder"), 0o777);
        assert!(folder.reopen_folder(name("folder")).unwrap_err().to_string().contains("others may"));
        symlink("folder", at("to-folder")).unwrap();
        assert!(folder.reopen_folder(name("to-folder")).is_err());
        let made = folder.create_folder(name("new")).unwrap();
        assert!(folder.is(name("new"), &made).unwrap() && made.names().unwrap().is_empty());
        assert_eq!(fs::metadata(at("new")).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_name_that_somebody_has_exchanged_is_not_given() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OpenFolder::open(dir.path()).unwrap();
        let file = folder.create(name("a.part"), 0o600).unwrap();
        fs::rename(dir.path().join("a.part"), dir.path().join("away")).unwrap();
        fs::write(dir.path().join("a.part"), "not ours").unwrap();
        let error = folder.rename_new(&file, name("a.part"), name("a")).unwrap_err();
        assert!(error.to_string().contains("in its place"), "{error}");
        fs::write(dir.path().join("a"), "taken").unwrap();
        let error = folder.rename_new(&file, name("away"), name("a")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        folder.rename_new(&file, name("away"), name("b")).unwrap();
        assert!(folder.is(name("b"), &file).unwrap());
    }

    #[test]
    fn a_link_is_replaced_and_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("precious"), "precious").unwrap();
        symlink("precious", at("report")).unwrap();
        symlink("precious", at("report.new")).unwrap();
        let (folder, report) = OpenFolder::above(&at("report")).unwrap();
        folder.replace(&report, 0o644, b"text").unwrap();
        assert_eq!(fs::read_to_string(at("report")).unwrap(), "text");
        assert_eq!(fs::read_to_string(at("precious")).unwrap(), "precious");
        assert!(OpenFolder::above(Path::new("a/..")).is_err());
    }

    #[test]
    fn a_link_to_append_to_is_followed_only_where_nobody_else_writes() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("log"), "").unwrap();
        symlink("log", at("link")).unwrap();
        append(&at("link"), 0o600).unwrap().write_all(b"1").unwrap();
        mode(dir.path(), 0o777);
        append(&at("log"), 0o600).unwrap().write_all(b"2").unwrap();
        let error = append(&at("link"), 0o600).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert_eq!(fs::read_to_string(at("log")).unwrap(), "12");
        append(&at("new"), 0o640).unwrap();
        assert_eq!(fs::metadata(at("new")).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(!may_be_planted(dir.path()).unwrap());
    }

    #[test]
    fn only_a_socket_gets_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let bits = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        set_socket_mode(&at("socket"), 0o777).unwrap();
        assert_eq!(bits(&at("socket")), 0o777);
        fs::write(at("precious"), "").unwrap();
        mode(&at("precious"), 0o600);
        symlink("precious", at("link")).unwrap();
        symlink("socket", at("to-socket")).unwrap();
        for name in ["precious", "link", "to-socket"] {
            assert!(set_socket_mode(&at(name), 0o777).is_err(), "{name}");
        }
        assert_eq!(bits(&at("precious")), 0o600);
    }
}
