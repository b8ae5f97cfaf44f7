//! What the system's allocator is told where little memory is allowed.
//!
//! In: the memory limit. Out: nothing but the allocator's settings. Never here: an allocation.
#![allow(unsafe_code)]

/// Below this limit what is freed goes back to the system at once.
///
/// glibc keeps freed chunks in the arena of each thread. On the TPC-C log with `--memory 128M` those were 55 of 198 MB
/// of peak resident memory; giving them back costs 5 to 10 % of CPU time, which a larger limit does not have to pay.
const GIVES_BACK_BELOW: u64 = 256 << 20;

/// Sets the allocator up for a memory limit; only glibc's knows these settings, elsewhere nothing happens.
pub fn suit(limit_bytes: u64) {
    if limit_bytes >= GIVES_BACK_BELOW {
        return;
    }
    #[cfg(all(target_env = "gnu", not(feature = "jemalloc"), not(feature = "mimalloc")))]
    // Safety: mallopt(3) takes two integers and is safe to call at any time and from any thread (it takes the arena's
    // lock); it changes no chunk that is in use.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 20);
    }
}
