//! What one account has been granted, at every level.
//!
//! In: grants and revocations. Out: the statements that SHOW GRANTS prints. Never here: roles' own grants; whether the
//! grantor was allowed to. Rules without another source were seen on 9.7.

use std::collections::BTreeMap;

use base::SharedMap;

use super::name::{AccountName, quoted_list};
use super::privileges::Privileges;
use crate::parser::backticked;

/// Privileges at one place.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Held {
    privileges: Privileges,
    grant_option: bool,
}

impl Held {
    fn add(&mut self, asked: &Asked) {
        self.privileges = self.privileges.with(asked.privileges);
        self.grant_option |= asked.grant_option;
    }

    fn remove(&mut self, asked: &Asked) {
        self.privileges = self.privileges.without(asked.privileges);
        self.grant_option &= !asked.grant_option;
    }

    fn suffix(self) -> &'static str {
        if self.grant_option { " WITH GRANT OPTION" } else { "" }
    }
}

#[derive(Clone, PartialEq, Eq, Default)]
struct OnTable {
    held: Held,
    /// By privilege, so that they print as the server's: names of columns as they were granted.
    columns: BTreeMap<String, Privileges>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RoutineKind {
    Procedure,
    Function,
    Library,
}

impl RoutineKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            RoutineKind::Procedure => "PROCEDURE",
            RoutineKind::Function => "FUNCTION",
            RoutineKind::Library => "LIBRARY",
        }
    }
}

/// Kind, folded database name, name in lower case.
pub(crate) type Routine = (RoutineKind, String, String);

/// Where privileges are granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Level {
    Global,
    Database(String),
    Table(String, String),
    /// The name in lower case, as the server keeps it.
    Routine(RoutineKind, String, String),
}

impl Level {
    /// What ALL means there.
    fn all(&self) -> Privileges {
        match self {
            Level::Global => Privileges::GLOBAL,
            Level::Database(_) => Privileges::DATABASE,
            Level::Table(..) => Privileges::TABLE,
            Level::Routine(..) => Privileges::ROUTINE,
        }
    }
}

/// Privileges that a statement grants or revokes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Asked {
    pub(crate) all: bool,
    pub(crate) privileges: Privileges,
    /// A privilege and the columns in brackets after it.
    pub(crate) columns: Vec<(Privileges, Vec<String>)>,
    /// Dynamic privileges, in upper case.
    pub(crate) dynamic: Vec<String>,
    /// The words GRANT OPTION, or WITH GRANT OPTION.
    pub(crate) grant_option: bool,
    /// USAGE, which is no privilege, but makes a statement one about static privileges.
    pub(crate) usage: bool,
}

impl Asked {
    fn at(&self, level: &Level) -> Asked {
        let all = if self.all { level.all() } else { Privileges::default() };
        Asked { privileges: self.privileges.with(all), ..self.clone() }
    }
}

/// Whether the source runs with `partial_revokes`, under which REVOKE at a database takes a part of a global privilege
/// away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartialRevokes {
    On,
    /// Off, or nothing shows that it is on. `if_exists`: the statement may have had no effect.
    Unknown {
        if_exists: bool,
    },
}

/// The statement and the accounts do not say which effect it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotKnown;

#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Grants {
    global: Held,
    /// With GRANT OPTION if true.
    dynamic: BTreeMap<String, bool>,
    databases: SharedMap<String, Held>,
    /// Parts of global privileges that are revoked, by database.
    restrictions: SharedMap<String, Privileges>,
    tables: SharedMap<(String, String), OnTable>,
    routines: SharedMap<Routine, Held>,
    /// With GRANT OPTION if true.
    pub(crate) proxies: BTreeMap<AccountName, bool>,
    /// With ADMIN OPTION if true.
    pub(crate) roles: BTreeMap<AccountName, bool>,
}

impl Grants {
    pub(crate) fn is_restricted(&self) -> bool {
        !self.restrictions.is_empty()
    }

