//! All definitions at one place in the log, and the step from one statement to the next.
//!
//! In: changes. Out: the definitions after them, and which of them the source must be asked about. Never here: the text
//! of a statement but as a whole; tables.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use base::SharedMap;

use super::answer::{Answer, Answered, Moment, Older, StoredAnswer};
use super::change::{Located, OfTrigger, located, renamed, when_of};
use super::{Change, Definition, DefinitionKind, Later, Recorded, Unsettled};
use crate::account::{Account, AccountName, AccountStatement, Accounts, Changed, RoutineKind, Under};
use crate::parser::Parser;

/// Most later statements kept per object. Of equal texts only the last is kept, so only statements that keep changing
/// reach the limit; the source is then asked how the object is.
const LATER_MAX: usize = 1000;
/// Most bytes of their texts, unless it is one. Each later statement writes all of them again.
const LATER_BYTES_MAX: usize = 1 << 20;

/// Most dropped tables kept until the definitions of before the log are read. After more, an answer that is older than
/// the last of them is not taken.
const DROPPED_MAX: usize = 1000;

const NOT_UNDERSTOOD: &str = "a statement about it is not understood";
const OLDER: &str = "it may be older than the log";
const TOO_MANY: &str = "too many statements changed it";
const OPEN: &str = "a statement about it has an effect that depends on the source";

/// Kind, folded database name, folded object name.
type Key = (DefinitionKind, Arc<str>, Arc<str>);

/// Names of databases and tables as the source compares them.
type Folded<'a> = &'a dyn Fn(&str) -> String;

/// Under which any account is asked for.
fn any_account() -> Key {
    (DefinitionKind::User, Arc::from(""), Arc::from(""))
}

/// What a change is made under.
pub(crate) struct Source<'a> {
    pub(crate) server_version: Option<u32>,
    /// The log says that the statement changed something.
    pub(crate) changed: bool,
    pub(crate) folded: Folded<'a>,
    /// True if there is a table of this name, so that no view is made.
    pub(crate) is_table: &'a dyn Fn(&str, &str) -> bool,
}

/// All definitions at one place in the log.
#[derive(Clone, Default)]
pub(crate) struct Definitions {
    all: SharedMap<Key, Arc<Definition>>,
    /// Those of `all` that belong to a table, by its folded names.
    of_tables: SharedMap<(Arc<str>, Arc<str>, Key), ()>,
    /// Those of `all` that are accounts and are understood.
    accounts: Accounts,
    unsettled: SharedMap<Key, Arc<Unsettled>>,
    /// When the source was asked, where later statements may be in its answer already.
    answered: SharedMap<Key, Arc<Answered>>,
    /// True if the source's definitions have been read: others do not exist there.
    all_known: bool,
    /// GTID of the last transaction that removed or renamed something. Not stored: an answer that it is compared with
    /// does not outlast the process either.
    removed: String,
    /// GTID of the last statement about accounts. Not stored: nothing that is remembered under it outlasts the process.
    of_accounts: Arc<str>,
    /// Tables that were dropped while the triggers of before the log are not known, each with the GTID. Not stored.
    dropped: SharedMap<(Arc<str>, Arc<str>), Arc<str>>,
}

/// A part of the definitions, as a cut writes it.
pub(crate) enum Kept {
    Definition(Arc<Definition>),
    Unsettled(Arc<Unsettled>),
    Answered(StoredAnswer),
}

impl std::fmt::Debug for Definitions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Definitions").field("count", &self.all.len()).finish_non_exhaustive()
    }
}

