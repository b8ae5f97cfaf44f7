//! COM_QUERY: one statement, or several with a result each.

use std::borrow::Cow;

use sql::{Next, SqlError, Statement};
use wire::handshake::capability;
use wire::response::status;

use super::beside::ROWS_A_TURN;
use super::execute::lists_warnings;
use super::results::Form;
use super::tables::Known;
use super::texts::{Begun, Rest, Tree, key_of};
use super::waiting::Waiter;
use super::{After, Parameters, Session, WAITING_BYTES};
use crate::Output;
use crate::world::World;

impl Session {
    pub(super) fn query(&mut self, sql: &[u8], world: &dyn World, out: &mut Output) -> After {
        self.run_text(Cow::Borrowed(sql), 0, None, world, out)
    }

    /// Goes on with the rows, and then the statements, that wait.
    pub(super) fn go_on(&mut self, world: &dyn World, out: &mut Output) -> After {
        if self.is_dumping() {
            return self.dump_on(world, out);
        }
        if self.results.running.is_some() {
            match self.read_on(world, out) {
                After::Next => {}
                after => return after,
            }
        }
        if self.results.sending.is_some() {
            match self.send_on(out) {
                After::Next => {}
                after => return after,
            }
        }
        let Some(Rest { sql, at }) = self.results.rest.take() else { return After::Next };
        self.run_text(Cow::Owned(sql), at, None, world, out)
    }

    /// Goes on with a statement that has waited, and then with those behind it.
    pub(super) fn go_on_with(&mut self, begun: Begun, rest: Rest, world: &dyn World, out: &mut Output) -> After {
        let Rest { sql, at } = rest;
        self.run_text(Cow::Owned(sql), at, Some(begun), world, out)
    }

    /// Runs the statements of a text from an offset on; the first of them may have begun.
    fn run_text(
        &mut self,
        sql: Cow<'_, [u8]>,
        mut at: usize,
        mut begun: Option<Begun>,
        world: &dyn World,
        out: &mut Output,
    ) -> After {
        loop {
            let text = sql.get(at..).unwrap_or_default();
            let mut one = match begun.take().map_or_else(|| self.begin_statement(text, world), Ok) {
                Ok(one) => one,
                Err(error) => return self.fail(&error, out),
            };
            let after = self.answer_begun(&mut one, text, world, out);
            if after == After::Wait {
                let rest = Rest { sql: sql.into_owned(), at };
                return self.suspends(Waiter::Text { begun: Box::new(one), rest });
            }
            if let Tree::Kept(kept) = one.tree {
                self.texts.put(kept);
            }
            // What closes the connection ends the text.
            match (after, one.next.filter(|_| after != After::Close)) {
                (After::More, next) => {
                    self.results.rest = next.map(|next| Rest { sql: sql.into_owned(), at: at + next });
                    return After::More;
                }
                (after, None) => return after,
                (_, Some(next)) => at += next,
            }
            if out.len() > WAITING_BYTES {
                self.results.rest = Some(Rest { sql: sql.into_owned(), at });
                return After::More;
            }
        }
    }

    /// Begins with the first statement of a text.
    fn begin_statement(&mut self, sql: &[u8], world: &dyn World) -> Result<Begun, SqlError> {
        self.statement_is_new();
        // Of the statement before nothing is held any more.
        self.memory.end_work();
        self.statement_begins(world);
        let key = key_of(sql);
        if let Some(mut kept) = key.and_then(|key| self.texts.take(key, &self.settings)) {
            if kept.fill(sql) {
                let (parsed, _) = kept.parsed();
                self.says(&parsed.warnings);
                if let Err(error) = self.check_answered_here(&parsed.statement) {
                    self.texts.put(kept);
                    return Err(error);
                }
                self.note_command(&parsed.statement, world);
                return Ok(Begun { tree: Tree::Kept(kept), next: None });
            }
            self.texts.put(kept);
        }
        let parsed = sql::parse_within(sql, self.settings.typed().sql_mode, self.settings.charsets(), &self.memory);
        let parsed = parsed.map_err(|unparsed| {
            self.says(&unparsed.warnings);
            unparsed.error
        })?;
        if !lists_warnings(&parsed.statement) {
            self.says(&parsed.warnings);
        }
        if parsed.parameters > 0 {
            let at = sql.iter().position(|byte| *byte == b'?').unwrap_or_default();
            return Err(self.settings.charsets().syntax(sql::trimmed(sql), at));
        }
        let is_multi = self.capabilities & capability::MULTI_STATEMENTS != 0;
        let next = parsed.next.filter(|_| is_multi).map(|next| next.at);
        if let (false, Some(error)) = (is_multi, self.second_statement(sql, parsed.next)) {
            return Err(error);
        }
        self.check_alone(sql, next.is_none() || parsed.next.is_some_and(|next| next.token.is_none()))?;
        self.check_answered_here(&parsed.statement)?;
        if let Some(key) = key {
            self.texts.parsed(key, sql, &parsed, &self.settings, &self.memory);
        }
        self.note_command(&parsed.statement, world);
        Ok(Begun { tree: Tree::Parsed(parsed), next })
    }

    /// Answers a statement, or continues it.
    fn answer_begun(&mut self, begun: &mut Begun, sql: &[u8], world: &dyn World, out: &mut Output) -> After {
        let more = begun.next.map_or(0, |_| status::MORE_RESULTS_EXISTS);
        let answer = match &mut begun.tree {
            Tree::Parsed(parsed) => self.answer(&parsed.statement, sql, more, None, world, out),
            Tree::Kept(kept) => {
                let (parsed, known) = kept.parsed();
                self.answer(&parsed.statement, sql, more, Some(known), world, out)
            }
        };
        answer.unwrap_or_else(|error| {
            begun.next = None;
            self.fail(&error, out)
        })
    }

    /// Counts a statement among the server's.
    pub(super) fn note_command(&self, statement: &Statement, world: &dyn World) {
        if let Some(command) = statement.command() {
            world.note_command(command);
        }
    }

    /// Runs a statement, or continues it, and puts out its result in text form. `known` is of an earlier execution of
    /// its text, and becomes that of this one.
    fn answer(
        &mut self,
        statement: &Statement,
        sql: &[u8],
        more: u16,
        known: Option<&mut Option<Known>>,
        world: &dyn World,
        out: &mut Output,
    ) -> Result<After, SqlError> {
        if let Some(select) = self.of_table(statement, None) {
            return self.read_text(select, sql, more, known, world, out);
        }
        if !self.is_fresh_for(statement, None, world)? {
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
                self.diagnostics.found_rows = Some(rows.rows.len() as u64);
                self.transaction.answered();
                return self.begin_sending(rows, Form::Text, more, out);
            }
            Some(rows) => {
                self.put_rows(&rows, Form::Text, status, out)?;
                self.diagnostics.found_rows = Some(rows.rows.len() as u64);
                self.transaction.answered();
                // What lists warnings has none.
                let warnings = if outcome.lists_warnings { 0 } else { self.warning_count() };
                self.rows_end_with(out, status | rows.status(), warnings);
            }
        }
        Ok(outcome.after)
    }
    /// The error of a second statement where only one is allowed.
    pub(super) fn second_statement(&self, sql: &[u8], next: Option<Next>) -> Option<SqlError> {
        next?.token.map(|place| self.settings.charsets().syntax(sql::trimmed(sql), place))
    }
}
