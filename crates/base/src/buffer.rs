//! Byte buffers that are used again: a fresh one costs a page fault every 4 KiB, more than filling it does.
//!
//! In: vectors. Out: shared read-only bytes whose vector goes back to its pool with the last holder. Never here: more
//! spare memory than the pool's bound.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// Read-only bytes, from a pool or not.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    pool: Option<Arc<BufferPool>>,
}

/// Vectors that nobody holds any more, for the next one who needs one. Bounded.
#[derive(Debug)]
pub struct BufferPool {
    spare: Mutex<Vec<Vec<u8>>>,
    count_max: usize,
    bytes_max: usize,
}

impl BufferPool {
    /// A pool that keeps at most `count_max` vectors, none of them above `bytes_max` bytes.
    #[must_use]
    pub fn new(count_max: usize, bytes_max: usize) -> Arc<BufferPool> {
        Arc::new(BufferPool { spare: Mutex::new(Vec::with_capacity(count_max)), count_max, bytes_max })
    }

    /// A vector with capacity for `capacity` bytes or more, so far as the pool has one; what it holds is of no meaning.
    #[must_use]
    pub fn take(&self, capacity: usize) -> Vec<u8> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one that fits: its pages are the likeliest to be in a cache still.
        match spare.iter().rposition(|bytes| bytes.capacity() >= capacity) {
            Some(at) => spare.remove(at),
            None => {
                // One that is too small makes way.
                spare.pop();
                Vec::with_capacity(capacity)
            }
        }
    }

    /// Makes bytes that come back here at their end.
    #[must_use]
    pub fn share(self: &Arc<Self>, bytes: Vec<u8>) -> Arc<Buffer> {
        Arc::new(Buffer { bytes, pool: Some(Arc::clone(self)) })
    }

    fn give_back(&self, bytes: Vec<u8>) {
        if bytes.capacity() == 0 || bytes.capacity() > self.bytes_max {
            return;
        }
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < self.count_max {
            spare.push(bytes);
        }
    }
}

impl Buffer {
    /// The vector; it goes back to no pool.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        self.pool = None;
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer { bytes, pool: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_last_holder_lets_go_is_taken_again_within_the_bound() {
        let pool = BufferPool::new(2, 100);
        let first = pool.share(Vec::from(*b"abc"));
        let second = Arc::clone(&first);
        drop(first);
        assert!(pool.spare.lock().unwrap().is_empty(), "somebody holds it");
        assert_eq!(&second[..], b"abc");
        drop(second);
        assert_eq!(pool.take(1), b"abc", "not cleared: who takes it fills it");
        for len in [10, 20, 30] {
            drop(pool.share(vec![0; len]));
        }
        assert_eq!(pool.spare.lock().unwrap().len(), 2, "no more than two");
        drop(pool.take(50));
        let big = pool.share(vec![0; 101]);
        drop(big);
        assert_eq!(pool.spare.lock().unwrap().len(), 1, "the large one is not kept");
        assert!(pool.take(50).capacity() >= 50, "a spare one too small is given up for one that fits");
        let own = Arc::try_unwrap(pool.share(vec![1; 5])).unwrap().into_vec();
        assert_eq!(own, [1; 5]);
        assert!(pool.spare.lock().unwrap().is_empty());
    }
}
