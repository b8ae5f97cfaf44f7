//! Effect of ALTER TABLE on the partitions, and on the rows in them.
//!
//! In: a definition and the parsed actions. Out: its partitions after them, and which rows move or are deleted. Never
//! here: the partition of a row (`partition`).

use crate::error::Problem;
use crate::partition::{self, PartitionChoice};
use crate::syntax::{AlterAction, PartitionAction, TableName};
use crate::table::TableDef;
use crate::table_build::Scope;

/// Which rows a change of partitions moves or deletes.
pub(crate) enum PartitionsEffect {
    /// All rows are deleted.
    AllEmptied,
    /// Rows of these partitions are deleted.
    Emptied(PartitionChoice),
    /// Rows of one partition are exchanged with those of another table. `validated`: the source checked that they belong
    /// there.
    Exchanged { partition: PartitionChoice, with: TableName, validated: bool },
}

/// Applies the partition action; MySQL accepts one per statement.
pub(super) fn partition_effect(
    old: &TableDef,
    table: &mut TableDef,
    actions: &[AlterAction],
    scope: &Scope<'_>,
) -> Result<Option<PartitionsEffect>, Problem> {
    let action = actions.iter().find_map(|action| match action {
        AlterAction::Partitions(action) => Some(action),
        _ => None,
    });
    let Some(action) = action else { return Ok(None) };
    match action {
        PartitionAction::By(text) => {
            table.partition_by = Some(text.clone());
            table.partitioning = partition::parse(scope.context, text);
            return Ok(None);
        }
        PartitionAction::Remove => {
            (table.partition_by, table.partitioning) = (None, None);
            return Ok(None);
        }
        PartitionAction::Truncate(None) if table.partition_by.is_some() => {
            return Ok(Some(PartitionsEffect::AllEmptied));
        }
        _ => {}
    }
    // Every other action depends on the current partitions.
    let Some(now) = &mut table.partitioning else {
        let what = format!("a change of the partitions of {}, whose PARTITION BY is not understood", old.full_name());
        return Problem::unsupported(what);
    };
    Ok(match action {
        PartitionAction::Add(partitions) => {
            now.partitions.extend(partitions.iter().cloned());
            now.given = now.given.map(|_| partition::Given::Each);
            None
        }
        PartitionAction::AddNumbered(count) => {
            now.add_numbered(*count);
            None
        }
        PartitionAction::Renumber => {
            now.partitions.clear();
            now.add_numbered(1);
            None
        }
        PartitionAction::Coalesce(count) => {
            // COALESCE removes the last partitions; at least one remains.
            let left = now.partitions.len().saturating_sub(usize::try_from(*count).unwrap_or(usize::MAX));
            now.partitions.truncate(left.max(1));
            None
        }
        PartitionAction::Reorganize { partitions, into } => {
            let positions = now.positions(partitions)?;
            let first = positions.iter().min().copied().unwrap_or(0);
            let mut position = 0;
            now.partitions.retain(|_| {
                position += 1;
                !positions.contains(&(position - 1))
            });
            // The new partitions take the place of the first one that they replace.
            now.partitions.splice(first..first, into.iter().cloned());
            now.given = now.given.map(|_| partition::Given::Each);
            None
        }
        PartitionAction::Drop(names) => {
            let choice = now.choice(names)?;
            let mut position = 0;
            now.partitions.retain(|_| {
                position += 1;
                !choice.chosen.contains(&(position - 1))
            });
            Some(PartitionsEffect::Emptied(choice))
        }
        PartitionAction::Truncate(names) => {
            Some(PartitionsEffect::Emptied(now.choice(names.as_deref().unwrap_or_default())?))
        }
        PartitionAction::Exchange { partition, with, validated } => Some(PartitionsEffect::Exchanged {
            partition: now.choice(std::slice::from_ref(partition))?,
            with: with.clone(),
            validated: *validated,
        }),
        PartitionAction::By(_) | PartitionAction::Remove => None,
    })
}
