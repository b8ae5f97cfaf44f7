//! Table of all options: names, type, default, help, and the setting that each one changes.
//!
//! In: a name and a text, from a flag or from an option file. Out: a change of [`Settings`], or an error about the
//! text. The command line is built from the same table, so that flags and files agree in spelling, units and errors.

use std::path::PathBuf;
use std::time::Duration;

use base::ThreadAffinity;
use base::units::{parse_bytes, parse_number, parse_span, parse_switch};
use clap::{Arg, ArgAction, ArgMatches};
use replica::access::Access;
use replica::config::{Prefer, Secret, parse_member_address};

use crate::option_file::edit_distance;
pub(crate) use crate::option_groups::{ALL, DATA, FILE_ONLY, FOLLOW, PIPELINE, RECEIVE, RELAY, SERVE, SOURCE};
use crate::option_values::{
    bytes_within, checked_log_file, checked_source, checked_version, not_an_address, one_of, parse_check_images,
    parse_copy, parse_copy_lock, parse_http, parse_on_damage, parse_on_drift, parse_on_stop, parse_serve, parse_set,
    parse_show, parse_ssl_mode, put,
};
use crate::relay::{checked_start, checked_url, parse_tracking};
use crate::settings::{LogFormat, Settings, parse_relay_sync};

/// Minimum memory: less leaves no room for the queues and a generation.
const MEMORY_MIN: u64 = 128 << 20;
/// Upper limit for sizes, above the memory of any machine.
const BYTES_MAX: u64 = 1 << 50;

/// An option, given by flag or option file.
pub(crate) struct OptionDef {
    /// Name, with dashes.
    pub name: &'static str,
    /// Other names of the flag, also accepted in option files.
    pub aliases: &'static [&'static str],
    /// Names accepted only in option files, mostly MySQL's.
    pub file_names: &'static [&'static str],
    /// Its letter, which is that of mysql's clients.
    pub short: Option<char>,
    /// Group of the option, which decides the commands that have it.
    pub group: u8,
    /// Its heading in `--help`.
    pub heading: &'static str,
    /// Placeholder of its value in `--help`.
    pub value: &'static str,
    /// Type of its value, and the setting that it changes.
    pub kind: Kind,
    /// Default of the option.
    pub default: Default,
    /// Help text; `--help` appends the default and MySQL's name.
    pub help: &'static str,
    /// MySQL's name, if it differs and is worth mentioning.
    pub mysql: &'static str,
}

/// Type and bounds of an option's value, and the setting that it changes.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// ON or OFF; ON without a value.
    Switch(fn(&mut Settings, bool)),
    /// An integer between both bounds.
    Number(u64, u64, fn(&mut Settings, u64)),
    /// Bytes between both bounds.
    Bytes(u64, u64, fn(&mut Settings, u64)),
    /// Bytes: 0, or at least one megabyte.
    BytesOrNone(fn(&mut Settings, u64)),
    /// A duration above 0; seconds if no unit is given.
    Span(fn(&mut Settings, Duration)),
    /// A duration or 0; seconds if no unit is given.
    SpanOrNone(fn(&mut Settings, Duration)),
    /// A path.
    Path(fn(&mut Settings, PathBuf)),
    /// A text that is checked by the function.
    Text(fn(&mut Settings, &str) -> Result<(), String>),
    /// As `Text`, but may be given several times.
    List(fn(&mut Settings, &str) -> Result<(), String>),
}

/// Default of an option.
#[derive(Clone, Copy)]
pub(crate) enum Default {
    /// No default.
    None,
    /// A value, written as the option itself would be given.
    Is(&'static str),
    /// Described by a text, because it depends on the machine or on other options.
    Said(&'static str),
}

/// An option without aliases and default; the table adds those.
const fn option(group: u8, name: &'static str, value: &'static str, kind: Kind, help: &'static str) -> OptionDef {
    OptionDef {
        name,
        aliases: &[],
        file_names: &[],
        short: None,
        group,
        heading: "",
        value,
        kind,
        default: Default::None,
        help,
        mysql: "",
    }
}

impl OptionDef {
    const fn under(self, heading: &'static str) -> OptionDef {
        OptionDef { heading, ..self }
    }

    const fn also(self, aliases: &'static [&'static str]) -> OptionDef {
        OptionDef { aliases, ..self }
    }

    const fn in_files(self, file_names: &'static [&'static str]) -> OptionDef {
        OptionDef { file_names, ..self }
    }

    const fn short(self, letter: char) -> OptionDef {
        OptionDef { short: Some(letter), ..self }
    }

    const fn mysql(self, mysql: &'static str) -> OptionDef {
        OptionDef { mysql, ..self }
    }

    const fn default(self, text: &'static str) -> OptionDef {
        OptionDef { default: Default::Is(text), ..self }
    }

    const fn otherwise(self, text: &'static str) -> OptionDef {
        OptionDef { default: Default::Said(text), ..self }
    }

    /// True if it is ON or OFF.
    pub(crate) fn is_switch(&self) -> bool {
        matches!(self.kind, Kind::Switch(_))
    }

