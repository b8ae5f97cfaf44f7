//! Maps faults of the store to stops of replay.

use decode::StopClass;
use store::StoreError;

/// Returns the stop class of a fault of the store.
#[must_use]
pub fn class_of(error: &StoreError) -> StopClass {
    match error {
        StoreError::Damaged { .. }
        | StoreError::DamagedFile { .. }
        | StoreError::Version { .. }
        | StoreError::OtherRelease { .. } => StopClass::StoreDamaged,
        StoreError::RowMissing { .. } => StopClass::DataDiffers,
        StoreError::Defect { .. } => StopClass::Defect,
        StoreError::DiskFull { .. } => StopClass::DiskFull,
        StoreError::SyncFailed { .. } => StopClass::SyncFailed,
        StoreError::Io { .. }
        | StoreError::IndexNotReady { .. }
        | StoreError::SnapshotTooOld
        | StoreError::NotYetConsistent { .. } => StopClass::Io,
    }
}
