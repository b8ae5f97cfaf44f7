//! What each statement does.

use sql::table::in_text;
use sql::{
    Bind, Column, Completion, Ended, Evaluated, Event, Expression, Field, Limit, NewValue, Show, SqlError, Statement,
    Value, Wait, Warning,
};
use wire::response::column_flag;
use wire::row::type_code;

use super::results::Rows;
use super::{After, Parameters, Session, WARNINGS_MAX};
use crate::world::World;

/// utf8mb3_general_ci: the collation of texts of SHOW.
const SYSTEM_COLLATION: u16 = 33;

/// Result of a statement.
#[derive(Debug)]
pub(super) struct Outcome {
    /// None: OK.
    pub rows: Option<Rows>,
    /// What the connection does then.
    pub after: After,
    /// It shows warnings of an earlier statement.
    pub lists_warnings: bool,
    /// The error that ends it after its columns were described.
    pub error: Option<SqlError>,
}

impl Outcome {
    const OK: Outcome = Outcome { rows: None, after: After::Next, lists_warnings: false, error: None };
}

impl Session {
    /// Runs a statement, or continues the one that has waited.
    ///
    /// # Errors
    /// With MySQL's number, or 1235.
    pub(super) fn run(
        &mut self,
        statement: &Statement,
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
    ) -> Result<Outcome, SqlError> {
        if self.place.began.is_none() && statement.waits_for_gtids() {
            world.gtids().readable()?;
        }
        let tracked = self.settings.typed().tracks_gtids;
        let result = match self.next_wait(statement, sql, parameters, world) {
            Ok(Some(wait)) => {
                return Ok(Outcome { after: self.waits_on(wait, statement, world), ..Outcome::OK });
            }
            Ok(None) => self.finish(statement, sql, parameters, world),
            Err(error) => Err(error),
        };
        let warnings = std::mem::take(self.place.noted.get_mut());
        self.statement_ends();
        let outcome = match result {
            Err(error) if error.is_of_execution() => {
                return self.failed_late(statement, sql, parameters, world, error);
            }
            result => result?,
        };
        self.diagnostics.warnings.extend(warnings);
        self.track_gtids(tracked, statement, world);
        Ok(outcome)
    }

    /// What the statement waits for next; None once all is there with which it can be finished.
    ///
    /// # Errors
    /// Those of [`run`](Self::run), before any change.
    fn next_wait(
        &mut self,
        statement: &Statement,
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
    ) -> Result<Option<Wait>, SqlError> {
        match statement {
            Statement::Select(select) if select.from.is_some() => self.list(select, sql, parameters, world),
            Statement::Select(select) | Statement::Do(select) => {
                let mut evaluation = std::mem::take(&mut self.place.evaluation);
                let evaluated = self.bound(sql, parameters, world, |bind| {
                    if matches!(statement, Statement::Select(_)) {
                        self.check_locking(select)?;
                    }
                    evaluation.select(bind, select)
                });
                self.place.evaluation = evaluation;
                match evaluated? {
                    Evaluated::Waits(wait) => return Ok(Some(wait)),
                    Evaluated::Done(selected) => self.place.selected = Some(selected),
                }
                Ok(None)
            }
            Statement::Set(assignments) => {
                let expressions = assignments.iter().filter_map(|assignment| match &assignment.value {
                    NewValue::Expression(expression) => Some(expression),
                    NewValue::Default | NewValue::Word(_) => None,
                });
                let expressions: Vec<&Expression> = expressions.collect();
                self.wait_in(&expressions, sql, parameters, world)
            }
            Statement::Kill { query, id } => {
                if self.place.ended.is_some() {
                    return Ok(None);
                }
                if let Some(wait) = self.wait_in(&[id], sql, parameters, world)? {
                    return Ok(Some(wait));
                }
                self.kill(*query, id, sql, parameters, world).map(Some)
            }
            Statement::Replica { order, until, channel } if self.place.ended.is_none() => {
                self.order(order, until.as_ref(), channel.as_deref()).map(Some)
            }
            Statement::Show(Show::Processlist { .. }) if self.place.ended.is_none() => {
                Ok(Some(Wait { event: Event::Sessions, timeout: None }))
            }
            Statement::Show(Show::RelayLogEvents { file, from, limit, channel }) if self.place.ended.is_none() => {
                self.may_list_events(channel.as_deref())?;
                let events = self.bound(sql, parameters, world, |bind| {
                    self.relay_log_events(file.as_deref(), *from, limit, bind, world)
                })?;
                Ok(Some(self.list_events(events)))
            }
            _ => Ok(None),
        }
    }

    /// What calls in these expressions wait for next.
    fn wait_in(
        &mut self,
        expressions: &[&Expression],
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
    ) -> Result<Option<Wait>, SqlError> {
        let mut evaluation = std::mem::take(&mut self.place.evaluation);
        let wait = self.bound(sql, parameters, world, |bind| evaluation.wait_in(bind, expressions));
        self.place.evaluation = evaluation;
        wait
    }

