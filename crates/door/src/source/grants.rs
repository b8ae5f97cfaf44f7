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
    /// When the source was asked last.
    asked: Instant,
    /// What it said, and when; None: nothing yet, or that the user may not log in.
    said: Option<(Arc<SourceGrants>, Instant)>,
}

/// Grants by the user's name at the source.
#[derive(Default)]
pub(crate) struct Grants(Mutex<HashMap<String, Known>>);

/// What the grants of a user are.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// None: that is not known.
    pub(crate) grants: Option<Arc<SourceGrants>>,
    /// Whoever is told this is to ask the source; nobody else is for a while.
    pub(crate) asks: bool,
}

impl Grants {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Old grants are believed while the source is asked again: what it cannot be asked, nobody changes there either.
    pub(crate) fn find(&self, user: &str, as_of: &AsOf, now: Instant) -> Found {
        let mut all = self.lock();
        if let Some(known) = all.get_mut(user).filter(|known| known.as_of == *as_of) {
            let age = |since: Instant| now.saturating_duration_since(since);
            let is_old = known.said.as_ref().is_none_or(|(_, read)| age(*read) >= KEPT_FOR);
            let asks = is_old && age(known.asked) >= AGAIN_AFTER;
            if asks {
                known.asked = now;
            }
            return Found { grants: known.said.as_ref().map(|(grants, _)| Arc::clone(grants)), asks };
        }
        if all.len() >= USERS_MAX {
            all.clear();
        }
        all.insert(user.to_owned(), Known { as_of: as_of.clone(), asked: now, said: None });
        Found { grants: None, asks: true }
    }

    /// What the source has said, to whoever asked under this; None: that the user may not log in.
    pub(crate) fn put(&self, user: &str, as_of: &AsOf, grants: Option<SourceGrants>, now: Instant) {
        if let Some(known) = self.lock().get_mut(user).filter(|known| known.as_of == *as_of) {
            known.said = grants.map(|grants| (Arc::new(grants), now));
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
        let find = |as_of: &AsOf, now| all.find("app", as_of, now);
        let is_known = |as_of: &AsOf, now| find(as_of, now).grants.is_some();
        assert!(find(&first, now).asks);
        assert!(!find(&first, now).asks && !is_known(&first, now), "one asks");
        all.put("app", &first, Some(SourceGrants::default()), now);
        assert!(is_known(&first, now) && !find(&first, now + AGAIN_AFTER).asks);
        // Not for ever, and they are believed until the source has said others.
        let later = now + KEPT_FOR;
        let found = find(&first, later);
        assert!(found.asks && found.grants.is_some());
        assert!(!find(&first, later).asks && is_known(&first, later));
        assert!(find(&first, later + AGAIN_AFTER).asks, "it has not answered");
        all.put("app", &first, None, later);
        assert!(!is_known(&first, later), "it lets the user in no more");
        // What was asked before a GRANT was replayed does not count after it.
        let granted = as_of("a:7");
        assert!(find(&granted, now).asks);
        all.put("app", &first, Some(SourceGrants::default()), now);
        assert!(!is_known(&granted, now));
        all.put("app", &granted, Some(SourceGrants::default()), now);
        assert!(is_known(&granted, now));
        assert!(all.find("other", &granted, now).asks);
        assert!(find(&AsOf { engine: 1, ..granted }, now).asks);
    }
}
