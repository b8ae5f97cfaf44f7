//! An account of the source: authentication, TLS, limits, password rules, grants and roles, as statements change it.
//!
//! In: statements about accounts, each with its context. Out: the account's state, and the statements that make it
//! again. Never here: a password in the clear (a statement with one is not understood); Debug of a hash.

use std::collections::BTreeSet;

use crate::parser::backticked;

mod all;
mod attribute;
mod grants;
mod name;
mod privileges;
mod statement;

pub(crate) use all::{Accounts, Changed, Under};
pub(crate) use grants::{Place, RoutineKind};
pub(crate) use name::AccountName;
pub(crate) use statement::{AccountStatement, named_accounts};

use attribute::Attribute;
use grants::{Grants, Part};
use statement::{Authentication, Expire, Options};

/// The plugin of CREATE ROLE, whose statement names none. A role cannot log in, so another default has no effect.
const PLUGIN_OF_ROLES: &str = "caching_sha2_password";
/// Resource limits, in the order of SHOW CREATE USER.
const LIMITS: [&str; 4] =
    ["MAX_QUERIES_PER_HOUR", "MAX_UPDATES_PER_HOUR", "MAX_CONNECTIONS_PER_HOUR", "MAX_USER_CONNECTIONS"];

#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) enum Tls {
    #[default]
    None,
    Any,
    X509,
    Specified {
        subject: Option<String>,
        issuer: Option<String>,
        cipher: Option<String>,
    },
}

#[derive(Clone, PartialEq)]
pub(crate) struct Account {
    plugin: String,
    /// `authentication_string`; empty for none.
    secret: Vec<u8>,
    /// Of RETAIN CURRENT PASSWORD; empty for none.
    old_secret: Vec<u8>,
    default_roles: BTreeSet<AccountName>,
    tls: Tls,
    limits: [u64; 4],
    expired: bool,
    /// Days; None for `default_password_lifetime`, 0 for never.
    lifetime: Option<u64>,
    locked: bool,
    /// None: `password_history` of the server.
    history: Option<u64>,
    /// Days; None for `password_reuse_interval`.
    reuse: Option<u64>,
    /// None: `password_require_current` of the server.
    require_current: Option<bool>,
    attempts: u64,
    /// Days; None for UNBOUNDED.
    lock_time: Option<u64>,
    attribute: Attribute,
    grants: Grants,
}

impl Account {
    fn new(plugin: &str) -> Account {
        Account {
            plugin: plugin.to_owned(),
            secret: Vec::new(),
            old_secret: Vec::new(),
            default_roles: BTreeSet::new(),
            tls: Tls::None,
            limits: [0; 4],
            expired: false,
            lifetime: None,
            locked: false,
            history: None,
            reuse: None,
            require_current: None,
            attempts: 0,
            lock_time: Some(0),
            attribute: Attribute::default(),
            grants: Grants::default(),
        }
    }

    pub(crate) fn role() -> Account {
        Account { expired: true, locked: true, ..Account::new(PLUGIN_OF_ROLES) }
    }

    /// A clause of ALTER USER about the password.
    fn authenticate(&mut self, with: &Authentication) {
        match with {
            Authentication::Unchanged => {}
            Authentication::DiscardOld => self.old_secret.clear(),
            Authentication::With { plugin, secret, retain } => {
                let new = secret.clone().unwrap_or_default();
                let old = std::mem::replace(&mut self.secret, new);
                if *retain {
                    // The initial copy may have seen the statement already.
                    if old != self.secret {
                        self.old_secret = old;
                    }
                } else if *plugin != self.plugin || self.secret.is_empty() {
                    self.old_secret.clear();
                }
                self.expired = with.leaves_no_password();
                self.plugin.clone_from(plugin);
            }
        }
    }

    fn set(&mut self, options: &Options) {
        let set = |to: &mut Option<u64>, given: &Option<Option<u64>>| *to = given.unwrap_or(*to);
        if let Some(tls) = &options.tls {
            self.tls = tls.clone();
        }
        for (limit, given) in self.limits.iter_mut().zip(&options.limits) {
            *limit = given.unwrap_or(*limit);
        }
        match options.expire {
            Some(Expire::Now) => self.expired = true,
            Some(Expire::After(lifetime)) => self.lifetime = lifetime,
            None => {}
        }
        self.locked = options.locked.unwrap_or(self.locked);
        set(&mut self.history, &options.history);
        set(&mut self.reuse, &options.reuse);
        self.require_current = options.require_current.unwrap_or(self.require_current);
        self.attempts = options.attempts.unwrap_or(self.attempts);
        set(&mut self.lock_time, &options.lock_time);
        if let Some(attribute) = &options.attribute {
            self.attribute.merge(attribute);
        }
    }

