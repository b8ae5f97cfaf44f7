//! Views, routines, triggers, events, users and grants, as last stated by the log or the initial copy.
//!
//! In: their statements with context. Out: for each object its text, the session settings it was created under, and the
//! transaction. Never here: the effect of any of them; tables.

use std::sync::Arc;

use base::SharedMap;
use serde::{Deserialize, Serialize};

use crate::charset;
use crate::context::StatementContext;
use crate::error::Problem;
use crate::filters::ReplicationFilters;
use crate::lexer::{Tok, without_final_nul};
use crate::parser::Parser;
use crate::server_text;
use crate::syntax::TableName;

/// Most tokens to read before it is clear what a CREATE creates.
const ATTRIBUTE_TOKENS_MAX: usize = 64;
/// Most later statements kept per object. Of equal texts only the last is kept, so only statements that keep changing
/// reach the limit; the oldest is then dropped.
const LATER_MAX: usize = 1000;

/// Kinds of objects, in an order in which they can be created again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DefinitionKind {
    /// CREATE USER, CREATE ROLE, and later changes and grants.
    #[serde(rename = "user")]
    User,
    #[serde(rename = "function")]
    Function,
    #[serde(rename = "procedure")]
    Procedure,
    #[serde(rename = "view")]
    View,
    #[serde(rename = "trigger")]
    Trigger,
    #[serde(rename = "event")]
    Event,
}

impl DefinitionKind {
    /// MySQL's keyword for this kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DefinitionKind::User => "USER",
            DefinitionKind::Function => "FUNCTION",
            DefinitionKind::Procedure => "PROCEDURE",
            DefinitionKind::View => "VIEW",
            DefinitionKind::Trigger => "TRIGGER",
            DefinitionKind::Event => "EVENT",
        }
    }
}

/// A statement with the session settings it ran under.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Text of the statement. For users and grants it may contain password hashes.
    #[serde(rename = "text")]
    pub text: String,
    /// GTID of its transaction; empty without GTIDs. Also empty for a definition from the initial copy, which belongs
    /// to the copy's GTID set.
    #[serde(rename = "gtid")]
    pub gtid: String,
    /// The session's default database, by its name on this replica.
    #[serde(rename = "default_db")]
    pub default_db: String,
    /// `sql_mode` as a list of names.
    #[serde(rename = "sql_mode")]
    pub sql_mode: String,
    /// `character_set_client`; empty if unknown.
    #[serde(rename = "client_charset")]
    pub client_charset: String,
    /// `collation_connection`; empty if unknown.
    #[serde(rename = "connection_collation")]
    pub connection_collation: String,
    /// Default collation of the database; empty if unknown.
    #[serde(rename = "database_collation")]
    pub database_collation: String,
    /// `time_zone`; empty if unknown.
    #[serde(rename = "time_zone")]
    pub time_zone: String,
}

/// One object other than a table or database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Kind of the object.
    #[serde(rename = "kind")]
    pub kind: DefinitionKind,
    /// Its database, by its name on this replica; empty for users.
    #[serde(rename = "db")]
    pub db: String,
    /// Its name; `name@host` for users.
    #[serde(rename = "name")]
    pub name: String,
    /// Database and name of a trigger's table; None for other kinds.
    #[serde(rename = "table", deserialize_with = "Option::deserialize")]
    pub table: Option<(String, String)>,
    /// Statement that created it; None if it is older than the log.
    #[serde(rename = "made", deserialize_with = "Option::deserialize")]
    pub made: Option<Recorded>,
    /// Statements that changed it since: ALTER, GRANT, REVOKE. Of equal texts only the last is kept.
    #[serde(rename = "later")]
    pub later: Vec<Recorded>,
}

/// Kind, folded database name, folded object name.
type Key = (DefinitionKind, Arc<str>, Arc<str>);

