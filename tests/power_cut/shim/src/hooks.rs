//! The libc functions that the shim replaces with its own.
//!
//! Safety, for all of them: each has the signature of the libc function it replaces (variadic ones take their optional
//! argument as a last one, which the C calling conventions of Linux on x86-64 and AArch64 pass alike), its caller keeps
//! that function's contract, and the arguments reach the system call unchanged. Pointers are only read as that contract
//! allows: paths are NUL-terminated, an iovec array has as many entries as stated. Nothing here unwinds: a panic in an
//! `extern "C"` function aborts.
//!
//! System calls are made directly (`libc::syscall`), so no hook can call itself. The tracer uses `std::fs`, whose calls
//! arrive here too, only before it is set, and [`write_all`] afterwards.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use libc::{iovec, mode_t, off_t, size_t, ssize_t};
use power_cut::journal::{Call, Instead, Operation, skips};

use crate::tracer::{State, Tracer, refuse};

/// Runs before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    Tracer::start();
}

macro_rules! system_call {
    ($number:expr $(, $argument:expr)*) => {
        // Safety: see the module. The arguments are a hook's own, or made here of values that outlive the call.
        unsafe { libc::syscall($number $(, $argument)*) }
    };
}

/// Identity of the file behind a descriptor or name.
#[derive(Clone, Copy)]
struct Facts {
    device: u64,
    inode: u64,
    mode: mode_t,
    len: u64,
}

impl Facts {
    fn is(&self, kind: mode_t) -> bool {
        self.mode & libc::S_IFMT == kind
    }
}

fn facts_at(folder: c_int, path: &CStr, flags: c_int) -> Option<Facts> {
    // Safety: all zeros is a valid `stat`; the pointers are to values that outlive the call.
    let (result, stat) = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstatat(folder, path.as_ptr(), &raw mut stat, flags), stat)
    };
    (result == 0).then_some(Facts {
        device: stat.st_dev,
        inode: stat.st_ino,
        mode: stat.st_mode,
        len: stat.st_size.cast_unsigned(),
    })
}

fn facts(fd: c_int) -> Option<Facts> {
    facts_at(fd, c"", libc::AT_EMPTY_PATH)
}

fn errno() -> c_int {
    // Safety: libc's pointer is to this thread's errno.
    unsafe { *libc::__errno_location() }
}

fn set_errno(errno: c_int) {
    // Safety: as above.
    unsafe { *libc::__errno_location() = errno }
}

/// Writes without going through the hooks, which take the lock that the caller may hold.
pub(crate) fn write_all(fd: c_int, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let written = system_call!(libc::SYS_write, fd, bytes.as_ptr(), bytes.len());
        match usize::try_from(written) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return false,
        }
    }
    true
}

/// Makes a change between its two records. `change` returns the system call's result and the inode it created, or 0.
fn make(state: &mut State, operation: Operation, change: impl FnOnce(&mut State) -> (i64, u64)) -> i64 {
    let id = state.begin(operation);
    let (result, inode) = change(state);
    let errno = errno();
    state.end(id, result, inode);
    set_errno(errno);
    result
}

/// Looks a call up in the plan: returns the errno it fails with, or ends the process here.
fn planned(state: &mut State, call: Call) -> Option<c_int> {
    match state.plan.take(call)? {
        Instead::Kill => kill(),
        Instead::Fail(errno) => Some(errno),
        // Such a call cannot be half done.
        Instead::Short => Some(libc::EIO),
    }
}

fn kill() -> ! {
    loop {
        system_call!(libc::SYS_kill, libc::getpid(), libc::SIGKILL);
    }
}

fn failed(errno: c_int) -> c_int {
    set_errno(errno);
    -1
}

