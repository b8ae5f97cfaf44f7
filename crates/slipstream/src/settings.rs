//! The program's options: option files first, flags over them, then typed and checked as a whole.
//!
//! In: settings as text, each with its place. Out: `Settings`, and from them `ReplicaConfig`. Never here: a default
//! that depends on the machine (those are 0 = automatic, decided where the thing is built), a password in an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::filters::{FILTER_OPTIONS, ReplicationFilters};
use base::{GtidSet, ThreadAffinity};
use relay_log::SyncPolicy;
use replica::{
    Failure,
    access::Access,
    config::{
        CopyConfig, PipelineConfig, ReplicaConfig, Secret, ServerOptions, SourceSpec, mask_passwords, url_has_password,
    },
};
use source::SslMode;
use store::CheckImages;

use crate::option_file::{self, OptionFileError, Setting, edit_distance};
use crate::units::{parse_bytes, parse_number, parse_span, parse_switch};

/// Section of the option files that is ours.
pub const SECTION: &str = "slipstream";

/// Less than this leaves no room for the queues and a generation.
const MEMORY_MIN: u64 = 128 << 20;

/// Every option but the replication filters: its name, other names it answers to (MySQL's, mostly), whether it is a
/// switch.
const OPTIONS: &[(&str, &[&str], bool)] = &[
    ("source", &[], false),
    ("host", &["source-host"], false),
    ("port", &["source-port"], false),
    ("user", &["source-user"], false),
    ("password", &["source-password"], false),
    ("socket", &[], false),
    ("ssl-mode", &["source-ssl-mode"], false),
    ("ssl-ca", &["source-ssl-ca"], false),
    ("ssl-cert", &["source-ssl-cert"], false),
    ("ssl-key", &["source-ssl-key"], false),
    ("server-public-key-path", &["source-public-key-path"], false),
    ("get-server-public-key", &["get-source-public-key"], true),
    ("connect-timeout", &[], false),
    ("data", &["datadir"], false),
    ("group-access", &[], true),
    ("server-id", &[], false),
    ("report-host", &[], false),
    ("report-port", &[], false),
    ("relay-sync", &[], false),
    ("max-relay-log-size", &[], false),
    ("relay-log-space-limit", &[], false),
    ("binlog-expire-logs-seconds", &[], false),
    ("copy-connections", &[], false),
    ("copy-lock", &[], false),
    ("copy-rate", &[], false),
    ("lock-wait", &[], false),
    ("snapshot-max", &[], false),
    ("memory", &[], false),
    ("cut-interval", &[], false),
    ("snapshot-memory", &[], false),
    ("snapshot-age", &[], false),
    ("source-heartbeat-period", &["heartbeat"], false),
    ("replica-net-timeout", &["slave-net-timeout", "read-timeout"], false),
    ("source-connect-retry", &["connect-retry"], false),
    ("source-retry-count", &[], false),
    ("skip-gtids", &[], false),
    ("semi-sync", &["rpl-semi-sync-replica-enabled"], true),
    ("check-images", &[], false),
    ("replica-parallel-workers", &["workers", "slave-parallel-workers"], false),
    ("decoders", &[], false),
    ("thread-affinity", &["cpu-affinity"], false),
    ("queue-memory", &["replica-pending-jobs-size-max", "slave-pending-jobs-size-max"], false),
    ("log-error", &["log-file"], false),
    ("log-format", &[], false),
    ("log-error-verbosity", &[], false),
];

/// Form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// mysqld's line format.
    #[default]
    Text,
    /// mysqld's JSON sink: one object a line.
    Json,
}

/// Where and how log lines are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// File to append to; none = stderr.
    pub file: Option<PathBuf>,
    /// Form of the lines.
    pub format: LogFormat,
    /// 1 errors, 2 and warnings, 3 and notes.
    pub verbosity: u8,
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig { file: None, format: LogFormat::Text, verbosity: 3 }
    }
}