/// All definitions at one place in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Definitions {
    all: SharedMap<Key, Arc<Definition>>,
    /// Those that belong to a table, by its folded names.
    of_tables: SharedMap<(Arc<str>, Arc<str>, Key), ()>,
}

/// Effect of a statement on definitions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Made {
        kind: DefinitionKind,
        db: String,
        name: String,
        table: Option<(String, String)>,
    },
    /// ALTER; `renamed` is the new name if it has one.
    Altered {
        kind: DefinitionKind,
        db: String,
        name: String,
        renamed: Option<(String, String)>,
    },
    Gone {
        kind: DefinitionKind,
        names: Vec<(String, String)>,
    },
    UsersMade(Vec<String>),
    /// ALTER USER, GRANT, REVOKE, SET PASSWORD.
    UsersAltered(Vec<String>),
    UsersGone(Vec<String>),
    UsersRenamed(Vec<(String, String)>),
}

impl Change {
    /// How often the statement's text is kept.
    pub(crate) fn texts(&self) -> usize {
        match self {
            Change::Made { .. } | Change::Altered { .. } => 1,
            Change::UsersMade(names) | Change::UsersAltered(names) => names.len(),
            Change::Gone { .. } | Change::UsersGone(_) | Change::UsersRenamed(_) => 0,
        }
    }

    /// None if the statement concerns other objects or cannot be parsed; it then counts as recorded and nothing more.
    pub(crate) fn of(context: &StatementContext, sql: &[u8]) -> Option<Change> {
        let mut parser = Parser::new(context, sql);
        read(&mut parser, context).ok().flatten()
    }
}

fn qualified(parser: &mut Parser<'_>, context: &StatementContext) -> Result<(String, String), Problem> {
    let TableName { db, name } = parser.table_name()?;
    Ok((db.unwrap_or_else(|| context.default_db.clone()), name))
}

fn read(parser: &mut Parser<'_>, context: &StatementContext) -> Result<Option<Change>, Problem> {
    let verb = parser.word_upper()?;
    parser.take()?;
    match verb.as_str() {
        "CREATE" | "ALTER" | "DROP" => object(parser, context, &verb),
        "RENAME" if parser.eat_word("USER")? => {
            let mut pairs = Vec::new();
            loop {
                let from = user(parser)?;
                parser.expect_word("TO")?;
                pairs.push((from, user(parser)?));
                if !parser.eat_punct(b',')? {
                    return Ok(Some(Change::UsersRenamed(pairs)));
                }
            }
        }
        "GRANT" | "REVOKE" => {
            let word = if verb == "GRANT" { "TO" } else { "FROM" };
            while !parser.eat_word(word)? {
                if parser.take()? == Tok::End {
                    return Ok(None);
                }
            }
            users(parser).map(Change::UsersAltered).map(Some)
        }
        "SET" if parser.eat(&["PASSWORD", "FOR"])? => Ok(Some(Change::UsersAltered(vec![user(parser)?]))),
        "SET" if parser.eat(&["DEFAULT", "ROLE"])? => {
            while !parser.eat_word("TO")? {
                if parser.take()? == Tok::End {
                    return Ok(None);
                }
            }
            users(parser).map(Change::UsersAltered).map(Some)
        }
        _ => Ok(None),
    }
}

/// Called after CREATE, ALTER or DROP.
fn object(parser: &mut Parser<'_>, context: &StatementContext, verb: &str) -> Result<Option<Change>, Problem> {
    let mut loadable = false;
    for _ in 0..ATTRIBUTE_TOKENS_MAX {
        let word = parser.word_upper()?;
        if parser.take()? == Tok::End {
            return Ok(None);
        }
        let kind = match word.as_str() {
            "VIEW" => DefinitionKind::View,
            "PROCEDURE" => DefinitionKind::Procedure,
            "FUNCTION" => DefinitionKind::Function,
            "TRIGGER" => DefinitionKind::Trigger,
            "EVENT" => DefinitionKind::Event,
            "USER" | "ROLE" => return people(parser, verb),
            "TABLE" | "DATABASE" | "SCHEMA" | "INDEX" | "TABLESPACE" | "SERVER" | "INSTANCE" => return Ok(None),
            "AGGREGATE" => {
                loadable = true;
                continue;
            }
            _ => continue,
        };
        return of_kind(parser, context, verb, kind, loadable);
    }
    Ok(None)
}

