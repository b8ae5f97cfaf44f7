//! Transactions that are left to the source as a whole, since one like them was in conflict.
//!
//! In: the digest of a transaction's first read here, the time. Out: whether such a one is avoided now. Never here:
//! more digests than are kept; one that is avoided for ever.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long they are. What changes one table often does so for longer than a minute; an hour would outlast its reason.
const AVOIDED_FOR: Duration = Duration::from_secs(600);
/// Digests that are kept: an application has some hundreds.
const DIGESTS_MAX: usize = 1024;

/// Digests of first reads, each until when it is avoided.
#[derive(Debug, Default)]
pub struct Avoided(HashMap<String, Instant>);

impl Avoided {
    /// A transaction that began with this read was in conflict.
    pub fn add(&mut self, digest: String, now: Instant) {
        if self.0.len() >= DIGESTS_MAX {
            self.0.retain(|_, until| *until > now);
        }
        if self.0.len() >= DIGESTS_MAX {
            let first = self.0.iter().min_by_key(|(_, until)| **until).map(|(digest, _)| digest.clone());
            first.and_then(|digest| self.0.remove(&digest));
        }
        self.0.insert(digest, now + AVOIDED_FOR);
    }

    /// True if one that begins with this read is the source's now.
    #[must_use]
    pub fn has(&self, digest: &str, now: Instant) -> bool {
        self.0.get(digest).is_some_and(|until| *until > now)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_avoided_for_a_while_and_few_are_kept() {
        let (mut avoided, now) = (Avoided::default(), Instant::now());
        avoided.add("first".to_owned(), now);
        assert!(avoided.has("first", now) && !avoided.has("second", now));
        assert!(!avoided.has("first", now + AVOIDED_FOR));
        let later = now + Duration::from_secs(1);
        (0..DIGESTS_MAX).for_each(|number| avoided.add(number.to_string(), later));
        assert_eq!(avoided.0.len(), DIGESTS_MAX);
        assert!(!avoided.has("first", later), "the oldest one has made room");
        avoided.add("new".to_owned(), later + AVOIDED_FOR);
        assert_eq!(avoided.0.len(), 1, "those whose time is over have gone");
    }
}
