//! GTID sets: sorted, disjoint intervals per uuid and tag.
//!
//! In: GTIDs, text and binary forms from servers. Out: sets, their algebra, both forms. Never here: memory sized by an
//! unchecked count; a form of more than `GTID_INTERVALS_MAX` intervals accepted.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::str::FromStr;

use crate::gtid::{GNO_MAX, parse_gno};
use crate::limits::GTID_INTERVALS_MAX;
use crate::{Gtid, GtidError, Tag, Uuid};

/// A run of transaction numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub first: u64,
    /// Last number, at least `first`.
    pub last: u64,
}

/// A set of GTIDs, such as `gtid_executed`. Intervals are sorted, and at least one number is missing between
/// neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GtidSet {
    sets: BTreeMap<(Uuid, Tag), Vec<Interval>>,
}

impl GtidSet {
    /// Returns the empty set.
    #[must_use]
    pub fn new() -> GtidSet {
        GtidSet::default()
    }

    /// True if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Number of GTIDs in the set; saturates.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sets.values().flatten().fold(0, |sum, i| sum.saturating_add(i.last - i.first + 1))
    }

    /// All intervals with their uuid and tag, in order.
    pub fn intervals(&self) -> impl Iterator<Item = (Uuid, Tag, Interval)> + '_ {
        self.sets.iter().flat_map(|(key, runs)| runs.iter().map(move |run| (key.0, key.1, *run)))
    }

    /// True if `gtid` is in the set.
    #[must_use]
    pub fn contains(&self, gtid: &Gtid) -> bool {
        let Some(runs) = self.sets.get(&(gtid.uuid, gtid.tag)) else { return false };
        let after = runs.partition_point(|run| run.first <= gtid.gno);
        after > 0 && runs.get(after - 1).is_some_and(|run| gtid.gno <= run.last)
    }

    /// Adds one GTID; false if it was already in the set. The successor of the last run's end needs no search.
    pub fn add(&mut self, gtid: Gtid) -> bool {
        if let Some(last) = self.sets.get_mut(&(gtid.uuid, gtid.tag)).and_then(|runs| runs.last_mut())
            && last.last.checked_add(1) == Some(gtid.gno)
        {
            last.last = gtid.gno;
            return true;
        }
        if self.contains(&gtid) {
            return false;
        }
        self.add_range(gtid.uuid, gtid.tag, gtid.gno, gtid.gno);
        true
    }

    /// Adds `first..=last`; does nothing if `first > last`.
    pub fn add_range(&mut self, uuid: Uuid, tag: Tag, first: u64, last: u64) {
        if first > last {
            return;
        }
        let runs = self.sets.entry((uuid, tag)).or_default();
        // Merges the new run with all runs that overlap or touch it.
        let from = runs.partition_point(|run| run.last.saturating_add(1) < first);
        let to = runs.partition_point(|run| run.first <= last.saturating_add(1));
        let merged = runs.get(from..to).unwrap_or(&[]).iter().fold(Interval { first, last }, |sum, run| Interval {
            first: sum.first.min(run.first),
            last: sum.last.max(run.last),
        });
        runs.splice(from..to.max(from), [merged]);
    }

    /// Adds everything in `other`.
    pub fn union_with(&mut self, other: &GtidSet) {
        for (uuid, tag, run) in other.intervals() {
            self.add_range(uuid, tag, run.first, run.last);
        }
    }

    /// Everything in this set that is not in `other`.
    #[must_use]
    pub fn subtract(&self, other: &GtidSet) -> GtidSet {
        let mut rest = GtidSet::new();
        for (key, runs) in &self.sets {
            let minus = other.sets.get(key).map_or(&[][..], Vec::as_slice);
            let mut kept = Vec::new();
            for run in runs {
                // First number of the run that is not decided yet.
                let mut next = run.first;
                let start = minus.partition_point(|m| m.last < run.first);
                for cut in minus.get(start..).unwrap_or(&[]).iter().take_while(|m| m.first <= run.last) {
                    if cut.first > next {
                        kept.push(Interval { first: next, last: cut.first - 1 });
                    }
                    next = next.max(cut.last.saturating_add(1));
                }
                if next <= run.last {
                    kept.push(Interval { first: next, last: run.last });
                }
            }
            if !kept.is_empty() {
                rest.sets.insert(*key, kept);
            }
        }
        rest
    }

    /// Everything in both sets.
    #[must_use]
    pub fn intersection(&self, other: &GtidSet) -> GtidSet {
        self.subtract(&self.subtract(other))
    }

    /// True if `other` contains all of this set.
    #[must_use]
    pub fn is_subset_of(&self, other: &GtidSet) -> bool {
        self.subtract(other).is_empty()
    }

    /// The last GTID of this set, in order, that `other` lacks; those after `upto` are not looked at. Takes no memory,
    /// and ends at the first one that it finds from behind.
    #[must_use]
    pub fn last_missing_in(&self, other: &GtidSet, upto: Option<Gtid>) -> Option<Gtid> {
        let end = upto.map_or(Bound::Unbounded, |upto| Bound::Included((upto.uuid, upto.tag)));
        for (key @ (uuid, tag), runs) in self.sets.range((Bound::Unbounded, end)).rev() {
            let at = upto.filter(|upto| (upto.uuid, upto.tag) == *key).map_or(u64::MAX, |upto| upto.gno);
            let missing = |gno| Some(Gtid { uuid: *uuid, tag: *tag, gno });
            let has = other.sets.get(key).map_or(&[][..], Vec::as_slice);
            let own = runs.get(..runs.partition_point(|run| run.first <= at)).unwrap_or(&[]);
            let mut has = has.get(..has.partition_point(|run| run.first <= at)).unwrap_or(&[]);
            for run in own.iter().rev() {
                let last = run.last.min(at);
                // Both lists ascend, and neighbours in `has` do not touch: one of its runs must hold all of this one.
                while let Some((next, rest)) = has.split_last()
                    && next.first > last
                {
                    has = rest;
                }
                match has.last() {
                    Some(next) if next.last >= last && next.first <= run.first => {}
                    Some(next) if next.last >= last => return missing(next.first - 1),
                    _ => return missing(last),
                }
            }
        }
        None
    }

    /// True if any GTID has a tag, which decides the binary form.
    #[must_use]
    pub fn has_tags(&self) -> bool {
        self.sets.keys().any(|(_, tag)| !tag.is_empty())
    }

    /// Binary form of Previous_gtids and COM_BINLOG_DUMP_GTID (rpl_gtid_set.cc): the untagged one unless the set has a
    /// tag.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let tagged = self.has_tags();
        let count = self.sets.len() as u64;
        let header = if tagged { (1u64 << 56) | (count << 8) | 1 } else { count };
        let mut out = header.to_le_bytes().to_vec();
        for ((uuid, tag), runs) in &self.sets {
            out.extend_from_slice(&uuid.0);
            if tagged {
                // A mysql::serialization varint; a tag has at most 32 bytes, so its length fits in one byte.
                out.push((tag.as_str().len() as u8) << 1);
                out.extend_from_slice(tag.as_str().as_bytes());
            }
            out.extend_from_slice(&(runs.len() as u64).to_le_bytes());
            for run in runs {
                out.extend_from_slice(&run.first.to_le_bytes());
                out.extend_from_slice(&(run.last + 1).to_le_bytes());
            }
        }
        out
    }

    /// Decodes the binary form.
    ///
    /// # Errors
    /// If the bytes end early, contain impossible intervals, or continue after the set.
    pub fn decode(bytes: &[u8]) -> Result<GtidSet, GtidError> {
        let mut rest = bytes;
        // The tagged form has 1 in the highest and in the lowest byte of the header, and the count between them.
        let header = take_u64(&mut rest)?;
        let tagged = header >> 56 == 1;
        let count = if tagged { (header >> 8) & 0xffff_ffff_ffff } else { header };
        if tagged && header & 0xff != 1 {
            return Err(GtidError::Binary("unknown format in the header"));
        }
        let mut set = GtidSet::new();
        let mut intervals = 0usize;
        for _ in 0..count {
            let uuid = Uuid(*take::<16>(&mut rest)?);
            let tag = if tagged { take_tag(&mut rest)? } else { Tag::EMPTY };
            let runs = take_u64(&mut rest)?;
            for _ in 0..runs {
                let (first, end) = (take_u64(&mut rest)?, take_u64(&mut rest)?);
                if first == 0 || end <= first || end > GNO_MAX + 1 {
                    return Err(GtidError::Binary("an interval is empty or out of range"));
                }
                intervals += 1;
                if intervals > GTID_INTERVALS_MAX {
                    return Err(GtidError::Binary("too many intervals"));
                }
                set.add_range(uuid, tag, first, end - 1);
            }
        }
        if rest.is_empty() { Ok(set) } else { Err(GtidError::Binary("bytes after the end")) }
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], GtidError> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(GtidError::Binary("it ends early"))?;
    *rest = tail;
    Ok(head)
}

