//! Dependency trackers: determine which earlier transaction each one must wait for.
//!
//! In: for every transaction, in log order, its [`Facts`]: the source's clock, the session, and the claims of its row
//! changes. Out: [`Stamp`]: (last_committed, sequence_number) in one clock that continues across files; a server that
//! writes them into files subtracts the file's offset. Two transactions may run concurrently if the later one's
//! `last_committed` is below the earlier one's `sequence_number`. Never here: I/O, threads, a wait; two conflicting
//! transactions stamped as independent.
//!
//! The modes are MySQL's `binlog_transaction_dependency_tracking` (COMMIT_ORDER, WRITESET, WRITESET_SESSION;
//! sql/rpl_trx_tracking.cc) and `replica_parallel_type=DATABASE` (sql/rpl_mta_submode.cc), each with two sets of
//! rules, see [`Rules`].

mod claims;
mod clock;
mod facts;
mod history;
mod table_keys;

use std::collections::HashMap;

use base::SequenceNumber;

pub use claims::{Claims, Extractor};
pub use clock::SourceStamp;
pub use facts::{Facts, XaStep};
pub use history::HISTORY_SIZE_MAX;

use clock::{CommitParent, SourceClock};
use history::{OwnHistory, StockHistory};

/// Method of finding dependencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrackerKind {
    /// The log's own numbers, interpreted as by MySQL's multi-threaded applier: it drains all workers at a file's
    /// first transaction, at a parent of 0, and at a gap in the numbers
    /// (`Mts_submode_logical_clock::schedule_next_event`).
    #[default]
    Source,
    /// The log's own numbers as commit parents.
    CommitOrder,
    Writeset,
    /// Like `Writeset`, but never before the last transaction of the same session.
    WritesetSession,
    Database,
}

/// Set of rules that a tracker follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// Ours, which keeps parallelism where MySQL's rules give it up. Numbers continue across file ends and gaps.
    /// WRITESET needs no commit parents: children of a foreign key take a shared claim on the parent's value, which
    /// conflicts with changes of that value; a full history forgets its older half instead of everything; DDL waits
    /// for, and blocks, only its own tables; inserts into a table without a usable key share a claim on all of its
    /// rows, which a deletion takes exclusively.
    #[default]
    Own,
    /// MySQL's: every file begins with a drain and an empty history; a change of a foreign key's parent table, DDL,
    /// and a full history clear it; no writeset ever raises a parent above the commit parent, which is the log's own
    /// number.
    Stock,
    /// For a stock MySQL replica, by the locks that InnoDB takes there. Like ours, and: a change of any column of a
    /// parent's row conflicts with a child that takes or leaves it; DDL claims the tables at the other end of its
    /// foreign keys; XA PREPARE claims its rows where it stands, and XA COMMIT or XA ROLLBACK waits for it and claims
    /// them again; a transaction that cannot be judged, or has more claims than half the history, waits for everything,
    /// and so does everything after it. The source's commit parents are an upper bound of the writeset's. Needs pieces
    /// decoded with [`DecodeOptions::for_stamps`](crate::DecodeOptions::for_stamps).
    InnoDb,
}

/// Settings of a tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackerOptions {
    /// Method of finding dependencies.
    pub kind: TrackerKind,
    pub rules: Rules,
    /// Number of claims that the writeset kinds remember, 1 to [`HISTORY_SIZE_MAX`]
    /// (`binlog_transaction_dependency_history_size`).
    pub history_size: usize,
}

impl Default for TrackerOptions {
    /// The history size is MySQL's default since 9.5.
    fn default() -> TrackerOptions {
        TrackerOptions { kind: TrackerKind::default(), rules: Rules::default(), history_size: HISTORY_SIZE_MAX }
    }
}

impl TrackerKind {
    /// True if it needs claims of row changes.
    #[must_use]
    pub fn needs_claims(self) -> bool {
        !matches!(self, TrackerKind::Source | TrackerKind::CommitOrder)
    }

    /// True if it uses a history of bounded size.
    #[must_use]
    pub fn has_history(self) -> bool {
        matches!(self, TrackerKind::Writeset | TrackerKind::WritesetSession)
    }
}

/// A transaction's place in the logical clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Every transaction up to this one must be done first; below `sequence_number`.
    pub last_committed: u64,
    /// Its own number in the clock.
    pub sequence_number: u64,
}