    /// An error of the evaluation comes after the columns' definitions, as MySQL sends it.
    fn failed_late(
        &mut self,
        statement: &Statement,
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
        error: SqlError,
    ) -> Result<Outcome, SqlError> {
        let described = Parameters { values: None, ..parameters };
        match self.columns_of(statement, sql, described, world)? {
            None => Err(error),
            Some(rows) => {
                Ok(Outcome { rows: Some(Rows { rows: Vec::new(), ..rows }), error: Some(error), ..Outcome::OK })
            }
        }
    }

    /// Does what the statement does, once it has waited for all that it needs.
    fn finish(
        &mut self,
        statement: &Statement,
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
    ) -> Result<Outcome, SqlError> {
        match statement {
            _ if lists_warnings(statement) => {
                let rows = self.columns_of(statement, sql, parameters, world)?;
                return Ok(Outcome { rows, lists_warnings: true, ..Outcome::OK });
            }
            Statement::Select(_) | Statement::Show(_) | Statement::Explain { .. } => {
                let reads = self.reads_dictionary(statement, parameters);
                // Without one, a listing that needs it says so.
                let snapshot = if reads { self.snapshot(world).ok() } else { None };
                let rows = match (self.place.selected.take(), self.place.listing.take()) {
                    (Some((columns, has_row)), _) => {
                        let row = columns.iter().map(|column| column.value.clone()).collect();
                        Some(Rows::new(columns, if has_row { vec![row] } else { Vec::new() }))
                    }
                    (None, Some(listing)) => {
                        Some(self.bound(sql, parameters, world, |bind| self.listed(listing, bind, world))?)
                    }
                    (None, None) => self.columns_of(statement, sql, parameters, world)?,
                };
                self.own_warnings();
                if reads {
                    self.transaction.opens_table(false, &self.settings);
                }
                if let Some(snapshot) = snapshot {
                    self.transaction.reads(&snapshot, false, world.now());
                }
                self.diagnostics.row_count = -1;
                return Ok(Outcome { rows, ..Outcome::OK });
            }
            _ => {}
        }
        let mut warnings = Vec::new();
        let outcome = self.change(statement, sql, parameters, world, &mut warnings);
        let takes_notes = self.settings.typed().notes;
        let own = self.own_warnings();
        own.extend(warnings.into_iter().filter(|warning| takes_notes || warning.level != "Note"));
        own.truncate(WARNINGS_MAX);
        let outcome = outcome?;
        self.diagnostics.row_count = 0;
        Ok(outcome)
    }

    /// True for statements for which MySQL reads its dictionary's tables, in the session's transaction. SHOW CREATE
    /// finds its definitions in a cache.
    fn reads_dictionary(&self, statement: &Statement, parameters: Parameters<'_>) -> bool {
        match statement {
            Statement::Show(Show::Collation { .. } | Show::CharacterSet { .. }) => true,
            Statement::Show(Show::CreateTable { .. } | Show::CreateDatabase { .. }) => false,
            _ => self.shows_names(statement, parameters.prepared),
        }
    }

