//! Settings of the program: option files first, flags over them, then typed and checked as a whole.
//!
//! In: settings as text, each with its place. Out: `Settings`, and from them `ReplicaConfig`. Never here: a default
//! that depends on the machine (0 = automatic, resolved by the component that uses it), a password in an error.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::GtidSet;
use base::units::{parse_bytes, parse_span};
use catalog::ReplicationFilters;
use door::Forward;
use engine::DoorSettings;
use relay_log::SyncPolicy;
use replica::access::Access;
use replica::config::{
    CopyConfig, CopyWhen, OnStop, PipelineConfig, Prefer, ReplicaConfig, Secret, ServerOptions, ShowWhen, SourceSpec,
    url_has_password,
};
use replica::{Failure, OnDamage, OnDrift};

use crate::option_file::{self, OptionFileError, Setting};
use crate::options::{self, OPTIONS};
use crate::relay::RelaySettings;

/// Silence after which a source counts as dead, as MySQL's replica_net_timeout.
const SILENCE: Duration = Duration::from_secs(60);
/// The same where another one can be followed instead: three heartbeats.
const SILENCE_OF_SEVERAL: Duration = Duration::from_secs(3);

/// Our section of the option files.
pub const SECTION: &str = "slipstream";

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// mysqld's line format.
    #[default]
    Text,
    /// mysqld's JSON sink: one object per line.
    Json,
}

/// Destination and format of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// File to append to; None = stderr.
    pub file: Option<PathBuf>,
    /// Format of the lines.
    pub format: LogFormat,
    /// 1: errors; 2: also warnings; 3: also notes.
    pub verbosity: u8,
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig { file: None, format: LogFormat::Text, verbosity: 3 }
    }
}

/// All options read so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub(crate) source: Option<Secret>,
    pub(crate) server: ServerOptions,
    pub(crate) data: Option<PathBuf>,
    /// None: one second, or less if the connection counts as dead sooner.
    pub(crate) heartbeat: Option<Duration>,
    /// None: [`SILENCE`], or [`SILENCE_OF_SEVERAL`] sources.
    pub(crate) read_timeout: Option<Duration>,
    pub(crate) filters: ReplicationFilters,
    /// Everything else. `replica` adds source, folder, heartbeat and filters from the fields above.
    pub(crate) config: ReplicaConfig,
    pub(crate) log: LogConfig,
    /// The port for clients.
    pub(crate) door: DoorSettings,
    /// Options of a served log.
    pub(crate) relay: RelaySettings,
    /// True if `relay-sync` is not the default.
    pub(crate) relay_sync_given: bool,
    /// Account, password and TLS options of the `[client]` section, as mysql's clients read it: used where ours and the
    /// URL have none. Not its host, port and socket, which name another server than the source.
    client: ServerOptions,
    /// Sentences about the option files that the operator should know.
    warnings: Vec<String>,
    /// Password entered at the terminal.
    asked_password: Option<Secret>,
}

/// Options that are taken from the `[client]` section.
const OF_CLIENT: &[&str] = &[
    "user",
    "password",
    "ssl-mode",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "server-public-key-path",
    "get-server-public-key",
];

