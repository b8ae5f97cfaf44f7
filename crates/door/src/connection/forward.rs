//! Statements of a session that the source answers, over a connection of the session's own.
//!
//! In: commands that are not this server's, readiness of the source's socket. Out: the answer as the source gives it.
//! Never here: more of an answer than the client's socket takes; a statement that is sent twice, but a lone SELECT of
//! which nothing was passed on.

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use accounts::{SessionStart, SourceLogin};
use client::Arrived;
use rustix::event::epoll::{self, EventFlags};
use rustix::net::{Shutdown, shutdown};
use session::{After, Mark, OkFacts, Session, World};
use sql::SqlError;
use syntax::sql_mode::NO_BACKSLASH_ESCAPES;
use syntax::{Settings, StatementKind};
use tier::{Answer, AtSource, Decision, Sent, Shown, Step, Told};
use wire::handshake::capability;
use wire::packet::{self, PayloadRange, SKIPPED_HEAD_LEN};
use wire::response::status;

use super::asked::{Here, Own, OwnKind, TRACK_ALL, not_executed, shown_to};
use super::link::Link;
use super::{Connection, Deadline, Fate, Hold, Turn};
use crate::helper::Worked;
use crate::source::{
    Key, Kill, Left, NotOpened, Opened, Opening, Permit, Sources, Values, begins_otherwise, first_statements,
};

/// How long a session waits for one of `--forward-connections`.
const PERMIT_WITHIN: Duration = Duration::from_secs(10);
/// Texts of statements that SHOW PROCESSLIST shows, in bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Version whose comments are executed, before the source's is known.
const NEWEST: u32 = 99_999;
/// The source ends a session that was idle.
const IDLE_ENDED: u16 = 4031;
/// Ends a transaction, whatever `completion_type` is.
const COMMIT: &str = "COMMIT AND NO CHAIN NO RELEASE";

/// What a session needs that has statements answered by the source.
pub(super) struct Forwarding {
    login: Arc<SourceLogin>,
    start: SessionStart,
    /// How its texts are read.
    settings: Settings,
    link: Option<Box<Link>>,
    at: AtSource,
    /// It was reset since its login.
    was_reset: bool,
    /// What it has of the variables that another connection of its own would be given.
    values: Option<Values>,
    running: Option<Running>,
    /// State of asking the session here first; None for an account that may read nothing here.
    pub(super) here: Option<Here>,
}

/// A command for the source.
pub(super) struct Running {
    /// The command, while it is not sent or may be sent again.
    payload: Vec<u8>,
    pub(super) sent: Sent,
    pub(super) answer: Answer,
    phase: Phase,
    text: Vec<u8>,
    is_repeated: bool,
    /// Long data that comes before it, by parameters.
    long_data: Vec<(u16, Vec<u8>)>,
    /// What the source must know before it is among the statements that come first.
    pub(super) is_told: bool,
    /// It is sent once it is proved that it fits what its transaction has read here.
    pub(super) is_unproved: bool,
    /// Lives as long as it waits for the connection that is being opened for it.
    opening: Option<Arc<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits for one of the connections.
    Permit {
        until: Instant,
    },
    Opening,
    /// Statements of our own come first.
    Own,
    Answer,
    /// The client sends a file.
    File,
}

/// What became of a step.
enum Went {
    On,
    Waits,
    /// The connection to the source is gone.
    Lost,
}

impl Running {
    /// A command that this server answers, after statements of ours at the source.
    fn of_here(payload: Vec<u8>, capabilities: u32) -> Running {
        let code = payload.first().copied().unwrap_or_default();
        Running {
            text: payload.get(1..).unwrap_or_default().to_vec(),
            payload,
            sent: Sent::default(),
            answer: Answer::new(code, capabilities, Shown::told(false), false),
            phase: Phase::Own,
            is_repeated: false,
            long_data: Vec::new(),
            is_told: true,
            is_unproved: false,
            opening: None,
        }
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.payload
    }
}

impl Forwarding {
    pub(super) fn new(login: Arc<SourceLogin>, start: SessionStart, version: Option<&str>) -> Forwarding {
        let charset = values::collation::by_id(start.collation).map_or("utf8mb4", |collation| collation.charset);
        let version = version.and_then(number_of).unwrap_or(NEWEST);
        let settings = Settings::new(0, version, charset);
        Forwarding {
            login,
            start,
            settings,
            link: None,
            at: AtSource::default(),
            was_reset: false,
            values: None,
            running: None,
            here: None,
        }
    }

    pub(super) fn login(&self) -> &Arc<SourceLogin> {
        &self.login
    }

