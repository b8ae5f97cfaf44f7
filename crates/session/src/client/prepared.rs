//! Prepared statements: prepare, long data, execute, cursors.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use sql::{
    Column, Command, Expression, Field, Item, OUT_OF_MEMORY, ParameterType, Parsed, Purse, SqlError, Statement, Value,
};
use wire::command;
use wire::handshake::capability;
use wire::response::{PrepareOk, status};
use wire::server::{ClientCommand, Execute, ParamType};

use rows::Reading;
use sql::listing::bytes_of;

use super::beside::ROWS_A_TURN;
use super::results::{Form, Rows};
use super::tables::{Described, Known};
use super::waiting::{Execution, Waiter};
use super::{After, Change, Parameters, PreparedUnder, Session, listings, malformed, parameters};
use crate::Output;
use crate::world::World;

/// What a session's prepared statements hold, in bytes.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Bytes of a value sent as long data, besides its own.
const ENTRY_BYTES: usize = 64;
/// Bytes of a prepared statement besides its text and tree.
const STATEMENT_BYTES: usize = 512;
/// Bytes of a placeholder.
const PLACEHOLDER_BYTES: usize = 128;
/// Statements that are kept because another server has prepared them, and names in them were not known here: how many,
/// and bytes of each.
const LATER_MAX: (usize, usize) = (16, 16 << 10);
/// Flag of COM_STMT_EXECUTE: a read-only cursor.
const CURSOR_READ_ONLY: u8 = 1;
const CHANGED: u16 = status::METADATA_CHANGED;

/// The session's prepared statements.
#[derive(Debug, Default)]
pub(super) struct Statements {
    list: HashMap<u32, Prepared>,
    last_id: u32,
    /// Texts with names that were not known when they were to be prepared.
    later: BTreeMap<u32, (Vec<u8>, PreparedUnder)>,
    /// Bytes of texts, trees, long data and cursors.
    held_bytes: usize,
}

#[derive(Debug)]
struct Prepared {
    sql: Vec<u8>,
    parsed: Parsed,
    /// What the placeholders are bound as, and how that is described.
    bound_as: Vec<ParameterType>,
    fields: Vec<Field>,
    /// Types that the client sent with the last execution.
    types: Vec<ParamType>,
    long_data: BTreeMap<u16, Vec<u8>>,
    /// Why long data was refused, until the statement is reset.
    refused: Option<SqlError>,
    cursor: Option<Cursor>,
    /// Bytes that the cursor holds.
    cursor_bytes: usize,
    /// Bytes that it holds besides long data and cursor.
    bytes: usize,
    /// What its last execution put out.
    known: Option<Known>,
    under: PreparedUnder,
    /// Number of columns of its result, when it was prepared or last executed.
    columns: usize,
}

#[derive(Debug)]
enum Cursor {
    /// A result, and how many of its rows were sent.
    Rows(Rows, usize),
    /// A table's rows at the place where the last fetch ended.
    Table(Box<Reading>),
}

impl Statements {
    /// Closes all; returns how many there were.
    pub(super) fn clear(&mut self) -> usize {
        let count = self.list.len();
        *self = Statements { last_id: self.last_id, ..Statements::default() };
        count
    }

    /// Lets go of snapshots of cursors opened before this time.
    pub(super) fn give_up(&mut self, opened_before: Option<Instant>, why: &SqlError) {
        for prepared in self.list.values_mut() {
            if let Some(Cursor::Table(reading)) = &mut prepared.cursor {
                reading.give_up(opened_before, why);
            }
        }
    }

    /// The next number of a statement.
    pub(super) fn take_number(&mut self) -> u32 {
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }

