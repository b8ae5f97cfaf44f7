//! What users of sessions may read at the source: read there, and kept until a statement about accounts is replayed.
//!
//! In: logins, which statements about accounts are visible here. Out: what they may read, as long as nothing says that
//! it may be otherwise. Never here: a statement on a session's own connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use accounts::{GrantNames, SourceGrants, SourceLogin};
use client::Connection;

use super::open;
use crate::config::Followed;

/// How long grants are believed: not every change of them is in the log.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// How long a user that could not be asked about is not asked about again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Users that are remembered.
const USERS_MAX: usize = 10_000;
/// How names in grants are meant, and which server says so.
const QUESTION: &str = "SELECT @@server_uuid, @@global.partial_revokes, @@global.lower_case_table_names";

/// A moment in the history of accounts, as it is visible here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AsOf {
    /// The number of the source.
    pub(crate) number: u64,
    /// As [`Facts::account_statements`](crate::Facts::account_statements) tells it.
    pub(crate) statements: Arc<str>,
    /// How often the engine was started.
    pub(crate) engine: u64,
}

struct Known {
    as_of: AsOf,
    /// When it was read, or asked for.
    at: Instant,
    /// None: not read yet, or it could not be.
    grants: Option<Arc<SourceGrants>>,
}

/// Grants by the user's name at the source.
#[derive(Default)]
pub(crate) struct Grants(Mutex<HashMap<String, Known>>);

/// What the grants of a user are.
pub(crate) enum Found {
    Known(Arc<SourceGrants>),
    /// Whoever is told this is to ask the source; nobody else is until then.
    Ask,
    Asked,
}

impl Grants {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, user: &str, as_of: &AsOf, now: Instant) -> Found {
        let mut all = self.lock();
        if let Some(known) = all.get(user).filter(|known| known.as_of == *as_of) {
            let age = now.saturating_duration_since(known.at);
            match &known.grants {
                Some(grants) if age < KEPT_FOR => return Found::Known(Arc::clone(grants)),
                None if age < AGAIN_AFTER => return Found::Asked,
                _ => {}
            }
        }
        if all.len() >= USERS_MAX {
            all.clear();
        }
        all.insert(user.to_owned(), Known { as_of: as_of.clone(), at: now, grants: None });
        Found::Ask
    }

    /// What the source has said, to whoever asked under this.
    pub(crate) fn put(&self, user: &str, as_of: &AsOf, grants: SourceGrants, now: Instant) {
        if let Some(known) = self.lock().get_mut(user).filter(|known| known.as_of == *as_of) {
            (known.at, known.grants) = (now, Some(Arc::new(grants)));
        }
    }
}

/// Asks the source what a user may read, over a connection of its own.
pub(super) fn ask(login: &SourceLogin, followed: Followed) -> client::Result<Option<SourceGrants>> {
    let mut connection = Connection::connect(&open::options(login, followed.options))?;
    let said = connection.query(QUESTION)?;
    if said.first_text().is_none_or(|found| found != followed.server_uuid) {
        return Ok(None);
    }
    let names = GrantNames {
        partial_revokes: said.text(0, 1).is_none_or(|on| on != "0"),
        any_case: said.text(0, 2).is_none_or(|mode| mode != "0"),
    };
    let rows = connection.query("SHOW GRANTS")?;
    connection.close();
    let rows: Vec<String> = (0..rows.rows.len()).map(|row| rows.text(row, 0).unwrap_or_default()).collect();
    Ok(Some(SourceGrants::read(rows.iter().map(String::as_str), names)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_kept_until_something_may_have_changed_them() {
        let all = Grants::default();
        let as_of = |statements: &str| AsOf { number: 1, statements: statements.into(), engine: 0 };
        let (first, now) = (as_of(""), Instant::now());
        let is_known = |as_of: &AsOf, now| matches!(all.find("app", as_of, now), Found::Known(_));
        assert!(matches!(all.find("app", &first, now), Found::Ask));
        assert!(matches!(all.find("app", &first, now), Found::Asked), "one asks");
        all.put("app", &first, SourceGrants::default(), now);
        assert!(is_known(&first, now));
        assert!(!is_known(&first, now + KEPT_FOR), "not for ever");
        // What was asked before a GRANT was replayed does not count after it.
        let granted = as_of("a:7");
        assert!(matches!(all.find("app", &granted, now), Found::Ask));
        all.put("app", &first, SourceGrants::default(), now);
        assert!(!is_known(&granted, now));
        all.put("app", &granted, SourceGrants::default(), now);
        assert!(is_known(&granted, now));
        assert!(matches!(all.find("other", &granted, now), Found::Ask));
        assert!(matches!(all.find("app", &AsOf { engine: 1, ..granted }, now), Found::Ask));
    }
}