/// All options as read so far; any may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    source: Option<Secret>,
    server: ServerOptions,
    data: Option<PathBuf>,
    group_access: bool,
    server_id: Option<u32>,
    report_host: Option<String>,
    report_port: Option<u16>,
    relay_sync: Option<SyncPolicy>,
    max_relay_log_size: Option<u64>,
    relay_log_space_limit: Option<u64>,
    relay_log_expire: Option<Duration>,
    copy: CopyConfig,
    memory: Option<u64>,
    cut_interval: Option<Duration>,
    snapshot_memory: Option<u64>,
    snapshot_age: Option<Duration>,
    heartbeat: Option<Duration>,
    read_timeout: Option<Duration>,
    connect_retry: Option<Duration>,
    retry_count: Option<u64>,
    semi_sync: Option<bool>,
    filters: ReplicationFilters,
    skip: GtidSet,
    pipeline: PipelineConfig,
    log: LogConfig,
    /// Password of the `[client]` section, as mysql's clients read it; used when ours names none.
    client_password: Option<Secret>,
}

/// Which option files are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionFiles {
    /// Only this one.
    pub only: Option<PathBuf>,
    /// This one after the default ones.
    pub extra: Option<PathBuf>,
    /// None at all.
    pub none: bool,
}

impl Settings {
    /// Reads the option files, then takes the flags (`name`, value) over them.
    ///
    /// # Errors
    /// Code 2 with place and reason. Default files that are world-writable are passed over with a warning on stderr, as
    /// MySQL's programs do; one named by the operator is refused.
    pub fn load(files: &OptionFiles, flags: &[(&'static str, Option<String>)]) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        let mut named: Vec<&Path> = Vec::new();
        settings.client_password = client_password(files);
        if let Some(only) = &files.only {
            named.push(only);
        } else if !files.none {
            for path in option_file::default_files() {
                match option_file::read(&path, SECTION) {
                    Ok(lines) => settings.set_all(&lines)?,
                    Err(OptionFileError::Read { .. }) => {}
                    Err(error @ OptionFileError::WorldWritable { .. }) => eprintln!("Warning: {error}; it is ignored"),
                    Err(error) => return Err(Failure::usage(error.to_string())),
                }
            }
            named.extend(files.extra.as_deref());
        }
        for path in named {
            let lines = option_file::read(path, SECTION).map_err(|error| Failure::usage(error.to_string()))?;
            settings.set_all(&lines)?;
        }
        for (name, value) in flags {
            let failed = |reason| Failure::usage(format!("--{}: {reason}", option_file::dashes(name)));
            settings.set(name, value.as_deref()).map_err(failed)?;
        }
        Ok(settings)
    }

    fn set_all(&mut self, lines: &[Setting]) -> Result<(), Failure> {
        for line in lines {
            let (key, value) = resolve_prefix(&line.key, line.value.as_deref());
            if canonical(key).is_none() {
                if line.loose {
                    continue;
                }
                return Err(Failure::usage(format!("{}: {}", line.place, unknown_option(key))));
            }
            self.set(key, value).map_err(|reason| Failure::usage(format!("{}: {key}: {reason}", line.place)))?;
        }
        Ok(())
    }

    /// One option. The reason of an error never holds the value of a secret.
    fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), String> {
        let key = &option_file::dashes(key);
        let Some((name, is_switch)) = canonical(key) else { return Err(unknown_option(key)) };
        if is_switch {
            let on = parse_switch(value)?;
            match name {
                "get-server-public-key" => self.server.get_server_public_key = Some(on),
                "group-access" => self.group_access = on,
                _ => self.semi_sync = Some(on),
            }
            return Ok(());
        }
        let value = value.ok_or("needs a value")?;
        let path = || if value.is_empty() { Err("needs a path") } else { Ok(PathBuf::from(value)) };
        match name {
            "source" => self.source = Some(checked_source(value)?),
            "host" => self.server.host = Some(value.to_owned()),
            "port" => self.server.port = Some(parse_number(value, 1, 65_535)? as u16),
            "user" => self.server.user = Some(value.to_owned()),
            "password" => self.server.password = Some(Secret(value.to_owned())),
            "socket" => self.server.socket = Some(path()?),
            "ssl-mode" => self.server.ssl_mode = Some(parse_ssl_mode(value)?),
            "ssl-ca" => self.server.ssl_ca = Some(path()?),
            "ssl-cert" => self.server.ssl_cert = Some(path()?),
            "ssl-key" => self.server.ssl_key = Some(path()?),
            "server-public-key-path" => self.server.server_public_key_path = Some(path()?),
            "connect-timeout" => self.server.connect_timeout = Some(positive_span(value, "s")?),
            "data" => self.data = Some(path()?),
            "server-id" => self.server_id = Some(parse_number(value, 1, u64::from(u32::MAX))? as u32),
            "report-host" => self.report_host = Some(checked_report_host(value)?),
            "report-port" => self.report_port = Some(parse_number(value, 0, 65_535)? as u16),
            "relay-sync" => self.relay_sync = Some(parse_relay_sync(value)?),
            "max-relay-log-size" => self.max_relay_log_size = Some(bytes_within(value, 4096, 1 << 30)?),
            "relay-log-space-limit" => self.relay_log_space_limit = Some(space_limit(value)?),
            "binlog-expire-logs-seconds" => self.relay_log_expire = Some(parse_span(value, "s")?),
            "copy-connections" => self.copy.connections = parse_number(value, 1, 64)? as usize,
            "copy-lock" => self.copy.lock = parse_copy_lock(value)?,
            "copy-rate" => self.copy.rate = Some(bytes_within(value, 1 << 10, 1 << 50)?),
            "lock-wait" => self.copy.lock_wait = positive_span(value, "s")?,
            "snapshot-max" => self.copy.snapshot_max = positive_span(value, "s")?,
            "memory" => self.memory = Some(bytes_within(value, MEMORY_MIN, 1 << 50)?),
            "cut-interval" => self.cut_interval = Some(positive_span(value, "s")?),
            "snapshot-memory" => self.snapshot_memory = Some(space_limit(value)?),
            "snapshot-age" => self.snapshot_age = Some(positive_span(value, "s")?),
            "source-heartbeat-period" => self.heartbeat = Some(positive_span(value, "s")?),
            "replica-net-timeout" => self.read_timeout = Some(positive_span(value, "s")?),
            "source-connect-retry" => self.connect_retry = Some(positive_span(value, "s")?),
            "source-retry-count" => self.retry_count = Some(parse_number(value, 0, u64::MAX)?),
            "skip-gtids" => self.skip.union_with(&replica::skip::parse(value).map_err(|failure| failure.text)?),
            "check-images" => self.pipeline.check_images = parse_check_images(value)?,
            "replica-parallel-workers" => self.pipeline.workers = parse_number(value, 0, 1024)? as usize,
            "decoders" => self.pipeline.decoders = parse_number(value, 0, 1024)? as usize,
            "thread-affinity" => self.pipeline.affinity = ThreadAffinity::parse(value).map_err(|e| e.to_string())?,
            "queue-memory" => self.pipeline.queue_memory = bytes_within(value, 32 << 20, 1 << 50)?,
            // Each rule adds to those before, from whichever place.
            rule if FILTER_OPTIONS.contains(&rule) => self.filters.add(rule, value)?,
            "log-error" => self.log.file = if value == "stderr" { None } else { Some(path()?) },
            "log-format" => self.log.format = parse_log_format(value)?,
            "log-error-verbosity" => self.log.verbosity = parse_number(value, 1, 3)? as u8,
            other => return Err(format!("option {other} is known but not handled")),
        }
        Ok(())
    }

    /// The data folder.
    ///
    /// # Errors
    /// Code 2 if none is named.
    pub fn data(&self) -> Result<PathBuf, Failure> {
        self.data.clone().ok_or_else(|| Failure::usage("name the data folder: --data DIR"))
    }

    /// Whether a data folder is named.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.data.is_some()
    }

