//! Which statements the source answered because this server does not: counts by construct, and by digest.
//!
//! In: a construct's name, and the digest of a statement that only reads. Out: counts, the most frequent first. Never
//! here: a literal of a statement; more names or digests than are kept, however many are told.

use std::collections::{BTreeMap, HashMap};

/// Constructs that are counted by name; the others together. A name may be a client's word, and each is a time series
/// of who watches.
const CONSTRUCTS_MAX: usize = 64;
/// Characters of a construct's name that are kept.
const CONSTRUCT_LEN: usize = 40;
/// The name of those that are not counted by their own.
const OTHERS: &str = "other";
/// Digests that are counted: one that makes up more than a 256th of all is always among them.
const DIGESTS_MAX: usize = 256;

/// Statements that were not answered here since the start.
#[derive(Debug, Default)]
pub struct NotServed {
    by_construct: BTreeMap<String, u64>,
    by_digest: HashMap<String, Counted>,
}

#[derive(Debug)]
struct Counted {
    count: u64,
    /// The part of it that may have been others', whose place it has.
    others: u64,
    /// The construct that was met last.
    construct: String,
}

/// A digest of statements, and how many of them there were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestCount {
    pub text: String,
    /// No less than this.
    pub count: u64,
    pub construct: String,
}

impl NotServed {
    /// A statement is the source's because of this construct. `digest` if it only reads, so that it would be answered
    /// here if the construct were.
    pub fn note(&mut self, construct: &str, digest: Option<String>) {
        let shown = construct.chars().map(|c| if c.is_control() { ' ' } else { c });
        let construct: String = shown.take(CONSTRUCT_LEN).collect();
        if let Some(text) = digest {
            self.note_digest(text, construct.clone());
        }
        let has_place = self.by_construct.len() < CONSTRUCTS_MAX || self.by_construct.contains_key(&construct);
        *self.by_construct.entry(if has_place { construct } else { OTHERS.to_owned() }).or_default() += 1;
    }

    /// Counts as Space-Saving does (Metwally et al., 2005): a new one takes the place and the count of the rarest.
    fn note_digest(&mut self, text: String, construct: String) {
        if let Some(counted) = self.by_digest.get_mut(&text) {
            counted.count += 1;
            counted.construct = construct;
            return;
        }
        let mut others = 0;
        if self.by_digest.len() >= DIGESTS_MAX {
            let rarest = self.by_digest.iter().min_by_key(|(_, counted)| counted.count);
            if let Some((rarest, count)) = rarest.map(|(text, counted)| (text.clone(), counted.count)) {
                self.by_digest.remove(&rarest);
                others = count;
            }
        }
        self.by_digest.insert(text, Counted { count: others + 1, others, construct });
    }

    /// By construct, the most frequent first.
    #[must_use]
    pub fn by_construct(&self) -> Vec<(String, u64)> {
        let mut all: Vec<_> = self.by_construct.iter().map(|(name, count)| (name.clone(), *count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }

    /// The digests that were met most often, at most this number.
    #[must_use]
    pub fn most_frequent(&self, most: usize) -> Vec<DigestCount> {
        let of = |(text, counted): (&String, &Counted)| DigestCount {
            text: text.clone(),
            count: counted.count - counted.others,
            construct: counted.construct.clone(),
        };
        let mut all: Vec<DigestCount> = self.by_digest.iter().map(of).collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.text.cmp(&b.text)));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_ones_are_known_among_many() {
        let mut counts = NotServed::default();
        for number in 0..10_000_u32 {
            counts.note("GROUP BY", Some(format!("select {number}")));
            if number % 5 == 0 {
                counts.note("UNION", Some("often".to_owned()));
            }
            if number % 25 == 0 {
                counts.note("a join", Some("less often".to_owned()));
            }
        }
        counts.note("a write", None);
        let first = counts.most_frequent(2);
        let often = DigestCount { text: "often".to_owned(), count: 2_000, construct: "UNION".to_owned() };
        assert_eq!(first[0], often);
        assert_eq!((first[1].text.as_str(), first[1].construct.as_str()), ("less often", "a join"));
        assert!(first[1].count <= 400 && counts.by_digest.len() == DIGESTS_MAX);
        let sums: Vec<_> = counts.by_construct();
        let expected = [("GROUP BY", 10_000), ("UNION", 2_000), ("a join", 400), ("a write", 1)];
        assert_eq!(sums, expected.map(|(name, count)| (name.to_owned(), count)));
    }

    #[test]
    fn names_of_constructs_are_few_and_short() {
        let mut counts = NotServed::default();
        for number in 0..1_000 {
            counts.note(&format!("{number}\n{}", "é".repeat(100)), None);
        }
        let all = counts.by_construct();
        assert_eq!(
            (all.len(), all[0].clone()),
            (CONSTRUCTS_MAX + 1, (OTHERS.to_owned(), 1_000 - CONSTRUCTS_MAX as u64))
        );
        assert!(all.iter().all(|(name, _)| name.chars().count() <= CONSTRUCT_LEN && !name.contains('\n')));
    }
}
