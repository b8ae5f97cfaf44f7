//! Binlog dump: the commands that a replica sends first, and the event stream.

use std::time::Duration;

use base::{GtidSet, Uuid};
use client::{ClientError, Connection, DumpPacket, Interrupter, Result};
use wire::command::{self, DumpEvent, Registration, parse_dump_event};

/// Parameters of a dump.
#[derive(Debug, Clone)]
pub struct DumpRequest<'a> {
    /// Our server id; must be unique among the source's replicas. 0: we only read, and do not register as a replica.
    pub server_id: u32,
    /// Our uuid: a second dump with the same uuid ends the first.
    pub uuid: Option<Uuid>,
    /// GTIDs that we already have (executed and received): the source skips them.
    pub executed: &'a GtidSet,
    /// Interval at which an idle source sends heartbeats; zero for none.
    pub heartbeat_period: Duration,
    /// Host name for SHOW REPLICAS.
    pub register_host: &'a str,
    /// Port for SHOW REPLICAS.
    pub register_port: u16,
    /// Request semi-synchronous replication; see [`DumpStream::semi_sync`] for the answer.
    pub semi_sync: bool,
    /// End at the end of the log instead of waiting for more events.
    pub non_block: bool,
}

impl<'a> DumpRequest<'a> {
    /// A blocking, asynchronous dump with a heartbeat every second.
    pub fn new(server_id: u32, executed: &'a GtidSet) -> Self {
        DumpRequest {
            server_id,
            uuid: None,
            executed,
            heartbeat_period: Duration::from_secs(1),
            register_host: "",
            register_port: 0,
            semi_sync: false,
            non_block: false,
        }
    }
}

/// Starts a dump by GTID set on a fresh connection.
pub fn start_dump(mut connection: Connection, request: &DumpRequest<'_>) -> Result<DumpStream> {
    connection.exec(&session_settings(request))?;
    let semi_sync = request.semi_sync && ask_for_semi_sync(&mut connection)?;
    // A source never removes a replica with server id 0 from SHOW REPLICAS (rpl_source.cc, unregister_replica).
    if request.server_id != 0 {
        let registration =
            Registration { server_id: request.server_id, host: request.register_host, port: request.register_port };
        connection.command_ok(|out| command::put_register(out, &registration))?;
    }
    let mut flags = 0;
    if version_number(connection.server_version()).is_some_and(|version| version >= 80_026) {
        flags |= command::DUMP_HEARTBEAT_V2;
    }
    if request.non_block {
        flags |= command::DUMP_NON_BLOCK;
    }
    let gtid_set = request.executed.encode();
    connection.send_command(|out| command::put_dump_gtid(out, request.server_id, &gtid_set, flags))?;
    if semi_sync {
        connection.accept_any_sequence();
    }
    Ok(DumpStream { connection, semi_sync, ended: false })
}

/// Sets heartbeat, checksum ability and uuid, with the names of old and new servers, in one statement. Without the
/// checksum announcement, a source that writes checksums refuses the dump.
pub(crate) fn session_settings(request: &DumpRequest<'_>) -> String {
    let heartbeat_ns = request.heartbeat_period.as_nanos().min(4_294_967_000_000_000);
    let mut sql = String::from("SET ");
    for name in ["master", "source"] {
        sql.push_str(&format!("@{name}_heartbeat_period = {heartbeat_ns}, "));
        sql.push_str(&format!("@{name}_binlog_checksum = @@global.binlog_checksum, "));
    }
    match &request.uuid {
        Some(uuid) => sql.push_str(&format!("@slave_uuid = '{uuid}', @replica_uuid = '{uuid}'")),
        None => sql.push_str("@slave_uuid = NULL, @replica_uuid = NULL"),
    }
    sql
}

/// Returns true if the source has semi-synchronous replication installed, and then registers us for it. If it is off,
/// register too: if it is switched on later, the source waits for replicas that registered when they connected (as
/// MySQL's replicas do).
fn ask_for_semi_sync(connection: &mut Connection) -> Result<bool> {
    if semi_sync_state(connection)?.is_none() {
        return Ok(false);
    }
    connection.exec("SET @rpl_semi_sync_replica = 1, @rpl_semi_sync_slave = 1")?;
    Ok(true)
}