    /// True if the source is to answer whatever the session sends.
    pub(super) fn keeps_session(&self) -> bool {
        self.here.is_none() || self.at.keeps_session()
    }

    /// True if a connection that has just been opened is as good as the one that it has.
    fn needs_no_link(&self) -> bool {
        self.at.is_nothing() && (self.here.is_none() || !self.at.keeps_session())
    }

    /// Texts are read as this session reads them.
    pub(super) fn reads_as(&mut self, session: &Session) {
        let (sql_mode, charset) = session.reads_texts_as();
        self.settings = Settings::new(sql_mode, self.settings.server_version, charset);
    }

    /// The command that runs, and the connection that it runs on.
    pub(super) fn runs_on(&mut self) -> Option<(&mut Running, &mut Link, &AtSource, &Here)> {
        Some((self.running.as_mut()?, self.link.as_deref_mut()?, &self.at, self.here.as_ref()?))
    }

    pub(super) fn running(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    pub(super) fn link_mut(&mut self) -> Option<&mut Link> {
        self.link.as_deref_mut()
    }

    /// True if the session has something at the source that is not known here.
    pub(super) fn is_pinned(&self) -> bool {
        self.at.is_pinned()
    }

    /// Commits at the source before this server answers the command; false if nothing is open there.
    pub(super) fn commits(&mut self, payload: Vec<u8>) -> bool {
        let Some(link) = self.link.as_mut().filter(|_| self.at.is_in_transaction()) else { return false };
        link.own.push_back(Own { text: Cow::Borrowed(COMMIT.as_bytes()), what: OwnKind::Commits });
        self.running = Some(Running::of_here(payload, self.start.capabilities));
        true
    }

    /// That COMMIT was answered so. Returns the command.
    pub(super) fn committed(&mut self, told: &Told, session: &mut Session, world: &dyn World) -> Option<Vec<u8>> {
        self.at.answered(&Sent { alone: Some(StatementKind::Commit), ..Sent::default() }, told);
        session.took(&OkFacts { status: told.status, ..OkFacts::default() }, world);
        let mark = self.here.as_ref().map(|_| session.mark());
        self.link.iter_mut().for_each(|link| link.mark.clone_from(&mark));
        self.running.take().map(|running| running.payload)
    }

    /// A ROLLBACK of ours has ended with these status bits; the session is like this now.
    pub(super) fn rolled_back(&mut self, bits: u16, mark: Mark) {
        self.at.rolled_back(bits);
        if let Some(link) = &mut self.link {
            link.mark = Some(mark);
        }
    }

    /// Bytes that it holds.
    pub(super) fn memory(&self) -> usize {
        let own = |link: &Link| link.own.iter().map(|own| own.text.len()).sum::<usize>();
        let of_link = |link: &Link| link.to_send.capacity() + link.received.capacity() + own(link);
        let of_link = self.link.as_ref().map_or(0, |link| of_link(link));
        let long = |running: &Running| running.long_data.iter().map(|(_, data)| data.capacity()).sum::<usize>();
        let of_running = |running: &Running| running.payload.capacity() + running.text.capacity() + long(running);
        let numbers = self.here.as_ref().map_or(0, |here| here.numbers().bytes());
        of_link + self.running.as_ref().map_or(0, of_running) + numbers
    }

    /// The text of the statement that runs.
    pub(super) fn text(&self) -> Option<Vec<u8>> {
        self.running.as_ref().map(|running| running.text.clone())
    }

    /// True if the client is to send a file.
    fn takes_file(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.phase == Phase::File)
    }

    /// True if the next step is the client's: the source has taken all that there is of its file.
    fn waits_for_file(&self) -> bool {
        self.takes_file() && self.link.as_ref().is_some_and(|link| !link.is_unsent())
    }

    /// The connection is gone, or for others: whether the session can go on without it.
    fn drop_link(&mut self) -> bool {
        let goes_on = self.needs_no_link();
        match self.link.take() {
            Some(link) if goes_on => link.give_back(),
            link => link.into_iter().for_each(|link| link.close()),
        }
        self.at = AtSource::default();
        goes_on
    }
}

/// A version as a number: 90704 for 9.7.4.
fn number_of(version: &str) -> Option<u32> {
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u32>().ok());
    let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next().flatten().unwrap_or(0));
    Some(major * 10_000 + minor * 100 + patch)
}

/// What a status tells of the session's sql_mode.
fn sql_mode_of(bits: u16) -> u64 {
    if bits & status::NO_BACKSLASH_ESCAPES == 0 { 0 } else { NO_BACKSLASH_ESCAPES }
}

