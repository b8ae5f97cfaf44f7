//! Whether every table of the source is here: its log may not hold them all (RESET BINARY LOGS AND GTIDS, a physical
//! restore, `sql_log_bin=0`).
//!
//! In: the source's list of tables, and the catalog once replay has reached the GTIDs of that list. Out: the missing
//! tables, in quarantine until they are copied; words for whoever asks whether the replica is healthy. Never here: the
//! copies themselves ([`DueCopies`](crate::due_copies::DueCopies)); a table called missing because a statement came in
//! between.
//!
//! A table is missing if it is on a list read before replay reached some GTIDs, not here at these GTIDs, and on another
//! list read afterwards with the same CREATE_TIME. It is taken into the catalog only if no statement has changed the
//! catalog since: otherwise everything is looked at again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use base::GtidSet;
use catalog::{Catalog, Found, NamedTable, ReplicationFilters};
use copy::TablesNow;

use crate::config::CopyWhen;
use crate::exit::Failure;
use crate::failure::shown_set;
use crate::folder::{Folder, read_small, write_atomically};
use crate::log::{self, Code};
use crate::login::SourceLogin;
use crate::replica::Replica;
use crate::unsettled::AskedDefinitions;

/// File in the folder once all tables were here; contains the GTID set at which they were.
const FILE: &str = "tables-compared";
/// A commit becomes visible a moment before its GTID is in gtid_executed; no server takes this long between the two.
const SETTLE: Duration = Duration::from_secs(1);
/// Interval at which it is looked whether replay has reached a GTID set.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Pause before another comparison while tables are copied, or after the source could not be read.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Pause before another comparison while tables are missing that nobody copies.
const NEVER_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Names in a message.
const NAMES_MAX: usize = 5;

/// The comparison of one engine.
pub(crate) struct AllTables {
    when: CopyWhen,
    state: Mutex<State>,
    runs: AtomicBool,
    /// Objects other than tables.
    pub(crate) definitions: Arc<AskedDefinitions>,
}

struct State {
    /// `server_uuid` of the source that was compared last, or is being compared.
    source: String,
    /// True once all tables were here, or wait for their copy.
    was_made: bool,
    /// Why it could not be made, as the log has it.
    trouble: String,
    /// Missing tables that are not copied by themselves.
    missing: Vec<NamedTable>,
    /// True once the log says that the source's tables were listed.
    listed_said: bool,
}

/// Why a comparison ends early.
enum Ended {
    Stops,
    /// It must be begun again, for this reason if it is worth telling.
    Again(String),
}

/// A list of the source's tables, and what was here once replay had reached its GTIDs.
struct Looked {
    listed: TablesNow,
    catalog: Catalog,
    lacks: Found,
}

