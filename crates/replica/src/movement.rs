//! Whether the stages of a replica move, for the one who would start it again if they do not.
//!
//! In: the counters of the stages. Out: rest, or a number that changes with the work. Never here: a clock, a wait.

use std::hash::{DefaultHasher, Hash, Hasher};

use apply::CutWait;

use crate::initial_copy::CopyInProgress;
use crate::replica::Replica;

/// What the stages do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// There is nothing to do, or it waits for what is outside the process: the source, the disk, the operator.
    Rests,
    /// There is work. The number changes with each part of it that is done.
    Works(u64),
}

impl Replica {
    /// Whether replay moves. Receiving has time limits of its own.
    #[must_use]
    pub fn movement(&self) -> Movement {
        let visible = self.replay.pipeline.store.visibility().current();
        let publisher = self.replay.pipeline.publisher.status();
        let behind = !self.inbound.link.lock().received.retrieved.is_subset_of(&visible.executed) || publisher.pending;
        let waits = matches!(self.replay.pipeline.waits_for(), CutWait::Space | CutWait::Damage)
            || self.replay.pipeline.remaining_delay().is_some()
            || self.replay.pipeline.publisher.is_read_locked()
            || self.replay.pipeline.publisher.unacknowledged().is_some();
        if !behind || waits || self.replay.pipeline.is_paused() || self.replay.pipeline.failure().is_some() {
            return Movement::Rests;
        }
        let stats = self.replay.pipeline.store.stats();
        let tree = stats.disk.unwrap_or_default();
        // A large transaction, a table that is written anew, a merge that replay waits for: each moves one of these
        // long before the watermark.
        works(&(
            visible.sequence.0,
            publisher.position.map(|end| end.to_string()),
            format!("{:?}", self.replay.pipeline.ledger.snapshot(binlog::event_type::name).rows),
            (stats.memory.rows, stats.memory.bytes, stats.sealed),
            (tree.written_bytes, tree.compactions, tree.debt_bytes),
            self.inbound.relay.unread_bytes(None),
            self.upkeep.copies.running.progress(),
        ))
    }
}

impl CopyInProgress {
    /// Whether the initial copy moves, or the log beside it.
    #[must_use]
    pub fn movement(&self) -> Movement {
        let Some((progress, beside)) = self.reading.get() else { return works(&self.preparing.line()) };
        let totals = progress.totals();
        works(&(totals.tables_done, totals.rows, totals.bytes, beside.relay.total_bytes()))
    }
}

fn works(counters: &impl Hash) -> Movement {
    let mut hasher = DefaultHasher::new();
    counters.hash(&mut hasher);
    Movement::Works(hasher.finish())
}
