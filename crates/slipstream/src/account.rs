//! `slipstream account`: who may log in at the MySQL port.
//!
//! In: flags, a password from the terminal or standard input. Out: a change of the accounts, by the running replica or
//! in the stopped folder; the list. Never here: a password as an argument, a password over the control socket (only its
//! hash goes there), but that of a login at the source, which is needed as it is.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use accounts::{
    Account, AccountChange, AccountName, Accounts, AccountsError, NewAccount, PasswordPlugin, Reads, Requirement,
    SourceLogin, StoredPassword,
};
use replica::config::Secret;
use replica::{
    Exit, Failure, Folder, access,
    log::{self, Code},
};
use serde::{Deserialize, Serialize};

use crate::cli::{AccountCommand, AccountRights};
use crate::control::{Client, Request};

/// A change of the accounts, or a question about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum AccountRequest {
    /// Adds an account.
    Add {
        /// `user@host`.
        name: String,
        grant: Grant,
        /// Its password.
        password: PasswordHash,
    },
    /// Replaces what an account may. Its password stays.
    Change {
        /// `user@host`.
        name: String,
        /// What it may.
        grant: Grant,
    },
    /// Gives an account another password.
    Password {
        /// `user@host`.
        name: String,
        /// The new password.
        password: PasswordHash,
    },
    /// Removes an account.
    Remove {
        /// `user@host`.
        name: String,
    },
    /// Returns all accounts as the reply's body, a list of [`Listed`].
    List {},
}

/// What an account may. Every field is there: a missing one must not mean everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Grant {
    /// Names of rights, with commas.
    may: String,
    /// All schemas, or only `schemas`.
    all_schemas: bool,
    /// Schemas, if not all.
    schemas: Vec<String>,
    /// `nothing`, `tls` or `certificate`.
    require: String,
    /// `eventual`, `session`, `global` or `bounded`.
    read_consistency: String,
    /// Milliseconds, if given.
    read_staleness_ms: Option<u32>,
    /// Sessions at once, if there is a limit.
    max_connections: Option<u32>,
    /// Its login at the source, if there is to be one, or another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_login: Option<LoginThere>,
}

/// A login at the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginThere {
    user: String,
    password: Secret,
}

/// A password as MySQL keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordHash {
    plugin: String,
    authentication_string: Secret,
}

/// One account in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listed {
    account: String,
    may: String,
    /// None: all.
    schemas: Option<Vec<String>>,
    require: String,
    reads: String,
    plugin: String,
    /// None: no limit of its own.
    max_connections: Option<u32>,
    /// Its name at the source; None: its own, if it may forward.
    #[serde(default)]
    source_login: Option<String>,
}

impl Grant {
    fn of(rights: &AccountRights) -> Result<Grant, Failure> {
        let require = match (rights.require_certificate, rights.require_tls) {
            (true, _) => Requirement::Certificate,
            (false, true) => Requirement::Tls,
            (false, false) => Requirement::None,
        };
        let password = rights.source_password_file.as_deref().map(crate::password::of_file).transpose()?;
        let login = rights.source_login.clone().zip(password);
        Ok(Grant {
            may: rights.may.to_string(),
            all_schemas: rights.schemas.is_empty(),
            schemas: rights.schemas.clone(),
            require: require_text(require).to_owned(),
            read_consistency: rights.read_consistency.name().to_owned(),
            read_staleness_ms: rights.read_staleness,
            max_connections: rights.max_connections,
            source_login: login.map(|(user, password)| LoginThere { user, password }),
        })
    }

    fn source_login(&self) -> Result<Option<SourceLogin>, Failure> {
        let login = self.source_login.as_ref().map(|login| SourceLogin::new(&login.user, &login.password.0));
        login.transpose().map_err(|error| failure(&error))
    }

    fn reads(&self) -> Result<Reads, Failure> {
        let consistency = self.read_consistency.parse().map_err(Failure::usage)?;
        Ok(Reads { consistency, staleness_ms: self.read_staleness_ms })
    }

    fn max_connections(&self) -> Result<Option<u32>, Failure> {
        match self.max_connections {
            Some(0) => Err(Failure::usage("max-connections must be at least 1")),
            most => Ok(most),
        }
    }

    fn schemas(&self) -> Option<Vec<String>> {
        (!self.all_schemas).then(|| self.schemas.clone())
    }

