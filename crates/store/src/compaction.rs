//! Which rows compaction may drop.
//!
//! In: the tables alive at the last durable cut. Out: what is dead. Never here: a row dropped that any recoverable
//! state can show: an id is dead only when the last durable cut does not know it any more (RULES 2).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use catalog::Catalog;
use lsm_tree::compaction::filter::{Context, Factory};
use lsm_tree::compaction::{CompactionFilter, ItemAccessor, Verdict};

use crate::entry;

/// Tells dead table ids.
#[derive(Default)]
pub(crate) struct DeadRows {
    known: Mutex<Arc<Known>>,
    /// Tables being copied: no cut knows them, and their rows stay.
    copied: Mutex<BTreeSet<u32>>,
}

/// The ids of one durable cut.
#[derive(Default, Clone)]
pub(crate) struct Known {
    alive: BTreeSet<u32>,
    /// Ids from here on were not given yet.
    next: u32,
}

impl Known {
    pub(crate) fn is_dead(&self, id: u32) -> bool {
        id < self.next && !self.alive.contains(&id)
    }

    /// Whether any id of the range, ends included, is not dead.
    fn any_alive(&self, first: u32, last: u32) -> bool {
        last >= self.next || self.alive.range(first..=last).next().is_some()
    }

    /// Whether all rows between two keys are of dead tables.
    pub(crate) fn all_dead(&self, first: &[u8], last: &[u8]) -> bool {
        match (entry::table_of(first), entry::table_of(last)) {
            (Some(first), Some(last)) => !self.any_alive(first, last),
            _ => false,
        }
    }

    /// Whether the first or the last of these rows is of a dead table.
    pub(crate) fn dead_at_ends(&self, first: &[u8], last: &[u8]) -> bool {
        [first, last].iter().any(|key| entry::table_of(key).is_some_and(|id| self.is_dead(id)))
    }
}

impl DeadRows {
    /// The catalog of the last durable cut.
    pub(crate) fn set_alive(&self, catalog: &Catalog) {
        let mut alive: BTreeSet<u32> = catalog.tables().map(|table| table.id.0).collect();
        let copied = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
        alive.extend(copied.iter());
        let known = Known { alive, next: catalog.next_table_id().0 };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    }

    /// Rows of a table that is being copied stay, though no cut knows it.
    pub(crate) fn keep(&self, table: u32) {
        let mut copied = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
        copied.insert(table);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = Known::clone(&known);
        now.alive.insert(table);
        *known = Arc::new(now);
    }

    /// The table is in the catalog now, or its copy was given up; the next cut tells.
    pub(crate) fn keep_no_more(&self, table: u32) {
        self.copied.lock().unwrap_or_else(PoisonError::into_inner).remove(&table);
    }

    pub(crate) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Factory for DeadRows {
    fn name(&self) -> &str {
        "dead tables"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(Filter { known: self.known() })
    }
}

struct Filter {
    known: Arc<Known>,
}

impl CompactionFilter for Filter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        let dead = entry::table_of(item.key()).is_some_and(|id| self.known.is_dead(id));
        // Older versions of a dead row are dead too, so nothing comes back.
        Ok(if dead { Verdict::Destroy } else { Verdict::Keep })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_is_what_the_last_cut_does_not_know_and_had_given() {
        let known = Known { alive: [3, 7].into_iter().collect(), next: 9 };
        let dead: Vec<u32> = (0..12).filter(|id| known.is_dead(*id)).collect();
        assert_eq!(dead, [0, 1, 2, 4, 5, 6, 8]);
        assert!(!known.is_dead(entry::RECORDS));
        let key = |id: u32| [id.to_be_bytes().as_slice(), &[0, 0, 1]].concat();
        assert!(known.all_dead(&key(4), &key(6)));
        assert!(!known.all_dead(&key(4), &key(7)));
        assert!(!known.all_dead(&key(8), &key(9)));
        assert!(known.dead_at_ends(&key(3), &key(4)));
        assert!(!known.dead_at_ends(&key(3), &key(7)));
    }
}
