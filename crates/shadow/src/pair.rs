//! A client's sessions at the source and at the replica, and one state of both.

use std::time::{Duration, Instant};

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
const CATCH_UP_S: u64 = 10;
/// How long a session at the replica may be silent before it is given up: the client has the source's answer by then.
const REPLICA_WITHIN: Duration = Duration::from_secs(30);
/// How much longer than [`CATCH_UP_S`] the answer to that question may take.
const LATE: Duration = Duration::from_secs(5);
/// How long logging in at the replica may take.
const REPLICA_LOGIN_WITHIN: Duration = Duration::from_secs(5);
/// A replica that made a client wait this long and was of no use
const SLOW: Duration = Duration::from_secs(1);
/// is taken to be so for this long, so that each client's each read does not wait again.
const TAKEN_SO_FOR: Duration = Duration::from_secs(30);

/// The payloads of an answer.
pub(crate) type Answer = Vec<Vec<u8>>;

/// The source is waited for as its own clients wait.
pub(crate) fn at_source(options: &ConnectOptions) -> ConnectOptions {
    ConnectOptions { read_timeout: None, ..options.clone() }
}

/// The replica is not: a client must not hang where it would not without us.
pub(crate) fn at_replica(options: &ConnectOptions) -> ConnectOptions {
    ConnectOptions {
        read_timeout: Some(REPLICA_WITHIN),
        connect_timeout: options.connect_timeout.min(REPLICA_LOGIN_WITHIN),
        ..options.clone()
    }
}

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
            // It is the client's session, with the server's defaults.
            init_command: None,
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
    /// Why reads are not compared, and until when that holds without asking.
    useless: Option<(&'static str, Instant)>,
}

struct Control {
    which: &'static str,
    options: ConnectOptions,
    connection: Connection,
    /// An answer is missing: what comes next belongs to an earlier question.
    is_out_of_step: bool,
}

impl Control {
    fn connect(which: &'static str, options: &ConnectOptions) -> Result<Control> {
        let options = ConnectOptions { database: None, ..options.clone() };
        let connection = Connection::connect(&options).map_err(|source| ShadowError::Server { which, source })?;
        Ok(Control { which, options, connection, is_out_of_step: false })
    }

    fn ask<T>(&mut self, ask: impl FnOnce(&mut Connection) -> client::Result<T>) -> Result<T> {
        let which = self.which;
        if self.connection.is_broken() || self.is_out_of_step {
            *self = Control::connect(which, &self.options)?;
        }
        let answer = ask(&mut self.connection);
        self.is_out_of_step = answer.as_ref().is_err_and(client::ClientError::is_timeout);
        answer.map_err(|source| ShadowError::Server { which, source })
    }
}

impl Controls {
    pub(crate) fn connect(source: &ConnectOptions, replica: &ConnectOptions) -> Result<Controls> {
        Ok(Controls {
            source: Control::connect("the source", source)?,
            replica: Control::connect(
                "the replica",
                &ConnectOptions { read_timeout: Some(Duration::from_secs(CATCH_UP_S) + LATE), ..replica.clone() },
            )?,
            useless: None,
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

    /// Waits until the replica shows this set.
    ///
    /// # Errors
    /// Why it does not.
    pub(crate) fn replica_has(&mut self, set: &GtidSet) -> std::result::Result<(), &'static str> {
        if let Some((why, until)) = self.useless
            && Instant::now() < until
        {
            return Err(why);
        }
        let asked = Instant::now();
        let sql = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', {CATCH_UP_S})");
        let why = match self.replica.ask(|connection| connection.query_value(&sql)) {
            Ok(answer) if answer.as_deref() == Some("0") => {
                self.useless = None;
                return Ok(());
            }
            Ok(_) => "the replica was too far behind",
            Err(_) => "the replica cannot be asked",
        };
        self.useless = (asked.elapsed() >= SLOW).then(|| (why, Instant::now() + TAKEN_SO_FOR));
        Err(why)
    }
}
