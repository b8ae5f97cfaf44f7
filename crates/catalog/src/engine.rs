//! Storage engines: what each does with its tables' rows, and what follows from it.
//!
//! In: an engine's name. Out: its properties. Every one that a 9.7.4 server has was tried there; the others follow their
//! documentation. Never here: rows; how a copy or a reader carries out what follows.
//!
//! The log holds row events of every engine, of those too that keep nothing (BLACKHOLE) or hand rows on (FEDERATED to
//! another server, MERGE to its member tables). What such events mean is decided by [`EngineRows`].

use serde::{Deserialize, Serialize};

use crate::context::StatementContext;
use crate::error::Problem;
use crate::named::NamedTable;
use crate::sql_mode;
use crate::syntax::{TableName, TableOptions};
use crate::table::{TableDef, same_name};

/// Where the rows are that a table's events tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineRows {
    Kept,
    /// Nowhere: the engine forgets them.
    Nowhere,
    /// In a table of another server, whose own log tells them.
    Elsewhere,
    /// In the member tables ([`TableDef::merge`]).
    OfMembers,
}

/// Properties of a storage engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Engine {
    /// Its names; the first is the one that a server prints.
    names: &'static [&'static str],
    /// Where its rows are.
    pub rows: EngineRows,
    /// True if ROLLBACK undoes changes of its tables.
    pub rolls_back: bool,
    /// True if a consistent snapshot shows its rows as of one moment.
    pub snapshots: bool,
    /// False if it parses foreign keys and ignores them.
    foreign_keys: bool,
    /// False if its DDL is logged without the number of a transaction.
    atomic_ddl: bool,
}

const fn transactional(names: &'static [&'static str], snapshots: bool) -> Engine {
    Engine { names, rows: EngineRows::Kept, rolls_back: true, snapshots, foreign_keys: true, atomic_ddl: true }
}

const fn plain(names: &'static [&'static str], rows: EngineRows) -> Engine {
    Engine { names, rows, rolls_back: false, snapshots: false, foreign_keys: false, atomic_ddl: false }
}

/// The engines of MySQL, and MyRocks.
const ENGINES: [Engine; 11] = [
    transactional(&["InnoDB"], true),
    transactional(&["RocksDB"], true),
    transactional(&["ndbcluster", "NDB"], false),
    plain(&["MyISAM"], EngineRows::Kept),
    plain(&["MEMORY", "HEAP"], EngineRows::Kept),
    plain(&["ARCHIVE"], EngineRows::Kept),
    plain(&["CSV"], EngineRows::Kept),
    plain(&["BLACKHOLE"], EngineRows::Nowhere),
    plain(&["EXAMPLE"], EngineRows::Nowhere),
    plain(&["FEDERATED"], EngineRows::Elsewhere),
    plain(&["MRG_MYISAM", "MERGE"], EngineRows::OfMembers),
];

/// A plugin's engine, of which nothing is known but that it is not one of the above.
const UNKNOWN: Engine = Engine {
    names: &[],
    rows: EngineRows::Kept,
    rolls_back: false,
    snapshots: false,
    foreign_keys: true,
    atomic_ddl: false,
};

impl Engine {
    /// The engine of this name; comparison ignores case.
    #[must_use]
    pub fn of(name: &str) -> Engine {
        let is = |engine: &&Engine| engine.names.iter().any(|known| known.eq_ignore_ascii_case(name));
        ENGINES.iter().find(is).copied().unwrap_or(UNKNOWN)
    }