impl Default for Settings {
    /// All options at their defaults.
    fn default() -> Settings {
        let config = ReplicaConfig {
            source: SourceSpec::Files(PathBuf::new()),
            data: PathBuf::new(),
            access: Access::Owner,
            server_id: None,
            report_host: None,
            report_port: 0,
            relay_sync: SyncPolicy::default(),
            max_relay_log_size: 0,
            relay_log_space_limit: 0,
            relay_log_expire: Duration::ZERO,
            copy: CopyConfig {
                when: CopyWhen::default(),
                lock: copy::CopyLock::Auto,
                connections: 0,
                rate: None,
                lock_wait: Duration::ZERO,
                snapshot_max: Duration::ZERO,
            },
            memory: 0,
            cut_interval: Duration::ZERO,
            snapshot_memory: 0,
            snapshot_age: None,
            heartbeat: Duration::ZERO,
            read_timeout: Duration::ZERO,
            connect_retry: Duration::ZERO,
            retry_count: 0,
            semi_sync: false,
            source_delay: Duration::ZERO,
            skip_replica_start: false,
            filters: Arc::default(),
            skip: GtidSet::new(),
            on_drift: OnDrift::default(),
            on_stop: OnStop::default(),
            on_damage: OnDamage::default(),
            scrub_interval: None,
            disk_reserve: None,
            pipeline: PipelineConfig::default(),
            serve_log: None,
        };
        let mut settings = Settings {
            source: None,
            server: ServerOptions::default(),
            data: None,
            heartbeat: None,
            read_timeout: None,
            filters: ReplicationFilters::default(),
            config,
            log: LogConfig::default(),
            door: DoorSettings::default(),
            relay: RelaySettings::default(),
            relay_sync_given: false,
            client: ServerOptions::default(),
            warnings: Vec::new(),
            asked_password: None,
        };
        for option in OPTIONS {
            if let options::Default::Is(text) = option.default {
                let set = option.set(&mut settings, Some(text));
                assert!(set.is_ok(), "the default of {}: {set:?}", option.name);
            }
        }
        settings.door.port_given = false;
        settings.relay_sync_given = false;
        settings
    }
}

/// Which option files are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionFiles {
    /// Reads only this file.
    pub only: Option<PathBuf>,
    /// Reads this file after the default ones.
    pub extra: Option<PathBuf>,
    /// Reads no option files.
    pub none: bool,
}

impl OptionFiles {
    /// The files that are read, whether they are there or not.
    #[must_use]
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        match (&self.only, self.none) {
            (Some(only), _) => vec![only.clone()],
            (None, true) => Vec::new(),
            (None, false) => option_file::default_files().into_iter().chain(self.extra.clone()).collect(),
        }
    }
}

impl Settings {
    /// Reads the option files, then applies the flags (`name`, value) over them.
    ///
    /// # Errors
    /// Code 2 with place and reason. World-writable default files are skipped with a warning on stderr, as MySQL's
    /// programs do; a world-writable file named by the operator is refused.
    pub fn load(files: &OptionFiles, flags: &[(&'static str, Option<String>)]) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        let mut named: Vec<&Path> = Vec::new();
        settings.read_client(files)?;
        if let Some(only) = &files.only {
            named.push(only);
        } else if !files.none {
            for path in option_file::default_files() {
                match option_file::read(&path, SECTION) {
                    Ok(lines) => {
                        settings.warn_of_readers(&path, &lines);
                        settings.set_all(&lines)?;
                    }
                    Err(OptionFileError::Read { .. }) => {}
                    Err(error @ OptionFileError::WorldWritable { .. }) => eprintln!("Warning: {error}; it is ignored"),
                    Err(error) => return Err(Failure::usage(error.to_string())),
                }
            }
            named.extend(files.extra.as_deref());
        }
        for path in named {
            let lines = option_file::read(path, SECTION).map_err(|error| Failure::usage(error.to_string()))?;
            settings.warn_of_readers(path, &lines);
            settings.set_all(&lines)?;
        }
        for (name, value) in flags {
            let failed = |reason| Failure::usage(format!("--{}: {reason}", option_file::dashes(name)));
            settings.set(name, value.as_deref()).map_err(failed)?;
        }
        Ok(settings)
    }

    /// Reads the `[client]` section of all option files.
    fn read_client(&mut self, files: &OptionFiles) -> Result<(), Failure> {
        let paths = files.paths();
        let mut client = Settings { server: ServerOptions::default(), ..self.clone() };
        for path in paths {
            // Invalid lines in another program's section are not reported, nor are files that cannot be read: our own
            // section of the same file is.
            let mut lines = option_file::read(&path, "client").unwrap_or_default();
            lines.retain(|line| OF_CLIENT.contains(&line.key.as_str()));
            for line in &mut lines {
                // Without a prefix these are of the port for clients.
                if matches!(line.key.as_str(), "ssl-ca" | "ssl-cert" | "ssl-key") {
                    line.key.insert_str(0, "source-");
                }
            }
            self.warn_of_readers(&path, &lines);
            client.set_all(&lines)?;
        }
        self.client = client.server;
        Ok(())
    }

    /// Notes a file with a password that other users can read.
    fn warn_of_readers(&mut self, path: &Path, lines: &[Setting]) {
        let is_secret = |line: &Setting| match line.key.as_str() {
            "password" | "source-password" => line.value.as_deref().is_some_and(|value| !value.is_empty()),
            _ => line.value.as_deref().is_some_and(url_has_password),
        };
        if lines.iter().any(is_secret) && option_file::others_may_read(path) {
            let path = path.display();
            let text = format!("option file {path} has a password, and every user can read it: chmod o-r {path}");
            if !self.warnings.contains(&text) {
                self.warnings.push(text);
            }
        }
    }

    /// Sentences about the option files that the operator should know.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn set_all(&mut self, lines: &[Setting]) -> Result<(), Failure> {
        for line in lines {
            let (key, value) = resolve_prefix(&line.key, line.value.as_deref());
            if options::find(key).is_none() {
                if line.loose {
                    continue;
                }
                return Err(Failure::usage(format!("{}: {}", line.place, options::unknown(key))));
            }
            self.set(key, value).map_err(|reason| Failure::usage(format!("{}: {key}: {reason}", line.place)))?;
        }
        Ok(())
    }

    /// Sets one option. The error never contains the value of a secret.
    fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), String> {
        let key = &option_file::dashes(key);
        options::find(key).ok_or_else(|| options::unknown(key))?.set(self, value)
    }

