//! What all tests of replays begin with.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use relay_log::SyncPolicy;
use replay::{Grain, ReplayOptions};
use store::CheckImages;

/// Threads are counted by name over the whole process, so replays run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Options for the rows grain over logs, in memory, with the rows hashed.
pub(crate) fn options(folder: &Path, load: PathBuf, logs: Vec<PathBuf>) -> ReplayOptions {
    ReplayOptions {
        logs,
        load: vec![load],
        folder: folder.join("replay"),
        workers: 4,
        decoders: 1,
        affinity: base::ThreadAffinity::default(),
        grain: Grain::Rows,
        memory_bytes: 64 << 20,
        hot_bytes_max: None,
        on_disk: None,
        check_images: CheckImages::All,
        relay_sync: SyncPolicy::default(),
        pace: None,
        samples: false,
        reads: 0,
        readers: 0,
        hash: true,
    }
}