    /// Its name as SHOW CREATE TABLE prints it; that of an engine that is not known, as given.
    #[must_use]
    pub fn shown_name<'n>(&self, given: &'n str) -> &'n str {
        match self.names.first() {
            Some(&"MRG_MYISAM") => "MRG_MyISAM",
            Some(name) => name,
            None => given,
        }
    }

    /// True if the engine keeps its tables' rows.
    #[must_use]
    pub fn keeps_rows(&self) -> bool {
        self.rows == EngineRows::Kept
    }

    /// Why a table has no rows here, for messages; None if it has.
    #[must_use]
    pub fn why_without_rows(&self) -> Option<&'static str> {
        match self.rows {
            EngineRows::Kept => None,
            EngineRows::Nowhere => Some("keeps no rows"),
            EngineRows::Elsewhere => Some("keeps its rows on another server"),
            EngineRows::OfMembers => Some("shows the rows of its member tables"),
        }
    }
}

/// The tables that a table of the engine MERGE consists of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// UNION: database, None for the table's own, and table. They are found by name, whatever becomes of them.
    #[serde(rename = "members")]
    pub members: Vec<(Option<String>, String)>,
    #[serde(rename = "insert")]
    pub insert: InsertMethod,
}

/// The member of a MERGE table that gets its new rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum InsertMethod {
    /// None: INSERT is refused.
    #[default]
    #[serde(rename = "No")]
    No,
    #[serde(rename = "First")]
    First,
    #[serde(rename = "Last")]
    Last,
}

impl TableDef {
    #[must_use]
    pub fn engine_of(&self) -> Engine {
        Engine::of(&self.engine)
    }

    /// Names of the member tables of a MERGE table, in order; empty for other tables.
    pub fn members(&self) -> impl Iterator<Item = NamedTable> {
        let members = self.merge.iter().flat_map(|merge| &merge.members);
        members.map(|(db, name)| (db.clone().unwrap_or_else(|| self.db.clone()), name.clone()))
    }

    /// The member that gets the rows of an INSERT into a MERGE table, if any does.
    #[must_use]
    pub fn member_of_inserts(&self) -> Option<NamedTable> {
        match self.merge.as_ref()?.insert {
            InsertMethod::No => None,
            InsertMethod::First => self.members().next(),
            InsertMethod::Last => self.members().last(),
        }
    }
}

/// The engine of a table that CREATE TABLE makes, by name.
///
/// The log does not tell `default_storage_engine`, nor which engine takes the place of a missing one outside
/// NO_ENGINE_SUBSTITUTION. It tells whether the statement was a transaction: InnoDB's are, those of the others are not
/// (seen on 9.7.4; `HTON_SUPPORTS_ATOMIC_DDL`).
pub(crate) fn of_new_table(named: Option<&str>, context: &StatementContext) -> Result<String, Problem> {
    let named = named.filter(|name| !name.is_empty());
    let may_be_another = context.sql_mode & sql_mode::NO_ENGINE_SUBSTITUTION == 0;
    match (named, context.atomic) {
        (None, Some(false)) => Problem::unsupported(
            "a table without ENGINE that is not of InnoDB: the log does not say which default_storage_engine it got",
        ),
        (None, _) => Ok("InnoDB".to_owned()),
        (Some(name), Some(true)) if may_be_another && !Engine::of(name).atomic_ddl => Ok("InnoDB".to_owned()),
        (Some(name), Some(false)) if may_be_another && is_doubtful(name) => Problem::unsupported(format!(
            "a table of engine {name} without NO_ENGINE_SUBSTITUTION: the log does not say whether another took its place"
        )),
        (Some(name), _) => Ok(name.to_owned()),
    }
}

/// The engine after ALTER TABLE … ENGINE, by name. A name that the server does not know changes nothing outside
/// NO_ENGINE_SUBSTITUTION (seen on 9.7.4).
pub(crate) fn after_alter(old: &str, named: &str, context: &StatementContext) -> Result<String, Problem> {
    if context.sql_mode & sql_mode::NO_ENGINE_SUBSTITUTION != 0 || context.atomic.is_none() {
        return Ok(named.to_owned());
    }
    let unknown = Engine::of(named) == UNKNOWN;
    match context.atomic {
        // Both engines are InnoDB.
        Some(true) if !Engine::of(named).atomic_ddl => Ok(old.to_owned()),
        Some(false) if unknown && !Engine::of(old).atomic_ddl => Ok(old.to_owned()),
        Some(false) if unknown || is_doubtful(named) && !same_name(old, named) => Problem::unsupported(format!(
            "a change to engine {named} without NO_ENGINE_SUBSTITUTION: the log does not say whether another took its place"
        )),
        _ => Ok(named.to_owned()),
    }
}

