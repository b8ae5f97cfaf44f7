//! The connections to the source: how many there may be, which sessions wait for one, and which are nobody's now.
//!
//! In: sessions that want a connection, connections that sessions need no more. Out: the right to one, with an idle one
//! of the same user if possible. Never here: a login, a statement, a wait.

use std::collections::VecDeque;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use client::NonBlocking;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::{command, packet};

/// How often idle connections are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Whose sessions can use a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// The user's name at the source.
    pub(crate) user: String,
    /// Capabilities of its sessions, which no login changes.
    pub(crate) capabilities: u32,
    /// The number of its source.
    pub(crate) number: u64,
}

/// A connection that no session has.
pub(crate) struct Idle {
    stream: NonBlocking,
    key: Key,
    /// When it is closed, if nobody has taken it.
    until: Instant,
}

impl Idle {
    pub(crate) fn new(stream: NonBlocking, key: Key, until: Instant) -> Idle {
        Idle { stream, key, until }
    }

    pub(crate) fn is_of(&self, key: &Key) -> bool {
        self.key == *key
    }

    pub(crate) fn into_stream(self) -> NonBlocking {
        self.stream
    }

    /// Takes leave: the source counts and logs clients that do not.
    fn close(mut self) {
        let mut quit = Vec::new();
        packet::write(&mut quit, &mut 0, &[command::QUIT]);
        // Whether it arrives is not awaited.
        let _ = self.stream.write(&quit).and_then(|_| self.stream.flush());
    }
}

/// The right to have one of the connections. One that is dropped goes to a session that waits for it.
pub(crate) struct Permit {
    pool: Arc<Pool>,
    /// An open connection that stands for it, perhaps another user's.
    idle: Option<Idle>,
}

impl Permit {
    /// The connection that comes with it. One that its session cannot use is to be closed first.
    pub(crate) fn take_idle(&mut self) -> Option<Idle> {
        self.idle.take()
    }

    /// Its session needs it no more, and others may have its connection.
    pub(crate) fn give_back(mut self, idle: Idle) {
        self.idle = Some(idle);
    }

    /// Takes the connections of this user that nobody has.
    pub(crate) fn take_idle_of(&self, user: &str) -> Vec<Idle> {
        self.pool.take_out(|idle| idle.key.user == user)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.pool.free(self.idle.take());
    }
}

/// A session that waits for a connection.
struct Waiting {
    /// The number of its client's connection.
    number: u64,
    given: Box<dyn FnOnce(Permit) + Send>,
}

#[derive(Default)]
struct State {
    /// Idle ones count too.
    open: usize,
    /// Sessions that wait for one, in order. Some may be gone. As long as there are some, none is idle.
    waiting: VecDeque<Waiting>,
    /// The one that is idle for the longest time comes first.
    idle: VecDeque<Idle>,
    looked: Option<Instant>,
    /// The server stops: nothing is kept.
    is_over: bool,
}

/// All connections to the source.
pub(crate) struct Pool {
    most: usize,
    state: Mutex<State>,
}

/// How many connections there are.
pub(crate) struct Sizes {
    pub(crate) open: usize,
    /// How many of these no session has.
    pub(crate) idle: usize,
    /// Sessions that wait for one.
    pub(crate) waiting: usize,
}

impl Pool {
    pub(crate) fn new(most: usize) -> Arc<Pool> {
        Arc::new(Pool { most, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sizes(&self) -> Sizes {
        let state = self.lock();
        Sizes { open: state.open, idle: state.idle.len(), waiting: state.waiting.len() }
    }

    /// The right to one more; None: `given` gets it later, unless the client's connection of this number is forgotten.
    pub(crate) fn permit(
        self: &Arc<Self>,
        number: u64,
        key: &Key,
        given: Box<dyn FnOnce(Permit) + Send>,
    ) -> Option<Permit> {
        let mut state = self.lock();
        let permit = |idle| Some(Permit { pool: Arc::clone(self), idle });
        // The one that was used last: others are closed sooner.
        if let Some(at) = state.idle.iter().rposition(|idle| idle.is_of(key)) {
            return permit(state.idle.remove(at));
        }
        if state.open < self.most {
            state.open += 1;
            return permit(None);
        }
        let oldest = state.idle.pop_front();
        if oldest.is_none() {
            state.waiting.push_back(Waiting { number, given });
            return None;
        }
        permit(oldest)
    }

    /// It waits no more.
    pub(crate) fn forget(&self, number: u64) {
        self.lock().waiting.retain(|waiting| waiting.number != number);
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    pub(crate) fn has_idle(&self) -> bool {
        !self.lock().idle.is_empty()
    }

    /// A permit is free, perhaps with a connection.
    fn free(self: &Arc<Self>, idle: Option<Idle>) {
        let mut state = self.lock();
        let Some(Waiting { given, .. }) = state.waiting.pop_front() else {
            return match idle {
                Some(idle) if !state.is_over => state.idle.push_back(idle),
                idle => {
                    state.open -= 1;
                    drop(state);
                    idle.into_iter().for_each(Idle::close);
                }
            };
        };
        drop(state);
        given(Permit { pool: Arc::clone(self), idle });
    }

    /// Takes idle ones out, which are open no more then.
    fn take_out(&self, is_out: impl Fn(&Idle) -> bool) -> Vec<Idle> {
        let mut state = self.lock();
        let State { idle, open, .. } = &mut *state;
        let (out, kept): (VecDeque<Idle>, VecDeque<Idle>) = idle.drain(..).partition(is_out);
        *idle = kept;
        *open -= out.len();
        out.into()
    }

    /// Closes idle connections whose time is over, to which the source has said anything, or whose source is not
    /// followed any more.
    pub(crate) fn look(&self, now: Instant, number: Option<u64>) {
        {
            let mut state = self.lock();
            if state.idle.is_empty() || state.looked.is_some_and(|at| now < at + LOOK_EVERY) {
                return;
            }
            state.looked = Some(now);
        }
        let closed = self.take_out(|idle| {
            let is_of_another = number.is_some_and(|number| number != idle.key.number);
            is_of_another || idle.until <= now || has_come(&idle.stream)
        });
        closed.into_iter().for_each(Idle::close);
    }

    /// The server stops: nothing is kept any more.
    pub(crate) fn let_go(&self) {
        self.lock().is_over = true;
        self.take_out(|_| true).into_iter().for_each(Idle::close);
    }
}

/// True if something has come over a connection, or its end.
fn has_come(stream: &NonBlocking) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)];
    // Interrupted: the next look sees it.
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|found| found > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(user: &str) -> Key {
        Key { user: user.to_owned(), capabilities: 1, number: 1 }
    }

    #[test]
    fn permits_go_round() {
        let pool = Pool::new(1);
        let (told, given) = std::sync::mpsc::channel();
        let wait = |number: u64| {
            let told = told.clone();
            pool.permit(number, &key("a"), Box::new(move |permit| told.send((number, permit)).unwrap()))
        };
        let first = wait(1).unwrap();
        assert!(wait(2).is_none() && wait(3).is_none() && wait(4).is_none());
        pool.forget(3);
        drop(first);
        let (number, second) = given.try_recv().unwrap();
        assert_eq!((number, pool.sizes().open, pool.sizes().waiting), (2, 1, 1));
        drop(second);
        let (number, last) = given.try_recv().unwrap();
        assert_eq!((number, pool.has_waiting()), (4, false));
        drop(last);
        assert_eq!((pool.sizes().open, pool.sizes().idle), (0, 0));
        assert!(given.try_recv().is_err());
    }
}