    /// Who may read the data folder.
    #[must_use]
    pub fn access(&self) -> Access {
        if self.group_access { Access::Group } else { Access::Owner }
    }

    /// Log lines.
    #[must_use]
    pub fn log(&self) -> &LogConfig {
        &self.log
    }

    /// Threads and memory.
    #[must_use]
    pub fn pipeline(&self) -> PipelineConfig {
        self.pipeline.clone()
    }

    /// When the relay log is synced.
    #[must_use]
    pub fn relay_sync(&self) -> SyncPolicy {
        self.relay_sync.unwrap_or_default()
    }

    /// Where the log comes from, if it is named: by `source`, or by `host` or `socket` as mysql's clients have them.
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

    /// A server by URL, with the login and TLS options of these settings. A password that neither URL nor option names
    /// comes from the `[client]` section, then from the environment's MYSQL_PWD.
    #[must_use]
    pub fn server(&self, url: &str) -> ServerOptions {
        let mut server = self.server.clone();
        server.url = Secret(url.to_owned());
        if server.password.is_none() && !url_has_password(url) {
            let environment = || std::env::var("MYSQL_PWD").ok().map(Secret);
            server.password = self.client_password.clone().or_else(environment);
        }
        server
    }

    /// The password asked at the terminal.
    pub fn set_password(&mut self, password: Secret) {
        self.server.password = Some(password);
    }