impl AllTables {
    /// Before the first comparison of an engine. Without a server as the source there is none.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub(crate) fn new(folder: &Folder, when: CopyWhen, has_server: bool) -> Result<AllTables, Failure> {
        let was_made = !has_server || read_small(&folder.path().join(FILE))?.is_some();
        let state =
            State { source: String::new(), was_made, trouble: String::new(), missing: Vec::new(), listed_said: false };
        let definitions = Arc::new(AskedDefinitions::default());
        Ok(AllTables { when, state: Mutex::new(state), runs: AtomicBool::new(false), definitions })
    }

    /// `--copy`.
    pub(crate) fn when(&self) -> CopyWhen {
        self.when
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why not all tables of the source are here, or are not known to be, in words without names, empty if all are; and
    /// the names of those that are not.
    pub(crate) fn report(&self, catalog: &Catalog) -> (String, Vec<String>) {
        let shown = |tables: &[NamedTable]| tables.iter().map(name).collect();
        let waiting: Vec<NamedTable> = catalog.missing().map(|(db, table)| (db.to_owned(), table.to_owned())).collect();
        if !waiting.is_empty() {
            // Those that replay has met; a comparison finds the others.
            let more = if self.lock().was_made { "" } else { " so far; the source's tables are still to be compared" };
            let text =
                format!("tables that the source's log does not hold are not copied yet: {}{more}", waiting.len());
            return (text, shown(&waiting));
        }
        let state = self.lock();
        let missing: Vec<NamedTable> =
            state.missing.iter().filter(|(db, table)| catalog.table(db, table).is_none()).cloned().collect();
        if !missing.is_empty() {
            let text = format!(
                "tables of the source are missing here, its log does not hold them, and --copy=never does not copy \
                 them: {}",
                missing.len()
            );
            return (text, shown(&missing));
        }
        let text = match (state.was_made, state.trouble.is_empty()) {
            (true, _) => String::new(),
            (false, true) => "the tables here have not been compared with the source's yet".to_owned(),
            // Whoever may ask for this may not read texts of errors.
            (false, false) => "the tables here cannot be compared with the source's; the log says why".to_owned(),
        };
        (text, Vec::new())
    }

    /// Begins a comparison beside replay, once for each source that is followed.
    pub(crate) fn begin(&self, replica: &Arc<Replica>, login: &Arc<SourceLogin>, source: &str) {
        if self.lock().source == source || self.runs.swap(true, Ordering::AcqRel) {
            return;
        }
        source.clone_into(&mut self.lock().source);
        let comparing = Comparing {
            replica: Arc::downgrade(replica),
            login: Arc::clone(login),
            filters: Arc::clone(&replica.replay.pipeline.decode_options().filters),
        };
        let run = move || {
            comparing.run();
            if let Some(replica) = comparing.replica.upgrade() {
                replica.upkeep.all_tables.runs.store(false, Ordering::Release);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("compare-tables".into()).spawn(run) {
            self.lock().trouble = format!("cannot start a thread: {error}");
            self.runs.store(false, Ordering::Release);
        }
    }
}

/// Forgets what was compared: nothing of it is here any more.
///
/// # Errors
/// Code 8 for disk errors.
pub(crate) fn forget(folder: &Folder) -> Result<(), Failure> {
    let path = folder.path().join(FILE);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::io(path.display(), &error)),
        Ok(()) => folder.sync(),
    }
}

/// The number of tables with some of their names.
pub(crate) fn names(tables: &[NamedTable]) -> String {
    let shown: Vec<String> = tables.iter().take(NAMES_MAX).map(name).collect();
    let more = tables.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} ({}{more})", tables.len(), shown.join(", "))
}

fn name((db, table): &NamedTable) -> String {
    observe::one_line(&format!("`{db}`.`{table}`"))
}

struct Comparing {
    replica: Weak<Replica>,
    login: Arc<SourceLogin>,
    filters: Arc<ReplicationFilters>,
}

impl Comparing {
    /// Compares until all tables are here, or the replica ends.
    fn run(&self) {
        loop {
            let ended = match self.round() {
                Ok(None) | Err(Ended::Stops) => return,
                Ok(Some(pause)) => self.sleep(pause),
                Err(Ended::Again(trouble)) => {
                    self.replica().map(|replica| note_trouble(&replica, trouble)).and_then(|()| self.sleep(AGAIN_AFTER))
                }
            };
            if ended.is_err() {
                return;
            }
        }
    }

    /// The replica, unless it ends.
    fn replica(&self) -> Result<Arc<Replica>, Ended> {
        let replica = self.replica.upgrade().filter(|replica| !replica.is_stopping());
        replica.ok_or(Ended::Stops)
    }

