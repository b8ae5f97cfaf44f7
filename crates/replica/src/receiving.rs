//! The thread that receives, or the receiver that waits to be started again.
//!
//! In: a receiver. Out: its thread's end. Never here: what is received.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::ThreadAffinity;
use observe::ConnectionState;
use relay_log::RelayShared;

use crate::exit::{Exit, Failure};
use crate::failure::error_report;
use crate::receiver::link::Link;
use crate::receiver::{Receive, Receiver};

/// How long a request to stop receiving waits for the thread: longer than one attempt to connect takes.
const ENDS_WITHIN: Duration = Duration::from_secs(15);
/// Interval at which the request looks whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

pub(crate) enum Receiving {
    /// The thread runs, or has ended and was not looked at.
    Running(JoinHandle<Option<Receiver>>),
    /// The thread has ended; the relay log is open, so that receiving can go on.
    Stopped(Box<Receiver>),
    /// The relay log is closed: replay ends after its last transaction.
    Ended,
}

impl Receiving {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(affinity: &ThreadAffinity, receiver: Receiver) -> Result<Receiving, Failure> {
        let thread = affinity.spawn("receive", move || receiver.run());
        thread.map(Receiving::Running).map_err(|e| Failure::error(format!("cannot start a thread: {e}")))
    }

    /// Starts the thread, or leaves it stopped.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn begin(
        receive: &Receive,
        receiver: Receiver,
        link: &Link,
        affinity: &ThreadAffinity,
    ) -> Result<Receiving, Failure> {
        let Receive::Stopped(failure) = receive else { return Receiving::start(affinity, receiver) };
        link.io_stop.store(failure.is_none(), Ordering::Release);
        let mut state = link.lock();
        state.source.connection = ConnectionState::Stopped;
        state.received.last_error = failure.as_ref().map(error_report);
        state.received.failure.clone_from(failure);
        Ok(Receiving::Stopped(Box::new(receiver)))
    }

    /// Looks whether the thread has ended.
    ///
    /// # Errors
    /// A defect, if the thread panicked.
    pub(crate) fn look(&mut self) -> Result<(), Failure> {
        match std::mem::replace(self, Receiving::Ended) {
            Receiving::Running(thread) if thread.is_finished() => match thread.join() {
                Ok(Some(receiver)) => *self = Receiving::Stopped(Box::new(receiver)),
                Ok(None) => {}
                Err(_) => {
                    let text = "the receiving thread panicked, see the lines above (a defect of Slipstream)";
                    return Err(Failure::new(Exit::Defect, text));
                }
            },
            other => *self = other,
        }
        Ok(())
    }

    /// The state, after a look whether its thread has ended; a defect is kept in `link`. One that waits to be started
    /// again ends if all is `stopping`.
    pub(crate) fn looked_at<'a>(kept: &'a Mutex<Receiving>, link: &Link, stopping: bool) -> MutexGuard<'a, Receiving> {
        let mut receiving = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(defect) = receiving.look() {
            link.note_error(&defect);
            link.lock().received.failure = Some(defect);
        }
        if stopping && matches!(*receiving, Receiving::Stopped(_)) {
            std::mem::replace(&mut *receiving, Receiving::Ended).end();
        }
        receiving
    }

    /// Tells the thread to stop at a transaction boundary, and waits until it no longer `runs`.
    ///
    /// # Errors
    /// The thread does not end in time; it ends later.
    pub(crate) fn stop(link: &Link, relay: &RelayShared, runs: impl Fn() -> bool) -> Result<(), Failure> {
        link.io_stop.store(true, Ordering::Release);
        relay.end_space_wait();
        link.interrupt();
        let until = Instant::now() + ENDS_WITHIN;
        while runs() {
            if Instant::now() > until {
                return Err(Failure::error("receiving was told to stop and has not ended yet"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Starts receiving again, and has a later stop said anew. False if it runs; None if the relay log is closed.
    ///
    /// # Errors
    /// It is still ending, or a thread cannot be started.
    pub(crate) fn start_again(
        &mut self,
        link: &Link,
        relay: &RelayShared,
        affinity: &ThreadAffinity,
        stop_said: &AtomicBool,
    ) -> Result<Option<bool>, Failure> {
        match std::mem::replace(self, Receiving::Ended) {
            Receiving::Running(thread) => {
                *self = Receiving::Running(thread);
                match link.io_stop.load(Ordering::Acquire) {
                    true => Err(Failure::error("receiving is still ending; try again")),
                    false => Ok(Some(false)),
                }
            }
            Receiving::Ended => Ok(None),
            Receiving::Stopped(receiver) => {
                {
                    let mut state = link.lock();
                    (state.received.failure, state.received.last_error) = (None, None);
                    state.source.connection = ConnectionState::Connecting;
                }
                link.io_stop.store(false, Ordering::Release);
                relay.allow_space_wait();
                stop_said.store(false, Ordering::Relaxed);
                *self = Receiving::start(affinity, *receiver)?;
                Ok(Some(true))
            }
        }
    }

    /// Waits for the thread, which was told to end, and closes the relay log.
    pub(crate) fn end(self) {
        match self {
            Receiving::Running(thread) => {
                if let Ok(Some(receiver)) = thread.join() {
                    receiver.close();
                }
            }
            Receiving::Stopped(receiver) => receiver.close(),
            Receiving::Ended => {}
        }
    }
}