    /// # Errors
    /// Why it is no host that can be reported.
    pub(crate) fn set_report_host(&mut self, text: &str) -> Result<(), String> {
        self.config.report_host = Some(checked_report_host(text)?);
        self.door.set.push(("report_host".to_owned(), text.to_owned()));
        Ok(())
    }

    pub(crate) fn set_report_port(&mut self, port: u16) {
        self.config.report_port = port;
        self.door.set.push(("report_port".to_owned(), port.to_string()));
    }

    /// The data folder.
    ///
    /// # Errors
    /// Code 2 if none is named.
    pub fn data(&self) -> Result<PathBuf, Failure> {
        self.data.clone().ok_or_else(|| {
            let file = option_file::PACKAGE_FILE;
            // It has a password.
            let is_hidden =
                matches!(std::fs::File::open(file), Err(error) if error.kind() == ErrorKind::PermissionDenied);
            let where_else = if is_hidden { format!(", or as a user who can read {file}") } else { String::new() };
            Failure::usage(format!("no data folder given: --data DIR{where_else}"))
        })
    }

    /// True if a data folder is named.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.data.is_some()
    }

    /// Who may read the data folder.
    #[must_use]
    pub fn access(&self) -> Access {
        self.config.access
    }

    /// Options of the log lines.
    #[must_use]
    pub fn log(&self) -> &LogConfig {
        &self.log
    }

    #[must_use]
    pub fn pipeline(&self) -> PipelineConfig {
        let pipeline = self.config.pipeline.clone();
        // Nobody is told of this server's rows and of the source's as of one.
        let is_plain = self.door.forward == Forward::Off && pipeline.show == ShowWhen::Auto;
        PipelineConfig { show: if is_plain { ShowWhen::Received } else { pipeline.show }, ..pipeline }
    }

    /// Sync policy of the relay log.
    #[must_use]
    pub fn relay_sync(&self) -> SyncPolicy {
        self.config.relay_sync
    }

    /// Source of the log, if named: by `source`, or by `host` or `socket` as in mysql's clients.
    #[must_use]
    pub fn source(&self) -> Option<SourceSpec> {
        let url = self.source.as_ref().map(|source| source.0.as_str());
        if let Some(path) = url.and_then(|url| url.strip_prefix("file:")) {
            return Some(SourceSpec::Files(PathBuf::from(path.strip_prefix("//").unwrap_or(path))));
        }
        if url.is_none() && self.server.host.is_none() && self.server.socket.is_none() {
            return None;
        }
        Some(SourceSpec::Server(self.server(url.unwrap_or_default())))
    }

    /// A server by URL, with the login and TLS options of these settings. What neither URL nor options have is taken
    /// from the `[client]` section; a password then from the environment variable MYSQL_PWD.
    #[must_use]
    pub fn server(&self, url: &str) -> ServerOptions {
        let mut server = self.server.clone();
        server.url = Secret(url.to_owned());
        if server.password.is_none() && !url_has_password(url) {
            let environment = || std::env::var("MYSQL_PWD").ok().map(Secret);
            server.password = self.client.password.clone().or_else(environment);
        }
        let client = &self.client;
        let user = |url: &str| url.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
        if server.user.is_none() && !user(url) {
            server.user.clone_from(&client.user);
        }
        let in_url = |name: &str| option_file::dashes(url).contains(&format!("{name}="));
        fn fill<T: Clone>(in_url: bool, to: &mut Option<T>, from: &Option<T>) {
            if to.is_none() && !in_url {
                to.clone_from(from);
            }
        }
        fill(in_url("ssl-mode"), &mut server.ssl_mode, &client.ssl_mode);
        fill(in_url("ssl-ca"), &mut server.ssl_ca, &client.ssl_ca);
        fill(in_url("ssl-cert"), &mut server.ssl_cert, &client.ssl_cert);
        fill(in_url("ssl-key"), &mut server.ssl_key, &client.ssl_key);
        let key = "server-public-key-path";
        fill(in_url(key), &mut server.server_public_key_path, &client.server_public_key_path);
        let key = "get-server-public-key";
        fill(in_url(key), &mut server.get_server_public_key, &client.get_server_public_key);
        if self.door.forward == Forward::All && server.prefer.is_none() {
            // Others of a group do not write.
            server.prefer = Some(Prefer::Primary);
        }
        server
    }

    /// Sets the password entered at the terminal.
    pub fn set_password(&mut self, password: Secret) {
        self.asked_password = Some(password.clone());
        self.server.password = Some(password);
    }

    /// The password entered at the terminal.
    pub(crate) fn asked_password(&self) -> Option<Secret> {
        self.asked_password.clone()
    }

    /// The data folder if named, for commands that also run without one (`check`).
    #[must_use]
    pub fn with_data(mut self, data: PathBuf) -> Settings {
        self.data = Some(data);
        self
    }

    /// The complete configuration of a replica, checked as a whole.
    ///
    /// # Errors
    /// Code 2 if source or data folder are missing, or if two options contradict each other.
    pub fn replica(&self) -> Result<ReplicaConfig, Failure> {
        self.serving(self.receiving()?)
    }

    /// The configuration without what is served.
    pub(crate) fn receiving(&self) -> Result<ReplicaConfig, Failure> {
        let source = self
            .source()
            .ok_or_else(|| Failure::usage("no source given: --source mysql://USER@HOST:PORT, or --source file:PATH"))?;
        let config = &self.config;
        self.door.check()?;
        // Until there was a port for clients, `port` was the source's.
        if self.server.host.is_some() && self.server.port.is_none() && self.door.port_given {
            let text = "port is the port for clients, and the source is named by host: its port is source-port (-P)";
            return Err(Failure::usage(text));
        }
        if config.semi_sync && config.relay_sync == SyncPolicy::Never {
            return Err(Failure::usage(
                "semi-sync acknowledges only synced transactions, so it cannot be combined with relay-sync=never",
            ));
        }
        self.check_forward(&source)?;
        let several = matches!(&source, SourceSpec::Server(server) if server.names_several());
        let read_timeout = self.read_timeout.unwrap_or(if several { SILENCE_OF_SEVERAL } else { SILENCE });
        let heartbeat = self.heartbeat.unwrap_or(Duration::from_secs(1).min(read_timeout / 2));
        if heartbeat >= read_timeout {
            return Err(Failure::usage(
                "source-heartbeat-period must be shorter than replica-net-timeout, or an idle source would count as dead",
            ));
        }
        Ok(ReplicaConfig {
            source,
            data: self.data()?,
            heartbeat,
            read_timeout,
            filters: Arc::new(self.filters.clone()),
            pipeline: self.pipeline(),
            report_port: match config.report_port {
                0 if !self.door.skip_networking => self.door.port,
                given => given,
            },
            ..config.clone()
        })
    }
}

