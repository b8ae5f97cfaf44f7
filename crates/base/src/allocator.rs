//! What the system's allocator is told, so that freed memory does not count as used.
//!
//! In: the memory limit; moments at which much was freed. Out: nothing but the allocator's doing. Never here: an allocation.
//! Only glibc's allocator is told anything. It keeps what is freed in an arena of each thread; elsewhere, and with another
//! global allocator, these do nothing that matters.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// Below this limit each freed block of some size goes back to the system at once.
///
/// On the TPC-C log with `--memory 128M` what was freed and kept was 55 of 198 MB of peak resident memory; giving it back
/// costs 5 to 10 % of CPU time, which a larger limit does not have to pay.
const GIVES_BACK_AT_ONCE_BELOW: u64 = 256 << 20;

/// What [`give_back`] works for, bytes; 0 before [`suit`]: always.
static LIMIT: AtomicU64 = AtomicU64::new(0);

/// Sets the allocator up for a memory limit, bytes.
pub fn suit(limit_bytes: u64) {
    LIMIT.store(limit_bytes, Ordering::Relaxed);
    if limit_bytes >= GIVES_BACK_AT_ONCE_BELOW {
        return;
    }
    #[cfg(target_env = "gnu")]
    // Safety: mallopt(3) takes two integers and may be called at any time and from any thread (it takes the arena's lock); it
    // changes no chunk that is in use.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 20);
    }
}

/// Gives whole free pages in all arenas back to the system, where resident memory is near the limit; to be called where much
/// was freed, not often: it walks what is free, 10 to 40 ms at a time, and each page given back is a fault when it is wanted
/// again.
///
/// Without, a store of 3 GB under `--memory 256M` had 461 MB of peak resident memory after an hour's worth of cuts, most of it
/// free pages between small blocks that live long.
pub fn give_back() {
    let limit = LIMIT.load(Ordering::Relaxed);
    // Between two calls a generation grows: a quarter of the limit.
    if limit > 0 && resident_bytes().is_some_and(|bytes| bytes < limit / 4 * 3) {
        return;
    }
    #[cfg(target_env = "gnu")]
    // Safety: malloc_trim(3) takes an integer, is thread-safe, and touches free chunks only.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Resident memory of this process; None where the system does not tell.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_that_of_this_process() {
        let before = resident_bytes().unwrap();
        let touched = vec![1u8; 64 << 20];
        let after = resident_bytes().unwrap();
        assert!(after > before + (48 << 20), "{before} {after}");
        drop(touched);
    }
}
