use std::collections::BTreeMap;

use super::*;
use crate::Random;

/// Versions of a map made by random changes, each with the same map in another form.
fn versions(random: &mut Random, changes: usize, keys: u64) -> Vec<(SharedMap<u64, u64>, BTreeMap<u64, u64>)> {
    let mut all = vec![(SharedMap::new(), BTreeMap::new())];
    for change in 0..changes {
        let (mut map, mut model) = all[all.len() - 1].clone();
        let key = random.below(keys);
        if random.one_in(3) {
            assert_eq!(map.remove(&key), model.remove(&key));
        } else {
            assert_eq!(map.insert(key, change as u64), model.insert(key, change as u64));
        }
        all.push((map, model));
    }
    all
}

#[test]
fn every_version_stays_as_it_was() {
    let mut random = Random::new(1);
    let all = versions(&mut random, 600, 80);
    for (map, model) in &all {
        assert_eq!(map.len(), model.len());
        assert!(map.iter().eq(model.iter()));
        let from = random.below(90);
        assert!(map.iter_from(&from).eq(model.range(from..)), "from {from}");
        assert_eq!(map.get(&from), model.get(&from));
    }
}

#[test]
fn differences_of_any_two_versions() {
    let mut random = Random::new(2);
    let (all, keys) = (versions(&mut random, 400, 60), (0..60).collect::<Vec<u64>>());
    for _ in 0..400 {
        let ((before, old), (after, new)) = (&all[random.below(all.len())], &all[random.below(all.len())]);
        let of = |key| Difference { key, before: old.get(key), after: new.get(key) };
        let expected: Vec<_> = keys.iter().map(of).filter(|one| one.before != one.after).collect();
        assert_eq!(after.differences(before, u64::eq), expected);
    }
}

#[test]
fn a_shape_follows_from_the_keys_and_is_shallow() {
    fn depth(link: &Link<u32, ()>) -> usize {
        link.as_ref().map_or(0, |node| 1 + depth(&node.left).max(depth(&node.right)))
    }
    fn same(one: &Link<u32, ()>, other: &Link<u32, ()>) -> bool {
        match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                one.key == other.key && same(&one.left, &other.left) && same(&one.right, &other.right)
            }
            _ => false,
        }
    }
    let up: SharedMap<u32, ()> = (0..20_000).map(|key| (key, ())).collect();
    let mut down: SharedMap<u32, ()> = (0..30_000).rev().map(|key| (key, ())).collect();
    (20_000..30_000).for_each(|key| _ = down.remove(&key));
    assert!(same(&up.root, &down.root));
    // Of 20,000 keys about 34 on average; 100 would be a chance of one in 10^20.
    assert!(depth(&up.root) < 100, "{}", depth(&up.root));
}

#[test]
fn what_two_versions_share_is_not_compared() {
    let before: SharedMap<u32, u32> = (0..100_000).map(|key| (key, 0)).collect();
    let mut after = before.clone();
    for key in [5, 50_000, 99_999] {
        after.insert(key, 1);
    }
    after.remove(&7);
    after.insert(100_000, 1);
    let compared = std::cell::Cell::new(0);
    let found = after.differences(&before, |one, other| {
        compared.set(compared.get() + 1);
        one == other
    });
    assert_eq!(found.iter().map(|one| *one.key).collect::<Vec<_>>(), [5, 7, 50_000, 99_999, 100_000]);
    // Entries on the way from the root to those five.
    assert!(compared.get() < 1_000, "{}", compared.get());
}