    /// Bytes of texts, trees, long data and cursors.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(super) fn close(&mut self, id: u32) -> bool {
        let Some(closed) = self.list.remove(&id) else { return false };
        self.held_bytes -= closed.bytes + closed.cursor_bytes + closed.long_len();
        true
    }

    /// Parts of a parameter; the client gets no answer, so errors come with the execution.
    pub(super) fn add_long_data(&mut self, id: u32, parameter: u16, data: &[u8], memory: &Purse) {
        let Some(prepared) = self.list.get_mut(&id) else { return };
        if usize::from(parameter) >= prepared.parsed.parameters {
            let text = "Incorrect arguments to mysql_stmt_precheck";
            prepared.refused = Some(SqlError::new(1210, "HY000", text));
            return;
        }
        let known = prepared.long_data.get(&parameter);
        let (len, capacity) = known.map_or((0, 0), |known| (known.len(), known.capacity()));
        // Doubling would hold twice the longest value.
        let more = if capacity - len >= data.len() { 0 } else { data.len().max(len / 4) };
        let grown = len + more - capacity.min(len + more) + known.map_or(ENTRY_BYTES, |_| 0);
        if self.held_bytes + grown > HELD_BYTES_MAX {
            prepared.refused = Some(too_long());
            return;
        }
        if let Err(error) = memory.keep(grown) {
            prepared.refused = Some(error);
            return;
        }
        let value = prepared.long_data.entry(parameter).or_default();
        value.reserve_exact(more);
        value.extend_from_slice(data);
        self.held_bytes += grown;
    }

    /// Refuses long data that was not taken.
    pub(super) fn refuse(&mut self, id: u32, error: &SqlError) {
        if let Some(prepared) = self.list.get_mut(&id) {
            prepared.refused = Some(error.clone());
        }
    }

    /// The text of the statement that a COM_STMT_EXECUTE executes.
    pub(super) fn text_of(&self, payload: &[u8]) -> Option<&[u8]> {
        self.text_by_id(u32::from_le_bytes(*payload.get(1..)?.first_chunk()?))
    }

    /// The number that was taken last.
    pub(super) fn last_number(&self) -> u32 {
        self.last_id
    }

    /// Statements that were prepared after this number was taken, with their texts.
    pub(super) fn texts_after(&self, number: u32) -> impl Iterator<Item = (u32, &[u8])> {
        let mut after: Vec<_> = self.list.iter().filter(|(id, _)| **id > number).collect();
        after.sort_unstable_by_key(|(id, _)| **id);
        after.into_iter().map(|(id, prepared)| (*id, prepared.sql.as_slice()))
    }

    /// The text of a statement.
    pub(super) fn text_by_id(&self, id: u32) -> Option<&[u8]> {
        self.list.get(&id).map(|prepared| prepared.sql.as_slice())
    }

    /// Forgets long data and cursor.
    fn reset(&mut self, id: u32) -> bool {
        let Some(prepared) = self.list.get_mut(&id) else { return false };
        self.held_bytes -= prepared.long_len();
        prepared.long_data.clear();
        prepared.refused = None;
        self.held_bytes -= prepared.close_cursor();
        true
    }
}

impl Prepared {
    fn long_len(&self) -> usize {
        self.long_data.values().map(|value| value.capacity() + ENTRY_BYTES).sum()
    }

    /// Closes the cursor; returns the bytes that it held.
    fn close_cursor(&mut self) -> usize {
        self.cursor = None;
        std::mem::take(&mut self.cursor_bytes)
    }
}

/// 1105, in MySQL's words.
fn too_long() -> SqlError {
    let text = "Parameter of prepared statement which is set through mysql_send_long_data() is longer than \
                'max_allowed_packet' bytes";
    SqlError::new(1105, "HY000", text)
}

fn unknown(id: u32) -> SqlError {
    SqlError::new(1243, "HY000", format!("Unknown prepared statement handler ({id}) given to mysql_stmt_precheck"))
}

/// Statements that MySQL prepares, of those that are answered here.
fn can_be_prepared(statement: &Statement) -> bool {
    !matches!(
        statement,
        Statement::Empty
            | Statement::Use(_)
            | Statement::ShowWarnings { .. }
            | Statement::ShowWarningCount { .. }
            | Statement::Begin { .. }
            | Statement::Savepoint(_)
            | Statement::RollbackTo(_)
            | Statement::Release(_)
            | Statement::LockTables(_)
            | Statement::UnlockTables
    )
}

impl Session {
    pub(super) fn prepare(&mut self, sql: &[u8], world: &dyn World, out: &mut Output) -> After {
        let (len, sequence) = (out.len(), out.sequence());
        match self.prepared(sql, world, out) {
            Ok(()) => After::Next,
            Err(error) => {
                out.truncate(len, sequence);
                if self.is_unknown_here(&error) && sql.len() <= LATER_MAX.1 {
                    let under = self.prepares_under();
                    let Statements { later, last_id, .. } = &mut self.statements;
                    later.insert(*last_id, (sql.to_vec(), under));
                    if later.len() > LATER_MAX.0 {
                        later.pop_first();
                    }
                }
                self.fail(&error, out)
            }
        }
    }