fn of_kind(
    parser: &mut Parser<'_>,
    context: &StatementContext,
    verb: &str,
    kind: DefinitionKind,
    loadable: bool,
) -> Result<Option<Change>, Problem> {
    let _ = parser.eat(&["IF", "NOT", "EXISTS"])? || parser.eat(&["IF", "EXISTS"])?;
    if verb == "DROP" {
        let mut names = vec![qualified(parser, context)?];
        while parser.eat_punct(b',')? {
            names.push(qualified(parser, context)?);
        }
        return Ok(Some(Change::Gone { kind, names }));
    }
    let (db, name) = qualified(parser, context)?;
    // ALTER VIEW is excluded because it redefines the view completely.
    if verb == "ALTER" && kind != DefinitionKind::View {
        let mut renamed = None;
        if kind == DefinitionKind::Event {
            while *parser.peek()? != Tok::End && !parser.is_word("DO")? {
                if parser.eat(&["RENAME", "TO"])? {
                    renamed = Some(qualified(parser, context)?);
                } else {
                    parser.take()?;
                }
            }
        }
        return Ok(Some(Change::Altered { kind, db, name, renamed }));
    }
    let mut table = None;
    if kind == DefinitionKind::Trigger {
        while !parser.eat_word("ON")? {
            if parser.take()? == Tok::End {
                return Ok(None);
            }
        }
        table = Some(qualified(parser, context)?);
    }
    if kind == DefinitionKind::Function && (loadable || !parser.is_punct(b'(')?) {
        // A loadable function comes from a library and has no database, so nothing here could create it again.
        return Ok(None);
    }
    let db = match &table {
        // A trigger belongs to its table's database.
        Some((of, _)) => of.clone(),
        None => db,
    };
    Ok(Some(Change::Made { kind, db, name, table }))
}

fn people(parser: &mut Parser<'_>, verb: &str) -> Result<Option<Change>, Problem> {
    let _ = parser.eat(&["IF", "NOT", "EXISTS"])? || parser.eat(&["IF", "EXISTS"])?;
    Ok(Some(match verb {
        "CREATE" => Change::UsersMade(users(parser)?),
        "DROP" => Change::UsersGone(users(parser)?),
        _ => Change::UsersAltered(users(parser)?),
    }))
}

/// Parses a list of accounts, each optionally followed by its authentication.
fn users(parser: &mut Parser<'_>) -> Result<Vec<String>, Problem> {
    let mut names = vec![user(parser)?];
    loop {
        // Skip to the next comma. Options of the whole statement contain commas only inside strings.
        while !parser.is_punct(b',')? {
            if parser.eat(&["IDENTIFIED", "WITH"])? {
                continue;
            }
            if parser.is_any_word(&["REQUIRE", "WITH", "DEFAULT", "ATTRIBUTE", "COMMENT", "ACCOUNT"])?
                || parser.take()? == Tok::End
            {
                return Ok(names);
            }
        }
        parser.take()?;
        names.push(user(parser)?);
    }
}

