//! SHOW RELAYLOG EVENTS: read beside the loop, a part at a time, each once the part before it is sent.
//!
//! In: the statement, the files of the relay log. Out: rows as a 9.7 describes them. Never here: the words in which an
//! event is described (`serve`); more held than a part and one event; a purge that waits for a client: a file that is
//! removed is read on to its end.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serve::{EventList, ListError, ListStep, ListedEvent, ListedFile};
use sql::listing::bytes_of;
use sql::{Bind, Ended, Event, Expression, Limit, Purse, SqlError, Value, Wait};

use super::Session;
use super::beside::{ListingJob, over_memory};
use super::query::WAITING_BYTES;
use super::results::Rows;
use super::shows::{RELAY_LOG_EVENTS, number, rows_of, text};
use crate::world::World;

/// Events looked at for one part.
const EVENTS_A_PART: usize = 10_000;
/// Copies of an event that are held while it is described.
const COPIES: u64 = 4;

/// Events of a list that are not shown yet.
#[derive(Debug, Clone)]
pub(super) struct EventsLeft(Arc<Mutex<List>>);

/// The list; it is begun with its first part.
#[derive(Debug)]
struct List {
    begin: Begin,
    events: Option<EventList>,
    /// Rows left out and shown.
    offset: u64,
    rows: u64,
    /// Bytes that a statement may hold.
    limit: u64,
    done: bool,
}

#[derive(Debug)]
struct Begin {
    file: Option<ListedFile>,
    from: u64,
}

impl EventsLeft {
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True once no events are left.
    pub(super) fn is_done(&self) -> bool {
        self.list().done
    }

    /// Makes the rows of the next part.
    pub(super) fn job(&self, memory: Purse) -> ListingJob {
        let left = self.clone();
        Box::new(move |_| {
            let rows = left.list().part(&memory)?;
            memory.pause()?;
            Ok((rows, memory))
        })
    }
}

impl List {
    fn part(&mut self, memory: &Purse) -> Result<Vec<Vec<Value>>, SqlError> {
        let mut rows = Vec::new();
        let Some(file) = &self.begin.file else {
            self.done = true;
            return Ok(rows);
        };
        let events = match &mut self.events {
            Some(events) => events,
            None => {
                let opened = EventList::open(file, self.begin.from, self.limit / COPIES);
                self.events.insert(opened.map_err(|error| match error.kind() {
                    ErrorKind::NotFound => no_such_file(),
                    _ => failed(&error.to_string()),
                })?)
            }
        };
        let mut bytes = 0;
        for _ in 0..EVENTS_A_PART {
            if bytes >= WAITING_BYTES {
                break;
            }
            let event = match events.step().map_err(|error| told(&error, self.limit))? {
                ListStep::Event(event) => event,
                ListStep::Passed => continue,
                ListStep::End => {
                    self.done = true;
                    break;
                }
            };
            if self.offset > 0 {
                self.offset -= 1;
                continue;
            }
            bytes += event.info.len();
            let row = row(events.name(), event);
            memory.work_with(bytes_of(&row))?;
            rows.push(row);
            self.rows -= 1;
            if self.rows == 0 {
                self.done = true;
                break;
            }
        }
        Ok(rows)
    }
}

fn row(file: &str, event: ListedEvent) -> Vec<Value> {
    let ListedEvent { position, event_type, server_id, end_log_pos, info } = event;
    let info = Value::Text(info.into_bytes());
    vec![text(file), number(position), text(event_type), number(server_id), number(end_log_pos), info]
}

fn told(error: &ListError, limit: u64) -> SqlError {
    match error {
        ListError::TooLarge { bytes, .. } => over_memory(bytes.saturating_mul(COPIES), limit),
        error => failed(&error.to_string()),
    }
}

/// 1220
fn failed(why: &str) -> SqlError {
    SqlError::new(1220, "HY000", format!("Error when executing command SHOW RELAYLOG EVENTS: {why}"))
}

fn no_such_file() -> SqlError {
    failed("Could not find target log")
}

impl Session {
    /// SHOW RELAYLOG EVENTS, its first rows.
    ///
    /// # Errors 1220 for an unknown file or a damaged one, 4082 for an event that is too large. Before the rows are
    /// made, one that is not sent.
    pub(super) fn show_relay_log_events(
        &self,
        file: Option<&[u8]>,
        from: Option<u64>,
        limit: &Limit,
        bind: &Bind<'_>,
        world: &dyn World,
    ) -> Result<Rows, SqlError> {
        let begun = self.beside.events.borrow().clone();
        let Some(left) = begun else {
            let number = |expression: &Expression| match sql::evaluate(bind, expression)? {
                Value::Int(value) => Ok(u64::try_from(value).unwrap_or(0)),
                Value::UInt(value) => Ok(value),
                _ => Err(SqlError::new(1210, "HY000", "Incorrect arguments to LIMIT")),
            };
            let offset = number(&limit.offset)?;
            // As MySQL has it, no rows are all.
            let rows = limit.rows.as_ref().map_or(Ok(0), number)?;
            let begin = Begin { file: self.relay_log_file(file, world)?, from: from.unwrap_or(0) };
            let list = List {
                begin,
                events: None,
                offset,
                rows: if rows == 0 { u64::MAX } else { rows },
                limit: world.connection_memory_limit().min(self.memory.most()),
                done: false,
            };
            *self.beside.events.borrow_mut() = Some(EventsLeft(Arc::new(Mutex::new(list))));
            return self.first_events(None);
        };
        self.first_events(Some(left))
    }

    /// The first part of a list, which is made beside the loop.
    fn first_events(&self, begun: Option<EventsLeft>) -> Result<Rows, SqlError> {
        let ended = self.progress.borrow_mut().wait(Wait { event: Event::Listing, timeout: None });
        match (ended, begun) {
            (Some(Ended::Interrupted(by)), _) => Err(by.error()),
            (Some(Ended::Failed(error)), _) => Err(error),
            (Some(_), Some(left)) => {
                let rows = self.take_listed()?;
                let more = Some(left).filter(|left| !left.is_done());
                Ok(Rows { more, ..rows_of(RELAY_LOG_EVENTS, false, rows) })
            }
            _ => {
                if let Some(left) = &*self.beside.events.borrow() {
                    self.list_beside(left.job(self.memory.beside()));
                }
                Err(SqlError::new(1105, "HY000", "events are being listed"))
            }
        }
    }

    /// The file that is meant, by its name or as the index names it; None where there are no files.
    fn relay_log_file(&self, file: Option<&[u8]>, world: &dyn World) -> Result<Option<ListedFile>, SqlError> {
        let mut files = world.relay_log()?.into_iter();
        let Some(name) = file else { return Ok(files.next()) };
        let name = self.settings.charsets().from_client(name)?;
        let name = name.strip_prefix(b"./").unwrap_or(&name);
        files.find(|file| file.name.as_bytes() == name).map(Some).ok_or_else(no_such_file)
    }
}