    fn prepares_under(&self) -> PreparedUnder {
        PreparedUnder {
            charsets: *self.settings.charsets(),
            schema: self.schema.as_ref().map(|schema| schema.name.clone()),
            sql_mode: self.settings.typed().sql_mode,
        }
    }

    /// Prepares what an execution is of, if that was prepared elsewhere because of names that were not known here.
    pub fn prepares_late(&mut self, execution: &[u8], world: &dyn World) {
        let Ok(ClientCommand::Execute(execute)) = ClientCommand::parse(execution, self.capabilities) else { return };
        let id = execute.statement_id;
        let Some((sql, _)) = self.statements.later.remove(&id).filter(|(_, under)| *under == self.prepares_under())
        else {
            return;
        };
        let (last, diagnostics) = (self.statements.last_id, self.diagnostics.clone());
        self.statements.last_id = id.wrapping_sub(1);
        self.command(&[&[command::STMT_PREPARE], &*sql].concat(), world, &mut Output::default());
        // It is tried once.
        self.take_not_here();
        self.statements.later.remove(&id);
        self.statements.last_id = last;
        // Clients send the types of parameters once, and those that the other server got are not known.
        let parameters = self.statements.list.get(&id).map(|prepared| prepared.parsed.parameters);
        if parameters.is_some_and(|count| execute.params(count, &[], &|_| false).is_err()) {
            let close = [&[command::STMT_CLOSE], &id.to_le_bytes()[..]].concat();
            self.command(&close, world, &mut Output::default());
        }
        self.diagnostics = diagnostics;
    }

    fn prepared(&mut self, sql: &[u8], world: &dyn World, out: &mut Output) -> Result<(), SqlError> {
        // An attempt that fails takes a number too.
        let id = self.statements.take_number();
        let parsed = sql::parse_within(sql, self.settings.typed().sql_mode, self.settings.charsets(), &self.memory);
        self.says(parsed.as_ref().map_or_else(|unparsed| &unparsed.warnings, |parsed| &parsed.warnings));
        let parsed = parsed.map_err(|unparsed| unparsed.error)?;
        if let Some(error) = self.second_statement(sql, parsed.next) {
            return Err(error);
        }
        if !can_be_prepared(&parsed.statement) {
            let text = "This command is not supported in the prepared statement protocol yet";
            return Err(SqlError::new(1295, "HY000", text));
        }
        self.check_prepared_here(&parsed.statement)?;
        match &parsed.statement {
            Statement::Write => return Err(SqlError::read_only()),
            Statement::Refused(error) => return Err(error.clone()),
            Statement::Set(assignments) => self.check_targets(assignments, world)?,
            _ => {}
        }
        let mut bound_as = sql::parameter_types(&parsed.statement, parsed.parameters);
        let fields = self.fields_of(&bound_as);
        let unknown = Parameters { values: None, fields: &fields, prepared: None };
        // MySQL describes the columns of a SHOW that is no SELECT when it is executed only.
        let described = match (self.of_table(&parsed.statement, None), &parsed.statement) {
            (Some(select), _) => self.describe(select, sql, unknown, world)?,
            (None, Statement::Show(show)) if !listings::is_select(show) => Described::of(None),
            (None, statement) => Described::of(self.columns_of(statement, sql, unknown, world)?),
        };
        described.type_parameters(&mut bound_as);
        let placeholders = placeholders(&parsed.statement, &fields, &described);
        // The text is there once more in the tree.
        let bytes = STATEMENT_BYTES + 2 * sql.len() + parsed.tree_bytes + PLACEHOLDER_BYTES * parsed.parameters;
        if self.statements.held_bytes + bytes > HELD_BYTES_MAX {
            let text = "Out of memory: this session's prepared statements hold 64 MiB";
            return Err(SqlError::new(OUT_OF_MEMORY, "HY000", text));
        }
        self.memory.keep(bytes)?;
        self.own_warnings();
        self.put_prepared(id, &placeholders, &described, out)?;
        out.count()?;
        if !world.take_statement() {
            let text = "Can't create more than max_prepared_stmt_count statements (current value: 16382)";
            return Err(SqlError::new(1461, "42000", text));
        }
        self.statements.held_bytes += bytes;
        let prepared = Prepared {
            sql: sql.to_vec(),
            parsed,
            fields,
            bound_as,
            types: Vec::new(),
            long_data: BTreeMap::new(),
            refused: None,
            cursor: None,
            cursor_bytes: 0,
            bytes,
            known: None,
            under: self.prepares_under(),
            columns: described.columns.len(),
        };
        self.statements.list.insert(id, prepared);
        Ok(())
    }

