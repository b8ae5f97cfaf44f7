//! What threads share: queues, wake-ups, buffers, the CPUs and the priority they run at, the allocator's settings.
//!
//! In: values that threads hand each other. Out: the same, in order. Never here: a thread of its own.

pub mod affinity;
pub mod allocator;
mod buffer;
mod countdown;
mod counted_condvar;
pub mod priority;
pub mod queue;

pub use affinity::ThreadAffinity;
pub use buffer::{Buffer, BufferPool};
pub use countdown::Countdown;
pub use counted_condvar::CountedCondvar;
