//! Scheduling priority of threads.
//!
//! In: nothing. Out: the calling thread's nice value and slice. Never here: a lower priority for a thread that the
//! watermark waits for.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

/// Nice value of threads whose work can wait while replay needs the cores.
const BACKGROUND: i32 = 10;

/// Nice value of threads that answer readers.
const READERS: i32 = 3;

/// Slice of a thread that answers readers now and then, in nanoseconds: the shortest that Linux grants.
const SHORT_SLICE_NS: u64 = 100_000;

/// How long a thread that answers readers may have a core before another one gets it.
///
/// Linux lets a thread finish its slice, 3 ms by default, before one that woke up takes the core, whatever their nice
/// values; one of shorter slices need not wait for that. So a thread that works for some 10 µs now and then runs in
/// short slices, and one that always has work in usual ones: beside readers that would use all of a core, short ones
/// take replay's rate there from 86 to 59 % (`benches/beside-readers`), since every request interrupts it. Shares of
/// the CPU time are what nice values make them. Linux before 6.12 knows no slices of single threads, and nothing
/// changes.
#[derive(Debug)]
pub struct Slices {
    /// Time on a core and time that the thread waited for one; None where the system does not tell.
    schedstat: Option<File>,
    looked: Instant,
    ready_ns: u64,
    are_short: bool,
}

impl Slices {
    /// Of the calling thread, which must be the one that [`look`](Slices::look)s.
    #[must_use]
    pub fn of_this_thread() -> Slices {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let mut slices = Slices { schedstat, looked: Instant::now(), ready_ns: 0, are_short: false };
        if let Some(ready_ns) = slices.ready_ns() {
            slices.ready_ns = ready_ns;
            slices.change(true);
        }
        slices
    }

    /// Makes them short where the thread had work for less than half of the time since the last call.
    pub fn look(&mut self) {
        if let Some(ready_ns) = self.ready_ns() {
            self.judge(Instant::now(), ready_ns);
        }
    }

    fn judge(&mut self, now: Instant, ready_ns: u64) {
        let passed_ns = now.saturating_duration_since(self.looked).as_nanos();
        let had_work_ns = u128::from(ready_ns.saturating_sub(self.ready_ns));
        (self.looked, self.ready_ns) = (now, ready_ns);
        self.change(had_work_ns * 2 < passed_ns);
    }

    /// Time since the thread's start that it ran or waited for a core.
    fn ready_ns(&self) -> Option<u64> {
        let mut text = [0; 80];
        let len = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..len)?).ok()?;
        let mut numbers = text.split_ascii_whitespace().map_while(|number| number.parse::<u64>().ok());
        Some(numbers.next()? + numbers.next()?)
    }

    fn change(&mut self, short: bool) {
        if std::mem::replace(&mut self.are_short, short) != short {
            // 0 is the system's own.
            set_slice(if short { SHORT_SLICE_NS } else { 0 });
        }
    }
}

fn set_slice(slice_ns: u64) {
    let Ok(nice) = rustix::process::getpriority_process(None) else { return };
    let attributes = libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).unwrap_or_default(),
        sched_policy: 0,
        sched_flags: libc::SCHED_FLAG_KEEP_POLICY as u64,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: slice_ns,
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_thread_becomes_less_urgent_and_no_other() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        let there = std::thread::spawn(move || {
            to_readers();
            let readers = nice();
            let mut slices = Slices::of_this_thread();
            let in_slices = nice();
            to_background();
            let background = nice();
            to_readers();
            slices.look();
            [readers, in_slices, background, nice()]
        });
        let (low, readers) = (before.max(BACKGROUND), before.max(READERS));
        assert_eq!(there.join().unwrap(), [readers, readers, low, low], "never raised again");
        assert_eq!(nice(), before);
    }

    #[test]
    fn slices_are_short_while_there_is_little_to_do() {
        let mut slices = Slices::of_this_thread();
        assert!(slices.are_short && slices.ready_ns().is_some_and(|ready_ns| ready_ns >= slices.ready_ns));
        let (mut now, mut ready_ns) = (slices.looked, slices.ready_ns);
        for (work_ms, passed_ms, are_short) in [(10, 100, true), (60, 100, false), (100, 100, false), (40, 100, true)] {
            now += Duration::from_millis(passed_ms);
            ready_ns += work_ms * 1_000_000;
            slices.judge(now, ready_ns);
            assert_eq!(slices.are_short, are_short, "{work_ms} of {passed_ms} ms");
        }
    }
}