impl Connection {
    /// Has a command answered where it is to be, unless that is by this server alone: then false.
    pub(super) fn forwards(&mut self, range: PayloadRange, turn: &mut Turn<'_>) -> bool {
        self.renew_grants(turn);
        let Some(forwarding) = &mut self.forwarding else { return false };
        if let (false, Some(session)) = (forwarding.keeps_session(), &self.session) {
            forwarding.reads_as(session);
        }
        let sources = &turn.server.sources;
        let payload = self.input.payload(range);
        let decision = tier::decide(payload, forwarding.start.capabilities, sources.forward, forwarding.settings);
        match decision {
            Decision::Here => {
                sources.counts.here.fetch_add(1, Relaxed);
                false
            }
            Decision::HereCommitted => {
                sources.counts.here.fetch_add(1, Relaxed);
                self.commits_first(range, turn)
            }
            Decision::Refused(error) => {
                sources.counts.refused.fetch_add(1, Relaxed);
                let payload = payload.to_vec();
                self.refuse_command(payload, &error);
                true
            }
            Decision::Source(sent) => {
                let sent = self.of_execution(range, sent);
                if self.asks_here(range, sent, turn) {
                    return true;
                }
                let payload = self.input.payload(range).to_vec();
                self.note_not_asked(&payload, &sent, turn);
                self.forward(payload, sent, turn)
            }
        }
    }

    /// Has the source answer a command; false if nothing is there that it is about.
    pub(super) fn forward(&mut self, payload: Vec<u8>, sent: Sent, turn: &mut Turn<'_>) -> bool {
        let sent = self.with_views(&payload, sent, turn);
        let is_unproved = self.splits(&payload, &sent, turn);
        let (payload, long_data) = self.execution_for_source(payload);
        let (Some(forwarding), Some(session)) = (&mut self.forwarding, &mut self.session) else { return false };
        // Nothing is there that could be reset or closed.
        let code = payload.first().copied().unwrap_or_default();
        let needs_link =
            !matches!(code, wire::command::RESET_CONNECTION | wire::command::STMT_CLOSE | wire::command::PING);
        if forwarding.link.is_none() && !needs_link {
            return false;
        }
        turn.server.sources.counts.forwarded.fetch_add(1, Relaxed);
        let shows_state = forwarding.link.as_ref().is_some_and(|link| link.shows_state) || sent.asks_for_state;
        let shown = match &forwarding.here {
            Some(_) => shown_to(session, sent.asks_for_state),
            None => Shown::told(shows_state),
        };
        let here = forwarding.here.as_mut();
        let number = here.and_then(|here| here.number_for(session, (&sent, &payload), turn.server));
        let answer = Answer::new(code, forwarding.start.capabilities, shown, sent.may_ask_for_file);
        let answer = answer.of_statement(number);
        let text = payload.get(1..).unwrap_or_default();
        let text = text.get(..TEXT_BYTES_MAX).unwrap_or(text).to_vec();
        let (phase, is_repeated, is_told, opening) = (Phase::Own, false, false, None);
        forwarding.running =
            Some(Running { payload, sent, answer, phase, text, is_repeated, long_data, is_told, is_unproved, opening });
        self.hold = Hold::Source;
        self.why = Deadline::Busy;
        if let Err(error) = self.will_hold(0, 0) {
            self.fail_forwarded(&error);
            return true;
        }
        self.send_to_source(turn);
        true
    }

    /// Answers a command with an error.
    pub(super) fn refuse_command(&mut self, payload: Vec<u8>, error: &SqlError) {
        let Some(session) = &mut self.session else { return };
        let mut head = [0; SKIPPED_HEAD_LEN];
        head.iter_mut().zip(payload).for_each(|(to, byte)| *to = byte);
        let after = session.refuse(&head, error, &mut self.output);
        self.after(after);
    }

    /// The command that runs ends with an error of ours.
    pub(super) fn fail_forwarded(&mut self, error: &SqlError) {
        let Some(running) = self.forwarding.as_mut().and_then(|forwarding| forwarding.running.take()) else { return };
        self.refuse_command(running.payload, error);
    }

