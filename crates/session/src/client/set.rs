//! SET: variables of the session, character sets, the next transaction.

use sql::{
    AccessMode, Assignment, Bind, Characteristics, NewValue, Scope, Settings, SqlError, Target, Tracked, UserVariables,
    Value, Warning, deprecated_variable, variables,
};

use super::execute::needs;
use super::{Own, Parameters, Session};
use crate::world::World;

/// Variables that only some may set in their session, and by which privilege at MySQL 9.7.
const NEEDS: &[(&str, &str)] = &[
    ("low_priority_updates", "SYSTEM_VARIABLES_ADMIN or SESSION_VARIABLES_ADMIN"),
    ("sql_log_off", "SUPER, SYSTEM_VARIABLES_ADMIN or SESSION_VARIABLES_ADMIN"),
];

/// Variables that a session cannot set while its transaction is open, and MySQL's error; the others' is 1766.
const IN_NO_TRANSACTION: &[(&str, u16)] = &[
    ("binlog_direct_non_transactional_updates", 1685),
    ("binlog_format", 1679),
    ("binlog_row_value_options", 1766),
    ("binlog_transaction_compression", 1766),
    ("binlog_transaction_compression_level_zstd", 1766),
    ("explicit_defaults_for_timestamp", 1766),
    ("group_replication_consistency", 1766),
    ("gtid_next", 1766),
    ("pseudo_replica_mode", 1766),
    ("pseudo_slave_mode", 1766),
    ("session_track_gtids", 1766),
    ("sql_log_bin", 1694),
    ("xa_detach_on_prepare", 1766),
];

/// Global variables that are always on here; whoever manages servers sets them to be sure.
const ALWAYS_ON: &[&str] = &["read_only", "super_read_only"];

/// What a session has after a SET.
struct New {
    settings: Settings,
    user_variables: UserVariables,
    /// What is set of the next transaction.
    next: Characteristics,
}

/// The name that an assignment gives to a variable that there is not.
fn unknown_target(assignment: &Assignment) -> Option<&str> {
    match &assignment.target {
        Target::Variable { name, .. } if !variables().iter().any(|variable| variable.name == name) => Some(name),
        _ => None,
    }
}

impl Session {
    /// What MySQL says of assignments when it prepares them.
    ///
    /// # Errors
    /// 1193, 1229.
    pub(super) fn check_targets(&self, assignments: &[Assignment], world: &dyn World) -> Result<(), SqlError> {
        if let Some(unknown) = assignments.iter().find_map(unknown_target) {
            return Err(SqlError::unknown_variable(unknown));
        }
        let own = Own { session: self, world };
        assignments.iter().try_for_each(|assignment| match &assignment.target {
            Target::Variable { scope: None | Some(Scope::Session), name } => Settings::check_prepared_name(name, &own),
            _ => Ok(()),
        })
    }

    /// What MySQL finds of the variables to set before it computes a value, where the SET comes as text.
    ///
    /// # Errors
    /// 1227 to 1229, 1235, 1238.
    fn resolve(
        &mut self,
        assignments: &[Assignment],
        world: &dyn World,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), SqlError> {
        for (number, assignment) in assignments.iter().enumerate() {
            let Target::Variable { scope, name } = &assignment.target else { continue };
            warnings.extend(deprecated_variable(name));
            let resolved = match scope {
                None | Some(Scope::Session) => Settings::check_name(name, &Own { session: self, world }),
                Some(scope) => self.set_global(*scope, name, None),
            };
            if let Err(error) = resolved {
                self.touch(assignments.get(..number).unwrap_or_default(), &error);
                return Err(error);
            }
        }
        Ok(())
    }

