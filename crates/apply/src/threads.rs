//! The threads of replay: starts them, watches them, and ends them together.
//!
//! In: the body of each thread. Out: the first fault, and the CPU time of each thread. Invariant: whatever ends one
//! (a request, a panic) ends all. Never here: the work of a thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use base::ThreadAffinity;
use decode::Stop;

use crate::shutdown::Shutdown;

/// CPU time of one thread.
#[derive(Clone, Debug)]
pub struct StageTime {
    pub stage: String,
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
}

type Unblock = Box<dyn Fn() + Send>;

/// The threads of one replay.
pub struct Threads {
    shutdown: Arc<Shutdown>,
    affinity: ThreadAffinity,
    fault: Mutex<Option<Stop>>,
    times: Mutex<Vec<StageTime>>,
    running: Mutex<Vec<JoinHandle<()>>>,
    /// Callbacks that release threads from waits for input that a failed thread would have brought.
    unblock: Mutex<Vec<Unblock>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Threads {
    /// Creates an empty set whose threads will run on these CPUs.
    #[must_use]
    pub fn new(affinity: ThreadAffinity) -> Arc<Threads> {
        Arc::new(Threads {
            shutdown: Arc::default(),
            affinity,
            fault: Mutex::default(),
            times: Mutex::default(),
            running: Mutex::default(),
            unblock: Mutex::default(),
        })
    }

    /// Returns the flags that threads poll for the end of replay.
    #[must_use]
    pub fn shutdown(&self) -> &Arc<Shutdown> {
        &self.shutdown
    }

    /// Registers a callback for the failure of a thread; it must release whoever waits for what will not come.
    pub fn on_failure(&self, unblock: impl Fn() + Send + 'static) {
        lock(&self.unblock).push(Box::new(unblock));
    }

    /// Starts a thread that [`join`](Self::join) waits for.
    ///
    /// # Panics
    /// When the system cannot start a thread.
    pub fn spawn(self: &Arc<Self>, name: &str, work: impl FnOnce() + Send + 'static) {
        let handle = self.spawn_apart(name, work);
        lock(&self.running).push(handle);
    }

    /// Starts a thread that only the caller waits for.
    ///
    /// # Panics
    /// When the system cannot start a thread.
    #[must_use]
    pub fn spawn_apart(self: &Arc<Self>, name: &str, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        let (threads, stage) = (Arc::clone(self), name.to_string());
        let body = move || {
            // Unwind safety: the closure owns its state and drops it here; shared state is guarded by locks that
            // outlive it.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                let text = panic.downcast_ref::<&str>().copied();
                let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panicked");
                threads.break_off(Stop::of_panic(&stage, text));
            }
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            let cpu_ns = time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned();
            lock(&threads.times).push(StageTime { stage, cpu_ns });
        };
        match self.affinity.spawn(name, body) {
            Ok(handle) => handle,
            Err(error) => panic!("cannot start thread {name}: {error}"),
        }
    }

    /// Records why replay cannot continue, if no earlier reason is recorded.
    pub(crate) fn set_fault(&self, stop: Stop) {
        lock(&self.fault).get_or_insert(stop);
    }

    /// Ends replay because a stage is gone, and releases every thread that waits for another.
    pub(crate) fn break_off(&self, stop: Stop) {
        self.set_fault(stop);
        self.shutdown.break_off();
        lock(&self.unblock).iter().for_each(|unblock| unblock());
    }

    /// Returns the first fault, if any.
    #[must_use]
    pub fn fault(&self) -> Option<Stop> {
        lock(&self.fault).clone()
    }

    /// True if all threads are done.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        lock(&self.running).iter().all(JoinHandle::is_finished)
    }

    /// Waits until all threads are done; returns the CPU time of each.
    pub fn join(&self) -> Vec<StageTime> {
        let running = std::mem::take(&mut *lock(&self.running));
        for thread in running {
            // A panic was already caught in the thread and recorded as a fault.
            let _ = thread.join();
        }
        lock(&self.times).clone()
    }
}
