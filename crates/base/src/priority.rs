//! How urgent a thread is to the system's scheduler.
//!
//! In: nothing. Out: the calling thread's nice value. Never here: a thread that visibility waits for made less urgent.

/// Nice value of threads whose work may wait while replay wants the cores.
const BACKGROUND: i32 = 10;

/// Lets the calling thread work while others leave a core free: where all want one, it has a tenth of what each of them has.
///
/// Replay is what an operator sees as lag; what is merged later costs readers a little until then. Where cuts have to wait for
/// a merge, replay waits with them, and the cores are free.
pub fn to_background() {
    // Linux keeps nice values by thread. Becoming less urgent is never refused; if it were, all would be as before.
    if rustix::process::getpriority_process(None).is_ok_and(|nice| nice < BACKGROUND) {
        let _ = rustix::process::setpriority_process(None, BACKGROUND);
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
            to_background();
            nice()
        });
        assert_eq!(there.join().unwrap(), before.max(BACKGROUND));
        assert_eq!(nice(), before);
    }
}
