//! Seeded randomness as TPC-C defines it: uniform, NURand (clause 2.1.6), last names (4.3.2.3), strings.

/// Constant C of NURand(255) for the load. Fixed, so that a run can choose its own without knowing the load's seed.
pub(crate) const C_LAST_LOAD: u64 = 157;

const ALPHANUMERIC: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// Numbers of one stream of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(base::Random);

impl Random {
    /// Streams of one seed are independent: each terminal and each warehouse has one.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = base::Random::new(seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        random.any();
        Random(random)
    }

    /// A whole number in `low..=high`.
    pub(crate) fn uniform(&mut self, low: u64, high: u64) -> u64 {
        debug_assert!(low <= high);
        let span = u128::from(high - low) + 1;
        // The bias of multiply-and-shift is span / 2^64.
        low + ((u128::from(self.0.any()) * span) >> 64) as u64
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.uniform(1, 100) <= percent
    }

    /// Appends letters and digits to `out`.
    pub(crate) fn push_text(&mut self, out: &mut String, length_min: u64, length_max: u64) {
        for _ in 0..self.uniform(length_min, length_max) {
            out.push(char::from(ALPHANUMERIC[self.uniform(0, 61) as usize]));
        }
    }

    /// Appends digits to `out`.
    pub(crate) fn push_digits(&mut self, out: &mut String, length: u64) {
        for _ in 0..length {
            out.push(char::from(b'0' + self.uniform(0, 9) as u8));
        }
    }

    /// Appends 26 to 50 characters, with "ORIGINAL" somewhere in every tenth text (clause 4.3.3.1).
    pub(crate) fn push_data(&mut self, out: &mut String) {
        let length = self.uniform(26, 50);
        if self.percent(10) {
            let before = self.uniform(0, length - 8);
            self.push_text(out, before, before);
            out.push_str("ORIGINAL");
            self.push_text(out, length - 8 - before, length - 8 - before);
        } else {
            self.push_text(out, length, length);
        }
    }

    /// 1 to `count` in random order.
    pub(crate) fn permutation(&mut self, count: u64) -> Vec<u64> {
        let mut numbers: Vec<u64> = (1..=count).collect();
        for last in (1..numbers.len()).rev() {
            let other = self.uniform(0, last as u64) as usize;
            numbers.swap(last, other);
        }
        numbers
    }
}

/// NURand(A, x, y): numbers in `low..=high`, some much more frequent than others.
pub(crate) fn non_uniform(random: &mut Random, a: u64, c: u64, low: u64, high: u64) -> u64 {
    let mixed = random.uniform(0, a) | random.uniform(low, high);
    (mixed + c) % (high - low + 1) + low
}

/// NURand's constants C, drawn from the seed once a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NonUniform {
    c_last: u64,
    c_customer: u64,
    c_item: u64,
}

impl NonUniform {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, u64::MAX);
        // Clause 2.1.6.1: the distance from the load's C is 65 to 119, except 96 and 112.
        let c_last = loop {
            let distance = random.uniform(65, 119);
            if distance != 96 && distance != 112 {
                break if C_LAST_LOAD + distance <= 255 { C_LAST_LOAD + distance } else { C_LAST_LOAD - distance };
            }
        };
        NonUniform { c_last, c_customer: random.uniform(0, 1023), c_item: random.uniform(0, 8191) }
    }

    pub(crate) fn customer(&self, random: &mut Random, customers: u64) -> u64 {
        non_uniform(random, 1023, self.c_customer, 1, customers)
    }

    pub(crate) fn item(&self, random: &mut Random, items: u64) -> u64 {
        non_uniform(random, 8191, self.c_item, 1, items)
    }

    /// A number for a last name; below the specification's scale only names that were loaded.
    pub(crate) fn last_name(&self, random: &mut Random, customers: u64) -> u64 {
        non_uniform(random, 255, self.c_last, 0, customers.clamp(1, 1000) - 1)
    }
}

/// The last name for `number` (0 to 999): one syllable a digit.
pub(crate) fn last_name(number: u64) -> String {
    let digits = [number / 100 % 10, number / 10 % 10, number % 10];
    digits.map(|digit| SYLLABLES[digit as usize]).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_the_specifications() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn uniform_stays_inside_and_reaches_both_ends() {
        let mut random = Random::new(1, 1);
        let mut seen = [0u32; 5];
        for _ in 0..10_000 {
            seen[(random.uniform(3, 7) - 3) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (1_700..2_300).contains(&count)), "{seen:?}");
        assert_eq!(random.uniform(9, 9), 9);
    }

    #[test]
    fn non_uniform_is_in_range_and_skewed() {
        let constants = NonUniform::new(7);
        let mut random = Random::new(7, 1);
        let mut counts = vec![0u32; 3001];
        for _ in 0..300_000 {
            counts[constants.customer(&mut random, 3000) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hottest: u32 = counts[..300].iter().sum();
        // A uniform draw would give the hottest tenth a little over 30,000.
        assert!(hottest > 60_000, "{hottest}");
    }

    #[test]
    fn c_of_the_run_keeps_its_distance_from_the_loads() {
        for seed in 0..2_000 {
            let distance = NonUniform::new(seed).c_last.abs_diff(C_LAST_LOAD);
            assert!((65..=119).contains(&distance) && distance != 96 && distance != 112, "{distance}");
            assert!(NonUniform::new(seed).c_last <= 255);
        }
    }

    #[test]
    fn same_seed_same_numbers_other_stream_other_numbers() {
        let take = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..20).map(|_| random.uniform(0, 1000)).collect::<Vec<_>>()
        };
        assert_eq!(take(5, 1), take(5, 1));
        assert_ne!(take(5, 1), take(5, 2));
        assert_ne!(take(5, 1), take(6, 1));
    }

    #[test]
    fn permutation_holds_each_number_once() {
        let mut numbers = Random::new(3, 0).permutation(3000);
        assert_ne!(numbers[..10], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=3000).collect::<Vec<_>>());
    }

    #[test]
    fn data_is_26_to_50_long_and_original_in_a_tenth() {
        let mut random = Random::new(4, 0);
        let mut originals = 0;
        for _ in 0..5_000 {
            let mut text = String::new();
            random.push_data(&mut text);
            assert!((26..=50).contains(&text.len()));
            originals += u32::from(text.contains("ORIGINAL"));
        }
        assert!((400..600).contains(&originals), "{originals}");
    }
}
