//! Atomics of this crate. `tests/interleavings` compiles the same files over loom's types, under the same path.

pub(crate) use std::sync::atomic;
