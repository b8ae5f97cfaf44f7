//! Compaction policy: when sorted runs are merged, and into which level.
//!
//! In: the sizes of the tree's levels. Out: the next step. Never here: file access; a change in the age order of runs
//! (a run in a lower level, or further back in its level, is older, and readers rely on it).
//!
//! Runs of similar size are merged first (tiering), so an entry is written about once per tier on its way down, and the
//! large last level is merged only when enough data lies above it to be worth it. The tree's own strategy (leveled)
//! merges every fourth cut with everything that overlaps below, which is the whole tree when keys are spread over all
//! tables.
//!
//! A merge writes its result into an empty level below its inputs; the run is then moved to the front of a level that
//! holds several runs. Cuts that end in the meantime therefore stay above it throughout.
//!
//! | Level | Holds |
//! |---|---|
//! | 0 | a run for each cut |
//! | 1 | a merge's result on its way to 2 |
//! | 2 | runs of [`MERGE_RUNS`] cuts |
//! | 3 | a merge's result on its way to 4 |
//! | 4 | runs of [`MERGE_RUNS`]² cuts |
//! | 5 | if the last level is large: one run of the data since it was written |
//! | 6 | one run of all older data |

/// Number of runs in level 0 at which cuts wait: the count is one byte on disk (invariant 6), and readers look into
/// every run.
pub const L0_RUNS_MAX: usize = 24;

const _: () = assert!(L0_RUNS_MAX <= u8::MAX as usize);

/// Number of runs of one level that are merged together.
pub const MERGE_RUNS: usize = 4;

/// Run counts of levels 2 and 4 at which cuts wait, because merging has fallen too far behind. Merges of large runs may
/// each take as long as a hundred cuts.
const SMALL_RUNS_MAX: usize = 4 * MERGE_RUNS;
const LARGE_RUNS_MAX: usize = 6 * MERGE_RUNS;

const _: () = assert!(L0_RUNS_MAX >= 2 * MERGE_RUNS, "cuts would wait though merging has nothing to do");
const _: () = assert!(SMALL_RUNS_MAX > MERGE_RUNS && LARGE_RUNS_MAX > MERGE_RUNS && LARGE_RUNS_MAX <= u8::MAX as usize);
const _: () = assert!(LAST_PART <= LAST_PART_EAGER);

/// The last level is merged once the data above it reaches one part in this many of its size.
const LAST_PART: u64 = 2;
/// The same when replay is idle, or when readers pay more for the runs than the merge costs.
const LAST_PART_EAGER: u64 = 8;

/// Runs and bytes of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub runs: usize,
    pub bytes: u64,
}

/// A step over whole levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Merges both levels into one run in `to`. Levels between them are empty.
    Merge { from: u8, to: u8 },
    /// Moves the only run of `from` to the front of `to`, as its newest. Levels between them are empty.
    Move { from: u8, to: u8 },
}

/// All levels of the tree, newest first.
pub(crate) type Levels = [Level; 7];

/// Runs above the limits while a damaged file keeps levels from being merged.
pub(crate) const RUNS_BESIDE_DAMAGE: usize = 2 * MERGE_RUNS;

const _: () = assert!(L0_RUNS_MAX + RUNS_BESIDE_DAMAGE <= u8::MAX as usize);

/// Whether there are too many runs to add another. `more`: runs above the limits.
pub(crate) fn full(levels: &Levels, more: usize) -> bool {
    let [cuts, _, small, _, large, ..] = levels;
    cuts.runs >= L0_RUNS_MAX + more || small.runs >= SMALL_RUNS_MAX + more || large.runs >= LARGE_RUNS_MAX + more
}

/// Step due in the levels where cuts arrive: short, and independent of the other tiers.
pub(crate) fn near(levels: &Levels, eager: bool) -> Option<Step> {
    let [cuts, landing, ..] = levels;
    if landing.runs > 0 {
        return Some(Step::Move { from: 1, to: 2 });
    }
    let enough = if eager { 2 } else { MERGE_RUNS };
    (cuts.runs >= enough).then_some(Step::Merge { from: 0, to: 1 })
}

/// Step due one tier further down. Also taken while [`deep`] merges for minutes: otherwise runs of four cuts would pile
/// up until cuts wait for that merge.
pub(crate) fn middle(levels: &Levels, eager: bool) -> Option<Step> {
    let [_, _, small, landing, ..] = levels;
    if landing.runs > 0 {
        return Some(Step::Move { from: 3, to: 4 });
    }
    (small.runs >= MERGE_RUNS && into_last(levels, eager).is_none()).then_some(Step::Merge { from: 2, to: 3 })
}