impl Definitions {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.all.values()
    }

    pub(crate) fn unsettled(&self) -> impl Iterator<Item = &Unsettled> {
        self.unsettled.values().map(AsRef::as_ref)
    }

    /// True if the source's definitions have been read.
    pub(crate) fn all_known(&self) -> bool {
        self.all_known
    }

    /// GTID of the last statement about accounts since the start; empty without one.
    pub(crate) fn last_of_accounts(&self) -> &Arc<str> {
        &self.of_accounts
    }

    pub(crate) fn know_all(&mut self) {
        self.all_known = true;
    }

    pub(crate) fn view(&self, db: &str, name: &str, folded: Folded<'_>) -> Option<&Arc<Definition>> {
        self.all.get(&key(DefinitionKind::View, db, name, folded))
    }

    /// Takes over an earlier version's knowledge, other than its definitions.
    pub(crate) fn succeed(&mut self, earlier: Definitions) {
        self.answered = earlier.answered;
        self.all_known = earlier.all_known;
        self.removed = earlier.removed;
        self.of_accounts = earlier.of_accounts;
        self.dropped = earlier.dropped;
    }

    pub(crate) fn answers(&self) -> impl Iterator<Item = StoredAnswer> {
        self.answered.iter().map(|(at, answered)| stored(at, answered))
    }

    pub(crate) fn keep_answers(&mut self, list: Vec<StoredAnswer>) {
        for one in list {
            if let Some(answered) = one.read() {
                self.answered.insert((one.kind, one.db.into(), one.name.into()), Arc::new(answered));
            }
        }
    }

    /// The differences from an earlier version, by names of their own; None for an object that is gone.
    pub(crate) fn changes_since<'a>(
        &'a self,
        earlier: &'a Definitions,
    ) -> impl Iterator<Item = (String, Option<Kept>)> + use<'a> {
        let named = |part: &str, (kind, db, name): &Key| format!("{part}/{}/{db}\0{name}", kind.name());
        let all = self.all.differences(&earlier.all, Arc::ptr_eq).into_iter();
        let all = all.map(move |of| (named("definition", of.key), of.after.cloned().map(Kept::Definition)));
        let unsettled = self.unsettled.differences(&earlier.unsettled, Arc::ptr_eq).into_iter();
        let unsettled = unsettled.map(move |of| (named("unsettled", of.key), of.after.cloned().map(Kept::Unsettled)));
        let answered = self.answered.differences(&earlier.answered, Arc::ptr_eq).into_iter();
        let answered = answered.map(move |of| {
            let after = of.after.map(|answered| Kept::Answered(stored(of.key, answered)));
            (named("answered", of.key), after)
        });
        all.chain(unsettled).chain(answered)
    }

    fn put(&mut self, one: Arc<Definition>, folded: Folded<'_>) {
        let at = key(one.kind, &one.db, &one.name, folded);
        self.take_out(&at, folded);
        if let Some((db, table)) = &one.table {
            self.of_tables.insert((folded(db).into(), folded(table).into(), at.clone()), ());
        }
        self.all.insert(at, one);
    }

    fn take_out(&mut self, at: &Key, folded: Folded<'_>) -> Option<Arc<Definition>> {
        let one = self.all.remove(at)?;
        if let Some((db, table)) = &one.table {
            self.of_tables.remove(&(folded(db).into(), folded(table).into(), at.clone()));
        }
        Some(one)
    }

    /// The triggers of a table.
    pub(crate) fn triggers_of(&self, db: &str, name: &str, folded: Folded<'_>) -> Vec<&Arc<Definition>> {
        let (db, name): (Arc<str>, Arc<str>) = (folded(db).into(), folded(name).into());
        let first = (Arc::clone(&db), Arc::clone(&name), any_account());
        let of_it = self.of_tables.keys_from(&first).take_while(|(of, table, _)| *of == db && *table == name);
        of_it.filter_map(|(_, _, key)| self.all.get(key)).collect()
    }

    /// A function among these that are called, by their names alone.
    pub(crate) fn called(&self, calls: &[String]) -> Option<&Arc<Definition>> {
        if calls.is_empty() {
            return None;
        }
        let first = (DefinitionKind::Function, Arc::from(""), Arc::from(""));
        let functions = self.all.iter_from(&first).take_while(|(key, _)| key.0 == DefinitionKind::Function);
        let is_called = |one: &Definition| calls.iter().any(|called| called.to_lowercase() == one.name.to_lowercase());
        functions.map(|(_, one)| one).find(|one| is_called(one))
    }

    /// Takes over what the source says. What a statement has changed since must be asked again.
    pub(crate) fn settle(&mut self, answer: &Answer, folded: Folded<'_>) {
        for (kind, db, name) in &answer.asked {
            let at = key(*kind, db, name, folded);
            if !self.unsettled.get(&at).is_some_and(|mark| answer.holds(&mark.gtid)) {
                continue;
            }
            self.unsettled.remove(&at);
            let is_any = at == any_account();
            let is_of = |its: &Key| *its == at || (is_any && its.0 == DefinitionKind::User);
            let gone: Vec<Key> = self.all.keys_from(&at).take_while(|its| is_of(its)).cloned().collect();
            for at in gone {
                self.take_out(&at, folded);
                if at.0 == DefinitionKind::User {
                    self.accounts.remove(&AccountName::of_definition(&at.2));
                }
            }
            for one in &answer.definitions {
                if is_of(&key(one.kind, &one.db, &one.name, folded)) {
                    self.insert(one.clone(), folded);
                }
            }
            self.answered.insert(at, Arc::new(Answered::of(answer)));
        }
        if answer.older != Older::None && self.takes(answer) {
            self.complete(answer, folded);
        }
    }

    /// False if something was removed or renamed that may be in the answer.
    pub(crate) fn takes(&self, answer: &Answer) -> bool {
        answer.older == Older::None || answer.holds(&self.removed)
    }

    /// Takes over objects that are older than the log. Those that it has made or changed stay.
    fn complete(&mut self, answer: &Answer, folded: Folded<'_>) {
        let dropped = std::mem::take(&mut self.dropped);
        let is_dropped = |(db, table): &(String, String)| {
            let dropped = dropped.get(&(Arc::from(folded(db)), Arc::from(folded(table))));
            dropped.is_some_and(|gtid| !answer.holds(gtid))
        };
        for one in answer.definitions.iter().filter(|one| !one.table.as_ref().is_some_and(is_dropped)) {
            let at = key(one.kind, &one.db, &one.name, folded);
            if !self.all.contains_key(&at) && !self.unsettled.contains_key(&at) {
                self.insert(one.clone(), folded);
                self.answered.insert(at, Arc::new(Answered::of(answer)));
            }
        }
        self.all_known |= answer.older == Older::All;
    }

    /// Whether an answer about the object has the transaction already; None if there is no such answer any more.
    fn moment(&mut self, at: &Key, gtid: &str) -> Option<Moment> {
        let of_all = || (at.0 == DefinitionKind::User).then(any_account);
        for at in std::iter::once(at.clone()).chain(of_all()) {
            match self.answered.get(&at).map(|answered| answered.moment(gtid)) {
                None => {}
                Some(Moment::After) => drop(self.answered.remove(&at)),
                moment => return moment,
            }
        }
        None
    }

    /// Those of a list: of a copy, or kept by this version or an earlier one, which kept statements about accounts as
    /// they came.
    pub(crate) fn from_list(list: Vec<Definition>, unsettled: Vec<Unsettled>, folded: Folded<'_>) -> Definitions {
        let mut definitions = Definitions::default();
        for one in list {
            definitions.insert(one, folded);
        }
        for one in unsettled {
            definitions.unsettled.insert(key(one.kind, &one.db, &one.name, folded), Arc::new(one));
        }
        definitions
    }

    fn insert(&mut self, mut one: Definition, folded: Folded<'_>) {
        let last = one.later.iter().last().or(one.made.as_ref()).cloned().unwrap_or_default();
        let of_copy = last.gtid.is_empty();
        if one.kind != DefinitionKind::User {
            if !of_copy && !one.settle() {
                self.mark(one.kind, &one.db, &one.name, &last.gtid, OLDER, folded);
            }
            self.put(Arc::new(one), folded);
            return;
        }
        if one.made.is_none() {
            self.mark(one.kind, &one.db, &one.name, &last.gtid, OLDER, folded);
        }
        let name = AccountName::of_definition(&one.name);
        match self.read_account(&name, &one, folded) {
            Some((account, sure)) => {
                if !sure && !of_copy {
                    self.mark(one.kind, "", &one.name, &last.gtid, OPEN, folded);
                }
                self.put(Arc::new(definition_of(&name, &account, Some(&one), &last)), folded);
                self.accounts.insert(name, account);
            }
            // What the source says of it counts, understood or not.
            None => {
                if !of_copy {
                    self.mark(one.kind, "", &one.name, &last.gtid, NOT_UNDERSTOOD, folded);
                }
                self.put(Arc::new(one), folded);
            }
        }
    }

    /// The account that statements make, and whether it is exactly that; None if one is not understood.
    fn read_account(
        &self,
        name: &AccountName,
        one: &Definition,
        folded: Folded<'_>,
    ) -> Option<(Arc<crate::account::Account>, bool)> {
        let mut accounts = Accounts::default();
        let mut sure = true;
        for recorded in one.made.iter().chain(one.later.iter()) {
            let context = recorded.context();
            let statement = AccountStatement::read(&mut Parser::new(&context, recorded.text.as_bytes()), "").ok()??;
            let under =
                Under { all_known: false, is_unsure: &|_| false, server_version: None, of_the_source: true, folded };
            sure &= !accounts.take(statement, &under).unsure.contains(name);
        }
        Some((Arc::clone(accounts.get(name)?), sure))
    }

    pub(crate) fn take(&mut self, change: Change, recorded: &Recorded, source: &Source<'_>) {
        if matches!(change, Change::Accounts(_) | Change::AccountsUnclear(_)) {
            self.of_accounts = Arc::from(recorded.gtid.as_str());
        }
        match change {
            Change::Accounts(statement) => {
                if matches!(statement, AccountStatement::Drop(_) | AccountStatement::Rename(_)) {
                    self.removed.clone_from(&recorded.gtid);
                }
                let before = Definitions::clone(self);
                let under = Under {
                    all_known: self.all_known && !self.unsettled.contains_key(&any_account()),
                    is_unsure: &|name| before.is_unsure(name, source.folded),
                    server_version: source.server_version,
                    of_the_source: false,
                    folded: source.folded,
                };
                let mut done = self.accounts.take(statement, &under);
                self.without_answered(&mut done, &before.accounts, &recorded.gtid, source.folded);
                self.follow(done, &before.accounts, recorded, source.folded);
            }
            Change::AccountsUnclear(names) if names.is_empty() => {
                self.mark(DefinitionKind::User, "", "", &recorded.gtid, NOT_UNDERSTOOD, source.folded);
            }
            Change::AccountsUnclear(names) => {
                for name in names {
                    self.mark(DefinitionKind::User, "", &name.plain(), &recorded.gtid, NOT_UNDERSTOOD, source.folded);
                }
            }
            Change::Made(located) => self.make(located, recorded, source),
            Change::Altered(located) => self.alter(located, recorded, source.folded),
            Change::Gone { kind, names } => {
                self.removed.clone_from(&recorded.gtid);
                for (db, name) in &names {
                    let at = key(kind, db, name, source.folded);
                    if self.moment(&at, &recorded.gtid) != Some(Moment::Before) {
                        if let Some(gone) = self.take_out(&at, source.folded) {
                            self.close_order(&gone, source.folded);
                        }
                        self.unsettled.remove(&at);
                    }
                    if let Some(of) = routine_kind(kind) {
                        let before = self.accounts.clone();
                        let mut done = self.accounts.routine_gone(of, &at.1, &at.2);
                        self.without_answered(&mut done, &before, &recorded.gtid, source.folded);
                        self.follow(done, &before, recorded, source.folded);
                    }
                }
            }
            Change::Unclear { kind, db, name } => {
                self.mark(kind, &db, &name, &recorded.gtid, NOT_UNDERSTOOD, source.folded);
            }
        }
    }

    /// True for an account of which is not known how it is.
    fn is_unsure(&self, name: &AccountName, folded: Folded<'_>) -> bool {
        let at = key(DefinitionKind::User, "", &name.plain(), folded);
        self.unsettled.contains_key(&at) || (self.all.contains_key(&at) && self.accounts.get(name).is_none())
    }

    /// Undoes a statement for accounts about which the source was asked when it had executed it already.
    fn without_answered(&mut self, done: &mut Changed, before: &Accounts, gtid: &str, folded: Folded<'_>) {
        if self.answered.is_empty() {
            return;
        }
        let all = [&done.changed, &done.gone, &done.settled, &done.unsure];
        let names: BTreeSet<AccountName> = all.into_iter().flatten().cloned().collect();
        for name in names {
            match self.moment(&key(DefinitionKind::User, "", &name.plain(), folded), gtid) {
                Some(Moment::Before) => {
                    for of in [&mut done.changed, &mut done.gone, &mut done.settled, &mut done.unsure] {
                        of.remove(&name);
                    }
                    match before.get(&name) {
                        Some(account) => self.accounts.insert(name, Arc::clone(account)),
                        None => self.accounts.remove(&name),
                    }
                }
                Some(Moment::During) if !done.gone.contains(&name) && !done.settled.contains(&name) => {
                    done.unsure.insert(name);
                }
                _ => {}
            }
        }
    }

    /// Brings the definitions of accounts up to date.
    fn follow(&mut self, done: Changed, before: &Accounts, recorded: &Recorded, folded: Folded<'_>) {
        let at = |name: &AccountName| key(DefinitionKind::User, "", &name.plain(), folded);
        for name in &done.gone {
            self.take_out(&at(name), folded);
            self.unsettled.remove(&at(name));
        }
        for name in &done.settled {
            self.unsettled.remove(&at(name));
        }
        for name in &done.changed {
            let at = at(name);
            if let Some(account) = self.accounts.get(name) {
                let definition = self.all.get(&at).map(AsRef::as_ref);
                let one = match before.get(name).zip(definition) {
                    Some((before, definition)) => definition_after(name, (before, account), definition, recorded),
                    None => definition_of(name, account, definition, recorded),
                };
                self.put(Arc::new(one), folded);
            }
            self.touch(&at, &recorded.gtid);
        }
        for name in &done.unsure {
            let why = if self.accounts.get(name).is_some() { OPEN } else { OLDER };
            self.mark(DefinitionKind::User, "", &name.plain(), &recorded.gtid, why, folded);
        }
    }

    fn make(&mut self, located: Located, recorded: &Recorded, source: &Source<'_>) {
        let Located { kind, db, name, .. } = &located;
        let at = key(*kind, db, name, source.folded);
        if self.moment(&at, &recorded.gtid) == Some(Moment::Before) {
            return;
        }
        let is_there = self.all.contains_key(&at) || (*kind == DefinitionKind::View && (source.is_table)(db, name));
        // It may have changed nothing.
        let is_open = located.if_not_exists && !source.changed;
        if is_open && self.unsettled.contains_key(&at) {
            self.touch(&at, &recorded.gtid);
            return;
        }
        if is_open && is_there {
            return;
        }
        self.unsettled.remove(&at);
        if let Some(definer) = located.definer.as_ref().filter(|_| routine_kind(*kind).is_some())
            && self.accounts.lacks_routines_of(definer, &at.1)
        {
            self.mark(DefinitionKind::User, "", &definer.plain(), &recorded.gtid, OPEN, source.folded);
        }
        if is_open && !self.all_known {
            self.mark(*kind, db, name, &recorded.gtid, OLDER, source.folded);
        }
        let order = located.trigger.as_ref().map(|of| self.order_of(of, source.folded));
        let moment = recorded.timestamp_us.filter(|_| *kind == DefinitionKind::Event);
        let made = Recorded { text: located.text, timestamp_us: moment, ..recorded.clone() };
        let one = Definition {
            kind: located.kind,
            db: located.db,
            name: located.name,
            table: located.trigger.map(|of| of.table),
            made: Some(made),
            later: Later::default(),
            order,
        };
        self.put(Arc::new(one), source.folded);
    }

    fn alter(&mut self, located: Located, recorded: &Recorded, folded: Folded<'_>) {
        let Located { kind, db, name, renamed, says_more, text, .. } = located;
        let from = key(kind, &db, &name, folded);
        let answered = self.moment(&from, &recorded.gtid);
        let is_renamed = renamed.is_some();
        let to = renamed.unwrap_or((db, name));
        let at = key(kind, &to.0, &to.1, folded);
        if answered == Some(Moment::Before) && at == from {
            return;
        }
        let mark = self.unsettled.remove(&from);
        if at != from {
            self.removed.clone_from(&recorded.gtid);
        }
        let Some(mut one) = self.take_out(&from, folded) else {
            self.mark(kind, &to.0, &to.1, &recorded.gtid, OLDER, folded);
            return;
        };
        let of = Arc::make_mut(&mut one);
        let moment = recorded.timestamp_us.filter(|_| kind == DefinitionKind::Event);
        let mut kept = true;
        if says_more {
            kept = of.add(Recorded { text, timestamp_us: moment, ..recorded.clone() });
        }
        // A copy's text may leave the database out, which a restart puts in.
        let kept_name = if is_renamed { to.clone() } else { (of.db.clone(), of.name.clone()) };
        let is_understood = of.rename(kept_name, None);
        self.put(one, folded);
        if let Some(mark) = mark {
            self.mark(kind, &to.0, &to.1, &recorded.gtid, &mark.why, folded);
        } else if answered.is_some() {
            self.mark(kind, &to.0, &to.1, &recorded.gtid, OPEN, folded);
        } else if !kept {
            self.mark(kind, &to.0, &to.1, &recorded.gtid, TOO_MANY, folded);
        } else if !is_understood {
            self.mark(kind, &to.0, &to.1, &recorded.gtid, NOT_UNDERSTOOD, folded);
        }
    }

    /// The place of a new trigger among those of its table that run at the same moment.
    fn order_of(&mut self, new: &OfTrigger, folded: Folded<'_>) -> u32 {
        let order = |one: &Definition| one.order.unwrap_or(1);
        let others = self.beside(&new.table, &new.when, folded);
        let last = others.iter().map(|one| order(one)).max().unwrap_or(0);
        let beside = new.beside.as_ref().and_then(|(follows, name)| {
            let other = others.iter().find(|one| one.name.to_lowercase() == name.to_lowercase())?;
            Some(order(other) + u32::from(*follows))
        });
        let place = beside.unwrap_or(last + 1);
        for mut one in others.into_iter().filter(|one| order(one) >= place) {
            let of = Arc::make_mut(&mut one);
            of.order = Some(order(of) + 1);
            self.put(one, folded);
        }
        place
    }

    /// Counts on over the place of a trigger that is gone, as the source does.
    fn close_order(&mut self, gone: &Definition, folded: Folded<'_>) {
        let (Some(table), Some(place)) = (&gone.table, gone.order) else { return };
        let Some(when) = gone.made.as_ref().and_then(when_of) else { return };
        for mut one in self.beside(table, &when, folded) {
            let of = Arc::make_mut(&mut one);
            if let Some(order) = of.order.filter(|order| *order > place) {
                of.order = Some(order - 1);
                self.put(one, folded);
            }
        }
    }

    /// The triggers of a table that run at this moment.
    fn beside(&self, table: &(String, String), when: &[String; 2], folded: Folded<'_>) -> Vec<Arc<Definition>> {
        let runs_then = |one: &Definition| one.made.as_ref().and_then(when_of).is_some_and(|its| its == *when);
        let all = self.triggers_of(&table.0, &table.1, folded).into_iter();
        all.filter(|one| runs_then(one)).cloned().collect()
    }

    /// True if an answer about the object has the transaction already.
    fn has_answer_with(&self, at: &Key, gtid: &str) -> bool {
        self.answered.get(at).is_some_and(|answered| answered.moment(gtid) == Moment::Before)
    }

    /// DROP DATABASE: removes everything in the database. Grants on it stay, so seen on 9.7.
    pub(crate) fn database_gone(&mut self, folded_db: &str, gtid: &str, folded: Folded<'_>) {
        gtid.clone_into(&mut self.removed);
        use DefinitionKind::{Event, Function, Library, Procedure, Trigger, View};
        for kind in [Library, Function, Procedure, View, Trigger, Event] {
            let first = (kind, Arc::from(folded_db), Arc::from(""));
            let is_inside = |at: &&Key| at.0 == kind && *at.1 == *folded_db;
            let gone = self.all.keys_from(&first).take_while(is_inside);
            let marked = self.unsettled.keys_from(&first).take_while(is_inside);
            let gone = gone.chain(marked).filter(|at| !self.has_answer_with(at, gtid));
            for at in gone.cloned().collect::<Vec<_>>() {
                self.take_out(&at, folded);
                self.unsettled.remove(&at);
            }
        }
    }

    /// DROP TABLE: removes the table's triggers.
    pub(crate) fn table_gone(&mut self, db: &str, name: &str, gtid: &str, folded: Folded<'_>) {
        if !self.all_known {
            if self.dropped.len() >= DROPPED_MAX {
                self.dropped = SharedMap::new();
                gtid.clone_into(&mut self.removed);
            }
            self.dropped.insert((folded(db).into(), folded(name).into()), gtid.into());
        }
        let gone: Vec<Key> = (self.triggers_of(db, name, folded).into_iter())
            .map(|one| key(one.kind, &one.db, &one.name, folded))
            .filter(|at| !self.has_answer_with(at, gtid))
            .collect();
        for at in gone {
            self.take_out(&at, folded);
            self.unsettled.remove(&at);
        }
    }

    /// RENAME TABLE of a table or view. Triggers follow their table; the source moves neither to another database.
    pub(crate) fn table_renamed(&mut self, from: (&str, &str), to: (&str, &str), gtid: &str, folded: Folded<'_>) {
        gtid.clone_into(&mut self.removed);
        let to = (to.0.to_owned(), to.1.to_owned());
        let mut unclear = Vec::new();
        let triggers: Vec<Arc<Definition>> =
            self.triggers_of(from.0, from.1, folded).into_iter().map(Arc::clone).collect();
        for mut one in triggers {
            let at = key(one.kind, &one.db, &one.name, folded);
            if self.has_answer_with(&at, gtid) {
                continue;
            }
            self.take_out(&at, folded);
            let of = Arc::make_mut(&mut one);
            of.table = Some(to.clone());
            let name = (of.db.clone(), of.name.clone());
            if !of.rename(name, Some(&to)) {
                unclear.push((of.kind, of.db.clone(), of.name.clone()));
            }
            self.put(one, folded);
        }
        let at = key(DefinitionKind::View, from.0, from.1, folded);
        // The answer may know the view by its new name, about which the source was not asked.
        let answered = self.moment(&at, gtid).is_some();
        let mark = self.unsettled.remove(&at).is_some() || answered;
        if let Some(mut view) = self.take_out(&at, folded) {
            if !Arc::make_mut(&mut view).rename(to.clone(), None) || mark {
                unclear.push((DefinitionKind::View, to.0, to.1));
            }
            self.put(view, folded);
        } else if mark {
            unclear.push((DefinitionKind::View, to.0, to.1));
        }
        for (kind, db, name) in unclear {
            self.mark(kind, &db, &name, gtid, NOT_UNDERSTOOD, folded);
        }
    }

    fn mark(&mut self, kind: DefinitionKind, db: &str, name: &str, gtid: &str, why: &str, folded: Folded<'_>) {
        let one =
            Unsettled { kind, db: db.to_owned(), name: name.to_owned(), gtid: gtid.to_owned(), why: why.to_owned() };
        self.unsettled.insert(key(kind, db, name, folded), Arc::new(one));
    }

    /// The statement may have changed something whose state is not known.
    fn touch(&mut self, at: &Key, gtid: &str) {
        if let Some(mark) = self.unsettled.get(at) {
            let mark = Unsettled { gtid: gtid.to_owned(), ..Unsettled::clone(mark) };
            self.unsettled.insert(at.clone(), Arc::new(mark));
        }
    }
}