    /// GRANT of privileges. ALL at `*.*` adds the static privileges; which dynamic ones exist, the source alone knows.
    pub(crate) fn grant(&mut self, level: &Level, asked: &Asked) {
        let asked = asked.at(level);
        match level {
            Level::Global => {
                let is_static = asked.usage || asked.all || !asked.privileges.is_empty() || asked.dynamic.is_empty();
                if is_static {
                    self.global.add(&asked);
                    self.lift_everywhere(asked.privileges);
                }
                for name in &asked.dynamic {
                    *self.dynamic.entry(name.clone()).or_default() |= asked.grant_option;
                }
            }
            Level::Database(db) => {
                let restricted = self.restrictions.get(db).copied().unwrap_or_default();
                let lifted = restricted.both(asked.privileges);
                self.lift(db, lifted);
                let mut held = self.databases.get(db).copied().unwrap_or_default();
                held.add(&Asked { privileges: asked.privileges.without(lifted), ..asked });
                put(&mut self.databases, db.clone(), held);
            }
            Level::Table(db, table) => {
                let key = (db.clone(), table.clone());
                let mut on = self.tables.get(&key).cloned().unwrap_or_default();
                on.held.add(&asked);
                for (privilege, columns) in &asked.columns {
                    for column in columns {
                        let held = on.columns.entry(column.clone()).or_default();
                        *held = held.with(*privilege);
                    }
                }
                put(&mut self.tables, key, on);
            }
            Level::Routine(kind, db, name) => {
                let key = (*kind, db.clone(), name.clone());
                let mut held = self.routines.get(&key).copied().unwrap_or_default();
                held.add(&asked);
                put(&mut self.routines, key, held);
            }
        }
    }

    /// Revokes privileges, but no roles or proxies.
    ///
    /// # Errors
    /// It depends on whether `partial_revokes` is on. Privileges that are revoked either way, are.
    pub(crate) fn revoke(&mut self, level: &Level, asked: &Asked, partial: PartialRevokes) -> Result<(), NotKnown> {
        let asked = asked.at(level);
        match level {
            Level::Global => {
                self.global.remove(&asked);
                self.lift_everywhere(asked.privileges);
                for name in &asked.dynamic {
                    self.dynamic.remove(name);
                }
            }
            Level::Database(db) => {
                let before = self.databases.get(db).copied().unwrap_or_default();
                let mut held = before;
                held.remove(&asked);
                put(&mut self.databases, db.clone(), held);
                let part = asked.privileges.both(self.global.privileges).without(before.privileges);
                // Without partial_revokes a revocation of nothing is an error, so it is not in a log.
                let of_nothing =
                    before.privileges.both(asked.privileges).is_empty() && !(before.grant_option && asked.grant_option);
                let is_on = match partial {
                    PartialRevokes::On => true,
                    PartialRevokes::Unknown { if_exists } => of_nothing && !if_exists,
                };
                if !part.is_empty() && is_on {
                    let restricted = self.restrictions.get(db).copied().unwrap_or_default();
                    self.restrictions.insert(db.clone(), restricted.with(part));
                } else if !part.is_empty() {
                    return Err(NotKnown);
                }
            }
            Level::Table(db, table) => {
                let key = (db.clone(), table.clone());
                let Some(mut on) = self.tables.get(&key).cloned() else { return Ok(()) };
                on.held.remove(&asked);
                // A privilege of the table includes those of its columns.
                on.columns.values_mut().for_each(|held| *held = held.without(asked.privileges));
                for (privilege, columns) in &asked.columns {
                    for column in columns {
                        if let Some(held) = on.columns.get_mut(column) {
                            *held = held.without(*privilege);
                        }
                    }
                }
                on.columns.retain(|_, held| !held.is_empty());
                put(&mut self.tables, key, on);
            }
            Level::Routine(kind, db, name) => {
                let key = (*kind, db.clone(), name.clone());
                let mut held = self.routines.get(&key).copied().unwrap_or_default();
                held.remove(&asked);
                put(&mut self.routines, key, held);
            }
        }
        Ok(())
    }

