//! Opens a stopped replica's folder for reading.
//!
//! In: a folder that no process writes. Out: a store that shows what its replica showed when it stopped; after a crash,
//! what the kept relay log leads to. Never here: a change, except that files which the store's current version does not
//! name are removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apply::{ApplyOptions, Pipeline, PipelineOptions, lanes_for};
use base::GtidSet;
use catalog::Catalog;
use decode::{SkipList, Stop};
use observe::ReplayState;
use relay_log::RelayFiles;
use store::{CheckImages, Disk, DiskOptions, Recovered, Store};

use crate::config::CopyWhen;
use crate::exit::Failure;
use crate::failure::{relay_failure, store_failure};
use crate::filter_orders::FilterOrders;
use crate::folder::Folder;
use crate::lock::OpeningLock;
use crate::open::recovered_position;
use crate::replica::cores;
use crate::source_facts;
use crate::stopped::Stopped;

/// Interval at which the opening looks whether replay has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long it waits at a time for the GTIDs that the replica showed.
const ADVANCE_FOR: Duration = Duration::from_millis(50);

/// A stopped folder opened for reading.
pub struct ReadOnly {
    /// The store with its rows.
    pub pipeline: Pipeline,
    /// Why the replica, or this reading after a crash, stopped before the end of the relay log.
    pub stop: Option<Stop>,
}

/// How its replica read a folder, from its last status.
struct Manner {
    check_images: CheckImages,
    /// Whether tables that cannot be replayed wait for a copy instead of stopping replay.
    quarantine: bool,
    /// Whether tables that the log does not hold wait for a copy too.
    copies_missing: bool,
    /// GTIDs that were visible when replay ended, or was stopped before it was killed; None if it was killed while it
    /// ran.
    shown: Option<GtidSet>,
}

impl Manner {
    /// # Errors
    /// What the replica kept about its end cannot be read.
    fn of(folder: &Folder) -> Result<Manner, Failure> {
        let status = folder.last_whole_report()?;
        let check_images = match status.replay.check_images.as_str() {
            // There is no report.
            "" => CheckImages::default(),
            name => CheckImages::of_name(name).ok_or_else(|| folder.damaged_report("replay.check_images", name))?,
        };
        let shown = match status.replay.ended {
            true => Some(folder.set_of_report("gtid.executed", &status.gtid.executed)?),
            // A start would not go further either.
            false => Stopped::of(folder)?.shown,
        };
        let copies_missing = match status.replay.copy.as_str() {
            "" => true,
            name => {
                CopyWhen::of_name(name).ok_or_else(|| folder.damaged_report("replay.copy", name))? != CopyWhen::Never
            }
        };
        let quarantine = !status.source.uri.starts_with("file:");
        Ok(Manner { check_images, quarantine, copies_missing, shown })
    }
}

