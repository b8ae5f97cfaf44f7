//! Scheduling priority of threads.
//!
//! In: nothing. Out: the calling thread's nice value. Never here: a lower priority for a thread that the watermark
//! waits for.

/// Nice value of threads whose work can wait while replay needs the cores.
const BACKGROUND: i32 = 10;

/// Nice value of threads that answer readers.
const READERS: i32 = 3;

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
            to_background();
            let background = nice();
            to_readers();
            [readers, background, nice()]
        });
        let low = before.max(BACKGROUND);
        assert_eq!(there.join().unwrap(), [before.max(READERS), low, low], "never raised again");
        assert_eq!(nice(), before);
    }
}
