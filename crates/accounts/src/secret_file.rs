//! Files that only their owner may read.
//!
//! In: a path, bytes. Out: the file with these bytes, or as it was. Never here: what the bytes mean.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Writes a file that only its owner may read, whole or not at all.
pub(crate) fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    // What a crash left could have another mode.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let write = || {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
        base::own_files::give_to_owner_of_folder(&file, path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| {
        // It may occupy the last free space. Best effort: the next write removes it first.
        let _ = fs::remove_file(&temporary);
    })
}

/// Makes the names in a file's folder durable.
pub(crate) fn sync_names(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