/// Parses an account and returns it as `name@host`.
fn user(parser: &mut Parser<'_>) -> Result<String, Problem> {
    let start = parser.place()?;
    match parser.peek()? {
        Tok::Word(_) | Tok::Quoted(_) | Tok::Str { .. } => drop(parser.take()?),
        _ => return parser.wrong("an account expected"),
    }
    let name = unquoted(&parser.text_from(start));
    let host_at = parser.place()?;
    let host = match parser.peek()? {
        Tok::Variable => {
            parser.take()?;
            unquoted(parser.text_from(host_at).trim_start_matches('@'))
        }
        Tok::Punct(b'@') => {
            parser.take()?;
            let at = parser.place()?;
            parser.take()?;
            unquoted(&parser.text_from(at))
        }
        _ => "%".to_owned(),
    };
    Ok(format!("{name}@{}", if host.is_empty() { "%" } else { &host }))
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"' | '`'));
    match quote {
        Some(quote) => {
            let inner = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)).unwrap_or(text);
            inner.replace(&format!("{quote}{quote}"), &quote.to_string())
        }
        None => text.to_owned(),
    }
}

impl Recorded {
    /// Records a statement of the log.
    pub(crate) fn of(context: &StatementContext, sql: &[u8], database_collation: Option<u16>) -> Recorded {
        let collation = |id: Option<u16>| id.and_then(charset::by_id);
        let client = collation(context.collation_client).map_or("utf8mb4", |collation| collation.charset);
        let text = server_text::as_utf8(without_final_nul(sql), client);
        let name = |id| collation(id).map_or("", |collation| collation.name).to_owned();
        Recorded {
            text,
            gtid: context.gtid.clone(),
            default_db: context.default_db.clone(),
            sql_mode: sql_mode_names(context.sql_mode),
            client_charset: client.to_owned(),
            connection_collation: name(context.collation_connection),
            database_collation: name(database_collation),
            time_zone: context.time_zone.clone().unwrap_or_default(),
        }
    }
}

