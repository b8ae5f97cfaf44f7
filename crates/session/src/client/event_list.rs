//! The events of a file of the relay log, a part at a time.
//!
//! In: the file. Out: rows of SHOW RELAYLOG EVENTS, made by another thread. Never here: the words in which an event is
//! described (`serve`); more held than a part and one event.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serve::{EventList, ListError, ListStep, ListedEvent, ListedFile};
use sql::listing::bytes_of;
use sql::{Purse, SqlError, Value};

use super::WAITING_BYTES;
use super::memory::{ListingJob, over_memory};

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
    /// The events of a file from an offset on: how many are left out, then how many are shown. None has no events.
    pub(super) fn of(file: Option<ListedFile>, from: u64, (offset, rows): (u64, u64), limit: u64) -> EventsLeft {
        let begin = Begin { file, from };
        EventsLeft(Arc::new(Mutex::new(List { begin, events: None, offset, rows, limit, done: false })))
    }

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
    let text = |text: &str| Value::Text(text.as_bytes().to_vec());
    let info = Value::Text(info.into_bytes());
    vec![
        text(file),
        Value::UInt(position),
        text(event_type),
        Value::UInt(server_id.into()),
        Value::UInt(end_log_pos),
        info,
    ]
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

pub(super) fn no_such_file() -> SqlError {
    failed("Could not find target log")
}
