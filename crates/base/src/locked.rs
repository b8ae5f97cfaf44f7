//! Memory for secrets: not swapped out, in no core dump, zeroed once it is not used any more.
//!
//! In: bytes. Out: the same, as long as somebody has them. Never here: a secret in a Debug text; a place that is given
//! back to the system.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Longest secret in bytes: MySQL's longest password.
pub const SECRET_BYTES_MAX: usize = 256;

/// A place for one secret, of [`SECRET_BYTES_MAX`] bytes inside a locked page.
struct Place(NonNull<u8>);

// Safety: a place has one owner at a time, the list of free ones or a `Locked`, and belongs to no thread.
unsafe impl Send for Place {}
// Safety: a shared reference to a `Locked` only reads it.
unsafe impl Sync for Place {}

/// Places that nobody uses.
static FREE: Mutex<Vec<Place>> = Mutex::new(Vec::new());

/// A secret, until it is dropped.
pub struct Locked {
    place: Place,
    len: usize,
}

impl std::fmt::Debug for Locked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Locked")
    }
}

impl Locked {
    /// Keeps a copy of a secret. Whoever has the other one sees to it that it is gone.
    ///
    /// # Errors
    /// It is longer than [`SECRET_BYTES_MAX`], or the system lets the process lock no more memory (RLIMIT_MEMLOCK).
    pub fn new(secret: &[u8]) -> io::Result<Locked> {
        if secret.len() > SECRET_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a secret of more than 256 bytes"));
        }
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        if free.is_empty() {
            free.extend(page()?);
        }
        let place = free.pop().ok_or(io::ErrorKind::OutOfMemory)?;
        // Safety: the place has SECRET_BYTES_MAX bytes, mapped for ever, and was on the list: nobody else has it.
        unsafe { std::ptr::copy_nonoverlapping(secret.as_ptr(), place.0.as_ptr(), secret.len()) };
        Ok(Locked { place, len: secret.len() })
    }

    /// The bytes that were kept.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // Safety: `new` has written this many bytes there, and until the drop nobody else has the place.
        unsafe { std::slice::from_raw_parts(self.place.0.as_ptr(), self.len) }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        for at in 0..self.len {
            // Safety: inside the place, which nobody else has. Volatile: nobody reads it before it is written again.
            unsafe { self.place.0.as_ptr().add(at).write_volatile(0) };
        }
        let place = Place(self.place.0);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(place);
    }
}

/// Places in a page of their own.
fn page() -> io::Result<impl Iterator<Item = Place>> {
    let len = rustix::param::page_size();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // Safety: a new anonymous mapping, at an address that the system chooses.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // Safety: exactly the mapping above, which nobody uses yet.
    let is_kept = unsafe { libc::mlock(start, len) == 0 && libc::madvise(start, len, libc::MADV_DONTDUMP) == 0 };
    if !is_kept {
        let error = io::Error::last_os_error();
        // Safety: the same.
        unsafe { libc::munmap(start, len) };
        return Err(error);
    }
    let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
    // Safety: at each offset the mapping has SECRET_BYTES_MAX bytes.
    Ok((0..len / SECRET_BYTES_MAX).map(move |at| Place(unsafe { start.add(at * SECRET_BYTES_MAX) })))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attributes of the mapping that an address is in, as /proc/self/smaps has them.
    fn flags_of(address: usize) -> String {
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in text.lines() {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let range = range.and_then(|(from, to)| {
                Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
            });
            match range {
                Some((from, to)) => inside = (from..to).contains(&address),
                None if inside && line.starts_with("VmFlags:") => return line.to_owned(),
                None => {}
            }
        }
        panic!("no mapping of {address:x}");
    }

    #[test]
    fn secrets_are_locked_not_dumped_and_zeroed() {
        let all: Vec<Locked> = (0..100_u8).map(|byte| Locked::new(&[byte; SECRET_BYTES_MAX]).unwrap()).collect();
        for (byte, one) in (0..).zip(&all) {
            assert_eq!(one.bytes(), [byte; SECRET_BYTES_MAX]);
        }
        let one = Locked::new(b"a secret").unwrap();
        assert_eq!((one.bytes(), format!("{one:?}").as_str()), (&b"a secret"[..], "Locked"));
        let flags = flags_of(one.bytes().as_ptr() as usize);
        assert!(flags.contains(" lo") && flags.contains(" dd"), "{flags}");
        let place = one.place.0;
        drop((one, all));
        // Safety: the page is mapped for ever, and no other test of this crate keeps a secret.
        let left = unsafe { std::slice::from_raw_parts(place.as_ptr(), 8) };
        assert_eq!(left, [0; 8]);
        assert!(Locked::new(&[0; SECRET_BYTES_MAX + 1]).is_err());
    }
}
