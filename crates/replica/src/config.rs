//! What a replica needs to know: where its source is, its folder, its limits.
//!
//! In: values that were read and checked. Out: the same, typed. Never here: how options are spelled, a default that
//! depends on the machine (0 = automatic, decided where the thing is built), a password in a text.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::filters::ReplicationFilters;
use base::{GtidSet, ThreadAffinity};
use client::SslMode;
use relay_log::SyncPolicy;
use serde::{Deserialize, Serialize};
use store::CheckImages;

use crate::access::Access;
use crate::exit::Failure;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How to reach a MySQL server. Each field overrides what the URL says. Sent over the control socket for `verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerOptions {
    /// `mysql://user@host:port/?ssl-mode=...`; may hold a password, so it is printed by `shown` only.
    pub url: Secret,
    /// Host name or address.
    pub host: Option<String>,
    /// TCP port.
    pub port: Option<u16>,
    /// Account.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
    /// Unix socket of the server.
    pub socket: Option<PathBuf>,
    /// TLS or not.
    #[serde(with = "ssl_mode_text")]
    pub ssl_mode: Option<SslMode>,
    /// File with trusted authorities, PEM.
    pub ssl_ca: Option<PathBuf>,
    /// File with our certificate, PEM.
    pub ssl_cert: Option<PathBuf>,
    /// File with its key, PEM.
    pub ssl_key: Option<PathBuf>,
    /// File with the server's RSA key, PEM.
    pub server_public_key_path: Option<PathBuf>,
    /// Ask the server for its RSA key.
    pub get_server_public_key: Option<bool>,
    /// Bound of one attempt to connect.
    pub connect_timeout: Option<Duration>,
}

impl ServerOptions {
    /// For a URL alone.
    #[must_use]
    pub fn from_url(url: &str) -> ServerOptions {
        ServerOptions { url: Secret(url.to_owned()), ..ServerOptions::default() }
    }

    /// As the connection takes them.
    ///
    /// # Errors
    /// Code 2 when the URL is wrong.
    pub fn connect_options(&self) -> Result<client::ConnectOptions, Failure> {
        let mut options = if self.url.0.is_empty() {
            client::ConnectOptions::default()
        } else {
            client::ConnectOptions::from_url(&self.url.0)
                .map_err(|error| Failure::usage(mask_passwords(&error.to_string())))?
        };
        fn set<T: Clone>(to: &mut T, from: Option<&T>) {
            if let Some(from) = from {
                *to = from.clone();
            }
        }
        set(&mut options.host, self.host.as_ref());
        set(&mut options.port, self.port.as_ref());
        set(&mut options.user, self.user.as_ref());
        set(&mut options.get_server_public_key, self.get_server_public_key.as_ref());
        set(&mut options.connect_timeout, self.connect_timeout.as_ref());
        options.password = self.password.as_ref().map(|password| password.0.clone()).or(options.password);
        options.socket = self.socket.clone().or(options.socket);
        options.ssl_ca = self.ssl_ca.clone().or(options.ssl_ca);
        options.ssl_cert = self.ssl_cert.clone().or(options.ssl_cert);
        options.ssl_key = self.ssl_key.clone().or(options.ssl_key);
        options.server_public_key_path = self.server_public_key_path.clone().or(options.server_public_key_path);
        set(&mut options.ssl_mode, self.ssl_mode.as_ref());
        Ok(options)
    }

    /// The URL without its password, for people.
    #[must_use]
    pub fn shown(&self) -> String {
        if self.url.0.is_empty() {
            let user = self.user.as_deref().map(|user| format!("{user}@")).unwrap_or_default();
            return format!(
                "mysql://{user}{}:{}",
                self.host.as_deref().unwrap_or("localhost"),
                self.port.unwrap_or(3306)
            );
        }
        mask_passwords(&self.url.0)
    }
}