    fn requirement(&self) -> Result<Requirement, Failure> {
        let all = [Requirement::None, Requirement::Tls, Requirement::Certificate];
        let found = all.into_iter().find(|requirement| require_text(*requirement) == self.require);
        found.ok_or_else(|| {
            Failure::usage(format!("unknown requirement '{}': use nothing, tls or certificate", self.require))
        })
    }
}

fn require_text(requirement: Requirement) -> &'static str {
    match requirement {
        Requirement::None => "nothing",
        Requirement::Tls => "tls",
        Requirement::Certificate => "certificate",
    }
}

impl PasswordHash {
    fn of(plugin: PasswordPlugin, password: &Secret) -> Result<PasswordHash, Failure> {
        let hash = StoredPassword::new(plugin, &password.0).map_err(|error| failure(&error))?;
        let authentication_string = Secret(hash.to_text());
        Ok(PasswordHash { plugin: plugin.name().to_owned(), authentication_string })
    }

    fn stored(&self) -> Result<StoredPassword, Failure> {
        let stored = PasswordPlugin::from_name(&self.plugin)
            .and_then(|plugin| StoredPassword::from_text(plugin, &self.authentication_string.0));
        stored.ok_or_else(|| Failure::usage(format!("the hash is not one of {}", self.plugin)))
    }
}

impl Listed {
    fn of(account: &Account) -> Listed {
        Listed {
            account: account.name.to_string(),
            may: account.rights.to_string(),
            schemas: account.schemas.as_ref().map(|schemas| schemas.to_vec()),
            require: require_text(account.requirement).to_owned(),
            reads: account.reads.to_string(),
            plugin: account.plugin.name().to_owned(),
            max_connections: account.max_connections,
            source_login: account.source_login.as_ref().map(|login| login.user().to_owned()),
        }
    }
}

/// The accounts of a folder that this process owns.
///
/// # Errors
/// Code 7 if the file is damaged; 1 or 8 if it cannot be read.
pub(crate) fn open(folder: &Folder) -> Result<Arc<Accounts>, Failure> {
    Accounts::open(&folder.accounts()).map_err(|error| failure(&error))
}

/// Logs which accounts have a password that should be replaced.
pub(crate) fn warn_of_native(accounts: &Accounts) {
    for account in accounts.list().iter().filter(|account| account.plugin == PasswordPlugin::Native) {
        log::write(Code::NativePassword, "Server", &native_warning(&account.name.to_string()));
    }
}

fn native_warning(name: &str) -> String {
    format!(
        "account {name} uses mysql_native_password, which MySQL 9 has dropped: its hash is not salted; when its clients \
         can, give it a new password with --plugin caching_sha2_password"
    )
}

fn failure(error: &AccountsError) -> Failure {
    match error {
        AccountsError::Io { path, source } => Failure::io(path.display(), source),
        AccountsError::Damaged { .. } => Failure::new(Exit::Corrupt, error.to_string())
            .with_hint("put back a copy of the file, or remove it and add the accounts again"),
        AccountsError::Invalid(_) => Failure::usage(error.to_string()),
        AccountsError::Exists { .. } | AccountsError::Unknown { .. } | AccountsError::NoRandomness => {
            Failure::error(error.to_string())
        }
    }
}

/// As [`perform`], and says in the log what was changed.
///
/// # Errors
/// As [`perform`].
pub(crate) fn perform_logged(
    accounts: &Accounts,
    request: &AccountRequest,
) -> Result<Option<serde_json::Value>, Failure> {
    let body = perform(accounts, request)?;
    if let Some(done) = body.as_ref().and_then(serde_json::Value::as_str) {
        log::write(Code::AccountChanged, "Control", done);
    }
    if let AccountRequest::Add { name, password, .. } | AccountRequest::Password { name, password } = request
        && password.plugin == PasswordPlugin::Native.name()
    {
        log::write(Code::NativePassword, "Control", &native_warning(name));
    }
    Ok(body)
}

