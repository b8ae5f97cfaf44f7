//! The thread that receives, or the receiver that waits to be started again.
//!
//! In: a receiver. Out: its thread's end. Never here: what is received.

use std::thread::JoinHandle;

use base::ThreadAffinity;

use crate::exit::{Exit, Failure};
use crate::receiver::Receiver;

/// State of receiving.
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
