//! Numbers that look random and repeat: for made-up logs, loads and test histories, never for secrets.

/// SplitMix64. A seed gives the same numbers on every machine and in every release: logs that `lab` made, and seeds
/// that tests name, depend on it.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed; every seed is a good one.
    #[must_use]
    pub const fn new(seed: u64) -> Random {
        Random(seed)
    }

    #[inline]
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`; 0 if nothing is below it.
    #[inline]
    pub fn below<N: TryInto<u64> + TryFrom<u64>>(&mut self, bound: N) -> N {
        let bound = bound.try_into().unwrap_or(1).max(1);
        N::try_from(self.any() % bound).unwrap_or_else(|_| unreachable!("less than a number of this type"))
    }

    /// True once in `n` times.
    #[inline]
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns one of `choices`, of which there is at least one.
    #[inline]
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut random = Random::new(1_234_567);
        let wanted = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(wanted.map(|_| random.any()), wanted);
    }

    #[test]
    fn every_number_below_the_bound_and_no_other() {
        let mut random = Random::new(1);
        let mut seen = [0u32; 5];
        (0..10_000).for_each(|_| seen[random.below(5usize)] += 1);
        assert!(seen.iter().all(|&count| (1_800..2_200).contains(&count)), "{seen:?}");
        assert_eq!([random.below(0u8), random.below(1)], [0, 0]);
        assert_eq!([random.below(-3), random.below(0)], [0, 0]);
    }
}