    /// The data folder, for commands that run without one (`check`).
    #[must_use]
    pub fn with_data(mut self, data: PathBuf) -> Settings {
        self.data = Some(data);
        self
    }

    /// Complete and checked as a whole.
    ///
    /// # Errors
    /// Code 2 if source or data folder are missing, or if two options contradict.
    pub fn replica(&self) -> Result<ReplicaConfig, Failure> {
        let source = self
            .source()
            .ok_or_else(|| Failure::usage("name the source: --source mysql://USER@HOST:PORT, or --source file:PATH"))?;
        let relay_sync = self.relay_sync();
        let semi_sync = self.semi_sync.unwrap_or(false);
        if semi_sync && relay_sync == SyncPolicy::Never {
            return Err(Failure::usage("semi-sync acknowledges what is on disk: it cannot go with relay-sync=never"));
        }
        let read_timeout = self.read_timeout.unwrap_or(Duration::from_secs(60));
        let heartbeat = self.heartbeat.unwrap_or(Duration::from_secs(1).min(read_timeout / 2));
        if heartbeat >= read_timeout {
            return Err(Failure::usage(
                "source-heartbeat-period must be shorter than replica-net-timeout, else an idle source counts as dead",
            ));
        }
        Ok(ReplicaConfig {
            source,
            data: self.data()?,
            access: self.access(),
            server_id: self.server_id,
            report_host: self.report_host.clone(),
            report_port: self.report_port.unwrap_or(0),
            relay_sync,
            max_relay_log_size: self.max_relay_log_size.unwrap_or(1 << 30),
            relay_log_space_limit: self.relay_log_space_limit.unwrap_or(0),
            relay_log_expire: self.relay_log_expire.unwrap_or(Duration::ZERO),
            copy: self.copy,
            memory: self.memory.unwrap_or(0),
            cut_interval: self.cut_interval.unwrap_or(Duration::from_secs(60)),
            snapshot_memory: self.snapshot_memory.unwrap_or(0),
            snapshot_age: self.snapshot_age,
            heartbeat,
            read_timeout,
            connect_retry: self.connect_retry.unwrap_or(Duration::from_secs(10)),
            retry_count: self.retry_count.unwrap_or(0),
            semi_sync,
            filters: Arc::new(self.filters.clone()),
            skip: self.skip.clone(),
            pipeline: self.pipeline.clone(),
        })
    }
}