/// True if it matters whether another engine took the place of this one: rows would be kept then.
fn is_doubtful(name: &str) -> bool {
    Engine::of(name) == UNKNOWN || !Engine::of(name).keeps_rows()
}

/// Removes from a definition what its engine ignores.
pub(crate) fn settle(table: &mut TableDef) {
    let engine = table.engine_of();
    if !engine.foreign_keys {
        table.foreign_keys.clear();
    }
    if engine.rows == EngineRows::OfMembers {
        table.merge.get_or_insert_default();
    } else {
        table.merge = None;
    }
}

/// Puts UNION and INSERT_METHOD into a definition. Names without a database are those of `default_db`.
pub(crate) fn merge_options(table: &mut TableDef, options: &TableOptions, default_db: &str) {
    if let Some(union) = &options.union {
        let own = table.db.clone();
        let member = |TableName { db, name }: &TableName| {
            let db = db.as_deref().unwrap_or(default_db);
            ((db != own).then(|| db.to_owned()), name.clone())
        };
        table.merge.get_or_insert_default().members = union.iter().map(member).collect();
    }
    if let Some(insert) = options.insert_method {
        table.merge.get_or_insert_default().insert = insert;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_any_case() {
        assert_eq!(Engine::of("merge").rows, EngineRows::OfMembers);
        assert_eq!(Engine::of("Mrg_MyISAM").rows, EngineRows::OfMembers);
        assert_eq!(Engine::of("blackHole").why_without_rows(), Some("keeps no rows"));
        assert!(Engine::of("heap").keeps_rows() && !Engine::of("heap").rolls_back);
        assert!(Engine::of("NDB").rolls_back && !Engine::of("NDB").snapshots);
        assert_eq!(Engine::of("no such engine"), UNKNOWN);
    }

    /// Each line was seen on 9.7.4.
    #[test]
    fn engines_that_the_log_does_not_name() {
        let of = |named: Option<&str>, atomic: bool, sql_mode: u64| {
            let context = StatementContext { atomic: Some(atomic), sql_mode, ..StatementContext::default() };
            of_new_table(named, &context).unwrap_or_else(|_| "?".into())
        };
        let strict = sql_mode::NO_ENGINE_SUBSTITUTION;
        assert_eq!(of(None, true, strict), "InnoDB");
        assert_eq!(of(None, false, strict), "?", "default_storage_engine=BLACKHOLE");
        assert_eq!(of(Some(""), false, 0), "?", "ENGINE='' under default_storage_engine=BLACKHOLE");
        assert_eq!(of(Some("nosuch"), true, 0), "InnoDB");
        assert_eq!(of(Some("nosuch"), false, 0), "?", "under default_storage_engine=BLACKHOLE");
        assert_eq!(of(Some("federated"), true, 0), "InnoDB", "without --federated");
        assert_eq!(of(Some("federated"), false, strict), "federated");
        assert_eq!(of(Some("myisam"), false, 0), "myisam");
        let after = |old: &str, named: &str, atomic: bool| {
            let context = StatementContext { atomic: Some(atomic), ..StatementContext::default() };
            after_alter(old, named, &context).unwrap_or_else(|_| "?".into())
        };
        assert_eq!(after("InnoDB", "nosuch", true), "InnoDB");
        assert_eq!(after("MyISAM", "nosuch", false), "MyISAM");
        assert_eq!(after("MyISAM", "InnoDB", false), "InnoDB");
        assert_eq!(after("InnoDB", "MyISAM", false), "MyISAM");
        assert_eq!(after("InnoDB", "BLACKHOLE", false), "?");
    }
}