    /// All names of the option.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied()).chain(self.file_names.iter().copied())
    }

    /// Sets the option. The error never contains the value of a secret.
    pub(crate) fn set(&self, settings: &mut Settings, value: Option<&str>) -> Result<(), String> {
        if let Kind::Switch(set) = self.kind {
            set(settings, parse_switch(value)?);
            return Ok(());
        }
        let value = value.ok_or("needs a value")?;
        match self.kind {
            Kind::Switch(_) => {}
            Kind::Number(least, most, set) => set(settings, parse_number(value, least, most)?),
            Kind::Bytes(least, most, set) => {
                let why =
                    if self.name == "memory" { ": queues, changed rows and their cuts need that much" } else { "" };
                set(settings, bytes_within(value, least, most).map_err(|reason| reason + why)?);
            }
            Kind::BytesOrNone(set) if parse_bytes(value)? == 0 => set(settings, 0),
            Kind::BytesOrNone(set) => set(settings, bytes_within(value, 1 << 20, 1 << 60)?),
            Kind::Span(set) => match parse_span(value, "s")? {
                Duration::ZERO => return Err("must be above 0".to_owned()),
                span => set(settings, span),
            },
            Kind::SpanOrNone(set) => set(settings, parse_span(value, "s")?),
            Kind::Path(_) if value.is_empty() => return Err("needs a path".to_owned()),
            Kind::Path(set) => set(settings, PathBuf::from(value)),
            Kind::Text(set) | Kind::List(set) => set(settings, value)?,
        }
        Ok(())
    }

    /// The option as a clap flag.
    fn arg(&self) -> Arg {
        let mut help = self.help.to_owned();
        if let Default::Is(text) | Default::Said(text) = self.default {
            help.push_str(&format!(" [default: {text}]"));
        }
        if !self.mysql.is_empty() {
            help.push_str(&format!(" ({})", self.mysql));
        }
        let arg = Arg::new(self.name).long(self.name).visible_aliases(self.aliases.iter().copied());
        let arg = arg.value_name(self.value).help(help);
        let arg = if let Some(letter) = self.short { arg.short(letter) } else { arg };
        let arg = if self.heading.is_empty() { arg } else { arg.help_heading(self.heading) };
        match self.kind {
            Kind::Switch(_) => arg.num_args(0..=1).default_missing_value("ON").require_equals(true),
            Kind::List(_) => arg.action(ArgAction::Append),
            _ => arg,
        }
    }
}

/// Finds an option by any of its names.
pub(crate) fn find(name: &str) -> Option<&'static OptionDef> {
    OPTIONS.iter().find(|option| option.names().any(|own| own == name))
}

/// Error message for an unknown name.
pub(crate) fn unknown(name: &str) -> String {
    let names = OPTIONS.iter().flat_map(OptionDef::names);
    match names.map(|own| (edit_distance(name, own), own)).min() {
        Some((distance, near)) if distance <= name.chars().count().max(3) / 3 => {
            format!("unknown option '{name}'; did you mean '{near}'?")
        }
        _ => format!("unknown option '{name}'; slipstream replica --help lists them"),
    }
}

/// The options of some groups, as a command's flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags<const GROUPS: u8> {
    /// The given options: name and value.
    pub given: Vec<(&'static str, Option<String>)>,
}

impl<const GROUPS: u8> Flags<GROUPS> {
    /// The last value given for an option.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(own, _)| *own == name)?.1.as_deref()
    }
}

