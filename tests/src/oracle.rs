//! The exact oracle of reads through a tier: what sessions read, held against the source's binary log.
//!
//! In: the log's rows events as MySQL's own mysqlbinlog prints them; what transactions read and wrote, in their order,
//! and which versions anyone knew before. Out: whether each view is one prefix of the log plus the transaction's own
//! changes, and shows all that was known. Never here: a clock, a decoder of the product, a session.
//!
//! Why it is exact: each change adds one to the version of its row and names its transaction, so a version stands in
//! the log once. A read of it is of the prefixes that reach its place but not that of the row's next version. Reads are
//! of one prefix if and only if these intervals have a place in common; and everything that was acknowledged to anyone,
//! or seen by anyone, before a view was asked for bounds that place from below, over all rows. At the source every view
//! of InnoDB is a prefix of the log as long as binlog_order_commits is ON.

use std::collections::HashMap;
use std::fmt;
use std::io::BufRead;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Database of the rows.
pub const DATABASE: &str = "o";
/// Tables, with the row of each number in the one of its remainder.
pub const TABLES: u32 = 5;

/// A row as a statement showed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub key: u32,
    pub version: u32,
    /// Number of the transaction that wrote it; 0 for the first one.
    pub by: u64,
}

/// The newest version of each row that anyone knows: it was acknowledged to a writer, or a reader has seen it.
#[derive(Debug)]
pub struct Known(Vec<AtomicU32>);

impl Known {
    #[must_use]
    pub fn new(keys: u32) -> Known {
        Known((0..keys).map(|_| AtomicU32::new(0)).collect())
    }

    #[must_use]
    pub fn keys(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap()
    }

    #[must_use]
    pub fn all(&self) -> Vec<u32> {
        self.0.iter().map(|version| version.load(SeqCst)).collect()
    }

    /// To be told only once the whole answer that shows it has arrived.
    pub fn raise(&self, key: u32, version: u32) {
        self.0[key as usize].fetch_max(version, SeqCst);
    }
}

/// What a transaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Rows of one plain SELECT. `known` where a view may begin with it: what was known before it was sent.
    Read {
        known: Option<Vec<u32>>,
        rows: Vec<Seen>,
    },
    /// A row of a locking read, and the version of it that was known before.
    Locked {
        known: u32,
        row: Seen,
    },
    /// A change of its own: the version that it made.
    Wrote {
        key: u32,
        version: u32,
    },
    Savepoint,
    /// Back to the savepoint.
    RolledBack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    RolledBack,
    /// The connection was lost before the answer.
    Unknown,
}

/// A transaction, or a statement alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Its number, which its changes bear.
    pub id: u64,
    pub steps: Vec<Step>,
    pub outcome: Outcome,
}