    /// Sends the command that runs, or sees to it that there is a connection first.
    pub(super) fn send_to_source(&mut self, turn: &mut Turn<'_>) {
        let Some(forwarding) = &mut self.forwarding else { return };
        let is_of_another = forwarding.link.as_ref().is_some_and(|link| link.is_of_another(turn));
        if is_of_another && !forwarding.drop_link() {
            // What the session has is at a server that is not followed any more.
            self.hold = Hold::Close;
            return;
        }
        if let Err(error) = self.tell_source(turn) {
            self.fail_forwarded(&error);
            return;
        }
        let Some(forwarding) = &mut self.forwarding else { return };
        let Some(running) = &mut forwarding.running else { return };
        let Some(link) = &mut forwarding.link else {
            let (inbox, id) = (Arc::clone(turn.inbox), self.id);
            let given = Box::new(move |permit| inbox.worked(id, Worked::Permit(permit)));
            let key = Key {
                user: forwarding.login.user().to_owned(),
                capabilities: forwarding.start.capabilities | capability::SESSION_TRACK,
                number: turn.server.facts.source_number().unwrap_or_default(),
            };
            match turn.server.sources.permit(id, key, given) {
                Some(permit) => self.open_source(permit, turn),
                None => running.phase = Phase::Permit { until: turn.now + PERMIT_WITHIN },
            }
            return;
        };
        if let Some(own) = link.own.pop_front() {
            running.phase = Phase::Own;
            let capabilities = forwarding.start.capabilities;
            let (code, payload) = own.command(capabilities);
            link.put(&payload, 0);
            link.own_answer = Some((Answer::new(code, capabilities, Shown::told(true), false), own.what));
            return;
        }
        if running.is_unproved {
            return self.prove(turn);
        }
        running.phase = Phase::Answer;
        link.shows_state |= running.sent.asks_for_state;
        let there = forwarding.here.as_mut().and_then(|here| here.numbers_mut().renumber(&mut running.payload));
        for (parameter, data) in std::mem::take(&mut running.long_data) {
            let number = there.unwrap_or_default().to_le_bytes();
            let head = [&[wire::command::STMT_SEND_LONG_DATA], &number[..], &parameter.to_le_bytes()].concat();
            link.put(&[head, data].concat(), 0);
        }
        link.put(&running.payload, 0);
        forwarding.at.sends(&running.sent);
        if !running.sent.may_repeat {
            // Its beginning says which command it was.
            running.payload.truncate(SKIPPED_HEAD_LEN);
            running.payload.shrink_to_fit();
        }
    }

    /// The command that runs is proved, or is not sent after all.
    pub(super) fn is_proved(&mut self, turn: &mut Turn<'_>) {
        self.hold = Hold::Source;
        if let Some(running) = self.forwarding.as_mut().and_then(|forwarding| forwarding.running.as_mut()) {
            running.is_unproved = false;
        }
        self.send_to_source(turn);
    }

    fn open_source(&mut self, permit: Permit, turn: &Turn<'_>) {
        let Some(forwarding) = &mut self.forwarding else { return };
        let Some(running) = &mut forwarding.running else { return };
        running.phase = Phase::Opening;
        let waits = running.opening.insert(Arc::default());
        let (waits, ticket) = (Arc::downgrade(waits), Arc::downgrade(waits));
        let (inbox, id) = (Arc::clone(turn.inbox), self.id);
        let mut start = forwarding.start.clone();
        if forwarding.here.is_some() {
            // It is chosen there before the first statement, whose error it may be.
            start.schema = None;
        }
        let opening = Opening {
            login: Arc::clone(&forwarding.login),
            start,
            was_reset: forwarding.was_reset,
            values: forwarding.values.clone(),
            permit,
            waits,
            since: turn.now,
            done: Box::new(move |opened| inbox.worked(id, Worked::Opened(ticket, Box::new(opened)))),
        };
        if !turn.server.sources.open_for(opening) {
            self.fail_forwarded(&SqlError::new(1041, "HY000", "too many connections to the source are being opened"));
        }
    }

    /// One of the connections has become free. What does not wait for it any more gives it on.
    pub(super) fn permitted(&mut self, permit: Permit, turn: &Turn<'_>) {
        let phase = self.forwarding.as_ref().and_then(|forwarding| forwarding.running.as_ref()).map(|of| of.phase);
        if matches!(phase, Some(Phase::Permit { .. })) && self.hold == Hold::Source {
            self.open_source(permit, turn);
        }
    }

