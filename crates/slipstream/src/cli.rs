//! The command line. Every option a file can hold is a text here and is read by `config`, so that flag and file agree
//! in spelling, units and errors.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use compare::DumpFormat;

use crate::settings::OptionFiles;

/// A MySQL replica that keeps up: reads a primary's binary log, replays it in parallel and exactly once, shows commits
/// in source order.
///
/// Options may stand in the [slipstream] section of /etc/my.cnf, /etc/mysql/my.cnf and ~/.my.cnf; dash and underscore
/// are one; flags override files. Sizes take K, M, G; times take ms, s, m, h, d.
///
/// Exit codes: 0 done; 1 error; 2 usage or configuration; 3 folder in use; 4 preflight refused; 5 source no longer has
/// what we need (1236); 6 event or statement not supported; 7 file corrupt or not ours; 8 disk full or I/O error; 9
/// data differ from what the log expects; 10 an internal check failed (a defect of Slipstream); 16 verify found
/// differences.
#[derive(Debug, Parser)]
#[command(name = "slipstream", version, max_term_width = 120, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) files: FileFlags,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which option files are read.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FileFlags {
    /// Read options from this file only
    #[arg(long, global = true, value_name = "FILE", help_heading = "Option files")]
    pub defaults_file: Option<PathBuf>,
    /// Read options from this file after the default ones
    #[arg(long, global = true, value_name = "FILE", help_heading = "Option files", conflicts_with = "defaults_file")]
    pub defaults_extra_file: Option<PathBuf>,
    /// Read no option file
    #[arg(long, global = true, help_heading = "Option files", conflicts_with_all = ["defaults_file", "defaults_extra_file"])]
    pub no_defaults: bool,
}

