//! The stages as they are measured, and the log they are measured with. What measures is in the programs.
//!
//! | Program | |
//! |---|---|
//! | `stage_benches` | the table, compared with the baseline; starts the next one |
//! | `allocations` | allocations a row once warm, in a process of its own: counting takes instructions |
//! | `structures` | what a generation could be made of, over the keys of the same log |

pub mod pass;
pub mod stages;

use lab::synthesize::SynthesizeOptions;

/// Row changes enough that what a stage does once does not show, few enough for callgrind, which is 50 times slower.
pub const INPUT: SynthesizeOptions =
    SynthesizeOptions { seed: 20_260_101, warehouses: 1, items: 1000, customers: 60, transactions: 2000 };
/// Generations enough, and each large enough, that what one takes once does not hide what a row takes.
pub const WARM_INPUT: SynthesizeOptions = SynthesizeOptions { transactions: 16_000, ..INPUT };