impl Definitions {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.all.values()
    }

    pub(crate) fn from_list(list: Vec<Definition>, folded: &dyn Fn(&str) -> String) -> Definitions {
        let mut definitions = Definitions::default();
        list.into_iter().for_each(|one| definitions.put(Arc::new(one), folded));
        definitions
    }

    /// The definitions that are others than in an earlier version, by a name of their own; None for one that is gone.
    pub(crate) fn changes_since<'a>(
        &'a self,
        earlier: &'a Definitions,
    ) -> impl Iterator<Item = (String, Option<Arc<Definition>>)> {
        self.all.differences(&earlier.all, Arc::ptr_eq).into_iter().map(|change| {
            let (kind, db, name) = change.key;
            (format!("{}/{db}\0{name}", kind.name()), change.after.cloned())
        })
    }

    fn put(&mut self, one: Arc<Definition>, folded: &dyn Fn(&str) -> String) {
        let key = key(one.kind, &one.db, &one.name, folded);
        self.take_out(&key, folded);
        if let Some((db, table)) = &one.table {
            self.of_tables.insert((folded(db).into(), folded(table).into(), key.clone()), ());
        }
        self.all.insert(key, one);
    }

    fn take_out(&mut self, key: &Key, folded: &dyn Fn(&str) -> String) -> Option<Arc<Definition>> {
        let one = self.all.remove(key)?;
        if let Some((db, table)) = &one.table {
            self.of_tables.remove(&(folded(db).into(), folded(table).into(), key.clone()));
        }
        Some(one)
    }

    /// The triggers of a table.
    pub(crate) fn triggers_of(&self, db: &str, name: &str, folded: &dyn Fn(&str) -> String) -> Vec<&Arc<Definition>> {
        let (db, name): (Arc<str>, Arc<str>) = (folded(db).into(), folded(name).into());
        let first = (Arc::clone(&db), Arc::clone(&name), (DefinitionKind::User, Arc::from(""), Arc::from("")));
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

    /// Applies a statement; true if it changed anything.
    pub(crate) fn take(&mut self, change: Change, recorded: &Recorded, folded: &dyn Fn(&str) -> String) -> bool {
        let user = |name: &str| key(DefinitionKind::User, "", name, folded);
        match change {
            Change::Made { kind, db, name, table } => {
                let made = Some(recorded.clone());
                self.put(Arc::new(Definition { kind, db, name, table, made, later: Vec::new() }), folded);
            }
            Change::Altered { kind, db, name, renamed } => {
                let from = key(kind, &db, &name, folded);
                let mut one = self.take_out(&from, folded).unwrap_or_else(|| unknown(kind, &db, &name));
                let of = Arc::make_mut(&mut one);
                of.add(recorded);
                if let Some(to) = renamed {
                    (of.db, of.name) = to;
                }
                self.put(one, folded);
            }
            Change::Gone { kind, names } => {
                names.iter().for_each(|(db, name)| drop(self.take_out(&key(kind, db, name, folded), folded)));
            }
            Change::UsersMade(names) => {
                for name in names {
                    let made = Some(recorded.clone());
                    let (kind, db) = (DefinitionKind::User, String::new());
                    self.put(Arc::new(Definition { kind, db, name, table: None, made, later: Vec::new() }), folded);
                }
            }
            Change::UsersAltered(names) => {
                for name in names {
                    let known = self.take_out(&user(&name), folded);
                    let mut one = known.unwrap_or_else(|| unknown(DefinitionKind::User, "", &name));
                    Arc::make_mut(&mut one).add(recorded);
                    self.put(one, folded);
                }
            }
            Change::UsersGone(names) => names.iter().for_each(|name| drop(self.take_out(&user(name), folded))),
            Change::UsersRenamed(pairs) => {
                for (from, to) in pairs {
                    let known = self.take_out(&user(&from), folded);
                    let mut one = known.unwrap_or_else(|| unknown(DefinitionKind::User, "", &from));
                    let of = Arc::make_mut(&mut one);
                    of.add(recorded);
                    of.name = to;
                    self.put(one, folded);
                }
            }
        }
        true
    }

    /// DROP DATABASE: removes everything in the database.
    pub(crate) fn database_gone(&mut self, folded_db: &str, folded: &dyn Fn(&str) -> String) {
        use DefinitionKind::{Event, Function, Procedure, Trigger, View};
        for kind in [Function, Procedure, View, Trigger, Event] {
            let first = (kind, Arc::from(folded_db), Arc::from(""));
            let inside = self.all.keys_from(&first).take_while(|key| key.0 == kind && *key.1 == *folded_db);
            for key in inside.cloned().collect::<Vec<_>>() {
                self.take_out(&key, folded);
            }
        }
    }

    /// DROP TABLE: removes the table's triggers.
    pub(crate) fn table_gone(&mut self, db: &str, name: &str, folded: &dyn Fn(&str) -> String) {
        let gone: Vec<Key> = (self.triggers_of(db, name, folded).into_iter())
            .map(|one| key(one.kind, &one.db, &one.name, folded))
            .collect();
        gone.iter().for_each(|key| drop(self.take_out(key, folded)));
    }

    /// RENAME TABLE of a table or view. Triggers follow their table.
    pub(crate) fn table_renamed(&mut self, from: (&str, &str), to: (&str, &str), folded: &dyn Fn(&str) -> String) {
        let triggers: Vec<Arc<Definition>> =
            self.triggers_of(from.0, from.1, folded).into_iter().map(Arc::clone).collect();
        for mut one in triggers {
            self.take_out(&key(one.kind, &one.db, &one.name, folded), folded);
            Arc::make_mut(&mut one).table = Some((to.0.to_owned(), to.1.to_owned()));
            self.put(one, folded);
        }
        if let Some(mut view) = self.take_out(&key(DefinitionKind::View, from.0, from.1, folded), folded) {
            let of = Arc::make_mut(&mut view);
            (of.db, of.name) = (to.0.to_owned(), to.1.to_owned());
            self.put(view, folded);
        }
    }
}

