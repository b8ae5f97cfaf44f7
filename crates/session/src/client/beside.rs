//! Listings over many tables: made beside the loop, sent in parts.
//!
//! In: a plan over a table of `information_schema`, the catalog that it lists. Out: the chosen rows, from a thread of
//! low priority; packets, as many at a time as may wait to be sent. Never here: more rows held than the limit of a
//! statement allows; a look at all tables of a large catalog in one turn of a loop.

use std::cell::RefCell;

use catalog::Catalog;
use sql::listing::{Listing, Part, Seen, bytes_of, chosen, fulfils, is_by_table, may_choose};
use sql::table::{Plan, Weighed};
use sql::{Ended, Event, Purse, SqlError, Value};

use super::event_list::EventsLeft;
use super::memory::{ListedRows, ListingJob, over_memory};
use super::results::{Form, Rows};
use super::{After, Session, WAITING_BYTES, Waiting};
use crate::Output;
use crate::world::World;

/// Columns of all tables up to which a listing is made in the loop's turn: it takes about a millisecond.
const COLUMNS_A_TURN: usize = 2_000;
/// Conditions that a loop tries their rows by: one may look at 200 KB, the type of an ENUM.
const FILTERS_A_TURN: usize = 4;
/// Rows of a listing after which is looked whether anybody waits for it.
const ROWS_A_LOOK: usize = 64;
/// Tables whose rows are held before those that the statement chooses are kept.
const TABLES_A_PART: usize = 100;
/// Rows that are put out in one turn.
pub(super) const ROWS_A_TURN: usize = 1_000;

/// A listing that is made beside the loop.
#[derive(Default)]
pub(super) struct Beside {
    job: RefCell<Option<ListingJob>>,
    rows: RefCell<Option<ListedRows>>,
    /// A list of events that has begun.
    pub(super) events: Option<EventsLeft>,
}

impl std::fmt::Debug for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rows made: {}", self.rows.borrow().is_some())
    }
}

/// Rows that are being sent.
#[derive(Debug)]
pub(super) struct Sending {
    rows: Rows,
    sent: usize,
    form: Form,
    /// Status bits of the end besides the session's.
    status: u16,
}

/// Counts what a statement holds.
struct Held {
    bytes: u64,
    limit: u64,
    memory: Purse,
}

impl Held {
    fn add(&mut self, row: &[Value]) -> Result<(), SqlError> {
        let bytes = bytes_of(row);
        self.bytes += bytes as u64;
        if self.bytes > self.limit {
            return Err(over_memory(self.bytes, self.limit));
        }
        self.memory.work_with(bytes)
    }
}

fn is_large(catalog: &Catalog) -> bool {
    let mut columns = 0;
    catalog.tables().any(|table| {
        columns += table.columns.len();
        columns > COLUMNS_A_TURN
    })
}