    /// A connection to the source was opened, or not. One that the command which runs does not wait for is closed.
    pub(super) fn source_opened(&mut self, ticket: &Weak<()>, opened: Result<Opened, NotOpened>, turn: &mut Turn<'_>) {
        let is_waited_for = |waits: &mut Arc<()>| std::ptr::eq(Arc::as_ptr(waits), ticket.as_ptr());
        let running = self.forwarding.as_mut().and_then(|forwarding| forwarding.running.as_mut());
        let waits = running.and_then(|running| running.opening.take_if(is_waited_for)).is_some();
        let Some(forwarding) = self.forwarding.as_mut().filter(|_| waits && self.hold == Hold::Source) else {
            // Closed, not given to others: what was killed while it was opened may still be killed there.
            opened.into_iter().for_each(|opened| Link::new(opened).close());
            return;
        };
        match opened {
            Ok(mut opened) => {
                let values = std::mem::take(&mut opened.values);
                if let (None, Some(here), Some(session)) = (&forwarding.values, &mut forwarding.here, &mut self.session)
                {
                    here.begins_as(begins_otherwise(&values, turn.server), session, turn.server);
                }
                forwarding.values = Some(values);
                forwarding.link = Some(Box::new(Link::new(opened)));
                forwarding.at = AtSource::default();
                if let Some(running) = &mut forwarding.running {
                    running.is_told = false;
                }
                self.send_to_source(turn);
            }
            Err(NotOpened { error, is_refusal: true }) => {
                forwarding.running = None;
                self.refuse(&error);
            }
            Err(NotOpened { error, .. }) => self.fail_forwarded(&error),
        }
    }

    /// Continues the command that runs at the source; false if it waits.
    pub(super) fn go_on_at_source(&mut self, turn: &mut Turn<'_>) -> Result<bool, Fate> {
        let went = self.step_at_source(turn);
        match went {
            Ok(Went::On) => Ok(true),
            Ok(Went::Waits) if self.forwarding.as_ref().is_some_and(|forwarding| forwarding.waits_for_file()) => {
                self.wait(EventFlags::IN, turn, Deadline::Packet);
                Ok(false)
            }
            Ok(Went::Waits) => {
                // It is the source's time that passes.
                self.why = Deadline::Busy;
                self.interest.wanted = EventFlags::RDHUP;
                Ok(false)
            }
            // An answer that cannot be read: nothing after it can.
            Ok(Went::Lost) | Err(_) => self.lose_source(turn).map(|()| true),
        }
    }

    fn step_at_source(&mut self, turn: &mut Turn<'_>) -> client::Result<Went> {
        let failed = |error| client::ClientError::Io { error };
        let Some(forwarding) = &mut self.forwarding else { return Ok(Went::Lost) };
        let Some(running) = &mut forwarding.running else { return Ok(Went::Lost) };
        if let Phase::Permit { until } = running.phase {
            if until > turn.now {
                return Ok(Went::Waits);
            }
            turn.server.sources.forget(self.id);
            let text = "Too many connections to the source; --forward-connections bounds them";
            self.fail_forwarded(&SqlError::new(1040, "08004", text));
            return Ok(Went::On);
        }
        let Some(link) = &mut forwarding.link else {
            return Ok(if running.phase == Phase::Opening { Went::Waits } else { Went::Lost });
        };
        let was_sent = link.to_send.is_empty() || link.has_hung_up;
        if !link.flush().map_err(failed)? {
            return Ok(Went::Waits);
        }
        if running.phase == Phase::File {
            return self.take_file(turn);
        }
        let is_own = running.phase == Phase::Own;
        let answer = match &mut link.own_answer {
            Some((answer, _)) if is_own => answer,
            _ => &mut running.answer,
        };
        if answer.is_over() {
            self.source_answered(turn);
            return Ok(Went::On);
        }
        if !was_sent {
            // The answer takes longer than that.
            return Ok(Went::Waits);
        }
        let bytes = match link.stream.read(turn.scratch).map_err(failed)? {
            Arrived::Bytes(len) => turn.scratch.get(..len).unwrap_or_default(),
            Arrived::Nothing => return Ok(Went::Waits),
            Arrived::Closed => return Ok(Went::Lost),
        };
        if !is_own && !answer.told().has_begun && link.received.is_empty() && tells_idle_end(bytes) {
            return Ok(Went::Lost);
        }
        let joined;
        let bytes = if link.received.is_empty() {
            bytes
        } else {
            link.received.extend_from_slice(bytes);
            joined = std::mem::take(&mut link.received);
            &joined
        };
        let mut swallowed = (Vec::new(), 0);
        let (taken, step) = match is_own {
            true => answer.take(bytes, &mut swallowed.0, &mut swallowed.1)?,
            false => self.output.put_packets(|out, sequence| answer.take(bytes, out, sequence))?,
        };
        if is_own && answer.told().error.is_some() {
            link.own_error = swallowed.0;
        }
        link.received = bytes.get(taken..).unwrap_or_default().to_vec();
        match step {
            Step::More => {}
            // Nobody has asked for what follows an answer.
            Step::Over if !link.received.is_empty() => return Ok(Went::Lost),
            Step::Over => self.source_answered(turn),
            Step::File => {
                running.phase = Phase::File;
                self.input.expect_sequence(self.output.sequence());
            }
        }
        Ok(Went::On)
    }

