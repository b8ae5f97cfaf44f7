//! What the receiver and the rest of the replica tell each other.
//!
//! In: the receiver's state as it changes, the wish to stop. Out: what status and the outcome need of it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::GtidSet;
use observe::{ConnectionState, ErrorReport, RateMeter};

use crate::exit::Failure;
use crate::failure::error_report;

/// What a source said of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceFacts {
    /// `version`.
    pub version: String,
    /// server_id.
    pub server_id: u32,
    /// server_uuid.
    pub server_uuid: String,
    /// lower_case_table_names.
    pub lower_case_table_names: u8,
}

/// The receiver's state, shared.
pub(crate) struct Link {
    state: Mutex<LinkState>,
    /// Source clock minus ours, µs.
    pub clock_difference_us: Arc<AtomicI64>,
    /// Half the round trip of that measurement.
    pub clock_error_us: AtomicU64,
    /// Bytes of log received.
    pub received: RateMeter,
    /// The receiver must end.
    pub stopping: AtomicBool,
}

/// What the receiver knows.
#[derive(Default)]
pub(crate) struct LinkState {
    /// Connected, trying, or ended.
    pub connection: ConnectionState,
    /// What the source said of itself.
    pub facts: SourceFacts,
    /// TLS version and cipher.
    pub tls: Option<String>,
    /// Whether the source waits for our acknowledgements.
    pub semi_sync: bool,
    /// Since when connected or trying, µs.
    pub since_us: u64,
    /// Connections made again.
    pub reconnects: u64,
    /// When the last event or heartbeat came, µs.
    pub last_received_us: u64,
    /// In the relay log.
    pub retrieved: GtidSet,
    /// Where in the source's log that ends.
    pub source_position: Option<String>,
    /// Transactions taken since the start.
    pub received_transactions: u64,
    /// When the clocks were compared, µs.
    pub clock_measured_us: u64,
    /// The last error.
    pub last_error: Option<ErrorReport>,
    /// The receiver ended for good.
    pub failure: Option<Failure>,
    /// All files of a file source are read.
    pub files_done: bool,
    /// Breaks a blocked read.
    pub interrupter: Option<client::Interrupter>,
}

impl Link {
    pub(crate) fn new() -> Arc<Link> {
        Arc::new(Link {
            state: Mutex::new(LinkState::default()),
            clock_difference_us: Arc::new(AtomicI64::new(0)),
            clock_error_us: AtomicU64::new(0),
            received: RateMeter::new(),
            stopping: AtomicBool::new(false),
        })
    }

    /// The state, for a moment.
    pub(crate) fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an error for status and log.
    pub(crate) fn note_error(&self, failure: &Failure) {
        self.lock().last_error = Some(error_report(failure));
    }
}
