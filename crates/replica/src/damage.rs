//! Damaged files of the store, and what is done about them.
//!
//! In: the store's list of such files. Out: the tables whose rows may be in them, by name, put in quarantine or a reason to
//! stop; a log message for each file. Never here: a guess at what a file contained; a file removed (the store does that
//! once nothing needs it); a copy of a table (`due_copies` has those in quarantine copied).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use catalog::{Catalog, TableId};
use decode::START_ANEW;
use store::{DamagedFile, Disk};

use crate::exit::{Exit, Failure};
use crate::log::{self, Code};

/// What to do when a file of the store is damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// Put the tables whose rows may be in it in quarantine, and copy them again while replay continues.
    #[default]
    Copy,
    /// Stop, and leave it to the operator.
    Stop,
}

/// Interval at which tables are looked for that a damaged file concerns, while there is one.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Tables that are named in a message.
const NAMES_MAX: usize = 20;

/// Reason of a table's quarantine.
fn reason(file: &DamagedFile) -> String {
    format!("its rows may be in the file {} of the store, which is damaged: {}", file.name(), file.what)
}

/// Tables of a catalog that damaged files concern: each file with their ids and quoted names.
pub(crate) fn concerned(catalog: &Catalog, damage: &[DamagedFile]) -> Vec<(DamagedFile, Vec<(TableId, String)>)> {
    let of = |file: &DamagedFile| {
        let tables = catalog.tables().filter(|table| file.concerns(table.id.0));
        tables.map(|table| (table.id, table.full_name())).collect::<Vec<_>>()
    };
    let all = damage.iter().map(|file| (file.clone(), of(file)));
    all.filter(|(_, tables)| !tables.is_empty()).collect()
}

fn names(tables: &[(TableId, String)]) -> Vec<String> {
    tables.iter().map(|(_, name)| name.clone()).collect()
}

