//! SHOW RELAYLOG EVENTS: read beside the loop, a part at a time, each once the part before it is sent.
//!
//! In: the statement, the files of the relay log. Out: rows as a 9.7 describes them. Never here: the words in which an
//! event is described (`serve`); more held than a part and one event; a purge that waits for a client: a file that is
//! removed is read on to its end.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serve::{EventList, ListError, ListStep, ListedEvent, ListedFile};
use sql::listing::bytes_of;
use sql::{Bind, Event, Expression, Limit, Purse, SqlError, Value, Wait};

use super::Session;
use super::beside::{ListingJob, over_memory};
use super::execute::needs;
use super::query::WAITING_BYTES;
use super::results::Rows;
use super::shows::{RELAY_LOG_EVENTS, check_channel, number, rows_of, text};
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
    /// Whether the account may list events of this channel.
    ///
    /// # Errors
    /// 1227, 3074
    pub(super) fn may_list_events(&self, channel: Option<&[u8]>) -> Result<(), SqlError> {
        if !self.identity.rights.admin {
            return Err(needs("SUPER or REPLICATION_SLAVE_ADMIN"));
        }
        check_channel(channel)
    }

    /// The events of SHOW RELAYLOG EVENTS.
    ///
    /// # Errors
    /// 1220 for an unknown file, 1210 for LIMIT.
    pub(super) fn relay_log_events(
        &self,
        file: Option<&[u8]>,
        from: Option<u64>,
        limit: &Limit,
        bind: &Bind<'_>,
        world: &dyn World,
    ) -> Result<EventsLeft, SqlError> {
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
        Ok(EventsLeft(Arc::new(Mutex::new(list))))
    }

    /// The first part of a list is made beside the loop, and waited for.
    pub(super) fn list_events(&mut self, events: EventsLeft) -> Wait {
        self.list_beside(events.job(self.memory.beside()));
        self.place.beside.events = Some(events);
        Wait { event: Event::Listing, timeout: None }
    }

    /// The first rows of SHOW RELAYLOG EVENTS, which were waited for.
    ///
    /// # Errors
    /// 1220 for a damaged file, 4082 for an event that is too large.
    pub(super) fn first_events(&self) -> Result<Rows, SqlError> {
        self.has_ended()?;
        let rows = self.take_listed()?;
        let more = self.place.beside.events.clone().filter(|left| !left.is_done());
        Ok(Rows { more, ..rows_of(RELAY_LOG_EVENTS, false, rows) })
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
