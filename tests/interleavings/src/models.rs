//! One model per part: how its users use it, and what they rely on.
//!
//! Data that the part hands from thread to thread is a relaxed atomic here: loom lets a load see every old value that
//! no ordering of the part rules out.

use std::ops::Deref;

use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::sync::{Arc, Mutex, RwLock};
use loom::thread;

use crate::copy_stop_signal;
use crate::copy_track::CopyTrack;
use crate::countdown::Countdown;
use crate::counted_condvar::CountedCondvar;
use crate::low_water_mark::{LowWaterMark, Waited};
use crate::published::{Published, Replaced, View};
use crate::queue::{Receiver, Sender, queue};
use crate::shutdown::Shutdown;

/// As workers finish a piece (`apply`, `Worker::finish`) and connections a table (`copy`, `Run::range_done`). Exactly
/// one is the last, and it sees what each of them counted, even for a part added later.
pub fn last_of_several() {
    let shared = Arc::new((Countdown::new(2), [AtomicU64::new(0), AtomicU64::new(0)], AtomicU64::new(0)));
    let work = |shared: &(Countdown, [AtomicU64; 2], AtomicU64), me: usize, parts: u64| {
        let (countdown, counted, last) = shared;
        for part in 1..=parts {
            if part < parts {
                countdown.add();
            }
            counted[me].store(part, Relaxed);
            if countdown.done() {
                assert_eq!(counted[0].load(Relaxed), 2, "the last one misses what the first thread did");
                assert_eq!(counted[1].load(Relaxed), 1, "the last one misses what the second thread did");
                assert_eq!(last.fetch_add(1, Relaxed), 0, "two are the last");
            }
        }
    };
    let other = Arc::clone(&shared);
    let second = thread::spawn(move || work(&other, 1, 1));
    work(&shared, 0, 2);
    let _ = second.join();
    assert_eq!(shared.2.load(Relaxed), 1, "nobody is the last");
}

/// Two workers finish a piece of a copied table in which the first finds a change that does not fit. The thread that
/// leads the copy must not take the piece for complete (`slipstream`, `TableCopy::follow`).
pub fn tracked_changes() {
    let shared = Arc::new((CopyTrack::default(), Countdown::new(2)));
    shared.0.handed_on();
    let finish = |(track, workers): &(CopyTrack, Countdown)| {
        if workers.done() {
            track.done();
        }
    };
    let (first, second) = (Arc::clone(&shared), Arc::clone(&shared));
    let first = thread::spawn(move || {
        first.0.fail("row not found".to_owned());
        finish(&first);
    });
    let second = thread::spawn(move || finish(&second));
    if shared.0.is_idle() {
        assert_eq!(shared.0.reason().as_deref(), Some("row not found"), "a copy that lacks a change looks whole");
    }
    let _ = (first.join(), second.join());
    assert!(shared.0.is_idle() && shared.0.reason().is_some());
}

/// Transactions end in any order. A waiter for both sees what both did, whether it takes the lock or not.
pub fn low_water_mark() {
    let shared = Arc::new((LowWaterMark::new(0), [AtomicU64::new(0), AtomicU64::new(0)]));
    let workers = [1, 2].map(|number| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            shared.1[number as usize - 1].store(number, Relaxed);
            shared.0.finish(number);
        })
    });
    assert_ne!(shared.0.wait(2, &Shutdown::default()), Waited::GivenUp);
    for number in [1, 2] {
        assert_eq!(shared.1[number as usize - 1].load(Relaxed), number, "the mark passed what is not seen");
    }
    workers.into_iter().for_each(|worker| drop(worker.join()));
}

