//! SHOW RELAYLOG EVENTS: read beside the loop, a part at a time, each once the part before it is sent.
//!
//! In: the statement, the files of the relay log. Out: rows as a 9.7 describes them. Never here: a purge that waits for
//! a client: a file that is removed is read on to its end.

use serve::ListedFile;
use sql::{Bind, Event, Expression, Limit, SqlError, Value, Wait};

use super::Session;
use super::event_list::{EventsLeft, no_such_file};
use super::execute::needs;
use super::results::Rows;
use super::shows::{RELAY_LOG_EVENTS, check_channel, rows_of};
use crate::world::World;

impl Session {
    /// Whether the account may list events of this channel.
    ///
    /// # Errors
    /// 1227, 3074
    pub(super) fn may_list_events(&self, channel: Option<&[u8]>) -> Result<(), SqlError> {
        if !self.login.identity.rights.admin {
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
        let rows = if rows == 0 { u64::MAX } else { rows };
        let most = world.connection_memory_limit().min(self.memory.most());
        Ok(EventsLeft::of(self.relay_log_file(file, world)?, from.unwrap_or(0), (offset, rows), most))
    }

    /// Has another thread make the first part of a list, for which the statement waits.
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
        let name = name.strip_prefix(b"./").unwrap_or(name);
        files.find(|file| file.name.as_bytes() == name).map(Some).ok_or_else(no_such_file)
    }
}