    fn put_prepared(
        &mut self,
        id: u32,
        parameters: &[Column],
        described: &Described,
        out: &mut Output,
    ) -> Result<(), SqlError> {
        let Described { columns, origin, .. } = described;
        let count = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let ok = PrepareOk { statement_id: id, columns: count(columns.len()), parameters: count(parameters.len()) };
        let optional = self.capabilities & capability::OPTIONAL_RESULTSET_METADATA != 0;
        out.send(|out| {
            ok.write(out, self.warning_count());
            if optional {
                out.push(1);
            }
        });
        for placeholder in parameters {
            self.put_definition(placeholder, out)?;
        }
        if !parameters.is_empty() {
            self.definitions_end(self.status(), out);
        }
        for column in columns {
            self.put_table_definition(column, origin.as_ref(), out)?;
        }
        if !columns.is_empty() {
            self.definitions_end(self.status(), out);
        }
        Ok(())
    }

    /// What another server must get of an execution: it with the types of its parameters, which clients send once, and
    /// their long data, which is taken.
    pub fn execution_elsewhere(&mut self, payload: Vec<u8>) -> (Vec<u8>, Vec<(u16, Vec<u8>)>) {
        let Ok(ClientCommand::Execute(execute)) = ClientCommand::parse(&payload, self.capabilities) else {
            return (payload, Vec::new());
        };
        let Some(prepared) = self.statements.list.get_mut(&execute.statement_id) else { return (payload, Vec::new()) };
        let count = prepared.parsed.parameters;
        let is_long = |index: usize| u16::try_from(index).is_ok_and(|index| prepared.long_data.contains_key(&index));
        // One that cannot be read fails there as it would here.
        let Ok(bound) = execute.params(count, &prepared.types, &is_long) else { return (payload, Vec::new()) };
        prepared.types = bound.types;
        let with_types = execute.with_types(count, &prepared.types);
        self.statements.held_bytes -= prepared.long_len();
        let long_data = std::mem::take(&mut prepared.long_data).into_iter().collect();
        self.statements.held_bytes -= prepared.close_cursor();
        (with_types.unwrap_or(payload), long_data)
    }

    /// What another server must be told around the preparation of a statement that was prepared here: what its text
    /// meant then, and what the session has now.
    #[must_use]
    pub fn told_around(&self, id: u32) -> (Vec<Change>, Vec<Change>) {
        let Some(Prepared { under, .. }) = self.statements.list.get(&id) else { return Default::default() };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut both = |then: Change, now: Change| {
            before.push(then);
            after.push(now);
        };
        // The texts of these are the same under each of them.
        let charsets = *self.settings.charsets();
        if charsets != under.charsets {
            both(Change::Charsets(under.charsets), Change::Charsets(charsets));
        }
        let mode = |bits: u64| Change::Variable { name: "sql_mode", value: bits.to_string() };
        if self.settings.typed().sql_mode != under.sql_mode {
            both(mode(under.sql_mode), mode(self.settings.typed().sql_mode));
        }
        if let (Some(then), Some(now)) = (&under.schema, self.schema_name())
            && *then != now
        {
            both(Change::Schema(then.clone()), Change::Schema(now));
        }
        (before, after)
    }

    pub(super) fn execute(&mut self, execute: &Execute<'_>, world: &dyn World, out: &mut Output) -> After {
        self.statement_begins(world);
        world.note_command(Command::StmtExecute);
        let statement_id = execute.statement_id;
        // Taken out while it runs: the session is borrowed by what it runs.
        let Some(mut prepared) = self.statements.list.remove(&statement_id) else {
            return self.fail(&unknown(statement_id), out);
        };
        self.statements.held_bytes -= prepared.close_cursor();
        let work = prepared.long_len() * super::PAYLOAD_COPIES;
        let begun = self.memory.work_with(work).and_then(|()| self.parameters(&mut prepared, execute, world));
        let opens_cursor = execute.flags & CURSOR_READ_ONLY != 0;
        let begun = begun.and_then(|parameters| {
            self.check_answered_here(&prepared.parsed.statement)?;
            Ok(parameters)
        });
        match begun {
            Ok(parameters) => {
                self.note_command(&prepared.parsed.statement, world);
                let execution = Execution { statement_id, opens_cursor, parameters, bytes: 0 };
                self.run_taken(prepared, execution, world, out)
            }
            Err(error) => {
                match error.code == malformed().code || self.may_be_elsewhere(&error) {
                    // Of a packet that cannot be read, or that is another's, nothing was executed.
                    true => self.keep(statement_id, prepared),
                    false => self.executed(statement_id, prepared),
                }
                self.fail(&error, out)
            }
        }
    }