impl Definition {
    /// Gives kept statements the form in which they are kept now; false if they do not say all. Earlier versions took
    /// IF NOT EXISTS for a definition, whether it was one or not, and kept old names, but no order of triggers and no
    /// moment of events.
    fn settle(&mut self) -> bool {
        let mut whole = self.made.is_some();
        whole &= self.kind != DefinitionKind::Trigger || self.order.is_some();
        let is_event = self.kind == DefinitionKind::Event;
        let mut says_more = |recorded: &mut Recorded| {
            let of_log = !recorded.gtid.is_empty();
            let Some(found) = located(recorded) else {
                whole = false;
                return true;
            };
            let lacks_moment = is_event && of_log && recorded.timestamp_us.is_none();
            whole &= !found.if_not_exists && !lacks_moment;
            recorded.text = found.text;
            found.says_more
        };
        if let Some(made) = &mut self.made {
            says_more(made);
        }
        self.later.edit(|list| list.retain_mut(says_more));
        self.rename((self.db.clone(), self.name.clone()), self.table.clone().as_ref()) && whole
    }

    /// False if there are too many statements.
    fn add(&mut self, recorded: Recorded) -> bool {
        self.later.edit(|list| {
            list.retain(|other| other.text != recorded.text);
            let bytes = list.iter().map(|other| other.text.len()).sum::<usize>() + recorded.text.len();
            let room = list.is_empty() || list.len() < LATER_MAX && bytes <= LATER_BYTES_MAX;
            if room {
                list.push(recorded);
            }
            room
        })
    }