/// Counters of a tracker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackerCounts {
    /// Transactions that wait for everything before them: a drain of all workers, or a statement whose effect is
    /// unknown.
    pub drains: u64,
    /// Times the history was cleared, or its older half forgotten.
    pub forgotten: u64,
    /// Transactions with a coarser parent because their rows do not tell enough: tables without keys, values missing
    /// from images, tables that foreign keys reference (stock), too many rows (stock).
    pub coarse: u64,
    /// Sum of the distances between transactions and their parents, each counted up to [`DISTANCE_MAX`]; each is 1 if
    /// everything is serial.
    pub distance: u64,
}

/// Upper limit of a distance in [`TrackerCounts::distance`]: with that many workers a larger one makes no difference.
pub const DISTANCE_MAX: u64 = 64;

/// Limit of remembered sessions. Beyond it, all forgotten ones count as the newest of them.
const SESSIONS_MAX: usize = 1 << 16;
/// Most databases that a transaction may change without running alone (MAX_DBS_IN_EVENT_MTS).
const DATABASES_MAX: usize = 16;

/// A prepared XA transaction.
struct Held {
    number: u64,
    claims: Claims,
}

/// Stamps transactions with their dependencies.
pub struct Tracker {
    options: TrackerOptions,
    /// Number of the last transaction.
    last: u64,
    clock: SourceClock,
    stock: StockHistory,
    own: OwnHistory,
    sessions: HashMap<u64, u64>,
    /// Number of the newest transaction whose session may have been forgotten.
    sessions_floor: u64,
    databases: HashMap<u64, u64>,
    /// Number of the last transaction that everything after it must wait for.
    barrier: u64,
    /// Number of the last transaction that changed tables whose definition is unknown; any table may be their parent.
    last_unknown: u64,
    /// Prepared XA transactions, by identifier.
    prepared: HashMap<String, Held>,
    /// Claims in `prepared`.
    prepared_claims: usize,
    counts: TrackerCounts,
}

impl Tracker {
    /// Creates a tracker that continues after transaction `start`.
    #[must_use]
    pub fn new(options: TrackerOptions, start: SequenceNumber) -> Tracker {
        let size = options.history_size.clamp(1, HISTORY_SIZE_MAX);
        Tracker {
            options,
            last: start.0,
            clock: SourceClock::new(start.0),
            stock: StockHistory::new(size, start.0),
            own: OwnHistory::new(size, start.0),
            sessions: HashMap::new(),
            sessions_floor: start.0,
            databases: HashMap::new(),
            barrier: start.0,
            last_unknown: start.0,
            prepared: HashMap::new(),
            prepared_claims: 0,
            counts: TrackerCounts::default(),
        }
    }

    /// Stamps the next transaction of the log.
    pub fn begin(&mut self, facts: &Facts) -> Stamp {
        self.last += 1;
        let commit = self.clock.translate(self.last, facts.clock, facts.new_file);
        let parent = self.parent(&commit, facts).min(self.last - 1);
        self.counts.distance += (self.last - parent).min(DISTANCE_MAX);
        Stamp { last_committed: parent, sequence_number: self.last }
    }

    /// Stamps a further slice of the last transaction by its claims. The slice must wait for its `last_committed`,
    /// which may be above that of earlier slices.
    pub fn go_on(&mut self, facts: &Facts) -> Stamp {
        let parent = if self.options.kind.needs_claims() {
            // The first slice already took the transaction's place in the source's clock.
            self.by_claims(&CommitParent::known(self.last - 1), facts).min(self.last - 1)
        } else {
            0
        };
        Stamp { last_committed: parent, sequence_number: self.last }
    }

    #[must_use]
    pub fn counts(&self) -> TrackerCounts {
        let forgotten = self.stock.clears() + self.own.halves();
        TrackerCounts { forgotten, ..self.counts }
    }

    fn parent(&mut self, commit: &CommitParent, facts: &Facts) -> u64 {
        if self.options.rules == Rules::InnoDb {
            return self.for_innodb(commit, facts);
        }
        let stock = self.options.rules == Rules::Stock || self.options.kind == TrackerKind::Source;
        // DATABASE uses no clock, so files mean nothing to it under either rules.
        let by_clock = self.options.kind != TrackerKind::Database;
        if stock && by_clock && commit.new_file {
            self.stock.clear(self.last);
        }
        let parent = if self.options.kind.needs_claims() { self.by_claims(commit, facts) } else { commit.parent };
        if stock && by_clock && commit.drains {
            self.counts.drains += 1;
            return self.last - 1;
        }
        parent
    }