    /// All assignments, or none. Each value is computed before anything is set.
    pub(super) fn set(
        &mut self,
        assignments: &[Assignment],
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), SqlError> {
        if let Some(unknown) = assignments.iter().find_map(unknown_target) {
            return Err(SqlError::unknown_variable(unknown));
        }
        // All are copied, so that a SET that fails changes none.
        self.memory.work_with(self.user_variables.bytes())?;
        let mut new = New {
            settings: self.settings.clone(),
            user_variables: self.user_variables.clone(),
            next: Characteristics::default(),
        };
        if parameters.prepared.is_none() {
            self.resolve(assignments, world, warnings)?;
        }
        let mut tracked = Vec::new();
        let mut evaluation = std::mem::take(&mut self.place.evaluation);
        for (number, assignment) in assignments.iter().enumerate() {
            let assigned = self.bound(sql, parameters, world, |bind| {
                evaluation.lend(bind, |bind| self.assign(assignment, bind, &mut new, warnings))
            });
            match assigned {
                Ok(more) => tracked.extend(more),
                Err(error) => {
                    self.touch(assignments.get(..number).unwrap_or_default(), &error);
                    return Err(error);
                }
            }
        }
        self.memory.keep(new.user_variables.bytes().saturating_sub(self.user_variables.bytes()))?;
        if new.next != Characteristics::default() {
            self.transaction.set_next(new.next)?;
        }
        let before = std::mem::replace(&mut self.settings, new.settings);
        self.user_variables = new.user_variables;
        if self.settings.typed().autocommit && !before.typed().autocommit {
            self.transaction.end();
        }
        let names = |name: &str| {
            assignments.iter().any(|one| matches!(&one.target, Target::Variable { name: own, .. } if own == name))
        };
        self.transaction.session_sets(names("transaction_isolation"), names("transaction_read_only"));
        self.changes.variables(tracked, before.typed().tracks_state);
        Ok(())
    }

    /// User variables of a SET that failed after them are there, without a value.
    fn touch(&mut self, before_the_error: &[Assignment], error: &SqlError) {
        if self.may_be_elsewhere(error) {
            return;
        }
        for assignment in before_the_error {
            if let Target::UserVariable(name) = &assignment.target {
                self.user_variables.touch(name, self.settings.charsets());
            }
        }
    }