    /// REVOKE ALL PRIVILEGES, GRANT OPTION: roles and proxies stay.
    pub(crate) fn revoke_all(&mut self) {
        let Grants { proxies, roles, .. } = std::mem::take(self);
        *self = Grants { proxies, roles, ..Grants::default() };
    }

    /// GRANT OPTION at `*.*`, which the server gives with GRANT PROXY … WITH GRANT OPTION too, so seen on 9.7.
    pub(crate) fn grant_onward(&mut self) {
        self.global.grant_option = true;
    }

    pub(crate) fn lacks_routines_of(&self, db: &str) -> bool {
        let of_database = self.databases.get(db).copied().unwrap_or_default().privileges;
        !Privileges::ROUTINE.without(self.global.privileges.with(of_database)).is_empty()
    }

    pub(crate) fn has_routine(&self, routine: &Routine) -> bool {
        self.routines.contains_key(routine)
    }

    /// A dropped routine takes its grants along (`automatic_sp_privileges`, on by default).
    pub(crate) fn routine_gone(&mut self, routine: &Routine) {
        self.routines.remove(routine);
    }

    fn lift(&mut self, db: &str, privileges: Privileges) {
        if let Some(restricted) = self.restrictions.get(db).copied() {
            put(&mut self.restrictions, db.to_owned(), restricted.without(privileges));
        }
    }

    fn lift_everywhere(&mut self, privileges: Privileges) {
        let concerned = self.restrictions.iter().filter(|(_, restricted)| !restricted.both(privileges).is_empty());
        let concerned: Vec<String> = concerned.map(|(db, _)| db.clone()).collect();
        concerned.iter().for_each(|db| self.lift(db, privileges));
    }

    /// Of the statements that SHOW GRANTS prints for this account, those that are not of a database, table or routine;
    /// and one that revokes their excess.
    pub(crate) fn shown(&self, account: &AccountName) -> Vec<(Place, String)> {
        let to = account.quoted();
        let global = format!("GRANT {} ON *.* TO {to}{}", usage(self.global.privileges.names()), self.global.suffix());
        let mut lines = vec![(Place::of(Part::Global), global)];
        for (option, suffix, part) in
            [(false, "", Part::Dynamic), (true, " WITH GRANT OPTION", Part::DynamicWithOption)]
        {
            let names: Vec<&str> =
                self.dynamic.iter().filter(|(_, with)| **with == option).map(|(name, _)| name.as_str()).collect();
            if !names.is_empty() {
                lines.push((Place::of(part), format!("GRANT {} ON *.* TO {to}{suffix}", names.join(","))));
            }
        }
        for (index, (proxied, option)) in (0u32..).zip(&self.proxies) {
            let suffix = if *option { " WITH GRANT OPTION" } else { "" };
            let place = Place { number: index, ..Place::of(Part::Proxies) };
            lines.push((place, format!("GRANT PROXY ON {} TO {to}{suffix}", proxied.quoted())));
        }
        if !self.global.grant_option && self.proxies.values().any(|option| *option) {
            lines.push((Place::of(Part::ProxiesExcess), format!("REVOKE GRANT OPTION ON *.* FROM {to}")));
        }
        for (admin, suffix, part) in [(false, "", Part::Roles), (true, " WITH ADMIN OPTION", Part::RolesWithAdmin)] {
            let names = quoted_list(self.roles.iter().filter(|(_, with)| **with == admin).map(|(name, _)| name));
            if !names.is_empty() {
                lines.push((Place::of(part), format!("GRANT {names} TO {to}{suffix}")));
            }
        }
        lines
    }

