//! The measured stages by name, and the functions by which callgrind finds them.
//!
//! In: work to run. Out: its time. Never here: two such functions with the same body, which the linker would merge.

use std::hint::black_box;

/// A measured stage.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// Name in the table.
    pub name: &'static str,
    /// Name of the function around it.
    pub symbol: &'static str,
    /// Unit that counts as a row.
    pub unit: &'static str,
    pub(crate) run: fn(&mut dyn FnMut()),
}

macro_rules! stages {
    ($($constant:ident $function:ident $number:literal $name:literal $unit:literal)*) => {
        $(
            #[inline(never)]
            fn $function(work: &mut dyn FnMut()) {
                work();
                // Keeps the call from becoming a jump, and the functions distinct.
                black_box($number);
            }
            #[doc = $name]
            pub const $constant: Stage =
                Stage { name: $name, symbol: stringify!($function), unit: $unit, run: $function };
        )*
        /// All stages, in the order data flows.
        pub const ALL: &[Stage] = &[$($constant),*];
    };
}

stages! {
    CHECKSUM measured_checksum 1 "checksum" "row change"
    RECEIVE measured_receive 2 "receive" "row change"
    SPLIT measured_split 3 "split" "row change"
    DECODE measured_decode 4 "decode" "row change"
    SEQUENCE measured_sequence 5 "sequence" "row change"
    APPLY measured_apply 6 "apply" "row change"
    CUT measured_cut 7 "cut" "entry written"
    COMPACT measured_compact 8 "compact" "entry read"
    POINT_READ measured_point_read 9 "point-read" "row read"
    RANGE_READ measured_range_read 10 "range-read" "row read"
    RANGE_ROW measured_range_row 11 "range-row" "row read"
}

impl Stage {
    /// Index among all stages.
    #[must_use]
    pub fn index(&self) -> usize {
        ALL.iter().position(|one| one.name == self.name).unwrap_or_default()
    }

    /// Runs work so that its instructions are counted; returns its time in nanoseconds.
    pub fn measure(&self, work: &mut dyn FnMut()) -> u64 {
        let begun = std::time::Instant::now();
        (self.run)(work);
        u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
