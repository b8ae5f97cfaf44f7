//! XA transactions that are prepared but neither committed nor rolled back.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Gtid;

/// A prepared XA transaction. Its GTID counts as executed; its rows stay invisible until XA COMMIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Sequence number of its XA PREPARE, used as an id because it is never reused.
    pub number: u64,
    /// GTID of its XA PREPARE; None if the source runs without GTIDs.
    pub gtid: Option<Gtid>,
    /// Its events as they were in the log, without checksums: table maps, rows, savepoints.
    pub events: Vec<u8>,
}

/// All transactions prepared at one place in the log, by xid as MySQL writes it (`X'6162',X'',1`). Shared and
/// immutable.
pub type PreparedSet = Arc<BTreeMap<String, Arc<Prepared>>>;