impl Session {
    /// Whether the rows of a listing over many tables are made by a thread of low priority, and waited for.
    ///
    /// # Errors
    /// Nothing can be read now.
    pub(super) fn lists_beside(&self, plan: &Plan, listing: &Listing, world: &dyn World) -> Result<bool, SqlError> {
        let Some(table) = listing.name.strip_prefix("information_schema.").filter(|table| is_by_table(table)) else {
            return Ok(false);
        };
        let catalog = self.snapshot(world)?.catalog().clone();
        if !is_large(&catalog) && plan.conditions() <= FILTERS_A_TURN {
            return Ok(false);
        }
        let (plan, rights, table) = (plan.clone(), self.rights(), table.to_owned());
        let limit = if self.login.identity.rights.admin { u64::MAX } else { world.connection_memory_limit() };
        let memory = self.memory.beside();
        let job = move |is_wanted: &dyn Fn() -> bool| {
            let may_see = |schema: &str| rights.may_read().schema(schema);
            let wanted = |schema: &str, table: Option<&str>| may_choose(&plan, schema, table).unwrap_or(true);
            let part = |part| Seen { catalog: &catalog, may_see: &may_see, wanted: &wanted, part };
            let (mut kept, mut held, mut weighed) = (Vec::new(), Held { bytes: 0, limit, memory }, Weighed::default());
            let mut take = |part: &Seen<'_>| {
                let refused = || SqlError::not_supported(&format!("SELECT … FROM information_schema.{table}"));
                for (number, row) in part.rows(&table).ok_or_else(refused)?.into_iter().enumerate() {
                    if number % ROWS_A_LOOK == 0 && !is_wanted() {
                        return Err(sql::Interrupt::Killed.error());
                    }
                    if fulfils(&plan, &row, &mut weighed)? {
                        held.add(&row)?;
                        kept.push(row);
                    }
                }
                Ok::<_, SqlError>(())
            };
            let tables = part(Part::All).tables();
            for tables in tables.chunks(TABLES_A_PART) {
                take(&part(Part::Tables(tables)))?;
            }
            take(&part(Part::Others))?;
            // Those that are kept are counted once more while they are chosen from.
            let rows = chosen(&plan, kept, &held.memory)?;
            held.memory.pause()?;
            Ok((rows, held.memory))
        };
        self.list_beside(Box::new(job));
        Ok(true)
    }

    /// Has rows made beside the loop, for which the statement waits.
    pub(super) fn list_beside(&self, job: ListingJob) {
        *self.place.beside.job.borrow_mut() = Some(job);
    }

    /// The rows that were made.
    pub(super) fn take_listed(&self) -> Result<Vec<Vec<Value>>, SqlError> {
        let none = || Err(SqlError::defect("the listing was lost"));
        let (rows, memory) = self.place.beside.rows.borrow_mut().take().unwrap_or_else(none)?;
        *self.counted.borrow_mut() = Some(memory);
        Ok(rows)
    }

    /// The listing that the statement waits for.
    pub fn listing_job(&self) -> Option<ListingJob> {
        self.place.beside.job.borrow_mut().take()
    }

    /// Takes the rows that it waited for.
    pub fn takes_listed(&self, rows: ListedRows) {
        *self.place.beside.rows.borrow_mut() = Some(rows);
    }

    /// Puts out the definitions and the first of many rows; `status` are bits of the end besides the session's.
    pub(super) fn begin_sending(
        &mut self,
        rows: Rows,
        form: Form,
        status: u16,
        out: &mut Output,
    ) -> Result<After, SqlError> {
        self.put_head(&rows, self.status() | status, out)?;
        let status = status | rows.status();
        let none_yet = rows.rows.is_empty();
        self.results.sending = Some(Sending { rows, sent: 0, form, status });
        Ok(if none_yet { After::More } else { self.send_on(out) })
    }

    /// Rows that follow those that were sent are made beside the loop.
    fn wait_for_more(&mut self, more: &EventsLeft) -> After {
        // Those that were sent are held no more.
        self.counted.take();
        self.list_beside(more.job(self.memory.beside()));
        self.suspend(Waiting { event: Event::Listing, until: None, limit: None });
        After::Wait
    }

    /// Rows that follow were made, or never will be.
    pub(super) fn more_has_come(&mut self, ended: &Ended, world: &dyn World, out: &mut Output) -> After {
        let rows = match ended {
            Ended::Interrupted(by) => Err(by.error()),
            Ended::Failed(error) => Err(error.clone()),
            _ => self.take_listed(),
        };
        match (rows, &mut self.results.sending) {
            (Ok(rows), Some(sending)) => {
                sending.rows.more = sending.rows.more.take().filter(|more| !more.is_done());
                sending.rows.rows = rows;
                self.resume(world, out)
            }
            (Err(error), _) => self.fail(&error, out),
            (Ok(_), None) => After::Next,
        }
    }

    /// Goes on with the rows that are being sent.
    pub(super) fn send_on(&mut self, out: &mut Output) -> After {
        let Some(mut sending) = self.results.sending.take() else { return After::Next };
        let Sending { rows, sent, form, status } = &mut sending;
        if *sent == rows.rows.len()
            && let Some(more) = rows.more.clone()
        {
            (rows.rows, *sent) = (Vec::new(), 0);
            self.results.sending = Some(sending);
            return self.wait_for_more(&more);
        }
        for values in rows.rows.iter().skip(*sent).take(ROWS_A_TURN) {
            if let Err(error) = self.put_row(&rows.columns, values, *form, out) {
                return self.fail(&error, out);
            }
            *sent += 1;
            if out.len() >= WAITING_BYTES || out.count().is_err() {
                break;
            }
        }
        if *sent < rows.rows.len() || rows.more.is_some() {
            self.results.sending = Some(sending);
            return After::More;
        }
        let status = self.status() | *status;
        self.rows_end(out, status);
        After::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_holds_no_more_than_it_may() {
        let row = [Value::Text(vec![b'x'; 1_000]), Value::Null];
        let mut held = Held { bytes: 0, limit: 10_000, memory: Purse::default() };
        let kept = (0..).take_while(|_| held.add(&row).is_ok()).count();
        assert!((8..10).contains(&kept), "{kept} rows of 1,000 bytes");
        let error = held.add(&row).unwrap_err();
        assert_eq!(error.code, super::super::memory::OVER_MEMORY);
        assert!(
            error.message.starts_with("Connection closed. Connection memory limit 10000 bytes exceeded. Consumed 1")
        );
    }
}
