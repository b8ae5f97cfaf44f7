//! A session's connection to the source.
//!
//! In: a connection that was opened, bytes to send. Out: bytes that came, the connection itself for the next session of
//! the account. Never here: what is said over it, and what a session has there.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use client::NonBlocking;
use rustix::event::epoll::{self, EventFlags};
use session::Mark;
use tier::Answer;
use wire::packet;

use super::Turn;
use super::asked::{Own, OwnKind};
use crate::source::{Idle, Key, Opened, Permit, Reuse, Sources};

/// Memory that an idle link keeps for commands, in bytes.
const KEPT_BYTES: usize = 1024;

/// The session's connection to the source.
pub(super) struct Link {
    pub(super) stream: NonBlocking,
    pub(super) permit: Option<Permit>,
    /// The number of its source.
    pub(super) number: u64,
    /// The client is told whatever the source says of its session.
    pub(super) shows_state: bool,
    /// The source says by itself that a session has changed.
    pub(super) tracks_by_itself: bool,
    pub(super) to_send: Vec<u8>,
    pub(super) sent: usize,
    /// Bytes of a packet that is not whole.
    pub(super) received: Vec<u8>,
    /// Statements of our own that are to be run first, and the answer to the one that runs.
    pub(super) own: VecDeque<Own>,
    pub(super) own_answer: Option<(Answer, OwnKind)>,
    /// The error of a statement of our own, as the source sent it.
    pub(super) own_error: Vec<u8>,
    /// What its session is like; None before anything was said of it.
    pub(super) mark: Option<Mark>,
    pub(super) opened: Instant,
    /// What epoll watches its socket for; None: not at all.
    pub(super) watched: Option<EventFlags>,
    /// The epoll that does.
    pub(super) watched_by: Option<Arc<OwnedFd>>,
    /// Something has come while nothing was asked for.
    pub(super) is_ready: bool,
    /// Its end has been told by epoll, which would tell it again and again.
    pub(super) has_hung_up: bool,
    pub(super) reuse: Reuse,
    /// A KILL of it is on its way, which no other session may meet.
    pub(super) is_killed: bool,
}

impl Link {
    pub(super) fn new(opened: Opened) -> Link {
        let Opened { stream, permit, number, shows_state, reuse, .. } = opened;
        Link {
            stream,
            permit: Some(permit),
            number,
            shows_state,
            tracks_by_itself: shows_state,
            to_send: Vec::new(),
            sent: 0,
            received: Vec::new(),
            own: VecDeque::new(),
            own_answer: None,
            own_error: Vec::new(),
            mark: None,
            opened: Instant::now(),
            watched: None,
            watched_by: None,
            is_ready: false,
            has_hung_up: false,
            reuse,
            is_killed: false,
        }
    }

    /// Takes leave, if the source listens: it counts and logs clients that do not.
    pub(super) fn close(mut self) {
        if !self.is_unsent() && !self.has_hung_up {
            self.put(&[wire::command::QUIT], 0);
            // Whether it arrives is not awaited.
            let _ = self.flush();
        }
    }

    /// Another session of the account may have it: this one has nothing there that a new login does not end.
    pub(super) fn give_back(mut self) {
        match self.take_reusable() {
            Some((permit, key, until)) => permit.give_back(Idle::new(self.stream, key, until)),
            None => self.close(),
        }
    }

    /// As [`give_back`](Self::give_back), after what the session has there was ended at once: others may wait for it.
    pub(super) fn give_back_reset(mut self, sources: &Sources) {
        let Some((permit, key, until)) = self.take_reusable() else { return self.close() };
        self.put(&[wire::command::RESET_CONNECTION], 0);
        if self.flush().is_ok_and(|is_sent| is_sent) {
            sources.reset(self.stream, permit, key, until);
        }
    }

    /// No epoll tells of it any more.
    pub(super) fn unwatch(&mut self) {
        self.watched = None;
        if let Some(epoll) = self.watched_by.take() {
            // It is gone from there even if this fails: its number is no longer known to that loop.
            let _ = epoll::delete(&epoll, &self.stream);
        }
    }

    /// What others need to have it; None if they cannot.
    pub(super) fn take_reusable(&mut self) -> Option<(Permit, Key, Instant)> {
        let is_whole = !self.is_unsent() && !self.has_hung_up && self.received.is_empty();
        let key = self.reuse.key.take_if(|_| is_whole && !self.is_killed)?;
        self.unwatch();
        Some((self.permit.take()?, key, Instant::now() + self.reuse.idle_for))
    }

    /// True if another source is followed now.
    pub(super) fn is_of_another(&self, turn: &Turn<'_>) -> bool {
        turn.server.facts.source_number().is_some_and(|number| number != self.number)
    }

    /// True if bytes wait for the source's socket, here or in TLS.
    pub(super) fn is_unsent(&self) -> bool {
        !self.to_send.is_empty() || self.stream.wants_write()
    }

    pub(super) fn put(&mut self, payload: &[u8], mut sequence: u8) {
        packet::write(&mut self.to_send, &mut sequence, payload);
    }

    /// Sends what there is to send; false if some is left.
    pub(super) fn flush(&mut self) -> std::io::Result<bool> {
        while let Some(rest) = self.to_send.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest)? {
                0 => return Ok(false),
                len => self.sent += len,
            }
        }
        if !self.to_send.is_empty() {
            self.to_send.clear();
            self.to_send.shrink_to(KEPT_BYTES);
            self.sent = 0;
        }
        self.stream.flush()
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
