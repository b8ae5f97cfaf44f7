//! One connection: login, then commands, stepped when its socket or its time allows.
//!
//! In: readiness, results of the helper, the time. Out: bytes on its socket. Never here: a wait; more than one answer
//! that is not sent; input that is read while an answer waits.

mod asked;
mod forward;
mod link;
mod login;
mod not_served;
mod split;
mod statements;
mod waiting;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use accounts::{Login, Peer};
use rustix::event::epoll::EventFlags;
use sql::{Event, Interrupt, Purse, SqlError};
use wire::WireError;
use wire::compress::{Algorithm, Compression};
use wire::packet::{PacketBuffer, PayloadRange, SKIPPED_HEAD_LEN};
use wire::server::put_err;
use zeroize::Zeroizing;

use crate::config::Note;
use crate::event_loop::{Inbox, Kind};
use crate::helper::{Job, Work, Worked};
use crate::server::Server;
use crate::transport::{Arrived, Socket, Transport};
use forward::Forwarding;
use session::Output;
use session::SessionLine;
use session::{After, Session, is_question};
use waiting::Held;

/// Largest packet before a login, in bytes.
const LOGIN_PACKET_BYTES: usize = 64 << 10;
/// Memory that an idle connection keeps for its input, in bytes.
const KEPT_BYTES: usize = 512;
/// Bytes that are read at once while clients' memory is short.
const READ_LEAST: usize = 4 << 10;
/// Largest acknowledgement of a replica, in bytes: a place with the name of a file.
const ACK_BYTES_MAX: usize = 1024;
/// Commands and reads in one turn: other connections come in between.
const STEPS_A_TURN: usize = 32;
/// Time of a turn after which a statement goes on in the next one. A loop gives so long to those who had a turn, before
/// it looks at what has arrived.
pub(crate) const TURN: Duration = Duration::from_millis(5);
/// Input, in bytes, above which a connection is served by the loop for long texts: a text of this length takes a loop
/// a millisecond or two at worst.
const LONG_BYTES: usize = 8 << 10;
/// Time for the rest of a packet (`net_read_timeout`).
const PACKET_WITHIN: Duration = Duration::from_secs(30);
/// Time in which a client takes the error that ends its connection.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

/// [`PACKET_WITHIN`], or what the fail point says.
fn packet_within() -> Duration {
    static WITHIN: OnceLock<Duration> = OnceLock::new();
    let ms = || base::fail_points::value("packet_within_ms")?.parse().ok();
    *WITHIN.get_or_init(|| ms().map_or(PACKET_WITHIN, Duration::from_millis))
}

/// What a loop does with a connection after its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Waits for its socket, the helper or the time.
    Wait,
    /// Has more to do.
    Again,
    /// Goes to the loop that serves its kind.
    Move,
    End,
}

/// What a connection needs for a turn.
pub(crate) struct Turn<'a> {
    pub(crate) server: &'a Server,
    pub(crate) inbox: &'a Arc<Inbox>,
    /// What the loop serves.
    pub(crate) kind: Kind,
    pub(crate) scratch: &'a mut [u8],
    pub(crate) now: Instant,
}

/// What a connection waits for, besides its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    None,
    /// The helper works for it.
    Helper,
    /// Its login is delayed.
    Until(Instant),
    /// Its session goes on once the output is sent.
    Resume,
    Wait,
    /// Its command is answered by the source.
    Source,
    /// It ends once the output is sent.
    Close,
}

pub(crate) struct Connection {
    id: u64,
    peer: Peer,
    transport: Transport,
    input: PacketBuffer,
    output: Output,
    /// Counts the memory of input.
    memory: Purse,
    /// Why the packet that is skipped is refused.
    refused: Option<SqlError>,
    /// Bytes of `output` that are in envelopes already.
    squeezed: usize,
    /// Bytes of `output` that the socket has taken.
    sent: usize,
    compression: Option<Compression>,
    /// Compression that begins once the login's OK is sent.
    compresses_next: Option<Algorithm>,
    login: Option<Box<Login>>,
    session: Option<Box<Session>>,
    hold: Hold,
    /// The wait of its statement.
    held: Option<Box<Held>>,
    deadline: Instant,
    why: Deadline,
    interest: Interest,
    /// What it needs to have statements answered by the source.
    forwarding: Option<Box<Forwarding>>,
    /// Its own loop, while the one for long texts serves it.
    pub(crate) home: Option<Arc<Inbox>>,
    asked: Asked,
}

