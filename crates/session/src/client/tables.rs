//! SELECT from a table: bound to the snapshot that it reads, run in steps that other connections come between.
//!
//! In: a parsed SELECT, a snapshot pinned by the world. Out: definitions and rows, as much at a time as may wait to be
//! sent. Never here: a snapshot kept after the last row of a statement, but that of its transaction; more rows looked at
//! in one turn than [`ROWS_A_TURN`].
//!
//! A step reads on the loop's thread, also where the row is on disk: a pool for what would wait comes with the loops'
//! own work on speed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rows::{Form, Reading};
use sql::table::{NoTable, Origin, Plan, ResultColumn, Selected, TableName};
use sql::{Column, Field, ParameterType, Select, Settings, SqlError, Statement};
use store::Snapshot;
use wire::handshake::capability;
use wire::response::status;

use super::explain::may_read_more;
use super::results::{Listed, Rows};
use super::{After, Parameters, PreparedUnder, Session, WAITING_BYTES};
use crate::Output;
use crate::world::World;

/// Bytes of a row that is put out, and sent at once, whatever others hold.
const ROW_BYTES: usize = 16 << 10;
/// Rows that one step looks at.
const ROWS_A_TURN: u64 = 1_000;
/// Bytes of a row after which statements on its table begin where they may take long: 4 MiB take some 10 ms to read.
const LONG_ROW: usize = 4 << 20;

/// A statement whose rows are being sent.
#[derive(Debug)]
pub(super) struct Running {
    reading: Reading,
    /// Status bits of its end besides the session's.
    status: u16,
    /// When `max_execution_time` ends it.
    until: Option<Instant>,
    /// How long it has worked, without the time that others had and the client took.
    worked: Duration,
    /// Rows that were put out.
    rows: u64,
    /// The COM_STMT_FETCH that reads, if it is a cursor's.
    fetch: Option<Fetch>,
}

/// Rows that a client asks of a cursor.
#[derive(Debug)]
struct Fetch {
    id: u32,
    wanted: usize,
    sent: usize,
}

/// What an execution of a prepared statement leaves for the next one.
#[derive(Debug)]
pub(super) struct Known {
    selected: Arc<Selected>,
    /// The variables under which it was bound.
    settings: Settings,
    /// Payloads of the columns' definitions.
    definitions: Vec<Vec<u8>>,
}

impl Known {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        let definitions = self.definitions.iter().map(|one| size_of_val(one) + one.len());
        // A definition has the names of a column, which the plan holds once more.
        2 * definitions.sum::<usize>() + size_of::<Known>()
    }

    /// True if this plan puts out the same.
    pub(super) fn is_of(&self, plan: &Plan) -> bool {
        Arc::ptr_eq(&self.selected, &plan.selected)
    }
}

/// What the answer to a COM_STMT_PREPARE describes.
pub(super) struct Described {
    pub(super) columns: Vec<ResultColumn>,
    pub(super) origin: Option<Origin>,
    /// Parameters that are typed by a column, by number.
    pub(super) parameters: Vec<(usize, Field)>,
}

impl Described {
    /// Columns that come from no table.
    pub(super) fn of(rows: Option<Rows>) -> Described {
        let of_none = |Column { name, field, .. }| ResultColumn { name, org_name: None, origin: None, field };
        let (columns, listed) = rows.map_or_else(Default::default, |rows| (rows.columns, rows.described));
        if let Some(Listed { columns, parameters, .. }) = listed {
            return Described { columns, origin: None, parameters };
        }
        Described { columns: columns.into_iter().map(of_none).collect(), origin: None, parameters: Vec::new() }
    }

    /// Gives the parameters that stand beside a column the types that they have until another is sent.
    pub(super) fn type_parameters(&self, types: &mut [ParameterType]) {
        for (index, field) in &self.parameters {
            if let Some(ty) = types.get_mut(*index) {
                *ty = ParameterType::beside(*field);
            }
        }
    }
}

