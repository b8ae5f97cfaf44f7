//! glibc malloc tuning: return freed memory to the system.
//!
//! In: the memory limit; calls at moments when much was freed. Out: nothing but a change in the allocator's behaviour.
//! Never here: an allocation of its own (except to read `/proc`). Only glibc's allocator is tuned, because it keeps
//! freed memory in an arena per thread. With another libc or global allocator these functions have no useful effect.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// Below this limit, bytes, glibc returns every large freed block to the system immediately.
///
/// On the TPC-C log with `--memory 128M`, memory freed but kept was 55 of 198 MB of peak resident memory. Returning it
/// immediately costs 5 to 10 % of CPU time, which larger limits need not pay.
const TRIMS_AT_ONCE_BELOW: u64 = 256 << 20;

/// Memory limit that [`trim`] works towards, bytes. 0 until [`configure`] is called: always trim.
static LIMIT: AtomicU64 = AtomicU64::new(0);

/// Configures the allocator for a memory limit in bytes.
pub fn configure(limit_bytes: u64) {
    LIMIT.store(limit_bytes, Ordering::Relaxed);
    if limit_bytes >= TRIMS_AT_ONCE_BELOW {
        return;
    }
    #[cfg(target_env = "gnu")]
    // Safety: mallopt(3) takes two integers and may be called at any time from any thread (it takes the arena's lock).
    // It changes no chunk that is in use.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 20);
    }
}

/// Returns whole free pages of all arenas to the system when resident memory is near the limit.
///
/// Call it after much was freed, but not often: it walks all free chunks, 10 to 40 ms per call, and each returned page
/// costs a fault when it is needed again.
///
/// Without it, a store of 3 GB under `--memory 256M` had 461 MB of peak resident memory after an hour's worth of cuts,
/// most of it free pages between small long-lived blocks.
pub fn trim() {
    let limit = LIMIT.load(Ordering::Relaxed);
    // Margin for what a generation may grow by between two calls: a quarter of the limit.
    if limit > 0 && resident_bytes().is_some_and(|bytes| bytes < limit / 4 * 3) {
        return;
    }
    #[cfg(target_env = "gnu")]
    // Safety: malloc_trim(3) takes an integer, is thread-safe, and touches free chunks only.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Resident memory of this process, bytes; None if the system does not report it.
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
