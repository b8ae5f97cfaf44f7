//! COM_QUERY: one statement, or several with a result each.

use sql::{Next, SqlError, Statement};
use wire::handshake::capability;
use wire::response::status;

use super::beside::ROWS_A_TURN;
use super::execute::lists_warnings;
use super::results::Form;
use super::tables::Known;
use super::texts::key_of;
use super::{After, Parameters, Session};
use crate::Output;
use crate::world::World;

/// Output of one command that may wait to be sent before its next statement runs, in bytes.
pub(super) const WAITING_BYTES: usize = 256 << 10;

/// Statements of a text that have not run yet.
#[derive(Debug)]
pub(super) struct Rest {
    sql: Vec<u8>,
    at: usize,
}

impl Rest {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.sql.len()
    }

    /// What is left of the text.
    pub(super) fn text(&self) -> &[u8] {
        self.sql.get(self.at..).unwrap_or_default()
    }
}

impl Session {
    pub(super) fn query(&mut self, sql: &[u8], world: &dyn World, out: &mut Output) -> After {
        let mut at = 0;
        loop {
            match self.first_of(sql.get(at..).unwrap_or_default(), world, out) {
                (After::Wait, _) => return self.goes_on_with(Rest { sql: sql.to_vec(), at }),
                (After::More, next) => {
                    self.rest = next.map(|next| Rest { sql: sql.to_vec(), at: at + next });
                    return After::More;
                }
                (after, None) => return after,
                (_, Some(next)) => at += next,
            }
            if out.len() > WAITING_BYTES {
                self.rest = Some(Rest { sql: sql.to_vec(), at });
                return After::More;
            }
        }
    }

    /// Goes on with the rows, and then the statements, that wait.
    pub(super) fn go_on(&mut self, world: &dyn World, out: &mut Output) -> After {
        if self.is_dumping() {
            return self.dump_on(world, out);
        }
        if self.running.is_some() {
            match self.read_on(world, out) {
                After::Next => {}
                after => return after,
            }
        }
        if self.sending.is_some() {
            match self.send_on(out) {
                After::Next => {}
                after => return after,
            }
        }
        let Some(mut rest) = self.rest.take() else { return After::Next };
        loop {
            match self.first_of(rest.sql.get(rest.at..).unwrap_or_default(), world, out) {
                (After::Wait, _) => return self.goes_on_with(rest),
                (After::More, next) => {
                    let Rest { sql, at } = rest;
                    self.rest = next.map(|next| Rest { sql, at: at + next });
                    return After::More;
                }
                (after, None) => return after,
                (_, Some(next)) => rest.at += next,
            }
            if out.len() > WAITING_BYTES {
                self.rest = Some(rest);
                return After::More;
            }
        }
    }

    /// Runs the first statement of a text; returns the offset of the next one, if the client is to get its result too.
    fn first_of(&mut self, sql: &[u8], world: &dyn World, out: &mut Output) -> (After, Option<usize>) {
        self.statement_is_new();
        // Of the statement before nothing is held any more.
        self.memory.end_work();
        self.statement_begins(world);
        let key = key_of(sql);
        if let Some(after) = key.and_then(|key| self.again(key, sql, world, out)) {
            return (after, None);
        }
        let parsed = sql::parse_within(sql, self.settings.sql_mode(), self.settings.charsets(), &self.memory);
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(unparsed) => {
                self.says(&unparsed.warnings);
                return (self.fail(&unparsed.error, out), None);
            }
        };
        if !lists_warnings(&parsed.statement) {
            self.says(&parsed.warnings);
        }
        if parsed.parameters > 0 {
            let at = sql.iter().position(|byte| *byte == b'?').unwrap_or_default();
            return (self.fail(&SqlError::syntax(sql::trimmed(sql), at), out), None);
        }
        let is_multi = self.capabilities & capability::MULTI_STATEMENTS != 0;
        let next = parsed.next.filter(|_| is_multi).map(|next| next.at);
        if let (false, Some(error)) = (is_multi, second_statement(sql, parsed.next)) {
            return (self.fail(&error, out), None);
        }
        if let Some(key) = key {
            self.texts.parsed(key, sql, &parsed, &self.settings, &self.memory);
        }
        let more = next.map_or(0, |_| status::MORE_RESULTS_EXISTS);
        match self.answer(&parsed.statement, sql, more, None, world, out) {
            Ok(after @ (After::Next | After::More)) => (after, next),
            Ok(after) => (after, None),
            Err(error) => (self.fail(&error, out), None),
        }
    }

    /// Runs a text that came before with other literals; None if it is not one of those that are kept.
    fn again(&mut self, key: u64, sql: &[u8], world: &dyn World, out: &mut Output) -> Option<After> {
        let mut kept = self.texts.take(key, &self.settings)?;
        let answer = kept.parsed(sql).map(|(parsed, known)| {
            self.says(&parsed.warnings);
            self.answer(&parsed.statement, sql, 0, Some(known), world, out)
        });
        self.texts.put(kept);
        answer.map(|answer| answer.unwrap_or_else(|error| self.fail(&error, out)))
    }

    /// Counts a statement, once if it waits.
    pub(super) fn note_command(&self, statement: &Statement, world: &dyn World) {
        if let Some(command) = statement.command().filter(|_| self.began.is_none()) {
            world.note_command(command);
        }
    }

    /// Runs a statement and puts out its result in text form. `known` is of an earlier execution of its text, and
    /// becomes that of this one.
    fn answer(
        &mut self,
        statement: &Statement,
        sql: &[u8],
        more: u16,
        known: Option<&mut Option<Known>>,
        world: &dyn World,
        out: &mut Output,
    ) -> Result<After, SqlError> {
        self.note_command(statement, world);
        if let Some(select) = self.of_table(statement, None) {
            return self.read_text(select, sql, more, known, world, out);
        }
        let pins = matches!(statement, Statement::Begin { consistent: true, .. }) || super::locks::pins(statement);
        if pins && !self.is_fresh(true, world)? {
            return Ok(After::Wait);
        }
        if self.shows_names(statement, None) && !self.is_fresh(false, world)? {
            return Ok(After::Wait);
        }
        let outcome = self.run(statement, sql, Parameters::NONE, world)?;
        if outcome.after == After::Wait {
            return Ok(After::Wait);
        }
        if let (Some(rows), Some(error)) = (&outcome.rows, outcome.error) {
            self.put_head(rows, self.status() | more, out)?;
            return Err(error);
        }
        let status = self.status() | more;
        match outcome.rows {
            None => self.ok_as(out, status),
            Some(rows) if rows.rows.len() > ROWS_A_TURN || rows.more.is_some() => {
                self.transaction.answered();
                return self.begin_sending(rows, Form::Text, more, out);
            }
            Some(rows) => {
                self.put_rows(&rows, Form::Text, status, out)?;
                self.transaction.answered();
                // What lists warnings has none.
                let warnings = if outcome.lists_warnings { 0 } else { self.warning_count() };
                self.rows_end_with(out, status | rows.status(), warnings);
            }
        }
        Ok(outcome.after)
    }
}

/// The error of a second statement where only one is allowed.
pub(super) fn second_statement(sql: &[u8], next: Option<Next>) -> Option<SqlError> {
    next?.token.map(|place| SqlError::syntax(sql::trimmed(sql), place))
}
