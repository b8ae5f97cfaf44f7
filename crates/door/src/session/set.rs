//! SET: variables of the session, character sets, the next transaction.

use sql::{
    AccessMode, Assignment, Characteristics, NewValue, Scope, SqlError, Target, Tracked, Value, Warning, variables,
};

use super::execute::needs;
use super::{Own, Session};
use crate::world::World;

impl Session {
    /// All assignments, or none.
    pub(super) fn set(
        &mut self,
        assignments: &[Assignment],
        sql: &[u8],
        parameters: Option<&[Value]>,
        world: &dyn World,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), SqlError> {
        let before = self.settings.clone();
        let mut tracked = Vec::new();
        for assignment in assignments {
            match self.assign(assignment, sql, parameters, world, warnings) {
                Ok(more) => tracked.extend(more),
                Err(error) => {
                    self.settings = before;
                    return Err(error);
                }
            }
        }
        if self.settings.autocommit() && !before.autocommit() {
            self.transaction.end();
        }
        self.changes.variables(tracked, before.is_on("session_track_state_change"));
        Ok(())
    }

    fn assign(
        &mut self,
        assignment: &Assignment,
        sql: &[u8],
        parameters: Option<&[Value]>,
        world: &dyn World,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Tracked>, SqlError> {
        let value = match &assignment.value {
            NewValue::Default => None,
            NewValue::Word(word) => Some(Value::Text(word.clone().into_bytes())),
            NewValue::Expression(expression) => {
                Some(self.bound(sql, parameters, world, |bind| sql::evaluate(bind, expression))?)
            }
        };
        match &assignment.target {
            Target::UserVariable => Err(SqlError::not_supported("user variables")),
            Target::Names { collation } => self.settings.set_names(text(&value).as_deref(), collation.as_deref()),
            Target::CharacterSet => {
                let mut settings = self.settings.clone();
                let own = Own { session: self, world };
                let tracked = settings.set_character_set(text(&value).as_deref(), &own)?;
                self.settings = settings;
                Ok(tracked)
            }
            Target::Variable { scope: None | Some(Scope::Session), name } => {
                self.set_variable(name, value.as_ref(), world, warnings)
            }
            Target::Variable { scope: Some(scope), name } => Err(self.set_global(*scope, name)),
        }
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

    /// Values of the server are those of its options.
    fn set_global(&self, scope: Scope, name: &str) -> SqlError {
        if !variables().iter().any(|variable| variable.name == name) {
            return SqlError::unknown_variable(name);
        }
        if !self.identity.rights.admin {
            return needs("SUPER or SYSTEM_VARIABLES_ADMIN");
        }
        let verb = if scope == Scope::Global { "GLOBAL" } else { "PERSIST" };
        SqlError::not_supported(&format!("SET {verb} {name}"))
    }

    /// SET TRANSACTION.
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
            Some(scope) => return Err(self.set_global(scope, "transaction_isolation")),
        }
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

fn text(value: &Option<Value>) -> Option<String> {
    value.as_ref()?.text().map(|text| String::from_utf8_lossy(&text).into_owned())
}
