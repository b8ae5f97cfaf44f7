//! `slipstream skip`: GTIDs that replay commits empty when it meets them.
//!
//! Stored in `DIR/skipped` as a GTID set in MySQL's text form. A GTID that was met stays there until a cut holds it:
//! after a restart the kept relay log is replayed from the cut and must skip the same transactions again.

use std::path::PathBuf;

use base::GtidSet;
use serde::{Deserialize, Serialize};
use store::{Disk, DiskOptions};

use crate::exit::{Exit, Failure};
use crate::failure::store_failure;
use crate::folder::{Folder, read_small, write_atomically};
use crate::lock::OpeningLock;

/// A number this far after the last one received is more likely a slip of the pen than a transaction to come.
const AHEAD_MAX: u64 = 1000;

fn file(folder: &Folder) -> PathBuf {
    folder.path().join("skipped")
}

/// Parses the set given on the command line.
///
/// # Errors
/// Code 2 if it is not a GTID set or is empty.
pub fn parse(text: &str) -> Result<GtidSet, Failure> {
    let set: GtidSet = text.trim().parse().map_err(|error| Failure::usage(format!("'{text}': {error}")))?;
    if set.is_empty() {
        return Err(Failure::usage("no GTIDs given; the stop message names the one to skip"));
    }
    Ok(set)
}

/// The GTIDs stored so far.
///
/// # Errors
/// Code 7 if the file is damaged; 8 for disk errors.
pub fn load(folder: &Folder) -> Result<GtidSet, Failure> {
    let path = file(folder);
    let Some(text) = read_small(&path)? else { return Ok(GtidSet::new()) };
    text.trim().parse().map_err(|error| Failure::new(Exit::Corrupt, format!("{}: {error}", path.display())))
}

/// Adds GTIDs and returns the whole set, which is then durable. The caller holds the folder's exclusive lock.
///
/// # Errors
/// As `load`.
pub(crate) fn add(folder: &Folder, more: &GtidSet) -> Result<GtidSet, Failure> {
    let mut all = load(folder)?;
    all.union_with(more);
    store(folder, &all)?;
    Ok(all)
}

/// Replaces the stored set durably. The caller holds the folder's exclusive lock.
pub(crate) fn store(folder: &Folder, set: &GtidSet) -> Result<(), Failure> {
    write_atomically(&file(folder), format!("{set}\n").as_bytes())
}

/// GTIDs to skip, by what has become of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Listed {
    /// Not met yet.
    pub waiting: String,
    /// Met and committed empty, but in no cut yet: a restart meets them again.
    pub met: String,
}

impl Listed {
    /// Divides a list. What a cut holds is no longer on it.
    pub(crate) fn of(set: &GtidSet, met: &GtidSet, cut: &GtidSet) -> Listed {
        let set = set.subtract(cut);
        Listed { waiting: set.subtract(met).to_string(), met: set.intersection(met).to_string() }
    }
}

/// The list with `more`, without what is sequenced already; that comes second.
pub(crate) fn with(listed: &GtidSet, more: &GtidSet, sequenced: &GtidSet) -> (GtidSet, GtidSet) {
    let late = more.intersection(sequenced);
    let mut all = listed.clone();
    all.union_with(&more.subtract(&late));
    (all, late)
}

/// The list without `less`.
///
/// # Errors
/// Code 1 if some of `less` are not on the list, or were met already.
pub(crate) fn without(listed: &GtidSet, less: &GtidSet, sequenced: &GtidSet) -> Result<GtidSet, Failure> {
    let unknown = less.subtract(listed);
    if !unknown.is_empty() {
        return Err(Failure::error(format!("not on the list of transactions to skip: {unknown}")));
    }
    let met = less.intersection(sequenced);
    if !met.is_empty() {
        return Err(Failure::error(format!(
            "too late, already committed empty: {met}; slipstream copy brings the tables that they changed back to the \
             source's rows"
        )));
    }
    Ok(listed.subtract(less))
}

pub(crate) fn too_late(late: &GtidSet) -> Result<(), Failure> {
    if late.is_empty() {
        return Ok(());
    }
    Err(Failure::error(format!("already executed, too late to skip: {late}")))
}

/// A warning for GTIDs that no transaction to come is likely to have; `known` are those of the relay log and the store.
pub(crate) fn far_ahead(set: &GtidSet, known: &GtidSet) -> Option<String> {
    // Intervals of one source and tag, in MySQL's text form.
    let highest = |set: &GtidSet| -> Vec<(String, u64)> {
        let text = set.to_string().replace('\n', "");
        let mut found: Vec<(String, u64)> = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let Some((uuid, rest)) = part.split_once(':') else { continue };
            let mut source = uuid.to_owned();
            for item in rest.split(':') {
                let last = item.rsplit('-').next().and_then(|last| last.parse::<u64>().ok());
                match (last, found.iter_mut().find(|(own, _)| *own == source)) {
                    (Some(last), Some((_, highest))) => *highest = last.max(*highest),
                    (Some(last), None) => found.push((source.clone(), last)),
                    (None, _) => source = format!("{uuid}:{item}"),
                }
            }
        }
        found
    };
    let known = highest(known);
    let words =
        highest(set).into_iter().filter_map(|(source, last)| match known.iter().find(|(own, _)| *own == source) {
            Some((_, seen)) if last > seen.saturating_add(AHEAD_MAX) => Some(format!(
                "{source}:{last} is {} transactions after {source}:{seen}, the last one received",
                last - seen
            )),
            Some(_) => None,
            None => Some(format!("no transaction of {source} has been received")),
        });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| format!("{}; slipstream skip --undo takes it back", words.join("; ")))
}