    fn by_claims(&mut self, commit: &CommitParent, facts: &Facts) -> u64 {
        let (number, claims) = (self.last, &facts.claims);
        let parent = match (self.options.kind, self.options.rules) {
            (TrackerKind::Database, _) => self.by_databases(claims),
            (_, Rules::Stock) => {
                let (parent, coarse) = self.stock.step(number, claims, commit.parent);
                self.counts.coarse += u64::from(coarse);
                parent
            }
            (_, Rules::Own) if claims.is_opaque() => self.alone(),
            (_, Rules::Own) => {
                self.counts.coarse += u64::from(claims.is_coarse());
                self.own.step(number, claims).max(self.barrier)
            }
            // A further slice.
            (_, Rules::InnoDb) => self.claim_locks(number, claims),
        };
        if self.options.kind != TrackerKind::WritesetSession {
            return parent;
        }
        parent.max(self.by_session(facts.session))
    }

    /// Stamps a transaction for a stock replica.
    fn for_innodb(&mut self, commit: &CommitParent, facts: &Facts) -> u64 {
        let number = self.last;
        if self.options.kind == TrackerKind::Source {
            self.counts.drains += u64::from(commit.drains);
            return if commit.drains { number - 1 } else { commit.parent };
        }
        let ends = match &facts.xa {
            Some(XaStep::Ends(xid)) => match xid.as_ref().and_then(|xid| self.prepared.remove(xid)) {
                Some(held) => Some(held),
                None => return self.alone(),
            },
            _ => None,
        };
        self.prepared_claims -= ends.as_ref().map_or(0, |held| held.claims.all().len());
        let claims = ends.as_ref().map_or(&facts.claims, |held| &held.claims);
        let parent = match self.options.kind {
            // A parent of 0 may be one in an earlier file, or that of a transaction that follows everything.
            TrackerKind::CommitOrder if commit.undefined => number - 1,
            TrackerKind::CommitOrder => commit.parent,
            // No replica of these rules schedules by databases.
            TrackerKind::Database => number - 1,
            _ => {
                let parent = self.claim_locks(number, claims);
                // The source judged by the same locks, so whichever of the two finds less to wait for is right.
                if commit.undefined { parent } else { parent.min(commit.parent) }
            }
        };
        if let Some(XaStep::Prepares(xid)) = &facts.xa {
            // One that is not kept ends as one that nobody knows.
            let claims = &facts.claims;
            if !self.own.exceeds(self.prepared_claims + claims.all().len()) {
                self.prepared_claims += claims.all().len();
                self.prepared.insert(xid.clone(), Held { number, claims: claims.clone() });
            }
        }
        let parent = parent.max(ends.map_or(0, |held| held.number));
        match self.options.kind {
            TrackerKind::WritesetSession => parent.max(self.by_session(facts.session)),
            _ => parent,
        }
    }

    /// Returns the newest transaction that these claims must wait for, and remembers them.
    fn claim_locks(&mut self, number: u64, claims: &Claims) -> u64 {
        self.counts.coarse += u64::from(claims.is_coarse());
        if claims.is_opaque() {
            return self.alone();
        }
        // Which tables an unknown one refers to is unknown as well.
        let parent = self.own.step_bounded(number, claims).max(self.barrier).max(self.last_unknown);
        if claims.has_unknown_tables() {
            self.last_unknown = number;
            return number - 1;
        }
        parent
    }

    /// Stamps a statement that may affect anything: it waits for everything, and everything waits for it.
    fn alone(&mut self) -> u64 {
        self.counts.drains += 1;
        self.barrier = self.last;
        self.last - 1
    }

    fn by_session(&mut self, session: Option<u64>) -> u64 {
        let Some(session) = session else { return self.last - 1 };
        if self.sessions.len() >= SESSIONS_MAX && !self.sessions.contains_key(&session) {
            self.sessions.clear();
            self.sessions_floor = self.last - 1;
        }
        let earlier = self.sessions.insert(session, self.last);
        // A further slice finds its own transaction here.
        earlier.filter(|earlier| *earlier < self.last).unwrap_or(self.sessions_floor)
    }

    fn by_databases(&mut self, claims: &Claims) -> u64 {
        if claims.is_opaque() || claims.databases().len() > DATABASES_MAX {
            return self.alone();
        }
        let number = self.last;
        let mut parent = self.barrier;
        for database in claims.databases() {
            let earlier = self.databases.insert(*database, number).filter(|earlier| *earlier < number);
            parent = parent.max(earlier.unwrap_or(0));
        }
        parent
    }
}