fn client_password(files: &OptionFiles) -> Option<Secret> {
    let paths = match (&files.only, files.none) {
        (Some(only), _) => vec![only.clone()],
        (None, true) => Vec::new(),
        (None, false) => option_file::default_files().into_iter().chain(files.extra.clone()).collect(),
    };
    // Wrong lines in a section of others are not ours to complain about.
    let lines = paths.iter().flat_map(|path| option_file::read(path, "client").unwrap_or_default());
    lines.filter(|line| line.key == "password").filter_map(|line| line.value.map(Secret)).next_back()
}

/// Name of an option by any of its names, and whether it is a switch.
fn canonical(key: &str) -> Option<(&'static str, bool)> {
    let is_it = |(name, others, _): &&(&'static str, &[&str], bool)| *name == key || others.contains(&key);
    let filter = FILTER_OPTIONS.iter().find(|name| **name == key).map(|name| (*name, false));
    OPTIONS.iter().find(is_it).map(|(name, _, is_switch)| (*name, *is_switch)).or(filter)
}

/// MySQL's `skip-`, `disable-` and `enable-` before a switch.
fn resolve_prefix<'a>(key: &'a str, value: Option<&'a str>) -> (&'a str, Option<&'a str>) {
    for (prefix, meaning) in [("skip-", "OFF"), ("disable-", "OFF"), ("enable-", "ON")] {
        if let Some(rest) = key.strip_prefix(prefix)
            && value.is_none()
            && canonical(rest).is_some_and(|(_, is_switch)| is_switch)
        {
            return (rest, Some(meaning));
        }
    }
    (key, value)
}

fn unknown_option(key: &str) -> String {
    let names = OPTIONS.iter().flat_map(|(name, others, _)| std::iter::once(name).chain(others.iter()));
    let names = names.chain(&FILTER_OPTIONS).copied();
    let nearest = names.map(|name| (edit_distance(key, name), name)).min();
    match nearest {
        Some((distance, name)) if distance <= key.chars().count().max(3) / 3 => {
            format!("unknown option '{key}'; did you mean '{name}'?")
        }
        _ => format!("unknown option '{key}'; slipstream replica --help lists them"),
    }
}

fn checked_source(value: &str) -> Result<Secret, String> {
    let file = value.strip_prefix("file:").is_some_and(|path| !path.is_empty());
    let server = value.strip_prefix("mysql://").is_some_and(|rest| !rest.is_empty());
    if file || server {
        Ok(Secret(value.to_owned()))
    } else {
        Err(format!("'{}' is neither mysql://USER@HOST:PORT nor file:PATH", mask_passwords(value)))
    }
}

/// The source prints it to whoever asks SHOW REPLICAS; its packet has one length byte.
fn checked_report_host(value: &str) -> Result<String, String> {
    if value.is_empty() || value.len() > 255 || value.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("needs a host name of at most 255 bytes".to_owned());
    }
    Ok(value.to_owned())
}

fn parse_ssl_mode(value: &str) -> Result<SslMode, String> {
    match value.to_ascii_uppercase().replace('-', "_").as_str() {
        "DISABLED" => Ok(SslMode::Disabled),
        "PREFERRED" => Ok(SslMode::Preferred),
        "REQUIRED" => Ok(SslMode::Required),
        "VERIFY_CA" => Ok(SslMode::VerifyCa),
        "VERIFY_IDENTITY" => Ok(SslMode::VerifyIdentity),
        _ => Err(format!("'{value}' is none of DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY")),
    }
}