impl FileFlags {
    /// As `config` takes them.
    #[must_use]
    pub(crate) fn files(&self) -> OptionFiles {
        OptionFiles {
            only: self.defaults_file.clone(),
            extra: self.defaults_extra_file.clone(),
            none: self.no_defaults,
        }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Follow a source: receive its log, replay it, keep a current copy
    Replica(ReplicaFlags),
    /// Preflight alone: look whether a source fulfils what replication needs; changes nothing
    Check(ReplicaFlags),
    /// Show what a replica does: lag, backlog, GTID sets, positions, rates, last error, ledger
    Status(StatusFlags),
    /// Compare every table with the source at the same GTID set, while both are live
    Verify(VerifyFlags),
    /// Write rows at the watermark as SQL or tab-separated text
    Dump(DumpFlags),
    /// Copy one table again from the source while everything else goes on
    Copy(CopyFlags),
    /// Commit the named transactions empty, so that replay can go on past them
    Skip(SkipFlags),
    /// Stop a running replica at a transaction boundary
    Stop(DataFlag),
    /// Stop replaying; receiving goes on (STOP REPLICA SQL_THREAD)
    Pause(DataFlag),
    /// Replay again after pause (START REPLICA SQL_THREAD)
    Resume(DataFlag),
    /// Experiments: replay recorded logs, record them, TPC-C
    #[command(subcommand)]
    Lab(LabCommand),
}

/// Flags that hold option texts; `pairs` gives them to `config` by name.
macro_rules! option_flags {
    ($(#[$about:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident,)* } $(switch { $($(#[$of_switch:meta])* $switch:ident,)* })?) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, Args)]
        pub(crate) struct $name {
            $($(#[$attribute])* #[arg(long)] pub $field: Option<String>,)*
            $($($(#[$of_switch])*
                #[arg(long, value_name = "ON|OFF", num_args = 0..=1, default_missing_value = "ON", require_equals = true)]
                pub $switch: Option<String>,)*)?
        }

        impl $name {
            /// The flags given, by option name.
            pub(crate) fn pairs(&self) -> Vec<(&'static str, Option<String>)> {
                let mut pairs = Vec::new();
                $(if let Some(value) = &self.$field { pairs.push((stringify!($field), Some(value.clone()))); })*
                $($(if let Some(value) = &self.$switch { pairs.push((stringify!($switch), Some(value.clone()))); })*)?
                pairs
            }
        }
    };
}

option_flags! {
    /// The data folder.
    DataFlag {
        /// Data folder of the replica (MySQL: datadir)
        #[arg(value_name = "DIR")]
        data,
    }
}

option_flags! {
    /// The source and the login there.
    SourceFlags {
        /// mysql://USER@HOST:PORT, or file:PATH of a binlog or of an index that lists them
        #[arg(value_name = "URL", help_heading = "Source")]
        source,
        /// Host of the source, where the URL has none (SOURCE_HOST)
        #[arg(value_name = "HOST", help_heading = "Source")]
        host,
        /// Port of the source [default: 3306] (SOURCE_PORT)
        #[arg(value_name = "PORT", help_heading = "Source")]
        port,
        /// Account on the source (SOURCE_USER)
        #[arg(value_name = "NAME", help_heading = "Source")]
        user,
        /// Unix socket of the source
        #[arg(value_name = "PATH", help_heading = "Source")]
        socket,
        /// DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY [default: PREFERRED]
        #[arg(value_name = "MODE", help_heading = "Source")]
        ssl_mode,
        /// Certificates of trusted authorities, PEM [default: the system's]
        #[arg(value_name = "FILE", help_heading = "Source")]
        ssl_ca,
        /// Our certificate, PEM
        #[arg(value_name = "FILE", help_heading = "Source")]
        ssl_cert,
        /// Our private key, PEM
        #[arg(value_name = "FILE", help_heading = "Source")]
        ssl_key,
        /// RSA key of the source for caching_sha2_password without TLS, PEM (SOURCE_PUBLIC_KEY_PATH)
        #[arg(value_name = "FILE", help_heading = "Source")]
        server_public_key_path,
        /// Longest time for one attempt to connect [default: 10s]
        #[arg(value_name = "TIME", help_heading = "Source")]
        connect_timeout,
    }
    switch {
        /// Ask the source for its RSA key (GET_SOURCE_PUBLIC_KEY) [default: OFF]
        #[arg(help_heading = "Source")]
        get_server_public_key,
    }
}

option_flags! {
    /// Threads and memory.
    PipelineFlags {
        /// Apply workers; each owns some lanes [default: 0 = by the machine's cores] (replica_parallel_workers)
        #[arg(value_name = "N", visible_alias = "workers", help_heading = "Pipeline")]
        replica_parallel_workers,
        /// Decoding threads [default: 0 = by the machine's cores]
        #[arg(value_name = "N", help_heading = "Pipeline")]
        decoders,
        /// CPUs of the stages' threads, STAGE=CPUS[,...]: receive=0,apply=0-1,3,cut=2; all= for the stages not named
        /// [default: any] (the VCPU of a resource group)
        #[arg(value_name = "LIST", visible_alias = "cpu-affinity", help_heading = "Pipeline")]
        thread_affinity,
        /// Bound of the memory that queued work may take, bytes [default: 256M] (replica_pending_jobs_size_max)
        #[arg(value_name = "SIZE", visible_alias = "replica-pending-jobs-size-max", help_heading = "Pipeline")]
        queue_memory,
        /// Compare before images with the stored rows: off, sample or all [default: sample]; a difference stops replay
        #[arg(value_name = "MODE", help_heading = "Pipeline")]
        check_images,
        /// Sync the relay log: every-transaction, MS,BYTES or never [default: 10,16M]
        #[arg(value_name = "POLICY", help_heading = "Pipeline")]
        relay_sync,
    }
}

option_flags! {
    /// What only a replica has.
    FollowFlags {
        /// Our server_id, unique among the source's replicas [default: kept in the data folder]
        #[arg(value_name = "ID", help_heading = "Replication")]
        server_id,
        /// Our host as SHOW REPLICAS on the source shows it
        #[arg(value_name = "HOST", help_heading = "Replication")]
        report_host,
        /// Our port as SHOW REPLICAS on the source shows it
        #[arg(value_name = "PORT", help_heading = "Replication")]
        report_port,
        /// Begin a new relay log file above this size, bytes [default: 1G]
        #[arg(value_name = "SIZE", help_heading = "Replication")]
        max_relay_log_size,
        /// Receiving waits while the relay log is larger than this, bytes [default: 0 = no limit]
        #[arg(value_name = "SIZE", help_heading = "Replication")]
        relay_log_space_limit,
        /// Keep relay log files this long after a durable cut is past them [default: 0 = purge at once]
        #[arg(value_name = "TIME", help_heading = "Replication")]
        binlog_expire_logs_seconds,
        /// Connections that read the source in the initial copy [default: 4]
        #[arg(value_name = "N", help_heading = "Initial copy")]
        copy_connections,
        /// Hold the source's writers for milliseconds, or take no lock where RELOAD cannot be granted: auto or none;
        /// auto takes none either where none is to be had within a minute [default: auto]
        #[arg(value_name = "HOW", help_heading = "Initial copy")]
        copy_lock,
        /// Bytes a second that the initial copy reads at most [default: no limit]
        #[arg(value_name = "SIZE", help_heading = "Initial copy")]
        copy_rate,
        /// How long one try for the source's read lock may keep its writers waiting; first tries take 100 ms [default:
        /// 1s]
        #[arg(value_name = "TIME", help_heading = "Initial copy")]
        lock_wait,
        /// How old the initial copy's snapshots may become [default: 10min]
        #[arg(value_name = "TIME", help_heading = "Initial copy")]
        snapshot_max,
        /// Bound of resident memory, bytes [default: a quarter of the machine's]
        #[arg(value_name = "SIZE", help_heading = "Store")]
        memory,
        /// Make what is older than this durable in the store, whatever its size [default: 60s]
        #[arg(value_name = "TIME", help_heading = "Store")]
        cut_interval,
        /// Rows on disk that stay in memory for verify and dump, bytes: above it the oldest of these end with "snapshot
        /// too old" [default: half of --memory, and within it]
        #[arg(value_name = "SIZE", help_heading = "Store")]
        snapshot_memory,
        /// How old the state may become that verify and dump read [default: no limit]
        #[arg(value_name = "TIME", help_heading = "Store")]
        snapshot_age,
        /// An idle source sends a heartbeat this often [default: 1s]
        #[arg(value_name = "TIME", visible_alias = "heartbeat", help_heading = "Replication")]
        source_heartbeat_period,
        /// Connect again when nothing came for this long [default: 60s]
        #[arg(value_name = "TIME", visible_alias = "read-timeout", help_heading = "Replication")]
        replica_net_timeout,
        /// Longest pause between two attempts to connect; the first ones are shorter [default: 10s]
        #[arg(value_name = "TIME", visible_alias = "connect-retry", help_heading = "Replication")]
        source_connect_retry,
        /// Give up after this many attempts in a row [default: 0 = never]
        #[arg(value_name = "N", help_heading = "Replication")]
        source_retry_count,
        /// Commit these transactions empty, as slipstream skip does; kept in the data folder
        #[arg(value_name = "GTID-SET", help_heading = "Replication")]
        skip_gtids,
        /// Log file, appended to; opened again at SIGHUP [default: stderr]
        #[arg(value_name = "FILE", visible_alias = "log-file", help_heading = "Log")]
        log_error,
        /// text (mysqld's lines) or json [default: text]
        #[arg(value_name = "FORMAT", help_heading = "Log")]
        log_format,
        /// 1 errors; 2 and warnings; 3 and notes [default: 3]
        #[arg(value_name = "1-3", help_heading = "Log")]
        log_error_verbosity,
    }
    switch {
        /// Let the group read the data folder; others never may, and the control socket is the owner's [default: OFF]
        #[arg(help_heading = "Store")]
        group_access,
        /// Acknowledge transactions to a source with semi-synchronous replication, after our sync [default: OFF]
        #[arg(visible_alias = "rpl-semi-sync-replica-enabled", help_heading = "Replication")]
        semi_sync,
    }
}

/// Replication filters; each may be given several times, in option files too.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FilterFlags {
    /// Replicate this database only (statements: where it is the session's default one)
    #[arg(long, value_name = "DB", help_heading = "Replication filters")]
    pub replicate_do_db: Vec<String>,
    /// Replicate all databases but this one; not looked at where there is a --replicate-do-db
    #[arg(long, value_name = "DB", help_heading = "Replication filters")]
    pub replicate_ignore_db: Vec<String>,
    /// Replicate this table
    #[arg(long, value_name = "DB.TABLE", help_heading = "Replication filters")]
    pub replicate_do_table: Vec<String>,
    /// Do not replicate this table
    #[arg(long, value_name = "DB.TABLE", help_heading = "Replication filters")]
    pub replicate_ignore_table: Vec<String>,
    /// Replicate the tables like this; % stands for any text, _ for a character, \ before them for themselves
    #[arg(long, value_name = "DB.TABLE", help_heading = "Replication filters")]
    pub replicate_wild_do_table: Vec<String>,
    /// Do not replicate the tables like this
    #[arg(long, value_name = "DB.TABLE", help_heading = "Replication filters")]
    pub replicate_wild_ignore_table: Vec<String>,
    /// A database of the source has another name here; the filters above see that one
    #[arg(long, value_name = "FROM->TO", help_heading = "Replication filters")]
    pub replicate_rewrite_db: Vec<String>,
}

impl FilterFlags {
    /// The flags given, by option name.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, Option<String>)> {
        let all: [(&'static str, &Vec<String>); 7] = [
            ("replicate_do_db", &self.replicate_do_db),
            ("replicate_ignore_db", &self.replicate_ignore_db),
            ("replicate_do_table", &self.replicate_do_table),
            ("replicate_ignore_table", &self.replicate_ignore_table),
            ("replicate_wild_do_table", &self.replicate_wild_do_table),
            ("replicate_wild_ignore_table", &self.replicate_wild_ignore_table),
            ("replicate_rewrite_db", &self.replicate_rewrite_db),
        ];
        all.into_iter().flat_map(|(name, values)| values.iter().map(move |value| (name, Some(value.clone())))).collect()
    }
}

/// Asking for the password.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PasswordFlag {
    /// Ask for the password at the terminal (else: option file, then MYSQL_PWD)
    #[arg(short = 'p', long = "password", help_heading = "Source")]
    pub ask_password: bool,
}

/// `replica` and `check`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ReplicaFlags {
    #[command(flatten)]
    pub(crate) data: DataFlag,
    #[command(flatten)]
    pub(crate) source: SourceFlags,
    #[command(flatten)]
    pub(crate) password: PasswordFlag,
    #[command(flatten)]
    pub(crate) pipeline: PipelineFlags,
    #[command(flatten)]
    pub(crate) follow: FollowFlags,
    #[command(flatten)]
    pub(crate) filters: FilterFlags,
}

impl ReplicaFlags {
    /// All option flags given.
    #[must_use]
    pub(crate) fn pairs(&self) -> Vec<(&'static str, Option<String>)> {
        [self.data.pairs(), self.source.pairs(), self.pipeline.pairs(), self.follow.pairs(), self.filters.pairs()]
            .concat()
    }
}

/// `status`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StatusFlags {
    #[command(flatten)]
    pub(crate) data: DataFlag,
    /// One JSON document; times in microseconds, sizes in bytes
    #[arg(long, conflicts_with = "watch")]
    pub json: bool,
    /// Exit 1 when lag is above this, or not known
    #[arg(long, value_name = "TIME", conflicts_with = "watch")]
    pub max_lag: Option<String>,
    /// Live view, until the replica stops or a signal comes; a plain line each time where stdout is no terminal
    #[arg(long)]
    pub watch: bool,
    /// Pause between two polls of the live view
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "watch")]
    pub interval: String,
    /// End the live view after this many polls
    #[arg(long, value_name = "N", requires = "watch")]
    pub count: Option<u64>,
}