impl Settings {
    /// Checks that statements can go to the source.
    fn check_forward(&self, source: &SourceSpec) -> Result<(), Failure> {
        match (self.door.forward, source, self.server.prefer) {
            (Forward::Off, _, _) => Ok(()),
            (_, SourceSpec::Files(_), _) => {
                Err(Failure::usage("forward needs a server as the source: nothing can be sent to files"))
            }
            (Forward::All, _, Some(Prefer::Secondary | Prefer::LowestLag)) => {
                Err(Failure::usage("forward=all needs prefer=primary, which it implies: other members do not write"))
            }
            _ => Ok(()),
        }
    }
}

/// Resolves MySQL's prefixes `skip-`, `disable-` and `enable-` of a switch.
fn resolve_prefix<'a>(key: &'a str, value: Option<&'a str>) -> (&'a str, Option<&'a str>) {
    for (prefix, meaning) in [("skip-", "OFF"), ("disable-", "OFF"), ("enable-", "ON")] {
        if let Some(rest) = key.strip_prefix(prefix)
            && value.is_none()
            && options::find(rest).is_some_and(options::OptionDef::is_switch)
        {
            return (rest, Some(meaning));
        }
    }
    (key, value)
}

/// A sync policy, spelled as its option takes it.
#[must_use]
pub fn relay_sync_text(policy: SyncPolicy) -> String {
    match policy {
        SyncPolicy::EveryTransaction => "every-transaction".to_owned(),
        SyncPolicy::Never => "never".to_owned(),
        SyncPolicy::Interval { ms, bytes } => format!("{ms},{bytes}"),
    }
}

