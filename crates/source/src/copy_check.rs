//! Whether a copy of a source can be made: privileges, room, and how long the source keeps its log.
//!
//! In: a connection, free bytes on our disk. Out: problems with the statement or option that helps. Not asked for by
//! plain following: [`crate::preflight::check`] does that. Changes nothing.

use crate::preflight::{grants_of, quote_account};
use crate::{Connection, Result};

/// A privilege, and others that serve as well.
pub type Needed = (&'static str, &'static [&'static str]);

/// What a copy cannot do without: reading, FLUSH TABLES WITH READ LOCK, XA RECOVER.
pub const COPY_PRIVILEGES: &[Needed] = &[("SELECT", &[]), ("RELOAD", &["FLUSH_TABLES"]), ("XA_RECOVER_ADMIN", &[])];
/// What makes a copy gentler: LOCK INSTANCE FOR BACKUP waits for a long DDL statement without keeping writers waiting,
/// and long statements of others are seen before the read lock is asked for.
pub const GENTLE_PRIVILEGES: &[Needed] = &[("BACKUP_ADMIN", &[]), ("PROCESS", &[])];

/// The account logged in (quoted, as in GRANT), and which of these global privileges it does not have, roles counted in.
///
/// # Errors
/// The connection fails.
pub fn missing_privileges(connection: &mut Connection, needed: &[Needed]) -> Result<(String, Vec<String>)> {
    let account = connection.query_value("SELECT CURRENT_USER()")?.unwrap_or_default();
    let grants = grants_of(connection)?;
    let missing = crate::preflight::missing_of(&grants, needed);
    Ok((quote_account(&account), missing.into_iter().map(str::to_owned).collect()))
}

/// The statement that gives the privileges.
#[must_use]
pub fn grant_statement(missing: &[String], account: &str) -> String {
    format!("GRANT {} ON *.* TO {account};", missing.join(", "))
}
