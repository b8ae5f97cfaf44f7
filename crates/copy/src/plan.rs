//! Plan of a copy: which tables, as of which GTID set.
//!
//! In: what preparation found. Out: facts for the caller, and a text for the log. Never here: rows.

use std::fmt;
use std::sync::Arc;

use base::{GtidSet, Uuid};
use catalog::{Catalog, TableDef};

use crate::UnsettledTable;
use crate::options::CopyLock;

/// Which tables are copied, and as of when.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    /// How the rows are assigned to `executed`; also [`CopyLock::None`] if the requested lock could not be acquired.
    pub lock: CopyLock,
    /// G: the GTIDs of exactly what the snapshots see. Without a lock ([`crate::CopyLock::None`]), the set at which
    /// replay must start; the rows may include some of what follows.
    pub executed: GtidSet,
    /// Definitions at G of all tables that are copied, all databases with their default collations, and names of views.
    pub catalog: Catalog,
    /// Tables to copy, largest first.
    pub tables: Vec<PlannedTable>,
    /// Tables without a definition at `executed` because of DDL; not in `catalog` ([`crate::Unsettled::LeaveOut`]).
    pub unsettled: Vec<UnsettledTable>,
    /// Tables that the filter excludes: database and name on the source.
    pub left_out: Vec<(String, String)>,
    /// Longest time for which writers on the source may have been blocked, µs: the longest attempt, from the lock
    /// request to its release.
    pub lock_us: u64,
    /// Time until the lock was granted in the last attempt, µs.
    pub lock_wait_us: u64,
    /// Time for which LOCK INSTANCE FOR BACKUP blocked DDL on the source, µs; None without the privilege for it.
    pub backup_lock_us: Option<u64>,
    /// Number of lock requests.
    pub lock_tries: u32,
    /// Facts about the source.
    pub source: SourceFacts,
    /// Notes for the operator.
    pub notes: Vec<String>,
}

/// A table to copy.
#[derive(Clone, Debug)]
pub struct PlannedTable {
    /// Its definition at G; the id is the catalog's.
    pub def: Arc<TableDef>,
    /// Number of rows, as estimated by the source's statistics.
    pub rows_estimated: u64,
    /// Bytes on the source's disk without secondary indexes, as estimated by its statistics.
    pub bytes_estimated: u64,
}

/// Facts about the source of a copy.
#[derive(Clone, Debug)]
pub struct SourceFacts {
    /// Address, without the password.
    pub server: String,
    /// Server version, such as `9.7.4`.
    pub version: String,
    /// `@@server_uuid`, if it could be parsed.
    pub server_uuid: Option<Uuid>,
    /// `@@lower_case_table_names`.
    pub lower_case_table_names: u8,
}

impl CopyPlan {
    /// Estimated rows of all tables.
    #[must_use]
    pub fn rows_estimated(&self) -> u64 {
        self.tables.iter().map(|table| table.rows_estimated).sum()
    }

    /// Estimated bytes of all tables.
    #[must_use]
    pub fn bytes_estimated(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes_estimated).sum()
    }
}

/// Text of a few lines for the log.
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