/// Carries out a request; returns the body of the reply: the list, or a sentence that says what was done.
///
/// # Errors
/// Code 2 for values that cannot be; 1 for an account that is there already or not there; 8 for disk errors.
pub(crate) fn perform(accounts: &Accounts, request: &AccountRequest) -> Result<Option<serde_json::Value>, Failure> {
    let done = match request {
        AccountRequest::List {} => {
            let listed: Vec<Listed> = accounts.list().iter().map(Listed::of).collect();
            return serde_json::to_value(listed).map(Some).map_err(|error| Failure::error(error.to_string()));
        }
        AccountRequest::Add { name, grant, password } => add(accounts, name, grant, password)?,
        AccountRequest::Change { name, grant } => change(accounts, name, grant)?,
        AccountRequest::Password { name, password } => {
            let own = parsed(name)?;
            accounts.set_password(&own, password.stored()?).map_err(|error| failure(&error))?;
            format!("account {own} has a new password")
        }
        AccountRequest::Remove { name } => {
            let name = parsed(name)?;
            accounts.remove(&name).map_err(|error| failure(&error))?;
            format!("account {name} is removed")
        }
    };
    Ok(Some(done.into()))
}

fn add(accounts: &Accounts, name: &str, grant: &Grant, password: &PasswordHash) -> Result<String, Failure> {
    let new = NewAccount {
        name: parsed(name)?,
        rights: rights(grant)?,
        schemas: grant.schemas(),
        requirement: grant.requirement()?,
        reads: grant.reads()?,
        max_connections: grant.max_connections()?,
        password: password.stored()?,
    };
    let done = format!("account {} is added; it may {}{}", new.name, new.rights, of_schemas(grant));
    accounts.add_with(new, grant.source_login()?).map_err(|error| failure(&error))?;
    Ok(done)
}

fn change(accounts: &Accounts, name: &str, grant: &Grant) -> Result<String, Failure> {
    let (name, rights) = (parsed(name)?, rights(grant)?);
    let change = AccountChange {
        rights,
        schemas: grant.schemas(),
        requirement: grant.requirement()?,
        reads: grant.reads()?,
        max_connections: grant.max_connections()?,
        source_login: grant.source_login()?,
    };
    accounts.change(&name, change).map_err(|error| failure(&error))?;
    Ok(format!("account {name} may {rights}{} now", of_schemas(grant)))
}

fn of_schemas(grant: &Grant) -> String {
    if grant.all_schemas { String::new() } else { format!(" of {}", grant.schemas.join(",")) }
}

fn parsed(name: &str) -> Result<AccountName, Failure> {
    name.parse().map_err(Failure::usage)
}

fn rights(grant: &Grant) -> Result<accounts::Rights, Failure> {
    grant.may.parse().map_err(Failure::usage)
}

/// Runs the command. `set_umask` is called before a file of a stopped folder is written.
///
/// # Errors
/// As [`perform`]; code 3 if a process has the folder and does not answer.
pub(crate) fn run(
    data: &Path,
    command: &AccountCommand,
    group: access::Access,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let ask = |request: &AccountRequest| ask(data, group, request);
    let request = match command {
        AccountCommand::List(flags) => return list(&ask(&AccountRequest::List {})?, flags.json, out),
        AccountCommand::Add(flags) => AccountRequest::Add {
            name: flags.name.to_string(),
            grant: Grant::of(&flags.rights)?,
            password: new_password(&flags.name, flags.plugin.unwrap_or(PasswordPlugin::CachingSha2))?,
        },
        AccountCommand::Change(flags) => {
            AccountRequest::Change { name: flags.name.to_string(), grant: Grant::of(&flags.rights)? }
        }
        AccountCommand::Remove(flags) => AccountRequest::Remove { name: flags.name.to_string() },
        AccountCommand::Password(flags) => {
            let plugin = match flags.plugin {
                Some(plugin) => plugin,
                None => plugin_of(&ask(&AccountRequest::List {})?, &flags.name)?,
            };
            AccountRequest::Password { name: flags.name.to_string(), password: new_password(&flags.name, plugin)? }
        }
    };
    let done = ask(&request)?;
    writeln!(out, "{}", done.as_str().unwrap_or_default()).map_err(|error| Failure::output(&error))
}

fn new_password(name: &AccountName, plugin: PasswordPlugin) -> Result<PasswordHash, Failure> {
    let password = PasswordHash::of(plugin, &crate::password::new(&format!("password of {name}"))?)?;
    if plugin == PasswordPlugin::Native {
        crate::run::say("slipstream: warning: ", &native_warning(&name.to_string()));
    }
    Ok(password)
}