impl Definition {
    /// True if these filters let it in: a view as a table, a trigger with its table, others by their database.
    #[must_use]
    pub fn passes(&self, filters: &ReplicationFilters, lower_case_table_names: u8) -> bool {
        match (self.kind, &self.table) {
            (DefinitionKind::View, _) => filters.replicates(&self.db, &self.name, lower_case_table_names),
            (_, Some((db, table))) => filters.replicates(db, table, lower_case_table_names),
            (DefinitionKind::User, None) => filters.is_empty() || filters.database_passes("", lower_case_table_names),
            (_, None) => filters.database_passes(&self.db, lower_case_table_names),
        }
    }

    fn add(&mut self, recorded: &Recorded) {
        self.later.retain(|other| other.text != recorded.text);
        if self.later.len() >= LATER_MAX {
            self.later.remove(0);
        }
        self.later.push(recorded.clone());
    }
}

/// An object that is older than the log.
fn unknown(kind: DefinitionKind, db: &str, name: &str) -> Arc<Definition> {
    let (db, name) = (db.to_owned(), name.to_owned());
    Arc::new(Definition { kind, db, name, table: None, made: None, later: Vec::new() })
}

/// Names of routines and events are never case-sensitive; those of users always are.
fn key(kind: DefinitionKind, db: &str, name: &str, folded: &dyn Fn(&str) -> String) -> Key {
    let name = match kind {
        DefinitionKind::User => name.to_owned(),
        DefinitionKind::View | DefinitionKind::Trigger => folded(name),
        DefinitionKind::Function | DefinitionKind::Procedure | DefinitionKind::Event => name.to_lowercase(),
    };
    (kind, folded(db).into(), name.into())
}

/// Bits of `sql_mode` (sql/system_variables.h) with the names that SET accepts.
const SQL_MODES: [(u32, &str); 23] = [
    (0, "REAL_AS_FLOAT"),
    (1, "PIPES_AS_CONCAT"),
    (2, "ANSI_QUOTES"),
    (3, "IGNORE_SPACE"),
    (5, "ONLY_FULL_GROUP_BY"),
    (6, "NO_UNSIGNED_SUBTRACTION"),
    (7, "NO_DIR_IN_CREATE"),
    (18, "ANSI"),
    (19, "NO_AUTO_VALUE_ON_ZERO"),
    (20, "NO_BACKSLASH_ESCAPES"),
    (21, "STRICT_TRANS_TABLES"),
    (22, "STRICT_ALL_TABLES"),
    (23, "NO_ZERO_IN_DATE"),
    (24, "NO_ZERO_DATE"),
    (25, "ALLOW_INVALID_DATES"),
    (26, "ERROR_FOR_DIVISION_BY_ZERO"),
    (27, "TRADITIONAL"),
    (29, "HIGH_NOT_PRECEDENCE"),
    (30, "NO_ENGINE_SUBSTITUTION"),
    (31, "PAD_CHAR_TO_FULL_LENGTH"),
    (32, "TIME_TRUNCATE_FRACTIONAL"),
    (33, "INTERPRET_UTF8_AS_UTF8MB4"),
    (28, "NO_AUTO_CREATE_USER"),
];

