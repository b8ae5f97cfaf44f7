//! XA transactions that are prepared and neither committed nor rolled back.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Gtid;

/// A prepared XA transaction: executed as far as GTIDs go, its rows invisible until XA COMMIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Sequence number of its XA PREPARE, a name that is never given twice.
    pub number: u64,
    /// GTID of its XA PREPARE; None when the source runs without.
    pub gtid: Option<Gtid>,
    /// Its events as the log had them, without checksums: table maps, rows, savepoints.
    pub events: Vec<u8>,
}

/// All that are prepared at one place in the log, by xid as MySQL writes it (`X'6162',X'',1`). Shared; never changed.
pub type PreparedSet = Arc<BTreeMap<String, Arc<Prepared>>>;
