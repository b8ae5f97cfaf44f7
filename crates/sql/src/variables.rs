//! All system variables of a MySQL 9.7, recorded from one: names, scopes, types, values. And our own.
//!
//! In: `variables.tsv`, written by the test `the_recorded_variables_are_those_of_the_server`. Out: definitions by name,
//! and values as typed as MySQL's. Never here: a session's values, those that are ours ([`OwnValues`]).

use std::sync::{Arc, OnceLock};

use values::Zones;
use values::collation::BINARY;
use wire::response::column_flag;
use wire::row::type_code;

use crate::Result;
use crate::ast::Scope;
use crate::bind::{Field, Value};
use crate::error::SqlError;
use crate::uses::{Mark, Rule, use_of};

/// utf8mb3_general_ci: the collation of variables' texts.
const TEXT_COLLATION: u16 = 33;
/// Characters that MySQL announces for a text.
const TEXT_LENGTH: u32 = 21_845;

static RECORDED: &str = include_str!("variables.tsv");

/// Variables that MySQL does not have, or has with a plugin only, in the form of the recorded ones. Those with o are
/// there only where they have a value of their own.
const OURS: &str = "\
rpl_semi_sync_master_enabled\tgbo\t8\t-\t1\t0\t1\t0
rpl_semi_sync_source_enabled\tgbo\t8\t-\t1\t0\t1\t0
slipstream_last_served_by\tsr\t253\t-\t0\t0\t0\treplica
slipstream_read_consistency\tgs\t253\t-\t0\t0\t0\tEVENTUAL
slipstream_read_gtids\ts\t253\t-\t0\t0\t0\t
slipstream_read_staleness\tgs\t8\tu\t20\t0\t86400000\t1000
slipstream_read_timeout\tgs\t8\tu\t20\t1\t86400000\t10000";

/// Values of variables that are not the recorded ones, because they are about this process.
pub trait OwnValues {
    /// The value as `SELECT @@name` prints it; None if the recorded one holds.
    fn own_value(&self, name: &str) -> Option<String>;

    /// As [`own_value`](Self::own_value), for a statement that reads it.
    ///
    /// # Errors
    /// It cannot be told now.
    fn read_value(&self, name: &str) -> Result<Option<String>> {
        Ok(self.own_value(name))
    }

    /// The source's time zones; None if they are not known.
    fn zones(&self) -> Option<Arc<Zones>> {
        None
    }
}

/// Whether SET may name a variable, whatever the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settable {
    Always,
    /// Only the start of the server, or nobody.
    Never,
    /// Not for a session, though each has a value.
    Globally,
    /// To any value but DEFAULT.
    WithoutDefault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Name, in lower case.
    pub name: &'static str,
    /// Whether there is a value of the server.
    pub global: bool,
    /// Whether there are values of sessions.
    pub session: bool,
    /// Whether SHOW VARIABLES prints ON or OFF.
    pub is_switch: bool,
    /// Whether it is there only with a value of its own, as a plugin's.
    pub is_optional: bool,
    /// Type code of `SELECT @@name`.
    pub type_code: u8,
    /// Whether it is UNSIGNED.
    pub unsigned: bool,
    /// Length that MySQL announces for a number.
    pub length: u32,
    /// Least value, for integers.
    pub least: i128,
    /// Largest value, for integers.
    pub most: i128,
    pub(crate) settable: Settable,
    /// Value as `SELECT @@name` prints it; None is NULL.
    pub value: Option<&'static str>,
    /// What sessions may set it to.
    pub(crate) rule: Rule,
    marks: &'static [Mark],
}

/// All variables, sorted by name.
pub fn variables() -> &'static [Variable] {
    static ALL: OnceLock<Vec<Variable>> = OnceLock::new();
    ALL.get_or_init(|| {
        let recorded = RECORDED.lines().filter(|line| !line.starts_with('#'));
        let mut all: Vec<Variable> = recorded.chain(OURS.lines()).filter_map(of_line).collect();
        all.sort_unstable_by_key(|variable| variable.name);
        all
    })
}

fn of_line(line: &'static str) -> Option<Variable> {
    let mut cells = line.split('\t');
    let name = cells.next()?;
    let scope = cells.next()?;
    let type_code = cells.next()?.parse().ok()?;
    let unsigned = cells.next()? == "u";
    let length = cells.next()?.parse().ok()?;
    let bound = |cell: Option<&str>| cell.and_then(|cell| cell.parse().ok()).unwrap_or_default();
    let (least, most) = (bound(cells.next()), bound(cells.next()));
    let value = Some(cells.next()?).filter(|value| *value != "\\N");
    let (global, session, is_switch) = (scope.contains('g'), scope.contains('s'), scope.contains('b'));
    let is_optional = scope.contains('o');
    let settable = match scope.as_bytes().last() {
        Some(b'r') => Settable::Never,
        Some(b'l') => Settable::Globally,
        Some(b'n') => Settable::WithoutDefault,
        _ => Settable::Always,
    };
    let (rule, marks) = use_of(name).map_or((Rule::AsItIs, &[][..]), |one| (one.rule, one.marks));
    Some(Variable {
        name,
        global,
        session,
        is_switch,
        is_optional,
        type_code,
        unsigned,
        length,
        least,
        most,
        settable,
        value,
        rule,
        marks,
    })
}