/// Finds the traced file or folder of a descriptor.
fn traced(fd: c_int) -> Option<(&'static Tracer, Facts)> {
    let tracer = Tracer::get()?;
    let errno = errno();
    let facts = facts(fd).filter(|facts| {
        let kind = facts.is(libc::S_IFREG) || facts.is(libc::S_IFDIR);
        kind && facts.device == tracer.device && tracer.lock().known.contains(&facts.inode)
    });
    set_errno(errno);
    Some((tracer, facts?))
}

/// A name in a traced folder.
struct Name {
    folder: u64,
    name: Vec<u8>,
}

fn traced_name(folder: c_int, path: &CStr) -> Option<(&'static Tracer, Name)> {
    let tracer = Tracer::get()?;
    let errno = errno();
    let found = locate(tracer, folder, path);
    set_errno(errno);
    Some((tracer, found?))
}

fn locate(tracer: &Tracer, folder: c_int, path: &CStr) -> Option<Name> {
    let mut path = path.to_bytes();
    while let [rest @ .., b'/'] = path {
        path = rest;
    }
    let (parent, name) = match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) => (b"/".as_slice(), path.get(1..)?),
        Some(at) => (path.get(..at)?, path.get(at + 1..)?),
        None => (b".".as_slice(), path),
    };
    let parent = CString::new(parent).ok()?;
    let facts = facts_at(folder, &parent, 0).filter(|facts| facts.is(libc::S_IFDIR))?;
    let known = facts.device == tracer.device && tracer.lock().known.contains(&facts.inode);
    if !known {
        return None;
    }
    if name.is_empty() || name == b"." || name == b".." {
        refuse(&format!("a path that ends in {:?}", OsStr::from_bytes(name)));
    }
    Some(Name { folder: facts.inode, name: name.to_vec() })
}

/// The path of a descriptor below the traced folder; a folder's ends with `/`.
fn path_of(tracer: &Tracer, fd: c_int, facts: &Facts) -> String {
    let link = CString::new(format!("/proc/self/fd/{fd}")).unwrap_or_default();
    let mut bytes = vec![0u8; 4096];
    let len = system_call!(libc::SYS_readlinkat, libc::AT_FDCWD, link.as_ptr(), bytes.as_mut_ptr(), bytes.len());
    bytes.truncate(usize::try_from(len).unwrap_or(0));
    let path = std::path::PathBuf::from(std::ffi::OsString::from_vec(bytes));
    let path = path.strip_prefix(&tracer.root).unwrap_or(&path).to_string_lossy().into_owned();
    if facts.is(libc::S_IFDIR) { path + "/" } else { path }
}

/// Reads a range of a file, as far as the file goes.
fn old_bytes(fd: c_int, offset: u64, end: u64) -> Vec<u8> {
    // A new descriptor: the caller's may be write-only.
    let path = CString::new(format!("/proc/self/fd/{fd}")).unwrap_or_default();
    let reader = system_call!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
    let mut bytes = vec![0u8; usize::try_from(end.saturating_sub(offset)).unwrap_or(0)];
    let mut have = 0;
    while let Some(rest) = bytes.get_mut(have..).filter(|rest| !rest.is_empty()) {
        let at = offset + have as u64;
        let read = system_call!(libc::SYS_pread64, reader, rest.as_mut_ptr(), rest.len(), at);
        let Some(read @ 1..) = usize::try_from(read).ok() else { refuse("cannot read what is overwritten") };
        have += read;
    }
    system_call!(libc::SYS_close, reader);
    bytes
}

// ---- opening ----