/// `verify`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct VerifyFlags {
    #[command(flatten)]
    pub(crate) data: DataFlag,
    #[command(flatten)]
    pub(crate) source: SourceFlags,
    #[command(flatten)]
    pub(crate) password: PasswordFlag,
    /// Compare the source with this MySQL-protocol server instead of a data folder
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    pub replica: Option<String>,
    /// Only these tables
    #[arg(value_name = "SCHEMA.TABLE")]
    pub tables: Vec<String>,
    /// Differing rows shown per table
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub max_differences: u64,
    /// The result as one JSON document
    #[arg(long)]
    pub json: bool,
}

/// `dump`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DumpFlags {
    #[command(flatten)]
    pub(crate) data: DataFlag,
    /// Only these tables
    #[arg(value_name = "SCHEMA.TABLE")]
    pub tables: Vec<String>,
    /// SQL statements, or tab-separated text as mysql --batch --raw prints it
    #[arg(long, value_name = "FORMAT", default_value = "sql", value_parser = dump_format())]
    pub format: DumpFormat,
    /// Invisible columns too
    #[arg(long)]
    pub all_columns: bool,
    /// Binary columns as 0x...
    #[arg(long)]
    pub binary_as_hex: bool,
    /// No rows: views, routines, triggers, events, users and grants as the statements that made them, last text and
    /// GTID
    #[arg(long, conflicts_with_all = ["tables", "format", "all_columns", "binary_as_hex"])]
    pub definitions: bool,
}