/// The newest cut's GTIDs: what a stopped replica can no longer decide otherwise.
fn cut(folder: &Folder) -> Result<GtidSet, Failure> {
    let opening = OpeningLock::take(&folder.store())?;
    let kept = Disk::open_existing(&folder.store(), DiskOptions { cache_bytes: 1 << 20 });
    let cut = kept.map_err(|error| store_failure(&error))?.map(|(_disk, recovered)| recovered.executed);
    drop(opening);
    Ok(cut.unwrap_or_default())
}

/// Adds GTIDs to the list of a stopped replica, and returns a warning if some are unlikely to come. The caller holds the
/// folder's exclusive lock.
///
/// # Errors
/// Code 1 if some are executed; as [`load`].
pub fn add_stopped(folder: &Folder, more: &GtidSet) -> Result<Option<String>, Failure> {
    let cut = cut(folder)?;
    let (all, late) = with(&load(folder)?.subtract(&cut), more, &cut);
    store(folder, &all)?;
    too_late(&late)?;
    let report = folder.last_whole_report()?;
    let mut known = cut;
    for (key, set) in [("gtid.retrieved", &report.gtid.retrieved), ("gtid.executed", &report.gtid.executed)] {
        known.union_with(&folder.set_of_report(key, set)?);
    }
    Ok(far_ahead(more, &known))
}

/// Takes GTIDs off the list of a stopped replica. The caller holds the folder's exclusive lock.
///
/// # Errors
/// Code 1 if some are not on the list or are executed; as [`load`].
pub fn undo_stopped(folder: &Folder, less: &GtidSet) -> Result<(), Failure> {
    store(folder, &without(&load(folder)?, less, &cut(folder)?)?)
}

/// The list of a stopped replica.
///
/// # Errors
/// As [`load`].
pub fn list_stopped(folder: &Folder) -> Result<Listed, Failure> {
    let set = load(folder)?;
    if set.is_empty() {
        return Ok(Listed::default());
    }
    let shown = folder.set_of_report("gtid.executed", &folder.last_whole_report()?.gtid.executed)?;
    Ok(Listed::of(&set, &shown, &cut(folder)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_add_up_and_survive() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::own(dir.path()).unwrap();
        assert!(load(&folder).unwrap().is_empty());
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        add(&folder, &parse(&format!("{uuid}:5")).unwrap()).unwrap();
        add(&folder, &parse(&format!(" {uuid}:6-7,{uuid}:tag:1\n")).unwrap()).unwrap();
        let all = load(&folder).unwrap();
        assert_eq!(all.count(), 4);
        assert!(parse(&format!("{uuid}:5-7")).unwrap().is_subset_of(&all));
    }

    #[test]
    fn what_was_met_is_neither_added_nor_taken_back() {
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let set = |numbers: &str| -> GtidSet { format!("{uuid}:{numbers}").parse().unwrap() };
        let (all, late) = with(&set("7"), &set("3-9"), &set("1-5"));
        assert_eq!((all, late), (set("6-9"), set("3-5")));
        assert_eq!(without(&set("5-9"), &set("7"), &set("1-5")).unwrap(), set("5-6:8-9"));
        assert!(without(&set("5-9"), &set("5"), &set("1-5")).unwrap_err().text.contains("already committed empty"));
        assert!(without(&set("5-9"), &set("4"), &set("1-3")).unwrap_err().text.contains("not on the list"));
        let listed = Listed::of(&set("3:5:9"), &set("1-5"), &set("1-4"));
        assert_eq!((listed.met, listed.waiting), (set("5").to_string(), set("9").to_string()));
    }

    #[test]
    fn numbers_far_ahead_are_warned_of() {
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let set = |text: &str| -> GtidSet { text.replace('U', uuid).parse().unwrap() };
        let known = set("U:1-50:70-80:tag:1-9");
        for near in ["U:81", "U:1000", "U:tag:10", "U:3"] {
            assert_eq!(far_ahead(&set(near), &known), None, "{near}");
        }
        let warned = |text: &str| far_ahead(&set(text), &known).unwrap();
        assert!(warned("U:99999").contains("is 99919 transactions after"), "{}", warned("U:99999"));
        assert!(warned("U:81:tag:2000").contains("tag:2000 is 1991 transactions after"), "{}", warned("U:81:tag:2000"));
        assert!(warned("U:other:1").contains("no transaction of"), "{}", warned("U:other:1"));
        assert!(far_ahead(&set("U:1"), &GtidSet::new()).is_some());
    }

    #[test]
    fn wrong_sets_and_broken_files() {
        for text in ["", "nonsense", "3e11fa47:1"] {
            assert_eq!(parse(text).unwrap_err().exit, Exit::Usage, "{text}");
        }
        let dir = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::own(dir.path()).unwrap();
        std::fs::write(dir.path().join("skipped"), "x:y").unwrap();
        assert_eq!(load(&folder).unwrap_err().exit, Exit::Corrupt);
        assert_eq!(add(&folder, &GtidSet::new()).unwrap_err().exit, Exit::Corrupt);
    }
}
