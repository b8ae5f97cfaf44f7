//! The accounts file: one JSON document, written whole.
//!
//! In: accounts, bytes of the file. Out: the same. Never here: a field of rights that may be missing, a partly read
//! file, a file that others may read.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::accounts::{Account, AccountName, Kept};
use crate::error::AccountsError;
use crate::password::{PasswordPlugin, StoredPassword, from_hex, to_hex};
use crate::reads::{Consistency, Reads};
use crate::rights::{Requirement, Rights};
use crate::secret_file::{sync_names, write_secret};

/// Format version.
const VERSION: u32 = 1;
/// Largest accepted file in bytes: 10,000 accounts with some 800 schemas each.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What a file holds.
pub(crate) struct Content {
    pub decoy_key: [u8; 32],
    pub accounts: Vec<Kept>,
}

/// The document. Names in the file are part of its format and do not follow the code.
/// What is read before the rest, which a newer version may have changed.
#[derive(Debug, Deserialize)]
struct Version {
    #[serde(rename = "slipstream_accounts")]
    version: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "slipstream_accounts")]
    version: u32,
    #[serde(rename = "decoy_key")]
    decoy_key: String,
    #[serde(rename = "accounts")]
    accounts: Vec<Record>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    #[serde(rename = "user")]
    user: String,
    #[serde(rename = "host")]
    host: String,
    #[serde(rename = "plugin")]
    plugin: String,
    #[serde(rename = "authentication_string")]
    password: String,
    #[serde(rename = "may")]
    rights: Vec<String>,
    #[serde(rename = "schemas")]
    schemas: Schemas,
    #[serde(rename = "require")]
    requirement: Require,
    // Absent where it is `eventual`.
    #[serde(rename = "read_consistency", default, skip_serializing_if = "Option::is_none")]
    consistency: Option<String>,
    // Absent where it is the default.
    #[serde(rename = "read_staleness_ms", default, skip_serializing_if = "Option::is_none")]
    staleness_ms: Option<u32>,
    // Absent where there is none.
    #[serde(rename = "max_connections", default, skip_serializing_if = "Option::is_none")]
    max_connections: Option<u32>,
}

/// No option: a missing list must not mean all schemas.
#[derive(Debug, Serialize, Deserialize)]
enum Schemas {
    #[serde(rename = "all")]
    All,
    #[serde(rename = "only")]
    Only(Vec<String>),
}

#[derive(Debug, Serialize, Deserialize)]
enum Require {
    #[serde(rename = "nothing")]
    Nothing,
    #[serde(rename = "tls")]
    Tls,
    #[serde(rename = "certificate")]
    Certificate,
}

/// Reads a file; None if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Content>, AccountsError> {
    let Some(bytes) = read_bytes(path)? else { return Ok(None) };
    let damaged = |reason: String| AccountsError::Damaged { path: path.to_owned(), reason };
    parse(&bytes).map(Some).map_err(damaged)
}

fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, AccountsError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(path, error)),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| io_error(path, error))?;
    Ok(Some(bytes))
}

fn io_error(path: &Path, source: io::Error) -> AccountsError {
    AccountsError::Io { path: path.to_owned(), source }
}

fn parse(bytes: &[u8]) -> Result<Content, String> {
    // serde_json's errors give line and column, and quote the text only where it names an unknown field or variant.
    let failed = |error: serde_json::Error| format!("not a file of accounts: {error}");
    let version: Version = serde_json::from_slice(bytes).map_err(failed)?;
    if version.version != VERSION {
        let found = version.version;
        return Err(format!("format version {found}, this program reads {VERSION}: use the release that wrote it"));
    }
    let document: Document = serde_json::from_slice(bytes).map_err(failed)?;
    let decoy_key = from_hex(&document.decoy_key).ok_or("decoy_key is not 64 hexadecimal digits")?;
    let mut accounts: Vec<Kept> = Vec::new();
    let mut names = HashSet::new();
    for (index, record) in document.accounts.into_iter().enumerate() {
        let kept = kept(record).map_err(|reason| format!("account {}: {reason}", index + 1))?;
        if !names.insert(kept.account.name.to_string()) {
            return Err(format!("account {} is there twice", kept.account.name));
        }
        accounts.push(kept);
    }
    Ok(Content { decoy_key, accounts })
}

fn kept(record: Record) -> Result<Kept, String> {
    let name = AccountName::new(&record.user, &record.host)?;
    let plugin = PasswordPlugin::from_name(&record.plugin).ok_or_else(|| format!("unknown plugin of {name}"))?;
    let password = StoredPassword::from_text(plugin, &record.password)
        .ok_or_else(|| format!("authentication_string of {name} is not one of {}", plugin.name()))?;
    let mut rights = Rights::default();
    if !record.rights.iter().all(|right| rights.add(right)) {
        return Err(format!("unknown right of {name}"));
    }
    let schemas = match record.schemas {
        Schemas::All => None,
        Schemas::Only(schemas) => Some(Arc::from(schemas)),
    };
    let requirement = match record.requirement {
        Require::Nothing => Requirement::None,
        Require::Tls => Requirement::Tls,
        Require::Certificate => Requirement::Certificate,
    };
    let consistency = record.consistency.map(|text| text.parse()).transpose();
    let consistency = consistency.map_err(|error| format!("read_consistency of {name}: {error}"))?.unwrap_or_default();
    let reads = Reads { consistency, staleness_ms: record.staleness_ms };
    let max_connections = record.max_connections;
    if max_connections == Some(0) {
        return Err(format!("max_connections of {name} is 0"));
    }
    let source_login = None;
    let account = Account { name, rights, schemas, requirement, reads, max_connections, plugin, source_login };
    Ok(Kept { account, password })
}

fn record(kept: &Kept) -> Record {
    let account = &kept.account;
    Record {
        user: account.name.user.clone(),
        host: account.name.host.to_string(),
        plugin: account.plugin.name().to_owned(),
        password: kept.password.to_text(),
        rights: account.rights.names().map(str::to_owned).collect(),
        schemas: account.schemas.as_ref().map_or(Schemas::All, |schemas| Schemas::Only(schemas.to_vec())),
        requirement: match account.requirement {
            Requirement::None => Require::Nothing,
            Requirement::Tls => Require::Tls,
            Requirement::Certificate => Require::Certificate,
        },
        consistency: Some(account.reads.consistency)
            .filter(|consistency| *consistency != Consistency::default())
            .map(|consistency| consistency.name().to_owned()),
        staleness_ms: account.reads.staleness_ms,
        max_connections: account.max_connections,
    }
}

/// Replaces the file by another content: new file, sync, rename. [`sync_folder`] then makes the rename durable.
///
/// # Errors
/// The system's; the old content is then unchanged.
pub(crate) fn replace<'a>(
    path: &Path,
    decoy_key: &[u8; 32],
    accounts: impl Iterator<Item = &'a Kept>,
) -> Result<(), AccountsError> {
    let document =
        Document { version: VERSION, decoy_key: to_hex(decoy_key), accounts: accounts.map(record).collect() };
    let mut bytes = serde_json::to_vec_pretty(&document).map_err(|error| io_error(path, error.into()))?;
    bytes.push(b'\n');
    write_secret(path, &bytes).map_err(|error| io_error(path, error))
}

/// Makes the last replacement of a file durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), AccountsError> {
    sync_names(path).map_err(|error| io_error(path, error))
}