/// Readiness of the client's socket to wait for, and what epoll was told.
struct Interest {
    wanted: EventFlags,
    told: EventFlags,
}

/// The command that came last.
struct Asked {
    at: Instant,
    /// True from the arrival of a statement until its answer is made.
    answers: bool,
}

/// What a deadline is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deadline {
    Login,
    /// None: it works, and what it waits for next has a time of its own.
    Busy,
    Idle,
    Packet,
    Write,
}

impl Connection {
    /// A connection whose greeting is put out; None without random bytes.
    pub(crate) fn new(socket: Socket, peer: Peer, id: u64, server: &Server) -> Option<Connection> {
        let mut connection = Connection {
            id,
            peer,
            transport: Transport::new(socket),
            input: PacketBuffer::strict(LOGIN_PACKET_BYTES),
            output: Output::default(),
            memory: server.gate.strangers_purse(),
            refused: None,
            squeezed: 0,
            sent: 0,
            compression: None,
            compresses_next: None,
            login: None,
            session: None,
            hold: Hold::None,
            held: None,
            deadline: Instant::now() + server.config.connect_timeout,
            why: Deadline::Login,
            interest: Interest { wanted: EventFlags::IN, told: EventFlags::IN },
            forwarding: None,
            home: None,
            asked: Asked { at: Instant::now(), answers: false },
        };
        connection.output.count_by(connection.memory.beside());
        let login = connection.new_login(server)?;
        let greeting = login.greeting(&server.greeting_version(), connection.number());
        connection.send(|out| out.extend_from_slice(&greeting));
        connection.login = Some(Box::new(login));
        Some(connection)
    }

    /// `CONNECTION_ID()`.
    fn number(&self) -> u32 {
        u32::try_from(self.id & u64::from(u32::MAX)).unwrap_or_default()
    }

    pub(crate) fn socket(&self) -> &Socket {
        self.transport.socket()
    }

    pub(crate) fn is_logged_in(&self) -> bool {
        self.session.is_some()
    }

    /// Readiness to wait for, if it is other than before.
    pub(crate) fn changed_interest(&mut self) -> Option<EventFlags> {
        let Interest { wanted, told } = &mut self.interest;
        (wanted != told).then(|| {
            *told = *wanted;
            *wanted
        })
    }

    /// Readiness to wait for, which a loop that takes the connection over is told.
    pub(crate) fn interest_again(&mut self) -> EventFlags {
        self.interest.told = self.interest.wanted;
        self.interest.wanted
    }