/// Two threads wait for different numbers, the second for what the first does once woken. Nobody is forgotten, although
/// the mark keeps only the lowest awaited number.
pub fn low_water_mark_waiters() {
    let mark = Arc::new(LowWaterMark::new(0));
    let (waiting, finishing) = (Arc::clone(&mark), Arc::clone(&mark));
    let waiter = thread::spawn(move || {
        assert_ne!(waiting.wait(1, &Shutdown::default()), Waited::GivenUp);
        waiting.finish(2);
    });
    let worker = thread::spawn(move || finishing.finish(1));
    assert_ne!(mark.wait(2, &Shutdown::default()), Waited::GivenUp);
    assert_eq!(mark.low(), 2);
    let _ = (waiter.join(), worker.join());
}

/// One row, its versions, and who may see them: as a lane drops versions when it appends (`store::Lane::apply`).
struct Row {
    published: Published<()>,
    /// The writers' mutex of `Visibility`.
    replaced: Mutex<Replaced<()>>,
    versions: RwLock<Vec<u64>>,
}

impl Row {
    fn new() -> Arc<Row> {
        let published = Published::new(View::new(1, ()));
        Arc::new(Row { published, replaced: Mutex::new(Replaced::default()), versions: RwLock::new(vec![1]) })
    }

    /// Appends version `number`, drops those that nobody needs, makes it visible.
    fn write(&self, number: u64) {
        let oldest = self.published.oldest_needed();
        if let Ok(mut versions) = self.versions.write() {
            let kept = versions.iter().rposition(|version| *version <= oldest).unwrap_or(0);
            versions.drain(..kept);
            versions.push(number);
        }
        if let Ok(mut replaced) = self.replaced.lock() {
            self.published.publish(View::new(number, ()), &mut replaced, &mut Vec::new());
        }
    }

    /// Every transaction writes the row, so a snapshot at n sees exactly version n.
    fn sees(&self, at: u64) -> bool {
        let Ok(versions) = self.versions.read() else { return false };
        versions.iter().rev().find(|version| **version <= at) == Some(&at)
    }

    /// Frees versions that nobody holds.
    fn tidy(&self) {
        if let Ok(mut replaced) = self.replaced.lock() {
            replaced.sweep(&mut Vec::new());
            self.published.raise(self.published.load().sequence(), &replaced);
        }
    }
}

fn replay(row: &Arc<Row>, upto: u64) -> thread::JoinHandle<()> {
    let row = Arc::clone(row);
    thread::spawn(move || (2..=upto).for_each(|number| row.write(number)))
}

/// A snapshot's row stays until the snapshot is dropped, while a worker writes it and drops old versions one by one.
pub fn snapshots_and_writers() {
    let row = Row::new();
    let worker = replay(&row, 4);
    for _ in 0..2 {
        let view = row.published.load();
        assert!(row.sees(view.sequence()), "a version that a snapshot sees is gone");
    }
    let _ = worker.join();
    row.tidy();
    assert_eq!(row.published.oldest_needed(), 4, "old versions are kept for nobody");
}

/// As above, but wrong: reads the number first and pins a view later. Shows that the model finds this.
pub fn pins_in_two_steps() {
    let row = Row::new();
    let worker = replay(&row, 4);
    let at = row.published.load().sequence();
    let pin = row.published.load();
    assert!(row.sees(at), "a version that a snapshot sees is gone");
    drop(pin);
    let _ = worker.join();
}

/// A snapshot is given up while a worker drops what it saw: the reader finds the mark after it has read.
pub fn snapshots_given_up() {
    given_up(true);
}

/// As above, but wrong: raises the oldest needed number before it marks the view.
pub fn marks_after_raising() {
    given_up(false);
}

fn given_up(marks_first: bool) {
    let row = Row::new();
    let view = row.published.load();
    row.write(2);
    let limits = Arc::clone(&row);
    let limits = thread::spawn(move || {
        let Ok(mut replaced) = limits.replaced.lock() else { return };
        let Some(oldest) = replaced.pop_oldest() else { return };
        if marks_first {
            oldest.give_up();
        }
        limits.published.raise(2, &replaced);
        oldest.give_up();
    });
    let worker = Arc::clone(&row);
    let worker = thread::spawn(move || worker.write(3));
    let seen = row.sees(view.sequence());
    assert!(seen || view.is_given_up(), "a batch that lacks a version is used");
    let _ = (limits.join(), worker.join());
}