fn dump_format() -> impl TypedValueParser<Value = DumpFormat> {
    let names = [
        PossibleValue::new("sql").help("INSERT statements"),
        PossibleValue::new("tab").help("Tab-separated text with a line of column names"),
    ];
    PossibleValuesParser::new(names).map(|name| if name == "tab" { DumpFormat::Tab } else { DumpFormat::Sql })
}

/// `skip`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SkipFlags {
    /// The transactions, as the stop message names them: UUID:N, UUID:N-M, UUID:TAG:N, comma between
    #[arg(value_name = "GTID-SET")]
    pub gtid_set: String,
    #[command(flatten)]
    pub(crate) data: DataFlag,
}

/// `copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyFlags {
    /// The table
    #[arg(value_name = "SCHEMA.TABLE")]
    pub table: String,
    #[command(flatten)]
    pub(crate) data: DataFlag,
}

/// `lab ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Replay recorded logs through the whole pipeline into a fresh store; print rates, CPU by stage and peak memory
    Replay(LabReplayFlags),
    /// What needs nothing of this program.
    #[command(flatten)]
    Other(lab::cli::LabCommand),
}

/// `lab replay`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LabReplayFlags {
    /// Binlog files, or index files that list them, in order
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Binlog or index file to replay before the measured ones, timed apart (a load phase); may be repeated
    #[arg(long, value_name = "LOG")]
    pub load: Vec<PathBuf>,
    /// Feed the measured logs F times as fast as the source committed, with fresh commit times, and print the lag
    #[arg(long, value_name = "F")]
    pub pace: Option<f64>,
    /// The same with TPS transactions a second, whatever the source's pace was
    #[arg(long, value_name = "TPS", conflicts_with = "pace")]
    pub rate: Option<f64>,
    /// Memory, queue and progress every 100 ms of the measured phase, in the JSON document
    #[arg(long, requires = "json")]
    pub samples: bool,
    /// Measure reading too, outside of the timed part: everything, then N random keys; again after full compaction
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_value_t = 0,
          default_missing_value = "1000000")]
    pub reads: u64,
    /// The store lies on disk and is cut so that about this much memory is used [default: all rows stay in memory]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// New folder for relay log and store, removed afterwards [default: a temporary one in TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) pipeline: PipelineFlags,
    #[command(flatten)]
    pub(crate) grain: lab::replay::grain::GrainFlags,
    /// The result as one JSON document
    #[arg(long)]
    pub json: bool,
    /// Hash the result (outside of the timed part)
    #[arg(long)]
    pub hash: bool,
}

