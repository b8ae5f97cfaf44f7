//! Random numbers with Zipf's distribution: number n has a weight of 1 / (n + 1)^theta.

use crate::tpcc::random::Random;

/// Resolution of a draw.
const STEPS: u64 = (1 << 53) - 1;

/// Zipf distribution over a range of numbers.
#[derive(Debug)]
pub(crate) struct Zipf {
    /// Share of all draws up to and including each number.
    cumulative: Vec<f64>,
}

impl Zipf {
    /// Distribution over `count` numbers from 0; `theta` 0 is uniform.
    pub(crate) fn new(count: u32, theta: f64) -> Zipf {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (1..=count)
            .map(|rank| {
                sum += f64::from(rank).powf(-theta);
                sum
            })
            .collect();
        for share in &mut cumulative {
            *share /= sum;
        }
        Zipf { cumulative }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        let point = random.uniform(0, STEPS) as f64 / STEPS as f64;
        let at = self.cumulative.partition_point(|share| *share < point);
        at.min(self.cumulative.len().saturating_sub(1)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares shares of the first numbers with the law's, over enough draws for three digits.
    #[test]
    fn draws_follow_the_law() {
        for theta in [0.0, 0.99, 1.2] {
            let (zipf, mut random) = (Zipf::new(1000, theta), Random::new(7, 1));
            let mut counts = [0u32; 1000];
            for _ in 0..200_000 {
                counts[zipf.draw(&mut random) as usize] += 1;
            }
            let weight = |rank: u32| f64::from(rank).powf(-theta);
            let sum: f64 = (1..=1000).map(weight).sum();
            for rank in [1, 2, 10] {
                let (got, wanted) = (f64::from(counts[rank as usize - 1]) / 200_000.0, weight(rank) / sum);
                assert!((got - wanted).abs() < 0.003, "theta {theta}, number {rank}: {got} and not {wanted}");
            }
        }
    }
}
