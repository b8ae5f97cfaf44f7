//! A session that gets the binary log: registration, the dump's steps, its waits.
//!
//! In: COM_REGISTER_REPLICA, COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID, acknowledgements. Out: packets of the dump
//! (crate `serve`), or why there is none. Never here: a wait, what an event means.

use std::time::Duration;

use base::GtidSet;
use serve::{DumpOptions, GrowingLog, Listed, LogDump, ReplicaLine, Start, Step};
use sql::{Ended, Event, Interrupt, SqlError};
use std::sync::Arc;
use wire::command;

use super::execute::needs;
use super::{After, Session, Waiting};
use crate::Output;
use crate::world::World;

/// Sequence id after a packet that a replica is to acknowledge: its acknowledgement restarts them.
const AFTER_ACK: u8 = 1;

/// A replica's registration and its dump.
#[derive(Debug, Default)]
pub(super) struct Replica {
    listed: Option<Listed>,
    dump: Option<Box<LogDump>>,
    /// True if each event says whether it is to be acknowledged.
    semi_sync: bool,
    /// True if the connection is compressed.
    compressed: bool,
}

impl Session {
    /// True while it gets the log.
    pub(super) fn is_dumping(&self) -> bool {
        self.replica.dump.is_some()
    }

    /// The connection is compressed from now on.
    pub fn compressed(&mut self) {
        self.replica.compressed = true;
    }

    /// True if the client may send acknowledgements while it gets the log.
    pub fn takes_acks(&self) -> bool {
        self.replica.semi_sync && self.is_dumping()
    }

    /// Takes an acknowledgement; false if it is none.
    pub fn take_ack(&mut self, payload: &[u8]) -> bool {
        match (&self.replica.dump, command::parse_semi_sync_ack(payload)) {
            (Some(dump), Ok((file, position))) => {
                dump.acknowledged(&String::from_utf8_lossy(file), position);
                true
            }
            _ => false,
        }
    }

    /// What it does, for SHOW PROCESSLIST: the command and its state.
    pub fn dump_state(&self) -> Option<(&'static str, &'static str)> {
        self.replica.dump.as_ref()?;
        let state = match self.suspended {
            Some(_) => "Source has sent all binlog to replica; waiting for more updates",
            None => "Sending binlog event to replica",
        };
        Some(("Binlog Dump GTID", state))
    }

    /// The log that is served, if the account may have it.
    fn served_log(&self, world: &dyn World) -> Result<Arc<GrowingLog>, SqlError> {
        if !self.login.identity.rights.replicate {
            return Err(needs("REPLICATION SLAVE"));
        }
        world.log().cloned().ok_or_else(|| SqlError::not_supported("the binary log over this port"))
    }

    /// COM_REGISTER_REPLICA.
    pub(super) fn register(&mut self, line: ReplicaLine, world: &dyn World, out: &mut Output) -> After {
        match self.served_log(world) {
            Ok(log) => {
                let server_uuid = self.replica_uuid();
                self.replica.listed = Some(log.list(ReplicaLine { server_uuid, ..line }));
                self.ok(out);
                After::Next
            }
            Err(error) => self.fail(&error, out),
        }
    }

    /// COM_BINLOG_DUMP_GTID. The set is as sent.
    pub(super) fn dump_after(
        &mut self,
        gtid_set: &[u8],
        flags: u16,
        server_id: u32,
        world: &dyn World,
        out: &mut Output,
    ) -> After {
        match GtidSet::decode(gtid_set) {
            Ok(executed) => self.dump(Start::After(executed), flags, server_id, world, out),
            Err(_) => {
                self.fail(&super::malformed(), out);
                After::Close
            }
        }
    }