    /// Gives the object, or its table, another name in all its statements; false if one is not understood.
    fn rename(&mut self, to: (String, String), table: Option<&(String, String)>) -> bool {
        let mut all = true;
        let mut rename = |recorded: &mut Recorded| match renamed(recorded, &to, table) {
            Some(text) => recorded.text = text,
            None => all = false,
        };
        self.made.iter_mut().for_each(&mut rename);
        self.later.edit(|list| list.iter_mut().for_each(rename));
        (self.db, self.name) = to;
        all
    }
}

/// The statements that make an account; those that are as before keep their transaction.
fn definition_of(
    name: &AccountName,
    account: &Account,
    before: Option<&Definition>,
    recorded: &Recorded,
) -> Definition {
    let (made, fixed) = account.statements(name);
    let grants = account.changed_grants(&Account::role(), name);
    let old = before.iter().flat_map(|one| one.made.iter().chain(one.later.iter()));
    let old: HashMap<&str, &Recorded> = old.map(|recorded| (recorded.text.as_str(), recorded)).collect();
    let recorded = |text: String| match old.get(text.as_str()) {
        Some(old) => Recorded::clone(old),
        None => Recorded { text, gtid: recorded.gtid.clone(), ..Recorded::default() },
    };
    let mut later = Later::default();
    fixed.into_iter().for_each(|(place, text)| later.put(place, Some(recorded(text))));
    grants.into_iter().for_each(|(place, text)| later.put(place, text.map(recorded)));
    let (db, name) = (String::new(), name.plain());
    Definition { kind: DefinitionKind::User, db, name, table: None, made: Some(recorded(made)), later, order: None }
}