    fn is_at_long(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_at_long())
    }

    /// True if the other kind of loop is to serve what comes next.
    fn belongs_elsewhere(&self, turn: &Turn<'_>) -> bool {
        let Some(session) = self.session.as_ref().filter(|_| self.login.is_none()) else { return false };
        let is_long = self.input.pending_len() > LONG_BYTES
            || session.text_to_execute(self.input.peek()).is_some_and(|text| text.len() > LONG_BYTES);
        let kind = if is_long { Kind::Long } else { Kind::Sessions };
        kind != turn.kind && !turn.server.is_stopping()
    }

    /// Puts out a packet that continues the client's sequence.
    fn send(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        self.output.send(put);
        self.input.expect_sequence(self.output.sequence());
    }

    /// Goes on as far as possible.
    pub(crate) fn step(&mut self, turn: &mut Turn<'_>) -> Fate {
        if self.takes_acks()
            && let Err(fate) = self.take_acks(turn)
        {
            return fate;
        }
        let takes_long = turn.kind == Kind::Long || turn.server.is_stopping();
        if let Some(session) = &mut self.session {
            session.may_take_long(takes_long);
        }
        let mut taken = 0;
        for _ in 0..STEPS_A_TURN {
            if let Some(what) = self.session.as_mut().and_then(|session| session.take_defect()) {
                turn.server.facts.note(Note::Defect { connection: self.id, what });
            }
            if matches!(self.hold, Hold::None | Hold::Close) {
                self.note_answer(turn);
            }
            match self.flush(&turn.server.gate.sent) {
                Ok(true) => {}
                Ok(false) => {
                    self.release();
                    return self.wait(EventFlags::OUT | self.acks(), turn, Deadline::Write);
                }
                Err(_) => return Fate::End,
            }
            match self.hold {
                Hold::Close => return Fate::End,
                Hold::Helper | Hold::Until(_) => {
                    self.interest.wanted = EventFlags::empty();
                    return Fate::Wait;
                }
                Hold::Resume => {
                    let is_long = self.is_at_long();
                    // Others are not to wait for it.
                    if is_long && !takes_long {
                        return Fate::Move;
                    }
                    self.resume(turn);
                    if self.hold == Hold::Resume && (is_long || turn.now.elapsed() > TURN) {
                        return Fate::Again;
                    }
                }
                Hold::Wait => {
                    if !self.look_at_wait(turn) {
                        self.release();
                        return Fate::Wait;
                    }
                }
                Hold::Source => match self.go_on_at_source(turn) {
                    Ok(true) => {}
                    Ok(false) => {
                        self.release();
                        return Fate::Wait;
                    }
                    Err(fate) => return fate,
                },
                Hold::None if self.belongs_elsewhere(turn) => return Fate::Move,
                Hold::None if taken > LONG_BYTES => return Fate::Again,
                Hold::None => {
                    let pending = self.input.pending_len();
                    if let Err(fate) = self.look_at_idle_source(turn) {
                        return fate;
                    }
                    match self.next_packet(turn) {
                        Ok(true) => taken += pending.saturating_sub(self.input.pending_len()),
                        Ok(false) => return self.wait_for_input(turn),
                        Err(fate) => return fate,
                    }
                }
            }
        }
        Fate::Again
    }

    /// True if a replica may acknowledge what it gets.
    fn takes_acks(&self) -> bool {
        matches!(self.hold, Hold::Resume | Hold::Wait)
            && self.session.as_ref().is_some_and(|session| session.takes_acks())
    }

    fn acks(&self) -> EventFlags {
        if self.takes_acks() { EventFlags::IN } else { EventFlags::empty() }
    }

    /// Takes the acknowledgements that are there; anything else ends the connection.
    fn take_acks(&mut self, turn: &mut Turn<'_>) -> Result<(), Fate> {
        for _ in 0..STEPS_A_TURN {
            // Each one restarts the sequence.
            self.input.expect_sequence(0);
            match self.input.take() {
                Ok(Some(range)) => {
                    let payload = self.input.payload(range);
                    if !self.session.as_mut().is_some_and(|session| session.take_ack(payload)) {
                        return Err(Fate::End);
                    }
                }
                Ok(None) if self.input.pending_len() > ACK_BYTES_MAX => return Err(Fate::End),
                Ok(None) => {
                    if !self.read(turn)? {
                        break;
                    }
                }
                Err(_) => return Err(Fate::End),
            }
        }
        self.input.release(KEPT_BYTES);
        Ok(())
    }

    fn wait(&mut self, interest: EventFlags, turn: &Turn<'_>, why: Deadline) -> Fate {
        self.interest.wanted = interest;
        if self.why != why && self.why != Deadline::Login {
            self.set_deadline(why, turn.now);
        }
        Fate::Wait
    }

    fn wait_for_input(&mut self, turn: &Turn<'_>) -> Fate {
        self.release();
        let partial = self.input.pending_len() + self.compression.as_ref().map_or(0, Compression::pending_len);
        let is_partial = partial > 0 || self.input.is_skipping();
        self.wait(EventFlags::IN, turn, if is_partial { Deadline::Packet } else { Deadline::Idle })
    }

    /// Bytes that it holds for statements at the source.
    fn forwarding_memory(&self) -> usize {
        self.forwarding.as_ref().map_or(0, |forwarding| forwarding.memory())
    }

    /// Releases what input no longer needs.
    fn release(&mut self) {
        self.input.release(KEPT_BYTES);
        if let Some(compression) = &mut self.compression {
            compression.release();
        }
        let compressed = self.compression.as_ref().map_or(0, Compression::memory);
        let held = self.input.memory() + compressed + self.transport.memory() + self.forwarding_memory();
        // It was counted before it was taken.
        let _ = self.memory.keep_in_all(held as u64);
    }

    /// Counts what input will hold once so many bytes are added to it, and so many to what is compressed.
    fn will_hold(&self, plain: usize, compressed: usize) -> Result<(), SqlError> {
        let input = if plain == 0 { self.input.memory() } else { self.input.memory_with(plain) };
        let received = self.compression.as_ref().map_or(0, |compression| match compressed {
            0 => compression.memory(),
            len => compression.memory_with(len),
        });
        self.memory.keep_in_all((input + received + self.transport.memory() + self.forwarding_memory()) as u64)
    }

    fn set_deadline(&mut self, why: Deadline, now: Instant) {
        let seconds = |of: fn(&Session) -> u64| self.session.as_deref().map_or(u64::MAX, of);
        let span = match why {
            Deadline::Login | Deadline::Busy => return,
            Deadline::Packet => packet_within(),
            Deadline::Idle => Duration::from_secs(seconds(Session::wait_timeout_s).min(FAR_S)),
            Deadline::Write => Duration::from_secs(seconds(Session::net_write_timeout_s).min(FAR_S)),
        };
        (self.why, self.deadline) = (why, now + span);
    }

    /// Sends the output, and counts it; false if the socket is full.
    fn flush(&mut self, sent: &AtomicU64) -> std::io::Result<bool> {
        if !self.output.is_empty() {
            if let Some(compression) = &mut self.compression
                && self.squeezed < self.output.len()
            {
                let mut squeezed = Vec::new();
                let plain = self.output.bytes().get(self.squeezed..).unwrap_or_default();
                let put = compression.put(&mut squeezed, plain);
                put.map_err(|error| std::io::Error::other(error.to_string()))?;
                self.output.replace_from(self.squeezed, squeezed);
                self.squeezed = self.output.len();
            }
            let bytes = self.output.bytes();
            while let Some(rest) = bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
                match self.transport.write(rest)? {
                    0 => return Ok(false),
                    len => {
                        self.sent += len;
                        sent.fetch_add(len as u64, Relaxed);
                        // A client that reads at all is not one that never reads.
                        if self.why == Deadline::Write {
                            self.why = Deadline::Busy;
                        }
                    }
                }
            }
            (self.sent, self.squeezed) = (0, 0);
            self.output.taken();
        }
        if !self.transport.flush()? {
            return Ok(false);
        }
        if let Some(algorithm) = self.compresses_next.take() {
            if let Some(session) = &mut self.session {
                session.compressed();
            }
            self.compression = Some(Compression::new(algorithm));
            self.input.accept_any_sequence();
        }
        Ok(true)
    }

    /// Handles the next packet, or reads; false if there is nothing to read.
    fn next_packet(&mut self, turn: &mut Turn<'_>) -> Result<bool, Fate> {
        match self.input.take() {
            Ok(Some(range)) => {
                self.output.continue_from(self.input.sequence());
                if self.login.is_none() {
                    self.command(range, turn);
                } else {
                    // It may be a password.
                    let payload = Zeroizing::new(self.input.payload(range).to_vec());
                    self.input.wipe_taken();
                    self.login_packet(&payload, turn);
                }
                return Ok(true);
            }
            Ok(None) => {}
            Err(error) => {
                self.refuse(&broken(&error));
                return Ok(true);
            }
        }
        // The content is there twice for a moment: expanded, and where packets are collected.
        let content = self.compression.as_ref().and_then(Compression::next_len);
        if let Some(len) = content
            && let Err(error) = self.will_hold(2 * len, 0)
            && !self.skips(&error)
        {
            self.refuse(&error);
            return Ok(true);
        }
        if let Some(compression) = &mut self.compression {
            let input = &mut self.input;
            let mut skipped = None;
            match compression.open(|content| skipped = input.push(content)) {
                Ok(true) => {
                    self.skipped(skipped);
                    return Ok(true);
                }
                Ok(false) => {}
                Err(_) => {
                    let text = "Couldn't uncompress communication packet";
                    self.refuse(&SqlError::new(1157, "08S01", text));
                    return Ok(true);
                }
            }
        }
        self.read(turn)
    }

    fn read(&mut self, turn: &mut Turn<'_>) -> Result<bool, Fate> {
        // With little left, no more is read than fits without a grant: what does not fit is then part of a packet that
        // has begun, and can be skipped.
        let room = usize::try_from(self.memory.room()).unwrap_or(usize::MAX);
        let most =
            if self.memory.is_ample() { turn.scratch.len() } else { room.max(READ_LEAST).min(turn.scratch.len()) };
        let scratch = turn.scratch.get_mut(..most).unwrap_or_default();
        match self.transport.read(scratch) {
            Ok(Arrived::Bytes(len)) => {
                turn.server.gate.received.fetch_add(len as u64, Relaxed);
                let bytes = scratch.get(..len).unwrap_or_default();
                let counted = if self.compression.is_some() { self.will_hold(0, len) } else { self.will_hold(len, 0) };
                if let Err(error) = counted
                    && !self.skips(&error)
                {
                    self.refuse(&error);
                    return Ok(true);
                }
                let skipped = match &mut self.compression {
                    Some(compression) => {
                        compression.push(bytes);
                        None
                    }
                    None => self.input.push(bytes),
                };
                self.skipped(skipped);
                // Each part of a packet has its own time.
                if self.why == Deadline::Packet {
                    self.set_deadline(Deadline::Packet, turn.now);
                }
                Ok(true)
            }
            Ok(Arrived::Nothing) => Ok(false),
            Ok(Arrived::Handshake) => {
                // Nobody can be told anything yet.
                self.will_hold(0, 0).map_err(|_| Fate::End)?;
                let tls = self.transport.take_handshake().ok_or(Fate::End)?;
                self.submit(Work::Tls(tls), turn);
                Ok(true)
            }
            Ok(Arrived::Closed) | Err(_) => Err(Fate::End),
        }
    }

    /// Begins to skip the packet that arrives; false if that is not possible.
    fn skips(&mut self, error: &SqlError) -> bool {
        // What is compressed cannot be skipped before it is expanded.
        let can =
            self.session.is_some() && self.login.is_none() && self.hold == Hold::None && !self.input.is_skipping();
        if !can || !self.input.skip() {
            return false;
        }
        self.refused = Some(error.clone());
        self.release();
        true
    }

    /// Answers a packet that was skipped.
    fn skipped(&mut self, head: Option<[u8; SKIPPED_HEAD_LEN]>) {
        let Some(head) = head else { return };
        let (Some(error), Some(session)) = (self.refused.take(), &mut self.session) else { return };
        self.output.continue_from(self.input.sequence());
        let after = session.refuse(&head, &error, &mut self.output);
        self.after(after);
    }

    /// Gives work to the helper; a full queue ends the connection.
    fn submit(&mut self, work: Work, turn: &Turn<'_>) {
        let job = Job { inbox: Arc::clone(turn.inbox), connection: self.id, work };
        self.hold = if turn.server.submit(job) { Hold::Helper } else { Hold::Close };
    }

    pub(crate) fn worked(&mut self, worked: Worked, turn: &mut Turn<'_>) {
        match worked {
            Worked::Permit(permit) => return self.permitted(permit, turn),
            Worked::Opened(ticket, opened) => return self.source_opened(&ticket, *opened, turn),
            _ => self.hold = Hold::None,
        }
        match worked {
            Worked::Permit(_) | Worked::Opened(..) => {}
            Worked::Tls(tls, result) => {
                self.transport.return_handshake(tls);
                if result.is_err() {
                    self.hold = Hold::Close;
                }
            }
            Worked::Login(result) => {
                let step = self.login.as_mut().map(|login| login.worked(result));
                self.login_step(step, turn);
            }
            Worked::Nothing => self.hold = Hold::Close,
        }
    }

    fn command(&mut self, range: PayloadRange, turn: &mut Turn<'_>) {
        self.asked.at = turn.now;
        self.asked.answers = is_question(self.input.payload(range));
        turn.server.gate.running.fetch_add(usize::from(self.asked.answers), Relaxed);
        turn.server.gate.questions.fetch_add(u64::from(self.asked.answers), Relaxed);
        if self.forwards(range, turn) {
            return;
        }
        let Some(session) = &mut self.session else { return };
        let payload = self.input.payload(range);
        match session.command(payload, turn.server, &mut self.output) {
            After::ChangeUser => {
                let payload = payload.to_vec();
                self.change_user(&payload, turn);
            }
            after => self.settle(after, turn),
        }
    }

    /// Counts the statement whose answer is made, if there is one. A preparation counts if it failed.
    fn note_answer(&mut self, turn: &Turn<'_>) {
        let tally = &turn.server.gate.tally;
        if std::mem::take(&mut self.asked.answers) {
            turn.server.gate.running.fetch_sub(1, Relaxed);
            tally.note(self.asked.at.elapsed());
        }
        if let Some(failed) = self.session.as_mut().and_then(|session| session.take_failure()) {
            tally.note_failure(failed);
        }
    }

    fn resume(&mut self, turn: &mut Turn<'_>) {
        let Some(session) = &mut self.session else { return };
        let after = session.resume(turn.server, &mut self.output);
        self.settle(after, turn);
    }

    fn after(&mut self, after: After) {
        self.hold = match after {
            // Others were forwarded, or refused.
            After::Next | After::ChangeUser | After::NotHere => Hold::None,
            After::More => Hold::Resume,
            After::Wait => Hold::Wait,
            After::Close => Hold::Close,
        };
        self.input.expect_sequence(0);
        self.why = Deadline::Busy;
    }

    /// Sends an error and ends.
    fn refuse(&mut self, error: &SqlError) {
        self.output.send(|out| put_err(out, error.code, error.sqlstate, &error.message));
        self.hold = Hold::Close;
        self.deadline = self.deadline.min(Instant::now() + GOODBYE_WITHIN);
    }

    /// An error out of turn.
    fn refuse_idle(&mut self, error: &SqlError) {
        self.output.continue_from(0);
        self.refuse(error);
        self.deadline = Instant::now() + GOODBYE_WITHIN;
    }

    /// The engine is being started again: its snapshots are let go.
    pub(crate) fn give_up_snapshots(&mut self) {
        if let Some(session) = &mut self.session {
            session.give_up_snapshots();
        }
    }

    /// The account that is logged in.
    pub(crate) fn account(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.identity().account.as_str())
    }

    /// Its line in SHOW PROCESSLIST; None before the login.
    pub(crate) fn line(&self, now: Instant) -> Option<SessionLine> {
        let session = self.session.as_ref()?;
        let identity = session.identity();
        let works = matches!(self.hold, Hold::Resume | Hold::Wait);
        let forwarded = self.forwarding.as_ref().and_then(|forwarding| forwarding.text());
        let dump = session.dump_state().filter(|_| works);
        let (command, info) = match dump {
            Some((command, _)) => (command, None),
            None if forwarded.is_some() => ("Query", forwarded),
            None if works => session.statement_text(),
            None => ("Sleep", None),
        };
        Some(SessionLine {
            id: u64::from(self.number()),
            account: identity.account.clone(),
            user: identity.user.clone(),
            host: identity.peer_host.clone(),
            schema: session.schema_name(),
            command,
            time_s: now.saturating_duration_since(self.asked.at).as_secs(),
            state: match self.hold {
                _ if let Some((_, state)) = dump => state,
                Hold::Wait => session.waiting().map_or("", |waiting| state_of(&waiting.event)),
                Hold::Resume => "Sending to client",
                Hold::Source => "Waiting for the source's answer",
                _ => "",
            }
            .into(),
            info,
        })
    }

    /// KILL: ends the statement that waits or sends rows, and the connection unless only that is asked for.
    pub(crate) fn kill(&mut self, query: bool, turn: &mut Turn<'_>) {
        match self.hold {
            Hold::Wait => self.interrupt(Interrupt::Killed, turn),
            Hold::Resume => {
                if let Some(session) = &mut self.session {
                    let after = session.killed(&mut self.output);
                    self.after(after);
                }
            }
            Hold::Source => self.kill_at_source(query, turn),
            Hold::None if !query => self.refuse_idle(&SqlError::new(3169, "HY000", "Session was killed")),
            _ => {}
        }
        if !query {
            self.hold = Hold::Close;
            self.deadline = self.deadline.min(turn.now + GOODBYE_WITHIN);
        }
    }

    /// Looks at deadlines; true if it has something to do.
    pub(crate) fn look(&mut self, accounts_changed: bool, turn: &mut Turn<'_>) -> bool {
        let (now, server) = (turn.now, turn.server);
        if let (Some(session), Some(before)) = (&mut self.session, now.checked_sub(server.config.snapshot_age)) {
            session.give_up_older(before);
        }
        if accounts_changed
            && let Some(session) = &self.session
            && !server.accounts.still_valid(session.identity())
            && self.hold != Hold::Close
        {
            self.refuse_idle(&SqlError::new(3169, "HY000", "Session was killed"));
            return true;
        }
        if let Hold::Until(until) = self.hold
            && until <= now
        {
            self.hold = Hold::None;
            let step = self.login.as_mut().map(|login| login.waited());
            self.login_step(step, turn);
            return true;
        }
        if self.is_late_for_source(now) {
            return true;
        }
        if !self.look_at_source(turn) {
            self.hold = Hold::Close;
            return true;
        }
        let of_client = matches!(self.why, Deadline::Write | Deadline::Packet);
        if self.deadline > now
            || matches!(self.hold, Hold::Helper | Hold::Wait)
            || self.hold == Hold::Source && !of_client
        {
            return false;
        }
        self.timed_out();
        true
    }

    fn timed_out(&mut self) {
        match self.why {
            _ if self.hold == Hold::Close => self.output.taken(),
            Deadline::Idle => self.refuse_idle(&SqlError::new(4031, "HY000", INACTIVE)),
            Deadline::Packet => {
                self.refuse_idle(&SqlError::new(1159, "08S01", "Got timeout reading communication packets"));
            }
            Deadline::Login | Deadline::Busy | Deadline::Write => {
                self.output.taken();
                self.hold = Hold::Close;
            }
        }
        if self.hold == Hold::Close && self.output.is_empty() {
            (self.sent, self.squeezed) = (0, 0);
        }
    }

    /// The server stops: false if nothing is to be sent any more.
    pub(crate) fn shut_down(&mut self, turn: &mut Turn<'_>) -> bool {
        if self.session.is_none() || self.login.is_some() {
            return false;
        }
        self.interrupt(Interrupt::Shutdown, turn);
        if self.hold == Hold::None && self.output.is_empty() {
            self.refuse_idle(&SqlError::new(1053, "08S01", "Server shutdown in progress"));
        }
        true
    }

    /// Gives back what it holds of the server.
    pub(crate) fn end(&mut self, server: &Server) {
        self.held = None;
        if self.hold == Hold::Source {
            server.sources.forget(self.id);
        }
        self.leave_source(&server.sources);
        server.gate.running.fetch_sub(usize::from(std::mem::take(&mut self.asked.answers)), Relaxed);
        if let Some(mut session) = self.session.take() {
            session.end(server);
            server.gate.account_leaves(&session.identity().account);
            server.gate.leave();
        }
        self.transport.close();
    }
}

/// What a statement that waits does, in words as MySQL has them.
fn state_of(event: &Event) -> &'static str {
    match event {
        Event::Time => "User sleep",
        Event::Executed(_) | Event::Readable(_) => "Waiting for GTIDs to become visible",
        Event::Source { .. } => "Waiting for the source's executed GTIDs",
        Event::Position { .. } => "Waiting for the applier to catch up with the source position",
        Event::Sessions | Event::Listing => "init",
        Event::Kill { .. } => "Waiting for a session to be killed",
        Event::Replica(_) => "Starting or stopping replication threads",
        Event::LogChanged(_) => "Source has sent all binlog to replica; waiting for more updates",
    }
}

/// Deadlines further away than this, in seconds, are none: a year.
const FAR_S: u64 = 365 * 24 * 3600;

const INACTIVE: &str = "The client was disconnected by the server because of inactivity. See wait_timeout and \
                        interactive_timeout for configuring this behavior.";

fn broken(error: &WireError) -> SqlError {
    match error {
        WireError::TooLarge { .. } => {
            SqlError::new(1153, "08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
        }
        _ => SqlError::new(1156, "08S01", "Got packets out of order"),
    }
}