    /// Passes on a packet of the client's file.
    fn take_file(&mut self, turn: &mut Turn<'_>) -> client::Result<Went> {
        loop {
            match self.input.take() {
                Ok(Some(range)) => {
                    let payload = self.input.payload(range);
                    let next = self.input.sequence();
                    let Some(forwarding) = &mut self.forwarding else { return Ok(Went::Lost) };
                    let (Some(link), Some(running)) = (&mut forwarding.link, &mut forwarding.running) else {
                        return Ok(Went::Lost);
                    };
                    let frames = payload.len() / packet::MAX_FRAME_LEN + 1;
                    let first = next.wrapping_sub(u8::try_from(frames % 256).unwrap_or_default());
                    link.put(payload, first);
                    if payload.is_empty() {
                        running.phase = Phase::Answer;
                        self.output.continue_from(next);
                    }
                    return Ok(Went::On);
                }
                Ok(None) => {}
                Err(_) => return Ok(Went::Lost),
            }
            let content = self.compression.as_ref().and_then(wire::compress::Compression::next_len);
            if let Some(len) = content {
                if self.will_hold(2 * len, 0).is_err() {
                    return Ok(Went::Lost);
                }
                let input = &mut self.input;
                if let Some(compression) = &mut self.compression {
                    let opened = compression.open(|content| {
                        let _ = input.push(content);
                    });
                    match opened {
                        Ok(true) => continue,
                        Ok(false) => {}
                        Err(_) => return Ok(Went::Lost),
                    }
                }
            }
            match self.read(turn) {
                Ok(true) if self.hold == Hold::Source => {}
                Ok(false) => return Ok(Went::Waits),
                _ => return Ok(Went::Lost),
            }
        }
    }

    /// The answer has ended: to a statement of our own, or the client's.
    fn source_answered(&mut self, turn: &mut Turn<'_>) {
        let Some(forwarding) = &mut self.forwarding else { return };
        let (Some(link), Some(running)) = (&mut forwarding.link, &forwarding.running) else { return };
        if running.phase == Phase::Own {
            return self.own_answered(turn);
        }
        let told = *running.answer.told();
        forwarding.at.answered(&running.sent, &told);
        if let Some(session) = &mut self.session {
            let resets = running.sent.resets && told.error.is_none();
            link.mark = forwarding.here.as_mut().map(|here| {
                let answered = (&running.sent, &running.answer, &*running.text);
                here.take(session, answered, resets, turn.server)
            });
        }
        if let Some(bits) = told.status {
            forwarding.settings.sql_mode = sql_mode_of(bits);
        }
        // No login on this connection changes that.
        if let (&[wire::command::SET_OPTION, option @ (0 | 1), 0], None) = (&*running.payload, told.error) {
            let now = |before: u32| match option {
                0 => before | capability::MULTI_STATEMENTS,
                _ => before & !capability::MULTI_STATEMENTS,
            };
            forwarding.start.capabilities = now(forwarding.start.capabilities);
            link.reuse.key.iter_mut().for_each(|key| key.capabilities = now(key.capabilities));
        }
        if let Some(charset) = running.answer.charset() {
            forwarding.settings =
                Settings::new(forwarding.settings.sql_mode, forwarding.settings.server_version, charset);
        }
        if let Some(schema) = running.answer.schema() {
            forwarding.start.schema = Some(schema.to_owned()).filter(|schema| !schema.is_empty());
        }
        if running.sent.resets && told.error.is_none() {
            forwarding.was_reset = true;
            forwarding.values = None;
            let charset = turn.server.facts.source_value("character_set_client");
            let Settings { sql_mode, server_version, .. } = forwarding.settings;
            forwarding.settings = Settings::new(sql_mode, server_version, charset.as_deref().unwrap_or("utf8mb4"));
            link.shows_state = link.tracks_by_itself;
            link.own = first_statements(turn.server.sources.forward).map(Own::sets).collect();
            link.own.extend(forwarding.here.as_ref().map(|_| Own::sets(TRACK_ALL)));
        }
        let releases = running.sent.releases && !running.sent.prepares && told.error.is_none();
        let was_reset = forwarding.running.take().is_some_and(|running| running.sent.resets);
        if (was_reset || turn.server.sources.has_waiting()) && forwarding.needs_no_link() {
            forwarding.drop_link();
        }
        self.after(if releases { After::Close } else { After::Next });
    }

