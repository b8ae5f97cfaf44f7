//! GTID sets as text and as bytes.
#![no_main]

use base::{Gtid, GtidSet};
use fuzz::seeds;

fn sets() -> Vec<Vec<u8>> {
    let texts = [
        "",
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7:10-12",
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:1:tag_1:1-3:5,\n 4e11fa47-71ca-11e1-9e33-c80aa9429562:9",
        "{3e11fa4771ca11e19e33c80aa9429562}:9223372036854775806",
    ];
    let binary = texts.iter().filter_map(|text| text.parse::<GtidSet>().ok()).map(|set| set.encode());
    seeds::texts(&texts).into_iter().chain(binary).collect()
}

fn check(set: &GtidSet) {
    assert_eq!(set.to_string().parse().as_ref(), Ok(set), "text reads back");
    assert_eq!(GtidSet::decode(&set.encode()).as_ref(), Ok(set), "bytes read back");
    assert!(set.is_subset_of(set) && set.subtract(set).is_empty());
    let mut half = GtidSet::new();
    for (uuid, tag, run) in set.intervals() {
        assert!(run.first >= 1 && run.first <= run.last);
        half.add_range(uuid, tag, run.first, run.first + (run.last - run.first) / 2);
        assert!(set.contains(&Gtid { uuid, tag, gno: run.last }));
    }
    let mut sum = set.subtract(&half);
    assert!(sum.intersection(&half).is_empty() && half.is_subset_of(set));
    sum.union_with(&half);
    assert_eq!(&sum, set, "a half and the rest are the whole");
}

fuzz::fuzz_target!(init: seeds::write(sets), |data: &[u8]| {
    if let Ok(set) = GtidSet::decode(data) {
        check(&set);
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(set) = text.parse::<GtidSet>() {
        check(&set);
    }
    if let Ok(gtid) = text.parse::<Gtid>() {
        assert_eq!(gtid.to_string().parse(), Ok(gtid));
    }
});