/// True for variables whose value is the set of visible GTIDs.
pub(crate) fn tells_of_gtids(name: &str) -> bool {
    matches!(name, "gtid_executed" | "gtid_purged")
}

/// The variable of this name, in lower case, whether it is there or not.
pub(crate) fn find(name: &str) -> Option<&'static Variable> {
    let all = variables();
    all.binary_search_by(|variable| variable.name.cmp(name)).ok().and_then(|at| all.get(at))
}

/// As [`find`], one that is there.
///
/// # Errors
/// 1193: there is none.
pub(crate) fn named(name: &str, own: &dyn OwnValues) -> Result<&'static Variable> {
    find(name).filter(|variable| variable.is_there(own)).ok_or_else(|| SqlError::unknown_variable(name))
}

impl Variable {
    #[must_use]
    pub fn is(&self, mark: Mark) -> bool {
        self.marks.contains(&mark)
    }

    /// True but for a plugin's that is not installed.
    #[must_use]
    pub fn is_there(&self, own: &dyn OwnValues) -> bool {
        !self.is_optional || own.own_value(self.name).is_some()
    }

    /// Whose value `@@scope.name` reads.
    ///
    /// # Errors
    /// 1238: there is none of that scope.
    pub(crate) fn scope_to_read(&self, scope: Option<Scope>) -> Result<Scope> {
        let wrong = |which: &str| {
            let text = format!("Variable '{}' is a {which} variable", self.name);
            Err(SqlError::new(1238, "HY000", text))
        };
        match scope {
            None if self.session => Ok(Scope::Session),
            None => Ok(Scope::Global),
            Some(Scope::Session) if !self.session => wrong("GLOBAL"),
            Some(Scope::Global) if !self.global => wrong("SESSION"),
            Some(Scope::Persist) => Err(SqlError::syntax("", 1, 0)),
            Some(scope) => Ok(scope),
        }
    }

    /// Whether SET may name it with this scope; MySQL tells when it parses the statement.
    ///
    /// # Errors
    /// 1228, 1229, 1238.
    pub fn check_scope_to_set(&self, scope: Option<Scope>) -> Result<()> {
        let Variable { name, .. } = self;
        let is_global = !matches!(scope, None | Some(Scope::Session));
        // Only PERSIST_ONLY may name one that the next start reads.
        let (code, text) = if self.settable == Settable::Never && scope != Some(Scope::Persist) {
            (1238, format!("Variable '{name}' is a read only variable"))
        } else if is_global && !self.global {
            (1228, format!("Variable '{name}' is a SESSION variable and can't be used with SET GLOBAL"))
        } else {
            return if is_global { Ok(()) } else { self.check_is_of_sessions() };
        };
        Err(SqlError::new(code, "HY000", text))
    }

    /// Whether sessions have it; of a statement that is prepared MySQL asks no more.
    ///
    /// # Errors
    /// 1229
    pub(crate) fn check_is_of_sessions(&self) -> Result<()> {
        if self.session {
            return Ok(());
        }
        let text = format!("Variable '{}' is a GLOBAL variable and should be set with SET GLOBAL", self.name);
        Err(SqlError::new(1229, "HY000", text))
    }

    /// A value of this variable, as typed as MySQL's.
    pub(crate) fn typed(&self, text: Option<&str>) -> (Field, Value) {
        let Some(text) = text else {
            return (Field::text(0, TEXT_LENGTH, TEXT_COLLATION), Value::Null);
        };
        let value = match (self.type_code, self.unsigned) {
            (type_code::LONGLONG, true) => text.parse().map(Value::UInt).ok(),
            (type_code::LONGLONG, false) => text.parse().map(Value::Int).ok(),
            (type_code::DOUBLE, _) => text.parse().map(Value::Double).ok(),
            _ => None,
        };
        let Some(value) = value else {
            return (Field::text(0, TEXT_LENGTH, TEXT_COLLATION), Value::Text(text.as_bytes().to_vec()));
        };
        let flags = if self.unsigned { column_flag::UNSIGNED } else { 0 };
        let decimals = if self.type_code == type_code::DOUBLE { 6 } else { 0 };
        let field = Field { decimals, collation: BINARY, ..Field::number(self.type_code, flags, self.length) };
        (field, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_variable_and_they_are_sorted() {
        let lines = RECORDED.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(variables().len(), lines + OURS.lines().count());
        assert!(lines > 600, "{lines}");
        assert!(variables().windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(find("autocommit").is_some_and(|variable| variable.global && variable.session));
        assert_eq!(find("nonsense"), None);
    }
}