    pub(super) fn dump(
        &mut self,
        start: Start,
        flags: u16,
        server_id: u32,
        world: &dyn World,
        out: &mut Output,
    ) -> After {
        let log = match self.served_log(world) {
            Ok(log) => log,
            Err(error) => return self.fail(&error, out),
        };
        let period = self.number_of(&["source_heartbeat_period", "master_heartbeat_period"]);
        let checksum = self.text_of(&["source_binlog_checksum", "master_binlog_checksum"]);
        let semi_sync = log.asks_for_acks() && self.number_of(&["rpl_semi_sync_replica", "rpl_semi_sync_slave"]) != 0;
        // Sequence ids of envelopes would have to restart too.
        let acknowledges = semi_sync && !self.replica.compressed;
        let options = DumpOptions {
            flags,
            server_uuid: self.replica_uuid(),
            heartbeat_period: Duration::from_nanos(period),
            knows_checksums: checksum.is_some_and(|checksum| !checksum.eq_ignore_ascii_case("NONE")),
            acknowledges,
            start,
        };
        let executed = match &options.start {
            Start::After(executed) => Some(executed.clone()),
            Start::Place { .. } => None,
        };
        let server_uuid = options.server_uuid.clone();
        match LogDump::begin(&log, options, world.now()) {
            Ok(dump) => {
                let listed = self.replica.listed.get_or_insert_with(|| log.list(ReplicaLine::default()));
                listed.change(|line| {
                    (line.server_id, line.server_uuid, line.executed) = (server_id, server_uuid, executed);
                    (line.dump, line.acknowledges) = (dump.number(), acknowledges);
                });
                (self.replica.dump, self.replica.semi_sync) = (Some(Box::new(dump)), semi_sync);
                After::More
            }
            Err(ends) => self.dump_ends(&ends.0, out),
        }
    }

    /// Goes on with the dump.
    pub(super) fn dump_on(&mut self, world: &dyn World, out: &mut Output) -> After {
        let Some(dump) = &mut self.replica.dump else { return After::Next };
        let semi_sync = self.replica.semi_sync;
        let step = dump.step(world.now(), &mut |event, ack_wanted| {
            out.send(|out| {
                command::put_dump_event_head(out, semi_sync, ack_wanted);
                out.extend_from_slice(event);
            });
            if ack_wanted {
                out.continue_from(AFTER_ACK);
            }
        });
        match step {
            Ok(Step::Sent) => After::More,
            Ok(Step::Waits(version)) => {
                let until = dump.wakes_at();
                self.suspend(Waiting { event: Event::LogChanged(version), until, limit: None });
                After::Wait
            }
            Ok(Step::Ended) => {
                self.replica.dump = None;
                self.rows_end(out, self.status());
                After::Next
            }
            Ok(Step::Anew) => {
                self.replica.dump = None;
                After::Close
            }
            Err(ends) => self.dump_ends(&ends.0, out),
        }
    }

    /// The dump's wait has ended.
    pub(super) fn dump_waited(&mut self, ended: &Ended, world: &dyn World, out: &mut Output) -> After {
        match ended {
            // Without a word: a replica gives up at 1236, and connects again when a connection just ends.
            Ended::Interrupted(Interrupt::Shutdown) => {
                self.replica.dump = None;
                After::Close
            }
            Ended::Interrupted(by) => {
                self.replica.dump = None;
                self.fail(&by.error(), out);
                After::Close
            }
            _ => self.dump_on(world, out),
        }
    }

    /// KILL ends the dump.
    pub(super) fn dump_killed(&mut self, out: &mut Output) -> After {
        self.replica.dump = None;
        self.fail(&Interrupt::Killed.error(), out);
        After::Close
    }

    /// Ends the dump with error 1236, and the connection, as MySQL does.
    fn dump_ends(&mut self, why: &str, out: &mut Output) -> After {
        self.replica.dump = None;
        self.fail(&SqlError::new(1236, "HY000", why.to_owned()), out);
        After::Close
    }

    fn replica_uuid(&self) -> String {
        self.text_of(&["replica_uuid", "slave_uuid"]).unwrap_or_default()
    }

    /// The first of these user variables that is set, as text.
    fn text_of(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.user_variables.text(name))
    }

    fn number_of(&self, names: &[&str]) -> u64 {
        self.text_of(names).and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}