fn parse_relay_sync(value: &str) -> Result<SyncPolicy, String> {
    let wrong = || format!("'{value}' is none of every-transaction, MS,BYTES (10,16M), never");
    match crate::option_file::dashes(&value.to_ascii_lowercase()).as_str() {
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

/// As the option is spelled.
#[must_use]
pub fn relay_sync_text(policy: SyncPolicy) -> String {
    match policy {
        SyncPolicy::EveryTransaction => "every-transaction".to_owned(),
        SyncPolicy::Never => "never".to_owned(),
        SyncPolicy::Interval { ms, bytes } => format!("{ms},{bytes}"),
    }
}

fn parse_check_images(value: &str) -> Result<CheckImages, String> {
    match value.to_ascii_lowercase().as_str() {
        "off" => Ok(CheckImages::Off),
        "sample" => Ok(CheckImages::Sample),
        "all" => Ok(CheckImages::All),
        _ => Err(format!("'{value}' is none of off, sample, all")),
    }
}

fn parse_copy_lock(value: &str) -> Result<copy::CopyLock, String> {
    match value.to_ascii_lowercase().as_str() {
        "auto" => Ok(copy::CopyLock::Auto),
        "none" => Ok(copy::CopyLock::None),
        _ => Err(format!("'{value}' is none of auto, none")),
    }
}

fn parse_log_format(value: &str) -> Result<LogFormat, String> {
    match value.to_ascii_lowercase().as_str() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("'{value}' is neither text nor json")),
    }
}

fn positive_span(value: &str, bare_unit: &str) -> Result<Duration, String> {
    let span = parse_span(value, bare_unit)?;
    if span.is_zero() { Err("must be above 0".to_owned()) } else { Ok(span) }
}

fn bytes_within(value: &str, least: u64, most: u64) -> Result<u64, String> {
    let bytes = parse_bytes(value)?;
    if (least..=most).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("'{value}' is not from {least} to {most} bytes"))
    }
}

/// 0 or at least a megabyte.
fn space_limit(value: &str) -> Result<u64, String> {
    if parse_bytes(value)? == 0 { Ok(0) } else { bytes_within(value, 1 << 20, 1 << 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(config.heartbeat, Duration::from_secs(1));
        assert_eq!(config.source.shown(), "mysql://r@h:3307");
        assert_eq!(config.data, PathBuf::from("/d"));
        assert!(!config.semi_sync && config.server_id.is_none());
    }

    #[test]
    fn every_option_of_the_table_can_be_set() {
        for (name, others, is_switch) in OPTIONS {
            let value = match *name {
                "source" => "file:/x",
                "ssl-mode" => "required",
                "relay-sync" => "5ms,1M",
                "check-images" => "all",
                "log-format" => "json",
                "max-relay-log-size" | "queue-memory" | "relay-log-space-limit" => "64M",
                "memory" | "snapshot-memory" => "256M",
                "copy-rate" => "10M",
                "copy-lock" => "none",
                "thread-affinity" => "apply=0",
                "skip-gtids" => "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5",
                "replicate-rewrite-db" => "a->b",
                _ if name.starts_with("replicate-") && name.ends_with("table") => "d.t",
                _ if *is_switch => "ON",
                _ => "2",
            };
            for key in others.iter().chain([name]) {
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
            ("data", "t.cnf:2: data: needs a value"),
            ("semi_sync=perhaps", "t.cnf:2: semi-sync: 'perhaps' is not ON or OFF"),
            ("relay_sync=10", "t.cnf:2: relay-sync: '10' is none of"),
            ("queue-memory=1K", "t.cnf:2: queue-memory: '1K' is not from"),
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
        assert_eq!(options.ssl_mode, source::SslMode::Required);
        assert_eq!(options.connect_timeout, Duration::from_secs(3));
        let own = settings.server("mysql://r:own@h").connect_options().unwrap();
        assert_eq!(own.password.as_deref(), Some("own"));
        assert_eq!(ServerOptions::from_url("mysql://h:x").connect_options().unwrap_err().exit, replica::Exit::Usage);
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
