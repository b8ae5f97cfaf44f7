//! All accounts at one place in the log, and what a statement changes of them.
//!
//! In: statements that are understood. Out: which accounts are others now, are gone, or may not be as the source has
//! them. Never here: text; other objects. Rules without another source were seen on 9.7.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::SharedMap;

use super::grants::{Asked, Level, NotKnown, PartialRevokes, RoutineKind};
use super::name::AccountName;
use super::statement::{AccountStatement, Authentication, From, Options, Roles};
use super::{Account, PLUGIN_OF_ROLES};

/// From this version on REVOKE ALL ON *.* takes everything that REVOKE ALL PRIVILEGES, GRANT OPTION takes, so seen on
/// 9.7. Of earlier ones the source is asked.
const REVOKE_ALL_TAKES_EVERYTHING_SINCE: u32 = 90_700;
/// The first version with dynamic privileges, of which GRANT ALL grants those that its server knows.
const DYNAMIC_PRIVILEGES_SINCE: u32 = 80_000;

/// What a statement did.
#[derive(Default)]
pub(crate) struct Changed {
    pub(crate) changed: BTreeSet<AccountName>,
    pub(crate) gone: BTreeSet<AccountName>,
    /// Their state follows from this statement alone, whatever was known before.
    pub(crate) settled: BTreeSet<AccountName>,
    /// They may be otherwise at the source.
    pub(crate) unsure: BTreeSet<AccountName>,
}

/// Under which a statement is carried out.
pub(crate) struct Under<'a> {
    /// All accounts of the source are known, so one that is not does not exist there.
    pub(crate) all_known: bool,
    /// True for an account of which is not known how it is, or whether it exists.
    pub(crate) is_unsure: &'a dyn Fn(&AccountName) -> bool,
    pub(crate) server_version: Option<u32>,
    /// What the source printed is read: a REVOKE is a part of a global privilege.
    pub(crate) of_the_source: bool,
    /// Names of databases and tables as the source compares them.
    pub(crate) folded: &'a dyn Fn(&str) -> String,
}

#[derive(Clone, Default, PartialEq)]
pub(crate) struct Accounts {
    all: SharedMap<AccountName, Arc<Account>>,
}

impl Accounts {
    pub(crate) fn get(&self, name: &AccountName) -> Option<&Arc<Account>> {
        self.all.get(name)
    }

    pub(crate) fn insert(&mut self, name: AccountName, account: Arc<Account>) {
        self.all.insert(name, account);
    }

    pub(crate) fn remove(&mut self, name: &AccountName) {
        self.all.remove(name);
    }

    /// True for an account that is known and may be granted a routine by creating it, because no privilege at the
    /// database or above lets it run and alter routines (`automatic_sp_privileges`).
    pub(crate) fn lacks_routines_of(&self, name: &AccountName, db: &str) -> bool {
        self.all.get(name).is_some_and(|account| account.grants.lacks_routines_of(db))
    }