    /// CREATE USER as SHOW CREATE USER prints it, but for default roles, which may not exist yet; and the statements
    /// after it: settings that CREATE USER cannot express, grants as SHOW GRANTS prints them but for
    /// [those](Self::changed_grants) of databases, tables and routines, default roles.
    pub(crate) fn statements(&self, name: &AccountName) -> (String, Vec<(Place, String)>) {
        let quoted = name.quoted();
        let plugin = sql_string(&self.plugin);
        let with = |secret: &[u8]| match secret {
            [] => format!("IDENTIFIED WITH {plugin}"),
            secret => format!("IDENTIFIED WITH {plugin} AS 0x{}", hexadecimal(secret)),
        };
        let mut later = Vec::new();
        let first = if self.old_secret.is_empty() { &self.secret } else { &self.old_secret };
        let expired_here = self.expired && self.lifetime.is_none() && self.old_secret.is_empty();
        let made = format!(
            "CREATE USER {quoted} {} {} ACCOUNT {}{}",
            with(first),
            self.shown_rights(expired_here),
            if self.locked { "LOCK" } else { "UNLOCK" },
            self.shown_rules(),
        );
        if !self.old_secret.is_empty() {
            let text = format!("ALTER USER {quoted} {} RETAIN CURRENT PASSWORD", with(&self.secret));
            later.push((Place::of(Part::OldPassword), text));
        }
        if self.expired && !expired_here {
            later.push((Place::of(Part::Expired), format!("ALTER USER {quoted} PASSWORD EXPIRE")));
        }
        later.extend(self.grants.shown(name));
        if !self.default_roles.is_empty() {
            let roles = name::quoted_list(self.default_roles.iter());
            later.push((Place::of(Part::DefaultRoles), format!("ALTER USER {quoted} DEFAULT ROLE {roles}")));
        }
        (made, later)
    }

    /// Grants on databases, tables and routines that are others than before, as SHOW GRANTS prints them; None for
    /// those that are gone.
    pub(crate) fn changed_grants(&self, before: &Account, name: &AccountName) -> Vec<(Place, Option<String>)> {
        self.grants.changes(&before.grants, name)
    }

    fn shown_rights(&self, expired: bool) -> String {
        let mut text = match &self.tls {
            Tls::None => "REQUIRE NONE".to_owned(),
            Tls::Any => "REQUIRE SSL".to_owned(),
            Tls::X509 => "REQUIRE X509".to_owned(),
            Tls::Specified { subject, issuer, cipher } => {
                let all = [("SUBJECT", subject), ("ISSUER", issuer), ("CIPHER", cipher)];
                let given = all
                    .into_iter()
                    .filter_map(|(word, value)| Some(format!(" {word} {}", sql_string(value.as_ref()?))));
                format!("REQUIRE{}", given.collect::<String>())
            }
        };
        let limits = LIMITS.iter().zip(self.limits).filter(|(_, limit)| *limit != 0);
        for (index, (word, limit)) in limits.enumerate() {
            text.push_str(if index == 0 { " WITH " } else { " " });
            text.push_str(&format!("{word} {limit}"));
        }
        text.push_str(&match (expired, self.lifetime) {
            (true, _) => " PASSWORD EXPIRE".to_owned(),
            (false, None) => " PASSWORD EXPIRE DEFAULT".to_owned(),
            (false, Some(0)) => " PASSWORD EXPIRE NEVER".to_owned(),
            (false, Some(days)) => format!(" PASSWORD EXPIRE INTERVAL {days} DAY"),
        });
        text
    }

    fn shown_rules(&self) -> String {
        let mut text = match self.history {
            None => " PASSWORD HISTORY DEFAULT".to_owned(),
            Some(count) => format!(" PASSWORD HISTORY {count}"),
        };
        text.push_str(&match self.reuse {
            None => " PASSWORD REUSE INTERVAL DEFAULT".to_owned(),
            Some(days) => format!(" PASSWORD REUSE INTERVAL {days} DAY"),
        });
        text.push_str(match self.require_current {
            None => " PASSWORD REQUIRE CURRENT DEFAULT",
            Some(true) => " PASSWORD REQUIRE CURRENT",
            Some(false) => " PASSWORD REQUIRE CURRENT OPTIONAL",
        });
        if self.attempts != 0 {
            text.push_str(&format!(" FAILED_LOGIN_ATTEMPTS {}", self.attempts));
        }
        match self.lock_time {
            Some(0) => {}
            Some(days) => text.push_str(&format!(" PASSWORD_LOCK_TIME {days}")),
            None => text.push_str(" PASSWORD_LOCK_TIME UNBOUNDED"),
        }
        if !self.attribute.is_empty() {
            text.push_str(&format!(" ATTRIBUTE {}", sql_string(&self.attribute.shown())));
        }
        text
    }
}

/// A literal for a session without NO_BACKSLASH_ESCAPES, on one line. It ends at the same place for a client that knows
/// no escapes.
fn sql_string(text: &str) -> String {
    let mut quoted = String::from("'");
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => quoted.extend([letter, letter]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\0' => quoted.push_str("\\0"),
            '\u{1a}' => quoted.push_str("\\Z"),
            letter => quoted.push(letter),
        }
    }
    quoted.push('\'');
    quoted
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// A program's name as grants on it and messages write it.
pub(crate) fn place(db: &str, name: &str) -> String {
    format!("{}.{}", backticked(db), backticked(name))
}
