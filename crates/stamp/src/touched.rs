//! Which definitions the statements of a part of a log touch: the others are the same at both of its ends.
//!
//! In: chunks of the log. Out: [`Touched`]. Never here: a definition; a table taken for untouched because a statement
//! was not understood.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{Buffer, GtidSet};
use catalog::{Catalog, Named};
use decode::NamedStatement;

use crate::StampError;
use crate::reader::LogReader;

/// Tables and databases that statements touch. Names are compared without regard to case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// True if a statement may have touched any of them.
    everything: bool,
    tables: BTreeSet<(String, String)>,
    databases: BTreeSet<String>,
}

impl Touched {
    /// True if the table's definition may have changed.
    #[must_use]
    pub fn has(&self, db: &str, table: &str) -> bool {
        self.has_database(db) || self.tables.contains(&(db.to_lowercase(), table.to_lowercase()))
    }

    /// True if the database was made or dropped.
    #[must_use]
    pub fn has_database(&self, db: &str) -> bool {
        self.everything || self.databases.contains(&db.to_lowercase())
    }

    pub(crate) fn add_databases<'a>(&mut self, made: impl Iterator<Item = &'a str>) {
        self.databases.extend(made.map(str::to_lowercase));
    }

    pub(crate) fn add(&mut self, statement: &NamedStatement) {
        let mut table = |(db, table): &(String, String)| {
            self.tables.insert((db.to_lowercase(), table.to_lowercase()));
        };
        match &statement.named {
            Named::Changes(_) if statement.truncates => {}
            Named::Changes(changed) => table(changed),
            // The second one is read only.
            Named::Creates(made, _) => table(made),
            Named::Drops(dropped) => dropped.iter().for_each(table),
            Named::Renames(pairs) => pairs.iter().for_each(|(from, to)| {
                table(from);
                table(to);
            }),
            Named::Moves(from, to) | Named::Exchanges(from, to) => {
                table(from);
                table(to);
            }
            Named::DropsDatabase(db) => {
                self.databases.insert(db.to_lowercase());
            }
            Named::Other => self.everything |= !statement.understood,
        }
    }
}

/// What the statements of some transactions touch.
pub(crate) struct Watched {
    pub touched: Touched,
    pub within: GtidSet,
}

/// Reads a part of a log for what the statements of some transactions touch.
pub struct DdlScan {
    reader: LogReader,
    /// Those that were not read when it began.
    left: GtidSet,
    read: u64,
}

impl DdlScan {
    /// Begins after `executed`; statements of transactions that `within` lacks are left out.
    #[must_use]
    pub fn new(lower_case_table_names: u8, executed: GtidSet, within: GtidSet) -> DdlScan {
        let left = within.subtract(&executed);
        let mut reader = LogReader::new(Catalog::new(lower_case_table_names), executed, false);
        reader.watched = Some(Watched { touched: Touched::default(), within });
        DdlScan { reader, left, read: 0 }
    }

    /// True if all of the transactions were read.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.read >= self.left.count()
    }

    /// Takes the next bytes of the log, which may be cut anywhere.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn step(&mut self, file: &Arc<str>, offset: u64, data: &Arc<Buffer>, verified: bool) -> Result<(), StampError> {
        let DdlScan { reader, left, read } = self;
        reader.step(file, offset, data, verified, &mut |transaction| {
            *read += u64::from(transaction.gtid.is_some_and(|gtid| left.contains(&gtid)));
            Ok(())
        })
    }

    /// Ends a file of the log.
    ///
    /// # Errors
    /// It ends inside a transaction.
    pub fn end_of_file(&mut self) -> Result<(), StampError> {
        self.reader.end_of_file()
    }

    /// What the statements so far touched.
    #[must_use]
    pub fn touched(self) -> Touched {
        self.reader.watched.map(|watched| watched.touched).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Tag, Uuid};
    use testkit::log::{Author, INT};

    fn scanned(statements: &[&str]) -> Touched {
        scanned_within(statements, u64::MAX >> 1)
    }

    /// What transactions up to this number touch.
    fn scanned_within(statements: &[&str], last: u64) -> Touched {
        let mut author = Author::new(Uuid([3; 16]));
        for sql in statements {
            author.sql(sql);
        }
        author.table("last", &[INT], "id INT PRIMARY KEY");
        let bytes = author.end_file();
        let mut within = GtidSet::new();
        within.add_range(Uuid([3; 16]), Tag::EMPTY, 1, last);
        let mut scan = DdlScan::new(0, GtidSet::new(), within);
        assert!(!scan.is_complete());
        let data = Arc::new(bytes.get(4..).unwrap().to_vec().into());
        scan.step(&Arc::from("log.000001"), 4, &data, false).unwrap();
        scan.end_of_file().unwrap();
        assert_eq!(scan.is_complete(), last <= author.last, "{last} of {}", author.last);
        scan.touched()
    }

    #[test]
    fn what_statements_name_is_touched() {
        let touched = scanned(&[
            "CREATE DATABASE made",
            "CREATE TABLE d.a LIKE d.like_it",
            "ALTER TABLE d.B ADD COLUMN x INT",
            "TRUNCATE TABLE d.t",
            "RENAME TABLE d.c TO d.e",
            "CREATE INDEX i ON d.f (x)",
            "DROP TABLE d.g, d.h",
            "DROP DATABASE gone",
            "CREATE USER u",
            "ANALYZE TABLE d.t",
        ]);
        for table in ["a", "b", "c", "e", "f", "g", "h"] {
            assert!(touched.has("d", table), "{table}");
        }
        for table in ["like_it", "t", "other"] {
            assert!(!touched.has("d", table), "{table}");
        }
        assert!(touched.has("made", "x") && touched.has("gone", "x") && !touched.has_database("d"));
    }

    #[test]
    fn what_comes_after_the_definitions_were_read_does_not_count() {
        let touched = scanned_within(&["ALTER TABLE d.a ADD COLUMN x INT", "FROBNICATE d.t", "DROP TABLE d.b"], 1);
        assert!(touched.has("d", "a") && !touched.has("d", "b"));
    }

    #[test]
    fn a_statement_that_is_not_understood_touches_everything() {
        assert!(scanned(&["FROBNICATE d.t"]).has("d", "other"));
        assert!(!scanned(&["CREATE VIEW d.v AS SELECT 1"]).has("d", "t"));
    }
}
