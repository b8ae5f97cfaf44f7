//! The command line: the commands and their flags. Flags that are options too come from `options`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use accounts::{AccountName, Consistency, PasswordPlugin, Rights};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use compare::{Compression, DumpFormat};
use engine::ReplicaThread;
use programs::hidden::attached_password;

use crate::options::{self, Flags};
use crate::settings::OptionFiles;

/// A MySQL replica that keeps up: reads a primary's binary log, replays it in parallel and exactly once, and shows
/// commits in source order.
///
/// Options can also be set in the [slipstream] section of /etc/my.cnf, /etc/mysql/my.cnf,
/// /etc/slipstream/slipstream.cnf and ~/.my.cnf. Dashes and underscores are equivalent; flags override files. Sizes
/// take K, M, G, T; times take ms, s, m, h, d.
///
/// Exit codes: 0 done; 1 error; 2 usage or configuration; 3 folder in use; 4 preflight refused; 5 source no longer has
/// what this replica needs (1236); 6 event or statement not supported; 7 file corrupt or not Slipstream's; 8 disk full
/// or I/O error; 9 data differ from what the log expects; 10 an internal check failed (a defect of Slipstream); 11
/// the first start cannot reach its source, or is refused by it; 16 verify, check-store or shadow found differences; 17
/// dump left out tables, or wrote definitions as comments.
#[derive(Debug, Parser)]
#[command(name = "slipstream", version = programs::VERSION, max_term_width = 120, propagate_version = true, args_override_self = true)]
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
    /// Read no option files
    #[arg(long, global = true, help_heading = "Option files", conflicts_with_all = ["defaults_file", "defaults_extra_file"])]
    pub no_defaults: bool,
}

impl FileFlags {
    /// Converts to the form that `settings` takes.
    #[must_use]
    pub(crate) fn files(&self) -> OptionFiles {
        OptionFiles {
            only: self.defaults_file.clone(),
            extra: self.defaults_extra_file.clone(),
            none: self.no_defaults,
        }
    }
}

/// Subcommands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Follow a source: receive its log, replay it, keep a current copy
    Replica(RunFlags),
    /// Serve a source's log to stock replicas, stamped so that they apply more in parallel
    Relay(RelayFlags),
    /// Check whether a source meets the requirements of replication; changes nothing
    Check(ReplicaFlags),
    /// Show the state of a replica: lag, backlog, GTID sets, positions, rates, last error, event ledger
    Status(StatusFlags),
    /// Compare every table with the source at the same GTID set, while both are live
    Verify(VerifyFlags),
    /// Write databases, tables and rows at the watermark as SQL, or rows as tab-separated text
    Dump(DumpFlags),
    /// Back up the data folder, of a running replica or a stopped one
    Backup(BackupFlags),
    /// Create a data folder from a backup; --data must be absent or empty, and a replica started on it continues from
    /// there
    RestoreFolder(RestoreFolderFlags),
    /// Copy one table again from the source while replay continues
    Copy(CopyFlags),
    /// Commit the named transactions empty, so that replay can continue past them
    Skip(SkipFlags),
    /// List rows that contradict the log, found in tables that differ from the source; or accept a table as it is
    Drift(DriftFlags),
    /// Compare what the log says of every changed row with the rows on disk; of a stopped replica, verify all checksums
    /// too, and look up a sample of rows and index entries in each other
    CheckStore(Flags<{ options::DATA }>),
    /// Start receiving (io), replay (sql) or both after a stop, in the running process
    Start(StartFlags),
    /// Stop a running replica at a transaction boundary; with io or sql stop only receiving or replay
    Stop(ThreadFlags),
    /// Execute START, STOP, RESET REPLICA, CHANGE REPLICATION SOURCE TO or FILTER, like a client's statement
    Execute(ExecuteFlags),
    /// Read the option files again, for a password that has changed (as SIGHUP does)
    Reload(Flags<{ options::DATA }>),
    /// Pause replay; receiving continues (STOP REPLICA SQL_THREAD)
    Pause(Flags<{ options::DATA }>),
    /// Resume replay after a pause (START REPLICA SQL_THREAD)
    Resume(Flags<{ options::DATA }>),
    /// Manage the accounts that may log in at the MySQL port; changes take effect at once
    Account(AccountFlags),
    /// Run a proxy that shows whether an application could read from the replica: clients work on the source through
    /// it, and their reads are repeated on the replica and compared
    Shadow(ShadowFlags),
    /// Write the manual pages and the completions of bash, zsh and fish into a folder
    Manual(ManualFlags),
}

