//! The accounts: found by name and peer, changed while sessions run, kept in one file.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};

use crate::error::AccountsError;
use crate::file;
use crate::grants;
use crate::host::HostPattern;
use crate::login::USER_CHARS_MAX;
use crate::password::{PasswordKind, PasswordPlugin, SHA256_LEN, StoredPassword};
use crate::proved::Proved;
use crate::reads::Reads;
use crate::rights::{Requirement, Rights, Transport};
use crate::source_login::{self, SourceLogin};

/// Most accounts in one folder: the file is written whole, and changes look at each.
const ACCOUNTS_MAX: usize = 10_000;
/// Longest name of a schema in characters, MySQL's limit.
const SCHEMA_CHARS_MAX: usize = 64;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A TCP connection from this address.
    Tcp(IpAddr),
    /// A connection over the unix socket, of a process of this user (SO_PEERCRED).
    Socket {
        /// User id.
        uid: u32,
    },
}

/// Where connections come from that one person can make as many of as wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// An IPv4 address, or the first 64 bits of an IPv6 address: whoever has one of a /64 has all of them (RFC 6177).
    Network(IpAddr),
    /// Processes of a user of this machine.
    User(u32),
}

impl Origin {
    /// The origin of connections from an address.
    #[must_use]
    pub fn of(ip: IpAddr) -> Origin {
        Origin::Network(match ip.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
            ip => ip,
        })
    }
}

impl Peer {
    /// Where it comes from, as limits count it.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match *self {
            Peer::Tcp(ip) => Origin::of(ip),
            Peer::Socket { uid } => Origin::User(uid),
        }
    }

    /// The address, an IPv4 one also where the socket gives it in IPv6 form; None for the unix socket.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Peer::Tcp(ip) => Some(ip.to_canonical()),
            Peer::Socket { .. } => None,
        }
    }

    /// The host as USER() and error texts show it.
    #[must_use]
    pub fn host(&self) -> String {
        self.ip().map_or_else(|| "localhost".to_owned(), |ip| ip.to_string())
    }
}

/// Name of an account: user and host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountName {
    /// User part; case matters.
    pub user: String,
    /// Host part.
    pub host: HostPattern,
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.host)
    }
}

/// Reads `user@host`. Without a host: `%`, as MySQL.
impl FromStr for AccountName {
    type Err = String;

    fn from_str(text: &str) -> Result<AccountName, String> {
        let (user, host) = text.rsplit_once('@').unwrap_or((text, "%"));
        AccountName::new(user, host)
    }
}

impl AccountName {
    /// Checks both parts.
    ///
    /// # Errors
    /// The user is empty, longer than 32 characters or has control characters; the host is no address, network, pattern
    /// or `localhost`.
    pub fn new(user: &str, host: &str) -> Result<AccountName, String> {
        let len = user.chars().count();
        if len == 0 || len > USER_CHARS_MAX || user.chars().any(char::is_control) {
            return Err(format!("a user has 1 to {USER_CHARS_MAX} characters, none of them a control character"));
        }
        Ok(AccountName { user: user.to_owned(), host: host.parse()? })
    }
}

/// An account without its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Name and host.
    pub name: AccountName,
    /// Its rights.
    pub rights: Rights,
    /// Schemas that it may read; None: all.
    pub schemas: Option<Arc<[String]>>,
    /// What its connections must have.
    pub requirement: Requirement,
    /// How fresh its reads are.
    pub reads: Reads,
    /// Sessions that it may have at once; None: no limit of its own.
    pub max_connections: Option<u32>,
    /// The plugin of its password.
    pub plugin: PasswordPlugin,
    /// How its forwarded statements log in at the source; None: by its own name, if it has the right `forward`.
    pub source_login: Option<Arc<SourceLogin>>,
}

/// An account to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAccount {
    /// Name and host.
    pub name: AccountName,
    /// Its rights.
    pub rights: Rights,
    /// Schemas that it may read; None: all.
    pub schemas: Option<Vec<String>>,
    /// What its connections must have.
    pub requirement: Requirement,
    /// How fresh its reads are.
    pub reads: Reads,
    /// Sessions that it may have at once; None: no limit of its own.
    pub max_connections: Option<u32>,
    /// Its password.
    pub password: StoredPassword,
}