    /// Goes on with an execution that has waited.
    pub(super) fn run_execution(&mut self, execution: Execution, world: &dyn World, out: &mut Output) -> After {
        let Some(prepared) = self.statements.list.remove(&execution.statement_id) else {
            return self.fail(&unknown(execution.statement_id), out);
        };
        let held = prepared.long_len() + execution.bytes;
        if let Err(error) = self.memory.work_with(held * super::PAYLOAD_COPIES) {
            self.executed(execution.statement_id, prepared);
            return self.fail(&error, out);
        }
        self.run_taken(prepared, execution, world, out)
    }

    fn run_taken(
        &mut self,
        mut prepared: Prepared,
        mut execution: Execution,
        world: &dyn World,
        out: &mut Output,
    ) -> After {
        let result = self.run_prepared(&mut prepared, &execution, world, out);
        if matches!(result, Ok(After::Wait)) {
            self.statements.list.insert(execution.statement_id, prepared);
            execution.bytes = bytes_of(&execution.parameters);
            return self.suspends(Waiter::Execute(execution));
        }
        match result.as_ref().is_err_and(|error| self.may_be_elsewhere(error)) {
            true => self.keep(execution.statement_id, prepared),
            false => self.executed(execution.statement_id, prepared),
        }
        result.unwrap_or_else(|error| self.fail(&error, out))
    }

    /// Puts a statement back that was executed.
    fn executed(&mut self, id: u32, mut prepared: Prepared) {
        self.statements.held_bytes -= prepared.long_len();
        prepared.long_data.clear();
        self.keep(id, prepared);
    }

    fn keep(&mut self, id: u32, mut prepared: Prepared) {
        if prepared.cursor.is_some() {
            prepared.cursor_bytes = usize::try_from(self.memory.working()).unwrap_or(usize::MAX);
            self.statements.held_bytes += prepared.cursor_bytes;
        }
        self.statements.list.insert(id, prepared);
    }