impl<const GROUPS: u8> clap::Args for Flags<GROUPS> {
    fn augment_args(command: clap::Command) -> clap::Command {
        // As in mysql's clients, -h is the host.
        let command = if GROUPS & SOURCE == 0 {
            command
        } else {
            let help = Arg::new("help").long("help").short('?').action(ArgAction::Help).help("Print help");
            // Global, because subcommands lose theirs too.
            command.disable_help_flag(true).arg(help.global(true))
        };
        command.args(OPTIONS.iter().filter(|option| option.group & GROUPS != 0).map(OptionDef::arg))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<const GROUPS: u8> clap::FromArgMatches for Flags<GROUPS> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for option in OPTIONS.iter().filter(|option| option.group & GROUPS != 0) {
            let values = matches.get_many::<String>(option.name).unwrap_or_default();
            given.extend(values.map(|value| (option.name, Some(value.clone()))));
        }
        Ok(Flags { given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

const SOURCE_PART: &str = "Source";
const PIPELINE_PART: &str = "Pipeline";
const REPLICATION_PART: &str = "Replication";
const COPY_PART: &str = "Initial copy";
const STORE_PART: &str = "Store";
const LOG_PART: &str = "Log";
const FILTER_PART: &str = "Replication filters";
const CLIENT_PART: &str = "Clients";
const WATCH_PART: &str = "Watching";
const SERVED_PART: &str = "Served log";

/// All options, in the order of `--help`.
pub(crate) static OPTIONS: &[OptionDef] = &[
    option(
        DATA,
        "data",
        "DIR",
        Kind::Path(|s, path| s.data = Some(path)),
        "Data folder of the replica (MySQL: datadir)",
    )
    .also(&["datadir"]),
    option(
        SOURCE,
        "source",
        "URL",
        Kind::Text(|s, text| put(&mut s.source, checked_source(text))),
        "mysql://USER@HOST:PORT[,HOST:PORT]…[?group], of which one is followed (with group: or another member of its \
         group), or file:PATH of a binlog or of an index that lists several",
    )
    .under(SOURCE_PART),
    option(
        SOURCE,
        "prefer",
        "WHICH",
        Kind::Text(|s, text| put(&mut s.server.prefer, one_of(text, &Prefer::ALL))),
        "Member of a group to follow first: primary, secondary or lowest-lag; with primary, any other is left for it",
    )
    .under(SOURCE_PART),
    option(
        SOURCE,
        "max-source-lag",
        "N",
        Kind::Number(1, u64::MAX, |s, n| s.server.max_source_lag = Some(n)),
        "Leave one of several sources once it lacks more transactions of the others than this for 10 s",
    )
    .under(SOURCE_PART),
    option(
        SOURCE,
        "member-address",
        "UUID=HOST:PORT",
        Kind::List(|s, text| parse_member_address(text).map(|member| s.server.member_addresses.push(member))),
        "Address at which a member of a group is dialled, instead of its report_host and report_port",
    )
    .under(SOURCE_PART),
    option(
        SOURCE,
        "host",
        "HOST",
        Kind::Text(|s, text| put(&mut s.server.host, Ok(text.to_owned()))),
        "Host of the source, if the URL names none",
    )
    .under(SOURCE_PART)
    .short('h')
    .in_files(&["source-host"])
    .mysql("SOURCE_HOST"),
    option(
        SOURCE,
        "source-port",
        "PORT",
        Kind::Number(1, 65_535, |s, port| s.server.port = Some(port as u16)),
        "Port of the source",
    )
    .under(SOURCE_PART)
    .short('P')
    .otherwise("3306")
    .mysql("SOURCE_PORT"),
    option(
        SOURCE,
        "user",
        "NAME",
        Kind::Text(|s, text| put(&mut s.server.user, Ok(text.to_owned()))),
        "Account on the source",
    )
    .under(SOURCE_PART)
    .short('u')
    .in_files(&["source-user"])
    .mysql("SOURCE_USER"),
    option(
        FILE_ONLY,
        "password",
        "PASSWORD",
        Kind::Text(|s, text| put(&mut s.server.password, Ok(Secret(text.to_owned())))),
        "Password of the account",
    )
    .in_files(&["source-password"]),
    option(
        SOURCE,
        "source-socket",
        "PATH",
        Kind::Path(|s, path| s.server.socket = Some(path)),
        "Unix socket of the source",
    )
    .under(SOURCE_PART)
    .short('S'),
    option(
        SOURCE,
        "ssl-mode",
        "MODE",
        Kind::Text(|s, text| put(&mut s.server.ssl_mode, parse_ssl_mode(text))),
        "DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY",
    )
    .under(SOURCE_PART)
    .in_files(&["source-ssl-mode"])
    .otherwise("PREFERRED"),
    option(
        SOURCE,
        "source-ssl-ca",
        "FILE",
        Kind::Path(|s, path| s.server.ssl_ca = Some(path)),
        "Certificate authorities of the source, PEM",
    )
    .under(SOURCE_PART)
    .otherwise("the system's"),
    option(
        SOURCE,
        "source-ssl-cert",
        "FILE",
        Kind::Path(|s, path| s.server.ssl_cert = Some(path)),
        "Client certificate for the source, PEM",
    )
    .under(SOURCE_PART),
    option(
        SOURCE,
        "source-ssl-key",
        "FILE",
        Kind::Path(|s, path| s.server.ssl_key = Some(path)),
        "The key of that certificate, PEM",
    )
    .under(SOURCE_PART),
    option(
        SOURCE,
        "server-public-key-path",
        "FILE",
        Kind::Path(|s, path| s.server.server_public_key_path = Some(path)),
        "RSA key of the source, PEM, for caching_sha2_password without TLS",
    )
    .under(SOURCE_PART)
    .in_files(&["source-public-key-path"])
    .mysql("SOURCE_PUBLIC_KEY_PATH"),
    option(
        SOURCE,
        "connect-timeout",
        "TIME",
        Kind::Span(|s, span| s.server.connect_timeout = Some(span)),
        "Longest time for one attempt to connect",
    )
    .under(SOURCE_PART)
    .otherwise("10s"),
    option(
        SOURCE,
        "get-server-public-key",
        "ON|OFF",
        Kind::Switch(|s, on| s.server.get_server_public_key = Some(on)),
        "Ask the source for its RSA key",
    )
    .under(SOURCE_PART)
    .in_files(&["get-source-public-key"])
    .otherwise("OFF")
    .mysql("GET_SOURCE_PUBLIC_KEY"),
    option(
        PIPELINE,
        "replica-parallel-workers",
        "N",
        Kind::Number(0, 1024, |s, n| s.config.pipeline.workers = n as usize),
        "Apply workers; each owns some lanes",
    )
    .under(PIPELINE_PART)
    .also(&["workers"])
    .in_files(&["slave-parallel-workers"])
    .otherwise("0 = as many as cores"),
    option(
        PIPELINE,
        "decoders",
        "N",
        Kind::Number(0, 1024, |s, n| s.config.pipeline.decoders = n as usize),
        "Decoding threads",
    )
    .under(PIPELINE_PART)
    .otherwise("0 = half as many as cores"),
    option(
        PIPELINE,
        "thread-affinity",
        "LIST",
        Kind::Text(|s, text| {
            ThreadAffinity::parse(text).map(|a| s.config.pipeline.affinity = a).map_err(|e| e.to_string())
        }),
        "CPUs of each stage's threads, STAGE=CPUS[,...]: receive=0,apply=0-1,3,cut=2; all= \
         for the stages not named",
    )
    .under(PIPELINE_PART)
    .also(&["cpu-affinity"])
    .otherwise("any")
    .mysql("VCPU of a resource group"),
    option(
        PIPELINE,
        "queue-memory",
        "SIZE",
        Kind::Bytes(32 << 20, BYTES_MAX, |s, bytes| s.config.pipeline.queue_memory = bytes),
        "Limit on the memory of queued work, bytes",
    )
    .under(PIPELINE_PART)
    .also(&["replica-pending-jobs-size-max"])
    .in_files(&["slave-pending-jobs-size-max"])
    .default("256M"),
    option(
        PIPELINE,
        "check-images",
        "MODE",
        Kind::Text(|s, text| parse_check_images(text).map(|mode| s.config.pipeline.check_images = mode)),
        "Compare before images with the stored rows: off, sample or all; a difference stops \
         replay",
    )
    .under(PIPELINE_PART)
    .default("sample"),
    option(
        FOLLOW,
        "show",
        "WHEN",
        Kind::Text(|s, text| parse_show(text).map(|when| s.config.pipeline.show = when)),
        "When a transaction is visible: received, acknowledged (executed by the source, too), auto: as --forward needs",
    )
    .under(PIPELINE_PART)
    .default("auto"),
    option(
        FOLLOW,
        "on-drift",
        "HOW",
        Kind::Text(|s, text| parse_on_drift(text).map(|how| s.config.on_drift = how)),
        "When rows that contradict the log are found later: copy (their table again) or stop (pause replay)",
    )
    .under(PIPELINE_PART)
    .default("copy"),
    option(
        FOLLOW,
        "on-stop",
        "HOW",
        Kind::Text(|s, text| parse_on_stop(text).map(|how| s.config.on_stop = how)),
        "When receiving or replay stops with an error: stay (until slipstream start) or exit (with its code)",
    )
    .under(REPLICATION_PART)
    .default("stay"),
    option(
        FOLLOW,
        "on-damage",
        "HOW",
        Kind::Text(|s, text| parse_on_damage(text).map(|how| s.config.on_damage = how)),
        "When a file of the store is damaged: copy (the tables in it again) or stop (replay); with binlog files as \
         the source always stop",
    )
    .under(PIPELINE_PART)
    .default("copy"),
    option(
        FOLLOW,
        "scrub-interval",
        "TIME",
        Kind::SpanOrNone(|s, every| s.config.scrub_interval = (!every.is_zero()).then_some(every)),
        "Interval between slow checks of all files of store and relay log against their checksums, 0 = no checks",
    )
    .under(PIPELINE_PART)
    .default("7d"),
    option(
        RECEIVE,
        "disk-reserve",
        "SIZE",
        Kind::BytesOrNone(|s, bytes| s.config.disk_reserve = Some(bytes)),
        "Free disk space that only cuts, purges and merges of the newest runs may use, bytes; receiving waits \
         instead, 0 = no reserve",
    )
    .under(PIPELINE_PART)
    .otherwise("5 % of the file system, at most 10 GiB"),
    option(
        PIPELINE | RECEIVE,
        "relay-sync",
        "POLICY",
        Kind::Text(|s, text| {
            s.relay_sync_given = true;
            parse_relay_sync(text).map(|policy| s.config.relay_sync = policy)
        }),
        "When to sync the relay log: every-transaction (as `slipstream relay` does unless this is given), MS,BYTES or never",
    )
    .under(PIPELINE_PART)
    .default("10,16M"),
    option(
        RECEIVE,
        "server-id",
        "ID",
        Kind::Number(1, u32::MAX as u64, |s, id| s.config.server_id = Some(id as u32)),
        "Our server_id, unique among the source's replicas",
    )
    .under(REPLICATION_PART)
    .otherwise("kept in the data folder"),
    option(
        RECEIVE,
        "report-host",
        "HOST",
        Kind::Text(|s, text| s.set_report_host(text)),
        "Our host, as SHOW REPLICAS on the source shows it",
    )
    .under(REPLICATION_PART),
    option(
        RECEIVE,
        "report-port",
        "PORT",
        Kind::Number(0, 65_535, |s, port| s.set_report_port(port as u16)),
        "Our port, as SHOW REPLICAS on the source shows it; 0: that of --port",
    )
    .under(REPLICATION_PART),
    option(
        RECEIVE,
        "max-relay-log-size",
        "SIZE",
        Kind::Bytes(4096, 1 << 30, |s, bytes| s.config.max_relay_log_size = bytes),
        "Start a new relay log file above this size, bytes",
    )
    .under(REPLICATION_PART)
    .default("1G"),
    option(
        FOLLOW,
        "relay-log-space-limit",
        "SIZE",
        Kind::BytesOrNone(|s, bytes| s.config.relay_log_space_limit = bytes),
        "Stop receiving while the relay log is larger than this, bytes; 0 = no limit",
    )
    .under(REPLICATION_PART)
    .default("0"),
    option(
        FOLLOW,
        "binlog-expire-logs-seconds",
        "TIME",
        Kind::SpanOrNone(|s, span| s.config.relay_log_expire = span),
        "Keep relay log files this long after a durable cut has passed them; 0 = purge at once",
    )
    .under(REPLICATION_PART)
    .default("0"),
    option(
        FOLLOW,
        "copy",
        "HOW",
        Kind::Text(|s, text| parse_copy(text).map(|when| s.config.copy.when = when)),
        "Tables that the source's log does not hold. auto: copy all before the first start if the log does not reach \
         back, otherwise those that are missing once it is replayed; always: copy all before the first start; never: \
         only name them",
    )
    .under(COPY_PART)
    .default("auto"),
    option(
        FOLLOW,
        "copy-connections",
        "N",
        Kind::Number(1, 64, |s, n| s.config.copy.connections = n as usize),
        "Connections that read the source during the initial copy",
    )
    .under(COPY_PART)
    .default("4"),
    option(
        FOLLOW,
        "copy-lock",
        "HOW",
        Kind::Text(|s, text| parse_copy_lock(text).map(|lock| s.config.copy.lock = lock)),
        "auto: try for a minute to lock the source's writers out for milliseconds, then copy \
         without a lock; none: copy without a lock, for accounts without RELOAD",
    )
    .under(COPY_PART)
    .default("auto"),
    option(
        FOLLOW,
        "copy-rate",
        "SIZE",
        Kind::Bytes(1 << 10, BYTES_MAX, |s, bytes| s.config.copy.rate = Some(bytes)),
        "Limit on the bytes that the initial copy reads per second",
    )
    .under(COPY_PART)
    .otherwise("no limit"),
    option(
        FOLLOW,
        "lock-wait",
        "TIME",
        Kind::Span(|s, span| s.config.copy.lock_wait = span),
        "How long one try for the source's read lock may make writers wait; the first tries \
         take 100 ms",
    )
    .under(COPY_PART)
    .default("1s"),
    option(
        FOLLOW,
        "snapshot-max",
        "TIME",
        Kind::Span(|s, span| s.config.copy.snapshot_max = span),
        "Maximum age of the initial copy's snapshots",
    )
    .under(COPY_PART)
    .default("10min"),
    option(
        FOLLOW,
        "memory",
        "SIZE",
        Kind::Bytes(MEMORY_MIN, BYTES_MAX, |s, bytes| s.config.memory = bytes),
        "Limit on resident memory, bytes",
    )
    .under(STORE_PART)
    .otherwise("a quarter of the machine's"),
    option(
        FOLLOW,
        "cut-interval",
        "TIME",
        Kind::Span(|s, span| s.config.cut_interval = span),
        "Maximum age of replayed changes that are not durable in the store",
    )
    .under(STORE_PART)
    .default("60s"),
    option(
        FOLLOW,
        "snapshot-memory",
        "SIZE",
        Kind::BytesOrNone(|s, bytes| s.config.snapshot_memory = bytes),
        "Limit on the rows kept in memory for verify and dump alone, bytes; above it the \
         oldest of these ends with \"snapshot too old\"",
    )
    .under(STORE_PART)
    .otherwise("half of --memory, and within it"),
    option(
        FOLLOW,
        "snapshot-age",
        "TIME",
        Kind::Span(|s, span| {
            s.config.snapshot_age = Some(span);
            s.door.snapshot_age = span;
        }),
        "Maximum age of the state that verify, dump, transactions and cursors read",
    )
    .under(STORE_PART)
    .otherwise("no limit; 1h for clients of the port"),
    option(
        RECEIVE,
        "source-heartbeat-period",
        "TIME",
        Kind::Span(|s, span| s.heartbeat = Some(span)),
        "How often an idle source sends a heartbeat",
    )
    .under(REPLICATION_PART)
    .also(&["heartbeat"])
    .otherwise("1s"),
    option(
        RECEIVE,
        "replica-net-timeout",
        "TIME",
        Kind::Span(|s, span| s.read_timeout = Some(span)),
        "Reconnect, or follow another one of several sources, if nothing arrives for this long",
    )
    .under(REPLICATION_PART)
    .also(&["read-timeout"])
    .in_files(&["slave-net-timeout"])
    .otherwise("60s; 3s with several sources"),
    option(
        RECEIVE,
        "source-connect-retry",
        "TIME",
        Kind::Span(|s, span| s.config.connect_retry = span),
        "Longest pause between two attempts to connect; the first pauses are shorter",
    )
    .under(REPLICATION_PART)
    .also(&["connect-retry"])
    .default("10s"),
    option(
        RECEIVE,
        "source-retry-count",
        "N",
        Kind::Number(0, u64::MAX, |s, n| s.config.retry_count = n),
        "Give up after this many failed attempts in a row; 0 = never",
    )
    .under(REPLICATION_PART)
    .default("0"),
    option(
        FOLLOW,
        "source-delay",
        "TIME",
        Kind::SpanOrNone(|s, span| s.config.source_delay = span),
        "Apply each transaction no earlier than this long after its commit on the source; receiving does not wait",
    )
    .under(REPLICATION_PART)
    .default("0"),
    option(
        FOLLOW,
        "skip-gtids",
        "GTID-SET",
        Kind::Text(|s, text| {
            replica::skip::parse(text).map(|set| s.config.skip.union_with(&set)).map_err(|failure| failure.text)
        }),
        "Commit these transactions empty, as slipstream skip does; kept in the data folder",
    )
    .under(REPLICATION_PART),
    option(
        RECEIVE,
        "log-error",
        "FILE",
        Kind::Text(|s, text| checked_log_file(text).map(|file| s.log.file = file)),
        "Log file, appended to; reopened on SIGHUP",
    )
    .under(LOG_PART)
    .also(&["log-file"])
    .default("stderr"),
    option(
        RECEIVE,
        "log-format",
        "FORMAT",
        Kind::Text(|s, text| parse_log_format(text).map(|format| s.log.format = format)),
        "text (mysqld's lines) or json",
    )
    .under(LOG_PART)
    .default("text"),
    option(
        RECEIVE,
        "log-error-verbosity",
        "1-3",
        Kind::Number(1, 3, |s, n| s.log.verbosity = n as u8),
        "1: errors; 2: warnings too; 3: notes too",
    )
    .under(LOG_PART)
    .default("3"),
    option(
        RECEIVE,
        "group-access",
        "ON|OFF",
        Kind::Switch(|s, on| s.config.access = if on { Access::Group } else { Access::Owner }),
        "Let the group read the data folder; others never can, and the control socket is the \
         owner's",
    )
    .under(STORE_PART)
    .default("OFF"),
    option(
        RECEIVE,
        "semi-sync",
        "ON|OFF",
        Kind::Switch(|s, on| s.config.semi_sync = on),
        "Acknowledge transactions to a source with semi-synchronous replication, after our sync",
    )
    .under(REPLICATION_PART)
    .also(&["rpl-semi-sync-replica-enabled"])
    .default("OFF"),
    option(
        FOLLOW,
        "skip-replica-start",
        "ON|OFF",
        Kind::Switch(|s, on| s.config.skip_replica_start = on),
        "Leave receiving and replay stopped until slipstream start; an initial copy is made",
    )
    .under(REPLICATION_PART)
    .also(&["skip-slave-start"])
    .default("OFF"),
    option(
        FOLLOW,
        "replicate-do-db",
        "DB",
        Kind::List(|s, rule| s.filters.add("replicate-do-db", rule)),
        "Replicate this database only (statements: if it is the session's default database)",
    )
    .under(FILTER_PART),
    option(
        FOLLOW,
        "replicate-ignore-db",
        "DB",
        Kind::List(|s, rule| s.filters.add("replicate-ignore-db", rule)),
        "Replicate all databases but this one; ignored if there is a --replicate-do-db",
    )
    .under(FILTER_PART),
    option(
        FOLLOW,
        "replicate-do-table",
        "DB.TABLE",
        Kind::List(|s, rule| s.filters.add("replicate-do-table", rule)),
        "Replicate this table",
    )
    .under(FILTER_PART),
    option(
        FOLLOW,
        "replicate-ignore-table",
        "DB.TABLE",
        Kind::List(|s, rule| s.filters.add("replicate-ignore-table", rule)),
        "Do not replicate this table",
    )
    .under(FILTER_PART),
    option(
        FOLLOW,
        "replicate-wild-do-table",
        "DB.TABLE",
        Kind::List(|s, rule| s.filters.add("replicate-wild-do-table", rule)),
        "Replicate tables that match; % matches any text, _ one character, \\ escapes them",
    )
    .under(FILTER_PART),
    option(
        FOLLOW,
        "replicate-wild-ignore-table",
        "DB.TABLE",
        Kind::List(|s, rule| s.filters.add("replicate-wild-ignore-table", rule)),
        "Do not replicate tables that match",
    )
    .under(FILTER_PART),
    option(
        FOLLOW,
        "replicate-rewrite-db",
        "FROM->TO",
        Kind::List(|s, rule| s.filters.add("replicate-rewrite-db", rule)),
        "Give a database of the source another name here; the filters above see the new name",
    )
    .under(FILTER_PART),
    option(
        RECEIVE,
        "port",
        "PORT",
        Kind::Number(0, 65_535, |s, port| (s.door.port, s.door.port_given) = (port as u16, true)),
        "TCP port for clients; 0 takes a free one, which status shows",
    )
    .under(CLIENT_PART)
    .default("3307"),
    option(
        RECEIVE,
        "bind-address",
        "ADDRESS",
        Kind::Text(|s, text| text.parse().map(|ip| s.door.bind_address = ip).map_err(|_| not_an_address(text))),
        "Address on which to listen for clients",
    )
    .under(CLIENT_PART)
    .default("127.0.0.1"),
    option(
        RECEIVE,
        "skip-networking",
        "ON|OFF",
        Kind::Switch(|s, on| s.door.skip_networking = on),
        "Listen on the socket only, not on a TCP port",
    )
    .under(CLIENT_PART)
    .default("OFF"),
    option(
        RECEIVE,
        "socket",
        "PATH",
        Kind::Path(|s, path| s.door.socket = Some(path)),
        "Unix socket for clients, open to every user of the machine: accounts decide",
    )
    .under(CLIENT_PART)
    .otherwise("none"),
    option(
        RECEIVE,
        "socket-admin",
        "ON|OFF",
        Kind::Switch(|s, on| s.door.socket_admin = on),
        "Let the user that runs this process in over the socket as admin, without a password",
    )
    .under(CLIENT_PART)
    .default("ON"),
    option(
        RECEIVE,
        "ssl-cert",
        "FILE",
        Kind::Path(|s, path| s.door.ssl_cert = Some(path)),
        "Certificate shown to clients, with its chain, PEM",
    )
    .under(CLIENT_PART)
    .otherwise("a self-signed one in the data folder"),
    option(
        RECEIVE,
        "ssl-key",
        "FILE",
        Kind::Path(|s, path| s.door.ssl_key = Some(path)),
        "The key of that certificate, PEM",
    )
    .under(CLIENT_PART),
    option(
        RECEIVE,
        "ssl-ca",
        "FILE",
        Kind::Path(|s, path| s.door.ssl_ca = Some(path)),
        "Certificate authorities of clients, PEM",
    )
    .under(CLIENT_PART)
    .otherwise("clients are not asked for certificates"),
    option(
        RECEIVE,
        "require-secure-transport",
        "ON|OFF",
        Kind::Switch(|s, on| s.door.require_secure_transport = Some(on)),
        "Refuse TCP connections without TLS",
    )
    .under(CLIENT_PART)
    .otherwise("ON where bind-address is not loopback"),
    option(
        RECEIVE,
        "max-connections",
        "N",
        Kind::Number(1, 100_000, |s, n| s.door.max_connections = n as usize),
        "Maximum number of logged-in clients, and one more with the right admin",
    )
    .under(CLIENT_PART)
    .default("500"),
    option(
        FOLLOW,
        "forward",
        "off|reads|all",
        Kind::Text(|s, text| text.parse().map(|forward| s.door.forward = forward)),
        "Statements of accounts with the right forward that the source answers",
    )
    .under(CLIENT_PART)
    .default("off"),
    option(
        FOLLOW,
        "forward-connections",
        "N",
        Kind::Number(1, 100_000, |s, n| s.door.forward_connections = n as usize),
        "Maximum number of connections to the source for --forward; a session waits for one for up to 10 s",
    )
    .under(CLIENT_PART)
    .default("100"),
    option(
        FOLLOW,
        "statement-cpu-time",
        "TIME",
        Kind::SpanOrNone(|s, span| s.door.statement_cpu_time = span),
        "CPU time that a client's statement may use; 0 = no limit; no limit for accounts with the right admin",
    )
    .under(CLIENT_PART)
    .default("5m"),
    option(
        FOLLOW,
        "connection-memory-limit",
        "BYTES",
        Kind::Bytes(2 << 20, 1 << 40, |s, bytes| s.door.connection_memory_limit = bytes),
        "Memory that a client's statement may hold at once; no limit for accounts with the right admin",
    )
    .under(CLIENT_PART)
    .default("256M"),
    option(
        RECEIVE,
        "max-allowed-packet",
        "BYTES",
        Kind::Bytes(1 << 10, 1 << 30, |s, bytes| s.door.max_allowed_packet = bytes as usize),
        "Largest packet of a client",
    )
    .under(CLIENT_PART)
    .default("64M"),
    option(
        RECEIVE,
        "client-connect-timeout",
        "TIME",
        Kind::Span(|s, span| s.door.connect_timeout = span),
        "Time that a client has to log in",
    )
    .under(CLIENT_PART)
    .default("10s")
    .mysql("connect_timeout"),
    option(
        RECEIVE,
        "server-version",
        "TEXT",
        Kind::Text(|s, text| checked_version(text).map(|version| s.door.server_version = version)),
        "Version that clients see",
    )
    .under(CLIENT_PART)
    .default("9.7.4-slipstream"),
    option(
        FOLLOW,
        "set",
        "NAME=VALUE",
        Kind::List(|s, text| {
            let set = parse_set(text)?;
            s.door.set.retain(|(name, _)| *name != set.0);
            s.door.set.push(set);
            Ok(())
        }),
        "Value of a system variable with which clients' sessions start, instead of the source's",
    )
    .under(CLIENT_PART)
    .otherwise("the source's global variables"),
    option(
        FOLLOW,
        "serve",
        "WHEN",
        Kind::Text(|s, text| parse_serve(text).map(|at_once| s.door.serve_at_once = at_once)),
        "When clients may read after a start: recovered (once all that an earlier run may have shown is visible) or \
         at-once (possibly older rows)",
    )
    .under(CLIENT_PART)
    .default("recovered"),
    option(
        FOLLOW,
        "http",
        "[ADDRESS:]PORT",
        Kind::Text(|s, text| parse_http(text).map(|address| s.door.http.address = Some(address))),
        "Serve a page, /metrics and /health at this address; with TLS and an account or token unless it is loopback",
    )
    .under(WATCH_PART)
    .otherwise("none"),
    option(
        FOLLOW,
        "http-name",
        "NAME",
        Kind::List(|s, name| {
            s.door.http.names.push(name.to_owned());
            Ok(())
        }),
        "Name of this machine in URLs, besides its addresses and its own name; others are refused",
    )
    .under(WATCH_PART),
    option(
        FOLLOW,
        "http-token-file",
        "FILE",
        Kind::Path(|s, path| s.door.http.token_file = Some(path)),
        "Token accepted by --http instead of an account, in a file that only its owner may read",
    )
    .under(WATCH_PART)
    .otherwise("none"),
    option(
        FOLLOW,
        "gtid-port",
        "[ADDRESS:]PORT",
        Kind::Text(|s, text| parse_http(text).map(|address| s.door.gtid_port = Some(address))),
        "Tell ProxySQL which GTIDs are visible (gtid_port in its mysql_servers); anyone who connects is told",
    )
    .under(CLIENT_PART)
    .otherwise("none"),
    option(
        RECEIVE,
        "drain",
        "TIME",
        Kind::SpanOrNone(|s, span| s.door.drain = span),
        "Time that clients' running statements get to finish during a stop",
    )
    .under(CLIENT_PART)
    .default("2s"),
    option(
        FOLLOW,
        "serve-log",
        "ON|OFF",
        Kind::Switch(|s, on| s.relay.serve_log = on),
        "Also serve the received log to stock replicas, stamped so that they apply more in parallel, as `slipstream \
         relay` does",
    )
    .under(SERVED_PART)
    .default("OFF"),
    option(
        RELAY,
        "start",
        "WHERE",
        Kind::Text(|s, text| checked_start(text).map(|start| s.relay.start = start)),
        "Where the served log of an empty folder begins: oldest (everything the source has), after a GTID set, or \
         after what mysql://REPLICA has executed",
    )
    .under(SERVED_PART)
    .default("oldest"),
    option(
        SERVE,
        "definitions-from",
        "URL",
        Kind::Text(|s, text| checked_url(text).map(|url| s.relay.definitions_from = Some(url))),
        "Read the definitions as of that beginning from mysql://REPLICA, a lagging replica that has tables as they \
         were then",
    )
    .under(SERVED_PART)
    .otherwise("the source, without the tables that DDL has touched since"),
    option(
        SERVE,
        "max-binlog-size",
        "SIZE",
        Kind::Bytes(4096, stamp::FILE_BYTES_MAX, |s, bytes| s.relay.max_binlog_size = bytes),
        "Maximum size of a served file, which ends before a transaction that would exceed it, bytes",
    )
    .under(SERVED_PART)
    .default("1G"),
    option(
        SERVE,
        "ack-after-replicas",
        "N",
        Kind::Number(0, 64, |s, number| s.relay.ack_after_replicas = number as usize),
        "Acknowledge a semi-synchronous source only after this many connected semi-synchronous replicas have \
         acknowledged; 0 = after our sync, with --semi-sync",
    )
    .under(SERVED_PART)
    .default("0"),
    option(
        SERVE,
        "serve-keep",
        "TIME",
        Kind::SpanOrNone(|s, span| s.relay.serve_keep = span),
        "How long a served file is kept after it was written; longer while a replica reads it",
    )
    .under(SERVED_PART)
    .default("24h"),
    option(
        SERVE,
        "serve-space-limit",
        "SIZE",
        Kind::BytesOrNone(|s, bytes| s.relay.serve_space_limit = bytes),
        "Purge the oldest served file above this many bytes, whether replicas have it or not; 0 = no limit",
    )
    .under(SERVED_PART)
    .default("0"),
    option(
        SERVE,
        "dependency-tracking",
        "HOW",
        Kind::Text(|s, text| parse_tracking(text).map(|tracking| s.relay.tracking = tracking)),
        "What a transaction must wait for: writeset (those that changed the same rows, never more than the source \
         says), writeset-session (also the last one of its session), commit-order (the source's parents) or source \
         (the source's own numbers)",
    )
    .under(SERVED_PART)
    .in_files(&["binlog-transaction-dependency-tracking"])
    .default("writeset")
    .mysql("binlog_transaction_dependency_tracking"),
];

fn parse_log_format(value: &str) -> Result<LogFormat, String> {
    one_of(value, &[("text", LogFormat::Text), ("json", LogFormat::Json)])
}