/// Puts out rows of one step as long as `more` says so after each; true once there are no more.
fn put_rows(reading: &mut Reading, out: &mut Output, more: &mut dyn FnMut(&Output) -> bool) -> Result<bool, SqlError> {
    reading.step(ROWS_A_TURN, &mut |row| {
        let (len, sequence, most) = (out.len(), out.sequence(), out.most());
        if let Err(error) = out.send(|out| row.put(most, out)) {
            out.truncate(len, sequence);
            return Err(error);
        }
        match out.count() {
            Ok(()) => Ok(more(out)),
            Err(error) if out.len() - len > ROW_BYTES => {
                out.truncate(len, sequence);
                Err(error)
            }
            // What is there is sent first.
            Err(_) => {
                more(out);
                Ok(false)
            }
        }
    })
}

impl Session {
    /// The SELECT of a statement that reads a table that is kept.
    pub(super) fn of_table<'a>(&self, statement: &'a Statement, under: Option<&PreparedUnder>) -> Option<&'a Select> {
        match statement {
            Statement::Select(select) if select.from.is_some() => {
                if self.virtual_schema(select, under).is_some() {
                    None
                } else {
                    Some(select)
                }
            }
            _ => None,
        }
    }

    /// A SELECT from a table whose result goes in text form.
    pub(super) fn read_text(
        &mut self,
        select: &Select,
        sql: &[u8],
        more: u16,
        known: Option<&mut Option<Known>>,
        world: &dyn World,
        out: &mut Output,
    ) -> Result<After, SqlError> {
        if !self.is_fresh(self.locks_first(select)?, world)? {
            self.check_binds(select, sql, Parameters::NONE, world)?;
            return Ok(After::Wait);
        }
        let before = self.still_known(known.as_deref().and_then(Option::as_ref));
        let reading = self.open(select, sql, Parameters::NONE, Form::Text, before, world)?;
        let is_same = before.is_some_and(|known| known.is_of(reading.plan()));
        let Some(known) = known else { return self.begin_rows(reading, more, None, world, out) };
        if !is_same {
            *known = self.to_know(reading.plan());
        }
        self.begin_rows(reading, more, known.as_ref(), world, out)
    }

    /// Definitions and the first rows; `more` are status bits of this result besides the session's.
    pub(super) fn begin_rows(
        &mut self,
        reading: Reading,
        more: u16,
        known: Option<&Known>,
        world: &dyn World,
        out: &mut Output,
    ) -> Result<After, SqlError> {
        let status = more | if reading.scans() { status::NO_INDEX_USED } else { 0 };
        self.put_table_head(reading.plan(), known, self.status() | status, out)?;
        self.transaction.answered();
        Ok(self.begin_reading(reading, status, None, world, out))
    }

    /// Puts out the next rows of a cursor.
    pub(super) fn fetch_from(
        &mut self,
        reading: Reading,
        (id, wanted): (u32, usize),
        world: &dyn World,
        out: &mut Output,
    ) -> After {
        self.begin_reading(reading, 0, Some(Fetch { id, wanted, sent: 0 }), world, out)
    }

    fn begin_reading(
        &mut self,
        reading: Reading,
        status: u16,
        fetch: Option<Fetch>,
        world: &dyn World,
        out: &mut Output,
    ) -> After {
        let until = self.settings.typed().execution_limit.and_then(|limit| world.now().checked_add(limit));
        let mut reading = reading;
        if world.has_long_rows(reading.plan().table.id) {
            reading.begins_long();
        }
        self.results.running = Some(Running { reading, status, until, worked: Duration::ZERO, rows: 0, fetch });
        self.read_on(world, out)
    }

    /// True if the statement is about to read a long row, or to look at a long value, which keeps others waiting.
    pub fn is_at_long(&self) -> bool {
        self.results.running.as_ref().is_some_and(|running| running.reading.is_at_long())
    }

    /// Whether its statements may do so in the next steps; without, they wait where they are.
    pub fn may_take_long(&mut self, may: bool) {
        self.results.takes_long = may;
    }

    /// Bytes of a row that a statement holds from one step to the next.
    pub(super) fn held_row_bytes(&self) -> usize {
        self.results.running.as_ref().map_or(0, |running| running.reading.held_bytes())
    }

    /// When the statement that runs is to end at the latest.
    pub fn ends_at(&self) -> Option<Instant> {
        self.results.running.as_ref()?.until
    }

    /// Gives up the statement whose rows are being sent.
    pub(super) fn stop_reading(&mut self) {
        if let Some(Fetch { id, .. }) = self.results.running.take().and_then(|running| running.fetch) {
            self.cursor_closed(id);
        }
    }

    /// Goes on with the rows that are being sent.
    pub(super) fn read_on(&mut self, world: &dyn World, out: &mut Output) -> After {
        let Some(mut running) = self.results.running.take() else { return After::Next };
        let began = world.now();
        running.reading.may_take_long(self.results.takes_long);
        let (fetch, rows) = (&mut running.fetch, &mut running.rows);
        let step = put_rows(&mut running.reading, out, &mut |out| {
            *rows += 1;
            let is_enough = fetch.as_mut().is_some_and(|fetch| {
                fetch.sent += 1;
                fetch.sent >= fetch.wanted
            });
            out.len() < WAITING_BYTES && !is_enough
        });
        let now = world.now();
        running.worked += now.saturating_duration_since(began);
        if running.reading.longest_row() > LONG_ROW {
            world.note_long_rows(running.reading.plan().table.id);
        }
        let is_enough = running.fetch.as_ref().is_some_and(|fetch| fetch.sent >= fetch.wanted);
        let error = match step {
            Ok(ended) if ended || is_enough => return self.end_reading(running, is_enough, out),
            Ok(_) => self.is_over_time(&running, now, world),
            Err(error) => Some(error),
        };
        self.results.running = Some(running);
        error.map_or(After::More, |error| self.fail(&error, out))
    }

    fn end_reading(&mut self, running: Running, is_enough: bool, out: &mut Output) -> After {
        let Running { reading, status, fetch, rows, .. } = running;
        if fetch.is_none() {
            self.diagnostics.found_rows = Some(rows);
        }
        let bit = match fetch {
            None => 0,
            // The end is seen only by looking for a row more.
            Some(Fetch { id, .. }) if is_enough => {
                self.put_back(id, reading);
                status::CURSOR_EXISTS
            }
            Some(Fetch { id, .. }) => {
                self.cursor_closed(id);
                status::LAST_ROW_SENT
            }
        };
        self.rows_end(out, self.status() | status | bit);
        After::Next
    }

    /// The error of a statement that has taken too long.
    fn is_over_time(&self, running: &Running, now: Instant, world: &dyn World) -> Option<SqlError> {
        let text = "Query execution was interrupted, maximum statement execution time exceeded";
        if running.until.is_some_and(|until| until <= now) {
            return Some(SqlError::new(3024, "HY000", text));
        }
        let limit = world.statement_cpu_time().filter(|_| !self.login.identity.rights.admin)?;
        (running.worked > limit).then(|| {
            let text =
                format!("{text}: it has worked longer than --statement-cpu-time={}s allows", limit.as_secs_f64());
            SqlError::new(3024, "HY000", text)
        })
    }

    /// The answer to an execution that opens a cursor.
    pub(super) fn put_cursor(&mut self, reading: &Reading, more: u16, out: &mut Output) -> Result<(), SqlError> {
        let status = self.status() | more | status::CURSOR_EXISTS;
        self.put_table_head(reading.plan(), None, status, out)?;
        if self.capabilities & capability::DEPRECATE_EOF != 0 {
            self.rows_end(out, status);
        }
        self.transaction.answered();
        Ok(())
    }

    /// Column count and definitions; none of them if one cannot be sent.
    fn put_table_head(
        &self,
        plan: &Plan,
        known: Option<&Known>,
        status: u16,
        out: &mut Output,
    ) -> Result<(), SqlError> {
        let (len, sequence) = (out.len(), out.sequence());
        self.put_count(plan.columns.len(), out);
        if let Some(known) = known.filter(|known| known.is_of(plan)) {
            known.definitions.iter().for_each(|one| out.send(|out| out.extend_from_slice(one)));
            self.definitions_end(status, out);
            return Ok(());
        }
        for column in &plan.columns {
            if let Err(error) = self.put_table_definition(column, Some(&plan.origin), out) {
                out.truncate(len, sequence);
                return Err(error);
            }
        }
        self.definitions_end(status, out);
        Ok(())
    }

    /// What a SELECT from a table is described by when it is prepared.
    pub(super) fn describe(
        &self,
        select: &Select,
        sql: &[u8],
        unknown: Parameters<'_>,
        world: &dyn World,
    ) -> Result<Described, SqlError> {
        let snapshot = self.snapshot(world)?;
        let Plan { selected, parameters, .. } = self.plan(select, sql, unknown, &snapshot, None, world)?;
        let Selected { columns, origin, .. } = Arc::unwrap_or_clone(selected);
        Ok(Described { columns, origin: Some(origin), parameters })
    }

    /// What a prepared statement put out, if that holds for its next execution too.
    pub(super) fn to_know(&self, plan: &Plan) -> Option<Known> {
        if !plan.stays() {
            return None;
        }
        let payload = |column: &ResultColumn| {
            let mut payload = Vec::new();
            self.table_definition(column, Some(&plan.origin), &mut payload).ok()?;
            Some(payload)
        };
        Some(Known {
            selected: Arc::clone(&plan.selected),
            settings: self.settings.clone(),
            definitions: plan.columns.iter().map(payload).collect::<Option<_>>()?,
        })
    }

    /// What is known of a statement, unless a variable was changed since.
    pub(super) fn still_known<'a>(&self, known: Option<&'a Known>) -> Option<&'a Known> {
        known.filter(|known| known.settings == self.settings)
    }

    /// Binds a SELECT and begins to read.
    pub(super) fn open(
        &mut self,
        select: &Select,
        sql: &[u8],
        parameters: Parameters<'_>,
        form: Form,
        known: Option<&Known>,
        world: &dyn World,
    ) -> Result<Reading, SqlError> {
        let snapshot = self.snapshot_of(!select.locking.is_empty(), world)?;
        let plan = self.plan(select, sql, parameters, &snapshot, known, world)?;
        self.opened(select, snapshot, plan, form, world)
    }

    /// As [`open`](Self::open), for a cursor.
    pub(super) fn open_cursor(
        &mut self,
        select: &Select,
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
    ) -> Result<Reading, SqlError> {
        let snapshot = self.snapshot_of(!select.locking.is_empty(), world)?;
        let mut plan = self.plan(select, sql, parameters, &snapshot, None, world)?;
        plan.open_cursor();
        self.opened(select, snapshot, plan, Form::Binary, world)
    }

    fn opened(
        &mut self,
        select: &Select,
        snapshot: Arc<Snapshot>,
        plan: Plan,
        form: Form,
        world: &dyn World,
    ) -> Result<Reading, SqlError> {
        let locking = !select.locking.is_empty();
        self.check_view(&plan, world)?;
        self.transaction.opens_table(select.limit.rows.is_some(), &self.settings);
        if plan.rows_max > 0 && !plan.never {
            self.transaction.reads(&snapshot, locking, world.now());
            self.reads_table(&plan);
        }
        let reading = Reading::open(snapshot, world.now(), plan, self.settings.charsets(), form)?;
        let warnings = std::mem::take(self.place.noted.get_mut());
        self.own_warnings().extend(warnings);
        self.diagnostics.row_count = -1;
        Ok(reading)
    }

    /// Before a session that may forward waits for rows, the statement must bind.
    ///
    /// # Errors
    /// Those of binding.
    pub(super) fn check_binds(
        &self,
        select: &Select,
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
    ) -> Result<(), SqlError> {
        if !self.may_forward() {
            return Ok(());
        }
        let snapshot = self.snapshot(world)?;
        self.plan(select, sql, parameters, &snapshot, None, world)?;
        self.place.noted.borrow_mut().clear();
        Ok(())
    }

    /// What a statement reads: the state of its transaction, or what is visible now.
    pub(super) fn snapshot(&self, world: &dyn World) -> Result<Arc<Snapshot>, SqlError> {
        self.snapshot_of(false, world)
    }

    fn snapshot_of(&self, locking: bool, world: &dyn World) -> Result<Arc<Snapshot>, SqlError> {
        if let Some(locked) = self.locks.view()? {
            return Ok(locked);
        }
        self.transaction.view(locking)?.map_or_else(|| world.pin(), Ok)
    }

    /// True for the first locking read of a transaction: it reads what is visible then, whatever others have read.
    pub(super) fn locks_first(&self, select: &Select) -> Result<bool, SqlError> {
        Ok(!select.locking.is_empty() && self.locks.view()?.is_none() && self.transaction.view(true)?.is_none())
    }

    /// The engine is being started again: all snapshots are let go.
    pub fn give_up_snapshots(&mut self) {
        let why = "it was lost when the replica's engine restarted; end the transaction, or run the \
                   statement again";
        self.give_up(None, &sql::passing::snapshot_too_old(why));
    }

    /// Lets go of snapshots that transactions and cursors pinned before this time.
    pub fn give_up_older(&mut self, before: Instant) {
        let why =
            "it was pinned longer ago than --snapshot-age allows; end the transaction, or run the statement again";
        self.give_up(Some(before), &sql::passing::snapshot_too_old(why));
    }

    fn give_up(&mut self, pinned_before: Option<Instant>, why: &SqlError) {
        self.transaction.give_up(pinned_before, why);
        self.locks.give_up(pinned_before, why);
        self.results.running.iter_mut().for_each(|running| running.reading.give_up(pinned_before, why));
        self.statements.give_up(pinned_before, why);
    }

    pub(super) fn plan(
        &self,
        select: &Select,
        sql: &[u8],
        parameters: Parameters<'_>,
        snapshot: &Arc<Snapshot>,
        known: Option<&Known>,
        world: &dyn World,
    ) -> Result<Plan, SqlError> {
        let catalog = snapshot.catalog();
        let lower = catalog.lower_case_table_names();
        self.bound(sql, parameters, world, |bind| {
            let name =
                sql::table::named(bind, select)?.ok_or_else(|| SqlError::new(1096, "HY000", "No tables used"))?;
            let name = name.folded(lower);
            self.may_select(&name, catalog.database(&name.schema).map(|(schema, _)| schema))?;
            self.may_read_locked(&name, select, lower)?;
            let table = sql::table::find(catalog, &name).map_err(|why: NoTable| why.error(&name))?;
            if !select.locking.is_empty() {
                self.check_locking(select)?;
            }
            let plan = sql::table::plan(bind, select, &table, lower, known.map(|known| &known.selected))?;
            let settings = self.settings.typed();
            if !settings.big_selects && may_read_more(&plan, settings.join_rows_max, snapshot) {
                return Err(SqlError::not_supported("SELECT of more rows than max_join_size"));
            }
            Ok(plan)
        })
    }

    /// An account that may not read a schema is told the same of every table, whether it exists or not.
    pub(super) fn may_select(&self, name: &TableName<'_>, schema: Option<&str>) -> Result<(), SqlError> {
        if self.may_read().table(schema.unwrap_or(&name.schema), &name.table) {
            return Ok(());
        }
        Err(self.may_not("SELECT", &name.table))
    }

    /// 1142 of a statement for a table.
    pub(super) fn may_not(&self, command: &str, table: &str) -> SqlError {
        let (user, _) = self.login.identity.account.rsplit_once('@').unwrap_or((&self.login.identity.account, "%"));
        let host = &self.login.identity.peer_host;
        let text = format!("{command} command denied to user '{user}'@'{host}' for table '{table}'");
        SqlError::new(1142, "42000", text)
    }
}
