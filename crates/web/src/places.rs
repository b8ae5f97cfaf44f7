//! Which connections have a place at the port, and which one loses it to a new connection.
//!
//! In: connections that come, ask, are answered and go, the time. Out: who has lost its place. Never here: sockets, a
//! clock, a new connection that waits.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use accounts::Origin;

/// Connections at a time.
const PLACES: usize = 64;
/// Places of one origin; beyond it a new connection takes a place of the origin that has the most. A proxy in front of
/// everybody may have all of them: its new connections replace its own.
const SHARE: usize = PLACES / 4;
/// From so many on a connection is closed after its answer.
const SHORT_FROM: usize = PLACES / 4 * 3;
/// Time after which a request on its way, or an answer being made, no longer goes before connections that idle. Whoever
/// connects without end must do so 64 times within it to get ahead of a request in one packet.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Connects, shakes hands, or has sent a part of a request.
    Asking,
    /// Its request is being answered.
    Answering,
    /// It has its answer, or is about to take it.
    Idle,
}

struct Place<K> {
    origin: Origin,
    doing: Doing,
    since: Instant,
    /// Dropped with the place.
    _keeps: K,
}

/// Places by number of their connection.
pub(crate) struct Places<K> {
    taken: HashMap<u64, Place<K>>,
    next: u64,
}

impl<K> Default for Places<K> {
    fn default() -> Self {
        Places { taken: HashMap::new(), next: 0 }
    }
}

impl<K> Places<K> {
    /// Gives a new connection a place, another one's if all are taken. `keeps` is dropped once the place is lost.
    pub(crate) fn admit(&mut self, origin: Origin, keeps: K, now: Instant) -> u64 {
        if self.taken.len() >= PLACES
            && let Some(loser) = self.loser(origin, now)
        {
            self.taken.remove(&loser);
        }
        self.next += 1;
        self.taken.insert(self.next, Place { origin, doing: Doing::Asking, since: now, _keeps: keeps });
        self.next
    }

    /// The connection has ended.
    pub(crate) fn leave(&mut self, id: u64) {
        self.taken.remove(&id);
    }

    /// The connection does something else now.
    pub(crate) fn is(&mut self, id: u64, doing: Doing, now: Instant) {
        if let Some(place) = self.taken.get_mut(&id) {
            (place.doing, place.since) = (doing, now);
        }
    }

    /// Bytes have come: of a next request, unless they belong to one that is known of.
    pub(crate) fn hears(&mut self, id: u64, now: Instant) {
        if self.taken.get(&id).is_some_and(|place| place.doing == Doing::Idle) {
            self.is(id, Doing::Asking, now);
        }
    }

    /// When its request began, if that is not whole.
    pub(crate) fn asking_since(&self, id: u64) -> Option<Instant> {
        self.taken.get(&id).filter(|place| place.doing == Doing::Asking).map(|place| place.since)
    }

    /// True if connections are to be closed after their answers.
    pub(crate) fn are_short(&self) -> bool {
        self.taken.len() >= SHORT_FROM
    }

    /// Who makes room for a connection of this origin.
    fn loser(&self, newcomer: Origin, now: Instant) -> Option<u64> {
        let mut counts = HashMap::from([(newcomer, 1)]);
        for place in self.taken.values() {
            *counts.entry(place.origin).or_insert(0) += 1;
        }
        let most = counts.values().copied().max().filter(|most| *most > SHARE);
        let may_lose = |place: &Place<K>| most.is_none_or(|most| counts.get(&place.origin) == Some(&most));
        let candidates = self.taken.iter().filter(|(_, place)| may_lose(place));
        candidates.min_by_key(|(id, place)| (place.rank(now), place.since, **id)).map(|(id, _)| *id)
    }
}