/// What no MySQL server alone shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// The log has no such version, or another transaction's.
    NeverWritten(Seen),
    /// One of two reads of a view is of prefixes that reach a place at which the other is replaced already.
    NoPrefix { reaches: u32, ended: u32, at: Seen },
    /// The view lacks something that was known before: the row's version, and that of its prefix or older.
    Stale { key: u32, known: u32, at: Seen },
    /// A plain read shows another version of a row than the transaction's own.
    NotItsOwn { seen: Seen, own: u32 },
    /// A locked row was changed by another one.
    LockedIsChanged { seen: Seen, own: u32 },
    /// It was acknowledged, or seen, and is not in the log.
    Lost { key: u32, version: u32 },
    /// The log has changes of one that was rolled back.
    Undone,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::NeverWritten(seen) => write!(f, "{seen:?} is not in the log"),
            Violation::NoPrefix { reaches, ended, at } => {
                write!(f, "no prefix has all reads: one needs place {reaches}, {at:?} is replaced at {ended}")
            }
            Violation::Stale { key, known, at } => {
                write!(f, "stale: version {known} of row {key} was known before, and {at:?} is replaced by then")
            }
            Violation::NotItsOwn { seen, own } => write!(f, "{seen:?} after its own version {own}"),
            Violation::LockedIsChanged { seen, own } => write!(f, "{seen:?} was locked, and its change made {own}"),
            Violation::Lost { key, version } => {
                write!(f, "version {version} of row {key} was acknowledged or seen, and is not in the log")
            }
            Violation::Undone => write!(f, "it was rolled back, and the log has it"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Version {
    /// Number of its transaction in the log.
    at: u32,
    by: u64,
}

/// The history of all rows.
#[derive(Debug)]
pub struct Log {
    rows: Vec<Vec<Version>>,
    /// Number of transactions.
    places: u32,
    /// Place of each transaction that has a number.
    of: HashMap<u64, u32>,
}

impl Log {
    /// Reads what `mysqlbinlog --base64-output=decode-rows -v` prints of the whole log.
    ///
    /// # Errors
    /// It cannot be read, or is no history of such rows.
    pub fn read(mut text: impl BufRead, keys: u32) -> Result<Log, String> {
        let mut log = Log { rows: vec![Vec::new(); keys as usize], places: 0, of: HashMap::new() };
        let is_one = |name: &str| (0..TABLES).any(|table| name == format!("`{DATABASE}`.`t{table}`"));
        let (mut is_ours, mut takes, mut values) = (false, false, Vec::new());
        let mut line = Vec::new();
        while text.read_until(b'\n', &mut line).map_err(|error| error.to_string())? > 0 {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end();
            if text.starts_with("SET @@SESSION.GTID_NEXT=") && !text.contains("AUTOMATIC") {
                log.places += 1;
            } else if let Some(name) =
                ["### UPDATE ", "### INSERT INTO "].iter().find_map(|head| text.strip_prefix(head))
            {
                (is_ours, takes) = (is_one(name), false);
            } else if text == "### SET" {
                takes = is_ours;
                values.clear();
            } else if text == "### WHERE" {
                takes = false;
            } else if takes && let Some((_, value)) = text.strip_prefix("###   @").and_then(|rest| rest.split_once('='))
            {
                let value = value.split(' ').next().unwrap_or_default();
                values.push(value.parse::<u64>().map_err(|_| format!("no number: {text}"))?);
                if let [key, version, by] = values[..] {
                    log.row(key, version, by)?;
                    takes = false;
                }
            }
            line.clear();
        }
        Ok(log)
    }

    fn row(&mut self, key: u64, version: u64, by: u64) -> Result<(), String> {
        let at = self.places;
        let history = self.rows.get_mut(key as usize).ok_or_else(|| format!("row {key} is none of ours"))?;
        if history.len() as u64 != version {
            return Err(format!("version {version} of row {key} follows {} versions", history.len()));
        }
        history.push(Version { at, by });
        match by {
            0 => Ok(()),
            by if *self.of.entry(by).or_insert(at) == at => Ok(()),
            by => Err(format!("transaction {by} is in the log twice")),
        }
    }

    /// Number of transactions in it.
    #[must_use]
    pub fn places(&self) -> u32 {
        self.places
    }

    fn version(&self, key: u32, version: u32) -> Option<&Version> {
        self.rows.get(key as usize)?.get(version as usize)
    }

    fn of_seen(&self, seen: &Seen) -> Result<u32, Violation> {
        match self.version(seen.key, seen.version) {
            Some(version) if version.by == seen.by => Ok(version.at),
            _ => Err(Violation::NeverWritten(*seen)),
        }
    }

    /// Whether a transaction could have seen this at one MySQL server.
    ///
    /// # Errors
    /// The first thing that it could not.
    pub fn check(&self, transaction: &Transaction) -> Result<(), Violation> {
        let Transaction { id, steps, outcome } = transaction;
        let own_place = self.of.get(id).copied();
        let mut view = View::new(own_place);
        // Own changes in their order: of several to one row the last one counts.
        let (mut own, mut savepoint): (Vec<(u32, u32)>, usize) = (Vec::new(), 0);
        let of =
            |own: &[(u32, u32)], key: u32| own.iter().rev().find(|(of, _)| *of == key).map(|(_, version)| *version);
        let mut locked: HashMap<u32, Seen> = HashMap::new();
        for step in steps {
            match step {
                Step::Read { known, rows } => {
                    if let Some(known) = known {
                        view = View::new(own_place);
                        view.knows(self, known)?;
                    }
                    for seen in rows {
                        match of(&own, seen.key) {
                            Some(version) if (seen.version, seen.by) == (version, *id) => {}
                            Some(own) => return Err(Violation::NotItsOwn { seen: *seen, own }),
                            None => view.shows(self, seen)?,
                        }
                    }
                }
                Step::Locked { known, row } => {
                    match of(&own, row.key) {
                        Some(version) if (row.version, row.by) == (version, *id) => {}
                        Some(own) => return Err(Violation::NotItsOwn { seen: *row, own }),
                        None => {
                            self.of_seen(row)?;
                            if row.version < *known {
                                return Err(Violation::Stale { key: row.key, known: *known, at: *row });
                            }
                        }
                    }
                    locked.insert(row.key, *row);
                }
                Step::Wrote { key, version } => {
                    if let Some(seen) = locked.remove(key).filter(|seen| seen.version + 1 != *version) {
                        return Err(Violation::LockedIsChanged { seen, own: *version });
                    }
                    own.push((*key, *version));
                }
                Step::Savepoint => savepoint = own.len(),
                Step::RolledBack => own.truncate(savepoint),
            }
        }
        match outcome {
            Outcome::Committed => {
                let is_there = |key, version| self.version(key, version).is_some_and(|found| found.by == *id);
                match own.iter().find(|(key, version)| !is_there(*key, *version)) {
                    Some((key, version)) => Err(Violation::Lost { key: *key, version: *version }),
                    None => Ok(()),
                }
            }
            Outcome::RolledBack if *id != 0 && own_place.is_some() => Err(Violation::Undone),
            Outcome::RolledBack | Outcome::Unknown => Ok(()),
        }
    }
}

/// The prefixes that have all that a view has shown: from `reaches` to before `ended`.
struct View {
    reaches: u32,
    ended: u32,
    /// The row that is replaced at `ended`.
    at: Option<Seen>,
    /// What was known of a row, and its place.
    known: Option<(u32, u32, u32)>,
}

impl View {
    /// A view of the transaction that commits at that place.
    fn new(own_place: Option<u32>) -> View {
        View { reaches: 0, ended: own_place.unwrap_or(u32::MAX), at: None, known: None }
    }

    /// The youngest version of all rows that were known.
    fn knows(&mut self, log: &Log, known: &[u32]) -> Result<(), Violation> {
        for (key, version) in (0..).zip(known.iter().copied()) {
            let found = log.version(key, version).ok_or(Violation::Lost { key, version })?;
            self.known = self.known.max(Some((found.at, key, version)));
        }
        Ok(())
    }

    fn shows(&mut self, log: &Log, seen: &Seen) -> Result<(), Violation> {
        self.reaches = self.reaches.max(log.of_seen(seen)?);
        let next = log.version(seen.key, seen.version + 1).map_or(u32::MAX, |next| next.at);
        if next < self.ended {
            (self.ended, self.at) = (next, Some(*seen));
        }
        let at = self.at.unwrap_or(*seen);
        if self.reaches >= self.ended {
            return Err(Violation::NoPrefix { reaches: self.reaches, ended: self.ended, at });
        }
        match self.known {
            Some((place, key, known)) if place >= self.ended => Err(Violation::Stale { key, known, at }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of transactions, each with the rows that it changes: `by` counts from 1, a row's versions too.
    fn log(transactions: &[&[u32]]) -> Log {
        let mut text = String::from("SET @@SESSION.GTID_NEXT= 'u:1'/*!*/;\n");
        let keys = 4;
        let row = |table: u32, values: [u64; 3], is_new: bool, text: &mut String| {
            let verb = if is_new { "INSERT INTO" } else { "UPDATE" };
            text.push_str(&format!("### {verb} `o`.`t{table}`\n"));
            if !is_new {
                text.push_str(&format!("### WHERE\n###   @1={}\n###   @2=9\n###   @3=9\n", values[0]));
            }
            text.push_str("### SET\n");
            (1..).zip(values).for_each(|(at, value): (u32, u64)| text.push_str(&format!("###   @{at}={value}\n")));
        };
        (0..keys).for_each(|key| row(key % TABLES, [u64::from(key), 0, 0], true, &mut text));
        let mut versions = [0; 4];
        for (by, rows) in (1..).zip(transactions) {
            text.push_str(&format!("SET @@SESSION.GTID_NEXT= 'u:{}'/*!*/;\n", by + 1));
            for key in *rows {
                versions[*key as usize] += 1;
                row(key % TABLES, [u64::from(*key), versions[*key as usize], by], false, &mut text);
            }
            text.push_str("### INSERT INTO `o`.`other`\n### SET\n###   @1=7\n###   @2=7\n###   @3=7\n");
        }
        text.push_str("SET @@SESSION.GTID_NEXT= 'AUTOMATIC' /* added by mysqlbinlog */ /*!*/;\n");
        Log::read(text.as_bytes(), keys).unwrap()
    }

    fn seen(key: u32, version: u32, by: u64) -> Seen {
        Seen { key, version, by }
    }

    fn read(known: Option<[u32; 4]>, rows: &[Seen]) -> Step {
        Step::Read { known: known.map(|known| known.to_vec()), rows: rows.to_vec() }
    }

    fn of(id: u64, steps: Vec<Step>) -> Transaction {
        Transaction { id, steps, outcome: Outcome::Committed }
    }

    /// Five transactions over rows 0 to 3.
    fn five() -> Log {
        log(&[&[0], &[0, 1], &[2], &[0], &[1, 3]])
    }

    #[test]
    fn a_prefix_passes_and_two_prefixes_do_not() {
        let log = five();
        assert_eq!((log.places(), log.rows[0].len()), (6, 4));
        let zero = Some([0; 4]);
        let prefix = vec![read(zero, &[seen(0, 2, 2), seen(1, 1, 2)]), read(None, &[seen(2, 0, 0), seen(3, 0, 0)])];
        assert_eq!(log.check(&of(0, prefix.clone())), Ok(()));
        let later = [prefix[0].clone(), read(None, &[seen(3, 1, 5)])];
        let error = Violation::NoPrefix { reaches: 6, ended: 5, at: seen(0, 2, 2) };
        assert_eq!(log.check(&of(0, later.to_vec())), Err(error));
        // Each statement has a view of its own.
        let renewed = [prefix[0].clone(), read(zero, &[seen(3, 1, 5), seen(0, 3, 4)])];
        assert_eq!(log.check(&of(0, renewed.to_vec())), Ok(()));
        // Half of a transaction.
        let torn = [read(zero, &[seen(0, 2, 2), seen(1, 0, 0)])];
        assert!(matches!(log.check(&of(0, torn.to_vec())), Err(Violation::NoPrefix { .. })));
        for never in [seen(2, 2, 7), seen(2, 1, 4), seen(9, 0, 0)] {
            assert_eq!(log.check(&of(0, vec![read(zero, &[never])])), Err(Violation::NeverWritten(never)));
        }
    }

    #[test]
    fn what_anyone_knew_of_any_row_is_shown() {
        let log = five();
        let at = seen(0, 2, 2);
        let reads = |known| of(0, vec![read(Some(known), &[at]), read(None, &[seen(1, 1, 2)])]);
        assert_eq!(log.check(&reads([2, 1, 1, 0])), Ok(()));
        let stale = |key, known| Err(Violation::Stale { key, known, at });
        assert_eq!(log.check(&reads([3, 0, 0, 0])), stale(0, 3));
        assert_eq!(log.check(&reads([0, 0, 0, 1])), stale(3, 1), "of a row that it did not read");
        let lock = |known| of(0, vec![Step::Locked { known, row: at }]);
        assert_eq!((log.check(&lock(2)), log.check(&lock(3))), (Ok(()), stale(0, 3)));
    }

    #[test]
    fn own_changes_are_seen_and_lost_ones_found() {
        let log = five();
        let zero = Some([0; 4]);
        let own = Step::Wrote { key: 0, version: 3 };
        let transaction = of(4, vec![read(zero, &[seen(0, 1, 1)]), own.clone(), read(None, &[seen(0, 3, 4)])]);
        assert_eq!(log.check(&transaction), Ok(()));
        let not_own = of(4, vec![own.clone(), read(zero, &[seen(0, 2, 2)])]);
        assert_eq!(log.check(&not_own), Err(Violation::NotItsOwn { seen: seen(0, 2, 2), own: 3 }));
        // Its view cannot have what was committed after it.
        let late = of(4, vec![own.clone(), read(zero, &[seen(3, 1, 5)])]);
        assert!(matches!(log.check(&late), Err(Violation::NoPrefix { .. })));
        let lost = of(3, vec![own.clone()]);
        assert_eq!(log.check(&lost), Err(Violation::Lost { key: 0, version: 3 }));
        let undone = Transaction { outcome: Outcome::RolledBack, ..transaction };
        assert_eq!(log.check(&undone), Err(Violation::Undone));
        let unknown = Transaction { outcome: Outcome::Unknown, ..lost };
        assert_eq!(log.check(&unknown), Ok(()));
        let locked = of(4, vec![Step::Locked { known: 0, row: seen(0, 1, 1) }, own]);
        assert_eq!(log.check(&locked), Err(Violation::LockedIsChanged { seen: seen(0, 1, 1), own: 3 }));
    }

    #[test]
    fn a_savepoint_takes_back_own_changes() {
        let log = five();
        let back = |seen| {
            let wrote = |key, version| Step::Wrote { key, version };
            let read = read(Some([0; 4]), &[seen]);
            of(5, vec![wrote(1, 2), Step::Savepoint, wrote(0, 4), Step::RolledBack, read, wrote(3, 1)])
        };
        assert_eq!(log.check(&back(seen(0, 3, 4))), Ok(()));
        assert_eq!(log.check(&back(seen(0, 4, 5))), Err(Violation::NeverWritten(seen(0, 4, 5))));
        assert_eq!(log.check(&back(seen(1, 1, 2))), Err(Violation::NotItsOwn { seen: seen(1, 1, 2), own: 2 }));
    }

    #[test]
    fn a_log_with_a_hole_is_no_history() {
        let text =
            "SET @@SESSION.GTID_NEXT= 'u:1'\n### INSERT INTO `o`.`t0`\n### SET\n###   @1=0\n###   @2=1\n###   @3=1\n";
        assert!(Log::read(text.as_bytes(), 1).unwrap_err().contains("version 1 of row 0 follows 0 versions"));
        let twice = format!("{}{}", text.replace("@2=1", "@2=0"), text.replace("u:1", "u:2"));
        assert!(Log::read(twice.as_bytes(), 1).unwrap_err().contains("in the log twice"));
    }
}
