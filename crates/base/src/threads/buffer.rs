//! Pool of byte buffers. Reuse pays because a fresh buffer costs a page fault every 4 KiB, more than filling it does.
//!
//! In: vectors. Out: shared read-only bytes whose vector returns to its pool when the last holder drops it. Never here:
//! more spare memory than the pool's bound.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// Read-only bytes, whether from a pool or not.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    pool: Option<Arc<BufferPool>>,
}

/// Vectors without a holder, kept for reuse. Bounded in number and in bytes each.
#[derive(Debug)]
pub struct BufferPool {
    spare: Mutex<Vec<Vec<u8>>>,
    count_max: usize,
    bytes_max: usize,
}

impl BufferPool {
    /// Creates a pool that keeps at most `count_max` vectors, each of at most `bytes_max` bytes.
    #[must_use]
    pub fn new(count_max: usize, bytes_max: usize) -> Arc<BufferPool> {
        Arc::new(BufferPool { spare: Mutex::new(Vec::with_capacity(count_max)), count_max, bytes_max })
    }

    /// Returns a vector with room for at least `capacity` bytes, from the pool if it has one. Its contents are
    /// arbitrary.
    #[must_use]
    pub fn take(&self, capacity: usize) -> Vec<u8> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        // The most recently returned one that fits: its pages are most likely still in a cache.
        match spare.iter().rposition(|bytes| bytes.capacity() >= capacity) {
            Some(at) => spare.remove(at),
            None => {
                // One that is too small is dropped in favour of the new vector.
                spare.pop();
                Vec::with_capacity(capacity)
            }
        }
    }

    /// Wraps bytes so that their vector returns to this pool when the last holder drops it.
    #[must_use]
    pub fn share(self: &Arc<Self>, bytes: Vec<u8>) -> Arc<Buffer> {
        Arc::new(Buffer { bytes, pool: Some(Arc::clone(self)) })
    }

    fn put_back(&self, bytes: Vec<u8>) {
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
    /// Takes the vector out; it returns to no pool.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        self.pool = None;
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.put_back(std::mem::take(&mut self.bytes));
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
