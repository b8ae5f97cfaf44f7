//! Bounded queue between two stages that wakes its ends once per batch of items.
//!
//! In: items. Out: the same items in order of arrival, each to one receiver. A receiver that found nothing is woken
//! when a batch of items is there, or when a sender announces that it is about to wait itself ([`Sender::flush`]). A
//! sender that found no room is woken when half of the room is free. A busy stage therefore costs the next one two
//! system calls per batch instead of two per item, and a lone item is received as soon as its sender has nothing else
//! to do.
//!
//! Invariants: if each sender flushes before it waits for anything, no item is left in front of a sleeping receiver
//! while all senders wait (`tests/interleavings`); items that nobody will receive are dropped, together with what they
//! hold. Never here: an order between items of two senders.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::counted_condvar::CountedCondvar;
use crate::sync::{Mutex, MutexGuard};

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Where receivers wait for items.
    arrived: CountedCondvar,
    /// Where senders wait for room.
    freed: CountedCondvar,
    capacity: usize,
    batch: usize,
}

struct State<T> {
    items: VecDeque<T>,
    senders: usize,
    receivers: usize,
    poked: bool,
}

/// Result of a receive.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<T> {
    Item(T),
    Nothing,
    /// No item ever again: all senders are gone.
    Ended,
}

/// Sending end. The queue ends when the last one is dropped.
pub struct Sender<T>(Arc<Shared<T>>);

/// Receiving end. When the last one is dropped, items left are dropped and sends fail.
pub struct Receiver<T>(Arc<Shared<T>>);

/// Wakes receivers on behalf of a thread that sends nothing. Does not keep the queue open.
pub struct Waker<T>(Arc<Shared<T>>);