    fn run_prepared(
        &mut self,
        prepared: &mut Prepared,
        execution: &Execution,
        world: &dyn World,
        out: &mut Output,
    ) -> Result<After, SqlError> {
        let Execution { parameters, opens_cursor, .. } = execution;
        // Only a SELECT has one.
        let opens_cursor = *opens_cursor
            && match &prepared.parsed.statement {
                Statement::Show(show) => listings::is_select(show),
                statement => matches!(statement, Statement::Select(_)),
            };
        let parameters =
            Parameters { values: Some(parameters), fields: &prepared.fields, prepared: Some(&prepared.under) };
        if let Some(select) = self.of_table(&prepared.parsed.statement, Some(&prepared.under)) {
            if !self.is_fresh(self.locks_first(select)?, world)? {
                self.check_binds(select, &prepared.sql, parameters, world)?;
                return Ok(After::Wait);
            }
            if opens_cursor {
                let reading = self.open_cursor(select, &prepared.sql, parameters, world)?;
                let columns = reading.plan().columns.len();
                let changed = if std::mem::replace(&mut prepared.columns, columns) == columns { 0 } else { CHANGED };
                self.put_cursor(&reading, changed, out)?;
                prepared.cursor = Some(Cursor::Table(Box::new(reading)));
                return Ok(After::Next);
            }
            let known = self.still_known(prepared.known.as_ref());
            let reading = self.open(select, &prepared.sql, parameters, Form::Binary, known, world)?;
            if !known.is_some_and(|known| known.is_of(reading.plan())) {
                let known_before = prepared.known.as_ref().map_or(0, Known::bytes);
                prepared.known = self.to_know(reading.plan());
                let known = prepared.known.as_ref().map_or(0, Known::bytes);
                self.statements.held_bytes = (self.statements.held_bytes + known).saturating_sub(known_before);
                prepared.bytes = (prepared.bytes + known).saturating_sub(known_before);
            }
            let columns = reading.plan().columns.len();
            let changed = if std::mem::replace(&mut prepared.columns, columns) == columns { 0 } else { CHANGED };
            return self.begin_rows(reading, changed, prepared.known.as_ref(), world, out);
        }
        if !self.is_fresh_for(&prepared.parsed.statement, Some(&prepared.under), world)? {
            return Ok(After::Wait);
        }
        let outcome = self.run(&prepared.parsed.statement, &prepared.sql, parameters, world)?;
        if outcome.after == After::Wait {
            return Ok(After::Wait);
        }
        let Some(rows) = outcome.rows else {
            self.ok(out);
            return Ok(outcome.after);
        };
        if let Some(error) = outcome.error {
            self.put_head(&rows, self.status(), out)?;
            return Err(error);
        }
        self.transaction.answered();
        self.diagnostics.found_rows = Some(rows.rows.len() as u64);
        // Of rows that are still being made there is no cursor, nor does MySQL have one for them.
        if rows.more.is_some() || !opens_cursor && rows.rows.len() > ROWS_A_TURN {
            return self.begin_sending(rows, Form::Binary, 0, out);
        }
        if !opens_cursor {
            self.put_rows(&rows, Form::Binary, self.status(), out)?;
            self.rows_end(out, self.status() | rows.status());
            return Ok(outcome.after);
        }
        let rows = rows.in_cursor();
        if let Some(error) = self.not_kept(&rows) {
            self.put_head(&rows, self.status(), out)?;
            return Err(error);
        }
        let status = self.status() | status::CURSOR_EXISTS;
        self.put_head(&rows, status, out)?;
        if self.capabilities & capability::DEPRECATE_EOF != 0 {
            self.rows_end(out, status);
        }
        prepared.cursor = Some(Cursor::Rows(rows, 0));
        Ok(outcome.after)
    }

    pub(super) fn reset_statement(&mut self, id: u32, out: &mut Output) -> After {
        if !self.statements.reset(id) {
            return self.fail(&unknown(id), out);
        }
        self.diagnostics.warnings.clear();
        self.ok(out);
        After::Next
    }

    pub(super) fn fetch(&mut self, id: u32, count: u32, world: &dyn World, out: &mut Output) -> After {
        let Some(prepared) = self.statements.list.get_mut(&id) else {
            return self.fail(&unknown(id), out);
        };
        let Some(cursor) = prepared.cursor.take() else {
            let text = format!("The statement ({id}) has no open cursor.");
            return self.fail(&SqlError::new(1421, "HY000", text), out);
        };
        let wanted = usize::try_from(count).unwrap_or(usize::MAX);
        let (rows, mut before) = match cursor {
            Cursor::Rows(rows, before) => (rows, before),
            Cursor::Table(reading) if wanted == 0 => {
                self.put_back(id, *reading);
                self.rows_end(out, self.status() | status::CURSOR_EXISTS);
                return After::Next;
            }
            Cursor::Table(reading) => return self.fetch_from(*reading, (id, wanted), world, out),
        };
        let sent = match self.fetch_rows(&rows, &mut before, wanted, out) {
            Ok(sent) => sent,
            Err(error) => {
                self.cursor_closed(id);
                return self.fail(&error, out);
            }
        };
        // The end is seen only by looking for a row more.
        let is_at_end = sent < wanted;
        let bit = if is_at_end { status::LAST_ROW_SENT } else { status::CURSOR_EXISTS };
        self.rows_end(out, self.status() | bit);
        if is_at_end {
            self.cursor_closed(id);
        } else if let Some(prepared) = self.statements.list.get_mut(&id) {
            prepared.cursor = Some(Cursor::Rows(rows, before));
        }
        After::Next
    }

    /// A cursor has more rows.
    pub(super) fn put_back(&mut self, id: u32, mut reading: Reading) {
        reading.rests();
        if let Some(prepared) = self.statements.list.get_mut(&id) {
            prepared.cursor = Some(Cursor::Table(Box::new(reading)));
        }
    }

    pub(super) fn cursor_closed(&mut self, id: u32) {
        if let Some(prepared) = self.statements.list.get_mut(&id) {
            self.statements.held_bytes -= prepared.close_cursor();
        }
    }
}

