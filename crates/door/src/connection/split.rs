//! Transactions whose plain reads are answered here until the source must answer: the view there, and the proof that a
//! read of it fits what was read here.
//!
//! In: commands of a session that is asked first, the end of its waits. Out: reads of the source that are proved,
//! transactions that are given up. Never here: a plain read there that is not proved; an ended transaction that keeps
//! its locks there.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

use session::{Proof, conflict};
use sql::{Ended, SERVER_VERSION};
use syntax::{Settings, digest_text};
use tier::{Leaves, Sees, Sent, Told};
use wire::command;
use wire::packet::PayloadRange;
use wire::server::ClientCommand;

use super::asked::{Own, OwnKind};
use super::not_served::DIGEST_BYTES;
use super::{Connection, Deadline, Hold, Turn};

/// Bytes of a text whose digest says which transactions are alike.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Ends a transaction at the source, whatever `completion_type` is.
const ROLL_BACK: &str = "ROLLBACK AND NO CHAIN NO RELEASE";

impl Connection {
    /// Facts about a command, with those of the statement that it executes.
    pub(super) fn of_execution(&self, range: PayloadRange, sent: Sent) -> Sent {
        let here = self.forwarding.as_ref().and_then(|forwarding| forwarding.here.as_ref());
        here.map_or(sent, |here| here.numbers().execution(self.input.payload(range), sent))
    }

    /// Facts about a command for the source, with what views that it names may leave there.
    pub(super) fn with_views(&self, payload: &[u8], sent: Sent, turn: &Turn<'_>) -> Sent {
        let (Some(forwarding), Some(session)) = (&self.forwarding, &self.session) else { return sent };
        if forwarding.here.is_none() || sent.pins() || !sent.is_statement {
            return sent;
        }
        // An execution's was prepared.
        let text = match payload.first() {
            Some(&command::QUERY) => self.text_of(payload),
            Some(&command::STMT_PREPARE) => payload.get(1..),
            _ => None,
        };
        let runs_code = |text: &[u8]| session.runs_code_in_views(text, turn.server);
        if text.is_some_and(runs_code) { Sent { leaves: Leaves::Unknown, ..sent } } else { sent }
    }

    /// True if a command of a transaction that is at the source too asks about an answer of here.
    pub(super) fn asks_of_split(&self, sent: &Sent) -> bool {
        let (Some(forwarding), Some(session)) = (&self.forwarding, &self.session) else { return false };
        let is_free = !session.is_pinned() && !forwarding.is_pinned() && session.is_split();
        is_free && forwarding.here.as_ref().is_some_and(|here| here.is_about_here(sent))
    }

    /// True if a transaction that would begin to read with this command is left to the source: one like it was in
    /// conflict, or views there are not like states here. Else it is noted which one it is.
    pub(super) fn is_avoided(&mut self, range: PayloadRange, sent: &Sent, turn: &Turn<'_>) -> bool {
        let begins = |session: &session::Session| session.begins_split() && sent.sees_now() == Sees::Tables;
        if !self.session.as_ref().is_some_and(|session| begins(session)) {
            return false;
        }
        // Else views there are no prefixes of the log, as states here are.
        if turn.server.facts.source_value("binlog_order_commits").as_deref() != Some("1") {
            return true;
        }
        let text = self.text_of(self.input.payload(range)).map(|text| text.get(..TEXT_BYTES_MAX).unwrap_or(text));
        let Some(text) = text.map(<[u8]>::to_vec) else { return false };
        let is_avoided = turn.server.sources.avoids(|| self.digest_of_text(&text), turn.now);
        if let Some(here) = self.forwarding.as_mut().and_then(|forwarding| forwarding.here.as_mut()) {
            here.first_read = text;
        }
        is_avoided
    }

    fn digest_of_text(&self, text: &[u8]) -> Option<String> {
        let (sql_mode, charset) = self.session.as_ref()?.reads_texts_as();
        Some(digest_text(text, Settings::new(sql_mode, SERVER_VERSION, charset), DIGEST_BYTES))
    }

    /// The text of a command, or of the statement that it executes.
    fn text_of<'a>(&'a self, payload: &'a [u8]) -> Option<&'a [u8]> {
        let session = self.session.as_ref()?;
        match ClientCommand::parse(payload, session.start().capabilities).ok()? {
            ClientCommand::Query(query) => Some(query.sql),
            ClientCommand::Execute(execute) => {
                let number = execute.statement_id;
                let of_there = || self.forwarding.as_ref()?.here.as_ref()?.numbers().text(number);
                session.prepared_text(number).or_else(of_there)
            }
            _ => None,
        }
    }