/// Sends a request to the running replica, or carries it out in the stopped folder.
fn ask(data: &Path, group: access::Access, request: &AccountRequest) -> Result<serde_json::Value, Failure> {
    if let Some(client) = Client::connect(data)? {
        let body = client.ask(&Request::Account { account: request.clone() }, &mut std::io::sink())?;
        return Ok(body.unwrap_or_default());
    }
    // Must not create a folder that is absent, and must not touch one that is not ours.
    Folder::check(data)?;
    access::set_umask(group);
    let (folder, _lock) = match request {
        AccountRequest::List {} => Folder::open_stopped(data)?,
        _ => Folder::own(data)?,
    };
    Ok(perform(open(&folder)?.as_ref(), request)?.unwrap_or_default())
}

fn listed(body: &serde_json::Value) -> Result<Vec<Listed>, Failure> {
    serde_json::from_value(body.clone()).map_err(|error| Failure::error(format!("the replica's list: {error}")))
}

/// The plugin that an account's password has now.
fn plugin_of(body: &serde_json::Value, name: &AccountName) -> Result<PasswordPlugin, Failure> {
    let name = name.to_string();
    let all = listed(body)?;
    let own = all.iter().find(|account| account.account == name);
    let own = own.ok_or_else(|| Failure::error(AccountsError::Unknown { name }.to_string()))?;
    PasswordPlugin::from_name(&own.plugin)
        .ok_or_else(|| Failure::error(format!("the replica's list: plugin '{}'", own.plugin)))
}