impl ReadOnly {
    /// Reads a stopped replica's folder into a store, for `dump` and `verify`. The only change it makes is the removal
    /// of store files that the current version does not name.
    ///
    /// # Errors
    /// The relay log cannot be read.
    pub fn open(folder: &Folder, skip: GtidSet) -> Result<ReadOnly, Failure> {
        let orders = FilterOrders::of(folder)?;
        let disk_options = DiskOptions { cache_bytes: 64 << 20 };
        let opening = OpeningLock::take(&folder.store())?;
        let path = folder.store();
        let opened = path.is_dir().then(|| Disk::open_stopped(&path, disk_options)).transpose();
        let (disk, recovered) = opened.map_err(|error| store_failure(&error))?.unzip();
        let recovered = recovered.flatten();
        drop(opening);
        let (executed, resume_at) = match &recovered {
            Some(recovered) => (recovered.executed.clone(), recovered_position(recovered)),
            None => (GtidSet::new(), None),
        };
        // A cut that is newer than the report: the report is not the last word.
        let manner = Manner::of(folder)?;
        let shown = manner.shown.filter(|shown| executed.is_subset_of(shown));
        let (files, recovery) =
            RelayFiles::open_read_only_for(folder.relay_log(), &executed, resume_at.as_ref()).map_err(relay_failure)?;
        let data = folder.path();
        let catalog = Catalog::new(source_facts::known_lower_case_table_names(data)?);
        let workers = cores();
        let store = match (disk, recovered) {
            // Without a cut, too: rows that the log does not bring may lie below for all that replay knows.
            (Some(disk), recovered) => {
                let recovered = recovered.unwrap_or_else(|| Recovered::nothing(catalog));
                let under_filters = orders.taken_over(&recovered.executed, &recovered.catalog)?;
                let of_cut = under_filters.as_ref().unwrap_or(&recovered.catalog);
                let quarantined = crate::damage::quarantined_at_start(&disk, of_cut);
                let store = Store::read_only(lanes_for(workers), disk, recovered);
                quarantined.or(under_filters).into_iter().for_each(|catalog| store.start_with(catalog));
                store
            }
            (None, _) => Store::new(lanes_for(workers), catalog),
        };
        let mut tail = files.reader_at(&recovery.start);
        // Nothing is read before publishing is held.
        let may_read = Arc::new(AtomicBool::new(shown.is_none()));
        let gate = Arc::clone(&may_read);
        let pipeline = Pipeline::start(
            Box::new(move |timeout| {
                while !gate.load(Ordering::Acquire) {
                    std::thread::sleep(LOOK_EVERY);
                }
                tail.next(timeout)
            }),
            PipelineOptions {
                quarantine: manner.quarantine,
                copies_missing: manner.copies_missing,
                filters: Arc::new(folder.filters()?),
                decoders: 1,
                workers,
                memory_bytes: 256 << 20,
                apply: ApplyOptions { check_images: manner.check_images, ..ApplyOptions::default() },
                skip: SkipList::new(skip),
                store: Arc::new(store),
                cuts: None,
                source_clock: Arc::default(),
                lag_by_part: Arc::default(),
                affinity: base::ThreadAffinity::default(),
            },
        );
        let reached = shown.is_some_and(|shown| {
            pipeline.publisher.hold();
            may_read.store(true, Ordering::Release);
            while !pipeline.publisher.advance_to(&shown, ADVANCE_FOR) {
                if pipeline.is_finished() {
                    return pipeline.publisher.advance_to(&shown, Duration::ZERO);
                }
            }
            pipeline.stop();
            true
        });
        while !pipeline.is_finished() {
            std::thread::sleep(LOOK_EVERY);
        }
        let failed = folder.last_status().replay.state == ReplayState::Failed;
        // What comes after the GTIDs that were visible was not replayed, unless the replica stopped there.
        let stop = pipeline.failure().filter(|_| !reached || failed);
        Ok(ReadOnly { stop, pipeline })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use observe::StatusReport;

    #[test]
    fn how_a_folder_was_read_is_known_or_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::own(dir.path()).unwrap();
        let none = Manner::of(&folder).unwrap();
        assert_eq!((none.check_images, none.shown), (CheckImages::default(), None));
        let report = |check_images: &str, executed: &str| {
            let mut report = StatusReport::default();
            (report.replay.ended, report.replay.check_images) = (true, check_images.to_owned());
            report.gtid.executed = executed.to_owned();
            folder.keep_last_status(&report).unwrap();
            Manner::of(&folder)
        };
        let set = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3";
        assert_eq!(report("all", set).unwrap().shown, Some(set.parse().unwrap()));
        for (check_images, executed, named) in [("some", set, "'some'"), ("all", "x:1", "gtid.executed is 'x:1'")] {
            let Err(failure) = report(check_images, executed) else { panic!("{named} is taken") };
            assert_eq!(failure.exit, Exit::Corrupt);
            assert!(failure.text.contains("last-status.json: ") && failure.text.contains(named), "{}", failure.text);
        }
        std::fs::remove_file(dir.path().join("last-status.json")).unwrap();
        std::fs::write(dir.path().join("stopped"), "sql x:1\n").unwrap();
        let Err(failure) = Manner::of(&folder) else { panic!("a damaged file is taken") };
        assert!(failure.text.contains("/stopped: "), "{}", failure.text);
    }
}
