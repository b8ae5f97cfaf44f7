//! `check-store` on a stopped folder: every byte of the store and of the relay log that has a checksum, every row on
//! disk against the log, and a sample of the rows and their index entries.
//!
//! In: an owned, stopped folder. Out: a line for each part; damaged files and contradicting rows on the store's lists.
//! Never here: a repair; rows of the relay log that no cut holds, which the next start replays and checks.

use catalog::IndexSet;
use observe::bytes_text;
use relay_log::RelayFiles;
use store::{Disk, DiskOptions, FileCheck, Snapshot, Store, StoreError, TableReader};

use crate::damage::{concerned, shown};
use crate::drift::drifted;
use crate::exit::{Exit, Failure};
use crate::failure::{relay_failure, store_failure};
use crate::folder::Folder;
use crate::open::recovered_position;

/// One row and one index entry of this many are looked up.
const SAMPLE: usize = 16;
const CACHE_BYTES: u64 = 64 << 20;

/// Checks the folder, and tells `say` a line for each part.
///
/// # Errors
/// Code 7 if something is damaged, 16 if rows contradict the log, or rows and index entries each other.
pub fn check_stopped(folder: &Folder, say: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let options = DiskOptions { cache_bytes: CACHE_BYTES };
    let opened = Disk::open_existing(&folder.store(), options).map_err(|error| store_failure(&error))?;
    let (executed, resume_at) = match &opened {
        Some((_, recovered)) => (recovered.executed.clone(), recovered_position(recovered)),
        None => Default::default(),
    };
    let mut damaged = Vec::new();
    match opened {
        None => say("store: empty"),
        Some((disk, recovered)) => {
            disk.list_damage();
            damaged.extend(check_files(&disk, &recovered.catalog, say)?);
            if damaged.is_empty() {
                let catalog = recovered.catalog.clone();
                let store = Store::over(1, disk, folder.scratch(), Some(recovered), catalog.clone());
                let store = store.map_err(|error| store_failure(&error))?;
                check_rows(&store, &catalog, say)?;
                check_indexes(store, say)?;
            }
        }
    }
    let (relay, _) =
        RelayFiles::open_read_only_for(folder.relay_log(), &executed, resume_at.as_ref()).map_err(relay_failure)?;
    let mut bytes = 0;
    let files = relay.files();
    for (number, len) in &files {
        if let Some(problem) = relay.check_file(*number).map_err(relay_failure)? {
            say(&format!("relay log: {problem}"));
            damaged.push(problem);
        }
        bytes += len;
    }
    say(&format!("relay log: {} files, {}", files.len(), bytes_text(bytes)));
    if damaged.is_empty() {
        return Ok(());
    }
    let text = format!("{} is damaged: {}", folder.path().display(), shown(&damaged));
    let hint = "the next start copies the tables in damaged files of the store again, and fetches damaged parts of the \
                relay log, from a server as the source";
    Err(Failure::new(Exit::Corrupt, text).with_hint(hint))
}

/// Reads every file of the tree. Returns the damaged ones.
fn check_files(disk: &Disk, catalog: &catalog::Catalog, say: &mut dyn FnMut(&str)) -> Result<Vec<String>, Failure> {
    let (mut whole, mut bytes) = (0, 0);
    for file in disk.file_numbers() {
        if let FileCheck::Whole(len) = disk.check_file(file, &mut |_| true).map_err(|error| store_failure(&error))? {
            whole += 1;
            bytes += len;
        }
    }
    say(&format!("store: {whole} files, {}, as they were written", bytes_text(bytes)));
    let damage: Vec<_> = disk.damage().into_iter().filter(|file| !file.removed).collect();
    let concerned = concerned(catalog, &damage);
    let mut names = Vec::new();
    for file in &damage {
        let tables = concerned.iter().find(|(other, _)| other.file == file.file);
        let tables: Vec<String> =
            tables.iter().flat_map(|(_, tables)| tables.iter().map(|(_, name)| name.clone())).collect();
        let tables = if tables.is_empty() { "no row of any table".to_owned() } else { shown(&tables) };
        say(&format!("store: {} is damaged: {}; it may hold: {tables}", file.name(), file.what));
        names.push(file.name());
    }
    Ok(names)
}

/// Merges all cuts into the last level, where each row is compared with the log.
fn check_rows(store: &Store, catalog: &catalog::Catalog, say: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    store.check_rows().map_err(|error| store_failure(&error))?;
    let drifted = drifted(store, catalog);
    if drifted.is_empty() {
        say("rows: none on disk contradicts the log");
        return Ok(());
    }
    drifted.iter().for_each(|table| say(&format!("rows: {table}")));
    let text =
        format!("rows contradict the log: {}", shown(&drifted.iter().map(|t| t.name.clone()).collect::<Vec<_>>()));
    let hint = "their rows are kept, and so is the list: with --on-drift=copy the next start copies these tables again";
    Err(Failure::new(Exit::VerifyDifferences, text).with_hint(hint))
}

/// Looks up a sample of rows and index entries in each other.
fn check_indexes(store: Store, say: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let store = std::sync::Arc::new(store);
    let snapshot = Snapshot::pin(&store);
    let (mut indexes, mut entries, mut wrong) = (0, 0, Vec::new());
    for table in snapshot.catalog().tables() {
        let Some(set) = IndexSet::of(table) else { continue };
        let reader = TableReader::new(table);
        for index in set.indexes() {
            let check = match store.sample_index(&snapshot, &reader, index.id(), SAMPLE) {
                Ok(check) => check,
                // It has no entries that count.
                Err(StoreError::IndexNotReady { .. }) => continue,
                Err(error) => return Err(store_failure(&error)),
            };
            indexes += 1;
            entries += check.entries;
            if check.missing + check.stale > 0 {
                let name = table.full_name();
                let text = format!(
                    "{name}, index id {}: {} of the rows looked up have no entry, {} of {} entries have no row",
                    index.id(),
                    check.missing,
                    check.stale,
                    check.entries
                );
                say(&text);
                wrong.push(name);
            }
        }
    }
    say(&format!("indexes: {indexes}, of which {entries} entries and as many rows were looked up in each other"));
    wrong.dedup();
    if wrong.is_empty() {
        return Ok(());
    }
    let text = format!("rows and index entries contradict each other: {}", shown(&wrong));
    Err(Failure::new(Exit::VerifyDifferences, text).with_hint("slipstream copy SCHEMA.TABLE copies a table again"))
}
