//! What will be copied.

use std::fmt;
use std::sync::Arc;

use base::{GtidSet, Uuid};
use catalog::{Catalog, TableDef};

use crate::options::CopyLock;

/// What will be copied, and as of when.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    /// How the rows come to belong to `executed`; [`CopyLock::None`] also where the lock that was wanted could not be had.
    pub lock: CopyLock,
    /// G: the GTIDs of everything the snapshots see, and nothing else. Without a lock ([`crate::CopyLock::None`]):
    /// where replay must begin; the rows may hold some of what follows.
    pub executed: GtidSet,
    /// Definitions at G of every table that is copied, all databases with their default collations, names of views.
    pub catalog: Catalog,
    /// What is copied, the largest first.
    pub tables: Vec<PlannedTable>,
    /// Tables that the filter leaves out: database and name at the source.
    pub left_out: Vec<(String, String)>,
    /// For how long writers on the source were held off at most: the longest try, from the moment the read lock was
    /// asked for to its release, µs.
    pub lock_us: u64,
    /// The time until the lock was granted in the last try, µs.
    pub lock_wait_us: u64,
    /// For how long DDL on the source was held off by LOCK INSTANCE FOR BACKUP, µs; None without the privilege for it.
    pub backup_lock_us: Option<u64>,
    /// How often a lock was asked for.
    pub lock_tries: u32,
    /// What was found out about the source.
    pub source: SourceFacts,
    /// What is worth knowing.
    pub notes: Vec<String>,
}

/// A table to be copied.
#[derive(Clone, Debug)]
pub struct PlannedTable {
    /// Its definition at G; its id is the catalog's.
    pub def: Arc<TableDef>,
    /// Rows, as the source's statistics estimate them.
    pub rows_estimated: u64,
    /// Bytes on the source's disk without secondary indexes, as its statistics estimate them.
    pub bytes_estimated: u64,
}

/// The source of a copy.
#[derive(Clone, Debug)]
pub struct SourceFacts {
    /// Address without the password.
    pub server: String,
    /// E.g. `9.7.4`.
    pub version: String,
    /// `@@server_uuid`.
    pub server_uuid: Option<Uuid>,
    /// `@@lower_case_table_names`.
    pub lower_case_table_names: u8,
}

impl CopyPlan {
    /// Rows of all tables, estimated.
    #[must_use]
    pub fn rows_estimated(&self) -> u64 {
        self.tables.iter().map(|table| table.rows_estimated).sum()
    }

    /// Bytes of all tables, estimated.
    #[must_use]
    pub fn bytes_estimated(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes_estimated).sum()
    }
}

/// A few lines for the log.
impl fmt::Display for CopyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.executed.to_string().replace('\n', "");
        writeln!(
            f,
            "snapshot of {} at GTID set {}",
            self.source.server,
            if set.is_empty() { "(empty)" } else { &set }
        )?;
        if self.lock == CopyLock::None {
            write!(f, "no lock was taken; rows are exact once the log is replayed to the end of the copy")?;
            return self.notes.iter().try_for_each(|note| write!(f, "\nnote: {note}"));
        }
        write!(
            f,
            "writers waited {:.1} ms at most ({:.1} ms for the lock, tries: {})",
            self.lock_us as f64 / 1e3,
            self.lock_wait_us as f64 / 1e3,
            self.lock_tries
        )?;
        if let Some(us) = self.backup_lock_us {
            write!(f, "; DDL waited {:.1} ms at most", us as f64 / 1e3)?;
        }
        for note in &self.notes {
            write!(f, "\nnote: {note}")?;
        }
        Ok(())
    }
}
