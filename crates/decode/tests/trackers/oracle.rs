//! The oracle: checks every pair of transactions by brute force.

use decode::trackers::{DISTANCE_MAX, Facts, Rules, Stamp, TrackerKind, TrackerOptions};
use testkit::seeds;
use testkit::stamps::{KINDS, stamps};

use crate::trackers::history::{Blind, History};

/// Returns the first conflicting pair stamped as independent; `number` maps a stamp to its transaction.
fn wrong_pair(history: &History, stamps: &[Stamp], number: impl Fn(usize) -> usize) -> Option<String> {
    for (later, stamp) in stamps.iter().enumerate() {
        for earlier in stamp.last_committed as usize..later {
            let (one, other) = (&history.transactions[number(earlier)], &history.transactions[number(later)]);
            if let Some(over) = one.touches.conflict(&other.touches) {
                return Some(format!("transactions {} and {} conflict over {over}", earlier + 1, later + 1));
            }
        }
    }
    None
}

/// Number of pairs among the last hundred transactions that may run concurrently.
fn independent(stamps: &[Stamp]) -> u64 {
    stamps.iter().map(|stamp| stamp.sequence_number - 1 - stamp.last_committed).sum()
}

#[test]
fn never_independent_where_conflicting() {
    for seed in seeds(25) {
        let history = History::generate(seed, 220);
        let files = history.files(Blind::default(), |_| false);
        for kind in KINDS {
            for rules in [Rules::Own, Rules::Stock] {
                for history_size in [1, 7, 60, 1_000_000] {
                    if history_size != 60 && !kind.has_history() {
                        continue;
                    }
                    let options = TrackerOptions { kind, rules, history_size };
                    let (stamps, _) = stamps(&files, options, |_| {});
                    assert_eq!(stamps.len(), history.transactions.len());
                    if let Some(wrong) = wrong_pair(&history, &stamps, |at| at) {
                        panic!("seed {seed}, {options:?}: {wrong}");
                    }
                }
            }
        }
    }
}

/// A tracker that stamps nothing as independent would also pass the oracle.
#[test]
fn own_rules_find_more_than_stock_and_sessions_less() {
    let (mut own, mut stock, mut session) = (0, 0, 0);
    for seed in seeds(6) {
        let history = History::generate(seed, 220);
        let files = history.files(Blind::default(), |_| false);
        let of = |kind, rules| {
            let (stamps, counts) = stamps(&files, TrackerOptions { kind, rules, history_size: 1_000_000 }, |_| {});
            let distance: u64 =
                stamps.iter().map(|stamp| (stamp.sequence_number - stamp.last_committed).min(DISTANCE_MAX)).sum();
            assert_eq!(counts.distance, distance);
            independent(&stamps)
        };
        own += of(TrackerKind::Writeset, Rules::Own);
        stock += of(TrackerKind::Writeset, Rules::Stock);
        session += of(TrackerKind::WritesetSession, Rules::Own);
    }
    assert!(own > stock && own > session && session > 0 && stock > 0, "{own} {stock} {session}");
}

/// With one database, only transactions that change nothing are independent.
#[test]
fn a_database_is_changed_by_one_transaction_at_a_time() {
    let history = History::generate(3, 220);
    let options = TrackerOptions { kind: TrackerKind::Database, ..TrackerOptions::default() };
    let (stamps, _) = stamps(&history.files(Blind::default(), |_| false), options, |_| {});
    let changes = |at: usize| !history.transactions[at].touches.things.is_empty();
    for later in (0..stamps.len()).filter(|at| changes(*at)) {
        let between = stamps[later].last_committed as usize..later;
        assert!(!between.into_iter().any(changes), "transaction {}", later + 1);
    }
}

/// Transaction numbers of a history that a log without some of its transactions holds.
fn kept(history: &History, left_out: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..history.transactions.len()).filter(|at| !left_out(*at)).collect()
}

#[test]
fn stock_replicas_never_get_independent_stamps_for_what_innodb_locks() {
    for seed in seeds(25) {
        let history = History::for_innodb(seed, 260);
        // Of every other history the definition of a table is not known. It is never `owned`, as a whole of which the
        // model lets cascades conflict.
        let unknown = (seed % 2 == 0).then_some(1 + seed as usize / 2 % 10);
        let kept = kept(&history, |at| Some(at) == unknown);
        let files = history.files(Blind::default(), |at| Some(at) == unknown);
        for kind in KINDS {
            for history_size in [1, 7, 60, 1_000_000] {
                if history_size != 60 && !kind.has_history() {
                    continue;
                }
                let options = TrackerOptions { kind, rules: Rules::InnoDb, history_size };
                let (stamps, _) = stamps(&files, options, |_| {});
                assert_eq!(stamps.len(), kept.len());
                if let Some(wrong) = wrong_pair(&history, &stamps, |at| kept[at]) {
                    panic!("seed {seed}, {options:?}: {wrong}");
                }
            }
        }
    }
}

