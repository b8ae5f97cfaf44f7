//! The stages as they are measured, and the log they are measured with. The measuring is in the programs.
//!
//! | Program | |
//! |---|---|
//! | `stage_benches` | the table, compared with the baseline; starts the next one |
//! | `allocations` | allocations per row once warm, in a process of its own: counting takes instructions |
//! | `structures` | candidate structures of a generation, over the keys of the same log |

pub mod pass;
pub mod stages;

use lab::synthesize::SynthesizeOptions;

/// Enough row changes to hide a stage's one-time work, few enough for callgrind, which is 50 times slower.
pub const INPUT: SynthesizeOptions =
    SynthesizeOptions { seed: 20_260_101, warehouses: 1, items: 1000, customers: 60, transactions: 2000 };
/// Enough generations, each large enough, for one-time allocations of a generation not to hide those of rows.
pub const WARM_INPUT: SynthesizeOptions = SynthesizeOptions { transactions: 16_000, ..INPUT };