/// Other properties for an account. Its password stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountChange {
    /// Rights that replace its own.
    pub rights: Rights,
    /// Schemas that it may read; None: all.
    pub schemas: Option<Vec<String>>,
    /// What its connections must have.
    pub requirement: Requirement,
    /// How fresh its reads are.
    pub reads: Reads,
    /// Sessions that it may have at once; None: no limit of its own.
    pub max_connections: Option<u32>,
    /// Another login at the source. None: what it has stays, as long as it has the right `forward`.
    pub source_login: Option<SourceLogin>,
}

/// Whose session it is, and what it may do. Fixed at login: rights that are given later count from the next login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `user@host` of the account, as CURRENT_USER() shows it.
    pub account: String,
    /// User name, as sent.
    pub user: String,
    /// The peer's address or `localhost`, as USER() shows it after the user name.
    pub peer_host: String,
    /// Rights.
    pub rights: Rights,
    /// Schemas that may be read, if `rights` has `read`; None: all.
    pub schemas: Option<Arc<[String]>>,
    /// How fresh its reads are, until the session says otherwise.
    pub reads: Reads,
    /// Sessions that the account may have at once; None: no limit of its own.
    pub max_connections: Option<u32>,
    /// How its forwarded statements log in at the source; None: they are not forwarded.
    pub source_login: Option<Arc<SourceLogin>>,
    /// What the connection has.
    pub(crate) transport: Transport,
    /// The password's number; None for who needed none (the socket's `admin`).
    pub(crate) password: Option<u64>,
}

impl Identity {
    /// True if rows and definitions of this schema may be read. Names are compared as they are stored.
    #[must_use]
    pub fn may_read(&self, schema: &str) -> bool {
        self.rights.read && self.schemas.as_ref().is_none_or(|schemas| schemas.iter().any(|own| own == schema))
    }

    /// The rows of SHOW GRANTS.
    #[must_use]
    pub fn grants(&self) -> Vec<String> {
        let (user, host) = self.account.rsplit_once('@').unwrap_or((&self.account, "%"));
        grants::lines(user, host, self.rights, self.schemas.as_deref())
    }
}

/// An account as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub account: Account,
    pub password: StoredPassword,
}

/// An account with what is known of it in memory.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub kept: Kept,
    /// Unique in the process; another one after each change of the password.
    pub password_number: u64,
    /// SHA-256 of SHA-256 of the password, once it has been seen.
    pub fast: Seen,
}

/// The unsalted form of a password, as long as it is known.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Option<[u8; SHA256_LEN]>>);

impl Clone for Seen {
    fn clone(&self) -> Seen {
        Seen(Mutex::new(self.get()))
    }
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Option<[u8; SHA256_LEN]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> Option<[u8; SHA256_LEN]> {
        *self.lock()
    }

    /// True if another one, or none, was known.
    fn set(&self, fast: Option<[u8; SHA256_LEN]>) -> bool {
        std::mem::replace(&mut *self.lock(), fast) != fast
    }
}

/// All accounts at one moment.
#[derive(Debug, Default)]
struct State {
    /// By user name; most specific host first.
    by_user: HashMap<String, Vec<Arc<Entry>>>,
    /// Kinds of all passwords, in order: unknown names look like one of them.
    kinds: Vec<PasswordKind>,
}

/// The accounts of a data folder. Shared; changes count for the next login at once.
#[derive(Debug)]
pub struct Accounts {
    path: PathBuf,
    state: ArcSwap<State>,
    /// Held while the files are written.
    writing: Mutex<Proved>,
    generation: AtomicU64,
    password_numbers: AtomicU64,
    /// Chooses what an unknown name looks like. Kept in the file: the choice must not change with a restart.
    decoy_key: [u8; 32],
}

impl Accounts {
    /// Reads the accounts of a file. No file: no accounts, and nobody may log in.
    ///
    /// # Errors
    /// The file cannot be read, or is not one that this program wrote.
    pub fn open(path: &Path) -> Result<Arc<Accounts>, AccountsError> {
        let numbers = AtomicU64::new(0);
        let (decoy_key, mut kept) = match file::read(path)? {
            Some(content) => (content.decoy_key, content.accounts),
            None => (crate::password::random()?, Vec::new()),
        };
        let mut logins = source_login::read(path)?;
        for Kept { account, .. } in &mut kept {
            account.source_login = logins.remove(&account.name.to_string()).filter(|_| account.rights.forward);
        }
        let entries: Vec<Entry> = kept.into_iter().map(|kept| Entry::new(kept, &numbers)).collect();
        let (proved, known) = Proved::open(path);
        for entry in &entries {
            if let Some(fast) = entry.kept.proves().and_then(|of| known.get(&of)) {
                entry.fast.set(Some(*fast));
            }
        }
        Ok(Arc::new(Accounts {
            path: path.to_owned(),
            state: ArcSwap::from_pointee(State::new(entries)),
            writing: Mutex::new(proved),
            generation: AtomicU64::new(1),
            password_numbers: numbers,
            decoy_key,
        }))
    }

