//! SHOW PROCESSLIST and KILL.
//!
//! In: the statements, the sessions of all loops. Out: those that the account may see; MySQL's errors. Never here: the
//! text of another account's statement for who is no admin.

use sql::listing::bytes_of;
use sql::{Event, Expression, Purse, SqlError, Value, Wait};
use wire::response::column_flag;
use wire::row::type_code;

use super::execute::{number_column, text_column};
use super::results::Rows;
use super::shows::text;
use super::{After, Parameters, Session};
use crate::Output;
use crate::world::SessionLine;
use crate::world::World;

/// Characters of a statement without FULL.
const INFO_CHARS: usize = 100;

/// Numbers of the replica's own threads: below those of connections.
const RECEIVER: u64 = 5;
const REPLAY: u64 = 6;

/// The threads of receiving and of replay that run, as a replica of MySQL's lists them.
fn replica_threads(world: &dyn World) -> Vec<SessionLine> {
    let status = world.replica_status();
    let line = |id, host: &str, command, state: String| SessionLine {
        id,
        account: String::new(),
        user: "system user".to_owned(),
        host: host.to_owned(),
        schema: None,
        command,
        time_s: world.statistics().uptime_s,
        state: state.into(),
        info: None,
    };
    let receiver = matches!(status.io_running.as_str(), "Yes" | "Connecting")
        .then(|| line(RECEIVER, "connecting host", "Connect", status.io_state));
    let replay = (status.sql_running == "Yes").then(|| line(REPLAY, "", "Query", status.sql_state));
    receiver.into_iter().chain(replay).collect()
}

/// The nearest number of a connection; 0, which none has, for what is negative.
fn rounded(id: f64) -> u64 {
    format!("{id:.0}").parse().unwrap_or(0)
}

impl Session {
    /// The sessions that SHOW PROCESSLIST has waited for.
    pub fn lists(&mut self, mut sessions: Vec<SessionLine>, memory: Option<Purse>) {
        sessions.sort_unstable_by_key(|line| line.id);
        // Who moved to another loop after the first one's answer is in that of the other too.
        sessions.dedup_by_key(|line| line.id);
        self.place.sessions = (sessions, memory);
    }

    /// The name of its default schema.
    pub fn schema_name(&self) -> Option<String> {
        self.schema.as_ref().map(|schema| schema.name.clone())
    }

    /// Ends the statement that sends rows, or those that follow it.
    pub fn killed(&mut self, out: &mut Output) -> After {
        if self.is_dumping() {
            return self.dump_killed(out);
        }
        self.stop_reading();
        self.results.rest = None;
        self.fail(&sql::Interrupt::Killed.error(), out)
    }

    /// The threads that the account may see, with what it may read of their statements. The statement has waited for
    /// them.
    ///
    /// # Errors
    /// That wait was interrupted.
    pub(super) fn threads(&self, world: &dyn World) -> Result<Vec<(SessionLine, Option<String>)>, SqlError> {
        self.has_ended()?;
        let (rights, own) = (self.login.identity.rights, &self.login.identity.account);
        let replica = if rights.monitor { replica_threads(world) } else { Vec::new() };
        let sessions = self.place.sessions.0.iter().filter(|line| rights.monitor || line.account == *own).cloned();
        let with_info = |mut line: SessionLine| {
            let info = line.info.take().filter(|_| rights.admin || line.account == *own);
            let info = info.map(|info| String::from_utf8_lossy(&info).into_owned());
            (line, info)
        };
        Ok(replica.into_iter().chain(sessions).map(with_info).collect())
    }

    /// # Errors
    /// As [`threads`](Self::threads).
    pub(super) fn show_processlist(&self, full: bool, world: &dyn World) -> Result<Rows, SqlError> {
        let row = |(line, info): (SessionLine, Option<String>)| {
            let info = info.map(|info| if full { info } else { info.chars().take(INFO_CHARS).collect() });
            let row = vec![
                Value::UInt(line.id),
                text(&line.user),
                text(&line.host),
                line.schema.as_deref().map_or(Value::Null, text),
                text(line.command),
                Value::UInt(line.time_s),
                text(&line.state),
                info.as_deref().map_or(Value::Null, text),
            ];
            self.memory.work_with(bytes_of(&row))?;
            Ok::<_, SqlError>(row)
        };
        let rows = self.threads(world)?.into_iter().map(row).collect::<Result<_, _>>()?;
        let not_null = column_flag::NOT_NULL;
        let columns = vec![
            number_column("Id", not_null | column_flag::UNSIGNED, type_code::LONGLONG, 21),
            text_column("User", not_null, 32),
            text_column("Host", not_null, 261),
            text_column("db", 0, 64),
            text_column("Command", not_null, 16),
            number_column("Time", not_null, type_code::LONG, 7),
            text_column("State", 0, 64),
            text_column("Info", 0, if full { 65_535 } else { 100 }),
        ];
        Ok(Rows::new(columns, rows))
    }

    /// KILL: what it waits for.
    ///
    /// # Errors
    /// Those of its expression.
    pub(super) fn kill(
        &mut self,
        query: bool,
        id: &Expression,
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
    ) -> Result<Wait, SqlError> {
        let mut evaluation = std::mem::take(&mut self.place.evaluation);
        let id = self.bound(sql, parameters, world, |bind| evaluation.lend(bind, |bind| sql::evaluate(bind, id)));
        let id = match id? {
            Value::Int(id) => u64::try_from(id).unwrap_or(0),
            Value::UInt(id) => id,
            Value::Double(id) => rounded(id),
            Value::Decimal(id) => id.parse().map_or(0, rounded),
            // What is no number is connection 0, which there is not.
            Value::Text(id) => std::str::from_utf8(&id).ok().and_then(|id| id.trim().parse().ok()).unwrap_or(0),
            _ => 0,
        };
        Ok(Wait { event: Event::Kill { id, query }, timeout: None })
    }
}