impl Session {
    /// Puts out up to `wanted` rows of a result; returns how many there were.
    fn fetch_rows(&self, rows: &Rows, sent: &mut usize, wanted: usize, out: &mut Output) -> Result<usize, SqlError> {
        let before = *sent;
        for values in rows.rows.iter().skip(before).take(wanted) {
            self.put_row(&rows.columns, values, Form::Binary, out)?;
            out.count()?;
            *sent += 1;
        }
        Ok(*sent - before)
    }
}

impl Session {
    fn parameters(
        &mut self,
        prepared: &mut Prepared,
        execute: &Execute<'_>,
        world: &dyn World,
    ) -> Result<Vec<Value>, SqlError> {
        let long_data = |index: usize| u16::try_from(index).ok().and_then(|index| prepared.long_data.get(&index));
        let is_long = |index: usize| long_data(index).is_some();
        let count = prepared.parsed.parameters;
        let bound = execute.params(count, &prepared.types, &is_long).map_err(|_| malformed())?;
        for ty in bound.types.iter().take(count).enumerate().filter_map(|(index, ty)| is_long(index).then_some(ty)) {
            parameters::check_long(ty.value.code)?;
        }
        if let Some(refused) = &prepared.refused {
            return Err(refused.clone());
        }
        // Attributes follow the parameters.
        let (types, sent) = (bound.types.get(count..), bound.values.get(count..));
        self.take_attributes(types.unwrap_or_default(), sent.unwrap_or_default(), world)?;
        let charsets = self.settings.charsets();
        let mut values = Vec::with_capacity(count.min(bound.values.len()));
        for (index, (sent, ty)) in bound.values.iter().zip(&bound.types).take(count).enumerate() {
            values.push(match sent {
                None => parameters::text(charsets, long_data(index).map_or(&[], Vec::as_slice))?,
                Some(sent) => parameters::value(charsets, sent, ty.value.code)?,
            });
        }
        let is_blob = |index: usize| bound.types.get(index).is_some_and(|ty| parameters::is_blob(ty.value.code));
        if sql::bind_parameters(&mut prepared.bound_as, &mut values, &is_blob)? {
            prepared.fields = self.fields_of(&prepared.bound_as);
            // Binding anew takes a number, as by MySQL.
            self.statements.take_number();
        }
        prepared.types = bound.types;
        Ok(values)
    }

    /// The error of a cursor's row whose text its table does not take: one that is invalid in its character set.
    fn not_kept(&self, rows: &Rows) -> Option<SqlError> {
        let values = rows.rows.iter().flat_map(|row| rows.columns.iter().zip(row));
        values.into_iter().find_map(|(column, value)| match value {
            Value::Text(text) => sql::not_kept(text, column.field.collation),
            _ => None,
        })
    }

    /// How parameters are described in this session.
    fn fields_of(&self, types: &[ParameterType]) -> Vec<Field> {
        let collation = self.settings.charsets().connection;
        types.iter().map(|ty| ty.field(collation)).collect()
    }
}

/// How MySQL describes placeholders: one that is a column has its name, one beside a column its type.
fn placeholders(statement: &Statement, fields: &[Field], described: &Described) -> Vec<Column> {
    let unnamed = |field: &Field| Column { name: b"?".to_vec(), field: *field, value: Value::Null };
    let mut placeholders: Vec<Column> = fields.iter().map(unnamed).collect();
    for (index, field) in &described.parameters {
        if let Some(placeholder) = placeholders.get_mut(*index) {
            placeholder.field = *field;
        }
    }
    if let Statement::Select(select) = statement {
        let is_star = |item: &Item| matches!(item.expression, Expression::Star(_));
        let stars = select.items.iter().filter(|item| is_star(item)).count();
        // All stars stand for the columns of the one table.
        let others = select.items.len() - stars;
        let a_star = described.columns.len().saturating_sub(others).checked_div(stars).unwrap_or(0);
        let mut at = 0;
        for item in &select.items {
            if let Expression::Parameter(index) = item.expression
                && let (Some(placeholder), Some(column)) = (placeholders.get_mut(index), described.columns.get(at))
            {
                placeholder.name.clone_from(&column.name);
            }
            at += if is_star(item) { a_star } else { 1 };
        }
    }
    placeholders
}
