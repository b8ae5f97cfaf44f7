//! `slipstream skip`: GTIDs that replay commits empty when it meets them.
//!
//! Stored in `DIR/skipped` as a GTID set in MySQL's text form. The set only grows: after a restart the kept relay log
//! is replayed from its start and must skip the same transactions again.

use std::path::PathBuf;

use base::GtidSet;

use crate::exit::{Exit, Failure};
use crate::folder::{Folder, read_small, write_atomically};

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
pub fn add(folder: &Folder, more: &GtidSet) -> Result<GtidSet, Failure> {
    let mut all = load(folder)?;
    all.union_with(more);
    write_atomically(&file(folder), format!("{all}\n").as_bytes())?;
    Ok(all)
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