    /// Grows with every change. A session asks [`still_valid`](Accounts::still_valid) when it has.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether a session may go on: its account is still there with this password and at least these rights.
    #[must_use]
    pub fn still_valid(&self, identity: &Identity) -> bool {
        let Some(number) = identity.password else { return true };
        let state = self.state.load();
        let entry = state.entries().find(|entry| entry.password_number == number);
        entry.is_some_and(|entry| entry.kept.account.allows(identity))
    }

    /// All accounts, by user name and then most specific host first.
    #[must_use]
    pub fn list(&self) -> Vec<Account> {
        let state = self.state.load();
        let mut accounts: Vec<Account> = state.entries().map(|entry| entry.kept.account.clone()).collect();
        accounts.sort_by(|a, b| a.name.user.cmp(&b.name.user).then(a.name.host.by_specificity(&b.name.host)));
        accounts
    }

    /// The rows of SHOW GRANTS FOR an account; None if there is none of this name.
    #[must_use]
    pub fn grants(&self, name: &AccountName) -> Option<Vec<String>> {
        let state = self.state.load();
        let account = &state.find(name)?.kept.account;
        Some(grants::lines(&name.user, name.host.as_str(), account.rights, account.schemas.as_deref()))
    }

    /// Adds an account.
    ///
    /// # Errors
    /// It exists, its schemas do not fit its rights, or the file cannot be written.
    pub fn add(&self, new: NewAccount) -> Result<(), AccountsError> {
        self.add_with(new, None)
    }

    /// As [`add`](Accounts::add), with a login at the source for its statements.
    ///
    /// # Errors
    /// As [`add`](Accounts::add); a login is given without the right `forward`.
    pub fn add_with(&self, new: NewAccount, source_login: Option<SourceLogin>) -> Result<(), AccountsError> {
        let NewAccount { name, rights, schemas, requirement, reads, max_connections, password } = new;
        let schemas = checked_schemas(rights, schemas)?;
        let plugin = password.plugin();
        let source_login = source_login.map(Arc::new);
        let account = Account { name, rights, schemas, requirement, reads, max_connections, plugin, source_login };
        check_forward(&account)?;
        let kept = Kept { account, password };
        self.alter(|entries, numbers| {
            if entries.iter().any(|entry| entry.kept.account.name == kept.account.name) {
                return Err(AccountsError::Exists { name: kept.account.name.to_string() });
            }
            entries.push(Entry::new(kept, numbers));
            Ok(())
        })
    }

    /// An account's password was seen: later logins are fast, also after a restart.
    pub(crate) fn proves(&self, entry: &Entry, fast: [u8; SHA256_LEN]) {
        if entry.fast.set(Some(fast)) {
            let mut proved = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            proved.keep(forms(self.state.load().entries()));
        }
    }

    /// What the password of this number has proved is dropped: the next login with it is a full one.
    pub(crate) fn forget(&self, password_number: u64) {
        let mut proved = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state.load();
        let entry = state.entries().find(|entry| entry.password_number == password_number);
        if entry.is_some_and(|entry| entry.fast.set(None)) {
            proved.keep(forms(state.entries()));
        }
    }

    /// Lets later logins of an account be fast until the process ends: for whoever has the password itself. False if it
    /// is not this account's password, or there is no such account.
    pub fn learn_password(&self, name: &AccountName, password: &str) -> bool {
        let state = self.state.load();
        let Some(entry) = state.find(name).filter(|entry| entry.kept.password.is(password.as_bytes())) else {
            return false;
        };
        entry.fast.set(Some(crate::password::fast_form(password.as_bytes())));
        true
    }

    /// Removes an account.
    ///
    /// # Errors
    /// There is none of this name, or the file cannot be written.
    pub fn remove(&self, name: &AccountName) -> Result<(), AccountsError> {
        self.alter(|entries, _| {
            entries.remove(position(entries, name)?);
            Ok(())
        })
    }