    /// A statement of our own has ended.
    fn own_answered(&mut self, turn: &mut Turn<'_>) {
        let Some(forwarding) = &mut self.forwarding else { return };
        let (Some(link), Some(running)) = (&mut forwarding.link, &forwarding.running) else { return };
        let Some((answer, what)) = link.own_answer.take() else { return };
        match (what, answer.told().error, answer.told().statement) {
            (OwnKind::Waits, Some(code), _) => {
                link.own.clear();
                if let Some(mark) = link.mark.as_mut().filter(|_| !forwarding.at.keeps_session()) {
                    mark.forget_transaction();
                }
                return self.fail_forwarded(&not_executed(code));
            }
            (OwnKind::Uses, Some(_), _) => {
                // Nothing runs there while it has another default schema than the client's.
                link.own.clear();
                link.mark.iter_mut().for_each(|mark| {
                    mark.forget_schema();
                    mark.forget_transaction();
                });
                return self.pass_own_error(turn);
            }
            (OwnKind::Commits, None, _) => {
                let told = *answer.told();
                return self.has_committed(&told, turn);
            }
            (OwnKind::Prepares(_) | OwnKind::Commits, Some(_), _) => return self.pass_own_error(turn),
            (OwnKind::GivesUp, None, _) => return self.gave_up(answer.told().status.unwrap_or_default(), turn),
            (OwnKind::Prepares(number), None, Some(there)) => {
                if let Some(here) = &mut forwarding.here {
                    here.numbers_mut().add(number, there, &[]);
                }
            }
            _ => {}
        }
        if let Some(bits) = answer.told().status {
            forwarding.at.says(bits);
        }
        // The last one leaves the mode in which the statement is read there.
        let mode = answer.told().status.filter(|_| link.own.is_empty()).map(sql_mode_of);
        let known = forwarding.settings.sql_mode & NO_BACKSLASH_ESCAPES;
        let other = mode.filter(|mode| *mode != known);
        forwarding.settings.sql_mode = other.unwrap_or(forwarding.settings.sql_mode);
        let is_misread = other.is_some() && running.payload.contains(&b'\\');
        // One that fails leaves a session that cannot be judged.
        if is_misread || answer.told().error.is_some() {
            self.hold = Hold::Close;
        } else {
            self.send_to_source(turn);
        }
    }

    /// A statement of ours that must not fail has failed: the command that runs ends so.
    fn pass_own_error(&mut self, turn: &Turn<'_>) {
        let Some(forwarding) = &mut self.forwarding else { return };
        let Some(link) = &mut forwarding.link else { return };
        // What was to come after it still does.
        let packet = std::mem::take(&mut link.own_error);
        let payload = packet.get(packet::HEADER_LEN..).unwrap_or_default();
        self.output.send(|out| out.extend_from_slice(payload));
        forwarding.running = None;
        if let Some(session) = &mut self.session {
            session.took(&OkFacts::default(), turn.server);
        }
        self.after(After::Next);
    }

    /// The connection to the source is gone while a command runs there.
    fn lose_source(&mut self, turn: &mut Turn<'_>) -> Result<(), Fate> {
        let Some(forwarding) = &mut self.forwarding else { return Err(Fate::End) };
        let Some(running) = &mut forwarding.running else { return Err(Fate::End) };
        let had_nothing = forwarding.at.may_repeat() && (forwarding.here.is_none() || !forwarding.at.keeps_session());
        let repeats =
            running.sent.may_repeat && had_nothing && !running.is_repeated && !running.answer.told().has_begun;
        if !repeats {
            return Err(Fate::End);
        }
        (running.is_repeated, running.is_told) = (true, false);
        forwarding.link = None;
        forwarding.at = AtSource::default();
        self.send_to_source(turn);
        Ok(())
    }

    /// Readiness of the source's socket.
    pub(crate) fn source_ready(&mut self, flags: EventFlags) {
        let Some(forwarding) = &mut self.forwarding else { return };
        let is_idle = forwarding.running.is_none();
        let Some(link) = &mut forwarding.link else { return };
        link.is_ready = is_idle;
        link.has_hung_up |= flags.intersects(EventFlags::ERR | EventFlags::HUP);
    }

    /// Something has come from the source while nothing was asked for, or its connection has ended: both are its end.
    pub(super) fn look_at_idle_source(&mut self, turn: &mut Turn<'_>) -> Result<(), Fate> {
        let Some(forwarding) = &mut self.forwarding else { return Ok(()) };
        let Some(link) = forwarding.link.as_mut().filter(|link| link.is_ready) else { return Ok(()) };
        link.is_ready = false;
        if matches!(link.stream.read(turn.scratch), Ok(Arrived::Nothing)) {
            return Ok(());
        }
        // Nothing more is sent, and nobody else may have it.
        link.has_hung_up = true;
        if forwarding.drop_link() { Ok(()) } else { Err(Fate::End) }
    }

