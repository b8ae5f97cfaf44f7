//! Scheduling priority of threads.
//!
//! In: nothing. Out: the calling thread's nice value and slice. Never here: a lower priority for a thread that the
//! watermark waits for.
#![allow(unsafe_code)]

/// Nice value of threads whose work can wait while replay needs the cores.
const BACKGROUND: i32 = 10;

/// Nice value of threads that answer readers.
const READERS: i32 = 3;

/// Slice of threads that answer readers, in nanoseconds: the shortest that Linux grants.
const SHORT_SLICE_NS: u64 = 100_000;

/// Lets the calling thread run in short slices: it then waits less for a core that another thread has, and gives it up
/// as soon. Its share of the CPU time stays what it is.
///
/// For threads that answer readers in some 10 µs. Linux lets a thread finish its slice, 3 ms by default, before one
/// that woke up takes the core, whatever their nice values; the shortest slice of those that wait bounds that. Linux
/// before 6.12 knows no slices of single threads, and nothing changes.
pub fn to_short_slices() {
    let Ok(nice) = rustix::process::getpriority_process(None) else { return };
    let attributes = libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).unwrap_or_default(),
        sched_policy: 0,
        sched_flags: libc::SCHED_FLAG_KEEP_POLICY as u64,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SHORT_SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // Safety: sched_setattr(2) reads `size` bytes of the struct, which lives longer than the call; thread 0 is the
    // calling one. Where it is refused, the slice stays as it was.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

/// Lowers the priority of the calling thread a little: when every core is busy it gets half as much CPU time as a
/// normal thread.
///
/// For threads that answer readers. On one core, beside readers that would use all of it, replay keeps about 80 % of
/// its rate and they 30 % of theirs (`benches/beside-readers`). Where a core is idle nothing changes.
pub fn to_readers() {
    lower_to(READERS);
}

/// Lowers the priority of the calling thread: when every core is busy it gets about a tenth of the CPU time of a normal
/// thread.
///
/// For background merges. Operators see replay as lag, whereas a late merge only makes reads slightly slower for a
/// while. When cuts must wait for a merge, replay waits too, so the cores are free for the merge.
pub fn to_background() {
    lower_to(BACKGROUND);
}

fn lower_to(value: i32) {
    // Linux keeps nice values per thread. Raising one is never refused; if it were, the thread would merely keep its
    // priority.
    if rustix::process::getpriority_process(None).is_ok_and(|nice| nice < value) {
        let _ = rustix::process::setpriority_process(None, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_becomes_less_urgent_and_no_other() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        let there = std::thread::spawn(move || {
            to_readers();
            let readers = nice();
            to_short_slices();
            let in_slices = nice();
            to_background();
            let background = nice();
            to_readers();
            [readers, in_slices, background, nice()]
        });
        let (low, readers) = (before.max(BACKGROUND), before.max(READERS));
        assert_eq!(there.join().unwrap(), [readers, readers, low, low], "never raised again");
        assert_eq!(nice(), before);
    }
}