    /// Gives an account another password.
    ///
    /// # Errors
    /// There is none of this name, its statements need another plugin, or the file cannot be written.
    pub fn set_password(&self, name: &AccountName, password: StoredPassword) -> Result<(), AccountsError> {
        self.alter(|entries, numbers| {
            let at = position(entries, name)?;
            let mut account = entries.remove(at).kept.account;
            account.plugin = password.plugin();
            check_forward(&account)?;
            entries.push(Entry::new(Kept { account, password }, numbers));
            Ok(())
        })
    }

    /// Gives an account other rights, requirements and limits. Sessions beyond a smaller number go on.
    ///
    /// # Errors
    /// There is none of this name, its schemas or its login at the source do not fit its rights, or the file cannot be
    /// written.
    pub fn change(&self, name: &AccountName, change: AccountChange) -> Result<(), AccountsError> {
        let AccountChange { rights, schemas, requirement, reads, max_connections, source_login } = change;
        let schemas = checked_schemas(rights, schemas)?;
        self.alter(|entries, _| {
            let at = position(entries, name)?;
            let mut entry = entries.remove(at);
            let account = &mut entry.kept.account;
            (account.rights, account.schemas, account.requirement) = (rights, schemas, requirement);
            (account.reads, account.max_connections) = (reads, max_connections);
            match source_login {
                Some(login) => account.source_login = Some(Arc::new(login)),
                None if rights.forward => {}
                None => account.source_login = None,
            }
            check_forward(account)?;
            entries.push(entry);
            Ok(())
        })
    }

    /// Changes the accounts: first the file, then what logins see.
    fn alter(
        &self,
        change: impl FnOnce(&mut Vec<Entry>, &AtomicU64) -> Result<(), AccountsError>,
    ) -> Result<(), AccountsError> {
        let mut proved = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries: Vec<Entry> = self.state.load().entries().cloned().collect();
        change(&mut entries, &self.password_numbers)?;
        if entries.len() > ACCOUNTS_MAX {
            return Err(AccountsError::Invalid(format!("there are {ACCOUNTS_MAX} accounts, and no more are possible")));
        }
        // First: what a password has proved outlives it nowhere.
        proved.keep(forms(entries.iter()));
        // Before the accounts: one that may forward has its login.
        let logins = entries.iter().filter_map(|Entry { kept: Kept { account, .. }, .. }| {
            Some((account.name.to_string(), &**account.source_login.as_ref()?))
        });
        source_login::replace(&self.path, logins)?;
        file::replace(&self.path, &self.decoy_key, entries.iter().map(|entry| &entry.kept))?;
        self.state.store(Arc::new(State::new(entries)));
        self.generation.fetch_add(1, Ordering::AcqRel);
        // Logins already see what the file says, durable or not: a removed account must not come back for an error
        // here.
        file::sync_folder(&self.path)
    }

    /// What a login of this name is checked against: an account, or for an unknown name something that looks like one.
    pub(crate) fn candidate(&self, user: &str, peer: &Peer) -> Candidate {
        let state = self.state.load();
        let entries = state.by_user.get(user).map(Vec::as_slice).unwrap_or_default();
        match entries.iter().find(|entry| entry.kept.account.name.host.matches(peer)) {
            Some(entry) => Candidate {
                stored: entry.kept.password.clone(),
                was_seen: entry.fast.get().is_some(),
                entry: Some(Arc::clone(entry)),
            },
            None => Candidate {
                stored: StoredPassword::decoy(&self.decoy_key, user, &state.kinds),
                was_seen: crate::password::decoy_was_seen(&self.decoy_key, user),
                entry: None,
            },
        }
    }
}

/// The unsalted forms that are kept over a restart.
fn forms<'a>(entries: impl Iterator<Item = &'a Entry>) -> impl Iterator<Item = ([u8; SHA256_LEN], [u8; SHA256_LEN])> {
    entries.filter_map(|entry| Some((entry.kept.proves()?, entry.fast.get()?)))
}

impl Kept {
    /// What an unsalted form belongs to: this account with this stored password, whose salt is another one for each.
    /// None if it needs TLS, or such a form does not help its logins.
    fn proves(&self) -> Option<[u8; SHA256_LEN]> {
        let Account { name, requirement: Requirement::None, plugin: PasswordPlugin::CachingSha2, .. } = &self.account
        else {
            return None;
        };
        let hash = Sha256::new().chain_update(name.to_string()).chain_update([0]);
        Some(hash.chain_update(self.password.to_text()).finalize().into())
    }
}