fn take_u64(rest: &mut &[u8]) -> Result<u64, GtidError> {
    Ok(u64::from_le_bytes(*take::<8>(rest)?))
}

fn take_tag(rest: &mut &[u8]) -> Result<Tag, GtidError> {
    let [len] = *take::<1>(rest)?;
    if len & 1 != 0 {
        return Err(GtidError::Binary("a tag is too long"));
    }
    let (text, tail) = rest.split_at_checked(usize::from(len >> 1)).ok_or(GtidError::Binary("it ends early"))?;
    *rest = tail;
    Tag::new(text).map_err(|_| GtidError::Binary("a tag has impossible characters"))
}

impl fmt::Display for GtidSet {
    /// MySQL's text form: `uuid:1-5:7:tag:1-3,uuid2:1`, without line breaks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before: Option<Uuid> = None;
        for ((uuid, tag), runs) in &self.sets {
            if before != Some(*uuid) {
                write!(f, "{}{uuid}", if before.is_some() { "," } else { "" })?;
                before = Some(*uuid);
            }
            if !tag.is_empty() {
                write!(f, ":{}", tag.as_str())?;
            }
            for run in runs {
                if run.first == run.last {
                    write!(f, ":{}", run.first)?;
                } else {
                    write!(f, ":{}-{}", run.first, run.last)?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for GtidSet {
    type Err = GtidError;

    fn from_str(text: &str) -> Result<GtidSet, GtidError> {
        let mut set = GtidSet::new();
        let mut intervals = 0usize;
        for member in text.split(',').map(str::trim).filter(|m| !m.is_empty()) {
            let mut parts = member.split(':').map(str::trim);
            let uuid: Uuid = parts.next().unwrap_or("").parse()?;
            let mut tag = Tag::EMPTY;
            let mut seen_number = false;
            for part in parts {
                if part.starts_with(|c: char| c.is_ascii_digit()) {
                    let (first, last) = part.split_once('-').unwrap_or((part, part));
                    let (first, last) = (parse_gno(first.trim())?, parse_gno(last.trim())?);
                    if first > last {
                        return Err(GtidError::Number(part.chars().take(64).collect()));
                    }
                    intervals += 1;
                    if intervals > GTID_INTERVALS_MAX {
                        return Err(GtidError::Malformed("too many intervals".into()));
                    }
                    set.add_range(uuid, tag, first, last);
                    seen_number = true;
                } else {
                    tag = Tag::new(part.as_bytes())?;
                    if tag.is_empty() {
                        return Err(GtidError::Malformed(member.chars().take(128).collect()));
                    }
                    // A tag needs a number of its own, as a uuid does.
                    seen_number = false;
                }
            }
            if !seen_number {
                return Err(GtidError::Malformed(member.chars().take(128).collect()));
            }
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const A: &str = "896e7882-18fe-11ef-ab88-22222d34d411";
    const B: &str = "996e7882-18fe-11ef-ab88-22222d34d411";

    fn set(text: &str) -> GtidSet {
        text.parse().unwrap()
    }

    #[test]
    fn text_and_binary_round_trip() {
        for text in ["".to_string(), format!("{A}:1-5:7"), format!("{A}:1-5:7:a:1-3:b_2:9,{B}:2")] {
            assert_eq!(set(&text).to_string(), text);
            assert_eq!(GtidSet::decode(&set(&text).encode()).unwrap(), set(&text));
        }
    }

    #[test]
    fn neighbours_merge() {
        assert_eq!(set(&format!("{A}:3:1:2,{A}:5-9:4")).to_string(), format!("{A}:1-9"));
    }

    #[test]
    fn bad_sets_are_refused() {
        for text in
            [A.to_string(), format!("{A}:"), format!("{A}:5-1"), format!("{A}:0"), format!("{A}:a"), "junk".into()]
        {
            assert!(text.parse::<GtidSet>().is_err(), "{text}");
        }
        assert!(GtidSet::decode(&[1, 0, 0]).is_err());
        assert!(GtidSet::decode(&u64::MAX.to_le_bytes()).is_err());
        let mut bytes = set(&format!("{A}:1")).encode();
        bytes.push(0);
        assert!(GtidSet::decode(&bytes).is_err());
    }

    fn model(pairs: &[(u8, u8, u8)]) -> (GtidSet, BTreeSet<(u8, u64)>) {
        let mut set = GtidSet::new();
        let mut all = BTreeSet::new();
        for &(who, first, len) in pairs {
            let (who, first, last) = (who % 3, u64::from(first) + 1, u64::from(first) + 1 + u64::from(len % 8));
            set.add_range(Uuid([who; 16]), Tag::EMPTY, first, last);
            all.extend((first..=last).map(|n| (who, n)));
        }
        (set, all)
    }

    fn flat(set: &GtidSet) -> BTreeSet<(u8, u64)> {
        set.intervals().flat_map(|(u, _, i)| (i.first..=i.last).map(move |n| (u.0[0], n))).collect()
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(a in proptest::collection::vec(any::<(u8, u8, u8)>(), 0..20), b in proptest::collection::vec(any::<(u8, u8, u8)>(), 0..20)) {
            let ((sa, ma), (sb, mb)) = (model(&a), model(&b));
            prop_assert_eq!(flat(&sa), ma.clone());
            prop_assert_eq!(flat(&sa.subtract(&sb)), ma.difference(&mb).copied().collect());
            prop_assert_eq!(flat(&sa.intersection(&sb)), ma.intersection(&mb).copied().collect());
            prop_assert_eq!(sa.is_subset_of(&sb), ma.is_subset(&mb));
            prop_assert_eq!(sa.count(), ma.len() as u64);
            let shown = |found: Option<Gtid>| found.map(|found| (found.uuid.0[0], found.gno));
            let missing: BTreeSet<_> = ma.difference(&mb).copied().collect();
            prop_assert_eq!(shown(sa.last_missing_in(&sb, None)), missing.last().copied());
            for &(who, gno) in &missing {
                let upto = Gtid { uuid: Uuid([who; 16]), tag: Tag::EMPTY, gno };
                prop_assert_eq!(shown(sa.last_missing_in(&sb, Some(upto))), Some((who, gno)));
                let upto = Gtid { gno: gno - 1, ..upto };
                let next = missing.range(..(who, gno)).next_back().copied();
                prop_assert_eq!(shown(sa.last_missing_in(&sb, Some(upto))), next);
            }
            let mut union = sa.clone();
            union.union_with(&sb);
            prop_assert_eq!(flat(&union), ma.union(&mb).copied().collect());
            prop_assert_eq!(union.to_string().parse::<GtidSet>().unwrap(), union);
        }

        #[test]
        fn decode_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = GtidSet::decode(&bytes);
            let _ = String::from_utf8_lossy(&bytes).parse::<GtidSet>();
        }
    }
}
