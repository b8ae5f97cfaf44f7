//! What this crate's parts that threads share are made of. `tests/interleavings` compiles the same files over loom's types, under
//! the same path.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