/// What a login is checked against.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// None for an unknown name.
    pub entry: Option<Arc<Entry>>,
    /// The account's password, or a decoy.
    pub stored: StoredPassword,
    /// Whether its password was seen, so that an answer to the nonce can be checked; of an unknown name, whether it is
    /// to look so.
    pub was_seen: bool,
}

impl Account {
    /// True if its statements log in at the source by the client's own name and password.
    #[must_use]
    pub fn forwards_as_client(&self) -> bool {
        self.rights.forward && self.source_login.is_none()
    }

    /// True if a session of these rights may go on.
    fn allows(&self, identity: &Identity) -> bool {
        let schemas = match (&self.schemas, &identity.schemas) {
            (None, _) => true,
            (Some(_), None) => !identity.rights.read,
            (Some(own), Some(used)) => used.iter().all(|schema| own.contains(schema)),
        };
        let same_source = match &identity.source_login {
            Some(login) if login.secret().is_some() => self.forwards_as_client(),
            login => self.source_login == *login,
        };
        self.rights.contains(identity.rights) && schemas && same_source && self.requirement.is_met(identity.transport)
    }
}

impl Entry {
    /// Whose session begins when a login of this account has proved its password.
    pub(crate) fn identity(&self, user: &str, peer: &Peer, transport: Transport) -> Identity {
        let account = &self.kept.account;
        Identity {
            account: account.name.to_string(),
            user: user.to_owned(),
            peer_host: peer.host(),
            rights: account.rights,
            schemas: account.schemas.clone(),
            reads: account.reads,
            max_connections: account.max_connections,
            source_login: account.source_login.clone(),
            transport,
            password: Some(self.password_number),
        }
    }

    fn new(kept: Kept, numbers: &AtomicU64) -> Entry {
        Entry { kept, password_number: numbers.fetch_add(1, Ordering::Relaxed), fast: Seen::default() }
    }
}

impl State {
    fn new(entries: Vec<Entry>) -> State {
        let mut by_user: HashMap<String, Vec<Arc<Entry>>> = HashMap::new();
        let mut kinds: Vec<PasswordKind> = entries.iter().map(|entry| entry.kept.password.kind()).collect();
        kinds.sort_unstable();
        for entry in entries {
            by_user.entry(entry.kept.account.name.user.clone()).or_default().push(Arc::new(entry));
        }
        for entries in by_user.values_mut() {
            entries.sort_by(|a, b| a.kept.account.name.host.by_specificity(&b.kept.account.name.host));
        }
        State { by_user, kinds }
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.by_user.values().flatten().map(Arc::as_ref)
    }

    fn find(&self, name: &AccountName) -> Option<&Entry> {
        self.by_user.get(&name.user)?.iter().map(Arc::as_ref).find(|entry| entry.kept.account.name == *name)
    }
}

fn position(entries: &[Entry], name: &AccountName) -> Result<usize, AccountsError> {
    let at = entries.iter().position(|entry| entry.kept.account.name == *name);
    at.ok_or_else(|| AccountsError::Unknown { name: name.to_string() })
}

/// Checks a list of schemas: the binary log has all of them, so who may replicate cannot be kept to some.
fn checked_schemas(rights: Rights, schemas: Option<Vec<String>>) -> Result<Option<Arc<[String]>>, AccountsError> {
    let Some(schemas) = schemas else { return Ok(None) };
    let invalid = |text: &str| Err(AccountsError::Invalid(text.to_owned()));
    if !rights.read {
        return invalid("schemas limit the right 'read', which is not given");
    }
    if rights.replicate {
        return invalid("the right 'replicate' gives the rows of all schemas; it cannot be limited to some");
    }
    if schemas.is_empty() || schemas.iter().any(|name| name.is_empty() || name.chars().count() > SCHEMA_CHARS_MAX) {
        return invalid("a schema's name has 1 to 64 characters");
    }
    Ok(Some(schemas.into()))
}

/// Checks that an account's statements can log in at the source.
fn check_forward(account: &Account) -> Result<(), AccountsError> {
    let invalid = |text: &str| Err(AccountsError::Invalid(text.to_owned()));
    if account.source_login.is_some() && !account.rights.forward {
        return invalid("a login at the source is for accounts with the right 'forward'");
    }
    if account.forwards_as_client() && account.plugin != PasswordPlugin::CachingSha2 {
        return invalid(
            "the right 'forward' needs a login at the source (--source-login) or --plugin caching_sha2_password: what \
             mysql_native_password proves here is not enough to log in there",
        );
    }
    Ok(())
}

#[cfg(test)]
#[path = "accounts_tests.rs"]
mod tests;
