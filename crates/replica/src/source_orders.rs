//! `source-orders`: what CHANGE REPLICATION SOURCE TO has changed, over the options of the start.
//!
//! In: the options of a statement, the configuration of the start. Out: the configuration in force, and a file of mode
//! 0600 in the data folder, durable before anything of it counts; RESET REPLICA ALL removes it. Never here: a password
//! in a text; whether the source is one that can be followed.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use client::SslMode;
use serde::{Deserialize, Serialize};

use crate::config::{ReplicaConfig, Secret, ServerOptions, SourceSpec};
use crate::exit::{Exit, Failure};
use crate::folder::{Folder, read_small, write_secret};
use crate::server_options::Failover;

const FILE: &str = "source-orders";

/// Options of CHANGE REPLICATION SOURCE TO; None: not given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceOrders {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssl: Option<bool>,
    /// SOURCE_SSL_CA; empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssl_ca: Option<PathBuf>,
    /// SOURCE_SSL_CERT; empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssl_cert: Option<PathBuf>,
    /// SOURCE_SSL_KEY; empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssl_key: Option<PathBuf>,
    /// SOURCE_SSL_VERIFY_SERVER_CERT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssl_verify: Option<bool>,
    /// SOURCE_PUBLIC_KEY_PATH; empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key_path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get_public_key: Option<bool>,
    /// SOURCE_CONNECT_RETRY, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_retry_s: Option<u32>,
    /// SOURCE_RETRY_COUNT; 0 is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<u64>,
    /// SOURCE_HEARTBEAT_PERIOD, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_ms: Option<u64>,
    /// SOURCE_DELAY, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_s: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_failover: Option<bool>,
    /// What asynchronous_connection_failover_… gave; kept by RESET REPLICA ALL, as MySQL does.
    #[serde(skip_serializing_if = "Failover::is_empty")]
    pub failover: Failover,
}

/// Takes `more` where it is given.
fn put<T: Clone>(to: &mut Option<T>, more: Option<&T>) {
    if let Some(more) = more {
        *to = Some(more.clone());
    }
}

impl SourceOrders {
    /// What is changed in a folder.
    ///
    /// # Errors
    /// Code 7 if the file is damaged, or a newer release's; 8 for disk errors.
    pub fn of(folder: &Folder) -> Result<SourceOrders, Failure> {
        let path = folder.path().join(FILE);
        let Some(text) = read_small(&path)? else { return Ok(SourceOrders::default()) };
        serde_json::from_str(&text).map_err(|error| {
            // Not its text, which has a password.
            let (line, column) = (error.line(), error.column());
            let what = "not what CHANGE REPLICATION SOURCE TO keeps";
            Failure::new(Exit::Corrupt, format!("{}: line {line}, column {column}: {what}", path.display()))
        })
    }

