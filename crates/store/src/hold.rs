//! Trait for holding the watermark, used to compare rows at one GTID set.
//!
//! In: a GTID set that must become visible exactly. Out: whether it did. Never here: the code that moves the watermark,
//! which implements this trait.

use std::time::Duration;

use base::GtidSet;

/// What moves a store's watermark and can be asked not to.
pub trait WatermarkHold {
    /// Nothing further becomes visible; applying goes on.
    fn hold(&self);

    /// Lets exactly `set` become visible and nothing else; false when that is not so within `timeout` (it stays held
    /// there).
    fn advance_to(&self, set: &GtidSet, timeout: Duration) -> bool;

    /// The watermark moves on.
    fn release(&self);

    /// Why it moves no further, once replay has stopped.
    fn stopped(&self) -> Option<String>;
}