/// Flags of `shadow`.
#[derive(Debug, Args)]
pub(crate) struct ShadowFlags {
    /// Where clients connect
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:3310")]
    pub listen: SocketAddr,
    /// The source: mysql://USER[:PASSWORD]@HOST:PORT (password also from ~/.my.cnf or MYSQL_PWD); clients log in to the
    /// shadow with this name and password
    #[arg(long, value_name = "URL")]
    pub source: String,
    /// The replica, with an account that may read what the clients read
    #[arg(long, value_name = "URL")]
    pub replica: String,
    /// Folder of its certificate and of shadow-account [default: a temporary one, with a new certificate]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Write the report into this file every 5 s; it has no literals of statements
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Append statements and rows of each difference to this file, which only its owner may read
    #[arg(long, value_name = "FILE")]
    pub keep_rows: Option<PathBuf>,
}

/// Flags of `manual`.
#[derive(Debug, Args)]
pub(crate) struct ManualFlags {
    /// The folder; created if missing
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

/// Flag for the password.
#[derive(Clone, Default, Args)]
pub(crate) struct PasswordFlag {
    /// Password, as -pPASSWORD; without a value: ask for it at the terminal (otherwise: option file, then MYSQL_PWD)
    #[arg(
        short = 'p',
        long = "password",
        help_heading = "Source",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        hide_possible_values = true
    )]
    pub password: Option<String>,
}

impl std::fmt::Debug for PasswordFlag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.password.is_some() { "-p***" } else { "no -p" })
    }
}

/// Flags of `replica` and `check`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ReplicaFlags {
    #[command(flatten)]
    pub options: Flags<{ options::ALL }>,
    #[command(flatten)]
    pub password: PasswordFlag,
}

/// Flags of `replica`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    pub common: ReplicaFlags,
    /// Move a damaged store aside within the data folder and fetch everything from the source again; uuid, options and
    /// skip list are kept
    #[arg(long)]
    pub start_anew: bool,
}

/// Flags of `relay`.
#[derive(Debug, Clone, Default, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RelayFlags {
    #[command(subcommand)]
    pub command: Option<RelayCommand>,
    #[command(flatten)]
    pub options: Flags<{ options::DATA | options::SOURCE | options::RECEIVE | options::RELAY | options::SERVE }>,
    #[command(flatten)]
    pub password: PasswordFlag,
}

/// Subcommands of `relay`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum RelayCommand {
    /// Check whether a replica can be moved behind the relay, which must run, and print the statement; changes nothing
    Check(RelayCheckFlags),
    /// Keep served files until a replica has executed them, connected or not, as far as --serve-space-limit allows
    Hold(RelayHoldFlags),
}

/// Flags of `relay hold`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RelayHoldFlags {
    /// A name for the replica, and its server_uuid
    #[arg(value_name = "NAME=UUID", required_unless_present_any = ["list", "remove"])]
    pub hold: Option<String>,
    /// The replica, so that the relay can ask what it has executed: mysql://USER[:PASSWORD]@HOST:PORT (password also
    /// from ~/.my.cnf or MYSQL_PWD; it is kept in the data folder) [default: what it says when it connects]
    #[arg(value_name = "URL")]
    pub replica: Option<String>,
    /// Show for which replicas files are kept, and from which file on
    #[arg(long, conflicts_with_all = ["hold", "replica", "remove"])]
    pub list: bool,
    /// The list as one JSON document
    #[arg(long, requires = "list")]
    pub json: bool,
    /// Stop keeping files for the replica of this name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["hold", "replica"])]
    pub remove: Option<String>,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

