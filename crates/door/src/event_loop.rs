//! One thread with an epoll loop: the one that accepts connections and logs them in, one of those that serve sessions,
//! or the one that serves a session while its input is long.
//!
//! In: new sockets, results of the helper, readiness, the time. Out: connections that are stepped. Never here: a system
//! call that waits, but for epoll's own.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use accounts::Peer;
use rustix::event::{EventfdFlags, Timespec, epoll};

use crate::census::{Census, Killed, Question};
use crate::config::Note;
use crate::connection::{Connection, Fate, TURN, Turn};
use crate::guarded::guarded;
use crate::helper::Worked;
use crate::server::Server;
use crate::transport::Socket;

/// Events taken from one call of epoll.
const EVENTS_MAX: usize = 256;
/// Connections accepted in one turn: others are served in between.
const ACCEPTS_A_TURN: usize = 64;
/// How often deadlines are looked at. They are of seconds.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Bytes read from a socket at once; one buffer a loop, so that idle connections hold none.
const READ_BYTES: usize = 64 << 10;
/// Connections without login; the oldest ends when one more comes.
pub(crate) const UNAUTHENTICATED_MAX: usize = 1_000;

const WAKE: u64 = 0;
const TCP: u64 = 1;
const UNIX: u64 = 2;
// Numbers of connections are larger: `Gate::number`.
/// With a connection's number: its socket to the source.
const OF_SOURCE: u64 = 1 << 63;

/// Which connections a loop serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Those that are not logged in yet. It accepts them, and takes second place to sessions: whoever connects without
    /// end, or sends anything instead of a login, delays other logins and nobody's statements.
    Logins,
    Sessions,
    /// Sessions while their input is long.
    Long,
}

/// Where each kind of connection is served.
#[derive(Debug, Clone)]
pub(crate) struct Loops {
    pub(crate) logins: Arc<Inbox>,
    /// They get sessions by turns.
    pub(crate) sessions: Vec<Arc<Inbox>>,
    pub(crate) long: Arc<Inbox>,
}

/// A connection on its way from one loop to another.
struct Moved {
    id: u64,
    connection: Connection,
    /// What its loop had looked at.
    generation: u64,
    given_up: u64,
}

/// How other threads reach a loop.
#[derive(Debug)]
pub(crate) struct Inbox {
    mail: Mutex<Mail>,
    wake: OwnedFd,
}

#[derive(Default)]
struct Mail {
    moved: Vec<Moved>,
    worked: Vec<(u64, Worked)>,
    woken: Vec<u64>,
    asked: Vec<Arc<Census>>,
}

impl Mail {
    fn is_empty(&self) -> bool {
        let is_empty = self.moved.is_empty() && self.worked.is_empty();
        is_empty && self.woken.is_empty() && self.asked.is_empty()
    }
}

