//! The skip list: transactions that the operator wants left out, and a summary of what they held.
//!
//! In: a GTID set, and events of transactions in it. Out: the current set; for each skipped transaction, once, a
//! summary of its events. Never here: the decision to skip (`decode`), a statement's secrets; a change of the list for a
//! transaction that is sequenced.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use base::{Gtid, GtidSet};
use binlog::{EventHeader, ExecuteLoadQuery, QueryEvent, QueryKind, TableMapEvent, event_type};

/// Most tables, and most statements, named per transaction.
const NAMED_MAX: usize = 10;
/// Most transactions whose summary is kept; further ones are only counted.
const KEPT_MAX: usize = 1000;
/// Characters quoted of a statement.
const STATEMENT_CHARS_MAX: usize = 300;

/// A set of GTIDs to skip, which may change while replay runs. Clones share it.
#[derive(Clone, Default)]
pub struct SkipList {
    set: Arc<RwLock<Arc<GtidSet>>>,
    /// GTIDs that the sequencer has admitted; of the newest sequencer that uses this list.
    sequenced: Arc<Mutex<Sequenced>>,
    notes: Arc<Mutex<Notes>>,
}

/// GTIDs that a sequencer has admitted. Its lock orders each admission before or after each change of the skip list.
#[derive(Clone, Default)]
pub(crate) struct Sequenced(Arc<Mutex<GtidSet>>);

impl Sequenced {
    pub(crate) fn lock(&self) -> MutexGuard<'_, GtidSet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Notes {
    /// Per transaction, a summary per piece of the log: a piece may be decoded twice.
    held: BTreeMap<Gtid, BTreeMap<u64, LeftOutEvents>>,
    more: u64,
}

/// Summary of a transaction's events in one piece.
#[derive(Default)]
pub(crate) struct LeftOutEvents {
    events: u64,
    bytes: u64,
    /// Number of rows events per table.
    tables: BTreeMap<String, u64>,
    statements: Vec<String>,
    /// Table names by table id.
    maps: BTreeMap<u64, String>,
}

/// A transaction that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub gtid: Gtid,
    /// Summary of its events, in words.
    pub held: String,
}

impl SkipList {
    /// Creates a list that holds `set`.
    #[must_use]
    pub fn new(set: GtidSet) -> SkipList {
        SkipList { set: Arc::new(RwLock::new(Arc::new(set))), ..SkipList::default() }
    }

    /// Returns the current set.
    #[must_use]
    pub fn current(&self) -> Arc<GtidSet> {
        Arc::clone(&self.set.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts the record of what is sequenced, at what the store holds.
    pub(crate) fn sequence_from(&self, executed: GtidSet) -> Sequenced {
        let sequenced = Sequenced(Arc::new(Mutex::new(executed)));
        *self.sequenced.lock().unwrap_or_else(PoisonError::into_inner) = sequenced.clone();
        sequenced
    }

    /// Changes the set: `change` gets the current one and the GTIDs of all transactions that are sequenced, and returns
    /// the new set. Nothing is sequenced meanwhile, so a GTID that is not among them is decided by the new set.
    ///
    /// # Errors
    /// Those of `change`; the set is then unchanged.
    pub fn change<E>(&self, change: impl FnOnce(&GtidSet, &GtidSet) -> Result<GtidSet, E>) -> Result<(), E> {
        let sequenced = self.sequenced.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sequenced = sequenced.lock();
        let set = change(&self.current(), &sequenced)?;
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        Ok(())
    }

    /// GTIDs of all transactions that are sequenced.
    #[must_use]
    pub fn sequenced(&self) -> GtidSet {
        let sequenced = self.sequenced.lock().unwrap_or_else(PoisonError::into_inner).clone();
        sequenced.lock().clone()
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, piece: u64, left_out: Vec<(Gtid, LeftOutEvents)>) {
        let mut notes = self.notes();
        for (gtid, held) in left_out {
            if notes.held.len() >= KEPT_MAX && !notes.held.contains_key(&gtid) {
                notes.more += 1;
                continue;
            }
            notes.held.entry(gtid).or_default().insert(piece, held);
        }
    }

    /// Removes and returns the summaries of skipped transactions in `executed`, and the number of further ones that
    /// were only counted.
    #[must_use]
    pub fn take_skipped(&self, executed: &GtidSet) -> (Vec<Skipped>, u64) {
        let mut notes = self.notes();
        if notes.held.is_empty() {
            return (Vec::new(), 0);
        }
        let (done, open) = std::mem::take(&mut notes.held).into_iter().partition(|(gtid, _)| executed.contains(gtid));
        notes.held = open;
        let words = |(gtid, pieces): (Gtid, BTreeMap<u64, LeftOutEvents>)| {
            let mut all = LeftOutEvents::default();
            pieces.into_values().for_each(|held| all.join(held));
            Skipped { gtid, held: all.to_string() }
        };
        let done: BTreeMap<Gtid, BTreeMap<u64, LeftOutEvents>> = done;
        (done.into_iter().map(words).collect(), std::mem::take(&mut notes.more))
    }
}

impl LeftOutEvents {
    pub(crate) fn event(&mut self, header: &EventHeader, body: &[u8]) {
        self.events += 1;
        self.bytes += u64::from(header.event_len);
        match header.event_type {
            event_type::TABLE_MAP => {
                let Ok(map) = TableMapEvent::parse(body) else { return };
                let name = format!("`{}`.`{}`", String::from_utf8_lossy(map.db), String::from_utf8_lossy(map.table));
                self.maps.insert(map.table_id, name);
            }
            event_type::WRITE_ROWS
            | event_type::UPDATE_ROWS
            | event_type::DELETE_ROWS
            | event_type::PARTIAL_UPDATE_ROWS => {
                // The body begins with the table id, as in a table map.
                let id = TableMapEvent::table_id_of(body).ok();
                let name = id.and_then(|id| self.maps.get(&id)).cloned().unwrap_or_else(|| "an earlier table".into());
                *self.tables.entry(name).or_default() += 1;
            }
            event_type::QUERY => {
                let Ok(query) = QueryEvent::parse(body) else { return };
                if QueryKind::of(query.sql) == QueryKind::Other {
                    self.statement(query.sql);
                }
            }
            event_type::EXECUTE_LOAD_QUERY => {
                let Ok(load) = ExecuteLoadQuery::parse(body) else { return };
                self.statement(load.query.sql);
            }
            _ => {}
        }
    }

    fn statement(&mut self, sql: &[u8]) {
        if self.statements.len() <= NAMED_MAX {
            let text = catalog::masked(&String::from_utf8_lossy(sql));
            self.statements.push(text.chars().take(STATEMENT_CHARS_MAX).collect());
        }
    }

    fn join(&mut self, other: LeftOutEvents) {
        self.events += other.events;
        self.bytes += other.bytes;
        for (table, events) in other.tables {
            *self.tables.entry(table).or_default() += events;
        }
        self.statements.extend(other.statements);
    }
}

impl fmt::Display for LeftOutEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} events, {}", self.events, observe::bytes_text(self.bytes))?;
        for (table, events) in self.tables.iter().take(NAMED_MAX) {
            write!(f, "; {events} rows events of {table}")?;
        }
        if self.tables.len() > NAMED_MAX {
            write!(f, "; {} tables more", self.tables.len() - NAMED_MAX)?;
        }
        for statement in self.statements.iter().take(NAMED_MAX) {
            write!(f, "; statement: {statement}")?;
        }
        if self.statements.len() > NAMED_MAX { write!(f, "; more statements") } else { Ok(()) }
    }
}