/// Flags of `relay check`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RelayCheckFlags {
    /// The replica: mysql://USER[:PASSWORD]@HOST:PORT (password also from ~/.my.cnf or MYSQL_PWD)
    #[arg(value_name = "URL")]
    pub replica: String,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

/// Flags of `status`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StatusFlags {
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
    /// One JSON document; times in microseconds, sizes in bytes
    #[arg(long, conflicts_with = "watch")]
    pub json: bool,
    /// Exit with 1 if the lag is above this, or not known
    #[arg(long, value_name = "TIME", conflicts_with = "watch")]
    pub max_lag: Option<String>,
    /// Live view until the replica stops or a signal arrives; one line per poll if stdout is not a terminal
    #[arg(long)]
    pub watch: bool,
    /// Interval between polls of the live view
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "watch")]
    pub interval: String,
    /// End the live view after this many polls
    #[arg(long, value_name = "N", requires = "watch")]
    pub count: Option<u64>,
}

/// Flags of `verify`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct VerifyFlags {
    #[command(flatten)]
    pub options: Flags<{ options::DATA | options::SOURCE }>,
    #[command(flatten)]
    pub password: PasswordFlag,
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

/// Flags of `dump`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DumpFlags {
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
    /// Only these tables
    #[arg(value_name = "SCHEMA.TABLE")]
    pub tables: Vec<String>,
    /// Leave this table out; SCHEMA.* means all of a schema. May be given several times
    #[arg(long, value_name = "SCHEMA.TABLE")]
    pub ignore_table: Vec<String>,
    /// SQL statements, or tab-separated text as mysql --batch --raw prints it
    #[arg(long, value_name = "FORMAT", default_value = "sql", value_parser = dump_format())]
    pub format: DumpFormat,
    /// Invisible columns too
    #[arg(long)]
    pub all_columns: bool,
    /// Binary columns as 0x...
    #[arg(long)]
    pub binary_as_hex: bool,
    /// Rows only, without CREATE DATABASE and CREATE TABLE
    #[arg(long)]
    pub no_create_info: bool,
    /// Write files into this folder, which must not exist: schema.sql, then one for the rows of each table, several for
    /// a large one; dump.json lists them with the GTID set
    #[arg(long, value_name = "FOLDER")]
    pub to: Option<PathBuf>,
    /// Threads that write the files of --to
    #[arg(long, value_name = "N", default_value_t = 4, requires = "to", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// Compress the output, or each file
    #[arg(long, value_name = "METHOD", value_parser = compression())]
    pub compress: Option<Compression>,
    /// Instead of rows: accounts with grants, libraries, routines, views, triggers and events, as the source has them
    #[arg(long, conflicts_with_all = ["tables", "ignore_table", "format", "all_columns", "binary_as_hex", "no_create_info", "to", "compress"])]
    pub definitions: bool,
}

fn compression() -> impl TypedValueParser<Value = Compression> {
    PossibleValuesParser::new([PossibleValue::new("zstd")]).map(|_| Compression::Zstd)
}

fn dump_format() -> impl TypedValueParser<Value = DumpFormat> {
    let names = [
        PossibleValue::new("sql").help("CREATE and INSERT statements"),
        PossibleValue::new("tab").help("Tab-separated text with a line of column names"),
    ];
    PossibleValuesParser::new(names).map(|name| if name == "tab" { DumpFormat::Tab } else { DumpFormat::Sql })
}

/// Flags of `backup`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BackupFlags {
    /// File to write, which must not exist; - is standard output
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// Include the accounts, with the hashes of their passwords
    #[arg(long)]
    pub accounts: bool,
    /// Give up when nobody has read a byte for this long
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub stalled_after: String,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

/// Flags of `restore-folder`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RestoreFolderFlags {
    /// The backup; - is standard input
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