pub(crate) fn parse_relay_sync(value: &str) -> Result<SyncPolicy, String> {
    let wrong = || format!("'{value}' is not one of every-transaction, MS,BYTES (10,16M), never");
    match option_file::dashes(&value.to_ascii_lowercase()).as_str() {
        "every-transaction" => Ok(SyncPolicy::EveryTransaction),
        "never" => Ok(SyncPolicy::Never),
        both => {
            let (every, bytes) = both.split_once(',').ok_or_else(wrong)?;
            let every = parse_span(every.trim(), "ms").map_err(|reason| format!("{}: {reason}", wrong()))?;
            let bytes = parse_bytes(bytes.trim()).map_err(|reason| format!("{}: {reason}", wrong()))?;
            if every.is_zero() || bytes == 0 {
                return Ok(SyncPolicy::EveryTransaction);
            }
            Ok(SyncPolicy::Interval { ms: u64::try_from(every.as_millis()).unwrap_or(u64::MAX), bytes })
        }
    }
}

/// The source shows it to everyone who runs SHOW REPLICAS; its packet has one length byte.
fn checked_report_host(value: &str) -> Result<String, String> {
    if value.is_empty() || value.len() > 255 || value.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("needs a host name of at most 255 bytes".to_owned());
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use store::CheckImages;

    use super::*;
    use crate::option_file::edit_distance;

    fn from_text(text: &str) -> Result<Settings, Failure> {
        let lines = option_file::parse(text, "t.cnf", SECTION).unwrap();
        let mut settings = Settings::default();
        settings.set_all(&lines)?;
        Ok(settings)
    }

    #[test]
    fn defaults_are_the_issues() {
        let config = from_text("[slipstream]\nsource=mysql://r@h:3307\ndata=/d\n").unwrap().replica().unwrap();
        assert_eq!(config.relay_sync, SyncPolicy::Interval { ms: 10, bytes: 16 << 20 });
        assert_eq!(relay_sync_text(config.relay_sync), "10,16777216");
        assert_eq!(config.max_relay_log_size, 1 << 30);
        assert_eq!(config.pipeline.check_images, CheckImages::Sample);
        assert_eq!((config.on_drift, config.on_stop), (OnDrift::Copy, OnStop::Stay));
        assert_eq!(config.on_damage, OnDamage::Copy);
        assert_eq!(config.heartbeat, Duration::from_secs(1));
        assert_eq!(config.source.shown(), "mysql://r@h:3307");
        assert_eq!(config.data, PathBuf::from("/d"));
        assert!(!config.semi_sync && config.server_id.is_none());
    }

    #[test]
    fn a_zero_that_help_gives_a_meaning_is_taken() {
        let mut found = 0;
        for option in OPTIONS {
            let default = match option.default {
                options::Default::Is(text) | options::Default::Said(text) => text,
                options::Default::None => "",
            };
            if format!("{} {default}", option.help).contains("0 = ") {
                option
                    .set(&mut Settings::default(), Some("0"))
                    .unwrap_or_else(|reason| panic!("{}: {reason}", option.name));
                found += 1;
            }
        }
        assert!(found >= 10, "{found} options");
    }

    #[test]
    fn every_option_of_the_table_can_be_set() {
        for option in OPTIONS {
            let value = match option.name {
                "source" => "file:/x",
                "ssl-mode" => "required",
                "prefer" => "lowest-lag",
                "forward" => "reads",
                "member-address" => "3e11fa47-71ca-11e1-9e33-c80aa9429562=h:7",
                "relay-sync" => "5ms,1M",
                "check-images" => "all",
                "on-drift" | "on-damage" => "stop",
                "show" => "acknowledged",
                "on-stop" => "exit",
                "serve" => "at-once",
                "log-format" => "json",
                "start" => "oldest",
                "definitions-from" => "mysql://h",
                "dependency-tracking" => "commit-order",
                "serve-space-limit"
                | "max-binlog-size"
                | "max-relay-log-size"
                | "queue-memory"
                | "relay-log-space-limit"
                | "disk-reserve" => "64M",
                "memory" | "snapshot-memory" | "max-allowed-packet" | "connection-memory-limit" => "256M",
                "bind-address" => "::1",
                "http" | "gtid-port" => "[::1]:9104",
                "server-version" => "8.4.0",
                "set" => "time_zone=+02:00",
                "copy-rate" => "10M",
                "copy-lock" => "none",
                "copy" => "always",
                "thread-affinity" => "apply=0",
                "skip-gtids" => "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5",
                "replicate-rewrite-db" => "a->b",
                name if name.starts_with("replicate-") && name.ends_with("table") => "d.t",
                _ if option.is_switch() => "ON",
                _ => "2",
            };
            for key in option.aliases.iter().chain(option.file_names).chain([&option.name]) {
                Settings::default().set(key, Some(value)).unwrap_or_else(|reason| panic!("{key}: {reason}"));
            }
        }
    }

    #[test]
    fn mysqls_names_and_spellings() {
        let settings = from_text(
            "[slipstream]\nsource_host=db1\nsource_user=repl\nslave_net_timeout=30\nskip-semi-sync\n\
             replica_pending_jobs_size_max=128M\nrelay-sync = Every_Transaction\nlog_error=stderr\nloose-nonsense=1\n\
             datadir=/d\nrpl_semi_sync_replica_enabled=1\n",
        );
        let config = settings.unwrap().replica().unwrap();
        assert_eq!(config.source.shown(), "mysql://repl@db1:3306");
        assert_eq!(config.read_timeout, Duration::from_secs(30));
        assert_eq!(config.pipeline.queue_memory, 128 << 20);
        assert_eq!(config.relay_sync, SyncPolicy::EveryTransaction);
        assert!(config.semi_sync);
    }

    #[test]
    fn unknown_keys_are_errors_with_a_suggestion() {
        let reason = |text: &str| from_text(text).unwrap_err();
        let failure = reason("[slipstream]\nrelay_snyc=never\n");
        assert_eq!(failure.exit, replica::Exit::Usage);
        assert_eq!(failure.text, "t.cnf:2: unknown option 'relay-snyc'; did you mean 'relay-sync'?");
        assert!(reason("[slipstream]\nserverid=1").text.ends_with("did you mean 'server-id'?"));
        assert!(reason("[slipstream]\nreplica_parallel_worker=1").text.ends_with("'replica-parallel-workers'?"));
        assert!(reason("[slipstream]\ninnodb_buffer_pool_size=1G").text.contains("--help lists them"));
    }

    #[test]
    fn wrong_values_name_place_and_reason() {
        for (line, wanted) in [
            ("server_id=0", "t.cnf:2: server-id: '0' is not a number from 1 to 4294967295"),
            ("port=99999", "t.cnf:2: port: "),
            ("source-port=0", "t.cnf:2: source-port: "),
            ("bind-address=localhost", "t.cnf:2: bind-address: 'localhost' is not an IP address"),
            ("server-version=new", "t.cnf:2: server-version: 'new' is not a version"),
            ("data", "t.cnf:2: data: needs a value"),
            ("semi_sync=perhaps", "t.cnf:2: semi-sync: 'perhaps' is not ON or OFF"),
            ("relay_sync=10", "t.cnf:2: relay-sync: '10' is not one of"),
            ("queue-memory=1K", "t.cnf:2: queue-memory: '1K' is not from 32M to 1024T"),
            ("max-relay-log-size=1", "t.cnf:2: max-relay-log-size: '1' is not from 4K to 1G"),
            (
                "memory=64M",
                "t.cnf:2: memory: '64M' is not from 128M to 1024T: queues, changed rows and their cuts need",
            ),
            ("source=mysqlx://u:secret@h", "t.cnf:2: source: 'mysqlx://u:***@h' is neither"),
            ("replica-net-timeout=0", "t.cnf:2: replica-net-timeout: must be above 0"),
            (
                "thread_affinity=apply=9999",
                "t.cnf:2: thread-affinity: CPU 9999 of apply does not exist or is not allowed",
            ),
        ] {
            let failure = from_text(&format!("[slipstream]\n{line}\n")).unwrap_err();
            assert!(failure.text.starts_with(wanted), "{}", failure.text);
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let base = "[slipstream]\nsource=mysql://r@h\ndata=/d\n";
        for extra in ["semi-sync\nrelay-sync=never\n", "heartbeat=60\n", "heartbeat=5\nreplica-net-timeout=5\n"] {
            assert!(from_text(&format!("{base}{extra}")).unwrap().replica().is_err(), "{extra}");
        }
        assert!(from_text("[slipstream]\ndata=/d\n").unwrap().replica().unwrap_err().text.contains("--source"));
        assert!(from_text("[slipstream]\nsource=file:/x\n").unwrap().replica().unwrap_err().text.contains("--data"));
    }

    #[test]
    fn flags_override_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.cnf");
        std::fs::write(&path, "[slipstream]\nserver_id=1\ndata=/from-file\nsource=mysql://r:pw@h/?x=1\n").unwrap();
        let files = OptionFiles { only: Some(path), ..OptionFiles::default() };
        let settings = Settings::load(&files, &[("data", Some("/from-flag".to_owned()))]).unwrap();
        let config = settings.replica().unwrap();
        assert_eq!((config.data, config.server_id), (PathBuf::from("/from-flag"), Some(1)));
        assert!(!format!("{:?}", config.source).contains("pw"), "a password is never printed");
        let none = OptionFiles { only: Some(dir.path().join("none.cnf")), ..OptionFiles::default() };
        assert!(Settings::load(&none, &[]).is_err());
        let wrong = Settings::load(
            &OptionFiles { none: true, ..OptionFiles::default() },
            &[("decoders", Some("x".to_owned()))],
        );
        assert!(wrong.unwrap_err().text.starts_with("--decoders: 'x' is not a number"));
    }

    #[test]
    fn connections_get_url_options_and_password_together() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.cnf");
        let text =
            "[client]\npassword=clients\n[slipstream]\nsource=mysql://r@h:3307/?ssl-mode=DISABLED\nssl_mode=REQUIRED\n";
        std::fs::write(&path, text).unwrap();
        let files = OptionFiles { only: Some(path), ..OptionFiles::default() };
        let settings = Settings::load(&files, &[("connect-timeout", Some("3s".to_owned()))]).unwrap();
        let Some(SourceSpec::Server(server)) = settings.source() else { panic!("not a server") };
        let options = server.connect_options().unwrap();
        assert_eq!((options.host.as_str(), options.port, options.user.as_str()), ("h", 3307, "r"));
        assert_eq!(options.password.as_deref(), Some("clients"));
        assert_eq!(options.ssl_mode, client::SslMode::Required);
        assert_eq!(options.connect_timeout, Duration::from_secs(3));
        let own = settings.server("mysql://r:own@h").connect_options().unwrap();
        assert_eq!(own.password.as_deref(), Some("own"));
        assert_eq!(ServerOptions::from_url("mysql://h:x").connect_options().unwrap_err().exit, replica::Exit::Usage);
    }

    #[test]
    fn what_is_forwarded_goes_to_a_primary() {
        let with = |options: &[(&str, &str)]| {
            let mut settings = Settings { data: Some(PathBuf::from("/d")), ..Settings::default() };
            options.iter().for_each(|(name, value)| settings.set(name, Some(value)).unwrap());
            settings
        };
        let prefers = |options: &[(&str, &str)]| with(options).server("mysql://h").prefer;
        assert_eq!(prefers(&[("forward", "all")]), Some(Prefer::Primary));
        assert_eq!((prefers(&[("forward", "reads")]), prefers(&[])), (None, None));
        assert_eq!(prefers(&[("forward", "reads"), ("prefer", "secondary")]), Some(Prefer::Secondary));
        for options in [
            &[("forward", "all"), ("prefer", "secondary"), ("source", "mysql://u@h")][..],
            &[("forward", "all"), ("prefer", "lowest-lag"), ("source", "mysql://u@h")],
            &[("forward", "reads"), ("source", "file:/x")],
        ] {
            let failure = with(options).replica().unwrap_err();
            assert_eq!(failure.exit, replica::Exit::Usage, "{options:?}");
            assert!(failure.text.starts_with("forward"), "{}", failure.text);
        }
        assert!(with(&[("forward", "all"), ("prefer", "primary"), ("source", "mysql://u@h")]).replica().is_ok());
    }

    #[test]
    fn the_client_section_fills_gaps_and_names_no_source() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.cnf");
        let text =
            "[client]\nhost=elsewhere\nport=1\nuser=c\npassword=p\nssl-mode=REQUIRED\nssl_ca=/ca\nno-such-thing\n";
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let load = || {
            let files = OptionFiles { only: Some(path.clone()), ..OptionFiles::default() };
            Settings::load(&files, &[]).unwrap()
        };
        let settings = load();
        assert_eq!(settings.source(), None, "the clients' server is not the source");
        assert!(settings.warnings().is_empty());
        let options = settings.server("mysql://h:7").connect_options().unwrap();
        assert_eq!((options.host.as_str(), options.port, options.user.as_str()), ("h", 7, "c"));
        assert_eq!((options.password.as_deref(), options.ssl_mode), (Some("p"), client::SslMode::Required));
        assert_eq!(options.ssl_ca, Some(PathBuf::from("/ca")));
        let options = settings.server("mysql://u@h/?ssl-mode=DISABLED").connect_options().unwrap();
        assert_eq!((options.user.as_str(), options.ssl_mode), ("u", client::SslMode::Disabled));
        // A password is for its owner.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let warnings = load().warnings().to_vec();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("every user can read it: chmod o-r"), "{warnings:?}");
        std::fs::write(&path, "[slipstream]\nsource=mysql://u:secret@h\n").unwrap();
        assert_eq!(load().warnings().len(), 1);
        std::fs::write(&path, "[slipstream]\nsource=mysql://u@h\n[client]\nuser=x\n").unwrap();
        assert!(load().warnings().is_empty());
    }

    #[test]
    fn files_as_source() {
        let spec = |value: &str| from_text(&format!("[slipstream]\nsource={value}\n")).unwrap().source().unwrap();
        assert_eq!(spec("file:binlog.index"), SourceSpec::Files(PathBuf::from("binlog.index")));
        assert_eq!(spec("file:///var/b.000001"), SourceSpec::Files(PathBuf::from("/var/b.000001")));
    }

    #[test]
    fn distances() {
        for (a, b, distance) in [("", "abc", 3), ("abc", "abc", 0), ("acb", "abc", 1), ("kitten", "sitting", 3)] {
            assert_eq!(edit_distance(a, b), distance);
        }
    }
}