    /// Lets go of the connection to the source if others wait for one and this session needs it no more, or if another
    /// source is followed. False if the session cannot go on.
    pub(super) fn look_at_source(&mut self, turn: &Turn<'_>) -> bool {
        let Some(forwarding) = &mut self.forwarding else { return true };
        if self.hold != Hold::None || forwarding.running.is_some() {
            return true;
        }
        let Some(link) = &forwarding.link else { return true };
        if link.is_of_another(turn) {
            return forwarding.drop_link();
        }
        if turn.server.sources.has_waiting() && forwarding.needs_no_link() {
            forwarding.drop_link();
        }
        true
    }

    /// True if its command waits for one of the connections for longer than it may.
    pub(super) fn is_late_for_source(&self, now: Instant) -> bool {
        let running = self.forwarding.as_ref().and_then(|forwarding| forwarding.running.as_ref());
        self.hold == Hold::Source
            && running.is_some_and(|running| matches!(running.phase, Phase::Permit { until } if until <= now))
    }

    /// KILL of a command that runs at the source.
    pub(super) fn kill_at_source(&mut self, query: bool, turn: &Turn<'_>) {
        let Some(forwarding) = &mut self.forwarding else { return };
        if let Some(link) = &mut forwarding.link {
            link.is_killed = true;
            let (login, number, id) = (Arc::clone(&forwarding.login), link.number, link.stream.id());
            turn.server.sources.kill(Kill { login, number, id, query, permit: None });
        } else if query && forwarding.running.is_some() {
            turn.server.sources.forget(self.id);
            self.fail_forwarded(&SqlError::new(1317, "70100", "Query execution was interrupted"));
        }
    }

    /// The client has gone. Its statement at the source is ended, or counts until it ends.
    pub(super) fn leave_source(&mut self, sources: &Sources) {
        let Some(forwarding) = self.forwarding.take() else { return };
        let Forwarding { login, link: Some(mut link), running, at, .. } = *forwarding else { return };
        let Some(running) = running else {
            return if at.may_repeat() { link.give_back() } else { link.give_back_reset(sources) };
        };
        if link.has_hung_up {
            return;
        }
        // A QUIT after the statement would hide from the source that nobody is there.
        link.has_hung_up = true;
        let (number, id) = (link.number, link.stream.id());
        if running.sent.may_repeat {
            let permit = link.permit.take();
            drop(link);
            sources.kill(Kill { login, number, id, query: false, permit });
            return;
        }
        // An answer that nobody takes ends its statement. A file is asked for before the statement runs.
        let runs = !running.answer.told().has_begun || running.sent.may_ask_for_file;
        if runs && shutdown(&*link, Shutdown::Write).is_ok() {
            link.unwatch();
            sources.keep(Left { link, number });
        }
    }

    /// Has epoll watch the source's socket for what the connection waits for there.
    pub(crate) fn watch_source(&mut self, epoll: &Arc<OwnedFd>, number: u64) -> bool {
        let (is_full, hold) = (!self.output.is_empty(), self.hold);
        let Some(forwarding) = &mut self.forwarding else { return true };
        let takes_file = forwarding.takes_file();
        let Some(link) = &mut forwarding.link else { return true };
        let wanted = match hold {
            _ if link.has_hung_up => None,
            // The client comes first.
            _ if is_full => Some(EventFlags::empty()),
            Hold::Source if link.is_unsent() => Some(EventFlags::OUT),
            Hold::Source if takes_file => Some(EventFlags::empty()),
            _ => Some(EventFlags::IN),
        };
        if wanted == link.watched {
            return true;
        }
        let data = epoll::EventData::new_u64(number);
        let told = match (link.watched, wanted) {
            (None, Some(flags)) => {
                link.watched_by = Some(Arc::clone(epoll));
                epoll::add(epoll, &link.stream, data, flags)
            }
            (Some(_), Some(flags)) => epoll::modify(epoll, &link.stream, data, flags),
            (_, None) => {
                link.unwatch();
                Ok(())
            }
        };
        link.watched = wanted;
        told.is_ok()
    }

    /// Another loop is to watch it.
    pub(crate) fn unwatch_source(&mut self) {
        if let Some(link) = self.forwarding.as_mut().and_then(|forwarding| forwarding.link.as_mut()) {
            link.unwatch();
        }
    }
}

/// True if the first packet of an answer is the error of a source that has ended an idle session.
fn tells_idle_end(bytes: &[u8]) -> bool {
    let [low, high] = IDLE_ENDED.to_le_bytes();
    bytes.get(packet::HEADER_LEN..).is_some_and(|payload| payload.starts_with(&[0xff, low, high]))
}