/// As [`definition_of`], of an account whose statements were made before: the work depends on the changes, not on how
/// much has been granted to it.
fn definition_after(
    name: &AccountName,
    (before, account): (&Account, &Account),
    definition: &Definition,
    recorded: &Recorded,
) -> Definition {
    let mut one = definition.clone();
    let recorded = |text: String| Recorded { text, gtid: recorded.gtid.clone(), ..Recorded::default() };
    let (made, fixed) = account.statements(name);
    if one.made.as_ref().is_none_or(|old| old.text != made) {
        one.made = Some(recorded(made));
    }
    let (_, fixed_before) = before.statements(name);
    for (place, _) in fixed_before {
        if !fixed.iter().any(|(other, _)| *other == place) {
            one.later.put(place, None);
        }
    }
    let changed: Vec<_> = fixed.into_iter().filter(|(place, text)| one.later.text_at(place) != Some(text)).collect();
    changed.into_iter().for_each(|(place, text)| one.later.put(place, Some(recorded(text))));
    for (place, text) in account.changed_grants(before, name) {
        one.later.put(place, text.map(recorded));
    }
    one
}

fn routine_kind(kind: DefinitionKind) -> Option<RoutineKind> {
    Some(match kind {
        DefinitionKind::Function => RoutineKind::Function,
        DefinitionKind::Procedure => RoutineKind::Procedure,
        DefinitionKind::Library => RoutineKind::Library,
        _ => return None,
    })
}

/// Names of programs and events are never case-sensitive; those of users always are, those of hosts never.
fn key(kind: DefinitionKind, db: &str, name: &str, folded: Folded<'_>) -> Key {
    let name = match kind {
        // Any account has no name, an anonymous one is @host.
        DefinitionKind::User if name.is_empty() => String::new(),
        DefinitionKind::User => AccountName::of_definition(name).plain(),
        DefinitionKind::View | DefinitionKind::Trigger => folded(name),
        DefinitionKind::Function | DefinitionKind::Procedure | DefinitionKind::Event | DefinitionKind::Library => {
            name.to_lowercase()
        }
    };
    (kind, folded(db).into(), name.into())
}

fn stored((kind, db, name): &Key, answered: &Answered) -> StoredAnswer {
    answered.stored(*kind, db, name)
}