/// State of semi-synchronous replication on the source: on, off, or (None) not installed.
pub fn semi_sync_state(connection: &mut Connection) -> Result<Option<bool>> {
    let what =
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('rpl_semi_sync_source_enabled', 'rpl_semi_sync_master_enabled')";
    let answer = connection.query(what)?;
    let states = (0..answer.rows.len()).map(|row| answer.told(row, 1, what)).collect::<Result<Vec<String>>>()?;
    Ok((!states.is_empty()).then(|| states.iter().any(|state| state == "ON" || state == "1")))
}

/// Parses `8.0.36-log` as 80036.
pub fn version_number(text: &str) -> Option<u32> {
    let numeric = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let mut parts = numeric.split('.').map(|part| part.parse::<u32>().ok());
    let major = parts.next()??;
    let minor = parts.next().flatten().unwrap_or(0);
    let patch = parts.next().flatten().unwrap_or(0);
    major.checked_mul(10_000)?.checked_add(minor.checked_mul(100)?)?.checked_add(patch)
}

/// The event stream of a dump.
#[derive(Debug)]
pub struct DumpStream {
    connection: Connection,
    semi_sync: bool,
    ended: bool,
}

impl DumpStream {
    /// Returns the next event, borrowed from the read buffer (valid until the next call). `None` is the end of a
    /// non-blocking dump. Heartbeats are returned as events (types 27 and 41); the first two events are an artificial
    /// Rotate and the format description. After a [`ClientError::ReadTimeout`] the stream is still readable; after any
    /// other error it is not.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<DumpEvent<'_>>> {
        if self.ended {
            return Ok(None);
        }
        match self.connection.read_dump_packet()? {
            DumpPacket::Event(range) => Ok(Some(parse_dump_event(self.connection.payload(range), self.semi_sync)?)),
            DumpPacket::End => {
                self.ended = true;
                Ok(None)
            }
        }
    }

    /// True if the next event is available without a system call, and so without waiting.
    pub fn buffered(&mut self) -> bool {
        !self.ended && self.connection.has_packet()
    }

    /// Acknowledges everything up to the end of the event at `position` in the source's `file` as durable here.
    pub fn ack(&mut self, file: &str, position: u64) -> Result<()> {
        if !self.semi_sync {
            return Err(ClientError::usage("an acknowledgement on a dump that is not semi-synchronous"));
        }
        self.connection.send_aside(|out| command::put_semi_sync_ack(out, file, position))
    }

    /// True if the source has semi-synchronous replication on and accepted us for it.
    pub fn semi_sync(&self) -> bool {
        self.semi_sync
    }

    /// A handle that ends a blocked [`DumpStream::next_event`] from another thread.
    pub fn interrupter(&self) -> Result<Interrupter> {
        self.connection.interrupter()
    }

    /// Sets the limit for one read; should be at least twice the heartbeat period.
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.connection.set_read_timeout(timeout)
    }

    /// Id of the connection on the source.
    pub fn connection_id(&self) -> u32 {
        self.connection.connection_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version_number("9.7.4"), Some(90_704));
        assert_eq!(version_number("8.0.36-28-log"), Some(80_036));
        assert_eq!(version_number("26.10"), Some(261_000));
        assert_eq!(version_number("5.5.5-10.11.6-MariaDB"), Some(50_505));
        assert_eq!(version_number("x"), None);
    }

    #[test]
    fn settings_name_both_vocabularies() {
        let executed = GtidSet::new();
        let sql = session_settings(&DumpRequest::new(7, &executed));
        assert!(sql.contains("@master_heartbeat_period = 1000000000, @master_binlog_checksum"));
        assert!(sql.contains("@source_heartbeat_period = 1000000000, @source_binlog_checksum"));
    }
}