impl std::fmt::Debug for Mail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mail({} connections, {} results)", self.moved.len(), self.worked.len())
    }
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Inbox> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Inbox { mail: Mutex::default(), wake })
    }

    fn put(&self, put: impl FnOnce(&mut Mail)) {
        let mut mail = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever put the first one has woken the loop.
        let wakes = mail.is_empty();
        put(&mut mail);
        drop(mail);
        if wakes {
            self.wake();
        }
    }

    /// The helper is done with a connection's work.
    pub(crate) fn worked(&self, connection: u64, worked: Worked) {
        self.put(|mail| mail.worked.push((connection, worked)));
    }

    /// What a connection waits for has come, or is to be looked at again.
    pub(crate) fn woken(&self, connection: u64) {
        self.put(|mail| mail.woken.push(connection));
    }

    /// A question that each loop answers.
    pub(crate) fn ask(&self, census: Arc<Census>) {
        self.put(|mail| mail.asked.push(census));
    }

    /// Gets a connection from another loop.
    fn takes_over(&self, moved: Moved) {
        self.put(|mail| mail.moved.push(moved));
    }

    /// True if a question waits for the loop's answer.
    fn is_asked(&self) -> bool {
        !self.mail.lock().unwrap_or_else(PoisonError::into_inner).asked.is_empty()
    }

    /// Makes the loop look at its inbox and at whether to stop.
    pub(crate) fn wake(&self) {
        // Full means that it is awake anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// The listeners, which one loop has.
#[derive(Debug, Default)]
pub(crate) struct Accepting {
    pub(crate) tcp: Option<TcpListener>,
    pub(crate) unix: Option<UnixListener>,
}

/// A turn of a connection that is borrowed from the same loop.
macro_rules! turn {
    ($of:ident) => {
        Turn { server: &$of.server, inbox: &$of.inbox, kind: $of.kind, scratch: &mut $of.scratch, now: Instant::now() }
    };
}

pub(crate) struct EventLoop {
    server: Arc<Server>,
    inbox: Arc<Inbox>,
    kind: Kind,
    loops: Loops,
    /// The loop that gets the next session.
    next: usize,
    epoll: Arc<OwnedFd>,
    accepting: Accepting,
    connections: HashMap<u64, Connection>,
    unauthenticated: BTreeSet<u64>,
    /// When waits of connections are looked at.
    timers: BTreeSet<(Instant, u64)>,
    /// Connections that have more to do after their turn, in the order of their turns.
    again: VecDeque<u64>,
    scratch: Vec<u8>,
    /// Accounts' generation that sessions were checked against.
    generation: u64,
    /// How often snapshots were given up.
    given_up: u64,
    /// Questions that were read from the inbox are not all answered.
    is_answering: bool,
    told_no_descriptors: bool,
}

impl EventLoop {
    pub(crate) fn new(
        server: Arc<Server>,
        kind: Kind,
        inbox: Arc<Inbox>,
        loops: Loops,
        accepting: Accepting,
    ) -> io::Result<EventLoop> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&epoll, &inbox.wake, epoll::EventData::new_u64(WAKE), readable)?;
        if let Some(listener) = &accepting.tcp {
            epoll::add(&epoll, listener, epoll::EventData::new_u64(TCP), readable)?;
        }
        if let Some(listener) = &accepting.unix {
            epoll::add(&epoll, listener, epoll::EventData::new_u64(UNIX), readable)?;
        }
        let generation = server.accounts.generation();
        Ok(EventLoop {
            server,
            kind,
            inbox,
            loops,
            next: 0,
            epoll: Arc::new(epoll),
            accepting,
            connections: HashMap::new(),
            unauthenticated: BTreeSet::new(),
            timers: BTreeSet::new(),
            again: VecDeque::new(),
            scratch: vec![0; READ_BYTES],
            generation,
            given_up: 0,
            is_answering: false,
            told_no_descriptors: false,
        })
    }

    /// Runs until the server stops and its connections have ended, or their time is over.
    pub(crate) fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut looked = Instant::now();
        let mut slices = (self.kind == Kind::Sessions).then(base::priority::Slices::of_this_thread);
        loop {
            events.clear();
            let timeout = self.timeout();
            let waited = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref());
            if waited.is_err_and(|error| error != rustix::io::Errno::INTR) {
                return;
            }
            self.ring();
            for event in &events {
                self.event(event.data.u64(), event.flags);
            }
            self.go_on();
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                self.look();
                if let Some(slices) = &mut slices {
                    slices.look();
                }
            }
            if self.server.is_stopping() && self.wind_down() {
                return;
            }
        }
    }

    /// Gives turns to those who had one and are not done. What arrives meanwhile does not wait for all of them.
    fn go_on(&mut self) {
        let begun = Instant::now();
        for _ in 0..self.again.len() {
            let Some(id) = self.again.pop_front() else { return };
            self.turn(id);
            if begun.elapsed() > TURN {
                return;
            }
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        let next = self.timers.first().map(|(at, _)| at.saturating_duration_since(Instant::now()));
        let wait = match (self.again.is_empty(), self.connections.is_empty()) {
            (false, _) => Duration::ZERO,
            (true, false) => next.map_or(LOOK_EVERY, |next| next.min(LOOK_EVERY)),
            // Statements without a client are looked at.
            (true, true) if self.server.sources.has_left() => LOOK_EVERY,
            (true, true) => return None,
        };
        Timespec::try_from(wait).ok()
    }

    fn event(&mut self, number: u64, flags: epoll::EventFlags) {
        match number {
            WAKE => self.read_inbox(),
            TCP | UNIX => self.accept(number),
            number if number & OF_SOURCE != 0 => {
                let id = number & !OF_SOURCE;
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.source_ready(flags);
                    self.turn(id);
                }
            }
            id if flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::RDHUP) => self.end(id),
            id if flags.contains(epoll::EventFlags::HUP) && !flags.contains(epoll::EventFlags::IN) => self.end(id),
            id => self.turn(id),
        }
    }

    /// Looks at waits whose time is over.
    fn ring(&mut self) {
        let now = Instant::now();
        while let Some((_, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.pop_first();
            self.turn(id);
        }
    }

    fn read_inbox(&mut self) {
        let mut count = [0; 8];
        // Nothing to read means that another turn has read it.
        let _ = rustix::io::read(&self.inbox.wake, &mut count);
        let given_up = self.server.given_up.load(SeqCst);
        if std::mem::replace(&mut self.given_up, given_up) != given_up {
            self.connections.values_mut().for_each(Connection::give_up_snapshots);
        }
        let Mail { moved, worked, woken, asked } =
            std::mem::take(&mut *self.inbox.mail.lock().unwrap_or_else(PoisonError::into_inner));
        // Before questions: whoever left another loop before it was asked is counted here, and stays until then.
        self.is_answering = true;
        for moved in moved {
            self.take_over(moved);
        }
        for census in asked {
            self.answer(&census);
            census.answered();
        }
        self.is_answering = false;
        for (id, worked) in worked {
            if self.guarded(id, |connection, turn| connection.worked(worked, turn)).is_some() {
                self.turn(id);
            }
        }
        for id in woken {
            if self.connections.get(&id).is_some_and(Connection::is_waiting) {
                self.turn(id);
            }
        }
    }

    fn answer(&mut self, census: &Census) {
        match &census.question {
            Question::Sessions => {
                let now = Instant::now();
                let lines = self.connections.values().filter_map(|connection| connection.line(now));
                let mut answers = census.answers();
                lines.for_each(|line| answers.add(line));
            }
            Question::Kill { id, query, by, is_admin } => {
                // Killed already: it has moved here since.
                if census.answers().killed == Some(Killed::Yes) {
                    return;
                }
                let Some(connection) = self.connections.get_mut(id) else { return };
                let Some(owner) = connection.account() else { return };
                let may = *is_admin || owner == by;
                census.answers().killed = Some(if may { Killed::Yes } else { Killed::NotOwner });
                if may && self.guarded(*id, |connection, turn| connection.kill(*query, turn)).is_some() {
                    self.turn(*id);
                }
            }
        }
    }

    /// Accepts what waits, up to a number.
    fn accept(&mut self, number: u64) {
        for _ in 0..ACCEPTS_A_TURN {
            let accepted = match number {
                TCP => self.accepting.tcp.as_ref().map(accept_tcp),
                _ => self.accepting.unix.as_ref().map(accept_unix),
            };
            match accepted {
                None => return,
                Some(Ok((socket, peer))) => self.begin(socket, peer),
                Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => return,
                Some(Err(error)) if is_out_of_descriptors(&error) => return self.make_room(),
                // A client that is gone before it was accepted.
                Some(Err(_)) => {}
            }
        }
    }

    /// Without descriptors the oldest connection that is not logged in ends.
    fn make_room(&mut self) {
        if !self.told_no_descriptors {
            self.told_no_descriptors = true;
            self.server.facts.note(Note::NoDescriptors);
        }
        match self.unauthenticated.first().copied() {
            Some(oldest) => self.end(oldest),
            // Accepting fails at once again until a connection ends: not in a hurry.
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }

    fn begin(&mut self, socket: Socket, peer: Peer) {
        self.server.gate.accepted.fetch_add(1, Relaxed);
        let id = self.server.gate.number();
        let Some(connection) = Connection::new(socket, peer, id, &self.server) else { return };
        let data = epoll::EventData::new_u64(id);
        if epoll::add(&self.epoll, connection.socket().as_fd(), data, epoll::EventFlags::IN).is_err() {
            return;
        }
        self.connections.insert(id, connection);
        self.unauthenticated.insert(id);
        self.server.gate.unauthenticated.fetch_add(1, Relaxed);
        if self.unauthenticated.len() > UNAUTHENTICATED_MAX
            && let Some(oldest) = self.unauthenticated.first().copied()
        {
            self.end(oldest);
        }
        self.turn(id);
    }

    /// Steps a connection as far as it goes.
    fn turn(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let before = connection.wakes_at();
        let turn = &mut turn!(self);
        let fate = guarded(&*self.server.facts, id, || connection.step(turn));
        let Some(fate) = fate else { return self.end(id) };
        let after = connection.wakes_at();
        if let Some(at) = before.filter(|_| before != after) {
            self.timers.remove(&(at, id));
        }
        self.timers.extend(after.map(|at| (at, id)));
        if connection.is_logged_in() && self.unauthenticated.remove(&id) {
            self.server.gate.unauthenticated.fetch_sub(1, Relaxed);
        }
        match fate {
            Fate::End => return self.end(id),
            Fate::Again => self.again.push_back(id),
            Fate::Move => return self.hand_over(id),
            Fate::Wait => {}
        }
        let is_watched = connection.watch_source(&self.epoll, id | OF_SOURCE);
        let is_told = connection.changed_interest().is_none_or(|flags| {
            let data = epoll::EventData::new_u64(id);
            epoll::modify(&self.epoll, connection.socket().as_fd(), data, flags).is_ok()
        });
        if !is_watched || !is_told {
            self.end(id);
        }
    }

    /// Gives a connection to the loop that serves its kind.
    fn hand_over(&mut self, id: u64) {
        let server = Arc::clone(&self.server);
        let _moves = server.moves();
        // Not between a question and its answer, and not into a loop that has ended.
        if self.is_answering || self.inbox.is_asked() || server.is_stopping() {
            return self.again.push_back(id);
        }
        let Some(mut connection) = self.connections.remove(&id) else { return };
        let to = match self.kind {
            Kind::Logins => self.next_for_sessions(),
            Kind::Sessions => {
                connection.home = Some(Arc::clone(&self.inbox));
                Arc::clone(&self.loops.long)
            }
            Kind::Long => connection.home.take().unwrap_or_else(|| self.next_for_sessions()),
        };
        // It is gone from this epoll even if that fails: its number is no longer known here.
        let _ = epoll::delete(&self.epoll, connection.socket().as_fd());
        connection.unwatch_source();
        to.takes_over(Moved { id, connection, generation: self.generation, given_up: self.given_up });
    }

    fn next_for_sessions(&mut self) -> Arc<Inbox> {
        self.next = (self.next + 1) % self.loops.sessions.len().max(1);
        Arc::clone(self.loops.sessions.get(self.next).unwrap_or(&self.inbox))
    }

    /// Serves a connection from now on.
    fn take_over(&mut self, moved: Moved) {
        let Moved { id, mut connection, generation, given_up } = moved;
        if given_up != self.given_up {
            connection.give_up_snapshots();
        }
        let (data, flags) = (epoll::EventData::new_u64(id), connection.interest_again());
        let is_added = epoll::add(&self.epoll, connection.socket().as_fd(), data, flags).is_ok();
        self.connections.insert(id, connection);
        if !is_added {
            return self.end(id);
        }
        if generation != self.generation {
            self.guarded(id, |connection, turn| connection.look(true, turn));
        }
        self.turn(id);
    }

    fn end(&mut self, id: u64) {
        if self.unauthenticated.remove(&id) {
            self.server.gate.unauthenticated.fetch_sub(1, Relaxed);
        }
        if let Some(mut connection) = self.connections.remove(&id) {
            if let Some(at) = connection.wakes_at() {
                self.timers.remove(&(at, id));
            }
            // Closing the socket takes it out of epoll too.
            let server = &*self.server;
            guarded(&*server.facts, id, move || connection.end(server));
            self.trim();
        }
    }

    /// Has the allocator give back what clients no longer hold: it keeps it in the arenas of the loops' threads.
    fn trim(&self) {
        if self.server.gate.has_fallen() {
            // If too many wait for the thread, the next fall is told again.
            let _ = self.server.list(Box::new(base::allocator::trim));
        }
    }

    /// Does something with a connection; None if there is none, or if it panicked and was ended.
    fn guarded<T>(&mut self, id: u64, work: impl FnOnce(&mut Connection, &mut Turn<'_>) -> T) -> Option<T> {
        let connection = self.connections.get_mut(&id)?;
        let turn = &mut turn!(self);
        let done = guarded(&*self.server.facts, id, || work(connection, turn));
        if done.is_none() {
            self.end(id);
        }
        done
    }

    /// Looks at deadlines, and at accounts that were changed.
    fn look(&mut self) {
        self.trim();
        self.server.sources.look(&*self.server.facts);
        let generation = self.server.accounts.generation();
        let changed = std::mem::replace(&mut self.generation, generation) != generation;
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        for id in ids {
            if self.guarded(id, |connection, turn| connection.look(changed, turn)) == Some(true) {
                self.turn(id);
            }
        }
    }

    /// Closes what is idle; true once all have ended.
    fn wind_down(&mut self) -> bool {
        self.accepting = Accepting::default();
        self.server.sources.let_go();
        self.read_inbox();
        let is_over = self.server.drain_is_over();
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        for id in ids {
            if is_over || self.guarded(id, Connection::shut_down) != Some(true) {
                self.end(id);
            } else {
                self.turn(id);
            }
        }
        self.connections.is_empty()
    }
}

fn accept_tcp(listener: &TcpListener) -> io::Result<(Socket, Peer)> {
    let (socket, address) = listener.accept()?;
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    Ok((Socket::Tcp(socket), Peer::Tcp(address.ip())))
}

fn accept_unix(listener: &UnixListener) -> io::Result<(Socket, Peer)> {
    let (socket, _) = listener.accept()?;
    socket.set_nonblocking(true)?;
    let uid = rustix::net::sockopt::socket_peercred(&socket)?.uid.as_raw();
    Ok((Socket::Unix(socket), Peer::Socket { uid }))
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(code, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}