/// With sources of any clock: one that lets nothing run concurrently, and one that knows nothing.
#[test]
fn stock_replicas_wait_for_no_more_than_the_source_s_clock_says() {
    for seed in seeds(6) {
        let history = History::for_innodb(seed, 260);
        let files = history.files(Blind::default(), |_| false);
        let of = |kind| stamps(&files, TrackerOptions { kind, rules: Rules::InnoDb, history_size: 60 }, |_| {}).0;
        let (writeset, commit) = (of(TrackerKind::Writeset), of(TrackerKind::CommitOrder));
        let mut lower = 0;
        for (ours, theirs) in writeset.iter().zip(&commit) {
            assert!(ours.last_committed <= theirs.last_committed, "seed {seed}: {ours:?}, {theirs:?}");
            lower += u64::from(ours.last_committed < theirs.last_committed);
        }
        assert!(lower > 20, "{lower}");
    }
}

fn fails_for_innodb(blind: Blind, mut tamper: impl FnMut(&mut Facts)) -> bool {
    let options = TrackerOptions { kind: TrackerKind::Writeset, rules: Rules::InnoDb, history_size: 1_000_000 };
    seeds(10).any(|seed| {
        let history = History::for_innodb(seed, 260);
        let (stamps, _) = stamps(&history.files(blind, |_| false), options, &mut tamper);
        wrong_pair(&history, &stamps, |at| at).is_some()
    })
}

#[test]
fn planted_faults_of_stamps_for_stock_replicas_are_noticed() {
    assert!(!fails_for_innodb(Blind::default(), |_| {}));
    assert!(fails_for_innodb(Blind { collations: true, ..Blind::default() }, |_| {}));
    assert!(fails_for_innodb(Blind { foreign_keys: true, ..Blind::default() }, |_| {}));
    assert!(fails_for_innodb(Blind::default(), |facts| facts.xa = None));
}

fn fails_somewhere(blind: Blind) -> bool {
    let options = TrackerOptions { kind: TrackerKind::Writeset, rules: Rules::Own, history_size: 1_000_000 };
    seeds(10).any(|seed| {
        let history = History::generate(seed, 220);
        let (stamps, _) = stamps(&history.files(blind, |_| false), options, |_| {});
        wrong_pair(&history, &stamps, |at| at).is_some()
    })
}

#[test]
fn planted_a_key_that_is_blind_to_collations_is_noticed() {
    assert!(!fails_somewhere(Blind::default()));
    assert!(fails_somewhere(Blind { collations: true, ..Blind::default() }));
}

#[test]
fn planted_foreign_keys_left_out_are_noticed() {
    assert!(fails_somewhere(Blind { foreign_keys: true, ..Blind::default() }));
}

/// The first transactions of every file are left out, like those executed already. The numbers of a new file then
/// continue above those of the one before, and only the file's beginning shows that they are different ones.
#[test]
fn planted_a_missing_rotation_rule_is_noticed() {
    for kind in [TrackerKind::CommitOrder, TrackerKind::Source] {
        let mut noticed = 0;
        for seed in seeds(12) {
            let history = History::generate(seed, 260);
            let kept: Vec<usize> = (0..history.transactions.len()).filter(|at| !left_out(&history, *at)).collect();
            let files = history.files(Blind::default(), |at| left_out(&history, at));
            let options = TrackerOptions { kind, rules: Rules::Own, history_size: 1 };
            let (good, _) = stamps(&files, options, |_| {});
            if let Some(wrong) = wrong_pair(&history, &good, |at| kept[at]) {
                panic!("seed {seed}, {kind:?}: {wrong}");
            }
            let (planted, _) = stamps(&files, options, |facts| facts.new_file = false);
            noticed += u64::from(wrong_pair(&history, &planted, |at| kept[at]).is_some());
        }
        assert!(noticed > 0, "{kind:?}");
    }
}

/// True for as many transactions at the front of a file as the file before it has.
fn left_out(history: &History, at: usize) -> bool {
    let first = (0..=at).rev().find(|place| history.transactions[*place].new_file).unwrap();
    let before = (0..first).rev().find(|place| history.transactions[*place].new_file);
    // Definitions must be kept.
    before.is_some_and(|before| at > 14 && at - first < first - before)
}