fn open_at(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    let through = |flags: c_int| system_call!(libc::SYS_openat, folder, path, flags, mode) as c_int;
    let synchronous = flags & libc::O_DSYNC != 0;
    let unnamed = flags & libc::O_TMPFILE == libc::O_TMPFILE;
    if flags & (libc::O_CREAT | libc::O_TRUNC) == 0 && !synchronous && !unnamed {
        return cannot_open(folder, path).map_or_else(|| through(flags), failed);
    }
    // Safety: see the module.
    let name = unsafe { CStr::from_ptr(path) };
    if unnamed {
        if facts_at(folder, name, 0)
            .is_some_and(|facts| Tracer::get().is_some_and(|t| t.lock().known.contains(&facts.inode)))
        {
            refuse("O_TMPFILE in the traced folder");
        }
        return through(flags);
    }
    let Some((tracer, found)) = traced_name(folder, name) else { return through(flags) };
    if synchronous {
        refuse(&format!("{name:?} opened with O_SYNC or O_DSYNC"));
    }
    let mut state = tracer.lock();
    match facts_at(folder, name, libc::AT_SYMLINK_NOFOLLOW) {
        None if flags & libc::O_CREAT != 0 => {
            if let Some(errno) = planned(&mut state, Call::Name) {
                return failed(errno);
            }
            let operation = Operation::Create { folder: found.folder, name: found.name };
            make(&mut state, operation, |state| {
                let fd = through(flags);
                (fd.into(), if fd < 0 { 0 } else { adopt(tracer, state, fd) })
            }) as c_int
        }
        None => through(flags),
        Some(there) if there.is(libc::S_IFLNK) => refuse(&format!("{name:?} is a symbolic link")),
        Some(there) => {
            let fd = through(flags & !libc::O_TRUNC);
            if fd >= 0 && flags & libc::O_TRUNC != 0 && there.is(libc::S_IFREG) {
                set_len(&mut state, fd, there, 0);
            }
            fd
        }
    }
}

/// Hooked only to fail: looks a traced file or folder up where the plan counts what is opened.
fn cannot_open(folder: c_int, path: *const c_char) -> Option<c_int> {
    let tracer = Tracer::get().filter(|tracer| tracer.counts_opens)?;
    // Safety: see the module.
    let facts = facts_at(folder, unsafe { CStr::from_ptr(path) }, 0).filter(|facts| facts.device == tracer.device)?;
    let mut state = tracer.lock();
    if state.known.contains(&facts.inode) { planned(&mut state, Call::Open) } else { None }
}

