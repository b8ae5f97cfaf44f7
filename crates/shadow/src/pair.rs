//! A client's sessions at the source and at the replica, and one state of both.

use base::GtidSet;
use client::{ConnectOptions, Connection, OnBehalf, session::gtid_executed};
use wire::command;
use wire::handshake::capability;
use wire::read::Reader;
use wire::response::{OkPacket, is_err, rows_end, status};

use crate::{Result, ShadowError};

/// Answers above this many bytes are passed on and not compared.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Seconds that the replica gets to reach the source's state.
const CATCH_UP_S: u32 = 10;

/// The payloads of an answer.
pub(crate) type Answer = Vec<Vec<u8>>;

/// A session at one server.
pub(crate) struct Side {
    which: &'static str,
    connection: Connection,
    capabilities: u32,
    /// Status bits of its last OK.
    pub status: u16,
}

impl Side {
    pub(crate) fn connect(
        which: &'static str,
        options: &ConnectOptions,
        client: OnBehalf,
        database: Option<&str>,
    ) -> Result<Side> {
        let options = ConnectOptions {
            database: database.map(str::to_owned),
            on_behalf: Some(client),
            read_timeout: None,
            ..options.clone()
        };
        let connection = Connection::connect(&options).map_err(|source| ShadowError::Server { which, source })?;
        Ok(Side { which, connection, capabilities: client.capabilities, status: status::AUTOCOMMIT })
    }

    /// Sends a command; None if its answer was too large to keep, which `overflow` then got packet by packet.
    pub(crate) fn command(
        &mut self,
        payload: &[u8],
        overflow: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<Answer>> {
        let (mut answer, mut bytes, mut kept) = (Answer::new(), 0, true);
        let mut failed = None;
        let mut last: Vec<u8> = Vec::new();
        let relayed = self.connection.relay(payload, &mut |packet| {
            bytes += packet.len();
            if kept && bytes > ANSWER_BYTES_MAX {
                kept = false;
                for packet in std::mem::take(&mut answer) {
                    failed = failed.take().or(overflow(&packet).err());
                }
            }
            if kept {
                answer.push(packet.to_vec());
            } else {
                failed = failed.take().or(overflow(packet).err());
                packet.clone_into(&mut last);
            }
            Ok(())
        });
        relayed.map_err(|source| ShadowError::Server { which: self.which, source })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if let Some(bits) = self.status_of(answer.last().unwrap_or(&last)) {
            self.status = bits;
        }
        Ok(kept.then_some(answer))
    }

    fn status_of(&self, last: &[u8]) -> Option<u16> {
        match last.first()? {
            _ if is_err(last) => None,
            0x00 => OkPacket::parse(last).ok().map(|ok| ok.status),
            0xfe => rows_end(last, self.deprecates_eof()).ok().map(|ok| ok.status),
            _ => None,
        }
    }

    pub(crate) fn is_in_transaction(&self) -> bool {
        self.status & status::IN_TRANS != 0
    }

    /// The payload of a statement of our own, as this session's client would send it.
    pub(crate) fn query_payload(capabilities: u32, sql: &[u8]) -> Vec<u8> {
        let mut payload = vec![command::QUERY];
        if capabilities & capability::QUERY_ATTRIBUTES != 0 {
            // No attributes, in one set.
            payload.extend_from_slice(&[0, 1]);
        }
        payload.extend_from_slice(sql);
        payload
    }

    /// The first value of a query of our own; None for NULL, no row or an error.
    pub(crate) fn ask(&mut self, sql: &str) -> Result<Option<String>> {
        let status = self.status;
        let payload = Side::query_payload(self.capabilities, sql.as_bytes());
        let answer = self.command(&payload, &mut |_| Ok(()))?.unwrap_or_default();
        // It is not the client's.
        self.status = status;
        let row = answer.get(if self.deprecates_eof() { 2 } else { 3 }).filter(|row| !is_err(row));
        let value = row.and_then(|row| Reader::new(row).lenenc_bytes("a value").ok());
        Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
    }

    /// Runs a statement of our own; false if it is refused.
    pub(crate) fn run(&mut self, sql: &str) -> Result<bool> {
        let payload = Side::query_payload(self.capabilities, sql.as_bytes());
        let answer = self.command(&payload, &mut |_| Ok(()))?;
        Ok(answer.is_some_and(|answer| !answer.iter().any(|packet| is_err(packet))))
    }

    fn deprecates_eof(&self) -> bool {
        self.capabilities & capability::DEPRECATE_EOF != 0
    }
}

/// Sessions of our own that say which state a server has. One that has failed is opened anew when it is needed.
pub(crate) struct Controls {
    source: Control,
    replica: Control,
}

struct Control {
    which: &'static str,
    options: ConnectOptions,
    connection: Connection,
}

impl Control {
    fn connect(which: &'static str, options: &ConnectOptions) -> Result<Control> {
        let options = ConnectOptions { database: None, ..options.clone() };
        let connection = Connection::connect(&options).map_err(|source| ShadowError::Server { which, source })?;
        Ok(Control { which, options, connection })
    }

    fn ask<T>(&mut self, ask: impl FnOnce(&mut Connection) -> client::Result<T>) -> Result<T> {
        let which = self.which;
        if self.connection.is_broken() {
            *self = Control::connect(which, &self.options)?;
        }
        ask(&mut self.connection).map_err(|source| ShadowError::Server { which, source })
    }
}

impl Controls {
    pub(crate) fn connect(source: &ConnectOptions, replica: &ConnectOptions) -> Result<Controls> {
        Ok(Controls {
            source: Control::connect("the source", source)?,
            replica: Control::connect("the replica", replica)?,
        })
    }

    pub(crate) fn offered(&self) -> u32 {
        self.source.connection.offered() & self.replica.connection.offered()
    }

    pub(crate) fn version(&self) -> String {
        self.source.connection.server_version().to_owned()
    }

    /// What the source has executed.
    pub(crate) fn source_set(&mut self) -> Result<GtidSet> {
        self.source.ask(gtid_executed)?.ok_or_else(|| ShadowError::Other("the source has no GTIDs".into()))
    }

    /// Whether the source still has executed this set.
    pub(crate) fn stands_at(&mut self, set: &GtidSet) -> bool {
        self.source_set().is_ok_and(|now| now == *set)
    }

    /// Waits until the replica shows this set; false if it does not in time.
    pub(crate) fn replica_has(&mut self, set: &GtidSet) -> Result<bool> {
        let sql = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', {CATCH_UP_S})");
        Ok(self.replica.ask(|connection| connection.query_value(&sql))?.as_deref() == Some("0"))
    }
}