    fn assign(
        &self,
        assignment: &Assignment,
        bind: &Bind<'_>,
        new: &mut New,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Tracked>, SqlError> {
        if let (Target::UserVariable(name), NewValue::Expression(expression)) = (&assignment.target, &assignment.value)
        {
            sql::assign(bind, name, expression, &mut new.user_variables)?;
            // The source must have it before it answers anything.
            return match self.may_forward() && !new.user_variables.can_be_told(name) {
                true => Err(SqlError::not_supported("a user variable of text that is invalid")),
                false => Ok(Vec::new()),
            };
        }
        let value = match &assignment.value {
            NewValue::Default => None,
            NewValue::Word(word) => Some(Value::Text(word.clone().into_bytes())),
            NewValue::Expression(expression) => Some(sql::evaluate(bind, expression)?),
        };
        match &assignment.target {
            Target::UserVariable(_) => Ok(Vec::new()),
            Target::OfNextTransaction { name } => {
                let mut as_of_session = new.settings.clone();
                as_of_session.set(name, value.as_ref(), bind.own, warnings)?;
                self.transaction.next_may_be_set()?;
                if name == "transaction_isolation" {
                    new.next.isolation = Some(as_of_session.typed().isolation);
                } else {
                    let read_only = as_of_session.typed().read_only;
                    new.next.access = Some(if read_only { AccessMode::ReadOnly } else { AccessMode::ReadWrite });
                }
                Ok(Vec::new())
            }
            Target::Names { collation } => new.settings.set_names(text(&value).as_deref(), collation.as_deref()),
            Target::CharacterSet => new.settings.set_character_set(text(&value).as_deref(), bind.own),
            Target::Variable { scope: None | Some(Scope::Session), name } => {
                self.may_set_now(name)?;
                let tracked = new.settings.set(name, value.as_ref(), bind.own, warnings)?;
                let privilege =
                    NEEDS.iter().find(|(restricted, _)| restricted == name).map(|(_, privilege)| *privilege);
                match privilege.filter(|_| !self.login.identity.rights.admin) {
                    Some(privilege) => Err(needs(privilege)),
                    None => Ok(tracked),
                }
            }
            Target::Variable { scope: Some(scope), name } => {
                let is_on = value.as_ref().and_then(Value::text).is_some_and(|text| is_on(&text));
                self.set_global(*scope, name, Some(is_on)).map(|()| Vec::new())
            }
        }
    }

    /// # Errors
    /// 1679, 1685, 1694, 1766 while a transaction is open.
    fn may_set_now(&self, name: &str) -> Result<(), SqlError> {
        let found = IN_NO_TRANSACTION.iter().find(|(own, _)| *own == name).filter(|_| self.transaction.is_open());
        let Some((_, code)) = found else { return Ok(()) };
        Err(match code {
            1766 => {
                let text = format!("The system variable {name} cannot be set when there is an ongoing transaction.");
                SqlError::new(1766, "HY000", text)
            }
            code => SqlError::new(*code, "HY000", format!("Cannot modify @@session.{name} inside a transaction")),
        })
    }

    fn set_variable(
        &mut self,
        name: &str,
        value: Option<&Value>,
        world: &dyn World,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Tracked>, SqlError> {
        let mut settings = self.settings.clone();
        let own = Own { session: self, world };
        let tracked = settings.set(name, value, &own, warnings)?;
        self.settings = settings;
        Ok(tracked)
    }

    /// Values of the server are those of its options. That it is read-only may be set, since it always is. `is_on`: the
    /// value; None: it is not known yet.
    ///
    /// # Errors
    /// 1193, 1227, 1228, 1235, 1238.
    fn set_global(&self, scope: Scope, name: &str, is_on: Option<bool>) -> Result<(), SqlError> {
        let variable = variables().iter().find(|variable| variable.name == name);
        variable.ok_or_else(|| SqlError::unknown_variable(name))?.check_scope_to_set(Some(scope))?;
        if !self.login.identity.rights.admin {
            return Err(needs("SUPER or SYSTEM_VARIABLES_ADMIN"));
        }
        if ALWAYS_ON.contains(&name) {
            return match is_on {
                None | Some(true) => Ok(()),
                Some(false) => Err(SqlError::not_supported(&format!("SET GLOBAL {name} = OFF"))),
            };
        }
        let verb = if scope == Scope::Global { "GLOBAL" } else { "PERSIST" };
        Err(SqlError::not_supported(&format!("SET {verb} {name}")))
    }

    pub(super) fn set_transaction(
        &mut self,
        scope: Option<Scope>,
        new: Characteristics,
        world: &dyn World,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), SqlError> {
        match scope {
            None => return self.transaction.set_next(new),
            Some(Scope::Session) => {}
            Some(scope) => return self.set_global(scope, "transaction_isolation", None),
        }
        self.transaction.session_sets(new.isolation.is_some(), new.access.is_some());
        let isolation = new.isolation.map(|isolation| Value::Text(isolation.name().as_bytes().to_vec()));
        let access = new.access.map(|access| Value::Int(i64::from(access == AccessMode::ReadOnly)));
        for (name, value) in [("transaction_isolation", isolation), ("transaction_read_only", access)] {
            if let Some(value) = value {
                let tracked = self.set_variable(name, Some(&value), world, warnings)?;
                self.changes.variables(tracked, true);
            }
        }
        Ok(())
    }
}

fn is_on(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"ON") || text.eq_ignore_ascii_case(b"TRUE") || text == b"1"
}

fn text(value: &Option<Value>) -> Option<String> {
    value.as_ref()?.text().map(|text| String::from_utf8_lossy(&text).into_owned())
}
