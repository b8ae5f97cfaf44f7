//! Opens a stopped replica's folder for reading.
//!
//! In: a folder that no process writes. Out: a store filled to the end of the kept relay log. Never here: a change,
//! except that files which the store's current version does not name are removed.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use apply::{ApplyOptions, Pipeline, PipelineOptions, lanes_for};
use base::GtidSet;
use catalog::Catalog;
use decode::{SkipList, Stop};
use relay_log::RelayFiles;
use store::{Disk, DiskOptions, Store};

use crate::exit::Failure;
use crate::failure::{relay_failure, store_failure};
use crate::folder::Folder;
use crate::lock::OpeningLock;
use crate::open::recovered_position;
use crate::receiver;
use crate::replica::cores;

/// A stopped folder opened for reading.
pub struct ReadOnly {
    /// The store, filled to the end of the relay log.
    pub pipeline: Pipeline,
    /// The stop, if replay ended before the end of the relay log.
    pub stop: Option<Stop>,
}

impl ReadOnly {
    /// Reads a stopped replica's folder into a store, for `dump` and `verify`. The only change it makes is the removal
    /// of store files that the current version does not name.
    ///
    /// # Errors
    /// The relay log cannot be read.
    pub fn open(folder: &Folder, skip: GtidSet) -> Result<ReadOnly, Failure> {
        let disk_options = DiskOptions { cache_bytes: 64 << 20 };
        let opening = OpeningLock::take(&folder.store())?;
        let kept = Disk::open_existing(&folder.store(), disk_options).map_err(|error| store_failure(&error))?;
        drop(opening);
        let (executed, resume_at) = match &kept {
            Some((_, recovered)) => (recovered.executed.clone(), recovered_position(recovered)),
            None => (GtidSet::new(), None),
        };
        let (files, recovery) =
            RelayFiles::open_read_only_for(folder.relay_log(), &executed, resume_at.as_ref()).map_err(relay_failure)?;
        let data = folder.path();
        let catalog = Catalog::new(receiver::known_lower_case_table_names(data));
        let workers = cores();
        let store = match kept {
            Some((disk, recovered)) => Store::read_only(lanes_for(workers), disk, recovered),
            None => Store::new(lanes_for(workers), catalog),
        };
        let mut tail = files.reader_at(&recovery.start);
        let pipeline = Pipeline::start(
            Box::new(move |timeout| tail.next(timeout)),
            PipelineOptions {
                // The same setting as the running replica's.
                quarantine: true,
                filters: Arc::new(folder.filters()?),
                decoders: 1,
                workers,
                memory_bytes: 256 << 20,
                apply: ApplyOptions { check_images: store::CheckImages::All },
                skip: SkipList::new(skip),
                store: Arc::new(store),
                cuts: None,
                clock_difference_us: Arc::new(AtomicI64::new(0)),
                affinity: base::ThreadAffinity::default(),
            },
        );
        while !pipeline.is_finished() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let stop = pipeline.failure();
        Ok(ReadOnly { stop, pipeline })
    }
}
