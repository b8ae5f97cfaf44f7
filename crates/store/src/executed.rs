//! GTID sets of the newest view and of older ones.
//!
//! In: the GTIDs that each move of the watermark makes visible. Out: the set as of a view, on request. Never here: a
//! copy of the set for a move whose set nobody requests.
//!
//! The newest set is kept, with the GTIDs of recent moves in order: an older set is the newest one minus those of later
//! moves. Before moves are forgotten, the held views that depend on them get their set.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{Gtid, GtidSet};

/// Number of GTID runs to remember, 72 bytes each.
const RECENT_MAX: usize = 4096;
/// Moves between two copies of the set: each holds the publisher up once, by 0.1 ms for 10,000 intervals.
const MOVES_A_COPY: u64 = 1_000;

/// The newest GTID set, and the changes that lead back to older ones.
pub(crate) struct Executed {
    now: GtidSet,
    moves: u64,
    /// Oldest first.
    recent: VecDeque<Run>,
    /// What `now` was after a move, to be read without a lock.
    copy: Option<(u64, Arc<GtidSet>)>,
}

/// Consecutive GTIDs of one move.
struct Run {
    of: u64,
    first: Gtid,
    last: u64,
}

/// Collects the GTIDs that become visible with one move of the watermark.
pub struct NewGtids<'a>(&'a mut Executed);

impl NewGtids<'_> {
    pub fn add(&mut self, gtid: Gtid) {
        let Executed { now, moves, recent, .. } = &mut *self.0;
        if !now.add(gtid) {
            return;
        }
        match recent.back_mut() {
            Some(run) if run.of == *moves && run.is_before(&gtid) => run.last = gtid.gno,
            _ => recent.push_back(Run { of: *moves, first: gtid, last: gtid.gno }),
        }
    }
}

impl Run {
    fn is_before(&self, gtid: &Gtid) -> bool {
        gtid.gno == self.last + 1 && gtid.uuid == self.first.uuid && gtid.tag == self.first.tag
    }
}

impl Executed {
    pub(crate) fn new(now: GtidSet) -> Executed {
        Executed { now, moves: 0, recent: VecDeque::new(), copy: None }
    }

    pub(crate) fn now(&self) -> &GtidSet {
        &self.now
    }

    /// The set as it was some time ago.
    pub(crate) fn copy(&self) -> Option<Arc<GtidSet>> {
        self.copy.as_ref().map(|(_, copy)| Arc::clone(copy))
    }

    /// A newer copy than [`copy`](Self::copy) returned, unless that one is new enough.
    pub(crate) fn newer_copy(&mut self) -> Option<Arc<GtidSet>> {
        if self.copy.as_ref().is_some_and(|(made, _)| self.moves - made < MOVES_A_COPY) {
            return None;
        }
        let copy = Arc::new(self.now.clone());
        self.copy = Some((self.moves, Arc::clone(&copy)));
        Some(copy)
    }

    /// Number of the newest move.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// Registers a move of the watermark.
    pub(crate) fn advance(&mut self, add: impl FnOnce(&mut NewGtids<'_>)) {
        self.moves += 1;
        add(&mut NewGtids(self));
    }

    /// The set after a remembered move, or the newest set.
    pub(crate) fn at(&self, moves: u64) -> GtidSet {
        let mut later = GtidSet::new();
        for Run { first, last, .. } in self.recent.iter().rev().take_while(|run| run.of > moves) {
            later.add_range(first.uuid, first.tag, first.gno, *last);
        }
        self.now.subtract(&later)
    }

    /// The runs of GTIDs that the newest move added.
    pub(crate) fn newest(&self) -> impl Iterator<Item = (&Gtid, u64)> {
        self.recent.iter().rev().take_while(|run| run.of == self.moves).map(|run| (&run.first, run.last))
    }

    /// If too many runs are remembered, the number of the move up to which to forget; holders of older views must get
    /// their sets first.
    pub(crate) fn is_full(&self) -> Option<u64> {
        if self.recent.len() <= RECENT_MAX {
            return None;
        }
        self.recent.get(self.recent.len() / 2).map(|run| run.of)
    }

    /// Forgets the GTIDs of moves up to this one.
    pub(crate) fn forget(&mut self, upto: u64) {
        let kept = self.recent.partition_point(|run| run.of <= upto);
        self.recent.drain(..kept);
    }
}

#[cfg(test)]
mod tests {
    use base::{Tag, Uuid};

    use super::*;

    #[test]
    fn a_copy_is_made_now_and_then() {
        let mut executed = Executed::new(GtidSet::new());
        assert!(executed.copy().is_none());
        let mut copies = 0;
        for gno in 1..=3 * MOVES_A_COPY {
            executed.advance(|set| set.add(Gtid { uuid: Uuid([7; 16]), tag: Tag::default(), gno }));
            if let Some(copy) = executed.newer_copy() {
                copies += 1;
                assert_eq!(*copy, *executed.now());
                assert!(Arc::ptr_eq(&copy, &executed.copy().unwrap()));
            }
        }
        assert_eq!(copies, 3);
    }

    #[test]
    fn older_sets_are_what_they_were_until_they_are_forgotten() {
        let gtid = |number: u64| Gtid { uuid: Uuid([7; 16]), tag: Tag::default(), gno: number };
        let mut executed = Executed::new(GtidSet::new());
        let mut sets = vec![GtidSet::new()];
        // Moves of zero, one and several transactions, out of order, some seen before.
        for step in 1..9000u64 {
            let new: Vec<Gtid> = (0..step % 4).map(|nth| gtid(1 + (step * 7 + nth * 3) % 9001)).collect();
            executed.advance(|set| new.iter().for_each(|gtid| set.add(*gtid)));
            let mut set = executed.now().clone();
            new.iter().for_each(|gtid| assert!(!set.add(*gtid)));
            sets.push(set);
            if let Some(upto) = executed.is_full() {
                executed.forget(upto);
            }
        }
        assert_eq!(executed.moves(), 8999);
        let oldest = executed.recent.front().unwrap().of;
        for moves in (oldest..9000).step_by(37).chain([8999]) {
            assert_eq!(executed.at(moves), sets[moves as usize], "after {moves}");
        }
    }
}