fn sql_mode_names(bits: u64) -> String {
    // Removed in 8.0; SET rejects it.
    let gone = |name: &str| name == "NO_AUTO_CREATE_USER";
    let names = SQL_MODES.iter().filter(|(bit, name)| bits >> bit & 1 == 1 && !gone(name));
    names.map(|(_, name)| *name).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> StatementContext {
        StatementContext { default_db: "d".into(), ..StatementContext::default() }
    }

    fn after(statements: &[&str]) -> String {
        let folded = |name: &str| name.to_owned();
        let mut definitions = Definitions::default();
        for (index, sql) in statements.iter().enumerate() {
            let context = StatementContext { gtid: format!("g:{index}"), ..context() };
            let recorded = Recorded::of(&context, sql.as_bytes(), None);
            if let Some(change) = Change::of(&context, sql.as_bytes()) {
                definitions.take(change, &recorded, &folded);
            }
        }
        let shown = definitions.all().map(|one| {
            let gtids: Vec<&str> = one.made.iter().chain(&one.later).map(|r| r.gtid.trim_start_matches("g:")).collect();
            format!("{} {}.{} {}", one.kind.name(), one.db, one.name, gtids.join(","))
        });
        shown.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn made_altered_and_gone() {
        for (statements, wanted) in [
            (&["CREATE DEFINER=`root`@`localhost` PROCEDURE `p`()\nselect 1"][..], "PROCEDURE d.p 0"),
            (&["CREATE PROCEDURE e.P() select 1", "ALTER PROCEDURE e.p COMMENT 'x'"], "PROCEDURE e.P 0,1"),
            (&["CREATE FUNCTION f() RETURNS INT RETURN 1", "DROP FUNCTION IF EXISTS d.f"], ""),
            (&["CREATE AGGREGATE FUNCTION f RETURNS STRING SONAME 'x.so'"], ""),
            (&["CREATE ALGORITHM=UNDEFINED VIEW `v` AS select 1", "ALTER VIEW v AS select 2"], "VIEW d.v 1"),
            (&["CREATE VIEW a AS select 1", "CREATE VIEW e.b AS select 1", "DROP VIEW d.a, e.b"], ""),
            (&["CREATE DEFINER=a@b TRIGGER tr BEFORE INSERT ON `e`.t FOR EACH ROW SET NEW.a = 1"], "TRIGGER e.tr 0"),
            (
                &[
                    "CREATE EVENT ev ON SCHEDULE EVERY 1 DAY DO SELECT 1",
                    "ALTER EVENT ev RENAME TO e.w DISABLE",
                    "ALTER EVENT e.w ENABLE",
                ],
                "EVENT e.w 0,1,2",
            ),
            (
                &[
                    "CREATE EVENT ev ON SCHEDULE EVERY 1 DAY DO SELECT 1",
                    "ALTER EVENT ev DISABLE",
                    "ALTER EVENT ev ENABLE",
                    "ALTER EVENT ev DISABLE",
                ],
                "EVENT d.ev 0,2,3",
            ),
            (
                &[
                    "CREATE USER 'a'@'h' IDENTIFIED WITH 'x' AS 'y,z', b REQUIRE NONE PASSWORD EXPIRE DEFAULT",
                    "GRANT SELECT ON *.* TO b@'%'",
                    "DROP USER a@h",
                ],
                "USER .b@% 0,1",
            ),
            (&["GRANT SELECT, INSERT (a, b) ON d.t TO 'u'@'%','v'@'h' WITH GRANT OPTION"], "USER .u@% 0; USER .v@h 0"),
            (&["CREATE ROLE r", "GRANT r TO u@h", "RENAME USER u@h TO 'w'@'h'"], "USER .r@% 0; USER .w@h 1,2"),
            (&["SET PASSWORD FOR 'u'@'h' = 'x'", "REVOKE ALL ON *.* FROM u@h"], "USER .u@h 0,1"),
            (&["CREATE TABLE t (a INT)", "ALTER TABLE t ADD b INT", "GRANT", "CREATE", "DROP VIEW"], ""),
        ] {
            assert_eq!(after(statements), wanted, "{statements:?}");
        }
    }

    #[test]
    fn a_nul_byte_at_the_end_is_not_kept() {
        let recorded = |sql: &str| Recorded::of(&context(), sql.as_bytes(), None).text;
        assert_eq!(recorded("create role r\0"), "create role r");
        assert_eq!(after(&["CREATE ROLE r\0", "CREATE VIEW v AS select 1\0", "DROP VIEW v\0"]), "USER .r@% 0");
    }

    #[test]
    fn modes_have_names() {
        assert_eq!(sql_mode_names(4 | 1 << 20), "ANSI_QUOTES,NO_BACKSLASH_ESCAPES");
        // 9.7's default.
        assert_eq!(
            sql_mode_names(1_168_113_696),
            "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
        );
    }
}
