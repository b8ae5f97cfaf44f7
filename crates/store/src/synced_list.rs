//! Small lists beside the tree, replaced as a whole.
//!
//! In: the new content. Out: the file, durable under its name. Never here: half a list, after a crash or on a full
//! disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use lsm_tree::file::SyncFailed;

/// Replaces the file `name` in `folder`.
///
/// # Errors
/// The file is as before, but after a failed sync, which [`StoreError::io`](crate::StoreError) tells from other errors.
pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let failed = |error: io::Error| io::Error::new(error.kind(), SyncFailed(error));
    let temporary = folder.join(format!("{name}.tmp"));
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all().map_err(failed)
    });
    written.and_then(|()| fs::rename(&temporary, folder.join(name))).inspect_err(|_| {
        // Nobody reads it; the next list overwrites it.
        let _ = fs::remove_file(&temporary);
    })?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}