    /// Columns and rows of a statement that has some; None for others. Of a SELECT, its columns.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(super) fn columns_of(
        &self,
        statement: &Statement,
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
    ) -> Result<Option<Rows>, SqlError> {
        self.bound(sql, parameters, world, |bind| match statement {
            Statement::Select(select) if select.from.is_some() => {
                let listing = self.plan_of_listing(select, bind)?;
                self.listed(listing, bind, world).map(Some)
            }
            Statement::Select(select) => {
                self.check_locking(select)?;
                Ok(Some(Rows::new(sql::describe(bind, select)?, Vec::new())))
            }
            Statement::ShowWarnings { errors, limit } => self.show_warnings(*errors, limit, bind).map(Some),
            Statement::ShowWarningCount { errors } => Ok(Some(self.show_warning_count(*errors))),
            Statement::Show(show) => self.show(show, bind, world).map(Some),
            Statement::Explain { format, select } => self.explain(*format, select, sql, parameters, world).map(Some),
            _ => Ok(None),
        })
    }

    fn change(
        &mut self,
        statement: &Statement,
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
        warnings: &mut Vec<Warning>,
    ) -> Result<Outcome, SqlError> {
        match statement {
            Statement::Set(assignments) => self.set(assignments, sql, parameters, world, warnings)?,
            Statement::SetTransaction { scope, characteristics } => {
                self.set_transaction(*scope, *characteristics, world, warnings)?;
            }
            Statement::Use(name) => self.use_schema(&in_text(name), world)?,
            Statement::LockTables(tables) => self.lock_tables(tables, world)?,
            Statement::UnlockTables => self.unlock_tables(),
            Statement::Flush(flush) => self.flush(flush, world, warnings)?,
            Statement::Begin { consistent, access } => {
                self.locks.transaction_begins();
                let pin = || Ok((world.pin()?, world.now()));
                let may_write = self.may_forward();
                warnings.extend(self.transaction.begin(*consistent, *access, &self.settings, may_write, pin)?);
            }
            Statement::Commit(completion) | Statement::Rollback(completion) => {
                return Ok(self.complete(*completion));
            }
            Statement::Savepoint(name) => self.transaction.savepoint(name.clone(), self.settings.typed().autocommit)?,
            Statement::RollbackTo(name) => self.transaction.rollback_to(name)?,
            Statement::Release(name) => self.transaction.release(name)?,
            Statement::ReloadTls => self.reload_tls(world)?,
            Statement::Kill { .. } => self.has_ended()?,
            Statement::Replica { order, until, .. } => warnings.extend(self.ordered(order, until.is_some())?),
            Statement::Write => return Err(SqlError::read_only()),
            Statement::Refused(error) => return Err(error.clone()),
            Statement::Empty
            // What it computes was computed.
            | Statement::Do(_)
            | Statement::Select(_)
            | Statement::Show(_)
            | Statement::Explain { .. }
            | Statement::ShowWarnings { .. }
            | Statement::ShowWarningCount { .. } => {}
        }
        Ok(Outcome::OK)
    }

    /// # Errors
    /// What the statement did has failed, or was interrupted.
    pub(super) fn has_ended(&self) -> Result<(), SqlError> {
        match &self.place.ended {
            Some(Ended::Interrupted(by)) => Err(by.error()),
            Some(Ended::Failed(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn complete(&mut self, completion: Completion) -> Outcome {
        self.transaction.complete(completion, &self.settings);
        let after = if completion.release { After::Close } else { After::Next };
        Outcome { after, ..Outcome::OK }
    }

    fn reload_tls(&mut self, world: &dyn World) -> Result<(), SqlError> {
        if !self.login.identity.rights.admin {
            return Err(needs("CONNECTION_ADMIN"));
        }
        self.transaction.end();
        world.reload_tls().map_err(|why| SqlError::new(1105, "HY000", format!("TLS is unchanged: {why}")))
    }

    fn kept_warnings(&self, errors: bool) -> impl Iterator<Item = &Warning> {
        self.diagnostics.warnings.iter().filter(move |warning| !errors || warning.level == "Error")
    }

    fn show_warnings(&self, errors: bool, limit: &Limit, bind: &Bind<'_>) -> Result<Rows, SqlError> {
        let number = |expression: &Expression| match sql::evaluate(bind, expression)? {
            Value::Int(value) => Ok(usize::try_from(value).unwrap_or(usize::MAX)),
            _ => Ok::<_, SqlError>(usize::MAX),
        };
        let offset = number(&limit.offset)?;
        let most = limit.rows.as_ref().map_or(Ok(usize::MAX), number)?;
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let row =
            |warning: &Warning| vec![text(warning.level), Value::UInt(u64::from(warning.code)), text(&warning.message)];
        let rows = self.kept_warnings(errors).skip(offset).take(most).map(row).collect();
        let not_null = column_flag::NOT_NULL;
        let columns = vec![
            text_column("Level", not_null, 7),
            number_column("Code", not_null | column_flag::UNSIGNED, type_code::LONG, 5),
            text_column("Message", not_null, 512),
        ];
        Ok(Rows::new(columns, rows))
    }

    fn show_warning_count(&self, errors: bool) -> Rows {
        let name = if errors { "@@session.error_count" } else { "@@session.warning_count" };
        let columns = vec![number_column(name, column_flag::UNSIGNED, type_code::LONGLONG, 21)];
        Rows::new(columns, vec![vec![Value::UInt(self.kept_warnings(errors).count() as u64)]])
    }
}

/// 1227: a right is missing.
pub fn needs(privilege: &str) -> SqlError {
    let text = format!("Access denied; you need (at least one of) the {privilege} privilege(s) for this operation");
    SqlError::new(1227, "42000", text)
}

pub(super) fn text_column(name: &str, flags: u16, length: u32) -> Column {
    let field = Field { type_code: type_code::VAR_STRING, flags, length, decimals: 31, collation: SYSTEM_COLLATION };
    Column { name: name.as_bytes().to_vec(), field, value: Value::Null }
}

pub(super) fn number_column(name: &str, flags: u16, type_code: u8, length: u32) -> Column {
    let flags = flags | column_flag::BINARY;
    let field = Field { type_code, flags, length, decimals: 0, collation: values::collation::BINARY };
    Column { name: name.as_bytes().to_vec(), field, value: Value::Null }
}

/// True for statements that show the warnings of the one before.
pub(super) fn lists_warnings(statement: &Statement) -> bool {
    matches!(statement, Statement::ShowWarnings { .. } | Statement::ShowWarningCount { .. })
}
