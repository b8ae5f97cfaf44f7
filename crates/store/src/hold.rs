//! Trait for holding the watermark, used to compare rows at one GTID set.
//!
//! In: a GTID set that must become visible exactly. Out: whether it did. Never here: the code that moves the watermark,
//! which implements this trait.

use std::time::Duration;

use base::GtidSet;

/// The owner of a store's watermark, which can be asked to hold it.
pub trait WatermarkHold {
    /// Stops making transactions visible; applying continues.
    fn hold(&self);

    /// Makes exactly `set` visible and nothing else, then holds again; false if that state is not reached within
    /// `timeout`.
    fn advance_to(&self, set: &GtidSet, timeout: Duration) -> bool;

    /// Lets the watermark move on.
    fn release(&self);

    /// The reason why the watermark no longer moves, if replay has stopped.
    fn stopped(&self) -> Option<String>;
}
