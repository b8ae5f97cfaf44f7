//! What faults of the store mean for replay.

use decode::StopClass;
use store::StoreError;

/// What kind of stop a fault of the store is.
#[must_use]
pub fn class_of(error: &StoreError) -> StopClass {
    match error {
        StoreError::Damaged { .. } | StoreError::Version { .. } => StopClass::Corrupt,
        StoreError::RowMissing { .. } => StopClass::DataDiffers,
        StoreError::Defect { .. } => StopClass::Defect,
        StoreError::DiskFull { .. }
        | StoreError::Io { .. }
        | StoreError::IndexNotReady { .. }
        | StoreError::SnapshotTooOld
        | StoreError::Settling { .. } => StopClass::Io,
    }
}