/// Registers a file that was just created, and keeps it by a link.
fn adopt(tracer: &Tracer, state: &mut State, fd: c_int) -> u64 {
    let Some(facts) = facts(fd) else { refuse("cannot look at a new file") };
    let link = |path: Vec<u8>| CString::new(path).unwrap_or_default();
    let from = link(format!("/proc/self/fd/{fd}").into_bytes());
    let to = link(tracer.links.join(facts.inode.to_string()).into_os_string().into_vec());
    let at = libc::AT_FDCWD;
    if system_call!(libc::SYS_linkat, at, from.as_ptr(), at, to.as_ptr(), libc::AT_SYMLINK_FOLLOW) != 0 {
        refuse(&format!("cannot link {to:?}: {}", std::io::Error::last_os_error()));
    }
    state.known.insert(facts.inode);
    facts.inode
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_at(libc::AT_FDCWD, path, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_at(libc::AT_FDCWD, path, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_at(folder, path, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_at(folder, path, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn creat(path: *const c_char, mode: mode_t) -> c_int {
    open_at(libc::AT_FDCWD, path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn creat64(path: *const c_char, mode: mode_t) -> c_int {
    open_at(libc::AT_FDCWD, path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode)
}

// ---- writing ----

/// `at` is an offset, or none for the descriptor's own. `through` writes as many of the bytes as it is told to.
fn write_with(fd: c_int, len: u64, at: Option<off_t>, through: impl FnOnce(u64) -> ssize_t) -> ssize_t {
    let Some((tracer, _)) = traced(fd) else { return through(len) };
    let mut state = tracer.lock();
    // Checked again, under the lock.
    let Some(facts) = facts(fd) else { return through(len) };
    let instead = state.plan.take(Call::Write);
    let len = match instead {
        Some(Instead::Fail(errno)) => return failed(errno) as ssize_t,
        Some(Instead::Short | Instead::Kill) => len.div_ceil(2),
        None => len,
    };
    let flags = system_call!(libc::SYS_fcntl, fd, libc::F_GETFL) as c_int;
    let offset = if flags & libc::O_APPEND != 0 {
        facts.len
    } else {
        let at = at.unwrap_or_else(|| system_call!(libc::SYS_lseek, fd, 0, libc::SEEK_CUR));
        u64::try_from(at).unwrap_or(0)
    };
    let old = old_bytes(fd, offset, (offset + len).min(facts.len).max(offset));
    let operation = Operation::Write { inode: facts.inode, offset, len, old_len: facts.len, old };
    make(&mut state, operation, |_| {
        let result = through(len);
        if instead == Some(Instead::Kill) {
            kill();
        }
        (result as i64, 0)
    }) as ssize_t
}

/// Writes all parts; of a write cut short, the beginning of the first one.
fn write_parts(fd: c_int, parts: *const iovec, count: c_int, len: u64, most: u64, at: Option<off_t>) -> ssize_t {
    if most < len {
        // Safety: see the module; there is a byte to write, so there is a part.
        let first = unsafe { *parts };
        let some = most.min(first.iov_len as u64);
        return match at {
            None => system_call!(libc::SYS_write, fd, first.iov_base, some) as ssize_t,
            Some(at) => system_call!(libc::SYS_pwrite64, fd, first.iov_base, some, at) as ssize_t,
        };
    }
    match at {
        None => system_call!(libc::SYS_writev, fd, parts, count) as ssize_t,
        Some(at) => system_call!(libc::SYS_pwritev, fd, parts, count, at, 0) as ssize_t,
    }
}

/// Sum of the lengths of all parts.
///
/// # Safety
/// `parts` points to `count` entries.
unsafe fn sum(parts: *const iovec, count: c_int) -> u64 {
    // Safety: the caller's promise.
    (0..usize::try_from(count).unwrap_or(0)).map(|at| unsafe { (*parts.add(at)).iov_len } as u64).sum()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
    write_with(fd, len as u64, None, |len| system_call!(libc::SYS_write, fd, bytes, len) as ssize_t)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite(fd: c_int, bytes: *const c_void, len: size_t, at: off_t) -> ssize_t {
    write_with(fd, len as u64, Some(at), |len| system_call!(libc::SYS_pwrite64, fd, bytes, len, at) as ssize_t)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, bytes: *const c_void, len: size_t, at: off_t) -> ssize_t {
    write_with(fd, len as u64, Some(at), |len| system_call!(libc::SYS_pwrite64, fd, bytes, len, at) as ssize_t)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // Safety: see the module.
    let len = unsafe { sum(parts, count) };
    write_with(fd, len, None, |most| write_parts(fd, parts, count, len, most, None))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    // Safety: see the module.
    let len = unsafe { sum(parts, count) };
    write_with(fd, len, Some(at), |most| write_parts(fd, parts, count, len, most, Some(at)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    // Safety: the same contract.
    unsafe { pwritev(fd, parts, count, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
    if traced(fd).is_some() {
        refuse("pwritev2");
    }
    system_call!(libc::SYS_pwritev2, fd, parts, count, at, 0, flags) as ssize_t
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
    // Safety: the same contract.
    unsafe { pwritev2(fd, parts, count, at, flags) }
}

/// For a traced file it fails with the error that makes callers (`std::io::copy`) fall back to reading and writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if traced(to).is_some() {
        set_errno(libc::ENOSYS);
        return -1;
    }
    system_call!(libc::SYS_copy_file_range, from, from_at, to, to_at, len, flags) as ssize_t
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    if traced(to).is_some() {
        set_errno(libc::ENOSYS);
        return -1;
    }
    system_call!(libc::SYS_sendfile, to, from, at, len) as ssize_t
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile64(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    // Safety: the same contract.
    unsafe { sendfile(to, from, at, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn splice(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if traced(to).is_some() {
        refuse("splice");
    }
    system_call!(libc::SYS_splice, from, from_at, to, to_at, len, flags) as ssize_t
}

fn set_len(state: &mut State, fd: c_int, facts: Facts, len: u64) -> c_int {
    if let Some(errno) = planned(state, Call::Write) {
        return failed(errno);
    }
    let old = old_bytes(fd, len.min(facts.len), facts.len);
    let operation = Operation::SetLen { inode: facts.inode, old_len: facts.len, new_len: len, old };
    make(state, operation, |_| (system_call!(libc::SYS_ftruncate, fd, len), 0)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate(fd: c_int, len: off_t) -> c_int {
    let through = || system_call!(libc::SYS_ftruncate, fd, len) as c_int;
    let (Some((tracer, _)), Ok(new_len)) = (traced(fd), u64::try_from(len)) else { return through() };
    let mut state = tracer.lock();
    let Some(facts) = facts(fd) else { return through() };
    set_len(&mut state, fd, facts, new_len)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(fd: c_int, len: off_t) -> c_int {
    // Safety: the same contract.
    unsafe { ftruncate(fd, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn truncate(path: *const c_char, len: off_t) -> c_int {
    // Safety: see the module.
    if traced_name(libc::AT_FDCWD, unsafe { CStr::from_ptr(path) }).is_some() {
        refuse("truncate");
    }
    system_call!(libc::SYS_truncate, path, len) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn truncate64(path: *const c_char, len: off_t) -> c_int {
    // Safety: the same contract.
    unsafe { truncate(path, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fallocate(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int {
    if traced(fd).is_some() {
        refuse("fallocate");
    }
    system_call!(libc::SYS_fallocate, fd, mode, at, len) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fallocate64(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int {
    // Safety: the same contract.
    unsafe { fallocate(fd, mode, at, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_fallocate(fd: c_int, at: off_t, len: off_t) -> c_int {
    if traced(fd).is_some() {
        refuse("posix_fallocate");
    }
    if system_call!(libc::SYS_fallocate, fd, 0, at, len) == 0 { 0 } else { errno() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_fallocate64(fd: c_int, at: off_t, len: off_t) -> c_int {
    // Safety: the same contract.
    unsafe { posix_fallocate(fd, at, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    at: off_t,
) -> *mut c_void {
    let writes =
        protection & libc::PROT_WRITE != 0 && flags & libc::MAP_SHARED != 0 && flags & libc::MAP_ANONYMOUS == 0;
    if writes && traced(fd).is_some() {
        refuse("a shared writable mapping");
    }
    system_call!(libc::SYS_mmap, address, len, protection, flags, fd, at) as *mut c_void
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    address: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    at: off_t,
) -> *mut c_void {
    // Safety: the same contract.
    unsafe { mmap(address, len, protection, flags, fd, at) }
}

// ---- reading: hooked only to fail ----

fn read_with(fd: c_int, through: impl FnOnce() -> ssize_t) -> ssize_t {
    if Tracer::get().is_some_and(|tracer| tracer.counts_reads)
        && let Some((tracer, _)) = traced(fd)
        && let Some(errno) = planned(&mut tracer.lock(), Call::Read)
    {
        return failed(errno) as ssize_t;
    }
    through()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, bytes: *mut c_void, len: size_t) -> ssize_t {
    read_with(fd, || system_call!(libc::SYS_read, fd, bytes, len) as ssize_t)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pread(fd: c_int, bytes: *mut c_void, len: size_t, at: off_t) -> ssize_t {
    read_with(fd, || system_call!(libc::SYS_pread64, fd, bytes, len, at) as ssize_t)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pread64(fd: c_int, bytes: *mut c_void, len: size_t, at: off_t) -> ssize_t {
    read_with(fd, || system_call!(libc::SYS_pread64, fd, bytes, len, at) as ssize_t)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    read_with(fd, || system_call!(libc::SYS_readv, fd, parts, count) as ssize_t)
}

// ---- syncing ----

fn sync_with(fd: c_int, call: &str, through: impl FnOnce() -> c_int) -> c_int {
    let Some((tracer, facts)) = traced(fd) else { return through() };
    let mut state = tracer.lock();
    if let Some(errno) = planned(&mut state, Call::Sync) {
        return failed(errno);
    }
    let last = state.last(facts.inode);
    if skips(&tracer.skip, call, &path_of(tracer, fd, &facts), &last) {
        return 0;
    }
    let id = state.begin(Operation::Sync { inode: facts.inode });
    drop(state);
    let result = through();
    let errno = errno();
    tracer.lock().end(id, result.into(), 0);
    set_errno(errno);
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    sync_with(fd, "fsync", || system_call!(libc::SYS_fsync, fd) as c_int)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    sync_with(fd, "fdatasync", || system_call!(libc::SYS_fdatasync, fd) as c_int)
}

/// Makes nothing durable by itself (sync_file_range(2): neither metadata nor the disk's own cache), so it leaves no
/// record.
#[unsafe(no_mangle)]
unsafe extern "C" fn sync_file_range(fd: c_int, at: off_t, len: off_t, flags: c_uint) -> c_int {
    system_call!(libc::SYS_sync_file_range, fd, at, len, flags) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn syncfs(fd: c_int) -> c_int {
    if Tracer::get().is_some() {
        refuse("syncfs");
    }
    system_call!(libc::SYS_syncfs, fd) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sync() {
    if Tracer::get().is_some() {
        refuse("sync");
    }
    system_call!(libc::SYS_sync);
}

// ---- advice: hooked only to fail; it makes nothing durable ----

/// Returns the error's number, as these functions do.
fn advise_with(fd: c_int, at: off_t, len: off_t, advice: c_int) -> c_int {
    if advice == libc::POSIX_FADV_DONTNEED
        && let Some((tracer, _)) = traced(fd)
        && let Some(errno) = planned(&mut tracer.lock(), Call::Advice)
    {
        return errno;
    }
    let before = errno();
    let result = system_call!(libc::SYS_fadvise64, fd, at, len, advice);
    let after = errno();
    set_errno(before);
    if result == 0 { 0 } else { after }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_fadvise(fd: c_int, at: off_t, len: off_t, advice: c_int) -> c_int {
    advise_with(fd, at, len, advice)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_fadvise64(fd: c_int, at: off_t, len: off_t, advice: c_int) -> c_int {
    advise_with(fd, at, len, advice)
}

// ---- names ----

fn rename_at(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_uint) -> c_int {
    let through = || system_call!(libc::SYS_renameat2, from_at, from, to_at, to, flags) as c_int;
    // Safety: see the module.
    let (from_path, to_path) = unsafe { (CStr::from_ptr(from), CStr::from_ptr(to)) };
    let (tracer, old, new) = match (traced_name(from_at, from_path), traced_name(to_at, to_path)) {
        (None, None) => return through(),
        (Some((tracer, old)), Some((_, new))) if old.folder == new.folder => (tracer, old, new),
        _ => refuse(&format!("a rename between folders: {from_path:?} to {to_path:?}")),
    };
    if flags & !libc::RENAME_NOREPLACE != 0 {
        refuse("renameat2 with flags");
    }
    let mut state = tracer.lock();
    let known = |at: c_int, path: &CStr| {
        facts_at(at, path, libc::AT_SYMLINK_NOFOLLOW).is_some_and(|facts| state.known.contains(&facts.inode))
    };
    if !known(from_at, from_path) {
        // A socket, or nothing.
        if known(to_at, to_path) {
            refuse(&format!("{to_path:?} replaced by what is not traced"));
        }
        return through();
    }
    if let Some(errno) = planned(&mut state, Call::Name) {
        return failed(errno);
    }
    let operation = Operation::Rename { folder: old.folder, from: old.name, to: new.name };
    make(&mut state, operation, |_| (through().into(), 0)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    rename_at(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char) -> c_int {
    rename_at(from_at, from, to_at, to, 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat2(
    from_at: c_int,
    from: *const c_char,
    to_at: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    rename_at(from_at, from, to_at, to, flags)
}

fn unlink_at(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    let through = || system_call!(libc::SYS_unlinkat, folder, path, flags) as c_int;
    // Safety: see the module.
    let path = unsafe { CStr::from_ptr(path) };
    let Some((tracer, found)) = traced_name(folder, path) else { return through() };
    let mut state = tracer.lock();
    // A socket is not among a folder's entries.
    let known = facts_at(folder, path, libc::AT_SYMLINK_NOFOLLOW).filter(|facts| state.known.contains(&facts.inode));
    let Some(facts) = known else { return through() };
    if let Some(errno) = planned(&mut state, Call::Name) {
        return failed(errno);
    }
    make(&mut state, Operation::Remove { folder: found.folder, name: found.name }, |state| {
        let result = through();
        if result == 0 && facts.is(libc::S_IFDIR) {
            // Its inode number may be reused.
            state.known.remove(&facts.inode);
        }
        (result.into(), 0)
    }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    unlink_at(libc::AT_FDCWD, path, 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    unlink_at(folder, path, flags)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn remove(path: *const c_char) -> c_int {
    match unlink_at(libc::AT_FDCWD, path, 0) {
        -1 if errno() == libc::EISDIR => unlink_at(libc::AT_FDCWD, path, libc::AT_REMOVEDIR),
        result => result,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    unlink_at(libc::AT_FDCWD, path, libc::AT_REMOVEDIR)
}

fn make_folder_at(folder: c_int, path: *const c_char, mode: mode_t) -> c_int {
    let through = || system_call!(libc::SYS_mkdirat, folder, path, mode) as c_int;
    // Safety: see the module.
    let path = unsafe { CStr::from_ptr(path) };
    let Some((tracer, found)) = traced_name(folder, path) else { return through() };
    let mut state = tracer.lock();
    if facts_at(folder, path, 0).is_none()
        && let Some(errno) = planned(&mut state, Call::Name)
    {
        return failed(errno);
    }
    make(&mut state, Operation::MakeFolder { folder: found.folder, name: found.name }, |state| {
        let result = through();
        let inode = if result == 0 { facts_at(folder, path, 0).map_or(0, |facts| facts.inode) } else { 0 };
        if inode != 0 {
            state.known.insert(inode);
        }
        (result.into(), inode)
    }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    make_folder_at(libc::AT_FDCWD, path, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdirat(folder: c_int, path: *const c_char, mode: mode_t) -> c_int {
    make_folder_at(folder, path, mode)
}

fn link_at(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_int) -> c_int {
    // Safety: see the module.
    if traced_name(to_at, unsafe { CStr::from_ptr(to) }).is_some() {
        refuse("a hard link in the traced folder");
    }
    system_call!(libc::SYS_linkat, from_at, from, to_at, to, flags) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    link_at(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from_at: c_int,
    from: *const c_char,
    to_at: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    link_at(from_at, from, to_at, to, flags)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn symlinkat(target: *const c_char, folder: c_int, path: *const c_char) -> c_int {
    // Safety: see the module.
    if traced_name(folder, unsafe { CStr::from_ptr(path) }).is_some() {
        refuse("a symbolic link in the traced folder");
    }
    system_call!(libc::SYS_symlinkat, target, folder, path) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn symlink(target: *const c_char, path: *const c_char) -> c_int {
    // Safety: the same contract.
    unsafe { symlinkat(target, libc::AT_FDCWD, path) }
}