/// Step due for large runs, which may take as long as writing the whole tree. Runs that [`middle`] adds meanwhile stay
/// in front of its result.
pub(crate) fn deep(levels: &Levels, eager: bool) -> Option<Step> {
    let [_, _, _, _, large, recent, last] = levels;
    if is_due(recent.bytes, last, eager) {
        return Some(Step::Merge { from: 5, to: 6 });
    }
    if large.runs >= MERGE_RUNS || large.runs > 0 && is_due(large.bytes + recent.bytes, last, eager) {
        // With nothing in between, it goes straight to its destination.
        let to = if recent.runs == 0 && is_due(large.bytes, last, eager) { 6 } else { 5 };
        return Some(Step::Merge { from: 4, to });
    }
    None
}

/// Step that brings what lies in the levels of [`near`] further down, whatever there is of it.
pub(crate) fn near_all(levels: &Levels) -> Option<Step> {
    near(levels, true).or_else(|| (levels[0].runs > 0).then_some(Step::Merge { from: 0, to: 1 }))
}

/// As [`near_all`], in the levels of [`middle`].
pub(crate) fn middle_all(levels: &Levels) -> Option<Step> {
    let [_, _, small, landing, ..] = levels;
    match (landing.runs, small.runs) {
        (0, 0) => None,
        (0, _) => Some(Step::Merge { from: 2, to: 3 }),
        _ => Some(Step::Move { from: 3, to: 4 }),
    }
}

/// As [`near_all`], in the levels of [`deep`]: into the last one.
pub(crate) fn deep_all(levels: &Levels) -> Option<Step> {
    let [_, _, _, _, large, recent, _] = levels;
    match (recent.runs, large.runs) {
        (0, 0) => None,
        (0, _) => Some(Step::Merge { from: 4, to: 5 }),
        _ => Some(Step::Merge { from: 5, to: 6 }),
    }
}

/// Step due in a store that is still small. It passes the levels of [`middle`], which must not run from the look at the
/// levels to the end of this step.
pub(crate) fn into_last(levels: &Levels, eager: bool) -> Option<Step> {
    let [_, _, small, landing, large, recent, last] = levels;
    let between = landing.runs + large.runs + recent.runs;
    (between == 0 && is_due(small.bytes, last, eager)).then_some(Step::Merge { from: 2, to: 6 })
}

/// Whether this many bytes justify a merge with the last level.
fn is_due(bytes: u64, last: &Level, eager: bool) -> bool {
    let part = if eager { LAST_PART_EAGER } else { LAST_PART };
    bytes > 0 && bytes.saturating_mul(part) >= last.bytes
}

#[cfg(test)]
mod tests {
    use base::Random;

    use super::*;

    /// A tree of runs by size, with the levels ordered as in lsm-tree.
    #[derive(Default)]
    struct Tree {
        levels: [Vec<u64>; 7],
        written: u64,
    }

    impl Tree {
        fn shape(&self) -> Levels {
            std::array::from_fn(|n| {
                let level = self.levels.get(n).unwrap();
                Level { runs: level.len(), bytes: level.iter().sum() }
            })
        }

        fn take(&mut self, step: Step) {
            let (Step::Merge { from, to } | Step::Move { from, to }) = step;
            let (from, to) = (usize::from(from), usize::from(to));
            assert!(
                from < to && self.levels.get(from + 1..to).unwrap().iter().all(Vec::is_empty),
                "{step:?} passes runs"
            );
            let above = std::mem::take(self.levels.get_mut(from).unwrap());
            let target = self.levels.get_mut(to).unwrap();
            if matches!(step, Step::Move { .. }) {
                assert_eq!(above.len(), 1, "only one run can be moved");
                target.insert(0, above[0]);
            } else {
                let size = above.iter().chain(target.iter()).sum();
                *target = vec![size];
                self.written += size;
            }
        }

        fn compact_until_idle(&mut self, eager: bool) {
            while let Some(step) = any(&self.shape(), eager) {
                self.take(step);
            }
        }

        fn runs(&self) -> usize {
            self.levels.iter().map(Vec::len).sum()
        }
    }

    fn any(levels: &Levels, eager: bool) -> Option<Step> {
        near(levels, eager)
            .or_else(|| middle(levels, eager))
            .or_else(|| deep(levels, eager))
            .or_else(|| into_last(levels, eager))
    }

    #[test]
    fn runs_stay_few_and_each_entry_is_written_a_few_times() {
        for base in [0, 100, 10_000] {
            let mut tree = Tree::default();
            if base > 0 {
                tree.levels[6].push(base);
            }
            let cuts = 4_000;
            for _ in 0..cuts {
                tree.levels[0].insert(0, 1);
                tree.compact_until_idle(false);
                assert!(tree.runs() <= 3 * MERGE_RUNS, "{:?}", tree.levels);
            }
            let total: u64 = tree.levels.iter().flatten().sum();
            assert_eq!(total, base + cuts, "nothing is lost");
            // Nothing is ever overwritten here, so the last level grows by half each time, and what arrives in between
            // is rewritten in full once per that many cuts.
            let anew = (base + cuts) / (4 * (MERGE_RUNS as u64).pow(3));
            assert!(tree.written <= (8 + anew) * cuts, "base {base}: {} written for {cuts}", tree.written);
        }
    }

