//! Small lists beside the tree, replaced as a whole.
//!
//! In: the new content, or the file's text. Out: the file, durable under its name; what the text says. Never here: half
//! a list, after a crash or on a full disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use lsm_tree::file::SyncFailed;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::StoreError;

/// Reads a list, whose `format` is looked at before anything else: a newer one may have other names.
///
/// # Errors
/// It is of another format or release, or damaged; the error names the file.
pub(crate) fn read<T: DeserializeOwned>(folder: &Path, name: &str, text: &[u8], format: u32) -> Result<T, StoreError> {
    let failed = |error: serde_json::Error| StoreError::record(folder, name, &error);
    let record: Value = serde_json::from_slice(text).map_err(failed)?;
    let found = record.get("format").and_then(Value::as_u64).unwrap_or(0);
    if found != u64::from(format) {
        let text = format!("{name} has format version {found}, this program reads {format}");
        return Err(StoreError::OtherRelease { folder: folder.to_owned(), text });
    }
    serde_json::from_value(record).map_err(failed)
}

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