    /// Of the statements that SHOW GRANTS prints, those of a database, table or routine that are others than before.
    pub(crate) fn changes(&self, before: &Grants, account: &AccountName) -> Vec<(Place, Option<String>)> {
        let to = account.quoted();
        let of = |held: Held, all: Privileges| match held.privileges {
            privileges if privileges == all => "ALL PRIVILEGES".to_owned(),
            privileges => privileges.names(),
        };
        let mut lines = Vec::new();
        for change in self.databases.differences(&before.databases, Held::eq) {
            let text = change.after.map(|held| {
                let names = usage(of(*held, Privileges::DATABASE));
                format!("GRANT {names} ON {}.* TO {to}{}", backticked(change.key), held.suffix())
            });
            lines.push((Place::named(Part::Databases, change.key, ""), text));
        }
        for change in self.restrictions.differences(&before.restrictions, Privileges::eq) {
            let text = change
                .after
                .map(|privileges| format!("REVOKE {} ON {}.* FROM {to}", privileges.names(), backticked(change.key)));
            lines.push((Place::named(Part::Restrictions, change.key, ""), text));
        }
        for change in self.tables.differences(&before.tables, OnTable::eq) {
            let (db, table) = change.key;
            let text = change.after.map(|on| {
                let names = usage(on.names(of(on.held, Privileges::TABLE)));
                format!("GRANT {names} ON {}.{} TO {to}{}", backticked(db), backticked(table), on.held.suffix())
            });
            lines.push((Place::named(Part::Tables, db, table), text));
        }
        for change in self.routines.differences(&before.routines, Held::eq) {
            let (kind, db, name) = change.key;
            let text = change.after.map(|held| {
                let (names, kind) = (usage(held.privileges.names()), kind.name());
                let place = format!("{}.{}", backticked(db), backticked(name));
                format!("GRANT {names} ON {kind} {place} TO {to}{}", held.suffix())
            });
            lines.push((Place { routine: Some(*kind), ..Place::named(Part::Routines, db, name) }, text));
        }
        lines
    }
}

impl OnTable {
    /// The privileges, after those of the whole table.
    fn names(&self, of_table: String) -> String {
        let mut names: Vec<String> = Some(of_table).filter(|names| !names.is_empty()).into_iter().collect();
        let in_columns = self.columns.values().fold(Privileges::default(), |all, one| all.with(*one));
        for (one, name) in in_columns.each() {
            let has = self.columns.iter().filter(|(_, held)| !held.both(one).is_empty());
            let columns: Vec<String> = has.map(|(column, _)| backticked(column)).collect();
            names.push(format!("{name} ({})", columns.join(", ")));
        }
        names.join(", ")
    }
}

fn usage(names: String) -> String {
    if names.is_empty() { "USAGE".to_owned() } else { names }
}

/// Nothing held is no entry.
fn put<K: Ord + Clone + std::hash::Hash, V: Clone + Default + PartialEq>(all: &mut SharedMap<K, V>, key: K, held: V) {
    if held == V::default() {
        all.remove(&key);
    } else {
        all.insert(key, held);
    }
}

/// What a statement after CREATE USER is about, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    OldPassword,
    Expired,
    Global,
    Dynamic,
    DynamicWithOption,
    Databases,
    Restrictions,
    Tables,
    Routines,
    Proxies,
    ProxiesExcess,
    Roles,
    RolesWithAdmin,
    DefaultRoles,
    /// Of objects other than accounts, and of accounts that are not understood.
    Numbered,
}

/// The place of a statement after CREATE USER.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    part: Part,
    number: u32,
    routine: Option<RoutineKind>,
    /// Names of the database and of the object in it.
    names: (String, String),
}

impl Place {
    pub(crate) fn of(part: Part) -> Place {
        Place { part, number: 0, routine: None, names: <(String, String)>::default() }
    }

    pub(crate) fn numbered(number: u32) -> Place {
        Place { number, ..Place::of(Part::Numbered) }
    }

    fn named(part: Part, db: &str, name: &str) -> Place {
        Place { names: (db.to_owned(), name.to_owned()), ..Place::of(part) }
    }
}