/// Writes the list as JSON, or as lines with tabs and a line of names.
fn list(body: &serde_json::Value, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::output(&error);
    if json {
        return writeln!(out, "{body:#}").map_err(failed);
    }
    let all = listed(body)?;
    if all.is_empty() {
        return writeln!(out, "no accounts: only admin can log in, over the socket").map_err(failed);
    }
    writeln!(out, "account\tmay\tschemas\trequires\treads\tplugin\tmax_connections\tsource_login").map_err(failed)?;
    for Listed { account, may, schemas, require, reads, plugin, max_connections, source_login } in all {
        let most = max_connections.map_or_else(|| "any".to_owned(), |most| most.to_string());
        let schemas = schemas.map_or_else(|| "all".to_owned(), |schemas| schemas.join(","));
        let forwards = may.split(',').any(|right| right == "forward");
        let there = source_login.as_deref().unwrap_or(if forwards { "its own" } else { "none" });
        writeln!(out, "{account}\t{may}\t{schemas}\t{require}\t{reads}\t{plugin}\t{most}\t{there}").map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(may: &str, schemas: &[&str]) -> Grant {
        Grant {
            may: may.to_owned(),
            all_schemas: schemas.is_empty(),
            schemas: schemas.iter().map(|&schema| schema.to_owned()).collect(),
            require: "tls".to_owned(),
            read_consistency: "eventual".to_owned(),
            read_staleness_ms: None,
            max_connections: None,
            source_login: None,
        }
    }

    fn hash(plugin: PasswordPlugin) -> PasswordHash {
        PasswordHash::of(plugin, &Secret("geheim".to_owned())).unwrap()
    }

    fn add(name: &str, grant: Grant) -> AccountRequest {
        AccountRequest::Add { name: name.to_owned(), grant, password: hash(PasswordPlugin::CachingSha2) }
    }

    #[test]
    fn a_stopped_folder_is_changed_and_listed() {
        let dir = tempfile::tempdir().unwrap();
        drop(Folder::own(dir.path()).unwrap());
        let ask = |request: &AccountRequest| ask(dir.path(), access::Access::Owner, request);
        let name = || "app@10.%".to_owned();
        let mut text = Vec::new();
        let mut show = |json: bool| {
            text.clear();
            list(&ask(&AccountRequest::List {}).unwrap(), json, &mut text).unwrap();
            String::from_utf8(text.clone()).unwrap()
        };
        assert!(show(false).starts_with("no accounts"));
        let done = ask(&add("app@10.%", grant("read,monitor", &["a", "b"]))).unwrap();
        assert_eq!(done.as_str(), Some("account app@10.% is added; it may monitor,read of a,b"));
        let line = "app@10.%\tmonitor,read\ta,b\ttls\teventual\tcaching_sha2_password\tany\tnone\n";
        let names = "account\tmay\tschemas\trequires\treads\tplugin\tmax_connections\tsource_login\n";
        assert_eq!(show(false), format!("{names}{line}"));
        let bounded = Grant {
            read_consistency: "bounded".to_owned(),
            read_staleness_ms: Some(250),
            max_connections: Some(3),
            ..grant("read", &[])
        };
        ask(&AccountRequest::Change { name: name(), grant: bounded }).unwrap();
        ask(&AccountRequest::Password { name: name(), password: hash(PasswordPlugin::Native) }).unwrap();
        assert!(show(false).contains("app@10.%\tread\tall\ttls\tbounded (250 ms)\tmysql_native_password\t3\tnone\n"));
        assert!(show(true).contains("\"schemas\": null") && !show(true).contains('$'));
        let found = plugin_of(&ask(&AccountRequest::List {}).unwrap(), &name().parse().unwrap());
        assert_eq!(found, Ok(PasswordPlugin::Native));
        ask(&AccountRequest::Remove { name: name() }).unwrap();
        assert!(show(false).starts_with("no accounts"));
        assert_eq!(ask(&AccountRequest::Remove { name: name() }).unwrap_err().exit, Exit::Error);
    }

    #[test]
    fn what_cannot_be_is_a_usage_error() {
        let dir = tempfile::tempdir().unwrap();
        let accounts = Accounts::open(&dir.path().join("accounts")).unwrap();
        let broken = PasswordHash { plugin: "x".to_owned(), ..hash(PasswordPlugin::Native) };
        for request in [
            add("app@host.example", grant("read", &[])),
            add("app", grant("write", &[])),
            add("app", grant("monitor", &["a"])),
            add("app", Grant { require: "luck".to_owned(), ..grant("read", &[]) }),
            add("app", Grant { max_connections: Some(0), ..grant("read", &[]) }),
            AccountRequest::Add {
                name: "app".to_owned(),
                grant: grant("forward", &[]),
                password: hash(PasswordPlugin::Native),
            },
            add("app", Grant { read_consistency: "strong".to_owned(), ..grant("read", &[]) }),
            AccountRequest::Add { name: "app".to_owned(), grant: grant("read", &[]), password: broken },
        ] {
            assert_eq!(perform(&accounts, &request).unwrap_err().exit, Exit::Usage, "{request:?}");
        }
        assert!(accounts.list().is_empty());
        let empty = PasswordHash::of(PasswordPlugin::CachingSha2, &Secret(String::new()));
        assert_eq!(empty.unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn folders_that_are_not_ours_or_not_there_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let ask = |path: &Path| ask(path, access::Access::Owner, &add("app", grant("read", &[]))).unwrap_err().exit;
        assert_eq!(ask(&dir.path().join("none")), Exit::Error);
        assert_eq!(ask(dir.path()), Exit::Corrupt);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_file_is_code_7() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, lock) = Folder::own(dir.path()).unwrap();
        std::fs::write(folder.accounts(), "{}").unwrap();
        drop(lock);
        let failure = ask(dir.path(), access::Access::Owner, &AccountRequest::List {}).unwrap_err();
        assert_eq!(failure.exit, Exit::Corrupt);
        assert!(failure.text.contains("accounts"), "{}", failure.text);
    }

    /// A store that is put aside takes neither accounts nor keys with it.
    #[test]
    fn a_start_anew_keeps_accounts_and_keys() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, lock) = Folder::own(dir.path()).unwrap();
        drop(lock);
        ask(dir.path(), access::Access::Owner, &add("app", grant("read", &[]))).unwrap();
        let now = std::time::SystemTime::now();
        let files = || accounts::TlsFiles { folder: dir.path().to_owned(), ..accounts::TlsFiles::default() };
        let before = accounts::ServerTls::open(files(), now).unwrap().expires();
        std::fs::create_dir(dir.path().join("store")).unwrap();
        assert!(folder.put_aside().unwrap().is_some());
        assert_eq!(open(&folder).unwrap().list().len(), 1);
        let later = now + std::time::Duration::from_secs(3_600);
        assert_eq!(accounts::ServerTls::open(files(), later).unwrap().expires(), before);
    }

    #[test]
    fn no_hash_is_in_a_debug_text() {
        let request = add("app", grant("read", &[]));
        let text = format!("{request:?}");
        assert!(!text.contains("$A$") && text.contains("***"), "{text}");
    }
}
