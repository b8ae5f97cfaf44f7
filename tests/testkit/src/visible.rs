//! The check that whatever is visible is a prefix of the source's history.
//!
//! In: a store, a history's states. Out: whether a snapshot shows exactly the model's state at its watermark. Never here:
//! an answer from a store that cannot be read.

use std::ops::ControlFlow;
use std::sync::Arc;

use store::{Snapshot, Store, StoreError};

use crate::history::{State, row_digest};

/// Result of reading the store.
pub enum Seen {
    /// Equal to the model after this many transactions.
    Equal(usize),
    /// The disk failed during the read.
    Unreadable,
}

/// Digest of the rows, and the tables, that a snapshot sees.
///
/// # Errors
/// The store cannot be read.
pub fn digest(store: &Arc<Store>, snapshot: &Snapshot) -> Result<(u64, Vec<String>), StoreError> {
    let (mut digest, mut tables) = (0u64, Vec::new());
    for def in snapshot.catalog().tables() {
        let name = format!("{}.{}", def.db, def.name);
        let columns = def.columns.len();
        let _ = store.scan::<()>(snapshot, def, |row| {
            let mut image = row.image.to_vec();
            if columns % 8 != 0 {
                image[columns / 8] &= !(0xff << (columns % 8));
            }
            digest = digest.wrapping_add(row_digest(&name, &image, row.count));
            ControlFlow::Continue(())
        })?;
        tables.push(name);
    }
    tables.sort();
    Ok((digest, tables))
}

/// Compares a snapshot with the state at its watermark.
///
/// # Errors
/// The difference.
pub fn compare(store: &Arc<Store>, snapshot: &Snapshot, states: &[State]) -> Result<Seen, String> {
    let at = snapshot.sequence() as usize;
    let Some(state) = states.get(at) else { return Err(format!("watermark {at} of {}", states.len() - 1)) };
    if *snapshot.executed() != state.executed {
        return Err(format!("at {at}: gtid_executed {} instead of {}", snapshot.executed(), state.executed));
    }
    let (digest, tables) = match digest(store, snapshot) {
        Ok(seen) => seen,
        Err(StoreError::Io { .. } | StoreError::DiskFull { .. } | StoreError::SnapshotTooOld) => {
            return Ok(Seen::Unreadable);
        }
        Err(error) => return Err(format!("at {at}: {error}")),
    };
    if tables != state.tables {
        return Err(format!("at {at}: tables {tables:?} instead of {:?}", state.tables));
    }
    if digest != state.digest {
        return Err(format!("at {at}: the rows are not those of the source's history"));
    }
    Ok(Seen::Equal(at))
}