/// Creates a queue of at most `capacity` items whose receivers sleep until `batch` of them are there. Both are at least
/// 1; a batch is at most the capacity.
#[must_use]
pub fn queue<T>(capacity: usize, batch: usize) -> (Sender<T>, Receiver<T>) {
    let capacity = capacity.max(1);
    let shared = Arc::new(Shared {
        state: Mutex::new(State { items: VecDeque::with_capacity(capacity), senders: 1, receivers: 1, poked: false }),
        arrived: CountedCondvar::new(),
        freed: CountedCondvar::new(),
        capacity,
        batch: batch.clamp(1, capacity),
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flush(&self) {
        let state = self.lock();
        match state.items.len() {
            0 => {}
            1 => self.arrived.wake_one(state),
            _ => self.arrived.wake_all(state),
        }
    }
}

impl<T> Sender<T> {
    /// Enqueues an item; waits while there is no room.
    ///
    /// # Errors
    /// Returns the item if no receiver is left.
    pub fn send(&self, item: T) -> Result<(), T> {
        let shared = &*self.0;
        let mut state = shared.lock();
        // A full queue holds a batch, so receivers that waited for one are already awake.
        while state.items.len() >= shared.capacity && state.receivers > 0 {
            state = shared.freed.wait(state);
        }
        if state.receivers == 0 {
            return Err(item);
        }
        state.items.push_back(item);
        if state.items.len() >= shared.batch && shared.arrived.any() {
            shared.arrived.wake_one(state);
        }
        Ok(())
    }

    /// True if the next send would not wait, provided nobody else sends.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let state = self.0.lock();
        state.items.len() < self.0.capacity || state.receivers == 0
    }

    /// Wakes receivers for the items that are there. The sender calls this before it waits for anything else.
    pub fn flush(&self) {
        self.0.flush();
    }

    /// Returns a handle that only wakes receivers.
    #[must_use]
    pub fn waker(&self) -> Waker<T> {
        Waker(Arc::clone(&self.0))
    }
}

impl<T> Waker<T> {
    /// Same as [`Sender::flush`].
    pub fn flush(&self) {
        self.0.flush();
    }

    /// Ends one wait of [`Receiver::recv_timeout`]: the current one, or the next that would start.
    pub fn poke(&self) {
        let mut state = self.0.lock();
        state.poked = true;
        self.0.arrived.wake_all(state);
    }
}

impl<T> Receiver<T> {
    /// Waits for the next item; None once all senders are gone.
    #[must_use]
    pub fn recv(&self) -> Option<T> {
        let mut state = self.0.lock();
        loop {
            match self.take(state) {
                Ok(Received::Item(item)) => return Some(item),
                Ok(_) => return None,
                Err(empty) => state = self.0.arrived.wait(empty),
            }
        }
    }

    /// The next item if there is one, without waiting.
    #[must_use]
    pub fn try_recv(&self) -> Received<T> {
        self.take(self.0.lock()).unwrap_or(Received::Nothing)
    }

    /// Waits for the next item for at most `timeout`, or until a [`Waker::poke`].
    #[must_use]
    pub fn recv_timeout(&self, timeout: Duration) -> Received<T> {
        let deadline = Instant::now() + timeout;
        let mut state = self.0.lock();
        loop {
            state = match self.take(state) {
                Ok(received) => return received,
                Err(empty) => empty,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if std::mem::take(&mut state.poked) || left.is_zero() {
                return Received::Nothing;
            }
            state = self.0.arrived.wait_timeout(state, left);
        }
    }

    /// An item or the end. If there is neither, returns the lock, so that the caller can wait under it.
    fn take<'a>(&'a self, mut state: MutexGuard<'a, State<T>>) -> Result<Received<T>, MutexGuard<'a, State<T>>> {
        let Some(item) = state.items.pop_front() else {
            return if state.senders == 0 { Ok(Received::Ended) } else { Err(state) };
        };
        if state.items.len() <= self.0.capacity / 2 && self.0.freed.any() {
            self.0.freed.wake_all(state);
        }
        Ok(Received::Item(item))
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.lock().senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.senders -= 1;
        if state.senders == 0 {
            self.0.arrived.wake_all(state);
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.0.lock().receivers += 1;
        Receiver(Arc::clone(&self.0))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.receivers -= 1;
        if state.receivers == 0 {
            let left = std::mem::take(&mut state.items);
            self.0.freed.wake_all(state);
            drop(left);
        }
    }
}

impl<T> Clone for Waker<T> {
    fn clone(&self) -> Waker<T> {
        Waker(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Waker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn every_item_comes_once_and_in_its_senders_order() {
        for (capacity, batch, senders, receivers) in [(1, 1, 1, 1), (4, 2, 1, 3), (8, 8, 3, 1), (64, 16, 2, 2)] {
            let (sender, receiver) = queue(capacity, batch);
            let sum = AtomicU64::new(0);
            thread::scope(|scope| {
                for own in 0..senders {
                    let sender = sender.clone();
                    scope.spawn(move || {
                        for n in 0..5_000u64 {
                            sender.send((own, n)).unwrap();
                            if n % 37 == 0 {
                                sender.flush();
                            }
                        }
                    });
                }
                drop(sender);
                for _ in 0..receivers {
                    let (receiver, sum) = (receiver.clone(), &sum);
                    scope.spawn(move || {
                        let mut last = vec![None; senders];
                        while let Some((own, n)) = receiver.recv() {
                            assert!(last[own] < Some(n), "{n} behind {:?}", last[own]);
                            last[own] = Some(n);
                            sum.fetch_add(n, Ordering::Relaxed);
                        }
                    });
                }
            });
            assert_eq!(sum.into_inner(), senders as u64 * (0..5_000).sum::<u64>());
        }
    }

    #[test]
    fn a_receiver_sleeps_until_a_batch_is_there_or_is_flushed() {
        let (sender, receiver) = queue(8, 3);
        let (got, gets) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            while let Some(item) = receiver.recv() {
                got.send(item).unwrap();
            }
        });
        let asleep = || {
            while !sender.0.arrived.any() {
                thread::yield_now();
            }
        };
        asleep();
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        assert!(sender.0.arrived.any() && gets.try_recv().is_err(), "woken for less than a batch");
        sender.send(3).unwrap();
        assert_eq!((0..3).map(|_| gets.recv_timeout(LONG).unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
        asleep();
        sender.send(4).unwrap();
        sender.flush();
        assert_eq!(gets.recv_timeout(LONG), Ok(4));
        asleep();
        // The end is reported immediately, but after the items that are still there.
        sender.send(5).unwrap();
        drop(sender);
        assert_eq!(gets.recv_timeout(LONG), Ok(5));
        thread.join().unwrap();
    }

    #[test]
    fn a_sender_without_room_waits_for_half_of_it() {
        let (sender, receiver) = queue(4, 1);
        (0..4).for_each(|n| sender.send(n).unwrap());
        assert!(!sender.has_room());
        let shared = Arc::clone(&receiver.0);
        let thread = thread::spawn(move || sender.send(4));
        while !shared.freed.any() {
            thread::yield_now();
        }
        assert_eq!(receiver.try_recv(), Received::Item(0));
        assert!(shared.freed.any(), "woken for one place");
        assert_eq!(receiver.try_recv(), Received::Item(1));
        assert_eq!(thread.join().unwrap(), Ok(()));
        assert_eq!([(); 3].map(|()| receiver.recv()), [Some(2), Some(3), Some(4)]);
        assert_eq!(receiver.recv(), None);
    }

    #[test]
    fn without_receivers_items_are_given_back_and_what_they_hold_is_free() {
        let (sender, receiver) = queue(1, 1);
        let held = Arc::new(());
        sender.send(Arc::clone(&held)).unwrap();
        let shared = Arc::clone(&sender.0);
        let (waiting, other) = (Arc::clone(&held), sender.clone());
        let thread = thread::spawn(move || other.send(waiting).is_err());
        while !shared.freed.any() {
            thread::yield_now();
        }
        drop(receiver);
        assert!(thread.join().unwrap(), "it waits for a receiver that is gone");
        assert!(sender.has_room(), "nobody waits where nobody receives");
        assert!(sender.send(Arc::clone(&held)).is_err());
        assert_eq!(Arc::strong_count(&held), 1, "items that nobody will receive are kept");
    }

    #[test]
    fn a_poke_ends_one_wait() {
        let (sender, receiver) = queue::<u8>(1, 1);
        sender.waker().poke();
        assert_eq!(receiver.recv_timeout(LONG), Received::Nothing);
        assert_eq!(receiver.recv_timeout(Duration::from_millis(1)), Received::Nothing);
        let waker = sender.waker();
        let thread = thread::spawn(move || receiver.recv_timeout(LONG));
        while !waker.0.arrived.any() {
            thread::yield_now();
        }
        waker.poke();
        assert_eq!(thread.join().unwrap(), Received::Nothing);
        // A waker does not keep the queue open.
        drop(sender);
    }
}