/// A connection that ends because the snapshot is too old knows the reason (`copy`, `Run::fail`).
pub fn copy_that_expires() {
    let shutdown = Arc::new(copy_stop_signal::StopSignal::default());
    let watch = Arc::clone(&shutdown);
    let watch = thread::spawn(move || watch.expire());
    if shutdown.is_stopping() {
        assert!(shutdown.is_expired(), "a snapshot that is too old is told as a stop");
    }
    let _ = watch.join();
}

/// Two threads wait, each for a ticket of its own; whoever brings one wakes one.
pub fn waiters_one_by_one() {
    let shared = Arc::new((Mutex::new(0u32), CountedCondvar::new()));
    let (waiting, bringing) = (Arc::clone(&shared), Arc::clone(&shared));
    let take = |(tickets, waiters): &(Mutex<u32>, CountedCondvar)| {
        let Ok(mut tickets) = tickets.lock() else { return };
        while *tickets == 0 {
            tickets = waiters.wait(tickets);
        }
        *tickets -= 1;
    };
    let waiter = thread::spawn(move || take(&waiting));
    let bringer = thread::spawn(move || {
        for _ in 0..2 {
            if let Ok(mut tickets) = bringing.0.lock() {
                *tickets += 1;
                bringing.1.wake_one(tickets);
            }
        }
    });
    take(&shared);
    let _ = (waiter.join(), bringer.join());
    assert!(!shared.1.any(), "somebody is counted who waits no more");
}

/// The sender flushes less than a batch before it waits for the answer to it.
pub fn queue_with_an_answer() {
    asked(true);
}

/// As above without the flush: both wait for ever.
pub fn queue_without_flush() {
    asked(false);
}

fn asked(flushes: bool) {
    let (ask, asked) = ends(4, 3);
    let (answer, answered) = ends(1, 1);
    let other = thread::spawn(move || {
        while let Some(question) = asked.recv() {
            let _ = answer.send(question + 1);
        }
    });
    for question in [10, 20] {
        assert_eq!(ask.send(question), Ok(()));
        if flushes {
            ask.flush();
        }
        assert_eq!(answered.recv(), Some(question + 1));
    }
    drop(ask);
    let _ = other.join();
}

/// Batches for two receivers, the last one not full: each item arrives once, and both see the end.
pub fn queue_for_two() {
    let (sender, receiver) = ends(4, 2);
    let other = End(Some(Receiver::clone(&receiver)));
    let sum = |receiver: End<Receiver<u32>>| {
        let mut sum = 0;
        while let Some(item) = receiver.recv() {
            sum += item;
        }
        sum
    };
    let other = thread::spawn(move || sum(other));
    for item in [1, 10, 100] {
        assert_eq!(sender.send(item), Ok(()));
    }
    drop(sender);
    let own = sum(receiver);
    assert_eq!(own + other.join().unwrap_or(0), 111);
}

/// A sender without room continues once there is some.
pub fn queue_that_is_full() {
    let (sender, receiver) = ends(1, 1);
    let other = thread::spawn(move || {
        for item in [1, 2, 3] {
            assert_eq!(sender.send(item), Ok(()));
        }
    });
    assert_eq!([(); 4].map(|()| receiver.recv()), [Some(1), Some(2), Some(3), None]);
    let _ = other.join();
}

/// An end of a queue that closes on drop, unless loom has found a fault: it cannot take a lock then.
struct End<T>(Option<T>);

fn ends(capacity: usize, batch: usize) -> (End<Sender<u32>>, End<Receiver<u32>>) {
    let (sender, receiver) = queue(capacity, batch);
    (End(Some(sender)), End(Some(receiver)))
}

impl<T> Deref for End<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().unwrap_or_else(|| unreachable!("only a drop takes it"))
    }
}

impl<T> Drop for End<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}