    #[test]
    fn where_a_cut_has_to_wait_compaction_has_something_to_do() {
        let mut numbers = Random::new(7);
        let mut random = |bound: usize| numbers.below(bound);
        for _ in 0..10_000 {
            let mut tree = Tree::default();
            for level in [0, 2, 4] {
                tree.levels[level] = (0..random(30)).map(|_| 1 + random(50) as u64).collect();
            }
            tree.levels[5] = vec![100; random(2)];
            tree.levels[6] = vec![random(2_000) as u64];
            let mut steps = 0;
            while full(&tree.shape(), 0) {
                tree.take(any(&tree.shape(), false).expect("nothing to do, and no cut either"));
                steps += 1;
                assert!(steps < 20, "{:?}", tree.levels);
            }
        }
    }

    /// Newest and oldest cut in a run, and its size.
    type Run = (u64, u64, u64);

    fn put_together(runs: &[Run]) -> Run {
        (runs[0].0, runs[runs.len() - 1].1, runs.iter().map(|run| run.2).sum())
    }

    #[test]
    fn no_cut_waits_while_a_large_merge_takes_as_long_as_100_cuts() {
        let shape = |levels: &[Vec<Run>; 7]| -> Levels {
            std::array::from_fn(|n| {
                let level = &levels[n];
                Level { runs: level.len(), bytes: level.iter().map(|run| run.2).sum() }
            })
        };
        for base in [50, 600, 5_000] {
            let mut levels: [Vec<Run>; 7] = Default::default();
            levels[6].push((0, 0, base));
            // The cut at which it ends, source and target level, and the runs it merges.
            let mut large: Option<(u64, usize, usize, Vec<Run>)> = None;
            for cut in 1..=3_000u64 {
                assert!(!full(&shape(&levels), 0), "cut {cut}: {levels:?}");
                levels[0].insert(0, (cut, cut, 1));
                if let Some((_, from, to, merged)) = large.take_if(|large| large.0 <= cut) {
                    levels[from].retain(|run| !merged.contains(run));
                    levels[to] = vec![put_together(&merged)];
                }
                while let Some(step) = near(&shape(&levels), false).or_else(|| middle(&shape(&levels), false)) {
                    let (Step::Merge { from, to } | Step::Move { from, to }) = step;
                    let (from, to) = (usize::from(from), usize::from(to));
                    // The tree never puts a run into two merges.
                    if levels[from].iter().any(|run| large.as_ref().is_some_and(|large| large.3.contains(run))) {
                        break;
                    }
                    let runs = std::mem::take(&mut levels[from]);
                    levels[to].insert(0, put_together(&runs));
                }
                if large.is_none()
                    && let Some(Step::Merge { from, to }) =
                        deep(&shape(&levels), false).or_else(|| into_last(&shape(&levels), false))
                {
                    let (from, to) = (usize::from(from), usize::from(to));
                    let merged: Vec<Run> = levels[from].iter().chain(&levels[to]).copied().collect();
                    let takes = put_together(&merged).2.min(if from == 2 { 40 } else { 100 });
                    large = Some((cut + takes, from, to, merged));
                }
                let all: Vec<Run> = levels.iter().flatten().copied().collect();
                assert!(all.windows(2).all(|pair| pair[0].1 > pair[1].0), "not by age at cut {cut}: {levels:?}");
            }
        }
    }

    #[test]
    fn without_cuts_what_is_worth_it_goes_to_the_last_level() {
        let mut tree = Tree::default();
        tree.levels[6].push(100);
        for _ in 0..20 {
            tree.levels[0].insert(0, 1);
            tree.compact_until_idle(false);
        }
        assert_eq!((&tree.levels[2], &tree.levels[4], &tree.levels[6]), (&vec![4], &vec![16], &vec![100]));
        tree.compact_until_idle(true);
        // A few bytes do not justify rewriting everything.
        assert_eq!((&tree.levels[2], &tree.levels[4], &tree.levels[6]), (&vec![4], &vec![], &vec![116]));
        tree.levels[0] = vec![1, 1];
        tree.compact_until_idle(true);
        assert_eq!((&tree.levels[0], &tree.levels[2], &tree.levels[6]), (&vec![], &vec![2, 4], &vec![116]));
    }

    #[test]
    fn what_the_leveled_strategy_left_is_taken_up() {
        // One run in each level, as older programs left them.
        let mut tree = Tree { levels: std::array::from_fn(|n| vec![1 << n]), written: 0 };
        tree.compact_until_idle(false);
        assert_eq!(tree.levels.iter().flatten().sum::<u64>(), 127);
        assert!(
            tree.levels[1].is_empty() && tree.levels[3].is_empty() && tree.levels[5].is_empty(),
            "{:?}",
            tree.levels
        );
    }
}