    /// A command of a transaction goes to the source. Returns whether that must be proved first.
    pub(super) fn splits(&mut self, payload: &[u8], sent: &Sent, turn: &Turn<'_>) -> bool {
        if !self.session.as_ref().is_some_and(|session| session.is_split()) {
            return false;
        }
        let text = self.text_of(payload).map(<[u8]>::to_vec);
        let Some(session) = &mut self.session else { return false };
        let sees = sent.sees_now();
        let counts = &turn.server.sources.counts.splits;
        if !session.is_split_elsewhere() {
            counts.begun.fetch_add(1, Relaxed);
            counts.older.fetch_add(u64::from(session.reads_behind(turn.server)), Relaxed);
        }
        let sees_view = session.goes_elsewhere(text.as_deref(), sees != Sees::Nothing);
        if sees_view {
            counts.proofs.fetch_add(1, Relaxed);
        }
        sees_view
    }

    /// The view at the source is open: the command that runs is sent once it is proved that it fits.
    pub(super) fn prove(&mut self, turn: &mut Turn<'_>) {
        let Some(forwarding) = &self.forwarding else { return };
        let Some(running) = forwarding.running() else { return };
        let is_of_tables = running.sent.sees_now() == Sees::Tables && !forwarding.is_pinned();
        let text = match is_of_tables {
            true => self.text_of(running.payload()).map(<[u8]>::to_vec),
            false => None,
        };
        let Some(session) = &mut self.session else { return };
        match session.proves(text.as_deref(), turn.server) {
            Proof::Holds => self.is_proved(turn),
            Proof::Waits => self.hold = Hold::Wait,
            Proof::Fails => self.gives_up(turn),
        }
    }

    /// The wait for a proof has ended; false if none was waited for.
    pub(super) fn proof_waited(&mut self, ended: &Ended, turn: &mut Turn<'_>) -> bool {
        if !self.forwarding.as_ref().and_then(|forwarding| forwarding.running()).is_some_and(|of| of.is_unproved) {
            return false;
        }
        self.hold = Hold::Source;
        let Some(session) = &mut self.session else { return true };
        session.proof_waited(ended.clone());
        match ended {
            // As one that is interrupted there: its transaction continues.
            Ended::Interrupted(by) => self.fail_forwarded(&by.error()),
            _ => self.prove(turn),
        }
        true
    }

    /// A command that this server answers commits first what the session has open at the source; false if that is
    /// nothing.
    pub(super) fn commits_first(&mut self, range: PayloadRange, turn: &mut Turn<'_>) -> bool {
        let payload = self.input.payload(range).to_vec();
        if !self.forwarding.as_mut().is_some_and(|forwarding| forwarding.commits(payload)) {
            return false;
        }
        self.hold = Hold::Source;
        self.why = Deadline::Busy;
        self.send_to_source(turn);
        true
    }

    /// It is committed: this server answers the command.
    pub(super) fn has_committed(&mut self, told: &Told, turn: &mut Turn<'_>) {
        let (Some(forwarding), Some(session)) = (&mut self.forwarding, &mut self.session) else { return };
        let Some(payload) = forwarding.committed(told, session, turn.server) else { return };
        self.hold = Hold::None;
        let after = session.command(&payload, turn.server, &mut self.output);
        self.settle(after, turn);
    }

    /// What was read here was changed before the view at the source: the transaction is rolled back there.
    fn gives_up(&mut self, turn: &mut Turn<'_>) {
        let Some(link) = self.forwarding.as_mut().and_then(|forwarding| forwarding.link_mut()) else { return };
        link.own.clear();
        link.own.push_back(Own { text: Cow::Borrowed(ROLL_BACK.as_bytes()), what: OwnKind::GivesUp });
        self.is_proved(turn);
    }

    /// It was: its statement ends so.
    pub(super) fn gave_up(&mut self, bits: u16, turn: &Turn<'_>) {
        let (Some(forwarding), Some(session)) = (&mut self.forwarding, &mut self.session) else { return };
        session.gives_up_transaction();
        forwarding.rolled_back(bits, session.mark());
        let sources = &turn.server.sources;
        sources.counts.splits.conflicts.fetch_add(1, Relaxed);
        let first = self.forwarding.as_mut().and_then(|forwarding| forwarding.here.as_mut());
        let first = first.map(|here| std::mem::take(&mut here.first_read)).unwrap_or_default();
        if let Some(digest) = self.digest_of_text(&first) {
            sources.avoid(digest, turn.now);
        }
        self.fail_forwarded(&conflict());
    }
}
