//! Configuration of the port, and what it asks of the replica.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use client::ConnectOptions;
use serve::{GrowingLog, ListedFile};
use sql::{ReplicaOrder, SqlError};
use store::Snapshot;
use tier::Forward;
use values::Zones;

use session::ReplicaStatus;
use session::{Gtids, NoGtids, Ordered};
use session::{ReadLock, SchemaState};

/// Configuration of the port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoorConfig {
    /// TCP port; 0 takes any free one, None listens on the socket only.
    pub port: Option<u16>,
    /// Address to listen on.
    pub bind_address: IpAddr,
    /// Path of the unix socket, if there is to be one.
    pub socket: Option<PathBuf>,
    /// Whether connections over TCP must have TLS.
    pub require_secure_transport: bool,
    /// Whether the owner of the process may log in over the socket as `admin` without a password.
    pub socket_admin: bool,
    /// Connections that are logged in, at most; an account with the right admin gets one more.
    pub max_connections: usize,
    /// Largest packet of a client that is logged in, in bytes.
    pub max_allowed_packet: usize,
    /// Time for a whole login.
    pub connect_timeout: Duration,
    /// How long a transaction or a cursor may keep its snapshot.
    pub snapshot_age: Duration,
    /// How long a statement of an account without the right admin may work; zero: no limit.
    pub statement_cpu_time: Duration,
    /// Bytes that a statement of an account without the right `admin` may hold at once, besides its result on its way.
    pub connection_memory_limit: u64,
    /// Bytes that all clients hold at most: what they send, prepare, set and ask for, and answers that wait to be read.
    pub clients_memory: u64,
    /// Which statements of accounts with the right `forward` go to the source, and over how many connections.
    pub forward: Forward,
    pub forward_connections: usize,
    /// Value of `version`, also in the greeting unless statements are forwarded.
    pub server_version: String,
    /// Values of system variables that go before the source's, by name in lower case.
    pub set: HashMap<String, String>,
    /// Values of system variables that are about this process, by name in lower case.
    pub own_values: HashMap<String, String>,
}

/// What the port asks of the replica. Called by its threads, so nothing here may wait.
pub trait Facts: Send + Sync {
    /// True if the same process replays: then replay goes before clients where cores are short.
    fn yields_to_replay(&self) -> bool {
        false
    }

    /// The source's value of a global variable that changes answers, as `SELECT @@name` prints it; None if it is not
    /// known, or is not one of those.
    fn source_value(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }

    /// The source's time zones; None if it was never asked.
    fn source_zones(&self) -> Option<Arc<Zones>> {
        None
    }

    /// Looks up a schema.
    fn schema(&self, name: &str) -> SchemaState;

    /// What SHOW REPLICA STATUS shows.
    fn replica_status(&self) -> ReplicaStatus;

    /// Status variables of replay, each with a name that begins with `Slipstream_`.
    fn status_values(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The source that is followed, for statements that are forwarded to it. Called by threads that may wait.
    ///
    /// # Errors
    /// None is followed now; the text says why.
    fn followed(&self) -> Result<Followed, SqlError> {
        Err(SqlError::not_supported("forwarding of statements"))
    }

    /// The number of the source that is followed: see [`Followed`]. None: not known now.
    fn source_number(&self) -> Option<u64> {
        None
    }

    /// Which statements about accounts of the source are visible here, as a text that is another one after each; None:
    /// not known now.
    fn account_statements(&self) -> Option<Arc<str>> {
        None
    }

    /// Version of the source, once it is known.
    fn source_version(&self) -> Option<String> {
        None
    }

    fn gtids(&self) -> &dyn Gtids {
        &NoGtids
    }

    /// The log that is served to replicas; None: none is.
    fn log(&self) -> Option<&Arc<GrowingLog>> {
        None
    }

    /// The files of the relay log, in order.
    ///
    /// # Errors
    /// There is none now; the text says why.
    fn relay_log(&self) -> Result<Vec<ListedFile>, SqlError> {
        Err(SqlError::not_supported("SHOW RELAYLOG EVENTS"))
    }

    /// Pins what is visible, for reading tables.
    ///
    /// # Errors
    /// Nothing can be read now; the text says why.
    fn pin(&self) -> Result<Arc<Snapshot>, SqlError>;

    /// Keeps everything as it is, for all readers, as long as the lock is kept.
    ///
    /// # Errors
    /// Nothing can be held now; the text says why.
    fn take_read_lock(&self) -> Result<ReadLock, SqlError> {
        Err(SqlError::not_supported("FLUSH TABLES WITH READ LOCK"))
    }

    /// Carries out an order to the replica for this account, on a thread of its own.
    fn carry_out(&self, order: ReplicaOrder, by: &str, done: OrderDone) {
        let _ = (order, by);
        done(Err(SqlError::not_supported("orders to the replica")));
    }

    /// Takes note of something that an operator should know.
    fn note(&self, note: Note);
}

/// The source that is followed.
#[derive(Debug, Clone)]
pub struct Followed {
    /// The receiver's way to it; user and password are not used.
    pub options: ConnectOptions,
    pub server_uuid: String,
    /// Another one for another server.
    pub number: u64,
}

/// Takes the result of an order.
pub type OrderDone = Box<dyn FnOnce(Result<Ordered, SqlError>) + Send>;

/// Something that an operator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// So many wrong passwords in a row that logins of this account from this address are delayed now. Told once.
    LoginsDelayed {
        /// The account's name and the peer's address.
        who: String,
    },
    /// No more connections can be accepted, because the process has no more file descriptors. Told once.
    NoDescriptors,
    /// The work of a connection panicked, and the connection was ended.
    Defect {
        /// `CONNECTION_ID()`.
        connection: u64,
        /// What the panic said.
        what: String,
    },
    /// TLS was reloaded on a client's request.
    TlsReloaded,
    /// TLS could not be reloaded on a client's request.
    TlsNotReloaded(String),
}
