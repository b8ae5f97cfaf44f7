//! Synchronization types of this crate's lock-free parts. `tests/interleavings` compiles the same files over loom's
//! types, under the same path.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