/// Underscores in long option names become dashes, as in mysqld: `--server_id=7`.
pub(crate) fn normalised(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut only_values = false;
    let normalise = |argument: OsString| {
        let Some(text) = argument.to_str() else { return argument };
        only_values |= text == "--";
        if only_values || !text.starts_with("--") {
            return argument;
        }
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let name = name.replace('_', "-");
        OsString::from(value.map_or(name.clone(), |value| format!("{name}={value}")))
    };
    arguments.into_iter().map(normalise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use clap::CommandFactory as _;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        let arguments = std::iter::once("slipstream").chain(line.split_whitespace()).map(OsString::from);
        Cli::try_parse_from(normalised(arguments))
    }

    #[test]
    fn the_definition_is_sound_and_every_option_documented() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        fn walk(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{} has no text", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{}: {} has no text", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(walk);
        }
        walk(&command);
    }

    #[test]
    fn replica_flags_reach_the_configuration() {
        let cli = parse(
            "replica --source mysql://r@h:3307 --data /d --server_id=7 --workers 3 --relay-sync every-transaction \
             --semi-sync --check-images=all --heartbeat 2s --log-format json --ssl-mode REQUIRED",
        )
        .unwrap();
        let Command::Replica(flags) = &cli.command else { panic!("not replica") };
        let none = OptionFiles { none: true, ..OptionFiles::default() };
        let config = Settings::load(&none, &flags.pairs()).unwrap().replica().unwrap();
        assert_eq!((config.server_id, config.pipeline.workers, config.semi_sync), (Some(7), 3, true));
        assert_eq!(config.heartbeat, std::time::Duration::from_secs(2));
        let off = parse("replica --semi-sync=OFF --data x").unwrap();
        let Command::Replica(flags) = &off.command else { panic!("not replica") };
        assert!(flags.pairs().contains(&("semi_sync", Some("OFF".to_owned()))));
    }

    /// Every flag of `replica` must be an option that the file knows too.
    #[test]
    fn every_replica_flag_is_a_known_option() {
        let command = Cli::command();
        let replica = command.find_subcommand("replica").unwrap();
        for argument in replica.get_arguments().filter(|a| !a.is_global_set() && a.get_id() != "ask_password") {
            let Some(long) = argument.get_long() else { continue };
            if long == "help" || long == "version" {
                continue;
            }
            for name in argument.get_visible_aliases().unwrap_or_default().into_iter().chain([long]) {
                let none = OptionFiles { none: true, ..OptionFiles::default() };
                let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
                if let Err(failure) = Settings::load(&none, &[(name, Some("2".to_owned()))]) {
                    assert!(!failure.text.contains("unknown option"), "{}", failure.text);
                }
            }
        }
    }

    #[test]
    fn usage_errors_are_code_2_and_suggest() {
        let error = parse("replica --relay-snyc never").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--relay-sync"), "{error}");
        assert_eq!(parse("replicate").unwrap_err().exit_code(), 2);
        assert_eq!(parse("").unwrap_err().exit_code(), 2);
        assert_eq!(parse("--version").unwrap_err().exit_code(), 0);
        assert_eq!(parse("status --json --watch --data x").unwrap_err().exit_code(), 2);
        assert_eq!(parse("verify --data x --replica mysql://h").unwrap_err().exit_code(), 2);
    }

    #[test]
    fn the_demos_commands_parse() {
        for line in [
            "replica --source mysql://slip@127.0.0.1:3307 --data /d",
            "status --data /d --json",
            "status --data /d --watch",
            "status --max-lag 10s --data /d --defaults-file /x",
            "verify --data /d --source mysql://h shop.orders",
            "verify --source mysql://h --replica mysql://g",
            "dump --data /d --format tab --binary-as-hex --all-columns a.b c.d",
            "skip 3e11fa47-71ca-11e1-9e33-c80aa9429562:5 --data /d",
            "stop --data /d",
            "lab replay a.000001 a.000002 --workers 2 --json",
            "lab replay a --grain transactions --dependency-tracking writeset-session --tracker-rules stock --history-size 25000 \
             --wait scheduler --preserve-commit-order OFF --decoders 0 --hand-off event --worker-queue-events 16384",
            "lab ablation a.index --load l.index --from stock --only wait --rounds 3 --json",
            "lab compare a.index --load l.index --rounds 1 --only mysql --first 100 --memory 256M --mysqld-option=--x=1 --json",
            "lab source a.index --load l.index --listen 127.0.0.1:0 --rate 5000",
            "lab record --source mysql://h --out /new",
            "lab make --out /new --transactions 5 --rate 100 --dependency-tracking commit-order huge --change delete --huge-rows 7",
            "lab make --out /new zipf --theta 1.2 --rows 10",
            "lab replay a --rate 5000 --json --samples",
            "lab tpcc prepare --server mysql://h --warehouses 2",
            "lab tpcc run --server mysql://h --warehouses 2 --terminals 4 --duration 60s --style procedures",
            "lab tpcc check --server mysql://h --warehouses 2",
        ] {
            parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn values_keep_their_underscores() {
        let given = ["x", "--server_id=a_b", "--data", "d_e", "--", "--f_g"].map(OsString::from);
        let wanted = ["x", "--server-id=a_b", "--data", "d_e", "--", "--f_g"].map(OsString::from);
        assert_eq!(normalised(given), wanted);
    }
}