/// `client::SslMode` as MySQL writes it.
mod ssl_mode_text {
    use client::SslMode;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[allow(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(super) fn serialize<S: Serializer>(mode: &Option<SslMode>, to: S) -> Result<S::Ok, S::Error> {
        let text = mode.map(|mode| match mode {
            SslMode::Disabled => "DISABLED",
            SslMode::Preferred => "PREFERRED",
            SslMode::Required => "REQUIRED",
            SslMode::VerifyCa => "VERIFY_CA",
            SslMode::VerifyIdentity => "VERIFY_IDENTITY",
        });
        text.serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<SslMode>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

/// Where the log comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
pub enum SourceSpec {
    /// A MySQL server.
    Server(ServerOptions),
    /// A binlog file, or an index file that lists them.
    Files(PathBuf),
}

impl SourceSpec {
    /// Without a password, for people.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            SourceSpec::Server(server) => server.shown(),
            SourceSpec::Files(path) => format!("file:{}", path.display()),
        }
    }
}

/// Threads and memory of the pipeline, shared by `replica` and `lab replay`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipelineConfig {
    /// Apply workers (each has its lanes); 0 = by the machine's cores.
    pub workers: usize,
    /// Decoding threads; 0 = by the machine's cores.
    pub decoders: usize,
    /// Bound of all work between split and apply, bytes.
    pub queue_memory: u64,
    /// How often old rows are compared with before images.
    pub check_images: CheckImages,
    /// Which CPUs the stages' threads run on.
    pub affinity: ThreadAffinity,
}

/// How an empty store is filled from a source whose log does not reach back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyConfig {
    /// Whether the source's writers are held for a moment.
    pub lock: copy::CopyLock,
    /// Connections that read.
    pub connections: usize,
    /// Bytes a second at most; none = no limit.
    pub rate: Option<u64>,
    /// How long one try for the read lock may keep writers waiting.
    pub lock_wait: Duration,
    /// How old snapshots may become.
    pub snapshot_max: Duration,
}

/// Everything `slipstream replica` needs, complete and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaConfig {
    /// Where the log comes from.
    pub source: SourceSpec,
    /// The data folder.
    pub data: PathBuf,
    /// Who may read the data folder.
    pub access: Access,
    /// Our server_id; none = the one kept in the data folder.
    pub server_id: Option<u32>,
    /// What SHOW REPLICAS on the source shows as our host.
    pub report_host: Option<String>,
    /// And as our port.
    pub report_port: u16,
    /// When the relay log is synced.
    pub relay_sync: SyncPolicy,
    /// A relay log file is closed when it is larger than this, at the next transaction boundary; bytes.
    pub max_relay_log_size: u64,
    /// Receiving waits while the relay log is larger than this, bytes; 0 = no limit.
    pub relay_log_space_limit: u64,
    /// Relay log files are kept this long after a durable cut is past them.
    pub relay_log_expire: Duration,
    /// The initial copy.
    pub copy: CopyConfig,
    /// Bound of resident memory, bytes; 0 = a quarter of the machine's.
    pub memory: u64,
    /// Maximum age of replayed changes that are not durable in the store.
    pub cut_interval: Duration,
    /// Bytes of rows that are on disk already and stay in memory for readers; 0: half of the memory limit.
    /// Up to half of `memory` this is within it.
    pub snapshot_memory: u64,
    /// Readers see a state of this age at most; None: of any.
    pub snapshot_age: Option<Duration>,
    /// An idle source sends a heartbeat this often.
    pub heartbeat: Duration,
    /// Without any byte from the source for this long the connection counts as dead.
    pub read_timeout: Duration,
    /// Longest pause between two attempts to connect; the first are shorter.
    pub connect_retry: Duration,
    /// Attempts before giving up; 0 = never give up.
    pub retry_count: u64,
    /// Acknowledge to a source with semi-synchronous replication.
    pub semi_sync: bool,
    /// Which databases and tables are replicated, under which names.
    pub filters: Arc<ReplicationFilters>,
    /// Transactions to commit empty, in addition to those kept in the folder.
    pub skip: GtidSet,
    /// Threads and memory.
    pub pipeline: PipelineConfig,
}

/// Whether a URL names a password.
#[must_use]
pub fn url_has_password(url: &str) -> bool {
    mask_passwords(url) != url
}

/// The text with the password of every URL in it made `***`. When in doubt where a password ends it hides more.
#[must_use]
pub fn mask_passwords(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        masked.push_str(before);
        masked.push_str("://");
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '<' | '>')).unwrap_or(after.len());
        let (url, tail) = after.split_at(end);
        match url.rsplit_once('@').and_then(|(login, host)| Some((login.split_once(':')?.0, host))) {
            Some((user, host)) => {
                masked.push_str(user);
                masked.push_str(":***@");
                masked.push_str(host);
            }
            None => masked.push_str(url),
        }
        rest = tail;
    }
    masked.push_str(rest);
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_masked_in_any_text() {
        for (text, wanted) in [
            ("to mysql://u:p@h:1/d failed", "to mysql://u:***@h:1/d failed"),
            ("mysql://u:a@b:c/d@h", "mysql://u:***@h"),
            ("mysql://u@h:3306 and mysql://v:x@g", "mysql://u@h:3306 and mysql://v:***@g"),
            ("no url: a@b", "no url: a@b"),
            ("'mysql://u:p@h'", "'mysql://u:***@h'"),
        ] {
            assert_eq!(mask_passwords(text), wanted);
        }
        assert!(url_has_password("mysql://u:p@h") && !url_has_password("mysql://u@h:3306"));
    }
}
