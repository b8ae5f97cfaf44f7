// Copyright (c) 2024-present, fjall-rs
// This source code is licensed under both the Apache 2.0 and MIT License
// (found in the LICENSE-* files in the repository)

//! slipstream: Drops tables by their ids, without reading them.

use super::{Choice, CompactionStrategy};
use crate::{compaction::state::CompactionState, config::Config, version::Version, TableId};

/// Drops these tables; does nothing while one of them is compacted or if none is left.
pub struct Strategy(pub Vec<TableId>);

impl CompactionStrategy for Strategy {
    fn get_name(&self) -> &'static str {
        "DropTablesCompaction"
    }

    fn choose(&self, version: &Version, _: &Config, state: &CompactionState) -> Choice {
        let ids = self.0.iter().copied();
        let ids: crate::HashSet<_> = ids.filter(|&id| version.get_table(id).is_some()).collect();
        let is_busy = ids.iter().any(|&id| state.hidden_set().is_hidden(id));

        if is_busy || ids.is_empty() {
            Choice::DoNothing
        } else {
            Choice::Drop(ids)
        }
    }
}