/// Flags of `skip`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SkipFlags {
    /// The transactions, as the stop message names them: UUID:N, UUID:N-M, UUID:TAG:N, separated by commas
    #[arg(value_name = "GTID-SET", required_unless_present = "list")]
    pub gtid_set: Option<String>,
    /// Show the transactions to skip: those not reached yet, and those skipped since the last cut
    #[arg(long, conflicts_with_all = ["gtid_set", "undo"])]
    pub list: bool,
    /// Remove these transactions from the list; refused once replay has reached them
    #[arg(long)]
    pub undo: bool,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

/// Flags of `drift`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DriftFlags {
    /// Remove this table from the list and keep it as it is; later findings are listed again
    #[arg(long, value_name = "SCHEMA.TABLE")]
    pub accept: Option<String>,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

/// Flags of `start` and `stop`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ThreadFlags {
    /// io: receiving (MySQL's IO_THREAD); sql: replay (SQL_THREAD)
    #[arg(value_name = "THREAD", value_parser = replica_thread())]
    pub thread: Option<ReplicaThread>,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

/// Flags of `execute`.
#[derive(Debug, Args)]
pub(crate) struct ExecuteFlags {
    /// The statement; - reads it from standard input, which is required if it has a password
    #[arg(value_name = "STATEMENT")]
    pub statement: String,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

/// Flags of `start`.
#[derive(Debug, Args)]
pub(crate) struct StartFlags {
    /// io: receiving (MySQL's IO_THREAD); sql: replay (SQL_THREAD)
    #[arg(value_name = "THREAD", value_parser = replica_thread())]
    pub thread: Option<ReplicaThread>,
    /// Stop replay before the first transaction of this set (START REPLICA UNTIL)
    #[arg(long, value_name = "GTID-SET", conflicts_with = "sql_after_gtids")]
    pub sql_before_gtids: Option<String>,
    /// Stop replay once all transactions of this set are executed (START REPLICA UNTIL)
    #[arg(long, value_name = "GTID-SET")]
    pub sql_after_gtids: Option<String>,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

fn replica_thread() -> impl TypedValueParser<Value = ReplicaThread> {
    let names = [PossibleValue::new("io").help("Receiving"), PossibleValue::new("sql").help("Replay")];
    PossibleValuesParser::new(names).map(|name| if name == "io" { ReplicaThread::Io } else { ReplicaThread::Sql })
}

/// Flags of `copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyFlags {
    /// The table
    #[arg(value_name = "SCHEMA.TABLE")]
    pub table: String,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

/// Flags of `account`.
#[derive(Debug, Args)]
pub(crate) struct AccountFlags {
    #[command(subcommand)]
    pub command: AccountCommand,
}

/// Subcommands of `account`. A new password is asked for at the terminal, or is the first line of standard input.
#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Add an account; its password is asked for at the terminal, or is the first line of standard input
    Add(AccountAddFlags),
    /// Replace an account's rights and requirements; its password stays. Sessions that lose something end
    Change(AccountChangeFlags),
    /// List the accounts
    List(AccountListFlags),
    /// Remove an account and end its sessions
    Remove(AccountRemoveFlags),
    /// Give an account a new password, read as by `add`, and end its sessions
    Password(AccountPasswordFlags),
}

impl AccountCommand {
    /// The data folder.
    pub(crate) fn data(&self) -> &Flags<{ options::DATA }> {
        match self {
            AccountCommand::Add(flags) => &flags.data,
            AccountCommand::Change(flags) => &flags.data,
            AccountCommand::List(flags) => &flags.data,
            AccountCommand::Remove(flags) => &flags.data,
            AccountCommand::Password(flags) => &flags.data,
        }
    }
}

/// Flags of `account add`.
#[derive(Debug, Args)]
pub(crate) struct AccountAddFlags {
    /// User and host: an address, a network (10.0.0.0/8), a pattern ('10.%'), localhost for the unix socket; any host
    /// without @HOST
    #[arg(value_name = "NAME@HOST")]
    pub name: AccountName,
    #[command(flatten)]
    pub rights: AccountRights,
    /// caching_sha2_password (the default), or mysql_native_password for old clients
    #[arg(long, value_name = "PLUGIN", value_parser = password_plugin())]
    pub plugin: Option<PasswordPlugin>,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

/// Flags of `account change`.
#[derive(Debug, Args)]
pub(crate) struct AccountChangeFlags {
    /// The account
    #[arg(value_name = "NAME@HOST")]
    pub name: AccountName,
    #[command(flatten)]
    pub rights: AccountRights,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

/// What an account may and requires.
#[derive(Debug, Args)]
pub(crate) struct AccountRights {
    /// monitor (status, variables, threads), read (rows), replicate (the log), admin (KILL, START and STOP REPLICA, SET
    /// GLOBAL), forward (statements go to the source, with --forward); separated by commas
    #[arg(long, value_name = "RIGHTS", required = true)]
    pub may: Rights,
    /// Only these schemas may be read and seen; separated by commas
    #[arg(long, value_name = "SCHEMAS", value_delimiter = ',')]
    pub schemas: Vec<String>,
    /// Log in over TCP only with TLS
    #[arg(long)]
    pub require_tls: bool,
    /// Log in only with a client certificate that --ssl-ca verifies
    #[arg(long)]
    pub require_certificate: bool,
    /// How fresh its reads are until its session says otherwise: eventual, session, global or bounded
    #[arg(long, value_name = "LEVEL", default_value = "eventual")]
    pub read_consistency: Consistency,
    /// With bounded: maximum age of rows compared with the source's, ms
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=86_400_000))]
    pub read_staleness: Option<u32>,
    /// Maximum number of its sessions at once, in addition to the limit of the port
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: Option<u32>,
    /// With forward: the user of its statements at the source (default: the client's own name)
    #[arg(long, value_name = "NAME", requires = "source_password_file")]
    pub source_login: Option<String>,
    /// The first line is the password of --source-login; only the file's owner may read it
    #[arg(long, value_name = "FILE", requires = "source_login")]
    pub source_password_file: Option<PathBuf>,
}