    fn sleep(&self, pause: Duration) -> Result<(), Ended> {
        let until = Instant::now() + pause;
        while Instant::now() < until {
            self.replica()?;
            std::thread::sleep(LOOK_EVERY.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// One comparison. None once all tables are here, otherwise the pause before the next one.
    fn round(&self) -> Result<Option<Duration>, Ended> {
        let mut looked = self.look(Duration::ZERO)?;
        if looked.differs() {
            looked = self.look(SETTLE)?;
        }
        if !looked.differs() {
            let replica = self.replica()?;
            if looked.catalog.missing().next().is_some() {
                return Ok(Some(AGAIN_AFTER));
            }
            holds(&replica, &looked.listed.executed);
            return Ok(None);
        }
        let found = looked.confirmed(&self.list(Duration::ZERO)?, self.replica()?.upkeep.all_tables.when);
        let replica = self.replica()?;
        if found == Found::default() {
            return Ok(Some(Duration::ZERO));
        }
        if replica.upkeep.all_tables.when == CopyWhen::Never {
            note_missing(&replica, found.tables);
            return Ok(Some(NEVER_AGAIN_AFTER));
        }
        let tables = found.tables.clone();
        let added = replica.replay.pipeline.copier().add(found, looked.catalog.epoch(), &replica.stopping);
        if added.map_err(|_| Ended::Stops)? && !tables.is_empty() {
            let text = format!(
                "the source has tables that its log does not hold (RESET BINARY LOGS AND GTIDS, a physical restore or \
                 sql_log_bin=0), and they are copied now: {}",
                names(&tables)
            );
            log::write(Code::TablesMissing, "Copy", &text);
        }
        Ok(Some(Duration::ZERO))
    }

    fn look(&self, later: Duration) -> Result<Looked, Ended> {
        let connection = self.replica()?.connection();
        let listed = self.list(later)?;
        let replica = self.replica()?;
        note_listed(&replica, &listed);
        drop(replica);
        loop {
            let replica = self.replica()?;
            let now = replica.replay.pipeline.store.visibility().current();
            if listed.executed.is_subset_of(&now.executed) {
                let lacks = lacks(&listed, &now.catalog, replica.upkeep.all_tables.when);
                return Ok(Looked { listed, catalog: now.catalog.clone(), lacks });
            }
            // Another source may never send them.
            if replica.connection() != connection {
                return Err(Ended::Again(String::new()));
            }
            drop(replica);
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn list(&self, later: Duration) -> Result<TablesNow, Ended> {
        let lower = self.replica()?.pipeline().store.visibility().current().catalog.lower_case_table_names();
        // Without the replica, so that a source that does not answer does not hold up its end.
        let listed = TablesNow::read(&self.login.for_try(), &self.filters, lower, later);
        listed.map_err(|error| Ended::Again(error.to_string()))
    }
}

impl Replica {
    /// What changes when another source may answer.
    fn connection(&self) -> (String, u64) {
        let link = self.inbound.link.lock();
        (link.source.facts.server_uuid.clone(), link.source.reconnects)
    }
}

/// What the source has and the catalog lacks, and the other way round.
fn lacks(listed: &TablesNow, catalog: &Catalog, when: CopyWhen) -> Found {
    let is_here = |(db, table): &NamedTable| catalog.table(db, table).is_some() || catalog.is_quarantined(db, table);
    let lower = catalog.lower_case_table_names();
    let folded = |name: &str| if lower > 0 { name.to_lowercase() } else { name.to_owned() };
    let is_there = |db: &str, table: &str| {
        listed.tables.keys().any(|(of, name)| folded(of) == folded(db) && folded(name) == folded(table))
    };
    let lacks_database = |(db, collation): &(&String, &Option<u16>)| match catalog.database(db) {
        None => true,
        Some((_, here)) => here.is_none() && collation.is_some(),
    };
    let databases = listed.databases.iter().filter(lacks_database).map(|(db, collation)| (db.clone(), *collation));
    let gone = catalog.missing().filter(|(db, table)| !is_there(db, table));
    let found = Found {
        databases: databases.collect(),
        tables: listed.tables.keys().filter(|name| !is_here(name)).cloned().collect(),
        gone: gone.map(|(db, table)| (db.to_owned(), table.to_owned())).collect(),
    };
    match when {
        CopyWhen::Auto | CopyWhen::Always => found,
        CopyWhen::Never => Found { databases: Vec::new(), gone: Vec::new(), ..found },
    }
}

impl Looked {
    fn differs(&self) -> bool {
        self.lacks != Found::default()
    }

    /// What of the difference another list, read afterwards, shows too.
    fn confirmed(&self, later: &TablesNow, when: CopyWhen) -> Found {
        let again = lacks(later, &self.catalog, when);
        let same = |name: &NamedTable| {
            again.tables.binary_search(name).is_ok() && self.listed.tables.get(name) == later.tables.get(name)
        };
        Found {
            databases: self.lacks.databases.iter().filter(|db| again.databases.contains(db)).cloned().collect(),
            tables: self.lacks.tables.iter().filter(|name| same(name)).cloned().collect(),
            gone: self.lacks.gone.iter().filter(|name| again.gone.contains(name)).cloned().collect(),
        }
    }
}

/// Logs that the source's tables were listed, once.
fn note_listed(replica: &Replica, listed: &TablesNow) {
    let mut state = replica.upkeep.all_tables.lock();
    if !state.was_made && !std::mem::replace(&mut state.listed_said, true) {
        let text = format!(
            "the source has {} tables; they are compared with those here once GTIDs {} are replayed",
            listed.tables.len(),
            shown_set(&listed.executed)
        );
        log::write(Code::TablesCompared, "Copy", &text);
    }
}

/// Logs why the tables cannot be compared, once.
fn note_trouble(replica: &Replica, trouble: String) {
    let mut state = replica.upkeep.all_tables.lock();
    if !trouble.is_empty() && state.trouble != trouble {
        let text = format!("the source's tables cannot be compared with those here; trying again: {trouble}");
        log::write(Code::TablesMissing, "Copy", &text);
    }
    state.trouble = trouble;
}

/// Keeps that all tables are here.
fn holds(replica: &Replica, executed: &GtidSet) {
    let mut state = replica.upkeep.all_tables.lock();
    let is_news = !state.was_made || !state.missing.is_empty();
    (state.was_made, state.trouble) = (true, String::new());
    state.missing.clear();
    drop(state);
    if is_news {
        let text = format!("all tables of the source are here, compared at GTIDs {}", shown_set(executed));
        log::write(Code::TablesCompared, "Copy", &text);
    }
    // Without the file the next start compares before it is healthy.
    let _ = write_atomically(&replica.folder().path().join(FILE), format!("{executed}\n").as_bytes());
}

/// Keeps the missing tables that are not copied, and logs them if they are others than before.
fn note_missing(replica: &Replica, tables: Vec<NamedTable>) {
    let mut state = replica.upkeep.all_tables.lock();
    state.trouble.clear();
    if state.missing == tables {
        return;
    }
    let text = format!(
        "the source has tables that its log does not hold, and --copy=never does not copy them: {}",
        names(&tables)
    );
    log::write(Code::TablesMissing, "Copy", &text);
    state.missing = tables;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use catalog::StatementContext;

    use super::*;

    fn here(statements: &[&str]) -> Catalog {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        statements.iter().fold(Catalog::new(0), |catalog, sql| catalog.apply(&context, sql.as_bytes()).unwrap().catalog)
    }

    fn listed(tables: &[(&str, &str)]) -> TablesNow {
        let named =
            |(table, created): &(&str, &str)| (("d".to_owned(), (*table).to_owned()), Some((*created).to_owned()));
        let databases = BTreeMap::from([("d".to_owned(), Some(255)), ("e".to_owned(), Some(8))]);
        TablesNow { databases, tables: tables.iter().map(named).collect(), executed: GtidSet::new() }
    }

    fn named(tables: &[&str]) -> Vec<NamedTable> {
        tables.iter().map(|table| ("d".to_owned(), (*table).to_owned())).collect()
    }

    #[test]
    fn what_is_missing_is_on_both_lists_unchanged() {
        let catalog = here(&["CREATE DATABASE d", "CREATE TABLE here (i INT)"]);
        let catalog = catalog.with_found(&Found { tables: named(&["waits", "gone"]), ..Found::default() });
        let listed_first = listed(&[("here", "1"), ("waits", "1"), ("old", "1"), ("dropped", "1"), ("again", "1")]);
        let lacks = lacks(&listed_first, &catalog, CopyWhen::Auto);
        assert_eq!(lacks.tables, named(&["again", "dropped", "old"]));
        assert_eq!((&lacks.gone, &lacks.databases), (&named(&["gone"]), &vec![("e".to_owned(), Some(8))]));
        let looked = Looked { listed: listed_first, catalog, lacks };
        let later = listed(&[("here", "1"), ("waits", "1"), ("old", "1"), ("again", "2"), ("gone", "3")]);
        let found = looked.confirmed(&later, CopyWhen::Auto);
        assert_eq!((found.tables, found.gone), (named(&["old"]), Vec::new()));
        assert_eq!(found.databases, [("e".to_owned(), Some(8))]);
        let never = super::lacks(&later, &looked.catalog, CopyWhen::Never);
        assert!(never.databases.is_empty() && !never.tables.is_empty());
    }

    #[test]
    fn words_name_some_of_many() {
        let tables = named(&["a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(names(&tables[..1]), "1 (`d`.`a`)");
        assert!(names(&tables).starts_with("7 (`d`.`a`, ") && names(&tables).ends_with("`d`.`e` and 2 more)"));
    }
}