/// Names for a message, not more than a reader takes in.
pub(crate) fn shown(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let mut text = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// The catalog without the tables that damaged files concern, which are in quarantine there. For a start: nothing has
/// read the store yet.
pub(crate) fn quarantined_at_start(disk: &Disk, catalog: &Catalog) -> Option<Catalog> {
    let mut next = None;
    for (file, tables) in concerned(catalog, &disk.damage()) {
        disk.note_quarantined(file.file, &names(&tables));
        for (id, _) in tables {
            let Some(table) = catalog.table_by_id(id) else { continue };
            let of = next.as_ref().unwrap_or(catalog);
            next = Some(of.with_quarantined(&(table.db.clone(), table.name.clone()), &reason(&file)).0);
        }
    }
    next
}

/// Why a store with damaged files that concern tables cannot be used; None if it can.
pub(crate) fn refusal(disk: &Disk, catalog: &Catalog) -> Option<Failure> {
    let concerned = concerned(catalog, &disk.damage());
    let (file, tables) = concerned.first()?;
    Some(stop(disk, file, tables))
}

/// Why a check of all rows is not complete; None if it is.
pub(crate) fn unchecked(disk: &Disk) -> Option<Failure> {
    let damage: Vec<DamagedFile> = disk.damage().into_iter().filter(|file| !file.removed).collect();
    if damage.is_empty() {
        return None;
    }
    let files: Vec<String> = damage.iter().map(|file| format!("{} ({})", file.name(), file.what)).collect();
    let text = format!("store {}: damaged, and not checked: {}", disk.folder().display(), shown(&files));
    Some(Failure::new(Exit::Corrupt, text).with_hint("once their tables were copied again, check again"))
}

fn stop(disk: &Disk, file: &DamagedFile, tables: &[(TableId, String)]) -> Failure {
    let text = format!(
        "store {}: {} is damaged: {}; rows of these tables may be in it: {}",
        disk.folder().display(),
        file.name(),
        file.what,
        shown(&names(tables))
    );
    let hint =
        format!("with a server as the source, --on-damage=copy copies these tables again; otherwise {START_ANEW}");
    Failure::new(Exit::Corrupt, text).with_hint(hint)
}

/// What must be done about damage.
pub(crate) enum Due {
    /// Put these tables in quarantine, for these reasons.
    Quarantine(Vec<(TableId, String)>),
    Stop(Failure),
}

/// What was said and done of the list so far.
#[derive(Debug)]
pub(crate) struct DamageWatch {
    /// State of the list that was looked at; None before the first look.
    seen: Option<u64>,
    told: BTreeSet<u64>,
    told_removed: BTreeSet<u64>,
    any: bool,
    next_look: Instant,
    /// Set while a request to put tables in quarantine waits for replay.
    asked: bool,
}

impl DamageWatch {
    /// Files that are gone already were told of by an earlier process.
    pub(crate) fn new(disk: Option<&Disk>) -> DamageWatch {
        let gone = disk.map(Disk::damage).unwrap_or_default().into_iter().filter(|file| file.removed);
        let gone: BTreeSet<u64> = gone.map(|file| file.file).collect();
        let told = gone.clone();
        DamageWatch { seen: None, told, told_removed: gone, any: false, next_look: Instant::now(), asked: false }
    }

    /// Logs files that are new on the list, or gone, and returns what is due for tables that they concern. After
    /// `Due::Quarantine` nothing is until `quarantined` is called.
    pub(crate) fn look(&mut self, disk: &Disk, catalog: impl FnOnce() -> Catalog, how: OnDamage) -> Option<Due> {
        let changes = disk.damage_changes();
        let is_new = self.seen != Some(changes);
        // A copy may give a table an id that a damaged file concerns: its own rows were written into it.
        if !is_new && (!self.any || Instant::now() < self.next_look) {
            return None;
        }
        self.seen = Some(changes);
        self.next_look = Instant::now() + LOOK_EVERY;
        let damage = disk.damage();
        self.any = damage.iter().any(|file| !file.removed);
        let concerned = if self.any { concerned(&catalog(), &damage) } else { Vec::new() };
        if is_new {
            self.tell(&damage, &concerned, how);
        }
        if concerned.is_empty() || self.asked {
            return None;
        }
        if how == OnDamage::Stop {
            return concerned.first().map(|(file, tables)| Due::Stop(stop(disk, file, tables)));
        }
        self.asked = true;
        let mut due: Vec<(TableId, String)> = Vec::new();
        for (file, tables) in concerned {
            disk.note_quarantined(file.file, &names(&tables));
            due.extend(tables.into_iter().map(|(id, _)| (id, reason(&file))));
        }
        due.sort_by_key(|(id, _)| *id);
        due.dedup_by_key(|(id, _)| *id);
        Some(Due::Quarantine(due))
    }

    /// The tables of `Due::Quarantine` are in quarantine, or replay has ended.
    pub(crate) fn quarantined(&mut self) {
        self.asked = false;
    }

    fn tell(&mut self, damage: &[DamagedFile], concerned: &[(DamagedFile, Vec<(TableId, String)>)], how: OnDamage) {
        for file in damage {
            if self.told.insert(file.file) {
                let mut tables = file.tables.clone();
                let now = concerned.iter().find(|(other, _)| other.file == file.file);
                tables.extend(now.map(|(_, tables)| names(tables)).unwrap_or_default());
                tables.sort();
                tables.dedup();
                let tables = match (tables.is_empty(), how) {
                    (true, _) => "it holds no row of any table".to_owned(),
                    (false, OnDamage::Copy) => {
                        format!("these tables cannot be read until they are copied again: {}", shown(&tables))
                    }
                    (false, OnDamage::Stop) => {
                        format!(
                            "replay stops (--on-damage=stop); rows of these tables may be in it: {}",
                            shown(&tables)
                        )
                    }
                };
                let text = format!("the file {} of the store is damaged: {}; {tables}", file.name(), file.what);
                log::write(Code::StoreFileDamaged, "Store", &text);
            }
            if file.removed && self.told_removed.insert(file.file) {
                let text =
                    format!("the damaged file {} of the store was removed: nothing needs it any more", file.name());
                log::write(Code::StoreFileGone, "Store", &text);
            }
        }
    }
}

/// Damaged files for `status`: those in the store, and those that are gone.
pub(crate) fn report(disk: &Disk, catalog: &Catalog) -> Vec<String> {
    let of = |file: DamagedFile| {
        let waits = |name: &&String| catalog.quarantined().any(|(db, table, _)| format!("`{db}`.`{table}`") == **name);
        let waiting = file.tables.iter().filter(waits).count();
        let state = match (file.removed, waiting) {
            (true, 0) => "gone, its tables were copied again".to_owned(),
            (true, waiting) => format!("gone, tables that wait for their copy: {waiting}"),
            (false, 0) => "still in the store".to_owned(),
            (false, waiting) => format!("still in the store, tables that wait for their copy: {waiting}"),
        };
        let found = observe::utc_text(file.found_us);
        let tables = if file.tables.is_empty() { "no table".to_owned() } else { shown(&file.tables) };
        format!("{}: {}; found {found}; {state}: {tables}", file.name(), file.what)
    };
    disk.damage().into_iter().map(of).collect()
}