    /// A dropped program takes grants on it along.
    pub(crate) fn routine_gone(&mut self, kind: RoutineKind, db: &str, name: &str) -> Changed {
        let routine = (kind, db.to_owned(), name.to_owned());
        let mut done = Changed::default();
        let having = self.all.iter().filter(|(_, account)| account.grants.has_routine(&routine));
        for name in having.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.change(&name, &mut done, |account| account.grants.routine_gone(&routine));
        }
        done
    }

    pub(crate) fn take(&mut self, statement: AccountStatement, under: &Under<'_>) -> Changed {
        let mut done = Changed::default();
        match statement {
            AccountStatement::Create { if_not_exists, users, default_roles, options } => {
                for (name, with) in users {
                    let account = created(&with, &default_roles, &options);
                    if with == Authentication::Unchanged {
                        done.unsure.insert(name.clone());
                    }
                    self.create(name, account, if_not_exists, under, &mut done);
                }
            }
            AccountStatement::CreateRoles { if_not_exists, roles } => {
                for name in roles {
                    self.create(name, Account::role(), if_not_exists, under, &mut done);
                }
            }
            AccountStatement::Alter { if_exists, users, default_roles, options } => {
                for (name, with) in &users {
                    if if_exists && self.is_absent(name, under) {
                        continue;
                    }
                    self.change(name, &mut done, |account| {
                        let lifetime = account.lifetime;
                        account.authenticate(with);
                        account.set(&options);
                        if with.leaves_no_password() {
                            // The server takes no notice of PASSWORD EXPIRE … then, so seen on 9.7.
                            (account.expired, account.lifetime) = (true, lifetime);
                        }
                        if let Some(roles) = &default_roles {
                            account.set_default_roles(roles);
                        }
                    });
                }
            }
            AccountStatement::Drop(names) => names.into_iter().for_each(|name| self.drop(name, &mut done)),
            AccountStatement::Rename(pairs) => {
                pairs.into_iter().for_each(|(from, to)| self.rename(from, to, under, &mut done));
            }
            AccountStatement::SetDefaultRoles { roles, to } => {
                to.iter().for_each(|name| self.change(name, &mut done, |account| account.set_default_roles(&roles)));
            }
            granting => self.take_grant(granting, under, &mut done),
        }
        done
    }

    fn take_grant(&mut self, statement: AccountStatement, under: &Under<'_>, done: &mut Changed) {
        match statement {
            AccountStatement::Grant { asked, level, to, granted_as } => {
                let level = folded(level, under);
                for name in &to {
                    self.change(name, done, |account| account.grants.grant(&level, &asked));
                }
                if self.is_open(&asked, &level, granted_as, under) {
                    done.unsure.extend(to);
                }
            }
            AccountStatement::Revoke { asked, level, from, if_exists } => {
                let level = folded(level, under);
                let of_all = level == Level::Global && asked.all;
                let is_of_database = matches!(level, Level::Database(_));
                let is_on = is_of_database
                    && (under.of_the_source || self.all.values().any(|account| account.grants.is_restricted()));
                let partial = if is_on { PartialRevokes::On } else { PartialRevokes::Unknown { if_exists } };
                let earlier = under.server_version.is_some_and(|version| version < REVOKE_ALL_TAKES_EVERYTHING_SINCE);
                for name in self.concerned(from, under) {
                    let mut known = Ok(());
                    self.change(&name, done, |account| {
                        if of_all {
                            account.grants.revoke_all();
                        } else {
                            known = account.grants.revoke(&level, &asked, partial);
                        }
                    });
                    if known == Err(NotKnown) || (of_all && earlier) {
                        done.unsure.insert(name);
                    }
                }
            }
            AccountStatement::RevokeAll { from } => {
                for name in self.concerned(from, under) {
                    self.change(&name, done, |account| account.grants.revoke_all());
                }
            }
            AccountStatement::GrantProxy { on, to, option } => {
                for name in &to {
                    self.change(name, done, |account| _ = account.grants.proxies.insert(on.clone(), option));
                    if option && !under.of_the_source {
                        self.change(name, done, |account| account.grants.grant_onward());
                    }
                }
            }
            AccountStatement::RevokeProxy { on, from } => {
                for name in self.concerned(from, under) {
                    self.change(&name, done, |account| {
                        account.grants.proxies.remove(&on);
                    });
                }
            }
            AccountStatement::GrantRoles { roles, to, admin } => {
                for name in &to {
                    self.change(name, done, |account| {
                        // The server keeps an earlier ADMIN OPTION in its tables, and shows it once it has read them
                        // again, so seen on 9.7.
                        for role in &roles {
                            *account.grants.roles.entry(role.clone()).or_default() |= admin;
                        }
                    });
                }
            }
            AccountStatement::RevokeRoles { roles, from } => {
                for name in self.concerned(from, under) {
                    self.change(&name, done, |account| roles.iter().for_each(|role| account.lose_role(role)));
                }
            }
            _ => {}
        }
    }

    /// True if a grant gives what the source alone knows: its dynamic privileges, or what the grantor lacks.
    fn is_open(
        &self,
        asked: &Asked,
        level: &Level,
        granted_as: Option<(AccountName, bool)>,
        under: &Under<'_>,
    ) -> bool {
        let unrestricted = |(name, without_roles): (AccountName, bool)| {
            let account = self.all.get(&name).filter(|_| !(under.is_unsure)(&name));
            without_roles && account.is_some_and(|account| !account.grants.is_restricted())
        };
        let of_all = asked.all && under.server_version.is_none_or(|version| version >= DYNAMIC_PRIVILEGES_SINCE);
        *level == Level::Global && (of_all || granted_as.is_some_and(|granted_as| !unrestricted(granted_as)))
    }

    fn create(
        &mut self,
        name: AccountName,
        account: Account,
        if_not_exists: bool,
        under: &Under<'_>,
        done: &mut Changed,
    ) {
        if if_not_exists && !self.is_absent(&name, under) {
            if self.all.contains_key(&name) || (under.is_unsure)(&name) {
                done.unsure.remove(&name);
                return;
            }
            // Older than the log, perhaps.
            done.unsure.insert(name.clone());
        } else if !done.unsure.contains(&name) {
            done.settled.insert(name.clone());
        }
        done.changed.insert(name.clone());
        self.all.insert(name, Arc::new(account));
    }

    fn drop(&mut self, name: AccountName, done: &mut Changed) {
        self.all.remove(&name);
        let has = |account: &Account| account.grants.roles.contains_key(&name) || account.default_roles.contains(&name);
        let having = self.all.iter().filter(|(_, account)| has(account));
        for other in having.map(|(other, _)| other.clone()).collect::<Vec<_>>() {
            self.change(&other, done, |account| account.lose_role(&name));
        }
        done.changed.remove(&name);
        done.gone.insert(name);
    }

    fn rename(&mut self, from: AccountName, to: AccountName, under: &Under<'_>, done: &mut Changed) {
        let known = self.all.remove(&from);
        if known.is_none() || (under.is_unsure)(&from) || done.unsure.contains(&from) {
            done.unsure.insert(to.clone());
        } else {
            done.settled.insert(to.clone());
        }
        if let Some(account) = known {
            self.all.insert(to.clone(), account);
            done.changed.insert(to.clone());
        }
        done.gone.remove(&to);
        done.changed.remove(&from);
        done.unsure.remove(&from);
        done.gone.insert(from);
    }

    /// True if the account does not exist at the source.
    fn is_absent(&self, name: &AccountName, under: &Under<'_>) -> bool {
        under.all_known && !self.all.contains_key(name) && !(under.is_unsure)(name)
    }

    fn concerned(&self, from: From, under: &Under<'_>) -> Vec<AccountName> {
        let mut accounts = from.accounts;
        accounts.retain(|name| !from.ignore_unknown || !self.is_absent(name, under));
        accounts
    }

    fn change(&mut self, name: &AccountName, done: &mut Changed, change: impl FnOnce(&mut Account)) {
        match self.all.remove(name) {
            Some(mut account) => {
                change(Arc::make_mut(&mut account));
                self.all.insert(name.clone(), account);
                done.changed.insert(name.clone());
            }
            None => drop(done.unsure.insert(name.clone())),
        }
    }
}

fn created(with: &Authentication, default_roles: &[AccountName], options: &Options) -> Account {
    let mut account = Account::new(PLUGIN_OF_ROLES);
    account.authenticate(with);
    // Only ALTER USER makes it set one first.
    account.expired = false;
    account.set(options);
    account.grants.roles.extend(default_roles.iter().map(|role| (role.clone(), false)));
    account.default_roles.extend(default_roles.iter().cloned());
    account
}

fn folded(level: Level, under: &Under<'_>) -> Level {
    let name = |name: String| (under.folded)(&name);
    match level {
        Level::Global => Level::Global,
        Level::Database(db) => Level::Database(name(db)),
        Level::Table(db, table) => Level::Table(name(db), name(table)),
        Level::Routine(kind, db, routine) => Level::Routine(kind, name(db), routine),
    }
}

impl Account {
    fn set_default_roles(&mut self, roles: &Roles) {
        self.default_roles = match roles {
            Roles::None => BTreeSet::new(),
            Roles::All => self.grants.roles.keys().cloned().collect(),
            Roles::These(roles) => roles.iter().cloned().collect(),
        };
    }

    fn lose_role(&mut self, role: &AccountName) {
        self.grants.roles.remove(role);
        self.default_roles.remove(role);
    }
}