    /// Keeps them in a folder, durably.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub fn keep(&self, folder: &Folder) -> Result<(), Failure> {
        let text = serde_json::to_string(self).map_err(|error| Failure::error(error.to_string()))?;
        write_secret(&folder.path().join(FILE), text.as_bytes())
    }

    /// Forgets them, durably: the options of the start are in force again. Returns the rest.
    ///
    /// # Errors
    /// Code 7 if the file is damaged; 8 for disk errors.
    pub fn forget(folder: &Folder) -> Result<SourceOrders, Failure> {
        let left = SourceOrders { failover: SourceOrders::of(folder)?.failover, ..SourceOrders::default() };
        if !left.failover.is_empty() {
            left.keep(folder)?;
            return Ok(left);
        }
        let path = folder.path().join(FILE);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(left),
            result => result.map_err(|error| Failure::io(path.display(), &error))?,
        }
        let synced = fs::File::open(folder.path()).and_then(|folder| folder.sync_all());
        synced.map_err(|error| Failure::io(path.display(), &error))?;
        Ok(left)
    }

    /// These, with those of another statement over them.
    #[must_use]
    pub fn with(&self, more: &SourceOrders) -> SourceOrders {
        let mut all = self.clone();
        put(&mut all.host, more.host.as_ref());
        put(&mut all.port, more.port.as_ref());
        put(&mut all.user, more.user.as_ref());
        put(&mut all.password, more.password.as_ref());
        put(&mut all.ssl, more.ssl.as_ref());
        put(&mut all.ssl_ca, more.ssl_ca.as_ref());
        put(&mut all.ssl_cert, more.ssl_cert.as_ref());
        put(&mut all.ssl_key, more.ssl_key.as_ref());
        put(&mut all.ssl_verify, more.ssl_verify.as_ref());
        put(&mut all.public_key_path, more.public_key_path.as_ref());
        put(&mut all.get_public_key, more.get_public_key.as_ref());
        put(&mut all.connect_retry_s, more.connect_retry_s.as_ref());
        put(&mut all.retry_count, more.retry_count.as_ref());
        put(&mut all.heartbeat_ms, more.heartbeat_ms.as_ref());
        put(&mut all.delay_s, more.delay_s.as_ref());
        put(&mut all.auto_failover, more.auto_failover.as_ref());
        all
    }

    /// Names of the options that are given, as the statement spells them.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let given = [
            ("SOURCE_HOST", self.host.is_some()),
            ("SOURCE_PORT", self.port.is_some()),
            ("SOURCE_USER", self.user.is_some()),
            ("SOURCE_PASSWORD", self.password.is_some()),
            ("SOURCE_SSL", self.ssl.is_some()),
            ("SOURCE_SSL_CA", self.ssl_ca.is_some()),
            ("SOURCE_SSL_CERT", self.ssl_cert.is_some()),
            ("SOURCE_SSL_KEY", self.ssl_key.is_some()),
            ("SOURCE_SSL_VERIFY_SERVER_CERT", self.ssl_verify.is_some()),
            ("SOURCE_PUBLIC_KEY_PATH", self.public_key_path.is_some()),
            ("GET_SOURCE_PUBLIC_KEY", self.get_public_key.is_some()),
            ("SOURCE_CONNECT_RETRY", self.connect_retry_s.is_some()),
            ("SOURCE_RETRY_COUNT", self.retry_count.is_some()),
            ("SOURCE_HEARTBEAT_PERIOD", self.heartbeat_ms.is_some()),
            ("SOURCE_DELAY", self.delay_s.is_some()),
            ("SOURCE_CONNECTION_AUTO_FAILOVER", self.auto_failover.is_some()),
        ];
        given.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
    }

    /// True if any of them concerns receiving.
    #[must_use]
    pub fn concern_receiving(&self) -> bool {
        self.names().iter().any(|name| *name != "SOURCE_DELAY")
    }

    /// True if any of them concerns the connection to the source.
    #[must_use]
    pub fn concern_connection(&self) -> bool {
        let others = ["SOURCE_DELAY", "SOURCE_CONNECT_RETRY", "SOURCE_RETRY_COUNT", "SOURCE_HEARTBEAT_PERIOD"];
        self.names().iter().any(|name| !others.contains(name))
    }

    /// The configuration in force.
    ///
    /// # Errors
    /// Code 2 if the options of the start are invalid.
    pub fn over(&self, start: &ReplicaConfig) -> Result<ReplicaConfig, Failure> {
        let mut config = start.clone();
        if let SourceSpec::Server(server) = &mut config.source {
            *server = self.over_server(server)?;
        }
        let seconds = |s: u32| Duration::from_secs(s.into());
        config.connect_retry = self.connect_retry_s.map_or(config.connect_retry, seconds);
        config.retry_count = self.retry_count.unwrap_or(config.retry_count);
        config.heartbeat = self.heartbeat_ms.map_or(config.heartbeat, Duration::from_millis);
        config.source_delay = self.delay_s.map_or(config.source_delay, seconds);
        Ok(config)
    }

    /// The source in force.
    ///
    /// # Errors
    /// Code 2 if the options of the start are invalid.
    pub fn over_server(&self, start: &ServerOptions) -> Result<ServerOptions, Failure> {
        let moves = self.host.is_some() || self.port.is_some();
        // Where the options of the start name several, the next one is followed without a statement, too.
        let auto_failover = self.auto_failover.unwrap_or(start.names_several() && !moves);
        let failover = self.failover.clone();
        if !self.concern_connection() {
            return Ok(ServerOptions {
                auto_failover: auto_failover && !failover.is_empty(),
                failover,
                ..start.clone()
            });
        }
        // Each by itself: a URL would hide what it says.
        let each = start.each()?;
        let first = each.first().unwrap_or(start);
        let options = first.connect_options()?;
        let given = |path: &Option<PathBuf>, start: Option<PathBuf>| match path {
            Some(path) if path.as_os_str().is_empty() => None,
            Some(path) => Some(path.clone()),
            None => start,
        };
        let other_host = self.host.as_ref().is_some_and(|host| *host != options.host) || self.port.is_some();
        let stays_several = start.names_several() && !moves && auto_failover;
        let ssl_ca = given(&self.ssl_ca, options.ssl_ca);
        Ok(ServerOptions {
            // Each of several takes the given options.
            url: if stays_several { start.url.clone() } else { Secret::default() },
            ssl_mode: Some(self.ssl_mode(options.ssl_mode, ssl_ca.is_some())),
            host: (!stays_several).then(|| self.host.clone().unwrap_or(options.host)),
            port: (!stays_several).then(|| self.port.unwrap_or(options.port)),
            user: Some(self.user.clone().unwrap_or(options.user)),
            password: self.password.clone().or(options.password.map(Secret)),
            socket: options.socket.filter(|_| !other_host),
            ssl_ca,
            ssl_cert: given(&self.ssl_cert, options.ssl_cert),
            ssl_key: given(&self.ssl_key, options.ssl_key),
            server_public_key_path: given(&self.public_key_path, options.server_public_key_path),
            get_server_public_key: Some(self.get_public_key.unwrap_or(options.get_server_public_key)),
            connect_timeout: Some(options.connect_timeout),
            prefer: start.prefer,
            member_addresses: start.member_addresses.clone(),
            max_source_lag: start.max_source_lag,
            auto_failover,
            failover,
            weight: None,
        })
    }

    /// As MySQL's replica makes it of these options (rpl_replica.cc).
    fn ssl_mode(&self, start: SslMode, has_authorities: bool) -> SslMode {
        match (self.ssl, self.ssl_verify) {
            (Some(false), _) => SslMode::Disabled,
            (None, None) => start,
            (_, Some(true)) => SslMode::VerifyIdentity,
            (Some(true), None) if start == SslMode::VerifyIdentity => start,
            _ if has_authorities => SslMode::VerifyCa,
            _ => SslMode::Required,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> ServerOptions {
        ServerOptions {
            host: Some("a".to_owned()),
            ..ServerOptions::from_url("mysql://u:geheim@b:3307/?ssl-mode=VERIFY_IDENTITY")
        }
    }

    #[test]
    fn what_is_given_goes_over_the_options_of_the_start() {
        let none = SourceOrders::default();
        assert_eq!(none.over_server(&start()).unwrap(), start());
        assert!(none.names().is_empty() && !none.concern_receiving());
        let first = SourceOrders { port: Some(1), delay_s: Some(5), ..SourceOrders::default() };
        let second = SourceOrders { user: Some("v".to_owned()), delay_s: Some(6), ..SourceOrders::default() };
        let both = first.with(&second);
        assert_eq!(both.names(), ["SOURCE_PORT", "SOURCE_USER", "SOURCE_DELAY"]);
        let options = both.over_server(&start()).unwrap().connect_options().unwrap();
        assert_eq!((options.host.as_str(), options.port, options.user.as_str()), ("a", 1, "v"));
        assert_eq!((options.password.as_deref(), options.ssl_mode), (Some("geheim"), SslMode::VerifyIdentity));
        assert!(!SourceOrders { delay_s: Some(1), ..SourceOrders::default() }.concern_receiving());
    }

    #[test]
    fn several_sources_stay_unless_another_one_is_named() {
        let start = ServerOptions::from_url("mysql://u:geheim@a:1,b:2/?ssl-mode=REQUIRED");
        let over = |orders: &SourceOrders| orders.over_server(&start).unwrap().each().unwrap();
        let user = SourceOrders { user: Some("v".into()), ssl_verify: Some(true), ..SourceOrders::default() };
        let places: Vec<_> = over(&user).iter().map(|server| server.connect_options().unwrap()).collect();
        let [a, b] = &places[..] else { panic!("{places:?}") };
        assert_eq!((a.host.as_str(), a.port, b.host.as_str(), b.port), ("a", 1, "b", 2));
        assert!(places.iter().all(|of| of.user == "v" && of.password.as_deref() == Some("geheim")));
        assert!(places.iter().all(|of| of.ssl_mode == SslMode::VerifyIdentity));
        let host = SourceOrders { host: Some("c".into()), ..SourceOrders::default() };
        let [c] = &over(&host)[..] else { panic!() };
        assert_eq!(c.connect_options().unwrap().to_string(), "mysql://u@c:1");
    }

    #[test]
    fn tls_is_what_mysql_makes_of_it() {
        let mode = |ssl, ssl_verify, start, has_ca| {
            SourceOrders { ssl, ssl_verify, ..SourceOrders::default() }.ssl_mode(start, has_ca)
        };
        assert_eq!(mode(Some(true), None, SslMode::Preferred, false), SslMode::Required);
        assert_eq!(mode(Some(true), None, SslMode::Preferred, true), SslMode::VerifyCa);
        assert_eq!(mode(Some(true), Some(true), SslMode::Preferred, true), SslMode::VerifyIdentity);
        assert_eq!(mode(Some(false), Some(true), SslMode::Required, true), SslMode::Disabled);
        assert_eq!(mode(Some(true), Some(false), SslMode::VerifyIdentity, false), SslMode::Required);
        // A certificate that was verified is not believed unseen from then on.
        assert_eq!(mode(Some(true), None, SslMode::VerifyIdentity, true), SslMode::VerifyIdentity);
        assert_eq!(mode(None, None, SslMode::Preferred, true), SslMode::Preferred);
    }

    #[test]
    fn kept_for_the_owner_alone_and_never_printed() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::own(dir.path()).unwrap();
        let orders = SourceOrders { password: Some(Secret("geheim".into())), ..SourceOrders::default() };
        assert!(!format!("{orders:?}").contains("geheim"));
        orders.keep(&folder).unwrap();
        let path = dir.path().join(FILE);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(SourceOrders::of(&folder).unwrap(), orders);
        fs::write(&path, "{\"password\": \"geheim\", \"new\": 1}").unwrap();
        let failure = SourceOrders::of(&folder).unwrap_err();
        assert!(failure.exit == Exit::Corrupt && !failure.text.contains("geheim"), "{}", failure.text);
        orders.keep(&folder).unwrap();
        assert_eq!(SourceOrders::forget(&folder).unwrap(), SourceOrders::default());
        SourceOrders::forget(&folder).unwrap();
        assert_eq!(SourceOrders::of(&folder).unwrap(), SourceOrders::default());
    }
}