impl<K> Place<K> {
    /// The lowest goes first.
    fn rank(&self, now: Instant) -> u8 {
        match self.doing {
            Doing::Asking if now.saturating_duration_since(self.since) >= PATIENCE => 0,
            Doing::Idle => 1,
            Doing::Asking | Doing::Answering => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    struct Bed {
        places: Places<()>,
        now: Instant,
    }

    impl Bed {
        fn new() -> Bed {
            Bed { places: Places::default(), now: Instant::now() }
        }

        /// A new connection from this address, a millisecond after what was before; who has lost its place.
        fn comes(&mut self, address: u8) -> (u64, Vec<u64>) {
            self.now += Duration::from_millis(1);
            let before: Vec<u64> = self.places.taken.keys().copied().collect();
            let id = self.places.admit(Origin::of(IpAddr::from([10, 0, 0, address])), (), self.now);
            assert!(self.places.taken.len() <= PLACES && self.places.taken.contains_key(&id));
            (id, before.into_iter().filter(|id| !self.places.taken.contains_key(id)).collect())
        }

        fn does(&mut self, id: u64, doing: Doing) {
            self.now += Duration::from_millis(1);
            self.places.is(id, doing, self.now);
        }

        /// So many connections that idle.
        fn idle(&mut self, address: u8, count: usize) -> Vec<u64> {
            let ids: Vec<u64> = (0..count).map(|_| self.comes(address).0).collect();
            ids.iter().for_each(|id| self.does(*id, Doing::Idle));
            ids
        }
    }

    #[test]
    fn one_address_may_have_all_places_and_replaces_its_own() {
        let mut bed = Bed::new();
        let ids = bed.idle(1, PLACES);
        bed.does(ids[0], Doing::Idle);
        assert_eq!(bed.comes(1).1, [ids[1]]);
        assert_eq!(bed.comes(2).1, [ids[2]]);
    }

    #[test]
    fn who_has_most_beyond_a_quarter_makes_room() {
        let mut bed = Bed::new();
        let (few, many) = (bed.idle(1, 20), bed.idle(2, 44));
        for victim in &many[..22] {
            assert_eq!(bed.comes(3).1, [*victim]);
        }
        // 20 and 22 there are of the others, of the newcomer's 23: its own goes, though others have idled for longer.
        assert!(bed.comes(3).1[0] > many[43]);
        assert!(few.iter().all(|id| bed.places.taken.contains_key(id)));
    }

    #[test]
    fn when_nobody_has_more_than_a_quarter_the_longest_idle_goes() {
        let mut bed = Bed::new();
        let ids: Vec<u64> = (1..=4).flat_map(|address| bed.idle(address, SHARE)).collect();
        assert_eq!(bed.comes(5).1, [ids[0]]);
        // One of a quarter already takes another one's of its own.
        assert_eq!(bed.comes(2).1, [ids[SHARE]]);
    }

    #[test]
    fn half_a_request_goes_first_but_a_young_one_last() {
        let mut bed = Bed::new();
        let half = bed.comes(1).0;
        let idle = bed.idle(1, PLACES - 2);
        let answered = bed.comes(1).0;
        bed.does(answered, Doing::Answering);
        assert_eq!(bed.comes(1).1, [idle[0]]);
        bed.now += PATIENCE;
        assert_eq!(bed.comes(1).1, [half]);
        // Bytes of a next request make an idle one half-sent; those of one that is answered do not.
        bed.places.hears(idle[1], bed.now);
        bed.places.hears(answered, bed.now);
        assert_eq!(bed.places.asking_since(idle[1]), Some(bed.now));
        assert_eq!(bed.places.asking_since(answered), None);
        bed.places.hears(idle[1], bed.now + PATIENCE);
        assert_eq!(bed.places.asking_since(idle[1]), Some(bed.now));
    }

    #[test]
    fn places_are_short_from_three_quarters_on_until_somebody_goes() {
        let mut bed = Bed::new();
        let ids = bed.idle(1, SHORT_FROM - 1);
        assert!(!bed.places.are_short());
        let last = bed.comes(2).0;
        assert!(bed.places.are_short());
        bed.places.leave(ids[3]);
        assert!(!bed.places.are_short());
        bed.does(ids[3], Doing::Answering);
        bed.places.leave(last);
        assert_eq!(bed.places.taken.len(), SHORT_FROM - 2);
    }
}