/// Flags of `account list`.
#[derive(Debug, Args)]
pub(crate) struct AccountListFlags {
    /// One JSON document
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

/// Flags of `account remove`.
#[derive(Debug, Args)]
pub(crate) struct AccountRemoveFlags {
    /// The account
    #[arg(value_name = "NAME@HOST")]
    pub name: AccountName,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

/// Flags of `account password`.
#[derive(Debug, Args)]
pub(crate) struct AccountPasswordFlags {
    /// The account
    #[arg(value_name = "NAME@HOST")]
    pub name: AccountName,
    /// caching_sha2_password or mysql_native_password; without it the plugin stays
    #[arg(long, value_name = "PLUGIN", value_parser = password_plugin())]
    pub plugin: Option<PasswordPlugin>,
    #[command(flatten)]
    pub data: Flags<{ options::DATA }>,
}

fn password_plugin() -> impl TypedValueParser<Value = PasswordPlugin> {
    let names = [PasswordPlugin::CachingSha2, PasswordPlugin::Native].map(PasswordPlugin::name);
    PossibleValuesParser::new(names).map(|name| PasswordPlugin::from_name(&name).unwrap_or(PasswordPlugin::CachingSha2))
}

/// Underscores in long option names become dashes, as in mysqld: `--server_id=7`. `-pPASSWORD` is
/// `--password=PASSWORD`, but for the lab.
pub(crate) fn normalised(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut only_values = false;
    let mut lab = false;
    let normalise = |argument: OsString| {
        let Some(text) = argument.to_str() else { return argument };
        only_values |= text == "--";
        lab |= text == "lab";
        if let (false, false, Some(password)) = (only_values, lab, attached_password(&argument)) {
            return OsString::from(format!("--password={password}"));
        }
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

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        let arguments = std::iter::once("slipstream").chain(line.split_whitespace()).map(OsString::from);
        Cli::try_parse_from(normalised(arguments))
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
        let config = Settings::load(&none, &flags.common.options.given).unwrap().replica().unwrap();
        assert_eq!((config.server_id, config.pipeline.workers, config.semi_sync), (Some(7), 3, true));
        assert_eq!(config.heartbeat, std::time::Duration::from_secs(2));
        let off = parse("replica --semi-sync=OFF --data x").unwrap();
        let Command::Replica(flags) = &off.command else { panic!("not replica") };
        assert!(flags.common.options.given.contains(&("semi-sync", Some("OFF".to_owned()))));
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
        for line in
            ["add a", "add a --may write", "add a@host.example --may read", "password a secret", "add a -pX --may read"]
        {
            assert_eq!(parse(&format!("account {line}")).unwrap_err().exit_code(), 2, "{line}");
        }
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
            "backup --to - --data /d",
            "backup --to /b.tar --accounts --stalled-after 5m --data /d",
            "restore-folder --from - --data /d",
            "skip 3e11fa47-71ca-11e1-9e33-c80aa9429562:5 --data /d",
            "skip --undo 3e11fa47-71ca-11e1-9e33-c80aa9429562:5 --data /d",
            "skip --list --data /d",
            "relay check mysql://root@r2 --data /d",
            "relay hold reporting=3e11fa47-71ca-11e1-9e33-c80aa9429562 mysql://root@r2 --data /d",
            "relay hold --list --json --data /d",
            "relay hold --remove reporting --data /d",
            "stop --data /d",
            "stop io --data /d",
            "start --data /d",
            "start sql --data /d",
            "reload --data /d",
            "account add app@10.% --may read,monitor --schemas a,b --require-tls --data /d",
            "account add old --may read --plugin mysql_native_password --data /d",
            "account change app@10.% --may read --require-certificate --data /d",
            "account list --json --data /d",
            "account password app --data /d",
            "account remove app@localhost --data /d",
        ] {
            parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn mysqls_short_options_and_the_last_of_several() {
        let given = |line: &str| match parse(line).unwrap_or_else(|error| panic!("{line}: {error}")).command {
            Command::Check(flags) | Command::Replica(RunFlags { common: flags, .. }) => {
                (flags.options.given, flags.password.password)
            }
            command => panic!("{command:?}"),
        };
        let (options, password) = given("check -h db1 -P 3307 -u repl -S /s.sock -psecret");
        let wanted = [("host", "db1"), ("source-port", "3307"), ("user", "repl"), ("source-socket", "/s.sock")];
        assert_eq!(options, wanted.map(|(name, value)| (name, Some(value.to_owned()))));
        assert_eq!(password.as_deref(), Some("secret"));
        assert_eq!(given("check -p --host h").1.as_deref(), Some(""));
        assert_eq!(given("check --password=a=b").1.as_deref(), Some("a=b"));
        assert_eq!(given("check --host h").1, None);
        // The last wins, but a filter may stand several times.
        let (options, _) =
            given("replica --datadir a --data b --semi-sync --semi-sync=OFF --replicate-do-db x --replicate-do-db y");
        let wanted = [("data", "b"), ("semi-sync", "OFF"), ("replicate-do-db", "x"), ("replicate-do-db", "y")];
        assert_eq!(options, wanted.map(|(name, value)| (name, Some(value.to_owned()))));
        let helps = [
            "check --help",
            "check -?",
            "replica --help",
            "relay --help",
            "relay check --help",
            "relay hold -?",
            "status -h",
            "-h",
        ];
        for help in helps {
            assert_eq!(parse(help).unwrap_err().exit_code(), 0, "{help}");
        }
        assert!(!format!("{:?}", parse("check -psecret").unwrap()).contains("secret"));
    }

    #[test]
    fn values_keep_their_underscores() {
        let given = ["x", "--server_id=a_b", "--data", "d_e", "--", "--f_g"].map(OsString::from);
        let wanted = ["x", "--server-id=a_b", "--data", "d_e", "--", "--f_g"].map(OsString::from);
        assert_eq!(normalised(given), wanted);
    }
}
