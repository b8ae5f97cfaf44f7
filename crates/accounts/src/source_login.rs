//! Logins at the source of accounts whose statements are forwarded, and their file.
//!
//! In: names and passwords that an operator gave, proofs of clients' logins. Out: the same, to whoever logs in at the
//! source. Never here: the accounts file, which backups may hold; a text that shows a password; a client's proof in a
//! file.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wire::auth::Secret;

use crate::error::AccountsError;
use crate::secret_file::write_secret;

/// Version of the file's format.
const VERSION: u32 = 1;
/// Name of the file, in the folder of the accounts' file.
const FILE: &str = "source-logins";
/// Largest accepted file in bytes: 10,000 logins.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Longest name of a user at the source in characters, MySQL's limit.
const USER_CHARS_MAX: usize = 32;

/// How statements log in at the source.
#[derive(Clone)]
pub struct SourceLogin {
    user: String,
    proof: Proof,
}

#[derive(Clone)]
enum Proof {
    /// An operator gave it.
    Password(String),
    /// A client has proved it here.
    OfClient {
        secret: Arc<Secret>,
        /// Drops what its account keeps.
        forget: Arc<dyn Fn() + Send + Sync>,
    },
}

impl PartialEq for SourceLogin {
    fn eq(&self, other: &SourceLogin) -> bool {
        let proof = match (&self.proof, &other.proof) {
            (Proof::Password(one), Proof::Password(other)) => one == other,
            (Proof::OfClient { secret, .. }, Proof::OfClient { secret: other, .. }) => Arc::ptr_eq(secret, other),
            _ => false,
        };
        self.user == other.user && proof
    }
}

impl Eq for SourceLogin {}

impl SourceLogin {
    /// Checks that both can be a login.
    ///
    /// # Errors
    /// The name is empty or longer than 32 characters, or there is no password.
    pub fn new(user: &str, password: &str) -> Result<SourceLogin, AccountsError> {
        let chars = user.chars().count();
        if chars == 0 || chars > USER_CHARS_MAX || user.chars().any(char::is_control) {
            let text = format!("the name of a source login has 1 to {USER_CHARS_MAX} characters");
            return Err(AccountsError::Invalid(text));
        }
        if password.is_empty() {
            return Err(AccountsError::Invalid("a source login needs a password".to_owned()));
        }
        Ok(SourceLogin { user: user.to_owned(), proof: Proof::Password(password.to_owned()) })
    }

    /// A client's own, under the name that it has here.
    pub(crate) fn of_client(user: &str, secret: Secret, forget: impl Fn() + Send + Sync + 'static) -> SourceLogin {
        let (secret, forget) = (Arc::new(secret), Arc::new(forget));
        SourceLogin { user: user.to_owned(), proof: Proof::OfClient { secret, forget } }
    }

    /// The user's name at the source.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The password of that user; None if a client has proved it.
    #[must_use]
    pub fn password(&self) -> Option<&str> {
        match &self.proof {
            Proof::Password(password) => Some(password),
            Proof::OfClient { .. } => None,
        }
    }

    /// The client's password or its hash; None if an operator gave one.
    #[must_use]
    pub fn secret(&self) -> Option<&Arc<Secret>> {
        match &self.proof {
            Proof::Password(_) => None,
            Proof::OfClient { secret, .. } => Some(secret),
        }
    }

    /// The client's proof is of no use at the source: the account's next login is a full one.
    pub fn forget(&self) {
        if let Proof::OfClient { forget, .. } = &self.proof {
            forget();
        }
    }
}

impl fmt::Debug for SourceLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceLogin").field("user", &self.user).finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "slipstream_source_logins")]
    version: u32,
    #[serde(rename = "logins")]
    logins: Vec<Record>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// `user@host` of the account here.
    #[serde(rename = "account")]
    account: String,
    #[serde(rename = "user")]
    user: String,
    #[serde(rename = "password")]
    password: String,
}

fn path_of(accounts: &Path) -> PathBuf {
    accounts.with_file_name(FILE)
}

/// The logins of accounts of this file, by `user@host`.
pub(crate) fn read(accounts: &Path) -> Result<HashMap<String, Arc<SourceLogin>>, AccountsError> {
    let path = path_of(accounts);
    let bytes = match base::own_files::read_within(&path, FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(source) => return Err(AccountsError::Io { path, source }),
    };
    // An error of serde_json could quote the text.
    let damaged = || AccountsError::Damaged { path: path.clone(), reason: "not a file of source logins".to_owned() };
    let document: Document = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
    if document.version != VERSION {
        return Err(damaged());
    }
    let login = |Record { account, user, password }| {
        SourceLogin::new(&user, &password).map(|login| (account, Arc::new(login))).map_err(|_| damaged())
    };
    document.logins.into_iter().map(login).collect()
}

/// Replaces the file, if it exists or there are logins: of each the account as `user@host`.
pub(crate) fn replace<'a>(
    accounts: &Path,
    all: impl Iterator<Item = (String, &'a SourceLogin)>,
) -> Result<(), AccountsError> {
    let path = path_of(accounts);
    let record = |(account, login): (String, &SourceLogin)| {
        Some(Record { account, user: login.user.clone(), password: login.password()?.to_owned() })
    };
    let logins: Vec<Record> = all.filter_map(record).collect();
    if logins.is_empty() && !path.exists() {
        return Ok(());
    }
    let failed = |source: io::Error| AccountsError::Io { path: path.clone(), source };
    let mut bytes = serde_json::to_vec_pretty(&Document { version: VERSION, logins }).map_err(|e| failed(e.into()))?;
    bytes.push(b'\n');
    write_secret(&path, &bytes).map_err(failed)
}
