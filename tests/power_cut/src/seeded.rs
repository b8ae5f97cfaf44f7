//! Random choices that repeat for the same seed.

/// Number generator (splitmix64).
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Seeded {
        Seeded(seed)
    }

    /// Returns any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.any() % bound
    }
}
